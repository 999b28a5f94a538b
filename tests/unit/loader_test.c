/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad plugins: each leaves a record with a state and a reason, and the good ones beside it work.
 * Plugins of a foreign folder are probed in a process of their own, so that even a crash is one.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "loader_fixture.h"

#define CASE(sentence, folder, state, reason, hint)                                         \
    Test(loader, sentence) {                                                                \
        expect_record(DHOW_TEST_BAD_DIR "/" folder, DHOW_PLUGIN_##state, (reason), (hint)); \
    }

/* ---- plugins that are unusual, but right ---- */

CASE(a_good_plugin_is_ready, "good", READY, "", "")
CASE(a_plugin_without_optional_slots_is_ready, "minimal", READY, "", "")
CASE(a_plugin_of_a_later_minor_is_ready, "later_minor", READY, "", "")
CASE(what_a_probe_prints_is_no_answer, "probe_prints", READY, "", "")
CASE(what_a_probe_writes_to_descriptor_3_is_no_answer, "probe_writes_on_3", READY, "", "")
CASE(a_child_that_a_probe_leaves_behind_is_not_waited_for, "probe_leaves_a_child", READY, "", "")
CASE(a_probe_may_log_with_a_level_that_does_not_exist, "probe_logs", READY, "", "")

/* ---- the symbol and its first words ---- */

CASE(a_library_without_the_symbol_is_no_plugin, "no_symbol", MISSING_SYMBOL,
     "exports no 'dhow_plugin_v1'", "no dhow plugin, or one for another major version")
CASE(a_symbol_too_short_for_a_table_is_refused, "short_symbol", ABI_MISMATCH,
     "dhow_plugin_v1 has 64 bytes, at least 232", "rebuild the plugin")
CASE(a_function_instead_of_a_table_is_refused, "function_symbol", ABI_MISMATCH, "at least 232",
     "rebuild the plugin")
CASE(a_wrong_magic_is_refused, "wrong_magic", ABI_MISMATCH, "magic 0x12345678, expected 0x574f4844",
     "rebuild")
CASE(a_struct_size_of_zero_is_refused, "size_zero", ABI_MISMATCH, "struct_size 0", "rebuild")
CASE(a_struct_size_below_the_required_slots_is_refused, "size_tiny", ABI_MISMATCH, "struct_size 64",
     "rebuild")
CASE(a_huge_struct_size_is_refused, "size_huge", ABI_MISMATCH, "struct_size 4294967295", "rebuild")
CASE(a_struct_size_that_is_no_multiple_of_8_is_refused, "size_odd", ABI_MISMATCH,
     "struct_size 340 of minor 0; 232 to 16384, a multiple of 8", "rebuild")
CASE(a_struct_size_larger_than_the_symbol_is_refused, "size_beyond_symbol", ABI_MISMATCH,
     "struct_size 352 of minor 0; 232 to 16384, a multiple of 8 and no more than the symbol's 344 "
     "bytes",
     "rebuild")
CASE(another_pointer_size_is_refused, "pointer_bytes", ABI_MISMATCH, "pointers of 4 bytes",
     "rebuild")
CASE(another_byte_order_is_refused, "other_endian", ABI_MISMATCH, "built for another machine",
     "rebuild")
CASE(another_sanitizer_is_refused, "other_sanitizers", ABI_MISMATCH, "built with sanitizers 0x",
     "rebuild")
CASE(a_plugin_without_a_name_is_refused, "name_null", ABI_MISMATCH, "backend name", "rebuild")
CASE(an_empty_name_is_refused, "name_empty", ABI_MISMATCH, "[a-z][a-z0-9]{0,14}", "rebuild")
CASE(a_name_with_a_capital_is_refused, "name_upper", ABI_MISMATCH, "[a-z][a-z0-9]{0,14}", "rebuild")
CASE(a_name_of_16_letters_is_refused, "name_long", ABI_MISMATCH, "[a-z][a-z0-9]{0,14}", "rebuild")
CASE(a_name_without_an_end_is_refused, "name_unterminated", ABI_MISMATCH, "[a-z][a-z0-9]{0,14}",
     "rebuild")

/* ---- required slots; tests/abi goes through all of them ---- */

CASE(a_plugin_without_probe_is_refused, "null_probe", ABI_MISMATCH,
     "the required slot 'probe' is NULL", "rebuild")
CASE(a_plugin_without_open_is_refused, "null_open", ABI_MISMATCH, "slot 'open'", "rebuild")
CASE(a_plugin_without_close_is_refused, "null_close", ABI_MISMATCH, "slot 'close'", "rebuild")
CASE(a_plugin_without_device_describe_is_refused, "null_device_describe", ABI_MISMATCH,
     "slot 'device_describe'", "rebuild")
CASE(a_plugin_without_mem_alloc_is_refused, "null_mem_alloc", ABI_MISMATCH, "slot 'mem_alloc'",
     "rebuild")
CASE(a_plugin_without_stream_sync_is_refused, "null_stream_sync", ABI_MISMATCH,
     "slot 'stream_sync'", "rebuild")
CASE(a_plugin_without_event_record_is_refused, "null_event_record", ABI_MISMATCH,
     "slot 'event_record'", "rebuild")
CASE(a_plugin_without_copy_is_refused, "null_copy", ABI_MISMATCH, "slot 'copy'", "rebuild")
CASE(a_plugin_without_launch_is_refused, "null_launch", ABI_MISMATCH, "slot 'launch'", "rebuild")

/* ---- the dynamic loader ---- */

CASE(an_undefined_symbol_is_named, "undefined_symbol", MISSING_SYMBOL,
     "undefined symbol: dhow_test_gone", "-z,defs")
CASE(a_missing_dependency_is_named, "missing_dependency", MISSING_DEPENDENCY,
     "libdhow_test_gone.so", "install the library")
CASE(a_crash_in_a_constructor_is_survived, "constructor_crashes", CRASHED,
     "died of signal 11 (Segmentation fault) while it was loaded and probed", "broken")
CASE(an_exit_in_a_constructor_is_survived, "constructor_exits", CRASHED, "with status 7",
     "must not end its process")

/* ---- the probe and the backend ---- */

CASE(a_crash_in_the_probe_is_survived, "probe_crashes", CRASHED,
     "died of signal 11 (Segmentation fault) while it was loaded and probed", "broken")
CASE(an_abort_in_the_probe_is_survived, "probe_aborts", CRASHED, "signal 6", "broken")
CASE(an_exit_in_the_probe_is_no_answer, "probe_exits", CRASHED, "with status 0",
     "must not end its process")
CASE(an_immediate_exit_in_the_probe_is_no_answer, "probe_exits_at_once", CRASHED, "with status 3",
     "must not end its process")
CASE(a_probe_that_hangs_is_given_up_after_5_seconds, "probe_hangs", TIMED_OUT,
     "no answer within 5 seconds", "hangs")
CASE(a_probe_state_that_does_not_exist_is_refused, "probe_state_unknown", ABI_MISMATCH, "state 99",
     "rebuild")
CASE(a_negative_probe_state_is_refused, "probe_state_negative", ABI_MISMATCH, "state -1", "rebuild")
CASE(a_probe_state_that_belongs_to_the_loader_is_refused, "probe_state_of_the_loader", ABI_MISMATCH,
     "state 8", "rebuild")
CASE(an_unknown_code_with_an_endless_message_is_init_failed, "probe_code_unknown", INIT_FAILED,
     "probe failed: INTERNAL: mmmm", "")
CASE(a_message_is_never_a_format, "probe_fails", INIT_FAILED,
     "probe failed: UNAVAILABLE: the %s%n of the driver is wrong", "")
CASE(a_missing_driver_is_told_in_one_line, "probe_says_no_driver", NO_DRIVER,
     "libplain.so.1 is not there", "install libplain1")
CASE(probe_texts_without_an_end_are_cut, "probe_text_unterminated", NO_DRIVER, "rrrr", "hhhh")
CASE(a_backend_that_does_not_open_is_init_failed, "open_fails", INIT_FAILED,
     "open failed: UNAVAILABLE: the driver went away", "")
CASE(a_crash_in_open_is_survived, "open_crashes", CRASHED, "died of signal 11", "broken")
CASE(a_backend_that_opens_as_nothing_is_init_failed, "open_gives_null", INIT_FAILED, "gave nothing",
     "")
CASE(a_backend_without_devices_is_no_device, "count_zero", NO_DEVICE, "shows no device", "")
CASE(a_backend_that_cannot_count_is_init_failed, "count_fails", INIT_FAILED, "cannot count", "")
CASE(a_backend_with_four_billion_devices_is_refused, "count_huge", ABI_MISMATCH,
     "4294967295 devices", "")
CASE(a_bad_cpu_plugin_does_not_hide_the_good_one, "bad_cpu", INIT_FAILED, "the driver went away",
     "")

Test(loader, a_version_of_two_lines_does_not_mix_up_the_answer) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/version_of_two_lines", NULL);
    dhow_plugin_record r = record_in(context, DHOW_TEST_BAD_DIR "/version_of_two_lines");
    cr_assert_eq(r.state, DHOW_PLUGIN_READY);
    cr_assert_str_eq(r.version, "1.0 0");
    cr_assert_str_eq(r.reason, "");
    cr_assert_str_eq(r.hint, "");
    dhow_context_release(context);
}

