/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0: divides rows among the ranks as dhow_parallel divides them among devices. While its own
 * devices compute on a thread, it drives the transfers to and from all others.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"

/* Rows of an input or output, in its memory. */
static dhow_status rows_of(dhow_tensor *t, int64_t begin, int64_t rows, message_tensor *out,
                           void **out_data) {
    void *data;
    TRY(mpi_describe(t, out, &data));
    uint64_t row_bytes = out->shape[0] > 0 ? out->bytes / (uint64_t)out->shape[0] : 0;
    *out_data = (char *)data + row_bytes * (uint64_t)begin;
    out->shape[0] = rows;
    out->bytes = row_bytes * (uint64_t)rows;
    return DHOW_OK;
}

/* The whole output, made when the first rows of it are known. */
static dhow_status room_for(dhow_mpi *m, uint32_t i, const message_tensor *part,
                            int64_t part_rows) {
    message_tensor whole = *part;
    void *data;
    if (part->rank < 1 || part->shape[0] != part_rows) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "output %u has not a row for each of the %" PRId64
                              " rows of the inputs, so it cannot be gathered",
                              i, part_rows);
    }
    whole.shape[0] = m->rows;
    if (m->outputs[i] == NULL) return mpi_make(m, &whole, &m->outputs[i], &data);
    message_tensor there;
    TRY(mpi_describe(m->outputs[i], &there, &data));
    if (there.dtype == whole.dtype && there.rank == whole.rank &&
        memcmp(there.shape, whole.shape, sizeof there.shape) == 0)
        return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT,
                          "output %u has another shape or dtype than the results", i);
}

static void fail_member(member *p, dhow_status status) {
    p->state = MEMBER_DONE;
    p->status = status;
    (void)snprintf(p->text, sizeof p->text, "%s", dhow_last_error());
    wire_end(&p->sent);
    wire_end(&p->received);
}

static dhow_status ask(dhow_mpi *m, int rank, member *p) {
    p->sent = (wire_transfer){.wire = &m->wire, .peer = rank};
    p->received = p->sent;
    p->asked =
        (message){.magic = MESSAGE_MAGIC, .kind = MESSAGE_RUN, .tensor_count = m->input_count};
    void *data[DHOW_MAX_COLUMNS];
    for (uint32_t i = 0; i < m->input_count; i++)
        TRY(rows_of(m->inputs[i], p->begin, p->rows, &p->asked.tensors[i], &data[i]));
    TRY(wire_send(&p->sent, WIRE_TAG_HEADER, &p->asked, sizeof p->asked));
    for (uint32_t i = 0; i < m->input_count; i++)
        TRY(wire_send(&p->sent, WIRE_TAG_DATA, data[i], (size_t)p->asked.tensors[i].bytes));
    return wire_receive(&p->received, WIRE_TAG_HEADER, &p->answer, sizeof p->answer);
}

/* The answer's header is there: its tensors go straight into the outputs. */
static dhow_status receive_results(dhow_mpi *m, int rank, member *p) {
    TRY(mpi_check_message(&p->answer, MESSAGE_RUN, rank));
    if (p->answer.status != DHOW_OK) {
        p->answer.text[sizeof p->answer.text - 1] = '\0';
        return dhow_set_error((dhow_status)p->answer.status, "rank %d (%s): %s", rank,
                              m->wire.hosts[rank], p->answer.text);
    }
    for (uint32_t i = 0; i < p->answer.tensor_count && i < m->output_count; i++) {
        message_tensor place;
        void *data;
        TRY(room_for(m, i, &p->answer.tensors[i], p->rows));
        TRY(rows_of(m->outputs[i], p->begin, p->rows, &place, &data));
        TRY(wire_receive(&p->received, WIRE_TAG_DATA, data, (size_t)place.bytes));
    }
    return DHOW_OK;
}

/* Moves a member on; true while it is not done. */
static bool advance(dhow_mpi *m, int rank, member *p, double start) {
    if (p->state == MEMBER_IDLE || p->state == MEMBER_DONE) return false;
    dhow_status status = wire_poll(&p->received);
    if (status == DHOW_NOT_READY) {
        if (p->state == MEMBER_COMPUTES) status = wire_poll(&p->sent); /* drives the sending */
        if (status == DHOW_OK || status == DHOW_NOT_READY) return true;
    }
    if (status == DHOW_OK && p->state == MEMBER_COMPUTES) {
        p->state = MEMBER_ANSWERS;
        status = receive_results(m, rank, p);
        if (status == DHOW_OK) return true;
    }
    if (status != DHOW_OK) {
        fail_member(p, status);
        return false;
    }
    p->state = MEMBER_DONE;
    p->status = DHOW_OK;
    p->seconds = wire_now() - start;
    wire_end(&p->sent);
    wire_end(&p->received);
    return false;
}

