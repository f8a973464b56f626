"""Which kinds of pictures heads make, and whether survivors make other ones (LT, section 5.2, appendix F)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import pearsonr

from corewood.model.mask import Mask

HETEROGENEOUS = "heterogeneous"
GROUPS = ("all heads", "super-survivors")


def pattern_summary(patterns: pd.DataFrame, survivors: Mapping[str, Mask]) -> pd.DataFrame:
    """Shares of types over heads, then mean and standard deviation over seeds: for all heads, and for a task's survivors."""
    tables = []
    for group in GROUPS:
        rows = patterns[inside(patterns, survivors)] if group == GROUPS[1] else patterns
        by_seed = rows.groupby(["task", "state", "tuning", "attention", "type"], sort=False)["share"].mean()
        by = by_seed.groupby(["task", "state", "attention", "type"], sort=False)
        table = by.agg(mean="mean", std="std", seeds="count").reset_index()
        heads = rows.drop_duplicates(["task", "layer", "head"]).groupby("task").size()
        tables.append(table.assign(heads=group, count=table["task"].map(heads)))
    return pd.concat(tables, ignore_index=True)


def inside(patterns: pd.DataFrame, survivors: Mapping[str, Mask]) -> np.ndarray:
    """(row,) whether the head is one that all seeds of its task keep."""
    kept = np.zeros(len(patterns), bool)
    for task, mask in survivors.items():
        mine = (patterns["task"] == task).to_numpy()
        kept[mine] = mask.heads[patterns.loc[mine, "layer"], patterns.loc[mine, "head"]]
    return kept


def heterogeneity(patterns: pd.DataFrame, survivors: Mapping[str, Mask]) -> pd.DataFrame:
    """Pearson's correlation of surviving in all seeds with the share of heterogeneous maps, head by head.

    Over all tasks, of the share of tasks in which a head survives with its mean share of such maps.
    """
    rows = patterns[(patterns["type"] == HETEROGENEOUS) & patterns["task"].isin(list(survivors))]
    rows = rows.assign(survives=inside(rows, survivors))
    heads = (
        rows.groupby(["state", "attention", "task", "layer", "head"], sort=False)[["share", "survives"]].mean().reset_index()
    )
    made = []
    for (state, attention), part in heads.groupby(["state", "attention"], sort=False):
        whole = part.groupby(["layer", "head"])[["share", "survives"]].mean().reset_index()  # a head counts once
        for task, group in [("all tasks", whole), *part.groupby("task", sort=False)]:
            survives, share = group["survives"].to_numpy(float), group["share"].to_numpy()
            known = len(set(survives)) > 1 and np.ptp(share) > 0 and len(share) > 2
            r, p = pearsonr(survives, share) if known else (np.nan, np.nan)
            facts = {
                "state": state,
                "attention": attention,
                "task": task,
                "heads": len(group),
                "survivors": int((survives > 0).sum()),
            }
            made.append({**facts, "r": float(r), "p": float(p)})
    return pd.DataFrame(made)
