# SPDX-License-Identifier: Apache-2.0
"""dlpack_test.py LIBDHOW: NumPy's and PyTorch's tensors in dhow and dhow's in theirs, with real capsules.

Exit status 77: NumPy 2 is not here. PyTorch is tried where it is installed."""
import ctypes
import gc
import re
import sys
import threading
from pathlib import Path

from dhow_dlpack import OLD, VERSIONED, Dhow, Tensor, api, end_capsule

ROUNDS = 10000
F32, F64, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, BOOL = range(1, 14)

try:
    import numpy
except ImportError:
    print("skipped: Python has no NumPy here (scripts/setup --test fetches it)")
    sys.exit(77)
if int(numpy.__version__.split(".")[0]) < 2:
    print(f"skipped: NumPy {numpy.__version__} is older than 2.0, whose from_dlpack() takes no bool")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

dhow = Dhow(sys.argv[1])


class Library:
    """What differs between the two."""

    def __init__(self, module):
        self.module = module
        self.name = "PyTorch" if module is not numpy else "NumPy"

    def dtypes(self):
        names = {F32: "float32", F64: "float64", F16: "float16", I8: "int8", U8: "uint8", I16: "int16", I32: "int32",
                 I64: "int64", BOOL: "bool"}
        if self.module is numpy:
            names.update({U16: "uint16", U32: "uint32", U64: "uint64", BOOL: "bool_"})
        else:
            names.update({BF16: "bfloat16"})
        return {number: getattr(self.module, name) for number, name in names.items()}

    def pointer(self, array):
        return array.ctypes.data if self.module is numpy else array.data_ptr()

    def arange(self, count):
        return self.module.arange(count, dtype=self.module.float32)

    def versions(self, array):
        """Capsules of all forms that the library makes."""
        yield array.__dlpack__()
        try:
            yield array.__dlpack__(max_version=(1, 1))
        except TypeError:
            pass


