# SPDX-License-Identifier: Apache-2.0
"""PyTorch on CUDA beside dhow-bench-cuda: reads its JSON file, measures the same things, prints a table, adds to the file."""
import json
import sys
import time

import torch

torch.set_grad_enabled(False)
ROUNDS = 15


def median(fn, repeat=1):
    """Seconds of one run, as dhow-bench-cuda measures: a pause, once to warm up, then the measurement with one wait."""
    times = []
    for _ in range(ROUNDS):
        time.sleep(0.03)
        fn()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeat):
            fn()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / repeat)
    return sorted(times)[ROUNDS // 2]


def graph_of(fn):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph.replay


def predict_seconds(workers):
    """The best of two epochs over 8 GiB of rows, through a DataLoader that pins its batches; as bench/feed_cuda.c does."""
    model = torch.nn.Sequential(torch.nn.Linear(4096, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda().eval()
    rows = torch.utils.data.TensorDataset(torch.ones(128 * 4096, 4096))
    loader = torch.utils.data.DataLoader(rows, batch_size=4096, num_workers=workers, pin_memory=True)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        results = [model(x.cuda(non_blocking=True)).cpu() for (x,) in loader]
        torch.cat(results)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    with open(sys.argv[1]) as f:
        result = json.load(f)
    ours = {row["name"]: row for row in result["results"]}
    rows = []

    def add(name, against, mine, seconds, bar):
        rows.append({"name": name, "against": against, "dhow_seconds": mine, "peer_seconds": seconds,
                     "ratio": seconds / mine if mine else 0.0, "bar": bar})

    mlp = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(),
                              torch.nn.Linear(256, 10)).cuda().eval()
    for batch, bar in ((1, 3.0), (32, 3.0), (1024, 1.0)):
        row = ours.get("MLP batch %d, graph" % batch)
        x = torch.rand(batch, 784, device="cuda")
        eager, graph = median(lambda: mlp(x), 100), median(graph_of(lambda: mlp(x)), 100)
        if row:
            add("MLP batch %d, eager" % batch, "PyTorch eager", row["peer_seconds"], eager, bar)
            add("MLP batch %d, graph" % batch, "PyTorch CUDA graph", row["dhow_seconds"], graph, 1.0)
    for name, dtype, tf32 in (("f32", torch.float32, False), ("TF32", torch.float32, True), ("bf16", torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.rand(8192, 8192, device="cuda").to(dtype) - 0.5 for _ in range(2))
        out = torch.empty(8192, 8192, device="cuda", dtype=dtype)
        row = ours.get("matmul 8192 " + name)
        if row:
            add("matmul 8192 " + name, "PyTorch", row["dhow_seconds"], median(lambda: torch.mm(a, b, out=out)), 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    host, there = torch.ones(64 << 20), torch.empty(64 << 20, device="cuda")
    row = ours.get("pageable host to cuda, 256 MiB")
    if row:
        add("pageable host to cuda, 256 MiB", "PyTorch", row["dhow_seconds"], median(lambda: there.copy_(host)), 0)
    row = ours.get("create and release a tensor of 1 MiB")
    if row:
        add("create and release a tensor of 1 MiB", "PyTorch", row["figure"] * 1e-9,
            median(lambda: torch.empty(1 << 18, device="cuda"), 1000), 0)
    row = ours.get("predict over 8 GiB of pageable rows")
    if row:
        for workers in (0, 4):
            add("predict over 8 GiB of pageable rows", "PyTorch, DataLoader(pin_memory=True, num_workers=%d)" % workers,
                row["dhow_seconds"], predict_seconds(workers), 0)
    print("\nPyTorch %s, CUDA %s\n" % (torch.__version__, torch.version.cuda))
    for row in rows:
        state = "" if not row["bar"] else "%6.2f %s" % (row["bar"], "ok" if row["ratio"] >= row["bar"] else "MISS")
        print("%-44s %10.2f us %10.2f us %7.2f %s  %s" % (
            row["name"], row["dhow_seconds"] * 1e6, row["peer_seconds"] * 1e6, row["ratio"], state, row["against"]))
    result["pytorch"] = {"version": torch.__version__, "results": rows}
    with open(sys.argv[1], "w") as f:
        json.dump(result, f, indent=1)


main()
