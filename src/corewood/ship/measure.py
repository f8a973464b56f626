"""How fast the full model and the exported file are, side by side: alternating, in one run, on texts of the study's lengths."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from corewood.data.encode import Encoded
from corewood.ship.onnx_file import File, plain
from corewood.study.processes import cores

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ALONE, TOGETHER = 8, 32  # texts that are run one by one, and in one batch
ROUNDS, FEWEST = 15, 3  # of which the median counts; fewer where a model is slow
SECONDS = 20.0  # of rounds for one row of the table
ALONE_ENOUGH = 0.9  # of a core; with less, times are longer than they would be
TORCH, FULL, EXPORTED = "torch", "full", "exported"  # the first two run the full model


@dataclass(frozen=True)
class Timing:
    threads: int
    batch: int
    milliseconds: Mapping[str, float]  # a text
    flops: float  # how many times as fast as the full model the file would be, if only multiplications took time
    core: float = 1.0  # on one thread, the share of a core that it had: less than one where other programs ran

    @property
    def times(self) -> float:
        """As fast as the full model, both as ONNX."""
        return self.milliseconds[FULL] / self.milliseconds[EXPORTED]


def measure(
    net: PreTrainedModel, small: PreTrainedModel, files: Mapping[str, Path], examples: Encoded, rounds: int | None = None
) -> list[Timing]:
    """`files` are ONNX files by what they are called in the table; `net` and `small` the models in torch."""
    batches = drawn(examples)
    ratios = {size: flops(net, few[0]) / flops(small, few[0]) for size, few in batches.items()}
    before, made = torch.get_num_threads(), []
    try:
        for threads in dict.fromkeys((1, cores())):
            torch.set_num_threads(threads)
            ways: dict[str, Callable[[dict[str, Tensor]], object]] = {TORCH: lambda batch: net(**batch)}
            ways |= {who: File(path, threads) for who, path in files.items()}
            for size, few in batches.items():
                wall, own = time.perf_counter(), time.process_time()
                seconds = in_turn(ways, few, rounds or ROUNDS)
                core = (time.process_time() - own) / (time.perf_counter() - wall) if threads == 1 else 1.0
                each = {who: 1000 * value / (size * len(few)) for who, value in seconds.items()}
                made.append(Timing(threads, size, each, ratios[size], round(min(1.0, core), 3)))
    finally:
        torch.set_num_threads(before)
    return made


def drawn(examples: Encoded) -> dict[int, list[dict[str, Tensor]]]:
    """Texts drawn at random, one by one and as a batch."""
    rows = np.random.default_rng(0).permutation(len(examples))
    some = np.resize(rows, TOGETHER)  # a small set is repeated
    return {1: [examples.batch(np.array([row])) for row in some[:ALONE]], TOGETHER: [examples.batch(some)]}


@torch.inference_mode()
def in_turn(
    ways: Mapping[str, Callable[[dict[str, Tensor]], object]], batches: Sequence[dict[str, Tensor]], rounds: int
) -> dict[str, float]:
    """Seconds for all batches: every way in turn, round after round; the median, so that a busy moment does not count."""
    taken: dict[str, list[float]] = {who: [] for who in ways}
    until = time.perf_counter() + SECONDS
    for turn in range(rounds + 1):
        for who, run in ways.items():
            started = time.perf_counter()
            for batch in batches:
                run(batch)
            if turn:  # the first turn warms up
                taken[who].append(time.perf_counter() - started)
        if turn >= FEWEST and time.perf_counter() > until:
            break
    return {who: float(np.median(values)) for who, values in taken.items()}


def flops(net: PreTrainedModel, batch: dict[str, Tensor]) -> float:
    """Of one call."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        plain(net)(**batch)
    return float(counter.get_total_flops())
