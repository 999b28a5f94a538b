#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch computes for each option of a loss, and its learning rates, for train_options_test.c and schedule_test.c.

Needs PyTorch (Debian: python3-torch); run once, the results are kept in the repository:
    python3 tests/unit/train_options.py losses > tests/unit/train_options.inc
    python3 tests/unit/train_options.py schedules > tests/unit/schedules.inc
Scores, targets and weights are numbers of a formula that the tests have as well.
"""
from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Callable, Iterator

import torch
from torch.nn import functional as F
from torch.optim import lr_scheduler as schedulers

COUNT, STEPS = 12, 100
SHAPES = {2: (3, 4), 3: (2, 3, 2)}
Loss = Callable[[torch.Tensor], torch.Tensor]


def number(i: int) -> float:
    """-1 .. 1, none of them near 0"""
    x = ((i + 7) * 2654435761 >> 9 & 1023) / 512 - 1
    return x + 0.1 if abs(x) < 0.05 else x


def row(first: int, count: int, scale: float = 1, least: float | None = None) -> torch.Tensor:
    """Numbers, or `least` and more."""
    values = [number(first + i) for i in range(count)]
    if least is not None:
        values = [least + abs(x) for x in values]
    return torch.tensor([scale * x for x in values], dtype=torch.float64)


def probabilities(shape: tuple[int, ...]) -> torch.Tensor:
    t = row(80, COUNT, 1, 0)
    t[2] = 0
    return t.reshape(shape)


def by_class() -> Iterator[tuple[str, int, Loss]]:
    for rank, shape in SHAPES.items():
        for weighed in (False, True):
            w = row(40, shape[1], 1, 0.5) if weighed else None
            for ignored in (None, 0, 2, -7):
                index = -100 if ignored is None else ignored
                t = torch.tensor([1, index, 3] if rank == 2 else [[2, index], [1, 0]])
                text = f"rank {rank}, weight {int(weighed)}, ignored {index}"
                yield f"nll, {text}", rank, partial(F.nll_loss, target=t, weight=w, ignore_index=index)
                for e in (0, 0.1, 1):
                    yield f"entropy, {text}, smoothing {e:g}", rank, partial(
                        F.cross_entropy, target=t, weight=w, ignore_index=index, label_smoothing=e)
            for e in (0, 0.1):
                yield f"probabilities, rank {rank}, weight {int(weighed)}, smoothing {e:g}", rank, partial(
                    F.cross_entropy, target=probabilities(shape), weight=w, label_smoothing=e)


def by_element() -> Iterator[tuple[str, int, Loss]]:
    for rank, shape in SHAPES.items():
        target = row(90, COUNT, 2).reshape(shape)
        half = row(80, COUNT, 1, 0).reshape(shape)
        for width in (0.5, 1.0, 2.0):
            yield f"smooth l1, rank {rank}, width {width:g}", rank, partial(F.smooth_l1_loss, target=target, beta=width)
            yield f"huber, rank {rank}, width {width:g}", rank, partial(F.huber_loss, target=target, delta=width)
        for form, p in enumerate((None, row(60, shape[-1], 2, 0.25), row(60, 1, 2, 0.25).reshape(()))):
            yield f"binary, rank {rank}, weight {form}", rank, partial(F.binary_cross_entropy_with_logits, target=half, pos_weight=p)
        yield f"divergence, rank {rank}", rank, partial(F.kl_div, target=probabilities(shape), reduction="batchmean")


def losses() -> None:
    for cases in (by_class(), by_element()):
        for name, rank, loss in cases:
            y = row(0, COUNT, 2).reshape(SHAPES[rank]).requires_grad_()
            value = loss(y)
            value.backward()
            assert y.grad is not None
            print(f'{{"{name}",\n {{' + ", ".join(f"{x:.16g}" for x in [value.item(), *y.grad.flatten().tolist()]) + "}},")


Schedule = Callable[[torch.optim.Optimizer], schedulers._LRScheduler]


def warmed(main: Schedule) -> Schedule:
    def both(o: torch.optim.Optimizer) -> schedulers._LRScheduler:
        return schedulers.SequentialLR(o, [schedulers.LinearLR(o, 0.1, total_iters=7), main(o)], [7])

    return both


def schedules() -> None:
    kinds: dict[str, Schedule] = {
        "constant": lambda o: schedulers.LambdaLR(o, lambda _: 1.0),
        "step": lambda o: schedulers.StepLR(o, 13, 0.7),
        "exponential": lambda o: schedulers.ExponentialLR(o, 0.97),
        "cosine": lambda o: schedulers.CosineAnnealingLR(o, 90, 0.002),
        "warm step": warmed(lambda o: schedulers.StepLR(o, 13)),
        "warm exponential": warmed(lambda o: schedulers.ExponentialLR(o, 0.97)),
        "warm cosine": warmed(lambda o: schedulers.CosineAnnealingLR(o, 93)),
        "cycle": lambda o: schedulers.OneCycleLR(o, 0.05, total_steps=STEPS, cycle_momentum=False),
        "short cycle": lambda o: schedulers.OneCycleLR(
            o, 0.05, total_steps=STEPS, pct_start=0.1, div_factor=4, final_div_factor=10, cycle_momentum=False),
    }
    for name, kind in kinds.items():
        o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.05)
        schedule = kind(o)
        rates = []
        for _ in range(STEPS):
            rates.append(f"{o.param_groups[0]['lr']:.16g}")
            o.step()
            if len(rates) < STEPS:
                schedule.step()
        print(f'{{"{name}", {{')
        for i in range(0, STEPS, 5):
            print("    " + ", ".join(rates[i : i + 5]) + ",")
        print("}},")


def main() -> None:
    warnings.simplefilter("ignore")
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(f" * PyTorch {torch.__version__}'s numbers, written by train_options.py. */")
    {"losses": losses, "schedules": schedules}[sys.argv[1]]()


main()
