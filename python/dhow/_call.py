# SPDX-License-Identifier: Apache-2.0
"""Calls of operations and layers. A plan says what each argument is: t a tensor, o one or None, L several, d dimensions, w the
fields of a window, s and f numbers, i an integer, r a reduction, n a name, y a dtype, S a shape, v values of a model."""
from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _shapes, errors
from ._core import DTYPES, check, dtype_number, ffi, lib, one_of, struct, words

if TYPE_CHECKING:
    from ._device import Stream
    from ._tensor import Tensor

Number = Union[int, float]
_OUT = ffi.typeof("dhow_tensor **")
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


def window(fields: dict[str, Any]) -> Any:
    made = struct("dhow_window")
    for name, value in fields.items():
        field = getattr(made, name)
        if isinstance(field, int):
            setattr(made, name, value)
            continue
        given = [value] * len(field) if isinstance(value, numbers.Integral) else list(value)
        if len(given) * 2 == len(field):  # rows, columns: the same on both sides
            given *= 2
        if len(given) != len(field):
            raise errors.InvalidArgument(f"{name} is {value!r}; one number or {len(field)} are wanted")
        setattr(made, name, given)
    return made


def conv_options(fields: dict[str, Any]) -> Any:
    made = struct("dhow_conv_options")
    for name, value in fields.items():
        field = getattr(made, name)
        if isinstance(field, int):
            setattr(made, name, value)
            continue
        given = [value] * len(field) if isinstance(value, numbers.Integral) else list(value)
        if len(given) > len(field):
            raise errors.InvalidArgument(f"{name} is {value!r}; at most {len(field)} numbers are wanted")
        setattr(made, name, given + [0] * (len(field) - len(given)))
    return made


def stream_of(stream: Stream | None) -> Any:
    if stream is None:
        return ffi.NULL
    if not isinstance(stream, _device.Stream):
        raise TypeError(f"stream is a {type(stream).__name__}, not a dhow.Stream")
    return stream._handle


def handle(value: Any, name: str, place: int | str) -> Any:
    """The handle of a tensor, argument `place` of an operation."""
    if not isinstance(value, _tensor.Tensor):
        from . import ops
        if isinstance(place, int) and hasattr(ops, name):
            place = list(inspect.signature(getattr(ops, name)).parameters)[place]
        raise TypeError(f"{name}: {place} is a {type(value).__name__}, not a dhow.Tensor; dhow.tensor() makes one")
    return value._handle


def called(name: str, function: Callable[..., int], *given: Any) -> None:
    """The call itself; what is no number where C wants one is told with the operation's name."""
    try:
        status = function(*given)
    except (TypeError, OverflowError) as failure:
        raise type(failure)(f"{name}: {failure}") from None
    check(status)


def arguments(name: str, plan: str, values: Sequence[Any]) -> list[Any]:
    """What C takes. Arrays live as long as the list."""
    given: list[Any] = []
    for i, (letter, value) in enumerate(zip(plan, values)):
        if letter in "to":
            given.append(ffi.NULL if value is None and letter == "o" else handle(value, name, i))
        elif letter == "L":
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{name}: the tensors are a {type(value).__name__}, not a list of them")
            given += [ffi.new("dhow_tensor *[]", [handle(one, name, "one of the tensors") for one in value]), len(value)]
        elif letter in "dv":
            listed = extents(value)
            given += [ffi.new("int32_t[]", listed), len(listed)]
        elif letter == "e":
            listed = extents(value)
            given += [ffi.new("int64_t[]", listed), len(listed)]
        elif letter == "S":
            listed = extents(value)
            given += [len(listed), ffi.new("int64_t[]", listed)]
        elif letter == "w":
            given.append(window(value))
        elif letter == "s":
            given.append(scalar(value))
        elif letter == "r":
            given.append(one_of(REDUCTIONS, value, f"{name}: kind"))
        elif letter == "z":
            given.append(ffi.NULL if value is None else ffi.new("int64_t[]", extents(value)))
        elif letter == "q":
            given.append(ffi.NULL if value is None else ffi.new("double[]", [float(factor) for factor in value]))
        elif letter == "k":
            given.append(conv_options(value))
        elif letter == "j":
            given.append(one_of(INTERPOLATIONS, value, f"{name}: mode"))
        elif letter == "p":
            given.append(one_of(PAD_MODES, value, f"{name}: mode"))
        elif letter == "c":
            given.append(one_of(SCATTER_MODES, value, f"{name}: reduce"))
        elif letter == "y":
            given.append(dtype_number(value))
        elif letter == "n":
            given.append(ffi.new("char[]", value.encode()))
        else:
            given.append(value)
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


def _add(model: Any, function: Callable[..., int], name: str, plan: str, values: Sequence[Any], made: int) -> Any:
    out = ffi.new("dhow_model_value[2]")
    called(name, function, model, *arguments(name, plan, values), *[out + i for i in range(made)])
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
    out = ffi.new(_OUT)
    check(function(*given, out))
    return _tensor.Tensor._own(ffi.gc(out[0], lib.dhow_tensor_release))


from . import _device, _tensor  # noqa: E402 - they use what is above
