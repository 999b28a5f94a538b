/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of kernels that only models reach: operators of ONNX files, which are written here field by
 * field, and an LSTM.
 */
#include "../unit/onnx_writer.h"
#include "ops.h"

enum { ONNX_U8 = 2, ONNX_I32 = 6, ONNX_I64 = 7, ONNX_E4M3 = 17, MOST = 6 };

static int64_t onnx_type(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F32:
            return 1;
        case DHOW_F64:
            return 11;
        case DHOW_F16:
            return 10;
        case DHOW_BF16:
            return 16;
        case DHOW_U8:
            return ONNX_U8;
        case DHOW_I32:
            return ONNX_I32;
        default:
            return ONNX_I64;
    }
}

/* A model of one node: its inputs "a b c ...", its outputs "y z" as the node names them. */
typedef struct one_node {
    conform_array *in[MOST];
    const conform_array *want[2]; /* the second may be NULL */
    conform_tolerance tolerance;
    const char *what;
} one_node;

static void put_values(bytes *graph, uint32_t field, const char *name, const conform_array *a) {
    bytes value = typed_value_of(name, onnx_type(a->dtype), (uint32_t)a->rank, a->shape);
    put_message(graph, field, &value);
}

/* The node and the graph are freed. */
static conform_result run_graph(conform_env *env, bytes *graph, const one_node *n) {
    static const char *const in_names[MOST] = {"a", "b", "c", "d", "e", "f"}, *const out_names[] = {
                                                                                  "y", "z"};
    dhow_tensor *in[MOST], *out[2] = {NULL, NULL};
    uint32_t in_count = 0, out_count = 0;
    dhow_model *m;
    for (; in_count < MOST && n->in[in_count] != NULL; in_count++)
        put_values(graph, GRAPH_INPUT, in_names[in_count], n->in[in_count]);
    for (; out_count < 2 && n->want[out_count] != NULL; out_count++)
        put_values(graph, GRAPH_OUTPUT, out_names[out_count], n->want[out_count]);
    bytes file = model_of(28, graph);
    conform_own(env, CONFORM_MEMORY, file.data); /* the model reads in it as long as it lives */
    OWN(MODEL, &m, dhow_model_load_memory(env->context, file.data, file.length, &m));
    for (uint32_t i = 0; i < in_count; i++)
        TRY(conform_upload(env, n->in[i], LAYOUT_PLAIN, &in[i]));
    OK(dhow_model_to(m, env->device));
    OK(dhow_model_run(m, NULL, in, in_count, out, out_count));
    for (uint32_t i = 0; i < out_count; i++) conform_own(env, CONFORM_TENSOR, out[i]);
    for (uint32_t i = 0; i < out_count; i++)
        TRY(conform_expect(env, out[i], n->want[i], n->tolerance, n->what));
    return CONFORM_PASS;
}

static conform_result run_node(conform_env *env, bytes *node, const one_node *n) {
    bytes graph = {0};
    put_message(&graph, GRAPH_NODE, node);
    return run_graph(env, &graph, n);
}

static conform_tolerance near(dhow_dtype dtype) {
    conform_tolerance t = conform_tolerance_of(dtype);
    t.absolute += dtype == DHOW_F64 ? 1e-13 : 1e-5;
    return t;
}

/* ---- local response normalisation, determinants ---- */

static conform_result lrn(conform_env *env, dhow_dtype dtype) {
    enum { N = 2, C = 7, PIXELS = 15, SIZE = 4 };
    static const int64_t shape[] = {N, C, 3, 5};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 4, shape, -3, 3, 1);
    conform_array want = conform_array_new(env, dtype, 4, shape);
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t c = i / PIXELS % C;
        double sum = 0;
        for (int64_t k = c - (SIZE - 1) / 2; k <= c + SIZE / 2; k++) {
            const double e = k < 0 || k >= C ? 0 : x.value[i + (k - c) * PIXELS];
            sum += e * e;
        }
        want.value[i] = x.value[i] / pow(2 + 0.5 / SIZE * sum, 0.75);
    }
    bytes node = node_of("LRN", "lrn", "a", "y");
    add_int(&node, "size", SIZE);
    add_float(&node, "alpha", 0.5F);
    add_float(&node, "beta", 0.75F);
    add_float(&node, "bias", 2);
    return run_node(env, &node, &(one_node){{&x}, {&want}, near(dtype), "LRN"});
}

static conform_result determinants(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {5, 3, 3}, result[] = {5};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 3, shape, -2, 2, 2);
    conform_array want = conform_array_new(env, dtype, 1, result);
    for (int64_t i = 0; i < 3; i++) x.value[i] = i == 1 ? 1 : 0; /* wants another row first */
    for (int64_t i = 0; i < 5; i++) {
        const double *m = &x.value[9 * i];
        want.value[i] = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
                        m[2] * (m[3] * m[7] - m[4] * m[6]);
    }
    bytes node = node_of("Det", "det", "a", "y");
    conform_tolerance t = near(dtype);
    t.absolute *= 4;
    return run_node(env, &node, &(one_node){{&x}, {&want}, t, "Det"});
}

/* ---- regions of an image ---- */

