"""Ways of pruning beside each other, asked for the same share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.html import html_table
from corewood.report.items import chart, says, table
from corewood.report.style import (
    GREY,
    INK,
    LINES,
    PAPER,
    Tables,
    coloured,
    order_of_cases,
    percent,
    room,
    shaped,
    share_axis,
    shown,
    tips,
    where,
)
from corewood.report.ways import AROUND, BESIDE, RANDOM, WITH, WITHOUT, called
from corewood.report.words import joined, quoted, signed

ORDER = (
    "l0",
    WITHOUT,
    WITH,
    "importance",
    "magnitude",
    "given",
    AROUND,
    *RANDOM,
    "full",
)  # of what is shown; ways that are not here come first
WAY_COLOURS = [LINES[0], LINES[2], LINES[3], LINES[1], GREY, INK, *LINES[4:7]]
FEW = 3  # comparisons that are told one by one
SAME_SIZE = 0.02  # shares of the encoder that differ by less are called the same


def in_order(ways: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(ways), key=lambda way: ORDER.index(way) if way in ORDER else -1)


def way_rows(tables: Tables) -> pd.DataFrame | None:
    """In domain and case by case, where answers are right or wrong: numbers as answers have no accuracy."""
    rows = tables["ways"]
    parts = [judged(part) for _, part in rows.groupby("task", sort=False)]
    if not parts:
        return None
    table = pd.concat([part.assign(where=where(part)) for part in parts])
    table["real"] = (table["difference_low"] > 0) | (table["difference_high"] < 0)
    return table.assign(how=table["way"].map(called))


@chart("Ways", "ways", "Ways of pruning beside each other", of="ways")
def ways_chart(tables: Tables) -> Any:
    """Left: accuracy with its 95 % interval over seeds and examples, in domain first. Right: the difference from the
    first way (L0, where there is such) on the same seeds and examples; a filled point's interval leaves out zero."""
    rows = way_rows(tables)
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
    """One task at one size: accuracy on the left, the difference from the first way on the right."""
    first = called(base_of(rows))
    order = order_of_cases(rows)
    how = [called(way) for way in in_order(rows["way"])]
    columns = ["where", "how", "value", "low", "high", "difference", "difference_low", "difference_high", "real", "n", "models"]
    base = alt.Chart(rows[columns].dropna(subset="value").round(4)).encode(
        yOffset=alt.YOffset("how:N", scale={"domain": how}),
        color=coloured("how", how, WAY_COLOURS),
        tooltip=tips(
            "case = where:N | way = how:N | accuracy = value:Q .1% | low:Q .1% | high:Q .1% | "
            f"difference from {first} = difference:Q +.1% | from = difference_low:Q +.1% | "
            "to = difference_high:Q +.1% | n:Q | models:Q"
        ),
    )
    shape = shaped("how", how)
    width = room(order, 2) + 40
    height, no_names = 34 * len(order), {"labels": False, "ticks": False}
    places = {"domain": order, "paddingInner": 0.3}
    left, right = (alt.Y("where:N", scale=places, title=None, axis=axis) for axis in ({}, no_names))
    levels = base.mark_rule(strokeWidth=1.4).encode(y=left, x=alt.X("low:Q", title="accuracy"), x2="high:Q")
    dots = base.mark_point(filled=True, size=44, opacity=1).encode(
        y=left, shape=shape, x=share_axis(alt.X, "value", "accuracy")
    )
    others = base.transform_filter(alt.datum.how != first)
    gaps = others.mark_rule(strokeWidth=1.4).encode(y=right, x="difference_low:Q", x2="difference_high:Q")
    x = alt.X("difference:Q", title=f"difference from {first}", axis={"format": "+.0%", "tickCount": 6})
    real = others.transform_filter(alt.datum.real).mark_point(filled=True, size=50, opacity=1).encode(y=right, x=x, shape=shape)
    unsure = (
        others.transform_filter(~alt.datum.real).mark_point(size=34, fill=PAPER, opacity=1).encode(y=right, x=x, shape=shape)
    )
    zero = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="zero:Q")
    sides = (
        (levels + dots).properties(width=width, height=height),
        (zero + gaps + unsure + real).properties(width=width, height=height),
    )
    return alt.hconcat(*sides, title=title)


@table("Ways", "ways-table", "The same in numbers", of="ways")
def ways_table(tables: Tables) -> str | None:
    """Accuracy in per cent [95 % interval]; a star where the interval of the difference from the first way (L0, where
    there is such) leaves out zero."""
    rows = way_rows(tables)
    if rows is None:
        return None
    lines = []
    keys = ["task", "target", "where", "n", "models"]
    rows = rows.sort_values(["domain"], ascending=False, kind="stable")
    for task in dict.fromkeys(rows["task"]):
        for (_, target, case, n, models), part in rows[rows["task"] == task].groupby(keys, sort=False):
            line: dict[str, Any] = {
                "task": task,
                "size": percent(target).replace(" ", "\u00a0"),
                "case": case,
                "examples": n,
                "models": models,
            }
            by = part.set_index("way")
            for way in in_order(part["way"]):
                row = by.loc[way]
                star = "*" if row["real"] else ""
                line[called(way)] = f"{100 * row['value']:.1f}{star} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
            lines.append(line)
    return html_table(pd.DataFrame(lines))


