# SPDX-License-Identifier: Apache-2.0
"""Models that take or give more than tensors: texts are lists of str, sequences are lists, None stands for what is not there."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from ._call import stream_of
from ._core import check, ffi, filled, lib, made, pointed, text
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._device import Stream


def _datum(value: Any) -> Any:
    if value is None:
        return made("dhow_datum", lib.dhow_datum_of_nothing)
    if isinstance(value, Tensor):
        return made("dhow_datum", lib.dhow_datum_of_tensor, value._handle)
    if isinstance(value, (list, tuple)) and not any(isinstance(one, (str, list)) for one in value):
        items = [_datum(one) for one in value]
        return made("dhow_datum", lib.dhow_datum_of_sequence, ffi.new("dhow_datum *[]", items), len(items))
    texts = numpy.asarray(value)
    if texts.dtype.kind not in "UO" or not all(isinstance(one, str) for one in texts.flat):
        raise TypeError(f"an input is of type {type(value).__name__}; a tensor, texts, or a list of tensors is wanted")
    kept = [ffi.new("char[]", one.encode()) for one in texts.flat]
    return made("dhow_datum", lib.dhow_datum_of_texts, texts.ndim, ffi.new("int64_t[]", list(texts.shape)), ffi.new("char *[]", kept))


def _value(datum: Any) -> Any:
    info = filled("dhow_datum_info", lib.dhow_datum_get_info, datum)
    if info.kind == lib.DHOW_DATUM_TENSOR:
        tensor = pointed("dhow_tensor **", lib.dhow_datum_tensor, datum)
        check(lib.dhow_tensor_retain(tensor))
        return Tensor._own(ffi.gc(tensor, lib.dhow_tensor_release))
    if info.kind == lib.DHOW_DATUM_TEXTS:
        found = [text(pointed("char **", lib.dhow_datum_text, datum, i)) for i in range(info.count)]
        return numpy.array(found, dtype=object).reshape(tuple(info.shape[0:info.rank])).tolist()
    if info.kind == lib.DHOW_DATUM_SEQUENCE:
        return [_value(pointed("dhow_datum **", lib.dhow_datum_item, datum, i)) for i in range(info.count)]
    return None


def run(model: Any, inputs: Sequence[Any], count: int, stream: Stream | None) -> list[Any]:
    given = [_datum(value) for value in inputs]
    out = ffi.new("dhow_datum *[]", count)
    check(lib.dhow_model_run_data(model, stream_of(stream), given, len(given), out, count))
    return [_value(ffi.gc(one, lib.dhow_datum_release)) for one in out]
