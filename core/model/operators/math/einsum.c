/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum: operands are taken in from the left, two at a time, each pair as one batched product of
 * matrices; what only one of them has and nobody needs is summed before. A label that an operand
 * has twice is a view along its diagonal.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/math/math.h"

/* A-Z, a-z, then the dimensions of an ellipsis, counted from the right. */
enum { LETTERS = 52, LABELS = LETTERS + DHOW_MAX_RANK };

typedef struct term {
    int32_t ref, rank;
    int32_t label[DHOW_MAX_RANK]; /* of each dimension, no two alike */
} term;

typedef struct equation {
    const char *at, *end;
    int64_t extent[LABELS];
    uint32_t uses[LABELS]; /* in terms */
    int32_t ellipsis;      /* dimensions of the longest one */
    term terms[DHOWI_MAX_OUTPUTS_OF_NODE];
} equation;

static int32_t label_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    return c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

/* The next label of a term; -1 at its end, -2 for an ellipsis, -3 for what is neither. */
static int32_t next_label(equation *e) {
    while (e->at < e->end && *e->at == ' ') e->at++;
    if (e->at == e->end || *e->at == ',' || *e->at == '-') return -1;
    if (e->end - e->at >= 3 && memcmp(e->at, "...", 3) == 0) {
        e->at += 3;
        return -2;
    }
    int32_t label = label_of(*e->at++);
    return label >= 0 ? label : -3;
}

/* ---- reading ---- */

static int find_label(const term *t, int32_t label) {
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->label[i] == label) return i;
    }
    return -1;
}

static dhow_status set_extent(equation *e, int32_t label, int64_t extent) {
    int64_t *own = &e->extent[label];
    if (*own == -1 || *own == 1) *own = extent;
    if (extent != *own && extent != 1)
        DHOWI_REFUSE("a label has the extents %" PRId64 " and %" PRId64, *own, extent);
    return DHOW_OK;
}

/* Labels of an operand's dimensions, as they are written. */
static dhow_status read_labels(equation *e, int32_t rank, int32_t *labels) {
    const char *begin = e->at;
    int32_t letters = 0, at = 0, label;
    bool ellipsis = false;
    while ((label = next_label(e)) != -1) {
        if (label == -3 || (label == -2 && ellipsis)) DHOWI_REFUSE("its equation is none");
        ellipsis = ellipsis || label == -2;
        letters += label >= 0;
    }
    if (letters > rank || (letters < rank && !ellipsis))
        DHOWI_REFUSE("a term with %d labels for %d dimensions", letters, rank);
    e->at = begin;
    while ((label = next_label(e)) != -1) {
        if (label >= 0) labels[at++] = label;
        for (int32_t i = rank - letters; label == -2 && i > 0; i--) labels[at++] = LABELS - i;
    }
    e->ellipsis = DHOWI_MAX(e->ellipsis, rank - letters);
    return DHOW_OK;
}

/* An operand with its labels; those that come twice become a diagonal. */
static dhow_status read_term(dhowi_lowering *b, equation *e, uint32_t index) {
    const dhowi_item item = b->items[b->in[index]];
    int32_t labels[DHOW_MAX_RANK];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    term *t = &e->terms[index];
    DHOWI_TRY(read_labels(e, item.desc.rank, labels));
    t->rank = 0;
    for (int32_t i = 0; i < item.desc.rank; i++) {
        int at = find_label(t, labels[i]);
        DHOWI_TRY(set_extent(e, labels[i], item.desc.shape[i]));
        if (at >= 0) {
            if (shape[at] != item.desc.shape[i]) DHOWI_REFUSE("a diagonal of a rectangle");
            strides[at] += item.strides[i];
            continue;
        }
        e->uses[labels[i]]++;
        shape[t->rank] = item.desc.shape[i];
        strides[t->rank] = item.strides[i];
        t->label[t->rank++] = labels[i];
    }
    return dhowi_view(b, b->in[index], t->rank, shape, strides, item.offset, &t->ref);
}

