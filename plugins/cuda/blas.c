/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.blas/1 on cuBLASLt, with cuBLAS' own GEMM where cuBLASLt has no algorithm. Both are
 * column-major: a row-major matrix is the transpose of the column-major one in the same memory, so
 * c' = op(b)' op(a)' is asked for, with a and b changing places.
 *
 * f32 stays f32; TF32 only where the description allows less precision. cuBLASLt's GELU is the tanh
 * form, off by 4e-6 of x on an H100, so it is for 16 bits and TF32; the erf form is left to the
 * portable kernel, and so is ReLU: cuBLASLt's is max(x, 0), which makes 0 of a NaN.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_plugin.h"
#include "vendor_abi.h"

enum { WORKSPACE_BYTES = 32 << 20, CUBLAS_WORKSPACE_BYTES = 4 << 20 };

/* X(type, member, symbol) in the order of the symbols */
#define LT_FUNCTIONS(X)                                                                \
    X(lt_create_fn, create, "cublasLtCreate")                                          \
    X(lt_destroy_fn, destroy, "cublasLtDestroy")                                       \
    X(lt_desc_create_fn, desc_create, "cublasLtMatmulDescCreate")                      \
    X(lt_desc_destroy_fn, desc_destroy, "cublasLtMatmulDescDestroy")                   \
    X(lt_desc_set_fn, desc_set, "cublasLtMatmulDescSetAttribute")                      \
    X(lt_layout_create_fn, layout_create, "cublasLtMatrixLayoutCreate")                \
    X(lt_layout_destroy_fn, layout_destroy, "cublasLtMatrixLayoutDestroy")             \
    X(lt_layout_set_fn, layout_set, "cublasLtMatrixLayoutSetAttribute")                \
    X(lt_preference_create_fn, preference_create, "cublasLtMatmulPreferenceCreate")    \
    X(lt_preference_destroy_fn, preference_destroy, "cublasLtMatmulPreferenceDestroy") \
    X(lt_preference_set_fn, preference_set, "cublasLtMatmulPreferenceSetAttribute")    \
    X(lt_heuristic_fn, heuristic, "cublasLtMatmulAlgoGetHeuristic")                    \
    X(lt_matmul_fn, matmul, "cublasLtMatmul")                                          \
    X(lt_status_name_fn, status_name, "cublasLtGetStatusName")

#define BLAS_FUNCTIONS(X)                                            \
    X(blas_create_fn, create, "cublasCreate_v2")                     \
    X(blas_destroy_fn, destroy, "cublasDestroy_v2")                  \
    X(blas_set_stream_fn, set_stream, "cublasSetStream_v2")          \
    X(blas_set_workspace_fn, set_workspace, "cublasSetWorkspace_v2") \
    X(blas_set_math_fn, set_math, "cublasSetMathMode")               \
    X(blas_gemm_fn, gemm, "cublasGemmStridedBatchedEx")

#define MEMBER_(type, member, symbol) type *member;
#define SYMBOL_(type, member, symbol) symbol,
typedef struct lt_functions {
    LT_FUNCTIONS(MEMBER_)
} lt_functions;
typedef struct blas_functions {
    BLAS_FUNCTIONS(MEMBER_)
} blas_functions;
static const char *const k_lt_symbols[] = {LT_FUNCTIONS(SYMBOL_) NULL};
static const char *const k_blas_symbols[] = {BLAS_FUNCTIONS(SYMBOL_) NULL};
#undef MEMBER_
#undef SYMBOL_

/* Of a device; made with its first plan, under blas_lock. */
typedef struct dhowi_cuda_blas_handles {
    lt_functions lt;
    blas_functions blas;
    lt_handle lt_handle;
    blas_handle blas_handle; /* NULL until a plan needs it */
    pthread_mutex_t lock;    /* of that: it holds one stream and one workspace */
} dhowi_cuda_blas_handles;

typedef struct blas_plan {
    dhowi_cuda_device *device;
    dhow_blas_desc desc;
    bool by_cublas;
    union { /* in the type that the product computes in */
        float f32;
        double f64;
    } alpha, beta;
    lt_desc operation;
    lt_layout a, b, c;
    lt_algorithm algorithm;
    uint64_t workspace_bytes;
    pthread_mutex_t bias_lock; /* the operation holds one bias */
} blas_plan;

