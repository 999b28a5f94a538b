/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of operators of ONNX files against central differences, in f64 on the device that
 * DHOW_DEVICE names. v is x times the parameter w, so that derivatives by v pass on.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"
#include "onnx_text.h"
#include "train_fixture.h"

TestSuite(onnx_gradients, .init = open_device, .fini = close_device, .timeout = 300);

typedef struct graph {
    int opset;
    const char *shape; /* of x and w */
    const char *text;  /* from v to y */
    const char *rank;  /* of y, as open extents */
} graph;

#define D1 "-1"
#define D2 "-1 -1"
#define D3 "-1 -1 -1"
#define D4 "-1 -1 -1 -1"
#define D5 "-1 -1 -1 -1 -1"

static const graph k_elementwise[] = {
    {22, "3 4", "node Celu n v -> y alpha=0.7", D2},
    {22, "3 4", "node Selu n v -> y", D2},
    {22, "3 4", "node Selu n v -> y alpha=1.5 gamma=0.8", D2},
    {22, "3 4", "node ThresholdedRelu n v -> y alpha=0.1", D2},
    {22, "3 4", "node Shrink n v -> y lambd=0.2 bias=0.1", D2},
    {24, "3 4", "node Swish n v -> y", D2},
    {24, "3 4", "node Swish n v -> y alpha=1.7", D2},
    {28, "3 4", "doubles s 3 4; node SwiGLU n v s -> y alpha=0.6", D2},
    {28, "3 4", "doubles s 3 4; node SwiGLU n s v -> y", D2},
    {28, "3 4", "node Sin k v -> z; node SwiGLU n v z -> y", D2},
    {28, "3 4", "doubles s 3 4; node Mod n v s -> y", D2},
    {22, "3 4", "node HardSwish n v -> y", D2},
    {22, "3 4", "node Softsign n v -> y", D2},
    {22, "3 4", "node Mish n v -> y", D2},
    {22, "3 4", "node Elu n v -> y alpha=0.7", D2},
    {22, "3 4", "node HardSigmoid n v -> y", D2},
    {22, "3 4", "doubles s 4; node PRelu n v s -> y", D2},
    {22, "3 4", "doubles s 3 1; node PRelu n v s -> y", D2},
    {22, "3 4", "doubles s 4; doubles t 3 1; node Mean n v s t -> y", D2},
    {22, "3 4", "doubles s 3 4; node Mod n v s -> y fmod=1", D2},
    {22, "3 4", "doubles s 4; node Exp k v -> z; node Pow n z s -> y", D2},
    {22, "3 4", "node Cast n v -> y to=11", D2},
    {22, "3 4", "doubles s 1; node CastLike n v s -> y", D2},
    /* what is no float has no slope, and is passed over */
    {22, "3 4",
     "doubles s 3 4; node Greater g v s -> a; node IsNaN i v -> b; node Not j b -> c;"
     "node And k a c -> d; node Where n d v s -> y",
     D2},
    {22, "3 4", "doubles s 12; node Shape g v -> a; node Reshape n s a -> b; node Mul m2 b v -> y",
     D2},
    {22, "3 4",
     "node Shape g v -> a; node ConstantOfShape c a -> z; node Cast q z -> u to=11;"
     "node Sub n u v -> y",
     D2},
    {22, "3 4",
     "node Shape g v -> a; node Size z v -> b; number k 0; number d 1;"
     "node Range r k b d -> e; node Cast q e -> f to=11; node Reshape p f a -> h;"
     "node Mul n v h -> y",
     D2},
    {23, "2 2 3 4",
     "ints l 5 2; number k 0; number b 10; number d 1; node Range o k b d -> e;"
     "node Cast q e -> f to=11; node Reshape p f l -> a; node Cos t a -> c;"
     "node Sin u a -> s; ints j 0 1 2 4 1 3; ints h 2 3; node Reshape r j h -> i;"
     "node RotaryEmbedding n v c s i -> y interleaved=1",
     D4},
};

