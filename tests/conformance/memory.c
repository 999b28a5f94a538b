/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of memory: allocation and its accounting, views, host pointers.
 */
#include "support.h"

static conform_result stats_of(conform_env *env, dhow_memory_stats *out) {
    OK(dhow_memory_get_stats(env->device, out));
    return CONFORM_PASS;
}

static conform_result counts_what_is_live(conform_env *env) {
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), with = DHOW_INIT(dhow_memory_stats),
                      after = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *t;
    TRY(stats_of(env, &before));
    OK(dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(10, 25), &t));
    TRY(stats_of(env, &with));
    dhow_tensor_release(t);
    TRY(stats_of(env, &after));
    CHECK(with.live == before.live + 1000, "live rose by %" PRIu64, with.live - before.live);
    CHECK(after.live == before.live, "live is %" PRIu64 " after the release", after.live);
    CHECK(with.reserved >= with.live, "reserved %" PRIu64 " < live", with.reserved);
    CHECK(after.cached > 0 && after.reserved >= after.cached, "cached %" PRIu64, after.cached);
    return CONFORM_PASS;
}

static conform_result reuses_a_released_block(conform_env *env) {
    dhow_memory_stats first = DHOW_INIT(dhow_memory_stats), second = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *t;
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(5000), &t));
    dhow_tensor_release(t);
    TRY(stats_of(env, &first));
    for (int i = 0; i < 20; i++) {
        OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(4990 + i), &t));
        dhow_tensor_release(t);
    }
    TRY(stats_of(env, &second));
    CHECK(second.driver_calls == first.driver_calls, "%" PRIu64 " calls of the driver",
          second.driver_calls - first.driver_calls);
    CHECK(second.allocations == first.allocations + 20, "%" PRIu64 " allocations",
          second.allocations - first.allocations);
    return CONFORM_PASS;
}

static conform_result resets_its_peaks(conform_env *env) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *t;
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(1 << 20), &t));
    dhow_tensor_release(t);
    TRY(stats_of(env, &stats));
    CHECK(stats.live_peak >= 1 << 20, "peak %" PRIu64, stats.live_peak);
    OK(dhow_memory_reset_peaks(env->device));
    TRY(stats_of(env, &stats));
    CHECK(stats.live_peak == stats.live, "peak %" PRIu64 " after the reset", stats.live_peak);
    return CONFORM_PASS;
}

static conform_result gives_cached_blocks_back(conform_env *env) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *t;
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(1 << 20), &t));
    dhow_tensor_release(t);
    OK(dhow_memory_trim(env->device));
    TRY(stats_of(env, &stats));
    CHECK(stats.cached == 0, "%" PRIu64 " bytes are still cached", stats.cached);
    return CONFORM_PASS;
}

static conform_result limit_case(conform_env *env) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *t, *held;
    OWN(TENSOR, &held, dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(70000), &held));
    OK(dhow_tensor_set_label(held, "activations"));
    OK(dhow_memory_trim(env->device));
    TRY(stats_of(env, &stats));
    OK(dhow_memory_set_limit(env->device, stats.reserved + (1 << 20)));
    FAILS(DHOW_OUT_OF_MEMORY, "'activations'",
          dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(2 << 20), &t));
    CHECK(strstr(dhow_last_error(), "asked 2") != NULL && strstr(dhow_last_error(), "limit"),
          "'%s' says neither asked nor limit", dhow_last_error());
    CHECK(t == NULL, "a tensor came out of a failure");
    /* A cached block is given back to stay below the limit. */
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(900 << 10), &t));
    dhow_tensor_release(t);
    OK(dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(700 << 10), &t));
    dhow_tensor_release(t);
    TRY(stats_of(env, &stats));
    CHECK(stats.limit > 0 && stats.reserved <= stats.limit, "reserved %" PRIu64, stats.reserved);
    return CONFORM_PASS;
}

static conform_result keeps_to_a_limit(conform_env *env) {
    conform_result result = limit_case(env);
    OK(dhow_memory_set_limit(env->device, 0));
    return result;
}

static conform_result labels_a_tensor_in_reports(conform_env *env) {
    dhow_tensor *t;
    OWN(TENSOR, &t, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3), &t));
    OK(dhow_tensor_set_label(t, "a label that is longer than thirty-one bytes is cut"));
    FAILS(DHOW_INVALID_ARGUMENT, "label is NULL", dhow_tensor_set_label(t, NULL));
    return CONFORM_PASS;
}

