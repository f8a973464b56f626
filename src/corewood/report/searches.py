"""How searches and pruning went, and whether they are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.generalisation import NOISE, ONE_ANSWER, RATIO
from corewood.report.html import html_table, nats
from corewood.report.items import chart, says, table
from corewood.report.style import (
    GREENS,
    INK,
    LINES,
    MARK,
    PAPER,
    PERCENT,
    Tables,
    coloured,
    dashed,
    in_rows,
    percent,
    room,
    shaped,
    tips,
)
from corewood.report.ways import ACROSS, IMPORTANCE, MAGNITUDE, SPOKEN, different_masks, first_prune, spoken, tasks_of
from corewood.report.words import joined, names_of, quoted

BINS = {"head": 24, "mlp": 12}
APART = 0.05  # of the shares that get the most frequent answer: less may be the task's
KINDS = {"head": "heads", "mlp": "MLPs"}
CROSS = "M-1,-1L1,1M-1,1L1,-1"


def with_kind(importance: pd.DataFrame) -> pd.DataFrame:
    """The scores that tickets were drawn by, with the kind of each unit."""
    rows = importance[importance["prune"] == first_prune(importance)].dropna(subset="ranked")
    return rows.assign(kind=np.where(rows["unit"].str.endswith("MLP"), "mlp", "head"))


@chart("Searches", "trajectories", "How each search went", of="trajectories sizes")
def trajectories_chart(tables: Tables) -> Any:
    """A colour and a dash for each size; the thin line is the target. Right, the KL of the hard mask of exact size: faint, on a
    few held-out texts during the gradient steps; then, on all of them, for every mask that exchanges led to. The ringed point
    is the mask that was kept; whether searches of one size ended equally well is judged on more texts, below."""
    table = tables["trajectories"].copy()
    table["part"] = table["sparsity"].map(percent)
    sizes = list(dict.fromkeys(table.sort_values("sparsity")["part"]))
    steps = table[table["round"] == 0]
    every = max(1, int(steps["step"].max()) // 40)
    smooth = steps.groupby("subnetwork", sort=False)["kl"].transform(lambda kl: kl.rolling(2 * every + 5, min_periods=1).mean())
    steps = steps.assign(kl=smooth)[(steps["step"] % every == 0) | (steps["step"] == 1)].round(5)
    own = (table["round"] == 0) | (table["target"] == table["sparsity"])  # a path's other sizes have rounds of their own
    looks = table[own & table["held"].notna()]
    ends = looks.groupby("subnetwork", sort=False)[["examples", "step", "part"]].last().reset_index()
    ends["held"] = ends["subnetwork"].map(tables["sizes"].set_index("subnetwork")["held_kl"])

    def lines(part: pd.DataFrame, numbers: list[str], x: str, title: str) -> Any:
        there = ["subnetwork:N", "step:Q", *(named_number(c) for c in numbers)]
        columns = list(dict.fromkeys(["step", "subnetwork", "part", x, *numbers]))
        return alt.Chart(part[columns]).encode(
            x=alt.X(f"{x}:Q", title=title), color=coloured("part", sizes), detail="subnetwork:N", tooltip=there
        )  # fmt: skip

    base = lines(steps, ["target", "expected", "sampled", "closed", "kl", "live", "gap"], "step", "gradient step")
    thin = {"strokeWidth": 1.6, "opacity": 0.85}
    dash = dashed("part", sizes)
    sparsity = base.mark_line(**thin).encode(
        strokeDash=dash, y=alt.Y("expected:Q", title="expected sparsity", axis={"format": PERCENT})
    )
    target = base.mark_line(strokeWidth=0.8, color=INK).encode(y="target:Q", color=alt.value(INK))
    kl = base.mark_line(**thin).encode(
        strokeDash=dash, y=alt.Y("kl:Q", title="KL of soft gates, smoothed", scale={"type": "symlog", "constant": 0.01})
    )

    def held(part: pd.DataFrame, line: dict[str, float] | None, **point: Any) -> list[Any]:
        """Without rows Vega would warn of an axis without ends."""
        base = lines(part, ["held", "examples"], "examples", "examples run").encode(
            y=alt.Y("held:Q", title="KL of the hard mask, held out", scale={"type": "symlog", "constant": 0.01})
        )
        layers = [base.mark_line(**line).encode(strokeDash=dash)] if line else []
        return [*layers, base.mark_point(**point).encode(shape=shaped("part", sizes))] if len(part) else []

    layers = [
        *held(looks[looks["round"] == 0], {"strokeWidth": 1, "opacity": 0.35}, size=14, opacity=0.45),
        *held(looks[looks["round"] > 0], thin, size=22, filled=True, opacity=0.9),
        *held(ends, None, size=90, filled=True, opacity=1, stroke=INK, strokeWidth=1.4),
    ]
    panels = [sparsity + target, kl, alt.layer(*layers)]
    return alt.hconcat(*(p.properties(width=room(across=3, beside=14), height=210) for p in panels))


def named_number(column: str) -> alt.Tooltip:
    """Shares in per cent, KL in nats, counts as they are."""
    shares = {
        "target": "target",
        "expected": "expected sparsity",
        "sampled": "sampled",
        "closed": "closed",
    }
    if column in shares:
        return alt.Tooltip(f"{column}:Q", title=shares[column], format=".1%")
    names = {"kl": "KL of soft gates, smoothed", "held": "KL held out", "gap": "gap"}
    counts = {"examples": "examples run", "live": "gates neither open nor closed"}
    return alt.Tooltip(f"{column}:Q", title={**names, **counts}[column], format=",.0f" if column in counts else ".4f")


@table("Searches", "convergence", "Have they converged?", of="convergence")
def convergence_table(tables: Tables) -> str | None:
    """KL from the full model on all texts that a search did not learn from, over those of one size. Spread between seeds is
    claimed only among comparable ones: those within 1.5 times the lowest KL of their size, or 0.005 nats of it."""
    names = {
        "ended": "ended by themselves", "lowest": "lowest KL", "highest": "highest KL", "ratio": "highest / lowest",
        "rho": "rho of KL and cases", "gap": "widest gap on a case", "gap_comparable": "of comparable ones",
        "gap_best_half": "of the best half",
    }  # fmt: skip
    return html_table(tables["convergence"], names, {"lowest": nats, "highest": nats, "ratio": "{:.1f}".format})


@chart("Pruning", "rounds", "Score against what is left", of="rounds")
def rounds_chart(tables: Tables) -> Any:
    """One line per seed: units for s-pruning, weights for m-pruning. Dashed lines are the thresholds of the seeds; red
    crosses are rounds that fell below and were taken back."""
    rows = tables["rounds"].dropna(subset="score")
    rows = rows[(rows["way"] != IMPORTANCE) | (rows["prune"] == first_prune(tables["rounds"]))]
    if rows.empty:
        return None
    rows = rows.assign(left=left_of(rows), how=rows["way"].map(spoken)).round(4)
    return in_rows([rounds_panel(rows[rows["task"] == t], t) for t in tasks_of(tables) if (rows["task"] == t).any()], ACROSS)


def left_of(rows: pd.DataFrame) -> pd.Series:
    """Share of units, or of weights, that a round's mask keeps."""
    units = rows.reindex(columns=["heads", "mlps"]).sum(axis=1)
    start = units.groupby([rows["task"], rows["way"]]).transform("max")
    share = rows["share"] if "share" in rows else pd.Series(np.nan, index=rows.index)
    return share.where(rows["way"] == MAGNITUDE, units / start.where(start > 0))


