/* SPDX-License-Identifier: Apache-2.0
 *
 * All ways of running a model, and what "the same" means: as close to the plain run as that is to
 * one in f64, a few times over.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/optimise.h"
#include "run.h"

/* The plain run, and how far rounding leads it astray by output. */
typedef struct yardstick {
    outcome plain;
    double error[MAX_OUTPUTS], scale[MAX_OUTPUTS];
} yardstick;

static double unit_of(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F64:
            return 1e-12;
        case DHOW_F16:
            return 2e-3;
        case DHOW_BF16:
            return 2e-2;
        default:
            return 4e-6;
    }
}

static void measure(const outcome *wide, yardstick *y) {
    for (int i = 0; i < y->plain.count; i++) {
        y->error[i] = y->scale[i] = 0;
        for (int64_t k = 0; k < y->plain.info[i].count; k++) {
            const double p = y->plain.data[i][k];
            if (isfinite(p)) y->scale[i] = fmax(y->scale[i], fabs(p));
            if (wide->status != DHOW_OK || wide->info[i].count != y->plain.info[i].count) continue;
            const double d = fabs(p - wide->data[i][k]);
            if (isfinite(d)) y->error[i] = fmax(y->error[i], d);
        }
    }
}

/* Results of quarters are exact in any order of sums, but not through transforms of them: what
 * follows where these round, told by the same model with other last places. By both signs: where a
 * sum lies at a jump, one of them leads across it. */
static void measure_shaken(const model *m, const way *plain, yardstick *y) {
    for (int sign = -1; sign <= 1; sign += 2) {
        const double part = sign * 1e-6;
        model *shaken = model_copy(m);
        dice d = {m->seed ^ UINT64_C(0x54a4e)};
        outcome o;
        for (int i = 0; i < shaken->value_count; i++) {
            value *v = &shaken->values[i];
            for (int64_t k = 0; v->data != NULL && v->dtype == m->dtype && k < value_count(v); k++)
                v->data[k] *= 1 + (dice_one_in(&d, 2) ? part : -part);
        }
        run_one_way(shaken, plain, &o);
        for (int i = 0; i < y->plain.count && o.status == DHOW_OK; i++) {
            for (int64_t k = 0; k < y->plain.info[i].count && k < o.info[i].count; k++) {
                const double by = fabs(y->plain.data[i][k] - o.data[i][k]);
                y->error[i] = isfinite(by) ? fmax(y->error[i], by) : INFINITY; /* a pole is near */
            }
        }
        outcome_free(&o);
        model_free(shaken);
    }
}

static double tolerance_of(const yardstick *y, int output, const model *m) {
    if (y->plain.info[output].dtype != m->dtype) return 0;
    return 24 * y->error[output] +
           unit_of(m->half != 0 ? m->half : m->dtype) * (y->scale[output] + 0.1);
}

/* What overflows in one order of sums may stay finite in another; steps that are joined do not
 * round to f16 in between. */
static dhow_dtype computed_in(const model *m) { return m->half != 0 ? m->half : m->dtype; }

static bool fits(double got, double want, double tolerance, dhow_dtype dtype) {
    const bool narrow = dtype == DHOW_F16;
    if (!isfinite(want)) return narrow || !isfinite(got) || fabs(got) > 1e30;
    return fabs(got - want) <= tolerance || (fabs(want) > (narrow ? 1e4 : 1e30) && !isfinite(got));
}

static bool agrees(const yardstick *y, const outcome *o, const int *which, const model *m,
                   const char *name, char *story) {
    if (o->status != DHOW_OK) {
        (void)snprintf(story, STORY, "%s: %.800s", name, o->message);
        return false;
    }
    for (int i = 0; i < y->plain.count; i++) {
        const int at = which != NULL ? which[i] : i;
        const dhow_tensor_info *a = &y->plain.info[i], *b = &o->info[at];
        if (a->dtype != b->dtype || a->rank != b->rank ||
            memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0) {
            (void)snprintf(story, STORY, "%s: output %d (v%d) has another shape or type", name, i,
                           m->graphs[0].outputs[i]);
            return false;
        }
        const double tolerance = tolerance_of(y, i, m);
        for (int64_t k = 0; k < a->count; k++) {
            if (fits(o->data[at][k], y->plain.data[i][k], tolerance,
                     a->dtype == m->dtype ? computed_in(m) : a->dtype))
                continue;
            (void)snprintf(story, STORY,
                           "%s: output %d (v%d), element %lld is %.9g, not %.9g (tolerance %.3g)",
                           name, i, m->graphs[0].outputs[i], (long long)k, o->data[at][k],
                           y->plain.data[i][k], tolerance);
            return false;
        }
    }
    return true;
}

