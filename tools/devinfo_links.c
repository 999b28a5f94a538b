/* SPDX-License-Identifier: Apache-2.0
 *
 * devinfo --links: how fast every device copies to every other and to the host, and by which path.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devinfo.h"

enum { MAX_PLACES = 32, LARGE_RUNS = 3, SMALL_RUNS = 30, SMALL_BYTES = 4 };
static const uint64_t k_large_bytes = UINT64_C(64) << 20;

/* Where a copy begins or ends. */
typedef struct place {
    dhow_device *device;
    int pinned; /* host memory that the other end's device has pinned */
    char name[40];
} place;

typedef struct link_info {
    double gigabytes_per_second, microseconds; /* of a large and of a small copy */
    uint64_t bytes;
    char path[192];
    dhow_status status; /* OK, or why there are no numbers */
    char reason[256];
} link_info;

static double now(void) {
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int is_host(dhow_device *device) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    return dhow_device_get_info(device, &info) == DHOW_OK && info.host_memory != 0;
}

/* ---- one link ---- */

static dhow_status make_end(const place *p, const place *other, uint64_t bytes, dhow_tensor **out) {
    if (p->pinned)
        return dhow_tensor_create_pinned(other->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), out);
    return dhow_tensor_full(p->device, DHOW_U8, DHOW_SHAPE((int64_t)bytes), 1, out);
}

/* The best of some copies, in seconds; one before them is not counted. */
static dhow_status time_copies(dhow_tensor *from, dhow_tensor *to, int runs, double *out) {
    dhow_status status = dhow_copy(from, to);
    *out = 1e30;
    for (int i = 0; i < runs && status == DHOW_OK; i++) {
        double start = now();
        status = dhow_copy(from, to);
        double took = now() - start;
        if (took < *out) *out = took;
    }
    return status;
}

static dhow_status measure_size(const place *a, const place *b, uint64_t bytes, int runs,
                                double *out_seconds, link_info *link) {
    dhow_tensor *from = NULL, *to = NULL;
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    dhow_status status = make_end(a, b, bytes, &from);
    if (status == DHOW_OK) status = make_end(b, a, bytes, &to);
    if (status == DHOW_OK) status = dhow_copy_plan(from, to, &plan);
    if (status == DHOW_OK) (void)snprintf(link->path, sizeof link->path, "%s", plan.text);
    if (status == DHOW_OK) status = time_copies(from, to, runs, out_seconds);
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    return status;
}

static uint64_t size_for(const place *a, const place *b) {
    uint64_t bytes = k_large_bytes;
    const place *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        dhow_device_info info = DHOW_INIT(dhow_device_info);
        if (dhow_device_get_info(both[i]->device, &info) != DHOW_OK) continue;
        uint64_t room = info.free_bytes > 0 ? info.free_bytes : info.memory_bytes;
        if (room / 8 < bytes) bytes = room / 8;
    }
    return bytes > SMALL_BYTES ? bytes : SMALL_BYTES;
}

static void measure_link(const place *a, const place *b, link_info *link) {
    double large = 0, small = 0;
    memset(link, 0, sizeof *link);
    link->bytes = size_for(a, b);
    link->status = measure_size(a, b, SMALL_BYTES, SMALL_RUNS, &small, link);
    if (link->status == DHOW_OK)
        link->status = measure_size(a, b, link->bytes, LARGE_RUNS, &large, link);
    if (link->status != DHOW_OK) {
        (void)snprintf(link->reason, sizeof link->reason, "%s", dhow_last_error());
        return;
    }
    link->microseconds = small * 1e6;
    link->gigabytes_per_second = (double)link->bytes / large / 1e9;
}

/* ---- all of them ---- */

/* Pinned memory is an end of its own, for copies to and from devices. */
static int makes_sense(const place *a, const place *b) {
    if (a->pinned && b->pinned) return 0;
    if (a->pinned || b->pinned) return !is_host((a->pinned ? b : a)->device);
    return 1;
}

static int find_places(dhow_context *context, place places[MAX_PLACES]) {
    int count = 0, others = 0;
    for (uint32_t i = 0; i < dhow_device_count(context) && count < MAX_PLACES - 1; i++) {
        dhow_device *device;
        if (dhow_device_at(context, i, &device) != DHOW_OK) continue;
        others += !is_host(device);
        place *p = &places[count++];
        *p = (place){.device = device};
        (void)snprintf(p->name, sizeof p->name, "%s", dhow_device_name(device));
    }
    for (int i = 0; i < count && others > 0; i++) {
        if (!is_host(places[i].device)) continue;
        places[count] = (place){.device = places[i].device, .pinned = 1};
        (void)snprintf(places[count++].name, sizeof places[0].name, "pinned");
        break;
    }
    return count;
}

static void print_matrix(const place *places, const link_info *links, int count) {
    printf(
        "\nLinks: GB/s of a copy of 64 MiB, or an eighth of the memory, and in brackets "
        "microseconds of one of 4 bytes\n");
    printf("  %-12s", "from \\ to");
    for (int k = 0; k < count; k++) printf(" %18s", places[k].name);
    printf("\n");
    for (int i = 0; i < count; i++) {
        printf("  %-12s", places[i].name);
        for (int k = 0; k < count; k++) {
            const link_info *link = &links[i * count + k];
            char cell[32] = "-";
            if (makes_sense(&places[i], &places[k]) && link->status != DHOW_OK)
                (void)snprintf(cell, sizeof cell, "failed");
            if (makes_sense(&places[i], &places[k]) && link->status == DHOW_OK) {
                (void)snprintf(cell, sizeof cell, "%.2f (%.1f)", link->gigabytes_per_second,
                               link->microseconds);
            }
            printf(" %18s", cell);
        }
        printf("\n");
    }
    printf("\nPaths of the large copies\n");
    for (int i = 0; i < count * count; i++) {
        const place *a = &places[i / count], *b = &places[i % count];
        if (!makes_sense(a, b)) continue;
        printf("  %-10s -> %-10s %s%s%s\n", a->name, b->name, links[i].path,
               links[i].status != DHOW_OK ? "  FAILED: " : "", links[i].reason);
    }
}

static json_t *links_json(const place *places, const link_info *links, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count * count; i++) {
        const place *a = &places[i / count], *b = &places[i % count];
        const link_info *l = &links[i];
        if (!makes_sense(a, b)) continue;
        if (l->status != DHOW_OK) {
            (void)json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:s}", "from", a->name, "to", b->name, "status",
                                dhow_status_name(l->status), "reason", l->reason));
            continue;
        }
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:f, s:f, s:s}", "from", a->name, "to", b->name,
                            "bytes", (json_int_t)l->bytes, "gb_per_s", l->gigabytes_per_second,
                            "small_us", l->microseconds, "path", l->path));
    }
    return list;
}

int devinfo_links(dhow_context *context, json_t **out_json) {
    place places[MAX_PLACES];
    int count = find_places(context, places), failures = 0;
    link_info *links = calloc((size_t)count * (size_t)count + 1, sizeof *links);
    if (links == NULL) return 1;
    for (int i = 0; i < count * count; i++) {
        const place *a = &places[i / count], *b = &places[i % count];
        if (!makes_sense(a, b)) continue;
        measure_link(a, b, &links[i]);
        failures += links[i].status != DHOW_OK;
    }
    if (out_json != NULL) {
        *out_json = links_json(places, links, count);
    } else {
        print_matrix(places, links, count);
    }
    free(links);
    return failures;
}
