/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin with one host-memory device, small and right - until a macro spoils it. Each bad plugin
 * of tests/plugins/CMakeLists.txt is this file with one fault switched on.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/plugin.h"

/* Each fault leaves something out. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* ---- what a fault may replace ---- */

#ifndef BAD_MAGIC
#define BAD_MAGIC DHOW_PLUGIN_MAGIC
#endif
#ifndef BAD_SIZE
#define BAD_SIZE sizeof(dhow_plugin)
#endif
#ifndef BAD_MINOR
#define BAD_MINOR DHOW_PLUGIN_MINOR
#endif
#ifndef BAD_POINTER_BYTES
#define BAD_POINTER_BYTES sizeof(void *)
#endif
#ifndef BAD_LITTLE_ENDIAN
#define BAD_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#endif
#ifndef BAD_SANITIZERS
#define BAD_SANITIZERS DHOW_PLUGIN_SANITIZERS
#endif
#ifndef BAD_NAME
#define BAD_NAME "plain"
#endif
#ifndef BAD_VERSION
#define BAD_VERSION "1.0"
#endif
#ifndef BAD_KIND
#define BAD_KIND DHOW_DEVICE_ACCELERATOR
#endif
#ifndef BAD_FLAGS
#define BAD_FLAGS DHOW_DEVICE_HOST_INLINE
#endif
#ifndef BAD_DEVICES
#define BAD_DEVICES 1
#endif

#ifdef NAME_UNTERMINATED /* 64 letters and no zero */
#define EIGHT 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'
static const char k_unterminated[64] = {EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};
#undef BAD_NAME
#define BAD_NAME k_unterminated
#endif

static int32_t say(dhow_error *err, int32_t code, const char *message) {
    err->code = code;
    (void)snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

/* Not for a sanitizer's handler: this crash is meant, and its report would be one finding more. */
static void crash(void) {
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

/* ---- the backend ---- */

static const dhow_host *g_host;

static int32_t misbehave(dhow_probe *out, dhow_error *err) {
    (void)out, (void)err;
#if defined(PROBE_CRASHES)
    crash();
#elif defined(PROBE_ABORTS)
    abort();
#elif defined(PROBE_EXITS)
    exit(0);
#elif defined(PROBE_EXITS_AT_ONCE)
    _exit(3);
#elif defined(PROBE_HANGS)
    sleep(10);
#elif defined(PROBE_STATE)
    out->state = PROBE_STATE;
#elif defined(PROBE_SAYS_NO_DRIVER)
    out->state = DHOW_PLUGIN_NO_DRIVER;
    (void)snprintf(out->reason, sizeof out->reason, "libplain.so.1 is\nnot there");
    (void)snprintf(out->hint, sizeof out->hint, "install\nlibplain1");
#elif defined(PROBE_TEXT_UNTERMINATED)
    out->state = DHOW_PLUGIN_NO_DRIVER;
    memset(out->reason, 'r', sizeof out->reason);
    memset(out->hint, 'h', sizeof out->hint);
#elif defined(PROBE_CODE_UNKNOWN)
    memset(err->message, 'm', sizeof err->message);
    return 4711;
#elif defined(PROBE_FAILS)
    return say(err, DHOW_UNAVAILABLE, "the %s%n of the driver is wrong");
#elif defined(PROBE_PRINTS)
    (void)printf("dhow-probe 2\n0\nplain\n1.0\n\n\n0 0\n");
    (void)fprintf(stderr, "noise\n");
    (void)fflush(NULL);
#elif defined(PROBE_WRITES_ON_3)
    if (write(3, "garbage\n", 8) != 8) (void)close(3);
#elif defined(PROBE_LEAVES_A_CHILD)
    if (fork() == 0) {
        (void)execl("/bin/sleep", "sleep", "8", (char *)NULL);
        _exit(1);
    }
#elif defined(PROBE_LOGS)
    g_host->log(g_host->user, 99, "a line of no level %n%s");
#endif
    return DHOW_OK;
}

static int32_t probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    g_host = host;
    out->state = DHOW_PLUGIN_READY;
    return misbehave(out, err);
}

static int32_t open_backend(const dhow_host *host, void **out, dhow_error *err) {
    (void)err;
    g_host = host;
#if defined(OPEN_FAILS)
    return say(err, DHOW_UNAVAILABLE, "the driver went away");
#elif defined(OPEN_CRASHES)
    *out = NULL;
    return raise(SIGSEGV);
#elif defined(OPEN_FAILS_IN_PROGRAMS)
    if (strcmp(program_invocation_short_name, "dhow-probe") != 0)
        return say(err, DHOW_UNAVAILABLE, "the driver went away");
    *out = &g_host;
    return DHOW_OK;
#elif defined(OPEN_GIVES_NULL)
    *out = NULL;
    return DHOW_OK;
#else
    *out = &g_host;
    return DHOW_OK;
#endif
}
static void close_backend(void *backend) { (void)backend; }

static int32_t device_count(void *backend, uint32_t *out, dhow_error *err) {
    (void)backend, (void)err;
#ifdef COUNT_FAILS
    return say(err, DHOW_INTERNAL, "cannot count");
#else
    *out = BAD_DEVICES;
    return DHOW_OK;
#endif
}

static int32_t device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                               dhow_error *err) {
    (void)backend, (void)index, (void)err;
#ifdef DESCRIBE_FAILS
    return say(err, DHOW_INTERNAL, "the device is shy");
#else
    out->kind = BAD_KIND;
#ifdef BAD_PRIORITY
    out->priority = BAD_PRIORITY;
#endif
    out->flags = BAD_FLAGS;
    out->compute_units = 1;
    out->offset_align = 8;
    out->index_bits = 64;
    out->memory_bytes = UINT64_C(1) << 30;
    out->dtypes = DHOW_DTYPE_BIT(DHOW_F32);
    memset(out->name, 'n', sizeof out->name); /* the host terminates it */
#ifdef COLOURED_TEXTS
    (void)snprintf(out->name, sizeof out->name, "%s", "\033[31mfast\ndevice\177 \344");
    (void)snprintf(out->driver, sizeof out->driver, "%s", "made in K\303\266ln\t1.0");
#endif
    return DHOW_OK;
#endif
}

