"""The full model over training."""

from __future__ import annotations

import pandas as pd

from corewood.analyse.generalisation import dynamics
from corewood.spec.study import CHALLENGE
from corewood.study.results import Question, Results, stack
from corewood.study.subnetwork import FULL


def dynamics_table(results: Results) -> pd.DataFrame | None:
    table = results.scores
    tables = []
    for task, tuning in results.plan.models:
        mine = table[(table["way"] == FULL) & (table["task"] == task) & (table["tuning"] == tuning)]
        if mine["checkpoint"].nunique() > 1:
            lists = {name: cases for name, cases in results.plan.spec.focus.items() if name != CHALLENGE}
            tables.append(dynamics(mine, lists).assign(task=task, tuning=tuning))
    return stack(tables)


QUESTION = Question("dynamics", lambda r: {"dynamics": dynamics_table(r)})
