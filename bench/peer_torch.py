# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside dhow-bench: the same shapes, out= into existing tensors. Prints a table and adds to a JSON file."""
import json
import sys
import time

import torch

torch.set_grad_enabled(False)
torch.set_num_threads(2 if len(sys.argv) < 3 else int(sys.argv[2]))


def median(fn, repeat, rounds=15):
    """As dhow-bench measures: a pause, once to warm up, then the measurement."""
    times = []
    for _ in range(rounds):
        time.sleep(0.03)
        fn()
        start = time.perf_counter()
        for _ in range(repeat):
            fn()
        times.append((time.perf_counter() - start) / repeat)
    return sorted(times)[rounds // 2]


def main():
    a, b, y = torch.rand(16), torch.rand(16), torch.empty(16)
    rows = {"add of 16 floats into a tensor, cpu": median(lambda: torch.add(a, b, out=y), 20000)}
    for m, k, n in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (32, 1000, 500), (1, 4096, 4096)):
        x, w, out = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
        repeat = 20 if m * n * k < 5e7 else 4 if m * n * k < 5e8 else 1
        rows["matmul %dx%dx%d, constant weight, cpu" % (m, k, n)] = median(lambda: torch.mm(x, w, out=out), repeat)
    x, z, out = torch.rand(4096, 4096) * 2 - 1, torch.rand(4096, 4096), torch.empty(4096, 4096)
    few, scaled = torch.rand(4 << 20), torch.empty(4 << 20)
    rows["multiply 4 M floats by a number, cpu"] = median(lambda: torch.mul(few, 1.5, out=scaled), 4)
    g, h = torch.rand(4096), torch.rand(4096)
    rows["relu, 16 M floats, cpu"] = median(lambda: torch.clamp_min(x, 0, out=out), 1)
    rows["add, 16 M floats, cpu"] = median(lambda: torch.add(x, z, out=out), 1)
    rows["gelu (erf; peer: tanh form), 16 M floats, cpu"] = median(lambda: torch._C._nn.gelu(x, out=out), 1)
    rows["softmax, 4096x4096, cpu"] = median(lambda: torch.softmax(x, 1, out=out), 1)
    mean, rstd = torch.empty(4096, 1), torch.empty(4096, 1)
    rows["layernorm, 4096x4096, cpu"] = median(
        lambda: torch.ops.aten.native_layer_norm.out(x, (4096,), g, h, 1e-5, out0=out, out1=mean, out2=rstd), 1)
    with open(sys.argv[1]) as f:
        result = json.load(f)
    ours = {}
    for row in result["results"]:
        ours.setdefault(row["name"], row.get("dhow_seconds", row.get("figure", 0) * 1e-9))
    result["pytorch"] = {"version": torch.__version__, "threads": torch.get_num_threads(), "results": []}
    print("\nPyTorch %s, %d threads, out= where it has one\n" % (torch.__version__, torch.get_num_threads()))
    for name, seconds in rows.items():
        ratio = seconds / ours[name] if name in ours else 0
        print("%-48s %10.3f us %8.2f times dhow's time" % (name, seconds * 1e6, ratio))
        result["pytorch"]["results"].append({"name": name, "seconds": seconds, "ratio": ratio})
    with open(sys.argv[1], "w") as f:
        json.dump(result, f, indent=1)


main()
