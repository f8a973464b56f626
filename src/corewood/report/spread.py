"""The same in domain, different outside."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.generalisation import full_model, judged, subnetworks
from corewood.report.html import html_table, share
from corewood.report.items import chart, says, table
from corewood.report.style import (
    GREENS,
    INK,
    LINES,
    MARK,
    PALE,
    PERCENT,
    Tables,
    case_colour,
    in_rows,
    order_of_cases,
    ordered,
    percent,
    share_axis,
    shown,
    tips,
    where,
)
from corewood.report.words import largest, listed, name, pct, span

QUESTION = "Does a subnetwork of this size still handle the hard cases?"
MARGIN = 0.03  # a case that falls by more than three points is not kept


def compared(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The subnetworks that are compared, and the full model they come from."""
    return pd.concat([full_model(accuracy), subnetworks(accuracy)])


@chart("Subnetworks", "spread", "Subnetworks on every case", of="spread")  # figure 2 and 12 of the Heuristic Core
def spread_chart(tables: Tables) -> Any:
    """Each dot is a subnetwork, the grey bar their range, the red tick the full model. Dots that lie together in domain and
    apart on a case are subnetworks that only look alike."""
    found = subnetworks(tables["accuracy"]).copy()
    found["where"], found["part"] = where(found), found["target"].map(percent)
    whole = tables["spread"].copy()
    whole["where"], whole["part"] = where(whole), whole["target"].map(percent)
    order = order_of_cases(whole)
    y = ordered(alt.Y, "where", order)
    x = share_axis(alt.X, "value", "accuracy")
    columns = ["where", "subnetwork", "n", "value", "low", "high", "agreement"]
    range_columns = ["where", "min", "max", "full", "mean", "range"]
    panels = []
    for part in map(percent, shown(whole["target"])):
        here = whole.loc[whole["part"] == part, range_columns]
        ranges = alt.Chart(here).mark_rule(strokeWidth=6, color=PALE, opacity=0.8)
        dots = alt.Chart(found.loc[found["part"] == part, columns]).mark_circle(size=46, opacity=0.7, color=GREENS[4])
        ticks = alt.Chart(here).mark_tick(thickness=2.5, color=MARK, size=15)
        layers = (
            ranges.encode(y=y, x=alt.X("min:Q", title="accuracy"), x2="max:Q"),
            dots.encode(
                y=y,
                x=x,
                tooltip=tips(
                    "case = where:N | subnetwork:N | accuracy = value:Q .3f | low:Q .3f | high:Q .3f | "
                    "agrees with full = agreement:Q .3f | n:Q"
                ),
            ),
            ticks.encode(
                y=y,
                x=alt.X("full:Q"),
                tooltip=tips("case = where:N | full model = full:Q .3f | mean of subnetworks = mean:Q .3f | range:Q .3f"),
            ),
        )
        panels.append(alt.layer(*layers).properties(width=320, height=alt.Step(17), title=part))
    return in_rows(panels)


@chart("Subnetworks", "same-in-domain", "The same in domain, different outside", of="spread accuracy")
def same_in_domain_chart(tables: Tables) -> Any:
    """One point per subnetwork. A column of points above each other has one in-domain accuracy and many kinds of behaviour."""
    rows = compared(tables["accuracy"])
    inside = rows[rows["domain"] == "in-domain"].set_index("subnetwork")["value"]
    cases = judged(rows[rows["domain"] == "challenge"])
    if cases.empty:
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
            tooltip=tips("subnetwork:N | in domain = inside:Q .3f | cases, mean = value:Q .3f"),
        )
        .properties(width=300, height=240)
    )


