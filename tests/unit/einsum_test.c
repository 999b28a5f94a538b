/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum in words of its equation, and scattering where an element comes several times, against
 * plain loops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(einsum, .init = set_up, .fini = tear_down, .timeout = 60);

typedef struct operand {
    int32_t rank;
    int64_t shape[4];
} operand;

static float value_at(int input, int64_t i) { return (float)((i * 7 + input * 3) % 11) - 4.0f; }

static dhow_status run(const char *equation, const operand *in, uint32_t count, dhow_tensor **out) {
    static const char *const names[] = {"a", "b", "c"}, *const lists[] = {"", "a", "a b", "a b c"};
    static bytes file;
    bytes g = {0}, n = node_of("Einsum", "sum", lists[count], "y");
    dhow_tensor *tensors[3];
    dhow_model *model;
    add_text(&n, "equation", equation);
    put_message(&g, GRAPH_NODE, &n);
    for (uint32_t i = 0; i < count; i++) {
        float values[64];
        int64_t elements = 1;
        for (int32_t k = 0; k < in[i].rank; k++) elements *= in[i].shape[k];
        for (int64_t k = 0; k < elements; k++) values[k] = value_at((int)i, k);
        n = value_of(names[i], (uint32_t)in[i].rank, in[i].shape);
        put_message(&g, GRAPH_INPUT, &n);
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, in[i].rank, in[i].shape, values, &tensors[i]));
    }
    n = value_of("y", 0, NULL);
    put_message(&g, GRAPH_OUTPUT, &n);
    bytes_free(&file);
    file = model_of(13, &g);
    OK(load_bytes(&file, &model));
    *out = NULL;
    dhow_status status = dhow_model_run(model, NULL, tensors, count, out, 1);
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(tensors[i]);
    dhow_model_release(model);
    return status;
}

static void expect(const char *equation, const operand *in, uint32_t count, int32_t rank,
                   const double *want, int64_t elements) {
    dhow_tensor *out;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    void *data;
    OK(run(equation, in, count, &out));
    OK(dhow_tensor_get_info(out, &info));
    cr_assert_eq(info.rank, rank, "%s: rank %d", equation, info.rank);
    cr_assert_eq(info.count, elements, "%s: %d elements", equation, (int)info.count);
    OK(dhow_tensor_host_ptr(out, &data));
    for (int64_t i = 0; i < elements; i++)
        cr_assert_float_eq(((float *)data)[i], want[i], 1e-3, "%s: element %d is %g, not %g",
                           equation, (int)i, (double)((float *)data)[i], want[i]);
    dhow_tensor_release(out);
}

Test(einsum, three_operands_give_what_loops_give) {
    const operand in[] = {{3, {2, 3, 4}}, {3, {2, 4, 2}}, {1, {2}}};
    double want[6] = {0};
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 4; j++)
                for (int k = 0; k < 2; k++)
                    want[i * 2 + b] += (double)value_at(0, b * 12 + i * 4 + j) *
                                       (double)value_at(1, b * 8 + j * 2 + k) *
                                       (double)value_at(2, k);
    expect("bij, bjk, k -> ib", in, 3, 2, want, 6);
}

Test(einsum, an_ellipsis_broadcasts_and_what_one_operand_has_alone_is_summed) {
    const operand in[] = {{3, {2, 3, 2}}, {2, {2, 3}}};
    double want[12] = {0}; /* ...i with [2, 3], j summed: [2, 3, i] */
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 3; q++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++)
                    want[p * 6 + q * 2 + i] +=
                        (double)value_at(0, p * 6 + q * 2 + i) * (double)value_at(1, i * 3 + j);
    expect("...i,ij->...i", in, 2, 3, want, 12);
}

Test(einsum, without_an_arrow_labels_that_come_once_are_the_result) {
    const operand in[] = {{2, {3, 2}}, {2, {3, 4}}};
    double want[8] = {0};
    for (int k = 0; k < 3; k++)
        for (int a = 0; a < 4; a++)
            for (int z = 0; z < 2; z++)
                want[a * 2 + z] += (double)value_at(0, k * 2 + z) * (double)value_at(1, k * 4 + a);
    expect("kz,ka", in, 2, 2, want, 8);
}

Test(einsum, a_trace_is_the_sum_of_a_diagonal) {
    const operand in[] = {{2, {3, 3}}};
    const double want[] = {(double)(value_at(0, 0) + value_at(0, 4) + value_at(0, 8))};
    expect("ii->", in, 1, 0, want, 1);
}

Test(einsum, equations_that_are_none_are_refused) {
    static const char *const wrong[] = {"ij,jk->il", "ij->ij", "ij,jk,kl->il", "i,jk->ik",
                                        "ij,jk->ii", "i?,jk",  "......i,jk",   "ij,jk->ik->"};
    const operand in[] = {{2, {2, 3}}, {2, {3, 2}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dhow_tensor *out;
        cr_assert_eq(run(wrong[i], in, 2, &out), DHOW_INVALID_ARGUMENT, "'%s'", wrong[i]);
        cr_assert_not_null(strstr(dhow_last_error(), "Einsum (node 'sum'"), "%s",
                           dhow_last_error());
    }
    dhow_tensor *out;
    const operand odd[] = {{2, {2, 3}}, {2, {2, 2}}};
    cr_assert_eq(run("ij,jk->ik", odd, 2, &out), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "the extents 3 and 2"), "%s", dhow_last_error());
}

/* ---- scattering ---- */

Test(einsum, elements_that_come_thrice_are_reduced_in_order) {
    static const char *const names[] = {"add", "mul", "max", "min"};
    const float want[4][3] = {{1 + 2 + 3 + 4, 1 + 5, 1}, {24, 5, 1}, {4, 5, 1}, {1, 1, 1}};
    const int64_t three[] = {3}, four[] = {4}, index[] = {0, -3, 1, 0};
    for (int i = 0; i < 4; i++) {
        bytes g = {0}, n = node_of("ScatterElements", "scatter", "x i u", "y"), t = {0};
        const float ones[] = {1, 1, 1}, updates[] = {2, 3, 5, 4};
        dhow_tensor *in[2], *out = NULL;
        dhow_model *model;
        void *data;
        add_text(&n, "reduction", names[i]);
        put_message(&g, GRAPH_NODE, &n);
        put_number(&t, 1, 4);
        put_number(&t, 2, 7);
        for (int k = 0; k < 4; k++) put_number(&t, 7, (uint64_t)index[k]);
        put_text(&t, 8, "i");
        put_message(&g, GRAPH_INITIALIZER, &t);
        n = value_of("x", 1, three);
        put_message(&g, GRAPH_INPUT, &n);
        n = value_of("u", 1, four);
        put_message(&g, GRAPH_INPUT, &n);
        n = value_of("y", 1, three);
        put_message(&g, GRAPH_OUTPUT, &n);
        bytes file = model_of(18, &g);
        OK(load_bytes(&file, &model));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, three, ones, &in[0]));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, four, updates, &in[1]));
        OK(dhow_model_run(model, NULL, in, 2, &out, 1));
        OK(dhow_tensor_host_ptr(out, &data));
        for (int k = 0; k < 3; k++)
            cr_assert_float_eq(((float *)data)[k], want[i][k], 1e-5, "%s: element %d is %g",
                               names[i], k, (double)((float *)data)[k]);
        dhow_tensor_release(out);
        dhow_tensor_release(in[0]);
        dhow_tensor_release(in[1]);
        dhow_model_release(model);
        bytes_free(&file);
    }
}
