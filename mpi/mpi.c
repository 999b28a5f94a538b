/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/mpi.h. Rank 0 divides rows among the ranks as dhow_parallel divides them among devices.
 * While its own devices compute on a thread, it drives the transfers to and from all others.
 */
#include "dhow/mpi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "parallel/shares.h"
#include "wire.h"

typedef enum member_state {
    MEMBER_IDLE,
    MEMBER_COMPUTES,
    MEMBER_ANSWERS,
    MEMBER_DONE
} member_state;

/* A rank, as rank 0 sees it. */
typedef struct member {
    member_state state;
    int64_t begin, rows; /* its part of the round */
    message asked, answer;
    wire_transfer sent, received;
    double seconds;
    dhow_status status; /* of the part */
    char text[256];
    dhow_status gone; /* why it is left out */
    char reason[256];
} member;

struct dhow_mpi {
    uint32_t magic;
    wire wire;
    dhow_device *cpu;
    dhow_parallel *parallel; /* this rank's devices */
    uint32_t input_count, output_count;
    bool keep_going;
    /* of rank 0 */
    member *members;
    dhowi_shares shares;
    dhow_tensor *const *inputs; /* of the run: contiguous, on the CPU */
    dhow_tensor *outputs[DHOW_MAX_COLUMNS];
    int64_t rows;
};

enum { HANDLE_MAGIC = 0x6d706921 };

#define TRY(expression)                                 \
    do {                                                \
        dhow_status try_status_ = (expression);         \
        if (try_status_ != DHOW_OK) return try_status_; \
    } while (0)

static dhow_status check(const dhow_mpi *m, const char *function) {
    if (m != NULL && m->magic == HANDLE_MAGIC) return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: mpi is %s", function,
                          m == NULL ? "NULL" : "no live handle");
}

static dhow_status no_memory(void) {
    return dhow_set_error(DHOW_OUT_OF_MEMORY, "dhow_mpi: host memory is exhausted");
}

/* ---- tensors as messages ---- */

static dhow_status describe(dhow_tensor *t, message_tensor *out, void **out_data) {
    dhow_tensor_info info;
    TRY(dhow_tensor_get_info(t, &info));
    *out = (message_tensor){.dtype = info.dtype, .rank = info.rank, .bytes = info.bytes};
    memcpy(out->shape, info.shape, sizeof out->shape);
    return dhow_tensor_host_ptr(t, out_data);
}

static dhow_status make(dhow_mpi *m, const message_tensor *like, dhow_tensor **out,
                        void **out_data) {
    if (like->rank < 0 || like->rank > DHOW_MAX_RANK)
        return dhow_set_error(DHOW_CORRUPT, "a message of another version of dhow");
    TRY(dhow_tensor_create(m->cpu, (dhow_dtype)like->dtype, like->rank, like->shape, out));
    return dhow_tensor_host_ptr(*out, out_data);
}

