/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs without a wait of their own: results are right all the same.
 */
#include "order.h"

/* A kernel changes what a copy on another stream still reads. */
static conform_result copy_beside_kernel(conform_env *env) {
    dhow_stream *s[2];
    dhow_tensor *t, *one, *copy[4];
    for (int i = 0; i < 2; i++) OWN(STREAM, &s[i], dhow_stream_create(env->device, &s[i]));
    TRY(order_full(env, env->device, 0, &t));
    TRY(order_full(env, env->device, 1, &one));
    for (int i = 0; i < 4; i++) {
        TRY(order_full(env, env->device, -1, &copy[i]));
        OK(dhow_add(s[0], t, one, t));
        OK(dhow_copy_async(s[1], t, copy[i], 0));
    }
    OK(dhow_fill(s[0], t, 100));
    for (int i = 0; i < 4; i++) TRY(order_expect(env, copy[i], i + 1, "copy"));
    return order_expect(env, t, 100, "source");
}

static void set_flag(void *user) { __atomic_store_n((int *)user, 1, __ATOMIC_RELEASE); }

/* The memory of a source is given back while its copy waits, then written over. */
static conform_result released_source(conform_env *env) {
    static int released;
    released = 0;
    float *memory = conform_memory(env, ORDER_COUNT * sizeof *memory);
    dhow_tensor *host, *there, *busy;
    for (int i = 0; i < ORDER_COUNT; i++) memory[i] = 7;
    TRY(order_full(env, env->device, 0, &busy));
    for (int i = 0; i < 5; i++) OK(dhow_add(NULL, busy, busy, busy));
    OK(dhow_tensor_wrap(env->context, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), memory, set_flag,
                        &released, &host));
    dhow_status status = dhow_tensor_to_async(NULL, host, env->device, &there);
    dhow_tensor_release(host);
    OWN(TENSOR, &there, status);
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE)) {
        OK(dhow_device_sync(env->device));
    }
    for (int i = 0; i < ORDER_COUNT; i++) memory[i] = -1;
    return order_expect(env, there, 7, "copy");
}

/* Device memory of a released source is taken by a new tensor. */
static conform_result reused_storage(conform_env *env) {
    dhow_stream *s;
    dhow_tensor *copies[6];
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    for (int i = 0; i < 6; i++) {
        dhow_tensor *t, *next;
        dhow_device *to = order_device(env, i % 2 == 0 ? "sim:0" : "sim:1");
        OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), i, &t));
        TRY(order_full(env, to, -1, &copies[i]));
        OK(dhow_copy_async(s, t, copies[i], 0));
        dhow_tensor_release(t);
        OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 99, &next));
        dhow_tensor_release(next);
    }
    for (int i = 0; i < 6; i++) TRY(order_expect(env, copies[i], i, "copy"));
    return CONFORM_PASS;
}

static conform_result early_host_read(conform_env *env) {
    dhow_tensor *t, *one, *host;
    void *memory;
    TRY(order_full(env, env->device, 0, &t));
    TRY(order_full(env, env->device, 1, &one));
    OWN(TENSOR, &host,
        dhow_tensor_create(order_device(env, "cpu"), DHOW_F32, DHOW_SHAPE(ORDER_COUNT), &host));
    for (int i = 1; i <= 4; i++) {
        OK(dhow_add(NULL, t, one, t));
        OK(dhow_copy_async(NULL, t, host, 0));
        OK(dhow_tensor_host_ptr(host, &memory));
        TRY(order_expect_memory(env, memory, i, "host_ptr"));
        OK(dhow_add(NULL, t, one, t));
        TRY(order_expect(env, t, i + 1, "read"));
        OK(dhow_sub(NULL, t, one, t));
    }
    return CONFORM_PASS;
}

/* Both ends of a copy between devices go on working. */
static conform_result between_devices(conform_env *env) {
    dhow_device *other = order_device(env, "sim:1");
    dhow_tensor *a, *b, *one_a, *one_b;
    TRY(order_full(env, env->device, 0, &a));
    TRY(order_full(env, other, 0, &b));
    TRY(order_full(env, env->device, 1, &one_a));
    TRY(order_full(env, other, 1, &one_b));
    for (int i = 0; i < 6; i++) {
        OK(dhow_add(NULL, a, one_a, a));
        OK(dhow_copy_async(NULL, a, b, 0));
        OK(dhow_fill(NULL, a, -5));
        OK(dhow_add(NULL, b, one_b, b));
        OK(dhow_copy_async(NULL, b, a, 0));
        OK(dhow_fill(NULL, b, -6));
    }
    TRY(order_expect(env, a, 12, "ping-pong"));
    return order_expect(env, b, -6, "the other end");
}

