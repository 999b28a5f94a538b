/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow/dhow.hpp as its users meet it, on every device found.
 */
#include <cstdlib>
#include <thread>

#include "check.hpp"

static void tensors(const dhow::device &device) {
    const dhow::tensor x = dhow::tensor::from(device, {2, 3}, floats{1, -2, 3, -4, 5, -6});
    const dhow::tensor row = dhow::tensor::from(device, {3}, floats{10, 20, 30});
    CHECK((dhow::relu(x).read<float>() == floats{1, 0, 3, 0, 5, 0}));
    CHECK(((x + row).read<float>() == floats{11, 18, 33, 6, 25, 24}));
    CHECK((x.transpose(0, 1).shape() == dhow::shape{3, 2}));
    CHECK((x.narrow(1, 1, 2).clone().read<float>() == floats{-2, 3, 5, -6}));
    CHECK((dhow::matmul(x, row.reshape({3, 1})).read<float>() == floats{60, -120}));
    CHECK((x.cast(DHOW_I32).read<int32_t>() == std::vector<int32_t>{1, -2, 3, -4, 5, -6}));
    dhow::tensor copy = x, moved = std::move(copy); /* both share the memory of x */
    CHECK(!copy && moved.get() == x.get());
    copy = moved;
    const dhow::tensor &itself = copy;
    copy = itself;
    CHECK(copy.count() == 6);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "the tensor is f32, not i64",
                 [&] { return x.read<int64_t>(); }));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "2 numbers for a shape of 3", [&] {
        return dhow::tensor::from(device, {3}, floats{1, 2});
    }));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "", [&] { return x + x.reshape({3, 2}); }));
    CHECK((dhow::tensor::full(device, {}, 7).read<float>() == floats{7}));
}

static void kernels(const dhow::device &device) {
    const dhow::kernel_module module(
        device,
        "KERNEL(axpy, (IN(f32,x), INOUT(f32,y), VAL(f32,a), VAL(i64,n)))\n"
        "{ GRID_FOR(i, n) y[i] += a * x[i]; }\n");
    const dhow::kernel axpy = module.kernel("axpy");
    const dhow::tensor x = dhow::tensor::full(device, {100}, 3),
                       y = dhow::tensor::full(device, {100}, 1);
    dhow::stream stream(device);
    dhow::launch(axpy, 100, x, y, 2.0f, 100);
    dhow::launch(stream, axpy, 100, x, y, 2.0, int64_t{100});
    CHECK(y.read<float>().at(99) == 13);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "argument", [&] { dhow::launch(axpy, 100, x, y, 2.0f); }));
    CHECK(throws(DHOW_COMPILE_ERROR, "",
                 [&] { dhow::kernel_module(device, "KERNEL(oops, (IN(f32,x)))\n{ y; }\n"); }));
    CHECK(!dhow::kernel_module::log().empty());
    CHECK(dhow::kernel(device, "softmax_f32").signature().rfind("(IN(f32,", 0) == 0);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "", [&] {
        dhow::launch_grid(stream, axpy, {1, 1, 1}, {64, 1, 1}, 0, x, y, 2.0f, 100);
    }));
    const dhow::event begin(device, true), end(device, true);
    begin.record(stream);
    dhow::launch(stream, axpy, 100, x, y, 1.0f, 100);
    end.record(stream);
    end.sync();
    CHECK(end.since(begin) >= 0);
    stream.wait(end);
    stream.sync();
}

static void data(const dhow::context &context) {
    const dhow::device cpu = context.device("cpu");
    std::vector<int64_t> numbers(10);
    for (std::size_t i = 0; i < 10; i++) numbers[i] = static_cast<int64_t>(i);
    dhow_loader_options options = DHOW_INIT(dhow_loader_options);
    options.batch_size = 4;
    options.workers = 1;
    dhow::loader loader(dhow::dataset::from({dhow::tensor::from(cpu, {10}, numbers)}), options);
    std::vector<dhow::batch> kept;
    for (dhow::batch b; loader.next(b);) kept.push_back(b);
    CHECK(kept.size() == 3 && kept[2].sample_count == 2);
    int64_t want = 0;
    for (const dhow::batch &b : kept)
        for (int64_t n : b.tensors.at(0).read<int64_t>()) CHECK(n == want++);
}

/* One model, and copies of one tensor, in several threads. */
static void threads(const dhow::context &context, const dhow::device &device) {
    dhow::model m(context);
    const int64_t extents[] = {-1, 4};
    dhow_model_value x = 0;
    dhow::check(dhow_model_input(m.get(), "x", DHOW_F32, 2, extents, &x));
    dhow::check(dhow_model_relu(m.get(), x, &x));
    dhow::check(dhow_model_output(m.get(), "y", x));
    m.to(device);
    const dhow::tensor in = dhow::tensor::full(device, {2, 4}, 5);
    bool right[4] = {};
    std::vector<std::thread> all;
    for (bool &r : right)
        all.emplace_back([&m, &r, in] { r = m(in).read<float>() == std::vector<float>(8, 5); });
    for (std::thread &t : all) t.join();
    for (bool r : right) CHECK(r);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "", [&] { return m.run({}); }));
}

int main() {
    dhow_context_options options = DHOW_INIT(dhow_context_options);
    options.cache_dir = "off";
    const dhow::context context(options);
    for (const dhow::device &device : context.devices()) {
        std::printf("%s\n", device.name().c_str());
        const bool simulated = device.info().backend == std::string("sim");
        tensors(device);
        if (!simulated) kernels(device);
        threads(context, device);
        test_devices(context, device);
        test_tensors(context, device, !simulated);
        test_operations(device);
        test_models(context, device);
    }
    data(context);
    test_data(context);
    CHECK(throws(DHOW_NOT_FOUND, "nothing", [&] { return context.device("nothing"); }));
    std::printf("%d checks failed\n", g_failed);
    return g_failed != 0;
}
