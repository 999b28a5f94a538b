# SPDX-License-Identifier: Apache-2.0
"""Calls of operations and layers. A plan says what each argument is: t a tensor, o one or None, L several, d dimensions, w the
fields of a window, s and f numbers, i an integer, r a reduction, n a name, y a dtype, S a shape, v values of a model."""
from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _shapes, errors
from ._core import DTYPES, check, dtype_number, ffi, lib, made, one_of, struct, words

if TYPE_CHECKING:
    from ._device import Stream
    from ._tensor import Tensor

Number = Union[int, float]
REDUCTIONS = words("dhow_reduction", "DHOW_REDUCE_")
INTERPOLATIONS = words("dhow_interpolation", "DHOW_INTERPOLATE_")
PAD_MODES = words("dhow_pad_mode", "DHOW_PAD_")
SCATTER_MODES = words("dhow_scatter_mode", "DHOW_SCATTER_")


def is_number(value: object) -> bool:
    return type(value) in (int, float) or isinstance(value, numbers.Real)  # NumPy's numbers are


def scalar(value: Any) -> Any:
    """A dhow_scalar, exact for integers."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, int):
        if not -2**63 <= value < 2**64:
            raise errors.OutOfRange(f"{value} does not fit in 64 bits")
        return lib.dhow_scalar_i64(value) if value < 2**63 else lib.dhow_scalar_u64(value)
    return lib.dhow_scalar_f64(float(value))


def extents(shape: Any) -> list[int]:
    if type(shape) is tuple:
        return [int(extent) for extent in shape]
    return [int(shape)] if isinstance(shape, numbers.Integral) else [int(extent) for extent in shape]


def _options(kind: str, fields: dict[str, Any]) -> Any:
    """A struct of options, of which some are arrays: given by one number, by one for each dimension, or in full."""
    options = struct(kind)
    for name, value in fields.items():
        field = getattr(options, name)
        if isinstance(field, int):
            setattr(options, name, value)
            continue
        given = [value] * len(field) if isinstance(value, numbers.Integral) else list(value)
        if kind == "dhow_conv_options":  # of up to three dimensions
            given += [0] * (len(field) - len(given))
        elif len(given) * 2 == len(field):  # rows, columns: the same on both sides
            given *= 2
        if len(given) != len(field):
            most = "at most " if kind == "dhow_conv_options" else ""
            raise errors.InvalidArgument(f"{name} is {value!r}; one number or {most}{len(field)} are wanted")
        setattr(options, name, given)
    return options


def stream_of(stream: Stream | None) -> Any:
    if stream is None:
        return ffi.NULL
    if not isinstance(stream, _device.Stream):
        raise TypeError(f"stream is of type {type(stream).__name__}, not a dhow.Stream")
    return stream._handle


def handle(value: Any, name: str, place: int | str) -> Any:
    """The handle of a tensor, argument `place` of an operation."""
    if not isinstance(value, _tensor.Tensor):
        from . import ops
        if isinstance(place, int) and hasattr(ops, name):
            place = list(inspect.signature(getattr(ops, name)).parameters)[place]
        raise TypeError(f"{name}: {place} is of type {type(value).__name__}, not a dhow.Tensor; dhow.tensor() makes one")
    return value._handle


def called(name: str, function: Callable[..., int], *given: Any) -> None:
    """The call itself; what is no number where C wants one is told with the operation's name."""
    try:
        status = function(*given)
    except (TypeError, OverflowError) as failure:
        raise type(failure)(f"{name}: {failure}") from None
    check(status)


def _tensors(values: Any, name: str) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name}: the tensors are a {type(values).__name__}, not a list of them")
    return [ffi.new("dhow_tensor *[]", [handle(one, name, "one of the tensors") for one in values]), len(values)]


def _counted(kind: str, values: Any) -> list[Any]:
    """Integers as C takes them: an array and a count."""
    listed = extents(values)
    return [ffi.new(kind, listed), len(listed)]


def shaped(shape: Any) -> list[Any]:
    """The rank and extents of a shape, as C takes them."""
    return _counted("int64_t[]", shape)[::-1]


