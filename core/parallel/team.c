/* SPDX-License-Identifier: Apache-2.0
 *
 * See team.h.
 */
#include "parallel/team.h"

#include <string.h>

#include "base/errors/error.h"
#include "base/memory/alloc.h"
#include "base/threads/fork.h"
#include "base/threads/thread.h"

typedef struct dhowi_teammate {
    dhowi_team *team;
    uint32_t index;
    pthread_t thread;
} dhowi_teammate;

static void *work(void *argument) {
    const dhowi_teammate *mate = argument;
    dhowi_team *team = mate->team;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->mutex);
    while (!team->stopping) {
        if (team->round == seen) {
            pthread_cond_wait(&team->work, &team->mutex);
            continue;
        }
        seen = team->round;
        pthread_mutex_unlock(&team->mutex);
        team->part(team->user, mate->index);
        pthread_mutex_lock(&team->mutex);
        if (--team->busy == 0) pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

dhow_status dhowi_team_start(dhowi_team *team, const char *function, uint32_t count,
                             void (*part)(void *user, uint32_t index), void *user) {
    *team = (dhowi_team){.part = part, .user = user, .fork_generation = dhowi_fork_generation()};
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    team->mates = dhowi_alloc_array((size_t)count + 1, sizeof *team->mates);
    if (team->mates == NULL) return dhowi_fail_memory(function);
    for (; team->count < count; team->count++) {
        dhowi_teammate *mate = &team->mates[team->count];
        *mate = (dhowi_teammate){.team = team, .index = team->count};
        const int error = dhowi_thread_start(&mate->thread, work, mate);
        if (error != 0)
            return dhowi_fail(DHOW_OUT_OF_MEMORY, "%s: cannot start a thread: %s", function,
                              strerror(error));
    }
    return DHOW_OK;
}

void dhowi_team_begin(dhowi_team *team) {
    pthread_mutex_lock(&team->mutex);
    team->busy = team->count;
    team->round++;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
}

void dhowi_team_wait(dhowi_team *team) {
    pthread_mutex_lock(&team->mutex);
    while (team->busy > 0) pthread_cond_wait(&team->done, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

void dhowi_team_end(dhowi_team *team) {
    if (team->part == NULL) return; /* never started */
    if (team->fork_generation == dhowi_fork_generation()) {
        pthread_mutex_lock(&team->mutex);
        team->stopping = true;
        pthread_cond_broadcast(&team->work);
        pthread_mutex_unlock(&team->mutex);
        for (uint32_t i = 0; i < team->count; i++) (void)pthread_join(team->mates[i].thread, NULL);
        pthread_mutex_destroy(&team->mutex);
        pthread_cond_destroy(&team->work);
        pthread_cond_destroy(&team->done);
    }
    dhowi_free(team->mates);
    *team = (dhowi_team){0};
}
