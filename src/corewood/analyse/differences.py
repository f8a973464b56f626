"""Which differences between subnetworks, between fine-tunings and between ways of pruning are real.

All subnetworks answer the same examples, so they are compared example by example. `right` is (subnetwork, example)
bool where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom, pearsonr, spearmanr
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.multitest import multipletests

from corewood.analyse.core import DRAWS
from corewood.evaluate.metrics import LEVEL

REAL = 1 - LEVEL  # what a corrected p must lie below
EDGES = (0.025, 0.975)
CHUNK = 200  # draws at a time: (draw, example) arrays of a large set would fill the memory


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


def redrawn(count: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draw, item): how much each item counts when as many are drawn with repetition."""
    return np.asarray(rng.multinomial(count, np.full(count, 1 / count), size=draws) / count)


def beside(right: Mapping[str, np.ndarray], base: str, draws: int = DRAWS, seed: int = 0) -> dict[str, dict[str, float]]:
    """Method -> mean accuracy, its 95 % interval, and the difference from `base` with its own.

    `right` is (model, example): the share of a model's subnetworks that answer right. Models and examples are both drawn
    anew, the same ones for all methods, so that differences are paired. With one model the interval is about examples
    alone; with few it is too narrow, as bootstraps of few are.
    """
    rng = np.random.default_rng(seed)
    models, examples = next(iter(right.values())).shape
    by_model = redrawn(models, draws, rng)
    drawn = {name: np.empty(draws) for name in right}
    for first in range(0, draws, CHUNK):
        some = slice(first, first + CHUNK)
        by_example = redrawn(examples, len(by_model[some]), rng)
        for name, values in right.items():
            drawn[name][some] = ((by_model[some] @ values) * by_example).sum(1)
    made = {}
    for name, values in right.items():
        low, high = np.quantile(drawn[name], EDGES)
        row = {"value": float(values.mean()), "low": float(low), "high": float(high), "models": models, "n": examples}
        gap_low, gap_high = np.quantile(drawn[name] - drawn[base], EDGES)
        gap = float(values.mean() - right[base].mean())
        made[name] = {**row, "difference": gap, "difference_low": float(gap_low), "difference_high": float(gap_high)}
    return made
