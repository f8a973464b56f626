"""What `corewood export` does and prints."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import typer
from rich.markup import escape

from corewood.cli.screen import screen, table
from corewood.cli.voice import Voice, emit
from corewood.data.task import ALL
from corewood.ship.card import COLUMNS, busy, percent, summary
from corewood.ship.export import ship
from corewood.ship.folder import check_new
from corewood.ship.judge import FILE, INT8
from corewood.ship.of_study import recommended, results_of, subject_of
from corewood.ship.onnx_file import check_installed
from corewood.ship.subject import Shipped, Wanted
from corewood.spec import StudySpec
from corewood.store.store import Store
from corewood.study.plan import make_plan

Named = tuple[str | None, str | None, int | None]  # a subnetwork, its task and the seed of its fine-tuning


def export_from(spec: StudySpec, base: Path, store: Path, named: Named, out: Path, wanted: Wanted, voice: Voice) -> None:
    check_installed()
    check_new(out)
    name, task, tuning = named
    results = results_of(make_plan(spec, base), Store(store))

    def tell(line: str) -> None:
        if not (voice.quiet or voice.json):
            typer.echo(line, err=True)
        voice.event("step", text=line)

    if name is None:
        name = recommended(results, task, tuning)
        tell(f"Recommended: {name}, the smallest that keeps every case")
    shipped = ship(subject_of(results, name, task, tuning), out, wanted, tell, not (voice.quiet or voice.json))
    conclude(shipped, voice)


def conclude(shipped: Shipped, voice: Voice) -> None:
    if voice.json:
        cases = shipped.cases.astype(object).where(shipped.cases.notna(), None).to_dict("records")
        speed = [{**vars(one), "milliseconds": dict(one.milliseconds), "times": one.times} for one in shipped.timings]
        said = {"subnetwork": shipped.name, "folder": str(shipped.folder.resolve()), "int8": shipped.finding}
        emit("result", **said, summary=summary(shipped), cases=cases, timings=speed)
        return
    if voice.quiet:
        typer.echo(shipped.folder)
        return
    console = screen()
    show_cases(shipped.cases)
    total = int(shipped.cases.loc[shipped.cases["case"] == ALL, "n"].sum())
    what = "number" if (shipped.cases["metric"] == "pearson").any() else "label"
    console.print(f"The file gives the subnetwork's {what} on all {total:,} examples (logits within {shipped.apart:.0e}).")
    console.print(summary(shipped))
    if busy(shipped.timings):
        console.print(busy(shipped.timings), style="yellow")
    if shipped.finding:
        console.print(shipped.finding, style="bold yellow", markup=False)
    console.print(f"Card: {shipped.folder / 'README.md'}", markup=False, soft_wrap=True)


def show_cases(cases: pd.DataFrame) -> None:
    """Each whole set or, where int8 may have moved them, each case."""
    rows = cases if INT8 in cases else cases[cases["case"] == ALL]
    whose = [who for who in COLUMNS if who in cases]
    shown = table(("set", "case"), ("examples", *(COLUMNS[who] for who in whose)))
    for row in rows.to_dict("records"):
        values = [percent(row[who], row["metric"]) for who in whose]
        if INT8 in whose and abs(row[INT8] - row[FILE]) >= 0.05:
            values[-1] = f"[bold yellow]{values[-1]}[/bold yellow]"
        shown.add_row(escape(str(row["dataset"])), escape(str(row["case"])), f"{row['n']:,}", *values)
    console = screen()
    console.print(shown)
