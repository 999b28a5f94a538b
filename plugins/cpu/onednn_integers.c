/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised images: sums of products of bytes, which VNNI adds up as 32 bits, with
 * scales, biases and all that follows as oneDNN's post-ops. Channels lie innermost: oneDNN has
 * nothing but reference loops for others.
 */
#include <string.h>

#include "onednn.h"

/* A second operand of a post-op. */
typedef enum operand_kind { OPERAND_ROW, OPERAND_RESIDUAL, OPERAND_NUMBER } operand_kind;
enum { MOST_EXTRAS = 1 + 2 * DHOW_CONV_TAIL };

/* What follows a sum as post-ops. oneDNN (2.6) keeps the numbers of one elementwise operation of a
 * kind, so that only the first linear one and the first clip of a tail are such; others are sums
 * and products with single numbers. */
typedef struct post_ops {
    dnnl_post_ops_t list;
    int count; /* of post-ops */
    int has_linear, has_clip;
    int extras, numbers;
    struct {
        operand_kind kind;
        int index; /* of its post-op */
        uint32_t row;
    } extra[MOST_EXTRAS];
    float number[MOST_EXTRAS];
} post_ops;

typedef struct integer_plan {
    const dhow_conv *table;
    cpu_device *device;
    const onednn_library *dnnl;
    dhow_conv_desc desc;
    int settled; /* info, packed_weight and ops are what the first primitive chose */
    dhow_conv_plan_info info;
    onednn_md plain_weight, packed_weight;
    post_ops ops; /* without the list */
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

static int has_zero(const dhow_conv_desc *d) {
    return d->src_zero != 0 || (d->flags & DHOW_CONV_ZERO_GIVEN) != 0;
}

/* oneDNN 3 reads all zero points when it runs, oneDNN 2 those that were not told before. */
#if DNNL_VERSION_MAJOR == 2
static int reads_zero(const dhow_conv_desc *d) { return (d->flags & DHOW_CONV_ZERO_GIVEN) != 0; }
static dnnl_status_t set_src_zero(dnnl_primitive_attr_t attr, const dhow_conv_desc *d) {
    const int32_t zero = reads_zero(d) ? DNNL_RUNTIME_S32_VAL : d->src_zero;
    return onednn_loaded.dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &zero);
}
#else
static int reads_zero(const dhow_conv_desc *d) { return has_zero(d); }
static dnnl_status_t set_src_zero(dnnl_primitive_attr_t attr, const dhow_conv_desc *d) {
    (void)d;
    return onednn_loaded.dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0);
}
#endif

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

typedef struct integer_mds {
    onednn_md x, y, plain_weight, weight, packed_weight, bias, row, residual, number, scratch;
} integer_mds;

static void release_mds(integer_mds *mds) {
    onednn_md *const all[] = {&mds->x,      &mds->y,       &mds->plain_weight,  &mds->weight,
                              &mds->bias,   &mds->row,     &mds->packed_weight, &mds->scratch,
                              &mds->number, &mds->residual};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) onednn_md_release(all[i]);
}

static onednn_md md_of(const integer_mds *mds, operand_kind kind) {
    return kind == OPERAND_ROW ? mds->row : kind == OPERAND_RESIDUAL ? mds->residual : mds->number;
}

static dnnl_status_t append_binary(post_ops *p, const integer_mds *mds, dnnl_alg_kind_t kind,
                                   operand_kind operand, uint32_t row) {
    onednn_md md = md_of(mds, operand);
    if (p->extras == MOST_EXTRAS) return dnnl_unimplemented;
    p->extra[p->extras].kind = operand;
    p->extra[p->extras].row = row;
    p->extra[p->extras++].index = p->count++;
    return onednn_loaded.dnnl_post_ops_append_binary(p->list, kind, MD(md));
}

static dnnl_status_t append_number(post_ops *p, const integer_mds *mds, dnnl_alg_kind_t kind,
                                   float number) {
    if (p->numbers == MOST_EXTRAS) return dnnl_unimplemented;
    p->number[p->numbers++] = number;
    return append_binary(p, mds, kind, OPERAND_NUMBER, 0);
}

static dnnl_status_t append_linear(post_ops *p, const integer_mds *mds, float alpha, float beta) {
    dnnl_status_t status = dnnl_success;
    if (!p->has_linear) {
        p->has_linear = 1;
        p->count++;
        return onednn_append_eltwise(p->list, dnnl_eltwise_linear, alpha, beta);
    }
    if (alpha != 1.0f) status = append_number(p, mds, dnnl_binary_mul, alpha);
    if (status == dnnl_success && beta != 0.0f)
        status = append_number(p, mds, dnnl_binary_add, beta);
    return status;
}

static dnnl_status_t append_clip(post_ops *p, const integer_mds *mds, float low, float high) {
    if (!p->has_clip) {
        p->has_clip = 1;
        p->count++;
        return onednn_append_eltwise(p->list, dnnl_eltwise_clip, low, high);
    }
    const dnnl_status_t status = append_number(p, mds, dnnl_binary_max, low);
    return status == dnnl_success ? append_number(p, mds, dnnl_binary_min, high) : status;
}

