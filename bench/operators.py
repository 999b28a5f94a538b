# SPDX-License-Identifier: Apache-2.0
"""Single operators, of the shapes that networks have, in dhow and in ONNX Runtime in turns.

operators.py BUILD [--threads N] [--rounds N] [PATTERN...] measures those whose names match a pattern (all of them), with the two
servers of a build with DHOW_BENCH=ON, and prints the best time of each and their ratio, the slowest of dhow's first. Each is a model of
one node, so what only a network has is missing: layouts that go on from one operator to the next, and steps that become one. It wants
numpy, onnx and onnxruntime.
"""
import argparse
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

random = numpy.random.default_rng(1)
CASES = {}


def f32(*shape):
    return random.standard_normal(shape).astype(numpy.float32)


def above_0(*shape):
    return numpy.abs(f32(*shape)) + numpy.float32(0.1)


def i64(*values):
    return numpy.array(values, numpy.int64)


def indices(most, *shape):
    return random.integers(0, most, shape).astype(numpy.int64)


def bools(*shape):
    return random.random(shape) > 0.5


def case(name, operator, inputs, constants=(), outputs=1, opset=18, **attributes):
    """inputs are given at each run, constants are in the file; None is left out."""
    CASES[name] = operator, inputs, constants, outputs, opset, attributes


def pools():
    for name, shape, kernel, stride, pad in (
            ("3x3s2-64x112", (64, 112, 112), 3, 2, 1), ("2x2s2-64x112", (64, 112, 112), 2, 2, 0), ("2x2s2-256x28", (256, 28, 28), 2, 2, 0),
            ("5x5-128x20", (128, 20, 20), 5, 1, 2), ("3x3-192x28", (192, 28, 28), 3, 1, 1), ("3x3s2-512x14", (512, 14, 14), 3, 2, 1),
            ("2s2-64x4000", (64, 4000), 2, 2, 0), ("2x2x2s2-32x16x56", (32, 16, 56, 56), 2, 2, 0)):
        n, x = len(shape) - 1, f32(1, *shape)
        for operator in ("MaxPool", "AveragePool"):
            case("%s-%s" % (operator, name), operator, [x], kernel_shape=[kernel] * n, strides=[stride] * n, pads=[pad] * 2 * n)
    for c, side in ((2048, 7), (64, 56)):
        case("GlobalAveragePool-%dx%d" % (c, side), "GlobalAveragePool", [f32(1, c, side, side)])


def rows():
    for shape, axis in (((12, 197, 197), -1), ((1, 1000), -1), ((1, 21, 64, 64), 1), ((4, 8400, 16), -1)):
        case("Softmax-%s" % "x".join(map(str, shape)), "Softmax", [f32(*shape)], axis=axis)
    case("LogSoftmax-100x5000", "LogSoftmax", [f32(100, 5000)], axis=-1)
    for n, c in ((197, 768), (3136, 96)):
        case("LayerNormalization-%dx%d" % (n, c), "LayerNormalization", [f32(1, n, c)], [f32(c), f32(c)], axis=-1)
    case("GroupNormalization-32-256x32", "GroupNormalization", [f32(1, 256, 32, 32)], [f32(256), f32(256)], opset=21, num_groups=32)
    case("InstanceNormalization-64x128", "InstanceNormalization", [f32(1, 64, 128, 128)], [f32(64), f32(64)])
    case("BatchNormalization-64x56", "BatchNormalization", [f32(1, 64, 56, 56)], [f32(64), f32(64), f32(64), above_0(64)])
    case("LRN-96x27", "LRN", [f32(1, 96, 27, 27)], size=5)
    for name, shape, axes in (("hw-512x14", (1, 512, 14, 14), (2, 3)), ("last-197x768", (1, 197, 768), (2,)), ("first-197x768", (1, 197, 768), (1,))):
        case("ReduceMean-" + name, "ReduceMean", [f32(*shape)], [i64(*axes)])
    case("ReduceMax-channels-64x56", "ReduceMax", [f32(1, 64, 56, 56)], [i64(1)])
    case("ReduceL2-512x768", "ReduceL2", [f32(512, 768)], [i64(1)])
    case("ArgMax-21x128x128", "ArgMax", [f32(1, 21, 128, 128)], axis=1, keepdims=0)
    case("ArgMax-8400x80", "ArgMax", [f32(1, 8400, 80)], axis=2, keepdims=0)
    case("CumSum-64x2000", "CumSum", [f32(64, 2000)], [numpy.array(1)])
    for rows_, n, k in ((1, 8400, 100), (1, 1000, 5), (80, 8400, 300)):
        case("TopK-%d-%dx%d" % (k, rows_, n), "TopK", [f32(rows_, n)], [i64(k)], outputs=2)


