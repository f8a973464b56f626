from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewood.cli.options import STORE, StoreFolder, check_new

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

NAME = "compare"


def command(
    one: Annotated[Path, typer.Argument(help="A study file that has been run.", show_default=False)],
    other: Annotated[Path, typer.Argument(help="Another; tasks and datasets are matched by name.", show_default=False)],
    store: StoreFolder = STORE,
    preset_a: Annotated[list[str] | None, typer.Option(help="A preset of the first study. May be repeated.")] = None,
    preset_b: Annotated[list[str] | None, typer.Option(help="A preset of the second. May be repeated.")] = None,
    set_a: Annotated[list[str] | None, typer.Option(help="A change to the first study: key=value. May be repeated.")] = None,
    set_b: Annotated[list[str] | None, typer.Option(help="A change to the second. May be repeated.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the table to this CSV file, which must not exist.")
    ] = None,
) -> None:
    """Put two studies beside each other: full models case by case with an interval, means of their subnetworks, and masks."""
    from rich.console import Console

    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.compare import compare

    if out is not None:
        check_new(out)
    specs = read_study(one, set_a, preset_a), read_study(other, set_b, preset_b)
    found = compare(*specs, (one.parent, other.parent), Store(store))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # nobody's window: a file, or a pipe
    for letter, spec, file in zip("AB", specs, (one, other), strict=True):
        console.print(f"{letter}: {spec.name} ({file})", markup=False)
    for note in found.notes:
        console.print(f"Not compared: {note}.", style="yellow", markup=False)
    if len(found.scores):
        show_scores(console, found.scores)
    if len(found.masks):
        show_masks(console, found.masks)
    if out is not None:
        found.scores.to_csv(out, index=False, lineterminator="\n")
        typer.echo(f"Table: {out}")


def show_scores(console: Console, table: pd.DataFrame) -> None:
    from rich.markup import escape
    from rich.table import Table

    extra = [c for c in table.columns if c.startswith(("one ", "other "))]
    short = {c: c.replace("one at", "A").replace("other at", "B").replace("one ", "A ").replace("other ", "B ") for c in extra}
    shown = Table(box=None, pad_edge=False, header_style="dim")
    first = ["task", "dataset", "case"] if table["task"].nunique() > 1 else ["dataset", "case"]
    for heading in (*first, "A", "B", "B - A", "95 %", *short.values()):
        shown.add_column(heading, justify="left" if heading in first else "right", no_wrap=True)
    for row in table.to_dict("records"):
        span = f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}" + (" " if row["paired"] else "*")
        values = [f"{100 * row[c]:.1f}" for c in ("one", "other")] + [f"{100 * row['difference']:+.1f}", span]
        shown.add_row(*(escape(str(row[c])) for c in first), *values, *(f"{100 * row[c]:.1f}" for c in extra))
    console.print(shown)
    console.print(
        "Full models and their difference in per cent and points, then means over subnetworks by sparsity.", style="dim"
    )
    if not table["paired"].all():
        console.print("* The two judged other examples, so that the interval is not a paired one.", style="dim")


def show_masks(console: Console, table: pd.DataFrame) -> None:
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (
        "task",
        "way",
        "removed",
        "masks A",
        "masks B",
        "Jaccard of heads",
        "by chance",
        "core A",
        "core B",
        "shared",
    ):
        shown.add_column(heading, justify="left" if heading in ("task", "way") else "right", no_wrap=True)
    for row in table.to_dict("records"):
        size = f"{100 * row['target']:g} %" if row["target"] else "threshold"
        numbers = [f"{row['jaccard']:.2f}", f"{row['jaccard_expected']:.2f}"]
        cores = [f"{row[f'core_{c}']:.0f}" for c in ("one", "other", "shared")]
        shown.add_row(row["task"], row["way"], size, str(row["one"]), str(row["other"]), *numbers, *cores)
    console.print(shown)
