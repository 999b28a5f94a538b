/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMulNBits and GatherBlockQuantized: products with weights of 4 or 8 bits, which stay packed on
 * the device, and rows of such tables.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/composite.h"
#include "model/operators/microsoft/microsoft.h"

enum { A, WEIGHT, SCALES, ZEROS, G_IDX, BIAS };
enum { LEAST_BLOCK = 16, MOST_BLOCK = 2048 }; /* kernels/nbits.k has room for these */

/* Up to so many rows are multiplied as the weights are unpacked, by processors more of f32; others
 * by a product of the weights written down, which takes as long as unpacking them for so many rows.
 * Never more than so many bytes are written down at once. */
enum { FEW_ROWS = 16, FEW_ROWS_OF_HOST = 256 };
static const int64_t k_most_unpacked_bytes = INT64_C(256) << 20;

typedef struct weights {
    int64_t n, k, bits, block, blocks;
    int32_t shift; /* log2(block) */
    int32_t item, scales, packed_zeros, zeros, bias;
    bool rounds; /* the model allows rows of bytes in place of A's: accuracy_level is 4 */
} weights;

dhow_status dhowi_ms_check_bits(int64_t bits) {
    if (bits == 4 || bits == 8) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "unsupported bits %" PRId64 ": dhow has 4 and 8", bits);
}

/* A whole number of bytes for a row of zero points. */
static int64_t zero_bytes(const weights *w) { return dhowi_ceil_div(w->blocks * w->bits, 8); }

static dhow_status read_attributes(const dhowi_lowering *b, weights *w) {
    w->n = dhowi_attr_int(b, "N", 0);
    w->k = dhowi_attr_int(b, "K", 0);
    w->bits = dhowi_attr_int(b, "bits", 4);
    w->block = dhowi_attr_int(b, "block_size", 0);
    w->rounds =
        dhowi_attr_int(b, "accuracy_level", 0) == 4 && dhowi_optimises(DHOWI_OPTIMISE_INTEGERS);
    if (w->n < 1 || w->k < 1 || w->n > INT32_MAX || w->k > INT32_MAX)
        DHOWI_REFUSE("N is %" PRId64 " and K is %" PRId64 ": both must be from 1 to %d", w->n, w->k,
                     INT32_MAX);
    DHOWI_TRY(dhowi_ms_check_bits(w->bits));
    if (w->block < LEAST_BLOCK || w->block > MOST_BLOCK || (w->block & (w->block - 1)) != 0)
        DHOWI_REFUSE("block_size is %" PRId64 ": it must be a power of two from %d to %d", w->block,
                     LEAST_BLOCK, MOST_BLOCK);
    if (dhowi_attr_int(b, "weight_prepacked", 0) != 0)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "unsupported weight_prepacked: export the model without packing weights "
                          "for one kind of GPU");
    while (INT64_C(1) << w->shift < w->block) w->shift++;
    w->blocks = w->k / w->block + (w->k % w->block != 0);
    return DHOW_OK;
}

/* An input with `each` elements for each of the N columns, in whatever dimensions: as [N, each]. */
static dhow_status columns_of(dhowi_lowering *b, const weights *w, uint32_t input, const char *name,
                              int64_t each, int32_t *out) {
    const int64_t shape[] = {w->n, each};
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[input]);
    char s[160];
    int64_t count;
    if (!dhowi_mul_i64(w->n, each, &count) || dhowi_count_of(&x) != count)
        DHOWI_REFUSE("%s is %s: N = %" PRId64 " columns of K = %" PRId64 " in blocks of %" PRId64
                     " want %" PRId64 " elements for each column",
                     name, dhowi_desc_text(&x, s, sizeof s), w->n, w->k, w->block, each);
    return dhowi_reshape(b, b->in[input], 2, shape, out);
}

/* Only groups of neighbours, as the blocks are. */
static dhow_status check_groups(dhowi_lowering *b, const weights *w) {
    if (!dhowi_given(b, G_IDX)) return DHOW_OK;
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[G_IDX]));
    bool same = dhowi_is_known(b, b->in[G_IDX]) && count >= w->k && count <= w->blocks * w->block;
    for (int64_t at = 0; same && at < count;) {
        int64_t group[64];
        uint32_t got;
        int32_t part;
        const int64_t flat = count, some = DHOWI_MIN(count - at, (int64_t)DHOWI_COUNT(group));
        DHOWI_TRY(dhowi_reshape(b, b->in[G_IDX], 1, &flat, &part));
        DHOWI_TRY(dhowi_narrow(b, part, 0, at, some, 1, &part));
        DHOWI_TRY(dhowi_ints(b, part, group, DHOWI_COUNT(group), &got));
        for (uint32_t i = 0; i < got && same; i++) same = group[i] == (at + i) / w->block;
        at += some;
    }
    if (same) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "unsupported g_idx, which puts K in another order than blocks of "
                      "neighbours: export the model without reordering (desc_act=False)");
}

