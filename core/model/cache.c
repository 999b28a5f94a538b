/* SPDX-License-Identifier: Apache-2.0
 *
 * The plans of a model. A plan holds the memory and the commands of one run, so each run takes one
 * that no other thread uses, or makes another; weights and what is computed from them alone are the
 * model's and shared. Making a plan writes to the model: one thread at a time does it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "model/plan.h"

enum { MAX_PLANS = 8, KEY_ROOM = 64 };

/* ---- the key: what a plan depends on ---- */

typedef struct run_key {
    int64_t room[KEY_ROOM], *words;
    uint32_t length, capacity;
} run_key;

static bool add_word(run_key *key, int64_t word) {
    if (key->length == key->capacity) {
        int64_t *old = key->words == key->room ? NULL : key->words;
        int64_t *grown = dhowi_realloc_array(old, (size_t)key->capacity * 2, sizeof *grown);
        if (grown == NULL) return false;
        if (old == NULL) memcpy(grown, key->room, sizeof key->room);
        key->words = grown;
        key->capacity *= 2;
    }
    key->words[key->length++] = word;
    return true;
}

static dhow_status add_values(run_key *key, dhow_tensor *t) {
    dhow_tensor *host;
    void *data;
    DHOWI_TRY(dhow_tensor_to(t, t->storage->device->context->cpu, &host));
    dhow_status status = dhow_tensor_host_ptr(host, &data);
    uint64_t bytes = dhowi_tensor_bytes(host);
    for (uint64_t i = 0; status == DHOW_OK && i < bytes; i += sizeof(int64_t)) {
        int64_t word = 0;
        memcpy(&word, (const char *)data + i, DHOWI_MIN(bytes - i, (uint64_t)sizeof word));
        if (!add_word(key, word)) status = dhowi_fail_memory("dhow_model_run");
    }
    dhow_tensor_release(host);
    return status;
}

static dhow_status add_tensor(run_key *key, dhow_tensor *t, bool keyed) {
    bool added = add_word(key, t->rank);
    for (int32_t k = 0; k < t->rank; k++) added = added && add_word(key, t->shape[k]);
    if (!added) return dhowi_fail_memory("dhow_model_run");
    return keyed ? add_values(key, t) : DHOW_OK;
}

static dhow_status add_texts(run_key *key, const dhow_datum *texts) {
    bool added = add_word(key, texts->rank);
    for (int32_t k = 0; k < texts->rank; k++) added = added && add_word(key, texts->shape[k]);
    for (int64_t i = 0; i < texts->count && added; i++) {
        size_t length = strlen(texts->texts[i]);
        added = add_word(key, (int64_t)length);
        for (size_t at = 0; at < length && added; at += sizeof(int64_t)) {
            int64_t word = 0;
            memcpy(&word, texts->texts[i] + at, DHOWI_MIN(length - at, sizeof word));
            added = add_word(key, word);
        }
    }
    return added ? DHOW_OK : dhowi_fail_memory("dhow_model_run_data");
}

static dhow_status add_given(run_key *key, const dhowi_run_io *io, const dhow_datum *given,
                             bool keyed, uint32_t *slot) {
    if (!add_word(key, given->kind) || !add_word(key, given->count))
        return dhowi_fail_memory("dhow_model_run_data");
    if (given->kind == DHOW_DATUM_TEXTS) return add_texts(key, given);
    if (given->kind == DHOW_DATUM_TENSOR) return add_tensor(key, io->inputs[(*slot)++], keyed);
    for (int64_t i = 0; i < given->count; i++)
        DHOWI_TRY(add_given(key, io, given->items[i], keyed, slot));
    return DHOW_OK;
}

static dhow_status make_key(const dhow_model *m, const dhowi_run_io *io, run_key *key) {
    if (key->words != key->room) dhowi_free(key->words);
    key->words = key->room;
    key->capacity = KEY_ROOM;
    key->length = 0;
    (void)add_word(key, (int64_t)dhowi_device_compute(m->device, DHOW_F32));
    for (uint32_t i = 0, slot = 0; i < m->input_count; i++) {
        bool keyed = atomic_load_explicit(&m->values[m->inputs[i]].keyed, memory_order_relaxed);
        DHOWI_TRY(io->values != NULL ? add_given(key, io, io->values[i], keyed, &slot)
                                     : add_tensor(key, io->inputs[i], keyed));
    }
    return DHOW_OK;
}

