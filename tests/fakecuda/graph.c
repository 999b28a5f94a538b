/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording of one stream's commands, and replay. What a recording forbids fails as on hardware and
 * spoils the recording.
 */
#include <string.h>

#include "fake.h"

typedef struct fake_capture {
    struct fake_capture *next; /* of all */
    fake_stream *stream;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    fake_command *first, *last;
} fake_capture;

typedef struct CUgraph_st { /* also CUgraphExec_st */
    int device;
    fake_command *commands;
} fake_graph;

static void delete_commands(fake_command *commands) {
    while (commands != NULL) {
        fake_command *next = commands->next;
        fake_delete(commands);
        commands = next;
    }
}

/* ---- while recording ---- */

cudaError_t fake_record(fake_stream *stream, const fake_command *command, bool *out_recorded) {
    cudaError_t code = cudaSuccess;
    fake_lock();
    fake_capture *capture = stream->capture;
    *out_recorded = capture != NULL;
    if (capture != NULL && capture->invalid) {
        code = cudaErrorStreamCaptureInvalidated;
    } else if (capture != NULL && command->kind != FAKE_RECORD && command->kind != FAKE_WAIT) {
        /* Events inside a recording are its edges, which one stream has without them. */
        fake_command *kept = fake_new(sizeof *kept);
        if (kept == NULL) {
            code = cudaErrorMemoryAllocation;
        } else {
            *kept = *command;
            if (capture->last != NULL) {
                capture->last->next = kept;
            } else {
                capture->first = kept;
            }
            capture->last = kept;
        }
    }
    fake_unlock();
    return code;
}

/* How much of the recordings of others this thread minds. */
static _Thread_local enum cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaThreadExchangeStreamCaptureMode", FAKE_NOWHERE);
    if (code == cudaSuccess && (mode == NULL || (unsigned)*mode > cudaStreamCaptureModeRelaxed))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) {
        const enum cudaStreamCaptureMode before = t_mode;
        t_mode = *mode;
        *mode = before;
    }
    return fake_end(&call, code);
}

cudaError_t fake_forbidden(void) {
    cudaError_t code = cudaSuccess;
    if (t_mode == cudaStreamCaptureModeRelaxed) return code;
    fake_lock();
    for (fake_capture *capture = fake.captures; capture != NULL; capture = capture->next) {
        const bool own = pthread_equal(capture->thread, pthread_self()) != 0;
        if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
        if (capture->mode == cudaStreamCaptureModeThreadLocal && !own) continue;
        if (t_mode == cudaStreamCaptureModeThreadLocal && !own) continue;
        capture->invalid = true;
        code = cudaErrorStreamCaptureUnsupported;
    }
    fake_unlock();
    return code;
}

cudaError_t fake_forbidden_on(fake_stream *stream) {
    cudaError_t code = cudaSuccess;
    fake_lock();
    if (stream->capture != NULL) {
        stream->capture->invalid = true;
        code = cudaErrorStreamCaptureUnsupported;
    }
    fake_unlock();
    return code;
}

/* Takes the recording off its stream. */
static fake_capture *detach(fake_stream *stream) {
    fake_lock();
    fake_capture *capture = stream->capture;
    if (capture != NULL) {
        fake_capture **link = &fake.captures;
        while (*link != capture) link = &(*link)->next;
        *link = capture->next;
        stream->capture = NULL;
    }
    fake_unlock();
    return capture;
}

void fake_capture_drop(fake_stream *stream) {
    fake_capture *capture = detach(stream);
    if (capture == NULL) return;
    delete_commands(capture->first);
    fake_delete(capture);
}

static fake_stream *begin_on(fake_call *call, const char *name, cudaStream_t handle,
                             cudaError_t *code) {
    fake_stream *stream = fake_stream_of(handle);
    *code = fake_begin(call, name, stream != NULL ? stream->device : FAKE_CURRENT);
    if (*code == cudaSuccess && stream == NULL) *code = cudaErrorInvalidResourceHandle;
    return stream;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaStreamBeginCapture", handle, &code);
    if (code == cudaSuccess && (unsigned)mode > cudaStreamCaptureModeRelaxed)
        code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_capture *capture = fake_new(sizeof *capture);
    if (capture == NULL) return fake_end(&call, cudaErrorMemoryAllocation);
    capture->stream = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    fake_lock();
    if (stream->capture != NULL) {
        code = cudaErrorIllegalState;
    } else {
        stream->capture = capture;
        capture->next = fake.captures;
        fake.captures = capture;
    }
    fake_unlock();
    if (code != cudaSuccess) fake_delete(capture);
    return fake_end(&call, code);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaStreamIsCapturing", handle, &code);
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_lock();
    *status = stream->capture == NULL    ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    fake_unlock();
    return fake_end(&call, code);
}

