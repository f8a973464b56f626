"""Charts of the kinds of pictures that heads' attention makes."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.patterns import GROUPS
from corewood.evaluate.generated_maps import TYPES
from corewood.report.style import INK, LINES, PERCENT, Tables, in_rows
from corewood.report.survivor_charts import chosen
from corewood.report.ticket_charts import IMPORTANCE, first_prune, quoted, tasks_of

COLOURS = [LINES[3], LINES[2], LINES[5], LINES[1], LINES[4]]
ATTENTION, STATES = ("raw", "normed"), ("pretrained", "fine-tuned")
CELL = 16


def type_colour(orient: str = "top") -> alt.Color:
    scale = alt.Scale(domain=list(TYPES), range=COLOURS)
    return alt.Color("type:N", title=None, scale=scale, legend=alt.Legend(orient=orient, columns=5))  # type: ignore[arg-type]


def pattern_shares_chart(tables: Tables) -> Any:
    """Figures 4 and 18: all heads on the left, super-survivors on the right."""
    if "pattern_shares" not in tables:
        return None
    rows = tables["pattern_shares"].dropna(subset="mean")
    panels = []
    for attention in ATTENTION:
        for state in STATES:
            for group in GROUPS:
                part = rows[(rows["attention"] == attention) & (rows["state"] == state) & (rows["heads"] == group)]
                if len(part):
                    panels.append(shares_panel(part, tasks_of(tables), f"{group}: {attention} attention, {state}"))
    return in_rows(panels) if panels else None


def shares_panel(rows: pd.DataFrame, tasks: list[str], title: str) -> Any:
    data = rows[["task", "type", "mean", "std", "seeds", "count"]].round(4)
    data["order"] = data["type"].map({name: i for i, name in enumerate(TYPES)})
    return (
        alt.Chart(data)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            y=alt.Y("task:N", scale=alt.Scale(domain=tasks), title=None),
            x=alt.X(
                "mean:Q", stack="zero", title="share of maps", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1])
            ),
            color=type_colour(),
            order="order:Q",
            tooltip=[
                "task:N",
                "type:N",
                *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("mean", "std")),
                "seeds:Q",
                alt.Tooltip("count:Q", title="heads"),
            ],
        )
        .properties(width=370, height=20 * len(tasks), title=title)
    )


def pattern_heads_chart(tables: Tables) -> Any:
    """What each head mostly does: before fine-tuning over all tasks, and after it task by task."""
    if "patterns" not in tables:
        return None
    rows = tables["patterns"]
    before, after = (rows[rows["state"] == state] for state in STATES)
    panels = [
        heads_panel(before[before["attention"] == attention], set(), f"pretrained, {attention}")
        for attention in ATTENTION
        if (before["attention"] == attention).any()
    ]
    for task in tasks_of(tables):
        alive = super_survivors(tables, task)
        for attention in ATTENTION:
            part = after[(after["task"] == task) & (after["attention"] == attention)]
            if len(part):
                panels.append(heads_panel(part, alive, f"{quoted(task)}, {attention}"))
    if not panels:
        return None
    width = CELL * (int(rows["head"].max()) + 1) + 48
    return in_rows(panels, 4 if width <= 245 else 2)


def super_survivors(tables: Tables, task: str) -> set[tuple[int, int]]:
    """(layer, head) of heads that all seeds keep."""
    if "survivors" not in tables:
        return set()
    rows = chosen(tables["survivors"], task, IMPORTANCE, first_prune(tables["survivors"]))
    rows = rows[(rows["kind"] == "head") & (rows["mean"] == 1) & (rows["prune"] != "mlps")]
    return set(zip(rows["layer"], rows["index"], strict=True))


def heads_panel(rows: pd.DataFrame, alive: set[tuple[int, int]], title: str) -> Any:
    mean = rows.groupby(["layer", "head", "type"], sort=False)["share"].mean().reset_index().dropna()
    data = mean.sort_values("share", ascending=False, kind="stable").drop_duplicates(["layer", "head"]).round(3)
    data["alive"] = [pair in alive for pair in zip(data["layer"], data["head"], strict=True)]
    base = alt.Chart(data).encode(
        x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0, labelFontSize=9)),
        y=alt.Y("layer:O", title="layer", sort="descending", axis=alt.Axis(labelFontSize=9)),
        tooltip=["layer:O", "head:O", "type:N", alt.Tooltip("share:Q", format=".2f"), "alive:N"],
    )
    cells = base.mark_rect(stroke="white").encode(
        color=type_colour(),
        opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0.3, 0.8], range=[0.45, 1], clamp=True), legend=None),
    )
    rings = base.transform_filter(alt.datum.alive).mark_point(shape="circle", size=60, color=INK, strokeWidth=1.6)
    return (cells + rings).properties(width=alt.Step(CELL), height=alt.Step(CELL), title=title)
