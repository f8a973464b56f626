"""Attention maps from a parametric model of each pattern type, to train a classifier where no annotated maps are to be had.

A map is a mixture of parts, each a (query, key) array whose rows add up to one: columns, a band along the diagonal, even
blocks, irregular spots, and a background. The type says which parts stand out; all else is drawn wide, so that the classes
meet where a person would hesitate too: a column seen by half of the rows is a vertical, one seen by a third is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SHORTEST, LONGEST = 7, 128  # tokens
SEEN = (0.55, 1.0)  # of the rows see a column that makes a vertical
PARTLY = (0.05, 0.38)  # or do not make one
Rng = np.random.Generator
Map = npt.NDArray[np.float64]  # (query, key), where nothing else is said


@dataclass(frozen=True)
class Layout:
    """Places of one made-up example."""

    count: int  # tokens
    sentence: np.ndarray  # (token,) 0 or 1; a special token belongs to the sentence before it
    special: np.ndarray  # (token,) bool: [CLS], [SEP]
    punctuation: np.ndarray  # (token,) bool
    word: np.ndarray  # (token,) which word stands there; a word can come back


def layout(rng: Rng) -> Layout:
    count = round(np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST))))
    place = np.arange(count)
    special = (place == 0) | (place == count - 1)
    sentence = np.zeros(count, int)
    if count >= 9 and rng.random() < 0.6:
        end = int(rng.integers(count // 4 + 1, max(count // 4 + 2, 3 * count // 4)))
        special[end] = True
        sentence[end + 1 :] = 1
    punctuation = (rng.random(count) < rng.uniform(0.02, 0.15)) | np.roll(special, -1)  # a full stop before [SEP]
    words = rng.integers(0, max(2, int(count * rng.uniform(0.5, 3))), count)
    return Layout(count, sentence, special, punctuation & ~special, words)


def rows_to_one(values: Map) -> Map:
    return np.asarray(values / np.maximum(values.sum(1, keepdims=True), 1e-12))


def row_strength(rng: Rng, count: int, seen_by: tuple[float, float]) -> Map:
    """(query,) how strongly each row takes part; a share of `seen_by` of the rows does, the others hardly."""
    share = rng.uniform(*seen_by)
    takes = np.zeros(count, bool)
    if rng.random() < 0.75:
        takes[rng.permutation(count)[: round(share * count)]] = True
    else:  # one run of rows, as when one sentence looks there and the other does not
        first = int(rng.integers(0, count - round(share * count) + 1))
        takes[first : first + round(share * count)] = True
    return np.where(takes, rng.beta(rng.uniform(1.5, 12), 1.5, count), rng.uniform(0, 0.2) * rng.random(count))


def columns(rng: Rng, at: Layout, seen_by: tuple[float, float], normed: bool, most: int = 4) -> Map:
    """A few keys that many queries look at: special tokens and punctuation, sometimes words (more so when normed)."""
    marked = np.flatnonzero(at.special | at.punctuation)
    plain = np.flatnonzero(~at.special)
    values = np.zeros((at.count, at.count))
    for k in range(int(rng.integers(1, most + 1))):
        if normed or rng.random() < 0.35:
            key = int(rng.choice(plain))
        else:
            key = 0 if k == 0 and rng.random() < 0.7 else int(rng.choice(marked))
        strength = row_strength(rng, at.count, seen_by) * (1 if k == 0 else rng.uniform(0.2, 1))
        values[:, key] += strength
        if rng.random() < 0.15:  # a word of two pieces
            values[:, min(key + 1, at.count - 1)] += strength * rng.uniform(0.2, 1)
    return values


def diagonal(rng: Rng, at: Layout) -> Map:
    """A line or band next to the main diagonal, its strength different from row to row."""
    ahead = np.arange(at.count)[None, :] - np.arange(at.count)[:, None]  # key minus query
    offsets = [[-1], [0], [1], [-1, 1], [-1, 0], [0, 1]][int(rng.integers(6))]
    narrow = rng.random() < 0.6
    width = rng.uniform(0.2, 0.6) if narrow else rng.uniform(0.6, min(4.0, 0.7 + at.count / 12))
    weights = rng.uniform(0.4, 1, len(offsets))
    line = sum(w * np.exp(-((ahead - o) ** 2) / (2 * width**2)) for w, o in zip(weights, offsets, strict=True))
    values = np.asarray(line) * rng.gamma(rng.uniform(0.8, 6), 1, (at.count, at.count))
    if not narrow and rng.random() < 0.4:  # the two sides are not alike
        values *= np.where(ahead > 0, rng.uniform(0.2, 1), 1)
    if rng.random() < 0.2:  # ripples, as position embeddings leave them
        values += rng.uniform(0.02, 0.12) * (np.cos(2 * np.pi * ahead / rng.uniform(5, 12)) > 0.5)
    strength = rng.beta(rng.uniform(1.5, 6), 1.5, at.count)
    return values / max(float(values.sum(1).mean()), 1e-12) * strength[:, None]


def even(rng: Rng, count: int, rough: float) -> Map:
    """An even field; `rough` is about the standard deviation over the mean."""
    shape = 1 / rough**2
    values = rng.gamma(shape, 1 / shape, (count, count))
    return np.asarray(values * np.exp(rng.normal(0, rough / 2, count))[None, :])


def pieces(rng: Rng, at: Layout) -> np.ndarray:
    """(token,) which stretch a token belongs to: its sentence, or a clause of it."""
    cuts = np.flatnonzero(at.punctuation)
    if rng.random() < 0.6 or not len(cuts):
        return at.sentence
    chosen = np.sort(rng.choice(cuts, min(len(cuts), int(rng.integers(1, 4))), replace=False))
    return at.sentence * 100 + np.searchsorted(chosen, np.arange(at.count))


def block(rng: Rng, at: Layout) -> Map:
    """Even within a sentence, or from one to the other; a text of one stretch is one block."""
    stretch = pieces(rng, at)
    values = even(rng, at.count, rng.uniform(0.05, 0.4))
    same = stretch[:, None] == stretch[None, :]
    wanted = same if rng.random() < 0.75 else ~same
    if wanted.all() or not wanted.any() or rng.random() < 0.4:
        wanted = np.ones_like(same)
    values = values * np.where(wanted, 1, rng.uniform(0, 0.3))
    if rng.random() < 0.5:
        values[:, at.special] *= rng.uniform(0.2, 1)
    return values


def same_words(rng: Rng, at: Layout) -> Map:
    """Words that come back see each other, some of them themselves."""
    n = at.count
    values = np.where(at.word[:, None] == at.word[None, :], rng.random((n, n)), 0.0)
    values[np.diag_indices(n)] *= (rng.random(n) < rng.uniform(0, 0.4)) * rng.random(n)
    values += 2.0 * (rng.random((n, n)) < rng.uniform(0.5, 3) / n) * rng.random((n, n))
    return values


def plaid(rng: Rng, at: Layout) -> Map:
    """Classes of words that look, times classes that are seen: a grid of spots."""
    looks, seen = rng.beta(0.5, 1, at.count), rng.beta(0.4, rng.uniform(0.7, 2), at.count)
    return np.outer(looks, seen) * rng.gamma(rng.uniform(0.7, 4), 1, (at.count, at.count))


def patches(rng: Rng, at: Layout) -> Map:
    values = np.zeros((at.count, at.count))
    for _ in range(int(rng.integers(2, 7))):
        top, left = rng.integers(0, at.count, 2)
        high, wide = rng.integers(1, max(2, at.count // 4) + 1, 2)
        values[top : top + high, left : left + wide] += rng.random()
    return np.asarray(values * rng.gamma(1.5, 1, values.shape))


def lumps(rng: Rng, at: Layout) -> Map:
    """Clauses that look at themselves, each at some of its words more than at others: uneven blocks."""
    cuts = np.sort(rng.integers(1, at.count, int(rng.integers(1, 4))))
    stretch = np.searchsorted(cuts, np.arange(at.count), side="right")
    inside = np.where(stretch[:, None] == stretch[None, :], 1.0, rng.uniform(0.0, 0.25))
    return inside * plaid(rng, at) * rng.uniform(0.3, 1, len(cuts) + 1)[stretch][None, :]


def short_columns(rng: Rng, at: Layout) -> Map:
    values = sum((columns(rng, at, PARTLY, True) for _ in range(int(rng.integers(2, 5)))), np.zeros((at.count, at.count)))
    return np.asarray(values * rng.gamma(1.0, 1, values.shape))


def sprinkled(rng: Rng, at: Layout) -> Map:
    return rng.gamma(rng.uniform(0.1, 0.6), 1, (at.count, at.count))


SPOTS = (same_words, plaid, plaid, patches, lumps, lumps, short_columns, sprinkled)


def spots(rng: Rng, at: Layout) -> Map:
    """Irregular mass: one of the kinds above."""
    return SPOTS[int(rng.integers(len(SPOTS)))](rng, at)


def background(rng: Rng, at: Layout) -> Map:
    """What stands behind: an even field, weak blocks, weak spots, or several of them."""
    field = rows_to_one(even(rng, at.count, rng.uniform(0.1, 1.2)))
    if rng.random() < 0.3:
        field = field + rows_to_one(block(rng, at))
    return field * rng.uniform(0, 1) + float(rng.choice([0.0, 0.3, 1.0])) * rows_to_one(spots(rng, at) + 1e-9)


def scaled(values: Map, to: float) -> Map:
    """So that its strongest cells (the 99.5th percentile of those that are not empty) reach `to`."""
    some = values[values > values.max() * 1e-3]
    return np.asarray(values * (to / max(float(np.quantile(some, 0.995)), 1e-12)))


def stray(rng: Rng, at: Layout, chance: float, normed: bool) -> Map:
    """Perhaps a column that too few rows see to call it a vertical."""
    if rng.random() > chance:
        return np.zeros((at.count, at.count))
    return scaled(columns(rng, at, PARTLY, normed, most=2), rng.uniform(0.3, 1))


def make_vertical(rng: Rng, at: Layout, normed: bool) -> Map:
    return scaled(columns(rng, at, SEEN, normed), 1) + scaled(background(rng, at), rng.uniform(0.01, 0.55))


def make_diagonal(rng: Rng, at: Layout, normed: bool) -> Map:
    line = scaled(diagonal(rng, at), 1) + scaled(background(rng, at), rng.uniform(0.0, 0.3))
    if rng.random() < 0.4:  # columns are there, but hardly to be seen beside the line
        line = line + scaled(columns(rng, at, SEEN, normed), rng.uniform(0.05, 0.4))
    return line + stray(rng, at, 0.6, normed)


def make_both(rng: Rng, at: Layout, normed: bool) -> Map:
    line, column = scaled(diagonal(rng, at), 1), scaled(columns(rng, at, SEEN, normed, most=2), 1)
    weaker = rng.uniform(0.2, 1)
    line, column = (line * weaker, column) if rng.random() < 0.65 else (line, column * max(weaker, 0.5))
    return line + column + scaled(background(rng, at), weaker * rng.uniform(0.0, 0.45))


def make_block(rng: Rng, at: Layout, normed: bool) -> Map:
    values = block(rng, at)
    few = rng.random(values.shape) < float(rng.choice([0, 0.005, 0.02]))
    return scaled(values, rng.uniform(0.1, 1)) + np.where(few, rng.random(values.shape), 0.0) + stray(rng, at, 0.5, normed)


def make_heterogeneous(rng: Rng, at: Layout, normed: bool) -> Map:
    values = scaled(spots(rng, at) + 1e-9, 1)
    if rng.random() < 0.5:
        values = values + scaled(spots(rng, at) + 1e-9, rng.uniform(0.3, 1))
    if rng.random() < 0.3:  # a piece of a line, too short to call it a diagonal
        run = row_strength(rng, at.count, PARTLY) > 0.2
        values = values + scaled(diagonal(rng, at) * run[:, None] + 1e-9, rng.uniform(0.3, 1))
    field = even(rng, at.count, rng.uniform(0.1, 0.6))
    return values + scaled(field, rng.uniform(0.0, 0.4)) + stray(rng, at, 0.4, normed)


MAKERS: dict[str, Callable[[Rng, Layout, bool], Map]] = {
    "vertical": make_vertical,
    "diagonal": make_diagonal,
    "vertical+diagonal": make_both,
    "block": make_block,
    "heterogeneous": make_heterogeneous,
}
TYPES = tuple(MAKERS)


def as_attention(rng: Rng, values: Map, normed: bool) -> Map:
    """Rows of one. A row with little of its own does not blow it up: it spreads the rest, or gives it to the first token.

    In a normed map the first token's short vector takes away what it was given, and every other has a length of its own.
    """
    values = values / np.quantile(values.sum(1), rng.uniform(0.6, 1))
    values = values / np.maximum(values.sum(1, keepdims=True), 1)
    missing: Map = 1 - values.sum(1, keepdims=True)
    lengths: Map = np.exp(rng.normal(0, rng.uniform(0, 0.4), len(values)))[None, :]
    if not normed:
        return values + missing * rows_to_one(np.where(values > 0, lengths, 0.0))
    taken = rng.beta(1, rng.uniform(1, 6), (len(values), 1))
    values = values * (1 - taken)
    values[:, :1] += (taken + missing) * rng.choice([0.01, 0.05, 0.15])
    return np.asarray(values * lengths)


def generated_map(kind: str, rng: Rng, normed: bool = False) -> Map:
    """(query, key)"""
    at = layout(rng)
    values = MAKERS[kind](rng, at, normed) + 1e-9
    if rng.random() < 0.2:  # a decoder sees nothing ahead
        values = np.tril(values)
    return as_attention(rng, values, normed)


def generated_maps(count: int, seed: int, normed: bool = False) -> tuple[list[Map], list[str]]:
    """Maps and their types, the types in turn; the k-th map depends on the seed and on k alone."""
    labels = [TYPES[k % len(TYPES)] for k in range(count)]
    return [generated_map(kind, np.random.default_rng([seed, k, int(normed)]), normed) for k, kind in enumerate(labels)], labels
