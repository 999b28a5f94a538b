/* SPDX-License-Identifier: Apache-2.0
 *
 * Items, views and steps of a lowering, see lower.h.
 */
#include "model/lower.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "copy/engine.h"

bool dhowi_room(void **array, uint32_t count, uint32_t *capacity, size_t element_bytes) {
    if (count < *capacity) return true;
    uint32_t larger = *capacity * 2 + 32;
    void *grown = dhowi_realloc_array(*array, larger, element_bytes);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

void dhowi_lowering_end(dhowi_lowering *b) {
    for (uint32_t i = 0; i < b->item_count; i++) {
        dhow_tensor_release(b->items[i].tensor);
        dhow_tensor_release(b->items[i].resident);
        dhow_datum_release(b->items[i].texts);
    }
    while (b->frames != NULL) dhowi_close_frame(b);
    dhowi_free(b->items);
    dhowi_free(b->steps);
    dhowi_free(b->buffers);
    dhowi_free(b->refs);
    dhowi_free(b->elements);
    dhowi_free(b->results);
    memset(b, 0, sizeof *b);
}

/* ---- facts ---- */

int64_t dhowi_count_of(const dhowi_spec *spec) { return dhowi_extent(spec, 0, spec->rank); }

int64_t dhowi_extent(const dhowi_spec *spec, int32_t begin, int32_t end) {
    uint64_t product = 1; /* beside an extent of 0 others may be absurd */
    for (int32_t i = begin; i < end; i++) product *= (uint64_t)spec->shape[i];
    return (int64_t)product;
}

dhow_status dhowi_axis(const dhowi_spec *spec, int64_t axis, int32_t *out) {
    int64_t wrapped = axis < 0 ? axis + spec->rank : axis;
    if (wrapped < 0 || wrapped >= spec->rank)
        DHOWI_REFUSE("axis %" PRId64 " of a tensor with %d dimensions", axis, spec->rank);
    *out = (int32_t)wrapped;
    return DHOW_OK;
}

bool dhowi_is_float(dhow_dtype dtype) { return (DHOWI_FLOATS & DHOW_DTYPE_BIT(dtype)) != 0; }

/* ---- items ---- */

static dhow_status new_item(dhowi_lowering *b, const dhowi_spec *spec, int32_t *out) {
    int64_t count;
    uint64_t bytes;
    *out = -1;
    DHOWI_TRY(dhowi_shape_check("result", spec->dtype, spec->rank, spec->shape, &count, &bytes));
    if (!dhowi_room((void **)&b->items, b->item_count, &b->item_capacity, sizeof *b->items))
        return dhowi_fail_memory("plan");
    dhowi_item *item = &b->items[b->item_count];
    *item = (dhowi_item){.spec = *spec, .contiguous = true, .buffer = -1, .value = -1};
    dhowi_shape_strides(spec->rank, spec->shape, item->strides);
    *out = (int32_t)b->item_count++;
    return DHOW_OK;
}

static dhow_status new_buffer(dhowi_lowering *b, uint64_t bytes, int32_t *out) {
    if (!dhowi_room((void **)&b->buffers, b->buffer_count, &b->buffer_capacity, sizeof *b->buffers))
        return dhowi_fail_memory("plan");
    b->buffers[b->buffer_count] = (dhowi_buffer){.bytes = bytes, .first = -1, .last = -1};
    *out = (int32_t)b->buffer_count++;
    return DHOW_OK;
}

dhow_status dhowi_known(dhowi_lowering *b, dhow_tensor *tensor, int32_t value, int32_t *out) {
    dhowi_spec spec;
    dhowi_spec_of(tensor, &spec);
    DHOWI_TRY(new_item(b, &spec, out));
    dhowi_item *item = &b->items[*out];
    memcpy(item->strides, tensor->strides, sizeof item->strides);
    item->offset = tensor->offset;
    item->contiguous = tensor->contiguous;
    item->tensor = tensor;
    item->value = value;
    dhowi_handle_retain(&tensor->handle);
    return DHOW_OK;
}

static uint64_t bytes_of(const dhowi_spec *spec) {
    return (uint64_t)dhowi_count_of(spec) * dhow_dtype_bytes(spec->dtype);
}

static dhow_status new_known(dhowi_lowering *b, const dhowi_spec *spec, int32_t *out) {
    DHOWI_TRY(new_item(b, spec, out));
    return dhowi_tensor_new(b->model->context->cpu, spec->dtype, spec->rank, spec->shape,
                            &b->items[*out].tensor);
}

static dhow_status new_unknown(dhowi_lowering *b, const dhowi_spec *spec, bool fixed,
                               int32_t *out) {
    DHOWI_TRY(new_item(b, spec, out));
    b->items[*out].fixed = fixed;
    if (fixed) DHOWI_TRY(dhowi_fix(b, bytes_of(spec)));
    DHOWI_TRY(dhowi_limit_memory(b, bytes_of(spec), b->node != NULL ? "a result" : "an output"));
    return new_buffer(b, bytes_of(spec), &b->items[*out].buffer);
}

dhow_status dhowi_constant(dhowi_lowering *b, dhow_dtype dtype, int32_t rank, const int64_t *shape,
                           const void *data, int32_t *out) {
    dhow_tensor *tensor;
    int64_t count;
    uint64_t bytes;
    *out = -1;
    DHOWI_TRY(dhowi_shape_check("constant", dtype, rank, shape, &count, &bytes));
    DHOWI_TRY(dhowi_fix(b, bytes));
    DHOWI_TRY(dhow_tensor_from_data(b->model->context->cpu, dtype, rank, shape, data, &tensor));
    dhow_status status = dhowi_known(b, tensor, -1, out);
    dhow_tensor_release(tensor);
    return status;
}

static dhow_status no_tensor(dhowi_lowering *b, dhow_datum_kind kind, int32_t *out) {
    *out = -1;
    if (!dhowi_room((void **)&b->items, b->item_count, &b->item_capacity, sizeof *b->items))
        return dhowi_fail_memory("plan");
    b->items[b->item_count] = (dhowi_item){.buffer = -1, .value = -1, .kind = kind};
    *out = (int32_t)b->item_count++;
    return DHOW_OK;
}

dhow_status dhowi_texts(dhowi_lowering *b, dhow_datum *texts, int32_t *out) {
    DHOWI_TRY(no_tensor(b, DHOW_DATUM_TEXTS, out));
    dhowi_handle_retain(&texts->handle);
    b->items[*out].texts = texts;
    return DHOW_OK;
}

dhow_status dhowi_nothing(dhowi_lowering *b, int32_t *out) {
    return no_tensor(b, DHOW_DATUM_NOTHING, out);
}

dhow_status dhowi_sequence(dhowi_lowering *b, uint32_t count, int32_t *out, int32_t **elements) {
    *out = -1;
    DHOWI_TRY(dhowi_fix(b, (uint64_t)count * sizeof **elements));
    if (count > b->element_capacity - b->element_count) {
        size_t wanted = ((size_t)b->element_count + count) * 2;
        if (wanted > UINT32_MAX) DHOWI_REFUSE("its sequences hold too many values");
        int32_t *grown = dhowi_realloc_array(b->elements, wanted, sizeof *grown);
        if (grown == NULL) return dhowi_fail_memory("plan");
        b->elements = grown;
        b->element_capacity = (uint32_t)wanted;
    }
    DHOWI_TRY(no_tensor(b, DHOW_DATUM_SEQUENCE, out));
    b->items[*out].first = b->element_count;
    b->items[*out].count = count;
    *elements = b->elements + b->element_count;
    b->element_count += count;
    return DHOW_OK;
}

dhow_status dhowi_need(dhowi_lowering *b, int32_t ref) {
    if (dhowi_is_known(b, ref)) return DHOW_OK;
    b->wanted = ref;
    return DHOWI_NEEDS_VALUES;
}

/* A dense host array of a known item's elements in another dtype; release the tensor. */
static dhow_status host_values(dhowi_lowering *b, int32_t ref, dhow_dtype dtype, uint32_t most,
                               dhow_tensor **out, uint32_t *count) {
    DHOWI_TRY(dhowi_need(b, ref));
    dhow_tensor *t = b->items[ref].tensor;
    *count = 0;
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
    const int64_t count = dhowi_count_of(&b->items[ref].spec);
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

/* ---- views ---- */

static bool is_dense(const dhowi_spec *spec, const int64_t *strides) {
    int64_t expected[DHOW_MAX_RANK];
    dhowi_shape_strides(spec->rank, spec->shape, expected);
    for (int32_t i = 0; i < spec->rank; i++) {
        if (spec->shape[i] != 1 && strides[i] != expected[i]) return false;
    }
    return true;
}

dhow_status dhowi_view(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                       const int64_t *strides, int64_t offset, int32_t *out) {
    dhowi_spec spec = {.dtype = b->items[x].spec.dtype, .rank = rank};
    if (rank > 0) memcpy(spec.shape, shape, (size_t)rank * sizeof *shape);
    DHOWI_TRY(new_item(b, &spec, out));
    dhowi_item *item = &b->items[*out], *from = &b->items[x];
    if (rank > 0) memcpy(item->strides, strides, (size_t)rank * sizeof *strides);
    item->offset = offset;
    item->contiguous = dhowi_count_of(&spec) <= 1 || is_dense(&spec, strides);
    item->buffer = from->buffer;
    item->fixed = from->fixed;
    if (from->tensor == NULL) return DHOW_OK;
    return dhowi_tensor_view(from->tensor->storage, spec.dtype, rank, shape, item->strides, offset,
                             &item->tensor);
}

dhow_status dhowi_dense(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_item *item = &b->items[x];
    uint64_t align = b->device->desc.offset_align;
    uint64_t offset = (uint64_t)item->offset * dhow_dtype_bytes(item->spec.dtype);
    *out = x;
    bool aligned = item->tensor != NULL || offset % DHOWI_MAX(align, (uint64_t)1) == 0;
    if (item->contiguous && aligned) return DHOW_OK;
    const dhowi_spec spec = item->spec;
    return dhowi_emit(b, DHOWI_OP_copy, &x, 1, NULL, &spec, out);
}

dhow_status dhowi_reshape(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out) {
    int64_t strides[DHOW_MAX_RANK], count = 1;
    if (rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions, dhow takes %d", rank, DHOW_MAX_RANK);
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || !dhowi_mul_i64(count, shape[i], &count))
            DHOWI_REFUSE("extent %" PRId64 " in a shape", shape[i]);
    }
    if (count != dhowi_count_of(&b->items[x].spec)) {
        DHOWI_REFUSE("%" PRId64 " elements cannot take a shape of %" PRId64,
                     dhowi_count_of(&b->items[x].spec), count);
    }
    if (!b->items[x].contiguous) DHOWI_TRY(dhowi_dense(b, x, &x));
    dhowi_shape_strides(rank, shape, strides);
    return dhowi_view(b, x, rank, shape, strides, b->items[x].offset, out);
}

/* Dimensions that lie evenly one within the other are one run of elements; the innermost first. */
typedef struct run_of_elements {
    int64_t length, step;
} run_of_elements;

static int32_t runs_of(const dhowi_item *item, run_of_elements *runs) {
    int32_t count = 0;
    for (int32_t i = item->spec.rank - 1; i >= 0; i--) {
        const int64_t extent = item->spec.shape[i], step = item->strides[i];
        if (extent == 1) continue;
        run_of_elements *last = count > 0 ? &runs[count - 1] : NULL;
        if (last != NULL && step == last->step * last->length) {
            last->length *= extent;
        } else {
            runs[count++] = (run_of_elements){extent, step};
        }
    }
    return count;
}

/* The strides of a shape over the same elements in the same order; false where there are none. */
static bool strides_for(const dhowi_item *item, int32_t rank, const int64_t *shape,
                        int64_t *strides) {
    run_of_elements runs[DHOW_MAX_RANK];
    const int32_t count = runs_of(item, runs);
    int32_t at = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = 0;
        if (shape[i] == 1) continue;
        if (at < count && runs[at].length == 1) at++;
        if (at == count || runs[at].length % shape[i] != 0) return false;
        strides[i] = runs[at].step;
        runs[at].step *= shape[i];
        runs[at].length /= shape[i];
    }
    return true;
}

