"""Good, random and bad subnetworks, as pruned and retrained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.tickets import KEYS
from corewood.report.html import html_table, share
from corewood.report.items import chart, says, table
from corewood.report.scores import METRICS, form_of, lowest_shown
from corewood.report.searches import stopped
from corewood.report.style import GREENS, INK, MARK, PALE, PERCENT, Tables, coloured, in_rows, ordered, room, shaped, tips
from corewood.report.survivors import of_seeds
from corewood.report.ways import (
    ACROSS,
    IMPORTANCE,
    L0,
    MAGNITUDE,
    SPOKEN,
    SUPER,
    UNTRAINED,
    first_prune,
    own_target,
    short,
    sized,
    spoken,
    tasks_of,
)
from corewood.report.words import between, count, joined, names_of, plus_minus, quoted, signed

TICKETS, STATES = ("good", "random", "bad"), ("pruned", "retrained")
MODES = {"both": "s: heads and MLPs", "heads": "s: heads alone", "mlps": "s: MLPs alone", "weights": "m: weights"}
OF_STATE = {"pruned": GREENS[2], "retrained": GREENS[4]}
AVERAGE = "average"
MISSING = "a task is missing"
NOTED = "†"
ALONE = {"both": "s-pruning, both", "heads": "s-pruning, heads alone", "mlps": "s-pruning, MLPs alone"}


def of_tickets(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the tickets themselves: not of other modes, not of longer retraining, not of ways that nothing was drawn from.

    A way that was asked for a size is called by both.
    """
    found = table[(table["way"] != IMPORTANCE) | (table["prune"] == first_prune(table))]
    found = found[(found["epochs"] == 0) if "epochs" in found else np.ones(len(found), bool)]
    found = found.assign(way=[sized(way, target) for way, target in zip(found["way"], found["target"], strict=True)])
    drawn = set(found.loc[found["ticket"].isin(TICKETS[1:]), "way"])
    alone = found["way"].isin(["full", "majority", IMPORTANCE, MAGNITUDE, SUPER, UNTRAINED])
    named_by_size = found["way"].isin(drawn) & found["way"].str.startswith((L0, IMPORTANCE, MAGNITUDE))
    made: pd.DataFrame = found[alone | named_by_size]
    return made


def pruning_ways(tables: Tables) -> list[str]:
    """The ways that good tickets come from."""
    if "tickets" not in tables:
        return []
    rows = of_tickets(tables["tickets"])
    there = [way for way in dict.fromkeys(rows["way"]) if way.startswith((L0, IMPORTANCE, MAGNITUDE))]
    return sorted(there, key=lambda way: [IMPORTANCE, MAGNITUDE, L0].index(way.split()[0]))


@chart("Tickets", "tickets", "Good, random and bad subnetworks", of="tickets")  # figure 2
def tickets_chart(tables: Tables) -> Any:
    """Bars are means over seeds, thin lines one standard deviation, dots single seeds; s is importance pruning of heads and
    MLPs, m magnitude pruning of weights. The line in its grey band is the full model ± one standard deviation, the
    dashed one the majority class: bars of retrained ones that reach the band are winning tickets."""
    return ticket_panels(tables, pruning_ways(tables))


@chart("Tickets", "super-survivors", "Super-survivors alone", of="tickets")  # figure 17
def super_survivors_chart(tables: Tables) -> Any:
    """The same for the units that survive with every seed, for as many that survive least (bad), and for as many of the
    others (random). Where all three retrain alike, what survives is not what the task needs."""
    return ticket_panels(tables, [SUPER])


def ticket_panels(tables: Tables, ways: list[str]) -> Any:
    rows = of_tickets(tables["tickets"])
    if not rows["way"].isin(ways).any():
        return None
    scores = of_tickets(tables["scores"])
    scores = scores[(scores["domain"] == "in-domain") & (scores["question"] != "effective_size")]
    panels = [ticket_panel(rows[rows["task"] == t], scores[scores["task"] == t], ways) for t in tasks_of(tables)]
    return in_rows([p for p in panels if p is not None], ACROSS if len(ways) > 1 else 4)


