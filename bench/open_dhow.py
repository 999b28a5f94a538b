# SPDX-License-Identifier: Apache-2.0
"""dhow's library for programs that compare it with others: what it is opened with, and failures as exceptions."""
import ctypes


class Window(ctypes.Structure):
    """dhow_window"""
    _fields_ = [("struct_size", ctypes.c_uint32), ("kernel", ctypes.c_int64 * 2), ("stride", ctypes.c_int64 * 2), ("pad", ctypes.c_int64 * 4),
                ("dilation", ctypes.c_int64 * 2), ("groups", ctypes.c_int64)]

    def __init__(self, *fields):
        super().__init__(ctypes.sizeof(Window), *fields)


class Dhow:
    def __init__(self, library, device="cuda:0"):
        self.lib = ctypes.CDLL(library)
        self.lib.dhow_last_error.restype = self.lib.dhow_graph_reason.restype = ctypes.c_char_p
        self.context, self.device = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(self.lib.dhow_context_create(None, ctypes.byref(self.context)))
        self.ok(self.lib.dhow_device_get(self.context, device.encode(), ctypes.byref(self.device)))

    def ok(self, status):
        if status != 0:
            raise RuntimeError(self.lib.dhow_last_error().decode())
