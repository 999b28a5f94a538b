/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting along an axis: elements as unsigned keys, short runs sorted by counting and merged two by
 * two, then what is wanted of them taken. A merge sort, for it is stable and finds its parts by
 * itself on any number of threads.
 */
#include "base/memory/size.h"
#include "ops/run/rows.h"

/* As kernels/sort.k and tiles.k have it: of GPUs, large tiles where few of their keys are looked at
 * closely. */
enum { SHORT = 32, TILE = 1024, FEW = 104, TILE_OF_FEW = 4096, TILE_OF_HOST = 1 << 16 };

/* Rows of keys and their places, from which the next pass goes to the other ones. */
typedef struct sorting {
    const dhowi_call *call;
    dhow_dtype dtype; /* of the keys */
    dhow_tensor *key[2], *place[2];
    int64_t rows, n;
} sorting;

static void add_buffer(dhow_arg *args, dhowi_use *uses, uint32_t i, dhow_tensor *t,
                       uint32_t access) {
    args[i] = dhowi_arg_buffer(t, access);
    uses[i] = dhowi_use_of(t, access);
}

static dhow_status make_keys(const sorting *s) {
    const dhowi_axis_split *r = &s->call->attrs->split;
    dhow_tensor *x = s->call->in[0];
    dhow_arg args[6];
    dhowi_use uses[2];
    dhow_kernel *kernel;
    const dhow_dtype dtype = x->dtype == DHOW_BOOL ? DHOW_U8 : x->dtype;
    DHOWI_TRY(dhowi_kernel_of(s->call->stream->device, "sort_keys", dtype, &kernel));
    add_buffer(args, uses, 0, x, DHOW_ACCESS_READ);
    add_buffer(args, uses, 1, s->key[0], DHOW_ACCESS_WRITE);
    args[2] = dhowi_arg_i64(r->outer);
    args[3] = dhowi_arg_i64(r->n);
    args[4] = dhowi_arg_i64(r->inner);
    args[5] = dhowi_arg_i32(r->flag[0]);
    return dhowi_launch(s->call->stream, kernel, x->count, x->count, args, 6, uses, 2);
}

static dhow_status sort_runs(const sorting *s) {
    dhow_arg args[5];
    dhowi_use uses[3];
    dhow_kernel *kernel;
    const int64_t count = s->rows * s->n;
    DHOWI_TRY(dhowi_kernel_of(s->call->stream->device, "sort_runs", s->dtype, &kernel));
    add_buffer(args, uses, 0, s->key[0], DHOW_ACCESS_READ);
    add_buffer(args, uses, 1, s->key[1], DHOW_ACCESS_WRITE);
    add_buffer(args, uses, 2, s->place[1], DHOW_ACCESS_WRITE);
    args[3] = dhowi_arg_i64(s->rows);
    args[4] = dhowi_arg_i64(s->n);
    return dhowi_launch(s->call->stream, kernel, count * SHORT / 4, count, args, 5, uses, 3);
}

/* From keys and places `from` to the others. */
static dhow_status merge_runs(const sorting *s, int from, int64_t run) {
    dhow_arg args[7];
    dhowi_use uses[4];
    dhow_kernel *kernel;
    const int64_t count = s->rows * s->n;
    DHOWI_TRY(dhowi_kernel_of(s->call->stream->device, "sort_merge", s->dtype, &kernel));
    add_buffer(args, uses, 0, s->key[from], DHOW_ACCESS_READ);
    add_buffer(args, uses, 1, s->place[from], DHOW_ACCESS_READ);
    add_buffer(args, uses, 2, s->key[1 - from], DHOW_ACCESS_WRITE);
    add_buffer(args, uses, 3, s->place[1 - from], DHOW_ACCESS_WRITE);
    args[4] = dhowi_arg_i64(s->rows);
    args[5] = dhowi_arg_i64(s->n);
    args[6] = dhowi_arg_i64(run);
    return dhowi_launch(s->call->stream, kernel, count * 4, count, args, 7, uses, 4);
}

static int64_t tile_of(const sorting *s) {
    if (dhowi_device_is_host(s->call->stream->device)) return TILE_OF_HOST;
    return s->call->attrs->split.count <= FEW ? TILE_OF_FEW : TILE;
}

/* The first of tiles, `size` keys of a row in all, then the first of those, as long as there is
 * more than one tile. */
