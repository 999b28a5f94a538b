/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised images. A result is round((sum + bias) scale) + zero point, where the
 * sum of integers is exact and padding stands for the zero point of x: the same numbers as by the
 * definition, but where the scaled sum is so near to a half that the last bit of f32 decides.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/optimise.h"
#include "onnx_fixture.h"

TestSuite(onnx_quantised, .init = set_up, .fini = tear_down, .timeout = 60);

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6, C = 5, H = 7, W = 6, K = 18, EXTENT = 3, X = C * H * W };

static void put_constant(bytes *g, const char *name, int64_t type, int64_t count, const void *data,
                         size_t bytes_each, uint32_t rank, const int64_t *shape) {
    bytes t = {0};
    for (uint32_t i = 0; i < rank; i++) put_number(&t, 1, (uint64_t)shape[i]);
    put_number(&t, 2, (uint64_t)type);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, (uint64_t)count * bytes_each);
    put_raw(&t, data, (size_t)count * bytes_each);
    put_message(g, GRAPH_INITIALIZER, &t);
}

static void put_scale(bytes *g, const char *name, float value) {
    put_constant(g, name, F32, 1, &value, sizeof value, 0, NULL);
}

static void put_zero(bytes *g, const char *name, int64_t type, int value) {
    const unsigned char byte = (unsigned char)value;
    put_constant(g, name, type, 1, &byte, 1, 0, NULL);
}

/* The numbers of a case: x is padded on each side but the right one. */
typedef struct numbers {
    int64_t type;
    unsigned char x[X];
    int8_t w[K * C * EXTENT * EXTENT];
    int32_t bias[K];
    float x_scale, w_scale[K], y_scale;
    int x_zero, y_zero;
} numbers;

enum { OH = H, OW = W - 1, Y = K * OH * OW };

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

/* Of powers of two, halves are met often. */
static void draw_numbers(numbers *n, int64_t type, uint32_t seed, bool powers) {
    n->type = type;
    for (int i = 0; i < X; i++) n->x[i] = (unsigned char)draw(&seed);
    for (int i = 0; i < K * C * EXTENT * EXTENT; i++) n->w[i] = (int8_t)(draw(&seed) % 255 - 127);
    for (int i = 0; i < K; i++) {
        n->bias[i] = (int32_t)(draw(&seed) % 20001) - 10000;
        n->w_scale[i] = powers ? 0x1p-7f : 0.001f + (float)(draw(&seed) % 100) * 1e-4f;
    }
    n->x_scale = powers ? 0x1p-4f : 0.013f;
    n->y_scale = powers ? 1.0f : 0.37f;
    n->x_zero = type == U8 ? 131 : -9;
    n->y_zero = type == U8 ? 101 : 7; /* odd: rounding may not come behind it */
}

static int x_at(const numbers *n, int i) { return n->type == U8 ? n->x[i] : (int)(int8_t)n->x[i]; }

static int64_t sum_at(const numbers *n, int at) {
    const int k = at / (OH * OW), oy = at / OW % OH, ox = at % OW;
    int64_t sum = 0;
    for (int c = 0; c < C; c++) {
        for (int t = 0; t < EXTENT * EXTENT; t++) {
            const int y = oy - 1 + t / EXTENT, x = ox - 1 + t % EXTENT;
            if (y < 0 || y >= H || x < 0 || x >= W) continue;
            sum += (x_at(n, (c * H + y) * W + x) - n->x_zero) *
                   n->w[(k * C + c) * EXTENT * EXTENT + t];
        }
    }
    return sum;
}

static void put_operands(bytes *g, const numbers *n) {
    const int64_t w[] = {K, C, EXTENT, EXTENT}, k[] = {K};
    put_scale(g, "xs", n->x_scale);
    put_zero(g, "xz", n->type, n->x_zero);
    put_constant(g, "w", I8, K * C * EXTENT * EXTENT, n->w, 1, 4, w);
    put_constant(g, "ws", F32, K, n->w_scale, sizeof(float), 1, k);
    put_zero(g, "wz", I8, 0);
    put_scale(g, "ys", n->y_scale);
    put_zero(g, "yz", n->type, n->y_zero);
    put_constant(g, "bias", I32, K, n->bias, sizeof(int32_t), 1, k);
}

static void pad(bytes *node) {
    static const int64_t pads[] = {1, 1, 1, 0}, extents[] = {EXTENT, EXTENT};
    add_ints(node, "pads", 4, pads);
    add_ints(node, "kernel_shape", 2, extents);
}

static dhow_dtype dtype_of(const numbers *n) { return n->type == U8 ? DHOW_U8 : DHOW_I8; }