static const graph k_shapes[] = {
    {22, "4 5 6", "ints s 1 0; ints e 4 5; ints a 0 2; ints t 2 3; node Slice n v s e a t -> y",
     D3},
    {22, "4 5 6", "ints s -1 5; ints e -9 1; ints a 1 2; ints t -2 -3; node Slice n v s e a t -> y",
     D3},
    {22, "4 5 6",
     "ints s 2; ints e 2; ints a 1; node Slice k v s e a -> z;"
     "node Concat n z v -> y axis=1",
     D3},
    {22, "4 7",
     "ints s 2 3 2; node Split n v s -> a b c axis=1; node Mul k a c -> d;"
     "node Concat j d b -> y axis=1",
     D2},
    {22, "4 7", "node Split n v -> a b c axis=1 num_outputs=3; node Sigmoid k b -> y", D2},
    {22, "3 4", "ints p 1 0 2 3; node Pad n v p -> y", D2},
    {22, "3 4", "ints p 1 -1 -1 3; node Pad n v p -> y", D2},
    {22, "3 4", "ints p 2 1 1 3; node Pad n v p -> y mode='reflect'", D2},
    {22, "3 4", "ints p 2 0 1 3; node Pad n v p -> y mode='edge'", D2},
    {22, "2 3 4", "ints p 0 2 1 0 3 0; node Pad n v p -> y mode='wrap'", D3},
    {22, "2 8 2 3", "node DepthToSpace n v -> y blocksize=2", D4},
    {22, "2 8 2 3", "node DepthToSpace n v -> y blocksize=2 mode='CRD'", D4},
    {22, "2 3 4 6", "node SpaceToDepth n v -> y blocksize=2", D4},
    {28, "2 3 4 6", "node SpaceToDepth n v -> y blocksize=2 mode='CRD'", D4},
    {22, "2 3 2", "ints r 2 1 3; node Tile n v r -> z; doubles s 4 3 6; node Mul k z s -> y", D3},
    {22, "2 3 4", "number k 1; node Trilu n v k -> y upper=0", D3},
    {22, "3 5", "number a 1; node CumSum n v a -> y", D2},
    {22, "3 5", "number a 0; node CumSum n v a -> y exclusive=1 reverse=1", D2},
    {22, "3 5", "ints s 5 2; node CenterCropPad n v s -> y", D2},
    {22, "4 3 2", "ints l 2 4 1; node ReverseSequence n v l -> y", D3},
    {22, "2 3 4 5", "ints s 2 3 7 3; node Resize n v - - s -> y mode='linear'", D4},
    {22, "2 2 4 5", "ints s 2 2 8 10; node Resize n v - - s -> y", D4},
    {22, "2 2 4 5", "ints s 2 2 6 8; node Resize n v - - s -> y mode='cubic'", D4},
    {22, "1 2 6 7", "ints s 1 2 3 4; node Resize n v - - s -> y mode='linear' antialias=1", D4},
};

static const graph k_index[] = {
    {22, "4 5", "ints i 1 -1 1 0; node Gather n v i -> y axis=0", D2},
    {22, "2 4 3", "ints i 1 -1 1 0 3; node Gather n v i -> y axis=1", D3},
    {22, "2 4 3", "ints i 2; node Gather n v i -> y axis=-1", D3},
    {22, "3 4",
     "ints j 1 -2 1 0 3 3; ints h 3 2; node Reshape r j h -> i;"
     "node GatherElements n v i -> y axis=1",
     D2},
    {22, "3 4",
     "ints j 1 -2 1 0 2 0; ints h 2 3; node Reshape r j h -> i;"
     "node GatherElements n v i -> y axis=0",
     D2},
    {22, "3 4 2",
     "ints j 1 -2 1 1 0 3; ints h 3 2; node Reshape r j h -> i;"
     "node GatherND n v i -> y",
     D2},
    {22, "3 4 2",
     "ints j 1 -2 1; ints h 3 1; node Reshape r j h -> i;"
     "node GatherND n v i -> y batch_dims=1",
     D2},
    {22, "3 4",
     "doubles u 2 3; ints j 1 0 2 0 2 1; ints h 2 3; node Reshape r j h -> i;"
     "node ScatterElements n v i u -> y axis=0",
     D2},
    {22, "3 4",
     "doubles u 2 3; ints j 1 1 1 0 2 0; ints h 2 3; node Reshape r j h -> i;"
     "node ScatterElements n v i u -> y axis=0 reduction='add'",
     D2},
    {22, "3 4",
     "doubles u 2 4; ints j 2 0; ints h 2 1; node Reshape r j h -> i;"
     "node ScatterND n v i u -> y",
     D2},
    {22, "3 4",
     "doubles u 2 4; ints j 2 2; ints h 2 1; node Reshape r j h -> i;"
     "node ScatterND n v i u -> y reduction='add'",
     D2},
    {22, "3 5", "ints k 2; node TopK n v k -> y i", D2},
    {22, "5 3", "ints k 3; node TopK n v k -> y i axis=0 largest=0", D2},
};

