/* SPDX-License-Identifier: Apache-2.0
 *
 * Two copies of core in libraries of their own, bench_hooks_1 and bench_hooks_0: as it is,
 * and without the places that look whether a trace is recorded.
 */
#ifndef DHOW_BENCH_HOOKS_H_
#define DHOW_BENCH_HOOKS_H_

typedef enum hooks_work { HOOKS_LAUNCH, HOOKS_COPY, HOOKS_ALLOCATE, HOOKS_WORKS } hooks_work;

/* The only function of each library: seconds of `count` pieces of work; below 0 when it fails. */
typedef double hooks_run_fn(hooks_work work, int count);

#endif /* DHOW_BENCH_HOOKS_H_ */