/* Runs a file with inputs "x" and perhaps "r", both images of codes, to "y"; keeps the model. */
static dhow_model *run(bytes *g, const numbers *n, const void *r, dhow_tensor **out) {
    const int64_t x_shape[] = {1, C, H, W}, y_shape[] = {1, K, OH, OW};
    dhow_tensor *in[2] = {NULL};
    dhow_model *model;
    bytes y = typed_value_of("y", F32, 4, y_shape), file;
    put_message(g, GRAPH_OUTPUT, &y);
    file = model_of(17, g);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, dtype_of(n), 4, x_shape, n->x, &in[0]));
    if (r != NULL) OK(dhow_tensor_from_data(g_cpu, dtype_of(n), 4, y_shape, r, &in[1]));
    OK(dhow_model_run(model, NULL, in, r != NULL ? 2 : 1, out, 1));
    dhow_tensor_release(in[0]);
    dhow_tensor_release(in[1]);
    bytes_free(&file);
    return model;
}

static void put_input(bytes *g, const char *name, const numbers *n, const int64_t *shape) {
    bytes v = typed_value_of(name, n->type, 4, shape);
    put_message(g, GRAPH_INPUT, &v);
}

static int code_at(const numbers *n, const void *codes, int i) {
    return n->type == U8 ? ((const unsigned char *)codes)[i] : ((const int8_t *)codes)[i];
}

/* Halves among powers of two are exact: nothing may be off there. */
static void check_codes(const numbers *n, const void *codes, bool powers, const char *what) {
    const double low = n->type == U8 ? 0 : -128, high = low + 255;
    for (int i = 0; i < Y; i++) {
        const int k = i / (OH * OW);
        const double v = (double)(sum_at(n, i) + n->bias[k]) * (double)n->x_scale *
                         (double)n->w_scale[k] / (double)n->y_scale;
        const double want = fmin(fmax(rint(v) + n->y_zero, low), high);
        const double off = fabs(code_at(n, codes, i) - want),
                     from_half = fabs(fabs(v - rint(v)) - 0.5);
        cr_assert(off == 0 || (!powers && off == 1 && from_half < 1e-4 * (1 + fabs(v))),
                  "%s: element %d is %d, not %g, of %.9g", what, i, code_at(n, codes, i), want, v);
    }
}

