# SPDX-License-Identifier: Apache-2.0
"""The node tests of the onnx that Python has, as folders: onnx gives them as a program from 1.21 on, no longer as data.

node_data.py FOLDER LIST writes those that LIST, names that another onnx has, does not hold, and those of an opset above 24.
"""
import os
import sys

import numpy
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node

ONCE = 24  # the last opset of the onnx whose names LIST holds


def opset(model):
    return max((o.version for o in model.opset_import if o.domain == ""), default=0)


def message(value, described):
    """A value of a test as the bytes of its message."""
    kind, name = described.type.WhichOneof("value"), described.name
    if not isinstance(value, TensorProto):
        makers = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional, "map_type": numpy_helper.from_dict}
        value = makers.get(kind, numpy_helper.from_array)(value, name)
    return value.SerializeToString()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def main(folder, names):
    with open(names, encoding="utf-8") as file:
        known = {line.split("\t")[0].strip() for line in file}
    numpy.random.seed(0)
    for case in node.collect_testcases(None):
        if case.name in known and opset(case.model) <= ONCE:
            continue
        own = os.path.join(folder, case.name)
        for i, (inputs, outputs) in enumerate(case.data_sets):
            values = os.path.join(own, "test_data_set_%d" % i)
            os.makedirs(values, exist_ok=True)
            for kind, data, described in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
                for k, value in enumerate(data):
                    write(os.path.join(values, "%s_%d.pb" % (kind, k)), message(value, described[k]))
        write(os.path.join(own, "model.onnx"), case.model.SerializeToString())


main(*sys.argv[1:])
