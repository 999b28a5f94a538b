/* SPDX-License-Identifier: Apache-2.0 */
#include "halves.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOVED = 6, DRAWS = 4, MOST_GRADIENTS = 16384, MOST_TENSORS = MOST_VALUES };

/* What a graph is given, its two inputs and then its parameters. */
typedef struct given {
    uint32_t count;
    float *data[MOST_TENSORS];
    int64_t elements[MOST_TENSORS];
} given;

static void draw(graph *g, given *d, const dhow_model_value_info *info) {
    int64_t count = 1;
    for (int32_t i = 0; i < info->rank; i++) count *= info->shape[i];
    float *data = malloc(((size_t)count + 1) * sizeof *data);
    if (data == NULL || d->count == MOST_TENSORS) abort();
    for (int64_t i = 0; i < count; i++) data[i] = (float)random_number(g);
    d->elements[d->count] = count;
    d->data[d->count++] = data;
}

static void draw_all(graph *g, given *d) {
    memset(d, 0, sizeof *d);
    for (uint32_t i = 0; i < 2; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_input_at(g->model, i, &info));
        draw(g, d, &info);
    }
    for (uint32_t i = 0; i < dhow_model_parameter_count(g->model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(g->model, i, &info));
        draw(g, d, &info);
    }
}

static dhow_tensor *tensor_of(graph *g, dhow_device *device, const given *d, uint32_t i,
                              const dhow_model_value_info *info, double move) {
    dhow_tensor *t;
    float *data = malloc(((size_t)d->elements[i] + 1) * sizeof *data);
    if (data == NULL) abort();
    for (int64_t k = 0; k < d->elements[i]; k++)
        data[k] = d->data[i][k] * (float)(1 + move * random_number(g));
    OK(dhow_tensor_from_data(device, DHOW_F32, info->rank, info->shape, data, &t));
    free(data);
    return t;
}

/* All gradients, one behind the other, and the elements of each; their sum, or 0 of a loss that
 * depends on none. */
static int64_t gradients_of(graph *g, dhow_device *device, const given *d, double move,
                            int64_t *counts, float *out) {
    dhow_tensor *inputs[2];
    dhow_trainer *t;
    int64_t count = 0;
    for (uint32_t i = 0; i < dhow_model_parameter_count(g->model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(g->model, i, &info));
        dhow_tensor *w = tensor_of(g, device, d, 2 + i, &info, move);
        OK(dhow_model_set_parameter(g->model, info.name, w));
        dhow_tensor_release(w);
    }
    dhow_status status =
        dhow_trainer_create(g->model, &DHOW_INIT(dhow_trainer_options, .loss_scale = 64), &t);
    if (status == DHOW_INVALID_ARGUMENT) return 0;
    OK(status);
    for (uint32_t i = 0; i < 2; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_input_at(g->model, i, &info));
        inputs[i] = tensor_of(g, device, d, i, &info, move);
    }
    OK(dhow_trainer_backward(t, NULL, inputs, 2, NULL, NULL));
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(t); i++) {
        dhow_tensor *gradient;
        OK(dhow_trainer_parameter_at(t, i, NULL, NULL, &gradient));
        const int64_t own = dhow_tensor_count(gradient);
        if (count + own > MOST_GRADIENTS) abort();
        OK(dhow_tensor_read(gradient, out + count, (uint64_t)own * sizeof *out));
        counts[i] = own;
        count += own;
        dhow_tensor_release(gradient);
    }
    dhow_tensor_release(inputs[0]);
    dhow_tensor_release(inputs[1]);
    dhow_trainer_release(t);
    return count;
}

static double norm_of(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (b != NULL ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* Of each parameter whether its gradients in 16 bits are as near as they should be. */
typedef enum verdict { UNCLEAR, NEAR, SAME, OFF } verdict;

static verdict judge(float (*rows)[MOST_GRADIENTS], int64_t at, int64_t count, double rounding,
                     double least) {
    const float *wide = rows[0] + at, *half = rows[1] + at;
    const double size = norm_of(wide, NULL, count), off = norm_of(wide, half, count);
    double spread = 0;
    for (int k = 0; k < MOVED; k++) spread = fmax(spread, norm_of(wide, rows[2 + k] + at, count));
    if (!isfinite(size) || !(spread <= 0.1 * size + least)) return UNCLEAR;
    if (off == 0) return SAME;
    return off <= 32 * spread + 32 * rounding * size + least ? NEAR : OFF;
}

/* One draw of numbers; 0 where the loss depends on no parameter. */
static int64_t compute(graph *g, dhow_device *device, dhow_precision precision, double rounding,
                       int64_t *counts, float (*rows)[MOST_GRADIENTS]) {
    given d;
    draw_all(g, &d);
    OK(dhow_model_set_precision(g->model, DHOW_PRECISION_F32));
    const int64_t count = gradients_of(g, device, &d, 0, counts, rows[0]);
    for (int k = 0; k < MOVED && count > 0; k++)
        (void)gradients_of(g, device, &d, 2 * rounding, counts, rows[2 + k]);
    OK(dhow_model_set_precision(g->model, precision));
    if (count > 0) (void)gradients_of(g, device, &d, 0, counts, rows[1]);
    for (uint32_t i = 0; i < d.count; i++) free(d.data[i]);
    return count;
}

static void count_up(const graph *g, verdict (*verdicts)[MOST_TENSORS], int64_t count,
                     halves *sum) {
    for (int64_t i = 0; i < count; i++) {
        int off = 0;
        for (int k = 0; k < DRAWS; k++) off += verdicts[k][i] == OFF;
        sum->unclear += verdicts[0][i] == UNCLEAR;
        sum->compared += verdicts[0][i] != UNCLEAR;
        sum->same += verdicts[0][i] == SAME;
        if (off < DRAWS) continue;
        sum->wrong++;
        printf("the gradient of trained parameter %lld is off\n%sseed %llu\n\n", (long long)i,
               g->text, (unsigned long long)g->seed);
    }
}

void compare_halves(dhow_context *context, dhow_device *device, dhow_precision precision,
                    uint64_t seed, halves *sum) {
    static float rows[2 + MOVED][MOST_GRADIENTS];
    verdict verdicts[DRAWS][MOST_TENSORS] = {{UNCLEAR}};
    int64_t counts[MOST_TENSORS], found = 0;
    const double rounding = precision == DHOW_PRECISION_BF16 ? 0x1p-8 : 0x1p-11;
    graph own, *g = &own;
    generate(g, context, DHOW_F32, seed);
    OK(dhow_model_to(g->model, device));
    sum->graphs++;
    bool off = true;
    for (int k = 0; k < DRAWS && off; k++) { /* corners are in one, mistakes in all */
        off = false;
        const int64_t all = compute(g, device, precision, rounding, counts, rows);
        /* What cancels out is as large as the rounding of what does. */
        const double least = rounding + 8 * rounding * norm_of(rows[0], NULL, all);
        found = 0;
        for (int64_t at = 0; at < all; at += counts[found++]) {
            verdicts[k][found] = judge(rows, at, counts[found], rounding, least);
            off = off || verdicts[k][found] == OFF;
        }
    }
    sum->refused += found == 0;
    count_up(g, verdicts, found, sum);
    dhow_model_release(g->model);
}
