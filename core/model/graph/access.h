/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a model, which many threads may do at once, see access.c.
 */
#ifndef DHOWI_MODEL_GRAPH_ACCESS_H_
#define DHOWI_MODEL_GRAPH_ACCESS_H_

#include "model/graph/model.h"
#include "model/graph/stop.h"

/* The stream of a run: the caller's, or the device's default one. */
typedef struct dhowi_run_stream {
    dhow_stream *stream;
    dhowi_stop stop;
} dhowi_run_stream;
/* Around each run. */
dhow_status dhowi_model_begin_run(dhow_model *m, const char *function, dhow_stream *stream,
                                  dhowi_run_stream *run);
void dhowi_model_end_run(dhow_model *m, dhowi_run_stream *run);

#endif /* DHOWI_MODEL_GRAPH_ACCESS_H_ */
