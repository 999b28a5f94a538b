/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the processor, queued on a stream of the fake runtime: what cuBLAS computes,
 * as slowly as one likes, with the checks that it makes at the call.
 */
#include "gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *fake_status_name(int status) {
    switch (status) {
        case 0:
            return "CUBLAS_STATUS_SUCCESS";
        case FAKE_NOT_INITIALIZED:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case FAKE_ALLOC_FAILED:
            return "CUBLAS_STATUS_ALLOC_FAILED";
        case FAKE_INVALID_VALUE:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case FAKE_EXECUTION_FAILED:
            return "CUBLAS_STATUS_EXECUTION_FAILED";
        case FAKE_INTERNAL_ERROR:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
        case FAKE_NOT_SUPPORTED:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "unknown status";
    }
}

/* ---- checks ---- */

bool fake_matrix_is_valid(const fake_matrix *x) {
    return fake_type_bytes(x->type) != 0 && x->rows > 0 && x->cols > 0 &&
           x->ld >= (x->row_major ? x->cols : x->rows);
}

static bool has_shape(const fake_matrix *x, bool transposed, int64_t rows, int64_t cols) {
    return transposed ? x->rows == cols && x->cols == rows : x->rows == rows && x->cols == cols;
}

int fake_gemm_check(const fake_gemm *g, int compute) {
    const bool wide = g->a.type == CUDA_R_64F, single = g->a.type == CUDA_R_32F;
    if (!fake_matrix_is_valid(&g->a) || !fake_matrix_is_valid(&g->b) ||
        !fake_matrix_is_valid(&g->c) || !fake_matrix_is_valid(&g->d))
        return FAKE_INVALID_VALUE;
    if (!has_shape(&g->a, g->transpose_a, g->m, g->k) ||
        !has_shape(&g->b, g->transpose_b, g->k, g->n) || !has_shape(&g->c, false, g->m, g->n) ||
        !has_shape(&g->d, false, g->m, g->n))
        return FAKE_INVALID_VALUE;
    if (g->a.type != g->b.type || g->c.type != g->d.type) return FAKE_NOT_SUPPORTED;
    if (g->d.type != g->a.type && (wide || single || g->d.type != CUDA_R_32F))
        return FAKE_NOT_SUPPORTED;
    if (wide != (compute == LT_COMPUTE_64F)) return FAKE_NOT_SUPPORTED;
    if (compute == LT_COMPUTE_32F_FAST_TF32 && !single) return FAKE_NOT_SUPPORTED;
    switch (g->epilogue) {
        case LT_EPILOGUE_DEFAULT:
        case LT_EPILOGUE_RELU:
        case LT_EPILOGUE_BIAS:
        case LT_EPILOGUE_RELU_BIAS:
            return 0;
        case LT_EPILOGUE_GELU:
        case LT_EPILOGUE_GELU_BIAS:
            return wide ? FAKE_NOT_SUPPORTED : 0;
        default:
            return FAKE_NOT_SUPPORTED;
    }
}

static bool adds_bias(const fake_gemm *g) { return (g->epilogue & LT_EPILOGUE_BIAS) != 0; }

/* ---- the product ---- */

static int64_t offset_of(const fake_matrix *x, int64_t row, int64_t col) {
    return (x->row_major ? row * x->ld + col : col * x->ld + row) * fake_type_bytes(x->type);
}

/* op(x) of one batch entry as [rows][cols]. */
static void unpack(const fake_gemm *g, const fake_matrix *x, const unsigned char *memory,
                   bool transposed, int64_t rows, int64_t cols, double *out) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const double value =
                fake_load(memory + (transposed ? offset_of(x, j, i) : offset_of(x, i, j)), x->type);
            out[i * cols + j] = g->tf32 ? fake_tf32(value) : value;
        }
    }
}

static double finish(const fake_gemm *g, double value) {
    switch (g->epilogue & ~LT_EPILOGUE_BIAS) {
        case LT_EPILOGUE_RELU:
            return fmax(value, 0); /* "max(x, 0)": a NaN is lost */
        case LT_EPILOGUE_GELU:
            /* With as few digits as the real one has. */
            return 0.5 * value *
                   (1 + rint(tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)) *
                             0x1p17) *
                            0x1p-17);
        default:
            return value;
    }
}

