/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, pools and resizes with extents, strides, dilations, pads and groups of every kind.
 */
#include <math.h>
#include <string.h>

#include "gen.h"

static int64_t channels(gen *g) {
    static const int64_t counts[] = {1, 2, 3, 4, 4, 6, 8, 8, 16, 16, 32, 5};
    return counts[below(g, 12)];
}

/* [n, c, ...] with `axes` extents behind. */
static int image(gen *g, int32_t axes) {
    if (!one_in(g, 3)) {
        const int v = pick(g, 2 + axes, 2 + axes);
        if (v >= 0 && value_count(val(g, v)) > 0) return v;
    }
    int64_t shape[DHOW_MAX_RANK] = {g->batch, channels(g)};
    for (int32_t i = 0; i < axes; i++) shape[2 + i] = one_in(g, 4) ? 1 : 1 + below(g, 9);
    return new_input(g, 2 + axes, shape);
}

/* An image with something around it, as converters write for convolutions: zeros on some sides,
 * now and then another number, or channels as well. */
static int bordered(gen *g, int x, int32_t axes) {
    if (x < 0) return -1;
    const int32_t rank = 2 + axes;
    int64_t pads[2 * DHOW_MAX_RANK] = {0}, shape[DHOW_MAX_RANK], none = 1;
    memcpy(shape, val(g, x)->shape, (size_t)rank * sizeof *shape);
    for (int32_t i = one_in(g, 5) ? 1 : 2; i < rank; i++) {
        pads[i] = below(g, 3);
        pads[rank + i] = one_in(g, 2) ? pads[i] : below(g, 3);
        shape[i] += pads[i] + pads[rank + i];
    }
    int in[] = {x, new_ints(g, 2 * rank, pads), -1};
    if (one_in(g, 5)) {
        in[2] = add_value(g->m, VALUE_CONSTANT, g->m->dtype, 0, &none, g->at);
        if (in[2] >= 0) val(g, in[2])->data[0] = -0.5;
    }
    return result(g, put(g, "Pad", 3, in), g->m->dtype, rank, shape, val(g, x)->bits);
}

