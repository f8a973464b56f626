"""Types of attention patterns."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.behaviour import GROUPS
from corewood.evaluate.generated_maps import TYPES
from corewood.report.html import html_table
from corewood.report.items import chart, says, table
from corewood.report.style import LINES, PAPER, PERCENT, Tables, in_rows, ordered, ringed, room, tips
from corewood.report.survivors import LIKELY, chosen
from corewood.report.ways import IMPORTANCE, first_prune, tasks_of
from corewood.report.words import joined, plus_minus, quoted

TYPE_COLOURS = [LINES[3], LINES[2], LINES[5], LINES[1], LINES[4]]
ATTENTION, BEFORE, AFTER = ("raw", "normed"), "pretrained", ("fine-tuned", "as given")
CELL = 16


def type_colour() -> alt.Color:
    scale = {"domain": list(TYPES), "range": TYPE_COLOURS}
    return alt.Color("type:N", title=None, scale=scale, legend={"orient": "top", "columns": 5})


@chart("Patterns", "pattern-shares", "Types of attention", of="pattern_shares")  # figures 4 and 18
def pattern_shares_chart(tables: Tables) -> Any:
    """Shares of pattern types over maps. If super-survivors did the linguistic work, their bars would hold more of
    heterogeneous than those of all heads. A task without super-survivors has no bar there."""
    rows = tables["pattern_shares"].dropna(subset="mean")
    panels = []
    for attention in ATTENTION:
        for state in (BEFORE, *AFTER):
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
        .mark_bar(stroke=PAPER, strokeWidth=0.5)
        .encode(
            y=ordered(alt.Y, "task", tasks),
            x=alt.X("mean:Q", stack="zero", title="share of maps", axis={"format": PERCENT}, scale={"domain": [0, 1]}),
            color=type_colour(),
            order="order:Q",
            tooltip=tips("task:N | type:N | share = mean:Q .1% | std:Q .1% | seeds:Q | heads = count:Q"),
        )
        .properties(width=room(tasks, 2), height=20 * len(tasks), title=title)
    )


@chart("Patterns", "pattern-heads", "What each head mostly does", of="patterns")
def pattern_heads_chart(tables: Tables) -> Any:
    """The most frequent type of each head, paler where it is less frequent; rings mark super-survivors."""
    rows = tables["patterns"]
    rows = rows[~rows["pruned"]] if "pruned" in rows else rows
    before, after = rows[rows["state"] == BEFORE], rows[rows["state"].isin(AFTER)]
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
        x=alt.X("head:O", title="head", axis={"labelAngle": 0, "labelFontSize": 9}),
        y=alt.Y("layer:O", title="layer", sort="descending", axis={"labelFontSize": 9}),
        tooltip=tips("layer:O | head:O | type:N | share:Q .0% | super-survivor = alive:N"),
    )
    cells = base.mark_rect(stroke=PAPER).encode(
        color=type_colour(),
        opacity=alt.Opacity("share:Q", scale={"domain": [0.3, 0.8], "range": [0.45, 1], "clamp": True}, legend=None),
    )
    rings = ringed(base.transform_filter(alt.datum.alive), 60)
    return alt.layer(cells, *rings).properties(width=alt.Step(CELL), height=alt.Step(CELL), title=title)


@table("Patterns", "heterogeneity", "Do heterogeneous heads survive?", of="heterogeneity")
def heterogeneity_table(tables: Tables) -> str | None:
    """The correlation, over heads, of surviving with every seed and the share of heterogeneous maps."""
    columns = ["task", "state", "attention", "heads", "survivors", "r", "p"]
    return html_table(tables["heterogeneity"][columns], {"survivors": "super-survivors", "r": "Pearson's r"})


@table("Patterns", "pattern-quality", "How good the classifier is", of="pattern_quality")
def quality_table(tables: Tables) -> str | None:
    """F1, and in brackets the number of maps. What it confuses, the charts above confuse."""
    lines = []
    for (name, attention), part in tables["pattern_quality"].groupby(["set", "attention"], sort=False):
        line: dict[str, Any] = {"maps": name, "attention": attention}
        for kind in (*TYPES, "weighted"):
            row = part[part["type"] == kind].dropna(subset="f1")
            line[kind] = f"{row['f1'].iloc[0]:.2f} ({row['support'].iloc[0]})" if len(row) else "–"
        lines.append(line)
    return html_table(pd.DataFrame(lines))


@says(of="heterogeneity")
def pattern_point(tables: Tables) -> list[str]:
    rows = tables["heterogeneity"].dropna(subset="r")
    rows = rows[rows["task"] == "all tasks"]
    after = rows["state"].isin(AFTER)
    rows = rows[after if after.any() else rows["state"] == BEFORE]
    parts = [f"r = {plus_minus(r['r'], np.nan)} in {r['attention']} attention (p = {r['p']:.2g})" for _, r in rows.iterrows()]
    if not parts:
        return []
    likely = rows[rows["p"] < LIKELY]["r"]
    verb = "are not seen to survive more or less often"
    if len(likely) == len(rows) and ((likely > 0).all() or (likely < 0).all()):
        verb = f"survive {'more' if (likely > 0).all() else 'less'} often"
    elif len(likely):
        verb = "survive more or less often depending on what is looked at"
    over = ", over all tasks" if len(tasks_of(tables)) > 1 else ""
    return [f"Heads with heterogeneous attention {verb}: {joined(parts)}{over}."]
