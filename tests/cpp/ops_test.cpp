/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that make their results, and operators.
 */
#include <cmath>

#include "check.hpp"

static bool near(const dhow::tensor &got, const floats &wanted) {
    const floats values = got.read<float>();
    bool same = values.size() == wanted.size();
    for (std::size_t i = 0; same && i < values.size(); i++)
        same = std::fabs(values[i] - wanted[i]) <= 1e-5f * (1 + std::fabs(wanted[i]));
    return same;
}

static bool truth(const dhow::tensor &got, const std::vector<uint8_t> &wanted) {
    return got.dtype() == DHOW_BOOL && got.read<uint8_t>() == wanted;
}

/* Every function of one input on 0.5, against the C function. */
static void one_input(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::full(d, {3}, 0.5), y = dhow::tensor::zeros(d, {3});
#define ONE(name, ...)                                   \
    dhow::check(dhow_##name(nullptr, x.get(), y.get())); \
    CHECK((near(dhow::name(x), y.read<float>()) || std::isnan(dhow::name(x).read<float>().at(0))));
    DHOW_UNARY_MAP(ONE)
    DHOW_FUNCTION_MAP(ONE)
#undef ONE
    CHECK(near(dhow::square(x), {0.25f, 0.25f, 0.25f}));
}

static void two_inputs(const dhow::device &d) {
    const dhow::tensor a = dhow::tensor::from(d, {2, 1}, floats{3, 5}),
                       b = dhow::tensor::from(d, {2}, floats{2, 4});
    CHECK(near(a + b, {5, 7, 7, 9}) && near(a - b, {1, -1, 3, 1}));
    CHECK(near(a * b, {6, 12, 10, 20}) && near(a / b, {1.5f, 0.75f, 2.5f, 1.25f}));
    CHECK(near(dhow::max(a, b), {3, 4, 5, 5}) && near(dhow::min(a, b), {2, 3, 2, 4}));
    CHECK(near(dhow::pow(a, b), {9, 81, 25, 625}));
    CHECK(near(dhow::mod(-a, b), {1, 1, 1, 3}) && near(dhow::fmod(-a, b), {-1, -3, -1, -1}));
    CHECK(truth(a < b, {0, 1, 0, 0}) && truth(a <= b, {0, 1, 0, 0}));
    CHECK(truth(a > b, {1, 0, 1, 1}) && truth(a >= b, {1, 0, 1, 1}));
    CHECK(truth(dhow::equal(b, b), {1, 1}) && truth(dhow::not_equal(b, b), {0, 0}));
    CHECK(truth(b > 3, {0, 1}) && truth(b < 3, {1, 0}) && truth(b >= 2, {1, 1}) &&
          truth(b <= 2, {1, 0}));
    CHECK(near(dhow::where(b > 3, a, b), {2, 3, 2, 5}));
}

static void numbers(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::from(d, {2}, floats{2, 4});
    CHECK(near(x + 1, {3, 5}) && near(1 + x, {3, 5}) && near(x - 1, {1, 3}) &&
          near(1 - x, {-1, -3}));
    CHECK(near(x * 2.5, {5, 10}) && near(2 * x, {4, 8}) && near(x / 2, {1, 2}) &&
          near(1 / x, {0.5f, 0.25f}));
    CHECK(near(dhow::pow(x, 2), {4, 16}) && near(dhow::max(x, 3), {3, 4}) &&
          near(dhow::min(x, 3.0f), {2, 3}));
    CHECK(near(dhow::affine(x, 2, 1), {5, 9}) && near(dhow::clip(x, 2.5, 3), {2.5f, 3}));
    CHECK(near(dhow::leaky_relu(-x, 0.5), {-1, -2}) && near(dhow::elu(x, 1), {2, 4}));
    dhow::tensor y = x.clone();
    y += 1;
    y *= x;
    y -= x;
    y /= 2;
    y += x;
    y -= 1;
    y *= 2;
    y /= x;
    CHECK(near(y, {3, 5.5f}));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "0.5", [&] { x.to(DHOW_I32) + 0.5; }));
}