static int convolve(gen *g, int x, int32_t axes) {
    if (one_in(g, 6)) x = bordered(g, x, axes);
    if (x < 0) return -1;
    const int64_t c = val(g, x)->shape[1];
    int64_t group = 1, k = channels(g), kernel[3], stride[3], dilation[3], pads[6],
            shape[5] = {val(g, x)->shape[0]};
    if (one_in(g, 3) && c > 1) { /* grouped or depthwise */
        group = one_in(g, 2) ? c : c % 8 == 0 ? c / 4 : c % 2 == 0 ? 2 : 1;
        const int64_t times = 1 + below(g, 2);
        k = times > 1 && group < c ? c : group * times;
    }
    bool same = true;
    for (int32_t i = 0; i < axes; i++) {
        const int64_t n = val(g, x)->shape[2 + i];
        kernel[i] = one_in(g, 2) ? 1 : 1 + below(g, 3);
        stride[i] = one_in(g, 3) ? 2 + below(g, 2) : 1;
        dilation[i] = one_in(g, 6) ? 2 : 1;
        const int most = (int)kernel[i] + (one_in(g, 3) ? 2 : 0); /* windows in the padding alone */
        pads[i] = one_in(g, 2) ? below(g, most) : 0;
        pads[axes + i] = one_in(g, 2) ? below(g, most) : one_in(g, 2) ? 0 : pads[i];
        const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
        if (n + pads[i] + pads[axes + i] < reach) kernel[i] = 1;
        shape[2 + i] =
            (n + pads[i] + pads[axes + i] - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
        same = same && stride[i] == 1;
    }
    shape[1] = k;
    int64_t w[5] = {k, c / group}, count = 1, terms = c / group;
    for (int32_t i = 0; i < axes; i++) terms *= w[2 + i] = kernel[i];
    for (int32_t i = 0; i < axes + 2; i++) count *= shape[i];
    if (count > MAX_ELEMENTS || terms * k > MAX_ELEMENTS) return -1;
    const int weight = one_in(g, 10) ? new_input(g, 2 + axes, w) : new_constant(g, 2 + axes, w);
    const int bias = one_in(g, 2) ? new_constant(g, 1, &k) : -1;
    const int in[] = {x, weight, bias};
    if (weight < 0) return -1;
    node *n = put(g, "Conv", bias >= 0 ? 3 : 2, in);
    set_ints(n, "kernel_shape", axes, kernel);
    set_ints(n, "strides", axes, stride);
    set_ints(n, "dilations", axes, dilation);
    set_ints(n, "pads", 2 * axes, pads);
    if (group > 1) set_int(n, "group", group);
    const int bits = bits_product(g, val(g, x)->bits, 4, terms + 1);
    return result(g, n, g->m->dtype, 2 + axes, shape, bits);
}

int conv(gen *g) { return convolve(g, image(g, 2), 2); }
int conv_line(gen *g) { return convolve(g, image(g, 1), 1); }
int conv_volume(gen *g) { return convolve(g, image(g, 3), 3); }

int conv_transpose(gen *g) {
    const int32_t axes = 1 + below(g, 3);
    const int x = image(g, axes);
    if (x < 0) return -1;
    const int64_t c = val(g, x)->shape[1], group = c % 2 == 0 && one_in(g, 4) ? 2 : 1,
                  k = 1 + below(g, 3);
    int64_t kernel[3], stride[3], pads[6], shape[5] = {val(g, x)->shape[0], k * group},
                                           w[5] = {c, k}, count = shape[0] * shape[1];
    for (int32_t i = 0; i < axes; i++) {
        w[2 + i] = kernel[i] = 1 + below(g, 3);
        stride[i] = 1 + below(g, 2);
        pads[i] = pads[axes + i] = one_in(g, 3) && kernel[i] > 2 ? 1 : 0;
        shape[2 + i] = (val(g, x)->shape[2 + i] - 1) * stride[i] + kernel[i] - 2 * pads[i];
        if (shape[2 + i] < 1) return -1;
        count *= shape[2 + i];
    }
    if (count > MAX_ELEMENTS) return -1;
    const int64_t all = k * group;
    const int in[] = {x, new_constant(g, 2 + axes, w),
                      one_in(g, 2) ? new_constant(g, 1, &all) : -1};
    if (in[1] < 0) return -1;
    node *n = put(g, "ConvTranspose", in[2] >= 0 ? 3 : 2, in);
    set_ints(n, "strides", axes, stride);
    set_ints(n, "pads", 2 * axes, pads);
    if (group > 1) set_int(n, "group", group);
    return result(g, n, g->m->dtype, 2 + axes, shape, 0);
}

/* What follows a convolution in networks: norms, scales, activations, residuals. */
static int follow(gen *g, int y, int before) {
    if (y < 0) return -1;
    const int64_t c = val(g, y)->shape[1], row[] = {c, 1, 1}, full[] = {1, c, 1, 1};
    static const char *const ends[] = {"Relu", "Sigmoid", "Tanh",      "HardSwish",
                                       "Gelu", "Elu",     "LeakyRelu", "Mish"};
    for (int i = 1 + below(g, 3); i > 0 && y >= 0; i--) {
        switch (below(g, 9)) {
            case 0:
                y = unary(g, ends[below(g, 8)], y, 0);
                break;
            case 7:
                y = one_in(g, 2) ? clip_to(g, y) : hard_swish_of(g, y);
                break;
            case 1:
                y = binary(g, one_in(g, 2) ? "Mul" : "Add", y,
                           one_in(g, 3)   ? new_number(g, 0.5)
                           : one_in(g, 2) ? new_constant(g, 3, row)
                                          : new_constant(g, 4, full));
                break;
            case 2:
                y = binary(g, "Add", one_in(g, 2) ? new_constant(g, 3, row) : new_number(g, 0.25),
                           y);
                break;
            case 3: { /* squeeze and excite: numbers by channel that are computed */
                const int64_t axes[] = {2, 3}, one[] = {val(g, y)->shape[0], c, 1, 1};
                const int in[] = {y, new_ints(g, 2, axes)};
                const int s = result(g, put(g, "ReduceMean", 2, in), g->m->dtype, 4, one, 0);
                y = binary(g, "Mul", y, unary(g, "Sigmoid", s, 0));
                break;
            }
            case 4:
            case 5: {
                const int other =
                    before >= 0 && value_count(val(g, before)) == value_count(val(g, y))
                        ? before
                        : pick_like(g, y);
                y = one_in(g, 2) ? binary(g, "Add", y, other) : binary(g, "Add", other, y);
                break;
            }
            case 6: {
                const int in[] = {y, new_constant(g, 1, &c), new_constant(g, 1, &c),
                                  new_constant(g, 1, &c), new_constant(g, 1, &c)};
                for (int64_t k = 0; in[4] >= 0 && k < c; k++)
                    val(g, in[4])->data[k] = fabs(val(g, in[4])->data[k]) + 0.5;
                y = result(g, put(g, "BatchNormalization", 5, in), g->m->dtype, val(g, y)->rank,
                           val(g, y)->shape, 0);
                break;
            }
            default:
                y = binary(g, "Mul", y, unary(g, "Sigmoid", y, 0));
                break;
        }
    }
    return y;
}

int conv_block(gen *g) {
    int x = image(g, 2), y = -1;
    for (int i = 1 + below(g, 3); i > 0 && x >= 0; i--) {
        y = convolve(g, x, 2);
        if (!one_in(g, 4)) y = follow(g, y, x);
        x = y;
    }
    return y;
}

/* A convolution of k results in groups, padded so that it has a result for each place. */
static int padded_conv(gen *g, int x, int64_t k, int64_t groups, int64_t size, int64_t step) {
    if (x < 0) return -1;
    const int64_t *e = val(g, x)->shape, pad = size / 2;
    const int64_t shape[] = {e[0], k, (e[2] - 1) / step + 1, (e[3] - 1) / step + 1};
    const int64_t w[] = {k, e[1] / groups, size, size}, strides[] = {step, step},
                  pads[] = {pad, pad, pad, pad};
    if (shape[0] * k * shape[2] * shape[3] > MAX_ELEMENTS || w[1] * k > MAX_ELEMENTS) return -1;
    const int in[] = {x, new_constant(g, 4, w), one_in(g, 2) ? new_constant(g, 1, &k) : -1};
    if (in[1] < 0) return -1;
    node *n = put(g, "Conv", in[2] >= 0 ? 3 : 2, in);
    set_ints(n, "strides", 2, strides);
    set_ints(n, "pads", 4, pads);
    if (groups > 1) set_int(n, "group", groups);
    return result(g, n, g->m->dtype, 4, shape, 0);
}

/* Padding is 0 also where 0 lies outside the bounds. */
static int held(gen *g, int y) {
    if (y < 0) return -1;
    const int how = below(g, 4);
    return how == 0 ? unary(g, "Relu", y, 0) : how == 1 ? clip_above(g, y, 0.25) : clip_to(g, y);
}

/* MobileNet's: more channels, each convolved by itself, fewer; ReLU6 between. Now and then somebody
 * else reads what the second convolution does. */
int separable(gen *g) {
    const int x = image(g, 2);
    if (x < 0) return -1;
    const int64_t k = 2 + below(g, 15), step = one_in(g, 3) ? 2 : 1;
    const int wide = held(g, padded_conv(g, x, k, 1, one_in(g, 4) ? 3 : 1, 1));
    int y = padded_conv(g, wide, k, one_in(g, 8) && k % 2 == 0 ? 2 : k, 3, step);
    if (y >= 0 && step == 1 && one_in(g, 3)) y = binary(g, "Add", y, wide);
    if (!one_in(g, 4)) y = held(g, y);
    if (y >= 0 && one_in(g, 6)) y = binary(g, "Add", y, unary(g, "Tanh", wide, 0));
    return one_in(g, 2) ? padded_conv(g, y, 1 + below(g, 8), 1, 1, 1) : y;
}

/* Channels of a convolution in two parts, of which one is convolved again and joins both, as YOLO's
 * networks have it. */
int halved(gen *g) {
    const int64_t channels = 2 + below(g, 15), first = one_in(g, 2) && channels % 2 == 0
                                                           ? channels / 2
                                                           : 1 + below(g, (int)channels - 1);
    const int64_t parts[] = {first, channels - first};
    int half[3], y = padded_conv(g, image(g, 2), channels, 1, one_in(g, 2) ? 3 : 1, 1);
    if (y >= 0 && one_in(g, 2)) y = unary(g, "Tanh", y, 0);
    if (y < 0) return -1;
    const int in[] = {y, new_ints(g, 2, parts)};
    node *split = put(g, "Split", 2, in);
    set_int(split, "axis", 1);
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, y)->shape, sizeof shape);
    for (int i = 0; i < 2; i++) {
        shape[1] = parts[i];
        half[i] = result(g, split, g->m->dtype, 4, shape, 0);
        if (half[i] < 0) return -1;
    }
    const int which = below(g, 2);
    half[2] = padded_conv(g, half[which], parts[which], 1, one_in(g, 2) ? 3 : 1, 1);
    if (half[2] >= 0 && one_in(g, 2)) half[2] = binary(g, "Add", half[2], half[which]);
    if (half[2] < 0) return -1;
    node *join = put(g, "Concat", 3, half);
    set_int(join, "axis", 1);
    shape[1] = channels + parts[which];
    y = result(g, join, g->m->dtype, 4, shape, 0);
    return one_in(g, 4) ? y : padded_conv(g, y, 1 + below(g, 8), 1, 1, 1);
}

