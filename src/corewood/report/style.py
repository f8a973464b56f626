"""What all charts share: colours, scales, and the names of rows.

Orders are given as scale domains, never as `sort` lists: Vega-Lite turns those into expressions, where a case that is
called "if" is read as a function. For the same reason a case never stands alone as a title, but in quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import pandas as pd

Tables = Mapping[str, pd.DataFrame]

INK, PALE, MARK = "#22302a", "#d9ded9", "#b5472f"
GREENS = ["#f4f6f2", "#cfe0cf", "#8fbb97", "#4b8b63", "#1f5d3f"]
LINES = ["#1f5d3f", "#b5472f", "#c98a1b", "#3f6fa3", "#7a4f9a", "#5f8f2f", "#a83e6c", "#2f8f8f", "#8a6a4f", "#55606b"]
PERCENT = ".0%"
PANELS = 4  # sparsities that a chart shows beside each other; the tables have all


def shown(targets: Iterable[float]) -> list[float]:
    """The sparsities to draw: all, or some from the smallest to the largest."""
    every = sorted(set(targets))
    if len(every) <= PANELS:
        return every
    return [every[round(i * (len(every) - 1) / (PANELS - 1))] for i in range(PANELS)]


def in_rows(panels: list[Any], across: int = 2) -> Any:
    """Panels beside each other, and the rest below: as wide as the page, not wider."""
    rows = [alt.hconcat(*panels[i : i + across]) for i in range(0, len(panels), across)]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


def percent(sparsity: float) -> str:
    return f"{100 * sparsity:g} % removed" if sparsity else "pruned to a threshold"


def styled(chart: Any) -> Any:
    """In one call: each copies the whole chart."""
    return chart.configure(
        font="Helvetica, Arial, sans-serif",
        background="white",
        axis=alt.AxisConfig(
            gridColor="#e8ece8", domainColor="#9aa59e", tickColor="#9aa59e", labelColor=INK, labelFontSize=11, labelLimit=260,
            titleColor=INK, titleFontSize=12, titleFontWeight="normal",
        ),
        legend=alt.LegendConfig(labelColor=INK, titleColor=INK, titleFontWeight="normal", labelFontSize=11, labelLimit=240),
        header=alt.HeaderConfig(labelColor=INK, titleColor=INK, labelFontSize=12, labelFontWeight="bold"),
        view=alt.ViewConfig(stroke="#e1e6e1"),
        title=alt.TitleConfig(color=INK, fontSize=13, anchor="start"),
    )  # fmt: skip


def order_of_cases(spread: pd.DataFrame) -> list[str]:
    """In-domain first, then case by case, group by group, as the data has them."""
    cases = spread.drop_duplicates("where")
    place = cases["domain"].map({"in-domain": 0, "in-domain too": 1, "challenge": 2})
    return list(cases.assign(place=place).sort_values(["place", "group"], kind="stable")["where"])


def where(table: pd.DataFrame) -> pd.Series:
    """What a row is about: in domain, a case, or a whole challenge set."""
    several = table.loc[table["domain"] == "challenge", "dataset"].nunique() > 1
    names = []
    for _, row in table.iterrows():
        if row["domain"].startswith("in-domain"):
            names.append("in domain" if row["domain"] == "in-domain" else f"in domain: {row['dataset']}")
        elif row["case"] == "all":
            names.append(f"{row['dataset']}: all")
        else:
            names.append(f"{row['dataset']}: {row['case']}" if several else str(row["case"]))
    return pd.Series(names, index=table.index, dtype=object)


def share_axis(channel: type[alt.X] | type[alt.Y], field: str, title: str) -> Any:
    """From 0 to 100 %, always: a cut axis makes small differences look large."""
    return channel(f"{field}:Q", title=title, axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1]))


def ordered(channel: Any, field: str, order: Iterable[str], **options: Any) -> Any:
    """Names in the order given, without a title unless one is."""
    return channel(f"{field}:N", scale=alt.Scale(domain=list(order)), **{"title": None, **options})


def coloured(field: str, names: Iterable[str], colours: list[str] = LINES) -> alt.Color:
    """A colour a name, with a legend above."""
    scale = alt.Scale(domain=list(names), range=colours)
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=300))


def unit_places(units: list[str], **axis: Any) -> dict[str, Any]:
    """Layers upwards, heads across, the MLPs as one more column."""
    return {
        "x": ordered(alt.X, "unit", units, title="head", axis=alt.Axis(labelAngle=0, **axis)),
        "y": alt.Y("layer:O", title="layer", sort="descending", axis=alt.Axis(**axis)),
    }


def tips(fields: str) -> list[alt.Tooltip]:
    """What a pointer shows: `n:Q | mean:Q .3f | kept by = count:Q`, with a format and a title where one is wanted."""
    made = []
    for field in fields.split(" | "):
        title, _, rest = field.rpartition(" = ")
        name, _, form = rest.partition(" ")
        made.append(alt.Tooltip(name, **({"title": title} if title else {}), **({"format": form} if form else {})))
    return made


def case_colour(order: list[str]) -> alt.Color:
    """In domain in ink, the cases in turn; the legend in columns of sixteen."""
    colours = [INK, *(LINES[i % len(LINES)] for i in range(len(order) - 1))]
    columns = -(-len(order) // 16)
    return alt.Color(
        "where:N",
        title="click to pick",
        scale=alt.Scale(domain=order, range=colours),
        legend=alt.Legend(columns=columns, symbolLimit=0),
    )
