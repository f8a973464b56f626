"""Which way of pruning keeps generalisation, in words."""

from __future__ import annotations

import pandas as pd

from corewood.report.method_charts import METHODS
from corewood.report.style import Tables
from corewood.report.ticket_charts import quoted
from corewood.report.words import joined, signed

FEW = 3  # comparisons that are told one by one


def methods_headline(tables: Tables, model: str) -> str | None:
    """Where nothing but methods was compared: the best of them at the largest share removed, if it can be told."""
    rows, what = judged_on(tables)
    if rows.empty:
        return None
    if len(rows.drop_duplicates(["task", "dataset"])) > 1:
        keys = rows.drop_duplicates(["task", "dataset", "target"])
        return counted(rows[~rows["method"].isin(["full", "l0"])], len(keys), what)
    rows = rows[~rows["method"].isin(["full", "random"])]
    for target, here in sorted(rows.groupby("target"), reverse=True):
        apart = here[(here["difference_low"] > 0) | (here["difference_high"] < 0)]
        if apart.empty:
            continue
        best = here.iloc[int(here["value"].to_numpy().argmax())]
        worse = apart[apart["difference_high"] < 0].sort_values("value")
        if best["method"] != "l0" and not best["difference_low"] > 0:  # better or not cannot be told; what is worse can
            names = joined(METHODS[str(m)] for m in worse["method"])
            return (
                f"Pruned to the same size, subnetworks of {model} by {names} lose more of the {what} than those by L0 "
                f"({100 * float(str(target)):g} % removed)."
            )
        other = (worse if best["method"] == "l0" else here[here["method"] == "l0"]).iloc[0]
        return (
            f"Pruned to the same size, subnetworks of {model} by {METHODS[str(best['method'])]} keep the {what} "
            f"best: {100 * best['value']:.0f} % right with {100 * best['target']:g} % removed, against "
            f"{100 * other['value']:.0f} % by {METHODS[str(other['method'])]}."
        )
    return f"Ways of pruning {model} to the same size cannot be told apart on the {what}."


def judged_on(tables: Tables) -> tuple[pd.DataFrame, str]:
    """Whole challenge sets; without any, the report sets. And what to call them."""
    rows = tables.get("methods", pd.DataFrame(columns=["domain", "case"]))
    whole = rows[rows["case"] == "all"]
    challenge = whole[whole["domain"] == "challenge"]
    return (challenge, "challenge cases") if len(challenge) else (whole, "report set")


def methods_point(tables: Tables) -> list[str]:
    """On whole sets: which methods differ from L0 by more than their interval."""
    rows, what = judged_on(tables)
    if rows.empty:
        return []
    keys = list(dict.fromkeys(zip(rows["task"], rows["target"], rows["dataset"], strict=True)))
    others = rows[~rows["method"].isin(["l0", "full"])]
    if len(keys) > FEW:
        return [counted(others, len(keys), what)]
    several = len({(task, dataset) for task, _, dataset in keys}) > 1
    return [one_comparison(rows, key, what, several) for key in keys]


def one_comparison(rows: pd.DataFrame, key: tuple[str, float, str], what: str, several: bool) -> str:
    task, target, dataset = key
    here = rows[(rows["task"] == task) & (rows["target"] == target) & (rows["dataset"] == dataset)].set_index("method")
    others = here.drop(index=[m for m in ("l0", "full") if m in here.index])
    low, high = others["difference_low"], others["difference_high"]
    worse, better = ([told(m, r) for m, r in others[real].iterrows()] for real in (high < 0, low > 0))
    same = [METHODS[str(m)] for m in others.index[(low <= 0) & (high >= 0)]]
    place = (what if dataset == "report" else f"{what} of {quoted(dataset)}") + (f" ({quoted(task)})" if several else "")
    right = here["value"] * 100
    begin = f"With {100 * target:g} % removed, on the {place} L0 gets {right['l0']:.1f} % right"
    begin += f" (full model {right['full']:.1f} %)" if "full" in right.index else ""
    if not worse and not better:
        return f"{begin}, and the methods cannot be told apart: every interval of a difference from L0 holds zero."
    parts = [f"better than L0: {joined(better)}"] if better else []
    parts += [f"worse: {joined(worse)}"] if worse else []
    parts += [f"not to be told apart from it: {joined(same)}"] if same else []
    return f"{begin}; in points, {'; '.join(parts)}."


def told(method: object, row: pd.Series) -> str:
    low, high = signed(100 * row["difference_low"]), signed(100 * row["difference_high"])
    return f"{METHODS[str(method)]} {signed(100 * row['difference'])} [{low}, {high}]"


def counted(others: pd.DataFrame, total: int, what: str) -> str:
    sets = f"{total} {'challenge sets' if what == 'challenge cases' else 'report sets'} and sizes"
    parts = []
    for method, part in others.groupby("method", sort=False):
        worse, better = int((part["difference_high"] < 0).sum()), int((part["difference_low"] > 0).sum())
        parts.append(f"{METHODS[str(method)]} is worse on {worse} and better on {better}")
    if not ((others["difference_high"] < 0) | (others["difference_low"] > 0)).any():
        return f"On {sets}, the methods cannot be told apart: every interval holds zero."
    return f"On {sets}, beside L0 (intervals that leave out zero): {joined(parts)}."
