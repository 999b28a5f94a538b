/* SPDX-License-Identifier: Apache-2.0
 *
 * Forests of decision trees, from the lists of a node's attributes to the nodes of
 * kernels/trees.k: what they ask becomes relations of a value to a threshold, children lie side by
 * side, and no walk can leave the forest or go on for ever.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/shape/shape.h"

/* As in kernels/trees.k. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8, ASKS = 16, FEATURE_SHIFT = 5 };
enum { ANYTHING, IF_LESS, UP_TO };
enum { MOST_NODES = 1 << 29, MOST_FEATURES = 1 << 26 };

typedef struct weight {
    uint32_t leaf; /* number of the node */
    int64_t target;
    double value;
} weight;

typedef struct node {
    double threshold;
    int64_t feature;
    uint32_t yes, no;      /* nodes */
    uint32_t first, count; /* of a leaf: weights */
    int32_t place;         /* in the result, -1 at first */
    uint8_t relations;
    bool leaf, child;
    uint32_t spare; /* ways there, beyond one: of the values of one set */
} node;

typedef struct forest {
    node *nodes;
    uint32_t count, capacity;
    uint32_t *roots, tree_count;
    weight *weights;
    uint32_t weight_count;
    int64_t targets, columns, features;
    int how, asks;
    bool mean, f64;
    uint32_t used; /* of two classes: bits of those that have weights */
} forest;

/* ---- attributes ---- */

/* A list of the node: floats, or a tensor of floats under the name's other form. */
typedef struct numbers {
    const float *floats;
    double *doubles; /* the caller's */
    uint32_t count;
    bool f64;
} numbers;

static double number_at(const numbers *n, uint32_t i) {
    return n->floats != NULL ? (double)n->floats[i] : n->doubles[i];
}

static dhow_status read_tensor(dhowi_lowering *b, const dhowi_onnx_tensor *t, const char *name,
                               bool bytes_wanted, numbers *out) {
    int32_t ref;
    DHOWI_TRY(dhowi_constant_of(b, t, &ref));
    const dhow_dtype dtype = dhowi_desc_at(b, ref)->dtype;
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, ref));
    if (bytes_wanted ? dtype != DHOW_U8 : dtype != DHOW_F64 && dtype != DHOW_F32)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s is of type %s", name, dhow_dtype_name(dtype));
    if (count > MOST_NODES) DHOWI_REFUSE("%s has %" PRId64 " numbers", name, count);
    out->doubles = dhowi_alloc_array((size_t)count + 1, sizeof(double));
    if (out->doubles == NULL) return dhowi_fail_memory("plan");
    out->f64 = dtype == DHOW_F64;
    return dhowi_floats(b, ref, out->doubles, (uint32_t)count, &out->count);
}

/* Missing lists have no numbers. */
static dhow_status read_numbers(dhowi_lowering *b, const char *name, const char *tensor,
                                numbers *out) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, tensor, DHOWI_ATTRIBUTE_TENSOR);
    *out = (numbers){0};
    if (a != NULL && a->tensor != NULL) return read_tensor(b, a->tensor, tensor, false, out);
    if (name != NULL) out->floats = dhowi_ml_floats(b, name, &out->count);
    return DHOW_OK;
}

/* A list with a number for each of `count`; `optional`: or none. */
static dhow_status list_of(dhowi_lowering *b, const char *name, uint32_t count, bool optional,
                           const int64_t **out) {
    uint32_t own;
    *out = dhowi_attr_ints(b, name, &own);
    if (own == count && count > 0) return DHOW_OK;
    if (optional && own == 0) {
        *out = NULL;
        return DHOW_OK;
    }
    DHOWI_REFUSE("%s has %u numbers for %u", name, own, count);
}

/* ---- what a node asks ---- */

static const struct {
    const char *name;
    uint8_t relations;
} k_modes[] = {/* in the order of TreeEnsemble's numbers */
               {"BRANCH_LEQ", LESS | EQUAL},
               {"BRANCH_LT", LESS},
               {"BRANCH_GTE", GREATER | EQUAL},
               {"BRANCH_GT", GREATER},
               {"BRANCH_EQ", EQUAL},
               {"BRANCH_NEQ", LESS | GREATER | UNORDERED}};
