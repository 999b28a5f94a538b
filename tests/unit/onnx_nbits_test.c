/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMulNBits: what does not fit is refused by the node's name before memory is taken, and weights
 * stay packed.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(onnx_bad_files_nbits, .init = set_up, .fini = tear_down, .timeout = 60);

enum { FLOAT = 1, BYTE = 2, INT32 = 6 };

typedef struct constant {
    int64_t type, count; /* 0: it is not given */
} constant;

/* A product of a[rows][k] by weights whose parts have so many elements. */
typedef struct product {
    int64_t rows, k, n, bits, block, prepacked, accuracy;
    constant b, scales, zeros, groups, bias;
} product;

/* Of one byte value: codes of 1 and 1, or floats and integers that it means. */
static void put_constant(bytes *g, const char *name, constant c) {
    bytes t = {0};
    const size_t each = c.type == BYTE ? 1 : 4, length = each * (size_t)c.count;
    char *data = calloc(length + 1, 1);
    cr_assert_not_null(data);
    memset(data, c.type == BYTE ? 0x11 : 0, length);
    const float half = 0.5f;
    for (size_t i = 0; c.type == FLOAT && i < (size_t)c.count; i++)
        memcpy(data + 4 * i, &half, sizeof half);
    put_number(&t, 1, (uint64_t)c.count);
    put_number(&t, 2, (uint64_t)c.type);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, length);
    put_raw(&t, data, length);
    put_message(g, GRAPH_INITIALIZER, &t);
    free(data);
}

static bytes file_of(const product *p) {
    const struct {
        const char *name;
        constant c;
    } parts[] = {{"b", p->b}, {"s", p->scales}, {"z", p->zeros}, {"g", p->groups}, {"c", p->bias}};
    const int64_t a[] = {p->rows, p->k}, any[] = {-1, -1};
    char inputs[32] = "a";
    bytes g = {0}, x = value_of("a", 2, a), y = value_of("y", 2, any);
    put_message(&g, GRAPH_INPUT, &x);
    put_message(&g, GRAPH_OUTPUT, &y);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)strcat(inputs, " ");
        if (parts[i].c.count == 0) continue;
        (void)strcat(inputs, parts[i].name);
        put_constant(&g, parts[i].name, parts[i].c);
    }
    for (size_t last = strlen(inputs) - 1; inputs[last] == ' '; last--) inputs[last] = 0;
    bytes n = node_of("MatMulNBits", "n", inputs, "y");
    put_text(&n, 7, "com.microsoft");
    add_int(&n, "K", p->k == 7 ? INT64_MAX : p->k);
    add_int(&n, "N", p->n);
    add_int(&n, "bits", p->bits);
    add_int(&n, "block_size", p->block);
    if (p->accuracy != 0) add_int(&n, "accuracy_level", p->accuracy);
    if (p->prepacked != 0) add_int(&n, "weight_prepacked", p->prepacked);
    put_message(&g, GRAPH_NODE, &n);
    return model_of(17, &g);
}

/* a is filled with 1. */
static dhow_status run(const product *p, uint64_t limit, dhow_tensor **out) {
    const int64_t shape[] = {p->rows, p->k};
    bytes file = file_of(p);
    dhow_model *model = NULL;
    dhow_tensor *a;
    *out = NULL;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 2, shape, 1, &a));
    dhow_status status = load_bytes(&file, &model);
    if (status == DHOW_OK && limit > 0) status = dhow_model_set_memory_limit(model, limit);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, &a, 1, out, 1);
    dhow_tensor_release(a);
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

static const product k_fits = {.rows = 1,
                               .k = 64,
                               .n = 4,
                               .bits = 4,
                               .block = 32,
                               .b = {BYTE, 128},
                               .scales = {FLOAT, 8},
                               .zeros = {BYTE, 0},
                               .groups = {INT32, 0},
                               .bias = {FLOAT, 0}};
#define FIELD(name) offsetof(product, name)

