/* SPDX-License-Identifier: Apache-2.0
 *
 * See trace.h. The format: "Trace Event Format", docs.google.com/document/d/
 * 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; times in microseconds.
 */
#include "base/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "base/threads/clock.h"
#include "base/threads/spin.h"

int64_t dhowi_trace_now(void) { return dhowi_nanoseconds(); }

/* Large pages where the system has them: the first touch of a small one costs as much as a few
 * records. */
static void ask_for_large_pages(void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page,
                    end = ((uintptr_t)memory + bytes) / page * page;
    if (end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

dhowi_trace *dhowi_trace_new(uint64_t capacity) {
    size_t bytes;
    if (!dhowi_mul((size_t)capacity, sizeof(dhowi_trace_record), &bytes) ||
        !dhowi_add(bytes, sizeof(dhowi_trace), &bytes))
        return NULL;
    dhowi_trace *trace = dhowi_alloc(bytes);
    if (trace == NULL) return NULL;
    ask_for_large_pages(trace, bytes);
    trace->capacity = capacity;
    atomic_flag_clear(&trace->lock);
    return trace;
}

/* ---- texts ---- */

struct dhowi_trace_text {
    dhowi_trace_text *next;
    char text[];
};

const char *dhowi_trace_keep(dhowi_trace *trace, const char *text) {
    const size_t bytes = strlen(text) + 1;
    dhowi_trace_text **chain =
        &trace->texts[dhowi_hash(DHOWI_HASH_SEED, text, bytes) % DHOWI_TRACE_CHAINS];
    dhowi_spin_lock(&trace->lock);
    dhowi_trace_text *t = *chain;
    while (t != NULL && strcmp(t->text, text) != 0) t = t->next;
    if (t == NULL && (t = dhowi_alloc(sizeof *t + bytes)) != NULL) {
        memcpy(t->text, text, bytes);
        t->next = *chain;
        *chain = t;
    }
    dhowi_spin_unlock(&trace->lock);
    return t != NULL ? t->text : NULL;
}

void dhowi_trace_free(dhowi_trace *trace) {
    for (size_t i = 0; trace != NULL && i < DHOWI_TRACE_CHAINS; i++) {
        while (trace->texts[i] != NULL) {
            dhowi_trace_text *t = trace->texts[i];
            trace->texts[i] = t->next;
            dhowi_free(t);
        }
    }
    dhowi_free(trace);
}

/* ---- threads ---- */

/* The names of threads, which may have ended when the file is written. */
enum { NAMED_THREADS = 1024, THREAD_NAME = 16 };
static struct {
    _Atomic uint32_t number; /* 0: not set yet */
    char name[THREAD_NAME];
} g_threads[NAMED_THREADS];
static atomic_uint g_thread_count;

static void note_thread(uint32_t number) {
    const uint32_t at = atomic_fetch_add(&g_thread_count, 1);
    if (at >= NAMED_THREADS) return;
    (void)prctl(PR_GET_NAME, g_threads[at].name, 0, 0, 0);
    atomic_store_explicit(&g_threads[at].number, number, memory_order_release);
}

/* The latest of a number is the living one. */
static const char *thread_name(uint32_t number) {
    const uint32_t count = DHOWI_MIN(atomic_load(&g_thread_count), (uint32_t)NAMED_THREADS);
    for (uint32_t i = count; i-- > 0;) {
        if (atomic_load_explicit(&g_threads[i].number, memory_order_acquire) == number)
            return g_threads[i].name;
    }
    return "thread";
}

static uint32_t thread_number(void) {
    static _Thread_local uint32_t t_number;
    if (t_number == 0) {
        t_number = (uint32_t)syscall(SYS_gettid);
        note_thread(t_number);
    }
    return t_number;
}

dhowi_trace_record *dhowi_trace_add(dhowi_trace *trace, dhowi_trace_kind kind, uint16_t device,
                                    const char *name) {
    uint64_t index = atomic_fetch_add_explicit(&trace->count, 1, memory_order_relaxed);
    if (index >= trace->capacity) return NULL;
    dhowi_trace_record *r = &trace->records[index];
    r->kind = (uint8_t)kind;
    r->device = device;
    r->thread = thread_number();
    size_t length = strnlen(name, sizeof r->name - 1);
    memcpy(r->name, name, length);
    return r;
}

/* ---- the file ---- */

enum { TRACKS = 4096 };
typedef struct writer {
    dhowi_file_writer file;
    dhow_status status;
    char buffer[1 << 16];
    dhowi_text text; /* over the buffer */
    bool first;
    uint64_t tracks[TRACKS]; /* that have a name: pid and tid, by their hash; 0: free */
    uint32_t track_count;
} writer;

enum { EVENT_BYTES = 1024 }; /* more than any single event takes */

static void flush(writer *w) {
    if (w->status == DHOW_OK) w->status = dhowi_file_append(&w->file, w->buffer, w->text.length);
    w->text.length = 0;
}

static void begin_event(writer *w) {
    if (w->text.capacity - w->text.length < EVENT_BYTES) flush(w);
    dhowi_text_add(&w->text, "%s", w->first ? "\n" : ",\n");
    w->first = false;
}

static void add_string(writer *w, const char *text) {
    bool plain = !dhowi_is_utf8(text); /* a cut name may end inside a character */
    dhowi_text_add(&w->text, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            dhowi_text_add(&w->text, "\\%c", c);
        } else if (c < 0x20 || (plain && c >= 0x7f)) {
            dhowi_text_add(&w->text, "\\u%04x", plain && c >= 0x7f ? 0xfffd : c);
        } else {
            dhowi_text_add(&w->text, "%c", c);
        }
    }
    dhowi_text_add(&w->text, "\"");
}

static double microseconds(int64_t nanoseconds) { return (double)nanoseconds / 1e3; }

static void add_track(writer *w, const char *what, uint32_t pid, uint32_t tid, const char *name) {
    begin_event(w);
    dhowi_text_add(&w->text,
                   "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
                   ",\"args\":{\"name\":",
                   what, pid, tid);
    add_string(w, name);
    dhowi_text_add(&w->text, "}}");
}

static const char *category(const dhowi_trace_record *r) {
    static const char *const names[] = {
#define NAME(name, text) text,
        DHOWI_TRACE_MAP(NAME)
#undef NAME
    };
    return names[r->kind];
}

static void add_slice(writer *w, const dhowi_trace_record *r, const char *kind, uint32_t pid,
                      uint32_t tid, int64_t begin, int64_t end, int64_t origin) {
    begin_event(w);
    dhowi_text_add(&w->text, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", kind);
    add_string(w, r->name);
    dhowi_text_add(&w->text,
                   ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
                   pid, tid, microseconds(begin - origin), microseconds(end - begin));
    bool moves = kind == category(r); /* handing it in moves nothing */
    if (moves && r->bytes > 0) {
        dhowi_text_add(&w->text, "\"bytes\":%" PRIu64 ",\"GB/s\":%.3f", r->bytes,
                       end > begin ? (double)r->bytes / (double)(end - begin) : 0.0);
    }
    if (moves && r->path != NULL)
        dhowi_text_add(&w->text, "%s\"%s\":\"%s\"", r->bytes > 0 ? "," : "",
                       r->kind == DHOWI_TRACE_STEP ? "result" : "path", r->path);
    dhowi_text_add(&w->text, "}}");
}

static void add_counter(writer *w, const dhowi_trace_record *r, uint32_t pid, int64_t origin) {
    begin_event(w);
    dhowi_text_add(&w->text,
                   "{\"ph\":\"C\",\"cat\":\"memory\",\"name\":\"memory\",\"pid\":%" PRIu32
                   ",\"ts\":%.3f,\"args\":{\"live\":%" PRIu64 "}}",
                   pid, microseconds(r->begin - origin), r->bytes);
}

enum { HOST_PID = 1, DEVICE_PID = 2 };

/* Names the track of a record the first time; with thousands of tracks the rest stay numbers. */
static void name_track(writer *w, uint32_t pid, uint32_t tid) {
    const bool host = pid == HOST_PID;
    const uint64_t track = (uint64_t)pid << 32 | tid;
    char name[THREAD_NAME + 16];
    uint64_t at = track * UINT64_C(0x9E3779B97F4A7C15) >> 52;
    while (w->tracks[at] != 0 && w->tracks[at] != track) at = (at + 1) % TRACKS;
    if (w->tracks[at] == track || w->track_count == TRACKS / 2) return;
    w->tracks[at] = track;
    w->track_count++;
    if (host) {
        (void)snprintf(name, sizeof name, "%s", thread_name(tid));
    } else {
        (void)snprintf(name, sizeof name, "stream %" PRIu32, tid);
    }
    add_track(w, "thread_name", pid, tid, name);
}

static void name_tracks(writer *w, const dhowi_trace_record *r) {
    const bool host = r->device == DHOWI_TRACE_HOST;
    if (r->kind == DHOWI_TRACE_MEMORY) return;
    if (!host) name_track(w, DEVICE_PID + (uint32_t)r->device, r->stream);
    if (host || r->device_end != 0) name_track(w, HOST_PID, r->thread);
}

/* Work of a device that is not the host stands twice: on the device's track, when it ran, and on
 * the thread's, when it was handed in. */
static void add_record(writer *w, const dhowi_trace_record *r, int64_t origin) {
    uint32_t pid = DEVICE_PID + (uint32_t)r->device;
    if (r->kind == DHOWI_TRACE_MEMORY) {
        add_counter(w, r, pid, origin);
    } else if (r->device == DHOWI_TRACE_HOST) {
        add_slice(w, r, category(r), HOST_PID, r->thread, r->begin, r->end, origin);
    } else if (r->device_end != 0) {
        add_slice(w, r, category(r), pid, r->stream, r->device_begin, r->device_end, origin);
        add_slice(w, r, "submit", HOST_PID, r->thread, r->begin, r->end, origin);
    } else {
        add_slice(w, r, category(r), pid, r->stream, r->begin, r->end, origin);
    }
}

static uint64_t kept(const dhowi_trace *trace) {
    return DHOWI_MIN(atomic_load(&trace->count), trace->capacity);
}

static void add_all(writer *w, const dhowi_trace *trace, const char *const *device_names,
                    uint32_t device_count) {
    add_track(w, "process_name", HOST_PID, 0, "host");
    for (uint32_t i = 0; i < device_count; i++)
        add_track(w, "process_name", DEVICE_PID + i, 0, device_names[i]);
    int64_t origin = INT64_MAX;
    uint64_t count = kept(trace);
    for (uint64_t i = 0; i < count; i++) {
        const dhowi_trace_record *r = &trace->records[i];
        if (!atomic_load_explicit(&r->ready, memory_order_acquire)) continue;
        origin = DHOWI_MIN(origin, r->begin);
        if (r->device_end != 0) origin = DHOWI_MIN(origin, r->device_begin);
    }
    for (uint64_t i = 0; i < count && w->status == DHOW_OK; i++) {
        const dhowi_trace_record *r = &trace->records[i];
        if (!atomic_load_explicit(&r->ready, memory_order_acquire)) continue;
        name_tracks(w, r);
        add_record(w, r, origin);
    }
}

dhow_status dhowi_trace_write(const dhowi_trace *trace, const char *path,
                              const char *const *device_names, uint32_t device_count) {
    writer *w = dhowi_alloc(sizeof *w);
    if (w == NULL) return dhowi_fail_memory(path);
    w->text = DHOWI_TEXT(w->buffer);
    w->first = true;
    dhow_status status = dhowi_file_begin(path, &w->file);
    if (status == DHOW_OK) {
        dhowi_text_add(&w->text, "{\"traceEvents\":[");
        add_all(w, trace, device_names, device_count);
        if (w->text.capacity - w->text.length < EVENT_BYTES) flush(w);
        dhowi_text_add(&w->text,
                       "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"recorded\":%" PRIu64
                       ",\"dropped\":%" PRIu64 ",\"untimed\":%" PRIu64 "}}\n",
                       kept(trace), atomic_load(&trace->count) - kept(trace),
                       atomic_load(&trace->untimed));
        flush(w);
        status = w->status;
        if (status == DHOW_OK) {
            status = dhowi_file_commit(&w->file);
        } else {
            dhowi_file_drop(&w->file);
        }
    }
    dhowi_free(w);
    return status;
}
