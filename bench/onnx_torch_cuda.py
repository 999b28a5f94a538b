# SPDX-License-Identifier: Apache-2.0
"""ONNX models on CUDA: dhow's results against ONNX Runtime's on the processor, and its times beside PyTorch's.

    onnx_torch_cuda.py LIBDHOW [--check] [--threads N] [--precisions f32,tf32,f16] [--json FILE] FOLDER...

FOLDER holds model.onnx and in0.npy ... as export_models.py writes them. Times are of graphs and of single runs, in f32, TF32 and
f16; PyTorch's are of the network that the folder is named after, tv-<of torchvision>, tm-<of timm> or bert, perhaps with -b<batch>, as
CUDA graphs, with channels last in f16. --check leaves the times out.
"""
import argparse
import ctypes
import json
import os
import re
import sys
import time
import warnings

import numpy

import open_dhow

warnings.filterwarnings("ignore")
NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bool": 13, "int64": 11, "int32": 9, "uint8": 6, "int8": 5}
PRECISIONS = {"f32": 0, "tf32": 1, "f16": 3}
ALLOWED = {"f32": 2e-4, "tf32": 2e-2, "f16": 5e-2}
WORK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Dhow(open_dhow.Dhow):
    def __init__(self, library):
        super().__init__(library)
        self.stream = ctypes.c_void_p()
        self.ok(self.lib.dhow_stream_create(self.device, ctypes.byref(self.stream)))

    def tensor(self, array):
        array = numpy.ascontiguousarray(array)
        out = ctypes.c_void_p()
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        self.ok(self.lib.dhow_tensor_from_data(self.device, NUMBERS[array.dtype.name], array.ndim, shape, array.ctypes.data_as(ctypes.c_void_p), ctypes.byref(out)))
        return out

    def read(self, handle, like):
        out = numpy.zeros_like(like)
        self.ok(self.lib.dhow_tensor_read(handle, out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(out.nbytes)))
        return out

    def sync(self):
        self.ok(self.lib.dhow_stream_sync(self.stream))


class Run:
    """A model on the device, with its tensors."""

    def __init__(self, dhow, path, inputs, outputs, precision):
        self.dhow, self.model, self.graph = dhow, ctypes.c_void_p(), ctypes.c_void_p()
        dhow.ok(dhow.lib.dhow_model_load(dhow.context, path.encode(), ctypes.byref(self.model)))
        dhow.ok(dhow.lib.dhow_model_set_precision(self.model, PRECISIONS[precision]))
        dhow.ok(dhow.lib.dhow_model_to(self.model, dhow.device))
        self.x = [dhow.tensor(a) for a in inputs]
        self.ins, self.outs = (ctypes.c_void_p * len(inputs))(*self.x), (ctypes.c_void_p * outputs)()
        dhow.ok(dhow.lib.dhow_model_run(self.model, dhow.stream, self.ins, len(inputs), self.outs, outputs))
        dhow.sync()

    def __call__(self):
        self.dhow.ok(self.dhow.lib.dhow_model_run_into(self.model, self.dhow.stream, self.ins, len(self.ins), self.outs, len(self.outs)))

    def record(self):
        lib = self.dhow.lib
        self.work = WORK(lambda user, stream: lib.dhow_model_run_into(self.model, ctypes.c_void_p(stream), self.ins, len(self.ins), self.outs, len(self.outs)))
        self.dhow.ok(lib.dhow_graph_record(self.dhow.stream, self.work, None, ctypes.byref(self.graph)))
        return lib.dhow_graph_reason(self.graph).decode()

    def replay(self):
        self.dhow.ok(self.dhow.lib.dhow_graph_replay(self.graph, self.dhow.stream))

    def close(self):
        if self.graph:
            self.dhow.lib.dhow_graph_release(self.graph)
        for t in list(self.x) + [ctypes.c_void_p(v) for v in self.outs]:
            self.dhow.lib.dhow_tensor_release(t)
        self.dhow.lib.dhow_model_release(self.model)


def median(fn, sync, rounds=5):
    fn()
    sync()
    start = time.perf_counter()
    fn()
    sync()
    repeat = max(1, min(100, int(0.02 / (time.perf_counter() - start))))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            fn()
        sync()
        times.append((time.perf_counter() - start) / repeat)
    return sorted(times)[rounds // 2]


def expected(path, inputs, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), inputs)})


