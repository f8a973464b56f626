"""The smallest faithful subnetwork over training."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.effective import MIXED
from corewood.analyse.generalisation import judged
from corewood.evaluate.metrics import BALANCED
from corewood.report.html import html_table
from corewood.report.items import chart, says, table
from corewood.report.scores import in_accuracy
from corewood.report.spread import against_sparsity
from corewood.report.style import INK, LINES, Tables, coloured, room, share_axis, tips


@chart("Training", "effective-size", "Effective size over training", of="effective_size")  # figures 6, 15, 16
def effective_size_chart(tables: Tables) -> Any:
    """The smallest subnetwork within the margin of the full model. Hollow points are bounds, not values: the grid's edge,
    nothing faithful, or a full model so poor that any subnetwork is faithful to it. Dashed where it says something else:
    the rule with the other number of sides."""
    table = tables["effective_size"]
    table = table[table["whole"]].copy()
    sets = list(dict.fromkeys(table["set"]))
    rule = table[table["chosen"]].iloc[0]
    table = table[table["order"] == rule["order"]]
    table["rule"] = table["one_sided"].map({True: "one-sided", False: "two-sided"})
    table["note"] = ""
    for flag, words in (
        ("trivial", "trivially faithful"),
        ("floor", "at the grid's floor: it may be smaller"),
        ("ceiling", "nothing in the grid is faithful"),
        ("non_monotone", "a larger one is not faithful"),
    ):
        table["note"] = (table["note"] + "; " + words).where(table[flag] > 0, table["note"])
    table["note"] = table["note"].str.removeprefix("; ").replace("", "inside the grid")
    table["clear"] = table["note"].isin(["inside the grid", "a larger one is not faithful"])
    columns = ["checkpoint", "set", "rule", "effective_size", "std", "full", "seeds", "holes", "note", "clear"]
    other, table = (table.loc[table["chosen"] == mine, columns] for mine in (False, True))
    sizes = [part.set_index(["set", "checkpoint"])["effective_size"] for part in (table, other)]
    differ = set((sizes[0] - sizes[1]).abs().groupby("set").max().loc[lambda gap: gap > 0].index)
    encoding = dict(
        x=alt.X("checkpoint:Q", title="fine-tuning step"),
        y=share_axis(alt.Y, "effective_size", "effective size: share of units kept"),
        color=coloured("set", sets, [INK, *LINES[1:]]),
        tooltip=tips(
            "set:N | rule:N | step = checkpoint:Q | effective size = effective_size:Q .0% | full model = full:Q .1% | "
            "flags = note:N | seeds:Q | runs missing = holes:Q"
        ),
    )
    layers = [alt.Chart(table).mark_line(strokeWidth=2).encode(**encoding)]
    if differ:
        dashed = alt.Chart(other[other["set"].isin(differ)]).mark_line(strokeWidth=1.3, strokeDash=[4, 3], opacity=0.7)
        layers.append(dashed.encode(**encoding))
    for clear, part in table.groupby("clear"):
        layers.append(alt.Chart(part).mark_point(filled=bool(clear), size=70, strokeWidth=2).encode(**encoding))
    return alt.layer(*layers).properties(width=room(), height=300)


@table("Training", "effective-size-table", "Effective size by every rule", of="effective_size")
def effective_size_table(tables: Tables) -> str | None:
    """Accuracies first: averaged over seeds before a size is looked for. Seeds first: a size per seed, then averaged."""
    table = tables["effective_size"]
    table = table[table["whole"]].copy()
    table["set"] = pd.Categorical(table["set"], list(dict.fromkeys(table["set"])))  # in this order
    order = {"chosen": False, "order": True, "one_sided": True, "set": True, "checkpoint": True}
    table = table.sort_values(list(order), ascending=list(order.values()))
    table["rule"] = table["order"].map({"accuracies": "accuracies first", "seeds": "seeds first"})
    table["rule"] += table["one_sided"].map({True: ", one-sided", False: ""}) + table["chosen"].map(
        {True: " (chart)", False: ""}
    )
    table["flags"] = [
        ", ".join(
            word
            for flag, word in (
                (row["floor"] > 0, "floor"),
                (row["ceiling"] > 0, "ceiling"),
                (row["trivial"], "trivial"),
                (row["holes"] > 0, "holes"),
                (row["non_monotone"] > 0, "non-monotone"),
            )
            if flag
        )
        for _, row in table.iterrows()
    ]
    columns = ["set", "checkpoint", "rule", "full", "effective_size", "std", "seeds", "flags"]
    return html_table(table[columns])


@chart("Training", "grid", "Accuracy against sparsity, over the grid", of="effective_size accuracy")  # figure 4
def grid_chart(tables: Tables) -> Any:
    """The last checkpoint, pruned to every size of the grid. Lines join the means over seeds; point at one to see
    which case it is, and bars from its worst to its best seed."""
    rows = in_accuracy(tables["accuracy"])
    grid = rows[rows["question"] == "effective_size"]
    rows = rows[rows["checkpoint"] == grid["checkpoint"].max()]
    keys = ["target", "dataset", "case", "domain", "group"]
    table = rows[rows["question"] == "effective_size"].groupby(keys, sort=False).agg(
        mean=("value", "mean"), min=("value", "min"), max=("value", "max"), n=("n", "first"), subnetworks=("value", "size")
    ).reset_index()  # fmt: skip
    full = rows[rows["subnetwork"] == "full"].set_index(["dataset", "case"])["value"]
    table["full"] = [full.get((d, c), np.nan) for d, c in zip(table["dataset"], table["case"], strict=True)]
    return against_sparsity(judged(table), rows) if table["target"].nunique() > 1 else None


@says(of="effective_size", single=True)
def size_point(tables: Tables) -> list[str]:
    """At the first and the last checkpoint."""
    table = tables["effective_size"]
    table = table[table["chosen"]].sort_values("checkpoint", kind="stable")
    parts = []
    for name in [name for name in dict.fromkeys(table.loc[table["whole"], "set"]) if name != MIXED]:
        rows = table[table["set"] == name]
        if len(rows) > 1:
            first, last = rows.iloc[0], rows.iloc[-1]
            start, end = (f"{effective(row)} at step {row['checkpoint']}" for row in (first, last))
            what = "in " + name.replace(BALANCED, "balanced accuracy", 1) if first["metric"] == BALANCED else name
            parts.append(f"{what} it goes from {start} to {end}")
    return [f"Effective size, in units of the full model: {'; '.join(parts)}."] if parts else []


def effective(row: pd.Series) -> str:
    """A value, or the bound that it is."""
    size = f"{100 * row['effective_size']:.0f} %"
    if row["trivial"]:
        return "nothing to speak of (the full model is at the floor)"
    if row["ceiling"] == 1:
        return "100 % (nothing in the grid is faithful)"
    return f"at most {size}" if row["floor"] > 0 else size
