/* SPDX-License-Identifier: Apache-2.0
 *
 * Which products are computed by panels, and on which threads.
 */
#include "onednn.h"
#include "shares.h"

enum { PARTS_PER_THREAD = 4 };

static panels_job job_of(const dhow_blas_desc *d) {
    const int transpose_a = (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0,
              transpose_b = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0;
    return (panels_job){.m = d->m,
                        .n = d->n,
                        .k = d->k,
                        .a_row = transpose_a ? 1 : d->lda,
                        .a_column = transpose_a ? d->lda : 1,
                        .b_row = transpose_b ? 1 : d->ldb,
                        .b_column = transpose_b ? d->ldb : 1,
                        .ldc = d->ldc,
                        .added_row = d->ldc,
                        .alpha = d->alpha,
                        .beta = d->beta};
}

/* ---- of plain matrices ---- */

/* Larger products are worth sgemm's caches and the time that it takes to write its code. */
static const double MOST_BY_PANELS = 1 << 28; /* multiplications */

panels *cpu_panels(const cpu_device *device, int64_t m, int64_t n, int64_t k) {
    if (device->backend->panels == CPU_NEVER || m <= PANELS_FEW_ROWS ||
        (double)m * (double)n * (double)k > MOST_BY_PANELS)
        return NULL;
    return device->isa == CPU_ISA_V4 ? panels_v4 : device->isa == CPU_ISA_V3 ? panels_v3 : NULL;
}

/* A thread has some panels of an entry; rows are divided where there are few panels. */
void cpu_panels_run(panels *run, onednn_work *work, const dhow_blas_desc *d, const float *a,
                    const float *b, float *c) {
    enum { LEAST_ROWS = 24 };
    const cpu_region region = onednn_work_begin(work);
    const int64_t across = (d->n + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
                  wanted = (int64_t)region.threads * PARTS_PER_THREAD / (across * d->batch) + 1,
                  rows = d->m / wanted > LEAST_ROWS ? (d->m + wanted - 1) / wanted : d->m,
                  down = (d->m + rows - 1) / rows;
    cpu_shares shares;
    cpu_shares_init(&shares, d->batch * down * across, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, part) {
        const int64_t i = part / (down * across), row = part / across % down * rows,
                      column = part % across * PANEL_COLUMNS;
        panels_job job = job_of(d);
        job.m = d->m - row < rows ? d->m - row : rows;
        job.a = a + i * d->stride_a + row * job.a_row;
        job.b = b + i * d->stride_b;
        job.c = c + i * d->stride_c + row * d->ldc;
        job.added = d->beta != 0 ? job.c : NULL;
        run(&job, column, column + PANEL_COLUMNS < d->n ? column + PANEL_COLUMNS : d->n);
    }
    onednn_work_end(work, &region);
}

/* ---- of a constant b, which is packed ---- */

/* With AVX2 alone oneDNN's matrices are those of its sgemm, which loses half of its time where rows
 * lie 2048 floats apart, and cannot end with any activation. */
int cpu_packs_panels(const cpu_device *device, const dhow_blas_desc *d) {
    const int shared = d->batch == 1 || d->stride_b == 0;
    return device->isa == CPU_ISA_V3 && device->backend->panels != CPU_NEVER &&
           onednn_is_of_f32(d) && shared && cpu_ends_with(d->activation) &&
           (d->flags & DHOW_BLAS_CONSTANT_B) && d->m > PANELS_FEW_ROWS && d->alpha == 1.0f &&
           d->beta == 0.0f;
}

void cpu_panels_pack(cpu_device *device, const dhow_blas_desc *d, const float *b, float *packed) {
    panels_job job = job_of(d);
    cpu_region region = cpu_region_begin(&device->team);
    job.b = b;
#pragma omp parallel for schedule(static) num_threads(region.threads) if (region.threads > 1)
    for (int64_t at = 0; at < d->n; at += PANEL_COLUMNS)
        pack_panels_v3(&job, at, at + PANEL_COLUMNS < d->n ? at + PANEL_COLUMNS : d->n, packed);
    cpu_region_end(&device->team, &region, 0);
}

/* Blocks of rows stay in the second cache, and a few rows are no block of their own: that would
 * read all of b again. */
static int64_t block_rows(int64_t m) {
    enum { BLOCK = 192, TILE = 6 };
    const int64_t down = m < BLOCK + BLOCK / 2 ? 1 : (m + BLOCK / 2) / BLOCK;
    return ((m + down - 1) / down + TILE - 1) / TILE * TILE;
}

/* A part is a block of rows and all panels: fewer of them where that makes too few parts. */
void cpu_packed_run(onednn_work *work, const dhow_blas_desc *d, const float *a, const float *packed,
                    float *c, const float *bias, const float *residual) {
    const cpu_activation activation = {d->activation, d->activation_alpha, d->activation_beta};
    const cpu_region region = onednn_work_begin(work);
    const int64_t rows = block_rows(d->m), down = (d->m + rows - 1) / rows,
                  blocks = d->batch * down, pairs = (d->n + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
                  each = onednn_part_of(&region, blocks, pairs), across = (pairs + each - 1) / each;
    cpu_shares shares;
    cpu_shares_init(&shares, blocks * across, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, part) {
        const int64_t entry = part / across / down, row = part / across % down * rows,
                      first = part % across * each * PANEL_COLUMNS,
                      end =
                          first + each * PANEL_COLUMNS < d->n ? first + each * PANEL_COLUMNS : d->n,
                      at = entry * d->stride_c + row * d->ldc;
        panels_job job = job_of(d);
        job.m = d->m - row < rows ? d->m - row : rows;
        job.a = a + entry * d->stride_a + row * job.a_row;
        job.packed = packed;
        job.c = c + at;
        job.bias = bias;
        job.added = residual ? residual + at : NULL;
        job.beta = 1;
        job.relu = d->activation == DHOW_ACTIVATION_RELU;
        panels_v3(&job, first, end);
        if (!job.relu && d->activation != DHOW_ACTIVATION_NONE) /* what was just computed */
            activate_rows(activate_v3, job.c + first, d->ldc, job.m, end - first, &activation);
    }
    onednn_work_end(work, &region);
}
