/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the OpenCL loader and looks its functions up.
 */
#include "symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

dhowi_cl_symbols dhowi_cl;

static const struct {
    const char *name;
    size_t offset;
} symbol_table[] = {
#define DHOWI_CL_ROW_(name) {"cl" #name, offsetof(dhowi_cl_symbols, name)},
    DHOWI_CL_SYMBOLS(DHOWI_CL_ROW_)
#undef DHOWI_CL_ROW_
};

static dhowi_cl_load_result load_locked(const char *soname, char *why, size_t why_bytes) {
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *text = dlerror();
        snprintf(why, why_bytes, "%s", text != NULL ? text : soname);
        return DHOWI_CL_NO_LIBRARY;
    }
    dhowi_cl_symbols found;
    memset(&found, 0, sizeof found);
    for (size_t i = 0; i < sizeof symbol_table / sizeof symbol_table[0]; i++) {
        void *address = dlsym(library, symbol_table[i].name);
        if (address == NULL) {
            snprintf(why, why_bytes, "%s has no %s", soname, symbol_table[i].name);
            return DHOWI_CL_NO_SYMBOL;
        }
        /* ISO C has no cast from object to function pointers; POSIX gives them one representation.
         */
        memcpy((char *)&found + symbol_table[i].offset, &address, sizeof address);
    }
    dhowi_cl = found;
    return DHOWI_CL_LOADED;
}

dhowi_cl_load_result dhowi_cl_load(const char *soname, char *why, size_t why_bytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    dhowi_cl_load_result result = loaded ? DHOWI_CL_LOADED : load_locked(soname, why, why_bytes);
    loaded = result == DHOWI_CL_LOADED;
    pthread_mutex_unlock(&lock);
    return result;
}
