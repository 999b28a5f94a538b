/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of the CUDA plugin: cuBLASLt and cuBLAS, found, started, refused and missing.
 */
#include <cuda.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "plugin_fixture.h"

enum { M = 5, N = 7, K = 6 };

/* GELU is taken for less precision than that of f32, see blas.c. */
static dhow_blas_desc describe(uint32_t flags, uint32_t activation) {
    dhow_blas_desc desc = {.struct_size = sizeof desc, .flags = flags, .activation = activation};
    desc.dtype_a = desc.dtype_b = desc.dtype_c = DHOW_F32;
    desc.compute = activation == DHOW_ACTIVATION_NONE ? DHOW_F32 : DHOW_BF16;
    desc.m = M;
    desc.n = N;
    desc.k = K;
    desc.lda = (flags & DHOW_BLAS_TRANSPOSE_A) != 0 ? M : K;
    desc.ldb = (flags & DHOW_BLAS_TRANSPOSE_B) != 0 ? K : N;
    desc.ldc = N;
    desc.stride_a = M * K;
    desc.stride_b = K * N;
    desc.stride_c = M * N;
    desc.alpha = 2;
    desc.beta = 0.5f;
    return desc;
}

static void check_product(uint32_t flags, uint32_t activation, int64_t batch) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = describe(flags, activation);
    float a[2 * M * K], b[2 * K * N], bias[N], c[2 * M * N];
    const bool ta = (flags & DHOW_BLAS_TRANSPOSE_A) != 0, tb = (flags & DHOW_BLAS_TRANSPOSE_B) != 0;
    for (int i = 0; i < 2 * M * K; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 2 * K * N; i++) b[i] = (float)(i % 5 - 2) / 4;
    for (int i = 0; i < N; i++) bias[i] = (float)(i - 3);
    for (int i = 0; i < 2 * M * N; i++) c[i] = (float)i;
    desc.batch = batch;
    void *plan = NULL;
    uint64_t workspace_bytes = 0, packed_bytes = 0;
    OK(blas->plan(device[0], &desc, &plan, &workspace_bytes, &packed_bytes, &err));
    const dhow_buffer none = {0, 0};
    dhow_buffer da = {to_device(a, sizeof a), 0}, db = {to_device(b, sizeof b), 0},
                dc = {to_device(c, sizeof c), 0}, dbias = {to_device(bias, sizeof bias), 0},
                workspace = {workspace_bytes != 0 ? to_device(NULL, workspace_bytes) : 0, 0};
    OK(blas->run(plan, stream, da, db, dc, (flags & DHOW_EPILOGUE_BIAS) != 0 ? dbias : none, none,
                 workspace, &err));
    float got[2 * M * N];
    from_device(dc.handle, got, sizeof got);
    for (int64_t e = 0; e < batch; e++) {
        for (int i = 0; i < M; i++) {
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int l = 0; l < K; l++)
                    sum += (double)a[e * M * K + (ta ? l * M + i : i * K + l)] *
                           (double)b[e * K * N + (tb ? j * K + l : l * N + j)];
                double want = 2 * sum + 0.5 * (double)c[e * M * N + i * N + j];
                if ((flags & DHOW_EPILOGUE_BIAS) != 0) want += (double)bias[j];
                if (activation == DHOW_ACTIVATION_GELU_TANH)
                    want = want / 2 *
                           (1 + tanh(0.7978845608 * (want + 0.044715 * want * want * want)));
                const double diff = fabs(want - (double)got[e * M * N + i * N + j]);
                cr_assert_lt(diff, 1e-4, "flags %u activation %u: [%d][%d] is off by %g", flags,
                             activation, i, j, diff);
            }
        }
    }
    blas->destroy(plan);
    const uint64_t handles[] = {da.handle, db.handle, dc.handle, dbias.handle, workspace.handle};
    for (size_t i = 0; i < 5; i++) {
        if (handles[i] != 0) cuda->mem_free(device[0], handles[i]);
    }
}

