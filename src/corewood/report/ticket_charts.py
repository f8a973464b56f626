"""Charts of tickets: what good, random and bad subnetworks score, and how pruning found the good ones."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.report.style import GREENS, INK, LINES, MARK, PALE, PERCENT, Tables, in_rows

IMPORTANCE, MAGNITUDE, SUPER, UNTRAINED = "importance", "magnitude", "super-survivors", "untrained"
SHORT = {IMPORTANCE: "s ", MAGNITUDE: "m ", SUPER: ""}  # before the name of a ticket
SPOKEN = {IMPORTANCE: "s-pruning", MAGNITUDE: "m-pruning", SUPER: "super-survivors", UNTRAINED: "untrained"}
TICKETS, STATES = ("good", "random", "bad"), ("pruned", "retrained")
METRICS = {"accuracy": "accuracy", "matthews": "Matthews' correlation", "pearson": "Pearson's correlation"}
MODES = {"both": "s: heads and MLPs", "heads": "s: heads alone", "mlps": "s: MLPs alone", "weights": "m: weights"}
OF_STATE = {"pruned": GREENS[2], "retrained": GREENS[4]}
ACROSS = 3
CROSS = "M-1,-1L1,1M-1,1L1,-1"


def tasks_of(tables: Tables) -> list[str]:
    """In the order of the study."""
    return list(dict.fromkeys(tables["summary"]["task"]))


def first_prune(table: pd.DataFrame) -> str:
    """What importance pruning may remove where tickets are drawn from; the tables have it first."""
    found = table.loc[table["method"] == IMPORTANCE, "prune"] if "method" in table else table["prune"]
    return str(found.iloc[0]) if len(found) else "both"


def of_tickets(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the tickets themselves: not of other ways to prune, and not of longer retraining."""
    found: pd.DataFrame = table[(table["method"] != IMPORTANCE) | (table["prune"] == first_prune(table))]
    return found[found["epochs"] == 0] if "epochs" in found else found


def quoted(name: object) -> str:
    return f"“{name}”"


def plus_minus(mean: float, std: float, scale: float = 1, digits: int = 2) -> str:
    """A mean and, where there is one, its spread."""
    if pd.isna(mean):
        return "–"
    spread = "" if pd.isna(std) else f" ± {scale * std:.{digits}f}"
    value = round(scale * mean, digits) + 0.0  # no minus before a zero
    return f"{value:.{digits}f}{spread}".replace("-", "\u2212")


def lowest_shown(values: pd.Series) -> float:
    """0, or a round number below: correlations may be negative."""
    known = values.dropna()
    return min(0.0, float(np.floor(known.min() * 10) / 10)) if len(known) else 0.0


def tickets_chart(tables: Tables) -> Any:
    """Figure 2."""
    return ticket_panels(tables, (IMPORTANCE, MAGNITUDE))


def super_survivors_chart(tables: Tables) -> Any:
    """Figure 17."""
    return ticket_panels(tables, (SUPER,))


def ticket_panels(tables: Tables, methods: tuple[str, ...]) -> Any:
    rows = of_tickets(tables["summary"])
    if not rows["method"].isin(methods).any():
        return None
    scores = of_tickets(tables["scores"])
    scores = scores[(scores["part"] == "tickets") & (scores["dataset"] == "report")]
    panels = [ticket_panel(rows[rows["task"] == t], scores[scores["task"] == t], methods) for t in tasks_of(tables)]
    return in_rows([p for p in panels if p is not None], ACROSS if len(methods) > 1 else 4)


