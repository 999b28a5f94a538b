# SPDX-License-Identifier: Apache-2.0
import gc
import threading

import numpy as np
import pytest

import dhow

DTYPES = {**dhow._core.NUMPY_NAMES}


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_travel_both_ways(dtype, device):
    if dtype == "bf16":
        bf16 = pytest.importorskip("ml_dtypes").bfloat16
        x = np.arange(6).astype(bf16).reshape(2, 3)
    else:
        x = (np.arange(6) % 2 if dtype == "bool" else np.arange(6)).astype(DTYPES[dtype]).reshape(2, 3)
    t = dhow.tensor(x, device=device)
    assert (t.dtype, t.shape, t.strides, t.device.name) == (dtype, (2, 3), (3, 1), device)
    assert t.numpy().dtype == x.dtype
    np.testing.assert_array_equal(t.numpy(), x)
    np.testing.assert_array_equal(np.asarray(t), x)
    assert t[1, 2].item() == x[1, 2]
    assert type(t[1, 2].item()) is (bool if dtype == "bool" else float if dtype.endswith(("16", "32", "64")) and "f" in dtype else int)
    np.testing.assert_array_equal(t.T.numpy(), x.T)
    np.testing.assert_array_equal(t.to_dtype("f32").numpy(), x.astype(np.float32))


def test_lists_and_numbers(device):
    for data, dtype in ((1.5, "f32"), ([1, 2], "i64"), ([[True], [False]], "bool"), ([], "f32"), (2**63, "u64"), (np.float64(1), "f64")):
        t = dhow.tensor(data, device=device)
        assert t.dtype == dtype
        np.testing.assert_array_equal(t.numpy(), np.asarray(data))
    assert dhow.tensor([1.9, -1.9], dtype="i32", device=device).tolist() == [1, -1]
    assert dhow.tensor(np.arange(3, dtype=">i4"), device=device).tolist() == [0, 1, 2]
    assert dhow.tensor(2**64 - 1, dtype="u64", device=device).item() == 2**64 - 1


def test_making(device):
    assert dhow.zeros((2, 1), device=device).tolist() == [[0], [0]]
    assert dhow.ones(2, dtype=np.int32, device=device).tolist() == [1, 1]
    assert dhow.full((), 2**53 + 1, dtype="i64", device=device).item() == 2**53 + 1
    assert dhow.arange(1, 7, 2, device=device).tolist() == [1, 3, 5]
    assert dhow.arange(0.0, 1, 0.25, device=device).tolist() == [0, 0.25, 0.5, 0.75]
    assert dhow.empty((0, 3), device=device).numpy().shape == (0, 3)
    x = dhow.uniform((1000,), -1, 1, seed=3, device=device).numpy()
    np.testing.assert_array_equal(x, dhow.uniform((1000,), -1, 1, seed=3, device="cpu").numpy())
    assert -1 <= x.min() < -0.9 < 0.9 < x.max() < 1
    assert abs(dhow.normal((10000,), 2, 3, seed=3, device=device).mean().item() - 2) < 0.2


@pytest.mark.parametrize("key", [0, -1, np.int64(1), slice(1, None), (slice(None), 2), (0, 1, 2), (..., 1), (None, 1, ..., None), (slice(0, -1), slice(0, 9, 2)),
                                 (slice(None), slice(None), slice(3, 1)), ...])
def test_views_are_those_of_numpy(key, device):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    view = dhow.tensor(x, device=device)[key]
    assert view.shape == x[key].shape
    np.testing.assert_array_equal(view.numpy(), x[key])