Test(cuda_plugin, products_by_cublaslt_transpose_add_and_activate) {
    begin(NULL, NULL);
    for (uint32_t flags = 0; flags < 4; flags++) {
        for (int64_t batch = 1; batch <= 2; batch++) {
            check_product(flags, DHOW_ACTIVATION_NONE, batch);
            check_product(flags | DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_NONE, batch);
            check_product(flags | DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_GELU_TANH, batch);
        }
    }
    cr_assert_gt(fakecuda_call_count("cublasLtMatmul"), 20);
    cr_assert_eq(fakecuda_call_count("cublasGemmStridedBatchedEx"), 0);
    end();
}

Test(cuda_plugin, the_gelu_of_cublaslt_is_not_good_enough_for_f32) {
    begin(NULL, NULL);
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = describe(DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_GELU_TANH);
    uint64_t workspace_bytes, packed_bytes;
    void *plan;
    desc.batch = 1;
    desc.compute = DHOW_F32;
    cr_assert_eq(blas->plan(device[0], &desc, &plan, &workspace_bytes, &packed_bytes, &err),
                 DHOW_UNSUPPORTED);
    end();
}

Test(cuda_plugin, products_without_an_algorithm_go_to_cublas) {
    begin("noheuristic=1", NULL);
    for (uint32_t flags = 0; flags < 4; flags++) check_product(flags, DHOW_ACTIVATION_NONE, 2);
    cr_assert_eq(fakecuda_call_count("cublasGemmStridedBatchedEx"), 4);
    end();
}

/* A product of two numbers. */
typedef struct tiny_product {
    void *plan;
    dhow_buffer memory, workspace;
} tiny_product;

static tiny_product plan_tiny_product(void) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    const float value = 1;
    uint64_t bytes = 0, packed_bytes = 0;
    tiny_product p = {NULL, {0, 0}, {0, 0}};
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    desc.alpha = 1;
    OK(blas->plan(device[0], &desc, &p.plan, &bytes, &packed_bytes, &err));
    p.memory.handle = to_device(&value, sizeof value);
    p.workspace.handle = bytes != 0 ? to_device(NULL, bytes) : 0;
    OK(cuda->stream_sync(stream, &err));
    return p;
}

static int32_t run_tiny_product(const tiny_product *p) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    const dhow_buffer none = {0, 0};
    return blas->run(p->plan, stream, p->memory, p->memory, p->memory, none, none, p->workspace,
                     &err);
}

static void delete_tiny_product(const tiny_product *p) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    blas->destroy(p->plan);
    cuda->mem_free(device[0], p->memory.handle);
    if (p->workspace.handle != 0) cuda->mem_free(device[0], p->workspace.handle);
}

/* cuBLASLt has a runtime of its own inside, so the last error of the plugin's was none: INTERNAL.
 */
Test(cuda_plugin, a_fault_that_a_product_meets_first_is_a_lost_device) {
    begin(NULL, "kernel:relu_f32@1=719");
    const tiny_product product = plan_tiny_product();
    launch_relu(product.memory.handle, 1);
    while (fakecuda_device_error(0) == 0) (void)usleep(100);
    FAILS(DHOW_DEVICE_LOST, run_tiny_product(&product));
    SAYS("cudaErrorLaunchFailure (719)");
    SAYS("relu_f32");
    cr_assert_eq(err.native_code, 719);
    delete_tiny_product(&product);
    end();
}

Test(cuda_plugin, a_product_that_cublas_refuses_is_no_fault_of_the_device) {
    begin(NULL, "cublasLtMatmul@1=13");
    const tiny_product product = plan_tiny_product();
    launch_relu(product.memory.handle, 1); /* may still run */
    FAILS(DHOW_INTERNAL, run_tiny_product(&product));
    SAYS("CUBLAS_STATUS_EXECUTION_FAILED (13)");
    OK(run_tiny_product(&product));
    delete_tiny_product(&product);
    end();
}

/* The later one was taken, whatever the driver, and when it did not start no other was tried. */
Test(cuda_plugin, a_cublaslt_of_the_drivers_version_is_found_beside_a_later_one) {
    begin("driver=12080,runtime=12080", NULL);
    const tiny_product product = plan_tiny_product();
    OK(run_tiny_product(&product));
    cr_assert_eq(fakecuda_call_count("cublasLtCreate"), 1, "the driver's own comes first");
    delete_tiny_product(&product);
    end();
}

