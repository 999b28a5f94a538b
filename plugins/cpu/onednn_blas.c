/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.blas/1" over oneDNN. A constant b is packed and goes with its bias, residual and activation
 * through the matmul primitive, or with AVX2 alone through own panels. On plain layouts, and where
 * there is nothing to add, own products by panels are as fast as its sgemm up to some size, which
 * writes code for 36 ms before it begins. sgemm has the larger ones, and those of two rows: what
 * has to be added to so little is added afterwards. Where bf16 is asked for inside f32 and the
 * processor multiplies it, a constant b is packed as bf16, once, and a becomes bf16 in the
 * workspace. ReLU is left to the host: oneDNN's loses NaN.
 */
#include <string.h>

#include "one_row.h"
#include "onednn.h"
#include "shares.h"

typedef struct blas_plan {
    cpu_device *device;
    dhow_blas_desc desc;
    const onednn_library *dnnl;
    int plain;              /* no primitive: by one row, by panels or by sgemm */
    int panels;             /* nor here: by panels of packed b */
    void *bytes;            /* a plan of cpu_bytes that does it all, or NULL */
    int narrow;             /* a and b are multiplied as bf16 */
    uint64_t narrow_offset; /* of a in the workspace */
    int residual_index;
    uint64_t workspace_bytes, packed_bytes;
    onednn_md plain_b, packed_b;
    int settled;               /* packed_b is known */
    activate_values *activate; /* behind the primitive; NULL where the primitive does it */
    onednn_work work;
} blas_plan;

static void blas_destroy(void *handle) {
    blas_plan *plan = handle;
    if (!plan) return;
    const dhow_host *host = plan->device->backend->host;
    if (plan->bytes) cpu_bytes.destroy(plan->bytes);
    onednn_work_release(&plan->work);
    onednn_md_release(&plan->plain_b);
    onednn_md_release(&plan->packed_b);
    host->free(host->user, plan);
}

static dnnl_status_t matrix_md(onednn_md *md, const dhow_blas_desc *desc, int64_t batch,
                               int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                               int transposed, dnnl_data_type_t type) {
    if (desc->batch == 1) {
        const dnnl_dims_t dims = {rows, columns},
                          strides = {transposed ? 1 : ld, transposed ? ld : 1};
        return onednn_md_strided(md, 2, dims, type, strides);
    }
    const dnnl_dims_t dims = {batch, rows, columns};
    const dnnl_dims_t strides = {batch == 1 ? rows * columns : stride, transposed ? 1 : ld,
                                 transposed ? ld : 1};
    return onednn_md_strided(md, 3, dims, type, strides);
}

/* Entries shared by a stride of 0 become a batch of 1, which oneDNN broadcasts. */
static int64_t batch_of(const dhow_blas_desc *desc, int64_t stride) {
    return stride == 0 ? 1 : desc->batch;
}

static int is_integer(const dhow_blas_desc *desc) {
    return onednn_is_byte(desc->dtype_a) && desc->dtype_b == DHOW_I8 && desc->dtype_c == DHOW_I32;
}

static dnnl_data_type_t type_of(int32_t dtype) {
    return dtype == DHOW_U8    ? dnnl_u8
           : dtype == DHOW_I8  ? dnnl_s8
           : dtype == DHOW_I32 ? dnnl_s32
                               : onednn_type(dtype);
}

static int fits_plain(const dhow_blas_desc *desc) {
    const int bare =
        (desc->flags & (DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL)) == 0 &&
        desc->activation == DHOW_ACTIVATION_NONE;
    return onednn_is_of_f32(desc) && (bare || desc->m <= PANELS_FEW_ROWS);
}

typedef struct blas_mds {
    onednn_md a, plain_b, b, packed_b, c, bias, scratch;
} blas_mds;

