/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of normalisation.
 */
#include "model/operators/backward/backward.h"
#include "model/operators/nn/nn.h"

/* ---- rows ---- */

static dhow_status mean_of_rows(dhowi_lowering *b, int32_t x, int32_t *out) {
    bool axes[DHOW_MAX_RANK] = {false};
    axes[dhowi_desc_at(b, x)->rank - 1] = true;
    return dhowi_reduce(b, DHOWI_MEAN, x, axes, out);
}

typedef struct rows {
    bool centred;
    int32_t h;     /* (x - mean) / sqrt(variance + eps) along the last dimension; without the mean,
                      x / sqrt(mean of squares + eps) */
    int32_t scale; /* the divisor's reciprocal */
} rows;

static dhow_status normalized(dhowi_lowering *b, int32_t x, double eps, rows *n) {
    n->h = x;
    if (n->centred) {
        DHOWI_TRY(mean_of_rows(b, x, &n->h));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, n->h, &n->h));
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, n->h, n->h, &n->scale));
    DHOWI_TRY(mean_of_rows(b, n->scale, &n->scale));
    DHOWI_TRY(dhowi_inverse_root(b, n->scale, eps, &n->scale));
    return dhowi_map_two(b, DHOWI_MAP_MUL, n->h, n->scale, &n->h);
}

/* With g the derivative by h, that by x: (g - mean of g - h mean of (g h)) scale. */
static dhow_status of_rows(dhowi_lowering *b, const rows *n, int32_t g, int32_t *out) {
    int32_t d, mean;
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, g, n->h, &d));
    DHOWI_TRY(mean_of_rows(b, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, n->h, d, &d));
    if (n->centred) {
        DHOWI_TRY(mean_of_rows(b, g, &mean));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, mean, &g));
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, d, &d));
    return dhowi_map_two(b, DHOWI_MAP_MUL, d, n->scale, out);
}

