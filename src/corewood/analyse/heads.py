"""How often each unit survives, and whether two sparsities agree on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import hypergeom, spearmanr
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from corewood.errors import InputError
from corewood.model.mask import Mask


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
    total, first, second = one.heads.size, int(one.heads.sum()), int(other.heads.sum())
    shared = int((one.heads & other.heads).sum())
    either = first + second - shared
    return {
        "heads": first,
        "heads_last": second,
        "shared": shared,
        "share_of_last": shared / second if second else np.nan,
        "jaccard": shared / either if either else np.nan,
        "expected": first * second / total,
        "p": float(hypergeom.sf(shared - 1, total, first, second)),
    }


def agreement(masks: Sequence[Mask]) -> pd.DataFrame:
    """Pairwise Jaccard index and Cohen's kappa of heads, beside their values for random masks of the same sizes.

    `fleiss` (the same in every row) is Fleiss' kappa over all masks at once; random masks give about 0.
    """
    if len(masks) < 2:
        raise InputError("agreement needs at least two masks")
    flat = np.stack([m.heads.ravel() for m in masks])  # (mask, head)
    fleiss = fleiss_kappa(aggregate_raters(flat.T.astype(int), n_cat=2)[0])
    rows = []
    for i, j in combinations(range(len(flat)), 2):
        a, b = flat[i], flat[j]
        both, either = int((a & b).sum()), int((a | b).sum())
        by_chance = a.mean() * b.mean()
        expected_both = by_chance * a.size
        observed = float((a == b).mean())
        agree = by_chance + (1 - a.mean()) * (1 - b.mean())
        rows.append(
            {
                "one": i,
                "other": j,
                "shared": both,
                "shared_expected": expected_both,
                "jaccard": both / either if either else np.nan,
                "jaccard_expected": expected_both / (a.sum() + b.sum() - expected_both) if either else np.nan,
                "kappa": (observed - agree) / (1 - agree) if agree < 1 else np.nan,
                "fleiss": float(fleiss),
            }
        )
    return pd.DataFrame(rows)
