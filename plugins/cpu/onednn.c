/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens oneDNN and hides what its versions do differently.
 */
#include "onednn.h"

#include <dlfcn.h>
#include <link.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static onednn_library library;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256];

static void open_library(void) {
    void *handle = dlopen(ONEDNN_SONAME, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) {
        const char *text = dlerror();
        (void)snprintf(failure, sizeof failure, "%s", text ? text : "cannot open " ONEDNN_SONAME);
        return;
    }
#define ONEDNN_LOAD(name)                                                                  \
    {                                                                                      \
        void *symbol = dlsym(handle, #name);                                               \
        if (!symbol) {                                                                     \
            (void)snprintf(failure, sizeof failure, "%s has no %s", ONEDNN_SONAME, #name); \
            return;                                                                        \
        }                                                                                  \
        memcpy(&library.name, &symbol, sizeof symbol);                                     \
    }
    ONEDNN_FUNCTIONS(ONEDNN_LOAD)
#undef ONEDNN_LOAD
    if (library.dnnl_engine_create(&library.engine, dnnl_cpu, 0) != dnnl_success) {
        library.engine = NULL;
        (void)snprintf(failure, sizeof failure, "%s cannot make a CPU engine", ONEDNN_SONAME);
    }
}

const onednn_library *onednn_open(dhow_error *err) {
    (void)pthread_once(&once, open_library);
    if (library.engine) return &library;
    (void)cpu_fail(err, DHOW_UNSUPPORTED, 0, "oneDNN is not there: %s", failure);
    return NULL;
}

int32_t cpu_onednn_component(dhow_component *out) {
    dhow_error err = {.struct_size = sizeof err};
    (void)snprintf(out->name, sizeof out->name, "oneDNN");
    (void)snprintf(out->purpose, sizeof out->purpose, "matmul and convolution");
    const onednn_library *dnnl = onednn_open(&err);
    if (!dnnl) {
        (void)snprintf(out->detail, sizeof out->detail, "%.180s; install %s", failure,
                       ONEDNN_PACKAGE);
        return DHOW_OK;
    }
    const dnnl_version_t *version = dnnl->dnnl_version();
    Dl_info info;
    void *address = NULL;
    memcpy(&address, &dnnl->dnnl_version, sizeof address);
    const char *file =
        dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : ONEDNN_SONAME;
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
    return library.dnnl_memory_desc_init_by_strides(md, rank, dims, type, strides);
}

dnnl_status_t onednn_md_tagged(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return library.dnnl_memory_desc_init_by_tag(md, rank, dims, type, tag);
}

dnnl_status_t onednn_md_query(onednn_md *md, dnnl_primitive_desc_t pd, dnnl_query_t what) {
    const dnnl_memory_desc_t *found = library.dnnl_primitive_desc_query_md(pd, what, 0);
    if (!found) return dnnl_runtime_error;
    *md = *found;
    return dnnl_success;
}

void onednn_md_release(onednn_md *md) { memset(md, 0, sizeof *md); }

dnnl_status_t onednn_matmul_pd(dnnl_primitive_desc_t *pd, onednn_md a, onednn_md b, onednn_md bias,
                               onednn_md c, dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    const dnnl_status_t status =
        library.dnnl_matmul_desc_init(&desc, &a, &b, bias.ndims ? &bias : NULL, &c);
    if (status != dnnl_success) return status;
    return library.dnnl_primitive_desc_create(pd, &desc, attr, library.engine, NULL);
}

dnnl_status_t onednn_conv_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md w, onednn_md bias,
                             onednn_md y, const onednn_conv_shape *shape,
                             dnnl_primitive_attr_t attr) {
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = library.dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w, bias.ndims ? &bias : NULL,
        &y, shape->strides, shape->dilates, shape->pad_begin, shape->pad_end);
    if (status != dnnl_success) return status;
    return library.dnnl_primitive_desc_create(pd, &desc, attr, library.engine, NULL);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) {
    return library.dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, 0.0f);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
    (void)type;
    return library.dnnl_post_ops_append_sum(ops, scale);
}

