/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of files that were packed are not kept beside what was packed of them: they are read
 * again for whoever asks, and nobody's results change by it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/graph/model.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(shed_weights, .init = set_up, .fini = tear_down, .timeout = 120);

enum { CHANNELS = 128, TERMS = CHANNELS * 9, COLUMNS = 16, INNER = 640, ONNX_F32 = 1, ONNX_U8 = 2 };
static char g_path[64], g_weights[64]; /* the model; a further file, "" where there is none */

static float weight_at(int64_t i) { return (float)(i * 37 % 101 - 50) / 256; }

static void write_file(const char *path, const void *data, size_t length) {
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, length, f), length);
    cr_assert_eq(fclose(f), 0);
}

static void put_tensor(bytes *graph, const char *name, int64_t type, uint32_t rank,
                       const int64_t *shape, const void *data, size_t length) {
    bytes t = {0}, raw = {0};
    for (uint32_t i = 0; i < rank; i++) put_number(&t, 1, (uint64_t)shape[i]);
    put_number(&t, 2, (uint64_t)type);
    put_text(&t, 8, name);
    if (g_weights[0] != '\0' && strcmp(name, "w") == 0) {
        write_file(g_weights, data, length);
        put_text(&raw, 1, "location");
        put_text(&raw, 2, strrchr(g_weights, '/') + 1);
        put_message(&t, 13, &raw);
        put_number(&t, 14, 1);
    } else {
        put_raw(&raw, data, length);
        put_message(&t, 9, &raw);
    }
    put_message(graph, GRAPH_INITIALIZER, &t);
}

static void put_node(bytes *graph, const char *op, const char *in, const char *out) {
    bytes node = node_of(op, op, in, out);
    if (strcmp(op, "Conv") == 0) add_ints(&node, "pads", 4, (int64_t[]){1, 1, 1, 1});
    put_message(graph, GRAPH_NODE, &node);
}

static void put_values(bytes *graph, const int64_t *shape) {
    bytes x = value_of("x", 4, shape), y = value_of("y", 0, NULL);
    put_message(graph, GRAPH_INPUT, &x);
    put_message(graph, GRAPH_OUTPUT, &y);
}

static void write_model(bytes *graph) {
    bytes file = model_of(16, graph);
    (void)snprintf(g_path, sizeof g_path, "/tmp/dhow-shed-%d.onnx", (int)getpid());
    write_file(g_path, file.data, file.length);
    bytes_free(&file);
}

/* A convolution, whose weight a scale of each channel goes into. */
static void write_convolution(void) {
    static float w[CHANNELS * TERMS], scale[CHANNELS];
    bytes graph = {0};
    for (int64_t i = 0; i < CHANNELS * TERMS; i++) w[i] = weight_at(i);
    for (int i = 0; i < CHANNELS; i++) scale[i] = 1 + (float)i / CHANNELS;
    put_tensor(&graph, "w", ONNX_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, w, sizeof w);
    put_tensor(&graph, "s", ONNX_F32, 3, (int64_t[]){CHANNELS, 1, 1}, scale, sizeof scale);
    put_node(&graph, "Conv", "x w", "c");
    put_node(&graph, "Mul", "c s", "y");
    put_values(&graph, (int64_t[]){1, CHANNELS, -1, COLUMNS});
    write_model(&graph);
}

/* Two convolutions of one image, which become one with a weight of its own. */
static void write_branches(void) {
    static float w[CHANNELS * TERMS];
    bytes graph = {0};
    for (int64_t i = 0; i < CHANNELS * TERMS; i++) w[i] = weight_at(i);
    put_tensor(&graph, "w", ONNX_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, w, sizeof w);
    put_tensor(&graph, "v", ONNX_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, w, sizeof w);
    put_node(&graph, "Conv", "x w", "a");
    put_node(&graph, "Conv", "x v", "b");
    put_node(&graph, "Add", "a b", "y");
    put_values(&graph, (int64_t[]){1, CHANNELS, -1, COLUMNS});
    write_model(&graph);
}

/* A product of quantised values, with weights of a zero point. */
static void write_product(void) {
    static uint8_t w[CHANNELS * INNER];
    const float scale = 0.01f;
    const uint8_t zero = 131;
    bytes graph = {0};
    for (int64_t i = 0; i < CHANNELS * INNER; i++) w[i] = (uint8_t)(i * 37 % 251);
    put_tensor(&graph, "w", ONNX_U8, 2, (int64_t[]){CHANNELS, INNER}, w, sizeof w);
    put_tensor(&graph, "s", ONNX_F32, 0, NULL, &scale, sizeof scale);
    put_tensor(&graph, "z", ONNX_U8, 0, NULL, &zero, sizeof zero);
    put_node(&graph, "QuantizeLinear", "x s z", "q");
    put_node(&graph, "DequantizeLinear", "q s z", "v");
    put_node(&graph, "DequantizeLinear", "w s z", "f");
    put_node(&graph, "MatMul", "v f", "y");
    put_values(&graph, (int64_t[]){1, 2, -1, CHANNELS});
    write_model(&graph);
}