def ticket_panel(summary: pd.DataFrame, scores: pd.DataFrame, ways: list[str]) -> Any:
    """One task."""
    drawn = summary[summary["way"].isin(ways)]
    if drawn.empty:
        return None
    drawn = named(drawn).assign(low=drawn["mean"] - drawn["std"], high=drawn["mean"] + drawn["std"]).round(4)
    single = named(scores[scores["way"].isin(ways)])
    single = single.groupby(["which", "state", "tuning", "seed"], sort=False)["value"].mean().round(4).reset_index().dropna()
    order = [short(w) + t for w in ways for t in TICKETS if short(w) + t in set(drawn["which"])]
    bottom = lowest_shown(pd.concat([drawn["low"], drawn["mean"], single["value"], summary["mean"]]))
    metric = str(summary["metric"].iloc[0])
    form = form_of(metric)
    y = alt.Y("mean:Q", title=METRICS.get(metric, metric), scale={"domain": [bottom, 1]})
    place = {
        "x": ordered(alt.X, "which", order, axis={"labelAngle": -35}),
        "xOffset": alt.XOffset("state:N", scale={"domain": list(STATES)}),
    }
    columns = ["which", "state", "mean", "std", "low", "high", "seeds", "undefined"]
    data = drawn[columns].dropna(subset="mean")
    bars = alt.Chart(data).mark_bar(opacity=0.85).encode(
        y=y,
        color=coloured("state", OF_STATE, list(OF_STATE.values())),
        tooltip=tips(f"ticket = which:N | state:N | mean:Q {form} | std:Q {form} | seeds:Q | undefined:Q"),
        **place,
    )  # fmt: skip
    spread = alt.Chart(data.dropna(subset="std")).mark_rule(color=INK, strokeWidth=1.3).encode(y="low:Q", y2="high:Q", **place)
    dots = alt.Chart(single).mark_circle(size=9, color=INK, opacity=0.55).encode(
        y="value:Q", tooltip=tips(f"ticket = which:N | state:N | fine-tuning = tuning:N | score = value:Q {form}"), **place
    )  # fmt: skip
    title = alt.Title(quoted(summary["task"].iloc[0]), subtitle=stays(drawn, ways), subtitleColor=INK)
    layers = [*full_and_majority(summary), bars, spread, dots]
    return alt.layer(*layers).properties(width=max(165, 42 * len(order)), height=170, title=title)


