/* SPDX-License-Identifier: Apache-2.0
 *
 * Broken ONNX files of many kinds: each is a status with the word that tells what is wrong, soon
 * and in little memory. What runs are graphs of one input x, 8 floats.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_bad_files, .init = set_up, .fini = tear_down, .timeout = 120);

enum { MOST = 8 << 20 };
static uint64_t g_asked;
static bool count_bytes(size_t size) {
    if (size >= 1 << 16) g_asked += size;
    return g_asked < UINT64_C(1) << 30;
}

static dhow_status run_model(dhow_model *model) {
    static const int64_t eight[] = {8};
    dhow_tensor *x, *out[8] = {NULL};
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, eight, 2, &x));
    dhow_status status = dhow_model_run(model, NULL, &x, 1, out, dhow_model_output_count(model));
    for (int i = 0; i < 8; i++) dhow_tensor_release(out[i]);
    dhow_tensor_release(x);
    return status;
}

static dhow_status load_and_run(const void *data, size_t length) {
    dhow_model *model = NULL;
    g_asked = 0;
    dhowi_alloc_set_hook(count_bytes);
    dhow_status status = dhow_model_load_memory(g_context, data, length, &model);
    if (status == DHOW_OK) status = run_model(model);
    dhowi_alloc_set_hook(NULL);
    dhow_model_release(model);
    return status;
}

static void expect(const char *what, dhow_status status, const char *word) {
    const char *error = dhow_last_error();
    const bool known = status == DHOW_CORRUPT || status == DHOW_UNSUPPORTED ||
                       status == DHOW_INVALID_ARGUMENT || status == DHOW_OUT_OF_RANGE ||
                       status == DHOW_NOT_FOUND || status == DHOW_IO_ERROR;
    cr_expect(known, "%s: %s: %s", what, dhow_status_name(status), error);
    if (status == DHOW_OK) return;
    cr_expect_not_null(strstr(error, word), "%s: '%s' does not say '%s'", what, error, word);
    cr_expect_lt(g_asked, (uint64_t)MOST, "%s: %llu bytes were taken", what,
                 (unsigned long long)g_asked);
}

/* ---- graphs ---- */

typedef struct bad_graph {
    const char *what, *graph, *word;
} bad_graph;

static void expect_all(const bad_graph *bad, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "input x 8; %s; output y", bad[i].graph);
        bytes graph = graph_of_text(text), file = model_of(18, &graph);
        expect(bad[i].what, load_and_run(file.data, file.length), bad[i].word);
        bytes_free(&file);
    }
}
#define EXPECT_ALL(table) expect_all(table, sizeof(table) / sizeof *(table))

Test(onnx_bad_files, graphs_that_do_not_hang_together_are_refused) {
    static const bad_graph bad[] = {
        {"an unknown operator", "node Frobnicate n x -> y", "Frobnicate (node 'n'"},
        {"an input that is nowhere", "node Neg n z -> y", "'z' is defined nowhere"},
        {"an output that is nowhere", "node Neg n x -> z", "output 'y' is computed by no node"},
        {"a cycle", "node Add a x y -> z; node Neg n z -> y", "cycle"},
        {"a node that reads itself", "node Add a x y -> y", "cycle"},
        {"a result twice", "node Neg a x -> y; node Exp b x -> y", "'y' is defined twice"},
        {"an input twice", "input x 8; node Neg a x -> y", "'x' is defined twice"},
        {"an initializer twice", "floats w 8; floats w 8; node Add a x w -> y",
         "'w' is defined twice"},
        {"a result like an initializer", "floats y 8; node Neg a x -> y", "'y' is defined twice"},
        {"too few inputs", "node Add a x -> y", "it has 1 inputs, the operator takes 2 to 2"},
        {"too many inputs", "node Neg a x x -> y", "it has 2 inputs, the operator takes 1 to 1"},
        {"an input left out", "node Add a - x -> y", "input 0 is missing"},
        {"an output that the operator has not", "node Neg a x -> z y", "output 1 is not computed"},
        {"no node at all", "ints s 1", "output 'y'"},
        {"a loop without a body", "number n 2; node Loop l n - x -> y",
         "its body has 0 inputs and 0 outputs for 1 values that are"},
        {"a loop whose body gives too little",
         "number n 2; node Loop l n - x -> y body={input i; input c; input v; node Neg a v -> w; "
         "output w}",
         "its body has 3 inputs and 1 outputs for 1 values that are"},
        {"a loop whose body takes too little",
         "number n 2; node Loop l n - x -> y body={input i; node Neg a x -> w; output w; output w}",
         "its body has 1 inputs and 2 outputs for 1 values that are"},
        {"a loop whose trip count is a list",
         "ints n 2 2; node Loop l n - x -> y body={input i; input c; input v; node Neg a v -> w; "
         "node Identity b c -> d; output d; output w}",
         "the trip count has 2 numbers"},
        {"a branch that is missing",
         "number n 1; node Cast c n -> b to=9; node If i b -> y else_branch={node Neg a x -> w; "
         "output "
         "w}",
         "its branch has too few outputs"},
        {"a branch that gives nothing",
         "number n 1; node Cast c n -> b to=9; node If i b -> y then_branch={node Neg a x -> w} "
         "else_branch={node Neg a x -> w; output w}",
         "its branch has too few outputs"},
        {"a condition of two elements",
         "ints n 1 1; node Cast c n -> b to=9; node If i b -> y then_branch={node Neg a x -> w; "
         "output "
         "w} else_branch={node Neg a x -> w; output w}",
         "the condition has 2 numbers"},
        {"a branch that reads a name of another branch",
         "number n 1; node Cast c n -> b to=9; node If i b -> y then_branch={node Neg a x -> w; "
         "output "
         "w} else_branch={node Neg a w -> v; output v}",
         "'w' is defined nowhere"},
    };
    EXPECT_ALL(bad);
}

