/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes from outside into a context: environment variables and options of all kinds, device
 * lists, shapes, and caches and memory that run out.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader_fixture.h"

static const char *const k_variables[] = {"DHOW_DEVICE",      "DHOW_BACKENDS",  "DHOW_PLUGIN_PATH",
                                          "DHOW_LOG",         "DHOW_CACHE_DIR", "DHOW_NUM_THREADS",
                                          "DHOW_VALIDATE",    "DHOW_SIM",       "DHOW_SIM_FAULTS",
                                          "DHOW_CPU_WINOGRAD"};

static void clean_environment(void) {
    for (size_t i = 0; i < sizeof k_variables / sizeof k_variables[0]; i++)
        unsetenv(k_variables[i]);
}

TestSuite(context, .init = clean_environment);

/* ---- the environment ---- */

/* Creating a context fails, names the variable and the bad word, and says what there is. */
static void refuses(const char *variable, const char *value, const char *word, const char *what) {
    clean_environment();
    cr_assert_eq(setenv(variable, value, 1), 0);
    dhow_context *context = (void *)&context;
    dhow_status status = dhow_context_create(NULL, &context);
    cr_assert_eq(status, DHOW_INVALID_ARGUMENT, "%s=%.40s: %s", variable, value,
                 dhow_status_name(status));
    cr_assert_null(context);
    SAYS(dhow_last_error(), variable);
    SAYS(dhow_last_error(), word);
    SAYS(dhow_last_error(), what);
}

static void accepts(const char *variable, const char *value) {
    const dhow_context_options options = DHOW_INIT(
        dhow_context_options, .backends = strcmp(variable, "DHOW_BACKENDS") ? "cpu" : NULL);
    clean_environment();
    cr_assert_eq(setenv(variable, value, 1), 0);
    dhow_context *context;
    OK(dhow_context_create(&options, &context));
    computes(context, "cpu");
    dhow_context_release(context);
}

/* 1 MB of one letter, the first one another. */
static char *megabyte(char first) {
    static char text[(1 << 20) + 1];
    memset(text, 'a', sizeof text - 1);
    text[0] = first;
    return text;
}

Test(context, a_log_level_that_does_not_exist_is_named) {
    refuses("DHOW_LOG", "loud", "'loud'", "error, warn, info, debug");
    refuses("DHOW_LOG", "WARN", "'WARN'", "error, warn, info, debug");
    refuses("DHOW_LOG", "%s%n%s", "'%s%n%s'", "error, warn, info, debug");
    refuses("DHOW_LOG", "warn,info", "'warn,info'", "none of");
    refuses("DHOW_LOG", megabyte('b'), "'baaa", "none of");
    accepts("DHOW_LOG", "debug");
    accepts("DHOW_LOG", "");
}

