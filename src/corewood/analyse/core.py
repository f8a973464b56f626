"""The core: heads that all subnetworks share, and how many chance would share (the Heuristic Core, section 4).

Beside it, how often each unit survives, and whether sparsities agree on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from corewood.errors import InputError
from corewood.model.mask import Mask, Masks, all_masks

DRAWS = 2000


@dataclass(frozen=True)
class Core:
    """Heads (and MLPs) that at least `share` of the masks keep, beside what random masks of the same sizes would share.

    `expected` is for masks that scatter their heads over the whole model, `expected_layers` for masks that keep as many
    heads in each layer as the real ones do; the p-values are the share of random draws with a core at least as large.

    Example:
        >>> found = cw.core(masks)
        >>> found
        <Core of 3 masks: ... heads (chance ..., p ...; with the same heads per layer ..., p ...), ... MLPs>
        >>> found.heads == [name for name in found.mask if ".H" in name]
        True
    """

    mask: Mask
    share: float
    masks: int
    expected: float
    p: float
    expected_layers: float
    p_layers: float

    @property
    def heads(self) -> list[str]:
        return [name for name in self.mask.names if ".H" in name]

    @property
    def mlps(self) -> list[str]:
        return [name for name in self.mask.names if ".MLP" in name]

    def __repr__(self) -> str:
        return (
            f"<Core of {self.masks} masks: {len(self.heads)} heads (chance {self.expected:.2g}, p {self.p:.2g}; with the same "
            f"heads per layer {self.expected_layers:.2g}, p {self.p_layers:.2g}), {len(self.mlps)} MLPs>"
        )

    def _repr_html_(self) -> str:
        return f"<div>{repr(self)[1:-1]}</div>{self.mask._repr_html_()}"


def core(masks: Sequence[Mask], share: float = 1.0, draws: int = DRAWS, seed: int = 0) -> Core:
    """The heads and MLPs that subnetworks share. `share` = 1 means in all masks, the paper's definition; `draws` are those of
    random masks to compare with.

    Example:
        >>> cw.core(masks).mask == masks[0] & masks[1] & masks[2]
        True
        >>> len(cw.core(masks, share=0.6).mask) >= len(cw.core(masks).mask)  # in two of three
        True
    """
    if not all_masks(masks, "core"):
        raise InputError("a core needs at least one mask")
    heads, mlps = Masks(masks).heads, Masks(masks).mlps  # (mask, layer, head), (mask, layer)
    needed = int(np.ceil(share * len(masks) - 1e-9))
    kept = heads.sum(0) >= needed
    observed = int(kept.sum())
    rng = np.random.default_rng(seed)
    flat = heads.reshape(len(masks), 1, -1)  # one stratum: the whole model
    chance, p = null(flat, needed, observed, draws, rng)
    chance_layers, p_layers = null(heads, needed, observed, draws, rng)
    if needed == len(masks):  # exact where a product of shares gives it
        chance, chance_layers = expected_all(flat), expected_all(heads)
    return Core(Mask(kept, mlps.sum(0) >= needed), share, len(masks), chance, p, chance_layers, p_layers)


def expected_all(heads: np.ndarray) -> float:
    """(mask, stratum, head) -> sum over strata of size * product over masks of the share kept there."""
    return float((heads.shape[2] * heads.mean(2).prod(0)).sum())


def null(heads: np.ndarray, needed: int, observed: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean core size of masks shuffled within their strata, and the permutation p-value of the observed size."""
    drawn = rng.permuted(np.broadcast_to(heads, (draws, *heads.shape)), axis=-1)  # (draw, mask, stratum, head)
    sizes = (drawn.sum(1) >= needed).sum((1, 2))
    return float(sizes.mean()), float((1 + (sizes >= observed).sum()) / (1 + draws))


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
