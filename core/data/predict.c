/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions: while a batch is computed, the next one arrives on the loader's stream and the
 * results of the last one go back on another.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "data/loader.h"
#include "data/sink.h"
#include "dhow/copy.h"

enum { FLIGHTS = 2 }; /* batches whose results are on their way */

/* The results of one batch. */
typedef struct flight {
    dhow_batch batch;     /* tensors: on the host */
    dhow_event *arrival;  /* of the inputs; NULL: they were there */
    dhow_event *computed; /* on the model's stream */
    dhow_event *event;    /* of the results' copies */
} flight;

typedef struct prediction {
    dhow_model *model;
    dhow_loader *loader;
    dhow_sink *sink;
    dhow_device *device;
    uint32_t input_count, output_count;
    dhow_stream *main; /* which the model runs on; NULL: the host computes */
    dhow_stream *back; /* results to the host; NULL: they are there */
    flight flights[FLIGHTS];
    uint32_t begun, ended;
    bool broken; /* results of a batch are missing, later ones must not follow */
} prediction;

static dhow_status prefix_batch(dhow_status status, const dhow_batch *batch, const char *device) {
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(
        status, "dhow_predict: batch %" PRId64 " (samples %" PRId64 " to %" PRId64 ") on %s",
        batch->index, batch->first_sample, batch->first_sample + batch->sample_count - 1, device);
}

static void drop_tensors(dhow_tensor **tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

/* ---- one batch ---- */

static void end_flight(prediction *p, flight *f) {
    drop_tensors(f->batch.tensors, p->output_count);
    dhow_event_release(f->arrival);
    f->arrival = NULL;
}

/* A stream that waits for another one does not learn that the other's work failed. */
static dhow_status await_all(const prediction *p, const flight *f) {
    if (f->arrival != NULL) DHOWI_TRY(dhow_event_sync(f->arrival));
    if (p->back == NULL) return DHOW_OK;
    DHOWI_TRY(dhow_event_sync(f->computed));
    return dhow_event_sync(f->event);
}

/* Hands the oldest results to the sink. */
static dhow_status land(prediction *p) {
    flight *f = &p->flights[p->ended++ % FLIGHTS];
    if (p->broken) {
        end_flight(p, f);
        return DHOW_OK;
    }
    dhow_status status = await_all(p, f);
    /* A copy may have failed without its event. */
    for (uint32_t i = 0; i < p->output_count && status == DHOW_OK; i++) {
        void *data;
        status = dhow_tensor_host_ptr(f->batch.tensors[i], &data);
    }
    if (status == DHOW_OK) status = dhowi_sink_take(p->sink, &f->batch);
    p->broken = status != DHOW_OK;
    status = prefix_batch(status, &f->batch, p->device->name);
    end_flight(p, f);
    return status;
}

/* Starts the results' way back. */
static dhow_status bring_back(prediction *p, flight *f, dhow_tensor *const *outputs) {
    for (uint32_t i = 0; i < p->output_count; i++) {
        const dhow_tensor *from = outputs[i];
        DHOWI_TRY(dhow_tensor_create_pinned(p->device, from->dtype, from->rank, from->shape,
                                            &f->batch.tensors[i]));
        DHOWI_TRY(dhow_copy_async(p->back, outputs[i], f->batch.tensors[i], 0));
    }
    return dhow_event_record(f->event, p->back);
}

static dhow_status compute(prediction *p, const dhow_batch *batch, flight *f) {
    dhow_tensor *outputs[DHOW_MAX_COLUMNS] = {NULL};
    dhow_status status =
        dhow_model_run(p->model, NULL, batch->tensors, p->input_count, outputs, p->output_count);
    if (status == DHOW_OK && p->back == NULL) {
        for (uint32_t i = 0; i < p->output_count && status == DHOW_OK; i++)
            status = dhow_tensor_contiguous(NULL, outputs[i], &f->batch.tensors[i]);
    } else if (status == DHOW_OK) {
        status = dhow_event_record(f->computed, p->main);
        if (status == DHOW_OK) status = bring_back(p, f, outputs);
    }
    drop_tensors(outputs, p->output_count);
    return status;
}

static dhow_status predict_batch(prediction *p, const dhow_batch *batch) {
    if (p->begun - p->ended == FLIGHTS) DHOWI_TRY(land(p));
    flight *f = &p->flights[p->begun % FLIGHTS];
    f->batch = *batch;
    f->batch.tensor_count = p->output_count;
    memset(f->batch.tensors, 0, sizeof f->batch.tensors);
    f->arrival = dhowi_loader_arrival(p->loader);
    dhow_status status = prefix_batch(compute(p, batch, f), batch, p->device->name);
    if (status != DHOW_OK) {
        end_flight(p, f);
        return status;
    }
    p->begun++;
    return p->back != NULL ? DHOW_OK : land(p);
}

/* ---- the whole ---- */

static dhow_status begin(prediction *p, dhow_model *model, dhow_loader *loader, dhow_sink *sink) {
    static const char function[] = "dhow_predict";
    p->device = dhow_model_device(model);
    p->input_count = dhow_model_input_count(model);
    p->output_count = dhow_model_output_count(model);
    if (p->input_count > DHOW_MAX_COLUMNS || p->output_count > DHOW_MAX_COLUMNS) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: the model has %u inputs and %u outputs; at most "
                          "%d of each can be fed",
                          function, p->input_count, p->output_count, DHOW_MAX_COLUMNS);
    }
    uint32_t columns = dhowi_loader_column_count(loader);
    if (columns < p->input_count) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the model has %u inputs, the loader's dataset %u columns", function,
                          p->input_count, columns);
    }
    sink->expected_samples = dhowi_loader_rest(loader);
    if (dhowi_device_is_host(p->device)) return DHOW_OK;
    DHOWI_TRY(dhow_stream_default(p->device, &p->main));
    DHOWI_TRY(dhow_stream_create(p->device, &p->back));
    for (int i = 0; i < FLIGHTS; i++) {
        DHOWI_TRY(dhow_event_create(p->device, 0, &p->flights[i].computed));
        DHOWI_TRY(dhow_event_create(p->device, 0, &p->flights[i].event));
    }
    return DHOW_OK;
}

