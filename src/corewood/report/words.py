"""The finding, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from corewood.analyse.ablation import OUTSIDE
from corewood.analyse.convergence import NOISE, RATIO
from corewood.analyse.core import DRAWS
from corewood.analyse.generalisation import judged
from corewood.evaluate.attention import KINDS as PLACES
from corewood.report.ablation_charts import whole_sets
from corewood.report.style import Tables, shown

QUESTION = "Does a subnetwork of this size still handle the hard cases?"
MARGIN = 0.03  # a case that falls by more than three points is not kept


@dataclass(frozen=True)
class Finding:
    headline: str
    points: list[str]


def pct(share: float) -> str:
    return f"{100 * share:.1f} %"


def span(low: float, high: float) -> str:
    return pct(low) if pct(low) == pct(high) else f"{pct(low)} to {pct(high)}"


def finding(tables: Tables, model: str) -> Finding:
    """What a reader should take away, from the tables alone."""
    if "spread" not in tables:
        return Finding("No subnetwork could be judged.", ["None has a full model to stand beside; see the holes below."])
    spread = tables["spread"]
    points = [point for target in shown(spread["target"]) for point in at_sparsity(spread, target)]
    points += [*difference_point(tables), *core_point(tables), *size_point(tables), *ablation_point(tables)]
    points += attention_point(tables)
    doubts, calm = convergence_points(tables)
    points = [*doubts, *points, *calm]
    return Finding(unfinished(tables) + headline(spread, model), points)


def unfinished(tables: Tables) -> str:
    """What a reader must know first: that searches of one size did not end equally well."""
    if "convergence" not in tables:
        return ""
    rows = tables["convergence"]
    bad = rows[rows["comparable"] < rows["searches"]]
    if bad.empty:
        return ""
    sizes = joined(f"{100 * t:g} %" for t in bad["target"])
    return f"Not all searches have converged (at {sizes} removed): what follows compares only those that have. "


def convergence_points(tables: Tables) -> tuple[list[str], list[str]]:
    """(where searches are not done, where they are): how those of each size ended, and whether their spread goes with that."""
    doubts: list[str] = []
    calm: list[str] = []
    for _, row in tables["convergence"].iterrows() if "convergence" in tables else ():
        if row["searches"] < 2:
            continue
        text = (
            f"With {100 * row['target']:g} % removed, {row['comparable']:.0f} of {row['searches']:.0f} searches ended within "
            f"{RATIO:g} times the lowest KL from the full model on held-out texts (or {NOISE:g} nats of it); "
            f"it runs from {row['lowest']:.2g} to {row['highest']:.2g}."
        )
        done = row["comparable"] == row["ended"] == row["searches"]
        if row["comparable"] < row["searches"]:
            text += " The others are unfinished searches."
        if row["ended"] < row["searches"]:
            ended = f"Only {row['ended']:.0f}" if row["ended"] else "None"
            text += f" {ended} ended by itself: more search may lower it, and steps: auto goes on until nothing does."
        if pd.notna(row["rho"]) and row["searches"] > 4:  # of fewer, a rank correlation says nothing
            text += f" Spearman's rho of KL and accuracy on the cases is {row['rho']:+.2f}".replace("-", "\u2212")
            text += f" (p = {row['p']:.2g})"
            if pd.notna(row["gap_best_half"]):
                best = f"{100 * row['gap_best_half']:.0f} of the {100 * row['gap']:.0f} points"
                text += f"; the best half by KL still has {best} of the widest gap on a case"
            text += "."
        (calm if done else doubts).append(text)
    return doubts, calm


def largest(rows: pd.DataFrame, by: pd.Series) -> pd.Series:
    return rows.iloc[int(by.fillna(-1).to_numpy().argmax())]


def headline(spread: pd.DataFrame, model: str) -> str:
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


def at_sparsity(spread: pd.DataFrame, target: float) -> list[str]:
    rows = judged(spread[spread["target"] == target])
    inside = rows[rows["domain"] == "in-domain"].iloc[0]
    cases = rows[rows["domain"] == "challenge"]
    one = int(inside["subnetworks"]) == 1
    who = "one subnetwork keeps" if one else f"{inside['subnetworks']} subnetworks keep"
    text = (
        f"With {100 * target:g} % of the units removed, {who} "
        f"{span(inside['min'], inside['max'])} in domain (full model: {pct(inside['full'])})."
    )
    if cases.empty:
        return [text]
    hard = cases[cases["full"] >= 0.5]  # below, the full model itself does not handle the case
    low, high = pct(cases["min"].min()), pct(cases["max"].max())
    text += f" On the challenge cases {'it ranges' if one else 'they range'} from {low} to {high}"
    if not one:
        widest = largest(cases, cases["range"])
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
        verdict = (
            f"{QUESTION} No: {len(lost)} of the {len(hard)} that the full model handles lose more "
            f"than three points on average, most of all “{name(worst)}” ({pct(worst['full'])} to {pct(worst['mean'])})."
        )
    if len(unable) and not hard.empty:
        verdict += f" The full model itself does not handle {listed(unable)}."
    return [text, verdict]


def count(number: int, one: str) -> str:
    return f"{'one' if number == 1 else number} {one}{'' if number == 1 else 's'}"


def joined(parts: Iterable[str]) -> str:
    every = list(parts)
    return " and ".join(filter(None, [", ".join(every[:-1]), every[-1]])) if every else ""


def listed(names: Iterable[str]) -> str:
    quoted = [f"“{n}”" for n in names]
    return f"{len(quoted)} of the cases" if len(quoted) > 4 else joined(quoted)


def probability(p: float) -> str:
    """A permutation p-value cannot be smaller than one over the number of draws."""
    return f"p ≤ {p:.1g}" if p <= 1.01 / (DRAWS + 1) else f"p = {p:.2g}"


def name(row: pd.Series) -> str:
    return str(row["case"] if row["case"] != "all" else row["dataset"])


def core_point(tables: Tables) -> list[str]:
    if "core" not in tables or tables["core"].empty:
        return []
    row = tables["core"].iloc[-1]
    if row["masks"] == 1:  # of one subnetwork everything is core
        return []
    return [
        f"The core, heads in all {row['masks']} subnetworks, has {row['heads']} heads; chance would give {row['expected']:.2g} "
        f"({probability(row['p'])}), or {row['expected_layers']:.2g} with as many heads in "
        f"each layer ({probability(row['p_layers'])}). "
        f"{row['mlps']} MLPs are in all of them."
    ]


def difference_point(tables: Tables) -> list[str]:
    """How many of the differences between seeds are more than chance."""
    if "differences" not in tables:
        return []
    tests = judged(tables["differences"])
    inside = tests[tests["dataset"] == "validation"]
    cases = tests[tests["dataset"] != "validation"]
    if cases.empty:
        return []
    text = (
        f"Of {len(cases)} comparisons of two subnetworks of one sparsity on one case, {int(cases['real'].sum())} differ by more"
    )
    return [
        f"{text} than chance; in domain, {int(inside['real'].sum())} of {len(inside)} do (McNemar's test, Holm's correction)."
    ]


def size_point(tables: Tables) -> list[str]:
    """Effective size at the first and the last checkpoint."""
    if "effective_size" not in tables:
        return []
    table = tables["effective_size"]
    table = table[table["chosen"]].sort_values("checkpoint")
    parts = []
    for name in ("in domain", "challenge"):
        rows = table[table["set"] == name]
        if len(rows) > 1:
            first, last = rows.iloc[0], rows.iloc[-1]
            start, end = (f"{effective(row)} at step {row['checkpoint']}" for row in (first, last))
            parts.append(f"{name} it goes from {start} to {end}")
    return [f"Effective size, in units of the full model: {'; '.join(parts)}."] if parts else []


def effective(row: pd.Series) -> str:
    """A value, or the bound that it is."""
    size = f"{100 * row['effective_size']:.0f} %"
    if row["trivial"]:
        return "nothing to speak of (the full model is at the floor)"
    if row["ceiling"] == 1:
        return "100 % (nothing in the grid is faithful)"
    return f"at most {size}" if row["floor"] > 0 else size


def ablation_point(tables: Tables) -> list[str]:
    """The core head whose removal changes most, beside the average of the heads outside the core."""
    if "ablation" not in tables:
        return []
    rows = whole_sets(tables["ablation"])
    core, outside = rows[rows["core"] & (rows["kind"] == "head")], rows[rows["units"] == OUTSIDE]
    parts = []
    for place in dict.fromkeys(rows["where"]):
        mine, others = core[core["where"] == place], outside[outside["where"] == place]
        if len(mine) and len(others):
            most, average = largest(mine, mine["change"].abs()), others.iloc[0]
            change = f"{place} by up to {signed(most['change'])} ({most['units']})"
            parts.append(f"{change}, against {signed(average['change'])} for the average head outside the core")
    text = f"Removing one head of the core from the full model changes accuracy, in points, {'; '.join(parts)}."
    return [text] if parts else []


def signed(points: float) -> str:
    return "0.0" if abs(points) < 0.05 else f"{points:+.1f}".replace("-", "\u2212")


def attention_point(tables: Tables) -> list[str]:
    if "attention" not in tables or not tables["attention"]["core"].any():
        return []
    heads = tables["attention"].drop_duplicates("unit")
    does = heads.loc[heads["core"], "does"].value_counts()
    parts = [f"{count} of them {PLACES.get(str(kind), str(kind))}" for kind, count in does.items() if kind != "spread out"]
    rest = f"; {does['spread out']} spread their attention out" if "spread out" in does else ""
    if not parts:
        return [f"None of the {int(does.sum())} core heads sends a fifth of its attention beyond chance to one kind of place."]
    return [f"What the {int(does.sum())} core heads attend to most: {', '.join(parts)}{rest}."]