static int32_t device_open(void *backend, uint32_t index, void **out, dhow_error *err) {
    (void)index, (void)err;
#ifdef DEVICE_OPEN_FAILS
    (void)out, (void)backend;
    return say(err, DHOW_UNAVAILABLE, "the device is busy");
#else
    *out = backend;
    return DHOW_OK;
#endif
}
static void device_close(void *device) { (void)device; }

/* ---- memory, streams, events: the host's memory, done at once ---- */

static int32_t mem_alloc(void *device, uint64_t bytes, uint64_t *out, dhow_error *err) {
    (void)device;
    void *memory = g_host->alloc(g_host->user, bytes, 64);
    *out = (uint64_t)(uintptr_t)memory;
    return memory != NULL ? DHOW_OK : say(err, DHOW_OUT_OF_MEMORY, "no memory");
}
static void mem_free(void *device, uint64_t handle) {
    (void)device;
    g_host->free(g_host->user, (void *)(uintptr_t)handle);
}
static int32_t stream_create(void *device, uint32_t flags, void **out, dhow_error *err) {
    (void)flags, (void)err;
    *out = device;
    return DHOW_OK;
}
static void destroy(void *object) { (void)object; }
static int32_t done(void *object, dhow_error *err) {
    (void)object, (void)err;
    return DHOW_OK;
}
static int32_t done_with(void *one, void *other, dhow_error *err) {
    (void)one, (void)other, (void)err;
    return DHOW_OK;
}

static int32_t copy(void *stream, const dhow_copy_rect *rect, dhow_error *err) {
    (void)stream, (void)err;
    for (uint64_t z = 0; z < rect->extent[2]; z++) {
        for (uint64_t y = 0; y < rect->extent[1]; y++) {
            const dhow_copy_end *s = &rect->src, *d = &rect->dst;
            memcpy((char *)(uintptr_t)d->handle + d->offset + y * d->pitch[0] + z * d->pitch[1],
                   (char *)(uintptr_t)s->handle + s->offset + y * s->pitch[0] + z * s->pitch[1],
                   rect->extent[0]);
        }
    }
    return DHOW_OK;
}

