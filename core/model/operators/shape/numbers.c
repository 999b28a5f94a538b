/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that a size alone gives: windows of signals, the places of AffineGrid, MelWeightMatrix.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/shape/shape.h"

/* arg: 0 Hann, 1 Hamming, 2 Blackman, as sums of cosines */
dhow_status dhowi_lower_window(dhowi_lowering *b) {
    static const double terms[][3] = {
        {0.5, -0.5, 0}, {25.0 / 46, -21.0 / 46, 0}, {0.42, -0.5, 0.08}};
    const double *a = terms[b->node->op->arg], turn = 2 * acos(-1);
    const int64_t type = dhowi_attr_int(b, "output_datatype", 1);
    const dhow_dtype dtype = dhowi_onnx_dtype((int32_t)type);
    int64_t size;
    bool periodic;
    DHOWI_TRY(dhowi_attr_flag(b, "periodic", true, &periodic));
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported output_datatype %s",
                          dhowi_onnx_type_name((int32_t)type));
    DHOWI_TRY(dhowi_one_int(b, b->in[0], "size", &size));
    if (size < 0 || size > INT32_MAX) DHOWI_REFUSE("a size of %" PRId64, size);
    DHOWI_TRY(dhowi_host_room(b, size, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)size + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    const double period = DHOWI_MAX((double)(periodic ? size : size - 1), 1);
    for (int64_t i = 0; i < size; i++) {
        const double angle = turn * (double)i / period;
        list[i] = a[0] + a[1] * cos(angle) + a[2] * cos(2 * angle);
    }
    dhow_status status = dhowi_constant(b, DHOW_F64, 1, &size, list, &b->out[0]);
    dhowi_free(list);
    return status == DHOW_OK ? dhowi_cast_to(b, b->out[0], dtype, &b->out[0]) : status;
}

/* ---- AffineGrid: places [points, spatial + 1] times the matrices ---- */

/* -1 .. 1 along an extent: between the outermost centres, or the outer edges. */
static double place_of(int64_t i, int64_t extent, bool align) {
    if (align) return extent > 1 ? -1 + 2 * (double)i / (double)(extent - 1) : 0;
    return (2 * (double)i + 1) / (double)extent - 1;
}

static dhow_status places(dhowi_lowering *b, const int64_t *extents, int32_t spatial, bool align,
                          int64_t points, int32_t *out) {
    const int64_t width = spatial + 1, shape[] = {points, width};
    int64_t count;
    if (!dhowi_mul_i64(points, width, &count)) DHOWI_REFUSE("the grid is too large");
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)count + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    for (int64_t p = 0; p < points; p++) {
        int64_t left = p;
        for (int32_t k = 0; k < spatial; k++) { /* x comes first, and moves fastest */
            const int64_t extent = extents[spatial - 1 - k];
            list[p * width + k] = place_of(left % extent, extent, align);
            left /= extent;
        }
        list[p * width + spatial] = 1;
    }
    dhow_status status = dhowi_constant(b, DHOW_F64, 2, shape, list, out);
    dhowi_free(list);
    return status;
}

dhow_status dhowi_lower_affine_grid(dhowi_lowering *b) {
    static const int32_t turned[] = {0, 2, 1};
    const dhowi_tensor_desc theta = *dhowi_desc_at(b, b->in[0]);
    int64_t size[DHOW_MAX_RANK], points = 1, shape[5];
    uint32_t count;
    bool align;
    int32_t grid, matrix;
    DHOWI_TRY(dhowi_attr_flag(b, "align_corners", false, &align));
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "size", size, &count));
    const int32_t spatial = (int32_t)count - 2;
    if ((count != 4 && count != 5) || theta.rank != 3 || theta.shape[0] != size[0] ||
        theta.shape[1] != spatial || theta.shape[2] != spatial + 1)
        DHOWI_REFUSE("a size of %u extents and matrices that do not fit", count);
    shape[0] = size[0];
    for (int32_t i = 0; i < spatial; i++) {
        shape[1 + i] = size[2 + i];
        if (size[2 + i] < 1 || !dhowi_mul_i64(points, size[2 + i], &points))
            DHOWI_REFUSE("extent %" PRId64 " in size", size[2 + i]);
    }
    shape[1 + spatial] = spatial;
    DHOWI_TRY(places(b, size + 2, spatial, align, points, &grid));
    DHOWI_TRY(dhowi_cast_to(b, grid, theta.dtype, &grid));
    DHOWI_TRY(dhowi_permute(b, b->in[0], turned, &matrix));
    DHOWI_TRY(dhowi_product(b, grid, matrix, -1, &b->out[0]));
    return dhowi_reshape(b, b->out[0], spatial + 2, shape, &b->out[0]);
}

