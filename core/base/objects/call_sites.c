/* SPDX-License-Identifier: Apache-2.0
 *
 * See places.h. A hash table by address that only grows; an object made at the address of an older
 * one takes its entry.
 */
#include "base/objects/call_sites.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "base/threads/fork.h"

enum { FRAMES = 24, FIRST_CAPACITY = 1024 };

typedef struct entry {
    const void *object;
    void *made, *released; /* return addresses */
} entry;

atomic_int dhowi_call_sites_users;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static entry *g_entries;
static size_t g_capacity, g_count;

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_PLACES, &g_mutex, false);
}

/* ---- addresses ---- */

static const void *object_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* The return address in the first caller that is not part of this library. */
static void *outside(void) {
    void *frames[FRAMES];
    static const char here;
    const void *ours = object_of(&here);
    int count = backtrace(frames, FRAMES), i = 0;
    while (i < count && object_of(frames[i]) != ours) i++; /* a sanitizer's own backtrace() */
    while (i < count && object_of(frames[i]) == ours) i++;
    return i < count ? frames[i] : count > 0 ? frames[count - 1] : NULL;
}

static void add_place(dhowi_text *text, void *address) {
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        dhowi_text_add(text, "an unknown place");
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    dhowi_text_add(text, "%s", slash != NULL ? slash + 1 : info.dli_fname);
    if (info.dli_sname != NULL) {
        dhowi_text_add(text, "(%s+0x%tx)", info.dli_sname,
                       (char *)address - (char *)info.dli_saddr);
    } else {
        dhowi_text_add(text, "+0x%tx", (char *)address - (char *)info.dli_fbase);
    }
}

/* ---- the table, under the mutex ---- */

/* The object's entry, or the free one it would take. The capacity is a power of two and never
 * full. */
static entry *find(const void *object) {
    size_t at = (size_t)(((uintptr_t)object >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
    for (;; at++) {
        entry *e = &g_entries[at & (g_capacity - 1)];
        if (e->object == object || e->object == NULL) return e;
    }
}

static bool make_room(void) {
    if (g_count * 2 < g_capacity) return true;
    size_t capacity = g_capacity > 0 ? g_capacity * 2 : FIRST_CAPACITY, old_capacity = g_capacity;
    entry *entries = dhowi_alloc_array(capacity, sizeof *entries), *old = g_entries;
    if (entries == NULL) return false;
    g_entries = entries;
    g_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].object != NULL) *find(old[i].object) = old[i];
    dhowi_free(old);
    return true;
}

/* ---- the functions ---- */

void dhowi_call_site_made(const void *object) {
    void *address = outside();
    pthread_mutex_lock(&g_mutex);
    if (make_room()) {
        entry *e = find(object);
        g_count += e->object == NULL;
        *e = (entry){.object = object, .made = address};
    }
    pthread_mutex_unlock(&g_mutex);
}

void dhowi_call_site_released(const void *object) {
    void *address = outside();
    pthread_mutex_lock(&g_mutex);
    if (g_capacity > 0) {
        entry *e = find(object);
        if (e->object == object) e->released = address;
    }
    pthread_mutex_unlock(&g_mutex);
}

void dhowi_call_site_forget(const void *object) {
    pthread_mutex_lock(&g_mutex);
    entry *e = g_capacity > 0 ? find(object) : NULL;
    if (e != NULL && e->object == object) e->made = NULL;
    pthread_mutex_unlock(&g_mutex);
}

const char *dhowi_call_site_text(const void *object, char *buffer, size_t capacity) {
    entry found = {0};
    dhowi_text text = {buffer, capacity, 0};
    buffer[0] = '\0';
    pthread_mutex_lock(&g_mutex);
    if (g_capacity > 0) found = *find(object);
    pthread_mutex_unlock(&g_mutex);
    if (found.made == NULL) return buffer;
    dhowi_text_add(&text, " (made at ");
    add_place(&text, found.made);
    if (found.released != NULL) {
        dhowi_text_add(&text, ", released at ");
        add_place(&text, found.released);
    }
    dhowi_text_add(&text, ")");
    return buffer;
}

void dhowi_call_sites_leave(void) {
    if (atomic_fetch_sub(&dhowi_call_sites_users, 1) > 1) return;
    pthread_mutex_lock(&g_mutex);
    dhowi_free(g_entries);
    g_entries = NULL;
    g_capacity = g_count = 0;
    pthread_mutex_unlock(&g_mutex);
}