/* An image that a convolution made, scaled along each of its axes, which are as long as another. */
int square_image(gen *g) {
    const int64_t c = 2 + below(g, 3), image_shape[] = {g->batch, c, c, c}, w[] = {c, c, 1, 1};
    int64_t shape[] = {1, 1, 1, 1};
    const int in[] = {new_input(g, 4, image_shape), new_constant(g, 4, w)};
    int y = result(g, put(g, "Conv", 2, in), g->m->dtype, 4, image_shape, 0);
    shape[1 + below(g, 3)] = c;
    y = binary(g, one_in(g, 2) ? "Mul" : "Add", y, new_constant(g, 4, shape));
    return one_in(g, 2) ? unary(g, "Relu", y, 0) : y;
}

/* An image between two convolutions of which a part is written by something else, or which is cut
 * into other channels. */
int written_image(gen *g) {
    const int64_t c = 4 * (1 + below(g, 2)), h = 2 + below(g, 3), n = g->batch > 0 ? g->batch : 1;
    int64_t shape[] = {n, c, h, h}, pads[8] = {0};
    const int64_t w[] = {c, c, 1, 1}, part[] = {n, c, 1, h};
    const int in[] = {new_input(g, 4, shape), new_constant(g, 4, w)};
    if (in[0] < 0) return -1;
    val(g, in[0])->open[0] = false;
    int y = result(g, put(g, "Conv", 2, in), g->m->dtype, 4, shape, 0);
    int64_t seen = c; /* channels of the second convolution's image */
    const int how = below(g, 3);
    if (y < 0) return -1;
    if (how == 0) {
        const int row = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 4, part, g->at);
        const int to[] = {y, row, new_constant(g, 4, part)};
        if (to[2] < 0 || row < 0) return -1;
        node *s = put(g, "ScatterElements", 3, to);
        set_int(s, "axis", 2);
        y = result(g, s, g->m->dtype, 4, shape, 0);
    } else if (how == 1) {
        shape[1] = seen = c / 2;
        shape[2] *= 2;
        const int to[] = {y, new_ints(g, 4, shape)};
        y = result(g, put(g, "Reshape", 2, to), g->m->dtype, 4, shape, 0);
    } else { /* another image behind those that are there */
        pads[4] = 1;
        shape[0]++;
        const int to[] = {y, new_ints(g, 8, pads)};
        y = result(g, put(g, "Pad", 2, to), g->m->dtype, 4, shape, 0);
    }
    const int64_t second[] = {c, seen, 1, 1};
    const int again[] = {y, new_constant(g, 4, second)};
    shape[1] = c;
    return result(g, put(g, "Conv", 2, again), g->m->dtype, 4, shape, 0);
}

