# SPDX-License-Identifier: Apache-2.0
"""Writes microsoft.tar.gz beside this file: nodes of the domain com.microsoft, with what ONNX Runtime makes of them, and
some of ONNX's own of which its data say little.

microsoft.py [FOLDER]: with a folder, the tests are written there as well. It needs onnx, onnxruntime and a processor with VNNI:
without, ONNX Runtime's sums of products of u8 and s8 saturate at 16 bits. A test is a folder as ONNX's own:
model.onnx, test_data_set_0/input_0.pb, output_0.pb. Outputs that ONNX Runtime does not compute are not asked for.
"""
import gzip
import io
import pathlib
import sys
import tarfile
from typing import Any, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Attributes = Mapping[str, Any]
DOMAIN = "com.microsoft"


class Suite:
    """Files of tests by their paths. `domain` is what nodes are of, if they do not say."""

    def __init__(self, domain: str = DOMAIN, version: int = 1) -> None:
        self.domain, self.version = domain, version
        self.files: dict[str, bytes] = {}
        self.dice = np.random.RandomState(1)

    def numbers(self, *shape: int, dtype: Any = np.float32) -> Array:
        """Multiples of 1/8 between -1 and 1."""
        return (self.dice.randint(-8, 9, size=shape) / 8).astype(dtype)

    def add(self, name: str, op: str, inputs: Sequence[Array | None], outputs: int = 1, keep: Sequence[int] | None = None,
            domain: str | None = None, opset: int = 17, version: int | None = None, fixed: Sequence[int] = (), **attributes: Any) -> None:
        """`keep` names the outputs that are asked for, where they are not the first ones, `fixed` the inputs that are constants."""
        kept = list(range(outputs)) if keep is None else list(keep)
        names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
        given = [(n, x) for i, (n, x) in enumerate(zip(names, inputs)) if x is not None and i not in fixed]
        constants = [numpy_helper.from_array(x, n) for i, (n, x) in enumerate(zip(names, inputs)) if x is not None and i in fixed]
        results = [f"o{i}" if i in kept else "" for i in range(max(kept) + 1)]
        given_opset = {"opset": attributes.pop("opset_")} if "opset_" in attributes else {}
        node = helper.make_node(op, names, results, domain=self.domain if domain is None else domain, **attributes, **given_opset)
        self.add_graph(name, [node], given, [f"o{i}" for i in kept], constants, opset, version)

    def add_graph(self, name: str, nodes: Sequence[onnx.NodeProto], given: Sequence[tuple[str, Array]], asked: Sequence[str],
                  constants: Sequence[onnx.TensorProto] = (), opset: int = 17, version: int | None = None,
                  functions: Sequence[onnx.FunctionProto] = ()) -> None:
        """`given` are inputs by their names, `asked` names outputs."""
        told = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given]

        def model(shapes: Mapping[str, Array]) -> bytes:
            after = [helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(shapes[o].dtype), None)
                     if o in shapes else onnx.ValueInfoProto(name=o) for o in asked]
            graph = helper.make_graph(nodes, name, told, after, constants)
            opsets = [helper.make_opsetid("", opset), helper.make_opsetid(self.domain, version or self.version)]
            if functions:
                opsets.append(helper.make_opsetid("local", 1))
            return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions).SerializeToString())

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model({}), options, providers=["CPUExecutionProvider"])
        made = session.run(asked, dict(given))
        wanted = {o: np.asarray(x) for o, x in zip(asked, made)}
        folder = f"test_{name}"
        self.files[f"{folder}/model.onnx"] = model(wanted)
        for kind, arrays in (("input", [x for _, x in given]), ("output", list(wanted.values()))):
            for i, x in enumerate(arrays):
                tensor = numpy_helper.from_array(np.asarray(x, order="C"))
                self.files[f"{folder}/test_data_set_0/{kind}_{i}.pb"] = tensor.SerializeToString()


def products(s: Suite) -> None:
    a, b = s.numbers(2, 3, 4), s.numbers(2, 4, 5)
    s.add("fused_matmul", "FusedMatMul", [a, b])
    s.add("fused_matmul_alpha", "FusedMatMul", [a, b], alpha=0.25)
    s.add("fused_matmul_trans_a", "FusedMatMul", [s.numbers(2, 4, 3), b], transA=1)
    s.add("fused_matmul_trans_b", "FusedMatMul", [a, s.numbers(5, 4)], transB=1, alpha=2.0)
    s.add("fused_matmul_batch_a", "FusedMatMul", [s.numbers(3, 2, 4), b], transBatchA=1)
    s.add("fused_matmul_batch_a_trans_a", "FusedMatMul", [s.numbers(4, 2, 3), b], transBatchA=1, transA=1)
    s.add("fused_matmul_batch_b", "FusedMatMul", [a, s.numbers(4, 2, 5)], transBatchB=1)
    s.add("fused_matmul_batch_both", "FusedMatMul", [s.numbers(3, 2, 2, 4), s.numbers(5, 2, 2, 4)], transBatchA=1, transBatchB=1, transB=1)


def activations(s: Suite) -> None:
    x, bias = s.numbers(2, 3, 8) * 4, s.numbers(8)
    s.add("gelu", "Gelu", [x])
    s.add("bias_gelu", "BiasGelu", [x, bias])
    s.add("fast_gelu", "FastGelu", [x])
    s.add("fast_gelu_bias", "FastGelu", [x, bias])
    s.add("quick_gelu", "QuickGelu", [x])
    s.add("quick_gelu_alpha", "QuickGelu", [x], alpha=0.5)


