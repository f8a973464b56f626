"""Effective size: the smallest subnetwork that is still faithful to a model (the Heuristic Core, sections 3 and 4.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from corewood.analyse.generalisation import FULL, judged, of_skills, share_right
from corewood.errors import InputError
from corewood.evaluate.metrics import BALANCED, D_PRIME
from corewood.spec.study import CHALLENGE

Order = Literal["accuracies", "seeds"]
IN_DOMAIN, MIXED = "in domain", "mixed"
SLACK = 1e-9  # of sums of shares


def effective_size(
    accuracy: pd.DataFrame,
    margin: float = 0.03,
    order: Order = "accuracies",
    one_sided: bool = False,
    mixed: tuple[float, float] = (1, 1),
    focus: Sequence[str] | Mapping[str, Sequence[str]] = (),
) -> pd.DataFrame:
    """Per checkpoint and set, the smallest target size (share of units kept) within `margin` of the full model.

    `accuracy` holds subnetworks of every checkpoint over a grid of targets and seeds, and the full models. Sets: in
    domain; challenge (mean over the cases in `focus`, or over all), or one for each named list of cases in `focus`; mixed
    (in domain and the first of those, with the weights `mixed`); every case; balanced accuracy of each challenge set and of
    every skill. All but cases and skills are `whole`.

    Within the margin means on either side of the full model, as the paper's text says; with `one_sided`, as its code does,
    a subnetwork that is better than the full model is always faithful.

    order="accuracies" averages accuracies over seeds first, as the paper says; order="seeds" finds a size per seed and
    averages those, as its code does. Nothing faithful counts as 1.

    Flags: `floor`, `ceiling` (share of the curves at the grid's edge: the true size may be smaller; nothing in the grid is
    faithful), `trivial` (a subnetwork that is always wrong would be faithful; in balanced accuracy of two answers, one that
    always says the same), `holes` (runs missing from the grid), `non_monotone` (curves where a smaller size is faithful and a
    larger is not).

    Example:
        >>> scores = cw.run("study.yaml", store="store").tables["scores"]
        >>> table = cw.effective_size(scores[scores["way"].isin(["full", "l0"])], margin=0.05)
        >>> table["set"].tolist()[:3]
        ['in domain', 'challenge', 'mixed']
    """
    if order not in ("accuracies", "seeds"):
        raise InputError(f"order={order!r}: choose 'accuracies' (the paper) or 'seeds' (its code)")
    return by_rules(by_set(accuracy, mixed, focus), margin, [(order, one_sided)])


def by_rules(
    values: pd.DataFrame,
    margin: float,
    rules: Sequence[tuple[Order, bool]],
    asked: tuple[Collection[int], Collection[float]] = ((), ()),
) -> pd.DataFrame:
    """What `effective_size` gives, from what `by_set` gives: for one (order, one_sided) after the other. `asked` are the seeds
    and targets that a checkpoint should have; what it has is taken for all of them where that is not said."""
    whole = values[values["subnetwork"] == FULL].set_index(["checkpoint", "set"])["value"].to_dict()
    grids = []  # (what it is about, the full model's value, (seed, target) values)
    for (checkpoint, name), part in values[values["subnetwork"] != FULL].groupby(["checkpoint", "set"], sort=False):
        if (checkpoint, name) in whole:
            full, first = float(whole[checkpoint, name]), part.iloc[0]
            facts = {"checkpoint": checkpoint, "set": name, "full": full, "whole": bool(first["whole"])}
            facts |= {"metric": first["metric"], "trivial": bool(full <= first["floor"] + margin + SLACK)}
            seeds, targets = (sorted({*part[column], *more}) for column, more in zip(("seed", "target"), asked, strict=True))
            grid = part.pivot(index="seed", columns="target", values="value")
            grids.append((facts, full, grid.reindex(index=seeds, columns=targets)))
    return pd.DataFrame(
        {**facts, "order": order, "one_sided": one_sided, **size_on(grid, full, margin, order, one_sided)}
        for order, one_sided in rules
        for facts, full, grid in grids
    )


def size_on(grid: pd.DataFrame, full: float, margin: float, order: Order, one_sided: bool) -> dict[str, float]:
    """`grid` has a row per seed and a column per target, rising."""
    there = grid.dropna(how="all")
    curves = there.mean().to_frame().T if order == "accuracies" else there
    off = full - curves.to_numpy()  # (curve, target)
    faithful = (off if one_sided else np.abs(off)) <= margin + SLACK  # a hole compares as False
    sizes = 1 - np.where(faithful, curves.columns.to_numpy(), 0.0).max(1)
    return {
        "effective_size": float(sizes.mean()),
        "std": float(sizes.std(ddof=1)) if len(sizes) > 1 else np.nan,
        "seeds": len(there),
        "floor": float(faithful[:, -1].mean()),
        "ceiling": float((~faithful).all(1).mean()),
        "holes": int(grid.isna().to_numpy().sum()),
        "non_monotone": sum(dented(f[k]) for f, k in zip(faithful, ~np.isnan(off), strict=True)),
    }


def dented(faithful: np.ndarray) -> bool:
    """(target,) in rising sparsity: whether some sparser subnetwork is faithful after a denser one was not."""
    return bool((faithful[1:] & ~faithful[:-1]).any())


def by_set(
    accuracy: pd.DataFrame, mixed: tuple[float, float], focus: Sequence[str] | Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Accuracy rows -> checkpoint, subnetwork, target, seed, set, whole, metric, floor, value. A set lacks a value where a
    member does. `floor`: what one and the same answer gets of two, in balanced accuracy; else 0."""
    rows = judged(accuracy)
    keys = ["checkpoint", "subnetwork", "target", "seed"]
    challenge = rows[rows["domain"] == "challenge"]
    named = focus if isinstance(focus, Mapping) and focus else {CHALLENGE: focus or list(challenge["case"])}

    def mean(part: pd.DataFrame) -> pd.Series:
        grouped = part.groupby(keys, sort=False)["value"]
        return grouped.mean().where(grouped.count() == grouped.size())

    known = rows[rows["domain"] == "in-domain"]
    inside = {IN_DOMAIN: mean(known.assign(value=share_right(known)))}
    outside = {name: mean(challenge[challenge["case"].isin(cases)]) for name, cases in named.items()}
    means = {name: values for name, values in {**inside, **outside}.items() if len(values)}
    first = next((values for values in outside.values() if len(values)), None)
    if first is not None and IN_DOMAIN in means:
        weights = np.array(mixed, float) / sum(mixed)
        means[MIXED] = weights[0] * means[IN_DOMAIN] + weights[1] * first
    parts = [series.rename("value").reset_index().assign(set=name, whole=True) for name, series in means.items()]
    several = challenge["dataset"].nunique() > 1
    single = rows[rows["domain"] != "in-domain"]
    name = single["dataset"] + ": " + single["case"] if several else single["case"]
    single = single.assign(set=name.where(single["case"] != "all", single["dataset"]), whole=False)
    if len(single) and single["set"].nunique() > 1:
        parts.append(single)
    skills = of_skills(accuracy, BALANCED)
    which = ": " + (skills["dataset"] + ": " if several else "") + skills["case"]
    two = skills["dataset"].isin(of_skills(accuracy, D_PRIME)["dataset"])
    balanced = skills.assign(set=BALANCED + which.str.removesuffix(": all"), whole=skills["case"] == "all", metric=BALANCED)
    every = [*(part.assign(metric="accuracy", floor=0.0) for part in parts), balanced.assign(floor=0.5 * two)]
    columns = [*keys, "set", "whole", "metric", "floor", "value"]
    return pd.concat([part[columns] for part in every if len(part)], ignore_index=True)
