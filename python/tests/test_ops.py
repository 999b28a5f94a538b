# SPDX-License-Identifier: Apache-2.0
"""Every operation against NumPy, on every device. An operation without a row here fails the first test."""
import math

import numpy as np
import pytest

import dhow

rng = np.random.default_rng(7)
A = rng.standard_normal((3, 4)).astype(np.float32)
B = rng.uniform(0.5, 2, (3, 4)).astype(np.float32)
UNIT = rng.uniform(-0.9, 0.9, (3, 4)).astype(np.float32)


def erf(x):
    return np.vectorize(math.erf)(x).astype(x.dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def conv(x, w, bias, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,kcij->nkhw", windows, w) + bias[:, None, None]


def pool(x, how):
    return how(np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[:, :, ::2, ::2], axis=(4, 5))


IMAGE, WEIGHT, BIAS = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 8), (5, 3, 3, 3), (5,)))
WINDOW = {"kernel": 2, "stride": 2}

UNARY = {
    "relu": lambda x: np.maximum(x, 0), "gelu": lambda x: x / 2 * (1 + erf(x / np.float32(2**0.5))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))), "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid, "tanh": np.tanh, "exp": np.exp, "neg": np.negative, "abs": np.abs, "erf": erf, "reciprocal": np.reciprocal,
    "square": np.square, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "softplus": softplus,
    "softsign": lambda x: x / (1 + np.abs(x)), "mish": lambda x: x * np.tanh(softplus(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1)}
ON_UNIT = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "acosh": lambda x: np.arccosh(x + 1)}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum, "pow": None,
          "mod": np.mod, "fmod": np.fmod, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
          "greater": np.greater, "greater_equal": np.greater_equal}
OTHERS = {  # arguments, and what NumPy says
    "clip": ((A, -0.5, 0.5), {}, lambda: np.clip(A, -0.5, 0.5)),
    "leaky_relu": ((A, 0.1), {}, lambda: np.where(A < 0, A * 0.1, A)),
    "elu": ((A, 0.5), {}, lambda: np.where(A < 0, 0.5 * np.expm1(A), A)),
    "affine": ((A, 2, -0.5), {}, lambda: 2 * A - 0.5),
    "where": ((A > 0, A, B), {}, lambda: np.where(A > 0, A, B)),
    "matmul": ((A, B.T), {}, lambda: A @ B.T),
    "linear": ((A, B, A[0, :3]), {}, lambda: A @ B.T + A[0, :3]),
    "conv2d": ((IMAGE, WEIGHT, BIAS), {"stride": 2, "pad": 1}, lambda: conv(IMAGE, WEIGHT, BIAS, 2, 1)),
    "maxpool2d": ((IMAGE, 2), {"stride": 2}, lambda: pool(IMAGE, np.max)),
    "avgpool2d": ((IMAGE,), WINDOW, lambda: pool(IMAGE, np.mean)),
    "softmax": ((A, -1), {}, lambda: softmax(A, -1)),
    "log_softmax": ((A, 0), {}, lambda: np.log(softmax(A, 0))),
    "layernorm": ((A, B[0], A[1], 1e-5), {}, lambda: (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-5) * B[0] + A[1]),
    "reduce_sum": ((A, 0), {}, lambda: A.sum(0)), "reduce_mean": ((A, -1), {}, lambda: A.mean(-1)),
    "reduce_max": ((A, 1), {}, lambda: A.max(1)), "reduce_min": ((A, -2), {}, lambda: A.min(0)),
    "argmax": ((A, 1), {}, lambda: A.argmax(1)), "argmin": ((A, 0), {}, lambda: A.argmin(0)),
    "gather": ((A, np.array([2, 0])), {}, lambda: A[[2, 0]]),
    "reduce": (("prod", A, (0, 1)), {}, lambda: A.prod()),
    "var": ((A, 1), {}, lambda: A.var(1, ddof=1)), "std": ((A,), {"correction": 0}, lambda: A.std()),
    "cumsum": ((A, 1), {}, lambda: A.cumsum(1)),
    "cat": (([A, B], 1), {}, lambda: np.concatenate([A, B], 1)), "stack": (([A, B], -1), {}, lambda: np.stack([A, B], -1)),
    "topk": ((A, 2, 1), {}, None), "sort": ((A, 1), {}, None),
    "pad": ((A, (1, 2), "reflect"), {}, lambda: np.pad(A, ((0, 0), (1, 2)), "reflect")),
    "index_select": ((A, 1, np.array([3, 0])), {}, lambda: A[:, [3, 0]]),
    "take_along_dim": ((A, np.array([[0], [2], [1]]), 1), {}, lambda: A[[[0], [1], [2]], [[0], [2], [1]]]),
    "scatter": ((A, 1, np.array([[0], [0], [0]]), B[:, :1], "sum"), {}, lambda: A + B[:, :1] * (np.arange(4) == 0)),
    "embedding": ((np.array([[2, 0]]), A), {}, lambda: A[[[2, 0]]]),
    "conv1d": ((IMAGE[:, :, 0], WEIGHT[:, :, 1], BIAS), {"padding": 1},
               lambda: conv(IMAGE[:, :, :1], WEIGHT * (np.arange(3) == 1)[:, None], BIAS, 1, 1)[:, :, 0]),
    "conv3d": ((IMAGE[:, :, None], WEIGHT[:, :, None], BIAS), {}, lambda: conv(IMAGE, WEIGHT, BIAS, 1, 0)[:, :, None]),
    "conv_transpose1d": ((IMAGE[:, :, 0], WEIGHT[:3, :, 0, :1]), {}, lambda: np.einsum("ncl,ck->nkl", IMAGE[:, :, 0], WEIGHT[:3, :, 0, 0])),
    "conv_transpose2d": ((IMAGE, WEIGHT[:3, :, :1, :1]), {}, lambda: np.einsum("nchw,ck->nkhw", IMAGE, WEIGHT[:3, :, 0, 0])),
    "conv_transpose3d": ((IMAGE[:, :, None], WEIGHT[:3, :, None, :1, :1]), {},
                         lambda: np.einsum("nchw,ck->nkhw", IMAGE, WEIGHT[:3, :, 0, 0])[:, :, None]),
    "batchnorm": ((A, B[0], B[1], B[2], A[0], 1e-5), {}, lambda: (A - B[0]) / np.sqrt(B[1] + 1e-5) * B[2] + A[0]),
    "groupnorm": ((A, 2, B[0], A[1], 1e-5), {}, lambda: (lambda p: ((p - p.mean(-1, keepdims=True)) / np.sqrt(
        p.var(-1, keepdims=True) + 1e-5)).reshape(3, 4) * B[0] + A[1])(A.reshape(3, 2, 2))),
    "rmsnorm": ((A, B[0], 1e-5), {}, lambda: A / np.sqrt((A * A).mean(-1, keepdims=True) + 1e-5) * B[0]),
    "dropout": ((A, 1.0, 7), {}, lambda: A * 0),
    "scaled_dot_product_attention": ((A, A, B), {}, lambda: softmax(A @ A.T / 2, -1) @ B),
    "interpolate": ((IMAGE,), {"size": (12, 4)}, lambda: IMAGE.repeat(2, 2)[:, :, :, ::2])}


