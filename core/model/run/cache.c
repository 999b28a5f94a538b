/* SPDX-License-Identifier: Apache-2.0
 *
 * The plans of a model. A plan holds the memory and the commands of one run, so each run takes one
 * that no other thread uses, or makes another; weights and what is computed from them alone are the
 * model's and shared. Making a plan writes to the model: one thread at a time does it.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "model/run/run.h"

/* Plans that nobody runs: texts and sounds have another length each time. Some are kept in any
 * case, many while they are small. */
enum { LEAST_PLANS = 8, MOST_PLANS = 64 };
static const uint64_t k_most_bytes = UINT64_C(128) << 20;

/* ---- taking and keeping plans, under the model's mutex ---- */

static bool has_key(const dhowi_model_plan *plan, const dhowi_run_key *key) {
    return plan->key_length == key->length &&
           memcmp(plan->key, key->words, key->length * sizeof *key->words) == 0;
}

/* A plan that nobody runs, for this run alone from now on. The latest used comes first. */
static dhowi_model_plan *take_plan(dhow_model *m, const dhowi_run_key *key) {
    dhowi_model_plan *plan = NULL;
    pthread_mutex_lock(&m->mutex);
    for (dhowi_model_plan **p = &m->plans; *p != NULL && plan == NULL; p = &(*p)->next) {
        if ((*p)->taken || !has_key(*p, key)) continue;
        plan = *p;
        *p = plan->next;
        plan->next = m->plans;
        m->plans = plan;
        plan->taken = true;
        break;
    }
    pthread_mutex_unlock(&m->mutex);
    return plan;
}

/* Takes a plan out of the list; NULL for the oldest that nobody runs. */
static dhowi_model_plan *unlink_plan(dhow_model *m, dhowi_model_plan *wanted) {
    dhowi_model_plan **found = NULL;
    for (dhowi_model_plan **p = &m->plans; *p != NULL; p = &(*p)->next) {
        if (wanted != NULL ? *p == wanted : !(*p)->taken) found = p;
    }
    if (found == NULL) return NULL;
    dhowi_model_plan *plan = *found;
    *found = plan->next;
    return plan;
}

/* What a plan and its run need, about. */
static uint64_t bytes_of(const dhowi_model_plan *plan) {
    const dhowi_lowering *b = &plan->lowering;
    uint64_t bytes = b->item_capacity * sizeof *b->items + b->step_capacity * sizeof *b->steps;
    for (uint32_t i = 0; i < plan->segment_count; i++) bytes += plan->segments[i].arena_bytes;
    return bytes;
}

static bool are_too_many(const dhow_model *m) {
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (const dhowi_model_plan *p = m->plans; p != NULL; p = p->next) {
        if (p->taken) continue;
        count++;
        bytes += bytes_of(p);
    }
    return count > MOST_PLANS || (count > LEAST_PLANS && bytes > k_most_bytes);
}

/* Gives a plan back, or ends it; then the oldest one where there are too many. */
static void leave_plan(dhow_model *m, dhowi_model_plan *plan, bool useful) {
    dhowi_model_plan *ended = NULL;
    pthread_mutex_lock(&m->mutex);
    plan->taken = false;
    if (!useful) ended = unlink_plan(m, plan);
    if (ended == NULL && are_too_many(m)) ended = unlink_plan(m, NULL);
    pthread_mutex_unlock(&m->mutex);
    dhowi_plan_end(ended);
}

static void keep_plan(dhow_model *m, dhowi_model_plan *plan) {
    pthread_mutex_lock(&m->mutex);
    plan->taken = true;
    plan->next = m->plans;
    m->plans = plan;
    m->end_plans = dhowi_plans_end;
    pthread_mutex_unlock(&m->mutex);
}

/* ---- running ---- */

/* Whether the precision that the key holds still is the device's, where the model follows it: a
 * plan made while another thread changed it is of no use to anyone. */
static bool is_of_now(const dhow_model *m, const dhowi_run_key *key) {
    return key->words[0] == (int64_t)dhowi_compute_in(dhowi_model_inside(m), m->device, DHOW_F32);
}

static dhow_status make_plan(dhow_model *m, dhowi_run_io *io, const dhowi_run_key *key) {
    dhowi_model_plan *plan;
    pthread_mutex_lock(&m->making);
    dhow_status status = dhowi_plan_make(m, io, key->words, key->length, &plan);
    pthread_mutex_unlock(&m->making);
    if (status != DHOW_OK) return status;
    keep_plan(m, plan);
    status = dhowi_give_results(m, plan, io);
    leave_plan(m, plan, is_of_now(m, key));
    return status;
}

static dhow_status replay_plan(dhow_model *m, dhowi_run_io *io, dhowi_model_plan *plan,
                               bool *stale) {
    *stale = false;
    dhow_status status = dhowi_plan_replay(m, plan, io, stale);
    if (status == DHOW_OK && !*stale) status = dhowi_give_results(m, plan, io);
    leave_plan(m, plan, !*stale);
    return status;
}

static dhow_status run_by_key(dhow_model *m, dhowi_run_io *io, dhowi_run_key *key) {
    for (uint32_t tries = 0; tries <= m->input_count; tries++) {
        bool stale = false;
        DHOWI_TRY(dhowi_run_key_make(m, io, key));
        dhowi_model_plan *plan = take_plan(m, key);
        if (plan != NULL) {
            dhow_status status = replay_plan(m, io, plan, &stale);
            if (status != DHOW_OK || !stale) return status;
        }
        /* Another input turned out to decide the plan: once more with its values. */
        dhow_status status = make_plan(m, io, key);
        if (status != DHOWI_NEEDS_VALUES) return status;
    }
    return dhowi_fail(DHOW_INTERNAL, "%s: no plan can be made", m->name);
}

/* Counters, as num_batches_tracked, begin with 0. */
static const dhowi_value *first_weight(const dhow_model *m) {
    for (uint32_t i = 0; i < m->parameter_count; i++)
        if (dhowi_is_float(m->values[m->parameters[i]].desc.dtype))
            return &m->values[m->parameters[i]];
    return NULL;
}

/* A program that forgets to load them gets zeros for an answer. */
static void warn_of_parameters(dhow_model *m) {
    if (m->parameters_given || m->file != NULL) return;
    const dhowi_value *first = first_weight(m);
    if (first == NULL) return;
    pthread_mutex_lock(&m->mutex);
    const bool warned = m->warned;
    m->warned = true;
    pthread_mutex_unlock(&m->mutex);
    if (warned) return;
    dhowi_log_line(
        &m->context->log, DHOW_LOG_WARN,
        "a model runs whose %u parameters were never loaded or set, as '%.64s': they hold "
        "what they were made with, mostly zeros; see dhow_model_load_state()",
        m->parameter_count, first->name);
}

dhow_status dhowi_run_planned(dhow_model *m, dhowi_run_io *io) {
    warn_of_parameters(m);
    dhowi_run_key key = {.words = key.room};
    dhow_status status = run_by_key(m, io, &key);
    if (key.words != key.room) dhowi_free(key.words);
    return status;
}
