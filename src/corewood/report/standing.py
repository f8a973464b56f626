"""Where subnetworks stand among random masks of their size and what other ways found."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.report.html import html_table, nats
from corewood.report.items import chart, says, table
from corewood.report.style import Tables, in_rows, ordered, percent, room, shown, tips
from corewood.report.ways import called
from corewood.report.ways_compared import ORDER, WAY_COLOURS, in_order

L0, RANDOM = "l0", "random"
LEAST = 1e-6  # nats: a logarithmic axis has no zero


@chart("Searches", "standing", "Where the subnetworks stand", of="standing")
def standing_chart(tables: Tables) -> Any:
    """KL from the full model on the texts that searches hold out: each line a mask, on a logarithmic axis. Random masks have as
    many heads and as many MLPs as the searches beside them; a search that ends among them has found nothing. What other ways
    removed for the same target need not be of one size."""
    rows = tables["standing"]
    rows = rows.assign(how=rows["way"].map(called), kl=rows["held_kl"].clip(lower=LEAST))
    ways = in_order(rows["way"])
    how, colours = [called(way) for way in ways], [WAY_COLOURS[ORDER.index(way)] for way in ways]
    limits = [float(rows["kl"].min()) / 1.3, float(rows["kl"].max()) * 1.3]
    axis = {"values": [10.0**k for k in range(-6, 3)], "format": "~g"}
    x = alt.X("kl:Q", title="held-out KL, nats", axis=axis, scale={"type": "log", "domain": limits, "nice": False})
    panels = []
    for target in shown(rows["target"]):
        here = rows[rows["target"] == target]
        panels.append(
            alt.Chart(here[["how", "kl", "held_kl", "subnetwork", "heads", "mlps"]])
            .mark_tick(thickness=2, size=16, opacity=0.75)
            .encode(
                x=x,
                y=ordered(alt.Y, "how", [name for name in how if (here["how"] == name).any()]),
                color=alt.Color("how:N", scale={"domain": how, "range": colours}, legend=None),
                tooltip=tips("subnetwork:N | way = how:N | held-out KL = held_kl:Q .3~g | heads:Q | MLPs = mlps:Q"),
            )
            .properties(width=room(how, min(2, len(shown(rows["target"])))), height=alt.Step(24), title=percent(target))
        )
    return in_rows(panels)


@table("Searches", "standing-table", "The same in numbers", of="standing")
def standing_table(tables: Tables) -> str | None:
    """Held-out KL over the masks of each way."""
    rows = tables["standing"]
    lines = []
    for target in sorted(rows["target"].unique()):
        for way in in_order(rows.loc[rows["target"] == target, "way"]):
            part = rows[(rows["target"] == target) & (rows["way"] == way)]
            kl = part["held_kl"].agg(["min", "median", "max"]).rename({"min": "lowest", "max": "highest"})
            sizes = {kind: either(part[kind]) for kind in ("heads", "mlps")}
            lines.append({"target": target, "way": called(way), "masks": len(part), **sizes, **kl})
    return html_table(pd.DataFrame(lines), {}, dict.fromkeys(("lowest", "median", "highest"), nats))


def either(counts: pd.Series) -> str:
    """34 to 36, or one number where they are the same; nothing where a way does not remove such."""
    low, high = counts.min(), counts.max()
    return "\u2013" if pd.isna(low) else f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"


@says(of="standing", sure=True)
def standing_points(tables: Tables) -> list[str]:
    """Of one model: KLs of several are not of one scale."""
    rows = tables["standing"]
    if len(rows.drop_duplicates(["task", "tuning"])) > 1:
        return []
    told, among = [], []
    for target in shown(rows["target"]):
        by_way = {str(way): part["held_kl"] for way, part in rows[rows["target"] == target].groupby("way")}
        if L0 not in by_way or RANDOM not in by_way:
            continue
        removed = f"{100 * target:g} % removed"
        names = {way: "random masks of that size" if way == RANDOM else called(way) for way in in_order(by_way) if way != L0}
        others = "; ".join(f"{name} {reach(by_way[way])}" for way, name in names.items())
        told.append(f"with {removed} {reach(by_way[L0])} ({others})")
        if by_way[L0].max() >= by_way[RANDOM].min():
            among.append(removed)
    if not told:
        return []
    said = f"KL from the full model on held-out texts: {', '.join(told)}."
    if among:
        said += f" Some searches end no closer to it than a random mask does ({', '.join(among)})."
    return [said]


def reach(values: pd.Series) -> str:
    low, high = f"{values.min():.2g}", f"{values.max():.2g}"
    return low if low == high else f"{low} to {high}"
