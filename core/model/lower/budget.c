/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds for what a file can make us compute while a plan is made. Constants are small in words -
 * a shape and a value - and large in bytes: a file of 200 bytes may ask for a tensor of a terabyte.
 *
 * The host makes constants of up to 1 GiB, 16 times the file, 64 times the run's inputs or what
 * dhow_model_set_memory_limit() says, whichever is most. What exceeds that is left to the device,
 * up to twice as much; more is refused.
 *
 * What a plan takes on the device - the arenas of its segments, the outputs that it makes and the
 * copies it keeps, together - is at most 1 GiB, 64 times the file or 64 times the run's inputs,
 * whichever is most, or what dhow_model_set_memory_limit() says. A single result may be larger, as
 * it may never be there: attention's scores are not. Models built through the C API are trusted and
 * have no limit until one is set.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory/size.h"
#include "model/lower/lower.h"

enum { PER_FILE = 16, PER_INPUT = 64, DEVICE_SHARE = 2, PER_PLAN = 64 };
static const uint64_t k_least = UINT64_C(1) << 30;

static uint64_t times(uint64_t bytes, uint64_t factor) {
    return bytes <= UINT64_MAX / factor ? bytes * factor : UINT64_MAX;
}

/* Weights in further files count when they have been read: what is only declared may not be there.
 */
static uint64_t times_the_file(const dhow_model *m, uint64_t factor) {
    const uint64_t file = times(m->file->bytes, factor), weights = times(m->external_bytes, factor);
    return weights <= UINT64_MAX - file ? file + weights : UINT64_MAX;
}

static uint64_t limit_of(const dhowi_lowering *b) {
    const dhow_model *m = b->model;
    if (m->file == NULL) return UINT64_MAX;
    return DHOWI_MAX(DHOWI_MAX(b->host_limit, times_the_file(m, PER_FILE)), m->memory_limit);
}

/* A trial takes nothing, and does not know the inputs yet. */
static uint64_t memory_limit(const dhowi_lowering *b) {
    const dhow_model *m = b->model;
    if (m->memory_limit > 0) return m->memory_limit;
    if (m->file == NULL || b->dry) return UINT64_MAX;
    return DHOWI_MAX(DHOWI_MAX(k_least, b->input_limit), times_the_file(m, PER_INPUT));
}

static dhow_status refuse_memory(const dhowi_lowering *b, uint64_t bytes, uint64_t before,
                                 const char *what) {
    char more[64] = "";
    if (before > 0) (void)snprintf(more, sizeof more, " beside %" PRIu64 " taken before", before);
    return dhowi_fail(
        DHOW_UNSUPPORTED,
        "%s takes %" PRIu64 " bytes%s, %" PRIu64
        " is what %s may ask for: raise it with dhow_model_set_memory_limit(), or "
        "dhow-run --memory",
        what, bytes, more, memory_limit(b),
        b->model->memory_limit > 0 ? "the model" : "a file and inputs of these sizes");
}

dhow_status dhowi_limit_result(const dhowi_lowering *b, uint64_t bytes) {
    if (bytes <= times(memory_limit(b), PER_PLAN)) return DHOW_OK;
    return refuse_memory(b, bytes, 0, b->node != NULL ? "a result" : "an output");
}

dhow_status dhowi_take_memory(dhowi_lowering *b, uint64_t bytes, const char *what) {
    const uint64_t limit = memory_limit(b);
    if (b->taken_bytes > limit || bytes > limit - b->taken_bytes)
        return refuse_memory(b, bytes, b->taken_bytes, what);
    b->taken_bytes += bytes;
    return DHOW_OK;
}

void dhowi_limit_host(dhowi_lowering *b, uint64_t input_bytes) {
    b->input_limit = times(input_bytes, PER_INPUT);
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
                      "the file, or make it an input, or raise it with "
                      "dhow_model_set_memory_limit(), or dhow-run --memory",
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
