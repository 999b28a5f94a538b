# SPDX-License-Identifier: Apache-2.0
"""PyTorch as one of the processes that dhow-bench compares, see serve.h: serve_torch.py FOLDER THREADS PRECISION

Builds the network of make_models.py by PyTorch's own modules with the weights of FOLDER/weights. PRECISION is f32, compiled for
torch.compile in f32, or bf16 for weights and inputs in bf16.
"""
import os
import sys

import numpy
import torch

import serve

folder, threads, precision = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(threads)
torch.set_grad_enabled(False)


def network(weights):
    if "layers.0.linear1.weight" in weights:
        layer = torch.nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True)
        return torch.nn.TransformerEncoder(layer, 6)
    linears = [torch.nn.Linear(*reversed(w.shape)) for name, w in weights.items() if name.endswith("weight")]
    steps = []
    for linear in linears:
        steps += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*steps[:-1])


files = sorted(os.listdir(os.path.join(folder, "weights")))
weights = {name[:-4]: torch.from_numpy(numpy.load(os.path.join(folder, "weights", name))) for name in files}
model = network(weights).eval()
model.load_state_dict(weights)
x = torch.from_numpy(numpy.load(os.path.join(folder, "in0.npy")))
if precision == "bf16":
    model, x = model.to(torch.bfloat16), x.to(torch.bfloat16)
if precision == "compiled":
    model = torch.compile(model, mode="max-autotune")
results = []


def run():
    results[:] = [model(x)]


with torch.inference_mode():
    run()
    serve.serve(run, lambda: [result.float().numpy() for result in results], torch.__version__)
