/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: built, run in every way, saved, placed; texts and sequences.
 */
#include <cmath>
#include <fstream>

#include "check.hpp"

static dhow::model network(const dhow::context &context) {
    dhow::model m(context);
    const dhow::model_value x = m.input("x", {-1, 4});
    dhow::model_value h = m.gelu(m.linear("fc1", x, 4, 8));
    {
        const dhow::model::scope scope(m, "deep");
        h = m.layernorm("norm", m.linear("fc2", h, 8, 4, false), 4);
    }
    m.output("y", m.add(m.clip(h, -1, 1), x)).output("double", m.mul_scalar(h, 2));
    return m;
}

/* Layers of every kind build, in one model; shapes are checked when it runs. */
static void every_layer(const dhow::context &context, const dhow::device &device) {
    dhow::model m(context);
    const dhow::window two = dhow::window().kernel(2).stride(2);
    const dhow::model_value image = m.input("image", {-1, 1, 4, 4});
    dhow::model_value x =
        m.batchnorm("bn", m.conv2d("conv", image, 1, 2, dhow::window().kernel(3).pad(1)), 2);
    x = m.add(m.maxpool2d(x, two), m.avgpool2d(x, two));
    x = m.reshape(m.flatten(x, 1), {-1, 2, 4});
    x = m.cat({x, m.transpose(m.transpose(x, 1, 2), 1, 2)}, 1);
    x = m.multihead_attention("att", x, x, x, 4, 2);
    x = m.lstm("lstm", x, 4, 4);
    x = m.matmul(x, m.parameter("square", {4, 4}));
    x = m.where(m.input("which", {4}, DHOW_BOOL), x, m.affine(x, 2, 1));
#define TWO(name, ...) x = m.name(x, x);
    DHOW_BINARY_MAP(TWO)
#undef TWO
#define ONE(name, ...) x = m.name(x);
    DHOW_UNARY_MAP(ONE)
#undef ONE
#define NUMBER(name, ...) x = m.name##_scalar(x, 1);
    DHOW_SCALAR_MAP(NUMBER)
#undef NUMBER
    dhow_layer relu = DHOW_INIT(dhow_layer);
    relu.kind = DHOW_LAYER_ACTIVATION;
    relu.activation = dhow_model_relu;
    x = m.sequential("rest", x, {relu, relu});
    const dhow::model_value rows =
        m.embedding("table", m.argmax(m.softmax(m.reduce(DHOW_REDUCE_SUM, x, {1}), -1), -1), 4, 3);
    m.output("y", rows);
    m.to(device);
    const std::vector<dhow::tensor> y = m.run(
        {dhow::tensor::ones(device, {2, 1, 4, 4}), dhow::tensor::zeros(device, {4}, DHOW_BOOL)});
    CHECK((y.at(0).shape() == dhow::shape{2, 3}));
}

/* Steps that arrange, choose and order, and the functions of one and two inputs. */
static void every_step(const dhow::context &context, const dhow::device &device) {
    dhow::model m(context);
    const dhow::model_value x = m.input("x", {-1, 3}), i = m.input("i", {2}, DHOW_I64);
    dhow::model_value y = m.permute(m.unsqueeze(x, 0), {2, 1, 0}); /* [3, n, 1] */
    y = m.squeeze(m.select(m.slice(m.narrow(y, 0, 1, 2), 0, 0, 2), 0, 1), -1);
    y = m.pad(m.expand(m.stack({y, y}), {2, -1}), {1, 0});
    y = m.index_select(m.gather(y, i), 0, i);
    const dhow::model_value zeros = m.mul_scalar(y, 0);
    y = m.scatter(y, 0, m.cast(zeros, DHOW_I64), zeros, DHOW_SCATTER_SUM);
    y = m.take_along_dim(y, m.sort(m.topk(y, 2, 0).values, 0).indices, 0);
    y = m.elu(m.leaky_relu(m.log_softmax(m.cumsum(y, 0), 0)));
#define ONE(name, ...) y = m.name(m.clip(y, 0.1, 0.9));
    DHOW_FUNCTION_MAP(ONE)
#undef ONE
#define TWO(name, ...) y = m.cast(m.name(y, y), DHOW_F32);
    DHOW_FURTHER_BINARY_MAP(TWO)
    DHOW_COMPARE_MAP(TWO)
#undef TWO
    y = m.div(m.dropout(y), m.std(y, {1}, 0, true));
    y = m.add(y, m.var(y, {0}));
    y = m.cat({m.cat(m.chunk(y, 2), 0), m.split(y, {1, 1}).at(0)}, 0);
    m.output("y", y).output("least", m.argmin(y, 0));
    m.to(device);
    const std::vector<dhow::tensor> r =
        m.run({dhow::tensor::ones(device, {4, 3}), dhow::tensor::zeros(device, {2}, DHOW_I64)});
    CHECK((r.at(0).shape() == dhow::shape{3, 5} && r.at(1).shape() == dhow::shape{5}));
}