dhow_status dhowi_regroup(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t strides[DHOW_MAX_RANK], count = 1;
    bool fits = !item.contiguous && rank <= DHOW_MAX_RANK && dhowi_count_of(&item.spec) > 0;
    for (int32_t i = 0; i < rank && fits; i++)
        fits = shape[i] > 0 && dhowi_mul_i64(count, shape[i], &count);
    if (!fits || count != dhowi_count_of(&item.spec) || !strides_for(&item, rank, shape, strides))
        return dhowi_reshape(b, x, rank, shape, out);
    return dhowi_view(b, x, rank, shape, strides, item.offset, out);
}

dhow_status dhowi_permute(dhowi_lowering *b, int32_t x, const int32_t *order, int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i < item.spec.rank; i++) {
        shape[i] = item.spec.shape[order[i]];
        strides[i] = item.strides[order[i]];
    }
    return dhowi_view(b, x, item.spec.rank, shape, strides, item.offset, out);
}

dhow_status dhowi_narrow(dhowi_lowering *b, int32_t x, int32_t dim, int64_t start, int64_t count,
                         int64_t step, int32_t *out) {
    dhowi_item item = b->items[x];
    if (dim < 0 || dim >= item.spec.rank) DHOWI_REFUSE("there is no dimension %d", dim);
    const int64_t extent = item.spec.shape[dim], last = start + (count - 1) * step;
    if (count < 0 || (count > 0 && (start < 0 || start >= extent || last < 0 || last >= extent)))
        DHOWI_REFUSE("elements %" PRId64 " to %" PRId64 " of dimension %d, which has %" PRId64,
                     start, last, dim, extent);
    int64_t offset = item.offset + (count > 0 ? start * item.strides[dim] : 0);
    item.spec.shape[dim] = count;
    if (count > 1) item.strides[dim] *= step; /* a single one has none, and any may be asked for */
    return dhowi_view(b, x, item.spec.rank, item.spec.shape, item.strides, offset, out);
}

