/* SPDX-License-Identifier: Apache-2.0
 *
 * ggml as one of the processes that dhow-bench compares, see serve.h:
 *
 *     dhow-bench-ggml FOLDER THREADS            serves the network of make_models.py with in0.npy
 *     dhow-bench-ggml FOLDER THREADS repacked   with weights of 4 bits as the processor likes them
 *
 * ggml reads no ONNX: the MLP, the encoder, the network of examples/generate and products with
 * weights of 4 bits are written by its operations here, as its users write theirs, with the weights
 * of FOLDER/weights/NAME.npy. A shape's innermost extent comes first.
 */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

enum { NODES = 512, HEADS = 12, MOST = 32 };

typedef struct ggml_tensor tensor;
/* Tensors that get values before the network runs. */
typedef struct leaves {
    struct ggml_context *context;
    serve_input files[NODES]; /* by the tensors' order */
    int count;
} leaves;

typedef struct network {
    const char *folder;
    ggml_backend_t backend;
    leaves weights, codes; /* codes: of 4 bits */
    struct ggml_context *steps;
    struct ggml_cgraph *graph;
    tensor *outputs[MOST]; /* y, then caches */
    uint32_t output_count;
    float *values;
} network;

/* ---- leaves ---- */

static tensor *leaf(network *n, const serve_input *file) {
    int64_t extents[GGML_MAX_DIMS] = {1, 1, 1, 1};
    const int numbers = strcmp(file->dtype, "i4") == 0;
    if ((!numbers && strcmp(file->dtype, "f4") != 0) || file->rank > GGML_MAX_DIMS ||
        n->weights.count == NODES)
        serve_fail(n->folder, "an array that this network cannot have");
    for (int32_t i = 0; i < file->rank; i++) extents[i] = file->shape[file->rank - 1 - i];
    n->weights.files[n->weights.count++] = *file;
    return ggml_new_tensor(n->weights.context, numbers ? GGML_TYPE_I32 : GGML_TYPE_F32,
                           GGML_MAX_DIMS, extents);
}

/* NULL when there is none. */
static tensor *find_weight(network *n, const char *layer, const char *name) {
    char path[600];
    serve_input file;
    (void)snprintf(path, sizeof path, "%.400s/weights/%s%s.npy", n->folder, layer, name);
    return serve_read_array(path, &file) ? leaf(n, &file) : NULL;
}

static tensor *weight(network *n, const char *layer, const char *name) {
    tensor *w = find_weight(n, layer, name);
    if (w == NULL) serve_fail(layer, "its weights are missing");
    return w;
}

/* ---- networks ---- */

static tensor *affine(network *n, tensor *x, tensor *w, tensor *b) {
    return ggml_add(n->steps, ggml_mul_mat(n->steps, w, x), b);
}

static tensor *linear(network *n, tensor *x, const char *layer, const char *name) {
    char w[64], b[64];
    (void)snprintf(w, sizeof w, "%.40sweight", name);
    (void)snprintf(b, sizeof b, "%.40sbias", name);
    return affine(n, x, weight(n, layer, w), weight(n, layer, b));
}

static tensor *norm(network *n, tensor *x, const char *layer, const char *name) {
    char w[64], b[64];
    (void)snprintf(w, sizeof w, "%.40s.weight", name);
    (void)snprintf(b, sizeof b, "%.40s.bias", name);
    x = ggml_mul(n->steps, ggml_norm(n->steps, x, 1e-5f), weight(n, layer, w));
    return ggml_add(n->steps, x, weight(n, layer, b));
}

static tensor *mlp(network *n, tensor *x) {
    for (int i = 0;; i += 2) {
        char layer[16];
        (void)snprintf(layer, sizeof layer, "%d.", i);
        tensor *w = find_weight(n, layer, "weight");
        if (w == NULL) return x;
        if (i > 0) x = ggml_relu(n->steps, x);
        x = affine(n, x, w, weight(n, layer, "bias"));
    }
}

