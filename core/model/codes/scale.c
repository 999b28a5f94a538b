/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of codes whose zero point and scale are computed, as DynamicQuantizeLinear has them: the
 * sums of MatMulInteger, less what the zero point adds to them, as f32 times scales plus a bias
 * become one product that does all of it with sums still in registers.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/codes/codes.h"
#include "model/lower/products/products.h"

/* The steps of one. */
typedef struct scaled_product {
    uint32_t sums, shift, map; /* the last goes on with what the product does not do */
    uint32_t own;              /* the map's operand that is the sums */
    int32_t zero;              /* i32[] */
    int32_t scale, bias;       /* f32 for all or each column; -1: no bias */
    uint32_t words;            /* of the map's program that the product does */
    int32_t weight;            /* i8[n, k, 1, 1] */
} scaled_product;

/* ---- recognition ---- */

static bool is_sums_operand(const dhowi_lowering *b, const dhowi_step *q, uint32_t k) {
    if (k >= DHOWI_MAP_OPERANDS) return false;
    const dhowi_tensor_desc *sums = &b->items[q->in[k]].desc, *y = &b->items[q->out].desc;
    return sums->dtype == DHOW_I32 && q->attrs.coded.scale[k] == 1 && q->attrs.coded.zero[k] == 0 &&
           !dhowi_is_used(&q->attrs.program, 1, k) && dhowi_is_whole(b, q->in[k]) &&
           dhowi_shape_equal(sums->rank, sums->shape, y->rank, y->shape);
}

/* The operand of an instruction that is f32 for all or each of n columns; -1. */
static int32_t row_of(const dhowi_lowering *b, const dhowi_step *q, uint32_t at, dhowi_map_op op,
                      int64_t n) {
    const dhowi_program *p = &q->attrs.program;
    if (at >= p->words || dhowi_word_op(p->word[at]) != (uint32_t)op ||
        dhowi_word_source(p->word[at]) >= DHOWI_MAP_CONSTANT)
        return -1;
    const int32_t ref = q->in[dhowi_word_source(p->word[at])];
    const dhowi_tensor_desc *row = &b->items[ref].desc;
    const int64_t count = dhowi_count_of(row);
    const bool by_column = row->rank >= 1 && row->shape[row->rank - 1] == n && count == n;
    return row->dtype == DHOW_F32 && (count == 1 || by_column) ? ref : -1;
}

/* Whether i32 are the sums of the columns of weights, which were made with them. */
static bool are_column_sums(const dhowi_lowering *b, int32_t weights, int32_t sums) {
    const int32_t own = b->items[weights].byte_sums - 1;
    return own >= 0 && b->items[own].tensor == b->items[sums].tensor;
}

/* The step that alone writes an item which one step alone reads; -1. */
static int32_t inner_writer(const dhowi_finder *f, int32_t ref) {
    const int32_t at = dhowi_writer_of(f, ref);
    return at >= 0 &&
                   DHOWI_GUARD(scaled_and_read_again, f->of[f->b->items[ref].buffer].reads == 1) &&
                   dhowi_same_item(f->b, ref, f->b->steps[at].out)
               ? at
               : -1;
}

/* sums - zero columns, with the columns of the weights of these sums */
static bool find_sums(const dhowi_finder *f, int32_t shifted, scaled_product *m) {
    const dhowi_lowering *b = f->b;
    dhowi_form less, times;
    const int32_t shift = inner_writer(f, shifted);
    if (!dhowi_read_form(f, shift, &less) || less.op != DHOWI_MAP_SUB || less.y < 0) return false;
    const int32_t sums = inner_writer(f, less.x);
    if (sums < 0 || b->steps[sums].op != DHOWI_OP_matmul_integer) return false;
    if (!dhowi_read_form(f, dhowi_writer_of(f, less.y), &times) || times.op != DHOWI_MAP_MUL ||
        times.y < 0 || b->items[times.y].tensor == NULL ||
        b->items[times.x].desc.dtype != DHOW_I32 || dhowi_count_of(&b->items[times.x].desc) != 1)
        return false;
    m->sums = (uint32_t)sums;
    m->shift = (uint32_t)shift;
    m->zero = times.x;
    return are_column_sums(b, b->steps[sums].in[1], times.y);
}