def norms(s: Suite) -> None:
    x, y, gamma, beta, bias = s.numbers(2, 3, 8), s.numbers(2, 3, 8), s.numbers(8), s.numbers(8), s.numbers(8)
    s.add("skip_norm", "SkipLayerNormalization", [x, y, gamma, beta, bias], keep=[0, 3], epsilon=0.01)
    s.add("skip_norm_plain", "SkipLayerNormalization", [x, y, gamma])
    s.add("skip_norm_bias", "SkipLayerNormalization", [x, y, gamma, None, bias], keep=[0, 3])
    s.add("skip_norm_broadcast", "SkipLayerNormalization", [x, s.numbers(1, 3, 8), gamma, beta], epsilon=0.01)
    s.add("skip_norm_broadcast_2d", "SkipLayerNormalization", [x, s.numbers(3, 8), gamma, beta], epsilon=0.01)
    s.add("skip_norm_2d", "SkipLayerNormalization", [x[0], y[0], gamma, beta], epsilon=0.01)
    s.add("skip_rms", "SkipSimplifiedLayerNormalization", [x, y, gamma, bias], keep=[0, 3], epsilon=0.01)
    s.add("skip_rms_plain", "SkipSimplifiedLayerNormalization", [x, y, gamma])
    s.add("rms", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=0.01)
    s.add("rms_axis", "SimplifiedLayerNormalization", [x, s.numbers(3, 8)], domain="", axis=-2)
    ids = np.array([[1, 5, 0], [2, 2, 6]], np.int32)
    segments, mask = np.array([[0, 1, 1], [1, 0, 0]], np.int32), np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    words, places, parts = s.numbers(7, 8), s.numbers(4, 8), s.numbers(2, 8)
    s.add("embed", "EmbedLayerNormalization", [ids, segments, words, places, parts, gamma, beta, mask], 3, epsilon=0.01)
    s.add("embed_plain", "EmbedLayerNormalization", [ids, None, words, places, None, gamma, beta], 2)
    s.add("embed_places", "EmbedLayerNormalization", [ids, segments, words, places, parts, gamma, beta, None, np.array([[3, 0, 1], [2, 2, 0]], np.int32)], 2)
    s.add("embed_places_one", "EmbedLayerNormalization", [ids, segments, words, places, parts, gamma, beta, mask, np.array([[3, 0, 1]], np.int32)], 3)


def masks_of(batch: int, steps: int, keys: int) -> dict[str, Array]:
    """Forms of a mask that hides some keys of the second sequence."""
    flags = np.ones((batch, keys), np.int32)
    flags[-1, keys - 2:] = 0
    square = np.ones((batch, steps, keys), np.int32)
    square[0, 0, 1] = square[-1, -1, 0] = 0
    square[-1, 0, :] = 0
    return {"ends": np.array([keys] * (batch - 1) + [keys - 2], np.int32), "flags": flags, "square": square}


def rotary(s: Suite) -> None:
    angles = np.arange(6)[:, None] * np.array([[1.0, 0.5]])
    cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    places, first = np.array([[3, 0, 1], [2, 2, 5]], np.int64), np.array([2], np.int64)
    x, apart = s.numbers(2, 3, 8), s.numbers(2, 2, 3, 4)
    s.add("rotary", "RotaryEmbedding", [x, places, cosine, sine])
    s.add("rotary_from", "RotaryEmbedding", [x, first, cosine, sine], num_heads=2)
    s.add("rotary_interleaved", "RotaryEmbedding", [apart, places, cosine, sine], interleaved=1)
    s.add("rotary_apart", "RotaryEmbedding", [apart, first, cosine, sine])
    s.add("rotary_part", "RotaryEmbedding", [s.numbers(2, 3, 12), places, cosine, sine], num_heads=2, rotary_embedding_dim=4)


def multi_head(s: Suite) -> None:
    b, l, k, h, e, f = 2, 3, 4, 2, 4, 3
    q, key, value = s.numbers(b, l, h * e), s.numbers(b, k, h * e), s.numbers(b, k, h * f)
    bias = s.numbers(h * (2 * e + f))
    add: Any = lambda name, inputs, outputs=1, **kw: s.add(f"mha_{name}", "MultiHeadAttention", inputs, outputs, num_heads=h, **kw)
    add("plain", [q, key, value])
    add("bias", [q, key, value, bias], scale=0.25)
    for name, mask in masks_of(b, l, k).items():
        add(f"mask_{name}", [q, key, value, None, mask])
        add(f"mask_{name}_filter", [q, key, value, bias, mask], mask_filter_value=-2.0)
    add("score_bias", [q, key, value, None, None, s.numbers(b, h, l, k)])
    add("score_bias_one", [q, key, value, None, masks_of(b, l, k)["flags"], s.numbers(1, 1, l, k)])
    add("apart", [q, s.numbers(b, h, k, e), s.numbers(b, h, k, e)])
    past_k, past_v = s.numbers(b, h, 2, e), s.numbers(b, h, 2, e)
    add("past", [q, s.numbers(b, l, h * e), s.numbers(b, l, h * e), None, None, None, past_k, past_v], 3)
    add("past_causal", [q, s.numbers(b, l, h * e), s.numbers(b, l, h * e), s.numbers(3 * h * e), None, None, past_k, past_v], 3, unidirectional=1)
    add("causal", [q, s.numbers(b, l, h * e), s.numbers(b, l, h * f)], unidirectional=1)
    add("causal_mask", [q, s.numbers(b, l, h * e), s.numbers(b, l, h * f), None, np.array([[0, 1, 1], [1, 1, 0]], np.int32)], unidirectional=1)


def group_query(s: Suite) -> None:
    """Both sequences are as long, or the second one is shorter in a cache with room."""
    h, g, e = 4, 2, 16
    angles = np.arange(10)[:, None] * 0.5 ** np.arange(8)[None, :]
    cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def add(name: str, steps: int, before: int, cache: int | None, lengths: Sequence[int], packed: bool = False, rotary: bool = False,
            bias: bool = False, **attributes: Any) -> None:
        b = len(lengths)
        q, k, v = s.numbers(b, steps, h * e), s.numbers(b, steps, g * e), s.numbers(b, steps, g * e)
        total = steps + before
        past: list[Array | None] = [None, None] if cache is None else [s.numbers(b, g, cache, e), s.numbers(b, g, cache, e)]
        for x in past:
            for i in range(b):  # what a cache holds behind a sequence, ONNX Runtime makes zeros
                if x is not None:
                    x[i, :, lengths[i] - steps:] = 0
        inputs: list[Array | None] = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
        inputs += past + [np.array(lengths, np.int32) - 1, np.array(total, np.int32)]
        inputs += [cosine, sine] if rotary else [None, None]
        inputs += [None, s.numbers(b, 1, steps, total)] if bias else []
        while inputs[-1] is None:
            inputs.pop()
        s.add(f"gqa_{name}", "GroupQueryAttention", inputs, keep=[0, 1, 2], num_heads=h, kv_num_heads=g, do_rotary=int(rotary), **attributes)

    add("first", 3, 0, None, [3, 3])
    add("first_packed", 3, 0, None, [3, 3], packed=True, scale=0.25)
    add("first_rotary", 3, 0, None, [3, 3], rotary=True)
    add("first_window", 5, 0, None, [5, 5], local_window_size=2)
    add("first_cap", 3, 0, None, [3, 3], softcap=2.0)
    add("first_bias", 3, 0, None, [3, 3], bias=True, softcap=2.0)
    add("next", 1, 3, 3, [4, 4])
    add("next_rotary", 1, 3, 3, [4, 4], rotary=True, packed=True)
    add("next_interleaved", 1, 3, 3, [4, 4], rotary=True, rotary_interleaved=1)
    add("next_window", 1, 5, 5, [6, 6], local_window_size=3)
    add("next_shorter", 1, 4, 4, [5, 3], rotary=True)
    add("next_room", 1, 4, 7, [5, 3], rotary=True)
    add("first_room", 3, 0, 6, [3, 3], rotary=True)
    add("next_bias", 1, 3, 3, [4, 4], bias=True)
    add("several", 3, 3, 3, [6], rotary=True)


