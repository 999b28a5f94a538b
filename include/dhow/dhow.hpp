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

#include <array>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dhow/dhow.h"

namespace dhow {

/* ---- failures ---- */

/** What a call that failed said. */
class error : public std::runtime_error {
   public:
    error(dhow_status status, const std::string &message)
        : std::runtime_error(message), status_(status) {}
    dhow_status status() const noexcept { return status_; }

   private:
    dhow_status status_;
};

/** Throws what the calling thread's last failure said, unless `status` is DHOW_OK. */
inline void check(dhow_status status) {
    if (status != DHOW_OK) throw error(status, dhow_last_error());
}

/* ---- handles ---- */

/** Owns a C handle that has one owner: it can be moved, not copied. */
template <typename T, void (*Release)(T *)>
class unique_handle {
   public:
    unique_handle() = default;
    explicit unique_handle(T *handle) noexcept : handle_(handle) {}
    unique_handle(unique_handle &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)) {}
    unique_handle &operator=(unique_handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    unique_handle(const unique_handle &) = delete;
    unique_handle &operator=(const unique_handle &) = delete;
    ~unique_handle() { Release(handle_); }

    T *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    /** Gives the handle away: the caller releases it. */
    T *release() noexcept { return std::exchange(handle_, nullptr); }

   private:
    T *handle_ = nullptr;
};

/** Owns one of the references to a C handle. */
template <typename T, dhow_status (*Retain)(T *), void (*Release)(T *)>
class shared_handle {
   public:
    shared_handle() = default;
    explicit shared_handle(T *handle) noexcept : handle_(handle) {}
    shared_handle(const shared_handle &other) : handle_(other.handle_) {
        if (handle_ != nullptr) check(Retain(handle_));
    }
    shared_handle(shared_handle &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)) {}
    shared_handle &operator=(shared_handle other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~shared_handle() { Release(handle_); }

    T *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    /** Gives the reference away: the caller releases it. */
    T *release() noexcept { return std::exchange(handle_, nullptr); }

   private:
    T *handle_ = nullptr;
};

/* ---- element types and shapes ---- */

template <typename T>
constexpr dhow_dtype dtype_of() {
    if constexpr (std::is_same_v<T, float>) return DHOW_F32;
    if constexpr (std::is_same_v<T, double>) return DHOW_F64;
    if constexpr (std::is_same_v<T, bool>) return DHOW_BOOL;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DHOW_I8 : DHOW_U8;
        if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? DHOW_I16 : DHOW_U16;
        if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? DHOW_I32 : DHOW_U32;
        if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? DHOW_I64 : DHOW_U64;
    }
}

/** Extents; {} is a scalar's. More than DHOW_MAX_RANK of them are refused by the C function. */
class shape {
   public:
    shape(std::initializer_list<int64_t> extents) : extents_(extents) {}
    explicit shape(std::vector<int64_t> extents) : extents_(std::move(extents)) {}
    int32_t rank() const noexcept { return static_cast<int32_t>(extents_.size()); }
    const int64_t *data() const noexcept { return extents_.data(); }
    int64_t operator[](std::size_t i) const { return extents_.at(i); }
    int64_t count() const noexcept {
        int64_t count = 1;
        for (int64_t e : extents_) count *= e;
        return count;
    }
    bool operator==(const shape &other) const { return extents_ == other.extents_; }
    bool operator!=(const shape &other) const { return !(*this == other); }

   private:
    std::vector<int64_t> extents_;
};

/* ---- contexts, devices, streams ---- */

/** A device, borrowed from its context. */
class device {
   public:
    device() = default;
    explicit device(dhow_device *handle) noexcept : handle_(handle) {}
    dhow_device *get() const noexcept { return handle_; }
    std::string name() const { return dhow_device_name(handle_); }
    dhow_device_info info() const {
        dhow_device_info info = DHOW_INIT(dhow_device_info);
        check(dhow_device_get_info(handle_, &info));
        return info;
    }
    void sync() const { check(dhow_device_sync(handle_)); }
    void set_precision(dhow_precision precision) const {
        check(dhow_device_set_precision(handle_, precision));
    }