Test(context, a_thread_count_that_is_no_number_is_named) {
    static const char *const bad[] = {"0",  "-1", "4097", "two", "1e3",
                                      " 4", "4 ", "0x4",  "+4",  "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuses("DHOW_NUM_THREADS", bad[i], bad[i], "no number from 1 to 4096");
    refuses("DHOW_NUM_THREADS", megabyte('1'), "'1aaa", "1 to 4096");
    accepts("DHOW_NUM_THREADS", "1");
    accepts("DHOW_NUM_THREADS", "0003");
}

Test(context, a_switch_that_is_neither_on_nor_off_is_named) {
    refuses("DHOW_VALIDATE", "yes", "'yes'", "0, 1, on, off");
    refuses("DHOW_VALIDATE", "2", "'2'", "0, 1, on, off");
    refuses("DHOW_VALIDATE", "On", "'On'", "0, 1, on, off");
    refuses("DHOW_VALIDATE", megabyte('%'), "'%aaa", "0, 1, on, off");
    accepts("DHOW_VALIDATE", "off");
}

/* The plugin tells it, without which there is no context. */
Test(context, a_switch_of_the_cpu_that_is_none_is_named) {
    dhow_context *context = NULL;
    setenv("DHOW_CPU_WINOGRAD", "fasle", 1);
    cr_assert_eq(dhow_context_create(NULL, &context), DHOW_UNAVAILABLE);
    SAYS(dhow_last_error(), "DHOW_CPU_WINOGRAD: 'fasle' is none of 0, 1, on, off, always");
    accepts("DHOW_CPU_WINOGRAD", "off");
    accepts("DHOW_CPU_WINOGRAD", "always");
}

Test(context, instructions_that_are_none_are_named) {
    dhow_context *context = NULL;
    setenv("DHOW_CPU_ISA", "avx2", 1);
    cr_assert_eq(dhow_context_create(NULL, &context), DHOW_UNAVAILABLE);
    SAYS(dhow_last_error(), "DHOW_CPU_ISA: 'avx2' is none of x86-64-v2, x86-64-v3, x86-64-v4");
    accepts("DHOW_CPU_ISA", "v4");
}

Test(context, the_cpu_is_held_to_instructions) {
    dhow_context *context;
    dhow_device *cpu;
    setenv("DHOW_CPU_ISA", "x86-64-v2", 1);
    cr_assert_eq(dhow_context_create(NULL, &context), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_device_get(context, "cpu", &cpu), DHOW_OK);
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    cr_assert_eq(dhow_device_get_info(cpu, &info), DHOW_OK);
    cr_assert_neq(strstr(info.driver, "x86-64-v2"), NULL, "%s", info.driver);
    dhow_context_release(context);
}

Test(context, a_cache_folder_is_absolute) {
    refuses("DHOW_CACHE_DIR", "cache", "'cache'", "'off'");
    refuses("DHOW_CACHE_DIR", "./cache", "'./cache'", "no absolute path");
    refuses("DHOW_CACHE_DIR", "%n", "'%n'", "no absolute path");
    refuses("DHOW_CACHE_DIR", megabyte('/'), "'/aaa", "longer than");
    accepts("DHOW_CACHE_DIR", "off");
    accepts("DHOW_CACHE_DIR", "/nowhere/to/be/found");
}

Test(context, plugin_folders_are_absolute) {
    refuses("DHOW_PLUGIN_PATH", "plugins", "'plugins'", "no absolute path");
    refuses("DHOW_PLUGIN_PATH", "/tmp:../x", "'../x'", "separated by ':'");
    refuses("DHOW_PLUGIN_PATH", "/tmp:%n%s", "'%n%s'", "no absolute path");
    refuses("DHOW_PLUGIN_PATH", megabyte('/'), "'/aaa", "1048576 bytes");
    accepts("DHOW_PLUGIN_PATH", ":");
    accepts("DHOW_PLUGIN_PATH", "::/tmp::");
    accepts("DHOW_PLUGIN_PATH", "/nowhere/to/be/found");
}

Test(context, an_empty_element_of_the_plugin_path_is_not_the_current_folder) {
    static log_text log;
    cr_assert_eq(chdir(DHOW_TEST_BAD_DIR "/no_symbol"), 0);
    setenv("DHOW_PLUGIN_PATH", ":", 1);
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .log = keep_log, .log_user = &log);
    dhow_context *context;
    OK(dhow_context_create(&options, &context));
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
        OK(dhow_plugin_at(context, i, &record));
        cr_assert_null(strstr(record.path, "no_symbol"), "%s", record.path);
    }
    dhow_context_release(context);
}

/* The folder alone was named, not who asks for it. */
Test(context, a_plugin_folder_that_is_missing_is_told_with_the_variable) {
    static log_text log;
    setenv("DHOW_PLUGIN_PATH", "/nowhere/to/be/found", 1);
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .log = keep_log, .log_user = &log);
    dhow_context *context;
    OK(dhow_context_create(&options, &context));
    SAYS(log.text, "DHOW_PLUGIN_PATH: plugin folder /nowhere/to/be/found: No such file");
    dhow_context_release(context);
}

Test(context, a_backend_that_does_not_exist_is_named) {
    refuses("DHOW_BACKENDS", "cpu,nope", "'nope'", "plugins found: cpu, ");
    refuses("DHOW_BACKENDS", "-nope,cpu", "'nope'", "plugins found: cpu");
    refuses("DHOW_BACKENDS", "CPU", "'CPU'", "\"-opencl\" to drop one");
    refuses("DHOW_BACKENDS", "cpu,,opencl", "''", "no backend name");
    refuses("DHOW_BACKENDS", ",", "''", "no backend name");
    refuses("DHOW_BACKENDS", "--opencl", "'--opencl'", "no backend name");
    refuses("DHOW_BACKENDS", "-", "'-'", "no backend name");
    refuses("DHOW_BACKENDS", "cpu %n", "'cpu %n'", "no backend name");
    refuses("DHOW_BACKENDS", "cpu:0", "'cpu:0'", "no backend name");
    refuses("DHOW_BACKENDS", "-cpu", "'-cpu'", "host memory belongs to the cpu backend");
    refuses("DHOW_BACKENDS", megabyte('b'), "'baaa", "no backend name");
    accepts("DHOW_BACKENDS", "cpu");
    accepts("DHOW_BACKENDS", "-opencl");
    accepts("DHOW_BACKENDS", "cpu,");
}

