/* SPDX-License-Identifier: Apache-2.0
 *
 * See fork.h.
 */
#include "base/threads/fork.h"

#include <stdatomic.h>

static struct {
    pthread_mutex_t *mutex; /* NULL: none */
    bool recursive;
} g_locks[DHOWI_FORK_LOCKS];
static atomic_uint_least32_t g_generation;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;
static int g_error;

void dhowi_mutex_init_recursive(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void dhowi_fork_guard(dhowi_fork_lock which, pthread_mutex_t *mutex, bool recursive) {
    g_locks[which].mutex = mutex;
    g_locks[which].recursive = recursive;
}

static void before(void) {
    for (int i = 0; i < DHOWI_FORK_LOCKS; i++)
        if (g_locks[i].mutex != NULL) pthread_mutex_lock(g_locks[i].mutex);
}

static void in_parent(void) {
    for (int i = DHOWI_FORK_LOCKS; i-- > 0;)
        if (g_locks[i].mutex != NULL) pthread_mutex_unlock(g_locks[i].mutex);
}

/* Made anew: a recursive lock knows its holder by a number that the child's thread has not. */
static void in_child(void) {
    atomic_fetch_add(&g_generation, 1);
    for (int i = DHOWI_FORK_LOCKS; i-- > 0;) {
        if (g_locks[i].mutex == NULL) continue;
        if (g_locks[i].recursive) {
            dhowi_mutex_init_recursive(g_locks[i].mutex);
        } else {
            pthread_mutex_init(g_locks[i].mutex, NULL);
        }
    }
}

static void watch(void) { g_error = pthread_atfork(before, in_parent, in_child); }

dhow_status dhowi_fork_watch(void) {
    (void)pthread_once(&g_once, watch);
    return g_error == 0 ? DHOW_OK : dhowi_fail_memory("pthread_atfork");
}

uint32_t dhowi_fork_generation(void) {
    return atomic_load_explicit(&g_generation, memory_order_relaxed);
}