/* A few elements of what still arrives in host memory go on to a device. A driver may read such a
 * source while it is handed the copy. */
static conform_result small_part_onwards(conform_env *env) {
    dhow_tensor *source, *host, *part, *there;
    float got[16];
    OWN(TENSOR, &host,
        dhow_tensor_full(order_device(env, "cpu"), DHOW_F32, DHOW_SHAPE(ORDER_COUNT), -1, &host));
    OWN(TENSOR, &part, dhow_tensor_slice(host, 0, ORDER_COUNT - 16, ORDER_COUNT, 1, &part));
    TRY(order_full(env, env->device, 0, &source));
    for (int i = 1; i <= 4; i++) {
        OK(dhow_fill(NULL, source, i));
        OK(dhow_copy_async(NULL, source, host, 0));
        OWN(TENSOR, &there, dhow_tensor_to_async(NULL, part, order_device(env, "sim:1"), &there));
        OK(dhow_tensor_read(there, got, sizeof got));
        for (int k = 0; k < 16; k++)
            CHECK((int)got[k] == i, "element %d is %g, not %d", k, (double)got[k], i);
    }
    return CONFORM_PASS;
}

/* The same with what each device there is sent to host memory. */
static conform_result small_by_way_of_the_host(conform_env *env) {
    for (uint32_t i = 0; i < 5 * dhow_device_count(env->context); i++) {
        dhow_device *by;
        dhow_tensor *t, *there, *host, *further;
        float got[16];
        OK(dhow_device_at(env->context, i % dhow_device_count(env->context), &by));
        OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(16), i, &t));
        OWN(TENSOR, &there, dhow_tensor_to_async(NULL, t, by, &there));
        OWN(TENSOR, &host, dhow_tensor_to_async(NULL, there, order_device(env, "cpu"), &host));
        OWN(TENSOR, &further,
            dhow_tensor_to_async(NULL, host, order_device(env, "sim:1"), &further));
        OK(dhow_tensor_read(further, got, sizeof got));
        for (int k = 0; k < 16; k++)
            CHECK((int)got[k] == (int)i, "element %d is %g, not %u", k, (double)got[k], i);
    }
    return CONFORM_PASS;
}

/* Memory that one device has pinned is any memory to a device of another backend. */
static conform_result pinned_for_another(conform_env *env) {
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *by;
        dhow_tensor *host, *there, *back;
        OK(dhow_device_at(env->context, i, &by));
        dhow_status status =
            dhow_tensor_create_pinned(by, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), &host);
        if (status == DHOW_UNSUPPORTED) continue;
        OWN(TENSOR, &host, status);
        OK(dhow_fill(NULL, host, i + 1));
        OWN(TENSOR, &there, dhow_tensor_to_async(NULL, host, env->device, &there));
        OWN(TENSOR, &back, dhow_tensor_create_pinned(by, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), &back));
        OK(dhow_copy_async(NULL, there, back, 0));
        TRY(order_expect(env, back, i + 1, "back"));
    }
    return CONFORM_PASS;
}

/* Through every device there is, and home. */
static conform_result around_the_machine(conform_env *env) {
    dhow_tensor *t, *home;
    uint32_t count = dhow_device_count(env->context);
    OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 1, &t));
    for (uint32_t i = 0; i < 2 * count; i++) {
        dhow_device *to;
        dhow_tensor *next;
        OK(dhow_device_at(env->context, i % count, &to));
        dhow_status status = dhow_tensor_to_async(NULL, t, to, &next);
        if (dhow_tensor_device(t) != to) (void)!dhow_fill(NULL, t, -1);
        dhow_tensor_release(t);
        OK(status);
        t = next;
        OK(dhow_add(NULL, t, t, t));
    }
    conform_own(env, CONFORM_TENSOR, t);
    OWN(TENSOR, &home, dhow_tensor_to(t, order_device(env, "cpu"), &home));
    return order_expect(env, home, ldexp(1, (int)(2 * count)), "around");
}