static dnnl_status_t describe(const dhow_blas_desc *desc, const blas_plan *plan, blas_mds *mds) {
    const int64_t m = desc->m, n = desc->n, k = desc->k;
    const dnnl_data_type_t type_b = type_of(desc->dtype_b), type_c = type_of(desc->dtype_c);
    const dnnl_data_type_t type_a = plan->narrow ? dnnl_bf16 : type_of(desc->dtype_a);
    const int64_t batch_b = batch_of(desc, desc->stride_b);
    const int rank = desc->batch == 1 ? 2 : 3;
    dnnl_status_t status =
        matrix_md(&mds->a, desc, batch_of(desc, desc->stride_a), m, k, desc->lda, desc->stride_a,
                  (desc->flags & DHOW_BLAS_TRANSPOSE_A) != 0, type_a);
    if (status == dnnl_success) {
        status = matrix_md(&mds->plain_b, desc, batch_b, k, n, desc->ldb, desc->stride_b,
                           (desc->flags & DHOW_BLAS_TRANSPOSE_B) != 0, type_b);
    }
    if (status == dnnl_success && plan->settled) {
        status = onednn_md_copy(&mds->b, plan->packed_b);
    } else if (status == dnnl_success && (desc->flags & DHOW_BLAS_CONSTANT_B)) {
        const dnnl_dims_t flat = {k, n}, deep = {batch_b, k, n};
        status = onednn_md_tagged(&mds->b, rank, rank == 2 ? flat : deep,
                                  plan->narrow ? dnnl_bf16 : type_b, dnnl_format_tag_any);
    }
    if (status == dnnl_success) {
        status = matrix_md(&mds->c, desc, desc->batch, m, n, desc->ldc, desc->stride_c, 0, type_c);
    }
    if (status == dnnl_success && (desc->flags & DHOW_EPILOGUE_BIAS)) {
        const dnnl_dims_t flat = {1, n}, deep = {1, 1, n};
        status = onednn_md_tagged(&mds->bias, rank, rank == 2 ? flat : deep, type_c,
                                  rank == 2 ? dnnl_ab : dnnl_abc);
    }
    return status;
}

static dnnl_status_t make_operands(const blas_plan *plan, int residual_index, const blas_mds *mds,
                                   onednn_primitive *made) {
    dnnl_status_t status = onednn_primitive_operand(made, DNNL_ARG_SRC, mds->a);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_WEIGHTS, mds->packed_b);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_DST, mds->c);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_SCRATCHPAD, mds->scratch);
    if (status == dnnl_success && (plan->desc.flags & DHOW_EPILOGUE_BIAS)) {
        status = onednn_primitive_operand(made, DNNL_ARG_BIAS, mds->bias);
    }
    if (status == dnnl_success && residual_index >= 0) {
        status = onednn_primitive_operand(
            made, DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_index) | DNNL_ARG_SRC_1, mds->c);
    }
    return status;
}

static void release_mds(blas_mds *mds) {
    onednn_md_release(&mds->a);
    onednn_md_release(&mds->plain_b);
    onednn_md_release(&mds->b);
    onednn_md_release(&mds->packed_b);
    onednn_md_release(&mds->c);
    onednn_md_release(&mds->bias);
    onednn_md_release(&mds->scratch);
}

/* What the first primitive of a plan chose holds for all. */
static dnnl_status_t settle(blas_plan *plan, blas_mds *mds, int residual_index) {
    const dhow_blas_desc *desc = &plan->desc;
    const onednn_library *dnnl = plan->dnnl;
    dnnl_status_t status = onednn_md_copy(&plan->plain_b, mds->plain_b);
    if (status == dnnl_success) status = onednn_md_copy(&plan->packed_b, mds->packed_b);
    if (status != dnnl_success) return status;
    plan->settled = 1;
    plan->residual_index = residual_index;
    plan->workspace_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->scratch));
    if (plan->narrow) {
        plan->narrow_offset = (plan->workspace_bytes + 63) / 64 * 64;
        plan->workspace_bytes =
            plan->narrow_offset + (uint64_t)desc->m * (uint64_t)desc->k * sizeof(uint16_t);
    }
    if ((desc->flags & DHOW_BLAS_CONSTANT_B) &&
        !dnnl->dnnl_memory_desc_equal(MD(mds->packed_b), MD(mds->plain_b))) {
        plan->packed_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->packed_b));
    }
    return dnnl_success;
}