static dhow_status read_weights(dhowi_lowering *b, dhow_dtype dtype, weights *w) {
    const dhow_dtype packed = dhowi_desc_at(b, b->in[WEIGHT])->dtype;
    char s[160];
    if (packed != DHOW_U8) DHOWI_REFUSE("B is %s, packed weights are u8", dhow_dtype_name(packed));
    DHOWI_TRY(columns_of(b, w, WEIGHT, "B", w->blocks * (w->block * w->bits / 8), &w->item));
    DHOWI_TRY(columns_of(b, w, SCALES, "scales", w->blocks, &w->scales));
    if (!dhowi_is_float(dhowi_desc_at(b, w->scales)->dtype))
        DHOWI_REFUSE("scales is %s: it must be of the type of A",
                     dhow_dtype_name(dhowi_desc_at(b, w->scales)->dtype));
    DHOWI_TRY(dhowi_cast_to(b, w->scales, dtype, &w->scales));
    w->packed_zeros = w->zeros = w->bias = -1;
    if (dhowi_given(b, ZEROS)) {
        const bool plain = dhowi_desc_at(b, b->in[ZEROS])->dtype != DHOW_U8;
        int32_t zeros;
        DHOWI_TRY(
            columns_of(b, w, ZEROS, "zero_points", plain ? w->blocks : zero_bytes(w), &zeros));
        if (plain) DHOWI_TRY(dhowi_cast_to(b, zeros, dtype, &w->zeros));
        if (!plain) w->packed_zeros = zeros;
    }
    if (!dhowi_given(b, BIAS)) return DHOW_OK;
    const dhowi_tensor_desc bias = *dhowi_desc_at(b, b->in[BIAS]);
    if (bias.rank != 1 || bias.shape[0] != w->n)
        DHOWI_REFUSE("bias is %s for N = %" PRId64, dhowi_desc_text(&bias, s, sizeof s), w->n);
    return dhowi_cast_to(b, b->in[BIAS], dtype, &w->bias);
}

/* The columns from `first` on. */
static dhow_status narrowed(dhowi_lowering *b, const weights *w, int64_t first, int64_t count,
                            weights *out) {
    int32_t *items[] = {&out->item, &out->scales, &out->packed_zeros, &out->zeros, &out->bias};
    *out = *w;
    out->n = count;
    for (size_t i = 0; i < DHOWI_COUNT(items); i++)
        if (*items[i] >= 0 && count < w->n)
            DHOWI_TRY(dhowi_narrow(b, *items[i], 0, first, count, 1, items[i]));
    return DHOW_OK;
}

static dhow_status multiply(dhowi_lowering *b, int32_t x, const weights *w, bool unpacked,
                            int32_t *out) {
    const int32_t in[] = {x, w->item, w->scales, w->packed_zeros, w->zeros, w->bias};
    const dhowi_attrs attrs = {.split = {.n = w->n,
                                         .inner = w->k,
                                         .count = w->blocks,
                                         .stride = w->shift,
                                         .taps = w->bits,
                                         .flag = {w->rounds && !unpacked}}};
    dhowi_tensor_desc y = *dhowi_desc_at(b, x);
    const dhowi_tensor_desc written = {.dtype = y.dtype, .rank = 2, .shape = {w->n, w->k}};
    y.shape[y.rank - 1] = w->n;
    return dhowi_emit_two(b, DHOWI_OP_matmul_nbits, in, DHOWI_COUNT(in), &attrs, &y,
                          unpacked ? &written : NULL, out, NULL);
}