/* On a plane a mean of interpolated samples is the plane's value in the middle of the bin. */
static conform_result regions(conform_env *env, dhow_dtype dtype) {
    enum { IMAGES = 2, C = 137, SIDE = 12, ROIS = 3, OUT = 2 };
    static const int64_t shape[] = {IMAGES, C, SIDE, SIDE}, corners[] = {ROIS, 4}, which[] = {ROIS};
    static const int64_t result[] = {ROIS, C, OUT, OUT};
    static const double boxes[ROIS][4] = {{1, 2, 9, 10}, {2, 2, 4, 8}, {3, 1, 10, 3}};
    static const double images[ROIS] = {1, 0, 1};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_new(env, dtype, 4, shape);
    conform_array rois = conform_array_new(env, dtype, 2, corners);
    conform_array index = conform_array_new(env, DHOW_I64, 1, which);
    conform_array want = conform_array_new(env, dtype, 4, result);
    for (int64_t i = 0; i < x.count; i++)
        x.value[i] = (double)(i / (SIDE * SIDE)) / C + 0.25 * (double)(i / SIDE % SIDE) -
                     0.5 * (double)(i % SIDE);
    memcpy(rois.value, boxes, sizeof boxes);
    memcpy(index.value, images, sizeof images);
    for (int64_t i = 0; i < want.count; i++) {
        const int64_t roi = i / (C * OUT * OUT);
        const double *box = boxes[roi], width = (box[2] - box[0]) / OUT,
                     height = (box[3] - box[1]) / OUT;
        const double column = box[0] - 0.5 + width * ((double)(i % OUT) + 0.5);
        const double row = box[1] - 0.5 + height * ((double)(i / OUT % OUT) + 0.5);
        want.value[i] = images[roi] + (double)(i / (OUT * OUT) % C) / C + 0.25 * row - 0.5 * column;
    }
    bytes node = node_of("RoiAlign", "roi", "a b c", "y");
    add_int(&node, "output_height", OUT);
    add_int(&node, "output_width", OUT);
    add_int(&node, "sampling_ratio", 2);
    return run_node(env, &node, &(one_node){{&x, &rois, &index}, {&want}, near(dtype), "RoiAlign"});
}

/* ---- decision trees ---- */

/* Complete trees: node i > 0 of a tree leads to 2 i and 2 i + 1, the last of them are leaves. */
enum {
    TREES = 5,
    DEPTH = 3,
    NODES = 1 << (DEPTH + 1),
    INNER = NODES / 2,
    FEATURES = 6,
    CLASSES = 3
};

typedef struct forest {
    const char *join; /* aggregate_function */
    int modes, mode;  /* how many there are, from this one on */
    int64_t targets;
    bool dense; /* leaves have a weight for each target */
} forest;

static const char *const k_modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                      "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
static int mode_of(const forest *f, int64_t tree, int64_t i) {
    return f->mode + (int)((tree + i) % f->modes);
}
static int64_t feature_of(int64_t tree, int64_t i) { return (3 * tree + i) % FEATURES; }
static float threshold_of(int64_t tree, int64_t i) { return (float)((tree + 5 * i) % 7 - 3); }
static float weight_of(int64_t tree, int64_t i, int64_t target) {
    return (float)((7 * tree + 3 * i + 5 * target) % 11 - 5) / 4;
}
static bool tracks_missing(int64_t tree, int64_t i) { return (tree + i) % 3 == 0; }

static bool goes(const forest *f, int64_t tree, int64_t i, double x) {
    const double t = (double)threshold_of(tree, i);
    const bool answers[] = {x <= t, x<t, x >= t, x> t, x == t, x != t};
    return isnan(x) ? tracks_missing(tree, i) || mode_of(f, tree, i) == 5
                    : answers[mode_of(f, tree, i)];
}

static void add_trees(bytes *node, const forest *f) {
    enum { ALL = TREES * (NODES - 1), WEIGHTS = TREES * INNER * CLASSES };
    int64_t trees[ALL], ids[ALL], features[ALL], yes[ALL], no[ALL], missing[ALL];
    int64_t weight_trees[WEIGHTS], weight_ids[WEIGHTS], targets[WEIGHTS];
    float thresholds[ALL], weights[WEIGHTS];
    const char *modes[ALL];
    uint32_t n = 0, w = 0;
    for (int64_t tree = 0; tree < TREES; tree++) {
        for (int64_t i = 1; i < NODES; i++, n++) {
            trees[n] = tree, ids[n] = i, features[n] = feature_of(tree, i);
            yes[n] = i < INNER ? 2 * i : 0, no[n] = i < INNER ? 2 * i + 1 : 0;
            missing[n] = tracks_missing(tree, i);
            thresholds[n] = threshold_of(tree, i);
            modes[n] = i < INNER ? k_modes[mode_of(f, tree, i)] : "LEAF";
            for (int64_t k = 0; k < f->targets && i >= INNER; k++) {
                if (!f->dense && k != tree % f->targets) continue;
                weight_trees[w] = tree, weight_ids[w] = i, targets[w] = k;
                weights[w++] = weight_of(tree, i, k);
            }
        }
    }
    add_ints(node, "nodes_treeids", n, trees);
    add_ints(node, "nodes_nodeids", n, ids);
    add_ints(node, "nodes_featureids", n, features);
    add_ints(node, "nodes_truenodeids", n, yes);
    add_ints(node, "nodes_falsenodeids", n, no);
    add_ints(node, "nodes_missing_value_tracks_true", n, missing);
    add_floats(node, "nodes_values", n, thresholds);
    add_texts(node, "nodes_modes", n, modes);
    add_ints(node, "target_treeids", w, weight_trees);
    add_ints(node, "target_nodeids", w, weight_ids);
    add_ints(node, "target_ids", w, targets);
    add_floats(node, "target_weights", w, weights);
}

static double joined(const char *join, double a, double b) {
    return strcmp(join, "MIN") == 0 ? fmin(a, b) : strcmp(join, "MAX") == 0 ? fmax(a, b) : a + b;
}

