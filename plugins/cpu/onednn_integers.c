/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised images: sums of products of bytes, which VNNI adds up as 32 bits, with
 * scales, biases and all that follows as oneDNN's post-ops. Channels lie innermost: oneDNN has
 * nothing but reference loops for others.
 */
#include <string.h>

#include "onednn.h"

typedef struct integer_plan {
    const dhow_conv *table;
    cpu_device *device;
    const onednn_library *dnnl;
    dhow_conv_desc desc;
    int settled; /* info and packed_weight are what the first primitive chose */
    dhow_conv_plan_info info;
    onednn_md plain_weight, packed_weight;
    onednn_work work;
} integer_plan;

static void integers_destroy(void *handle) {
    integer_plan *plan = handle;
    const dhow_host *host = plan->device->backend->host;
    onednn_work_release(&plan->work);
    onednn_md_release(&plan->plain_weight);
    onednn_md_release(&plan->packed_weight);
    host->free(host->user, plan);
}

static dnnl_data_type_t type_of(int32_t dtype) {
    return dtype == DHOW_U8    ? dnnl_u8
           : dtype == DHOW_I8  ? dnnl_s8
           : dtype == DHOW_I32 ? dnnl_s32
           : dtype == DHOW_F32 ? dnnl_f32
                               : dnnl_data_type_undef;
}

/* ---- attributes ---- */

#if DNNL_VERSION_MAJOR == 2
static dnnl_status_t set_src_zero(dnnl_primitive_attr_t attr, int32_t zero) {
    return onednn_loaded.dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &zero);
}
static dnnl_status_t add_src_zero(onednn_primitive *made) {
    (void)made;
    return dnnl_success;
}
#else
static dnnl_status_t set_src_zero(dnnl_primitive_attr_t attr, int32_t zero) {
    (void)zero;
    return onednn_loaded.dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0);
}
static dnnl_status_t add_src_zero(onednn_primitive *made) {
    const dnnl_dims_t one = {1};
    onednn_md md;
    memset(&md, 0, sizeof md);
    dnnl_status_t status = onednn_md_tagged(&md, 1, one, dnnl_s32, dnnl_a);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, md);
    onednn_md_release(&md);
    return status;
}
#endif

typedef struct integer_mds {
    onednn_md x, y, plain_weight, weight, packed_weight, bias, scale, residual, scratch;
} integer_mds;

static void release_mds(integer_mds *mds) {
    onednn_md *const all[] = {&mds->x,    &mds->y,     &mds->plain_weight, &mds->weight, &mds->bias,
                              &mds->scale, &mds->residual, &mds->packed_weight, &mds->scratch};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) onednn_md_release(all[i]);
}

static dnnl_status_t append_tail(dnnl_post_ops_t ops, const dhow_conv_tail *tail,
                                 const integer_mds *mds) {
    switch (tail->kind) {
        case DHOW_TAIL_LINEAR:
            return onednn_append_eltwise(ops, dnnl_eltwise_linear, tail->alpha, tail->beta);
        case DHOW_TAIL_ROUND:
            return onednn_append_eltwise(ops, dnnl_eltwise_round, 0.0f, 0.0f);
        case DHOW_TAIL_RESIDUAL:
            return onednn_loaded.dnnl_post_ops_append_binary(ops, dnnl_binary_add,
                                                             MD(mds->residual));
        default:
            return onednn_append_activation(
                ops, &(const onednn_activation){tail->kind, tail->alpha, tail->beta});
    }
}

/* *residual_index is the place of the residual among the post-ops, -1 without one. */
static dnnl_status_t append_all(dnnl_post_ops_t ops, const dhow_conv_desc *d,
                                const integer_mds *mds, int *residual_index) {
    dnnl_status_t status = dnnl_success;
    int count = 0;
    *residual_index = -1;
    if (d->flags & DHOW_EPILOGUE_BIAS) {
        status =
            onednn_loaded.dnnl_post_ops_append_binary(ops, dnnl_binary_mul, MD(mds->scale));
        count++;
    }
    for (uint32_t i = 0; i < d->tail_count && status == dnnl_success; i++) {
        if (d->tail[i].kind == DHOW_ACTIVATION_NONE) continue;
        if (d->tail[i].kind == DHOW_TAIL_RESIDUAL) *residual_index = count;
        status = append_tail(ops, &d->tail[i], mds);
        count++;
    }
    return status;
}

