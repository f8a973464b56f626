"""The same in domain, different outside."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.differences import corrected
from corewood.analyse.generalisation import SAME, full_model, judged, of_skills, share_right, subnetworks
from corewood.analyse.generalisation import spread as spread_over
from corewood.analyse.verdicts import HANDLES, LOST
from corewood.evaluate.metrics import BALANCED
from corewood.report.html import html_table, share
from corewood.report.items import chart, says, table
from corewood.report.lines import case_lines
from corewood.report.models import models_of
from corewood.report.scores import METRICS, form_of, in_accuracy, measure_of, score_axis, written
from corewood.report.skills import skill_or_readiness
from corewood.report.style import (
    DOT,
    GREENS,
    INK,
    LINES,
    MARK,
    PALE,
    PAPER,
    PERCENT,
    Tables,
    coloured,
    dodged,
    in_rows,
    order_of_cases,
    ordered,
    percent,
    room,
    rows_of_dots,
    shaped,
    shown,
    tips,
    where,
)
from corewood.report.verdicts import first_mode
from corewood.report.ways import called, different_masks, masks_of
from corewood.report.words import largest, name, pct, span

WHOLE = "whole sets, balanced accuracy"


def compared(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The subnetworks that are compared, and the full model they come from."""
    return pd.concat([full_model(accuracy), first_mode(subnetworks(accuracy))])


def spread_of(tables: Tables) -> pd.DataFrame:
    """The table `spread`, with accuracy in domain."""
    table, scores = tables["spread"], tables["accuracy"]
    if (table["metric"] == "accuracy").all():
        return table
    keys, numbers = ["target", "dataset", "case"], ["full", "min", "max", "mean", "std", "range"]
    again = spread_over(in_accuracy(pd.concat([full_model(scores), first_mode(subnetworks(scores))])))
    made = table.set_index(keys)
    made.update(again.set_index(keys)[numbers])
    return made.reset_index()


@chart("Subnetworks", "spread", "Subnetworks on every case", of="spread")  # figure 2 and 12 of the Heuristic Core
def spread_chart(tables: Tables) -> Any:
    """Each dot is a subnetwork, the grey bar their range, the red tick the full model. Dots that lie together in domain and
    apart on a case are subnetworks that only look alike. Dots that would hide each other stand above and below."""
    scores = in_accuracy(tables["accuracy"])
    found, (measure, form) = first_mode(subnetworks(scores)).copy(), measure_of(scores)
    found["where"], found["part"] = where(found), found["target"].map(percent)
    whole = spread_of(tables).copy()
    whole["where"], whole["part"] = where(whole), whole["target"].map(percent)
    order = order_of_cases(whole)
    tooltip = tips(
        f"case = where:N | subnetwork:N | {measure} = value:Q {form} | low:Q {form} | high:Q {form} | "
        "same answer as the full model = agreement:Q .1% | n:Q"
    )
    y = ordered(alt.Y, "where", order)
    x = score_axis(alt.X, "value", measure, compared(scores))
    columns = ["where", "dataset", "case", "subnetwork", "n", "value", "low", "high", "agreement"]
    range_columns = ["where", "min", "max", "full", "mean", "range"]
    parts = [percent(target) for target in shown(whole["target"])]
    width = room(order, min(2, len(parts)))
    found["row"] = found.groupby(["part", "where"])["value"].transform(lambda v: pd.Series(dodged(v, DOT / width), v.index))
    panels = []
    for part in parts:
        here, mine = whole.loc[whole["part"] == part, range_columns], found[found["part"] == part]
        ranges = alt.Chart(here).mark_rule(strokeWidth=6, color=PALE, opacity=0.8)
        ticks = alt.Chart(here).mark_tick(thickness=2.5, color=MARK, size=24)
        layers = (
            ranges.encode(y=y, x=alt.X("min:Q", title=measure), x2="max:Q"),
            ticks.encode(
                y=y,
                x=alt.X("full:Q"),
                tooltip=tips(
                    f"case = where:N | full model = full:Q {form} | mean of subnetworks = mean:Q {form} | range:Q {form}"
                ),
            ),
            *(
                alt.Chart(dots[columns])
                .mark_circle(size=40, opacity=0.9, color=GREENS[4], stroke=PAPER, strokeWidth=0.7, yOffset=offset)
                .encode(y=y, x=x, tooltip=tooltip)
                for offset, dots in rows_of_dots(mine, mine["row"])
            ),
        )
        panels.append(alt.layer(*layers).properties(width=width, height=alt.Step(24), title=part))
    return in_rows(panels)