dhow_status dhowi_expand(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                         int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - item.spec.rank);
        bool moves = own >= 0 && item.spec.shape[own] != 1;
        if (moves && item.spec.shape[own] != shape[i])
            DHOWI_REFUSE("extent %" PRId64 " does not repeat to %" PRId64, item.spec.shape[own],
                         shape[i]);
        strides[i] = moves ? item.strides[own] : 0;
    }
    return dhowi_view(b, x, rank, shape, strides, item.offset, out);
}

/* ---- steps ---- */

static bool all_known(const dhowi_lowering *b, const int32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] >= 0 && !dhowi_is_known(b, in[i])) return false;
    }
    return true;
}

static bool all_fixed(const dhowi_lowering *b, const int32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] >= 0 && !dhowi_is_known(b, in[i]) && !b->items[in[i]].fixed) return false;
    }
    return true;
}

static dhow_status run_now(dhowi_lowering *b, const dhowi_step *s) {
    dhowi_call call = {.op = dhowi_op_of(s->op), .attrs = &s->attrs, .exact = true};
    DHOWI_TRY(dhowi_stream_default(b->model->context->cpu, &call.stream));
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++)
        call.in[i] = s->in[i] >= 0 ? b->items[s->in[i]].tensor : NULL;
    call.out = b->items[s->out].tensor;
    call.second = s->second >= 0 ? b->items[s->second].tensor : NULL;
    return call.op->run(&call);
}

