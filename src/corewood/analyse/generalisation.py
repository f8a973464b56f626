"""Same accuracy in domain, different behaviour outside: how far subnetworks spread, and how the full model got there.

Subnetworks are compared where their searches ended equally well. The measure is the KL of the final mask on texts that the
search has not seen: a search is comparable when its KL is at most `RATIO` times the lowest of its size, or within `NOISE` nats
of it, since few texts hold most of a small KL. Both numbers are choices.

`accuracy` is the `scores` table (see docs/tables.md). It may hold rows about skills, which have metrics of their own; only
where it says so are they looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from corewood.analyse.differences import rank_correlation
from corewood.errors import InputError
from corewood.evaluate.metrics import OF_SKILLS, together

FULL = "full"
SEARCH = "prune"  # the question whose subnetworks are compared with each other
SAME = 0.03  # in-domain accuracies that differ by at most three points count as the same
RATIO = 1.5
NOISE = 0.005  # nats
ONE_ANSWER = 0.99  # share of examples that get it: more, and nothing is told apart
UNSAID = {"metric": "accuracy", "skill": ""}  # of a table that does not say


def subnetworks(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Rows of the subnetworks that are compared with each other; a table without questions has no others."""
    inside = accuracy["question"] == SEARCH if "question" in accuracy else accuracy["subnetwork"] != FULL
    rows: pd.DataFrame = accuracy[inside]
    return rows


