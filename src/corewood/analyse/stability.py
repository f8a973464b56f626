"""Do searches that differ only in their seed keep the same units? Each number stands beside what random masks give.

`kept` is (mask, unit) bool throughout, `strata` (unit,) the layer of each unit. At the end, the same for masks: on heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import hypergeom
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from corewood.analyse.core import DRAWS, expected_all
from corewood.analyse.differences import corrected
from corewood.errors import InputError
from corewood.model.mask import Mask, Masks, all_masks

TIE = 1e-12  # kappas of equal counts may differ by rounding


@dataclass(frozen=True)
class Stability:
    """How far masks keep the same units, beside random masks of the same sizes.

    `..._expected` is the mean over random masks that scatter their units over the whole model, `..._expected_layers`
    over masks with as many units in each layer as the real ones; the p-values are the share of random draws that are
    at least as large. `q` (Cochran) is another question: do all masks have the same SIZE? NaN where nothing can be said.

    Example:
        >>> found = cw.stability(masks)
        >>> found
        <Stability of 3 masks of 8 units: Fleiss' kappa ... (chance ..., p ...>
        >>> found.survivors == len(cw.core(masks).heads)
        True
    """

    masks: int
    units: int
    smallest: int
    mean: float
    largest: int
    fleiss: float
    fleiss_expected: float
    fleiss_p: float
    fleiss_expected_layers: float
    fleiss_p_layers: float
    q: float
    q_p: float
    q_expected: float
    survivors: int
    survivors_expected: float
    survivors_p: float
    survivors_expected_layers: float
    survivors_p_layers: float

    def row(self) -> dict[str, float]:
        return asdict(self)

    def _repr_html_(self) -> str:
        return f"<div>{repr(self)[1:-1]}</div>{pd.Series(self.row()).to_frame().to_html(header=False)}"

    def __repr__(self) -> str:
        return (
            f"<Stability of {self.masks} masks of {self.units} units: Fleiss' kappa {self.fleiss:.3f} "
            f"(chance {self.fleiss_expected:.2g}, p {self.fleiss_p:.2g}; with the same units per layer "
            f"{self.fleiss_expected_layers:.2g}, p {self.fleiss_p_layers:.2g}), {self.survivors} super-survivors "
            f"(chance {self.survivors_expected:.2g}, p {self.survivors_p:.2g})>"
        )


def unit_stability(kept: np.ndarray, strata: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Stability:
    """Fleiss' kappa, units in all masks (super-survivors) and Cochran's Q, over the whole model and within layers."""
    if len(kept) < 2:
        raise InputError("stability needs at least two masks")
    if kept.shape[1] != len(strata) or not len(strata) or draws < 1:
        raise InputError(f"stability needs the layer of each unit and a draw or more, not {kept.shape}, {len(strata)}, {draws}")
    sizes = kept.sum(1)
    observed, alive = fleiss(kept), int(kept.all(0).sum())
    q, q_p = equal_sizes(kept)
    rng = np.random.default_rng(seed)
    kappas, qs, counts, expected = null(kept, np.zeros_like(strata), draws, rng)
    kappas_layers, _, counts_layers, expected_layers = null(kept, strata, draws, rng)
    return Stability(
        masks=len(kept),
        units=kept.shape[1],
        smallest=int(sizes.min()),
        mean=float(sizes.mean()),
        largest=int(sizes.max()),
        fleiss=observed,
        fleiss_expected=mean(kappas),
        fleiss_p=tail(kappas, observed),
        fleiss_expected_layers=mean(kappas_layers),
        fleiss_p_layers=tail(kappas_layers, observed),
        q=q,
        q_p=q_p,
        q_expected=mean(qs),
        survivors=alive,
        survivors_expected=expected,
        survivors_p=tail(counts, alive),
        survivors_expected_layers=expected_layers,
        survivors_p_layers=tail(counts_layers, alive),
    )


def fleiss(kept: np.ndarray) -> float:
    """Fleiss' kappa of masks as raters of units; NaN where all keep everything or all keep nothing."""
    if kept.all() or not kept.any():
        return np.nan
    return float(fleiss_kappa(aggregate_raters(kept.T.astype(int), n_cat=2)[0]))