Test(onnx_bad_files, what_a_node_cannot_do_without_is_asked_for) {
    static const bad_graph bad[] = {
        {"a sum of nothing", "node Sum n x - x -> y", "input 1 is missing"},
        {"the largest of nothing", "node Max n x - x -> y", "input 1 is missing"},
        {"joining nothing", "node Concat n x - x -> y axis=0", "input 1 is missing"},
        {"a join without an axis", "node Concat n x x -> y", "attribute axis is missing"},
        {"blocks without a size", "node DepthToSpace n x -> y", "attribute blocksize is missing"},
        {"space without a size", "node SpaceToDepth n x -> y", "attribute blocksize is missing"},
        {"groups without a number",
         "ints s 1 4 2; floats w 4; node Reshape r x s -> z; node GroupNormalization n z w w -> y",
         "attribute num_groups is missing"},
        {"how many of the largest", "node TopK n x -> y i", "attribute k is missing"},
        {"dimensions without a place", "node Unsqueeze n x -> y", "it has no axes"},
        {"an attribute twice", "node Softmax n x -> y axis=0 axis=0", "'axis' is there twice"},
        {"a direction nobody knows", "node LSTM n x x x -> y direction='sideways'",
         "unsupported direction 'sideways'"},
    };
    EXPECT_ALL(bad);
}

Test(onnx_bad_files, shapes_that_only_count_right_are_refused) {
    static const bad_graph bad[] = {
        {"updates of another rank",
         "ints i 2 0; ints h 2 1; floats u 1 2; node Reshape r i h -> j; node ScatterND n x j u -> "
         "y",
         "updates do not fit"},
        {"a scale that lies across",
         "floats z 2 3; floats s 3 2; node LayerNormalization n z s -> y axis=0",
         "do not broadcast"},
        {"a bias that lies across",
         "floats z 2 3; floats s 3 2; node LayerNormalization n z z s -> y axis=0",
         "do not broadcast"},
        {"a root mean square's scale",
         "floats z 2 3; floats s 3 2; node SimplifiedLayerNormalization n z s -> y axis=0",
         "do not broadcast"},
        {"more scales than rows", "floats z 1 2; floats s 3; node QuantizeLinear n z s -> y axis=0",
         "f32[3], which does not fit f32[1, 2]"},
        {"scales of more rows", "floats z 1 2; floats s 3 2; node QuantizeLinear n z s -> y axis=0",
         "f32[3, 2], which does not fit f32[1, 2]"},
        {"scales along no axis",
         "floats z 2 2; floats s 2; node QuantizeLinear n z s -> y axis=4294967296",
         "axis 4294967296 of a tensor with 2 dimensions"},
        {"a region of another rank",
         "floats r 3; floats s 1; node Resize n x r s -> y mode='linear' "
         "coordinate_transformation_mode='tf_crop_and_resize'",
         "roi has 3 numbers for 1 axes"},
    };
    EXPECT_ALL(bad);
}

/* Kernels would read the bytes of one type as another, and past their end. */
Test(onnx_bad_files, weights_of_another_type_are_refused) {
    static const bad_graph bad[] = {
        {"a scale of f64", "doubles s 8; node LayerNormalization n x s -> y", "types f32 and f64"},
        {"a bias of f64", "floats s 8; doubles c 8; node LayerNormalization n x s c -> y",
         "types f32 and f64"},
        {"a root mean square's scale", "doubles s 8; node SimplifiedLayerNormalization n x s -> y",
         "types f32 and f64"},
        {"a convolution's bias",
         "ints h 1 1 8; ints g 1 1 1; floats q 1; ints c 1; node Reshape r x h -> z; node Reshape "
         "e q "
         "g -> w; node Conv n z w c -> y",
         "types f32 and i64"},
    };
    EXPECT_ALL(bad);
}

