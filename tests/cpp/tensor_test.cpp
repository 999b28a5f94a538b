/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: made, looked at, copied, viewed, over memory of a program, in files.
 */
#include <sstream>

#include "check.hpp"
#include "dhow/cpp/dlpack.hpp"

static void making(const dhow::device &d) {
    using dhow::tensor;
    CHECK((tensor::zeros(d, {2}).read<float>() == floats{0, 0}));
    CHECK((tensor::ones(d, {2}, DHOW_I64).read<int64_t>() == integers{1, 1}));
    const tensor big = tensor::full(d, {1}, INT64_C(9007199254740993), DHOW_I64);
    CHECK(big.item<int64_t>() == INT64_C(9007199254740993));
    CHECK((tensor::full_like(big, 7).read<int64_t>() == integers{7}));
    CHECK((tensor::zeros_like(big).read<int64_t>() == integers{0}));
    CHECK((tensor::ones_like(big).read<int64_t>() == integers{1}));
    CHECK((tensor::empty_like(big).shape() == dhow::shape{1}));
    CHECK((tensor::arange(d, 1, 6, 2).read<float>() == floats{1, 3, 5}));
    const floats spread = tensor::uniform(d, {100}, -1, 1, 3).read<float>();
    for (float v : spread) CHECK(v >= -1 && v < 1);
    CHECK(tensor::normal(d, {4}, 0, 1, 3).read<float>() ==
          tensor::normal(d, {4}, 0, 1, 3).read<float>());
    CHECK((tensor::pinned(d, {4}).device().info().backend == std::string("cpu")));
    CHECK(throws(DHOW_OUT_OF_RANGE, "300", [&] { tensor::full(d, {1}, 300, DHOW_U8); }));
}

static void looking(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::from(d, {2, 2}, floats{0.5f, -1.25f, 3, 4});
    std::ostringstream out;
    out << x;
    CHECK(out.str().rfind("tensor([[ 0.5000, -1.2500],\n        [ 3.0000,  4.0000]], f32[2, 2] on ",
                          0) == 0);
    CHECK(out.str().back() == ')'); /* a newline of its own made two of `out << x << "\n"` */
    CHECK((x.strides() == integers{2, 1}) && x.extent(1) == 2);
    CHECK(x.select(0, 1).select(0, 0).item<float>() == 3);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "one element", [&] { return x.item<double>(); }));
    x.write(floats{1, 2, 3, 4});
    CHECK((x.label("mine").read<float>() == floats{1, 2, 3, 4}));
    x.fill(9);
    CHECK((x.read<float>() == floats(4, 9)));
    x.freeze();
    CHECK(throws(DHOW_INVALID_ARGUMENT, "frozen", [&] { x.fill(1); }));
}

static void views(const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::arange(d, 0, 6).reshape({2, 3});
    CHECK((x.slice(1, 0, 3, 2).contiguous().read<float>() == floats{0, 2, 3, 5}));
    CHECK((x.permute({1, 0}).shape() == dhow::shape{3, 2}));
    CHECK((x.unsqueeze(0).shape() == dhow::shape{1, 2, 3}));
    CHECK((x.unsqueeze(0).squeeze().shape() == dhow::shape{2, 3}));
    CHECK((x.flatten().read<float>() == floats{0, 1, 2, 3, 4, 5}));
    CHECK((x.narrow(0, 0, 1).expand({2, 3}).read<float>() == floats{0, 1, 2, 0, 1, 2}));
    CHECK((x.chunk(2, 1).at(1).read<float>() == floats{2, 5}));
    CHECK((x.split({2, 1}, 1).at(1).read<float>() == floats{2, 5}));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "rank 2", [&] { return x.permute({0}); }));
}