static conform_result forest_is_right(conform_env *env, dhow_dtype dtype, const forest *f,
                                      int64_t rows) {
    const int64_t shape[] = {rows, FEATURES}, result[] = {rows, f->targets};
    conform_array x = conform_array_random(env, dtype, 2, shape, -4, 4, 7);
    conform_array want = conform_array_new(env, DHOW_F32, 2, result);
    for (int64_t i = 0; i < x.count; i++)
        x.value[i] = i % 9 == 4 ? (double)NAN : i % 4 == 0 ? rint(x.value[i]) : x.value[i];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t tree = 0; tree < TREES; tree++) {
            int64_t i = 1;
            while (i < INNER)
                i = 2 * i + !goes(f, tree, i, x.value[r * FEATURES + feature_of(tree, i)]);
            for (int64_t k = 0; k < f->targets; k++) {
                double *to = &want.value[r * f->targets + k];
                if (!f->dense && k != tree % f->targets) continue;
                const bool first = tree == (f->dense ? 0 : k);
                const double own = (double)weight_of(tree, i, k);
                *to = first ? own : joined(f->join, *to, own);
            }
        }
    }
    bytes node = node_of("TreeEnsembleRegressor", "trees", "a", "y");
    put_text(&node, NODE_DOMAIN, "ai.onnx.ml");
    add_int(&node, "n_targets", f->targets);
    add_text(&node, "aggregate_function", f->join);
    add_trees(&node, f);
    return run_node(env, &node, &(one_node){{&x}, {&want}, near(DHOW_F32), f->join});
}

static conform_result trees(conform_env *env, dhow_dtype dtype) {
    static const forest forests[] = {{"SUM", 1, 0, 1, true},  {"SUM", 1, 1, 3, false},
                                     {"SUM", 1, 2, 3, true},  {"SUM", 1, 3, 1, true},
                                     {"MIN", 6, 0, 3, true},  {"MAX", 6, 0, 1, true},
                                     {"SUM", 6, 0, 3, false}, {"MAX", 2, 4, 3, true}};
    NEEDS_DTYPE(dtype);
    for (size_t i = 0; i < sizeof forests / sizeof *forests; i++) {
        TRY(forest_is_right(env, dtype, &forests[i], 1));
        TRY(forest_is_right(env, dtype, &forests[i], 77));
    }
    return CONFORM_PASS;
}

/* ---- pools of volumes ---- */

static conform_result pools(conform_env *env, dhow_dtype dtype) {
    enum { N = 2, D = 4, H = 6, W = 2 };
    static const int64_t shape[] = {1, N, D, H, W}, result[] = {1, N, 2, 2, 1},
                         kernel[] = {2, 3, 2};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 5, shape, -4, 4, 3);
    conform_array most = conform_array_new(env, dtype, 5, result);
    conform_array mean = conform_array_new(env, dtype, 5, result);
    conform_array norm = conform_array_new(env, dtype, 5, result);
    conform_array where = conform_array_new(env, DHOW_I64, 5, result);
    for (int64_t i = 0; i < most.count; i++) most.value[i] = -(double)INFINITY;
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t to = i / (D * H * W) * 4 + i / (H * W) % D / 2 * 2 + i / W % H / 3;
        mean.value[to] += x.value[i] / 12;
        norm.value[to] = hypot(norm.value[to], x.value[i]);
        if (x.value[i] <= most.value[to]) continue; /* of two the first */
        most.value[to] = x.value[i];
        where.value[to] = (double)i;
    }
    bytes nodes[] = {node_of("MaxPool", "max", "a", "y"), node_of("MaxPool", "at", "a", "y z"),
                     node_of("AveragePool", "mean", "a", "y"), node_of("LpPool", "norm", "a", "y")};
    const one_node wanted[] = {{{&x}, {&most}, {0, 0}, "MaxPool of volumes"},
                               {{&x}, {&most, &where}, {0, 0}, "MaxPool's indices"},
                               {{&x}, {&mean}, near(dtype), "AveragePool"},
                               {{&x}, {&norm}, near(dtype), "LpPool"}};
    conform_result r = CONFORM_PASS;
    for (int i = 0; i < 4; i++) {
        add_ints(&nodes[i], "kernel_shape", 3, kernel);
        add_ints(&nodes[i], "strides", 3, kernel);
        if (r == CONFORM_PASS) {
            r = run_node(env, &nodes[i], &wanted[i]);
        } else {
            bytes_free(&nodes[i]);
        }
    }
    return r;
}

/* ---- weights of 4 bits ---- */

/* Codes of a column by its blocks, two a byte, and a scale each; the zero point is 8. */
static conform_result nbits_of(conform_env *env, dhow_dtype dtype, int64_t depth, int64_t block) {
    enum { COLUMNS = 37 };
    static const int64_t rows[] = {1, 3, 5, 13, 130};
    const int64_t codes[] = {COLUMNS, depth / block, block / 2};
    const int64_t scales[] = {COLUMNS * depth / block};
    conform_array b = conform_array_random(env, DHOW_U8, 3, codes, 0, 255, 5);
    conform_array s = conform_array_random(env, dtype, 1, scales, 0.25, 1, 6);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        conform_array a =
            conform_array_random(env, dtype, 2, (int64_t[]){rows[i], depth}, -1, 1, 4);
        conform_array want = conform_array_new(env, dtype, 2, (int64_t[]){rows[i], COLUMNS});
        for (int64_t y = 0; y < want.count; y++) {
            for (int64_t k = 0; k < depth; k++) {
                const int64_t at = y % COLUMNS * depth + k;
                const int byte = (int)b.value[at / 2];
                want.value[y] += a.value[y / COLUMNS * depth + k] * s.value[at / block] *
                                 (double)((k % 2 != 0 ? byte >> 4 : byte & 15) - 8);
            }
        }
        bytes node = node_of("MatMulNBits", "product", "a b c", "y");
        put_text(&node, 7, "com.microsoft");
        add_int(&node, "K", depth);
        add_int(&node, "N", COLUMNS);
        add_int(&node, "bits", 4);
        add_int(&node, "block_size", block);
        conform_tolerance t = near(dtype);
        t.absolute += t.relative * 64 + 1e-3;
        TRY(run_node(env, &node, &(one_node){{&a, &b, &s}, {&want}, t, "MatMulNBits"}));
    }
    return CONFORM_PASS;
}

