# SPDX-License-Identifier: Apache-2.0
"""Finds models that meet numbers below the least normal one, by which a processor takes a hundred times as long to multiply.

subnormals.py BUILD FOLDER... runs each folder's model.onnx on its in0.npy ... with one thread by dhow-bench-serve of a build with
DHOW_BENCH=ON, as it is and with such numbers taken for 0, in turns, and prints the best time of each and their ratio, the largest first.
Where that is well above 1, `dhow-run --report` names the steps that take long.
"""
import os
import sys

from operators import Server


def measure(programs, folder):
    plain = dict(os.environ, DHOW_NUM_THREADS="1", OMP_NUM_THREADS="1", DHOW_LOG="error",
                 DHOW_PLUGIN_PATH=os.path.join(programs, "../lib/dhow/plugins"))
    arguments = [os.path.join(programs, "dhow-bench-serve"), folder, "cpu", "f32"]
    with Server(arguments, plain) as one, Server(arguments, dict(plain, DHOW_BENCH_FLUSH="1")) as other:
        first = max(one.run(1), other.run(1))
        times = max(1, min(100, int(100 / first)))
        rounds = [(one.run(times), other.run(times)) for _ in range(5)]
    return min(r[0] for r in rounds), min(r[1] for r in rounds)


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    programs = os.path.join(os.path.abspath(sys.argv[1]), "bin")
    rows = [measure(programs, folder) + (folder,) for folder in sys.argv[2:]]
    for plain, flushed, folder in sorted(rows, key=lambda row: row[1] / row[0]):
        print("%6.2f %9.3f ms %9.3f ms  %s" % (plain / flushed, plain, flushed, os.path.basename(folder.rstrip("/"))))


if __name__ == "__main__":
    main()
