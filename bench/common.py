"""What the benchmarks share: texts to measure on, and how two ways are timed beside each other."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.overlap import overlap
from corewood.data.read import read_split
from corewood.data.task import Split
from corewood.model.load import Model, load
from corewood.spec import SourceSpec

LENGTH = 128
FILES = {"HANS": "hans/validation.jsonl", "MNLI": "mnli/dev_matched.jsonl"}


def arguments(description: str, rounds: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with hans/validation.jsonl and mnli/dev_matched.jsonl")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser.parse_args()


def minilm() -> Model:
    """One thread, as in a worker process."""
    torch.set_num_threads(1)
    return load("minilm", ["entailment", "neutral", "contradiction"], new_head=True)


def texts(model: Model, data: Path | None, count: int) -> Iterator[tuple[str, Encoded]]:
    """The generated task, then the files that are there."""
    splits: dict[str, Split] = {"generated": overlap(train=2000).splits["validation"]}
    for name, path in FILES.items():
        if data is not None and (data / path).exists():
            splits[name] = read_split(name, SourceSpec(path=str(data / path), text=("premise", "hypothesis")))[0]
        else:
            print(f"{name:10} not measured: give --data with {path}")
    for name, split in splits.items():
        frame = split.frame.sample(min(len(split), count), random_state=0)
        yield name, encode(Split(name, frame, split.labels), model.tokenizer, LENGTH)


def in_turn(ways: list[Callable[[], object]], rounds: int) -> list[float]:
    """Seconds of each way: all in turn, round after round; the median, so that a busy moment does not count."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for place, way in enumerate(ways):
            start = time.perf_counter()
            way()
            times[place].append(time.perf_counter() - start)
    return [float(np.median(t)) for t in times]