static void networks(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::arange(d, 0, 6).reshape({1, 2, 3});
    const dhow::tensor ones = dhow::tensor::ones(d, {2}), zeros = dhow::tensor::zeros(d, {2});
    const dhow::tensor index = dhow::tensor::zeros(d, {2}, DHOW_I64);
    const dhow::tensor places = dhow::tensor::zeros(d, {1, 2, 1}, DHOW_I64);
    CHECK(near(dhow::pad(x, {1, 0}, DHOW_PAD_REPLICATE), {0, 0, 1, 2, 3, 3, 4, 5}));
    CHECK(near(dhow::index_select(x, 2, index), {0, 0, 3, 3}));
    CHECK(near(dhow::take_along_dim(x, places, 2), {0, 3}));
    CHECK(
        near(dhow::scatter(x, 2, places, dhow::tensor::full(d, {1, 2, 1}, 9)), {9, 1, 2, 9, 4, 5}));
    CHECK(near(dhow::embedding(index, x.reshape({2, 3})), {0, 1, 2, 0, 1, 2}));
    CHECK(near(dhow::sort(x, -1, true).values, {2, 1, 0, 5, 4, 3}));
    const dhow::tensor line = dhow::tensor::ones(d, {1, 2, 2});
    CHECK(near(dhow::conv1d(x, line), {8, 12}));
    CHECK(near(dhow::conv_transpose1d(dhow::tensor::ones(d, {1, 1, 2}), line, dhow::tensor(),
                                      dhow::conv_options().stride({2})),
               {1, 1, 1, 1, 1, 1, 1, 1}));
    const dhow::tensor dot = dhow::tensor::ones(d, {1, 2, 1, 1}),
                       cube = dot.reshape({1, 2, 1, 1, 1});
    CHECK(near(dhow::conv3d(x.reshape({1, 2, 3, 1, 1}), cube), {3, 5, 7}));
    CHECK(near(dhow::conv_transpose2d(dot.reshape({1, 2, 1, 1}), dot.reshape({2, 1, 1, 1})), {2}));
    CHECK(near(dhow::conv_transpose3d(cube, cube.reshape({2, 1, 1, 1, 1})), {2}));
    CHECK(near(dhow::batchnorm(x, ones, ones, ones, zeros, 0), {-1, 0, 1, 2, 3, 4}));
    CHECK(near(dhow::groupnorm(x, 2, zeros, ones), {1, 1, 1, 1, 1, 1}));
    CHECK(near(dhow::rmsnorm(dhow::tensor::ones(d, {2, 2}), ones, 0), {1, 1, 1, 1}));
    CHECK(near(dhow::dropout(dhow::tensor::ones(d, {2, 2}), 0, 1), {1, 1, 1, 1}));
    CHECK(near(
        dhow::scaled_dot_product_attention(x, x, x, dhow::tensor(), true).narrow(1, 0, 1).clone(),
        {0, 1, 2}));
    CHECK(near(dhow::interpolate(x, {6}), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
    CHECK(near(dhow::interpolate_by(x, {0.5}), {0, 3}));
}

static void products(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::arange(d, 0, 6).reshape({2, 3});
    const dhow::tensor batched = dhow::stack({x, x}), bias = dhow::tensor::ones(d, {2});
    CHECK(near(dhow::matmul(batched, x.transpose(0, 1)), {5, 14, 14, 50, 5, 14, 14, 50}));
    CHECK(near(dhow::linear(x, x), {5, 14, 14, 50}) &&
          near(dhow::linear(x, x, bias), {6, 15, 15, 51}));
    const dhow::tensor image = dhow::tensor::arange(d, 0, 16).reshape({1, 1, 4, 4});
    const dhow::tensor ones = dhow::tensor::ones(d, {1, 1, 2, 2});
    const dhow::window two = dhow::window().kernel(2).stride(2);
    CHECK(near(dhow::maxpool2d(image, two), {5, 7, 13, 15}) &&
          near(dhow::avgpool2d(image, two), {2.5f, 4.5f, 10.5f, 12.5f}));
    CHECK(near(dhow::conv2d(image, ones, dhow::tensor(), two), {10, 18, 42, 50}));
    CHECK((dhow::conv2d(image, ones, dhow::tensor::ones(d, {1}),
                        dhow::window().pad(1).dilation(2).groups(1))
               .shape() == dhow::shape{1, 1, 4, 4}));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "matmul", [&] { return dhow::matmul(x, x); }));
}

static void along(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::from(d, {2, 3}, floats{1, 3, 2, 6, 4, 5});
    CHECK(near(dhow::reduce_sum(x, 0), {7, 7, 7}) && near(dhow::reduce_mean(x, -1), {2, 5}));
    CHECK(near(dhow::reduce_max(x, 1), {3, 6}) && near(dhow::reduce_min(x, 1), {1, 4}));
    CHECK((dhow::argmax(x, 1).read<int64_t>() == integers{1, 0}) &&
          (dhow::argmin(x, 1).read<int64_t>() == integers{0, 1}));
    CHECK(near(dhow::sum(x), {21}) && near(dhow::mean(x, {0, 1}), {3.5f}) &&
          near(dhow::prod(x, {-1}), {6, 120}));
    CHECK(near(dhow::var(x, {1}), {1, 1}) && near(dhow::standard_deviation(x, {1}, 1), {1, 1}));
    CHECK(near(dhow::cumsum(x, 1), {1, 4, 6, 6, 10, 15}));
    const dhow::topk_result top = dhow::topk(x, 2);
    CHECK(near(top.values, {3, 2, 6, 5}) && (top.indices.read<int64_t>() == integers{1, 2, 0, 2}));
    CHECK(near(dhow::gather(x, dhow::tensor::from(d, {1}, integers{1})), {6, 4, 5}));
    CHECK(near(dhow::cat({x, x}, 1), {1, 3, 2, 1, 3, 2, 6, 4, 5, 6, 4, 5}));
    CHECK((dhow::stack({x, x}, -1).shape() == dhow::shape{2, 3, 2}));
    CHECK(near(dhow::sum(dhow::softmax(x, -1), {-1}), {1, 1}));
    CHECK(near(dhow::exp(dhow::log_softmax(x, 0)), dhow::softmax(x, 0).read<float>()));
    const dhow::tensor ones = dhow::tensor::ones(d, {3});
    CHECK(near(dhow::mean(dhow::layernorm(x, ones, ones, 1e-5f), {-1}), {1, 1}));
    CHECK(throws(DHOW_OUT_OF_RANGE, "2", [&] { return dhow::reduce_sum(x, 2); }));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "no tensor", [&] { return dhow::cat({}); }));
}

void test_operations(const dhow::device &device) {
    one_input(device);
    two_inputs(device);
    numbers(device);
    products(device);
    networks(device);
    along(device);
}
