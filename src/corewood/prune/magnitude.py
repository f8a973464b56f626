"""Magnitude pruning ("m-pruning"): the smallest weights of the whole encoder go first (LT, section 3.2).

A round removes a share of the weights that are left, wherever they are, and the model is judged; rounds go on while its
score stays high enough. The model is changed in place and put back: what is held beside it are the removed values, and a byte
a weight that says in which round it went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from corewood.data.encode import Encoded, encode
from corewood.data.labels import gold_classes
from corewood.data.task import Split, a_kind, one_split
from corewood.errors import InputError
from corewood.evaluate.metrics import score
from corewood.evaluate.predict import logits_of
from corewood.model.gates import check_model
from corewood.model.load import Model
from corewood.model.progress import Show, bar
from corewood.model.reference import Progress, no_progress
from corewood.model.weights import WeightMask, encoder_weights
from corewood.prune.importance import reaches
from corewood.spec.ways import Magnitude

LOW_BITS = 15  # of the 31 bits of a magnitude, those that the second count tells apart
Judge = Callable[[], float]


class Pruner:
    """Removes the smallest weights of a model in place, round by round; `undo` takes the last round back."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights
        # parameter -> uint8, in its shape: the round it went in, 0 while it is there
        self.gone = {name: torch.zeros(w.shape, dtype=torch.uint8, device=w.device) for name, w in weights.items()}
        self.rounds: list[dict[str, Tensor]] = []  # parameter -> the values that a round removed

    @property
    def left(self) -> int:
        return int(sum(int((gone == 0).sum()) for gone in self.gone.values()))

    @torch.no_grad()
    def remove(self, count: int) -> None:
        """So many of the smallest weights that are left, exactly; of equal ones the first in the model's order."""
        edge, at_edge = self.edge(count)
        removed: dict[str, Tensor] = {}
        self.rounds.append(removed)  # first: what stops half way can be undone
        for name, weight in self.weights.items():
            bits, kept = magnitude_bits(weight), self.gone[name] == 0
            taken = kept & (bits < edge)
            if at_edge:
                equal = (kept & (bits == edge)).flatten().nonzero()[:at_edge, 0]
                at_edge -= len(equal)
                taken.view(-1)[equal] = True
            self.gone[name].masked_fill_(taken, len(self.rounds))
            removed[name] = weight.masked_select(taken)
            weight.masked_fill_(taken, 0)

    def edge(self, count: int) -> tuple[int, int]:
        """(bits of the magnitude below which all go, how many of exactly that magnitude go too)

        Magnitudes in the order of their bits: counted by the high bits first, then the low ones inside one bucket.
        """
        high = self.counts(lambda bits: bits >> LOW_BITS, 1 << 16)
        bucket = int(np.searchsorted(np.cumsum(high), count))
        below = int(high[:bucket].sum())
        lows = 1 << LOW_BITS
        inside = self.counts(lambda bits: torch.where(bits >> LOW_BITS == bucket, bits & (lows - 1), -1), lows)
        low = int(np.searchsorted(np.cumsum(inside), count - below))
        below += int(inside[:low].sum())
        return (bucket << LOW_BITS) + low, count - below

    def counts(self, part: Callable[[Tensor], Tensor], size: int) -> np.ndarray:
        """How many of the weights that are left fall into each bucket; `part` gives -1 for those to leave out."""
        total = np.zeros(size + 1, np.int64)
        for name, weight in self.weights.items():
            buckets = torch.where(self.gone[name] == 0, part(magnitude_bits(weight)), -1) + 1
            total += torch.bincount(buckets.flatten(), minlength=size + 1).cpu().numpy()
        return total[1:]

    @torch.no_grad()
    def undo(self) -> None:
        removed = self.rounds[-1]
        for name, gone in self.gone.items():
            taken = gone == len(self.rounds)
            if name in removed:  # in a round that stopped half way some are marked and not removed
                self.weights[name].masked_scatter_(taken, removed[name])
            gone.masked_fill_(taken, 0)
        self.rounds.pop()

    def mask(self) -> WeightMask:
        return WeightMask.of({name: (gone == 0).cpu().numpy() for name, gone in self.gone.items()})


def magnitude_bits(weight: Tensor) -> Tensor:
    """int32 in the order of the magnitudes: the bits of a positive float grow with it."""
    return weight.detach().float().abs().view(torch.int32)


@contextmanager
def pruner(model: Model, biases: bool = False) -> Iterator[Pruner]:
    """The model's weights are its own again at the end."""
    made = Pruner({name: p.detach() for name, p in encoder_weights(model, biases).items()})
    try:
        yield made
    finally:
        while made.rounds:
            made.undo()


@dataclass(frozen=True)
class FoundWeights:
    mask: WeightMask
    rounds: pd.DataFrame = field(repr=False)  # round, weights, share, score, floor, passed

    def _repr_html_(self) -> str:
        return self.mask._repr_html_() + self.rounds.to_html(index=False)


def magnitude_search(
    model: Model, judge: Judge, settings: Magnitude, keep: int | None = None, progress: Progress = no_progress
) -> FoundWeights:
    """Prune while the judged score stays at or above its floor; or, with `keep`, down to exactly that many weights."""
    rows: list[dict[str, Any]] = []
    with pruner(model, settings.biases) as work:
        total = work.left

        def note(score: float, floor: float, passed: bool = True) -> None:
            left = work.left
            row = {"round": len(rows), "weights": left, "share": left / total, "score": score, "floor": floor, "passed": passed}
            rows.append(row)

        if keep is None and settings.sparsity is not None:
            keep = round(total * (1 - settings.sparsity))
        if keep is not None:
            note(np.nan, np.nan)
            work.remove(total - keep)
            note(judge(), np.nan)
            return FoundWeights(work.mask(), pd.DataFrame(rows))
        full = judge()
        floor = settings.threshold * full
        note(full, floor)
        while rows[-1]["passed"] and work.left > 1 and len(rows) <= settings.most_rounds:
            work.remove(max(1, round(settings.per_round * work.left)))
            score = judge()
            note(score, floor, reaches(score, floor))
            progress(len(rows), len(rows) + 1)
        if not rows[-1]["passed"]:
            work.undo()
        return FoundWeights(work.mask(), pd.DataFrame(rows))


def weight_judge(model: Model, examples: Encoded, gold: np.ndarray, metric: str) -> Judge:
    return lambda: score(metric, logits_of(model, model.units.full(), examples), gold, draws=0).value


def prune_weights(
    model: Model, split: Split, settings: Magnitude | None = None, metric: str = "accuracy", progress: Show = True
) -> FoundWeights:
    """Single weights of a fine-tuned model by magnitude: `.mask`, for `with cw.weights_masked(model, mask)`, and how it was
    found (`.rounds`).

    Example:
        >>> found = cw.prune_weights(model, task.validation, cw.Magnitude(sparsity=0.5))
        >>> found.mask
        <WeightMask 7,168 of 14,336 weights, 50.0 %>
    """
    check_model(model, "prune_weights")
    one_split(split, "prune_weights")
    if settings is not None and not isinstance(settings, Magnitude):
        raise InputError(f"prune_weights: takes settings, cw.Magnitude(sparsity=0.5), not {a_kind(settings)}")
    if settings is not None and settings.like is not None:
        raise InputError("prune_weights: like is a setting of studies, which have masks to be like; give sparsity or threshold")
    judge = weight_judge(model, encode(split, model.tokenizer, model.max_length), gold_classes(model.labels, split), metric)
    with bar("prune", progress) as tell:
        return magnitude_search(model, judge, settings or Magnitude.model_validate({}), None, tell)
