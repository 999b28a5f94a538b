/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin of simulated devices with one mistake in it, chosen by DHOW_SIM_PLANT, of the kinds
 * that writers of plugins make: each is to be found by a case of dhow-conform, by name. The files
 * of plugins/sim are compiled beside this one as they are, with their table renamed to
 * sim_unplanted.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "plugins/sim/sim.h"

extern const dhow_plugin sim_unplanted;

/* X(name, mistake) */
#define PLANTS(X)                                                    \
    X(none, "nothing is wrong")                                      \
    X(record_ignored, "event_record does nothing")                   \
    X(source_early, "pinned sources are read during the call")       \
    X(wait_ignored, "stream_wait does nothing")                      \
    X(last_row_dropped, "a copy of rows leaves out the last")        \
    X(pitch_ignored, "rows are taken to be dense on the device")     \
    X(plane_pitch_ignored, "planes are taken to follow each other")  \
    X(offset_ignored, "copies go to the start of the allocation")    \
    X(empty_copy_fails, "a copy of nothing is refused")              \
    X(box_kept, "the box of a copy is read after the call")          \
    X(fill_cut, "patterns of 8 bytes are cut to 4")                  \
    X(dims_kept, "dims are read after the launch has returned")      \
    X(odd_sizes, "kernels leave out the last of an odd count")       \
    X(oom_internal, "out of memory is reported as INTERNAL")         \
    X(memory_kept, "mem_free does nothing")                          \
    X(align_wrong, "offset_align is smaller than what kernels need") \
    X(count_wrong, "device_count counts one too many")               \
    X(opens_once, "open works once in a process")                    \
    X(query_early, "event_query says OK at once")                    \
    X(map_stale, "what is written to a view is dropped")             \
    X(async_lost, "stream_sync forgets failed work")                 \
    X(elapsed_negative, "event_elapsed subtracts the wrong way")     \
    X(threads_left, "close leaves a thread behind")                  \
    X(staging_shared, "all streams stage copies in one buffer")      \
    X(exit_crashes, "what runs at the end of the process crashes")   \
    X(tail_lost, "copies above 24 MiB leave out the last byte")      \
    X(value_cut, "values of 64 bits are cut to 32")                  \
    X(any_kernel, "a name that nobody has gives some kernel")        \
    X(memory_absurd, "memory_bytes is all ones")                     \
    X(name_escape, "a device's name colours the terminal")           \
    X(elapsed_micros, "event_elapsed says microseconds")             \
    X(record_waits, "a timed event waits for its stream on record")  \
    X(error_left, "the next stream has the failure of the last")     \
    X(err_code, "err->code is not what is returned")                 \
    X(prints, "device_open prints a greeting")                       \
    X(folder_changed, "open changes the working directory")          \
    X(mask_changed, "open changes the umask")                        \
    X(signal_ignored, "open ignores SIGPIPE")                        \
    X(child_left, "close leaves a dead child")                       \
    X(alloc_unlocked, "blocks that are used again have no lock")     \
    X(queue_unlocked, "fills wait in a queue without a lock")        \
    X(fill_rounded, "fills end at a multiple of 8 bytes")            \
    X(grid_taken, "a grid for a portable kernel is ignored")         \
    X(empty_refused, "a buffer of no bytes is refused")              \
    X(index_narrow, "index_bits leaves 64 out")                      \
    X(message_endless, "the message of a failure has no end")        \
    X(crash, "a copy of planes dies of SIGSEGV")                     \
    X(hang, "event_sync never returns for events with time stamps")

typedef enum plant {
#define PLANT_ENUM(name, mistake) PLANT_##name,
    PLANTS(PLANT_ENUM)
#undef PLANT_ENUM
} plant;

