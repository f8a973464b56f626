"""What `corewood compare` prints."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.markup import escape

from corewood.cli.screen import screen, table
from corewood.study.compare import Comparison

FEW = 8  # columns of means that have room beside the full models


def say_comparison(titles: list[str], found: Comparison) -> None:
    console = screen()
    for title in titles:
        console.print(title, markup=False)
    for note in found.notes:
        console.print(f"Not compared: {note}.", style="yellow", markup=False)
    if len(found.scores):
        show_scores(console, found.scores)
    if len(found.masks):
        show_masks(console, found.masks)
    if len(found.heads):
        show_heads(console, found.heads)


def show_scores(console: Console, scores: pd.DataFrame) -> None:
    every = [c for c in scores.columns if c.startswith(("one ", "other "))]
    extra = every if len(every) <= FEW else []
    short = [c.replace("one at", "A").replace("other at", "B").replace("one ", "A ").replace("other ", "B ") for c in extra]
    first = ["task", "dataset", "case"] if scores["task"].nunique() > 1 else ["dataset", "case"]
    shown = table(first, ("A", "B", "B - A", "95 %", *short))
    for row in scores.to_dict("records"):
        span = f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}" + (" " if row["paired"] else "*")
        values = [f"{100 * row[c]:.1f}" for c in ("one", "other")] + [f"{100 * row['difference']:+.1f}", span]
        shown.add_row(*(escape(str(row[c])) for c in first), *values, *(f"{100 * row[c]:.1f}" for c in extra))
    console.print(shown)
    means = ", then means over subnetworks by sparsity" if extra else ""
    console.print(f"Full models and their difference in per cent and points{means}.", style="dim")
    if not extra and every:
        show_means(console, scores[scores["case"] == "all"], [c.removeprefix("one ") for c in every if c.startswith("one ")])
    if not scores["paired"].all():
        console.print("* The two judged other examples, so that the interval is not a paired one.", style="dim")


def show_means(console: Console, whole_sets: pd.DataFrame, kinds: list[str]) -> None:
    """Means over subnetworks on whole sets: of many ways and sizes, which have no room beside the cases."""
    shown = table(("dataset", "subnetworks"), ("A", "B", "B - A"))
    for row in whole_sets.to_dict("records"):
        for kind in kinds:
            one, other = 100 * row[f"one {kind}"], 100 * row[f"other {kind}"]
            shown.add_row(escape(str(row["dataset"])), kind, f"{one:.1f}", f"{other:.1f}", f"{other - one:+.1f}")
    console.print(shown)


def show_heads(console: Console, heads: pd.DataFrame) -> None:
    """Those in the core of one or the other."""
    cores = heads[heads["core_one"] | heads["core_other"]]
    if cores.empty:
        return
    kinds = (cores[["does_one", "does_other"]] != "").any(axis=None)
    shown = table(("head of a core",), ("kept by A", "kept by B", *(("A attends to", "B attends to") if kinds else ())))
    for row in cores.to_dict("records"):
        shares = [f"{100 * row[f'share_{c}']:.0f} %" for c in ("one", "other")]
        shown.add_row(row["unit"], *shares, *([escape(row["does_one"]), escape(row["does_other"])] if kinds else []))
    console.print(shown)


def show_masks(console: Console, masks: pd.DataFrame) -> None:
    counts = ("removed", "masks A", "masks B")
    last = ("Jaccard of heads", "by chance", "core A", "core B", "shared", "by chance", "rho of frequencies")
    shown = table(("task", "way"), (*counts, *last))
    for row in masks.to_dict("records"):
        size = "" if pd.isna(row["target"]) else f"{100 * row['target']:g} %" if row["target"] else "threshold"
        numbers = [f"{row['jaccard']:.2f}", f"{row['jaccard_expected']:.2f}"]
        cores = [f"{row[f'core_{c}']:.0f}" for c in ("one", "other", "shared")]
        cores += [f"{row['core_expected']:.2g} (p {row['core_p']:.2g})", "" if pd.isna(row["rho"]) else f"{row['rho']:.2f}"]
        shown.add_row(escape(row["task"]), row["way"], size, str(row["one"]), str(row["other"]), *numbers, *cores)
    console.print(shown)
