"""What is kept and what is lost at each size, and which subnetwork to take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import subnetworks
from corewood.analyse.verdicts import KEPT, LOST, MARGIN, OPEN, best_to_take
from corewood.report.html import html_table, in_points
from corewood.report.items import chart, says, table
from corewood.report.style import (
    GREENS,
    INK,
    MARK,
    PALE,
    PAPER,
    Tables,
    order_of_cases,
    ordered,
    percent,
    room,
    shown,
    tips,
    where,
)
from corewood.report.ways import called, different_masks
from corewood.report.words import joined, name, pct, quoted, span

MOST_NAMED = 4  # cases that a sentence names
WORDS = {KEPT: "kept", OPEN: "cannot be told", LOST: "lost"}


@dataclass(frozen=True)
class Tile:
    """A number on the first screen: what it is, the number, and what it means."""

    label: str
    value: str
    note: str


def some(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    more = [f"{len(every) - MOST_NAMED} more"] if len(every) > MOST_NAMED + 1 else []
    return joined([*map(quoted, every[:MOST_NAMED] if more else every), *more])


def outside(verdicts: pd.DataFrame) -> pd.DataFrame:
    return verdicts[verdicts["domain"] == "challenge"]


def names_of_cases(cases: pd.DataFrame) -> pd.Series:
    """What sentences call cases: those of several sets have the set's name before theirs."""
    several = cases["dataset"].nunique() > 1
    names = [f"{r['dataset']}: {r['case']}" if several and r["case"] != "all" else name(r) for _, r in cases.iterrows()]
    return pd.Series(names, cases.index, dtype=object)


def size_words(sizes: pd.DataFrame, target: float) -> str:
    """How much is removed, and what that leaves of the model: units are not parameters."""
    left = sizes["all_share"].dropna()
    removed = f"With {100 * target:g} % of the units removed" if target else "Pruned to a threshold"
    return f"{removed} (leaves {parameters(left)} of the parameters)" if len(left) else removed


def parameters(shares: pd.Series) -> str:
    low, high = (f"{100 * v:.0f} %" for v in (shares.min(), shares.max()))
    return low if low == high else f"{low} to {high}"


def to_take(tables: Tables) -> pd.Series | None:
    return best_to_take(tables["verdicts"], tables["sizes"])


@says(of="verdicts sizes", single=True)
def take_point(tables: Tables) -> list[str]:
    """For whoever wants to ship one."""
    found = tables["verdicts"]
    if outside(found).empty:
        return []
    chosen = to_take(tables)
    if chosen is not None:
        mine = found[found["subnetwork"] == chosen["subnetwork"]]
        cases, place = names_of_cases(outside(mine)), mine["low"].idxmin()
        worst, which = mine.loc[place], f"on {quoted(cases[place])}" if place in cases.index else "in domain"
        every = "the one case" if len(cases) == 1 else f"all {len(cases)} cases"
        return [
            f"Take {chosen['subnetwork']}: the smallest that keeps {every} "
            f"({100 * chosen['all_share']:.0f} % of the parameters). At worst it loses "
            f"{-100 * min(0.0, worst['low']):.1f} points, {which} (95 % interval). "
            f"“corewood export STUDY.yaml {chosen['subnetwork']} --out FOLDER” writes it as a smaller model to ship."
        ]
    losing = set(found.loc[found["verdict"] == LOST, "subnetwork"])
    careful = [s for s in dict.fromkeys(found["subnetwork"]) if s not in losing]
    if careful:
        who = f"{joined(careful[:3])} {'lose' if len(careful) > 1 else 'loses'} nothing for certain"
        fell = what_fell(found, careful[:3])
        return [f"None is shown to keep every case. {who}{fell}: more examples, or fewer units removed, would tell."]
    return ["None here keeps every case that the full model handles: remove fewer units."]


def what_fell(found: pd.DataFrame, names: Sequence[str]) -> str:
    """, though l0-50-s1 fell on “relative”: what a test alone would call lost, and many tests together do not."""
    rows = outside(found)
    rows = rows[(rows["verdict"] == OPEN) & (rows["high"] < 0)].assign(name=names_of_cases(rows))
    alike: dict[str, list[str]] = {}  # cases, in words -> who fell on just these
    for who in names:
        if (mine := rows["subnetwork"] == who).any():
            alike.setdefault(some(rows.loc[mine, "name"]), []).append(who)
    there = [f"{joined(fell)} fell on {cases}" for cases, fell in alike.items()]
    return f", though {joined(there)}" if there else ""


