/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps as what recognises patterns in them reads them: who writes and who reads a buffer, and maps
 * of one operation.
 */
#include "base/memory/alloc.h"
#include "model/passes/fuse.h"

bool dhowi_same_elements(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_item *p = &b->items[x], *q = &b->items[y];
    return p->tensor == NULL && q->tensor == NULL && p->buffer == q->buffer &&
           p->offset == q->offset && p->contiguous && q->contiguous &&
           p->desc.dtype == q->desc.dtype && dhowi_count_of(&p->desc) == dhowi_count_of(&q->desc);
}

bool dhowi_number_of(dhowi_lowering *b, int32_t ref, double *out) {
    uint32_t count;
    return b->items[ref].tensor != NULL && dhowi_count_of(&b->items[ref].desc) == 1 &&
           dhowi_floats(b, ref, out, 1, &count) == DHOW_OK;
}

bool dhowi_read_form(const dhowi_finder *f, int32_t step, dhowi_form *out) {
    if (step < 0 || f->b->steps[step].op != DHOWI_OP_map) return false;
    const dhowi_step *s = &f->b->steps[step];
    const dhowi_program *p = &s->attrs.program;
    const uint32_t first = dhowi_word_source(p->word[0]), second = dhowi_word_source(p->word[1]);
    if (p->words != 2 || dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD || first >= DHOWI_MAP_CONSTANT)
        return false;
    *out = (dhowi_form){.op = dhowi_word_op(p->word[1]), .x = s->in[first], .y = -1};
    switch ((dhowi_map_op)out->op) {
        case DHOWI_MAP_SQUARE:
        case DHOWI_MAP_SQRT:
        case DHOWI_MAP_RECIPROCAL:
            return true;
        case DHOWI_MAP_ADD:
        case DHOWI_MAP_MUL:
        case DHOWI_MAP_SUB:
        case DHOWI_MAP_DIV:
            break;
        default:
            return false;
    }
    if (second == DHOWI_MAP_CONSTANT) {
        out->number = p->constant[dhowi_word_constant(p->word[1])];
        return true;
    }
    if (second > DHOWI_MAP_CONSTANT) return false;
    out->y = s->in[second];
    bool turns = out->op == DHOWI_MAP_ADD || out->op == DHOWI_MAP_MUL;
    if (turns && f->b->items[out->x].tensor != NULL) { /* what is known comes second */
        out->y = out->x;
        out->x = s->in[second];
    }
    if (turns && dhowi_number_of(f->b, out->y, &out->number)) out->y = -1;
    return true;
}

int32_t dhowi_writer_of(const dhowi_finder *f, int32_t ref) {
    const dhowi_item *item = &f->b->items[ref];
    if (item->tensor != NULL) return -1;
    const dhowi_traffic *t = &f->of[item->buffer];
    return t->writes == 1 && f->b->buffers[item->buffer].external == 0 ? t->writer : -1;
}

static void count_step(dhowi_finder *f, uint32_t i) {
    const dhowi_lowering *b = f->b;
    const dhowi_step *s = &b->steps[i];
    const int32_t outs[] = {s->out, s->second};
    for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) {
        if (s->in[k] < 0 || b->items[s->in[k]].tensor != NULL) continue;
        dhowi_traffic *t = &f->of[b->items[s->in[k]].buffer];
        t->reads++;
        t->reader = (int32_t)i;
    }
    for (int k = 0; k < 2; k++) {
        if (outs[k] < 0 || b->items[outs[k]].tensor != NULL) continue;
        dhowi_traffic *t = &f->of[b->items[outs[k]].buffer];
        t->writes++;
        t->writer = (int32_t)i;
    }
}

dhow_status dhowi_finder_begin(dhowi_finder *f, dhowi_lowering *b, uint32_t first_step) {
    f->b = b;
    f->of = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *f->of);
    if (f->of == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = first_step; i < b->step_count; i++)
        if (!dhowi_is_removed(&b->steps[i])) count_step(f, i);
    for (uint32_t i = 0; i < b->result_count; i++) {
        const dhowi_item *item = &b->items[b->results[i]];
        if (item->tensor == NULL) f->of[item->buffer].reads += 2; /* no step's alone */
    }
    for (uint32_t i = 0; i < b->buffer_count; i++) {
        if (b->buffers[i].kept) f->of[i].reads += 2;
    }
    return DHOW_OK;
}

void dhowi_finder_end(dhowi_finder *f) { dhowi_free(f->of); }
