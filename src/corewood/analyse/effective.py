"""Effective size: the smallest subnetwork that is still faithful to a model (the Heuristic Core, sections 3 and 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from corewood.analyse.generalisation import FULL, judged
from corewood.errors import InputError

Order = Literal["accuracies", "seeds"]
IN_DOMAIN, CHALLENGE, MIXED = "in domain", "challenge", "mixed"
SLACK = 1e-9


def effective_size(
    accuracy: pd.DataFrame,
    margin: float = 0.03,
    order: Order = "accuracies",
    two_sided: bool = False,
    mixed: tuple[float, float] = (1, 1),
    focus: Sequence[str] = (),
) -> pd.DataFrame:
    """Per checkpoint and set, the smallest target size (share of units kept) within `margin` of the full model.

    `accuracy` holds subnetworks of every checkpoint over a grid of targets and seeds, and the full models. Sets: in
    domain, challenge (mean over the cases in `focus`, or over all), mixed (both, with the weights `mixed`), every case.

    order="accuracies" averages accuracies over seeds first, as the paper says; order="seeds" finds a size per seed and
    averages those, as its code does. Nothing faithful counts as 1.

    Flags: `floor`, `ceiling` (share of the curves at the grid's edge: the true size may be smaller; nothing in the grid is
    faithful), `trivial` (a subnetwork that is always wrong would be faithful), `holes` (runs missing from the grid),
    `non_monotone` (curves where a smaller size is faithful and a larger is not).
    """
    if order not in ("accuracies", "seeds"):
        raise InputError(f"order={order!r}: choose 'accuracies' (the paper) or 'seeds' (its code)")
    values = by_set(accuracy, mixed, focus)
    whole = values[values["subnetwork"] == FULL].set_index(["checkpoint", "set"])["value"].to_dict()
    rows: list[dict[str, object]] = []
    for (checkpoint, name), part in values[values["subnetwork"] != FULL].groupby(["checkpoint", "set"], sort=False):
        if (checkpoint, name) not in whole:
            continue
        full = float(whole[checkpoint, name])
        grid = part.pivot(index="seed", columns="target", values="value").sort_index(axis=1)
        curves = grid.mean().to_frame().T if order == "accuracies" else grid
        off = full - curves.to_numpy()  # (curve, target), targets rising
        faithful = (np.abs(off) if two_sided else off) <= margin + SLACK  # a hole compares as False
        known = ~np.isnan(off)
        sizes = 1 - np.where(faithful, curves.columns.to_numpy(), 0.0).max(1)
        facts = {"checkpoint": checkpoint, "set": name, "order": order, "two_sided": two_sided, "full": full}
        std = float(sizes.std(ddof=1)) if len(sizes) > 1 else np.nan
        flags = {
            "floor": float(faithful[:, -1].mean()),
            "ceiling": float((~faithful).all(1).mean()),
            "trivial": bool(full <= margin + SLACK),
            "holes": int(grid.isna().to_numpy().sum()),
            "non_monotone": sum(dented(f[k]) for f, k in zip(faithful, known, strict=True)),
        }
        rows.append({**facts, "effective_size": float(sizes.mean()), "std": std, "seeds": len(grid), **flags})
    return pd.DataFrame(rows)


def dented(faithful: np.ndarray) -> bool:
    """(target,) in rising sparsity: whether some sparser subnetwork is faithful after a denser one was not."""
    return bool((faithful[1:] & ~faithful[:-1]).any())


def by_set(accuracy: pd.DataFrame, mixed: tuple[float, float], focus: Sequence[str]) -> pd.DataFrame:
    """Accuracy rows -> checkpoint, subnetwork, target, seed, set, value. A set lacks a value where a member does."""
    rows = judged(accuracy)
    keys = ["checkpoint", "subnetwork", "target", "seed"]
    challenge = rows[rows["domain"] == "challenge"]
    chosen = challenge[challenge["case"].isin(focus)] if focus else challenge
    inside = rows[rows["domain"] == "in-domain"]

    def mean(part: pd.DataFrame) -> pd.Series:
        return part.groupby(keys, sort=False)["value"].agg(lambda v: v.mean(skipna=False))

    means = {IN_DOMAIN: mean(inside), CHALLENGE: mean(chosen)}
    weights = np.array(mixed, float) / sum(mixed)
    if not (chosen.empty or inside.empty):
        means[MIXED] = weights[0] * means[IN_DOMAIN] + weights[1] * means[CHALLENGE]
    parts = [series.rename("value").reset_index().assign(set=name) for name, series in means.items() if len(series)]
    several = challenge["dataset"].nunique() > 1
    name = challenge["dataset"] + ": " + challenge["case"] if several else challenge["case"]
    single = challenge.assign(set=name.where(challenge["case"] != "all", challenge["dataset"]))
    if len(single) and single["set"].nunique() > 1:
        parts.append(single[[*keys, "set", "value"]])
    return pd.concat(parts, ignore_index=True)
