/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of images whose weights change from run to run, of volumes, and the derivatives of
 * both: as oneDNN likes all three tensors, with changes of layout before and after. Only constant
 * weights of volumes can be packed beforehand.
 */
#include <string.h>

#include "onednn.h"

/* The tensors of a convolution, or their derivatives. */
enum { X, WEIGHT, Y, TENSORS };
enum { LINE = 64 };

typedef enum direction { FORWARD, BACK_IMAGE, BACK_WEIGHT, DIRECTIONS } direction;

/* Which tensor each operand of the slots is, and what oneDNN calls the tensors; the last one is the
 * result. */
static const struct {
    int operands[TENSORS];
    int ids[TENSORS];
    dnnl_query_t queries[TENSORS];
} k_roles[DIRECTIONS] = {{{X, WEIGHT, Y},
                          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                          {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}},
                         {{Y, WEIGHT, X},
                          {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                          {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}},
                         {{X, Y, WEIGHT},
                          {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                          {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}}};

typedef struct training_plan training_plan;

/* A tensor as it lies, and as the primitive likes it. */
typedef struct operand {
    training_plan *plan;
    onednn_md plain, liked;
    int is_changed;   /* in each run */
    uint64_t at;      /* of the liked form in the workspace */
    onednn_work work; /* changes the layout, before the primitive or behind it */
} operand;

struct training_plan {
    const dhow_conv *table;
    const onednn_library *dnnl;
    dhow_conv_desc desc;
    direction direction;
    int settled; /* the liked forms are what the first primitive chose */
    operand tensors[TENSORS];
    onednn_md bias;
    onednn_work work;
    uint64_t scratch_bytes, workspace_bytes, packed_bytes; /* packed: 0 without constant weights */
};

/* ---- descriptions ---- */

/* Extents of a tensor or a window: of volumes the depth comes first. */
typedef struct extents {
    dnnl_dims_t dims;
    int rank;
} extents;

static void append(extents *e, const dhow_conv_desc *d, int64_t depth, int64_t h, int64_t w) {
    if (d->depth > 0) e->dims[e->rank++] = depth;
    e->dims[e->rank++] = h;
    e->dims[e->rank++] = w;
}

/* What is given, or else what is made of it. */
static extents images(const dhow_conv_desc *d, int given) {
    const int back = (d->flags & DHOW_CONV_TRANSPOSED) != 0;
    extents e = {.dims = {d->n, given ? d->c : d->k}, .rank = 2};
    if (given) {
        append(&e, d, d->depth, d->h, d->w);
    } else if (back) {
        append(&e, d, d->out[0], d->out[1], d->out[2]);
    } else {
        append(&e, d, d->depth > 0 ? onednn_depth(d) : 0, onednn_extent(d, 0), onednn_extent(d, 1));
    }
    return e;
}

static extents weights(const dhow_conv_desc *d) {
    const int back = (d->flags & DHOW_CONV_TRANSPOSED) != 0;
    const int64_t in = (back ? d->k : d->c) / d->groups, out = back ? d->c : d->k;
    extents e = {.dims = {out, in}, .rank = 2};
    if (d->groups > 1) e = (extents){.dims = {d->groups, out / d->groups, in}, .rank = 3};
    append(&e, d, d->kd, d->kh, d->kw);
    return e;
}

static void describe_window(const dhow_conv_desc *d, onednn_conv_shape *window) {
    const int first = d->depth > 0;
    memset(window, 0, sizeof *window);
    if (first) {
        window->strides[0] = d->stride_d;
        window->dilates[0] = d->dilation_d - 1; /* oneDNN counts the gaps */
        window->pad_begin[0] = d->pad_d[0];
        window->pad_end[0] = d->pad_d[1];
    }
    for (int i = 0; i < 2; i++) {
        window->strides[first + i] = d->stride[i];
        window->dilates[first + i] = d->dilation[i] - 1;
        window->pad_begin[first + i] = d->pad[i];
        window->pad_end[first + i] = d->pad[i + 2];
    }
}

static dnnl_status_t describe_tensor(operand *t, const extents *e, dnnl_data_type_t type) {
    static const dnnl_format_tag_t plain[] = {[4] = dnnl_abcd, [5] = dnnl_abcde, [6] = dnnl_abcdef};
    const dnnl_status_t status =
        onednn_md_tagged(&t->plain, e->rank, e->dims, type, plain[e->rank]);
    return status == dnnl_success
               ? onednn_md_tagged(&t->liked, e->rank, e->dims, type, dnnl_format_tag_any)
               : status;
}

static dnnl_status_t describe(training_plan *plan, onednn_conv_shape *window) {
    const dhow_conv_desc *d = &plan->desc;
    const extents given = images(d, 1), made = images(d, 0), weight = weights(d);
    const int back = plan->direction == BACK_IMAGE;
    const dnnl_dims_t bias = {d->k};
    const dnnl_data_type_t type = onednn_type(d->dtype);
    operand *t = plan->tensors;
    describe_window(d, window);
    if (plan->settled) return dnnl_success;
    dnnl_status_t status = describe_tensor(&t[X], back ? &made : &given, type);
    if (status == dnnl_success) status = describe_tensor(&t[Y], back ? &given : &made, type);
    if (status == dnnl_success) status = describe_tensor(&t[WEIGHT], &weight, type);
    if (status == dnnl_success && (d->flags & DHOW_EPILOGUE_BIAS))
        status = onednn_md_tagged(&plan->bias, 1, bias, type, dnnl_a);
    return status;
}

static dnnl_status_t describe_pd(const training_plan *plan, const onednn_conv_shape *window,
                                 dnnl_primitive_desc_t *pd) {
    const dhow_conv_desc *d = &plan->desc;
    const onednn_activation activation = {d->activation, d->activation_alpha, d->activation_beta};
    const operand *t = plan->tensors;
    dnnl_primitive_attr_t attr = NULL;
    int no_residual;
    dnnl_status_t status = onednn_attributes(&attr, 0.0f, onednn_type(d->dtype), NULL, &activation,
                                             d->compute, &no_residual);
    if (status != dnnl_success) return status;
    if (plan->direction == FORWARD)
        status =
            onednn_conv_pd(pd, t[X].liked, t[WEIGHT].liked, plan->bias, t[Y].liked, window, attr);
    else if (plan->direction == BACK_IMAGE)
        status =
            onednn_conv_back_image_pd(pd, t[X].liked, t[WEIGHT].liked, t[Y].liked, window, attr);
    else
        status =
            onednn_conv_back_weight_pd(pd, t[X].liked, t[WEIGHT].liked, t[Y].liked, window, attr);
    (void)plan->dnnl->dnnl_primitive_attr_destroy(attr);
    return status;
}

/* ---- primitives ---- */

/* Its reference loops are slower than dhow's own way, and "gemm" works on what lies plain: other
 * plans have it of images without a change of layout. */
static int is_unfit(const training_plan *plan, dnnl_primitive_desc_t pd) {
    return onednn_is_called(pd, "ref") || (onednn_is_called(pd, "gemm") && plan->desc.depth == 0) ||
           (plan->direction == FORWARD && onednn_conv_is_wrong(pd, &plan->desc));
}

static uint64_t whole_lines(uint64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* What the first primitive chose holds for all. */
static dnnl_status_t settle(training_plan *plan, dnnl_primitive_desc_t pd) {
    const onednn_library *dnnl = plan->dnnl;
    uint64_t at = whole_lines(plan->scratch_bytes);
    for (int i = 0; i < TENSORS; i++) {
        operand *t = &plan->tensors[i];
        onednn_md_release(&t->liked);
        const dnnl_status_t status =
            onednn_md_query(&t->liked, pd, k_roles[plan->direction].queries[i]);
        if (status != dnnl_success) return status;
        t->is_changed = !dnnl->dnnl_memory_desc_equal(MD(t->plain), MD(t->liked));
        if (t == &plan->tensors[WEIGHT] && t->is_changed &&
            (plan->desc.flags & DHOW_BLAS_CONSTANT_B)) {
            plan->packed_bytes = dnnl->dnnl_memory_desc_get_size(MD(t->liked));
            t->is_changed = 0;
        }
        t->at = at;
        if (t->is_changed) at += whole_lines(dnnl->dnnl_memory_desc_get_size(MD(t->liked)));
    }
    plan->workspace_bytes = at;
    plan->settled = 1;
    return dnnl_success;
}

static int takes_bias(const training_plan *plan) {
    return plan->direction == FORWARD && (plan->desc.flags & DHOW_EPILOGUE_BIAS);
}

static dnnl_status_t make_primitive(void *handle, onednn_primitive *made) {
    training_plan *plan = handle;
    const onednn_library *dnnl = plan->dnnl;
    dnnl_primitive_desc_t pd = NULL;
    onednn_conv_shape window;
    onednn_md scratch;
    memset(&scratch, 0, sizeof scratch);
    dnnl_status_t status = describe(plan, &window);
    if (status == dnnl_success) status = describe_pd(plan, &window, &pd);
    if (status == dnnl_success && is_unfit(plan, pd)) status = dnnl_unimplemented;
    if (status == dnnl_success) status = onednn_md_query(&scratch, pd, dnnl_query_scratchpad_md);
    if (status == dnnl_success && !plan->settled) {
        plan->scratch_bytes = dnnl->dnnl_memory_desc_get_size(MD(scratch));
        status = settle(plan, pd);
    }
    if (status == dnnl_success) status = onednn_primitive_make(made, pd);
    for (int i = 0; i < TENSORS && status == dnnl_success; i++)
        status =
            onednn_primitive_operand(made, k_roles[plan->direction].ids[i], plan->tensors[i].liked);
    if (status == dnnl_success)
        status = onednn_primitive_operand(made, DNNL_ARG_SCRATCHPAD, scratch);
    if (status == dnnl_success && takes_bias(plan))
        status = onednn_primitive_operand(made, DNNL_ARG_BIAS, plan->bias);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    onednn_md_release(&scratch);
    return status;
}

static int is_result(const operand *t) {
    return t == &t->plan->tensors[k_roles[t->plan->direction].operands[TENSORS - 1]];
}

static dnnl_status_t make_change(void *handle, onednn_primitive *made) {
    const operand *t = handle;
    const onednn_library *dnnl = t->plan->dnnl;
    const onednn_md from = is_result(t) ? t->liked : t->plain,
                    to = is_result(t) ? t->plain : t->liked;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = dnnl->dnnl_reorder_primitive_desc_create(&pd, MD(from), dnnl->engine,
                                                                    MD(to), dnnl->engine, NULL);
    if (status == dnnl_success) status = onednn_primitive_make(made, pd);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_FROM, from);
    if (status == dnnl_success) status = onednn_primitive_operand(made, DNNL_ARG_TO, to);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    return status;
}

/* ---- the slots ---- */

static void training_destroy(void *handle) {
    training_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    onednn_work_release(&plan->work);
    for (int i = 0; i < TENSORS; i++) {
        onednn_work_release(&plan->tensors[i].work);
        onednn_md_release(&plan->tensors[i].plain);
        onednn_md_release(&plan->tensors[i].liked);
    }
    onednn_md_release(&plan->bias);
    host->free(host->user, plan);
}

/* What has no derivative ends a convolution, but for a bias, which is added to volumes. */
static int ends_well(const dhow_conv_desc *d) {
    const int derives = (d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT)) != 0,
              added = (d->flags & DHOW_CONV_TRANSPOSED) && d->depth > 0 && d->dtype == DHOW_F32;
    return !derives ||
           (d->activation == DHOW_ACTIVATION_NONE && (added || !(d->flags & DHOW_EPILOGUE_BIAS)));
}

static int is_fit(const dhow_conv_desc *d) {
    return (d->dtype == DHOW_F32 || d->dtype == DHOW_BF16) && d->weight_dtype == d->dtype &&
           d->src_layout == DHOW_LAYOUT_NCHW && d->dst_layout == DHOW_LAYOUT_NCHW &&
           !(d->flags & DHOW_EPILOGUE_RESIDUAL) &&
           (d->depth > 0 || !(d->flags & DHOW_BLAS_CONSTANT_B)) && ends_well(d);
}

static double products_of(const dhow_conv_desc *d) {
    const int back = (d->flags & DHOW_CONV_TRANSPOSED) != 0;
    const extents small = images(d, back), weight = weights(d);
    double products = (double)d->n;
    for (int i = 2; i < small.rank; i++) products *= (double)small.dims[i];
    for (int i = 0; i < weight.rank; i++) products *= (double)weight.dims[i];
    return products;
}

static int32_t prepare(training_plan *plan, dhow_error *err) {
    int32_t status = onednn_work_prepare(&plan->work, err);
    for (int i = 0; i < TENSORS && status == DHOW_OK; i++)
        if (plan->tensors[i].is_changed) status = onednn_work_prepare(&plan->tensors[i].work, err);
    return status;
}

static int32_t training_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                                  dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    if (!is_fit(d) || products_of(d) < 1)
        return cpu_fail(
            err, DHOW_UNSUPPORTED, 0,
            "weights that change are convolved as images of f32 or bf16 in NCHW, volumes too, and "
            "their derivatives without anything behind");
    training_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &onednn_training;
    plan->dnnl = dnnl;
    plan->desc = *d;
    plan->direction = d->flags & DHOW_CONV_WEIGHT_GRADIENT ? BACK_WEIGHT
                      : d->flags & DHOW_CONV_TRANSPOSED    ? BACK_IMAGE
                                                           : FORWARD;
    onednn_work_init(&plan->work, device, products_of(d));
    plan->work.whole = plan->direction == BACK_WEIGHT;
    plan->work.make = make_primitive;
    plan->work.plan = plan;
    for (int i = 0; i < TENSORS; i++) {
        operand *t = &plan->tensors[i];
        t->plan = plan;
        onednn_work_init(&t->work, device, products_of(d)); /* divided as the primitive is */
        t->work.make = make_change;
        t->work.plan = t;
    }
    const int32_t status = prepare(plan, err);
    if (status != DHOW_OK) {
        training_destroy(plan);
        return status;
    }
    const operand *x = &plan->tensors[k_roles[plan->direction].operands[0]],
                  *y = &plan->tensors[k_roles[plan->direction].operands[TENSORS - 1]];
    *out_info = (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                                      .src_layout = DHOW_LAYOUT_NCHW,
                                      .dst_layout = DHOW_LAYOUT_NCHW,
                                      .workspace_bytes = plan->workspace_bytes,
                                      .packed_bytes = plan->packed_bytes,
                                      .src_bytes = dnnl->dnnl_memory_desc_get_size(MD(x->plain)),
                                      .dst_bytes = dnnl->dnnl_memory_desc_get_size(MD(y->plain))};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t training_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                             dhow_error *err) {
    const training_plan *plan = handle;
    const operand *t = &plan->tensors[WEIGHT];
    (void)stream;
    return onednn_reorder(plan->work.device, t->plain, onednn_address(weight), t->liked,
                          onednn_address(packed), err);
}