/* Everything is released while it is at work, the context last; its end is the only wait. */
static conform_result all_released(conform_env *env) {
    float *memory[3];
    dhow_tensor *host[3], *t, *there, *one;
    dhow_stream *s;
    dhow_event *e;
    for (int i = 0; i < 3; i++) {
        memory[i] = conform_memory(env, ORDER_COUNT * sizeof(float));
        OK(dhow_tensor_wrap(env->context, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), memory[i], NULL, NULL,
                            &host[i]));
    }
    OK(dhow_stream_create(env->device, &s));
    OK(dhow_event_create(order_device(env, "sim:1"), 0, &e));
    OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 20, &t));
    OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 1, &one));
    OK(dhow_add(s, t, one, t));
    OK(dhow_copy_async(s, t, host[0], 0));
    OK(dhow_tensor_to_async(NULL, t, order_device(env, "sim:1"), &there));
    OK(dhow_add(s, t, one, t));
    OK(dhow_copy_async(s, t, host[1], 0));
    OK(dhow_add(NULL, there, there, there));
    OK(dhow_copy_async(NULL, there, host[2], 0));
    OK(dhow_event_record(e, NULL));
    dhow_event_release(e);
    dhow_stream_release(s);
    dhow_tensor_release(t);
    dhow_tensor_release(one);
    dhow_tensor_release(there);
    for (int i = 0; i < 3; i++) dhow_tensor_release(host[i]);
    dhow_context_release(env->context);
    env->context = NULL;
    TRY(order_expect_memory(env, memory[0], 21, "first"));
    TRY(order_expect_memory(env, memory[1], 22, "second"));
    return order_expect_memory(env, memory[2], 42, "third");
}

/* The context goes first, while copies are on their way. */
static conform_result context_first(conform_env *env) {
    dhow_tensor *t, *there;
    dhow_stream *s;
    OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(ORDER_COUNT), 3, &t));
    OK(dhow_stream_create(env->device, &s));
    OK(dhow_add(s, t, t, t));
    OK(dhow_tensor_to_async(s, t, order_device(env, "sim:1"), &there));
    OK(dhow_mul(NULL, there, there, there));
    dhow_context_release(env->context);
    env->context = NULL;
    dhow_tensor_release(t);
    dhow_stream_release(s);
    conform_result result = order_expect(env, there, 36, "there");
    dhow_tensor_release(there);
    return result;
}

/* More streams read one tensor than it remembers, then it is written. */
static conform_result many_readers(conform_env *env) {
    enum { STREAMS = 14 };
    dhow_stream *s[STREAMS];
    dhow_tensor *t, *copy[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        dhow_device *device = order_device(env, i % 3 == 2 ? "sim:1" : "sim:0");
        OWN(STREAM, &s[i], dhow_stream_create(device, &s[i]));
        TRY(order_full(env, device, -1, &copy[i]));
    }
    TRY(order_full(env, env->device, 5, &t));
    for (int i = 0; i < STREAMS; i++) OK(dhow_copy_async(s[i], t, copy[i], 0));
    OK(dhow_fill(NULL, t, 6));
    for (int i = 0; i < STREAMS; i++) TRY(order_expect(env, copy[i], 5, "reader"));
    return order_expect(env, t, 6, "writer");
}

/* A stream of one device carries copies that another device does; its order holds for them, too. */
static conform_result copies_on_foreign_streams(conform_env *env) {
    dhow_device *other = order_device(env, "sim:1"), *cpu = order_device(env, "cpu");
    dhow_stream *s, *c;
    dhow_tensor *here, *there, *host, *target;
    OWN(STREAM, &s, dhow_stream_create(other, &s));
    OWN(STREAM, &c, dhow_stream_create(cpu, &c));
    TRY(order_full(env, env->device, 1, &here));
    TRY(order_full(env, other, 2, &there));
    TRY(order_full(env, cpu, 3, &host));
    TRY(order_full(env, other, -1, &target));
    OK(dhow_device_sync(env->device));
    OK(dhow_device_sync(other));
    /* Only the stream orders these. */
    OK(dhow_copy_async(s, here, target, DHOW_COPY_UNORDERED));
    OK(dhow_copy_async(s, there, target, DHOW_COPY_UNORDERED));
    OK(dhow_copy_async(s, host, target, DHOW_COPY_UNORDERED));
    OK(dhow_copy_async(s, here, target, DHOW_COPY_UNORDERED));
    OK(dhow_stream_sync(s));
    OK(dhow_stream_query(s));
    TRY(order_expect(env, target, 1, "the last copy"));
    OK(dhow_copy_async(c, there, host, 0));
    OK(dhow_copy_async(c, host, here, 0));
    OK(dhow_stream_sync(c));
    return order_expect(env, here, 2, "by a stream of the CPU");
}