@chart("Subnetworks", "profiles", "One by one", of="spread")  # figure 3
def profiles_chart(tables: Tables) -> Any:
    """A row is a subnetwork, a column a case. Rows that differ in pattern generalise to different cases."""
    table = judged(compared(tables["accuracy"])).copy()
    table["where"] = where(table)
    order = order_of_cases(table)
    rows = list(dict.fromkeys(table.sort_values(["target", "seed"], kind="stable")["subnetwork"]))
    step = 26 if len(order) <= 24 else 20
    base = alt.Chart(table[["subnetwork", "where", "value", "low", "high", "n"]]).encode(
        x=ordered(alt.X, "where", order, axis=alt.Axis(labelAngle=-50, labelLimit=150)),
        y=ordered(alt.Y, "subnetwork", rows),
        tooltip=tips("subnetwork:N | case = where:N | accuracy = value:Q .3f | low:Q .3f | high:Q .3f | n:Q"),
    )
    scale = alt.Scale(domain=[0, 1], range=GREENS)
    legend = alt.Legend(format=PERCENT, orient="top", gradientLength=220)
    cells = base.mark_rect(stroke="white").encode(color=alt.Color("value:Q", title="accuracy", scale=scale, legend=legend))
    return cells.properties(width=alt.Step(step), height=alt.Step(20), padding={"left": 30, "top": 5, "right": 5, "bottom": 5})


@chart("Subnetworks", "differences", "Which differences are real", of="differences variance spread")
def differences_chart(tables: Tables) -> Any:
    """Green: how far subnetworks of one sparsity lie apart. Red: how far equally good ones would, because the examples are
    a sample. Beside each bar: pairs whose answers differ by more than chance (McNemar's exact test, Holm's correction over
    all pairs and cases)."""
    keys = ["target", "dataset", "case"]
    tested = tables["differences"].groupby(keys, sort=False)["real"].agg(real="sum", pairs="size").reset_index()
    domains = tables["spread"][[*keys, "domain", "group"]]
    table = judged(tables["variance"].drop(columns="group").merge(tested, on=keys).merge(domains, on=keys)).copy()
    table["where"], table["part"] = where(table), table["target"].map(percent)
    order = order_of_cases(table)
    table["text"] = table["real"].astype(str) + " of " + table["pairs"].astype(str)
    y = ordered(alt.Y, "where", order)
    shown_there = tips(
        "case = where:N | std over seeds = std:Q .3f | of it by sampling = noise_std:Q .3f | "
        "beyond sampling = true_std:Q .3f | noise, share of variance = noise_share:Q .2f | "
        "pairs that differ for real = text:N | n:Q"
    )
    panels = []
    for part in map(percent, shown(table["target"])):
        base = alt.Chart(table.loc[table["part"] == part]).encode(y=y, tooltip=shown_there)
        bars = base.mark_bar(color=GREENS[2], height=11).encode(
            x=alt.X("std:Q", title="standard deviation over seeds", axis=alt.Axis(format=PERCENT))
        )
        noise = base.mark_tick(color=MARK, thickness=2.5, size=14).encode(x="noise_std:Q")
        label = base.mark_text(align="left", dx=5, fontSize=10, color=INK).encode(x="std:Q", text="text:N")
        panels.append((bars + noise + label).properties(width=300, height=alt.Step(17), title=part))
    return in_rows(panels)


@chart("Subnetworks", "sparsity", "Accuracy against sparsity", of="spread")  # figure 4
def sparsity_chart(tables: Tables) -> Any:
    """Lines join the means over seeds, bars span from the worst to the best. Click a name to see it alone; shift-click
    adds."""
    return against_sparsity(tables["spread"])


def against_sparsity(spread: pd.DataFrame) -> Any:
    """The full model is where nothing is removed."""
    start = spread.drop_duplicates(["dataset", "case"]).assign(target=0.0)
    for column in ("mean", "min", "max"):
        start[column] = start["full"]
    table = pd.concat([start, spread], ignore_index=True)
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
        tooltip=tips("case = where:N | sparsity = target:Q .0% | mean:Q .3f | min:Q .3f | max:Q .3f | subnetworks:Q"),
    )
    bars = base.mark_rule(strokeWidth=1).encode(y="min:Q", y2="max:Q")
    return (bars + lines).add_params(chosen).properties(width=560, height=330)