_LETTERS: dict[str, Callable[[Any, str], list[Any]]] = {
    "L": _tensors,
    "d": lambda value, name: _counted("int32_t[]", value),
    "v": lambda value, name: _counted("int32_t[]", value),
    "e": lambda value, name: _counted("int64_t[]", value),
    "S": lambda value, name: shaped(value),
    "z": lambda value, name: [ffi.NULL if value is None else ffi.new("int64_t[]", extents(value))],
    "q": lambda value, name: [ffi.NULL if value is None else ffi.new("double[]", [float(factor) for factor in value])],
    "w": lambda value, name: [_options("dhow_window", value)],
    "k": lambda value, name: [_options("dhow_conv_options", value)],
    "s": lambda value, name: [scalar(value)],
    "r": lambda value, name: [one_of(REDUCTIONS, value, f"{name}: kind")],
    "j": lambda value, name: [one_of(INTERPOLATIONS, value, f"{name}: mode")],
    "p": lambda value, name: [one_of(PAD_MODES, value, f"{name}: mode")],
    "c": lambda value, name: [one_of(SCATTER_MODES, value, f"{name}: reduce")],
    "y": lambda value, name: [dtype_number(value)],
    "n": lambda value, name: [ffi.new("char[]", value.encode())],
}


def arguments(name: str, plan: str, values: Sequence[Any]) -> list[Any]:
    """What C takes. Arrays live as long as the list."""
    given: list[Any] = []
    for i, (letter, value) in enumerate(zip(plan, values)):
        if letter in "to":
            given.append(ffi.NULL if value is None and letter == "o" else handle(value, name, i))
        else:
            given += _LETTERS[letter](value, name) if letter in _LETTERS else [value]
    return given


def operation(function: Callable[..., int], name: str, plan: str, values: Sequence[Any], dtype: str | None, out: Any,
              stream: Stream | None) -> Tensor:
    """Calls a function of dhow/ops.h with a result of its own, or with `out`."""
    if not all(isinstance(v, _tensor.Tensor) for v, letter in zip(values, plan) if letter == "t"):
        like = [v for v, letter in zip(values, plan)
                if letter == "t" and isinstance(v, _tensor.Tensor) and (v.dtype != "bool" or name != "where")]
        values = [_tensor.full((), v, dtype=like[0].dtype, device=like[0].device) if letter == "t" and like and is_number(v) else v
                  for v, letter in zip(values, plan)]
    given = arguments(name, plan, values)
    if out is None:
        device, shapes = _shapes.results(name, plan, values, dtype)
        results = [tensor_from(lib.dhow_tensor_create, device._handle, DTYPES[kind], len(shape), shape) for kind, shape in shapes]
    else:
        results = list(out) if isinstance(out, (tuple, list)) else [out]
    called(name, function, stream_of(stream), *given, *[handle(one, name, "out") for one in results])
    return results[0] if len(results) == 1 else tuple(results)  # type: ignore[return-value]


def _add(model: Any, function: Callable[..., int], name: str, plan: str, values: Sequence[Any], count: int) -> Any:
    out = ffi.new("dhow_model_value[2]")
    called(name, function, model, *arguments(name, plan, values), *[out + i for i in range(count)])
    return out


def mark(model: Any, function: Callable[..., int], name: str, plan: str, values: Sequence[Any]) -> None:
    """Calls a function of a model that makes no value."""
    _add(model, function, name, plan, values, 0)


def layer(model: Any, function: Callable[..., int], name: str, plan: str, values: Sequence[Any]) -> int:
    """Calls a function that adds to a model, and gives the value that it has made."""
    return int(_add(model, function, name, plan, values, 1)[0])


def layer_of_two(model: Any, function: Callable[..., int], name: str, plan: str, values: Sequence[Any]) -> tuple[int, int]:
    """The same where two values are made."""
    out = _add(model, function, name, plan, values, 2)
    return int(out[0]), int(out[1])


def tensor_from(function: Callable[..., int], *given: Any) -> Tensor:
    """Calls a function whose last argument is the new tensor."""
    return _tensor.Tensor._own(made("dhow_tensor", function, *given))


from . import _device, _tensor  # noqa: E402 - they use what is above
