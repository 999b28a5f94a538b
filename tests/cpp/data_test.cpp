/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets, loaders, predictions, several devices.
 */
#include "check.hpp"

static dhow::dataset numbers_from_a_program(const dhow::context &context, bool fails) {
    dhow_dataset_column column = DHOW_INIT(dhow_dataset_column);
    column.dtype = DHOW_F32;
    column.rank = 1;
    column.shape[0] = 2;
    return dhow::dataset::from(
        context,
        {10, {column}, [fails](const int64_t *indices, int64_t count, void *const *columns) {
             if (fails) throw std::runtime_error("the disk is gone");
             for (int64_t i = 0; i < count; i++)
                 for (int64_t k = 0; k < 2; k++)
                     static_cast<float *>(columns[0])[2 * i + k] =
                         static_cast<float>(indices[i] - 5);
         }});
}

static dhow::model relu(const dhow::context &context) {
    dhow::model m(context);
    m.output("y", m.relu(m.input("x", {-1, 2})));
    return m;
}

static void loaders(const dhow::context &context) {
    const dhow::dataset numbers = numbers_from_a_program(context, false);
    CHECK(numbers.sample_count() == 10 && numbers.columns().at(0).shape[0] == 2);
    dhow_loader_options options = DHOW_INIT(dhow_loader_options);
    options.batch_size = 4;
    dhow::loader loader(numbers, options);
    CHECK(loader.batch_count() == 3 && loader.sample_at(0, 3) == 3);
    loader.restart(0, 2);
    dhow::batch b;
    CHECK(loader.next(b) && b.index == 2 && (b.tensors.at(0).read<float>() == floats{3, 3, 4, 4}));
    dhow::loader broken(numbers_from_a_program(context, true), options);
    CHECK(throws(DHOW_IO_ERROR, "the disk is gone", [&] { return broken.next(b); }));
}

static void composed(const dhow::context &context) {
    const dhow::dataset numbers = numbers_from_a_program(context, false);
    CHECK((numbers.read({9, 0}).at(0).read<float>() == floats{4, 4, -5, -5}));
    const dhow::dataset few = numbers.subset({1, 2, 3});
    const std::vector<dhow::dataset> parts = numbers.split({6, -1}, true, 42);
    CHECK(few.sample_count() == 3 && parts.at(1).sample_count() == 4);
    CHECK(dhow::dataset::concat(parts).sample_count() == 10);
    const dhow::dataset doubled =
        few.map([](const dhow_sample &, const void *const *in, void *const *out) {
            for (int k = 0; k < 2; k++)
                static_cast<float *>(out[0])[k] = 2 * static_cast<const float *>(in[0])[k];
        });
    CHECK((doubled.read({0}).at(0).read<float>() == floats{-8, -8}));
    const dhow::dataset broken = few.map([](const dhow_sample &, const void *const *,
                                            void *const *) { throw std::runtime_error("torn"); });
    CHECK(throws(DHOW_IO_ERROR, "torn", [&] { return broken.read({0}); }));
}

static void predictions(const dhow::context &context) {
    dhow_loader_options options = DHOW_INIT(dhow_loader_options);
    options.batch_size = 4;
    const dhow::model m = relu(context);
    const dhow::sink kept = dhow::sink::to_tensors(context);
    dhow::predict(m, dhow::loader(numbers_from_a_program(context, false), options), kept);
    CHECK(kept.tensor().read<float>().at(18) == 4 && kept.tensor().read<float>().at(0) == 0);
    const dhow::sink file = dhow::sink::to_npy(context, {"hpp_test_out.npy"});
    dhow::predict(m, dhow::loader(numbers_from_a_program(context, false), options), file);
    file.finish();
    const dhow::dataset again = dhow::dataset::open_npy(context, {"hpp_test_out.npy"});
    CHECK(again.sample_count() == 10);
    (void)std::remove("hpp_test_out.npy");
    float last = 0;
    const dhow::sink function = dhow::sink::to_function(
        context, [&](const dhow::batch &b) { last = b.tensors.at(0).read<float>().back(); });
    dhow::predict(m, dhow::loader(numbers_from_a_program(context, false), options), function);
    CHECK(last == 4);
    const dhow::sink refuses = dhow::sink::to_function(
        context, [](const dhow::batch &) { throw std::runtime_error("enough"); });
    CHECK(throws(DHOW_CANCELLED, "enough", [&] {
        dhow::predict(m, dhow::loader(numbers_from_a_program(context, false), options), refuses);
    }));
}