/* A step that is written to caches and looks at them, which hold zeros. */
static void caches(const dhow::context &context, const dhow::device &device) {
    dhow::model m(context);
    const dhow::model_value x = m.input("x", {1, 1, 1, 2});
    const dhow::model_value start = m.input("start", {1}, DHOW_I64);
    const dhow::model_value length = m.input("length", {1}, DHOW_I64);
    const dhow::model_value cache = m.update_cache(m.input("cache", {1, 1, 4, 2}), x, start);
    m.output("cache", cache)
        .output("y", m.cached_attention(x, cache, cache, length, true))
        .to(device);
    const std::vector<dhow::tensor> y = m.run(
        {dhow::tensor::ones(device, {1, 1, 1, 2}), dhow::tensor::full(device, {1}, 1, DHOW_I64),
         dhow::tensor::full(device, {1}, 2, DHOW_I64), dhow::tensor::zeros(device, {1, 1, 4, 2})});
    CHECK((y.at(0).read<float>() == floats{0, 0, 1, 1, 0, 0, 0, 0}));
    CHECK(y.at(1).read<float>()[0] > 0.5F);
}

/* Further layers, of one input of one channel. */
static void further_layers(const dhow::context &context, const dhow::device &device) {
    dhow::model m(context);
    const dhow::conv_options three = dhow::conv_options().kernel({3}).padding({1});
    const dhow::conv_options square = dhow::conv_options().kernel({1, 1, 1});
    const dhow::model_value row = m.input("row", {2, 4, 6});
    dhow::model_value x = m.conv_transpose1d("up", m.conv1d("down", row, 4, 2, three), 2, 4, three);
    x = m.rmsnorm("rms", m.groupnorm("group", x, 2, 4), 6);
    x = m.scaled_dot_product_attention(x, x, x, -1, true);
    x = m.interpolate_by(m.interpolate(x, {12}), {0.5}, DHOW_INTERPOLATE_LINEAR);
    x = m.conv_transpose2d("two", m.unsqueeze(x, -1), 4, 4, square);
    x = m.conv_transpose3d("four", m.conv3d("three", m.unsqueeze(x, -1), 4, 4, square), 4, 1,
                           square, false);
    m.output("y", x).to(device);
    CHECK((m.run({dhow::tensor::ones(device, {2, 4, 6})}).at(0).shape() ==
           dhow::shape{2, 1, 6, 1, 1}));
}

