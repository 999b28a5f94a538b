/* SPDX-License-Identifier: Apache-2.0
 *
 * A program and a library of two versions: one of them knows one more field in every public struct.
 * Compiled with the headers of today it runs on a library of the grown ones, and with the grown
 * ones (GROWN) on the library of today: everything works, as long as the new fields are 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

static int g_failed;
#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, #what, dhow_last_error()); \
            g_failed++;                                                    \
        }                                                                  \
    } while (0)
#define OK(call) CHECK((call) == DHOW_OK)

/* What is not 0 in a field that the library does not know is refused by name; else it is known. */
#ifdef GROWN
#define REFUSED(type, given, call)                                              \
    do {                                                                        \
        type newer = *(given);                                                  \
        newer.grown = 7;                                                        \
        const type *p = &newer;                                                 \
        CHECK((call) == DHOW_INVALID_ARGUMENT);                                 \
        CHECK(strstr(dhow_last_error(), #type " has a field at byte") != NULL); \
    } while (0)
#define UNTOUCHED(info) CHECK((info).grown == 0)
#else
#define REFUSED(type, given, call) (void)(given)
#define UNTOUCHED(info) (void)(info)
#endif

static dhow_status read_index(void *user, const int64_t *indices, int64_t count,
                              void *const *columns) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        ((float *)columns[0])[i] = (float)indices[i];
        ((int32_t *)columns[1])[i] = (int32_t)-indices[i];
    }
    return DHOW_OK;
}

static void look_around(dhow_context *context, dhow_device *device) {
    dhow_plugin_record plugin = DHOW_INIT(dhow_plugin_record);
    dhow_plugin_component component = DHOW_INIT(dhow_plugin_component);
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_trace_stats trace = DHOW_INIT(dhow_trace_stats);
    OK(dhow_plugin_at(context, 0, &plugin));
    CHECK(plugin.path != NULL && plugin.component_count < 100);
    if (plugin.component_count > 0) OK(dhow_plugin_component_at(context, 0, 0, &component));
    OK(dhow_device_get_info(device, &info));
    CHECK(strcmp(info.name, "cpu:0") == 0 && strcmp(info.same_as, "") == 0);
    OK(dhow_memory_get_stats(device, &stats));
    OK(dhow_trace_get_stats(context, &trace));
    UNTOUCHED(plugin);
    UNTOUCHED(component);
    UNTOUCHED(info);
    UNTOUCHED(stats);
    UNTOUCHED(trace);
}

static void load(dhow_context *context) {
    const dhow_dataset_column columns[] = {DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_F32),
                                           DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_I32)};
    const dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .sample_count = 10, .column_count = 2, .columns = columns,
                  .read = read_index);
    const dhow_loader_options options = DHOW_INIT(dhow_loader_options, .batch_size = 4);
    dhow_dataset *dataset = NULL;
    dhow_loader *loader = NULL;
    dhow_dataset_column column = DHOW_INIT(dhow_dataset_column);
    dhow_batch batch = DHOW_INIT(dhow_batch);
    int32_t numbers[4];
    OK(dhow_dataset_create(context, &source, &dataset));
    REFUSED(dhow_dataset_source, &source, dhow_dataset_create(context, p, &(dhow_dataset *){NULL}));
    OK(dhow_dataset_column_at(dataset, 1, &column));
    CHECK(column.dtype == DHOW_I32 && column.rank == 0);
    OK(dhow_loader_create(dataset, &options, &loader));
    REFUSED(dhow_loader_options, &options,
            dhow_loader_create(dataset, p, &(dhow_loader *){NULL}));
    OK(dhow_loader_next(loader, &batch));
    CHECK(batch.sample_count == 4 && batch.tensor_count == 2);
    OK(dhow_tensor_read(batch.tensors[1], numbers, sizeof numbers));
    CHECK(numbers[3] == -3);
    UNTOUCHED(column);
    UNTOUCHED(batch);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

static dhow_model *network(dhow_context *context) {
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1});
    const dhow_window pool = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    const dhow_layer layers[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_CONV2D, .in = 1, .out = 2, .window = &window),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_ACTIVATION, .activation = dhow_model_relu),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_MAXPOOL2D, .window = &pool),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_FLATTEN)};
    dhow_model *m = NULL;
    dhow_model_value x;
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 1, 4, 4), &x));
    OK(dhow_model_sequential(m, NULL, x, layers, 4, &x));
    REFUSED(dhow_window, &window, dhow_model_maxpool2d(m, x, p, &(dhow_model_value){0}));
    OK(dhow_model_output(m, "y", x));
    return m;
}

