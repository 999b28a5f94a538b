# SPDX-License-Identifier: Apache-2.0
"""dhow's operations on CUDA beside PyTorch's, on the same memory, in turns: rows_torch_cuda.py LIBDHOW [RESULTS.json]

Prints a table: both times, their ratio (more is better), what share of a copy's speed dhow reaches, and whether both agree.
With a file adds to it.
"""
import ctypes
import json
import os
import sys
import time

import torch

import open_dhow

torch.set_grad_enabled(False)
torch.manual_seed(3)
torch.backends.cudnn.benchmark = True
F = torch.nn.functional
NUMBERS = {torch.float32: 1, torch.float16: 3, torch.bfloat16: 4}
SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
ROUNDS = 7
HALF = (torch.float32, torch.float16)


def window(kernel, stride, pad, groups=1):
    return open_dhow.Window((kernel, kernel), (stride, stride), (pad,) * 4, (1, 1), groups)


class Dhow(open_dhow.Dhow):
    def wrap(self, t):
        """A tensor over PyTorch's memory, strides and all."""
        out, n = ctypes.c_void_p(), max(t.dim(), 1)
        numbers = {**NUMBERS, torch.int64: 11}
        shape, strides = (ctypes.c_int64 * n)(*t.shape), (ctypes.c_int64 * n)(*t.stride())
        span = 1 + sum((s - 1) * st for s, st in zip(t.shape, t.stride()))
        self.ok(self.lib.dhow_tensor_wrap_device(self.device, numbers[t.dtype], t.dim(), shape, strides, ctypes.c_uint64(t.data_ptr()), ctypes.c_uint64(0),
                                                 ctypes.c_uint64(span * t.element_size()), None, None, ctypes.byref(out)))
        return out

    def sync(self):
        self.ok(self.lib.dhow_device_sync(self.device))


def once(fn, sync, repeat):
    start = time.perf_counter()
    for _ in range(repeat):
        fn()
    sync()
    return (time.perf_counter() - start) / repeat


