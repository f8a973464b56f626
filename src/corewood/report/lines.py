"""Many cases as lines: grey, but for those that move and stand apart, which have their names at their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.style import DASHES, GREY, INK, LETTER, LINES, room, tips

NAMED = 6  # cases that have a colour and a name
MOVES = 0.03  # less is not called a move
HEIGHT, LINE = 360, 13  # pixels: of the chart, and of a name


def case_lines(
    table: pd.DataFrame, x: alt.X, y: alt.Y, tooltip: list[alt.Tooltip], bars: Iterable[tuple[str, str]] = ()
) -> Any:
    """where, dataset, case, domain, x and y -> a chart, from end to end of y's scale. In domain in ink, cases that move in
    colour, all others grey; what the pointer is on stands out with its name, and bars between two fields; a click keeps it."""
    field, height = (str(channel.to_dict()["field"]) for channel in (x, y))
    x = x.scale(domain=[float(table[field].min()), float(table[field].max())], nice=False)
    named = movers(judged(table), field, height)
    table = table.assign(named=table["where"].isin(named), inside=table["domain"] == "in-domain")
    over = alt.selection_point(name="over", fields=["where"], on="pointerover", clear="pointerout", empty=False)
    kept = alt.selection_point(name="kept", fields=["where"], empty=False)
    hue = alt.Color("where:N", scale={"domain": named, "range": LINES}, legend=None)
    dash = alt.StrokeDash("where:N", scale={"domain": named, "range": DASHES}, legend=None)
    lit = {"or": [{"param": "over", "empty": False}, {"param": "kept", "empty": False}]}
    base = alt.Chart(table).encode(x=x, y=y, detail="where:N")
    path, dots = base.encode(tooltip=tips("case = where:N")), base.encode(tooltip=tooltip)
    named_only, inside = alt.datum.named, alt.datum.inside
    rest = ~(named_only | inside)
    ends = names_at_ends(table, field, height, named, y.to_dict()["scale"]["domain"])
    labels = alt.Chart(ends).mark_text(align="left", dx=9, fontSize=11).encode(x=f"{field}:Q", y="at:Q", text="where:N")
    last = base.transform_filter(alt.datum[field] == table[field].max()).transform_filter(lit)
    layers = [
        *(base.transform_filter(lit).mark_rule(strokeWidth=2, color=INK).encode(y=f"{low}:Q", y2=high) for low, high in bars),
        path.mark_line(strokeWidth=11, opacity=0, color=INK),  # for the pointer
        path.transform_filter(lit).mark_line(strokeWidth=6, color=INK, opacity=0.85),
        path.transform_filter(rest).mark_line(strokeWidth=1.2, color=GREY, opacity=0.6),
        path.transform_filter(named_only).mark_line(strokeWidth=2.2).encode(color=hue, strokeDash=dash),
        path.transform_filter(inside).mark_line(strokeWidth=4, color=INK),
        dots.transform_filter(rest).mark_point(filled=True, size=14, color=GREY, opacity=0.7),
        dots.transform_filter(named_only).mark_point(filled=True, size=32, opacity=1).encode(color=hue),
        dots.transform_filter(inside).mark_point(filled=True, size=40, color=INK, opacity=1),
        labels.transform_filter(~inside).encode(color=hue),
        labels.transform_filter(inside).encode(color=alt.value(INK)),
        last.mark_text(align="right", dx=-9, dy=-9, fontSize=13, fontWeight="bold", color=INK).encode(text="where:N"),
    ]
    beside = LETTER * max((len(str(name)) for name in ends["where"]), default=0) + 30
    return alt.layer(*layers).add_params(over, kept).properties(width=room(beside=beside), height=HEIGHT)


def movers(table: pd.DataFrame, x: str, y: str) -> list[str]:
    """Cases that are not level; of these, the ones furthest from what most cases do."""
    cases = table[table["domain"] == "challenge"]
    apart = (cases[y] - cases.groupby(x)[y].transform("median")).abs().groupby(cases["where"], sort=False).mean()
    values = cases.groupby("where", sort=False)[y]
    moved = apart[values.max() - values.min() >= MOVES].sort_values(ascending=False, kind="stable")
    return [str(name) for name in moved.index[:NAMED]]


def names_at_ends(table: pd.DataFrame, x: str, y: str, named: list[str], scale: list[float]) -> pd.DataFrame:
    """Where the names of lines stand: at their last points, but one below the other where these lie together. `scale` is from
    where to where the chart goes."""
    rows = (
        table[table["where"].isin(named) | table["inside"]].sort_values(x, kind="stable").drop_duplicates("where", keep="last")
    )
    rows = rows[[x, y, "where", "inside"]].sort_values(y, ascending=False, kind="stable")
    low, high = scale
    return rows.assign(at=stacked(list(rows[y]), (high - low) * LINE / HEIGHT, low))


def stacked(heights: list[float], apart: float, axis: float) -> list[float]:
    """Heights from the highest down, moved as little as keeps them apart and above the axis."""
    found: list[float] = []
    for height in heights:
        found.append(min(height, found[-1] - apart) if found else height)
    floor = axis + apart / 2
    for i in range(len(found) - 1, -1, -1):
        found[i] = max(found[i], floor)
        floor = found[i] + apart
    return found
