/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: the operations of dhow/ops.h, which make their results, and operators.
 */
#ifndef DHOW_CPP_OPS_HPP_
#define DHOW_CPP_OPS_HPP_

#include "dhow/cpp/tensor.hpp"

namespace dhow {

/* ---- operations that make their result ---- */

#define DHOW_HPP_UNARY_(name, ...)                                    \
    inline tensor name(const tensor &x, const stream &s = stream()) { \
        tensor y = tensor::empty_like(x);                             \
        check(dhow_##name(s.get(), x.get(), y.get()));                \
        return y;                                                     \
    }
DHOW_UNARY_MAP(DHOW_HPP_UNARY_)
DHOW_FUNCTION_MAP(DHOW_HPP_UNARY_)
#undef DHOW_HPP_UNARY_

/** The shape that several broadcast to, as NumPy has it. */
inline shape broadcast(std::initializer_list<shape> shapes) {
    int32_t rank = 0;
    for (const shape &s : shapes) rank = s.rank() > rank ? s.rank() : rank;
    std::vector<int64_t> y(static_cast<std::size_t>(rank), 1);
    for (const shape &s : shapes) {
        for (int32_t i = 0; i < s.rank(); i++) {
            int64_t &extent = y[static_cast<std::size_t>(rank - s.rank() + i)];
            const int64_t own = s.data()[i];
            if (own != 1) extent = own; /* what does not fit is told by the operation */
        }
    }
    return shape(std::move(y));
}
inline shape broadcast(const shape &a, const shape &b) { return broadcast({a, b}); }

#define DHOW_HPP_BINARY_(name, dtype)                                                  \
    inline tensor name(const tensor &a, const tensor &b, const stream &s = stream()) { \
        tensor y = tensor::empty(a.device(), broadcast(a.shape(), b.shape()), dtype);  \
        check(dhow_##name(s.get(), a.get(), b.get(), y.get()));                        \
        return y;                                                                      \
    }
#define DHOW_HPP_SAME_(name, ...) DHOW_HPP_BINARY_(name, a.dtype())
#define DHOW_HPP_TRUTH_(name, ...) DHOW_HPP_BINARY_(name, DHOW_BOOL)
DHOW_BINARY_MAP(DHOW_HPP_SAME_)
DHOW_FURTHER_BINARY_MAP(DHOW_HPP_SAME_)
DHOW_COMPARE_MAP(DHOW_HPP_TRUTH_)
#undef DHOW_HPP_BINARY_
#undef DHOW_HPP_SAME_
#undef DHOW_HPP_TRUTH_

#define DHOW_HPP_SCALAR_(name, ...)                                                  \
    inline tensor name(const tensor &x, scalar number, const stream &s = stream()) { \
        tensor y = tensor::empty_like(x);                                            \
        check(dhow_##name##_scalar(s.get(), x.get(), number.get(), y.get()));        \
        return y;                                                                    \
    }
DHOW_SCALAR_MAP(DHOW_HPP_SCALAR_)
#undef DHOW_HPP_SCALAR_

/** a x + b in one pass. */
inline tensor affine(const tensor &x, scalar a, scalar b, const stream &s = stream()) {
    tensor y = tensor::empty_like(x);
    check(dhow_affine(s.get(), x.get(), a.get(), b.get(), y.get()));
    return y;
}

#define DHOW_HPP_OPERATOR_(sign, name)                                                   \
    inline tensor operator sign(const tensor &a, const tensor &b) { return name(a, b); } \
    inline tensor operator sign(const tensor &a, scalar b) { return name(a, b); }        \
    inline tensor &operator sign##=(tensor &a, const tensor &b) {                        \
        check(dhow_##name(nullptr, a.get(), b.get(), a.get()));                          \
        return a;                                                                        \
    }                                                                                    \
    inline tensor &operator sign##=(tensor &a, scalar b) {                               \
        check(dhow_##name##_scalar(nullptr, a.get(), b.get(), a.get()));                 \
        return a;                                                                        \
    }
DHOW_HPP_OPERATOR_(+, add)
DHOW_HPP_OPERATOR_(-, sub)
DHOW_HPP_OPERATOR_(*, mul)
DHOW_HPP_OPERATOR_(/, div)
#undef DHOW_HPP_OPERATOR_
inline tensor operator-(const tensor &x) { return neg(x); }
inline tensor operator+(scalar a, const tensor &b) { return add(b, a); }
inline tensor operator*(scalar a, const tensor &b) { return mul(b, a); }
inline tensor operator-(scalar a, const tensor &b) { return affine(b, -1, a); }
inline tensor operator/(scalar a, const tensor &b) {
    return div(tensor::full(b.device(), {}, a, b.dtype()), b);
}
#define DHOW_HPP_COMPARISON_(sign, name)                                                 \
    inline tensor operator sign(const tensor &a, const tensor &b) { return name(a, b); } \
    inline tensor operator sign(const tensor &a, scalar b) {                             \
        return name(a, tensor::full(a.device(), {}, b, a.dtype()));                      \
    }
DHOW_HPP_COMPARISON_(<, less)
DHOW_HPP_COMPARISON_(<=, less_equal)
DHOW_HPP_COMPARISON_(>, greater)
DHOW_HPP_COMPARISON_(>=, greater_equal)
#undef DHOW_HPP_COMPARISON_

/** dhow::name(x, ...): a result of x's shape and dtype from dhow_name(stream, x, ..., y). */
#define DHOW_HPP_LIKE_(name, parameters, arguments)                                              \
    inline tensor name(const tensor &x, DHOW_HPP_LIST_ parameters, const stream &s = stream()) { \
        tensor y = tensor::empty_like(x);                                                        \
        check(dhow_##name(s.get(), x.get(), DHOW_HPP_LIST_ arguments, y.get()));                 \
        return y;                                                                                \
    }
#define DHOW_HPP_LIST_(...) __VA_ARGS__
DHOW_HPP_LIKE_(clip, (double low, double high), (low, high))
DHOW_HPP_LIKE_(leaky_relu, (double alpha), (alpha))
DHOW_HPP_LIKE_(elu, (double alpha), (alpha))
DHOW_HPP_LIKE_(softmax, (int32_t dim), (dim))
DHOW_HPP_LIKE_(log_softmax, (int32_t dim), (dim))
DHOW_HPP_LIKE_(cumsum, (int32_t dim), (dim))
DHOW_HPP_LIKE_(layernorm, (const tensor &gamma, const tensor &beta, float eps),
               (gamma.get(), beta.get(), eps))
#undef DHOW_HPP_LIKE_
#undef DHOW_HPP_LIST_

/** a where the condition is true, else b. */
inline tensor where(const tensor &condition, const tensor &a, const tensor &b,
                    const stream &s = stream()) {
    tensor y =
        tensor::empty(a.device(), broadcast({condition.shape(), a.shape(), b.shape()}), a.dtype());
    check(dhow_where(s.get(), condition.get(), a.get(), b.get(), y.get()));
    return y;
}

/* ---- shapes of results ---- */

/** A shape with an extent in the place of others: `count` of them from `dim` on, none for -1. */
inline shape replaced(const shape &s, int32_t dim, int32_t count, int64_t extent) {
    std::vector<int64_t> all(s.data(), s.data() + s.rank());
    const int32_t at = dim < 0 ? dim + s.rank() + (count == 0 ? 1 : 0) : dim;
    if (at < 0 || at + count > s.rank()) return s; /* the operation tells that there is none */
    all.erase(all.begin() + at, all.begin() + at + count);
    if (extent >= 0) all.insert(all.begin() + at, extent);
    return shape(std::move(all));
}

/* ---- products and images ---- */

/** a[..., m, k] b[..., k, n]; the outer extents are equal or b has none. */
inline tensor matmul(const tensor &a, const tensor &b, const stream &s = stream()) {
    const shape left = a.shape(), right = b.shape();
    const int64_t columns = right.rank() > 0 ? right.data()[right.rank() - 1] : 1;
    tensor y = tensor::empty(a.device(), replaced(left, -1, left.rank() > 0, columns), a.dtype());
    check(dhow_matmul(s.get(), a.get(), b.get(), y.get()));
    return y;
}

/** x w^T + bias with w[out, in]; an empty bias is none. */
inline tensor linear(const tensor &x, const tensor &w, const tensor &bias = tensor(),
                     const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), replaced(x.shape(), -1, 1, w.extent(0)), x.dtype());
    check(dhow_linear(s.get(), x.get(), w.get(), bias.get(), y.get()));
    return y;
}

/** The window of a convolution or a pooling: dhow::window().kernel(2).stride(2). */
class window {
   public:
#define DHOW_HPP_SIDES_(name)                            \
    window &name(int64_t rows, int64_t columns) {        \
        value_.name[0] = rows, value_.name[1] = columns; \
        return *this;                                    \
    }                                                    \
    window &name(int64_t both) { return name(both, both); }
    DHOW_HPP_SIDES_(kernel)
    DHOW_HPP_SIDES_(stride)
    DHOW_HPP_SIDES_(dilation)
#undef DHOW_HPP_SIDES_
    window &pad(int64_t top, int64_t left, int64_t bottom, int64_t right) {
        value_.pad[0] = top, value_.pad[1] = left, value_.pad[2] = bottom, value_.pad[3] = right;
        return *this;
    }
    window &pad(int64_t all) { return pad(all, all, all, all); }
    window &groups(int64_t count) {
        value_.groups = count;
        return *this;
    }
    const dhow_window *get() const noexcept { return &value_; }
    /** Rows or columns of the result for `side` of them and a kernel. */
    int64_t result(int i, int64_t side, int64_t kernel) const {
        const int64_t step = value_.stride[i] > 0 ? value_.stride[i] : 1;
        const int64_t spread = value_.dilation[i] > 0 ? value_.dilation[i] : 1;
        const int64_t room = side + value_.pad[i] + value_.pad[i + 2] - spread * (kernel - 1) - 1;
        return room < 0 ? 0 : room / step + 1;
    }

   private:
    dhow_window value_ = DHOW_INIT(dhow_window);
};

/** Of a convolution over one to three dimensions, in its order. */
class conv_options {
   public:
#define DHOW_HPP_NUMBERS_(name)                                                   \
    conv_options &name(const std::vector<int64_t> &each) {                        \
        if (each.size() > 3)                                                      \
            throw error(DHOW_INVALID_ARGUMENT,                                    \
                        "dhow::conv_options: " #name " has more than 3 numbers"); \
        for (size_t i = 0; i < each.size(); i++) value_.name[i] = each[i];        \
        return *this;                                                             \
    }
    DHOW_HPP_NUMBERS_(kernel)
    DHOW_HPP_NUMBERS_(stride)
    DHOW_HPP_NUMBERS_(padding)
    DHOW_HPP_NUMBERS_(dilation)
    DHOW_HPP_NUMBERS_(output_padding)
#undef DHOW_HPP_NUMBERS_
    conv_options &groups(int64_t count) {
        value_.groups = count;
        return *this;
    }
    const dhow_conv_options *get() const noexcept { return &value_; }
    /** The shape of a result; x's where they do not fit, which the operation then tells. */
    shape result(const shape &x, const shape &weight, bool transposed) const {
        const int32_t rank = x.rank();
        if (rank < 3 || rank > 5 || weight.rank() != rank) return x;
        const int64_t parts = value_.groups > 0 ? value_.groups : 1;
        std::vector<int64_t> all{x.data()[0],
                                 transposed ? weight.data()[1] * parts : weight.data()[0]};
        for (int32_t i = 0; i + 2 < rank; i++) {
            const int64_t step = value_.stride[i] > 0 ? value_.stride[i] : 1;
            const int64_t spread = value_.dilation[i] > 0 ? value_.dilation[i] : 1;
            const int64_t reach = spread * (weight.data()[i + 2] - 1) + 1;
            const int64_t side = x.data()[i + 2], pads = 2 * value_.padding[i];
            const int64_t extent = transposed
                                       ? step * (side - 1) + reach + value_.output_padding[i] - pads
                                       : (side + pads - reach) / step + 1;
            all.push_back(extent > 0 ? extent : 0);
        }
        return shape(std::move(all));
    }

   private:
    dhow_conv_options value_ = DHOW_INIT(dhow_conv_options);
};

inline tensor conv2d(const tensor &x, const tensor &weight, const tensor &bias = tensor(),
                     const window &w = window(), const stream &s = stream()) {
    const shape y_shape{x.extent(0), weight.extent(0), w.result(0, x.extent(2), weight.extent(2)),
                        w.result(1, x.extent(3), weight.extent(3))};
    tensor y = tensor::empty(x.device(), x.shape().rank() == 4 ? y_shape : x.shape(), x.dtype());
    check(dhow_conv2d(s.get(), x.get(), weight.get(), bias.get(), w.get(), y.get()));
    return y;
}

#define DHOW_HPP_POOL_(name)                                                                   \
    inline tensor name(const tensor &x, const window &w, const stream &s = stream()) {         \
        const shape y_shape{x.extent(0), x.extent(1),                                          \
                            w.result(0, x.extent(2), w.get()->kernel[0]),                      \
                            w.result(1, x.extent(3), w.get()->kernel[1])};                     \
        tensor y =                                                                             \
            tensor::empty(x.device(), x.shape().rank() == 4 ? y_shape : x.shape(), x.dtype()); \
        check(dhow_##name(s.get(), x.get(), w.get(), y.get()));                                \
        return y;                                                                              \
    }
DHOW_HPP_POOL_(maxpool2d)
DHOW_HPP_POOL_(avgpool2d)
#undef DHOW_HPP_POOL_

/* ---- reductions, choices, joins ---- */

#define DHOW_HPP_ALONG_(name, dtype)                                                  \
    inline tensor name(const tensor &x, int32_t dim, const stream &s = stream()) {    \
        tensor y = tensor::empty(x.device(), replaced(x.shape(), dim, 1, -1), dtype); \
        check(dhow_##name(s.get(), x.get(), dim, y.get()));                           \
        return y;                                                                     \
    }
DHOW_HPP_ALONG_(reduce_sum, x.dtype())
DHOW_HPP_ALONG_(reduce_mean, x.dtype())
DHOW_HPP_ALONG_(reduce_max, x.dtype())
DHOW_HPP_ALONG_(reduce_min, x.dtype())
DHOW_HPP_ALONG_(argmax, DHOW_I64)
DHOW_HPP_ALONG_(argmin, DHOW_I64)
#undef DHOW_HPP_ALONG_

/** Dimensions of a reduction; none stand for all. */
using dims = std::vector<int32_t>;

inline shape reduced(const shape &s, const dims &over) {
    std::vector<int64_t> rest;
    for (int32_t i = 0; i < s.rank() && !over.empty(); i++) {
        bool kept = true;
        for (int32_t dim : over) kept = kept && i != (dim < 0 ? dim + s.rank() : dim);
        if (kept) rest.push_back(s.data()[i]);
    }
    return shape(std::move(rest));
}

inline tensor reduce(dhow_reduction kind, const tensor &x, const dims &over = {},
                     const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), reduced(x.shape(), over), x.dtype());
    check(dhow_reduce(s.get(), kind, x.get(), over.data(), static_cast<uint32_t>(over.size()),
                      y.get()));
    return y;
}
inline tensor sum(const tensor &x, const dims &over = {}) {
    return reduce(DHOW_REDUCE_SUM, x, over);
}
inline tensor mean(const tensor &x, const dims &over = {}) {
    return reduce(DHOW_REDUCE_MEAN, x, over);
}
inline tensor prod(const tensor &x, const dims &over = {}) {
    return reduce(DHOW_REDUCE_PROD, x, over);
}

#define DHOW_HPP_SPREAD_(name, c_name)                                                         \
    inline tensor name(const tensor &x, const dims &over = {}, double correction = 1,          \
                       const stream &s = stream()) {                                           \
        tensor y = tensor::empty(x.device(), reduced(x.shape(), over), x.dtype());             \
        check(dhow_##c_name(s.get(), x.get(), over.data(), static_cast<uint32_t>(over.size()), \
                            correction, y.get()));                                             \
        return y;                                                                              \
    }
DHOW_HPP_SPREAD_(var, var)
DHOW_HPP_SPREAD_(standard_deviation, std) /* dhow::std would hide std */
#undef DHOW_HPP_SPREAD_

struct topk_result {
    tensor values, indices;
};
inline topk_result topk(const tensor &x, int64_t k, int32_t dim = -1, bool largest = true,
                        const stream &s = stream()) {
    const shape y_shape = replaced(x.shape(), dim, 1, k < 0 ? 0 : k);
    topk_result y{tensor::empty(x.device(), y_shape, x.dtype()),
                  tensor::empty(x.device(), y_shape, DHOW_I64)};
    check(dhow_topk(s.get(), x.get(), k, dim, largest, y.values.get(), y.indices.get()));
    return y;
}

/** Values and indices, in order. */
inline topk_result sort(const tensor &x, int32_t dim = -1, bool descending = false,
                        const stream &s = stream()) {
    topk_result y{tensor::empty(x.device(), x.shape(), x.dtype()),
                  tensor::empty(x.device(), x.shape(), DHOW_I64)};
    check(dhow_sort(s.get(), x.get(), dim, descending, y.values.get(), y.indices.get()));
    return y;
}

/** Rows of x by index. */
inline tensor gather(const tensor &x, const tensor &index, const stream &s = stream()) {
    tensor y = tensor::empty(x.device(), replaced(x.shape(), 0, 1, index.count()), x.dtype());
    check(dhow_gather(s.get(), x.get(), index.get(), y.get()));
    return y;
}

/** The extents of a dimension together. */
inline int64_t joined_extent(const std::vector<tensor> &all, int32_t dim) {
    int64_t extent = 0;
    for (const tensor &t : all) extent += t.extent(dim < 0 ? dim + t.info().rank : dim);
    return extent;
}

#define DHOW_HPP_JOIN_(name, result)                                                           \
    inline tensor name(const std::vector<tensor> &all, int32_t dim = 0,                        \
                       const stream &s = stream()) {                                           \
        if (all.empty())                                                                       \
            throw error(DHOW_INVALID_ARGUMENT, "dhow::" #name ": there is no tensor to join"); \
        const tensor &first = all.front();                                                     \
        tensor y = tensor::empty(first.device(), result, first.dtype());                       \
        const auto parts = handles(all);                                                       \
        check(dhow_##name(s.get(), parts.data(), static_cast<uint32_t>(parts.size()), dim,     \
                          y.get()));                                                           \
        return y;                                                                              \
    }
DHOW_HPP_JOIN_(cat, replaced(first.shape(), dim, 1, joined_extent(all, dim)))
DHOW_HPP_JOIN_(stack, replaced(first.shape(), dim, 0, static_cast<int64_t>(all.size())))
#undef DHOW_HPP_JOIN_

}  // namespace dhow

#endif /* DHOW_CPP_OPS_HPP_ */
