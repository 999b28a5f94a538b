/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake cuBLASLt: descriptions, heuristic answers that hold for one product only, and products on
 * the fake runtime's streams.
 */
#include <string.h>

#include "gemm.h"

enum { WORKSPACE_BYTES = 4096, ORDER_ATTRIBUTE = 1, ORDER_ROW = 1 };
#define ALGORITHM_MARK UINT64_C(0x66616b654c740001)

struct lt_desc {
    int compute, scale;
    int32_t transpose_a, transpose_b, epilogue, bias_type;
    bool has_bias_type;
    const void *bias;
};

struct lt_layout {
    fake_matrix matrix;
    int32_t batch;
};

struct lt_preference {
    uint64_t workspace;
    uint32_t reductions; /* schemes that may add up the parts of K; all unless it is set */
    uint32_t align[4]; /* of A, B, C, D */
};

/* ---- handles and descriptions ---- */

int cublasLtCreate(lt_handle *out);
int cublasLtCreate(lt_handle *out) {
    const int code = fakecuda_library_call("cublasLtCreate");
    if (code != 0) return code;
    if (fakecuda_setting("nolt")) return FAKE_NOT_INITIALIZED;
    if (fakecuda_driver() / 1000 < FAKE_LT_MAJOR) return FAKE_NOT_INITIALIZED;
    if (fakecuda_current_device() < 0) {
        fakecuda_complain("cublasLtCreate without a context");
        return FAKE_NOT_INITIALIZED;
    }
    *out = fakecuda_object_new(FAKECUDA_LT, 16);
    return *out != NULL ? 0 : FAKE_ALLOC_FAILED;
}

static int destroy(const char *name, void *object) {
    const int code = fakecuda_library_call(name);
    if (!fakecuda_object_is(object, FAKECUDA_LT)) return FAKE_INVALID_VALUE;
    fakecuda_object_delete(object);
    return code;
}

int cublasLtDestroy(lt_handle handle);
int cublasLtDestroy(lt_handle handle) { return destroy("cublasLtDestroy", handle); }
int cublasLtMatmulDescDestroy(lt_desc desc);
int cublasLtMatmulDescDestroy(lt_desc desc) { return destroy("cublasLtMatmulDescDestroy", desc); }
int cublasLtMatrixLayoutDestroy(lt_layout layout);
int cublasLtMatrixLayoutDestroy(lt_layout layout) {
    return destroy("cublasLtMatrixLayoutDestroy", layout);
}
int cublasLtMatmulPreferenceDestroy(lt_preference preference);
int cublasLtMatmulPreferenceDestroy(lt_preference preference) {
    return destroy("cublasLtMatmulPreferenceDestroy", preference);
}

const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusName(int status) { return fake_status_name(status); }
size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return FAKE_LT_MAJOR * 10000; }

int cublasLtMatmulDescCreate(lt_desc *out, int compute, cudaDataType_t scale);
int cublasLtMatmulDescCreate(lt_desc *out, int compute, cudaDataType_t scale) {
    const int code = fakecuda_library_call("cublasLtMatmulDescCreate");
    if (code != 0) return code;
    *out = fakecuda_object_new(FAKECUDA_LT, sizeof **out);
    if (*out == NULL) return FAKE_ALLOC_FAILED;
    (*out)->compute = compute;
    (*out)->scale = (int)scale;
    (*out)->epilogue = LT_EPILOGUE_DEFAULT;
    return 0;
}

/* Copies an attribute of the right size. */
static int take(void *to, size_t wanted, const void *value, size_t bytes) {
    if (value == NULL || bytes != wanted) return FAKE_INVALID_VALUE;
    memcpy(to, value, bytes);
    return 0;
}
#define TAKE(field) take(&(field), sizeof(field), value, bytes)

int cublasLtMatmulDescSetAttribute(lt_desc desc, int attribute, const void *value, size_t bytes);
int cublasLtMatmulDescSetAttribute(lt_desc desc, int attribute, const void *value, size_t bytes) {
    const int code = fakecuda_library_call("cublasLtMatmulDescSetAttribute");
    if (code != 0) return code;
    if (!fakecuda_object_is(desc, FAKECUDA_LT)) return FAKE_INVALID_VALUE;
    switch (attribute) {
        case LT_DESC_TRANSA:
            return TAKE(desc->transpose_a);
        case LT_DESC_TRANSB:
            return TAKE(desc->transpose_b);
        case LT_DESC_EPILOGUE:
            return TAKE(desc->epilogue);
        case LT_DESC_BIAS_POINTER:
            return TAKE(desc->bias);
        case LT_DESC_BIAS_DATA_TYPE:
            desc->has_bias_type = true;
            return TAKE(desc->bias_type);
        default:
            return FAKE_NOT_SUPPORTED;
    }
}

int cublasLtMatrixLayoutCreate(lt_layout *out, cudaDataType_t type, uint64_t rows, uint64_t cols,
                               int64_t ld);
