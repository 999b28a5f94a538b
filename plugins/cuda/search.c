/* SPDX-License-Identifier: Apache-2.0
 *
 * See search.h.
 */
#include "search.h"

#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Left out are those that are cut short, are there already, or are too many. */
__attribute__((format(printf, 2, 3))) static void add(dhowi_cuda_folders *out, const char *format,
                                                      ...) {
    if (out->count == DHOWI_CUDA_FOLDERS) return;
    char *path = out->path[out->count];
    va_list list;
    va_start(list, format);
    const int used = vsnprintf(path, DHOWI_CUDA_PATH_BYTES, format, list);
    va_end(list);
    if (used < 0 || used >= DHOWI_CUDA_PATH_BYTES) return;
    for (int i = 0; i < out->count; i++) {
        if (strcmp(out->path[i], path) == 0) return;
    }
    out->count++;
}

/* Those that are there, the latest name first: cuda-12.9 before cuda-12.8. */
static void add_matching(dhowi_cuda_folders *out, const char *pattern) {
    glob_t found;
    if (glob(pattern, GLOB_MARK | GLOB_ONLYDIR, NULL, &found) != 0) return;
    for (size_t i = found.gl_pathc; i-- > 0;) add(out, "%s", found.gl_pathv[i]);
    globfree(&found);
}

/* A folder by its full name out of the environment, or NULL. */
static const char *named(const dhow_host *host, const char *variable) {
    const char *value = host->env(host->user, variable);
    return value != NULL && value[0] == '/' ? value : NULL;
}

/* Wheels of NVIDIA: one folder for all libraries since CUDA 13, one for each before. */
static void add_wheels(dhowi_cuda_folders *out, const char *site_packages) {
    static const char *const names[] = {"cu[0-9]*", "cublas", "cuda_nvrtc", "cudnn", "nccl"};
    char pattern[DHOWI_CUDA_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int used =
            snprintf(pattern, sizeof pattern, "%s/nvidia/%s/lib", site_packages, names[i]);
        if (used > 0 && (size_t)used < sizeof pattern) add_matching(out, pattern);
    }
}

static void add_environment(dhowi_cuda_folders *out, const char *prefix) {
    char pattern[DHOWI_CUDA_PATH_BYTES];
    if (prefix == NULL) return;
    const int used = snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages", prefix);
    if (used > 0 && (size_t)used < sizeof pattern) add_wheels(out, pattern);
}

void dhowi_cuda_library_folders(const dhow_host *host, const char *beside,
                                dhowi_cuda_folders *out) {
    static const char *const toolkits[] = {"CUDA_HOME", "CUDA_PATH"};
    const char *own = named(host, "DHOW_CUDA_LIBRARY_PATH"), *conda = named(host, "CONDA_PREFIX");
    out->count = 0;
    if (own != NULL) add(out, "%s/", own);
    add(out, "%s", "");
    for (size_t i = 0; i < sizeof toolkits / sizeof toolkits[0]; i++) {
        const char *toolkit = named(host, toolkits[i]);
        if (toolkit != NULL) add(out, "%s/lib64/", toolkit);
    }
    /* An installed dhow uses the wheels beside it before those of other environments. */
    const char *packages = beside != NULL ? strstr(beside, "/site-packages/") : NULL;
    if (packages != NULL) {
        char folder[DHOWI_CUDA_PATH_BYTES];
        const size_t length = (size_t)(packages - beside) + strlen("/site-packages");
        if (length < sizeof folder) {
            memcpy(folder, beside, length);
            folder[length] = '\0';
            add_wheels(out, folder);
        }
    }
    add_environment(out, named(host, "VIRTUAL_ENV"));
    if (conda != NULL) {
        add(out, "%s/lib/", conda);
        add_environment(out, conda);
    }
    add(out, "/usr/local/cuda/lib64/");
    add_matching(out, "/usr/local/cuda-1[2-9]*/lib64");
    add(out, "/opt/cuda/lib64/");
}

/* ---- the loader's cache ---- */

/* Among other things it has the paths of libraries, each ended by a 0. */
static bool find_path(const char *text, size_t length, const char *library, char *out,
                      size_t bytes) {
    const size_t name = strlen(library) + 1; /* with the 0 */
    const char *end = text + length;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), library, name)) != NULL;
         at++) {
        const char *begin = at;
        while (begin > text && begin[-1] != '\0') begin--;
        if (*begin != '/' || at[-1] != '/') continue;
        const int used = snprintf(out, bytes, "%s", begin);
        if (used > 0 && (size_t)used < bytes) return true;
    }
    return false;
}

bool dhowi_cuda_in_loader_cache(const char *cache, const char *library, char *out, size_t bytes) {
    struct stat file;
    bool found = false;
    const int fd = open(cache, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    if (fstat(fd, &file) == 0 && file.st_size > 0) {
        const size_t length = (size_t)file.st_size;
        void *text = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text != MAP_FAILED) {
            found = find_path(text, length, library, out, bytes);
            (void)munmap(text, length);
        }
    }
    (void)close(fd);
    return found;
}

/* ---- headers -------------------------------------------------------------------------------- */

static bool has_header(const char *folder) {
    char path[DHOWI_CUDA_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/cuda_fp16.h", folder);
    return access(path, R_OK) == 0;
}

__attribute__((format(printf, 3, 4))) static bool try_header(char *out, size_t bytes,
                                                             const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int used = vsnprintf(out, bytes, format, list);
    va_end(list);
    return used > 0 && (size_t)used < bytes && has_header(out);
}

bool dhowi_cuda_header_folder(const dhow_host *host, const char *nvrtc, char *out, size_t bytes) {
    static const char *const roots[] = {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"};
    const char *slash = nvrtc != NULL ? strrchr(nvrtc, '/') : NULL;
    const int length = slash != NULL ? (int)(slash - nvrtc) : 0;
    if (length > 0) {
        if (try_header(out, bytes, "%.*s/../include", length, nvrtc)) return true;
        /* pip, CUDA 12: nvidia/cuda_nvrtc/lib and nvidia/cuda_runtime/include */
        if (try_header(out, bytes, "%.*s/../../cuda_runtime/include", length, nvrtc)) return true;
    }
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        const char *root = named(host, roots[i]);
        if (root == NULL) continue;
        if (try_header(out, bytes, "%s/include", root)) return true;
        if (try_header(out, bytes, "%s/targets/x86_64-linux/include", root)) return true;
    }
    if (try_header(out, bytes, "/usr/local/cuda/include")) return true;
    if (try_header(out, bytes, "/opt/cuda/include")) return true;
    out[0] = '\0';
    return false;
}
