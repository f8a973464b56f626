"""What heads attend to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.behaviour import mostly
from corewood.evaluate.attention import KINDS as PLACES
from corewood.evaluate.attention import AttentionMap
from corewood.report.html import html_table
from corewood.report.items import chart, says, table
from corewood.report.style import (
    CONFIG,
    GREENS,
    INK,
    LINES,
    MARK,
    PAPER,
    PERCENT,
    Tables,
    coloured,
    in_rows,
    ordered,
    room,
    shaped,
    share_axis,
    tips,
)
from corewood.report.words import joined

SAID = 3  # heads that the first screen speaks of
LONGEST = 14  # letters of a word beside a map
FROM = {  # of kinds of places that many words do not have: those that are counted
    "same word, other sentence": "words that both sentences have",
    "same word, same sentence": "words that stand twice in a sentence",
}
MAPS = 12  # heads whose maps the page shows; the table has all of the core


@table("Attention", "head-table", "What core heads mostly attend to", of="attention")
def head_table(tables: Tables) -> str | None:
    """The kind of place that gets most beyond what an even spread would give it; a head is called spread out when that is
    less than a fifth of its attention beyond an even spread. Each share is over the words that have such a place: of the same
    word in the other sentence, over words that both have. So a head's shares may add up to more than one."""
    scores = tables["attention"]
    table = mostly(scores[scores["core"]] if scores["core"].any() else scores)
    table = table[["unit", "does", "kind", "mean", "low", "high", "uniform"]]
    names = {"unit": "head", "does": "mostly attends to", "kind": "most beyond chance", "mean": "share of its attention"}
    return html_table(table, names)


@chart("Attention", "attention", "Where attention goes", of="attention")
def attention_chart(tables: Tables) -> Any:
    """Every dot is a head, red diamonds are in the core; the tick is what a head gives that attends evenly to all it sees. Each
    share is over the words that have such a place."""
    table = tables["attention"]
    kinds = list(dict.fromkeys(table["kind"]))
    y = ordered(alt.Y, "kind", kinds)
    base = alt.Chart(table[["unit", "kind", "mean", "uniform", "core"]])
    shown = tips(
        "unit:N | attends to = kind:N | share of its attention = mean:Q .1% | by chance = uniform:Q .1% | in the core = core:N"
    )
    x = share_axis(alt.X, "mean", "share of the attention")
    rest = base.transform_filter(~alt.datum.core).mark_circle(size=42, opacity=0.55, color=GREENS[3])
    core = base.transform_filter(alt.datum.core).mark_point(
        shape="diamond", filled=True, size=95, opacity=1, color=MARK, stroke=PAPER, strokeWidth=1.2
    )
    chance = base.mark_tick(color=INK, thickness=2, size=22).encode(x="mean(uniform):Q", y=y)
    heads = [dots.encode(x=x, y=y, tooltip=shown) for dots in (rest, core)]
    return alt.layer(chance, *heads).properties(width=room(kinds), height=alt.Step(28))


@chart(
    "Attention", "attention-over-training", "What core heads attend to, over training", of="attention attention_over_training"
)
def over_training_chart(tables: Tables) -> Any:
    """Core heads that have a kind of place they mostly attend to in the end: how much of their attention went there at each
    checkpoint. Dashed, what a head gives that attends evenly; step 0 is before fine-tuning."""
    every, clear = tables["attention_over_training"], clear_heads(tables["attention"])
    panels = []
    for kind, heads in clear.groupby("kind", sort=False):
        rows = every[(every["kind"] == kind) & every["unit"].isin(heads["unit"])]
        names = list(heads["unit"])
        base = alt.Chart(rows[["unit", "checkpoint", "mean", "low", "high", "uniform"]]).encode(
            x=alt.X("checkpoint:Q", title="fine-tuning step"),
            tooltip=tips(
                "unit:N | step = checkpoint:Q | share = mean:Q .1% | low:Q .1% | high:Q .1% | by chance = uniform:Q .1%"
            ),
        )
        base_y, colour = share_axis(alt.Y, "mean", "share of the attention"), coloured("unit", names, [*LINES, *LINES])
        lines = base.mark_line().encode(y=base_y, color=colour)
        lines += base.mark_point(filled=True, size=45).encode(y=base_y, color=colour, shape=shaped("unit", names))
        chance = base.mark_line(color=INK, strokeDash=[4, 3], strokeWidth=1.2).encode(y="uniform:Q")
        panels.append(
            (chance + lines).properties(
                width=room(across=min(2, clear["kind"].nunique())), height=220, title=f"to {PLACES.get(str(kind), str(kind))}"
            )
        )
    return in_rows(panels).resolve_scale(color="independent", shape="independent") if panels else None


def clear_heads(scores: pd.DataFrame) -> pd.DataFrame:
    """Core heads (all, where there is no core) with a kind of place they mostly attend to, those that do so most first."""
    table = mostly(scores[scores["core"]] if scores["core"].any() else scores)
    table = table[table["does"] != "spread out"]
    return table.iloc[(table["uniform"] - table["mean"]).argsort(kind="stable")]


def attention_map_chart(shown: AttentionMap, layer: int, head: int, between: bool = False) -> Any:
    """The map of any head on any example; for a pair, `between` shows the part that crosses, both ways added.

    Example:
        >>> shown = cw.attention_map(model, "The nun saw the cook.", "The cook saw the nun.")
        >>> chart = cw.attention_map_chart(shown, layer=1, head=3, between=True)  # a notebook shows it
        >>> chart.to_dict()["title"]
        'L1.H3'
    """
    frame = shown.between(layer, head) if between else shown.head(layer, head)
    values = frame.to_numpy()
    query, key = np.indices(values.shape)
    table = pd.DataFrame({"query": query.ravel(), "key": key.ravel(), "value": values.ravel()})
    rows, columns = dict(enumerate(map(str, frame.index))), dict(enumerate(map(str, frame.columns)))
    return heat_map(table, rows, columns, 18).properties(title=f"L{layer}.H{head}").configure(**CONFIG)


