"""Which differences between subnetworks, between fine-tunings and between ways of pruning are real.

All subnetworks answer the same examples, so they are compared example by example. `right` is (subnetwork, example)
bool where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from scipy.stats import binom, pearsonr, rankdata, spearmanr
from scipy.stats import t as student
from statsmodels.stats.contingency_tables import cochrans_q

from corewood.evaluate.metrics import LEVEL

REAL = 1 - LEVEL  # what a corrected p must lie below
EXACT = 8  # values whose orders, 40,320 of them, are all looked at


def mcnemar(one: np.ndarray, other: np.ndarray) -> tuple[int, int, float]:
    """(only one right, only other right, exact two-sided p) of two answers to the same examples."""
    b, c = int((one & ~other).sum()), int((~one & other).sum())
    return b, c, float(min(1.0, 2 * binom.cdf(min(b, c), b + c, 0.5)))


def pair_tests(right: np.ndarray, names: list[str]) -> pd.DataFrame:
    """Every two subnetworks: one, other, only_one, only_other, difference, p."""
    rows = []
    for i, j in combinations(range(len(right)), 2):
        b, c, p = mcnemar(right[i], right[j])
        difference = (b - c) / right.shape[1]
        rows.append({"one": names[i], "other": names[j], "only_one": b, "only_other": c, "difference": difference, "p": p})
    return pd.DataFrame(rows)


def corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Holm's correction over all rows; `real` marks differences that survive it."""
    if table.empty:
        return table
    p = holm(table["p"].to_numpy(float))
    return table.assign(p_holm=p, real=p <= REAL)


def holm(p: np.ndarray) -> np.ndarray:
    """(test,) corrected: the smallest times the number of tests, the next times one less, never below the one before.

    statsmodels has it too, and has Python collect its garbage at every call: a third of a second with torch loaded.
    """
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    found = np.empty_like(raised)
    found[order] = raised.clip(max=1)
    return found


def variance_split(right: np.ndarray) -> dict[str, float]:
    """How much of the spread over subnetworks is sampling noise: a two-way analysis of variance with examples as blocks.

    With mean squares between subnetworks (A) and residual (R), the variance of accuracies is A / n, of which R / n is
    what would be there if all were equally good.
    """
    count, n = right.shape
    x = right.astype(float)
    residual = x - x.mean(0, keepdims=True) - x.mean(1, keepdims=True) + x.mean()
    observed = float(x.mean(1).var(ddof=1))
    noise = float((residual**2).sum() / ((count - 1) * (n - 1)) / n)
    differs = len(np.unique(right.sum(1))) > 1
    return {
        "std": observed**0.5,
        "noise_std": noise**0.5,
        "true_std": max(0.0, observed - noise) ** 0.5,
        "noise_share": min(1.0, noise / observed) if observed > 0 else np.nan,
        "q_p": float(cochrans_q(right.T.astype(int)).pvalue) if differs else 1.0,
    }


def size_effect(values: np.ndarray, sizes: np.ndarray) -> dict[str, float]:
    """How accuracies go with sizes: Spearman's rho with its p, and the share of variance a line explains."""
    if len(values) < 3 or len(set(sizes)) < 2 or len(set(values)) < 2:
        return {"rho": np.nan, "p": np.nan, "explained": np.nan}
    rho, p = rank_correlation(sizes, values)
    return {"rho": rho, "p": p, "explained": float(pearsonr(sizes, values)[0] ** 2)}