/* Blocks that are shorter than 16 bytes of codes, blocks of as many, and long ones. */
static conform_result nbits(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    TRY(nbits_of(env, dtype, 48, 16));
    TRY(nbits_of(env, dtype, 160, 32));
    return nbits_of(env, dtype, 4096, 2048);
}

/* ---- float8 ---- */

/* The nearest with three bits behind the first, halves to the even one; 448 is the largest. */
static double as_e4m3(double v) {
    int exponent;
    (void)frexp(v, &exponent);
    const double step = ldexp(1, (exponent < -5 ? -5 : exponent) - 4);
    return fmax(-448, fmin(448, step * rint(v / step)));
}

static conform_result codes(conform_env *env) {
    static const int64_t shape[] = {3, 211};
    conform_array x = conform_array_random(env, DHOW_F32, 2, shape, -500, 500, 7);
    conform_array want = conform_array_new(env, DHOW_F32, 2, shape);
    for (int64_t i = 0; i < x.count; i++) {
        if (i % 3 == 1) x.value[i] = (double)(float)ldexp(x.value[i], -12);
        if (i % 3 == 2) x.value[i] = (double)(i % 29) * 0.5; /* halves */
        want.value[i] = as_e4m3(x.value[i]);
    }
    bytes graph = {0}, to = node_of("Cast", "to", "a", "t"),
          back = node_of("Cast", "back", "t", "y");
    add_int(&to, "to", ONNX_E4M3);
    add_int(&back, "to", 1);
    put_message(&graph, GRAPH_NODE, &to);
    put_message(&graph, GRAPH_NODE, &back);
    return run_graph(env, &graph, &(one_node){{&x}, {&want}, {0, 0}, "float8e4m3fn"});
}

/* ---- LSTM ---- */

enum { STEPS = 3, WIDE = 4, HIDDEN = 5, GATES = 4 * HIDDEN };

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }

/* One step of one sequence; gates in PyTorch's order: input, forget, cell, output. */
static void lstm_step(const double *x, const conform_array p[4], double h[HIDDEN],
                      double c[HIDDEN]) {
    double gate[GATES];
    for (int g = 0; g < GATES; g++) {
        gate[g] = p[2].value[g] + p[3].value[g];
        for (int i = 0; i < WIDE; i++) gate[g] += p[0].value[g * WIDE + i] * x[i];
        for (int i = 0; i < HIDDEN; i++) gate[g] += p[1].value[g * HIDDEN + i] * h[i];
    }
    for (int i = 0; i < HIDDEN; i++) {
        c[i] = sigmoid(gate[HIDDEN + i]) * c[i] + sigmoid(gate[i]) * tanh(gate[2 * HIDDEN + i]);
        h[i] = sigmoid(gate[3 * HIDDEN + i]) * tanh(c[i]);
    }
}

static conform_result lstm(conform_env *env, dhow_dtype dtype) {
    enum { BATCH = 2 };
    static const char *const names[] = {"l.weight_ih_l0", "l.weight_hh_l0", "l.bias_ih_l0",
                                        "l.bias_hh_l0"};
    static const int64_t shapes[][2] = {{GATES, WIDE}, {GATES, HIDDEN}, {GATES}, {GATES}};
    static const int64_t shape[] = {BATCH, STEPS, WIDE}, result[] = {BATCH, STEPS, HIDDEN};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 3, shape, -1, 1, 8), p[4];
    conform_array want = conform_array_new(env, dtype, 3, result);
    dhow_tensor *tx, *tp, *ty;
    dhow_model *m;
    dhow_model_value v;
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", dtype, 3, shape, &v));
    OK(dhow_model_lstm(m, "l", v, WIDE, HIDDEN, 1, 0, 1, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_to(m, env->device));
    for (int i = 0; i < 4; i++) {
        p[i] = conform_array_random(env, dtype, i < 2 ? 2 : 1, shapes[i], -1, 1, 9 + (uint64_t)i);
        TRY(conform_upload(env, &p[i], LAYOUT_PLAIN, &tp));
        OK(dhow_model_set_parameter(m, names[i], tp));
    }
    for (int b = 0; b < BATCH; b++) {
        double h[HIDDEN] = {0}, c[HIDDEN] = {0};
        for (int s = 0; s < STEPS; s++) {
            lstm_step(&x.value[(b * STEPS + s) * WIDE], p, h, c);
            memcpy(&want.value[(b * STEPS + s) * HIDDEN], h, sizeof h);
        }
    }
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    OK(dhow_model_run_into(m, NULL, &tx, 1, &ty, 1));
    return conform_expect(env, ty, &want, near(dtype), "LSTM");
}

/* ---- caches ---- */

enum { ROOM = 100, NEW = 3, E = 6, SHARED = 2, SHARING = 2 };

/* Steps written from start[b] on into cache[2, SHARED, ROOM, E]. */
static void put_steps(conform_array *cache, const conform_array *x, const int64_t *start) {
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t head = i / (NEW * E);
        cache->value[(head * ROOM + start[head / SHARED]) * E + i % (NEW * E)] = x->value[i];
    }
}

static conform_result upload_numbers(conform_env *env, const int64_t numbers[2],
                                     dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_from_data(env->device, DHOW_I64, DHOW_SHAPE(2), numbers, out));
    return CONFORM_PASS;
}