static const graph k_reductions[] = {
    {22, "3 4 2", "ints a 1; node ReduceL1 n v a -> y", D3},
    {22, "3 4 2", "ints a 0 2; node ReduceL2 n v a -> y keepdims=0", D1},
    {22, "3 4", "node Exp k v -> z; ints a 1; node ReduceLogSum n z a -> y", D2},
    {22, "3 4", "ints a 1; node ReduceLogSumExp n v a -> y", D2},
    {22, "3 4 2", "ints a 0 1; node ReduceMax n v a -> y", D3},
    {22, "3 4 2", "ints a -1; node ReduceMin n v a -> y keepdims=0", D2},
    {22, "3 4", "ints a 1; node ReduceProd n v a -> y", D2},
    {22, "3 4", "ints a 0; node Relu k v -> z; node ReduceProd n z a -> y", D2},
    {22, "3 4", "ints a 0; node ReduceSumSquare n v a -> y", D2},
    {22, "3 4", "ints a 1; node ReduceMean n v a -> y", D2},
    {22, "3 4", "node ReduceSum n v -> y noop_with_empty_axes=1", D2},
    {22, "3 4", "node ReduceSumSquare n v -> y", D2},
    {22, "2 3 4", "node LpNormalization n v -> y axis=1", D3},
    {22, "2 3 4", "node LpNormalization n v -> y p=1", D3},
    {22, "2 5 3", "node LRN n v -> y size=3 alpha=0.3 beta=0.6 bias=1.5", D3},
    {22, "2 5 3", "node LRN n v -> y size=4 alpha=0.3", D3},
    {22, "2 3 4 2", "node MeanVarianceNormalization n v -> y", D4},
    {22, "2 3 4 2", "node GlobalMaxPool n v -> y", D4},
    {22, "2 3 4 2", "node GlobalLpPool n v -> y", D4},
    {22, "2 3 4", "node GlobalLpPool n v -> y p=1", D3},
    {22, "2 3 4 2", "node GlobalAveragePool n v -> y", D4},
};

static const graph k_windows[] = {
    {22, "2 4 7",
     "doubles s 6 2 3; doubles c 6; node Conv n v s c -> y group=2 strides=2, pads=1,2", D3},
    {22, "2 4 5 6", "doubles s 3 4 3 2; node Conv n v s -> y dilations=1,2 pads=1,0,2,1", D4},
    {22, "2 2 4 3 5", "doubles s 3 2 2 3 2; doubles c 3; node Conv n v s c -> y pads=1,1,0,0,1,2",
     D5},
    {22, "1 4 4 5 5",
     "doubles s 6 2 2 3 2; node Conv n v s -> y group=2 strides=2,1,3 "
     "dilations=2,1,1 pads=1,0,1,0,2,1",
     D5},
    {22, "2 4 5",
     "doubles s 4 2 3; doubles c 4; node ConvTranspose n v s c -> y group=2 strides=2, "
     "pads=1,0 output_padding=1,",
     D3},
    {22, "2 3 4 5", "doubles s 3 2 3 2; doubles c 2; node ConvTranspose n v s c -> y", D4},
    {22, "2 4 3 4",
     "doubles s 4 3 3 3; node ConvTranspose n v s -> y group=2 strides=2,3 "
     "dilations=1,2 pads=1,2,0,1 output_padding=1,2",
     D4},
    {22, "1 2 3 4", "doubles s 2 2 1 2; node ConvTranspose n v s -> y strides=3,4", D4},
    {22, "1 2 3 4",
     "doubles s 2 2 3 3; node ConvTranspose n v s -> y strides=2,2 "
     "auto_pad='SAME_UPPER'",
     D4},
    {22, "2 2 3 2 4",
     "doubles s 2 3 2 3 2; doubles c 3; node ConvTranspose n v s c -> y "
     "strides=2,1,2 pads=1,1,0,0,1,1",
     D5},
    {22, "1 4 2 3 2",
     "doubles s 4 2 2 2 3; node ConvTranspose n v s -> y group=2 strides=1,2,2 "
     "dilations=1,1,2 output_padding=0,1,1",
     D5},
    {22, "2 2 4 3 4", "node MaxPool n v -> y kernel_shape=2,2,3 strides=2,1,1 pads=1,0,1,0,0,1",
     D5},
    {22, "2 2 4 3 4",
     "node AveragePool n v -> y kernel_shape=2,2,3 strides=2,1,2 "
     "pads=1,0,1,0,0,1",
     D5},
    {22, "2 2 5 4", "node AveragePool n v -> y kernel_shape=3,2 pads=1,0,1,1 count_include_pad=1",
     D4},
    {22, "2 2 7", "node MaxPool n v -> y kernel_shape=3, strides=2, dilations=2,", D3},
    {22, "2 2 5 4", "node LpPool n v -> y kernel_shape=3,2 strides=2,1 pads=1,0,1,1", D4},
    {22, "2 2 6", "node LpPool n v -> y kernel_shape=3, p=3", D3},
};

