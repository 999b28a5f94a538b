# SPDX-License-Identifier: Apache-2.0
"""Tensors: made, looked at, sliced, computed with, shared with NumPy."""
from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy

from . import _dlpack
from ._call import REDUCTIONS, Number, extents, is_number, operation, scalar, shaped, stream_of, tensor_from
from ._core import DTYPE_NAMES, NUMPY_NAMES, check, dtype_number, ffi, filled, lib, pointed
from ._device import Device, DeviceLike, device, known

if TYPE_CHECKING:
    from ._device import Stream


@ffi.def_extern()  # type: ignore[untyped-decorator, unused-ignore]
def dhow_py_take_text(user: Any, text: Any, count: int) -> None:
    ffi.from_handle(user).append(ffi.unpack(text, count))


def numpy_dtype(name: str) -> Any:
    if name == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("NumPy has no bf16; convert with t.to_dtype('f32'), or install ml_dtypes") from None
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(NUMPY_NAMES[name])


def _operator(name: str, number: str | None = None, turned: bool = False, into: bool = False) -> Callable[[Tensor, Any], Tensor]:
    def compute(self: Tensor, other: Any) -> Any:
        if is_number(other) and number is not None and not turned:
            return operation(getattr(lib, "dhow_" + number), number, "ts", (self, other), None, self if into else None, None)
        if not isinstance(other, Tensor) and not is_number(other):
            if hasattr(other, "__array__"):
                raise TypeError(f"{name}: one side is of type {type(other).__name__}; dhow.tensor() makes a tensor of it, .numpy() an array of the other")
            return NotImplemented
        pair = (other, self) if turned else (self, other)
        return getattr(ops, name)(*pair, out=self if into else None)
    compute.__name__ = compute.__qualname__ = f"Tensor.{name}"
    return compute


def _reduction(kind: str) -> Callable[..., Tensor]:
    def compute(self: Tensor, dims: int | Sequence[int] = (), *, keep_dims: bool = False) -> Tensor:
        y = ops.reduce(kind, self, dims)
        chosen = {d % len(self.shape) for d in extents(dims)} or set(range(len(self.shape)))
        return y.reshape(*(1 if i in chosen else extent for i, extent in enumerate(self.shape))) if keep_dims else y
    compute.__name__ = compute.__qualname__ = f"Tensor.{kind}"
    compute.__doc__ = f"The {kind} over dimensions, or over all elements."
    return compute


