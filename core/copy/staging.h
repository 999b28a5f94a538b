/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device keeps for copies: a ring of pinned chunks, two streams of its own, and what is
 * known about its peers.
 */
#ifndef DHOWI_COPY_STAGING_H_
#define DHOWI_COPY_STAGING_H_

#include "copy/engine.h"

enum { DHOWI_MAX_PEERS = 16 };

typedef struct dhowi_staging {
    dhow_device *device;
    /* Of the copy that has ring, streams and maps. Of two devices the one with the lower place is
     * locked first; the CPU's, held for a moment only, last. */
    pthread_mutex_t mutex;
    char *chunks[DHOWI_CHUNK_COUNT];
    bool pinned; /* chunks came from host_alloc */
    dhow_stream *in, *out;
    void *in_events[DHOWI_CHUNK_COUNT], *out_events[DHOWI_CHUNK_COUNT];
    pthread_mutex_t peer_mutex;
    struct {
        const dhow_device *device;
        bool works;
    } peers[DHOWI_MAX_PEERS];
    uint32_t peer_count;
} dhowi_staging;

dhowi_staging *dhowi_staging_of(dhow_device *device);
/* Makes the streams and events, on first use. */
dhow_status dhowi_staging_streams(dhowi_staging *staging);
/* Makes the ring, on first use. */
dhow_status dhowi_staging_ring(dhowi_staging *staging);

#endif /* DHOWI_COPY_STAGING_H_ */