enum { MEMBER = 6 };

static dhow_status relations_of(dhowi_slice mode, node *n) {
    n->leaf = dhowi_slice_is(mode, "LEAF");
    for (size_t i = 0; i < DHOWI_COUNT(k_modes) && !n->leaf; i++) {
        if (!dhowi_slice_is(mode, k_modes[i].name)) continue;
        n->relations = k_modes[i].relations;
        return DHOW_OK;
    }
    if (n->leaf) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "unsupported nodes_modes '%.*s'",
                      (int)DHOWI_MIN(mode.length, (size_t)32), mode.data);
}

static dhow_status set_feature(forest *f, node *n, int64_t feature, bool missing) {
    if (missing) n->relations |= UNORDERED;
    if (feature < 0 || feature >= MOST_FEATURES)
        DHOWI_REFUSE("nodes_featureids holds %" PRId64, feature);
    n->feature = feature;
    f->features = DHOWI_MAX(f->features, feature + 1);
    return DHOW_OK;
}

static dhow_status new_node(forest *f, uint32_t *out) {
    if (f->count == MOST_NODES ||
        !dhowi_room((void **)&f->nodes, f->count, &f->capacity, sizeof *f->nodes))
        return dhowi_fail_memory("plan");
    f->nodes[f->count] = (node){.place = -1};
    *out = f->count++;
    return DHOW_OK;
}

/* ---- lists by trees and numbers of nodes: TreeEnsembleRegressor and -Classifier ---- */

typedef struct key {
    int64_t tree, id;
    uint32_t node;
} key;

static int compare_keys(const void *p, const void *q) {
    const key *a = p, *c = q;
    if (a->tree != c->tree) return a->tree < c->tree ? -1 : 1;
    return a->id < c->id ? -1 : a->id > c->id;
}

typedef struct ids {
    key *keys;
    uint32_t count;
} ids;

static dhow_status find_node(const ids *all, int64_t tree, int64_t id, uint32_t *out) {
    const key wanted = {tree, id, 0};
    const key *found = bsearch(&wanted, all->keys, all->count, sizeof wanted, compare_keys);
    if (found == NULL) DHOWI_REFUSE("tree %" PRId64 " has no node %" PRId64, tree, id);
    *out = found->node;
    return DHOW_OK;
}

static dhow_status sort_ids(const int64_t *trees, const int64_t *nodes, ids *all) {
    for (uint32_t i = 0; i < all->count; i++) all->keys[i] = (key){trees[i], nodes[i], i};
    qsort(all->keys, all->count, sizeof *all->keys, compare_keys);
    for (uint32_t i = 1; i < all->count; i++) {
        if (compare_keys(&all->keys[i - 1], &all->keys[i]) == 0)
            DHOWI_REFUSE("tree %" PRId64 " has two nodes %" PRId64, all->keys[i].tree,
                         all->keys[i].id);
    }
    return DHOW_OK;
}

/* A tree begins where no node leads. What else nobody reaches is left out where the first of its
 * nodes in the lists is such a one, as in ONNX Runtime. */
static dhow_status find_roots(forest *f, const int64_t *trees, const ids *all) {
    f->roots = dhowi_alloc_array(all->count, sizeof *f->roots);
    if (f->roots == NULL) return dhowi_fail_memory("plan");
    for (uint32_t begin = 0, end = 0; begin < all->count; begin = end) {
        const int64_t tree = all->keys[begin].tree;
        uint32_t first = UINT32_MAX, roots = 0, root = 0;
        for (; end < all->count && all->keys[end].tree == tree; end++) {
            const uint32_t at = all->keys[end].node;
            first = DHOWI_MIN(first, at);
            if (f->nodes[at].child) continue;
            root = at;
            roots++;
        }
        if (!f->nodes[first].child)
            root = first;
        else if (roots != 1)
            DHOWI_REFUSE("tree %" PRId64 " has %u nodes that none leads to, not one", trees[first],
                         roots);
        f->roots[f->tree_count++] = root;
    }
    return DHOW_OK;
}