static dhow_device_info info_of_plain(dhow_context *context) {
    dhow_device *device;
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    OK(dhow_device_get(context, "plain:0", &device));
    OK(dhow_device_get_info(device, &info));
    return info;
}

Test(loader, a_device_that_cannot_be_described_is_listed_with_the_reason) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/describe_fails", NULL);
    const dhow_device_info info = info_of_plain(context);
    SAYS(info.description, "the device is shy");
    dhow_context_release(context);
}

/* They went to the terminal of who listed devices, and into texts that have to be UTF-8. */
Test(loader, texts_of_a_device_are_one_plain_line) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/coloured_texts", NULL);
    const dhow_device_info info = info_of_plain(context);
    cr_assert_str_eq(info.description, " [31mfast device  ?");
    cr_assert_str_eq(info.driver, "made in K\303\266ln 1.0");
    dhow_context_release(context);
}

/* Starting a driver can take longer than all the rest, and whoever lists devices uses none. */
Test(loader, a_backend_described_by_another_process_is_opened_with_its_first_device) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/open_fails_in_programs", NULL);
    dhow_plugin_record r = record_in(context, DHOW_TEST_BAD_DIR "/open_fails_in_programs");
    dhow_device *device;
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    cr_assert_eq(r.state, DHOW_PLUGIN_READY, "%s", r.reason);
    OK(dhow_device_get(context, "plain", &device));
    OK(dhow_device_get_info(device, &info));
    cr_assert_eq(info.compute_units, 1);
    cr_assert_eq(dhow_device_open(device), DHOW_UNAVAILABLE);
    SAYS(dhow_last_error(), "cannot be opened: the driver went away");
    computes(context, "cpu");
    dhow_context_release(context);
}

