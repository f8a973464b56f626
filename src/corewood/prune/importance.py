"""Importance pruning ("s-pruning"): heads and MLPs go first whose gates the loss depends on least (LT, section 3.3).

The score of a unit is E_x |d loss(x) / d gate|. Every example has gates of its own, so that one backward pass of a batch gives
the gradients of all its examples and units at once; the weights are frozen and get none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.labels import gold_classes
from corewood.data.task import Split
from corewood.errors import JobError
from corewood.evaluate.metrics import score
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Gates, Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import Progress, no_progress
from corewood.prune.l0 import frozen
from corewood.spec import Ablation
from corewood.spec.ways import Importance, Prunes

Judge = Callable[[Mask], float]


def example_losses(logits: Tensor, gold: Tensor) -> Tensor:
    """(example,) cross-entropy, or squared error where the answers are numbers."""
    if gold.is_floating_point():
        return F.mse_loss(logits[:, 0], gold.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, gold, reduction="none")


def importance_scores(
    model: Model,
    mask: Mask,
    examples: Encoded,
    gold: np.ndarray,
    settings: Importance,
    means: Means | None = None,
    progress: Progress = no_progress,
) -> np.ndarray:
    """(unit,) in flat order; units that the mask leaves out score nothing (not a number).

    With `per: batch` the gradient of a batch's mean loss is taken, its sign dropped, and batches are averaged.
    """
    total = torch.zeros(mask.vector.size, dtype=torch.float64)
    start = torch.tensor(mask.vector, dtype=torch.float32, device=model.device)
    alone = settings.per == "example"
    units, batches, done = model.units, 0, 0
    answers = torch.tensor(gold, dtype=torch.float32 if gold.dtype.kind == "f" else torch.int64, device=model.device)
    with frozen(model, False), torch.enable_grad():
        for indices in by_length(examples.lengths, settings.batch):
            z = start.expand((len(indices), -1) if alone else (-1,)).clone().requires_grad_()  # ([example,] unit)
            with gated(model, Gates.from_vector(z, units.layers, units.heads), settings.stand_in, means):
                logits = model.net(**examples.batch(indices, model.device)).logits
            losses = example_losses(logits, answers[indices])
            (gradient,) = torch.autograd.grad(losses.sum() if alone else losses.mean(), z)
            total += (gradient.abs().sum(0) if alone else gradient.abs()).double().cpu()
            batches += 1
            done += len(indices)
            progress(done, len(examples))
    scores = (total / (len(examples) if alone else batches)).numpy()
    if not np.isfinite(scores).all():
        raise JobError("importance: some gradients are not numbers; check the model's weights and the labels")
    return np.where(mask.vector, scores, np.nan)


def normalised(scores: np.ndarray, layers: int, heads: int) -> np.ndarray:
    """Heads divided by the l2 norm of their layer (Molchanov et al. 2017); MLPs as they are."""
    split = layers * heads
    grid = scores[:split].reshape(layers, heads)
    norm = np.sqrt(np.nansum(grid**2, axis=1, keepdims=True))
    return np.concatenate([(grid / np.where(norm > 0, norm, 1)).ravel(), scores[split:]])


def without_least(mask: Mask, ranking: np.ndarray, heads: int, mlps: int) -> Mask:
    """The mask without its least important units: so many heads, so many MLPs. Of equal ones the first goes."""
    kept = mask.vector.copy()
    split = mask.heads.size
    for part, count in ((slice(0, split), heads), (slice(split, None), mlps)):
        order = np.argsort(np.where(kept[part], ranking[part], np.inf), kind="stable")
        kept[part][order[: min(count, int(kept[part].sum()))]] = False
    return Mask(kept[:split].reshape(mask.heads.shape), kept[split:])


def reaches(score: float, floor: float) -> bool:
    """At or above it, but for rounding: 0.9 x 80 % is a little above 72 %. What is not a number does not reach anything."""
    return bool(score >= floor - 1e-9)


@dataclass(frozen=True)
class FoundUnits:
    mask: Mask
    rounds: pd.DataFrame = field(repr=False)  # round, phase, heads, mlps, score, floor, passed
    scores: pd.DataFrame = field(repr=False)  # round, unit, score, ranked: what the units of that round's mask scored


@dataclass
class ImportanceSearch:
    """Prune while the judged score stays at or above its floor, or down to an exact size.

    Together: a tenth of the heads and one MLP a round. When such a round fails, heads alone; when that fails, MLPs alone.
    A ranking always comes from the last mask that passed.
    """

    model: Model
    examples: Encoded
    gold: np.ndarray
    judge: Judge
    settings: Importance
    means: Means | None = None
    progress: Progress = no_progress
    rows: list[dict[str, object]] = field(default_factory=list)
    scores: list[pd.DataFrame] = field(default_factory=list)

    def ranking(self, mask: Mask) -> np.ndarray:
        raw = importance_scores(self.model, mask, self.examples, self.gold, self.settings, self.means)
        units = self.model.units
        ranked = normalised(raw, units.layers, units.heads) if self.settings.normalise else raw
        table = pd.DataFrame({"round": len(self.rows) - 1, "unit": units.names, "score": raw, "ranked": ranked})
        self.scores.append(table[mask.vector])
        return ranked

    def note(self, phase: str, mask: Mask, score: float = np.nan, floor: float = np.nan, passed: bool = True) -> None:
        counts = {"heads": int(mask.heads.sum()), "mlps": int(mask.mlps.sum())}
        self.rows.append({"round": len(self.rows), "phase": phase, **counts, "score": score, "floor": floor, "passed": passed})
        self.progress(len(self.rows), len(self.rows) + 4)

    def found(self, mask: Mask) -> FoundUnits:
        return FoundUnits(mask, pd.DataFrame(self.rows), pd.concat(self.scores, ignore_index=True))

    def by_threshold(self, prune: Prunes) -> FoundUnits:
        mask = self.model.units.full()
        full = self.judge(mask)
        floor = self.settings.threshold * full
        self.note("full", mask, full, floor)
        step = self.heads_in(self.settings.heads_per_round)
        alone = self.heads_in(self.settings.heads_alone_per_round or self.settings.heads_per_round)
        phases = {
            "both": [("both", step, 1), ("heads", alone, 0), ("mlps", 0, 1)],
            "heads": [("heads", step, 0)],
            "mlps": [("mlps", 0, 1)],
        }
        ranking = self.ranking(mask)
        for phase, heads, mlps in phases[prune]:
            while True:
                smaller = without_least(mask, ranking, heads, mlps)
                if smaller == mask:
                    break
                score = self.judge(smaller)
                passed = reaches(score, floor)
                self.note(phase, smaller, score, floor, passed)
                if not passed:
                    break
                mask = smaller
                if len(mask):
                    ranking = self.ranking(mask)
        return self.found(mask)

    def to_size(self, heads: int, mlps: int) -> FoundUnits:
        """Down to exactly so many, in rounds: the fewer units, the more the ranking depends on which are left."""
        mask = self.model.units.full()
        self.note("full", mask)
        while (left := int(mask.heads.sum()) - heads) + (mlps_left := int(mask.mlps.sum()) - mlps) > 0:
            step = min(left, self.heads_in(self.settings.heads_per_round))
            mask = without_least(mask, self.ranking(mask), step, min(mlps_left, 1))
            self.note("size", mask)
        if not self.scores:  # nothing to remove
            self.ranking(mask)
        return self.found(mask)

    def heads_in(self, share: float) -> int:
        return max(1, round(share * self.model.units.layers * self.model.units.heads))


def importance_search(
    model: Model,
    examples: Encoded,
    gold: np.ndarray,
    judge: Judge,
    settings: Importance,
    prune: Prunes = "both",
    size: tuple[int, int] | None = None,
    means: Means | None = None,
    progress: Progress = no_progress,
) -> FoundUnits:
    """`size` is (heads, MLPs) to keep; without it, the settings' sparsity or threshold decides."""
    search = ImportanceSearch(model, examples, gold, judge, settings, means, progress)
    if size is None and settings.sparsity is not None:
        heads, mlps = model.units.layers * model.units.heads, model.units.layers
        stay = 1 - settings.sparsity
        size = round(stay * heads) if prune != "mlps" else heads, round(stay * mlps) if prune != "heads" else mlps
    return search.by_threshold(prune) if size is None else search.to_size(*size)


def unit_judge(
    model: Model, examples: Encoded, gold: np.ndarray, metric: str, ablate: Ablation = "zero", means: Means | None = None
) -> Judge:
    """How good a subnetwork is, as one number."""
    return lambda mask: score(metric, logits_of(model, mask, examples, ablate, means), gold, draws=0).value


def prune_units(
    model: Model,
    split: Split,
    settings: Importance | None = None,
    prune: Prunes = "both",
    metric: str = "accuracy",
    progress: Progress = no_progress,
) -> FoundUnits:
    """Heads and MLPs of a fine-tuned model by importance, on a labelled split: `.mask`, and how it was found."""
    settings = settings or Importance.model_validate({})
    examples, gold = encode(split, model.tokenizer, model.max_length), gold_classes(model.labels, split)
    judge = unit_judge(model, examples, gold, metric, settings.stand_in, model.means)
    return importance_search(model, examples, gold, judge, settings, prune, None, model.means, progress)
