/* SPDX-License-Identifier: Apache-2.0
 *
 * Training, see dhow/train.h.
 */
#ifndef DHOW_CPP_TRAIN_HPP_
#define DHOW_CPP_TRAIN_HPP_

#include "dhow/cpp/data.hpp"
#include "dhow/train.h"

namespace dhow {

/** Trains a model: loss, backward and optimiser step of each batch. */
class trainer : public unique_handle<dhow_trainer, dhow_trainer_release> {
   public:
    /** A parameter that is trained and its gradient: views of the trainer's memory. */
    struct parameter {
        std::string name;
        tensor value, gradient;
    };
    trainer(const model &m, const dhow_trainer_options &options)
        : unique_handle(made<dhow_trainer>(
              [&](dhow_trainer **out) { return dhow_trainer_create(m.get(), &options, out); })) {}
    /** The loss before the step; columns are the model's inputs, then the target. */
    double step(const std::vector<tensor> &columns) const {
        dhow_batch batch = DHOW_INIT(dhow_batch);
        double loss = 0;
        if (columns.size() > DHOW_MAX_COLUMNS)
            check(dhow_set_error(DHOW_INVALID_ARGUMENT, "trainer::step: too many columns"));
        for (const tensor &column : columns) batch.tensors[batch.tensor_count++] = column.get();
        check(dhow_trainer_step(get(), &batch, &loss));
        return loss;
    }
    double backward(const std::vector<tensor> &inputs, const tensor &target,
                    const stream &s = stream()) const {
        const auto in = handles(inputs);
        double loss = 0;
        check(dhow_trainer_backward(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                                    target.get(), &loss));
        return loss;
    }
    void update(const stream &s = stream()) const { check(dhow_trainer_update(get(), s.get())); }
    void zero_gradients() const { check(dhow_trainer_zero_gradients(get())); }
    void set_learning_rate(double rate) const {
        check(dhow_trainer_set_learning_rate(get(), rate));
    }
    double learning_rate() const { return dhow_trainer_learning_rate(get()); }
    double loss_scale() const { return dhow_trainer_loss_scale(get()); }
    void set_schedule(const dhow_schedule &schedule) const {
        check(dhow_trainer_set_schedule(get(), &schedule));
    }
    /** Rows of a file and a line on the terminal, from now on. */
    void set_log(const dhow_trainer_log &log) const { check(dhow_trainer_set_log(get(), &log)); }
    void end_log() const { check(dhow_trainer_set_log(get(), nullptr)); }
    void save_curve(const std::string &path) const {
        check(dhow_trainer_save_curve(get(), path.c_str()));
    }
    /** Checkpoints hold where it stands. */
    void set_loader(const loader &l) const { check(dhow_trainer_set_loader(get(), l.get())); }
    /** The devices that share the batches, one without dhow_trainer_options.devices. */
    std::vector<dhow_parallel_member> members() const {
        std::vector<dhow_parallel_member> all;
        for (uint32_t i = 0; i < dhow_trainer_member_count(get()); i++)
            all.push_back(filled<dhow_parallel_member>(
                [&](dhow_parallel_member *out) { return dhow_trainer_member_at(get(), i, out); }));
        return all;
    }
    void save(const std::string &path) const { check(dhow_trainer_save(get(), path.c_str())); }
    void load(const std::string &path) const { check(dhow_trainer_load(get(), path.c_str())); }
    void update_model() const { check(dhow_trainer_update_model(get())); }
    std::vector<parameter> parameters() const {
        std::vector<parameter> all;
        for (uint32_t i = 0; i < dhow_trainer_parameter_count(get()); i++) {
            const char *name = nullptr;
            dhow_tensor *value = nullptr, *gradient = nullptr;
            check(dhow_trainer_parameter_at(get(), i, &name, &value, &gradient));
            all.push_back({name, tensor(value), tensor(gradient)});
        }
        return all;
    }
};

/** The learning rate of a step, from 0 on; throws where the schedule makes no sense. */
inline double schedule_rate(const dhow_schedule &schedule, double learning_rate, uint64_t step) {
    const double rate = dhow_schedule_rate(&schedule, learning_rate, step);
    if (!(rate >= 0)) check(DHOW_INVALID_ARGUMENT);
    return rate;
}

}  // namespace dhow

#endif /* DHOW_CPP_TRAIN_HPP_ */