/* Each iteration is laid out; the plan ends at so many nodes. */
Test(onnx_bad_files, a_loop_without_an_end_is_refused) {
    bytes graph = graph_of_text(
        "input x 8; node Loop l - - x -> y body={input i; input c; input v; node Neg a v -> w; "
        "node "
        "Identity b c -> d; output d; output w}; output y");
    bytes file = model_of(16, &graph);
    cr_expect_eq(load_and_run(file.data, file.length), DHOW_UNSUPPORTED);
    cr_expect_not_null(strstr(dhow_last_error(), "more than 262144 nodes"), "%s",
                       dhow_last_error());
    /* 1.5 KiB a node, each growth of an array counted: two items and a step. */
    cr_expect_lt(g_asked, UINT64_C(384) << 20, "%llu bytes", (unsigned long long)g_asked);
    bytes_free(&file);
}

Test(onnx_bad_files, operators_with_impossible_operands_are_refused_by_their_nodes_names) {
    static const bad_graph bad[] = {
        {"extents that do not fit", "floats w 3; node Add n x w -> y",
         "f32[8] and f32[3] do not broadcast"},
        {"types that do not fit", "ints w 1; node Add n x w -> y", "inputs of types f32 and i64"},
        {"a product that does not fit", "floats w 3 3; node MatMul n x w -> y",
         "f32[1, 8] and f32[3, 3] do not fit"},
        {"a reshape of another count", "ints s 3 3; node Reshape n x s -> y",
         "8 elements cannot take a shape of 9"},
        {"a reshape with two open extents", "ints s -1 -1; node Reshape n x s -> y",
         "two extents of -1"},
        {"a reshape by a negative extent", "ints s -2 4; node Reshape n x s -> y",
         "extent -2 in a shape"},
        {"a reshape by floats", "floats s 1; node Reshape n x s -> y",
         "numbers of type f32 where integers are expected"},
        {"nine dimensions", "ints s 1 1 1 1 1 1 1 1 8; node Reshape n x s -> y",
         "the shape has 9 dimensions, dhow takes 8"},
        {"an axis that is not there", "node Softmax n x -> y axis=3",
         "axis 3 of a tensor with 1 dimensions"},
        {"an axis beyond 32 bits", "node Softmax n x -> y axis=4294967296",
         "axis 4294967296 of a tensor with 1 dimensions"},
        {"a concat along nothing", "node Concat n x x -> y axis=1",
         "axis 1 of a tensor with 1 dimensions"},
        {"a concat of other ranks", "floats w 2 2; node Concat n x w -> y axis=0",
         "input 1 is f32[2, 2], the first is f32[8]"},
        {"a permutation with one axis twice", "floats w 2 2; node Transpose n w -> y perm=0,0",
         "perm is no permutation"},
        {"a permutation that is too long", "node Transpose n x -> y perm=0,1",
         "perm has 2 entries, x 1 dimensions"},
        {"an index past the end", "ints i 9; node Gather n x i -> y axis=0",
         "index 9 of an extent of 8"},
        {"an index that is a float", "node Gather n x x -> y axis=0", "an index of type f32"},
        {"a slice with a step of 0", "ints z 0; ints e 8; node Slice n x z e z z -> y",
         "a step of 0"},
        {"a slice of an axis twice", "ints z 0 0; ints e 8 8; node Slice n x z e z -> y",
         "axis 0 is there twice"},
        {"a split that does not add up", "ints s 3 3; node Split n x s -> y z axis=0",
         "the parts come to 6 of the extent 8"},
        {"a squeeze of more than one", "ints s 0; node Squeeze n x s -> y",
         "axis 0 has extent 8, not 1"},
        {"an unsqueeze twice", "ints s 0 0; node Unsqueeze n x s -> y", "axis 0 is given twice"},
        {"a cast to no type", "node Cast n x -> y to=99", "unsupported type unknown"},
        {"a cast to complex numbers", "node Cast n x -> y to=14", "unsupported type complex64"},
        {"pads of a wrong count", "ints p 1; node Pad n x p -> y", "pads has 1 entries, not 2"},
        {"pads that take more than there is", "ints p -5 -5; node Pad n x p -> y",
         "the padding cuts away more than there is"},
        {"an expansion that does not fit", "ints s 3; node Expand n x s -> y",
         "f32[8] does not repeat to the shape"},
        {"a negative extent", "ints s -3; node ConstantOfShape n s -> y", "extent -3 in the shape"},
        {"a negative count of tiles", "ints s -3; node Tile n x s -> y", "-3 repeats"},
        {"tiles of a wrong count", "ints s 1 1; node Tile n x s -> y", "2 repeats"},
        {"a range without a step", "number a 0; number b 9; node Range n a b a -> y",
         "a step of 0"},
        {"a negative depth", "ints i 1; number d -4; ints v 0 1; node OneHot n i d v -> y",
         "a depth of -4"},
        {"more than there are", "ints k 9; node TopK n x k -> y i", "k is 9, the axis has 8"},
        {"a negative count of the largest", "ints k -1; node TopK n x k -> y i",
         "k is -1, the axis has 8"},
        {"an equation with a stray letter", "node Einsum n x -> y equation='i->j'",
         "the result has a label twice, or one that no input has"},
        {"an equation of another rank", "node Einsum n x -> y equation='ij->ij'",
         "a term with 2 labels for 1 dimensions"},
        {"an equation that is none", "node Einsum n x -> y equation='->->'",
         "a term with 0 labels for 1 dimensions"},
        {"no equation", "node Einsum n x -> y", "it has no equation"},
        {"a convolution of a vector", "node Conv n x x -> y",
         "x is f32[8]; [n, c] and one to three dimensions fit"},
        {"a convolution with other channels",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 4; ints u 1 4 1 1; node Reshape v w u "
         "-> f; "
         "node Conv n a f -> y",
         "weight f32[1, 4, 1, 1] takes 4 input channels, x has 1"},
        {"a kernel larger than its image",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 4; ints u 1 1 1 4; node Reshape v w u "
         "-> f; "
         "node Conv n a f -> y",
         "the window is larger than the image and its padding"},
        {"a stride of 0",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u "
         "-> f; "
         "node Conv n a f -> y strides=0,0",
         "strides holds 0"},
        {"no group",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u "
         "-> f; "
         "node Conv n a f -> y group=0",
         "group 0 does not divide 1 input channels"},
        {"a kernel_shape that is another",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u "
         "-> f; "
         "node Conv n a f -> y kernel_shape=3,3",
         "kernel_shape is not that of the weight"},
        {"a pool without a kernel",
         "ints s 1 1 8 1; node Reshape r x s -> a; node MaxPool n a -> y", "kernel_shape holds 0"},
        {"a normalization with other channels",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 3; node BatchNormalization n a w w w "
         "w "
         "-> y",
         "its input 1 has 3 numbers for 1 channels"},
        {"an instance normalization with other channels",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 3; node InstanceNormalization n a w w "
         "-> y",
         "its input 1 has 3 numbers for 1 channels"},
        {"a group normalization with other channels",
         "ints s 1 8 1 1; node Reshape r x s -> a; floats w 3; node GroupNormalization n a w w -> "
         "y "
         "num_groups=2",
         "its input 1 has 3 numbers for"},
        {"a layer normalization with other channels",
         "ints s 1 8; node Reshape r x s -> a; floats w 3; node LayerNormalization n a w -> y "
         "axis=-1",
         "f32[1, 8] and f32[3] do not broadcast"},
        {"a layer normalization whose scale has rows",
         "ints s 1 8; node Reshape r x s -> a; floats w 2 8; node LayerNormalization n a w -> y "
         "axis=-1",
         "its scale or bias has more elements than x to scale"},
        {"a slope that does not fit", "floats w 3; node PRelu n x w -> y",
         "f32[8] and f32[3] do not broadcast"},
        {"a bias of another length",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u "
         "-> f; "
         "floats c 3; node Conv n a f c -> y",
         "the bias does not have 1 elements"},
        {"a bias of a transposed convolution of another length",
         "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u "
         "-> f; "
         "floats c 3; node ConvTranspose n a f c -> y",
         "the bias does not have 1 elements"},
        {"a sum that is larger than its product",
         "ints s 1 8; node Reshape r x s -> a; floats w 8 2; floats c 3 2; node Gemm n a w c -> y",
         "C is f32[3, 2], the product f32[1, 2]"},
        {"a product of a vector by Gemm", "floats w 8 2; node Gemm n x w -> y",
         "its operands are no matrices"},
        {"conditions that do not fit",
         "floats w 3; node Greater g x x -> c; node Where n c w x -> y",
         "f32[8] and f32[3] do not broadcast"},
        {"a condition of floats", "node Where n x x x -> y", "its input 0 is f32, not bool"},
        {"a logical operator of floats", "node And n x x -> y", "its input 0 is f32, not bool"},
        {"a shift of no direction", "ints i 1; node BitShift n i i -> z; node Cast c z -> y to=1",
         "unsupported direction"},
        {"inverted bits of floats", "node BitwiseNot n x -> y",
         "x is f32, the operator takes integers"},
        {"a shift of floats", "node BitShift n x x -> y direction='LEFT'",
         "x is f32, the operator takes integers"},
        {"bits of floats", "node BitwiseAnd n x x -> y", "x is f32, the operator takes integers"},
        {"a gather of elements by floats", "node GatherElements n x x -> y",
         "an index of type f32"},
        {"a resize by nothing", "ints s 1 1 8 1; node Reshape r x s -> a; node Resize n a -> y",
         "0 sizes or scales for 4 axes"},
        {"a resize to nothing",
         "ints s 1 1 8 1; node Reshape r x s -> a; ints t 1 1 -8 1; node Resize n a - - t -> y",
         "axis 2 becomes -8 elements"},
        {"a block of 0",
         "ints s 1 8 1 1; node Reshape r x s -> a; node DepthToSpace n a -> y blocksize=0",
         "it takes images [n, c, h, w] and a blocksize"},
        {"channels that make no block",
         "ints s 1 8 1 1; node Reshape r x s -> a; node DepthToSpace n a -> y blocksize=3",
         "blocksize 3 does not divide the channels"},
        {"a recurrent node with other weights",
         "ints s 1 1 8; node Reshape r x s -> a; floats k 3 8; ints ks 1 3 8; node Reshape u k ks "
         "-> w; "
         "node LSTM n a w w -> y hidden_size=1",
         "W or R does not fit x"},
        {"a scatter past the end", "ints i 9; floats u 1; node ScatterElements n x i u -> y axis=0",
         "index 9 of an extent of 8"},
        {"bounds that are lists", "floats w 2; node Clip n x w -> y", "min has 2 numbers, not one"},
        {"a sequence that is empty",
         "node SequenceEmpty e -> s; ints at 0; node SequenceAt n s at -> "
         "y",
         "position 0 in a sequence of 0"},
        {"a sum over a missing axis", "ints a 4; node ReduceSum n x a -> y",
         "axis 4 of a tensor with 1 dimensions"},
        {"a text where a number should be", "node Softmax n x -> y axis='one'",
         "its attribute axis is of type STRING, not INT"},
        {"an integer where a float should be", "node LeakyRelu n x -> y alpha=3",
         "its attribute alpha is of type INT, not FLOAT"},
        {"an attribute that no operator has", "node Softmax n x -> y axis=0 temperature=2.",
         "unknown attribute 'temperature'; dhow knows axis"},
        {"an attribute where there is none", "node Relu n x -> y slope=0.5",
         "unknown attribute 'slope'; it has none"},
        {"an integer where a list should be", "floats w 2 2; node Transpose n w -> y perm=1",
         "its attribute perm is of type INT, not INTS"},
    };
    EXPECT_ALL(bad);
}

