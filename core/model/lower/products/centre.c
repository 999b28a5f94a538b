/* SPDX-License-Identifier: Apache-2.0
 *
 * Known codes as weights of sums of integers: i8 less zero points, and what is left over.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/composite.h"
#include "model/lower/products/products.h"

dhow_status dhowi_known_bytes(dhowi_lowering *b, int32_t item, const void **out) {
    void *data = NULL;
    DHOWI_TRY(dhowi_dense(b, item, &item));
    if (dhowi_is_known(b, item)) DHOWI_TRY(dhowi_known_data(b, item, &data));
    *out = data;
    return DHOW_OK;
}

static int32_t byte_at(dhow_dtype dtype, const void *bytes, int64_t i) {
    return dtype == DHOW_I8 ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* Known codes and their zero points in the host's memory. */
typedef struct known_codes {
    dhow_dtype dtype;
    const void *codes, *zeros;
    int64_t zero_count;
} known_codes;

/* *there is false where that is too much for the host. */
static dhow_status read_codes(dhowi_lowering *b, int32_t codes, int32_t zero, known_codes *out,
                              bool *there) {
    *out = (known_codes){.dtype = dhowi_desc_at(b, codes)->dtype};
    DHOWI_TRY(dhowi_known_bytes(b, codes, &out->codes));
    if (zero >= 0) {
        out->zero_count = dhowi_count_of(dhowi_desc_at(b, zero));
        DHOWI_TRY(dhowi_known_bytes(b, zero, &out->zeros));
    }
    *there = out->codes != NULL && (zero < 0 || out->zeros != NULL);
    return DHOW_OK;
}

static int32_t zero_of(const known_codes *k, int64_t result) {
    return k->zeros == NULL ? 0 : byte_at(k->dtype, k->zeros, k->zero_count == 1 ? 0 : result);
}

/* What is taken off codes in place of a zero point that would leave them too large for i8. */
static int32_t middle_of(const known_codes *k) { return k->dtype == DHOW_U8 ? 128 : 0; }

/* The least and the largest of count codes. */
static void range_of(const known_codes *k, int64_t count, int32_t *low, int32_t *high) {
    *low = INT32_MAX;
    *high = INT32_MIN;
    for (int64_t i = 0; i < count; i++) {
        const int32_t code = byte_at(k->dtype, k->codes, i);
        *low = DHOWI_MIN(*low, code);
        *high = DHOWI_MAX(*high, code);
    }
}

/* What columns stand for beyond codes less zero points, where i8 may not hold those. */
static bool find_shifts(const known_codes *from, int64_t k, int64_t n, int32_t *shifts) {
    int32_t low, high;
    bool any = false;
    range_of(from, k * n, &low, &high);
    for (int64_t j = 0; j < n; j++) {
        const int32_t zero = zero_of(from, j);
        const bool fits = low - zero >= INT8_MIN && high - zero <= INT8_MAX;
        shifts[j] = fits ? 0 : middle_of(from) - zero;
        any = any || !fits;
    }
    return any;
}

/* Whether codes are i8 without a zero point: they are what products add up. */
static bool are_bytes(const known_codes *k) {
    bool zeros = k->dtype == DHOW_I8;
    for (int64_t i = 0; i < k->zero_count; i++) zeros = zeros && zero_of(k, i) == 0;
    return zeros;
}

/* The sums of what columns stand for: bytes and shifts make up codes less zero points. */
static void sum_columns(const known_codes *from, int64_t k, int64_t n, int32_t *sums) {
    for (int64_t j = 0; j < n; j++) sums[j] = -(int32_t)k * zero_of(from, j);
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < n; j++) sums[j] += byte_at(from->dtype, from->codes, i * n + j);
    }
}

enum { SIDE_BY_SIDE = 64 }; /* results at a time, whose codes lie beside one another */

/* Compilers make vectors of loops over so many. The low 8 bits are enough: what is taken off
 * leaves i8. */
static void take_off(const uint8_t *codes, int64_t count, const uint8_t *taken, uint8_t *to) {
    if (count == SIDE_BY_SIDE) {
        for (int k = 0; k < SIDE_BY_SIDE; k++) to[k] = (uint8_t)(codes[k] - taken[k]);
        return;
    }
    for (int64_t k = 0; k < count; k++) to[k] = (uint8_t)(codes[k] - taken[k]);
}