Test(onnx_quantised, a_convolution_has_the_codes_of_its_definition) {
    static const int64_t x_shape[] = {1, C, H, W};
    static numbers n;
    for (int i = 0; i < 8; i++) {
        char what[64];
        const bool powers = i % 2 != 0;
        dhow_tensor *out;
        void *codes;
        bytes g = {0};
        draw_numbers(&n, i & 2 ? I8 : U8, (uint32_t)i, powers);
        dhowi_optimisations =
            DHOWI_OPTIMISE_ALL & (i & 4 ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
        (void)snprintf(what, sizeof what, "case %d", i);
        bytes node = node_of("QLinearConv", "n", "x xs xz w ws wz ys yz bias", "y");
        pad(&node);
        put_input(&g, "x", &n, x_shape);
        put_operands(&g, &n);
        put_message(&g, GRAPH_NODE, &node);
        dhow_model *model = run(&g, &n, NULL, &out);
        OK(dhow_tensor_host_ptr(out, &codes));
        check_codes(&n, codes, powers, what);
        dhow_tensor_release(out);
        dhow_model_release(model);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

/* Q(Relu(DQ(Q(Conv(DQ(x)))) + DQ(r))) and DQ of it, as the tools write a residual block. */
static void put_block(bytes *g, const numbers *n) {
    static const char *const nodes[][4] = {{"DequantizeLinear", "x xs xz", "xf", ""},
                                           {"DequantizeLinear", "w ws wzs", "wf", "axis"},
                                           {"Conv", "xf wf", "c", "pads"},
                                           {"QuantizeLinear", "c ms yz", "cq", ""},
                                           {"DequantizeLinear", "cq ms yz", "cf", ""},
                                           {"DequantizeLinear", "r rs yz", "rf", ""},
                                           {"Add", "rf cf", "s", ""},
                                           {"Relu", "s", "t", ""},
                                           {"QuantizeLinear", "t ys yz", "q", ""},
                                           {"DequantizeLinear", "q ys yz", "y", ""}};
    static const int64_t x_shape[] = {1, C, H, W}, y_shape[] = {1, K, OH, OW}, k[] = {K};
    static const int8_t zeros[K];
    put_input(g, "x", n, x_shape);
    put_input(g, "r", n, y_shape);
    put_operands(g, n);
    put_constant(g, "wzs", I8, K, zeros, 1, 1, k);
    put_scale(g, "ms", 0.5f * n->y_scale);
    put_scale(g, "rs", 0.25f * n->y_scale);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        bytes node = node_of(nodes[i][0], nodes[i][2], nodes[i][1], nodes[i][2]);
        if (strcmp(nodes[i][3], "axis") == 0) add_int(&node, "axis", 0);
        if (strcmp(nodes[i][3], "pads") == 0) pad(&node);
        put_message(g, GRAPH_NODE, &node);
    }
}

static int count_steps(const dhow_model *model, const char *kernel) {
    dhow_model_summary s = DHOW_INIT(dhow_model_summary);
    int count = 0;
    OK(dhow_model_get_summary(model, &s));
    for (uint32_t i = 0; i < s.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(model, i, &step));
        count += strcmp(step.kernel, kernel) == 0;
    }
    return count;
}

Test(onnx_quantised, a_residual_block_is_the_end_of_its_convolution) {
    static numbers n;
    static unsigned char r[Y];
    float values[2][Y];
    uint32_t seed = 3;
    for (int i = 0; i < Y; i++) r[i] = (unsigned char)draw(&seed);
    draw_numbers(&n, U8, 5, true);
    for (int way = 0; way < 2; way++) {
        bytes g = {0};
        dhow_tensor *out;
        dhowi_optimisations = DHOWI_OPTIMISE_ALL & (way ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
        put_block(&g, &n);
        dhow_model *model = run(&g, &n, r, &out);
        OK(dhow_tensor_read(out, values[way], sizeof values[way]));
        const int integers = count_steps(model, "conv2d_integer");
        /* A processor without AVX2 convolves in f32. */
        if (integers > 0) cr_expect_eq(count_steps(model, "map_codes"), 0);
        cr_expect(way == 0 || integers == 0);
        dhow_tensor_release(out);
        dhow_model_release(model);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
    for (int i = 0; i < Y; i++)
        cr_assert_eq(values[0][i], values[1][i], "element %d is %g, not %g", i,
                     (double)values[0][i], (double)values[1][i]);
}

/* ---- chains ---- */

/* Q(x DQ(Q(Sigmoid(x)))) of x = DQ(codes), as the tools write SiLU, of all 256 codes several times;
 * also where something else reads the sigmoid's codes. */
enum { CODES = 5 * 256 };

static void put_silu(bytes *g, const numbers *n, bool read_again) {
    static const char *const nodes[][3] = {{"DequantizeLinear", "x xs xz", "f"},
                                           {"Sigmoid", "f", "s"},
                                           {"QuantizeLinear", "s ws wz", "sq"},
                                           {"DequantizeLinear", "sq ws wz", "sf"},
                                           {"Mul", "f sf", "p"},
                                           {"QuantizeLinear", "p ys yz", "y"}};
    static const int64_t shape[] = {5, 256};
    bytes x = typed_value_of("x", n->type, 2, shape), y = typed_value_of("y", n->type, 2, shape);
    put_message(g, GRAPH_INPUT, &x);
    put_message(g, GRAPH_OUTPUT, &y);
    if (read_again) {
        bytes also = typed_value_of("sq", n->type, 2, shape);
        put_message(g, GRAPH_OUTPUT, &also);
    }
    put_scale(g, "xs", n->x_scale);
    put_zero(g, "xz", n->type, n->x_zero);
    put_scale(g, "ws", n->w_scale[0]);
    put_zero(g, "wz", n->type, n->y_zero);
    put_scale(g, "ys", n->y_scale);
    put_zero(g, "yz", n->type, n->y_zero);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        bytes node = node_of(nodes[i][0], nodes[i][2], nodes[i][1], nodes[i][2]);
        put_message(g, GRAPH_NODE, &node);
    }
}

/* A code, which is another one where the number is this near to a half. */
static void check_code(const numbers *n, int got, double number, double scale, const char *what) {
    const double low = n->type == U8 ? 0 : -128, v = number / scale,
                 want = fmin(fmax(rint(v) + n->y_zero, low), low + 255);
    cr_assert(got == want || fabs(fabs(v - rint(v)) - 0.5) < 1e-4, "%s of %g is %d, not %g", what,
              number, got, want);
}

static void check_silu(const numbers *n, bool read_again) {
    static const int64_t shape[] = {5, 256};
    unsigned char codes[CODES];
    bytes g = {0};
    dhow_tensor *x, *out[2] = {NULL};
    dhow_model *model;
    void *y, *s = NULL;
    for (int i = 0; i < CODES; i++) codes[i] = (unsigned char)(i * 7);
    put_silu(&g, n, read_again);
    bytes file = model_of(17, &g);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, dtype_of(n), 2, shape, codes, &x));
    OK(dhow_model_run(model, NULL, &x, 1, out, read_again ? 2 : 1));
    OK(dhow_tensor_host_ptr(out[0], &y));
    if (read_again) OK(dhow_tensor_host_ptr(out[1], &s));
    for (int i = 0; i < CODES; i++) {
        const double f = (code_at(n, codes, i) - n->x_zero) * (double)n->x_scale,
                     scale = (double)n->w_scale[0], sigmoid = 1 / (1 + exp(-f)),
                     low = (n->type == U8 ? 0 : -128) - n->y_zero,
                     held = fmin(fmax(rint(sigmoid / scale), low), low + 255);
        if (read_again) check_code(n, code_at(n, s, i), sigmoid, scale, "a sigmoid");
        check_code(n, code_at(n, y, i), f * held * scale, (double)n->y_scale, "a product");
    }
    if (dhowi_optimisations & DHOWI_OPTIMISE_INTEGERS)
        cr_assert_eq(count_steps(model, "map_codes"), read_again ? 2 : 1);
    dhow_tensor_release(x);
    dhow_tensor_release(out[0]);
    dhow_tensor_release(out[1]);
    dhow_model_release(model);
    bytes_free(&file);
}