/* The recording ends whatever the answer, but for a wrong thread. */
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaStreamEndCapture", handle, &code);
    *out = NULL;
    if (stream == NULL) return fake_end(&call, code);
    fake_lock();
    const bool stranger = stream->capture != NULL &&
                          stream->capture->mode != cudaStreamCaptureModeRelaxed &&
                          pthread_equal(stream->capture->thread, pthread_self()) == 0;
    if (stranger) stream->capture->invalid = true;
    fake_unlock();
    if (stranger) return fake_end(&call, cudaErrorStreamCaptureWrongThread);
    fake_capture *capture = detach(stream);
    if (capture == NULL) return fake_end(&call, code != cudaSuccess ? code : cudaErrorIllegalState);
    if (code == cudaSuccess && capture->invalid) code = cudaErrorStreamCaptureInvalidated;
    fake_graph *graph =
        code == cudaSuccess ? fakecuda_object_new(FAKECUDA_GRAPH, sizeof *graph) : NULL;
    if (graph != NULL) {
        graph->device = stream->device;
        graph->commands = capture->first;
        capture->first = NULL;
        *out = graph;
    } else if (code == cudaSuccess) {
        code = cudaErrorMemoryAllocation;
    }
    delete_commands(capture->first);
    fake_delete(capture);
    return fake_end(&call, code);
}

/* ---- graphs ---- */

void fake_graph_end(void *graph) { delete_commands(((fake_graph *)graph)->commands); }

static bool copy_commands(const fake_command *from, fake_command **to) {
    for (; from != NULL; from = from->next, to = &(*to)->next) {
        *to = fake_new(sizeof **to);
        if (*to == NULL) return false;
        **to = *from;
        (*to)->next = NULL;
    }
    return true;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags) {
    fake_call call;
    const bool valid = fakecuda_object_is(graph, FAKECUDA_GRAPH);
    cudaError_t code =
        fake_begin(&call, "cudaGraphInstantiate", valid ? graph->device : FAKE_CURRENT);
    (void)flags;
    if (code == cudaSuccess && !valid) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = fake_forbidden();
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_graph *exec = fakecuda_object_new(FAKECUDA_GRAPH_EXEC, sizeof *exec);
    if (exec == NULL) return fake_end(&call, cudaErrorMemoryAllocation);
    exec->device = graph->device;
    if (!copy_commands(graph->commands, &exec->commands)) {
        fake_graph_end(exec);
        fakecuda_object_delete(exec);
        return fake_end(&call, cudaErrorMemoryAllocation);
    }
    *out = (cudaGraphExec_t)(void *)exec;
    return fake_end(&call, cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
    fake_call call;
    cudaError_t code;
    const fake_graph *exec = (const fake_graph *)(void *)handle;
    fake_stream *stream = begin_on(&call, "cudaGraphLaunch", stream_handle, &code);
    if (code == cudaSuccess &&
        (!fakecuda_object_is(exec, FAKECUDA_GRAPH_EXEC) || exec->device != stream->device))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = fake_forbidden_on(stream);
    if (code == cudaSuccess) {
        for (const fake_command *command = exec->commands; command != NULL && code == cudaSuccess;
             command = command->next)
            code = fake_perform(stream, command);
    }
    return fake_end(&call, code);
}

static cudaError_t destroy(const char *name, void *graph, fakecuda_kind kind) {
    fake_call call;
    cudaError_t code = fake_begin(&call, name, FAKE_NOWHERE);
    if (!fakecuda_object_is(graph, kind))
        return fake_end(&call, code != cudaSuccess ? code : cudaErrorInvalidValue);
    fake_graph_end(graph);
    fakecuda_object_delete(graph);
    return fake_end(&call, code);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    return destroy("cudaGraphExecDestroy", exec, FAKECUDA_GRAPH_EXEC);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return destroy("cudaGraphDestroy", graph, FAKECUDA_GRAPH);
}
