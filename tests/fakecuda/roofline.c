/* SPDX-License-Identifier: Apache-2.0
 *
 * roofline [PAGE]: the time that models would take on GPUs, calculated from what each of their
 * commands moves and computes, as a table in Markdown. With PAGE each of its lines must stand
 * there. Bytes, products and instructions are counted on the stand-in: those of kernels by
 * executing their PTX, for a batch of two, and taken times the rest of the batch. Nothing is
 * measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"
#include "launch_log.h"

/* What NVIDIA's data sheets say (dense, products of f16 summed in f32; those of TF32 are half), a
 * second. */
typedef struct gpu {
    const char *name;
    double bytes, half_flop, flop, instructions;
} gpu;
enum { GPUS = 3 };
static const gpu k_gpus[GPUS] = {{"A100 80 GB", 2.04e12, 312e12, 19.5e12, 108 * 128 * 1.41e9},
                                 {"H100 SXM", 3.35e12, 989e12, 67e12, 132 * 128 * 1.755e9},
                                 {"RTX 4090", 1.008e12, 165e12, 82.6e12, 128 * 128 * 2.52e9}};

/* The shares of it that programs reach: a large copy; large products on tensor cores and without
 * them; instructions issued. And what a command takes that does next to nothing. */
static const double k_bytes_share = 0.86, k_half_share = 0.45, k_flop_share = 0.67,
                    k_instructions_share = 0.65, k_least = 2e-6;

typedef struct costs {
    int commands;
    double bytes, flop, seconds[GPUS];
} costs;

static void add(costs *sum, const char *type, double bytes, double flop, double instructions) {
    const int half = strcmp(type, "f16") == 0, tf32 = strcmp(type, "tf32") == 0;
    for (int g = 0; g < GPUS; g++) {
        const gpu *on = &k_gpus[g];
        const double rate = half   ? on->half_flop * k_half_share
                            : tf32 ? on->half_flop / 2 * k_half_share
                                   : on->flop * k_flop_share;
        const double products = flop / rate;
        sum->seconds[g] +=
            fmax(fmax(bytes / (on->bytes * k_bytes_share), products),
                 fmax(instructions / (on->instructions * k_instructions_share), k_least));
    }
    sum->commands++;
    sum->bytes += bytes;
    sum->flop += flop;
}

/* Adds the lines of a log that are of kernels, or those that are not. */
static void add_lines(costs *sum, FILE *log, int of_kernels, double scale) {
    char line[256], name[64], type[16];
    double bytes, flop, instructions;
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL) {
        if (sscanf(line, "cost %63s %15s %lf %lf %lf", name, type, &bytes, &flop, &instructions) !=
            5)
            continue;
        const int is_kernel = instructions > 0;
        if (is_kernel == of_kernels)
            add(sum, type, bytes * scale, flop * scale, instructions * scale);
    }
}

static dhow_status count(const launch_model *of, int64_t batch, const char *settings, FILE *log) {
    if (!fakecuda_reset(settings, NULL, NULL, 0)) return DHOW_INTERNAL;
    return launch_log(of, of->dtype, batch, log);
}

static dhow_status cost_of(const launch_model *of, costs *out) {
    const int64_t batch = of->batch > 2 ? 2 : of->batch;
    FILE *whole = tmpfile(), *part = tmpfile();
    dhow_status status = whole != NULL && part != NULL ? DHOW_OK : DHOW_OUT_OF_MEMORY;
    memset(out, 0, sizeof *out);
    if (status == DHOW_OK)
        status = count(of, of->batch, "idle=1,devices=1,memory=4G,costs=1", whole);
    if (status == DHOW_OK)
        status = count(of, batch, "idle=1,devices=1,memory=4G,costs=1,ptx=1", part);
    if (status == DHOW_OK) {
        add_lines(out, whole, 0, 1);
        add_lines(out, part, 1, (double)of->batch / (double)batch);
        out->commands *= of->layers;
        out->bytes *= of->layers;
        out->flop *= of->layers;
        for (int g = 0; g < GPUS; g++) out->seconds[g] *= of->layers;
    }
    if (whole != NULL) (void)fclose(whole);
    if (part != NULL) (void)fclose(part);
    return status;
}

static int stands_in(const char *page, const char *line) {
    char other[512];
    int found = 0;
    FILE *file = fopen(page, "r");
    if (file == NULL) return 0;
    while (!found && fgets(other, sizeof other, file) != NULL) found = strcmp(other, line) == 0;
    (void)fclose(file);
    return found;
}

int main(int argc, char **argv) {
    int missing = 0;
    printf(
        "| model, batch | commands | MB moved | GFLOP | %s, ms | %s, ms | %s, ms |\n"
        "|---|---|---|---|---|---|---|\n",
        k_gpus[0].name, k_gpus[1].name, k_gpus[2].name);
    for (int i = 0; i < LAUNCH_MODELS; i++) {
        const launch_model *of = &launch_models[i];
        char line[512];
        costs c;
        if (cost_of(of, &c) != DHOW_OK) {
            fprintf(stderr, "roofline: %s: %s\n", of->name, dhow_last_error());
            return 1;
        }
        (void)snprintf(line, sizeof line,
                       "| %s, %lld, %s | %d | %.1f | %.2f | %.3f | %.3f | %.3f |\n", of->title,
                       (long long)of->batch, of->dtype == DHOW_F16 ? "f16" : "f32", c.commands,
                       c.bytes / 1e6, c.flop / 1e9, 1e3 * c.seconds[0], 1e3 * c.seconds[1],
                       1e3 * c.seconds[2]);
        printf("%s", line);
        (void)fflush(stdout);
        if (argc > 1 && !stands_in(argv[1], line)) {
            fprintf(stderr, "roofline: this line is not in %s\n", argv[1]);
            missing++;
        }
    }
    return missing != 0;
}
