"""Charts of the units that survive: where they are, whether seeds agree on them, what tasks share."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.report.style import GREENS, INK, LINES, MARK, PALE, Tables, in_rows
from corewood.report.ticket_charts import IMPORTANCE, MAGNITUDE, first_prune, plus_minus, quoted, tasks_of

ALL_TASKS = "all tasks"
WIDE = 442  # of a grid, so that two stand beside each other
ROOM = 31  # pixels a cell needs for two lines of numbers
LEVEL = 0.05


def survivors_chart(tables: Tables) -> Any:
    """Figures 1 and 6 to 14: importance on the left, magnitude on the right."""
    if "survivors" not in tables:
        return None
    rows = tables["survivors"]
    prune = first_prune(rows)
    panels = []
    for task in tasks_of(tables):
        for method, which in ((IMPORTANCE, prune), (MAGNITUDE, "weights")):
            part = chosen(rows, task, method, which)
            if len(part):
                what = "s-pruning, share of seeds" if method == IMPORTANCE else "m-pruning, share of weights"
                panels.append(grid(part, f"{quoted(task)}: {what}", scale_of(rows, method)))
    return in_rows(panels) if panels else None


def scale_of(rows: pd.DataFrame, method: str) -> tuple[float, float]:
    """Survival is 0 to 1; shares of weights lie close together, and have the colours of where they lie."""
    if method == IMPORTANCE:
        return 0.0, 1.0
    values = rows.loc[rows["method"] == method, "mean"]
    low, high = np.floor(values.min() * 20) / 20, np.ceil(values.max() * 20) / 20
    return (float(low), float(high)) if high > low else (0.0, 1.0)


def chosen(rows: pd.DataFrame, task: str, method: str, prune: str) -> pd.DataFrame:
    found: pd.DataFrame = rows[(rows["task"] == task) & (rows["method"] == method) & (rows["prune"] == prune)]
    return found


def over_tasks_chart(tables: Tables) -> Any:
    """Figure 15."""
    if "survivors" not in tables:
        return None
    rows = tables["survivors"]
    units = chosen(rows, ALL_TASKS, IMPORTANCE, first_prune(rows))
    weights = chosen(rows, ALL_TASKS, MAGNITUDE, "weights")
    count = rows.loc[(rows["method"] == IMPORTANCE) & (rows["task"] != ALL_TASKS), "task"].nunique()
    panels = [grid(units, "s-pruning: in how many tasks", (0, count))] if len(units) else []
    title = "m-pruning: share of weights, mean over tasks"
    panels += [grid(weights, title, scale_of(rows, MAGNITUDE))] if len(weights) else []
    return in_rows(panels) if panels else None


def alone_chart(tables: Tables) -> Any:
    """Appendix B: heads and MLPs that survive when they are pruned by themselves."""
    if "survivors" not in tables:
        return None
    rows = tables["survivors"]
    panels = []
    for task in tasks_of(tables):
        parts = [(chosen(rows, task, IMPORTANCE, prune), kind) for prune, kind in (("heads", "head"), ("mlps", "mlp"))]
        part = pd.concat([found[found["kind"] == kind] for found, kind in parts])
        if len(part) and first_prune(rows) == "both":
            panels.append(grid(part, f"{quoted(task)}: share of seeds"))
    return in_rows(panels) if panels else None


def grid(rows: pd.DataFrame, title: str, scale: tuple[float, float] = (0, 1)) -> Any:
    """Layers by heads, and a column of MLPs; numbers where there is room.

    Weights are drawn with `fill` and survival with `color`: panels beside each other share the scale of a channel.
    """
    low, most = scale
    heads = [str(i) for i in sorted(set(rows.loc[rows["kind"] == "head", "index"]))]
    columns = [*heads, *(["MLP"] if (rows["kind"] == "mlp").any() else [])]
    cell = min(46, WIDE // max(1, len(columns)))
    data = rows[["layer", "mean", "std", "seeds"]].round(3)
    data["unit"] = rows["index"].astype(str).where(rows["kind"] == "head", "MLP")
    data["text"] = [number(m, most) for m in rows["mean"]]
    data["spread"] = ["" if pd.isna(s) else f"±{number(s, most)}" for s in rows["std"]]
    base = alt.Chart(data).encode(
        x=alt.X("unit:N", scale=alt.Scale(domain=columns), title="head", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("layer:O", title="layer", sort="descending"),
        tooltip=["layer:O", "unit:N", *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("mean", "std")), "seeds:Q"],
    )
    colours = alt.Scale(domain=[low, most], range=GREENS)
    legend = alt.Legend(orient="bottom", tickMinStep=1 if most > 1 else 0.05)
    weights = (rows["method"] == MAGNITUDE).any()
    colour = alt.Fill("mean:Q", title="share of weights", scale=colours, legend=legend)
    if not weights:
        colour = alt.Color("mean:Q", title="tasks" if most > 1 else "share of seeds", scale=colours, legend=legend)
    cells = base.mark_rect(stroke="white").encode(**{"fill" if weights else "color": colour})
    ink = alt.condition(alt.datum.mean > low + 0.55 * (most - low), alt.value("white"), alt.value(INK))
    layers: list[Any] = [cells]
    if cell >= ROOM:
        layers.append(base.mark_text(fontSize=10, dy=-5).encode(text="text:N", color=ink))
        layers.append(base.mark_text(fontSize=8, dy=6).encode(text="spread:N", color=ink))
    elif cell >= 20:
        layers.append(base.mark_text(fontSize=9).encode(text="text:N", color=ink))
    height = 26 if cell >= ROOM else 20
    return alt.layer(*layers).properties(width=cell * len(columns), height=height * data["layer"].nunique(), title=title)


def number(value: float, most: float) -> str:
    return f"{value:.1f}" if most > 1 else f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"


# do seeds agree


def pairs_chart(tables: Tables) -> Any:
    """Every two seeds of a task: Jaccard index and Cohen's kappa, beside chance."""
    if "stability_pairs" not in tables:
        return None
    rows = tables["stability_pairs"]
    rows = rows[rows["prune"] == first_prune(rows)]
    panels = []
    for kind, name in (("head", "heads"), ("mlp", "MLPs")):
        part = rows[rows["kind"] == kind]
        panels += [
            pairs_panel(part.dropna(subset=measure), measure, f"{name}: {title}", tasks_of(tables))
            for measure, title in (("jaccard", "Jaccard index"), ("kappa", "Cohen's kappa"))
            if part[measure].notna().any()
        ]
    return in_rows(panels) if panels else None