def attention(s: Suite) -> None:
    b, l, d, h, e = 2, 3, 6, 2, 4
    x, w, bias = s.numbers(b, l, d), s.numbers(d, 3 * h * e), s.numbers(3 * h * e)
    add: Any = lambda name, inputs, outputs=1, **kw: s.add(f"attention_{name}", "Attention", inputs, outputs, num_heads=h, **kw)
    add("plain", [x, w, bias])
    add("no_bias", [x, w], scale=0.5)
    add("causal", [x, w, bias], unidirectional=1)
    for name, mask in masks_of(b, l, l).items():
        add(f"mask_{name}", [x, w, bias, mask])
        add(f"mask_{name}_causal", [x, w, bias, mask], unidirectional=1, mask_filter_value=-50.0)
    add("mask_ends_begins", [x, w, bias, np.array([3, 2, 1, 0], np.int32)])
    add("sizes", [x, s.numbers(d, h * (2 * e + 3)), s.numbers(h * (2 * e + 3))], qkv_hidden_sizes=[h * e, h * e, h * 3])
    add("score_bias", [x, w, bias, None, None, s.numbers(b, h, l, l)])
    past = s.numbers(2, b, h, 2, e)
    add("past", [x, w, bias, None, past], 2)
    add("past_causal", [x, w, bias, None, past], 2, unidirectional=1)
    add("past_mask", [x, w, bias, masks_of(b, l, l + 2)["flags"], past], 2)


def pairs_of(codes: Array, bits: int) -> Array:
    """Codes of 4 bits in pairs, the first one low."""
    if bits == 8:
        return codes
    codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], codes.shape[-1] % 2), np.uint8)], -1)
    return np.asarray(codes[..., ::2] | codes[..., 1::2] << 4, np.uint8)


