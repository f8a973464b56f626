"""Spread between fine-tunings beside spread between searches."""

from __future__ import annotations

import pandas as pd

from corewood.analyse.differences import variance_components
from corewood.analyse.generalisation import share_right
from corewood.study.results import Question, Results
from corewood.study.subnetwork import BY_LOT, FULL, PRUNE, PRUNED


def tunings_table(results: Results) -> pd.DataFrame | None:
    """Per way, size and case: how much of the variance of accuracy lies between fine-tunings, and how much within them."""
    table = results.scores.assign(value=lambda t: share_right(t))
    rows = table[(table["question"] == PRUNE) & (table["state"] == PRUNED) & ~table["way"].isin(BY_LOT)]
    full = table[table["way"] == FULL]
    last = full[full["checkpoint"] == full.groupby(["task", "tuning"])["checkpoint"].transform("max")]
    found = []
    keys = ["task", "way", "prune", "target", "dataset", "case", "domain"]
    for facts, part in rows.groupby(keys, sort=False):
        by_tuning = {seed: values["value"].to_numpy() for seed, values in part.groupby("tuning", sort=False)}
        if len(by_tuning) < 2:
            continue
        about = dict(zip(keys, facts, strict=True))
        mine = last[(last["task"] == about["task"]) & (last["dataset"] == about["dataset"]) & (last["case"] == about["case"])]
        found.append({**about, **variance_components(list(by_tuning.values())), "full_std": float(mine["value"].std(ddof=1))})
    return pd.DataFrame(found) if found else None


QUESTION = Question("tunings", lambda r: {"tunings": tunings_table(r)})
