/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of one image whose results are added are one, and what scales their results goes
 * into the weights: they compute what they did apart.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/optimise.h"
#include "model/graph/model.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(branches, .init = set_up, .fini = tear_down, .timeout = 60);

enum { CHANNELS = 4, MOST = 4096 };

/* Weights of 4 x 4, 1 x 4 and 2 x 4 channels, and what scales and shifts channels. */
static const char k_parts[] =
    "output y; floats w9 16 9; floats w3 16 3; floats w1 16 1; floats d9 4 9; floats d1 4 1; "
    "floats w27 16 27; "
    "ints s9 4 4 3 3; ints s3 4 4 3 1; ints s1 4 4 1 1; ints t9 4 1 3 3; ints t1 4 1 1 1; ints r3 "
    "4 4 3; ints r1 4 4 1; "
    "ints v3 4 4 3 3 3; ints v1 4 4 1 1 1; "
    "node Reshape a w9 s9 -> k3; node Reshape b w3 s3 -> k31; node Reshape c w1 s1 -> k1; node "
    "Reshape d d9 t9 -> e3; "
    "node Reshape e d1 t1 -> e1; node Reshape f w3 r3 -> l3; node Reshape g w1 r1 -> l1; node "
    "Reshape h w27 v3 -> m3; "
    "node Reshape i w1 v1 -> m1; floats p 4; floats q 4; floats mean 4; floats variance 4; floats "
    "column 4 1; ints cs 4 1 1; "
    "node Reshape j column cs -> row; ";

typedef struct outcome {
    uint32_t steps;
    int64_t count;
    float values[MOST];
} outcome;

/* The model reads from the file for as long as it is there. */
static dhow_model *load(const char *input, const char *nodes, bytes *file) {
    char text[4096];
    dhow_model *m;
    (void)snprintf(text, sizeof text, "%s; %s %s", input, k_parts, nodes);
    bytes graph = graph_of_text(text);
    *file = model_of(16, &graph);
    OK(load_bytes(file, &m));
    return m;
}

/* Steps but copies, and fills of padded channels: how images lie in memory differs by processor. */
static uint32_t steps_of(const dhow_model *m) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    uint32_t count = 0;
    OK(dhow_model_get_summary(m, &summary));
    for (uint32_t i = 0; i < summary.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        count += strcmp(step.kernel, "copy") != 0 && strcmp(step.kernel, "fill") != 0;
    }
    return count;
}

static void run(dhow_model *m, int32_t rank, int64_t extent, outcome *out) {
    int64_t shape[5] = {2, CHANNELS, extent, extent, extent}, count = 1;
    float x[MOST];
    dhow_tensor *in, *y;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++) x[i] = (float)(i * 13 % 29 - 14) / 16;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, rank, shape, x, &in));
    OK(dhow_model_run(m, NULL, &in, 1, &y, 1));
    OK(dhow_tensor_get_info(y, &info));
    cr_assert_leq(info.count, MOST);
    out->steps = steps_of(m);
    out->count = info.count;
    OK(dhow_tensor_read(y, out->values, (size_t)info.count * sizeof(float)));
    dhow_tensor_release(in);
    dhow_tensor_release(y);
}

static void expect_near(const outcome *got, const outcome *want) {
    float largest = 0;
    cr_assert_eq(got->count, want->count);
    for (int64_t i = 0; i < want->count; i++) largest = fmaxf(largest, fabsf(want->values[i]));
    cr_expect_gt(largest, 0);
    for (int64_t i = 0; i < want->count; i++)
        cr_assert_float_eq(got->values[i], want->values[i], 4e-6f * largest,
                           "element %d is %g, not %g", (int)i, got->values[i], want->values[i]);
}

static uint32_t g_others = DHOWI_OPTIMISE_ALL, g_tried = DHOWI_OPTIMISE_BRANCHES;

/* So many convolutions and maps in all, of two sizes of images, and in turns with the first again.
 */
