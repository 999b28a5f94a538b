# SPDX-License-Identifier: Apache-2.0
"""Trains the digit classifier of this folder and writes its weights and the held-out images.

Needs scikit-learn and PyTorch; run once, the results are kept in the repository:
    python3 train.py
The layers and their names are those of digits.c; names and shapes in the safetensors file are PyTorch's.
"""
import json
import struct

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

HELD_OUT = 360


def save_safetensors(path, tensors):
    header, data, at = {}, b"", 0
    for name, tensor in tensors.items():
        raw = tensor.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data += raw
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(128, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


def main():
    torch.manual_seed(1)
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype("f4")
    labels = digits.target.astype("i8")
    order = np.random.RandomState(1).permutation(len(images))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    x, y = torch.tensor(images[train]), torch.tensor(labels[train])
    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=1e-2)
    epochs, batch = 60, 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, epochs * (len(x) // batch + 1))
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(batch):
            loss = nn.functional.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        logits = model(torch.tensor(images[test]))
        right = (logits.argmax(1).numpy() == labels[test]).mean()
    print("held-out accuracy %.4f" % right)
    save_safetensors("digits.safetensors", dict(model.named_parameters()))
    np.save("images.npy", (images[test] * 16).astype("u1"))
    np.save("labels.npy", labels[test])
    np.save("logits.npy", logits.numpy())


main()
