"""What heads do, in a word, and whether the core does something else than the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

CLEAR = 0.2  # a head that sends so much of its attention beyond chance to one kind of place is said to attend to it


def named(scores: pd.DataFrame) -> pd.Series:
    """Names of the heads of a scores table."""
    return "L" + scores["layer"].astype(str) + ".H" + scores["head"].astype(str)


def mostly(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per head: what it mostly attends to, how much of its attention that is, and what chance would give."""
    table = scores.assign(unit=named(scores), excess=scores["mean"] - scores["uniform"])
    best = table.loc[table.groupby("unit", sort=False)["excess"].idxmax()]
    does = best["kind"].where(best["excess"] >= CLEAR, "spread out")
    return best.assign(does=does)[["unit", "layer", "head", "does", "kind", "mean", "low", "high", "uniform", "examples"]]


def core_against_rest(scores: pd.DataFrame, core: Sequence[str]) -> pd.DataFrame:
    """Per kind: mean of core heads and of the others, Cliff's delta, and the p-value of Mann and Whitney's test.

    Cliff's delta is the chance that a core head scores higher than another, minus the chance that it scores lower.
    """
    inside = named(scores).isin(core)
    rows = []
    for kind, part in scores.groupby("kind", sort=False):
        ours, others = part.loc[inside[part.index], "mean"], part.loc[~inside[part.index], "mean"]
        delta, p = np.nan, np.nan
        if len(ours) and len(others):
            u = mannwhitneyu(ours, others)
            delta, p = 2 * u.statistic / (len(ours) * len(others)) - 1, u.pvalue
        rows.append(
            {
                "kind": kind,
                "core": float(ours.mean()),
                "rest": float(others.mean()),
                "uniform": float(part["uniform"].iloc[0]),
                "core_heads": len(ours),
                "rest_heads": len(others),
                "delta": float(delta),
                "p": float(p),
            }
        )
    return pd.DataFrame(rows)
