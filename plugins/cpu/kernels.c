/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup and launch. A launch is cut into chunks for the threads; small ones run on the calling
 * thread alone. Elementwise and row kernels whose result exceeds the caches write through a small
 * block that stays in the cache and goes out by non-temporal stores.
 */
#include <stdio.h>
#include <string.h>

#include "cpu.h"
#include "shares.h"

enum {
    CHUNKS_PER_THREAD = 4,          /* evens out threads that get less of their core */
    ALONE_BELOW = 32768,            /* elements, some tens of microseconds at most */
    ALONE_BELOW_AWAKE = 8192,       /* of threads that wait: what they wrote lies in their caches */
    ALONE_BELOW_PRODUCTS = 1 << 20, /* multiplications of matmul and conv: about 10 us */
    STREAM_BLOCK = 1024,            /* bytes of an elementwise result written at once */
    STREAM_AHEAD = 4,               /* blocks from the one in work to the one being fetched */
    STREAM_ROW_LIMIT = 131072       /* longest row that goes through a block, in bytes */
};
static const uint64_t STREAM_FROM = UINT64_C(12) << 20; /* result bytes */

static uint8_t type_bytes(const char *type) {
    static const struct {
        const char *name;
        uint8_t bytes;
    } types[] = {{"f32,", 4}, {"f64,", 8}, {"f16,", 2}, {"bf16,", 2}, {"i8,", 1},  {"u8,", 1},
                 {"i16,", 2}, {"u16,", 2}, {"i32,", 4}, {"u32,", 4},  {"i64,", 8}, {"u64,", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strncmp(type, types[i].name, strlen(types[i].name)) == 0) return types[i].bytes;
    }
    return 0;
}

/* Reads "(IN(f32,x), OUT(f32,y), VAL(i64,n))": the host has checked it, this needs sizes and the
 * output's place. */
static int parse_signature(cpu_kernel_object *kernel, const char *text) {
    const char *p = text;
    if (*p++ != '(') return -1;
    while (*p && *p != ')') {
        const char *open = strchr(p, '('), *close = open ? strchr(open, ')') : NULL;
        if (!close || kernel->arg_count == DHOW_MAX_KERNEL_ARGS) return -1;
        const int i = kernel->arg_count++;
        if (strncmp(p, "VAL", 3) != 0) {
            kernel->element_bytes[i] = type_bytes(open + 1);
            if (kernel->element_bytes[i] == 0) return -1;
            if (strncmp(p, "OUT", 3) == 0 || strncmp(p, "ALIAS_OUT", 9) == 0)
                kernel->outputs = (uint8_t)i;
        }
        p = close + 1;
        p += strspn(p, ", \n\t");
    }
    return *p == ')' ? 0 : -1;
}

int32_t cpu_kernel_init(cpu_kernel_object *kernel, const k_info *info, const char *unit,
                        dhow_error *err) {
    memset(kernel, 0, sizeof *kernel);
    kernel->info = info;
    if (parse_signature(kernel, info->sig) != 0) {
        return cpu_fail(err, DHOW_INTERNAL, 0, "kernel %s has a signature that makes no sense: %s",
                        info->name, info->sig);
    }
    const int strided = strstr(info->sig, "VAL(dims") != NULL;
    if (!unit || strided) return DHOW_OK;
    if (strcmp(unit, "unary") == 0 || strcmp(unit, "binary") == 0 || strcmp(unit, "cast") == 0 ||
        strcmp(unit, "scalar") == 0) {
        kernel->unit = CPU_UNIT_FLAT;
    } else if (strcmp(unit, "rows") == 0) {
        kernel->unit = CPU_UNIT_ROWS;
    } else if (strncmp(info->name, "conv2d", 6) == 0) {
        kernel->unit = CPU_UNIT_CONV;
    } else if (strcmp(unit, "matmul") == 0) {
        kernel->unit = CPU_UNIT_MATMUL;
    }
    return DHOW_OK;
}

int32_t cpu_builtin_kernel(void *handle, const char *name, uint32_t index_bits, void **out_kernel,
                           dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    int32_t status = DHOW_OK;
    (void)index_bits; /* 64 always serves */
    *out_kernel = NULL;
    const cpu_kernel *entry = dhow_cpu_kernel_entry(name);
    if (!entry) return cpu_fail(err, DHOW_NOT_FOUND, 0, "the CPU plugin brings no kernel %s", name);
    (void)pthread_mutex_lock(&device->lock);
    cpu_kernel_object *kernel = device->builtins;
    while (kernel && kernel->info != entry->isa[device->isa]) kernel = kernel->next;
    if (!kernel) {
        kernel = host->alloc(host->user, sizeof *kernel, 64);
        status = kernel ? cpu_kernel_init(kernel, entry->isa[device->isa], entry->unit, err)
                        : cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate kernel %s", name);
        if (status == DHOW_OK) {
            kernel->next = device->builtins;
            device->builtins = kernel;
        } else if (kernel) {
            host->free(host->user, kernel);
            kernel = NULL;
        }
    }
    (void)pthread_mutex_unlock(&device->lock);
    *out_kernel = kernel;
    return status;
}