static dnnl_status_t append_tail(post_ops *p, const dhow_conv_tail *tail, const integer_mds *mds) {
    switch (tail->kind) {
        case DHOW_TAIL_LINEAR:
            return append_linear(p, mds, tail->alpha, tail->beta);
        case DHOW_ACTIVATION_CLIP:
            return append_clip(p, mds, tail->alpha, tail->beta);
        case DHOW_TAIL_RESIDUAL:
            return append_binary(p, mds, dnnl_binary_add, OPERAND_RESIDUAL, 0);
        case DHOW_TAIL_MULTIPLY:
            return append_binary(p, mds, dnnl_binary_mul, OPERAND_ROW, tail->row);
        case DHOW_TAIL_ADD:
            return append_binary(p, mds, dnnl_binary_add, OPERAND_ROW, tail->row);
        case DHOW_TAIL_ROUND:
            p->count++;
            return onednn_append_eltwise(p->list, dnnl_eltwise_round, 0.0f, 0.0f);
        case DHOW_ACTIVATION_NONE:
            return dnnl_success;
        default:
            p->count++;
            return onednn_append_activation(
                p->list, &(const onednn_activation){tail->kind, tail->alpha, tail->beta});
    }
}

/* A leaky ReLU and another one are of one kind. */
static int has_two_slopes(const dhow_conv_desc *d) {
    int leaky = 0, others = 0;
    for (uint32_t i = 0; i < d->tail_count; i++) {
        leaky += d->tail[i].kind == DHOW_ACTIVATION_LEAKY_RELU;
        others += d->tail[i].kind == DHOW_ACTIVATION_RELU;
    }
    return leaky > 1 || (leaky > 0 && others > 0);
}

static dnnl_status_t append_all(post_ops *p, const dhow_conv_desc *d, const integer_mds *mds) {
    dnnl_status_t status = has_two_slopes(d) ? dnnl_unimplemented : dnnl_success;
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = append_binary(p, mds, dnnl_binary_mul, OPERAND_ROW, 1);
    for (uint32_t i = 0; i < d->tail_count && status == dnnl_success; i++)
        status = append_tail(p, &d->tail[i], mds);
    return status;
}

static dnnl_status_t make_attributes(const dhow_conv_desc *d, const integer_mds *mds, post_ops *ops,
                                     dnnl_primitive_attr_t *attr) {
    const onednn_library *dnnl = &onednn_loaded;
    memset(ops, 0, sizeof *ops);
    dnnl_status_t status = dnnl->dnnl_primitive_attr_create(attr);
    if (status == dnnl_success)
        status = dnnl->dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && has_zero(d)) status = set_src_zero(*attr, d);
    if (status == dnnl_success) status = dnnl->dnnl_post_ops_create(&ops->list);
    if (status == dnnl_success) status = append_all(ops, d, mds);
    if (status == dnnl_success) status = dnnl->dnnl_primitive_attr_set_post_ops(*attr, ops->list);
    if (ops->list) (void)dnnl->dnnl_post_ops_destroy(ops->list);
    ops->list = NULL;
    return status;
}

/* ---- primitives ---- */

static dnnl_status_t describe_images(const dhow_conv_desc *d, integer_mds *mds) {
    const dnnl_dims_t x_dims = {d->n, d->c, d->h, d->w};
    const dnnl_dims_t y_dims = {d->n, d->k, onednn_extent(d, 0), onednn_extent(d, 1)};
    const dnnl_dims_t bias_dims = {d->k}, row_dims = {1, d->k, 1, 1}, one = {1, 1, 1, 1};
    dnnl_status_t status = onednn_md_tagged(&mds->x, 4, x_dims, type_of(d->dtype), dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_md_tagged(&mds->y, 4, y_dims, type_of(d->dst_dtype), dnnl_nhwc);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_md_tagged(&mds->bias, 1, bias_dims, dnnl_f32, dnnl_a);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_md_tagged(&mds->row, 4, row_dims, dnnl_f32, dnnl_nchw);
    if (status == dnnl_success)
        status = onednn_md_tagged(&mds->number, 4, one, dnnl_f32, dnnl_nchw);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_RESIDUAL))
        status = onednn_md_tagged(&mds->residual, 4, y_dims, type_of(d->residual_dtype), dnnl_nhwc);
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
static dnnl_status_t make_operands(const dhow_conv_desc *d, const post_ops *ops,
                                   const integer_mds *mds, onednn_primitive *made) {
    dnnl_status_t status = onednn_primitive_operand(made, DNNL_ARG_SRC, mds->x);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_WEIGHTS, mds->packed_weight);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_DST, mds->y);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_SCRATCHPAD, mds->scratch);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_primitive_operand(made, DNNL_ARG_BIAS, mds->bias);
    for (int i = 0; i < ops->extras && status == dnnl_success; i++)
        status = onednn_primitive_operand(
            made, DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops->extra[i].index) | DNNL_ARG_SRC_1,
            md_of(mds, ops->extra[i].kind));
    return status == dnnl_success && reads_zero(d) ? add_src_zero(made) : status;
}

