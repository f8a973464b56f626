"""Tickets: the good subnetwork, and random and bad ones of exactly its size (LT, section 4.2 and appendix E).

Random ones are drawn from everything. Bad ones are drawn from what pruning removed and, where that is not enough, filled up
from the good one. Heads and MLPs are drawn apart, so that all tickets have as many of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from corewood.errors import InputError
from corewood.model.mask import Mask, all_masks, one_mask
from corewood.model.weights import WeightMask

GOOD, RANDOM, BAD = "good", "random", "bad"
NUMPYS_LIMIT = 10**9  # of what it draws from at once
T = TypeVar("T", Mask, WeightMask)


def draw(pools: Sequence[np.ndarray], count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` of what the pools hold, bool of one shape each: all of a pool before the next is touched, the last by lot."""
    chosen = np.zeros(pools[0].shape, bool)
    for pool in pools:
        places = np.flatnonzero(pool & ~chosen)
        left = count - int(chosen.sum())
        chosen.flat[places if len(places) <= left else rng.choice(places, left, replace=False)] = True
    return chosen


def generator(seed: Sequence[int], ticket: str, number: int) -> np.random.Generator:
    """Of one ticket: the same however many others are drawn."""
    return np.random.default_rng([*seed, (RANDOM, BAD).index(ticket), number])


def tickets(good: T, one: Callable[[T, str, int, Sequence[int]], T], random: int, seed: Sequence[int]) -> dict[str, T]:
    """Name -> mask: good, random-0, random-1, ..., bad."""
    made = {GOOD: good} | {f"{RANDOM}-{i}": one(good, RANDOM, i, seed) for i in range(random)}
    return {**made, BAD: one(good, BAD, 0, seed)}


def seeds_of(seed: int | Sequence[int]) -> Sequence[int]:
    return [int(seed)] if isinstance(seed, (int, np.integer)) else seed


def unit_tickets(good: Mask, random: int = 1, seed: int | Sequence[int] = 0) -> dict[str, Mask]:
    """The good subnetwork, so many random ones and a bad one of exactly its size, by name.

    Example:
        >>> cw.unit_tickets(masks[0], random=2)
        {'good': <Mask ...>, 'random-0': <Mask ...>, 'random-1': <Mask ...>, 'bad': <Mask ...>}
    """
    return tickets(one_mask(good, "unit_tickets"), unit_ticket, random, seeds_of(seed))


def weight_tickets(good: WeightMask, random: int = 1, seed: int | Sequence[int] = 0) -> dict[str, WeightMask]:
    """As `cw.unit_tickets`, of single weights.

    Example:
        >>> good = cw.prune_weights(model, task.validation, cw.Magnitude(sparsity=0.6)).mask
        >>> tickets = cw.weight_tickets(good)
        >>> [*tickets], tickets["bad"].shared(good)
        (['good', 'random-0', 'bad'], 0)
    """
    if not isinstance(good, WeightMask):
        raise InputError(f"weight_tickets: takes a mask of weights, not {type(good).__name__}; of units, cw.unit_tickets")
    return tickets(good, weight_ticket, random, seeds_of(seed))


def unit_ticket(good: Mask, ticket: str, number: int, seed: Sequence[int]) -> Mask:
    """The bad one, or one of the random ones."""
    rng = generator(seed, ticket, number)

    def drawn(part: np.ndarray) -> np.ndarray:
        return draw([~part, part] if ticket == BAD else [np.ones_like(part)], int(part.sum()), rng)

    return Mask(drawn(good.heads), drawn(good.mlps))


def around(core: Mask, like: Mask, number: int, seed: Sequence[int]) -> Mask:
    """As many heads and MLPs as another mask has: all heads of the core, the others and the MLPs by lot."""
    rng = np.random.default_rng([*seed, 2, number])  # tickets have 0 and 1
    heads = draw([core.heads, np.ones_like(core.heads)], int(like.heads.sum()), rng)
    return Mask(heads, draw([np.ones_like(core.mlps)], int(like.mlps.sum()), rng))


def super_tickets(masks: Sequence[Mask], seed: int | Sequence[int] = 0) -> dict[str, Mask]:
    """Good: units in all masks. Bad: as many of those that the fewest keep. Random: drawn from neither, as far as they go.

    Example:
        >>> tickets = cw.super_tickets(masks)
        >>> tickets["good"] == masks[0] & masks[1] & masks[2]
        True
    """
    masks = all_masks(masks, "super_tickets")
    if not masks:
        raise InputError("super_tickets: needs at least one mask")
    rng = np.random.default_rng(seed)
    parts = []  # of heads and of MLPs: good, random, bad
    for kept in (np.stack([m.heads for m in masks]), np.stack([m.mlps for m in masks])):
        times = kept.sum(0)
        good = times == len(masks)
        bad = draw([times == k for k in range(len(masks) + 1)], int(good.sum()), rng)
        parts.append((good, draw([~(good | bad), ~good, good], int(good.sum()), rng), bad))
    return {name: Mask(heads, mlps) for name, heads, mlps in zip((GOOD, f"{RANDOM}-0", BAD), *parts, strict=True)}


def weight_ticket(good: WeightMask, ticket: str, number: int, seed: Sequence[int]) -> WeightMask:
    """As with units, weight by weight; the numbers per matrix follow from drawing over all of them at once."""
    rng = generator(seed, ticket, number)
    if ticket == RANDOM:
        return drawn_weights(good, len(good), None, rng)
    missing = 2 * len(good) - good.total  # what pruning removed is not enough
    if missing <= 0:
        return drawn_weights(good, len(good), False, rng)
    filled = drawn_weights(good, missing, True, rng)
    return WeightMask.of({name: ~good.kept(name) | filled.kept(name) for name in good.bits})


def spread_over(sizes: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """How many of `count` draws without repetition fall into each of the pools."""
    pools = np.asarray(sizes, np.int64)
    if pools.sum() < NUMPYS_LIMIT:
        return np.asarray(rng.multivariate_hypergeometric(pools, count, method="marginals"))
    share = pools * (count / pools.sum())  # of so many, a draw is nowhere near another whole per cent from what is expected
    found: np.ndarray = share.astype(np.int64)
    found[rng.choice(np.flatnonzero(found < pools), count - int(found.sum()), replace=False)] += 1
    return found


def drawn_weights(good: WeightMask, count: int, among: bool | None, rng: np.random.Generator) -> WeightMask:
    """So many weights: among the good ones, the others, or (None) all."""

    def pool(name: str) -> np.ndarray:
        kept = good.kept(name)
        return np.ones_like(kept) if among is None else kept == among

    wanted = spread_over([int(pool(name).sum()) for name in good.bits], count, rng)
    return WeightMask.of({name: draw([pool(name)], int(n), rng) for name, n in zip(good.bits, wanted, strict=True)})
