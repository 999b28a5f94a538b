/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a failing model small: fewer outputs, nodes replaced by inputs of the same shape, constants
 * for inputs; whatever still fails is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"

static bool fails(const model *m, machine *on, char *story) {
    char own[STORY] = "";
    if (run_all_ways(m, on, own) != VERDICT_WRONG) return false;
    memcpy(story, own, STORY);
    return true;
}

/* Takes the smaller one where it fails, too. */
static bool accept(model **m, model *smaller, machine *on, char *story) {
    model_prune(smaller);
    if (!fails(smaller, on, story)) {
        model_free(smaller);
        return false;
    }
    model_free(*m);
    *m = smaller;
    return true;
}

static bool one_output(model **m, machine *on, char *story) {
    for (int i = 0; i < (*m)->graphs[0].output_count && (*m)->graphs[0].output_count > 1; i++) {
        model *smaller = model_copy(*m);
        graph *top = &smaller->graphs[0];
        top->outputs[0] = top->outputs[i];
        top->output_count = 1;
        if (accept(m, smaller, on, story)) return true;
    }
    bool any = false;
    for (int i = (*m)->graphs[0].output_count; i-- > 0 && (*m)->graphs[0].output_count > 1;) {
        model *smaller = model_copy(*m);
        graph *top = &smaller->graphs[0];
        for (int k = i; k + 1 < top->output_count; k++) top->outputs[k] = top->outputs[k + 1];
        top->output_count--;
        any = accept(m, smaller, on, story) || any;
    }
    return any;
}

/* The results of a node become inputs with numbers of their own. */
static bool cut_nodes(model **m, machine *on, char *story) {
    bool any = false;
    for (int i = (*m)->graphs[0].node_count; i-- > 0;) {
        if (i >= (*m)->graphs[0].node_count) continue;
        model *smaller = model_copy(*m);
        graph *top = &smaller->graphs[0];
        node *n = &smaller->nodes[top->nodes[i]];
        dice d = {(uint64_t)i};
        for (int k = 0; k < n->out_count; k++) {
            if (n->out[k] < 0) continue;
            value *v = &smaller->values[n->out[k]];
            v->kind = VALUE_INPUT;
            v->data = malloc(((size_t)value_count(v) + 1) * sizeof(double));
            if (v->data == NULL) abort();
            for (int64_t e = 0; e < value_count(v); e++)
                v->data[e] =
                    is_float(v->dtype) ? (dice_below(&d, 17) - 8) * 0.25 : dice_below(&d, 2);
        }
        for (int k = i; k + 1 < top->node_count; k++) top->nodes[k] = top->nodes[k + 1];
        top->node_count--;
        any = accept(m, smaller, on, story) || any;
    }
    return any;
}

/* A node is passed by where its first input has its result's shape. */
static bool bypass_nodes(model **m, machine *on, char *story) {
    bool any = false;
    for (int i = (*m)->graphs[0].node_count; i-- > 0;) {
        if (i >= (*m)->graphs[0].node_count) continue;
        const node *n = &(*m)->nodes[(*m)->graphs[0].nodes[i]];
        if (n->in_count == 0 || n->in[0] < 0 || n->out_count < 1) continue;
        const value *x = &(*m)->values[n->in[0]], *y = &(*m)->values[n->out[0]];
        if (x->dtype != y->dtype || x->rank != y->rank ||
            memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) != 0)
            continue;
        model *smaller = model_copy(*m);
        const int from = n->out[0], to = n->in[0];
        for (int k = 0; k < smaller->node_count; k++)
            for (int j = 0; j < smaller->nodes[k].in_count; j++)
                if (smaller->nodes[k].in[j] == from) smaller->nodes[k].in[j] = to;
        any = accept(m, smaller, on, story) || any;
    }
    return any;
}

model *model_minimise(model *m, machine *on, char *story) {
    for (int rounds = 0; rounds < 6; rounds++) {
        bool any = one_output(&m, on, story);
        any = cut_nodes(&m, on, story) || any;
        any = bypass_nodes(&m, on, story) || any;
        if (!any) break;
    }
    return m;
}
