# SPDX-License-Identifier: Apache-2.0
"""Writes the networks that dhow-bench measures: make_models.py FOLDER makes FOLDER/<name>/model.onnx, in0.npy, weights/*.npy.

An MLP 784-512-256-10 for batches of 1, 32 and 1024, an encoder of six layers (384 wide, 12 heads, 1536 within, a sequence of 128)
for batches of 1 and 8, both with random weights, an MLP whose file has 5 MB, and a token of a decoder of six layers (384 wide, 6 heads)
behind 64, 1024 and 2000 others, whose caches (GroupQueryAttention) are inputs and outputs. Weights have PyTorch's names and shapes; the graphs
are what PyTorch's exporter makes of such modules. Attention by itself (MultiHeadAttention) is there for three shapes,
a byte of examples/generate for its default size and a larger one, and forests of 300 trees of 31 leaves for 1, 100 and 10,000 rows; a row times weights of 4 bits, eight times over. Two networks of images, residual and separable, and the MLP and the encoder are there quantised as
well, by ONNX Runtime's tools: <name>-qdq between DequantizeLinear nodes, <name>-qlinear with QLinear... nodes, <name>-dynamic.
"""
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, WITHIN, LAYERS, SEQUENCE = 384, 12, 1536, 6, 128
random = numpy.random.default_rng(1)


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.weights = [], [], {}

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, name, *shape, scale=None, mean=0):
        scale = shape[-1] ** -0.5 if scale is None else scale
        self.weights[name] = (mean + scale * random.standard_normal(shape)).astype(numpy.float32)
        return self.weights[name]

    def node(self, operator, inputs, outputs=1, **attributes):
        names = ["v%d_%d" % (len(self.nodes), i) for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def gemm(self, name, x, inner, outer):
        w = self.constant(name + ".weight", self.weight(name + ".weight", outer, inner))
        b = self.constant(name + ".bias", self.weight(name + ".bias", outer, scale=0.02))
        return self.node("Gemm", [x, w, b], transB=1)

    def linear(self, name, x, inner, outer, weight="weight", bias="bias"):
        """On three dimensions: a product with the transposed weight, then the bias."""
        w = self.weight("%s.%s" % (name, weight) if weight == "weight" else name + "." + weight, outer, inner)
        w = self.constant(name + "." + weight, numpy.ascontiguousarray(w.T))
        b = self.constant(name + "." + bias, self.weight(name + "." + bias, outer, scale=0.02))
        return self.node("Add", [b, self.node("MatMul", [x, w])])

    def norm(self, name, x, width=WIDTH):
        g = self.constant(name + ".weight", self.weight(name + ".weight", width, scale=0.02, mean=1))
        b = self.constant(name + ".bias", self.weight(name + ".bias", width, scale=0.02))
        return self.node("LayerNormalization", [x, g, b], axis=-1, epsilon=1e-5)

    def save(self, folder, output, x, shape):
        os.makedirs(folder, exist_ok=True)
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        graph = helper.make_graph(self.nodes, "bench", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        numpy.save(os.path.join(folder, "in0.npy"), x)
        self.save_weights(folder)

    def save_weights(self, folder):
        os.makedirs(os.path.join(folder, "weights"), exist_ok=True)
        for name, value in self.weights.items():
            numpy.save(os.path.join(folder, "weights", name + ".npy"), value)


def mlp(folder, batch, widths):
    g, value = Graph(), "x"
    for i in range(len(widths) - 1):
        value = g.gemm(str(2 * i), value, widths[i], widths[i + 1])
        if i + 2 < len(widths):
            value = g.node("Relu", [value])
    g.save(folder, value, random.standard_normal((batch, widths[0])).astype(numpy.float32), (batch, widths[-1]))


def attention(g, name, x, batch):
    depth = WIDTH // HEADS
    qkv = g.linear(name, x, WIDTH, 3 * WIDTH, "in_proj_weight", "in_proj_bias")
    parts = g.node("Split", [qkv, g.constant(name + ".parts", numpy.array([WIDTH] * 3, numpy.int64))], 3, axis=2)
    shape = g.constant(name + ".heads", numpy.array([batch, SEQUENCE, HEADS, depth], numpy.int64))
    q, k, v = (g.node("Reshape", [part, shape]) for part in parts)
    q, v = (g.node("Transpose", [part], perm=[0, 2, 1, 3]) for part in (q, v))
    k = g.node("Transpose", [k], perm=[0, 2, 3, 1])
    scores = g.node("MatMul", [q, k])
    scores = g.node("Mul", [scores, g.constant(name + ".scale", numpy.array(depth ** -0.5, numpy.float32))])
    mixed = g.node("MatMul", [g.node("Softmax", [scores], axis=-1), v])
    mixed = g.node("Transpose", [mixed], perm=[0, 2, 1, 3])
    joined = g.node("Reshape", [mixed, g.constant(name + ".joined", numpy.array([batch, SEQUENCE, WIDTH], numpy.int64))])
    return g.linear(name + ".out_proj", joined, WIDTH, WIDTH)


def gelu(g, name, x):
    """x/2 (1 + erf(x / sqrt 2)), node by node."""
    inner = g.node("Erf", [g.node("Div", [x, g.constant(name + ".root", numpy.array(2 ** 0.5, numpy.float32))])])
    inner = g.node("Add", [inner, g.constant(name + ".one", numpy.array(1, numpy.float32))])
    return g.node("Mul", [g.node("Mul", [x, inner]), g.constant(name + ".half", numpy.array(0.5, numpy.float32))])


def encoder(folder, batch):
    g, value = Graph(), "x"
    for i in range(LAYERS):
        name = "layers.%d" % i
        value = g.norm(name + ".norm1", g.node("Add", [value, attention(g, name + ".self_attn", value, batch)]))
        within = gelu(g, name + ".gelu", g.linear(name + ".linear1", value, WIDTH, WITHIN))
        value = g.norm(name + ".norm2", g.node("Add", [value, g.linear(name + ".linear2", within, WITHIN, WIDTH)]))
    shape = (batch, SEQUENCE, WIDTH)
    g.save(folder, value, random.standard_normal(shape).astype(numpy.float32), shape)


def convolution(g, x, inner, outer, kernel=1, stride=1, groups=1, active=True):
    name = "conv%d" % len(g.nodes)
    w = g.constant(name + ".weight", g.weight(name + ".weight", outer, inner // groups, kernel, kernel,
                                              scale=(1.7 / (inner // groups * kernel * kernel)) ** 0.5))
    b = g.constant(name + ".bias", g.weight(name + ".bias", outer, scale=0.05))
    y = g.node("Conv", [x, w, b], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
    return g.node("Relu", [y]) if active else y


def images(folder, separable):
    """Blocks of three convolutions around a narrow or a wide middle, of each channel by itself where `separable`, and what goes past them."""
    g, channels = Graph(), 32
    value = convolution(g, "x", 3, channels, 3, 2)
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(3):
            stride = 2 if block == 0 else 1
            middle = 2 * channels if separable else width // 2
            inner = convolution(g, value, channels, middle)
            inner = convolution(g, inner, middle, middle, 3, stride, middle if separable else 1)
            inner = convolution(g, inner, middle, width, active=False)
            past = convolution(g, value, channels, width, 1, stride, active=False) if block == 0 else value
            value, channels = g.node("Relu", [g.node("Add", [inner, past])]), width
    value = g.node("Flatten", [g.node("GlobalAveragePool", [value])])
    g.save(folder, g.gemm("classes", value, channels, 1000), random.standard_normal((1, 3, 224, 224)).astype(numpy.float32), (1, 1000))


class Calibration:
    def __init__(self, x):
        self.feeds = iter([{"x": x}, {"x": numpy.float32(0.8) * x}])

    def get_next(self):
        return next(self.feeds, None)


def quantise(root, name, form):
    from onnxruntime import quantization as q

    folder, source = os.path.join(root, "%s-%s" % (name, form)), os.path.join(root, name)
    x = numpy.load(os.path.join(source, "in0.npy"))
    os.makedirs(folder, exist_ok=True)
    numpy.save(os.path.join(folder, "in0.npy"), x)
    files = [os.path.join(of, "model.onnx") for of in (source, folder)]
    if form == "dynamic":
        return q.quantize_dynamic(*files, per_channel=True, weight_type=q.QuantType.QInt8)
    form = q.QuantFormat.QDQ if form == "qdq" else q.QuantFormat.QOperator
    q.quantize_static(*files, Calibration(x), quant_format=form, per_channel=True, activation_type=q.QuantType.QUInt8,
                      weight_type=q.QuantType.QInt8)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)


def cached_blocks(g, hidden, layers, width, heads, room):
    """Blocks of a decoder's token; "present..." of an output and "past..." of an input are one tensor where the program that runs it says so."""
    inputs, outputs, depth = [], [], width // heads
    for i in range(layers):
        name = "layers.%d" % i
        normed, caches = g.norm(name + ".norm1", hidden, width), ["%s.%d" % (what, i) for what in ("key", "value")]
        for cache in caches:
            inputs.append(("past_" + cache, random.standard_normal((1, heads, room, depth)).astype(numpy.float32)))
            outputs.append(value("present_" + cache, numpy.float32, (1, heads, room, depth)))
        q, k, v = (g.linear("%s.%s" % (name, part), normed, width, width) for part in ("query", "key", "value"))
        g.nodes.append(helper.make_node("GroupQueryAttention", [q, k, v] + ["past_" + c for c in caches] + ["seqlens_k", "total"],
                                        [name + ".seen"] + ["present_" + c for c in caches], domain="com.microsoft", num_heads=heads,
                                        kv_num_heads=heads))
        hidden = g.node("Add", [hidden, g.linear(name + ".out", name + ".seen", width, width)])
        within = gelu(g, name + ".gelu", g.linear(name + ".up", g.norm(name + ".norm2", hidden, width), width, 4 * width))
        hidden = g.node("Add", [hidden, g.linear(name + ".down", within, 4 * width, width)])
    return hidden, inputs, outputs


def save_microsoft(folder, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "bench", [value(name, x.dtype, x.shape) for name, x in inputs], outputs, list(constants))
    os.makedirs(folder, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1),
                                                      helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8),
              os.path.join(folder, "model.onnx"))
    for i, (_, x) in enumerate(inputs):
        numpy.save(os.path.join(folder, "in%d.npy" % i), x)


def numbers_behind(before):
    return [("seqlens_k", numpy.array([before], numpy.int32)), ("total", numpy.array([before + 1], numpy.int32))]


def decoder(folder, before):
    g = Graph()
    x = ("x", random.standard_normal((1, 1, WIDTH)).astype(numpy.float32))
    hidden, caches, outputs = cached_blocks(g, "x", LAYERS, WIDTH, 6, 2048)
    g.nodes.append(helper.make_node("Identity", [hidden], ["y"]))
    save_microsoft(folder, g.nodes, [x] + numbers_behind(before) + caches, [value("y", numpy.float32, (1, 1, WIDTH))] + outputs, g.constants)


def generator(folder, before, layers, width, context):
    """A byte read by the network of examples/generate, its names kept, behind others; logits of the byte that follows."""
    g = Graph()
    inputs = [("token", numpy.array([[101]], numpy.int64)), ("place", numpy.array([[before]], numpy.int64))]
    rows = [g.constant(name + ".weight", g.weight(name + ".weight", count, width, scale=1)) for name, count in
            (("token", 256), ("position", context))]
    hidden = g.node("Add", [g.node("Gather", [rows[i], inputs[i][0]]) for i in range(2)])
    hidden, caches, outputs = cached_blocks(g, hidden, layers, width, width // 32, context)
    logits = g.linear("head", g.norm("norm", hidden, width), width, 256)
    g.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    save_microsoft(folder, g.nodes, inputs + numbers_behind(before) + caches, [value("logits", numpy.float32, (1, 1, 256))] + outputs, g.constants)
    g.save_weights(folder)


def heads_alone(folder, batch, sequence, heads, depth, causal):
    shape = (batch, sequence, heads * depth)
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=heads, unidirectional=causal)
    inputs = [(name, random.standard_normal(shape).astype(numpy.float32)) for name in "qkv"]
    save_microsoft(folder, [node], inputs, [value("y", numpy.float32, shape)])


def products_of_4_bits(folder, count, width, accuracy):
    """One row through products with weights of 4 bits in blocks of 32, which together are more than caches hold. Scales are numbers
    of f16, which is what ggml keeps; they are such that no product makes its row larger or smaller. An accuracy of 4 allows bytes
    in place of the row, as ggml makes them."""
    x = ("x", random.standard_normal((1, width)).astype(numpy.float32))
    nodes, constants, weights = [], [], os.path.join(folder, "weights")
    os.makedirs(weights, exist_ok=True)
    for i in range(count):
        pairs = random.integers(1, 16, (2, width, width // 32, 16), dtype=numpy.uint8)  # 8, the zero, is their mean
        codes = pairs[0] | pairs[1] << 4
        scales = (random.uniform(0.8, 1.2, width * width // 32) / (4.32 * width ** 0.5)).astype(numpy.float16).astype(numpy.float32)
        numpy.save(os.path.join(weights, "codes%d.npy" % i), codes)
        numpy.save(os.path.join(weights, "scales%d.npy" % i), scales)
        constants += [numpy_helper.from_array(codes, "codes%d" % i), numpy_helper.from_array(scales, "scales%d" % i)]
        nodes.append(helper.make_node("MatMulNBits", ["y%d" % (i - 1) if i else "x", "codes%d" % i, "scales%d" % i], ["y%d" % i],
                                      domain="com.microsoft", K=width, N=width, bits=4, block_size=32, accuracy_level=accuracy))
    save_microsoft(folder, nodes, [x], [value("y%d" % (count - 1), numpy.float32, (1, width))], constants)


def forest(folder, rows, trees=300, leaves=31, features=30):
    """Trees grown as boosting by leaves grows them: any leaf may be split next, so some are much deeper than others. A regressor's sum."""
    dice = numpy.random.default_rng(2)  # of their own: one forest for all numbers of rows
    ids, columns, values, children, weights = [], [], [], [], []
    for tree in range(trees):
        ends, count = [0], 1
        asks = {}
        while len(ends) < leaves:
            asks[ends.pop(dice.integers(len(ends)))] = count, count + 1
            ends += [count, count + 1]
            count += 2
        for i in range(count):
            ids.append((tree, i))
            columns.append(int(dice.integers(features)) if i in asks else 0)
            values.append(float(0.8 * dice.standard_normal()) if i in asks else 0.0)
            children.append(asks.get(i, (0, 0)))
            if i not in asks:
                weights.append((tree, i, float(dice.standard_normal())))
    modes = ["BRANCH_LEQ" if yes else "LEAF" for yes, _ in children]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_modes=modes, nodes_values=values, nodes_featureids=columns,
        nodes_treeids=[t for t, _ in ids], nodes_nodeids=[i for _, i in ids], nodes_truenodeids=[y for y, _ in children],
        nodes_falsenodeids=[n for _, n in children], target_treeids=[t for t, _, _ in weights], target_nodeids=[i for _, i, _ in weights],
        target_ids=[0] * len(weights), target_weights=[w for _, _, w in weights])
    x = ("x", dice.standard_normal((rows, features)).astype(numpy.float32))
    save_microsoft(folder, [node], [x], [value("y", numpy.float32, (rows, 1))])


def main():
    root = sys.argv[1]
    for batch in (1, 32, 1024):
        mlp(os.path.join(root, "mlp-%d" % batch), batch, (784, 512, 256, 10))
    for batch in (1, 8):
        encoder(os.path.join(root, "encoder-%d" % batch), batch)
    mlp(os.path.join(root, "mlp-5mb"), 1, (784, 1000, 500, 10))
    images(os.path.join(root, "residual"), False)
    images(os.path.join(root, "separable"), True)
    for name in ("residual", "separable"):
        quantise(root, name, "qdq")
        quantise(root, name, "qlinear")
    for name in ("mlp-1024", "encoder-1"):
        quantise(root, name, "qlinear")
        quantise(root, name, "dynamic")
    for before in (64, 1024, 2000):
        decoder(os.path.join(root, "decoder-%d" % before), before)
    generator(os.path.join(root, "generate-3x128"), 32, 3, 128, 64)
    generator(os.path.join(root, "generate-6x384"), 256, 6, 384, 512)
    heads_alone(os.path.join(root, "attention-8x512x12x64"), 8, 512, 12, 64, 0)
    heads_alone(os.path.join(root, "attention-1x128x12x64"), 1, 128, 12, 64, 0)
    heads_alone(os.path.join(root, "causal-1x2048x8x128"), 1, 2048, 8, 128, 1)
    products_of_4_bits(os.path.join(root, "products-4-bits"), 8, 4096, 0)
    products_of_4_bits(os.path.join(root, "products-4-bits-bytes"), 8, 4096, 4)
    for rows in (1, 100, 10000):
        forest(os.path.join(root, "forest-%d" % rows), rows)


main()