@chart("Subnetworks", "ablated-values", "What stands in for a removed unit", of="ablated_values")
def ablated_values_chart(tables: Tables) -> Any:
    """The same masks with the mean, with zero, with another example's value in place of what was removed. Lines join one
    mask."""
    table = judged(tables["ablated_values"]).copy()
    table["kind"] = ("cases: " + table["gold"]).where(table["domain"] == "challenge", "in domain")
    mean = table.groupby(["subnetwork", "target", "ablate", "kind"], sort=False)["value"].mean().reset_index()
    mean["part"] = mean["target"].map(percent)
    values, kinds = list(dict.fromkeys(mean["ablate"])), list(dict.fromkeys(mean["kind"]))
    panels = []
    for part in map(percent, shown(mean["target"])):
        base = alt.Chart(mean[mean["part"] == part]).encode(
            x=ordered(alt.X, "ablate", values, axis=alt.Axis(labelAngle=0)),
            y=share_axis(alt.Y, "value", "accuracy, mean over cases"),
            tooltip=tips("subnetwork:N | ablate:N | kind:N | value:Q .3f"),
        )
        lines = base.mark_line(opacity=0.35, color=GREENS[4]).encode(detail="subnetwork:N")
        dots = base.mark_circle(size=45, opacity=0.8, color=GREENS[4])
        columns = [
            (lines + dots).transform_filter(alt.datum.kind == kind).properties(width=170, height=170, title=f"{kind}, {part}")
            for kind in kinds
        ]
        panels.append(alt.hconcat(*columns))
    return alt.vconcat(*panels)


@table("Subnetworks", "spread-table", "Every case in numbers", of="spread")  # tables 5 and 7
def spread_table(tables: Tables) -> str | None:
    """Over the subnetworks of one sparsity."""
    table = judged(tables["spread"]).copy()
    table["case"], table["sparsity"] = where(table), table["target"].map(percent)
    columns = ["sparsity", "case", "gold", "full", "min", "max", "mean", "std", "n"]
    return html_table(table[columns], {"gold": "right answer"})


@table("Subnetworks", "size-effect", "Accuracy and size", of="size_effect")
def size_effect_table(tables: Tables) -> str | None:
    """Where subnetworks of one sparsity differ in size, how far their accuracy goes with it: Spearman's rho, and the
    variance a line explains. The 20 smallest p, uncorrected."""
    table = tables["size_effect"].dropna(subset="rho").copy()
    if table.empty:
        return None
    table = table.sort_values("p", kind="stable").head(20)
    table["sparsity"] = table["target"].map(percent)
    table["currency"] = table["currency"].map({"units_share": "units", "encoder_share": "encoder parameters"})
    columns = ["sparsity", "dataset", "case", "currency", "smallest", "largest", "rho", "p", "explained"]
    return html_table(table[columns], {"explained": "variance explained"})


@table("Subnetworks", "subnetworks", "All subnetworks", of="sizes")
def subnetwork_table(tables: Tables) -> str | None:
    """A click on a heading sorts."""
    accuracy = compared(tables["accuracy"])
    cases = judged(accuracy)
    challenge = cases[cases["domain"] == "challenge"].groupby("subnetwork")["value"]
    kept = ["target", "seed", "held_kl", "heads", "mlps", "units", "encoder_share", "all_share"]
    table = tables["sizes"].set_index("subnetwork")[kept].copy()
    inside = accuracy[accuracy["domain"] == "in-domain"].set_index("subnetwork")
    table["in domain"], table["agrees with full"], table["KL"] = inside["value"], inside["agreement"], inside["kl"]
    if len(challenge):
        table["cases, mean"], table["worst case"] = challenge.mean(), challenge.min()
    if tables["sizes"]["nested"].any():
        table["nested"] = tables["sizes"].set_index("subnetwork")["nested"].map({True: "yes", False: "no"})
    shares = dict.fromkeys(("in domain", "agrees with full", "cases, mean", "worst case"), share)
    return html_table(table.reset_index(), formats=shares)