def put(value, device):
    if isinstance(value, list):
        return [put(one, device) for one in value]
    return dhow.tensor(value, device=device) if isinstance(value, np.ndarray) else value


def close(tensor, wanted, tolerance=2e-5):
    assert tensor.shape == np.shape(wanted)
    np.testing.assert_allclose(tensor.numpy(), wanted, rtol=tolerance, atol=tolerance)


def test_every_operation_has_a_row():
    rows = [*UNARY, *ON_UNIT, *POSITIVE, *BINARY, *OTHERS]
    assert sorted(rows) == sorted(dhow.ops.__all__)


@pytest.mark.parametrize("name", [*UNARY, *ON_UNIT, *POSITIVE])
def test_one_input(name, device):
    x = UNIT if name in ON_UNIT else B if name in POSITIVE else A
    given = x + 1 if name == "acosh" else x
    close(getattr(dhow, name)(put(given, device)), {**UNARY, **ON_UNIT, **POSITIVE}[name](x))


@pytest.mark.parametrize("name", BINARY)
def test_two_inputs_broadcast(name, device):
    a, b = (B, A) if name == "pow" else (A, B)
    compute = BINARY[name] or np.power
    for x, y in ((a, b), (a, b[:1]), (a[:, :1], b)):
        close(getattr(dhow, name)(put(x, device), put(y, device)), compute(x, y))
    close(getattr(dhow, name)(put(a, device), 2), compute(a, np.float32(2)))


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("topk", "sort")])
def test_others(name, device):
    given, named, wanted = OTHERS[name]
    close(getattr(dhow, name)(*[put(value, device) for value in given], **named), wanted())


def test_sort(device):
    values, indices = dhow.sort(put(A, device), 1, descending=True)
    close(values, -np.sort(-A, 1))
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-A, 1, kind="stable"))


def test_topk(device):
    values, indices = dhow.topk(put(A, device), 2, 1)
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-A, 1)[:, :2])
    np.testing.assert_array_equal(values.numpy(), -np.sort(-A, 1)[:, :2])


def test_operators(device):
    a, b = put(A, device), put(B, device)
    for got, wanted in ((a + b, A + B), (a - 1, A - 1), (2 - a, 2 - A), (a * 3, A * 3), (3 * a, A * 3), (1 / b, 1 / B), (a / b, A / B),
                        (b**2, B**2), (2**b, 2**B), (a % 2, A % 2), (-a, -A), (abs(a), abs(A)), (a @ b.T, A @ B.T), (a > 0, A > 0),
                        (a == b, A == B), (a != 0, A != 0), (a.sum(), A.sum()), (a.mean(0), A.mean(0)), (a.max(1), A.max(1)),
                        (a.min((0, 1), keep_dims=True), A.min(keepdims=True)), (b.prod(-1), B.prod(-1)), (np.float32(2) * a, 2 * A)):
        close(got, wanted)


def test_in_place_and_out(device):
    a = put(A, device)
    same = a
    a += 1
    a *= put(B, device)
    a -= put(B[0], device)
    a /= 2
    assert a is same
    close(a, ((A + 1) * B - B[0]) / 2)
    y = dhow.empty(A.shape, device=device)
    assert dhow.exp(a, out=y) is y
    close(y, np.exp(((A + 1) * B - B[0]) / 2), 1e-4)


def test_streams(device):
    stream = dhow.Stream(device)
    x = put(A, device)
    y = dhow.relu(dhow.add(x, 1, stream=stream), stream=stream)
    stream.sync()
    close(y, np.maximum(A + 1, 0))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_numbers_of_each_dtype(dtype, device):
    x = np.arange(1, 7).astype(dhow._core.NUMPY_NAMES[dtype]).reshape(2, 3)
    t = put(x, device)
    assert t.dtype == dtype
    np.testing.assert_array_equal((t + 2).numpy(), x + x.dtype.type(2))
    np.testing.assert_array_equal((t * 2).numpy(), x * x.dtype.type(2))
    np.testing.assert_array_equal((t > 3).numpy(), x > 3)