Test(onnx_quantised, what_is_made_of_the_same_codes_is_one_step) {
    static numbers n;
    for (int i = 0; i < 8; i++) {
        draw_numbers(&n, i & 1 ? I8 : U8, (uint32_t)i, false);
        n.w_scale[0] = 0.0041f;
        dhowi_optimisations =
            DHOWI_OPTIMISE_ALL & (i & 4 ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
        check_silu(&n, (i & 2) != 0);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

/* ---- pairs ---- */

/* All pairs of codes, and three more, that no vector holds. */
enum { PAIRS = 256 * 256 + 3 };

typedef struct extents {
    uint32_t rank;
    int64_t shape[4];
} extents;

/* `operands` is "f s", of a and b, or "s f". */
static void put_pair(bytes *g, const numbers *n, int64_t other, const char *op,
                     const char *operands, const extents *of_a, const extents *of_b) {
    static const char *const nodes[][3] = {{"DequantizeLinear", "a xs xz", "f"},
                                           {"DequantizeLinear", "b ws wz", "s"},
                                           {NULL, NULL, "p"},
                                           {"QuantizeLinear", "p ys yz", "y"}};
    bytes a = typed_value_of("a", n->type, of_a->rank, of_a->shape),
          b = typed_value_of("b", other, of_b->rank, of_b->shape),
          y = typed_value_of("y", n->type, of_a->rank, of_a->shape);
    put_message(g, GRAPH_INPUT, &a);
    put_message(g, GRAPH_INPUT, &b);
    put_message(g, GRAPH_OUTPUT, &y);
    put_scale(g, "xs", n->x_scale);
    put_zero(g, "xz", n->type, n->x_zero);
    put_scale(g, "ws", n->w_scale[0]);
    put_zero(g, "wz", other, 21);
    put_scale(g, "ys", n->y_scale);
    put_zero(g, "yz", n->type, n->y_zero);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        const char *kind = nodes[i][0] != NULL ? nodes[i][0] : op;
        const char *in = nodes[i][1] != NULL ? nodes[i][1] : operands;
        bytes node = node_of(kind, nodes[i][2], in, nodes[i][2]);
        put_message(g, GRAPH_NODE, &node);
    }
}

/* The numbers of f32 that the nodes make, each rounded: volatile keeps them apart. */
static int pair_of(const numbers *n, int a, int b, bool is_sum) {
    const float low = n->type == U8 ? 0 : -128;
    volatile float f = (float)(a - n->x_zero) * n->x_scale, s = (float)(b - 21) * n->w_scale[0],
                   p = is_sum ? f + s : f * s, q = p / n->y_scale;
    return (int)fminf(fmaxf(rintf(q) + (float)n->y_zero, low), low + 255);
}

typedef struct pair {
    int64_t other; /* the type of b */
    const char *operands;
    bool is_sum;
    extents of_a, of_b;
    const unsigned char *a, *b;
} pair;

/* The codes of all, which are one step. */
static dhow_tensor *run_pair(const numbers *n, const pair *p) {
    const numbers second = {.type = p->other};
    bytes g = {0};
    dhow_tensor *in[2], *out = NULL;
    dhow_model *model;
    put_pair(&g, n, p->other, p->is_sum ? "Add" : "Mul", p->operands, &p->of_a, &p->of_b);
    bytes file = model_of(17, &g);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, dtype_of(n), (int32_t)p->of_a.rank, p->of_a.shape, p->a,
                             &in[0]));
    OK(dhow_tensor_from_data(g_cpu, dtype_of(&second), (int32_t)p->of_b.rank, p->of_b.shape, p->b,
                             &in[1]));
    OK(dhow_model_run(model, NULL, in, 2, &out, 1));
    cr_assert_eq(count_steps(model, "map_codes"), 1);
    dhow_tensor_release(in[0]);
    dhow_tensor_release(in[1]);
    dhow_model_release(model);
    bytes_free(&file);
    return out;
}

