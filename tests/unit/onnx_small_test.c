/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of ONNX that are smaller than a byte or floats of one: held as bytes, converted as the
 * standard says, refused where somebody would compute with their codes.
 */
#include <math.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(onnx_small, .init = set_up, .fini = tear_down, .timeout = 60);

enum { FLOAT = 1, E4M3FN = 17, E4M3FNUZ, E5M2, E5M2FNUZ, UINT4, INT4, F4E2M1, E8M0, UINT2, INT2 };

/* A value of a graph with one extent, open where it is -1. */
static bytes typed(const char *name, int type, int64_t extent) {
    bytes v = {0}, kind = {0}, tensor = {0}, extents = {0}, dim = {0};
    if (extent >= 0) put_number(&dim, 1, (uint64_t)extent);
    if (extent < 0) put_text(&dim, 2, "n");
    put_message(&extents, 1, &dim);
    put_number(&tensor, 1, (uint64_t)type);
    put_message(&tensor, 2, &extents);
    put_message(&kind, 1, &tensor);
    put_text(&v, 1, name);
    put_message(&v, 2, &kind);
    return v;
}

static void put_value(bytes *g, uint32_t field, const char *name, int type, int64_t extent) {
    bytes v = typed(name, type, extent);
    put_message(g, field, &v);
}

/* An initializer of raw data; columns 0: of rank 1. */
static void put_constant(bytes *g, const char *name, int type, int64_t rows, int64_t columns,
                         const void *data, size_t length) {
    bytes t = {0};
    put_number(&t, 1, (uint64_t)rows);
    if (columns > 0) put_number(&t, 1, (uint64_t)columns);
    put_number(&t, 2, (uint64_t)type);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, length);
    put_raw(&t, data, length);
    put_message(g, GRAPH_INITIALIZER, &t);
}

static void put_cast(bytes *g, const char *in, const char *out, int type, int saturate) {
    bytes n = node_of("Cast", "n", in, out);
    add_int(&n, "to", type);
    if (saturate >= 0) add_int(&n, "saturate", saturate);
    put_message(g, GRAPH_NODE, &n);
}

/* A model points into its file. */
static bytes g_file;
static dhow_model *load(bytes *g) {
    dhow_model *model = NULL;
    g_file = model_of(25, g);
    OK(load_bytes(&g_file, &model));
    return model;
}
static void end(dhow_model *model) {
    dhow_model_release(model);
    bytes_free(&g_file);
}

/* Runs with one input, or none, and one output, whose bytes are copied. */
static void run(dhow_model *model, dhow_dtype dtype, int64_t count, const void *in, void *to,
                size_t bytes_wanted) {
    dhow_tensor *x = NULL, *y = NULL;
    void *data;
    if (in != NULL) OK(dhow_tensor_from_data(g_cpu, dtype, 1, &count, in, &x));
    OK(dhow_model_run(model, NULL, &x, in != NULL, &y, 1));
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_get_info(y, &info));
    cr_assert_eq((size_t)info.count * dhow_dtype_bytes(info.dtype), bytes_wanted);
    OK(dhow_tensor_host_ptr(y, &data));
    memcpy(to, data, bytes_wanted);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

/* ---- floats ---- */

/* The formats by their definitions, written apart from the library's. */
static const struct {
    int type, bits, mantissa, bias, greatest;
} k_formats[] = {{E4M3FN, 8, 3, 7, 0x7e},
                 {E4M3FNUZ, 8, 3, 8, 0x7f},
                 {E5M2, 8, 2, 15, 0x7b},
                 {E5M2FNUZ, 8, 2, 16, 0x7f},
                 {F4E2M1, 4, 1, 1, 7}};
enum { FORMATS = sizeof k_formats / sizeof k_formats[0], MOST = 2000 };

static double size_of(int f, int code) {
    const double fraction =
        (double)(code % (1 << k_formats[f].mantissa)) / (1 << k_formats[f].mantissa);
    const int exponent = code >> k_formats[f].mantissa;
    return exponent == 0 ? fraction * exp2(1 - k_formats[f].bias)
                         : (1 + fraction) * exp2(exponent - k_formats[f].bias);
}