/* x: [width, sequence, batch] */
static tensor *attention(network *n, tensor *x, const char *layer) {
    struct ggml_context *c = n->steps;
    const int64_t width = x->ne[0], sequence = x->ne[1], batch = x->ne[2], depth = width / HEADS;
    tensor *all = affine(n, x, weight(n, layer, "self_attn.in_proj_weight"),
                         weight(n, layer, "self_attn.in_proj_bias"));
    tensor *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = ggml_view_4d(c, all, depth, HEADS, sequence, batch, (size_t)depth * all->nb[0],
                               all->nb[1], all->nb[2], (size_t)(i * width) * all->nb[0]);
    tensor *q = ggml_permute(c, part[0], 0, 2, 1, 3), *k = ggml_permute(c, part[1], 0, 2, 1, 3);
    tensor *v = ggml_cont(c, ggml_permute(c, part[2], 1, 2, 0, 3));
    tensor *scores = ggml_mul_mat(c, k, q);
    scores = ggml_soft_max_ext(c, scores, NULL, 1 / sqrtf((float)depth), 0);
    tensor *mixed = ggml_permute(c, ggml_mul_mat(c, v, scores), 0, 2, 1, 3);
    return linear(n, ggml_cont_3d(c, mixed, width, sequence, batch), layer, "self_attn.out_proj.");
}

static tensor *encoder(network *n, tensor *x) {
    for (int i = 0;; i++) {
        char layer[24], first[600];
        serve_input file;
        (void)snprintf(layer, sizeof layer, "layers.%d.", i);
        (void)snprintf(first, sizeof first, "%.400s/weights/%snorm1.bias.npy", n->folder, layer);
        if (!serve_read_array(first, &file)) return x;
        free(file.data);
        x = norm(n, ggml_add(n->steps, x, attention(n, x, layer)), layer, "norm1");
        tensor *within = ggml_gelu_erf(n->steps, linear(n, x, layer, "linear1."));
        x = norm(n, ggml_add(n->steps, x, linear(n, within, layer, "linear2.")), layer, "norm2");
    }
}

/* ---- the network of examples/generate ---- */

/* The one number of FOLDER/in<i>.npy. */
static int32_t number_of(const network *n, uint32_t i) {
    serve_input file;
    if (!serve_read(n->folder, i, &file)) serve_fail(n->folder, "an input is missing");
    const int32_t number = *(const int32_t *)file.data; /* of an i64 the lower half */
    free(file.data);
    return number;
}

/* The row of a table that a number says. */
static tensor *row_of(network *n, const char *table, int32_t row) {
    serve_input file = {.dtype = "i4", .rank = 1, .shape = {1}, .bytes = sizeof row};
    file.data = malloc(sizeof row);
    if (file.data == NULL) serve_fail(table, "out of memory");
    memcpy(file.data, &row, sizeof row);
    tensor *rows = weight(n, table, "weight");
    return ggml_get_rows(n->steps, rows, leaf(n, &file));
}

/* Writes x behind what the cache FOLDER/in<i>.npy has; gives all that there is, [depth, before + 1,
 * heads]. */
static tensor *keep(network *n, uint32_t i, tensor *x, int32_t before) {
    serve_input file;
    if (!serve_read(n->folder, i, &file)) serve_fail(n->folder, "a cache is missing");
    tensor *cache = leaf(n, &file);
    if (n->output_count == MOST) serve_fail(n->folder, "it has too many caches");
    n->outputs[n->output_count++] = cache;
    const int64_t depth = cache->ne[0], heads = cache->ne[2];
    tensor *own = ggml_view_3d(n->steps, cache, depth, 1, heads, cache->nb[1], cache->nb[2],
                               (size_t)before * cache->nb[1]);
    x = ggml_reshape_3d(n->steps, x, depth, 1, heads);
    ggml_build_forward_expand(n->graph, ggml_cpy(n->steps, x, own));
    return ggml_view_3d(n->steps, cache, depth, before + 1, heads, cache->nb[1], cache->nb[2], 0);
}

