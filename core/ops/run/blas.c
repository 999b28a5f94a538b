/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products: the vendor's where it has a plan, else the portable kernel.
 */
#include <string.h>

#include "base/memory/size.h"
#include "copy/engine.h"
#include "ops/run/rows.h"
#include "ops/run/vendor.h"

/* ---- shapes ---- */

static dhow_status no_fit(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                          const char *rule) {
    char a[160], b[160], c[160];
    if (op->allowed > 2 && in[2] != NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, %s is %s, %s is %s; %s", op->name,
                          op->inputs[0], dhowi_desc_text(in[0], a, sizeof a), op->inputs[1],
                          dhowi_desc_text(in[1], b, sizeof b), op->inputs[2],
                          dhowi_desc_text(in[2], c, sizeof c), rule);
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, %s is %s; %s", op->name, op->inputs[0],
                      dhowi_desc_text(in[0], a, sizeof a), op->inputs[1],
                      dhowi_desc_text(in[1], b, sizeof b), rule);
}

dhow_status dhowi_infer_matmul(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    static const char rule[] =
        "a[..., m, k] and b[..., k, n] of one dtype and equal outer extents (or none in b) fit";
    const dhowi_tensor_desc *a = in[0], *b = in[1];
    if (a->rank < 2 || b->rank < 2 || a->dtype != b->dtype ||
        a->shape[a->rank - 1] != b->shape[b->rank - 2] || (b->rank != 2 && b->rank != a->rank)) {
        return no_fit(op, in, rule);
    }
    for (int32_t i = 0; b->rank > 2 && i < a->rank - 2; i++) {
        if (a->shape[i] != b->shape[i]) return no_fit(op, in, rule);
    }
    *out = *a;
    out->shape[a->rank - 1] = b->shape[b->rank - 1];
    return DHOW_OK;
}

dhow_status dhowi_infer_linear(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    static const char rule[] = "x[..., in], weight[out, in] and bias[out] of one dtype fit";
    const dhowi_tensor_desc *x = in[0], *w = in[1], *bias = in[2];
    bool fits = x->rank >= 1 && w->rank == 2 && w->dtype == x->dtype &&
                x->shape[x->rank - 1] == w->shape[1];
    if (fits && bias != NULL)
        fits = bias->rank == 1 && bias->shape[0] == w->shape[0] && bias->dtype == x->dtype;
    if (!fits) return no_fit(op, in, rule);
    *out = *x;
    out->shape[x->rank - 1] = w->shape[0];
    return DHOW_OK;
}

/* ---- the vendor's product ---- */

/* A matrix as stored rows: its leading dimension, and whether it is transposed. */
static bool stored_rows(int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t *out_ld,
                        bool *out_transposed) {
    if (col == 1 || cols == 1) {
        *out_transposed = false;
        *out_ld = rows == 1 ? cols : row;
        return *out_ld >= cols;
    }
    *out_transposed = true;
    *out_ld = cols == 1 ? rows : col;
    return (row == 1 || rows == 1) && *out_ld >= rows;
}

static bool describe(const dhowi_gemm *g, dhow_blas_desc *d) {
    bool ta, tb;
    memset(d, 0, sizeof *d);
    d->struct_size = (uint32_t)sizeof *d;
    d->dtype_a = d->dtype_b = d->dtype_c = (int32_t)g->a->dtype;
    d->compute = (int32_t)dhowi_compute_in(g->inside, dhowi_tensor_device(g->a), g->a->dtype);
    d->m = g->m;
    d->n = g->n;
    d->k = g->k;
    d->batch = g->batch;
    d->ldc = g->n;
    d->stride_a = g->a_batch;
    d->stride_b = g->b_batch;
    d->stride_c = g->batch > 1 ? g->m * g->n : 0;
    d->alpha = 1;
    d->activation = g->activation.kind;
    d->activation_alpha = g->activation.alpha;
    d->activation_beta = g->activation.beta;
    if (!stored_rows(g->m, g->k, g->a_row, g->a_col, &d->lda, &ta)) return false;
    if (!stored_rows(g->k, g->n, g->b_row, g->b_col, &d->ldb, &tb)) return false;
    d->flags =
        (ta ? DHOW_BLAS_TRANSPOSE_A : 0u) | (tb ? DHOW_BLAS_TRANSPOSE_B : 0u) |
        (g->bias != NULL ? DHOW_EPILOGUE_BIAS : 0u) |
        (g->residual != NULL ? DHOW_EPILOGUE_RESIDUAL : 0u) |
        (atomic_load_explicit(&g->b->storage->frozen, memory_order_relaxed) ? DHOW_BLAS_CONSTANT_B
                                                                            : 0u);
    return true;
}