/* In the memory of the cache itself, twice. */
static conform_result cache(conform_env *env, dhow_dtype dtype) {
    static const int64_t room[] = {2, SHARED, ROOM, E}, fresh[] = {2, SHARED, NEW, E};
    NEEDS_DTYPE(dtype);
    conform_array held = conform_array_random(env, dtype, 4, room, 0, 100, 1);
    dhow_tensor *in[3];
    dhow_model *m;
    dhow_model_value c, x, at;
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "cache", dtype, 4, room, &c));
    OK(dhow_model_input(m, "x", dtype, 4, fresh, &x));
    OK(dhow_model_input(m, "at", DHOW_I64, DHOW_SHAPE(2), &at));
    OK(dhow_model_update_cache(m, c, x, at, &c));
    OK(dhow_model_output(m, "new", c));
    OK(dhow_model_to(m, env->device));
    TRY(conform_upload(env, &held, LAYOUT_PLAIN, &in[0]));
    for (int k = 0; k < 2; k++) {
        const int64_t start[] = {5 * k, ROOM - NEW - k};
        conform_array y = conform_array_random(env, dtype, 4, fresh, 0, 100, 2 + (uint64_t)k);
        TRY(conform_upload(env, &y, LAYOUT_PLAIN, &in[1]));
        TRY(upload_numbers(env, start, &in[2]));
        OK(dhow_model_run_into(m, NULL, in, 3, in, 1));
        put_steps(&held, &y, start);
    }
    return conform_expect(env, in[0], &held, conform_tolerance_of(dtype), "a cache");
}

/* Row r of head h of batch b, of the last `rows` of `length` keys. */
static void attend_row(double *y, const double *q, const double *k, const double *v, int64_t seen) {
    double weight[ROOM], sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        double score = 0;
        for (int64_t e = 0; e < E; e++) score += q[e] * k[j * E + e] / 2;
        sum += weight[j] = exp(3 * tanh(score / 3));
    }
    for (int64_t i = 0; i < seen * E; i++) y[i % E] += weight[i / E] / sum * v[i];
}

static conform_result cached_attention(conform_env *env, dhow_dtype dtype) {
    static const int64_t room[] = {2, SHARED, ROOM, E}, rows[] = {2, SHARED * SHARING, NEW, E};
    static const int64_t lengths[] = {ROOM, 7};
    NEEDS_DTYPE(dtype);
    conform_array a[] = {conform_array_random(env, dtype, 4, rows, -1, 1, 1),
                         conform_array_random(env, dtype, 4, room, -1, 1, 2),
                         conform_array_random(env, dtype, 4, room, -1, 1, 3)};
    dhow_tensor *in[4], *y;
    TRY(upload_numbers(env, lengths, &in[3]));
    for (int i = 0; i < 3; i++) TRY(conform_upload(env, &a[i], LAYOUT_PLAIN, &in[i]));
    for (int causal = 0; causal < 2; causal++) {
        conform_array want = conform_array_new(env, dtype, 4, rows);
        dhow_model *m;
        dhow_model_value v[4];
        OWN(MODEL, &m, dhow_model_create(env->context, &m));
        OK(dhow_model_input(m, "q", dtype, 4, rows, &v[0]));
        OK(dhow_model_input(m, "k", dtype, 4, room, &v[1]));
        OK(dhow_model_input(m, "v", dtype, 4, room, &v[2]));
        OK(dhow_model_input(m, "n", DHOW_I64, DHOW_SHAPE(2), &v[3]));
        OK(dhow_model_cached_attention(m, v[0], v[1], v[2], v[3], causal, 0.5, 3, &v[0]));
        OK(dhow_model_output(m, "y", v[0]));
        OK(dhow_model_to(m, env->device));
        for (int64_t i = 0; i < want.count / E; i++) {
            const int64_t own = i / NEW / SHARING * ROOM * E,
                          n = lengths[i / NEW / SHARING / SHARED];
            attend_row(&want.value[i * E], &a[0].value[i * E], &a[1].value[own], &a[2].value[own],
                       causal ? n - NEW + i % NEW + 1 : n);
        }
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
        OK(dhow_model_run_into(m, NULL, in, 4, &y, 1));
        conform_tolerance t = near(dtype);
        if (dtype == DHOW_F16 || dtype == DHOW_BF16) t.absolute += 4 * t.relative;
        TRY(conform_expect(env, y, &want, t,
                           causal ? "causal attention to a cache" : "attention to a cache"));
    }
    return CONFORM_PASS;
}

/* ---- bytes in place of numbers ---- */

/* There and back with a known scale, of 0.1, which are steps of codes. */
static conform_result quantised(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {7, 300};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 2, shape, -3, 30, 4);
    conform_array want = conform_array_new(env, dtype, 2, shape);
    for (int64_t i = 0; i < x.count; i++) {
        x.value[i] = (rint(10 * x.value[i]) + (i % 2 == 0 ? 0.25 : -0.375)) / 10;
        want.value[i] = fmin(fmax(rint(10 * x.value[i]), 0), 255) / 10;
    }
    bytes graph = {0}, scale = floats_of("s", 1, 0);
    bytes there = node_of("QuantizeLinear", "there", "a s", "q"),
          back = node_of("DequantizeLinear", "back", "q s", "y");
    put_message(&graph, GRAPH_INITIALIZER, &scale);
    put_message(&graph, GRAPH_NODE, &there);
    put_message(&graph, GRAPH_NODE, &back);
    return run_graph(env, &graph, &(one_node){{&x}, {&want}, near(dtype), "quantised values"});
}
static conform_result quantised_f32(conform_env *env) { return quantised(env, DHOW_F32); }

