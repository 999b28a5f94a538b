/* SPDX-License-Identifier: Apache-2.0
 *
 * Every public function that takes a handle meets NULL, a released handle, one of another kind and
 * plain memory: it answers INVALID_ARGUMENT and says what is wrong. handles_complete.sh sees to it
 * that no function is left out.
 */
#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/dlpack.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

typedef enum kind {
    CONTEXT,
    DEVICE,
    STREAM,
    EVENT,
    GRAPH,
    TENSOR,
    MODULE,
    KERNEL,
    MODEL,
    FILES,
    DATASET,
    LOADER,
    SINK,
    DATUM,
    PARALLEL,
    TRAINER,
    KINDS
} kind;

/* ---- one of everything, alive or released ---- */

typedef struct objects {
    void *of[KINDS];
} objects;

static const char k_text[] =
    "KERNEL(twice, (IN(f32,x), OUT(f32,y), VAL(i64,n))) { GRID_FOR(i, n) y[i] = 2*x[i]; }";
static char g_path[] = "/tmp/dhow-handles-XXXXXX";

static dhow_status no_work(void *user, dhow_stream *stream) {
    (void)user;
    (void)stream;
    return DHOW_OK;
}

static dhow_status no_rows(void *user, const dhow_batch *results) {
    (void)user;
    (void)results;
    return DHOW_OK;
}

static void no_text(void *user, const char *text, uint64_t bytes) {
    (void)user;
    (void)text;
    (void)bytes;
}

static objects make_objects(void) {
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .backends = "cpu", .cache_dir = "off");
    static const char *const names[] = {"t"};
    dhow_context *context;
    dhow_device *device;
    dhow_stream *stream;
    dhow_event *event;
    dhow_graph *graph;
    dhow_tensor *tensor;
    dhow_kernel *kernel;
    dhow_model *model;
    dhow_safetensors *file;
    dhow_dataset *dataset;
    dhow_loader *loader;
    dhow_sink *sink;
    dhow_datum *datum;
    dhow_parallel *parallel;
    dhow_model *learner;
    dhow_trainer *trainer;
    dhow_model_value x;
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &device));
    OK(dhow_stream_create(device, &stream));
    OK(dhow_event_create(device, 0, &event));
    OK(dhow_graph_record(stream, no_work, NULL, &graph));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(2, 3), 1, &tensor));
    OK(dhow_kernel_get(device, "relu_f32", &kernel));
    OK(dhow_model_create(context, &model));
    OK(dhow_safetensors_save(g_path, 1, names, &tensor));
    OK(dhow_safetensors_open(context, g_path, &file));
    OK(dhow_dataset_from_tensors(&tensor, 1, &dataset));
    OK(dhow_loader_create(dataset, NULL, &loader));
    OK(dhow_sink_to_tensors(context, &sink));
    OK(dhow_datum_of_nothing(&datum));
    OK(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(2, 3), &x));
    OK(dhow_model_relu(model, x, &x));
    OK(dhow_model_output(model, "y", x));
    OK(dhow_parallel_create(model, &device, 1, NULL, &parallel));
    OK(dhow_model_create(context, &learner));
    OK(dhow_model_input(learner, "x", DHOW_F32, DHOW_SHAPE(2, 3), &x));
    OK(dhow_model_linear(learner, "fc", x, 3, 3, 1, &x));
    OK(dhow_model_output(learner, "y", x));
    OK(dhow_trainer_create(learner, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE),
                           &trainer));
    dhow_model_release(learner); /* the trainer holds it */
    /* No module: building one takes a compiler. Its place is filled by a tensor for the living
     * ones, which no function gets to see, and its released one by a released tensor. */
    return (objects){{context, device, stream, event, graph, tensor, tensor, kernel, model, file,
                      dataset, loader, sink, datum, parallel, trainer}};
}

static void release_objects(const objects *o) {
    dhow_trainer_release(o->of[TRAINER]);
    dhow_parallel_release(o->of[PARALLEL]);
    dhow_sink_release(o->of[SINK]);
    dhow_loader_release(o->of[LOADER]);
    dhow_dataset_release(o->of[DATASET]);
    dhow_datum_release(o->of[DATUM]);
    dhow_safetensors_close(o->of[FILES]);
    dhow_model_release(o->of[MODEL]);
    dhow_kernel_release(o->of[KERNEL]);
    dhow_tensor_release(o->of[TENSOR]);
    dhow_graph_release(o->of[GRAPH]);
    dhow_event_release(o->of[EVENT]);
    dhow_stream_release(o->of[STREAM]);
    dhow_context_release(o->of[CONTEXT]);
}

/* ---- the calls; B is the bad handle, the rest is right ---- */

static objects g;

static struct {
    dhow_plugin_record record;
    dhow_plugin_component component;
    dhow_device_info device;
    dhow_memory_stats stats;
    dhow_tensor_info tensor;
    dhow_copy_plan_info plan;
    dhow_safetensors_entry entry;
    dhow_model_parameter_info parameter;
    dhow_model_value value;
    dhow_model_value_info about;
    dhow_model_summary summary;
    dhow_model_step_info step;
    dhow_datum_info datum_info;
    dhow_datum *datum;
    const char *text;
    uint64_t words[2];
    double ms;
    int64_t integer;
    void *pointer;
    dhow_device *d;
    dhow_stream *s;
    dhow_event *e;
    dhow_graph *graph;
    dhow_tensor *t;
    dhow_module *m;
    dhow_kernel *k;
    dhow_model *model;
    dhow_safetensors *file;
    dhow_dataset *dataset;
    dhow_dataset_column column;
    dhow_tensor *column_of[DHOW_MAX_COLUMNS];
    dhow_loader *loader;
    dhow_batch batch;
    dhow_sink *sink;
    dhow_parallel *parallel;
    dhow_parallel_member member;
    dhow_trainer *trainer;
    dhow_trace_stats trace;
    DLManagedTensorVersioned managed, *exported;
    DLManagedTensor old_managed, *old_exported;
    float data[6];
} out = {.record.struct_size = sizeof(dhow_plugin_record),
         .component.struct_size = sizeof(dhow_plugin_component),
         .device.struct_size = sizeof(dhow_device_info),
         .stats.struct_size = sizeof(dhow_memory_stats),
         .tensor.struct_size = sizeof(dhow_tensor_info),
         .plan.struct_size = sizeof(dhow_copy_plan_info),
         .entry.struct_size = sizeof(dhow_safetensors_entry),
         .parameter.struct_size = sizeof(dhow_model_parameter_info),
         .about.struct_size = sizeof(dhow_model_value_info),
         .summary.struct_size = sizeof(dhow_model_summary),
         .step.struct_size = sizeof(dhow_model_step_info),
         .datum_info.struct_size = sizeof(dhow_datum_info),
         .column.struct_size = sizeof(dhow_dataset_column),
         .batch.struct_size = sizeof(dhow_batch),
         .member.struct_size = sizeof(dhow_parallel_member),
         .trace.struct_size = sizeof(dhow_trace_stats)};

static dhow_datum *g_data[1];
static const int64_t k_shape[2] = {2, 3};
static const int32_t k_order[2] = {1, 0};
static const uint32_t k_grid[3] = {1, 1, 1};
static const char *const k_names[] = {"t"};
static const dhow_conv_options k_conv = DHOW_FIELDS(dhow_conv_options, .kernel = {1, 1, 1});
static const dhow_window k_window = DHOW_FIELDS(dhow_window, .kernel = {1, 1});
static const dhow_module_source k_source = DHOW_FIELDS(dhow_module_source, .text = k_text);
static const dhow_value k_values[1];
static const dhow_dataset_column k_column = DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_F32);
static dhow_dataset *g_row[1];
static const int64_t k_rest[] = {-1};
static dhow_status map_nothing(void *user, const dhow_sample *sample, const void *const *in,
                               void *const *to) {
    (void)user, (void)sample, (void)in, (void)to;
    return DHOW_OK;
}
static const dhow_dataset_mapping k_mapping = DHOW_FIELDS(dhow_dataset_mapping, .map = map_nothing);
static const dhow_dataset_source k_samples = {
    .struct_size = sizeof(dhow_dataset_source), .column_count = 1, .columns = &k_column};
