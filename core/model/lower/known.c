/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of known items, as the host reads them.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/lower/composite.h"

/* A dense host array of a known item's elements in another dtype; release the tensor. */
static dhow_status host_values(dhowi_lowering *b, int32_t ref, dhow_dtype dtype, uint32_t most,
                               dhow_tensor **out, uint32_t *count) {
    dhow_tensor *t;
    *count = 0;
    DHOWI_TRY(dhowi_need(b, ref));
    DHOWI_TRY(dhowi_known_values(b, ref, &t));
    if (b->items[ref].desc.encoding != 0)
        DHOWI_REFUSE("numbers of type %s where plain ones are expected",
                     dhowi_onnx_type_name(b->items[ref].desc.encoding));
    if (t->count > (int64_t)most) {
        DHOWI_REFUSE("%" PRId64 " numbers where at most %u are expected", t->count, most);
    }
    DHOWI_TRY(dhowi_tensor_new(b->model->context->cpu, dtype, t->rank, t->shape, out));
    dhow_status status = dhow_cast(NULL, t, *out);
    if (status != DHOW_OK) {
        dhow_tensor_release(*out);
        *out = NULL;
        return status;
    }
    *count = (uint32_t)t->count;
    return DHOW_OK;
}

dhow_status dhowi_ints(dhowi_lowering *b, int32_t ref, int64_t *out, uint32_t most,
                       uint32_t *count) {
    dhow_tensor *t;
    void *data;
    if (dhowi_is_float(dhowi_desc_at(b, ref)->dtype))
        DHOWI_REFUSE("numbers of type %s where integers are expected",
                     dhow_dtype_name(dhowi_desc_at(b, ref)->dtype));
    DHOWI_TRY(host_values(b, ref, DHOW_I64, most, &t, count));
    dhow_status status = dhow_tensor_host_ptr(t, &data);
    if (status == DHOW_OK && *count > 0) memcpy(out, data, *count * sizeof *out);
    dhow_tensor_release(t);
    return status;
}

dhow_status dhowi_floats(dhowi_lowering *b, int32_t ref, double *out, uint32_t most,
                         uint32_t *count) {
    dhow_tensor *t;
    void *data;
    DHOWI_TRY(host_values(b, ref, DHOW_F64, most, &t, count));
    dhow_status status = dhow_tensor_host_ptr(t, &data);
    if (status == DHOW_OK && *count > 0) memcpy(out, data, *count * sizeof *out);
    dhow_tensor_release(t);
    return status;
}

static dhow_status expect_one(const dhowi_lowering *b, int32_t ref, const char *name) {
    const int64_t count = dhowi_count_of(&b->items[ref].desc);
    if (count != 1) DHOWI_REFUSE("%s has %" PRId64 " numbers, not one", name, count);
    return DHOW_OK;
}

dhow_status dhowi_one_int(dhowi_lowering *b, int32_t ref, const char *name, int64_t *out) {
    uint32_t count;
    DHOWI_TRY(expect_one(b, ref, name));
    return dhowi_ints(b, ref, out, 1, &count);
}

dhow_status dhowi_one_float(dhowi_lowering *b, int32_t ref, const char *name, double *out) {
    uint32_t count;
    DHOWI_TRY(expect_one(b, ref, name));
    return dhowi_floats(b, ref, out, 1, &count);
}

/* ---- numbers that only a run knows ---- */

dhow_status dhowi_check_bounds(const int64_t *values, uint32_t count, const dhowi_bounds *r) {
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] >= r->least && values[i] <= r->most) continue;
        DHOWI_REFUSE("%s is %" PRId64 " for sequence %u; it is %" PRId64 " to %" PRId64
                     ", what there is room for",
                     r->name, values[i], i, r->least, r->most);
    }
    return DHOW_OK;
}

dhow_status dhowi_keep_within(dhowi_lowering *b, int32_t ref, const char *name, int64_t least,
                              int64_t most) {
    const dhowi_item *item = &b->items[ref];
    const dhowi_bounds range = {
        .node = b->node, .name = name, .least = least, .most = most, .slot = -1, .item = ref};
    uint32_t count;
    void *data;
    dhow_tensor *t;
    if (dhowi_is_known(b, ref)) {
        DHOWI_TRY(host_values(b, ref, DHOW_I64, UINT32_MAX, &t, &count));
        dhow_status status = dhow_tensor_host_ptr(t, &data);
        if (status == DHOW_OK) status = dhowi_check_bounds(data, count, &range);
        dhow_tensor_release(t);
        return status;
    }
    if (b->buffers[item->buffer].external <= 0) return DHOW_OK; /* the kernel looks */
    if (!dhowi_room((void **)&b->bounds, b->bound_count, &b->bound_capacity, sizeof *b->bounds))
        return dhowi_fail_memory("plan");
    b->bounds[b->bound_count] = range;
    b->bounds[b->bound_count++].slot = b->buffers[item->buffer].external - 1;
    return DHOW_OK;
}

/* ---- exact sums ---- */

/* f32 adds up integers exactly below 2^24, and no product of two numbers of 8 bits less a zero
 * point exceeds 255 * 255. */
enum { MOST_CENTRED = 255, EXACT_PRODUCTS = (1 << 24) / (MOST_CENTRED * MOST_CENTRED) };

/* Whether sums of any values with `run` rows of these weights after another are exact. */
static bool runs_are_exact(const float *weights, const dhowi_summed *s, int64_t run, double *sums) {
    bool exact = true;
    for (int64_t row = 0; row < s->blocks * s->each && exact; row++) {
        const float *w = weights + row * s->inner;
        if (row % s->each % run == 0) memset(sums, 0, (size_t)s->inner * sizeof *sums);
        for (int64_t i = 0; i < s->inner; i++) {
            sums[i] += fabs((double)w[i]);
            exact &= sums[i] * MOST_CENTRED < 1 << 24;
        }
    }
    return exact;
}

dhow_status dhowi_exact_run(dhowi_lowering *b, int32_t w, const dhowi_summed *s, int64_t unit,
                            int64_t *run) {
    const bool known = dhowi_is_known(b, w) && b->items[w].contiguous;
    const int64_t units = s->each / DHOWI_MAX(unit, (int64_t)1);
    void *weights;
    *run = s->each;
    if (s->each <= EXACT_PRODUCTS) return DHOW_OK;
    if (known) {
        DHOWI_TRY(dhowi_known_data(b, w, &weights));
        double *sums = dhowi_alloc_array((size_t)s->inner, sizeof *sums);
        if (sums == NULL) return dhowi_fail_memory("sums of weights");
        int64_t parts = 1;
        while (*run > EXACT_PRODUCTS && !runs_are_exact(weights, s, *run, sums)) {
            parts *= 2;
            *run = parts < units ? dhowi_ceil_div(units, parts) * unit : 0;
        }
        dhowi_free(sums);
    }
    if (!known || *run < EXACT_PRODUCTS) *run = EXACT_PRODUCTS / unit * unit;
    return DHOW_OK;
}