/* From [terms][results] to [results][terms], a square at a time, which the caches hold. */
static void turn_block(const dhowi_centred_codes *c, const uint8_t *codes, int64_t first,
                       int64_t count, const uint8_t *taken, uint8_t *to) {
    uint8_t line[SIDE_BY_SIDE], square[SIDE_BY_SIDE][SIDE_BY_SIDE];
    for (int64_t term = 0; term < c->terms; term += SIDE_BY_SIDE) {
        const int64_t terms = DHOWI_MIN(c->terms - term, (int64_t)SIDE_BY_SIDE);
        for (int64_t i = 0; i < terms; i++) {
            take_off(codes + (term + i) * c->results + first, count, taken, line);
            for (int64_t r = 0; r < count; r++) square[r][i] = line[r];
        }
        for (int64_t r = 0; r < count; r++)
            memcpy(to + (first + r) * c->terms + term, square[r], (size_t)terms);
    }
}

static void centre_block(const dhowi_centred_codes *c, const uint8_t *codes, int64_t first,
                         int64_t count, const uint8_t *taken, uint8_t *to) {
    if (c->columns && c->turned) {
        turn_block(c, codes, first, count, taken, to);
        return;
    }
    for (int64_t term = 0; c->columns && term < c->terms; term++) {
        const int64_t at = term * c->results + first;
        take_off(codes + at, count, taken, to + at);
    }
    for (int64_t r = 0; !c->columns && r < count; r++) {
        uint8_t own[SIDE_BY_SIDE];
        memset(own, taken[r], sizeof own);
        for (int64_t term = 0; term < c->terms; term += SIDE_BY_SIDE) {
            const int64_t at = (first + r) * c->terms + term;
            take_off(codes + at, DHOWI_MIN(c->terms - term, (int64_t)SIDE_BY_SIDE), own, to + at);
        }
    }
}

/* To [results][terms], of weights that i8 does not hold. */
static void centre_wide(const dhowi_centred_codes *c, const known_codes *from, int16_t *to) {
    for (int64_t r = 0; r < c->results; r++) {
        const int32_t zero = zero_of(from, r);
        for (int64_t term = 0; term < c->terms; term++) {
            const int64_t at = c->columns ? term * c->results + r : r * c->terms + term;
            *to++ = (int16_t)(byte_at(from->dtype, from->codes, at) - zero);
        }
    }
}

static dhow_status fill_centred(dhowi_lowering *b, const dhowi_late_values *late) {
    const dhowi_centred_codes *c = &late->centred;
    dhow_tensor *made = b->items[c->made].tensor;
    known_codes from;
    void *shifts = NULL, *to;
    bool there;
    DHOWI_TRY(read_codes(b, c->codes, c->zero, &from, &there));
    if (!there) return dhowi_fail(DHOW_INTERNAL, "the codes of weights are not known any more");
    if (c->shifts >= 0) DHOWI_TRY(dhowi_known_data(b, c->shifts, &shifts));
    dhowi_storage_written(made->storage);
    DHOWI_TRY(dhow_tensor_host_ptr(made, &to));
    if (c->wide) centre_wide(c, &from, to);
    for (int64_t first = 0; first < c->results && !c->wide; first += SIDE_BY_SIDE) {
        const int64_t count = DHOWI_MIN(c->results - first, (int64_t)SIDE_BY_SIDE);
        uint8_t taken[SIDE_BY_SIDE];
        for (int64_t r = 0; r < count; r++)
            taken[r] = (uint8_t)(zero_of(&from, first + r) +
                                 (shifts != NULL ? ((const int32_t *)shifts)[first + r] : 0));
        centre_block(c, from.codes, first, count, taken, to);
    }
    dhowi_shed_known(b, c->codes);
    return DHOW_OK;
}

static dhow_status centred(dhowi_lowering *b, const dhowi_centred_codes *codes) {
    const dhowi_late_values late = {
        .parameter = -1, .value = -1, .make = fill_centred, .centred = *codes};
    DHOWI_TRY(fill_centred(b, &late));
    return dhowi_make_later(b, codes->made, &late);
}