/* ---- taking and keeping plans, under the model's mutex ---- */

static bool has_key(const dhowi_plan_of_model *plan, const run_key *key) {
    return plan->key_length == key->length &&
           memcmp(plan->key, key->words, key->length * sizeof *key->words) == 0;
}

/* A plan that nobody runs, for this run alone from now on. The latest used comes first. */
static dhowi_plan_of_model *take_plan(dhow_model *m, const run_key *key) {
    dhowi_plan_of_model *plan = NULL;
    pthread_mutex_lock(&m->mutex);
    for (dhowi_plan_of_model **p = &m->plans; *p != NULL && plan == NULL; p = &(*p)->next) {
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
static dhowi_plan_of_model *unlink_plan(dhow_model *m, dhowi_plan_of_model *wanted) {
    dhowi_plan_of_model **found = NULL;
    for (dhowi_plan_of_model **p = &m->plans; *p != NULL; p = &(*p)->next) {
        if (wanted != NULL ? *p == wanted : !(*p)->taken) found = p;
    }
    if (found == NULL) return NULL;
    dhowi_plan_of_model *plan = *found;
    *found = plan->next;
    return plan;
}

/* Gives a plan back, or ends it; then the oldest ones that are too many. */
static void leave_plan(dhow_model *m, dhowi_plan_of_model *plan, bool useful) {
    dhowi_plan_of_model *ended = NULL;
    uint32_t count = 0;
    pthread_mutex_lock(&m->mutex);
    plan->taken = false;
    if (!useful) ended = unlink_plan(m, plan);
    for (const dhowi_plan_of_model *p = m->plans; p != NULL; p = p->next) count += !p->taken;
    if (ended == NULL && count > MAX_PLANS) ended = unlink_plan(m, NULL);
    pthread_mutex_unlock(&m->mutex);
    dhowi_plan_end(ended);
}

static void keep_plan(dhow_model *m, dhowi_plan_of_model *plan) {
    pthread_mutex_lock(&m->mutex);
    plan->taken = true;
    plan->next = m->plans;
    m->plans = plan;
    pthread_mutex_unlock(&m->mutex);
}

/* ---- running ---- */

/* Whether the device is still set to the precision that the key holds: a plan made while another
 * thread changed it is of no use to anyone. */
static bool is_of_now(const dhow_model *m, const run_key *key) {
    return key->words[0] == (int64_t)dhowi_device_compute(m->device, DHOW_F32);
}

static dhow_status make_plan(dhow_model *m, dhowi_run_io *io, const run_key *key) {
    dhowi_plan_of_model *plan;
    pthread_mutex_lock(&m->making);
    dhow_status status = dhowi_plan_make(m, io, key->words, key->length, &plan);
    pthread_mutex_unlock(&m->making);
    if (status != DHOW_OK) return status;
    keep_plan(m, plan);
    status = dhowi_give_results(m, plan, io);
    leave_plan(m, plan, is_of_now(m, key));
    return status;
}

static dhow_status replay_plan(dhow_model *m, dhowi_run_io *io, dhowi_plan_of_model *plan,
                               bool *stale) {
    *stale = false;
    dhow_status status = dhowi_plan_replay(m, plan, io, stale);
    if (status == DHOW_OK && !*stale) status = dhowi_give_results(m, plan, io);
    leave_plan(m, plan, !*stale);
    return status;
}

static dhow_status run_by_key(dhow_model *m, dhowi_run_io *io, run_key *key) {
    for (uint32_t tries = 0; tries <= m->input_count; tries++) {
        bool stale = false;
        DHOWI_TRY(make_key(m, io, key));
        dhowi_plan_of_model *plan = take_plan(m, key);
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

/* A program that forgets to load them gets zeros for an answer. */
static void warn_of_parameters(dhow_model *m) {
    if (m->parameters_given || m->parameter_count == 0 || m->file != NULL) return;
    pthread_mutex_lock(&m->mutex);
    const bool warned = m->warned;
    m->warned = true;
    pthread_mutex_unlock(&m->mutex);
    if (warned) return;
    dhowi_log_line(
        &m->context->log, DHOW_LOG_WARN,
        "a model runs whose %u parameters were never loaded or set, as '%.64s': they hold "
        "what they were made with, mostly zeros; see dhow_model_load_state()",
        m->parameter_count, m->values[m->parameters[0]].name);
}

dhow_status dhowi_run_planned(dhow_model *m, dhowi_run_io *io) {
    warn_of_parameters(m);
    run_key key = {.words = key.room};
    dhow_status status = run_by_key(m, io, &key);
    if (key.words != key.room) dhowi_free(key.words);
    return status;
}

/* ---- who runs, who changes ---- */

/* A stream of the CPU for a run beside others: one stream would let them wait for each other,
 * though each is done when it returns. */
static dhow_status spare_stream(dhow_model *m, dhowi_run_stream *run) {
    pthread_mutex_lock(&m->mutex);
    if (m->spare_count > 0) run->spare = m->spares[--m->spare_count];
    pthread_mutex_unlock(&m->mutex);
    if (run->spare == NULL) DHOWI_TRY(dhow_stream_create(m->device, &run->spare));
    run->stream = run->spare;
    return DHOW_OK;
}

dhow_status dhowi_model_begin_run(dhow_model *m, const char *function, dhow_stream *stream,
                                  dhowi_run_stream *run) {
    *run = (dhowi_run_stream){0};
    pthread_mutex_lock(&m->mutex);
    const bool changing = m->changing, alone = m->running == 0;
    if (!changing) m->running++;
    pthread_mutex_unlock(&m->mutex);
    if (changing)
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: %s is moved or changed by another thread meanwhile; run it before or "
            "after",
            function, m->name);
    dhow_status status = dhowi_stream_resolve(stream, m->device, function, &run->stream);
    const bool apart = status == DHOW_OK && stream == NULL && !alone &&
                       m->device == m->context->cpu && run->stream->recording == NULL;
    dhowi_stop_begin(&run->stop, m);
    if (apart) status = spare_stream(m, run);
    if (status != DHOW_OK) dhowi_model_end_run(m, run);
    return status;
}

void dhowi_model_end_run(dhow_model *m, dhowi_run_stream *run) {
    dhow_stream *left = run->spare;
    dhowi_stop_end(&run->stop);
    pthread_mutex_lock(&m->mutex);
    m->running--;
    if (left != NULL && m->spare_count < DHOWI_SPARE_STREAMS) {
        m->spares[m->spare_count++] = left;
        left = NULL;
    }
    pthread_mutex_unlock(&m->mutex);
    dhow_stream_release(left);
}

static dhow_status refuse_busy(const dhow_model *m, const char *function) {
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s runs or is changed on another thread; wait for that, or take a copy "
                      "with dhow_model_replicate()",
                      function, m->name);
}

dhow_status dhowi_model_begin_change(dhow_model *m, const char *function) {
    pthread_mutex_lock(&m->mutex);
    const bool busy = m->running > 0 || m->changing;
    if (!busy) m->changing = true;
    pthread_mutex_unlock(&m->mutex);
    return busy ? refuse_busy(m, function) : DHOW_OK;
}

dhow_status dhowi_model_check_idle(const dhow_model *model, const char *function) {
    dhow_model *m = (dhow_model *)(uintptr_t)model;
    pthread_mutex_lock(&m->mutex);
    const bool busy = m->running > 0 || m->changing;
    pthread_mutex_unlock(&m->mutex);
    return busy ? refuse_busy(m, function) : DHOW_OK;
}

void dhowi_model_end_change(dhow_model *m) {
    pthread_mutex_lock(&m->mutex);
    m->changing = false;
    pthread_mutex_unlock(&m->mutex);
}
