/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: failures, handles, element types, shapes and numbers.
 */
#ifndef DHOW_CPP_HANDLE_HPP_
#define DHOW_CPP_HANDLE_HPP_

#if __cplusplus < 201703L
#error "dhow/dhow.hpp is C++17: compile with -std=c++17 or later; CMake: target_compile_features(program PRIVATE cxx_std_17)"
#endif

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
    error(dhow_status status, const std::string &message, int64_t native_code = 0)
        : std::runtime_error(message), status_(status), native_code_(native_code) {}
    dhow_status status() const noexcept { return status_; }
    /** The vendor's number, or 0. */
    int64_t native_code() const noexcept { return native_code_; }

   private:
    dhow_status status_;
    int64_t native_code_;
};

/** Throws what the calling thread's last failure said, unless `status` is DHOW_OK. */
inline void check(dhow_status status) {
    if (status != DHOW_OK) throw error(status, dhow_last_error(), dhow_last_native_code());
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

/** A number that operations take by value, exact for integers: any arithmetic type converts. */
class scalar {
   public:
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    scalar(T number) : value_(dhow_scalar_of_(number)) {}
    dhow_scalar get() const noexcept { return value_; }

   private:
    dhow_scalar value_;
};

/** What a C function that makes a handle has made: made<dhow_tensor>([&](auto **out) {...}). */
template <typename T, typename Make>
T *made(Make make) {
    T *out = nullptr;
    check(make(&out));
    return out;
}

/** The struct that a C function fills: filled<dhow_memory_stats>([&](auto *out) {...}). */
template <typename T, typename Fill>
T filled(Fill fill) {
    T out = DHOW_INIT(T);
    check(fill(&out));
    return out;
}

/** The C handles of several objects. */
template <typename Objects>
auto handles(const Objects &objects) {
    std::vector<decltype(objects.begin()->get())> all;
    for (const auto &one : objects) all.push_back(one.get());
    return all;
}

}  // namespace dhow

#endif /* DHOW_CPP_HANDLE_HPP_ */
