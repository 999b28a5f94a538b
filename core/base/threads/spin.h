/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks that are held for a few loads and stores, in objects too small and too many for a mutex.
 */
#ifndef DHOWI_BASE_SPIN_H_
#define DHOWI_BASE_SPIN_H_

#include <sched.h>
#include <stdatomic.h>

/* Between two tries. The holder needs nanoseconds; who still finds the lock taken after some tries
 * has met a holder that the system has put aside, and leaves it the core. */
static inline void dhowi_spin_pause(unsigned tries) {
    enum { PAUSES = 64 };
    if (tries >= PAUSES) {
        (void)sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Apart, so that those who find the lock free save no registers for it. */
__attribute__((noinline, unused)) static void dhowi_spin_lock_taken(atomic_flag *lock) {
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(lock, memory_order_acquire); tries++)
        dhowi_spin_pause(tries);
}

static inline void dhowi_spin_lock(atomic_flag *lock) {
    if (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) dhowi_spin_lock_taken(lock);
}

static inline void dhowi_spin_unlock(atomic_flag *lock) {
    atomic_flag_clear_explicit(lock, memory_order_release);
}

#endif /* DHOWI_BASE_SPIN_H_ */
