/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN, opened at run time: its functions as a table, and the differences between the C API of
 * version 2 (Debian 12) and version 3, so that the code above them reads the same for both.
 * Compiled against the headers found; only libraries of that major version are used.
 */
#ifndef DHOW_PLUGINS_CPU_ONEDNN_H_
#define DHOW_PLUGINS_CPU_ONEDNN_H_

#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>

#include "activate.h"
#include "cpu.h"
#include "panels.h"

#if DNNL_VERSION_MAJOR == 2
#define ONEDNN_VERSION_FUNCTIONS(X)                        \
    X(dnnl_memory_desc_init_by_strides)                    \
    X(dnnl_memory_desc_init_by_tag)                        \
    X(dnnl_matmul_desc_init)                               \
    X(dnnl_dilated_convolution_forward_desc_init)          \
    X(dnnl_dilated_convolution_backward_data_desc_init)    \
    X(dnnl_dilated_convolution_backward_weights_desc_init) \
    X(dnnl_primitive_attr_set_zero_points)                 \
    X(dnnl_primitive_desc_create)
typedef dnnl_memory_desc_t onednn_md; /* a value; ndims 0 is "none" */
#define MD(md) (&(md))
#elif DNNL_VERSION_MAJOR == 3
#define ONEDNN_VERSION_FUNCTIONS(X)                            \
    X(dnnl_memory_desc_create_with_strides)                    \
    X(dnnl_memory_desc_create_with_tag)                        \
    X(dnnl_memory_desc_clone)                                  \
    X(dnnl_memory_desc_destroy)                                \
    X(dnnl_matmul_primitive_desc_create)                       \
    X(dnnl_convolution_forward_primitive_desc_create)          \
    X(dnnl_convolution_backward_data_primitive_desc_create)    \
    X(dnnl_convolution_backward_weights_primitive_desc_create) \
    X(dnnl_primitive_attr_set_zero_points_mask)
typedef dnnl_memory_desc_t onednn_md; /* a pointer; NULL is "none" */
#define MD(md) (md)
#else
#error "oneDNN 2 or 3"
#endif

#define ONEDNN_FUNCTIONS(X)                    \
    X(dnnl_version)                            \
    X(dnnl_engine_create)                      \
    X(dnnl_stream_create)                      \
    X(dnnl_stream_destroy)                     \
    X(dnnl_stream_wait)                        \
    X(dnnl_memory_create)                      \
    X(dnnl_memory_destroy)                     \
    X(dnnl_memory_set_data_handle)             \
    X(dnnl_memory_desc_get_size)               \
    X(dnnl_memory_desc_equal)                  \
    X(dnnl_primitive_attr_create)              \
    X(dnnl_primitive_attr_destroy)             \
    X(dnnl_primitive_attr_set_post_ops)        \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_attr_set_fpmath_mode)     \
    X(dnnl_post_ops_create)                    \
    X(dnnl_post_ops_destroy)                   \
    X(dnnl_post_ops_append_eltwise)            \
    X(dnnl_post_ops_append_sum)                \
    X(dnnl_post_ops_append_binary)             \
    X(dnnl_primitive_desc_query_md)            \
    X(dnnl_primitive_desc_query)               \
    X(dnnl_primitive_desc_destroy)             \
    X(dnnl_primitive_desc_clone)               \
    X(dnnl_primitive_create)                   \
    X(dnnl_primitive_get_primitive_desc)       \
    X(dnnl_get_primitive_cache_capacity)       \
    X(dnnl_set_primitive_cache_capacity)       \
    X(dnnl_primitive_execute)                  \
    X(dnnl_primitive_destroy)                  \
    X(dnnl_reorder_primitive_desc_create)      \
    X(dnnl_get_effective_cpu_isa)              \
    X(dnnl_set_max_cpu_isa)                    \
    X(dnnl_sgemm)                              \
    ONEDNN_VERSION_FUNCTIONS(X)

typedef struct onednn_library {
#define ONEDNN_MEMBER(name) __typeof__(&name) name;
    ONEDNN_FUNCTIONS(ONEDNN_MEMBER)
#undef ONEDNN_MEMBER
    dnnl_engine_t engine;
} onednn_library;

