"""Charts over training: accuracy, effective size, and when the core appears."""

from __future__ import annotations

from typing import Any

import altair as alt

from corewood.analyse.effective import CHALLENGE, IN_DOMAIN, MIXED
from corewood.report.style import INK, LINES, PERCENT, Tables, case_colour, order_of_cases, percent, share_axis, where


def dynamics_chart(tables: Tables) -> Any:
    """Figure 6: the full model over training, in domain and per case."""
    if "dynamics" not in tables:
        return None
    table = tables["dynamics"].copy()
    table["where"] = where(table)
    order = order_of_cases(table)
    chosen = alt.selection_point(fields=["where"], bind="legend")
    columns = ["checkpoint", "where", "value", "low", "high", "n", "domain"]
    base = alt.Chart(table[columns]).encode(
        x=alt.X("checkpoint:Q", title="fine-tuning step"),
        y=share_axis(alt.Y, "value", "accuracy of the full model"),
        color=case_colour(order),
        strokeWidth=alt.condition(alt.datum.domain == "in-domain", alt.value(4), alt.value(1.6)),
        opacity=alt.condition(chosen, alt.value(0.95), alt.value(0.06)),
        tooltip=[
            alt.Tooltip("where:N", title="case"),
            alt.Tooltip("checkpoint:Q", title="step"),
            alt.Tooltip("value:Q", title="accuracy", format=".3f"),
            alt.Tooltip("low:Q", format=".3f"),
            alt.Tooltip("high:Q", format=".3f"),
            "n:Q",
        ],
    )
    return base.mark_line(point=True).add_params(chosen).properties(width=560, height=330)


def effective_size_chart(tables: Tables) -> Any:
    """Figures 6, 15, 16: the smallest faithful subnetwork at each checkpoint, in domain, challenge and mixed."""
    if "effective_size" not in tables:
        return None
    table = tables["effective_size"]
    sets = [name for name in (IN_DOMAIN, CHALLENGE, MIXED) if name in set(table["set"])]
    table = table[table["chosen"] & table["set"].isin(sets)].copy()
    table["note"] = ""
    for flag, words in (
        ("trivial", "trivially faithful"),
        ("floor", "at the grid's floor: it may be smaller"),
        ("ceiling", "nothing in the grid is faithful"),
        ("non_monotone", "a larger one is not faithful"),
    ):
        table["note"] = (table["note"] + "; " + words).where(table[flag] > 0, table["note"])
    table["note"] = table["note"].str.removeprefix("; ").replace("", "inside the grid")
    table["clear"] = table["note"].isin(["inside the grid", "a larger one is not faithful"])
    columns = ["checkpoint", "set", "effective_size", "std", "full", "seeds", "holes", "note", "clear"]
    encoding = dict(
        x=alt.X("checkpoint:Q", title="fine-tuning step"),
        y=share_axis(alt.Y, "effective_size", "effective size: share of units kept"),
        color=alt.Color("set:N", title=None, scale=alt.Scale(domain=sets, range=[INK, *LINES[1:]])),
        tooltip=[
            "set:N",
            alt.Tooltip("checkpoint:Q", title="step"),
            alt.Tooltip("effective_size:Q", title="effective size", format=PERCENT),
            alt.Tooltip("full:Q", title="full model", format=".3f"),
            alt.Tooltip("note:N", title="flags"),
            "seeds:Q",
            alt.Tooltip("holes:Q", title="runs missing"),
        ],
    )
    layers = [alt.Chart(table[columns]).mark_line(strokeWidth=2).encode(**encoding)]
    for clear, part in table[columns].groupby("clear"):
        layers.append(alt.Chart(part).mark_point(filled=bool(clear), size=70, strokeWidth=2).encode(**encoding))
    return alt.layer(*layers).properties(width=560, height=280)


def core_over_training_chart(tables: Tables) -> Any:
    """Which share of the heads that all seeds keep at the end they keep at earlier checkpoints already."""
    if "core_over_training" not in tables:
        return None
    table = tables["core_over_training"].copy()
    table["part"] = table["target"].map(percent)
    table["chance"] = table["expected"] / table["heads_last"].where(table["heads_last"] > 0)
    parts = list(dict.fromkeys(table.sort_values("target")["part"]))
    base = alt.Chart(table.drop(columns="members")).encode(
        x=alt.X("checkpoint:Q", title="fine-tuning step"),
        color=alt.Color("part:N", title=None, scale=alt.Scale(domain=parts, scheme="viridis")),
        tooltip=[
            "part:N",
            alt.Tooltip("checkpoint:Q", title="step"),
            alt.Tooltip("shared:Q", title="heads of the last core there"),
            alt.Tooltip("heads_last:Q", title="heads of the last core"),
            alt.Tooltip("chance:Q", title="share by chance", format=".2f"),
            alt.Tooltip("p:Q", format=".2g"),
        ],
    )
    lines = base.mark_line(point=True).encode(y=share_axis(alt.Y, "share_of_last", "share of the last core already there"))
    chance = base.mark_line(strokeDash=[3, 3], opacity=0.6).encode(y="chance:Q")
    return (chance + lines).properties(width=560, height=260)
