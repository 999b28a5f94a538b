/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of copies: every size, stride and dtype width, between the device and the host and between
 * every two devices, against a reference on the host.
 */
#include "support.h"

/* ---- plain sizes, host to device and back ---- */

static conform_result round_trip(conform_env *env, uint64_t bytes) {
    char *data = conform_memory(env, bytes), what[48];
    dhow_tensor *t;
    conform_pattern(data, bytes, bytes + 1);
    (void)snprintf(what, sizeof what, "%" PRIu64 " bytes", bytes);
    OWN(TENSOR, &t,
        dhow_tensor_from_data(env->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), data, &t));
    TRY(conform_expect_bytes(env, t, data, bytes, what));
    conform_disown(env, t);
    dhow_tensor_release(t);
    return CONFORM_PASS;
}

static conform_result small_sizes(conform_env *env) {
    static const uint64_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 15, 63, 64, 65, 255, 511, 4095, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) TRY(round_trip(env, sizes[i]));
    return CONFORM_PASS;
}

/* Around the sizes where the path or the number of chunks changes. */
static conform_result border_sizes(conform_env *env) {
    static const uint64_t sizes[] = {(64 << 10) - 1, 64 << 10,       (64 << 10) + 1,
                                     (4 << 20) - 1,  4 << 20,        (4 << 20) + 1,
                                     8 << 20,        (12 << 20) + 13};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) TRY(round_trip(env, sizes[i]));
    return CONFORM_PASS;
}

static conform_result more_than_the_ring(conform_env *env) {
    return round_trip(env, 5 * (UINT64_C(4) << 20) + 12345);
}

/* ---- strides ---- */

typedef struct shape {
    int32_t rank;
    int64_t extent[DHOW_MAX_RANK];
} shape;

static const shape k_shapes[] = {{1, {1}},
                                 {1, {257}},
                                 {2, {3, 5}},
                                 {2, {67, 129}},
                                 {3, {5, 1, 300}},
                                 {4, {3, 4, 5, 6}},
                                 {8, {2, 1, 3, 2, 1, 2, 3, 5}}};
enum { SHAPES = sizeof k_shapes / sizeof k_shapes[0] };

/* src in one layout, dst in another, both on the device; what lies between stays as it was. */
static conform_result copy_layouts(conform_env *env, dhow_dtype dtype) {
    for (int s = 0; s < SHAPES; s++) {
        conform_array a = conform_array_random(env, dtype, k_shapes[s].rank, k_shapes[s].extent, 0,
                                               100, (uint64_t)s + 3);
        for (conform_layout from = LAYOUT_PLAIN; from < LAYOUT_COUNT; from++) {
            for (conform_layout to = LAYOUT_PLAIN; to < LAYOUT_COUNT; to++) {
                dhow_tensor *src, *dst;
                char what[96];
                TRY(conform_upload(env, &a, from, &src));
                TRY(conform_blank(env, &a, to, &dst));
                (void)snprintf(what, sizeof what, "%s shape %d from %s to %s",
                               dhow_dtype_name(dtype), s, conform_layout_name(from),
                               conform_layout_name(to));
                OK(dhow_copy(src, dst));
                TRY(conform_expect(env, dst, &a, (conform_tolerance){0, 0}, what));
            }
        }
        conform_release_all(env);
    }
    return CONFORM_PASS;
}

static conform_result widths_1(conform_env *env) { return copy_layouts(env, DHOW_U8); }
static conform_result widths_2(conform_env *env) { return copy_layouts(env, DHOW_U16); }
static conform_result widths_4(conform_env *env) { return copy_layouts(env, DHOW_F32); }
static conform_result widths_8(conform_env *env) { return copy_layouts(env, DHOW_I64); }

static conform_result leaves_gaps_alone(conform_env *env) {
    unsigned char data[40], want[99];
    dhow_tensor *whole, *part;
    conform_pattern(data, sizeof data, 5);
    OWN(TENSOR, &whole, dhow_tensor_full(env->device, DHOW_U8, DHOW_SHAPE(9, 11), 0xEE, &whole));
    OWN(TENSOR, &part, dhow_tensor_slice(whole, 0, 1, 9, 2, &part));
    OWN(TENSOR, &part, dhow_tensor_slice(part, 1, 1, 11, 1, &part));
    OK(dhow_tensor_write(part, data, sizeof data));
    memset(want, 0xEE, sizeof want);
    for (int i = 0; i < 4; i++) memcpy(want + (1 + 2 * i) * 11 + 1, data + i * 10, 10);
    return conform_expect_bytes(env, whole, want, sizeof want, "around the slice");
}

