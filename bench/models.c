/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: dhow and its peers run the same networks in turns, each in a process of its own;
 * servers.h says which, and what scripts/bench sets.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "folders.h"
#include "hand.h"
#include "peers.h"
#include "servers.h"

void bench_models(bench *b);

/* ---- networks of make_models.py ---- */

static const char *const k_networks[] = {"mlp-1", "mlp-32", "mlp-1024", "encoder-1", "encoder-8"};
enum { NETWORKS = sizeof k_networks / sizeof *k_networks };

static void bench_networks(bench *b, servers *t, const char *parent) {
    char what[80];
    for (int threads = 1; threads <= 2; threads++) {
        for (int i = 0; i < NETWORKS; i++) {
            if (!servers_set_folder(t, parent, k_networks[i])) continue;
            (void)snprintf(what, sizeof what, "%s, cpu, threads: %d", k_networks[i], threads);
            process ours = servers_dhow(t, "cpu", "f32", threads);
            enum { TORCH = SERVERS_FOR_ANY, COMPILED, GGML, PEERS };
            process peers[PEERS];
            servers_for_any(t, threads, peers);
            peers[TORCH] = servers_torch(t, "f32", threads);
            peers[COMPILED] = servers_torch(t, "compiled", threads);
            peers[GGML] = servers_ggml(t, threads);
            (void)bench_compare_peers(b, what, 1.0, 1e-4, &ours, peers, PEERS);
        }
    }
}

/* Rows that have ONNX Runtime alone as their peer: attention by itself, batch x sequence x heads x
 * features; a token behind others, whose caches are written in place by both; forests, for rows. */
static void bench_onnxruntime(bench *b, servers *t, const char *parent) {
    static const char *const names[] = {"attention-8x512x12x64",
                                        "attention-1x128x12x64",
                                        "causal-1x2048x8x128",
                                        "decoder-64",
                                        "decoder-1024",
                                        "decoder-2000",
                                        "forest-1",
                                        "forest-100",
                                        "forest-10000"};
    char what[80];
    for (int threads = 1; threads <= 2; threads++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (!servers_set_folder(t, parent, names[i])) continue;
            (void)snprintf(what, sizeof what, "%s, cpu, threads: %d", names[i], threads);
            process ours = servers_dhow(t, "cpu", "f32", threads);
            process peer = servers_onnxruntime(t, threads);
            (void)bench_compare_peers(b, what, 1.0, 1e-4, &ours, &peer, 1);
        }
    }
}

static void tell_of_writer(bench *b, const char *what, const process *p) {
    char text[120];
    if (p->peak <= 0) return;
    (void)snprintf(text, sizeof text, "%s: %s", what, p->name);
    bench_figure(b, text, "tokens/s", 1 / p->best, 0);
    bench_figure(b, text, "MiB at most", p->peak / (1 << 20), 0);
}

/* A byte of examples/generate behind others: its default size, and one as wide as the decoders. */
static void bench_writers(bench *b, servers *t, const char *parent) {
    static const char *const names[] = {"generate-3x128", "generate-6x384"};
    char what[80];
    for (int threads = 1; threads <= 2; threads++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (!servers_set_folder(t, parent, names[i])) continue;
            (void)snprintf(what, sizeof what, "%s, cpu, threads: %d", names[i], threads);
            process ours = servers_dhow(t, "cpu", "f32", threads);
            process peers[] = {servers_onnxruntime(t, threads), servers_ggml(t, threads)};
            (void)bench_compare_peers(b, what, 1.0, 1e-4, &ours, peers, 2);
            tell_of_writer(b, what, &ours);
            for (int k = 0; k < 2; k++) tell_of_writer(b, what, &peers[k]);
        }
    }
}

