"""Which units survive, and whether seeds agree on them."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.report.html import FORMATS, HEADINGS, Format, html_table
from corewood.report.items import chart, says, table
from corewood.report.style import (
    DOT,
    GREENS,
    INK,
    LINES,
    PAPER,
    Tables,
    coloured,
    dodged,
    in_rows,
    ordered,
    room,
    rows_of_dots,
    shaped,
    tips,
    unit_places,
)
from corewood.report.ways import IMPORTANCE, MAGNITUDE, first_prune, first_way, own_target, sized, spoken, tasks_of
from corewood.report.words import agreement, between, probability, quoted, two_digits

ALL_TASKS = "all tasks"
WIDE = 442  # of a grid, so that two stand beside each other
ROOM = 31  # pixels a cell needs for two lines of numbers
LIKELY = 0.05  # p below it


@chart("Survivors", "survivors", "Which units survive", of="survivors")  # figures 1 and 6 to 14
def survivors_chart(tables: Tables) -> Any:
    """Left: in what share of seeds a head or MLP survives. Right: what share of its weights does. The mean, and below it
    the standard deviation over seeds."""
    rows = tables["survivors"]
    prune = first_prune(rows)
    shown = set(tables["frequencies"]["way"]) if "frequencies" in tables else set()
    rows = rows[(rows["task"] != ALL_TASKS) & ~rows["way"].isin(shown)]
    rows = rows[(rows["way"] != IMPORTANCE) | (rows["prune"] == prune)]
    panels = []
    for (task, way, target), part in rows.groupby(["task", "way", "target"], sort=False):
        what = "share of weights" if way == MAGNITUDE else "share of seeds"
        panels.append(
            grid(part, f"{quoted(task)}: {spoken(sized(str(way), float(str(target))))}, {what}", scale_of(rows, str(way)))
        )
    return in_rows(panels) if panels else None


def scale_of(rows: pd.DataFrame, method: str) -> tuple[float, float]:
    """Survival is 0 to 1; shares of weights lie close together, and have the colours of where they lie."""
    if method != MAGNITUDE:
        return 0.0, 1.0
    values = rows.loc[rows["way"] == method, "mean"]
    low, high = np.floor(values.min() * 20) / 20, np.ceil(values.max() * 20) / 20
    return (float(low), float(high)) if high > low else (0.0, 1.0)


def chosen(rows: pd.DataFrame, task: str, method: str, prune: str) -> pd.DataFrame:
    mine = (rows["task"] == task) & (rows["way"] == method) & (rows["prune"] == prune)
    found: pd.DataFrame = rows[mine & (rows["target"] == own_target(rows, method))]
    return found


@chart("Survivors", "over-tasks", "Over all tasks", of="survivors")  # figure 15
def over_tasks_chart(tables: Tables) -> Any:
    """In how many tasks a unit survives, mean ± standard deviation over seeds: heads and MLPs pruned together, then each
    alone; and what share of its weights does. Units in strong green are needed whatever the task is."""
    rows = tables["survivors"]
    count = rows.loc[(rows["way"] == IMPORTANCE) & (rows["task"] != ALL_TASKS), "task"].nunique()
    panels = []
    for prune in dict.fromkeys(rows.loc[(rows["way"] == IMPORTANCE) & (rows["task"] == ALL_TASKS), "prune"]):
        units = chosen(rows, ALL_TASKS, IMPORTANCE, str(prune))
        units = units[units["kind"].isin({"heads": ["head"], "mlps": ["mlp"]}.get(str(prune), ["head", "mlp"]))]
        alone = {"heads": " (heads alone)", "mlps": " (MLPs alone)"}.get(str(prune), "")
        panels += [grid(units, f"s-pruning{alone}: in how many tasks", (0, count))] if len(units) else []
    weights = chosen(rows, ALL_TASKS, MAGNITUDE, "weights")
    title = "m-pruning: share of weights, mean over tasks"
    panels += [grid(weights, title, scale_of(rows, MAGNITUDE))] if len(weights) else []
    return in_rows(panels) if panels else None


@chart("Survivors", "survivors-alone", "Heads alone, MLPs alone", of="survivors")  # appendix B
def alone_chart(tables: Tables) -> Any:
    """What survives when only heads, or only MLPs, are pruned: two searches in one grid."""
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
    form = ".1f" if most > 1 else ".0%"
    base = alt.Chart(data).encode(
        **unit_places(columns),
        tooltip=tips(f"layer:O | unit:N | mean:Q {form} | std:Q {form} | seeds:Q"),
    )
    colours = {"domain": [low, most], "range": GREENS}
    legend = {"orient": "bottom", "tickMinStep": 1 if most > 1 else 0.05}
    weights = (rows["way"] == MAGNITUDE).any()
    colour = alt.Fill("mean:Q", title="share of weights", scale=colours, legend=legend)
    if not weights:
        colour = alt.Color("mean:Q", title="tasks" if most > 1 else "share of seeds", scale=colours, legend=legend)
    cells = base.mark_rect(stroke=PAPER).encode(**{"fill" if weights else "color": colour})
    ink = alt.condition(alt.datum.mean > low + 0.55 * (most - low), alt.value(PAPER), alt.value(INK))
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


@table("Stability", "stability", "Do seeds keep the same units?", of="stability")
def stability_table(tables: Tables) -> str | None:
    """Fleiss' kappa is 1 where they do. Chance: random masks of the same sizes, scattered over the model or with as many
    units in each layer; p is the share of them that agree as much. Cochran's Q asks another question: whether seeds keep
    equally many."""
    table = tables["stability"].copy()
    if table.empty:
        return None
    table["kind"] = table["kind"].map({"head": "heads", "mlp": "MLPs"})
    table["prune"] = table["prune"].map({"both": "both", "heads": "heads alone", "mlps": "MLPs alone"})
    table["size"] = [
        f"{low if low == high else f'{low} to {high}'} of {n}".replace(" ", "\u00a0")
        for low, high, n in zip(table["smallest"], table["largest"], table["units"], strict=True)
    ]
    table["way"] = [spoken(sized(w, t)) for w, t in zip(table["way"], table["target"], strict=True)]
    if table["tuning"].nunique() > 1:
        table["over"] = table["over"].where(table["over"] != "searches", "searches, fine-tuning " + table["tuning"].astype(str))
    columns = ["task", "way", "prune", "over", "kind", "masks", "size"]
    columns += ["fleiss", "fleiss_expected", "fleiss_p", "fleiss_expected_layers", "fleiss_p_layers"]
    columns += ["survivors", "survivors_expected", "survivors_p", "survivors_expected_layers", "survivors_p_layers", "q_p"]
    names = {"prune": "pruned", "over": "seeds of", "masks": "seeds", "size": "kept"}
    names |= {"fleiss": "Fleiss' kappa", "survivors": "super-survivors", "q_p": "same sizes? (Cochran's Q, p)"}
    formats: dict[str, Format] = {"fleiss": two_digits}
    for column in columns[8:]:
        what = column.partition("_")[2]
        if what and column != "q_p":
            whose = "kappa" if column.startswith("fleiss") else "survivors"
            names[column] = f"{whose}: {HEADINGS.get(what, what)}"
            formats[column] = two_digits if column.startswith("fleiss_expected") else FORMATS["p"]
    return html_table(table[columns], names, formats)


@chart("Stability", "pairs", "Seeds two by two", of="stability_pairs")
def pairs_chart(tables: Tables) -> Any:
    """A dot is two seeds of a task, of the way and size that is named. Circles share more than random masks of their sizes
    would (Holm's correction over a task's pairs); the tick is what chance gives."""
    rows = of_seeds(first_way(tables["stability_pairs"]))
    panels = []
    which = spoken(sized(str(rows["way"].iloc[0]), float(rows["target"].iloc[0]))) if len(rows) else ""
    for kind, name in (("head", "heads"), ("mlp", "MLPs")):
        part = rows[rows["kind"] == kind]
        panels += [
            pairs_panel(part.dropna(subset=measure), measure, f"{name} ({which}): {title}", tasks_of(tables))
            for measure, title in (("jaccard", "Jaccard index"), ("kappa", "Cohen's kappa"))
            if part[measure].notna().any()
        ]
    return in_rows(panels) if panels else None


def of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row, or one set of pairs, a task: masks of several fine-tunings where there are such, else of several searches."""
    tunings = rows["over"] == "fine-tunings"
    return rows[tunings] if tunings.any() else rows


