"""Exchange: from a mask of exact size to one that no exchange of an open and a closed unit makes better.

A search by soft gates ends near a good mask, not at one: closed gates hardly get a gradient, and what is good on average
over noise need not be good as a hard mask. Here the logits are linearised in the gates around the hard mask, which predicts
the KL of every exchange at once; the best few are run for real, and the best of these is taken.

Few texts decide: on the generated task one in a hundred holds nine tenths of a good subnetwork's KL. So each round first runs
the mask on many texts, then works on those with the largest KL and on a draw of the others that stands for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from corewood.data.encode import Encoded, by_length
from corewood.evaluate.metrics import kl
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Gates, Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.resume import slim_variants, variants
from corewood.model.slim import can_slim
from corewood.spec import Ablation

CLASSES = 4  # of many classes, those that hold the most probability are linearised; the others move with the first
TRIED = 6  # exchanges that a round runs for real, beside one of two and one of three pairs at once
TOGETHER = 3
GAIN = 0.005  # share of the KL that an exchange must win,
LEAST = 2e-5  # and nats: below, there is nothing left to win
PATIENCE, FAILURES = 3, 2  # rounds in a row that win nothing on held-out texts, or nothing at all, and end a search
BATCH = 32  # examples per backward pass
LOOK = 48  # held-out texts that tell how a search is going; rounds have as many that break first, and as many others
ROW = ("kl", "examples", "held")
ARRAYS = ("vector", "best", "known", "seen", "penalty", "held_rows", "held_weights")
SCREEN = 128  # texts of the largest KL, and as many that were not run for longest: run again before each round but the first
TOP, REST = 96, 32  # texts of a round: those of the largest KL, and some for all others


@dataclass(frozen=True)
class Texts:
    """Texts with the full model's logits and means; `kl_of` runs subnetworks on them."""

    model: Model
    examples: Encoded
    full: np.ndarray  # (example, class)
    means: Means
    ablate: Ablation

    def take(self, rows: np.ndarray) -> Texts:
        return replace(self, examples=self.examples.take(rows), full=self.full[rows])

    def kl_of(self, mask: Mask) -> np.ndarray:
        """(example,)"""
        return kl(self.full, logits_of(self.model, mask, self.examples, self.ablate, self.means))

    def kl_near(self, masks: Sequence[Mask], base: Mask) -> np.ndarray:
        """(mask, example) of masks that differ little from one."""
        if self.ablate == "resample":  # values come from other rows of the batch: nothing can be shared
            return np.stack([self.kl_of(mask) for mask in masks])
        run = slim_variants if can_slim(self.model, self.ablate) else variants
        return kl(self.full, run(self.model, masks, self.examples, base, self.ablate, self.means))


