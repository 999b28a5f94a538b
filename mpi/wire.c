/* SPDX-License-Identifier: Apache-2.0
 *
 * See wire.h.
 */
#include "wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/threads/clock.h"

static const double k_beat_seconds = 0.25;
enum { MAX_MESSAGE_BYTES = 1 << 28, SPINS = 100 };

double wire_now(void) { return dhowi_seconds(); }

static void sleep_for(double seconds) {
    struct timespec t = {0, (long)(seconds * 1e9)};
    (void)nanosleep(&t, NULL);
}

void wire_pause(uint32_t *polls) {
    if (++*polls > SPINS) sleep_for(*polls > 100 * SPINS ? 200e-6 : 20e-6);
}

/* ---- the pulse ---- */

/* Under the mutex. */
static void beat(wire *w, int peer) {
    int done = 1;
    if (peer == w->rank || w->lost[peer]) return;
    if (w->beats[peer] != MPI_REQUEST_NULL)
        (void)MPI_Test(&w->beats[peer], &done, MPI_STATUS_IGNORE);
    if (done == 0) return; /* the last one is still on its way */
    if (MPI_Isend(NULL, 0, MPI_BYTE, peer, WIRE_TAG_PULSE, w->comm, &w->beats[peer]) != MPI_SUCCESS)
        w->beats[peer] = MPI_REQUEST_NULL;
}

/* Under the mutex. */
static void keep_notice(wire *w, wire_heed kind, const wire_notice *got) {
    if (w->notices[kind].status == DHOW_OK) w->notices[kind] = *got;
}

/* Under the mutex. */
static void look_for_notices(wire *w) {
    for (;;) {
        MPI_Status status;
        wire_notice got;
        int there = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, WIRE_TAG_NOTICE, w->comm, &there, &status) != MPI_SUCCESS ||
            there == 0)
            return;
        (void)MPI_Recv(&got, sizeof got, MPI_BYTE, status.MPI_SOURCE, WIRE_TAG_NOTICE, w->comm,
                       &status);
        got.text[sizeof got.text - 1] = '\0';
        keep_notice(w, WIRE_HEED_ALL, &got);
        if (got.gives_up != 0 && (w->rank == 0 || status.MPI_SOURCE == 0))
            keep_notice(w, WIRE_HEED_GIVEN_UP, &got);
    }
}

/* Under the mutex. */
static void listen(wire *w) {
    for (;;) {
        MPI_Status status;
        int there = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, WIRE_TAG_PULSE, w->comm, &there, &status) != MPI_SUCCESS ||
            there == 0)
            return;
        char goodbye;
        int bytes = 0;
        (void)MPI_Recv(&goodbye, 1, MPI_BYTE, status.MPI_SOURCE, WIRE_TAG_PULSE, w->comm, &status);
        (void)MPI_Get_count(&status, MPI_BYTE, &bytes);
        w->heard[status.MPI_SOURCE] = wire_now();
        if (bytes > 0) w->left[status.MPI_SOURCE] = true;
    }
}

/* Who hears of one another: rank 0 and each other rank, and neighbours in the ring. */
static bool are_peers(const wire *w, int peer) {
    const int apart = (peer - w->rank + w->size) % w->size;
    return apart != 0 && (w->rank == 0 || peer == 0 || apart == 1 || apart == w->size - 1);
}

static void *keep_beating(void *argument) {
    wire *w = argument;
    while (!atomic_load(&w->stopping)) {
        pthread_mutex_lock(&w->mutex);
        listen(w);
        for (int peer = 0; peer < w->size; peer++)
            if (are_peers(w, peer)) beat(w, peer);
        pthread_mutex_unlock(&w->mutex);
        sleep_for(k_beat_seconds);
    }
    return NULL;
}

/* ---- opening ---- */

/* Those of this process, each with a thread that calls MPI. */
static atomic_int g_open;