Test(cuda_plugin, a_cublaslt_that_does_not_start_gives_way_to_the_next) {
    begin(NULL, "cublasLtCreate@1=1");
    const tiny_product product = plan_tiny_product();
    OK(run_tiny_product(&product));
    cr_assert_geq(fakecuda_call_count("cublasLtCreate"), 2);
    delete_tiny_product(&product);
    end();
}

static void *plan_slowly(void *done) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    dhow_error mine = {.struct_size = sizeof mine};
    uint64_t bytes, packed;
    void *plan = NULL;
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    if (blas->plan(device[0], &desc, &plan, &bytes, &packed, &mine) == DHOW_OK) blas->destroy(plan);
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

/* cuBLASLt takes half a second to start, and held the lock that every event wants. */
Test(cuda_plugin, other_threads_go_on_while_cublaslt_starts) {
    pthread_t thread;
    atomic_bool done = false;
    void *event = NULL;
    begin("slow_ms=500", NULL);
    cr_assert_eq(pthread_create(&thread, NULL, plan_slowly, &done), 0);
    while (fakecuda_call_count("cublasLtCreate") == 0) (void)usleep(1000);
    OK(cuda->event_create(device[0], 0, &event, &err));
    OK(cuda->event_record(event, stream, &err));
    cuda->event_destroy(event);
    cr_assert_not(atomic_load(&done), "the event waited for cuBLASLt");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    end();
}

static int warnings;
static char warning[700];
static void count_warnings(void *user, int32_t level, const char *message) {
    (void)user;
    if (level > DHOW_LOG_WARN) return;
    warnings++;
    (void)snprintf(warning, sizeof warning, "%s", message);
}

/* It was a line for debugging alone, and products took many times as long. */
Test(cuda_plugin, a_missing_cublaslt_is_warned_of_once_with_a_remedy) {
    dhow_host host = plugin_host;
    void *own = NULL, *opened = NULL, *plan = NULL;
    uint64_t bytes, packed;
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    host.log = count_warnings;
    load("nolt=1", NULL);
    OK(cuda->open(&host, &own, &err));
    OK(cuda->device_open(own, 0, &opened, &err));
    const dhow_blas *blas = cuda->get_extension(opened, "dhow.blas/1");
    for (int i = 0; i < 3; i++)
        FAILS(DHOW_UNSUPPORTED, blas->plan(opened, &desc, &plan, &bytes, &packed, &err));
    cr_assert_eq(warnings, 1);
    cr_assert_not_null(strstr(warning, "cuda:0: cuBLASLt does not start"), "%s", warning);
    cr_assert_not_null(strstr(warning, "install cuBLAS"), "%s", warning);
    cr_assert_not_null(strstr(warning, "DHOW_CUDA_LIBRARY_PATH"), "%s", warning);
    cr_assert_not_null(strstr(warning, "portable kernels"), "%s", warning);
    cuda->device_close(opened);
    cuda->close(own);
}

static int32_t plan_on(void *opened) {
    const dhow_blas *blas = cuda->get_extension(opened, "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    uint64_t bytes, packed;
    void *plan = NULL;
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    const int32_t status = blas->plan(opened, &desc, &plan, &bytes, &packed, &err);
    if (status == DHOW_OK) blas->destroy(plan);
    return status;
}

/* Memory that is short and faults of cuBLASLt are no answer for the shape, and each is told once.
 */
Test(cuda_plugin, a_product_that_cublaslt_cannot_plan_now_is_no_product_that_it_never_plans) {
    dhow_host host = plugin_host;
    void *own = NULL, *opened = NULL;
    host.log = count_warnings;
    load(NULL,
         "cublasLtMatmulAlgoGetHeuristic@1=3;cublasLtMatmulAlgoGetHeuristic@2=3;"
         "cublasLtMatmulAlgoGetHeuristic@3=14");
    OK(cuda->open(&host, &own, &err));
    OK(cuda->device_open(own, 0, &opened, &err));
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    SAYS("CUBLAS_STATUS_ALLOC_FAILED");
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    cr_assert_eq(warnings, 1);
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    cr_assert_eq(warnings, 2);
    cr_assert_not_null(strstr(warning, "cuda:0: cuBLASLt fails"), "%s", warning);
    cr_assert_not_null(strstr(warning, "CUBLAS_STATUS_INTERNAL_ERROR"), "%s", warning);
    OK(plan_on(opened));
    cuda->device_close(opened);
    cuda->close(own);
}
