# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader as a process of dhow-bench, see process.h: feed_torch.py SAMPLES SHUFFLE

"run N" runs over N epochs of a TensorDataset in batches of 32, and prints the shortest and the median seconds of one.
"""
import sys

import torch

import serve

torch.set_num_threads(1)
samples, shuffle = int(sys.argv[1]), sys.argv[2] == "1"
dataset = torch.utils.data.TensorDataset(torch.rand(samples, 100), torch.randint(0, 10, (samples,)))
loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=shuffle)


def epoch():
    for _ in loader:
        pass


serve.serve(epoch, list, torch.__version__)
