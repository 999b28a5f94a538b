/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that count, and what the tests of each part of dhow/dhow.hpp are called.
 */
#ifndef DHOW_TESTS_CPP_CHECK_HPP_
#define DHOW_TESTS_CPP_CHECK_HPP_

#include <cstdio>
#include <string>

#include "dhow/dhow.hpp"

inline int g_failed;
#define CHECK(what)                                                     \
    do {                                                                \
        if (!(what)) {                                                  \
            std::fprintf(stderr, "%d: %s is false\n", __LINE__, #what); \
            g_failed++;                                                 \
        }                                                               \
    } while (0)

template <typename Call>
bool throws(dhow_status status, const std::string &text, Call call) {
    try {
        call();
    } catch (const dhow::error &e) {
        if (e.status() == status && std::string(e.what()).find(text) != std::string::npos)
            return true;
        std::fprintf(stderr, "it said %s: %s\n", dhow_status_name(e.status()), e.what());
    }
    return false;
}

using floats = std::vector<float>;
using integers = std::vector<int64_t>;

void test_devices(const dhow::context &context, const dhow::device &device);
void test_tensors(const dhow::context &context, const dhow::device &device, bool native);
void test_operations(const dhow::device &device);
void test_models(const dhow::context &context, const dhow::device &device);
void test_data(const dhow::context &context);

#endif /* DHOW_TESTS_CPP_CHECK_HPP_ */