static conform_result holds_tensors_without_elements(conform_env *env) {
    dhow_tensor *t, *u;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OWN(TENSOR, &t, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 0, 5), &t));
    OK(dhow_tensor_get_info(t, &info));
    CHECK(info.count == 0 && info.bytes == 0 && info.contiguous == 1, "count %" PRId64, info.count);
    OK(dhow_tensor_read(t, NULL, 0));
    OK(dhow_tensor_write(t, NULL, 0));
    OWN(TENSOR, &u, dhow_tensor_reshape(t, DHOW_SHAPE(0, 7), &u));
    OK(dhow_fill(NULL, t, 1));
    return CONFORM_PASS;
}

static conform_result holds_a_scalar(conform_env *env) {
    dhow_tensor *t;
    float value = 0;
    OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_F32, 0, NULL, 2.5, &t));
    CHECK(dhow_tensor_count(t) == 1, "count %" PRId64, dhow_tensor_count(t));
    OK(dhow_tensor_read(t, &value, sizeof value));
    CHECK(value == 2.5f, "value %g", (double)value);
    return CONFORM_PASS;
}

static conform_result fills_every_dtype(conform_env *env) {
    const int64_t shape[] = {37};
    for (dhow_dtype dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        conform_array want = conform_array_new(env, dtype, 1, shape);
        dhow_tensor *t;
        for (int i = 0; i < 37; i++) want.value[i] = dtype == DHOW_BOOL ? 1 : 3;
        OWN(TENSOR, &t, dhow_tensor_full(env->device, dtype, 1, shape, 3, &t));
        TRY(conform_expect(env, t, &want, (conform_tolerance){0, 0}, dhow_dtype_name(dtype)));
    }
    return CONFORM_PASS;
}

/* ---- views ---- */

static conform_result iota(conform_env *env, int32_t rank, const int64_t *shape,
                           dhow_tensor **out) {
    conform_array a = conform_array_new(env, DHOW_I32, rank, shape);
    for (int64_t i = 0; i < a.count; i++) a.value[i] = (double)i;
    return conform_upload(env, &a, LAYOUT_PLAIN, out);
}

static conform_result expect_i32(conform_env *env, dhow_tensor *t, int64_t count,
                                 const int32_t *want, const char *what) {
    int32_t got[64];
    CHECK(dhow_tensor_count(t) == count, "%s: %" PRId64 " elements", what, dhow_tensor_count(t));
    OK(dhow_tensor_read(t, got, (uint64_t)count * 4));
    for (int64_t i = 0; i < count; i++) {
        CHECK(got[i] == want[i], "%s: element %" PRId64 " is %d, not %d", what, i, got[i], want[i]);
    }
    return CONFORM_PASS;
}

