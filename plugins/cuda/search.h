/* SPDX-License-Identifier: Apache-2.0
 *
 * The folders where toolkits, Conda and pip put NVIDIA's libraries and headers.
 */
#ifndef DHOW_CUDA_SEARCH_H_
#define DHOW_CUDA_SEARCH_H_

#include <stdbool.h>
#include <stddef.h>

#include "dhow/plugin.h"

enum { DHOWI_CUDA_PATH_BYTES = 512, DHOWI_CUDA_FOLDERS = 32 };

typedef struct dhowi_cuda_folders {
    int count;
    char path[DHOWI_CUDA_FOLDERS][DHOWI_CUDA_PATH_BYTES]; /* ends in '/'; "": the loader's own */
} dhowi_cuda_folders;

/* Where a library may lie, in the order to try. `beside` is a file of this installation, in whose
 * site-packages wheels of NVIDIA may lie. */
void dhowi_cuda_library_folders(const dhow_host *host, const char *beside, dhowi_cuda_folders *out);
/* Whether the loader's cache, /etc/ld.so.cache, has a library, and its path. */
bool dhowi_cuda_in_loader_cache(const char *cache, const char *library, char *out, size_t bytes);
/* The folder of cuda_fp16.h without a '/' at its end; `nvrtc` is the file of NVRTC, whose own
 * headers come first. */
bool dhowi_cuda_header_folder(const dhow_host *host, const char *nvrtc, char *out, size_t bytes);

#endif /* DHOW_CUDA_SEARCH_H_ */
