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
    const dhow::window three = dhow::window().kernel(3).pad(1),
                       two = dhow::window().kernel(2).stride(2);
    dhow::model m(context);
    dhow_model_value x = m.input("image", {-1, 1, 8, 8});
    x = m.relu(m.conv2d("conv1", x, 1, 16, three));
    x = m.relu(m.conv2d("conv2", m.maxpool2d(x, two), 16, 32, three));
    x = m.flatten(m.maxpool2d(x, two), 1);
    x = m.relu(m.linear("fc1", x, 128, 64));
    m.output("logits", m.linear("fc2", x, 64, 10));
    m.load_state(weights);
    return m;
}

static bool predict(const dhow::context &context, const dhow::device &device,
                    const std::string &folder) {
    const dhow::tensor grey = dhow::tensor::load_npy(device, folder + "/images.npy");
    const dhow::tensor x = grey.cast(DHOW_F32) / 16;
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
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        std::fprintf(stderr, "usage: digits_cpp [FOLDER]\n");
        return 2;
    }
    const dhow::context context;
    bool good = true;
    for (const dhow::device &device : context.devices())
        good = predict(context, device, argc > 1 ? argv[1] : DIGITS_FOLDER) && good;
    return good ? 0 : 1;
} catch (const dhow::error &e) {
    std::fprintf(stderr, "digits_cpp: %s: %s\n", dhow_status_name(e.status()), e.what());
    return 1;
}