def moves():
    for name, shape, order in (("nchw-nhwc-64x56", (1, 64, 56, 56), (0, 2, 3, 1)), ("nhwc-nchw-64x56", (1, 56, 56, 64), (0, 3, 1, 2)),
                               ("heads-197x12x64", (1, 197, 12, 64), (0, 2, 1, 3)), ("1000x1000", (1000, 1000), (1, 0)),
                               ("windows-8x7x8x7x96", (8, 7, 8, 7, 96), (0, 2, 1, 3, 4)), ("shuffle-2x58x28", (1, 2, 58, 28, 28), (0, 2, 1, 3, 4))):
        case("Transpose-" + name, "Transpose", [f32(*shape)], perm=order)
    case("Concat-channels-128x28", "Concat", [f32(1, 128, 28, 28), f32(1, 128, 28, 28)], axis=1)
    case("Concat-last-197x384", "Concat", [f32(1, 197, 384), f32(1, 197, 384)], axis=2)
    case("Split-3-197x2304", "Split", [f32(1, 197, 2304)], outputs=3, axis=2, num_outputs=3)
    case("Slice-every-second-3x320", "Slice", [f32(1, 3, 320, 320)], [i64(0, 0), i64(320, 320), i64(2, 3), i64(2, 2)])
    case("Pad-64x56", "Pad", [f32(1, 64, 56, 56)], [i64(0, 0, 1, 1, 0, 0, 1, 1)])
    case("Pad-reflect-64x56", "Pad", [f32(1, 64, 56, 56)], [i64(0, 0, 3, 3, 0, 0, 3, 3)], mode="reflect")
    case("Gather-last-12x197", "Gather", [f32(12, 197, 197)], [indices(197, 100)], axis=2)
    case("GatherElements-300x80", "GatherElements", [f32(8400, 80), indices(8400, 300, 80)], axis=0)
    case("GatherND-2000", "GatherND", [f32(64, 56, 56), indices(56, 2000, 2)])
    case("ScatterND-500x64", "ScatterND", [f32(1000, 64), indices(1000, 500, 1), f32(500, 64)])
    case("Expand-64x56", "Expand", [f32(1, 64, 1, 1)], [i64(1, 64, 56, 56)])
    case("Tile-64x28", "Tile", [f32(1, 64, 28, 28)], [i64(1, 1, 2, 2)])
    for mode in ("DCR", "CRD"):
        case("DepthToSpace-%s-256x64" % mode, "DepthToSpace", [f32(1, 256, 64, 64)], blocksize=2, mode=mode)
    case("SpaceToDepth-64x64", "SpaceToDepth", [f32(1, 64, 64, 64)], blocksize=2)
    twice = numpy.array([1, 1, 2, 2], numpy.float32)
    case("Resize-nearest-128x20", "Resize", [f32(1, 128, 20, 20)], [None, twice], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    case("Resize-linear-128x20", "Resize", [f32(1, 128, 20, 20)], [None, twice], mode="linear")
    case("Resize-linear-3x512-224", "Resize", [f32(1, 3, 512, 512)], [None, None, i64(1, 3, 224, 224)], mode="linear")
    case("GridSample-64x56", "GridSample", [f32(1, 64, 56, 56), 2 * random.random((1, 56, 56, 2), numpy.float32) - 1])
    case("Where-12x197x197", "Where", [bools(1, 1, 197, 197), f32(1, 12, 197, 197), f32(1, 1, 1, 1)])
    case("NonZero-64x3136", "NonZero", [bools(64, 3136)])
    for name, x, to in (("f32-f16", f32(1, 64, 112, 112), 10), ("f16-f32", f32(1, 64, 112, 112).astype(numpy.float16), 1),
                        ("i64-f32", indices(100, 200, 1000), 1), ("u8-f32", indices(255, 1, 3, 512, 512).astype(numpy.uint8), 1)):
        case("Cast-" + name, "Cast", [x], to=to)


def elements():
    for operator in ("Relu Exp Log Sqrt Erf Tanh Sigmoid Softplus HardSwish HardSigmoid Elu LeakyRelu Sin Cos Abs Neg Floor Reciprocal Mish Gelu "
                     "Atan").split():
        case(operator, operator, [above_0(1, 64, 56, 56)], opset=20)
    case("Clip", "Clip", [f32(1, 64, 56, 56)], [numpy.float32(0), numpy.float32(6)])
    for operator in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
        case(operator + "-same", operator, [above_0(1, 64, 56, 56), above_0(1, 64, 56, 56)])
        case(operator + "-channel", operator, [above_0(1, 64, 56, 56), above_0(64, 1, 1)])
        case(operator + "-number", operator, [above_0(1, 64, 56, 56)], [numpy.float32(2.5)])
        case(operator + "-row", operator, [above_0(1, 197, 768), above_0(768)])
    case("Not", "Not", [bools(64, 3136)])
    case("And", "And", [bools(64, 3136), bools(64, 3136)])
    case("Greater", "Greater", [f32(64, 3136), f32(64, 3136)])
    case("Equal-i64", "Equal", [indices(9, 64, 3136), indices(9, 64, 3136)])
    case("Add-i64", "Add", [indices(9, 64, 3136), indices(9, 64, 3136)])
    case("QuantizeLinear-u8", "QuantizeLinear", [f32(1, 64, 112, 112)], [numpy.float32(0.02), numpy.uint8(128)])
    case("DequantizeLinear-u8", "DequantizeLinear", [indices(255, 1, 64, 112, 112).astype(numpy.uint8)], [numpy.float32(0.02), numpy.uint8(128)])
    case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [f32(197, 768)], outputs=3)