/* The sanitizer found an offset from NULL. */
Test(onnx_bad_files, a_sequence_of_nothing_is_empty_and_lies_somewhere) {
    bytes graph = graph_of_text(
        "input x 8; ints z 0; node Slice cut x z z -> e; node SplitToSequence "
        "n e -> s; node SequenceLength l s -> y; output y");
    bytes file = model_of(18, &graph);
    OK(load_and_run(file.data, file.length));
    bytes_free(&file);
}

/* A batch of no images, as of a detector that finds nothing. */
Test(onnx_bad_files, an_axis_of_no_elements_is_resized_to_none) {
    bytes graph = graph_of_text(
        "input x 8; ints z 0; node Slice cut x z z -> e; node Resize n e - - z -> y; output y");
    bytes file = model_of(18, &graph);
    OK(load_and_run(file.data, file.length));
    bytes_free(&file);
}

/* ---- bytes ---- */

static const char k_good[] = "input x 8; floats w 8; node Add n x w -> y; output y";

static bytes good_graph(void) { return graph_of_text(k_good); }

/* A file with a graph and what is put behind it. */
static void expect_file(const char *what, bytes *file, const char *word) {
    expect(what, load_and_run(file->data, file->length), word);
    bytes_free(file);
}

Test(onnx_bad_files, the_good_file_runs) {
    bytes graph = good_graph(), file = model_of(16, &graph);
    OK(load_and_run(file.data, file.length));
    bytes_free(&file);
}

