# SPDX-License-Identifier: Apache-2.0
"""MNN as one of the processes that dhow-bench compares, see serve.h: serve_mnn.py FOLDER THREADS

Needs the packages MNN and onnx. Computes in f32. The converter is called by its function: the command mnnconvert tells MNN's makers
what it converts.
"""
import os
import sys

import serve  # before MNN, which writes when it is loaded

import MNN
import MNN.expr
import _tools
import onnx

folder, threads = sys.argv[1], int(sys.argv[2])
model = os.path.join(folder, "model.onnx")


def convert(source, path):
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", path + ".mnn", "--bizCode", "bench"])


types = {"float32": MNN.expr.float, "float64": MNN.expr.double, "int32": MNN.expr.int, "int64": MNN.expr.int64, "uint8": MNN.expr.uint8}
graph = onnx.load(model, load_external_data=False).graph
constants = {c.name for c in graph.initializer}
names = [given.name for given in graph.input if given.name not in constants]
path = serve.converted(folder, ".mnn", MNN.version(), convert) + ".mnn"
manager = MNN.nn.create_runtime_manager(({"backend": "CPU", "numThread": threads, "precision": "high"},))
network = MNN.nn.load_module_from_file(path, names, [out.name for out in graph.output], runtime_manager=manager)
inputs = []
for array in serve.inputs_of(folder):
    if str(array.dtype) == "int64":
        array = array.astype("int32")  # which MNN computes with in its place
    inputs.append(MNN.expr.placeholder(list(array.shape), MNN.expr.NCHW, types[str(array.dtype)]))
    inputs[-1].write(array)
results = []


def run():
    results[:] = network.onForward(inputs)
    for result in results:
        _ = result.ptr  # computes it


def outputs():
    return [array for array in (result.read() for result in results) if array.dtype == "float32"]


run()
serve.serve(run, outputs, MNN.version())