/* Whether the device has the product as a convolution of an image with as many pixels as rows. */
static dhow_status is_taken(dhowi_lowering *b, const dhowi_step *s, bool *out) {
    const dhowi_tensor_desc *x = &b->items[s->in[0]].desc, *w = &b->items[s->in[1]].desc;
    const int64_t k = w->shape[0], n = w->shape[1];
    const dhowi_tensor_desc image = dhowi_image_of_rows(x->dtype, dhowi_count_of(x), k);
    const dhowi_tensor_desc weight = {.dtype = DHOW_I8, .rank = 4, .shape = {n, k, 1, 1}};
    const dhowi_sums sums = {.zero_given = true};
    return dhowi_convolves_integers(b->device, &image, &weight, &sums, DHOW_F32, NULL, out);
}

/* The weights as those of a convolution; *fits is false where i8 does not hold them. */
static dhow_status turn_weights(dhowi_lowering *b, int32_t weights, int32_t *out, bool *fits) {
    const int64_t k = b->items[weights].desc.shape[0], n = b->items[weights].desc.shape[1];
    const dhowi_tensor_desc desc = {.dtype = DHOW_I8, .rank = 4, .shape = {n, k, 1, 1}};
    const dhowi_code_weights w = {
        .codes = weights, .zero = -1, .results = n, .terms = k, .columns = true};
    return dhowi_centre_weights(b, &w, &desc, out, fits);
}

static dhow_status find_product(const dhowi_finder *f, uint32_t at, scaled_product *m,
                                bool *found) {
    dhowi_lowering *b = f->b;
    const dhowi_step *q = &b->steps[at];
    const dhowi_program *p = &q->attrs.program;
    *found = false;
    if (q->op != DHOWI_OP_map_codes || dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD) return DHOW_OK;
    *m = (scaled_product){.map = at, .own = dhowi_word_source(p->word[0]), .words = 2};
    if (!is_sums_operand(b, q, m->own)) return DHOW_OK;
    const dhowi_tensor_desc *y = &b->items[q->out].desc;
    const int64_t n = y->rank > 0 ? y->shape[y->rank - 1] : 0;
    m->scale = row_of(b, q, 1, DHOWI_MAP_MUL, n);
    m->bias = row_of(b, q, 2, DHOWI_MAP_ADD, n);
    if (m->scale < 0) return DHOW_OK;
    if (m->bias >= 0 && (!dhowi_is_known(b, m->bias) || !b->items[m->bias].contiguous))
        m->bias = -1;
    if (m->bias >= 0) m->words = 3;
    *found = find_sums(f, q->in[m->own], m);
    if (*found) DHOWI_TRY(is_taken(b, &b->steps[m->sums], found));
    return *found ? turn_weights(b, b->steps[m->sums].in[1], &m->weight, found) : DHOW_OK;
}

/* ---- steps ---- */

/* What is added to sums, 0, what they are multiplied by and the bias, as rows of one value: known
 * factors times the scale plus known numbers. */
static dhow_status make_rows(dhowi_lowering *b, const scaled_product *m, int64_t n, int32_t *out) {
    const int64_t rows = m->bias >= 0 ? 3 : 2,
                  row[] = {1, dhowi_count_of(dhowi_desc_at(b, m->scale))};
    const dhowi_tensor_desc column = {.dtype = DHOW_F32, .rank = 2, .shape = {rows, 1}},
                            all = {.dtype = DHOW_F32, .rank = 2, .shape = {rows, n}};
    dhowi_program p = {0};
    int32_t in[3];
    void *factors, *numbers, *bias;
    DHOWI_TRY(dhowi_item_known(b, &column, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, m->scale, 2, row, &in[1]));
    DHOWI_TRY(dhowi_item_known(b, &all, &in[2]));
    DHOWI_TRY(dhowi_known_data(b, in[0], &factors));
    DHOWI_TRY(dhowi_known_data(b, in[2], &numbers));
    memset(factors, 0, (size_t)rows * sizeof(float));
    memset(numbers, 0, (size_t)(rows * n) * sizeof(float));
    ((float *)factors)[1] = 1;
    if (m->bias >= 0) {
        const bool one = dhowi_count_of(dhowi_desc_at(b, m->bias)) == 1;
        DHOWI_TRY(dhowi_known_data(b, m->bias, &bias));
        for (int64_t j = 0; j < n; j++)
            ((float *)numbers)[2 * n + j] = ((const float *)bias)[one ? 0 : j];
    }
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_MUL, 1);
    (void)dhowi_program_add(&p, DHOWI_MAP_ADD, 2);
    return dhowi_map(b, &p, in, 3, out);
}