/* What a product lacks, done after it. */
static dhow_status finish(dhow_stream *stream, const dhowi_gemm *g, uint32_t done_flags,
                          const dhowi_activation *activation) {
    if (g->bias != NULL && (done_flags & DHOW_EPILOGUE_BIAS) == 0)
        DHOWI_TRY(dhowi_add_to(stream, g->c, g->bias));
    if (g->residual != NULL && (done_flags & DHOW_EPILOGUE_RESIDUAL) == 0)
        DHOWI_TRY(dhowi_add_to(stream, g->c, g->residual));
    return dhowi_activate(stream, activation, g->c);
}

/* *done says whether the vendor took it, with as much of what follows the product as it can do in
 * one go; the rest is done after it. */
static dhow_status run_vendor(dhow_stream *stream, const dhowi_gemm *g, bool *done) {
    dhow_blas_desc desc;
    *done = false;
    if (!describe(g, &desc)) return DHOW_OK;
    const dhowi_activation none = {0};
    const uint32_t extras = DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL, asked = desc.flags;
    const struct {
        uint32_t flags, activation;
    } attempts[] = {{asked, desc.activation},
                    {asked, DHOW_ACTIVATION_NONE},
                    {asked & ~(uint32_t)DHOW_EPILOGUE_RESIDUAL, DHOW_ACTIVATION_NONE},
                    {asked & ~extras, DHOW_ACTIVATION_NONE}};
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        const dhowi_vendor_plan *plan;
        if (i > 0 && attempts[i].flags == desc.flags && attempts[i].activation == desc.activation)
            continue;
        /* A narrow sum would be rounded before the rest is added to it; the portable kernel adds
         * first. */
        if (attempts[i].flags != asked && dhow_dtype_bytes(g->c->dtype) < 4) break;
        desc.flags = attempts[i].flags;
        desc.activation = attempts[i].activation;
        DHOWI_TRY(dhowi_blas_plan(stream->device, &desc, &plan));
        if (plan == NULL) continue;
        *done = true;
        dhow_status status = dhowi_vendor_plan_run(
            stream, plan, g->a, g->b, g->c, (desc.flags & DHOW_EPILOGUE_BIAS) != 0 ? g->bias : NULL,
            (desc.flags & DHOW_EPILOGUE_RESIDUAL) != 0 ? g->residual : NULL);
        dhowi_vendor_plan_drop(plan);
        DHOWI_TRY(status);
        return finish(stream, g, desc.flags, i == 0 ? &none : &g->activation);
    }
    return DHOW_OK;
}

/* ---- the portable product ---- */

static dhow_status run_portable(dhow_stream *stream, const dhowi_gemm *g) {
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(g->op, g->a->dtype, stream->device, &kernel));
    dhow_tensor *bias =
        g->bias != NULL ? g->bias : g->a; /* something readable when there is none */
    const bool whole = g->residual == NULL && dhowi_kernels_end_with(&g->activation);
    const dhow_arg args[] = {
        dhowi_arg_buffer(g->a, DHOW_ACCESS_READ),
        dhowi_arg_buffer(g->b, DHOW_ACCESS_READ),
        dhowi_arg_buffer(bias, DHOW_ACCESS_READ),
        dhowi_arg_buffer(g->c, DHOW_ACCESS_WRITE),
        dhowi_arg_i64(g->m),
        dhowi_arg_i64(g->n),
        dhowi_arg_i64(g->k),
        dhowi_arg_i64(g->batch),
        dhowi_arg_i64(g->a_row),
        dhowi_arg_i64(g->a_col),
        dhowi_arg_i64(g->b_row),
        dhowi_arg_i64(g->b_col),
        dhowi_arg_i64(g->a_batch),
        dhowi_arg_i64(g->b_batch),
        dhowi_arg_i32(g->bias != NULL),
        dhowi_arg_i32(whole ? (int32_t)g->activation.kind : (int32_t)DHOW_ACTIVATION_NONE)};
    const dhowi_use uses[] = {{g->a->storage, DHOW_ACCESS_READ},
                              {g->b->storage, DHOW_ACCESS_READ},
                              {bias->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(g->c, DHOW_ACCESS_WRITE)};
    int64_t span =
        DHOWI_MAX(dhowi_span_of(g->c), DHOWI_MAX(dhowi_span_of(g->a), dhowi_span_of(g->b)));
    int64_t work;
    if (!dhowi_mul_i64(g->c->count, DHOWI_MAX(g->k, 1), &work)) work = INT64_MAX;
    DHOWI_TRY(dhowi_launch(stream, kernel, work, span, args, 16, uses, 4));
    return whole ? DHOW_OK : finish(stream, g, DHOW_EPILOGUE_BIAS, &g->activation);
}