def headline(tables: Tables, model: str) -> str | None:
    """Where nothing but methods was compared: the best of them at the largest share removed, if it can be told."""
    rows, what = judged_on(tables)
    if rows.empty:
        return None
    if len(rows.drop_duplicates(["task", "dataset"])) > 1:
        keys = rows.drop_duplicates(["task", "dataset", "target"])
        return counted(not_base(rows), len(keys), what)
    rows = rows[~rows["way"].isin(["full", *RANDOM, *BESIDE])]
    several = rows.groupby("target")["way"].transform("nunique") > 1
    if not several.any():  # no ways of pruning but one
        return None
    for target, here in sorted(rows[several].groupby("target"), reverse=True):
        base = base_of(here)
        apart = here[(here["difference_low"] > 0) | (here["difference_high"] < 0)]
        if apart.empty:
            continue
        better, worse = (apart[apart["difference"] > 0], apart[apart["difference"] < 0])
        verb, clear = ("keep more", better) if len(better) else ("lose more", worse)
        values = joined(f"{100 * row['value']:.0f} % by {called(row['way'])}" for _, row in clear.iterrows())
        own = float(here.loc[here["way"] == base, "value"].iloc[0])
        return (
            f"{size_words(tables, float(str(target)))}, subnetworks of {model} by {joined(called(m) for m in clear['way'])} "
            f"{verb} of the {what} than those by {called(base)}: {values} are right, and {100 * own:.0f} % by {called(base)}."
        )
    return f"Ways of pruning {model}, asked for the same share, cannot be told apart on the {what}."


def size_words(tables: Tables, target: float) -> str:
    """How large the subnetworks are that one target gave: ways with targets of their own may give other sizes for it."""
    asked = f"With {100 * target:g} % removed"
    sizes = tables.get("sizes", pd.DataFrame(columns=["target", "way", "encoder_share", "question"]))
    sizes = sizes[(sizes["question"] == "prune") & (sizes["target"] == target) & ~sizes["way"].isin([*RANDOM, *BESIDE])]
    left = sizes.groupby("way", sort=False)["encoder_share"].mean().dropna()
    if len(left) and left.max() - left.min() > SAME_SIZE:
        return f"{asked} (leaves {joined(f'{100 * v:.0f} % of the encoder by {called(w)}' for w, v in left.items())})"
    return asked


def base_of(rows: pd.DataFrame) -> str:
    """The way that the others of a size are compared with."""
    return str(rows["base"].iloc[0])


def not_base(rows: pd.DataFrame) -> pd.DataFrame:
    """What is compared; sizes that different ways have may have different bases."""
    found: pd.DataFrame = rows[(rows["way"] != rows["base"]) & (rows["way"] != "full")]
    return found


def judged_on(tables: Tables) -> tuple[pd.DataFrame, str]:
    """Whole challenge sets; without any, the validation sets. And what to call them."""
    rows = tables.get("ways", pd.DataFrame(columns=["domain", "case"]))
    whole = rows[rows["case"] == "all"]
    challenge = whole[whole["domain"] == "challenge"]
    return (challenge, "challenge cases") if len(challenge) else (whole, "validation set")


@says(of="ways")
def ways_point(tables: Tables) -> list[str]:
    """On whole sets: which ways differ from the first by more than their interval."""
    rows, what = judged_on(tables)
    if rows.empty:
        return []
    keys = list(dict.fromkeys(zip(rows["task"], rows["target"], rows["dataset"], strict=True)))
    if len(keys) > FEW:
        return [counted(not_base(rows), len(keys), what)]
    several = len({(task, dataset) for task, _, dataset in keys}) > 1
    return [one_comparison(rows, key, what, several) for key in keys]


def one_comparison(rows: pd.DataFrame, key: tuple[str, float, str], what: str, several: bool) -> str:
    task, target, dataset = key
    here = rows[(rows["task"] == task) & (rows["target"] == target) & (rows["dataset"] == dataset)].set_index("way")
    base = base_of(here)
    others = here.drop(index=[m for m in (base, "full") if m in here.index])
    low, high = others["difference_low"], others["difference_high"]
    worse, better = ([told(m, r) for m, r in others[real].iterrows()] for real in (high < 0, low > 0))
    same = [called(m) for m in others.index[(low <= 0) & (high >= 0)]]
    place = (what if dataset == "validation" else f"{what} of {quoted(dataset)}") + (f" ({quoted(task)})" if several else "")
    right = here["value"] * 100
    begin = f"With {100 * target:g} % removed, on the {place} {called(base)} gets {right[base]:.1f} % right"
    begin += f" (full model {right['full']:.1f} %)" if "full" in right.index else ""
    if not worse and not better:
        return f"{begin}, and the methods cannot be told apart: every interval of a difference from {called(base)} holds zero."
    parts = [f"better than {called(base)}: {joined(better)}"] if better else []
    parts += [f"worse: {joined(worse)}"] if worse else []
    parts += [f"not to be told apart from it: {joined(same)}"] if same else []
    return f"{begin}; in points, {'; '.join(parts)}."


def told(method: object, row: pd.Series) -> str:
    low, high = signed(100 * row["difference_low"]), signed(100 * row["difference_high"])
    return f"{called(method)} {signed(100 * row['difference'])} [{low}, {high}]"


def counted(others: pd.DataFrame, total: int, what: str) -> str:
    sets = f"{total} {'challenge sets' if what == 'challenge cases' else 'validation sets'} and sizes"
    by_base: list[str] = []
    for base, mine in others.groupby("base", sort=False):
        parts = []
        for method, part in mine.groupby("way", sort=False):
            worse, better = int((part["difference_high"] < 0).sum()), int((part["difference_low"] > 0).sum())
            parts.append(f"{called(method)} is worse on {worse} and better on {better}")
        by_base.append(f"beside {called(base)}{'' if by_base else ' (intervals that leave out zero)'}: {joined(parts)}")
    if not ((others["difference_high"] < 0) | (others["difference_low"] > 0)).any():
        return f"On {sets}, the methods cannot be told apart: every interval holds zero."
    return f"On {sets}, {'; '.join(by_base)}."
