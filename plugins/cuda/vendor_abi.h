/* SPDX-License-Identifier: Apache-2.0
 *
 * What is used of NVML, NVRTC, cuBLASLt and cuBLAS, declared here so that the plugin builds from
 * the runtime's headers alone. Names follow the vendor's; tests/fakecuda/vendor_abi_test.c compares
 * every number and size with the real headers where they are installed.
 */
#ifndef DHOW_CUDA_VENDOR_ABI_H_
#define DHOW_CUDA_VENDOR_ABI_H_

#include <cuda_runtime_api.h>
#include <library_types.h>
#include <stddef.h>
#include <stdint.h>

/* ---- NVML ---- */

typedef void *nvml_device;
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef int nvml_init_fn(void);
typedef int nvml_handle_fn(const char *pci, nvml_device *out);
typedef int nvml_memory_fn(nvml_device device, nvml_memory *out);

/* ---- NVRTC: results are 0 for success ---- */

enum { NVRTC_COMPILATION_FAILED = 6 };
typedef void *nvrtc_program;
typedef int nvrtc_version_fn(int *major, int *minor);
typedef int nvrtc_arch_count_fn(int *count);
typedef int nvrtc_archs_fn(int *archs);
typedef int nvrtc_create_fn(nvrtc_program *out, const char *text, const char *name,
                            int header_count, const char *const *headers,
                            const char *const *header_names);
typedef int nvrtc_destroy_fn(nvrtc_program *program);
typedef int nvrtc_compile_fn(nvrtc_program program, int option_count, const char *const *options);
typedef int nvrtc_size_fn(nvrtc_program program, size_t *out);
typedef int nvrtc_bytes_fn(nvrtc_program program, char *out);
typedef const char *nvrtc_error_fn(int result);

/* ---- cuBLASLt ---- */

typedef void *lt_handle;
typedef struct lt_desc *lt_desc;
typedef struct lt_layout *lt_layout;
typedef struct lt_preference *lt_preference;

enum { /* cublasComputeType_t */
       LT_COMPUTE_32F = 68,
       LT_COMPUTE_32F_FAST_TF32 = 77,
       LT_COMPUTE_64F = 70
};
enum { /* cublasLtMatmulDescAttributes_t */
       LT_DESC_TRANSA = 3,
       LT_DESC_TRANSB = 4,
       LT_DESC_EPILOGUE = 7,
       LT_DESC_BIAS_POINTER = 8,
       LT_DESC_BIAS_DATA_TYPE = 26
};
enum { /* cublasLtEpilogue_t; GELU is its tanh approximation */
       LT_EPILOGUE_DEFAULT = 1,
       LT_EPILOGUE_RELU = 2, /* never asked for, see blas.c; so is RELU_BIAS */
       LT_EPILOGUE_BIAS = 4,
       LT_EPILOGUE_RELU_BIAS = 6,
       LT_EPILOGUE_GELU = 32,
       LT_EPILOGUE_GELU_BIAS = 36
};
enum { /* cublasLtMatrixLayoutAttribute_t */
       LT_LAYOUT_BATCH_COUNT = 5,
       LT_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum { /* cublasLtMatmulPreferenceAttributes_t */
       LT_PREFERENCE_MAX_WORKSPACE = 1,
       LT_PREFERENCE_REDUCTION_SCHEMES = 3,
       LT_PREFERENCE_MIN_ALIGNMENT_A = 5,
       LT_PREFERENCE_MIN_ALIGNMENT_B = 6,
       LT_PREFERENCE_MIN_ALIGNMENT_C = 7,
       LT_PREFERENCE_MIN_ALIGNMENT_D = 8
};
enum { LT_REDUCE_IN_COMPUTE_TYPE = 2 }; /* cublasLtReductionScheme_t, a bit */
enum {                                  /* also cuBLAS' */
       LT_STATUS_NOT_INITIALIZED = 1,
       LT_STATUS_ALLOC_FAILED = 3,
       LT_STATUS_INVALID_VALUE = 7,
       LT_STATUS_ARCH_MISMATCH = 8,
       LT_STATUS_NOT_SUPPORTED = 15
};
enum { LT_OP_N = 0, LT_OP_T = 1 }; /* also cuBLAS' */

typedef struct lt_algorithm {
    uint64_t data[8];
} lt_algorithm;
typedef struct lt_heuristic {
    lt_algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} lt_heuristic;

typedef int lt_create_fn(lt_handle *out);
typedef int lt_destroy_fn(lt_handle handle);
typedef size_t lt_version_fn(void);
typedef int lt_desc_create_fn(lt_desc *out, int compute, cudaDataType_t scale);
typedef int lt_desc_destroy_fn(lt_desc desc);
typedef int lt_desc_set_fn(lt_desc desc, int attribute, const void *value, size_t bytes);
typedef int lt_layout_create_fn(lt_layout *out, cudaDataType_t type, uint64_t rows, uint64_t cols,
                                int64_t ld);
typedef int lt_layout_destroy_fn(lt_layout layout);
typedef int lt_layout_set_fn(lt_layout layout, int attribute, const void *value, size_t bytes);
typedef int lt_preference_create_fn(lt_preference *out);
typedef int lt_preference_destroy_fn(lt_preference preference);
typedef int lt_preference_set_fn(lt_preference preference, int attribute, const void *value,
                                 size_t bytes);
typedef int lt_heuristic_fn(lt_handle handle, lt_desc desc, lt_layout a, lt_layout b, lt_layout c,
                            lt_layout d, lt_preference preference, int asked, lt_heuristic *results,
                            int *found);
typedef int lt_matmul_fn(lt_handle handle, lt_desc desc, const void *alpha, const void *a,
                         lt_layout a_layout, const void *b, lt_layout b_layout, const void *beta,
                         const void *c, lt_layout c_layout, void *d, lt_layout d_layout,
                         const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                         cudaStream_t stream);
typedef const char *lt_status_name_fn(int status);

/* ---- cuBLAS ---- */

enum { BLAS_GEMM_DEFAULT = -1, BLAS_MATH_NO_REDUCED_SUMS = 16 };
typedef void *blas_handle;
typedef int blas_create_fn(blas_handle *out);
typedef int blas_destroy_fn(blas_handle handle);
typedef int blas_set_stream_fn(blas_handle handle, cudaStream_t stream);
typedef int blas_set_workspace_fn(blas_handle handle, void *workspace, size_t bytes);
typedef int blas_set_math_fn(blas_handle handle, int mode);
typedef int blas_gemm_fn(blas_handle handle, int transa, int transb, int m, int n, int k,
                         const void *alpha, const void *a, cudaDataType_t a_type, int lda,
                         long long stride_a, const void *b, cudaDataType_t b_type, int ldb,
                         long long stride_b, const void *beta, void *c, cudaDataType_t c_type,
                         int ldc, long long stride_c, int batch, int compute, int algorithm);

#endif /* DHOW_CUDA_VENDOR_ABI_H_ */