def pair(ours, sync, theirs):
    """Medians of both, in turns; each measurement takes some milliseconds."""
    for fn, end in ((ours, sync), (theirs, torch.cuda.synchronize)):
        once(fn, end, 2)
    repeat = [max(1, min(500, int(3e-3 / max(1e-7, once(fn, end, 5))))) for fn, end in ((ours, sync), (theirs, torch.cuda.synchronize))]
    mine, peer = [], []
    for _ in range(ROUNDS):
        mine.append(once(ours, sync, repeat[0]))
        peer.append(once(theirs, torch.cuda.synchronize, repeat[1]))
    return sorted(mine)[ROUNDS // 2], sorted(peer)[ROUNDS // 2]


def random(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(dtype)


def cases():
    """name, function of dhow, inputs, arguments, output, PyTorch's: of the inputs into the output or a new tensor; relative error allowed."""
    total = 64 << 20
    i32, flt = ctypes.c_int32, ctypes.c_float
    for dtype in HALF:
        short, allowed = SHORT[dtype], 1e-5 if dtype == torch.float32 else 3e-3
        for cols in (64, 128, 256, 512, 1024, 4096, 16384):
            x = random(total // cols, cols, dtype=dtype)
            y, g, b = torch.empty_like(x), random(cols, dtype=dtype), random(cols, dtype=dtype)
            yield f"softmax of {cols} {short}", "softmax", [x], [i32(1)], y, lambda: F.softmax(x, 1), allowed
            yield f"layernorm of {cols} {short}", "layernorm", [x, g, b], [flt(1e-5)], y, lambda: F.layer_norm(x, (cols,), g, b), allowed
            s, c = torch.empty(x.shape[0], device="cuda", dtype=dtype), torch.empty(cols, device="cuda", dtype=dtype)
            yield f"sum of rows of {cols} {short}", "reduce_sum", [x], [i32(1)], s, lambda: torch.sum(x, 1, out=s), allowed
            if cols >= 256:
                yield f"sum of {cols} columns {short}", "reduce_sum", [x], [i32(0)], c, lambda: torch.sum(x, 0, out=c), allowed * 30
        x, z, y = random(total, dtype=dtype), random(total, dtype=dtype), torch.empty(total, device="cuda", dtype=dtype)
        for name, fn in (("relu", torch.relu), ("gelu", F.gelu), ("silu", F.silu), ("tanh", torch.tanh), ("exp", torch.exp)):
            yield f"{name} {short}", name, [x], [], y, (lambda fn=fn: fn(x)), allowed
        yield f"add {short}", "add", [x, z], [], y, lambda: torch.add(x, z, out=y), allowed
        rows, row = x.view(-1, 1024), z[:1024].clone()
        yield f"mul by a row {short}", "mul", [rows, row], [], y.view(-1, 1024), lambda: torch.mul(rows, row, out=y.view(-1, 1024)), allowed
        column = z[:rows.shape[0]].clone().view(-1, 1)
        yield f"mul by a column {short}", "mul", [rows, column], [], y.view(-1, 1024), lambda: torch.mul(rows, column, out=y.view(-1, 1024)), allowed
        other = torch.float16 if dtype == torch.float32 else torch.float32
        w = torch.empty(total, device="cuda", dtype=other)
        yield f"cast {short} to {SHORT[other]}", "cast", [x], [], w, lambda: w.copy_(x), allowed
        for shape, order in (((8192, 8192), (1, 0)), ((256, 64, 4096), (0, 2, 1)), ((256, 4096, 64), (0, 2, 1)), ((32, 512, 16, 256), (0, 2, 1, 3)),
                             ((64, 3, 512, 682), (0, 2, 3, 1)), ((64, 512, 682, 3), (0, 3, 1, 2)), ((64, 32, 8, 64, 64), (4, 1, 2, 3, 0))):
            count = 1
            for extent in shape:
                count *= extent
            if count > total:
                continue
            v = x[:count].view(shape).permute(order)
            to = y[:count].view(v.shape)
            yield f"permute {shape} by {order} {short}", "copy", [v], [], to, (lambda to=to, v=v: to.copy_(v)), 0
        v, to = x.view(8192, 8192)[:, 1:8001], y[:8192 * 8000].view(8192, 8000)
        yield f"copy of 8192 rows of 8000, from 1 on {short}", "copy", [v], [], to, lambda: to.copy_(v), 0
        table, index = x.view(-1, 1024), torch.randint(0, total // 1024, (32768,), device="cuda")
        taken = y.view(-1, 1024)[:32768]
        yield f"gather 32768 rows of 1024 {short}", "gather", [table, index], [], taken, lambda: torch.index_select(table, 0, index, out=taken), 0
        image = x[:32 * 64 * 112 * 112].view(32, 64, 112, 112)
        pooled = y[:32 * 64 * 56 * 56].view(32, 64, 56, 56)
        yield f"maxpool2d 32x64x112x112 by 3, 2 {short}", "maxpool2d", [image], [window(3, 2, 1)], pooled, lambda: F.max_pool2d(image, 3, 2, 1), 0
        whole = y[:32 * 64].view(32, 64, 1, 1)
        yield f"avgpool2d 32x64x112x112 whole {short}", "avgpool2d", [image], [window(112, 1, 0)], whole, lambda: F.avg_pool2d(image, 112), allowed
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        short, allowed = SHORT[dtype], 1e-5 if dtype == torch.float32 else 5e-3 if dtype == torch.float16 else 3e-2
        for m, k, n in ((4096, 4096, 4096), (512, 768, 3072), (32, 4096, 4096), (1, 4096, 14336)):
            a, b = random(m, k, dtype=dtype), random(n, k, dtype=dtype)
            y = torch.empty(m, n, device="cuda", dtype=dtype)
            yield f"linear {m}x{k} to {n} {short}", "linear", [a, b, None], [], y, (lambda a=a, b=b: F.linear(a, b)), allowed
        a, b, y = random(96, 512, 64, dtype=dtype), random(96, 64, 512, dtype=dtype), torch.empty(96, 512, 512, device="cuda", dtype=dtype)
        yield f"96 products 512x64x512 {short}", "matmul", [a, b], [], y, lambda: torch.bmm(a, b, out=y), allowed
    for dtype in HALF:
        short, allowed = SHORT[dtype], 1e-5 if dtype == torch.float32 else 5e-3
        for n, c, side, o, kernel, stride, groups in ((32, 64, 56, 64, 3, 1, 1), (32, 256, 14, 1024, 1, 1, 1), (32, 3, 224, 64, 7, 2, 1), (32, 512, 7, 512, 3, 1, 1),
                                                      (32, 144, 56, 144, 3, 1, 144), (1, 64, 56, 64, 3, 1, 1)):
            x, w, b = random(n, c, side, side, dtype=dtype), random(o, c // groups, kernel, kernel, dtype=dtype), random(o, dtype=dtype)
            to = side // stride
            y = torch.empty(n, o, to, to, device="cuda", dtype=dtype)
            yield (f"conv2d {n}x{c}x{side}x{side} to {o} by {kernel}, {stride}, groups {groups} {short}", "conv2d", [x, w, b],
                   [window(kernel, stride, kernel // 2, groups)], y, lambda: F.conv2d(x, w, b, stride, kernel // 2, 1, groups), allowed)


def main():
    dhow = Dhow(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    source, to = random(128 << 20), torch.empty(128 << 20, device="cuda")
    copied = min(once(lambda: to.copy_(source), torch.cuda.synchronize, 10) for _ in range(5))
    speed = 2 * source.numel() * 4 / copied
    del source, to
    print("a copy moves %.0f GB/s\n%-56s %10s %10s %7s %6s  error" % (speed / 1e9, "", "dhow us", "torch us", "ratio", "copy"))
    rows = []
    only = os.environ.get("ROWS", "")
    for name, function, inputs, arguments, y, theirs, allowed in cases():
        if only not in name:
            continue
        row = {"name": name}
        rows.append(row)
        try:
            handles = [None if t is None else dhow.wrap(t) for t in inputs] + [dhow.wrap(y)]
            passed = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments]
            call = getattr(dhow.lib, "dhow_" + function)

            if function == "copy":
                def ours():
                    dhow.ok(dhow.lib.dhow_copy_async(None, handles[0], handles[1], 0))
            else:
                def ours():
                    dhow.ok(call(None, *handles[:-1], *passed, handles[-1]))
            want = theirs().float().reshape(-1).clone()
            y.fill_(77)
            torch.cuda.synchronize()
            ours()
            dhow.sync()
            got = y.float().reshape(-1)
            error = ((got - want).norm() / want.norm().clamp_min(1e-30)).item()
            mine, peer = pair(ours, dhow.sync, theirs)
            moved = sum(t.numel() * t.element_size() for t in inputs if t is not None) + y.numel() * y.element_size()
            if function == "gather":
                moved = 2 * y.numel() * y.element_size()
            row.update(dhow_seconds=mine, peer_seconds=peer, ratio=peer / mine, copy_share=moved / mine / speed, error=error)
            print("%-56s %10.2f %10.2f %7.2f %6.2f  %.1e%s" % (name, mine * 1e6, peer * 1e6, peer / mine, row["copy_share"], error,
                                                             "" if error <= allowed else "  OFF"), flush=True)
            del want, got
            for h in handles:
                dhow.lib.dhow_tensor_release(h)
        except RuntimeError as failure:
            row["failure"] = str(failure)
            print("%-56s %s" % (name, str(failure)[:200]), flush=True)
    if len(sys.argv) > 2:
        with open(sys.argv[2]) as f:
            result = json.load(f)
        result["rows"] = {"version": torch.__version__, "copy_bytes_a_second": speed, "results": rows}
        with open(sys.argv[2], "w") as f:
            json.dump(result, f, indent=1)
    return any(row.get("error", 0) != row.get("error", 0) or "failure" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
