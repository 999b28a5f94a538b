/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators whose result has as many elements as the values say: computed on the host while the
 * plan is made. They end a segment of the plan, which is made anew when their inputs change.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

/* All numbers of a known item as doubles; free them. */
static dhow_status all_numbers(dhowi_lowering *b, int32_t ref, double **out, uint32_t *count) {
    *out = NULL;
    DHOWI_TRY(dhowi_need(b, ref));
    int64_t n = dhowi_count_of(dhowi_desc_at(b, ref));
    DHOWI_TRY(dhowi_host_room(b, n, sizeof **out));
    if (n > INT32_MAX) DHOWI_REFUSE("%" PRId64 " values on the host", n);
    *out = dhowi_alloc_array((size_t)n + 1, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_floats(b, ref, *out, (uint32_t)n, count);
    if (status != DHOW_OK) dhowi_free(*out);
    return status;
}

/* ---- NonZero: [rank, count], row-major ---- */

dhow_status dhowi_lower_non_zero(dhowi_lowering *b) {
    double *x;
    uint32_t count;
    DHOWI_TRY(all_numbers(b, b->in[0], &x, &count));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, b->in[0]);
    int64_t found = 0, at = 0, strides[DHOW_MAX_RANK];
    for (uint32_t i = 0; i < count; i++) found += x[i] != 0;
    const int64_t shape[] = {desc.rank, found};
    int64_t *index =
        dhowi_alloc_array((size_t)(found * DHOWI_MAX(desc.rank, 1)) + 1, sizeof *index);
    dhowi_shape_strides(desc.rank, desc.shape, strides);
    for (uint32_t i = 0; index != NULL && i < count; i++) {
        if (x[i] == 0) continue;
        for (int32_t k = 0; k < desc.rank; k++)
            index[k * found + at] = (int64_t)i / strides[k] % desc.shape[k];
        at++;
    }
    dhow_status status = index != NULL ? dhowi_constant(b, DHOW_I64, 2, shape, index, &b->out[0])
                                       : dhowi_fail_memory("plan");
    dhowi_free(index);
    dhowi_free(x);
    return status;
}

/* ---- Compress: the slices whose condition holds ---- */

dhow_status dhowi_lower_compress(dhowi_lowering *b) {
    double *condition;
    uint32_t count;
    int32_t x = b->in[0], axis = 0;
    DHOWI_TRY(all_numbers(b, b->in[1], &condition, &count));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    int64_t total = dhowi_count_of(&own), found = 0;
    dhow_status status = DHOW_OK;
    if (dhowi_attr(b, "axis", DHOWI_ATTRIBUTE_INT) != NULL) {
        status = dhowi_axis(&own, dhowi_attr_int(b, "axis", 0), &axis);
    } else {
        status = dhowi_reshape(b, x, 1, &total, &x);
    }
    int64_t *index = dhowi_alloc_array((size_t)count + 1, sizeof *index);
    if (index == NULL) status = dhowi_fail_memory("plan");
    for (uint32_t i = 0; status == DHOW_OK && i < count; i++) {
        if (condition[i] != 0 && (int64_t)i < dhowi_desc_at(b, x)->shape[axis]) index[found++] = i;
    }
    if (status == DHOW_OK) status = dhowi_pick(b, x, axis, index, found, &b->out[0]);
    dhowi_free(index);
    dhowi_free(condition);
    return status;
}

/* ---- NonMaxSuppression ---- */

typedef struct suppression {
    const double *boxes, *scores; /* [batches, n, 4], [batches, classes, n] */
    int64_t batches, classes, n, most;
    double overlap, least;
    bool has_least, centres;
    uint32_t *order; /* [n] */
    int64_t *chosen; /* [count, 3] */
    int64_t count, capacity;
} suppression;

/* Corners in ascending order, whichever way the file gives them. */
static void corners_of(const suppression *s, const double *box, double c[4]) {
    if (s->centres) {
        c[0] = box[0] - box[2] / 2, c[1] = box[1] - box[3] / 2;
        c[2] = box[0] + box[2] / 2, c[3] = box[1] + box[3] / 2;
        return;
    }
    for (int i = 0; i < 2; i++) {
        c[i] = DHOWI_MIN(box[i], box[i + 2]);
        c[i + 2] = DHOWI_MAX(box[i], box[i + 2]);
    }
}

