"""The heads that every subnetwork keeps."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.report.html import html_table
from corewood.report.items import chart, says, table
from corewood.report.style import (
    GREENS,
    INK,
    PAPER,
    PERCENT,
    Tables,
    coloured,
    in_rows,
    ordered,
    percent,
    ringed,
    room,
    shaped,
    share_axis,
    shown,
    tips,
    unit_places,
)
from corewood.report.ways import called
from corewood.report.words import count, heads_in, probability

MOST_PAIRS = 6  # of sparsities, that are drawn against each other


@table("Fine-tunings", "core-tunings", "The core within and across fine-tunings", of="core_tunings")
def tunings_table(tables: Tables) -> str | None:
    """Heads that all subnetworks of a fine-tuning keep, and those that all subnetworks of all fine-tunings do."""
    table = tables["core_tunings"].copy()
    table["tuning"] = table["tuning"].astype(str).where(table["tuning"] >= 0, "all")
    return html_table(table, {"tuning": "fine-tuning", "masks": "subnetworks"})


@chart("Heads and core", "heads", "Which heads survive", of="frequencies")
def heads_chart(tables: Tables) -> Any:
    """The stronger the green, the more subnetworks keep the head. A ring marks the core: heads that every subnetwork keeps,
    at every sparsity."""
    table = tables["frequencies"].copy()
    table["unit"] = table["index"].astype(str).where(table["kind"] == "head", "MLP")
    table["name"] = "L" + table["layer"].astype(str) + "." + table["unit"].where(table["unit"] == "MLP", "H" + table["unit"])
    members = set(str(tables["core"].iloc[-1]["members"]).split())
    table["core"] = table["name"].isin(members)
    columns = [str(i) for i in sorted(set(table.loc[table["kind"] == "head", "index"]))] + ["MLP"]
    panels = []
    cell = max(18, min(34, room(across=2) // len(columns)))
    for target in shown(table["target"]):
        part = table[table["target"] == target]
        base = alt.Chart(part[["layer", "unit", "name", "count", "of", "share", "core"]]).encode(
            **unit_places(columns),
            tooltip=tips(
                "unit = name:N | kept by = count:Q | of so many subnetworks = of:Q | share:Q .0% | in the core = core:N"
            ),
        )
        cells = base.mark_rect(stroke=PAPER).encode(
            color=alt.Color(
                "share:Q",
                title="share of subnetworks that keep it",
                scale={"domain": [0, 1], "range": GREENS},
                legend={"format": PERCENT, "orient": "bottom", "values": [0, 0.25, 0.5, 0.75, 1]},
            )
        )
        rings = ringed(base.transform_filter(alt.datum.core), cell * 9)
        panels.append(alt.layer(cells, *rings).properties(width=alt.Step(cell), height=alt.Step(cell), title=percent(target)))
    return in_rows(panels)


@table("Heads and core", "core", "The core by definition", of="core")
def core_table(tables: Tables) -> str | None:
    """Beside each, how many heads random masks of the same sizes would share: scattered over the model, or with as many
    heads in each layer."""
    return html_table(tables["core"], {"definition": "core: heads in", "members": "which heads"})


@chart("Heads and core", "two-sparsities", "Two sparsities against each other", of="frequencies rank_correlations")  # figure 5
def two_sparsities_chart(tables: Tables) -> Any:
    """How many heads are kept by so many subnetworks of the one sparsity (across) and of the other (up)."""
    heads = tables["frequencies"][tables["frequencies"]["kind"] == "head"]
    panels = []
    for _, pair in tables["rank_correlations"].head(MOST_PAIRS).iterrows():
        wide = heads[heads["target"].isin([pair["target"], pair["other"]])].pivot(
            index=["layer", "index"], columns="target", values="count"
        )
        joint = wide.groupby([pair["target"], pair["other"]]).size().rename("heads").reset_index()
        joint.columns = pd.Index(["one", "other", "heads"])
        sure = "masks are nested" if pd.isna(pair["p"]) else f"p {pair['p']:.2g}"
        label = "rho undefined: a frequency is constant"
        if pd.notna(pair["rho"]):
            label = f"Spearman's rho {pair['rho']:.2f} ({sure})"
        base = alt.Chart(joint).encode(
            x=alt.X("one:O", title=f"subnetworks with {percent(pair['target'])} that keep the head", axis={"labelAngle": 0}),
            y=alt.Y("other:O", title=["with", percent(pair["other"])], sort="descending"),
            tooltip=tips(f"{percent(pair['target'])} = one:O | {percent(pair['other'])} = other:O | heads:Q"),
        )
        cells = base.mark_rect().encode(color=alt.Color("heads:Q", scale={"range": GREENS}, title="heads"))
        numbers = base.mark_text(fontSize=11).encode(
            text="heads:Q",
            color=alt.condition(alt.datum.heads > joint["heads"].max() * 0.6, alt.value(PAPER), alt.value(INK)),
        )
        panels.append((cells + numbers).properties(width=alt.Step(44), height=alt.Step(44), title=label))
    return in_rows(panels)


@chart("Heads and core", "ranked", "Heads by how often they survive", of="frequencies")  # figures 13 and 14
def ranked_chart(tables: Tables) -> Any:
    """All panels have the order of the sparsest: what survives most there should stand left in the others too."""
    heads = tables["frequencies"][tables["frequencies"]["kind"] == "head"].copy()
    heads["unit"] = "L" + heads["layer"].astype(str) + ".H" + heads["index"].astype(str)
    first = heads[heads["target"] == heads["target"].max()].set_index("unit")["share"]
    order = list(first.sort_values(ascending=False, kind="stable").index)  # of equal ones in the model's order
    title = "heads, in the order of the sparsest"
    names = {"labels": len(order) <= 80, "labelFontSize": 8, "labelAngle": -90, "labelOverlap": True, "ticks": False}
    panels = []
    for target in reversed(shown(heads["target"])):
        part = heads[heads["target"] == target]
        panels.append(
            alt.Chart(part[["unit", "share", "count", "of"]])
            .mark_bar(color=GREENS[3])
            .encode(
                x=ordered(alt.X, "unit", order, title=title if target == heads["target"].min() else None, axis=names),
                y=share_axis(alt.Y, "share", "kept by"),
                tooltip=tips("unit:N | kept by = count:Q | of so many subnetworks = of:Q"),
            )
            .properties(width=max(room(), 8 * len(order)), height=110, title=percent(float(target)))
        )
    return alt.vconcat(*panels)


@chart("Heads and core", "sizes", "Sizes in three currencies", of="sizes")
def sizes_chart(tables: Tables) -> Any:
    """Equal numbers of units are not equal numbers of parameters."""
    names = {"units_share": "units", "encoder_share": "encoder parameters", "all_share": "all parameters"}
    found = tables["sizes"][tables["sizes"]["way"] != "full"]
    if found.empty:
        return None
    table = found.melt(["subnetwork", "target", "heads", "mlps"], list(names), var_name="currency", value_name="share")
    table["currency"] = table["currency"].map(names)
    table["part"] = table["target"].map(percent)
    return (
        alt.Chart(table)
        .mark_tick(thickness=2, size=18, opacity=0.7, color=GREENS[4])
        .encode(
            x=share_axis(alt.X, "share", "share of the full model that stays"),
            y=ordered(alt.Y, "currency", names.values()),
            row=alt.Row("part:N", title=None, header={"labelAngle": 0, "labelAlign": "left"}),
            tooltip=tips("subnetwork:N | currency:N | share:Q .1% | heads:Q | mlps:Q"),
        )
        .properties(width=room(names.values(), beside=110), height=alt.Step(24))
    )


@says(of="core", single=True)
def core_point(tables: Tables) -> list[str]:
    if tables["core"].empty or tables["core"].iloc[-1]["masks"] == 1:  # of one subnetwork everything is core
        return []
    row = tables["core"].iloc[-1]
    if not row["heads"]:
        return [f"No head is in all {row['masks']} subnetworks: they have no core."]
    chance, are = f"chance would give {row['expected']:.2g}", "is" if row["heads"] == 1 else "are"
    heads = count(row["heads"], "head").capitalize()
    smallest = tables["sizes"].loc[tables["sizes"]["way"] != "full", "heads"].min() if "sizes" in tables else None
    all_of = ", which is every head that the smallest of them have" if row["heads"] == smallest else ""
    return [f"{heads} of the model {are} in all {row['masks']} subnetworks: its core{all_of} ({chance})."]


@says(of="core", single=True, sure=True)
def core_chance(tables: Tables) -> list[str]:
    row = tables["core"].iloc[-1]
    if row["masks"] == 1 or not row["heads"]:
        return []
    share = f"random masks of these sizes share {row['expected']:.2g} ({probability(row['p'])})"
    layers = f"{row['expected_layers']:.2g} with as many heads in each layer ({probability(row['p_layers'])})"
    return [f"A core of {count(row['heads'], 'head')}: {share}, and {layers}."]


@says(of="core_tunings", single=False)
def tunings_point(tables: Tables) -> list[str]:
    said = []
    for (task, way), part in tables["core_tunings"].groupby(["task", "way"], sort=False):
        own, across = part[part["tuning"] >= 0], part[part["tuning"] < 0]
        row = across[across["definition"] == "all of all fine-tunings"].iloc[0]
        are = "is" if row["heads"] == 1 else "are"
        said.append(
            f"“{task}”, {called(way)}: the core of one fine-tuning has {heads_in(own['heads'])}; "
            f"{row['heads']} {are} in all {row['masks']} subnetworks of all {len(own)} fine-tunings (chance "
            f"{row['expected']:.2g}, {probability(row['p'])})."
        )
    return said


@chart("Training", "core-over-training", "When the core appears", of="core_over_training")
def core_over_training_chart(tables: Tables) -> Any:
    """Of the heads that all seeds of the grid keep at the last checkpoint, and of the study's own core, how many are kept by
    all seeds at earlier ones; dashed by chance, with as many heads in each layer."""
    table = tables["core_over_training"].copy()
    table["part"] = table["target"].map(percent)
    parts = list(dict.fromkeys(table.sort_values("target")["part"]))
    panels = []
    for end, whose in (("last", "the grid's core at the last step"), ("core", "the core of the study's subnetworks")):
        old = "" if end == "last" else "_core"
        names = {f"heads_{end}": "whole", f"shared{old}": "shared", f"share_of_{end}": "share", f"p{old}_layers": "p"}
        mine = table.assign(chance=table[f"expected{old}_layers"] / table[f"heads_{end}"].where(table[f"heads_{end}"] > 0))
        mine = mine[["part", "checkpoint", "chance", *names]].rename(columns=names).dropna(subset="share")
        if mine.empty:
            continue
        base = alt.Chart(mine).encode(
            x=alt.X("checkpoint:Q", title="fine-tuning step"),
            color=coloured("part", parts),
            tooltip=tips(
                "part:N | step = checkpoint:Q | heads of it there = shared:Q | its heads = whole:Q | share:Q .0% | "
                "share by chance = chance:Q .0% | p:Q .2g"
            ),
        )
        y = share_axis(alt.Y, "share", "share of it already there")
        lines = base.mark_line().encode(y=y) + base.mark_point(filled=True, size=40).encode(y=y, shape=shaped("part", parts))
        chance = base.mark_line(strokeDash=[3, 3], opacity=0.6).encode(y="chance:Q")
        panels.append((chance + lines).properties(width=room(across=2), height=260, title=whose))
    return in_rows(panels) if panels else None
