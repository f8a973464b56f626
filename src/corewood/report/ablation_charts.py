"""Charts of what happens when units of the full model are removed."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.report.style import INK, MARK, Tables, in_rows

POINTS = "+.1f"


def whole_sets(ablation: pd.DataFrame) -> pd.DataFrame:
    """Rows over whole sets: in domain, and the cases in focus (or all) of each challenge set; changes in points."""
    focused = set(ablation.loc[ablation["case"] == "focus", "dataset"])
    wanted = ablation["case"].where(~ablation["dataset"].isin(focused), "focus").isin(["all", "focus"])
    rows = ablation[wanted & ((ablation["case"] == "focus") | ~ablation["dataset"].isin(focused))].copy()
    rows["where"] = ("on " + rows["dataset"]).where(rows["domain"] == "challenge", "in domain")
    rows.loc[rows["case"] == "focus", "where"] += ", cases in focus"
    for column in ("change", "low", "high", "interaction", "interaction_low", "interaction_high"):
        rows[column] = 100 * rows[column]
    return rows


def ablation_chart(tables: Tables) -> Any:
    """Every head and MLP alone: how many points its removal costs or gains."""
    if "ablation" not in tables:
        return None
    rows = whole_sets(tables["ablation"])
    rows = rows[rows["kind"].isin(["head", "mlp"])].copy()
    if rows.empty or rows["units"].nunique() < 6:
        return None
    place = rows["units"].str.extract(r"L(\d+)\.(?:H(\d+)|MLP)")
    rows["layer"], rows["unit"] = place[0].astype(int), place[1].fillna("MLP")
    columns = [str(i) for i in sorted({int(u) for u in rows["unit"] if u != "MLP"})] + ["MLP"]
    cell = 24 if len(columns) <= 17 else 17
    panels = []
    for name, part in rows.groupby("where", sort=False):
        heads = part.loc[part["kind"] == "head", "change"].abs()
        limit = max(0.5, float(heads.max()) if len(heads) else 0.0)  # an MLP may cost far more: it is drawn as the limit
        scale = alt.Scale(scheme="redblue", domain=[-limit, limit], clamp=True)
        base = alt.Chart(part[["layer", "unit", "units", "change", "low", "high", "core", "n"]]).encode(
            x=alt.X("unit:N", scale=alt.Scale(domain=columns), title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            tooltip=[
                "units:N",
                alt.Tooltip("change:Q", title="change, points", format=POINTS),
                alt.Tooltip("low:Q", format=POINTS),
                alt.Tooltip("high:Q", format=POINTS),
                alt.Tooltip("core:N", title="in the core"),
                "n:Q",
            ],
        )
        cells = base.mark_rect(stroke="white").encode(
            color=alt.Color("change:Q", title="points", scale=scale, legend=alt.Legend(orient="right", gradientLength=120))
        )
        rings = base.transform_filter(alt.datum.core).mark_point(shape="circle", size=cell * 8, color=INK, strokeWidth=1.6)
        panels.append((cells + rings).properties(width=alt.Step(cell), height=alt.Step(cell), title=str(name)))
    return in_rows(panels).resolve_scale(color="independent")


def interactions_chart(tables: Tables) -> Any:
    """Sets: how far their joint change goes beyond the sum of the single ones; the largest thirty."""
    if "ablation" not in tables:
        return None
    rows = whole_sets(tables["ablation"])
    rows = rows[(rows["kind"] == "set") & rows["interaction"].notna()]
    if rows.empty:
        return None
    largest = rows.loc[rows["core"], "size"].max()
    whole_core = rows["core"] & (rows["size"] == largest) & (rows["size"] > 4)
    rows = rows.assign(name=rows["units"].mask(whole_core, "all " + rows["size"].astype(str) + " heads of the core"))
    last = rows[rows["where"] == list(dict.fromkeys(rows["where"]))[-1]]
    chosen = list(last.reindex(last["interaction"].abs().sort_values(ascending=False, kind="stable").index)["name"][:30])
    panels = []
    for name, part in rows[rows["name"].isin(chosen)].groupby("where", sort=False):
        shown = part[["name", "interaction", "interaction_low", "interaction_high", "change", "n"]]
        base = alt.Chart(shown).encode(
            y=alt.Y("name:N", scale=alt.Scale(domain=chosen), title=None),
            tooltip=[
                alt.Tooltip("name:N", title="units"),
                alt.Tooltip("change:Q", title="joint change, points", format=POINTS),
                alt.Tooltip("interaction:Q", title="beyond the sum", format=POINTS),
                alt.Tooltip("interaction_low:Q", title="low", format=POINTS),
                alt.Tooltip("interaction_high:Q", title="high", format=POINTS),
                "n:Q",
            ],
        )
        title = "joint change minus the sum of single changes, points"
        bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("interaction_low:Q", title=title), x2="interaction_high:Q")
        dots = base.mark_circle(size=50, color=MARK).encode(x="interaction:Q")
        zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=INK, strokeDash=[2, 2]).encode(x="x:Q")
        panels.append((zero + bars + dots).properties(width=330, height=alt.Step(16), title=str(name)))
    return in_rows(panels)
