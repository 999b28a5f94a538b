/* SPDX-License-Identifier: Apache-2.0
 *
 * Included before the first line of the code that is explored, see interleave.h.
 */
#ifndef TESTS_INTERLEAVE_HOOKS_H_
#define TESTS_INTERLEAVE_HOOKS_H_

#include <pthread.h>
#include <stdatomic.h>

#include "base/threads/thread.h"
#include "interleave.h"

#define HOOK_(kind, p) interleave_step(INTERLEAVE_##kind, (const volatile void *)(p))

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_weak
#undef atomic_flag_test_and_set_explicit
#undef atomic_flag_clear_explicit
#undef atomic_load
#undef atomic_store

/* The operations behind the macros of <stdatomic.h>. */
#ifdef __clang__
#define LOAD_(p) __c11_atomic_load((p), __ATOMIC_SEQ_CST)
#define STORE_(p, value) __c11_atomic_store((p), (value), __ATOMIC_SEQ_CST)
#define EXCHANGE_(p, value) __c11_atomic_exchange((p), (value), __ATOMIC_SEQ_CST)
#define ADD_(p, value) __c11_atomic_fetch_add((p), (value), __ATOMIC_SEQ_CST)
#define SUB_(p, value) __c11_atomic_fetch_sub((p), (value), __ATOMIC_SEQ_CST)
#define COMPARE_(p, expected, value)                                                 \
    __c11_atomic_compare_exchange_strong((p), (expected), (value), __ATOMIC_SEQ_CST, \
                                         __ATOMIC_SEQ_CST)
#else
#define LOAD_(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define STORE_(p, value) __atomic_store_n((p), (value), __ATOMIC_SEQ_CST)
#define EXCHANGE_(p, value) __atomic_exchange_n((p), (value), __ATOMIC_SEQ_CST)
#define ADD_(p, value) __atomic_fetch_add((p), (value), __ATOMIC_SEQ_CST)
#define SUB_(p, value) __atomic_fetch_sub((p), (value), __ATOMIC_SEQ_CST)
#define COMPARE_(p, expected, value) \
    __atomic_compare_exchange_n((p), (expected), (value), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#endif

#define atomic_load_explicit(p, order) (HOOK_(READ, p), LOAD_(p))
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store_explicit(p, value, order) (HOOK_(WRITE, p), STORE_(p, value))
#define atomic_store(p, value) atomic_store_explicit(p, value, memory_order_seq_cst)
#define atomic_exchange(p, value) (HOOK_(WRITE, p), EXCHANGE_(p, value))
#define atomic_fetch_add(p, value) (HOOK_(WRITE, p), ADD_(p, value))
#define atomic_fetch_sub(p, value) (HOOK_(WRITE, p), SUB_(p, value))
#define atomic_compare_exchange_weak_explicit(p, expected, value, success, failure) \
    (HOOK_(WRITE, p), COMPARE_(p, expected, value))
#define atomic_compare_exchange_weak(p, expected, value) \
    atomic_compare_exchange_weak_explicit(p, expected, value, 0, 0)
/* Never finds it taken: the explorer waits. */
#define atomic_flag_test_and_set_explicit(p, order) (HOOK_(LOCK, p), 0)
#define atomic_flag_clear_explicit(p, order) HOOK_(UNLOCK, p)

#define pthread_mutex_lock(m) HOOK_(LOCK, m)
#define pthread_mutex_unlock(m) HOOK_(UNLOCK, m)
#define pthread_cond_wait(c, m) interleave_wait((c), (m))
#define pthread_cond_signal(c) interleave_wake(c)
#define pthread_cond_broadcast(c) interleave_wake(c)

#define dhowi_thread_start(out, run, argument) interleave_start((out), (run), (argument))
#define pthread_join(thread, result) ((void)(result), interleave_join(thread))
#define pthread_detach(thread) ((void)(thread), 0)
#define pthread_self() interleave_self()
#define pthread_equal(a, b) ((a) == (b))

#endif /* TESTS_INTERLEAVE_HOOKS_H_ */
