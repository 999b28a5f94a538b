# SPDX-License-Identifier: Apache-2.0
"""Devices, their memory and streams, and the plugins they come from."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

from ._core import DTYPE_NAMES, PRECISIONS, check, context, ffi, filled, lib, made, one_of, pointed, text, words
from ._structs import MemoryStats as MemoryStats

_KINDS = {number: name for name, number in words("dhow_device_kind", "DHOW_DEVICE_").items()}
_STATES = {number: name for name, number in words("dhow_plugin_state", "DHOW_PLUGIN_").items()}


class Device:
    """A device of the process; dhow.device("opencl:0") gives it. Wherever a device is wanted its name does as well."""
    __slots__ = ("_handle", "name")

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.name: str = text(lib.dhow_device_name(handle))

    def __repr__(self) -> str:
        return f"dhow.device({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self.name == (other if isinstance(other, str) else getattr(other, "name", None))

    def __hash__(self) -> int:
        return hash(self.name)

    def _info(self) -> Any:
        return filled("dhow_device_info", lib.dhow_device_get_info, self._handle)

    @property
    def backend(self) -> str:
        return self.name.partition(":")[0]

    @property
    def index(self) -> int:
        return int(self.name.partition(":")[2])

    @property
    def kind(self) -> str:
        """"cpu", "gpu", "accelerator" or "simulated"."""
        return _KINDS[self._info().kind]

    @property
    def description(self) -> str:
        return text(self._info().description)

    @property
    def driver(self) -> str:
        return text(self._info().driver)

    @property
    def compute_units(self) -> int:
        return int(self._info().compute_units)

    @property
    def memory_bytes(self) -> int:
        return int(self._info().memory_bytes)

    @property
    def free_bytes(self) -> int:
        """0 where the driver does not tell."""
        return int(self._info().free_bytes)

    @property
    def dtypes(self) -> list[str]:
        bits = self._info().dtypes
        return [name for number, name in DTYPE_NAMES.items() if bits >> number & 1]

    @property
    def precision(self) -> str:
        """"f32", or "reduced": TF32 or bf16 inside of products of f32."""
        return next(name for name, number in PRECISIONS.items() if number == lib.dhow_device_precision(self._handle))

    @precision.setter
    def precision(self, value: str) -> None:
        check(lib.dhow_device_set_precision(self._handle, one_of(PRECISIONS, value, "precision")))

    def sync(self) -> None:
        """Waits for all work on the device, and raises what failed."""
        check(lib.dhow_device_sync(self._handle))

    def memory(self) -> MemoryStats:
        stats = filled("dhow_memory_stats", lib.dhow_memory_get_stats, self._handle)
        return MemoryStats(**{name: int(getattr(stats, name)) for name in MemoryStats.__dataclass_fields__})

    def trim(self) -> None:
        """Gives cached memory back to the driver."""
        check(lib.dhow_memory_trim(self._handle))


_known: dict[Any, Device] = {}


def known(handle: Any) -> Device:
    """The device of a handle that C gives; devices live as long as the process."""
    return _known.get(handle) or _known.setdefault(handle, Device(handle))


DeviceLike = Union[Device, str, None]


def device(spec: str | Device | None = None) -> Device:
    """The first device of a list of preferences, "cuda,opencl,cpu"; without one, DHOW_DEVICE or the best there is."""
    if isinstance(spec, Device):
        return spec
    if spec is not None and not isinstance(spec, str):
        raise TypeError(f"a device is of type {type(spec).__name__}, not a name such as 'cpu' or a dhow.Device")
    return Device(pointed("dhow_device **", lib.dhow_device_get, context(), ffi.NULL if spec is None else spec.encode()))


def devices() -> list[Device]:
    """All devices of the machine."""
    return [Device(pointed("dhow_device **", lib.dhow_device_at, context(), i)) for i in range(lib.dhow_device_count(context()))]


class Stream:
    """A queue of work on a device. Work on the same tensors in several streams is ordered by dhow."""
    __slots__ = ("_handle", "device")

    def __init__(self, on: DeviceLike = None) -> None:
        self.device = device(on)
        self._handle = made("dhow_stream", lib.dhow_stream_create, self.device._handle)

    def sync(self) -> None:
        """Waits for the stream's work, and raises what failed."""
        check(lib.dhow_stream_sync(self._handle))


@dataclass(frozen=True)
class Plugin:
    """What became of a plugin file."""
    backend: str
    state: str
    path: str
    reason: str
    hint: str
    device_count: int


def plugins() -> list[Plugin]:
    """All plugin files that were found, and why those that give no device do not."""
    found = []
    for i in range(lib.dhow_plugin_count(context())):
        record = filled("dhow_plugin_record", lib.dhow_plugin_at, context(), i)
        found.append(Plugin(text(record.backend), _STATES[record.state].upper(), text(record.path), text(record.reason), text(record.hint),
                            record.device_count))
    return found
