/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of a test is and has: a failure is told and aborts the job.
 */
#ifndef RANKS_H_
#define RANKS_H_

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dhow/dhow.h"
#include "dhow/mpi.h"

static int g_rank, g_size;
static dhow_context *g_context;

static void fail(const char *what, const char *why) {
    (void)fprintf(stderr, "rank %d: %s: %s\n", g_rank, what, why);
    (void)fflush(stderr);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

#define OK(call)                                               \
    do {                                                       \
        if ((call) != DHOW_OK) fail(#call, dhow_last_error()); \
    } while (0)
#define CHECK(condition, why)                    \
    do {                                         \
        if (!(condition)) fail(#condition, why); \
    } while (0)
#define FAILS(status, text, call)                                                              \
    do {                                                                                       \
        dhow_status got_ = (call);                                                             \
        if (got_ != (status) || strstr(dhow_last_error(), (text)) == NULL)                     \
            fail(#call " should fail with " #status " and say '" text "'", dhow_last_error()); \
    } while (0)

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static dhow_device *device_of(const char *spec) {
    dhow_device *device;
    OK(dhow_device_get(g_context, spec, &device));
    return device;
}

#endif /* RANKS_H_ */