def headline(tables: Tables, model: str) -> str | None:
    if "spread" not in tables:
        return None
    spread = tables["spread"]
    cases = judged(spread)
    cases = cases[cases["domain"] == "challenge"]
    if cases.empty:
        return f"Subnetworks of {model}: no challenge set was given, so how they generalise is not known."
    if cases["subnetworks"].max() == 1:
        return f"One subnetwork of {model} at each sparsity: how far seeds differ is not known."
    if cases["range_same"].isna().all():
        return (
            f"Subnetworks of {model}: no two converged ones are equal in domain at one sparsity, so seeds cannot be compared."
        )
    widest = largest(cases, cases["range_same"])
    if widest["range_same"] <= MARGIN:
        return f"Subnetworks of {model} that are equal in domain are equal on every challenge case too."
    return (
        f"Subnetworks of {model} that are equal in domain differ by up to {100 * widest['range_same']:.0f} points "
        f"on a challenge case, “{name(widest)}”."
    )


@says(of="spread", single=True)
def sparsity_points(tables: Tables) -> list[str]:
    spread = tables["spread"]
    return [point for target in shown(spread["target"]) for point in at_sparsity(spread, target)]


def at_sparsity(spread: pd.DataFrame, target: float) -> list[str]:
    rows = judged(spread[spread["target"] == target])
    inside = rows[rows["domain"] == "in-domain"].iloc[0]
    cases = rows[rows["domain"] == "challenge"]
    one = int(inside["subnetworks"]) == 1
    who = "one subnetwork keeps" if one else f"{inside['subnetworks']} subnetworks keep"
    text = (
        f"{f'With {100 * target:g} % of the units removed' if target else 'Pruned to a threshold'}, {who} "
        f"{span(inside['min'], inside['max'])} in domain (full model: {pct(inside['full'])})."
    )
    if cases.empty:
        return [text]
    hard = cases[cases["full"] >= 0.5]  # below, the full model itself does not handle the case
    low, high = pct(cases["min"].min()), pct(cases["max"].max())
    text += f" On the challenge cases {'it ranges' if one else 'they range'} from {low} to {high}"
    widest = largest(cases, cases["range"])
    if not one and widest["range"] > 0:
        text += f"; the widest is “{name(widest)}”: {span(widest['min'], widest['max'])} (full model: {pct(widest['full'])})"
    text += "."
    lost = hard[hard["mean"] < hard["full"] - MARGIN]
    unable = [name(row) for _, row in cases[cases["full"] < 0.5].iterrows()]
    if hard.empty:
        verdict = "The full model itself handles none of the cases."
    elif lost.empty:
        verdict = f"{QUESTION} Yes: all {len(hard)} that the full model handles stay within three points of it, on average."
    else:
        worst = largest(lost, lost["full"] - lost["mean"])
        lose = "loses" if len(lost) == 1 else "lose"
        verdict = (
            f"{QUESTION} No: {len(lost)} of the {len(hard)} that the full model handles {lose} more "
            f"than three points on average, most of all “{name(worst)}” ({pct(worst['full'])} to {pct(worst['mean'])})."
        )
    if len(unable) and not hard.empty:
        verdict += f" The full model itself does not handle {listed(unable)}."
    return [text, verdict]


@says(of="spread", single=False)
def models_point(tables: Tables) -> list[str]:
    said = []
    for (task, way, target), part in tables["spread"].groupby(["task", "way", "target"], sort=False):
        cases = judged(part)
        cases = cases[(cases["domain"] == "challenge") & cases["range_same"].notna()]
        if len(cases):
            widest = largest(cases, cases["range_same"])
            gap = f"up to {100 * widest['range_same']:.0f} points on “{name(widest)}”"
            what = f"“{task}”, {percent(float(str(target)))} by {way}"
            said.append(f"{what}: subnetworks of one model that are equal in domain differ by {gap}.")
    return said


@says(of="spread differences")
def difference_point(tables: Tables) -> list[str]:
    """How many of the differences between seeds are more than chance."""
    tests = judged(tables["differences"])
    challenge = set(tables["spread"].loc[tables["spread"]["domain"] == "challenge", "dataset"])
    inside, cases = (tests[tests["dataset"].isin(challenge) == outside] for outside in (False, True))
    if cases.empty:
        return []
    text = (
        f"Of {len(cases)} comparisons of two subnetworks of one sparsity on one case, {int(cases['real'].sum())} differ by more"
    )
    return [
        f"{text} than chance; in domain, {int(inside['real'].sum())} of {len(inside)} do (McNemar's test, Holm's correction)."
    ]
