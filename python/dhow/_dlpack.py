# SPDX-License-Identifier: Apache-2.0
"""DLPack: tensors in capsules, to and from other libraries."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ._core import context, ffi, lib, made, pointed
from ._device import device
from .errors import Error

if TYPE_CHECKING:
    from ._tensor import Tensor

_NEW, _OLD = b"dltensor_versioned", b"dltensor"  # capsules keep their addresses
_USED = {_NEW: b"used_dltensor_versioned", _OLD: b"used_dltensor"}
_BACKENDS = {lib.kDLCPU: "cpu", lib.kDLCUDA: "cuda", lib.kDLOpenCL: "opencl"}
_TYPES = {backend: number for number, backend in _BACKENDS.items()}

_api = ctypes.PyDLL(None)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_END = int(ffi.cast("uintptr_t", lib.dhow_py_end_capsule_address()))


def device_of(tensor: Tensor) -> tuple[int, int]:
    backend = tensor.device.backend
    if backend not in _TYPES:
        raise BufferError(f"DLPack knows no devices of {backend}; .to('cpu') first")
    return _TYPES[backend], 0 if backend == "cpu" else tensor.device.index


def _shown(tensor: Tensor, versioned: bool, stream: Any) -> Any:
    kind = "DLManagedTensorVersioned **" if versioned else "DLManagedTensor **"
    show = lib.dhow_tensor_to_dlpack if versioned else lib.dhow_tensor_to_dlpack_unversioned
    return pointed(kind, show, tensor._handle, ffi.cast("void *", 0 if stream is None else stream))


def read_only(tensor: Tensor) -> bool:
    """Whether a tensor is frozen, or shows one element several times."""
    managed = _shown(tensor, True, None)
    flag = managed.flags & 1
    managed.deleter(managed)
    return bool(flag)


def export(tensor: Tensor, stream: Any, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None) -> object:
    own = device_of(tensor)
    try:
        if dl_device is not None and tuple(dl_device) != own:
            if copy is False:
                raise BufferError(f"the tensor is on {tensor.device}; it cannot be had elsewhere without a copy")
            name = _BACKENDS.get(dl_device[0])
            if name is None:
                raise BufferError(f"dhow has no device of DLPack's type {dl_device[0]}")
            tensor = tensor.to(f"{name}:{dl_device[1]}")
        elif copy:
            tensor = tensor.clone()
        versioned = max_version is not None and max_version[0] >= 1
        managed = _shown(tensor, versioned, stream)
    except Error as failure:
        raise BufferError(str(failure)) from failure
    address = int(ffi.cast("uintptr_t", managed))
    return _api.PyCapsule_New(address, _NEW if versioned else _OLD, _END)


def _stream_for(producer: Any) -> dict[str, Any]:
    """The number of the stream that shall wait for the producer's work: the default one of dhow's device."""
    kind, index = producer.__dlpack_device__()
    if _BACKENDS.get(kind, "cpu") == "cpu":
        return {}
    stream = pointed("dhow_stream **", lib.dhow_stream_default, device(f"{_BACKENDS[kind]}:{index}")._handle)
    return {"stream": pointed("uint64_t *", lib.dhow_stream_native, stream)}


def take(producer: Any) -> Any:
    """The handle of a new tensor over a producer's memory."""
    if not hasattr(producer, "__dlpack__"):
        raise TypeError(f"from_dlpack: a {type(producer).__name__} has no __dlpack__; dhow.tensor() copies arrays and lists")
    stream = _stream_for(producer)
    try:
        capsule = producer.__dlpack__(max_version=(1, 1), **stream)
    except TypeError:  # older than DLPack 1.0
        capsule = producer.__dlpack__(**stream)
    name = _NEW if _api.PyCapsule_IsValid(capsule, _NEW) else _OLD
    kind = "DLManagedTensorVersioned *" if name == _NEW else "DLManagedTensor *"
    managed = ffi.cast(kind, _api.PyCapsule_GetPointer(capsule, name))
    taking = lib.dhow_tensor_from_dlpack if name == _NEW else lib.dhow_tensor_from_dlpack_unversioned
    tensor = made("dhow_tensor", taking, context(), managed)
    _api.PyCapsule_SetName(capsule, _USED[name])
    return tensor
