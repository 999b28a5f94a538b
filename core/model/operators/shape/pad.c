/* SPDX-License-Identifier: Apache-2.0
 *
 * Pad.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/operators/shape/shape.h"

enum { MAX_PADDING = 1 << 24 };

/* Where an index before or past the end comes from. */
static int64_t mirrored(int64_t i, int64_t n, const char mode) {
    if (mode == 'e') return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (mode == 'w') return ((i % n) + n) % n;
    if (n == 1) return 0;
    int64_t period = 2 * (n - 1);
    i = ((i % period) + period) % period;
    return i < n ? i : period - i;
}

dhow_status dhowi_pad_indices(dhowi_lowering *b, const dhowi_pads *p, int32_t axis, int64_t n,
                              int32_t *out) {
    const int64_t count = n + p->before[axis] + p->after[axis];
    if (n < 1 || count < 0) DHOWI_REFUSE("nothing to repeat along axis %d", axis);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof n));
    int64_t *index = dhowi_alloc_array((size_t)count + 1, sizeof *index);
    if (index == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++) index[i] = mirrored(i - p->before[axis], n, p->mode);
    dhow_status status = dhowi_constant(b, DHOW_I64, 1, &count, index, out);
    dhowi_free(index);
    return status;
}

/* 'c' constant, 'e' edge, 'r' reflect, 'w' wrap */
static dhow_status mode_of(const dhowi_lowering *b, char *mode) {
    *mode = dhowi_attr_is(b, "mode", "constant", "constant") ? 'c'
            : dhowi_attr_is(b, "mode", "edge", "")           ? 'e'
            : dhowi_attr_is(b, "mode", "reflect", "")        ? 'r'
            : dhowi_attr_is(b, "mode", "wrap", "")           ? 'w'
                                                             : 0;
    return *mode != 0 ? DHOW_OK : dhowi_refuse_text(b, "mode");
}

dhow_status dhowi_pads_of(dhowi_lowering *b, dhowi_pads *p) {
    const int32_t rank = dhowi_desc_at(b, b->in[0])->rank;
    int64_t pads[2 * DHOW_MAX_RANK], *before = p->before, *after = p->after;
    int64_t axes[DHOW_MAX_RANK];
    uint32_t count, axis_count = (uint32_t)rank;
    *p = (dhowi_pads){.value = (double)dhowi_attr_float(b, "value", 0)};
    const int64_t *given = dhowi_attr_ints(b, b->node->opset < 2 ? "paddings" : "pads", &count);
    if (given != NULL && count <= 2 * DHOW_MAX_RANK) memcpy(pads, given, count * sizeof *pads);
    if (given == NULL && dhowi_given(b, 1))
        DHOWI_TRY(dhowi_ints(b, b->in[1], pads, 2 * DHOW_MAX_RANK, &count));
    if (dhowi_given(b, 2) && dhowi_count_of(dhowi_desc_at(b, b->in[2])) > 0) {
        DHOWI_TRY(dhowi_one_float(b, b->in[2], "constant_value", &p->value));
    }
    for (int32_t i = 0; i < rank; i++) axes[i] = i;
    if (dhowi_given(b, 3)) DHOWI_TRY(dhowi_ints(b, b->in[3], axes, DHOW_MAX_RANK, &axis_count));
    if (count != 2 * axis_count) DHOWI_REFUSE("pads has %u entries, not %u", count, 2 * axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), axes[i], &axis));
        before[axis] = pads[i];
        after[axis] = pads[axis_count + i];
        if (before[axis] < -MAX_PADDING || before[axis] > MAX_PADDING ||
            after[axis] < -MAX_PADDING || after[axis] > MAX_PADDING)
            DHOWI_REFUSE("pads of %" PRId64 " and %" PRId64 " for dimension %d, at most %d",
                         before[axis], after[axis], axis, MAX_PADDING);
    }
    return mode_of(b, &p->mode);
}

dhow_status dhowi_lower_pad(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    dhowi_pads p;
    int32_t index;
    DHOWI_TRY(dhowi_pads_of(b, &p));
    if (p.mode == 'c') return dhowi_pad_with(b, b->in[0], p.before, p.after, p.value, &b->out[0]);
    b->out[0] = b->in[0];
    for (int32_t axis = 0; axis < x.rank; axis++) {
        if (p.before[axis] == 0 && p.after[axis] == 0) continue;
        DHOWI_TRY(dhowi_pad_indices(b, &p, axis, x.shape[axis], &index));
        DHOWI_TRY(dhowi_gather_along(b, b->out[0], axis, index, &b->out[0]));
    }
    return DHOW_OK;
}
