/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of several devices, added up on the first one bucket by bucket while they are made: by the
 * backend's own operations of several devices where all are of one that has them; else, of three or
 * more that copy from one to the other, from the last device to the first, each of which adds its
 * own; else by copies to the first device, which adds in the order of devices.
 */
#ifndef DHOWI_PARALLEL_REDUCER_H_
#define DHOWI_PARALLEL_REDUCER_H_

#include "parallel/buckets.h"
#include "parallel/shares.h"
#include "tensor/tensor.h"

typedef struct dhowi_reducer dhowi_reducer;

/* Of flat arrays of one type, all of the buckets' elements. One device needs nothing of it. */
dhow_status dhowi_reducer_create(dhow_device *const *devices, uint32_t count, dhow_dtype dtype,
                                 const dhowi_buckets *buckets, dhowi_reducer **out);
void dhowi_reducer_end(dhowi_reducer *reducer); /* NULL is allowed */

/* Other buckets, of as many elements, before the first round. */
void dhowi_reducer_divide(dhowi_reducer *reducer, const dhowi_buckets *buckets);
/* Where the backend adds up, `summed` is told of each bucket whose sum `stream` of the first device
 * has been handed, in their order, by the thread of any member. */
typedef dhow_status dhowi_reducer_summed(void *user, uint32_t bucket, dhow_stream *stream);
void dhowi_reducer_tell(dhowi_reducer *reducer, dhowi_reducer_summed *summed, void *user);
/* Before a round of the live devices: finds the way that their arrays will go; with `copies` there
 * will be one also where the backend has none. */
dhow_status dhowi_reducer_prepare(dhowi_reducer *reducer, const bool *live, bool copies);
/* Whether `member` has to tell of its buckets in this round. */
bool dhowi_reducer_wants(const dhowi_reducer *reducer, uint32_t member);
/* Whether dhowi_reducer_broadcast() is the way to the other devices, instead of copies to each. */
bool dhowi_reducer_broadcasts(const dhowi_reducer *reducer);
/* Copies the first device's array to those of all other live ones, and blocks until it is there: a
 * stream that waited for what another device never does would hold up its thread for ever. A
 * failure is that of *failed. */
dhow_status dhowi_reducer_broadcast(dhowi_reducer *reducer, dhow_tensor *const *arrays,
                                    uint32_t *failed);
/* Begins a round: arrays[i] is added up if rows[i] is not 0, on `stream` of the first device. */
dhow_status dhowi_reducer_begin(dhowi_reducer *reducer, dhow_stream *stream,
                                dhow_tensor *const *arrays, const int64_t *rows);
/* `stream` has been given all that writes the bucket of a member. Buckets come in their order, each
 * from the thread of its member. */
dhow_status dhowi_reducer_ready(dhowi_reducer *reducer, uint32_t member, uint32_t bucket,
                                dhow_stream *stream);
/* Blocks until what the member has told of has left it, where that is its thread's to wait for. */
dhow_status dhowi_reducer_settle(dhowi_reducer *reducer, uint32_t member);
/* The sums are in the first array, once `stream` comes to it; *failed is the member whose failure
 * is returned. */
dhow_status dhowi_reducer_finish(dhowi_reducer *reducer, dhow_stream *stream, uint32_t *failed);
/* After a failure of the round: nothing of it goes on. */
void dhowi_reducer_give_up(dhowi_reducer *reducer);

#endif /* DHOWI_PARALLEL_REDUCER_H_ */
