# SPDX-License-Identifier: Apache-2.0
"""Tests of the ONNX project whose inputs are parts of larger tensors: parts.py DATA LIST OUT

Every input of a graph, of one dimension or more, is joined to other numbers and cut out again, so that each operator
reads values that begin inside their memory. OUT gets the tests of DATA that LIST has as passing, and a list of them.
"""
import math
import os
import shutil
import sys

import onnx
from onnx import TensorProto, helper

OFFSETS = (3, 64)  # where no kernel's buffer may begin, and where it may
TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
         TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
         TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)


def extents(value):
    """The shape of an input that can be cut, else None."""
    tensor = value.type.tensor_type
    dims = [d.dim_value for d in tensor.shape.dim]
    fits = value.type.HasField("tensor_type") and tensor.elem_type in TYPES
    return dims if fits and dims and 0 not in dims else None


def piece(opset, name, source, first, end, constants):
    """A node that takes elements first to end-1 of a vector."""
    if opset < 10:
        return helper.make_node("Slice", [source], [name], axes=[0], starts=[first], ends=[end])
    bounds = [helper.make_tensor(f"{name}/{k}", TensorProto.INT64, [1], [v]) for k, v in (("from", first), ("to", end))]
    constants += bounds
    return helper.make_node("Slice", [source] + [b.name for b in bounds], [name])


def cut(value, dims, opset, before):
    """Nodes and constants that make NAME/part of NAME, behind so many other numbers."""
    name, count = value.name, math.prod(dims)
    flat, joined, line = (name + "/" + word for word in ("flat", "joined", "line"))
    constants = [helper.make_tensor(name + "/all", TensorProto.INT64, [1], [-1]),
                 helper.make_tensor(name + "/shape", TensorProto.INT64, [len(dims)], dims),
                 helper.make_tensor(name + "/others", value.type.tensor_type.elem_type, [before], [1] * before)]
    nodes = [helper.make_node("Reshape", [name, name + "/all"], [flat]),
             helper.make_node("Concat", [name + "/others", flat], [joined], axis=0),
             piece(opset, line, joined, before, before + count, constants),
             helper.make_node("Reshape", [line, name + "/shape"], [name + "/part"])]
    return nodes, constants


def rewrite(model, before):
    """Whether any input was cut."""
    graph = model.graph
    opset = max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")], default=1)
    constants = {c.name for c in graph.initializer}
    added = []
    for value in graph.input:
        dims = extents(value)
        if dims is None or opset < 5 or value.name in constants or value.name in [o.name for o in graph.output]:
            continue
        for node in graph.node:
            for i, name in enumerate(node.input):
                if name == value.name:
                    node.input[i] = name + "/part"
        nodes, numbers = cut(value, dims, opset, before)
        added += nodes
        graph.initializer.extend(numbers)
    nodes = added + list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)
    return bool(added)


def main(data, listed, out):
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    names = []
    for line in open(listed):
        name, tab, _ = line.rstrip("\n").partition("\t")
        folder = os.path.join(data, name)
        if name.startswith("#") or tab or not os.path.isdir(folder):
            continue
        for before in OFFSETS:
            model = onnx.load(os.path.join(folder, "model.onnx"))
            if not rewrite(model, before):
                break
            own = f"{name}_behind_{before}"
            os.makedirs(os.path.join(out, own))
            onnx.save(model, os.path.join(out, own, "model.onnx"))
            for entry in os.listdir(folder):
                if entry.startswith("test_data_set"):
                    os.symlink(os.path.abspath(os.path.join(folder, entry)), os.path.join(out, own, entry))
            names.append(own)
    with open(os.path.join(out, "list.txt"), "w") as f:
        f.writelines(f"{name}\n" for name in names)
    print(f"{len(names)} tests")


main(*sys.argv[1:])