/* Rows long enough for boxes, repeated by a stride of 0. */
static conform_result expanded_sources(conform_env *env) {
    dhow_tensor *row, *many, *dst;
    const int64_t n = 300;
    float *want = conform_memory(env, 5 * 300 * sizeof *want);
    for (int i = 0; i < 5 * n; i++) want[i] = (float)(i % n);
    OWN(TENSOR, &row, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(1, n), want, &row));
    OWN(TENSOR, &many, dhow_tensor_expand(row, DHOW_SHAPE(5, n), &many));
    OWN(TENSOR, &dst, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(5, n), &dst));
    OK(dhow_copy(many, dst));
    TRY(conform_expect_bytes(env, dst, want, 5 * 300 * 4, "within the device"));
    return conform_expect_bytes(env, many, want, 5 * 300 * 4, "to the host");
}

static conform_result large_transposed(conform_env *env) {
    const int64_t rows = 1031, cols = 517;
    const size_t count = 1031 * 517;
    float *data = conform_memory(env, count * sizeof *data);
    float *want = conform_memory(env, count * sizeof *want);
    dhow_tensor *t, *turned, *dst;
    for (size_t i = 0; i < count; i++) data[i] = (float)i;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) want[c * rows + r] = data[r * cols + c];
    }
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(rows, cols), data, &t));
    OWN(TENSOR, &turned, dhow_tensor_transpose(t, 0, 1, &turned));
    OWN(TENSOR, &dst, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(cols, rows), &dst));
    OK(dhow_copy(turned, dst));
    TRY(conform_expect_bytes(env, dst, want, count * 4, "within the device"));
    TRY(conform_expect_bytes(env, turned, want, count * 4, "to the host"));
    OK(dhow_tensor_write(turned, data, count * 4));
    return conform_expect_bytes(env, turned, data, count * 4, "from the host");
}

/* Few columns beside many rows, rows of a few elements, and pairs and fours that stay together,
 * aligned to what they are and not. */
static conform_result permuted(conform_env *env) {
    static const struct {
        int32_t rank;
        int64_t shape[4];
        int32_t order[4];
    } cases[] = {{2, {3, 2500}, {1, 0}},
                 {2, {2500, 3}, {1, 0}},
                 {2, {8, 1024}, {1, 0}},
                 {2, {1025, 5}, {1, 0}},
                 {4, {64, 2, 10, 2}, {0, 2, 1, 3}},
                 {4, {5, 2, 1100, 6}, {0, 2, 1, 3}},
                 {4, {7, 3, 5, 4}, {2, 0, 1, 3}},
                 {3, {6, 300, 9}, {1, 0, 2}},
                 {4, {2, 3, 40, 40}, {0, 2, 3, 1}}, /* colours of images */
                 {4, {2, 40, 40, 3}, {0, 3, 1, 2}},
                 {3, {3, 4, 1008}, {0, 2, 1}},
                 {3, {3, 1008, 4}, {0, 2, 1}}};
    static const dhow_dtype dtypes[] = {DHOW_F32, DHOW_U8, DHOW_F16, DHOW_I64};
    enum { CASES = sizeof cases / sizeof cases[0], MOST = 66000 };
    unsigned char *data = conform_memory(env, (MOST + 1) * 8),
                  *want = conform_memory(env, MOST * 8);
    conform_pattern(data, (MOST + 1) * 8, 1);
    for (int c = 0; c < 8 * CASES; c++) {
        const dhow_dtype dtype = dtypes[c / (2 * CASES)];
        const size_t bytes = dhow_dtype_bytes(dtype);
        const int64_t *extent = cases[c / 2 % CASES].shape, skipped = c % 2;
        const int32_t rank = cases[c / 2 % CASES].rank, *order = cases[c / 2 % CASES].order;
        int64_t turned[4], step[4], count = 1;
        dhow_tensor *all, *t, *view, *dst;
        for (int32_t i = rank - 1; i >= 0; count *= extent[i--]) step[i] = count;
        for (int32_t i = 0; i < rank; i++) turned[i] = extent[order[i]];
        for (int64_t at = 0; at < count; at++) {
            int64_t rest = at, from = skipped;
            for (int32_t i = rank - 1; i >= 0; rest /= turned[i--])
                from += rest % turned[i] * step[order[i]];
            memcpy(want + (size_t)at * bytes, data + (size_t)from * bytes, bytes);
        }
        OWN(TENSOR, &all,
            dhow_tensor_from_data(env->device, dtype, DHOW_SHAPE(count + 1), data, &all));
        OWN(TENSOR, &t, dhow_tensor_slice(all, 0, skipped, count + skipped, 1, &t));
        OWN(TENSOR, &t, dhow_tensor_reshape(t, rank, extent, &t));
        OWN(TENSOR, &view, dhow_tensor_permute(t, order, &view));
        OWN(TENSOR, &dst, dhow_tensor_create(env->device, dtype, rank, turned, &dst));
        OK(dhow_copy(view, dst));
        TRY(conform_expect_bytes(env, dst, want, (size_t)count * bytes, "permuted"));
    }
    return CONFORM_PASS;
}

