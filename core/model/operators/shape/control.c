/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop, Scan and SequenceMap. The branch of an If is chosen while the plan is made; the bodies
 * of loops are lowered once for each time they run. How often that is must be known then; where it
 * depends on values that a device computes, the plan stops to look at them and goes on in the
 * middle of the loop.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/operators/shape/shape.h"

/* Nodes that all loops of a plan may come to; each costs the host about a KiB. */
enum { MAX_LOOPED_NODES = 1 << 18 };

/* ---- an iteration ---- */

/* What a body computed is forgotten: the next iteration computes it anew. */
static uint32_t forget(dhowi_lowering *b, const dhowi_subgraph *body) {
    uint32_t nodes = 1;
    for (uint32_t i = 0; i < body->input_count; i++) b->refs[body->inputs[i]] = -1;
    for (uint32_t i = 0; i < body->node_count; i++) {
        const dhowi_node *n = &body->nodes[i];
        for (uint32_t k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0) b->refs[n->out[k]] = -1;
        for (int k = 0; k < 2; k++)
            if (n->branch[k] != NULL) nodes += forget(b, n->branch[k]);
        nodes++;
    }
    return nodes;
}

dhow_status dhowi_enter_body(dhowi_lowering *b, const dhowi_subgraph *body) {
    b->looped_nodes += forget(b, body);
    if (b->looped_nodes <= MAX_LOOPED_NODES) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "its iterations come to more than %d nodes; loops are laid out one iteration "
                      "after the other, so run the model without its outermost loop",
                      MAX_LOOPED_NODES);
}

static bool gather(dhowi_frame *f, int32_t ref) {
    if (!dhowi_room((void **)&f->gathered, f->gathered_count, &f->gathered_capacity,
                    sizeof *f->gathered))
        return false;
    f->gathered[f->gathered_count++] = ref;
    return true;
}

static dhow_status output_of(dhowi_lowering *b, const dhowi_subgraph *body, uint32_t i,
                             int32_t *out) {
    return dhowi_ref_of(b, body->outputs[i], out);
}

/* ---- Loop ---- */

static dhow_status begin_loop(dhowi_lowering *b, dhowi_frame **out) {
    const dhowi_subgraph *body = b->node->branch[0];
    int64_t trips = INT64_MAX, condition = 1;
    const uint32_t carried = b->in_count > 2 ? b->in_count - 2 : 0;
    if (body == NULL || body->input_count != carried + 2 || body->output_count < carried + 1 ||
        body->output_count - 1 < b->out_count)
        DHOWI_REFUSE("its body has %u inputs and %u outputs for %u values that are carried",
                     body != NULL ? body->input_count : 0, body != NULL ? body->output_count : 0,
                     carried);
    if (dhowi_given(b, 0)) DHOWI_TRY(dhowi_one_int(b, b->in[0], "the trip count", &trips));
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_int(b, b->in[1], "the condition", &condition));
    for (uint32_t i = 0; i < carried; i++)
        if (b->in[2 + i] < 0) DHOWI_REFUSE("its input %u is missing", 2 + i);
    DHOWI_TRY(dhowi_open_frame(b, out));
    (*out)->trips = trips;
    (*out)->condition = condition;
    (*out)->in_count = carried;
    if (carried > 0) memcpy((*out)->in, b->in + 2, carried * sizeof *b->in);
    return DHOW_OK;
}

static dhow_status enter_loop(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    const uint8_t condition = f->condition != 0;
    DHOWI_TRY(dhowi_enter_body(b, body));
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 0, NULL, &f->iteration, &b->refs[body->inputs[0]]));
    DHOWI_TRY(dhowi_constant(b, DHOW_BOOL, 0, NULL, &condition, &b->refs[body->inputs[1]]));
    for (uint32_t i = 0; i < f->in_count; i++) b->refs[body->inputs[2 + i]] = f->in[i];
    f->inside = true;
    return DHOW_OK;
}

static dhow_status leave_loop(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    int32_t condition, ref, next[DHOWI_MAX_OUTPUTS_OF_NODE];
    DHOWI_TRY(output_of(b, body, 0, &condition));
    DHOWI_TRY(dhowi_one_int(b, condition, "the condition", &f->condition));
    for (uint32_t i = 0; i < f->in_count; i++) DHOWI_TRY(output_of(b, body, 1 + i, &next[i]));
    for (uint32_t i = 1 + f->in_count; i < body->output_count; i++) {
        DHOWI_TRY(output_of(b, body, i, &ref));
        if (dhowi_kind_of(b, ref) != DHOW_DATUM_TENSOR) DHOWI_REFUSE("it gathers no tensors");
        if (!gather(f, ref)) return dhowi_fail_memory("plan");
    }
    memcpy(f->in, next, f->in_count * sizeof *next);
    f->iteration++;
    f->inside = false;
    return DHOW_OK;
}

