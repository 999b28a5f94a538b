/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage: a block of memory on one device, with its pending writer and readers. Tensors share
 * storages. A storage whose last reference is gone goes back to its pool with its timepoints, so
 * that its next user waits for the last one.
 */
#ifndef DHOWI_MEMORY_STORAGE_H_
#define DHOWI_MEMORY_STORAGE_H_

#include "device/device.h"
#include "device/timeline.h"
#include "dhow/memory.h"
#include "memory/origins.h"

#define DHOWI_COPY_FAILED (UINT64_C(1) << 63)
#define DHOWI_VALUES_MISSING (UINT64_C(1) << 62)

enum { DHOWI_MAX_USERS = 7, DHOWI_MAX_PENDING = DHOWI_MAX_USERS };

/* The latest work of a timeline with a storage; 0: none. */
typedef struct dhowi_user {
    dhowi_timeline *timeline;
    uint64_t wrote, read;
} dhowi_user;

/* Who still works with a storage, see hazard.c. */
typedef struct dhowi_hazard {
    _Atomic(dhowi_timeline *) sole_user; /* the only user; NULL: there is none; see SHARED */
    atomic_flag lock;                    /* guards the rest, and changes of `sole_user` */
    uint32_t user_count;
    dhowi_user users[DHOWI_MAX_USERS];
} dhowi_hazard;

typedef struct dhowi_pool dhowi_pool;

typedef struct dhowi_storage dhowi_storage;

/* Another form of frozen values that lies beside them: a packed weight. */
typedef struct dhowi_packed_form {
    struct dhowi_packed_form *next;
    uint64_t key;
    dhowi_storage *storage;
} dhowi_packed_form;

struct dhowi_storage {
    dhowi_handle handle;
    dhow_device *device;
    uint64_t native;      /* the plugin's handle */
    void *host;           /* where the host sees it, or NULL */
    uint64_t bytes;       /* asked for */
    uint64_t block_bytes; /* taken from the driver */
    dhowi_hazard hazard;
    /* Ticket of the last staged copy into it, until something else is written; with
     * DHOWI_COPY_FAILED once that copy has failed. Or DHOWI_VALUES_MISSING. */
    _Atomic uint64_t staged_write;
    _Atomic uint32_t origin_count; /* both under the hazard's lock */
    dhowi_timepoint origins[DHOWI_MAX_ORIGINS];
    dhowi_pool *pool; /* NULL: wrapped memory */
    dhow_device *pinned_by;
    bool registered; /* pinned in place, to be undone at the end */
    atomic_bool frozen, exported, lent;
    char label[32];
    void (*unwrap)(void *device, uint64_t handle); /* of wrapped device memory: the plugin's */
    void (*release)(void *user);                   /* of wrapped memory */
    void *user;
    dhowi_packed_form *packed_forms;
    struct dhowi_storage *previous, *next; /* in the pool's list of live or cached blocks */
};

/* ---- making ---- */

/* OUT_OF_MEMORY says asked, free, total and the largest holders. */
dhow_status dhowi_storage_create(dhow_device *device, uint64_t bytes, dhowi_storage **out);
/* Host memory that `device` copies at full speed; the storage belongs to the CPU device. */
dhow_status dhowi_storage_create_pinned(dhow_device *device, uint64_t bytes, dhowi_storage **out);
dhow_status dhowi_storage_wrap(dhow_context *context, void *data, uint64_t bytes,
                               void (*release)(void *user), void *user, dhowi_storage **out);
void dhowi_storage_release(dhowi_storage *storage);
static inline void dhowi_storage_retain(dhowi_storage *storage) {
    dhowi_handle_retain(&storage->handle);
}

/* Pins host memory in place. */
dhow_status dhowi_storage_pin(dhowi_storage *storage, dhow_device *device);

/* The failure of a copy into the storage, or of what its values came from; see origins.h for
 * `ended`. */
dhow_status dhowi_storage_ask(dhowi_storage *storage, bool ended);
static inline dhow_status dhowi_storage_readable(dhowi_storage *storage, bool ended) {
    const bool failed = (atomic_load_explicit(&storage->staged_write, memory_order_acquire) &
                         (DHOWI_COPY_FAILED | DHOWI_VALUES_MISSING)) != 0;
    const bool comes_from_others =
        atomic_load_explicit(&storage->origin_count, memory_order_acquire) != 0;
    return failed || comes_from_others ? dhowi_storage_ask(storage, ended) : DHOW_OK;
}

/* ---- values that can be made again ---- */