/* A model's arena is one buffer: wide rows with gaps become dense elsewhere in it, and back. */
static conform_result within_one_buffer(conform_env *env) {
    enum { N = 12, WIDE = 1500, PART = 500, ALL = N * WIDE + N * PART };
    static float host[ALL], want[ALL];
    dhow_tensor *t, *rows, *part, *tail;
    for (int i = 0; i < ALL; i++) want[i] = host[i] = (float)i;
    for (int i = 0; i < N * PART; i++) want[N * WIDE + i] = host[i / PART * WIDE + PART + i % PART];
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(ALL), host, &t));
    OWN(TENSOR, &rows, dhow_tensor_slice(t, 0, 0, N * WIDE, 1, &rows));
    OWN(TENSOR, &rows, dhow_tensor_reshape(rows, DHOW_SHAPE(N, WIDE), &rows));
    OWN(TENSOR, &part, dhow_tensor_slice(rows, 1, PART, 2 * PART, 1, &part));
    OWN(TENSOR, &tail, dhow_tensor_slice(t, 0, N * WIDE, ALL, 1, &tail));
    OWN(TENSOR, &tail, dhow_tensor_reshape(tail, DHOW_SHAPE(N, PART), &tail));
    OK(dhow_copy(part, tail));
    TRY(conform_expect_bytes(env, t, want, sizeof want, "rows to a dense part"));
    OWN(TENSOR, &part, dhow_tensor_slice(rows, 1, 0, PART, 1, &part));
    for (int i = 0; i < N * PART; i++) want[i / PART * WIDE + i % PART] = want[N * WIDE + i];
    OK(dhow_copy(tail, part));
    return conform_expect_bytes(env, t, want, sizeof want, "a dense part to rows");
}

static conform_result overlapping(conform_env *env) {
    unsigned char data[1000], want[1000];
    dhow_tensor *t, *low, *high;
    static const int64_t shifts[] = {1, 7, 64, 400, 999};
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        for (int up = 0; up < 2; up++) {
            int64_t n = 1000 - shifts[i];
            conform_pattern(data, sizeof data, i);
            memcpy(want, data, sizeof want);
            if (up) memmove(want + shifts[i], want, (size_t)n);
            if (!up) memmove(want, want + shifts[i], (size_t)n);
            OWN(TENSOR, &t,
                dhow_tensor_from_data(env->device, DHOW_U8, DHOW_SHAPE(1000), data, &t));
            OWN(TENSOR, &low, dhow_tensor_slice(t, 0, 0, n, 1, &low));
            OWN(TENSOR, &high, dhow_tensor_slice(t, 0, shifts[i], 1000, 1, &high));
            OK(up ? dhow_copy(low, high) : dhow_copy(high, low));
            TRY(conform_expect_bytes(env, t, want, sizeof want, up ? "upwards" : "downwards"));
        }
    }
    return CONFORM_PASS;
}