def nbits(s: Suite) -> None:
    """Weights of 4 and 8 bits: K that fill their blocks or not, blocks shorter and longer than vectors, few rows and many."""
    def add(name: str, shape: Sequence[int], n: int, block: int, bits: int = 4, zeros: str = "", bias: bool = False,
            dtype: Any = np.float32, groups: bool = False) -> None:
        k = shape[-1]
        blocks = (k + block - 1) // block
        codes = s.dice.randint(0, 1 << bits, size=(n, blocks * block)).astype(np.uint8)
        weight = pairs_of(codes, bits).reshape(n, blocks, block * bits // 8)
        scales = (s.dice.randint(1, 9, size=(n * blocks)) / 64).astype(dtype)
        points: Array | None = None
        if zeros == "packed":
            points = pairs_of(s.dice.randint(0, 1 << bits, size=(n, blocks)).astype(np.uint8), bits).reshape(-1)
        elif zeros == "plain":
            points = (s.dice.randint(0, 1 << bits, size=(n * blocks)) / 2).astype(dtype)
        group = (np.arange(k) // block).astype(np.int32) if groups else None
        inputs: list[Array | None] = [s.numbers(*shape, dtype=dtype), weight, scales, points, group, s.numbers(n, dtype=dtype) if bias else None]
        while inputs[-1] is None:
            inputs.pop()
        s.add(f"matmul_nbits_{name}", "MatMulNBits", inputs, fixed=(1, 2, 3, 4) if groups else (1, 2, 3), K=k, N=n, bits=bits, block_size=block,
              accuracy_level=1 if dtype == np.float32 else 0)

    add("plain", (1, 64), 24, 32)
    add("rows", (2, 3, 128), 10, 32, zeros="packed")
    add("rest", (2, 80), 9, 32, zeros="packed", bias=True)
    add("short", (1, 100), 17, 16, zeros="packed")
    add("long", (3, 384), 8, 256, bias=True)
    add("long_rest", (5, 300), 7, 128, zeros="packed")
    add("many_rows", (2, 20, 96), 33, 32, zeros="packed", bias=True)
    add("wide", (1, 2112), 10, 64, zeros="packed")
    add("deep", (4, 2112), 5, 64, bias=True)
    add("half", (2, 64), 12, 32, dtype=np.float16)
    add("half_zeros", (1, 160), 12, 64, zeros="packed", bias=True, dtype=np.float16)
    add("half_many_rows", (24, 64), 12, 32, zeros="packed", dtype=np.float16)
    add("zeros", (2, 96), 11, 32, zeros="plain")
    add("8bits", (1, 64), 24, 32, bits=8)
    add("8bits_rows", (6, 200), 9, 64, bits=8, zeros="packed", bias=True)
    add("8bits_short", (4, 48), 9, 16, bits=8, zeros="packed")
    add("8bits_many_rows", (40, 128), 9, 128, bits=8, zeros="packed")
    add("groups", (2, 128), 6, 32, groups=True)


def scale_of(value: float) -> Array:
    return np.array(value, np.float32)


def quantised(s: Suite) -> None:
    """Scales whose quotients leave no halves, where ONNX Runtime's order of operations decides."""
    def codes(*shape: int, dtype: Any = np.uint8) -> Array:
        limits = np.iinfo(dtype)
        return s.dice.randint(limits.min, limits.max + 1, size=shape).astype(dtype)

    for dtype, name in ((np.uint8, "u8"), (np.int8, "i8")):
        def zero(value: int) -> Array:
            return np.array(value, dtype)

        def to(value: float, point: int) -> list[Array | None]:
            return [scale_of(value), zero(point)]

        a, b, row = codes(2, 3, 4, dtype=dtype), codes(2, 3, 4, dtype=dtype), codes(4, dtype=dtype)
        for op in ("Add", "Mul"):
            s.add(f"qlinear_{op.lower()}_{name}", f"QLinear{op}", [a, *to(0.037, 7), b, *to(0.0213, 3), *to(0.043, 11)])
            s.add(f"qlinear_{op.lower()}_row_{name}", f"QLinear{op}", [a, *to(0.037, 7), row, *to(0.0213, 3), *to(0.0093, 11)])
        s.add(f"qlinear_sigmoid_{name}", "QLinearSigmoid", [a, *to(0.037, 7), *to(0.00387, 0)])
        s.add(f"qlinear_sigmoid_no_zero_{name}", "QLinearSigmoid", [a, scale_of(0.037), None, *to(0.00387, 2)])
        s.add(f"qlinear_leaky_{name}", "QLinearLeakyRelu", [a, *to(0.037, 7), *to(0.0293, 5)], alpha=0.13)
        s.add(f"qlinear_concat_{name}", "QLinearConcat", [*to(0.043, 11), a, *to(0.037, 7), codes(2, 2, 4, dtype=dtype), *to(0.0213, 3)], axis=1)
        image, last = codes(2, 3, 5, 6, dtype=dtype), codes(2, 5, 6, 3, dtype=dtype)
        s.add(f"qlinear_global_{name}", "QLinearGlobalAveragePool", [image, *to(0.037, 7), *to(0.0213, 3)])
        s.add(f"qlinear_global_last_{name}", "QLinearGlobalAveragePool", [last, *to(0.037, 7), *to(0.0213, 3)], channels_last=1)
        s.add(f"qlinear_softmax_{name}", "QLinearSoftmax", [a, *to(0.037, 7), *to(1 / 256, min(0, int(np.iinfo(dtype).min)))], axis=-1,
              opset_=13)  # ONNX Runtime rounds the quotient of 1 and another scale down
        s.add(f"qlinear_where_{name}", "QLinearWhere", [b > 3, a, *to(0.037, 7), b, *to(0.0213, 3), *to(0.043, 11)])
        s.add(f"nhwc_max_pool_{name}", "NhwcMaxPool", [last], kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1])
    s.add("qlinear_average_pool", "QLinearAveragePool", [codes(2, 3, 5, 6), scale_of(0.037), np.array(7, np.uint8), scale_of(0.0293), np.array(3, np.uint8)],
          kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1])
    s.add("qlinear_average_pool_last", "QLinearAveragePool",
          [codes(2, 5, 6, 3), scale_of(0.037), np.array(7, np.uint8), scale_of(0.0293), np.array(3, np.uint8)],
          kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], count_include_pad=1, channels_last=1)
    left, right, bias = codes(2, 3, 8), codes(8, 5, dtype=np.int8), s.numbers(5)
    columns, points = np.array([0.013, 0.02, 0.031, 0.007, 0.011], np.float32), codes(5, dtype=np.int8)
    s.add("integer_to_float", "MatMulIntegerToFloat", [left, right, scale_of(0.037), scale_of(0.0213)])
    s.add("integer_to_float_columns", "MatMulIntegerToFloat", [left, right, scale_of(0.037), columns, np.array(7, np.uint8), points, bias])
    s.add("dynamic_matmul", "DynamicQuantizeMatMul", [s.numbers(2, 3, 8), right, scale_of(0.0213)])
    s.add("dynamic_matmul_columns", "DynamicQuantizeMatMul", [s.numbers(2, 3, 8), right, columns, points, bias])
    x = s.numbers(2, 3, 4) * 4
    for kind in (np.uint8, np.int8, np.uint16, np.int16):
        held = np.dtype(kind).name
        s.add(f"ms_quantize_{held}", "QuantizeLinear", [x, scale_of(0.0313), np.array(5, kind)])
        s.add(f"ms_dequantize_{held}", "DequantizeLinear", [codes(2, 3, 4, dtype=kind), scale_of(0.0313), np.array(5, kind)])
    s.add("ms_quantize_axis", "QuantizeLinear", [x, np.array([0.031, 0.05, 0.07], np.float32), np.array([3, 0, 9], np.uint8)], axis=1)
    signed, offset = codes(5, 8, dtype=np.int8), s.dice.randint(-90, 90, size=(1, 5)).astype(np.int32)
    pair: list[Array | None] = [codes(3, 8), scale_of(0.037), np.array(7, np.uint8)]
    s.add("qgemm", "QGemm", [*pair, signed, scale_of(0.0213), np.array(3, np.int8), offset, scale_of(0.93), np.array(101, np.uint8)], transB=1)
    s.add("qgemm_float", "QGemm", [*pair, right, columns, points, offset], alpha=0.5)
    picture, kernel, more = s.numbers(1, 2, 5, 5), s.numbers(3, 2, 3, 3), s.numbers(1, 3, 3, 3)
    s.add("fused_conv", "FusedConv", [picture, kernel], activation="Relu")
    s.add("fused_conv_sum", "FusedConv", [picture, kernel, s.numbers(3), more], activation="Relu")
    s.add("fused_conv_leaky", "FusedConv", [picture, kernel, s.numbers(3)], activation="LeakyRelu", activation_params=[0.2])
    s.add("fused_conv_clip", "FusedConv", [picture, kernel], activation="Clip", activation_params=[-0.5, 1.5], pads=[1, 1, 1, 1])
    s.add("fused_conv_hard", "FusedConv", [picture, kernel], activation="HardSigmoid", activation_params=[0.3, 0.4])
    for act in ("Sigmoid", "Tanh", "LeakyRelu", "Relu"):
        own: dict[str, Any] = {"activation_alpha": 0.2} if act == "LeakyRelu" else {}
        s.add(f"fused_gemm_{act.lower()}", "FusedGemm", [s.numbers(3, 8), s.numbers(5, 8), s.numbers(5)], transB=1, alpha=0.5, activation=act, **own)
    s.add("ms_gather_nd", "GatherND", [s.numbers(2, 3, 4), np.array([[0, 1], [1, 2]], np.int64)])
    s.add("ms_trilu", "Trilu", [s.numbers(2, 4, 5)], upper=0)
    s.add("transpose_matmul", "TransposeMatMul", [s.numbers(2, 4, 3), s.numbers(2, 4, 5)], transA=1, alpha=0.5)


