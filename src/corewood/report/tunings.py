"""Spread between fine-tunings beside spread between searches."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.html import Formats, html_table, share, whole
from corewood.report.items import chart, table
from corewood.report.style import LINES, Tables, in_rows, percent, shown, where
from corewood.report.words import joined, quoted

PARTS = {"between": "between fine-tunings", "within": "between searches of one"}


def rows_of(tables: Tables) -> pd.DataFrame | None:
    """In domain and case by case, where both parts of the variance are known."""
    if "tunings" not in tables:
        return None
    rows = tables["tunings"].dropna(subset="within")
    return judged(rows).assign(where=lambda t: where(t)) if len(rows) else None


def tunings_chart(tables: Tables) -> Any:
    """Standard deviations of accuracy: what another fine-tuning changes, and what another search."""
    rows = rows_of(tables)
    if rows is None:
        return None
    panels = []
    for (task, way, _), mine in rows.groupby(["task", "way", "prune"], sort=False):
        for target in shown(mine["target"]):
            here = mine[mine["target"] == target]
            data = here.melt(["where", "share", "tunings"], list(PARTS), var_name="part", value_name="std")
            data["part"] = data["part"].map(PARTS)
            panels.append(
                alt.Chart(data.round(4))
                .mark_bar()
                .encode(
                    y=alt.Y("where:N", scale=alt.Scale(domain=list(dict.fromkeys(here["where"]))), title=None),
                    yOffset=alt.YOffset("part:N", scale=alt.Scale(domain=list(PARTS.values()))),
                    x=alt.X("std:Q", title="standard deviation of accuracy"),
                    color=alt.Color(
                        "part:N",
                        title=None,
                        scale=alt.Scale(domain=list(PARTS.values()), range=LINES),
                        legend=alt.Legend(orient="top", labelLimit=300),
                    ),
                    tooltip=["where:N", "part:N", alt.Tooltip("std:Q", format=".3f"), "tunings:Q"],
                )
                .properties(width=330, height=20 * here["where"].nunique(), title=f"{quoted(task)}, {way}, {percent(target)}")
            )
    return in_rows(panels) if panels else None


def tunings_table(tables: Tables) -> str | None:
    if "tunings" not in tables:
        return None
    rows = judged(tables["tunings"])
    columns = ["task", "way", "target", "dataset", "case", "tunings", "subnetworks", "mean", "lowest", "highest"]
    columns += ["between", "within", "share", "full_std"]
    shares = ("target", "mean", "lowest", "highest", "between", "within", "share", "full_std")
    formats: Formats = dict.fromkeys(shares, share) | dict.fromkeys(("tunings", "subnetworks"), whole)
    names = {"target": "sparsity", "tunings": "fine-tunings", "lowest": "lowest of a fine-tuning", "highest": "highest"}
    names |= {"between": "std between fine-tunings", "within": "std between searches", "full_std": "std of full models"}
    return html_table(rows[columns], formats, {**names, "share": "share of fine-tuning in the variance"})


def points(tables: Tables, single: bool) -> list[str]:
    rows = rows_of(tables)
    if rows is None:
        return []
    cases = rows[rows["domain"] == "challenge"].dropna(subset="share")
    parts = []
    for (task, way, target), part in cases.groupby(["task", "way", "target"], sort=False):
        middle = f"{100 * part['share'].median():.0f} %"
        parts.append(f"{middle} ({quoted(task)}, {way}, {percent(float(str(target)))})")
    if not parts:
        return []
    return [f"Of the variance of accuracy on a case, fine-tuning holds {joined(parts)}, in the median; search holds the rest."]


SECTIONS = {
    "Fine-tunings": (
        chart(
            "tunings",
            "What another fine-tuning changes, and what another search",
            "Standard deviations of accuracy, by the method of moments: between fine-tunings with different seeds, and between "
            "searches in one of them. Where the first is longer, subnetworks differ because their models do.",
            tunings_chart,
        ),
        table("tunings-table", "The same in numbers", "Per way, size and case.", tunings_table),
    ),
}
