/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of dhow's own.
 */
#ifndef DHOWI_BASE_THREAD_H_
#define DHOWI_BASE_THREAD_H_

#include <pthread.h>

/* pthread_create() for a thread that the program's signals are not for: 0 or an errno. */
int dhowi_thread_start(pthread_t *out, void *(*run)(void *argument), void *argument);
/* Names the calling thread, in at most 15 bytes, for traces and debuggers. */
void dhowi_thread_name(const char *name);

#endif /* DHOWI_BASE_THREAD_H_ */
