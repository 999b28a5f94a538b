/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a convolution of integers: elementwise steps behind it, which may add one more image,
 * and the codes that are made of the result. All of it is done with sums that are still in
 * registers.
 */
#include <math.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "model/codes/codes.h"

enum { MOST_ROWS = 3 + DHOW_CONV_TAIL }; /* one more than there can be */

/* A convolution as it will be. */
typedef struct ending {
    dhowi_step step;
    float *rows; /* [MOST_ROWS][n]: biases, scales, then what the tail has; NULL: computed */
    uint32_t row_count;
    int64_t n;
    bool failed;
} ending;

static void append(ending *e, uint32_t kind, double alpha, double beta) {
    dhowi_sums *s = &e->step.attrs.sums;
    if (s->tail_count == DHOW_CONV_TAIL) {
        e->failed = true;
        return;
    }
    s->tail[s->tail_count++] =
        (dhow_conv_tail){.kind = kind, .alpha = (float)alpha, .beta = (float)beta};
}

/* Whether positive factors may as well come before all that is there: ReLU keeps them. */
static bool is_homogeneous(const dhowi_sums *s) {
    for (uint32_t i = 0; i < s->tail_count; i++)
        if (s->tail[i].kind != DHOW_ACTIVATION_RELU) return false;
    return true;
}

static void append_linear(ending *e, double alpha, double beta) {
    dhowi_sums *s = &e->step.attrs.sums;
    dhow_conv_tail *last = s->tail_count > 0 ? &s->tail[s->tail_count - 1] : NULL;
    e->failed = e->failed || !isfinite((float)alpha) || !isfinite((float)beta);
    if (alpha == 1 && beta == 0) return;
    if (beta == 0 && alpha > 0 && e->rows != NULL && is_homogeneous(s)) {
        for (int64_t k = 0; k < e->n; k++) e->rows[e->n + k] *= (float)alpha;
    } else if (last != NULL && last->kind == DHOW_TAIL_LINEAR) {
        last->alpha *= (float)alpha;
        last->beta = last->beta * (float)alpha + (float)beta;
    } else {
        append(e, DHOW_TAIL_LINEAR, alpha, beta);
    }
}

/* ---- programs ---- */

/* One instruction on v with constants; false for one that has no counterpart. */
static bool append_single(ending *e, const dhowi_program *p, uint32_t word) {
    const double *c = &p->constant[dhowi_word_constant(word)];
    switch ((dhowi_map_op)dhowi_word_op(word)) {
        case DHOWI_MAP_RELU:
            append(e, DHOW_ACTIVATION_RELU, 0, 0);
            return true;
        case DHOWI_MAP_GELU:
            append(e, DHOW_ACTIVATION_GELU, 0, 0);
            return true;
        case DHOWI_MAP_GELU_TANH:
            append(e, DHOW_ACTIVATION_GELU_TANH, 0, 0);
            return true;
        case DHOWI_MAP_SIGMOID:
            append(e, DHOW_ACTIVATION_SIGMOID, 0, 0);
            return true;
        case DHOWI_MAP_TANH:
            append(e, DHOW_ACTIVATION_TANH, 0, 0);
            return true;
        case DHOWI_MAP_SILU:
            append(e, DHOW_ACTIVATION_SILU, 0, 0);
            return true;
        case DHOWI_MAP_HARD_SWISH:
            append(e, DHOW_ACTIVATION_HARD_SWISH, 0, 0);
            return true;
        case DHOWI_MAP_MISH:
            append(e, DHOW_ACTIVATION_MISH, 0, 0);
            return true;
        case DHOWI_MAP_LEAKY:
            append(e, DHOW_ACTIVATION_LEAKY_RELU, c[0], 0);
            return true;
        case DHOWI_MAP_CLIP:
            append(e, DHOW_ACTIVATION_CLIP, c[0], c[1]);
            return true;
        case DHOWI_MAP_HARD_SIGMOID:
            append_linear(e, c[0], c[1]);
            append(e, DHOW_ACTIVATION_CLIP, 0, 1);
            return true;
        case DHOWI_MAP_LINEAR:
            append_linear(e, c[0], c[1]);
            return true;
        case DHOWI_MAP_ROUND:
            append(e, DHOW_TAIL_ROUND, 0, 0);
            return true;
        default:
            return false;
    }
}