/* ---- this rank's own part, on a thread ---- */

typedef struct own_part {
    dhow_mpi *m;
    member *p;
    dhow_tensor *results[DHOW_MAX_COLUMNS];
    double start;
} own_part;

static void *run_own(void *argument) {
    own_part *own = argument;
    dhow_mpi *m = own->m;
    member *p = own->p;
    dhow_tensor *parts[DHOW_MAX_COLUMNS] = {NULL};
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < m->input_count && status == DHOW_OK; i++)
        status = dhow_tensor_narrow(m->inputs[i], 0, p->begin, p->rows, &parts[i]);
    if (status == DHOW_OK)
        status =
            dhow_parallel_run(m->parallel, parts, m->input_count, own->results, m->output_count);
    mpi_release_all(parts);
    p->status = status;
    if (status != DHOW_OK) (void)snprintf(p->text, sizeof p->text, "%s", dhow_last_error());
    p->seconds = wire_now() - own->start;
    return NULL;
}

static dhow_status keep_own(own_part *own) {
    dhow_mpi *m = own->m;
    const member *p = own->p;
    for (uint32_t i = 0; i < m->output_count; i++) {
        message_tensor part, place;
        void *from, *to;
        TRY(mpi_describe(own->results[i], &part, &from));
        TRY(room_for(m, i, &part, p->rows));
        TRY(rows_of(m->outputs[i], p->begin, p->rows, &place, &to));
        memcpy(to, from, (size_t)place.bytes);
    }
    return DHOW_OK;
}

/* ---- rounds ---- */

static void run_round(dhow_mpi *m, int64_t begin, int64_t rows) {
    int64_t parts[DHOWI_MAX_MEMBERS];
    double start = wire_now();
    dhowi_shares_split(&m->shares, rows, parts);
    for (int rank = 0; rank < m->wire.size; rank++) {
        member *p = &m->members[rank];
        p->state = MEMBER_IDLE;
        p->status = DHOW_OK;
        p->begin = begin;
        p->rows = parts[rank];
        begin += parts[rank];
        if (rank == 0 || p->rows == 0) continue;
        p->state = MEMBER_COMPUTES;
        dhow_status status = ask(m, rank, p);
        if (status != DHOW_OK && status != DHOW_NOT_READY) fail_member(p, status);
    }
    own_part own = {.m = m, .p = &m->members[0], .start = start};
    pthread_t thread;
    bool threaded = own.p->rows > 0 && pthread_create(&thread, NULL, run_own, &own) == 0;
    if (own.p->rows > 0 && !threaded) (void)run_own(&own);
    uint32_t polls = 0;
    for (bool waiting = true; waiting; wire_pause(&polls)) {
        waiting = false;
        for (int rank = 1; rank < m->wire.size; rank++)
            waiting = advance(m, rank, &m->members[rank], start) || waiting;
    }
    if (threaded) (void)pthread_join(thread, NULL);
    if (own.p->rows > 0 && own.p->status == DHOW_OK) {
        own.p->status = keep_own(&own);
        if (own.p->status != DHOW_OK)
            (void)snprintf(own.p->text, sizeof own.p->text, "%s", dhow_last_error());
    }
    mpi_release_all(own.results);
}

typedef struct range {
    int64_t begin, rows;
} range;

static bool any_live(const dhow_mpi *m) {
    for (uint32_t i = 0; i < m->shares.count; i++)
        if (m->shares.live[i]) return true;
    return false;
}

static void leave_out(dhow_mpi *m, int rank) {
    member *p = &m->members[rank];
    m->shares.live[rank] = false;
    p->gone = p->status;
    (void)snprintf(p->reason, sizeof p->reason, "%s", p->text);
}