def products():
    for m, k, n in ((1, 2048, 1000), (32, 512, 512), (197, 768, 768)):
        case("Gemm-%dx%dx%d" % (m, k, n), "Gemm", [f32(m, k)], [f32(n, k), f32(n)], transB=1)
    for name, a, b in (("12x197x64", (1, 12, 197, 64), (1, 12, 64, 197)), ("256", (256, 256), (256, 256)), ("64x49x32", (64, 49, 32), (64, 32, 49))):
        case("MatMul-two-" + name, "MatMul", [f32(*a), f32(*b)])
    for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, n, width, hidden in ((100, 1, 128, 128), (25, 8, 96, 48)):
            case("%s-%dx%dx%d-%d" % (operator, steps, n, width, hidden), operator, [f32(steps, n, width)],
                 [0.1 * f32(1, gates * hidden, width), 0.1 * f32(1, gates * hidden, hidden), 0.1 * f32(1, 2 * gates * hidden)], hidden_size=hidden)


def windows(name, operator, shape, weight, stride=1, dilation=1, groups=1, pads=None, **attributes):
    """The results are as large as the image, by the stride, where no pads are given; the bias has as many values as results have channels."""
    n, k = len(shape) - 1, weight[0] if operator == "Conv" else weight[1] * groups
    pads = [dilation * (extent - 1) // 2 for extent in weight[2:]] * 2 if pads is None else pads
    case("%s-%s" % (operator, name), operator, [f32(1, *shape)], [0.1 * f32(*weight), f32(k)], strides=[stride] * n, dilations=[dilation] * n,
         pads=pads, group=groups, **attributes)


def convolutions():
    for k, c, side, size, stride in ((64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (256, 256, 14, 3, 1), (512, 512, 7, 3, 1), (128, 64, 56, 3, 2),
                                     (64, 3, 224, 7, 2), (32, 3, 224, 3, 2), (16, 3, 224, 3, 2), (64, 3, 224, 11, 4), (32, 3, 128, 9, 1), (64, 1, 128, 9, 1),
                                     (3, 64, 128, 7, 1), (256, 64, 56, 1, 1), (64, 256, 56, 1, 1), (96, 16, 112, 1, 1), (21, 128, 64, 1, 1),
                                     (24, 24, 80, 3, 1), (10, 10, 80, 3, 1), (33, 17, 40, 3, 1), (33, 17, 40, 1, 1)):
        windows("%d-%dx%d-%dx%ds%d" % (k, c, side, size, size, stride), "Conv", (c, side, side), (k, c, size, size), stride)
    for c, side, size, stride, dilation in ((96, 112, 3, 1, 1), (96, 112, 3, 2, 1), (384, 14, 3, 1, 1), (240, 28, 5, 1, 1), (96, 56, 7, 1, 1), (128, 28, 13, 1, 1),
                                            (64, 56, 31, 1, 1), (256, 33, 3, 1, 4), (256, 33, 3, 1, 12)):
        windows("each-%dx%d-%dx%ds%dd%d" % (c, side, size, size, stride, dilation), "Conv", (c, side, side), (c, 1, size, size), stride, dilation, c)
    for c, side, size, dilation in ((128, 28, 3, 2), (256, 33, 3, 6), (256, 33, 3, 18)):
        windows("%d-%dx%d-3x3d%d" % (c, c, side, dilation), "Conv", (c, side, side), (c, c, 3, 3), 1, dilation)
    windows("groups-32-256x28-3x3", "Conv", (256, 28, 28), (256, 8, 3, 3), groups=32)
    windows("groups-2-116x28-3x3", "Conv", (116, 28, 28), (116, 58, 3, 3), groups=2)
    for k, c, length, size, stride, dilation in ((512, 512, 400, 3, 1, 1), (64, 64, 4000, 7, 1, 1), (256, 256, 1000, 1, 1, 1), (64, 64, 1000, 3, 1, 64),
                                                 (128, 128, 1000, 7, 1, 3), (512, 1, 8000, 10, 5, 1), (32, 1, 8000, 7, 1, 1), (384, 80, 1500, 3, 1, 1)):
        windows("%d-%dx%d-%ds%dd%d" % (k, c, length, size, stride, dilation), "Conv", (c, length), (k, c, size), stride, dilation)
    for size in (3, 9, 15, 31):
        windows("each-256x400-%d" % size, "Conv", (256, 400), (256, 1, size), groups=256)
    windows("groups-16-768x99-128", "Conv", (768, 99), (768, 48, 128), groups=16, pads=[64, 64])
    windows("32-32x16x56x56-3x3x3", "Conv", (32, 16, 56, 56), (32, 32, 3, 3, 3))
    windows("each-54x8x56x56-3x3x3", "Conv", (54, 8, 56, 56), (54, 1, 3, 3, 3), groups=54)
    for c, k, side, size, pad in ((256, 128, 28, 2, 0), (512, 256, 16, 2, 0), (64, 64, 80, 2, 0), (256, 256, 8, 4, 1), (64, 64, 32, 4, 1)):
        windows("%d-%dx%d-%dx%ds2" % (c, k, side, size, size), "ConvTranspose", (c, side, side), (c, k, size, size), 2, pads=[pad] * 4)
    windows("96-24x80-3x3s2", "ConvTranspose", (96, 80, 80), (96, 24, 3, 3), 2, pads=[1] * 4, output_padding=[1, 1])
    windows("256-128x100-16s8", "ConvTranspose", (256, 100), (256, 128, 16), 8, pads=[4, 4])


def write(folder, operator, inputs, constants, outputs, opset, attributes):
    """FOLDER/model.onnx, in0.npy and so on."""
    held = {"c%d" % i: numpy_helper.from_array(numpy.asarray(v), "c%d" % i) for i, v in enumerate(constants) if v is not None}
    names = ["x%d" % i for i in range(len(inputs))]
    arguments = names + ["c%d" % i if v is not None else "" for i, v in enumerate(constants)]
    results = ["y%d" % i for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, arguments, results, **attributes)], operator,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip(names, inputs)],
        [helper.make_empty_tensor_value_info(n) for n in results], list(held.values()))
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9))
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for i, value in enumerate(inputs):
        numpy.save(os.path.join(folder, "in%d.npy" % i), value)