/* The values are yet to be written: until then readers get an error. */
void dhowi_storage_expect(dhowi_storage *storage);
static inline bool dhowi_storage_is_missing(const dhowi_storage *storage) {
    return (atomic_load_explicit(&storage->staged_write, memory_order_acquire) &
            DHOWI_VALUES_MISSING) != 0;
}
/* Somebody reads the values where they lie, at times that nobody knows. */
static inline void dhowi_storage_lend(dhowi_storage *storage) {
    atomic_store_explicit(&storage->lent, true, memory_order_relaxed);
}
/* What makes missing values for the work that a thread hands in; NULL: nothing does. */
typedef struct dhowi_values_maker {
    dhow_status (*make)(void *user, dhowi_storage *storage);
    void *user;
} dhowi_values_maker;
extern _Thread_local const dhowi_values_maker *dhowi_values_maker_of_thread;
static inline dhow_status dhowi_storage_make(dhowi_storage *storage) {
    const dhowi_values_maker *maker = dhowi_values_maker_of_thread;
    return dhowi_storage_is_missing(storage) && maker != NULL ? maker->make(maker->user, storage)
                                                              : DHOW_OK;
}
/* Gives the memory of values that whoever calls can make again back to the system, unless they
 * were lent: of the CPU's own storages. The values are missing then; what was packed of them
 * stays. */
void dhowi_storage_shed(dhowi_storage *storage);

/* Counts pinned memory that copies use, see dhow_memory_stats. */
void dhowi_memory_count_staging(dhow_device *device, int64_t bytes);

/* The form of a key, or NULL; release it. */
dhowi_storage *dhowi_storage_companion(dhowi_storage *storage, uint64_t key);
/* Keeps a form beside the storage, which takes over the reference; *out is the one that is kept
 * under the key, perhaps another thread's, to be released. Of many forms the latest are kept. */
dhow_status dhowi_storage_keep(dhowi_storage *storage, uint64_t key, dhowi_storage *form,
                               dhowi_storage **out);

/* Behind each storage in the checking mode, see kernel/guard.h. */
enum { DHOWI_GUARD_BYTES = 1024 };

/* ---- hazards ---- */

/* Of the stream that the calling thread has handed work to last. */
extern _Thread_local const dhowi_timeline *dhowi_last_timeline;

/* What one unit of work does with a storage: DHOW_ACCESS bits. */
typedef struct dhowi_use {
    dhowi_storage *storage;
    uint32_t access;
} dhowi_use;

/* Whether nobody but `self` works with the storage: notes of another thread that come later come
 * after this work. */
static inline bool dhowi_hazard_is_quiet(const dhowi_hazard *hazard, const dhowi_timeline *self) {
    const dhowi_timeline *sole_user =
        atomic_load_explicit(&hazard->sole_user, memory_order_acquire);
    return sole_user == NULL || sole_user == self;
}
/* The timepoints that work of `self` with this access must wait for; at most DHOWI_MAX_PENDING.
 * `self` is NULL for the host. */
uint32_t dhowi_hazard_pending(dhowi_hazard *hazard, uint32_t access, const dhowi_timeline *self,
                              dhowi_timepoint pending[DHOWI_MAX_PENDING]);
/* Whether something of the timepoint's timeline is still among them: not any more when its device
 * was lost while it was waited for, and was to read only. */
bool dhowi_hazard_needs(dhowi_hazard *hazard, uint32_t access, const dhowi_timeline *self,
                        dhowi_timepoint point);
/* Notes work handed in as `number`; its timeline knows what it waits for, see
 * dhowi_timeline_awaited(). Numbers of a timeline are noted in their order. */
void dhowi_hazard_note(dhowi_hazard *hazard, uint32_t access, dhowi_timeline *self,
                       uint64_t number);
/* Forgets writes that a lost device will never do: something else is there now. */
void dhowi_hazard_overwritten(dhowi_hazard *hazard);
/* Blocks until the host may access the storage. */
dhow_status dhowi_hazard_wait(dhowi_hazard *hazard, uint32_t access);

/* Something was written: what earlier writes failed to bring is of no matter any more. */
static inline void dhowi_storage_written(dhowi_storage *storage) {
    if (atomic_load_explicit(&storage->staged_write, memory_order_relaxed) != 0)
        atomic_store(&storage->staged_write, 0);
    if (atomic_load_explicit(&storage->origin_count, memory_order_relaxed) != 0)
        dhowi_storage_set_origins(storage, &(dhowi_origins){.count = 0});
    dhowi_hazard_overwritten(&storage->hazard);
}

#endif /* DHOWI_MEMORY_STORAGE_H_ */
