/* SPDX-License-Identifier: Apache-2.0
 *
 * DFT and STFT, as products with the matrix of angles: exact for every length, and on every device
 * that has a product.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/math/math.h"

typedef struct transform {
    int64_t length;  /* of the transform */
    int64_t samples; /* that there are: the rest is 0 */
    int64_t bins;    /* of the result that are kept */
    int32_t parts;   /* 1: samples are real; 2: pairs of real and imaginary parts */
    int32_t kept;    /* the same of the result */
    bool inverse, onesided;
} transform;

/* How often a sample counts: those that the lower half of a real signal's spectrum does not hold
 * are the conjugates of those that it does. */
static double weight_of(const transform *t, int64_t n) {
    return t->kept == 1 && n > 0 && 2 * n != t->length ? 2 : 1;
}

/* X[k] = sum x[n] exp(-2 pi i n k / length); the inverse turns the other way and divides by length.
 * A row for each part of a sample, a column for each part of a bin. */
static void write_angles(const transform *t, double *out) {
    const double turn = (t->inverse ? 2 : -2) * acos(-1) / (double)t->length,
                 scale = t->inverse ? 1 / (double)t->length : 1;
    for (int64_t n = 0; n < t->samples; n++) {
        double *row = out + n * t->parts * t->bins * t->kept;
        for (int64_t k = 0; k < t->bins; k++, row += t->kept) {
            /* n k is taken modulo length, which keeps the angle exact */
            const double angle = turn * (double)((uint64_t)n * (uint64_t)k % (uint64_t)t->length);
            const double real = weight_of(t, n) * scale * cos(angle),
                         imaginary = weight_of(t, n) * scale * sin(angle);
            double *second = row + t->bins * t->kept;
            row[0] = real;
            if (t->kept == 2) row[1] = imaginary;
            if (t->parts == 2) second[0] = -imaginary;
            if (t->parts == 2 && t->kept == 2) second[1] = real;
        }
    }
}

/* [samples, parts, kept bins] */
static dhow_status angles_of(dhowi_lowering *b, const transform *t, dhow_dtype dtype,
                             int32_t *out) {
    const int64_t shape[] = {t->samples, t->parts, t->kept * t->bins};
    int64_t count;
    if (!dhowi_mul_i64(t->samples * t->parts, t->kept * t->bins, &count))
        DHOWI_REFUSE("a transform of %" PRId64 " samples", t->length);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)count + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    write_angles(t, list);
    dhow_status status = dhowi_constant(b, DHOW_F64, 3, shape, list, out);
    dhowi_free(list);
    return status == DHOW_OK ? dhowi_cast_to(b, *out, dtype, out) : status;
}

/* x [rows, samples, parts] and angles [samples, parts, kept bins]: [rows, bins, kept] */
static dhow_status transformed(dhowi_lowering *b, const transform *t, int32_t x, int32_t angles,
                               int32_t *out) {
    const int64_t rows = dhowi_desc_at(b, x)->shape[0], terms = t->samples * t->parts;
    const int64_t matrix[] = {rows, terms}, wave[] = {terms, t->kept * t->bins},
                  shape[] = {rows, t->bins, t->kept};
    DHOWI_TRY(dhowi_reshape(b, x, 2, matrix, &x));
    DHOWI_TRY(dhowi_reshape(b, angles, 2, wave, &angles));
    DHOWI_TRY(dhowi_product(b, x, angles, -1, out));
    return dhowi_reshape(b, *out, 3, shape, out);
}

static dhow_status parts_of(const dhowi_tensor_desc *x, int32_t *out) {
    const int64_t last = x->rank > 0 ? x->shape[x->rank - 1] : 0;
    if (x->rank < 2 || (last != 1 && last != 2))
        DHOWI_REFUSE("its signal's last extent is %" PRId64
                     ", not 1 or 2 (real, or with an "
                     "imaginary part)",
                     last);
    if (!dhowi_is_float(x->dtype)) DHOWI_REFUSE("its signal is %s", dhow_dtype_name(x->dtype));
    *out = (int32_t)last;
    return DHOW_OK;
}

/* Half of a spectrum tells the other one of a real signal: the result of a transform, and what the
 * inverse of one begins with. */
static dhow_status keep_bins(transform *t) {
    const bool back = t->onesided && t->inverse;
    t->bins = t->onesided && !back ? t->length / 2 + 1 : t->length;
    t->kept = back ? 1 : 2;
    if (!t->onesided || t->parts == (back ? 2 : 1)) return DHOW_OK;
    DHOWI_REFUSE("onesided of %s",
                 back ? "an inverse transform of real numbers: a spectrum has two "
                        "parts"
                      : "complex numbers, of which one half does not tell the other");
}

/* ---- DFT: along an axis of [..., parts] ---- */

static dhow_status dft_axis(dhowi_lowering *b, const dhowi_tensor_desc *x, int32_t *out) {
    int64_t axis = b->node->opset < 20 ? dhowi_attr_int(b, "axis", 1) : -2;
    if (dhowi_given(b, 2)) DHOWI_TRY(dhowi_one_int(b, b->in[2], "axis", &axis));
    DHOWI_TRY(dhowi_axis(x, axis, out));
    if (*out == x->rank - 1) DHOWI_REFUSE("axis %" PRId64 " is that of the parts", axis);
    return DHOW_OK;
}

/* The axis goes to the place before the parts; its own inverse. */
static dhow_status swap_axis(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    int32_t order[DHOW_MAX_RANK];
    const int32_t rank = dhowi_desc_at(b, x)->rank;
    for (int32_t i = 0; i < rank; i++) order[i] = i;
    order[axis] = rank - 2;
    order[rank - 2] = axis;
    return dhowi_permute(b, x, order, out);
}