/* Opens the library once per process; NULL with err filled where that fails. */
const onednn_library *onednn_open(dhow_error *err);
extern onednn_library onednn_loaded; /* what it opened */
int32_t onednn_fail(dhow_error *err, const char *what, dnnl_status_t status);

/* Descriptors. All are released with onednn_md_release, in any state. */
dnnl_status_t onednn_md_strided(onednn_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides);
dnnl_status_t onednn_md_tagged(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag);
dnnl_status_t onednn_md_query(onednn_md *md, dnnl_primitive_desc_t pd, dnnl_query_t what);
dnnl_status_t onednn_md_copy(onednn_md *to, onednn_md from);
void onednn_md_release(onednn_md *md);
dnnl_data_type_t onednn_type(int32_t dtype);

typedef struct onednn_conv_shape {
    dnnl_dims_t strides, dilates, pad_begin, pad_end;
} onednn_conv_shape;
dnnl_status_t onednn_matmul_pd(dnnl_primitive_desc_t *pd, onednn_md a, onednn_md b, onednn_md bias,
                               onednn_md c, dnnl_primitive_attr_t attr);
dnnl_status_t onednn_conv_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md w, onednn_md bias,
                             onednn_md y, const onednn_conv_shape *shape,
                             dnnl_primitive_attr_t attr);
/* Whether the name of the implementation has that part. */
int onednn_is_called(dnnl_primitive_desc_t pd, const char *part);
/* Whether what oneDNN would compute is wrong for such a shape. */
int onednn_conv_is_wrong(dnnl_primitive_desc_t pd, const dhow_conv_desc *d);
int onednn_integers_are_wrong(const dhow_conv_desc *d);
/* Derivatives of a convolution from x to y: dx of w and dy, dw of x and dy. */
dnnl_status_t onednn_conv_back_image_pd(dnnl_primitive_desc_t *pd, onednn_md dx, onednn_md w,
                                        onednn_md dy, const onednn_conv_shape *shape,
                                        dnnl_primitive_attr_t attr);
dnnl_status_t onednn_conv_back_weight_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md dw,
                                         onednn_md dy, const onednn_conv_shape *shape,
                                         dnnl_primitive_attr_t attr);

/* DHOW_ACTIVATION_... with its numbers. */
typedef struct onednn_activation {
    uint32_t kind;
    float alpha, beta;
} onednn_activation;

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta);
dnnl_status_t onednn_append_activation(dnnl_post_ops_t ops, const onednn_activation *a);

/* Attributes: scratchpad by the caller, then + beta c, + residual, activation. */
dnnl_status_t onednn_attributes(dnnl_primitive_attr_t *attr, float beta, dnnl_data_type_t type_c,
                                const onednn_md *residual, const onednn_activation *activation,
                                int32_t compute, int *out_residual_index);

/* One operand of an execution. */
typedef struct onednn_operand {
    int id; /* DNNL_ARG_... */
    dnnl_memory_t memory;
    void *address; /* what memory points to now */
} onednn_operand;

enum { ONEDNN_OPERANDS = 28 };

/* A primitive for a number of threads with its operands, which one caller at a time uses. */
typedef struct onednn_primitive {
    struct onednn_primitive *next;
    atomic_bool taken;
    int threads;
    int has_run;
    dnnl_primitive_t primitive;
    dnnl_primitive_desc_t description; /* while there is no primitive yet */
    dnnl_stream_t stream;
    onednn_operand operands[ONEDNN_OPERANDS];
    int count;
    uint64_t workspace_bytes; /* of its scratchpad */
    uint64_t summed_bytes;    /* of the address after its operands, copied to the third one before:
                                 what    the primitive then sums up with */
    void *workspace;          /* its own, where it needs more than the plan's first one */
} onednn_primitive;

dnnl_status_t onednn_primitive_make(onednn_primitive *made, dnnl_primitive_desc_t pd);
/* The same before its first run: most of the plans that are asked for to see what there is never
 * run, and writing their code takes most of the time. */
