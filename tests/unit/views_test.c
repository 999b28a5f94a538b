/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of tensors, joining them again, and host memory pinned in place.
 */
#include <math.h>

#include "data_fixture.h"

static void set_up(void) { open_context("jitter_us=200", ""); }
TestSuite(parts, .init = set_up, .fini = close_context, .timeout = 60);

static dhow_tensor *counting(dhow_device *device, int64_t rows, int64_t columns) {
    float values[256];
    dhow_tensor *t;
    for (int64_t i = 0; i < rows * columns; i++) values[i] = (float)i;
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(rows, columns), values, &t));
    return t;
}

static void expect_counting(dhow_tensor *t, int64_t count) {
    float values[256];
    OK(dhow_tensor_read(t, values, (uint64_t)count * sizeof *values));
    for (int64_t i = 0; i < count; i++) cr_assert_eq(values[i], (float)i, "element %ld", (long)i);
}

/* Chunks computed elsewhere and joined again are the whole, along both dimensions. */
Test(parts, chunks_of_any_device_join_to_the_whole) {
    static const char *const devices[] = {"cpu", "sim:0", "sim:1"};
    for (int32_t dim = 0; dim < 2; dim++) {
        for (uint32_t count = 1; count <= 7; count++) {
            dhow_tensor *whole = counting(g_cpu, 5, 7), *parts[7], *moved[7], *joined;
            OK(dhow_tensor_chunk(whole, dim, count, parts));
            for (uint32_t i = 0; i < count; i++)
                OK(dhow_tensor_to(parts[i], device_of(devices[i % 3]), &moved[i]));
            for (int d = 0; d < 3; d++) {
                OK(dhow_tensor_full(device_of(devices[d]), DHOW_F32, DHOW_SHAPE(5, 7), -1,
                                    &joined));
                OK(dhow_cat(NULL, moved, count, dim - 2, joined));
                expect_counting(joined, 35);
                dhow_tensor_release(joined);
            }
            for (uint32_t i = 0; i < count; i++) {
                dhow_tensor_release(parts[i]);
                dhow_tensor_release(moved[i]);
            }
            dhow_tensor_release(whole);
        }
    }
}

Test(parts, extents_of_chunks_are_those_of_pytorch) {
    static const int64_t expected[3][4] = {{3, 3, 3, 1}, {2, 2, 1, 0}, {1, 1, 0, 0}};
    static const int64_t extents[3] = {10, 5, 2};
    for (int i = 0; i < 3; i++) {
        dhow_tensor *t = counting(g_cpu, extents[i], 1), *parts[4];
        OK(dhow_tensor_chunk(t, 0, 4, parts));
        for (int k = 0; k < 4; k++) {
            cr_assert_eq(dhow_tensor_extent(parts[k], 0), expected[i][k]);
            dhow_tensor_release(parts[k]);
        }
        dhow_tensor_release(t);
    }
}

#define TWO(...) (const int64_t[]){__VA_ARGS__}, 2

Test(parts, what_does_not_fit_is_refused) {
    dhow_tensor *t = counting(g_cpu, 4, 5), *other = counting(g_cpu, 4, 4), *out, *parts[2];
    FAILS(DHOW_OUT_OF_RANGE, dhow_tensor_narrow(t, 0, 2, 3, &out));
    SAYS("3 indices from 2 on, of an extent of 4");
    FAILS(DHOW_OUT_OF_RANGE, dhow_tensor_narrow(t, 0, -1, 1, &out));
    FAILS(DHOW_OUT_OF_RANGE, dhow_tensor_chunk(t, 2, 2, parts));
    cr_assert(parts[0] == NULL && parts[1] == NULL);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_chunk(t, 0, 0, parts));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_split(t, 1, TWO(2, 4), parts));
    SAYS("size 1 is 4, of the extent 5 there are 3 left");
    cr_assert(parts[0] == NULL && parts[1] == NULL);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_split(t, 1, TWO(2, 2), parts));
    SAYS("the sizes come to 4 of the extent 5");
    OK(dhow_tensor_split(t, 1, TWO(4, 1), parts));
    cr_assert_eq(dhow_tensor_extent(parts[1], 1), 1);
    for (int i = 0; i < 2; i++) dhow_tensor_release(parts[i]);
    OK(dhow_tensor_narrow(t, 1, 1, 3, &out));
    cr_assert_eq(dhow_tensor_extent(out, 1), 3);
    dhow_tensor *pair[2] = {out, other};
    FAILS(DHOW_INVALID_ARGUMENT, dhow_cat(NULL, pair, 2, 1, t));
    SAYS("y overlaps tensor 0"); /* a view of y itself */
    dhow_tensor_release(out);
    pair[0] = other;
    FAILS(DHOW_INVALID_ARGUMENT, dhow_cat(NULL, pair, 1, 1, t));
    SAYS("dimension 1 of the tensors adds up to 4, y is f32[4, 5] on cpu:0");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_cat(NULL, pair, 1, 0, t));
    SAYS("tensor 0 is f32[4, 4] on cpu:0, which is no part of f32[4, 5] on cpu:0");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_cat(NULL, NULL, 1, 0, t));
    dhow_tensor_release(t);
    dhow_tensor_release(other);
}

/* ---- pinning in place ---- */

