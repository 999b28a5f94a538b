/* SPDX-License-Identifier: Apache-2.0
 *
 * digits.c in C++: predicts handwritten digits on every device found and compares the results with
 * PyTorch's. digits_cpp [FOLDER]
 */
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "dhow/dhow.hpp"

static dhow::model network(const dhow::context &context, const std::string &weights) {
    dhow_window three = DHOW_INIT(dhow_window), two = three;
    std::fill_n(three.kernel, 2, 3);
    std::fill_n(three.pad, 4, 1);
    std::fill_n(two.kernel, 2, 2);
    std::fill_n(two.stride, 2, 2);
    const int64_t image[] = {-1, 1, 8, 8};
    dhow::model m(context);
    dhow_model_value x = 0;
    dhow::check(dhow_model_input(m.get(), "image", DHOW_F32, 4, image, &x));
    dhow::check(dhow_model_conv2d(m.get(), "conv1", x, 1, 16, &three, 1, &x));
    dhow::check(dhow_model_relu(m.get(), x, &x));
    dhow::check(dhow_model_maxpool2d(m.get(), x, &two, &x));
    dhow::check(dhow_model_conv2d(m.get(), "conv2", x, 16, 32, &three, 1, &x));
    dhow::check(dhow_model_relu(m.get(), x, &x));
    dhow::check(dhow_model_maxpool2d(m.get(), x, &two, &x));
    dhow::check(dhow_model_flatten(m.get(), x, 1, &x));
    dhow::check(dhow_model_linear(m.get(), "fc1", x, 128, 64, 1, &x));
    dhow::check(dhow_model_relu(m.get(), x, &x));
    dhow::check(dhow_model_linear(m.get(), "fc2", x, 64, 10, 1, &x));
    dhow::check(dhow_model_output(m.get(), "logits", x));
    m.load_state(weights);
    return m;
}

static bool predict(const dhow::context &context, const dhow::device &device,
                    const std::string &folder) {
    const dhow::tensor grey = dhow::tensor::load_npy(device, folder + "/images.npy");
    const dhow::tensor x = grey.cast(DHOW_F32) / dhow::tensor::full(device, {1}, 16);
    dhow::model model = network(context, folder + "/digits.safetensors");
    const auto logits = model.to(device)(x).read<float>();
    const dhow::device cpu = context.device("cpu");
    const auto labels = dhow::tensor::load_npy(cpu, folder + "/labels.npy").read<int64_t>();
    const auto torch = dhow::tensor::load_npy(cpu, folder + "/logits.npy").read<float>();
    double right = 0, difference = 0;
    for (std::size_t i = 0; i < labels.size(); i++) {
        const float *row = &logits[i * 10];
        right += std::max_element(row, row + 10) - row == labels[i];
        for (std::size_t k = 0; k < 10; k++)
            difference =
                std::fmax(difference, std::fabs(double{row[k]} - double{torch[i * 10 + k]}));
    }
    std::printf("%-10s %6.2f%%  difference to PyTorch %.2e\n", device.name().c_str(),
                100 * right / static_cast<double>(labels.size()), difference);
    return difference <= 1e-3;
}

int main(int argc, char **argv) try {
    const dhow::context context;
    bool good = true;
    for (const dhow::device &device : context.devices())
        good = predict(context, device, argc > 1 ? argv[1] : DIGITS_FOLDER) && good;
    return good ? 0 : 1;
} catch (const dhow::error &e) {
    std::fprintf(stderr, "digits_cpp: %s: %s\n", dhow_status_name(e.status()), e.what());
    return 1;
}
