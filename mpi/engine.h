/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of libdhow_mpi share: mpi.c makes and releases handles, parameters.c shares what
 * models hold, run.c is rank 0, serve.c all others; reduce.c sums for trainers, ring.c large
 * arrays. Functions take handles that were checked.
 */
#ifndef DHOW_MPI_ENGINE_H_
#define DHOW_MPI_ENGINE_H_

#include "dhow/mpi.h"
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
    bool skip_failed_devices;
    /* of rank 0 */
    member *members;
    dhowi_shares shares;
    dhow_tensor *const *inputs; /* of the run: contiguous, on the CPU */
    dhow_tensor *outputs[DHOW_MAX_COLUMNS];
    int64_t rows;
    /* of process groups */
    bool trains; /* nobody serves */
    dhow_status broken;
    char broken_text[512];
    uint64_t ring_bytes; /* sums of as many go round a ring */
    unsigned char *room; /* for what arrives */
    size_t room_bytes;
};

enum { HANDLE_MAGIC = 0x6d706921 };

#define TRY(expression)                                 \
    do {                                                \
        dhow_status try_status_ = (expression);         \
        if (try_status_ != DHOW_OK) return try_status_; \
    } while (0)

/* INVALID_ARGUMENT for what is no live handle. */
dhow_status mpi_check(const dhow_mpi *m, const char *function);

/* ---- tensors as messages: message.c ---- */

/* Dtype, shape and bytes of a contiguous CPU tensor, and its memory. */
dhow_status mpi_describe(dhow_tensor *t, message_tensor *out, void **out_data);
/* A CPU tensor like the one that was described. */
dhow_status mpi_make(dhow_mpi *m, const message_tensor *like, dhow_tensor **out, void **out_data);
/* Releases DHOW_MAX_COLUMNS tensors, some of which may be NULL. */
void mpi_release_all(dhow_tensor **tensors);
dhow_status mpi_check_message(const message *got, uint32_t kind, int rank);

/* ---- for all ranks together: parameters.c ---- */

/* Rank 0's parameters reach all models, or all ranks fail. */
dhow_status mpi_share_parameters(dhow_mpi *m, dhow_model *model);
/* All ranks learn whether all went well, so that none goes on alone. */
dhow_status mpi_agree(dhow_mpi *m, dhow_status own);

/* ---- sums: reduce.c, ring.c ---- */

typedef struct reduce_header {
    uint32_t magic;
    int32_t status, dtype; /* status: of an answer, or of a rank that has failed */
    uint32_t ring;         /* 1: numbers do not follow, they go round the ring */
    int64_t count;
    char text[256]; /* of a failure */
} reduce_header;

/* Adds numbers to those that are there; makes m->room as large. Both are in message.c. */
void mpi_add(dhow_dtype dtype, void *sums, const void *more, int64_t count);
dhow_status mpi_make_room(dhow_mpi *m, size_t bytes);
static inline size_t mpi_bytes_of(int32_t dtype, int64_t count) {
    return (size_t)count * (dtype == DHOW_F64 ? sizeof(double) : sizeof(float));
}
/* Sums over all ranks, each of which gets the same bits, or an error; some may get sums where
 * others fail. */
dhow_status mpi_ring(dhow_mpi *m, const reduce_header *header, void *data);

#endif /* DHOW_MPI_ENGINE_H_ */
