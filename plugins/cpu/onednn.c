/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens oneDNN and hides what its versions do differently.
 */
#include "onednn.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

onednn_library onednn_loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256];
static int most_isa = CPU_ISA_V4;

void cpu_onednn_limit(int isa) { most_isa = isa; }

#ifndef ONEDNN_SONAME
#define ONEDNN_SONAME NULL
#endif

/* The first library that there is; its name, or that of the first one missing, goes to `name`. */
static void *open_any(char *name, size_t bytes) {
    void *handle = NULL;
    char next[sizeof "libdnnl.so.2147483647.2147483647"];
    for (int i = 0; !handle && onednn_name(i, ONEDNN_SONAME, DNNL_VERSION_MAJOR, next, sizeof next);
         i++) {
        handle = dlopen(next, RTLD_LAZY | RTLD_LOCAL);
        if (handle || i == 0) (void)snprintf(name, bytes, "%s", next);
        if (!handle && i == 0) {
            const char *text = dlerror();
            (void)snprintf(failure, sizeof failure, "%s", text ? text : next);
        }
    }
    return handle;
}

static void open_library(void) {
    char name[64];
    void *handle = open_any(name, sizeof name);
    if (!handle) return;
#define ONEDNN_LOAD(function)                                                         \
    {                                                                                 \
        void *symbol = dlsym(handle, #function);                                      \
        if (!symbol) {                                                                \
            (void)snprintf(failure, sizeof failure, "%s has no %s", name, #function); \
            return;                                                                   \
        }                                                                             \
        memcpy(&onednn_loaded.function, &symbol, sizeof symbol);                      \
    }
    ONEDNN_FUNCTIONS(ONEDNN_LOAD)
#undef ONEDNN_LOAD
    const int major = onednn_loaded.dnnl_version()->major;
    if (major != DNNL_VERSION_MAJOR) {
        (void)snprintf(failure, sizeof failure, "%s is version %d, dhow was built for %d", name,
                       major, DNNL_VERSION_MAJOR);
    } else if (most_isa < CPU_ISA_V4 &&
               onednn_loaded.dnnl_set_max_cpu_isa(most_isa == CPU_ISA_V3
                                                      ? dnnl_cpu_isa_avx2
                                                      : dnnl_cpu_isa_sse41) != dnnl_success) {
        (void)snprintf(failure, sizeof failure, "%s cannot be held to %s", name,
                       cpu_isa_name(most_isa));
    } else if (onednn_loaded.dnnl_engine_create(&onednn_loaded.engine, dnnl_cpu, 0) !=
               dnnl_success) {
        onednn_loaded.engine = NULL;
        (void)snprintf(failure, sizeof failure, "%s cannot make a CPU engine", name);
    }
}

const onednn_library *onednn_open(dhow_error *err) {
    (void)pthread_once(&once, open_library);
    if (onednn_loaded.engine) return &onednn_loaded;
    (void)cpu_fail(err, DHOW_UNSUPPORTED, 0, "oneDNN is not there: %s", failure);
    return NULL;
}

int32_t cpu_onednn_component(dhow_component *out) {
    dhow_error err = {.struct_size = sizeof err};
    (void)snprintf(out->name, sizeof out->name, "oneDNN");
    (void)snprintf(out->purpose, sizeof out->purpose, "matmul and convolution");
    const onednn_library *dnnl = onednn_open(&err);
    if (!dnnl) {
        char name[64];
        (void)onednn_name(0, ONEDNN_SONAME, DNNL_VERSION_MAJOR, name, sizeof name);
        /* Debian's packages are named after the soname: libdnnl2, libdnnl3.6. */
        (void)snprintf(out->detail, sizeof out->detail, "%.180s; install libdnnl%s", failure,
                       name + strlen("libdnnl.so."));
        return DHOW_OK;
    }
    const dnnl_version_t *version = dnnl->dnnl_version();
    Dl_info info;
    void *address = NULL;
    memcpy(&address, &dnnl->dnnl_version, sizeof address);
    const char *file =
        dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "libdnnl.so";
    out->present = 1;
    (void)snprintf(out->detail, sizeof out->detail, "%d.%d.%d, %.200s", version->major,
                   version->minor, version->patch, file);
    return DHOW_OK;
}

int32_t onednn_fail(dhow_error *err, const char *what, dnnl_status_t status) {
    static const struct {
        dnnl_status_t status;
        dhow_status code;
        const char *text;
    } names[] = {
        {dnnl_out_of_memory, DHOW_OUT_OF_MEMORY, "out of memory"},
        {dnnl_invalid_arguments, DHOW_UNSUPPORTED, "invalid arguments"},
        {dnnl_unimplemented, DHOW_UNSUPPORTED, "not implemented for these types and shapes"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].status == status) {
            return cpu_fail(err, names[i].code, (int64_t)status, "oneDNN: %s: %s", what,
                            names[i].text);
        }
    }
    return cpu_fail(err, DHOW_INTERNAL, (int64_t)status, "oneDNN: %s failed", what);
}

dnnl_data_type_t onednn_type(int32_t dtype) {
    return dtype == DHOW_F32    ? dnnl_f32
           : dtype == DHOW_F16  ? dnnl_f16
           : dtype == DHOW_BF16 ? dnnl_bf16
                                : dnnl_data_type_undef;
}

/* ---- the two versions
 * -------------------------------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR == 2

dnnl_status_t onednn_md_strided(onednn_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides) {
    return onednn_loaded.dnnl_memory_desc_init_by_strides(md, rank, dims, type, strides);
}

dnnl_status_t onednn_md_tagged(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return onednn_loaded.dnnl_memory_desc_init_by_tag(md, rank, dims, type, tag);
}

dnnl_status_t onednn_md_query(onednn_md *md, dnnl_primitive_desc_t pd, dnnl_query_t what) {
    const dnnl_memory_desc_t *found = onednn_loaded.dnnl_primitive_desc_query_md(pd, what, 0);
    if (!found) return dnnl_runtime_error;
    *md = *found;
    return dnnl_success;
}

dnnl_status_t onednn_md_copy(onednn_md *to, onednn_md from) {
    *to = from;
    return dnnl_success;
}

void onednn_md_release(onednn_md *md) { memset(md, 0, sizeof *md); }

dnnl_status_t onednn_matmul_pd(dnnl_primitive_desc_t *pd, onednn_md a, onednn_md b, onednn_md bias,
                               onednn_md c, dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    const dnnl_status_t status =
        onednn_loaded.dnnl_matmul_desc_init(&desc, &a, &b, bias.ndims ? &bias : NULL, &c);
    if (status != dnnl_success) return status;
    return onednn_loaded.dnnl_primitive_desc_create(pd, &desc, attr, onednn_loaded.engine, NULL);
}

dnnl_status_t onednn_conv_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md w, onednn_md bias,
                             onednn_md y, const onednn_conv_shape *shape,
                             dnnl_primitive_attr_t attr) {
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = onednn_loaded.dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w, bias.ndims ? &bias : NULL,
        &y, shape->strides, shape->dilates, shape->pad_begin, shape->pad_end);
    if (status != dnnl_success) return status;
    return onednn_loaded.dnnl_primitive_desc_create(pd, &desc, attr, onednn_loaded.engine, NULL);
}

/* What the forward convolution would be; derivatives want to see it. */
static dnnl_status_t forward_hint(dnnl_primitive_desc_t *hint, onednn_md x, onednn_md w,
                                  onednn_md y, const onednn_conv_shape *shape) {
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = onednn_loaded.dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &x, &w, NULL, &y, shape->strides,
        shape->dilates, shape->pad_begin, shape->pad_end);
    if (status != dnnl_success) return status;
    return onednn_loaded.dnnl_primitive_desc_create(hint, &desc, NULL, onednn_loaded.engine, NULL);
}

