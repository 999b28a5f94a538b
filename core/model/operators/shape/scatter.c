/* SPDX-License-Identifier: Apache-2.0
 *
 * Scattering with a reduction. The index is looked at while the plan is made, and the updates are
 * parted into rounds in which no element comes twice: each round takes the elements, reduces, and
 * puts them back, always in the order of the file.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

enum { MAX_ROUNDS = 4096 };

dhow_status dhowi_scatter_kind(const dhowi_lowering *b, dhowi_map_op *op) {
    static const struct {
        const char *name;
        dhowi_map_op op;
    } kinds[] = {{"none", 0},
                 {"add", DHOWI_MAP_ADD},
                 {"mul", DHOWI_MAP_MUL},
                 {"max", DHOWI_MAP_MAX},
                 {"min", DHOWI_MAP_MIN}};
    for (size_t i = 0; i < DHOWI_COUNT(kinds); i++) {
        if (!dhowi_attr_is(b, "reduction", kinds[i].name, "none")) continue;
        *op = kinds[i].op;
        return DHOW_OK;
    }
    DHOWI_REFUSE("a reduction that is not none, add, mul, max or min");
}

/* One round: y with the chosen rows of the updates reduced into their targets. */
static dhow_status run_round(dhowi_lowering *b, dhowi_map_op op, int32_t updates,
                             const int64_t *chosen, const int64_t *targets, int64_t count,
                             int32_t *y) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, *y);
    int32_t u, old, in[3] = {*y, -1, -1};
    DHOWI_TRY(dhowi_pick(b, updates, 0, chosen, count, &u));
    DHOWI_TRY(dhowi_pick(b, *y, 0, targets, count, &old));
    DHOWI_TRY(dhowi_map_two(b, op, old, u, &in[1]));
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 1, &count, targets, &in[2]));
    const dhowi_attrs attrs = {
        .split = {.n = desc.shape[0], .inner = desc.shape[1], .count = count}};
    DHOWI_TRY(dhowi_blank_of(b, &desc, in, 3, y));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, in, 1, NULL, *y));
    return dhowi_emit_into(b, DHOWI_OP_scatter_rows, in + 1, 2, &attrs, *y);
}

typedef struct rounds {
    int64_t *targets;         /* [count] */
    int64_t *chosen, *places; /* of a round */
    int32_t *turn;            /* [count]: the round of each update */
    int32_t *seen;            /* [rows]: how often a row came */
    int32_t most;
} rounds;

static dhow_status part(rounds *r, int64_t count, int64_t rows) {
    for (int64_t i = 0; i < count; i++) {
        int64_t *t = &r->targets[i];
        if (*t < 0 || *t >= rows) DHOWI_REFUSE("its index leaves the tensor");
        r->turn[i] = r->seen[*t]++;
        r->most = DHOWI_MAX(r->most, r->seen[*t]);
    }
    if (r->most > MAX_ROUNDS)
        return dhowi_fail(DHOW_UNSUPPORTED, "an element comes %d times, dhow takes %d", r->most,
                          MAX_ROUNDS);
    return DHOW_OK;
}

/* `targets` are rows of x, seen as [rows, inner]; updates [count, inner] */
dhow_status dhowi_scatter_reduced(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t updates,
                                  int64_t *targets, int64_t count, int64_t rows, int64_t inner,
                                  int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    const int64_t flat[] = {rows, inner}, lines[] = {count, inner};
    DHOWI_TRY(dhowi_host_room(b, count, 3 * sizeof(int64_t)));
    DHOWI_TRY(dhowi_host_room(b, rows, sizeof(int32_t)));
    DHOWI_TRY(dhowi_reshape(b, x, 2, flat, out));
    DHOWI_TRY(dhowi_reshape(b, updates, 2, lines, &updates));
    rounds r = {.targets = targets};
    r.chosen = dhowi_alloc_array((size_t)count * 2 + 1, sizeof *r.chosen);
    r.turn = dhowi_alloc_array((size_t)count + 1, sizeof *r.turn);
    r.seen = dhowi_alloc_array((size_t)rows + 1, sizeof *r.seen);
    dhow_status status = r.chosen != NULL && r.turn != NULL && r.seen != NULL
                             ? part(&r, count, rows)
                             : dhowi_fail_memory("plan");
    for (int32_t k = 0; k < r.most && status == DHOW_OK; k++) {
        int64_t n = 0;
        r.places = r.chosen + count;
        for (int64_t i = 0; i < count; i++) {
            if (r.turn[i] != k) continue;
            r.chosen[n] = i;
            r.places[n++] = targets[i];
        }
        status = run_round(b, op, updates, r.chosen, r.places, n, out);
    }
    dhowi_free(r.chosen);
    dhowi_free(r.turn);
    dhowi_free(r.seen);
    if (status == DHOW_OK) status = dhowi_reshape(b, *out, desc.rank, desc.shape, out);
    return status;
}
