/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between ranks, none of which waits forever. Every MPI call is made under one lock, so
 * MPI_THREAD_SERIALIZED is enough for a program that makes none meanwhile, and returns at once; a
 * thread sends a pulse to rank 0 and to the neighbours four times a second, also while this rank
 * computes, and a rank without one for too long is lost.
 */
#ifndef DHOW_MPI_WIRE_H_
#define DHOW_MPI_WIRE_H_

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dhow/dhow.h"

enum { WIRE_TAG_PULSE = 1, WIRE_TAG_HEADER = 2, WIRE_TAG_DATA = 3, WIRE_TAG_NOTICE = 4 };

/* A failure that all ranks are told of, whatever they wait for. */
typedef struct wire_notice {
    int32_t status;   /* 0: none */
    int32_t gives_up; /* the rank takes no more part; otherwise it still answers */
    char text[248];
} wire_notice;

/* Which notices of other ranks end a transfer. */
typedef enum wire_heed {
    WIRE_HEED_NONE,
    WIRE_HEED_GIVEN_UP, /* of rank 0 that gives up; at rank 0 of any rank that does */
    WIRE_HEED_ALL
} wire_heed;

typedef struct wire {
    MPI_Comm comm;
    int rank, size;
    double timeout; /* seconds */
    pthread_mutex_t mutex;
    pthread_t pulse;
    bool started, counted;
    bool broken; /* some rank is lost, perhaps to another: nobody is waited for at the end */
    atomic_bool stopping;
    double *heard;      /* when each rank was last heard of; under the mutex */
    bool *left;         /* a rank that has said goodbye sends nothing more; under the mutex */
    bool *lost;         /* a rank that was lost stays lost; under the mutex */
    MPI_Request *beats; /* pulses on their way */
    char (*hosts)[64];  /* names of the ranks' machines */
    wire_notice notices[WIRE_HEED_ALL + 1]; /* the first that came of each kind; under the mutex */
} wire;

/* Messages to and from one rank that are on their way. */
typedef struct wire_transfer {
    wire *wire;
    int peer;
    MPI_Request *requests;
    uint32_t count, capacity, done;
    wire_heed heed;
} wire_transfer;

double wire_now(void);

/* Duplicates the communicator and starts the pulse; called by all ranks. */
dhow_status wire_open(MPI_Comm comm, double timeout, wire *out);
/* Says goodbye to the other side, and waits for its goodbye no longer than the timeout. */
void wire_close(wire *w);

/* Begins to send or receive `bytes`, any number of them; `data` stays valid until the transfer is
 * over. */
dhow_status wire_send(wire_transfer *t, int tag, const void *data, size_t bytes);
dhow_status wire_receive(wire_transfer *t, int tag, void *data, size_t bytes);
/* OK when all has arrived, NOT_READY, or TIMED_OUT: the peer is lost; of one that heeds notices the
 * failure of another rank. */
dhow_status wire_poll(wire_transfer *t);
/* Polls until it is no longer NOT_READY. */
dhow_status wire_wait(wire_transfer *t);
/* Gives up what has not arrived. */
void wire_end(wire_transfer *t);
/* A little sleep between polls that found nothing, longer after many. */
void wire_pause(uint32_t *polls);

bool wire_is_lost(wire *w, int rank);
/* Tells all ranks that are there of the thread's last failure, which stays its own. */
void wire_notify(wire *w, dhow_status status, bool gives_up);

#endif /* DHOW_MPI_WIRE_H_ */