static dhow_model *load(void) {
    dhow_model *m;
    OK(dhow_model_load(g_context, g_path, &m));
    return m;
}

static dhow_tensor *run_on(dhow_model *m, dhow_device *device, bool product, int64_t rows) {
    const int64_t shape[] = {1, product ? 2 : CHANNELS, rows, product ? CHANNELS : COLUMNS};
    dhow_tensor *x, *there, *y;
    void *data;
    OK(dhow_tensor_create(g_cpu, DHOW_F32, 4, shape, &x));
    OK(dhow_tensor_host_ptr(x, &data));
    for (int64_t i = 0; i < shape[1] * shape[2] * shape[3]; i++)
        ((float *)data)[i] = (float)(i * 13 % 29 - 14) / 16;
    OK(dhow_tensor_to(x, device, &there));
    dhow_tensor_release(x);
    OK(dhow_model_run(m, NULL, &there, 1, &y, 1));
    dhow_tensor_release(there);
    return y;
}

static dhow_tensor *run(dhow_model *m, bool product, int64_t rows) {
    return run_on(m, g_cpu, product, rows);
}

static void expect_near(dhow_tensor *y, dhow_tensor *z) {
    void *p, *q;
    OK(dhow_tensor_host_ptr(y, &p));
    OK(dhow_tensor_host_ptr(z, &q));
    for (int64_t i = 0; i < y->count; i++)
        cr_expect_float_eq(((float *)p)[i], ((float *)q)[i], 1e-4);
    dhow_tensor_release(y);
    dhow_tensor_release(z);
}

static void expect_same(dhow_tensor *y, dhow_tensor *z) {
    void *p, *q;
    OK(dhow_tensor_host_ptr(y, &p));
    OK(dhow_tensor_host_ptr(z, &q));
    cr_expect_eq(memcmp(p, q, (size_t)dhowi_tensor_bytes(y)), 0);
    dhow_tensor_release(y);
    dhow_tensor_release(z);
}

/* A model whose weights somebody has asked for, which stay where they are. */
static dhow_model *load_lent(void) {
    dhow_model *m = load();
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    OK(dhow_model_parameter_at(m, 0, &info));
    return m;
}

static bool is_shed(const dhow_model *m) {
    const dhowi_value *w = dhowi_model_find_parameter(m, "w");
    return w->tensor != NULL && dhowi_storage_is_missing(w->tensor->storage);
}

static void expect_unchanged(bool product) {
    dhow_model *m = load(), *lent = load_lent();
    for (int64_t rows = 5; rows < 9; rows++) {
        expect_same(run(m, product, rows), run(lent, product, rows));
        cr_expect(is_shed(m), "the weight lies beside what was packed of it");
        cr_expect(!is_shed(lent));
    }
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info),
                              other = DHOW_INIT(dhow_model_parameter_info);
    OK(dhow_model_parameter_at(m, 0, &info));
    OK(dhow_model_parameter_at(lent, 0, &other));
    void *p, *q;
    OK(dhow_tensor_host_ptr(info.tensor, &p));
    OK(dhow_tensor_host_ptr(other.tensor, &q));
    cr_expect_eq(memcmp(p, q, (size_t)dhowi_tensor_bytes(info.tensor)), 0);
    expect_same(run(m, product, 9), run(lent, product, 9));
    cr_expect(!is_shed(m), "a tensor that was given out");
    dhow_model_release(m);
    dhow_model_release(lent);
    (void)unlink(g_path);
}

Test(shed_weights, convolutions_with_scales_in_them_keep_one_form) {
    write_convolution();
    expect_unchanged(false);
}

Test(shed_weights, convolutions_that_become_one_keep_one_form) {
    write_branches();
    expect_unchanged(false);
}

Test(shed_weights, products_of_codes_keep_one_form) {
    write_product();
    expect_unchanged(true);
}

Test(shed_weights, a_copy_of_a_model_has_its_weights) {
    write_convolution();
    dhow_model *m = load(), *copy, *lent = load_lent();
    dhow_tensor_release(run(m, false, 5));
    OK(dhow_model_replicate(m, &g_cpu, 1, &copy));
    expect_same(run(copy, false, 6), run(lent, false, 6));
    expect_same(run(m, false, 6), run(lent, false, 6));
    dhow_model_release(copy);
    dhow_model_release(m);
    dhow_model_release(lent);
    (void)unlink(g_path);
}

static void use_further_file(void) {
    (void)snprintf(g_weights, sizeof g_weights, "/tmp/dhow-shed-%d.bin", (int)getpid());
}