static plant planted;
static char launched_file[1024]; /* "": none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int32_t choose(const dhow_host *host, dhow_error *err) {
    static const char *const names[] = {
#define PLANT_NAME(name, mistake) #name,
        PLANTS(PLANT_NAME)
#undef PLANT_NAME
    };
    const char *wanted = host->env(host->user, "DHOW_SIM_PLANT");
    const char *file = host->env(host->user, "DHOW_SIM_LAUNCHED");
    if (file != NULL) (void)snprintf(launched_file, sizeof launched_file, "%s", file);
    planted = PLANT_none;
    if (wanted == NULL) return DHOW_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], wanted) != 0) continue;
        planted = (plant)i;
        return DHOW_OK;
    }
    return sim_fail(err, DHOW_INVALID_ARGUMENT, "DHOW_SIM_PLANT: there is no mistake '%s'", wanted);
}

/* ---- the backend ---- */

static int32_t probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    int32_t status = choose(host, err);
    return status == DHOW_OK ? sim_unplanted.probe(host, out, err) : status;
}

static int32_t open_backend(const dhow_host *host, void **out_backend, dhow_error *err) {
    static uint32_t opened;
    *out_backend = NULL;
    int32_t status = choose(host, err);
    if (status != DHOW_OK) return status;
    if (planted == PLANT_exit_crashes && opened++ == 0) (void)atexit(abort);
    if (planted == PLANT_folder_changed) (void)!chdir("/");
    if (planted == PLANT_mask_changed) (void)umask(0770);
    if (planted == PLANT_signal_ignored) (void)signal(SIGPIPE, SIG_IGN);
    if (planted == PLANT_prints) (void)puts("welcome to simulated devices");
    if (planted == PLANT_opens_once && opened++ > 0)
        return sim_fail(err, DHOW_INTERNAL, "the vendor's library is initialised already");
    return sim_unplanted.open(host, out_backend, err);
}

static void *sleeps(void *data) {
    (void)data;
    for (;;) (void)pause();
    return NULL;
}

#ifdef PLANT_IMPORT
extern const char *dhow_version(void);
#else
static const char *dhow_version(void) { return ""; }
#endif

static void close_backend(void *backend) {
    if (dhow_version() == NULL) return;
    pthread_t thread;
    if (planted == PLANT_threads_left && pthread_create(&thread, NULL, sleeps, NULL) == 0)
        (void)pthread_detach(thread);
    if (planted == PLANT_child_left && fork() == 0) _exit(0);
    sim_unplanted.close(backend);
}

static int32_t device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    int32_t status = sim_device_count(backend, out_count, err);
    if (planted == PLANT_count_wrong) ++*out_count;
    return status;
}

static int32_t device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                               dhow_error *err) {
    int32_t status = sim_device_describe(backend, index, out, err);
    if (planted == PLANT_align_wrong) out->offset_align = 4;
    if (planted == PLANT_index_narrow) out->index_bits = 32;
    if (planted == PLANT_memory_absurd) out->memory_bytes = UINT64_MAX;
    if (planted == PLANT_name_escape)
        (void)snprintf(out->name, sizeof out->name, "\033[31mfast device\033[0m");
    if (planted == PLANT_map_stale) out->flags |= DHOW_DEVICE_HOST_VISIBLE;
    if (launched_file[0] != '\0') out->kind = DHOW_DEVICE_CPU; /* attention has its kernel there */
    return status;
}

/* ---- memory ---- */

enum { SHELF = 64, SHELF_BYTES = 4096 };
static struct {
    uint64_t handles[SHELF];
    atomic_uint count; /* each access by itself is defined, all of them together are not */
} shelf;

/* The time in between is what a longer search would take. */
static bool take_from_shelf(uint64_t *out_handle) {
    const unsigned count = atomic_load(&shelf.count);
    if (count == 0) return false;
    *out_handle = shelf.handles[count - 1];
    (void)sched_yield();
    atomic_store(&shelf.count, count - 1);
    return true;
}

static bool put_on_shelf(uint64_t handle) {
    const unsigned count = atomic_load(&shelf.count);
    if (count == SHELF) return false;
    shelf.handles[count] = handle;
    atomic_store(&shelf.count, count + 1);
    return true;
}

/* The latest allocations. */
static struct { uint64_t handle, bytes; } blocks[64];
static unsigned block_count;

static void note_block(uint64_t handle, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    blocks[block_count % 64].handle = handle;
    blocks[block_count++ % 64].bytes = bytes;
    pthread_mutex_unlock(&lock);
}

