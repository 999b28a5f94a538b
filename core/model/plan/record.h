/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording: while a recorder is the sink of a thread, what it submits becomes a list of commands,
 * and the storages it makes are placeholders that get their places afterwards. A plan of a model is
 * made by running its operations once that way; replaying it calls the plugin and nothing else.
 */
#ifndef DHOWI_MODEL_PLAN_RECORD_H_
#define DHOWI_MODEL_PLAN_RECORD_H_

#include "base/memory/arena.h"
#include "stream/submit.h"

/* Work of the host between a device's commands: what the buffers hold is copied to it before, and
 * back after. Buffers of 0 bytes are not there; memory is the host's. */
typedef struct dhowi_host_work {
    dhow_status (*run)(void *user);
    void *user;
    void *memory[6];
    uint64_t bytes[6];
    uint32_t access[6];
} dhowi_host_work;

/* Work, and what it points to: addresses are put in there once the arena has its places. Work of
 * the host is a CALL. */
typedef struct dhowi_command {
    dhowi_work work;
    uint32_t step; /* of the plan, for messages and timing */
    dhow_arg *args;
    dhow_geometry geometry;
    dhow_copy_rect rect;
    dhow_buffer buffers[6];      /* VENDOR: as run(); of the host: as its memory */
    const dhowi_host_work *host; /* NULL: it is not the host's */
    void *owner;                 /* of what the command uses, dropped with it */
} dhowi_command;

/* A storage that has no memory yet. */
typedef struct dhowi_recorded_buffer {
    dhowi_storage *storage;
    uint64_t bytes;
    uint32_t first, last; /* steps between which its contents matter */
    uint64_t offset;      /* in the arena, once that is laid out */
    bool external;        /* filled in by the caller of the plan */
    int32_t buffer;       /* the caller's number of it; -1: it passes */
} dhowi_recorded_buffer;

typedef struct dhowi_recorder {
    dhowi_sink sink;    /* of the thread that records */
    dhowi_arena memory; /* commands and their arguments */
    dhowi_command **commands;
    uint32_t command_count, command_capacity;
    dhowi_recorded_buffer *places;
    uint32_t place_count, place_capacity;
    uint32_t step; /* being recorded */
} dhowi_recorder;

/* An empty one for a device. */
void dhowi_recorder_init(dhowi_recorder *r, dhow_device *device);
/* The place a handle stands for, or -1. */
int32_t dhowi_record_place(const dhowi_recorder *r, uint64_t handle);

/* `work` must live as long as the recorder. */
dhow_status dhowi_record_host(dhowi_recorder *r, const dhowi_host_work *work,
                              const dhow_buffer buffers[6]);

/* Gives every place of the arena an offset, such that those whose steps meet do not overlap.
 * Returns the bytes of the arena. */
dhow_status dhowi_record_lay_out(dhowi_recorder *r, uint64_t align, uint64_t *out_bytes);

/* Calls fn for each buffer of a command. */
typedef void dhowi_buffer_fn(void *user, uint64_t *handle, uint64_t *offset);
void dhowi_command_buffers(dhowi_command *command, dhowi_buffer_fn *fn, void *user);

/* Ends everything; storages must not be used any more. */
void dhowi_recorder_end(dhowi_recorder *r);

#endif /* DHOWI_MODEL_PLAN_RECORD_H_ */
