/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: kernels of one's own and their launches.
 */
#ifndef DHOW_CPP_KERNEL_HPP_
#define DHOW_CPP_KERNEL_HPP_

#include <array>

#include "dhow/cpp/tensor.hpp"

namespace dhow {

/* ---- kernels of one's own ---- */

class kernel : public unique_handle<dhow_kernel, dhow_kernel_release> {
   public:
    using unique_handle::unique_handle;
    /** A built-in one, "softmax_f16". */
    kernel(const dhow::device &device, const char *name)
        : unique_handle(made<dhow_kernel>(
              [&](dhow_kernel **out) { return dhow_kernel_get(device.get(), name, out); })) {}
    std::string signature() const { return dhow_kernel_signature(get()); }
};

class kernel_module : public unique_handle<dhow_module, dhow_module_release> {
   public:
    kernel_module(const dhow::device &device, const std::string &text) {
        dhow_module_source source = DHOW_INIT(dhow_module_source);
        source.text = text.c_str();
        *this = kernel_module(device, source);
    }
    kernel_module(const dhow::device &device, const dhow_module_source &source)
        : unique_handle(build(device.get(), &source)) {}
    dhow::kernel kernel(const char *name) const {
        return dhow::kernel(made<dhow_kernel>(
            [&](dhow_kernel **out) { return dhow_module_kernel(get(), name, out); }));
    }
    /** The compiler's messages of this thread's last build. */
    static std::string log() { return dhow_module_log(); }

   private:
    static dhow_module *build(dhow_device *device, const dhow_module_source *source) {
        dhow_module *made = nullptr;
        check(dhow_module_build(device, source, &made));
        return made;
    }
};

/** A launch argument: a tensor, a number or dims. */
inline dhow_value value_of(const tensor &t) {
    dhow_value v = {};
    v.kind = DHOW_VALUE_TENSOR;
    v.u.tensor = t.get();
    return v;
}
inline dhow_value value_of(const dhow_dims &d) {
    dhow_value v = {};
    v.kind = DHOW_VALUE_DIMS;
    v.u.dims = &d;
    return v;
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
dhow_value value_of(T number) {
    dhow_value v = {};
    if constexpr (std::is_same_v<T, float>) {
        v.kind = DHOW_VALUE_F32;
        v.u.f32 = number;
    } else if constexpr (std::is_same_v<T, double>) {
        v.kind = DHOW_VALUE_F64;
        v.u.f64 = number;
    } else if constexpr (std::is_signed_v<T>) {
        v.kind = sizeof(T) <= 4 ? DHOW_VALUE_I32 : DHOW_VALUE_I64;
        v.u.i = number;
    } else {
        v.kind = sizeof(T) <= 4 ? DHOW_VALUE_U32 : DHOW_VALUE_U64;
        v.u.u = number;
    }
    return v;
}

/** dhow::launch(kernel, work, x, y, 2.0f, n): dhow_launch_values() on the default stream. */
template <typename... Args>
void launch(const stream &s, const kernel &k, int64_t work, const Args &...args) {
    const std::array<dhow_value, sizeof...(Args)> values = {value_of(args)...};
    check(dhow_launch_values(s.get(), k.get(), work, static_cast<uint32_t>(values.size()),
                             values.data()));
}
template <typename... Args>
void launch(const kernel &k, int64_t work, const Args &...args) {
    launch(stream(), k, work, args...);
}

/** A kernel of a native module: groups, items of a group, and bytes they share. */
template <typename... Args>
void launch_grid(const stream &s, const kernel &k, const std::array<uint32_t, 3> &grid,
                 const std::array<uint32_t, 3> &block, uint32_t shared_bytes, const Args &...args) {
    const std::array<dhow_value, sizeof...(Args)> values = {value_of(args)...};
    check(dhow_launch_grid_values(s.get(), k.get(), grid.data(), block.data(), shared_bytes,
                                  static_cast<uint32_t>(values.size()), values.data()));
}

}  // namespace dhow

#endif /* DHOW_CPP_KERNEL_HPP_ */
