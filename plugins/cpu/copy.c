/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills in host memory. What exceeds the caches is split over the threads and written
 * with non-temporal stores, which spare the read that an ordinary store begins with.
 */
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu.h"
#include "shares.h"

enum {
    LINE = 4096,                  /* bytes of a part at least, and a multiple of it */
    STREAM_FROM = 4 << 20,        /* and so much is worth the threads that it wakes */
    SHARED_FROM_AWAKE = 64 << 10, /* of threads that wait: what they wrote lies in their caches */
};

static cpu_region begin(cpu_device *device, uint64_t bytes) {
    return bytes >= STREAM_FROM || (bytes >= SHARED_FROM_AWAKE && cpu_team_is_awake(&device->team))
               ? cpu_region_begin(&device->team)
               : (cpu_region){.threads = 1};
}

#if defined(__x86_64__)
__attribute__((target("avx"))) static void stream_lines(unsigned char *to,
                                                        const unsigned char *from, size_t lines) {
    for (size_t i = 0; i < lines; i++) {
        const void *source = from + 64 * i;
        void *target = to + 64 * i;
        const __m256i low = _mm256_loadu_si256((const __m256i *)source);
        const __m256i high = _mm256_loadu_si256((const __m256i *)source + 1);
        _mm256_stream_si256((__m256i *)target, low);
        _mm256_stream_si256((__m256i *)target + 1, high);
    }
}

void cpu_stream_bytes(void *to, const void *from, size_t bytes) {
    unsigned char *target = to;
    const unsigned char *source = from;
    const size_t head = (64 - ((uintptr_t)to & 63)) & 63;
    if (!__builtin_cpu_supports("avx") || bytes < head + 64) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(target, source, head);
    const size_t lines = (bytes - head) / 64, done = head + 64 * lines;
    stream_lines(target + head, source + head, lines);
    memcpy(target + done, source + done, bytes - done);
}

void cpu_stream_fence(void) { _mm_sfence(); }
#else
void cpu_stream_bytes(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

void cpu_stream_fence(void) {}
#endif

static void copy_flat(cpu_device *device, unsigned char *to, const unsigned char *from,
                      uint64_t bytes) {
    const cpu_region region = begin(device, bytes);
    const int streams = bytes >= STREAM_FROM;
    if (region.threads == 1 && !streams) {
        memcpy(to, from, bytes);
        cpu_region_end(&device->team, &region, 0);
        return;
    }
    int64_t worked = 0;
    cpu_shares shares;
    cpu_shares_init(&shares, (int64_t)((bytes + LINE - 1) / LINE), region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        for (cpu_turn turn = cpu_turn_here(&shares); cpu_next_part(&shares, &turn);) {
            const uint64_t at = (uint64_t)turn.first * LINE, end = (uint64_t)turn.end * LINE,
                           count = (end < bytes ? end : bytes) - at;
            if (streams)
                cpu_stream_bytes(to + at, from + at, count);
            else
                memcpy(to + at, from + at, count);
        }
        if (streams) cpu_stream_fence();
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
}

static void copy_rows(cpu_device *device, unsigned char *to, const unsigned char *from,
                      const dhow_copy_rect *rect) {
    const uint64_t width = rect->extent[0];
    const int64_t height = (int64_t)rect->extent[1], rows = height * (int64_t)rect->extent[2];
    const cpu_region region = begin(device, width * (uint64_t)rows);
    int64_t worked = 0;
    cpu_shares shares;
    cpu_shares_init(&shares, rows, region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        CPU_EACH_ITEM(shares, r) {
            const uint64_t row = (uint64_t)(r % height), plane = (uint64_t)(r / height);
            memcpy(to + row * rect->dst.pitch[0] + plane * rect->dst.pitch[1],
                   from + row * rect->src.pitch[0] + plane * rect->src.pitch[1], width);
        }
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
}

int32_t cpu_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err) {
    cpu_device *device = ((cpu_stream *)stream)->device;
    unsigned char *to = (unsigned char *)(uintptr_t)(rect->dst.handle + rect->dst.offset);
    const unsigned char *from =
        (const unsigned char *)(uintptr_t)(rect->src.handle + rect->src.offset);
    const uint64_t *e = rect->extent;
    (void)err;
    if (e[0] == 0 || e[1] == 0 || e[2] == 0) return DHOW_OK;
    const int rows_touch = e[1] == 1 || (rect->src.pitch[0] == e[0] && rect->dst.pitch[0] == e[0]);
    const int planes_touch =
        e[2] == 1 || (rect->src.pitch[1] == e[0] * e[1] && rect->dst.pitch[1] == e[0] * e[1]);
    if (rows_touch && planes_touch) {
        copy_flat(device, to, from, e[0] * e[1] * e[2]);
    } else {
        copy_rows(device, to, from, rect);
    }
    return DHOW_OK;
}

/* Fills by doubling: the pattern first, then what stands there already. */
static void fill_piece(unsigned char *to, uint64_t bytes, uint64_t pattern,
                       uint32_t pattern_bytes) {
    if (bytes == 0) return;
    uint64_t done = pattern_bytes < bytes ? pattern_bytes : bytes;
    memcpy(to, &pattern, done);
    while (done < bytes) {
        const uint64_t limit = done < 65536 ? done : 65536 / pattern_bytes * pattern_bytes;
        const uint64_t next = bytes - done < limit ? bytes - done : limit;
        memcpy(to + done, to, next);
        done += next;
    }
}

int32_t cpu_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes, dhow_error *err) {
    cpu_device *device = ((cpu_stream *)stream)->device;
    unsigned char *to = (unsigned char *)(uintptr_t)(handle + offset);
    const cpu_region region = begin(device, bytes);
    (void)err;
    if (region.threads == 1) {
        fill_piece(to, bytes, pattern, pattern_bytes);
        cpu_region_end(&device->team, &region, 0);
        return DHOW_OK;
    }
    int64_t worked = 0;
    cpu_shares shares;
    cpu_shares_init(&shares, (int64_t)((bytes + LINE - 1) / LINE), region.threads);
#pragma omp parallel num_threads(region.threads)
    {
        for (cpu_turn turn = cpu_turn_here(&shares); cpu_next_part(&shares, &turn);) {
            const uint64_t at = (uint64_t)turn.first * LINE, end = (uint64_t)turn.end * LINE;
            fill_piece(to + at, (end < bytes ? end : bytes) - at, pattern, pattern_bytes);
        }
#pragma omp master
        worked = cpu_now() - region.start;
    }
    cpu_region_end(&device->team, &region, worked);
    return DHOW_OK;
}

int32_t cpu_can_copy(void *dst_device, void *src_device, dhow_error *err) {
    (void)dst_device, (void)src_device, (void)err;
    return DHOW_OK;
}

int32_t cpu_peer_copy(void *stream, void *src_device, uint64_t src_handle, uint64_t src_offset,
                      uint64_t dst_handle, uint64_t dst_offset, uint64_t bytes, dhow_error *err) {
    (void)src_device, (void)err;
    copy_flat(((cpu_stream *)stream)->device, (unsigned char *)(uintptr_t)(dst_handle + dst_offset),
              (const unsigned char *)(uintptr_t)(src_handle + src_offset), bytes);
    return DHOW_OK;
}
