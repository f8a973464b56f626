"""Was a skill lost, or did the model only come to give one answer more often? Subnetworks beside their full model."""

from __future__ import annotations

from collections.abc import Sequence

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
    gold, fold = judge.gold, judge.fold
    right, odds = predicted(models, fold) == gold, log_odds(models, fold)  # (model, example)
    paired: dict[tuple[str, str], Change] = {}
    for skill, inside in judge.skill_parts:
        here = gold[inside]
        shift = right[1:, inside].mean(0) - right[0, inside]
        paired[skill, BALANCED] = paired_change(shift, [here == label for label in np.unique(here)])
        if len(split.labels) == 2:
            paired[skill, AUC] = delong(odds[:, inside], here)
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


def delong(odds: np.ndarray, gold: np.ndarray) -> Change:
    """Of auc; (model, example) log odds, the full model's first. Never surer than if one example of each answer had gone from
    one end of the order to the other: where no rank changes, the variance is none, however few they are."""
    placed = np.stack([placements(one, gold) for one in odds])
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