def rounds_panel(rows: pd.DataFrame, task: str) -> Any:
    how = [SPOKEN[m] for m in (IMPORTANCE, MAGNITUDE)]
    end = float(np.floor(rows["left"].min() * 10) / 10)
    columns = ["round", "tuning", "how", "left", "score", "floor", "passed", "heads", "mlps", "phase"]
    base = alt.Chart(rows.reindex(columns=columns)).encode(
        x=alt.X("left:Q", title="left", axis={"format": PERCENT}, scale={"domain": [1, min(0.9, end)]}),
        color=coloured("how", how, [LINES[0], LINES[2]]),
        detail="tuning:N",
        tooltip=tips("tuning:N | round:Q | left:Q .1% | score:Q .3f | floor:Q .3f | heads:Q | MLPs = mlps:Q | phase:N"),
    )  # fmt: skip
    y = alt.Y("score:Q", title="score on the search set", scale={"zero": False, "padding": 6})
    went = base.transform_filter(alt.datum.passed)
    lines = went.mark_line(strokeWidth=1.2, opacity=0.7).encode(y=y, order="round:Q")
    dots = went.mark_circle(size=10, opacity=0.7).encode(y=y)
    failed = base.transform_filter(~alt.datum.passed).mark_point(shape=CROSS, size=30, strokeWidth=1.4)
    floors = rows.drop_duplicates(["tuning", "floor"])[["tuning", "floor"]].dropna()
    floor = alt.Chart(floors).mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=0.7, opacity=0.6).encode(y="floor:Q")
    layers = (floor, lines, dots, failed.encode(y=y, color=alt.value(MARK)))
    return alt.layer(*layers).properties(width=room(across=ACROSS), height=170, title=quoted(task))


