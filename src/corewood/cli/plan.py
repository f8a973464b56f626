from __future__ import annotations

from typing import Annotated

import typer

from corewood.cli.options import STORE, Changes, StoreFolder, Study, Workers

NAME = "plan"


def command(
    study: Study,
    store: StoreFolder = STORE,
    change: Changes = None,
    workers: Workers = None,
    every: Annotated[bool, typer.Option("--jobs", help="List every job.")] = False,
) -> None:
    """Show what a study will do: its jobs, what is done, what is missing, what it will cost. Nothing is written."""
    from rich.console import Console
    from rich.table import Table

    from corewood.cli.progress import KIND_NAMES, kinds, say_mapping, span
    from corewood.store.store import Store
    from corewood.study.engines import cores
    from corewood.study.plan import make_plan
    from corewood.study.run import estimate, state_of
    from corewood.study_file import read_study

    spec = read_study(study, change)
    results = Store(store)
    plan = make_plan(spec, study.parent)
    states = state_of(plan, results)
    console = Console(highlight=False)
    for line in say_mapping(plan):
        console.print(line, markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("jobs")
    for heading in ("done", "missing", "failed", "damaged"):
        table.add_column(heading, justify="right")
    for kind in kinds(plan.jobs):
        here = [states[job.key].split(":")[0] for job in plan.jobs if job.kind == kind]
        counts = [here.count(state) for state in ("done", "missing", "failed", "damaged")]
        table.add_row(KIND_NAMES[kind], *(str(c) if c else "·" for c in counts))
    console.print(table)
    for job in plan.jobs:
        state, _, reason = states[job.key].partition(": ")
        if reason:
            console.print(f"{job.title}: {state}, {reason}", markup=False, style="red")
        elif every:
            console.print(f"{state:8} {job.title}", markup=False, style="dim" if state == "done" else "")
    missing = [job for job in plan.jobs if states[job.key] != "done"]
    if not missing:
        console.print("Everything is done: running it again computes nothing.")
        return
    seconds = estimate(missing, results, workers or cores())
    cost = (
        f"about {span(seconds)}, judging by earlier jobs in this store"
        if seconds is not None
        else "no timing in this store yet"
    )
    console.print(f"{len(missing)} of {len(plan.jobs)} jobs to do: {cost}.")
