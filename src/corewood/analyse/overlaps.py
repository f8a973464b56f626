"""What the subnetworks of two tasks share (When BERT Plays the Lottery, section 5.3 and appendix G)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from corewood.analyse.core import DRAWS
from corewood.analyse.stability import tail, total_at_least
from corewood.errors import InputError
from corewood.model.mask import Mask, Masks


def overlaps(masks: Mapping[str, Sequence[Mask]], draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """Task -> its masks in the order of seeds; one row per two tasks, kind of unit, and all or super-survivors.

    Seeds are paired by position, up to the shorter list. `shared` is the mean over seeds and `std` its standard deviation
    (n - 1), `expected` the mean if the tasks were independent. `p`: random masks of the same sizes share at least as
    many. `p_whole`: the same where the units of a task change places in all its seeds at once, so that seeds of a task
    still resemble each other. Rows of a task with itself hold its size.

    Example:
        >>> table = cw.overlaps({"one": masks[:2], "other": masks[1:]})
        >>> table[["one", "other", "kind", "which"]].iloc[1].tolist()
        ['one', 'other', 'head', 'all units']
    """
    if not isinstance(masks, Mapping):
        raise InputError("overlaps: takes the masks of each task by its name, {'cola': masks, 'rte': others}")
    if not masks or not all(masks.values()):
        raise InputError("overlaps need at least one task, and at least one mask of each")
    everything = Masks([mask for group in masks.values() for mask in group])  # checks that all have one shape
    if not everything.heads.size:
        raise InputError("overlaps need masks with units")
    rng = np.random.default_rng(seed)
    packs = {task: Masks(group) for task, group in masks.items()}
    heads = {task: pack.heads.reshape(len(pack), -1) for task, pack in packs.items()}  # (seed, unit) each
    mlps = {task: pack.mlps for task, pack in packs.items()}
    rows = []
    for kind, kept in (("head", heads), ("mlp", mlps)):
        survivors = {task: np.asarray(found.all(0))[None] for task, found in kept.items()}
        for which, found in (("all units", kept), ("super-survivors", survivors)):
            for one, other in combinations_with_replacement(masks, 2):
                facts = {"one": one, "other": other, "kind": kind, "which": which}
                rows.append({**facts, **shared(found[one], found[other], one == other, draws, rng)})
    return pd.DataFrame(rows)


def shared(one: np.ndarray, other: np.ndarray, itself: bool, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """(seed, unit) each -> the columns that are numbers."""
    seeds, units = min(len(one), len(other)), one.shape[1]
    one, other = one[:seeds], other[:seeds]
    counts, first, second = (one & other).sum(1), one.sum(1), other.sum(1)  # (seed,)
    return {
        "seeds": seeds,
        "units": units,
        "shared": float(counts.mean()),
        "std": float(counts.std(ddof=1)) if seeds > 1 else np.nan,
        "expected": np.nan if itself else float((first * second).mean() / units),
        "p": np.nan if itself else total_at_least(int(counts.sum()), units, first, second),
        "p_whole": np.nan if itself else relabelled(one, other, draws, rng),
    }


def relabelled(one: np.ndarray, other: np.ndarray, draws: int, rng: np.random.Generator) -> float:
    """(seed, unit) each: `other`'s units change places, the same way in all seeds."""
    if len(one) == 1:  # exact: the same as random masks
        return total_at_least(int((one & other).sum()), one.shape[1], one.sum(1), other.sum(1))
    both = one.T.astype(int) @ other.astype(int)  # (unit of one, unit of other): seeds that keep them
    drawn = np.array([both[np.arange(len(both)), rng.permutation(len(both))].sum() for _ in range(draws)])
    return tail(drawn, float(np.trace(both)))