class Server:
    def __init__(self, arguments, environment):
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, times):
        """Milliseconds a run."""
        try:
            self.process.stdin.write("run %d\n" % times)
            self.process.stdin.flush()
            return 1e3 * float(self.process.stdout.readline().split()[0])
        except (BrokenPipeError, IndexError):
            raise SystemExit(self.process.stderr.read().strip()) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def measure(folder, options, environment):
    library = glob.glob(os.path.join(os.path.dirname(onnxruntime.__file__), "capi", "libonnxruntime.so*"))[0]
    programs = os.path.join(options.build, "bin")
    with Server([programs + "/dhow-bench-serve", folder, "cpu", "f32"], environment) as dhow, \
            Server([programs + "/dhow-bench-onnxruntime", library, folder, str(options.threads)], environment) as other:
        first = max(dhow.run(1), other.run(1))
        times = max(1, min(200, int(100 / first)))
        rounds = []
        for _ in range(options.rounds):
            pair = []
            for side in dhow, other:
                if options.threads > 1:  # threads of the other side spin after its work, some for 30 ms
                    time.sleep(0.05)
                pair.append(side.run(times))
            rounds.append(pair)
    return min(r[0] for r in rounds), min(r[1] for r in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=os.path.abspath, help="folder of a build with DHOW_BENCH=ON")
    parser.add_argument("pattern", nargs="*", help="regular expressions of names")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_intermixed_args()
    threads = str(options.threads)
    environment = dict(os.environ, DHOW_NUM_THREADS=threads, OMP_NUM_THREADS=threads, DHOW_LOG="error",
                       DHOW_PLUGIN_PATH=os.path.join(options.build, "lib/dhow/plugins"))
    for group in (pools, rows, moves, elements, products, convolutions):
        group()
    chosen = [name for name in CASES if not options.pattern or any(re.search(p, name) for p in options.pattern)]
    if not chosen:
        sys.exit("operators: no name matches; there are " + " ".join(CASES))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            write(os.path.join(folder, name), *CASES[name])
            results[name] = measure(os.path.join(folder, name), options, environment)
    for name, (own, other) in sorted(results.items(), key=lambda r: r[1][1] / r[1][0]):
        print("%-40s dhow %9.3f ms   ONNX Runtime %9.3f ms   %6.2f" % (name, own, other, other / own))
    ratios = [other / own for own, other in results.values()]
    print("%d operators: geometric mean %.2f, lowest %.2f" % (len(ratios), statistics.geometric_mean(ratios), min(ratios)))


if __name__ == "__main__":
    main()
