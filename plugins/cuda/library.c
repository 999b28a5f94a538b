/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's libraries beside the runtime. They are large - cuBLASLt takes half a second and 150 MB -
 * so each is opened when it is first needed, under its full name, that of the driver's version
 * first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_plugin.h"
#include "search.h"

typedef struct vendor_library {
    const char *file[2]; /* newest first */
    const char *package; /* what a person installs */
} vendor_library;

static const vendor_library k_libraries[DHOWI_CUDA_LIBRARIES] = {
    [DHOWI_CUDA_CUBLASLT] = {{"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLAS (libcublas)"},
    [DHOWI_CUDA_CUBLAS] = {{"libcublas.so.13", "libcublas.so.12"}, "cuBLAS (libcublas)"},
    [DHOWI_CUDA_NVRTC] = {{"libnvrtc.so.13", "libnvrtc.so.12"}, "NVRTC (cuda-nvrtc)"},
    [DHOWI_CUDA_NVML] = {{"libnvidia-ml.so.1", NULL}, "the NVIDIA driver"},
    [DHOWI_CUDA_CUDNN] = {{"libcudnn.so.9", NULL}, "cuDNN 9 (libcudnn9)"},
    [DHOWI_CUDA_NCCL] = {{"libnccl.so.2", NULL}, "NCCL 2.14 or later (libnccl2)"}};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of each library, under the lock. */
static struct {
    void *handle;
    void *first;    /* its first function: which library a caller has */
    int at;         /* the place in the order of candidates where it was found */
    int next;       /* the candidate to go on with */
    void *rejected; /* the last one that did not start */
} g_open[DHOWI_CUDA_LIBRARIES];

static void folders_of(const dhow_host *host, dhowi_cuda_folders *out) {
    Dl_info self;
    dhowi_cuda_library_folders(host, dladdr(&g_lock, &self) != 0 ? self.dli_fname : NULL, out);
}

/* The names to try. A library of a later major than the driver's does not start, so that one of the
 * driver's own comes first. */
static int files_of(dhowi_cuda_library_id id, const char **out) {
    const vendor_library *library = &k_libraries[id];
    int driver = 0;
    out[0] = library->file[0];
    if (library->file[1] == NULL) return 1;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) (void)cudaGetLastError();
    const bool older = driver / 1000 == 12;
    out[0] = library->file[older ? 1 : 0];
    out[1] = library->file[older ? 0 : 1];
    return 2;
}

static void *open_somewhere(const dhow_host *host, dhowi_cuda_library_id id, char *why,
                            size_t why_bytes) {
    dhowi_cuda_folders folders;
    char path[DHOWI_CUDA_PATH_BYTES + 64], first[DHOWI_CUDA_PATH_BYTES] = "";
    const char *files[2];
    folders_of(host, &folders);
    const int candidates = files_of(id, files) * folders.count;
    /* Who names a folder wants what lies there, even where it does not start. */
    const bool only_named = g_open[id].next > 0 && folders.path[0][0] != '\0';
    for (int n = g_open[id].next; n < candidates; n++) {
        if (only_named && n % folders.count != 0) continue;
        (void)snprintf(path, sizeof path, "%.511s%s", folders.path[n % folders.count],
                       files[n / folders.count]);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL && handle != g_open[id].rejected) {
            g_open[id].at = n;
            return handle;
        }
        const char *text = handle == NULL ? dlerror() : NULL;
        if (handle != NULL) (void)dlclose(handle);
        /* "No such file" of a later place tells less than what the loader itself said. */
        if (first[0] == '\0')
            (void)snprintf(first, sizeof first, "%.200s", text != NULL ? text : path);
    }
    g_open[id].next = 0;
    g_open[id].rejected = NULL;
    (void)snprintf(why, why_bytes, "%s; install %s, or name its folder in DHOW_CUDA_LIBRARY_PATH",
                   first, k_libraries[id].package);
    return NULL;
}

bool dhowi_cuda_library_open(const dhow_host *host, dhowi_cuda_library_id id,
                             const char *const *symbols, void **functions, char *why,
                             size_t why_bytes) {
    bool complete = false;
    why[0] = '\0';
    (void)pthread_mutex_lock(&g_lock);
    if (g_open[id].handle == NULL) g_open[id].handle = open_somewhere(host, id, why, why_bytes);
    if (g_open[id].handle != NULL) {
        complete = true;
        for (size_t i = 0; symbols[i] != NULL && complete; i++) {
            functions[i] = dlsym(g_open[id].handle, symbols[i]);
            complete = functions[i] != NULL;
            if (!complete)
                (void)snprintf(why, why_bytes, "%s has no %s; update %s", k_libraries[id].file[0],
                               symbols[i], k_libraries[id].package);
        }
        g_open[id].first = complete ? functions[0] : NULL;
    }
    (void)pthread_mutex_unlock(&g_lock);
    return complete;
}

void dhowi_cuda_library_reject(dhowi_cuda_library_id id, const void *function) {
    (void)pthread_mutex_lock(&g_lock);
    if (g_open[id].handle != NULL && g_open[id].first == function) {
        g_open[id].next = g_open[id].at + 1;
        g_open[id].rejected = g_open[id].handle;
        g_open[id].handle = NULL; /* and stays in memory: another device may use it */
    }
    (void)pthread_mutex_unlock(&g_lock);
}

void dhowi_cuda_library_file(dhowi_cuda_library_id id, char *out, size_t bytes) {
    Dl_info info;
    (void)pthread_mutex_lock(&g_lock);
    const bool found = g_open[id].first != NULL && dladdr(g_open[id].first, &info) != 0;
    (void)snprintf(out, bytes, "%s", found ? info.dli_fname : "");
    (void)pthread_mutex_unlock(&g_lock);
}

/* What the loader would find, without opening it: in the folders that it searches for this plugin,
 * and in those of its cache, whose libraries have to be there still. */
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
    return found || (dhowi_cuda_in_loader_cache("/etc/ld.so.cache", file, where, where_bytes) &&
                     access(where, R_OK) == 0);
}

bool dhowi_cuda_library_locate(const dhow_host *host, dhowi_cuda_library_id id, char *where,
                               size_t where_bytes) {
    dhowi_cuda_folders folders;
    const char *files[2];
    folders_of(host, &folders);
    const int candidates = files_of(id, files) * folders.count;
    for (int n = 0; n < candidates; n++) {
        const char *folder = folders.path[n % folders.count];
        const char *file = files[n / folders.count];
        (void)snprintf(where, where_bytes, "%.511s%s", folder, file);
        if (folder[0] == '\0' ? in_search_path(host, file, where, where_bytes)
                              : access(where, R_OK) == 0)
            return true;
    }
    (void)snprintf(where, where_bytes, "%s not found; install %s, or set DHOW_CUDA_LIBRARY_PATH",
                   files[0], k_libraries[id].package);
    return false;
}
