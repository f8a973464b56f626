"""From logits to facts: accuracy with its interval, agreement with the full model, KL to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from scipy.stats import norm

from corewood.data.labels import fold_classes
from corewood.data.task import ALL, Split

LEVEL = 0.95


def wilson(correct: Any, n: Any, level: float = LEVEL) -> tuple[Any, Any]:
    """Wilson's score interval of a proportion; arrays or numbers."""
    z = norm.ppf(1 - (1 - level) / 2)
    share = np.asarray(correct) / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def predicted(logits: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """(..., class) -> (...): argmax over the model's classes first, then folded onto the labels of the set."""
    return np.asarray(fold[logits.argmax(-1)])


def kl(full: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(full || other) per example, in nats; both (example, class) logits."""
    p, q = log_softmax(full.astype(np.float64), -1), log_softmax(other.astype(np.float64), -1)
    return np.asarray((np.exp(p) * (p - q)).sum(-1))


def parts(split: Split) -> Iterator[tuple[str, str, np.ndarray]]:
    """(case, group, which examples): all of them first, then case by case."""
    yield ALL, "", np.ones(len(split), bool)
    if split.cases is not None:
        groups = split.frame["group"] if "group" in split.frame else pd.Series([""] * len(split))
        for case in split.cases.unique():
            inside = (split.cases == case).to_numpy()
            yield str(case), str(groups[inside].iloc[0]), inside


def accuracy(logits: np.ndarray, split: Split, classes: Sequence[str], full: np.ndarray | None = None) -> pd.DataFrame:
    """One row per case: case, group, gold, n, correct, value, low, high and, beside the full model, agreement and kl."""
    fold = fold_classes(classes, split)
    guess = predicted(logits, fold)
    right = guess == split.gold
    same = None if full is None else guess == predicted(full, fold)
    divergence = None if full is None else kl(full, logits)
    rows = []
    for case, group, inside in parts(split):
        gold = split.frame["label"][inside].unique()
        n, correct = int(inside.sum()), int(right[inside].sum())
        low, high = wilson(correct, n)
        rows.append(
            {
                "case": case,
                "group": group,
                "gold": str(gold[0]) if len(gold) == 1 else "mixed",
                "n": n,
                "correct": correct,
                "value": correct / n,
                "low": float(low),
                "high": float(high),
                "agreement": np.nan if same is None else float(same[inside].mean()),
                "kl": np.nan if divergence is None else float(divergence[inside].mean()),
            }
        )
    return pd.DataFrame(rows)
