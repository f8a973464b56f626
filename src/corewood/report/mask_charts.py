"""Charts of the masks themselves: which heads survive, how large they are, how each was found."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.report.style import GREENS, INK, LINES, MARK, PERCENT, Tables, in_rows, percent, share_axis, shown


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
    for target in shown(table["target"]):
        part = table[table["target"] == target]
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
        panels.append((cells + rings).properties(width=alt.Step(cell), height=alt.Step(cell), title=percent(target)))
    return in_rows(panels)


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
        sure = "masks are nested" if pd.isna(pair["p"]) else f"p {pair['p']:.2g}"
        label = "rho undefined: a frequency is constant"
        if pd.notna(pair["rho"]):
            label = f"Spearman's rho {pair['rho']:.2f} ({sure})"
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
    return in_rows(panels[:6])


def ranked_chart(tables: Tables) -> Any:
    """Figures 13 and 14: heads by how often they survive, most frequent first."""
    if "frequencies" not in tables:
        return None
    heads = tables["frequencies"][tables["frequencies"]["kind"] == "head"].copy()
    heads["unit"] = "L" + heads["layer"].astype(str) + ".H" + heads["index"].astype(str)
    first = heads[heads["target"] == heads["target"].max()].set_index("unit")["share"]
    total = heads.groupby("unit")["share"].sum()
    order = sorted(total.index, key=lambda u: (-float(first[u]), -float(total[u]), u))
    panels = []
    for target in reversed(shown(heads["target"])):
        part = heads[heads["target"] == target]
        panels.append(
            alt.Chart(part[["unit", "share", "count", "of"]])
            .mark_bar(color=GREENS[3])
            .encode(
                x=alt.X(
                    "unit:N",
                    scale=alt.Scale(domain=order),
                    title="heads, in the order of the sparsest" if target == heads["target"].min() else None,
                    axis=alt.Axis(labels=len(order) <= 80, labelFontSize=8, labelAngle=-90, ticks=False),
                ),
                y=share_axis(alt.Y, "share", "kept by"),
                tooltip=["unit:N", alt.Tooltip("count:Q", title="kept by"), alt.Tooltip("of:Q", title="of")],
            )
            .properties(width=max(320, min(900, 11 * len(order))), height=110, title=percent(float(target)))
        )
    return alt.vconcat(*panels)


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
            x=share_axis(alt.X, "share", "share of the full model that stays"),
            y=alt.Y("currency:N", scale=alt.Scale(domain=list(names.values())), title=None),
            row=alt.Row("part:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
            tooltip=["subnetwork:N", "currency:N", alt.Tooltip("share:Q", format=".3f"), "heads:Q", "mlps:Q"],
        )
        .properties(width=460, height=alt.Step(24))
    )


def trajectories_chart(tables: Tables) -> Any:
    """Each search: does the sparsity follow its target, does the KL stay low, does that of the hard mask settle?"""
    if "trajectories" not in tables:
        return None
    table = tables["trajectories"].copy()
    table["part"] = table["sparsity"].map(percent)
    sizes = list(dict.fromkeys(table.sort_values("sparsity")["part"]))
    steps = table[table["round"] == 0]
    every = max(1, int(steps["step"].max()) // 40)
    smooth = steps.groupby("subnetwork", sort=False)["kl"].transform(lambda kl: kl.rolling(2 * every + 5, min_periods=1).mean())
    steps = steps.assign(kl=smooth)[(steps["step"] % every == 0) | (steps["step"] == 1)].round(5)
    own = (table["round"] == 0) | (table["target"] == table["sparsity"])  # a path's other sizes have rounds of their own
    looks = table[own & table["held"].notna()]
    colour = alt.Color("part:N", title=None, scale=alt.Scale(domain=sizes, range=LINES))

    def lines(part: pd.DataFrame, numbers: list[str], x: str, title: str) -> Any:
        tips = ["subnetwork:N", "step:Q", *(alt.Tooltip(f"{c}:Q", format=".4f") for c in numbers)]
        columns = list(dict.fromkeys(["step", "subnetwork", "part", x, *numbers]))
        return alt.Chart(part[columns]).encode(
            x=alt.X(f"{x}:Q", title=title), color=colour, detail="subnetwork:N", tooltip=tips
        )  # fmt: skip

    base = lines(steps, ["target", "expected", "sampled", "closed", "kl", "live", "gap"], "step", "gradient step")
    thin = {"strokeWidth": 1.2, "opacity": 0.7}
    sparsity = base.mark_line(**thin).encode(y=alt.Y("expected:Q", title="expected sparsity", axis=alt.Axis(format=PERCENT)))
    target = base.mark_line(strokeDash=[4, 3], strokeWidth=2, color=INK).encode(y="target:Q", color=alt.value(INK))
    kl = base.mark_line(**thin).encode(
        y=alt.Y("kl:Q", title="KL of soft gates, smoothed", scale=alt.Scale(type="symlog", constant=0.01))
    )
    held = lines(looks, ["held", "examples"], "examples", "examples run").encode(
        y=alt.Y("held:Q", title="KL of the hard mask, held out", scale=alt.Scale(type="symlog", constant=0.01))
    )
    panels = [sparsity + target, kl, held.mark_line(**thin) + held.mark_point(size=14, filled=True, opacity=0.8)]
    return alt.hconcat(*(p.properties(width=230, height=190) for p in panels))