static bool append_with_number(ending *e, uint32_t op, double number) {
    switch ((dhowi_map_op)op) {
        case DHOWI_MAP_ADD:
            append_linear(e, 1, number);
            return true;
        case DHOWI_MAP_SUB:
            append_linear(e, 1, -number);
            return true;
        case DHOWI_MAP_MUL:
            append_linear(e, number, 0);
            return true;
        case DHOWI_MAP_DIV:
            append_linear(e, 1 / number, 0);
            return number != 0;
        default:
            return false;
    }
}

/* An image that is added: of codes in their own units, between which v changes. */
static bool append_residual(const dhowi_lowering *b, ending *e, const dhowi_step *q, uint32_t k) {
    const dhowi_item *other = &b->items[q->in[k]];
    const bool coded = other->desc.dtype != DHOW_F32;
    const dhowi_coded *c = &q->attrs.coded;
    const dhowi_tensor_desc *y = &b->items[e->step.out].desc;
    if (e->step.in[3] >= 0 || other->tensor != NULL || other->desc.dtype == DHOW_I32 ||
        (coded && q->op != DHOWI_OP_map_codes) ||
        !dhowi_shape_equal(y->rank, y->shape, other->desc.rank, other->desc.shape) ||
        !dhowi_is_whole(b, q->in[k]))
        return false;
    e->step.in[3] = q->in[k];
    if (!coded) {
        append(e, DHOW_TAIL_RESIDUAL, 0, 0);
        return true;
    }
    append_linear(e, 1 / (double)c->scale[k], -(double)c->zero[k]);
    append(e, DHOW_TAIL_RESIDUAL, 0, 0);
    append(e, DHOW_TAIL_LINEAR, (double)c->scale[k], 0);
    return true;
}

/* Whether an operand is known numbers, one for each channel. */
static bool is_row(const dhowi_lowering *b, const ending *e, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    const dhowi_tensor_desc *y = &b->items[e->step.out].desc;
    if (item->tensor == NULL || item->desc.dtype != DHOW_F32 || item->desc.rank > y->rank ||
        dhowi_count_of(&item->desc) != e->n)
        return false;
    const int32_t channels = e->step.op == DHOWI_OP_conv2d_integer ? 1 : y->rank - 1;
    const int32_t at = channels - (y->rank - item->desc.rank);
    return at >= 0 && item->desc.shape[at] == e->n;
}

/* What operand k of q does to each channel. In front of all it is done to biases and scales. */
static dhow_status append_row(dhowi_lowering *b, ending *e, int32_t ref, dhowi_map_op op) {
    void *data;
    e->failed = e->failed || e->rows == NULL;
    if (e->failed) return DHOW_OK;
    DHOWI_TRY(dhowi_dense(b, ref, &ref));
    DHOWI_TRY(dhowi_known_data(b, ref, &data));
    const float *given = data;
    float *biases = e->rows, *scales = e->rows + e->n;
    float *row = e->rows + (int64_t)e->row_count * e->n;
    const bool multiplies = op == DHOWI_MAP_MUL || op == DHOWI_MAP_DIV;
    dhowi_sums *s = &e->step.attrs.sums;
    for (int64_t k = 0; k < e->n; k++) {
        const float value = op == DHOWI_MAP_DIV   ? 1 / given[k]
                            : op == DHOWI_MAP_SUB ? -given[k]
                                                  : given[k];
        if (s->tail_count > 0)
            row[k] = value;
        else if (multiplies)
            scales[k] *= value;
        else
            biases[k] += value / scales[k];
    }
    if (s->tail_count == 0) return DHOW_OK;
    append(e, multiplies ? DHOW_TAIL_MULTIPLY : DHOW_TAIL_ADD, 0, 0);
    if (!e->failed) s->tail[s->tail_count - 1].row = e->row_count++;
    return DHOW_OK;
}

static bool is_arithmetic(uint32_t op) {
    return op == DHOWI_MAP_ADD || op == DHOWI_MAP_SUB || op == DHOWI_MAP_MUL || op == DHOWI_MAP_DIV;
}

/* One instruction of q, whose operand `own` is what e computes. */
static dhow_status append_word(dhowi_lowering *b, ending *e, const dhowi_step *q, uint32_t own,
                               uint32_t word, bool *fits) {
    const dhowi_program *p = &q->attrs.program;
    const uint32_t op = dhowi_word_op(word), source = dhowi_word_source(word);
    *fits = false;
    if (!dhowi_reads_operand(word)) {
        *fits = append_single(e, p, word);
    } else if (source == DHOWI_MAP_CONSTANT) {
        *fits = append_with_number(e, op, p->constant[dhowi_word_constant(word)]);
    } else if (source < DHOWI_MAP_CONSTANT && source != own) {
        if (is_arithmetic(op) && is_row(b, e, q->in[source])) {
            DHOWI_TRY(append_row(b, e, q->in[source], (dhowi_map_op)op));
            *fits = true;
        } else {
            *fits = op == DHOWI_MAP_ADD && append_residual(b, e, q, source);
        }
    }
    return DHOW_OK;
}

