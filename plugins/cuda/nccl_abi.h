/* SPDX-License-Identifier: Apache-2.0
 *
 * What is used of NCCL 2, declared here as vendor_abi.h declares cuBLASLt. Communicators are
 * pointers, enumerations ints. tests/fakecuda/nccl_abi_test.c compares all of it with NVIDIA's
 * header where that is installed.
 */
#ifndef DHOW_CUDA_NCCL_ABI_H_
#define DHOW_CUDA_NCCL_ABI_H_

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stddef.h>

enum { /* ncclResult_t */
       NCCL_SUCCESS = 0,
       NCCL_UNHANDLED_CUDA_ERROR = 1,
       NCCL_SYSTEM_ERROR = 2,
       NCCL_INTERNAL_ERROR = 3,
       NCCL_INVALID_ARGUMENT = 4,
       NCCL_INVALID_USAGE = 5,
       NCCL_REMOTE_ERROR = 6,
       NCCL_IN_PROGRESS = 7
};
enum { /* ncclDataType_t */
       NCCL_INT32 = 2,
       NCCL_INT64 = 4,
       NCCL_FLOAT16 = 6,
       NCCL_FLOAT32 = 7,
       NCCL_FLOAT64 = 8,
       NCCL_BFLOAT16 = 9
};
enum { NCCL_SUM = 0 }; /* ncclRedOp_t */
enum { NCCL_ID_BYTES = 128, NCCL_OLDEST = 21400, NCCL_UNDEFINED = INT_MIN };
#define NCCL_CONFIG_MAGIC 0xcafebeefu

typedef struct nccl_id { /* ncclUniqueId, passed by value */
    char internal[NCCL_ID_BYTES];
} nccl_id;

/* ncclConfig_t as it was in NCCL 2.14: later ones read its `size`, and take their defaults for the
 * rest. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} nccl_config;

typedef struct nccl_native *nccl_comm; /* ncclComm_t */

typedef int nccl_version_fn(int *version);
typedef int nccl_unique_id_fn(nccl_id *out);
typedef int nccl_init_all_fn(nccl_comm *out, int count, const int *devices);
typedef int nccl_init_rank_fn(nccl_comm *out, int size, nccl_id id, int rank, nccl_config *config);
typedef int nccl_comm_fn(nccl_comm comm); /* finalize, destroy, abort */
typedef const char *nccl_error_text_fn(int result);
typedef const char *nccl_last_error_fn(nccl_comm comm);
typedef int nccl_async_error_fn(nccl_comm comm, int *out);
typedef int nccl_group_fn(void); /* begin, end */
typedef int nccl_all_reduce_fn(const void *in, void *out, size_t count, int type, int op,
                               nccl_comm comm, cudaStream_t stream); /* and reduce_scatter */
typedef int nccl_reduce_fn(const void *in, void *out, size_t count, int type, int op, int root,
                           nccl_comm comm, cudaStream_t stream);
typedef int nccl_broadcast_fn(const void *in, void *out, size_t count, int type, int root,
                              nccl_comm comm, cudaStream_t stream);
typedef int nccl_all_gather_fn(const void *in, void *out, size_t count, int type, nccl_comm comm,
                               cudaStream_t stream);

/* X(type, member, symbol) in the order of the symbols */
#define DHOWI_NCCL_FUNCTIONS(X)                                  \
    X(nccl_version_fn, get_version, "ncclGetVersion")            \
    X(nccl_unique_id_fn, unique_id, "ncclGetUniqueId")           \
    X(nccl_init_all_fn, init_all, "ncclCommInitAll")             \
    X(nccl_init_rank_fn, init_rank, "ncclCommInitRankConfig")    \
    X(nccl_comm_fn, finalize, "ncclCommFinalize")                \
    X(nccl_comm_fn, destroy, "ncclCommDestroy")                  \
    X(nccl_comm_fn, abort, "ncclCommAbort")                      \
    X(nccl_error_text_fn, error_text, "ncclGetErrorString")      \
    X(nccl_last_error_fn, last_error, "ncclGetLastError")        \
    X(nccl_async_error_fn, async_error, "ncclCommGetAsyncError") \
    X(nccl_group_fn, group_begin, "ncclGroupStart")              \
    X(nccl_group_fn, group_end, "ncclGroupEnd")                  \
    X(nccl_all_reduce_fn, all_reduce, "ncclAllReduce")           \
    X(nccl_reduce_fn, reduce, "ncclReduce")                      \
    X(nccl_broadcast_fn, broadcast, "ncclBroadcast")             \
    X(nccl_all_gather_fn, all_gather, "ncclAllGather")           \
    X(nccl_all_reduce_fn, reduce_scatter, "ncclReduceScatter")

#endif /* DHOW_CUDA_NCCL_ABI_H_ */