static void check_pairs(const numbers *n, int64_t other, bool is_sum) {
    static unsigned char a[PAIRS], b[PAIRS];
    const numbers second = {.type = other};
    const extents all = {1, {PAIRS}};
    void *y;
    for (int i = 0; i < PAIRS; i++) a[i] = (unsigned char)i, b[i] = (unsigned char)(i / 256);
    dhow_tensor *out = run_pair(n, &(pair){other, "f s", is_sum, all, all, a, b});
    OK(dhow_tensor_host_ptr(out, &y));
    for (int i = 0; i < PAIRS; i++) {
        const int of_a = code_at(n, a, i), of_b = code_at(&second, b, i),
                  want = pair_of(n, of_a, of_b, is_sum);
        cr_assert_eq(code_at(n, y, i), want, "%s of %d and %d is %d, not %d",
                     is_sum ? "the sum" : "the product", of_a, of_b, code_at(n, y, i), want);
    }
    dhow_tensor_release(out);
}

Test(onnx_quantised, pairs_of_codes_become_the_codes_of_the_numbers) {
    static numbers n;
    for (int i = 0; i < 16; i++) {
        draw_numbers(&n, i & 1 ? I8 : U8, (uint32_t)i, (i & 8) != 0);
        check_pairs(&n, i & 2 ? I8 : U8, (i & 4) != 0);
    }
}

/* a of a row each with b, which is the same for all rows, or for all of a row. */
static void check_spread_pairs(const numbers *n, int64_t rows, int64_t columns, bool by_row,
                               bool turned, bool is_sum) {
    enum { MOST = 40000 };
    static unsigned char a[MOST], b[MOST];
    const extents of_a = {2, {rows, columns}},
                  of_b = {2, {by_row ? rows : 1, by_row ? 1 : columns}};
    void *y;
    cr_assert_leq(rows * columns, MOST);
    for (int i = 0; i < MOST; i++) a[i] = (unsigned char)(i * 7), b[i] = (unsigned char)(i * 13);
    dhow_tensor *out = run_pair(n, &(pair){U8, turned ? "s f" : "f s", is_sum, of_a, of_b, a, b});
    OK(dhow_tensor_host_ptr(out, &y));
    for (int i = 0; i < rows * columns; i++) {
        const int want =
            pair_of(n, code_at(n, a, i), b[by_row ? i / (int)columns : i % (int)columns], is_sum);
        cr_assert_eq(code_at(n, y, i), want, "%d x %d%s, element %d: %d, not %d", (int)rows,
                     (int)columns, by_row ? ", by row" : "", i, code_at(n, y, i), want);
    }
    dhow_tensor_release(out);
}

Test(onnx_quantised, pairs_of_codes_broadcast) {
    static const int64_t shapes[][2] = {{300, 3},  {40, 63}, {40, 64}, {33, 100},
                                        {30, 257}, {9, 512}, {50, 700}};
    static numbers n;
    for (int i = 0; i < 8; i++) {
        draw_numbers(&n, i & 1 ? I8 : U8, (uint32_t)i, false);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int form = 0; form < 4; form++)
                check_spread_pairs(&n, shapes[k][0], shapes[k][1], (form & 1) != 0, (form & 2) != 0,
                                   (i & 2) != 0);
    }
}

/* ---- codes of numbers ---- */