static uint64_t training_packed_form(void *handle) {
    const training_plan *plan = handle;
    const operand *t = &plan->tensors[WEIGHT];
    return plan->packed_bytes > 0 ? onednn_form_of(plan->work.device, t->plain, t->liked) : 0;
}

static int32_t change_layout(operand *t, cpu_region *region, void *plain, void *liked,
                             dhow_error *err) {
    void *addresses[] = {is_result(t) ? liked : plain, is_result(t) ? plain : liked};
    return t->is_changed ? onednn_work_run(&t->work, region, addresses, err) : DHOW_OK;
}

static void add_bias(const dhow_conv_desc *d, const float *bias, float *y, int threads) {
    const int64_t count = d->out[0] * d->out[1] * d->out[2];
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < d->n * d->k; i++) {
        for (int64_t at = 0; at < count; at++) y[i * count + at] += bias[i % d->k];
    }
}

static int32_t training_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                            dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                            dhow_buffer workspace, dhow_error *err) {
    training_plan *plan = handle;
    const int *operands = k_roles[plan->direction].operands;
    char *room = onednn_address(workspace);
    void *plain[TENSORS], *addresses[ONEDNN_OPERANDS];
    (void)stream, (void)residual;
    plain[operands[0]] = onednn_address(x);
    plain[operands[1]] = onednn_address(weight);
    plain[operands[2]] = onednn_address(y);
    for (int i = 0; i < TENSORS; i++)
        addresses[i] =
            plan->tensors[i].is_changed ? (void *)(room + plan->tensors[i].at) : plain[i];
    addresses[TENSORS] = room;
    addresses[TENSORS + 1] = takes_bias(plan) ? onednn_address(bias) : NULL;
    cpu_region region = onednn_work_begin(&plan->work);
    const int64_t start = cpu_now();
    int32_t status = DHOW_OK;
    for (int i = 0; i < TENSORS - 1 && status == DHOW_OK; i++)
        status = change_layout(&plan->tensors[operands[i]], &region, plain[operands[i]],
                               addresses[operands[i]], err);
    if (status == DHOW_OK) status = onednn_work_run(&plan->work, &region, addresses, err);
    if (status == DHOW_OK)
        status = change_layout(&plan->tensors[operands[2]], &region, plain[operands[2]],
                               addresses[operands[2]], err);
    if (status == DHOW_OK && plan->direction == BACK_IMAGE &&
        (plan->desc.flags & DHOW_EPILOGUE_BIAS))
        add_bias(&plan->desc, onednn_address(bias), plain[operands[2]], region.threads);
    region.start = start;
    onednn_work_end(&plan->work, &region);
    return status;
}

const dhow_conv onednn_training = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                   .minor = 2,
                                   .plan = training_plan_make,
                                   .pack = training_pack,
                                   .run = training_run,
                                   .destroy = training_destroy,
                                   .packed_form = training_packed_form};