/* Means of codes along an axis with others behind it, and along the last one. */
static conform_result means_of_codes(conform_env *env) {
    static const int64_t shape[] = {3, 70, 300};
    for (int64_t axis = 1; axis < 3; axis++) {
        const int64_t result[] = {3, axis == 1 ? 1 : 70, axis == 1 ? 300 : 1};
        conform_array x = conform_array_new(env, DHOW_F32, 3, shape),
                      want = conform_array_new(env, DHOW_F32, 3, result);
        for (int64_t i = 0; i < x.count; i++) {
            const int64_t code = (i * 131 + i / 256) % 256,
                          to = axis == 1 ? i / 21000 * 300 + i % 300 : i / 300;
            x.value[i] = (double)code * 0.1;
            want.value[to] += x.value[i] / (double)shape[axis];
        }
        bytes graph = {0}, scale = floats_of("s", 1, 0),
              there = node_of("QuantizeLinear", "there", "a s", "q"),
              back = node_of("DequantizeLinear", "back", "q s", "f"),
              mean = node_of("ReduceMean", "mean", "f", "y");
        add_ints(&mean, "axes", 1, &axis);
        put_message(&graph, GRAPH_INITIALIZER, &scale);
        put_message(&graph, GRAPH_NODE, &there);
        put_message(&graph, GRAPH_NODE, &back);
        put_message(&graph, GRAPH_NODE, &mean);
        TRY(run_graph(env, &graph, &(one_node){{&x}, {&want}, near(DHOW_F32), "means of codes"}));
    }
    return CONFORM_PASS;
}

/* By the range of what is quantised, in several parts; zeros alone have a scale of 1. */
static conform_result quantised_by_range(conform_env *env) {
    static const int64_t shape[] = {7, 3001}, one[1] = {0};
    const double low = -3, high = 30, scale = (double)((float)(high - low) / 255.0F);
    const double zero = rint(-low / scale);
    for (int zeros = 0; zeros < 2; zeros++) {
        conform_array x = conform_array_new(env, DHOW_F32, 2, shape),
                      y = conform_array_new(env, DHOW_U8, 2, shape),
                      s = conform_array_new(env, DHOW_F32, 0, one);
        for (int64_t i = 0; i < x.count && zeros == 0; i++) {
            y.value[i] = (double)(i * 31 % 256);
            x.value[i] = (y.value[i] - zero + (i % 2 == 0 ? 0.2 : -0.3)) * scale;
            x.value[i] = fmin(fmax(x.value[i], low), high);
        }
        const int64_t last = x.count - 1;
        s.value[0] = zeros ? 1 : scale;
        x.value[5] = zeros ? 0 : low;
        y.value[5] = 0;
        x.value[last] = zeros ? 0 : high;
        y.value[last] = zeros ? 0 : 255;
        bytes node = node_of("DynamicQuantizeLinear", "ranged", "a", "y z zero");
        TRY(run_node(
            env, &node,
            &(one_node){{&x}, {&y, &s}, conform_tolerance_of(DHOW_F32), "codes by a range"}));
    }
    return CONFORM_PASS;
}

/* Halves go to the even integer before the zero point, here an odd one, is added. */
static conform_result quantised_halves(conform_env *env) {
    enum { ZERO = 101 };
    static const int64_t shape[] = {3, 1000}, one[1] = {0};
    conform_array x = conform_array_new(env, DHOW_F32, 2, shape),
                  y = conform_array_new(env, DHOW_U8, 2, shape),
                  s = conform_array_new(env, DHOW_F32, 0, one);
    for (int64_t i = 0; i < x.count; i++) {
        x.value[i] = fmin((double)(i * 7 % 256) - ZERO + (i / 500 % 2 == 0 ? 0.5 : 0), 255 - ZERO);
        y.value[i] = rint(x.value[i]) + ZERO;
    }
    x.value[0] = -ZERO, y.value[0] = 0;
    x.value[x.count - 1] = 255 - ZERO, y.value[x.count - 1] = 255;
    s.value[0] = 1;
    bytes node = node_of("DynamicQuantizeLinear", "halves", "a", "y z zero");
    return run_node(env, &node,
                    &(one_node){{&x}, {&y, &s}, conform_tolerance_of(DHOW_F32), "halves"});
}

/* ---- running products ---- */

static conform_result products(conform_env *env, dhow_dtype dtype) {
    enum { OUTER = 3, N = 9, LINES = 70 };
    static const int64_t shape[] = {OUTER, N, LINES}, one[1] = {0};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 3, shape, -2, 2, 5);
    conform_array axis = conform_array_new(env, DHOW_I64, 0, one);
    axis.value[0] = 1;
    for (int way = 0; way < 4; way++) {
        const bool exclusive = way % 2 != 0, reverse = way > 1;
        conform_array want = conform_array_new(env, dtype, 3, shape);
        for (int64_t i = 0; i < OUTER * LINES; i++) {
            double all = 1;
            for (int64_t k = 0; k < N; k++) {
                const int64_t at = (i / LINES * N + (reverse ? N - 1 - k : k)) * LINES + i % LINES;
                want.value[at] = exclusive ? all : all * x.value[at];
                all *= x.value[at];
            }
        }
        bytes node = node_of("CumProd", "products", "a b", "y");
        add_int(&node, "exclusive", exclusive);
        add_int(&node, "reverse", reverse);
        TRY(run_node(env, &node, &(one_node){{&x, &axis}, {&want}, near(dtype), "CumProd"}));
    }
    return CONFORM_PASS;
}

/* ---- linear attention ---- */

enum { STATE_STEPS = 3, STATE_HEADS = 2, STATE_DEPTH = 20, STATE_FEATURES = 40 };

/* A step of a head's state, and what is read of it. */
static void state_step(const double *q, const double *k, const double *v, double keep, double beta,
                       double *state, double *y) {
    for (int j = 0; j < STATE_FEATURES; j++) {
        double recalled = 0, read = 0;
        for (int i = 0; i < STATE_DEPTH; i++)
            recalled += k[i] * keep * state[i * STATE_FEATURES + j];
        for (int i = 0; i < STATE_DEPTH; i++) {
            double *s = &state[i * STATE_FEATURES + j];
            *s = keep * *s + k[i] * beta * (v[j] - recalled);
            read += q[i] * *s;
        }
        y[j] = read / sqrt(STATE_DEPTH);
    }
}

