/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: a step of AdamW on one batch, its loss read, beside PyTorch's. BENCH_TORCH_PYTHON names
 * a Python that has PyTorch, as scripts/bench sets it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"

void bench_training(bench *b);
void bench_several(bench *b);

/* Of train_dhow.c and train_torch.py. */
static const struct {
    const char *name;
    int is_small; /* what a step costs beside its kernels shows */
} k_networks[] = {
    {"mlp-32", 1}, {"cnn-64", 1}, {"mlp-1024", 0}, {"resnet18-8", 0}, {"encoder-8", 0}};
enum { NETWORKS = sizeof k_networks / sizeof *k_networks };

/* `half`: "bf16", or NULL for f32. PyTorch's is torch.autocast. */
static double bench_network(bench *b, const char *network, const char *half, int threads) {
    const char *python = getenv("BENCH_TORCH_PYTHON");
    char what[80], env[32], number[4];
    (void)snprintf(what, sizeof what, "training step, %s%s%s, cpu, threads: %d", network,
                   half != NULL ? " in " : "", half != NULL ? half : "", threads);
    (void)snprintf(env, sizeof env, "DHOW_NUM_THREADS=%d", threads);
    (void)snprintf(number, sizeof number, "%d", threads);
    process ours = {.name = "dhow", .args = {BENCH_TRAIN, network, "cpu", half}, .env = {env}};
    process torch = {.name = "PyTorch"};
    if (python != NULL) {
        const char *args[] = {python, BENCH_SOURCE "/train_torch.py", network, number, half};
        memcpy(torch.args, args, sizeof args);
    }
    return bench_compare_peers(b, what, 1, half != NULL ? 1e-2 : 1e-4, &ours, &torch, 1);
}

void bench_training(bench *b) {
    char what[80];
    for (int threads = 1; threads <= 2; threads++) {
        double sum = 0;
        int measured = 0;
        for (int i = 0; i < NETWORKS; i++) {
            const double ratio = bench_network(b, k_networks[i].name, NULL, threads);
            if (ratio <= 0 || !k_networks[i].is_small) continue;
            sum += log(ratio);
            measured++;
        }
        (void)snprintf(what, sizeof what, "training, geometric mean of %d small ones, threads: %d",
                       measured, threads);
        if (measured > 0) bench_ratio(b, what, "PyTorch", 1.5, exp(sum / measured));
        for (int i = 0; i < NETWORKS && __builtin_cpu_supports("avx512bf16"); i++)
            (void)bench_network(b, k_networks[i].name, "bf16", threads);
    }
    bench_several(b);
}