def quantised_lstm(s: Suite) -> None:
    def weights(directions: int, rows: int, hidden: int, kind: Any) -> Array:
        low, high = (-60, 61) if kind == np.int8 else (0, 256)  # sums of two products fit 16 bits
        return s.dice.randint(low, high, size=(directions, rows, 4 * hidden)).astype(kind)

    for name, directions, columns, kind in (("forward", 1, 1, np.int8), ("reverse", 1, 12, np.uint8), ("bidirectional", 2, 1, np.uint8),
                                            ("bidirectional", 2, 12, np.int8)):
        x, hidden = s.numbers(4, 1, 5), 3
        state = (directions, 1, hidden)
        each = (directions,) if columns == 1 else (directions, columns)
        scales = [(s.dice.randint(8, 17, size=each) / 1024).astype(np.float32) for _ in range(2)]
        zeros = [np.full(each, 0 if kind == np.int8 else s.dice.randint(120, 140), kind) for _ in range(2)]  # ONNX Runtime takes these alone
        rest: list[Array | None] = [None] * 5 if columns == 1 else [s.numbers(directions, 24), None, s.numbers(*state), s.numbers(*state), None]
        parts: list[Array | None] = [x, weights(directions, 5, hidden, kind), weights(directions, hidden, hidden, kind), *rest]
        s.add(f"dynamic_lstm_{name}_{columns}", "DynamicQuantizeLSTM", [*parts, scales[0], zeros[0], scales[1], zeros[1]], outputs=3,
              fixed=(1, 2, 8, 9, 10, 11), direction=name, hidden_size=hidden)