static dhow_tensor *g_in[1], *g_out[1];

#define T (g.of[TENSOR])
#define S (g.of[STREAM])

/* X(name, kind of the handle, whether NULL is a value, call) */
#define CALLS(X)                                                                                   \
    X(context_retain, CONTEXT, 0, dhow_context_retain(B))                                          \
    X(plugin_at, CONTEXT, 0, dhow_plugin_at(B, 0, &out.record))                                    \
    X(component_at, CONTEXT, 0, dhow_plugin_component_at(B, 0, 0, &out.component))                 \
    X(device_at, CONTEXT, 0, dhow_device_at(B, 0, &out.d))                                         \
    X(device_get, CONTEXT, 0, dhow_device_get(B, "cpu", &out.d))                                   \
    X(wrap, CONTEXT, 0, dhow_tensor_wrap(B, DHOW_F32, 2, k_shape, out.data, NULL, NULL, &out.t))   \
    X(from_dlpack, CONTEXT, 0, dhow_tensor_from_dlpack(B, &out.managed, &out.t))                   \
    X(from_old_dlpack, CONTEXT, 0,                                                                 \
      dhow_tensor_from_dlpack_unversioned(B, &out.old_managed, &out.t))                            \
    X(safetensors_open, CONTEXT, 0, dhow_safetensors_open(B, g_path, &out.file))                   \
    X(model_create, CONTEXT, 0, dhow_model_create(B, &out.model))                                  \
    X(device_info, DEVICE, 0, dhow_device_get_info(B, &out.device))                                \
    X(device_open, DEVICE, 0, dhow_device_open(B))                                                 \
    X(set_precision, DEVICE, 0, dhow_device_set_precision(B, DHOW_PRECISION_F32))                  \
    X(device_sync, DEVICE, 0, dhow_device_sync(B))                                                 \
    X(memory_stats, DEVICE, 0, dhow_memory_get_stats(B, &out.stats))                               \
    X(memory_peaks, DEVICE, 0, dhow_memory_reset_peaks(B))                                         \
    X(memory_trim, DEVICE, 0, dhow_memory_trim(B))                                                 \
    X(memory_limit, DEVICE, 0, dhow_memory_set_limit(B, 0))                                        \
    X(stream_create, DEVICE, 0, dhow_stream_create(B, &out.s))                                     \
    X(stream_default, DEVICE, 0, dhow_stream_default(B, &out.s))                                   \
    X(event_create, DEVICE, 0, dhow_event_create(B, 0, &out.e))                                    \
    X(create, DEVICE, 0, dhow_tensor_create(B, DHOW_F32, 2, k_shape, &out.t))                      \
    X(from_data, DEVICE, 0, dhow_tensor_from_data(B, DHOW_F32, 2, k_shape, out.data, &out.t))      \
    X(full, DEVICE, 0, dhow_tensor_full(B, DHOW_F32, 2, k_shape, 1, &out.t))                       \
    X(uniform, DEVICE, 0, dhow_tensor_uniform(B, DHOW_F32, 2, k_shape, 0, 1, 1, &out.t))           \
    X(normal, DEVICE, 0, dhow_tensor_normal(B, DHOW_F32, 2, k_shape, 0, 1, 1, &out.t))             \
    X(pinned, DEVICE, 0, dhow_tensor_create_pinned(B, DHOW_F32, 2, k_shape, &out.t))               \
    X(wrap_device, DEVICE, 0,                                                                      \
      dhow_tensor_wrap_device(B, DHOW_F32, 2, k_shape, NULL, (uint64_t)(uintptr_t)out.data, 0, 24, \
                              NULL, NULL, &out.t))                                                 \
    X(stream_wrap, DEVICE, 0, dhow_stream_wrap(B, 1, &out.s))                                      \
    X(to_device, DEVICE, 0, dhow_tensor_to(T, B, &out.t))                                          \
    X(to_async_device, DEVICE, 0, dhow_tensor_to_async(NULL, T, B, &out.t))                        \
    X(npy_load, DEVICE, 0, dhow_npy_load(B, g_path, &out.t))                                       \
    X(safetensors_load_device, DEVICE, 0, dhow_safetensors_load(g.of[FILES], "t", B, &out.t))      \
    X(module_build, DEVICE, 0, dhow_module_build(B, &k_source, &out.m))                            \
    X(kernel_get, DEVICE, 0, dhow_kernel_get(B, "relu_f32", &out.k))                               \
    X(model_to, DEVICE, 0, dhow_model_to(g.of[MODEL], B))                                          \
    X(stream_sync, STREAM, 0, dhow_stream_sync(B))                                                 \
    X(stream_query, STREAM, 0, dhow_stream_query(B))                                               \
    X(stream_native, STREAM, 0, dhow_stream_native(B, &out.words[0]))                              \
    X(stream_wait_native, STREAM, 0, dhow_stream_wait_native(B, 1))                                \
    X(stream_wait_stream, STREAM, 1, dhow_stream_wait(B, g.of[EVENT]))                             \
    X(record_stream, STREAM, 1, dhow_event_record(g.of[EVENT], B))                                 \
    X(copy_async_stream, STREAM, 1, dhow_copy_async(B, T, T, 0))                                   \
    X(to_async_stream, STREAM, 1, dhow_tensor_to_async(B, T, g.of[DEVICE], &out.t))                \
    X(contiguous_stream, STREAM, 1, dhow_tensor_contiguous(B, T, &out.t))                          \
    X(add_stream, STREAM, 1, dhow_add(B, T, T, T))                                                 \
    X(fill_stream, STREAM, 1, dhow_fill(B, T, 0))                                                  \
    X(launch_stream, STREAM, 1, dhow_launch_values(B, g.of[KERNEL], 1, 0, NULL))                   \
    X(stream_wait, EVENT, 0, dhow_stream_wait(S, B))                                               \
    X(graph_record, STREAM, 0, dhow_graph_record(B, no_work, NULL, &out.graph))                    \
    X(graph_replay, GRAPH, 0, dhow_graph_replay(B, S))                                             \
    X(graph_replay_stream, STREAM, 1, dhow_graph_replay(g.of[GRAPH], B))                           \
    X(event_record, EVENT, 0, dhow_event_record(B, S))                                             \
    X(event_native, EVENT, 0, dhow_event_native(B, &out.words[0]))                                 \
    X(event_sync, EVENT, 0, dhow_event_sync(B))                                                    \
    X(event_query, EVENT, 0, dhow_event_query(B))                                                  \
    X(elapsed_start, EVENT, 0, dhow_event_elapsed_ms(B, g.of[EVENT], &out.ms))                     \
    X(elapsed_end, EVENT, 0, dhow_event_elapsed_ms(g.of[EVENT], B, &out.ms))                       \
    X(tensor_retain, TENSOR, 0, dhow_tensor_retain(B))                                             \
    X(label, TENSOR, 0, dhow_tensor_set_label(B, "x"))                                             \
    X(freeze, TENSOR, 0, dhow_tensor_freeze(B))                                                    \
    X(tensor_info, TENSOR, 0, dhow_tensor_get_info(B, &out.tensor))                                \
    X(host_ptr, TENSOR, 0, dhow_tensor_host_ptr(B, &out.pointer))                                  \
    X(native, TENSOR, 0, dhow_tensor_native(B, &out.words[0], &out.words[1]))                      \
    X(to_dlpack, TENSOR, 0, dhow_tensor_to_dlpack(B, NULL, &out.exported))                         \
    X(to_old_dlpack, TENSOR, 0, dhow_tensor_to_dlpack_unversioned(B, NULL, &out.old_exported))     \
    X(native_done, TENSOR, 0, dhow_tensor_native_done(B, NULL))                                    \
    X(slice, TENSOR, 0, dhow_tensor_slice(B, 0, 0, 1, 1, &out.t))                                  \
    X(select, TENSOR, 0, dhow_tensor_select(B, 0, 0, &out.t))                                      \
    X(permute, TENSOR, 0, dhow_tensor_permute(B, k_order, &out.t))                                 \
    X(transpose, TENSOR, 0, dhow_tensor_transpose(B, 0, 1, &out.t))                                \
    X(reshape, TENSOR, 0, dhow_tensor_reshape(B, 2, k_shape, &out.t))                              \
    X(expand, TENSOR, 0, dhow_tensor_expand(B, 2, k_shape, &out.t))                                \
    X(contiguous, TENSOR, 0, dhow_tensor_contiguous(NULL, B, &out.t))                              \
    X(copy_src, TENSOR, 0, dhow_copy(B, T))                                                        \
    X(copy_dst, TENSOR, 0, dhow_copy(T, B))                                                        \
    X(copy_async_src, TENSOR, 0, dhow_copy_async(NULL, B, T, 0))                                   \
    X(copy_async_dst, TENSOR, 0, dhow_copy_async(NULL, T, B, 0))                                   \
    X(copy_plan_src, TENSOR, 0, dhow_copy_plan(B, T, &out.plan))                                   \
    X(copy_plan_dst, TENSOR, 0, dhow_copy_plan(T, B, &out.plan))                                   \
    X(to, TENSOR, 0, dhow_tensor_to(B, g.of[DEVICE], &out.t))                                      \
    X(to_async, TENSOR, 0, dhow_tensor_to_async(NULL, B, g.of[DEVICE], &out.t))                    \
    X(read, TENSOR, 0, dhow_tensor_read(B, out.data, 24))                                          \
    X(write, TENSOR, 0, dhow_tensor_write(B, out.data, 24))                                        \
    X(npy_save, TENSOR, 0, dhow_npy_save(B, g_path))                                               \
    X(safetensors_save, TENSOR, 0, (g_in[0] = B, dhow_safetensors_save(g_path, 1, k_names, g_in))) \
    X(cast_x, TENSOR, 0, dhow_cast(NULL, B, T))                                                    \
    X(cast_y, TENSOR, 0, dhow_cast(NULL, T, B))                                                    \
    X(fill_y, TENSOR, 0, dhow_fill(NULL, B, 0))                                                    \
    X(matmul_a, TENSOR, 0, dhow_matmul(NULL, B, T, T))                                             \
    X(matmul_b, TENSOR, 0, dhow_matmul(NULL, T, B, T))                                             \
    X(matmul_c, TENSOR, 0, dhow_matmul(NULL, T, T, B))                                             \
    X(linear_x, TENSOR, 0, dhow_linear(NULL, B, T, T, T))                                          \
    X(linear_w, TENSOR, 0, dhow_linear(NULL, T, B, T, T))                                          \
    X(linear_y, TENSOR, 0, dhow_linear(NULL, T, T, NULL, B))                                       \
    X(conv2d_x, TENSOR, 0, dhow_conv2d(NULL, B, T, NULL, &k_window, T))                            \
    X(conv2d_w, TENSOR, 0, dhow_conv2d(NULL, T, B, NULL, &k_window, T))                            \
    X(conv2d_y, TENSOR, 0, dhow_conv2d(NULL, T, T, NULL, &k_window, B))                            \
    X(maxpool2d_x, TENSOR, 0, dhow_maxpool2d(NULL, B, &k_window, T))                               \
    X(maxpool2d_y, TENSOR, 0, dhow_maxpool2d(NULL, T, &k_window, B))                               \
    X(avgpool2d_x, TENSOR, 0, dhow_avgpool2d(NULL, B, &k_window, T))                               \
    X(softmax_x, TENSOR, 0, dhow_softmax(NULL, B, 0, T))                                           \
    X(softmax_y, TENSOR, 0, dhow_softmax(NULL, T, 0, B))                                           \
    X(log_softmax_x, TENSOR, 0, dhow_log_softmax(NULL, B, 0, T))                                   \
    X(layernorm_x, TENSOR, 0, dhow_layernorm(NULL, B, T, T, 0, T))                                 \
    X(layernorm_g, TENSOR, 0, dhow_layernorm(NULL, T, B, T, 0, T))                                 \
    X(layernorm_b, TENSOR, 0, dhow_layernorm(NULL, T, T, B, 0, T))                                 \
    X(layernorm_y, TENSOR, 0, dhow_layernorm(NULL, T, T, T, 0, B))                                 \
    X(reduce_sum_x, TENSOR, 0, dhow_reduce_sum(NULL, B, 0, T))                                     \
    X(reduce_mean_x, TENSOR, 0, dhow_reduce_mean(NULL, B, 0, T))                                   \
    X(reduce_max_x, TENSOR, 0, dhow_reduce_max(NULL, B, 0, T))                                     \
    X(reduce_min_y, TENSOR, 0, dhow_reduce_min(NULL, T, 0, B))                                     \
    X(argmax_x, TENSOR, 0, dhow_argmax(NULL, B, 0, T))                                             \
    X(gather_x, TENSOR, 0, dhow_gather(NULL, B, T, T))                                             \
    X(gather_i, TENSOR, 0, dhow_gather(NULL, T, B, T))                                             \
    X(gather_y, TENSOR, 0, dhow_gather(NULL, T, T, B))                                             \
    X(module_kernel, MODULE, 0, dhow_module_kernel(B, "twice", &out.k))                            \
    X(launch, KERNEL, 0, dhow_launch_values(NULL, B, 1, 0, k_values))                              \
    X(launch_grid, KERNEL, 0, dhow_launch_grid_values(NULL, B, k_grid, k_grid, 0, 0, k_values))    \
    X(model_input, MODEL, 0, dhow_model_input(B, "x", DHOW_F32, 2, k_shape, &out.value))           \
    X(model_output, MODEL, 0, dhow_model_output(B, "x", 0))                                        \
    X(model_parameter, MODEL, 0, dhow_model_parameter(B, "x", DHOW_F32, 2, k_shape, &out.value))   \
    X(model_linear, MODEL, 0, dhow_model_linear(B, "x", 0, 1, 1, 0, &out.value))                   \
    X(model_conv2d, MODEL, 0, dhow_model_conv2d(B, "x", 0, 1, 1, &k_window, 0, &out.value))        \
    X(model_layernorm, MODEL, 0, dhow_model_layernorm(B, "x", 0, 1, 0, &out.value))                \
    X(model_embedding, MODEL, 0, dhow_model_embedding(B, "x", 0, 1, 1, DHOW_F32, &out.value))      \
    X(model_batchnorm, MODEL, 0, dhow_model_batchnorm(B, "x", 0, 1, 0, &out.value))                \
    X(model_attention, MODEL, 0,                                                                   \
      dhow_model_multihead_attention(B, "x", 0, 0, 0, -1, 1, 1, 0, &out.value))                    \
    X(model_lstm, MODEL, 0, dhow_model_lstm(B, "x", 0, 1, 1, 1, 0, 0, &out.value))                 \
    X(model_begin_scope, MODEL, 0, dhow_model_begin_scope(B, "x"))                                 \
    X(model_end_scope, MODEL, 0, dhow_model_end_scope(B))                                          \
    X(model_sequential, MODEL, 0, dhow_model_sequential(B, NULL, 0, NULL, 0, &out.value))          \
    X(model_load_with, MODEL, 0, dhow_model_load_state_with(B, g_path, 0, NULL, NULL))             \
    X(model_matmul, MODEL, 0, dhow_model_matmul(B, 0, 0, &out.value))                              \
    X(model_softmax, MODEL, 0, dhow_model_softmax(B, 0, 0, &out.value))                            \
    X(model_argmax, MODEL, 0, dhow_model_argmax(B, 0, 0, &out.value))                              \
    X(model_maxpool2d, MODEL, 0, dhow_model_maxpool2d(B, 0, &k_window, &out.value))                \
    X(model_avgpool2d, MODEL, 0, dhow_model_avgpool2d(B, 0, &k_window, &out.value))                \
    X(model_flatten, MODEL, 0, dhow_model_flatten(B, 0, 0, &out.value))                            \
    X(model_parameter_at, MODEL, 0, dhow_model_parameter_at(B, 0, &out.parameter))                 \
    X(model_load_file, CONTEXT, 0, dhow_model_load(B, g_path, &out.model))                         \
    X(model_load_bytes, CONTEXT, 0, dhow_model_load_memory(B, "x", 1, &out.model))                 \
    X(model_input_at, MODEL, 0, dhow_model_input_at(B, 0, &out.about))                             \
    X(model_output_at, MODEL, 0, dhow_model_output_at(B, 0, &out.about))                           \
    X(model_describe, MODEL, 0, dhow_model_parameter_describe(B, 0, &out.about))                   \
    X(model_report, MODEL, 0, dhow_model_get_summary(B, &out.summary))                             \
    X(model_step_at, MODEL, 0, dhow_model_step_at(B, 0, &out.step))                                \
    X(model_profiling, MODEL, 0, dhow_model_set_profiling(B, 1))                                   \
    X(model_set_parameter, MODEL, 0, dhow_model_set_parameter(B, "x", T))                          \
    X(model_load, MODEL, 0, dhow_model_load_state(B, g_path))                                      \
    X(model_save, MODEL, 0, dhow_model_save_state(B, g_path))                                      \
    X(model_run_data, MODEL, 0, dhow_model_run_data(B, NULL, NULL, 0, NULL, 0))                    \
    X(datum_of_tensor, TENSOR, 0, dhow_datum_of_tensor(B, &out.datum))                             \
    X(datum_of_sequence, DATUM, 0, (g_data[0] = B, dhow_datum_of_sequence(g_data, 1, &out.datum))) \
    X(datum_info, DATUM, 0, dhow_datum_get_info(B, &out.datum_info))                               \
    X(datum_tensor, DATUM, 0, dhow_datum_tensor(B, &out.t))                                        \
    X(datum_text, DATUM, 0, dhow_datum_text(B, 0, &out.text))                                      \
    X(datum_item, DATUM, 0, dhow_datum_item(B, 0, &out.datum))                                     \
    X(model_to_model, MODEL, 0, dhow_model_to(B, g.of[DEVICE]))                                    \
    X(model_set_precision, MODEL, 0, dhow_model_set_precision(B, DHOW_PRECISION_BF16))             \
    X(model_place, MODEL, 0, dhow_model_place(B, g.of[DEVICE], DHOW_PLACEMENT_STRICT))             \
    X(model_place_on, DEVICE, 0, dhow_model_place(g.of[MODEL], B, DHOW_PLACEMENT_STRICT))          \
    X(full_scalar, DEVICE, 0,                                                                      \
      dhow_tensor_full_scalar(B, DHOW_F32, 2, k_shape, DHOW_SCALAR(1), &out.t))                    \
    X(zeros, DEVICE, 0, dhow_tensor_zeros(B, DHOW_F32, 2, k_shape, &out.t))                        \
    X(ones, DEVICE, 0, dhow_tensor_ones(B, DHOW_F32, 2, k_shape, &out.t))                          \
    X(arange, DEVICE, 0,                                                                           \
      dhow_tensor_arange(B, DHOW_F32, DHOW_SCALAR(0), DHOW_SCALAR(1), DHOW_SCALAR(1), &out.t))     \
    X(empty_like, TENSOR, 0, dhow_tensor_empty_like(B, &out.t))                                    \
    X(zeros_like, TENSOR, 0, dhow_tensor_zeros_like(B, &out.t))                                    \
    X(ones_like, TENSOR, 0, dhow_tensor_ones_like(B, &out.t))                                      \
    X(full_like, TENSOR, 0, dhow_tensor_full_like(B, DHOW_SCALAR(1), &out.t))                      \
    X(clone, TENSOR, 0, dhow_tensor_clone(NULL, B, &out.t))                                        \
    X(clone_stream, STREAM, 1, dhow_tensor_clone(B, T, &out.t))                                    \
    X(to_dtype, TENSOR, 0, dhow_tensor_to_dtype(NULL, B, DHOW_F32, &out.t))                        \
    X(to_dtype_stream, STREAM, 1, dhow_tensor_to_dtype(B, T, DHOW_F32, &out.t))                    \
    X(squeeze, TENSOR, 0, dhow_tensor_squeeze(B, 0, &out.t))                                       \
    X(unsqueeze, TENSOR, 0, dhow_tensor_unsqueeze(B, 0, &out.t))                                   \
    X(flatten, TENSOR, 0, dhow_tensor_flatten(B, 0, -1, &out.t))                                   \
    X(stack_part, TENSOR, 0, (g_in[0] = B, dhow_stack(NULL, g_in, 1, 0, T)))                       \
    X(stack_y, TENSOR, 0, (g_in[0] = T, dhow_stack(NULL, g_in, 1, 0, B)))                          \
    X(stack_stream, STREAM, 1, (g_in[0] = T, dhow_stack(B, g_in, 1, 0, T)))                        \
    X(print, TENSOR, 0, dhow_tensor_print(B, no_text, NULL))                                       \
    X(item, TENSOR, 0, dhow_tensor_item(B, &out.ms))                                               \
    X(item_i64, TENSOR, 0, dhow_tensor_item_i64(B, &out.integer))                                  \
    X(reduce_x, TENSOR, 0, dhow_reduce(NULL, DHOW_REDUCE_SUM, B, NULL, 0, T))                      \
    X(reduce_y, TENSOR, 0, dhow_reduce(NULL, DHOW_REDUCE_SUM, T, NULL, 0, B))                      \
    X(var_x, TENSOR, 0, dhow_var(NULL, B, NULL, 0, 1, T))                                          \
    X(std_y, TENSOR, 0, dhow_std(NULL, T, NULL, 0, 1, B))                                          \
    X(argmin_x, TENSOR, 0, dhow_argmin(NULL, B, 0, T))                                             \
    X(argmin_y, TENSOR, 0, dhow_argmin(NULL, T, 0, B))                                             \
    X(argmin_stream, STREAM, 1, dhow_argmin(B, T, 0, T))                                           \
    X(cumsum_x, TENSOR, 0, dhow_cumsum(NULL, B, 0, T))                                             \
    X(cumsum_y, TENSOR, 0, dhow_cumsum(NULL, T, 0, B))                                             \
    X(topk_x, TENSOR, 0, dhow_topk(NULL, B, 1, 0, 1, T, T))                                        \
    X(topk_values, TENSOR, 0, dhow_topk(NULL, T, 1, 0, 1, B, T))                                   \
    X(model_reshape, MODEL, 0, dhow_model_reshape(B, 0, 2, k_shape, &out.value))                   \
    X(model_transpose, MODEL, 0, dhow_model_transpose(B, 0, 0, 1, &out.value))                     \
    X(model_cat, MODEL, 0, dhow_model_cat(B, NULL, 0, 0, &out.value))                              \
    X(model_where, MODEL, 0, dhow_model_where(B, 0, 0, 0, &out.value))                             \
    X(model_clip, MODEL, 0, dhow_model_clip(B, 0, 0, 1, &out.value))                               \
    X(model_reduce, MODEL, 0, dhow_model_reduce(B, DHOW_REDUCE_SUM, 0, NULL, 0, 0, &out.value))    \
    X(model_permute, MODEL, 0, dhow_model_permute(B, 0, NULL, 0, &out.value))                      \
    X(model_squeeze, MODEL, 0, dhow_model_squeeze(B, 0, 0, &out.value))                            \
    X(model_unsqueeze, MODEL, 0, dhow_model_unsqueeze(B, 0, 0, &out.value))                        \
    X(model_expand, MODEL, 0, dhow_model_expand(B, 0, 2, k_shape, &out.value))                     \
    X(model_slice, MODEL, 0, dhow_model_slice(B, 0, 0, 0, 1, 1, &out.value))                       \
    X(model_narrow, MODEL, 0, dhow_model_narrow(B, 0, 0, 0, 1, &out.value))                        \
    X(model_select, MODEL, 0, dhow_model_select(B, 0, 0, 0, &out.value))                           \
    X(model_stack, MODEL, 0, dhow_model_stack(B, NULL, 0, 0, &out.value))                          \
    X(model_split, MODEL, 0, dhow_model_split(B, 0, 0, k_shape, 1, &out.value))                    \
    X(model_chunk, MODEL, 0, dhow_model_chunk(B, 0, 0, 1, &out.value))                             \
    X(model_var, MODEL, 0, dhow_model_var(B, 0, NULL, 0, 1, 0, &out.value))                        \
    X(model_std, MODEL, 0, dhow_model_std(B, 0, NULL, 0, 1, 0, &out.value))                        \
    X(model_pad, MODEL, 0, dhow_model_pad(B, 0, NULL, 0, DHOW_PAD_CONSTANT, 0, &out.value))        \
    X(model_gather, MODEL, 0, dhow_model_gather(B, 0, 0, &out.value))                              \
    X(model_index_select, MODEL, 0, dhow_model_index_select(B, 0, 0, 0, &out.value))               \
    X(model_take_along_dim, MODEL, 0, dhow_model_take_along_dim(B, 0, 0, 0, &out.value))           \
    X(model_scatter, MODEL, 0,                                                                     \
      dhow_model_scatter(B, 0, 0, 0, 0, DHOW_SCATTER_REPLACE, &out.value))                         \
    X(model_cumsum, MODEL, 0, dhow_model_cumsum(B, 0, 0, &out.value))                              \
    X(model_argmin, MODEL, 0, dhow_model_argmin(B, 0, 0, &out.value))                              \
    X(model_topk, MODEL, 0, dhow_model_topk(B, 0, 1, 0, 1, &out.value, &out.value))                \
    X(model_sort, MODEL, 0, dhow_model_sort(B, 0, 0, 0, &out.value, &out.value))                   \
    X(model_leaky_relu, MODEL, 0, dhow_model_leaky_relu(B, 0, 0, &out.value))                      \
    X(model_elu, MODEL, 0, dhow_model_elu(B, 0, 0, &out.value))                                    \
    X(model_cast, MODEL, 0, dhow_model_cast(B, 0, DHOW_F32, &out.value))                           \
    X(model_log_softmax, MODEL, 0, dhow_model_log_softmax(B, 0, 0, &out.value))                    \
    X(model_conv1d, MODEL, 0, dhow_model_conv1d(B, "x", 0, 1, 1, &k_conv, 0, &out.value))          \
    X(model_conv3d, MODEL, 0, dhow_model_conv3d(B, "x", 0, 1, 1, &k_conv, 0, &out.value))          \
    X(model_conv_transpose1d, MODEL, 0,                                                            \
      dhow_model_conv_transpose1d(B, "x", 0, 1, 1, &k_conv, 0, &out.value))                        \
    X(model_conv_transpose2d, MODEL, 0,                                                            \
      dhow_model_conv_transpose2d(B, "x", 0, 1, 1, &k_conv, 0, &out.value))                        \
    X(model_conv_transpose3d, MODEL, 0,                                                            \
      dhow_model_conv_transpose3d(B, "x", 0, 1, 1, &k_conv, 0, &out.value))                        \
    X(model_groupnorm, MODEL, 0, dhow_model_groupnorm(B, "x", 0, 1, 1, 0, &out.value))             \
    X(model_rmsnorm, MODEL, 0, dhow_model_rmsnorm(B, "x", 0, 1, 0, &out.value))                    \
    X(model_dot_attention, MODEL, 0,                                                               \
      dhow_model_scaled_dot_product_attention(B, 0, 0, 0, -1, 0, 0, &out.value))                   \
    X(model_update_cache, MODEL, 0, dhow_model_update_cache(B, 0, 0, 0, &out.value))               \
    X(model_cached_attention, MODEL, 0,                                                            \
      dhow_model_cached_attention(B, 0, 0, 0, 0, 0, 0, 0, &out.value))                             \
    X(model_dropout, MODEL, 0, dhow_model_dropout(B, 0, 0, &out.value))                            \
    X(model_interpolate, MODEL, 0,                                                                 \
      dhow_model_interpolate(B, 0, k_shape, NULL, DHOW_INTERPOLATE_NEAREST, 0, &out.value))        \
    X(pad_x, TENSOR, 0, dhow_pad(NULL, B, NULL, 0, DHOW_PAD_CONSTANT, 0, T))                       \
    X(pad_y, TENSOR, 0, dhow_pad(NULL, T, NULL, 0, DHOW_PAD_CONSTANT, 0, B))                       \
    X(index_select_x, TENSOR, 0, dhow_index_select(NULL, B, 0, T, T))                              \
    X(index_select_i, TENSOR, 0, dhow_index_select(NULL, T, 0, B, T))                              \
    X(take_along_x, TENSOR, 0, dhow_take_along_dim(NULL, B, T, 0, T))                              \
    X(take_along_i, TENSOR, 0, dhow_take_along_dim(NULL, T, B, 0, T))                              \
    X(scatter_x, TENSOR, 0, dhow_scatter(NULL, B, 0, T, T, DHOW_SCATTER_REPLACE, T))               \
    X(scatter_s, TENSOR, 0, dhow_scatter(NULL, T, 0, T, B, DHOW_SCATTER_REPLACE, T))               \
    X(embedding_i, TENSOR, 0, dhow_embedding(NULL, B, T, T))                                       \
    X(embedding_w, TENSOR, 0, dhow_embedding(NULL, T, B, T))                                       \
    X(conv1d_x, TENSOR, 0, dhow_conv1d(NULL, B, T, NULL, NULL, T))                                 \
    X(conv1d_w, TENSOR, 0, dhow_conv1d(NULL, T, B, NULL, NULL, T))                                 \
    X(conv1d_y, TENSOR, 0, dhow_conv1d(NULL, T, T, NULL, NULL, B))                                 \
    X(conv3d_x, TENSOR, 0, dhow_conv3d(NULL, B, T, NULL, NULL, T))                                 \
    X(conv_transpose1d_x, TENSOR, 0, dhow_conv_transpose1d(NULL, B, T, NULL, NULL, T))             \
    X(conv_transpose2d_x, TENSOR, 0, dhow_conv_transpose2d(NULL, B, T, NULL, NULL, T))             \
    X(conv_transpose3d_x, TENSOR, 0, dhow_conv_transpose3d(NULL, B, T, NULL, NULL, T))             \
    X(batchnorm_x, TENSOR, 0, dhow_batchnorm(NULL, B, T, T, T, T, 0, T))                           \
    X(batchnorm_m, TENSOR, 0, dhow_batchnorm(NULL, T, B, T, T, T, 0, T))                           \
    X(groupnorm_x, TENSOR, 0, dhow_groupnorm(NULL, B, 1, T, T, 0, T))                              \
    X(rmsnorm_x, TENSOR, 0, dhow_rmsnorm(NULL, B, T, 0, T))                                        \
    X(rmsnorm_y, TENSOR, 0, dhow_rmsnorm(NULL, T, T, 0, B))                                        \
    X(dropout_x, TENSOR, 0, dhow_dropout(NULL, B, 0.5, 1, T))                                      \
    X(dropout_y, TENSOR, 0, dhow_dropout(NULL, T, 0.5, 1, B))                                      \
    X(dot_attention_q, TENSOR, 0, dhow_scaled_dot_product_attention(NULL, B, T, T, NULL, 0, 0, T)) \
    X(dot_attention_v, TENSOR, 0, dhow_scaled_dot_product_attention(NULL, T, T, B, NULL, 0, 0, T)) \
    X(interpolate_x, TENSOR, 0,                                                                    \
      dhow_interpolate(NULL, B, k_shape, NULL, DHOW_INTERPOLATE_NEAREST, 0, T))                    \
    X(sort_x, TENSOR, 0, dhow_sort(NULL, B, 0, 0, T, T))                                           \
    X(sort_values, TENSOR, 0, dhow_sort(NULL, T, 0, 0, B, T))                                      \
    X(pad_stream, STREAM, 1, dhow_pad(B, T, NULL, 0, DHOW_PAD_CONSTANT, 0, T))                     \
    X(fill_scalar_y, TENSOR, 0, dhow_fill_scalar(NULL, B, DHOW_SCALAR(0)))                         \
    X(fill_scalar_stream, STREAM, 1, dhow_fill_scalar(B, T, DHOW_SCALAR(0)))                       \
    X(affine_x, TENSOR, 0, dhow_affine(NULL, B, DHOW_SCALAR(1), DHOW_SCALAR(1), T))                \
    X(affine_y, TENSOR, 0, dhow_affine(NULL, T, DHOW_SCALAR(1), DHOW_SCALAR(1), B))                \
    X(affine_stream, STREAM, 1, dhow_affine(B, T, DHOW_SCALAR(1), DHOW_SCALAR(1), T))              \
    X(model_affine, MODEL, 0, dhow_model_affine(B, 0, DHOW_SCALAR(1), DHOW_SCALAR(1), &out.value)) \
    X(clip_x, TENSOR, 0, dhow_clip(NULL, B, 0, 1, T))                                              \
    X(clip_y, TENSOR, 0, dhow_clip(NULL, T, 0, 1, B))                                              \
    X(leaky_x, TENSOR, 0, dhow_leaky_relu(NULL, B, 0, T))                                          \
    X(elu_x, TENSOR, 0, dhow_elu(NULL, B, 0, T))                                                   \
    X(where_condition, TENSOR, 0, dhow_where(NULL, B, T, T, T))                                    \
    X(where_y, TENSOR, 0, dhow_where(NULL, T, T, T, B))                                            \
    X(model_replicate, MODEL, 0,                                                                   \
      dhow_model_replicate(B, (dhow_device *const[]){g.of[DEVICE]}, 1, &out.model))                \
    X(model_set_memory_limit, MODEL, 0, dhow_model_set_memory_limit(B, 1))                         \
    X(model_set_time_limit, MODEL, 0, dhow_model_set_time_limit(B, 1))                             \
    X(model_cancel, MODEL, 0, dhow_model_cancel(B))                                                \
    X(model_run_named, MODEL, 0, dhow_model_run_named(B, NULL, NULL, 0, NULL, 0))                  \
    X(model_run_into, MODEL, 0,                                                                    \
      (g_in[0] = T, g_out[0] = T, dhow_model_run_into(B, NULL, g_in, 1, g_out, 1)))                \
    X(model_run, MODEL, 0, (g_in[0] = T, dhow_model_run(B, NULL, g_in, 1, g_out, 1)))              \
    X(safetensors_at, FILES, 0, dhow_safetensors_at(B, 0, &out.entry))                             \
    X(safetensors_load, FILES, 0, dhow_safetensors_load(B, "t", g.of[DEVICE], &out.t))             \
    X(dataset_tensors, TENSOR, 0, (g_in[0] = B, dhow_dataset_from_tensors(g_in, 1, &out.dataset))) \
    X(dataset_npy, CONTEXT, 0, dhow_dataset_open_npy(B, k_names, 1, &out.dataset))                 \
    X(dataset_create, CONTEXT, 0, dhow_dataset_create(B, &k_samples, &out.dataset))                \
    X(dataset_read, DATASET, 0, dhow_dataset_read(B, NULL, 0, out.column_of))                      \
    X(dataset_subset, DATASET, 0, dhow_dataset_subset(B, NULL, 0, &out.dataset))                   \
    X(dataset_split, DATASET, 0, dhow_dataset_split(B, k_rest, 1, 0, 0, &out.dataset))             \
    X(dataset_concat, DATASET, 0, (g_row[0] = B, dhow_dataset_concat(g_row, 1, &out.dataset)))     \
    X(dataset_map, DATASET, 0, dhow_dataset_map(B, &k_mapping, &out.dataset))                      \
    X(dataset_column, DATASET, 0, dhow_dataset_column_at(B, 0, &out.column))                       \
    X(loader_create, DATASET, 0, dhow_loader_create(B, NULL, &out.loader))                         \
    X(loader_next, LOADER, 0, dhow_loader_next(B, &out.batch))                                     \
    X(loader_restart, LOADER, 0, dhow_loader_restart(B, 0, 0))                                     \
    X(sink_tensors, CONTEXT, 0, dhow_sink_to_tensors(B, &out.sink))                                \
    X(sink_npy, CONTEXT, 0, dhow_sink_to_npy(B, k_names, 1, &out.sink))                            \
    X(sink_function, CONTEXT, 0, dhow_sink_to_function(B, no_rows, NULL, &out.sink))               \
    X(sink_tensor, SINK, 0, dhow_sink_tensor(B, 0, &out.t))                                        \
    X(sink_finish, SINK, 0, dhow_sink_finish(B))                                                   \
    X(predict_model, MODEL, 0, dhow_predict(B, g.of[LOADER], g.of[SINK]))                          \
    X(predict_loader, LOADER, 0, dhow_predict(g.of[MODEL], B, g.of[SINK]))                         \
    X(predict_sink, SINK, 0, dhow_predict(g.of[MODEL], g.of[LOADER], B))                           \
    X(narrow, TENSOR, 0, dhow_tensor_narrow(B, 0, 0, 1, &out.t))                                   \
    X(split, TENSOR, 0, dhow_tensor_split(B, 0, k_shape, 1, &out.t))                               \
    X(chunk, TENSOR, 0, dhow_tensor_chunk(B, 0, 1, &out.t))                                        \
    X(pin, TENSOR, 0, dhow_tensor_pin(B, g.of[DEVICE]))                                            \
    X(pin_device, DEVICE, 0, dhow_tensor_pin(T, B))                                                \
    X(cat_part, TENSOR, 0, (g_in[0] = B, dhow_cat(NULL, g_in, 1, 0, T)))                           \
    X(cat_y, TENSOR, 0, (g_in[0] = T, dhow_cat(NULL, g_in, 1, 0, B)))                              \
    X(cat_stream, STREAM, 1, (g_in[0] = T, dhow_cat(B, g_in, 1, 0, T)))                            \
    X(trace_start, CONTEXT, 0, dhow_trace_start(B, 0))                                             \
    X(trace_stop, CONTEXT, 0, dhow_trace_stop(B))                                                  \
    X(trace_save, CONTEXT, 0, dhow_trace_save(B, g_path))                                          \
    X(trace_stats, CONTEXT, 0, dhow_trace_get_stats(B, &out.trace))                                \
    X(trace_region, CONTEXT, 0, dhow_trace_region(B, "x", 1, 2))                                   \
    X(parallel_model, MODEL, 0,                                                                    \
      dhow_parallel_create(B, (dhow_device *const[]){g.of[DEVICE]}, 1, NULL, &out.parallel))       \
    X(parallel_device, DEVICE, 0,                                                                  \
      dhow_parallel_create(g.of[MODEL], (dhow_device *const[]){B}, 1, NULL, &out.parallel))        \
    X(parallel_run_into, PARALLEL, 0,                                                              \
      (g_in[0] = T, g_out[0] = T, dhow_parallel_run_into(B, g_in, 1, g_out, 1)))                   \
    X(parallel_run, PARALLEL, 0, (g_in[0] = T, dhow_parallel_run(B, g_in, 1, g_out, 1)))           \
    X(parallel_input, TENSOR, 0,                                                                   \
      (g_in[0] = B, dhow_parallel_run(g.of[PARALLEL], g_in, 1, g_out, 1)))                         \
    X(parallel_member, PARALLEL, 0, dhow_parallel_member_at(B, 0, &out.member))                    \
    X(parallel_predict, PARALLEL, 0, dhow_parallel_predict(B, g.of[LOADER], g.of[SINK]))           \
    X(parallel_loader, LOADER, 0, dhow_parallel_predict(g.of[PARALLEL], B, g.of[SINK]))            \
    X(parallel_sink, SINK, 0, dhow_parallel_predict(g.of[PARALLEL], g.of[LOADER], B))              \
    X(init_parameters, MODEL, 0, dhow_model_init_parameters(B, 0))                                 \
    X(trainer_create, MODEL, 0, dhow_trainer_create(B, NULL, &out.trainer))                        \
    X(trainer_step, TRAINER, 0, dhow_trainer_step(B, &out.batch, NULL))                            \
    X(trainer_backward, TRAINER, 0,                                                                \
      (g_in[0] = T, dhow_trainer_backward(B, NULL, g_in, 1, T, NULL)))                             \
    X(trainer_input, TENSOR, 0,                                                                    \
      (g_in[0] = B, dhow_trainer_backward(g.of[TRAINER], NULL, g_in, 1, T, NULL)))                 \
    X(trainer_target, TENSOR, 0,                                                                   \
      (g_in[0] = T, dhow_trainer_backward(g.of[TRAINER], NULL, g_in, 1, B, NULL)))                 \
    X(trainer_stream, STREAM, 1,                                                                   \
      (g_in[0] = T, dhow_trainer_backward(g.of[TRAINER], B, g_in, 1, T, NULL)))                    \
    X(trainer_update, TRAINER, 0, dhow_trainer_update(B, NULL))                                    \
    X(trainer_zero, TRAINER, 0, dhow_trainer_zero_gradients(B))                                    \
    X(trainer_parameter, TRAINER, 0, dhow_trainer_parameter_at(B, 0, NULL, NULL, NULL))            \
    X(trainer_member, TRAINER, 0, dhow_trainer_member_at(B, 0, &out.member))                       \
    X(trainer_rate, TRAINER, 0, dhow_trainer_set_learning_rate(B, 1))                              \
    X(trainer_schedule, TRAINER, 0, dhow_trainer_set_schedule(B, NULL))                            \
    X(trainer_loader, TRAINER, 0, dhow_trainer_set_loader(B, g.of[LOADER]))                        \
    X(trainer_loader_loader, LOADER, 1, dhow_trainer_set_loader(g.of[TRAINER], B))                 \
    X(trainer_save, TRAINER, 0, dhow_trainer_save(B, "/nowhere/file"))                             \
    X(trainer_load, TRAINER, 0, dhow_trainer_load(B, "/nowhere/file"))                             \
    X(trainer_log, TRAINER, 0, dhow_trainer_set_log(B, NULL))                                      \
    X(trainer_curve, TRAINER, 0, dhow_trainer_save_curve(B, "/nowhere/file"))                      \
    X(trainer_model, TRAINER, 0, dhow_trainer_update_model(B))