static double overlap_of(const suppression *s, const double *p, const double *q) {
    double a[4], b[4];
    corners_of(s, p, a);
    corners_of(s, q, b);
    double h = DHOWI_MIN(a[2], b[2]) - DHOWI_MAX(a[0], b[0]);
    double w = DHOWI_MIN(a[3], b[3]) - DHOWI_MAX(a[1], b[1]);
    if (h <= 0 || w <= 0) return 0;
    double both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - h * w;
    return both > 0 ? h * w / both : 0;
}

static void sort_by_score(uint32_t *order, int64_t n, const double *scores) {
    for (int64_t gap = n / 2; gap > 0; gap /= 2) {
        for (int64_t i = gap; i < n; i++) {
            uint32_t moved = order[i];
            int64_t k = i;
            for (;
                 k >= gap && (scores[order[k - gap]] < scores[moved] ||
                              (scores[order[k - gap]] == scores[moved] && order[k - gap] > moved));
                 k -= gap)
                order[k] = order[k - gap];
            order[k] = moved;
        }
    }
}

static bool keep_box(suppression *s, int64_t batch, int64_t class_, uint32_t box) {
    if (s->count == s->capacity) {
        int64_t larger = s->capacity * 2 + 64;
        int64_t *grown = dhowi_realloc_array(s->chosen, (size_t)larger, 3 * sizeof *grown);
        if (grown == NULL) return false;
        s->chosen = grown;
        s->capacity = larger;
    }
    int64_t *to = s->chosen + 3 * s->count++;
    to[0] = batch, to[1] = class_, to[2] = box;
    return true;
}

static bool suppress_class(suppression *s, int64_t batch, int64_t class_) {
    const double *boxes = s->boxes + batch * s->n * 4;
    const double *scores = s->scores + (batch * s->classes + class_) * s->n;
    int64_t first = s->count, candidates = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (!s->has_least || scores[i] > s->least) s->order[candidates++] = (uint32_t)i;
    }
    sort_by_score(s->order, candidates, scores);
    for (int64_t i = 0; i < candidates && s->count - first < s->most; i++) {
        const double *box = boxes + 4 * s->order[i];
        bool free_ = true;
        for (int64_t k = first; free_ && k < s->count; k++)
            free_ = overlap_of(s, box, boxes + 4 * s->chosen[3 * k + 2]) <= s->overlap;
        if (free_ && !keep_box(s, batch, class_, s->order[i])) return false;
    }
    return true;
}

static dhow_status suppress(dhowi_lowering *b, suppression *s) {
    s->order = dhowi_alloc_array((size_t)s->n + 1, sizeof *s->order);
    bool good = s->order != NULL;
    for (int64_t i = 0; i < s->batches * s->classes && good; i++)
        good = suppress_class(s, i / s->classes, i % s->classes);
    static const int64_t none[3];
    const int64_t shape[] = {s->count, 3};
    dhow_status status =
        good ? dhowi_constant(b, DHOW_I64, 2, shape, s->count > 0 ? s->chosen : none, &b->out[0])
             : dhowi_fail_memory("plan");
    dhowi_free(s->order);
    dhowi_free(s->chosen);
    return status;
}

dhow_status dhowi_lower_non_max_suppression(dhowi_lowering *b) {
    suppression s = {0};
    uint32_t count;
    double *boxes, *scores;
    DHOWI_TRY(dhowi_attr_flag(b, "center_point_box", false, &s.centres));
    if (dhowi_given(b, 2))
        DHOWI_TRY(dhowi_one_int(b, b->in[2], "max_output_boxes_per_class", &s.most));
    if (dhowi_given(b, 3)) DHOWI_TRY(dhowi_one_float(b, b->in[3], "iou_threshold", &s.overlap));
    s.has_least = dhowi_given(b, 4);
    if (s.has_least) DHOWI_TRY(dhowi_one_float(b, b->in[4], "score_threshold", &s.least));
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[0]), q = *dhowi_desc_at(b, b->in[1]);
    if (p.rank != 3 || q.rank != 3 || p.shape[2] != 4 || p.shape[0] != q.shape[0] ||
        p.shape[1] != q.shape[2])
        DHOWI_REFUSE("boxes [batches, n, 4] and scores [batches, classes, n] fit");
    s.batches = p.shape[0], s.n = p.shape[1], s.classes = q.shape[1];
    DHOWI_TRY(dhowi_need(b, b->in[1]));
    DHOWI_TRY(all_numbers(b, b->in[0], &boxes, &count));
    dhow_status status = all_numbers(b, b->in[1], &scores, &count);
    if (status == DHOW_OK) {
        s.boxes = boxes;
        s.scores = scores;
        status = suppress(b, &s);
        dhowi_free(scores);
    }
    dhowi_free(boxes);
    return status;
}