static conform_result transposed_onto_itself(conform_env *env) {
    int32_t data[49], want[49];
    dhow_tensor *t, *turned;
    for (int i = 0; i < 49; i++) {
        data[i] = i;
        want[i] = (i % 7) * 7 + i / 7;
    }
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_I32, DHOW_SHAPE(7, 7), data, &t));
    OWN(TENSOR, &turned, dhow_tensor_transpose(t, 0, 1, &turned));
    OK(dhow_copy(turned, t));
    return conform_expect_bytes(env, t, want, sizeof want, "transposed in place");
}

/* ---- pinned memory ---- */

static conform_result pinned_both_ways(conform_env *env) {
    const uint64_t bytes = (9 << 20) + 77;
    dhow_tensor *host, *there, *back;
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    void *memory;
    dhow_status status =
        dhow_tensor_create_pinned(env->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), &host);
    if (status == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(TENSOR, &host, status);
    OWN(TENSOR, &back,
        dhow_tensor_create_pinned(env->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), &back));
    OK(dhow_tensor_host_ptr(host, &memory));
    conform_pattern(memory, bytes, 8);
    OWN(TENSOR, &there,
        dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), &there));
    OK(dhow_copy_plan(host, there, &plan));
    CHECK(plan.path == DHOW_COPY_HOST || plan.path == DHOW_COPY_NATIVE, "plan: %s", plan.text);
    OK(dhow_copy_async(NULL, host, there, 0));
    OK(dhow_copy_async(NULL, there, back, 0));
    TRY(conform_expect_bytes(env, there, memory, bytes, "there"));
    void *arrived;
    OK(dhow_tensor_host_ptr(back, &arrived));
    CHECK(memcmp(arrived, memory, bytes) == 0, "the bytes differ after the way back");
    return CONFORM_PASS;
}

/* ---- between devices ---- */

static conform_result copy_pair(conform_env *env, dhow_device *to, const shape *s,
                                conform_layout from_layout, conform_layout to_layout) {
    conform_array a = conform_array_random(env, DHOW_F32, s->rank, s->extent, -9, 9, 4);
    dhow_device *from = env->device;
    dhow_tensor *src, *dst;
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    char what[160];
    TRY(conform_upload(env, &a, from_layout, &src));
    env->device = to;
    conform_result made = conform_blank(env, &a, to_layout, &dst);
    env->device = from;
    TRY(made);
    OK(dhow_copy_plan(src, dst, &plan));
    (void)snprintf(what, sizeof what, "%s %s to %s %s", dhow_device_name(from),
                   conform_layout_name(from_layout), dhow_device_name(to),
                   conform_layout_name(to_layout));
    CHECK(plan.bytes == (uint64_t)a.count * 4, "%s: plan of %" PRIu64 " bytes", what, plan.bytes);
    CHECK(from == to ? plan.path <= DHOW_COPY_NATIVE : plan.path >= DHOW_COPY_HOST, "%s: plan: %s",
          what, plan.text);
    if (from != to) {
        CHECK(strstr(plan.text, dhow_device_name(from)) != NULL &&
                  strstr(plan.text, dhow_device_name(to)) != NULL,
              "%s: plan: %s", what, plan.text);
    }
    OK(dhow_copy(src, dst));
    return conform_expect(env, dst, &a, (conform_tolerance){0, 0}, what);
}

static conform_result with_every_device(conform_env *env) {
    static const shape shapes[] = {{1, {1}}, {2, {33, 70}}, {3, {7, 150, 101}}};
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        OK(dhow_device_at(env->context, i, &other));
        for (int s = 0; s < 3; s++) {
            for (conform_layout from = LAYOUT_PLAIN; from < LAYOUT_COUNT; from++) {
                for (conform_layout to = LAYOUT_PLAIN; to < LAYOUT_COUNT; to++) {
                    TRY(copy_pair(env, other, &shapes[s], from, to));
                }
            }
            conform_release_all(env);
        }
    }
    return CONFORM_PASS;
}

static conform_result large_with_every_device(conform_env *env) {
    static const shape large = {2, {5 * 1024 + 1, 1025}}; /* 21 MB: more than the ring */
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        OK(dhow_device_at(env->context, i, &other));
        TRY(copy_pair(env, other, &large, LAYOUT_PLAIN, LAYOUT_PLAIN));
        conform_release_all(env);
        TRY(copy_pair(env, other, &large, LAYOUT_TRANSPOSED, LAYOUT_PLAIN));
        conform_release_all(env);
    }
    return CONFORM_PASS;
}

