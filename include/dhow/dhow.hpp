/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow for C++17: handles that release themselves, failures as exceptions, launches with any
 * arguments. Header only, over the C API, which can be mixed in at any point: get() is the C
 * handle.
 *
 *   dhow::context context;
 *   dhow::device device = context.device("cuda,cpu");
 *   dhow::tensor x = dhow::tensor::from(device, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
 *   std::vector<float> y = dhow::relu(x).read<float>();
 *
 * Failures throw dhow::error with the status and the message of dhow_last_error(), as libraries of
 * the field do. Destructors never throw. Threads and blocking are those of the C functions.
 */
#ifndef DHOW_DHOW_HPP_
#define DHOW_DHOW_HPP_

#include "dhow/cpp/data.hpp"
#include "dhow/cpp/device.hpp"
#include "dhow/cpp/handle.hpp"
#include "dhow/cpp/kernel.hpp"
#include "dhow/cpp/model.hpp"
#include "dhow/cpp/nn.hpp"
#include "dhow/cpp/ops.hpp"
#include "dhow/cpp/tensor.hpp"
#include "dhow/cpp/train.hpp"

#endif /* DHOW_DHOW_HPP_ */
