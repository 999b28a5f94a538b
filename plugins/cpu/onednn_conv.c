/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.conv/1" over oneDNN. Between the steps of a plan an image may keep the channel-blocked
 * layout that oneDNN likes best.
 */
#include <string.h>

#include "onednn.h"

static const struct {
    uint32_t layout;
    dnnl_format_tag_t tag;
} layouts[] = {{DHOW_LAYOUT_NCHW, dnnl_nchw},
               {DHOW_LAYOUT_NHWC, dnnl_nhwc},
               {DHOW_LAYOUT_BLOCKS_16, dnnl_nChw16c},
               {DHOW_LAYOUT_BLOCKS_8, dnnl_nChw8c},
               {DHOW_LAYOUT_BLOCKS_4, dnnl_nChw4c}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* The residual as a binary post-op, or as what y holds before. */
typedef enum residual_form { RESIDUAL_BINARY, RESIDUAL_SUM } residual_form;

typedef struct conv_plan {
    const dhow_conv *table;
    cpu_device *device;
    const onednn_library *dnnl;
    dhow_conv_desc desc;
    int settled; /* info and the descriptors are what the first primitive chose */
    dhow_conv_plan_info info;
    onednn_md x, y, plain_weight, packed_weight;
    activate_values *activate; /* behind the primitive; NULL where the primitive does it */
    int adds;                  /* the residual as well */
    residual_form residual;    /* where the primitive adds it */
    onednn_work work;
} conv_plan;

static dnnl_format_tag_t tag_of(uint32_t layout) {
    for (int i = 0; i < LAYOUTS; i++) {
        if (layouts[i].layout == layout) return layouts[i].tag;
    }
    return layout == DHOW_LAYOUT_ANY ? dnnl_format_tag_any : dnnl_format_tag_undef;
}

/* The number of the layout that was asked for or that oneDNN chose, DHOW_LAYOUT_ANY for one that
 * has none. One channel lies alike in several: the one asked for is the answer then. */
static uint32_t layout_of(const onednn_library *dnnl, onednn_md md, const dnnl_dims_t dims,
                          dnnl_data_type_t type, uint32_t asked) {
    uint32_t found = asked;
    for (int i = 0; i < LAYOUTS && found == DHOW_LAYOUT_ANY; i++) {
        onednn_md candidate;
        memset(&candidate, 0, sizeof candidate);
        if (onednn_md_tagged(&candidate, 4, dims, type, layouts[i].tag) == dnnl_success &&
            dnnl->dnnl_memory_desc_equal(MD(md), MD(candidate))) {
            found = layouts[i].layout;
        }
        onednn_md_release(&candidate);
    }
    return found;
}

static void conv_destroy(void *handle) {
    conv_plan *plan = handle;
    const dhow_host *host = plan->device->backend->host;
    onednn_work_release(&plan->work);
    onednn_md_release(&plan->x);
    onednn_md_release(&plan->y);
    onednn_md_release(&plan->plain_weight);
    onednn_md_release(&plan->packed_weight);
    host->free(host->user, plan);
}

typedef struct conv_mds {
    onednn_md x, y, plain_weight, weight, packed_weight, bias, scratch;
    dnnl_dims_t x_dims, y_dims;
} conv_mds;

/* By its tag a layout is ambiguous where an extent is 1. */
static dnnl_status_t copy_settled(const conv_plan *plan, conv_mds *mds) {
    dnnl_status_t status = onednn_md_copy(&mds->x, plan->x);
    if (status == dnnl_success) status = onednn_md_copy(&mds->y, plan->y);
    if (status == dnnl_success) status = onednn_md_copy(&mds->weight, plan->packed_weight);
    return status;
}

static dnnl_status_t describe(const conv_plan *plan, conv_mds *mds, onednn_conv_shape *shape) {
    const dhow_conv_desc *d = &plan->desc;
    const dnnl_data_type_t type = onednn_type(d->dtype), weight_type = onednn_type(d->weight_dtype);
    const int rank = d->groups > 1 ? 5 : 4;
    const dnnl_dims_t flat = {d->k, d->c, d->kh, d->kw};
    const dnnl_dims_t grouped = {d->groups, d->k / d->groups, d->c / d->groups, d->kh, d->kw};
    const dnnl_dims_t x_dims = {d->n, d->c, d->h, d->w}, bias_dims = {d->k};
    const dnnl_dims_t y_dims = {d->n, d->k, onednn_extent(d, 0), onednn_extent(d, 1)};
    memcpy(mds->x_dims, x_dims, sizeof x_dims);
    memcpy(mds->y_dims, y_dims, sizeof y_dims);
    for (int i = 0; i < 2; i++) {
        shape->strides[i] = d->stride[i];
        shape->dilates[i] = d->dilation[i] - 1; /* oneDNN counts the gaps */
        shape->pad_begin[i] = d->pad[i];
        shape->pad_end[i] = d->pad[i + 2];
    }
    const dnnl_format_tag_t plain = rank == 5 ? dnnl_goihw : dnnl_oihw;
    const dnnl_dim_t *weight_dims = rank == 5 ? grouped : flat;
    dnnl_status_t status = dnnl_success;
    if (d->flags & DHOW_EPILOGUE_BIAS)
        status = onednn_md_tagged(&mds->bias, 1, bias_dims, type, dnnl_a);
    if (status != dnnl_success || plan->settled)
        return status != dnnl_success ? status : copy_settled(plan, mds);
    status = onednn_md_tagged(&mds->x, 4, x_dims, type, tag_of(d->src_layout));
    if (status == dnnl_success)
        status = onednn_md_tagged(&mds->y, 4, y_dims, type, tag_of(d->dst_layout));
    if (status == dnnl_success) {
        status = onednn_md_tagged(&mds->plain_weight, rank, weight_dims, weight_type, plain);
    }
    if (status == dnnl_success) {
        status = onednn_md_tagged(&mds->weight, rank, weight_dims, weight_type,
                                  d->flags & DHOW_BLAS_CONSTANT_B ? dnnl_format_tag_any : plain);
    }
    return status;
}

static dnnl_status_t make_operands(const conv_plan *plan, int residual_index, const conv_mds *mds,
                                   onednn_primitive *made) {
    dnnl_status_t status = onednn_primitive_operand(made, DNNL_ARG_SRC, mds->x);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_WEIGHTS, mds->packed_weight);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_DST, mds->y);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_SCRATCHPAD, mds->scratch);
    if (status == dnnl_success && (plan->desc.flags & DHOW_EPILOGUE_BIAS)) {
        status = onednn_primitive_operand(made, DNNL_ARG_BIAS, mds->bias);
    }
    if (status == dnnl_success && residual_index >= 0) {
        status = onednn_primitive_operand(
            made, DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_index) | DNNL_ARG_SRC_1, mds->y);
    }
    return status;
}