/* The map without the instructions that the product does. */
static void leave_rest(dhowi_step *q, const scaled_product *m, int32_t product) {
    dhowi_coded *c = &q->attrs.coded;
    dhowi_program *p = &c->program;
    const uint32_t taken = m->words - 1;
    q->in[m->own] = product;
    memmove(&p->word[1], &p->word[m->words], (p->words - m->words) * sizeof p->word[0]);
    p->words -= taken;
    for (uint32_t k = dhowi_operands_of(q); k-- > 0;) {
        if (k == dhowi_word_source(p->word[0]) || dhowi_is_used(p, 1, k)) continue;
        for (uint32_t i = k; i + 1 < DHOWI_MAP_OPERANDS; i++) {
            c->scale[i] = c->scale[i + 1];
            c->zero[i] = c->zero[i + 1];
        }
        dhowi_drop_operand(q, k);
    }
}

/* The product in place of its sums, and the map where it has more to do. */
static dhow_status emit_product(dhowi_lowering *b, const dhowi_step *s, dhowi_step q,
                                const scaled_product *m) {
    dhowi_tensor_desc desc = b->items[q.out].desc;
    const bool ends =
        q.attrs.program.words == m->words && desc.dtype == DHOW_F32 && dhowi_is_whole(b, q.out);
    dhowi_attrs attrs = {.sums = {.zero_given = true, .tail_count = m->bias >= 0 ? 1 : 0}};
    int32_t in[] = {s->in[0], m->weight, -1, m->zero}, product = q.out;
    attrs.sums.tail[0] = (dhow_conv_tail){.kind = DHOW_TAIL_ADD, .row = 2};
    desc.dtype = DHOW_F32;
    b->node = q.node;
    DHOWI_TRY(make_rows(b, m, desc.shape[desc.rank - 1], &in[2]));
    if (!ends) DHOWI_TRY(dhowi_blank(b, &desc, &product));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_matmul_codes, in, 4, &attrs, product));
    if (ends) return DHOW_OK;
    leave_rest(&q, m, product);
    return dhowi_append_step(b, &q);
}

/* The products of a lowering, in the order of their maps. */
typedef struct products {
    scaled_product *found;
    uint32_t count, capacity;
    dhowi_step *old;
} products;

static dhow_status find_products(dhowi_lowering *b, uint32_t first_step, products *g) {
    dhowi_finder f;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++) {
        bool found = false;
        if (!dhowi_room((void **)&g->found, g->count, &g->capacity, sizeof *g->found))
            status = dhowi_fail_memory("plan");
        else
            status = find_product(&f, i, &g->found[g->count], &found);
        g->count += found ? 1 : 0;
    }
    dhowi_finder_end(&f);
    return status;
}

/* Appends the old steps anew, with products where their maps were. */
static dhow_status put_products(dhowi_lowering *b, uint32_t first_step, products *g) {
    const uint32_t count = b->step_count - first_step;
    uint32_t next = 0;
    g->old = dhowi_alloc_array(count, sizeof *g->old);
    if (g->old == NULL) return dhowi_fail_memory("plan");
    memcpy(g->old, b->steps + first_step, count * sizeof *g->old);
    b->step_count = first_step;
    for (uint32_t i = 0; i < g->count; i++) { /* each product has its own */
        g->found[i].sums -= first_step;
        g->found[i].map -= first_step;
        dhowi_remove_step(&g->old[g->found[i].shift - first_step]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const scaled_product *m = next < g->count ? &g->found[next] : NULL;
        if (m != NULL && m->map == i) {
            DHOWI_TRY(emit_product(b, &g->old[m->sums], g->old[i], m));
            next++;
        } else if (!dhowi_is_removed(&g->old[i])) {
            DHOWI_TRY(dhowi_append_step(b, &g->old[i]));
        }
    }
    return DHOW_OK;
}

dhow_status dhowi_scale_products(dhowi_lowering *b, uint32_t first_step, bool *changed) {
    bool any = false;
    for (uint32_t i = first_step; i < b->step_count; i++)
        any = any || b->steps[i].op == DHOWI_OP_matmul_integer;
    if (!any) return DHOW_OK;
    products g = {0};
    dhow_status status = find_products(b, first_step, &g);
    if (status == DHOW_OK && g.count > 0) status = put_products(b, first_step, &g);
    *changed = *changed || g.count > 0;
    dhowi_free(g.found);
    dhowi_free(g.old);
    return status;
}
