"""What tasks share."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.report.items import chart, says
from corewood.report.style import GREENS, INK, MARK, PALE, PAPER, Tables, in_rows, ordered, tips
from corewood.report.survivors import LIKELY
from corewood.report.ways import first_way, tasks_of
from corewood.report.words import between, plus_minus


@chart("Between tasks", "overlaps", "What tasks share", of="overlaps")  # figures 5 and 19
def overlaps_chart(tables: Tables) -> Any:
    """Units that two tasks share, mean ± standard deviation over seeds; in brackets, what independent tasks would. A red
    frame: more than that (p < 0.05, before any correction for many pairs). Grey: a task's own size."""
    rows, tasks = first_way(tables["overlaps"]), tasks_of(tables)
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
    data["mark"] = rows["p_whole"] < LIKELY
    between = rows.loc[rows["one"] != rows["other"], "shared"]
    data["shade"] = ((rows["shared"] - between.min()) / (float(np.ptp(between)) or 1)).clip(0, 1).round(3)
    base = alt.Chart(data).encode(
        x=ordered(alt.X, "one", tasks, axis={"labelAngle": -40}),
        y=ordered(alt.Y, "other", tasks),
        tooltip=tips(
            "task = one:N | and task = other:N | units they share = shared:Q .3g | std:Q .3g | "
            "if independent = expected:Q .3g | "
            "p = p_whole:Q .2g | p, seeds apart = p:Q .2g"
        ),
    )
    cell = 42 if len(tasks) > 6 else 60
    cells = base.mark_rect(stroke=PAPER).encode(
        color=alt.condition(
            alt.datum.itself,
            alt.value(PALE),
            alt.Color("shade:Q", title=None, scale={"domain": [0, 1], "range": GREENS[:3]}, legend=None),
        )
    )
    rings = base.transform_filter(alt.datum.mark).mark_rect(filled=False, stroke=MARK, strokeWidth=2)
    texts = base.mark_text(fontSize=9, dy=-5, color=INK).encode(text="text:N")
    chances = base.mark_text(fontSize=8, dy=7, color=INK).encode(text="chance:N")
    side = cell * len(tasks)
    return (cells + rings + texts + chances).properties(width=side, height=round(side * 0.8), title=title)


@says(of="overlaps")
def overlap_point(tables: Tables) -> list[str]:
    rows = first_way(tables["overlaps"])
    rows = rows[(rows["kind"] == "head") & (rows["which"] == "all units") & (rows["one"] != rows["other"])]
    if rows.empty:
        return []
    more = int((rows["p_whole"] < LIKELY).sum())
    shared, expected = between(rows["shared"], 1), between(rows["expected"], 1)
    who = f"{more} of {len(rows)} pairs of tasks share" if len(rows) > 1 else f"The two tasks {'' if more else 'do not '}share"
    return [
        f"{who} more heads than independent ones would (p < {LIKELY:g}): {shared} heads are shared, and {expected} would be."
    ]