@chart("Subnetworks", "same-in-domain", "The same in domain, different outside", of="spread accuracy")
def same_in_domain_chart(tables: Tables) -> Any:
    """One point per subnetwork. A column of points above each other has one in-domain accuracy and many kinds of behaviour.
    Balanced accuracy counts all right answers alike: it stays where a subnetwork loses with one what it wins with another."""
    rows = compared(in_accuracy(tables["accuracy"]))
    measure, form = measure_of(rows)
    inside = rows[rows["domain"] == "in-domain"].set_index("subnetwork")["value"]
    cases = judged(rows[rows["domain"] == "challenge"])
    if cases.empty:
        return None
    kinds = cases.assign(kind=("cases whose answer is " + cases["gold"]).where(cases["gold"] != "mixed", "cases"))
    if "skill_scores" in tables:
        skills = of_skills(compared(tables["skill_scores"]), BALANCED)
        kinds = pd.concat([kinds, skills[skills["case"] == "all"].assign(kind=WHOLE)])
    table = kinds.groupby(["subnetwork", "target", "kind"], sort=False)["value"].mean().reset_index()
    table["inside"] = table["subnetwork"].map(inside)
    table["size"] = table["target"].map(percent).where(table["subnetwork"] != "full", "full model")
    sizes = list(dict.fromkeys(table.sort_values("target", kind="stable")["size"]))
    names = sorted(table["kind"].unique())
    ends = [float(table["inside"].min()), float(table["inside"].max())]
    panels = [
        alt.Chart(table[table["kind"] == kind])
        .mark_point(filled=True, size=80, opacity=0.8)
        .encode(
            x=alt.X(
                "inside:Q",
                title=f"{measure} in domain",
                axis={"format": form},
                scale={"domain": ends, "zero": False, "padding": 14},
            ),
            y=score_axis(alt.Y, "value", f"mean {measure} over cases" if kind == names[0] else "", rows),
            color=coloured("size", sizes, [MARK, *LINES[:1], *LINES[2:]]),
            shape=shaped("size", sizes),
            tooltip=tips(f"subnetwork:N | in domain = inside:Q {form} | cases, mean = value:Q {form}"),
        )
        .properties(width=min(450, (room() - 20) // len(names) - 50), height=270, title=kind)
        for kind in names
    ]
    return alt.hconcat(*panels)


@chart("Subnetworks", "profiles", "One by one", of="spread")  # figure 3
def profiles_chart(tables: Tables) -> Any:
    """A row is a subnetwork, a column a case. Rows that differ in pattern generalise to different cases."""
    table = judged(compared(in_accuracy(tables["accuracy"]))).copy()
    measure, form = measure_of(table)
    table["where"] = where(table)
    order = order_of_cases(table)
    rows = list(dict.fromkeys(table.sort_values(["target", "seed"], kind="stable")["subnetwork"]))
    step = max(20, min(46, room(rows) // len(order)))
    base = alt.Chart(table[["subnetwork", "where", "dataset", "case", "value", "low", "high", "n"]]).encode(
        x=ordered(alt.X, "where", order, axis={"labelAngle": -50, "labelLimit": 150}),
        y=ordered(alt.Y, "subnetwork", rows),
        tooltip=tips(f"subnetwork:N | case = where:N | {measure} = value:Q {form} | low:Q {form} | high:Q {form} | n:Q"),
    )
    scale = {"domain": [0, 1], "range": GREENS, "clamp": True}
    legend = {"format": PERCENT if form == form_of("accuracy") else ".1f", "orient": "top", "gradientLength": 220}
    cells = base.mark_rect(stroke=PAPER).encode(color=alt.Color("value:Q", title=measure, scale=scale, legend=legend))
    return cells.properties(width=alt.Step(step), height=alt.Step(20), padding={"left": 30, "top": 5, "right": 5, "bottom": 5})


@chart("Subnetworks", "differences", "Which differences are real", of="differences variance spread")
def differences_chart(tables: Tables) -> Any:
    """Green: how far subnetworks of one sparsity lie apart. Red: how far equally good ones would, because the examples are
    a sample. Beside each bar: of the pairs of different subnetworks, those whose answers differ by more than chance (McNemar's
    exact test, Holm's correction over all pairs and cases)."""
    keys = ["target", "dataset", "case"]
    tested = two_masks(tables).groupby(keys, sort=False)["real"].agg(real="sum", pairs="size").reset_index()
    domains = tables["spread"][[*keys, "domain", "group"]]
    table = judged(tables["variance"].drop(columns="group").merge(tested, on=keys, how="left").merge(domains, on=keys)).copy()
    table[["real", "pairs"]] = table[["real", "pairs"]].fillna(0).astype(int)
    table["where"], table["part"] = where(table), table["target"].map(percent)
    order = order_of_cases(table)
    table["end"] = table[["std", "noise_std"]].max(axis=1)
    table["text"] = table["real"].astype(str) + " of " + table["pairs"].astype(str)
    y = ordered(alt.Y, "where", order)
    shown_there = tips(
        "case = where:N | standard deviation over seeds = std:Q .1% | of it by sampling = noise_std:Q .1% | "
        "beyond sampling = true_std:Q .1% | noise, share of variance = noise_share:Q .0% | "
        "pairs that differ for real = text:N | n:Q"
    )
    parts = [percent(target) for target in shown(table["target"])]
    longest = float(table.loc[table["part"].isin(parts), "end"].max()) or 0.01
    one_for_all = {"domain": [0, longest]}
    panels = []
    for part in parts:
        base = alt.Chart(table.loc[table["part"] == part]).encode(y=y, tooltip=shown_there)
        bars = base.mark_bar(color=GREENS[2], height=11).encode(
            x=alt.X("std:Q", title="standard deviation over seeds", axis={"format": PERCENT}, scale=one_for_all)
        )
        noise = base.mark_tick(color=MARK, thickness=2.5, size=14).encode(x="noise_std:Q")
        label = base.mark_text(align="left", dx=5, fontSize=10, color=INK).encode(x="end:Q", text="text:N")
        layers = bars + noise + label
        panels.append(layers.properties(width=room(order, min(2, len(parts)), 40), height=alt.Step(17), title=part))
    return in_rows(panels)


@chart("Subnetworks", "sparsity", "Accuracy against sparsity", of="spread")  # figure 4
def sparsity_chart(tables: Tables) -> Any:
    """Lines join the means over seeds. The thick one is in domain; cases that move and stand apart have their names, the
    others are grey: point at a line to see which it is, and a bar from its worst to its best seed; a click keeps it."""
    return against_sparsity(spread_of(tables), tables["accuracy"])


def against_sparsity(spread: pd.DataFrame, scores: pd.DataFrame) -> Any:
    """The full model is where nothing is removed; what was pruned to a threshold has no place on such an axis."""
    spread = spread[spread["target"] > 0]
    if spread.empty:
        return None
    start = spread.drop_duplicates(["dataset", "case"]).assign(target=0.0)
    for column in ("mean", "min", "max"):
        start[column] = start["full"]
    table = pd.concat([start, spread], ignore_index=True)
    table["where"] = where(table)
    table = table[["target", "where", "dataset", "case", "domain", "mean", "min", "max", "n", "subnetworks"]]
    x = alt.X("target:Q", title="sparsity: share of units removed", axis={"format": PERCENT})
    measure, form = measure_of(scores)
    tooltip = tips(f"case = where:N | removed = target:Q .0% | mean:Q {form} | min:Q {form} | max:Q {form} | subnetworks:Q")
    y = score_axis(alt.Y, "mean", f"{measure}, mean over seeds", scores, table["min"])
    return case_lines(table, x, y, tooltip, bars=[("min", "max")])


@chart("Subnetworks", "ablated-values", "What stands in for a removed unit", of="ablated_values")
def ablated_values_chart(tables: Tables) -> Any:
    """The same masks with the mean, with zero, with another example's value in place of what was removed. Lines join one
    mask."""
    table = judged(in_accuracy(tables["ablated_values"])).copy()
    measure, form = measure_of(tables["accuracy"])
    table["kind"] = ("cases: " + table["gold"]).where(table["domain"] == "challenge", "in domain")
    mean = table.groupby(["subnetwork", "target", "ablate", "kind"], sort=False)["value"].mean().reset_index()
    mean["part"] = mean["target"].map(percent)
    values, kinds = list(dict.fromkeys(mean["ablate"])), list(dict.fromkeys(mean["kind"]))
    panels = []
    for part in map(percent, shown(mean["target"])):
        base = alt.Chart(mean[mean["part"] == part]).encode(
            x=ordered(alt.X, "ablate", values, axis={"labelAngle": 0}),
            y=score_axis(alt.Y, "value", f"{measure}, mean over cases", tables["accuracy"], mean["value"]),
            tooltip=tips(f"subnetwork:N | what is removed becomes = ablate:N | of = kind:N | {measure} = value:Q {form}"),
        )
        lines = base.mark_line(opacity=0.35, color=GREENS[4]).encode(detail="subnetwork:N")
        dots = base.mark_circle(size=45, opacity=0.8, color=GREENS[4])
        columns = [
            (lines + dots)
            .transform_filter(alt.datum.kind == kind)
            .properties(width=min(420, room() // len(kinds) - 60), height=190, title=f"{kind}, {part}")
            for kind in kinds
        ]
        panels.append(alt.hconcat(*columns))
    return alt.vconcat(*panels)


@table("Subnetworks", "spread-table", "Every case in numbers", of="spread")  # tables 5 and 7
def spread_table(tables: Tables) -> str | None:
    """Over the subnetworks of one sparsity."""
    table, (measure, form) = judged(spread_of(tables)).copy(), measure_of(tables["accuracy"])
    table["case"], table["sparsity"] = where(table), table["target"].map(percent)
    scores, headings = ["full", "min", "max", "mean", "std"], {"gold": "right answer"}
    if measure != METRICS["accuracy"]:
        headings["full"] = f"full model ({measure})"
    columns = ["sparsity", "case", "gold", *scores, "n"]
    return html_table(table[columns], headings, dict.fromkeys(scores, written(form)))


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
    """A click on a heading sorts. The worst case is that of the cases that the full model handles."""
    accuracy = compared(in_accuracy(tables["accuracy"]))
    cases, (measure, form) = judged(accuracy), measure_of(accuracy)
    challenge = cases[cases["domain"] == "challenge"].groupby("subnetwork")["value"]
    kept = ["target", "seed", "unseen_kl", "heads", "mlps", "units", "encoder_share", "all_share"]
    table = tables["sizes"].set_index("subnetwork")[kept].copy()
    table["target"] = table["target"].where((table["target"] > 0) | (table.index == "full"))
    inside = accuracy[accuracy["domain"] == "in-domain"].set_index("subnetwork")
    table["in domain"], table["agrees with full"], table["KL"] = inside["value"], inside["agreement"], inside["kl"]
    if len(challenge):
        handled = cases[(cases["domain"] == "challenge") & (cases["dataset"] + cases["case"]).isin(handled_by_full(cases))]
        table["cases, mean"], table["worst case"] = challenge.mean(), handled.groupby("subnetwork")["value"].min()
    if tables["sizes"]["nested"].any():
        table["nested"] = tables["sizes"].set_index("subnetwork")["nested"].map({True: "yes", False: "no"})
    scores = ("in domain", "cases, mean", "worst case")
    headings = {} if measure == METRICS["accuracy"] else {"in domain": f"in domain ({measure})"}
    return html_table(table.reset_index(), headings, {**dict.fromkeys(scores, written(form)), "agrees with full": share})


def handled_by_full(cases: pd.DataFrame) -> pd.Series:
    """Of a metric with other ends than accuracy, all of them."""
    full = cases[cases["subnetwork"] == "full"]
    return (full["dataset"] + full["case"])[(full["value"] >= HANDLES) | (full["metric"] != "accuracy")]


def headline(tables: Tables, model: str) -> str | None:
    if "spread" not in tables:
        return None
    spread = tables["spread"]
    cases = judged(spread)
    cases = cases[cases["domain"] == "challenge"]
    if cases.empty:
        return f"Subnetworks of {model}: no challenge set was given, so how they generalise is not known."
    lost = [(each.label, case) for each in models_of(tables) if (case := lost_by_all(each.tables)) is not None]
    if cases["subnetworks"].max() == 1 and not lost:
        return one_each(cases, model)
    if cases["subnetworks"].max() > 1 and cases["range_same"].isna().all():
        return (
            f"Subnetworks of {model}: no two converged ones are equal in domain at one sparsity, so seeds cannot be compared."
        )
    found = [(each.label, pair) for each in models_of(tables) if (pair := quotable(each.tables)) is not None]
    if not found:
        if lost:
            return agreed(model, *max(lost, key=lambda one: float(one[1]["full"] - one[1]["mean"])))
        if "differences" not in tables:
            return untested(model, cases)
        return f"Subnetworks of {model} that are equal in domain cannot be told apart on any challenge case, either."
    label, pair = max(found, key=lambda one: float(one[1]["difference"]))
    model += f" ({label})" if label else ""
    better, worse = (f"{pair[who]} ({pct(pair[f'{who}_inside'])})" for who in ("one", "other"))
    return (
        f"Two subnetworks of {model} that are equal in domain, {better} and {worse}, differ by {100 * pair['difference']:.0f} "
        f"points on “{name(pair)}”: {100 * pair['one_value']:.0f} and {100 * pair['other_value']:.0f} % right.{pair['why']}"
    )


def one_each(cases: pd.DataFrame, model: str) -> str:
    """Where there is one subnetwork of a model at a size, with nothing that it loses."""
    tunings = len(cases.drop_duplicates(["task", "tuning"]))
    if tunings == 1:
        return f"One subnetwork of {model} at each sparsity: how far seeds differ is not known."
    return f"One subnetwork of each of {tunings} fine-tunings of {model} at a sparsity: how far searches differ is not known."


def untested(model: str, cases: pd.DataFrame) -> str:
    """Where answers are numbers: none is right or wrong, and no test is made of them."""
    widest = largest(cases, cases["range_same"])
    return (
        f"Subnetworks of {model} that are equal in domain differ by up to {widest['range_same']:.2f} on “{name(widest)}” "
        f"({METRICS.get(widest['metric'], widest['metric'])}); whether that is more than chance is not tested."
    )


def lost_by_all(tables: Tables) -> pd.Series | None:
    """The case that falls the furthest, of those that every subnetwork of a size loses; with what these have in domain."""
    if "verdicts" not in tables:
        return None
    keys = ["target", "dataset", "case"]
    verdicts, spread = first_mode(tables["verdicts"]), tables["spread"]
    gone = (verdicts["verdict"] == LOST).groupby([verdicts[key] for key in keys]).transform("all")
    lost = verdicts.loc[gone & (verdicts["domain"] == "challenge"), keys].drop_duplicates()
    cases = judged(spread[spread["domain"] == "challenge"]).merge(lost, on=keys)
    if cases.empty:
        return None
    case = cases.iloc[int((cases["full"] - cases["mean"]).to_numpy().argmax())].copy()
    inside = verdicts[(verdicts["domain"] == "in-domain") & (verdicts["target"] == case["target"])]
    case["inside_full"] = inside["full"].iloc[0]
    case["inside_min"], case["inside_max"] = inside["value"].min(), inside["value"].max()
    case["different"] = different_masks(tables, inside["subnetwork"])
    return case


def agreed(model: str, label: str, case: pd.Series) -> str:
    """Seeds agree; what is lost is lost by all."""
    model += f" ({label})" if label else ""
    size = f"With {100 * case['target']:g} % of the units removed" if case["target"] else "Pruned to a threshold"
    who, lose = f"all {case['subnetworks']:.0f} subnetworks of {model} have", "all lose"
    if case["different"] == 1:
        who, lose = f"{case['subnetworks']:.0f} searches found one subnetwork of {model}: it has", "loses"
    if case["subnetworks"] == 1:
        who, lose = f"the one subnetwork of {model} has", "loses"
    return (
        f"{size}, {who} {span(case['inside_min'], case['inside_max'])} in domain "
        f"(full model: {pct(case['inside_full'])}), and {lose} "
        f"“{name(case)}”: {pct(case['full'])} right becomes {span(case['min'], case['max'])}."
    )


def quotable(tables: Tables) -> pd.Series | None:
    """The widest difference on a case that is more than chance, between comparable subnetworks that are equal in domain: within
    three points of each other, and no further apart than chance makes them. Of equally wide ones, the closest in domain.
    """
    if "differences" not in tables:
        return None
    accuracy, keys = tables["accuracy"], ["task", "tuning", "way", "target", "one", "other"]
    tests, domain = tables["differences"], dict(zip(accuracy["dataset"], accuracy["domain"], strict=True))
    inside = corrected(tests[tests["dataset"].map(domain) == "in-domain"]).set_index(keys)  # alone, as for `spread`
    same = inside[(inside["difference"].abs() <= SAME + 1e-9) & ~inside["real"]]["difference"].abs().rename("apart")
    cases = judged(tests[tests["dataset"].map(domain) == "challenge"])
    pairs = cases[cases["real"]].join(same, on=keys, how="inner")
    fine = set(tables["sizes"].loc[tables["sizes"]["comparable"].astype("boolean").fillna(True), "subnetwork"])
    pairs = pairs[pairs["one"].isin(fine) & pairs["other"].isin(fine)]
    if pairs.empty:
        return None
    order = pairs.assign(gap=-pairs["difference"].abs()).sort_values(["gap", "apart"], kind="stable")
    pair = order.iloc[0].copy()
    if pair["difference"] < 0:
        pair["one"], pair["other"], pair["difference"] = pair["other"], pair["one"], -pair["difference"]
    value = share_right(accuracy).set_axis(pd.MultiIndex.from_frame(accuracy[["subnetwork", "dataset", "case"]]))
    validation = next(name for name, where in domain.items() if where == "in-domain")
    for who in ("one", "other"):
        pair[f"{who}_value"] = value[pair[who], pair["dataset"], pair["case"]]
        pair[f"{who}_inside"] = value[pair[who], validation, "all"]
    pair["why"] = skill_or_readiness(tables, pair)
    return pair


@says(of="spread", single=False)
def models_point(tables: Tables) -> list[str]:
    said = []
    for (task, way, target), part in tables["spread"].groupby(["task", "way", "target"], sort=False):
        cases = judged(part)
        cases = cases[(cases["domain"] == "challenge") & cases["range_same"].notna()]
        if len(cases):
            widest = largest(cases, cases["range_same"])
            gap = f"up to {100 * widest['range_same']:.0f} points on “{name(widest)}”"
            what = f"“{task}”, {percent(float(str(target)))} by {called(way)}"
            said.append(f"{what}: subnetworks of one model that are equal in domain differ by {gap}.")
    return said


@says(of="spread differences", sure=True)
def difference_point(tables: Tables) -> list[str]:
    """How many of the differences between seeds are more than chance."""
    every = two_masks(tables)
    tests = judged(every)
    challenge = set(tables["spread"].loc[tables["spread"]["domain"] == "challenge", "dataset"])
    inside, cases = (tests[tests["dataset"].isin(challenge) == outside] for outside in (False, True))
    if cases.empty:
        return []
    real, whole = int(cases["real"].sum()), every.drop(tests.index)  # sets of several cases, as a whole
    text = f"Of {len(cases)} comparisons of two subnetworks of one sparsity on one case, {real} differ{'s' * (real == 1)}"
    if len(cases) == 1:
        text = f"Two subnetworks of one sparsity, compared on one case, {'differ' if real else 'do not differ'}"
    told = [
        f"{place}, {rows['real'].sum()} of {len(rows)} {'does' if rows['real'].sum() == 1 else 'do'}"
        for place, rows in (("on all cases of a set together", whole), ("in domain", inside))
        if len(rows)
    ]
    return [f"{text} by more than chance; {'; '.join(told)} (McNemar's test, Holm's correction)."]


def two_masks(tables: Tables) -> pd.DataFrame:
    """The comparisons without those of a mask with itself, which two searches have found."""
    tests, masks = tables["differences"], masks_of(tables)
    same = [masks.get(one, one) == masks.get(other, other) for one, other in zip(tests["one"], tests["other"], strict=True)]
    return tests[~np.array(same, bool)]