Test(context, a_device_choice_that_does_not_parse_is_named_at_once) {
    refuses("DHOW_DEVICE", "cuda:", "'cuda:'", "write backend[:index]");
    refuses("DHOW_DEVICE", "cpu,", "device ''", "write backend[:index]");
    refuses("DHOW_DEVICE", "Cpu", "'Cpu'", "\"auto\"");
    refuses("DHOW_DEVICE", "auto,%n", "'%n'", "write backend[:index]");
    refuses("DHOW_DEVICE", megabyte('b'), "'baaa", "write backend[:index]");
    accepts("DHOW_DEVICE", "nope:3,cpu");
}

Test(context, options_win_over_the_environment) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .device = "cpu:0", .backends = "cpu", .cache_dir = "off",
                  .num_threads = 2);
    setenv("DHOW_DEVICE", "%%%", 1);
    setenv("DHOW_BACKENDS", "%%%", 1);
    setenv("DHOW_CACHE_DIR", "%%%", 1);
    setenv("DHOW_NUM_THREADS", "%%%", 1);
    dhow_context *context;
    dhow_device *device;
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, NULL, &device));
    cr_assert_str_eq(dhow_device_name(device), "cpu:0");
    dhow_context_release(context);
}

Test(context, options_are_checked_like_the_environment) {
    static const struct {
        dhow_context_options options;
        const char *word;
    } bad[] = {{{.device = ":"}, "device ':'"}, {{.backends = "!"}, "'!'"},
               {{.plugin_path = "x"}, "'x'"},   {{.cache_dir = ""}, "''"},
               {{.num_threads = -1}, "-1"},     {{.num_threads = INT32_MAX}, "2147483647"},
               {{.device = ""}, "device ''"},   {{.plugin_path = "/a:b"}, "plugin_path: 'b'"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dhow_context *context;
        dhow_context_options options = bad[i].options;
        options.struct_size = sizeof options;
        cr_assert_eq(dhow_context_create(&options, &context), DHOW_INVALID_ARGUMENT);
        cr_assert_null(context);
        SAYS(dhow_last_error(), bad[i].word);
    }
    cr_assert_eq(dhow_context_create(NULL, NULL), DHOW_INVALID_ARGUMENT);
}

/* Called while plugins are taken in, too. */
static void count_devices(void *user, dhow_log_level level, const char *message) {
    dhow_context **context = user;
    (void)level;
    (void)message;
    if (*context != NULL) cr_assert(dhow_device_count(*context) >= 1);
}

Test(context, validation_reports_what_outlives_a_context) {
    static log_text log;
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .log = keep_log, .log_user = &log);
    setenv("DHOW_VALIDATE", "on", 1);
    dhow_context *context;
    dhow_device *device;
    dhow_tensor *tensor;
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &device));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(4), &tensor));
    dhow_context_release(context);
    cr_assert_eq(log.warnings, 2, "%s", log.text);
    SAYS(log.text,
         "a context was released while these objects of the process live: 1 of kind tensor");
    SAYS(log.text, "a tensor lives (made at ");
    dhow_tensor_release(tensor);
    OK(dhow_context_create(&options, &context));
    dhow_context_release(context);
    cr_assert_eq(log.warnings, 2, "%s", log.text);
}

static dhow_context *open_with_sim(log_text *log, const char *level) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = DHOW_TEST_SIM_DIR, .backends = "cpu,sim",
                  .log = keep_log, .log_user = log);
    dhow_context *context;
    clean_environment();
    setenv("DHOW_LOG", level, 1);
    OK(dhow_context_create(&options, &context));
    return context;
}

