/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a few hundred bytes that ask for gigabytes while they run: each is refused before
 * memory is taken, with the node's name, the bytes and the way to raise the limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_memory, .init = set_up, .fini = tear_down, .timeout = 120);

/* What was asked of the allocator in pieces of a MiB and more; what is far too much is not given,
 * so that a mistake ends in a message and not in a machine without memory. */
enum { MIB = 1 << 20 };
static const uint64_t k_most = UINT64_C(6) << 30;
static uint64_t g_asked;
static bool count_bytes(size_t size) {
    if (size >= MIB) g_asked += size;
    return g_asked < k_most;
}

/* Runs a graph whose one input is x: 8 floats from 0 to 7. */
static dhow_status run(const char *text, uint64_t limit, uint32_t outputs) {
    static const int64_t eight[] = {8};
    static const float values[] = {0, 1, 2, 3, 4, 5, 6, 7};
    bytes graph = graph_of_text(text), file = model_of(16, &graph);
    dhow_model *model = NULL;
    dhow_tensor *x, *out[64] = {NULL};
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, eight, values, &x));
    g_asked = 0;
    dhowi_alloc_set_hook(count_bytes);
    dhow_status status = load_bytes(&file, &model);
    if (status == DHOW_OK && limit > 0) status = dhow_model_set_memory_limit(model, limit);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, &x, 1, out, outputs);
    dhowi_alloc_set_hook(NULL);
    for (uint32_t i = 0; i < outputs; i++) dhow_tensor_release(out[i]);
    dhow_tensor_release(x);
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

static void expect_refusal(const char *what, dhow_status status, uint64_t most) {
    const char *error = dhow_last_error();
    cr_expect_eq(status, DHOW_UNSUPPORTED, "%s: %s: %s", what, dhow_status_name(status), error);
    if (status == DHOW_OK) return;
    cr_expect_not_null(strstr(error, "(node 'big"), "%s names no node: %s", what, error);
    cr_expect_not_null(strstr(error, " bytes"), "%s: %s", what, error);
    cr_expect_not_null(strstr(error, "dhow_model_set_memory_limit(), or dhow-run --memory"),
                       "%s names no way out: %s", what, error);
    cr_expect_lt(g_asked, most, "%s: %llu MiB were taken", what,
                 (unsigned long long)(g_asked / MIB));
}

