"""Competing subnetworks: what is left without some units, and with others held."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import NOISE, RATIO, judged
from corewood.report.html import html_table, nats, share
from corewood.report.items import chart, says, table
from corewood.report.style import GREENS, PAPER, PERCENT, Tables, ordered, percent, room, shown, tips
from corewood.report.ways import CORE, L0, WITH, WITHOUT, spoken
from corewood.report.words import between, heads_in, joined, largest, name, pct, quoted

FEW = 4  # units that are told by name
MARGIN = 0.03  # a case that falls by more than three points is not kept
MEASURES = {"unseen_kl": "KL, unseen texts", "in_domain": "in domain", "cases": "cases, mean"}


@chart("Competing", "competing", "With and without", of="competing")
def competing_chart(tables: Tables) -> Any:
    """Lines join searches of one seed: the plain one, one that could not use the units in question, one that had to. Filled
    dots are as faithful as plain searches of their size: their KL is within 1.5 times the lowest of these, or 0.005 nats."""
    rows = tables["competing"].copy()
    rows["how"] = rows["way"].map(spoken)
    ways = [spoken(way) for way in (WITHOUT, L0, WITH) if (rows["way"] == way).any()]
    rows["search"] = rows["task"] + " " + rows["tuning"].astype(str) + " " + rows["seed"].astype(str)
    panels = []
    for task in dict.fromkeys(rows["task"]):
        mine = rows[rows["task"] == task]
        for target in shown(mine["target"]):
            here = mine[mine["target"] == target]
            measures = [name for name in MEASURES if here[name].notna().any()]
            sides = [panel(here, name, ways) for name in measures]
            title = percent(target) if rows["task"].nunique() == 1 else f"{quoted(task)}, {percent(target)}"
            panels.append(alt.hconcat(*sides, title=title))
    return alt.vconcat(*panels)


def panel(rows: pd.DataFrame, measure: str, ways: list[str]) -> Any:
    columns = ["how", "search", "subnetwork", "unseen_kl", "in_domain", "cases", "shared", "faithful"]
    shares = measure != "unseen_kl" and (rows["metric"] == "accuracy").all()
    inside = ".1%" if (rows["metric"] == "accuracy").all() else ".3f"
    axis = {"format": PERCENT} if shares else {}
    scale = {"zero": True} if measure == "unseen_kl" else {"domain": [min(0.0, float(rows[measure].min())), 1]}
    base = alt.Chart(rows[columns].assign(faithful=rows["faithful"].astype(bool))).encode(
        x=ordered(alt.X, "how", ways, axis={"labelAngle": 0}),
        y=alt.Y(f"{measure}:Q", title=MEASURES[measure], axis=axis, scale=scale),
        tooltip=tips(
            f"subnetwork:N | KL = unseen_kl:Q .4f | in domain = in_domain:Q {inside} | cases, mean = cases:Q .1% | "
            "share of its units in the plain mask = shared:Q .0% | as faithful as plain ones = faithful:N"
        ),
    )
    lines = base.mark_line(opacity=0.35, color=GREENS[4]).encode(detail="search:N")
    good = base.transform_filter(alt.datum.faithful).mark_point(filled=True, size=55, opacity=0.9, color=GREENS[4])
    poor = base.transform_filter(~alt.datum.faithful).mark_point(fill=PAPER, size=45, opacity=1, color=GREENS[4])
    return (lines + good + poor).properties(width=room(across=len(MEASURES)), height=190)


@table("Competing", "competing-table", "Seed by seed", of="competing")
def competing_table(tables: Tables) -> str | None:
    """Faithful: as close to the full model as the plain searches of that size. Shared: how many of its units the plain mask
    of the same seed has, too."""
    rows = tables["competing"].sort_values(["task", "tuning", "target", "seed"], kind="stable").copy()
    rows["shared"] = rows["shared"].where(rows["way"] != L0)
    rows["way"] = rows["way"].map(spoken)
    rows["units"] = rows["units"].where(rows["pinned"] <= FEW, rows["pinned"].astype(str) + " units")
    rows["faithful"] = rows["faithful"].map({True: "yes", False: "no"})
    columns = ["target", "seed", "way", "unseen_kl", "faithful", "in_domain", "cases", "shared", "units"]
    several = [name for name in ("task", "tuning") if rows[name].nunique() > 1]
    forms = {"unseen_kl": nats, "shared": share, "cases": share}
    forms |= {"in_domain": share if (rows["metric"] == "accuracy").all() else "{:.3f}".format}
    names = {"in_domain": "in domain", "cases": "cases, mean", "units": "left out or held", "tuning": "fine-tuning"}
    return html_table(rows[[*several, *columns]], names, forms)


@says(of="competing")
def competing_points(tables: Tables) -> list[str]:
    """One for each size, of the units that were left out and of those that were held."""
    rows = tables["competing"]
    several = rows["task"].nunique() > 1
    said = []
    for (task, target), part in rows.groupby(["task", "target"], sort=False):
        of_task = f" of {quoted(task)}" if several else ""
        size = f"with {100 * float(str(target)):g} % removed"
        for way in (WITHOUT, WITH) if target in shown(rows["target"]) else ():
            pairs = part[part["way"] == way].merge(part[part["way"] == L0], on=["tuning", "seed"], suffixes=("", "_plain"))
            if len(pairs):
                said.append(f"{begin(pairs, way, of_task, size)} {cost(pairs)}{lost_case(tables, pairs, way)}.")
    return said


def begin(pairs: pd.DataFrame, way: str, of_task: str, size: str) -> str:
    """The question, and how many searches answer it."""
    good = int(pairs["faithful"].sum())
    ended = (
        f"{good} of {len(pairs)} searches ended within {RATIO:g} times the lowest KL of plain ones (or {NOISE:g} nats of it)."
    )
    if way == WITH:
        return f"What does a subnetwork{of_task} cost that has to hold {named(pairs)}? {size.capitalize()}, {ended}"
    answer = "Yes" if good else "None was found"
    return f"Is there a faithful subnetwork{of_task} that holds none of {named(pairs)}? {answer}, {size}: {ended}"


def cost(pairs: pd.DataFrame) -> str:
    """Means over seeds, those of the plain searches in brackets."""
    parts = [f"KL on unseen texts is {pairs['unseen_kl'].mean():.3g} ({pairs['unseen_kl_plain'].mean():.3g} in plain searches)"]
    for column, what in (("in_domain", "in domain"), ("cases", "the cases")):
        if pairs[column].notna().any():
            form = pct if column == "cases" or pairs["metric"].iloc[0] == "accuracy" else "{:.3f}".format
            parts.append(f"{what} {form(pairs[column].mean())} ({form(pairs[f'{column}_plain'].mean())})")
    return joined(parts) + (", on average over seeds" if len(pairs) > 1 else "")


def named(pairs: pd.DataFrame) -> str:
    """The units in question: by name where they are few."""
    if pairs["asked"].iloc[0] == CORE:
        return f"the core ({heads_in(pairs['pinned'])})"
    few = pairs["units"].nunique() == 1 and pairs["pinned"].iloc[0] <= FEW
    return joined(str(pairs["units"].iloc[0]).split()) if few else f"the {between(pairs['pinned'], 0)} units in question"


def lost_case(tables: Tables, pairs: pd.DataFrame, way: str) -> str:
    """The case that falls most beside the plain searches, where one does."""
    scores = tables["scores"]
    mine = scores[
        (scores["task"] == pairs["task"].iloc[0]) & (scores["domain"] == "challenge") & (scores["metric"] == "accuracy")
    ]
    mine = judged(mine[mine["subnetwork"].isin([*pairs["subnetwork"], *pairs["subnetwork_plain"]])])
    if mine.empty:
        return ""
    wide = mine.pivot_table(index=["dataset", "case"], columns="way", values="value", sort=False).reset_index()
    worst = largest(wide, wide[L0] - wide[way])
    if not worst[L0] - worst[way] > MARGIN:
        return ""
    return f"; most is lost on {quoted(name(worst))}, {pct(worst[way])} ({pct(worst[L0])})"
