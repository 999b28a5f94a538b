/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds for what a file can make us compute while a plan is made. Constants are small in words -
 * a shape and a value - and large in bytes: a file of 200 bytes may ask for a tensor of a terabyte.
 *
 * The host makes constants of up to 256 MiB, 16 times the file or 64 times the run's inputs,
 * whichever is most. What exceeds that is left to the device, up to twice as much; more is
 * refused. A model built in C is its program's own affair.
 */
#include <inttypes.h>

#include "base/size.h"
#include "model/lower.h"

enum { PER_FILE = 16, PER_INPUT = 64, DEVICE_SHARE = 2 };
static const uint64_t k_least = UINT64_C(256) << 20;

static uint64_t times(uint64_t bytes, uint64_t factor) {
    return bytes <= UINT64_MAX / factor ? bytes * factor : UINT64_MAX;
}

/* Weights in further files count when they have been read: what is only declared may not be there.
 */
static uint64_t limit_of(const dhowi_lowering *b) {
    if (b->model->file == NULL) return UINT64_MAX;
    uint64_t file = times(b->model->file->bytes, PER_FILE);
    uint64_t weights = times(b->model->external_bytes, PER_FILE);
    uint64_t all = weights <= UINT64_MAX - file ? file + weights : UINT64_MAX;
    return DHOWI_MAX(b->host_limit, all);
}

void dhowi_limit_host(dhowi_lowering *b, uint64_t input_bytes) {
    b->host_limit = DHOWI_MAX(k_least, times(input_bytes, PER_INPUT));
}

bool dhowi_fold(dhowi_lowering *b, uint64_t bytes) {
    uint64_t limit = limit_of(b);
    if (b->free_of_limit) return true;
    if (b->folded_bytes > limit || bytes > limit - b->folded_bytes) return false;
    b->folded_bytes += bytes;
    return true;
}

static dhow_status refuse(const dhowi_lowering *b, uint64_t bytes, uint64_t limit) {
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "it makes %" PRIu64 " bytes of constants alone, with %" PRIu64
                      " made before; %" PRIu64
                      " is what a file and inputs of these sizes may ask for: save the tensor in "
                      "the file, or make it an input",
                      bytes, b->fixed_bytes, limit);
}

dhow_status dhowi_fix(dhowi_lowering *b, uint64_t bytes) {
    uint64_t limit = times(limit_of(b), DEVICE_SHARE);
    if (b->fixed_bytes > limit || bytes > limit - b->fixed_bytes) return refuse(b, bytes, limit);
    b->fixed_bytes += bytes;
    return DHOW_OK;
}

dhow_status dhowi_host_room(const dhowi_lowering *b, int64_t count, size_t element_bytes) {
    uint64_t bytes = times((uint64_t)count, element_bytes), limit = limit_of(b);
    return bytes <= limit ? DHOW_OK : refuse(b, bytes, limit);
}