static dhow_status check_threads(void) {
    int provided = MPI_THREAD_SINGLE, initialized = 0, finalized = 0;
    (void)MPI_Initialized(&initialized);
    (void)MPI_Finalized(&finalized);
    if (finalized != 0)
        return dhow_set_error(DHOW_UNAVAILABLE, "dhow_mpi_create: MPI was ended by MPI_Finalize()");
    if (initialized != 0) (void)MPI_Query_thread(&provided);
    if (initialized != 0 && provided >= MPI_THREAD_MULTIPLE) return DHOW_OK;
    if (initialized != 0 && provided == MPI_THREAD_SERIALIZED)
        return atomic_load(&g_open) == 0
                   ? DHOW_OK
                   : dhow_set_error(DHOW_UNAVAILABLE,
                                    "dhow_mpi_create: another dhow_mpi lives, and MPI allows calls "
                                    "of one thread at a time only; release it before, or start "
                                    "with MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, "
                                    "&provided)");
    return dhow_set_error(
        DHOW_UNAVAILABLE,
        "dhow_mpi_create: %s; start with MPI_Init_thread(&argc, &argv, "
        "MPI_THREAD_SERIALIZED, &provided)",
        initialized == 0 ? "MPI is not started" : "MPI allows calls from the main thread only");
}

/* MPI ends the program where it is given one of these, as ranks that MPI_Comm_split() leaves out.
 */
static dhow_status check_communicator(MPI_Comm comm) {
    int between = 0;
    if (comm == MPI_COMM_NULL)
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "dhow_mpi_create: comm is MPI_COMM_NULL; ranks that are in no "
                              "communicator do not call it");
    if (MPI_Comm_test_inter(comm, &between) == MPI_SUCCESS && between != 0)
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "dhow_mpi_create: comm is between two groups; MPI_Intercomm_merge() "
                              "makes one group of them");
    return DHOW_OK;
}

static dhow_status open_parts(wire *w) {
    char name[MPI_MAX_PROCESSOR_NAME] = "", mine[64] = "";
    int length;
    size_t n = (size_t)w->size;
    w->heard = calloc(n, sizeof *w->heard);
    w->left = calloc(n, sizeof *w->left);
    w->lost = calloc(n, sizeof *w->lost);
    w->beats = calloc(n, sizeof(MPI_Request));
    w->hosts = calloc(n, sizeof *w->hosts);
    if (w->heard == NULL || w->left == NULL || w->lost == NULL || w->beats == NULL ||
        w->hosts == NULL)
        return dhow_set_error(DHOW_OUT_OF_MEMORY, "dhow_mpi_create: host memory is exhausted");
    (void)MPI_Get_processor_name(name, &length);
    (void)memcpy(mine, name, strnlen(name, sizeof mine - 1));
    (void)MPI_Allgather(mine, sizeof mine, MPI_CHAR, w->hosts, sizeof mine, MPI_CHAR, w->comm);
    double now = wire_now();
    for (int i = 0; i < w->size; i++) {
        w->heard[i] = now;
        w->beats[i] = MPI_REQUEST_NULL;
    }
    sigset_t all, old;
    (void)sigfillset(&all); /* the program's signals are not for this thread */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&w->pulse, NULL, keep_beating, w);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->started = error == 0;
    if (error == 0) return DHOW_OK;
    return dhow_set_error(DHOW_OUT_OF_MEMORY, "dhow_mpi_create: cannot start a thread: %s",
                          strerror(error));
}

dhow_status wire_open(MPI_Comm comm, double timeout, wire *out) {
    *out = (wire){.timeout = timeout, .comm = MPI_COMM_NULL};
    dhow_status status = check_threads();
    if (status == DHOW_OK) status = check_communicator(comm);
    if (status != DHOW_OK) return status;
    atomic_fetch_add(&g_open, 1);
    out->counted = true;
    if (MPI_Comm_dup(comm, &out->comm) != MPI_SUCCESS) {
        atomic_fetch_sub(&g_open, 1);
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "dhow_mpi_create: the communicator cannot be duplicated");
    }
    (void)MPI_Comm_set_errhandler(out->comm, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(out->comm, &out->rank);
    (void)MPI_Comm_size(out->comm, &out->size);
    (void)pthread_mutex_init(&out->mutex, NULL);
    status = open_parts(out);
    if (status != DHOW_OK) wire_close(out);
    return status;
}

