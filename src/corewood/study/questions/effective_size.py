"""Checkpoints pruned over a grid of sparsities: the smallest subnetwork that is faithful to each (HC, section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from corewood.analyse.effective import effective_size
from corewood.spec import Importance
from corewood.study.questions.question import Question
from corewood.study.results import Group, stack
from corewood.study.subnetwork import FULL, GRID
from corewood.study.ways import importance, l0

if TYPE_CHECKING:
    from corewood.study.plan import Plan


def plan(plan: Plan) -> None:
    wanted = plan.spec.effective_size
    if wanted is None:
        return
    for model in plan.models.values():
        if wanted.way == "l0" and model.task.regression:
            continue
        steps = model.steps if wanted.checkpoints == "all" else sorted(set(wanted.checkpoints))
        for step in reversed(steps):
            if wanted.way == "l0":
                plan.rows.extend(l0.searched(model, plan.spec, wanted, step, GRID))
                continue
            for sparsity in wanted.sparsity:
                stand_in = "zero" if plan.spec.ablate == "zero" else "mean"
                settings = Importance.model_validate({"sparsity": sparsity, "ablate": stand_in})
                plan.rows.append(importance.pruned(model, settings, "both", question=GRID, step=step))


def effective_size_table(group: Group) -> pd.DataFrame | None:
    """Both orders, one-sided and two-sided; `chosen` marks the rule that the study asks for."""
    spec = group.results.plan.spec
    rule = spec.effective_size
    if rule is None or not group.grid:
        return None
    table = group.accuracy[group.accuracy["question"].isin([FULL, GRID])]
    made = [
        effective_size(table, rule.margin, order, two_sided, rule.mixed, spec.focus)  # type: ignore[arg-type]
        for order in ("accuracies", "seeds")
        for two_sided in (False, True)
    ]
    found = stack(made)
    if found is None:
        return None
    chosen = (found["order"] == rule.order) & (found["two_sided"] == rule.two_sided)
    return found.assign(nested=group.grid[0].nested, margin=rule.margin, chosen=chosen)


QUESTION = Question("effective_size", lambda r: {"effective_size": r.each(effective_size_table)}, plan)