/* Of 2^31 elements and more; x has 8, so the 64-fold of the inputs is far below 1 GiB. */
static const struct {
    const char *what, *graph;
} k_single[] = {
    {"ConstantOfShape of an input",
     "node Cast c x -> i to=7; ints big 1048576; node Mul m i big "
     "-> s; ints one 1; ints two 2; ints three 3; node Slice cut s two three -> t; node Concat j t "
     "t -> shape axis=0; node ConstantOfShape big1 shape -> z; node Add big2 z z -> y"},
    {"Expand", "ints s 268435456 8; node Expand e x s -> w; node Exp big w -> y"},
    {"Expand that is the output", "ints s 268435456 8; node Expand big x s -> y"},
    {"Expand by the values of an input",
     "node Cast c x -> i to=7; ints f 134217728; node Mul m i f -> j; ints two 2; ints three 3; "
     "ints e 8; node Slice cut j two three -> t; node Concat s t e -> shape axis=0; node Expand "
     "big "
     "x shape -> w; node Exp bigger w -> y"},
    {"Tile", "ints s 268435456; node Tile big x s -> y"},
    {"Pad", "ints s 8 1; node Reshape r x s -> a; ints p 0 0 65536 65536; node Pad big a p -> y"},
    {"Pad by reflection",
     "ints p 0 7; ints s 268435456 8; node Expand e x s -> w; ints q 0 1 0 1; "
     "node Pad big w q -> y mode='reflect'"},
    {"OneHot of an input",
     "node Cast c x -> i to=7; number d 268435456; ints v 0 1; node OneHot "
     "big i d v -> y"},
    {"Range by an input",
     "node ReduceMax m x -> top keepdims=0; node Cast c top -> i to=7; number f 268435456; node "
     "Mul scale i f -> end; number zero 0; number one 1; node Range big zero end one -> y"},
    {"Resize nearest",
     "ints s 1 1 8 1; node Reshape r x s -> a; ints t 1 1 8388608 512; node Resize big a - - t -> "
     "y mode='nearest'"},
    {"Resize linear",
     "ints s 1 1 8 1; node Reshape r x s -> a; ints t 1 1 65536 65536; node Resize big a - - t -> "
     "y mode='linear'"},
    {"Gather of an expanded index",
     "node Cast c x -> i to=7; ints s 268435456 8; node Expand e i s -> j; node Gather big x j -> "
     "y axis=0"},
    {"GatherElements",
     "node Cast c x -> i to=7; ints s 268435456 8; node Expand e i s -> j; node "
     "Expand f x s -> w; node GatherElements big w j -> y axis=1"},
    {"Softmax", "ints s 268435456 8; node Expand e x s -> w; node Softmax big w -> y axis=1"},
    {"CumSum", "ints s 268435456 8; number a 1; node Expand e x s -> w; node CumSum big w a -> y"},
    {"TopK", "ints s 268435456 8; ints k 8; node Expand e x s -> w; node TopK big w k -> y i"},
    {"Einsum, an outer product",
     "ints s 8192 8; node Expand e x s -> w; node Einsum big w w -> y equation='ab,cd->abcd'"},
    {"MatMul, an outer product",
     "ints s 8192 8; node Expand e x s -> w; ints l -1 1; ints r 1 -1; node Reshape u w l -> a; "
     "node Reshape v w r -> b; node MatMul big a b -> y"},
    {"Gemm, an outer product",
     "ints s 8192 8; node Expand e x s -> w; ints l -1 1; ints r 1 -1; node Reshape u w l -> a; "
     "node Reshape v w r -> b; node Gemm big a b -> y"},
    {"Add, an outer sum",
     "ints s 8192 8; node Expand e x s -> w; ints l -1 1; ints r 1 -1; node Reshape u w l -> a; "
     "node Reshape v w r -> b; node Add big a b -> y"},
    {"Conv with pads",
     "ints s 1 1 8 1; node Reshape r x s -> a; floats w 1; ints u 1 1 1 1; node Reshape v w u -> "
     "f; "
     "node Conv big a f -> y pads=16384,16384,16384,16384"},
    {"ConvTranspose with strides",
     "ints s 1 1 8 1; node Reshape r x s -> a; floats w 16; ints u 1 16 1 1; node Reshape v w u -> "
     "f; "
     "node ConvTranspose big a f -> y strides=16777216,1"},
    {"MaxPool with strides of one over a large view",
     "ints s 1 1 65536 65536; ints one 1; ints z 0; node Slice cut x z one -> a; node Expand e a s "
     "-> w; node MaxPool big w -> y kernel_shape=1,1"},
    {"Transpose of a view",
     "ints s 268435456 8; node Expand e x s -> w; node Transpose big1 w -> v perm=1,0; node "
     "Identity "
     "big v -> y"},
    {"Concat of a view",
     "ints s 134217728 8; node Expand e x s -> w; node Concat big w w -> y "
     "axis=0"},
    {"Cast of a view", "ints s 268435456 8; node Expand e x s -> w; node Cast big w -> y to=11"},
    {"NonZero of a view", "ints s 268435456 8; node Expand e x s -> w; node NonZero big w -> y"},
    {"Where",
     "ints s 268435456 8; node Expand e x s -> w; node Cast g x -> c "
     "to=9; node Where big c w w -> y"},
    {"ScatterElements",
     "node Cast c x -> i to=7; ints s 268435456 8; node Expand e i s -> j; node "
     "Expand f x s -> w; node ScatterElements big w j w -> y axis=0"},
    {"EyeLike",
     "ints s 65536 65536; ints one 1; ints z 0; node Slice cut x z one -> a; node Expand "
     "e a s -> w; node EyeLike big w -> y"},
    {"DepthToSpace",
     "ints s 268435456 4 1 1; ints one 1; ints z 0; node Slice cut x z one -> a; "
     "node Expand e a s -> w; node DepthToSpace big w -> y blocksize=2"},
    {"GridSample",
     "ints s 1 1 8 1; node Reshape r x s -> a; ints g 1 32768 32768 2; ints one 1; ints z 0; node "
     "Slice cut x z one -> b; node Expand e b g -> grid; node GridSample big a grid -> y"},
    {"LSTM over a large batch",
     "ints s 1 268435456 8; node Expand e x s -> w; floats k 4 8; floats r 4 1; ints ks 1 4 8; "
     "ints "
     "rs 1 4 1; node Reshape a k ks -> ww; node Reshape b r rs -> rr; node LSTM big w ww rr -> y "
     "hidden_size=1"},
};

Test(onnx_memory, a_single_result_that_a_small_file_makes_huge_is_refused) {
    for (size_t i = 0; i < sizeof k_single / sizeof *k_single; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "input x 8; %s; output y", k_single[i].graph);
        expect_refusal(k_single[i].what, run(text, 0, 1), UINT64_C(300) * MIB);
    }
}

