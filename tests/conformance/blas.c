/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of dhow.blas/1: products with everything a description can ask for, against sums in
 * double. What a plan refuses is the host's to do and no failure.
 */
#include "vendor.h"

typedef struct tally {
    uint32_t ran, refused;
    bool with_nan; /* the first element of a is one */
    char why[200];
} tally;

typedef struct product {
    const dhow_blas *blas;
    dhow_blas_desc d;
    void *stream, *plan;
    vendor_array a, b, c, bias, residual;
    uint64_t workspace_bytes, packed_bytes;
} product;

static int64_t rows_a(const dhow_blas_desc *d) {
    return (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0 ? d->k : d->m;
}
static int64_t rows_b(const dhow_blas_desc *d) {
    return (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0 ? d->n : d->k;
}

static int64_t extent(int64_t rows, int64_t ld, int64_t batch, int64_t stride) {
    return rows * ld + (batch - 1) * stride;
}

static double operand(const vendor_array *v, int64_t row, int64_t col, int64_t ld, bool transposed,
                      int64_t at) {
    return v->value[at + (transposed ? col * ld + row : row * ld + col)];
}

/* The wanted value of c[row][col], and the sum of what its terms are in size. */
static double wanted(const product *p, int64_t batch, int64_t row, int64_t col, double *size) {
    const dhow_blas_desc *d = &p->d;
    const int64_t at = batch * d->stride_c + row * d->ldc + col;
    double sum = 0;
    *size = 1;
    for (int64_t k = 0; k < d->k; k++) {
        const double term = operand(&p->a, row, k, d->lda, (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0,
                                    batch * d->stride_a) *
                            operand(&p->b, k, col, d->ldb, (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0,
                                    batch * d->stride_b);
        sum += term;
        *size += fabs(term);
    }
    sum *= (double)d->alpha;
    if (d->beta != 0) sum += (double)d->beta * p->c.value[at];
    if ((d->flags & DHOW_EPILOGUE_BIAS) != 0) sum += p->bias.value[col];
    if ((d->flags & DHOW_EPILOGUE_RESIDUAL) != 0) sum += p->residual.value[at];
    return vendor_activate(d->activation, (double)d->activation_alpha, (double)d->activation_beta,
                           sum);
}

static conform_result make_operands(conform_env *env, product *p) {
    const dhow_blas_desc *d = &p->d;
    const dhow_dtype t = (dhow_dtype)d->dtype_a;
    const int64_t c = extent(d->m, d->ldc, d->batch, d->stride_c);
    TRY(vendor_array_new(env, p->stream, t, extent(rows_a(d), d->lda, d->batch, d->stride_a), 1,
                         &p->a));
    TRY(vendor_array_new(env, p->stream, t, extent(rows_b(d), d->ldb, d->batch, d->stride_b), 2,
                         &p->b));
    TRY(vendor_array_new(env, p->stream, t, c, 3, &p->c));
    TRY(vendor_array_new(env, p->stream, t, d->n, 4, &p->bias));
    return vendor_array_new(env, p->stream, t, c, 5, &p->residual);
}

static conform_result put_nan(conform_env *env, product *p) {
    unsigned char bytes[8];
    p->a.value[0] = NAN;
    conform_encode(p->a.dtype, NAN, bytes);
    return slot_write(env, p->stream, p->a.handle, 0, bytes, dhow_dtype_bytes(p->a.dtype));
}

static conform_result run(conform_env *env, product *p) {
    const dhow_buffer none = {0, 0};
    dhow_buffer b = {p->b.handle, 0}, workspace = none;
    const uint32_t flags = p->d.flags;
    if (p->packed_bytes > 0) {
        dhow_buffer packed = none;
        CHECK((flags & DHOW_BLAS_CONSTANT_B) != 0, "it packs a b that may change");
        TRY(slot_memory(env, p->packed_bytes, &packed.handle));
        SLOT(p->blas->pack(p->plan, p->stream, b, packed, ERR));
        b = packed;
    }
    if (p->workspace_bytes > 0) TRY(slot_memory(env, p->workspace_bytes, &workspace.handle));
    const dhow_buffer bias = {p->bias.handle, 0}, residual = {p->residual.handle, 0};
    SLOT(p->blas->run(p->plan, p->stream, (dhow_buffer){p->a.handle, 0}, b,
                      (dhow_buffer){p->c.handle, 0},
                      (flags & DHOW_EPILOGUE_BIAS) != 0 ? bias : none,
                      (flags & DHOW_EPILOGUE_RESIDUAL) != 0 ? residual : none, workspace, ERR));
    return slot_sync(env, p->stream);
}

/* Elements between the rows, when ldc is larger than n, keep their values. */
static conform_result compare(conform_env *env, product *p, const char *what) {
    const dhow_blas_desc *d = &p->d;
    const dhow_dtype t = (dhow_dtype)d->dtype_c;
    double *got = conform_memory(env, (size_t)p->c.count * sizeof *got);
    TRY(vendor_array_read(env, p->stream, &p->c, got));
    for (int64_t batch = 0; batch < d->batch; batch++) {
        for (int64_t row = 0; row < d->m; row++) {
            for (int64_t col = 0; col < d->ldc; col++) {
                const int64_t at = batch * d->stride_c + row * d->ldc + col;
                double size = 0, want = p->c.value[at];
                if (col < d->n) want = wanted(p, batch, row, col, &size);
                const double allowed = col < d->n ? vendor_tolerance(t, want, size) : 0;
                CHECK(isnan(want) ? isnan(got[at]) : fabs(got[at] - want) <= allowed,
                      "%s: c[%" PRId64 "][%" PRId64 "][%" PRId64 "] is %.9g, not %.9g", what, batch,
                      row, col, got[at], want);
            }
        }
    }
    return CONFORM_PASS;
}

static conform_result check_product(conform_env *env, const dhow_blas_desc *desc, tally *t) {
    product p = {.blas = API->get_extension(DEVICE, "dhow.blas/1"), .d = *desc};
    char what[240];
    (void)snprintf(what, sizeof what,
                   "%s %" PRId64 " x %" PRId64 " x %" PRId64 ", batch %" PRId64
                   ", flags 0x%x, "
                   "activation %u, ld %" PRId64 " %" PRId64 " %" PRId64 ", alpha %g, beta %g",
                   dhow_dtype_name((dhow_dtype)desc->dtype_a), desc->m, desc->n, desc->k,
                   desc->batch, desc->flags, desc->activation, desc->lda, desc->ldb, desc->ldc,
                   (double)desc->alpha, (double)desc->beta);
    int32_t code = p.blas->plan(DEVICE, &p.d, &p.plan, &p.workspace_bytes, &p.packed_bytes, ERR);
    if (code == DHOW_UNSUPPORTED || code == DHOW_UNAVAILABLE) {
        CHECK(p.plan == NULL, "%s: a plan came out of a refusal", what);
        (void)snprintf(t->why, sizeof t->why, "%.190s", env->slots->err.message);
        t->refused++;
        return CONFORM_PASS;
    }
    CHECK(code == DHOW_OK, "%s: plan: %s: %.300s", what, slot_status(code),
          env->slots->err.message);
    TRY(slot_stream(env, &p.stream));
    conform_result result = make_operands(env, &p);
    if (result == CONFORM_PASS && t->with_nan) result = put_nan(env, &p);
    if (result == CONFORM_PASS) result = run(env, &p);
    if (result == CONFORM_FAIL) vendor_prefix(env, what);
    if (result == CONFORM_PASS) result = compare(env, &p, what);
    (void)API->stream_sync(p.stream, ERR);
    p.blas->destroy(p.plan);
    conform_slots_release(env->slots);
    conform_release_all(env);
    t->ran++;
    return result;
}

static dhow_blas_desc plain(dhow_dtype dtype, int64_t m, int64_t n, int64_t k, uint32_t flags) {
    const int32_t t = (int32_t)dtype;
    dhow_blas_desc d = {.struct_size = (uint32_t)sizeof d,
                        .flags = flags,
                        .dtype_a = t,
                        .dtype_b = t,
                        .dtype_c = t,
                        .compute = dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32,
                        .m = m,
                        .n = n,
                        .k = k,
                        .batch = 1,
                        .ldc = n,
                        .alpha = 1};
    d.lda = (flags & DHOW_BLAS_TRANSPOSE_A) != 0 ? m : k;
    d.ldb = (flags & DHOW_BLAS_TRANSPOSE_B) != 0 ? k : n;
    return d;
}

static conform_result sum_up(conform_env *env, const tally *t) {
    if (t->ran == 0) return conform_unsupported(env, "no plan: %s", t->why);
    (void)snprintf(env->message, sizeof env->message, "%u products, %u refused", t->ran,
                   t->refused);
    return CONFORM_PASS;
}

#define NEEDS_BLAS                                                                       \
    if (API->get_extension == NULL || API->get_extension(DEVICE, "dhow.blas/1") == NULL) \
    return conform_unsupported(env, "the plugin has no dhow.blas/1")

static conform_result products(conform_env *env, dhow_dtype dtype) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 17, 5},   {3, 5, 7},    {17, 1, 33},
                                       {33, 19, 64}, {64, 48, 40}, {70, 129, 65}};
    static const uint32_t flags[] = {
        0,
        DHOW_BLAS_TRANSPOSE_A,
        DHOW_BLAS_TRANSPOSE_B,
        DHOW_BLAS_TRANSPOSE_A | DHOW_BLAS_TRANSPOSE_B,
        DHOW_EPILOGUE_BIAS,
        DHOW_EPILOGUE_RESIDUAL,
        DHOW_BLAS_TRANSPOSE_B | DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS};
    tally t = {0};
    NEEDS_BLAS;
    NEEDS_DTYPE_BIT(dtype);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
            const dhow_blas_desc d = plain(dtype, sizes[s][0], sizes[s][1], sizes[s][2], flags[f]);
            TRY(check_product(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

static conform_result products_f32(conform_env *env) { return products(env, DHOW_F32); }
static conform_result products_f64(conform_env *env) { return products(env, DHOW_F64); }
static conform_result products_f16(conform_env *env) { return products(env, DHOW_F16); }
static conform_result products_bf16(conform_env *env) { return products(env, DHOW_BF16); }

static conform_result activate(conform_env *env, bool with_nan) {
    tally t = {.with_nan = with_nan};
    NEEDS_BLAS;
    for (uint32_t a = DHOW_ACTIVATION_RELU; a <= DHOW_ACTIVATION_CLIP; a++) {
        static const uint32_t flags[] = {0, DHOW_EPILOGUE_BIAS,
                                         DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL,
                                         DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS};
        for (int f = 0; f < 4; f++) {
            dhow_blas_desc d = plain(DHOW_F32, 21, 37, 18, flags[f]);
            d.activation = a;
            d.activation_alpha = -0.25f;
            d.activation_beta = 0.5f;
            TRY(check_product(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

static conform_result products_activated(conform_env *env) { return activate(env, false); }
/* Libraries whose ReLU is max(x, 0) make a number of what is none. */
static conform_result products_that_keep_nan(conform_env *env) { return activate(env, true); }

static conform_result products_in_batches(conform_env *env) {
    tally t = {0};
    NEEDS_BLAS;
    for (int shared = 0; shared < 2; shared++) {
        for (uint32_t flags = 0; flags < 4; flags++) { /* both transpositions */
            dhow_blas_desc d = plain(DHOW_F32, 9, 14, 11, flags);
            d.batch = 5;
            d.stride_a = 9 * 11;
            d.stride_b = shared ? 0 : 14 * 11;
            d.stride_c = 9 * 14;
            TRY(check_product(env, &d, &t));
            d.stride_a += 16; /* entries that lie apart */
            d.stride_c += 48;
            TRY(check_product(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

static conform_result products_in_wide_rows(conform_env *env) {
    tally t = {0};
    NEEDS_BLAS;
    for (uint32_t flags = 0; flags < 4; flags++) {
        dhow_blas_desc d = plain(DHOW_F32, 13, 10, 12, flags | DHOW_EPILOGUE_BIAS);
        d.lda += 7;
        d.ldb += 4;
        d.ldc += 6;
        TRY(check_product(env, &d, &t));
    }
    return sum_up(env, &t);
}

static conform_result products_scaled(conform_env *env) {
    static const float factors[][2] = {{2, 0}, {1, 1}, {-0.5f, 3}, {0, 1}};
    tally t = {0};
    NEEDS_BLAS;
    for (int i = 0; i < 4; i++) {
        dhow_blas_desc d = plain(DHOW_F32, 16, 24, 20, 0);
        d.alpha = factors[i][0];
        d.beta = factors[i][1];
        TRY(check_product(env, &d, &t));
    }
    return sum_up(env, &t);
}

const conform_case conform_blas_cases[] = {
    CASE("blas/f32", products_f32, "blas,f32"),
    CASE("blas/f64", products_f64, "blas,f64"),
    CASE("blas/f16", products_f16, "blas,f16"),
    CASE("blas/bf16", products_bf16, "blas,bf16"),
    CASE("blas/activation", products_activated, "blas"),
    CASE("blas/nan", products_that_keep_nan, "blas"),
    CASE("blas/batch", products_in_batches, "blas,strided"),
    CASE("blas/rows", products_in_wide_rows, "blas,strided"),
    CASE("blas/scale", products_scaled, "blas"),
};
CASES_END(conform_blas);