static void release_all(dhow_tensor **tensors) {
    for (int i = 0; i < DHOW_MAX_COLUMNS; i++) {
        dhow_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

static dhow_status check_message(const message *got, uint32_t kind, int rank) {
    if (got->magic == MESSAGE_MAGIC && got->kind == kind && got->tensor_count <= DHOW_MAX_COLUMNS)
        return DHOW_OK;
    return dhow_set_error(DHOW_INCOMPATIBLE,
                          "rank %d: an unexpected message; do all ranks run the same program and "
                          "version of dhow?",
                          rank);
}

/* ---- parameters ---- */

static dhow_status send_parameter(dhow_mpi *m, dhow_model *model, uint32_t index, int peer) {
    dhow_model_parameter_info p;
    dhow_tensor *host = NULL, *dense = NULL;
    message text = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_PARAMETER, .tensor_count = 1};
    wire_transfer t = {.wire = &m->wire, .peer = peer};
    void *data = NULL;
    TRY(dhow_model_parameter_at(model, index, &p));
    (void)snprintf(text.text, sizeof text.text, "%s", p.name);
    dhow_status status = dhow_tensor_to(p.tensor, m->cpu, &host);
    if (status == DHOW_OK) status = dhow_tensor_contiguous(NULL, host, &dense);
    if (status == DHOW_OK) status = describe(dense, &text.tensors[0], &data);
    if (status == DHOW_OK) status = wire_send(&t, WIRE_TAG_HEADER, &text, sizeof text);
    if (status == DHOW_OK)
        status = wire_send(&t, WIRE_TAG_DATA, data, (size_t)text.tensors[0].bytes);
    if (status == DHOW_OK) status = wire_wait(&t);
    wire_end(&t);
    dhow_tensor_release(dense);
    dhow_tensor_release(host);
    return status;
}

/* Whether the parameter is the one that this rank's model has in its place. */
static dhow_status check_parameter(const dhow_mpi *m, const dhow_model *model, uint32_t index,
                                   const message *got) {
    dhow_model_value_info own;
    TRY(dhow_model_parameter_describe(model, index, &own));
    const message_tensor *t = &got->tensors[0];
    if (strncmp(own.name, got->text, sizeof got->text - 1) == 0 && (int32_t)own.dtype == t->dtype &&
        own.rank == t->rank &&
        memcmp(own.shape, t->shape, (size_t)own.rank * sizeof own.shape[0]) == 0)
        return DHOW_OK;
    return dhow_set_error(
        DHOW_INVALID_ARGUMENT,
        "dhow_mpi_create: rank 0 sends parameter '%s', rank %d has '%s' there, or "
        "with another shape or dtype; all ranks need the same model",
        got->text, m->wire.rank, own.name);
}

static dhow_status receive_one(dhow_mpi *m, dhow_model *model, uint32_t index) {
    message got;
    wire_transfer t = {.wire = &m->wire, .peer = 0};
    dhow_tensor *value = NULL;
    void *data;
    dhow_status status = wire_receive(&t, WIRE_TAG_HEADER, &got, sizeof got);
    if (status == DHOW_OK) status = wire_wait(&t);
    if (status == DHOW_OK) status = check_message(&got, MESSAGE_PARAMETER, 0);
    dhow_status fits = status == DHOW_OK ? check_parameter(m, model, index, &got) : DHOW_OK;
    char why[512];
    (void)snprintf(why, sizeof why, "%s", dhow_last_error());
    if (status == DHOW_OK) status = make(m, &got.tensors[0], &value, &data);
    if (status == DHOW_OK)
        status = wire_receive(&t, WIRE_TAG_DATA, data, (size_t)got.tensors[0].bytes);
    if (status == DHOW_OK) status = wire_wait(&t);
    if (status == DHOW_OK && fits == DHOW_OK)
        status = dhow_model_set_parameter(model, got.text, value);
    wire_end(&t);
    dhow_tensor_release(value);
    return status == DHOW_OK && fits != DHOW_OK ? dhow_set_error(fits, "%s", why) : status;
}

/* All ranks learn whether all went well, so that none goes on alone. */
static dhow_status agree(dhow_mpi *m, dhow_status own) {
    message text = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_PARAMETER, .status = (int32_t)own};
    if (own != DHOW_OK) {
        (void)snprintf(text.text, sizeof text.text, "rank %d (%s): %s", m->wire.rank,
                       m->wire.hosts[m->wire.rank], dhow_last_error());
    }
    message worst = text;
    for (int round = 0; round < 2; round++) { /* to rank 0, and back */
        for (int peer = 0; peer < m->wire.size; peer++) {
            bool sends = (m->wire.rank == 0) == (round == 1);
            if (peer == m->wire.rank || (m->wire.rank != 0 && peer != 0)) continue;
            message got = {0};
            wire_transfer t = {.wire = &m->wire, .peer = peer};
            dhow_status status = sends ? wire_send(&t, WIRE_TAG_HEADER, &worst, sizeof worst)
                                       : wire_receive(&t, WIRE_TAG_HEADER, &got, sizeof got);
            if (status == DHOW_OK) status = wire_wait(&t);
            wire_end(&t);
            if (status == DHOW_OK && !sends) status = check_message(&got, MESSAGE_PARAMETER, peer);
            if (status != DHOW_OK && worst.status == DHOW_OK) {
                worst.status = (int32_t)status;
                (void)snprintf(worst.text, sizeof worst.text, "%s", dhow_last_error());
            }
            if (status == DHOW_OK && !sends && got.status != DHOW_OK && worst.status == DHOW_OK)
                worst = got;
        }
    }
    if (worst.status == DHOW_OK) return DHOW_OK;
    return dhow_set_error((dhow_status)worst.status, "%s", worst.text);
}