   private:
    dhow_device *handle_ = nullptr;
};

class context : public shared_handle<dhow_context, dhow_context_retain, dhow_context_release> {
   public:
    context() : context(nullptr) {}
    explicit context(const dhow_context_options &options) : context(&options) {}
    /** The first that there is of a preference list, "cuda,cpu"; nullptr: what DHOW_DEVICE says. */
    dhow::device device(const char *spec = nullptr) const {
        dhow_device *found = nullptr;
        check(dhow_device_get(get(), spec, &found));
        return dhow::device(found);
    }
    std::vector<dhow::device> devices() const {
        std::vector<dhow::device> all;
        for (uint32_t i = 0; i < dhow_device_count(get()); i++) {
            dhow_device *found = nullptr;
            check(dhow_device_at(get(), i, &found));
            all.emplace_back(found);
        }
        return all;
    }

   private:
    explicit context(const dhow_context_options *options) : shared_handle(create(options)) {}
    static dhow_context *create(const dhow_context_options *options) {
        dhow_context *made = nullptr;
        check(dhow_context_create(options, &made));
        return made;
    }
};

class event;

/** A queue of work; a default one is its device's default stream. */
class stream : public unique_handle<dhow_stream, dhow_stream_release> {
   public:
    stream() = default;
    explicit stream(const dhow::device &device) : unique_handle(create(device.get())) {}
    void sync() const { check(dhow_stream_sync(get())); }
    /** Later work waits for the event, on the device where that is possible. */
    void wait(const event &e) const;

   private:
    static dhow_stream *create(dhow_device *device) {
        dhow_stream *made = nullptr;
        check(dhow_stream_create(device, &made));
        return made;
    }
};

class event : public unique_handle<dhow_event, dhow_event_release> {
   public:
    explicit event(const dhow::device &device, bool timing = false)
        : unique_handle(create(device.get(), timing)) {}
    void record(const stream &s = stream()) const { check(dhow_event_record(get(), s.get())); }
    void sync() const { check(dhow_event_sync(get())); }
    /** Milliseconds from `start` to this event; both were made with timing. */
    double since(const event &start) const {
        double ms = 0;
        check(dhow_event_elapsed_ms(start.get(), get(), &ms));
        return ms;
    }

   private:
    static dhow_event *create(dhow_device *device, bool timing) {
        dhow_event *made = nullptr;
        check(dhow_event_create(device, timing, &made));
        return made;
    }
};

inline void stream::wait(const event &e) const { check(dhow_stream_wait(get(), e.get())); }

/* ---- tensors ---- */

/** A tensor; copies of it share its memory, clone() does not. */
class tensor : public shared_handle<dhow_tensor, dhow_tensor_retain, dhow_tensor_release> {
   public:
    tensor() = default;
    explicit tensor(dhow_tensor *owned) noexcept : shared_handle(owned) {}

    static tensor empty(const dhow::device &d, const dhow::shape &s, dhow_dtype dtype = DHOW_F32) {
        dhow_tensor *made = nullptr;
        check(dhow_tensor_create(d.get(), dtype, s.rank(), s.data(), &made));
        return tensor(made);
    }
    static tensor full(const dhow::device &d, const dhow::shape &s, double value,
                       dhow_dtype dtype = DHOW_F32) {
        dhow_tensor *made = nullptr;
        check(dhow_tensor_full(d.get(), dtype, s.rank(), s.data(), value, &made));
        return tensor(made);
    }
    template <typename T>
    static tensor from(const dhow::device &d, const dhow::shape &s, const T *data) {
        dhow_tensor *made = nullptr;
        check(dhow_tensor_from_data(d.get(), dtype_of<T>(), s.rank(), s.data(), data, &made));
        return tensor(made);
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
        dhow_tensor *made = nullptr;
        check(dhow_npy_load(d.get(), path.c_str(), &made));
        return tensor(made);
    }