/* Over the last dimension: dweight is the sum of dy h, dbias that of dy. */
static dhow_status back_rows(dhowi_reverser *r, bool centred, double eps) {
    dhowi_lowering *b = r->b;
    rows n = {.centred = centred};
    int32_t x, w, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const int32_t rank = dhowi_desc_at(b, x)->rank;
    const int64_t axis = dhowi_is_built(r->node) ? -1 : dhowi_attr_int(b, "axis", -1);
    if (axis != -1 && axis != rank - 1) DHOWI_REFUSE("axis %lld; it has the last", (long long)axis);
    DHOWI_TRY(normalized(b, x, eps, &n));
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_back_times(r, n.h, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (dhowi_back_wants(r, 2)) DHOWI_TRY(dhowi_back_pass(r, 2, r->dy));
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_back_times(r, w, &d));
    DHOWI_TRY(of_rows(b, &n, d, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_layer_norm(dhowi_reverser *r) {
    return back_rows(r, true, dhowi_norm_eps(r->b));
}
dhow_status dhowi_back_rms_norm(dhowi_reverser *r) {
    return back_rows(r, false, dhowi_norm_eps(r->b));
}

/* ---- groups of channels ---- */

/* x[n, c, ...] as rows of `groups` of each sample; weight and bias are of `channels`. */
static dhow_status back_groups(dhowi_reverser *r, int64_t groups, int64_t channels) {
    dhowi_lowering *b = r->b;
    rows n = {.centred = true};
    int32_t x, w, dy, h, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t count = dhowi_extent(&own, 1, own.rank), samples = own.shape[0],
                  flat[] = {samples * groups, count / groups},
                  parts[] = {samples, channels, count / channels};
    DHOWI_TRY(dhowi_reshape(b, x, 2, flat, &x));
    DHOWI_TRY(normalized(b, x, dhowi_norm_eps(b), &n));
    DHOWI_TRY(dhowi_reshape(b, n.h, 3, parts, &h));
    DHOWI_TRY(dhowi_reshape(b, r->dy, 3, parts, &dy));
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dy, h, &d));
        DHOWI_TRY(dhowi_sum_but(b, d, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (dhowi_back_wants(r, 2)) {
        DHOWI_TRY(dhowi_sum_but(b, dy, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 2, d));
    }
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_along(b, w, 3, 1, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dy, w, &d));
    DHOWI_TRY(dhowi_reshape(b, d, 2, flat, &d));
    DHOWI_TRY(of_rows(b, &n, d, &d));
    DHOWI_TRY(dhowi_reshape(b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

/* Opset 18 has weight and bias per group, 21 per channel. */
dhow_status dhowi_back_group_norm(dhowi_reverser *r) {
    int32_t w;
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    return back_groups(r, dhowi_attr_int(r->b, "num_groups", 1),
                       dhowi_count_of(dhowi_desc_at(r->b, w)));
}

dhow_status dhowi_back_instance_norm(dhowi_reverser *r) {
    int32_t x;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const int64_t channels = dhowi_desc_at(r->b, x)->shape[1];
    return back_groups(r, channels, channels);
}

/* ---- batches ---- */

typedef struct batch_norm {
    int32_t h;     /* (x - mean) / sqrt(variance + eps) */
    int32_t scale; /* the divisor's reciprocal, [1, c, 1, ...] */
} batch_norm;

static dhow_status given_statistics(dhowi_reverser *r, int32_t x, double eps, batch_norm *n) {
    const int32_t rank = dhowi_desc_at(r->b, x)->rank;
    int32_t mean;
    DHOWI_TRY(dhowi_back_input(r, 3, &mean));
    DHOWI_TRY(dhowi_along(r->b, mean, rank, 1, &mean));
    DHOWI_TRY(dhowi_back_input(r, 4, &n->scale));
    DHOWI_TRY(dhowi_along(r->b, n->scale, rank, 1, &n->scale));
    DHOWI_TRY(dhowi_inverse_root(r->b, n->scale, eps, &n->scale));
    return dhowi_map_two(r->b, DHOWI_MAP_SUB, x, mean, &n->h);
}

/* y = h weight + bias: dweight is the sum of dy h, dbias that of dy. */
static dhow_status of_channels(dhowi_reverser *r, const batch_norm *n) {
    int32_t d;
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_back_times(r, n->h, &d));
        DHOWI_TRY(dhowi_sum_but(r->b, d, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_sum_but(r->b, r->dy, 1, &d));
    return dhowi_back_pass(r, 2, d);
}

/* d minus what its mean and that of d h contribute by the batch's own statistics. */
static dhow_status without_means(dhowi_lowering *b, int32_t h, int32_t *d) {
    const int32_t rank = dhowi_desc_at(b, h)->rank;
    bool axes[DHOW_MAX_RANK];
    int32_t mean, along;
    for (int32_t i = 0; i < rank; i++) axes[i] = i != 1;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, *d, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *d, h, &along));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, along, axes, &along));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, h, along, &along));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, *d, mean, d));
    return dhowi_map_two(b, DHOWI_MAP_SUB, *d, along, d);
}

static dhow_status back_batch_norm(dhowi_reverser *r, bool training) {
    dhowi_lowering *b = r->b;
    const double eps = dhowi_norm_eps(b);
    batch_norm n;
    int32_t x, w, d = r->dy, mean;
    if (!training && (dhowi_back_wants(r, 3) || dhowi_back_wants(r, 4)))
        DHOWI_REFUSE("its statistics depend on parameters");
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    if (training) {
        DHOWI_TRY(dhowi_batch_statistics(b, x, &mean, &n.h, &n.scale));
        DHOWI_TRY(dhowi_inverse_root(b, n.scale, eps, &n.scale));
    } else {
        DHOWI_TRY(given_statistics(r, x, eps, &n));
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, n.h, n.scale, &n.h));
    DHOWI_TRY(of_channels(r, &n));
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    if (training) DHOWI_TRY(without_means(b, n.h, &d));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_along(b, w, dhowi_desc_at(b, x)->rank, 1, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, w, n.scale, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, w, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_batch_norm(dhowi_reverser *r) {
    const bool from_file = r->b->node->source != NULL;
    return back_batch_norm(r, from_file && dhowi_attr_int(r->b, "training_mode", 0) != 0);
}
dhow_status dhowi_back_batch_norm_training(dhowi_reverser *r) { return back_batch_norm(r, true); }

/* ---- norms without parameters ---- */

/* y = x / n along an axis: (dy - y sum of (dy y)) / n of the 2-norm, with sign(x) in the place of
 * the second y of the 1-norm. */
dhow_status dhowi_back_lp_norm(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    const bool first = dhowi_attr_int(b, "p", 2) == 1;
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t x, y, axis, size, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), dhowi_attr_int(b, "axis", -1), &axis));
    axes[axis] = true;
    DHOWI_TRY(dhowi_norm_to_divide_by(b, first ? DHOWI_L1 : DHOWI_L2, x, axes, &size));
    DHOWI_TRY(dhowi_back_times(r, y, &d));
    DHOWI_TRY(dhowi_sum_along(b, d, axis, &d));
    if (first) DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGN, 0, 0, x, &y));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, y, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, r->dy, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, size, &d));
    return dhowi_back_pass(r, 0, d);
}