static void expect_steps(const char *input, const char *nodes, int32_t rank, uint32_t steps) {
    bytes file;
    dhow_model *m = load(input, nodes, &file);
    static outcome apart[2], got;
    dhowi_optimisations = g_others & ~g_tried;
    for (int i = 0; i < 2; i++) {
        bytes again;
        dhow_model *other = load(input, nodes, &again);
        run(other, rank, 4 + i, &apart[i]);
        dhow_model_release(other);
        bytes_free(&again);
    }
    dhowi_optimisations = g_others;
    for (int i = 0; i < 3; i++) {
        run(m, rank, 4 + i % 2, &got);
        expect_near(&got, &apart[i % 2]);
        cr_expect_eq(got.steps, steps, "%u steps, not %u", got.steps, steps);
    }
    cr_expect(steps <= apart[0].steps);
    dhow_model_release(m);
    bytes_free(&file);
}

static const char k_image[] = "input x 2 4 -1 -1";

Test(branches, a_block_of_repvgg_is_one_convolution) {
    expect_steps(k_image,
                 "node Conv n x k3 q -> a pads=1,1,1,1; node Conv o x k1 -> b; node "
                 "BatchNormalization bb b p q mean variance -> bn; "
                 "node BatchNormalization s x p q mean variance -> c; node Add t a bn -> d; node "
                 "Add u c d -> e; node Relu v e -> y",
                 4, 1);
}

/* Or each plan would have weights of its own. */
Test(branches, plans_share_what_was_added_up) {
    bytes file;
    static outcome got;
    uint32_t sums = 0;
    dhow_model *m =
        load(k_image,
             "node Conv n x k3 q -> a pads=1,1,1,1; node Conv o x k1 -> b; node Add r a b -> c; "
             "node BatchNormalization s x p q mean variance -> d; node Add t c d -> y",
             &file);
    for (int64_t extent = 4; extent < 8; extent++) run(m, 4, extent, &got);
    for (uint32_t i = 0; i < m->graph.node_count; i++)
        for (const dhowi_folding *f = m->graph.nodes[i].foldings; f != NULL; f = f->next)
            sums += f->count == 3;
    cr_expect_eq(sums, 1, "%u", sums);
    dhow_model_release(m);
    bytes_free(&file);
}

Test(branches, four_alike_and_their_scale_are_one) {
    expect_steps(
        k_image,
        "node Conv n x e3 -> a group=4 pads=1,1,1,1; node Conv o x e3 p -> b group=4 pads=1,1,1,1; "
        "node Conv r x e3 -> c group=4 pads=1,1,1,1; node Conv s x e1 q -> d group=4; node Sum t a "
        "b c d x -> y",
        4, 1);
}

/* FastViT's: x + scale (mixed - normed), all of one image. */
Test(branches, a_difference_that_is_scaled_is_one) {
    expect_steps(k_image,
                 "node Conv n x e3 -> a group=4 pads=1,1,1,1; node BatchNormalization o x p q mean "
                 "variance -> b; "
                 "node Sub r a b -> c; node Mul s c row -> d; node Add t x d -> y",
                 4, 1);
}

Test(branches, windows_of_one_line_lie_within_larger_ones) {
    expect_steps(k_image,
                 "node Conv n x k31 -> a pads=1,0,1,0 strides=2,2; node Conv o x k3 -> b "
                 "pads=1,1,1,1 strides=2,2; "
                 "node Add r a b -> y",
                 4, 1);
}

Test(branches, numbers_by_channel_may_come_in_two_steps) {
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=1,1,1,1; node Mul o row x -> b; node Add r b row -> "
                 "c; node Add s c a -> y",
                 4, 1);
}

/* Another image is added between two of them: it stays, as the residual. */
Test(branches, what_else_is_added_stays) {
    expect_steps("input x 2 4 -1 -1",
                 "node Sigmoid n x -> z; node Conv o x k3 -> a pads=1,1,1,1; node Add r z a -> b; "
                 "node Conv s x k1 q -> c; "
                 "node Sub t b c -> d; node Relu u d -> y",
                 4, 2);
}