/* Results of 512 MiB each, which fit alone. */
static const struct {
    const char *what, *graph;
    uint32_t outputs;
} k_together[] = {
    {"outputs",
     "ints s 16777216 8; node Expand e x s -> w; node Exp big1 w -> a; node Neg big2 w -> b; node "
     "Abs big3 w -> c; output a; output b; output c",
     3},
    {"outputs that are views",
     "ints s 16777216 8; node Expand big1 x s -> a; node Identity big2 a -> b; node Identity big3 "
     "a "
     "-> c; output a; output b; output c",
     3},
    {"an arena",
     "ints s 16777216 8; node Expand e x s -> w; node Exp big1 w -> a; node Softmax big2 w -> b; "
     "node CumSum big3 w axis -> c; number axis 1; node MatMul p a m -> d; node MatMul q b m -> e; "
     "node MatMul r c m -> f; floats m 8 1; node Einsum t d e f -> y equation='ab,ab,ab->b'; "
     "output "
     "y",
     1},
    {"a Loop, whose iterations each end with a look at a value",
     "number n 1000; ints s 16777216 8; node Loop l n - x -> y body={input i; input go; input v; "
     "node Expand e v s -> w; node Exp big w -> a; node ReduceMax m a -> top keepdims=0; node "
     "IsNaN "
     "t top -> bad; node Not u bad -> on; node Neg o v -> out; output on; output out}; output y",
     1},
    {"a Concat that doubles",
     "node Concat big0 x x -> a axis=0; node Concat big1 a a -> b axis=0; "
     "node Concat big2 b b -> c axis=0; node Expand big3 c s -> d; ints s "
     "4194304 64; node Concat big4 d d -> y axis=0; output y",
     1},
};

Test(onnx_memory, what_a_plan_takes_together_is_refused) {
    for (size_t i = 0; i < sizeof k_together / sizeof *k_together; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "input x 8; %s", k_together[i].graph);
        expect_refusal(k_together[i].what, run(text, 0, k_together[i].outputs),
                       UINT64_C(1200) * MIB);
    }
}

/* Thirty times twice as much. */
Test(onnx_memory, a_chain_of_doublings_is_refused) {
    char text[4096] = "input x 8", last[8] = "x";
    for (int i = 0; i < 30; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "; node Concat big%d %s %s -> v%d axis=0",
                       i, last, last, i);
        (void)snprintf(last, sizeof last, "v%d", i);
    }
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "; output %s", last);
    expect_refusal("doublings", run(text, 0, 1), UINT64_C(300) * MIB);
    cr_expect_not_null(strstr(dhow_last_error(), "Concat (node 'big29'"), "%s", dhow_last_error());
}

/* Its scores are 2 GiB, the rest is 3 MiB. */
Test(onnx_memory, scores_that_attention_does_not_write_down_are_no_memory) {
    static const char text[] =
        "input x 8; ints s 1 2 16384 8; node Expand e x s -> w; node Neg big w -> q; node "
        "Transpose t q -> k perm=0,1,3,2; node MatMul m q k -> scores; node Softmax f scores -> "
        "p axis=-1; node MatMul n p q -> r; ints top 2; node ReduceSum sum r top -> y; output y";
    OK(run(text, 0, 1));
    cr_expect_lt(g_asked, UINT64_C(64) * MIB, "%llu MiB", (unsigned long long)(g_asked / MIB));
}

Test(onnx_memory, the_limit_can_be_lowered_and_raised_for_all_that_a_plan_takes) {
    static const char text[] =
        "input x 8; ints s 65536 8; node Expand e x s -> w; node Exp big1 w "
        "-> a; node Neg big2 w -> b; output a; output b";
    const uint64_t each = 65536 * 8 * sizeof(float); /* 2 MiB */
    expect_refusal("two outputs", run(text, each * 2 - 1, 2), UINT64_C(64) * MIB);
    cr_expect_not_null(strstr(dhow_last_error(), "takes 2097152 bytes beside 2097152 taken before"),
                       "%s", dhow_last_error());
    OK(run(text, each * 2, 2));
}

/* 1.1 GiB of doubles, which the host makes by itself. */
Test(onnx_memory, the_limit_of_constants_can_be_raised) {
    static const char text[] =
        "input x 8; number a 0; number b 150994944; number c 1; node Range big a b c -> r; ints z "
        "0; "
        "ints e 8; node Slice cut r z e -> s; node Cast f s -> t to=1; node Add g t x -> y; output "
        "y";
    expect_refusal("a range", run(text, 0, 1), UINT64_C(64) * MIB);
    OK(run(text, UINT64_C(3) << 30, 1));
}