dhow_status dhowi_gemm_run(dhow_stream *stream, const dhowi_gemm *g) {
    bool done = false;
    if (g->k > 0) DHOWI_TRY(run_vendor(stream, g, &done));
    return done ? DHOW_OK : run_portable(stream, g);
}

/* ---- the operations ---- */

/* The stride of all outer dimensions as one; false when they do not merge. */
static bool batch_stride(const dhow_tensor *t, int64_t *out) {
    int64_t stride = 0, extent = 1;
    for (int32_t i = t->rank - 3; i >= 0; i--) {
        if (t->shape[i] == 1) continue;
        if (extent == 1) {
            stride = t->strides[i];
        } else if (t->strides[i] != stride * extent) {
            return false;
        }
        extent *= t->shape[i];
    }
    *out = stride;
    return true;
}

/* A form whose outer dimensions merge and whose matrices the kernels take; retained. */
static bool is_aligned(const dhow_tensor *t, const dhow_device *device) {
    return dhowi_tensor_offset_bytes(t) % device->desc.offset_align == 0;
}

static dhow_status usable_operand(dhow_stream *stream, dhow_tensor *t, dhow_tensor **out) {
    int64_t ignored, ld;
    bool transposed;
    int32_t r = t->rank - 2;
    if (is_aligned(t, stream->device) && batch_stride(t, &ignored) &&
        stored_rows(t->shape[r], t->shape[r + 1], t->strides[r], t->strides[r + 1], &ld,
                    &transposed)) {
        dhowi_handle_retain(&t->handle);
        *out = t;
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_tensor_new(stream->device, t->dtype, t->rank, t->shape, out));
    dhow_status status = dhowi_copy_local(stream, t, *out, true);
    if (status != DHOW_OK) dhow_tensor_release(*out);
    return status;
}

static dhow_status product(const dhowi_call *call, dhow_tensor *a, dhow_tensor *b, dhow_tensor *c) {
    int32_t r = a->rank - 2, q = b->rank - 2;
    dhowi_gemm g = {.op = call->op,
                    .m = a->shape[r],
                    .n = b->shape[q + 1],
                    .k = a->shape[r + 1],
                    .batch = 1,
                    .a = a,
                    .b = b,
                    .bias = call->in[2],
                    .residual = call->in[3],
                    .activation = call->attrs->activation,
                    .inside = call->inside,
                    .c = c};
    for (int32_t i = 0; i < r; i++) g.batch *= a->shape[i];
    g.a_row = a->strides[r];
    g.a_col = a->strides[r + 1];
    g.b_row = b->strides[q];
    g.b_col = b->strides[q + 1];
    (void)batch_stride(a, &g.a_batch);
    (void)batch_stride(b, &g.b_batch);
    if (g.m == 1 && g.a_batch != 0) g.a_row = g.a_batch; /* a stride that nothing walks along */
    if (b->rank == 2 && g.batch > 1 && g.a_batch == g.m * g.a_row) { /* one tall product */
        g.m *= g.batch;
        g.batch = 1;
        g.a_batch = 0;
    }
    return dhowi_gemm_run(call->stream, &g);
}

/* ---- outer dimensions that lie apart ---- */

enum { MOST_APART = 64 };

static bool is_plain_matrix(const dhow_tensor *t) {
    int64_t ld;
    bool transposed;
    int32_t r = t->rank - 2;
    return stored_rows(t->shape[r], t->shape[r + 1], t->strides[r], t->strides[r + 1], &ld,
                       &transposed);
}