static dhow_status read_nodes(dhowi_lowering *b, forest *f, const numbers *values, ids *all) {
    const int64_t *trees, *own, *features, *yes, *no, *missing;
    const dhowi_onnx_attribute *modes = dhowi_attr(b, "nodes_modes", DHOWI_ATTRIBUTE_STRINGS);
    const uint32_t count = modes != NULL ? modes->string_count : 0;
    if (count == 0 || values->count != count)
        DHOWI_REFUSE("nodes_modes has %u texts, nodes_values %u numbers", count, values->count);
    DHOWI_TRY(list_of(b, "nodes_treeids", count, false, &trees));
    DHOWI_TRY(list_of(b, "nodes_nodeids", count, false, &own));
    DHOWI_TRY(list_of(b, "nodes_featureids", count, false, &features));
    DHOWI_TRY(list_of(b, "nodes_truenodeids", count, false, &yes));
    DHOWI_TRY(list_of(b, "nodes_falsenodeids", count, false, &no));
    DHOWI_TRY(list_of(b, "nodes_missing_value_tracks_true", count, true, &missing));
    all->count = count;
    all->keys = dhowi_alloc_array(count, sizeof *all->keys);
    if (all->keys == NULL) return dhowi_fail_memory("plan");
    DHOWI_TRY(sort_ids(trees, own, all));
    for (uint32_t i = 0, at; i < count; i++) {
        DHOWI_TRY(new_node(f, &at));
        DHOWI_TRY(relations_of(modes->strings[i], &f->nodes[at]));
    }
    for (uint32_t i = 0; i < count; i++) {
        node *n = &f->nodes[i];
        if (n->leaf) continue;
        DHOWI_TRY(set_feature(f, n, features[i], missing != NULL && missing[i] != 0));
        DHOWI_TRY(find_node(all, trees[i], yes[i], &n->yes));
        DHOWI_TRY(find_node(all, trees[i], no[i], &n->no));
        n->threshold = number_at(values, i);
        f->nodes[n->yes].child = f->nodes[n->no].child = true;
    }
    return find_roots(f, trees, all);
}

/* Only leaves have weights; those of other nodes are left out, as ONNX Runtime does. */
static dhow_status read_weights(dhowi_lowering *b, forest *f, const char *const names[4],
                                const numbers *values, const ids *all) {
    const int64_t *trees, *nodes, *targets;
    const uint32_t count = values->count;
    DHOWI_TRY(list_of(b, names[0], count, count == 0, &trees));
    DHOWI_TRY(list_of(b, names[1], count, count == 0, &nodes));
    DHOWI_TRY(list_of(b, names[2], count, count == 0, &targets));
    f->weights = dhowi_alloc_array((size_t)count + 1, sizeof *f->weights);
    if (f->weights == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0, leaf; i < count; i++) {
        DHOWI_TRY(find_node(all, trees[i], nodes[i], &leaf));
        if (targets[i] < 0 || targets[i] >= f->targets)
            DHOWI_REFUSE("%s holds %" PRId64 " of %" PRId64, names[2], targets[i], f->targets);
        if (f->nodes[leaf].leaf)
            f->weights[f->weight_count++] = (weight){leaf, targets[i], number_at(values, i)};
    }
    return DHOW_OK;
}

static const char *const k_of_classes[] = {"class_treeids", "class_nodeids", "class_ids",
                                           "class_weights", "class_weights_as_tensor"};
static const char *const k_of_targets[] = {"target_treeids", "target_nodeids", "target_ids",
                                           "target_weights", "target_weights_as_tensor"};

static dhow_status read_by_ids(dhowi_lowering *b, forest *f, bool classifies, numbers *values,
                               numbers *weights, ids *all) {
    const char *const *names = classifies ? k_of_classes : k_of_targets;
    DHOWI_TRY(read_numbers(b, "nodes_values", "nodes_values_as_tensor", values));
    DHOWI_TRY(read_numbers(b, names[3], names[4], weights));
    f->f64 = values->f64 || weights->f64;
    DHOWI_TRY(read_nodes(b, f, values, all));
    return read_weights(b, f, names, weights, all);
}

