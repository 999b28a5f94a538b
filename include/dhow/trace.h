/* SPDX-License-Identifier: Apache-2.0
 *
 * One trace of everything that all devices do: kernels, copies, steps of models, replayed graphs,
 * allocations and waits on one clock, in the format that Perfetto and chrome://tracing open.
 *
 * `DHOW_TRACE=out.json program` traces a program as it is, from the creation of its context on; a
 * second context of the process writes out.2.json. The file is written when the context ends. A
 * program that forgets objects gets it when it releases the context, which then waits for the work
 * that is under way, and one that releases nothing when it returns from main() or calls exit(),
 * with up to two seconds for the devices to end their work. _exit(), abort() and signals leave no
 * file. These functions do the same for parts of a program.
 */
#ifndef DHOW_TRACE_H_
#define DHOW_TRACE_H_

#include "dhow/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a trace holds. */
typedef struct dhow_trace_stats {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    uint64_t recorded;    /**< records */
    uint64_t dropped;     /**< records for which there was no room */
    uint64_t untimed; /**< work whose time on the device is not known: the device measures none, or
                         too much was under way at once. The host's times are there */
} dhow_trace_stats;

/**
 * Begins to record, or goes on after dhow_trace_stop().
 *
 * @param context   all of whose devices are traced
 * @param capacity  records that there is room for, 128 bytes each; 0 stands for 2^20. What the
 * first call of a context says counts
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trace_start(dhow_context *context, uint64_t capacity);

/**
 * Ends recording; records stay.
 *
 * @param context  also one that records nothing
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trace_stop(dhow_context *context);

/**
 * Writes all records so far as a JSON file, which appears whole or not at all.
 *
 * @param context  that was traced, recording still or stopped
 * @param path     of the file, which is replaced
 * @return INVALID_ARGUMENT (no trace was started), IO_ERROR
 *
 * Threads: any. Blocks: until traced work has ended, and while it writes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trace_save(dhow_context *context, const char *path);

/**
 * What has been recorded so far.
 *
 * @param context  one that was never traced has zeros
 * @param out      filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trace_get_stats(const dhow_context *context,
                                                         dhow_trace_stats *out);

/** Nanoseconds of the trace's clock, CLOCK_MONOTONIC. Threads: any. Blocks: no. */
DHOW_API int64_t dhow_trace_now(void);

/**
 * Adds a region of the program's own, on the calling thread's track. Nothing happens while no trace
 * is recorded.
 *
 * @param context  in whose trace it is shown
 * @param name     copied, the first 55 bytes
 * @param begin    of dhow_trace_now(), never negative
 * @param end      the same, not before begin
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trace_region(dhow_context *context, const char *name,
                                                      int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_TRACE_H_ */