def weighted(divergence: np.ndarray, top: int, rest: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(which, weight): the `top` largest as they are, and `rest` of the others drawn to stand for all of them.

    The weighted sum of any value over these texts has its mean over all as expectation.
    """
    order = np.argsort(-divergence, kind="stable")
    others = order[top:]
    some = rng.choice(others, min(rest, len(others)), replace=False)
    weights = np.r_[np.ones(len(order[:top])), np.full(len(some), len(others) / max(1, len(some)))]
    return np.r_[order[:top], some], weights / len(divergence)


@dataclass(frozen=True)
class Linear:
    """Logits around a mask: `logits` there, and how those of `classes` change with each gate against the first class."""

    logits: np.ndarray  # (example, class)
    slopes: np.ndarray  # (example, direction, unit)
    classes: np.ndarray  # (direction,)

    def moved(self, change: np.ndarray) -> np.ndarray:
        """(variant, unit) changes of the gates -> (variant, example, class) predicted logits."""
        found = np.repeat(self.logits[None], len(change), 0)
        found[:, :, self.classes] += np.einsum("xcu,vu->vxc", self.slopes, change, optimize=True)
        return found


def linearise(texts: Texts, mask: Mask) -> Linear:
    """One backward pass a direction: softmax does not see what all classes share, so that two classes are one direction."""
    model, units = texts.model, texts.model.units
    mass = np.exp(log_softmax(texts.full.astype(np.float64), -1)).mean(0)
    first, *others = np.argsort(-mass, kind="stable")[:CLASSES]
    logits = np.zeros(texts.full.shape)
    slopes = np.zeros((len(logits), len(others), len(units)))
    vector = torch.tensor(mask.vector, dtype=torch.float32, device=model.device)
    for rows in by_length(texts.examples.lengths, BATCH):
        z = vector.repeat(len(rows), 1).requires_grad_()  # (example, unit): every example has a slope of its own
        with gated(model, Gates.from_vector(z, units.layers, units.heads), texts.ablate, texts.means):
            found = model(**texts.examples.batch(rows, model.device)).logits.float()
        logits[rows] = found.detach().cpu().numpy()
        for place, other in enumerate(others):
            more = place + 1 < len(others)
            (slope,) = torch.autograd.grad((found[:, other] - found[:, first]).sum(), z, retain_graph=more)
            slopes[rows, place] = slope.cpu().numpy()
    return Linear(logits, slopes, np.array(others))


@dataclass(frozen=True)
class Exchanged:
    """Where the exchanging of units of one mask stands."""

    vector: np.ndarray  # (unit,) bool, as it is now
    best: np.ndarray  # (unit,) bool, the best by held-out KL
    best_held: float
    known: np.ndarray  # (example,) the last KL seen of each text
    seen: np.ndarray  # (example,) in which round
    penalty: np.ndarray  # (unit,) how far closing it turned out worse than predicted
    held_rows: np.ndarray  # the held-out texts that are looked at each round,
    held_weights: np.ndarray  # and what each stands for
    stale: int = 0  # rounds since held-out KL last fell
    failed: int = 0  # rounds since an exchange was made: the next one tries what is predicted next best
    done: bool = False
    rows: tuple[dict[str, float], ...] = field(default=(), repr=False)  # of the trajectory: kl, examples, held

    @property
    def round(self) -> int:
        return len(self.rows)

    @classmethod
    def start(cls, mask: Mask, sparser: Mask, known: np.ndarray, held: Texts) -> Exchanged:
        """`known`, what other masks or soft gates gave on the texts, tells which to run first; a sparser mask tells which
        held-out texts break first, so that few need to be looked at.
        """
        rows, weights = weighted(held.kl_of(sparser) + held.kl_of(mask), LOOK, LOOK, np.random.default_rng(0x4E))
        value = float((held.take(rows).kl_of(mask) * weights).sum())
        never = np.full(len(known), -1)
        return cls(mask.vector, mask.vector, value, known, never, np.zeros(len(mask.vector)), rows, weights)

    def arrays(self, prefix: str) -> dict[str, Tensor]:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays["numbers"] = np.array([self.best_held, self.round, self.stale, self.failed, self.done])
        arrays["rows"] = np.array([[row[c] for c in ROW] for row in self.rows]).reshape(-1, len(ROW))
        return {prefix + name: torch.tensor(array) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, saved: Mapping[str, Tensor], prefix: str) -> Exchanged:
        best_held, _, stale, failed, done = saved[prefix + "numbers"].tolist()
        rows = tuple(dict(zip(ROW, row, strict=True)) for row in saved[prefix + "rows"].tolist())
        same = {name: saved[prefix + name].numpy() for name in ARRAYS}
        return cls(**same, best_held=best_held, stale=int(stale), failed=int(failed), done=bool(done), rows=rows)


def chosen(state: Exchanged, held: Texts) -> tuple[Mask, float]:
    """Of the last mask and the best by the held-out texts of the rounds, the better on all held-out texts; and its KL."""
    units = held.model.units
    masks = {vector.tobytes(): units.from_vector(vector) for vector in (state.best, state.vector)}
    return min(((mask, float(held.kl_of(mask).mean())) for mask in masks.values()), key=lambda pair: pair[1])


def exchange_round(
    texts: Texts, held: Texts, state: Exchanged, locked: np.ndarray, budget: float, rng: np.random.Generator
) -> Exchanged:
    """One exchange, or none where no prediction comes true. Units of `locked` stay as they are."""
    units = texts.model.units
    mask = units.from_vector(state.vector)
    again, after = screened(texts, mask, state, budget)
    rows, weight = weighted(after.known, max(1, round(TOP * budget)), max(1, round(REST * budget)), rng)
    here = texts.take(rows)
    linear = linearise(here, mask)
    now = float((kl(here.full, linear.logits) * weight).sum())
    tried, predicted = proposals(linear, here.full, weight, state, locked)
    if not len(tried):
        return replace(state, done=True)
    found = here.kl_near([units.from_vector(vector) for vector in tried], mask)  # (variant, example)
    value = (found * weight).sum(1)
    after = replace(after, penalty=penalties(state, tried, predicted, value, now))
    best, judged = int(value.argmin()), np.nan
    if value[best] <= now - max(GAIN * now, LEAST):
        judged = float((held.take(state.held_rows).kl_of(units.from_vector(tried[best])) * state.held_weights).sum())
        known = after.known.copy()
        known[rows] = found[best]
        after = replace(after, known=known, vector=tried[best], failed=0)
    else:
        after = replace(after, failed=state.failed + 1)
    if judged < state.best_held:
        after = replace(after, best=after.vector, best_held=judged, stale=0)
    else:
        after = replace(after, stale=state.stale + 1)
    row = {"kl": now, "examples": float(again + len(rows) * (1 + len(tried))), "held": judged}
    return replace(after, rows=(*state.rows, row), done=after.stale >= PATIENCE or after.failed >= FAILURES)


def screened(texts: Texts, mask: Mask, state: Exchanged, budget: float) -> tuple[int, Exchanged]:
    """Run the mask on all texts in the first round; then on those of the largest KL, and those not run for longest. How many
    were run, and what is known after it."""
    worst = np.argsort(-state.known, kind="stable")
    most = max(1, round(SCREEN * budget))
    oldest = worst[most:][np.argsort(state.seen[worst[most:]], kind="stable")][:most]
    again = np.r_[worst[:most], oldest] if state.round else worst
    known, seen = state.known.copy(), state.seen.copy()
    known[again], seen[again] = texts.take(again).kl_of(mask), state.round
    return len(again), replace(state, known=known, seen=seen)


def penalties(state: Exchanged, tried: np.ndarray, predicted: np.ndarray, value: np.ndarray, now: float) -> np.ndarray:
    """(unit,): of a single exchange that turned out much worse than predicted, the unit that it closes is to blame."""
    penalty = state.penalty.copy()
    for vector, hoped, got in zip(tried, predicted, value, strict=True):
        closed = state.vector & ~vector
        if closed.sum() == 1 and got > hoped + now:
            penalty[closed] = np.maximum(penalty[closed], got - hoped)
    return penalty


def proposals(
    linear: Linear, full: np.ndarray, weight: np.ndarray, state: Exchanged, locked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """((variant, unit) masks to try, their predicted KL): the best single exchanges, then the best two and three in a row."""
    vector, at = state.vector, linear
    tried: list[np.ndarray] = []
    hoped: list[float] = []
    for together in range(TOGETHER):
        leave, enter = np.flatnonzero(vector & ~locked), np.flatnonzero(~vector & ~locked)
        if not len(leave) or not len(enter):
            break
        pairs = np.stack([np.repeat(leave, len(enter)), np.tile(enter, len(leave))], 1)  # (pair, 2)
        guess = predicted_kl(at, full, weight, pairs, len(vector)) + state.penalty[pairs[:, 0]]
        order = np.argsort(guess, kind="stable")
        order = order[state.failed * TRIED :][:TRIED] if together == 0 else order[:1]
        if not len(order):
            break
        change = swap_change(pairs[order], len(vector))
        tried += list(vector ^ (change != 0))
        hoped += guess[order].tolist()
        at, vector = replace(at, logits=at.moved(change[:1])[0]), vector ^ (change[0] != 0)  # go on from the best of them
    return np.array(tried, bool).reshape(-1, len(state.vector)), np.array(hoped)


def swap_change(pairs: np.ndarray, units: int) -> np.ndarray:
    """(pair, unit): what each exchange does to the gates."""
    change = np.zeros((len(pairs), units))
    change[np.arange(len(pairs)), pairs[:, 0]] = -1
    change[np.arange(len(pairs)), pairs[:, 1]] = 1
    return change


def predicted_kl(linear: Linear, full: np.ndarray, weight: np.ndarray, pairs: np.ndarray, units: int) -> np.ndarray:
    """(pair,), in parts that stay small in memory."""
    part = max(1, 4_000_000 // full.size)
    moves = (linear.moved(swap_change(pairs[i : i + part], units)) for i in range(0, len(pairs), part))
    return np.concatenate([(kl(full, moved) * weight).sum(1) for moved in moves])