/* Whether oneDNN has nothing better than its reference loops: ours are faster. */
static int is_reference(dnnl_primitive_desc_t pd) { return onednn_is_called(pd, "ref"); }

/* Wrong elements are added by a binary post-op, with oneDNN 2.6, of convolutions by "gemm" to
 * images that are not NCHW (467 of 4116 shapes), of those of bf16 with 1x1 windows (3, 5 or 17
 * channels of 6x5 pixels), and of depthwise ones to single pixels of more than 16 channels, which
 * it takes for numbers by channel. Sums are right. */
static int adds_wrong(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return onednn_is_called(pd, "gemm") || onednn_is_called(pd, "bf16_1x1") ||
           onednn_extent(d, 0) * onednn_extent(d, 1) == 1;
}

/* With AVX-512 oneDNN's best code for windows of one pixel in NHWC, "brgconv_1x1", has no binary
 * post-op; what it takes instead, "jit_1x1", needs 1.1 to 1.8 times as long where the weight is
 * larger than the second cache. Below that a copy of the residual costs more. */
static int adds_slowly(const conv_plan *plan, dnnl_primitive_desc_t pd) {
    const dhow_conv_desc *d = &plan->desc;
    enum { LARGE = 1 << 19 };
    return plan->device->isa == CPU_ISA_V4 && d->dtype == DHOW_F32 &&
           d->dst_layout == DHOW_LAYOUT_NHWC && d->c * d->k >= LARGE &&
           onednn_is_called(pd, "jit_1x1");
}

/* Products of one channel's windows are too narrow for "gemm": with oneDNN 2.6 and AVX2 they take
 * four to six times as long as dhow's own kernel. */
static int is_slow(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return d->c == 1 && d->kh * d->kw > 1 && onednn_is_called(pd, "gemm");
}

/* With AVX2 "gemm" does what follows its products one value after the other, for six times as long
 * as they take. */
static int ends_slowly(const conv_plan *plan, dnnl_primitive_desc_t pd) {
    const dhow_conv_desc *d = &plan->desc;
    const int follows = (d->flags & DHOW_EPILOGUE_RESIDUAL) ||
                        (!plan->activate && d->activation != DHOW_ACTIVATION_NONE);
    return plan->device->isa == CPU_ISA_V3 && !plan->adds && follows && d->dtype == DHOW_F32 &&
           (plan->activate || cpu_activates(d->activation)) && onednn_is_called(pd, "gemm");
}

