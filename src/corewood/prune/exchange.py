"""Exchange: from a mask of exact size to one that no exchange of an open and a closed unit makes better.

A search by soft gates ends near a good mask, not at one: closed gates hardly get a gradient, and what is good on average
over noise need not be good as a hard mask. Here the logits are linearised in the gates around the hard mask, which predicts
the KL of every exchange at once; the best few are run for real, and the best of these is taken.

Few texts decide: on the generated task one in a hundred holds nine tenths of a good subnetwork's KL. So rounds work on a draw
of texts that prefers those, with weights that make up for it. It is drawn from as many texts as can be: those the full model
is in doubt of are looked at first, then those that break. The draw stays the same for several rounds: were it made anew each
time from the texts that the mask of the moment does worst on, any change would look like a gain. A mask is taken for better
when it is so on six times as many texts, from where texts are drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor

from corewood.data.encode import Encoded, by_length
from corewood.evaluate.metrics import kl
from corewood.evaluate.predict import logits_of
from corewood.model.first_token import first_token
from corewood.model.gates import Gates, Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import Reference
from corewood.model.resume import Ran, recorded, slim_variants
from corewood.model.slim import can_slim
from corewood.spec import Ablation

CLASSES = 4  # of many classes, those that hold the most probability are linearised; the others move with the first
TRIED = 3  # exchanges that a round runs for real, beside one of two and one of three pairs at once
TOGETHER = 3
GAIN = 0.05  # share of the KL on a draw that an exchange must win: the best of many wins a few per cent by chance,
SURE = 0.01  # and that a mask must win on the checked texts,
LEAST = 2e-5  # and nats: below, there is nothing left to win
POOL = 2048  # texts of a sample, drawn once, that the mask is run on to find those that break
CHECKED = 768  # of them, drawn once, on which a mask must be better before it is taken for better
DRAWN = 128  # of them, for a few rounds; after a draw that led to nothing, twice as many
EVEN = 0.5  # share of a draw that does not look at where masks had their KL
MOVES = 4  # exchanges at the most before they are checked
FAILURES = 2  # draws in a row that lead to nothing better, and end a search
BATCH = 32  # examples per backward pass
LOOK = 48  # held-out texts that tell how the soft gates are doing
ROW = ("kl", "examples", "held")
ARRAYS = ("vector", "sure", "best", "held", "checked", "stands_for", "score", "drawn", "weights", "penalty")


@dataclass(frozen=True)
class Texts:
    """Texts with the full model's logits and means; `kl_of` runs subnetworks on them."""

    model: Model
    examples: Encoded
    full: np.ndarray  # (example, class)
    means: Means
    ablate: Ablation

    @classmethod
    def of(cls, model: Model, examples: Encoded, shared: Reference, ablate: Ablation = "mean") -> Texts:
        return cls(model, examples, shared.logits, shared.means, ablate)

    def __len__(self) -> int:
        return len(self.full)

    def take(self, rows: np.ndarray) -> Texts:
        return replace(self, examples=self.examples.take(rows), full=self.full[rows])

    def kl_of(self, mask: Mask) -> np.ndarray:
        """(example,)"""
        return kl(self.full, logits_of(self.model, mask, self.examples, self.ablate, self.means))

    def kl_near(self, masks: Sequence[Mask], ran: Ran) -> np.ndarray:
        """(mask, example) of masks that differ little from one that ran on these texts."""
        if not can_slim(self.ablate):  # values come from other rows of the batch: nothing can be shared
            return np.stack([self.kl_of(mask) for mask in masks])
        return kl(self.full, slim_variants(self.model, masks, self.examples, ran, self.ablate, self.means))