def samples(s: Suite) -> None:
    x = s.numbers(2, 3, 6, 7)
    regions = np.array([[0, 0, 5, 5], [1, 2, 4.5, 5], [-3, -2, 9, 12], [4, 4, 4, 4], [5, 5, 2, 1], [-30, -30, -20, -20], [6, 4, 40, 40]], np.float32)
    batch = np.array([0, 1, 0, 1, 1, 0, 1], np.int64)
    for mode, ratio, pixel in (("avg", 0, "half_pixel"), ("avg", 2, "half_pixel"), ("avg", 0, "output_half_pixel"), ("max", 0, "half_pixel"),
                               ("max", 2, "output_half_pixel")):
        s.add(f"roi_align_{mode}_{ratio}_{pixel}", "RoiAlign", [x, regions, batch], domain="", mode=mode, sampling_ratio=ratio,
              coordinate_transformation_mode=pixel, output_height=2, output_width=3, spatial_scale=0.75)
    for groups, offsets, strides, pads in ((1, 2, [1, 1], [1, 0, 0, 1]), (2, 1, [2, 1], [0, 0, 0, 0]), (2, 2, [1, 2], [1, 1, 1, 1])):
        h, w = (6 + pads[0] + pads[2] - 3) // strides[0] + 1, (7 + pads[1] + pads[3] - 2) // strides[1] + 1
        parts = [s.numbers(2, 4, 6, 7), s.numbers(2, 4 // groups, 3, 2), s.numbers(2, 12 * offsets, h, w) * 3, s.numbers(2), s.numbers(2, 6 * offsets, h, w)]
        s.add(f"deform_conv_{groups}_{offsets}", "DeformConv", parts, domain="", opset=22, group=groups, offset_group=offsets, strides=strides, pads=pads)
    volume, grid = s.numbers(1, 2, 3, 4, 5), s.numbers(1, 2, 3, 2, 3) * 1.5
    for mode in ("linear", "nearest"):
        for padding in ("border", "reflection"):
            s.add(f"grid_sample_{mode}_{padding}", "GridSample", [volume, grid], domain="", opset=20, mode=mode, padding_mode=padding)
    scales = np.array([1, 1, 0.625, 0.375], np.float32)
    for mode in ("linear", "cubic"):
        for outside in (0, 1):
            s.add(f"resize_antialias_{mode}_{outside}", "Resize", [x, None, scales], domain="", opset=19, mode=mode, exclude_outside=outside, antialias=1,
                  coordinate_transformation_mode="align_corners")
    s.add("det", "Det", [s.numbers(2, 5, 5)], domain="")


def windows(s: Suite) -> None:
    # What one plane, row or place of the result sees is the padding before the image alone.
    for axes, pads in ((3, [1, 0, 0, 0, 0, 0]), (2, [2, 0, 0, 0]), (1, [1, 0])):
        image, kernel = s.numbers(1, 3, 1, *[4] * (axes - 1)), s.numbers(4, 3, *[1] * axes)
        s.add(f"conv_of_padding_{axes}", "Conv", [image, kernel, s.numbers(4)], domain="", fixed=(1, 2), pads=pads, strides=[3] + [1] * (axes - 1))
    s.add("conv_transpose_of_padding", "ConvTranspose", [s.numbers(1, 3, 1, 4, 4), s.numbers(3, 2, 1, 1, 1)], domain="", fixed=(1,),
          pads=[1, 0, 0, 0, 0, 0], strides=[2, 1, 1], output_padding=[1, 0, 0])


def recurrent(s: Suite) -> None:
    lengths = np.array([5, 2, 1, 3], np.int32)
    for op, gates, outputs in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            state = s.numbers(count, 4, 6)
            cell = [s.numbers(count, 4, 6)] if op == "LSTM" else []
            parts = [s.numbers(5, 4, 3), s.numbers(count, gates * 6, 3), s.numbers(count, gates * 6, 6), s.numbers(count, 2 * gates * 6)]
            for name, each in (("lengths", lengths), ("short", np.full(4, 3, np.int32))):
                s.add(f"{name}_{op.lower()}_{direction}", op, [*parts, each, state, *cell], outputs=outputs, domain="", fixed=(1, 2, 3),
                      direction=direction, hidden_size=6)


def quantised_transformers(s: Suite) -> None:
    """What ONNX Runtime's tools for dynamic quantisation make of Attention and EmbedLayerNormalization."""
    b, l, d, h, e = 2, 3, 8, 2, 4

    def codes(*shape: int, dtype: Any = np.uint8) -> Array:
        limits = np.iinfo(dtype)
        return s.dice.randint(limits.min, limits.max + 1, size=shape).astype(dtype)

    def add(name: str, dtype: Any = np.int8, columns: bool = False, mask: Array | None = None, zeros: bool = True, past: int = 0, **kw: Any) -> None:
        n = 3 * h * e
        scale = (s.dice.randint(1, 9, size=n) / 1024).astype(np.float32) if columns else scale_of(0.0041)
        inputs: list[Array | None] = [codes(b, l, d), codes(d, n, dtype=dtype), s.numbers(n), scale_of(0.0213), scale, mask]
        inputs += [np.array(117, np.uint8), np.array(120 if dtype == np.uint8 else 0, dtype)] if zeros else [None, None]
        inputs.append(s.numbers(2, b, h, past, e) if past else None)
        while inputs[-1] is None:
            inputs.pop()
        s.add(f"qattention_{name}", "QAttention", inputs, 2 if past else 1, fixed=(1, 2, 4, 7), num_heads=h, **kw)

    add("i8")
    add("u8", dtype=np.uint8)
    add("no_zeros", zeros=False)
    add("columns", columns=True)
    add("causal", unidirectional=1)
    for name, mask in masks_of(b, l, l).items():
        add(f"mask_{name}", mask=mask)
    add("past", past=2)
    add("past_causal_u8", dtype=np.uint8, past=2, unidirectional=1)

    words, steps, width = 11, 4, 8
    for name, segments, mask in (("plain", False, False), ("segments", True, False), ("mask", True, True)):
        def table(rows: int) -> Array:
            return codes(rows, width)

        ids = s.dice.randint(0, words, size=(b, steps)).astype(np.int32)
        parts: list[Array | None] = [ids, s.dice.randint(0, 2, size=(b, steps)).astype(np.int32) if segments else None, table(words), table(steps + 2),
                                     table(2) if segments else None, codes(width), codes(width),
                                     np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32) if mask else None]
        parts += [scale_of(0.0213), scale_of(0.0117), scale_of(0.0071) if segments else None, scale_of(0.0093), scale_of(0.0051)]
        parts += [np.array(z, np.uint8) for z in (127, 121, 119, 3, 130)]
        if not segments:
            parts[15] = None
        s.add(f"qembed_{name}", "QEmbedLayerNormalization", parts, 2, fixed=tuple(range(2, 7)) + tuple(range(8, 18)), epsilon=1e-5)


def tables(s: Suite) -> None:
    """Rows of tables of 4 and 8 bits, distances of rows, and images sampled by the operator that ONNX's was before."""
    def add(name: str, bits: int, block: int, columns: int, zeros: bool = False, dtype: Any = np.float32, small: int = 0) -> None:
        rows, blocks = 9, (columns + block - 1) // block
        low = -8 if small == onnx.TensorProto.INT4 else 0
        data = s.dice.randint(low, low + (1 << bits), size=(rows, columns))
        points = s.dice.randint(low, low + (1 << bits), size=(rows, blocks))
        scales = numpy_helper.from_array((s.dice.randint(1, 9, size=(rows, blocks)) / 64).astype(dtype), "scales")
        index = s.dice.randint(-rows, rows, size=(2, 3)).astype(np.int64)

        def held(x: Array, name: str) -> onnx.TensorProto:
            if small:
                return helper.make_tensor(name, small, x.shape, x.flatten().tolist())
            return numpy_helper.from_array(pairs_of(x.astype(np.uint8), bits), name)

        constants = [held(data, "data"), scales] + ([held(points, "zeros")] if zeros else [])
        node = helper.make_node("GatherBlockQuantized", ["data", "index", "scales"] + (["zeros"] if zeros else []), ["y"], domain=DOMAIN, bits=bits,
                                block_size=block, gather_axis=0, quantize_axis=1)
        s.add_graph(f"gather_quantized_{name}", [node], [("index", index)], ["y"], constants, opset=21)

    add("packed", 4, 16, 64)
    add("packed_zeros", 4, 32, 96, zeros=True)
    add("packed_half", 4, 32, 64, zeros=True, dtype=np.float16)
    add("bytes", 8, 32, 64)
    add("bytes_zeros", 8, 16, 80, zeros=True)
    add("int4", 4, 16, 64, small=onnx.TensorProto.INT4)
    add("int4_zeros", 4, 32, 64, zeros=True, small=onnx.TensorProto.INT4)
    add("uint4_zeros", 4, 16, 48, zeros=True, small=onnx.TensorProto.UINT4)
    for metric in ("euclidean", "sqeuclidean"):
        for dtype in (np.float32, np.float64):
            s.add(f"cdist_{metric}_{np.dtype(dtype).name}", "CDist", [s.numbers(5, 7, dtype=dtype), s.numbers(4, 7, dtype=dtype)], metric=metric)
    image, places = s.numbers(1, 2, 5, 6), s.numbers(1, 3, 4, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        s.add(f"grid_sample_{mode}", "GridSample", [image, 1.2 * places], mode=mode, padding_mode="border", align_corners=1)


def sliding(s: Suite) -> None:
    """Caches with room for a window and some more rows: as they fill, where rows move to the front, and behind that."""
    heads, shared, e, window, room = 4, 2, 16, 4, 6
    angles = np.arange(64)[:, None] * 0.7 ** np.arange(e // 2)
    for name, all_steps, steps in (("first", 3, 3), ("fills", 6, 1), ("moves", 7, 1), ("moved", 8, 1), ("several", 12, 3), ("longer", 20, 5)):
        over = max(all_steps - window, 0)
        kept = all_steps - over // (room - window + 1) * (room - window + 1)
        given = [("q", s.numbers(1, steps, heads * e)), ("k", s.numbers(1, steps, shared * e)), ("v", s.numbers(1, steps, shared * e)),
                 ("past_k", s.numbers(1, shared, room, e)), ("past_v", s.numbers(1, shared, room, e))]
        constants = [numpy_helper.from_array(x, n) for n, x in (
            ("length", np.array([all_steps - 1], np.int32)), ("total", np.array(all_steps, np.int32)), ("cos", np.cos(angles).astype(np.float32)),
            ("sin", np.sin(angles).astype(np.float32)), ("begin", np.array([0], np.int64)), ("end", np.array([kept], np.int64)),
            ("axis", np.array([2], np.int64)))]
        nodes = [helper.make_node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "length", "total", "cos", "sin"], ["y", "pk", "pv"],
                                  domain=DOMAIN, num_heads=heads, kv_num_heads=shared, do_rotary=1, local_window_size=window, sliding_window_cache=1)]
        nodes += [helper.make_node("Slice", [x, "begin", "end", "axis"], [f"kept_{x}"]) for x in ("pk", "pv")]
        s.add_graph(f"gqa_sliding_{name}", nodes, given, ["y", "kept_pk", "kept_pv"], constants)


def states(s: Suite) -> None:
    """Linear attention and its like, convolutions that carry their last steps, and what gates them."""
    rules = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}

    def unit(x: Array) -> Array:
        return (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)).astype(np.float32)

    def linear(name: str, rule: str, batch: int, steps: int, heads_q: int, heads: int, depth: int, features: int, past: bool = True,
               rows: bool = False, one_beta: bool = False, heads_k: int = 0, **attributes: Any) -> None:
        gated, corrects = rules[rule]
        parts: list[Array | None] = [s.numbers(batch, steps, heads_q * depth), unit(s.numbers(batch, steps, heads_k or heads, depth)).reshape(batch, steps, -1),
                                     s.numbers(batch, steps, heads * features), s.numbers(batch, heads, depth, features) if past else None,
                                     -np.abs(s.numbers(batch, steps, heads * (depth if rows else 1))) if gated else None,
                                     np.abs(s.numbers(batch, steps, 1 if one_beta else heads)) if corrects else None]
        while parts[-1] is None:
            parts.pop()
        s.add(f"linear_attention_{name}", "LinearAttention", parts, 2, q_num_heads=heads_q, kv_num_heads=heads, update_rule=rule, **attributes)

    for rule in rules:
        linear(rule, rule, 2, 5, 2, 2, 8, 12)
        linear(f"{rule}_first", rule, 1, 1, 2, 2, 7, 5, past=False)
    linear("wide", "gated_delta", 1, 3, 1, 1, 128, 34)
    linear("shared", "gated_delta", 1, 4, 6, 2, 33, 20)
    linear("shared_rows", "gated", 1, 9, 4, 1, 20, 70, rows=True)
    linear("rows", "gated_delta", 1, 6, 2, 2, 16, 32, rows=True, scale=0.3)
    linear("one_beta", "delta", 1, 4, 3, 3, 16, 16, one_beta=True)
    linear("fewer_queries", "gated_delta", 1, 4, 2, 4, 8, 16)
    linear("fewer_keys", "gated_delta", 1, 4, 2, 4, 8, 16, heads_k=2)

    for name, channels, steps, k, attributes in (("plain", 6, 9, 4, {}), ("silu", 33, 5, 3, {"activation": "silu"}), ("one", 5, 1, 4, {"activation": "swish"}),
                                                 ("dilated", 4, 7, 3, {"dilation": 2}), ("last", 4, 6, 4, {"channels_last": 1})):
        reach = (k - 1) * attributes.get("dilation", 1)
        shape, before = ((2, steps, channels), (2, reach, channels)) if name == "last" else ((2, channels, steps), (2, channels, reach))
        parts = [s.numbers(*shape), s.numbers(channels, 1, k), s.numbers(channels), s.numbers(*before)]
        s.add(f"causal_conv_{name}", "CausalConvWithState", parts, 2, **attributes)
        s.add(f"causal_conv_{name}_first", "CausalConvWithState", parts[:3], 2, **attributes)

    def delta(name: str, batch: int, steps: int, heads_q: int, heads: int, depth: int, features: int, apart: bool = False, packed: bool = False,
              rows: bool = False, **attributes: Any) -> None:
        tokens = (batch, steps) if apart else (batch * steps,)
        q, k, v = s.numbers(*tokens, heads_q, depth), unit(s.numbers(*tokens, heads_q, depth)), s.numbers(*tokens, heads, features)
        parts: list[Array | None] = [q, k, v]
        if packed:
            parts = [np.concatenate([x.reshape(*tokens, -1) for x in (q, k, v)], -1), None, None]
        parts += [None, -np.abs(s.numbers(*tokens, heads, *((depth,) if rows else ()))), np.abs(s.numbers(*tokens, heads)),
                  s.numbers(batch, heads, features, depth)]
        if "gate_activation" in attributes:
            parts += [s.numbers(heads), s.numbers(heads)]
        s.add(f"gated_delta_net_{name}", "GatedDeltaNet", parts, 2, **attributes)

    delta("tokens", 2, 3, 2, 2, 8, 16)
    delta("apart", 2, 4, 2, 4, 16, 8, apart=True)
    delta("packed", 1, 5, 2, 4, 16, 24, packed=True)
    delta("rows", 1, 4, 2, 2, 16, 16, rows=True, scale=0.25)
    delta("soft", 1, 4, 2, 4, 16, 16, apart=True, gate_activation="softplus", beta_activation="sigmoid", qk_l2_norm=1)
    delta("bounded", 1, 3, 2, 2, 16, 8, gate_activation="sigmoid", gate_lower_bound=-3.0)

    s.add("linear_attention_gate", "LinearAttentionGate", [s.numbers(2, 3, 5), s.numbers(5), -np.abs(s.numbers(5)), s.numbers(2, 3, 5)], 2)
    for activation in ("silu", "sigmoid"):
        s.add(f"gated_norm_{activation}", "GatedRMSNorm", [s.numbers(2, 3, 24), s.numbers(8), s.numbers(2, 3, 24)], activation=activation, epsilon=1e-6)
    s.add("gated_add", "GatedAdd", [s.numbers(2, 3, 8), s.numbers(2, 3, 8), s.numbers(2, 3, 1)])
    s.add("scaled_silu", "ScaledSiLU", [s.numbers(3, 8)], alpha=1.5)
    s.add("scaled_silu_given", "ScaledSiLU", [s.numbers(3, 8), np.array(0.75, np.float32)])
    angles = np.arange(16)[:, None] * 0.7 ** np.arange(8)
    places = s.dice.randint(0, 16, size=(3, 2, 4)).astype(np.int64)
    for layout in (0, 1):
        for interleaved in (0, 1):
            for name, x in (("rows", s.numbers(2, 4, 3 * 16)), ("heads", s.numbers(2, 3, 4, 16))):
                s.add(f"mrotary_{layout}_{interleaved}_{name}", "MRotaryEmbedding",
                      [x, places, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)], mrope_section=[2, 3, 3] if layout else [4, 3, 1],
                      mrope_layout=layout, interleaved=interleaved, num_heads=3, rotary_embedding_dim=16)