/* The nearest of all codes and the one after them, the even one of two. */
static int nearest(int f, double size) {
    int best = 0;
    for (int code = 1; code <= k_formats[f].greatest + 1; code++) {
        const double now = fabs(size_of(f, code) - size), least = fabs(size_of(f, best) - size);
        if (now < least || (now == least && code % 2 == 0)) best = code;
    }
    return best;
}

static bool is_unsigned_zero(int type) { return type == E4M3FNUZ || type == E5M2FNUZ; }

static bool is_nan_code(int type, int code) {
    if (is_unsigned_zero(type)) return code == 0x80;
    return type == E4M3FN ? (code & 0x7f) == 0x7f : type == E5M2 && (code & 0x7f) > 0x7c;
}

/* What a float becomes; -1 for NaN. */
static int expected(int f, float x, bool saturates) {
    const int type = k_formats[f].type, sign = signbit(x) ? 1 << (k_formats[f].bits - 1) : 0;
    if (isnan(x)) return type == F4E2M1 ? 8 : -1;
    const bool clipped = saturates || type == F4E2M1;
    const bool far = fabs((double)x) > 1e6; /* beyond all of them */
    int size = far ? k_formats[f].greatest + 1 : nearest(f, fabs((double)x));
    if (size > k_formats[f].greatest) {
        if (!clipped) return type == E5M2 ? 0x7c | sign : -1;
        size = k_formats[f].greatest;
    }
    return size == 0 && is_unsigned_zero(type) ? 0 : size | sign;
}

/* All numbers of a format, the middles between them and what is beside those. */
static int numbers(int f, float *x) {
    int n = 0;
    for (int code = 0; code <= k_formats[f].greatest; code++) {
        const float a = (float)size_of(f, code), m = (a + (float)size_of(f, code + 1)) / 2;
        const float some[] = {a, m, nextafterf(m, 0), nextafterf(m, INFINITY)};
        for (int i = 0; i < 4; i++) x[n++] = some[i];
    }
    const float others[] = {INFINITY, 3e38f, 1e-45f, NAN};
    for (int i = 0; i < 4; i++) x[n++] = others[i];
    for (int i = 0; i < n; i++) x[n + i] = -x[i];
    return 2 * n;
}

Test(onnx_small, floats_become_the_nearest_code_and_of_two_the_even_one) {
    float x[MOST];
    uint8_t y[MOST];
    for (int k = 0; k < 2 * FORMATS; k++) {
        const int f = k / 2, count = numbers(f, x);
        bytes g = {0};
        cr_assert_leq(count, MOST);
        put_value(&g, GRAPH_INPUT, "x", FLOAT, -1);
        put_cast(&g, "x", "y", k_formats[f].type, k % 2);
        put_value(&g, GRAPH_OUTPUT, "y", k_formats[f].type, -1);
        dhow_model *model = load(&g);
        run(model, DHOW_F32, count, x, y, (size_t)count);
        for (int i = 0; i < count; i++) {
            const int want = expected(f, x[i], k % 2 != 0);
            const bool same = want < 0 ? is_nan_code(k_formats[f].type, y[i]) : want == y[i];
            cr_expect(same, "type %d, saturate %d: %a is %02x, not %02x", k_formats[f].type, k % 2,
                      (double)x[i], y[i], (unsigned)want);
        }
        end(model);
    }
}

