"""Charts of importance scores, and of ways of pruning beside each other."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.style import (
    GREENS,
    INK,
    LINES,
    Tables,
    in_rows,
    order_of_cases,
    percent,
    share_axis,
    shown,
    where,
)
from corewood.report.ticket_charts import first_prune, quoted, tasks_of

METHODS = {"l0": "L0", "importance": "importance", "magnitude": "magnitude", "random": "random", "full": "full model"}
COLOURS = [LINES[0], LINES[2], LINES[3], "#9aa59e", INK]
BINS = {"head": 24, "mlp": 12}
KINDS = {"head": "heads", "mlp": "MLPs"}


# importance scores


def with_kind(importance: pd.DataFrame) -> pd.DataFrame:
    """The scores that tickets were drawn by, with the kind of each unit."""
    rows = importance[importance["prune"] == first_prune(importance)].dropna(subset="ranked")
    return rows.assign(kind=np.where(rows["unit"].str.endswith("MLP"), "mlp", "head"))


def importance_chart(tables: Tables) -> Any:
    """Figure 3: how scores are distributed before anything is removed, counted here and not in the page."""
    if "importance" not in tables:
        return None
    rows = with_kind(tables["importance"])
    rows = rows[rows["round"] == rows["round"].min()]
    panels = []
    for task in tasks_of(tables):
        mine = rows[rows["task"] == task]
        sides = [histogram(mine[mine["kind"] == kind], kind) for kind in KINDS if (mine["kind"] == kind).any()]
        if sides:
            panels.append(alt.hconcat(*sides, title=quoted(task)))
    return in_rows(panels) if panels else None


def histogram(rows: pd.DataFrame, kind: str) -> Any:
    """How many units of a model, on average over seeds, score how much."""
    counts, edges = np.histogram(rows["ranked"], BINS[kind], (0.0, float(rows["ranked"].max()) or 1.0))
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "units": counts / rows["seed"].nunique()}).round(5)
    return (
        alt.Chart(table)
        .mark_bar(color=GREENS[3] if kind == "head" else LINES[3], stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("low:Q", title="score", axis=alt.Axis(tickCount=4), bin=alt.BinParams(binned=True)),
            x2="high:Q",
            y=alt.Y("units:Q", title=f"{KINDS[kind]}, per seed", axis=alt.Axis(tickCount=4)),
            tooltip=[alt.Tooltip(f"{c}:Q", format=".3g") for c in ("low", "high", "units")],
        )
        .properties(width=215 if kind == "head" else 120, height=110)
    )


def importance_rounds_chart(tables: Tables) -> Any:
    """The same over rounds, as quantiles over units and seeds."""
    if "importance" not in tables:
        return None
    rows = with_kind(tables["importance"])
    if rows["round"].nunique() < 2:
        return None
    panels = []
    for task in tasks_of(tables):
        mine = rows[rows["task"] == task]
        sides = [bands(mine[mine["kind"] == kind], kind) for kind in KINDS if (mine["kind"] == kind).any()]
        if sides:
            panels.append(alt.hconcat(*sides, title=quoted(task)))
    return in_rows(panels) if panels else None


def bands(rows: pd.DataFrame, kind: str) -> Any:
    levels = {"p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
    by = rows.groupby("round")["ranked"]
    table = pd.DataFrame({name: by.quantile(q) for name, q in levels.items()}).assign(units=by.size()).round(5).reset_index()
    colour = GREENS[3] if kind == "head" else LINES[3]
    every = table["round"].tolist()
    ticks = alt.Axis(values=every[:: 1 + len(every) // 8], format="d")
    x = alt.X("round:Q", title="round", axis=ticks, scale=alt.Scale(nice=False, zero=False))
    tip = ["round:Q", *(alt.Tooltip(f"{c}:Q", format=".3g") for c in (*levels, "units"))]
    y = alt.Y("p5:Q", title=f"score of {KINDS[kind]}")
    base = alt.Chart(table).encode(x=x, tooltip=tip)
    outer = base.mark_area(color=colour, opacity=0.2).encode(y=y, y2="p95:Q")
    inner = base.mark_area(color=colour, opacity=0.4).encode(y="p25:Q", y2="p75:Q")
    line = base.mark_line(color=INK, strokeWidth=1.5, point=alt.OverlayMarkDef(size=12, color=INK)).encode(y="median:Q")
    return (outer + inner + line).properties(width=167, height=110)


# ways of pruning


def compared(tables: Tables) -> pd.DataFrame | None:
    """In domain and case by case, where answers are right or wrong: numbers as answers have no accuracy."""
    if "methods" not in tables:
        return None
    summary = tables["summary"]
    numbers = set(summary.loc[summary["metric"] == "pearson", "task"])
    rows = tables["methods"]
    rows = rows[~rows["task"].isin(numbers)]
    parts = [judged(part) for _, part in rows.groupby("task", sort=False)]
    if not parts:
        return None
    table = pd.concat([part.assign(where=where(part)) for part in parts])
    table["real"] = (table["difference_low"] > 0) | (table["difference_high"] < 0)
    return table.assign(how=table["method"].map(METHODS))


def methods_chart(tables: Tables) -> Any:
    rows = compared(tables)
    if rows is None:
        return None
    cased = set(rows.loc[rows["domain"] == "challenge", "task"])
    alone = rows[~rows["task"].isin(cased)]
    panels = []
    for task in [t for t in dict.fromkeys(rows["task"]) if t in cased]:
        mine = rows[rows["task"] == task]
        panels += [beside(mine[mine["target"] == t], f"{quoted(task)}, {percent(t)}") for t in shown(mine["target"])]
    which = "other tasks, in domain" if cased else "in domain"
    for target in shown(alone["target"]):
        mine = alone[alone["target"] == target]
        panels.append(beside(mine.assign(where=mine["task"]), f"{which}, {percent(target)}"))
    return alt.vconcat(*panels)


def beside(rows: pd.DataFrame, title: str) -> Any:
    """One task at one size: accuracy on the left, the difference from L0 on the right."""
    order = order_of_cases(rows)
    how = [name for name in METHODS.values() if name in set(rows["how"])]
    columns = ["where", "how", "value", "low", "high", "difference", "difference_low", "difference_high", "real", "n", "models"]
    base = alt.Chart(rows[columns].dropna(subset="value").round(4)).encode(
        yOffset=alt.YOffset("how:N", scale=alt.Scale(domain=how)),
        color=alt.Color("how:N", title=None, scale=alt.Scale(domain=how, range=COLOURS), legend=alt.Legend(orient="top")),
        tooltip=[
            alt.Tooltip("where:N", title="case"),
            alt.Tooltip("how:N", title="method"),
            *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("value", "low", "high", "difference")),
            alt.Tooltip("difference_low:Q", title="from", format=".3f"),
            alt.Tooltip("difference_high:Q", title="to", format=".3f"),
            alt.Tooltip("n:Q", title="examples"),
            "models:Q",
        ],
    )
    height = 34 * len(order)
    left, right = (
        alt.Y("where:N", scale=alt.Scale(domain=order, paddingInner=0.3), title=None, axis=a) for a in (alt.Axis(), no_names())
    )
    levels = base.mark_rule(strokeWidth=1.4).encode(y=left, x=alt.X("low:Q", title="accuracy"), x2="high:Q")
    dots = base.mark_circle(size=44, opacity=1).encode(y=left, x=share_axis(alt.X, "value", "accuracy"))
    others = base.transform_filter(alt.datum.how != "L0")
    gaps = others.mark_rule(strokeWidth=1.4).encode(y=right, x="difference_low:Q", x2="difference_high:Q")
    x = alt.X("difference:Q", title="difference from L0", axis=alt.Axis(format="+.0%", tickCount=6))
    real = others.transform_filter(alt.datum.real).mark_circle(size=50, opacity=1).encode(y=right, x=x)
    unsure = others.transform_filter(~alt.datum.real).mark_point(size=34, fill="white", opacity=1).encode(y=right, x=x)
    zero = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="zero:Q")
    sides = (
        (levels + dots).properties(width=330, height=height),
        (zero + gaps + unsure + real).properties(width=330, height=height),
    )
    return alt.hconcat(*sides, title=title)


def no_names() -> alt.Axis:
    return alt.Axis(labels=False, ticks=False)