/* y = (x - mean) / (s + 1e-9) with s the root of the variance: with g = dy / (s + 1e-9),
 * g - mean of g - (x - mean) mean of (g y) / s. */
dhow_status dhowi_back_mvn(dhowi_reverser *r) {
    static const int64_t standard[] = {0, 2, 3};
    dhowi_lowering *b = r->b;
    bool axes[DHOW_MAX_RANK] = {false};
    uint32_t count;
    int32_t x, y, apart, s, g, mean, d;
    const int64_t *given = dhowi_attr_ints(b, "axes", &count);
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    if (given == NULL) count = 3;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), given != NULL ? given[i] : standard[i], &axis));
        axes[axis] = true;
    }
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, x, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, mean, &apart));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, apart, &s));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, s, axes, &s));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, s, &s));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, s, 1e-9, &s));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, r->dy, s, &g));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, g, y, &d));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, d, axes, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, y, &d));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, g, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, mean, &g));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, d, &d));
    return dhowi_back_pass(r, 0, d);
}

/* The sum over channels c - low .. c + high of each c. */
static dhow_status sum_nearby(dhowi_lowering *b, int32_t x, int64_t low, int64_t high,
                              int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    int64_t before[DHOW_MAX_RANK] = {0}, after[DHOW_MAX_RANK] = {0};
    int32_t wide, part;
    before[1] = low;
    after[1] = high;
    DHOWI_TRY(dhowi_pad_with(b, x, before, after, 0, &wide));
    for (int64_t i = 0; i <= low + high; i++) {
        DHOWI_TRY(dhowi_narrow(b, wide, 1, i, own.shape[1], 1, &part));
        if (i > 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, part, &part));
        *out = part;
    }
    return DHOW_OK;
}

/* y = x s^-beta, s = bias + alpha / size the sum of nearby x^2:
 * dy s^-beta - 2 alpha beta / size x, times the sum of dy y / s of those that x is near to. */
dhow_status dhowi_back_lrn(dhowi_reverser *r) {
    enum { MOST_CHANNELS = 1024 }; /* each is a few steps of the plan */
    dhowi_lowering *b = r->b;
    const double alpha = (double)dhowi_attr_float(b, "alpha", 1e-4f),
                 beta = (double)dhowi_attr_float(b, "beta", 0.75f),
                 bias = (double)dhowi_attr_float(b, "bias", 1);
    const int64_t size = dhowi_attr_int(b, "size", 1), low = (size - 1) / 2, high = size - 1 - low;
    int32_t x, y, s, own, d;
    if (size > MOST_CHANNELS)
        DHOWI_REFUSE("size %lld; it has steps for up to %d", (long long)size, MOST_CHANNELS);
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, x, &s));
    DHOWI_TRY(sum_nearby(b, s, low, high, &s));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, alpha / (double)size, bias, s, &s));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_POW, s, -beta, &own));
    DHOWI_TRY(dhowi_back_times(r, own, &own));
    DHOWI_TRY(dhowi_back_times(r, y, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, s, &d));
    DHOWI_TRY(sum_nearby(b, d, high, low, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, x, &d));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, d, 2 * alpha * beta / (double)size, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, own, d, &d));
    return dhowi_back_pass(r, 0, d);
}