/* ---- lists by place: TreeEnsemble ---- */

/* A node that asks whether a value is one of `count`: one node for each of them. */
static dhow_status ask_members(forest *f, uint32_t at, const numbers *members, uint32_t *next) {
    const uint8_t missing = f->nodes[at].relations & UNORDERED;
    uint32_t count = 0;
    while (*next + count < members->count && !isnan(number_at(members, *next + count))) count++;
    for (uint32_t i = 0; i < count; i++) {
        f->nodes[at].relations = EQUAL | missing;
        f->nodes[at].threshold = number_at(members, *next + i);
        if (i + 1 == count) break;
        uint32_t more;
        f->nodes[f->nodes[at].yes].spare++;
        DHOWI_TRY(new_node(f, &more));
        f->nodes[more].feature = f->nodes[at].feature;
        f->nodes[more].yes = f->nodes[at].yes;
        f->nodes[more].no = f->nodes[at].no;
        f->nodes[at].no = more;
        at = more;
    }
    *next += count + 1; /* NaN ends a set */
    return DHOW_OK;
}

typedef struct placed {
    numbers splits, modes, weights, members;
} placed;

static dhow_status child_of(uint32_t inner, uint32_t leaves, int64_t id, bool leaf, uint32_t *out) {
    const uint32_t most = leaf ? leaves : inner;
    if (id < 0 || id >= most)
        DHOWI_REFUSE("a node leads to %s %" PRId64 " of %u", leaf ? "leaf" : "node", id, most);
    *out = (uint32_t)id + (leaf ? inner : 0);
    return DHOW_OK;
}

static dhow_status link_nodes(dhowi_lowering *b, forest *f, const placed *p, uint32_t inner) {
    const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *missing;
    const uint32_t leaves = p->weights.count;
    DHOWI_TRY(list_of(b, "nodes_featureids", inner, false, &features));
    DHOWI_TRY(list_of(b, "nodes_truenodeids", inner, false, &yes));
    DHOWI_TRY(list_of(b, "nodes_falsenodeids", inner, false, &no));
    DHOWI_TRY(list_of(b, "nodes_trueleafs", inner, false, &yes_leaf));
    DHOWI_TRY(list_of(b, "nodes_falseleafs", inner, false, &no_leaf));
    DHOWI_TRY(list_of(b, "nodes_missing_value_tracks_true", inner, true, &missing));
    for (uint32_t i = 0, set = 0; i < inner; i++) {
        node *n = &f->nodes[i];
        const double mode = number_at(&p->modes, i);
        if (mode > MEMBER) DHOWI_REFUSE("nodes_modes holds %g", mode);
        n->relations = mode < MEMBER ? k_modes[(int)mode].relations : 0;
        n->threshold = number_at(&p->splits, i);
        DHOWI_TRY(set_feature(f, n, features[i], missing != NULL && missing[i] != 0));
        DHOWI_TRY(child_of(inner, leaves, yes[i], yes_leaf[i] != 0, &n->yes));
        DHOWI_TRY(child_of(inner, leaves, no[i], no_leaf[i] != 0, &n->no));
        if (mode < MEMBER) continue;
        if (set >= p->members.count) DHOWI_REFUSE("membership_values lacks sets");
        DHOWI_TRY(ask_members(f, i, &p->members, &set));
    }
    return DHOW_OK;
}

static dhow_status read_roots(dhowi_lowering *b, forest *f, uint32_t inner) {
    uint32_t count;
    const int64_t *roots = dhowi_attr_ints(b, "tree_roots", &count);
    f->roots = dhowi_alloc_array((size_t)count + 1, sizeof *f->roots);
    if (f->roots == NULL) return dhowi_fail_memory("plan");
    if (count == 0) DHOWI_REFUSE("tree_roots is missing");
    for (uint32_t i = 0; i < count; i++) {
        if (roots[i] < 0 || roots[i] >= inner) DHOWI_REFUSE("tree_roots holds %" PRId64, roots[i]);
        f->roots[f->tree_count++] = (uint32_t)roots[i];
    }
    return DHOW_OK;
}

