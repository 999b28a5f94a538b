/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and kernels inside core.
 */
#ifndef DHOWI_KERNEL_KERNEL_H_
#define DHOWI_KERNEL_KERNEL_H_

#include "dhow/kernel.h"
#include "kernel/signature.h"
#include "tensor/tensor.h"

/* Kernels of the dialect exist for 32- and 64-bit indices; 0 and 1 stand for them. */
enum { DHOWI_INDEX_32 = 0, DHOWI_INDEX_64 = 1, DHOWI_INDEX_WIDTHS = 2 };

struct dhow_module {
    dhowi_handle handle;
    dhow_device *device;
    uint32_t format;
    char name[96];
    char *text; /* source or image, kept for the other index width */
    uint64_t text_bytes;
    char *options;
    const dhow_module_image *images; /* the program's static data */
    uint64_t image_count;
    dhowi_found_kernel *kernels;
    uint32_t kernel_count;
    bool builtin;          /* a text of dhow's own */
    pthread_mutex_t mutex; /* building */
    _Atomic(void *) native[DHOWI_INDEX_WIDTHS];
};

struct dhow_kernel {
    dhowi_handle handle;
    dhow_device *device;
    dhow_module *module; /* owned by users' kernels, borrowed or NULL for built-in ones */
    bool builtin;
    bool checked; /* its signature is known */
    char name[64];
    const char *signature_text;
    dhowi_signature signature;
    _Atomic(void *) native[DHOWI_INDEX_WIDTHS];
};

/* The position of a built-in kernel in the generated table, or -1. */
int32_t dhowi_builtin_index(const char *name);
/* A built-in kernel of a device; borrowed, it lives as long as the device. UNSUPPORTED names kernel
 * and device. */
dhow_status dhowi_builtin_kernel(dhow_device *device, int32_t index, dhow_kernel **out);
/* The same by name. */
dhow_status dhowi_builtin_kernel_named(dhow_device *device, const char *name, dhow_kernel **out);

/* The plugin's kernel for an index width, built on first use. */
dhow_status dhowi_kernel_native(dhow_kernel *kernel, int width, void **out);

/* The width that `elements` need on a device. */
static inline int dhowi_index_width(const dhow_device *device, int64_t elements) {
    /* Room for the threads that run past the end. */
    const int64_t limit = INT64_C(0x7fffffff) - (1 << 24);
    bool narrow = (device->desc.index_bits & 32u) != 0, wide = (device->desc.index_bits & 64u) != 0;
    return narrow && (elements < limit || !wide) ? DHOWI_INDEX_32 : DHOWI_INDEX_64;
}

/* Submits a kernel whose arguments are already checked: what operations use. `span` is one more
 * than the largest element index the kernel forms; it decides the index width. */
dhow_status dhowi_launch(dhow_stream *stream, dhow_kernel *kernel, int64_t work, int64_t span,
                         const dhow_arg *args, uint32_t arg_count, const dhowi_use *uses,
                         uint32_t use_count);

/* ---- dims.c: extents and strides for the kernels of GPUs ---- */

/* What kernels with indices of 32 bits divide by an extent with, see OVER() in kernel/k.h. */
int64_t dhowi_multiplier(int64_t extent);
/* Those of all extents, where a launch on the device needs them; the result is the launch's span.
 */
int64_t dhowi_multipliers(const dhow_device *device, const dhow_dims *dims, int64_t span,
                          int64_t multipliers[DHOW_MAX_RANK]);
/* How many elements of a type an item takes at once, as SHARE() in kernel/k.h. */
int64_t dhowi_share_of(dhow_dtype dtype);
/* Whether rows of these strides begin on multiples of `count` elements, a power of two, of which as
 * many lie side by side, or are one. */
bool dhowi_has_shares(const dhow_dims *dims, const int64_t *strides, int64_t count);

/* How the items of elementwise kernels take packs, as kernels/packs.h has it: a share of all
 * elements, or 16 bytes of f16 and bf16. `mode` 0: not at all, 1: rows are made of packs, 2: only
 * the result is, and rows meet in them. */
typedef struct dhowi_packs {
    int64_t mode, kind[4], length, multiplier;
} dhowi_packs;
/* Of at most four operands with these strides. */
dhowi_packs dhowi_packs_of(const dhow_dims *dims, const int64_t *const *strides, uint32_t count,
                           const int64_t *result, dhow_dtype dtype);

/* Arguments of dhowi_launch(). */
static inline dhow_arg dhowi_arg_buffer(const dhow_tensor *t, uint32_t access) {
    return (dhow_arg){.kind = DHOW_ARG_BUFFER,
                      .bytes = access,
                      .u.buffer = {t->storage->native, dhowi_tensor_offset_bytes(t)}};
}
static inline dhow_arg dhowi_arg_i64(int64_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = (uint64_t)value};
}
static inline dhow_arg dhowi_arg_i32(int32_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 4, .u.value = (uint32_t)value};
}
static inline dhow_arg dhowi_arg_f32(float value) {
    union {
        float f;
        uint32_t u;
    } bits = {value};
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 4, .u.value = bits.u};
}
static inline dhow_arg dhowi_arg_f64(double value) {
    union {
        double f;
        uint64_t u;
    } bits = {value};
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = bits.u};
}
static inline dhow_arg dhowi_arg_dims(const dhow_dims *dims) {
    return (dhow_arg){.kind = DHOW_ARG_DIMS, .bytes = (uint32_t)sizeof *dims, .u.dims = dims};
}

#endif /* DHOWI_KERNEL_KERNEL_H_ */