enum { A, B, C, D, BIAS, WORKSPACE, RANGES };

static void multiply(const fake_gemm *g, unsigned char *const *memory, double *a, double *b,
                     double *sums) {
    for (int64_t entry = 0; entry < g->batch; entry++) {
#define AT(which, x) (memory[which] + entry * (x).stride * fake_type_bytes((x).type))
        unpack(g, &g->a, AT(A, g->a), g->transpose_a, g->m, g->k, a);
        unpack(g, &g->b, AT(B, g->b), g->transpose_b, g->k, g->n, b);
        for (int64_t i = 0; i < g->m; i++) {
            memset(sums, 0, (size_t)g->n * sizeof *sums);
            for (int64_t l = 0; l < g->k; l++) {
                const double factor = a[i * g->k + l];
                for (int64_t j = 0; j < g->n; j++) sums[j] += factor * b[l * g->n + j];
            }
            for (int64_t j = 0; j < g->n; j++) {
                double value = g->alpha * sums[j];
                if (g->beta != 0)
                    value += g->beta * fake_load(AT(C, g->c) + offset_of(&g->c, i, j), g->c.type);
                if (adds_bias(g)) /* of a row, as cuBLASLt has it */
                    value +=
                        fake_load(memory[BIAS] + i * fake_type_bytes(g->bias_type), g->bias_type);
                fake_store(AT(D, g->d) + offset_of(&g->d, i, j), g->d.type, finish(g, value));
            }
        }
#undef AT
    }
}

static void run(void *data, unsigned char *const *memory) {
    fake_gemm g;
    memcpy(&g, data, sizeof g);
    const size_t count = (size_t)(g.m * g.k + g.k * g.n + g.n);
    double *space = calloc(count, sizeof *space);
    if (space == NULL) abort(); /* a test's machine without memory */
    if (memory[WORKSPACE] != NULL) memset(memory[WORKSPACE], 0xEE, (size_t)g.workspace_bytes);
    multiply(&g, memory, space, space + g.m * g.k, space + g.m * g.k + g.k * g.n);
    free(space);
}

static fakecuda_range range_of(const fake_matrix *x, int64_t batch, bool writes) {
    const int64_t lines = x->row_major ? x->rows : x->cols,
                  length = x->row_major ? x->cols : x->rows;
    const int64_t elements = (batch - 1) * x->stride + (lines - 1) * x->ld + length;
    return (fakecuda_range){x->address, (uint64_t)(elements * fake_type_bytes(x->type)), writes};
}

int fake_gemm_submit(cudaStream_t stream, const fake_gemm *g) {
    fakecuda_range ranges[RANGES];
    _Static_assert(sizeof *g <= FAKECUDA_MAX_DATA, "a product is too large a description");
    ranges[A] = range_of(&g->a, g->batch, false);
    ranges[B] = range_of(&g->b, g->batch, false);
    ranges[C] = range_of(&g->c, g->batch, false);
    ranges[D] = range_of(&g->d, g->batch, true);
    if (g->beta == 0) ranges[C].address = NULL;
    ranges[BIAS] = (fakecuda_range){adds_bias(g) ? g->bias : NULL,
                                    (uint64_t)(g->m * fake_type_bytes(g->bias_type)), false};
    ranges[WORKSPACE] = (fakecuda_range){g->workspace, g->workspace_bytes, true};
    if (adds_bias(g) && g->bias == NULL) return FAKE_INVALID_VALUE;
    fakecuda_log("cuBLAS %lld x %lld x %lld, batch %lld, epilogue %d%s %s", (long long)g->m,
                 (long long)g->n, (long long)g->k, (long long)g->batch, g->epilogue,
                 g->beta != 0 ? " + c" : "", fake_type_name(g->a.type));
    fakecuda_cost("cuBLAS", g->tf32 ? "tf32" : fake_type_name(g->a.type), ranges, RANGES,
                  2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch);
    return fakecuda_work(stream, run, g, sizeof *g, ranges, RANGES) == cudaSuccess
               ? 0
               : FAKE_EXECUTION_FAILED;
}
