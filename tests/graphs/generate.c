/* SPDX-License-Identifier: Apache-2.0
 *
 * A model from a seed: families of nodes, one after the other, on what is there.
 */
#include <stddef.h>

#include "gen.h"

static const struct {
    family *make;
    int weight;
} k_families[] = {{elementwise, 10},
                  {chain, 12},
                  {squares, 10},
                  {beside_views, 3},
                  {compare_select, 4},
                  {where_mask, 2},
                  {cast_chain, 2},
                  {clip_shrink, 3},
                  {gelu_written, 10},
                  {silu_written, 4},
                  {hard_swish_written, 4},
                  {halves_turned, 6},
                  {transpose, 5},
                  {reshape, 5},
                  {flatten, 1},
                  {slice, 5},
                  {squeeze, 2},
                  {unsqueeze, 2},
                  {expand, 3},
                  {concat, 5},
                  {split, 4},
                  {tile, 1},
                  {pad, 3},
                  {depth_space, 2},
                  {gather, 3},
                  {gather_elements, 1},
                  {scatter_elements, 1},
                  {gather_nd, 1},
                  {one_hot, 1},
                  {trilu, 1},
                  {shape_arithmetic, 3},
                  {range_fill, 1},
                  {non_zero, 1},
                  {conv, 6},
                  {conv_block, 14},
                  {square_image, 2},
                  {written_image, 3},
                  {conv_line, 3},
                  {conv_volume, 1},
                  {conv_transpose, 2},
                  {batch_norm, 3},
                  {pool, 6},
                  {global_pool, 2},
                  {resize, 4},
                  {reduce, 5},
                  {softmax, 3},
                  {cumsum, 1},
                  {topk, 1},
                  {arg, 1},
                  {matmul, 5},
                  {gemm, 4},
                  {linear_block, 10},
                  {siblings, 4},
                  {einsum, 2},
                  {attention, 5},
                  {attention_of_batches, 3},
                  {attention_node, 4},
                  {cache, 4},
                  {layer_norm, 3},
                  {instance_norm, 1},
                  {group_norm, 1},
                  {norm_written, 11},
                  {lrn, 1},
                  {lp_norm, 1},
                  {if_node, 2},
                  {loop_node, 2},
                  {loop_conv, 1},
                  {lstm, 2},
                  {quantise, 1},
                  {quantised_product, 2},
                  {ranged_product, 2},
                  {quantised_conv, 4},
                  {quantised_chain, 2}};
enum { FAMILIES = sizeof k_families / sizeof k_families[0] };

static family *choose(gen *g) {
    int all = 0;
    for (int i = 0; i < FAMILIES; i++) all += k_families[i].weight;
    int at = below(g, all);
    for (int i = 0; i < FAMILIES; i++) {
        if (at < k_families[i].weight) return k_families[i].make;
        at -= k_families[i].weight;
    }
    return elementwise;
}

/* What nobody reads, and some of what somebody does. */
static void choose_outputs(gen *g) {
    model *m = g->m;
    bool read[MAX_VALUES] = {false};
    for (int i = 0; i < m->node_count; i++)
        for (int k = 0; k < m->nodes[i].in_count; k++)
            if (m->nodes[i].in[k] >= 0) read[m->nodes[i].in[k]] = true;
    graph *top = &m->graphs[0];
    for (int i = m->value_count; i-- > 0;) {
        const value *v = val(g, i);
        if (v->kind != VALUE_RESULT || v->scope != 0 || top->output_count >= MAX_OUTPUTS / 2)
            continue;
        if (!read[i] || one_in(g, 12)) top->outputs[top->output_count++] = i;
    }
}

model *model_generate(uint64_t seed, int nodes, dhow_dtype half) {
    static const dhow_dtype floats[] = {DHOW_F32, DHOW_F32, DHOW_F32, DHOW_F32, DHOW_F32,
                                        DHOW_F32, DHOW_F32, DHOW_F64, DHOW_F16};
    gen g = {.d = {seed}, .last = -1};
    g.m = model_new(seed, floats[below(&g, 9)]);
    if (half != 0) g.m->dtype = DHOW_F32;
    g.m->half = half;
    g.batch = one_in(&g, 25) ? 0 : 1 + below(&g, 4);
    if (seed % 8 == 5) (void)separable(&g);
    if (seed % 8 == 2) (void)shuffled(&g);
    if (seed % 8 == 6) (void)halved(&g);
    if (seed % 8 == 1) (void)normed_sum(&g);
    if (seed % 8 == 3) (void)branches(&g);
    for (int tries = 0; g.m->node_count < nodes && tries < 10 * nodes; tries++) {
        /* A family that does not fit leaves nothing: what it made has no reader. */
        const model *m = g.m;
        if (m->value_count > MAX_VALUES - 60 || m->node_count > MAX_NODES - 40) break;
        (void)choose (&g)(&g);
        if (one_in(&g, 6)) g.last = -1;
    }
    choose_outputs(&g);
    model_prune(g.m);
    return g.m;
}