Test(loader, a_device_that_does_not_open_says_so_whenever_it_is_used) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/device_open_fails", NULL);
    dhow_device *device;
    dhow_tensor *tensor;
    OK(dhow_device_get(context, "plain", &device));
    cr_assert_eq(dhow_device_open(device), DHOW_UNAVAILABLE);
    cr_assert_eq(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(1), &tensor), DHOW_UNAVAILABLE);
    cr_assert_null(tensor);
    SAYS(dhow_last_error(), "plain:0: cannot be opened: the device is busy");
    computes(context, "cpu");
    dhow_context_release(context);
}

Test(loader, the_second_plugin_of_a_backend_is_a_duplicate) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/same_backend", NULL);
    dhow_plugin_record first = DHOW_INIT(dhow_plugin_record),
                       second = DHOW_INIT(dhow_plugin_record);
    OK(dhow_plugin_at(context, 0, &first));
    OK(dhow_plugin_at(context, 1, &second));
    cr_assert_eq(first.state, DHOW_PLUGIN_READY);
    SAYS(second.path, "libdhow_second.so");
    cr_assert_eq(second.state, DHOW_PLUGIN_DUPLICATE);
    SAYS(second.reason, "an earlier plugin is the backend 'plain'");
    cr_assert_eq(devices_called(context, "plain:0"), 1, "the duplicate's devices stay");
    cr_assert_eq(second.device_count, 0);
    computes(context, "cpu");
    dhow_context_release(context);
}

