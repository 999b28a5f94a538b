/* SPDX-License-Identifier: Apache-2.0
 *
 * Beside dhow/dhow.hpp: tensors to and from other libraries by DLPack, without copies. For itself,
 * since it brings the structs of DLPack along.
 */
#ifndef DHOW_CPP_DLPACK_HPP_
#define DHOW_CPP_DLPACK_HPP_

#include "dhow/cpp/tensor.hpp"
#include "dhow/dlpack.h"

namespace dhow {

/** The tensor for another library, which calls its deleter once; see dhow_tensor_to_dlpack(). */
inline DLManagedTensorVersioned *to_dlpack(const tensor &t, void *native_stream = nullptr) {
    return made<DLManagedTensorVersioned>([&](DLManagedTensorVersioned **out) {
        return dhow_tensor_to_dlpack(t.get(), native_stream, out);
    });
}

/** The same in the form before DLPack 1.0. */
inline DLManagedTensor *to_dlpack_unversioned(const tensor &t, void *native_stream = nullptr) {
    return made<DLManagedTensor>([&](DLManagedTensor **out) {
        return dhow_tensor_to_dlpack_unversioned(t.get(), native_stream, out);
    });
}

/** A tensor over another library's, whose deleter is called when the last view of it ends; where
 * this throws, it stays the caller's. */
inline tensor from_dlpack(const context &c, DLManagedTensorVersioned *managed) {
    return tensor(made<dhow_tensor>(
        [&](dhow_tensor **out) { return dhow_tensor_from_dlpack(c.get(), managed, out); }));
}
inline tensor from_dlpack(const context &c, DLManagedTensor *managed) {
    return tensor(made<dhow_tensor>([&](dhow_tensor **out) {
        return dhow_tensor_from_dlpack_unversioned(c.get(), managed, out);
    }));
}

}  // namespace dhow

#endif /* DHOW_CPP_DLPACK_HPP_ */