static dnnl_status_t make_primitive(void *handle, onednn_primitive *made) {
    blas_plan *plan = handle;
    const dhow_blas_desc *desc = &plan->desc;
    const onednn_library *dnnl = plan->dnnl;
    const int chosen = plan->settled || (desc->flags & DHOW_BLAS_CONSTANT_B) != 0;
    const onednn_activation activation = {plan->activate ? DHOW_ACTIVATION_NONE : desc->activation,
                                          desc->activation_alpha, desc->activation_beta};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int residual_index = -1;
    blas_mds mds;
    memset(&mds, 0, sizeof mds);
    dnnl_status_t status = describe(desc, plan, &mds);
    if (status == dnnl_success) {
        status = onednn_attributes(&attr, desc->beta, type_of(desc->dtype_c),
                                   desc->flags & DHOW_EPILOGUE_RESIDUAL ? &mds.c : NULL,
                                   &activation, desc->compute, &residual_index);
    }
    if (status == dnnl_success)
        status = onednn_matmul_pd(&pd, mds.a, chosen ? mds.b : mds.plain_b, mds.bias, mds.c, attr);
    if (status == dnnl_success) status = onednn_md_query(&mds.packed_b, pd, dnnl_query_weights_md);
    if (status == dnnl_success)
        status = onednn_md_query(&mds.scratch, pd, dnnl_query_scratchpad_md);
    if (status == dnnl_success) status = onednn_primitive_make(made, pd);
    if (status == dnnl_success) status = make_operands(plan, residual_index, &mds, made);
    if (status == dnnl_success && !plan->settled) status = settle(plan, &mds, residual_index);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    if (attr) (void)dnnl->dnnl_primitive_attr_destroy(attr);
    release_mds(&mds);
    return status;
}

/* One dense a against a constant b, on a processor that multiplies bf16 itself. */
static int fits_narrow(int isa, const dhow_blas_desc *desc) {
#if defined(__x86_64__)
    return isa == CPU_ISA_V4 && __builtin_cpu_supports("avx512bf16") &&
           desc->compute == DHOW_BF16 && desc->dtype_a == DHOW_F32 && desc->dtype_b == DHOW_F32 &&
           desc->dtype_c == DHOW_F32 && (desc->flags & DHOW_BLAS_CONSTANT_B) &&
           !(desc->flags & DHOW_BLAS_TRANSPOSE_A) && desc->batch == 1 && desc->lda == desc->k;
#else
    (void)isa, (void)desc;
    return 0;
#endif
}

/* What multiplies one row at the speed of memory; NULL where there is no such thing. */
static one_row *one_row_of(const cpu_device *device, const dhow_blas_desc *d) {
    if (d->m != 1 || d->alpha != 1.0f || d->beta != 0.0f || (d->flags & DHOW_BLAS_TRANSPOSE_A) ||
        device->backend->one_row == CPU_NEVER)
        return NULL;
    return device->isa == CPU_ISA_V4 ? one_row_v4 : device->isa == CPU_ISA_V3 ? one_row_v3 : NULL;
}

/* Of a matrix whose rows lie beside each other a thread has some rows, which it reads in order, and
 * sums of its own. The number of these parts follows from the matrix alone, as the results do then.
 * Of long rows each thread may as well have some columns. */
static int64_t parts_of_rows(const dhow_blas_desc *d) {
    enum { LONG = 4096, LEAST_ROWS = 128, MOST = 8 };
    int64_t parts = 1;
    if ((d->flags & DHOW_BLAS_TRANSPOSE_B) || d->n >= LONG || d->batch >= MOST) return 1;
    while (parts < MOST && d->k >= 2 * parts * LEAST_ROWS) parts *= 2;
    return parts;
}

/* Sums of all parts but the first, which has c. */
static uint64_t one_row_workspace(const dhow_blas_desc *d) {
    return (uint64_t)(d->batch * (parts_of_rows(d) - 1) * d->n) * sizeof(float);
}

static activate_values *activation_behind(const cpu_device *device, const dhow_blas_desc *d) {
    const int dense = d->ldc == d->n && (d->batch == 1 || d->stride_c == d->m * d->n);
    return dense ? cpu_activation_behind(device, d->activation, d->dtype_c,
                                         (double)d->batch * (double)d->m * (double)d->n)
                 : NULL;
}

/* As bf16 where that is possible, else as it is. */
static int32_t prepare(blas_plan *plan, dhow_error *err) {
    plan->activate = activation_behind(plan->device, &plan->desc);
    plan->narrow = fits_narrow(plan->device->isa, &plan->desc);
    const int32_t status = onednn_work_prepare(&plan->work, err);
    if (status == DHOW_OK || !plan->narrow) return status;
    plan->narrow = 0;
    return onednn_work_prepare(&plan->work, err);
}

