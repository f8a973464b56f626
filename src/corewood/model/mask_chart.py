"""Masks as a picture: layers upwards, heads across, the MLPs as one more column."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

GREENS = ["#f4f6f2", "#cfe0cf", "#8fbb97", "#4b8b63", "#1f5d3f"]
WIDE = 17  # columns from which cells are small


def units_chart(table: pd.DataFrame, title: str) -> Any:
    """layer, kind, index, kept (bool, or the share of masks that keep a unit) -> an altair chart."""
    heads = table["kind"] == "head"
    unit = table["index"].astype(str).where(heads, "MLP")
    name = "L" + table["layer"].astype(str) + "." + unit.where(~heads, "H" + unit)
    shown = table[["layer"]].assign(unit=unit, name=name, kept=table["kept"].astype(float))
    columns = [*dict.fromkeys(unit[heads]), "MLP"]
    cell = 26 if len(columns) <= WIDE else 18
    legend = alt.Legend(format=".0%", orient="right", title="kept by")
    return (
        alt.Chart(shown, title=title)
        .mark_rect(stroke="white")
        .encode(
            x=alt.X("unit:N", scale=alt.Scale(domain=columns), title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color(
                "kept:Q",
                scale=alt.Scale(domain=[0, 1], range=GREENS),
                legend=None if shown["kept"].isin((0, 1)).all() else legend,
            ),
            tooltip=[alt.Tooltip("name", title="unit"), alt.Tooltip("kept:Q", title="kept", format=".0%")],
        )
        .properties(width=alt.Step(cell), height=alt.Step(cell))
    )
