/* SPDX-License-Identifier: Apache-2.0
 *
 * See cudnn.h.
 */
#include "cudnn.h"

#include <stdio.h>
#include <string.h>

#define SYMBOL_(type, member, symbol) symbol,
static const char *const k_symbols[] = {DHOWI_CUDNN_FUNCTIONS(SYMBOL_) NULL};
#undef SYMBOL_
enum { SYMBOLS = sizeof k_symbols / sizeof k_symbols[0] - 1 };
_Static_assert(offsetof(dhowi_cuda_cudnn, handle) == SYMBOLS * sizeof(void *), "functions first");

/* Short memory, or a fault of its own, which may not come again. */
static bool is_passing(int result) { return result >= DNN_INTERNAL_ERROR; }

/* Of the libraries that are there, the first that starts: one for a later CUDA than the driver's
 * does not. */
static int32_t start(dhowi_cuda_device *device, dhowi_cuda_cudnn *dnn, dhow_error *err) {
    void *found[SYMBOLS];
    char why[400], refusal[64] = "";
    while (dhowi_cuda_library_open(device->host, DHOWI_CUDA_CUDNN, k_symbols, found, why,
                                   sizeof why)) {
        memcpy(dnn, found, sizeof found);
        const int result = dnn->create(&dnn->handle);
        if (result == 0) return DHOW_OK;
        (void)snprintf(refusal, sizeof refusal, "%.63s", dnn->status_name(result));
        if (is_passing(result))
            return dhowi_cuda_refuse(err, DHOW_UNAVAILABLE, "%s: cuDNN does not start: %s",
                                     device->name, refusal);
        dhowi_cuda_library_reject(DHOWI_CUDA_CUDNN, found[0]);
    }
    if (refusal[0] == '\0')
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: no cuDNN: %s", device->name, why);
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                             "%s: cuDNN does not start: %s; install cuDNN 9 for the CUDA version "
                             "that nvidia-smi shows, or name its folder in DHOW_CUDA_LIBRARY_PATH",
                             device->name, refusal);
}

static int32_t open_once(dhowi_cuda_device *device, dhow_error *err) {
    if (device->cudnn != NULL) return DHOW_OK;
    if (device->no_cudnn)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: no cuDNN", device->name);
    dhowi_cuda_cudnn *dnn = dhowi_cuda_new(device->host, sizeof *dnn);
    if (dnn == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    const int32_t status = start(device, dnn, err);
    if (status != DHOW_OK) {
        dhowi_cuda_delete(device->host, dnn);
        device->no_cudnn = status == DHOW_UNSUPPORTED;
        device->host->log(device->host->user, DHOW_LOG_INFO, err->message);
        return status;
    }
    (void)pthread_mutex_init(&dnn->lock, NULL);
    device->cudnn = dnn;
    return DHOW_OK;
}

int32_t dhowi_cuda_cudnn_of(dhowi_cuda_device *device, dhowi_cuda_cudnn **out, dhow_error *err) {
    (void)pthread_mutex_lock(&device->cudnn_lock);
    const int32_t status = open_once(device, err);
    *out = device->cudnn;
    (void)pthread_mutex_unlock(&device->cudnn_lock);
    return status;
}

void dhowi_cuda_cudnn_end(dhowi_cuda_device *device, bool alive) {
    dhowi_cuda_cudnn *dnn = device->cudnn;
    if (dnn == NULL) return;
    if (alive) (void)dnn->destroy(dnn->handle);
    (void)pthread_mutex_destroy(&dnn->lock);
    dhowi_cuda_delete(device->host, dnn);
    device->cudnn = NULL;
}