static conform_result linear_attention_f32(conform_env *env) {
    static const int64_t rows[] = {1, STATE_STEPS, STATE_HEADS * STATE_DEPTH},
                         values[] = {1, STATE_STEPS, STATE_HEADS * STATE_FEATURES},
                         states[] = {1, STATE_HEADS, STATE_DEPTH, STATE_FEATURES},
                         gates[] = {1, STATE_STEPS, STATE_HEADS};
    conform_array q = conform_array_random(env, DHOW_F32, 3, rows, -1, 1, 1),
                  k = conform_array_random(env, DHOW_F32, 3, rows, -0.2, 0.2, 2),
                  v = conform_array_random(env, DHOW_F32, 3, values, -1, 1, 3),
                  past = conform_array_random(env, DHOW_F32, 4, states, -1, 1, 4),
                  decay = conform_array_random(env, DHOW_F32, 3, gates, -1, 0, 5),
                  beta = conform_array_random(env, DHOW_F32, 3, gates, 0, 1, 6);
    conform_array y = conform_array_new(env, DHOW_F32, 3, values),
                  state = conform_array_new(env, DHOW_F32, 4, states);
    memcpy(state.value, past.value, (size_t)past.count * sizeof *past.value);
    for (int t = 0; t < STATE_STEPS; t++) {
        for (int h = 0; h < STATE_HEADS; h++) {
            const int at = t * STATE_HEADS + h;
            state_step(&q.value[at * STATE_DEPTH], &k.value[at * STATE_DEPTH],
                       &v.value[at * STATE_FEATURES], exp(decay.value[at]), beta.value[at],
                       &state.value[h * STATE_DEPTH * STATE_FEATURES],
                       &y.value[at * STATE_FEATURES]);
        }
    }
    bytes node = node_of("LinearAttention", "state", "a b c d e f", "y z");
    add_int(&node, "q_num_heads", STATE_HEADS);
    add_int(&node, "kv_num_heads", STATE_HEADS);
    return run_node(
        env, &node,
        &(one_node){
            {&q, &k, &v, &past, &decay, &beta}, {&y, &state}, near(DHOW_F32), "LinearAttention"});
}

/* ---- convolutions of steps that are carried ---- */

static conform_result causal_conv_f32(conform_env *env) {
    enum { CHANNELS = 37, TAPS = 4, LONG = 40 };
    static const int64_t lengths[] = {1, 2, LONG}, weights[] = {CHANNELS, 1, TAPS},
                         row[] = {CHANNELS}, states[] = {2, CHANNELS, TAPS - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t steps = lengths[i], shape[] = {2, CHANNELS, steps};
        conform_array x = conform_array_random(env, DHOW_F32, 3, shape, -1, 1, 1),
                      w = conform_array_random(env, DHOW_F32, 3, weights, -1, 1, 2),
                      bias = conform_array_random(env, DHOW_F32, 1, row, -1, 1, 3),
                      past = conform_array_random(env, DHOW_F32, 3, states, -1, 1, 4),
                      y = conform_array_new(env, DHOW_F32, 3, shape),
                      state = conform_array_new(env, DHOW_F32, 3, states);
        for (int64_t c = 0; c < 2 * CHANNELS; c++) {
            double all[TAPS - 1 + LONG];
            memcpy(all, &past.value[c * (TAPS - 1)], (TAPS - 1) * sizeof *all);
            memcpy(all + TAPS - 1, &x.value[c * steps], (size_t)steps * sizeof *all);
            for (int64_t t = 0; t < steps; t++) {
                double sum = bias.value[c % CHANNELS];
                for (int j = 0; j < TAPS; j++) sum += w.value[c % CHANNELS * TAPS + j] * all[t + j];
                y.value[c * steps + t] = sum / (1 + exp(-sum));
            }
            memcpy(&state.value[c * (TAPS - 1)], all + steps, (TAPS - 1) * sizeof *all);
        }
        bytes node = node_of("CausalConvWithState", "steps", "a b c d", "y z");
        add_text(&node, "activation", "silu");
        TRY(run_node(
            env, &node,
            &(one_node){
                {&x, &w, &bias, &past}, {&y, &state}, near(DHOW_F32), "CausalConvWithState"}));
    }
    return CONFORM_PASS;
}

/* ---- mixtures of experts ---- */

enum { TOKENS = 5, MODEL = 48, INNER_LAYER = 16, EXPERTS = 3, BLOCK = 16 };

/* y[n] += share times w[n][k] x[k], with what `max_0` leaves of it */
static void add_layer(const double *w, const double *x, int n, int k, bool max_0, double share,
                      double *y) {
    for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int i = 0; i < k; i++) sum += w[j * k + i] * x[i];
        y[j] += share * (max_0 ? fmax(sum, 0) : sum);
    }
}

/* The two best of three experts, by the softmax of their scores. */
static void mix_experts(const double *x, const double *scores, const double *w1, const double *w2,
                        double *y) {
    for (int t = 0; t < TOKENS; t++) {
        const double *s = &scores[t * EXPERTS];
        const int worst = s[0] < s[1] && s[0] < s[2] ? 0 : s[1] < s[2] ? 1 : 2;
        double all = 0;
        for (int e = 0; e < EXPERTS; e++) all += e == worst ? 0 : exp(s[e]);
        for (int e = 0; e < EXPERTS; e++) {
            double hidden[INNER_LAYER] = {0};
            if (e == worst) continue;
            add_layer(&w1[e * INNER_LAYER * MODEL], &x[t * MODEL], INNER_LAYER, MODEL, true, 1,
                      hidden);
            add_layer(&w2[e * INNER_LAYER * MODEL], hidden, MODEL, INNER_LAYER, false,
                      exp(s[e]) / all, &y[t * MODEL]);
        }
    }
}

