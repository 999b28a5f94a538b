# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md and the README show, word by word; the digits example gives the numbers of the one in C."""
import re
import runpy

import numpy as np
import pytest
from conftest import DEVICES, SOURCE

import dhow


def test_the_document_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "python.md").read_text(), re.S)
    assert len(snippets) >= 5
    names = {}
    for snippet in snippets:
        exec(snippet, names)


def test_the_readme_runs(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    image, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3]) for name in ("image", "y"))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["image"], ["y"])], "g", [image], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
    snippets = re.findall(r"```python\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)
    assert snippets
    for snippet in snippets:
        exec(snippet.replace("opencl:0", DEVICES[-1]), {"numpy_array": np.ones((2, 3), np.float32)})


def test_the_document_names_all_natural_classes():
    text = (SOURCE / "docs" / "python.md").read_text()
    for kind in dhow.errors.BY_STATUS.values():
        natural = [base.__name__ for base in kind.__bases__ if base is not dhow.Error]
        row = next((line for line in text.splitlines() if f"`{kind.__name__}`" in line and line.startswith("|")), "")
        assert all(f"`{name}`" in row for name in natural), kind


def test_digits_are_those_of_c(digits, device):
    example = runpy.run_path(str(digits / "digits.py"))
    accuracy, difference = example["predict"](dhow.device(device), digits)
    assert round(100 * accuracy, 2) == 99.17 and difference < 1e-3
    if device == "cpu:0":
        assert difference < 2e-5  # of logits up to 30 in f32; it depends on the width of the processor's vectors
