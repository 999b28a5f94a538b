# SPDX-License-Identifier: Apache-2.0
"""ncnn as one of the processes that dhow-bench compares, see serve.h: serve_ncnn.py FOLDER THREADS

Needs the packages ncnn, pnnx (which converts, with the shapes of the inputs) and onnx. Computes in f32.
"""
import os
import subprocess
import sys

import serve  # before ncnn, which may write when it is loaded

import ncnn
import numpy
import onnx

folder, threads = sys.argv[1], int(sys.argv[2])
arrays = serve.inputs_of(folder)
names = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8", "float16": "f16"}


def convert(source, path):
    """pnnx takes each input of the graph for one of the model: constants may be inputs in old files."""
    model = onnx.load(source)
    constants = {c.name for c in model.graph.initializer}
    kept = [given for given in model.graph.input if given.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    onnx.save(model, path + ".onnx")
    shapes = ",".join("[%s]%s" % (",".join(map(str, array.shape)), names[str(array.dtype)]) for array in arrays)
    program = os.path.join(os.path.dirname(sys.executable), "pnnx")
    subprocess.run([program, path + ".onnx", "inputshape=" + shapes, "fp16=0"], check=False, cwd=os.path.dirname(path))


path = serve.converted(folder, ".ncnn.param", ncnn.__version__, convert)
network = ncnn.Net()
network.opt.num_threads = threads
for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "int8_inference"):
    if hasattr(network.opt, "use_" + option):
        setattr(network.opt, "use_" + option, False)
if network.load_param(path + ".ncnn.param") != 0 or network.load_model(path + ".ncnn.bin") != 0:
    sys.exit("bench: ncnn cannot load %s" % folder)
# Batches of one have no dimension of their own there.
given = [ncnn.Mat(array[0] if array.ndim > 1 and array.shape[0] == 1 else array).clone() for array in arrays]
results = []


def run():
    with network.create_extractor() as work:
        for name, array in zip(network.input_names(), given):
            if work.input(name, array) != 0:
                sys.exit("bench: ncnn does not take input %s" % name)
        results.clear()
        for name in network.output_names():
            status, result = work.extract(name)
            if status != 0:
                sys.exit("bench: ncnn does not compute %s" % name)
            results.append(result)


def outputs():
    return [numpy.array(result) for result in results]


run()
serve.serve(run, outputs, ncnn.__version__)
