/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: dhow/nn.h, padding, placing by index, convolutions of all dimensions,
 * norms, attention and interpolation. Each makes its result.
 */
#ifndef DHOW_CPP_NN_HPP_
#define DHOW_CPP_NN_HPP_

#include <cmath>

#include "dhow/cpp/ops.hpp"

namespace dhow {

/* ---- padding and by index ---- */

/** Pairs of pads from the last dimension on. */
inline tensor pad(const tensor &x, const std::vector<int64_t> &pads,
                  dhow_pad_mode mode = DHOW_PAD_CONSTANT, double value = 0,
                  const stream &s = stream()) {
    const shape from = x.shape();
    std::vector<int64_t> extents(from.data(), from.data() + from.rank());
    for (size_t i = 0; 2 * i + 1 < pads.size() && i < extents.size(); i++) {
        int64_t &extent = extents[extents.size() - 1 - i];
        extent = std::max<int64_t>(0, extent + pads[2 * i] + pads[2 * i + 1]);
    }
    tensor y = tensor::empty(x.device(), shape(std::move(extents)), x.dtype());
    check(dhow_pad(s.get(), x.get(), pads.data(), static_cast<uint32_t>(pads.size()), mode, value,
                   y.get()));
    return y;
}

inline tensor index_select(const tensor &x, int32_t dim, const tensor &index,
                           const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), replaced(x.shape(), dim, 1, index.count()), x.dtype());
    check(dhow_index_select(s.get(), x.get(), dim, index.get(), y.get()));
    return y;
}

/** PyTorch's gather(). */
inline tensor take_along_dim(const tensor &x, const tensor &index, int32_t dim,
                             const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), index.shape(), x.dtype());
    check(dhow_take_along_dim(s.get(), x.get(), index.get(), dim, y.get()));
    return y;
}

inline tensor scatter(const tensor &x, int32_t dim, const tensor &index, const tensor &source,
                      dhow_scatter_mode reduce = DHOW_SCATTER_REPLACE, const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), x.shape(), x.dtype());
    check(dhow_scatter(s.get(), x.get(), dim, index.get(), source.get(), reduce, y.get()));
    return y;
}

/** The rows of weight that index names. */
inline tensor embedding(const tensor &index, const tensor &weight, const stream &s = stream()) {
    const shape from = index.shape();
    std::vector<int64_t> extents(from.data(), from.data() + from.rank());
    extents.push_back(weight.extent(-1));
    tensor y = tensor::empty(weight.device(), shape(std::move(extents)), weight.dtype());
    check(dhow_embedding(s.get(), index.get(), weight.get(), y.get()));
    return y;
}

/* ---- convolutions ---- */

/** An empty bias is none. */
#define DHOW_HPP_CONV_(name, transposed)                                                           \
    inline tensor name(const tensor &x, const tensor &weight, const tensor &bias = tensor(),       \
                       const conv_options &options = conv_options(), const stream &s = stream()) { \
        tensor y = tensor::empty(                                                                  \
            x.device(), options.result(x.shape(), weight.shape(), transposed), x.dtype());         \
        check(dhow_##name(s.get(), x.get(), weight.get(), bias.get(), options.get(), y.get()));    \
        return y;                                                                                  \
    }
DHOW_HPP_CONV_(conv1d, false)
DHOW_HPP_CONV_(conv3d, false)
DHOW_HPP_CONV_(conv_transpose1d, true)
DHOW_HPP_CONV_(conv_transpose2d, true)
DHOW_HPP_CONV_(conv_transpose3d, true)
#undef DHOW_HPP_CONV_

/* ---- norms, attention, interpolation ---- */

inline tensor batchnorm(const tensor &x, const tensor &running_mean, const tensor &running_var,
                        const tensor &weight, const tensor &bias, float eps = 1e-5f,
                        const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), x.shape(), x.dtype());
    check(dhow_batchnorm(s.get(), x.get(), running_mean.get(), running_var.get(), weight.get(),
                         bias.get(), eps, y.get()));
    return y;
}

inline tensor groupnorm(const tensor &x, int64_t groups, const tensor &weight, const tensor &bias,
                        float eps = 1e-5f, const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), x.shape(), x.dtype());
    check(dhow_groupnorm(s.get(), x.get(), groups, weight.get(), bias.get(), eps, y.get()));
    return y;
}

inline tensor rmsnorm(const tensor &x, const tensor &weight, float eps = 1e-6f,
                      const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), x.shape(), x.dtype());
    check(dhow_rmsnorm(s.get(), x.get(), weight.get(), eps, y.get()));
    return y;
}

inline tensor dropout(const tensor &x, double p, std::uint64_t seed, const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), x.shape(), x.dtype());
    check(dhow_dropout(s.get(), x.get(), p, seed, y.get()));
    return y;
}

/** An empty mask is none; a scale of 0 is 1 / sqrt(e). */
inline tensor scaled_dot_product_attention(const tensor &query, const tensor &key,
                                           const tensor &value, const tensor &mask = tensor(),
                                           bool is_causal = false, double scale = 0,
                                           const stream &s = stream()) {
    tensor y = tensor::empty(query.device(), replaced(query.shape(), -1, 1, value.extent(-1)),
                             query.dtype());
    check(dhow_scaled_dot_product_attention(s.get(), query.get(), key.get(), value.get(),
                                            mask.get(), is_causal, scale, y.get()));
    return y;
}

inline tensor interpolate(const tensor &x, const std::vector<int64_t> &size,
                          dhow_interpolation mode = DHOW_INTERPOLATE_NEAREST,
                          bool align_corners = false, const stream &s = stream()) {
    std::vector<int64_t> extents{x.extent(0), x.extent(1)};
    extents.insert(extents.end(), size.begin(), size.end());
    tensor y = tensor::empty(x.device(), shape(std::move(extents)), x.dtype());
    check(dhow_interpolate(s.get(), x.get(), size.data(), nullptr, mode, align_corners, y.get()));
    return y;
}

/** By a factor for each dimension. */
inline tensor interpolate_by(const tensor &x, const std::vector<double> &scale_factor,
                             dhow_interpolation mode = DHOW_INTERPOLATE_NEAREST,
                             bool align_corners = false, const stream &s = stream()) {
    std::vector<int64_t> extents{x.extent(0), x.extent(1)};
    for (size_t i = 0; i < scale_factor.size(); i++)
        extents.push_back(static_cast<int64_t>(std::floor(
            static_cast<double>(x.extent(static_cast<int32_t>(i) + 2)) * scale_factor[i])));
    tensor y = tensor::empty(x.device(), shape(std::move(extents)), x.dtype());
    check(dhow_interpolate(s.get(), x.get(), nullptr, scale_factor.data(), mode, align_corners,
                           y.get()));
    return y;
}

}  // namespace dhow

#endif /* DHOW_CPP_NN_HPP_ */