Test(context, a_choice_among_devices_is_told_once_and_why_it_was_not_another) {
    static log_text log;
    dhow_device *device;
    dhow_context *context = open_with_sim(&log, "info");
    OK(dhow_device_get(context, "sim:1", &device));
    cr_assert_null(strstr(log.text, "' is "), "%s", log.text); /* no choice */
    OK(dhow_device_get(context, "sim:7,sim,cpu", &device));
    SAYS(log.text, "'sim:7,sim,cpu' is sim:0, ");
    SAYS(log.text, "; sim:7: the backend has 2 devices");
    log.text[0] = '\0';
    OK(dhow_device_get(context, "sim:7,sim,cpu", &device));
    cr_assert_str_empty(log.text);
    OK(dhow_device_get(context, NULL, &device));
    SAYS(log.text, "'auto' is cpu:0, ");
    dhow_context_release(context);
}

Test(context, a_list_with_a_backend_that_nobody_has_is_warned_of) {
    static log_text log;
    dhow_device *device;
    dhow_context *context = open_with_sim(&log, "warn");
    log.warnings = 0;
    OK(dhow_device_get(context, "sim:7,cpu", &device));
    cr_assert_eq(log.warnings, 0, "%s", log.text);
    OK(dhow_device_get(context, "smi,sim:1", &device));
    SAYS(log.text, "'smi,sim:1' is sim:1, ");
    SAYS(log.text, "; smi: unknown backend, no plugin libdhow_smi.so was found");
    cr_assert_eq(log.warnings, 1, "%s", log.text);
    dhow_context_release(context);
}

/* DHOW_DEVICES=opencl was ignored without a word. */
Test(context, variables_that_nobody_reads_are_warned_of_once) {
    static log_text log;
    setenv("DHOW_DEVICES", "opencl", 1);
    setenv("DHOW_SIM_SPEED", "2", 1); /* a backend's own affair */
    dhow_context_release(open_with_sim(&log, "warn"));
    SAYS(log.text,
         "DHOW_DEVICES is no variable of dhow's, and nobody reads it; is DHOW_DEVICE meant?");
    cr_assert_null(strstr(log.text, "DHOW_SIM_SPEED"), "%s", log.text);
    log.text[0] = '\0';
    setenv("DHOW_DEVICES", "opencl", 1);
    dhow_context_release(open_with_sim(&log, "warn"));
    cr_assert_null(strstr(log.text, "DHOW_DEVICES"), "%s", log.text);
}

Test(context, a_program_that_asks_for_the_cpu_starts_no_other_backend) {
    static log_text log;
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options,
                  .plugin_path = DHOW_TEST_BAD_DIR "/probe_says_no_driver:" DHOW_TEST_SIM_DIR,
                  .backends = "-opencl", .log = keep_log, .log_user = &log);
    static const char *const specs[] = {"cpu", "cpu:0", "cpu,sim", NULL};
    clean_environment();
    setenv("DHOW_LOG", "debug", 1);
    for (int i = 0; i < 4; i++) {
        dhow_context *context;
        dhow_device *device;
        dhow_tensor *t;
        if (specs[i] == NULL) setenv("DHOW_DEVICE", "cpu,auto", 1);
        log.text[0] = '\0';
        OK(dhow_context_create(&options, &context));
        OK(dhow_device_get(context, specs[i], &device));
        OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(4), 1, &t));
        OK(dhow_add(NULL, t, t, t));
        cr_assert_null(strstr(log.text, "libdhow_sim"), "%s", log.text);
        cr_assert_null(strstr(log.text, "libdhow_bad"), "%s", log.text);
        uint32_t count = dhow_device_count(context);
        cr_assert_eq(count, 3);
        SAYS(log.text, "libdhow_sim.so: ready");
        OK(dhow_device_at(context, 0, &device)); /* the CPU comes before simulated devices */
        cr_assert_str_eq(dhow_device_name(device), "cpu:0");
        OK(dhow_device_get(context, "sim:1", &device));
        dhow_tensor_release(t);
        dhow_context_release(context);
    }
}

Test(context, a_log_function_may_look_at_devices_while_they_are_found) {
    dhow_context *context = NULL;
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = DHOW_TEST_SIM_DIR, .backends = "-opencl",
                  .log = count_devices, .log_user = &context);
    clean_environment();
    setenv("DHOW_LOG", "debug", 1);
    OK(dhow_context_create(&options, &context));
    cr_assert_eq(dhow_device_count(context), 3);
    dhow_context_release(context);
}

/* ---- device lists ---- */

