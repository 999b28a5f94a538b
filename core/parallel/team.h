/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that do a round of work together, each its part: one for each device, since a CPU
 * computes on the thread that asks it to.
 */
#ifndef DHOWI_PARALLEL_TEAM_H_
#define DHOWI_PARALLEL_TEAM_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "dhow/status.h"

struct dhowi_teammate;

typedef struct dhowi_team {
    void (*part)(void *user, uint32_t index); /* on thread `index`, once in each round */
    void *user;
    uint32_t count;
    struct dhowi_teammate *mates;
    pthread_mutex_t mutex; /* also the user's, for what parts share */
    pthread_cond_t work, done;
    uint64_t round; /* counts up when there is work */
    uint32_t busy;
    uint32_t fork_generation;
    bool stopping;
} dhowi_team;

/* Starts `count` threads, which may be none. dhowi_team_end() must follow, also where it fails. */
dhow_status dhowi_team_start(dhowi_team *team, const char *function, uint32_t count,
                             void (*part)(void *user, uint32_t index), void *user);
/* Begins a round; the caller may work meanwhile, and waits then. */
void dhowi_team_begin(dhowi_team *team);
void dhowi_team_wait(dhowi_team *team);
/* In a child of the process that started it there are no threads, and their locks may be held: they
 * are left as they are. */
void dhowi_team_end(dhowi_team *team);

#endif /* DHOWI_PARALLEL_TEAM_H_ */