static dhow_status read_by_place(dhowi_lowering *b, forest *f, placed *p) {
    const int64_t *targets;
    DHOWI_TRY(read_numbers(b, NULL, "nodes_splits", &p->splits));
    const dhowi_onnx_attribute *modes = dhowi_attr(b, "nodes_modes", DHOWI_ATTRIBUTE_TENSOR);
    if (modes == NULL || modes->tensor == NULL) DHOWI_REFUSE("it has no nodes_modes");
    DHOWI_TRY(read_tensor(b, modes->tensor, "nodes_modes", true, &p->modes));
    DHOWI_TRY(read_numbers(b, NULL, "leaf_weights", &p->weights));
    DHOWI_TRY(read_numbers(b, NULL, "membership_values", &p->members));
    const uint32_t inner = p->splits.count, leaves = p->weights.count;
    if (inner == 0 || p->modes.count != inner)
        DHOWI_REFUSE("nodes_modes has %u numbers, nodes_splits %u", p->modes.count, inner);
    f->f64 = p->splits.f64;
    DHOWI_TRY(list_of(b, "leaf_targetids", leaves, false, &targets));
    f->weights = dhowi_alloc_array(leaves, sizeof *f->weights);
    if (f->weights == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0, at; i < inner + leaves; i++) {
        DHOWI_TRY(new_node(f, &at));
        f->nodes[at].leaf = i >= inner;
    }
    for (uint32_t i = 0; i < leaves; i++) {
        if (targets[i] < 0 || targets[i] >= f->targets)
            DHOWI_REFUSE("leaf_targetids holds %" PRId64 " of %" PRId64, targets[i], f->targets);
        f->weights[f->weight_count++] = (weight){inner + i, targets[i], number_at(&p->weights, i)};
    }
    DHOWI_TRY(link_nodes(b, f, p, inner));
    return read_roots(b, f, inner);
}

/* ---- weights ---- */

static int compare_weights(const void *p, const void *q) {
    const weight *a = p, *c = q;
    if (a->leaf != c->leaf) return a->leaf < c->leaf ? -1 : 1;
    return a->target < c->target ? -1 : a->target > c->target;
}

/* Several that a leaf has for one target become one. */
static void group_weights(forest *f) {
    uint32_t count = 0;
    qsort(f->weights, f->weight_count, sizeof *f->weights, compare_weights);
    for (uint32_t i = 0; i < f->weight_count; i++) {
        const weight *w = &f->weights[i];
        weight *last = count > 0 ? &f->weights[count - 1] : NULL;
        if (last != NULL && compare_weights(last, w) == 0) {
            last->value = f->how == 0   ? last->value + w->value
                          : f->how == 1 ? fmin(last->value, w->value)
                                        : fmax(last->value, w->value);
            continue;
        }
        f->weights[count++] = *w;
    }
    f->weight_count = count;
    for (uint32_t i = 0; i < count; i++) {
        node *leaf = &f->nodes[f->weights[i].leaf];
        if (leaf->count++ == 0) leaf->first = i;
    }
}

/* Two classes of which one alone has weights have one score. */
static void drop_other_class(forest *f) {
    for (uint32_t i = 0; i < f->weight_count; i++) f->used |= 1u << f->weights[i].target;
    if (f->used == 3) return;
    f->targets = 1;
    for (uint32_t i = 0; i < f->weight_count; i++) f->weights[i].target = 0;
}

/* ---- places ---- */

typedef struct result {
    int32_t *nodes; /* [count][2] */
    double *thresholds;
    int32_t *numbers; /* of leaves, by their places */
    uint32_t *leaves; /* the node that each is */
    uint32_t count, leaf_count;
    bool dense;
} result;

typedef struct walk {
    uint32_t node;
    int32_t place;
} walk;

