/* SPDX-License-Identifier: Apache-2.0
 *
 * devinfo: which devices are here, and for every plugin that gives none, why.
 */
#include "devinfo.h"

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char k_usage[] =
    "usage: devinfo [--json] [--device SPEC] [--check] [--links]\n"
    "\n"
    "Lists the devices of this machine and what became of every plugin.\n"
    "  --json         the same as JSON\n"
    "  --device SPEC  show what SPEC selects (\"cuda:1\", \"cuda,cpu\", \"auto\"); exit 1 with the "
    "reason if nothing\n"
    "  --check        allocate, copy, launch and verify on every device; exit 1 if one fails\n"
    "  --links        measure copies between all devices and the host: speed, latency and path\n"
    "  --version      print the version\n";

/* ---- words ---- */

static const char *state_name(dhow_plugin_state state) {
#define NAME(name, number, meaning) #name,
    static const char *const names[] = {DHOW_PLUGIN_STATE_MAP(NAME)};
#undef NAME
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

static const char *kind_name(dhow_device_kind kind) {
    switch (kind) {
        case DHOW_DEVICE_CPU:
            return "CPU";
        case DHOW_DEVICE_GPU:
            return "GPU";
        case DHOW_DEVICE_ACCELERATOR:
            return "accelerator";
        case DHOW_DEVICE_SIMULATED:
            return "simulated";
    }
    return "?";
}

static void dtype_list(uint64_t dtypes, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    for (int t = DHOW_F32; t <= DHOW_BOOL; t++) {
        if ((dtypes & DHOW_DTYPE_BIT(t)) == 0 || length >= capacity) continue;
        int n = snprintf(text + length, capacity - length, "%s%s", length > 0 ? " " : "",
                         dhow_dtype_name((dhow_dtype)t));
        if (n > 0) length += (size_t)n;
    }
}

static void gibibytes(uint64_t bytes, char *text, size_t capacity) {
    if (bytes == 0) {
        (void)snprintf(text, capacity, "-");
    } else {
        (void)snprintf(text, capacity, "%.1f GiB", (double)bytes / (1 << 30));
    }
}

/* ---- tables ---- */

static void print_devices(dhow_context *context) {
    printf("Devices\n");
    printf("  %-10s %-11s %5s %10s %10s  %s\n", "name", "kind", "units", "memory", "free",
           "description");
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        dhow_device_info info = DHOW_INIT(dhow_device_info);
        char memory[32], available[32], dtypes[128];
        if (dhow_device_at(context, i, &device) != DHOW_OK ||
            dhow_device_get_info(device, &info) != DHOW_OK)
            continue;
        gibibytes(info.memory_bytes, memory, sizeof memory);
        gibibytes(info.free_bytes, available, sizeof available);
        dtype_list(info.dtypes, dtypes, sizeof dtypes);
        printf("  %-10s %-11s %5u %10s %10s  %s\n", info.name, kind_name(info.kind),
               info.compute_units, memory, available, info.description);
        printf("  %-10s driver %s\n", "", info.driver);
        printf("  %-10s dtypes %s\n", "", dtypes);
        if (info.uuid[0] != '\0' || info.pci[0] != '\0') {
            printf("  %-10s uuid %s  pci %s\n", "", info.uuid[0] != '\0' ? info.uuid : "-",
                   info.pci[0] != '\0' ? info.pci : "-");
        }
        if (info.same_as[0] != '\0') printf("  %-10s the same hardware as %s\n", "", info.same_as);
    }
}

static void print_plugins(dhow_context *context) {
    printf("\nPlugins\n");
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record r = DHOW_INIT(dhow_plugin_record);
        if (dhow_plugin_at(context, i, &r) != DHOW_OK) continue;
        printf("  %-10s %-18s %s\n", r.backend, state_name(r.state), r.path);
        if (r.reason[0] != '\0') printf("  %-10s why   %s\n", "", r.reason);
        if (r.hint[0] != '\0') printf("  %-10s hint  %s\n", "", r.hint);
        for (uint32_t k = 0; k < r.component_count; k++) {
            dhow_plugin_component c = DHOW_INIT(dhow_plugin_component);
            if (dhow_plugin_component_at(context, i, k, &c) != DHOW_OK) continue;
            printf("  %-10s %s %s (%s): %s\n", "", c.present ? "uses " : "lacks", c.name, c.purpose,
                   c.detail);
        }
    }
    if (dhow_plugin_count(context) == 0) printf("  none was found\n");
}

static bool selected(dhow_context *context, const char *spec, dhow_device_info *info) {
    dhow_device *device;
    return dhow_device_get(context, spec, &device) == DHOW_OK &&
           dhow_device_get_info(device, info) == DHOW_OK;
}

/* What a program gets that names no device. */
static void print_default(dhow_context *context) {
    const char *choice = getenv("DHOW_DEVICE");
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    if (selected(context, NULL, &info)) {
        printf("\nA program that names no device gets %s", info.name);
        if (choice != NULL && choice[0] != '\0') printf(" (DHOW_DEVICE is '%.64s')", choice);
        printf(".\n");
    } else {
        printf("\nA program that names no device gets none: %s\n", dhow_last_error());
    }
}