void cpu_builtins_free(cpu_device *device) {
    const dhow_host *host = device->backend->host;
    while (device->builtins) {
        cpu_kernel_object *next = device->builtins->next;
        host->free(host->user, device->builtins);
        device->builtins = next;
    }
}

/* ---- launch
 * ------------------------------------------------------------------------------------------------------
 */

typedef struct call {
    const cpu_kernel_object *kernel;
    void *argv[DHOW_MAX_KERNEL_ARGS];
    void *pointers[DHOW_MAX_KERNEL_ARGS];
} call;

static int64_t value_at(const dhow_arg *args, int index) {
    int64_t value = 0;
    memcpy(&value, &args[index].u.value, sizeof value);
    return value;
}

static int is_small(const cpu_device *device, const cpu_kernel_object *kernel,
                    const dhow_geometry *geometry, const dhow_arg *args) {
    if (kernel->unit == CPU_UNIT_MATMUL) { /* a b bias c m n k batch */
        const double products = (double)value_at(args, 4) * (double)value_at(args, 5) *
                                (double)value_at(args, 6) * (double)value_at(args, 7);
        return products < ALONE_BELOW_PRODUCTS;
    }
    if (kernel->unit == CPU_UNIT_CONV) { /* x w bias y n c h w k kh kw oh ow groups */
        const double outputs = (double)value_at(args, 4) * (double)value_at(args, 8) *
                               (double)value_at(args, 11) * (double)value_at(args, 12);
        const double taps = (double)value_at(args, 5) / (double)value_at(args, 13) *
                            (double)value_at(args, 9) * (double)value_at(args, 10);
        return outputs * taps < ALONE_BELOW_PRODUCTS;
    }
    return geometry->work < ALONE_BELOW_AWAKE ||
           (geometry->work < ALONE_BELOW && !cpu_team_is_awake(&device->team));
}

/* The block begins half a page away from the input, modulo pages: a load that agrees with a recent
 * store in its last 12 bits waits for it, which doubles the time of a kernel that runs into it. */
static unsigned char *place_block(unsigned char *space, const void *input) {
    const uintptr_t gap = ((uintptr_t)input + 2048 - (uintptr_t)space) & 4095;
    return space + (gap & ~(uintptr_t)63);
}

/* Buffers may be NULL where the kernel does not look at them (no bias). */
static int output_is_apart(const cpu_kernel_object *kernel, const call *c) {
    for (int i = 0; i < kernel->arg_count; i++) {
        if (i != kernel->outputs && kernel->element_bytes[i] &&
            c->pointers[i] == c->pointers[kernel->outputs])
            return 0;
    }
    return 1;
}

/* Asks for a block to come. The processor's own prefetching ends at each page, and functions as
 * long as an exponential leave it no room to look ahead: without this they take twice the time. */