static dhow_status run_rows(dhow_mpi *m) {
    range todo[DHOWI_MAX_MEMBERS] = {{0, m->rows}};
    uint32_t count = 1;
    while (count > 0) {
        range next = todo[--count];
        const member *first = NULL;
        bool mistake = false; /* of the caller: the same everywhere */
        run_round(m, next.begin, next.rows);
        for (int rank = 0; rank < m->wire.size; rank++) {
            member *p = &m->members[rank];
            if (p->rows == 0) continue;
            if (p->status == DHOW_OK) {
                dhowi_shares_note(&m->shares, (uint32_t)rank, p->rows, p->seconds);
                continue;
            }
            if (first == NULL) first = p;
            mistake = mistake || p->status == DHOW_INVALID_ARGUMENT;
            bool silent = p->status == DHOW_TIMED_OUT;
            if (silent || (m->skip_failed_devices && p->status != DHOW_INVALID_ARGUMENT))
                leave_out(m, rank);
            todo[count++] = (range){p->begin, p->rows};
        }
        if (first != NULL && (mistake || !m->skip_failed_devices || !any_live(m)))
            return dhow_set_error(first->status, "dhow_mpi_run: %s", first->text);
    }
    dhowi_shares_adapt(&m->shares);
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status prepare_inputs(dhow_mpi *m, const char *function, dhow_tensor *const *inputs,
                                  uint32_t count, dhow_tensor **dense) {
    if (count != m->input_count || inputs == NULL) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: %u inputs given, the model has %u",
                              function, inputs == NULL ? 0 : count, m->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        TRY(dhow_tensor_get_info(inputs[i], &info));
        if (info.rank == 0 || info.shape[0] == 0 || (i > 0 && info.shape[0] != m->rows)) {
            return dhow_set_error(DHOW_INVALID_ARGUMENT,
                                  "%s: input %u: inputs are divided by their first dimension, "
                                  "which must be the same for all and not 0",
                                  function, i);
        }
        m->rows = info.shape[0];
        dhow_tensor *host;
        TRY(dhow_tensor_to(inputs[i], m->cpu, &host));
        dhow_status status = dhow_tensor_contiguous(NULL, host, &dense[i]);
        dhow_tensor_release(host);
        TRY(status);
    }
    return DHOW_OK;
}

static dhow_status check_room(const dhow_mpi *m, const char *function, const void *outputs,
                              uint32_t count) {
    if (count == m->output_count && (outputs != NULL || count == 0)) return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: room for %u outputs given, the model has %u",
                          function, outputs == NULL ? 0 : count, m->output_count);
}

static dhow_status check_outputs(const dhow_mpi *m, const char *function,
                                 dhow_tensor *const *outputs) {
    for (uint32_t i = 0; i < m->output_count; i++) {
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        TRY(dhow_tensor_get_info(outputs[i], &info));
        if (info.device != m->cpu || info.contiguous == 0 || info.rank == 0 ||
            info.shape[0] != m->rows) {
            return dhow_set_error(DHOW_INVALID_ARGUMENT,
                                  "%s: output %u must be a contiguous CPU tensor of %" PRId64
                                  " rows",
                                  function, i, m->rows);
        }
    }
    return DHOW_OK;
}

static dhow_status begin_run(const dhow_mpi *m, const char *function) {
    TRY(mpi_check(m, function));
    if (m->wire.rank != 0)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: rank 0 runs, others serve", function);
    if (m->trains)
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "%s: the ranks train with dhow_mpi_process_group(), nobody serves; "
                              "make another dhow_mpi",
                              function);
    if (any_live(m)) return DHOW_OK;
    return dhow_set_error(m->members[0].gone, "%s: every rank has failed: %s", function,
                          m->members[0].reason);
}

/* Results go to `given`, or are made where that is NULL. */
static dhow_status run(dhow_mpi *m, const char *function, dhow_tensor *const *inputs,
                       uint32_t input_count, dhow_tensor *const *given, dhow_tensor **made) {
    dhow_tensor *dense[DHOW_MAX_COLUMNS] = {NULL};
    dhow_status status = prepare_inputs(m, function, inputs, input_count, dense);
    if (status == DHOW_OK && given != NULL) status = check_outputs(m, function, given);
    if (status == DHOW_OK) {
        m->inputs = dense;
        for (uint32_t i = 0; i < m->output_count; i++)
            m->outputs[i] = given != NULL ? given[i] : NULL;
        status = run_rows(m);
        for (uint32_t i = 0; i < m->output_count; i++) {
            if (given == NULL && status == DHOW_OK) made[i] = m->outputs[i];
            if (given == NULL && status != DHOW_OK) dhow_tensor_release(m->outputs[i]);
            m->outputs[i] = NULL;
        }
        m->inputs = NULL;
    }
    mpi_release_all(dense);
    return status;
}

dhow_status dhow_mpi_run(dhow_mpi *m, dhow_tensor *const *inputs, uint32_t input_count,
                         dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_mpi_run";
    for (uint32_t i = 0; outputs != NULL && i < output_count; i++) outputs[i] = NULL;
    TRY(begin_run(m, function));
    TRY(check_room(m, function, outputs, output_count));
    return run(m, function, inputs, input_count, NULL, outputs);
}

dhow_status dhow_mpi_run_into(dhow_mpi *m, dhow_tensor *const *inputs, uint32_t input_count,
                              dhow_tensor *const *outputs, uint32_t output_count) {
    static const char function[] = "dhow_mpi_run_into";
    TRY(begin_run(m, function));
    TRY(check_room(m, function, outputs, output_count));
    return run(m, function, inputs, input_count, outputs, NULL);
}