static dnnl_status_t make_attributes(const dhow_conv_desc *d, const integer_mds *mds,
                                     int *residual_index, dnnl_primitive_attr_t *attr) {
    const onednn_library *dnnl = &onednn_loaded;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl->dnnl_primitive_attr_create(attr);
    if (status == dnnl_success)
        status = dnnl->dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && d->src_zero != 0) status = set_src_zero(*attr, d->src_zero);
    if (status == dnnl_success) status = dnnl->dnnl_post_ops_create(&ops);
    if (status == dnnl_success) status = append_all(ops, d, mds, residual_index);
    if (status == dnnl_success) status = dnnl->dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) (void)dnnl->dnnl_post_ops_destroy(ops);
    return status;
}

/* ---- primitives ---- */

static dnnl_status_t describe_images(const dhow_conv_desc *d, integer_mds *mds) {
    const dnnl_dims_t x_dims = {d->n, d->c, d->h, d->w};
    const dnnl_dims_t y_dims = {d->n, d->k, onednn_extent(d, 0), onednn_extent(d, 1)};
    const dnnl_dims_t bias_dims = {d->k}, scale_dims = {1, d->k, 1, 1};
    dnnl_status_t status = onednn_md_tagged(&mds->x, 4, x_dims, type_of(d->dtype), dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_md_tagged(&mds->y, 4, y_dims, type_of(d->dst_dtype), dnnl_nhwc);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_md_tagged(&mds->bias, 1, bias_dims, dnnl_f32, dnnl_a);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_md_tagged(&mds->scale, 4, scale_dims, dnnl_f32, dnnl_nchw);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_RESIDUAL))
        status =
            onednn_md_tagged(&mds->residual, 4, y_dims, type_of(d->residual_dtype), dnnl_nhwc);
    return status;
}

static dnnl_status_t describe_weight(const integer_plan *plan, integer_mds *mds) {
    const dhow_conv_desc *d = &plan->desc;
    const int rank = d->groups > 1 ? 5 : 4;
    const dnnl_dims_t flat = {d->k, d->c, d->kh, d->kw};
    const dnnl_dims_t grouped = {d->groups, d->k / d->groups, d->c / d->groups, d->kh, d->kw};
    const dnnl_dim_t *dims = rank == 5 ? grouped : flat;
    if (plan->settled) return onednn_md_copy(&mds->weight, plan->packed_weight);
    dnnl_status_t status = onednn_md_tagged(&mds->plain_weight, rank, dims, dnnl_s8,
                                            rank == 5 ? dnnl_goihw : dnnl_oihw);
    if (status != dnnl_success) return status;
    return onednn_md_tagged(&mds->weight, rank, dims, dnnl_s8, dnnl_format_tag_any);
}

/* As integers_run has their addresses. */
static dnnl_status_t make_operands(const integer_plan *plan, int residual_index,
                                   const integer_mds *mds, onednn_primitive *made) {
    const int scaled = (plan->desc.flags & DHOW_EPILOGUE_BIAS) != 0;
    dnnl_status_t status = onednn_primitive_operand(made, DNNL_ARG_SRC, mds->x);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_WEIGHTS, mds->packed_weight);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_DST, mds->y);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_SCRATCHPAD, mds->scratch);
    if (status == dnnl_success && scaled)
        status = onednn_primitive_operand(made, DNNL_ARG_BIAS, mds->bias);
    if (status == dnnl_success && scaled)
        status = onednn_primitive_operand(
            made, DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, mds->scale);
    if (status == dnnl_success && residual_index >= 0)
        status = onednn_primitive_operand(
            made, DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_index) | DNNL_ARG_SRC_1, mds->residual);
    if (status == dnnl_success && plan->desc.src_zero != 0) status = add_src_zero(made);
    return status;
}

/* What the first primitive of a plan chose holds for all. */
static dnnl_status_t settle(integer_plan *plan, const integer_mds *mds) {
    const onednn_library *dnnl = plan->dnnl;
    dhow_conv_plan_info *info = &plan->info;
    dnnl_status_t status = onednn_md_copy(&plan->plain_weight, mds->plain_weight);
    if (status == dnnl_success) status = onednn_md_copy(&plan->packed_weight, mds->packed_weight);
    if (status != dnnl_success) return status;
    info->src_layout = info->dst_layout = DHOW_LAYOUT_NHWC;
    info->src_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->x));
    info->dst_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->y));
    info->workspace_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->scratch));
    if (!dnnl->dnnl_memory_desc_equal(MD(mds->packed_weight), MD(mds->plain_weight)))
        info->packed_bytes = dnnl->dnnl_memory_desc_get_size(MD(mds->packed_weight));
    plan->settled = 1;
    return dnnl_success;
}

static void take_shape(const dhow_conv_desc *d, onednn_conv_shape *shape) {
    memset(shape, 0, sizeof *shape);
    for (int i = 0; i < 2; i++) {
        shape->strides[i] = d->stride[i];
        shape->dilates[i] = d->dilation[i] - 1; /* oneDNN counts the gaps */
        shape->pad_begin[i] = d->pad[i];
        shape->pad_end[i] = d->pad[i + 2];
    }
}

