# SPDX-License-Identifier: Apache-2.0
"""The one context of a process, failures as exceptions, and small helpers around cffi."""
from __future__ import annotations

import re
import threading
from typing import Any

from . import errors
from ._dhow import ffi as ffi, lib as lib

_lock = threading.Lock()
_context: Any = None
_NAMES = {"cast": "Tensor.to_dtype", "npy_load": "load_npy", "tensor_read": "Tensor.numpy", "launch": "Kernel",
          "launch_grid": "Kernel.launch_grid", "model_set_time_limit": "Model.limit_time", "model_set_memory_limit": "Model.limit_memory"}


def _in_python(message: str) -> str:
    """With the remedies it names as Python has them: Tensor.contiguous() for dhow_tensor_contiguous()."""
    import dhow

    def name(found: re.Match[str]) -> str:
        word = found[1]
        owner, _, method = word.partition("_")
        there = method and hasattr(getattr(dhow, owner.title(), None), method)
        python = _NAMES.get(word) or (f"{owner.title()}.{method}" if there else word if hasattr(dhow, word) else "")
        return f"{python}()" if python else found[0]
    return re.sub(r"\bdhow_(\w+)\(\)", name, message)


def check(status: int, path: str | None = None) -> None:
    """Raises what the calling thread's last call reported, unless it is a success."""
    if status == 0:
        return
    kind = errors.BY_STATUS.get(status, errors.Error)
    if kind is errors.NotFound and path is not None:
        kind = errors.FileMissing
    error = kind(_in_python(text(lib.dhow_last_error())))
    error.native_code = lib.dhow_last_native_code()
    raise error


def text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode("utf-8", "replace")) if pointer != ffi.NULL else ""


def context() -> Any:
    """Made with the first call that wants it. It ends with the process: tensors may outlive every other object."""
    global _context
    if _context is None:
        start()
    return _context


def start(device: str | None = None, *, backends: str | None = None, plugin_path: str | None = None, cache_dir: str | None = None,
          num_threads: int = 0, isolate_probes: bool = False) -> None:
    """Sets, before any other call, what the environment would: DHOW_DEVICE, DHOW_BACKENDS and so on."""
    global _context
    with _lock:
        if _context is not None:
            if (device, backends, plugin_path, cache_dir, num_threads, isolate_probes) == (None, None, None, None, 0, False):
                return
            raise errors.InvalidArgument("dhow.start: dhow has started already; call it before anything else")
        kept = [ffi.new("char[]", value.encode()) if value is not None else ffi.NULL
                for value in (device, backends, plugin_path, cache_dir)]
        options = struct("dhow_context_options", device=kept[0], backends=kept[1], plugin_path=kept[2], cache_dir=kept[3],
                         num_threads=num_threads, isolate_probes=isolate_probes)
        _context = pointed("dhow_context **", lib.dhow_context_create, options)


_structs: dict[str, tuple[Any, int]] = {}
_handles: dict[str, tuple[Any, Any]] = {}  # by their types: what releases them, and a pointer to one


def struct(name: str, **fields: Any) -> Any:
    """A struct of dhow that says how large it is."""
    known = _structs.get(name)
    if known is None:
        known = _structs[name] = (ffi.typeof(name + " *"), ffi.sizeof(name))
    new = ffi.new(known[0], fields) if fields else ffi.new(known[0])
    new.struct_size = known[1]
    return new


def filled(kind: str, function: Any, *given: Any) -> Any:
    """A struct of dhow that a call has filled."""
    out = struct(kind)
    check(function(*given, out))
    return out


def pointed(kind: str, function: Any, *given: Any, path: str | None = None) -> Any:
    """The pointer that a call gives by its last argument, for a type such as "dhow_device **"."""
    out = ffi.new(kind)
    check(function(*given, out), path)
    return out[0]


def made(kind: str, function: Any, *given: Any, path: str | None = None) -> Any:
    """The new handle that a call gives, released when Python has no more use for it."""
    release, pointer = _handles.get(kind) or _handles.setdefault(kind, (
        getattr(lib, kind + ("_close" if kind == "dhow_safetensors" else "_release")), ffi.typeof(kind + " **")))
    return ffi.gc(pointed(pointer, function, *given, path=path), release)


def words(kind: str, prefix: str) -> dict[str, int]:
    """The enumerators of a C type, by their names without the prefix, in small letters."""
    names: dict[str, int] = ffi.typeof(kind).relements
    return {name[len(prefix):].lower(): value for name, value in sorted(names.items(), key=lambda item: item[1])}


def one_of(table: dict[str, int], word: object, what: str) -> int:
    value = table.get(word.lower()) if isinstance(word, str) else None
    if value is None:
        raise errors.InvalidArgument(f"{what} is {word!r}; there are {', '.join(table)}")
    return value


DTYPES = words("dhow_dtype", "DHOW_")
PRECISIONS = words("dhow_precision", "DHOW_PRECISION_")
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
NUMPY_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8", "i16": "int16",
               "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool"}
_ALIASES = {numpy: name for name, numpy in NUMPY_NAMES.items()}


def dtype_number(dtype: Any) -> int:
    """Of "f32", "float32", numpy.float32, numpy.dtype("float32")."""
    if not isinstance(dtype, str):
        import numpy
        try:
            dtype = numpy.dtype(dtype).name
        except TypeError:
            raise TypeError(f"dtype is {dtype!r}; a name such as 'f32', or a dtype of NumPy is wanted") from None
    return one_of(DTYPES, _ALIASES.get(dtype, dtype), "dtype")