/* A pulse that nobody received when its communicator is freed may be taken for a message of the
 * next one, so each side says that it sends no more, and waits until the other has said so. */
static bool take_leave(wire *w, int peer, double deadline) {
    static const char goodbye = 1;
    uint32_t polls = 0;
    int beaten = 0, sent = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    while (!(beaten && sent && w->left[peer]) && wire_now() < deadline) {
        if (wire_now() - w->heard[peer] > w->timeout && !w->left[peer]) break; /* it has died */
        if (!beaten) (void)MPI_Test(&w->beats[peer], &beaten, MPI_STATUS_IGNORE);
        if (beaten && request == MPI_REQUEST_NULL && !sent &&
            MPI_Isend(&goodbye, 1, MPI_BYTE, peer, WIRE_TAG_PULSE, w->comm, &request) !=
                MPI_SUCCESS)
            return false;
        if (beaten && !sent) (void)MPI_Test(&request, &sent, MPI_STATUS_IGNORE);
        listen(w);
        wire_pause(&polls);
    }
    if (!beaten) (void)MPI_Request_free(&w->beats[peer]);
    if (beaten && !sent) (void)MPI_Request_free(&request);
    return beaten && sent && w->left[peer];
}

void wire_close(wire *w) {
    bool all_left = !w->broken;
    const double deadline = wire_now() + w->timeout;
    atomic_store(&w->stopping, true);
    if (w->started) (void)pthread_join(w->pulse, NULL);
    for (int peer = 0; w->lost != NULL && peer < w->size; peer++)
        all_left = all_left && !w->lost[peer];
    for (int peer = 0; w->started && all_left && peer < w->size; peer++) {
        if (!are_peers(w, peer)) continue;
        all_left = take_leave(w, peer, deadline);
    }
    /* Freeing is for all ranks together, which lost ones do not take part in. */
    if (w->comm != MPI_COMM_NULL && all_left) (void)MPI_Comm_free(&w->comm);
    if (w->counted) atomic_fetch_sub(&g_open, 1);
    (void)pthread_mutex_destroy(&w->mutex);
    free(w->heard);
    free(w->left);
    free(w->lost);
    free(w->beats);
    free(w->hosts);
    *w = (wire){.comm = MPI_COMM_NULL};
}

bool wire_is_lost(wire *w, int rank) {
    (void)pthread_mutex_lock(&w->mutex);
    bool lost = w->lost[rank];
    (void)pthread_mutex_unlock(&w->mutex);
    return lost;
}

/* ---- transfers ---- */

static bool make_room(wire_transfer *t, uint32_t more) {
    if (t->capacity - t->count >= more) return true;
    uint32_t capacity = t->capacity * 2 + more;
    MPI_Request *grown = realloc(t->requests, capacity * sizeof(MPI_Request));
    if (grown == NULL) return false;
    t->requests = grown;
    t->capacity = capacity;
    return true;
}

/* MPI counts in int, so large data goes in pieces. */
static dhow_status begin(wire_transfer *t, int tag, void *data, size_t bytes, bool sends) {
    wire *w = t->wire;
    uint32_t pieces = (uint32_t)(bytes / MAX_MESSAGE_BYTES + 1);
    int code = MPI_SUCCESS;
    if (!make_room(t, pieces))
        return dhow_set_error(DHOW_OUT_OF_MEMORY, "rank %d: host memory is exhausted", w->rank);
    (void)pthread_mutex_lock(&w->mutex);
    for (uint32_t i = 0; i < pieces && code == MPI_SUCCESS; i++) {
        char *at = data != NULL ? (char *)data + (size_t)i * MAX_MESSAGE_BYTES : NULL;
        size_t rest = bytes - (size_t)i * MAX_MESSAGE_BYTES;
        int count = (int)(rest < MAX_MESSAGE_BYTES ? rest : MAX_MESSAGE_BYTES);
        MPI_Request *request = &t->requests[t->count];
        code = sends ? MPI_Isend(at, count, MPI_BYTE, t->peer, tag, w->comm, request)
                     : MPI_Irecv(at, count, MPI_BYTE, t->peer, tag, w->comm, request);
        if (code == MPI_SUCCESS) t->count++;
    }
    if (code != MPI_SUCCESS) w->lost[t->peer] = true;
    (void)pthread_mutex_unlock(&w->mutex);
    return code == MPI_SUCCESS ? DHOW_OK : wire_poll(t);
}

