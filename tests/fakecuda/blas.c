/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake cuBLAS: one strided batched product. A handle holds a stream and a workspace, which
 * setting the stream resets; using cuBLAS' own workspace from several streams at once is a mistake
 * that shows.
 */
#include <string.h>

#include "gemm.h"

struct fake_blas {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};

static struct fake_blas *valid(blas_handle handle) {
    return fakecuda_object_is(handle, FAKECUDA_BLAS) ? handle : NULL;
}

int cublasCreate_v2(blas_handle *out);
int cublasCreate_v2(blas_handle *out) {
    const int code = fakecuda_library_call("cublasCreate_v2");
    if (code != 0) return code;
    if (fakecuda_current_device() < 0) {
        fakecuda_complain("cublasCreate without a context");
        return FAKE_NOT_INITIALIZED;
    }
    *out = fakecuda_object_new(FAKECUDA_BLAS, sizeof(struct fake_blas));
    return *out != NULL ? 0 : FAKE_ALLOC_FAILED;
}

int cublasDestroy_v2(blas_handle handle);
int cublasDestroy_v2(blas_handle handle) {
    const int code = fakecuda_library_call("cublasDestroy_v2");
    if (valid(handle) == NULL) return FAKE_NOT_INITIALIZED;
    fakecuda_object_delete(handle);
    return code;
}

int cublasSetStream_v2(blas_handle handle, cudaStream_t stream);
int cublasSetStream_v2(blas_handle handle, cudaStream_t stream) {
    const int code = fakecuda_library_call("cublasSetStream_v2");
    struct fake_blas *blas = valid(handle);
    if (code != 0 || blas == NULL) return code != 0 ? code : FAKE_NOT_INITIALIZED;
    blas->stream = stream;
    blas->workspace = NULL;
    return 0;
}

int cublasSetWorkspace_v2(blas_handle handle, void *workspace, size_t bytes);
int cublasSetWorkspace_v2(blas_handle handle, void *workspace, size_t bytes) {
    const int code = fakecuda_library_call("cublasSetWorkspace_v2");
    struct fake_blas *blas = valid(handle);
    if (code != 0 || blas == NULL) return code != 0 ? code : FAKE_NOT_INITIALIZED;
    if ((uintptr_t)workspace % 256 != 0) return FAKE_INVALID_VALUE;
    blas->workspace = workspace;
    blas->workspace_bytes = bytes;
    return 0;
}

int cublasSetMathMode(blas_handle handle, int mode);
int cublasSetMathMode(blas_handle handle, int mode) {
    const int code = fakecuda_library_call("cublasSetMathMode");
    (void)mode;
    return code == 0 && valid(handle) == NULL ? FAKE_NOT_INITIALIZED : code;
}

static fake_matrix matrix(const void *address, cudaDataType_t type, bool transposed, int rows,
                          int cols, int ld, long long stride) {
    return (fake_matrix){
        address, (int32_t)type, false, transposed ? cols : rows, transposed ? rows : cols,
        ld,      stride};
}

int cublasGemmStridedBatchedEx(blas_handle handle, int transa, int transb, int m, int n, int k,
                               const void *alpha, const void *a, cudaDataType_t a_type, int lda,
                               long long stride_a, const void *b, cudaDataType_t b_type, int ldb,
                               long long stride_b, const void *beta, void *c, cudaDataType_t c_type,
                               int ldc, long long stride_c, int batch, int compute, int algorithm);
int cublasGemmStridedBatchedEx(blas_handle handle, int transa, int transb, int m, int n, int k,
                               const void *alpha, const void *a, cudaDataType_t a_type, int lda,
                               long long stride_a, const void *b, cudaDataType_t b_type, int ldb,
                               long long stride_b, const void *beta, void *c, cudaDataType_t c_type,
                               int ldc, long long stride_c, int batch, int compute, int algorithm) {
    int code = fakecuda_library_call("cublasGemmStridedBatchedEx");
    struct fake_blas *blas = valid(handle);
    (void)algorithm;
    if (code != 0 || blas == NULL) return code != 0 ? code : FAKE_NOT_INITIALIZED;
    fake_gemm gemm = {.m = m, .n = n, .k = k, .batch = batch, .epilogue = LT_EPILOGUE_DEFAULT};
    gemm.transpose_a = transa != LT_OP_N;
    gemm.transpose_b = transb != LT_OP_N;
    gemm.tf32 = compute == LT_COMPUTE_32F_FAST_TF32;
    gemm.a = matrix(a, a_type, gemm.transpose_a, m, k, lda, stride_a);
    gemm.b = matrix(b, b_type, gemm.transpose_b, k, n, ldb, stride_b);
    gemm.c = gemm.d = matrix(c, c_type, false, m, n, ldc, stride_c);
    gemm.bias_type = (int32_t)c_type;
    code = fake_gemm_check(&gemm, compute);
    if (code == 0 && (batch < 1 || alpha == NULL || beta == NULL)) code = FAKE_INVALID_VALUE;
    if (code != 0) return code;
    const bool wide = compute == LT_COMPUTE_64F;
    gemm.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    gemm.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
    if (blas->workspace == NULL) fakecuda_complain("cuBLAS uses a workspace of its own");
    gemm.workspace = blas->workspace;
    gemm.workspace_bytes = blas->workspace_bytes < 4096 ? blas->workspace_bytes : 4096;
    return fake_gemm_submit(blas->stream, &gemm);
}