/* Many rows: a part of the columns after the other, so that little is written down at once. */
static dhow_status multiply_parts(dhowi_lowering *b, int32_t x, const weights *w, int32_t *out) {
    const dhowi_tensor_desc a = *dhowi_desc_at(b, x);
    const int64_t row_bytes = w->k * (int64_t)dhow_dtype_bytes(a.dtype);
    int64_t each = DHOWI_MAX(k_most_unpacked_bytes / row_bytes, (int64_t)1);
    int32_t parts[DHOWI_MAX_OUTPUTS_OF_NODE];
    uint32_t count = 0;
    each = DHOWI_MAX(each, dhowi_ceil_div(w->n, (int64_t)DHOWI_COUNT(parts)));
    for (int64_t first = 0; first < w->n; first += each) {
        weights part;
        DHOWI_TRY(narrowed(b, w, first, DHOWI_MIN(each, w->n - first), &part));
        DHOWI_TRY(multiply(b, x, &part, true, &parts[count++]));
    }
    *out = parts[0];
    return count == 1 ? DHOW_OK : dhowi_concat(b, parts, count, a.rank - 1, out);
}

dhow_status dhowi_lower_ms_matmul_nbits(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[A]);
    const dhow_dtype scales = dhowi_desc_at(b, b->in[SCALES])->dtype;
    const dhow_dtype dtype = scales == own.dtype ? own.dtype : DHOW_F32;
    weights w = {0};
    char s[160];
    int32_t x;
    DHOWI_TRY(read_attributes(b, &w));
    if (!dhowi_is_float(own.dtype) || own.dtype == DHOW_F64 || own.rank < 1 ||
        own.shape[own.rank - 1] != w.k)
        DHOWI_REFUSE("A is %s: it must be of f32, f16 or bf16, and its last dimension K = %" PRId64,
                     dhowi_desc_text(&own, s, sizeof s), w.k);
    DHOWI_TRY(check_groups(b, &w));
    DHOWI_TRY(read_weights(b, dtype, &w));
    DHOWI_TRY(dhowi_cast_to(b, b->in[A], dtype, &x));
    const bool many_at_once = dtype == DHOW_F32 && dhowi_device_is_host(b->device);
    if (dhowi_count_of(&own) / w.k <= (many_at_once ? FEW_ROWS_OF_HOST : FEW_ROWS))
        DHOWI_TRY(multiply(b, x, &w, false, &b->out[0]));
    else
        DHOWI_TRY(multiply_parts(b, x, &w, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], own.dtype, &b->out[0]);
}

/* ---- GatherBlockQuantized ---- */

enum { DATA, INDICES, ROW_SCALES, ROW_ZEROS };

typedef struct quantised_table {
    int64_t bits, block, columns; /* columns: numbers of a row */
    int32_t gathered, quantised;  /* axes */
    bool packed;                  /* two codes in a byte */
} quantised_table;

static dhow_status read_table(const dhowi_lowering *b, quantised_table *t) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[DATA]),
                            scales = *dhowi_desc_at(b, b->in[ROW_SCALES]);
    double low, high;
    char s[160], u[160];
    t->bits = dhowi_attr_int(b, "bits", 4);
    t->block = dhowi_attr_int(b, "block_size", 128);
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "gather_axis", 0), &t->gathered));
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "quantize_axis", 1), &t->quantised));
    DHOWI_TRY(dhowi_ms_check_bits(t->bits));
    if (t->block < LEAST_BLOCK || (t->block & (t->block - 1)) != 0)
        DHOWI_REFUSE("block_size is %" PRId64 ": it must be a power of two from %d on", t->block,
                     LEAST_BLOCK);
    if (x.encoding == 0 ? x.dtype != DHOW_U8 : !dhowi_integer_range(x.encoding, &low, &high))
        DHOWI_REFUSE("data is %s: it must be u8, int4 or uint4", dhow_dtype_name(x.dtype));
    if (t->quantised != x.rank - 1 || t->gathered == t->quantised)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "quantize_axis %d and gather_axis %d of %d: dhow has blocks along the "
                          "last axis, and gathers along another one",
                          t->quantised, t->gathered, x.rank);
    t->packed = t->bits == 4 && x.encoding == 0;
    t->columns = x.shape[x.rank - 1] * (t->packed ? 2 : 1);
    dhowi_tensor_desc want = x;
    int64_t *blocks = &want.shape[x.rank - 1];
    *blocks = dhowi_ceil_div(t->columns, t->block);
    if (!dhowi_shape_equal(scales.rank, scales.shape, want.rank, want.shape) ||
        !dhowi_is_float(scales.dtype))
        DHOWI_REFUSE("scales is %s for data %s in blocks of %" PRId64,
                     dhowi_desc_text(&scales, s, sizeof s), dhowi_desc_text(&x, u, sizeof u),
                     t->block);
    if (!dhowi_given(b, ROW_ZEROS)) return DHOW_OK;
    const dhowi_tensor_desc zeros = *dhowi_desc_at(b, b->in[ROW_ZEROS]);
    if (t->packed) *blocks = dhowi_ceil_div(*blocks, (int64_t)2);
    if (!dhowi_shape_equal(zeros.rank, zeros.shape, want.rank, want.shape) ||
        zeros.dtype != x.dtype || zeros.encoding != x.encoding)
        DHOWI_REFUSE("zero_points is %s for data %s in blocks of %" PRId64,
                     dhowi_desc_text(&zeros, s, sizeof s), dhowi_desc_text(&x, u, sizeof u),
                     t->block);
    return DHOW_OK;
}

