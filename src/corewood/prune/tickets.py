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
NUMPYS_LIMIT = 10**9  # of what it draws from at once


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


def generator(seed: Sequence[int], ticket: str, draw: int) -> np.random.Generator:
    """Of one ticket: the same however many others are drawn."""
    return np.random.default_rng([*seed, (RANDOM, BAD).index(ticket), draw])


def unit_ticket(good: Mask, ticket: str, draw: int, seed: Sequence[int]) -> Mask:
    """The bad one, or one of the random ones."""
    return (bad_mask if ticket == BAD else random_mask)(good, generator(seed, ticket, draw))


def unit_tickets(good: Mask, random: int, seed: Sequence[int]) -> dict[str, Mask]:
    """Name -> mask: good, random-0, random-1, ..., bad."""
    made = {GOOD: good} | {f"{RANDOM}-{i}": unit_ticket(good, RANDOM, i, seed) for i in range(random)}
    return {**made, BAD: unit_ticket(good, BAD, 0, seed)}


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


def weight_ticket(good: WeightMask, ticket: str, draw: int, seed: Sequence[int]) -> WeightMask:
    """As with units, weight by weight; the numbers per matrix follow from drawing over all of them at once."""
    rng = generator(seed, ticket, draw)
    if ticket == BAD:
        return bad_weights(good, rng)
    everything = {name: int(np.prod(shape)) for name, shape in good.shapes.items()}
    wanted = spread_over(list(everything.values()), len(good), rng)
    return drawn_weights(good, dict(zip(everything, wanted, strict=True)), None, rng)


def weight_tickets(good: WeightMask, random: int, seed: Sequence[int]) -> dict[str, WeightMask]:
    """Name -> mask: good, random-0, random-1, ..., bad."""
    made = {GOOD: good} | {f"{RANDOM}-{i}": weight_ticket(good, RANDOM, i, seed) for i in range(random)}
    return {**made, BAD: weight_ticket(good, BAD, 0, seed)}


def spread_over(sizes: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """How many of `count` draws without repetition fall into each of the pools."""
    pools = np.asarray(sizes, np.int64)
    if pools.sum() < NUMPYS_LIMIT:
        return np.asarray(rng.multivariate_hypergeometric(pools, count, method="marginals"))
    share = pools * (count / pools.sum())  # of so many, a draw is nowhere near another whole per cent from what is expected
    found: np.ndarray = share.astype(np.int64)
    found[rng.choice(np.flatnonzero(found < pools), count - int(found.sum()), replace=False)] += 1
    return found


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
