#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `graphs COUNT SEED --save FOLDER` wrote with ONNX Runtime: second_opinion.py FOLDER.

Exit status 1 when numbers differ, 77 when onnxruntime is not installed. What ONNX Runtime refuses is counted.
"""
import glob
import os
import sys

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)


def read(path):
    inputs, outputs = {}, []
    for line in open(path):
        kind, number, tolerance, rank, *rest = line.split()
        rank = int(rank)
        shape = [int(x) for x in rest[:rank]]
        data = np.array([float(x) for x in rest[rank:]], dtype=np.float64).reshape(shape)
        if kind == "in":
            inputs[f"v{number}"] = data
        else:
            outputs.append((f"v{number}", data, float(tolerance)))
    return inputs, outputs


TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def differs(name, got, want, tolerance):
    got = np.asarray(got).astype(np.float64)
    if got.shape != want.shape:
        return f"{name} has shape {want.shape}, ONNX Runtime's {got.shape}"
    with np.errstate(all="ignore"):
        same = (np.abs(got - want) <= tolerance) | (got == want) | (~np.isfinite(want) & ~np.isfinite(got))
        same |= ~np.isfinite(got) & (np.abs(want) > 1e4) | ~np.isfinite(want) & (np.abs(got) > 1e4)
    if same.all():
        return None
    at = np.unravel_index(np.argmin(same), same.shape) if same.shape else ()
    return f"{name}{list(map(int, at))} is {want[at]:.9g}, ONNX Runtime's {got[at]:.9g} (tolerance {tolerance:.3g}, {int((~same).sum())} of {same.size})"


def judge(path):
    """'same', 'refused: why' or 'wrong: where'."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    inputs, outputs = read(path[:-5] + ".txt")
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {i.name: inputs[i.name].astype(TYPES[i.type]) for i in session.get_inputs()}
        got = session.run(None, feed)
    except Exception as e:  # noqa: BLE001: any refusal is one
        return "refused: " + str(e).split("\n")[0][-110:]
    for (name, want, tolerance), g in zip(outputs, got):
        if d := differs(name, g, want, 4 * tolerance):
            return "wrong: " + d
    return "same"


def judge_apart(path):
    """In a process of its own: ONNX Runtime ends some of them."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(w, judge(path).encode()[:4000])
        os._exit(0)
    os.close(w)
    answer = os.read(r, 4000).decode()
    os.close(r)
    os.waitpid(child, 0)
    return answer or "refused: it crashed"


def main(folder):
    counts = {"same": 0, "refused": 0, "wrong": 0}
    reasons = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.onnx"))):
        kind, _, detail = judge_apart(path).partition(": ")
        counts[kind] += 1
        if kind == "wrong":
            print(f"{os.path.basename(path)}: {detail}")
        if kind == "refused":
            reasons[detail] = reasons.get(detail, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda r: -r[1])[:12]:
        print(f"  refused {count}: {reason}")
    print(f"{counts['same']} the same, {counts['refused']} refused by ONNX Runtime, {counts['wrong']} differ")
    return counts["wrong"] != 0


if len(sys.argv) != 2:
    print(__doc__)
    sys.exit(2)
sys.exit(main(sys.argv[1]))
