"""Same accuracy in domain, different behaviour outside: how far subnetworks spread, and how the full model got there.

All functions read the `accuracy` table (see docs/tables.md).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from corewood.errors import InputError

FULL = "full"
SAME = 0.03  # in-domain accuracies that differ by at most three points count as the same


def subnetworks(accuracy: pd.DataFrame) -> pd.DataFrame:
    rows: pd.DataFrame = accuracy[accuracy["subnetwork"] != FULL]
    return rows


def full_model(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The rows of the full model at the checkpoint that was pruned; without subnetworks, at the last."""
    pruned = subnetworks(accuracy)["checkpoint"] if (accuracy["subnetwork"] != FULL).any() else accuracy["checkpoint"]
    last: pd.DataFrame = accuracy[(accuracy["subnetwork"] == FULL) & (accuracy["checkpoint"] == pruned.max())]
    return last


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that say something of their own: in-domain sets, cases, and challenge sets without cases."""
    cased = set(rows.loc[rows["case"] != "all", "dataset"])
    found: pd.DataFrame = rows[(rows["case"] != "all") | ~rows["dataset"].isin(cased)]
    return found


def spread(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Per target, dataset and case: min, max, mean, std, range over subnetworks, and the full model's value.

    `range_same` is the largest difference between two subnetworks whose in-domain accuracies differ by at most three
    points; `lowest` and `highest` name them.
    """
    some = subnetworks(accuracy)
    whole = full_model(accuracy).set_index(["dataset", "case"])["value"]
    in_domain = some[some["domain"] == "in-domain"].set_index("subnetwork")["value"]
    rows = []
    for (target, dataset, case), part in some.groupby(["target", "dataset", "case"], sort=False):
        values = part.set_index("subnetwork")["value"]
        widest, lowest, highest = widest_pair(values, in_domain)
        rows.append(
            {
                "target": target,
                "dataset": dataset,
                "case": case,
                "group": part["group"].iloc[0],
                "gold": part["gold"].iloc[0],
                "domain": part["domain"].iloc[0],
                "n": int(part["n"].iloc[0]),
                "subnetworks": len(values),
                "full": float(whole.get((dataset, case), np.nan)),
                "min": float(values.min()),
                "max": float(values.max()),
                "mean": float(values.mean()),
                "std": float(values.std(ddof=1)) if len(values) > 1 else np.nan,
                "range": float(values.max() - values.min()),
                "range_same": widest,
                "lowest": lowest,
                "highest": highest,
            }
        )
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


def effective_size(
    accuracy: pd.DataFrame, margin: float = 0.03, order: str = "accuracies", two_sided: bool = False
) -> pd.DataFrame:
    """Per dataset and case, the smallest target size (share of units kept) that stays within `margin` of the full model.

    order="accuracies" averages accuracies over seeds first, as the paper says; order="seeds" finds a size per seed and
    averages those, as its code does. Nothing faithful counts as 1. `censored` marks a value at the edge of the grid,
    `trivial` a full model no better than `margin` above zero.
    """
    if order not in ("accuracies", "seeds"):
        raise InputError(f"order={order!r}: choose 'accuracies' (the paper) or 'seeds' (its code)")
    some, whole = subnetworks(accuracy), full_model(accuracy)
    rows = []
    for _, one in whole.iterrows():
        part = some[(some["dataset"] == one["dataset"]) & (some["case"] == one["case"])]
        if part.empty:
            continue
        grid = part.pivot_table(index="seed", columns="target", values="value")
        if order == "accuracies":
            grid = grid.mean().to_frame().T
        off = (grid - one["value"]).abs() if two_sided else one["value"] - grid
        sizes = [max((t for t in grid.columns if row[t] <= margin + 1e-9), default=0.0) for _, row in off.iterrows()]
        kept = 1 - np.array(sizes)
        edge = (np.isclose(kept, 1 - max(grid.columns)) | np.isclose(kept, 1)).any()
        rows.append(
            {
                "dataset": one["dataset"],
                "case": one["case"],
                "full": one["value"],
                "effective_size": float(kept.mean()),
                "std": float(kept.std(ddof=1)) if len(kept) > 1 else np.nan,
                "censored": bool(edge),
                "trivial": bool(one["value"] <= margin),
            }
        )
    return pd.DataFrame(rows)