Test(onnx_small, codes_become_the_numbers_that_they_mean) {
    uint8_t x[256];
    float y[256];
    for (int i = 0; i < 256; i++) x[i] = (uint8_t)i;
    for (int f = 0; f < FORMATS; f++) {
        const int count = 1 << k_formats[f].bits, type = k_formats[f].type;
        bytes g = {0};
        put_value(&g, GRAPH_INPUT, "x", type, -1);
        put_cast(&g, "x", "y", FLOAT, -1);
        put_value(&g, GRAPH_OUTPUT, "y", FLOAT, -1);
        dhow_model *model = load(&g);
        run(model, DHOW_U8, count, x, y, (size_t)count * sizeof *y);
        for (int i = 0; i < count; i++) {
            const int size = i % (count / 2);
            double want = size_of(f, size) * (i < count / 2 ? 1 : -1);
            if (type == E5M2 && size == 0x7c) want = i < count / 2 ? INFINITY : -INFINITY;
            const bool same = is_nan_code(type, i) ? isnan(y[i]) != 0 : (double)y[i] == want;
            cr_expect(same, "type %d: %02x is %g, not %g", type, (unsigned)i, (double)y[i], want);
        }
        end(model);
    }
}

Test(onnx_small, scales_of_eight_exponent_bits_are_rounded_as_asked_for) {
    static const float x[] = {0, 1, 1.25f, 1.5f, 1.75f, 3e38f, INFINITY, NAN, -1, 0x1p-127f};
    enum { COUNT = sizeof x / sizeof x[0] };
    static const struct {
        const char *mode;
        int saturate;
        uint8_t want[COUNT];
    } cases[] = {{"up", 1, {0, 127, 128, 128, 128, 254, 254, 255, 255, 0}},
                 {"down", 1, {0, 127, 127, 127, 127, 254, 254, 255, 255, 0}},
                 {"nearest", 1, {0, 127, 127, 128, 128, 254, 254, 255, 255, 0}},
                 {"nearest", 0, {255, 127, 127, 128, 128, 255, 255, 255, 255, 0}}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        uint8_t y[COUNT];
        bytes g = {0}, n = node_of("Cast", "n", "x", "y");
        add_int(&n, "to", E8M0);
        add_text(&n, "round_mode", cases[k].mode);
        add_int(&n, "saturate", cases[k].saturate);
        put_value(&g, GRAPH_INPUT, "x", FLOAT, -1);
        put_message(&g, GRAPH_NODE, &n);
        put_value(&g, GRAPH_OUTPUT, "y", E8M0, -1);
        dhow_model *model = load(&g);
        run(model, DHOW_F32, COUNT, x, y, sizeof y);
        for (int i = 0; i < COUNT; i++)
            cr_expect_eq(y[i], cases[k].want[i], "%s %d: %g is %u, not %u", cases[k].mode,
                         cases[k].saturate, (double)x[i], y[i], cases[k].want[i]);
        end(model);
    }
}

/* ---- integers ---- */

/* Elements lie in bytes, the first one lowest; the last byte is not full. */
Test(onnx_small, packed_integers_are_unpacked_with_their_sign) {
    static const uint8_t fours[] = {0x78, 0x0f}, twos[] = {0xb1, 0x02};
    static const struct {
        int type;
        const uint8_t *data;
        int64_t count;
        float want[5];
    } cases[] = {{INT4, fours, 3, {-8, 7, -1}},
                 {UINT4, fours, 3, {8, 7, 15}},
                 {INT2, twos, 5, {1, 0, -1, -2, -2}},
                 {UINT2, twos, 5, {1, 0, 3, 2, 2}}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        static const float scale = 0.5f;
        float y[5];
        bytes g = {0}, n = node_of("DequantizeLinear", "n", "w s", "y");
        put_constant(&g, "w", cases[k].type, cases[k].count, 0, cases[k].data, 2);
        put_constant(&g, "s", FLOAT, 1, 0, &scale, sizeof scale);
        put_message(&g, GRAPH_NODE, &n);
        put_value(&g, GRAPH_OUTPUT, "y", FLOAT, -1);
        dhow_model *model = load(&g);
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(model, 0, &info));
        cr_expect_not_null(info.encoding);
        run(model, 0, 0, NULL, y, (size_t)cases[k].count * sizeof *y);
        for (int64_t i = 0; i < cases[k].count; i++)
            cr_expect_eq(y[i], cases[k].want[i] / 2, "type %d: %g", cases[k].type, (double)y[i]);
        end(model);
    }
}

