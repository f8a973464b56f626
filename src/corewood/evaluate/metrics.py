"""From logits to facts: a task's metric with its interval, accuracy by case, agreement with the full model, KL to it; and
scores of skills, which do not fall when a model merely gives one answer more often than before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm, pearsonr, rankdata

from corewood.data.labels import fold_classes
from corewood.data.skills import skill_parts, skills_of
from corewood.data.task import ALL, Split
from corewood.errors import InputError

LEVEL = 0.95
Z = norm.ppf(1 - (1 - LEVEL) / 2)  # standard errors to either side of an estimate
BALANCED, AUC, D_PRIME, CRITERION = "balanced", "auc", "d-prime", "criterion"
OF_SKILLS = (BALANCED, AUC, D_PRIME, CRITERION)  # metrics of skills; the last three where there are two answers
ROUNDING = 1e-6  # outputs that differ by less than this share are the same number, but for 32-bit rounding


def wilson(correct: Any, n: Any, level: float = LEVEL) -> tuple[Any, Any]:
    """Wilson's score interval of a proportion; arrays or numbers.

    Example:
        >>> low, high = cw.wilson(90, 100)
        >>> round(float(low), 3), round(float(high), 3)
        (0.826, 0.945)
    """
    z = norm.ppf(1 - (1 - level) / 2)
    share = np.asarray(correct) / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def predicted(logits: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """(..., class) -> (...): argmax over the model's classes first, then folded onto the labels of the set."""
    return np.asarray(fold[logits.argmax(-1)])


def kl(full: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(full || other) per example, in nats; both (example, class) logits."""
    p, q = log_softmax(full.astype(np.float64), -1), log_softmax(other.astype(np.float64), -1)
    return np.asarray((np.exp(p) * (p - q)).sum(-1))


def parts(split: Split) -> Iterator[tuple[str, str, np.ndarray]]:
    """(case, group, which examples): all of them first, then case by case."""
    yield ALL, "", np.ones(len(split), bool)
    if split.cases is not None:
        groups = split.frame["group"] if "group" in split.frame else pd.Series([""] * len(split))
        for case in split.cases.unique():
            inside = (split.cases == case).to_numpy()
            yield str(case), str(groups[inside].iloc[0]), inside


@dataclass(frozen=True)
class Judge:
    """A set, and what its examples are, read off once for all the models that are judged on it.

    `classes` are what the models call their outputs, in the order of the logits.
    """

    split: Split
    classes: Sequence[str]

    @cached_property
    def fold(self) -> np.ndarray:
        return fold_classes(self.classes, self.split)

    @cached_property
    def gold(self) -> np.ndarray:
        return self.split.gold

    @cached_property
    def parts(self) -> list[tuple[str, str, np.ndarray]]:
        return [*parts(self.split)]

    @cached_property
    def about(self) -> pd.DataFrame:
        """One row per case: case, group, skill (or ""), gold (or "mixed"), n."""
        labels, skills = self.split.frame["label"], skills_of(self.split)
        rows = []
        for case, group, inside in self.parts:
            gold, skill = labels[inside].unique(), skills[inside].unique()
            alike = {"skill": str(skill[0]) if len(skill) == 1 else "", "gold": str(gold[0]) if len(gold) == 1 else "mixed"}
            rows.append({"case": case, "group": group, **alike, "n": int(inside.sum())})
        return pd.DataFrame(rows)

    @cached_property
    def skill_parts(self) -> list[tuple[str, np.ndarray]]:
        return [*skill_parts(self.split)]

    def accuracy(self, logits: np.ndarray, full: np.ndarray | None = None) -> pd.DataFrame:
        """As `accuracy` below."""
        if self.split.regression:
            raise InputError(
                f"{self.split.name}: its labels are numbers, which nobody hits exactly; judge them with metric pearson"
            )
        guess = predicted(logits, self.fold)
        right, n = guess == self.gold, self.about["n"].to_numpy()
        nothing = np.full(len(guess), np.nan)
        same, divergence = (nothing, nothing) if full is None else (guess == predicted(full, self.fold), kl(full, logits))
        correct = np.array([right[inside].sum() for _, _, inside in self.parts])
        low, high = wilson(correct, n)
        return self.about.assign(
            correct=correct,
            value=correct / n,
            low=low,
            high=high,
            agreement=[same[inside].mean() for _, _, inside in self.parts],
            kl=[divergence[inside].mean() for _, _, inside in self.parts],
        )

    def skills(self, logits: np.ndarray) -> pd.DataFrame:
        """One row per skill and metric, the whole set first: metric, case (the skill), value, low, high, n, note.

        balanced: the mean over answers of the share that is right. auc: how often an example of the one answer looks more like
        it than an example of the other does; whatever a model adds to one answer throughout does not change it. d-prime and
        criterion: how far apart the two answers lie for the model, and how far its threshold lies from the middle, in standard
        deviations; a criterion above zero leans to the second of the set's labels.
        """
        guess, gold, two = predicted(logits, self.fold), self.gold, len(self.split.labels) == 2
        odds = log_odds(logits, self.fold) if two else None
        rows = []
        for skill, inside in self.skill_parts:
            found = {BALANCED: balanced(guess[inside], gold[inside])}
            if odds is not None:
                found[AUC] = auc(odds[inside], gold[inside])
                found |= detection(guess[inside], gold[inside])
            rows += [{"metric": metric, "case": skill, **vars(score)} for metric, score in found.items()]
        return pd.DataFrame(rows)


def accuracy(logits: np.ndarray, split: Split, classes: Sequence[str], full: np.ndarray | None = None) -> pd.DataFrame:
    """One row per case: case, group, skill, gold, n, correct, value, low, high and, beside the full model, agreement and kl.

    `classes` are what the model calls its outputs, in the order of the logits.

    Example:
        >>> predictions = cw.predict(model, masks, task.challenge["cases"])
        >>> table = cw.accuracy(predictions[0], task.challenge["cases"], model.labels, predictions.full)
        >>> table["case"].iloc[:2].tolist(), int(table["n"].iloc[0])
        (['all', 'swap'], 72)
    """
    return Judge(split, classes).accuracy(logits, full)


@dataclass(frozen=True)
class Score:
    """One number for a model on a set, with its 95 % interval; `note` says what a reader must know about it."""

    value: float
    low: float
    high: float
    n: int
    note: str = ""


def score(metric: str, logits: np.ndarray, gold: np.ndarray, draws: int = 2000) -> Score:
    """A metric (accuracy, matthews, pearson) as one number with its 95 % interval.

    `logits` are (example, class), `gold` (example,) indices of those classes, or numbers for pearson. `draws` are those of the
    bootstrap, for matthews alone; without any its interval is left open.

    Example:
        >>> logits = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [1.0, 0.0]])
        >>> cw.score("accuracy", logits, np.array([0, 1, 1, 0])).value
        0.75
    """
    if metric not in SCORES:
        raise InputError(f"metric {metric!r}: the metrics are {', '.join(SCORES)}")
    logits, gold = np.asarray(logits), np.asarray(gold)
    if logits.ndim != 2 or gold.shape != logits.shape[:1] or len(gold) == 0:
        raise InputError(f"metric {metric}: logits of shape {logits.shape} do not go with {gold.shape} labels")
    if metric != "pearson" and not (gold.dtype.kind in "iu" and 0 <= gold.min() <= gold.max() < logits.shape[1]):
        raise InputError(f"metric {metric}: labels must be indices of the {logits.shape[1]} classes that the model has")
    if not np.isfinite(logits).all():
        return undefined(len(gold), "some of the model's outputs are not finite numbers")
    return SCORES[metric](logits.astype(np.float64), gold, draws)


def together(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """(value, low, high) of the mean of independent numbers from theirs: Zou and Donner's (2008) interval."""
    values, lows, highs = np.array(parts).T
    if len(parts) == 1:
        return parts[0]
    below, above = (float(np.sqrt(((values - ends) ** 2).sum())) / len(parts) for ends in (lows, highs))
    return float(values.mean()), float(values.mean()) - below, float(values.mean()) + above


