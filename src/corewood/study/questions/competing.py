"""Competing subnetworks: is there a faithful one without these units, and what does it cost?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.generalisation import as_good, judged
from corewood.study.models import CHALLENGE, IN_DOMAIN
from corewood.study.results import Question, Results
from corewood.study.subnetwork import BY_L0, L0, PRUNE, WITH, WITHOUT, Subnetwork
from corewood.study.ways.l0 import named_units


def competing_table(results: Results) -> pd.DataFrame | None:
    """One row per search: the plain ones, and those without and with the units that the study names, seed by seed."""
    rows = []
    for key in results.plan.models:
        mine = [r for r in results.rows if r.model == key and r.question == PRUNE and r.way in BY_L0]
        if all(r.way == L0 for r in mine):
            continue
        unseen = {r.name: results.unseen_kl(r) for r in mine}
        for row in mine:
            plain = [r for r in mine if r.way == L0 and r.target == row.target]
            if not plain:  # nothing to stand beside
                continue
            facts = {name: getattr(row, name) for name in ("task", "tuning", "target", "nested", "seed", "way")}
            units, mask = pinned_units(results, row), results.mask(row)
            twin = next((results.mask(r) for r in plain if r.seed == row.seed), None)
            facts |= {"subnetwork": row.name, "asked": asked(results, row), "pinned": len(units), "units": " ".join(units)}
            facts |= {"unseen_kl": unseen[row.name], "lowest_kl": min(unseen[r.name] for r in plain)}
            rows.append(
                {**facts, **judgement(results, row), "shared": np.nan if twin is None else len(mask & twin) / len(mask)}
            )
    if not rows:
        return None
    table = pd.DataFrame(rows)
    return table.assign(faithful=as_good(table["unseen_kl"], table["lowest_kl"]))


def asked(results: Results, row: Subnetwork) -> str:
    """The units that its search left out or held, as the study has them."""
    wanted = results.plan.spec.prune.l0
    return " + ".join({WITHOUT: wanted.without, WITH: wanted.with_units}.get(row.way, ())) if wanted else ""


def pinned_units(results: Results, row: Subnetwork) -> list[str]:
    """What its search left out or held, in the model's order."""
    assert row.masks is not None
    named = named_units(row.masks, results.store)
    return [name for name in results.units.names if name in named]


def judgement(results: Results, row: Subnetwork) -> dict[str, Any]:
    """Its score in domain, and the mean of its accuracies over the challenge cases."""
    task = results.plan.tasks[row.task]
    table = results.scores
    mine = table[(table["task"] == row.task) & (table["tuning"] == row.tuning) & (table["subnetwork"] == row.name)]
    inside = mine[(mine["domain"] == IN_DOMAIN) & (mine["metric"] == task.metric) & (mine["case"] == "all")]
    cases = judged(mine[(mine["domain"] == CHALLENGE) & (mine["metric"] == "accuracy")])
    return {"metric": task.metric, "in_domain": float(inside["value"].iloc[0]), "cases": float(cases["value"].mean())}


QUESTION = Question("competing", lambda r: {"competing": competing_table(r)})