/* Channels of a convolution's image dealt out in groups, images of a batch perhaps among them, for
 * another convolution. */
int shuffled(gen *g) {
    static const int64_t orders[][5] = {
        {0, 2, 1, 3, 4}, {0, 2, 1, 3, 4}, {1, 0, 2, 3, 4}, {2, 1, 0, 3, 4}, {0, 1, 2, 4, 3}};
    const int64_t groups = 2 + below(g, 3), c = groups * (1 + below(g, 6)), h = 1 + below(g, 4);
    const int64_t n = g->batch > 0 ? g->batch : 1, cut = one_in(g, 3) ? n : 1;
    int64_t shape[] = {n, c, h, 2 * h}, parts[] = {n, groups, c / groups, h, 2 * h}, turned[5];
    const int64_t w[] = {c, c, 1, 1};
    const int in[] = {new_input(g, 4, shape), new_constant(g, 4, w)};
    if (in[0] < 0 || in[1] < 0) return -1;
    val(g, in[0])->open[0] = false;
    int y = result(g, put(g, "Conv", 2, in), g->m->dtype, 4, shape, 0);
    if (y < 0) return -1;
    parts[0] /= cut; /* groups of all images in one dimension */
    parts[1] *= cut;
    const int whole[] = {y, new_ints(g, 5, parts)};
    y = result(g, put(g, "Reshape", 2, whole), g->m->dtype, 5, parts, 0);
    const int64_t *order = orders[below(g, 5)];
    for (int i = 0; i < 5; i++) turned[i] = parts[order[i]];
    node *turn = put(g, "Transpose", 1, &y);
    set_ints(turn, "perm", 5, order);
    y = result(g, turn, g->m->dtype, 5, turned, 0);
    shape[2] = turned[3];
    shape[3] = turned[4];
    const int joined[] = {y, new_ints(g, 4, shape)};
    y = result(g, put(g, "Reshape", 2, joined), g->m->dtype, 4, shape, 0);
    const int again[] = {y, new_constant(g, 4, w)};
    if (y < 0 || again[1] < 0) return -1;
    return result(g, put(g, "Conv", 2, again), g->m->dtype, 4, shape, 0);
}

