"""Same accuracy in domain, different behaviour outside: how far subnetworks spread, and how the full model got there.

All functions read the `scores` table (see docs/tables.md).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

FULL = "full"
SEARCH = "prune"  # the question whose subnetworks are compared with each other
SAME = 0.03  # in-domain accuracies that differ by at most three points count as the same


def subnetworks(accuracy: pd.DataFrame, question: str = SEARCH) -> pd.DataFrame:
    """Rows of the subnetworks that one question asked for; a table without questions has one."""
    inside = accuracy["question"] == question if "question" in accuracy else accuracy["subnetwork"] != FULL
    rows: pd.DataFrame = accuracy[inside]
    return rows


def full_model(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The rows of the full model at the checkpoint that was pruned; without subnetworks, at the last."""
    found = subnetworks(accuracy)
    pruned = found["checkpoint"] if len(found) else accuracy["checkpoint"]
    last: pd.DataFrame = accuracy[(accuracy["subnetwork"] == FULL) & (accuracy["checkpoint"] == pruned.max())]
    return last


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that say something of their own: in-domain sets, cases, and challenge sets without cases."""
    cased = set(rows.loc[rows["case"] != "all", "dataset"])
    found: pd.DataFrame = rows[(rows["case"] != "all") | ~rows["dataset"].isin(cased)]
    return found


def spread(accuracy: pd.DataFrame, comparable: pd.Series | None = None) -> pd.DataFrame:
    """Per target, dataset and case: min, max, mean, std, range over subnetworks, and the full model's value.

    `range_same` is the largest difference between two subnetworks whose in-domain accuracies differ by at most three
    points; `lowest` and `highest` name them. `comparable` says of each subnetwork whether its search ended as well as the
    others of its size; where it is given, those that did not take no part in `range_same`.
    """
    some = subnetworks(accuracy)
    whole = full_model(accuracy).set_index(["dataset", "case"])["value"]
    in_domain = some[some["domain"] == "in-domain"].set_index("subnetwork")["value"]
    if comparable is not None:
        in_domain = in_domain[comparable.reindex(in_domain.index, fill_value=False)]
    rows = []
    for (target, dataset, case), part in some.groupby(["target", "dataset", "case"], sort=False):
        values = part.set_index("subnetwork")["value"]
        widest, lowest, highest = widest_pair(values, in_domain)
        facts = {"target": target, "dataset": dataset, "case": case, **part.iloc[0][["group", "gold", "domain", "n"]]}
        found = {"subnetworks": len(values), "full": float(whole.get((dataset, case), np.nan))}
        moments = values.agg(["min", "max", "mean", "std"])
        gap = {"range": moments["max"] - moments["min"], "range_same": widest, "lowest": lowest, "highest": highest}
        rows.append({**facts, **found, **moments, **gap})
    return pd.DataFrame(rows)


def widest_pair(values: pd.Series, in_domain: pd.Series) -> tuple[float, str, str]:
    """The largest difference between two subnetworks that are equal in domain; not a number when no two are."""
    values = values[values.index.isin(in_domain.index)]
    gaps = values.to_numpy()[None, :] - values.to_numpy()[:, None]  # (low, high)
    inside = in_domain[values.index].to_numpy()
    same = np.abs(inside[None, :] - inside[:, None]) <= SAME + 1e-9
    np.fill_diagonal(same, False)
    if not same.any():
        return float("nan"), "", ""
    low, high = np.unravel_index(np.where(same, gaps, -np.inf).argmax(), gaps.shape)
    names = [str(name) for name in values.index]
    return float(gaps[low, high]), names[low], names[high]


def dynamics(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The full model over training: one row per checkpoint, dataset and case."""
    rows = accuracy[accuracy["subnetwork"] == FULL]
    columns = ["checkpoint", "dataset", "case", "group", "gold", "domain", "n", "correct", "value", "low", "high"]
    return rows[columns].reset_index(drop=True)
