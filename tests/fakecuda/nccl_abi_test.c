/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin's own declarations of NCCL against NVIDIA's header, where that is installed: every
 * number at compile time, every function by its arguments. Where the library lies beside it, its
 * functions are there by name, and it makes an id, which takes no GPU.
 */
#include "plugins/cuda/nccl_abi.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>

_Static_assert(NCCL_MAJOR == 2, "this is a header of another NCCL");
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_INT32, ncclInt32);
SAME(NCCL_INT64, ncclInt64);
SAME(NCCL_FLOAT16, ncclFloat16);
SAME(NCCL_FLOAT32, ncclFloat32);
SAME(NCCL_FLOAT64, ncclFloat64);
SAME(NCCL_BFLOAT16, ncclBfloat16);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(NCCL_OLDEST, NCCL_VERSION(2, 14, 0));
SAME(NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
SAME(sizeof(nccl_id), sizeof(ncclUniqueId));
#define AT_SAME(member) \
    _Static_assert(offsetof(nccl_config, member) == offsetof(ncclConfig_t, member), #member)
AT_SAME(size);
AT_SAME(magic);
AT_SAME(version);
AT_SAME(blocking);

/* Never called: the compiler compares the arguments with the prototype. */
#define TAKES(function, ...)                                    \
    static void check_##function(void) {                        \
        __typeof__(function(__VA_ARGS__)) (*take)(void) = NULL; \
        (void)take;                                             \
    }
#define COMM ((ncclComm_t)0)
#define STREAM ((cudaStream_t)0)
#define FROM ((const void *)0)
#define TO ((void *)0)
#define COUNT ((size_t)0)
static const ncclConfig_t g_config = NCCL_CONFIG_INITIALIZER;
#define ID ((ncclUniqueId){{0}})
TAKES(ncclGetVersion, (int *)0)
TAKES(ncclGetUniqueId, (ncclUniqueId *)0)
TAKES(ncclCommInitAll, (ncclComm_t *)0, 0, (const int *)0)
TAKES(ncclCommInitRankConfig, (ncclComm_t *)0, 0, ID, 0, (ncclConfig_t *)0)
TAKES(ncclCommFinalize, COMM)
TAKES(ncclCommDestroy, COMM)
TAKES(ncclCommAbort, COMM)
TAKES(ncclGetErrorString, ncclSuccess)
TAKES(ncclGetLastError, COMM)
TAKES(ncclCommGetAsyncError, COMM, (ncclResult_t *)0)
TAKES(ncclGroupStart, )
TAKES(ncclGroupEnd, )
TAKES(ncclAllReduce, FROM, TO, COUNT, ncclFloat32, ncclSum, COMM, STREAM)
TAKES(ncclReduce, FROM, TO, COUNT, ncclFloat32, ncclSum, 0, COMM, STREAM)
TAKES(ncclBroadcast, FROM, TO, COUNT, ncclFloat32, 0, COMM, STREAM)
TAKES(ncclAllGather, FROM, TO, COUNT, ncclFloat32, COMM, STREAM)
TAKES(ncclReduceScatter, FROM, TO, COUNT, ncclFloat32, ncclSum, COMM, STREAM)

static int look_at_library(void) {
#define SYMBOL_(type, member, symbol) symbol,
    static const char *const symbols[] = {DHOWI_NCCL_FUNCTIONS(SYMBOL_) NULL};
    void *library = dlopen(FAKE_NCCL_FILE, RTLD_NOW | RTLD_LOCAL);
    nccl_version_fn *get_version;
    nccl_unique_id_fn *unique_id;
    nccl_id id;
    int version = 0;
    if (library == NULL) return 1;
    for (size_t i = 0; symbols[i] != NULL; i++) {
        if (dlsym(library, symbols[i]) != NULL) continue;
        (void)printf("%s has no %s\n", FAKE_NCCL_FILE, symbols[i]);
        return 0;
    }
    *(void **)&get_version = dlsym(library, "ncclGetVersion");
    *(void **)&unique_id = dlsym(library, "ncclGetUniqueId");
    const int asked = get_version(&version), made = unique_id(&id);
    (void)printf("%s is version %d, an id: %d\n", FAKE_NCCL_FILE, version, made);
    return asked == NCCL_SUCCESS && version >= NCCL_OLDEST && made == NCCL_SUCCESS;
}

int main(void) {
    check_ncclGetVersion();
    check_ncclGetUniqueId();
    check_ncclCommInitAll();
    check_ncclCommInitRankConfig();
    check_ncclCommFinalize();
    check_ncclCommDestroy();
    check_ncclCommAbort();
    check_ncclGetErrorString();
    check_ncclGetLastError();
    check_ncclCommGetAsyncError();
    check_ncclGroupStart();
    check_ncclGroupEnd();
    check_ncclAllReduce();
    check_ncclReduce();
    check_ncclBroadcast();
    check_ncclAllGather();
    check_ncclReduceScatter();
    if (g_config.magic != NCCL_CONFIG_MAGIC || !look_at_library()) return 1;
    (void)printf("%zu bytes of a configuration, NCCL %d.%d\n", sizeof g_config, NCCL_MAJOR,
                 NCCL_MINOR);
    return 0;
}