static int is_unfit(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return is_reference(pd) || is_slow(pd, d) || onednn_conv_is_wrong(pd, d);
}

/* Replaces "any" by what the primitive chose. */
static dnnl_status_t query(dnnl_primitive_desc_t pd, conv_mds *mds) {
    onednn_md_release(&mds->x);
    onednn_md_release(&mds->y);
    dnnl_status_t status = onednn_md_query(&mds->x, pd, dnnl_query_src_md);
    if (status == dnnl_success) status = onednn_md_query(&mds->y, pd, dnnl_query_dst_md);
    if (status == dnnl_success)
        status = onednn_md_query(&mds->packed_weight, pd, dnnl_query_weights_md);
    if (status == dnnl_success)
        status = onednn_md_query(&mds->scratch, pd, dnnl_query_scratchpad_md);
    return status;
}

/* What the first primitive of a plan chose holds for all. */
static dnnl_status_t settle(conv_plan *plan, const conv_mds *mds) {
    const onednn_library *dnnl = plan->dnnl;
    const dnnl_data_type_t type = onednn_type(plan->desc.dtype);
    dhow_conv_plan_info *info = &plan->info;
    info->src_layout = layout_of(dnnl, mds->x, mds->x_dims, type, plan->desc.src_layout);
    info->dst_layout = layout_of(dnnl, mds->y, mds->y_dims, type, plan->desc.dst_layout);
    if (info->src_layout == DHOW_LAYOUT_ANY || info->dst_layout == DHOW_LAYOUT_ANY)
        return dnnl_unimplemented;
    dnnl_status_t status = onednn_md_copy(&plan->plain_weight, mds->plain_weight);
    if (status == dnnl_success) status = onednn_md_copy(&plan->packed_weight, mds->packed_weight);
    if (status == dnnl_success) status = onednn_md_copy(&plan->x, mds->x);
    if (status == dnnl_success) status = onednn_md_copy(&plan->y, mds->y);
    if (status != dnnl_success) return status;
    info->src_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->x));
    info->dst_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->y));
    info->workspace_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->scratch));
    if ((plan->desc.flags & DHOW_BLAS_CONSTANT_B) &&
        !dnnl->dnnl_memory_desc_equal(MD(mds->packed_weight), MD(mds->plain_weight))) {
        info->packed_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->packed_weight));
    }
    plan->settled = 1;
    return dnnl_success;
}

static dnnl_status_t describe_pd(const conv_plan *plan, const conv_mds *mds,
                                 const onednn_conv_shape *shape, int *residual_index,
                                 dnnl_primitive_desc_t *pd) {
    const dhow_conv_desc *d = &plan->desc;
    const int residual = (d->flags & DHOW_EPILOGUE_RESIDUAL) != 0 && !plan->adds,
              sum = residual && plan->residual == RESIDUAL_SUM;
    const onednn_activation activation = {plan->activate ? DHOW_ACTIVATION_NONE : d->activation,
                                          d->activation_alpha, d->activation_beta};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = onednn_attributes(&attr, sum ? 1.0f : 0.0f, onednn_type(d->dtype),
                                             residual && !sum ? &mds->y : NULL, &activation,
                                             d->compute, residual_index);
    if (status == dnnl_success)
        status = onednn_conv_pd(pd, mds->x, mds->weight, mds->bias, mds->y, shape, attr);
    if (attr) (void)plan->dnnl->dnnl_primitive_attr_destroy(attr);
    return status;
}

static void release_mds(conv_mds *mds) {
    onednn_md_release(&mds->x);
    onednn_md_release(&mds->y);
    onednn_md_release(&mds->plain_weight);
    onednn_md_release(&mds->weight);
    onednn_md_release(&mds->packed_weight);
    onednn_md_release(&mds->bias);
    onednn_md_release(&mds->scratch);
}