dnnl_status_t onednn_primitive_make_later(onednn_primitive *made, dnnl_primitive_desc_t pd);
dnnl_status_t onednn_primitive_operand(onednn_primitive *made, int id, onednn_md md);
void onednn_primitive_release(onednn_primitive *made);

/* What a plan runs: the same work for other numbers of threads, and for callers at the same time.
 * Primitives are made when first needed and stay. */
typedef struct onednn_work {
    cpu_device *device;
    int alone; /* too small to divide */
    int whole; /* threads divide its sums: always as many as planned, for the same bits each time */
    cpu_times times;
    dnnl_status_t (*make)(void *plan, onednn_primitive *made); /* for OpenMP's present threads */
    void *plan;
    _Atomic(onednn_primitive *) first;
} onednn_work;

/* `products` counts its multiplications. */
void onednn_work_init(onednn_work *work, cpu_device *device, double products);
/* Makes the first primitive, from which a plan takes its layouts. */
int32_t onednn_work_prepare(onednn_work *work, dhow_error *err);
cpu_region onednn_work_begin(onednn_work *work);
/* How many threads have what runs in the region. */
int onednn_work_threads(const onednn_work *work, const cpu_region *region);
/* Sets the addresses (one per operand, in their order) and runs, between begin and end. */
int32_t onednn_work_run(onednn_work *work, cpu_region *region, void *const *addresses,
                        dhow_error *err);
void onednn_work_end(onednn_work *work, const cpu_region *region);
void onednn_work_release(onednn_work *work);

/* activations.c. What computes one behind a primitive with so many results; NULL where the
 * primitive had better do it. All of them leave zeros that pad a block. */
activate_values *cpu_activation_behind(const cpu_device *device, uint32_t kind, int32_t dtype,
                                       double count);
void cpu_activate(activate_values *activate, const cpu_activation *activation, float *values,
                  const float *residual, int64_t count, int threads);

/* Slots of "dhow.conv/1", whose plans begin with a pointer to theirs: for transposed convolutions,
 * for those of training, see onednn_training.c, and for those of bytes. */
extern const dhow_conv onednn_transposed, onednn_training, onednn_integers;
/* onednn_forms.c: the number of a packed form, the same for the same two descriptors; 0 without
 * memory. Those of other packings are below ONEDNN_FORMS. */
enum {
    WINOGRAD_FORM = 1,
    DOTS_FORM,
    DOTS_DILATED_FORM,
    TILES_FORM,
    NARROW_TILES_FORM,
    GROUPED_TILES_FORM,
    TRANSPOSED_FORM,
    BYTES_FORM,
    BYTES_OF_COLUMNS_FORM,
    ONEDNN_FORMS
};
uint64_t onednn_form_of(cpu_device *device, onednn_md plain, onednn_md packed);

/* Those of winograd_conv.c, windows_conv.c, pixels_conv.c and bytes_conv.c, which multiply without
 * oneDNN. */
extern const dhow_conv cpu_winograd, cpu_windows, cpu_pixels, cpu_bytes;

/* pixels_conv.c: whether images stay plain, because groups would cut blocks of channels; with AVX2
 * oneDNN multiplies groups of whole blocks, too, at a third of the speed. */
int cpu_keeps_plain(const cpu_device *device, const dhow_conv_desc *d);

/* windows_conv.c: the same of channels by themselves, whose windows reach far beyond the image:
 * oneDNN takes up to 80 times as long in other layouts. */
int cpu_wants_planes(const cpu_device *device, const dhow_conv_desc *d);

/* bytes_conv.c: a plan of cpu_bytes for a product of integers, whose b has a packing of its own. */
int32_t cpu_bytes_product(cpu_device *device, const dhow_blas_desc *d, void **out_plan,
                          uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes,
                          dhow_error *err);
void cpu_bytes_pack_columns(const void *plan, const void *b, void *packed);

static inline int onednn_is_byte(int32_t dtype) { return dtype == DHOW_U8 || dtype == DHOW_I8; }

