"""The charts of the report: tables in, one Vega-Lite chart each out.

The same chart is interactive on the page and a vector figure in a paper. A chart a study has no data for is left out.
Orders are given as scale domains, never as `sort` lists: Vega-Lite turns those into expressions, where a case that is
called "if" is read as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

Tables = Mapping[str, pd.DataFrame]

INK, PALE, MARK = "#22302a", "#d9ded9", "#b5472f"
GREENS = ["#f4f6f2", "#cfe0cf", "#8fbb97", "#4b8b63", "#1f5d3f"]
LINES = ["#1f5d3f", "#b5472f", "#c98a1b", "#3f6fa3", "#7a4f9a", "#5f8f2f", "#a83e6c", "#2f8f8f", "#8a6a4f", "#55606b"]
PERCENT = ".0%"


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    text: str  # what to see in it, one or two sentences
    chart: Any


def percent(sparsity: float) -> str:
    return f"{100 * sparsity:g} % removed"


def styled(chart: Any) -> Any:
    return (
        chart.configure(font="Helvetica, Arial, sans-serif", background="white")
        .configure_axis(gridColor="#e8ece8", domainColor="#9aa59e", tickColor="#9aa59e", labelColor=INK, titleColor=INK)
        .configure_axis(titleFontWeight="normal", labelFontSize=11, titleFontSize=12, labelLimit=260)
        .configure_legend(labelColor=INK, titleColor=INK, titleFontWeight="normal", labelFontSize=11, labelLimit=240)
        .configure_header(labelColor=INK, titleColor=INK, labelFontSize=12, labelFontWeight="bold")
        .configure_view(stroke="#e1e6e1")
        .configure_title(color=INK, fontSize=13, anchor="start")
    )


def order_of_cases(spread: pd.DataFrame) -> list[str]:
    """In-domain first, then case by case, group by group, as the data has them."""
    cases = spread.drop_duplicates("where")
    return list(cases.sort_values(["domain", "group"], ascending=[False, True], kind="stable")["where"])


def where(table: pd.DataFrame) -> pd.Series:
    """What a row is about: in domain, a case, or a whole challenge set."""
    several = table.loc[table["domain"] == "challenge", "dataset"].nunique() > 1
    names = []
    for _, row in table.iterrows():
        if row["domain"] == "in-domain":
            names.append("in domain")
        elif row["case"] == "all":
            names.append(f"{row['dataset']}: all")
        else:
            names.append(f"{row['dataset']}: {row['case']}" if several else str(row["case"]))
    return pd.Series(names, index=table.index, dtype=object)


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
    x = alt.X("value:Q", title="accuracy", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1]))
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
    cases = rows[(rows["domain"] == "challenge") & ((rows["case"] != "all") | ~rows["dataset"].isin(with_cases(rows)))]
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
            y=alt.Y("value:Q", title="mean accuracy over cases", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1])),
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


def with_cases(rows: pd.DataFrame) -> set[str]:
    return set(rows.loc[(rows["case"] != "all"), "dataset"])


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
        color=alt.Color(
            "where:N",
            title="click to pick",
            scale=alt.Scale(domain=order, range=cycle(len(order))),
            legend=alt.Legend(columns=max(1, -(-len(order) // 16))),
        ),
        opacity=alt.condition(chosen, alt.value(0.95), alt.value(0.06)),
    )
    lines = base.mark_line(point=True, strokeWidth=2).encode(
        y=alt.Y("mean:Q", title="accuracy, mean over seeds", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1])),
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


def cycle(count: int) -> list[str]:
    return [INK, *(LINES[i % len(LINES)] for i in range(count - 1))]


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
        y=alt.Y("value:Q", title="accuracy of the full model", axis=alt.Axis(format=PERCENT), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color(
            "where:N",
            title="click to pick",
            scale=alt.Scale(domain=order, range=cycle(len(order))),
            legend=alt.Legend(columns=max(1, -(-len(order) // 16))),
        ),
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


def heads_chart(tables: Tables) -> Any:
    """How often each head survives; the core (in all subnetworks of all sparsities) has a ring."""
    if "frequencies" not in tables:
        return None
    table = tables["frequencies"].copy()
    table["unit"] = table["index"].astype(str).where(table["kind"] == "head", "MLP")
    table["name"] = (
        "L" + table["layer"].astype(str) + "." + ("H" + table["index"].astype(str)).where(table["kind"] == "head", "MLP")
    )
    members = set(str(tables["core"].iloc[-1]["members"]).split())
    table["core"] = table["name"].isin(members)
    columns = [str(i) for i in sorted(set(table.loc[table["kind"] == "head", "index"]))] + ["MLP"]
    panels = []
    cell = 26 if len(columns) <= 17 else 18
    for target, part in table.groupby("target"):
        base = alt.Chart(part[["layer", "unit", "name", "count", "of", "share", "core"]]).encode(
            x=alt.X("unit:N", scale=alt.Scale(domain=columns), title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            tooltip=[
                alt.Tooltip("name:N", title="unit"),
                alt.Tooltip("count:Q", title="kept by"),
                alt.Tooltip("of:Q", title="of"),
                alt.Tooltip("share:Q", format=".2f"),
                alt.Tooltip("core:N", title="in the core"),
            ],
        )
        cells = base.mark_rect(stroke="white").encode(
            color=alt.Color(
                "share:Q",
                title="share of subnetworks that keep it",
                scale=alt.Scale(domain=[0, 1], range=GREENS),
                legend=alt.Legend(format=PERCENT, orient="bottom"),
            )
        )
        rings = base.transform_filter(alt.datum.core).mark_point(shape="circle", size=cell * 9, color=MARK, strokeWidth=2.5)
        panels.append((cells + rings).properties(width=alt.Step(cell), height=alt.Step(cell), title=percent(float(target))))  # type: ignore[arg-type]
    return alt.hconcat(*panels)


def two_sparsities_chart(tables: Tables) -> Any:
    """Figure 5: in how many subnetworks of one sparsity a head survives, against the other."""
    if "frequencies" not in tables or tables["rank_correlations"].empty:
        return None
    heads = tables["frequencies"][tables["frequencies"]["kind"] == "head"]
    panels = []
    for _, pair in tables["rank_correlations"].iterrows():
        wide = heads[heads["target"].isin([pair["target"], pair["other"]])].pivot(
            index=["layer", "index"], columns="target", values="count"
        )
        joint = wide.groupby([pair["target"], pair["other"]]).size().rename("heads").reset_index()
        joint.columns = pd.Index(["one", "other", "heads"])
        label = (
            "rho undefined: a frequency is constant"
            if pd.isna(pair["rho"])
            else f"Spearman's rho {pair['rho']:.2f} (p {pair['p']:.2g})"
        )
        base = alt.Chart(joint).encode(
            x=alt.X(
                "one:O", title=f"subnetworks with {percent(pair['target'])} that keep the head", axis=alt.Axis(labelAngle=0)
            ),
            y=alt.Y("other:O", title=f"with {percent(pair['other'])}", sort="descending"),
            tooltip=[
                alt.Tooltip("one:O", title=percent(pair["target"])),
                alt.Tooltip("other:O", title=percent(pair["other"])),
                "heads:Q",
            ],
        )
        cells = base.mark_rect().encode(color=alt.Color("heads:Q", scale=alt.Scale(range=GREENS), title="heads"))
        numbers = base.mark_text(fontSize=11).encode(
            text="heads:Q",
            color=alt.condition(alt.datum.heads > joint["heads"].max() * 0.6, alt.value("white"), alt.value(INK)),
        )
        panels.append((cells + numbers).properties(width=alt.Step(34), height=alt.Step(30), title=label))
    return alt.vconcat(*[alt.hconcat(*panels[i : i + 2]) for i in range(0, min(len(panels), 6), 2)])


def sizes_chart(tables: Tables) -> Any:
    """One mask, three currencies."""
    if "sizes" not in tables:
        return None
    names = {"units_share": "units", "encoder_share": "encoder parameters", "all_share": "all parameters"}
    table = tables["sizes"][tables["sizes"]["target"] > 0].melt(
        ["subnetwork", "target", "heads", "mlps"], list(names), var_name="currency", value_name="share"
    )
    table["currency"] = table["currency"].map(names)
    table["part"] = table["target"].map(percent)
    return (
        alt.Chart(table)
        .mark_tick(thickness=2, size=18, opacity=0.7, color=GREENS[4])
        .encode(
            x=alt.X(
                "share:Q",
                title="share of the full model that stays",
                axis=alt.Axis(format=PERCENT),
                scale=alt.Scale(domain=[0, 1]),
            ),
            y=alt.Y("currency:N", scale=alt.Scale(domain=list(names.values())), title=None),
            row=alt.Row("part:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
            tooltip=["subnetwork:N", "currency:N", alt.Tooltip("share:Q", format=".3f"), "heads:Q", "mlps:Q"],
        )
        .properties(width=460, height=alt.Step(24))
    )


def trajectories_chart(tables: Tables) -> Any:
    """Each search: does the sparsity follow its target, does the KL stay low, are gates still undecided at the end?"""
    if "trajectories" not in tables:
        return None
    table = tables["trajectories"].copy()
    every = max(1, int(table["step"].max()) // 40)
    smooth = table.groupby("subnetwork", sort=False)["kl"].transform(lambda kl: kl.rolling(2 * every + 5, min_periods=1).mean())
    table = table.assign(kl=smooth)[(table["step"] % every == 0) | (table["step"] == 1)].round(4)
    table["part"] = table["sparsity"].map(percent)
    sizes = list(dict.fromkeys(table.sort_values("sparsity")["part"]))
    numbers = ["target", "expected", "sampled", "closed", "kl", "live", "gap"]
    columns = ["step", "subnetwork", "part", *numbers]
    base = alt.Chart(table[columns]).encode(
        x=alt.X("step:Q", title="search step"),
        color=alt.Color("part:N", title=None, scale=alt.Scale(domain=sizes, range=LINES)),
        detail="subnetwork:N",
        tooltip=[
            "subnetwork:N",
            "step:Q",
            *(alt.Tooltip(f"{c}:Q", format=".3f") for c in numbers),
        ],
    )
    sparsity = base.mark_line(strokeWidth=1.2, opacity=0.7).encode(
        y=alt.Y("expected:Q", title="expected sparsity", axis=alt.Axis(format=PERCENT))
    )
    target = base.mark_line(strokeDash=[4, 3], strokeWidth=2, color=INK).encode(y="target:Q", color=alt.value(INK))
    kl = base.mark_line(strokeWidth=1.2, opacity=0.7).encode(
        y=alt.Y("kl:Q", title="KL from the full model, smoothed", scale=alt.Scale(type="symlog", constant=0.01))
    )
    gap = base.mark_line(strokeWidth=1.2, opacity=0.7).encode(y=alt.Y("gap:Q", title="soft gates against final mask"))
    panels = [p.properties(width=230, height=190) for p in (sparsity + target, kl, gap)]
    return alt.hconcat(*panels)


CHARTS: tuple[tuple[str, str, str, Callable[[Tables], Any]], ...] = (
    (
        "spread",
        "Subnetworks on every case",
        "Each dot is a subnetwork, the grey bar their range, the red tick the full model. Dots that lie together in domain and "
        "apart on a case are subnetworks that only look alike.",
        spread_chart,
    ),
    (
        "same-in-domain",
        "The same in domain, different outside",
        "One point per subnetwork. A column of points above each other has one in-domain accuracy and many kinds of behaviour.",
        same_in_domain_chart,
    ),
    (
        "sparsity",
        "Accuracy against sparsity",
        "Lines join the means over seeds, bars span from the worst to the best. Click a name to see "
        "it alone; shift-click adds.",
        sparsity_chart,
    ),
    (
        "heads",
        "Which heads survive",
        "Dark heads are kept by most subnetworks. A red ring marks the core: heads that every "
        "subnetwork keeps, at every sparsity.",
        heads_chart,
    ),
    (
        "two-sparsities",
        "Two sparsities against each other",
        "How many heads are kept by so many subnetworks of the one sparsity (across) and of the other (up).",
        two_sparsities_chart,
    ),
    (
        "dynamics",
        "Over training",
        "The full model at each checkpoint. Cases that rise after the in-domain line were learned on top of the shortcut.",
        dynamics_chart,
    ),
    ("sizes", "Sizes in three currencies", "Equal numbers of units are not equal numbers of parameters.", sizes_chart),
    (
        "trajectories",
        "How each search went",
        "The dashed line is the target. A search whose gates end far from its final mask, or whose KL is high, "
        "deserves less trust.",
        trajectories_chart,
    ),
)  # fmt: skip


def figures(tables: Tables) -> list[Figure]:
    alt.data_transformers.disable_max_rows()
    made = ((name, title, text, draw(tables)) for name, title, text, draw in CHARTS)
    return [Figure(name, title, text, styled(chart)) for name, title, text, chart in made if chart is not None]
