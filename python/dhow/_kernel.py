# SPDX-License-Identifier: Apache-2.0
"""Kernels of one's own, in the portable text of dhow/kernel/k.h or in a backend's own language."""
from __future__ import annotations

import re
from typing import Any

from ._call import handle, scalar, stream_of
from ._core import check, ffi, lib, made, one_of, struct, text, words
from ._device import DeviceLike, Stream, device
from ._tensor import Tensor
from .errors import InvalidArgument

_FORMATS = {"portable": lib.DHOW_MODULE_PORTABLE, "cuda": lib.DHOW_MODULE_CUDA_C, "opencl": lib.DHOW_MODULE_OPENCL_C, "ptx": lib.DHOW_MODULE_PTX}
_VALUES = words("dhow_value_kind", "DHOW_VALUE_")


class Kernel:
    """One kernel of a text, built for a device: kernel(x, y, 2.0, n, work=n) launches it."""
    __slots__ = ("_handle", "device", "signature", "_numbers")

    def __init__(self, source: str, name: str | None = None, *, device: DeviceLike = None, options: str | None = None,
                 language: str = "portable", signatures: str | None = None) -> None:
        from . import _device
        self.device = _device.device(device)
        kept = [ffi.NULL if value is None else ffi.new("char[]", value.encode()) for value in (source, options, signatures)]
        form = struct("dhow_module_source", text=kept[0], options=kept[1], signatures=kept[2],
                      format=one_of(_FORMATS, language, "language"))
        module = made("dhow_module", lib.dhow_module_build, self.device._handle, form)
        names = re.findall(r"\bKERNEL\s*\(\s*(\w+)", source) if name is None else [name]
        if len(names) != 1:
            raise InvalidArgument(f"the text has {len(names)} kernels; say which: {', '.join(names) or 'its name'}")
        self._handle = made("dhow_kernel", lib.dhow_module_kernel, module, names[0].encode())
        self.signature = text(lib.dhow_kernel_signature(self._handle))
        self._numbers = [kind if word == "VAL" else "" for word, kind in re.findall(r"(\w+)\(\s*(\w+)", self.signature)]

    def __repr__(self) -> str:
        return f"<dhow.Kernel {self.signature} on {self.device}>"

    def __call__(self, *values: Any, work: int, stream: Stream | None = None) -> None:
        """Submits the kernel for `work` elements in all."""
        given = self._values(values)
        check(lib.dhow_launch_values(stream_of(stream), self._handle, work, len(values), given))

    def launch_grid(self, grid: tuple[int, int, int], block: tuple[int, int, int], *values: Any, shared_bytes: int = 0,
                    stream: Stream | None = None) -> None:
        """Submits a kernel in a backend's own language."""
        given = self._values(values)
        check(lib.dhow_launch_grid_values(stream_of(stream), self._handle, grid, block, shared_bytes, len(values), given))

    def _values(self, values: tuple[Any, ...]) -> Any:
        given = ffi.new("dhow_value[]", len(values))
        for i, value in enumerate(values):
            wanted = self._numbers[i] if i < len(self._numbers) else ""
            if isinstance(value, Tensor):
                given[i] = {"kind": lib.DHOW_VALUE_TENSOR, "u": {"tensor": value._handle}}
            elif isinstance(value, (bool, int, float)) or hasattr(value, "item"):
                given[i] = _number(value.item() if hasattr(value, "item") else value, wanted, i)
            else:
                handle(value, "launch", f"argument {i}")
        return given


def _number(value: Any, wanted: str, place: int) -> dict[str, Any]:
    """A number as the kernel's parameter has it, where that loses nothing; else as it is, for dhow to refuse."""
    if isinstance(value, int) and wanted in ("f32", "f64"):
        value = float(value)
    if isinstance(value, float):
        return {"kind": lib.DHOW_VALUE_F64, "u": {"f64": value}}
    whole = scalar(value)  # within 64 bits
    bits, signed = (32 if wanted.endswith("32") or wanted[1:] in ("8", "16") else 64), not wanted.startswith("u") and value < 2**63
    low, high = (-2**(bits - 1), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    if not low <= value <= high:
        raise InvalidArgument(f"argument {place} is {value}, which {wanted} has not")
    kind = _VALUES[f"{'i' if signed else 'u'}{bits}"]
    return {"kind": kind, "u": {"i": value} if signed else {"u": whole.value.u64 if value >= 2**63 else value}}
