# SPDX-License-Identifier: Apache-2.0
"""Models: from ONNX files or built step by step, moved to a device and run."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _call, _datum
from ._builder import Builder
from ._core import DTYPE_NAMES, PRECISIONS, check, context, ffi, filled, lib, made, one_of, text
from ._device import Device, DeviceLike, Stream, device
from ._structs import Summary as Summary
from ._tensor import Tensor, tensor
from .errors import InvalidArgument

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Value:
    """An input, output or parameter; extents of -1 are open, and the shape None where the rank is."""
    name: str
    dtype: str
    shape: tuple[int, ...] | None
    kind: str = "tensor"
    optional: bool = False
    encoding: str | None = None  # "int4": the small type of ONNX that the elements stand for


@dataclass(frozen=True)
class Step:
    """A step of the latest plan; nanoseconds since profile() was switched on."""
    operation: str
    node: str
    kernel: str
    dtype: str
    device: str
    nanoseconds: int
    shape: tuple[int, ...]


def path_bytes(path: Path) -> tuple[bytes, str]:
    return os.fsencode(path), os.fsdecode(path)


def _value(function: Any, model: Any, index: int) -> Value:
    info = filled("dhow_model_value_info", function, model, index)
    kind = "tensor" if info.kind == lib.DHOW_DATUM_TENSOR else "texts" if info.kind == lib.DHOW_DATUM_TEXTS else "sequence"
    shape = None if info.rank < 0 else tuple(info.shape[0:info.rank])
    return Value(text(info.name), DTYPE_NAMES.get(info.dtype, "?"), shape, kind, bool(info.optional),
                 text(info.encoding) if info.encoding else None)


class Model(Builder):
    """dhow.Model.load("x.onnx") for a file; dhow.Model() to build one by input(), linear(), relu(), ..., output()."""

    def __init__(self) -> None:
        self._take(made("dhow_model", lib.dhow_model_create, context()), None)

    def _take(self, handle: Any, keep: object) -> Model:
        self._handle, self._keep = handle, keep
        return self

    def split(self, x: int, dim: int, sizes: Sequence[int]) -> list[int]:
        """Parts of a dimension of extents that come to its own."""
        out = ffi.new("dhow_model_value[]", max(1, len(sizes)))
        check(lib.dhow_model_split(self._handle, x, dim, sizes, len(sizes), out))
        return list(out)

    def chunk(self, x: int, dim: int, count: int) -> list[int]:
        """`count` parts of a dimension, the last ones shorter or empty where it does not come out even."""
        out = ffi.new("dhow_model_value[]", max(1, count))
        check(lib.dhow_model_chunk(self._handle, x, dim, max(0, count), out))
        return list(out)

    @classmethod
    def load(cls, file: Path | bytes) -> Model:
        """From an ONNX file, which stays open and must not change, or from its bytes; onto the CPU."""
        if isinstance(file, bytes):
            handle = made("dhow_model", lib.dhow_model_load_memory, context(), ffi.from_buffer(file), len(file))
            return cls.__new__(cls)._take(handle, file)
        name, shown = path_bytes(file)
        return cls.__new__(cls)._take(made("dhow_model", lib.dhow_model_load, context(), name, path=shown), None)

    # ---- what it is ----

    @property
    def inputs(self) -> list[Value]:
        return [_value(lib.dhow_model_input_at, self._handle, i) for i in range(lib.dhow_model_input_count(self._handle))]

    @property
    def outputs(self) -> list[Value]:
        return [_value(lib.dhow_model_output_at, self._handle, i) for i in range(lib.dhow_model_output_count(self._handle))]

    @property
    def device(self) -> Device:
        return Device(lib.dhow_model_device(self._handle))

    def parameters(self) -> dict[str, Tensor]:
        """The weights by name; models freeze them."""
        found = {}
        for i in range(lib.dhow_model_parameter_count(self._handle)):
            info = filled("dhow_model_parameter_info", lib.dhow_model_parameter_at, self._handle, i)
            check(lib.dhow_tensor_retain(info.tensor))
            found[text(info.name)] = Tensor._own(ffi.gc(info.tensor, lib.dhow_tensor_release), self)
        return found

    def set_parameter(self, name: str, value: Tensor) -> None:
        check(lib.dhow_model_set_parameter(self._handle, name.encode(), _call.handle(value, "set_parameter", name)))

    def load_state(self, path: Path) -> Model:
        """Reads all parameters from a safetensors file."""
        name, shown = path_bytes(path)
        check(lib.dhow_model_load_state(self._handle, name), shown)
        return self

    def save_state(self, path: Path) -> None:
        check(lib.dhow_model_save_state(self._handle, path_bytes(path)[0]))

    def to(self, where: DeviceLike, *, fallback: bool = False) -> Model:
        """Moves the model; with `fallback` steps for which the device has no kernel run on the CPU."""
        placement = lib.DHOW_PLACEMENT_FALLBACK if fallback else lib.DHOW_PLACEMENT_STRICT
        check(lib.dhow_model_place(self._handle, device(where)._handle, placement))
        return self

    @property
    def precision(self) -> str:
        """What an f32 model computes in: "bf16" or "f16" with sums in f32; "f32", "reduced" (TF32); "device", what its device is set to."""
        return next(name for name, number in PRECISIONS.items() if number == lib.dhow_model_precision(self._handle))

    @precision.setter
    def precision(self, value: str) -> None:
        check(lib.dhow_model_set_precision(self._handle, one_of(PRECISIONS, value, "precision")))

    # ---- running ----

    def __call__(self, *inputs: Any, stream: Stream | None = None, **named: Any) -> Any:
        """Runs the model with inputs in order, by name, or in a dict: arrays of NumPy or tensors of its device, lists of texts, lists of
        tensors. Gives the output, or a tuple of all."""
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            named, inputs = {**inputs[0], **named}, ()
        results = self._run(self._ordered(inputs, named), stream)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | Mapping[str, Tensor] | None = None, *,
            stream: Stream | None = None) -> dict[str, Tensor]:
        """Runs the model with inputs by name, for the outputs that are named, or into the tensors that are given for them."""
        if not isinstance(inputs, Mapping):
            raise TypeError(f"run: the inputs are a {type(inputs).__name__}, not a dict of them; model(...) takes them in order")
        wanted = outputs if outputs is not None else [value.name for value in self.outputs]
        into = wanted if isinstance(wanted, Mapping) else {}
        given = dict(zip((value.name for value in self.inputs), self._ordered((), inputs)))
        names = [(name, ffi.new("char[]", name.encode())) for name in [*given, *wanted]]
        rows = ffi.new("dhow_named_tensor[]", len(names))
        for row, (name, kept) in zip(rows, names):
            row.struct_size, row.name = ffi.sizeof("dhow_named_tensor"), kept
        for row, value in zip(rows, given.values()):
            row.tensor = value._handle if isinstance(value, Tensor) else ffi.NULL
        for i, name in enumerate(wanted, len(given)):
            rows[i].tensor = _call.handle(into[name], "run", name) if name in into else ffi.NULL
        check(lib.dhow_model_run_named(self._handle, _call.stream_of(stream), rows, len(given), rows + len(given), len(wanted)))
        return {name: into[name] if name in into else Tensor._own(ffi.gc(rows[i].tensor, lib.dhow_tensor_release), self._keep)
                for i, name in enumerate(wanted, len(given))}

    def _ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Inputs in the model's order, as tensors where they are such."""
        slots = self.inputs
        names = [value.name for value in slots]
        unknown = [name for name in named if name not in names]
        if unknown or len(inputs) > len(slots):
            said = f"no input {unknown[0]!r}" if unknown else f"{len(slots)} inputs, {len(inputs)} were given"
            raise InvalidArgument(f"the model has {said}; its inputs are {', '.join(names) or 'none'}")
        given: dict[str, Any] = dict(zip(names, inputs))
        twice = [name for name in named if name in given]
        if twice:
            raise InvalidArgument(f"input {twice[0]!r} is given twice, by its place and by its name")
        given.update(named)
        missing = [value.name for value in slots if value.name not in given and not value.optional]
        if missing:
            raise InvalidArgument(f"input {missing[0]!r} is missing; the inputs are {', '.join(names)}")
        return [self._tensor(given.get(value.name), value) for value in slots]

    def _tensor(self, data: Any, value: Value) -> Any:
        if data is None or isinstance(data, Tensor) or value.kind != "tensor":
            return data
        return tensor(data, dtype=None if hasattr(data, "__array__") else value.dtype, device=self.device)

    def _run(self, inputs: list[Any], stream: Stream | None) -> list[Any]:
        slots = self.outputs
        if not all(isinstance(value, Tensor) for value in inputs) or any(value.kind != "tensor" for value in slots):
            return _datum.run(self._handle, inputs, len(slots), stream)
        out = ffi.new("dhow_tensor *[]", len(slots))
        check(lib.dhow_model_run(self._handle, _call.stream_of(stream), [value._handle for value in inputs], len(inputs), out, len(slots)))
        return [Tensor._own(ffi.gc(one, lib.dhow_tensor_release), self._keep) for one in out]

    # ---- looking at runs ----

    def summary(self) -> Summary:
        found = filled("dhow_model_summary", lib.dhow_model_get_summary, self._handle)
        return Summary(**{name: int(getattr(found, name)) for name in Summary.__dataclass_fields__})

    def steps(self) -> list[Step]:
        """The steps of the latest plan."""
        found = []
        for i in range(self.summary().step_count):
            info = filled("dhow_model_step_info", lib.dhow_model_step_at, self._handle, i)
            found.append(Step(text(info.operation), text(info.node), text(info.kernel), DTYPE_NAMES.get(info.dtype, "?"),
                              text(lib.dhow_device_name(info.device)), info.nanoseconds, tuple(info.shape[0:info.rank])))
        return found

    def profile(self, on: bool = True) -> None:
        """Measures each step of later runs, which then wait after every step."""
        check(lib.dhow_model_set_profiling(self._handle, on))

    def limit_time(self, seconds: float) -> None:
        """Ends later runs that take longer with dhow.errors.TimedOut; 0 for no limit."""
        check(lib.dhow_model_set_time_limit(self._handle, seconds))

    def limit_memory(self, count: int) -> None:
        """Refuses later runs that need more bytes; 0 for the default."""
        check(lib.dhow_model_set_memory_limit(self._handle, count))

    def cancel(self) -> None:
        """Ends the runs that other threads are in with dhow.errors.Cancelled."""
        check(lib.dhow_model_cancel(self._handle))