/* What comes after the arrow, or else the ellipsis and every label that comes once. */
static dhow_status read_output(equation *e, const uint32_t *letters, term *out) {
    out->rank = 0;
    if (e->at < e->end) {
        int32_t label;
        if (e->end - e->at < 2 || memcmp(e->at, "->", 2) != 0)
            DHOWI_REFUSE("its equation has more terms than there are inputs");
        e->at += 2;
        while ((label = next_label(e)) != -1) {
            const int32_t count = label == -2 ? e->ellipsis : 1;
            for (int32_t i = count; i > 0; i--) {
                const int32_t own = label == -2 ? LABELS - i : label;
                if (own < 0 || out->rank == DHOW_MAX_RANK || e->extent[own] == -1 ||
                    find_label(out, own) >= 0)
                    DHOWI_REFUSE("the result has a label twice, or one that no input has");
                out->label[out->rank++] = own;
            }
        }
        if (e->at < e->end) DHOWI_REFUSE("its equation goes on after the result");
        return DHOW_OK;
    }
    for (int32_t i = LABELS - e->ellipsis; i < LABELS; i++) out->label[out->rank++] = i;
    for (int32_t i = 0; i < LETTERS; i++) {
        if (letters[i] != 1) continue;
        if (out->rank == DHOW_MAX_RANK) DHOWI_REFUSE("more than %d dimensions", DHOW_MAX_RANK);
        out->label[out->rank++] = i;
    }
    return DHOW_OK;
}

/* ---- computing ---- */

/* Sums over the labels that are not kept. */
static dhow_status sum_others(dhowi_lowering *b, term *t, const bool *kept) {
    bool axes[DHOW_MAX_RANK] = {false}, any = false;
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        axes[i] = !kept[t->label[i]];
        any = any || axes[i];
    }
    if (!any) return DHOW_OK;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, t->ref, axes, &t->ref));
    for (int32_t i = 0; i < t->rank; i++) {
        if (axes[i]) continue;
        shape[rank] = dhowi_desc_at(b, t->ref)->shape[i];
        t->label[rank++] = t->label[i];
    }
    t->rank = rank;
    return dhowi_reshape(b, t->ref, rank, shape, &t->ref);
}

/* The dimensions of `order`, with their full extents. */
static dhow_status arrange(dhowi_lowering *b, const equation *e, const term *t,
                           const int32_t *order, int32_t rank, int32_t *out) {
    const dhowi_item item = b->items[t->ref];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        int at = find_label(t, order[i]);
        bool repeats = at < 0 || item.desc.shape[at] == 1;
        shape[i] = e->extent[order[i]];
        strides[i] = repeats ? 0 : item.strides[at];
    }
    return dhowi_view(b, t->ref, rank, shape, strides, item.offset, out);
}

typedef struct groups {
    int32_t batch[DHOW_MAX_RANK], left[DHOW_MAX_RANK], right[DHOW_MAX_RANK], inner[DHOW_MAX_RANK];
    int32_t batches, lefts, rights, inners;
} groups;

static void group(const term *x, const term *y, const bool *kept, groups *g) {
    memset(g, 0, sizeof *g);
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t label = x->label[i];
        if (find_label(y, label) < 0)
            g->left[g->lefts++] = label;
        else if (kept[label])
            g->batch[g->batches++] = label;
        else
            g->inner[g->inners++] = label;
    }
    for (int32_t i = 0; i < y->rank; i++)
        if (find_label(x, y->label[i]) < 0) g->right[g->rights++] = y->label[i];
}

static int64_t extent_of(const equation *e, const int32_t *labels, int32_t count) {
    int64_t product = 1;
    for (int32_t i = 0; i < count; i++) product *= e->extent[labels[i]];
    return product;
}

/* [batch, rows, columns] of a term */
static dhow_status as_matrices(dhowi_lowering *b, const equation *e, const term *t, const groups *g,
                               const int32_t *rows, int32_t row_count, const int32_t *columns,
                               int32_t column_count, int32_t *out) {
    int32_t order[2 * DHOW_MAX_RANK], n = 0;
    if (g->batches + row_count + column_count > DHOW_MAX_RANK)
        DHOWI_REFUSE("more than %d dimensions", DHOW_MAX_RANK);
    for (int32_t i = 0; i < g->batches; i++) order[n++] = g->batch[i];
    for (int32_t i = 0; i < row_count; i++) order[n++] = rows[i];
    for (int32_t i = 0; i < column_count; i++) order[n++] = columns[i];
    DHOWI_TRY(arrange(b, e, t, order, n, out));
    const int64_t shape[] = {extent_of(e, g->batch, g->batches), extent_of(e, rows, row_count),
                             extent_of(e, columns, column_count)};
    return dhowi_reshape(b, *out, 3, shape, out);
}

