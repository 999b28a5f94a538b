/* SPDX-License-Identifier: Apache-2.0
 *
 * Built programs on disk. A binary that is damaged, of another driver or refused for whatever
 * reason means building from source again. The blob carries a checksum of its own, since some
 * runtimes crash on a damaged binary.
 */
#include "cache.h"

#include <stdio.h>
#include <string.h>

typedef struct blob_head {
    uint64_t magic;
    uint64_t checksum; /* of what follows */
} blob_head;

#define BLOB_MAGIC UINT64_C(0x314c43574f484444)

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* FNV-1a mixes its upper bits poorly into the lower ones. */
static uint64_t finish_hash(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

dhowi_cl_cache_key dhowi_cl_cache_key_of(const dhowi_cl_device *device, const char *source,
                                         size_t source_bytes, const char *options) {
    static const uint64_t seeds[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x9e3779b97f4a7c15)};
    dhowi_cl_cache_key key;
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        /* Terminating zeros keep the parts apart. */
        hash[i] = hash_bytes(seeds[i], DHOW_OPENCL_VERSION, sizeof DHOW_OPENCL_VERSION);
        hash[i] = hash_bytes(hash[i], device->name, strlen(device->name) + 1);
        hash[i] = hash_bytes(hash[i], device->driver, strlen(device->driver) + 1);
        hash[i] = hash_bytes(hash[i], options, strlen(options) + 1);
        hash[i] = finish_hash(hash_bytes(hash[i], source, source_bytes));
    }
    snprintf(key.text, sizeof key.text, "opencl-%016llx%016llx", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
    return key;
}

static cl_program program_of(dhowi_cl_device *device, const unsigned char *binary, size_t bytes,
                             const char *options) {
    cl_int code = CL_SUCCESS, refused = CL_SUCCESS;
    cl_program program = dhowi_cl.CreateProgramWithBinary(device->context, 1, &device->id, &bytes,
                                                          &binary, &refused, &code);
    if (code != CL_SUCCESS || program == NULL) return NULL;
    if (refused == CL_SUCCESS &&
        dhowi_cl.BuildProgram(program, 1, &device->id, options, NULL, NULL) == CL_SUCCESS)
        return program;
    dhowi_cl.ReleaseProgram(program);
    return NULL;
}

cl_program dhowi_cl_cache_load(dhowi_cl_device *device, const dhowi_cl_cache_key *key,
                               const char *options) {
    const dhow_host *host = device->host;
    void *blob = NULL;
    uint64_t bytes = 0;
    blob_head head;
    cl_program program = NULL;
    if (host->cache_load == NULL ||
        host->cache_load(host->user, key->text, &blob, &bytes) != DHOW_OK)
        return NULL;
    if (blob != NULL && bytes > sizeof head) {
        const unsigned char *binary = (const unsigned char *)blob + sizeof head;
        size_t binary_bytes = (size_t)bytes - sizeof head;
        memcpy(&head, blob, sizeof head);
        if (head.magic == BLOB_MAGIC &&
            head.checksum == finish_hash(hash_bytes(0, binary, binary_bytes)))
            program = program_of(device, binary, binary_bytes, options);
    }
    dhowi_cl_delete(host, blob);
    if (program == NULL)
        host->log(host->user, DHOW_LOG_INFO, "opencl: a cached program is refused and built again");
    return program;
}

void dhowi_cl_cache_store(dhowi_cl_device *device, const dhowi_cl_cache_key *key,
                          cl_program program) {
    const dhow_host *host = device->host;
    size_t bytes = 0;
    if (host->cache_store == NULL ||
        dhowi_cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0 || bytes > SIZE_MAX / 2)
        return;
    unsigned char *blob = dhowi_cl_new(host, sizeof(blob_head) + bytes);
    if (blob == NULL) return;
    unsigned char *binary = blob + sizeof(blob_head);
    if (dhowi_cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) ==
        CL_SUCCESS) {
        blob_head head = {BLOB_MAGIC, finish_hash(hash_bytes(0, binary, bytes))};
        memcpy(blob, &head, sizeof head);
        if (host->cache_store(host->user, key->text, blob, sizeof head + bytes) != DHOW_OK)
            host->log(host->user, DHOW_LOG_DEBUG, "opencl: a built program could not be cached");
    }
    dhowi_cl_delete(host, blob);
}
