/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that draw numbers. They are made with the plan, by the generator of
 * dhow_tensor_uniform() and dhow_tensor_normal(), from the node's seed, or where it has none from
 * its place in the graph: the same on every device and in every run. Dropout's are drawn by
 * kernels/dropout.k in each run, from a seed that is found in the same way.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

/* ---- numbers ---- */

/* Each iteration of a loop draws anew. */
static uint64_t in_frames(const dhowi_lowering *b, uint64_t seed) {
    for (const dhowi_frame *f = b->frames; f != NULL; f = f->outer)
        seed = seed * UINT64_C(6364136223846793005) + (uint64_t)f->iteration + 1;
    return seed;
}

static uint64_t seed_of(const dhowi_lowering *b) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "seed", DHOWI_ATTRIBUTE_FLOAT);
    uint32_t bits;
    if (a == NULL) return in_frames(b, (uint64_t)b->node->out[0]);
    memcpy(&bits, &a->f, sizeof bits);
    return in_frames(b, UINT64_C(1) << 32 | bits);
}

static dhow_status dtype_of(const dhowi_lowering *b, dhow_dtype otherwise, dhow_dtype *out) {
    const dhowi_onnx_attribute *type = dhowi_attr(b, "dtype", DHOWI_ATTRIBUTE_INT);
    *out = type != NULL ? dhowi_onnx_dtype((int32_t)type->i) : otherwise;
    if (*out != 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "unsupported dtype %s",
                      dhowi_onnx_type_name((int32_t)type->i));
}

typedef struct distribution {
    bool normal;
    double first, second; /* mean and deviation; the least value and what is above all */
} distribution;

static dhow_status draw(dhowi_lowering *b, const distribution *d, const dhowi_tensor_desc *desc,
                        int32_t *out) {
    dhow_device *cpu = b->model->context->cpu;
    dhow_tensor *t;
    DHOWI_TRY(dhowi_host_room(b, dhowi_count_of(desc), dhow_dtype_bytes(desc->dtype)));
    DHOWI_TRY(d->normal ? dhow_tensor_normal(cpu, desc->dtype, desc->rank, desc->shape, d->first,
                                             d->second, seed_of(b), &t)
                        : dhow_tensor_uniform(cpu, desc->dtype, desc->rank, desc->shape, d->first,
                                              d->second, seed_of(b), &t));
    const dhow_status status = dhowi_known(b, t, -1, out);
    dhow_tensor_release(t);
    return status;
}

/* Evenly from 0 to below 1. */
static dhow_status draw_units(dhowi_lowering *b, int32_t rank, const int64_t *shape, int32_t *out) {
    const distribution units = {.second = 1};
    dhowi_tensor_desc desc = {.dtype = DHOW_F32, .rank = rank};
    memcpy(desc.shape, shape, (size_t)rank * sizeof *shape);
    return draw(b, &units, &desc, out);
}

/* ---- operators ---- */

/* arg: whether they are normally distributed */
static dhow_status lower_numbers(dhowi_lowering *b, const dhowi_tensor_desc *shape,
                                 dhow_dtype otherwise) {
    const bool normal = b->node->op->arg != 0;
    const distribution d = {.normal = normal,
                            .first = (double)dhowi_attr_float(b, normal ? "mean" : "low", 0),
                            .second = (double)dhowi_attr_float(b, normal ? "scale" : "high", 1)};
    dhowi_tensor_desc desc = *shape;
    DHOWI_TRY(dtype_of(b, otherwise, &desc.dtype));
    desc.encoding = 0;
    if (!dhowi_is_float(desc.dtype))
        DHOWI_REFUSE("random numbers of type %s", dhow_dtype_name(desc.dtype));
    return draw(b, &d, &desc, &b->out[0]);
}

dhow_status dhowi_lower_random(dhowi_lowering *b) {
    uint32_t rank;
    const int64_t *shape = dhowi_attr_ints(b, "shape", &rank);
    dhowi_tensor_desc desc = {.rank = (int32_t)rank};
    if (shape == NULL || rank > DHOW_MAX_RANK) DHOWI_REFUSE("a shape of %u dimensions", rank);
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) DHOWI_REFUSE("extent %" PRId64 " in the shape", shape[i]);
        desc.shape[i] = shape[i];
    }
    return lower_numbers(b, &desc, DHOW_F32);
}

