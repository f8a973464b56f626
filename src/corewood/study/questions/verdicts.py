"""Which subnetworks still handle what the full model handles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.verdicts import verdicts
from corewood.data.task import ALL
from corewood.evaluate.metrics import parts
from corewood.study.results import Question, Results, in_front, searched, stack
from corewood.study.subnetwork import Subnetwork

ABOUT = ("task", "tuning", "way", "prune", "target")


def verdicts_table(results: Results) -> pd.DataFrame | None:
    """One row per subnetwork and case that its full model handles, in domain first; corrected within one way and size."""
    packs: dict[tuple[Any, ...], list[Subnetwork]] = {}
    for row in filter(searched, results.rows):
        packs.setdefault(tuple(getattr(row, name) for name in ABOUT), []).append(row)
    tables = []
    for about, rows in packs.items():
        task, full = results.plan.tasks[rows[0].task], results.full(rows[0].model)
        if full is None or task.regression:
            continue
        cases = []
        for dataset in task.datasets:
            whole = results.answers(full, dataset)
            right = np.stack([results.answers(row, dataset) for row in rows])
            split = task.splits[dataset]
            for case, group, inside in parts(split):
                if case != ALL or split.cases is None:
                    facts = {"dataset": dataset, "case": case, "group": group, "domain": task.domain(dataset)}
                    cases.append((facts, whole[inside], right[:, inside]))
        table = verdicts(cases, [row.name for row in rows])
        tables.append(table.assign(**dict(zip(ABOUT, about, strict=True))))
    found = stack(tables)
    return None if found is None else in_front([*ABOUT, "subnetwork"], found)


QUESTION = Question("verdicts", lambda r: {"verdicts": verdicts_table(r)})