static dhow_status add_step(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                            const dhowi_attrs *attrs, int32_t out, int32_t second) {
    dhowi_step step = {.op = op, .out = out, .second = second, .node = b->node};
    bool strided = (dhowi_op_of(op)->flags & DHOWI_OP_STRIDED) != 0;
    if (attrs != NULL) step.attrs = *attrs;
    if (dhowi_count_of(&b->items[out].spec) == 0) return DHOW_OK;
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        step.in[i] = i < count ? in[i] : -1;
        if (step.in[i] >= 0 && !strided) DHOWI_TRY(dhowi_dense(b, step.in[i], &step.in[i]));
        if (step.in[i] >= 0 && dhowi_is_known(b, out) && !dhowi_is_known(b, step.in[i]))
            return dhowi_fail(DHOW_UNSUPPORTED, "its constants are too large for the host");
    }
    if (dhowi_is_known(b, out)) return run_now(b, &step);
    if (!dhowi_room((void **)&b->steps, b->step_count, &b->step_capacity, sizeof *b->steps))
        return dhowi_fail_memory("plan");
    b->steps[b->step_count++] = step;
    return DHOW_OK;
}

dhow_status dhowi_blank(dhowi_lowering *b, const dhowi_spec *spec, int32_t *out) {
    return new_unknown(b, spec, false, out);
}