class Tensor:
    """Elements of one dtype on one device. Views share memory; clone() does not. dhow.tensor() and its like make one."""
    __slots__ = ("_handle", "_keep", "shape", "strides", "dtype", "device", "__weakref__")
    __array_ufunc__ = None  # so that an array of NumPy leaves arithmetic with tensors to the tensor, which refuses it
    _handle: Any
    _keep: object
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: str
    device: Device

    def __init__(self) -> None:
        raise TypeError("dhow.tensor(data), dhow.empty(shape) and their like make tensors")

    @classmethod
    def _own(cls, handle: Any, keep: object = None) -> Tensor:
        self = cls.__new__(cls)
        info = filled("dhow_tensor_info", lib.dhow_tensor_get_info, handle)
        self._handle, self._keep = handle, keep
        rank = info.rank
        self.shape, self.strides = tuple(ffi.unpack(info.shape, rank)), tuple(ffi.unpack(info.strides, rank))
        self.dtype, self.device = DTYPE_NAMES[info.dtype], known(info.device)
        return self

    def _view(self, function: Callable[..., int], *given: Any) -> Tensor:
        made = tensor_from(function, self._handle, *given)
        made._keep = self._keep
        return made

    # ---- looking ----

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(lib.dhow_tensor_count(self._handle))

    def __repr__(self) -> str:
        parts: list[bytes] = []
        user = ffi.new_handle(parts)
        check(lib.dhow_tensor_print(self._handle, lib.dhow_py_take_text, user))
        return b"".join(parts).decode().rstrip("\n")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def item(self) -> Any:
        """The value of a tensor with one element."""
        if self.dtype in ("f32", "f64", "f16", "bf16", "bool"):
            number = pointed("double *", lib.dhow_tensor_item, self._handle)
            return bool(number) if self.dtype == "bool" else number
        if self.dtype == "u64" and self.size == 1:
            return int(self.numpy().reshape(()))
        return pointed("int64_t *", lib.dhow_tensor_item_i64, self._handle)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    # ---- NumPy and others ----

    def numpy(self) -> Any:
        """An array of NumPy: over the same memory on the CPU, a copy from elsewhere."""
        kind = numpy_dtype(self.dtype)
        if self.device.backend != "cpu":
            array = numpy.empty(self.shape, numpy.uint16 if self.dtype == "bf16" else kind)
            check(lib.dhow_tensor_read(self._handle, ffi.from_buffer(array), array.nbytes))
            return array.view(kind)
        address = pointed("void **", lib.dhow_tensor_host_ptr, self._handle)
        strides = tuple(stride * kind.itemsize for stride in self.strides)
        plain = numpy.dtype(numpy.uint16) if self.dtype == "bf16" else kind
        looked_at = {"version": 3, "shape": self.shape, "strides": strides, "typestr": plain.str,
                     "data": (int(ffi.cast("uintptr_t", address)), _dlpack.read_only(self))}
        return numpy.asarray(SimpleNamespace(tensor=self, __array_interface__=looked_at)).view(kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        shares = self.device.backend == "cpu" and (dtype is None or numpy.dtype(dtype) == numpy_dtype(self.dtype))
        if copy is False and not shares:
            raise ValueError("an array over the memory of this tensor cannot be had: it is on %s as %s" % (self.device, self.dtype))
        array = self.numpy()
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.copy() if copy and shares else array

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __dlpack_device__(self) -> tuple[int, int]:
        return _dlpack.device_of(self)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> object:
        return _dlpack.export(self, stream, max_version, dl_device, copy)

    # ---- places and forms ----

    def to(self, where: DeviceLike) -> Tensor:
        """The tensor on a device: itself where it is there already."""
        return self._view(lib.dhow_tensor_to, device(where)._handle)

    def to_dtype(self, dtype: Any, *, stream: Stream | None = None) -> Tensor:
        """The tensor in another dtype: itself where it has it already. Floats become integers by truncation."""
        return tensor_from(lib.dhow_tensor_to_dtype, stream_of(stream), self._handle, dtype_number(dtype))

    def clone(self, *, stream: Stream | None = None) -> Tensor:
        """A row-major copy in memory of its own."""
        return tensor_from(lib.dhow_tensor_clone, stream_of(stream), self._handle)

    def contiguous(self, *, stream: Stream | None = None) -> Tensor:
        """A row-major tensor of the same values: itself where it is one."""
        return tensor_from(lib.dhow_tensor_contiguous, stream_of(stream), self._handle)

    def freeze(self) -> Tensor:
        """Promises that the values never change again; writing is refused from then on."""
        check(lib.dhow_tensor_freeze(self._handle))
        return self

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, without a copy; one extent may be -1."""
        return self._view(lib.dhow_tensor_reshape, *shaped(shape[0] if len(shape) == 1 else shape))

    def expand(self, *shape: Any) -> Tensor:
        """Extents of 1 repeated, without a copy; the result is read-only."""
        return self._view(lib.dhow_tensor_expand, *shaped(shape[0] if len(shape) == 1 else shape))

    def permute(self, *order: Any) -> Tensor:
        listed = extents(order[0] if len(order) == 1 else order)
        if len(listed) != self.ndim:
            raise ValueError(f"permute: {len(listed)} dimensions for a tensor of rank {self.ndim}")
        return self._view(lib.dhow_tensor_permute, ffi.new("int32_t[]", listed))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return self._view(lib.dhow_tensor_transpose, dim0, dim1)

    @property
    def T(self) -> Tensor:
        """With the last two dimensions swapped."""
        return self.transpose(-2, -1)

    def flatten(self, first: int = 0, last: int = -1) -> Tensor:
        return self._view(lib.dhow_tensor_flatten, first, last)

    def squeeze(self, dim: int | None = None) -> Tensor:
        """Without a dimension of extent 1, or without any such."""
        return self._view(lib.dhow_tensor_squeeze, lib.DHOW_ALL_DIMS if dim is None else dim)

    def unsqueeze(self, dim: int) -> Tensor:
        return self._view(lib.dhow_tensor_unsqueeze, dim)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        return self._view(lib.dhow_tensor_narrow, dim, start, length)

    def select(self, dim: int, index: int) -> Tensor:
        return self._view(lib.dhow_tensor_select, dim, index)

    def chunk(self, count: int, dim: int = 0) -> list[Tensor]:
        extent = self.shape[dim] if -self.ndim <= dim < self.ndim and count > 0 else 0
        each = -(-extent // count) if count > 0 else 0
        if each == 0:
            raise ValueError(f"chunk: {count} parts of dimension {dim} of shape {self.shape} cannot be made")
        return [self.narrow(dim, min(i * each, extent), max(0, min(each, extent - i * each))) for i in range(count)]

    def __getitem__(self, key: Any) -> Tensor:
        keys = list(key) if isinstance(key, tuple) else [key]
        asked = sum(k is not None and k is not Ellipsis for k in keys)
        if asked > self.ndim:
            raise IndexError(f"{asked} indices for a tensor of rank {self.ndim}")
        if sum(k is Ellipsis for k in keys) > 1:
            raise IndexError("an index has more than one ...")
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys[at:at + 1] = [slice(None)] * (self.ndim - asked)
        view, dim = self._view(lib.dhow_tensor_to, self.device._handle), 0
        for k in keys:
            if k is None:
                view = view.unsqueeze(dim)
            elif isinstance(k, slice):
                if k != slice(None):
                    start, stop = 0 if k.start is None else k.start, view.shape[dim] if k.stop is None else k.stop
                    view = view._view(lib.dhow_tensor_slice, dim, start, stop, 1 if k.step is None else k.step)
            elif isinstance(k, bool) or not hasattr(k, "__index__") or getattr(k, "ndim", 0) > 0:
                raise TypeError(f"an index is of type {type(k).__name__}; integers, slices, None and ... are taken; dhow.gather() picks rows")
            else:
                view = view.select(dim, operator.index(k))
                continue
            dim += 1
        return view

    def __setitem__(self, key: Any, value: Any) -> None:
        view = self[key]
        if is_number(value):
            check(lib.dhow_fill_scalar(ffi.NULL, view._handle, scalar(value)))
            return
        source = value if isinstance(value, Tensor) else tensor(value, dtype=self.dtype, device=self.device)
        check(lib.dhow_copy((source if source.shape == view.shape else source.expand(view.shape))._handle, view._handle))

    # ---- arithmetic ----

    __add__, __sub__, __mul__ = (_operator(n, n + "_scalar") for n in ("add", "sub", "mul"))
    __truediv__, __pow__ = _operator("div", "div_scalar"), _operator("pow", "pow_scalar")
    __radd__, __rmul__ = _operator("add", "add_scalar"), _operator("mul", "mul_scalar")
    __rsub__, __rtruediv__, __rpow__ = (_operator(n, turned=True) for n in ("sub", "div", "pow"))
    __mod__, __rmod__ = _operator("mod"), _operator("mod", turned=True)
    __iadd__, __isub__, __imul__ = (_operator(n, n + "_scalar", into=True) for n in ("add", "sub", "mul"))
    __itruediv__ = _operator("div", "div_scalar", into=True)
    __lt__, __le__, __gt__, __ge__ = (_operator(n) for n in ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __matmul__(self, other: Tensor) -> Tensor:
        return ops.matmul(self, other) if isinstance(other, Tensor) else NotImplemented

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    sum, mean, max, min, prod = (_reduction(kind) for kind in REDUCTIONS)


# ---- making ----


def tensor(data: Any, *, dtype: Any = None, device: DeviceLike = None) -> Tensor:
    """A copy of an array of NumPy, of numbers or of nested lists of them; floats of Python become f32."""
    if isinstance(data, Tensor):
        made = data.clone().to(data.device if device is None else device)
        return made if dtype is None else made.to_dtype(dtype)
    array = numpy.asarray(data)
    if dtype is None and array.dtype == numpy.float64 and not hasattr(data, "__array__"):
        array = array.astype(numpy.float32)
    if array.dtype.name not in NUMPY_NAMES.values():
        raise TypeError(f"dhow.tensor: {array.dtype} is no dtype of dhow; convert the array before")
    array = numpy.array(array, dtype=array.dtype.newbyteorder("="), order="C", ndmin=0)
    raw = ffi.from_buffer(array.view(numpy.uint16) if array.dtype.name == "bfloat16" else array)
    made = tensor_from(lib.dhow_tensor_from_data, _on(device if dtype is None else "cpu"), dtype_number(array.dtype), array.ndim,
                       ffi.new("int64_t[]", list(array.shape)), raw)
    return made if dtype is None else made.to_dtype(dtype).to(device)


def _on(where: DeviceLike) -> Any:
    return device(where)._handle


def _like(shape: Any, dtype: Any, where: DeviceLike) -> tuple[Any, ...]:
    return _on(where), dtype_number(dtype), *shaped(shape)


def empty(shape: Any, *, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    """A tensor of undefined contents."""
    return tensor_from(lib.dhow_tensor_create, *_like(shape, dtype, device))


def zeros(shape: Any, *, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    return tensor_from(lib.dhow_tensor_zeros, *_like(shape, dtype, device))


def ones(shape: Any, *, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    return tensor_from(lib.dhow_tensor_ones, *_like(shape, dtype, device))


def full(shape: Any, value: Number, *, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    return tensor_from(lib.dhow_tensor_full_scalar, *_like(shape, dtype, device), scalar(value))


def arange(start: Number, end: Number | None = None, step: Number = 1, *, dtype: Any = None, device: DeviceLike = None) -> Tensor:
    """start, start + step, ... before end; i64, or f32 where one of them is a float."""
    start, end = (0, start) if end is None else (start, end)
    dtype = dtype or ("f32" if any(isinstance(v, float) for v in (start, end, step)) else "i64")
    return tensor_from(lib.dhow_tensor_arange, _on(device), dtype_number(dtype), *map(scalar, (start, end, step)))


def uniform(shape: Any, low: float = 0, high: float = 1, *, seed: int, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    """Evenly spread over low <= value < high; the same on every device."""
    return tensor_from(lib.dhow_tensor_uniform, *_like(shape, dtype, device), low, high, seed)


def normal(shape: Any, mean: float = 0, deviation: float = 1, *, seed: int, dtype: Any = "f32", device: DeviceLike = None) -> Tensor:
    """Normally distributed; the same on every device."""
    return tensor_from(lib.dhow_tensor_normal, *_like(shape, dtype, device), mean, deviation, seed)


def from_dlpack(producer: Any) -> Tensor:
    """A tensor over the memory of another library's, by DLPack and without a copy."""
    return Tensor._own(_dlpack.take(producer))


from . import ops  # noqa: E402 - it makes tensors, and tensors use it