@says(of="verdicts sizes spread", single=True)
def size_points(tables: Tables) -> list[str]:
    """One sentence or two a size."""
    return [at_size(tables, target) for target in shown(tables["verdicts"]["target"])]


@says(of="verdicts sizes", single=False)
def models_points(tables: Tables) -> list[str]:
    """Of several models: what all their subnetworks of a size lose, and what some do."""
    said = []
    found = first_mode(outside(tables["verdicts"]))
    for (task, way, target), rows in found.groupby(["task", "way", "target"], sort=False):
        rows = rows.assign(name=names_of_cases(rows), gone=rows["verdict"] == LOST)
        number = len(rows.drop_duplicates(["tuning", "subnetwork"]))
        lost = rows.groupby("name", sort=False)["gone"].agg(["sum", "size"])
        every = [str(case) for case, row in lost.iterrows() if row["sum"] == row["size"] == number]
        partly = [
            f"{quoted(str(case))} ({row['sum']} of {row['size']})"
            for case, row in lost[lost["sum"] > 0].iterrows()
            if str(case) not in every
        ]
        more = [f"{len(partly) - MOST_NAMED} more"] if len(partly) > MOST_NAMED else []
        everyone = "the one subnetwork loses" if number == 1 else f"all {number} subnetworks lose"
        parts = [f"{everyone} {some(every)}"] if every else []
        parts += [f"some lose {joined([*partly[:MOST_NAMED], *more])}"] if partly else []
        nobody = "the one subnetwork is not" if number == 1 else f"none of {number} subnetworks is"
        told = "; ".join(parts) or f"{nobody} shown to lose one"
        size = f"{percent(float(str(target)))} by {called(way)}"
        said.append(f"“{task}”, {size}: of the cases that the full models handle, {told}.")
    return said


