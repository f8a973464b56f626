from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewood.cli.options import STORE, StoreFolder, check_new

NAME = "compare"


def command(
    one: Annotated[Path, typer.Argument(help="A study file that has been run; no lottery.", show_default=False)],
    other: Annotated[Path, typer.Argument(help="Another, with datasets of the same names.", show_default=False)],
    store: StoreFolder = STORE,
    preset_a: Annotated[list[str] | None, typer.Option(help="A preset of the first study. May be repeated.")] = None,
    preset_b: Annotated[list[str] | None, typer.Option(help="A preset of the second. May be repeated.")] = None,
    set_a: Annotated[list[str] | None, typer.Option(help="A change to the first study: key=value. May be repeated.")] = None,
    set_b: Annotated[list[str] | None, typer.Option(help="A change to the second. May be repeated.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the table to this CSV file, which must not exist.")
    ] = None,
) -> None:
    """Put two studies beside each other: full models case by case with an interval, and the means of their subnetworks."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from corewood.store.store import Store
    from corewood.study.compare import compare
    from corewood.study_file import read_core_study

    if out is not None:
        check_new(out)
    specs = read_core_study(one, set_a, preset_a), read_core_study(other, set_b, preset_b)
    table = compare(*specs, (one.parent, other.parent), Store(store))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # nobody's window: a file, or a pipe
    for letter, spec, file in zip("AB", specs, (one, other), strict=True):
        console.print(f"{letter}: {spec.name} ({file})", markup=False)
    extra = [c for c in table.columns if " at " in c]
    short = {c: c.replace("one at", "A").replace("other at", "B") for c in extra}
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("dataset", "case", "A", "B", "B - A", "95 %", *short.values()):
        shown.add_column(heading, justify="left" if heading in ("dataset", "case") else "right", no_wrap=True)
    for row in table.to_dict("records"):
        span = f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}" + (" " if row["paired"] else "*")
        values = [f"{100 * row[c]:.1f}" for c in ("one", "other")] + [f"{100 * row['difference']:+.1f}", span]
        shown.add_row(escape(row["dataset"]), escape(row["case"]), *values, *(f"{100 * row[c]:.1f}" for c in extra))
    console.print(shown)
    console.print(
        "Full models and their difference in per cent and points, then means over subnetworks by sparsity.", style="dim"
    )
    if not table["paired"].all():
        console.print("* The two judged other examples, so that the interval is not a paired one.", style="dim")
    if out is not None:
        table.to_csv(out, index=False, lineterminator="\n")
        typer.echo(f"Table: {out}")