Test(shed_weights, weights_in_a_further_file_are_read_again) {
    use_further_file();
    write_convolution();
    expect_unchanged(false);
    (void)unlink(g_weights);
}

static void expect_told_of(const char *path) {
    dhow_model *m = load();
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    dhow_tensor_release(run(m, false, 5));
    FILE *f = fopen(path, "r+b");
    cr_assert_not_null(f);
    cr_assert_eq(fseek(f, -4096, SEEK_END), 0);
    cr_assert_eq(fputc(1, f), 1);
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(dhow_model_parameter_at(m, 0, &info), DHOW_CORRUPT);
    cr_expect_not_null(strstr(dhow_last_error(),
                              "tensor 'w': the file was written to while it was "
                              "in use; load the model again"),
                       "%s", dhow_last_error());
    dhow_tensor_release(run(m, false, 5)); /* what is packed is whole */
    dhow_model_release(m);
    (void)unlink(path);
}

Test(shed_weights, a_file_that_was_written_to_is_told_of) {
    write_convolution();
    expect_told_of(g_path);
}

Test(shed_weights, a_further_file_that_was_written_to_is_told_of) {
    use_further_file();
    write_convolution();
    expect_told_of(g_weights);
    (void)unlink(g_path);
}

/* What a loop's body computes of constants is lowered in each round, and kept of one. */
Test(shed_weights, what_rounds_of_a_loop_dequantise_is_kept_once) {
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), after = before;
    bytes graph = graph_of_text(
        "input x 8; ints c 1 2 3 4 5 6 7 8; node Cast q c -> k to=3; floats s 1; ints e; "
        "node Reshape r s e -> t; number n 3; node Loop l n - x -> y body={input i; input g; "
        "input v; node DequantizeLinear d k t -> w; node Mul m v w -> u; "
        "node Identity j g -> h; output h; output u}; output y");
    bytes file = model_of(16, &graph);
    const int64_t shape[] = {8};
    dhow_model *m;
    dhow_tensor *x, *y;
    OK(dhow_memory_get_stats(g_cpu, &before));
    OK(load_bytes(&file, &m));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, shape, 1, &x));
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(m);
    bytes_free(&file);
    OK(dhow_memory_get_stats(g_cpu, &after));
    cr_expect_eq(after.live, before.live, "%llu bytes live on",
                 (unsigned long long)(after.live - before.live));
}

/* ---- several devices ---- */

/* A simulated device has its own memory. */
static void close_and_open(const char *backends) {
    dhow_context_release(g_context);
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_PATH, 1);
    (void)setenv("DHOW_BACKENDS", backends, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

Test(shed_weights, what_lies_on_a_device_does_not_lie_on_the_host_too) {
    dhow_device *sim;
    dhow_tensor *here;
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    write_product();
    close_and_open("cpu,sim");
    OK(dhow_device_get(g_context, "sim", &sim));
    dhow_model *m = load(), *cpu = load();
    OK(dhow_model_to(m, sim));
    for (int64_t rows = 5; rows < 7; rows++) {
        dhow_tensor *y = run_on(m, sim, true, rows);
        OK(dhow_tensor_to(y, g_cpu, &here));
        dhow_tensor_release(y);
        expect_near(here, run(cpu, true, rows));
        cr_expect(is_shed(m));
    }
    OK(dhow_model_parameter_at(m, 0, &info));
    OK(dhow_tensor_to(info.tensor, g_cpu, &here));
    OK(dhow_model_parameter_at(cpu, 0, &info));
    dhow_tensor *own;
    OK(dhow_tensor_to(info.tensor, g_cpu, &own));
    expect_same(here, own);
    OK(dhow_model_to(m, g_cpu));
    expect_same(run(m, true, 6), run(cpu, true, 6));
    dhow_model_release(m);
    dhow_model_release(cpu);
    (void)unlink(g_path);
}

/* ---- several threads ---- */

typedef struct worker {
    dhow_model *model, *lent;
    int64_t rows;
} worker;

static void *work(void *user) {
    const worker *w = user;
    for (int64_t i = 0; i < 12; i++) {
        const int64_t rows = 3 + (w->rows + i) % 11;
        expect_same(run(w->model, false, rows), run(w->lent, false, rows));
    }
    return NULL;
}

Test(shed_weights, threads_make_plans_while_others_run) {
    write_convolution();
    pthread_t threads[3];
    worker all[3];
    dhow_model *m = load(), *lent = load_lent();
    for (int i = 0; i < 3; i++) {
        all[i] = (worker){m, lent, i * 4};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &all[i]), 0);
    }
    for (int i = 0; i < 3; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
    dhow_model_release(m);
    dhow_model_release(lent);
    (void)unlink(g_path);
}
