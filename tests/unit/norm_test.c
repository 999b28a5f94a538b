/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations that a file spells in single nodes become one step, in whatever way it spells
 * them; where something else reads what lies in between they stay as they are. The values are those
 * of plain loops.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_fixture.h"

enum { ROWS = 6, N = 5 };
static const int64_t k_shape[] = {2, 3, N};

TestSuite(norm, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- models ---- */

enum { POWER, PRODUCT };             /* how the square is spelt */
enum { QUOTIENT, INVERSE, DIVIDED }; /* x / s, x (1 / s) by Reciprocal, and by Div */
enum { BARE, AFFINE, SCALED };       /* what follows: nothing, scale and shift, a scale */
enum { NOTHING, CENTRE, MEAN, FIRST_AXIS };

typedef struct spelling {
    int centred, square, root, affine, also; /* what else reads an intermediate value */
} spelling;

static void put_node(bytes *g, const char *op, const char *in, const char *out) {
    bytes n = node_of(op, out, in, out);
    put_message(g, GRAPH_NODE, &n);
}

static void put_mean(bytes *g, const char *in, const char *out, int64_t axis) {
    bytes n = node_of("ReduceMean", out, in, out);
    add_ints(&n, "axes", 1, &axis);
    put_message(g, GRAPH_NODE, &n);
}

static void put_number_of(bytes *g, const char *name, float value) {
    bytes t = {0}, raw = {0};
    put_number(&t, 2, 1);
    put_text(&t, 8, name);
    put_raw(&raw, &value, sizeof value);
    put_message(&t, 9, &raw);
    put_message(g, GRAPH_INITIALIZER, &t);
}

static bytes norm_model(const spelling *s) {
    bytes g = {0}, v;
    const char *d = s->centred ? "d" : "x", *pair = s->centred ? "d d" : "x x";
    char in[32];
    if (s->centred) {
        put_mean(&g, "x", "m", s->also == FIRST_AXIS ? 1 : -1);
        put_node(&g, "Sub", "x m", "d");
    }
    (void)snprintf(in, sizeof in, "%s two", d);
    if (s->square == POWER) put_node(&g, "Pow", in, "q");
    if (s->square == PRODUCT) put_node(&g, "Mul", pair, "q");
    put_mean(&g, "q", "v", s->also == FIRST_AXIS ? 1 : -1);
    put_node(&g, "Add", s->square == POWER ? "v eps" : "eps v", "a");
    put_node(&g, "Sqrt", "a", "r");
    (void)snprintf(in, sizeof in, s->root == QUOTIENT ? "%s r" : "i %s", d);
    if (s->root == INVERSE) put_node(&g, "Reciprocal", "r", "i");
    if (s->root == DIVIDED) put_node(&g, "Div", "one r", "i");
    put_node(&g, s->root == QUOTIENT ? "Div" : "Mul", in, s->affine ? "z" : "y");
    if (s->affine) {
        put_node(&g, "Mul", s->square == POWER ? "z gamma" : "gamma z",
                 s->affine == AFFINE ? "w" : "y");
        if (s->affine == AFFINE) put_node(&g, "Add", "w beta", "y");
        bytes t = floats_of("gamma", N, 0);
        put_message(&g, GRAPH_INITIALIZER, &t);
        t = floats_of("beta", N, 0);
        put_message(&g, GRAPH_INITIALIZER, &t);
    }
    put_number_of(&g, "two", 2);
    put_number_of(&g, "one", 1);
    put_number_of(&g, "eps", 0.01f);
    v = value_of("x", 3, k_shape);
    put_message(&g, GRAPH_INPUT, &v);
    v = value_of("y", 3, k_shape);
    put_message(&g, GRAPH_OUTPUT, &v);
    if (s->also == CENTRE || s->also == MEAN) {
        v = value_of(s->also == CENTRE ? "d" : "m", 3, k_shape);
        put_message(&g, GRAPH_OUTPUT, &v);
    }
    return model_of(13, &g);
}

/* ---- running ---- */

static void fill(float *x) {
    for (int i = 0; i < ROWS * N; i++) x[i] = 0.37f * (float)(i * i % 11) - 1.3f + 0.1f * (float)i;
}

static void expect_rows(const float *x, const float *y, const spelling *s) {
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, square = 0;
        for (int i = 0; i < N; i++) mean += s->centred ? (double)x[r * N + i] / N : 0;
        for (int i = 0; i < N; i++) square += pow((double)x[r * N + i] - mean, 2) / N;
        for (int i = 0; i < N; i++) {
            double want = ((double)x[r * N + i] - mean) / sqrt(square + 0.01);
            if (s->affine != BARE) want *= 0.1 * (i + 1);
            if (s->affine == AFFINE) want += 0.1 * (i + 1);
            cr_assert_float_eq(y[r * N + i], want, 1e-4, "row %d, column %d: %g, not %g", r, i,
                               (double)y[r * N + i], want);
        }
    }
}