static bool is_empty(const dhow_arg *arg) {
    bool empty = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < 64 && arg->kind == DHOW_ARG_BUFFER; i++)
        empty = empty || (blocks[i].handle == arg->u.buffer.handle && blocks[i].handle != 0 &&
                          blocks[i].bytes == arg->u.buffer.offset);
    pthread_mutex_unlock(&lock);
    return empty;
}

static int32_t mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err) {
    if (planted == PLANT_alloc_unlocked && bytes == SHELF_BYTES && take_from_shelf(out_handle))
        return DHOW_OK;
    int32_t status = sim_mem_alloc(device, bytes, out_handle, err);
    if (planted == PLANT_empty_refused && status == DHOW_OK) note_block(*out_handle, bytes);
    if (planted == PLANT_message_endless && status != DHOW_OK)
        memset(err->message, '!', sizeof err->message);
    if (planted == PLANT_oom_internal && status == DHOW_OUT_OF_MEMORY)
        err->code = status = DHOW_INTERNAL;
    if (planted == PLANT_err_code && status != DHOW_OK) err->code = DHOW_IO_ERROR;
    return status;
}

static void mem_free(void *device, uint64_t handle) {
    if (planted == PLANT_alloc_unlocked && put_on_shelf(handle)) return;
    if (planted != PLANT_memory_kept) sim_mem_free(device, handle);
}

/* A view is a copy that comes back with unmap, or here does not. */
static int32_t map(void *device, uint64_t handle, uint64_t offset, uint64_t bytes, uint32_t access,
                   void **out_memory, dhow_error *err) {
    void *stream = NULL;
    (void)access;
    int32_t status = sim_host_alloc(device, bytes, out_memory, err);
    if (status == DHOW_OK) status = sim_stream_create(device, 0, &stream, err);
    if (status != DHOW_OK) return status;
    const dhow_copy_rect rect = {
        .extent = {bytes, 1, 1},
        .src = {.handle = handle, .offset = offset, .pitch = {bytes, bytes}},
        .dst = {.space = DHOW_SPACE_HOST,
                .pinned = 1,
                .handle = (uint64_t)(uintptr_t)*out_memory,
                .pitch = {bytes, bytes}}};
    status = sim_copy(stream, &rect, err);
    if (status == DHOW_OK) status = sim_stream_sync(stream, err);
    sim_stream_destroy(stream);
    return status;
}

static int32_t unmap(void *device, uint64_t handle, void *memory, dhow_error *err) {
    (void)handle, (void)err;
    sim_host_free(device, memory);
    return DHOW_OK;
}

/* ---- what is done later than it should be ---- */

static struct {
    void *stream, *kernel;
    dhow_geometry geometry;
    dhow_arg args[DHOW_MAX_KERNEL_ARGS];
    uint32_t arg_count;
    const dhow_copy_rect *rect;
} later;

typedef struct waiting_fill {
    void *stream;
    uint64_t handle, offset, bytes, pattern;
    uint32_t pattern_bytes;
} waiting_fill;

static struct {
    waiting_fill fills[4096];
    atomic_uint count;
} waiting;

/* By whoever comes: what others put in meanwhile is lost. */
static int32_t flush(dhow_error *err) {
    const unsigned count = atomic_load(&waiting.count);
    int32_t status = DHOW_OK;
    for (unsigned i = 0; i < count && status == DHOW_OK; i++) {
        const waiting_fill f = waiting.fills[i];
        status = sim_fill(f.stream, f.handle, f.offset, f.bytes, f.pattern, f.pattern_bytes, err);
    }
    if (count != 0) atomic_store(&waiting.count, 0);
    return status;
}

static int32_t put_off(const waiting_fill *fill, dhow_error *err) {
    if (atomic_load(&waiting.count) == 4096) {
        int32_t status = flush(err);
        if (status != DHOW_OK) return status;
    }
    const unsigned count = atomic_load(&waiting.count);
    waiting.fills[count < 4096 ? count : 0] = *fill;
    atomic_store(&waiting.count, count < 4096 ? count + 1 : 1);
    return DHOW_OK;
}