dhow_status wire_send(wire_transfer *t, int tag, const void *data, size_t bytes) {
    return begin(t, tag, (void *)(uintptr_t)data, bytes, true);
}

dhow_status wire_receive(wire_transfer *t, int tag, void *data, size_t bytes) {
    return begin(t, tag, data, bytes, false);
}

static dhow_status say_lost(const wire *w, int peer, double silence) {
    return dhow_set_error(DHOW_TIMED_OUT, "rank %d (%s) is lost: not heard of for %.1f s", peer,
                          w->hosts[peer], silence);
}

dhow_status wire_poll(wire_transfer *t) {
    wire *w = t->wire;
    int done = 1;
    (void)pthread_mutex_lock(&w->mutex);
    bool failed = w->lost[t->peer];
    while (!failed && done != 0 && t->done < t->count) {
        failed = MPI_Test(&t->requests[t->done], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        if (!failed && done != 0) t->done++;
    }
    listen(w);
    if (t->heed != WIRE_HEED_NONE) look_for_notices(w);
    const wire_notice notice = w->notices[t->heed];
    double silence = wire_now() - w->heard[t->peer];
    bool over = t->done == t->count;
    if (!over && silence > w->timeout) failed = true;
    if (failed) w->lost[t->peer] = true;
    (void)pthread_mutex_unlock(&w->mutex);
    if (failed) return say_lost(w, t->peer, silence);
    if (!over && notice.status != DHOW_OK)
        return dhow_set_error((dhow_status)notice.status, "%s", notice.text);
    return over ? DHOW_OK : DHOW_NOT_READY;
}

dhow_status wire_wait(wire_transfer *t) {
    uint32_t polls = 0;
    for (;;) {
        dhow_status status = wire_poll(t);
        if (status != DHOW_NOT_READY) return status;
        wire_pause(&polls);
    }
}

void wire_end(wire_transfer *t) {
    wire *w = t->wire;
    if (w != NULL) {
        (void)pthread_mutex_lock(&w->mutex);
        for (uint32_t i = t->done; i < t->count; i++) {
            if (t->requests[i] == MPI_REQUEST_NULL) continue;
            (void)MPI_Cancel(&t->requests[i]);
            (void)MPI_Request_free(&t->requests[i]);
        }
        (void)pthread_mutex_unlock(&w->mutex);
    }
    free(t->requests);
    *t = (wire_transfer){0};
}

/* Small messages leave at once; a rank that takes none is not waited for. */
void wire_notify(wire *w, dhow_status status, bool gives_up) {
    wire_notice notice = {.status = (int32_t)status, .gives_up = gives_up};
    const double deadline = wire_now() + 0.25;
    (void)snprintf(notice.text, sizeof notice.text, "%s", dhow_last_error());
    for (int peer = 0; peer < w->size; peer++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int done = 0;
        uint32_t polls = 0;
        if (peer == w->rank || wire_is_lost(w, peer)) continue;
        (void)pthread_mutex_lock(&w->mutex);
        const int code =
            MPI_Isend(&notice, sizeof notice, MPI_BYTE, peer, WIRE_TAG_NOTICE, w->comm, &request);
        (void)pthread_mutex_unlock(&w->mutex);
        while (code == MPI_SUCCESS && !done) {
            (void)pthread_mutex_lock(&w->mutex);
            (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            if (!done && wire_now() > deadline) {
                (void)MPI_Cancel(&request);
                (void)MPI_Request_free(&request);
                done = 1;
            }
            (void)pthread_mutex_unlock(&w->mutex);
            wire_pause(&polls);
        }
    }
    (void)dhow_set_error(status, "%s", notice.text);
}