def test_views_share_memory(device):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = dhow.tensor(x, device=device)
    t[0, 1:] = 7
    t[1, :, 0] = dhow.tensor([1.0, 2, 3], device=device)
    t[1, 0, 1:] = np.ones(3, np.float32)
    t[:, 2] = [9, 8, 7, 6]
    x[0, 1:], x[1, :, 0], x[1, 0, 1:], x[:, 2] = 7, [1, 2, 3], 1, [9, 8, 7, 6]
    np.testing.assert_array_equal(t.numpy(), x)
    for got, wanted in ((t.reshape(4, -1), x.reshape(4, -1)), (t.permute(2, 0, 1), x.transpose(2, 0, 1)), (t.flatten(1), x.reshape(2, 12)),
                        (t.narrow(2, 1, 2), x[:, :, 1:3]), (t.unsqueeze(0).squeeze(), x), (t[0, :1].expand(3, 4), np.repeat(x[0, :1], 3, 0)),
                        (t.transpose(0, 2).contiguous(), x.transpose(2, 1, 0)), (t.chunk(2, 1)[1], x[:, 2:])):
        np.testing.assert_array_equal(got.numpy(), wanted)
    assert [part.shape for part in t.chunk(2, 2)] == [(2, 3, 2)] * 2
    assert sum(row.sum().item() for row in t) == x.sum()


def test_numpy_shares_the_memory_of_the_cpu():
    t = dhow.zeros((2, 3), device="cpu")
    array = t.numpy()
    array[1, 2] = 5
    assert t[1, 2].item() == 5
    t += 1
    assert array[1, 2] == 6
    del t
    gc.collect()
    assert array.sum() == 11
    frozen = dhow.ones(3, device="cpu").freeze()
    assert not frozen.numpy().flags.writeable
    assert np.array(frozen).flags.writeable
    with pytest.raises(ValueError):
        np.asarray(frozen, dtype=np.float64, copy=False)


def test_devices_differ_and_copy(device):
    x = dhow.arange(5, device="cpu")
    assert x.to(device).device == device
    assert x.to(device).to("cpu").tolist() == [0, 1, 2, 3, 4]
    y = x.to(device).clone()
    y += 1
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_text_and_truth(device):
    t = dhow.tensor([[0.5, -1.25], [3, 4]], device=device)
    assert repr(t) == "tensor([[ 0.5000, -1.2500],\n        [ 3.0000,  4.0000]], f32[2, 2] on %s)" % device
    assert len(t) == 2 and t.ndim == 2 and t.size == 4
    assert bool(t[0, 0]) and float(t[0, 1]) == -1.25 and int(t[1, 0]) == 3
    assert [10, 20, 30][dhow.tensor(1, device=device)] == 20
    assert {t: 1}[t] == 1


def test_devices_tell_what_they_are(device):
    d = dhow.device(device)
    assert d.name == device and d.backend == device.split(":")[0] and d.kind in ("cpu", "gpu", "accelerator", "simulated")
    assert d.memory_bytes > 0 and d.compute_units > 0 and "f32" in d.dtypes and d.description
    assert d == device and d in dhow.devices() and str(d) == device
    before = d.memory()
    kept = dhow.zeros((1 << 20,), device=device)
    assert d.memory().live >= before.live + (4 << 20)
    del kept
    assert d.precision == "f32"
    d.precision = "reduced"
    assert d.precision == "reduced"
    with pytest.raises(dhow.errors.InvalidArgument, match="no precision of devices"):
        d.precision = "bf16"
    d.precision = "f32"
    d.sync()
    d.trim()


def test_tensors_are_released(device):
    d = dhow.device(device)
    x = dhow.zeros((1000,), device=device)
    gc.collect()
    before = d.memory().live
    for _ in range(2000):
        y = dhow.relu(x + 1)
    del y
    d.sync()
    gc.collect()
    assert d.memory().live <= before + (1 << 16)


def test_threads_compute_at_once(device):
    failures = []

    def work(seed):
        try:
            for i in range(50):
                x = dhow.uniform((64,), seed=seed * 100 + i, device=device)
                np.testing.assert_allclose((x * 2 - x).numpy(), x.numpy(), rtol=1e-5)
                with pytest.raises(dhow.errors.OutOfRange, match=f"index {seed + 100} "):
                    x[seed + 100]
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