static dhow_context *g_context;

static void open_context(void) {
    clean_environment();
    g_context = open_beside(DHOW_TEST_BAD_DIR "/probe_says_no_driver", NULL);
}
static void close_context(void) { dhow_context_release(g_context); }

TestSuite(devices, .init = open_context, .fini = close_context);

static void selects(const char *spec, const char *name) {
    dhow_device *device;
    OK(dhow_device_get(g_context, spec, &device));
    cr_assert_str_eq(dhow_device_name(device), name);
}

static void selects_nothing(const char *spec, dhow_status wanted, const char *text) {
    dhow_device *device = (void *)&device;
    cr_assert_eq(dhow_device_get(g_context, spec, &device), wanted, "%.40s", spec);
    cr_assert_null(device);
    SAYS(dhow_last_error(), text);
}

static void fail_inside(void *user, dhow_log_level level, const char *message) {
    dhow_device *device;
    (void)level;
    (void)message;
    if (dhow_device_get(*(dhow_context **)user, "nowhere", &device) != DHOW_OK) return;
}

Test(context, a_failure_inside_a_log_function_does_not_hide_the_one_that_is_told) {
    dhow_context *context = NULL;
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = DHOW_TEST_SIM_DIR, .backends = "cpu,sim",
                  .log = fail_inside, .log_user = &context);
    dhow_device *device;
    dhow_tensor *x;
    cr_assert_eq(setenv("DHOW_SIM_FAULTS", "mem_alloc@1=DEVICE_LOST!", 1), 0);
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "sim:0", &device));
    cr_assert_eq(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(4), &x), DHOW_DEVICE_LOST);
    SAYS(dhow_last_error(), "scripted fault: mem_alloc");
    dhow_context_release(context);
}

Test(devices, lists_fall_back_only_as_far_as_they_say) {
    selects(NULL, "cpu:0");
    selects("auto", "cpu:0");
    selects("cpu", "cpu:0");
    selects("cpu:0", "cpu:0");
    selects("cpu:0000", "cpu:0");
    selects("sim", "sim:0");
    selects("sim:1", "sim:1");
    selects("sim:7,cpu", "cpu:0");
    selects("nope,plain,sim:1,cpu", "sim:1");
    selects("auto,cpu", "cpu:0");
}