static tensor *cached_attention(network *n, tensor *x, const char *layer, uint32_t first_cache,
                                int32_t before) {
    tensor *k = keep(n, first_cache, linear(n, x, layer, "key."), before),
           *v = keep(n, first_cache + 1, linear(n, x, layer, "value."), before);
    tensor *q = ggml_reshape_3d(n->steps, linear(n, x, layer, "query."), k->ne[0], 1, k->ne[2]);
    tensor *y = ggml_flash_attn_ext(n->steps, q, k, v, NULL, 1 / sqrtf((float)k->ne[0]), 0, 0);
    return linear(n, ggml_reshape_2d(n->steps, y, x->ne[0], 1), layer, "out.");
}

static tensor *generator(network *n) {
    enum { TOKEN, PLACE, LENGTH, TOTAL, CACHES };
    const int32_t before = number_of(n, LENGTH);
    tensor *x = ggml_add(n->steps, row_of(n, "token.", number_of(n, TOKEN)),
                         row_of(n, "position.", number_of(n, PLACE)));
    serve_input file;
    for (uint32_t i = 0; serve_read(n->folder, CACHES + 2 * i, &file); i++) {
        char layer[24];
        free(file.data);
        (void)snprintf(layer, sizeof layer, "layers.%u.", i);
        tensor *seen =
            cached_attention(n, norm(n, x, layer, "norm1"), layer, CACHES + 2 * i, before);
        x = ggml_add(n->steps, x, seen);
        tensor *within =
            ggml_gelu_erf(n->steps, linear(n, norm(n, x, layer, "norm2"), layer, "up."));
        x = ggml_add(n->steps, x, linear(n, within, layer, "down."));
    }
    return linear(n, norm(n, x, "", "norm"), "", "head.");
}

/* ---- products with weights of 4 bits ---- */

enum { BLOCK = 32 };

typedef struct q4_block {
    ggml_fp16_t scale;
    uint8_t codes[BLOCK / 2];
} q4_block;

/* ONNX's neighbours share a byte; in q4_0 a code shares it with the one half a block further. */
static void pack(const uint8_t *codes, float scale, q4_block *out) {
    out->scale = ggml_fp32_to_fp16(scale);
    for (int i = 0; i < BLOCK / 2; i++) {
        const int far = i + BLOCK / 2, shift = i % 2 * 4;
        out->codes[i] =
            (uint8_t)((codes[i / 2] >> shift & 15) | (codes[far / 2] >> shift & 15) << 4);
    }
}

/* The i-th product's weights, NULL when there are no more. */
static tensor *coded_weight(network *n, int i) {
    char path[600];
    serve_input codes, scales;
    (void)snprintf(path, sizeof path, "%.400s/weights/codes%d.npy", n->folder, i);
    if (!serve_read_array(path, &codes)) return NULL;
    (void)snprintf(path, sizeof path, "%.400s/weights/scales%d.npy", n->folder, i);
    if (!serve_read_array(path, &scales) || codes.rank != 3 || n->codes.count == NODES)
        serve_fail(path, "it is missing, or its codes are none of blocks");
    const int64_t rows = codes.shape[0], blocks = codes.shape[1];
    serve_input *packed = &n->codes.files[n->codes.count++];
    packed->bytes = (size_t)(rows * blocks) * sizeof(q4_block);
    q4_block *out = malloc(packed->bytes);
    if (out == NULL) serve_fail(path, "out of memory");
    for (int64_t k = 0; k < rows * blocks; k++)
        pack((const uint8_t *)codes.data + k * BLOCK / 2, ((const float *)scales.data)[k], &out[k]);
    packed->data = out;
    free(codes.data);
    free(scales.data);
    return ggml_new_tensor_2d(n->codes.context, GGML_TYPE_Q4_0, blocks * BLOCK, rows);
}

/* NULL where the folder has no such weights. */
static tensor *products(network *n) {
    serve_input file;
    tensor *w = coded_weight(n, 0), *x = NULL;
    if (w == NULL) return NULL;
    if (serve_read(n->folder, 0, &file)) x = leaf(n, &file);
    if (x == NULL) serve_fail(n->folder, "in0.npy is missing");
    for (int i = 1; w != NULL; w = coded_weight(n, i++)) x = ggml_mul_mat(n->steps, w, x);
    return x;
}