/* ---- handles -------------------------------------------------------------------------------- */

/* Of the libraries that are there, the first that starts: one that is newer than the driver does
 * not. */
static int32_t start_lt(dhowi_cuda_device *device, dhowi_cuda_blas_handles *handles,
                        dhow_error *err) {
    void *found[sizeof k_lt_symbols / sizeof k_lt_symbols[0]];
    char why[400], refusal[64] = "";
    for (;;) {
        if (!dhowi_cuda_library_open(device->host, DHOWI_CUDA_CUBLASLT, k_lt_symbols, found, why,
                                     sizeof why))
            break;
        memcpy(&handles->lt, found, sizeof handles->lt);
        const int result = handles->lt.create(&handles->lt_handle);
        if (result == 0) return DHOW_OK;
        if (refusal[0] == '\0')
            (void)snprintf(refusal, sizeof refusal, "%.63s", handles->lt.status_name(result));
        if (result != LT_STATUS_NOT_INITIALIZED) break;
        dhowi_cuda_library_reject(DHOWI_CUDA_CUBLASLT, found[0]);
    }
    if (refusal[0] == '\0')
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: no cuBLASLt: %s", device->name, why);
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                             "%s: cuBLASLt does not start: %s; install cuBLAS of the CUDA version "
                             "that nvidia-smi shows, or name its folder in DHOW_CUDA_LIBRARY_PATH",
                             device->name, refusal);
}

static int32_t open_lt(dhowi_cuda_device *device, dhowi_cuda_blas_handles **out, dhow_error *err) {
    *out = device->blas;
    if (*out != NULL) return DHOW_OK;
    dhowi_cuda_blas_handles *handles = dhowi_cuda_new(device->host, sizeof *handles);
    if (handles == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    const int32_t status = start_lt(device, handles, err);
    if (status != DHOW_OK) {
        dhowi_cuda_delete(device->host, handles);
        return status;
    }
    (void)pthread_mutex_init(&handles->lock, NULL);
    *out = device->blas = handles;
    return DHOW_OK;
}

/* Products without tensor cores take many times as long: nobody should have to guess why. Once for
 * a device and a status of cuBLAS', or 0 where there is none. */
static void tell_of_no_lt(dhowi_cuda_device *device, int result, const dhow_error *err) {
    const unsigned bit = 1u << (result > 0 && result < 32 ? result : 0);
    char line[700];
    if ((atomic_fetch_or(&device->told_of_blas, bit) & bit) != 0) return;
    (void)snprintf(line, sizeof line, "%s; products run on the slower portable kernels",
                   err->message);
    device->host->log(device->host->user, DHOW_LOG_WARN, line);
}

static int32_t handles_of(dhowi_cuda_device *device, dhowi_cuda_blas_handles **out,
                          dhow_error *err) {
    (void)pthread_mutex_lock(&device->blas_lock);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax(); /* handles allocate memory */
    int32_t status = open_lt(device, out, err);
    dhowi_cuda_unrelax(mode);
    (void)pthread_mutex_unlock(&device->blas_lock);
    if (status == DHOW_UNSUPPORTED) tell_of_no_lt(device, 0, err);
    return status;
}

/* The second choice, of products that cuBLASLt has no algorithm for. */
static int32_t open_cublas(dhowi_cuda_device *device, dhow_error *err) {
    dhowi_cuda_blas_handles *handles = device->blas;
    void *found[sizeof k_blas_symbols / sizeof k_blas_symbols[0]];
    char why[400];
    int32_t status = DHOW_OK;
    (void)pthread_mutex_lock(&handles->lock);
    if (handles->blas_handle == NULL) {
        int result = 0;
        if (!dhowi_cuda_library_open(device->host, DHOWI_CUDA_CUBLAS, k_blas_symbols, found, why,
                                     sizeof why)) {
            status =
                dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: no cuBLAS: %s", device->name, why);
        } else {
            memcpy(&handles->blas, found, sizeof handles->blas);
            const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
            result = handles->blas.create(&handles->blas_handle);
            dhowi_cuda_unrelax(mode);
            if (result == 0)
                (void)handles->blas.set_math(handles->blas_handle, BLAS_MATH_NO_REDUCED_SUMS);
        }
        if (result != 0) {
            handles->blas_handle = NULL;
            status = dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: cuBLAS does not start: %s",
                                       device->name, handles->lt.status_name(result));
        }
    }
    (void)pthread_mutex_unlock(&handles->lock);
    return status;
}

