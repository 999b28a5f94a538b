/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, their memory, streams, events, graphs and traces.
 */
#include <cstdlib>
#include <fstream>

#include "check.hpp"

static void streams(const dhow::device &device) {
    dhow::stream a(device), b(device);
    CHECK(a.device().name() == device.name());
    const dhow::event e(device);
    dhow::tensor x = dhow::tensor::ones(device, {1000});
    const dhow::tensor y = dhow::add(x, x, a);
    e.record(a);
    b.wait(e);
    const dhow::tensor z = dhow::add(y, y, b);
    e.sync();
    b.sync();
    CHECK(e.done() && b.done() && z.read<float>().at(999) == 4);
    /* A queue of a program's own is tried where there is a number for it. */
    dhow::stream wrapped;
    try {
        CHECK(dhow::stream::native_default(device) != 0);
        wrapped = dhow::stream::wrap(device, a.native());
    } catch (const dhow::error &error) {
        CHECK(error.status() == DHOW_UNSUPPORTED);
        CHECK(throws(DHOW_UNSUPPORTED, "", [&] { return e.native(); }));
        CHECK(throws(DHOW_UNSUPPORTED, "", [&] { a.wait_native(1); }));
        return;
    }
    CHECK((dhow::relu(x, wrapped).read<float>() == floats(1000, 1)));
    e.record(a);
    wrapped.wait_native(e.native());
    wrapped.sync();
}

static void graphs(const dhow::device &device) {
    dhow::tensor x = dhow::tensor::zeros(device, {8});
    const dhow::stream stream(device);
    {
        const dhow::graph graph(stream, [&](const dhow::stream &s) {
            dhow::check(dhow_add_scalar(s.get(), x.get(), DHOW_SCALAR(1), x.get()));
        });
        graph.replay();
        graph.replay(stream);
        stream.sync();
        CHECK(x.read<float>().at(7) == 3 && graph.reason().size() < 1000);
        dhow::graph moved = dhow::graph(stream, [](const dhow::stream &) {});
        CHECK(static_cast<bool>(moved));
    }
    bool thrown = false;
    try {
        const dhow::graph bad(stream, [](const dhow::stream &) { throw std::string("no"); });
    } catch (const std::string &what) {
        thrown = what == "no";
    }
    CHECK(thrown);
}

void test_devices(const dhow::context &context, const dhow::device &device) {
    device.open();
    device.sync();
    device.set_precision(DHOW_PRECISION_REDUCED);
    CHECK(device.precision() == DHOW_PRECISION_REDUCED);
    device.set_precision(DHOW_PRECISION_F32);
    device.reset_memory_peaks();
    const uint64_t before = device.memory().live;
    const dhow::tensor kept = dhow::tensor::empty(device, {1000, 1000});
    CHECK(device.memory().live >= before + 4000000);
    device.trim();
    device.limit_memory(1 << 20);
    CHECK(throws(DHOW_OUT_OF_MEMORY, "", [&] { return dhow::tensor::empty(device, {1 << 20}); }));
    device.limit_memory(0);
    CHECK(dhow::context::of(device).get() == context.get());
    bool found = false;
    const auto plugins = context.plugins();
    for (uint32_t i = 0; i < plugins.size(); i++) {
        found = found || device.info().backend == std::string(plugins[i].backend);
        CHECK(context.components(i).size() == plugins[i].component_count);
    }
    CHECK(found);
    streams(device);
    graphs(device);
    const std::string path = "hpp_test_trace.json";
    {
        const dhow::trace trace(context, path);
        const dhow::trace_region region(context, "mine");
        dhow::relu(dhow::tensor::ones(device, {10}));
        CHECK(trace.stats().recorded > 0);
        trace.save();
    }
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    CHECK(text.find("\"mine\"") != std::string::npos);
    (void)std::remove(path.c_str());
}