Test(devices, words_that_do_not_parse_are_named) {
    static const char *const bad[] = {"",
                                      ",",
                                      "cpu,",
                                      ",cpu",
                                      "cuda:",
                                      ":0",
                                      "CPU",
                                      "cpu:-1",
                                      "cpu:+1",
                                      "cpu:x",
                                      "cpu:0x0",
                                      "cpu: 0",
                                      " cpu",
                                      "cpu ",
                                      "cpu:0:0",
                                      "cpu;sim",
                                      "cpu,,sim",
                                      "cpu:1e0",
                                      "%n%s",
                                      "9cpu",
                                      "cpu:10000",
                                      "abcdefghijklmnop",
                                      "\xff\xfe",
                                      "cpu:99999999999",
                                      "cpu:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        selects_nothing(bad[i], DHOW_INVALID_ARGUMENT, "write backend[:index]");
    selects_nothing("sim,cpu:99999999999", DHOW_INVALID_ARGUMENT,
                    "'99999999999' is no device index");
    selects_nothing(megabyte('b'), DHOW_INVALID_ARGUMENT, "'baaa");
}

Test(devices, devices_that_are_not_there_are_explained) {
    selects_nothing("cpu:1", DHOW_NOT_FOUND,
                    "cpu:1: the backend has 1 device; devices here: cpu:0");
    selects_nothing("sim:2", DHOW_NOT_FOUND, "the backend has 2 devices");
    selects_nothing("nope", DHOW_NOT_FOUND, "unknown backend, no plugin libdhow_nope.so was found");
    selects_nothing("opencl:7", DHOW_NOT_FOUND, "opencl:7: DISABLED: DHOW_BACKENDS=-opencl");
    selects_nothing("plain", DHOW_NOT_FOUND,
                    "plain: NO_DRIVER: libplain.so.1 is not there; install libplain1");
    selects_nothing("cpu:1,nope", DHOW_NOT_FOUND, "; nope: unknown backend");
    char many[8192] = "nope";
    for (int i = 0; i < 1000; i++) (void)strncat(many, ",nope:7", sizeof many - strlen(many) - 1);
    selects_nothing(many, DHOW_NOT_FOUND, "no device for 'nope,nope:7");
}

Test(devices, indices_past_the_end_are_out_of_range) {
    dhow_device *device;
    dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
    dhow_plugin_component component = DHOW_INIT(dhow_plugin_component);
    cr_assert_eq(dhow_device_at(g_context, 3, &device), DHOW_OUT_OF_RANGE);
    SAYS(dhow_last_error(), "index 3, the context has 3 devices");
    cr_assert_eq(dhow_device_at(g_context, UINT32_MAX, &device), DHOW_OUT_OF_RANGE);
    cr_assert_eq(dhow_plugin_at(g_context, dhow_plugin_count(g_context), &record),
                 DHOW_OUT_OF_RANGE);
    cr_assert_eq(dhow_plugin_component_at(g_context, 0, 99, &component), DHOW_OUT_OF_RANGE);
    cr_assert_neq(dhow_last_error()[0], '\0');
}

Test(devices, contexts_live_side_by_side) {
    enum { CONTEXTS = 6 };
    dhow_context *contexts[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++) {
        contexts[i] = open_beside(DHOW_TEST_BAD_DIR "/good", NULL);
        computes(contexts[i], "sim:1");
    }
    for (int i = 0; i < CONTEXTS; i += 2) dhow_context_release(contexts[i]);
    for (int i = 1; i < CONTEXTS; i += 2) {
        computes(contexts[i], "cpu");
        computes(contexts[i], "sim");
        dhow_context_release(contexts[i]);
    }
}

Test(devices, objects_of_two_contexts_do_not_mix) {
    dhow_context *other = open_beside(DHOW_TEST_BAD_DIR "/good", NULL);
    dhow_device *here, *there;
    dhow_tensor *x, *y;
    dhow_stream *stream;
    OK(dhow_device_get(g_context, "cpu", &here));
    OK(dhow_device_get(other, "cpu", &there));
    OK(dhow_tensor_full(here, DHOW_F32, DHOW_SHAPE(4), 1, &x));
    OK(dhow_tensor_full(there, DHOW_F32, DHOW_SHAPE(4), 1, &y));
    OK(dhow_stream_create(there, &stream));
    cr_assert_eq(dhow_add(NULL, x, y, x), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_add(stream, x, x, x), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_copy(x, y), DHOW_INVALID_ARGUMENT);
    SAYS(dhow_last_error(), "context");
    dhow_stream_release(stream);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_context_release(other);
}

/* ---- shapes ---- */

static void expect_shape(dhow_device *device, int32_t rank, const int64_t *shape,
                         dhow_status wanted) {
    dhow_tensor *tensor = (void *)&tensor;
    dhow_status status = dhow_tensor_create(device, DHOW_F64, rank, shape, &tensor);
    cr_assert_eq(status, wanted, "rank %d: %s: %s", rank, dhow_status_name(status),
                 dhow_last_error());
    if (status != DHOW_OK) {
        cr_assert_null(tensor);
        cr_assert_neq(dhow_last_error()[0], '\0');
    }
    dhow_tensor_release(tensor);
}

Test(devices, shapes_that_overflow_are_refused) {
    static const int64_t big[] = {INT64_C(1) << 62, INT64_MAX, INT64_MAX - 1, INT64_C(1) << 60};
    const int64_t near[] = {(INT64_C(1) << 31) - 1, INT64_C(1) << 31, (INT64_C(1) << 31) + 1,
                            (INT64_C(1) << 32) - 1, INT64_C(1) << 32, (INT64_C(1) << 32) + 1};
    static const char *const names[] = {"cpu", "sim"};
    for (int d = 0; d < 2; d++) {
        dhow_device *device;
        OK(dhow_device_get(g_context, names[d], &device));
        for (size_t i = 0; i < 4; i++) {
            expect_shape(device, 1, &big[i], DHOW_OUT_OF_RANGE);
            expect_shape(device, 3, (int64_t[]){1, big[i], 1}, DHOW_OUT_OF_RANGE);
            expect_shape(device, 2, (int64_t[]){0, big[i]}, DHOW_OUT_OF_RANGE);
        }
        for (size_t i = 0; i < 6; i++) {
            for (size_t k = 0; k < 6; k++) /* 2^62 elements and more */
                expect_shape(device, 2, (int64_t[]){near[i], near[k]}, DHOW_OUT_OF_RANGE);
            expect_shape(device, 3, (int64_t[]){near[i], 0, 3}, DHOW_OK);
            expect_shape(device, 1, (int64_t[]){-near[i]}, DHOW_INVALID_ARGUMENT);
        }
        /* 2^59 bytes fit an address and no memory. */
        expect_shape(device, 2, (int64_t[]){INT64_C(1) << 28, INT64_C(1) << 28},
                     DHOW_OUT_OF_MEMORY);
        expect_shape(device, 8, (int64_t[]){1 << 16, 1 << 16, 1 << 16, 1 << 16, 1, 1, 1, 1},
                     DHOW_OUT_OF_RANGE);
        expect_shape(device, 2, (int64_t[]){3, -1}, DHOW_INVALID_ARGUMENT);
        expect_shape(device, 1, (int64_t[]){INT64_MIN}, DHOW_INVALID_ARGUMENT);
        expect_shape(device, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, DHOW_INVALID_ARGUMENT);
        expect_shape(device, -1, (int64_t[]){1}, DHOW_INVALID_ARGUMENT);
        expect_shape(device, INT32_MIN, NULL, DHOW_INVALID_ARGUMENT);
        expect_shape(device, 1, NULL, DHOW_INVALID_ARGUMENT);
        expect_shape(device, 0, NULL, DHOW_OK);
        expect_shape(device, 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1}, DHOW_OK);
        expect_shape(device, 1, (int64_t[]){0}, DHOW_OK);
    }
}