Test(onnx_bad_files, files_of_other_kinds_are_called_so) {
    static const struct {
        const char *what, *data;
        size_t length;
        const char *word;
    } bad[] = {
        {"a text", "This is no model.", 17, "no ONNX file"},
        {"a page", "<!DOCTYPE html><html><body>404 Not Found", 40, "no ONNX file"},
        {"an archive of PyTorch", "PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0", 20, "no ONNX file"},
        {"a compressed file", "\x1f\x8b\x08\0\0\0\0\0\0\3abcdefghij", 20, "no ONNX file"},
        {"an .npy file", "\x93NUMPY\1\0v\0{'descr': '<f4'", 26, "no ONNX file"},
        {"a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", 58,
         "no ONNX file"},
        {"zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, "no ONNX file"},
        {"a byte", "\x08", 1, "no ONNX file"},
        {"only a version", "\x08\x08", 2, "graph"},
        {"a number without an end", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12,
         "no ONNX file"},
        {"a length beyond the end", "\x3a\xff\xff\xff\x7f", 5, "no ONNX file"},
        {"a group, which protocol buffers had once", "\x3b\x08\x01\x3c", 4, "no ONNX file"},
        {"a graph that is a number", "\x08\x08\x38\x01", 4, "graph"},
        {"an empty graph", "\x08\x08\x3a\x00", 4, "opset"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i].what, load_and_run(bad[i].data, bad[i].length), bad[i].word);
    cr_expect_eq(load_and_run("", 0), DHOW_INVALID_ARGUMENT, "nothing: %s", dhow_last_error());
}

Test(onnx_bad_files, opsets_that_dhow_has_not_are_told) {
    static const int64_t opsets[] = {0, -1, 99, INT64_MAX};
    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        bytes graph = good_graph(), file = model_of(opsets[i], &graph);
        expect_file("opset", &file, "opset");
    }
}

