/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of kernels, which live as long as their device.
 */
#include <string.h>

#include "cuda_plugin.h"

const char *dhowi_cuda_keep_name(dhowi_cuda_device *device, const char *name) {
    (void)pthread_mutex_lock(&device->lock);
    dhowi_cuda_name *kept = device->names;
    while (kept != NULL && strcmp(kept->text, name) != 0) kept = kept->next;
    if (kept == NULL) {
        const size_t bytes = strlen(name) + 1;
        kept = dhowi_cuda_new(device->host, sizeof *kept + bytes);
        if (kept != NULL) {
            memcpy(kept->text, name, bytes);
            kept->next = device->names;
            device->names = kept;
        }
    }
    (void)pthread_mutex_unlock(&device->lock);
    return kept != NULL ? kept->text : "?";
}