static int32_t fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                    uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    (void)stream, (void)err;
    char *to = (char *)(uintptr_t)handle + offset;
    for (uint64_t i = 0; i < bytes; i++) to[i] = (char)(pattern >> (8 * (i % pattern_bytes)));
    return DHOW_OK;
}

/* ---- kernels: none; products through "dhow.blas/1" alone ---- */

static int32_t module_build(void *device, const dhow_module_desc *desc, void **out,
                            dhow_error *err) {
    (void)device, (void)desc;
    *out = NULL;
    return say(err, DHOW_UNSUPPORTED, "no compiler here");
}
static int32_t module_kernel(void *module, const char *name, void **out, dhow_error *err) {
    (void)module, (void)name, (void)out;
    return say(err, DHOW_NOT_FOUND, "no kernels");
}
#ifdef HAS_KERNELS /* which nobody launches */
static int32_t builtin_kernel(void *device, const char *name, uint32_t bits, void **out,
                              dhow_error *err) {
    (void)name, (void)bits, (void)err;
    *out = device;
    return DHOW_OK;
}
#endif
static int32_t launch(void *stream, void *kernel, const dhow_geometry *geometry,
                      const dhow_arg *args, uint32_t count, dhow_error *err) {
    (void)stream, (void)kernel, (void)geometry, (void)args, (void)count;
    return say(err, DHOW_INTERNAL, "nothing to launch");
}

#ifdef BLAS_SIZE
static int32_t blas_plan(void *device, const dhow_blas_desc *desc, void **out_plan,
                         uint64_t *out_workspace, uint64_t *out_packed, dhow_error *err) {
    (void)device;
    if (desc->dtype_a != DHOW_F32 || desc->batch != 1 || desc->flags != 0)
        return say(err, DHOW_UNSUPPORTED, "plain f32 products only");
    dhow_blas_desc *plan = g_host->alloc(g_host->user, sizeof *plan, 16);
    if (plan == NULL) return say(err, DHOW_OUT_OF_MEMORY, "no memory for a plan");
    *plan = *desc;
    *out_plan = plan;
#ifdef PLANS_IN_PAIRS /* a plan is ready when another one is being made */
    static atomic_int begun;
    const int number = atomic_fetch_add(&begun, 1);
    for (int i = 0; number % 2 == 0 && atomic_load(&begun) == number + 1; i++) {
        if (i == 5000) return say(err, DHOW_INTERNAL, "nobody else plans");
        (void)usleep(1000);
    }
#endif
    *out_workspace = *out_packed = 0;
    return DHOW_OK;
}
static int32_t blas_pack(void *plan, void *stream, dhow_buffer b, dhow_buffer packed,
                         dhow_error *err) {
    (void)plan, (void)stream, (void)b, (void)packed;
    return say(err, DHOW_INTERNAL, "nothing is packed");
}
static const float *floats(dhow_buffer b) {
    return (const float *)(uintptr_t)(b.handle + b.offset);
}
static int32_t blas_run(void *handle, void *stream, dhow_buffer a, dhow_buffer b, dhow_buffer c,
                        dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                        dhow_error *err) {
    (void)stream, (void)bias, (void)residual, (void)workspace, (void)err;
    const dhow_blas_desc *p = handle;
    float *to = (float *)(uintptr_t)(c.handle + c.offset);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
            sum += floats(a)[i / p->n * p->lda + k] * floats(b)[k * p->ldb + i % p->n];
        to[i / p->n * p->ldc + i % p->n] = sum;
    }
    return DHOW_OK;
}
static void blas_destroy(void *plan) { g_host->free(g_host->user, plan); }

/* A table of a later minor is longer, and the host must not mind. */
static const struct {
    dhow_blas table;
    uint64_t later[4];
} k_blas = {{.struct_size = BLAS_SIZE,
             .minor = 0,
             .plan = blas_plan,
             .pack = blas_pack,
             .run = blas_run,
             .destroy = blas_destroy},
            {1, 1, 1, 1}};
static const dhow_conv k_conv = {.struct_size = BLAS_SIZE, .minor = 0};

static const void *get_extension(void *device, const char *id) {
    (void)device;
    if (strcmp(id, "dhow.blas/1") == 0) return &k_blas;
    return strcmp(id, "dhow.conv/1") == 0 && BLAS_SIZE < sizeof(dhow_blas) ? &k_conv : NULL;
}
#endif