static dhow_status share_parameters(dhow_mpi *m, dhow_model *model) {
    uint32_t count = dhow_model_parameter_count(model), expected = count;
    dhow_status status = DHOW_OK;
    if (m->wire.size == 1) return DHOW_OK;
    for (int peer = 1; m->wire.rank == 0 && peer < m->wire.size; peer++) {
        wire_transfer t = {.wire = &m->wire, .peer = peer};
        dhow_status one = wire_send(&t, WIRE_TAG_HEADER, &count, sizeof count);
        if (one == DHOW_OK) one = wire_wait(&t);
        wire_end(&t);
        for (uint32_t i = 0; i < count && one == DHOW_OK; i++)
            one = send_parameter(m, model, i, peer);
        if (status == DHOW_OK) status = one;
    }
    if (m->wire.rank != 0) {
        wire_transfer t = {.wire = &m->wire, .peer = 0};
        status = wire_receive(&t, WIRE_TAG_HEADER, &expected, sizeof expected);
        if (status == DHOW_OK) status = wire_wait(&t);
        wire_end(&t);
        for (uint32_t i = 0; status != DHOW_TIMED_OUT && i < expected; i++) {
            dhow_status one = receive_one(m, model, i);
            if (status == DHOW_OK) status = one;
        }
        if (status == DHOW_OK && expected != count) {
            status = dhow_set_error(DHOW_INVALID_ARGUMENT,
                                    "dhow_mpi_create: rank 0's model has %u parameters, rank %d's "
                                    "has %u; all ranks need the same model",
                                    expected, m->wire.rank, count);
        }
    }
    return agree(m, status);
}

/* ---- making ---- */

static dhow_status start(dhow_mpi *m, dhow_model *model, const dhow_mpi_options *o) {
    dhow_context *context = dhow_device_context(dhow_model_device(model));
    dhow_device *chosen = NULL;
    dhow_device *const *devices = o->devices;
    uint32_t count = o->device_count;
    const dhow_parallel_options options = {.keep_going = o->keep_going};
    TRY(dhow_device_get(context, "cpu", &m->cpu));
    TRY(share_parameters(m, model));
    dhow_status status = DHOW_OK;
    if (devices == NULL) {
        status = dhow_device_get(context, NULL, &chosen);
        devices = &chosen;
        count = 1;
    }
    if (status == DHOW_OK)
        status = dhow_parallel_create(model, devices, count, &options, &m->parallel);
    return m->wire.size == 1 ? status : agree(m, status);
}

dhow_status dhow_mpi_create(MPI_Comm comm, dhow_model *model, const dhow_mpi_options *options,
                            dhow_mpi **out) {
    static const dhow_mpi_options defaults;
    const dhow_mpi_options *o = options != NULL ? options : &defaults;
    if (out == NULL) return dhow_set_error(DHOW_INVALID_ARGUMENT, "dhow_mpi_create: out is NULL");
    *out = NULL;
    if (dhow_model_device(model) == NULL)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "dhow_mpi_create: model is no live model");
    double timeout = o->timeout_s > 0 ? o->timeout_s : 4;
    if (!(timeout >= 1 && timeout <= 3600)) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "dhow_mpi_create: timeout_s is %g; 1 to 3600 is allowed",
                              o->timeout_s);
    }
    dhow_mpi *m = calloc(1, sizeof *m);
    if (m == NULL) return no_memory();
    m->magic = HANDLE_MAGIC;
    m->wire.comm = MPI_COMM_NULL;
    m->keep_going = o->keep_going != 0;
    m->input_count = dhow_model_input_count(model);
    m->output_count = dhow_model_output_count(model);
    dhow_status status = wire_open(comm, timeout, &m->wire);
    if (status != DHOW_OK) {
        free(m);
        return status;
    }
    if (m->wire.size > DHOWI_MAX_MEMBERS) {
        status = dhow_set_error(DHOW_INVALID_ARGUMENT, "dhow_mpi_create: %d ranks; at most %d",
                                m->wire.size, DHOWI_MAX_MEMBERS);
    }
    m->members = calloc((size_t)m->wire.size, sizeof *m->members);
    if (status == DHOW_OK && m->members == NULL) status = no_memory();
    if (status == DHOW_OK) status = start(m, model, o);
    m->shares.count = (uint32_t)m->wire.size;
    for (uint32_t i = 0; status == DHOW_OK && i < m->shares.count; i++) {
        m->shares.live[i] = true;
        m->shares.share[i] = 1.0 / m->wire.size;
    }
    if (status == DHOW_OK) {
        *out = m;
        return DHOW_OK;
    }
    char why[1024];
    (void)snprintf(why, sizeof why, "%s", dhow_last_error());
    m->shares.count = 0; /* nobody serves yet */
    dhow_mpi_release(m);
    return dhow_set_error(status, "%s", why);
}

