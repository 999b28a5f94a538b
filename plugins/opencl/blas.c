/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.blas/1 over CLBlast, opened when the first plan is made. On GPUs only: on processors the
 * portable kernel in loop form is several times faster, and CLBlast takes 9 seconds to compile
 * there. DHOW_OPENCL_BLAS=on uses it everywhere, off nowhere. Its kernels are compiled by the
 * driver, which may fail, so each device is tried before it gets a plan.
 *
 * The prototypes are ours, since CLBlast's C interface is stable and its header is rarely
 * installed; the enums are ints.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

#define CLBLAST_SONAME "libclblast.so.1"

enum { CLBLAST_ROW_MAJOR = 101, CLBLAST_NO_TRANSPOSE = 111, CLBLAST_TRANSPOSE = 112 };

#define GEMM_TYPE(scalar)                                                                         \
    int (*)(int layout, int transpose_a, int transpose_b, size_t m, size_t n, size_t k,           \
            scalar alpha, cl_mem a, size_t a_offset, size_t lda, size_t a_stride, cl_mem b,       \
            size_t b_offset, size_t ldb, size_t b_stride, scalar beta, cl_mem c, size_t c_offset, \
            size_t ldc, size_t c_stride, size_t batch, cl_command_queue *q, cl_event *event)

typedef struct clblast_library {
    __typeof__(GEMM_TYPE(float)) sgemm;
    __typeof__(GEMM_TYPE(double)) dgemm;
    __typeof__(GEMM_TYPE(cl_half)) hgemm;
    bool loaded;
    char detail[256]; /* the file, or why not */
} clblast_library;

static clblast_library library;

typedef struct blas_plan {
    dhowi_cl_device *device;
    dhow_blas_desc desc;
    uint32_t element_bytes;
} blas_plan;

/* ---- loading -------------------------------------------------------------------------------- */

static bool find(void *handle, const char *name, void *out_function) {
    void *address = dlsym(handle, name);
    memcpy(out_function, &address, sizeof address);
    if (address == NULL)
        snprintf(library.detail, sizeof library.detail, CLBLAST_SONAME " has no %s", name);
    return address != NULL;
}

static void load_locked(void) {
    void *handle = dlopen(CLBLAST_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *text = dlerror();
        snprintf(library.detail, sizeof library.detail,
                 "%.180s; install libclblast1 (Debian, Ubuntu)",
                 text != NULL ? text : CLBLAST_SONAME);
        return;
    }
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) map = NULL;
    library.loaded = find(handle, "CLBlastSgemmStridedBatched", &library.sgemm) &&
                     find(handle, "CLBlastDgemmStridedBatched", &library.dgemm) &&
                     find(handle, "CLBlastHgemmStridedBatched", &library.hgemm);
    if (library.loaded)
        snprintf(library.detail, sizeof library.detail, "%s",
                 map != NULL ? map->l_name : CLBLAST_SONAME);
}

static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;

static bool load(void) {
    pthread_mutex_lock(&blas_lock);
    if (!library.loaded) load_locked();
    bool loaded = library.loaded;
    pthread_mutex_unlock(&blas_lock);
    return loaded;
}

bool dhowi_cl_blas_present(char *detail, size_t detail_bytes) {
    bool present = load();
    snprintf(detail, detail_bytes, "%s", library.detail);
    return present;
}

/* ---- a product ------------------------------------------------------------------------------ */

/* Exact for the usual 0 and 1, rounded to nearest for the rest; CLBlast takes its scalars in the
 * matrices' type. */
static cl_half half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
    if (size < 0x38800000u) return (cl_half)sign; /* below the smallest normal number */
    if (size >= 0x477ff000u) return (cl_half)(sign | (size > 0x7f800000u ? 0x7e00u : 0x7c00u));
    return (cl_half)(sign | ((size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13));
}

/* Where the elements of a matrix begin. */
typedef struct matrix {
    cl_mem mem;
    uint64_t offset;
} matrix;