static dhow_status predict_all(prediction *p) {
    dhow_batch batch;
    for (;;) {
        DHOWI_TRY(dhowi_loader_next(p->loader, &batch));
        if (batch.sample_count == 0) return DHOW_OK;
        DHOWI_TRY(predict_batch(p, &batch));
    }
}

static dhow_status predict(dhow_model *model, dhow_loader *loader, dhow_sink *sink) {
    prediction p = {.model = model, .loader = loader, .sink = sink};
    dhow_status status = begin(&p, model, loader, sink);
    if (status == DHOW_OK) status = predict_all(&p);
    dhowi_saved_error first;
    if (status != DHOW_OK) dhowi_error_save(&first, status);
    /* What was computed before a failure still goes to the sink. If that fails too, it is the
     * earlier batch, from which to go on. */
    while (p.ended < p.begun) {
        dhow_status one = land(&p);
        if (one != DHOW_OK) dhowi_error_save(&first, status = one);
    }
    if (status != DHOW_OK && p.main != NULL) { /* told now: the next try begins without it */
        dhow_status ignored = dhow_stream_sync(p.main);
        (void)ignored;
    }
    for (int i = 0; i < FLIGHTS; i++) {
        dhow_event_release(p.flights[i].computed);
        dhow_event_release(p.flights[i].event);
    }
    dhow_stream_release(p.back);
    return status == DHOW_OK ? DHOW_OK : dhowi_error_raise(&first);
}

dhow_status dhow_predict(dhow_model *model, dhow_loader *loader, dhow_sink *sink) {
    static const char function[] = "dhow_predict";
    DHOWI_TRY(dhowi_handle_check(model, DHOWI_MODEL, function, "model"));
    DHOWI_TRY(dhowi_loader_begin(loader, function));
    dhow_status status = dhowi_sink_begin(sink, function);
    if (status == DHOW_OK) {
        status = predict(model, loader, sink);
        dhowi_sink_end(sink);
    }
    dhowi_loader_end(loader);
    return status;
}