/* Another packing of another matrix is another form. */
static int32_t prepare_panels(blas_plan *plan, dhow_error *err) {
    const dhow_blas_desc *d = &plan->desc;
    const dnnl_dims_t floats = {packed_panels(d->n, d->k)};
    plan->packed_bytes = (uint64_t)floats[0] * sizeof(float);
    dnnl_status_t status = matrix_md(&plan->plain_b, d, 1, d->k, d->n, d->ldb, 0,
                                     (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0, dnnl_f32);
    if (status == dnnl_success)
        status = onednn_md_tagged(&plan->packed_b, 1, floats, dnnl_f32, dnnl_a);
    return status == dnnl_success ? DHOW_OK : onednn_fail(err, "a matrix's description", status);
}

static blas_plan *new_plan(cpu_device *device, const dhow_blas_desc *desc, dhow_error *err) {
    const dhow_host *host = device->backend->host;
    blas_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) {
        (void)cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a matmul plan");
        return NULL;
    }
    memset(plan, 0, sizeof *plan);
    plan->device = device;
    plan->desc = *desc;
    return plan;
}

/* Of bytes without VNNI. */
static int32_t make_of_bytes(cpu_device *device, const dhow_blas_desc *desc, void **out_plan,
                             uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes,
                             dhow_error *err) {
    blas_plan *plan = new_plan(device, desc, err);
    if (!plan) return DHOW_OUT_OF_MEMORY;
    const int32_t status =
        cpu_bytes_product(device, desc, &plan->bytes, out_workspace_bytes, out_packed_bytes, err);
    if (status == DHOW_OK) {
        *out_plan = plan;
    } else {
        blas_destroy(plan);
    }
    return status;
}

static int32_t blas_plan_make(void *handle, const dhow_blas_desc *desc, void **out_plan,
                              uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes,
                              dhow_error *err) {
    cpu_device *device = handle;
    *out_plan = NULL;
    *out_workspace_bytes = *out_packed_bytes = 0;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    const dnnl_data_type_t undef = dnnl_data_type_undef;
    if (is_integer(desc) && (device->backend->bytes == CPU_ALWAYS || !onednn_adds_bytes(dnnl)))
        return make_of_bytes(device, desc, out_plan, out_workspace_bytes, out_packed_bytes, err);
    if (!is_integer(desc) &&
        (onednn_type(desc->dtype_a) == undef || onednn_type(desc->dtype_b) == undef ||
         onednn_type(desc->dtype_c) == undef)) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "oneDNN multiplies f32, bf16, f16 and bytes");
    }
    const int plain = fits_plain(desc);
    const int by_panels = !plain && cpu_packs_panels(device, desc);
    if (desc->activation > (plain ? DHOW_ACTIVATION_SILU : DHOW_ACTIVATION_CLIP)) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "activation %u follows a product",
                        desc->activation);
    }
    if ((desc->activation == DHOW_ACTIVATION_RELU || desc->activation == DHOW_ACTIVATION_CLIP) &&
        !plain && !by_panels) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "oneDNN's ReLU is max(x, 0), which makes 0 of a NaN, as clip does");
    }
    if (desc->m == 0 || desc->n == 0 || desc->k == 0 || desc->batch == 0 ||
        (desc->alpha != 1.0f && !plain)) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "empty or scaled products run on the portable kernel");
    }
    blas_plan *plan = new_plan(device, desc, err);
    if (!plan) return DHOW_OUT_OF_MEMORY;
    plan->dnnl = dnnl;
    plan->plain = plain;
    plan->panels = by_panels;
    plan->residual_index = -1;
    onednn_work_init(&plan->work, device,
                     (double)desc->m * (double)desc->n * (double)desc->k * (double)desc->batch);
    plan->work.whole = (desc->flags & DHOW_BLAS_CONSTANT_B) == 0;
    plan->work.make = make_primitive;
    plan->work.plan = plan;
    if (plain) {
        if (one_row_of(device, desc)) plan->workspace_bytes = one_row_workspace(desc);
    } else {
        const int32_t status = by_panels ? prepare_panels(plan, err) : prepare(plan, err);
        if (status != DHOW_OK) {
            blas_destroy(plan);
            return status;
        }
    }
    *out_workspace_bytes = plan->workspace_bytes;
    *out_packed_bytes = plan->packed_bytes;
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t blas_pack(void *handle, void *stream, dhow_buffer b, dhow_buffer packed,
                         dhow_error *err) {
    blas_plan *plan = handle;
    (void)stream;
    if (plan->bytes) {
        cpu_bytes_pack_columns(plan->bytes, onednn_address(b), onednn_address(packed));
        return DHOW_OK;
    }
    if (plan->panels) {
        cpu_panels_pack(plan->device, &plan->desc, onednn_address(b), onednn_address(packed));
    } else {
        const int32_t status = onednn_reorder(plan->device, plan->plain_b, onednn_address(b),
                                              plan->packed_b, onednn_address(packed), err);
        if (status != DHOW_OK || plan->narrow || !onednn_is_of_f32(&plan->desc)) return status;
    }
    cpu_drop_subnormals(onednn_address(packed), (int64_t)(plan->packed_bytes / sizeof(float)));
    return DHOW_OK;
}