/* Sums over the steps, times the last states. */
#define LAST "ints q 0; node ReduceSum g o q -> e keepdims=0; node Mul j e s -> "
static const graph k_recurrent[] = {
    {22, "4 2 3", "doubles a 1 8 3; doubles r 1 8 2; node LSTM n v a r -> y hidden_size=2", D4},
    {22, "4 2 3",
     "doubles a 1 8 3; doubles r 1 8 2; doubles b 1 16; doubles h 1 2 2;"
     "doubles c 1 2 2; node LSTM n v a r b - h c -> o s t hidden_size=2 "
     "direction='reverse';" LAST "u; node Mul k u t -> y",
     D3},
    {22, "3 2 3",
     "doubles a 2 8 3; doubles r 2 8 2; doubles b 2 16; doubles h 2 2 2;"
     "doubles c 2 2 2; doubles p 2 6; node LSTM n v a r b - h c p -> o s t "
     "direction='bidirectional';" LAST "u; node Mul k u t -> y",
     D3},
    {22, "4 3 2",
     "doubles a 1 8 2; doubles r 1 8 2; doubles b 1 16; doubles h 1 3 2; ints l 4 2 3;"
     "doubles c 1 3 2; doubles p 1 6; node LSTM n v a r b l h c p -> o s t;" LAST
     "u; node Mul k u t -> y",
     D3},
    {22, "4 3 2",
     "doubles a 2 8 2; doubles r 2 8 2; doubles b 2 16; doubles h 2 3 2; ints l 4 2 3;"
     "doubles c 2 3 2; doubles p 2 6; node LSTM n v a r b l h c p -> o s t "
     "direction='bidirectional';" LAST "u; node Mul k u t -> y",
     D3},
    {22, "2 4 3",
     "doubles a 1 8 3; doubles r 1 8 2; doubles h 2 1 2; node LSTM n v a r - - h -> "
     "o s t layout=1; node Sigmoid k t -> y",
     D3},
    {22, "1 2 3", "doubles a 1 8 3; doubles r 1 8 2; doubles h 1 2 2; node LSTM n v a r - - h -> y",
     D4},
    {22, "4 2 3", "doubles a 1 6 3; doubles r 1 6 2; node GRU n v a r -> y hidden_size=2", D4},
    {22, "4 2 3",
     "doubles a 1 6 3; doubles r 1 6 2; doubles b 1 12; doubles h 1 2 2;"
     "node GRU n v a r b - h -> o s direction='reverse';" LAST "y",
     D3},
    {22, "4 2 3",
     "doubles a 2 6 3; doubles r 2 6 2; doubles b 2 12; doubles h 2 2 2;"
     "node GRU n v a r b - h -> o s direction='bidirectional' linear_before_reset=1;" LAST "y",
     D3},
    {22, "4 3 2",
     "doubles a 1 6 2; doubles r 1 6 2; doubles b 1 12; doubles h 1 3 2; ints l 4 2 3;"
     "node GRU n v a r b l h -> o s linear_before_reset=1;" LAST "y",
     D3},
    {22, "4 3 2",
     "doubles a 1 6 2; doubles r 1 6 2; doubles b 1 12; doubles h 1 3 2; ints l 4 2 3;"
     "node GRU n v a r b l h -> o s direction='reverse';" LAST "y",
     D3},
    {22, "2 4 3",
     "doubles a 1 6 3; doubles r 1 6 2; doubles b 1 12; node GRU n v a r b -> y "
     "layout=1",
     D4},
    {22, "4 2 3", "doubles a 1 6 3; doubles r 1 6 2; doubles b 1 12; node GRU n v a r b -> - y",
     D3},
    {22, "4 3 2",
     "doubles a 1 2 2; doubles r 1 2 2; doubles b 1 4; doubles h 1 3 2; ints l 4 2 3;"
     "node RNN n v a r b l h -> o s;" LAST "y",
     D3},
    {22, "4 2 3",
     "doubles a 2 2 3; doubles r 2 2 2; node RNN n v a r -> y "
     "direction='bidirectional'",
     D4},
};