/* ---- the symbol ---- */

#if defined(CONSTRUCTOR_CRASHES) || defined(CONSTRUCTOR_EXITS)
__attribute__((constructor)) static void construct(void) {
#ifdef CONSTRUCTOR_EXITS
    _exit(7);
#else
    crash();
#endif
}
#endif

#if defined(UNDEFINED_SYMBOL) || defined(MISSING_DEPENDENCY)
extern int32_t dhow_test_gone(const dhow_host *host, dhow_probe *out, dhow_error *err);
#define BAD_PROBE_ dhow_test_gone
#else
#define BAD_PROBE_ probe
#endif

#ifdef NO_SYMBOL
#define dhow_plugin_v1 dhow_plugin_v0
#endif

/* X(slot, function): the required ones */
#define SLOTS(X)                        \
    X(probe, BAD_PROBE_)                \
    X(open, open_backend)               \
    X(close, close_backend)             \
    X(device_count, device_count)       \
    X(device_describe, device_describe) \
    X(device_open, device_open)         \
    X(device_close, device_close)       \
    X(mem_alloc, mem_alloc)             \
    X(mem_free, mem_free)               \
    X(stream_create, stream_create)     \
    X(stream_destroy, destroy)          \
    X(stream_sync, done)                \
    X(stream_query, done)               \
    X(stream_wait, done_with)           \
    X(event_create, stream_create)      \
    X(event_destroy, destroy)           \
    X(event_record, done_with)          \
    X(event_sync, done)                 \
    X(event_query, done)                \
    X(copy, copy)                       \
    X(fill, fill)                       \
    X(module_build, module_build)       \
    X(module_free, destroy)             \
    X(module_kernel, module_kernel)     \
    X(launch, launch)
#define SLOT_INIT(slot, function) .slot = function,
#define SLOT_DECLARE(slot, function) __typeof__(((dhow_plugin *)0)->slot) slot;

#ifdef MINIMAL
/* A plugin of the first minor that leaves out all it may: its symbol ends after `launch`. */
typedef struct table {
    uint32_t magic, struct_size;
    uint16_t minor;
    uint8_t pointer_bytes, little_endian;
    uint32_t sanitizers;
    const char *name, *version;
    SLOTS(SLOT_DECLARE)
} table;
_Static_assert(sizeof(table) == DHOW_PLUGIN_MIN_SIZE, "the required part");
#else
typedef dhow_plugin table;
#endif

#ifdef NULL_SLOT /* the last initialiser wins, and that is meant */
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#endif

#if defined(SHORT_SYMBOL)
DHOW_PLUGIN_EXPORT extern const uint32_t dhow_plugin_v1[16];
const uint32_t dhow_plugin_v1[16] = {DHOW_PLUGIN_MAGIC, sizeof(dhow_plugin)};
DHOW_PLUGIN_EXPORT extern const table k_unused;
const table k_unused = {
#elif defined(FUNCTION_SYMBOL)
DHOW_PLUGIN_EXPORT const dhow_plugin *dhow_plugin_v1(void);
static const table k_unused;
const dhow_plugin *dhow_plugin_v1(void) { return &k_unused; }
static const table k_unused = {
#else
DHOW_PLUGIN_EXPORT extern const table dhow_plugin_v1;
const table dhow_plugin_v1 = {
#endif
    .magic = BAD_MAGIC,
    .struct_size = (uint32_t)(BAD_SIZE),
    .minor = BAD_MINOR,
    .pointer_bytes = BAD_POINTER_BYTES,
    .little_endian = BAD_LITTLE_ENDIAN,
    .sanitizers = BAD_SANITIZERS,
    .name = BAD_NAME,
    .version = BAD_VERSION,
    SLOTS(SLOT_INIT)
#ifdef NULL_SLOT
        .NULL_SLOT = NULL,
#endif
#ifdef BLAS_SIZE
    .get_extension = get_extension,
#endif
#ifdef HAS_KERNELS
    .builtin_kernel = builtin_kernel,
#endif
#ifdef LATER_SLOT
    .later = done,
#endif
};
