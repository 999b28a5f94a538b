/* SPDX-License-Identifier: Apache-2.0
 *
 * What streams' threads do: wait as long as the settings say, then copy, fill or compute.
 */
#include <string.h>
#include <time.h>

#include "internal.h"

/* Kernels are called in as many pieces, last one first: their results must not depend on it. */
enum { GROUPS = 3 };

/* ---- time ---- */

int64_t simdev_now(void) {
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_until(int64_t nanoseconds) {
    const struct timespec at = {(time_t)(nanoseconds / 1000000000),
                                (long)(nanoseconds % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) continue;
}

static uint64_t next_random(simdev_stream *stream) {
    uint64_t x = stream->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    stream->random = x;
    return x;
}

static void delay(simdev_stream *stream) {
    const simdev_config *config = &stream->device->machine->config;
    uint64_t microseconds = config->delay_us;
    if (config->jitter_us != 0) microseconds += next_random(stream) % (config->jitter_us + 1);
    if (microseconds != 0) sleep_until(simdev_now() + (int64_t)(microseconds * 1000));
}

/* Waits for the link to carry the bytes behind those of other streams. */
static void transfer(simdev_device *device, int link, uint64_t bytes) {
    simdev_machine *machine = device->machine;
    if (machine->config.bandwidth == 0) return;
    const int64_t takes = (int64_t)((double)bytes * 1e9 / (double)machine->config.bandwidth),
                  now = simdev_now();
    simdev_lock(&machine->lock);
    int64_t end = (device->link_free_at[link] > now ? device->link_free_at[link] : now) + takes;
    device->link_free_at[link] = end;
    simdev_unlock(&machine->lock);
    sleep_until(end);
}

/* ---- copies ---- */

bool simdev_span(const uint64_t *extent, const uint64_t *pitch, uint64_t *out_bytes) {
    uint64_t rows = 0, planes = 0, span = extent[0];
    *out_bytes = 0;
    if (extent[0] == 0 || extent[1] == 0 || extent[2] == 0) return true;
    if (__builtin_mul_overflow(extent[1] - 1, pitch[0], &rows)) return false;
    if (__builtin_mul_overflow(extent[2] - 1, pitch[1], &planes)) return false;
    if (__builtin_add_overflow(span, rows, &span) || __builtin_add_overflow(span, planes, &span))
        return false;
    *out_bytes = span;
    return true;
}

void simdev_copy_box(unsigned char *to, const uint64_t *to_pitch, const unsigned char *from,
                     const uint64_t *from_pitch, const uint64_t *extent) {
    for (uint64_t plane = 0; plane < extent[2]; plane++) {
        for (uint64_t row = 0; row < extent[1]; row++) {
            memmove(to + row * to_pitch[0] + plane * to_pitch[1],
                    from + row * from_pitch[0] + plane * from_pitch[1], extent[0]);
        }
    }
}

/* Memory of one end of a copy while it runs. */
typedef struct held {
    simdev_block *block; /* NULL: memory that the machine knows nothing about */
    unsigned char *memory;
} held;

static bool hold(simdev_machine *machine, const simdev_device *device, const dhow_copy_end *end,
                 bool pinned, const uint64_t *extent, held *out, simdev_failure *why) {
    uint64_t span = 0;
    if (!simdev_span(extent, end->pitch, &span)) {
        simdev_set_failure(why, DHOW_OUT_OF_RANGE, "the box of a copy is larger than memory");
        return false;
    }
    if (end->space == DHOW_SPACE_HOST && !pinned) {
        out->memory = (unsigned char *)(uintptr_t)(end->handle + end->offset);
        return true;
    }
    return simdev_use_begin(machine, end->space == DHOW_SPACE_DEVICE ? device : NULL, end->handle,
                            end->offset, span, &out->block, &out->memory, why);
}

static int link_of(const simdev_op *op, const simdev_device *device) {
    if (op->u.copy.src_device != device) return SIMDEV_FROM_PEER;
    return op->u.copy.rect.dst.space == DHOW_SPACE_DEVICE ? SIMDEV_TO_DEVICE : SIMDEV_FROM_DEVICE;
}

/* The first and the last byte of a box, shown as this thread's, whatever the sanitizer makes of
 * memmove() here. */
static void show_copy(const held *src, const held *dst, const dhow_copy_rect *rect) {
    uint64_t from = 0, to = 0;
    if (!simdev_span(rect->extent, rect->src.pitch, &from) || from == 0) return;
    if (!simdev_span(rect->extent, rect->dst.pitch, &to) || to == 0) return;
    SIMDEV_READS(src->memory);
    SIMDEV_READS(src->memory + from - 1);
    SIMDEV_WRITES(dst->memory);
    SIMDEV_WRITES(dst->memory + to - 1);
}

static void run_copy(simdev_stream *stream, simdev_op *op, simdev_failure *why) {
    simdev_device *device = stream->device;
    simdev_machine *machine = device->machine;
    const dhow_copy_rect *rect = &op->u.copy.rect;
    const uint64_t *extent = rect->extent;
    const bool inside = rect->src.space == rect->dst.space && op->u.copy.src_device == device;
    held src = {NULL, NULL}, dst = {NULL, NULL};
    if (!inside) transfer(device, link_of(op, device), extent[0] * extent[1] * extent[2]);
    simdev_lock(&machine->lock);
    bool ready = hold(machine, op->u.copy.src_device, &rect->src, op->u.copy.src_pinned, extent,
                      &src, why) &&
                 hold(machine, device, &rect->dst, op->u.copy.dst_pinned, extent, &dst, why);
    simdev_unlock(&machine->lock);
    if (ready) show_copy(&src, &dst, rect);
    if (ready) simdev_copy_box(dst.memory, rect->dst.pitch, src.memory, rect->src.pitch, extent);
    simdev_lock(&machine->lock);
    if (src.block != NULL) simdev_use_end(machine, src.block, why);
    if (dst.block != NULL) simdev_use_end(machine, dst.block, why);
    simdev_unlock(&machine->lock);
}

static void run_fill(simdev_stream *stream, const simdev_op *op, simdev_failure *why) {
    simdev_machine *machine = stream->device->machine;
    const uint64_t bytes = op->u.fill.bytes, unit = op->u.fill.pattern_bytes;
    simdev_block *block = NULL;
    unsigned char *memory = NULL;
    simdev_lock(&machine->lock);
    bool ready = simdev_use_begin(machine, stream->device, op->u.fill.to.handle,
                                  op->u.fill.to.offset, bytes, &block, &memory, why);
    simdev_unlock(&machine->lock);
    if (!ready) return;
    memcpy(memory, &op->u.fill.pattern, bytes < unit ? bytes : unit);
    for (uint64_t done = unit; done < bytes; done *= 2) /* what is there is written behind itself */
        memcpy(memory + done, memory, bytes - done < done ? bytes - done : done);
    simdev_lock(&machine->lock);
    simdev_use_end(machine, block, why);
    simdev_unlock(&machine->lock);
}

/* ---- kernels ---- */

typedef struct call {
    simdev_block *blocks[DHOW_MAX_KERNEL_ARGS];
    unsigned char *buffers[DHOW_MAX_KERNEL_ARGS]; /* NULL for a buffer that is not given */
    void *argv[DHOW_MAX_KERNEL_ARGS];
} call;

static void prepare(simdev_stream *stream, simdev_op *op, call *c, simdev_failure *why) {
    const simdev_kernel *kernel = op->u.launch.kernel;
    for (uint32_t i = 0; i < kernel->arg_count && why->status == DHOW_OK; i++) {
        dhow_arg *arg = &op->u.launch.args[i];
        if (arg->kind == DHOW_ARG_VALUE) {
            c->argv[i] = &arg->u.value;
        } else if (arg->kind == DHOW_ARG_DIMS) {
            c->argv[i] = &op->u.launch.dims[arg->u.value];
        } else {
            c->argv[i] = &c->buffers[i];
            if (arg->u.buffer.handle == 0) continue;
            /* Of 0 bytes: an empty tensor may begin where its memory ends. */
            (void)simdev_use_begin(stream->device->machine, stream->device, arg->u.buffer.handle,
                                   arg->u.buffer.offset, 0, &c->blocks[i], &c->buffers[i], why);
        }
    }
}

static void show_accesses(const simdev_kernel *kernel, const call *c) {
    /* Where a kernel with strides begins to read is in its dims. */
    for (uint32_t i = 0; i < kernel->arg_count && !kernel->strided; i++) {
        if (c->buffers[i] == NULL) continue;
        if (kernel->access[i] & DHOW_ACCESS_WRITE) {
            SIMDEV_WRITES(c->buffers[i]);
        } else {
            SIMDEV_READS(c->buffers[i]);
        }
    }
}

/* Nanoseconds that a kernel takes at least. */
static int64_t kernel_time(const simdev_device *device, uint64_t work) {
    const simdev_config *config = &device->machine->config;
    const uint32_t speed = config->speeds[device->index];
    double takes = (double)config->launch_us * 1000;
    if (config->work_rate != 0)
        takes += (double)work * 1e9 / ((double)config->work_rate * (speed != 0 ? speed : 1));
    return (int64_t)takes;
}

int64_t simdev_begin_of(const simdev_stream *stream, const simdev_op *op) {
    return op->arrived > stream->free_at ? op->arrived : stream->free_at;
}

static void run_kernel(simdev_stream *stream, simdev_op *op, simdev_failure *why) {
    simdev_machine *machine = stream->device->machine;
    const simdev_kernel *kernel = op->u.launch.kernel;
    const int64_t takes = kernel_time(stream->device, op->u.launch.work),
                  until = simdev_begin_of(stream, op) + takes;
    call c;
    memset(&c, 0, sizeof c);
    simdev_lock(&machine->lock);
    prepare(stream, op, &c, why);
    simdev_unlock(&machine->lock);
    if (why->status == DHOW_OK) {
        show_accesses(kernel, &c);
        for (int group = GROUPS; group-- > 0;) kernel->info->run(group, GROUPS, c.argv);
        const int64_t done = simdev_now();
        if (takes != 0) sleep_until(until);
        stream->free_at = done > until ? done : until;
    }
    simdev_lock(&machine->lock);
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        if (c.blocks[i] != NULL) simdev_use_end(machine, c.blocks[i], why);
    }
    simdev_unlock(&machine->lock);
}

/* ---- calls ---- */

static void run_call(simdev_stream *stream, simdev_op *op, simdev_failure *why) {
    simdev_machine *machine = stream->device->machine;
    const simdev_job *job = &op->u.job;
    simdev_block *blocks[SIMDEV_MAX_RANGES] = {NULL};
    unsigned char *memory[SIMDEV_MAX_RANGES] = {NULL};
    simdev_lock(&machine->lock);
    for (uint32_t i = 0; i < job->range_count && why->status == DHOW_OK; i++) {
        if (job->ranges[i].handle == 0) continue;
        (void)simdev_use_begin(machine, stream->device, job->ranges[i].handle, 0,
                               job->ranges[i].bytes, &blocks[i], &memory[i], why);
    }
    simdev_unlock(&machine->lock);
    if (why->status == DHOW_OK) {
        for (uint32_t i = 0; i < job->range_count; i++) {
            if (memory[i] == NULL) continue;
            if ((job->ranges[i].access & DHOW_ACCESS_WRITE) != 0) {
                SIMDEV_WRITES(memory[i]);
            } else {
                SIMDEV_READS(memory[i]);
            }
        }
        const int32_t status = job->run(stream, op->staging, memory);
        if (status != DHOW_OK) simdev_set_failure(why, status, "a call failed with %d", status);
    }
    simdev_lock(&machine->lock);
    for (uint32_t i = 0; i < job->range_count; i++) {
        if (blocks[i] != NULL) simdev_use_end(machine, blocks[i], why);
    }
    simdev_unlock(&machine->lock);
}

void simdev_word_seen(const void *word) {
    union {
        const void *from;
        void *to;
    } address = {word}; /* not written */
    SIMDEV_ACQUIRE(address.to);
}

void simdev_run(simdev_stream *stream, simdev_op *op, simdev_failure *why) {
    delay(stream);
    if (op->fault.status != DHOW_OK) {
        *why = op->fault;
    } else if (op->kind == SIMDEV_COPY) {
        run_copy(stream, op, why);
    } else if (op->kind == SIMDEV_FILL) {
        run_fill(stream, op, why);
    } else if (op->kind == SIMDEV_CALL) {
        run_call(stream, op, why);
    } else {
        run_kernel(stream, op, why);
        return;
    }
    stream->free_at = simdev_now();
}
