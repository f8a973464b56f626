"""Checkpoints pruned over a grid of sparsities: the smallest subnetwork that is faithful to each (HC, section 4.2)."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pandas as pd

from corewood.analyse.effective import Order, by_rules, by_set
from corewood.spec import EffectiveSize, Importance
from corewood.study.models import Plan
from corewood.study.results import Group, Question
from corewood.study.subnetwork import FULL, GRID
from corewood.study.ways import importance, l0

RULES: list[tuple[Order, bool]] = [*product(get_args(Order), (False, True))]  # order, one_sided


def plan(plan: Plan, wanted: EffectiveSize) -> None:
    for model in plan.models.values():
        if wanted.way == "l0" and model.task.regression:
            continue
        for step in reversed(model.steps if wanted.checkpoints == "all" else sorted(set(wanted.checkpoints))):
            if wanted.way == "l0":
                plan.rows.extend(l0.searched(model, wanted, step, GRID))
                continue
            for sparsity in wanted.sparsity:
                stand_in = "zero" if plan.spec.ablate == "zero" else "mean"
                settings = Importance.model_validate({"sparsity": sparsity, "ablate": stand_in})
                plan.rows.append(importance.pruned(model, settings, "both", step, GRID))


def effective_size_table(group: Group) -> pd.DataFrame | None:
    """Both orders, two-sided and one-sided; `chosen` marks the rule that the study asks for."""
    spec = group.results.plan.spec
    rule = spec.effective_size
    assert rule is not None
    table = group.every_score[group.every_score["question"].isin([FULL, GRID])]
    planned = [row for row in group.results.plan.rows if row.model == group.model.key and row.question == GRID]
    asked = {row.seed for row in planned}, {row.target for row in planned}
    found = by_rules(by_set(table, rule.mixed, spec.focus), rule.margin, RULES, asked)
    if found.empty:
        return None
    chosen = (found["order"] == rule.order) & (found["one_sided"] == rule.one_sided)
    return found.assign(nested=group.grid[0].nested, margin=rule.margin, chosen=chosen)


QUESTION = Question("effective_size", lambda r: {"effective_size": r.each(effective_size_table, grid=True)}, plan)