/* About halves, far from all codes, none. */
Test(onnx_quantised, numbers_become_the_codes_of_their_quotients) {
    enum { COUNT = 3 * 1031 };
    static const float scales[] = {0.37f, 1, 0x1.fffffep-1f, 3e-38f, 1e-25f, 1e20f, 3e38f};
    static const int64_t shape[] = {3, COUNT / 3};
    static float x[COUNT];
    for (size_t i = 0; i < 2 * sizeof scales / sizeof *scales; i++) {
        const float scale = scales[i / 2];
        const numbers n = {.type = i & 1 ? I8 : U8};
        const int zero = i & 1 ? -9 : 131;
        bytes g = {0}, node = node_of("QuantizeLinear", "n", "x s z", "y"),
              in = typed_value_of("x", F32, 2, shape), y = typed_value_of("y", n.type, 2, shape);
        dhow_tensor *given, *out;
        dhow_model *model;
        void *got;
        uint32_t seed = (uint32_t)i;
        for (int k = 0; k < COUNT; k++) {
            x[k] = ((float)(draw(&seed) % 600) - 300.5f) * scale;
            for (uint32_t away = draw(&seed) % 3; away > 0; away--)
                x[k] = nextafterf(x[k], k & 1 ? INFINITY : -INFINITY);
        }
        x[1] = INFINITY, x[70] = -INFINITY, x[500] = NAN, x[COUNT - 1] = NAN;
        put_scale(&g, "s", scale);
        put_zero(&g, "z", n.type, zero);
        put_message(&g, GRAPH_INPUT, &in);
        put_message(&g, GRAPH_OUTPUT, &y);
        put_message(&g, GRAPH_NODE, &node);
        bytes file = model_of(17, &g);
        OK(load_bytes(&file, &model));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, shape, x, &given));
        OK(dhow_model_run(model, NULL, &given, 1, &out, 1));
        OK(dhow_tensor_host_ptr(out, &got));
        for (int k = 0; k < COUNT; k++) {
            const float low = n.type == U8 ? 0 : -128;
            volatile float q = x[k] / scale;
            const float code = fminf(fmaxf(rintf(q) + (float)zero, low), low + 255);
            const int want = isnan(x[k]) ? 0 : (int)code;
            cr_assert_eq(code_at(&n, got, k), want, "%g / %g is %d, not %d", (double)x[k],
                         (double)scale, code_at(&n, got, k), want);
        }
        dhow_tensor_release(given);
        dhow_tensor_release(out);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* ---- padding and means ---- */

/* Nodes on codes x to codes y of any shape, which the definition makes of them as well; the steps
 * of the model that are `kind`. */
