/* SPDX-License-Identifier: Apache-2.0
 *
 * The product that the fake cuBLASLt and cuBLAS queue.
 */
#ifndef TESTS_FAKECUDA_GEMM_H_
#define TESTS_FAKECUDA_GEMM_H_

#include "fakecuda.h"
#include "numbers.h"
#include "plugins/cuda/vendor_abi.h"

typedef struct fake_matrix {
    const void *address;
    int32_t type; /* cudaDataType_t */
    bool row_major;
    int64_t rows, cols, ld, stride; /* as stored; stride from batch entry to entry */
} fake_matrix;

/* d = epilogue(alpha op(a) op(b) + beta c) */
typedef struct fake_gemm {
    fake_matrix a, b, c, d;
    bool transpose_a, transpose_b, tf32;
    int64_t m, n, k, batch;
    double alpha, beta;
    int epilogue;
    const void *bias;
    int32_t bias_type;
    void *workspace;
    uint64_t workspace_bytes;
} fake_gemm;

bool fake_matrix_is_valid(const fake_matrix *matrix);
/* What makes no product at all: 0, or LT_STATUS_NOT_SUPPORTED or INVALID_VALUE. */
int fake_gemm_check(const fake_gemm *gemm, int compute);
/* 0 or a status of cuBLAS. */
int fake_gemm_submit(cudaStream_t stream, const fake_gemm *gemm);

enum { /* cublasStatus_t */
       FAKE_NOT_INITIALIZED = 1,
       FAKE_ALLOC_FAILED = 3,
       FAKE_INVALID_VALUE = 7,
       FAKE_EXECUTION_FAILED = 13,
       FAKE_INTERNAL_ERROR = 14,
       FAKE_NOT_SUPPORTED = 15
};
const char *fake_status_name(int status);

#endif /* TESTS_FAKECUDA_GEMM_H_ */