/* Runs it twice; the number of steps, and the kernel of the first. */
static uint32_t run(const spelling *s, char *kernel, size_t capacity, int compare) {
    bytes file = norm_model(s);
    dhow_model *model;
    dhow_tensor *in, *out[2] = {NULL};
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
    float x[ROWS * N];
    void *y;
    fill(x);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 3, k_shape, x, &in));
    for (int again = 0; again < 2; again++) {
        OK(dhow_model_run(model, NULL, &in, 1, out, dhow_model_output_count(model)));
        OK(dhow_tensor_host_ptr(out[0], &y));
        if (compare) expect_rows(x, y, s);
        for (int i = 0; i < 2; i++) {
            dhow_tensor_release(out[i]);
            out[i] = NULL;
        }
    }
    OK(dhow_model_get_summary(model, &summary));
    OK(dhow_model_step_at(model, 0, &step));
    (void)snprintf(kernel, capacity, "%s", step.kernel);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
    return summary.step_count;
}

Test(norm, a_layernorm_in_single_nodes_is_one_step_however_it_is_spelt) {
    char kernel[64];
    for (int square = POWER; square <= PRODUCT; square++) {
        for (int root = QUOTIENT; root <= DIVIDED; root++) {
            for (int affine = 0; affine <= SCALED; affine++) {
                const spelling s = {1, square, root, affine, NOTHING};
                cr_assert_eq(run(&s, kernel, sizeof kernel, 1), 1, "%d %d %d", square, root,
                             affine);
                cr_assert_str_eq(kernel, affine == AFFINE ? "layernorm" : "normalize");
            }
        }
    }
}

Test(norm, an_rmsnorm_in_single_nodes_is_one_step_with_its_scale_but_not_its_shift) {
    char kernel[64];
    for (int square = POWER; square <= PRODUCT; square++) {
        for (int root = QUOTIENT; root <= DIVIDED; root++) {
            const spelling plain = {0, square, root, BARE, NOTHING},
                           scaled = {0, square, root, SCALED, NOTHING},
                           shifted = {0, square, root, AFFINE, NOTHING};
            cr_assert_eq(run(&plain, kernel, sizeof kernel, 1), 1, "%d %d", square, root);
            cr_assert_str_eq(kernel, "normalize");
            cr_assert_eq(run(&scaled, kernel, sizeof kernel, 1), 1, "%d %d", square, root);
            cr_assert_str_eq(kernel, "normalize");
            cr_assert_eq(run(&shifted, kernel, sizeof kernel, 1), 2, "%d %d", square, root);
        }
    }
}

Test(norm, what_something_else_reads_is_computed) {
    char kernel[64];
    for (int also = CENTRE; also <= MEAN; also++) {
        const spelling s = {1, POWER, QUOTIENT, 1, also};
        cr_assert_gt(run(&s, kernel, sizeof kernel, 1), 1);
        cr_assert_str_neq(kernel, "layernorm");
    }
}

Test(norm, a_mean_over_another_axis_is_no_layernorm) {
    char kernel[64];
    const spelling s = {1, POWER, QUOTIENT, 1, FIRST_AXIS};
    cr_assert_gt(run(&s, kernel, sizeof kernel, 0), 2);
    cr_assert_str_neq(kernel, "layernorm");
    cr_assert_str_neq(kernel, "normalize");
}

/* ---- GELU ---- */

