"""Importance pruning ("s-pruning"): heads and MLPs go first whose gates the loss depends on least (LT, section 3.3).

The score of a unit is E_x |d loss(x) / d gate|. Every example has gates of its own, so that one backward pass of a batch gives
the gradients of all its examples and units at once; the weights are frozen and get none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.labels import gold_classes
from corewood.data.task import Split, a_kind, one_split
from corewood.errors import InputError, JobError
from corewood.evaluate.metrics import score
from corewood.evaluate.predict import logits_of
from corewood.model.first_token import first_token
from corewood.model.gates import Gates, Means, check_model, frozen, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.progress import Show, bar
from corewood.model.reference import Progress, no_progress
from corewood.spec import Ablation
from corewood.spec.ways import Importance, Prunes

Judge = Callable[[Mask], float]


def example_losses(logits: Tensor, gold: Tensor) -> Tensor:
    """(example,) cross-entropy, or squared error where the answers are numbers."""
    if gold.is_floating_point():
        return F.mse_loss(logits[:, 0], gold.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, gold, reduction="none")


def importance_scores(
    model: Model, mask: Mask, examples: Encoded, gold: np.ndarray, settings: Importance, means: Means | None = None
) -> np.ndarray:
    """(unit,) in flat order; units that the mask leaves out score nothing (not a number), unless norms are `over: all`: a
    closed gate has a gradient, too.

    With `per: batch` the gradient of a batch's mean loss is taken, its sign dropped, and batches are averaged.
    """
    total = torch.zeros(mask.vector.size, dtype=torch.float64)
    start = torch.tensor(mask.vector, dtype=torch.float32, device=model.device)
    alone = settings.per == "example"
    units, batches = model.units, 0
    answers = torch.tensor(gold, dtype=torch.float32 if gold.dtype.kind == "f" else torch.int64, device=model.device)
    with frozen(model, False), torch.enable_grad(), first_token(model):
        order = by_length(examples.lengths, settings.batch) if settings.by_length else in_order(len(examples), settings.batch)
        for indices in order:
            z = start.expand((len(indices), -1) if alone else (-1,)).clone().requires_grad_()  # ([example,] unit)
            with gated(model, Gates.from_vector(z, units.layers, units.heads), settings.stand_in, means):
                logits = model(**examples.batch(indices, model.device)).logits.float()
            losses = example_losses(logits, answers[indices])
            (gradient,) = torch.autograd.grad(losses.sum() if alone else losses.mean(), z)
            total += (gradient.abs().sum(0) if alone else gradient.abs()).double().cpu()
            batches += 1
    scores = (total / (len(examples) if alone else batches)).numpy()
    if not np.isfinite(scores).all():
        raise JobError("importance: some gradients are not numbers; check the model's weights and the labels")
    return scores if settings.over == "all" else np.where(mask.vector, scores, np.nan)


def in_order(count: int, size: int) -> list[np.ndarray]:
    return np.array_split(np.arange(count), range(size, count, size))


def normalised(scores: np.ndarray, layers: int, heads: int) -> np.ndarray:
    """Heads divided by the l2 norm of their layer (Molchanov et al. 2017); MLPs as they are."""
    split = layers * heads
    grid = scores[:split].reshape(layers, heads)
    norm = np.sqrt(np.nansum(grid**2, axis=1, keepdims=True))
    return np.concatenate([(grid / np.where(norm > 0, norm, 1)).ravel(), scores[split:]])


def without_least(mask: Mask, ranking: np.ndarray, heads: int, mlps: int) -> Mask:
    """The mask without its least important units: so many heads, so many MLPs. Of equal ones the first goes."""
    kept = np.split(mask.vector, [mask.heads.size])  # heads and MLPs
    for part, ranks, count in zip(kept, np.split(ranking, [mask.heads.size]), (heads, mlps), strict=True):
        order = np.argsort(np.where(part, ranks, np.inf), kind="stable")
        part[order[: min(count, int(part.sum()))]] = False
    return Mask(kept[0].reshape(mask.heads.shape), kept[1])


def reaches(score: float, floor: float) -> bool:
    """At or above it, but for rounding: 0.9 x 80 % is a little above 72 %. What is not a number does not reach anything."""
    return bool(score >= floor - 1e-9)


@dataclass(frozen=True)
class FoundUnits:
    mask: Mask
    rounds: pd.DataFrame = field(repr=False)  # round, phase, heads, mlps, score, floor, passed
    scores: pd.DataFrame = field(repr=False)  # round, unit, score, ranked: what the units of that round's mask scored

    def _repr_html_(self) -> str:
        return self.mask._repr_html_() + self.rounds.to_html(index=False)


def phases(settings: Importance, prune: Prunes, all_heads: int) -> list[tuple[str, int, int]]:
    """(name, heads and MLPs that a round removes): together first; when a round fails, heads alone, and then MLPs alone."""
    step = share_of(all_heads, settings.heads_per_round)
    if prune == "heads":
        return [("heads", step, 0)]
    alone = share_of(all_heads, settings.heads_alone_per_round or settings.heads_per_round)
    together = [("both", step, 1), ("heads", alone, 0)] if prune == "both" else []
    return [*together, ("mlps", 0, 1)]


def share_of(count: int, share: float) -> int:
    return max(1, round(share * count))


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
    """Prune while the judged score stays at or above its floor; or down to exactly `size`, (heads, MLPs), or to the sparsity
    of the settings, in rounds too: the fewer units, the more the ranking depends on which are left.

    A ranking always comes from the last mask that passed.
    """
    units, mask = model.units, model.units.full()
    rows: list[dict[str, Any]] = []
    scores: list[pd.DataFrame] = []

    def ranking_of(mask: Mask) -> np.ndarray:
        raw = importance_scores(model, mask, examples, gold, settings, means)
        ranked = normalised(raw, units.layers, units.heads) if settings.normalise else raw
        table = pd.DataFrame({"round": len(rows) - 1, "unit": units.names, "score": raw, "ranked": ranked})
        scores.append(table[mask.vector])
        return ranked

    def note(phase: str, mask: Mask, score: float = np.nan, floor: float = np.nan, passed: bool = True) -> None:
        counts = {"heads": int(mask.heads.sum()), "mlps": int(mask.mlps.sum())}
        rows.append({"round": len(rows), "phase": phase, **counts, "score": score, "floor": floor, "passed": passed})
        progress(len(rows), len(rows) + 4)

    if size is None and settings.sparsity is not None:
        stay = 1 - settings.sparsity
        heads = round(stay * mask.heads.size) if prune != "mlps" else mask.heads.size
        size = heads, round(stay * units.layers) if prune != "heads" else units.layers
    if size is not None:
        note("full", mask)
        while (more := int(mask.heads.sum()) - size[0]) + (more_mlps := int(mask.mlps.sum()) - size[1]) > 0:
            step = min(more, share_of(mask.heads.size, settings.heads_per_round))
            mask = without_least(mask, ranking_of(mask), step, min(more_mlps, 1))
            note("size", mask)
        if not scores:  # nothing to remove
            ranking_of(mask)
    else:
        full = judge(mask)
        floor = settings.threshold * full
        note("full", mask, full, floor)
        ranking = ranking_of(mask)
        for phase, heads, mlps in phases(settings, prune, mask.heads.size):
            while (smaller := without_least(mask, ranking, heads, mlps)) != mask:
                value = judge(smaller)
                note(phase, smaller, value, floor, reaches(value, floor))
                if not rows[-1]["passed"]:
                    break
                mask = smaller
                if len(mask):
                    ranking = ranking_of(mask)
    return FoundUnits(mask, pd.DataFrame(rows), pd.concat(scores, ignore_index=True))


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
    progress: Show = True,
) -> FoundUnits:
    """Heads and MLPs of a fine-tuned model by importance, on a labelled split: `.mask`, and how it was found (`.rounds`,
    `.scores`). `prune` says which may go: both, heads, or mlps.

    Example:
        >>> found = cw.prune_units(model, task.validation, cw.Importance(sparsity=0.5))
        >>> found.mask
        <Mask 4/8 heads, 1/2 MLPs, sparsity 0.50>
        >>> found.rounds["heads"].iloc[-1]
        np.int64(4)
    """
    check_model(model, "prune_units")
    one_split(split, "prune_units")
    if prune not in get_args(Prunes):
        raise InputError(f"prune_units: prune={prune!r}: choose both, heads or mlps")
    settings = settings or Importance.model_validate({})
    if not isinstance(settings, Importance):
        raise InputError(f"prune_units: takes settings, cw.Importance(sparsity=0.5), not {a_kind(settings)}")
    if "prune" in settings.model_fields_set:
        raise InputError("prune_units: prune is an argument of its own here: prune_units(model, split, prune='heads')")
    if settings.like is not None:
        raise InputError("prune_units: like is a setting of studies, which have masks to be like; give sparsity or threshold")
    examples, gold = encode(split, model.tokenizer, model.max_length), gold_classes(model.labels, split)
    judge = unit_judge(model, examples, gold, metric, settings.stand_in, model.means)
    with bar("prune", progress) as tell:
        return importance_search(model, examples, gold, judge, settings, prune, None, model.means, tell)