/* Quantised networks against ONNX Runtime, and against the same network in f32. */
static void bench_quantised(bench *b, servers *t, const char *parent) {
    static const struct {
        const char *name, *in_f32;
        double bar, bar_f32;
    } rows[] = {
        {"residual-qdq", "residual", 1, 1.8},     {"residual-qlinear", "residual", 1, 1.8},
        {"separable-qdq", "separable", 1, 1.8},   {"separable-qlinear", "separable", 1, 1.8},
        {"mlp-1024-qlinear", "mlp-1024", 1, 1.8}, {"mlp-1024-dynamic", "mlp-1024", 1, 0},
        {"encoder-1-qlinear", "encoder-1", 1, 0}, {"encoder-1-dynamic", "encoder-1", 1, 0}};
    char what[80];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        servers other = *t;
        if (!servers_set_folder(&other, parent, rows[i].in_f32) ||
            !servers_set_folder(t, parent, rows[i].name))
            continue;
        (void)snprintf(what, sizeof what, "%s, cpu, threads: 1", rows[i].name);
        process ours = servers_dhow(t, "cpu", "f32", 1), peer = servers_onnxruntime(t, 1);
        (void)bench_compare_peers(b, what, rows[i].bar, 0.25, &ours, &peer, 1);
        ours = servers_dhow(t, "cpu", "f32", 1);
        process own = servers_dhow(&other, "cpu", "f32", 1);
        own.name = "dhow, f32";
        (void)bench_compare_peers(b, what, rows[i].bar_f32, 0.5, &ours, &own, 1);
    }
}

/* ---- weights of 4 bits ---- */