static uint64_t blas_packed_form(void *handle) {
    const blas_plan *plan = handle;
    if (plan->bytes) return BYTES_OF_COLUMNS_FORM;
    return onednn_form_of(plan->device, plan->plain_b, plan->packed_b);
}

/* Bias, residual and activation of a few rows. */
static void finish_rows(const blas_plan *plan, float *c, const float *bias, const float *residual) {
    static const char *const kernels[] = {NULL,          "relu_f32", "gelu_f32", "gelu_tanh_f32",
                                          "sigmoid_f32", "tanh_f32", "silu_f32"};
    const dhow_blas_desc *desc = &plan->desc;
    const k_info *activation = desc->activation != DHOW_ACTIVATION_NONE
                                   ? dhow_cpu_kernel(kernels[desc->activation], plan->device->isa)
                                   : NULL;
    for (int64_t r = 0; r < desc->m * desc->batch; r++) {
        const int64_t at = r / desc->m * desc->stride_c + r % desc->m * desc->ldc;
        long long n = desc->n;
        void *row = c + at;
        void *argv[] = {&row, &row, &n};
        for (int64_t i = 0; bias && i < desc->n; i++) c[at + i] += bias[i];
        for (int64_t i = 0; residual && i < desc->n; i++) c[at + i] += residual[at + i];
        if (activation) activation->run(0, 1, argv);
    }
}

/* a as bf16 into the workspace. */
static void narrow_rows(const blas_plan *plan, int threads, const float *a, uint16_t *to) {
    enum { PART = 1 << 14 };
    const k_info *cast = dhow_cpu_kernel("cast_f32_bf16", plan->device->isa);
    const int64_t count = plan->desc.m * plan->desc.k, parts = (count + PART - 1) / PART;
    cpu_shares shares;
    cpu_shares_init(&shares, parts, threads);
#pragma omp parallel num_threads(threads) if (parts > 1)
    CPU_EACH_ITEM(shares, i) {
        long long n = i + 1 < parts ? PART : count - i * PART;
        const float *from = a + i * PART;
        uint16_t *part = to + i * PART;
        void *argv[] = {&from, &part, &n};
        cast->run(0, 1, argv);
    }
}

static void run_one_row(blas_plan *plan, one_row *run, const float *a, const float *b, float *c,
                        float *sums) {
    enum { LINE = 16, CACHED = 1 << 19 /* floats */ };
    const dhow_blas_desc *d = &plan->desc;
    const cpu_region region = onednn_work_begin(&plan->work);
    const int64_t parts = parts_of_rows(d), items = d->batch * parts,
                  blocks = (region.threads + items - 1) / items, lines = (d->n + LINE - 1) / LINE;
#pragma omp parallel for schedule(static) num_threads(region.threads) if (region.threads > 1)
    for (int64_t at = 0; at < items * blocks; at++) {
        const int64_t i = at / blocks / parts, part = at / blocks % parts, block = at % blocks,
                      row = d->k * part / parts, first = lines * block / blocks * LINE,
                      past = lines * (block + 1) / blocks * LINE;
        const one_row_job job = {
            .n = d->n,
            .k = d->k * (part + 1) / parts - row,
            .ldb = d->ldb,
            .transposed = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0,
            .cached = d->n * d->k <= CACHED,
            .ahead = plan->device->reads_rows_ahead,
            .a = a + i * d->stride_a + row,
            .b = b + i * d->stride_b + row * d->ldb,
            .c = part == 0 ? c + i * d->stride_c : sums + (i * (parts - 1) + part - 1) * d->n};
        run(&job, first, past < d->n ? past : d->n);
    }
    for (int64_t i = 0; i < d->batch * (parts - 1); i++) {
        float *to = c + i / (parts - 1) * d->stride_c;
        for (int64_t k = 0; k < d->n; k++) to[k] += sums[i * d->n + k];
    }
    onednn_work_end(&plan->work, &region);
}