static dnnl_status_t make_primitive(void *handle, onednn_primitive *made) {
    conv_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    const onednn_library *dnnl = plan->dnnl;
    dnnl_primitive_desc_t pd = NULL;
    onednn_conv_shape shape;
    conv_mds mds;
    int residual_index = -1;
    memset(&mds, 0, sizeof mds);
    memset(&shape, 0, sizeof shape);
    dnnl_status_t status = describe(plan, &mds, &shape);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_RESIDUAL) &&
        d->dst_layout == DHOW_LAYOUT_ANY) {
        status = dnnl_unimplemented; /* the residual's layout must be known beforehand */
    }
    if (status == dnnl_success) status = describe_pd(plan, &mds, &shape, &residual_index, &pd);
    if (status == dnnl_success && ends_slowly(plan, pd)) {
        (void)dnnl->dnnl_primitive_desc_destroy(pd);
        pd = NULL;
        plan->activate = activate_v3;
        plan->adds = 1;
        status = describe_pd(plan, &mds, &shape, &residual_index, &pd);
    }
    if (status == dnnl_success && residual_index >= 0 &&
        (adds_wrong(pd, d) || adds_slowly(plan, pd))) {
        (void)dnnl->dnnl_primitive_desc_destroy(pd);
        pd = NULL;
        plan->residual = RESIDUAL_SUM; /* of all primitives, whose weight is packed once */
        status = describe_pd(plan, &mds, &shape, &residual_index, &pd);
    }
    if (status == dnnl_success && plan->residual == RESIDUAL_SUM)
        made->summed_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds.y));
    if (status == dnnl_success && is_unfit(pd, d)) status = dnnl_unimplemented; /* ours then */
    if (status == dnnl_success) status = query(pd, &mds);
    if (status == dnnl_success && !plan->settled) status = settle(plan, &mds);
    if (status == dnnl_success)
        status =
            d->groups > 1 ? onednn_primitive_make(made, pd) : onednn_primitive_make_later(made, pd);
    if (status == dnnl_success) status = make_operands(plan, residual_index, &mds, made);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    release_mds(&mds);
    return status;
}

static const dhow_conv convolution;

static int32_t conv_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                              dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    if (onednn_type(d->dtype) == dnnl_data_type_undef ||
        onednn_type(d->weight_dtype) == dnnl_data_type_undef ||
        tag_of(d->src_layout) == dnnl_format_tag_undef ||
        tag_of(d->dst_layout) == dnnl_format_tag_undef) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "oneDNN convolves f32, bf16 and f16 in its own layouts only");
    }
    if (d->depth != 0)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "volumes are not convolved by oneDNN");
    if (cpu_keeps_plain(device, d) || cpu_wants_planes(device, d))
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "these groups are convolved in NCHW");
    if (d->groups > 1 && d->src_layout == DHOW_LAYOUT_NCHW && d->dst_layout == DHOW_LAYOUT_ANY)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "oneDNN convolves groups in blocks of channels");
    conv_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &convolution;
    plan->device = device;
    plan->dnnl = dnnl;
    plan->desc = *d;
    plan->activate = cpu_activation_behind(
        device, d->activation, d->dtype,
        (double)d->n * (double)d->k * (double)onednn_extent(d, 0) * (double)onednn_extent(d, 1));
    plan->info.struct_size = out_info->struct_size;
    onednn_work_init(&plan->work, device, onednn_products(d));
    plan->work.make = make_primitive;
    plan->work.plan = plan;
    const int32_t status = onednn_work_prepare(&plan->work, err);
    if (status != DHOW_OK) {
        conv_destroy(plan);
        return status;
    }
    *out_info = plan->info;
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t conv_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                         dhow_error *err) {
    conv_plan *plan = handle;
    (void)stream;
    const int32_t status = onednn_reorder(plan->device, plan->plain_weight, onednn_address(weight),
                                          plan->packed_weight, onednn_address(packed), err);
    if (status == DHOW_OK && plan->desc.weight_dtype == DHOW_F32 && plan->desc.compute == DHOW_F32)
        cpu_drop_subnormals(onednn_address(packed),
                            (int64_t)(plan->info.packed_bytes / sizeof(float)));
    return status;
}

static int32_t conv_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                        dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                        dhow_buffer workspace, dhow_error *err) {
    conv_plan *plan = handle;
    void *addresses[ONEDNN_OPERANDS] = {onednn_address(x), onednn_address(weight),
                                        onednn_address(y), onednn_address(workspace)};
    int count = 4;
    (void)stream;
    if (plan->desc.flags & DHOW_EPILOGUE_BIAS) addresses[count++] = onednn_address(bias);
    const int adds = (plan->desc.flags & DHOW_EPILOGUE_RESIDUAL) && plan->adds;
    if ((plan->desc.flags & DHOW_EPILOGUE_RESIDUAL) && !adds)
        addresses[count++] = onednn_address(residual);
    cpu_region region = onednn_work_begin(&plan->work);
    const int32_t status = onednn_work_run(&plan->work, &region, addresses, err);
    if (status == DHOW_OK && plan->activate) {
        const dhow_conv_desc *d = &plan->desc;
        const cpu_activation activation = {d->activation, d->activation_alpha, d->activation_beta};
        cpu_activate(plan->activate, &activation, onednn_address(y),
                     adds ? onednn_address(residual) : NULL,
                     (int64_t)(plan->info.dst_bytes / sizeof(float)), region.threads);
    }
    onednn_work_end(&plan->work, &region);
    return status;
}

