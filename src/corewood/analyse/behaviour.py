"""What heads do, in a word, and which kinds of pictures they make; whether the core, or survivors, do something else.

Places that heads attend to: the Heuristic Core, section 5. Pattern types: When BERT Plays the Lottery, section 5.2, appendix F.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu, pearsonr

from corewood.model.mask import Mask

CLEAR = 0.2  # a head that sends so much of its attention beyond chance to one kind of place is said to attend to it
GROUPS = ("all heads", "super-survivors")


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
        means = {"core": ours.mean(), "rest": others.mean(), "uniform": part["uniform"].iloc[0]}
        rows.append({"kind": kind, **means, "core_heads": len(ours), "rest_heads": len(others), "delta": delta, "p": p})
    return pd.DataFrame(rows)


def pattern_summary(patterns: pd.DataFrame, survivors: Mapping[str, Mask]) -> pd.DataFrame:
    """Shares of types over heads, then mean and standard deviation over seeds: for all heads, and for a task's survivors.

    Those are looked at in models pruned to them, where there are such rows.
    """
    alone = patterns["pruned"] if "pruned" in patterns else pd.Series(False, patterns.index)
    tables = []
    for group in GROUPS:
        rows = patterns[~alone]
        if group == GROUPS[1]:
            mine = patterns[alone] if alone.any() else rows
            rows = mine[inside(mine, survivors)]
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
    patterns = patterns[~patterns["pruned"]] if "pruned" in patterns else patterns
    rows = patterns[(patterns["type"] == "heterogeneous") & patterns["task"].isin(list(survivors))]
    rows = rows.assign(survives=inside(rows, survivors))
    head = ["state", "attention", "task", "layer", "head"]
    heads = rows.groupby(head, sort=False)[["share", "survives"]].mean().reset_index()
    made = []
    for (state, attention), part in heads.groupby(["state", "attention"], sort=False):
        whole = part.groupby(["layer", "head"])[["share", "survives"]].mean().reset_index()  # a head counts once
        for task, group in [("all tasks", whole), *part.groupby("task", sort=False)]:
            survives, share = group["survives"].to_numpy(float), group["share"].to_numpy()
            known = len(set(survives)) > 1 and np.ptp(share) > 0 and len(share) > 2
            r, p = pearsonr(survives, share) if known else (np.nan, np.nan)
            facts = {"state": state, "attention": attention, "task": task, "heads": len(group)}
            made.append({**facts, "survivors": int((survives > 0).sum()), "r": float(r), "p": float(p)})
    return pd.DataFrame(made)