#define RUN_GEMM(function, scalar_alpha, scalar_beta)                                         \
    function(CLBLAST_ROW_MAJOR,                                                               \
             d->flags &DHOW_BLAS_TRANSPOSE_A ? CLBLAST_TRANSPOSE : CLBLAST_NO_TRANSPOSE,      \
             d->flags &DHOW_BLAS_TRANSPOSE_B ? CLBLAST_TRANSPOSE : CLBLAST_NO_TRANSPOSE,      \
             (size_t)d->m, (size_t)d->n, (size_t)d->k, scalar_alpha, a.mem, (size_t)a.offset, \
             (size_t)d->lda, (size_t)d->stride_a, b.mem, (size_t)b.offset, (size_t)d->ldb,    \
             (size_t)d->stride_b, scalar_beta, c.mem, (size_t)c.offset, (size_t)d->ldc,       \
             (size_t)d->stride_c, (size_t)d->batch, &queue, NULL)

/* CLBlast's code; offsets count elements. One product has no strides, and CLBlast refuses a stride
 * of 0 for c. */
static int multiply(const dhow_blas_desc *given, cl_command_queue queue, matrix a, matrix b,
                    matrix c) {
    dhow_blas_desc own = *given;
    const dhow_blas_desc *d = &own;
    if (own.batch == 1) own.stride_a = own.stride_b = own.stride_c = 1;
    if (d->dtype_c == DHOW_F64) return RUN_GEMM(library.dgemm, (double)d->alpha, (double)d->beta);
    if (d->dtype_c == DHOW_F16) return RUN_GEMM(library.hgemm, half_of(d->alpha), half_of(d->beta));
    return RUN_GEMM(library.sgemm, d->alpha, d->beta);
}

/* A product of two numbers on a queue of its own. */
static int try_product(const dhowi_cl_device *device, int32_t dtype) {
    const dhow_blas_desc one = {.dtype_c = dtype,
                                .m = 1,
                                .n = 1,
                                .k = 1,
                                .batch = 1,
                                .lda = 1,
                                .ldb = 1,
                                .ldc = 1,
                                .alpha = 1};
    static const double zeros[3] = {0};
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = dhowi_cl.CreateCommandQueue(device->context, device->id, 0, &code);
    if (queue == NULL) return code;
    cl_mem memory =
        dhowi_cl.CreateBuffer(device->context, CL_MEM_READ_WRITE, sizeof zeros, NULL, &code);
    if (memory != NULL) {
        code = dhowi_cl.EnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof zeros, zeros, 0, NULL,
                                           NULL);
        if (code == CL_SUCCESS)
            code = multiply(&one, queue, (matrix){memory, 0}, (matrix){memory, 1},
                            (matrix){memory, 2});
        const cl_int end = dhowi_cl.Finish(queue);
        if (code == CL_SUCCESS) code = end;
        (void)dhowi_cl.ReleaseMemObject(memory);
    }
    (void)dhowi_cl.ReleaseCommandQueue(queue);
    return code;
}

/* What the first product answered, 0 where it was computed; a device is tried once for each type.
 */