/* ---- a graph as a model that is trained ---- */

static bytes file_of(const graph *g) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "double x %s; doubles w %s; node Mul m x w -> v; %s; result y %s", g->shape,
                   g->shape, g->text, g->rank);
    bytes nodes = graph_of_text(text);
    return model_of(g->opset, &nodes);
}

static dhow_tensor *filled_like(dhow_device *device, const dhow_tensor_info *like, int64_t seed) {
    double data[MOST];
    dhow_tensor *t;
    cr_assert_leq(like->count, MOST);
    for (int64_t i = 0; i < like->count; i++) {
        const double x =
            (double)((uint64_t)(i + seed) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
        data[i] = fabs(x) < 0.05 ? x + 0.1 : x;
    }
    OK(dhow_tensor_from_data(device, DHOW_F64, like->rank, like->shape, data, &t));
    return t;
}

static void check_graph(const graph *g) {
    bytes file = file_of(g);
    trial t = {0};
    dhow_tensor *out;
    dhow_model_value_info x = DHOW_INIT(dhow_model_value_info);
    dhow_tensor_info like = DHOW_INIT(dhow_tensor_info);
    cr_assert_eq(dhow_model_load_memory(g_context, file.data, file.length, &t.model), DHOW_OK,
                 "%s: %s", g->text, dhow_last_error());
    OK(dhow_model_to(t.model, g_device));
    OK(dhow_model_input_at(t.model, 0, &x));
    like.rank = x.rank;
    like.count = 1;
    for (int32_t i = 0; i < x.rank; i++) like.count *= like.shape[i] = x.shape[i];
    t.x = filled_like(g_device, &like, 50);
    cr_assert_eq(dhow_model_run(t.model, NULL, &t.x, 1, &out, 1), DHOW_OK, "%s: %s", g->text,
                 dhow_last_error());
    OK(dhow_tensor_get_info(out, &like));
    t.target = filled_like(g_device, &like, 77);
    dhow_tensor_release(out);
    cr_assert_eq(dhow_trainer_create(
                     t.model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE), &t.trainer),
                 DHOW_OK, "%s: %s", g->text, dhow_last_error());
    for (uint32_t k = 0; k < dhow_trainer_parameter_count(t.trainer); k++)
        check_parameter(&t, g->text, k);
    dhow_trainer_release(t.trainer);
    dhow_model_release(t.model);
    dhow_tensor_release(t.x);
    dhow_tensor_release(t.target);
    bytes_free(&file);
}

#define ALL(name, list)                                                                     \
    Test(onnx_gradients, name) {                                                            \
        for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++) check_graph(&(list)[i]); \
    }

ALL(what_works_by_element_is_what_central_differences_say, k_elementwise)
ALL(what_moves_elements_is_what_central_differences_say, k_shapes)
ALL(what_takes_elements_by_index_is_what_central_differences_say, k_index)
ALL(reductions_and_norms_are_what_central_differences_say, k_reductions)
ALL(networks_through_time_are_what_central_differences_say, k_recurrent)
ALL(convolutions_and_pools_are_what_central_differences_say, k_windows)

/* ---- what has none ---- */

Test(onnx_gradients, an_operator_without_a_derivative_is_refused_by_its_name) {
    static const graph none = {22, "2 3 3", "node Det none v -> y", D1};
    bytes file = file_of(&none);
    dhow_model *m;
    dhow_trainer *trainer;
    OK(dhow_model_load_memory(g_context, file.data, file.length, &m));
    cr_assert_eq(
        dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE), &trainer),
        DHOW_UNSUPPORTED);
    cr_expect_not_null(strstr(dhow_last_error(), "no derivative of Det (node 'none'"), "%s",
                       dhow_last_error());
    dhow_model_release(m);
    bytes_free(&file);
}