def cut(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def heat_map(table: pd.DataFrame, rows: Mapping[int, str], columns: Mapping[int, str], cell: int) -> Any:
    """query, key, value -> a chart with words on both axes. A word may stand twice, and an axis has each name once: marks
    without width tell them apart. Long words are cut here: to cut them, Vega would measure every name several times."""
    looks, seen = ({at: cut(word) + "\u200b" * at for at, word in words.items()} for words in (rows, columns))
    table = table.assign(looks=table["query"].map(looks), at=table["key"].map(seen), value=table["value"].round(3))
    return (
        alt.Chart(table[["looks", "at", "value"]])
        .mark_rect()
        .encode(
            x=ordered(alt.X, "at", seen.values(), axis={"labelFontSize": 9, "labelAngle": -60, "labelLimit": 0}),
            y=ordered(alt.Y, "looks", looks.values(), axis={"labelFontSize": 9, "labelLimit": 0}),
            color=alt.Color(
                "value:Q",
                title="attention",
                scale={"domain": [0, 1], "range": GREENS},
                legend={"format": PERCENT, "orient": "right"},
            ),
            tooltip=tips("from = looks:N | to = at:N | attention = value:Q .0%"),
        )
        .properties(width=alt.Step(cell), height=alt.Step(cell))
    )


@table("Attention", "attention-core", "The core against the rest", of="attention_core")
def core_against_rest_table(tables: Tables) -> str | None:
    """Cliff's delta runs from -1 (every core head lower) to +1 (every core head higher); p by Mann and Whitney's test."""
    names = {"kind": "attends to", "core_heads": "core heads", "rest_heads": "others", "delta": "Cliff's delta"}
    return html_table(tables["attention_core"], names)


@chart("Attention", "maps", "Maps of core heads", of="attention_maps")  # figures 7, 8, 9
def maps_chart(tables: Tables) -> Any:
    """Rows look, columns are looked at; pieces of words are merged. Where a pair shares words, look at the blocks off the
    diagonal."""
    table = tables["attention_maps"]
    units = list(dict.fromkeys(table["unit"]))
    if "attention" in tables:  # those that say most first
        scores = tables["attention"].assign(excess=lambda t: t["mean"] - t["uniform"])
        strength = scores.groupby("unit")["excess"].max()
        units = sorted(units, key=lambda u: -float(strength[u]))
    rows = []
    for _, example in table.groupby("example", sort=True):
        both = (
            pd.concat([example[["query", "query_word"]].set_axis(["at", "word"], axis=1),
                       example[["key", "key_word"]].set_axis(["at", "word"], axis=1)])
            .drop_duplicates("at").sort_values("at")
        )  # fmt: skip
        words = dict(zip(both["at"].astype(int), both["word"].astype(str), strict=True))
        parts = {unit: example[example["unit"] == unit][["query", "key", "value"]] for unit in units[:MAPS]}
        panels = [heat_map(part, words, words, 14).properties(title=unit) for unit, part in parts.items()]
        case = str(example["case"].iloc[0])
        grid = in_rows(panels, 3)
        rows.append(grid.properties(title=f"“{case}”") if case else grid)
    return alt.vconcat(*rows) if rows else None


@says(of="attention", single=True)
def attention_point(tables: Tables) -> list[str]:
    if not tables["attention"]["core"].any():
        return []
    heads = tables["attention"].drop_duplicates("unit")
    does = heads.loc[heads["core"], "does"].value_counts()
    many, spread = int(does.sum()), int(does.get("spread out", 0))
    if spread == many:
        none = "The one core head does not send" if many == 1 else f"None of the {many} core heads sends"
        return [f"{none} a fifth of its attention beyond chance to one kind of place."]
    places = {PLACES.get(str(kind), str(kind)): count for kind, count in does.items() if kind != "spread out"}
    if many == 1:
        return [f"What the one core head attends to most: {joined(places)}."]
    parts = [f"{count} of them {place}" for place, count in places.items()]
    rest = f"; {spread} {'spreads its' if spread == 1 else 'spread their'} attention out" if spread else ""
    return [f"What the {many} core heads attend to most: {', '.join(parts)}{rest}."]


@says(of="attention attention_over_training", single=True)
def over_training_point(tables: Tables) -> list[str]:
    """The head that attends most to each kind of place: whether it did so from the start."""
    every = tables["attention_over_training"]
    first = every["checkpoint"].min()
    then = every[every["checkpoint"] == first].set_index(["unit", "kind"])["mean"]
    when = "before it" if first == 0 else f"at step {first}"
    parts = []
    for _, head in clear_heads(tables["attention"]).drop_duplicates("kind").head(SAID).iterrows():
        place = PLACES.get(str(head["kind"]), str(head["kind"]))
        now, before = (f"{100 * share:.0f} %" for share in (head["mean"], then[head["unit"], head["kind"]]))
        whose = f" (from {FROM[str(head['kind'])]})" if str(head["kind"]) in FROM else ""
        parts.append(f"{head['unit']} sends {now} of its attention{whose} to {place} after fine-tuning, {before} {when}")
    return ["; ".join(parts) + "."] if parts else []