#define DEFINE(name, kind, null_ok, call) \
    static dhow_status call_##name(void *B) { return call; }
CALLS(DEFINE)
#define DEFINE_UNARY(name, formula)                                                 \
    static dhow_status call_##name##_x(void *B) { return dhow_##name(NULL, B, T); } \
    static dhow_status call_##name##_y(void *B) { return dhow_##name(NULL, T, B); } \
    static dhow_status call_model_##name(void *B) { return dhow_model_##name(B, 0, &out.value); }
DHOW_UNARY_MAP(DEFINE_UNARY)
#define DEFINE_BINARY(name, formula)                                                   \
    static dhow_status call_##name##_a(void *B) { return dhow_##name(NULL, B, T, T); } \
    static dhow_status call_##name##_b(void *B) { return dhow_##name(NULL, T, B, T); } \
    static dhow_status call_##name##_c(void *B) { return dhow_##name(NULL, T, T, B); } \
    static dhow_status call_model_##name(void *B) { return dhow_model_##name(B, 0, 0, &out.value); }
DHOW_BINARY_MAP(DEFINE_BINARY)
#define DEFINE_FUNCTION(name, map, formula)                                         \
    static dhow_status call_##name##_x(void *B) { return dhow_##name(NULL, B, T); } \
    static dhow_status call_##name##_y(void *B) { return dhow_##name(NULL, T, B); } \
    static dhow_status call_model_##name(void *B) { return dhow_model_##name(B, 0, &out.value); }
