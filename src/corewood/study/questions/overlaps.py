"""What tasks share: units that survive in two of them, beside what independent tasks would."""

from __future__ import annotations

import pandas as pd

from corewood.analyse.overlaps import overlaps
from corewood.study.questions.survivors import PRUNED_KINDS, common
from corewood.study.results import Question, Results, stack
from corewood.study.subnetwork import GIVEN


def overlaps_table(results: Results) -> pd.DataFrame | None:
    """Over the seeds that all tasks have, of the kinds of units that were pruned."""
    tables = []
    for about in dict.fromkeys(found.anywhere for found in results.raters if found.way != GIVEN):
        by_task = {f.task: by for f, by in results.raters.items() if f.anywhere == about}
        seeds = common(by_task)
        if len(by_task) > 1 and seeds:
            table = overlaps({task: [by[s] for s in seeds] for task, by in by_task.items()})
            facts = {k: v for k, v in about.facts.items() if k != "task"}
            tables.append(table[table["kind"].isin(PRUNED_KINDS[about.prune])].assign(**facts))
    return stack(tables)


QUESTION = Question("overlaps", lambda r: {"overlaps": overlaps_table(r)})
