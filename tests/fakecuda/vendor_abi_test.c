/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin's own declarations of cuBLASLt, cuBLAS and NVRTC against NVIDIA's headers, where those
 * are installed: every number at compile time, every function by its type.
 */
#include "plugins/cuda/vendor_abi.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <nvrtc.h>
#include <stdio.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(NVRTC_COMPILATION_FAILED, NVRTC_ERROR_COMPILATION);
SAME(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(LT_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(LT_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(LT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT);
SAME(LT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
SAME(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(LT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(LT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU);
SAME(LT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(LT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(LT_PREFERENCE_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_PREFERENCE_REDUCTION_SCHEMES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(LT_REDUCE_IN_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(LT_PREFERENCE_MIN_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(LT_PREFERENCE_MIN_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(LT_PREFERENCE_MIN_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(LT_PREFERENCE_MIN_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(LT_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(LT_STATUS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(LT_STATUS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(LT_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(LT_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(LT_OP_N, CUBLAS_OP_N);
SAME(LT_OP_T, CUBLAS_OP_T);
SAME(BLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
SAME(BLAS_MATH_NO_REDUCED_SUMS, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
_Static_assert(sizeof(lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(lt_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "heuristic");
_Static_assert(offsetof(lt_heuristic, workspace_bytes) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
               "heuristic");
_Static_assert(offsetof(lt_heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state),
               "heuristic");

/* Never called: each assignment is right for the compiler only if the prototype is as stated. */
#define TAKES(function, ...)                                    \
    static void check_##function(void) {                        \
        __typeof__(function(__VA_ARGS__)) (*take)(void) = NULL; \
        (void)take;                                             \
    }
TAKES(cublasLtMatmul, (cublasLtHandle_t)0, (cublasLtMatmulDesc_t)0, (const void *)0,
      (const void *)0, (cublasLtMatrixLayout_t)0, (const void *)0, (cublasLtMatrixLayout_t)0,
      (const void *)0, (const void *)0, (cublasLtMatrixLayout_t)0, (void *)0,
      (cublasLtMatrixLayout_t)0, (const cublasLtMatmulAlgo_t *)0, (void *)0, (size_t)0,
      (cudaStream_t)0)
TAKES(cublasGemmStridedBatchedEx, (cublasHandle_t)0, CUBLAS_OP_N, CUBLAS_OP_N, 0, 0, 0,
      (const void *)0, (const void *)0, CUDA_R_32F, 0, 0LL, (const void *)0, CUDA_R_32F, 0, 0LL,
      (const void *)0, (void *)0, CUDA_R_32F, 0, 0LL, 0, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)
TAKES(nvrtcCreateProgram, (nvrtcProgram *)0, "", "", 0, (const char *const *)0,
      (const char *const *)0)

int main(void) {
    check_cublasLtMatmul();
    check_cublasGemmStridedBatchedEx();
    check_nvrtcCreateProgram();
    (void)printf("%zu bytes of a heuristic's answer\n", sizeof(lt_heuristic));
    return 0;
}