DHOW_FUNCTION_MAP(DEFINE_FUNCTION)
#define DEFINE_FURTHER(name, map, formula)                                             \
    static dhow_status call_##name##_a(void *B) { return dhow_##name(NULL, B, T, T); } \
    static dhow_status call_##name##_b(void *B) { return dhow_##name(NULL, T, B, T); } \
    static dhow_status call_##name##_c(void *B) { return dhow_##name(NULL, T, T, B); } \
    static dhow_status call_model_##name(void *B) { return dhow_model_##name(B, 0, 0, &out.value); }
#define DEFINE_SCALAR(name, formula)                                         \
    static dhow_status call_##name##_scalar_x(void *B) {                     \
        return dhow_##name##_scalar(NULL, B, DHOW_SCALAR(1), T);             \
    }                                                                        \
    static dhow_status call_##name##_scalar_y(void *B) {                     \
        return dhow_##name##_scalar(NULL, T, DHOW_SCALAR(1), B);             \
    }                                                                        \
    static dhow_status call_model_##name##_scalar(void *B) {                 \
        return dhow_model_##name##_scalar(B, 0, DHOW_SCALAR(1), &out.value); \
    }
DHOW_SCALAR_MAP(DEFINE_SCALAR)
DHOW_FURTHER_BINARY_MAP(DEFINE_FURTHER)
DHOW_COMPARE_MAP(DEFINE_FURTHER)

