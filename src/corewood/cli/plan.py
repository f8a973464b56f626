from __future__ import annotations

from typing import Annotated

import typer

from corewood.cli.options import STORE, Changes, Presets, StoreFolder, Study, Workers

NAME = "plan"


def command(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    workers: Workers = None,
    every: Annotated[bool, typer.Option("--jobs", help="List every job.")] = False,
    measure: Annotated[bool, typer.Option(help="Run a few steps of the model to estimate the time.")] = True,
) -> None:
    """Show what a study will do: its jobs, what is done, what is missing, what it will cost. Nothing is written."""
    from rich.console import Console
    from rich.table import Table

    from corewood.cli.progress import kinds, say_mapping, span
    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.cost import estimate
    from corewood.study.engines import cores
    from corewood.study.plan import make_plan
    from corewood.study.run import state_of

    spec = read_study(study, change, preset)
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
    for kind in kinds(list(plan.jobs.values())):
        here = [states[job.key].split(":")[0] for job in plan.jobs.values() if job.kind == kind.name]
        counts = [here.count(state) for state in ("done", "missing", "failed", "damaged")]
        table.add_row(kind.title, *(str(c) if c else "·" for c in counts))
    console.print(table)
    for job in plan.jobs.values():
        state, _, reason = states[job.key].partition(": ")
        if reason:
            console.print(f"{job.title}: {state}, {reason}", markup=False, style="red")
        elif every:
            console.print(f"{state:8} {job.title}", markup=False, style="dim" if state == "done" else "")
    missing = [job for job in plan.jobs.values() if states[job.key] != "done"]
    if not missing:
        console.print("Everything is done: running it again computes nothing.")
        return
    if not measure:
        console.print(f"{len(missing)} of {len(plan.jobs)} jobs to do.")
        return
    many = workers or cores()
    with console.status("Measuring a few steps"):
        cost = estimate(plan, missing, many)
    console.print(
        f"{len(missing)} of {len(plan.jobs)} jobs to do: about {span(cost.seconds)} with {many} workers on this machine."
    )
    steps = [f"forward on {n} {1000 * v:.1f}" for n, v in cost.forward.items()]
    if cost.search is not None:
        steps.insert(0, f"search {1000 * cost.search:.1f}")
    if cost.train is not None:
        steps.insert(0, f"fine-tune {1000 * cost.train:.1f}")
    console.print(f"Measured just now, in milliseconds per example: {', '.join(steps)}.", style="dim")