/* Hands over what the stream was given last, from where the caller had it. */
static int32_t hand_over(void *stream, dhow_error *err) {
    int32_t status = planted == PLANT_queue_unlocked ? flush(err) : DHOW_OK;
    if (status != DHOW_OK) return status;
    pthread_mutex_lock(&lock);
    if (later.stream == stream) {
        if (later.rect != NULL)
            status = sim_copy(stream, later.rect, err);
        else
            status =
                sim_launch(stream, later.kernel, &later.geometry, later.args, later.arg_count, err);
        memset(&later, 0, sizeof later);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static bool takes_dims(const dhow_arg *args, uint32_t arg_count) {
    for (uint32_t i = 0; i < arg_count; i++) {
        if (args[i].kind == DHOW_ARG_DIMS) return true;
    }
    return false;
}

/* ---- copies and fills ---- */

static int32_t copy_staged(void *stream, const dhow_copy_rect *rect, dhow_error *err) {
    static unsigned char buffer[1 << 16];
    dhow_copy_rect staged = *rect;
    if (rect->src.space != DHOW_SPACE_HOST || rect->src.pinned || rect->extent[1] != 1 ||
        rect->extent[2] != 1 || rect->extent[0] > sizeof buffer)
        return sim_copy(stream, rect, err);
    memcpy(buffer, (const unsigned char *)(uintptr_t)rect->src.handle + rect->src.offset,
           rect->extent[0]);
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    staged.src.handle = (uint64_t)(uintptr_t)buffer;
    staged.src.offset = 0;
    return sim_copy(stream, &staged, err);
}

/* Into memory that is not pinned, which sim reads during the call. */
static void read_early(dhow_copy_end *src, uint64_t bytes) {
    static unsigned char memory[4 << 20];
    if (src->space != DHOW_SPACE_HOST || bytes > sizeof memory) return;
    memcpy(memory, (const unsigned char *)(uintptr_t)src->handle + src->offset, bytes);
    src->handle = (uint64_t)(uintptr_t)memory;
    src->offset = 0;
    src->pinned = 0;
}

static int32_t copy(void *stream, const dhow_copy_rect *given, dhow_error *err) {
    dhow_copy_rect rect = *given;
    int32_t status = hand_over(stream, err);
    if (status != DHOW_OK) return status;
    dhow_copy_end *there = rect.dst.space == DHOW_SPACE_DEVICE ? &rect.dst : &rect.src;
    if (planted == PLANT_source_early && rect.extent[1] * rect.extent[2] == 1)
        read_early(&rect.src, rect.extent[0]);
    if (planted == PLANT_staging_shared) return copy_staged(stream, given, err);
    if (planted == PLANT_last_row_dropped && rect.extent[1] > 1) rect.extent[1]--;
    if (planted == PLANT_pitch_ignored) there->pitch[0] = rect.extent[0];
    if (planted == PLANT_plane_pitch_ignored) there->pitch[1] = there->pitch[0] * rect.extent[1];
    if (planted == PLANT_offset_ignored) there->offset = 0;
    if (planted == PLANT_tail_lost && rect.extent[0] > UINT64_C(24) << 20) rect.extent[0]--;
    if (planted == PLANT_empty_copy_fails && rect.extent[0] * rect.extent[1] * rect.extent[2] == 0)
        return sim_fail(err, DHOW_INVALID_ARGUMENT, "a copy of 0 bytes");
    if (planted == PLANT_crash && rect.extent[2] > 1) (void)raise(SIGSEGV);
    if (planted == PLANT_box_kept && rect.dst.space == DHOW_SPACE_HOST && rect.dst.pinned) {
        pthread_mutex_lock(&lock);
        later.stream = stream;
        later.rect = given;
        pthread_mutex_unlock(&lock);
        return DHOW_OK;
    }
    return sim_copy(stream, &rect, err);
}

static int32_t fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                    uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    if (planted == PLANT_fill_cut && pattern_bytes == 8) pattern_bytes = 4;
    if (planted == PLANT_fill_rounded) bytes = (bytes + 7) / 8 * 8;
    if (planted == PLANT_queue_unlocked)
        return put_off(&(waiting_fill){stream, handle, offset, bytes, pattern, pattern_bytes}, err);
    return sim_fill(stream, handle, offset, bytes, pattern, pattern_bytes, err);
}

/* ---- streams and events ---- */

enum { GATES = 64 };
static void *gates[GATES]; /* events of the host: without them nothing could be told */

static void change_gate(void *from, void *to) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GATES; i++) {
        if (gates[i] != from) continue;
        gates[i] = to;
        break;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_gate(const void *event) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GATES; i++) found = found || gates[i] == event;
    pthread_mutex_unlock(&lock);
    return found;
}

