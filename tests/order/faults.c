/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that fail: what is said, to whom, and that the rest goes on.
 */
#include <time.h>

#include "order.h"

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A lost device says so to everyone at once, with the first cause; others work. */
static conform_result expect_lost(conform_env *env, dhow_tensor *t, const char *cause) {
    dhow_tensor *none, *other;
    dhow_stream *s;
    float value[4];
    double start = seconds();
    FAILS(DHOW_DEVICE_LOST, cause, dhow_relu(NULL, t, t));
    FAILS(DHOW_DEVICE_LOST, order_text("sim:0 is lost since"), dhow_fill(NULL, t, 1));
    FAILS(DHOW_DEVICE_LOST, cause,
          dhow_tensor_read(t, conform_memory(env, ORDER_COUNT * 4), ORDER_COUNT * 4));
    FAILS(DHOW_DEVICE_LOST, cause, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(4), &none));
    FAILS(DHOW_DEVICE_LOST, cause, dhow_stream_create(env->device, &s));
    FAILS(DHOW_DEVICE_LOST, cause, dhow_device_sync(env->device));
    CHECK(seconds() - start < 2, "that took %g s", seconds() - start);
    dhow_device *fine = order_device(env, "sim:1");
    OWN(TENSOR, &other, dhow_tensor_full(fine, DHOW_F32, DHOW_SHAPE(4), 3, &other));
    OK(dhow_add(NULL, other, other, other));
    OK(dhow_tensor_read(other, value, sizeof value));
    CHECK(value[3] == 6, "sim:1 computes %g", (double)value[3]);
    return CONFORM_PASS;
}

static conform_result lost_in_a_launch(conform_env *env) {
    dhow_tensor *t;
    TRY(order_full(env, env->device, 1, &t));
    OK(dhow_relu(NULL, t, t));
    OK(dhow_relu(NULL, t, t));
    FAILS(DHOW_DEVICE_LOST, order_text("sim:0: relu_f32"), dhow_relu(NULL, t, t));
    return expect_lost(env, t, "relu_f32");
}

static conform_result lost_in_background(conform_env *env) {
    dhow_tensor *t;
    TRY(order_full(env, env->device, 1, &t));
    OK(dhow_relu(NULL, t, t));
    dhow_status status = dhow_device_sync(env->device);
    CHECK(status == DHOW_DEVICE_LOST, "the sync says %s", dhow_status_name(status));
    return expect_lost(env, t, "launch");
}

/* Lost in the middle of a copy to another device: the copy fails, the other device works. */
static conform_result lost_in_a_staged_copy(conform_env *env) {
    dhow_tensor *t, *there, *small;
    OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_U8, DHOW_SHAPE(30 << 20), 7, &t));
    dhow_status status = dhow_tensor_to(t, order_device(env, "sim:1"), &there);
    CHECK(status == DHOW_DEVICE_LOST, "the copy says %s", dhow_status_name(status));
    TRY(order_full(env, order_device(env, "sim:1"), 2, &small));
    TRY(order_expect(env, small, 2, "sim:1"));
    FAILS(DHOW_DEVICE_LOST, order_text("sim:0 is lost since"), dhow_fill(NULL, t, 1));
    return CONFORM_PASS;
}

/* What others compute from values that a lost device never made is missing as well. */
static conform_result lost_values_travel(conform_env *env) {
    dhow_device *other = order_device(env, "sim:1");
    dhow_tensor *t, *there, *result, *fine;
    float value[ORDER_COUNT];
    TRY(order_full(env, env->device, 1, &t));
    TRY(order_full(env, other, 2, &there));
    TRY(order_full(env, other, 2, &result));
    TRY(order_full(env, other, 3, &fine));
    OK(dhow_copy(t, there)); /* the first one tries the pair and waits */
    OK(dhow_relu(NULL, t, t));
    OK(dhow_copy_async(NULL, t, there, 0));
    OK(dhow_relu(NULL, there, result));
    for (int i = 0; i < 2; i++)
        FAILS(DHOW_DEVICE_LOST, order_text("sim:0"),
              dhow_tensor_read(result, value, sizeof value));
    FAILS(DHOW_DEVICE_LOST, order_text("sim:0"), dhow_relu(NULL, result, fine));
    TRY(order_expect(env, fine, 3, "what has nothing to do with it"));
    OK(dhow_fill(NULL, result, 5));
    return order_expect(env, result, 5, "what is written anew");
}