#else

dnnl_status_t onednn_md_strided(onednn_md *md, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides) {
    return library.dnnl_memory_desc_create_with_strides(md, rank, dims, type, strides);
}

dnnl_status_t onednn_md_tagged(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return library.dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}

dnnl_status_t onednn_md_query(onednn_md *md, dnnl_primitive_desc_t pd, dnnl_query_t what) {
    const_dnnl_memory_desc_t found = library.dnnl_primitive_desc_query_md(pd, what, 0);
    return found ? library.dnnl_memory_desc_clone(md, found) : dnnl_runtime_error;
}

void onednn_md_release(onednn_md *md) {
    if (*md) (void)library.dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

dnnl_status_t onednn_matmul_pd(dnnl_primitive_desc_t *pd, onednn_md a, onednn_md b, onednn_md bias,
                               onednn_md c, dnnl_primitive_attr_t attr) {
    return library.dnnl_matmul_primitive_desc_create(pd, library.engine, a, b, bias, c, attr);
}

dnnl_status_t onednn_conv_pd(dnnl_primitive_desc_t *pd, onednn_md x, onednn_md w, onednn_md bias,
                             onednn_md y, const onednn_conv_shape *shape,
                             dnnl_primitive_attr_t attr) {
    return library.dnnl_convolution_forward_primitive_desc_create(
        pd, library.engine, dnnl_forward_inference, dnnl_convolution_direct, x, w, bias, y,
        shape->strides, shape->dilates, shape->pad_begin, shape->pad_end, attr);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) {
    return library.dnnl_post_ops_append_eltwise(ops, kind, alpha, 0.0f);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
    return library.dnnl_post_ops_append_sum(ops, scale, 0, type);
}

#endif

/* ---- attributes, primitives
 * -------------------------------------------------------------------------------------- */

static dnnl_status_t append_activation(dnnl_post_ops_t ops, uint32_t activation) {
    switch (activation) {
        case DHOW_ACTIVATION_NONE:
            return dnnl_success;
        case DHOW_ACTIVATION_RELU:
            return append_eltwise(ops, dnnl_eltwise_relu, 0.0f);
        case DHOW_ACTIVATION_GELU:
            return append_eltwise(ops, dnnl_eltwise_gelu_erf, 0.0f);
        case DHOW_ACTIVATION_GELU_TANH:
            return append_eltwise(ops, dnnl_eltwise_gelu_tanh, 0.0f);
        case DHOW_ACTIVATION_SIGMOID:
            return append_eltwise(ops, dnnl_eltwise_logistic, 0.0f);
        case DHOW_ACTIVATION_TANH:
            return append_eltwise(ops, dnnl_eltwise_tanh, 0.0f);
        case DHOW_ACTIVATION_SILU:
            return append_eltwise(ops, dnnl_eltwise_swish, 1.0f);
        default:
            return dnnl_unimplemented;
    }
}

dnnl_status_t onednn_attributes(dnnl_primitive_attr_t *attr, float beta, dnnl_data_type_t type_c,
                                const onednn_md *residual, uint32_t activation, int32_t compute,
                                int *out_residual_index) {
    dnnl_post_ops_t ops = NULL;
    int index = 0;
    *attr = NULL;
    *out_residual_index = -1;
    dnnl_status_t status = library.dnnl_primitive_attr_create(attr);
    if (status != dnnl_success) return status;
    status = library.dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && compute == DHOW_BF16 && type_c == dnnl_f32) {
        status = library.dnnl_primitive_attr_set_fpmath_mode(*attr, dnnl_fpmath_mode_bf16);
    }
    if (status == dnnl_success) status = library.dnnl_post_ops_create(&ops);
    if (status == dnnl_success && beta != 0.0f) {
        status = append_sum(ops, beta, type_c);
        index++;
    }
    if (status == dnnl_success && residual) {
        status = library.dnnl_post_ops_append_binary(ops, dnnl_binary_add, MD(*residual));
        *out_residual_index = index;
    }
    if (status == dnnl_success) status = append_activation(ops, activation);
    if (status == dnnl_success) status = library.dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) (void)library.dnnl_post_ops_destroy(ops);
    if (status != dnnl_success) {
        (void)library.dnnl_primitive_attr_destroy(*attr);
        *attr = NULL;
    }
    return status;
}