int cublasLtMatrixLayoutCreate(lt_layout *out, cudaDataType_t type, uint64_t rows, uint64_t cols,
                               int64_t ld) {
    const int code = fakecuda_library_call("cublasLtMatrixLayoutCreate");
    if (code != 0) return code;
    *out = fakecuda_object_new(FAKECUDA_LT, sizeof **out);
    if (*out == NULL) return FAKE_ALLOC_FAILED;
    (*out)->matrix.type = (int32_t)type;
    (*out)->matrix.rows = (int64_t)rows;
    (*out)->matrix.cols = (int64_t)cols;
    (*out)->matrix.ld = ld;
    (*out)->batch = 1;
    return 0;
}

int cublasLtMatrixLayoutSetAttribute(lt_layout layout, int attribute, const void *value,
                                     size_t bytes);
int cublasLtMatrixLayoutSetAttribute(lt_layout layout, int attribute, const void *value,
                                     size_t bytes) {
    int32_t order = 0;
    int code = fakecuda_library_call("cublasLtMatrixLayoutSetAttribute");
    if (code != 0) return code;
    if (!fakecuda_object_is(layout, FAKECUDA_LT)) return FAKE_INVALID_VALUE;
    switch (attribute) {
        case LT_LAYOUT_BATCH_COUNT:
            return TAKE(layout->batch);
        case LT_LAYOUT_STRIDED_BATCH_OFFSET:
            return TAKE(layout->matrix.stride);
        case ORDER_ATTRIBUTE:
            code = TAKE(order);
            layout->matrix.row_major = order == ORDER_ROW;
            return code;
        default:
            return FAKE_NOT_SUPPORTED;
    }
}

int cublasLtMatmulPreferenceCreate(lt_preference *out);
int cublasLtMatmulPreferenceCreate(lt_preference *out) {
    const int code = fakecuda_library_call("cublasLtMatmulPreferenceCreate");
    if (code != 0) return code;
    *out = fakecuda_object_new(FAKECUDA_LT, sizeof **out);
    if (*out == NULL) return FAKE_ALLOC_FAILED;
    (*out)->reductions = 7;
    for (int i = 0; i < 4; i++) (*out)->align[i] = 256;
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(lt_preference preference, int attribute, const void *value,
                                         size_t bytes);
int cublasLtMatmulPreferenceSetAttribute(lt_preference preference, int attribute, const void *value,
                                         size_t bytes) {
    const int code = fakecuda_library_call("cublasLtMatmulPreferenceSetAttribute");
    if (code != 0) return code;
    if (!fakecuda_object_is(preference, FAKECUDA_LT)) return FAKE_INVALID_VALUE;
    if (attribute == LT_PREFERENCE_MAX_WORKSPACE) return TAKE(preference->workspace);
    if (attribute == LT_PREFERENCE_REDUCTION_SCHEMES) return TAKE(preference->reductions);
    if (attribute >= LT_PREFERENCE_MIN_ALIGNMENT_A && attribute <= LT_PREFERENCE_MIN_ALIGNMENT_D)
        return TAKE(preference->align[attribute - LT_PREFERENCE_MIN_ALIGNMENT_A]);
    return FAKE_NOT_SUPPORTED;
}

/* ---- products ---- */

static int describe(lt_desc desc, lt_layout a, lt_layout b, lt_layout c, lt_layout d,
                    fake_gemm *out) {
    const void *const objects[] = {desc, a, b, c, d};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        if (!fakecuda_object_is(objects[i], FAKECUDA_LT)) return FAKE_INVALID_VALUE;
    }
    memset(out, 0, sizeof *out);
    out->a = a->matrix;
    out->b = b->matrix;
    out->c = c->matrix;
    out->d = d->matrix;
    out->transpose_a = desc->transpose_a != LT_OP_N;
    out->transpose_b = desc->transpose_b != LT_OP_N;
    out->tf32 = desc->compute == LT_COMPUTE_32F_FAST_TF32;
    out->m = d->matrix.rows;
    out->n = d->matrix.cols;
    out->k = out->transpose_a ? a->matrix.rows : a->matrix.cols;
    out->batch = d->batch;
    out->epilogue = desc->epilogue;
    out->bias = desc->bias;
    out->bias_type = desc->has_bias_type ? desc->bias_type : d->matrix.type;
    if (a->batch != d->batch || b->batch != d->batch || c->batch != d->batch)
        return FAKE_INVALID_VALUE;
    if (d->batch > 1 && d->matrix.stride == 0) return FAKE_INVALID_VALUE; /* they would collide */
    if (desc->scale != (desc->compute == LT_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F))
        return FAKE_NOT_SUPPORTED;
    if (out->bias_type != d->matrix.type) return FAKE_NOT_SUPPORTED;
    return fake_gemm_check(out, desc->compute);
}

