# SPDX-License-Identifier: Apache-2.0
"""dhow: tensors and models on CPU, CUDA and OpenCL devices, through one C library. docs/python.md shows how."""
from . import errors, ops
from ._call import Number
from ._core import lib as _lib, start, text as _text
from ._device import Device, MemoryStats, Plugin, Stream, device, devices, plugins
from ._files import load_npy, load_safetensors, region, save_npy, save_safetensors, trace
from ._kernel import Kernel
from ._model import Model, Step, Summary, Value
from ._tensor import Tensor, arange, empty, from_dlpack, full, normal, ones, tensor, uniform, zeros
from .errors import Error
from .ops import *  # noqa: F403

__version__ = _text(_lib.dhow_version())
__all__ = ["Device", "Error", "Kernel", "MemoryStats", "Model", "Number", "Plugin", "Step", "Stream", "Summary", "Tensor", "Value", "arange",
           "device", "devices", "empty", "errors", "from_dlpack", "full", "load_npy", "load_safetensors", "normal", "ones", "ops", "plugins",
           "region", "save_npy", "save_safetensors", "start", "tensor", "trace", "uniform", "zeros", *ops.__all__]