def balanced(guess: np.ndarray, gold: np.ndarray) -> Score:
    """The mean over labels of the share that is right; (example,) each. Its interval is made of Wilson's for each label."""
    shares = []
    for label in np.unique(gold):
        correct, n = int((guess[gold == label] == label).sum()), int((gold == label).sum())
        low, high = wilson(correct, n)
        shares.append((correct / n, float(low), float(high)))
    value, low, high = together(shares)
    return Score(value, max(0.0, low), min(1.0, high), len(gold))


def detection(guess: np.ndarray, gold: np.ndarray) -> dict[str, Score]:
    """d-prime and criterion of two labels, 0 and 1, by signal detection; (example,) each.

    Half an example is added to the right and to the wrong answers of each label (Hautus 1995), so that both are numbers where
    all are right. Variances are Gourevitch and Galanter's (1967).
    """
    n = np.array([(gold == label).sum() for label in (0, 1)])
    rates = (np.array([((guess == label) & (gold == label)).sum() for label in (0, 1)]) + 0.5) / (n + 1)
    z = norm.ppf(rates)  # of both labels: that of false alarms is 1 - the other's
    variance = float((rates * (1 - rates) / (n * norm.pdf(z) ** 2)).sum())
    found = {}
    for metric, value, std in ((D_PRIME, z[0] + z[1], variance**0.5), (CRITERION, (z[1] - z[0]) / 2, variance**0.5 / 2)):
        found[metric] = Score(float(value), float(value - Z * std), float(value + Z * std), len(gold))
    return found


