"""Charts of what heads attend to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.evaluate.attention import AttentionMap
from corewood.report.style import GREENS, INK, MARK, PERCENT, Tables, in_rows, share_axis, styled

MAPS = 12  # heads whose maps the page shows; the table has all of the core


def attention_chart(tables: Tables) -> Any:
    """Every head on every kind of place; the core in red, chance as a tick."""
    if "attention" not in tables:
        return None
    table = tables["attention"]
    kinds = list(dict.fromkeys(table["kind"]))
    y = alt.Y("kind:N", scale=alt.Scale(domain=kinds), title=None)
    base = alt.Chart(table[["unit", "kind", "mean", "uniform", "core"]])
    tips = [
        "unit:N",
        alt.Tooltip("kind:N", title="attends to"),
        alt.Tooltip("mean:Q", title="share of its attention", format=".3f"),
        alt.Tooltip("uniform:Q", title="by chance", format=".3f"),
        alt.Tooltip("core:N", title="in the core"),
    ]
    x = share_axis(alt.X, "mean", "share of the attention")
    rest = base.transform_filter(~alt.datum.core).mark_circle(size=42, opacity=0.55, color=GREENS[3])
    core = base.transform_filter(alt.datum.core).mark_circle(size=60, opacity=0.85, color=MARK)
    chance = base.mark_tick(color=INK, thickness=2, size=22).encode(x="mean(uniform):Q", y=y)
    return (chance + rest.encode(x=x, y=y, tooltip=tips) + core.encode(x=x, y=y, tooltip=tips)).properties(
        width=560, height=alt.Step(28)
    )


def maps_chart(tables: Tables) -> Any:
    """Figures 7, 8, 9: maps of core heads; rows look, columns are looked at."""
    if "attention_maps" not in tables:
        return None
    table = tables["attention_maps"]
    units = list(dict.fromkeys(table["unit"]))
    if "attention" in tables:  # those that say most first
        scores = tables["attention"].assign(excess=lambda t: t["mean"] - t["uniform"])
        strength = scores.groupby("unit")["excess"].max()
        units = sorted(units, key=lambda u: -float(strength[u]))
    rows = []
    for _, example in table.groupby("example", sort=True):
        both = (
            pd.concat([example[["query", "query_word"]].set_axis(["at", "word"], axis=1),
                       example[["key", "key_word"]].set_axis(["at", "word"], axis=1)])
            .drop_duplicates("at").sort_values("at")
        )  # fmt: skip
        words = dict(zip(both["at"].astype(int), both["word"].astype(str), strict=True))
        parts = {unit: example[example["unit"] == unit][["query", "key", "value"]] for unit in units[:MAPS]}
        panels = [heat_map(part, words, words, 12).properties(title=unit) for unit, part in parts.items()]
        case = str(example["case"].iloc[0])
        grid = in_rows(panels, 3)
        rows.append(grid.properties(title=f"“{case}”") if case else grid)
    return alt.vconcat(*rows) if rows else None


def attention_map_chart(shown: AttentionMap, layer: int, head: int, between: bool = False) -> Any:
    """The map of any head on any example; for a pair, `between` shows the part that crosses, both ways added."""
    frame = shown.between(layer, head) if between else shown.head(layer, head)
    values = frame.to_numpy()
    query, key = np.indices(values.shape)
    table = pd.DataFrame({"query": query.ravel(), "key": key.ravel(), "value": values.ravel()})
    rows, columns = dict(enumerate(map(str, frame.index))), dict(enumerate(map(str, frame.columns)))
    return styled(heat_map(table, rows, columns, 18).properties(title=f"L{layer}.H{head}"))


def heat_map(table: pd.DataFrame, rows: Mapping[int, str], columns: Mapping[int, str], cell: int) -> Any:
    """query, key, value -> a chart with words on both axes. A word may stand twice, and an axis has each name once: marks
    without width tell them apart."""
    looks = {at: word + "\u200b" * at for at, word in rows.items()}
    seen = {at: word + "\u200b" * at for at, word in columns.items()}
    table = table.assign(looks=table["query"].map(looks), at=table["key"].map(seen), value=table["value"].round(3))
    return (
        alt.Chart(table[["looks", "at", "value"]])
        .mark_rect()
        .encode(
            x=alt.X(
                "at:N",
                scale=alt.Scale(domain=list(seen.values())),
                axis=alt.Axis(labelFontSize=9, labelAngle=-60, labelLimit=70, title=None),
            ),
            y=alt.Y(
                "looks:N",
                scale=alt.Scale(domain=list(looks.values())),
                axis=alt.Axis(labelFontSize=9, labelLimit=70, title=None),
            ),
            color=alt.Color(
                "value:Q",
                title="attention",
                scale=alt.Scale(domain=[0, 1], range=GREENS),
                legend=alt.Legend(format=PERCENT, orient="right"),
            ),
            tooltip=[
                alt.Tooltip("looks:N", title="from"),
                alt.Tooltip("at:N", title="to"),
                alt.Tooltip("value:Q", title="attention", format=".2f"),
            ],
        )
        .properties(width=alt.Step(cell), height=alt.Step(cell))
    )
