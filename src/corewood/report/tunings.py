"""Spread between fine-tunings beside spread between searches."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.html import html_table, share
from corewood.report.items import chart, says, table
from corewood.report.style import PERCENT, Tables, coloured, in_rows, ordered, percent, room, shown, tips, where
from corewood.report.ways import called
from corewood.report.words import joined, quoted

PARTS = {"between": "between fine-tunings", "within": "between searches of one"}


def rows_of(tables: Tables) -> pd.DataFrame | None:
    """In domain and case by case, where both parts of the variance are known."""
    rows = tables["tunings"].dropna(subset="within")
    return judged(rows).assign(where=lambda t: where(t)) if len(rows) else None


@chart("Fine-tunings", "tunings", "What another fine-tuning changes, and what another search", of="tunings")
def tunings_chart(tables: Tables) -> Any:
    """Standard deviations of accuracy, by the method of moments: between fine-tunings with different seeds, and between
    searches in one of them. Where the first is longer, subnetworks differ because their models do."""
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
                    y=ordered(alt.Y, "where", dict.fromkeys(here["where"])),
                    yOffset=alt.YOffset("part:N", scale={"domain": list(PARTS.values())}),
                    x=alt.X("std:Q", title="standard deviation of accuracy", axis={"format": PERCENT}),
                    color=coloured("part", PARTS.values()),
                    tooltip=tips("case = where:N | of it = part:N | std:Q .1% | fine-tunings = tunings:Q"),
                )
                .properties(
                    width=room(here["where"], 2),
                    height=20 * here["where"].nunique(),
                    title=f"{quoted(task)}, {called(way)}, {percent(target)}",
                )
            )
    return in_rows(panels) if panels else None


@table("Fine-tunings", "tunings-table", "The same in numbers", of="tunings")
def tunings_table(tables: Tables) -> str | None:
    """Per way, size and case."""
    rows = judged(tables["tunings"])
    columns = ["task", "way", "target", "dataset", "case", "tunings", "subnetworks", "mean", "lowest", "highest"]
    columns += ["between", "within", "share", "full_std"]
    names = {"tunings": "fine-tunings", "lowest": "lowest of a fine-tuning", "between": "std between fine-tunings"}
    names |= {"within": "std between searches", "full_std": "std of full models"}
    names["share"] = "share of fine-tuning in the variance"
    return html_table(rows[columns], names, {"lowest": share, "highest": share})


@says(of="tunings")
def tunings_point(tables: Tables) -> list[str]:
    rows = rows_of(tables)
    if rows is None:
        return []
    cases = rows[rows["domain"] == "challenge"].dropna(subset="share")
    parts = []
    for (task, way, target), part in cases.groupby(["task", "way", "target"], sort=False):
        middle = f"{100 * part['share'].median():.0f} %"
        parts.append(f"{middle} ({quoted(task)}, {called(way)}, {percent(float(str(target)))})")
    if not parts:
        return []
    return [f"Of the variance of accuracy on a case, fine-tuning holds {joined(parts)}, in the median; search holds the rest."]