/* Bytes a second of STREAM's triad, the best of a round. */
static double triad(float *const arrays[3], int64_t n, int threads) {
    double best = INFINITY;
    for (int i = 0; i < 4; i++) {
        struct timespec start, end;
        (void)clock_gettime(CLOCK_MONOTONIC, &start);
        hand_triad(arrays[0], arrays[1], arrays[2], 3, n, threads);
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        best = fmin(best, (double)(end.tv_sec - start.tv_sec) +
                              (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    }
    return 3 * (double)n * sizeof(float) / best;
}

/* The rate at which weights are read, beside the triad, both in turns. */
static void bench_rate(bench *b, const char *what, process *ours, double bytes, int threads) {
    const int64_t n = bench_is_small(b) ? 1 << 10 : 1 << 24;
    float *arrays[3];
    double reached = 0;
    for (int i = 0; i < 3; i++) {
        arrays[i] = malloc((size_t)n * sizeof(float));
        if (arrays[i] == NULL) exit(1);
        for (int64_t k = 0; k < n; k++) arrays[i][k] = 1; /* pages of their own */
    }
    if (process_start(ours)) {
        for (int round = 0; round < (bench_is_small(b) ? 1 : 7); round++) {
            reached = fmax(reached, triad(arrays, n, threads));
            (void)process_run(ours, bench_is_small(b) ? 1 : 20);
        }
        bench_figure(b, what, "GB/s", bytes / ours->best / 1e9, 0);
        bench_ratio(b, what, "STREAM triad", 0.8, bytes / ours->best / reached);
    }
    process_end(ours);
    for (int i = 0; i < 3; i++) free(arrays[i]);
}

/* One row through eight products with weights of 4 bits, which are more than caches hold; as f32,
 * or as bytes, which the model allows then. */
static void bench_4_bits(bench *b, servers *t, const char *parent, bool rounds) {
    const double weights = 8 * 4096.0 * 4096, bytes = weights / 2 + weights / 32 * sizeof(float);
    char what[80];
    if (!servers_set_folder(t, parent, rounds ? "products-4-bits-bytes" : "products-4-bits"))
        return;
    for (int threads = 1; threads <= 2; threads++) {
        process ours = servers_dhow(t, "cpu", "f32", threads), peers[SERVERS_FOR_ANY + 2];
        servers_for_any(t, threads, peers);
        peers[SERVERS_FOR_ANY] = servers_ggml(t, threads);
        peers[SERVERS_FOR_ANY + 1] = servers_ggml_repacked(t, threads);
        (void)snprintf(what, sizeof what, "8 products 1x4096x4096, 4 bits%s, threads: %d",
                       rounds ? ", row of bytes" : "", threads);
        (void)bench_compare_peers(b, what, 1, 0.1, &ours, peers, SERVERS_FOR_ANY + 2);
        bench_rate(b, what, &ours, bytes, threads);
    }
}

static int has_amx(void) {
    char line[8192];
    int found = 0;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strstr(line, "amx_bf16") != NULL;
    if (f != NULL) (void)fclose(f);
    return found;
}

/* bf16 asked for. The bars are for processors with AMX. */
static void bench_bf16(bench *b, servers *t, const char *parent) {
    char what[80];
    int amx = has_amx();
    for (int i = 0; i < NETWORKS; i++) {
        if (!servers_set_folder(t, parent, k_networks[i])) continue;
        (void)snprintf(what, sizeof what, "%s, cpu, bf16%s", k_networks[i],
                       amx ? "" : ", no AMX here");
        process ours = servers_dhow(t, "cpu", "bf16", 2), torch = servers_torch(t, "bf16", 2);
        (void)bench_compare_peers(b, what, amx ? 1.5 : 0, 0.1, &ours, &torch, 1);
        process own = servers_dhow(t, "cpu", "f32", 2);
        own.name = "dhow, f32";
        ours = servers_dhow(t, "cpu", "bf16", 2);
        (void)bench_compare_peers(b, what, amx ? 2 : 0, 0.1, &ours, &own, 1);
    }
}

/* ---- a whole process ---- */

/* The least seconds of both, in turns; 0 where one fails. */
static int time_whole(const process *mine, const process *peer, int times, double *ours,
                      double *theirs) {
    *ours = *theirs = INFINITY;
    for (int i = 0; i < times; i++) {
        const double p = process_whole(mine), q = process_whole(peer);
        if (p < 0 || q < 0) return 0;
        *ours = fmin(*ours, p);
        *theirs = fmin(*theirs, q);
    }
    return 1;
}

static process whole_dhow(const servers *t) {
    return (process){.name = "dhow", .args = {BENCH_SERVE, t->folder}};
}

static process whole_onnxruntime(const servers *t) {
    return (process){.name = "ONNX Runtime",
                     .args = {BENCH_SERVE_ONNXRUNTIME, t->onnxruntime, t->folder}};
}

static void bench_whole(bench *b, servers *t, const char *parent, const char *name, double bar) {
    const int times = bench_is_small(b) ? 1 : 15;
    char what[80];
    double ours, theirs;
    if (t->onnxruntime == NULL || parent == NULL || !servers_set_folder(t, parent, name)) return;
    const process mine = whole_dhow(t), peer = whole_onnxruntime(t);
    if (!time_whole(&mine, &peer, times, &ours, &theirs)) return;
    (void)snprintf(what, sizeof what, "process: load %s, run once", name);
    bench_report(b, what, "ONNX Runtime in C", bar, ours, theirs);
}

/* ---- a folder of models ---- */

/* The memory that a process has had after its first run, in bytes; 0 where it fails. */
static double peak_of(process *p) {
    if (!process_start(p)) return 0;
    process_end(p);
    return p->peak;
}

/* Each model's first run, against the peer's. */
static void bench_beginnings(bench *b, servers *t, char *const *names, const char *parent,
                             int count) {
    const int times = bench_is_small(b) ? 1 : 3;
    char what[80];
    double time = 0, memory = 0;
    int measured = 0;
    for (int i = 0; i < count && t->onnxruntime != NULL; i++) {
        if (!servers_set_folder(t, parent, names[i])) continue;
        const process whole = whole_dhow(t), whole_peer = whole_onnxruntime(t);
        process waiting = servers_dhow(t, "cpu", "f32", 2), peer = servers_onnxruntime(t, 2);
        double ours, theirs;
        if (!time_whole(&whole, &whole_peer, times, &ours, &theirs)) continue;
        const double bytes = peak_of(&waiting), bytes_peer = peak_of(&peer);
        if (bytes <= 0 || bytes_peer <= 0) continue;
        (void)snprintf(what, sizeof what, "%.40s, load and run once", names[i]);
        bench_report(b, what, "ONNX Runtime in C", 1.1, ours, theirs);
        (void)snprintf(what, sizeof what, "%.40s, peak memory", names[i]);
        bench_ratio(b, what, "ONNX Runtime in C", 1, bytes_peer / bytes);
        time += log(theirs / ours);
        memory += log(bytes_peer / bytes);
        measured++;
    }
    if (measured == 0) return;
    (void)snprintf(what, sizeof what, "geometric mean of %d models, load and run once", measured);
    bench_ratio(b, what, "ONNX Runtime in C", 1.67, exp(time / measured));
    (void)snprintf(what, sizeof what, "geometric mean of %d models, peak memory", measured);
    bench_ratio(b, what, "ONNX Runtime in C", 1, exp(memory / measured));
}

/* A geometric mean while its ratios come. */
typedef struct mean {
    double sum;
    int count;
} mean;

static void mean_add(mean *m, double ratio) {
    if (ratio <= 0 || !isfinite(ratio)) return;
    m->sum += log(ratio);
    m->count++;
}

static void mean_report(bench *b, const mean *m, const char *against, double bar, int threads) {
    char what[80];
    (void)snprintf(what, sizeof what, "geometric mean of %d models, threads: %d", m->count,
                   threads);
    if (m->count > 0) bench_ratio(b, what, against, bar, exp(m->sum / m->count));
}

static void bench_folder(bench *b, servers *t, const char *parent) {
    char *names[FOLDERS_MOST], what[80];
    int count = folders_in(parent, names);
    for (int threads = 1; threads <= 2; threads++) {
        mean fastest = {0}, each[SERVERS_FOR_ANY] = {{0}};
        process peers[SERVERS_FOR_ANY];
        for (int i = 0; i < count; i++) {
            if (!servers_set_folder(t, parent, names[i])) continue;
            (void)snprintf(what, sizeof what, "%.40s, cpu, threads: %d", names[i], threads);
            process ours = servers_dhow(t, "cpu", "f32", threads);
            servers_for_any(t, threads, peers);
            mean_add(&fastest,
                     bench_compare_peers(b, what, 0.5, 1e-2, &ours, peers, SERVERS_FOR_ANY));
            for (int k = 0; k < SERVERS_FOR_ANY; k++) mean_add(&each[k], peers[k].best / ours.best);
        }
        mean_report(b, &fastest, "the fastest of all", 1, threads);
        for (int k = 0; k < SERVERS_FOR_ANY; k++)
            mean_report(b, &each[k], peers[k].name, k == SERVERS_ONNXRUNTIME ? 0.9 : 0, threads);
    }
    bench_beginnings(b, t, names, parent, count);
    for (int i = 0; i < count; i++) free(names[i]);
}

/* ---- what a step costs beside its kernel ---- */

typedef struct chain {
    dhow_model *model;
    dhow_tensor *x, *y;
} chain;

static void run_chain(void *data) {
    chain *c = data;
    BENCH_OK(dhow_model_run_into(c->model, NULL, &c->x, 1, &c->y, 1));
}

/* A chain of softmax over one element: what is left of a step is mostly its way there. */
static double seconds_of_chain(bench *b, int steps) {
    chain c = {0};
    dhow_model_value x;
    BENCH_OK(dhow_model_create(bench_context(b), &c.model));
    BENCH_OK(dhow_model_input(c.model, "x", DHOW_F32, DHOW_SHAPE(1, 1), &x));
    for (int i = 0; i < steps; i++) BENCH_OK(dhow_model_softmax(c.model, x, 1, &x));
    BENCH_OK(dhow_model_output(c.model, "y", x));
    const int64_t shape[] = {1, 1};
    c.x = bench_tensor(bench_device(b, "cpu"), 2, shape);
    BENCH_OK(dhow_model_run(c.model, NULL, &c.x, 1, &c.y, 1));
    double seconds = bench_seconds(200, run_chain, &c);
    dhow_tensor_release(c.x);
    dhow_tensor_release(c.y);
    dhow_model_release(c.model);
    return seconds;
}

static void bench_steps(bench *b) {
    enum { STEPS = 1000 };
    double few = seconds_of_chain(b, 1), many = seconds_of_chain(b, 1 + STEPS);
    bench_figure(b, "step of a replayed plan, its kernel on one element included, cpu", "ns",
                 (many - few) / STEPS * 1e9, 100);
}

void bench_models(bench *b) {
    const char *networks = getenv("BENCH_NETWORKS"), *models = getenv("DHOW_MODELS_DIR");
    servers t;
    servers_find(&t);
    bench_steps(b);
    if (networks == NULL)
        printf("models: BENCH_NETWORKS is not set; scripts/bench sets what is needed\n");
    if (networks != NULL) {
        bench_whole(b, &t, networks, "mlp-5mb", 3);
        bench_whole(b, &t, models, "u2netp", 0); /* 5 MB that compute for long */
        bench_networks(b, &t, networks);
        bench_onnxruntime(b, &t, networks);
        bench_writers(b, &t, networks);
        bench_quantised(b, &t, networks);
        bench_4_bits(b, &t, networks, false);
        bench_4_bits(b, &t, networks, true);
        bench_bf16(b, &t, networks);
    }
    if (models != NULL) bench_folder(b, &t, models);
}
