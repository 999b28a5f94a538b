/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks inside core: results come as CPU tensors, batch by batch and in order.
 */
#ifndef DHOWI_DATA_SINK_H_
#define DHOWI_DATA_SINK_H_

#include "base/threads/single.h"
#include "data/dataset.h"

struct dhow_sink {
    dhowi_handle handle;
    dhowi_single single;   /* taking and finishing */
    dhow_context *context; /* retained */
    void *state;
    dhow_status (*take)(void *state, const dhow_batch *results);
    dhow_status (*finish)(void *state); /* NULL: nothing to do */
    void (*end)(void *state);
    int64_t expected_samples; /* of all batches to come, to make room at once; 0: unknown */
};

/* The sink is the caller's until dhowi_sink_end(): INVALID_ARGUMENT when another thread is in it.
 */
dhow_status dhowi_sink_begin(dhow_sink *sink, const char *function);
void dhowi_sink_end(dhow_sink *sink);
/* The tensors hold their results: their copies are done. */
dhow_status dhowi_sink_take(dhow_sink *sink, const dhow_batch *results);

#endif /* DHOWI_DATA_SINK_H_ */
