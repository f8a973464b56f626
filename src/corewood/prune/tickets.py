"""Tickets: the good subnetwork, and random and bad ones of exactly its size (LT, section 4.2 and appendix E).

Random ones are drawn from everything. Bad ones are drawn from what pruning removed and, where that is not enough, filled up
from the good one. Heads and MLPs are drawn apart, so that all tickets have as many of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewood.model.mask import Mask
from corewood.model.weights import WeightMask

GOOD, RANDOM, BAD = "good", "random", "bad"


def draw(pools: Sequence[np.ndarray], count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` of the units in the pools, (unit,) bool each: all of a pool before the next is touched, the last by lot."""
    chosen = np.zeros(pools[0].shape, bool)
    for pool in pools:
        places = np.flatnonzero(pool & ~chosen)
        left = count - int(chosen.sum())
        chosen[places if len(places) <= left else rng.choice(places, left, replace=False)] = True
    return chosen


def combine(like: Mask, heads: np.ndarray, mlps: np.ndarray) -> Mask:
    return Mask(heads.reshape(like.heads.shape), mlps)


def random_mask(good: Mask, rng: np.random.Generator) -> Mask:
    parts = [draw([np.ones(part.size, bool)], int(part.sum()), rng) for part in (good.heads.ravel(), good.mlps)]
    return combine(good, *parts)


def bad_mask(good: Mask, rng: np.random.Generator) -> Mask:
    parts = [draw([~part, part], int(part.sum()), rng) for part in (good.heads.ravel(), good.mlps)]
    return combine(good, *parts)


def unit_tickets(good: Mask, random: int, seed: Sequence[int]) -> dict[str, Mask]:
    """Name -> mask: good, random-0, random-1, ..., bad."""
    rng = np.random.default_rng(seed)
    made = {GOOD: good} | {f"{RANDOM}-{i}": random_mask(good, rng) for i in range(random)}
    return {**made, BAD: bad_mask(good, rng)}


def super_tickets(masks: Sequence[Mask], seed: Sequence[int]) -> dict[str, Mask]:
    """Good: units in all masks. Bad: as many of those that the fewest keep. Random: drawn from neither, as far as they go."""
    rng = np.random.default_rng(seed)
    made: dict[str, list[np.ndarray]] = {GOOD: [], f"{RANDOM}-0": [], BAD: []}
    for kept in (np.stack([m.heads.ravel() for m in masks]), np.stack([m.mlps for m in masks])):
        times = kept.sum(0)
        good = times == len(masks)
        bad = draw([times == k for k in range(len(masks) + 1)], int(good.sum()), rng)
        rest = ~(good | bad)
        for name, part in zip(made, (good, draw([rest, ~good, good], int(good.sum()), rng), bad), strict=True):
            made[name].append(part)
    return {name: combine(masks[0], heads, mlps) for name, (heads, mlps) in made.items()}


def weight_tickets(good: WeightMask, random: int, seed: Sequence[int]) -> dict[str, WeightMask]:
    """As with units, weight by weight; the numbers per matrix follow from drawing over all of them at once."""
    rng = np.random.default_rng(seed)
    made = {GOOD: good}
    everything = {name: int(np.prod(shape)) for name, shape in good.shapes.items()}
    for i in range(random):
        wanted = spread_over(list(everything.values()), len(good), rng)
        made[f"{RANDOM}-{i}"] = drawn_weights(good, dict(zip(everything, wanted, strict=True)), None, rng)
    return {**made, BAD: bad_weights(good, rng)}


def spread_over(sizes: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """How many of `count` draws without repetition fall into each of the pools."""
    return np.asarray(rng.multivariate_hypergeometric(np.asarray(sizes, np.int64), count, method="marginals"))


def bad_weights(good: WeightMask, rng: np.random.Generator) -> WeightMask:
    sizes = {name: int(np.bitwise_count(bits).sum(dtype=np.int64)) for name, bits in good.bits.items()}  # good ones
    gone = {name: int(np.prod(good.shapes[name])) - count for name, count in sizes.items()}
    pruned = sum(gone.values())
    if pruned >= len(good):
        wanted = spread_over(list(gone.values()), len(good), rng)
        return drawn_weights(good, dict(zip(gone, wanted, strict=True)), False, rng)
    wanted = spread_over(list(sizes.values()), len(good) - pruned, rng)
    filled = drawn_weights(good, dict(zip(sizes, wanted, strict=True)), True, rng)
    return WeightMask.of({name: ~good.kept(name) | filled.kept(name) for name in good.bits})


def drawn_weights(good: WeightMask, wanted: dict[str, int], among: bool | None, rng: np.random.Generator) -> WeightMask:
    """So many weights of each matrix: among the good ones, the others, or (None) all."""
    made = {}
    for name, count in wanted.items():
        kept = good.kept(name)
        pool = np.ones(kept.shape, bool) if among is None else kept == among
        made[name] = draw([pool.ravel()], int(count), rng).reshape(kept.shape)
    return WeightMask.of(made)