dhow_status dhowi_lower_dft(dhowi_lowering *b) {
    transform t = {0};
    int32_t axis, x = b->in[0], angles;
    dhowi_tensor_desc is = *dhowi_desc_at(b, x);
    DHOWI_TRY(parts_of(&is, &t.parts));
    DHOWI_TRY(dft_axis(b, &is, &axis));
    DHOWI_TRY(dhowi_attr_flag(b, "inverse", false, &t.inverse));
    DHOWI_TRY(dhowi_attr_flag(b, "onesided", false, &t.onesided));
    const int64_t there = is.shape[axis];
    t.length = t.onesided && t.inverse ? 2 * (there - 1) : there;
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_int(b, b->in[1], "dft_length", &t.length));
    if (t.length < 1 || t.length > INT32_MAX) DHOWI_REFUSE("dft_length is %" PRId64, t.length);
    DHOWI_TRY(keep_bins(&t));
    t.samples = DHOWI_MIN(t.kept == 1 ? t.length / 2 + 1 : t.length, there);
    DHOWI_TRY(dhowi_narrow(b, x, axis, 0, t.samples, 1, &x));
    DHOWI_TRY(swap_axis(b, x, axis, &x));
    is = *dhowi_desc_at(b, x);
    const int64_t rows[] = {dhowi_extent(&is, 0, is.rank - 2), t.samples, t.parts};
    DHOWI_TRY(dhowi_reshape(b, x, 3, rows, &x));
    DHOWI_TRY(angles_of(b, &t, is.dtype, &angles));
    DHOWI_TRY(transformed(b, &t, x, angles, &x));
    is.shape[is.rank - 2] = t.bins;
    is.shape[is.rank - 1] = t.kept;
    DHOWI_TRY(dhowi_reshape(b, x, is.rank, is.shape, &x));
    return swap_axis(b, x, axis, &b->out[0]);
}

/* ---- STFT: [batch, length, parts] in frames: [batch, frames, bins, 2] ---- */

static dhow_status frame_length(dhowi_lowering *b, int64_t signal, int64_t *out) {
    const bool window = dhowi_given(b, 2), given = dhowi_given(b, 3);
    if (!window && !given) DHOWI_REFUSE("it has neither a window nor a frame_length");
    if (window) {
        const dhowi_tensor_desc *w = dhowi_desc_at(b, b->in[2]);
        if (w->rank != 1) DHOWI_REFUSE("its window has %d dimensions, not 1", w->rank);
        *out = w->shape[0];
    }
    int64_t length = *out;
    if (given) DHOWI_TRY(dhowi_one_int(b, b->in[3], "frame_length", &length));
    if (window && length != *out)
        DHOWI_REFUSE("a window of %" PRId64 " samples for frames of %" PRId64, *out, length);
    if (length < 1 || length > signal)
        DHOWI_REFUSE("frames of %" PRId64 " samples in a signal of %" PRId64, length, signal);
    *out = length;
    return DHOW_OK;
}

/* Overlapping frames of the signal: [batch * frames, samples, parts] */
static dhow_status frames_of(dhowi_lowering *b, const transform *t, int64_t frames, int64_t step,
                             int32_t x, int32_t *out) {
    DHOWI_TRY(dhowi_dense(b, x, &x));
    const dhowi_tensor_desc is = *dhowi_desc_at(b, x);
    const int64_t shape[] = {is.shape[0], frames, t->samples, t->parts},
                  rows[] = {is.shape[0] * frames, t->samples, t->parts},
                  strides[] = {is.shape[1] * t->parts, step * t->parts, t->parts, 1};
    DHOWI_TRY(dhowi_view(b, x, 4, shape, strides, b->items[x].offset, &x));
    DHOWI_TRY(dhowi_dense(b, x, &x));
    return dhowi_reshape(b, x, 3, rows, out);
}

dhow_status dhowi_lower_stft(dhowi_lowering *b) {
    transform t = {0};
    int64_t step;
    int32_t x = b->in[0], angles;
    dhowi_tensor_desc is = *dhowi_desc_at(b, x);
    if (is.rank == 2) { /* real, without the axis that says so */
        const int64_t shape[] = {is.shape[0], is.shape[1], 1};
        DHOWI_TRY(dhowi_reshape(b, x, 3, shape, &x));
        is = *dhowi_desc_at(b, x);
    }
    if (is.rank != 3) DHOWI_REFUSE("its signal has %d dimensions, not 3", is.rank);
    DHOWI_TRY(parts_of(&is, &t.parts));
    DHOWI_TRY(dhowi_attr_flag(b, "onesided", true, &t.onesided));
    t.onesided = t.onesided && t.parts == 1;
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "frame_step", &step));
    DHOWI_TRY(frame_length(b, is.shape[1], &t.length));
    if (step < 1) DHOWI_REFUSE("frame_step is %" PRId64, step);
    t.samples = t.length;
    DHOWI_TRY(keep_bins(&t));
    const int64_t frames = (is.shape[1] - t.length) / step + 1,
                  shape[] = {is.shape[0], frames, t.bins, 2}, window[] = {t.length, 1, 1};
    DHOWI_TRY(angles_of(b, &t, is.dtype, &angles));
    if (dhowi_given(b, 2)) { /* multiplies the angles, most often once and for all */
        int32_t w;
        DHOWI_TRY(dhowi_reshape(b, b->in[2], 3, window, &w));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, angles, w, &angles));
    }
    DHOWI_TRY(frames_of(b, &t, frames, step, x, &x));
    DHOWI_TRY(transformed(b, &t, x, angles, &x));
    return dhowi_reshape(b, x, 4, shape, &b->out[0]);
}