static const struct {
    const char *name;
    dhow_status (*call)(void *bad);
    kind kind;
    int null_ok;
} k_calls[] = {
#define ROW(name, kind, null_ok, call) {#name, call_##name, kind, null_ok},
    CALLS(ROW)
#define ROW_UNARY(name, formula)                                                        \
    {#name " x", call_##name##_x, TENSOR, 0}, {#name " y", call_##name##_y, TENSOR, 0}, \
        {"model " #name, call_model_##name, MODEL, 0},
        DHOW_UNARY_MAP(ROW_UNARY)
#define ROW_BINARY(name, formula)                                                       \
    {#name " a", call_##name##_a, TENSOR, 0}, {#name " b", call_##name##_b, TENSOR, 0}, \
        {#name " y", call_##name##_c, TENSOR, 0}, {"model " #name, call_model_##name, MODEL, 0},
            DHOW_BINARY_MAP(ROW_BINARY)
#define ROW_FUNCTION(name, map, formula)                                                \
    {#name " x", call_##name##_x, TENSOR, 0}, {#name " y", call_##name##_y, TENSOR, 0}, \
        {"model " #name, call_model_##name, MODEL, 0},
                DHOW_FUNCTION_MAP(ROW_FUNCTION)
#define ROW_SCALAR(name, formula)                               \
    {#name "_scalar x", call_##name##_scalar_x, TENSOR, 0},     \
        {#name "_scalar y", call_##name##_scalar_y, TENSOR, 0}, \
        {"model " #name "_scalar", call_model_##name##_scalar, MODEL, 0},
                    DHOW_SCALAR_MAP(ROW_SCALAR)
#define ROW_FURTHER(name, map, formula)                                                 \
    {#name " a", call_##name##_a, TENSOR, 0}, {#name " b", call_##name##_b, TENSOR, 0}, \
        {#name " y", call_##name##_c, TENSOR, 0}, {"model " #name, call_model_##name, MODEL, 0},
                        DHOW_FURTHER_BINARY_MAP(ROW_FURTHER) DHOW_COMPARE_MAP(ROW_FURTHER)};

enum { CALL_COUNT = sizeof k_calls / sizeof k_calls[0] };

/* ---- the tests ---- */

static objects g_released;

static void set_up(void) {
    int fd = mkstemp(g_path);
    cr_assert(fd >= 0);
    g_released = make_objects();
    objects keep = make_objects(); /* so that pools do not hand the released ones out again */
    release_objects(&g_released);
    g = keep;
}

static void tear_down(void) {
    release_objects(&g);
    (void)remove(g_path);
}

TestSuite(handles, .init = set_up, .fini = tear_down);

/* A message of before must not pass as the answer. */
static void forget_last_error(void) {
    dhow_status status = dhow_event_elapsed_ms(NULL, NULL, NULL);
    cr_assert_eq(status, DHOW_INVALID_ARGUMENT);
}

static void expect_refusal(size_t i, void *bad, const char *what) {
    forget_last_error();
    dhow_status status = k_calls[i].call(bad);
    cr_assert_eq(status, DHOW_INVALID_ARGUMENT, "%s with %s: %s", k_calls[i].name, what,
                 dhow_status_name(status));
    cr_assert_null(strstr(dhow_last_error(), "out_ms"), "%s with %s leaves no message",
                   k_calls[i].name, what);
    cr_assert(strstr(dhow_last_error(), "NULL") != NULL ||
                  strstr(dhow_last_error(), "is no live") != NULL,
              "%s with %s says: %s", k_calls[i].name, what, dhow_last_error());
}

Test(handles, null_is_refused_everywhere) {
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (!k_calls[i].null_ok) expect_refusal(i, NULL, "NULL");
    }
}

Test(handles, a_released_handle_is_refused_everywhere) {
    for (size_t i = 0; i < CALL_COUNT; i++) {
        expect_refusal(i, g_released.of[k_calls[i].kind], "a released handle");
    }
}

/* The next tensor had the memory of the last that was released, and its handle. */
Test(handles, a_released_tensor_is_told_after_others_were_made) {
    enum { LATER = 16 };
    dhow_tensor *old, *later[LATER];
    float value = 0;
    dhow_device *device = g.of[DEVICE];
    OK(dhow_tensor_zeros(device, DHOW_F32, 0, NULL, &old));
    dhow_tensor_release(old);
    for (int i = 0; i < LATER; i++) OK(dhow_tensor_zeros(device, DHOW_F32, 0, NULL, &later[i]));
    cr_expect_eq(dhow_tensor_read(old, &value, sizeof value), DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "no live tensor"), "%s", dhow_last_error());
    for (int i = 0; i < LATER; i++) dhow_tensor_release(later[i]);
}

Test(handles, a_handle_of_another_kind_is_refused_everywhere) {
    for (size_t i = 0; i < CALL_COUNT; i++) {
        expect_refusal(i, g.of[k_calls[i].kind == CONTEXT ? DEVICE : CONTEXT], "another kind");
    }
}

Test(handles, plain_memory_is_refused_everywhere) {
    static alignas(64) unsigned char memory[4096];
    memset(memory, 0x5a, sizeof memory);
    for (size_t i = 0; i < CALL_COUNT; i++) expect_refusal(i, memory, "plain memory");
}

Test(handles, functions_without_a_status_answer_for_bad_handles) {
    static alignas(64) unsigned char memory[4096];
    for (int kinds = 0; kinds <= KINDS + 1; kinds++) {
        void *bad = kinds < KINDS ? g_released.of[kinds] : kinds == KINDS ? NULL : (void *)memory;
        cr_assert_eq(dhow_plugin_count(bad), 0);
        cr_assert_eq(dhow_device_count(bad), 0);
        cr_assert_str_eq(dhow_device_name(bad), "(invalid device)");
        cr_assert_null(dhow_device_context(bad));
        cr_assert_eq(dhow_device_precision(bad), DHOW_PRECISION_F32);
        cr_assert_eq(dhow_model_precision(bad), DHOW_PRECISION_DEVICE);
        cr_assert_null(dhow_stream_device(bad));
        cr_assert_null(dhow_tensor_device(bad));
        cr_assert_eq(dhow_tensor_count(bad), -1);
        cr_assert_eq(dhow_tensor_extent(bad, 0), -1);
        cr_assert_str_eq(dhow_kernel_signature(bad), "");
        cr_assert_str_eq(dhow_graph_reason(bad), "");
        cr_assert_eq(dhow_model_parameter_count(bad), 0);
        cr_assert_eq(dhow_model_input_count(bad), 0);
        cr_assert_eq(dhow_model_output_count(bad), 0);
        cr_assert_null(dhow_model_device(bad));
        cr_assert_eq(dhow_safetensors_count(bad), 0);
        cr_assert_eq(dhow_dataset_sample_count(bad), -1);
        cr_assert_eq(dhow_dataset_column_count(bad), 0);
        cr_assert_eq(dhow_loader_batch_count(bad), -1);
        cr_assert_eq(dhow_parallel_member_count(bad), 0);
        cr_assert_eq(dhow_trainer_parameter_count(bad), 0);
        cr_assert_eq(dhow_trainer_member_count(bad), 0);
        cr_assert_eq(dhow_trainer_learning_rate(bad), 0);
        cr_assert_eq(dhow_trainer_loss_scale(bad), 0);
        cr_assert_neq(dhow_schedule_rate(NULL, 1, 0), 0);
        cr_assert_eq(dhow_loader_sample_at(bad, 0, 0), -1);
        dhow_context_release(bad);
        dhow_stream_release(bad);
        dhow_event_release(bad);
        dhow_graph_release(bad);
        dhow_tensor_release(bad);
        dhow_module_release(bad);
        dhow_kernel_release(bad);
        dhow_model_release(bad);
        dhow_safetensors_close(bad);
        dhow_dataset_release(bad);
        dhow_loader_release(bad);
        dhow_sink_release(bad);
        dhow_datum_release(bad);
        dhow_parallel_release(bad);
        dhow_trainer_release(bad);
    }
    cr_assert_eq(dhow_datum_of_texts(1, NULL, NULL, &out.datum), DHOW_INVALID_ARGUMENT);
    cr_assert_str_empty(dhow_module_log());
    cr_assert_eq(dhow_last_native_code(), 0);
    cr_assert_not_null(dhow_version());
    cr_assert(dhow_trace_now() > 0);
    cr_assert_eq(dhow_set_error(DHOW_IO_ERROR, "%s %d", "disk", 7), DHOW_IO_ERROR);
    cr_assert_str_eq(dhow_last_error(), "disk 7");
}

Test(handles, numbers_that_are_no_status_or_dtype_have_names_too) {
    cr_assert_str_eq(dhow_status_name((dhow_status)99), "UNKNOWN");
    cr_assert_str_eq(dhow_status_text((dhow_status)99), "not a status");
    cr_assert_str_eq(dhow_dtype_name((dhow_dtype)0), "?");
    cr_assert_eq(dhow_dtype_bytes((dhow_dtype)14), 0);
}