enum { CUBE_BY_POWER, CUBE_BY_PRODUCTS, HALF_FIRST, BY_ERF, GELU_SPELLINGS };

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), or x / 2 (1 + erf(x / sqrt(2))). */
static bytes gelu_model(int way) {
    bytes g = {0}, v;
    if (way == CUBE_BY_PRODUCTS) put_node(&g, "Mul", "x x", "x2");
    put_node(&g, way == CUBE_BY_PRODUCTS ? "Mul" : "Pow",
             way == CUBE_BY_PRODUCTS ? "x2 x" : "x three", "x3");
    put_node(&g, "Mul", "x3 c", "cx3");
    put_node(&g, "Add", "x cx3", "s");
    put_node(&g, "Mul", "s k", "ks");
    if (way == BY_ERF) put_node(&g, "Div", "x root", "xr");
    put_node(&g, way == BY_ERF ? "Erf" : "Tanh", way == BY_ERF ? "xr" : "ks", "t");
    put_node(&g, "Add", "t one", "u");
    if (way == HALF_FIRST) {
        put_node(&g, "Mul", "x half", "h");
        put_node(&g, "Mul", "h u", "y");
    } else {
        put_node(&g, "Mul", "x u", "w");
        put_node(&g, "Mul", "w half", "y");
    }
    put_number_of(&g, "three", 3);
    put_number_of(&g, "one", 1);
    put_number_of(&g, "half", 0.5f);
    put_number_of(&g, "c", 0.044715f);
    put_number_of(&g, "k", 0.7978845608f);
    put_number_of(&g, "root", 1.4142135f);
    v = value_of("x", 3, k_shape);
    put_message(&g, GRAPH_INPUT, &v);
    v = value_of("y", 3, k_shape);
    put_message(&g, GRAPH_OUTPUT, &v);
    return model_of(13, &g);
}

Test(norm, a_gelu_is_one_step_however_it_is_spelt) {
    for (int way = 0; way < GELU_SPELLINGS; way++) {
        bytes file = gelu_model(way);
        dhow_model *model;
        dhow_tensor *in, *out = NULL;
        dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
        float x[ROWS * N];
        void *y;
        fill(x);
        OK(load_bytes(&file, &model));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 3, k_shape, x, &in));
        OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
        OK(dhow_tensor_host_ptr(out, &y));
        for (int i = 0; i < ROWS * N; i++) {
            double v = (double)x[i];
            double u = way == BY_ERF ? erf(v * sqrt(0.5))
                                     : tanh(0.7978845608 * (v + 0.044715 * v * v * v));
            double want = v / 2 * (1 + u);
            cr_assert_float_eq(((float *)y)[i], want, 1e-5);
        }
        OK(dhow_model_get_summary(model, &summary));
        cr_assert_eq(summary.step_count, 1, "spelling %d: %u steps", way, summary.step_count);
        dhow_tensor_release(in);
        dhow_tensor_release(out);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* In every float type, with the numbers as that type rounds them; `c` is 0.044715 or another. */
static uint32_t steps_of_gelu(dhow_dtype dtype, double c, double k) {
    dhow_model *m;
    dhow_model_value x, v;
    dhow_tensor *in, *out;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", dtype, DHOW_SHAPE(64), &x));
    OK(dhow_model_mul(m, x, x, &v));
    OK(dhow_model_mul(m, v, x, &v));
    OK(dhow_model_mul_scalar(m, v, DHOW_SCALAR(c), &v));
    OK(dhow_model_add(m, x, v, &v));
    OK(dhow_model_mul_scalar(m, v, DHOW_SCALAR(k), &v));
    OK(dhow_model_tanh(m, v, &v));
    OK(dhow_model_add_scalar(m, v, DHOW_SCALAR(1.0), &v));
    OK(dhow_model_mul(m, x, v, &v));
    OK(dhow_model_mul_scalar(m, v, DHOW_SCALAR(0.5), &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_to(m, g_cpu));
    OK(dhow_tensor_full(g_cpu, dtype, DHOW_SHAPE(64), 1, &in));
    OK(dhow_model_run(m, NULL, &in, 1, &out, 1));
    OK(dhow_model_get_summary(m, &summary));
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_model_release(m);
    return summary.step_count;
}

Test(norm, a_gelu_is_one_step_in_every_float_type_and_only_with_its_numbers) {
    static const struct {
        dhow_dtype dtype;
        double c, k; /* rounded as the type does */
    } types[] = {{DHOW_F64, 0.044715, 0.79788456080286535588},
                 {DHOW_F32, 0.04471499845385551, 0.7978845834732056},
                 {DHOW_F16, 0.04470825195, 0.7978515625},
                 {DHOW_BF16, 0.044677734375, 0.796875}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = dhow_dtype_name(types[i].dtype);
        cr_assert_eq(steps_of_gelu(types[i].dtype, types[i].c, types[i].k), 1, "%s", name);
        cr_assert_gt(steps_of_gelu(types[i].dtype, types[i].c * 1.03, types[i].k), 1, "%s", name);
    }
}