def pairs_panel(rows: pd.DataFrame, measure: str, title: str, tasks: list[str]) -> Any:
    names = {True: "more than chance (Holm)", False: "could be chance"}
    data = rows[["task", "one", "other", "shared", "shared_expected", measure, f"{measure}_expected", "p_holm"]].round(4)
    data["is"] = rows["real"].map(names)
    y = alt.Y("task:N", scale=alt.Scale(domain=tasks), title=None)
    low = min(0.0, float(rows[measure].min()))
    x = alt.X(f"{measure}:Q", title=title, scale=alt.Scale(domain=[low, 1]))
    dots = alt.Chart(data).mark_point(filled=True, size=50, opacity=0.75).encode(
        y=y,
        x=x,
        color=alt.Color("is:N", title=None, scale=alt.Scale(domain=list(names.values()), range=[GREENS[4], LINES[2]]),
                        legend=alt.Legend(orient="top", labelLimit=300)),
        shape=alt.Shape("is:N", title=None, scale=alt.Scale(domain=list(names.values()), range=["circle", "diamond"])),
        tooltip=[
            alt.Tooltip("one:N", title="seed"),
            alt.Tooltip("other:N", title="and seed"),
            *(alt.Tooltip(f"{c}:Q", format=".3g") for c in ("shared", "shared_expected", measure, "p_holm")),
        ],
    )  # fmt: skip
    chance = data.groupby("task", sort=False)[f"{measure}_expected"].mean().round(4).rename("chance").reset_index()
    ticks = alt.Chart(chance).mark_tick(color=INK, thickness=2, size=14).encode(
        y=y, x="chance:Q", tooltip=["task:N", alt.Tooltip("chance:Q", title="by chance", format=".3f")]
    )  # fmt: skip
    return (dots + ticks).properties(width=350, height=max(40, 20 * len(tasks)))


# what tasks share


def overlaps_chart(tables: Tables) -> Any:
    """Figures 5 and 19."""
    if "overlaps" not in tables:
        return None
    rows, tasks = tables["overlaps"], tasks_of(tables)
    kinds = {"head": "heads", "mlp": "MLPs"}
    panels = [
        overlap_panel(rows[(rows["which"] == which) & (rows["kind"] == kind)], tasks, title)
        for which, text in (("all units", "shared by subnetworks"), ("super-survivors", "shared by super-survivors"))
        for kind, name in kinds.items()
        for title in [f"{name} {text}"]
    ]
    return in_rows([p for p in panels if p is not None])


def overlap_panel(rows: pd.DataFrame, tasks: list[str], title: str) -> Any:
    if rows.empty:
        return None
    tasks = [t for t in tasks if t in set(rows["one"]) | set(rows["other"])]
    data = rows[["one", "other", "shared", "std", "expected", "p", "p_whole"]].round(4)
    data["itself"] = rows["one"] == rows["other"]
    data["text"] = [plus_minus(m, s, 1, 1).replace(" ", "") for m, s in zip(rows["shared"], rows["std"], strict=True)]
    data["chance"] = ["" if pd.isna(e) else f"({e:.1f})" for e in rows["expected"]]
    data["mark"] = rows["p_whole"] < LEVEL
    between = rows.loc[rows["one"] != rows["other"], "shared"]
    data["shade"] = ((rows["shared"] - between.min()) / (float(np.ptp(between)) or 1)).clip(0, 1).round(3)
    base = alt.Chart(data).encode(
        x=alt.X("one:N", scale=alt.Scale(domain=tasks), title=None, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("other:N", scale=alt.Scale(domain=tasks), title=None),
        tooltip=[
            alt.Tooltip("one:N", title="task"),
            alt.Tooltip("other:N", title="and task"),
            *(alt.Tooltip(f"{c}:Q", format=".3g") for c in ("shared", "std")),
            alt.Tooltip("expected:Q", title="if independent", format=".3g"),
            alt.Tooltip("p_whole:Q", title="p", format=".2g"),
            alt.Tooltip("p:Q", title="p, seeds apart", format=".2g"),
        ],
    )
    cell = 42 if len(tasks) > 6 else 60
    cells = base.mark_rect(stroke="white").encode(
        color=alt.condition(
            alt.datum.itself,
            alt.value(PALE),
            alt.Color("shade:Q", title=None, scale=alt.Scale(domain=[0, 1], range=GREENS[:3]), legend=None),
        )
    )
    rings = base.transform_filter(alt.datum.mark).mark_rect(filled=False, stroke=MARK, strokeWidth=2)
    texts = base.mark_text(fontSize=9, dy=-5, color=INK).encode(text="text:N")
    chances = base.mark_text(fontSize=8, dy=7, color=INK).encode(text="chance:N")
    side = cell * len(tasks)
    return (cells + rings + texts + chances).properties(width=side, height=round(side * 0.8), title=title)