dhow_status dhowi_blank_of(dhowi_lowering *b, const dhowi_spec *spec, const int32_t *in,
                           uint32_t count, int32_t *out) {
    int64_t elements;
    uint64_t bytes;
    DHOWI_TRY(dhowi_shape_check("result", spec->dtype, spec->rank, spec->shape, &elements, &bytes));
    if (all_known(b, in, count) && dhowi_fold(b, bytes)) return new_known(b, spec, out);
    return new_unknown(b, spec, all_fixed(b, in, count), out);
}

dhow_status dhowi_emit_two(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                           const dhowi_attrs *attrs, const dhowi_spec *spec,
                           const dhowi_spec *second, int32_t *out, int32_t *out_second) {
    int32_t dense[DHOWI_OP_MAX_INPUTS], further = -1;
    int64_t elements;
    uint64_t bytes, more = 0;
    DHOWI_TRY(dhowi_shape_check("result", spec->dtype, spec->rank, spec->shape, &elements, &bytes));
    if (second != NULL)
        DHOWI_TRY(dhowi_shape_check("result", second->dtype, second->rank, second->shape, &elements,
                                    &more));
    bool strided = (dhowi_op_of(op)->flags & DHOWI_OP_STRIDED) != 0;
    for (uint32_t i = 0; i < count; i++) {
        dense[i] = in[i];
        if (in[i] >= 0 && !strided) DHOWI_TRY(dhowi_dense(b, in[i], &dense[i]));
    }
    bool fixed = all_fixed(b, dense, count);
    bool known =
        all_known(b, dense, count) && bytes <= UINT64_MAX - more && dhowi_fold(b, bytes + more);
    DHOWI_TRY(known ? new_known(b, spec, out) : new_unknown(b, spec, fixed, out));
    if (second != NULL)
        DHOWI_TRY(known ? new_known(b, second, &further) : new_unknown(b, second, fixed, &further));
    if (out_second != NULL) *out_second = further;
    return add_step(b, op, dense, count, attrs, *out, further);
}

dhow_status dhowi_emit(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                       const dhowi_attrs *attrs, const dhowi_spec *spec, int32_t *out) {
    return dhowi_emit_two(b, op, in, count, attrs, spec, NULL, out, NULL);
}

dhow_status dhowi_emit_into(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                            const dhowi_attrs *attrs, int32_t to) {
    return add_step(b, op, in, count, attrs, to, -1);
}