static void prefetch(const unsigned char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

static void run_flat_block(const call *whole, call *part, int64_t first, int64_t count) {
    const cpu_kernel_object *kernel = whole->kernel;
    const int y = kernel->outputs;
    for (int i = 0; i < y; i++) {
        const int64_t bytes = count * kernel->element_bytes[i];
        part->pointers[i] = (unsigned char *)whole->pointers[i] + first * kernel->element_bytes[i];
        prefetch((const unsigned char *)part->pointers[i] + STREAM_AHEAD * bytes,
                 bytes); /* harmless past the end */
    }
    kernel->info->run(0, 1, part->argv);
    cpu_stream_bytes((unsigned char *)whole->pointers[y] + first * kernel->element_bytes[y],
                     part->pointers[y], (size_t)(count * kernel->element_bytes[y]));
}

static void launch_flat_streamed(cpu_device *device, const call *c, int64_t n) {
    const int y = c->kernel->outputs;
    const int64_t block_elements = STREAM_BLOCK / c->kernel->element_bytes[y];
    const int64_t blocks = (n + block_elements - 1) / block_elements;
    const cpu_region region = cpu_region_begin(&device->team);
    int64_t worked = 0;
    cpu_shares shares;
    cpu_shares_init(&shares, blocks, region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        unsigned char block[STREAM_BLOCK] __attribute__((aligned(64)));
        call part = *c;
        int64_t count = block_elements;
        for (int i = 0; i <= y; i++) part.argv[i] = &part.pointers[i];
        part.pointers[y] = block;
        part.argv[y + 1] = &count;
        CPU_EACH_ITEM(shares, b) {
            const int64_t first = b * block_elements;
            count = n - first < block_elements ? n - first : block_elements;
            run_flat_block(c, &part, first, count);
        }
        cpu_stream_fence();
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
}

/* x [parameters...] y rows cols: one row at a time, x being the first argument. */
static void launch_rows_streamed(cpu_device *device, const call *c, int64_t rows, int64_t cols) {
    const int y = c->kernel->outputs;
    const int64_t in_bytes = cols * c->kernel->element_bytes[0],
                  out_bytes = cols * c->kernel->element_bytes[y];
    const cpu_region region = cpu_region_begin(&device->team);
    int64_t worked = 0;
    cpu_shares shares;
    cpu_shares_init(&shares, rows, region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        unsigned char space[STREAM_ROW_LIMIT + 4096] __attribute__((aligned(64)));
        call part = *c;
        int64_t one = 1;
        part.argv[0] = &part.pointers[0];
        part.argv[y] = &part.pointers[y];
        part.argv[y + 1] = &one;
        CPU_EACH_ITEM(shares, r) {
            part.pointers[0] = (unsigned char *)c->pointers[0] + r * in_bytes;
            part.pointers[y] = place_block(space, part.pointers[0]);
            c->kernel->info->run(0, 1, part.argv);
            cpu_stream_bytes((unsigned char *)c->pointers[y] + r * out_bytes, part.pointers[y],
                             (size_t)out_bytes);
        }
        cpu_stream_fence();
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
}

static void launch_chunks(cpu_device *device, const call *c) {
    const cpu_region region = cpu_region_begin(&device->team);
    const int64_t chunks = (int64_t)region.threads * CHUNKS_PER_THREAD;
    int64_t worked = 0;
    if (region.threads == 1) {
        c->kernel->info->run(0, 1, c->argv);
        cpu_region_end(&device->team, &region, 0);
        return;
    }
    cpu_shares shares;
    cpu_shares_init(&shares, chunks, region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        CPU_EACH_ITEM(shares, i) { c->kernel->info->run(i, chunks, c->argv); }
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
}

static void launch_large(cpu_device *device, const call *c, const dhow_arg *args) {
    const cpu_kernel_object *kernel = c->kernel;
    const int y = kernel->outputs;
    const int64_t out_bytes = kernel->element_bytes[y];
    if (kernel->unit == CPU_UNIT_FLAT) {
        const int64_t n = value_at(args, y + 1);
        if ((uint64_t)(n * out_bytes) >= STREAM_FROM && output_is_apart(kernel, c)) {
            launch_flat_streamed(device, c, n);
            return;
        }
    } else if (kernel->unit == CPU_UNIT_ROWS) {
        const int64_t rows = value_at(args, y + 1), cols = value_at(args, y + 2);
        if ((uint64_t)(rows * cols * out_bytes) >= STREAM_FROM && cols >= 256 &&
            cols * out_bytes <= STREAM_ROW_LIMIT) {
            launch_rows_streamed(device, c, rows, cols);
            return;
        }
    }
    launch_chunks(device, c);
}

int32_t cpu_launch(void *stream, void *handle, const dhow_geometry *geometry, const dhow_arg *args,
                   uint32_t arg_count, dhow_error *err) {
    cpu_device *device = ((cpu_stream *)stream)->device;
    const cpu_kernel_object *kernel = handle;
    call c;
    if (geometry->native)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "the CPU runs portable kernels only");
    if (arg_count != kernel->arg_count) {
        return cpu_fail(err, DHOW_INVALID_ARGUMENT, 0, "kernel %s takes %u arguments, given %u",
                        kernel->info->name, kernel->arg_count, arg_count);
    }
    c.kernel = kernel;
    for (uint32_t i = 0; i < arg_count; i++) {
        union {
            const void *from;
            void *to;
        } at; /* argv is not written through */
        switch (args[i].kind) {
            case DHOW_ARG_BUFFER:
                c.pointers[i] =
                    (void *)(uintptr_t)(args[i].u.buffer.handle + args[i].u.buffer.offset);
                c.argv[i] = &c.pointers[i];
                break;
            case DHOW_ARG_VALUE:
                at.from = &args[i].u.value;
                c.argv[i] = at.to;
                break;
            default:
                at.from = args[i].u.dims;
                c.argv[i] = at.to;
                break;
        }
    }
    if (is_small(device, kernel, geometry, args)) {
        kernel->info->run(0, 1, c.argv);
    } else {
        launch_large(device, &c, args);
    }
    return DHOW_OK;
}