static int answer_of(dhowi_cl_device *device, int32_t dtype) {
    const int i = dtype == DHOW_F64 ? 1 : dtype == DHOW_F16 ? 2 : 0;
    pthread_mutex_lock(&blas_lock);
    if (!device->blas_tried[i]) {
        char text[256];
        device->blas_codes[i] = try_product(device, dtype);
        device->blas_tried[i] = true;
        snprintf(text, sizeof text,
                 "%.128s: CLBlast refuses to multiply here (%d); dhow's own kernels do it, several "
                 "times slower",
                 device->name, device->blas_codes[i]);
        if (device->blas_codes[i] != 0) device->host->log(device->host->user, DHOW_LOG_WARN, text);
    }
    const int code = device->blas_codes[i];
    pthread_mutex_unlock(&blas_lock);
    return code;
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Why CLBlast is not for this; NULL when it is. */
static const char *why_not(const dhowi_cl_device *device, const dhow_blas_desc *desc) {
    const dhowi_cl_blas_mode mode = device->backend->blas_mode;
    if (mode == DHOWI_CL_BLAS_OFF) return "DHOW_OPENCL_BLAS is off";
    if (mode == DHOWI_CL_BLAS_AUTO && !device->is_gpu)
        return "the portable kernel is faster than CLBlast on processors (DHOW_OPENCL_BLAS=on "
               "forces CLBlast)";
    if (desc->flags & (DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL))
        return "CLBlast adds neither bias nor residual";
    if (desc->activation != DHOW_ACTIVATION_NONE) return "CLBlast has no activation";
    if (desc->dtype_a != desc->dtype_c || desc->dtype_b != desc->dtype_c)
        return "CLBlast takes one type for all";
    if (desc->batch > 1 && desc->stride_c == 0) return "the results of a batch must lie apart";
    if (desc->m < 1 || desc->n < 1 || desc->k < 1 || desc->batch < 1)
        return "CLBlast takes no empty matrices";
    switch (desc->dtype_c) {
        case DHOW_F32:
            return NULL;
        case DHOW_F64:
            return device->has_fp64 ? NULL : "the device has no f64";
        case DHOW_F16:
            /* CLBlast sums in f16 as well, which nobody gets without asking. */
            if (desc->compute != DHOW_F16)
                return "CLBlast sums f16 in f16, and f32 sums are asked for";
            return device->has_fp16 ? NULL : "the device has no f16 arithmetic";
        default:
            return "CLBlast has f32, f64 and f16 only";
    }
}

static int32_t plan(void *device_pointer, const dhow_blas_desc *desc, void **out_plan,
                    uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes, dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    *out_plan = NULL;
    *out_workspace_bytes = *out_packed_bytes = 0;
    const char *reason = why_not(device, desc);
    if (reason == NULL && !load()) reason = library.detail;
    if (reason == NULL && answer_of(device, desc->dtype_c) != 0)
        reason = "CLBlast refuses to multiply on it";
    if (reason != NULL)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED, "%s: %s", device->name, reason);
    blas_plan *result = dhowi_cl_new(device->host, sizeof *result);
    if (result == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    result->device = device;
    result->desc = *desc;
    result->element_bytes = desc->dtype_c == DHOW_F64 ? 8 : desc->dtype_c == DHOW_F16 ? 2 : 4;
    *out_plan = result;
    return DHOW_OK;
}

static void destroy(void *plan_pointer) {
    blas_plan *done = plan_pointer;
    if (done != NULL) dhowi_cl_delete(done->device->host, done);
}

static int32_t pack(void *plan_pointer, void *stream, dhow_buffer b, dhow_buffer packed,
                    dhow_error *err) {
    (void)plan_pointer, (void)stream, (void)b, (void)packed;
    return dhowi_cl_refuse(err, DHOW_UNSUPPORTED, "CLBlast packs no weights");
}

/* ---- running ------------------------------------------------------------------------------- */

static int32_t run(void *plan_pointer, void *stream_pointer, dhow_buffer a, dhow_buffer b,
                   dhow_buffer c, dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                   dhow_error *err) {
    const blas_plan *ready = plan_pointer;
    dhowi_cl_stream *stream = stream_pointer;
    const dhow_blas_desc *d = &ready->desc;
    const uint64_t bytes = ready->element_bytes;
    (void)bias, (void)residual, (void)workspace;
    if (a.offset % bytes != 0 || b.offset % bytes != 0 || c.offset % bytes != 0)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "a matrix begins in the middle of an element");
    const int code =
        multiply(d, stream->queue, (matrix){dhowi_cl_buffer_of(a.handle)->mem, a.offset / bytes},
                 (matrix){dhowi_cl_buffer_of(b.handle)->mem, b.offset / bytes},
                 (matrix){dhowi_cl_buffer_of(c.handle)->mem, c.offset / bytes});
    if (code != 0) {
        /* Numbers from -1024 on are CLBlast's own and have no OpenCL name. */
        return dhowi_cl_fail(err, code, "%s: CLBlast refused a %lld x %lld x %lld product",
                             stream->device->name, (long long)d->m, (long long)d->n,
                             (long long)d->k);
    }
    dhowi_cl_stream_submitted(stream);
    return DHOW_OK;
}

const dhow_blas dhowi_cl_blas = {
    .struct_size = sizeof(dhow_blas),
    .minor = 0,
    .plan = plan,
    .pack = pack,
    .run = run,
    .destroy = destroy,
};
