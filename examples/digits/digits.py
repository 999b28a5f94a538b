# SPDX-License-Identifier: Apache-2.0
"""digits.c in Python: predicts handwritten digits on every device found and compares the results with PyTorch's.

python digits.py [FOLDER]"""
import pathlib
import sys

import numpy as np

import dhow


def network(weights):
    m = dhow.Model()
    x = m.input("image", "f32", (-1, 1, 8, 8))
    x = m.relu(m.conv2d("conv1", x, 1, 16, kernel=3, pad=1))
    x = m.maxpool2d(x, kernel=2, stride=2)
    x = m.relu(m.conv2d("conv2", x, 16, 32, kernel=3, pad=1))
    x = m.flatten(m.maxpool2d(x, kernel=2, stride=2), 1)
    x = m.relu(m.linear("fc1", x, 128, 64))
    m.output("logits", m.linear("fc2", x, 64, 10))
    return m.load_state(weights)


def predict(device, folder):
    """The rate of digits read right, and the largest difference to what PyTorch computed."""
    x = dhow.load_npy(folder / "images.npy", device).to_dtype("f32") / 16
    logits = network(folder / "digits.safetensors").to(device)(x).numpy()
    labels, torch = (np.load(folder / name) for name in ("labels.npy", "logits.npy"))
    return (logits.argmax(1) == labels).mean(), np.abs(logits - torch).max()


if __name__ == "__main__":
    here = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for device in dhow.devices():
        accuracy, difference = predict(device, here)
        print(f"{device.name:<10} {100 * accuracy:6.2f}%  difference to PyTorch {difference:.2e}")