static dnnl_status_t make_primitive(void *handle, onednn_primitive *made) {
    integer_plan *plan = handle;
    const onednn_library *dnnl = plan->dnnl;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    onednn_conv_shape shape;
    integer_mds mds;
    int residual_index = -1;
    memset(&mds, 0, sizeof mds);
    take_shape(&plan->desc, &shape);
    dnnl_status_t status = describe_images(&plan->desc, &mds);
    if (status == dnnl_success) status = describe_weight(plan, &mds);
    if (status == dnnl_success) status = make_attributes(&plan->desc, &mds, &residual_index, &attr);
    if (status == dnnl_success)
        status = onednn_conv_pd(&pd, mds.x, mds.weight, mds.bias, mds.y, &shape, attr);
    if (status == dnnl_success &&
        (onednn_is_called(pd, "ref") || onednn_conv_is_wrong(pd, &plan->desc)))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = onednn_md_query(&mds.packed_weight, pd, dnnl_query_weights_md);
    if (status == dnnl_success)
        status = onednn_md_query(&mds.scratch, pd, dnnl_query_scratchpad_md);
    if (status == dnnl_success && !plan->settled) status = settle(plan, &mds);
    if (status == dnnl_success) status = onednn_primitive_make(made, pd);
    if (status == dnnl_success) status = make_operands(plan, residual_index, &mds, made);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    if (attr) (void)dnnl->dnnl_primitive_attr_destroy(attr);
    release_mds(&mds);
    return status;
}

/* ---- the table's slots ---- */

static int is_channels_last(uint32_t layout) {
    return layout == DHOW_LAYOUT_ANY || layout == DHOW_LAYOUT_NHWC;
}

static int has_types(const dhow_conv_desc *d) {
    const int to_sums = d->dst_dtype == DHOW_I32 && !(d->flags & DHOW_EPILOGUE_BIAS) &&
                        d->tail_count == 0;
    const int to_values = (d->dst_dtype == DHOW_F32 || d->dst_dtype == DHOW_U8 ||
                           d->dst_dtype == DHOW_I8) &&
                          (d->flags & DHOW_EPILOGUE_BIAS);
    return (d->dtype == DHOW_U8 || d->dtype == DHOW_I8) && d->weight_dtype == DHOW_I8 &&
           (to_sums || to_values) && d->tail_count <= DHOW_CONV_TAIL;
}

static int32_t integers_plan(void *handle, const dhow_conv_desc *d, void **out_plan,
                             dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    if (!onednn_adds_bytes(dnnl) || !has_types(d) || !(d->flags & DHOW_BLAS_CONSTANT_B) ||
        !is_channels_last(d->src_layout) || !is_channels_last(d->dst_layout))
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "oneDNN convolves bytes with VNNI, constant weights and channels last");
    if (d->depth != 0)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "volumes are not convolved by oneDNN");
    integer_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &onednn_integers;
    plan->device = device;
    plan->dnnl = dnnl;
    plan->desc = *d;
    plan->info.struct_size = out_info->struct_size;
    onednn_work_init(&plan->work, device, onednn_products(d));
    plan->work.make = make_primitive;
    plan->work.plan = plan;
    const int32_t status = onednn_work_prepare(&plan->work, err);
    if (status != DHOW_OK) {
        integers_destroy(plan);
        return status;
    }
    *out_info = plan->info;
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t integers_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                             dhow_error *err) {
    integer_plan *plan = handle;
    (void)stream;
    return onednn_reorder(plan->device, plan->plain_weight, onednn_address(weight),
                          plan->packed_weight, onednn_address(packed), err);
}

static int32_t integers_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                            dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                            dhow_buffer workspace, dhow_error *err) {
    integer_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    void *addresses[ONEDNN_OPERANDS] = {onednn_address(x), onednn_address(weight),
                                        onednn_address(y), onednn_address(workspace)};
    int count = 4;
    (void)stream;
    if (d->flags & DHOW_EPILOGUE_BIAS) {
        addresses[count++] = onednn_address(bias);
        addresses[count++] = (float *)onednn_address(bias) + d->k;
    }
    if (d->flags & DHOW_EPILOGUE_RESIDUAL) addresses[count++] = onednn_address(residual);
    addresses[count] = &plan->desc.src_zero;
    cpu_region region = onednn_work_begin(&plan->work);
    const int32_t status = onednn_work_run(&plan->work, &region, addresses, err);
    onednn_work_end(&plan->work, &region);
    return status;
}

const dhow_conv onednn_integers = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                   .minor = 4,
                                   .plan = integers_plan,
                                   .pack = integers_pack,
                                   .run = integers_run,
                                   .destroy = integers_destroy};
