/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of integers of 8 bits are sums without rounding, however long: they are computed in
 * f32, which adds up 258 of the largest exactly.
 */
#include <stdio.h>

#include "kernel/optimise.h"
#include "onnx_fixture.h"

TestSuite(onnx_integers, .init = set_up, .fini = tear_down, .timeout = 60);

enum { U8 = 2, I8 = 3, CHANNELS = 1500, PIXELS = 6, OUT = 4 };

/* Large and odd, so that no sum of many is a multiple of a power of two. */
static int value_at(int64_t type, int64_t i) {
    return type == U8 ? 255 - (int)(i * 7 % 5) : (int)(i * 3 % 4) - 128;
}

static void put_bytes(bytes *g, const char *name, int64_t type, uint32_t rank, const int64_t *shape,
                      int fill) {
    bytes t = {0};
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        put_number(&t, 1, (uint64_t)shape[i]);
        count *= shape[i];
    }
    char *data = malloc((size_t)count);
    cr_assert_not_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (char)(unsigned char)(fill >= 0 ? fill : value_at(type, i));
    put_number(&t, 2, (uint64_t)type);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, (uint64_t)count);
    put_raw(&t, data, (size_t)count);
    put_message(g, GRAPH_INITIALIZER, &t);
    free(data);
}

/* Either an input of the graph, with the same values, or a constant of the file. */
static void put_operand(bytes *g, const char *name, int64_t type, uint32_t rank,
                        const int64_t *shape, dhow_tensor **input) {
    int64_t count = 1;
    if (input == NULL) {
        put_bytes(g, name, type, rank, shape, -1);
        return;
    }
    bytes v = typed_value_of(name, type, rank, shape);
    put_message(g, GRAPH_INPUT, &v);
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    char *data = malloc((size_t)count);
    cr_assert_not_null(data);
    for (int64_t i = 0; i < count; i++) data[i] = (char)value_at(type, i);
    OK(dhow_tensor_from_data(g_cpu, type == U8 ? DHOW_U8 : DHOW_I8, (int32_t)rank, shape, data,
                             input));
    free(data);
}

static void run(bytes *g, bytes node, dhow_tensor **in, uint32_t in_count, int64_t count,
                const int32_t *want, const char *what) {
    static const int64_t any[] = {-1};
    dhow_model *model;
    dhow_tensor *out;
    void *got;
    put_message(g, GRAPH_NODE, &node);
    bytes y = typed_value_of("y", 6, 1, any);
    put_message(g, GRAPH_OUTPUT, &y);
    bytes file = model_of(13, g);
    OK(load_bytes(&file, &model));
    OK(dhow_model_run(model, NULL, in, in_count, &out, 1));
    OK(dhow_tensor_host_ptr(out, &got));
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(((int32_t *)got)[i], want[i], "%s: element %d is %d, not %d", what, (int)i,
                     ((int32_t *)got)[i], want[i]);
    dhow_tensor_release(out);
    for (uint32_t i = 0; i < in_count; i++) dhow_tensor_release(in[i]);
    dhow_model_release(model);
    bytes_free(&file);
}

/* Weights that are known beforehand, and those that are an input. */
Test(onnx_integers, sums_of_a_product_are_exact) {
    static const int64_t x_shape[] = {PIXELS, CHANNELS}, w_shape[] = {CHANNELS, OUT};
    int32_t want[PIXELS * OUT];
    for (int m = 0; m < PIXELS; m++) {
        for (int n = 0; n < OUT; n++) {
            want[m * OUT + n] = 0;
            for (int k = 0; k < CHANNELS; k++)
                want[m * OUT + n] +=
                    (value_at(U8, m * CHANNELS + k) - 3) * value_at(I8, k * OUT + n);
        }
    }
    for (int known = 0; known < 2; known++) {
        bytes g = {0};
        dhow_tensor *in[2];
        put_operand(&g, "x", U8, 2, x_shape, &in[0]);
        put_operand(&g, "w", I8, 2, w_shape, known ? NULL : &in[1]);
        put_bytes(&g, "zero", U8, 0, NULL, 3);
        run(&g, node_of("MatMulInteger", "n", "x w zero", "y"), in, known ? 1 : 2, PIXELS * OUT,
            want, known ? "known weights" : "weights of an input");
    }
}

