/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow beside its peers, each in a process of its own that answers as serve.h says.
 */
#ifndef DHOW_BENCH_PEERS_H_
#define DHOW_BENCH_PEERS_H_

#include "bench.h"
#include "process.h"

/* dhow against the fastest of its peers (at most 8), run in turns; those that do not run it or
 * whose results differ by more than the tolerance, relative to the largest, are told and left out.
 * Returns the ratio, 0 when there was none; each peer's own time is in it, infinite where it was
 * left out. */
double bench_compare_peers(bench *b, const char *what, double bar, double tolerance, process *ours,
                           process *peers, int count);

#endif /* DHOW_BENCH_PEERS_H_ */