static dnnl_status_t image_pd(dnnl_primitive_desc_t *pd, onednn_md dx, onednn_md w, onednn_md dy,
                              const onednn_conv_shape *shape, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t hint) {
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = onednn_loaded.dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, &dx, &w, &dy, shape->strides, shape->dilates,
        shape->pad_begin, shape->pad_end);
    if (status != dnnl_success) return status;
    return onednn_loaded.dnnl_primitive_desc_create(pd, &desc, attr, onednn_loaded.engine, hint);
}

static dnnl_status_t weight_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md dw, onednn_md dy,
                               const onednn_conv_shape *shape, dnnl_primitive_attr_t attr,
                               dnnl_primitive_desc_t hint) {
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = onednn_loaded.dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &x, &dw, NULL, &dy, shape->strides, shape->dilates,
        shape->pad_begin, shape->pad_end);
    if (status != dnnl_success) return status;
    return onednn_loaded.dnnl_primitive_desc_create(pd, &desc, attr, onednn_loaded.engine, hint);
}

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta) {
    return onednn_loaded.dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, beta);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
    (void)type;
    return onednn_loaded.dnnl_post_ops_append_sum(ops, scale);
}

#else

dnnl_status_t onednn_md_strided(onednn_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides) {
    return onednn_loaded.dnnl_memory_desc_create_with_strides(md, rank, dims, type, strides);
}