def pairs_panel(rows: pd.DataFrame, measure: str, title: str, tasks: list[str]) -> Any:
    names = {True: "more than chance (Holm)", False: "could be chance"}
    data = rows[["task", "one", "other", "shared", "shared_expected", measure, f"{measure}_expected", "p_holm"]].round(4)
    data["is"] = rows["real"].map(names)
    y = ordered(alt.Y, "task", tasks)
    low = min(0.0, float(rows[measure].min()))
    x = alt.X(f"{measure}:Q", title=title, scale={"domain": [low, 1]})
    width = room(tasks, 2)
    apart = DOT * (1 - low) / width
    row = data.groupby("task")[measure].transform(lambda v: pd.Series(dodged(v, apart), v.index))
    tooltip = tips(
        "seed = one:N | and seed = other:N | units they share = shared:Q .3g | by chance = shared_expected:Q .3g | "
        f"{measure}:Q .3g | p, corrected = p_holm:Q .3g"
    )
    colour, shape = coloured("is", names.values(), [GREENS[4], LINES[2]]), shaped("is", names.values())
    dots = [
        alt.Chart(part)
        .mark_point(filled=True, size=50, opacity=0.75, yOffset=offset)
        .encode(y=y, x=x, color=colour, shape=shape, tooltip=tooltip)
        for offset, part in rows_of_dots(data, row)
    ]
    chance = data.groupby("task", sort=False)[f"{measure}_expected"].mean().round(4).rename("chance").reset_index()
    ticks = alt.Chart(chance).mark_tick(color=INK, thickness=2, size=14).encode(
        y=y, x="chance:Q", tooltip=tips("task:N | by chance = chance:Q .3f")
    )  # fmt: skip
    return alt.layer(*dots, ticks).properties(width=width, height=max(40, 24 * len(tasks)))


@says(of="stability")
def stability_point(tables: Tables) -> list[str]:
    rows = tables["stability"]
    rows = of_seeds(first_way(rows[rows["kind"] == "head"])).dropna(subset="fleiss")
    if rows.empty:
        return []
    seeds = between(rows["masks"], 0)
    whose = spoken(sized(str(rows["way"].iloc[0]), float(rows["target"].iloc[0])))
    text = (
        f"By {whose}, seeds keep {agreement(float(rows['fleiss'].mean()))} heads: Fleiss' kappa over {seeds} seeds is "
        f"{between(rows['fleiss'])}, where random masks of the same sizes give {between(rows['fleiss_expected'])}"
    )
    if len(rows) == 1:
        row = rows.iloc[0]
        stricter = f"with as many heads in each layer {probability(row['fleiss_p_layers'])}"
        return [f"{text} ({probability(row['fleiss_p'])}; {stricter})."]
    above, layers = (int((rows[c] < LIKELY).sum()) for c in ("fleiss_p", "fleiss_p_layers"))
    return [
        f"{text}. That is more than chance (p < {LIKELY:g}) on {above} of {len(rows)} tasks, and on {layers} beside masks "
        "with as many heads in each layer."
    ]
