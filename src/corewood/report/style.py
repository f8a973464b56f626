"""What all charts share: colours, scales, and the names of rows.

Orders are given as scale domains, never as `sort` lists: Vega-Lite turns those into expressions, where a case that is
called "if" is read as a function. For the same reason a case never stands alone as a title, but in quotation marks.

Scales, axes and legends are plain mappings: Altair copies a chart several times, and of its own classes every key that
could be set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import pandas as pd

Tables = Mapping[str, pd.DataFrame]

INK, PALE, MARK, PAPER, GREY = "#22302a", "#d9ded9", "#b5472f", "#ffffff", "#9aa59e"
GREENS = ["#f4f6f2", "#cfe0cf", "#8fbb97", "#4b8b63", "#1f5d3f"]
RED_TO_BLUE = ["#a5281f", "#e08a6c", "#f7f7f5", "#7fb0d3", "#1f5f9e"]
LINES = ["#1f5d3f", "#b5472f", "#c98a1b", "#3f6fa3", "#7a4f9a", "#5f8f2f", "#a83e6c", "#2f8f8f", "#8a6a4f", "#55606b"]
# colours that look alike to some readers have different dashes, and shapes
DASHES = [[1, 0], [6, 3], [2, 2], [10, 3, 2, 3], [12, 4]]
SHAPES = ["circle", "diamond", "square", "triangle-up", "cross"]
GRID, EDGE = "#e8ece8", "#e1e6e1"
# what each colour becomes on a dark page: strong stays strong, and what lies on it can be read
DARK = {
    INK: "#e3ebe5", PALE: "#3d4842", PAPER: "#1b221e", GREY: "#7d8a82", GRID: "#2b342f", EDGE: "#333d37",
    **dict(zip(GREENS, ["#232c27", "#2d4638", "#3b7152", "#5fae80", "#9be0b5"], strict=True)),
    **dict(zip(RED_TO_BLUE, ["#ff8a70", "#a8503e", "#262e29", "#3f6f96", "#86c1f2"], strict=True)),
    **dict(zip(LINES[1:], ["#e8775c", "#efc04a", "#7db4ec", "#b58bdc", "#cfe38a", "#f0b3d0", "#4fc9c0", "#b89674", "#a9b5bf"],
               strict=True)),
}  # fmt: skip
PERCENT = ".0%"
OFFSETS = (0, -4, 4, -8, 8)  # pixels that dots are moved from the middle of their row where they would hide each other
DOT = 7  # pixels across
WIDE = 976  # pixels inside a card of the page
LETTER = 5.4  # of an axis, pixels on average
PANELS = 4  # sparsities that a chart shows beside each other; the tables have all


def shown(targets: Iterable[float]) -> list[float]:
    """The sparsities to draw: all, or some from the smallest to the largest."""
    every = sorted(set(targets))
    if len(every) <= PANELS:
        return every
    return [every[round(i * (len(every) - 1) / (PANELS - 1))] for i in range(PANELS)]


# what fields are called where a pointer shows them
SAID = {
    "low": "95 % interval from", "high": "to", "n": "examples", "min": "lowest", "max": "highest", "std": "standard deviation",
    "mlps": "MLPs", "range": "from lowest to highest",
}  # fmt: skip


def in_rows(panels: list[Any], across: int = 2) -> Any:
    """Panels beside each other, and the rest below: as wide as the page, not wider."""
    rows = [alt.hconcat(*panels[i : i + across]) for i in range(0, len(panels), across)]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


CONFIG = {
    "font": "Helvetica, Arial, sans-serif",
    "background": PAPER,
    "axis": {
        "gridColor": GRID, "domainColor": GREY, "tickColor": GREY, "labelColor": INK, "labelFontSize": 11, "labelLimit": 260,
        "titleColor": INK, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "titleFontWeight": "normal", "labelFontSize": 11, "labelLimit": 240},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelFontWeight": "bold"},
    "view": {"stroke": EDGE},
    "title": {"color": INK, "fontSize": 13, "anchor": "start"},
}  # fmt: skip


def room(names: Iterable[object] = (), across: int = 1, beside: float = 0) -> int:
    """Pixels for each of the panels beside each other, where names stand left of each and something else beside it."""
    left = LETTER * min(42, max((len(str(name)) for name in names), default=4)) + 24
    return max(180, int((WIDE - 20 * (across - 1)) / across - left - beside))


def percent(sparsity: float) -> str:
    return f"{100 * sparsity:g} % removed" if sparsity else "pruned to a threshold"


def styled(chart: Any) -> dict[str, Any]:
    """What Vega-Lite draws. Altair would copy the whole chart to configure it."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return {**spec, "config": {**spec.get("config", {}), **CONFIG}}


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
    return channel(f"{field}:Q", title=title, axis={"format": PERCENT}, scale={"domain": [0, 1]})