static int32_t conv_reorder(void *handle, void *stream, int32_t dtype, const int64_t *shape,
                            uint32_t src_layout, dhow_buffer src, uint32_t dst_layout,
                            dhow_buffer dst, dhow_error *err) {
    const dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    const dnnl_data_type_t type = onednn_type(dtype);
    const dnnl_format_tag_t from_tag = tag_of(src_layout), to_tag = tag_of(dst_layout);
    onednn_md from, to;
    (void)stream;
    if (!onednn_open(err)) return DHOW_UNSUPPORTED;
    if (type == dnnl_data_type_undef || from_tag == dnnl_format_tag_undef ||
        to_tag == dnnl_format_tag_undef || from_tag == dnnl_format_tag_any ||
        to_tag == dnnl_format_tag_any) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "cannot change layout %u to %u", src_layout,
                        dst_layout);
    }
    memset(&from, 0, sizeof from);
    memset(&to, 0, sizeof to);
    dnnl_status_t status = onednn_md_tagged(&from, 4, dims, type, from_tag);
    if (status == dnnl_success) status = onednn_md_tagged(&to, 4, dims, type, to_tag);
    const int32_t result =
        status == dnnl_success
            ? onednn_reorder(handle, from, onednn_address(src), to, onednn_address(dst), err)
            : onednn_fail(err, "describing an image", status);
    onednn_md_release(&from);
    onednn_md_release(&to);
    return result;
}

static uint64_t conv_packed_form(void *handle) {
    const conv_plan *plan = handle;
    return onednn_form_of(plan->device, plan->plain_weight, plan->packed_weight);
}

static const dhow_conv convolution = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                      .minor = 1,
                                      .plan = conv_plan_make,
                                      .pack = conv_pack,
                                      .run = conv_run,
                                      .destroy = conv_destroy,
                                      .reorder = conv_reorder,
                                      .packed_form = conv_packed_form};

/* ---- the table ---- */

static const dhow_conv *table_of(const void *plan) { return *(const dhow_conv *const *)plan; }

/* The first of them that computes it, the faster ones in front. */
static int32_t plan_any(void *device, const dhow_conv_desc *desc, void **out_plan,
                        dhow_conv_plan_info *out_info, dhow_error *err) {
    const dhow_conv *const tables[] = {
        &cpu_windows, &onednn_training, &cpu_winograd, &cpu_pixels,
        desc->flags & DHOW_CONV_TRANSPOSED ? &onednn_transposed : &convolution};
    const int count = desc->flags & DHOW_CONV_WEIGHT_GRADIENT ? 2 : 5;
    int32_t status = DHOW_UNSUPPORTED;
    if (desc->src_activation != DHOW_ACTIVATION_NONE)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "images are read as they are");
    if (desc->dst_dtype != 0) {
        const int first = ((cpu_device *)device)->backend->bytes == CPU_ALWAYS;
        const dhow_conv *const of_bytes[] = {first ? &cpu_bytes : &onednn_integers,
                                             first ? &onednn_integers : &cpu_bytes};
        for (int i = 0; i < 2 && status == DHOW_UNSUPPORTED; i++)
            status = of_bytes[i]->plan(device, desc, out_plan, out_info, err);
        return status;
    }
    for (int i = 0; i < count && status == DHOW_UNSUPPORTED; i++)
        status = tables[i]->plan(device, desc, out_plan, out_info, err);
    return status;
}

static int32_t pack_any(void *plan, void *stream, dhow_buffer weight, dhow_buffer packed,
                        dhow_error *err) {
    return table_of(plan)->pack(plan, stream, weight, packed, err);
}

static int32_t run_any(void *plan, void *stream, dhow_buffer x, dhow_buffer weight, dhow_buffer y,
                       dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                       dhow_error *err) {
    return table_of(plan)->run(plan, stream, x, weight, y, bias, residual, workspace, err);
}

static uint64_t packed_form_any(void *plan) {
    const dhow_conv *of = table_of(plan);
    return of->packed_form ? of->packed_form(plan) : 0;
}

static void destroy_any(void *plan) {
    if (plan) table_of(plan)->destroy(plan);
}

static const dhow_conv table = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                .minor = 8,
                                .plan = plan_any,
                                .pack = pack_any,
                                .run = run_any,
                                .destroy = destroy_any,
                                .reorder = conv_reorder,
                                .packed_form = packed_form_any};

const dhow_conv *cpu_conv(void) { return &table; }