/* From a root on; the stack has room for all nodes. Leaves are numbered. */
static dhow_status place_tree(forest *f, uint32_t tree, result *r, walk *stack) {
    uint32_t height = 0;
    stack[height++] = (walk){f->roots[tree], (int32_t)tree};
    while (height > 0) {
        const walk w = stack[--height];
        node *n = &f->nodes[w.node];
        int32_t *to = &r->nodes[2 * w.place];
        const bool again = n->place >= 0;
        if (n->leaf) {
            to[0] = 0;
            to[1] = w.place - 1;
            r->numbers[w.place] = (int32_t)r->leaf_count;
            r->leaves[r->leaf_count++] = w.node;
            continue;
        }
        if (again && n->spare == 0)
            DHOWI_REFUSE("two ways lead to node %u of the lists: that is no tree", w.node);
        if (again) { /* always on to where it is */
            n->spare--;
            to[0] = ASKS | LESS | EQUAL | GREATER | UNORDERED;
            to[1] = n->place;
            continue;
        }
        n->place = w.place;
        to[0] = (int32_t)(n->feature << FEATURE_SHIFT) | ASKS | n->relations;
        to[1] = (int32_t)r->count;
        r->thresholds[w.place] = n->threshold;
        stack[height++] = (walk){n->no, (int32_t)r->count + 1};
        stack[height++] = (walk){n->yes, (int32_t)r->count};
        r->count += 2;
    }
    return DHOW_OK;
}

/* Leaves of one weight each have it beside them. */
static void put_weights(const forest *f, result *r) {
    for (uint32_t at = 0; at < r->count; at++) {
        if ((r->nodes[2 * at] & ASKS) != 0) continue;
        const weight *w = &f->weights[f->nodes[r->leaves[r->numbers[at]]].first];
        r->numbers[at] = (int32_t)w->target;
        r->thresholds[at] = w->value;
    }
}

/* Whether each row reaches a leaf with a weight for a target: in some tree all leaves have one.
 * `seen` has as many places as there are targets. */
static bool meets_all(const forest *f, const result *r, const uint32_t *ends, int64_t *seen,
                      bool *met) {
    uint32_t leaf = 0;
    memset(met, 0, (size_t)f->targets * sizeof *met);
    for (uint32_t tree = 0; tree < f->tree_count; tree++) {
        const int64_t own = (int64_t)ends[tree] - (int64_t)leaf;
        memset(seen, 0, (size_t)f->targets * sizeof *seen);
        for (; leaf < ends[tree]; leaf++) {
            const node *n = &f->nodes[r->leaves[leaf]];
            for (uint32_t i = 0; i < n->count; i++) {
                const int64_t target = f->weights[n->first + i].target;
                if (++seen[target] == own) met[target] = true;
            }
        }
    }
    for (int64_t i = 0; i < f->targets; i++)
        if (!met[i]) return false;
    return true;
}

/* ---- results ---- */

static dhow_status give_floats(dhowi_lowering *b, bool f64, int32_t rank, const int64_t *shape,
                               double *values, int32_t *out) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    if (f64) return dhowi_constant(b, DHOW_F64, rank, shape, values, out);
    for (int64_t i = 0; i < count; i++) { /* in place */
        const float value = (float)values[i];
        memcpy((char *)values + (size_t)i * sizeof value, &value, sizeof value);
    }
    return dhowi_constant(b, DHOW_F32, rank, shape, values, out);
}

static dhow_status give_weights(dhowi_lowering *b, const forest *f, const result *r) {
    const int64_t shape[] = {r->leaf_count, r->dense ? f->columns : 0};
    const double none = f->how == 0 ? 0 : f->how == 1 ? (double)INFINITY : -(double)INFINITY;
    int64_t count;
    if (!dhowi_mul_i64(shape[0], shape[1], &count)) DHOWI_REFUSE("too many weights");
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(double)));
    double *all = dhowi_alloc_array((size_t)count + 1, sizeof *all);
    if (all == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++) all[i] = none;
    for (int64_t leaf = 0; leaf < shape[0] && r->dense; leaf++) {
        const node *n = &f->nodes[r->leaves[leaf]];
        for (uint32_t i = 0; i < n->count; i++) {
            const weight *w = &f->weights[n->first + i];
            all[leaf * f->columns + w->target] = w->value;
            if (f->columns > f->targets) all[leaf * f->columns + f->targets + w->target] = 1;
        }
    }
    const dhow_status status = give_floats(b, f->f64, 2, shape, all, &b->out[DHOWI_FOREST_WEIGHTS]);
    dhowi_free(all);
    return status;
}