def ordered(channel: Any, field: str, order: Iterable[str], **options: Any) -> Any:
    """Names in the order given, without a title unless one is."""
    return channel(f"{field}:N", scale={"domain": list(order)}, **{"title": None, **options})


def coloured(field: str, names: Iterable[str], colours: list[str] = LINES) -> alt.Color:
    """A colour a name, with a legend above."""
    scale = {"domain": list(names), "range": colours}
    return alt.Color(f"{field}:N", title=None, scale=scale, legend={"orient": "top", "labelLimit": 300})


def unit_places(units: list[str], **axis: Any) -> dict[str, Any]:
    """Layers upwards, heads across, the MLPs as one more column."""
    return {
        "x": ordered(alt.X, "unit", units, title="head", axis={"labelAngle": 0, **axis}),
        "y": alt.Y("layer:O", title="layer", sort="descending", axis={**axis}),
    }


def dashed(field: str, names: Iterable[str]) -> alt.StrokeDash:
    """A dash a name, in one legend with its colour."""
    scale = {"domain": list(names), "range": DASHES}
    return alt.StrokeDash(f"{field}:N", title=None, scale=scale, legend={"orient": "top", "labelLimit": 300})


def shaped(field: str, names: Iterable[str]) -> alt.Shape:
    """A shape a name, in one legend with its colour."""
    scale = {"domain": list(names), "range": SHAPES}
    return alt.Shape(f"{field}:N", title=None, scale=scale, legend={"orient": "top", "labelLimit": 300})


def ringed(base: alt.Chart, size: float) -> tuple[Any, Any]:
    """A ring that is seen on every shade: ink, in a halo of paper."""
    ring = {"shape": "circle", "size": size, "filled": False, "opacity": 1}
    return base.mark_point(**ring, color=PAPER, strokeWidth=5), base.mark_point(**ring, color=INK, strokeWidth=2)


def dodged(values: Iterable[float], apart: float) -> list[int]:
    """The row of each dot, 0, 1, 2 ..., so that dots of one row lie apart; those that would be hidden go to the next row."""
    taken: list[list[float]] = []
    rows = []
    for value in values:
        row = next((i for i, others in enumerate(taken) if all(abs(value - v) >= apart for v in others)), len(taken))
        taken += [[]] if row == len(taken) else []
        taken[row].append(value)
        rows.append(row)
    return rows


def rows_of_dots(dots: pd.DataFrame, rows: pd.Series) -> list[tuple[int, pd.DataFrame]]:
    """(pixels up or down, the dots that are moved so far)"""
    return [(OFFSETS[int(str(row))], part) for row, part in dots.groupby((rows % len(OFFSETS)).astype(int))]


def tips(fields: str) -> list[alt.Tooltip]:
    """What a pointer shows: `n:Q | mean:Q .1% | kept by = count:Q`, with a format and a title where one is wanted."""
    made = []
    for field in fields.split(" | "):
        title, _, rest = field.rpartition(" = ")
        name, _, form = rest.partition(" ")
        title = title or SAID.get(name.partition(":")[0], "")
        made.append(alt.Tooltip(name, **({"title": title} if title else {}), **({"format": form} if form else {})))
    return made