def mixtures(s: Suite) -> None:
    """Experts: of numbers and of codes, and all that a router may say."""
    tokens, wide, inner, experts = 5, 32, 32, 4

    def router() -> Array:
        """No two alike, so that there is one choice."""
        return np.stack([s.dice.permutation(experts) for _ in range(tokens)]).astype(np.float32) / 2 + s.numbers(tokens, 1)

    gates = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.5}
    for name, k, attributes in (("relu", 1, {}), ("silu", 2, {"activation_type": "silu", "normalize_routing_weights": 1}), ("gelu", 3, {"activation_type": "gelu"}),
                                ("identity", 2, {"activation_type": "identity"}), ("swiglu", 2, {**gates, "normalize_routing_weights": 1}), ("swiglu_all", 4, gates)):
        columns = 2 * inner if "swiglu" in name else inner
        parts = [s.numbers(tokens, wide), router(), s.numbers(experts, columns, wide), s.numbers(experts, columns), s.numbers(experts, wide, inner),
                 s.numbers(experts, wide)]
        s.add(f"moe_{name}", "MoE", parts, fixed=(2, 3, 4, 5), k=k, **attributes)
    s.add("moe_sequences", "MoE", [s.numbers(1, tokens, wide), router(), s.numbers(experts, inner, wide), None, s.numbers(experts, wide, inner)], k=2)

    def layer(n: int, k: int, bits: int, block: int, zeros: bool) -> list[Array | None]:
        blocks = k // block if block else 1
        scales = (s.dice.randint(1, 9, size=(experts, n, blocks)) / (64 << (bits - 4))).astype(np.float32)
        points = s.dice.randint(0, 1 << bits, size=(experts, n, blocks)).astype(np.uint8)
        if not block:
            scales, points = scales[:, :, 0], points[:, :, 0]
        return [pairs_of(s.dice.randint(0, 1 << bits, size=(experts, n, k)).astype(np.uint8), bits), scales, s.numbers(experts, n),
                pairs_of(points, bits) if zeros else None]

    for bits in (4, 8):
        for block in (0, 16, 32):
            for zeros in (False, True):
                gated = zeros or block == 16
                first, second = layer((2 if gated else 1) * inner, wide, bits, block, zeros), layer(wide, inner, bits, block, zeros)
                parts = [s.numbers(tokens, wide), router(), *first[:3], *second[:3], None, None, None, first[3], second[3]]
                while parts[-1] is None:
                    parts.pop()
                # of constants of 8 bits in blocks ONNX Runtime multiplies rows that it has rounded to bytes
                fixed = () if bits == 8 and block else tuple(range(2, len(parts)))
                attributes = {**(gates if gated else {"activation_type": "silu"}), **({"block_size": block} if block else {})}
                s.add(f"qmoe_{bits}_{block}{'_zeros' if zeros else ''}", "QMoE", parts, fixed=fixed, k=2, expert_weight_bits=bits,
                      normalize_routing_weights=1, **attributes)
    first, second = layer(inner, wide, 4, 32, False), layer(wide, inner, 4, 32, False)
    s.add("qmoe_router_weights", "QMoE", [s.numbers(tokens, wide), router(), *first[:3], *second[:3], *[None] * 6, np.abs(s.numbers(tokens, experts))], k=2,
          expert_weight_bits=4, block_size=32, activation_type="silu")