static dhow_status give_facts(dhowi_lowering *b, const forest *f) {
    int64_t facts[DHOWI_FOREST_FACT_COUNT] = {
        [DHOWI_FOREST_TREES] = f->tree_count, [DHOWI_FOREST_FEATURES] = f->features,
        [DHOWI_FOREST_TARGETS] = f->targets,  [DHOWI_FOREST_COLUMNS] = f->columns,
        [DHOWI_FOREST_HOW] = f->how,          [DHOWI_FOREST_ASKS] = f->asks,
        [DHOWI_FOREST_MEAN] = f->mean,        [DHOWI_FOREST_USED] = f->used,
        [DHOWI_FOREST_POSITIVE] = 1};
    const int64_t count = DHOWI_FOREST_FACT_COUNT;
    for (uint32_t i = 0; i < f->weight_count; i++) {
        const weight *w = &f->weights[i];
        if (w->value < 0) facts[DHOWI_FOREST_POSITIVE] = 0;
    }
    return dhowi_constant(b, DHOW_I64, 1, &count, facts, &b->out[DHOWI_FOREST_FACTS]);
}

/* Nodes that ask whether a value is greater ask whether it is not: then all may ask one thing. */
static void ask_alike(forest *f) {
    uint8_t seen = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        node *n = &f->nodes[i];
        if (n->leaf) continue;
        if ((n->relations & (LESS | GREATER)) == GREATER) {
            const uint32_t yes = n->yes;
            n->relations ^= LESS | EQUAL | GREATER | UNORDERED;
            n->yes = n->no;
            n->no = yes;
        }
        seen |= (uint8_t)(1u << (n->relations & (LESS | EQUAL | GREATER)));
    }
    f->asks = seen == 1u << LESS ? IF_LESS : seen == 1u << (LESS | EQUAL) ? UP_TO : ANYTHING;
}

typedef struct room {
    walk *stack;
    uint32_t *ends;
    int64_t *seen;
    bool *met;
} room;

static dhow_status place_all(forest *f, result *r, const room *m) {
    r->count = f->tree_count;
    for (uint32_t tree = 0; tree < f->tree_count; tree++) {
        DHOWI_TRY(place_tree(f, tree, r, m->stack));
        m->ends[tree] = r->leaf_count;
    }
    for (uint32_t i = 0; i < r->leaf_count; i++) r->dense |= f->nodes[r->leaves[i]].count != 1;
    const bool marked = !meets_all(f, r, m->ends, m->seen, m->met);
    f->columns = marked ? 2 * f->targets : f->targets;
    r->dense |= marked;
    if (!r->dense) put_weights(f, r);
    return DHOW_OK;
}

static dhow_status give(dhowi_lowering *b, const forest *f, const result *r) {
    const int64_t shape[] = {r->count, 2};
    DHOWI_TRY(give_weights(b, f, r));
    DHOWI_TRY(dhowi_constant(b, DHOW_I32, 2, shape, r->nodes, &b->out[DHOWI_FOREST_NODES]));
    DHOWI_TRY(dhowi_constant(b, DHOW_I32, 1, shape, r->numbers, &b->out[DHOWI_FOREST_LEAVES]));
    DHOWI_TRY(give_floats(b, f->f64, 1, shape, r->thresholds, &b->out[DHOWI_FOREST_THRESHOLDS]));
    return give_facts(b, f);
}

