"""Units removed from the full model."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from corewood.analyse.ablation import BEYOND, INSIDE, OUTSIDE, widened
from corewood.report.html import html_table, in_points, share
from corewood.report.items import chart, says, table
from corewood.report.skills import skill_name
from corewood.report.style import (
    GREY,
    INK,
    LINES,
    MARK,
    PAPER,
    RED_TO_BLUE,
    Tables,
    coloured,
    in_rows,
    ordered,
    ringed,
    room,
    tips,
    unit_places,
)
from corewood.report.verdicts import examples_of
from corewood.report.words import count, joined, largest, signed

COLUMNS = 8  # cases that fit beside each other
HEADS = 8  # lines that have a colour of their own
EXAMPLES = "examples"
CORE, OTHERS, AVERAGE = "core", "other heads of the core", "average head outside the core"


def is_list(ablation: pd.DataFrame) -> pd.Series:
    """Rows over a list of cases that the study is about."""
    return (ablation["case"] == ablation["focus"]) & (ablation["focus"] != "")


def whole_sets(ablation: pd.DataFrame) -> pd.DataFrame:
    """Rows over whole sets: in domain, and the cases in focus (or all) of each challenge set; changes in points."""
    listed = is_list(ablation)
    focused = set(ablation.loc[listed, "dataset"])
    rows = ablation[listed | ((ablation["case"] == "all") & ~ablation["dataset"].isin(focused))].copy()
    rows["where"] = ("on " + rows["dataset"]).where(rows["domain"] == "challenge", "in domain: " + rows["dataset"])
    rows.loc[rows["domain"] == "in-domain", "where"] = "in domain"
    names = rows["case"].replace("focus", "cases in focus")
    rows["where"] += (", " + names).where(rows["case"] != "all", "")
    ends = ("", "_low", "_high")
    for column in ("change", "low", "high", *(name + end for name in ("interaction", "pure") for end in ends)):
        rows[column] = 100 * rows[column]
    return rows


def called(ablation: pd.DataFrame) -> pd.Series:
    """Names of what was removed; a whole core of many heads by what it is."""
    whole = ablation["set"].str.contains(CORE) & (ablation["size"] > 3)
    return ablation["units"].mask(whole, "all " + ablation["size"].astype(str) + " heads of the core")


@chart("Ablations", "ablation", "Every unit alone", of="ablation")
def ablation_chart(tables: Tables) -> Any:
    """The change in accuracy, in points, when one unit is removed from the full model; rings mark the core. Each panel
    has the scale of its heads; an MLP that costs more has the strongest red."""
    rows = whole_sets(tables["ablation"])
    rows = rows[rows["kind"].isin(["head", "mlp"])].copy()
    if rows.empty or rows["units"].nunique() < 6:
        return None
    place = rows["units"].str.extract(r"L(\d+)\.(?:H(\d+)|MLP)")
    rows["layer"], rows["unit"] = place[0].astype(int), place[1].fillna("MLP")
    columns = [str(i) for i in sorted({int(u) for u in rows["unit"] if u != "MLP"})] + ["MLP"]
    cell = max(17, min(32, room(across=2, beside=60) // len(columns)))
    panels = []
    for name, part in rows.groupby("where", sort=False):
        heads = part.loc[part["kind"] == "head", "change"].abs()
        limit = max(0.5, float(heads.max()) if len(heads) else 0.0)  # an MLP may cost far more: it is drawn as the limit
        scale = {"range": RED_TO_BLUE, "interpolate": "rgb", "domain": [-limit, limit], "clamp": True}
        base = alt.Chart(part[["layer", "unit", "units", "change", "low", "high", "core", "n"]]).encode(
            **unit_places(columns),
            tooltip=tips("units:N | change, points = change:Q +.1f | low:Q +.1f | high:Q +.1f | in the core = core:N | n:Q"),
        )
        cells = base.mark_rect(stroke=PAPER).encode(
            color=alt.Color("change:Q", title="points", scale=scale, legend={"orient": "right", "gradientLength": 120})
        )
        rings = ringed(base.transform_filter(alt.datum.core), cell * 8)
        panels.append(alt.layer(cells, *rings).properties(width=alt.Step(cell), height=alt.Step(cell), title=str(name)))
    return in_rows(panels).resolve_scale(color="independent")


@table("Ablations", "ablation-table", "Core heads removed one by one", of="ablation")  # tables 3, 4, 6, 8
def ablation_table(tables: Tables) -> str | None:
    """Accuracy in per cent without the unit, and the change in points; a star where the paired 95 % interval leaves out
    zero. Without cases in focus, those columns that change most in these rows."""
    ablation = tables["ablation"].assign(units=called(tables["ablation"]))
    ablation = ablation[ablation["kind"] != "contrast"]
    shown = ablation[ablation["core"] | ~ablation["kind"].isin(["head", "mlp"])]
    if ablation["core"].sum() == 0:
        shown = ablation
    sets = shown[shown["kind"] == "set"]["units"].unique()
    shown = shown[(shown["kind"] != "set") | shown["units"].isin(sets[:20])]
    columns, known = ablation_columns(shown)
    rows: dict[str, dict[str, Any]] = {EXAMPLES: {}, "none: the full model": {}}
    value: dict[tuple[str, str, str], Any] = {(r.units, r.dataset, r.case): r for r in shown.itertuples()}  # type: ignore[misc]
    averages = [u for u in (OUTSIDE, INSIDE) if (shown["units"] == u).any()]
    order = [*averages, *(u for u in dict.fromkeys(shown["units"]) if u not in averages)]
    for dataset, case, heading in columns:
        for units in order:
            found = value.get((units, dataset, case))
            if found is not None:
                rows[EXAMPLES][heading] = f"{found.n:,.0f}"
                rows["none: the full model"][heading] = share(float(found.full))
                sure = found.low > 0 or found.high < 0
                text = f"{100 * found.value:.1f} ({in_points(found.change)}{'*' if sure else ''})"
                rows.setdefault(units, {})[heading] = text
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("removed").reset_index()
    cases = len(columns) - len(shown.loc[shown["domain"] != "challenge", "dataset"].unique())
    note = f"<p>{cases} of {known} cases, those that change most.</p>" if cases < known else ""
    return note + html_table(table.fillna("\u2013"), fixed=2)


def ablation_columns(ablation: pd.DataFrame) -> tuple[list[tuple[str, str, str]], int]:
    """(dataset, case, heading): in domain, then the cases in focus; without focus, those that change most in the rows given.
    And how many cases there are."""
    inside = [(str(d), "all", "in domain") for d in ablation.loc[ablation["domain"] == "in-domain", "dataset"].unique()]
    too = ablation.loc[ablation["domain"] == "in-domain too", "dataset"].unique()
    inside += [(str(d), "all", f"in domain: {d}") for d in too]
    cases = ablation[(ablation["domain"] == "challenge") & ~is_list(ablation)]
    cased = set(cases.loc[cases["case"] != "all", "dataset"])
    cases = cases[(cases["case"] != "all") | ~cases["dataset"].isin(cased)]
    if (cases["focus"] != "").any():
        cases = cases[cases["focus"] != ""]
    largest = cases.groupby(["dataset", "case"], sort=False)["change"].agg(lambda c: c.abs().max())
    keys = list(largest.sort_values(ascending=False, kind="stable").index[:COLUMNS])
    ordered = [key for key in largest.index if key in keys]
    several = cases["dataset"].nunique() > 1
    named = [(str(d), str(c), str(d) if c == "all" else f"{d}: {c}" if several else str(c)) for d, c in ordered]
    return inside + named, len(largest)


@table("Ablations", "ablation-skills", "Skills without a core head", of="skill_ablation")
def skill_ablation_table(tables: Tables) -> str | None:
    """Balanced accuracy in per cent without the unit, and the change in points; a star where the paired 95 % interval leaves
    out zero. A head whose removal changes cases and not their skills moves the prior."""
    rows = tables["skill_ablation"]
    single = rows[rows["kind"].isin(["head", "mlp"])]
    shown = pd.concat([rows[rows["kind"] == "average"], single[single["core"]] if single["core"].any() else single])
    several = rows["dataset"].nunique() > 1
    lines: dict[str, dict[str, str]] = {EXAMPLES: {}, "none: the full model": {}}
    for row in shown.to_dict("records"):
        skill, sure = skill_name(row["dataset"], row["case"], several), row["low"] > 0 or row["high"] < 0
        lines[EXAMPLES][skill] = f"{row['n']:,.0f}"
        lines["none: the full model"][skill] = share(row["full"])
        lines.setdefault(row["units"], {})[skill] = (
            f"{100 * row['value']:.1f} ({in_points(row['change'])}{'*' if sure else ''})"
        )
    table = pd.DataFrame.from_dict(lines, orient="index").rename_axis("removed").reset_index()
    return html_table(table, fixed=2) if len(shown) else None


@chart("Ablations", "interactions", "Together and apart", of="ablation")
def interactions_chart(tables: Tables) -> Any:
    """Units removed together: their joint change minus the sum of their single ones, with its 95 % interval. Where it has
    the sign of the joint change, they matter more together than apart: each does what the other would have done. Where it
    has the other sign, one of them missing is nearly as bad as both: they are steps of one and the same path."""
    rows = whole_sets(tables["ablation"])
    rows = rows[(rows["kind"] == "set") & rows["interaction"].notna()]
    if rows.empty:
        return None
    rows = rows.assign(name=called(rows))
    last = rows[rows["where"] == list(dict.fromkeys(rows["where"]))[-1]]
    chosen = list(last.reindex(last["interaction"].abs().sort_values(ascending=False, kind="stable").index)["name"][:30])
    width = room(chosen, min(2, rows["where"].nunique()))
    panels = []
    for name, part in rows[rows["name"].isin(chosen)].groupby("where", sort=False):
        shown = part[["name", "interaction", "interaction_low", "interaction_high", "pure", "change", "n"]]
        base = alt.Chart(shown).encode(
            y=ordered(alt.Y, "name", chosen),
            tooltip=tips(
                "units = name:N | joint change, points = change:Q +.1f | beyond the sum = interaction:Q +.1f | "
                "95 % interval from = interaction_low:Q +.1f | to = interaction_high:Q +.1f | "
                "beyond all smaller sets = pure:Q +.1f | n:Q"
            ),
        )
        title = "joint change minus the sum of single changes, points"
        bars = base.mark_rule(strokeWidth=2, color=INK).encode(
            x=alt.X("interaction_low:Q", title=title, axis={"tickCount": 6}), x2="interaction_high:Q"
        )
        dots = base.mark_circle(size=50, color=MARK).encode(x="interaction:Q")
        zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=INK, strokeDash=[2, 2]).encode(x="x:Q")
        panels.append((zero + bars + dots).properties(width=width, height=alt.Step(16), title=str(name)))
    return in_rows(panels)


@chart("Ablations", "ablation-over-training", "When heads of the core begin to matter", of="ablation_over_training")
def over_training_chart(tables: Tables) -> Any:
    """The change in accuracy, in points, when one head of the core is removed from the model as it was at each checkpoint;
    dashed, the average head outside the core. Hollow points are before fine-tuning, where the classifier is new and its
    answers are chance: what a head does to them there means little."""
    rows = whole_sets(tables["ablation_over_training"])
    heads = rows[(rows["kind"] == "head") & (rows["core"] if rows["core"].any() else True)]
    if heads.empty:
        return None
    most = heads[heads["checkpoint"] > 0].groupby("units", sort=False)["change"].agg(lambda change: change.abs().max())
    named = list(most.sort_values(ascending=False, kind="stable").index[:HEADS])
    lines = pd.concat([heads, rows[rows["units"] == OUTSIDE]])
    lines["line"] = lines["units"].where(lines["units"].isin(named), OTHERS).mask(lines["units"] == OUTSIDE, AVERAGE)
    names = [name for name in (*named, OTHERS, AVERAGE) if (lines["line"] == name).any()]
    colours = [*LINES[: len(named)], *([GREY] if OTHERS in names else []), INK]
    panels = []
    for place, part in lines.groupby("where", sort=False):
        base = alt.Chart(part[["units", "line", "checkpoint", "change", "low", "high", "n"]]).encode(
            x=alt.X("checkpoint:Q", title="fine-tuning step"),
            y=alt.Y("change:Q", title="change in accuracy, points"),
            color=coloured("line", names, colours),
            detail="units:N",
            tooltip=tips(
                "removed = units:N | step = checkpoint:Q | change, points = change:Q +.1f | low:Q +.1f | high:Q +.1f | n:Q"
            ),
        )
        average = alt.datum.line == AVERAGE
        layers = [base.transform_filter(~average).mark_line(strokeWidth=1.8)]
        layers.append(base.transform_filter(average).mark_line(strokeDash=[4, 3], strokeWidth=1.8))
        layers.append(base.transform_filter(alt.datum.checkpoint > 0).mark_point(filled=True, size=32))
        layers.append(base.transform_filter(alt.datum.checkpoint == 0).mark_point(filled=False, size=32))
        panels.append(
            alt.layer(*layers).properties(width=room(across=min(2, lines["where"].nunique())), height=240, title=str(place))
        )
    return in_rows(panels)


@says(of="ablation", single=True)
def ablation_point(tables: Tables) -> list[str]:
    """The core head whose removal changes most, and how far heads of the core are from others on average."""
    rows = whole_sets(tables["ablation"])
    core, averages = rows[rows["core"] & (rows["kind"] == "head")], rows[rows["kind"].isin(["average", "contrast"])]
    parts = []
    for place in dict.fromkeys(rows["where"]):
        mine, others = core[core["where"] == place], averages[averages["where"] == place].set_index("units")
        if len(mine) and len(others):
            most, apart = largest(mine, mine["change"].abs()), others.loc[BEYOND]
            alone = "" if most["low"] > 0 or most["high"] < 0 else ", whose interval holds 0"
            means = f"{signed(others.loc[INSIDE, 'change'])}, and {signed(others.loc[OUTSIDE, 'change'])} outside the core"
            sure = "" if apart["low"] > 0 or apart["high"] < 0 else ": no more than chance"
            parts.append(f"{place} by up to {signed(most['change'])} ({most['units']}{alone}; on average {means}{sure})")
    few = f" ({examples_of(core)} of each set)"
    text = f"Removing one head of the core from the full model changes accuracy, in points, {'; '.join(parts)}{few}."
    return [text] if parts else []


@says(of="ablation", single=True)
def together_point(tables: Tables) -> list[str]:
    """Whether heads of the core stand in for each other: all of them, then smaller sets."""
    rows = whole_sets(tables["ablation"])
    rows = rows[(rows["kind"] == "set") & rows["core"] & rows["interaction"].notna()]
    whole = rows["set"].str.contains(CORE) & (rows["size"] > 2)
    return whole_core(rows[whole]) + smaller_sets(rows[~whole])


def relation(rows: pd.DataFrame, tests: int) -> pd.Series:
    """1 where units matter clearly more together than apart, -1 where clearly less, 0 where that is open: more, where their
    interaction has the sign of the joint change."""
    low, high = widened(rows["interaction_low"], rows["interaction_high"], tests)
    more = rows["interaction"] * rows["change"] > 0
    return ((low > 0) | (high < 0)).astype(int) * (2 * more.astype(int) - 1)


def added(row: pd.Series) -> str:
    return (
        f"{signed(row['change'])} {row['where']}, where single changes add up to {signed(row['change'] - row['interaction'])}"
    )


def whole_core(rows: pd.DataFrame) -> list[str]:
    if rows.empty:
        return []
    relations = relation(rows, len(rows))
    found = set(relations) - {0}
    unclear = [str(place) for place in rows.loc[relations == 0, "where"]] if found else []
    means = {
        frozenset([1]): "together they matter more than apart, so core heads stand in for each other",
        frozenset([-1]): "together they matter less than apart, as steps of one path do",
        frozenset([1, -1]): "on some sets together they matter more than apart, on others less",
        frozenset(): "no clear sign that core heads stand in for each other",
    }
    changes, size = "; ".join(added(row) for _, row in rows.iterrows()), rows.iloc[0]["size"]
    begin = f"All {size} heads of the core removed at once change accuracy, in points, by {changes}"
    open_ = f"; {joined(unclear)} that is open" if unclear else ""
    return [f"{begin}: {means[frozenset(found)]}{open_}."]


def smaller_sets(rows: pd.DataFrame) -> list[str]:
    """Counted over sets and places; intervals are corrected for that many."""
    if rows.empty:
        return []
    who = f"Of {count(rows['units'].nunique(), 'set')} of core heads removed together"
    if rows["set"].str.contains("top ").all():
        heads = dict.fromkeys(head for units in rows["units"] for head in units.split(" + "))
        who += f" ({joined(heads)}, which do most alone)"
    relations = relation(rows, len(rows))
    parts = []
    for kind, words in ((1, "clearly more together than apart: their heads stand in for each other"),
                        (-1, "clearly less together than apart, as steps of one path do")):  # fmt: skip
        mine = rows[relations == kind]
        if len(mine):
            most = largest(mine, mine["pure"].fillna(mine["interaction"]).abs())  # not one that only holds such a pair
            many = mine["units"].nunique()
            parts.append(f"{'one matters' if many == 1 else f'{many} matter'} {words} (most: {most['units']}, {added(most)})")
    found = "; ".join(parts) or "none matters clearly more or less than its heads do one by one"
    return [f"{who}, {found}."]