class Old:
    """A dhow tensor that knows the form before DLPack 1.0 only."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        options.pop("max_version", None)
        return self.tensor.__dlpack__(**options)


def same(a, b, what):
    if a != b:
        raise AssertionError(f"{what}: {a!r} is not {b!r}")


def refuses(what, call):
    try:
        call()
    except BufferError as failure:
        if what not in str(failure):
            raise AssertionError(f"'{failure}' does not say '{what}'") from failure
        return
    raise AssertionError(f"nothing was refused that should say '{what}'")


def test_the_document(lib):
    """What docs/interop.md shows; numbers without a type of ctypes would be cut to 32 bits."""
    text = (Path(__file__).parents[2] / "docs" / "interop.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    same(len(blocks), 2, "blocks")
    mine = dhow.full(F32, (2, 3), 4)
    names = {"ctypes": ctypes, "dhow": dhow.lib, "check": dhow.check, "destructor": ctypes.cast(end_capsule, ctypes.c_void_p),
             "numpy": lib.module, "torch": lib.module, "handle": mine.handle, "context": dhow.context,
             "PyCapsule_New": api.PyCapsule_New, "PyCapsule_GetPointer": lambda capsule, name: api.PyCapsule_GetPointer(id(capsule), name),
             "PyCapsule_SetName": lambda capsule, name: api.PyCapsule_SetName(id(capsule), name)}
    exec(blocks[0], names)
    again = lib.module.from_dlpack(names["Tensor"](mine.handle))
    same((lib.pointer(again), again.tolist()), (mine.pointer(), [[4.0] * 3] * 2), "the document's export")
    array = lib.arange(6)
    names.update(array=array, tensor=ctypes.c_void_p())
    exec(blocks[1], names)
    same(Tensor(dhow, names["tensor"]).pointer(), lib.pointer(array), "the document's import")


def test_dtypes_of_dhow(lib):
    for number, dtype in lib.dtypes().items():
        tensor = dhow.full(number, (2, 3), 1)
        array = lib.module.from_dlpack(tensor)
        same(array.dtype, lib.module.dtype(dtype) if lib.module is numpy else dtype, "dtype")
        same(tuple(array.shape), (2, 3), "shape")
        same(lib.pointer(array), tensor.pointer(), "address")
        same(float(array.sum()), 6.0, "sum")


def test_values_both_ways(lib):
    array = lib.arange(24).reshape(4, 6)
    view = array[1:, 1::2].T                     # strides and an offset
    tensor = dhow.from_dlpack(view)
    same(tensor.pointer(), lib.pointer(view), "address")
    again = lib.module.from_dlpack(tensor)
    same(again.tolist(), view.tolist(), "values")
    dhow.check(dhow.lib.dhow_add(None, tensor.handle, tensor.handle, tensor.handle))
    same(again.tolist(), view.tolist(), "values after dhow has doubled them")
    same(float(array[1, 1]), 14.0, "an element in the library's array")
    array[1, 1] = 5
    same(float(again[0, 0]), 5.0, "an element that the library has set")


def test_single_numbers_and_nothing(lib):
    for shape in ((), (0, 3), (1, 1, 1)):
        array = lib.module.ones(shape, dtype=lib.module.float32)
        again = lib.module.from_dlpack(dhow.from_dlpack(array))
        same(tuple(again.shape), shape, "shape")
        same(again.tolist(), array.tolist(), "values")


def test_round_trips_copy_nothing(lib):
    array = lib.arange(1000)
    here, references = lib.pointer(array), sys.getrefcount(array)
    for i in range(ROUNDS):
        again = lib.module.from_dlpack(dhow.from_dlpack(array))
        same(lib.pointer(again), here, f"address in round {i}")
    del again
    gc.collect()
    same(sys.getrefcount(array), references, "references of the array")
    tensor = dhow.full(F32, (1000,), 1)
    there = tensor.pointer()
    for i in range(ROUNDS):
        source = tensor if i % 2 == 0 else Old(tensor)
        same(dhow.from_dlpack(lib.module.from_dlpack(source)).pointer(), there, f"address in round {i}")


def test_each_form_is_taken_and_renamed(lib):
    array = lib.arange(4)
    references = sys.getrefcount(array)
    for capsule in lib.versions(array):
        versioned = api.PyCapsule_IsValid(id(capsule), VERSIONED)
        tensor = dhow.from_capsule(capsule)
        used = b"used_dltensor_versioned" if versioned else b"used_dltensor"
        same(api.PyCapsule_IsValid(id(capsule), used), 1, "the capsule's name")
        del capsule
        same(tensor.pointer(), lib.pointer(array), "address")
        del tensor
    gc.collect()
    same(sys.getrefcount(array), references, "references of the array")


def test_a_capsule_that_nobody_takes_ends_its_tensor(lib):
    tensor = dhow.full(F32, (4,), 2)
    for version in (None, (1, 1)):
        capsule = tensor.__dlpack__(max_version=version)
        same(api.PyCapsule_IsValid(id(capsule), VERSIONED if version else OLD), 1, "the capsule's name")
        del capsule
    same(lib.module.from_dlpack(tensor).tolist(), [2, 2, 2, 2], "values")


def test_what_is_refused_stays_the_librarys(lib):
    array = lib.arange(6)
    references = sys.getrefcount(array)
    if lib.module is numpy:
        refuses("stride 0 is -1", lambda: dhow.from_dlpack(array[::-1]))
        refuses("complex", lambda: dhow.from_dlpack(array.astype(numpy.complex64)))
        refuses("overlap", lambda: dhow.from_dlpack(numpy.lib.stride_tricks.as_strided(array, (4, 3), (4, 4))))
    else:
        refuses("stride 0 is 0: several indices overlap", lambda: dhow.from_dlpack(array.expand(3, 6)))
        refuses("overlap", lambda: dhow.from_dlpack(array.unfold(0, 3, 1)))
        refuses("complex", lambda: dhow.from_dlpack(array.to(torch.complex64)))
    gc.collect()
    same(sys.getrefcount(array), references, "references of the array")


def test_read_only_is_frozen(lib):
    tensor = dhow.full(F32, (4,), 1)
    dhow.check(dhow.lib.dhow_tensor_freeze(tensor.handle))
    refuses("frozen", lambda: tensor.__dlpack__())
    if lib.module is not numpy:  # PyTorch has no read-only tensors
        return
    same(numpy.from_dlpack(tensor).flags.writeable, False, "writeable")
    array = numpy.arange(4, dtype=numpy.float32)
    array.flags.writeable = False
    frozen = dhow.from_dlpack(array)
    refuses("frozen", lambda: dhow.check(dhow.lib.dhow_add(None, frozen.handle, frozen.handle, frozen.handle)))


def test_the_last_reference_goes_in_another_thread(lib):
    array = lib.arange(4)
    references = sys.getrefcount(array)
    box = [dhow.from_dlpack(array)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    same(sys.getrefcount(array), references, "references of the array")


TESTS = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
for module in [numpy] + ([torch] if torch is not None else []):
    library = Library(module)
    for test in TESTS:
        test(library)
    print(f"{library.name} {module.__version__}: {len(TESTS)} tests, {2 * ROUNDS} round trips without a copy")
if torch is None:
    print("PyTorch is not here: not tried")
dhow.close()