static bool check_way(const yardstick *y, const model *m, const way *w, const int *which,
                      const char *what, char *story) {
    outcome o;
    char name[120];
    (void)snprintf(name, sizeof name, "%s, %s (optimisations %x)", dhow_device_name(w->device),
                   what, (unsigned)w->optimisations);
    run_one_way(m, w, &o);
    const bool same = agrees(y, &o, which, m, name, story);
    outcome_free(&o);
    return same;
}

bool run_with_tolerance(const model *m, const machine *on, outcome *out, double *tolerance) {
    way w = {.device = on->cpu, .dtype = m->dtype, .runs = 1, .batch = -1};
    yardstick y = {.plain = {0}};
    outcome wide;
    run_one_way(m, &w, &y.plain);
    w.dtype = DHOW_F64;
    run_one_way(m, &w, &wide);
    measure(&wide, &y);
    for (int i = 0; i < y.plain.count; i++) tolerance[i] = tolerance_of(&y, i, m);
    outcome_free(&wide);
    outcome_free(&y.plain);
    w.dtype = m->dtype;
    w.optimisations = DHOWI_OPTIMISE_ALL;
    run_one_way(m, &w, out);
    return out->status == DHOW_OK;
}

/* Whether a model that computes in 16 bits gives other types and shapes than in f32, and whether an
 * output is far from that of f32: some random models have sums whose terms are all but equal. */
static bool is_same_kind(const yardstick *y, const model *m, machine *on, char *story) {
    way w = {.device = on->cpu, .dtype = m->dtype, .whole = true, .runs = 1, .batch = -1};
    outcome f32;
    bool far = false, same = true;
    run_one_way(m, &w, &f32);
    for (int i = 0; i < y->plain.count && f32.status == DHOW_OK && same; i++) {
        const dhow_tensor_info *a = &y->plain.info[i], *b = &f32.info[i];
        same = a->dtype == b->dtype && a->rank == b->rank &&
               memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
        if (!same) (void)snprintf(story, STORY, "output %d is of another kind than in f32", i);
        double scale = 0, error = 0;
        for (int64_t k = 0; same && k < a->count; k++) {
            const double p = y->plain.data[i][k], q = f32.data[i][k];
            if (!isfinite(p) || !isfinite(q)) continue;
            scale = fmax(scale, fabs(q));
            error = fmax(error, fabs(p - q));
        }
        far = far || error > 10 * unit_of(m->half) * (scale + 0.1);
    }
    on->far += far;
    outcome_free(&f32);
    return same;
}

/* Further outputs change nothing of the others. */
static bool check_further(const yardstick *y, const model *m, const way *w, char *story) {
    model *more = model_copy(m);
    graph *top = &more->graphs[0];
    dice d = {m->seed ^ UINT64_C(0x5eed)};
    int which[MAX_OUTPUTS], own = top->output_count;
    for (int i = 0; i < more->value_count && top->output_count < MAX_OUTPUTS - 1; i++) {
        const value *v = &more->values[i];
        bool there = v->kind != VALUE_RESULT || v->scope != 0 || !dice_one_in(&d, 4), made = false;
        for (int k = 0; k < own; k++) there = there || top->outputs[k] == i;
        for (int n = 0; n < top->node_count && !there; n++)
            for (int k = 0; k < more->nodes[top->nodes[n]].out_count; k++)
                made = made || more->nodes[top->nodes[n]].out[k] == i;
        if (!there && made) top->outputs[top->output_count++] = i;
    }
    for (int i = 0; i < own; i++) which[i] = i;
    const bool same = check_way(y, more, w, which, "with further outputs", story);
    model_free(more);
    return same;
}

static bool has_open(const model *m) {
    for (int i = 0; i < m->value_count; i++) {
        if (m->values[i].kind == VALUE_INPUT && m->values[i].data != NULL && m->values[i].open[0])
            return true;
    }
    return false;
}

/* With another extent where one is open: plain and optimised must agree, in refusing too. */
static bool check_extents(const model *m, const machine *on, char *story) {
    const int64_t other = 1 + (int64_t)(m->seed % 5);
    way w = {.device = on->cpu, .dtype = m->dtype, .runs = 1, .batch = other};
    yardstick y = {.plain = {0}};
    outcome wide;
    run_one_way(m, &w, &y.plain);
    w.dtype = DHOW_F64;
    run_one_way(m, &w, &wide);
    w.dtype = m->dtype;
    bool same = true;
    if (y.plain.status == DHOW_OK) {
        measure(&wide, &y);
        if (on->shaken) measure_shaken(m, &w, &y);
        w.optimisations = DHOWI_OPTIMISE_ALL;
        w.runs = 2;
        same = check_way(&y, m, &w, NULL, "with other extents", story);
    } else {
        outcome o;
        w.optimisations = DHOWI_OPTIMISE_ALL;
        run_one_way(m, &w, &o);
        if (o.status == DHOW_OK) {
            (void)snprintf(story, STORY,
                           "other extents are refused without optimisations alone: %.800s",
                           y.plain.message);
            same = false;
        }
        outcome_free(&o);
    }
    outcome_free(&y.plain);
    outcome_free(&wide);
    return same;
}

