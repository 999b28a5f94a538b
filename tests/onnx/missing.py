# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX Runtime runs on the CPU and dhow does not have.

missing.py LIST_OPERATORS LIST compares them with those that LIST names, each with a reason after a tab; for the version of ONNX Runtime
in the first line of LIST, since others have more. It exits with 77 for another version, which it prints the operators of.
"""
import re
import subprocess
import sys

import onnxruntime  # type: ignore[import-untyped]
from onnxruntime.capi import onnxruntime_pybind11_state as state  # type: ignore[import-untyped]


def main(program: str, path: str) -> int:
    own = set(re.findall(r"^\| ([\w.:]+) \|", subprocess.run([program], capture_output=True, check=True, text=True).stdout, re.M))
    theirs = {(d.domain + "::" if d.domain else "") + d.op_name for d in state.get_all_opkernel_def() if d.provider == "CPUExecutionProvider"}
    with open(path, encoding="utf-8") as file:
        first, *lines = file.read().splitlines()
    known = dict(line.split("\t") for line in lines)
    missing = theirs - own
    if onnxruntime.__version__ not in first:
        print("ONNX Runtime", onnxruntime.__version__, "is not that of", path, *sorted(missing - set(known)), sep="\n")
        return 77
    for name in sorted(missing - set(known)):
        print(f"dhow has no {name}, and {path} does not say why")
    for name in sorted(set(known) - missing):
        print(f"{path} says that dhow has no {name}, which is not so")
    print(f"{len(theirs & own)} of {len(theirs)} operators that ONNX Runtime {onnxruntime.__version__} runs on the CPU")
    return int(missing != set(known))


sys.exit(main(*sys.argv[1:]))
