/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: tensors and files of them.
 */
#ifndef DHOW_CPP_TENSOR_HPP_
#define DHOW_CPP_TENSOR_HPP_

#include <functional>
#include <map>
#include <memory>
#include <ostream>

#include "dhow/cpp/device.hpp"

namespace dhow {

/* ---- tensors ---- */

/** A tensor; copies of it share its memory, clone() does not. */
class tensor : public shared_handle<dhow_tensor, dhow_tensor_retain, dhow_tensor_release> {
   public:
    tensor() = default;
    explicit tensor(dhow_tensor *owned) noexcept : shared_handle(owned) {}

    static tensor empty(const dhow::device &d, const dhow::shape &s, dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_create(d.get(), dtype, s.rank(), s.data(), out);
        });
    }
    static tensor full(const dhow::device &d, const dhow::shape &s, scalar value,
                       dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_full_scalar(d.get(), dtype, s.rank(), s.data(), value.get(), out);
        });
    }
#define DHOW_HPP_FILLED_(name)                                                                     \
    static tensor name(const dhow::device &d, const dhow::shape &s, dhow_dtype dtype = DHOW_F32) { \
        return make([&](dhow_tensor **out) {                                                       \
            return dhow_tensor_##name(d.get(), dtype, s.rank(), s.data(), out);                    \
        });                                                                                        \
    }                                                                                              \
    static tensor name##_like(const tensor &t) {                                                   \
        return make([&](dhow_tensor **out) { return dhow_tensor_##name##_like(t.get(), out); });   \
    }
    DHOW_HPP_FILLED_(zeros)
    DHOW_HPP_FILLED_(ones)
#undef DHOW_HPP_FILLED_
    static tensor empty_like(const tensor &t) {
        return make([&](dhow_tensor **out) { return dhow_tensor_empty_like(t.get(), out); });
    }
    static tensor full_like(const tensor &t, scalar value) {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_full_like(t.get(), value.get(), out); });
    }
    /** start, start + step, ... before end. */
    static tensor arange(const dhow::device &d, scalar start, scalar end, scalar step = 1,
                         dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_arange(d.get(), dtype, start.get(), end.get(), step.get(), out);
        });
    }
    /** Evenly spread over low <= value < high; the same on every device. */
    static tensor uniform(const dhow::device &d, const dhow::shape &s, double low, double high,
                          uint64_t seed, dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_uniform(d.get(), dtype, s.rank(), s.data(), low, high, seed, out);
        });
    }
    static tensor normal(const dhow::device &d, const dhow::shape &s, double mean, double deviation,
                         uint64_t seed, dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_normal(d.get(), dtype, s.rank(), s.data(), mean, deviation, seed,
                                      out);
        });
    }
    /** In host memory that `d` copies from and to at full speed. */
    static tensor pinned(const dhow::device &d, const dhow::shape &s, dhow_dtype dtype = DHOW_F32) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_create_pinned(d.get(), dtype, s.rank(), s.data(), out);
        });
    }
    /** Over a program's own host memory, which outlives the tensor and all views of it; or `done`
     * is called when they and all work on it have ended, by whichever thread. */
    template <typename T>
    static tensor wrap(const context &c, const dhow::shape &s, T *data,
                       std::function<void()> done = nullptr) {
        return borrow(std::move(done), [&](void (*release)(void *), void *user, dhow_tensor **out) {
            return dhow_tensor_wrap(c.get(), dtype_of<T>(), s.rank(), s.data(), data, release, user,
                                    out);
        });
    }
    /** The same over memory of a device: an address for CUDA, a cl_mem for OpenCL. */
    static tensor wrap_device(const dhow::device &d, const dhow::shape &s, dhow_dtype dtype,
                              uint64_t native, uint64_t offset_bytes, uint64_t bytes,
                              std::function<void()> done = nullptr) {
        return borrow(std::move(done), [&](void (*release)(void *), void *user, dhow_tensor **out) {
            return dhow_tensor_wrap_device(d.get(), dtype, s.rank(), s.data(), nullptr, native,
                                           offset_bytes, bytes, release, user, out);
        });
    }
    template <typename T>
    static tensor from(const dhow::device &d, const dhow::shape &s, const T *data) {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_from_data(d.get(), dtype_of<T>(), s.rank(), s.data(), data, out);
        });
    }
    template <typename T>
    static tensor from(const dhow::device &d, const dhow::shape &s, const std::vector<T> &data) {
        if (static_cast<int64_t>(data.size()) != s.count())
            throw error(DHOW_INVALID_ARGUMENT,
                        "dhow::tensor::from: " + std::to_string(data.size()) +
                            " numbers for a shape of " + std::to_string(s.count()));
        return from(d, s, data.data());
    }
    static tensor load_npy(const dhow::device &d, const std::string &path) {
        return make([&](dhow_tensor **out) { return dhow_npy_load(d.get(), path.c_str(), out); });
    }

    dhow_tensor_info info() const {
        return filled<dhow_tensor_info>(
            [&](dhow_tensor_info *out) { return dhow_tensor_get_info(get(), out); });
    }
    dhow::shape shape() const {
        const dhow_tensor_info i = info();
        return dhow::shape(std::vector<int64_t>(i.shape, i.shape + i.rank));
    }
    int64_t count() const { return dhow_tensor_count(get()); }
    dhow_dtype dtype() const { return info().dtype; }
    dhow::device device() const { return dhow::device(dhow_tensor_device(get())); }

    /** The elements, row-major; T must be the tensor's element type. Blocks. */
    template <typename T>
    std::vector<T> read() const {
        static_assert(!std::is_same_v<T, bool>, "read bools as uint8_t");
        const dhow_tensor_info i = info();
        const bool fits =
            i.dtype == dtype_of<T>() || (i.dtype == DHOW_BOOL && std::is_same_v<T, uint8_t>);
        if (!fits)
            throw error(DHOW_INVALID_ARGUMENT, std::string("dhow::tensor::read: the tensor is ") +
                                                   dhow_dtype_name(i.dtype) + ", not " +
                                                   dhow_dtype_name(dtype_of<T>()));
        std::vector<T> values(static_cast<std::size_t>(i.count));
        check(dhow_tensor_read(get(), values.data(), values.size() * sizeof(T)));
        return values;
    }
    /** The value of a tensor with one element, exact for integers. Blocks. */
    template <typename T>
    T item() const {
        if constexpr (std::is_integral_v<T>) {
            int64_t value = 0;
            check(dhow_tensor_item_i64(get(), &value));
            return static_cast<T>(value);
        } else {
            double value = 0;
            check(dhow_tensor_item(get(), &value));
            return static_cast<T>(value);
        }
    }
    /** Overwrites all elements, row-major. Blocks. */
    template <typename T>
    void write(const std::vector<T> &values) const {
        check(dhow_tensor_write(get(), values.data(), values.size() * sizeof(T)));
    }
    /** As dhow_tensor_print() shows it, without a newline at the end; `out << x` writes it. */
    std::string text() const {
        std::string all;
        check(dhow_tensor_print(
            get(),
            [](void *user, const char *piece, uint64_t bytes) {
                static_cast<std::string *>(user)->append(piece, bytes);
            },
            &all));
        if (!all.empty() && all.back() == '\n') all.pop_back();
        return all;
    }
    friend std::ostream &operator<<(std::ostream &out, const tensor &t) { return out << t.text(); }
    std::vector<int64_t> strides() const {
        const dhow_tensor_info i = info();
        return std::vector<int64_t>(i.strides, i.strides + i.rank);
    }
    int64_t extent(int32_t dim) const { return dhow_tensor_extent(get(), dim); }
    /** The first element's address on the CPU, after pending work. */
    void *host_ptr() const {
        void *address = nullptr;
        check(dhow_tensor_host_ptr(get(), &address));
        return address;
    }
    /** The backend's own handle and the byte offset of the first element, until native_done(). */
    std::pair<uint64_t, uint64_t> native() const {
        std::pair<uint64_t, uint64_t> found;
        check(dhow_tensor_native(get(), &found.first, &found.second));
        return found;
    }
    void native_done(const stream &s = stream()) const {
        check(dhow_tensor_native_done(get(), s.get()));
    }
    const tensor &label(const std::string &name) const {
        check(dhow_tensor_set_label(get(), name.c_str()));
        return *this;
    }
    /** Promises that the values never change again. */
    const tensor &freeze() const {
        check(dhow_tensor_freeze(get()));
        return *this;
    }
    /** Pins the host memory, so that `d` copies from and to it at full speed. */
    void pin(const dhow::device &d) const { check(dhow_tensor_pin(get(), d.get())); }
    void save_npy(const std::string &path) const { check(dhow_npy_save(get(), path.c_str())); }

    /* ---- places, forms and views ---- */

    /** On another device; the same memory where it is there already. */
    tensor to(const dhow::device &d) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_to(get(), d.get(), out); });
    }
    /** The same without waiting: using the result waits by itself. */
    tensor to_async(const dhow::device &d, const stream &s = stream()) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_to_async(s.get(), get(), d.get(), out); });
    }
    /** In another dtype, in memory of its own. */
    tensor cast(dhow_dtype dtype, const stream &s = stream()) const {
        tensor y = empty(device(), shape(), dtype);
        check(dhow_cast(s.get(), get(), y.get()));
        return y;
    }
    /** In another dtype: itself where it has it already. */
    tensor to(dhow_dtype dtype, const stream &s = stream()) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_to_dtype(s.get(), get(), dtype, out); });
    }
    tensor clone(const stream &s = stream()) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_clone(s.get(), get(), out); });
    }
    /** Row-major: itself where it is. */
    tensor contiguous(const stream &s = stream()) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_contiguous(s.get(), get(), out); });
    }
    const tensor &fill(scalar value, const stream &s = stream()) const {
        check(dhow_fill_scalar(s.get(), get(), value.get()));
        return *this;
    }
    /** Copies the values of a tensor of the same shape and dtype, from wherever it is. */
    const tensor &copy_from(const tensor &source) const {
        check(dhow_copy(source.get(), get()));
        return *this;
    }
    const tensor &copy_from_async(const tensor &source, const stream &s = stream(),
                                  uint32_t flags = 0) const {
        check(dhow_copy_async(s.get(), source.get(), get(), flags));
        return *this;
    }
    /** How a copy from `source` would go. */
    dhow_copy_plan_info copy_plan(const tensor &source) const {
        return filled<dhow_copy_plan_info>(
            [&](dhow_copy_plan_info *out) { return dhow_copy_plan(source.get(), get(), out); });
    }

    tensor slice(int32_t dim, int64_t start, int64_t stop, int64_t step = 1) const {
        return make([&](dhow_tensor **out) {
            return dhow_tensor_slice(get(), dim, start, stop, step, out);
        });
    }
    tensor narrow(int32_t dim, int64_t start, int64_t length) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_narrow(get(), dim, start, length, out); });
    }
    tensor select(int32_t dim, int64_t index) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_select(get(), dim, index, out); });
    }
    tensor transpose(int32_t a, int32_t b) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_transpose(get(), a, b, out); });
    }
    tensor squeeze(int32_t dim = DHOW_ALL_DIMS) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_squeeze(get(), dim, out); });
    }
    tensor unsqueeze(int32_t dim) const {
        return make([&](dhow_tensor **out) { return dhow_tensor_unsqueeze(get(), dim, out); });
    }
    tensor flatten(int32_t first = 0, int32_t last = -1) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_flatten(get(), first, last, out); });
    }
    tensor reshape(const dhow::shape &s) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_reshape(get(), s.rank(), s.data(), out); });
    }
    tensor expand(const dhow::shape &s) const {
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_expand(get(), s.rank(), s.data(), out); });
    }
    tensor permute(const std::vector<int32_t> &order) const {
        if (static_cast<int32_t>(order.size()) != info().rank)
            throw error(DHOW_INVALID_ARGUMENT,
                        "dhow::tensor::permute: " + std::to_string(order.size()) +
                            " dimensions for a tensor of rank " + std::to_string(info().rank));
        return make(
            [&](dhow_tensor **out) { return dhow_tensor_permute(get(), order.data(), out); });
    }
    /** `count` parts of a dimension, the last ones shorter where it does not come out even. */
    std::vector<tensor> chunk(uint32_t count, int32_t dim = 0) const {
        std::vector<dhow_tensor *> parts(count, nullptr);
        check(dhow_tensor_chunk(get(), dim, count, parts.data()));
        return std::vector<tensor>(parts.begin(), parts.end());
    }
    /** Parts of a dimension of extents that come to its own. */
    std::vector<tensor> split(const std::vector<int64_t> &sizes, int32_t dim = 0) const {
        std::vector<dhow_tensor *> parts(sizes.size(), nullptr);
        check(dhow_tensor_split(get(), dim, sizes.data(), static_cast<uint32_t>(sizes.size()),
                                parts.data()));
        return std::vector<tensor>(parts.begin(), parts.end());
    }

   private:
    template <typename Make>
    static tensor make(Make call) {
        return tensor(made<dhow_tensor>(call));
    }
    /** What a C function that takes release(user) makes; `done` is called once. */
    template <typename Make>
    static tensor borrow(std::function<void()> done, Make call) {
        if (!done) return make([&](dhow_tensor **out) { return call(nullptr, nullptr, out); });
        auto kept = std::make_unique<std::function<void()>>(std::move(done));
        tensor made_of = make([&](dhow_tensor **out) {
            return call(
                [](void *user) {
                    std::unique_ptr<std::function<void()>> ended(
                        static_cast<std::function<void()> *>(user));
                    (*ended)();
                },
                kept.get(), out);
        });
        (void)kept.release();
        return made_of;
    }
};

