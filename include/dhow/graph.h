/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: work that is submitted again and again with the same tensors, recorded once and replayed
 * as one piece. A replay costs about one launch, however many launches it stands for. Work
 * that cannot be captured, or whose device captures nothing, is resubmitted at every replay; the
 * results are the same, and dhow_graph_reason() says why.
 */
#ifndef DHOW_GRAPH_H_
#define DHOW_GRAPH_H_

#include "dhow/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_graph dhow_graph;

/**
 * Submits work to `stream`: launches, operations, copies and fills on its device. It must submit
 * the same work with the same tensors each time it is called; what it decides on the host is
 * decided once.
 */
typedef dhow_status dhow_graph_work(void *user, dhow_stream *stream);

/**
 * Runs `work` once, then once more while its submissions are recorded instead of run. Nobody else
 * may use the stream meanwhile. A failure of the first run is returned; what cannot be recorded -
 * waits for the host or other streams, copies between devices - makes a graph that is submitted
 * anew each time.
 *
 * @param stream  not NULL
 * @param work    kept, with `user`, until the graph ends
 * @param user    handed to it
 * @param out     receives the graph; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_LOST, or what work returned
 *
 * Ownership: *out is owned, release with dhow_graph_release(); it keeps the memory of the tensors
 * used. Threads: externally synchronized per stream. Blocks: until the first run has ended.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_graph_record(dhow_stream *stream, dhow_graph_work *work,
                                                      void *user, dhow_graph **out);

/**
 * Submits the recorded work. Tensors have the contents they have when it runs; hazards with other
 * work are waited for as usual.
 *
 * @param graph   that the device replays, or whose work is submitted anew, see dhow_graph_reason()
 * @param stream  of the graph's device, or NULL for the one it was recorded on
 * @return INVALID_ARGUMENT, DEVICE_LOST, FORKED, or what the driver says
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_graph_replay(dhow_graph *graph, dhow_stream *stream);

/**
 * "" for a graph that the device replays, else why the work is submitted anew each time.
 *
 * @param graph  NULL or what is no graph gives ""
 *
 * Ownership: borrowed until the graph ends. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_graph_reason(const dhow_graph *graph);

/**
 * Drops a reference; the last one waits for the replays.
 *
 * @param graph  NULL is allowed
 *
 * Threads: any. Blocks: on the last reference.
 */
DHOW_API void dhow_graph_release(dhow_graph *graph);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_GRAPH_H_ */