/* Without the first dimension, at one of its entries. */
static dhow_status entry_of(dhow_tensor *t, int64_t i, dhow_tensor **out) {
    return dhowi_tensor_view(t->storage, t->dtype, t->rank - 1, t->shape + 1, t->strides + 1,
                             t->offset + i * t->strides[0], out);
}

static bool entry_is_usable(const dhow_tensor *t, const dhow_device *device) {
    dhow_tensor entry = *t;
    int64_t ignored;
    entry.rank--;
    memmove(entry.shape, t->shape + 1, (size_t)entry.rank * sizeof *entry.shape);
    memmove(entry.strides, t->strides + 1, (size_t)entry.rank * sizeof *entry.strides);
    uint64_t step = (uint64_t)t->strides[0] * dhow_dtype_bytes(t->dtype);
    return is_plain_matrix(t) && batch_stride(&entry, &ignored) && is_aligned(t, device) &&
           step % device->desc.offset_align == 0;
}

/* Heads of attention for several sequences lie at two strides. On the host a product for each
 * sequence costs less than making copies that lie at one; elsewhere launches cost more. */
static bool runs_apart(const dhowi_call *call) {
    const dhow_tensor *a = call->in[0], *b = call->in[1], *c = call->out;
    const dhow_device *device = call->stream->device;
    int64_t ignored;
    return device == device->context->cpu && a->rank >= 4 && b->rank == a->rank &&
           a->shape[0] <= MOST_APART && c->contiguous && call->in[3] == NULL &&
           !(batch_stride(a, &ignored) && batch_stride(b, &ignored)) &&
           entry_is_usable(a, device) && entry_is_usable(b, device) && entry_is_usable(c, device);
}

static dhow_status run_apart(const dhowi_call *call) {
    dhow_status status = DHOW_OK;
    for (int64_t i = 0; i < call->in[0]->shape[0] && status == DHOW_OK; i++) {
        dhowi_call one = *call;
        dhow_tensor *a = NULL, *b = NULL, *c = NULL;
        status = entry_of(call->in[0], i, &a);
        if (status == DHOW_OK) status = entry_of(call->in[1], i, &b);
        if (status == DHOW_OK) status = entry_of(call->out, i, &c);
        one.in[0] = a;
        one.in[1] = b;
        one.out = c;
        if (status == DHOW_OK) status = dhowi_run_matmul(&one);
        dhow_tensor_release(a);
        dhow_tensor_release(b);
        dhow_tensor_release(c);
    }
    return status;
}

dhow_status dhowi_run_matmul(const dhowi_call *call) {
    if (runs_apart(call)) return run_apart(call);
    dhow_tensor *a = NULL, *b = NULL, *c = call->out, *result = NULL;
    dhow_status status = usable_operand(call->stream, call->in[0], &a);
    if (status == DHOW_OK) status = usable_operand(call->stream, call->in[1], &b);
    if (status == DHOW_OK && !(c->contiguous && is_aligned(c, call->stream->device))) {
        status = dhowi_tensor_new(call->stream->device, c->dtype, c->rank, c->shape, &result);
        c = result;
    }
    if (status == DHOW_OK) status = product(call, a, b, c);
    if (status == DHOW_OK && result != NULL)
        status = dhowi_copy_local(call->stream, result, call->out, true);
    dhow_tensor_release(a);
    dhow_tensor_release(b);
    dhow_tensor_release(result);
    return status;
}

dhow_status dhowi_run_linear(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *w = call->in[1];
    int64_t in_features = w->shape[1];
    dhowi_gemm g = {.op = call->op,
                    .m = in_features > 0 ? x->count / in_features : call->out->count / w->shape[0],
                    .n = w->shape[0],
                    .k = in_features,
                    .batch = 1,
                    .a_row = in_features,
                    .a_col = 1,
                    .b_row = 1,
                    .b_col = in_features,
                    .a = x,
                    .b = w,
                    .bias = call->in[2],
                    .residual = call->in[3],
                    .activation = call->attrs->activation,
                    .inside = call->inside,
                    .c = call->out};
    return dhowi_gemm_run(call->stream, &g);
}