Test(onnx_small, data_of_another_length_than_the_shape_are_refused) {
    static const uint8_t data[3] = {0};
    for (size_t length = 1; length <= 3; length += 2) {
        dhow_model *model = NULL;
        dhow_tensor *y = NULL;
        bytes g = {0};
        put_constant(&g, "w", INT4, 3, 0, data, length);
        put_cast(&g, "w", "y", FLOAT, -1);
        put_value(&g, GRAPH_OUTPUT, "y", FLOAT, -1);
        bytes file = model_of(25, &g);
        dhow_status status = load_bytes(&file, &model);
        if (status == DHOW_OK) status = dhow_model_run(model, NULL, NULL, 0, &y, 1);
        cr_expect_eq(status, DHOW_CORRUPT, "%zu bytes: %s", length, dhow_last_error());
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* ---- what they are in graphs ---- */

Test(onnx_small, inputs_tell_their_small_type) {
    bytes g = {0};
    put_value(&g, GRAPH_INPUT, "x", INT4, 3);
    put_value(&g, GRAPH_INPUT, "plain", FLOAT, 3);
    put_cast(&g, "x", "y", E5M2, -1);
    put_value(&g, GRAPH_OUTPUT, "y", E5M2, 3);
    dhow_model *model = load(&g);
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    OK(dhow_model_input_at(model, 0, &info));
    cr_expect_str_eq(info.encoding, "int4");
    cr_expect_eq(info.dtype, DHOW_I8);
    OK(dhow_model_input_at(model, 1, &info));
    cr_expect_null(info.encoding);
    OK(dhow_model_output_at(model, 0, &info));
    cr_expect_str_eq(info.encoding, "float8e5m2");
    end(model);
}

/* The second plan finds the transposed constant among what the first one left. */
Test(onnx_small, views_and_kept_constants_stay_of_their_type) {
    static const uint8_t codes[6] = {0};
    static const float x[] = {0.3f, 1000, -2};
    float y[3];
    bytes g = {0}, turn = node_of("Transpose", "n", "w", "t"),
          like = node_of("CastLike", "n", "x t", "c");
    put_value(&g, GRAPH_INPUT, "x", FLOAT, -1);
    put_constant(&g, "w", E4M3FN, 2, 3, codes, sizeof codes);
    put_message(&g, GRAPH_NODE, &turn);
    put_message(&g, GRAPH_NODE, &like);
    put_cast(&g, "c", "y", FLOAT, -1);
    put_value(&g, GRAPH_OUTPUT, "y", FLOAT, -1);
    dhow_model *model = load(&g);
    for (int64_t count = 1; count <= 3; count++) {
        run(model, DHOW_F32, count, x, y, (size_t)count * sizeof *y);
        cr_expect_eq(y[0], 0.3125f, "%g", (double)y[0]);
        if (count == 3) cr_expect(y[1] == 448 && y[2] == -2, "%g %g", (double)y[1], (double)y[2]);
    }
    end(model);
}

Test(onnx_small, computing_with_codes_is_refused_by_the_name_of_the_type) {
    dhow_tensor *x, *y = NULL;
    const int64_t count = 2;
    const uint8_t codes[] = {1, 2};
    bytes g = {0}, n = node_of("Relu", "n", "x", "y");
    put_value(&g, GRAPH_INPUT, "x", E4M3FN, 2);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", E4M3FN, 2);
    bytes file = model_of(25, &g);
    dhow_model *model = NULL;
    OK(dhow_tensor_from_data(g_cpu, DHOW_U8, 1, &count, codes, &x));
    dhow_status status = load_bytes(&file, &model);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, &x, 1, &y, 1);
    cr_expect_eq(status, DHOW_UNSUPPORTED);
    cr_expect_not_null(strstr(dhow_last_error(), "float8e4m3fn"), "%s", dhow_last_error());
    dhow_tensor_release(x);
    dhow_model_release(model);
    bytes_free(&file);
}
