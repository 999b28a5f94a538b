/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks that ThreadSanitizer does not take for an order of the program under test. The simulation
 * is compiled without its instrumentation and hides its own locks; instead it states the few orders
 * that a device promises: what was done before a submission comes before the work, and work comes
 * before a wait that returns because of it. A program that forgot a wait is then reported whatever
 * the threads happened to do.
 */
#ifndef SIMDEV_SYNC_H_
#define SIMDEV_SYNC_H_

#include <pthread.h>

#ifdef SIMDEV_TSAN
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read1(void *address);
void __tsan_write1(void *address);
#define SIMDEV_HIDDEN(call)                                     \
    (AnnotateIgnoreSyncBegin(__FILE__, __LINE__), (void)(call), \
     AnnotateIgnoreSyncEnd(__FILE__, __LINE__))
#define SIMDEV_ACQUIRE(address) __tsan_acquire(address)
#define SIMDEV_RELEASE(address) __tsan_release(address)
/* Around the simulation's own data: copies of structs and frees are seen by the sanitizer although
 * their code is not instrumented. */
#define SIMDEV_PRIVATE_BEGIN() \
    (AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__))
#define SIMDEV_PRIVATE_END() \
    (AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__))
/* A kernel reads or writes there; kernels are not instrumented. */
#define SIMDEV_READS(address) __tsan_read1(address)
#define SIMDEV_WRITES(address) __tsan_write1(address)
#else
#define SIMDEV_HIDDEN(call) ((void)(call))
#define SIMDEV_ACQUIRE(address) ((void)(address))
#define SIMDEV_RELEASE(address) ((void)(address))
#define SIMDEV_PRIVATE_BEGIN() ((void)0)
#define SIMDEV_PRIVATE_END() ((void)0)
#define SIMDEV_READS(address) ((void)(address))
#define SIMDEV_WRITES(address) ((void)(address))
#endif

static inline void simdev_lock(pthread_mutex_t *mutex) {
    SIMDEV_HIDDEN(pthread_mutex_lock(mutex));
    SIMDEV_PRIVATE_BEGIN(); /* what the lock guards is ours */
}

static inline void simdev_unlock(pthread_mutex_t *mutex) {
    SIMDEV_PRIVATE_END();
    SIMDEV_HIDDEN(pthread_mutex_unlock(mutex));
}

static inline void simdev_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    SIMDEV_HIDDEN(pthread_cond_wait(cond, mutex));
}

static inline void simdev_cond_broadcast(pthread_cond_t *cond) {
    SIMDEV_HIDDEN(pthread_cond_broadcast(cond));
}

#endif /* SIMDEV_SYNC_H_ */
