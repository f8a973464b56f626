"""The finding of a lottery, in words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from corewood.report.lottery_tables import notes_of
from corewood.report.method_charts import METHODS
from corewood.report.style import Tables
from corewood.report.survivor_charts import LEVEL
from corewood.report.ticket_charts import (
    IMPORTANCE,
    MAGNITUDE,
    SPOKEN,
    STATES,
    SUPER,
    first_prune,
    of_tickets,
    plus_minus,
    quoted,
    tasks_of,
)
from corewood.report.words import Finding, listed, signed

FEW = 3  # comparisons that are told one by one


def lottery_finding(tables: Tables, model: str) -> Finding:
    """What a reader should take away, from the tables alone."""
    makers = (
        winning_point,
        behind_point,
        size_point,
        stability_point,
        super_point,
        overlap_point,
        methods_point,
        pattern_point,
        odd_point,
        basis_point,
    )
    return Finding(headline(tables, model), [point for make in makers for point in make(tables)])


def count(number: int, one: str) -> str:
    return f"{'one' if number == 1 else number} {one}{'' if number == 1 else 's'}"


def joined(parts: Iterable[str]) -> str:
    every = list(parts)
    return " and ".join(filter(None, [", ".join(every[:-1]), every[-1]])) if every else ""


def between(values: pd.Series, digits: int = 2, scale: float = 1, unit: str = "") -> str:
    """0.18 to 0.33, or one number where they are the same."""
    known = values.dropna()
    low, high = (plus_minus(v, np.nan, scale, digits) for v in (known.min(), known.max()))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def tickets_of(tables: Tables, method: str, ticket: str, state: str) -> pd.DataFrame:
    """(task) -> summary, where there is a score."""
    rows = of_tickets(tables["summary"])
    rows = rows[(rows["method"] == method) & (rows["ticket"] == ticket) & (rows["state"] == state)]
    return rows.dropna(subset="mean").set_index("task")


# the claim of the paper


def headline(tables: Tables, model: str) -> str:
    parts = []
    for method in (IMPORTANCE, MAGNITUDE):
        good = tickets_of(tables, method, "good", "retrained")
        if len(good):
            parts.append((int(good["as_full"].sum()), len(good), SPOKEN[method]))
    if not parts:
        unknown = f"Subnetworks of {model}: none was retrained, so whether there are winning tickets is not known."
        return methods_headline(tables, model) or unknown
    if all(n == 1 for _, n, _ in parts):
        yes, no = ([name for won, _, name in parts if won == hit] for hit in (1, 0))
        if not no:
            return (
                f"Good subnetworks of {model} can be retrained to the full model's score: {joined(yes)} found winning tickets."
            )
        if not yes:
            return f"Good subnetworks of {model} stay below the full model when they are retrained: no winning tickets."
        return f"Good subnetworks of {model} retrain to the full model's score by {joined(yes)}, but not by {joined(no)}."
    told = joined(f"{won} of {n} tasks by {name}" for won, n, name in parts)
    return f"Good subnetworks of {model} retrain to the full model's score on {told}."


def methods_headline(tables: Tables, model: str) -> str | None:
    """Where nothing but methods was compared: the best of them at the largest share removed, if it can be told."""
    rows = whole_challenge_sets(tables)
    if rows.empty:
        return None
    rows = rows[~rows["method"].isin(["full", "random"])]
    for _, here in sorted(rows.groupby("target"), reverse=True):
        apart = here[(here["difference_low"] > 0) | (here["difference_high"] < 0)]
        if apart.empty:
            continue
        best = here.iloc[int(here["value"].to_numpy().argmax())]
        other = here[here["method"] == "l0"] if best["method"] != "l0" else apart.sort_values("value")
        if best["method"] == "l0" or best["difference_low"] > 0:
            return (
                f"Pruned to the same size, subnetworks of {model} by {METHODS[str(best['method'])]} keep the challenge cases "
                f"best: {100 * best['value']:.0f} % right with {100 * best['target']:g} % removed, against "
                f"{100 * other['value'].iloc[0]:.0f} % by {METHODS[str(other['method'].iloc[0])]}."
            )
    return f"Ways of pruning {model} to the same size cannot be told apart on the challenge cases."


def whole_challenge_sets(tables: Tables) -> pd.DataFrame:
    rows = tables.get("methods", pd.DataFrame(columns=["domain", "case"]))
    found: pd.DataFrame = rows[(rows["domain"] == "challenge") & (rows["case"] == "all")]
    return found


def winning_point(tables: Tables) -> list[str]:
    """Which tasks, and by how much where there is one."""
    parts = []
    for method in (IMPORTANCE, MAGNITUDE):
        good = tickets_of(tables, method, "good", "retrained")
        if good.empty:
            continue
        name = SPOKEN[method]
        if len(good) == 1:
            row = good.iloc[0]
            verb = "reach" if row["as_full"] else "stay below"
            parts.append(f"{name}'s {verb} it ({plus_minus(row['mean'], row['std'], 1, 3)}; full model {row['beside']:.3f})")
            continue
        lost = list(good.index[~good["as_full"]])
        rest = "on all tasks" if not lost else "on no task" if len(lost) == len(good) else f"on all but {names_of(lost)}"
        gap = (good["mean"] - good["beside"]).mean()
        parts.append(f"{name}'s reach it {rest} (on average {signed(100 * gap)} beside the full model)")
    if not parts:
        return []
    full = of_tickets(tables["summary"])
    spread = full.loc[full["method"] == "full", "std"].notna().any()
    bar = "the full model's mean less one standard deviation" if spread else "the full model's score (one seed has no spread)"
    return [
        f"Retrained from the pretrained weights, good subnetworks should reach {bar}: {'; '.join(parts)}. (S-pruning removes "
        "heads and MLPs by importance, m-pruning single weights by magnitude.)"
    ]


def names_of(tasks: list[str]) -> str:
    return f"{len(tasks)} tasks" if len(tasks) > 4 else listed(tasks)


def behind_point(tables: Tables) -> list[str]:
    """How far random and bad ones are from good ones."""
    told = []
    for method in (IMPORTANCE, MAGNITUDE):
        parts, most = [], 0
        for state in STATES:
            good = tickets_of(tables, method, "good", state)["mean"]
            gaps = []
            for ticket in ("random", "bad"):
                gap = (tickets_of(tables, method, ticket, state)["mean"] - good).dropna()
                most = max(most, len(gap))
                gaps += [f"{ticket} ones are at {signed(100 * gap.mean())}"] if len(gap) else []
            if gaps:
                parts.append(f"{'as pruned' if state == 'pruned' else state}, {joined(gaps)}")
        if parts:
            over = f", averaged over {most} tasks" if most > 1 else ""
            told.append(f"Beside the good ones of {SPOKEN[method]}, in hundredths of the metric{over}: {'; '.join(parts)}.")
    return told


def size_point(tables: Tables) -> list[str]:
    parts = []
    for method in (IMPORTANCE, MAGNITUDE):
        good = tickets_of(tables, method, "good", "pruned")
        if "encoder_share" in good and good["encoder_share"].notna().any():
            kept = good["encoder_share"]
            mean = f" (mean {100 * kept.mean():.0f} %)" if len(kept) > 1 else ""
            parts.append(f"{between(kept, 0, 100, ' %')}{mean} by {SPOKEN[method]}")
    return [f"Of the encoder's weights, good subnetworks keep {joined(parts)}."] if parts else []


# do seeds and tasks agree


def stability_point(tables: Tables) -> list[str]:
    if "stability" not in tables:
        return []
    rows = tables["stability"]
    rows = rows[(rows["kind"] == "head") & (rows["prune"] == first_prune(rows))].dropna(subset="fleiss")
    if rows.empty:
        return []
    seeds = between(rows["masks"], 0)
    text = (
        f"Seeds keep {agreement(float(rows['fleiss'].mean()))} heads: Fleiss' kappa over {seeds} seeds is "
        f"{between(rows['fleiss'])}, where random masks of the same sizes give {between(rows['fleiss_expected'])}"
    )
    if len(rows) == 1:
        row = rows.iloc[0]
        return [f"{text} (p = {row['fleiss_p']:.2g}; with as many heads in each layer p = {row['fleiss_p_layers']:.2g})."]
    above, layers = (int((rows[c] < LEVEL).sum()) for c in ("fleiss_p", "fleiss_p_layers"))
    return [
        f"{text}. That is more than chance (p < {LEVEL:g}) on {above} of {len(rows)} tasks, and on {layers} beside masks "
        "with as many heads in each layer."
    ]


def agreement(kappa: float) -> str:
    return "mostly the same" if kappa > 0.6 else "partly the same" if kappa > 0.2 else "largely different"


def super_point(tables: Tables) -> list[str]:
    good = tickets_of(tables, SUPER, "good", "retrained")
    if good.empty or "stability" not in tables:
        return []
    rows = tables["stability"]
    rows = rows[(rows["prune"] == first_prune(rows)) & rows["task"].isin(good.index)]
    heads, mlps = (between(rows.loc[rows["kind"] == kind, "survivors"], 0) for kind in ("head", "mlp"))
    chance = between(rows.loc[rows["kind"] == "head", "survivors_expected"], 1)
    text = f"Super-survivors, kept with every seed, are {heads} heads (by chance {chance}) and {mlps} MLPs"
    if "encoder_share" in good and good["encoder_share"].notna().any():
        text += f", {between(good['encoder_share'], 0, 100, ' %')} of the encoder's weights"
    if len(good) == 1:
        row = good.iloc[0]
        text += f"; retrained alone they score {plus_minus(row['mean'], row['std'], 1, 3)} (full model {row['beside']:.3f})"
    else:
        gap = 100 * (good["mean"] - good["beside"]).mean()
        text += f"; retrained alone they reach the full model on {int(good['as_full'].sum())} of {len(good)} tasks"
        text += f" (on average {signed(gap)} beside it)"
    bad = (tickets_of(tables, SUPER, "bad", "retrained")["mean"] - good["mean"]).dropna()
    return [text + (f", and bad ones of their number are at {signed(100 * bad.mean())} beside them." if len(bad) else ".")]


def overlap_point(tables: Tables) -> list[str]:
    if "overlaps" not in tables:
        return []
    rows = tables["overlaps"]
    rows = rows[(rows["kind"] == "head") & (rows["which"] == "all units") & (rows["one"] != rows["other"])]
    if rows.empty:
        return []
    more = int((rows["p_whole"] < LEVEL).sum())
    shared, expected = between(rows["shared"], 1), between(rows["expected"], 1)
    who = f"{more} of {len(rows)} pairs of tasks share" if len(rows) > 1 else f"The two tasks {'' if more else 'do not '}share"
    return [
        f"{who} more heads than independent ones would (p < {LEVEL:g}): {shared} heads are shared, and {expected} would be."
    ]


# the two papers together


def methods_point(tables: Tables) -> list[str]:
    """On whole challenge sets: which methods differ from L0 by more than their interval."""
    rows = whole_challenge_sets(tables)
    if rows.empty:
        return []
    keys = list(dict.fromkeys(zip(rows["task"], rows["target"], rows["dataset"], strict=True)))
    others = rows[~rows["method"].isin(["l0", "full"])]
    if len(keys) > FEW:
        return [counted(others, len(keys))]
    several = len({(task, dataset) for task, _, dataset in keys}) > 1
    return [one_comparison(rows, key, several) for key in keys]


def one_comparison(rows: pd.DataFrame, key: tuple[str, float, str], several: bool) -> str:
    task, target, dataset = key
    here = rows[(rows["task"] == task) & (rows["target"] == target) & (rows["dataset"] == dataset)].set_index("method")
    others = here.drop(index=[m for m in ("l0", "full") if m in here.index])
    low, high = others["difference_low"], others["difference_high"]
    worse, better = ([told(m, r) for m, r in others[real].iterrows()] for real in (high < 0, low > 0))
    same = [METHODS[str(m)] for m in others.index[(low <= 0) & (high >= 0)]]
    place = f"challenge cases of {quoted(dataset)}" + (f" ({quoted(task)})" if several else "")
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


def counted(others: pd.DataFrame, total: int) -> str:
    parts = []
    for method, part in others.groupby("method", sort=False):
        worse, better = int((part["difference_high"] < 0).sum()), int((part["difference_low"] > 0).sum())
        parts.append(f"{METHODS[str(method)]} is worse on {worse} and better on {better}")
    if not ((others["difference_high"] < 0) | (others["difference_low"] > 0)).any():
        return f"On {total} challenge sets and sizes, the methods cannot be told apart: every interval holds zero."
    return f"On {total} challenge sets and sizes, beside L0 (intervals that leave out zero): {joined(parts)}."


# what heads look at, and what was odd


def pattern_point(tables: Tables) -> list[str]:
    if "heterogeneity" not in tables:
        return []
    rows = tables["heterogeneity"].dropna(subset="r")
    rows = rows[rows["task"] == "all tasks"]
    rows = rows[rows["state"] == ("fine-tuned" if (rows["state"] == "fine-tuned").any() else "pretrained")]
    parts = [f"r = {plus_minus(r['r'], np.nan)} in {r['attention']} attention (p = {r['p']:.2g})" for _, r in rows.iterrows()]
    if not parts:
        return []
    likely = rows[rows["p"] < LEVEL]["r"]
    verb = "are not seen to survive more or less often"
    if len(likely) == len(rows) and ((likely > 0).all() or (likely < 0).all()):
        verb = f"survive {'more' if (likely > 0).all() else 'less'} often"
    elif len(likely):
        verb = "survive more or less often depending on what is looked at"
    over = ", over all tasks" if len(tasks_of(tables)) > 1 else ""
    return [f"Heads with heterogeneous attention {verb}: {joined(parts)}{over}."]


def odd_point(tables: Tables) -> list[str]:
    """What a reader should not overlook."""
    parts = [*extremes(tables), *beaten(tables)]
    summary = tables["summary"]
    undefined = int(summary.loc[summary["method"] != "majority", "undefined"].sum())
    parts += [f"{count(undefined, 'score')} undefined and in no mean"] if undefined else []
    notes = notes_of(tables)
    notes = notes[(notes["method"] != "majority") & notes["value"].notna()]
    for note, part in notes.groupby("note", sort=False):
        parts.append(f"{count(len(part), 'score')} with the remark “{note}”")
    return [f"To be read with care: {'; '.join(parts)}."] if parts else []


def extremes(tables: Tables) -> list[str]:
    """Searches that removed everything, or nothing."""
    if "tickets" not in tables:
        return []
    rows = tables["tickets"]
    rows = rows[(rows["part"] == "tickets") & (rows["ticket"] == "good")].reindex(
        columns=["task", "method", "heads", "mlps", "weights", "units_share", "encoder_share"]
    )
    parts = []
    for method in (IMPORTANCE, MAGNITUDE):
        mine = rows[rows["method"] == method]
        gone = mine["weights"] == 0 if method == MAGNITUDE else mine["heads"] + mine["mlps"] == 0
        for hit, what in ((gone, "removed everything"), (mine["encoder_share"] > 1 - 1e-9, "removed nothing")):
            if hit.any():
                tasks = names_of(list(dict.fromkeys(mine.loc[hit, "task"])))
                parts.append(f"{SPOKEN[method]} {what} in {int(hit.sum())} of {len(mine)} searches ({tasks})")
    alive = rows[rows["method"] == SUPER]
    none = list(dict.fromkeys(alive.loc[alive["heads"] + alive["mlps"] == 0, "task"]))
    return parts + ([f"no unit survives with every seed on {names_of(none)}"] if none else [])


def beaten(tables: Tables) -> list[str]:
    """Tasks where the full model itself does not beat the majority class."""
    rows = tables["summary"]
    full, majority = (rows[rows["method"] == m].set_index("task")["mean"] for m in ("full", "majority"))
    lost = [t for t in tasks_of(tables) if t in full.index and t in majority.index and full[t] <= majority[t]]
    return [f"the full model does not beat the majority class on {names_of(lost)}"] if lost else []


def basis_point(tables: Tables) -> list[str]:
    scores = tables["scores"]
    seeds = scores[scores["method"] == "full"].groupby("task")["seed"].nunique()
    if seeds.empty:
        return []
    tasks = count(len(seeds), "task")
    if seeds.max() == 1:
        return [f"All of this rests on one seed of {tasks}: how much another seed would change is not known."]
    number = between(seeds, 0)
    return [f"All of this rests on {number} seeds of fine-tuning, which are also what ± is taken over, and on {tasks}."]