Test(parts, memory_pinned_in_place_is_copied_by_the_driver_and_given_back) {
    enum { COUNT = 100000 };
    static float memory[COUNT];
    dhow_device *sim = device_of("sim");
    dhow_tensor *host, *there;
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    for (int i = 0; i < COUNT; i++) memory[i] = (float)i;
    for (int again = 0; again < 2; again++) {
        OK(dhow_tensor_wrap(g_context, DHOW_F32, DHOW_SHAPE(COUNT), memory, NULL, NULL, &host));
        OK(dhow_tensor_create(sim, DHOW_F32, DHOW_SHAPE(COUNT), &there));
        OK(dhow_copy_plan(host, there, &plan));
        cr_assert_eq(plan.path, DHOW_COPY_STAGED);
        OK(dhow_tensor_pin(host, sim));
        OK(dhow_copy_plan(host, there, &plan));
        cr_assert_eq(plan.path, DHOW_COPY_HOST);
        OK(dhow_tensor_get_info(host, &info));
        cr_assert_eq(info.pinned, 1);
        OK(dhow_memory_get_stats(sim, &stats));
        cr_assert_eq(stats.pinned - stats.staging, sizeof memory);
        FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_pin(host, device_of("sim:1")));
        SAYS("the memory is pinned by sim:0");
        OK(dhow_copy_async(NULL, host, there, 0));
        dhow_tensor_release(host); /* waits for the copy before it unpins */
        OK(dhow_memory_get_stats(sim, &stats));
        cr_assert_eq(stats.pinned, stats.staging);
        float *back = malloc(sizeof memory);
        OK(dhow_tensor_read(there, back, sizeof memory));
        cr_assert_arr_eq(back, memory, sizeof memory);
        free(back);
        dhow_tensor_release(there);
    }
}

Test(parts, memory_of_the_pool_can_be_pinned_too) {
    dhow_device *sim = device_of("sim");
    dhow_tensor *t = counting(g_cpu, 10, 10), *there, *next;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_pin(t, sim));
    OK(dhow_tensor_to(t, sim, &there));
    expect_counting(there, 100);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_pin(there, sim));
    SAYS("not in host memory");
    dhow_tensor_release(there);
    dhow_tensor_release(t);
    next = counting(g_cpu, 10, 10); /* the same memory, not pinned any more */
    OK(dhow_tensor_get_info(next, &info));
    cr_assert_eq(info.pinned, 0);
    OK(dhow_tensor_pin(next, g_cpu)); /* nothing to do */
    dhow_tensor_release(next);
}

/* ---- random values ---- */

enum { MANY = 70001 }; /* more than travel at once */

static float *random_values(dhow_device *device, int normal, uint64_t seed) {
    dhow_tensor *t;
    float *values = malloc(MANY * sizeof *values);
    cr_assert_not_null(values);
    if (normal) {
        OK(dhow_tensor_normal(device, DHOW_F32, DHOW_SHAPE(MANY), 3, 2, seed, &t));
    } else {
        OK(dhow_tensor_uniform(device, DHOW_F32, DHOW_SHAPE(MANY), -1, 3, seed, &t));
    }
    OK(dhow_tensor_read(t, values, MANY * sizeof *values));
    dhow_tensor_release(t);
    return values;
}

Test(parts, random_values_are_the_same_on_every_device_and_others_for_another_seed) {
    for (int normal = 0; normal < 2; normal++) {
        float *here = random_values(g_cpu, normal, 7),
              *there = random_values(device_of("sim:0"), normal, 7),
              *others = random_values(g_cpu, normal, 8);
        int equal = 0;
        cr_assert_arr_eq(here, there, MANY * sizeof *here);
        for (int i = 0; i < MANY; i++) equal += here[i] == others[i];
        cr_assert_lt(equal, 100);
        free(here), free(there), free(others);
    }
}

Test(parts, random_values_have_the_moments_that_were_asked_for) {
    static const double means[] = {1, 3}, deviations[] = {1.1547, 2};
    for (int normal = 0; normal < 2; normal++) {
        float *values = random_values(g_cpu, normal, 1);
        double sum = 0, squares = 0;
        for (int i = 0; i < MANY; i++) {
            if (!normal) cr_assert(values[i] >= -1 && values[i] < 3.0001f);
            sum += values[i];
            squares += (values[i] - means[normal]) * (values[i] - means[normal]);
        }
        cr_assert_float_eq(sum / MANY, means[normal], 0.03);
        cr_assert_float_eq(sqrt(squares / MANY), deviations[normal], 0.03);
        free(values);
    }
}

Test(parts, random_integers_and_bools_are_rounded_down) {
    dhow_tensor *t;
    int64_t wide[1000], ones = 0;
    uint8_t bits[1000];
    OK(dhow_tensor_uniform(g_cpu, DHOW_I64, DHOW_SHAPE(10, 100), -2, 1, 1, &t));
    OK(dhow_tensor_read(t, wide, sizeof wide));
    for (int i = 0; i < 1000; i++) cr_assert(wide[i] >= -2 && wide[i] <= 0);
    dhow_tensor_release(t);
    OK(dhow_tensor_uniform(device_of("sim:0"), DHOW_BOOL, DHOW_SHAPE(1000), 0, 2, 1, &t));
    OK(dhow_tensor_read(t, bits, sizeof bits));
    for (int i = 0; i < 1000; i++) ones += bits[i];
    cr_assert(ones > 400 && ones < 600, "%d of 1000 are true", (int)ones);
    dhow_tensor_release(t);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_uniform(g_cpu, DHOW_F32, DHOW_SHAPE(2), 1, 0, 1, &t));
    cr_assert_null(t);
}