def draw(score: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(which, weight): about `count` of some texts, half of them by what each stands for, half by its score as well.

    The weighted sum of any value over the texts that are drawn has its weighted sum over all as expectation: one that is drawn
    with chance p stands for 1 / p times as much.
    """
    if count >= len(score):
        return np.arange(len(score)), weight
    share = EVEN * shares(weight) + (1 - EVEN) * shares(score * weight)
    certain = np.zeros(len(score), bool)
    while (more := ~certain & (share * (count - certain.sum()) >= share[~certain].sum())).any():
        certain |= more
    chance = np.where(certain, 1.0, share * (count - certain.sum()) / share[~certain].sum())
    order = rng.permutation(len(score))
    ends = np.cumsum(chance[order]) + rng.random()  # systematic: one text wherever the sum of chances passes a whole number
    rows = np.sort(order[np.floor(ends) > np.floor(ends - chance[order])])
    return rows, weight[rows] / chance[rows]


def doubt(full: np.ndarray) -> np.ndarray:
    """(example, class) logits -> (example,) the probability of all other answers: what breaks first is often in doubt."""
    p = softmax(full.astype(np.float64), -1)
    return np.asarray(1 - p.max(-1))


def shares(values: np.ndarray) -> np.ndarray:
    """Of their sum; equal ones where all are nothing."""
    total = float(values.sum())
    return np.asarray(values / total) if total > 0 else np.full(len(values), 1 / len(values))


def scaled(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """As multiples of their weighted mean: nothing is more than the rest where all are nothing."""
    mean = float((values * weight).sum() / weight.sum())
    return np.asarray(values / mean) if mean > 0 else np.ones(len(values))


@dataclass(frozen=True)
class Linear:
    """Logits around a mask: `logits` there, and how those of `classes` change with each gate against the first class."""

    logits: np.ndarray  # (example, class)
    slopes: np.ndarray  # (example, direction, unit)
    classes: np.ndarray  # (direction,)
    ran: Ran = field(repr=False)  # what it was made from

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
    below = []
    for rows in by_length(texts.examples.lengths, BATCH):
        z = vector.repeat(len(rows), 1).requires_grad_()  # (example, unit): every example has a slope of its own
        with (
            first_token(model, texts.ablate),
            recorded(model) as outputs,
            gated(model, Gates.from_vector(z, units.layers, units.heads), texts.ablate, texts.means),
        ):
            found = model(**texts.examples.batch(rows, model.device)).logits.float()
        logits[rows] = found.detach().cpu().numpy()
        for place, other in enumerate(others):
            more = place + 1 < len(others)
            (slope,) = torch.autograd.grad((found[:, other] - found[:, first]).sum(), z, retain_graph=more)
            slopes[rows, place] = slope.cpu().numpy()
        below.append((rows, outputs))
    return Linear(logits, slopes, np.array(others), Ran(mask, logits, below))


@dataclass(frozen=True)
class Exchanged:
    """Where the exchanging of units of one mask stands."""

    vector: np.ndarray  # (unit,) bool, as it is now
    sure: np.ndarray  # (unit,) bool, the last that was checked and was better
    value: float  # its KL on the checked texts
    best: np.ndarray  # (unit,) bool, of the sure ones, the last that held-out texts do not tell to be worse than those before
    held: np.ndarray  # (held-out example,) its KL
    checked: np.ndarray  # the texts that masks are checked on,
    stands_for: np.ndarray  # the share of all texts that each stands for,
    score: np.ndarray  # and how much of the KL of masks that were run on them it had, added up
    drawn: np.ndarray  # of these, the places of those that rounds work on,
    weights: np.ndarray  # and what each stands for
    penalty: np.ndarray  # (unit,) how far closing it turned out worse than predicted
    moves: int = 0  # exchanges since the last check
    failed: int = 0  # draws in a row that led to nothing better
    rows: tuple[dict[str, float], ...] = field(default=(), repr=False)  # of the trajectory: kl, examples, held

    @property
    def round(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> bool:
        return self.failed >= FAILURES

    @classmethod
    def start(cls, mask: Mask, texts: Texts, held: Texts, budget: float, rng: np.random.Generator) -> Exchanged:
        """The mask is run on a part of the texts that prefers those the full model is in doubt of; this tells which break."""
        doubts = doubt(texts.full)
        pool, weight = draw(doubts, np.full(len(texts), 1 / len(texts)), size(POOL, budget), rng)
        each = texts.take(pool).kl_of(mask)
        score = scaled(each, weight) + scaled(doubts[pool], weight)
        places, stands_for = draw(score, weight, size(CHECKED, budget), rng)
        checked, score = pool[places], score[places]
        value = float((each[places] * stands_for).sum())
        drawn, weights = draw(score, stands_for, size(DRAWN, budget), rng)
        own = {"checked": checked, "stands_for": stands_for, "score": score, "drawn": drawn, "weights": weights}
        vector = mask.vector
        return cls(vector, vector, value, vector, held.kl_of(mask), **own, penalty=np.zeros(len(vector)))

    def arrays(self, prefix: str) -> dict[str, Tensor]:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays["numbers"] = np.array([self.value, self.moves, self.failed])
        arrays["rows"] = np.array([[row[c] for c in ROW] for row in self.rows]).reshape(-1, len(ROW))
        return {prefix + name: torch.tensor(array) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, saved: Mapping[str, Tensor], prefix: str) -> Exchanged:
        value, moves, failed = saved[prefix + "numbers"].tolist()
        rows = tuple(dict(zip(ROW, row, strict=True)) for row in saved[prefix + "rows"].tolist())
        same = {name: saved[prefix + name].numpy() for name in ARRAYS}
        return cls(**same, value=value, moves=int(moves), failed=int(failed), rows=rows)


def size(count: int, budget: float) -> int:
    return max(1, round(count * budget))


def wins(value: float, now: float, share: float) -> bool:
    return value <= now - max(share * now, LEAST)


def worse(change: np.ndarray) -> bool:
    """Whether values have risen by more than the standard error of their change: few texts decide, and may decide by chance."""
    return bool(change.mean() > change.std(ddof=1) / len(change) ** 0.5) if len(change) > 1 else bool(change.mean() > 0)


def exchange_round(
    texts: Texts, held: Texts, state: Exchanged, locked: np.ndarray, budget: float, rng: np.random.Generator
) -> Exchanged:
    """One exchange, or none where no prediction comes true. Units of `locked` stay as they are."""
    units = texts.model.units
    here, mask = texts.take(state.checked[state.drawn]), units.from_vector(state.vector)
    linear = linearise(here, mask)
    now = float((kl(here.full, linear.logits) * state.weights).sum())
    begun = 0 if state.rows else min(len(texts), size(POOL, budget))  # texts that `start` has run
    after, run, judged = state, begun + len(here), np.nan
    tried, predicted = proposals(linear, here.full, state, locked)
    value = np.full(len(tried), np.inf)  # (variant,)
    for place in np.argsort(predicted, kind="stable"):
        if not wins(predicted[place], now, GAIN) or predicted[place] >= value.min():
            break  # predictions are hopeful: neither this nor any that follows would be taken
        value[place] = (here.kl_near([units.from_vector(tried[place])], linear.ran)[0] * state.weights).sum()
        run += len(here)
    ran = np.isfinite(value)
    if ran.any():
        after = replace(after, penalty=penalties(state, tried[ran], predicted[ran], value[ran], now))
        if wins(float(value.min()), now, GAIN):
            after = replace(after, vector=tried[value.argmin()], moves=state.moves + 1)
    if after.moves in (state.moves, MOVES):
        run += len(state.checked) if after.moves else 0
        after, judged = settled(texts, held, after, budget, rng)
    row = {"kl": now, "examples": float(run), "held": judged}
    return replace(after, rows=(*state.rows, row))


def settled(texts: Texts, held: Texts, state: Exchanged, budget: float, rng: np.random.Generator) -> tuple[Exchanged, float]:
    """Check what the exchanges gave; where it is no better, they are taken back. Then texts are drawn anew. And the KL on
    held-out texts, where it was better."""
    after, judged = replace(state, failed=state.failed + 1), np.nan
    if state.moves:
        mask = texts.model.units.from_vector(state.vector)
        each = texts.take(state.checked).kl_of(mask)
        value = float((each * state.stands_for).sum())
        after = replace(after, score=state.score + scaled(each, state.stands_for))
        if wins(value, state.value, SURE):
            unseen = held.kl_of(mask)
            judged = float(unseen.mean())
            after = replace(after, sure=state.vector, value=value, failed=0)
            if not worse(unseen - state.held):
                after = replace(after, best=state.vector, held=unseen)
    drawn, weights = draw(after.score, state.stands_for, size(DRAWN * (1 + after.failed), budget), rng)
    return replace(after, vector=after.sure, moves=0, drawn=drawn, weights=weights), judged


def penalties(state: Exchanged, tried: np.ndarray, predicted: np.ndarray, value: np.ndarray, now: float) -> np.ndarray:
    """(unit,): of a single exchange that turned out much worse than predicted, the unit that it closes is to blame."""
    penalty = state.penalty.copy()
    for vector, hoped, got in zip(tried, predicted, value, strict=True):
        closed = state.vector & ~vector
        if closed.sum() == 1 and got > hoped + now:
            penalty[closed] = np.maximum(penalty[closed], got - hoped)
    return penalty


def proposals(linear: Linear, full: np.ndarray, state: Exchanged, locked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((variant, unit) masks to try, their predicted KL): the best single exchanges, and the best two and three in a row."""
    vector, at = state.vector, linear
    tried: list[np.ndarray] = []
    hoped: list[float] = []
    for together in range(TOGETHER):
        leave, enter = np.flatnonzero(vector & ~locked), np.flatnonzero(~vector & ~locked)
        if not len(leave) or not len(enter):
            break
        pairs = np.stack([np.repeat(leave, len(enter)), np.tile(enter, len(leave))], 1)  # (pair, 2)
        guess = predicted_kl(at, full, state.weights, pairs, len(vector)) + state.penalty[pairs[:, 0]]
        order = np.argsort(guess, kind="stable")[: 1 if together else TRIED]
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