/* A stream of a lost device takes nothing with it that others wait for. */
static conform_result lost_with_its_stream(conform_env *env) {
    dhow_tensor *t, *here;
    dhow_stream *s, *next;
    float value[ORDER_COUNT];
    TRY(order_full(env, env->device, 1, &t));
    OWN(TENSOR, &here, dhow_tensor_create_pinned(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), &here));
    OK(dhow_fill(NULL, here, 2));
    OK(dhow_stream_create(env->device, &s));
    OK(dhow_relu(s, t, t));
    OK(dhow_copy_async(s, t, here, 0));
    FAILS(DHOW_DEVICE_LOST, order_text("sim:0"), dhow_stream_sync(s));
    dhow_stream_release(s);
    OWN(STREAM, &next, dhow_stream_create(order_device(env, "sim:1"), &next));
    FAILS(DHOW_DEVICE_LOST, order_text("lost"), dhow_tensor_read(here, value, sizeof value));
    return CONFORM_PASS;
}

/* Failed work comes out of the next wait, once. */
static conform_result kernel_fails_late(conform_env *env) {
    dhow_stream *s;
    dhow_tensor *t;
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    TRY(order_full(env, env->device, 1, &t));
    OK(dhow_relu(s, t, t));
    FAILS(DHOW_INTERNAL, "relu_f32", dhow_stream_sync(s));
    OK(dhow_stream_sync(s));
    OK(dhow_fill(s, t, 4));
    return order_expect(env, t, 4, "after the failure");
}

/* The reader of a tensor hears of it, and so does who syncs the stream. */
static conform_result reader_hears_of_it(conform_env *env) {
    dhow_stream *s;
    dhow_tensor *t;
    float *memory = conform_memory(env, ORDER_COUNT * 4);
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    TRY(order_full(env, env->device, 1, &t));
    OK(dhow_relu(s, t, t));
    void *host;
    dhow_tensor *there;
    OWN(TENSOR, &there,
        dhow_tensor_create(order_device(env, "cpu"), DHOW_F32, DHOW_SHAPE(ORDER_COUNT), &there));
    OK(dhow_copy_async(s, t, there, 0));
    FAILS(DHOW_INTERNAL, "relu_f32", dhow_tensor_host_ptr(there, &host));
    FAILS(DHOW_INTERNAL, "relu_f32", dhow_stream_sync(s));
    OK(dhow_stream_sync(s));
    OK(dhow_tensor_read(t, memory, ORDER_COUNT * 4));
    return CONFORM_PASS;
}

/* Housekeeping that waits for streams keeps quiet, and leaves the failure to whom it belongs. */
static conform_result housekeeping_swallows_nothing(conform_env *env) {
    dhow_stream *s;
    dhow_tensor *t;
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 1, &t));
    OK(dhow_relu(s, t, t));
    dhow_tensor_release(t);
    OK(dhow_memory_trim(env->device)); /* waits for the kernel */
    FAILS(DHOW_INTERNAL, "relu_f32", dhow_stream_sync(s));
    return CONFORM_PASS;
}

/* ---- memory ---- */

static conform_result memory_comes_back_from_the_cache(conform_env *env) {
    dhow_tensor *t, *held;
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    OWN(TENSOR, &held, dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(1000), &held));
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(1 << 20), &t));
    OK(dhow_fill(NULL, t, 1)); /* the cache is given back behind this */
    dhow_tensor_release(t);
    OWN(TENSOR, &t, dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(3 << 20), &t));
    OK(dhow_memory_get_stats(env->device, &stats));
    CHECK(stats.cached == 0, "%" PRIu64 " bytes are cached", stats.cached);
    return CONFORM_PASS;
}

static conform_result memory_is_short(conform_env *env) {
    dhow_tensor *t, *held;
    OWN(TENSOR, &held, dhow_tensor_full(env->device, DHOW_U8, DHOW_SHAPE(1 << 20), 3, &held));
    OK(dhow_tensor_set_label(held, "weights"));
    FAILS(DHOW_OUT_OF_MEMORY, "largest holders: 'weights' 1",
          dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(2 << 20), &t));
    CHECK(strstr(dhow_last_error(), order_text("sim:0: out of memory: asked 2")) != NULL, "'%s'",
          dhow_last_error());
    OK(dhow_fill(NULL, held, 5));
    unsigned char *got = conform_memory(env, 1 << 20);
    OK(dhow_tensor_read(held, got, 1 << 20));
    CHECK(got[12345] == 5, "the device computes %d", got[12345]);
    return CONFORM_PASS;
}