/* x with a new dimension of one element, before the others or at a place among them. */
static dhow_status widen(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t shape[DHOW_MAX_RANK + 1], strides[DHOW_MAX_RANK + 1];
    if (item.desc.rank == DHOW_MAX_RANK)
        return dhowi_fail(DHOW_UNSUPPORTED, "more than %d dimensions", DHOW_MAX_RANK);
    for (int32_t i = 0; i <= item.desc.rank; i++) {
        const int32_t from = i < axis ? i : i - 1;
        shape[i] = i == axis ? 1 : item.desc.shape[from];
        strides[i] = i == axis ? 0 : item.strides[from];
    }
    return dhowi_view(b, x, item.desc.rank + 1, shape, strides, item.offset, out);
}

/* The k-th of `each` values of all iterations, joined along a new dimension; `backwards`: from the
 * last one on. */
static dhow_status stack(dhowi_lowering *b, const dhowi_frame *f, uint32_t k, uint32_t each,
                         int64_t axis, bool backwards, int32_t *out) {
    const uint32_t count = each > 0 ? f->gathered_count / each : 0;
    if (count == 0) DHOWI_REFUSE("it does not run once: what it gathers has no shape");
    int32_t *parts = dhowi_alloc_array(count, sizeof *parts);
    if (parts == NULL) return dhowi_fail_memory("plan");
    dhow_status status = DHOW_OK;
    dhowi_tensor_desc wide = *dhowi_desc_at(b, f->gathered[k]);
    int32_t place = 0;
    wide.rank++;
    if (axis != 0) status = dhowi_axis(&wide, axis, &place);
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        const uint32_t from = backwards ? count - 1 - i : i;
        status = widen(b, f->gathered[from * each + k], place, &parts[i]);
    }
    if (status == DHOW_OK) status = dhowi_concat(b, parts, count, place, out);
    dhowi_free(parts);
    return status;
}

dhow_status dhowi_lower_loop(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    const dhowi_subgraph *body = node->branch[0];
    dhowi_frame *f = dhowi_find_frame(b, node);
    if (f == NULL) DHOWI_TRY(begin_loop(b, &f));
    while (f->inside || (f->iteration < f->trips && f->condition != 0)) {
        if (!f->inside) DHOWI_TRY(enter_loop(b, f, body));
        DHOWI_TRY(dhowi_lower_branch(b, body));
        b->node = node;
        DHOWI_TRY(leave_loop(b, f, body));
    }
    int32_t out[DHOWI_MAX_OUTPUTS_OF_NODE];
    const uint32_t each = body->output_count - 1 - f->in_count;
    b->out_count = f->out_count;
    for (uint32_t i = 0; i < b->out_count; i++) {
        out[i] = i < f->in_count ? f->in[i] : -1;
        if (i >= f->in_count && node->out[i] >= 0)
            DHOWI_TRY(stack(b, f, i - f->in_count, each, 0, false, &out[i]));
    }
    memcpy(b->out, out, b->out_count * sizeof *out);
    dhowi_close_frame(b);
    return DHOW_OK;
}

/* ---- loops of as many iterations as there are parts ---- */

typedef dhow_status step_fn(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body);

/* From where the plan stopped on. */
static dhow_status lay_out(dhowi_lowering *b, dhowi_frame *f, step_fn *enter_body,
                           step_fn *leave_body) {
    const dhowi_node *node = b->node;
    const dhowi_subgraph *body = node->branch[0];
    while (f->iteration < f->trips) {
        if (!f->inside) DHOWI_TRY(enter_body(b, f, body));
        DHOWI_TRY(dhowi_lower_branch(b, body));
        b->node = node;
        DHOWI_TRY(leave_body(b, f, body));
    }
    return DHOW_OK;
}

/* ---- Scan ---- */

/* The number of an attribute's list, 0 where it is missing. */
static dhow_status number_at(dhowi_lowering *b, const char *name, uint32_t i, uint32_t of,
                             int64_t *out) {
    uint32_t count;
    const int64_t *list = dhowi_attr_ints(b, name, &count);
    if (count > 0 && count != of) DHOWI_REFUSE("%s has %u numbers for %u", name, count, of);
    *out = count > 0 ? list[i] : 0;
    return DHOW_OK;
}