static dhow_status append_program(dhowi_lowering *b, ending *e, const dhowi_step *q, uint32_t own,
                                  bool *fits) {
    const dhowi_program *p = &q->attrs.program;
    const uint32_t loaded = dhowi_word_source(p->word[0]);
    uint32_t first = 1;
    *fits = dhowi_word_op(p->word[0]) == DHOWI_MAP_LOAD;
    if (*fits && loaded != own) { /* other + own */
        *fits = loaded < DHOWI_MAP_CONSTANT && p->words > 1 &&
                dhowi_word_op(p->word[1]) == DHOWI_MAP_ADD &&
                dhowi_word_source(p->word[1]) == own && append_residual(b, e, q, loaded);
        first = 2;
    }
    for (uint32_t i = first; i < p->words && *fits; i++)
        DHOWI_TRY(append_word(b, e, q, own, p->word[i], fits));
    *fits = *fits && !e->failed;
    return DHOW_OK;
}

/* ---- codes ---- */

/* v becomes round(v / scale) + zero; a store rounds by itself. */
static void append_code(ending *e, float scale, int32_t zero) {
    append_linear(e, 1 / (double)scale, 0);
    if (zero == 0) return;
    append(e, DHOW_TAIL_ROUND, 0, 0);
    append(e, DHOW_TAIL_LINEAR, 1, (double)zero);
}

/* The codes that e writes are read as numbers again by the step that is joined to it: what storing
 * them does is done by itself, and undone. */
static void pass_codes(ending *e, dhow_dtype dtype, const dhowi_coded *c, uint32_t own) {
    dhowi_sums *s = &e->step.attrs.sums;
    const double low = dtype == DHOW_U8 ? 0 : -128, high = dtype == DHOW_U8 ? 255 : 127;
    const double zero = (double)c->zero[own];
    const bool shifted = s->tail_count >= 2 && s->tail[s->tail_count - 2].kind == DHOW_TAIL_ROUND &&
                         s->tail[s->tail_count - 1].kind == DHOW_TAIL_LINEAR &&
                         s->tail[s->tail_count - 1].alpha == 1 &&
                         s->tail[s->tail_count - 1].beta == (float)zero;
    if (shifted)
        s->tail_count--;
    else
        append(e, DHOW_TAIL_ROUND, 0, 0);
    append(e, DHOW_ACTIVATION_CLIP, shifted ? low - zero : low, shifted ? high - zero : high);
    append(e, DHOW_TAIL_LINEAR, (double)c->scale[own], shifted ? 0 : -zero * (double)c->scale[own]);
}

/* Room for rows with those that there are; then the rows as the step's. Computed ones stay. */
static dhow_status take_rows(dhowi_lowering *b, ending *e) {
    const dhowi_tensor_desc *desc = &b->items[e->step.in[2]].desc;
    void *from;
    e->n = desc->shape[1];
    e->row_count = (uint32_t)desc->shape[0];
    if (b->items[e->step.in[2]].tensor == NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_known_data(b, e->step.in[2], &from));
    e->rows = dhowi_alloc_array((size_t)(MOST_ROWS * e->n), sizeof *e->rows);
    if (e->rows == NULL) return dhowi_fail_memory("rows of a convolution");
    memcpy(e->rows, from, (size_t)(e->row_count * (uint64_t)e->n) * sizeof *e->rows);
    return DHOW_OK;
}

static dhow_status give_rows(dhowi_lowering *b, ending *e) {
    const dhowi_tensor_desc desc = {.dtype = DHOW_F32, .rank = 2, .shape = {e->row_count, e->n}};
    void *to;
    if (e->rows == NULL) return DHOW_OK;
    for (int64_t k = 0; k < e->n; k++)
        e->failed = e->failed || !isfinite(e->rows[k]) || !isnormal(e->rows[e->n + k]);
    if (e->failed) return DHOW_OK;
    DHOWI_TRY(dhowi_item_known(b, &desc, &e->step.in[2]));
    DHOWI_TRY(dhowi_known_data(b, e->step.in[2], &to));
    memcpy(to, e->rows, (size_t)(e->row_count * (uint64_t)e->n) * sizeof *e->rows);
    return DHOW_OK;
}

/* ---- steps ---- */