static dhow_status multiply(dhowi_lowering *b, const equation *e, term *x, term *y,
                            const bool *kept) {
    bool own[LABELS], other[LABELS];
    groups g;
    int32_t p, q;
    for (int32_t i = 0; i < LABELS; i++) {
        own[i] = kept[i] || find_label(y, i) >= 0;
        other[i] = kept[i] || find_label(x, i) >= 0;
    }
    DHOWI_TRY(sum_others(b, x, own));
    DHOWI_TRY(sum_others(b, y, other));
    group(x, y, kept, &g);
    if (g.batches + g.lefts + g.rights > DHOW_MAX_RANK)
        DHOWI_REFUSE("more than %d dimensions in between", DHOW_MAX_RANK);
    DHOWI_TRY(as_matrices(b, e, x, &g, g.left, g.lefts, g.inner, g.inners, &p));
    DHOWI_TRY(as_matrices(b, e, y, &g, g.inner, g.inners, g.right, g.rights, &q));
    DHOWI_TRY(dhowi_product(b, p, q, -1, &x->ref));
    x->rank = 0;
    for (int32_t i = 0; i < g.batches; i++) x->label[x->rank++] = g.batch[i];
    for (int32_t i = 0; i < g.lefts; i++) x->label[x->rank++] = g.left[i];
    for (int32_t i = 0; i < g.rights; i++) x->label[x->rank++] = g.right[i];
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) shape[i] = e->extent[x->label[i]];
    return dhowi_reshape(b, x->ref, x->rank, shape, &x->ref);
}

static dhow_status read_equation(dhowi_lowering *b, equation *e, term *out) {
    uint32_t letters[LETTERS] = {0};
    const dhowi_onnx_attribute *a = dhowi_attr(b, "equation", DHOWI_ATTRIBUTE_STRING);
    if (a == NULL || a->s.data == NULL) DHOWI_REFUSE("it has no equation");
    e->at = a->s.data;
    e->end = a->s.data + a->s.length;
    for (const char *c = e->at; c < e->end && *c != '-'; c++)
        if (label_of(*c) >= 0) letters[label_of(*c)]++;
    for (int32_t i = 0; i < LABELS; i++) e->extent[i] = -1;
    for (uint32_t i = 0; i < b->in_count; i++) {
        if (b->in[i] < 0) DHOWI_REFUSE("input %u is missing", i);
        DHOWI_TRY(read_term(b, e, i));
        bool last = i + 1 == b->in_count;
        if (!last && (e->at == e->end || *e->at++ != ','))
            DHOWI_REFUSE("its equation has fewer terms than there are inputs");
    }
    return read_output(e, letters, out);
}

dhow_status dhowi_lower_einsum(dhowi_lowering *b) {
    equation e = {0};
    term out;
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    DHOWI_TRY(read_equation(b, &e, &out));
    term *x = &e.terms[0];
    for (uint32_t i = 0; i < b->in_count && !dhowi_is_float(dtype) && b->in_count > 1; i++)
        DHOWI_TRY(dhowi_cast_to(b, e.terms[i].ref, DHOW_F64, &e.terms[i].ref));
    for (uint32_t i = 1; i < b->in_count; i++) {
        bool kept[LABELS] = {false};
        for (int32_t k = 0; k < out.rank; k++) kept[out.label[k]] = true;
        for (uint32_t k = i + 1; k < b->in_count; k++)
            for (int32_t d = 0; d < e.terms[k].rank; d++) kept[e.terms[k].label[d]] = true;
        DHOWI_TRY(multiply(b, &e, x, &e.terms[i], kept));
    }
    bool kept[LABELS] = {false};
    for (int32_t k = 0; k < out.rank; k++) kept[out.label[k]] = true;
    DHOWI_TRY(sum_others(b, x, kept));
    DHOWI_TRY(arrange(b, &e, x, out.label, out.rank, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}