Test(branches, rows_and_volumes_too) {
    expect_steps("input x 2 4 -1",
                 "node Conv n x l3 -> a pads=1,1; node Conv o x l1 p -> b; node Add r a b -> y", 3,
                 1);
    /* A 1x1x1 convolution beside the others would be one of an image by then. */
    g_others = DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_VOLUMES;
    expect_steps("input x 2 4 -1 -1 -1",
                 "node Conv n x m3 -> a pads=1,1,1,1,1,1; node Conv o x m1 p -> b; node "
                 "BatchNormalization s b p q mean "
                 "variance -> c; node Add r a c -> y",
                 5, 1);
    g_others = DHOWI_OPTIMISE_ALL;
}

Test(branches, one_weight_may_serve_several) {
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=1,1,1,1; node Conv o x k3 p -> b pads=1,1,1,1; node "
                 "Add r a b -> c; "
                 "node Conv s c k3 -> y pads=1,1,1,1",
                 4, 2);
}

/* One of two places in a sum of more than eight was left out of the merged convolution, and read
 * what was no longer written. */
Test(branches, one_that_is_added_twice_to_many_is_added_twice) {
    expect_steps(k_image,
                 "node Conv a x k3 -> a pads=1,1,1,1; node Add b a a -> h1; "
                 "node Conv c x k1 -> g1; node Add d h1 g1 -> h2; "
                 "node Conv e x k3 p -> g2 pads=1,1,1,1; node Sub f h2 g2 -> h3; "
                 "node Conv g x k1 q -> g3; node Add h h3 g3 -> h4; "
                 "node Conv i x k3 q -> g4 pads=1,1,1,1; node Add j h4 g4 -> h5; "
                 "node Conv k x k1 p -> g5; node Add l h5 g5 -> h6; "
                 "node Conv m x k3 -> g6 pads=1,1,1,1; node Add n h6 g6 -> h7; "
                 "node Conv o x k1 -> g7; node Add r h7 g7 -> y",
                 4, 1);
}

Test(branches, what_somebody_else_reads_stays_apart) {
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=1,1,1,1; node Conv o x k1 -> b; node Add r a b -> c; "
                 "node Mul s c b -> y",
                 4, 3);
}

Test(branches, other_windows_stay_apart) {
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=2,2,2,2 dilations=2,2; node Conv o x k3 p -> b "
                 "pads=1,1,1,1; node Add r a b -> y",
                 4, 2);
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=0,0,2,2; node Conv o x k31 p -> b pads=1,0,1,0; node "
                 "Add r a b -> y",
                 4, 2);
    expect_steps(k_image,
                 "node Conv n x k3 -> a pads=1,1,1,1; node Conv o x e3 -> b pads=1,1,1,1 group=4; "
                 "node Add r a b -> y",
                 4, 2);
}

/* As in each block of HGNetV2, whose maps took a tenth of its time. */
Test(branches, one_number_for_all_behind_bounds_is_part_of_the_weights) {
    static const char k_numbers[] = "floats s 1; floats t 1; node Neg ns s -> m; ";
    static const struct {
        const char *behind;
        uint32_t steps;
    } ends[] = {
        {"node Relu u c -> d; node Mul v d s -> e; node Add w e t -> y", 1},
        {"node Relu u c -> d; node Mul v d m -> e; node Add w e t -> y", 1},
        {"node Relu u c -> d; node Mul v d s -> y", 1},
        {"node Relu u c -> d; node Mul v d m -> y", 1},
        {"node Relu u c -> d; node Add v d m -> y", 1},
        {"node Relu u c -> d; node Mul v d row -> y", 2},
        {"node Relu u c -> d; node Mul v d m -> e; node Add w e c -> y", 2},
    };
    g_tried = DHOWI_OPTIMISE_WEIGHTS;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char nodes[512];
        (void)snprintf(nodes, sizeof nodes, "%s node Conv n x k3 p -> c pads=1,1,1,1; %s",
                       k_numbers, ends[i].behind);
        expect_steps(k_image, nodes, 4, ends[i].steps);
    }
    g_tried = DHOWI_OPTIMISE_BRANCHES;
}