/* ---- running ---- */

static void run(void *data) {
    network *n = data;
    if (ggml_backend_graph_compute(n->backend, n->graph) != GGML_STATUS_SUCCESS)
        serve_fail("ggml_backend_graph_compute", "it failed");
}

static const void *output(void *data, uint32_t i, size_t *bytes) {
    network *n = data;
    if (i >= n->output_count) return NULL;
    *bytes = ggml_nbytes(n->outputs[i]);
    free(n->values);
    n->values = malloc(*bytes);
    if (n->values == NULL) serve_fail("output", "out of memory");
    ggml_backend_tensor_get(n->outputs[i], n->values, 0, *bytes);
    return n->values;
}

static struct ggml_context *make_context(void) {
    const struct ggml_init_params about = {
        .mem_size = ggml_tensor_overhead() * NODES + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context *c = ggml_init(about);
    if (c == NULL) serve_fail("ggml_init", "it failed");
    return c;
}

static void fill(leaves *all, ggml_backend_buffer_type_t memory) {
    int i = 0;
    if (all->count == 0) return;
    if (ggml_backend_alloc_ctx_tensors_from_buft(all->context, memory) == NULL)
        serve_fail("memory", "there is not enough");
    for (tensor *t = ggml_get_first_tensor(all->context); t != NULL;
         t = ggml_get_next_tensor(all->context, t), i++) {
        ggml_backend_tensor_set(t, all->files[i].data, 0, all->files[i].bytes);
        free(all->files[i].data);
    }
}

/* Memory that weights of 4 bits are written into in another order, for the processor's products. */
static ggml_backend_buffer_type_t repacked(ggml_backend_t backend) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    void *function = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                       "ggml_backend_dev_get_extra_bufts");
    ggml_backend_dev_get_extra_bufts_t list;
    memcpy(&list, &function, sizeof list);
    ggml_backend_buffer_type_t *all = function != NULL ? list(device) : NULL;
    while (all != NULL && *all != NULL && strstr(ggml_backend_buft_name(*all), "REPACK") == NULL)
        all++;
    if (all == NULL || *all == NULL) serve_fail("ggml", "it repacks nothing on this processor");
    return *all;
}

static void build(network *n) {
    serve_input file;
    if ((n->outputs[0] = products(n)) != NULL) return;
    if (!serve_read(n->folder, 0, &file)) serve_fail(n->folder, "in0.npy is missing");
    if (strcmp(file.dtype, "i8") == 0) {
        free(file.data);
        n->outputs[0] = generator(n);
    } else {
        tensor *x = leaf(n, &file);
        n->outputs[0] = file.rank == 2 ? mlp(n, x) : encoder(n, x);
    }
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) serve_fail(argv[0], "FOLDER THREADS [repacked]");
    static network n;
    n.folder = argv[1];
    n.weights.context = make_context();
    n.codes.context = make_context();
    n.steps = make_context();
    n.backend = ggml_backend_cpu_init();
    if (n.backend == NULL) serve_fail("ggml_backend_cpu_init", "it failed");
    ggml_backend_cpu_set_n_threads(n.backend, (int)strtol(argv[2], NULL, 10));
    n.graph = ggml_new_graph(n.steps);
    n.output_count = 1;
    build(&n);
    ggml_set_output(n.outputs[0]);
    ggml_build_forward_expand(n.graph, n.outputs[0]);
    ggml_backend_buffer_type_t memory = ggml_backend_get_default_buffer_type(n.backend);
    ggml_gallocr_t arena = ggml_gallocr_new(memory);
    fill(&n.weights, memory);
    fill(&n.codes, argc == 4 ? repacked(n.backend) : memory);
    if (!ggml_gallocr_alloc_graph(arena, n.graph)) serve_fail("memory", "there is not enough");
    const serve_work work = {run, output, &n, ggml_version()};
    return serve(&work);
}