def named(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(which=rows["way"].map(short) + rows["ticket"])


def full_and_majority(summary: pd.DataFrame) -> list[Any]:
    """The full model as a line in a band, the majority class as a dashed line; what is unknown is left out."""
    layers: list[Any] = []
    form = form_of(str(summary["metric"].iloc[0]))
    full = summary[summary["way"] == "full"].dropna(subset="mean")
    if len(full):
        mean, std = float(full["mean"].iloc[0]), float(full["std"].iloc[0])
        spread = 0.0 if np.isnan(std) else std
        data = pd.DataFrame([{"mean": mean, "low": mean - spread, "high": mean + spread}]).round(4)
        tip = [alt.Tooltip(f"{c}:Q", title=t, format=form) for c, t in (("mean", "full model"), ("low", "less one std"))]
        layers.append(alt.Chart(data).mark_rect(color=PALE, opacity=0.9).encode(y="low:Q", y2="high:Q", tooltip=tip))
        layers.append(alt.Chart(data).mark_rule(color=INK, strokeWidth=1.5).encode(y="mean:Q", tooltip=tip))
    majority = summary[summary["way"] == "majority"].dropna(subset="mean")[["mean"]].round(4)
    if len(majority):
        tip = tips(f"majority class = mean:Q {form}")
        layers.append(alt.Chart(majority).mark_rule(color=MARK, strokeDash=[5, 4]).encode(y="mean:Q", tooltip=tip))
    return layers


def stays(drawn: pd.DataFrame, ways: list[str]) -> str:
    """How much of the encoder's weights the good tickets keep."""
    parts = []
    for way in ways if "encoder_share" in drawn else ():
        good = drawn[(drawn["way"] == way) & (drawn["ticket"] == "good")].dropna(subset="encoder_share")
        if len(good):
            text = plus_minus(good["encoder_share"].iloc[0], good["encoder_share_std"].iloc[0], 100, 0)
            parts.append(f"{short(way)}{text} %")
    return f"weights that stay: {', '.join(parts)}" if parts else ""


def totals(tables: Tables) -> dict[str, float]:
    """How many heads, MLPs and weights the full model has, where the tables say so."""
    found = {"head": np.nan, "mlp": np.nan, "weights": np.nan}
    if "survivors" in tables:
        units = tables["survivors"].drop_duplicates(["kind", "layer", "index"])
        found |= {kind: float((units["kind"] == kind).sum()) for kind in ("head", "mlp")}
    if "rounds" in tables and "weights" in tables["rounds"]:
        found["weights"] = float(tables["rounds"]["weights"].max())
    return found


@table("Tickets", "scores-table", "All tickets in numbers", of="tickets")  # table 3
def scores_table(tables: Tables) -> str | None:
    """Mean ± standard deviation over seeds, in each task's own metric. A star: reaches the full model less one standard
    deviation. A dagger: see the remarks below."""
    return wide(tables, table_rows(tables["tickets"]))


def table_rows(summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Row of the paper's table 3 -> its lines of the summary, one per task."""
    own = of_tickets(summary)
    found = {"majority class": own[own["way"] == "majority"], "full model": own[own["way"] == "full"]}
    pruned = [way for way in dict.fromkeys(own["way"]) if way.split()[0] in (IMPORTANCE, MAGNITUDE, L0)]
    for method in [
        *(w for w in pruned if w.startswith(IMPORTANCE)),
        SUPER,
        *(w for w in pruned if not w.startswith(IMPORTANCE)),
    ]:
        mine = own[own["way"] == method]
        for ticket in TICKETS:
            for state in STATES:
                rows = mine[(mine["ticket"] == ticket) & (mine["state"] == state)]
                found[f"{spoken(method)}: {ticket}, {state}"] = rows
        if method == IMPORTANCE:
            others = summary[(summary["way"] == method) & (summary["prune"] != first_prune(summary)) & (summary["target"] == 0)]
            found |= {f"{ALONE.get(str(p), str(p))}: good, pruned": rows for p, rows in others.groupby("prune", sort=False)}
    found["untrained model: random, trained"] = own[own["way"] == UNTRAINED]
    return {name: rows for name, rows in found.items() if len(rows)}


def cell(row: pd.Series, noted: bool) -> str:
    """0.51 ± 0.04, with a star where it reaches the full model, and what must be known about it."""
    dagger = NOTED if noted else ""
    if pd.isna(row["mean"]):
        return f"undefined{dagger}" if row["undefined"] else "–"
    text = plus_minus(row["mean"], row["std"]).replace(" ", "\u00a0")
    star = "*" if row["as_full"] and row["way"] not in ("full", "majority") else ""
    missing = f" ({row['seeds']} of {row['seeds'] + row['undefined']} seeds)" if row["undefined"] else ""
    return text + star + dagger + missing


def notes_of(tables: Tables) -> pd.DataFrame:
    """Scores of the report sets that came with a remark."""
    scores = tables["scores"]
    inside = (scores["domain"] == "in-domain") & (scores["question"] != "effective_size")
    found: pd.DataFrame = scores[inside & scores["note"].fillna("").ne("")]
    return found


def wide(tables: Tables, rows: Mapping[str, pd.DataFrame], average: bool = False) -> str | None:
    """Rows by tasks; the average is over tasks, and only where none is missing."""
    if not rows:
        return None
    tasks = tasks_of(tables)
    noted = set(notes_of(tables)[KEYS].itertuples(index=False, name=None))
    lines = []
    for name, part in rows.items():
        line: dict[str, Any] = {"": name}
        means = part.set_index("task")["mean"].reindex(tasks)
        cells = {r["task"]: cell(r, tuple(r[KEYS]) in noted) for _, r in part.iterrows()}
        line |= {task: cells.get(task, "–") for task in tasks}
        if average and len(tasks) > 1:
            line[AVERAGE] = MISSING if means.isna().any() else f"{means.mean():.3f}".replace("-", "\u2212")
        lines.append(line)
    return html_table(pd.DataFrame(lines))


@table("Tickets", "bad-table", "How bad are bad ones?", of="tickets")  # table 2
def bad_table(tables: Tables) -> str | None:
    """Bad subnetworks after retraining beside a model that knows nothing and one that was never pretrained. The average is
    over tasks, each counting the same, and only given where no task is missing."""
    every = table_rows(tables["tickets"])
    names = {
        "majority class": "majority class",
        "s-pruning: bad, retrained": "bad by s-pruning, retrained",
        "m-pruning: bad, retrained": "bad by m-pruning, retrained",
        "untrained model: random, trained": "untrained model under a random mask, trained",
    }
    rows = {names[name]: every[name] for name in names if name in every}
    return wide(tables, rows, average=True) if len(rows) > 1 else None


@table("Tickets", "longer-table", "Bad ones, retrained for longer", of="tickets")  # appendix D
def longer_table(tables: Tables) -> str | None:
    """If these rows rise, bad subnetworks only learn more slowly; if not, they lack something."""
    summary = tables["tickets"]
    bad = summary[(summary["way"] == IMPORTANCE) & (summary["ticket"] == "bad") & (summary["state"] == "retrained")]
    if not (bad["epochs"] > 0).any():
        return None
    rows = {
        "as long as fine-tuning" if epochs == 0 else f"{epochs:g} epochs": part
        for epochs, part in bad.groupby("epochs")  # sorted: the study's own first
    }
    return wide(tables, rows, average=True)


@table("Tickets", "in-good", "How much of bad is good", of="sizes")
def in_good_table(tables: Tables) -> str | None:
    """Where pruning keeps more than half, bad subnetworks must be filled up from the good one. Random ones share what
    chance gives; the less a bad one shares, the fairer the comparison. Counterparts of super-survivors are drawn from the
    other units, as far as they go."""
    rows = tables["sizes"]
    rows = of_tickets(rows[rows["way"] != "full"])
    rows = rows[rows["ticket"] != "good"].copy()
    if rows.empty:
        return None
    total = totals(tables)
    wanted = ["heads", "mlps", "weights", "heads_in_good", "mlps_in_good"]
    rows = rows.reindex(columns=[*rows.columns, *(c for c in wanted if c not in rows)])
    heads, mlps = rows["heads"] / total["head"], rows["mlps"] / total["mlp"]  # chance that a unit is in the good one
    count = (rows["heads"] + rows["mlps"]).where(lambda n: n > 0)
    units = (rows["heads"] * heads + rows["mlps"] * mlps) / count
    rows["heads_chance"] = heads.where(rows["heads_in_good"].notna())
    rows["mlps_chance"] = mlps.where(rows["mlps_in_good"].notna())
    chance = units.where(~rows["way"].str.startswith(MAGNITUDE), rows["weights"] / total["weights"])
    rows["chance"] = chance.where(rows["in_good"].notna())
    chances = ["heads_chance", "mlps_chance", "chance"]
    rows.loc[rows["way"] == SUPER, chances] = np.nan  # their counterparts are drawn from the other units
    fields = ["heads_in_good", "heads_chance", "mlps_in_good", "mlps_chance", "in_good", "chance"]
    table = rows.groupby(["task", "way", "ticket"], sort=False)[fields].mean().reset_index()
    table["way"] = table["way"].map(spoken)
    names = {
        "heads_in_good": "its heads in good", "heads_chance": "by chance", "mlps_in_good": "its MLPs in good",
        "mlps_chance": "by chance", "in_good": "all of it in good", "chance": "by chance",
    }  # fmt: skip
    return html_table(table, names, dict.fromkeys(fields, share))


@table("Tickets", "notes", "Remarks on scores", of="scores")
def notes_table(tables: Tables) -> str | None:
    """Scores that are no numbers, or that stand for something else; how many there are, and whose."""
    rows = notes_of(tables)
    if rows.empty:
        return None
    rows = rows.assign(
        who=rows["way"].map(spoken).where(rows["way"] != "full", "full model")
        + (": " + rows["ticket"] + " " + rows["state"]).where(rows["way"].isin(list(SPOKEN)), ""),
        which=rows["prune"].map({"heads": "heads alone", "mlps": "MLPs alone"}).fillna(""),
    )
    grouped = rows.groupby(["task", "note", "who", "which"], sort=False)
    table = grouped.agg(scores=("note", "size"), value=("value", "first")).reset_index()
    lines = []
    for (task, note), part in table.groupby(["task", "note"], sort=False):
        whom = [f"{w}{' (' + a + ')' if a else ''}" for w, a in zip(part["who"], part["which"], strict=True)]
        counts = [f"{name} × {n}" if n > 1 else name for name, n in zip(whom, part["scores"], strict=True)]
        lines.append({"task": task, "what": note, "scores": part["scores"].sum(), "whose": "; ".join(counts)})
    return html_table(pd.DataFrame(lines))


@chart("Tickets", "stays", "How much stays", of="sizes")  # appendix B
def stays_chart(tables: Tables) -> Any:
    """Mean ± standard deviation over seeds. Heads and MLPs pruned together are fewer in weights than either pruned alone if
    the two can stand in for each other."""
    rows = tables["sizes"]
    rows = rows[(rows["target"] == 0) & (rows["ticket"] == "good") & rows["way"].isin([IMPORTANCE, MAGNITUDE])]
    if rows.empty:
        return None
    total = totals(tables)
    rows = rows.assign(mode=rows["prune"].map(MODES))
    rows["head_share"] = rows["heads"] / total["head"] if "heads" in rows else np.nan
    rows["mlp_share"] = rows["mlps"] / total["mlp"] if "mlps" in rows else np.nan
    titles = {"head_share": "heads that stay", "mlp_share": "MLPs that stay", "encoder_share": "encoder weights that stay"}
    shown = {field: title for field, title in titles.items() if rows[field].notna().any()}
    modes = [m for m in MODES.values() if m in set(rows["mode"])]
    return alt.hconcat(*(stays_panel(rows, field, shown[field], modes, i == 0) for i, field in enumerate(shown)))


def stays_panel(rows: pd.DataFrame, field: str, title: str, modes: list[str], names: bool) -> Any:
    grouped = rows.dropna(subset=field).groupby(["task", "mode"], sort=False)[field]
    table = grouped.agg(mean="mean", std="std", seeds="count").reset_index()
    table["low"], table["high"] = (table["mean"] - table["std"]).clip(0, 1), (table["mean"] + table["std"]).clip(0, 1)
    tasks = list(dict.fromkeys(rows["task"]))
    base = alt.Chart(table.round(4)).encode(
        y=ordered(alt.Y, "task", tasks, axis={"labels": names, "ticks": names}),
        yOffset=alt.YOffset("mode:N", scale={"domain": modes}),
        color=coloured("mode", modes),
        shape=shaped("mode", modes),
        tooltip=tips("task:N | pruned = mode:N | mean:Q .1% | std:Q .1% | seeds:Q"),
    )
    dots = base.mark_point(filled=True, size=48, opacity=1).encode(
        x=alt.X("mean:Q", title=title, axis={"format": PERCENT, "tickCount": 5}, scale={"domain": [0, 1]})
    )
    spread = base.transform_filter("isValid(datum.std)").mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    return (spread + dots).properties(width=room(tasks, 3), height=max(60, len(tasks) * (8 + 9 * len(modes))))


def tickets_of(tables: Tables, method: str, ticket: str, state: str) -> pd.DataFrame:
    """(task) -> summary, where there is a score."""
    rows = of_tickets(tables["tickets"])
    rows = rows[(rows["way"] == method) & (rows["ticket"] == ticket) & (rows["state"] == state)]
    return rows.dropna(subset="mean").set_index("task")


def retrained(tables: Tables, method: str) -> tuple[pd.DataFrame, list[str]]:
    """(task) -> good ones, retrained, where pruning removed anything; and the tasks where it did not.

    Without tasks that the full model itself has not learnt: as good as that is no praise.
    """
    good = tickets_of(tables, method, "good", "retrained").drop(index=unlearnt(tables), errors="ignore")
    whole = good.get("encoder_share", pd.Series(np.nan, index=good.index)) > 1 - 1e-9
    return good[~whole], list(good.index[whole])


def headline(tables: Tables, model: str) -> str | None:
    if "tickets" not in tables:
        return None
    parts = []
    for method in pruning_ways(tables):
        good, _ = retrained(tables, method)
        if len(good):
            parts.append((int(good["as_full"].sum()), len(good), spoken(method)))
    if not parts:
        unknown = f"Subnetworks of {model}: none was retrained, so whether there are winning tickets is not known."
        return unknown if "ways" not in tables and "spread" not in tables else None
    if all(n == 1 for _, n, _ in parts):
        yes, no = ([name for won, _, name in parts if won == hit] for hit in (1, 0))
        if not no:
            return (
                f"Good subnetworks of {model} can be retrained to the full model's score: {joined(yes)} found winning tickets."
            )
        if not yes:
            return f"Good subnetworks of {model} stay below the full model when they are retrained: no winning tickets."
        return f"Good subnetworks of {model} retrain to the full model's score by {joined(yes)}, but not by {joined(no)}."
    told = joined(f"{won} of {n} tasks by {name}" for won, n, name in parts)
    return f"Good subnetworks of {model} retrain to the full model's score on {told}."


@says(of="tickets")
def winning_point(tables: Tables) -> list[str]:
    """Which tasks, and by how much where there is one."""
    parts, left_out = [], []
    for method in pruning_ways(tables):
        good, whole = retrained(tables, method)
        if whole:
            left_out.append(f"{spoken(method)} removed nothing on {names_of(whole)}")
        if good.empty:
            continue
        name = spoken(method)
        if len(good) == 1:
            row = good.iloc[0]
            verb = "reach" if row["as_full"] else "stay below"
            parts.append(f"{name}'s {verb} it ({plus_minus(row['mean'], row['std'], 1, 3)}; full model {row['beside']:.3f})")
            continue
        lost = list(good.index[~good["as_full"]])
        rest = "on all tasks" if not lost else "on no task" if len(lost) == len(good) else f"on all but {names_of(lost)}"
        gap = (good["mean"] - good["beside"]).mean()
        parts.append(f"{name}'s reach it {rest} (on average {signed(100 * gap)} beside the full model)")
    if not parts:
        return []
    but = f" ({joined(left_out)}, which says nothing.)" if left_out else ""
    full = of_tickets(tables["tickets"])
    spread = full.loc[full["way"] == "full", "std"].notna().any()
    bar = "the full model's mean less one standard deviation" if spread else "the full model's score (one seed has no spread)"
    return [
        f"Retrained from the pretrained weights, good subnetworks should reach {bar}: {'; '.join(parts)}.{but} "
        "(S-pruning removes heads and MLPs by importance, m-pruning single weights by magnitude.)"
    ]


@says(of="tickets")
def behind_point(tables: Tables) -> list[str]:
    """How far random and bad ones are from good ones."""
    told = []
    for method in pruning_ways(tables):
        parts, most = [], 0
        for state in STATES:
            good = tickets_of(tables, method, "good", state)["mean"]
            gaps = []
            for ticket in ("random", "bad"):
                gap = (tickets_of(tables, method, ticket, state)["mean"] - good).dropna()
                most = max(most, len(gap))
                gaps += [f"{ticket} ones are at {signed(100 * gap.mean())}"] if len(gap) else []
            if gaps:
                parts.append(f"{'as pruned' if state == 'pruned' else state}, {joined(gaps)}")
        if parts:
            over = f", averaged over {most} tasks" if most > 1 else ""
            told.append(f"Beside the good ones of {spoken(method)}, in hundredths of the metric{over}: {'; '.join(parts)}.")
    return told


@says(of="tickets")
def kept_point(tables: Tables) -> list[str]:
    parts = []
    for method in pruning_ways(tables):
        good = tickets_of(tables, method, "good", "pruned")
        if "encoder_share" in good and good["encoder_share"].notna().any():
            kept = good["encoder_share"]
            mean = f" (mean {100 * kept.mean():.0f} %)" if len(kept) > 1 else ""
            parts.append(f"{between(kept, 0, 100, ' %')}{mean} by {spoken(method)}")
    return [f"Of the encoder's weights, good subnetworks keep {joined(parts)}."] if parts else []


@says(of="tickets")
def learnt_point(tables: Tables) -> list[str]:
    """A share of the score flatters where the majority class has most of it already."""
    rows = tables["tickets"]
    full, majority = (rows[rows["way"] == name].set_index("task")["mean"] for name in ("full", "majority"))
    learnt = (full - majority).drop(index=unlearnt(tables))
    parts = []
    for method in pruning_ways(tables):
        shares = (tickets_of(tables, method, "good", "pruned")["mean"] - majority) / learnt
        if shares.notna().any():
            parts.append(f"{between(shares, 0, 100, ' %')} by {spoken(method)}")
    return [f"Of what the full model has above the majority class, good ones as pruned keep {joined(parts)}."] if parts else []


@says(of="tickets")
def super_point(tables: Tables) -> list[str]:
    good = tickets_of(tables, SUPER, "good", "retrained")
    if good.empty or "stability" not in tables:
        return []
    rows = tables["stability"]
    own = (rows["prune"] == first_prune(rows)) & (rows["target"] == own_target(rows))
    rows = of_seeds(rows[(rows["way"] == IMPORTANCE) & own & rows["task"].isin(good.index)])
    kinds = [(name, rows[rows["kind"] == kind]) for kind, name in (("head", "heads"), ("mlp", "MLPs"))]
    counts = [
        f"{between(part['survivors'], 0)} {name} (by chance {between(part['survivors_expected'], 1)})"
        for name, part in kinds
        if len(part)
    ]
    parts = [joined(counts)] if counts else []
    if "encoder_share" in good and good["encoder_share"].notna().any():
        parts.append(f"{between(good['encoder_share'], 0, 100, ' %')} of the encoder's weights")
    text = "Super-survivors are kept with every seed"
    text = f"Super-survivors, kept with every seed, are {', '.join(parts)}" if parts else text
    if len(good) == 1:
        row = good.iloc[0]
        text += f"; retrained alone they score {plus_minus(row['mean'], row['std'], 1, 3)} (full model {row['beside']:.3f})"
    else:
        gap = 100 * (good["mean"] - good["beside"]).mean()
        text += f"; retrained alone they reach the full model on {int(good['as_full'].sum())} of {len(good)} tasks"
        text += f" (on average {signed(gap)} beside it)"
    bad = (tickets_of(tables, SUPER, "bad", "retrained")["mean"] - good["mean"]).dropna()
    return [text + (f", and bad ones of their number are at {signed(100 * bad.mean())} beside them." if len(bad) else ".")]


@says(of="tickets")
def odd_point(tables: Tables) -> list[str]:
    """What a reader should not overlook."""
    parts = [*extremes(tables), *beaten(tables)]
    summary = tables["tickets"]
    undefined = int(summary.loc[summary["way"] != "majority", "undefined"].sum())
    parts += [f"{count(undefined, 'score')} undefined and in no mean"] if undefined else []
    notes = notes_of(tables)
    notes = notes[(notes["way"] != "majority") & notes["value"].notna()]
    for note, part in notes.groupby("note", sort=False):
        parts.append(f"{count(len(part), 'score')} with the remark “{note}”")
    return [f"To be read with care: {'; '.join(parts)}."] if parts else []


def extremes(tables: Tables) -> list[str]:
    """Searches that removed everything, or nothing."""
    if "sizes" not in tables:
        return []
    rows = tables["sizes"]
    rows = rows[(rows["target"] == 0) & (rows["ticket"] == "good")].reindex(
        columns=["task", "way", "heads", "mlps", "weights", "units_share", "encoder_share"]
    )
    parts = []
    for method in pruning_ways(tables):
        mine = rows[rows["way"] == method]
        if mine.empty:
            continue
        gone = mine["weights"] == 0 if method == MAGNITUDE else mine["heads"] + mine["mlps"] == 0
        for hit, what in ((gone, "removed everything"), (mine["encoder_share"] > 1 - 1e-9, "removed nothing")):
            if hit.any():
                tasks = names_of(list(dict.fromkeys(mine.loc[hit, "task"])))
                parts.append(f"{spoken(method)} {what} in {int(hit.sum())} of {len(mine)} searches ({tasks})")
    parts += stopped(tables)
    alive = rows[rows["way"] == SUPER]
    none = list(dict.fromkeys(alive.loc[alive["heads"] + alive["mlps"] == 0, "task"]))
    return parts + ([f"no unit survives with every seed on {names_of(none)}"] if none else [])


def unlearnt(tables: Tables) -> list[str]:
    """Tasks where the full model itself does not beat the majority class."""
    rows = tables["tickets"]
    full, majority = (rows[rows["way"] == m].set_index("task")["mean"] for m in ("full", "majority"))
    return [t for t in tasks_of(tables) if t in full.index and t in majority.index and full[t] <= majority[t]]


def beaten(tables: Tables) -> list[str]:
    lost = unlearnt(tables)
    return [f"the full model does not beat the majority class on {names_of(lost)}: not counted above"] if lost else []


@says(of="tickets")
def basis_point(tables: Tables) -> list[str]:
    scores = tables["scores"]
    tunings = scores[scores["way"] == "full"].groupby("task")["tuning"].nunique()
    if tunings.empty:
        return []
    tasks, most = count(len(tunings), "task"), int(tables["tickets"]["seeds"].max())
    if tunings.max() == 1:
        beside = "; ± is over searches" if most > 1 else ""
        return [f"All of this rests on one fine-tuning of {tasks}: how much another would change is not known{beside}."]
    also = " and the searches in each" if most > tunings.max() else ""
    return [f"All of this rests on {between(tunings, 0)} seeds of fine-tuning and on {tasks}; ± is taken over these{also}."]