/* ---- JSON ---- */

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *dtypes_json(uint64_t dtypes) {
    json_t *list = json_array();
    for (int t = DHOW_F32; t <= DHOW_BOOL; t++) {
        if ((dtypes & DHOW_DTYPE_BIT(t)) != 0) {
            (void)json_array_append_new(list, json_string(dhow_dtype_name((dhow_dtype)t)));
        }
    }
    return list;
}

static json_t *devices_json(dhow_context *context) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        dhow_device_info d = DHOW_INIT(dhow_device_info);
        if (dhow_device_at(context, i, &device) != DHOW_OK ||
            dhow_device_get_info(device, &d) != DHOW_OK)
            continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:o, s:i, s:o, s:o, s:o, s:o}",
                            "name", d.name, "backend", d.backend, "index", (int)d.index, "kind",
                            kind_name(d.kind), "description", d.description, "driver", d.driver,
                            "memory_bytes", (json_int_t)d.memory_bytes, "free_bytes",
                            d.free_bytes > 0 ? json_integer((json_int_t)d.free_bytes) : json_null(),
                            "compute_units", (int)d.compute_units, "dtypes", dtypes_json(d.dtypes),
                            "uuid", text_or_null(d.uuid), "pci", text_or_null(d.pci), "same_as",
                            text_or_null(d.same_as)));
    }
    return list;
}

static json_t *default_json(dhow_context *context) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    return selected(context, NULL, &info) ? json_string(info.name) : json_null();
}

static json_t *components_json(dhow_context *context, uint32_t plugin, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t k = 0; k < count; k++) {
        dhow_plugin_component c = DHOW_INIT(dhow_plugin_component);
        if (dhow_plugin_component_at(context, plugin, k, &c) != DHOW_OK) continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:s}", "name", c.name, "purpose", c.purpose, "present",
                            c.present, "detail", c.detail));
    }
    return list;
}

static json_t *plugins_json(dhow_context *context) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record r = DHOW_INIT(dhow_plugin_record);
        if (dhow_plugin_at(context, i, &r) != DHOW_OK) continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "path", r.path, "backend",
                            r.backend, "version", r.version, "state", state_name(r.state), "reason",
                            r.reason, "hint", r.hint, "components",
                            components_json(context, i, r.component_count)));
    }
    return list;
}

static int print_json(json_t *root) {
    int failed = root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0;
    printf("\n");
    json_decref(root);
    if (failed) (void)fprintf(stderr, "devinfo: the JSON text could not be made\n");
    return failed;
}

/* ---- the program ---- */

typedef struct options {
    bool json, check, links;
    const char *device;
} options;

static int parse(int argc, char **argv, options *o) {
    static const struct option names[] = {{"json", no_argument, NULL, 'j'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"links", no_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
            case 'j':
                o->json = true;
                break;
            case 'd':
                o->device = optarg;
                break;
            case 'c':
                o->check = true;
                break;
            case 'l':
                o->links = true;
                break;
            case 'h':
                (void)fputs(k_usage, stdout);
                return 0;
            case 'v':
                printf("devinfo %s\n", dhow_version());
                return 0;
            default:
                (void)fputs(k_usage, stderr);
                return 2;
        }
    }
    if (o->json && o->check) {
        (void)fprintf(stderr, "devinfo: --check prints a table; leave out --json\n");
        return 2;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "devinfo: '%s' is not understood\n%s", argv[optind], k_usage);
        return 2;
    }
    return -1;
}

static int select_device(dhow_context *context, const options *o) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    if (!selected(context, o->device, &info)) {
        (void)fprintf(stderr, "devinfo: %s\n", dhow_last_error());
        return 1;
    }
    if (o->json) {
        return print_json(json_pack("{s:s, s:s, s:s}", "version", dhow_version(), "spec", o->device,
                                    "selected", info.name));
    }
    printf("'%s' selects %s: %s\n", o->device, info.name, info.description);
    return 0;
}

int main(int argc, char **argv) {
    options o = {0};
    int done = parse(argc, argv, &o);
    if (done >= 0) return done;
    const dhow_context_options context_options =
        DHOW_INIT(dhow_context_options, .isolate_probes = 1);
    dhow_context *context;
    if (dhow_context_create(&context_options, &context) != DHOW_OK) {
        (void)fprintf(stderr, "devinfo: %s\n", dhow_last_error());
        return 1;
    }
    int result = 0;
    if (o.device != NULL) {
        result = select_device(context, &o);
    } else if (o.json) {
        json_t *links = NULL;
        if (o.links && devinfo_links(context, &links) > 0) result = 1;
        json_t *chosen = default_json(context); /* choosing may say something of a plugin */
        int printed = print_json(json_pack("{s:s, s:o, s:o, s:o, s:o*}", "version", dhow_version(),
                                           "devices", devices_json(context), "default", chosen,
                                           "plugins", plugins_json(context), "links", links));
        if (printed != 0) result = printed;
    } else {
        printf("dhow %s\n\n", dhow_version());
        print_devices(context);
        print_default(context);
        print_plugins(context);
        if (o.links && devinfo_links(context, NULL) > 0) result = 1;
    }
    if (o.check && devinfo_check(context) > 0) result = 1;
    dhow_context_release(context);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "devinfo: the output could not be written\n");
        return 1;
    }
    return result;
}
