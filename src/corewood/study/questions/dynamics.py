"""The full model over training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
from safetensors.numpy import load_file

from corewood.analyse.generalisation import dynamics
from corewood.spec import FineTune
from corewood.spec.study import CHALLENGE
from corewood.study.results import Question, Results, stack
from corewood.study.subnetwork import FULL


def dynamics_table(results: Results) -> pd.DataFrame | None:
    table = results.scores
    tables = []
    for task, tuning in results.plan.models:
        mine = table[(table["way"] == FULL) & (table["task"] == task) & (table["tuning"] == tuning)]
        on_the_way = stack(list(watched(results, (task, tuning))))
        if on_the_way is not None:
            new = on_the_way[~on_the_way["checkpoint"].isin(mine["checkpoint"])]
            mine = pd.concat([mine, new], ignore_index=True).sort_values("checkpoint", kind="stable")
        if mine["checkpoint"].nunique() > 1:
            lists = {name: cases for name, cases in results.plan.spec.focus.items() if name != CHALLENGE}
            tables.append(dynamics(mine, lists).assign(task=task, tuning=tuning))
    return stack(tables)


def watched(results: Results, model: tuple[str, int]) -> Iterator[pd.DataFrame]:
    """Scores of the full model at steps that its fine-tuning looked at without keeping it."""
    tuned, full = results.plan.models[model].tuned.get("fine_tune"), results.full(model)
    if tuned is None or full is None or not results.there(tuned):
        return
    settings = FineTune(**tuned.params["settings"])
    for step in settings.watched:
        for dataset, logits in load_file(results.entry(tuned).path(f"watched-{step}.safetensors")).items():
            yield results.scored(replace(full, checkpoint=step), dataset, logits)


QUESTION = Question("dynamics", lambda r: {"dynamics": dynamics_table(r)})
