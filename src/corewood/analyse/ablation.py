"""What removing units does to the full model, example by example (the Heuristic Core, tables 3, 4, 6, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import norm

from corewood.evaluate.metrics import BALANCED, LEVEL, Z, together

OUTSIDE, INSIDE = "average of the heads outside the core", "average of the heads in the core"
BEYOND = "average in the core less outside it"


def paired_interval(differences: np.ndarray, limit: float = 1.0) -> tuple[float, float]:
    """Interval of the mean of paired differences (within ± `limit`), after adding one example of +1 and one of -1.

    For two classifiers on the same examples this is Bonett and Price's (2012) interval; the two added examples keep it
    from having no width where nothing changed.
    """
    d = np.concatenate([np.asarray(differences, float), [1.0, -1.0]])
    half = Z * d.std() / np.sqrt(len(d))
    return float(max(-limit, d.mean() - half)), float(min(limit, d.mean() + half))


def widened(low: pd.Series, high: pd.Series, tests: int) -> tuple[pd.Series, pd.Series]:
    """Intervals, so wide that all of so many hold at once (Bonferroni's correction)."""
    middle, half = (low + high) / 2, (high - low) / 2
    wide = half * norm.ppf(1 - (1 - LEVEL) / (2 * max(1, tests))) / Z
    return middle - wide, middle + wide


def ablation_rows(
    full: np.ndarray,
    right: Mapping[tuple[str, ...], np.ndarray],
    parts: Iterable[tuple[str, str, np.ndarray]],
    core: Sequence[str],
    heads: int,
    skills: Iterable[tuple[str, Sequence[np.ndarray]]] = (),
) -> pd.DataFrame:
    """One row per set of removed units and case. `full` and the values of `right` are (example,) bool.

    `skills` are (skill, the examples of each of its answers): rows of their own, about balanced accuracy.

    `change` is the accuracy without the units minus the full model's. For sets, `interaction` is their joint change minus
    the sum of the single ones: where it has the sign of the joint change, they matter more together than apart. `pure` is
    what of it no smaller set has, where all of these were removed, too. The averages of heads in and outside the core, and
    the former less the latter, are there only when all of the model's `heads` were removed alone.
    """
    shifts = {units: values.astype(float) - full for units, values in right.items()}
    singles = {units[0]: shift for units, shift in shifts.items() if len(units) == 1}
    changes = []  # (units, size, kind, in the core, change of each example, and what that is beyond single ones, smaller sets)
    for units, shift in shifts.items():
        kind = "set" if len(units) > 1 else "head" if ".H" in units[0] else "mlp"
        several = len(units) > 1 and all(unit in singles for unit in units)
        beyond = shift - sum(singles[unit] for unit in units) if several else None
        pure = pure_interaction(units, shifts) if several else None
        changes.append((" + ".join(units), len(units), kind, all(unit in core for unit in units), shift, (beyond, pure)))
    outside = [shift for unit, shift in singles.items() if ".H" in unit and unit not in core]
    if core and outside and len(outside) == heads - len(core) and all(unit in singles for unit in core):
        others, own = np.mean(outside, 0), np.mean([singles[unit] for unit in core], 0)
        averages = ((OUTSIDE, "average", others), (INSIDE, "average", own), (BEYOND, "contrast", own - others))
        changes += [(name, 1, kind, name == INSIDE, shift, (None, None)) for name, kind, shift in averages]
    judged = [("accuracy", case, group, [inside]) for case, group, inside in parts]
    judged += [(BALANCED, skill, "", list(answers)) for skill, answers in skills]
    rows = []
    for metric, case, group, strata in judged:
        before, n = float(np.mean([full[inside].mean() for inside in strata])), sum(int(inside.sum()) for inside in strata)
        for name, size, kind, in_core, shift, beyond in changes:
            contrast = kind == "contrast"  # a difference of two changes, and no model's score
            change, low, high = paired_change(shift, strata, 2.0 if contrast else 1.0)
            row = {"units": name, "size": size, "kind": kind, "metric": metric, "case": case, "group": group, "n": n}
            row |= {"full": before, "value": np.nan if contrast else before + change}
            row |= {"change": change, "low": low, "high": high, "core": in_core}
            for column, values, limit in zip(("interaction", "pure"), beyond, (size + 1, 2 ** (size - 1)), strict=True):
                value = low = high = np.nan
                if values is not None:
                    value, low, high = paired_change(values, strata, limit)
                row |= {column: value, f"{column}_low": low, f"{column}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def pure_interaction(units: tuple[str, ...], shifts: Mapping[tuple[str, ...], np.ndarray]) -> np.ndarray | None:
    """(example,) what a set changes that none of its parts does: the changes of all of them, added with alternating signs."""
    every = (part for size in range(1, len(units) + 1) for part in combinations(units, size))
    total = np.zeros_like(shifts[units])
    for part in every:
        if part not in shifts:
            return None
        total += (-1) ** (len(units) - len(part)) * shifts[part]
    return total


def paired_change(differences: np.ndarray, strata: Sequence[np.ndarray], limit: float = 1.0) -> tuple[float, float, float]:
    """(mean, low, high) of (example,) differences; of several strata, which count alike, the mean of theirs."""
    return together([(float(differences[s].mean()), *paired_interval(differences[s], limit)) for s in strata])