def first_mode(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Of ways that removed several kinds of units in turn, the first: those that `spread` is about."""
    return verdicts[verdicts["prune"] == verdicts.groupby(["task", "tuning", "way"])["prune"].transform("first")]


def at_size(tables: Tables, target: float) -> str:
    rows = first_mode(tables["verdicts"])
    rows = rows[rows["target"] == target]
    inside = rows[rows["domain"] == "in-domain"]
    number = rows["subnetwork"].nunique()
    who = "the subnetwork has" if number == 1 else f"{number} subnetworks have"
    if one := number > 1 and different_masks(tables, rows["subnetwork"]) == 1:
        who = f"{number} searches found one subnetwork, which has"
    have = f"{who} {span(inside['value'].min(), inside['value'].max())}"
    sizes = tables["sizes"][tables["sizes"]["subnetwork"].isin(rows["subnetwork"])]
    text = f"{size_words(sizes, target)}, {have} in domain (full model: {pct(inside['full'].iloc[0])})"
    cases = outside(rows)
    if cases.empty:
        return f"{text}."
    total = cases.groupby(["dataset", "case"]).ngroups
    kept = cases.groupby("subnetwork")["verdict"].agg(lambda v: int((v == KEPT).sum()))
    keep = how_many_kept(kept[:1] if one else kept, total)
    return f"{text} and {keep} that the full model handles{what_is_lost(cases, number)}."


def how_many_kept(kept: pd.Series, total: int) -> str:
    """keep 13 to 14 of the 16 cases; from how many cases each subnetwork keeps"""
    if total > 1:
        span_kept = f"{kept.min()}" if kept.min() == kept.max() else f"{kept.min()} to {kept.max()}"
        return f"{'keeps' if len(kept) == 1 else 'keep'} {span_kept} of the {total} cases"
    keepers = int(kept.sum())
    if not keepers:
        return f"{'is' if len(kept) == 1 else 'are'} not shown to keep the one case"
    who = "" if keepers == len(kept) else f"{keepers} of them "
    return f"{who}{'keeps' if keepers == 1 else 'keep'} the one case"


def what_is_lost(cases: pd.DataFrame, number: int) -> str:
    """; lost: “relative”; lost by some: “or” (2 of 4); cannot be told: “if” (500 examples would tell)"""
    parts = []
    cases = cases.assign(name=names_of_cases(cases))
    by_case = cases.groupby("name", sort=False)
    lost = by_case["verdict"].agg(lambda v: int((v == LOST).sum()))
    everyone, partly = lost[lost == number], lost[(lost > 0) & (lost < number)]
    if len(everyone):
        parts.append(f"lost: {some(map(str, everyone.index))}")
    if len(partly):
        named = [f"“{case}” ({times} of {number})" for case, times in partly.head(MOST_NAMED).items()]
        more = [f"{len(partly) - MOST_NAMED} more"] if len(partly) > MOST_NAMED else []
        parts.append(f"lost by some: {joined([*named, *more])}")
    open_ = cases[(cases["verdict"] == OPEN) & (cases["name"].map(lost) == 0)]
    unclear = list(dict.fromkeys(open_["name"]))
    if unclear:
        enough = open_["needed"].max()
        would = f" (some {enough:,.0f} examples a case would tell)" if open_["needed"].notna().all() else ""
        parts.append(f"cannot be told with {examples_of(open_)}: {some(unclear)}{would}")
    return "; " + "; ".join(parts) if parts else ""


def examples_of(rows: pd.DataFrame) -> str:
    low, high = int(rows["n"].min()), int(rows["n"].max())
    return f"{low:,} examples" if low == high else f"{low:,} to {high:,} examples"


@says(of="verdicts spread", single=True)
def unable_point(tables: Tables) -> list[str]:
    """Cases of which nothing can be lost."""
    spread, found = tables["spread"], tables["verdicts"]
    cases = spread[(spread["domain"] == "challenge")].drop_duplicates(["dataset", "case"])
    cases = cases[(cases["case"] != "all") | ~cases["dataset"].isin(cases.loc[cases["case"] != "all", "dataset"])]
    handled = set(zip(found["dataset"], found["case"], strict=True))
    keys = zip(cases["dataset"], cases["case"], strict=True)
    unable = [case for case, key in zip(names_of_cases(cases), keys, strict=True) if key not in handled]
    if not unable:
        return []
    if len(unable) == len(cases):
        return ["The full model itself handles none of the cases: it gets less than half of each right."]
    return [f"The full model itself does not handle {some(unable)}: it gets less than half of them right."]


def tiles(tables: Tables) -> tuple[str, list[Tile]]:
    """(whose numbers these are, three of them): of the one to take or, where none keeps all, of the one that loses least."""
    if "verdicts" not in tables or "sizes" not in tables:
        return "", []
    found, sizes, chosen = tables["verdicts"], tables["sizes"], to_take(tables)
    if outside(found).empty:
        return "", []
    title = "The one to take"
    if chosen is None:
        title = "None is shown to keep every case; the closest"
        chosen = sizes[sizes["subnetwork"] == closest(found)].iloc[0]
    mine = found[found["subnetwork"] == chosen["subnetwork"]]
    made = []
    inside = mine[mine["domain"] == "in-domain"]
    if len(inside):
        row = inside.iloc[0]
        made.append(Tile("in domain", pct(row["value"]), f"full model: {pct(row['full'])}"))
    cases = outside(mine)
    if len(cases):
        kept = int((cases["verdict"] == KEPT).sum())
        said = [
            f"{word}: {some(names_of_cases(cases)[cases['verdict'] == verdict])}"
            for verdict, word in WORDS.items()
            if verdict != KEPT and (cases["verdict"] == verdict).any()
        ]
        note = "; ".join(said) or "within five points of the full model, each"
        made.append(Tile("cases kept", f"{kept} of {len(cases)}", note))
    removed = f"{100 * (1 - chosen['units_share']):.0f} % of the heads and MLPs removed"
    fast = speed_of(tables, chosen)
    note = f"{removed}; {fast}" if fast else removed
    made.append(Tile("parameters left", f"{100 * chosen['all_share']:.0f} %", note))
    return f"{title}: {chosen['subnetwork']}", made


def closest(found: pd.DataFrame) -> str:
    """The subnetwork that loses the fewest cases; of equal ones the one that leaves fewer open, then whose worst is milder."""
    facts = found.assign(lost=found["verdict"] == LOST, open=found["verdict"] == OPEN, worst=-found["low"])
    order = facts.groupby("subnetwork", sort=False).agg({"lost": "sum", "open": "sum", "worst": "max"})
    return str(order.sort_values(["lost", "open", "worst"], kind="stable").index[0])


def speed_of(tables: Tables, chosen: pd.Series) -> str:
    if "speed" not in tables:
        return ""
    rows = tables["speed"]
    mine = rows[(rows["way"] == chosen["way"]) & (rows["target"] == chosen["target"]) & (rows["prune"] == chosen["prune"])]
    if mine.empty:
        return ""
    row = mine.iloc[0]
    return f"{row['times']:.2f} times as fast ({row['full_milliseconds']:.1f} to {row['milliseconds']:.1f} ms a text, measured)"


@chart("Subnetworks", "verdicts", "Kept, lost, or not to be told", of="verdicts spread")
def verdicts_chart(tables: Tables) -> Any:
    """A row is a subnetwork, a column a case that the full model handles. A dot: kept, at most five points lost (95 %
    interval). A cross: lost, by that much or more, and more than chance (McNemar's test, Holm's correction). A ring: these
    examples do not tell."""
    rows = tables["verdicts"].copy()
    rows["where"], rows["said"] = where(rows), rows["verdict"].map(WORDS)
    rows["needed"] = rows["needed"].map(lambda n: f"about {n:,.0f}" if pd.notna(n) else "–")
    order = order_of_cases(rows)
    step = max(22, min(46, room(rows["subnetwork"]) // len(order)))
    said = [WORDS[verdict] for verdict in (KEPT, OPEN, LOST)]
    columns = [
        "subnetwork",
        "where",
        "dataset",
        "case",
        "said",
        "full",
        "value",
        "change",
        "low",
        "high",
        "n",
        "needed",
        "target",
    ]
    base = alt.Chart(rows[columns]).encode(
        x=ordered(alt.X, "where", order, axis={"labelAngle": -50, "labelLimit": 150}),
        y=ordered(alt.Y, "subnetwork", list(dict.fromkeys(rows["subnetwork"]))),
    )
    lines = base.mark_rect(fill="transparent", stroke=PALE, strokeWidth=0.6)
    marks = base.mark_point(size=110, strokeWidth=2).encode(
        shape=alt.Shape("said:N", title=None, scale={"domain": said, "range": ["circle", "circle", "cross"]}),
        stroke=alt.Stroke("said:N", title=None, scale={"domain": said, "range": [GREENS[3], INK, MARK]}),
        fill=alt.Fill("said:N", title=None, scale={"domain": said, "range": [GREENS[3], PAPER, MARK]}),
        tooltip=tips(
            "subnetwork:N | case = where:N | verdict = said:N | full model = full:Q .1% | subnetwork = value:Q .1% | "
            "change = change:Q +.1% | low:Q +.1% | high:Q +.1% | n:Q | examples that would tell = needed:N"
        ),
    )
    return (lines + marks).properties(width=alt.Step(step), height=alt.Step(22))


@table("Subnetworks", "lost", "What is lost, in numbers", of="verdicts")
def lost_table(tables: Tables) -> str | None:
    """Every case of every subnetwork that is lost, or of which these examples do not tell. Intervals are those of one
    comparison alone; p is corrected for all comparisons of one size."""
    rows = tables["verdicts"]
    rows = rows[rows["verdict"] != KEPT].copy()
    if rows.empty:
        return None
    rows["case"], rows["verdict"] = where(rows), rows["verdict"].map(WORDS)
    columns = ["subnetwork", "case", "verdict", "full", "value", "change", "low", "high", "p_holm", "n", "needed"]
    forms = {"value": pct, "change": in_points, "low": in_points, "high": in_points, "needed": "{:,.0f}".format}
    headings = {"value": "subnetwork has", "p_holm": "p, corrected", "needed": "examples that would tell", "change": "points"}
    return html_table(rows[columns], headings, forms)


def margin_words() -> str:
    return (
        f"A case is kept where the 95 % interval of the change leaves out a loss of more than {100 * MARGIN:g} points; lost "
        "where it fell by that much or more, and by more than chance (McNemar's exact test against the full model, Holm's "
        "correction over the cases and subnetworks of one size). Between the two, these examples do not tell."
    )


@says(of="verdicts", sure=True)
def rule_point(tables: Tables) -> list[str]:
    return [] if subnetworks(tables["scores"]).empty else [margin_words()]