/** Tensors of a safetensors file, by name. */
class safetensors : public unique_handle<dhow_safetensors, dhow_safetensors_close> {
   public:
    safetensors(const context &c, const std::string &path)
        : unique_handle(made<dhow_safetensors>([&](dhow_safetensors **out) {
              return dhow_safetensors_open(c.get(), path.c_str(), out);
          })) {}
    std::vector<dhow_safetensors_entry> entries() const {
        std::vector<dhow_safetensors_entry> all;
        for (uint32_t i = 0; i < dhow_safetensors_count(get()); i++)
            all.push_back(filled<dhow_safetensors_entry>(
                [&](dhow_safetensors_entry *out) { return dhow_safetensors_at(get(), i, out); }));
        return all;
    }
    tensor load(const std::string &name, const dhow::device &d) const {
        return tensor(made<dhow_tensor>([&](dhow_tensor **out) {
            return dhow_safetensors_load(get(), name.c_str(), d.get(), out);
        }));
    }
    static void save(const std::string &path, const std::map<std::string, tensor> &tensors) {
        std::vector<const char *> names;
        std::vector<dhow_tensor *> all;
        for (const auto &[name, t] : tensors) {
            names.push_back(name.c_str());
            all.push_back(t.get());
        }
        check(dhow_safetensors_save(path.c_str(), static_cast<uint32_t>(all.size()), names.data(),
                                    all.data()));
    }
};

}  // namespace dhow

#endif /* DHOW_CPP_TENSOR_HPP_ */