dhow_status dhowi_ms_unpack(dhowi_lowering *b, int32_t x, bool packed, int64_t count,
                            int32_t *out) {
    int32_t halves[2], whole;
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, out));
    if (!packed) return DHOW_OK;
    dhowi_tensor_desc pairs = *dhowi_desc_at(b, *out);
    const int32_t rank = pairs.rank;
    if (rank == DHOW_MAX_RANK) DHOWI_REFUSE("rows of %d dimensions", rank);
    pairs.shape[rank] = 1;
    DHOWI_TRY(dhowi_reshape(b, *out, rank + 1, pairs.shape, &whole));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, whole, 1.0 / 16, &halves[1]));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_FLOOR, 0, 0, halves[1], &halves[1]));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, halves[1], 16, &halves[0]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, whole, halves[0], &halves[0]));
    DHOWI_TRY(dhowi_concat(b, halves, 2, rank, out));
    pairs.shape[rank - 1] *= 2;
    DHOWI_TRY(dhowi_reshape(b, *out, rank, pairs.shape, out));
    return dhowi_narrow(b, *out, rank - 1, 0, count, 1, out);
}

/* What each block of a row has, for each of its columns. */
static dhow_status for_columns(dhowi_lowering *b, const quantised_table *t, int32_t x,
                               int32_t *out) {
    const dhowi_tensor_desc places = {.dtype = DHOW_I64, .rank = 1, .shape = {t->columns}};
    int32_t index;
    void *data;
    DHOWI_TRY(dhowi_item_known(b, &places, &index));
    DHOWI_TRY(dhowi_known_data(b, index, &data));
    for (int64_t i = 0; i < t->columns; i++) ((int64_t *)data)[i] = i / t->block;
    return dhowi_gather_along(b, x, dhowi_desc_at(b, x)->rank - 1, index, out);
}

static dhow_status zeros_of(dhowi_lowering *b, const quantised_table *t, int64_t blocks,
                            int32_t *out) {
    const dhowi_tensor_desc one = {.dtype = DHOW_F32};
    const bool plain = dhowi_desc_at(b, b->in[DATA])->encoding == 0;
    if (!dhowi_given(b, ROW_ZEROS))
        return dhowi_filled(b, &one, plain ? (double)(1 << (t->bits - 1)) : 0, out);
    DHOWI_TRY(dhowi_gather_along(b, b->in[ROW_ZEROS], t->gathered, b->in[INDICES], out));
    DHOWI_TRY(dhowi_ms_unpack(b, *out, t->packed, blocks, out));
    return for_columns(b, t, *out, out);
}

/* scale (code - zero) of the rows that the indices name. */
dhow_status dhowi_lower_ms_gather_nbits(dhowi_lowering *b) {
    quantised_table t = {0};
    int32_t x, scales, zeros;
    DHOWI_TRY(read_table(b, &t));
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[ROW_SCALES])->dtype;
    DHOWI_TRY(dhowi_gather_along(b, b->in[DATA], t.gathered, b->in[INDICES], &x));
    DHOWI_TRY(dhowi_ms_unpack(b, x, t.packed, t.columns, &x));
    DHOWI_TRY(dhowi_gather_along(b, b->in[ROW_SCALES], t.gathered, b->in[INDICES], &scales));
    DHOWI_TRY(zeros_of(b, &t, dhowi_ceil_div(t.columns, t.block), &zeros));
    DHOWI_TRY(for_columns(b, &t, scales, &scales));
    DHOWI_TRY(dhowi_cast_to(b, scales, DHOW_F32, &scales));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, zeros, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, scales, &x));
    return dhowi_cast_to(b, x, dtype, &b->out[0]);
}