void dhow_mpi_release(dhow_mpi *m) {
    if (m == NULL || m->magic != HANDLE_MAGIC) return;
    const message end = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_END};
    for (int peer = 1; m->wire.rank == 0 && peer < (int)m->shares.count; peer++) {
        wire_transfer t = {.wire = &m->wire, .peer = peer};
        if (wire_is_lost(&m->wire, peer)) continue;
        if (wire_send(&t, WIRE_TAG_HEADER, &end, sizeof end) != DHOW_TIMED_OUT) (void)wire_wait(&t);
        wire_end(&t);
    }
    m->magic = 0;
    dhow_parallel_release(m->parallel);
    wire_close(&m->wire);
    free(m->members);
    free(m);
}

/* ---- other ranks ---- */

static dhow_status compute(dhow_mpi *m, const message *asked, wire_transfer *t) {
    dhow_tensor *inputs[DHOW_MAX_COLUMNS] = {NULL}, *outputs[DHOW_MAX_COLUMNS] = {NULL};
    message answer = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_RUN};
    void *data[DHOW_MAX_COLUMNS];
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < asked->tensor_count && status == DHOW_OK; i++) {
        status = make(m, &asked->tensors[i], &inputs[i], &data[i]);
        if (status == DHOW_OK)
            status = wire_receive(t, WIRE_TAG_DATA, data[i], (size_t)asked->tensors[i].bytes);
    }
    if (status == DHOW_OK) status = wire_wait(t);
    if (status == DHOW_TIMED_OUT) {
        release_all(inputs);
        return status;
    }
    if (status == DHOW_OK)
        status =
            dhow_parallel_run(m->parallel, inputs, asked->tensor_count, outputs, m->output_count);
    answer.tensor_count = status == DHOW_OK ? m->output_count : 0;
    for (uint32_t i = 0; i < answer.tensor_count && status == DHOW_OK; i++)
        status = describe(outputs[i], &answer.tensors[i], &data[i]);
    answer.status = (int32_t)status;
    if (status != DHOW_OK) {
        answer.tensor_count = 0;
        (void)snprintf(answer.text, sizeof answer.text, "%s", dhow_last_error());
    }
    status = wire_send(t, WIRE_TAG_HEADER, &answer, sizeof answer);
    for (uint32_t i = 0; i < answer.tensor_count && status == DHOW_OK; i++)
        status = wire_send(t, WIRE_TAG_DATA, data[i], (size_t)answer.tensors[i].bytes);
    if (status == DHOW_OK) status = wire_wait(t);
    release_all(inputs);
    release_all(outputs);
    return status;
}

dhow_status dhow_mpi_serve(dhow_mpi *m) {
    static const char function[] = "dhow_mpi_serve";
    TRY(check(m, function));
    if (m->wire.rank == 0)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: rank 0 runs, others serve", function);
    for (;;) {
        message asked;
        wire_transfer t = {.wire = &m->wire, .peer = 0};
        dhow_status status = wire_receive(&t, WIRE_TAG_HEADER, &asked, sizeof asked);
        if (status == DHOW_OK) status = wire_wait(&t);
        bool ends = status == DHOW_OK && asked.magic == MESSAGE_MAGIC && asked.kind == MESSAGE_END;
        if (status == DHOW_OK && !ends) status = check_message(&asked, MESSAGE_RUN, 0);
        if (status == DHOW_OK && !ends) status = compute(m, &asked, &t);
        wire_end(&t);
        if (ends || status != DHOW_OK) return status;
    }
}

