"""Ways of pruning beside each other, asked for the same share: which keeps generalisation?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.differences import beside
from corewood.evaluate.metrics import parts
from corewood.study.results import Question, Results
from corewood.study.subnetwork import FULL, L0, PRUNE, Subnetwork


def complete(planned: list[Subnetwork], there: list[Subnetwork], base: str) -> list[Subnetwork]:
    """Without searches beside which another way lacks its subnetwork; of ways without such seeds, the models that all have."""

    def seeds(rows: list[Subnetwork], way: str) -> set[tuple[int, int]]:
        return {(r.tuning, r.seed) for r in rows if r.way == way}

    ways = dict.fromkeys(r.way for r in planned)
    paired = [way for way in ways if seeds(planned, way) == seeds(planned, base)]
    whole = set.intersection(*(seeds(there, way) for way in paired))
    models = set.intersection(*({t for t, _ in seeds(there, way)} for way in ways)) & {t for t, _ in whole}
    kept = [r for r in there if r.way not in paired or (r.tuning, r.seed) in whole]
    return [r for r in kept if r.tuning in models]


def ways_table(results: Results) -> pd.DataFrame | None:
    """Every way on every case, with its interval and its difference from the first: L0, where there is such."""
    rows: list[dict[str, Any]] = []
    planned = [r for r in results.plan.rows if r.question == PRUNE and r.target > 0]
    modes: dict[str, str] = {}
    planned = [r for r in planned if modes.setdefault(r.way, r.prune) == r.prune]  # of several modes of a way, the first
    for name, target in dict.fromkeys((r.task, r.target) for r in planned):
        task = results.plan.tasks[name]
        there = [r for r in results.rows if r in planned and (r.task, r.target) == (name, target)]
        ways = list(dict.fromkeys(r.way for r in there))
        mine = [r for r in planned if (r.task, r.target) == (name, target) and r.way in ways]
        if len(ways) < 2 or task.regression:
            continue
        base = L0 if L0 in ways else ways[0]
        here = complete(mine, there, base)
        models = [key for key in results.plan.models if key[0] == name and results.full(key) is not None]
        tunings = [tuning for _, tuning in models if any(r.tuning == tuning for r in here)]
        for dataset in task.datasets if tunings else ():
            right: dict[str, np.ndarray] = {}
            for way in ways:
                by_model = [[results.answers(r, dataset) for r in here if (r.way, r.tuning) == (way, t)] for t in tunings]
                right[way] = np.stack([np.mean(answers, axis=0) for answers in by_model])  # (model, example)
            whole = [results.full((name, tuning)) for tuning in tunings]
            right[FULL] = np.stack([results.answers(r, dataset) for r in whole if r]).astype(float)
            for case, group, inside in parts(task.splits[dataset]):
                facts = {"task": name, "target": target, "dataset": dataset, "case": case, "group": group}
                facts |= {"domain": task.domain(dataset), "base": base}
                found = beside({way: values[:, inside] for way, values in right.items()}, base)
                rows += [{**facts, "way": way, **values} for way, values in found.items()]
    return pd.DataFrame(rows) if rows else None


QUESTION = Question("ways", lambda r: {"ways": ways_table(r)})