static dhow_status find_first(const sorting *s, int *from) {
    const int64_t count = s->call->attrs->split.count, tile = tile_of(s);
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_kernel_of(s->call->stream->device, "sort_best", s->dtype, &kernel));
    *from = 0;
    for (int64_t size = s->n, tiles = 2, pass = 0; tiles > 1; pass++) {
        dhow_arg args[10];
        dhowi_use uses[4];
        const int64_t extents[] = {s->rows, s->n, size, count, tile};
        add_buffer(args, uses, 0, s->key[*from], DHOW_ACCESS_READ);
        add_buffer(args, uses, 1, s->place[*from], DHOW_ACCESS_READ);
        add_buffer(args, uses, 2, s->key[1 - *from], DHOW_ACCESS_WRITE);
        add_buffer(args, uses, 3, s->place[1 - *from], DHOW_ACCESS_WRITE);
        for (int i = 0; i < 5; i++) args[4 + i] = dhowi_arg_i64(extents[i]);
        args[9] = dhowi_arg_i32(pass > 0);
        DHOWI_TRY(dhowi_launch(s->call->stream, kernel, s->rows * size, s->rows * s->n, args, 10,
                               uses, 4));
        tiles = dhowi_ceil_div(size, tile);
        size = (tiles - 1) * count + DHOWI_MIN(count, size - (tiles - 1) * tile);
        *from = 1 - *from;
    }
    return DHOW_OK;
}

/* Whether a few passes over tiles do: on GPUs, of which a merge of short runs has many, and on the
 * CPU, which keeps a heap of the first ones, where most keys are none of them. */
static bool takes_tiles(const sorting *s) {
    const dhow_device *device = s->call->stream->device;
    const int64_t count = s->call->attrs->split.count, tile = tile_of(s);
    if (dhowi_device_is_host(device)) return count <= DHOWI_MIN(s->n, tile) / 4;
    return dhowi_splits_rows(device) && (s->n <= tile || count <= tile / 4);
}

static dhow_status take(const sorting *s, int from) {
    static const dhow_dtype words[] = {
        [1] = DHOW_U8, [2] = DHOW_U16, [4] = DHOW_U32, [8] = DHOW_U64};
    const dhowi_call *call = s->call;
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_arg args[8];
    dhowi_use uses[4];
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "sort_take",
                              words[dhowi_tensor_element_bytes(call->out)], &kernel));
    add_buffer(args, uses, 0, call->in[0], DHOW_ACCESS_READ);
    add_buffer(args, uses, 1, s->place[from], DHOW_ACCESS_READ);
    add_buffer(args, uses, 2, call->out, DHOW_ACCESS_WRITE);
    add_buffer(args, uses, 3, call->second, DHOW_ACCESS_WRITE);
    args[4] = dhowi_arg_i64(r->outer);
    args[5] = dhowi_arg_i64(r->n);
    args[6] = dhowi_arg_i64(r->inner);
    args[7] = dhowi_arg_i64(r->count);
    return dhowi_launch(call->stream, kernel, call->out->count, call->in[0]->count, args, 8, uses,
                        4);
}

static dhow_status run_sorting(sorting *s) {
    const int64_t shape[] = {s->rows, s->n};
    int from = 1;
    for (int i = 0; i < 2; i++) {
        DHOWI_TRY(dhowi_tensor_new(s->call->stream->device, s->dtype, 2, shape, &s->key[i]));
        DHOWI_TRY(dhowi_tensor_new(s->call->stream->device, DHOW_U32, 2, shape, &s->place[i]));
    }
    DHOWI_TRY(make_keys(s));
    if (takes_tiles(s)) {
        DHOWI_TRY(find_first(s, &from));
        return take(s, from);
    }
    DHOWI_TRY(sort_runs(s));
    for (int64_t run = SHORT; run < s->n; run *= 2, from = 1 - from)
        DHOWI_TRY(merge_runs(s, from, run));
    return take(s, from);
}

dhow_status dhowi_run_topk(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const bool wide = dhowi_tensor_element_bytes(call->out) == 8;
    sorting s = {call, wide ? DHOW_U64 : DHOW_U32, {NULL}, {NULL}, r->outer * r->inner, r->n};
    if (r->n > INT32_MAX)
        return dhowi_fail(DHOW_UNSUPPORTED, "topk: rows of %lld elements; it takes 2^31 - 1",
                          (long long)r->n);
    if (call->out->count == 0) return DHOW_OK;
    const dhow_status status = run_sorting(&s);
    for (int i = 0; i < 2; i++) {
        dhow_tensor_release(s.key[i]);
        dhow_tensor_release(s.place[i]);
    }
    return status;
}