static void running(const dhow::context &context, const dhow::device &device) {
    dhow::model m = network(context);
    for (const auto &[name, value] : m.parameters())
        m.set_parameter(name,
                        dhow::tensor::uniform(value.device(), value.shape(), -1, 1, name.size()));
    m.save_state("hpp_test_model.safetensors");
    dhow::model again = network(context);
    int told = 0;
    again.load_state("hpp_test_model.safetensors")
        .load_state(
            "hpp_test_model.safetensors", DHOW_STATE_PARTIAL,
            [&](dhow_state_difference, const std::string &, const std::string &) { told++; });
    CHECK(told == 0 && again.parameters().size() == 5 && again.parameter_infos().size() == 5);
    CHECK(again.precision() == DHOW_PRECISION_DEVICE &&
          again.set_precision(DHOW_PRECISION_BF16).precision() == DHOW_PRECISION_BF16);
    again.set_precision(DHOW_PRECISION_DEVICE);
    again.place(device, DHOW_PLACEMENT_FALLBACK).limit_memory(0).limit_time(100).profile();
    CHECK(again.inputs().size() == 1 && again.outputs().at(1).name == std::string("double"));
    const dhow::tensor x = dhow::tensor::uniform(device, {3, 4}, -1, 1, 1);
    const floats wanted = m.run({x.to(m.device())}).at(0).read<float>();
    const auto same = [&](const dhow::tensor &y) {
        const floats got = y.read<float>();
        for (std::size_t i = 0; i < wanted.size(); i++)
            if (std::fabs(got[i] - wanted[i]) > 1e-4f) return false;
        return got.size() == wanted.size();
    };
    CHECK(same(again.run({x}).at(0)));
    const dhow::tensor into = dhow::tensor::zeros(device, {3, 4});
    again.run_into({x}, {into, dhow::tensor::zeros(device, {3, 4})});
    CHECK(same(into));
    CHECK(same(again.run_named({{"x", x}}).at("y")));
    CHECK(again.run_named({{"x", x}}, {"double"}).count("y") == 0);
    CHECK(throws(DHOW_NOT_FOUND, "z", [&] { return again.run_named({{"z", x}}); }));
    std::vector<dhow::datum> given;
    given.emplace_back(x);
    CHECK(same(again.run_data(given).at(0).tensor()));
    CHECK(again.summary().step_count == again.steps().size() && !again.steps().empty());
    CHECK(same(again.replicate({device}).at(0).run({x}).at(0)));
    again.cancel();
    (void)std::remove("hpp_test_model.safetensors");
}

/* y = Relu(x) as an ONNX file: ir_version 8, opset 17. */
static const char k_relu[] =
    "\x08\x08"                                                  /* ir_version */
    "\x3a\x2f"                                                  /* graph */
    "\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu"                    /* node */
    "\x12\x01g"                                                 /* name */
    "\x5a\x0d\x0a\x01x\x12\x08\x0a\x06\x08\x01\x12\x02\x0a\x00" /* input f32[?] */
    "\x62\x0d\x0a\x01y\x12\x08\x0a\x06\x08\x01\x12\x02\x0a\x00" /* output */
    "\x42\x02\x10\x11";                                         /* opset */

static void files_and_data(const dhow::context &context) {
    const dhow::device cpu = context.device("cpu");
    const dhow::model memory(context, k_relu, sizeof k_relu - 1);
    CHECK((memory(dhow::tensor::from(cpu, {2}, floats{-1, 2})).read<float>() == floats{0, 2}));
    {
        std::ofstream file("hpp_test.onnx", std::ios::binary);
        file.write(k_relu, sizeof k_relu - 1);
    }
    const dhow::model loaded(context, "hpp_test.onnx");
    CHECK(loaded.outputs().at(0).name == std::string("y"));
    (void)std::remove("hpp_test.onnx");
    CHECK(throws(DHOW_NOT_FOUND, "nowhere", [&] { dhow::model(context, "nowhere.onnx"); }));
    const dhow::datum texts = dhow::datum::texts({2}, {"monday", "tuesday"});
    CHECK(texts.texts().at(1) == "tuesday" && texts.info().kind == DHOW_DATUM_TEXTS);
    std::vector<dhow::datum> items;
    items.emplace_back(dhow::tensor::ones(cpu, {3}));
    const dhow::datum sequence = dhow::datum::sequence(items);
    CHECK(sequence.info().count == 1 && sequence.tensors().at(0).count() == 3);
    CHECK(dhow::datum::nothing().info().kind == DHOW_DATUM_NONE);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "1 texts", [] { dhow::datum::texts({2}, {"a"}); }));
}

void test_models(const dhow::context &context, const dhow::device &device) {
    every_layer(context, device);
    every_step(context, device);
    caches(context, device);
    further_layers(context, device);
    running(context, device);
    files_and_data(context);
}