/* Says for which product an algorithm was found. */
static void mark(const fake_gemm *g, uint64_t *out) {
    out[0] = ALGORITHM_MARK;
    out[1] = (uint64_t)g->m << 32 | (uint64_t)g->n;
    out[2] = (uint64_t)g->k << 32 | (uint64_t)g->batch;
    out[3] = (uint64_t)g->a.type << 32 | (uint64_t)g->d.type;
    out[4] = (uint64_t)g->epilogue << 32 | (uint64_t)g->transpose_a << 1 | (uint64_t)g->transpose_b;
}

int cublasLtMatmulAlgoGetHeuristic(lt_handle handle, lt_desc desc, lt_layout a, lt_layout b,
                                   lt_layout c, lt_layout d, lt_preference preference, int asked,
                                   lt_heuristic *results, int *found);
int cublasLtMatmulAlgoGetHeuristic(lt_handle handle, lt_desc desc, lt_layout a, lt_layout b,
                                   lt_layout c, lt_layout d, lt_preference preference, int asked,
                                   lt_heuristic *results, int *found) {
    fake_gemm gemm;
    int code = fakecuda_library_call("cublasLtMatmulAlgoGetHeuristic");
    if (code != 0) return code;
    *found = 0;
    if (!fakecuda_object_is(handle, FAKECUDA_LT) || !fakecuda_object_is(preference, FAKECUDA_LT) ||
        asked < 1)
        return FAKE_INVALID_VALUE;
    code = describe(desc, a, b, c, d, &gemm);
    if (code != 0) return code;
    if (fakecuda_setting("noheuristic")) return FAKE_NOT_SUPPORTED;
    if ((preference->reductions & ~(uint32_t)LT_REDUCE_IN_COMPUTE_TYPE) != 0) {
        fakecuda_complain("cublasLt may add partial sums in the output's type or in place");
        return FAKE_INVALID_VALUE;
    }
    memset(results, 0, sizeof *results);
    mark(&gemm, results->algorithm.data);
    uint64_t align = 1;
    for (int i = 0; i < 4; i++) align = preference->align[i] > align ? preference->align[i] : align;
    results->algorithm.data[5] = align;
    results->workspace_bytes = preference->workspace >= WORKSPACE_BYTES ? WORKSPACE_BYTES : 0;
    results->algorithm.data[6] = results->workspace_bytes;
    results->waves = 1;
    *found = 1;
    return 0;
}

static bool is_aligned(const void *address, uint64_t align) {
    return (uint64_t)(uintptr_t)address % align == 0;
}

int cublasLtMatmul(lt_handle handle, lt_desc desc, const void *alpha, const void *a,
                   lt_layout a_layout, const void *b, lt_layout b_layout, const void *beta,
                   const void *c, lt_layout c_layout, void *d, lt_layout d_layout,
                   const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                   cudaStream_t stream);
int cublasLtMatmul(lt_handle handle, lt_desc desc, const void *alpha, const void *a,
                   lt_layout a_layout, const void *b, lt_layout b_layout, const void *beta,
                   const void *c, lt_layout c_layout, void *d, lt_layout d_layout,
                   const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                   cudaStream_t stream) {
    fake_gemm gemm;
    uint64_t wanted[5];
    int code = fakecuda_library_call("cublasLtMatmul");
    if (code != 0) return code;
    if (!fakecuda_object_is(handle, FAKECUDA_LT) || alpha == NULL || beta == NULL || a == NULL ||
        b == NULL || d == NULL)
        return FAKE_INVALID_VALUE;
    code = describe(desc, a_layout, b_layout, c_layout, d_layout, &gemm);
    if (code != 0) return code;
    mark(&gemm, wanted);
    const uint64_t *have = algorithm != NULL ? algorithm->data : NULL;
    if (have == NULL || memcmp(have, wanted, sizeof wanted) != 0) {
        fakecuda_complain("cublasLtMatmul is given an algorithm of another product");
        return FAKE_INVALID_VALUE;
    }
    if (!is_aligned(a, have[5]) || !is_aligned(b, have[5]) || !is_aligned(c, have[5]) ||
        !is_aligned(d, have[5])) {
        fakecuda_complain("cublasLtMatmul is given less alignment than was promised");
        return FAKE_INVALID_VALUE;
    }
    if (workspace_bytes < have[6] ||
        (have[6] != 0 && (workspace == NULL || !is_aligned(workspace, 256))))
        return FAKE_INVALID_VALUE;
    const bool wide = desc->scale == (int)CUDA_R_64F;
    gemm.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    gemm.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
    gemm.a.address = a;
    gemm.b.address = b;
    gemm.c.address = c;
    gemm.d.address = d;
    gemm.workspace = have[6] != 0 ? workspace : NULL;
    gemm.workspace_bytes = have[6];
    return fake_gemm_submit(stream, &gemm);
}
