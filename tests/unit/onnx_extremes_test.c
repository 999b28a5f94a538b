/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in tensors that say where a kernel reads or how much it does - infinities, NaN, what is
 * far outside - end soon and in what ONNX Runtime gives, or in NaN where it stops with an error.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_extremes, .init = set_up, .fini = tear_down, .timeout = 60);

#define COUNT(array) (int64_t)(sizeof(array) / sizeof(array)[0])

/* What a graph with a float input x [count] computes, whose first elements are compared. */
static void expect(const char *text, const float *x, int64_t count, const float *y,
                   int64_t y_count) {
    dhow_model *model = NULL;
    dhow_tensor *in, *out = NULL;
    void *data;
    bytes graph = graph_of_text(text), file = model_of(20, &graph);
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, &count, x, &in));
    OK(load_bytes(&file, &model));
    OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
    OK(dhow_tensor_host_ptr(out, &data));
    for (int64_t i = 0; i < y_count; i++) {
        const float is = ((float *)data)[i];
        cr_expect(is == y[i] || fabsf(is - y[i]) < 1e-6f || (isnan(is) && isnan(y[i])),
                  "%s of %g %g %g %g: %lld is %g, not %g", strstr(text, "node"), (double)x[0],
                  (double)x[1], (double)x[2], (double)x[3], (long long)i, (double)is, (double)y[i]);
    }
    dhow_tensor_release(out);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
}

/* The samples of a region are as many as it has pixels: without an end where it has none. */
Test(onnx_extremes, regions_of_any_extent_are_sampled_soon) {
    static const struct {
        float region[4], mean, largest;
    } cases[] = {
        {{0, 0, INFINITY, INFINITY}, NAN, NAN},
        {{-INFINITY, 0, 2, 2}, NAN, NAN},
        {{0, 0, NAN, 2}, NAN, NAN},
        {{0, NAN, 2, 2}, NAN, NAN},
        {{-3e38f, -3e38f, 3e38f, 3e38f}, NAN, NAN},
        {{0, 0, 1e30f, 1e30f}, 0, 0.1f},
        {{-1e30f, -1e30f, 1e30f, 1e30f}, 0, 0},
        {{1e30f, 1e30f, 1.1e30f, 1.1e30f}, 0, 0},
        {{-1e4f, -1e4f, 1e4f, 1e4f}, 0, 0.1f},
        {{3, 3, -1e30f, -1e30f}, 0, 0},
        {{2, 2, 4, 4}, 0.1f, 0.1f},
    };
    static const char graph[] =
        "input x 4; output y; ints regions 1 4; ints shape 1 1 4 4; ints b 0; floats v 1; "
        "node Reshape a x regions -> r; node Expand e v shape -> i; "
        "node RoiAlign n i r b -> y sampling_ratio=%d mode='%s' spatial_scale=%s";
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, graph, 0, "avg", "1.");
        expect(text, cases[i].region, 4, &cases[i].mean, 1);
        (void)snprintf(text, sizeof text, graph, 0, "max", "1.");
        expect(text, cases[i].region, 4, &cases[i].largest, 1);
    }
    (void)snprintf(text, sizeof text, graph, 0, "avg", "1.0e30");
    expect(text, cases[5].region, 4, &cases[0].mean, 1);
}

/* The search for a pivot passed over NaN, and what is singular beside it was 0. */
Test(onnx_extremes, determinants_of_what_is_not_finite_are_nan) {
    static const struct {
        float matrix[9], is;
    } cases[] = {
        {{0, 0, NAN, 0, 0, 1, 1, 2, 3}, NAN},      {{0, 1, 2, 0, NAN, 1, 0, 1, 1}, NAN},
        {{1, 2, 3, NAN, 2, 1, 2, 2, 2}, NAN},      {{0, 0, 0, 0, NAN, 1, 0, 2, 3}, NAN},
        {{0, 0, 0, 0, INFINITY, 1, 0, 2, 3}, NAN}, {{INFINITY, 0, 0, 0, 1, 0, 0, 0, 1}, INFINITY},
        {{0, 0, 0, 0, 1, 1, 0, 2, 3}, 0},          {{0, 2, 0, 1, 0, 0, 0, 0, 3}, -6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect("input x 9; output y; ints s 3 3; node Reshape r x s -> m; node Det n m -> y",
               cases[i].matrix, COUNT(cases[i].matrix), &cases[i].is, 1);
}
