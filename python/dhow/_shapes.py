# SPDX-License-Identifier: Apache-2.0
"""What an operation gives: the dtype and shape of each result. Arguments that do not fit are left for the operation to refuse."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._device import Device
    from ._tensor import Tensor

Shape = tuple[int, ...]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    rank = max(map(len, shapes))
    extents = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            extents[i] = extent if extent != 1 else extents[i]
    return tuple(extents)


def _without(shape: Shape, dims: Any) -> Shape:
    dims = [dims] if isinstance(dims, int) else list(dims)
    dropped = {dim % len(shape) for dim in dims} if shape else set()
    return tuple(extent for i, extent in enumerate(shape) if i not in dropped) if dims else ()


def _with(shape: Shape, dim: int, extent: int) -> Shape:
    dim = dim % len(shape) if shape else 0
    return shape[:dim] + (extent,) + shape[dim + 1:]


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _windows(sides: Sequence[int], kernel: Sequence[int], fields: dict[str, Any], dilated: bool) -> Shape:
    stride = [s or 1 for s in _pair(fields["stride"])]
    dilation = [d or 1 for d in _pair(fields["dilation"])] if dilated else [1, 1]
    pad = fields["pad"]
    pad = [pad] * 4 if isinstance(pad, int) else list(pad) * (4 // max(1, len(pad)))
    return tuple(max(0, (sides[i] + pad[i] + pad[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // max(1, stride[i]) + 1) for i in range(2))


def results(name: str, plan: str, values: Sequence[Any], dtype: str | None) -> tuple[Device, list[tuple[str, Shape]]]:
    """The device of the tensors, and (dtype, shape) of each result."""
    if plan in ("t", "ts"):
        return values[0].device, [(dtype or values[0].dtype, values[0].shape)]
    first = values[plan.index("L")][0] if "L" in plan and values[plan.index("L")] else \
        next(value for value, letter in zip(values, plan) if letter in "tL")
    if isinstance(first, (list, tuple)):
        raise ValueError(f"{name}: there is no tensor")
    shape: Shape = first.shape
    kind = dtype or first.dtype
    rest = values[1:]
    if name in ("matmul", "linear", "gather") or name.endswith(("conv2d", "pool2d")):
        shape = _product(name, first, rest)
    elif name == "stack":
        at = values[1] % (len(shape) + 1)
        shape = shape[:at] + (len(values[0]),) + shape[at:]
    elif name == "cat":
        at = values[1] % len(shape) if shape else 0
        shape = _with(shape, at, sum(one.shape[at] if at < len(one.shape) else 0 for one in values[0]))
    elif name == "reduce":
        first = values[1]
        kind, shape = first.dtype, _without(first.shape, values[2])
    elif name in ("var", "std"):
        shape = _without(shape, values[1])
    elif name.startswith(("reduce_", "arg")):
        shape = _without(shape, values[1])
        kind = "i64" if name.startswith("arg") else kind
    elif name in NETWORKS:
        if name == "embedding":
            kind = rest[0].dtype
        shape = NETWORKS[name](shape, *rest)
    elif name in ("sort", "topk"):
        shape = shape if name == "sort" else _with(shape, values[2], max(0, values[1]))
        return first.device, [(kind, shape), ("i64", shape)]
    elif "d" not in plan and "i" not in plan and name != "layernorm":
        tensors = [value for value, letter in zip(values, plan) if letter == "t"]
        shape = broadcast([one.shape for one in tensors])
        kind = dtype or (tensors[1].dtype if name == "where" else kind)
    return first.device, [(kind, shape)]


def _padded(shape: Shape, pads: Any, *_: Any) -> Shape:
    pairs = list(zip(pads[::2], pads[1::2]))[:len(shape)]
    more = [0] * (len(shape) - len(pairs)) + [before + after for before, after in reversed(pairs)]
    return tuple(max(0, extent + extra) for extent, extra in zip(shape, more))


def _resized(shape: Shape, size: Any, scale_factor: Any, *_: Any) -> Shape:
    if size is not None:
        return shape[:2] + tuple(size)
    return shape[:2] + tuple(int(extent * factor) for extent, factor in zip(shape[2:], scale_factor or ()))


def _convolved(transposed: bool) -> Callable[..., Shape]:
    def result(shape: Shape, weight: Tensor, bias: Any, fields: dict[str, Any]) -> Shape:
        kernel, sides = weight.shape[2:], []
        if len(kernel) + 2 != len(shape):
            return shape
        each = {name: [value] * 3 if isinstance(value, int) else list(value) + [0] * 3 for name, value in fields.items() if name != "groups"}
        for i, side in enumerate(shape[2:]):
            stride, spread = each["stride"][i] or 1, each["dilation"][i] or 1
            reach, pads = spread * (kernel[i] - 1) + 1, 2 * each["padding"][i]
            sides.append(stride * (side - 1) + reach + each["output_padding"][i] - pads if transposed else (side + pads - reach) // stride + 1)
        channels = weight.shape[1] * (fields["groups"] or 1) if transposed else weight.shape[0]
        return (shape[0], channels) + tuple(max(0, side) for side in sides)
    return result


NETWORKS: dict[str, Callable[..., Shape]] = {
    "pad": _padded, "interpolate": _resized, "index_select": lambda shape, dim, index: _with(shape, dim, index.shape[0]),
    "take_along_dim": lambda shape, index, dim: index.shape, "scatter": lambda shape, *_: shape,
    "embedding": lambda shape, weight: shape + weight.shape[1:], "batchnorm": lambda shape, *_: shape,
    "groupnorm": lambda shape, *_: shape, "rmsnorm": lambda shape, *_: shape, "dropout": lambda shape, *_: shape,
    "scaled_dot_product_attention": lambda shape, key, value, *_: shape[:-1] + value.shape[-1:],
    "conv1d": _convolved(False), "conv3d": _convolved(False), "conv_transpose1d": _convolved(True),
    "conv_transpose2d": _convolved(True), "conv_transpose3d": _convolved(True)}


def _product(name: str, x: Tensor, rest: Sequence[Any]) -> Shape:
    second: Shape = getattr(rest[0], "shape", ())
    if name == "matmul":
        outer = broadcast([x.shape[:-2], second[:-2]])
        return outer + x.shape[-2:-1] + second[-1:]
    if name == "linear":
        return x.shape[:-1] + second[:1]
    if name == "gather":
        return second + x.shape[1:]
    fields = rest[-1]
    if len(x.shape) != 4:
        return x.shape
    if name == "conv2d":
        return x.shape[:1] + second[:1] + _windows(x.shape[2:], second[2:], fields, True) if len(second) == 4 else x.shape
    return x.shape[:2] + _windows(x.shape[2:], _pair(fields["kernel"]), fields, False)
