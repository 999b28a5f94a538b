#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains five networks in PyTorch and writes their losses, which train_losses_test.c compares dhow's with.

Needs PyTorch (Debian: python3-torch) and NumPy; run once, the result is kept in the repository:
    python3 tests/unit/train_losses.py > tests/unit/train_losses.inc
Weights, tokens and targets are numbers of a formula that the test has as well; images are those of examples/digits.
"""
from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import nn

STEPS = 200
TOKENS, WORDS = 40, 6
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
Batch = tuple[torch.Tensor, torch.Tensor]


def mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of MurmurHash3, of u32."""
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def number(series: int, i: np.ndarray) -> np.ndarray:
    """-1 <= x < 1, a multiple of 2^-23."""
    return (mix(i + (series << 20)) >> np.uint32(8)) * 2.0**-23 - 1


def begin(model: nn.Module) -> None:
    """Matrices uniform within 1 / sqrt(inputs), scales 1, biases 0."""
    for series, (name, p) in enumerate(model.named_parameters()):
        if p.dim() == 1:
            p.data.fill_(float("norm" in name and name.endswith(".weight")))
        else:
            bound = 1 / np.sqrt(p[0].numel())
            values = bound * number(series, np.arange(p.numel()))
            p.data = torch.tensor(values.astype(np.float32)).reshape(p.shape)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(64, 48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(TOKENS, 16), nn.LayerNorm(16)
        self.fc1, self.fc2 = nn.Linear(16 * WORDS, 32), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(x)).flatten(1)
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class Layer(nn.Module):
    """Of a transformer, with its norms first."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(32), nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer0, self.layer1 = nn.Embedding(TOKENS, 32), Layer(), Layer()
        self.norm, self.fc = nn.LayerNorm(32), nn.Linear(32 * WORDS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(self.layer0(self.words(x)))
        return self.fc(self.norm(x).flatten(1))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(TOKENS, 16), nn.LSTM(16, 24, 2, batch_first=True)
        self.fc = nn.Linear(24 * WORDS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.lstm(self.words(x))[0].flatten(1))


IMAGES = torch.tensor(np.load(DIGITS / "train_images.npy")).reshape(-1, 1, 8, 8).float() / 16
LABELS = torch.tensor(np.load(DIGITS / "train_labels.npy"))


def images(step: int, size: int) -> Batch:
    part = torch.arange(step * size, (step + 1) * size) % len(IMAGES)
    return IMAGES[part], LABELS[part]


def words(step: int, size: int) -> Batch:
    i = np.arange(step * size * WORDS, (step + 1) * size * WORDS).reshape(size, WORDS)
    tokens = (mix(i + (100 << 20)) % TOKENS).astype(np.int64)
    target = number(101, tokens).sum(1, keepdims=True)
    return torch.tensor(tokens), torch.tensor(target.astype(np.float32))


def train(kind: type[nn.Module], size: int, batch: Callable[[int, int], Batch], adamw: bool) -> list[float]:
    model = kind()
    begin(model)
    loss_of = nn.CrossEntropyLoss() if kind in (Mlp, Cnn) else nn.MSELoss()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), 0.002 if kind is Transformer else 0.02, momentum=0.9)
    if adamw:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for step in range(STEPS):
        x, y = batch(step, size)
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.set_num_threads(1)
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(f" * PyTorch {torch.__version__}'s losses, written by train_losses.py. */")
    for kind, size, batch in ((Mlp, 32, images), (Cnn, 64, images), (Words, 32, words), (Transformer, 32, words), (Lstm, 32, words)):
        for adamw in (False, True):
            print(f"/* {kind.__name__}, {'AdamW' if adamw else 'SGD'} */ {{")
            losses = [f"{loss:.9g}" for loss in train(kind, size, batch, adamw)]
            for i in range(0, STEPS, 10):
                print("    " + ", ".join(losses[i : i + 10]) + ",")
            print("},")


main()