@chart("Pruning", "importance", "Importance scores at the start", of="importance")  # figure 3
def importance_chart(tables: Tables) -> Any:
    """How many units score how much before anything is removed. A heap near zero is many units that could go with equal
    right, so that chance decides which do."""
    rows = with_kind(tables["importance"])
    rows = rows[rows["round"] == rows["round"].min()]
    return by_task(tables, rows, histogram)


def by_task(tables: Tables, rows: pd.DataFrame, panel: Callable[[pd.DataFrame, str], Any]) -> Any:
    """Heads and MLPs of each task beside each other."""
    panels = []
    for task in tasks_of(tables):
        mine = rows[rows["task"] == task]
        sides = [panel(mine[mine["kind"] == kind], kind) for kind in KINDS if (mine["kind"] == kind).any()]
        if sides:
            panels.append(alt.hconcat(*sides, title=quoted(task)))
    return in_rows(panels) if panels else None


def histogram(rows: pd.DataFrame, kind: str) -> Any:
    """How many units of a model, on average over seeds, score how much."""
    counts, edges = np.histogram(rows["ranked"], BINS[kind], (0.0, float(rows["ranked"].max()) or 1.0))
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "units": counts / rows["tuning"].nunique()}).round(5)
    return (
        alt.Chart(table)
        .mark_bar(color=GREENS[3] if kind == "head" else LINES[3], stroke=PAPER, strokeWidth=0.5)
        .encode(
            x=alt.X("low:Q", title="score", axis={"tickCount": 4}, bin=alt.BinParams(binned=True)),
            x2="high:Q",
            y=alt.Y("units:Q", title=f"{KINDS[kind]}, per seed", axis={"tickCount": 4}),
            tooltip=[alt.Tooltip(f"{c}:Q", format=".3g") for c in ("low", "high", "units")],
        )
        .properties(width=250 if kind == "head" else 130, height=110)
    )


@chart("Pruning", "importance-rounds", "Importance scores over the rounds", of="importance")
def importance_rounds_chart(tables: Tables) -> Any:
    """The line is the median of what is left, the bands hold half and nine tenths of it. Where scores of heads are divided
    by their layer's norm, they rise when a layer has fewer."""
    rows = with_kind(tables["importance"])
    if rows["round"].nunique() < 2:
        return None
    return by_task(tables, rows, bands)