int batch_norm(gen *g) {
    const int y = pick(g, 2, 4);
    if (y < 0) return -1;
    const int64_t c = val(g, y)->shape[1];
    const int in[] = {y, new_constant(g, 1, &c), new_constant(g, 1, &c), new_constant(g, 1, &c),
                      new_constant(g, 1, &c)};
    for (int64_t k = 0; in[4] >= 0 && k < c; k++)
        val(g, in[4])->data[k] = fabs(val(g, in[4])->data[k]) + 0.5;
    return result(g, put(g, "BatchNormalization", 5, in), g->m->dtype, val(g, y)->rank,
                  val(g, y)->shape, 0);
}

int pool(gen *g) {
    const int32_t axes = 1 + below(g, 3);
    const int x = image(g, axes);
    if (x < 0) return -1;
    static const char *const ops[] = {"MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"};
    const char *op = ops[below(g, 5)];
    int64_t kernel[3], stride[3], dilation[3], pads[6],
        shape[5] = {val(g, x)->shape[0], val(g, x)->shape[1]};
    const bool lp = strcmp(op, "LpPool") == 0, up = !lp && one_in(g, 2);
    const bool volume = axes == 3 && strcmp(op, "MaxPool") == 0;
    for (int32_t i = 0; i < axes; i++) {
        const int64_t n = val(g, x)->shape[2 + i];
        kernel[i] = 1 + below(g, n > 3 ? 3 : (int)n);
        stride[i] = 1 + below(g, up ? 3 : 2);
        dilation[i] = volume && 2 * kernel[i] - 1 <= n && one_in(g, 4) ? 2 : 1;
        pads[i] = pads[axes + i] = !lp && kernel[i] > 1 && one_in(g, 2) ? 1 : 0;
        if (volume && one_in(g, 6)) pads[i] = pads[axes + i] = kernel[i]; /* a window of it alone */
        const int64_t room = n + 2 * pads[i] - dilation[i] * (kernel[i] - 1) - 1;
        shape[2 + i] = (up ? (room + stride[i] - 1) / stride[i] : room / stride[i]) + 1;
        if (up && (shape[2 + i] - 1) * stride[i] >= n + pads[i]) shape[2 + i]--;
    }
    node *n = put(g, op, 1, &x);
    if (up) set_int(n, "ceil_mode", 1);
    set_ints(n, "kernel_shape", axes, kernel);
    set_ints(n, "strides", axes, stride);
    set_ints(n, "pads", 2 * axes, pads);
    if (strcmp(op, "AveragePool") == 0) set_int(n, "count_include_pad", below(g, 2));
    if (volume) set_ints(n, "dilations", axes, dilation);
    return result(g, n, g->m->dtype, 2 + axes, shape,
                  strcmp(op, "MaxPool") == 0 ? val(g, x)->bits : 0);
}