/* ---- rank 0 ---- */

/* Rows of an input or output, in its memory. */
static dhow_status rows_of(dhow_tensor *t, int64_t begin, int64_t rows, message_tensor *out,
                           void **out_data) {
    void *data;
    TRY(describe(t, out, &data));
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
    if (m->outputs[i] == NULL) return make(m, &whole, &m->outputs[i], &data);
    message_tensor there;
    TRY(describe(m->outputs[i], &there, &data));
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
    TRY(check_message(&p->answer, MESSAGE_RUN, rank));
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
    release_all(parts);
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
        TRY(describe(own->results[i], &part, &from));
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
    release_all(own.results);
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
            if (silent || (m->keep_going && p->status != DHOW_INVALID_ARGUMENT)) leave_out(m, rank);
            todo[count++] = (range){p->begin, p->rows};
        }
        if (first != NULL && (mistake || !m->keep_going || !any_live(m)))
            return dhow_set_error(first->status, "dhow_mpi_run: %s", first->text);
    }
    dhowi_shares_adapt(&m->shares);
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status prepare_inputs(dhow_mpi *m, dhow_tensor *const *inputs, uint32_t count,
                                  dhow_tensor **dense) {
    static const char function[] = "dhow_mpi_run";
    if (count != m->input_count || inputs == NULL) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: %u inputs given, the model has %u",
                              function, inputs == NULL ? 0 : count, m->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_info info;
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

static dhow_status check_outputs(const dhow_mpi *m, dhow_tensor *const *outputs, uint32_t count) {
    static const char function[] = "dhow_mpi_run";
    if (count != m->output_count || (outputs == NULL && count > 0)) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "%s: room for %u outputs given, the model has %u", function,
                              outputs == NULL ? 0 : count, m->output_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_info info;
        if (outputs[i] == NULL) continue;
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

dhow_status dhow_mpi_run(dhow_mpi *m, dhow_tensor *const *inputs, uint32_t input_count,
                         dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_mpi_run";
    dhow_tensor *dense[DHOW_MAX_COLUMNS] = {NULL};
    TRY(check(m, function));
    if (m->wire.rank != 0)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: rank 0 runs, others serve", function);
    if (!any_live(m)) {
        return dhow_set_error(m->members[0].gone, "%s: every rank has failed: %s", function,
                              m->members[0].reason);
    }
    dhow_status status = prepare_inputs(m, inputs, input_count, dense);
    if (status == DHOW_OK) status = check_outputs(m, outputs, output_count);
    if (status == DHOW_OK) {
        m->inputs = dense;
        for (uint32_t i = 0; i < output_count; i++) m->outputs[i] = outputs[i];
        status = run_rows(m);
        for (uint32_t i = 0; i < output_count; i++) {
            if (status == DHOW_OK) outputs[i] = m->outputs[i];
            if (status != DHOW_OK && outputs[i] == NULL) dhow_tensor_release(m->outputs[i]);
            m->outputs[i] = NULL;
        }
        m->inputs = NULL;
    }
    release_all(dense);
    return status;
}

uint32_t dhow_mpi_member_count(const dhow_mpi *m) {
    return m != NULL && m->magic == HANDLE_MAGIC ? (uint32_t)m->wire.size : 0;
}

dhow_status dhow_mpi_member_at(const dhow_mpi *m, uint32_t rank, dhow_mpi_member *out) {
    static const char function[] = "dhow_mpi_member_at";
    if (out == NULL) return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    memset(out, 0, sizeof *out);
    TRY(check(m, function));
    if (rank >= (uint32_t)m->wire.size)
        return dhow_set_error(DHOW_OUT_OF_RANGE, "%s: rank %u, there are %d", function, rank,
                              m->wire.size);
    const member *p = &m->members[rank];
    out->rank = (int32_t)rank;
    (void)snprintf(out->host, sizeof out->host, "%s", m->wire.hosts[rank]);
    out->share = m->shares.live[rank] ? m->shares.share[rank] : 0;
    out->rows_per_second = m->shares.rate[rank];
    out->status = p->gone;
    (void)snprintf(out->reason, sizeof out->reason, "%.191s", p->reason);
    return DHOW_OK;
}
