/* SPDX-License-Identifier: Apache-2.0
 *
 * See thread.h.
 */
#include "base/threads/thread.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

int dhowi_thread_start(pthread_t *out, void *(*run)(void *argument), void *argument) {
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(out, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

void dhowi_thread_name(const char *name) { (void)prctl(PR_SET_NAME, name, 0, 0, 0); }