/* ---- a random program beside its model ---- */

enum { TENSORS = 8, STREAMS = 5, STEPS = 60 };

typedef struct world {
    dhow_device *device[3];
    dhow_stream *stream[STREAMS]; /* two of each simulated device, one of the CPU */
    dhow_tensor *tensor[TENSORS];
    double value[TENSORS];
    uint64_t state;
} world;

static uint32_t pick(world *w, uint32_t count) {
    return (uint32_t)(conform_random(&w->state) % count);
}

static dhow_stream *stream_for(world *w, const dhow_device *device) {
    uint32_t first = pick(w, STREAMS + 2);
    for (uint32_t i = first; i < STREAMS; i++) {
        if (dhow_stream_device(w->stream[i]) == device) return w->stream[i];
    }
    return NULL;
}

static dhow_status step(world *w) {
    uint32_t a = pick(w, TENSORS), b = pick(w, TENSORS);
    dhow_tensor *ta = w->tensor[a], *tb = w->tensor[b];
    dhow_device *from = dhow_tensor_device(ta), *to = dhow_tensor_device(tb);
    switch (pick(w, 8)) {
        case 0:
            w->value[a] = pick(w, 50);
            return dhow_fill(stream_for(w, from), ta, w->value[a]);
        case 1: /* a new tensor, perhaps in the memory of the old one */
            w->value[a] = pick(w, 50);
            dhow_tensor_release(ta);
            w->tensor[a] = NULL;
            return dhow_tensor_full(w->device[pick(w, 3)], DHOW_F32, DHOW_SHAPE(ORDER_COUNT),
                                    w->value[a], &w->tensor[a]);
        case 2: /* a stream ends at work */
            dhow_stream_release(w->stream[a % STREAMS]);
            w->stream[a % STREAMS] = NULL;
            return dhow_stream_create(w->device[a % STREAMS / 2], &w->stream[a % STREAMS]);
        case 3:
        case 4:
            if (from != to) break;
            w->value[b] = fmin(w->value[a] + w->value[b], 1000);
            dhow_status status = dhow_add(stream_for(w, to), ta, tb, tb);
            if (status == DHOW_OK && w->value[b] == 1000) status = dhow_fill(NULL, tb, 1000);
            return status;
        default:
            break;
    }
    w->value[b] = w->value[a];
    return dhow_copy_async(stream_for(w, pick(w, 2) == 0 ? from : to), ta, tb, 0);
}

static conform_result steps(conform_env *env, world *w) {
    for (int i = 0; i < STREAMS; i++) OK(dhow_stream_create(w->device[i / 2], &w->stream[i]));
    for (int i = 0; i < TENSORS; i++) {
        w->value[i] = i;
        OK(dhow_tensor_full(w->device[i % 3], DHOW_F32, DHOW_SHAPE(ORDER_COUNT), i, &w->tensor[i]));
    }
    for (int i = 0; i < STEPS; i++) OK(step(w));
    for (int i = 0; i < TENSORS; i++) TRY(order_expect(env, w->tensor[i], w->value[i], "tensor"));
    return CONFORM_PASS;
}

static conform_result random_program(conform_env *env) {
    world w = {.state = order_seed() * 7919};
    w.device[0] = env->device;
    w.device[1] = order_device(env, "sim:1");
    w.device[2] = order_device(env, "cpu");
    conform_result result = steps(env, &w);
    for (int i = 0; i < TENSORS; i++) dhow_tensor_release(w.tensor[i]);
    for (int i = 0; i < STREAMS; i++) dhow_stream_release(w.stream[i]);
    return result;
}

#define PROGRAM(name) \
    { #name, name, NULL, NULL, NULL, NULL }
const order_program order_programs[] = {
    PROGRAM(copy_beside_kernel),
    PROGRAM(released_source),
    PROGRAM(reused_storage),
    PROGRAM(early_host_read),
    PROGRAM(between_devices),
    PROGRAM(around_the_machine),
    PROGRAM(small_part_onwards),
    PROGRAM(small_by_way_of_the_host),
    PROGRAM(pinned_for_another),
    PROGRAM(all_released),
    PROGRAM(context_first),
    PROGRAM(many_readers),
    PROGRAM(copies_on_foreign_streams),
    PROGRAM(random_program),
};
const uint32_t order_program_count = sizeof order_programs / sizeof order_programs[0];