static void run(dhow_context *context, dhow_device *device, const char *folder) {
    dhow_model *m = network(context);
    char path[512];
    dhow_tensor *x = NULL;
    dhow_model_value_info value = DHOW_INIT(dhow_model_value_info);
    dhow_model_parameter_info parameter = DHOW_INIT(dhow_model_parameter_info);
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
    dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    dhow_datum_info datum_info = DHOW_INIT(dhow_datum_info);
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    dhow_parallel_member member = DHOW_INIT(dhow_parallel_member);
    dhow_safetensors *file = NULL;
    dhow_datum *datum = NULL;
    dhow_parallel *parallel = NULL;
    OK(dhow_model_input_at(m, 0, &value));
    CHECK(strcmp(value.name, "x") == 0 && value.rank == 4);
    OK(dhow_model_parameter_at(m, 0, &parameter));
    CHECK(strcmp(parameter.name, "0.weight") == 0);
    OK(dhow_model_to(m, device));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(1, 1, 4, 4), 1, &x));
    dhow_named_tensor in[] = {DHOW_FIELDS(dhow_named_tensor, .name = "x", .tensor = x)};
    dhow_named_tensor out[] = {DHOW_FIELDS(dhow_named_tensor, .name = "y")};
    OK(dhow_model_run_named(m, NULL, in, 1, out, 1));
    OK(dhow_tensor_get_info(out[0].tensor, &info));
    CHECK(info.rank == 2 && info.shape[1] == 8 && info.contiguous == 1);
    OK(dhow_model_get_summary(m, &summary));
    CHECK(summary.plan_count == 1 && summary.step_count > 0);
    OK(dhow_model_step_at(m, 0, &step));
    OK(dhow_copy_plan(x, x, &plan));
    OK(dhow_datum_of_tensor(x, &datum));
    OK(dhow_datum_get_info(datum, &datum_info));
    CHECK(datum_info.count == 1);
    snprintf(path, sizeof path, "%s/grown.safetensors", folder);
    OK(dhow_model_save_state(m, path));
    OK(dhow_safetensors_open(context, path, &file));
    OK(dhow_safetensors_at(file, 0, &entry));
    CHECK(entry.bytes > 0 && entry.rank > 0);
    const dhow_parallel_options options = DHOW_INIT(dhow_parallel_options, .fixed_shares = 1);
    OK(dhow_parallel_create(m, &device, 1, &options, &parallel));
    REFUSED(dhow_parallel_options, &options,
            dhow_parallel_create(m, &device, 1, p, &(dhow_parallel *){NULL}));
    OK(dhow_parallel_member_at(parallel, 0, &member));
    CHECK(member.device == device);
    UNTOUCHED(value);
    UNTOUCHED(info);
    UNTOUCHED(summary);
    UNTOUCHED(member);
    dhow_parallel_release(parallel);
    dhow_safetensors_close(file);
    dhow_datum_release(datum);
    dhow_tensor_release(out[0].tensor);
    dhow_tensor_release(x);
    dhow_model_release(m);
}

static void build(dhow_device *device) {
    const dhow_module_source source = DHOW_INIT(
        dhow_module_source,
        .text = "KERNEL(one, (OUT(f32,y), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] = 1; }\n");
    dhow_module *module = NULL;
    OK(dhow_module_build(device, &source, &module));
    REFUSED(dhow_module_source, &source, dhow_module_build(device, p, &(dhow_module *){NULL}));
    dhow_module_release(module);
}

int main(int argc, char **argv) {
    const dhow_context_options options = DHOW_INIT(dhow_context_options, .backends = "cpu");
    const dhow_context_options none = {.backends = "cpu"};
    dhow_context *context = NULL;
    dhow_device *device = NULL;
    if (argc < 2 || dhow_context_create(&options, &context) != DHOW_OK ||
        dhow_device_get(context, "cpu", &device) != DHOW_OK) {
        fprintf(stderr, "usage: grown FOLDER (%s)\n", dhow_last_error());
        return 2;
    }
    REFUSED(dhow_context_options, &options, dhow_context_create(p, &(dhow_context *){NULL}));
    CHECK(dhow_context_create(&none, &(dhow_context *){NULL}) == DHOW_INVALID_ARGUMENT);
    CHECK(strstr(dhow_last_error(), "DHOW_INIT(dhow_context_options)") != NULL);
    look_around(context, device);
    load(context);
    run(context, device, argv[1]);
    build(device);
    dhow_context_release(context);
    printf("%d checks failed\n", g_failed);
    return g_failed != 0;
}
