# SPDX-License-Identifier: Apache-2.0
import gc
import sys
import threading

import numpy as np
import pytest

import dhow

if tuple(map(int, np.__version__.split(".")[:2])) < (2, 1):
    pytest.skip(f"NumPy {np.__version__} is older than 2.1, the first that speaks DLPack 1.0", allow_module_level=True)
try:
    import torch
except ImportError:
    torch = None
LIBRARIES = [np] + ([torch] if torch else [])
ROUNDS = 10000


def pointer(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def library(request):
    return request.param


def test_ten_thousand_round_trips_copy_nothing(library):
    array = library.arange(1000, dtype=library.float32)
    here, references = pointer(array), sys.getrefcount(array)
    for _ in range(ROUNDS):
        again = library.from_dlpack(dhow.from_dlpack(array))
        assert pointer(again) == here
    del again
    gc.collect()
    assert sys.getrefcount(array) == references
    tensor = dhow.ones((1000,), device="cpu")
    there = tensor.numpy().ctypes.data
    for _ in range(ROUNDS):
        assert dhow.from_dlpack(library.from_dlpack(tensor)).numpy().ctypes.data == there


@pytest.mark.parametrize("dtype", [name for name in dhow._core.NUMPY_NAMES if name != "bf16"])
def test_dtypes(library, dtype):
    kind = getattr(library, dhow._core.NUMPY_NAMES[dtype], None)
    if kind is None:
        pytest.skip(f"{library.__name__} has no {dtype}")
    array = library.from_dlpack(dhow.ones((2, 3), dtype=dtype, device="cpu"))
    assert array.dtype == kind and tuple(array.shape) == (2, 3) and float(array.sum()) == 6
    assert dhow.from_dlpack(array).dtype == dtype


def test_views_and_writing_both_ways(library):
    array = library.arange(24, dtype=library.float32).reshape(4, 6)
    tensor = dhow.from_dlpack(array[1:, 1::2].T)
    tensor += 100
    assert array[1].tolist() == [6, 107, 8, 109, 10, 111]
    array[2, 3] = -1
    assert tensor[1, 1].item() == -1


def test_a_capsule_that_nobody_takes_ends_its_tensor():
    cpu = dhow.device("cpu")
    gc.collect()
    before = cpu.memory().live
    for version in (None, (1, 1)):
        for _ in range(100):
            dhow.zeros((1000,), device="cpu").__dlpack__(max_version=version)
    gc.collect()
    assert cpu.memory().live == before


def test_the_last_reference_goes_in_another_thread(library):
    array = library.arange(4)
    references = sys.getrefcount(array)
    box = [dhow.from_dlpack(array)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert sys.getrefcount(array) == references
    tensor = dhow.ones((1000,), device="cpu")
    before = dhow.device("cpu").memory().live
    box = [library.from_dlpack(tensor)]
    del tensor
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert dhow.device("cpu").memory().live < before


def test_read_only_stays_read_only():
    frozen = dhow.ones((3,), device="cpu").freeze()
    assert not np.from_dlpack(frozen).flags.writeable
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.raises(dhow.errors.InvalidArgument, match="frozen"):
        tensor = dhow.from_dlpack(array)
        tensor += 1
    with pytest.raises(BufferError, match="frozen"):
        frozen.__dlpack__()  # the old form cannot say so


def test_what_cannot_be_is_told():
    with pytest.raises(dhow.Error, match="stride 0 is -1"):
        dhow.from_dlpack(np.arange(3.0)[::-1])
    with pytest.raises(dhow.Error, match="complex"):
        dhow.from_dlpack(np.zeros(3, complex))
    with pytest.raises(TypeError, match="__dlpack__"):
        dhow.from_dlpack([1, 2])
    with pytest.raises(BufferError, match="without a copy"):
        dhow.ones(3, device="cpu").__dlpack__(dl_device=(2, 0), copy=False)


def test_copies_are_made_where_they_are_asked_for():
    tensor = dhow.ones(3, device="cpu")
    assert np.from_dlpack(tensor, copy=True).ctypes.data != tensor.numpy().ctypes.data
    for device in dhow.devices():
        if device.backend == "opencl":
            there = dhow.ones(3, device=device)
            assert there.__dlpack_device__() == (4, device.index)
            shared = dhow.from_dlpack(there)
            shared += 1
            assert there.tolist() == [2, 2, 2]
            back = dhow._tensor.Tensor._own(dhow._dlpack.take(_OnCpu(there)))
            assert back.device == "cpu:0" and back.tolist() == [2, 2, 2]


class _OnCpu:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, max_version=None):
        return self.tensor.__dlpack__(max_version=max_version, dl_device=(1, 0))


def test_a_process_may_end_with_capsules_and_tensors_in_use():
    import subprocess
    code = "import dhow, numpy as np, sys; t = dhow.ones(3, device='cpu'); c = t.__dlpack__(); a = np.from_dlpack(t); " \
           "b = dhow.from_dlpack(np.ones(3)); sys.modules['keep'] = (t, c, a, b)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