def bands(rows: pd.DataFrame, kind: str) -> Any:
    levels = {"p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
    by = rows.groupby("round")["ranked"]
    table = pd.DataFrame({name: by.quantile(q) for name, q in levels.items()}).assign(units=by.size()).round(5).reset_index()
    colour = GREENS[3] if kind == "head" else LINES[3]
    every = table["round"].tolist()
    ticks = {"values": every[:: 1 + len(every) // 8], "format": "d"}
    x = alt.X("round:Q", title="round", axis=ticks, scale={"nice": False, "zero": False})
    tip = ["round:Q", *(alt.Tooltip(f"{c}:Q", format=".3g") for c in (*levels, "units"))]
    y = alt.Y("p5:Q", title=f"score of {KINDS[kind]}")
    base = alt.Chart(table).encode(x=x, tooltip=tip)
    outer = base.mark_area(color=colour, opacity=0.2).encode(y=y, y2="p95:Q")
    inner = base.mark_area(color=colour, opacity=0.4).encode(y="p25:Q", y2="p75:Q")
    line = base.mark_line(color=INK, strokeWidth=1.5, point=alt.OverlayMarkDef(size=12, color=INK)).encode(y="median:Q")
    return (outer + inner + line).properties(width=190, height=110)


def unfinished(tables: Tables) -> str:
    """What a reader must know first: that searches did not end by themselves, or those of one size not equally well."""
    if "convergence" not in tables:
        return ""
    rows = tables["convergence"]
    said = ""
    if cut := sizes_of(rows[rows["ended"] < rows["searches"]]):
        said += f"Not all searches have converged (at {cut} removed): more search may change what follows. "
    if uneven := sizes_of(rows[rows["comparable"] < rows["searches"]]):
        said += f"Searches did not end equally well (at {uneven} removed): seeds are compared with each other only among "
        said += f"those within {RATIO:g} times the lowest KL. "
    return said + failed(tables)


def failed(tables: Tables) -> str:
    """Searches whose subnetwork gives one answer to everything, where the full model does not by far."""
    sizes = tables.get("sizes", pd.DataFrame())
    if "answer_share" not in sizes:
        return ""
    models = ["task", "tuning"]
    full = sizes[sizes["way"] == "full"].sort_values("checkpoint").groupby(models, as_index=False)["answer_share"].last()
    rows = sizes[(sizes["way"] == "l0") & (sizes["question"] == "prune")].merge(full, on=models, suffixes=("", "_full"))
    rows = rows[(rows["answer_share"] > ONE_ANSWER) & (rows["answer_share_full"] < rows["answer_share"] - APART)]
    if rows.empty:
        return ""
    several = [name for name in models if sizes[name].nunique() > 1]
    facts = [joined([f"seed {row[n]}" if n == "tuning" else quoted(row[n]) for n in several]) for _, row in rows.iterrows()]
    first = rows["subnetwork"].iloc[0] + (f" ({facts[0]})" if several else "")
    begin = f"The search {first} has failed: its subnetwork gives"
    if len(rows) > 1:
        begin = f"{len(rows)} searches have failed, {first} first: their subnetworks give"
    return f"{begin} one answer to everything; another seed, or with steps: auto more starts, may do better. "


def sizes_of(rows: pd.DataFrame) -> str:
    """50 % and 75 %"""
    return joined(f"{100 * t:g} %" for t in sorted(set(rows["target"])))


def convergence_points(tables: Tables) -> tuple[list[str], list[str]]:
    """(where searches are not done, where they are): how those of each size ended, and whether their spread goes with that."""
    doubts: list[str] = []
    calm: list[str] = []
    for _, row in tables["convergence"].iterrows() if "convergence" in tables else ():
        if row["searches"] < 2:
            continue
        low, high = (f"{row[end]:.2g}" for end in ("lowest", "highest"))
        text = (
            f"With {100 * row['target']:g} % removed, {row['comparable']:.0f} of {row['searches']:.0f} searches ended within "
            f"{RATIO:g} times the lowest KL from the full model on texts they did not learn from (or {NOISE:g} nats of it); "
            f"{f'it is {low}' if low == high else f'it runs from {low} to {high}'}."
        )
        done = row["comparable"] == row["ended"] == row["searches"]
        left = row["searches"] - row["comparable"]
        if left:
            who, are = ("The other", "is") if left == 1 else ("The others", "are")
            text += f" {who} ended further from the full model, and {are} not compared with other seeds."
        if row["ended"] < row["searches"]:
            ended = f"Only {row['ended']:.0f}" if row["ended"] else "None"
            itself = "themselves" if row["ended"] > 1 else "itself"
            text += f" {ended} ended by {itself}: more search may lower it, and steps: auto goes on until nothing does."
        if pd.notna(row["rho"]) and row["searches"] > 4:  # of fewer, a rank correlation says nothing
            text += f" Spearman's rho of KL and accuracy on the cases is {row['rho']:+.2f}".replace("-", "\u2212")
            text += f" (p = {row['p']:.2g})"
            if pd.notna(row["gap_best_half"]):
                best = f"{100 * row['gap_best_half']:.0f} of the {100 * row['gap']:.0f} points"
                text += f"; the best half by KL still has {best} of the widest gap on a case"
            text += "."
        (calm if done else doubts).append(text)
    return doubts, calm


@says(of="masks convergence", single=True)
def same_masks(tables: Tables) -> list[str]:
    """Searches with different seeds that ended at one mask."""
    said, masks = [], tables["masks"]
    for _, row in tables["convergence"].iterrows():
        mine = masks[(masks["question"] == "prune") & (masks["way"] == row["way"]) & (masks["target"] == row["target"])]
        names = mine["subnetwork"].unique()
        found = different_masks(tables, names)
        if found < len(names):
            ended = "one and the same subnetwork" if found == 1 else f"{found} different subnetworks"
            said.append(f"With {100 * row['target']:g} % removed, {len(names)} searches with different seeds ended at {ended}.")
    return said


def stopped(tables: Tables) -> list[str]:
    """Searches of m-pruning that no threshold ended."""
    if "rounds" not in tables:
        return []
    rows = tables["rounds"]
    last = rows[rows["way"] == MAGNITUDE].dropna(subset="floor").sort_values("round").groupby(["task", "tuning"]).tail(1)
    free = last[last["passed"].astype(bool)]
    if free.empty:
        return []
    tasks = names_of(list(dict.fromkeys(free["task"])))
    return [
        f"m-pruning never fell below its threshold in {len(free)} of {len(last)} searches ({tasks}), which most_rounds ended"
    ]


@says(of="convergence", single=True, sure=True)
def calm_points(tables: Tables) -> list[str]:
    """Where all searches are done: what is not stands at the top of the page."""
    return convergence_points(tables)[1]