/* One is left out by its file's name, the other by what it says that it is. */
Test(loader, a_disabled_backend_has_no_devices_whatever_its_file_is_called) {
    static const char path[] = DHOW_TEST_BAD_DIR "/good:" DHOW_TEST_BAD_DIR "/same_backend";
    unsetenv("DHOW_PLUGIN_PATH");
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = path, .backends = "-opencl,-plain",
                  .cache_dir = "off");
    dhow_context *context;
    dhow_device *device;
    OK(dhow_context_create(&options, &context));
    for (uint32_t i = 0; i < 3; i++) {
        dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
        OK(dhow_plugin_at(context, i, &record));
        cr_assert_str_eq(record.backend, "plain");
        cr_assert_eq(record.state, DHOW_PLUGIN_DISABLED, "%s: %s", record.path, record.reason);
        cr_assert_eq(record.device_count, 0);
    }
    cr_assert_eq(devices_called(context, "plain:0"), 0);
    cr_assert_eq(dhow_device_get(context, "plain", &device), DHOW_NOT_FOUND);
    SAYS(dhow_last_error(), "DISABLED: DHOW_BACKENDS=-opencl,-plain");
    computes(context, "cpu");
    dhow_context_release(context);
}

Test(loader, a_good_foreign_plugin_moves_data) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/minimal", NULL);
    dhow_device *plain, *sim;
    dhow_tensor *x, *there, *back;
    float result[6];
    OK(dhow_device_get(context, "plain", &plain));
    OK(dhow_device_get(context, "sim", &sim));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(6), 4, &x));
    OK(dhow_tensor_to(x, plain, &there));
    OK(dhow_tensor_to(there, sim, &back));
    OK(dhow_tensor_read(back, result, sizeof result));
    for (int i = 0; i < 6; i++) cr_assert_eq(result[i], 4.0f);
    dhow_tensor_release(x);
    dhow_tensor_release(there);
    dhow_tensor_release(back);
    dhow_context_release(context);
}

/* A daemon without standard descriptors: the pipe of the answer gets their numbers. */
Test(loader, isolated_probes_work_with_standard_descriptors_closed) {
    fflush(NULL);
    int in = dup(0), out = dup(1), err = dup(2);
    close(0), close(1), close(2);
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/good", NULL);
    dhow_plugin_record record = record_in(context, DHOW_TEST_BAD_DIR "/good");
    dhow_context_release(context);
    dup2(in, 0), dup2(out, 1), dup2(err, 2);
    cr_assert_eq(record.state, DHOW_PLUGIN_READY, "%d: %s", record.state, record.reason);
}

/* A host that ignores SIGCHLD has its children reaped by the system. */
Test(loader, isolated_probes_work_with_sigchld_ignored) {
    signal(SIGCHLD, SIG_IGN);
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/good", NULL);
    cr_assert_eq(record_in(context, DHOW_TEST_BAD_DIR "/good").state, DHOW_PLUGIN_READY);
    dhow_context_release(context);
    signal(SIGCHLD, SIG_DFL);
}

Test(loader, where_memory_cannot_be_pinned_in_place_the_other_way_is_named) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/apart", NULL);
    dhow_device *cpu, *device;
    dhow_tensor *t;
    OK(dhow_device_get(context, "cpu", &cpu));
    OK(dhow_device_get(context, "plain", &device));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(100), 1, &t));
    cr_assert_eq(dhow_tensor_pin(t, device), DHOW_UNSUPPORTED);
    SAYS(dhow_last_error(), "dhow_tensor_create_pinned() makes memory that is");
    dhow_tensor_release(t);
    dhow_context_release(context);
}

/* ---- what auto takes ---- */

static void auto_is(const char *folder, const char *wanted, log_text *log) {
    dhow_context *context = open_beside(folder, log);
    dhow_device *device;
    OK(dhow_device_get(context, "auto", &device));
    cr_assert_str_eq(dhow_device_name(device), wanted, "%s", folder);
    dhow_context_release(context);
}

Test(loader, auto_takes_the_device_whose_backend_states_the_highest_priority) {
    auto_is(DHOW_TEST_BAD_DIR "/priority", "plain:0", NULL);
    auto_is(DHOW_TEST_BAD_DIR "/no_priority", "cpu:0", NULL);
    auto_is(DHOW_TEST_BAD_DIR "/gpu", "plain:0", NULL);
    auto_is(DHOW_TEST_BAD_DIR "/gpu_of_low_priority", "cpu:0", NULL);
}