dnnl_status_t onednn_md_tagged(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return onednn_loaded.dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}

dnnl_status_t onednn_md_query(onednn_md *md, dnnl_primitive_desc_t pd, dnnl_query_t what) {
    const_dnnl_memory_desc_t found = onednn_loaded.dnnl_primitive_desc_query_md(pd, what, 0);
    return found ? onednn_loaded.dnnl_memory_desc_clone(md, found) : dnnl_runtime_error;
}

dnnl_status_t onednn_md_copy(onednn_md *to, onednn_md from) {
    return onednn_loaded.dnnl_memory_desc_clone(to, from);
}

void onednn_md_release(onednn_md *md) {
    if (*md) (void)onednn_loaded.dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

dnnl_status_t onednn_matmul_pd(dnnl_primitive_desc_t *pd, onednn_md a, onednn_md b, onednn_md bias,
                               onednn_md c, dnnl_primitive_attr_t attr) {
    return onednn_loaded.dnnl_matmul_primitive_desc_create(pd, onednn_loaded.engine, a, b, bias, c,
                                                           attr);
}

dnnl_status_t onednn_conv_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md w, onednn_md bias,
                             onednn_md y, const onednn_conv_shape *shape,
                             dnnl_primitive_attr_t attr) {
    return onednn_loaded.dnnl_convolution_forward_primitive_desc_create(
        pd, onednn_loaded.engine, dnnl_forward_inference, dnnl_convolution_direct, x, w, bias, y,
        shape->strides, shape->dilates, shape->pad_begin, shape->pad_end, attr);
}

/* What the forward convolution would be; derivatives want to see it. */
static dnnl_status_t forward_hint(dnnl_primitive_desc_t *hint, onednn_md x, onednn_md w,
                                  onednn_md y, const onednn_conv_shape *shape) {
    return onednn_loaded.dnnl_convolution_forward_primitive_desc_create(
        hint, onednn_loaded.engine, dnnl_forward_training, dnnl_convolution_direct, x, w, NULL, y,
        shape->strides, shape->dilates, shape->pad_begin, shape->pad_end, NULL);
}

static dnnl_status_t image_pd(dnnl_primitive_desc_t *pd, onednn_md dx, onednn_md w, onednn_md dy,
                              const onednn_conv_shape *shape, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t hint) {
    return onednn_loaded.dnnl_convolution_backward_data_primitive_desc_create(
        pd, onednn_loaded.engine, dnnl_convolution_direct, dx, w, dy, shape->strides,
        shape->dilates, shape->pad_begin, shape->pad_end, hint, attr);
}

static dnnl_status_t weight_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md dw, onednn_md dy,
                               const onednn_conv_shape *shape, dnnl_primitive_attr_t attr,
                               dnnl_primitive_desc_t hint) {
    return onednn_loaded.dnnl_convolution_backward_weights_primitive_desc_create(
        pd, onednn_loaded.engine, dnnl_convolution_direct, x, dw, NULL, dy, shape->strides,
        shape->dilates, shape->pad_begin, shape->pad_end, hint, attr);
}

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta) {
    return onednn_loaded.dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
    return onednn_loaded.dnnl_post_ops_append_sum(ops, scale, 0, type);
}

#endif