dhow_status dhowi_make_columns(dhowi_lowering *b, int32_t y, int32_t zero,
                               dhowi_code_columns *out) {
    const int64_t k = dhowi_desc_at(b, y)->shape[0], n = dhowi_desc_at(b, y)->shape[1];
    const dhowi_tensor_desc weights = {.dtype = DHOW_I8, .rank = 2, .shape = {k, n}},
                            row = {.dtype = DHOW_I32, .rank = 2, .shape = {1, n}};
    known_codes from;
    void *sums, *shifts;
    int32_t made;
    bool there;
    if (zero >= 0) DHOWI_TRY(dhowi_dense(b, zero, &zero));
    DHOWI_TRY(read_codes(b, y, zero, &from, &there));
    if (!there) return DHOW_OK;
    const bool as_they_are = are_bytes(&from);
    out->weights = y;
    if (!as_they_are) DHOWI_TRY(dhowi_item_known(b, &weights, &out->weights));
    DHOWI_TRY(dhowi_item_known(b, &row, &out->sums));
    b->items[out->weights].byte_sums = out->sums + 1;
    DHOWI_TRY(dhowi_item_known(b, &row, &made));
    DHOWI_TRY(dhowi_known_data(b, out->sums, &sums));
    DHOWI_TRY(dhowi_known_data(b, made, &shifts));
    if (find_shifts(&from, k, n, shifts)) out->shifts = made;
    sum_columns(&from, k, n, sums);
    if (as_they_are) return DHOW_OK;
    return centred(b, &(dhowi_centred_codes){.codes = y,
                                             .zero = zero,
                                             .shifts = out->shifts,
                                             .made = out->weights,
                                             .results = n,
                                             .terms = k,
                                             .columns = true});
}

/* The range of codes side by side, what is taken off each away, and the sums of their sizes. */
typedef struct spread {
    int16_t low[SIDE_BY_SIDE], high[SIDE_BY_SIDE];
    int32_t size[SIDE_BY_SIDE];
} spread;

/* `sign` is 128 for i8, whose codes then begin at 0, as what is taken off them has to. */
static void add_line(spread *s, const uint8_t *codes, int64_t count, uint8_t sign,
                     const int16_t *taken) {
    uint8_t line[SIDE_BY_SIDE];
    if (count < SIDE_BY_SIDE) {
        for (int k = 0; k < SIDE_BY_SIDE; k++) line[k] = (uint8_t)(taken[k] ^ sign); /* 0 */
        memcpy(line, codes, (size_t)count);
        codes = line;
    }
    for (int k = 0; k < SIDE_BY_SIDE; k++) {
        const int16_t value = (int16_t)((codes[k] ^ sign) - taken[k]);
        s->low[k] = DHOWI_MIN(s->low[k], value);
        s->high[k] = DHOWI_MAX(s->high[k], value);
        s->size[k] += value < 0 ? -value : value;
    }
}

/* Whether i8, or i16 where `wide`, holds such weights, and their sums are as wanted. */
static bool are_weights(const dhowi_code_weights *w, const spread *s, int first, int count,
                        bool wide) {
    enum { MOST_CENTRED = 255, EXACT_IN_F32 = 1 << 24 };
    int64_t size = 0;
    bool fits = true;
    for (int k = first; k < first + count; k++) {
        fits = fits && (wide || (s->low[k] >= INT8_MIN && s->high[k] <= INT8_MAX));
        size += s->size[k];
    }
    return fits && (wide ? size * MOST_CENTRED <= INT32_MAX
                         : !w->exact || size * MOST_CENTRED < EXACT_IN_F32);
}

/* Of results from the first, `taken` off their codes. */
static void check_block(const dhowi_code_weights *w, const known_codes *from, int64_t first,
                        int64_t count, const int32_t *taken, bool wide, bool *fits) {
    const uint8_t *codes = from->codes, sign = from->dtype == DHOW_I8 ? 128 : 0;
    int16_t off[SIDE_BY_SIDE] = {0};
    spread s = {{0}, {0}, {0}};
    for (int64_t r = 0; r < count; r++) off[r] = (int16_t)(taken[r] + sign);
    for (int64_t i = 0; w->columns && i < w->terms; i++)
        add_line(&s, codes + i * w->results + first, count, sign, off);
    for (int64_t r = 0; w->columns && r < count; r++) fits[r] = are_weights(w, &s, (int)r, 1, wide);
    for (int64_t r = 0; !w->columns && r < count; r++) {
        int16_t own[SIDE_BY_SIDE];
        for (int k = 0; k < SIDE_BY_SIDE; k++) own[k] = off[r];
        s = (spread){{0}, {0}, {0}};
        for (int64_t i = 0; i < w->terms; i += SIDE_BY_SIDE)
            add_line(&s, codes + (first + r) * w->terms + i,
                     DHOWI_MIN(w->terms - i, (int64_t)SIDE_BY_SIDE), sign, own);
        fits[r] = are_weights(w, &s, 0, SIDE_BY_SIDE, wide);
    }
}