static conform_result moves_tensors(conform_env *env) {
    const int64_t extent[] = {13, 17};
    conform_array a = conform_array_random(env, DHOW_I64, 2, extent, -1000, 1000, 6);
    dhow_tensor *t, *same, *there, *back;
    TRY(conform_upload(env, &a, LAYOUT_TRANSPOSED, &t));
    OWN(TENSOR, &same, dhow_tensor_to(t, env->device, &same));
    CHECK(same == t, "a tensor that is there already was copied");
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        OK(dhow_device_at(env->context, i, &other));
        OWN(TENSOR, &there, dhow_tensor_to(t, other, &there));
        CHECK(dhow_tensor_device(there) == other, "it is on %s",
              dhow_device_name(dhow_tensor_device(there)));
        OWN(TENSOR, &back, dhow_tensor_to_async(NULL, there, env->device, &back));
        TRY(conform_expect(env, back, &a, (conform_tolerance){0, 0}, dhow_device_name(other)));
    }
    return CONFORM_PASS;
}

/* ---- plans ---- */

static conform_result plans_say_the_path(conform_env *env) {
    dhow_device *cpu;
    dhow_tensor *a, *b, *turned, *host, *none;
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    OK(dhow_device_get(env->context, "cpu", &cpu));
    OWN(TENSOR, &a, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(40, 40), &a));
    OWN(TENSOR, &b, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(40, 40), &b));
    OWN(TENSOR, &turned, dhow_tensor_transpose(b, 0, 1, &turned));
    OWN(TENSOR, &host, dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(40, 40), &host));
    OK(dhow_copy_plan(a, a, &plan));
    CHECK(plan.path == DHOW_COPY_NOTHING && strcmp(plan.text, "nothing to copy") == 0, "%s",
          plan.text);
    OK(dhow_copy_plan(a, b, &plan));
    CHECK(plan.path == DHOW_COPY_NATIVE && plan.packs_src == 0, "%s", plan.text);
    OK(dhow_copy_plan(turned, host, &plan));
    if (env->device == cpu) {
        CHECK(plan.path == DHOW_COPY_NATIVE, "%s", plan.text);
    } else {
        CHECK(plan.packs_src == 1 && strncmp(plan.text, "gather on ", 10) == 0, "%s", plan.text);
    }
    OWN(TENSOR, &none, dhow_tensor_slice(a, 0, 0, 0, 1, &none));
    OK(dhow_copy_plan(none, none, &plan));
    CHECK(plan.path == DHOW_COPY_NOTHING && plan.bytes == 0, "%s", plan.text);
    return CONFORM_PASS;
}

const conform_case conform_copy_cases[] = {
    CASE("copy/small", small_sizes, "copy"),
    CASE("copy/borders", border_sizes, "copy,large"),
    CASE("copy/ring", more_than_the_ring, "copy,large"),
    CASE("copy/width1", widths_1, "copy,strided"),
    CASE("copy/width2", widths_2, "copy,strided"),
    CASE("copy/width4", widths_4, "copy,strided"),
    CASE("copy/width8", widths_8, "copy,strided"),
    CASE("copy/gaps", leaves_gaps_alone, "copy,strided"),
    CASE("copy/expanded", expanded_sources, "copy,strided"),
    CASE("copy/transposed", large_transposed, "copy,strided,large"),
    CASE("copy/permuted", permuted, "copy,strided"),
    CASE("copy/overlap", overlapping, "copy"),
    CASE("copy/within", within_one_buffer, "copy,strided"),
    CASE("copy/inplace", transposed_onto_itself, "copy,strided"),
    CASE("copy/pinned", pinned_both_ways, "copy,large"),
    CASE("copy/devices", with_every_device, "copy,strided,devices"),
    CASE("copy/devices_large", large_with_every_device, "copy,large,devices"),
    CASE("copy/to", moves_tensors, "copy,devices"),
    CASE("copy/plan", plans_say_the_path, "copy"),
};
CASES_END(conform_copy);
