# SPDX-License-Identifier: Apache-2.0
"""Typical mistakes: the exception that Python users expect, and a message that names the thing, the value and the remedy."""
import subprocess
import sys

import numpy as np
import pytest

import dhow

X = dhow.tensor([[1.0, 2], [3, 4]], device="cpu")
MISTAKES = [
    (lambda: dhow.relu(np.ones(3)), TypeError, "relu: x is of type ndarray.*dhow.tensor"),
    (lambda: dhow.add(X, "1"), TypeError, "add: b is of type str"),
    (lambda: X + np.ones(2), TypeError, "ndarray.*dhow.tensor"),
    (lambda: np.ones(2) * X, TypeError, "ndarray.*dhow.tensor"),
    (lambda: X + dhow.ones(3, device="cpu"), ValueError, r"f32\[2, 2\].*f32\[3\].*broadcast"),
    (lambda: X + dhow.ones((2, 2), dtype="i32", device="cpu"), ValueError, r"i32.* Tensor\.to_dtype\(\)"),
    (lambda: X.T.reshape(4), ValueError, r" call Tensor\.contiguous\(\)"),
    (lambda: X @ dhow.ones((3, 3), device="cpu"), ValueError, r"f32\[2, 2\].*f32\[3, 3\]"),
    (lambda: X[2], IndexError, "index 2"),
    (lambda: X[0, 0, 0], IndexError, "3 indices.*rank 2"),
    (lambda: X["a"], TypeError, "str"),
    (lambda: X[np.array([0, 1])], TypeError, "gather"),
    (lambda: X[::-1], ValueError, "step -1"),
    (lambda: X.reshape(3, -1), ValueError, "3"),
    (lambda: float(X), ValueError, "one element"),
    (lambda: dhow.tensor([1, 2], device="cpu") + 0.5, ValueError, "0.5.*i64"),
    (lambda: dhow.tensor([1], dtype="u8", device="cpu") + 300, IndexError, "300.*u8"),
    (lambda: dhow.full(2, 2**70, dtype="i64", device="cpu"), ValueError, "64 bits"),
    (lambda: dhow.zeros(2, dtype="f31"), ValueError, "'f31'.*f32"),
    (lambda: dhow.zeros(2, dtype=3), TypeError, "dtype is 3"),
    (lambda: dhow.tensor(["a"]), TypeError, "no dtype of dhow"),
    (lambda: dhow.tensor([[1], [1, 2]]), ValueError, ""),
    (lambda: dhow.device("gpu"), LookupError, "gpu.*cpu:0"),
    (lambda: dhow.device(0), TypeError, "int"),
    (lambda: X.freeze().__iadd__(1), ValueError, "frozen"),
    (lambda: dhow.Tensor(), TypeError, "dhow.tensor"),
    (lambda: dhow.softmax(X, 2), IndexError, "2"),
    (lambda: dhow.reduce("total", X), ValueError, "'total'.*sum"),
    (lambda: dhow.conv2d(X, X), ValueError, ""),
    (lambda: dhow.save_safetensors({"x": X}, "x.safetensors"), TypeError, "path comes first"),
    (lambda: dhow.save_npy(X, "x.npy"), TypeError, "path comes first"),
    (lambda: dhow.conv2d(X, X, stride=(1, 2, 3)), ValueError, r"stride is \(1, 2, 3\)"),
    (lambda: dhow.add(X, 1, stream="s"), TypeError, "str, not a dhow.Stream"),
    (lambda: dhow.softmax(X, "last"), TypeError, "softmax: .*integer"),
    (lambda: dhow.cat(X, 0), TypeError, "cat: the tensors are a Tensor"),
    (lambda: X.sum(axis=0), TypeError, "'axis'"),
    (lambda: dhow.maxpool2d(X), TypeError, "kernel"),
    (lambda: dhow.cat([], 0), ValueError, "no tensor"),
    (lambda: dhow.zeros((1 << 40, 1 << 10), device="cpu"), MemoryError, ""),
    (lambda: dhow.Model.load("/nowhere/x.onnx"), FileNotFoundError, "/nowhere/x.onnx"),
    (lambda: dhow.load_safetensors("/nowhere/x.safetensors"), FileNotFoundError, "/nowhere"),
    (lambda: dhow.load_npy("/nowhere/x.npy", "cpu"), FileNotFoundError, "/nowhere"),
    (lambda: dhow.save_npy("/nowhere/x.npy", X), dhow.Error, "/nowhere"),
    (lambda: dhow.Model.load(b"this is no model"), ValueError, ""),
    (lambda: dhow.start("cpu"), ValueError, "started already"),
]


@pytest.mark.parametrize("mistake, kind, text", MISTAKES)
def test_mistakes(mistake, kind, text):
    with pytest.raises(kind, match=text or None) as raised:
        mistake()
    assert str(raised.value)


def network():
    m = dhow.Model()
    m.output("y", m.linear("fc", m.input("x", "f32", (-1, 4)), 4, 2))
    return m


@pytest.mark.parametrize("run, text", [
    (lambda m: m(), "input 'x' is missing; the inputs are x"), (lambda m: m(y=X), "no input 'y'; its inputs are x"),
    (lambda m: m(X, X), "1 inputs, 2 were given"), (lambda m: m(X, x=X), "given twice"), (lambda m: m(X), "x"),
    (lambda m: m.run({"x": np.ones((1, 4), np.float32)}, ["z"]), "z"), (lambda m: m.linear("fc", 0, 4, 4), "fc"),
    (lambda m: m.set_parameter("fc.wait", X), "fc.w"), (lambda m: m(np.ones((1, 4))), "f64"), (lambda m: m.relu(99), "99")])
def test_mistakes_with_models(run, text):
    with pytest.raises(dhow.Error, match=text):
        run(network())


def test_inputs_that_are_no_dict():
    with pytest.raises(TypeError, match="run: the inputs are a list"):
        network().run([X])
    with pytest.raises(TypeError, match="linear: .*integer"):
        network().linear("more", "x", 4, 2)


def test_errors_carry_status_and_are_dhows():
    with pytest.raises(dhow.Error) as raised:
        X.reshape(5)
    assert isinstance(raised.value, dhow.errors.InvalidArgument) and raised.value.status == 1
    for kind in dhow.errors.BY_STATUS.values():
        assert issubclass(kind, dhow.Error) and kind.__doc__ and str(kind("why")) == "why"


def test_start_says_what_the_environment_says():
    code = "import dhow; dhow.start('cpu', backends='cpu', num_threads=1); print(dhow.devices(), dhow.device())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[dhow.device('cpu:0')] cpu:0\n"
    wrong = subprocess.run([sys.executable, "-c", "import dhow; dhow.start(backends='cpuu'); "], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1 and "cpuu" in wrong.stderr