/* ---- staged copies ---- */

static conform_result staged_copy_breaks(conform_env *env) {
    const uint64_t bytes = 21 << 20;
    dhow_device *other = order_device(env, "sim:1");
    dhow_tensor *t, *there;
    dhow_stream *s;
    unsigned char *data = conform_memory(env, bytes), *got = conform_memory(env, bytes);
    conform_pattern(data, bytes, 3);
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    OWN(TENSOR, &t,
        dhow_tensor_from_data(env->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), data, &t));
    OWN(TENSOR, &there, dhow_tensor_create(other, DHOW_U8, DHOW_SHAPE((int64_t)bytes), &there));
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    OK(dhow_copy_plan(t, there, &plan));
    CHECK(plan.path == DHOW_COPY_STAGED, "plan: %s", plan.text);
    OK(dhow_copy_async(s, t, there, 0));
    FAILS(DHOW_INTERNAL, order_text("sim:1"), dhow_tensor_read(there, got, bytes));
    FAILS(DHOW_INTERNAL, order_text("sim:1"), dhow_stream_sync(s));
    OK(dhow_stream_sync(s));
    dhow_status left = dhow_device_sync(other); /* perhaps the reader's own stream heard it, too */
    (void)left;
    OK(dhow_copy_async(s, t, there, 0)); /* ring and streams are fit for use */
    OK(dhow_stream_sync(s));
    OK(dhow_tensor_read(there, got, bytes));
    CHECK(memcmp(got, data, bytes) == 0, "the second copy is wrong");
    return CONFORM_PASS;
}

#define STAGED "peer=0,delay_us=100,jitter_us=100,pageable=late"
#define CUDA_STAGED "peer=0,delay_us=100,jitter_us=100"
const order_program order_fault_programs[] = {
    {"lost_in_a_launch", lost_in_a_launch, "launch#0@3=DEVICE_LOST!", "delay_us=100",
     "cuLaunchKernel#0@3=719", "delay_us=100"},
    {"lost_in_background", lost_in_background, "launch#0@1=async:DEVICE_LOST!", "delay_us=100",
     "kernel:relu_f32#0@1=719", "delay_us=100"},
    {"lost_values_travel", lost_values_travel, "launch#0@1=async:DEVICE_LOST!", "delay_us=1000",
     NULL, NULL},
    {"lost_with_its_stream", lost_with_its_stream, "launch#0@1=async:DEVICE_LOST!", "delay_us=1000",
     NULL, NULL},
    {"lost_in_a_staged_copy", lost_in_a_staged_copy, "copy#0@3=async:DEVICE_LOST!", STAGED,
     "cudaMemcpyAsync#0@3=async:700", CUDA_STAGED},
    /* A kernel that fails takes the device with it on CUDA. */
    {"kernel_fails_late", kernel_fails_late, "kernel:relu_f32@1=async:INTERNAL", "delay_us=100",
     NULL, NULL},
    {"reader_hears_of_it", reader_hears_of_it, "kernel:relu_f32@1=async:INTERNAL", STAGED, NULL,
     NULL},
    {"housekeeping_swallows_nothing", housekeeping_swallows_nothing,
     "kernel:relu_f32@1=async:INTERNAL", "delay_us=100", NULL, NULL},
    {"memory_comes_back_from_the_cache", memory_comes_back_from_the_cache,
     "mem_alloc@3=OUT_OF_MEMORY", "delay_us=100", "cudaMalloc@3=2", "delay_us=100"},
    {"memory_is_short", memory_is_short, "mem_alloc@2+=OUT_OF_MEMORY", "", "cudaMalloc@2+=2", ""},
    {"staged_copy_breaks", staged_copy_breaks, "copy#1@3=async:INTERNAL", STAGED, NULL, NULL},
    {"staged_copy_breaks_at_once", staged_copy_breaks, "copy#1@3=INTERNAL", STAGED,
     "cudaMemcpyAsync#1@3=999", CUDA_STAGED},
};
const uint32_t order_fault_program_count =
    sizeof order_fault_programs / sizeof order_fault_programs[0];
