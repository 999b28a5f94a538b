# SPDX-License-Identifier: Apache-2.0
"""PyTorch as one of the processes that the group "training" compares, see serve.h: train_torch.py NETWORK THREADS [bf16]

One run is a step of AdamW on a batch, whose loss is read. Networks, weights and batches are those of train_dhow.c.
"""
import sys

import numpy
import torch
from torch import nn

import serve

name, threads, half = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3
torch.set_num_threads(threads)


def numbers(shape, bound):
    count = torch.Size(shape).numel()
    i = torch.arange(count, dtype=torch.int64)
    return ((i * 7919 % 10007).double() / 5003.0 - 1).mul(bound).float().reshape(shape)


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.down = None
        if inner != outer:
            self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + (x if self.down is None else self.down(x)))


def resnet18():
    steps = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for layer in range(4):
        for block in range(2):
            steps.append(Block(inner, 64 << layer, 2 if layer > 0 and block == 0 else 1))
            inner = 64 << layer
    return nn.Sequential(*steps, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def encoder():
    return nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True)


networks = {"mlp-32": (mlp, (32, 784)), "mlp-1024": (mlp, (1024, 784)), "cnn-64": (cnn, (64, 1, 8, 8)),
            "resnet18-8": (resnet18, (8, 3, 64, 64)), "encoder-8": (encoder, (8, 128, 384))}
make, shape = networks[name]
model = make().train()
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.copy_(numbers(parameter.shape, parameter[0].numel() ** -0.5))
    for module in model.modules():
        if getattr(module, "bias", None) is not None:
            module.bias.zero_()
        if getattr(module, "in_proj_bias", None) is not None:
            module.in_proj_bias.zero_()
x = numbers(shape, 1)
if make is encoder:
    target, loss_of = numbers(shape, 0.5), nn.functional.mse_loss
else:
    target, loss_of = torch.arange(shape[0]) * 7 % 10, nn.functional.cross_entropy
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)


def step():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, half):
        loss = loss_of(model(x), target)
    loss.backward()
    optimizer.step()
    return loss.item()


first = step()
serve.serve(step, lambda: [numpy.array([first])], torch.__version__)