/* Which operand of q is what s makes, and nothing else of it; -1. */
static int32_t operand_of(const dhowi_lowering *b, const dhowi_step *s, const dhowi_step *q) {
    int32_t own = -1;
    for (int32_t k = 0; k < DHOWI_MAP_OPERANDS && q->in[k] >= 0; k++) {
        const dhowi_item *item = &b->items[q->in[k]];
        if (item->tensor != NULL || item->buffer != b->items[s->out].buffer) continue;
        if (own >= 0 || !dhowi_same_item(b, q->in[k], s->out)) return -1;
        own = k;
    }
    return own;
}

/* Appends all that q does; e->failed says where that is not possible. */
static dhow_status append_step(dhowi_lowering *b, ending *e, const dhowi_step *q, uint32_t own) {
    const dhow_dtype from = b->items[e->step.out].desc.dtype, to = b->items[q->out].desc.dtype;
    bool fits;
    DHOWI_TRY(take_rows(b, e));
    if (from != DHOW_F32) pass_codes(e, from, &q->attrs.coded, own);
    DHOWI_TRY(append_program(b, e, q, own, &fits));
    e->failed = e->failed || !fits;
    if (to != DHOW_F32)
        append_code(e, q->attrs.coded.scale[DHOWI_MAP_OPERANDS],
                    q->attrs.coded.zero[DHOWI_MAP_OPERANDS]);
    return e->failed ? DHOW_OK : give_rows(b, e);
}

/* The image of a step: of a product its rows are the pixels. */
static dhowi_tensor_desc image_of(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_tensor_desc *x = &b->items[s->in[0]].desc;
    const int64_t terms = b->items[s->in[1]].desc.shape[1];
    return s->op == DHOWI_OP_conv2d_integer
               ? *x
               : dhowi_image_of_rows(x->dtype, dhowi_count_of(x), terms);
}

static dhow_status end_with(dhowi_lowering *b, dhowi_step *s, dhowi_step *q, uint32_t own,
                            bool *changed) {
    const dhowi_tensor_desc image = image_of(b, s);
    ending e = {.step = *s};
    const dhow_status status = append_step(b, &e, q, own);
    dhowi_free(e.rows);
    DHOWI_TRY(status);
    const bool adds = e.step.in[3] >= 0 && !e.step.attrs.sums.zero_given;
    const dhow_dtype residual = adds ? b->items[e.step.in[3]].desc.dtype : DHOW_F32;
    bool taken = false;
    if (!e.failed)
        DHOWI_TRY(dhowi_convolves_integers(b->device, &image, &b->items[s->in[1]].desc,
                                           &e.step.attrs.sums, b->items[q->out].desc.dtype,
                                           adds ? &residual : NULL, &taken));
    if (!taken) return DHOW_OK;
    *s = e.step;
    (void)dhowi_take_over(s, q);
    *changed = true;
    return DHOW_OK;
}

static dhow_status end_sums(const dhowi_finder *f, dhowi_step *s, bool *changed) {
    dhowi_lowering *b = f->b;
    if (s->in[2] < 0 || b->items[s->out].desc.dtype == DHOW_I32 || !dhowi_is_whole(b, s->out))
        return DHOW_OK;
    const int32_t buffer = b->items[s->out].buffer;
    const dhowi_traffic *t = &f->of[buffer];
    if (!DHOWI_GUARD(ended_and_read_again, t->reads == 1) || b->buffers[buffer].external != 0)
        return DHOW_OK;
    dhowi_step *q = &b->steps[t->reader];
    if ((q->op != DHOWI_OP_map && q->op != DHOWI_OP_map_codes) || !dhowi_is_whole(b, q->out) ||
        !dhowi_shape_equal(b->items[q->out].desc.rank, b->items[q->out].desc.shape,
                           b->items[s->out].desc.rank, b->items[s->out].desc.shape))
        return DHOW_OK;
    const int32_t own = operand_of(b, s, q);
    return own >= 0 ? end_with(b, s, q, (uint32_t)own, changed) : DHOW_OK;
}

dhow_status dhowi_end_sums(dhowi_lowering *b, uint32_t first_step, bool *changed) {
    bool any = true;
    while (any) {
        dhowi_finder f;
        any = false;
        dhow_status status = dhowi_finder_begin(&f, b, first_step);
        for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK && !any; i++)
            if (b->steps[i].op == DHOWI_OP_conv2d_integer ||
                b->steps[i].op == DHOWI_OP_matmul_codes)
                status = end_sums(&f, &b->steps[i], &any);
        dhowi_finder_end(&f);
        DHOWI_TRY(status);
        *changed = *changed || any;
    }
    return DHOW_OK;
}
