/* SPDX-License-Identifier: Apache-2.0
 *
 * One model on the devices of several processes and machines, over MPI: dhow_parallel for the ranks
 * of a communicator. In a library of its own, libdhow_mpi; programs that use it link MPI themselves
 * and start with MPI_Init_thread(..., MPI_THREAD_SERIALIZED or better).
 *
 * A dhow_mpi calls MPI from a thread of its own as long as it lives. Only with MPI_THREAD_MULTIPLE
 * may the program call MPI meanwhile, or make a second dhow_mpi; with MPI_THREAD_SERIALIZED it
 * makes no MPI call between dhow_mpi_create() and dhow_mpi_release().
 *
 *     dhow_mpi_create(MPI_COMM_WORLD, model, NULL, &m);       every rank, rank 0's parameters count
 *     if (rank == 0) dhow_mpi_run(m, &x, 1, &y, 1);           batches are divided and gathered
 *     else           dhow_mpi_serve(m);                       until rank 0 releases
 *     dhow_mpi_release(m);
 *
 * A rank that is silent - killed, or its machine is gone - counts as lost after
 * dhow_mpi_options.timeout_s; nobody waits longer for it. MPI itself may end the whole job when a
 * rank dies (mpirun does unless told otherwise), and after a loss MPI_Finalize() may not return:
 * end with MPI_Abort() or _exit() then.
 */
#ifndef DHOW_MPI_H_
#define DHOW_MPI_H_

#include <mpi.h>

#include "dhow/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_mpi dhow_mpi;

typedef struct dhow_mpi_options {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_device *const
        *devices; /**< of this rank; NULL: the one that dhow_device_get(NULL) picks */
    uint32_t device_count;
    int32_t skip_failed_devices; /**< rank 0: 1: a rank that fails is left out and others take its
                           rows. Every rank: the same for its own devices */
    double timeout_s; /**< silence after which a rank counts as lost, 1 to 3600; 0 stands for 4 */
    uint64_t ring_bytes; /**< of process groups, the same on all ranks: sums of so many bytes or
                              more go round a ring of the ranks, others by way of rank 0. 0: 256
                              KiB; UINT64_MAX: none */
} dhow_mpi_options;

/** One of the ranks, as rank 0 sees it. */
typedef struct dhow_mpi_member {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int32_t rank;
    char host[64];          /**< MPI's name of its machine */
    double share;           /**< of the next batch, 0 .. 1 */
    double rows_per_second; /**< as measured, transfers included; 0: not measured yet */
    dhow_status status;     /**< OK, or why the rank is left out */
    char reason[192];       /**< the message of that failure, "" */
} dhow_mpi_member;

/**
 * Called by every rank of the communicator. Rank 0's parameters are sent to all others, whose
 * models must have the same ones.
 *
 * @param comm     a communicator of one group, with all ranks that take part
 * @param model    of this rank; on ranks but 0 its parameters become those of rank 0
 * @param options  NULL for defaults; each rank has its own
 * @param out      receives the handle; NULL on errors
 * @return INVALID_ARGUMENT (also: MPI_COMM_NULL or a communicator between groups; parameters
 * differ, the message names the first), UNAVAILABLE (MPI has ended, was not started with
 * MPI_THREAD_SERIALIZED, or with no more and another dhow_mpi lives), TIMED_OUT (a rank is silent),
 * or as dhow_parallel_create()
 *
 * Ownership: *out is owned; the communicator is duplicated. Threads: externally synchronized.
 * Blocks: until all ranks have called it.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_create(MPI_Comm comm, dhow_model *model,
                                                    const dhow_mpi_options *options,
                                                    dhow_mpi **out);

/**
 * Rank 0: runs the model on one batch, as dhow_parallel_run() does; its own devices take part.
 *
 * @param mpi           of rank 0
 * @param inputs        CPU tensors, [rows, ...] each, in the model's order
 * @param input_count   of inputs: as many as the model has
 * @param outputs       filled with new CPU tensors [rows, ...], with NULL where it fails; what is
 * in it before is not read
 * @param output_count  of outputs: as many as the model has
 * @return as dhow_parallel_run(); TIMED_OUT (a rank is silent). The message names the rank and its
 * machine
 *
 * Ownership: the outputs are owned, release each. Threads: externally synchronized. Blocks: until
 * all results are there, for a silent rank no longer than the timeout.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_run(dhow_mpi *mpi, dhow_tensor *const *inputs,
                                                 uint32_t input_count, dhow_tensor **outputs,
                                                 uint32_t output_count);

/**
 * dhow_mpi_run() that writes its results to tensors of the caller.
 *
 * @param mpi           of rank 0
 * @param inputs        as for dhow_mpi_run()
 * @param input_count   of inputs: as many as the model has
 * @param outputs       in the model's order: contiguous CPU tensors of the results' shapes and
 * dtypes; undefined on errors
 * @param output_count  of outputs: as many as the model has
 * @return as dhow_mpi_run()
 *
 * Threads: externally synchronized. Blocks: as dhow_mpi_run().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_run_into(dhow_mpi *mpi, dhow_tensor *const *inputs,
                                                      uint32_t input_count,
                                                      dhow_tensor *const *outputs,
                                                      uint32_t output_count);

/**
 * Computes what rank 0 sends.
 *
 * @param mpi  of another rank than 0
 * @return OK when rank 0 has released its handle; TIMED_OUT when rank 0 is silent
 *
 * Threads: externally synchronized. Blocks: until then.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_serve(dhow_mpi *mpi);

/**
 * The ranks as processes that train the model together; a dhow_mpi serves either this or
 * dhow_mpi_run(). Every rank makes its trainer with it and steps with its own part of each batch,
 * which may be of any size, also without samples:
 *
 *     dhow_mpi_create(MPI_COMM_WORLD, model, NULL, &m);
 *     dhow_mpi_process_group(m, &group);
 *     dhow_trainer_create(model, &DHOW_INIT(dhow_trainer_options, .process_group = &group), &t);
 *
 * Sums of few numbers go by way of rank 0, which adds in the order of ranks, others round a ring,
 * see dhow_mpi_options.ring_bytes; all ranks get the same bits. A rank that is silent is told to
 * all others as TIMED_OUT, with its number and machine; the sums are at an end then, and the
 * program goes on from its last checkpoint with the ranks that are left, or with none.
 *
 * @param mpi  of any rank
 * @param out  filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Ownership: the group is used while the trainer lives, and the dhow_mpi lives longer. Threads:
 * externally synchronized. Blocks: no; steps until all ranks make them, for a silent rank no longer
 * than the timeout.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_process_group(dhow_mpi *mpi, dhow_process_group *out);

/**
 * Releases the handle; rank 0's ends the service of all others.
 *
 * @param mpi  NULL is allowed
 *
 * Threads: one, once. Blocks: until what was sent has arrived, for a silent rank no longer than the
 * timeout.
 */
DHOW_API void dhow_mpi_release(dhow_mpi *mpi);

/**
 * How many ranks there are.
 *
 * @param mpi  of any rank; NULL or what is no handle gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_mpi_member_count(const dhow_mpi *mpi);

/**
 * One of the ranks.
 *
 * @param mpi   of rank 0; others do not follow shares, rates and failures
 * @param rank  below dhow_mpi_member_count()
 * @param out   filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Threads: not while a run is under way. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mpi_member_at(const dhow_mpi *mpi, uint32_t rank,
                                                       dhow_mpi_member *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_MPI_H_ */