Test(onnx_bad_files_nbits, weights_that_do_not_fit_are_refused_by_their_names) {
    static const struct {
        size_t field;
        int64_t value;
        const char *why;
    } cases[] = {
        {FIELD(n), 0, "N is 0 and K is 64"},
        {FIELD(n), INT64_MAX, "N is 9223372036854775807"},
        {FIELD(k), 7, "K is 9223372036854775807: both must be from 1 to 2147483647"},
        {FIELD(k), 65, "B is u8[128]: N = 4 columns of K = 65 in blocks of 32 want 48"},
        {FIELD(n), INT32_MAX, "B is u8[128]: N = 2147483647 columns of K = 64"},
        {FIELD(bits), 2, "unsupported bits 2: dhow has 4 and 8"},
        {FIELD(bits), INT64_MIN, "unsupported bits"},
        {FIELD(bits), 8, "want 64 elements for each column"},
        {FIELD(block), 8, "block_size is 8: it must be a power of two from 16 to 2048"},
        {FIELD(block), 48, "block_size is 48"},
        {FIELD(block), INT64_C(1) << 62, "block_size is 4611686018427387904"},
        {FIELD(block), -32, "block_size is -32"},
        {FIELD(prepacked), 1, "weight_prepacked: export the model without"},
        {FIELD(b.type), FLOAT, "B is f32, packed weights are u8"},
        {FIELD(b.count), 127, "B is u8[127]"},
        {FIELD(scales.count), 9, "scales is f32[9]"},
        {FIELD(scales.type), BYTE, "scales is u8"},
        {FIELD(zeros.count), 8, "zero_points is u8[8]"},
        {FIELD(groups.count), 64, "unsupported g_idx, which puts K in another order"},
        {FIELD(groups.count), 8, "export the model without reordering"},
        {FIELD(bias.count), 3, "bias is f32[3] for N = 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        product p = k_fits;
        dhow_tensor *out;
        memcpy((char *)&p + cases[i].field, &cases[i].value, sizeof cases[i].value);
        const dhow_status status = run(&p, 0, &out);
        cr_expect(status == DHOW_INVALID_ARGUMENT || status == DHOW_UNSUPPORTED, "%s: %s: %s",
                  cases[i].why, dhow_status_name(status), dhow_last_error());
        cr_expect_not_null(strstr(dhow_last_error(), "(node 'n'"), "%s", dhow_last_error());
        cr_expect_not_null(strstr(dhow_last_error(), cases[i].why), "'%s' is no part of '%s'",
                           cases[i].why, dhow_last_error());
        dhow_tensor_release(out);
    }
}

/* Codes of 1 and zero points of 8, at scales of 1/2: each weight is -3.5. */
static void expect_all(dhow_tensor *y, int64_t rows, int64_t n, float want) {
    const size_t length = (size_t)(rows * n) * sizeof(float);
    float *values = malloc(length);
    cr_assert_not_null(values);
    OK(dhow_tensor_read(y, values, length));
    for (int64_t i = 0; i < rows * n; i++)
        cr_expect(fabsf(values[i] - want) < 1e-3f * fabsf(want), "%g", (double)values[i]);
    free(values);
    dhow_tensor_release(y);
}

/* 2^20 weights take half a MiB and would take four as floats; those are there for very many rows,
 * and count before they are. */
Test(onnx_bad_files_nbits, weights_stay_packed_but_for_very_many_rows) {
    product p = k_fits;
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *y;
    p.k = p.n = 1024;
    p.b.count = 1 << 19;
    p.scales.count = 1 << 15;
    OK(dhow_memory_reset_peaks(g_cpu));
    OK(run(&p, 0, &y));
    OK(dhow_memory_get_stats(g_cpu, &stats));
    cr_expect_lt(stats.live_peak, UINT64_C(2) << 20, "%llu bytes",
                 (unsigned long long)stats.live_peak);
    expect_all(y, 1, p.n, -3.5f * 1024);
    p.rows = 40;
    OK(run(&p, 1 << 20, &y));
    expect_all(y, p.rows, p.n, -3.5f * 1024);
    p.rows = 300;
    OK(run(&p, 0, &y));
    expect_all(y, p.rows, p.n, -3.5f * 1024);
    cr_expect_eq(run(&p, 4 << 20, &y), DHOW_UNSUPPORTED);
    cr_expect_not_null(strstr(dhow_last_error(), "dhow_model_set_memory_limit()"), "%s",
                       dhow_last_error());
}

/* a is the only one that is not 1 of its block, and too small for a byte beside it. */
static float sum_beside_a_large_one(int64_t accuracy, float large) {
    product p = k_fits;
    const int64_t shape[] = {1, 256};
    float values[256] = {0}, y[4];
    dhow_model *model;
    dhow_tensor *a, *out = NULL;
    p.k = 256;
    p.b.count = 512;
    p.scales.count = 32;
    p.accuracy = accuracy;
    bytes file = file_of(&p);
    values[0] = large;
    values[1] = 1;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, shape, values, &a));
    OK(load_bytes(&file, &model));
    OK(dhow_model_run(model, NULL, &a, 1, &out, 1));
    OK(dhow_tensor_read(out, y, sizeof y));
    dhow_tensor_release(out);
    dhow_tensor_release(a);
    dhow_model_release(model);
    bytes_free(&file);
    return y[0];
}

/* Codes are 1 and stand for 0.5 (1 - 8). */
Test(onnx_bad_files_nbits, rows_are_bytes_only_where_the_model_allows_it) {
    cr_assert_float_eq(sum_beside_a_large_one(0, 1000), -3503.5F, 1e-2);
    const float rounded = sum_beside_a_large_one(4, 1000);
    cr_assert(rounded == -3500 || fabsf(rounded + 3503.5F) < 1e-2F, "%g", (double)rounded);
    cr_assert(isnan(sum_beside_a_large_one(4, NAN)));
    cr_assert(!isfinite(sum_beside_a_large_one(4, INFINITY)));
}