/* In groups, too. */
Test(onnx_integers, sums_of_a_convolution_are_exact) {
    for (int variant = 0; variant < 4; variant++) {
        const int groups = variant % 2 == 0 ? 1 : 2, known = variant / 2, each = CHANNELS / groups;
        const int64_t x_shape[] = {1, CHANNELS, PIXELS, 1}, w_shape[] = {OUT, each, 1, 1};
        int32_t want[OUT * PIXELS];
        char what[64];
        for (int n = 0; n < OUT; n++) {
            const int first = n / (OUT / groups) * each;
            for (int p = 0; p < PIXELS; p++) {
                want[n * PIXELS + p] = 0;
                for (int c = 0; c < each; c++)
                    want[n * PIXELS + p] +=
                        value_at(U8, (first + c) * PIXELS + p) * value_at(I8, n * each + c);
            }
        }
        bytes g = {0}, node = node_of("ConvInteger", "n", "x w", "y");
        dhow_tensor *in[2];
        put_operand(&g, "x", U8, 4, x_shape, &in[0]);
        put_operand(&g, "w", I8, 4, w_shape, known ? NULL : &in[1]);
        add_int(&node, "group", groups);
        (void)snprintf(what, sizeof what, "%d groups, %s", groups, known ? "known" : "an input");
        run(&g, node, in, known ? 1 : 2, OUT * PIXELS, want, what);
    }
}

enum { SIDE = 14, RESULT = SIDE - 2, MOST_RESULTS = 16 * RESULT * RESULT };

/* Windows of 3x3, less a zero point that is known to be 0, or is given to the run. */
static void check_windows(int c, int k, int64_t type, bool known, const char *what) {
    const int64_t x_shape[] = {1, c, SIDE, SIDE}, w_shape[] = {k, c, 3, 3};
    static int32_t want[MOST_RESULTS];
    const int zero = known ? 0 : value_at(U8, 0);
    for (int i = 0; i < k * RESULT * RESULT; i++) {
        const int own = i / (RESULT * RESULT), h = i / RESULT % RESULT, w = i % RESULT;
        want[i] = 0;
        for (int t = 0; t < c * 9; t++) {
            const int at = t / 9 * SIDE * SIDE + (h + t / 3 % 3) * SIDE + w + t % 3;
            want[i] += (value_at(U8, at) - zero) * value_at(type, own * c * 9 + t);
        }
    }
    bytes g = {0};
    dhow_tensor *in[2];
    put_operand(&g, "x", U8, 4, x_shape, &in[0]);
    put_operand(&g, "w", type, 4, w_shape, NULL);
    if (known)
        put_bytes(&g, "z", U8, 0, NULL, zero);
    else
        put_operand(&g, "z", U8, 0, NULL, &in[1]);
    run(&g, node_of("ConvInteger", "n", "x w z", "y"), in, known ? 1 : 2, k * RESULT * RESULT, want,
        what);
}

Test(onnx_integers, sums_of_windows_are_exact) {
    /* what a vendor's fast algorithm for such windows would round */
    check_windows(16, 16, I8, false, "windows of 144 numbers, a zero point of the run");
    check_windows(16, 16, I8, true, "windows of 144 numbers");
    /* beyond i8, and beyond what f32 has exactly */
    check_windows(150, 3, U8, false, "windows of 1350 numbers, a zero point of the run");
    check_windows(150, 3, U8, true, "windows of 1350 numbers");
}

/* ---- zero points that nobody knows before the run, and weights that are far from theirs ---- */

enum { DC = 5, DH = 6, DW = 7, DK = 3, DZERO = 121, XZERO = 137 };

static int code_of(int64_t i) { return (int)(i * 97 % 256); }

