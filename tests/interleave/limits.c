/* SPDX-License-Identifier: Apache-2.0
 *
 * core/memory/pool.c: the memory of a device that several threads ask for never exceeds its limit.
 */
#include "hooks.h"
#include "memory/storage.h"
#include "scenarios.h"

enum { LIMIT = 3 << 10, BLOCK = 2 << 10 };

static dhow_plugin g_api;
static dhow_context *g_context;
static dhow_device *g_device;
static uint64_t g_taken, g_handles;
static int g_made;

static int32_t mem_alloc(void *device, uint64_t bytes, uint64_t *out, dhow_error *err) {
    (void)device, (void)err;
    interleave_step(INTERLEAVE_WRITE, &g_taken);
    g_taken += bytes;
    if (g_taken > LIMIT) interleave_fail("%d bytes of %d are taken", (int)g_taken, (int)LIMIT);
    *out = ++g_handles << 16;
    return DHOW_OK;
}
static void mem_free(void *device, uint64_t handle) {
    (void)device, (void)handle;
    interleave_step(INTERLEAVE_WRITE, &g_taken);
    g_taken -= BLOCK;
}
static int32_t mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err) {
    (void)device, (void)err;
    *out_free = *out_total = LIMIT;
    return DHOW_OK;
}

static void begin(void) {
    g_taken = 0;
    g_made = 0;
    g_api = (dhow_plugin){.mem_alloc = mem_alloc, .mem_free = mem_free, .mem_info = mem_info};
    g_context = dhowi_handle_new(DHOWI_CONTEXT, sizeof *g_context);
    g_device = dhowi_handle_new(DHOWI_DEVICE, sizeof *g_device);
    if (g_context == NULL || g_device == NULL) interleave_fail("no memory");
    g_device->api = &g_api;
    g_device->context = g_context;
    g_device->native = &g_api;
    dhowi_mutex_init_recursive(&g_device->mutex);
    if (dhow_memory_set_limit(g_device, LIMIT) != DHOW_OK) interleave_fail("no limit");
}

static void allocate(void) {
    dhowi_storage *s;
    dhow_status status = dhowi_storage_create(g_device, BLOCK, &s);
    if (status == DHOW_OK) {
        g_made++;
        dhowi_storage_release(s);
    } else if (status != DHOW_OUT_OF_MEMORY) {
        interleave_fail("%s", dhow_last_error());
    }
}

static void end(void) {
    dhow_memory_stats s = DHOW_INIT(dhow_memory_stats);
    if (g_made == 0) interleave_fail("nobody got anything");
    if (dhow_memory_trim(g_device) != DHOW_OK || dhow_memory_get_stats(g_device, &s) != DHOW_OK)
        interleave_fail("%s", dhow_last_error());
    if (s.live != 0 || s.reserved != 0 || g_taken != 0)
        interleave_fail("%d bytes are reserved, %d taken", (int)s.reserved, (int)g_taken);
    dhowi_attachment *memory = &g_device->attachments[DHOWI_ATTACH_MEMORY];
    memory->end(g_device, memory->data);
    pthread_mutex_destroy(&g_device->mutex);
    dhowi_handle_free(DHOWI_DEVICE, g_device);
    dhowi_handle_free(DHOWI_CONTEXT, g_context);
}

const scenario interleave_limits[] = {
    {"two threads allocate what fits once", begin, {allocate, allocate}, end},
    {NULL, NULL, {NULL}, NULL}};