static uint32_t check_nodes(const numbers *n, const char *const (*nodes)[3], size_t count,
                            const char *kind) {
    static const int64_t x_shape[] = {1, C, H, W}, any[] = {-1, -1, -1, -1}, eight[] = {8};
    static const int64_t pads[] = {0, 0, 0, 2, 0, 0, 1, 1};
    static unsigned char got[2][65536];
    uint64_t sizes[2];
    uint32_t steps = 0;
    for (int plain = 0; plain < 2; plain++) {
        bytes g = {0}, y = typed_value_of("y", n->type, 4, any);
        dhow_tensor *x, *out;
        dhow_model *model;
        dhowi_optimisations =
            DHOWI_OPTIMISE_ALL & (plain ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
        put_operands(&g, n);
        put_scale(&g, "v", -0.77f);
        put_scale(&g, "one", n->w_scale[0]);
        put_constant(&g, "pads", 7, 8, pads, sizeof *pads, 1, eight);
        put_input(&g, "x", n, x_shape);
        put_message(&g, GRAPH_OUTPUT, &y);
        for (size_t i = 0; i < count; i++) {
            bytes node = node_of(nodes[i][0], nodes[i][2], nodes[i][1], nodes[i][2]);
            put_message(&g, GRAPH_NODE, &node);
        }
        bytes file = model_of(17, &g);
        OK(load_bytes(&file, &model));
        OK(dhow_tensor_from_data(g_cpu, dtype_of(n), 4, x_shape, n->x, &x));
        OK(dhow_model_run(model, NULL, &x, 1, &out, 1));
        sizes[plain] = (uint64_t)dhow_tensor_count(out);
        cr_assert_leq(sizes[plain], sizeof got[0]);
        OK(dhow_tensor_read(out, got[plain], sizes[plain]));
        if (!plain) steps = (uint32_t)count_steps(model, kind);
        dhow_tensor_release(x);
        dhow_tensor_release(out);
        dhow_model_release(model);
        bytes_free(&file);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
    cr_assert_eq(sizes[0], sizes[1]);
    for (uint64_t i = 0; i < sizes[0]; i++) {
        const int off = code_at(n, got[0], (int)i) - code_at(n, got[1], (int)i);
        cr_assert(off >= -1 && off <= 1, "element %d: %d, not %d", (int)i,
                  code_at(n, got[0], (int)i), code_at(n, got[1], (int)i));
    }
    return steps;
}
#define NODES(nodes) (const char *const(*)[3])(nodes), sizeof(nodes) / sizeof *(nodes)

Test(onnx_quantised, padding_of_codes_is_left_to_the_convolution) {
    static const char *const zeros[][3] = {
        {"DequantizeLinear", "x xs xz", "f"}, {"Pad", "f pads", "p"},
        {"QuantizeLinear", "p xs xz", "q"},   {"DequantizeLinear", "q xs xz", "d"},
        {"DequantizeLinear", "w one", "k"},   {"Conv", "d k", "c"},
        {"QuantizeLinear", "c ys yz", "y"}};
    static const char *const others[][3] = {{"DequantizeLinear", "x xs xz", "f"},
                                            {"Pad", "f pads v", "p"},
                                            {"QuantizeLinear", "p xs xz", "y"}};
    static const char *const of_bytes[][3] = {{"Pad", "x pads xz", "q"},
                                              {"DequantizeLinear", "q xs xz", "d"},
                                              {"DequantizeLinear", "w one", "k"},
                                              {"Conv", "d k", "c"},
                                              {"QuantizeLinear", "c ys yz", "y"}};
    /* what is padded with the code of one zero point is read by another one */
    static const char *const moved[][3] = {
        {"DequantizeLinear", "x xs xz", "f"}, {"Pad", "f pads", "p"},
        {"QuantizeLinear", "p xs xz", "q"},   {"DequantizeLinear", "q xs yz", "d"},
        {"DequantizeLinear", "w one", "k"},   {"Conv", "d k", "c"},
        {"QuantizeLinear", "c ys yz", "y"}};
    static numbers n;
    for (int i = 0; i < 4; i++) {
        draw_numbers(&n, i & 1 ? I8 : U8, (uint32_t)i, false);
        cr_assert_eq(check_nodes(&n, NODES(zeros), "fill"), 0);
        cr_assert_eq(check_nodes(&n, NODES(of_bytes), "fill"), 0);
        cr_assert_eq(check_nodes(&n, NODES(others), "map_codes"), 0);
        (void)check_nodes(&n, NODES(moved), "fill");
    }
}

Test(onnx_quantised, a_mean_of_codes_reads_the_codes) {
    static const char *const plain[][3] = {{"DequantizeLinear", "x xs xz", "f"},
                                           {"GlobalAveragePool", "f", "m"},
                                           {"QuantizeLinear", "m ys yz", "y"}};
    static const char *const behind[][3] = {{"DequantizeLinear", "x xs xz", "d"},
                                            {"DequantizeLinear", "w one", "k"},
                                            {"Conv", "d k", "c"},
                                            {"QuantizeLinear", "c ys yz", "q"},
                                            {"DequantizeLinear", "q ys yz", "f"},
                                            {"GlobalAveragePool", "f", "m"},
                                            {"QuantizeLinear", "m ys yz", "y"}};
    static numbers n;
    for (int i = 0; i < 4; i++) {
        draw_numbers(&n, i & 1 ? I8 : U8, (uint32_t)i, false);
        cr_assert_eq(check_nodes(&n, NODES(plain), "mean_codes"), 1);
        cr_assert_eq(check_nodes(&n, NODES(behind), "mean_codes"), 1);
    }
}

/* ---- products ---- */

enum { ROWS = 3, TERMS = 70, COLUMNS = 9 };

static int term_at(int64_t type, int i) { return i * 37 % 251 - (type == U8 ? 0 : 125); }

static int first_zero(int64_t type) { return type == U8 ? 127 : -3; }

static unsigned char g_rows[ROWS * TERMS];

/* A product in f32 of x and the weights of `type`, whose constants are in the file; of x too where
 * it is one. */
static bytes product_of(const char *op, const char *inputs, int64_t type, bool by_column,
                        bool constant) {
    static const int64_t x_shape[] = {ROWS, TERMS}, w_shape[] = {TERMS, COLUMNS}, any[] = {-1, -1};
    const int64_t columns[] = {COLUMNS};
    unsigned char w[TERMS * COLUMNS], zero[COLUMNS];
    bytes g = {0}, node = node_of(op, "n", inputs, "y"), y = typed_value_of("y", F32, 2, any);
    for (int i = 0; i < TERMS * COLUMNS; i++) w[i] = (unsigned char)term_at(type, 5 * i + 3);
    for (int i = 0; i < COLUMNS; i++)
        zero[i] = (unsigned char)(first_zero(type) + (by_column ? i : 0));
    if (constant) {
        put_constant(&g, "x", U8, ROWS * TERMS, g_rows, 1, 2, x_shape);
    } else {
        bytes in = typed_value_of("x", U8, 2, x_shape);
        put_message(&g, GRAPH_INPUT, &in);
    }
    put_message(&g, GRAPH_OUTPUT, &y);
    put_scale(&g, "s", 1);
    put_zero(&g, "xz", U8, 3);
    put_constant(&g, "w", type, TERMS * COLUMNS, w, 1, 2, w_shape);
    put_constant(&g, "wz", type, by_column ? COLUMNS : 1, zero, 1, by_column ? 1 : 0, columns);
    put_text(&node, 7, "com.microsoft");
    put_message(&g, GRAPH_NODE, &node);
    return model_of(17, &g);
}

/* Weights of the file, which are packed as bytes: once they were packed without their zero points.
 */
static void check_product(dhow_device *device, const char *op, const char *inputs, int64_t type,
                          bool by_column, bool constant) {
    static const int64_t x_shape[] = {ROWS, TERMS};
    const int first = first_zero(type);
    dhow_tensor *image, *out;
    dhow_model *model;
    float got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * TERMS; i++) g_rows[i] = (unsigned char)term_at(U8, i);
    bytes file = product_of(op, inputs, type, by_column, constant);
    OK(load_bytes(&file, &model));
    OK(dhow_model_to(model, device));
    OK(dhow_tensor_from_data(device, DHOW_U8, 2, x_shape, g_rows, &image));
    OK(dhow_model_run(model, NULL, &image, constant ? 0 : 1, &out, 1));
    OK(dhow_tensor_read(out, got, sizeof got));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int want = 0;
        for (int k = 0; k < TERMS; k++)
            want += (term_at(U8, i / COLUMNS * TERMS + k) - 3) *
                    (term_at(type, 5 * (k * COLUMNS + i % COLUMNS) + 3) - first -
                     (by_column ? i % COLUMNS : 0));
        cr_assert_eq((int)got[i], want, "%s, type %d%s: element %d is %g, not %d", op, (int)type,
                     by_column ? ", by column" : "", i, (double)got[i], want);
    }
    dhow_tensor_release(image);
    dhow_tensor_release(out);
    dhow_model_release(model);
    bytes_free(&file);
}

