/* SPDX-License-Identifier: Apache-2.0
 *
 * See driver.h. The driver's library is asked itself: the runtime's look-up starts the runtime,
 * which may open the first GPU, and says of every failure the same.
 */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* As of CUDA 12; its name in cuda.h is a macro's. */
typedef CUresult look_up_fn(const char *symbol, void **function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *result);

dhowi_cu_driver dhowi_cu;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static bool g_loaded;

/* A function pointer and an object pointer of POSIX have one size; C says nothing about a cast. */
static CUresult find(look_up_fn *look_up, const char *symbol, int version, void *slot) {
    void *address = NULL;
    CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult code = look_up(symbol, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &result);
    if (code == CUDA_SUCCESS && (result != CU_GET_PROC_ADDRESS_SUCCESS || address == NULL))
        code = CUDA_ERROR_NOT_FOUND;
    if (code != CUDA_SUCCESS) address = NULL;
    memcpy(slot, &address, sizeof address);
    return code;
}

/* The library stays open, as the runtime keeps it. */
static look_up_fn *open_driver(char *why, size_t why_bytes) {
    look_up_fn *look_up = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *text = dlerror();
        (void)snprintf(why, why_bytes, "%.300s", text != NULL ? text : "no libcuda.so.1");
        return NULL;
    }
    void *address = dlsym(library, "cuGetProcAddress_v2");
    if (address == NULL)
        (void)snprintf(why, why_bytes,
                       "the driver has no cuGetProcAddress_v2; update it to R525 or later");
    memcpy(&look_up, &address, sizeof look_up);
    return look_up;
}

static CUresult find_all(look_up_fn *look_up, char *why, size_t why_bytes) {
    CUresult code = CUDA_SUCCESS;
    const char *missing = NULL;
#define REQUIRE_(name, symbol, version)                        \
    if (code == CUDA_SUCCESS) {                                \
        code = find(look_up, symbol, version, &dhowi_cu.name); \
        if (code != CUDA_SUCCESS) missing = symbol;            \
    }
    DHOWI_CU_REQUIRED(REQUIRE_)
#undef REQUIRE_
#define TRY_(name, symbol, version) (void)find(look_up, symbol, version, &dhowi_cu.name);
    if (code == CUDA_SUCCESS) {
        DHOWI_CU_OPTIONAL(TRY_)
    }
#undef TRY_
    if (code == CUDA_ERROR_NOT_FOUND) {
        (void)snprintf(why, why_bytes, "the driver has no %s; update it to R525 or later", missing);
    } else if (code != CUDA_SUCCESS) {
        (void)snprintf(why, why_bytes, "looking for the driver's %s", missing);
    }
    return code;
}

CUresult dhowi_cu_driver_load(char *why, size_t why_bytes) {
    CUresult code = CUDA_SUCCESS;
    (void)pthread_mutex_lock(&g_lock);
    if (!g_loaded) {
        look_up_fn *look_up = open_driver(why, why_bytes);
        code = look_up != NULL ? find_all(look_up, why, why_bytes) : CUDA_ERROR_NOT_FOUND;
        g_loaded = code == CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&g_lock);
    return code;
}