static conform_result run_experts(conform_env *env, const char *op, const char *inputs,
                                  const one_node *n) {
    bytes node = node_of(op, "experts", inputs, "y");
    put_text(&node, NODE_DOMAIN, "com.microsoft");
    add_int(&node, "k", 2);
    add_int(&node, "normalize_routing_weights", 1);
    if (n->in[5] != NULL) add_int(&node, "block_size", BLOCK);
    return run_node(env, &node, n);
}

static conform_result experts_f32(conform_env *env) {
    static const int64_t tokens[] = {TOKENS, MODEL}, router[] = {TOKENS, EXPERTS},
                         first[] = {EXPERTS, INNER_LAYER, MODEL},
                         second[] = {EXPERTS, MODEL, INNER_LAYER};
    conform_array x = conform_array_random(env, DHOW_F32, 2, tokens, -1, 1, 1),
                  s = conform_array_random(env, DHOW_F32, 2, router, -1, 1, 2),
                  w1 = conform_array_random(env, DHOW_F32, 3, first, -1, 1, 3),
                  w2 = conform_array_random(env, DHOW_F32, 3, second, -1, 1, 4),
                  y = conform_array_new(env, DHOW_F32, 2, tokens);
    mix_experts(x.value, s.value, w1.value, w2.value, y.value);
    return run_experts(env, "MoE", "a b c  d",
                       &(one_node){{&x, &s, &w1, &w2}, {&y}, near(DHOW_F32), "MoE"});
}

/* Codes of 4 bits, two in a byte, in blocks with a scale; 8 stands for 0. */
static conform_array coded(conform_env *env, int n, int k, uint32_t seed, conform_array *codes,
                           conform_array *scales) {
    const int64_t packed[] = {EXPERTS, n, k / 2}, blocks[] = {EXPERTS, n, k / BLOCK},
                  whole[] = {EXPERTS, n, k};
    conform_array w = conform_array_new(env, DHOW_F32, 3, whole);
    *codes = conform_array_random(env, DHOW_U8, 3, packed, 0, 255, seed);
    *scales = conform_array_random(env, DHOW_F32, 3, blocks, 0.01, 0.1, seed + 1);
    for (int64_t i = 0; i < w.count; i++) {
        const int pair = (int)codes->value[i / 2];
        w.value[i] = scales->value[i / BLOCK] * ((i % 2 == 0 ? pair & 15 : pair >> 4) - 8);
    }
    return w;
}

static conform_result experts_of_codes_f32(conform_env *env) {
    static const int64_t tokens[] = {TOKENS, MODEL}, router[] = {TOKENS, EXPERTS};
    conform_array x = conform_array_random(env, DHOW_F32, 2, tokens, -1, 1, 1),
                  s = conform_array_random(env, DHOW_F32, 2, router, -1, 1, 2),
                  y = conform_array_new(env, DHOW_F32, 2, tokens), codes[2], scales[2];
    const conform_array w1 = coded(env, INNER_LAYER, MODEL, 3, &codes[0], &scales[0]),
                        w2 = coded(env, MODEL, INNER_LAYER, 5, &codes[1], &scales[1]);
    mix_experts(x.value, s.value, w1.value, w2.value, y.value);
    return run_experts(
        env, "QMoE", "a b c d  e f",
        &(one_node){
            {&x, &s, &codes[0], &scales[0], &codes[1], &scales[1]}, {&y}, near(DHOW_F32), "QMoE"});
}

/* ---- the table ---- */

#define OF(name, TYPE, type) \
    static conform_result name##_##type(conform_env *env) { return name(env, DHOW_##TYPE); }
#define WIDE_FLOATS(X, name) X(name, F32, f32) X(name, F64, f64)
#define UP_TO_F32(X, name) X(name, F32, f32) X(name, F16, f16) X(name, BF16, bf16)
WIDE_FLOATS(OF, lrn)
WIDE_FLOATS(OF, determinants)
WIDE_FLOATS(OF, regions)
WIDE_FLOATS(OF, trees)
WIDE_FLOATS(OF, pools)
WIDE_FLOATS(OF, lstm)
UP_TO_F32(OF, nbits)
#define WITH_BYTES(X, name) WIDE_FLOATS(X, name) X(name, F16, f16) X(name, U8, u8)
WITH_BYTES(OF, cache)
#define WIDE_NUMBERS(X, name) WIDE_FLOATS(X, name) X(name, I32, i32) X(name, I64, i64)
WIDE_NUMBERS(OF, products)
UP_TO_F32(OF, cached_attention)

#define CASE_OF(name, TYPE, type) CASE("models/" #name "_" #type, name##_##type, "ops," #type),
const conform_case conform_model_cases[] = {
    WIDE_FLOATS(CASE_OF, lrn) WIDE_FLOATS(CASE_OF, determinants) WIDE_FLOATS(CASE_OF, regions)
        WIDE_FLOATS(CASE_OF, trees) WIDE_FLOATS(CASE_OF, pools) WIDE_FLOATS(CASE_OF, lstm)
            UP_TO_F32(CASE_OF, nbits) WITH_BYTES(CASE_OF, cache)
                UP_TO_F32(CASE_OF, cached_attention) WIDE_NUMBERS(CASE_OF, products)
                    CASE("models/codes", codes, "ops"),
    CASE("models/linear_attention_f32", linear_attention_f32, "ops,f32"),
    CASE("models/causal_conv_f32", causal_conv_f32, "ops,f32"),
    CASE("models/experts_f32", experts_f32, "ops,f32"),
    CASE("models/experts_of_codes_f32", experts_of_codes_f32, "ops,f32"),
    CASE("models/quantised_f32", quantised_f32, "ops,f32"),
    CASE("models/means_of_codes", means_of_codes, "ops,f32"),
    CASE("models/quantised_by_range", quantised_by_range, "ops,f32"),
    CASE("models/quantised_halves", quantised_halves, "ops,f32"),
};
CASES_END(conform_model);
