"""Which differences between subnetworks are real.

All subnetworks answer the same examples, so they are compared example by example. `right` is (subnetwork, example)
bool throughout.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom, pearsonr, spearmanr
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.multitest import multipletests

from corewood.evaluate.metrics import LEVEL

REAL = 1 - LEVEL  # what a corrected p must lie below


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
    real, p, _, _ = multipletests(table["p"], REAL, "holm")
    return table.assign(p_holm=p, real=real)


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
    rho, p = spearmanr(sizes, values)
    return {"rho": float(rho), "p": float(p), "explained": float(pearsonr(sizes, values)[0] ** 2)}