static dhow_status scanned_axis(dhowi_lowering *b, int32_t x, uint32_t i, uint32_t scanned,
                                int32_t *out) {
    int64_t axis;
    DHOWI_TRY(number_at(b, "scan_input_axes", i, scanned, &axis));
    return dhowi_axis(dhowi_desc_at(b, x), axis, out);
}

static dhow_status direction_of(dhowi_lowering *b, const char *name, uint32_t i, uint32_t of,
                                bool *backwards) {
    int64_t value;
    DHOWI_TRY(number_at(b, name, i, of, &value));
    *backwards = value == 1;
    if (value != 0 && value != 1) DHOWI_REFUSE("%s holds %" PRId64 ", not 0 or 1", name, value);
    return DHOW_OK;
}

/* States that are carried come first, then what is taken apart. */
static dhow_status begin_scan(dhowi_lowering *b, uint32_t scanned, dhowi_frame **out) {
    const dhowi_subgraph *body = b->node->branch[0];
    const uint32_t states = b->in_count - scanned;
    int64_t trips = 0;
    if (body == NULL || body->input_count != b->in_count || body->output_count < states ||
        body->output_count < b->out_count)
        DHOWI_REFUSE("its body has %u inputs and %u outputs for %u states and %u inputs",
                     body != NULL ? body->input_count : 0, body != NULL ? body->output_count : 0,
                     states, scanned);
    for (uint32_t i = 0; i < b->in_count; i++) {
        int32_t axis;
        if (b->in[i] < 0) DHOWI_REFUSE("its input %u is missing", i);
        if (i < states) continue;
        DHOWI_TRY(scanned_axis(b, b->in[i], i - states, scanned, &axis));
        const int64_t extent = dhowi_desc_at(b, b->in[i])->shape[axis];
        if (i > states && extent != trips)
            DHOWI_REFUSE("its input %u has %" PRId64 " parts, another has %" PRId64, i, extent,
                         trips);
        trips = extent;
    }
    DHOWI_TRY(dhowi_open_frame(b, out));
    (*out)->trips = trips;
    (*out)->in_count = b->in_count;
    memcpy((*out)->in, b->in, b->in_count * sizeof *b->in);
    return DHOW_OK;
}

static uint32_t states_of(const dhowi_lowering *b, const dhowi_frame *f) {
    return f->in_count - (uint32_t)dhowi_attr_int(b, "num_scan_inputs", 0);
}

static dhow_status enter_scan(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    const uint32_t states = states_of(b, f), scanned = f->in_count - states;
    DHOWI_TRY(dhowi_enter_body(b, body));
    for (uint32_t i = 0; i < f->in_count; i++) {
        int32_t part = f->in[i], axis;
        bool backwards;
        if (i >= states) {
            DHOWI_TRY(scanned_axis(b, f->in[i], i - states, scanned, &axis));
            DHOWI_TRY(direction_of(b, "scan_input_directions", i - states, scanned, &backwards));
            const int64_t at = backwards ? f->trips - 1 - f->iteration : f->iteration;
            DHOWI_TRY(dhowi_part_of(b, f->in[i], axis, at, &part));
        }
        b->refs[body->inputs[i]] = part;
    }
    f->inside = true;
    return DHOW_OK;
}

static dhow_status leave_scan(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    const uint32_t states = states_of(b, f);
    int32_t next[DHOWI_MAX_OUTPUTS_OF_NODE];
    for (uint32_t i = 0; i < body->output_count; i++) {
        int32_t ref;
        DHOWI_TRY(output_of(b, body, i, &ref));
        if (dhowi_kind_of(b, ref) != DHOW_DATUM_TENSOR) DHOWI_REFUSE("its body gives no tensors");
        if (i < states)
            next[i] = ref;
        else if (!gather(f, ref))
            return dhowi_fail_memory("plan");
    }
    memcpy(f->in, next, states * sizeof *next);
    f->iteration++;
    f->inside = false;
    return DHOW_OK;
}