dnnl_status_t onednn_primitive_make(onednn_primitive *made, dnnl_primitive_desc_t pd) {
    memset(made, 0, sizeof *made);
    const dnnl_status_t status = library.dnnl_primitive_create(&made->primitive, pd);
    if (status != dnnl_success) return status;
    return library.dnnl_stream_create(&made->stream, library.engine, dnnl_stream_default_flags);
}

dnnl_status_t onednn_primitive_operand(onednn_primitive *made, int id, onednn_md md) {
    onednn_operand *operand = &made->operands[made->count];
    const dnnl_status_t status =
        library.dnnl_memory_create(&operand->memory, MD(md), library.engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
    operand->id = id;
    operand->address = NULL;
    made->count++;
    return dnnl_success;
}

void onednn_primitive_release(onednn_primitive *made) {
    for (int i = 0; i < made->count; i++)
        (void)library.dnnl_memory_destroy(made->operands[i].memory);
    if (made->stream) (void)library.dnnl_stream_destroy(made->stream);
    if (made->primitive) (void)library.dnnl_primitive_destroy(made->primitive);
    memset(made, 0, sizeof *made);
}

int onednn_threads_enter(int threads) {
    const int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}

void onednn_threads_leave(int before) {
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

int32_t onednn_primitive_run(onednn_primitive *made, cpu_device *device, int threads,
                             void *const *addresses, dhow_error *err) {
    dnnl_exec_arg_t args[ONEDNN_OPERANDS];
    dnnl_status_t status = dnnl_success;
    (void)pthread_mutex_lock(&device->pool);
    const int before = onednn_threads_enter(threads);
    for (int i = 0; i < made->count && status == dnnl_success; i++) {
        onednn_operand *operand = &made->operands[i];
        if (operand->address != addresses[i]) {
            status = library.dnnl_memory_set_data_handle(operand->memory, addresses[i]);
            operand->address = addresses[i];
        }
        args[i].arg = operand->id;
        args[i].memory = operand->memory;
    }
    if (status == dnnl_success) {
        status = library.dnnl_primitive_execute(made->primitive, made->stream, made->count, args);
    }
    if (status == dnnl_success) status = library.dnnl_stream_wait(made->stream);
    onednn_threads_leave(before);
    (void)pthread_mutex_unlock(&device->pool);
    return status == dnnl_success ? DHOW_OK : onednn_fail(err, "running a primitive", status);
}

int32_t onednn_reorder(cpu_device *device, onednn_md from, const void *src, onednn_md to, void *dst,
                       dhow_error *err) {
    onednn_primitive made;
    dnnl_primitive_desc_t pd = NULL;
    union {
        const void *from;
        void *to;
    } source = {.from = src};
    memset(&made, 0, sizeof made);
    dnnl_status_t status = library.dnnl_reorder_primitive_desc_create(&pd, MD(from), library.engine,
                                                                      MD(to), library.engine, NULL);
    if (status == dnnl_success) status = onednn_primitive_make(&made, pd);
    if (status == dnnl_success) status = onednn_primitive_operand(&made, DNNL_ARG_FROM, from);
    if (status == dnnl_success) status = onednn_primitive_operand(&made, DNNL_ARG_TO, to);
    int32_t result = DHOW_OK;
    if (status == dnnl_success) {
        void *addresses[] = {source.to, dst};
        result = onednn_primitive_run(&made, device, device->threads, addresses, err);
    } else {
        result = onednn_fail(err, "a change of layout", status);
    }
    onednn_primitive_release(&made);
    if (pd) (void)library.dnnl_primitive_desc_destroy(pd);
    return result;
}