def equal_sizes(kept: np.ndarray) -> tuple[float, float]:
    """Cochran's Q and its p: do all masks keep the same number of units? NaN where they do not differ in any unit."""
    if (kept == kept[0]).all():
        return np.nan, np.nan
    found = cochrans_q(kept.T.astype(int))
    return float(found.statistic), float(found.pvalue)


Null = tuple[np.ndarray, np.ndarray, np.ndarray, float]  # kappas, Qs and super-survivors (draw,), the last's exact mean


def null(kept: np.ndarray, strata: np.ndarray, draws: int, rng: np.random.Generator) -> Null:
    """Masks with as many units in each stratum as the real ones; empty where units cannot change places."""
    members = [strata == s for s in np.unique(strata)]
    if max(m.sum() for m in members) < 2:  # one MLP per layer
        return np.empty(0), np.empty(0), np.empty(0), np.nan
    votes = np.stack([drawn.sum(0) for drawn in shuffled(kept, strata, draws, rng)])  # (draw, unit)
    expected = sum(expected_all(kept[:, None, m]) for m in members)
    return fleiss_of(votes, kept), q_of(votes, kept), (votes == len(kept)).sum(1), expected


def fleiss_of(votes: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Fleiss' kappa of every draw from its votes; shuffling leaves the share of what is kept as it is."""
    count, share = len(kept), kept.mean()
    by_chance = share**2 + (1 - share) ** 2
    if by_chance == 1:
        return np.full(len(votes), np.nan)
    same = (votes * (votes - 1) + (count - votes) * (count - votes - 1)) / (count * (count - 1))
    return np.asarray((same.mean(1) - by_chance) / (1 - by_chance))


def q_of(votes: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Cochran's Q of every draw from its votes; shuffling leaves the sizes as they are."""
    sizes = kept.sum(1)
    count, total = len(sizes), sizes.sum()
    spread = (count * total - (votes**2).sum(1)).astype(float)
    spread[spread == 0] = np.nan  # all masks alike
    return np.asarray((count - 1) * (count * (sizes**2).sum() - total**2) / spread)


def shuffled(kept: np.ndarray, strata: np.ndarray, draws: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """(mask, unit), units in the order of their strata: each mask shuffled by itself, within strata."""
    order = np.argsort(strata, kind="stable")
    kept, block = kept[:, order], np.unique(strata[order], return_inverse=True)[1]
    for begin in range(0, draws, at_once := max(1, 1_000_000 // kept.size)):
        many = (min(at_once, draws - begin), *kept.shape)  # (draw, mask, unit)
        places = np.argsort(block + rng.random(many), axis=-1)  # whole part: the stratum
        yield from np.take_along_axis(np.broadcast_to(kept, many), places, -1)


def mean(drawn: np.ndarray) -> float:
    """Without the draws that say nothing."""
    drawn = drawn[~np.isnan(drawn)]
    return float(drawn.mean()) if drawn.size else np.nan


def tail(drawn: np.ndarray, observed: float) -> float:
    """The permutation p-value of a value at least as large."""
    if not drawn.size or np.isnan(observed):
        return np.nan
    return float((1 + (drawn >= observed - TIE).sum()) / (1 + len(drawn)))


def pairs(kept: np.ndarray, names: Sequence[object] | None = None) -> pd.DataFrame:
    """Every two masks: units shared, Jaccard index and Cohen's kappa, beside random masks of the same sizes.

    Shuffling two masks makes the number of shared units hypergeometric, so expectations and p (at least as many shared)
    are exact; `p_holm` corrects for all rows, `real` marks those that survive it. Cohen's kappa is 0 in expectation.
    """
    if len(kept) < 2:
        raise InputError("agreement needs at least two masks")
    names = range(len(kept)) if names is None else names
    rows = [{"one": names[i], "other": names[j], **pair(kept[i], kept[j])} for i, j in combinations(range(len(kept)), 2)]
    return corrected(pd.DataFrame(rows))


def pair(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """(unit,) bool each."""
    total, first, second = one.size, int(one.sum()), int(other.sum())
    shared = int((one & other).sum())
    empty = first + second == 0
    by_chance = (first * second + (total - first) * (total - second)) / total**2
    same = float((one == other).mean())
    kappa = (same - by_chance) / (1 - by_chance) if by_chance < 1 else np.nan
    return {
        "shared": shared,
        "shared_expected": first * second / total,
        "jaccard": np.nan if empty else shared / (first + second - shared),
        "jaccard_expected": np.nan if empty else jaccard_by_chance(total, first, second),
        "kappa": kappa,
        "kappa_expected": np.nan if np.isnan(kappa) else 0.0,
        "p": at_least(shared, total, first, second),
    }


@lru_cache(maxsize=100_000)  # many masks have few sizes
def jaccard_by_chance(total: int, first: int, second: int) -> float:
    possible = np.arange(max(0, first + second - total), min(first, second) + 1)
    jaccards = possible / np.maximum(first + second - possible, 1)
    return float(jaccards @ hypergeom.pmf(possible, total, first, second))


@lru_cache(maxsize=100_000)
def at_least(shared: int, total: int, first: int, second: int) -> float:
    """The chance that random masks of `first` and `second` of `total` units share at least as many."""
    return float(hypergeom.sf(shared - 1, total, first, second))


def total_at_least(total: int, units: int, first: np.ndarray, second: np.ndarray) -> float:
    """Sizes of parts (part,) of `units` each -> the chance that random ones share at least `total` units together: exact."""
    if len(first) == 1:
        return at_least(total, units, int(first[0]), int(second[0]))
    chances = np.ones(1)  # of 0, 1, 2... shared so far
    for a, b in zip(first, second, strict=True):
        chances = np.convolve(chances, hypergeom.pmf(np.arange(min(a, b) + 1), units, a, b))
    return min(1.0, float(chances[total:].sum()))


def overlap(one: Mask, other: Mask) -> dict[str, float]:
    """Heads that two masks share, and what random masks would that keep as many, or as many in each layer: expectation and
    p-value."""
    first, second = int(one.heads.sum()), int(other.heads.sum())
    found = pair(one.heads.ravel(), other.heads.ravel())
    heads, layers = one.heads.shape[1], (one.heads.sum(1), other.heads.sum(1))
    return {
        "heads": first,
        "heads_last": second,
        "shared": found["shared"],
        "share_of_last": found["shared"] / second if second else np.nan,
        "jaccard": found["jaccard"],
        "expected": found["shared_expected"],
        "p": found["p"],
        "expected_layers": float((layers[0] * layers[1]).sum() / heads),
        "p_layers": total_at_least(int(found["shared"]), heads, *layers),
    }


def agreement(masks: Sequence[Mask]) -> pd.DataFrame:
    """Every two masks, on heads: Jaccard index and Cohen's kappa beside random masks of the same sizes, and whether they
    share more than those would.

    `fleiss` (the same in every row) is Fleiss' kappa over all masks at once; `cw.stability` says more about it.

    Example:
        >>> cw.agreement(masks)[["one", "other"]].to_numpy().tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    kept = flat_heads(masks)
    columns = "one other shared shared_expected jaccard jaccard_expected kappa fleiss p p_holm real".split()
    return pairs(kept).assign(fleiss=fleiss(kept))[columns]


def stability(masks: Sequence[Mask], draws: int = DRAWS, seed: int = 0) -> Stability:
    """How far masks keep the same heads, beside random masks of the same sizes.

    Example:
        >>> cw.stability([masks[0], masks[0]]).fleiss  # two masks that are the same
        1.0
    """
    kept = flat_heads(masks)
    return unit_stability(kept, np.indices(masks[0].heads.shape)[0].ravel(), draws, seed)


def flat_heads(masks: Sequence[Mask]) -> np.ndarray:
    """(mask, head) bool"""
    if len(all_masks(masks, "agreement")) < 2:
        raise InputError("agreement needs at least two masks")
    return Masks(masks).heads.reshape(len(masks), -1)
