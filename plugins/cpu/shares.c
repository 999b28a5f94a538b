/* SPDX-License-Identifier: Apache-2.0
 *
 * See shares.h.
 */
#include "shares.h"

#include <omp.h>

int64_t cpu_share_begin(const cpu_shares *s, int share) {
    const int64_t least = s->parts / s->count, more = s->parts % s->count;
    return least * share + (more < share ? more : share);
}

void cpu_shares_init(cpu_shares *s, int64_t items, int threads) {
    const int64_t most = threads > 1 ? (int64_t)threads * CPU_PARTS_OF_SHARE : 1;
    s->items = items;
    s->each = (items + most - 1) / most;
    s->parts = items > 0 ? (items + s->each - 1) / s->each : 0;
    s->count = threads < CPU_MOST_SHARES ? threads : CPU_MOST_SHARES;
    for (int i = 0; i < s->count; i++) atomic_init(&s->of[i].next, cpu_share_begin(s, i));
}

cpu_turn cpu_turn_here(const cpu_shares *s) {
    return (cpu_turn){.share = omp_get_thread_num() % s->count, .left = s->count};
}

int cpu_next_part(cpu_shares *s, cpu_turn *turn) {
    for (; turn->left > 0; turn->left--) {
        const int64_t part =
            atomic_fetch_add_explicit(&s->of[turn->share].next, 1, memory_order_relaxed);
        if (part < cpu_share_begin(s, turn->share + 1)) {
            turn->first = part * s->each;
            turn->end = s->items - turn->first < s->each ? s->items : turn->first + s->each;
            return 1;
        }
        turn->share = (turn->share + 1) % s->count;
    }
    return 0;
}