dhow_status dhowi_filled(dhowi_lowering *b, const dhowi_spec *spec, double value, int32_t *out) {
    const int64_t zeros[DHOW_MAX_RANK] = {0};
    int64_t one = 1;
    int32_t single;
    uint64_t bits = dhowi_dtype_encode(spec->dtype, value);
    DHOWI_TRY(dhowi_constant(b, spec->dtype, 1, &one, &bits, &single));
    return dhowi_view(b, single, spec->rank, spec->shape, zeros, 0, out);
}

dhow_status dhowi_cast_to(dhowi_lowering *b, int32_t x, dhow_dtype dtype, int32_t *out) {
    dhowi_spec spec = b->items[x].spec;
    *out = x;
    if (spec.dtype == dtype) return DHOW_OK;
    spec.dtype = dtype;
    return dhowi_emit(b, DHOWI_OP_cast, &x, 1, NULL, &spec, out);
}

dhow_status dhowi_widened(dhowi_lowering *b, dhowi_op_id op, int32_t x, int32_t *out) {
    dhow_dtype dtype = b->items[x].spec.dtype;
    uint64_t has = dhowi_op_of(op)->dtypes;
    *out = x;
    if ((has & DHOW_DTYPE_BIT(dtype)) != 0) return DHOW_OK;
    if (dhowi_is_float(dtype)) return dhowi_cast_to(b, x, DHOW_F32, out);
    if ((has & DHOW_DTYPE_BIT(DHOW_I64)) != 0) return dhowi_cast_to(b, x, DHOW_I64, out);
    DHOWI_REFUSE("elements of type %s", dhow_dtype_name(dtype));
}

/* ---- elementwise ---- */

dhow_status dhowi_map(dhowi_lowering *b, const dhowi_program *program, const int32_t *in,
                      uint32_t count, int32_t *out) {
    dhowi_spec spec = b->items[in[0]].spec;
    for (uint32_t i = 1; i < count; i++) {
        const dhowi_spec own = spec, *other = &b->items[in[i]].spec;
        if (other->dtype != spec.dtype) {
            DHOWI_REFUSE("inputs of types %s and %s", dhow_dtype_name(spec.dtype),
                         dhow_dtype_name(other->dtype));
        }
        if (!dhowi_shape_broadcast(own.rank, own.shape, other->rank, other->shape, &spec.rank,
                                   spec.shape)) {
            char p[160], q[160];
            DHOWI_REFUSE("%s and %s do not broadcast", dhowi_spec_text(&own, p, sizeof p),
                         dhowi_spec_text(other, q, sizeof q));
        }
    }
    dhowi_attrs attrs = {.program = *program};
    return dhowi_emit(b, DHOWI_OP_map, in, count, &attrs, &spec, out);
}

dhow_status dhowi_map_one(dhowi_lowering *b, dhowi_map_op op, double c, double q, int32_t x,
                          int32_t *out) {
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, op, dhowi_map_constants(op), c, q);
    return dhowi_map(b, &p, &x, 1, out);
}

dhow_status dhowi_map_two(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t y, int32_t *out) {
    const int32_t in[] = {x, y};
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, op, 1);
    return dhowi_map(b, &p, in, 2, out);
}

dhow_status dhowi_map_number(dhowi_lowering *b, dhowi_map_op op, int32_t x, double number,
                             int32_t *out) {
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, op, 1, number, 0);
    return dhowi_map(b, &p, &x, 1, out);
}

dhow_status dhowi_select(dhowi_lowering *b, int32_t condition, int32_t x, int32_t y, int32_t *out) {
    dhow_dtype dtype = b->items[x].spec.dtype;
    int32_t in[] = {condition, x, y};
    dhowi_program p = {0};
    DHOWI_TRY(dhowi_cast_to(b, condition, dtype, &in[0]));
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_SAVE, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 1);
    (void)dhowi_program_add(&p, DHOWI_MAP_SELECT, 2);
    return dhowi_map(b, &p, in, 3, out);
}
