"""Many cases as lines: grey, but for those that move most, which have their names at their ends."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.report.style import DASHES, GREY, INK, LINES, room, share_axis

NAMED = 6  # cases that have a colour and a name
MOVES = 0.03  # less is not called a move
HEIGHT, LINE = 360, 13  # pixels: of the chart, and of a name


def case_lines(
    table: pd.DataFrame, x: alt.X, y: str, title: str, tooltip: list[alt.Tooltip], bars: tuple[str, ...] = ()
) -> Any:
    """where, domain, x and y -> a chart. In domain in ink, the cases that move most in colour, all others grey; what the
    pointer is on stands out with its name, and bars between two fields; a click keeps it so."""
    field = str(x.to_dict()["field"])
    x = x.scale(domain=[float(table[field].min()), float(table[field].max())])
    named = movers(table, y)
    table = table.assign(named=table["where"].isin(named), inside=table["domain"] == "in-domain")
    over = alt.selection_point(name="over", fields=["where"], on="pointerover", clear="pointerout", empty=False)
    kept = alt.selection_point(name="kept", fields=["where"], empty=False)
    base = alt.Chart(table).encode(x=x, y=share_axis(alt.Y, y, title), detail="where:N", tooltip=tooltip)
    grey = base.transform_filter(~(alt.datum.named | alt.datum.inside))
    hue = alt.Color("where:N", scale=alt.Scale(domain=named, range=LINES), legend=None)
    dash = alt.StrokeDash("where:N", scale=alt.Scale(domain=named, range=DASHES), legend=None)
    coloured = base.transform_filter(alt.datum.named).encode(color=hue)
    inside = base.transform_filter(alt.datum.inside)
    lit = {"or": [{"param": "over", "empty": False}, {"param": "kept", "empty": False}]}
    ends = names_at_ends(table, field, y, named)
    labels = alt.Chart(ends).mark_text(align="left", dx=9, fontSize=11).encode(x=f"{field}:Q", y="at:Q", text="where:N")
    last = base.transform_filter(alt.datum[field] == table[field].max())
    layers = [
        *([base.transform_filter(lit).mark_rule(strokeWidth=2, color=INK).encode(y=f"{bars[0]}:Q", y2=bars[1])] if bars else []),
        base.mark_line(strokeWidth=11, opacity=0, color=INK),  # for the pointer
        grey.mark_line(strokeWidth=1.2, color=GREY, opacity=0.6),
        grey.mark_point(filled=True, size=14, color=GREY, opacity=0.7),
        coloured.mark_line(strokeWidth=2.2).encode(strokeDash=dash),
        coloured.mark_point(filled=True, size=32, opacity=1),
        inside.mark_line(strokeWidth=4, color=INK),
        inside.mark_point(filled=True, size=40, color=INK, opacity=1),
        labels.transform_filter(~alt.datum.inside).encode(color=hue),
        labels.transform_filter(alt.datum.inside).encode(color=alt.value(INK)),
        base.transform_filter(lit).mark_line(strokeWidth=5, color=INK, opacity=0.85),
        last.transform_filter(lit).mark_text(align="right", dx=-9, dy=-9, fontSize=13, fontWeight="bold", color=INK).encode(
            text="where:N"
        ),
    ]  # fmt: skip
    beside = max(len(str(name)) for name in ends["where"]) * 6.2 + 30
    return alt.layer(*layers).add_params(over, kept).properties(width=room(beside=beside), height=HEIGHT)


def movers(table: pd.DataFrame, y: str) -> list[str]:
    """The cases between whose highest and lowest point lies most."""
    values = table[table["domain"] == "challenge"].groupby("where", sort=False)[y]
    moved = (values.max() - values.min()).sort_values(ascending=False, kind="stable")
    return [str(name) for name in moved[moved >= MOVES].index[:NAMED]]


def names_at_ends(table: pd.DataFrame, x: str, y: str, named: list[str]) -> pd.DataFrame:
    """Where the names of lines stand: at their last points, but one below the other where these lie together."""
    rows = (
        table[table["where"].isin(named) | table["inside"]].sort_values(x, kind="stable").drop_duplicates("where", keep="last")
    )
    rows = rows[[x, y, "where", "inside"]].sort_values(y, ascending=False, kind="stable")
    return rows.assign(at=stacked(list(rows[y]), LINE / HEIGHT))


def stacked(heights: list[float], apart: float) -> list[float]:
    """Heights from the highest down, moved as little as keeps them apart and above zero."""
    found: list[float] = []
    for height in heights:
        found.append(min(height, found[-1] - apart) if found else height)
    floor = 0.0
    for i in range(len(found) - 1, -1, -1):
        found[i] = max(found[i], floor)
        floor = found[i] + apart
    return found