static conform_result slices(conform_env *env) {
    dhow_tensor *t, *s, *u;
    TRY(iota(env, DHOW_SHAPE(4, 5), &t));
    OWN(TENSOR, &s, dhow_tensor_slice(t, 1, 1, 5, 2, &s));
    TRY(expect_i32(env, s, 8, (int32_t[]){1, 3, 6, 8, 11, 13, 16, 18}, "step"));
    OWN(TENSOR, &s, dhow_tensor_slice(t, 0, -2, 100, 1, &s));
    TRY(expect_i32(env, s, 10, (int32_t[]){10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, "clamped"));
    OWN(TENSOR, &u, dhow_tensor_slice(s, -1, 3, 4, 7, &u));
    TRY(expect_i32(env, u, 2, (int32_t[]){13, 18}, "slice of a slice"));
    OWN(TENSOR, &u, dhow_tensor_slice(s, 0, 2, 1, 1, &u));
    CHECK(dhow_tensor_count(u) == 0, "empty slice has elements");
    FAILS(DHOW_OUT_OF_RANGE, "dimension 2 of a tensor of rank 2",
          dhow_tensor_slice(t, 2, 0, 1, 1, &u));
    FAILS(DHOW_INVALID_ARGUMENT, "step 0", dhow_tensor_slice(t, 0, 0, 1, 0, &u));
    return CONFORM_PASS;
}

static conform_result selects(conform_env *env) {
    dhow_tensor *t, *s;
    TRY(iota(env, DHOW_SHAPE(2, 3, 2), &t));
    OWN(TENSOR, &s, dhow_tensor_select(t, 1, -1, &s));
    TRY(expect_i32(env, s, 4, (int32_t[]){4, 5, 10, 11}, "select"));
    OWN(TENSOR, &s, dhow_tensor_select(s, 0, 1, &s));
    TRY(expect_i32(env, s, 2, (int32_t[]){10, 11}, "select of a select"));
    FAILS(DHOW_OUT_OF_RANGE, "index 3 of an extent of 3", dhow_tensor_select(t, 1, 3, &s));
    return CONFORM_PASS;
}

static conform_result permutes(conform_env *env) {
    dhow_tensor *t, *p;
    TRY(iota(env, DHOW_SHAPE(2, 3, 2), &t));
    OWN(TENSOR, &p, dhow_tensor_permute(t, (int32_t[]){1, 2, 0}, &p));
    TRY(expect_i32(env, p, 12, (int32_t[]){0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, "permute"));
    OWN(TENSOR, &p, dhow_tensor_transpose(p, 0, -1, &p));
    TRY(expect_i32(env, p, 12, (int32_t[]){0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}, "transpose"));
    FAILS(DHOW_INVALID_ARGUMENT, "no permutation",
          dhow_tensor_permute(t, (int32_t[]){0, 1, 1}, &p));
    return CONFORM_PASS;
}

static conform_result reshapes(conform_env *env) {
    dhow_tensor *t, *r, *p;
    TRY(iota(env, DHOW_SHAPE(2, 6), &t));
    OWN(TENSOR, &r, dhow_tensor_reshape(t, DHOW_SHAPE(3, -1), &r));
    CHECK(dhow_tensor_extent(r, 1) == 4, "extent %" PRId64, dhow_tensor_extent(r, 1));
    OWN(TENSOR, &p, dhow_tensor_transpose(t, 0, 1, &p));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_tensor_contiguous()",
          dhow_tensor_reshape(p, DHOW_SHAPE(12), &r));
    /* The outer dimension of a transposed tensor splits without a copy. */
    OWN(TENSOR, &r, dhow_tensor_reshape(p, DHOW_SHAPE(3, 2, 2), &r));
    TRY(expect_i32(env, r, 12, (int32_t[]){0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, "split"));
    OWN(TENSOR, &r, dhow_tensor_contiguous(NULL, p, &r));
    OWN(TENSOR, &r, dhow_tensor_reshape(r, DHOW_SHAPE(12), &r));
    TRY(expect_i32(env, r, 12, (int32_t[]){0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, "flat"));
    FAILS(DHOW_INVALID_ARGUMENT, "12 elements", dhow_tensor_reshape(t, DHOW_SHAPE(5, 2), &r));
    return CONFORM_PASS;
}

static conform_result expands_read_only(conform_env *env) {
    dhow_tensor *t, *e, *u;
    TRY(iota(env, DHOW_SHAPE(3, 1), &t));
    OWN(TENSOR, &e, dhow_tensor_expand(t, DHOW_SHAPE(2, 3, 2), &e));
    TRY(expect_i32(env, e, 12, (int32_t[]){0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, "expand"));
    const int32_t data[12] = {0};
    FAILS(DHOW_INVALID_ARGUMENT, "is an expanded view", dhow_tensor_write(e, data, sizeof data));
    FAILS(DHOW_INVALID_ARGUMENT, "is an expanded view", dhow_fill(NULL, e, 1));
    FAILS(DHOW_INVALID_ARGUMENT, "does not expand", dhow_tensor_expand(t, DHOW_SHAPE(2, 2), &u));
    return CONFORM_PASS;
}

static conform_result views_outlive_their_tensor(conform_env *env) {
    dhow_tensor *t, *v;
    TRY(iota(env, DHOW_SHAPE(4, 4), &t));
    OWN(TENSOR, &v, dhow_tensor_slice(t, 1, 2, 3, 1, &v));
    conform_disown(env, t);
    dhow_tensor_release(t);
    return expect_i32(env, v, 4, (int32_t[]){2, 6, 10, 14}, "view");
}

static conform_result writes_through_views(conform_env *env) {
    dhow_tensor *t, *v;
    TRY(iota(env, DHOW_SHAPE(3, 4), &t));
    OWN(TENSOR, &v, dhow_tensor_slice(t, 1, 1, 4, 2, &v));
    OK(dhow_tensor_write(v, (int32_t[]){-1, -2, -3, -4, -5, -6}, 24));
    TRY(expect_i32(env, t, 12, (int32_t[]){0, -1, 2, -2, 4, -3, 6, -4, 8, -5, 10, -6}, "write"));
    OK(dhow_fill(NULL, v, 9));
    return expect_i32(env, t, 12, (int32_t[]){0, 9, 2, 9, 4, 9, 6, 9, 8, 9, 10, 9}, "fill");
}

static conform_result keeps_rank_eight(conform_env *env) {
    dhow_tensor *t, *p;
    int32_t want[64];
    TRY(iota(env, DHOW_SHAPE(2, 1, 2, 2, 1, 2, 2, 2), &t));
    OWN(TENSOR, &p, dhow_tensor_permute(t, (int32_t[]){7, 6, 5, 4, 3, 2, 1, 0}, &p));
    for (int i = 0; i < 64; i++) {
        want[i] = 0;
        for (int bit = 0; bit < 6; bit++) want[i] |= ((i >> bit) & 1) << (5 - bit);
    }
    return expect_i32(env, p, 64, want, "reversed");
}

/* ---- host pointers ---- */

static conform_result host_pointers_are_for_the_cpu(conform_env *env) {
    dhow_tensor *t;
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    void *memory;
    OK(dhow_device_get_info(env->device, &info));
    TRY(iota(env, DHOW_SHAPE(2, 3), &t));
    if (info.host_memory != 0) {
        OK(dhow_tensor_host_ptr(t, &memory));
        CHECK(((int32_t *)memory)[5] == 5, "the last element is %d", ((int32_t *)memory)[5]);
    } else {
        FAILS(DHOW_INVALID_ARGUMENT, "use dhow_tensor_read() or dhow_tensor_to()",
              dhow_tensor_host_ptr(t, &memory));
        CHECK(memory == NULL, "a pointer came out of a failure");
    }
    return CONFORM_PASS;
}

static void count_release(void *user) { ++*(int *)user; }

static conform_result wraps_host_memory(conform_env *env) {
    static int32_t memory[6] = {1, 2, 3, 4, 5, 6}; /* a case that fails ends before its tensors */
    static int released;
    dhow_tensor *t, *there;
    released = 0;
    OWN(TENSOR, &t,
        dhow_tensor_wrap(env->context, DHOW_I32, DHOW_SHAPE(2, 3), memory, count_release, &released,
                         &t));
    OWN(TENSOR, &there, dhow_tensor_to(t, env->device, &there));
    TRY(expect_i32(env, there, 6, memory, "there"));
    FAILS(DHOW_INVALID_ARGUMENT, "not aligned",
          dhow_tensor_wrap(env->context, DHOW_I32, DHOW_SHAPE(1), (char *)memory + 1, NULL, NULL,
                           &there));
    conform_release_all(env);
    CHECK(released == 1, "the memory was released %d times", released);
    return CONFORM_PASS;
}

static conform_result pins_host_memory(conform_env *env) {
    dhow_tensor *pinned, *there;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    void *memory;
    dhow_status status =
        dhow_tensor_create_pinned(env->device, DHOW_I32, DHOW_SHAPE(1000), &pinned);
    if (status == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(TENSOR, &pinned, status);
    OK(dhow_tensor_get_info(pinned, &info));
    CHECK(strncmp(dhow_device_name(info.device), "cpu", 3) == 0, "it is on %s",
          dhow_device_name(info.device));
    TRY(stats_of(env, &stats));
    dhow_device_info device = DHOW_INIT(dhow_device_info);
    OK(dhow_device_get_info(env->device, &device));
    CHECK(device.host_memory != 0 || (info.pinned == 1 && stats.pinned >= 4000), "pinned %" PRIu64,
          stats.pinned);
    OK(dhow_tensor_host_ptr(pinned, &memory));
    for (int i = 0; i < 1000; i++) ((int32_t *)memory)[i] = i * 3;
    OWN(TENSOR, &there, dhow_tensor_to(pinned, env->device, &there));
    int32_t got[1000];
    OK(dhow_tensor_read(there, got, sizeof got));
    CHECK(got[999] == 2997, "the last element is %d", got[999]);
    return CONFORM_PASS;
}

const conform_case conform_memory_cases[] = {
    CASE("memory/live", counts_what_is_live, "memory"),
    CASE("memory/reuse", reuses_a_released_block, "memory"),
    CASE("memory/peaks", resets_its_peaks, "memory"),
    CASE("memory/trim", gives_cached_blocks_back, "memory"),
    CASE("memory/limit", keeps_to_a_limit, "memory,error"),
    CASE("memory/label", labels_a_tensor_in_reports, "memory"),
    CASE("memory/empty", holds_tensors_without_elements, "memory"),
    CASE("memory/scalar", holds_a_scalar, "memory"),
    CASE("memory/fill", fills_every_dtype, "memory"),
    CASE("memory/wrap", wraps_host_memory, "memory,copy"),
    CASE("memory/pinned", pins_host_memory, "memory,copy"),
    CASE("memory/host_ptr", host_pointers_are_for_the_cpu, "memory"),
    CASE("view/slice", slices, "view"),
    CASE("view/select", selects, "view"),
    CASE("view/permute", permutes, "view"),
    CASE("view/reshape", reshapes, "view"),
    CASE("view/expand", expands_read_only, "view"),
    CASE("view/lifetime", views_outlive_their_tensor, "view"),
    CASE("view/write", writes_through_views, "view"),
    CASE("view/rank8", keeps_rank_eight, "view"),
};
CASES_END(conform_memory);
