/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said when memory is exhausted: what was asked, what is there, and who holds it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/text.h"
#include "memory/pool.h"

/* Live tensors of one label. */
typedef struct holder {
    const char *label;
    uint64_t bytes, count;
} holder;

enum { MAX_HOLDERS = 64, TOLD_HOLDERS = 3 };

/* Under the pool's mutex; labels beyond the first MAX_HOLDERS count together. */
static uint32_t find_holders(const dhowi_pool *pool, holder holders[MAX_HOLDERS]) {
    uint32_t count = 0;
    for (const dhowi_storage *s = pool->live; s != NULL; s = s->next) {
        uint32_t i = 0;
        while (i < count && strcmp(holders[i].label, s->label) != 0) i++;
        if (i == MAX_HOLDERS) i--;
        if (i == count) holders[count++] = (holder){.label = s->label};
        holders[i].bytes += s->bytes;
        holders[i].count++;
    }
    return count;
}

static void largest_holders(dhowi_pool *pool, dhowi_text *text) {
    holder holders[MAX_HOLDERS];
    pthread_mutex_lock(&pool->mutex);
    uint32_t count = find_holders(pool, holders);
    for (uint32_t told = 0; told < TOLD_HOLDERS && told < count; told++) {
        char bytes[32];
        holder *most = &holders[0];
        for (uint32_t i = 1; i < count; i++)
            if (holders[i].bytes > most->bytes) most = &holders[i];
        if (most->bytes == 0) break;
        dhowi_text_add(text, "%s%s%s%s %s", told == 0 ? "; largest holders: " : ", ",
                       most->label[0] != '\0' ? "'" : "",
                       most->label[0] != '\0' ? most->label : "tensors without a label",
                       most->label[0] != '\0' ? "'" : "",
                       dhowi_bytes_text(most->bytes, bytes, sizeof bytes));
        if (most->count > 1) dhowi_text_add(text, " in %" PRIu64, most->count);
        most->bytes = 0;
    }
    pthread_mutex_unlock(&pool->mutex);
}

dhow_status dhowi_pool_exhausted(dhowi_pool *pool, uint64_t bytes, const char *reason) {
    char message[512], a[32], f[32], t[32], l[32];
    dhowi_text text = DHOWI_TEXT(message);
    dhow_device *device = pool->device;
    uint64_t free_bytes = 0, total = device->desc.memory_bytes;
    pthread_mutex_lock(&pool->mutex);
    const uint64_t live = pool->live_bytes;
    pthread_mutex_unlock(&pool->mutex);
    dhow_error err;
    dhowi_error_init(&err);
    bool known =
        device->api->mem_info(dhowi_device_native(device), &free_bytes, &total, &err) == DHOW_OK;
    dhowi_text_add(&text, "%s: %sout of memory: asked %s, free %s of %s, live tensors hold %s",
                   device->name, pool->pinned ? "pinned host memory: " : "",
                   dhowi_bytes_text(bytes, a, sizeof a),
                   known ? dhowi_bytes_text(free_bytes, f, sizeof f) : "unknown",
                   dhowi_bytes_text(total, t, sizeof t), dhowi_bytes_text(live, l, sizeof l));
    largest_holders(pool, &text);
    dhowi_text_add(&text, " (%s); release some of them, or take smaller batches or another device",
                   reason);
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "%s", message);
}

dhow_status dhowi_pool_limited(dhowi_pool *pool, uint64_t bytes) {
    char reason[96], l[32];
    dhowi_text text = DHOWI_TEXT(reason);
    pthread_mutex_lock(&pool->mutex);
    const uint64_t limit = pool->limit;
    pthread_mutex_unlock(&pool->mutex);
    dhowi_text_add(&text, "dhow_memory_set_limit() allows this device %s",
                   dhowi_bytes_text(limit, l, sizeof l));
    return dhowi_pool_exhausted(pool, bytes, reason);
}