def log_odds(logits: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """(..., class) -> (...): of label 0 against label 1, in nats."""
    logits = logits.astype(np.float64)
    return np.asarray(logsumexp(logits[..., fold == 0], -1) - logsumexp(logits[..., fold == 1], -1))


def placements(odds: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """(example,): the share of the other label's examples that lie on the right side of this one; ties count half."""
    placed = np.empty(len(odds))
    ranks = rankdata(odds)
    for label in (0, 1):
        mine = gold == label
        below = (ranks[mine] - rankdata(odds[mine])) / (~mine).sum()  # of the other label's
        placed[mine] = below if label == 0 else 1 - below
    return placed


def auc(odds: np.ndarray, gold: np.ndarray) -> Score:
    """The area under the ROC curve of (example,) log odds of label 0. Its interval is Newcombe's (2006, method 5)."""
    ones, others = int((gold == 0).sum()), int((gold == 1).sum())
    value = float(placements(odds, gold)[gold == 0].mean())
    more = (ones + others) / 2 - 1

    def off(area: float) -> float:
        """How far it is from the value found, beyond what the interval of that area allows."""
        spread = area * (1 - area) * (1 + more * (1 - area) / (2 - area) + more * area / (1 + area)) / (ones * others)
        return (value - area) ** 2 - Z**2 * spread

    aside = 1e-9  # at 0 and 1 the value itself solves it, too
    low = 0.0 if value <= aside else brentq(off, 0.0, value - aside)
    high = 1.0 if value >= 1 - aside else brentq(off, value + aside, 1.0)
    return Score(value, float(low), float(high), len(gold))


def undefined(n: int, note: str) -> Score:
    return Score(np.nan, np.nan, np.nan, n, note)


def score_accuracy(logits: np.ndarray, gold: np.ndarray, draws: int) -> Score:
    correct, n = int((logits.argmax(-1) == gold).sum()), len(gold)
    low, high = wilson(correct, n)
    return Score(correct / n, float(low), float(high), n)


def score_matthews(logits: np.ndarray, gold: np.ndarray, draws: int) -> Score:
    """The interval is that of a bootstrap over examples: new confusion tables are drawn from the one that was seen."""
    from sklearn.metrics import matthews_corrcoef

    guess, classes, n = logits.argmax(-1), logits.shape[1], len(gold)
    table = np.bincount(gold * classes + guess, minlength=classes**2)  # (gold * guess,)
    low = high = np.nan
    if draws:
        drawn = np.random.default_rng(0).multinomial(n, table / n, size=draws).reshape(draws, classes, classes)
        low, high = np.quantile(matthews(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    for who, labels in (("one class predicted", guess), ("one class in the labels", gold)):
        if (labels == labels[0]).all():
            return Score(0.0, float(low), float(high), n, f"{who}: Matthews counts as 0")
    return Score(float(matthews_corrcoef(gold, guess)), float(low), float(high), n)


def matthews(tables: np.ndarray) -> np.ndarray:
    """(table,) Matthews' correlation of (table, gold, guess) counts; 0 where one class is all there is."""
    tables = tables.astype(np.float64)
    gold, guess, n = tables.sum(2), tables.sum(1), tables.sum((1, 2))
    together = np.trace(tables, axis1=1, axis2=2) * n - (gold * guess).sum(-1)
    apart = np.sqrt((n**2 - (gold**2).sum(-1)) * (n**2 - (guess**2).sum(-1)))
    return np.asarray(np.divide(together, apart, out=np.zeros_like(together), where=apart > 0))


def score_pearson(logits: np.ndarray, gold: np.ndarray, draws: int) -> Score:
    """The interval is Fisher's."""
    if logits.shape[1] != 1:
        raise InputError(f"metric pearson: needs a model with one output; this one has {logits.shape[1]}")
    guess, n = logits[:, 0], len(gold)
    if n < 3:
        return undefined(n, f"{n} examples are too few for Pearson's correlation")
    for who, values in (("predictions", guess), ("labels", gold)):
        if np.ptp(values) <= ROUNDING * np.abs(values).max():
            return undefined(n, f"the {who} are all the same: Pearson's correlation is not defined")
    found = pearsonr(guess, gold)
    low, high = found.confidence_interval(LEVEL)
    return Score(float(found.statistic), float(low), float(high), n)


SCORES = {"accuracy": score_accuracy, "matthews": score_matthews, "pearson": score_pearson}


def baseline(metric: str, train_gold: np.ndarray, gold: np.ndarray) -> Score:
    """What a model gets that always says the most frequent class of training."""
    if metric == "pearson":
        return undefined(len(gold), "whoever always says the same has no correlation with anything")
    classes = int(max(train_gold.max(), gold.max())) + 1
    always = np.bincount(train_gold, minlength=classes).argmax()
    return score(metric, np.tile(np.eye(classes)[always], (len(gold), 1)), gold)
