"""How often each unit survives, and whether masks or sparsities agree on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from corewood.analyse.core import DRAWS
from corewood.analyse.stability import Stability, fleiss, pair, pairs
from corewood.analyse.stability import stability as unit_stability
from corewood.errors import InputError
from corewood.model.mask import Mask, Masks


def frequencies(masks: pd.DataFrame) -> pd.DataFrame:
    """`masks` table -> one row per target and unit: count, of, share."""
    grouped = masks.groupby(["target", "kind", "layer", "index"], sort=True)["kept"]
    table = grouped.agg(count="sum", of="size").reset_index()
    return table.assign(share=table["count"] / table["of"])


def rank_correlations(frequency: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rho between the head frequencies of every two targets."""
    heads = frequency[frequency["kind"] == "head"].pivot(index=["layer", "index"], columns="target", values="share")
    rows = []
    for one, other in combinations(heads.columns, 2):
        constant = heads[one].nunique() < 2 or heads[other].nunique() < 2
        rho, p = (np.nan, np.nan) if constant else spearmanr(heads[one], heads[other])
        rows.append({"target": one, "other": other, "heads": len(heads), "rho": float(rho), "p": float(p)})
    return pd.DataFrame(rows, columns=["target", "other", "heads", "rho", "p"])


def overlap(one: Mask, other: Mask) -> dict[str, float]:
    """Heads that two masks share, and what drawing as many at random would share: expectation and p-value."""
    first, second = int(one.heads.sum()), int(other.heads.sum())
    found = pair(one.heads.ravel(), other.heads.ravel())
    return {
        "heads": first,
        "heads_last": second,
        "shared": found["shared"],
        "share_of_last": found["shared"] / second if second else np.nan,
        "jaccard": found["jaccard"],
        "expected": found["shared_expected"],
        "p": found["p"],
    }


def agreement(masks: Sequence[Mask]) -> pd.DataFrame:
    """Every two masks, on heads: Jaccard index and Cohen's kappa beside random masks of the same sizes, and whether they
    share more than those would.

    `fleiss` (the same in every row) is Fleiss' kappa over all masks at once; `stability` says more about it.
    """
    kept = flat_heads(masks)
    columns = "one other shared shared_expected jaccard jaccard_expected kappa fleiss p p_holm real".split()
    return pairs(kept).assign(fleiss=fleiss(kept))[columns]


def stability(masks: Sequence[Mask], draws: int = DRAWS, seed: int = 0) -> Stability:
    """How far masks keep the same heads, beside random masks of the same sizes."""
    kept = flat_heads(masks)
    layers, heads = masks[0].heads.shape
    return unit_stability(kept, np.repeat(np.arange(layers), heads), draws, seed)


def flat_heads(masks: Sequence[Mask]) -> np.ndarray:
    """(mask, head) bool"""
    if len(masks) < 2:
        raise InputError("agreement needs at least two masks")
    return Masks(masks).heads.reshape(len(masks), -1)
