/* SPDX-License-Identifier: Apache-2.0
 *
 * What `dhow-run --compare` and the list of results say of values that no order holds.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static char g_said[256];

bool run_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(g_said, sizeof g_said, format, list);
    va_end(list);
    return false;
}
bool run_fail_last(void) { return run_fail("%s", dhow_last_error()); }
bool run_fail_prefix(const char *what, const char *name) {
    (void)what, (void)name;
    return false;
}

static dhow_context *g_context;
static dhow_device *g_cpu;

static void set_up(void) {
    OK(dhow_context_create(&DHOW_INIT(dhow_context_options, .backends = "cpu"), &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(difference, .init = set_up, .fini = tear_down, .timeout = 60);

static dhow_datum *tensor_of(int64_t rows, int64_t columns, const float *values) {
    dhow_tensor *t;
    dhow_datum *out;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(rows, columns), values, &t));
    OK(dhow_datum_of_tensor(t, &out));
    dhow_tensor_release(t);
    return out;
}

/* What the object says of `key`, as words. */
static const char *said(const json_t *object, const char *key) {
    static char words[4][32];
    static int next;
    const json_t *value = json_object_get(object, key);
    char *out = words[next++ % 4];
    if (json_is_string(value)) {
        (void)snprintf(out, sizeof words[0], "%s", json_string_value(value));
    } else {
        (void)snprintf(out, sizeof words[0], "%g", json_number_value(value));
    }
    return out;
}

static void expect_difference(const float a[3], const float b[3], const char *absolute,
                              const char *relative) {
    dhow_datum *x = tensor_of(1, 3, a), *y = tensor_of(1, 3, b);
    json_t *to = json_object();
    cr_assert(run_difference(g_cpu, x, y, to), "%s", g_said);
    cr_assert_str_eq(said(to, "largest_absolute"), absolute);
    cr_assert_str_eq(said(to, "largest_relative"), relative);
    json_decref(to);
    dhow_datum_release(x);
    dhow_datum_release(y);
}

Test(difference, nan_is_the_largest_and_is_not_forgotten) {
    expect_difference((float[]){1, 2, 4}, (float[]){NAN, 2, 4.5f}, "nan", "nan");
    expect_difference((float[]){1, 2, 4}, (float[]){1.5f, 2, NAN}, "nan", "nan");
    expect_difference((float[]){NAN, 2, 4}, (float[]){NAN, 2, 5}, "1", "0.2");
    expect_difference((float[]){1, INFINITY, 4}, (float[]){1, 2, 5}, "inf", "inf");
    expect_difference((float[]){1, -INFINITY, 4}, (float[]){1, -INFINITY, 4}, "0", "0");
}

Test(difference, results_of_other_shapes_are_refused_whatever_their_count) {
    const float values[6] = {0};
    dhow_datum *x = tensor_of(2, 3, values), *y = tensor_of(3, 2, values);
    json_t *to = json_object();
    cr_assert_not(run_difference(g_cpu, x, y, to));
    cr_assert_str_eq(g_said, "the results have different shapes");
    json_decref(to);
    dhow_datum_release(x);
    dhow_datum_release(y);
}

Test(difference, values_tell_nan_and_the_sign_of_infinities) {
    dhow_datum *x = tensor_of(1, 3, (float[]){1, -INFINITY, 3}),
               *y = tensor_of(1, 3, (float[]){1, NAN, 3});
    json_t *to = json_object();
    cr_assert(run_describe(g_cpu, x, to), "%s", g_said);
    cr_assert_str_eq(said(to, "min"), "-inf");
    cr_assert_str_eq(said(to, "max"), "3");
    cr_assert(run_describe(g_cpu, y, to), "%s", g_said);
    cr_assert_str_eq(said(to, "min"), "nan");
    cr_assert_str_eq(said(to, "max"), "nan");
    json_decref(to);
    dhow_datum_release(x);
    dhow_datum_release(y);
}

Test(difference, texts_that_differ_are_counted) {
    const char *const one[] = {"a", "b", ""}, *const other[] = {"a", "c", "d"};
    dhow_datum *x, *y, *z;
    json_t *to = json_object();
    OK(dhow_datum_of_texts(DHOW_SHAPE(3), one, &x));
    OK(dhow_datum_of_texts(DHOW_SHAPE(3), other, &y));
    OK(dhow_datum_of_texts(DHOW_SHAPE(2), other, &z));
    cr_assert(run_difference(g_cpu, x, y, to), "%s", g_said);
    cr_assert_str_eq(said(to, "different_texts"), "2");
    cr_assert_not(run_difference(g_cpu, x, z, to));
    cr_assert_str_eq(g_said, "the results have different shapes");
    json_decref(to);
    dhow_datum_release(x);
    dhow_datum_release(y);
    dhow_datum_release(z);
}