void dhowi_cuda_blas_end(dhowi_cuda_device *device, bool alive) {
    dhowi_cuda_blas_handles *handles = device->blas;
    if (handles == NULL) return;
    if (alive && handles->blas_handle != NULL) (void)handles->blas.destroy(handles->blas_handle);
    if (alive) (void)handles->lt.destroy(handles->lt_handle);
    (void)pthread_mutex_destroy(&handles->lock);
    dhowi_cuda_delete(device->host, handles);
    device->blas = NULL;
}

/* ---- what is asked for ---------------------------------------------------------------------- */

static bool data_type(int32_t dtype, cudaDataType_t *out) {
    switch (dtype) {
        case DHOW_F32:
            *out = CUDA_R_32F;
            return true;
        case DHOW_F64:
            *out = CUDA_R_64F;
            return true;
        case DHOW_F16:
            *out = CUDA_R_16F;
            return true;
        case DHOW_BF16:
            *out = CUDA_R_16BF;
            return true;
        default:
            return false;
    }
}

static bool is_tf32(const dhow_blas_desc *desc) {
    return desc->dtype_a == DHOW_F32 && (desc->compute == DHOW_BF16 || desc->compute == DHOW_F16);
}

static int compute_type(const dhow_blas_desc *desc) {
    if (desc->dtype_a == DHOW_F64) return LT_COMPUTE_64F;
    return is_tf32(desc) ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F;
}

static bool epilogue_of(const dhow_blas_desc *desc, int *out) {
    const bool bias = (desc->flags & DHOW_EPILOGUE_BIAS) != 0;
    switch (desc->activation) {
        case DHOW_ACTIVATION_NONE:
            *out = bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT;
            return true;
        case DHOW_ACTIVATION_GELU_TANH:
            *out = bias ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU;
            return desc->dtype_a != DHOW_F32 || is_tf32(desc);
        default:
            return false;
    }
}