/* What the first primitive of a plan chose holds for all. */
static dnnl_status_t settle(integer_plan *plan, const integer_mds *mds, const post_ops *ops) {
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
    plan->ops = *ops;
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

/* For some shapes in groups oneDNN (2.6) has a description, and fails to write the code. */
static dnnl_status_t make_code(const dhow_conv_desc *d, onednn_primitive *made,
                               dnnl_primitive_desc_t pd) {
    if (d->groups <= 1) return onednn_primitive_make_later(made, pd);
    const dnnl_status_t status = onednn_primitive_make(made, pd);
    return status == dnnl_runtime_error ? dnnl_unimplemented : status;
}

static dnnl_status_t make_primitive(void *handle, onednn_primitive *made) {
    integer_plan *plan = handle;
    const onednn_library *dnnl = plan->dnnl;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    onednn_conv_shape shape;
    integer_mds mds;
    post_ops ops;
    memset(&mds, 0, sizeof mds);
    take_shape(&plan->desc, &shape);
    dnnl_status_t status = describe_images(&plan->desc, &mds);
    if (status == dnnl_success) status = describe_weight(plan, &mds);
    if (status == dnnl_success) status = make_attributes(&plan->desc, &mds, &ops, &attr);
    if (status == dnnl_success)
        status = onednn_conv_pd(&pd, mds.x, mds.weight, mds.bias, mds.y, &shape, attr);
    if (status == dnnl_success &&
        (onednn_is_called(pd, "ref") || onednn_conv_is_wrong(pd, &plan->desc) ||
         onednn_integers_are_wrong(&plan->desc)))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = onednn_md_query(&mds.packed_weight, pd, dnnl_query_weights_md);
    if (status == dnnl_success)
        status = onednn_md_query(&mds.scratch, pd, dnnl_query_scratchpad_md);
    if (status == dnnl_success && !plan->settled) status = settle(plan, &mds, &ops);
    if (status == dnnl_success) status = make_code(&plan->desc, made, pd);
    if (status == dnnl_success) status = make_operands(&plan->desc, &ops, &mds, made);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    if (attr) (void)dnnl->dnnl_primitive_attr_destroy(attr);
    release_mds(&mds);
    return status;
}

/* ---- the table's slots ---- */

static int is_channels_last(uint32_t layout) {
    return layout == DHOW_LAYOUT_ANY || layout == DHOW_LAYOUT_NHWC;
}

int onednn_is_of_bytes(const dhow_conv_desc *d) {
    const int bias = (d->flags & DHOW_EPILOGUE_BIAS) != 0,
              given = (d->flags & DHOW_CONV_ZERO_GIVEN) != 0,
              residual = (d->flags & DHOW_EPILOGUE_RESIDUAL) != 0;
    const int ends = d->dst_dtype == DHOW_I32
                         ? !bias && !residual && d->tail_count == 0
                         : bias && (d->dst_dtype == DHOW_F32 || onednn_is_byte(d->dst_dtype));
    return onednn_is_byte(d->dtype) && ends && !(given && residual) &&
           (!residual || d->residual_dtype == DHOW_F32 || onednn_is_byte(d->residual_dtype)) &&
           d->tail_count <= DHOW_CONV_TAIL && (d->flags & DHOW_BLAS_CONSTANT_B) && d->depth == 0 &&
           is_channels_last(d->src_layout) && is_channels_last(d->dst_layout);
}

static int32_t integers_plan(void *handle, const dhow_conv_desc *d, void **out_plan,
                             dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    if (!onednn_adds_bytes(dnnl) || !onednn_is_of_bytes(d) || d->weight_dtype != DHOW_I8)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "oneDNN convolves images of bytes with VNNI, constant weights and channels "
                        "last");
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
    if (d->flags & DHOW_EPILOGUE_BIAS) addresses[count++] = onednn_address(bias);
    for (int i = 0, number = 0; i < plan->ops.extras; i++) {
        const operand_kind kind = plan->ops.extra[i].kind;
        addresses[count++] = kind == OPERAND_ROW ? (float *)onednn_address(bias) +
                                                       (int64_t)plan->ops.extra[i].row * d->k
                             : kind == OPERAND_RESIDUAL ? onednn_address(residual)
                                                        : (void *)&plan->ops.number[number++];
    }
    addresses[count] = !(d->flags & DHOW_CONV_ZERO_GIVEN) ? (void *)&plan->desc.src_zero
                       : d->dst_dtype == DHOW_I32         ? onednn_address(bias)
                                                          : onednn_address(residual);
    cpu_region region = onednn_work_begin(&plan->work);
    const int32_t status = onednn_work_run(&plan->work, &region, addresses, err);
    onednn_work_end(&plan->work, &region);
    return status;
}

static uint64_t integers_packed_form(void *handle) {
    const integer_plan *plan = handle;
    return onednn_form_of(plan->device, plan->plain_weight, plan->packed_weight);
}

const dhow_conv onednn_integers = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                   .minor = 7,
                                   .plan = integers_plan,
                                   .pack = integers_pack,
                                   .run = integers_run,
                                   .destroy = integers_destroy,
                                   .packed_form = integers_packed_form};