static dhow_tensor *put_codes(bytes *g, const char *name, uint32_t rank, const int64_t *shape,
                              bool known, int only) {
    unsigned char data[DC * DH * DW * DK];
    int64_t count = 1;
    dhow_tensor *input = NULL;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++) data[i] = (unsigned char)(only >= 0 ? only : code_of(i));
    if (!known) {
        bytes v = typed_value_of(name, U8, rank, shape);
        put_message(g, GRAPH_INPUT, &v);
        OK(dhow_tensor_from_data(g_cpu, DHOW_U8, (int32_t)rank, shape, data, &input));
        return input;
    }
    bytes t = {0};
    for (uint32_t i = 0; i < rank; i++) put_number(&t, 1, (uint64_t)shape[i]);
    put_number(&t, 2, U8);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, (uint64_t)count);
    put_raw(&t, data, (size_t)count);
    put_message(g, GRAPH_INITIALIZER, &t);
    return NULL;
}

/* Both ways: by sums of bytes, where the processor has them, and in f32. */
static void run_both(int variant, void (*build)(bytes *g, bool known, dhow_tensor **in),
                     const char *op, const int64_t *pads, int64_t count, const int32_t *want) {
    const bool known = variant & 1;
    bytes g = {0}, node = node_of(op, "n", "x w xz wz", "y");
    dhow_tensor *in[2] = {NULL, NULL};
    char what[80];
    if (pads != NULL) add_ints(&node, "pads", 4, pads);
    dhowi_optimisations =
        DHOWI_OPTIMISE_ALL & (variant & 2 ? ~(uint32_t)DHOWI_OPTIMISE_INTEGERS : ~0u);
    (void)snprintf(what, sizeof what, "%s, %s zero point, %s", op, known ? "known" : "given",
                   variant & 2 ? "in f32" : "in bytes");
    build(&g, known, in);
    run(&g, node, in, known ? 1 : 2, count, want, what);
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

static void build_conv(bytes *g, bool known, dhow_tensor **in) {
    static const int64_t x[] = {1, DC, DH, DW}, w[] = {DK, DC, 3, 3};
    in[0] = put_codes(g, "x", 4, x, false, -1);
    in[1] = put_codes(g, "xz", 0, NULL, known, XZERO);
    (void)put_codes(g, "w", 4, w, true, -1);
    (void)put_codes(g, "wz", 0, NULL, true, DZERO);
}

Test(onnx_integers, padding_stands_for_a_zero_point_of_the_run) {
    static const int64_t pads[] = {1, 1, 1, 1};
    int32_t want[DK * DH * DW];
    for (int i = 0; i < DK * DH * DW; i++) {
        const int k = i / (DH * DW), y = i / DW % DH, x = i % DW;
        want[i] = 0;
        for (int t = 0; t < DC * 9; t++) {
            const int r = y + t / 3 % 3 - 1, c = x + t % 3 - 1;
            if (r < 0 || r >= DH || c < 0 || c >= DW) continue;
            want[i] +=
                (code_of(t / 9 * DH * DW + r * DW + c) - XZERO) * (code_of(k * DC * 9 + t) - DZERO);
        }
    }
    for (int variant = 0; variant < 4; variant++)
        run_both(variant, build_conv, "ConvInteger", pads, DK * DH * DW, want);
}

static void build_product(bytes *g, bool known, dhow_tensor **in) {
    static const int64_t x[] = {DH, DC}, w[] = {DC, DK}, zeros[] = {DK};
    in[0] = put_codes(g, "x", 2, x, false, -1);
    in[1] = put_codes(g, "xz", 0, NULL, known, XZERO);
    (void)put_codes(g, "w", 2, w, true, -1);
    (void)put_codes(g, "wz", 1, zeros, true, -1);
}

Test(onnx_integers, weights_far_from_their_zero_point_are_multiplied_exactly) {
    int32_t want[DH * DK];
    for (int i = 0; i < DH * DK; i++) {
        want[i] = 0;
        for (int t = 0; t < DC; t++)
            want[i] +=
                (code_of(i / DK * DC + t) - XZERO) * (code_of(t * DK + i % DK) - code_of(i % DK));
    }
    for (int variant = 0; variant < 4; variant++)
        run_both(variant, build_product, "MatMulInteger", NULL, DH * DK, want);
}
