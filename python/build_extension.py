# SPDX-License-Identifier: Apache-2.0
"""dhow/_dhow.abi3.so: the C API for Python, one file for all versions of CPython since 3.9. The compiler checks every declaration."""
import os

from cffi import FFI
from generate import SOURCE, generate

here = os.path.dirname(os.path.abspath(__file__))
include = os.path.join(os.environ["DHOW_SOURCE"], "include")
ffi = FFI()
ffi.cdef(generate(include, os.path.join(here, "dhow")))
ffi.set_source("dhow._dhow", SOURCE, include_dirs=[include], library_dirs=[os.path.join(here, "dhow", "lib")],
               libraries=["dhow"], extra_link_args=["-Wl,-rpath,$ORIGIN/lib", "-Wl,-s"], py_limited_api=True,
               define_macros=[("Py_LIMITED_API", "0x03090000")])