dhow_status dhowi_lower_scan(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    dhowi_frame *f = dhowi_find_frame(b, node);
    int64_t scanned;
    DHOWI_TRY(dhowi_attr_needed(b, "num_scan_inputs", &scanned));
    if (scanned < 1 || scanned > node->in_count)
        DHOWI_REFUSE("num_scan_inputs is %" PRId64 " of %u inputs", scanned, node->in_count);
    if (f == NULL) DHOWI_TRY(begin_scan(b, (uint32_t)scanned, &f));
    DHOWI_TRY(lay_out(b, f, enter_scan, leave_scan));
    const uint32_t states = states_of(b, f), each = node->branch[0]->output_count - states;
    int32_t out[DHOWI_MAX_OUTPUTS_OF_NODE];
    b->out_count = f->out_count;
    for (uint32_t i = 0; i < b->out_count; i++) {
        int64_t axis;
        bool backwards;
        out[i] = i < states ? f->in[i] : -1;
        if (i < states || node->out[i] < 0) continue;
        DHOWI_TRY(number_at(b, "scan_output_axes", i - states, each, &axis));
        DHOWI_TRY(direction_of(b, "scan_output_directions", i - states, each, &backwards));
        DHOWI_TRY(stack(b, f, i - states, each, axis, backwards, &out[i]));
    }
    memcpy(b->out, out, b->out_count * sizeof *out);
    dhowi_close_frame(b);
    return DHOW_OK;
}

/* ---- SequenceMap ---- */

static dhow_status begin_map(dhowi_lowering *b, dhowi_frame **out) {
    const dhowi_subgraph *body = b->node->branch[0];
    if (body == NULL || body->input_count != b->in_count || body->output_count < b->out_count)
        DHOWI_REFUSE("its body has other inputs or outputs");
    if (dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_SEQUENCE) DHOWI_REFUSE("input 0 is no sequence");
    const uint32_t count = b->items[b->in[0]].count;
    for (uint32_t i = 0; i < b->in_count; i++) {
        if (b->in[i] < 0) DHOWI_REFUSE("its input %u is missing", i);
        if (dhowi_kind_of(b, b->in[i]) == DHOW_DATUM_SEQUENCE && b->items[b->in[i]].count != count)
            DHOWI_REFUSE("its sequences differ in length");
    }
    DHOWI_TRY(dhowi_open_frame(b, out));
    (*out)->trips = count;
    (*out)->in_count = b->in_count;
    memcpy((*out)->in, b->in, b->in_count * sizeof *b->in);
    return DHOW_OK;
}

static dhow_status enter_map(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    DHOWI_TRY(dhowi_enter_body(b, body));
    for (uint32_t i = 0; i < f->in_count; i++) {
        bool sequence = dhowi_kind_of(b, f->in[i]) == DHOW_DATUM_SEQUENCE;
        b->refs[body->inputs[i]] = sequence ? dhowi_elements(b, f->in[i])[f->iteration] : f->in[i];
    }
    f->inside = true;
    return DHOW_OK;
}

static dhow_status leave_map(dhowi_lowering *b, dhowi_frame *f, const dhowi_subgraph *body) {
    int32_t ref;
    for (uint32_t i = 0; i < f->out_count; i++) {
        DHOWI_TRY(output_of(b, body, i, &ref));
        if (!gather(f, ref)) return dhowi_fail_memory("plan");
    }
    f->iteration++;
    f->inside = false;
    return DHOW_OK;
}

dhow_status dhowi_lower_sequence_map(dhowi_lowering *b) {
    dhowi_frame *f = dhowi_find_frame(b, b->node);
    if (f == NULL) DHOWI_TRY(begin_map(b, &f));
    DHOWI_TRY(lay_out(b, f, enter_map, leave_map));
    b->out_count = f->out_count;
    for (uint32_t i = 0; i < f->out_count; i++) {
        int32_t *elements;
        DHOWI_TRY(dhowi_sequence(b, (uint32_t)f->trips, &b->out[i], &elements));
        for (int64_t k = 0; k < f->trips; k++) elements[k] = f->gathered[k * f->out_count + i];
    }
    dhowi_close_frame(b);
    return DHOW_OK;
}

/* The branch is chosen while the plan is made; its nodes are lowered as if they stood here. */
dhow_status dhowi_lower_if(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    const uint32_t out_count = b->out_count;
    int64_t condition;
    DHOWI_TRY(dhowi_one_int(b, b->in[0], "the condition", &condition));
    const dhowi_subgraph *branch = node->branch[condition != 0 ? 0 : 1];
    if (branch == NULL || branch->output_count < out_count || branch->input_count > 0)
        DHOWI_REFUSE("its branch has too few outputs");
    DHOWI_TRY(dhowi_lower_branch(b, branch));
    int32_t refs[DHOWI_MAX_OUTPUTS_OF_NODE];
    for (uint32_t i = 0; i < out_count; i++)
        DHOWI_TRY(dhowi_ref_of(b, branch->outputs[i], &refs[i]));
    b->node = node;
    b->out_count = out_count;
    memcpy(b->out, refs, out_count * sizeof *refs);
    return DHOW_OK;
}
