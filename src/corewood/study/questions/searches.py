"""How searches and pruning went: their course, and whether they are done."""

from __future__ import annotations

import pandas as pd

from corewood.analyse.generalisation import convergence
from corewood.study.results import Group, Question, Results, stack
from corewood.study.subnetwork import BY_L0, IMPORTANCE, MAGNITUDE, PRUNE


def convergence_table(group: Group) -> pd.DataFrame | None:
    """Whether the searches of one size ended equally well, and how much of their spread goes with that."""
    judged = group.way in BY_L0 and group.judged
    return convergence(group.accuracy, group.unseen, group.targets, group.ended) if judged else None


def trajectories_table(group: Group) -> pd.DataFrame | None:
    """One per search: a path's stands under the name of its last mask."""
    tables = []
    for row in group.found if group.way in BY_L0 else ():
        assert row.masks is not None
        if row.place < len(row.masks.params["settings"]["path"]):
            continue
        table = pd.read_parquet(group.results.entry(row.masks).path("trajectory.parquet"))
        table.insert(0, "subnetwork", row.name)
        tables.append(table.assign(sparsity=row.target, seed=row.seed, nested=row.nested))
    return stack(tables)


def rounds_table(results: Results, file: str, ways: tuple[str, ...]) -> pd.DataFrame | None:
    """Every round of pruning: what was left, what it scored, whether it passed; or what every unit scored in it."""
    tables = []
    for row in results.rows:
        if row.way in ways and row.question == PRUNE and row.target == 0:
            table = pd.read_parquet(results.entry(row.masks).path(file))
            tables.append(table.assign(task=row.task, tuning=row.tuning, way=row.way, prune=row.prune))
    return stack(tables)


QUESTION = Question(
    "searches",
    lambda r: {
        "convergence": r.each(convergence_table),
        "trajectories": r.each(trajectories_table),
        "rounds": rounds_table(r, "rounds.parquet", (IMPORTANCE, MAGNITUDE)),
        "importance": rounds_table(r, "scores.parquet", (IMPORTANCE,)),
    },
)
