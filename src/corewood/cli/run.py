from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from corewood.cli.options import STORE, Changes, Out, Presets, StoreFolder, Study, Workers

if TYPE_CHECKING:
    from corewood.spec import StudySpec

NAME = "run"


def command(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    workers: Workers = None,
    out: Out = None,
) -> None:
    """Run a study, or go on with one that was stopped."""
    from corewood.spec import read_study

    run(read_study(study, change, preset), study.parent, store, workers, out)


def run(spec: StudySpec, base: Path, store: Path, workers: int | None, out: Path | None) -> None:
    from corewood.cli.progress import listener
    from corewood.store.store import Store
    from corewood.study.deliver import check_out, deliver
    from corewood.study.engines import cores, engine
    from corewood.study.run import run_study

    out = out or Path(f"{spec.name}-report")
    check_out(out)
    try:
        with listener() as show:
            show.say("Reading the data and the model")
            outcome = run_study(spec, base, Store(store), engine(workers or cores()), show)
    except KeyboardInterrupt:
        typer.echo("Stopped. Finished jobs are kept; the same command goes on from here.", err=True)
        sys.exit(130)
    page = deliver(outcome.report, out)
    if outcome.computed:
        typer.echo(f"{outcome.computed} jobs in {outcome.seconds:.0f} s.")
    else:
        typer.echo(f"Nothing to compute: every job was done ({outcome.seconds:.1f} s).")
    typer.secho(f"Report: {page}", bold=True)
    if not outcome.complete:
        typer.secho(f"{len(outcome.holes)} jobs have no result:", fg="red", err=True)
        for key, reason in outcome.holes.items():
            typer.echo(f"  {outcome.plan.jobs[key].title}: {reason}", err=True)
        typer.echo("The report shows them as holes. The same command tries them again.", err=True)
        sys.exit(1)
