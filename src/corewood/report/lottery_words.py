"""The finding of a lottery, in words."""

from __future__ import annotations

import numpy as np
import pandas as pd

from corewood.report.lottery_tables import notes_of
from corewood.report.method_words import methods_headline, methods_point
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
    tasks_of,
)
from corewood.report.words import Finding, count, joined, listed, signed


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


def retrained(tables: Tables, method: str) -> tuple[pd.DataFrame, list[str]]:
    """(task) -> good ones, retrained, where pruning removed anything; and the tasks where it did not.

    Without tasks that the full model itself has not learnt: as good as that is no praise.
    """
    good = tickets_of(tables, method, "good", "retrained").drop(index=unlearnt(tables), errors="ignore")
    whole = good.get("encoder_share", pd.Series(np.nan, index=good.index)) > 1 - 1e-9
    return good[~whole], list(good.index[whole])


def headline(tables: Tables, model: str) -> str:
    parts = []
    for method in (IMPORTANCE, MAGNITUDE):
        good, _ = retrained(tables, method)
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


def winning_point(tables: Tables) -> list[str]:
    """Which tasks, and by how much where there is one."""
    parts, left_out = [], []
    for method in (IMPORTANCE, MAGNITUDE):
        good, whole = retrained(tables, method)
        if whole:
            left_out.append(f"{SPOKEN[method]} removed nothing on {names_of(whole)}")
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
    but = f" ({joined(left_out)}, which says nothing.)" if left_out else ""
    full = of_tickets(tables["summary"])
    spread = full.loc[full["method"] == "full", "std"].notna().any()
    bar = "the full model's mean less one standard deviation" if spread else "the full model's score (one seed has no spread)"
    return [
        f"Retrained from the pretrained weights, good subnetworks should reach {bar}: {'; '.join(parts)}.{but} "
        "(S-pruning removes heads and MLPs by importance, m-pruning single weights by magnitude.)"
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
    kinds = [(name, rows[rows["kind"] == kind]) for kind, name in (("head", "heads"), ("mlp", "MLPs"))]
    counts = [
        f"{between(part['survivors'], 0)} {name} (by chance {between(part['survivors_expected'], 1)})"
        for name, part in kinds
        if len(part)
    ]
    text = f"Super-survivors, kept with every seed, are {joined(counts)}"
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
    parts += stopped(tables)
    alive = rows[rows["method"] == SUPER]
    none = list(dict.fromkeys(alive.loc[alive["heads"] + alive["mlps"] == 0, "task"]))
    return parts + ([f"no unit survives with every seed on {names_of(none)}"] if none else [])


def stopped(tables: Tables) -> list[str]:
    """Searches of m-pruning that no threshold ended."""
    if "rounds" not in tables:
        return []
    rows = tables["rounds"]
    last = rows[rows["method"] == MAGNITUDE].dropna(subset="floor").sort_values("round").groupby(["task", "seed"]).tail(1)
    free = last[last["passed"].astype(bool)]
    if free.empty:
        return []
    tasks = names_of(list(dict.fromkeys(free["task"])))
    return [
        f"m-pruning never fell below its threshold in {len(free)} of {len(last)} searches ({tasks}), which most_rounds ended"
    ]


def unlearnt(tables: Tables) -> list[str]:
    """Tasks where the full model itself does not beat the majority class."""
    rows = tables["summary"]
    full, majority = (rows[rows["method"] == m].set_index("task")["mean"] for m in ("full", "majority"))
    return [t for t in tasks_of(tables) if t in full.index and t in majority.index and full[t] <= majority[t]]


def beaten(tables: Tables) -> list[str]:
    lost = unlearnt(tables)
    return [f"the full model does not beat the majority class on {names_of(lost)}: not counted above"] if lost else []


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