def error_of(got, want):
    worst = 0.0
    for g, w in zip(got, want):
        if w.size == 0:
            continue
        if w.dtype.kind != "f":
            worst = max(worst, float((g != w).mean()))
            continue
        g, w = g.astype(numpy.float64), w.astype(numpy.float64)
        if (numpy.isnan(g) != numpy.isnan(w)).any():
            return float("nan")
        g, w = numpy.nan_to_num(g), numpy.nan_to_num(w)
        worst = max(worst, float(numpy.linalg.norm(g - w) / max(1e-30, numpy.linalg.norm(w))))
    return worst


def peer(name, inputs, precisions):
    """PyTorch's seconds by precision: {"f32": (graph, eager), ...}"""
    import torch
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    network = re.sub("-b[0-9x]+$", "", name)
    kind, _, model = network.partition("-")
    if kind == "tv":
        import torchvision
        module = torchvision.models.get_model(model, weights=None)
    elif kind == "tm":
        import timm
        module = timm.create_model(model, pretrained=False)
    elif kind == "bert":
        from transformers import BertConfig, BertModel
        module = BertModel(BertConfig())
    else:
        return {}
    found = {}
    for precision in precisions:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        m = module.cuda().eval()
        x = torch.from_numpy(inputs[0]).cuda()
        if precision == "f16":
            m = m.half()
            if kind != "bert":
                m, x = m.to(memory_format=torch.channels_last), x.half().to(memory_format=torch.channels_last)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                m(x)
        torch.cuda.synchronize()
        eager = median(lambda: m(x), torch.cuda.synchronize)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                m(x)
            found[precision] = (median(graph.replay, torch.cuda.synchronize), eager)
        except RuntimeError:
            torch.cuda.synchronize()
            found[precision] = (eager, eager)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--json")
    parser.add_argument("folders", nargs="+")
    given = parser.parse_args()
    precisions = [word for word in PRECISIONS if word in given.precisions.split(",")]
    dhow, rows, failed = Dhow(given.library), [], 0
    for folder in given.folders:
        name, path = os.path.basename(folder.rstrip("/")), os.path.join(folder, "model.onnx")
        inputs = []
        while os.path.exists(os.path.join(folder, "in%d.npy" % len(inputs))):
            inputs.append(numpy.load(os.path.join(folder, "in%d.npy" % len(inputs))))
        row = {"name": name}
        rows.append(row)
        try:
            want = expected(path, inputs, given.threads)
            others = {} if given.check else peer(name, inputs, precisions)
        except Exception as failure:  # whatever a peer says
            print("%-28s peer: %s" % (name, str(failure)[:200]), flush=True)
            continue
        for precision in precisions:
            try:
                run = Run(dhow, path, inputs, len(want), precision)
                got = [dhow.read(ctypes.c_void_p(h), w) for h, w in zip(run.outs, want)]
                error = error_of(got, want)
                row[precision] = {"error": error}
                off = not error <= ALLOWED[precision]
                failed += off
                text = "%-28s %-4s error %.1e%s" % (name, precision, error, "  OFF" if off else "")
                if not given.check:
                    eager = median(run, dhow.sync)
                    reason = run.record()
                    graph = median(run.replay, dhow.sync)
                    again = error_of([dhow.read(ctypes.c_void_p(h), w) for h, w in zip(run.outs, want)], want)
                    theirs = others.get(precision)
                    row[precision].update(graph_seconds=graph, eager_seconds=eager, error_of_replay=again)
                    text += "  graph %9.1f us, single %9.1f us" % (graph * 1e6, eager * 1e6)
                    if not again <= max(ALLOWED[precision], error):
                        text += "  REPLAY OFF %.1e" % again
                        failed += 1
                    if theirs:
                        row[precision].update(peer_graph_seconds=theirs[0], peer_eager_seconds=theirs[1])
                        text += "; PyTorch %9.1f, %9.1f; ratio %5.2f %5.2f" % (theirs[0] * 1e6, theirs[1] * 1e6, theirs[0] / graph, theirs[1] / eager)
                    if reason:
                        text += "; no graph: " + reason[:120]
                run.close()
                print(text, flush=True)
            except RuntimeError as failure:
                failed += 1
                row[precision] = {"failure": str(failure)}
                print("%-28s %-4s FAIL %s" % (name, precision, str(failure)[:300]), flush=True)
    if given.json:
        with open(given.json, "w") as f:
            json.dump(rows, f, indent=1)
    print("%d models, %d results off or failed" % (len(rows), failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