static int32_t left; /* by a stream that has ended */

static void stream_destroy(void *stream) {
    dhow_error err = {.struct_size = sizeof err};
    if (planted == PLANT_error_left) left = sim_stream_sync(stream, &err);
    sim_stream_destroy(stream);
}

static int32_t stream_sync(void *stream, dhow_error *err) {
    int32_t status = hand_over(stream, err);
    if (status == DHOW_OK) status = sim_stream_sync(stream, err);
    if (status == DHOW_OK && left != DHOW_OK)
        status = sim_fail(err, left, "what a stream before this one was given has failed");
    left = DHOW_OK;
    return planted == PLANT_async_lost ? DHOW_OK : status;
}

static int32_t stream_wait(void *stream, void *event, dhow_error *err) {
    if (planted == PLANT_wait_ignored && !is_gate(event)) return DHOW_OK;
    return sim_stream_wait(stream, event, err);
}

static int32_t event_create(void *device, uint32_t flags, void **out_event, dhow_error *err) {
    int32_t status = sim_event_create(device, flags, out_event, err);
    const bool timed = planted == PLANT_hang || planted == PLANT_record_waits;
    if (status == DHOW_OK && !timed && (flags & DHOW_EVENT_HOST) != 0)
        change_gate(NULL, *out_event);
    if (status == DHOW_OK && timed && (flags & DHOW_EVENT_TIMING) != 0)
        change_gate(NULL, *out_event);
    return status;
}

static void event_destroy(void *event) {
    change_gate(event, NULL);
    sim_event_destroy(event);
}

static int32_t event_record(void *event, void *stream, dhow_error *err) {
    if (planted == PLANT_record_ignored) return DHOW_OK;
    if (planted == PLANT_record_waits && is_gate(event)) (void)sim_stream_sync(stream, err);
    return sim_event_record(event, stream, err);
}

static int32_t event_sync(void *event, dhow_error *err) {
    if (planted == PLANT_hang && is_gate(event)) (void)sleeps(NULL);
    return sim_event_sync(event, err);
}

static int32_t event_query(void *event, dhow_error *err) {
    if (planted == PLANT_query_early && !is_gate(event)) return DHOW_OK;
    return sim_event_query(event, err);
}

static int32_t event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err) {
    int32_t status = sim_event_elapsed(start, end, out_nanoseconds, err);
    if (planted == PLANT_elapsed_negative) *out_nanoseconds = -*out_nanoseconds;
    if (planted == PLANT_elapsed_micros) *out_nanoseconds /= 1000;
    return status;
}

/* ---- kernels ---- */

/* The names of kernels by their handles, where DHOW_SIM_LAUNCHED names the file of those that are
 * launched: see kernels.sh. */
static struct {
    const void *kernel;
    char name[60];
    bool launched;
} named[4096];
static size_t named_count;

static void name_kernel(const void *kernel, const char *name) {
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < named_count && named[i].kernel != kernel) i++;
    if (i == named_count && i < sizeof named / sizeof named[0]) named_count++;
    if (i < named_count &&
        strcmp(named[i].name, name) != 0) { /* handles of closed devices come again */
        named[i].kernel = kernel;
        named[i].launched = false;
        (void)snprintf(named[i].name, sizeof named[i].name, "%s", name);
    }
    pthread_mutex_unlock(&lock);
}

