/* SPDX-License-Identifier: Apache-2.0
 *
 * What a parallel region does among its threads. Each thread first takes parts of its own share,
 * neighbours of each other, so that regions one after the other find what the last one wrote in
 * their core's cache (reading it in another's takes four times as long), as oneDNN's do; then what
 * others, who may have lost their core, left of theirs.
 */
#ifndef DHOW_PLUGINS_CPU_SHARES_H_
#define DHOW_PLUGINS_CPU_SHARES_H_

#include <stdatomic.h>
#include <stdint.h>

enum { CPU_MOST_SHARES = 64, CPU_PARTS_OF_SHARE = 16 };

typedef struct cpu_share {
    _Alignas(64) _Atomic int64_t next; /* part */
} cpu_share;

typedef struct cpu_shares {
    int64_t items, each; /* of a part; the last may have fewer */
    int64_t parts;
    int count;
    cpu_share of[CPU_MOST_SHARES];
} cpu_shares;

/* So many items, for so many threads. */
void cpu_shares_init(cpu_shares *s, int64_t items, int threads);
/* The first part of a share. */
int64_t cpu_share_begin(const cpu_shares *s, int share);

/* A thread's part: items from `first` to `end` - 1. */
typedef struct cpu_turn {
    int64_t first, end;
    int share, left; /* where it takes parts; shares that it has not found empty */
} cpu_turn;

cpu_turn cpu_turn_here(const cpu_shares *s);
/* The calling thread's next part; 0 where there is none any more. */
int cpu_next_part(cpu_shares *s, cpu_turn *turn);

/* In a parallel region: the items that the calling thread has, one after the other. */
#define CPU_EACH_ITEM(shares, item)                                                                \
    for (cpu_turn item##_turn = cpu_turn_here(&(shares)); cpu_next_part(&(shares), &item##_turn);) \
        for (int64_t item = item##_turn.first; item < item##_turn.end; item++)

#endif