/* onednn_integers.c: whether it is a convolution of images of bytes, as dhow_conv_desc has them,
 * with constant weights and channels last. */
int onednn_is_of_bytes(const dhow_conv_desc *d);

/* Sums of bytes are exact on processors that add them up as 32 bits; on older ones oneDNN adds
 * pairs of products as 16 bits, which saturate. */
int onednn_adds_bytes(const onednn_library *dnnl);
/* Whether it computes with all instructions of a level. */
static inline int onednn_computes_with(const onednn_library *dnnl, dnnl_cpu_isa_t level) {
    return (dnnl->dnnl_get_effective_cpu_isa() & level) == level;
}

static inline void *onednn_address(dhow_buffer buffer) {
    return (void *)(uintptr_t)(buffer.handle + buffer.offset);
}

/* So many windows begin, `stride` apart, in what is padded. */
static inline int64_t onednn_windows(int64_t padded, int64_t kernel, int64_t dilation,
                                     int64_t stride) {
    return (padded - ((kernel - 1) * dilation + 1)) / stride + 1;
}

/* The extent of a convolution's result in one direction. */
static inline int64_t onednn_extent(const dhow_conv_desc *d, int i) {
    const int64_t padded = (i == 0 ? d->h : d->w) + d->pad[i] + d->pad[i + 2];
    return onednn_windows(padded, i == 0 ? d->kh : d->kw, d->dilation[i], d->stride[i]);
}

/* Planes of the result, of a volume. */
static inline int64_t onednn_depth(const dhow_conv_desc *d) {
    return onednn_windows(d->depth + d->pad_d[0] + d->pad_d[1], d->kd, d->dilation_d, d->stride_d);
}

/* The multiplications of a convolution of images. */
static inline double onednn_products(const dhow_conv_desc *d) {
    return (double)d->n * (double)d->k * (double)d->c / (double)d->groups * (double)d->kh *
           (double)d->kw * (double)d->h * (double)d->w /
           ((double)d->stride[0] * (double)d->stride[1]);
}

/* How many of so many panels of columns a part has, where rows are divided in `blocks`: all of
 * them, or fewer where that makes too few parts for the threads. */
static inline int64_t onednn_part_of(const cpu_region *region, int64_t blocks, int64_t columns) {
    enum { PARTS_PER_THREAD = 4 };
    const int64_t wanted = region->threads > 1 ? region->threads * PARTS_PER_THREAD : 1,
                  cuts = (wanted + blocks - 1) / blocks;
    return (columns + cuts - 1) / cuts;
}

/* subnormals.c. Of a packed weight, those that are not normal become 0 of their sign. */
void cpu_drop_subnormals(float *values, int64_t count);

/* Runs a reorder once. */
int32_t onednn_reorder(cpu_device *device, onednn_md from, const void *src, onednn_md to, void *dst,
                       dhow_error *err);

/* OpenMP's thread number of the caller, set while a oneDNN call looks at it. */
int onednn_threads_enter(int threads);
void onednn_threads_leave(int before);

/* A product of f32 that is summed as such. */
static inline int onednn_is_of_f32(const dhow_blas_desc *d) {
    return d->compute == DHOW_F32 && d->dtype_a == DHOW_F32 && d->dtype_b == DHOW_F32 &&
           d->dtype_c == DHOW_F32;
}

/* ---- panel_products.c ---- */

/* What multiplies plain matrices of such extents; NULL where sgemm does. */
panels *cpu_panels(const cpu_device *device, int64_t m, int64_t n, int64_t k);
void cpu_panels_run(panels *run, onednn_work *work, const dhow_blas_desc *d, const float *a,
                    const float *b, float *c);

/* Whether the constant b of a product is packed here, which then runs with bias, residual and
 * activation: where not, oneDNN's primitive does it. */
int cpu_packs_panels(const cpu_device *device, const dhow_blas_desc *d);
void cpu_panels_pack(cpu_device *device, const dhow_blas_desc *d, const float *b, float *packed);
void cpu_packed_run(onednn_work *work, const dhow_blas_desc *d, const float *a, const float *packed,
                    float *c, const float *bias, const float *residual);

#endif