static bool check_cpu(const yardstick *y, const model *m, machine *on, char *story) {
    dice d = {m->seed ^ UINT64_C(0xabcd)};
    way w = {.device = on->cpu,
             .optimisations = DHOWI_OPTIMISE_ALL,
             .dtype = m->dtype,
             .runs = 3,
             .batch = -1};
    if (!check_way(y, m, &w, NULL, "as planned", story)) return false;
    w.runs = 1;
    w.optimisations = DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_VENDOR;
    if (!check_way(y, m, &w, NULL, "without vendor libraries", story)) return false;
    w.optimisations = DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_WIDE;
    if ((m->dtype == DHOW_F16 || m->dtype == DHOW_BF16) &&
        !check_way(y, m, &w, NULL, "in 16 bits", story))
        return false;
    w.optimisations = (uint32_t)dice_next(&d) & DHOWI_OPTIMISE_ALL;
    if (!check_way(y, m, &w, NULL, "with some optimisations", story)) return false;
    w.optimisations = DHOWI_OPTIMISE_ALL;
    if (!check_further(y, m, &w, story)) return false;
    w.shared = true;
    if (!check_way(y, m, &w, NULL, "with outputs in the memory of inputs", story)) return false;
    w.shared = false;
    w.fed = true;
    if (!check_way(y, m, &w, NULL, "with constants fed", story)) return false;
    w.fed = false;
    if (!has_open(m)) return true;
    w.there_and_back = true;
    w.batch = 1 + (int64_t)(m->seed % 5);
    return check_way(y, m, &w, NULL, "there and back", story) && check_extents(m, on, story);
}

void print_blame(const model *m, machine *on) {
    static const char *const names[] = {
#define NAME(name, bit, text) #name,
        DHOWI_OPTIMISATIONS(NAME)
#undef NAME
    };
    char story[STORY];
    way w = {.device = on->cpu, .dtype = m->dtype, .runs = 2, .batch = -1};
    yardstick y = {.plain = {0}};
    outcome wide = {.status = DHOW_INTERNAL};
    run_one_way(m, &w, &y.plain);
    measure(&wide, &y);
    if (on->shaken) measure_shaken(m, &w, &y);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        w.optimisations = DHOWI_OPTIMISE_ALL & ~(1u << i);
        if (check_way(&y, m, &w, NULL, "", story)) printf("  right without %s\n", names[i]);
        w.optimisations = 1u << i;
        if (!check_way(&y, m, &w, NULL, "", story)) printf("  wrong with %s alone\n", names[i]);
    }
    outcome_free(&y.plain);
}

/* Then 16 bits are no reason to refuse it. */
static bool runs_in_f32(const model *m, const machine *on) {
    const way w = {.device = on->cpu, .dtype = m->dtype, .whole = true, .runs = 1, .batch = -1};
    outcome o;
    run_one_way(m, &w, &o);
    const bool ran = o.status == DHOW_OK;
    outcome_free(&o);
    return ran;
}

verdict run_all_ways(const model *m, machine *on, char *story) {
    way w = {.device = on->cpu, .dtype = m->dtype, .runs = 1, .batch = -1};
    yardstick y = {.plain = {0}};
    outcome wide;
    run_one_way(m, &w, &y.plain);
    if (y.plain.status != DHOW_OK) {
        (void)snprintf(story, STORY, "%s", y.plain.message);
        outcome_free(&y.plain);
        return m->half != 0 && runs_in_f32(m, on) ? VERDICT_WRONG : VERDICT_REFUSED;
    }
    w.dtype = DHOW_F64;
    run_one_way(m, &w, &wide);
    measure(&wide, &y);
    outcome_free(&wide);
    w.dtype = m->dtype;
    if (on->shaken) measure_shaken(m, &w, &y);
    bool same = (m->half == 0 || is_same_kind(&y, m, on, story)) && check_cpu(&y, m, on, story);
    for (int i = 0; i < on->device_count && same; i++) {
        w.device = on->devices[i];
        w.optimisations = DHOWI_OPTIMISE_ALL;
        w.runs = 5; /* from the fourth on as a graph, where a device has them */
        same = check_way(&y, m, &w, NULL, "as planned", story);
        w.optimisations &= ~(uint32_t)(DHOWI_OPTIMISE_SHARES | DHOWI_OPTIMISE_MULTIPLIERS);
        w.runs = 1;
        same = same && check_way(&y, m, &w, NULL, "element by element", story);
        w.shared = true;
        same = same && check_way(&y, m, &w, NULL, "with outputs in the memory of inputs", story);
        w.shared = false;
    }
    outcome_free(&y.plain);
    return same ? VERDICT_SAME : VERDICT_WRONG;
}
