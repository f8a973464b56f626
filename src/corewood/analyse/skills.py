"""Was a skill lost, or did the model only come to give one answer more often? Subnetworks beside their full model, and beside
each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from corewood.analyse.ablation import paired_change
from corewood.data.task import Split
from corewood.evaluate.metrics import AUC, BALANCED, Judge, Z, log_odds, placements, predicted

Change = tuple[float, float, float]  # how far, and the ends of its interval


def skill_changes(full: np.ndarray, found: np.ndarray, split: Split, classes: Sequence[str]) -> pd.DataFrame:
    """One row per skill and metric; `full` is (example, class) logits, `found` (subnetwork, example, class).

    `change` is the mean over subnetworks less the full model's, `low` and `high` its interval over examples, for these
    subnetworks. All answer the same examples: that of balanced accuracy is paired, answer by answer, that of auc DeLong's
    (1988). Those of d-prime and criterion take models for independent, which makes them wide.
    """
    judge, models = Judge(split, classes), np.stack([full, *found])
    scored = [judge.skills(logits) for logits in models]
    if scored[0].empty:
        return scored[0]
    paired: dict[tuple[str, str], Change] = {}
    for skill, gold, right, placed in skill_answers(models, judge, split):
        shift = right[1:].mean(0) - right[0]
        paired[skill, BALANCED] = paired_change(shift, [gold == label for label in np.unique(gold)])
        if placed is not None:
            paired[skill, AUC] = delong(placed, gold)
    ends = np.stack([table[["value", "low", "high"]].to_numpy(float) for table in scored], 1)  # (row, model, value and ends)
    rows = []
    for whole, own in zip(scored[0].to_dict("records"), ends, strict=True):
        facts = {"case": whole["case"], "metric": whole["metric"], "n": whole["n"], "full": whole["value"]}
        facts |= {"full_low": whole["low"], "full_high": whole["high"], "subnetworks": len(found)}
        others = own[1:, 0]
        facts |= {"min": others.min(), "mean": others.mean(), "max": others.max()}
        change = paired[key] if (key := (whole["case"], whole["metric"])) in paired else independent(own)
        rows.append({**facts, **dict(zip(("change", "low", "high"), change, strict=True))})
    return pd.DataFrame(rows)


def skill_differences(logits: np.ndarray, names: Sequence[str], split: Split, classes: Sequence[str]) -> pd.DataFrame:
    """One row per skill and two subnetworks: how much better the `one` tells its answers apart than the `other`, with a paired
    interval over examples; by auc or, where there are more than two answers, by balanced accuracy. `logits` is (subnetwork,
    example, class)."""
    rows = []
    for skill, gold, right, placed in skill_answers(logits, Judge(split, classes), split):
        for i, j in combinations(range(len(names)), 2):
            if placed is not None:
                metric, (change, low, high) = AUC, delong(placed[[j, i]], gold)
            else:
                shift = right[i].astype(float) - right[j]
                metric, (change, low, high) = BALANCED, paired_change(shift, [gold == label for label in np.unique(gold)])
            facts = {"case": skill, "metric": metric, "n": len(gold), "one": names[i], "other": names[j]}
            rows.append({**facts, "difference": change, "low": low, "high": high})
    return pd.DataFrame(rows)


def skill_answers(
    models: np.ndarray, judge: Judge, split: Split
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    """(skill, (example,) gold, (model, example) right, (model, example) placements) of (model, example, class) logits; no
    placements where there are more than two answers."""
    right, odds = predicted(models, judge.fold) == judge.gold, log_odds(models, judge.fold)  # (model, example)
    for skill, inside in judge.skill_parts:
        gold = judge.gold[inside]
        placed = np.stack([placements(one, gold) for one in odds[:, inside]]) if len(split.labels) == 2 else None
        yield skill, gold, right[:, inside], placed


def delong(placed: np.ndarray, gold: np.ndarray) -> Change:
    """Of auc; (model, example) placements, the full model's first. Never surer than if one example of each answer had gone from
    one end of the order to the other: where no rank changes, the variance is none, however few they are."""
    shift = placed[1:].mean(0) - placed[0]
    parts = [shift[gold == label] for label in (0, 1)]
    variance = sum(part.var(ddof=1) / len(part) if len(part) > 1 else np.inf for part in parts)
    least = sum(1 / len(part) ** 2 for part in parts)
    change, half = float(parts[0].mean()), float(Z * max(variance, least) ** 0.5)
    return change, max(-1.0, change - half), min(1.0, change + half)


def independent(ends: np.ndarray) -> Change:
    """Of scores whose own intervals are symmetric, (model, value and ends), the full model's first; a mean is at least as sure
    as its members are on average."""
    change = float(ends[1:, 0].mean() - ends[0, 0])
    widths = ends[:, 2] - ends[:, 1]
    half = float(np.hypot(widths[0], widths[1:].mean())) / 2
    return change, change - half, change + half
