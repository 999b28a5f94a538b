# SPDX-License-Identifier: Apache-2.0
"""Tensors of dhow for Python libraries that speak DLPack, by ctypes alone.

    dhow = Dhow("libdhow.so")
    t = dhow.from_dlpack(numpy.arange(6.0))     # the same memory
    a = numpy.from_dlpack(t)                    # and again
"""
import ctypes
from ctypes import byref, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p

CPU = 1
VERSIONED, USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
OLD, USED_OLD = b"dltensor", b"used_dltensor"

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
api.PyCapsule_IsValid.restype = c_int
api.PyCapsule_IsValid.argtypes = [c_void_p, c_char_p]  # an address: no reference is taken
api.PyCapsule_GetPointer.restype = c_void_p
api.PyCapsule_GetPointer.argtypes = [c_void_p, c_char_p]
api.PyCapsule_SetName.restype = c_int
api.PyCapsule_SetName.argtypes = [c_void_p, c_char_p]


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, c_void_p)), ("flags", c_uint64), ("tensor", DLTensor)]


class OldManaged(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", ctypes.CFUNCTYPE(None, c_void_p))]


@ctypes.CFUNCTYPE(None, c_void_p)
def end_capsule(capsule):
    """Nobody has taken the tensor, so it ends here."""
    for name, form in ((VERSIONED, Managed), (OLD, OldManaged)):
        if api.PyCapsule_IsValid(capsule, name):
            managed = api.PyCapsule_GetPointer(capsule, name)
            form.from_address(managed).deleter(managed)


class Dhow:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.dhow_last_error.restype = c_char_p
        self.context = c_void_p()
        self.check(self.lib.dhow_context_create(None, byref(self.context)))
        self.cpu = c_void_p()
        self.check(self.lib.dhow_device_get(self.context, b"cpu", byref(self.cpu)))

    def close(self):
        self.lib.dhow_context_release(self.context)

    def check(self, status):
        if status != 0:
            raise BufferError(self.lib.dhow_last_error().decode())

    def full(self, dtype, shape, value):
        handle = c_void_p()
        self.check(self.lib.dhow_tensor_full(self.cpu, dtype, len(shape), (c_int64 * len(shape))(*shape),
                                             ctypes.c_double(value), byref(handle)))
        return Tensor(self, handle)

    def from_capsule(self, capsule):
        """Takes what a __dlpack__() has returned; the capsule stays as it is when that fails."""
        address, handle = id(capsule), c_void_p()
        versioned = api.PyCapsule_IsValid(address, VERSIONED)
        name, used = (VERSIONED, USED_VERSIONED) if versioned else (OLD, USED_OLD)
        take = self.lib.dhow_tensor_from_dlpack if versioned else self.lib.dhow_tensor_from_dlpack_unversioned
        managed = c_void_p(api.PyCapsule_GetPointer(address, name))
        self.check(take(self.context, managed, byref(handle)))
        api.PyCapsule_SetName(address, used)
        return Tensor(self, handle)

    def from_dlpack(self, producer):
        try:
            capsule = producer.__dlpack__(max_version=(1, 1))
        except TypeError:  # older than DLPack 1.0
            capsule = producer.__dlpack__()
        return self.from_capsule(capsule)


class Tensor:
    def __init__(self, dhow, handle):
        self.dhow, self.handle = dhow, handle

    def __del__(self):
        self.dhow.lib.dhow_tensor_release(self.handle)

    def __dlpack_device__(self):
        return (CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError("dhow shows tensors, and copies none")
        managed = c_void_p()
        versioned = max_version is not None and max_version[0] >= 1
        export = (self.dhow.lib.dhow_tensor_to_dlpack if versioned
                  else self.dhow.lib.dhow_tensor_to_dlpack_unversioned)
        self.dhow.check(export(self.handle, c_void_p(stream), byref(managed)))
        return api.PyCapsule_New(managed, VERSIONED if versioned else OLD,
                                 ctypes.cast(end_capsule, c_void_p))

    def pointer(self):
        data = c_void_p()
        self.dhow.check(self.dhow.lib.dhow_tensor_host_ptr(self.handle, byref(data)))
        return data.value
