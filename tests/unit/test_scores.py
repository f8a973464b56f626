"""The metric of a task, against second sources."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, pearsonr
from sklearn.metrics import matthews_corrcoef
from statsmodels.stats.proportion import proportion_confint

from corewood.errors import InputError
from corewood.evaluate.metrics import Score, baseline, matthews, score


def answers(guess: list[int] | np.ndarray, classes: int) -> np.ndarray:
    """Logits whose largest is the guess."""
    return np.eye(classes, dtype=np.float32)[np.asarray(guess)] * 3 - 1


def noisy(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of uneven frequency, and answers that are right two times out of three."""
    rng = np.random.default_rng(seed)
    gold = np.minimum(rng.geometric(0.5, n) - 1, classes - 1)
    guess = np.where(rng.random(n) < 0.66, gold, rng.integers(classes, size=n))
    return gold, guess


def test_accuracy_and_its_interval() -> None:
    gold, guess = noisy(300, 3)
    found = score("accuracy", answers(guess, 3), gold)
    correct = int((gold == guess).sum())
    assert found.value == correct / 300
    assert (found.low, found.high) == pytest.approx(proportion_confint(correct, 300, method="wilson"))
    assert (found.n, found.note) == (300, "")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_matthews_of_a_table_equals_sklearns(pairs: list[tuple[int, int]]) -> None:
    gold, guess = np.array(pairs).T
    table = np.zeros((3, 3))
    np.add.at(table, (gold, guess), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one label alone
        wanted = matthews_corrcoef(gold, guess)
    assert matthews(table[None])[0] == pytest.approx(wanted, abs=1e-12)
    assert score("matthews", answers(guess, 3), gold, draws=2).value == pytest.approx(wanted, abs=1e-12)


def test_matthews_by_hand() -> None:
    gold = np.array([1] * 8 + [0] * 12)
    guess = np.array([1] * 6 + [0] * 2 + [1] * 3 + [0] * 9)
    tp, fn, fp, tn = 6, 2, 3, 9
    wanted = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    found = score("matthews", answers(guess, 2), gold)
    assert found.value == pytest.approx(wanted)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("classes", [2, 3])
def test_the_interval_of_matthews_is_that_of_examples_drawn_again_and_again(classes: int) -> None:
    gold, guess = noisy(400, classes)
    rng = np.random.default_rng(5)
    plain = []
    for _ in range(800):
        rows = rng.integers(400, size=400)
        plain.append(matthews_corrcoef(gold[rows], guess[rows]))
    found = score("matthews", answers(guess, classes), gold, draws=20_000)
    # the ends of 800 draws are themselves uncertain: about 0.005 here
    assert [found.low, found.high] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.012)
    assert found == score("matthews", answers(guess, classes), gold, draws=20_000)


def test_without_draws_there_is_a_value_and_no_interval() -> None:
    gold, guess = noisy(50, 3)
    found = score("matthews", answers(guess, 3), gold, draws=0)
    assert found.value == pytest.approx(matthews_corrcoef(gold, guess))
    assert np.isnan([found.low, found.high]).all()
    assert score("accuracy", answers(guess, 3), gold, draws=0) == score("accuracy", answers(guess, 3), gold)


def test_matthews_of_a_large_set_does_not_overflow() -> None:
    gold, guess = noisy(400_000, 2)
    table = np.bincount(gold * 2 + guess, minlength=4).reshape(1, 2, 2)
    found = score("matthews", answers(guess, 2), gold, draws=200)
    assert matthews(table)[0] == pytest.approx(matthews_corrcoef(gold, guess))
    assert 0 < found.high - found.low < 0.01


def test_one_class_counts_as_0_and_says_so() -> None:
    gold = np.array([0, 1, 1, 1])
    assert score("matthews", answers([1, 1, 1, 1], 2), gold) == Score(
        0.0, 0.0, 0.0, 4, "one class predicted: Matthews counts as 0"
    )
    found = score("matthews", answers(gold, 2), np.ones(4, int))
    assert (found.value, found.note) == (0.0, "one class in the labels: Matthews counts as 0")


