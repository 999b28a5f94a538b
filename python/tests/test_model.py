# SPDX-License-Identifier: Apache-2.0
"""Models against ONNX Runtime: small ones made here, and those of a folder that DHOW_MODELS_DIR names."""
import json
import os
import pathlib
import threading

import numpy as np
import pytest

import dhow

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
helper, T = onnx.helper, onnx.TensorProto
rng = np.random.default_rng(3)
FOLDER = os.environ.get("DHOW_MODELS_DIR")
FILES = sorted(pathlib.Path(FOLDER).glob("*/model.onnx")) if FOLDER else []


def made(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(w, name) for name, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def value(name, shape, dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.fixture
def two():
    """Two inputs, two outputs: total = a w + b, top = softmax(total)."""
    return made([helper.make_node("MatMul", ["a", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["total"]),
                 helper.make_node("Softmax", ["total"], ["top"], axis=-1)],
                [value("a", ["n", 4]), value("b", ["n", 3])], [value("total", ["n", 3]), value("top", ["n", 3])],
                [("w", rng.standard_normal((4, 3)).astype(np.float32))])


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def test_inputs_by_place_name_and_dict(two, device):
    a, b = rng.standard_normal((5, 4)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    wanted = session(two).run(None, {"a": a, "b": b})
    model = dhow.Model.load(two).to(device)
    assert [(v.name, v.dtype, v.shape) for v in model.inputs] == [("a", "f32", (-1, 4)), ("b", "f32", (-1, 3))]
    assert [v.name for v in model.outputs] == ["total", "top"] and model.device == device
    ta, tb = dhow.tensor(a, device=device), dhow.tensor(b, device=device)
    for results in (model(ta, tb), model(a, b), model(a=a, b=tb), model(a, b=b), model({"b": b, "a": a}), model(a.tolist(), b.tolist()),
                    model.run({"a": a, "b": b}).values(), model.run({"a": a, "b": b}, ["total", "top"]).values(),
                    model(ta, tb, stream=dhow.Stream(device))):
        for got, right in zip(results, wanted):
            np.testing.assert_allclose(got.numpy(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision, share", [("bf16", 2e-2), ("f16", 3e-3), ("reduced", 2e-2), ("f32", 1e-5)])
def test_precision(two, device, precision, share):
    a, b = rng.standard_normal((5, 4)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    wanted = session(two).run(None, {"a": a, "b": b})
    model = dhow.Model.load(two).to(device)
    assert model.precision == "device"
    model.precision = precision
    assert model.precision == precision
    for got, right in zip(model(a, b), wanted):
        assert got.dtype == "f32" and np.abs(got.numpy() - right).max() <= share * np.abs(right).max()
    with pytest.raises(dhow.errors.InvalidArgument, match="bf16"):
        model.precision = "bf8"


def test_run_into_given_tensors_and_for_some_outputs(two, device):
    a, b = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    model = dhow.Model.load(two).to(device)
    assert list(model.run({"a": a, "b": b}, ["top"])) == ["top"]
    into = dhow.zeros((2, 3), device=device)
    for factor in (1, 2):
        result = model.run({"a": a * factor, "b": b}, {"total": into})
        assert result["total"] is into
        np.testing.assert_allclose(into.numpy(), session(two).run(["total"], {"a": a * factor, "b": b})[0], rtol=1e-5)


def test_steps_of_a_model_that_is_built(device):
    model = dhow.Model()
    x, index = model.input("x", "f32", (-1, 3)), model.input("index", "i64", (2, 3))
    padded = model.pad(model.permute(x, (1, 0)), (1, 0), value=7)
    falling, places = model.sort(x, 1, descending=True)
    for name, step in (("padded", padded), ("falling", falling), ("places", places), ("cast", model.cast(model.less(x, falling), "i32")),
                       ("scattered", model.scatter(x, 1, index, model.narrow(x, 0, 0, 2), "sum"))):
        model.output(name, step)
    a, i = rng.standard_normal((4, 3)).astype(np.float32), np.array([[0, 0, 2], [1, 2, 2]])
    scattered = a.copy()
    np.add.at(scattered, (np.array([[0], [1]]), i), a[:2])
    results = model.to(device).run({"x": a, "index": i})
    order = np.argsort(-a, 1, kind="stable")
    for name, right in (("padded", np.pad(a.T, ((0, 0), (1, 0)), constant_values=7)), ("falling", np.take_along_axis(a, order, 1)),
                        ("places", order), ("cast", a < np.take_along_axis(a, order, 1)), ("scattered", scattered)):
        np.testing.assert_allclose(results[name].numpy(), right, rtol=1e-6)
    with pytest.raises(ValueError, match="mode"):
        model.pad(x, (1, 0), "mirror")


def test_further_layers_of_a_model_that_is_built(device):
    model = dhow.Model()
    x = model.input("x", "f32", (-1, 2, 6))
    y = model.conv1d("conv", x, 2, 2, True, kernel=3, padding=1)
    model.output("conv", y)
    model.output("twice", model.interpolate(x, scale_factor=[2.0]))
    model.output("seen", model.scaled_dot_product_attention(x, x, x, is_causal=True))
    model.set_parameter("conv.bias", dhow.ones((2,), device="cpu"))
    a = rng.standard_normal((3, 2, 6)).astype(np.float32)
    results = model.to(device).run({"x": a})
    np.testing.assert_array_equal(results["conv"].numpy(), np.ones((3, 2, 6), np.float32))
    np.testing.assert_array_equal(results["twice"].numpy(), a.repeat(2, 2))
    np.testing.assert_allclose(results["seen"].numpy()[:, 0], a[:, 0], rtol=1e-5)


def test_results_stay_when_the_model_runs_again_or_ends(two):
    model = dhow.Model.load(two)
    first = model(np.ones((1, 4), np.float32), np.zeros((1, 3), np.float32))[0]
    copy = first.numpy().copy()
    model(np.zeros((1, 4), np.float32), np.zeros((1, 3), np.float32))
    weights = model.parameters()
    del model
    np.testing.assert_array_equal(first.numpy(), copy)
    assert weights["w"].shape == (4, 3)


def test_many_threads_run_one_model(two, device):
    model, failures = dhow.Model.load(two).to(device), []

    def work(seed):
        try:
            a = np.full((3, 4), seed, np.float32)
            for _ in range(20):
                got = model(a, np.zeros((3, 3), np.float32))[0].numpy()
                np.testing.assert_allclose(got, a @ model.parameters()["w"].numpy(), rtol=1e-5, atol=1e-5)
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_summary_and_steps(two, device):
    model = dhow.Model.load(two).to(device)
    model.profile()
    for _ in range(2):
        model(np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32))
    summary, steps = model.summary(), model.steps()
    assert summary.node_count == 3 and summary.parameter_bytes == 48 and summary.step_count == len(steps) > 0
    assert all(step.device == device for step in steps) and sum(step.nanoseconds for step in steps) > 0
    assert steps[-1].shape == (2, 3)


def test_texts_sequences_and_what_is_not_there():
    texts = made([helper.make_node("SplitToSequence", ["x", "at"], ["parts"], axis=0)], [value("x", [4])],
                 [onnx.helper.make_tensor_sequence_value_info("parts", T.FLOAT, None)], [("at", np.array([1, 3]))])
    parts = dhow.Model.load(texts)(np.arange(4, dtype=np.float32))
    assert [part.tolist() for part in parts] == [[0], [1, 2, 3]]
    same = made([helper.make_node("Identity", ["x"], ["y"])], [value("x", [2], T.STRING)], [value("y", [2], T.STRING)])
    assert dhow.Model.load(same)(["monday", "tüsday"]) == ["monday", "tüsday"]


def test_built_models_save_and_load(tmp_path, device):
    def network():
        m = dhow.Model()
        x = m.input("x", "f32", (-1, 4))
        h = m.gelu(m.linear("fc1", x, 4, 8))
        m.begin_scope("deep")
        y = m.layernorm("norm", m.linear("fc2", h, 8, 3, bias=False), 3)
        m.end_scope()
        m.output("y", m.softmax(m.mul_scalar(m.clip(m.cat([y, y], 1), -1, 1), 2), -1))
        return m
    first = network()
    for name, weight in first.parameters().items():
        first.set_parameter(name, dhow.uniform(weight.shape, -1, 1, seed=len(name), device="cpu"))
    assert sorted(first.parameters()) == ["deep.fc2.weight", "deep.norm.bias", "deep.norm.weight", "fc1.bias", "fc1.weight"]
    first.save_state(tmp_path / "w.safetensors")
    x = rng.standard_normal((5, 4)).astype(np.float32)
    second = network().load_state(tmp_path / "w.safetensors").to(device)
    np.testing.assert_allclose(second(x).numpy(), first(x).numpy(), rtol=1e-5, atol=1e-6)
    loaded = dhow.load_safetensors(tmp_path / "w.safetensors", device)
    np.testing.assert_array_equal(loaded["fc1.weight"].numpy(), first.parameters()["fc1.weight"].numpy())
    dhow.save_safetensors(tmp_path / "v.safetensors", loaded)
    assert dhow.load_safetensors(str(tmp_path / "v.safetensors"))["fc1.bias"].device == "cpu:0"


def test_cancel_and_limits(two):
    model = dhow.Model.load(two)
    model.limit_time(1e-9)
    with pytest.raises(TimeoutError):
        model(np.ones((1, 4), np.float32), np.zeros((1, 3), np.float32))
    model.limit_time(0)
    model.limit_memory(16)
    with pytest.raises(NotImplementedError):
        model(np.ones((100, 4), np.float32), np.zeros((100, 3), np.float32))
    model.cancel()


def test_npy_and_traces(tmp_path, two, device):
    x = dhow.tensor(np.arange(6.0).reshape(2, 3), device=device)
    dhow.save_npy(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x.numpy())
    np.testing.assert_array_equal(dhow.load_npy(tmp_path / "x.npy", device).numpy(), x.numpy())
    with dhow.trace(tmp_path / "t.json"), dhow.region("mine"):
        dhow.Model.load(two).to(device)(np.ones((1, 4), np.float32), np.zeros((1, 3), np.float32))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any(event.get("name") == "mine" for event in events) and len(events) > 3


@pytest.mark.skipif(not FILES, reason="DHOW_MODELS_DIR names no folder of models")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_models_of_a_folder(file):
    model, right = dhow.Model.load(file), session(str(file))
    given = {slot.name: np.load(file.parent / f"in{i}.npy") for i, slot in enumerate(right.get_inputs())}
    wanted = right.run(None, given)
    for result, array in zip(model.run(given).values(), wanted):
        np.testing.assert_allclose(result.numpy(), array, rtol=2e-3, atol=2e-3 * max(1, np.abs(array).max()))