static void several_devices(const dhow::context &context) {
    const dhow::device cpu = context.device("cpu");
    const std::vector<dhow::device> all = context.devices();
    const dhow::parallel p(relu(context), all);
    const dhow::tensor x = dhow::tensor::from(cpu, {3, 2}, floats{-1, 1, -2, 2, -3, 3});
    CHECK((p.run({x}).at(0).read<float>() == floats{0, 1, 0, 2, 0, 3}));
    const dhow::tensor y = dhow::tensor::zeros(cpu, {3, 2});
    p.run_into({x}, {y});
    CHECK((y.read<float>() == floats{0, 1, 0, 2, 0, 3}));
    CHECK(p.members().size() == all.size() && p.members().at(0).status == DHOW_OK);
    dhow_loader_options options = DHOW_INIT(dhow_loader_options);
    options.batch_size = 5;
    const dhow::sink kept = dhow::sink::to_tensors(context);
    p.predict(dhow::loader(numbers_from_a_program(context, false), options), kept);
    CHECK(kept.tensor().count() == 20);
}

/* The mean of (w - 1)^2 goes down, and the model is told. */
static void training(const dhow::context &context) {
    dhow::model m(context);
    const auto x = m.input("x", {-1, 1});
    m.output("y", m.linear("w", x, 1, 1));
    m.init_parameters(1);
    const dhow::device cpu = context.device("cpu");
    const dhow::tensor one = dhow::tensor::from(cpu, {2, 1}, floats{1, 2}),
                       target = dhow::tensor::from(cpu, {2, 1}, floats{3, 5});
    dhow_trainer_options options = DHOW_INIT(dhow_trainer_options);
    options.loss = DHOW_LOSS_MSE;
    const dhow::trainer t(m, options);
    dhow_schedule schedule = DHOW_INIT(dhow_schedule);
    CHECK(dhow::schedule_rate(schedule, 0.1, 5) == 0.1);
    t.set_schedule(schedule);
    schedule.kind = DHOW_SCHEDULE_STEP;
    CHECK(throws(DHOW_INVALID_ARGUMENT, "step_size",
                 [&] { return dhow::schedule_rate(schedule, 0.1, 5); }));
    t.set_learning_rate(0.1);
    CHECK(t.learning_rate() == 0.1);
    CHECK(t.loss_scale() == 1);
    CHECK(throws(DHOW_INVALID_ARGUMENT, "no losses yet", [&] { t.save_curve("/nowhere/x.svg"); }));
    dhow_trainer_log log = DHOW_INIT(dhow_trainer_log);
    log.progress = DHOW_PROGRESS_NEVER;
    t.set_log(log);
    double loss = 0;
    for (int i = 0; i < 200; i++) loss = t.step({one, target});
    CHECK(loss < 1e-3 && t.parameters().size() == 2 && t.parameters().at(0).name == "w.weight");
    CHECK(throws(DHOW_IO_ERROR, "/nowhere", [&] { t.save_curve("/nowhere/x.svg"); }));
    t.end_log();
    CHECK(t.backward({one}, target) < 1e-3);
    t.update();
    t.zero_gradients();
    CHECK(throws(DHOW_INVALID_ARGUMENT, "backward", [&] { t.update(); }));
    CHECK(throws(DHOW_IO_ERROR, "/nowhere", [&] { t.save("/nowhere/training"); }));
    CHECK(throws(DHOW_NOT_FOUND, "/nowhere", [&] { t.load("/nowhere/training"); }));
    CHECK(t.members().size() == 1 && t.members().at(0).device == cpu.get());
    t.set_loader(dhow::loader(dhow::dataset::from({one, target})));
    t.update_model();
    CHECK(std::fabs(m.run({one}).at(0).read<float>().at(0) - 3) < 0.1f);
}

void test_data(const dhow::context &context) {
    loaders(context);
    composed(context);
    predictions(context);
    several_devices(context);
    training(context);
}