Test(devices, views_with_impossible_numbers_are_refused) {
    dhow_device *device;
    dhow_tensor *t, *view;
    OK(dhow_device_get(g_context, "cpu", &device));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(2, 3), 1, &t));
    const int32_t twice[] = {0, 0}, outside[] = {0, 2};
#define REFUSED(status, call)                                           \
    cr_assert_eq((call), (status), "%s: %s", #call, dhow_last_error()); \
    cr_assert_null(view)
    REFUSED(DHOW_OUT_OF_RANGE, dhow_tensor_slice(t, 2, 0, 1, 1, &view));
    REFUSED(DHOW_OUT_OF_RANGE, dhow_tensor_slice(t, INT32_MIN, 0, 1, 1, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_slice(t, 0, 0, 1, 0, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_slice(t, 0, 0, 1, INT64_MIN, &view));
    REFUSED(DHOW_OUT_OF_RANGE, dhow_tensor_select(t, 1, 3, &view));
    REFUSED(DHOW_OUT_OF_RANGE, dhow_tensor_select(t, 1, INT64_MIN, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_permute(t, twice, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_permute(t, outside, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_permute(t, NULL, &view));
    REFUSED(DHOW_OUT_OF_RANGE, dhow_tensor_transpose(t, 0, -3, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_reshape(t, 1, (int64_t[]){7}, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_reshape(t, 2, (int64_t[]){-1, -1}, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_reshape(t, 2, (int64_t[]){-1, 0}, &view));
    REFUSED(DHOW_INVALID_ARGUMENT,
            dhow_tensor_reshape(t, 9, (int64_t[9]){6, 1, 1, 1, 1, 1, 1, 1, 1}, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_expand(t, 2, (int64_t[]){4, 3}, &view));
    REFUSED(DHOW_INVALID_ARGUMENT, dhow_tensor_expand(t, 1, (int64_t[]){3}, &view));
    dhow_tensor *one;
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(1), 1, &one));
    dhow_status status = dhow_tensor_expand(
        one, 3, (int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 31}, &view);
    cr_assert(status == DHOW_INVALID_ARGUMENT || status == DHOW_OUT_OF_RANGE, "%d", status);
    cr_assert_null(view);
    /* Clamped as in Python, whatever the numbers. */
    OK(dhow_tensor_slice(t, 1, INT64_MIN, INT64_MAX, INT64_MAX, &view));
    cr_assert_eq(dhow_tensor_extent(view, 1), 1);
    dhow_tensor_release(view);
    OK(dhow_tensor_slice(t, 1, INT64_MAX, INT64_MIN, 1, &view));
    cr_assert_eq(dhow_tensor_extent(view, 1), 0);
    dhow_tensor_release(view);
    dhow_tensor_release(one);
    dhow_tensor_release(t);
}
