"""Charts of how well subnetworks do: per case, against sparsity, over training."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.report.style import (
    GREENS,
    LINES,
    MARK,
    PALE,
    PERCENT,
    Tables,
    case_colour,
    order_of_cases,
    percent,
    share_axis,
    where,
)


def spread_chart(tables: Tables) -> Any:
    """Figure 2 and 12 of the Heuristic Core: every subnetwork on every case."""
    if "spread" not in tables:
        return None
    accuracy = tables["accuracy"]
    found = accuracy[accuracy["subnetwork"] != "full"].copy()
    found["where"], found["part"] = where(found), found["target"].map(percent)
    whole = tables["spread"].copy()
    whole["where"], whole["part"] = where(whole), whole["target"].map(percent)
    order = order_of_cases(whole)
    y = alt.Y("where:N", scale=alt.Scale(domain=order), title=None)
    x = share_axis(alt.X, "value", "accuracy")
    columns = ["where", "subnetwork", "n", "value", "low", "high", "agreement"]
    range_columns = ["where", "min", "max", "full", "mean", "range"]
    panels = []
    for part in whole["part"].unique():
        here = whole.loc[whole["part"] == part, range_columns]
        ranges = alt.Chart(here).mark_rule(strokeWidth=6, color=PALE, opacity=0.8)
        dots = alt.Chart(found.loc[found["part"] == part, columns]).mark_circle(size=46, opacity=0.7, color=GREENS[4])
        ticks = alt.Chart(here).mark_tick(thickness=2.5, color=MARK, size=15)
        layers = (
            ranges.encode(y=y, x=alt.X("min:Q", title="accuracy"), x2="max:Q"),
            dots.encode(
                y=y,
                x=x,
                tooltip=[
                    alt.Tooltip("where:N", title="case"),
                    "subnetwork:N",
                    alt.Tooltip("value:Q", title="accuracy", format=".3f"),
                    alt.Tooltip("low:Q", format=".3f"),
                    alt.Tooltip("high:Q", format=".3f"),
                    alt.Tooltip("agreement:Q", title="agrees with full", format=".3f"),
                    "n:Q",
                ],
            ),
            ticks.encode(
                y=y,
                x=alt.X("full:Q"),
                tooltip=[
                    alt.Tooltip("where:N", title="case"),
                    alt.Tooltip("full:Q", title="full model", format=".3f"),
                    alt.Tooltip("mean:Q", title="mean of subnetworks", format=".3f"),
                    alt.Tooltip("range:Q", format=".3f"),
                ],
            ),
        )
        panels.append(alt.layer(*layers).properties(width=320, height=alt.Step(17), title=part))
    return alt.hconcat(*panels)


def same_in_domain_chart(tables: Tables) -> Any:
    """Every subnetwork: in-domain accuracy against its mean over the challenge cases."""
    accuracy = tables["accuracy"]
    rows = accuracy[(accuracy["checkpoint"] == accuracy["checkpoint"].max())]
    inside = rows[rows["domain"] == "in-domain"].set_index("subnetwork")["value"]
    cases = judged(rows[rows["domain"] == "challenge"])
    if cases.empty or "spread" not in tables:
        return None
    kinds = cases.assign(kind=("cases whose answer is " + cases["gold"]).where(cases["gold"] != "mixed", "cases"))
    table = kinds.groupby(["subnetwork", "target", "kind"], sort=False)["value"].mean().reset_index()
    table["inside"] = table["subnetwork"].map(inside)
    table["size"] = table["target"].map(lambda t: "full model" if t == 0 else percent(t))
    sizes = list(dict.fromkeys(table.sort_values("target")["size"]))
    return (
        alt.Chart(table)
        .mark_point(filled=True, size=80, opacity=0.8)
        .encode(
            x=alt.X(
                "inside:Q", title="accuracy in domain", axis=alt.Axis(format=".1%"), scale=alt.Scale(zero=False, padding=14)
            ),
            y=share_axis(alt.Y, "value", "mean accuracy over cases"),
            color=alt.Color("size:N", title=None, scale=alt.Scale(domain=sizes, range=[MARK, *LINES[:1], *LINES[2:]])),
            shape=alt.Shape("size:N", title=None, scale=alt.Scale(domain=sizes)),
            column=alt.Column("kind:N", title=None),
            tooltip=[
                "subnetwork:N",
                alt.Tooltip("inside:Q", title="in domain", format=".3f"),
                alt.Tooltip("value:Q", title="cases, mean", format=".3f"),
            ],
        )
        .properties(width=300, height=240)
    )


def sparsity_chart(tables: Tables) -> Any:
    """Figure 4: accuracy against sparsity, mean and range over seeds; 0 is the full model."""
    if "spread" not in tables:
        return None
    table = tables["spread"].copy()
    start = table.drop_duplicates(["dataset", "case"]).assign(target=0.0)
    for column in ("mean", "min", "max"):
        start[column] = start["full"]
    table = pd.concat([start, table], ignore_index=True)
    table["where"] = where(table)
    order = order_of_cases(table)
    chosen = alt.selection_point(fields=["where"], bind="legend")
    base = alt.Chart(table[["target", "where", "mean", "min", "max", "n", "subnetworks"]]).encode(
        x=alt.X("target:Q", title="sparsity: share of units removed", axis=alt.Axis(format=PERCENT)),
        color=case_colour(order),
        opacity=alt.condition(chosen, alt.value(0.95), alt.value(0.06)),
    )
    lines = base.mark_line(point=True, strokeWidth=2).encode(
        y=share_axis(alt.Y, "mean", "accuracy, mean over seeds"),
        tooltip=[
            alt.Tooltip("where:N", title="case"),
            alt.Tooltip("target:Q", title="sparsity", format=PERCENT),
            alt.Tooltip("mean:Q", format=".3f"),
            alt.Tooltip("min:Q", format=".3f"),
            alt.Tooltip("max:Q", format=".3f"),
            alt.Tooltip("subnetworks:Q"),
        ],
    )
    bars = base.mark_rule(strokeWidth=1).encode(y="min:Q", y2="max:Q")
    return (bars + lines).add_params(chosen).properties(width=560, height=330)


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
