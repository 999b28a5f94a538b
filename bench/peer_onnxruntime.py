# SPDX-License-Identifier: Apache-2.0
"""Models on the CPU beside ONNX Runtime: peer_onnxruntime.py DHOW_RUN MODELS RESULT.json [THREADS...]

MODELS holds folders with model.onnx and in0.npy ...; each model runs in turns with both, on 1 and 2 threads unless told
otherwise. Prints a table with the geometric mean, and the time of a whole process that loads and runs once.
"""
import json
import math
import os
import subprocess
import sys
import time

import numpy
import onnxruntime

ROUNDS = 3


def inputs_of(folder):
    files = []
    while os.path.exists(os.path.join(folder, "in%d.npy" % len(files))):
        files.append(os.path.join(folder, "in%d.npy" % len(files)))
    return files


def run_dhow(program, folder, threads, count):
    command = [program, os.path.join(folder, "model.onnx"), "--device", "cpu", "--bench", str(count), "--json"]
    for path in inputs_of(folder):
        command += ["--input", path]
    out = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "DHOW_NUM_THREADS": str(threads)})
    return json.loads(out.stdout)["bench"]["best_ms"]


def run_peer(session, feed, count):
    best = math.inf
    for _ in range(count):
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def session_of(folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])


def measure(program, folder, threads):
    session = session_of(folder, threads)
    feed = {node.name: numpy.load(path) for node, path in zip(session.get_inputs(), inputs_of(folder))}
    once = run_peer(session, feed, 3)
    count = max(3, min(300, int(300 / once)))
    ours = theirs = math.inf
    for _ in range(ROUNDS):
        theirs = min(theirs, run_peer(session, feed, count))
        ours = min(ours, run_dhow(program, folder, threads, count))
    return ours, theirs


def main():
    program, models, result = sys.argv[1:4]
    rows = []
    for threads in [int(t) for t in sys.argv[4:]] or [1, 2]:
        ratios = []
        print("\nONNX Runtime %s, %d threads" % (onnxruntime.__version__, threads))
        for name in sorted(os.listdir(models)):
            folder = os.path.join(models, name)
            if not os.path.exists(os.path.join(folder, "model.onnx")):
                continue
            ours, theirs = measure(program, folder, threads)
            ratios.append(theirs / ours)
            rows.append({"model": name, "threads": threads, "dhow_ms": ours, "peer_ms": theirs, "ratio": theirs / ours})
            print("  %-24s dhow %9.3f ms, ONNX Runtime %9.3f ms, ratio %.2f" % (name, ours, theirs, theirs / ours), flush=True)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rows.append({"model": "geometric mean", "threads": threads, "ratio": mean})
        print("  geometric mean %.2f, lowest %.2f (bars: 0.9, 0.5)" % (mean, min(ratios)))
    with open(result, "w") as f:
        json.dump({"onnxruntime": onnxruntime.__version__, "results": rows}, f, indent=1)
        f.write("\n")


main()