static void copies(const dhow::context &context, const dhow::device &d) {
    const dhow::device cpu = context.device("cpu");
    const dhow::tensor x = dhow::tensor::arange(cpu, 0, 4);
    const dhow::tensor there = x.to_async(d), again = dhow::tensor::zeros(cpu, {4});
    again.copy_from(there);
    CHECK((again.read<float>() == floats{0, 1, 2, 3}));
    again.fill(0).copy_from_async(there);
    CHECK((again.read<float>() == floats{0, 1, 2, 3}));
    CHECK(again.copy_plan(there).bytes == 16);
    CHECK((there.to(DHOW_I32).read<int32_t>() == std::vector<int32_t>{0, 1, 2, 3}));
    CHECK((there.to(DHOW_F32).get() == there.get()));
    CHECK((there.clone().get() != there.get()));
}

static void memory_of_a_program(const dhow::context &context, const dhow::device &d, bool native) {
    float numbers[4] = {1, 2, 3, 4};
    int ended = 0;
    {
        const dhow::tensor x = dhow::tensor::wrap(context, {4}, numbers, [&ended] { ended++; });
        CHECK(x.host_ptr() == numbers);
        const dhow::tensor view = x.narrow(0, 2, 2);
        CHECK((dhow::tensor(view).to(d).read<float>() == floats{3, 4}));
    }
    CHECK(ended == 1);
    CHECK((dhow::tensor::wrap(context, {2, 2}, numbers).read<float>() == floats{1, 2, 3, 4}));
    CHECK(throws(DHOW_INVALID_ARGUMENT, "", [&] {
        dhow::tensor::wrap(context, {2}, static_cast<float *>(nullptr), [&ended] { ended++; });
    }));
    CHECK(ended == 1);
    const dhow::tensor x = dhow::tensor::ones(d, {4});
    const auto handle = x.native();
    x.native_done();
    if (d.info().backend == std::string("cpu")) {
        CHECK(throws(DHOW_INVALID_ARGUMENT, "",
                     [&] { dhow::tensor::ones(d, {4}).to(d).pin(dhow::device()); }));
        return;
    }
    try {
        const dhow::tensor same = dhow::tensor::wrap_device(
            d, {4}, DHOW_F32, handle.first, handle.second, 16, [&ended] { ended++; });
        CHECK((same.read<float>() == floats(4, 1)));
    } catch (const dhow::error &e) {
        CHECK(!native && (e.status() == DHOW_UNSUPPORTED || e.status() == DHOW_INVALID_ARGUMENT));
        return;
    }
    CHECK(ended == 2);
}

static void files(const dhow::context &context, const dhow::device &d) {
    const dhow::tensor x = dhow::tensor::arange(d, 0, 4);
    x.save_npy("hpp_test.npy");
    CHECK(dhow::tensor::load_npy(d, "hpp_test.npy").read<float>() == x.read<float>());
    dhow::safetensors::save("hpp_test.safetensors", {{"a", x}, {"b", x.reshape({2, 2})}});
    const dhow::safetensors file(context, "hpp_test.safetensors");
    CHECK(file.entries().size() == 2 && file.entries()[1].rank == 2);
    CHECK((file.load("b", d).shape() == dhow::shape{2, 2}));
    CHECK(throws(DHOW_NOT_FOUND, "a", [&] { return file.load("c", d); }));
    (void)std::remove("hpp_test.npy");
    (void)std::remove("hpp_test.safetensors");
}

static void other_libraries(const dhow::context &context) {
    const dhow::tensor x = dhow::tensor::ones(context.device("cpu"), {4});
    const dhow::tensor shared = dhow::from_dlpack(context, dhow::to_dlpack(x)),
                       old = dhow::from_dlpack(context, dhow::to_dlpack_unversioned(x));
    x.fill(3);
    CHECK((shared.read<float>() == floats(4, 3)) && old.host_ptr() == x.host_ptr());
    x.freeze();
    CHECK(throws(DHOW_INVALID_ARGUMENT, "frozen", [&] { dhow::to_dlpack_unversioned(x); }));
}

void test_tensors(const dhow::context &context, const dhow::device &device, bool native) {
    making(device);
    looking(device);
    views(device);
    copies(context, device);
    memory_of_a_program(context, device, native);
    files(context, device);
    other_libraries(context);
}
