# SPDX-License-Identifier: Apache-2.0
"""Files of tensors, and traces."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ._call import handle, tensor_from
from ._core import check, context, ffi, filled, lib, made, text
from ._device import DeviceLike, device
from ._model import Path, path_bytes
from ._tensor import Tensor


def load_safetensors(path: Path, where: DeviceLike = "cpu") -> dict[str, Tensor]:
    """All tensors of a safetensors file, by name, on a device."""
    name, shown = path_bytes(path)
    file, on = made("dhow_safetensors", lib.dhow_safetensors_open, context(), name, path=shown), device(where)
    found = {}
    for i in range(lib.dhow_safetensors_count(file)):
        entry = filled("dhow_safetensors_entry", lib.dhow_safetensors_at, file, i)
        found[text(entry.name)] = tensor_from(lib.dhow_safetensors_load, file, entry.name, on._handle)
    return found


def save_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors of any devices into one file, which appears whole or not at all."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save_safetensors: the tensors are of type {type(tensors).__name__}, not a dict of them; the path comes first")
    names = [ffi.new("char[]", name.encode()) for name in tensors]
    handles = [handle(value, "save_safetensors", name) for name, value in tensors.items()]
    check(lib.dhow_safetensors_save(path_bytes(path)[0], len(names), ffi.new("char *[]", names), ffi.new("dhow_tensor *[]", handles)))


def load_npy(path: Path, where: DeviceLike = None) -> Tensor:
    name, shown = path_bytes(path)
    return Tensor._own(made("dhow_tensor", lib.dhow_npy_load, device(where)._handle, name, path=shown))


def save_npy(path: Path, tensor: Tensor) -> None:
    if isinstance(path, Tensor):
        raise TypeError("save_npy: the path comes first, then the tensor")
    check(lib.dhow_npy_save(handle(tensor, "save_npy", "tensor"), path_bytes(path)[0]))


@contextmanager
def trace(path: Path) -> Iterator[None]:
    """Records what all devices do within the block, and writes it for Perfetto: ui.perfetto.dev opens the file."""
    check(lib.dhow_trace_start(context(), 0))
    try:
        yield
    finally:
        check(lib.dhow_trace_save(context(), path_bytes(path)[0]))
        check(lib.dhow_trace_stop(context()))


@contextmanager
def region(name: str) -> Iterator[None]:
    """A region of the program's own in a trace."""
    begin = lib.dhow_trace_now()
    try:
        yield
    finally:
        check(lib.dhow_trace_region(context(), name.encode(), begin, lib.dhow_trace_now()))