/* ---- MelWeightMatrix ---- */

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* The bin of the spectrum at which triangle i begins, its top is at i + 1 and its end at i + 2. */
static double mel_bin(int64_t i, const double *edges, int64_t count, double length, double rate) {
    const double low = mel_of(edges[0]), step = (mel_of(edges[1]) - low) / (double)(count + 2);
    const double hertz = 700 * (pow(10, (low + (double)i * step) / 2595) - 1);
    return floor((length + 1) * hertz / rate);
}

static double mel_weight(double bin, const double corner[3]) {
    if (bin == corner[1]) return 1;
    if (bin < corner[1]) return fmax((bin - corner[0]) / (corner[1] - corner[0]), 0);
    return fmax((corner[2] - bin) / (corner[2] - corner[1]), 0);
}

/* weights[bin of the spectrum][triangle] */
dhow_status dhowi_lower_mel_weights(dhowi_lowering *b) {
    const int64_t type = dhowi_attr_int(b, "output_datatype", 1);
    const dhow_dtype dtype = dhowi_onnx_dtype((int32_t)type);
    int64_t count, length, rate, cells;
    double edges[2];
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported output_datatype %s",
                          dhowi_onnx_type_name((int32_t)type));
    DHOWI_TRY(dhowi_one_int(b, b->in[0], "num_mel_bins", &count));
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "dft_length", &length));
    DHOWI_TRY(dhowi_one_int(b, b->in[2], "sample_rate", &rate));
    DHOWI_TRY(dhowi_one_float(b, b->in[3], "lower_edge_hertz", &edges[0]));
    DHOWI_TRY(dhowi_one_float(b, b->in[4], "upper_edge_hertz", &edges[1]));
    const int64_t shape[] = {length / 2 + 1, count};
    if (count < 1 || count > INT32_MAX || length < 1 || length > INT32_MAX || rate < 1 ||
        !(edges[0] >= 0 && edges[1] >= edges[0] && edges[1] <= (double)rate) ||
        !dhowi_mul_i64(shape[0], shape[1], &cells))
        DHOWI_REFUSE("%" PRId64 " bins of %g to %g Hz, a length of %" PRId64 " at %" PRId64 " Hz",
                     count, edges[0], edges[1], length, rate);
    if (mel_bin(count + 1, edges, count, (double)length, (double)rate) > (double)shape[0])
        DHOWI_REFUSE("triangles up to %g Hz, the spectrum ends before", edges[1]);
    DHOWI_TRY(dhowi_host_room(b, cells, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)cells + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++) {
        double corner[3];
        for (int k = 0; k < 3; k++)
            corner[k] = mel_bin(i + k, edges, count, (double)length, (double)rate);
        for (int64_t bin = 0; bin < shape[0]; bin++)
            list[bin * count + i] = mel_weight((double)bin, corner);
    }
    dhow_status status = dhowi_constant(b, DHOW_F64, 2, shape, list, &b->out[0]);
    dhowi_free(list);
    return status == DHOW_OK ? dhowi_cast_to(b, b->out[0], dtype, &b->out[0]) : status;
}