def ticket_panel(summary: pd.DataFrame, scores: pd.DataFrame, methods: tuple[str, ...]) -> Any:
    """One task."""
    drawn = summary[summary["method"].isin(methods)]
    if drawn.empty:
        return None
    drawn = named(drawn).assign(low=drawn["mean"] - drawn["std"], high=drawn["mean"] + drawn["std"]).round(4)
    single = named(scores[scores["method"].isin(methods)])
    single = single.groupby(["which", "state", "seed"], sort=False)["value"].mean().round(4).reset_index().dropna()
    order = [SHORT[m] + t for m in methods for t in TICKETS if SHORT[m] + t in set(drawn["which"])]
    bottom = lowest_shown(pd.concat([drawn["low"], drawn["mean"], single["value"], summary["mean"]]))
    metric = str(summary["metric"].iloc[0])
    y = alt.Y("mean:Q", title=METRICS.get(metric, metric), scale=alt.Scale(domain=[bottom, 1]))
    place = {
        "x": alt.X("which:N", scale=alt.Scale(domain=order), title=None, axis=alt.Axis(labelAngle=-35)),
        "xOffset": alt.XOffset("state:N", scale=alt.Scale(domain=list(STATES))),
    }
    columns = ["which", "state", "mean", "std", "low", "high", "seeds", "undefined"]
    data = drawn[columns].dropna(subset="mean")
    bars = alt.Chart(data).mark_bar(opacity=0.85).encode(
        y=y,
        color=alt.Color(
            "state:N",
            title=None,
            scale=alt.Scale(domain=list(OF_STATE), range=list(OF_STATE.values())),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("which:N", title="ticket"),
            "state:N",
            *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("mean", "std")),
            "seeds:Q",
            "undefined:Q",
        ],
        **place,
    )  # fmt: skip
    spread = alt.Chart(data.dropna(subset="std")).mark_rule(color=INK, strokeWidth=1.3).encode(y="low:Q", y2="high:Q", **place)
    dots = alt.Chart(single).mark_circle(size=9, color=INK, opacity=0.55).encode(
        y="value:Q", tooltip=["which:N", "state:N", "seed:N", alt.Tooltip("value:Q", format=".3f")], **place
    )  # fmt: skip
    title = alt.Title(quoted(summary["task"].iloc[0]), subtitle=stays(drawn, methods), subtitleColor=INK)
    layers = [*full_and_majority(summary), bars, spread, dots]
    return alt.layer(*layers).properties(width=max(165, 42 * len(order)), height=170, title=title)


def named(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(which=rows["method"].map(SHORT) + rows["ticket"])


def full_and_majority(summary: pd.DataFrame) -> list[Any]:
    """The full model as a line in a band, the majority class as a dashed line; what is unknown is left out."""
    layers: list[Any] = []
    full = summary[summary["method"] == "full"].dropna(subset="mean")
    if len(full):
        mean, std = float(full["mean"].iloc[0]), float(full["std"].iloc[0])
        spread = 0.0 if np.isnan(std) else std
        data = pd.DataFrame([{"mean": mean, "low": mean - spread, "high": mean + spread}]).round(4)
        tip = [alt.Tooltip(f"{c}:Q", title=t, format=".3f") for c, t in (("mean", "full model"), ("low", "less one std"))]
        layers.append(alt.Chart(data).mark_rect(color=PALE, opacity=0.9).encode(y="low:Q", y2="high:Q", tooltip=tip))
        layers.append(alt.Chart(data).mark_rule(color=INK, strokeWidth=1.5).encode(y="mean:Q", tooltip=tip))
    majority = summary[summary["method"] == "majority"].dropna(subset="mean")[["mean"]].round(4)
    if len(majority):
        tip = [alt.Tooltip("mean:Q", title="majority class", format=".3f")]
        layers.append(alt.Chart(majority).mark_rule(color=MARK, strokeDash=[5, 4]).encode(y="mean:Q", tooltip=tip))
    return layers


def stays(drawn: pd.DataFrame, methods: tuple[str, ...]) -> str:
    """How much of the encoder's weights the good tickets keep."""
    parts = []
    for method in methods if "encoder_share" in drawn else ():
        good = drawn[(drawn["method"] == method) & (drawn["ticket"] == "good")].dropna(subset="encoder_share")
        if len(good):
            text = plus_minus(good["encoder_share"].iloc[0], good["encoder_share_std"].iloc[0], 100, 0)
            parts.append(f"{SHORT[method]}{text} %")
    return f"weights that stay: {', '.join(parts)}" if parts else ""


# how pruning went


def rounds_chart(tables: Tables) -> Any:
    """Score against what is left, one line per seed and method."""
    if "rounds" not in tables:
        return None
    rows = tables["rounds"].dropna(subset="score")
    rows = rows[(rows["method"] != IMPORTANCE) | (rows["prune"] == first_prune(tables["rounds"]))]
    if rows.empty:
        return None
    rows = rows.assign(left=left_of(rows), how=rows["method"].map(SPOKEN)).round(4)
    return in_rows([rounds_panel(rows[rows["task"] == t], t) for t in tasks_of(tables) if (rows["task"] == t).any()], ACROSS)


def left_of(rows: pd.DataFrame) -> pd.Series:
    """Share of units, or of weights, that a round's mask keeps."""
    units = rows.reindex(columns=["heads", "mlps"]).sum(axis=1)
    start = units.groupby([rows["task"], rows["method"]]).transform("max")
    share = rows["share"] if "share" in rows else pd.Series(np.nan, index=rows.index)
    return share.where(rows["method"] == MAGNITUDE, units / start.where(start > 0))


def rounds_panel(rows: pd.DataFrame, task: str) -> Any:
    how = [SPOKEN[m] for m in (IMPORTANCE, MAGNITUDE)]
    end = float(np.floor(rows["left"].min() * 10) / 10)
    columns = ["round", "seed", "how", "left", "score", "floor", "passed", "heads", "mlps", "phase"]
    base = alt.Chart(rows.reindex(columns=columns)).encode(
        x=alt.X("left:Q", title="left", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[1, min(0.9, end)])),
        color=alt.Color(
            "how:N",
            title=None,
            scale=alt.Scale(domain=how, range=[LINES[0], LINES[2]]),
            legend=alt.Legend(orient="top"),
        ),
        detail="seed:N",
        tooltip=[
            "seed:N",
            "round:Q",
            alt.Tooltip("left:Q", format=".1%"),
            alt.Tooltip("score:Q", format=".3f"),
            alt.Tooltip("floor:Q", format=".3f"),
            "heads:Q",
            alt.Tooltip("mlps:Q", title="MLPs"),
            "phase:N",
        ],
    )  # fmt: skip
    y = alt.Y("score:Q", title="score on the search set", scale=alt.Scale(zero=False, padding=6))
    went = base.transform_filter(alt.datum.passed)
    lines = went.mark_line(strokeWidth=1.2, opacity=0.7).encode(y=y, order="round:Q")
    dots = went.mark_circle(size=10, opacity=0.7).encode(y=y)
    failed = base.transform_filter(~alt.datum.passed).mark_point(shape=CROSS, size=30, strokeWidth=1.4)
    floors = rows.drop_duplicates(["seed", "floor"])[["seed", "floor"]].dropna()
    floor = alt.Chart(floors).mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=0.7, opacity=0.6).encode(y="floor:Q")
    layers = (floor, lines, dots, failed.encode(y=y, color=alt.value(MARK)))
    return alt.layer(*layers).properties(width=250, height=160, title=quoted(task))