static int32_t run_plain(blas_plan *plan, const float *a, const float *b, float *c,
                         float *workspace, dhow_error *err) {
    const dhow_blas_desc *desc = &plan->desc;
    one_row *run = one_row_of(plan->device, desc);
    if (run) {
        run_one_row(plan, run, a, b, c, workspace);
        return DHOW_OK;
    }
    panels *by_panels = cpu_panels(plan->device, desc->m, desc->n, desc->k);
    if (by_panels) {
        cpu_panels_run(by_panels, &plan->work, desc, a, b, c);
        return DHOW_OK;
    }
    const char transpose_a = desc->flags & DHOW_BLAS_TRANSPOSE_A ? 'T' : 'N';
    const char transpose_b = desc->flags & DHOW_BLAS_TRANSPOSE_B ? 'T' : 'N';
    dnnl_status_t status = dnnl_success;
    cpu_region region = onednn_work_begin(&plan->work);
    const int before = onednn_threads_enter(onednn_work_threads(&plan->work, &region));
    for (int64_t i = 0; i < desc->batch && status == dnnl_success; i++) {
        status =
            plan->dnnl->dnnl_sgemm(transpose_a, transpose_b, desc->m, desc->n, desc->k, desc->alpha,
                                   a + i * desc->stride_a, desc->lda, b + i * desc->stride_b,
                                   desc->ldb, desc->beta, c + i * desc->stride_c, desc->ldc);
    }
    onednn_threads_leave(before);
    onednn_work_end(&plan->work, &region);
    return status == dnnl_success ? DHOW_OK : onednn_fail(err, "sgemm", status);
}

static int32_t blas_run(void *handle, void *stream, dhow_buffer a, dhow_buffer b, dhow_buffer c,
                        dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                        dhow_error *err) {
    blas_plan *plan = handle;
    if (plan->bytes)
        return cpu_bytes.run(plan->bytes, stream, a, b, c, bias, residual, workspace, err);
    (void)stream;
    const float *row = plan->desc.flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL,
                *added =
                    plan->desc.flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL;
    if (plan->panels) {
        cpu_packed_run(&plan->work, &plan->desc, onednn_address(a), onednn_address(b),
                       onednn_address(c), row, added);
        return DHOW_OK;
    }
    if (plan->plain) {
        const int32_t status =
            run_plain(plan, onednn_address(a), onednn_address(b), onednn_address(c),
                      plan->workspace_bytes > 0 ? onednn_address(workspace) : NULL, err);
        if (status == DHOW_OK) finish_rows(plan, onednn_address(c), row, added);
        return status;
    }
    void *addresses[ONEDNN_OPERANDS] = {onednn_address(a), onednn_address(b), onednn_address(c),
                                        onednn_address(workspace)};
    int count = 4;
    if (plan->desc.flags & DHOW_EPILOGUE_BIAS) addresses[count++] = onednn_address(bias);
    if (plan->residual_index >= 0) addresses[count++] = onednn_address(residual);
    cpu_region region = onednn_work_begin(&plan->work);
    if (plan->narrow) {
        char *room = onednn_address(workspace);
        narrow_rows(plan, region.threads, onednn_address(a),
                    (uint16_t *)(void *)(room + plan->narrow_offset));
        addresses[0] = room + plan->narrow_offset;
    }
    const int32_t status = onednn_work_run(&plan->work, &region, addresses, err);
    if (status == DHOW_OK && plan->activate) {
        const dhow_blas_desc *d = &plan->desc;
        const cpu_activation activation = {d->activation, d->activation_alpha, d->activation_beta};
        cpu_activate(plan->activate, &activation, onednn_address(c), NULL, d->batch * d->m * d->n,
                     region.threads);
    }
    onednn_work_end(&plan->work, &region);
    return status;
}

static const dhow_blas table = {.struct_size = (uint32_t)sizeof(dhow_blas),
                                .minor = 2,
                                .plan = blas_plan_make,
                                .pack = blas_pack,
                                .run = blas_run,
                                .destroy = blas_destroy,
                                .packed_form = blas_packed_form};

const dhow_blas *cpu_blas(void) { return &table; }
