from __future__ import annotations

from pathlib import Path

import typer

from corewood.cli.options import STORE, Changes, Out, Presets, StoreFolder, Study

NAME = "report"


def command(study: Study, store: StoreFolder = STORE, preset: Presets = None, change: Changes = None, out: Out = None) -> None:
    """Write the report of a study from what is done: report.html, figures (SVG, PDF, PNG), tables (Parquet, CSV)."""
    from corewood.cli.progress import listener
    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.deliver import deliver
    from corewood.study.run import report_study

    spec = read_study(study, change, preset)
    with listener() as show:
        outcome = report_study(spec, study.parent, Store(store), show)
    page = deliver(outcome.report, out or Path(f"{spec.name}-report"))
    typer.secho(f"Report: {page}", bold=True)
    if not outcome.complete:
        typer.echo(f"{len(outcome.holes)} jobs have no result and are shown as holes.", err=True)