/* A case runs in a process of its own: all write to one file. */
static void note_launch(const void *kernel) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < named_count; i++) {
        if (named[i].kernel != kernel || named[i].launched) continue;
        FILE *file = fopen(launched_file, "a");
        if (file == NULL) continue;
        (void)fprintf(file, "%s\n", named[i].name);
        (void)fclose(file);
        named[i].launched = true;
    }
    pthread_mutex_unlock(&lock);
}

static int32_t launch(void *stream, void *kernel, const dhow_geometry *geometry,
                      const dhow_arg *args, uint32_t arg_count, dhow_error *err) {
    dhow_arg own[DHOW_MAX_KERNEL_ARGS];
    memcpy(own, args, arg_count * sizeof *own);
    if (launched_file[0] != '\0') note_launch(kernel);
    dhow_arg *last = &own[arg_count - 1]; /* that is a count */
    while (last > own && (last->kind != DHOW_ARG_VALUE || last->bytes != 8)) last--;
    if (planted == PLANT_odd_sizes && last->kind == DHOW_ARG_VALUE && last->bytes == 8 &&
        last->u.value > 1)
        last->u.value &= ~UINT64_C(1);
    for (uint32_t i = 0; i < arg_count && planted == PLANT_value_cut; i++)
        if (own[i].kind == DHOW_ARG_VALUE) own[i].u.value &= UINT32_MAX;
    for (uint32_t i = 0; i < arg_count && planted == PLANT_empty_refused; i++)
        if (is_empty(&own[i]))
            return sim_fail(err, DHOW_INVALID_ARGUMENT, "argument %u has no bytes", i + 1);
    const dhow_geometry advice = {.work = 1};
    if (planted == PLANT_grid_taken && geometry->native) geometry = &advice;
    if (planted != PLANT_dims_kept || !takes_dims(args, arg_count))
        return sim_launch(stream, kernel, geometry, own, arg_count, err);
    pthread_mutex_lock(&lock);
    later.stream = stream;
    later.kernel = kernel;
    later.geometry = *geometry;
    memcpy(later.args, own, sizeof own);
    later.arg_count = arg_count;
    pthread_mutex_unlock(&lock);
    return DHOW_OK;
}

static int32_t builtin_kernel(void *device, const char *name, uint32_t index_bits,
                              void **out_kernel, dhow_error *err) {
    int32_t status = sim_builtin_kernel(device, name, index_bits, out_kernel, err);
    if (planted == PLANT_any_kernel && status == DHOW_NOT_FOUND)
        status = sim_builtin_kernel(device, "add_f32", index_bits, out_kernel, err);
    if (launched_file[0] != '\0' && status == DHOW_OK) name_kernel(*out_kernel, name);
    return status;
}

/* ---- the table ---- */

#ifdef PLANT_SECOND_SYMBOL
__attribute__((visibility("default"))) int sim_helper(void);
int sim_helper(void) { return 1; }
#endif

DHOW_PLUGIN_EXPORT extern const dhow_plugin dhow_plugin_v1;
const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "sim",
    .version = DHOW_SIM_VERSION,
    .probe = probe,
    .open = open_backend,
    .close = close_backend,
    .device_count = device_count,
    .device_describe = device_describe,
    .device_open = sim_device_open,
    .device_close = sim_device_close,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .stream_create = sim_stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .stream_query = sim_stream_query,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_sync = event_sync,
    .event_query = event_query,
    .copy = copy,
    .fill = fill,
    .module_build = sim_module_build,
#ifndef PLANT_NULL_SLOT
    .module_free = sim_module_free,
#endif
    .module_kernel = sim_module_kernel,
    .launch = launch,
    .builtin_kernel = builtin_kernel,
    .host_alloc = sim_host_alloc,
    .host_free = sim_host_free,
    .host_register = sim_host_register,
    .host_unregister = sim_host_unregister,
    .map = map,
    .unmap = unmap,
    .can_copy = sim_can_copy,
    .peer_copy = sim_peer_copy,
    .event_signal = sim_event_signal,
    .event_elapsed = event_elapsed,
    .mem_info = sim_mem_info,
};