/* ---- functions ---- */

/* Of x and y: one that calls another, or itself, so many times. */
static bytes function_of(const char *name, const char *called, uint32_t calls) {
    bytes f = {0};
    put_text(&f, 1, name);
    put_text(&f, 4, "x");
    put_text(&f, 5, "y");
    for (uint32_t i = 0; i < calls; i++) {
        char out[16];
        (void)snprintf(out, sizeof out, i + 1 < calls ? "t%u" : "y", i);
        bytes node = node_of(called, "call", "x", out);
        put_text(&node, NODE_DOMAIN, "own");
        put_message(&f, 7, &node);
    }
    put_text(&f, 10, "own");
    return f;
}

static bytes calls(const char *name, const char *inputs) {
    const int64_t eight = 8;
    bytes g = {0}, node = node_of(name, "first", inputs, "y"), in = value_of("x", 1, &eight),
          out = value_of("y", 1, &eight);
    put_text(&node, NODE_DOMAIN, "own");
    put_message(&g, GRAPH_NODE, &node);
    put_message(&g, GRAPH_INPUT, &in);
    put_message(&g, GRAPH_OUTPUT, &out);
    return model_of(21, &g);
}

Test(onnx_bad_files, functions_without_an_end_are_refused) {
    bytes file = calls("again", "x"), f = function_of("again", "again", 1);
    put_message(&file, 25, &f);
    expect_file("a function that calls itself", &file, "more than 64 deep");

    file = calls("f0", "x");
    for (uint32_t i = 0; i < 12; i++) {
        char name[8], next[8];
        (void)snprintf(name, sizeof name, "f%u", i);
        (void)snprintf(next, sizeof next, "f%u", i + 1);
        f = function_of(name, next, 12);
        put_message(&file, 25, &f);
    }
    f = function_of("f12", "none", 1);
    put_message(&file, 25, &f);
    /* As many nodes as functions may come to take more memory than other bad files. */
    cr_expect_eq(load_and_run(file.data, file.length), DHOW_UNSUPPORTED);
    cr_expect_not_null(strstr(dhow_last_error(), "functions come to more than"), "%s",
                       dhow_last_error());
    cr_expect_lt(g_asked, UINT64_C(48) << 20);
    bytes_free(&file);

    file = calls("one", "x x");
    f = function_of("one", "none", 1);
    put_message(&file, 25, &f);
    expect_file("too many inputs", &file, "the file's function has 1 inputs");

    file = calls("one", "x");
    f = function_of("one", "none", 1);
    put_message(&file, 25, &f);
    expect_file("a function of nothing known", &file, "own::none");
}

/* y = x + w with an initializer w of raw fields: the type, the shape and data. */
typedef struct bad_tensor {
    const char *what;
    uint64_t type;
    uint32_t rank;
    uint64_t shape[12], field;
    const char *data;
    size_t length;
    const char *word;
} bad_tensor;