dhow_status dhowi_lower_random_like(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    return lower_numbers(b, &x, x.dtype);
}

/* 1 with the probability that x has, else 0. */
dhow_status dhowi_lower_bernoulli(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    dhow_dtype dtype;
    int32_t units;
    if (!dhowi_is_float(x.dtype)) DHOWI_REFUSE("x is of %s", dhow_dtype_name(x.dtype));
    DHOWI_TRY(dtype_of(b, x.dtype, &dtype));
    DHOWI_TRY(draw_units(b, x.rank, x.shape, &units));
    DHOWI_TRY(dhowi_cast_to(b, units, x.dtype, &units));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_LT, units, b->in[0], &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

/* For each row of logarithms of probabilities so many classes: the number of running sums of
 * probabilities that a random number has reached. */
dhow_status dhowi_lower_multinomial(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const int64_t samples = dhowi_attr_int(b, "sample_size", 1);
    static const bool classes[DHOW_MAX_RANK] = {false, false, true};
    dhow_dtype dtype;
    int32_t sums, units;
    DHOWI_TRY(dtype_of(b, DHOW_I32, &dtype));
    if (x.rank != 2 || !dhowi_is_float(x.dtype) || x.shape[1] < 1 || samples < 1 ||
        samples > INT32_MAX || (dtype != DHOW_I32 && dtype != DHOW_I64)) {
        char text[160];
        DHOWI_REFUSE("%" PRId64 " samples of x %s as %s", samples,
                     dhowi_desc_text(&x, text, sizeof text), dhow_dtype_name(dtype));
    }
    const int64_t batch = x.shape[0], n = x.shape[1], drawn[] = {batch, samples, 1},
                  rows[] = {batch, 1, n}, result[] = {batch, samples};
    const dhowi_attrs last = {.dim = 1};
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], DHOW_F32, &sums));
    dhowi_tensor_desc desc = *dhowi_desc_at(b, sums);
    const dhowi_attrs along = {.split = dhowi_split_along(&desc, 1)};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_softmax, &sums, 1, &last, &desc, &sums));
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_cumsum, &sums, 1, &along, &desc, &sums));
    DHOWI_TRY(dhowi_reshape(b, sums, 3, rows, &sums));
    DHOWI_TRY(draw_units(b, 3, drawn, &units));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_LE, sums, units, &sums));
    DHOWI_TRY(dhowi_cast_to(b, sums, DHOW_F32, &sums));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, sums, classes, &sums));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MIN, sums, (double)(n - 1), &sums)); /* rounded sums */
    DHOWI_TRY(dhowi_reshape(b, sums, 2, result, &sums));
    return dhowi_cast_to(b, sums, dtype, &b->out[0]);
}

/* ---- Dropout ---- */

dhow_status dhowi_drop(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int64_t one[] = {1};
    const int64_t seed = dhowi_attr_int(b, "seed", b->node->out[0]),
                  key = (int64_t)in_frames(b, (uint64_t)seed);
    dhowi_attrs a = {.number = 0.5};
    int64_t training = 0;
    int32_t drawn;
    if (dhowi_given(b, 2)) DHOWI_TRY(dhowi_one_int(b, b->in[2], "training_mode", &training));
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_float(b, b->in[1], "ratio", &a.number));
    *out = x;
    if (training == 0 || a.number == 0) return DHOW_OK;
    if (!(a.number > 0 && a.number <= 1)) DHOWI_REFUSE("ratio is %g; 0 to 1 is allowed", a.number);
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 1, one, &key, &drawn));
    return dhowi_dropout(b, x, drawn, &a, out);
}

dhow_status dhowi_lower_dropout(dhowi_lowering *b) {
    dhowi_tensor_desc mask = *dhowi_desc_at(b, b->in[0]);
    DHOWI_TRY(dhowi_drop(b, b->in[0], &b->out[0]));
    if (b->out_count < 2) return DHOW_OK;
    DHOWI_TRY(dhowi_filled(b, &mask, 1, &b->out[1]));
    DHOWI_TRY(dhowi_drop(b, b->out[1], &b->out[1]));
    return b->node->opset >= 10 ? dhowi_cast_to(b, b->out[1], DHOW_BOOL, &b->out[1]) : DHOW_OK;
}
