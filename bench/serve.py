# SPDX-License-Identifier: Apache-2.0
"""What serve.c is for servers in Python: answers as serve.h says."""
import hashlib
import os
import pathlib
import sys
import tempfile
import time

import numpy

# Peers write messages of their own, which are no answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def inputs_of(folder):
    """FOLDER/in0.npy ... in order."""
    arrays = []
    while os.path.exists(path := os.path.join(folder, "in%d.npy" % len(arrays))):
        arrays.append(numpy.load(path))
    return arrays


def converted(folder, suffix, version, convert):
    """The model in a format of the peer's own, which convert(model.onnx, path without suffix) makes once for each model and version.
    Ends the program when it does not."""
    model = (pathlib.Path(folder) / "model.onnx").resolve()
    about = model.stat()
    key = hashlib.sha256(("%s %d %d %s %s" % (model, about.st_size, about.st_mtime_ns, suffix, version)).encode()).hexdigest()[:16]
    target = pathlib.Path(tempfile.gettempdir()) / "dhow-bench-converted" / ("%s-%s" % (model.parent.name, key))
    path = target / "model"
    if not target.exists():
        target.mkdir(parents=True)
        convert(str(model), str(path))
    if not path.with_suffix(suffix).exists():
        sys.exit("bench: %s cannot be converted; %s is where it was tried" % (model, target))
    return str(path)


def serve(run, outputs, version):
    """run() runs once; outputs() gives the latest f32 arrays, in order."""
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "version":
            print(version, file=answers, flush=True)
        elif command == "save":
            run()
            with open(argument, "wb") as f:
                for array in outputs():
                    f.write(numpy.ascontiguousarray(array, numpy.float32).tobytes())
            print("saved", file=answers, flush=True)
        else:
            times = []
            run()
            for _ in range(int(argument)):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            times.sort()
            print("%.9e %.9e" % (times[0], times[len(times) // 2]), file=answers, flush=True)