Test(onnx_quantised, constant_weights_of_products_have_their_zero_points) {
    for (int i = 0; i < 8; i++) {
        const int64_t type = i & 1 ? I8 : U8;
        dhowi_optimisations =
            DHOWI_OPTIMISE_ALL & (i & 4 ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
        check_product(g_cpu, "MatMulIntegerToFloat", "x w s s xz wz", type, (i & 2) != 0, false);
        check_product(g_cpu, "QGemm", "x s xz w s wz", type, (i & 2) != 0, false);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

/* The CPU computes it, and here that does not add up bytes, which the device does. */
Test(onnx_quantised, a_product_of_constants_needs_no_sums_of_integers) {
    dhow_device *sim;
    dhow_context_release(g_context);
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_PATH, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "images=nhwc", 1);
    (void)setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "sim", &sim));
    for (int i = 0; i < 2; i++) {
        check_product(sim, "MatMulIntegerToFloat", "x w s s xz wz", I8, i != 0, true);
        check_product(sim, "QGemm", "x s xz w s wz", U8, i != 0, true);
    }
}

/* ---- images between ---- */

/* Linear between codes, whose fractions are cut off. */
Test(onnx_quantised, codes_are_resized_as_numbers) {
    static const int64_t x_shape[] = {1, 1, 1, 3}, any[] = {-1, -1, -1, -1}, four[] = {4};
    static const float scales[] = {1, 1, 1, 2};
    static const unsigned char x[2][3] = {{200, 7, 255}, {0x80, 127, 0xfb}}; /* -128, 127, -5 */
    static const int want[2][6] = {{200, 151, 55, 69, 193, 255}, {-128, -64, 63, 94, 28, -5}};
    for (int i = 0; i < 2; i++) {
        const int64_t type = i == 0 ? U8 : I8;
        bytes g = {0}, node = node_of("Resize", "n", "x  scales", "y");
        bytes in = typed_value_of("x", type, 4, x_shape), y = typed_value_of("y", type, 4, any);
        dhow_tensor *image, *out;
        dhow_model *model;
        void *got;
        add_text(&node, "mode", "linear");
        put_constant(&g, "scales", F32, 4, scales, sizeof *scales, 1, four);
        put_message(&g, GRAPH_INPUT, &in);
        put_message(&g, GRAPH_OUTPUT, &y);
        put_message(&g, GRAPH_NODE, &node);
        bytes file = model_of(13, &g);
        OK(load_bytes(&file, &model));
        OK(dhow_tensor_from_data(g_cpu, i == 0 ? DHOW_U8 : DHOW_I8, 4, x_shape, x[i], &image));
        OK(dhow_model_run(model, NULL, &image, 1, &out, 1));
        OK(dhow_tensor_host_ptr(out, &got));
        for (int k = 0; k < 6; k++) {
            const int code = i == 0 ? ((unsigned char *)got)[k] : ((int8_t *)got)[k];
            cr_assert_eq(code, want[i][k], "type %d: %d is %d, not %d", (int)type, k, code,
                         want[i][k]);
        }
        dhow_tensor_release(image);
        dhow_tensor_release(out);
        dhow_model_release(model);
        bytes_free(&file);
    }
}
