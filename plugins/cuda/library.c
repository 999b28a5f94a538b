/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's libraries beside the runtime. They are large - cuBLASLt takes half a second and 150 MB -
 * so each is opened when it is first needed, under its full name, newest version first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_plugin.h"

typedef struct vendor_library {
    const char *file[2]; /* newest first */
    const char *package; /* what a person installs */
} vendor_library;

static const vendor_library k_libraries[DHOWI_CUDA_LIBRARIES] = {
    [DHOWI_CUDA_CUBLASLT] = {{"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLAS (libcublas)"},
    [DHOWI_CUDA_CUBLAS] = {{"libcublas.so.13", "libcublas.so.12"}, "cuBLAS (libcublas)"},
    [DHOWI_CUDA_NVRTC] = {{"libnvrtc.so.13", "libnvrtc.so.12"}, "NVRTC (cuda-nvrtc)"},
    [DHOWI_CUDA_NVML] = {{"libnvidia-ml.so.1", NULL}, "the NVIDIA driver"}};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static void *g_handles[DHOWI_CUDA_LIBRARIES];

enum { PATH_BYTES = 512, PLACES = 4 };

/* The folders tried, in order; "" leaves the search to the loader. */
static int places(const dhow_host *host, char (*out)[PATH_BYTES]) {
    static const char *const variables[] = {"DHOW_CUDA_LIBRARY_PATH", "CUDA_HOME"};
    int count = 0;
    const char *own = host->env(host->user, variables[0]);
    if (own != NULL && own[0] == '/') (void)snprintf(out[count++], PATH_BYTES, "%s/", own);
    out[count++][0] = '\0';
    const char *toolkit = host->env(host->user, variables[1]);
    if (toolkit != NULL && toolkit[0] == '/')
        (void)snprintf(out[count++], PATH_BYTES, "%s/lib64/", toolkit);
    (void)snprintf(out[count++], PATH_BYTES, "/usr/local/cuda/lib64/");
    return count;
}

static void *open_somewhere(const dhow_host *host, dhowi_cuda_library_id id, char *why,
                            size_t why_bytes) {
    char folders[PLACES][PATH_BYTES], path[PATH_BYTES + 64];
    const vendor_library *library = &k_libraries[id];
    const int count = places(host, folders);
    char first[PATH_BYTES] = "";
    for (int version = 0; version < 2 && library->file[version] != NULL; version++) {
        for (int i = 0; i < count; i++) {
            (void)snprintf(path, sizeof path, "%.511s%s", folders[i], library->file[version]);
            void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (handle != NULL) return handle;
            const char *text = dlerror();
            /* "No such file" of a later place tells less than what the loader itself said. */
            if (first[0] == '\0')
                (void)snprintf(first, sizeof first, "%.200s", text != NULL ? text : path);
        }
    }
    (void)snprintf(why, why_bytes, "%s; install %s, or name its folder in DHOW_CUDA_LIBRARY_PATH",
                   first, library->package);
    return NULL;
}

bool dhowi_cuda_library_open(const dhow_host *host, dhowi_cuda_library_id id,
                             const char *const *symbols, void **functions, char *why,
                             size_t why_bytes) {
    bool complete = false;
    why[0] = '\0';
    (void)pthread_mutex_lock(&g_lock);
    if (g_handles[id] == NULL) g_handles[id] = open_somewhere(host, id, why, why_bytes);
    if (g_handles[id] != NULL) {
        complete = true;
        for (size_t i = 0; symbols[i] != NULL && complete; i++) {
            functions[i] = dlsym(g_handles[id], symbols[i]);
            complete = functions[i] != NULL;
            if (!complete)
                (void)snprintf(why, why_bytes, "%s has no %s; update %s", k_libraries[id].file[0],
                               symbols[i], k_libraries[id].package);
        }
    }
    (void)pthread_mutex_unlock(&g_lock);
    return complete;
}

/* What the loader would find, without opening it: the folders that it searches for this plugin. */
static bool in_search_path(const dhow_host *host, const char *file, char *where,
                           size_t where_bytes) {
    Dl_info self;
    Dl_serinfo sizes, *list = NULL;
    bool found = false;
    void *own =
        dladdr(&g_lock, &self) != 0 ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (own == NULL) return false;
    if (dlinfo(own, RTLD_DI_SERINFOSIZE, &sizes) == 0) list = dhowi_cuda_new(host, sizes.dls_size);
    if (list != NULL && dlinfo(own, RTLD_DI_SERINFOSIZE, list) == 0 &&
        dlinfo(own, RTLD_DI_SERINFO, list) == 0) {
        for (unsigned i = 0; i < list->dls_cnt && !found; i++) {
            (void)snprintf(where, where_bytes, "%s/%s", list->dls_serpath[i].dls_name, file);
            found = access(where, R_OK) == 0;
        }
    }
    dhowi_cuda_delete(host, list);
    (void)dlclose(own);
    return found;
}

bool dhowi_cuda_library_locate(const dhow_host *host, dhowi_cuda_library_id id, char *where,
                               size_t where_bytes) {
    char folders[PLACES][PATH_BYTES];
    const vendor_library *library = &k_libraries[id];
    const int count = places(host, folders);
    for (int version = 0; version < 2 && library->file[version] != NULL; version++) {
        for (int i = 0; i < count; i++) {
            (void)snprintf(where, where_bytes, "%.511s%s", folders[i], library->file[version]);
            if (folders[i][0] == '\0'
                    ? in_search_path(host, library->file[version], where, where_bytes)
                    : access(where, R_OK) == 0)
                return true;
        }
    }
    (void)snprintf(where, where_bytes, "%s not found; install %s, or set DHOW_CUDA_LIBRARY_PATH",
                   library->file[0], library->package);
    return false;
}