    dhow_tensor_info info() const {
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        check(dhow_tensor_get_info(get(), &info));
        return info;
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
    /** On another device; the same memory where it is there already. */
    tensor to(const dhow::device &d) const {
        return made([&](dhow_tensor **out) { return dhow_tensor_to(get(), d.get(), out); });
    }
    tensor reshape(const dhow::shape &s) const {
        return made(
            [&](dhow_tensor **out) { return dhow_tensor_reshape(get(), s.rank(), s.data(), out); });
    }
    tensor transpose(int32_t a, int32_t b) const {
        return made([&](dhow_tensor **out) { return dhow_tensor_transpose(get(), a, b, out); });
    }
    tensor narrow(int32_t dim, int64_t start, int64_t length) const {
        return made(
            [&](dhow_tensor **out) { return dhow_tensor_narrow(get(), dim, start, length, out); });
    }
    tensor cast(dhow_dtype dtype) const {
        tensor y = empty(device(), shape(), dtype);
        check(dhow_cast(nullptr, get(), y.get()));
        return y;
    }
    tensor clone() const { return cast(dtype()); }

   private:
    template <typename Make>
    static tensor made(Make make) {
        dhow_tensor *out = nullptr;
        check(make(&out));
        return tensor(out);
    }
};

/* ---- operations that make their result ---- */

#define DHOW_HPP_UNARY_(name, formula)                                \
    inline tensor name(const tensor &x, const stream &s = stream()) { \
        tensor y = tensor::empty(x.device(), x.shape(), x.dtype());   \
        check(dhow_##name(s.get(), x.get(), y.get()));                \
        return y;                                                     \
    }
DHOW_UNARY_MAP(DHOW_HPP_UNARY_)
#undef DHOW_HPP_UNARY_

/** The shape that two broadcast to, as NumPy has it. */
inline shape broadcast(const shape &a, const shape &b) {
    const int32_t rank = a.rank() > b.rank() ? a.rank() : b.rank();
    std::vector<int64_t> y(static_cast<std::size_t>(rank), 1);
    for (const shape *s : {&a, &b}) {
        for (int32_t i = 0; i < s->rank(); i++) {
            int64_t &extent = y[static_cast<std::size_t>(rank - s->rank() + i)];
            const int64_t own = s->data()[i];
            if (own != 1) extent = own; /* what does not fit is told by the operation */
        }
    }
    return shape(std::move(y));
}

#define DHOW_HPP_BINARY_(name, formula)                                                   \
    inline tensor name(const tensor &a, const tensor &b, const stream &s = stream()) {    \
        tensor y = tensor::empty(a.device(), broadcast(a.shape(), b.shape()), a.dtype()); \
        check(dhow_##name(s.get(), a.get(), b.get(), y.get()));                           \
        return y;                                                                         \
    }
DHOW_BINARY_MAP(DHOW_HPP_BINARY_)
#undef DHOW_HPP_BINARY_

inline tensor operator+(const tensor &a, const tensor &b) { return add(a, b); }
inline tensor operator-(const tensor &a, const tensor &b) { return sub(a, b); }
inline tensor operator*(const tensor &a, const tensor &b) { return mul(a, b); }
inline tensor operator/(const tensor &a, const tensor &b) { return div(a, b); }

/** a[m, k] b[k, n] */
inline tensor matmul(const tensor &a, const tensor &b, const stream &s = stream()) {
    tensor y = tensor::empty(a.device(), {a.shape()[0], b.shape()[1]}, a.dtype());
    check(dhow_matmul(s.get(), a.get(), b.get(), y.get()));
    return y;
}

/* ---- kernels of one's own ---- */

class kernel : public unique_handle<dhow_kernel, dhow_kernel_release> {
   public:
    using unique_handle::unique_handle;
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
        dhow_kernel *found = nullptr;
        check(dhow_module_kernel(get(), name, &found));
        return dhow::kernel(found);
    }

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
inline dhow_value value_of(const dhow_dims &dims) {
    dhow_value v = {};
    v.kind = DHOW_VALUE_DIMS;
    v.u.dims = &dims;
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

/* ---- models ---- */

class model : public unique_handle<dhow_model, dhow_model_release> {
   public:
    using unique_handle::unique_handle;
    /** An empty one, to be built by the C functions or by sequential(). */
    explicit model(const context &c) : unique_handle(create(c.get())) {}
    /** From an ONNX file. */
    model(const context &c, const std::string &path) : unique_handle(load(c.get(), path)) {}

    model &load_state(const std::string &path) {
        check(dhow_model_load_state(get(), path.c_str()));
        return *this;
    }
    model &to(const dhow::device &d) {
        check(dhow_model_to(get(), d.get()));
        return *this;
    }
    dhow::device device() const { return dhow::device(dhow_model_device(get())); }

    /** New results, in the order of the outputs. */
    std::vector<tensor> run(const std::vector<tensor> &inputs, const stream &s = stream()) const {
        std::vector<dhow_tensor *> in, out(dhow_model_output_count(get()), nullptr);
        for (const tensor &t : inputs) in.push_back(t.get());
        check(dhow_model_run(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                             out.data(), static_cast<uint32_t>(out.size())));
        std::vector<tensor> results;
        for (dhow_tensor *t : out) results.emplace_back(t);
        return results;
    }
    /** Of a model with one output. */
    tensor operator()(const tensor &x) const { return run({x}).at(0); }

   private:
    static dhow_model *create(dhow_context *context) {
        dhow_model *made = nullptr;
        check(dhow_model_create(context, &made));
        return made;
    }
    static dhow_model *load(dhow_context *context, const std::string &path) {
        dhow_model *made = nullptr;
        check(dhow_model_load(context, path.c_str(), &made));
        return made;
    }
};

/* ---- data ---- */

class dataset : public unique_handle<dhow_dataset, dhow_dataset_release> {
   public:
    using unique_handle::unique_handle;
    /** Samples are the first dimension of each column, on the host. */
    static dataset from(const std::vector<tensor> &columns) {
        std::vector<dhow_tensor *> handles;
        for (const tensor &t : columns) handles.push_back(t.get());
        dhow_dataset *made = nullptr;
        check(dhow_dataset_from_tensors(handles.data(), static_cast<uint32_t>(handles.size()),
                                        &made));
        return dataset(made);
    }
};

/** A batch: tensors that stay what they are for as long as it is held. */
struct batch {
    int64_t epoch, index, sample_count;
    std::vector<tensor> tensors;
};

class loader : public unique_handle<dhow_loader, dhow_loader_release> {
   public:
    explicit loader(const dataset &d,
                    const dhow_loader_options &options = DHOW_INIT(dhow_loader_options))
        : unique_handle(create(d.get(), &options)) {}
    /** False at the end of an epoch; the next call begins another one. */
    bool next(batch &out) {
        dhow_batch b = DHOW_INIT(dhow_batch);
        check(dhow_loader_next(get(), &b));
        out.epoch = b.epoch;
        out.index = b.index;
        out.sample_count = b.sample_count;
        out.tensors.clear();
        for (uint32_t i = 0; b.sample_count > 0 && i < b.tensor_count; i++) {
            check(dhow_tensor_retain(b.tensors[i]));
            out.tensors.emplace_back(b.tensors[i]);
        }
        return b.sample_count > 0;
    }

   private:
    static dhow_loader *create(dhow_dataset *dataset, const dhow_loader_options *options) {
        dhow_loader *made = nullptr;
        check(dhow_loader_create(dataset, options, &made));
        return made;
    }
};

}  // namespace dhow

#endif /* DHOW_DHOW_HPP_ */