dnnl_status_t onednn_conv_back_image_pd(dnnl_primitive_desc_t *pd, onednn_md dx, onednn_md w,
                                        onednn_md dy, const onednn_conv_shape *shape,
                                        dnnl_primitive_attr_t attr) {
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = forward_hint(&hint, dx, w, dy, shape);
    if (status == dnnl_success) status = image_pd(pd, dx, w, dy, shape, attr, hint);
    if (hint) (void)onednn_loaded.dnnl_primitive_desc_destroy(hint);
    return status;
}

dnnl_status_t onednn_conv_back_weight_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md dw,
                                         onednn_md dy, const onednn_conv_shape *shape,
                                         dnnl_primitive_attr_t attr) {
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = forward_hint(&hint, x, dw, dy, shape);
    if (status == dnnl_success) status = weight_pd(pd, x, dw, dy, shape, attr, hint);
    if (hint) (void)onednn_loaded.dnnl_primitive_desc_destroy(hint);
    return status;
}

/* ---- attributes, primitives
 * -------------------------------------------------------------------------------------- */

dnnl_status_t onednn_append_activation(dnnl_post_ops_t ops, const onednn_activation *a) {
    switch (a->kind) {
        case DHOW_ACTIVATION_NONE:
            return dnnl_success;
        case DHOW_ACTIVATION_RELU:
            return onednn_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
        case DHOW_ACTIVATION_GELU:
            return onednn_append_eltwise(ops, dnnl_eltwise_gelu_erf, 0.0f, 0.0f);
        case DHOW_ACTIVATION_GELU_TANH:
            return onednn_append_eltwise(ops, dnnl_eltwise_gelu_tanh, 0.0f, 0.0f);
        case DHOW_ACTIVATION_SIGMOID:
            return onednn_append_eltwise(ops, dnnl_eltwise_logistic, 0.0f, 0.0f);
        case DHOW_ACTIVATION_TANH:
            return onednn_append_eltwise(ops, dnnl_eltwise_tanh, 0.0f, 0.0f);
        case DHOW_ACTIVATION_SILU:
            return onednn_append_eltwise(ops, dnnl_eltwise_swish, 1.0f, 0.0f);
        case DHOW_ACTIVATION_HARD_SWISH: /* version 2 has these numbers built in */
            return onednn_append_eltwise(ops, dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
        case DHOW_ACTIVATION_MISH:
            return onednn_append_eltwise(ops, dnnl_eltwise_mish, 0.0f, 0.0f);
        case DHOW_ACTIVATION_LEAKY_RELU:
            return onednn_append_eltwise(ops, dnnl_eltwise_relu, a->alpha, 0.0f);
        case DHOW_ACTIVATION_CLIP:
            return onednn_append_eltwise(ops, dnnl_eltwise_clip, a->alpha, a->beta);
        default:
            return dnnl_unimplemented;
    }
}

dnnl_status_t onednn_attributes(dnnl_primitive_attr_t *attr, float beta, dnnl_data_type_t type_c,
                                const onednn_md *residual, const onednn_activation *activation,
                                int32_t compute, int *out_residual_index) {
    dnnl_post_ops_t ops = NULL;
    int index = 0;
    *attr = NULL;
    *out_residual_index = -1;
    dnnl_status_t status = onednn_loaded.dnnl_primitive_attr_create(attr);
    if (status != dnnl_success) return status;
    status =
        onednn_loaded.dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && compute == DHOW_BF16 && type_c == dnnl_f32) {
        status = onednn_loaded.dnnl_primitive_attr_set_fpmath_mode(*attr, dnnl_fpmath_mode_bf16);
    }
    if (status == dnnl_success) status = onednn_loaded.dnnl_post_ops_create(&ops);
    if (status == dnnl_success && beta != 0.0f) {
        status = append_sum(ops, beta, type_c);
        index++;
    }
    if (status == dnnl_success && residual) {
        status = onednn_loaded.dnnl_post_ops_append_binary(ops, dnnl_binary_add, MD(*residual));
        *out_residual_index = index;
    }
    if (status == dnnl_success) status = onednn_append_activation(ops, activation);
    if (status == dnnl_success) status = onednn_loaded.dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) (void)onednn_loaded.dnnl_post_ops_destroy(ops);
    if (status != dnnl_success) {
        (void)onednn_loaded.dnnl_primitive_attr_destroy(*attr);
        *attr = NULL;
    }
    return status;
}