static dhow_status plant(dhowi_lowering *b, forest *f) {
    const size_t places = (size_t)f->tree_count + 2 * (size_t)f->count;
    result r = {.nodes = dhowi_alloc_array(places, 2 * sizeof *r.nodes),
                .thresholds = dhowi_alloc_array(places, sizeof *r.thresholds),
                .numbers = dhowi_alloc_array(places, sizeof *r.numbers),
                .leaves = dhowi_alloc_array(places, sizeof *r.leaves)};
    const room m = {.stack = dhowi_alloc_array((size_t)f->count + 1, sizeof *m.stack),
                    .ends = dhowi_alloc_array((size_t)f->tree_count + 1, sizeof *m.ends),
                    .seen = dhowi_alloc_array((size_t)f->targets, sizeof *m.seen),
                    .met = dhowi_alloc_array((size_t)f->targets, sizeof *m.met)};
    dhow_status status = DHOW_OK;
    if (r.nodes == NULL || r.thresholds == NULL || r.numbers == NULL || r.leaves == NULL ||
        m.stack == NULL || m.ends == NULL || m.seen == NULL || m.met == NULL)
        status = dhowi_fail_memory("plan");
    if (status == DHOW_OK) {
        memset(r.thresholds, 0, places * sizeof *r.thresholds);
        memset(r.numbers, 0, places * sizeof *r.numbers);
    }
    ask_alike(f);
    if (status == DHOW_OK) group_weights(f);
    if (status == DHOW_OK) status = place_all(f, &r, &m);
    if (status == DHOW_OK) status = give(b, f, &r);
    void *const all[] = {r.nodes, r.thresholds, r.numbers, r.leaves,
                         m.stack, m.ends,       m.seen,    m.met};
    for (size_t i = 0; i < DHOWI_COUNT(all); i++) dhowi_free(all[i]);
    return status;
}

/* ---- the operator ---- */

static const char *const k_joins[] = {"SUM", "AVERAGE", "MIN", "MAX"};

static dhow_status how_of(const dhowi_lowering *b, bool by_number, forest *f) {
    int64_t how = by_number ? dhowi_attr_int(b, "aggregate_function", 1) : -1;
    /* TreeEnsemble counts the mean first. */
    if (by_number && (how == 0 || how == 1)) how = 1 - how;
    for (int64_t i = 0; i < 4 && !by_number; i++)
        if (dhowi_attr_is(b, "aggregate_function", k_joins[i], "SUM")) how = i;
    if (by_number && (how < 0 || how > 3))
        DHOWI_REFUSE("aggregate_function is %" PRId64 ", not 0 to 3", how);
    if (how < 0) return dhowi_refuse_text(b, "aggregate_function");
    f->mean = how == 1;
    f->how = how < 2 ? 0 : (int)how - 1;
    return DHOW_OK;
}

static dhow_status targets_of(dhowi_lowering *b, bool classifies, forest *f) {
    dhowi_ml_labels labels;
    f->targets = dhowi_attr_int(b, "n_targets", 1);
    if (classifies) {
        DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
        f->targets = labels.count;
    }
    if (f->targets < 1 || f->targets > MOST_FEATURES)
        DHOWI_REFUSE("it has %" PRId64 " %s", f->targets, classifies ? "class labels" : "targets");
    return DHOW_OK;
}

static dhow_status lower_forest(dhowi_lowering *b) {
    const dhowi_slice op = b->node->source->op;
    const bool by_place = dhowi_slice_is(op, "TreeEnsemble");
    const bool classifies = dhowi_slice_is(op, "TreeEnsembleClassifier");
    forest f = {0};
    numbers values = {0}, weights = {0};
    placed p = {0};
    ids all = {0};
    dhow_status status = how_of(b, by_place, &f);
    if (status == DHOW_OK) status = targets_of(b, classifies, &f);
    if (status == DHOW_OK)
        status = by_place ? read_by_place(b, &f, &p)
                          : read_by_ids(b, &f, classifies, &values, &weights, &all);
    if (status == DHOW_OK && classifies && f.targets == 2) drop_other_class(&f);
    if (status == DHOW_OK) status = plant(b, &f);
    double *const lists[] = {values.doubles,  weights.doubles,   p.splits.doubles,
                             p.modes.doubles, p.weights.doubles, p.members.doubles};
    for (size_t i = 0; i < DHOWI_COUNT(lists); i++) dhowi_free(lists[i]);
    dhowi_free(all.keys);
    dhowi_free(f.nodes);
    dhowi_free(f.roots);
    dhowi_free(f.weights);
    return status;
}

const dhowi_operator dhowi_ml_forest = {
    .name = DHOWI_ML "::forest", .since = 1, .until = INT32_MAX, .lower = lower_forest};