def full_model(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The rows of the full model at the checkpoint that was pruned; without subnetworks, at the last."""
    found = subnetworks(accuracy)
    pruned = found["checkpoint"] if len(found) else accuracy["checkpoint"]
    last: pd.DataFrame = accuracy[(accuracy["subnetwork"] == FULL) & (accuracy["checkpoint"] == pruned.max())]
    return last


def of_skills(rows: pd.DataFrame, *metrics: str) -> pd.DataFrame:
    """Rows about skills, of all their metrics or of some; a table without metrics has none."""
    found: pd.DataFrame = rows[rows["metric"].isin(metrics or OF_SKILLS)] if "metric" in rows else rows.iloc[:0]
    return found


def of_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows about sets and cases: all but those about skills."""
    found: pd.DataFrame = rows[~rows["metric"].isin(OF_SKILLS)] if "metric" in rows else rows
    return found


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that say something of their own: in-domain sets, cases, and challenge sets without cases."""
    rows = of_cases(rows)
    cased = set(rows.loc[rows["case"] != "all", "dataset"])
    return rows[(rows["case"] != "all") | ~rows["dataset"].isin(cased)]


def share_right(rows: pd.DataFrame) -> pd.Series:
    """Accuracy, whatever the metric of the rows; of numbers as answers, which are not right or wrong, their score."""
    if "correct" not in rows:
        return rows["value"]
    return (rows["correct"] / rows["n"]).fillna(rows["value"])


def spread(accuracy: pd.DataFrame, comparable: pd.Series | None = None, apart: Collection[frozenset[str]] = ()) -> pd.DataFrame:
    """Per target, dataset, case and metric: min, max, mean, std, range over subnetworks, and the full model's value. Rows
    about skills come after those about cases. All are of one model, and its subnetworks of one way.

    `range_same` is the largest difference between two subnetworks whose in-domain accuracies differ by at most three
    points; `lowest` and `highest` name them. `comparable` says of each subnetwork whether its search ended as well as the
    others of its size; where it is given, those that did not take no part in `range_same`, and neither do pairs that are
    `apart`: in domain, by more than chance.

    Example:
        >>> outcome = cw.run("study.yaml", store="store")
        >>> table = cw.spread(outcome.tables["scores"])
        >>> table[table["case"] == "swap"]["target"].tolist()
        [0.4, 0.7]
    """
    accuracy = accuracy.assign(**{name: value for name, value in UNSAID.items() if name not in accuracy})
    some = subnetworks(accuracy)
    for column in ("task", "tuning", "way"):
        if column in some and some[column].nunique() > 1:
            there = ", ".join(map(str, some[column].unique()[:4]))
            raise InputError(f"spread: takes the rows of one {column} and of its full model; here are several: {there}")
    whole = full_model(accuracy).set_index(["metric", "dataset", "case"])["value"]
    inside = some[some["domain"] == "in-domain"]
    in_domain = share_right(inside).set_axis(inside["subnetwork"])
    if comparable is not None:
        in_domain = in_domain[comparable.reindex(in_domain.index, fill_value=False)]
    keys, about = ["target", "dataset", "case", "metric"], ["group", "skill", "gold", "domain", "n"]
    facts = some[[*keys, *about]].to_dict("records")
    places: dict[tuple[object, ...], list[int]] = {}
    for place, row in enumerate(facts):
        places.setdefault(tuple(row[key] for key in keys), []).append(place)
    named = some.set_index("subnetwork")["value"]
    rows = []
    for mine in places.values():
        own, first = named.iloc[mine], facts[mine[0]]
        same, lowest, highest = widest_pair(own, in_domain, apart)
        full = float(whole.get((first["metric"], first["dataset"], first["case"]), np.nan))
        moments = {"min": own.min(), "max": own.max(), "mean": own.mean(), "std": own.std()}
        gap = {"range": own.max() - own.min(), "range_same": same, "lowest": lowest, "highest": highest}
        rows.append(first | {"subnetworks": len(own), "full": full} | moments | gap)
    return pd.DataFrame(rows)


def widest_pair(values: pd.Series, in_domain: pd.Series, apart: Collection[frozenset[str]] = ()) -> tuple[float, str, str]:
    """The largest difference between two subnetworks that are equal in domain; not a number when no two are."""
    inside = in_domain.to_dict()
    known = {str(name): value for name, value in values.dropna().items() if name in inside}
    pairs = [
        (known[high] - known[low], low, high)
        for low, high in permutations(known, 2)
        if abs(inside[low] - inside[high]) <= SAME + 1e-9 and frozenset((low, high)) not in apart
    ]
    return max(pairs, key=lambda pair: pair[0], default=(float("nan"), "", ""))


def comparable(unseen: pd.Series, targets: pd.Series) -> pd.Series:
    """Of each subnetwork, whether its search ended as well as the best of its size; both are indexed by its name."""
    return as_good(unseen, unseen.groupby(targets.reindex(unseen.index)).transform("min"))


def as_good(unseen: pd.Series, lowest: pd.Series) -> pd.Series:
    """Whether a search ended as well as one with the lowest KL."""
    return (unseen <= RATIO * lowest) | (unseen <= lowest + NOISE)


def convergence(accuracy: pd.DataFrame, unseen: pd.Series, targets: pd.Series, ended: pd.Series) -> pd.DataFrame:
    """One row per size: how many searches ended by themselves, how their KL is spread, its rank correlation with accuracy on
    the cases, and the widest gap on a case among all, among the comparable ones and among the best half."""
    rows = judged(subnetworks(accuracy))
    cases = rows[rows["domain"] == "challenge"]
    wide = cases.pivot_table(index="subnetwork", columns=["dataset", "case"], values="value", sort=False)
    fine = comparable(unseen, targets)
    found = []
    for target, names in targets.groupby(targets).groups.items():
        kls = unseen[list(names)].sort_values(kind="stable")
        some = wide.reindex(kls.index)
        mean = some.mean(axis=1)
        rho, p = (np.nan, np.nan)
        if len(kls) > 2 and kls.nunique() > 1 and mean.nunique() > 1:
            rho, p = rank_correlation(kls.to_numpy(), mean.to_numpy())
        half = kls.index[: -(-len(kls) // 2)]
        lowest, highest = float(kls.min()), float(kls.max())
        counts = {"searches": len(kls), "ended": int(ended[kls.index].sum()), "comparable": int(fine[kls.index].sum())}
        kl = {"lowest": lowest, "highest": highest, "ratio": highest / lowest if lowest > 0 else np.nan}
        gaps = {"gap": widest(some), "gap_comparable": widest(some[fine[some.index]]), "gap_best_half": widest(some.loc[half])}
        found.append({"target": float(str(target)), **counts, **kl, "rho": rho, "p": p, **gaps})
    return pd.DataFrame(found)


def widest(values: pd.DataFrame) -> float:
    """The largest difference of two subnetworks on one case; of (subnetwork, case)."""
    return float((values.max() - values.min()).max()) if len(values) > 1 else np.nan


def dynamics(accuracy: pd.DataFrame, focus: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """The full model over training: one row per checkpoint, dataset and case, and per named list of cases (their mean)."""
    rows = of_cases(accuracy[accuracy["subnetwork"] == FULL])
    for name, cases in (focus or {}).items():
        of_list = rows[rows["case"].isin(cases) & (rows["domain"] == "challenge")]
        for (dataset, checkpoint), part in of_list.groupby(["dataset", "checkpoint"], sort=False):
            value, low, high = together(list(part[["value", "low", "high"]].itertuples(index=False, name=None)))
            made = {"subnetwork": FULL, "checkpoint": checkpoint, "dataset": dataset, "case": name, "group": ""}
            made |= {
                "gold": "mixed",
                "domain": "challenge",
                "n": part["n"].sum(),
                "correct": part["correct"].sum(min_count=1),
                "value": value,
            }
            lowest = 0.0 if part["correct"].notna().all() else -1.0  # of a correlation
            made |= {"low": max(lowest, low), "high": min(1.0, high)}
            rows = pd.concat([rows, pd.DataFrame([made])], ignore_index=True)
    columns = ["checkpoint", "dataset", "case", "group", "gold", "domain", "n", "correct", "value", "low", "high"]
    return rows[columns].reset_index(drop=True)
