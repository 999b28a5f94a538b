/* SPDX-License-Identifier: Apache-2.0
 *
 * See driver.h.
 */
#include "driver.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

dhowi_cu_driver dhowi_cu;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static bool g_loaded;

/* A function pointer and an object pointer of POSIX have one size; C says nothing about a cast. */
static bool find(const char *symbol, unsigned version, void *slot) {
    void *address = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const bool found = cudaGetDriverEntryPointByVersion(
                           symbol, &address, version, cudaEnableDefault, &result) == cudaSuccess &&
                       result == cudaDriverEntryPointSuccess && address != NULL;
    if (!found) {
        address = NULL;
        (void)cudaGetLastError();
    }
    memcpy(slot, &address, sizeof address);
    return found;
}

const char *dhowi_cu_driver_load(void) {
    const char *missing = NULL;
    (void)pthread_mutex_lock(&g_lock);
    if (!g_loaded) {
#define REQUIRE_(name, symbol, version) \
    if (missing == NULL && !find(symbol, version, &dhowi_cu.name)) missing = symbol;
        DHOWI_CU_REQUIRED(REQUIRE_)
#undef REQUIRE_
#define TRY_(name, symbol, version) (void)find(symbol, version, &dhowi_cu.name);
        DHOWI_CU_OPTIONAL(TRY_)
#undef TRY_
        g_loaded = missing == NULL;
    }
    (void)pthread_mutex_unlock(&g_lock);
    return missing;
}