static int32_t check(const dhowi_cuda_device *device, const dhow_blas_desc *desc, dhow_error *err) {
    cudaDataType_t type;
    int epilogue;
    if (!data_type(desc->dtype_a, &type) || !data_type(desc->dtype_c, &type) ||
        desc->dtype_a != desc->dtype_b ||
        (desc->dtype_c != desc->dtype_a &&
         (desc->dtype_c != DHOW_F32 || desc->dtype_a == DHOW_F64)))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cuBLASLt does not multiply these dtypes", device->name);
    if (!epilogue_of(desc, &epilogue))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cuBLASLt has no such activation, or in another form",
                                 device->name);
    if ((desc->flags & DHOW_EPILOGUE_RESIDUAL) != 0 && desc->beta != 0.0f)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cuBLASLt adds c or a residual, not both", device->name);
    return DHOW_OK;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static int make_layout(const lt_functions *lt, lt_layout *out, int32_t dtype, int64_t rows,
                       int64_t cols, int64_t ld, const dhow_blas_desc *desc, int64_t stride) {
    cudaDataType_t type = CUDA_R_32F;
    (void)data_type(dtype, &type);
    int result = lt->layout_create(out, type, (uint64_t)rows, (uint64_t)cols, ld);
    if (result == 0 && desc->batch > 1) {
        const int32_t count = (int32_t)desc->batch;
        result = lt->layout_set(*out, LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
        if (result == 0)
            result = lt->layout_set(*out, LT_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    }
    return result;
}

/* A row of the matrix as stored is a column for cuBLASLt. */
static int make_layouts(const lt_functions *lt, blas_plan *p) {
    const dhow_blas_desc *d = &p->desc;
    const bool ta = (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0;
    const bool tb = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0;
    int result = make_layout(lt, &p->a, d->dtype_a, ta ? d->m : d->k, ta ? d->k : d->m, d->lda, d,
                             d->stride_a);
    if (result == 0)
        result = make_layout(lt, &p->b, d->dtype_b, tb ? d->k : d->n, tb ? d->n : d->k, d->ldb, d,
                             d->stride_b);
    if (result == 0)
        result = make_layout(lt, &p->c, d->dtype_c, d->n, d->m, d->ldc, d, d->stride_c);
    return result;
}

static int make_operation(const lt_functions *lt, blas_plan *p) {
    const dhow_blas_desc *d = &p->desc;
    const int32_t ta = (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0 ? LT_OP_T : LT_OP_N;
    const int32_t tb = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0 ? LT_OP_T : LT_OP_N;
    cudaDataType_t bias_type = CUDA_R_32F;
    int epilogue = LT_EPILOGUE_DEFAULT;
    (void)epilogue_of(d, &epilogue);
    (void)data_type(d->dtype_c, &bias_type);
    const int32_t epilogue32 = epilogue, bias32 = (int32_t)bias_type;
    int result = lt->desc_create(&p->operation, compute_type(d),
                                 d->dtype_a == DHOW_F64 ? CUDA_R_64F : CUDA_R_32F);
    if (result == 0) result = lt->desc_set(p->operation, LT_DESC_TRANSA, &tb, sizeof tb);
    if (result == 0) result = lt->desc_set(p->operation, LT_DESC_TRANSB, &ta, sizeof ta);
    if (result == 0)
        result = lt->desc_set(p->operation, LT_DESC_EPILOGUE, &epilogue32, sizeof epilogue32);
    if (result == 0 && (d->flags & DHOW_EPILOGUE_BIAS) != 0)
        result = lt->desc_set(p->operation, LT_DESC_BIAS_DATA_TYPE, &bias32, sizeof bias32);
    return result;
}

/* The best algorithm for buffers that lie as the device's offset_align promises. */
static int find_algorithm(dhowi_cuda_blas_handles *handles, blas_plan *p) {
    static const int alignments[] = {LT_PREFERENCE_MIN_ALIGNMENT_A, LT_PREFERENCE_MIN_ALIGNMENT_B,
                                     LT_PREFERENCE_MIN_ALIGNMENT_C, LT_PREFERENCE_MIN_ALIGNMENT_D};
    const lt_functions *lt = &handles->lt;
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t align = DHOWI_CUDA_OFFSET_ALIGN;
    const uint32_t reduction = LT_REDUCE_IN_COMPUTE_TYPE; /* never in f16 or bf16, as for cuBLAS */
    lt_preference preference = NULL;
    lt_heuristic best;
    int found = 0;
    memset(&best, 0, sizeof best);
    int result = lt->preference_create(&preference);
    if (result == 0)
        result = lt->preference_set(preference, LT_PREFERENCE_MAX_WORKSPACE, &workspace,
                                    sizeof workspace);
    if (result == 0)
        result = lt->preference_set(preference, LT_PREFERENCE_REDUCTION_SCHEMES, &reduction,
                                    sizeof reduction);
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0] && result == 0; i++)
        result = lt->preference_set(preference, alignments[i], &align, sizeof align);
    if (result == 0)
        result = lt->heuristic(handles->lt_handle, p->operation, p->b, p->a, p->c, p->c, preference,
                               1, &best, &found);
    if (result == 0 && (found == 0 || best.state != 0)) result = LT_STATUS_NOT_SUPPORTED;
    if (preference != NULL) (void)lt->preference_destroy(preference);
    p->algorithm = best.algorithm;
    p->workspace_bytes = best.workspace_bytes;
    return result;
}

static void delete_plan(blas_plan *p) {
    const dhowi_cuda_device *device = p->device;
    const lt_functions *lt = &device->blas->lt;
    if (p->operation != NULL) (void)lt->desc_destroy(p->operation);
    if (p->a != NULL) (void)lt->layout_destroy(p->a);
    if (p->b != NULL) (void)lt->layout_destroy(p->b);
    if (p->c != NULL) (void)lt->layout_destroy(p->c);
    (void)pthread_mutex_destroy(&p->bias_lock);
    dhowi_cuda_delete(device->host, p);
}

/* What says nothing of the product: it may go another time. */
static bool is_passing(int lt_result) {
    return lt_result != LT_STATUS_NOT_SUPPORTED && lt_result != LT_STATUS_INVALID_VALUE &&
           lt_result != LT_STATUS_ARCH_MISMATCH;
}

static int32_t refuse_now(dhowi_cuda_device *device, int lt_result, dhow_error *err) {
    const int32_t status =
        dhowi_cuda_refuse(err, DHOW_UNAVAILABLE, "%s: cuBLASLt fails to plan a product: %s (%d)",
                          device->name, device->blas->lt.status_name(lt_result), lt_result);
    tell_of_no_lt(device, lt_result, err);
    return status;
}

/* cuBLAS takes what its own 32-bit sizes hold, without anything behind the product. */
static int32_t plan_cublas(dhowi_cuda_device *device, blas_plan *p, int lt_result,
                           dhow_error *err) {
    const dhow_blas_desc *d = &p->desc;
    const int64_t extents[] = {d->m, d->n, d->k, d->batch, d->lda, d->ldb, d->ldc};
    bool fits = d->activation == DHOW_ACTIVATION_NONE &&
                (d->flags & (DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL)) == 0;
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        fits = fits && extents[i] <= INT32_MAX;
    if (!fits)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: cuBLASLt has no algorithm: %s",
                                 device->name, device->blas->lt.status_name(lt_result));
    p->by_cublas = true;
    p->workspace_bytes = CUBLAS_WORKSPACE_BYTES;
    return open_cublas(device, err);
}

static int32_t plan(void *device_pointer, const dhow_blas_desc *desc, void **out_plan,
                    uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    dhowi_cuda_blas_handles *handles = NULL;
    *out_plan = NULL;
    *out_workspace_bytes = *out_packed_bytes = 0;
    int32_t status = check(device, desc, err);
    if (status != DHOW_OK) return status;
    blas_plan *p = dhowi_cuda_new(device->host, sizeof *p);
    if (p == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    bool entered;
    const cudaError_t code = dhowi_cuda_require(device, &entered);
    status = code == cudaSuccess
                 ? handles_of(device, &handles, err)
                 : dhowi_cuda_fail(err, code, "%s: a plan of a product", device->name);
    if (status != DHOW_OK) {
        dhowi_cuda_leave(entered);
        dhowi_cuda_delete(device->host, p);
        return status;
    }
    p->device = device;
    p->desc = *desc;
    const bool wide = desc->dtype_a == DHOW_F64;
    const float beta = (desc->flags & DHOW_EPILOGUE_RESIDUAL) != 0 ? 1.0f : desc->beta;
    if (wide) {
        p->alpha.f64 = (double)desc->alpha;
        p->beta.f64 = (double)beta;
    } else {
        p->alpha.f32 = desc->alpha;
        p->beta.f32 = beta;
    }
    (void)pthread_mutex_init(&p->bias_lock, NULL);
    int result = make_operation(&handles->lt, p);
    if (result == 0) result = make_layouts(&handles->lt, p);
    if (result == 0) result = find_algorithm(handles, p);
    if (result != 0)
        status = is_passing(result) ? refuse_now(device, result, err)
                                    : plan_cublas(device, p, result, err);
    dhowi_cuda_leave(entered);
    if (status != DHOW_OK) {
        delete_plan(p);
        return status;
    }
    *out_workspace_bytes = p->workspace_bytes;
    *out_plan = p;
    return DHOW_OK;
}

static int32_t pack(void *plan_pointer, void *stream, dhow_buffer b, dhow_buffer packed,
                    dhow_error *err) {
    (void)stream;
    (void)b;
    (void)packed;
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: cuBLASLt packs no matrices",
                             ((blas_plan *)plan_pointer)->device->name);
}

/* ---- running -------------------------------------------------------------------------------- */

static void *pointer_to(dhow_buffer buffer) {
    return (void *)(uintptr_t)(buffer.handle + buffer.offset);
}

static int run_lt(blas_plan *p, cudaStream_t stream, void *a, void *b, void *c, void *bias,
                  void *residual, void *workspace) {
    const dhowi_cuda_blas_handles *handles = p->device->blas;
    const bool has_bias = (p->desc.flags & DHOW_EPILOGUE_BIAS) != 0;
    const void *added = (p->desc.flags & DHOW_EPILOGUE_RESIDUAL) != 0 ? residual : c;
    int result = 0;
    if (has_bias) {
        (void)pthread_mutex_lock(&p->bias_lock);
        result = handles->lt.desc_set(p->operation, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (result == 0)
        result = handles->lt.matmul(handles->lt_handle, p->operation, &p->alpha, b, p->b, a, p->a,
                                    &p->beta, added, p->c, c, p->c, &p->algorithm, workspace,
                                    (size_t)p->workspace_bytes, stream);
    if (has_bias) (void)pthread_mutex_unlock(&p->bias_lock);
    return result;
}

static int run_cublas(const blas_plan *p, cudaStream_t stream, void *a, void *b, void *c,
                      void *workspace) {
    dhowi_cuda_blas_handles *handles = p->device->blas;
    const blas_functions *blas = &handles->blas;
    const dhow_blas_desc *d = &p->desc;
    cudaDataType_t a_type = CUDA_R_32F, c_type = CUDA_R_32F;
    (void)data_type(d->dtype_a, &a_type);
    (void)data_type(d->dtype_c, &c_type);
    const int ta = (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0 ? LT_OP_T : LT_OP_N;
    const int tb = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0 ? LT_OP_T : LT_OP_N;
    (void)pthread_mutex_lock(&handles->lock);
    int result = blas->set_stream(handles->blas_handle, stream);
    if (result == 0) /* after the stream, which resets it */
        result = blas->set_workspace(handles->blas_handle, workspace, (size_t)p->workspace_bytes);
    if (result == 0)
        result = blas->gemm(handles->blas_handle, tb, ta, (int)d->n, (int)d->m, (int)d->k,
                            &p->alpha, b, a_type, (int)d->ldb, d->stride_b, a, a_type, (int)d->lda,
                            d->stride_a, &p->beta, c, c_type, (int)d->ldc, d->stride_c,
                            (int)d->batch, compute_type(d), BLAS_GEMM_DEFAULT);
    (void)pthread_mutex_unlock(&handles->lock);
    return result;
}

static int32_t run(void *plan_pointer, void *stream_pointer, dhow_buffer a, dhow_buffer b,
                   dhow_buffer c, dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                   dhow_error *err) {
    blas_plan *p = plan_pointer;
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(p->device, &entered);
    if (code != cudaSuccess) return dhowi_cuda_fail_on(stream, err, code, "a product by cuBLAS");
    const int result =
        p->by_cublas
            ? run_cublas(p, dhowi_cuda_target(stream), pointer_to(a), pointer_to(b), pointer_to(c),
                         pointer_to(workspace))
            : run_lt(p, dhowi_cuda_target(stream), pointer_to(a), pointer_to(b), pointer_to(c),
                     pointer_to(bias), pointer_to(residual), pointer_to(workspace));
    code = result != 0 ? dhowi_cuda_stream_fault(dhowi_cuda_target(stream)) : cudaSuccess;
    dhowi_cuda_leave(entered);
    if (result == 0) return DHOW_OK;
    if (code != cudaSuccess) return dhowi_cuda_fail_on(stream, err, code, "a product by cuBLAS");
    err->native_code = result;
    int32_t status =
        dhowi_cuda_refuse(err, DHOW_INTERNAL, "%s: %s: %s (%d)", p->device->name,
                          p->by_cublas ? "cublasGemmStridedBatchedEx" : "cublasLtMatmul",
                          p->device->blas->lt.status_name(result), result);
    err->native_code = result;
    return status;
}

static void destroy(void *plan_pointer) {
    delete_plan(plan_pointer); /* that is host memory alone */
}

const dhow_blas dhowi_cuda_blas = {.struct_size = (uint32_t)sizeof(dhow_blas),
                                   .minor = 0,
                                   .plan = plan,
                                   .pack = pack,
                                   .run = run,
                                   .destroy = destroy};