static dhow_status new_shifts(dhowi_lowering *b, int64_t results, int32_t *out, int32_t **numbers) {
    const dhowi_tensor_desc desc = {.dtype = DHOW_I32, .rank = 1, .shape = {results}};
    void *made;
    DHOWI_TRY(dhowi_item_known(b, &desc, out));
    DHOWI_TRY(dhowi_known_data(b, *out, &made));
    memset(made, 0, (size_t)results * sizeof(int32_t));
    *numbers = made;
    return DHOW_OK;
}

static bool hold_all(const bool *each, int64_t count) {
    bool all = true;
    for (int64_t r = 0; r < count; r++) all = all && each[r];
    return all;
}

/* Finds out that weights are wide, or the shifts of results that need one; *fits as of
 * dhowi_centre_weights(). */
static dhow_status shift_block(dhowi_lowering *b, const dhowi_code_weights *w,
                               const known_codes *from, int64_t first, int32_t **shifts, bool *wide,
                               bool *fits) {
    const int64_t count = DHOWI_MIN(w->results - first, (int64_t)SIDE_BY_SIDE);
    int32_t taken[SIDE_BY_SIDE];
    bool each[SIDE_BY_SIDE];
    for (int64_t r = 0; r < count; r++) taken[r] = zero_of(from, first + r);
    check_block(w, from, first, count, taken, *wide, each);
    *fits = hold_all(each, count);
    if (!*fits && w->may_be_wide && !*wide) {
        *wide = true;
        check_block(w, from, first, count, taken, *wide, each);
        *fits = hold_all(each, count);
    }
    if (*fits || *wide || w->shifts == NULL) return DHOW_OK;
    if (*shifts == NULL) DHOWI_TRY(new_shifts(b, w->results, w->shifts, shifts));
    for (int64_t r = 0; r < count; r++) {
        if (each[r]) continue;
        (*shifts)[first + r] = middle_of(from) - taken[r];
        taken[r] = middle_of(from);
    }
    check_block(w, from, first, count, taken, *wide, each);
    *fits = hold_all(each, count);
    return DHOW_OK;
}

dhow_status dhowi_centre_weights(dhowi_lowering *b, const dhowi_code_weights *w,
                                 const dhowi_tensor_desc *shape, int32_t *out, bool *fits) {
    dhowi_tensor_desc desc = *shape;
    known_codes from;
    int32_t *shifts = NULL;
    int32_t codes, zero = -1;
    bool wide = false;
    desc.encoding = 0;
    if (w->shifts != NULL) *w->shifts = -1;
    DHOWI_TRY(dhowi_dense(b, w->codes, &codes));
    if (w->zero >= 0) DHOWI_TRY(dhowi_dense(b, w->zero, &zero));
    DHOWI_TRY(read_codes(b, codes, zero, &from, fits));
    const bool bytes = *fits && are_bytes(&from);
    const bool as_they_are = bytes && !w->columns && codes == w->codes;
    for (int64_t r = 0; r < w->results && *fits && !(bytes && !w->exact); r += SIDE_BY_SIDE)
        DHOWI_TRY(shift_block(b, w, &from, r, &shifts, &wide, fits));
    if (!*fits) return DHOW_OK;
    desc.dtype = wide ? DHOW_I16 : DHOW_I8;
    if (as_they_are) return dhowi_reshape(b, w->codes, shape->rank, shape->shape, out);
    DHOWI_TRY(dhowi_item_known(b, &desc, out));
    return centred(b, &(dhowi_centred_codes){.codes = codes,
                                             .zero = zero,
                                             .shifts = w->shifts != NULL ? *w->shifts : -1,
                                             .made = *out,
                                             .results = w->results,
                                             .terms = w->terms,
                                             .columns = w->columns,
                                             .turned = true,
                                             .wide = wide});
}
