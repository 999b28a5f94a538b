/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of graphs: a replay does what the work does, in order with everything else, whether the
 * device records it or not.
 */
#include "support.h"

enum { COUNT = 5000 };

typedef struct work {
    dhow_tensor *x, *one, *y;
    uint32_t calls;
    dhow_status status; /* what the work answers, unless it fails */
} work;

static dhow_status add_and_relu(void *user, dhow_stream *stream) {
    work *w = user;
    w->calls++;
    dhow_status status = dhow_add(stream, w->x, w->one, w->y);
    if (status == DHOW_OK) status = dhow_relu(stream, w->y, w->y);
    if (status == DHOW_OK) status = dhow_copy_async(stream, w->y, w->x, 0);
    return status == DHOW_OK ? w->status : status;
}

static dhow_status to_the_host(void *user, dhow_stream *stream) {
    work *w = user;
    dhow_status status = add_and_relu(w, stream);
    return status == DHOW_OK ? dhow_stream_sync(stream) : status;
}

static dhow_status by_temporaries(void *user, dhow_stream *stream) {
    work *w = user;
    dhow_tensor *flipped;
    dhow_status status = dhow_tensor_transpose(w->x, 0, 1, &flipped);
    w->calls++;
    /* A transposed operand needs a temporary, whose memory the graph has to keep. */
    if (status == DHOW_OK) status = dhow_matmul(stream, flipped, w->x, w->y);
    dhow_tensor_release(flipped);
    return status;
}

static conform_result vector(conform_env *env, double value, dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(COUNT), value, out));
    return CONFORM_PASS;
}

static conform_result vectors(conform_env *env, work *w) {
    TRY(vector(env, 0, &w->x));
    TRY(vector(env, 1, &w->one));
    return vector(env, -5, &w->y);
}

static conform_result expect_value(conform_env *env, dhow_tensor *t, float want) {
    float *got = conform_memory(env, COUNT * sizeof *got);
    OK(dhow_tensor_read(t, got, COUNT * sizeof *got));
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == want, "element %d is %g, not %g", i, (double)got[i], (double)want);
    return CONFORM_PASS;
}

static conform_result replays(conform_env *env) {
    dhow_stream *stream;
    dhow_graph *graph;
    work w = {.status = DHOW_OK};
    TRY(vectors(env, &w));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    OWN(GRAPH, &graph, dhow_graph_record(stream, add_and_relu, &w, &graph));
    TRY(expect_value(env, w.x, 1)); /* once run, once recorded */
    const uint32_t calls = w.calls;
    for (int i = 0; i < 30; i++) OK(dhow_graph_replay(graph, i % 2 == 0 ? stream : NULL));
    TRY(expect_value(env, w.x, 31));
    if (dhow_graph_reason(graph)[0] == '\0')
        CHECK(w.calls == calls, "a recorded graph calls the work again");
    CHECK(dhow_graph_reason(graph)[0] == '\0' || w.calls == calls + 30, "%u calls for 30 replays",
          w.calls - calls);
    return CONFORM_PASS;
}

/* Other work on the same tensors, on other streams and from the host, comes before and after. */
static conform_result meets_other_work(conform_env *env) {
    dhow_stream *stream, *other;
    dhow_graph *graph;
    work w = {.status = DHOW_OK};
    TRY(vectors(env, &w));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    OWN(STREAM, &other, dhow_stream_create(env->device, &other));
    OWN(GRAPH, &graph, dhow_graph_record(stream, add_and_relu, &w, &graph));
    float want = 1;
    for (int i = 0; i < 10; i++) {
        OK(dhow_add(other, w.x, w.one, w.x));
        OK(dhow_graph_replay(graph, stream));
        OK(dhow_graph_replay(graph, other));
        want += 3;
        if (i % 3 == 0) TRY(expect_value(env, w.x, want));
    }
    return expect_value(env, w.x, want);
}

static conform_result keeps_its_memory(conform_env *env) {
    dhow_stream *stream;
    dhow_graph *graph;
    enum { N = 37 };
    work w = {.status = DHOW_OK};
    conform_array a = conform_array_random(env, DHOW_F32, DHOW_SHAPE(N, N), -1, 1, 5);
    conform_array product = conform_array_new(env, DHOW_F32, DHOW_SHAPE(N, N));
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            for (int64_t k = 0; k < N; k++)
                product.value[i * N + j] += a.value[k * N + i] * a.value[k * N + j];
    TRY(conform_upload(env, &a, LAYOUT_OFFSET, &w.x));
    TRY(conform_blank(env, &product, LAYOUT_PLAIN, &w.y));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    OWN(GRAPH, &graph, dhow_graph_record(stream, by_temporaries, &w, &graph));
    for (int i = 0; i < 3; i++) {
        dhow_tensor *noise; /* would take the memory of a temporary that is not kept */
        OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(N, N), 1e6, &noise));
        OK(dhow_fill(NULL, w.y, 0));
        OK(dhow_graph_replay(graph, NULL));
        dhow_tensor_release(noise);
        TRY(conform_expect(env, w.y, &product, conform_tolerance_of(DHOW_F32), "a'a"));
    }
    return CONFORM_PASS;
}

/* Tensors may be released before the graph is. */
static conform_result outlives_its_tensors(conform_env *env) {
    dhow_stream *stream;
    dhow_graph *graph;
    work w = {.status = DHOW_OK};
    TRY(vectors(env, &w));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    OWN(GRAPH, &graph, dhow_graph_record(stream, add_and_relu, &w, &graph));
    if (dhow_graph_reason(graph)[0] != '\0') return CONFORM_PASS; /* the work needs its tensors */
    conform_disown(env, w.one);
    dhow_tensor_release(w.one);
    for (int i = 0; i < 5; i++) OK(dhow_graph_replay(graph, NULL));
    return expect_value(env, w.x, 6);
}

static conform_result says_what_it_cannot_record(conform_env *env) {
    dhow_stream *stream;
    dhow_graph *graph;
    work w = {.status = DHOW_OK};
    TRY(vectors(env, &w));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    OWN(GRAPH, &graph, dhow_graph_record(stream, to_the_host, &w, &graph));
    CHECK(dhow_graph_reason(graph)[0] != '\0', "a graph that waits for the host has no reason");
    TRY(expect_value(env, w.x, 1)); /* the failed recording ran nothing */
    for (int i = 0; i < 4; i++) OK(dhow_graph_replay(graph, NULL));
    return expect_value(env, w.x, 5);
}

static conform_result a_failing_work_makes_no_graph(conform_env *env) {
    dhow_stream *stream;
    dhow_graph *graph = NULL;
    work w = {.status = DHOW_OUT_OF_RANGE};
    TRY(vectors(env, &w));
    OWN(STREAM, &stream, dhow_stream_create(env->device, &stream));
    CHECK(dhow_graph_record(stream, add_and_relu, &w, &graph) == DHOW_OUT_OF_RANGE && graph == NULL,
          "the status of the work is lost");
    return expect_value(env, w.x, 1); /* the stream works on */
}

const conform_case conform_graph_cases[] = {
    CASE("graph/replay", replays, "graph"),
    CASE("graph/hazards", meets_other_work, "graph,stream"),
    CASE("graph/memory", keeps_its_memory, "graph,memory"),
    CASE("graph/outlives", outlives_its_tensors, "graph,memory"),
    CASE("graph/refusal", says_what_it_cannot_record, "graph,error"),
    CASE("graph/failure", a_failing_work_makes_no_graph, "graph,error"),
};
CASES_END(conform_graph);