def test_pearson_and_fishers_interval() -> None:
    rng = np.random.default_rng(1)
    gold = rng.uniform(0, 5, 50)
    guess = gold + rng.normal(size=50)
    found = score("pearson", guess[:, None].astype(np.float32), gold)
    assert found.value == pytest.approx(pearsonr(guess, gold).statistic, abs=1e-6)
    centred = (guess - guess.mean()) @ (gold - gold.mean()) / (50 * guess.std() * gold.std())
    assert found.value == pytest.approx(centred, abs=1e-6)
    half = norm.ppf(0.975) / np.sqrt(50 - 3)
    assert found.low == pytest.approx(np.tanh(np.arctanh(centred) - half), abs=1e-6)
    assert found.high == pytest.approx(np.tanh(np.arctanh(centred) + half), abs=1e-6)
    # only order and spacing count
    assert score("pearson", 2 * guess[:, None] - 7, gold).value == pytest.approx(found.value, abs=1e-6)


def test_three_examples_and_a_perfect_line() -> None:
    three = score("pearson", np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 2.0]))
    assert (three.low, three.high) == (-1, 1)
    line = score("pearson", np.arange(5.0)[:, None], np.arange(5.0))
    assert line.value == pytest.approx(1)
    assert line.low <= line.high <= 1


@pytest.mark.parametrize(
    ("guess", "gold", "note"),
    [
        ([3.0, 3.0, 3.0, 3.0], [1.0, 2.0, 3.0, 4.0], "the predictions are all the same: Pearson's correlation is not defined"),
        ([3.0, 3.0000002, 3.0, 3.0000005], [1.0, 2.0, 3.0, 4.0], "the predictions are all the same"),  # but for rounding
        ([0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], "the predictions are all the same"),
        ([1.0, 2.0, 3.0], [2.5, 2.5, 2.5], "the labels are all the same"),
        ([1.0, 2.0], [1.0, 2.0], "2 examples are too few"),
        ([1.0, np.nan, 2.0], [1.0, 2.0, 3.0], "some of the model's outputs are not finite"),
    ],
)
def test_where_pearson_is_not_defined(guess: list[float], gold: list[float], note: str) -> None:
    found = score("pearson", np.array(guess)[:, None], np.array(gold))
    assert np.isnan([found.value, found.low, found.high]).all()
    assert found.note.startswith(note)
    assert found.n == len(gold)


@pytest.mark.parametrize("metric", ["accuracy", "matthews"])
def test_answers_that_are_no_numbers_are_not_counted(metric: str) -> None:
    logits = answers([0, 1, 1], 2)
    logits[1] = np.nan
    assert np.isnan(score(metric, logits, np.array([0, 1, 1])).value)


@pytest.mark.parametrize(
    ("metric", "shape", "gold", "message"),
    [
        ("f1", (2, 2), [0, 1], "metric 'f1': the metrics are accuracy, matthews, pearson"),
        ("accuracy", (3, 2), [0, 1], r"logits of shape \(3, 2\) do not go with \(2,\) labels"),
        ("accuracy", (0, 2), [], "do not go with"),
        ("matthews", (2, 2), [0, 2], "labels must be indices of the 2 classes"),
        ("accuracy", (2, 2), [0.0, 1.0], "labels must be indices"),
        ("pearson", (2, 2), [0.0, 1.0], "needs a model with one output; this one has 2"),
    ],
)
def test_what_cannot_be_scored(metric: str, shape: tuple[int, int], gold: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(metric, np.zeros(shape), np.array(gold))


def test_the_majority_is_that_of_training() -> None:
    train, gold = np.array([1, 1, 0]), np.array([0, 0, 0, 1])
    assert baseline("accuracy", train, gold).value == 0.25  # the majority of the set itself would have 0.75
    none = baseline("matthews", train, gold)
    assert (none.value, none.note) == (0.0, "one class predicted: Matthews counts as 0")
    assert baseline("accuracy", np.array([2, 2, 0]), np.array([0, 1])).value == 0.0
    never = baseline("pearson", np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert np.isnan(never.value)
    assert "no correlation" in never.note


def test_metrics_do_not_load_sklearn_before_it_is_needed() -> None:
    code = "import sys, corewood.evaluate.metrics; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
