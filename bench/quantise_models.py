# SPDX-License-Identifier: Apache-2.0
"""Quantises models as ONNX Runtime's tools do, for dhow-bench models: quantise_models.py FOLDER...

Beside each FOLDER with model.onnx of one input and in0.npy it writes FOLDER-int8, with one scale for all of a weight as is
the tools' default, and FOLDER-int8-channels, with a scale for each result: QuantizeLinear and DequantizeLinear around everything,
images of u8, calibrated with in0.npy. Needs onnx, onnxruntime and sympy from PyPI.
"""
import os
import sys
import tempfile

import numpy
import onnx
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process


class Calibration:
    def __init__(self, name, x):
        self.feeds = iter([{name: x}, {name: numpy.float32(0.8) * x}])

    def get_next(self):
        return next(self.feeds, None)


def opset(model):
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


def prepare(source, to):
    """A file of the model that can be quantised: of opset 13 or later, which has scales by channel, with batch norms folded."""
    model = onnx.load(source)
    if opset(model) < 13:
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, to)
    try:
        quant_pre_process(to, to)
    except Exception as error:  # shapes that are not known before the run
        print("%s: as it is: %s" % (source, str(error).splitlines()[0]))
    return [i.name for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}][0]


def quantise(folder, ending, by_channel):
    to = folder + ending
    x = numpy.load(os.path.join(folder, "in0.npy"))
    os.makedirs(to, exist_ok=True)
    numpy.save(os.path.join(to, "in0.npy"), x)
    model = os.path.join(to, "model.onnx")
    name = prepare(os.path.join(folder, "model.onnx"), model)
    quantization.quantize_static(
        model, model, Calibration(name, x), quant_format=quantization.QuantFormat.QDQ, per_channel=by_channel,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folders = [os.path.abspath(folder) for folder in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as room:  # where the tools leave files of their own
        os.chdir(room)
        for folder in folders:
            quantise(folder, "-int8", False)
            quantise(folder, "-int8-channels", True)


if __name__ == "__main__":
    main()