def rank_correlation(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Spearman's rho and its two-sided p.

    Of up to `EXACT` values p is exact: the share of all orders of the one whose rho is at least as far from zero. Of more it
    is scipy's, by a t distribution, which would be 0 for any three values in order.
    """
    rho, p = (float(found) for found in spearmanr(one, other))
    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    if len(x) <= EXACT and np.isfinite(rho):
        p = float((np.abs(x[orders(len(x))] @ y) >= abs(x @ y)).mean())  # quarters, which floats hold exactly
    return rho, p


@cache
def orders(count: int) -> np.ndarray:
    """(order, value)"""
    return np.array(list(permutations(range(count))))


def variance_components(groups: Sequence[np.ndarray]) -> dict[str, float]:
    """One-way random effects by the method of moments; each group holds the values of one fine-tuning's subnetworks.

    With mean squares between (B) and within (W) groups, the variance within is W and that between is (B - W) / n0, where n0 is
    the size of the groups, or for groups of different sizes what stands for it. `share` is that of fine-tuning in their sum.
    Without two values in some group nothing is known of the variance within.
    """
    sizes = np.array([len(g) for g in groups], float)
    total, count = sizes.sum(), len(groups)
    means = np.array([g.mean() for g in groups])
    everything = np.concatenate(groups)
    found = {"tunings": count, "subnetworks": int(total), "mean": float(everything.mean())}
    found |= {"between_means": float(means.std(ddof=1)), "lowest": float(means.min()), "highest": float(means.max())}
    if total <= count:
        return {**found, "between": np.nan, "within": np.nan, "share": np.nan}
    inside = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - count)
    outside = (sizes * (means - everything.mean()) ** 2).sum() / (count - 1)
    n0 = (total - (sizes**2).sum() / total) / (count - 1)
    between = max(0.0, float((outside - inside) / n0))
    whole = between + float(inside)
    return {**found, "between": between**0.5, "within": float(inside) ** 0.5, "share": between / whole if whole > 0 else np.nan}


def beside(right: Mapping[str, np.ndarray], base: str) -> dict[str, dict[str, float]]:
    """Method -> mean accuracy, its 95 % interval, and the difference from `base` with its own.

    `right` is (model, example): the share of a model's subnetworks that answer right. Differences are taken model by model
    and example by example, so that they are paired.
    """
    made = {}
    for name, values in right.items():
        low, high = crossed_interval(values, 0.0, 1.0)
        row = {"value": float(values.mean()), "low": low, "high": high, "models": len(values), "n": values.shape[1]}
        gaps = values - right[base]
        low, high = crossed_interval(gaps, -1.0, 1.0) if name != base else (0.0, 0.0)
        made[name] = {**row, "difference": float(gaps.mean()), "difference_low": low, "difference_high": high}
    return made


def crossed_interval(values: np.ndarray, least: float, most: float) -> tuple[float, float]:
    """95 % t interval of the mean of (model, example) values where both are samples; of one model, of examples alone.

    A two-way analysis of variance without replication, both effects random: with mean squares M of models, E of examples and
    R of what is left, the variance of the mean is (M + E - R) / (models x examples); a part that comes out below zero counts
    as zero. Degrees of freedom are Satterthwaite's. As in Bonett and Price's interval two examples are added, one on which all
    models have the `least` value there can be, and one with the `most`: without them the interval has no width where all
    values are the same.
    """
    x = np.column_stack([values, np.full(len(values), least), np.full(len(values), most)])
    models, examples = x.shape
    across = models * x.mean(0).var(ddof=1)  # the mean square of examples
    squares, freedom = [across], [examples - 1]
    if models > 1:
        between = examples * x.mean(1).var(ddof=1)  # that of models
        residual = x - x.mean(0, keepdims=True) - x.mean(1, keepdims=True) + x.mean()
        rest = (residual**2).sum() / ((models - 1) * (examples - 1))
        squares = [max(across, rest), max(between, rest), -rest]
        freedom = [examples - 1, models - 1, (models - 1) * (examples - 1)]
    variance = sum(squares)
    df = variance**2 / sum(square**2 / f for square, f in zip(squares, freedom, strict=True))
    half = float(student.ppf((1 + LEVEL) / 2, df) * (variance / x.size) ** 0.5)
    return max(least, float(x.mean()) - half), min(most, float(x.mean()) + half)
