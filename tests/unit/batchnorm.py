#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a network with two batch norms in PyTorch and writes its losses, running statistics and scores, for batchnorm_test.c.

Needs PyTorch (Debian: python3-torch) and NumPy; run once, the result is kept in the repository:
    python3 tests/unit/batchnorm.py > tests/unit/batchnorm.inc
Weights, images and classes are numbers of a formula that the test has as well. No layer before a batch norm has a bias: its derivative
is 0 but for rounding, which AdamW makes steps of full size of.
"""
from __future__ import annotations

import numpy as np
import torch
from torch import nn

STEPS, SIZE, CLASSES = 50, 16, 5


def mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of MurmurHash3, of u32."""
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def number(series: int, count: int) -> np.ndarray:
    """-1 <= x < 1, multiples of 2^-23."""
    return (mix(np.arange(count) + (series << 20)) >> np.uint32(8)) * 2.0**-23 - 1


class Network(nn.Module):
    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.conv, self.norm1 = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6, momentum=momentum)
        self.fc1, self.norm2 = nn.Linear(54, 12, bias=False), nn.BatchNorm1d(12, momentum=momentum)
        self.fc2 = nn.Linear(12, CLASSES)
        for series, (name, p) in enumerate(self.named_parameters()):
            values = 0.3 * number(series, p.numel()) + float("norm" in name and "weight" in name)
            p.data = torch.tensor(values.astype(np.float32)).reshape(p.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm1(self.conv(x))), 2)
        return self.fc2(nn.functional.gelu(self.norm2(self.fc1(x.flatten(1)))))


def images(step: int) -> torch.Tensor:
    values = 2 * number(100 + step, SIZE * 72) + 0.5
    return torch.tensor(values.astype(np.float32)).reshape(SIZE, 2, 6, 6)


def classes(step: int) -> torch.Tensor:
    return torch.tensor((mix(np.arange(SIZE) + (step << 20)) % CLASSES).astype(np.int64))


def row(values: list[float]) -> str:
    return "{" + ", ".join(f"{x:.9g}" for x in values) + "},"


def train(adamw: bool) -> None:
    model = Network(0.3 if adamw else 0.1)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    if adamw:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for step in range(STEPS):
        loss = nn.functional.cross_entropy(model(images(step % 8)), classes(step % 8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    statistics = [x for n in (model.norm1, model.norm2) for s in (n.running_mean, n.running_var) if s is not None for x in s.tolist()]
    model.eval()
    print("{" + row(losses), row(statistics), row(model(images(9)).flatten().tolist()) + "},", sep="\n ")


def main() -> None:
    torch.set_num_threads(1)
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(f" * PyTorch {torch.__version__}'s numbers, written by batchnorm.py. */")
    train(False)
    train(True)


main()