static void expect_tensor(const bad_tensor *bad) {
    bytes g = {0}, t = {0}, data = {0};
    for (uint32_t i = 0; i < bad->rank; i++) put_number(&t, 1, bad->shape[i]);
    put_number(&t, 2, bad->type);
    put_text(&t, 8, "w");
    put_raw(&data, bad->data, bad->length);
    if (bad->field != 0) put_message(&t, (uint32_t)bad->field, &data);
    bytes_free(&data);
    put_message(&g, GRAPH_INITIALIZER, &t);
    bytes rest = graph_of_text("input x 8; node Add n x w -> y; output y");
    put_raw(&g, rest.data, rest.length);
    bytes_free(&rest);
    bytes file = model_of(16, &g);
    expect_file(bad->what, &file, bad->word);
}

Test(onnx_bad_files, initializers_that_lie_are_refused_by_their_names) {
    static const char eight[64] = {0};
    static const bad_tensor bad[] = {
        {"no type",
         0,
         1,
         {8},
         9,
         eight,
         32,
         "tensor 'w' has elements of the unsupported type undefined"},
        {"a type that is none",
         77,
         1,
         {8},
         9,
         eight,
         32,
         "tensor 'w' has elements of the unsupported type unknown"},
        {"texts", 8, 1, {1}, 6, "abc", 3, "its input 1 is an array of texts"},
        {"too few texts", 8, 1, {3}, 6, "abc", 3, "tensor 'w' has 1 texts, its shape wants 3"},
        {"many more texts", 8, 2, {1u << 30, 1u << 30}, 6, "abc", 3, "texts, which it has not"},
        {"no texts", 8, 1, {0}, 0, NULL, 0, "its input 1 is an array of texts"},
        {"complex numbers",
         14,
         1,
         {8},
         9,
         eight,
         64,
         "tensor 'w' has elements of the unsupported type complex64"},
        {"too few numbers of 4 bits",
         22,
         1,
         {8},
         9,
         eight,
         3,
         "tensor 'w' needs 4 bytes by its shape, the file has 3"},
        {"too many numbers of float8",
         17,
         1,
         {8},
         9,
         eight,
         9,
         "tensor 'w' needs 8 bytes by its shape, the file has 9"},
        {"numbers of 4 bits",
         22,
         1,
         {8},
         9,
         eight,
         4,
         "its input 1 is of type int4, which dhow converts and moves but does not compute with"},
        {"a tensor of nine dimensions",
         1,
         9,
         {1, 1, 1, 1, 1, 1, 1, 1, 8},
         9,
         eight,
         32,
         "tensor 'w' has 9 dimensions, dhow takes 8"},
        {"a tensor of a negative extent",
         1,
         1,
         {UINT64_MAX},
         9,
         eight,
         32,
         "tensor 'w': shape: extent 0 is -1; 0 or more is"},
        {"extents beyond all addresses",
         1,
         2,
         {1ull << 40, 1ull << 40},
         9,
         eight,
         32,
         "tensor 'w': shape: shape [1099511627776, 1099511627776] of"},
        {"extents that come round to 0",
         1,
         2,
         {1ull << 32, 1ull << 32},
         9,
         eight,
         0,
         "tensor 'w': shape: shape [4294967296, 4294967296] of f32"},
        {"an extent of 0 beside an absurd one",
         1,
         3,
         {0, 1ull << 62, 1ull << 62},
         9,
         eight,
         0,
         "tensor 'w': shape: shape [0, 4611686018427387904,"},
        {"fewer bytes than the shape",
         1,
         1,
         {8},
         9,
         eight,
         31,
         "tensor 'w' needs 32 bytes by its shape, the file has 31"},
        {"more bytes than the shape",
         1,
         1,
         {8},
         9,
         eight,
         33,
         "tensor 'w' needs 32 bytes by its shape, the file has 33"},
        {"no data", 1, 1, {8}, 0, NULL, 0, "tensor 'w' needs 8 bytes by its shape, the file has 7"},
        {"fewer floats than the shape",
         1,
         1,
         {8},
         4,
         eight,
         28,
         "tensor 'w' has 7 elements, its shape needs 8"},
        {"more floats than the shape",
         1,
         1,
         {8},
         4,
         eight,
         36,
         "tensor 'w' has other elements than its type and shape, 8 of"},
        {"floats that are cut",
         1,
         1,
         {8},
         4,
         eight,
         31,
         "tensor 'w' has 7 elements, its shape needs 8"},
        {"integers for floats",
         1,
         1,
         {8},
         7,
         eight,
         8,
         "tensor 'w' has 0 elements, its shape needs 8"},
        {"an integer without an end",
         7,
         1,
         {8},
         7,
         "\xff\xff\xff\xff\xff\xff\xff\xff",
         8,
         "number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_tensor(&bad[i]);
}

/* ---- data in further files ---- */

static char g_folder[64], g_path[128];

static void write_file(const char *name, const void *data, size_t length) {
    (void)snprintf(g_path, sizeof g_path, "%s/%s", g_folder, name);
    FILE *f = fopen(g_path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, length, f), length);
    cr_assert_eq(fclose(f), 0);
}

static bytes external_model(const char *location, const char *offset, const char *length) {
    const char *const keys[] = {"location", "offset", "length"};
    const char *const values[] = {location, offset, length};
    bytes g = {0}, t = {0};
    put_number(&t, 1, 8);
    put_number(&t, 2, 1);
    put_text(&t, 8, "w");
    for (int i = 0; i < 3; i++) {
        bytes entry = {0};
        if (values[i] == NULL) continue;
        put_text(&entry, 1, keys[i]);
        put_text(&entry, 2, values[i]);
        put_message(&t, 13, &entry);
    }
    put_number(&t, 14, 1);
    put_message(&g, GRAPH_INITIALIZER, &t);
    bytes rest = graph_of_text("input x 8; node Add n x w -> y; output y");
    put_raw(&g, rest.data, rest.length);
    bytes_free(&rest);
    return model_of(16, &g);
}

static dhow_status run_external(const char *location, const char *offset, const char *length) {
    bytes file = external_model(location, offset, length);
    write_file("model.onnx", file.data, file.length);
    bytes_free(&file);
    dhow_model *model = NULL;
    g_asked = 0;
    dhowi_alloc_set_hook(count_bytes);
    dhow_status status = dhow_model_load(g_context, g_path, &model);
    if (status == DHOW_OK) status = run_model(model);
    dhowi_alloc_set_hook(NULL);
    dhow_model_release(model);
    return status;
}

Test(onnx_bad_files, data_in_further_files_that_cannot_be_had_are_refused) {
    static const char zeros[64] = {0};
    static const struct {
        const char *what, *location, *offset, *length, *word;
    } bad[] = {
        {"no location", NULL, NULL, NULL, "tensor 'w', external data '': its location is no path"},
        {"an empty location", "", NULL, NULL,
         "tensor 'w', external data '': its location is no path"},
        {"a file that is not there", "none.bin", NULL, NULL, "No such file"},
        {"a path from the root", "/etc/hostname", NULL, NULL, "beneath the model's folder"},
        {"a path that climbs", "../../etc/hostname", NULL, NULL, "leaves the model's folder"},
        {"a path that goes down and climbs", "folder/../../x", NULL, NULL,
         "leaves the model's folder"},
        {"a symbolic link", "link.bin", NULL, NULL, "through a link"},
        {"a hard link", "hard.bin", NULL, NULL, "hard links"},
        {"a folder", "folder", NULL, NULL, "regular file"},
        {"a pipe", "pipe", NULL, NULL, "regular file"},
        {"a file that is too short", "short.bin", NULL, NULL, "the file has 31"},
        {"an offset past the end", "data.bin", "40", NULL, "the file has 64"},
        {"an offset that comes round", "data.bin", "18446744073709551600", NULL, "decimal number"},
        {"a negative offset", "data.bin", "-1", NULL, "decimal number"},
        {"an offset of letters", "data.bin", "0x10", NULL, "decimal number"},
        {"another length than the shape", "data.bin", NULL, "16", "32 needed"},
        {"a length of nothing", "data.bin", NULL, "", "decimal number"},
    };
    char other[160];
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-bad-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
    write_file("short.bin", zeros, 31);
    write_file("data.bin", zeros, 64);
    OK(run_external("data.bin", "32", "32"));
    (void)snprintf(other, sizeof other, "%s/link.bin", g_folder);
    write_file("data2.bin", zeros, 64);
    cr_assert_eq(symlink("data2.bin", other), 0);
    (void)snprintf(other, sizeof other, "%s/hard.bin", g_folder);
    cr_assert_eq(link(g_path, other), 0);
    (void)snprintf(other, sizeof other, "%s/folder", g_folder);
    cr_assert_eq(mkdir(other, 0700), 0);
    (void)snprintf(other, sizeof other, "%s/pipe", g_folder);
    cr_assert_eq(mkfifo(other, 0600), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i].what, run_external(bad[i].location, bad[i].offset, bad[i].length),
               bad[i].word);
    (void)snprintf(other, sizeof other, "rm -rf '%s'", g_folder);
    cr_assert_eq(system(other), 0);
}