def sinks(s: Suite) -> None:
    """Scores that each head has besides those of its keys."""
    h, g, e = 4, 2, 16
    for name, steps, before, attributes in (("first", 5, 0, {}), ("next", 1, 4, {}), ("window", 5, 3, {"local_window_size": 3}), ("cap", 3, 2, {"softcap": 2.0})):
        past = [s.numbers(1, g, before, e) if before else None for _ in range(2)]
        parts = [s.numbers(1, steps, h * e), s.numbers(1, steps, g * e), s.numbers(1, steps, g * e), *past, np.array([steps + before - 1], np.int32),
                 np.array(steps + before, np.int32)]
        s.add(f"gqa_smooth_{name}", "GroupQueryAttention", parts, keep=[0, 1, 2], num_heads=h, kv_num_heads=g, smooth_softmax=1, **attributes)
        s.add(f"gqa_sink_{name}", "GroupQueryAttention", parts + [None] * 4 + [4 * s.numbers(h)], keep=[0, 1, 2], num_heads=h, kv_num_heads=g, **attributes)


def write(s: Suite, own: str, title: str) -> None:
    """`own` is the file that is run; the archive and the list have its name."""
    folder, base = pathlib.Path(own).parent, pathlib.Path(own).stem
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in sorted(s.files.items()):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            if len(sys.argv) > 1:
                target = pathlib.Path(sys.argv[1]) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
    with open(folder / f"{base}.tar.gz", "wb") as out:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
            file.write(packed.getvalue())
    names = sorted({path.split("/")[0] for path in s.files})
    with open(folder / "lists" / f"{base}.txt", "w", encoding="utf-8") as out_list:
        out_list.write(f"# {title}, by ONNX Runtime {onnxruntime.__version__}, see {base}.py: names that pass.\n")
        out_list.writelines(f"{name}\n" for name in names)
    print(f"{len(names)} tests")


def main() -> None:
    s = Suite()
    for part in (products, activations, norms, rotary, multi_head, group_query, attention, samples, nbits, quantised, quantised_lstm, windows, recurrent,
                 quantised_transformers, tables, sliding, states, mixtures, sinks):
        part(s)
    write(s, __file__, "com.microsoft, and some of ONNX")


if __name__ == "__main__":
    main()
