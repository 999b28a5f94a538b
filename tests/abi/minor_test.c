/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts and plugins of different minors. The program is compiled twice, each time with core's own
 * table.c: against dhow/plugin.h as it is, and against one that has a slot more (a host of minor
 * 1). Both meet plugins of both kinds.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "plugin/plugin.h"

static const dhow_plugin *load(const char *folder) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s/libdhow_plain.so", DHOW_TEST_BAD_DIR, folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    const dhow_plugin *table = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert_not_null(table);
    return table;
}

static dhow_plugin take(const char *folder) {
    dhow_plugin api;
    char reason[512] = "";
    const dhow_plugin *table = load(folder);
    memset(&api, 0xee, sizeof api);
    cr_assert(dhowi_plugin_take_table(table, table->struct_size, &api, reason, sizeof reason), "%s",
              reason);
    return api;
}

/* Every slot of minor 0 can be called, whatever the plugin has. */
static void expect_complete(const dhow_plugin *api) {
    const unsigned char *bytes = (const unsigned char *)api;
    for (size_t at = offsetof(dhow_plugin, probe); at < 344; at += sizeof(void *)) {
        void *slot;
        memcpy(&slot, bytes + at, sizeof slot);
        cr_assert_not_null(slot, "the slot at byte %zu is empty", at);
    }
}

#ifdef DHOW_TEST_HOST_1_1
#define LATER_IS(condition, api) cr_assert((api).later condition)
#else
#define LATER_IS(condition, api) cr_assert_eq(sizeof(dhow_plugin), 344)
#endif

Test(minor, the_host_has_the_size_it_is_compiled_for) {
#ifdef DHOW_TEST_HOST_1_1
    cr_assert_eq(sizeof(dhow_plugin), 352);
    cr_assert_eq(DHOW_PLUGIN_MINOR, 1);
#else
    cr_assert_eq(sizeof(dhow_plugin), 344);
    cr_assert_eq(DHOW_PLUGIN_MINOR, 0);
#endif
}

Test(minor, a_plugin_of_minor_0_is_taken_whole) {
    dhow_plugin api = take("good");
    cr_assert_eq(api.struct_size, 344);
    expect_complete(&api);
    LATER_IS(== NULL, api);
}

Test(minor, a_plugin_of_minor_1_is_taken_as_far_as_the_host_knows) {
    const dhow_plugin *table = load("minor_1_1");
    cr_assert_eq(table->struct_size, 352);
    cr_assert_eq(table->minor, 1);
    dhow_plugin api = take("minor_1_1");
    expect_complete(&api);
    LATER_IS(!= NULL, api);
}

Test(minor, the_smallest_plugin_gets_stubs_for_all_it_leaves_out) {
    dhow_plugin api = take("minimal");
    cr_assert_eq(api.struct_size, DHOW_PLUGIN_MIN_SIZE);
    expect_complete(&api);
    LATER_IS(== NULL, api);
    dhow_error err = {.struct_size = sizeof err};
    void *out = &err;
    uint64_t a = 1, b = 1;
    int64_t ns = 1;
    dhow_component component;
    cr_assert_eq(api.builtin_kernel(NULL, "relu_f32", 32, &out, &err), DHOW_NOT_FOUND);
    cr_assert_null(out);
    out = &err;
#define UNSUPPORTED(slot, call)               \
    err.message[0] = '\0';                    \
    cr_assert_eq((call), DHOW_UNSUPPORTED);   \
    cr_assert_eq(err.code, DHOW_UNSUPPORTED); \
    cr_assert_not_null(strstr(err.message, slot), "'%s' does not say " slot, err.message)
    UNSUPPORTED("host_alloc", api.host_alloc(NULL, 1, &out, &err));
    cr_assert_null(out);
    api.host_free(NULL, NULL);
    UNSUPPORTED("host_register", api.host_register(NULL, &a, 8, &err));
    UNSUPPORTED("host_unregister", api.host_unregister(NULL, &a, &err));
    out = &err;
    UNSUPPORTED("map", api.map(NULL, 1, 0, 1, 0, &out, &err));
    cr_assert_null(out);
    UNSUPPORTED("unmap", api.unmap(NULL, 1, NULL, &err));
    UNSUPPORTED("peer", api.can_copy(NULL, NULL, &err));
    UNSUPPORTED("peer_copy", api.peer_copy(NULL, NULL, 1, 0, 2, 0, 1, &err));
    UNSUPPORTED("event_signal", api.event_signal(NULL, &err));
    UNSUPPORTED("event_elapsed", api.event_elapsed(NULL, NULL, &ns, &err));
    UNSUPPORTED("mem_info", api.mem_info(NULL, &a, &b, &err));
    cr_assert(ns == 0 && a == 0 && b == 0);
    cr_assert_eq(api.component(NULL, 0, &component, &err), DHOW_OUT_OF_RANGE);
    cr_assert_null(api.get_extension(NULL, "dhow.blas/1"));
}

/* Words of the header in the order of the slots from `probe` on. */
static const char *const k_required[] = {
    "probe",          "open",         "close",        "device_count",  "device_describe",
    "device_open",    "device_close", "mem_alloc",    "mem_free",      "stream_create",
    "stream_destroy", "stream_sync",  "stream_query", "stream_wait",   "event_create",
    "event_destroy",  "event_record", "event_sync",   "event_query",   "copy",
    "fill",           "module_build", "module_free",  "module_kernel", "launch"};

Test(minor, each_required_slot_is_missed_by_its_name) {
    const dhow_plugin *good = load("good");
    const size_t first = offsetof(dhow_plugin, probe);
    const size_t count = sizeof k_required / sizeof k_required[0];
    cr_assert_eq(first + count * sizeof(void *), DHOW_PLUGIN_MIN_SIZE);
    for (size_t i = 0; i < count; i++) {
        dhow_plugin spoiled, api;
        char reason[512] = "", wanted[64];
        memset(&spoiled, 0, sizeof spoiled);
        memcpy(&spoiled, good, 344);
        memset((unsigned char *)&spoiled + first + i * sizeof(void *), 0, sizeof(void *));
        cr_assert_not(dhowi_plugin_take_table(&spoiled, 344, &api, reason, sizeof reason));
        (void)snprintf(wanted, sizeof wanted, "'%s' is NULL", k_required[i]);
        cr_assert_not_null(strstr(reason, wanted), "'%s' does not say %s", reason, wanted);
    }
}

Test(minor, every_struct_size_is_judged) {
    const dhow_plugin *good = load("good");
    unsigned char longer[512] = {0};
    memcpy(longer, good, 344);
    for (uint32_t size = 0; size <= sizeof longer; size++) {
        dhow_plugin api;
        char reason[512] = "";
        memcpy(longer + 4, &size, sizeof size);
        bool fits = size % 8 == 0 && size >= DHOW_PLUGIN_MIN_SIZE;
        bool taken = dhowi_plugin_take_table((const dhow_plugin *)(const void *)longer,
                                             sizeof longer, &api, reason, sizeof reason);
        cr_assert_eq(taken, fits, "size %u: %s", size, reason);
        cr_assert_eq(reason[0] == '\0', fits);
    }
}