int global_pool(gen *g) {
    static const char *const ops[] = {"GlobalAveragePool", "GlobalMaxPool"};
    const int x = pick(g, 3, 5);
    if (x < 0 || value_count(val(g, x)) == 0) return -1;
    int64_t shape[DHOW_MAX_RANK] = {val(g, x)->shape[0], val(g, x)->shape[1], 1, 1, 1};
    const int which = below(g, 2);
    return result(g, put(g, ops[which], 1, &x), g->m->dtype, val(g, x)->rank, shape,
                  which == 1 ? val(g, x)->bits : 0);
}

int resize(gen *g) {
    static const char *const places[] = {"half_pixel", "asymmetric", "align_corners",
                                         "pytorch_half_pixel"};
    const int x = image(g, 2);
    if (x < 0) return -1;
    int64_t shape[4];
    memcpy(shape, val(g, x)->shape, sizeof shape);
    double scales[4] = {1, 1, 1, 1};
    for (int i = 2; i < 4; i++) {
        scales[i] = one_in(g, 2) ? 2 : one_in(g, 2) ? 1 : 0.5;
        if (shape[i] % 2 != 0 && scales[i] < 1) scales[i] = 1;
        shape[i] = (int64_t)((double)shape[i] * scales[i]);
    }
    if (shape[0] * shape[1] * shape[2] * shape[3] > MAX_ELEMENTS) return -1;
    const int64_t four = 4;
    /* Scales are f32, whatever the model's floats are. */
    const int s = add_value(g->m, VALUE_CONSTANT, DHOW_F32, 1, &four, g->at);
    const int sizes = one_in(g, 2) ? new_ints(g, 4, shape) : -1;
    if (s < 0) return -1;
    memcpy(val(g, s)->data, scales, sizeof scales);
    val(g, s)->stays = true;
    const int in[] = {x, -1, sizes >= 0 ? -1 : s, sizes};
    node *n = put(g, "Resize", sizes >= 0 ? 4 : 3, in);
    const bool linear = one_in(g, 2);
    set_text(n, "mode", linear ? "linear" : "nearest");
    set_text(n, "coordinate_transformation_mode", places[below(g, linear ? 4 : 2)]);
    return result(g, n, g->m->dtype, 4, shape, linear ? 0 : val(g, x)->bits);
}