def totals(tables: Tables) -> dict[str, float]:
    """How many heads, MLPs and weights the full model has, where the tables say so."""
    found = {"head": np.nan, "mlp": np.nan, "weights": np.nan}
    if "survivors" in tables:
        units = tables["survivors"].drop_duplicates(["kind", "layer", "index"])
        found |= {kind: float((units["kind"] == kind).sum()) for kind in ("head", "mlp")}
    if "rounds" in tables and "weights" in tables["rounds"]:
        found["weights"] = float(tables["rounds"]["weights"].max())
    return found


def stays_chart(tables: Tables) -> Any:
    """Appendix B: how many heads and MLPs stay when both are pruned, or one kind alone."""
    if "tickets" not in tables:
        return None
    rows = tables["tickets"]
    rows = rows[(rows["part"] == "tickets") & (rows["ticket"] == "good") & rows["method"].isin([IMPORTANCE, MAGNITUDE])]
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
        y=alt.Y("task:N", scale=alt.Scale(domain=tasks), title=None, axis=alt.Axis(labels=names, ticks=names)),
        yOffset=alt.YOffset("mode:N", scale=alt.Scale(domain=modes)),
        color=alt.Color(
            "mode:N", title=None, scale=alt.Scale(domain=modes, range=LINES), legend=alt.Legend(orient="top", labelLimit=300)
        ),
        tooltip=["task:N", "mode:N", *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("mean", "std")), "seeds:Q"],
    )
    dots = base.mark_circle(size=48, opacity=1).encode(
        x=alt.X("mean:Q", title=title, axis=alt.Axis(format=PERCENT, tickCount=5), scale=alt.Scale(domain=[0, 1]))
    )
    spread = base.transform_filter("isValid(datum.std)").mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    return (spread + dots).properties(width=240, height=max(60, len(tasks) * (8 + 9 * len(modes))))
