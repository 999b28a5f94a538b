# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import dhow

AXPY = "KERNEL(axpy, (IN(f32,x), INOUT(f32,y), VAL(f32,a), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] += a * x[i]; }\n"
COUNT = "KERNEL(count, (OUT(i32,y), VAL(i32,a), VAL(u32,b), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] = a + (i32)b + (i32)i; }\n"


def test_a_kernel_of_ones_own(device):
    axpy = dhow.Kernel(AXPY, device=device)
    assert axpy.signature.startswith("(IN(f32,x)") and axpy.device == device
    x, y = dhow.arange(0.0, 1000, device=device), dhow.ones(1000, device=device)
    for a in (2, 2.0, np.float32(2)):
        axpy(x, y, a, 1000, work=1000)
    np.testing.assert_allclose(y.numpy(), 1 + 6 * np.arange(1000.0))
    stream = dhow.Stream(device)
    axpy(x, y, -6, 1000, work=1000, stream=stream)
    stream.sync()
    assert y.sum().item() == 1000


def test_one_of_several_and_numbers_of_each_kind(device):
    count = dhow.Kernel(AXPY + COUNT, "count", device=device)
    y = dhow.zeros(4, dtype="i32", device=device)
    count(y, -5, np.int64(7), 4, work=4)
    assert y.tolist() == [2, 3, 4, 5]


def test_mistakes_are_told(device):
    with pytest.raises(dhow.errors.CompileError, match="nonsense|undeclared|undefined"):
        dhow.Kernel(AXPY.replace("a * x", "nonsense * x"), device=device)
    with pytest.raises(ValueError, match="2 kernels.*axpy, count"):
        dhow.Kernel(AXPY + COUNT, device=device)
    with pytest.raises(LookupError, match="axpy"):
        dhow.Kernel(AXPY, "axpi", device=device)
    axpy, x = dhow.Kernel(AXPY, device=device), dhow.ones(4, device=device)
    with pytest.raises(TypeError, match="argument 0 is of type list"):
        axpy([1], x, 1, 4, work=4)
    with pytest.raises(dhow.errors.InvalidArgument, match="4"):
        axpy(x, x.clone(), 1, work=4)
    with pytest.raises(dhow.errors.InvalidArgument, match="i64"):
        axpy(x, dhow.ones(4, dtype="i64", device=device), 1, 4, work=4)
    with pytest.raises(dhow.errors.InvalidArgument, match="i32 has not"):
        dhow.Kernel(COUNT, device=device)(dhow.zeros(4, dtype="i32", device=device), 2**31, 1, 4, work=4)