/* Programs then failed with their first operation. */
Test(loader, auto_passes_over_a_device_without_a_kernel_and_says_so) {
    static log_text log;
    static const char folder[] = DHOW_TEST_BAD_DIR "/gpu_without_kernels";
    auto_is(folder, "cpu:0", &log);
    SAYS(log.text, "auto passes over plain:0: ");
    SAYS(log.text, "no compiler here");
    dhow_context *context = open_beside(folder, &log);
    dhow_device *device;
    log.warnings = 0;
    for (int i = 0; i < 2; i++) OK(dhow_device_get(context, "auto", &device));
    cr_assert_eq(log.warnings, 1);
    SAYS(record_in(context, folder).reason, "auto passes over plain:0: ");
    OK(dhow_device_get(context, "plain", &device)); /* who names it gets it */
    dhow_context_release(context);
}

/* ---- extension tables of other sizes ---- */

static dhow_status product(const char *folder, float *out, log_text *log) {
    static const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    dhow_context *context = open_beside(folder, log);
    dhow_device *device;
    dhow_tensor *x, *y, *z;
    OK(dhow_device_get(context, "plain", &device));
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(2, 2), a, &x));
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(2, 2), b, &y));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(2, 2), &z));
    dhow_status status = dhow_matmul(NULL, x, y, z);
    if (status == DHOW_OK) OK(dhow_tensor_read(z, out, 4 * sizeof *out));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(z);
    dhow_context_release(context);
    return status;
}

static void expect_product(const char *folder) {
    float result[4];
    cr_assert_eq(product(folder, result, NULL), DHOW_OK, "%s", dhow_last_error());
    cr_assert(result[0] == 19 && result[1] == 22 && result[2] == 43 && result[3] == 50);
}

Test(loader, a_blas_table_serves_products) { expect_product(DHOW_TEST_BAD_DIR "/blas_same"); }

typedef struct multiplication {
    dhow_device *device;
    int64_t n;
    dhow_status status;
    char message[256];
} multiplication;

static void *multiply(void *given) {
    multiplication *m = given;
    dhow_tensor *x = NULL, *y = NULL;
    m->status = dhow_tensor_full(m->device, DHOW_F32, DHOW_SHAPE(m->n, m->n), 1, &x);
    if (m->status == DHOW_OK)
        m->status = dhow_tensor_create(m->device, DHOW_F32, DHOW_SHAPE(m->n, m->n), &y);
    if (m->status == DHOW_OK) m->status = dhow_matmul(NULL, x, x, y);
    (void)snprintf(m->message, sizeof m->message, "%s", dhow_last_error());
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    return NULL;
}

/* A lock was held while the library planned, and whoever multiplied anything waited for it. */
Test(loader, a_table_plans_for_several_threads_at_once) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/blas_in_pairs", NULL);
    multiplication m[4] = {{.n = 2}, {.n = 3}, {.n = 4}, {.n = 4}}; /* also twice the same */
    for (int pair = 0; pair < 2; pair++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            multiplication *one = &m[2 * pair + i];
            OK(dhow_device_get(context, "plain", &one->device));
            cr_assert_eq(pthread_create(&threads[i], NULL, multiply, one), 0);
        }
        for (int i = 0; i < 2; i++) (void)pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 4; i++)
        cr_assert_eq(m[i].status, DHOW_OK, "%d: %s", i, m[i].message);
    dhow_context_release(context);
}

Test(loader, a_longer_blas_table_serves_as_well) {
    expect_product(DHOW_TEST_BAD_DIR "/blas_longer");
}

Test(loader, a_shorter_blas_table_is_passed_over_with_a_warning) {
    static log_text log;
    float result[4];
    /* The portable kernel is next, and this plugin has no compiler for it. */
    cr_assert_eq(product(DHOW_TEST_BAD_DIR "/blas_shorter", result, &log), DHOW_UNSUPPORTED);
    SAYS(dhow_last_error(), "plain:0");
    SAYS(dhow_last_error(), "matmul_f32");
    SAYS(log.text, "plain:0: the table dhow.blas/1 has 16 bytes");
    SAYS(log.text, "plain:0: the table dhow.conv/1 has 16 bytes");
}
