# SPDX-License-Identifier: Apache-2.0
"""Compares the attributes that dhow knows of each operator with ONNX's own schemas: attributes.py LIST_OPERATORS."""
import subprocess
import sys

try:
    from onnx import defs
except ImportError:
    print("Python's onnx is not there: scripts/setup --test fetches it")
    sys.exit(77)


def attributes_of(name, since, until):
    """Of all versions of an operator that are current from opset `since` to `until`, without what dhow leaves out."""
    domain, _, short = name.rpartition("::")
    versions = sorted((s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, short)),
                      key=lambda s: s.since_version)
    ends = [s.since_version for s in versions[1:]] + [sys.maxsize]
    given = {a for s, end in zip(versions, ends) if end > since and s.since_version <= until for a in s.attributes}
    return given - {"consumed_inputs", "paddings"}


wrong = 0
listed = subprocess.run([sys.argv[1], "--attributes"], check=True, capture_output=True, text=True).stdout.splitlines()
oldest = {}
latest = {}
known = {}
for line in listed:
    name, since, until, *attributes = line.split()
    oldest[name] = min(oldest.get(name, sys.maxsize), int(since))
    latest[name] = max(latest.get(name, 0), int(until))
    known[name] = set(attributes)
for name, attributes in known.items():
    if name.startswith("com.microsoft::") or name == "SimplifiedLayerNormalization":
        continue  # ONNX Runtime's own
    given = attributes_of(name, oldest[name], latest[name])
    if given != attributes:
        print(f"{name}: ONNX gives it '{' '.join(sorted(given))}', "
              f"core/model/operators/attributes.c '{' '.join(sorted(attributes))}'")
        wrong += 1
print(f"{len(known)} operators, {wrong} of them with other attributes")
sys.exit(wrong > 0 or len(known) < 100)
