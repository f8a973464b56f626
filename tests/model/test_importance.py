"""Importance pruning: scores against a plain loop, rounds against what the paper says they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import torch.nn.functional as F

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.overlap import overlap
from corewood.model.gates import Gates, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.prune.importance import importance_scores, importance_search, normalised, reaches, without_least
from corewood.spec.ways import Importance


def settings(**changes: Any) -> Importance:
    return Importance.model_validate(changes)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.model(hidden_dropout_prob=0.1)


@pytest.fixture(scope="module")
def data(model: Model) -> tuple[Encoded, np.ndarray]:
    split = overlap(train=200, validation=24).validation
    return encode(split, model.tokenizer, 64), split.gold


def slow_score(model: Model, mask: Mask, rows: list[np.ndarray], data: tuple[Encoded, np.ndarray], **how: Any) -> np.ndarray:
    """The definition: one gate at a time by differences of the loss, the sign dropped, averaged over `rows`."""
    examples, gold = data
    net = model.net.double()
    scores = np.full(mask.vector.size, np.nan)
    start = torch.tensor(mask.vector, dtype=torch.float64)
    for unit in np.flatnonzero(mask.vector):
        total = 0.0
        for indices in rows:
            losses = []
            for shift in (0.0, -1e-5, -2e-5):  # a gate does not open further than 1
                z = start.clone()
                z[unit] += shift
                gates = Gates.from_vector(z[None].expand(len(indices), -1), model.units.layers, model.units.heads)
                with torch.no_grad(), gated(model, gates, **how):
                    logits = net(**examples.batch(indices)).logits
                losses.append(float(F.cross_entropy(logits, torch.tensor(gold[indices]))))
            total += abs(3 * losses[0] - 4 * losses[1] + losses[2]) / 2e-5
        scores[unit] = total / len(rows)
    model.net.float()
    return scores


def test_the_released_codes_choices(model: Model, data: tuple[Encoded, np.ndarray]) -> None:
    """Batches in the order of the data; closed heads have scores, too, and count in their layer's norm."""
    mask = Mask(np.array([[1, 0, 1, 1], [1, 1, 0, 1]]), np.array([0, 1]))
    rows = [np.arange(i, min(i + 9, 24)) for i in range(0, 24, 9)]
    paper = settings(per="batch", batch=9, by_length=False, over="all")
    every = importance_scores(model, mask, *data, paper)
    want = slow_score(model, mask, rows, data, ablate="zero")
    np.testing.assert_allclose(every[mask.vector], want[mask.vector], rtol=2e-3, atol=1e-6)
    assert (every[:8] > 0).all()
    found = importance_search(model, *data, lambda _: 1.0, paper.model_copy(update={"sparsity": 0.5}))
    for number, part in list(found.scores.groupby("round"))[:3]:  # scores are of the mask before a round's removal
        left = model.units.from_vector(np.isin(model.units.names, part["unit"]))
        everything = importance_scores(model, left, *data, paper)
        norms = np.sqrt((everything[:8].reshape(2, 4) ** 2).sum(1))
        heads = part[part["unit"].str.contains("H")]
        layers = heads["unit"].str[1].astype(int).to_numpy()
        np.testing.assert_allclose(heads["ranked"], heads["score"] / norms[layers], rtol=1e-5, err_msg=str(number))


@pytest.mark.parametrize("per", ["example", "batch"])
@pytest.mark.parametrize("pruned", [False, True])
def test_scores_are_the_definition(model: Model, data: tuple[Encoded, np.ndarray], per: str, pruned: bool) -> None:
    mask = model.units.full()
    if pruned:
        mask = Mask(np.array([[1, 0, 1, 1], [1, 1, 0, 1]]), np.array([0, 1]))
    rows = [np.array([i]) for i in range(len(data[0]))] if per == "example" else list(by_length(data[0].lengths, 8))
    want = slow_score(model, mask, rows, data, ablate="zero")
    have = importance_scores(model, mask, *data, settings(per=per, batch=8))
    assert (np.isnan(have) == ~mask.vector).all()
    np.testing.assert_allclose(have[mask.vector], want[mask.vector], rtol=2e-3, atol=1e-6)


def test_scores_with_means_for_closed_units(model: Model, data: tuple[Encoded, np.ndarray]) -> None:
    means = reference(model, data[0]).means
    doubled = replace(means, heads=means.heads.double(), mlps=means.mlps.double())
    rows = [np.array([i]) for i in range(len(data[0]))]
    want = slow_score(model, model.units.full(), rows, data, ablate="mean", means=doubled)
    have = importance_scores(model, model.units.full(), *data, settings(ablate="mean"), means)
    np.testing.assert_allclose(have, want, rtol=2e-3, atol=1e-6)


def test_batches_do_not_add_up(model: Model, data: tuple[Encoded, np.ndarray]) -> None:
    """Gradients are taken anew for every batch: an example alone scores the same in any batch."""
    one = importance_scores(model, model.units.full(), *data, settings(batch=4))
    other = importance_scores(model, model.units.full(), *data, settings(batch=24))
    np.testing.assert_allclose(one, other, rtol=1e-4)
    assert all(p.requires_grad and p.grad is None for p in model.net.parameters())


def test_regression_uses_the_squared_error() -> None:
    model = tiny.model(labels=("score",))
    split = overlap(train=200, validation=12).validation
    examples, gold = encode(split, model.tokenizer, 64), np.linspace(0, 5, 12)
    z = torch.ones(len(model.units), requires_grad=True)
    total = np.zeros(len(model.units))
    for i in range(12):
        with gated(model, Gates.from_vector(z, model.units.layers, model.units.heads), "zero"):
            loss = (model.net(**examples.batch(np.array([i]))).logits[0, 0] - gold[i]) ** 2
        total += torch.autograd.grad(loss, z)[0].abs().numpy()
    np.testing.assert_allclose(importance_scores(model, model.units.full(), examples, gold, settings()), total / 12, rtol=1e-3)


def test_heads_are_normalised_by_layer() -> None:
    scores = np.array([3.0, 4.0, np.nan, 1.0, 0.0, 0.0, 7.0, 8.0, 9.0])  # 3 layers of 2 heads, 3 MLPs
    np.testing.assert_allclose(normalised(scores, 3, 2), [0.6, 0.8, np.nan, 1.0, 0.0, 0.0, 7.0, 8.0, 9.0])


def test_the_least_important_go() -> None:
    mask = Mask(np.array([[1, 1, 0], [1, 1, 1]]), np.array([1, 1]))
    ranking = np.array([0.5, 0.1, np.nan, 0.3, 0.2, 0.9, 2.0, 1.0])
    assert (mask - without_least(mask, ranking, 2, 1)).names == ["L0.H1", "L1.H1", "L1.MLP"]
    assert len(without_least(mask, ranking, 99, 99)) == 0


def judged(values: Iterator[float]) -> Any:
    return lambda _mask: next(values)


def test_rounds_follow_the_paper(model: Model, data: tuple[Encoded, np.ndarray]) -> None:
    """Together until a round fails, then heads alone, then MLPs alone; a failed round changes nothing."""
    #        full, both ok, both fails, heads ok, heads fails, mlps fails
    scores = iter([1.0, 0.95, 0.5, 0.92, 0.2, 0.3])
    found = importance_search(model, *data, judged(scores), settings(heads_per_round=0.25))
    rows = found.rounds
    assert rows["phase"].tolist() == ["full", "both", "both", "heads", "heads", "mlps"]
    assert rows["passed"].tolist() == [True, True, False, True, False, False]
    assert rows["heads"].tolist() == [8, 6, 4, 4, 2, 4]
    assert rows["mlps"].tolist() == [2, 1, 0, 1, 1, 0]
    assert (int(found.mask.heads.sum()), int(found.mask.mlps.sum())) == (4, 1)
    assert set(rows["floor"]) == {0.9}
    # rankings come from masks that passed: the full one, after the first round, after heads alone
    ranked = found.scores.groupby("round")["unit"].apply(set)
    assert {number: len(names) for number, names in ranked.items()} == {0: 10, 1: 7, 3: 5}
    assert all(len(ranked[number]) == rows.loc[number, ["heads", "mlps"]].sum() for number in ranked.index)
    assert set(found.mask.names) == ranked.iloc[-1]


def test_a_score_that_is_the_threshold_reaches_it() -> None:
    assert 0.9 * 0.8 > 0.72  # what rounding makes of it
    assert reaches(0.72, 0.9 * 0.8)
    assert not reaches(0.7199, 0.9 * 0.8)
    assert not reaches(np.nan, 0.0)


def test_the_ranking_after_a_failure_is_that_of_the_last_mask_that_passed(model: Model, data: Any) -> None:
    found = importance_search(model, *data, judged(iter([1.0, 0.1, 1.0, 0.1, 0.1])), settings(heads_per_round=0.25))
    first = found.scores[found.scores["round"] == 0].set_index("unit")["ranked"]  # of the full mask
    heads = first[[n for n in first.index if ".H" in n]]
    gone = set(heads.index) - set(found.mask.names)
    assert gone == set(heads.nsmallest(2).index)


def test_modes_and_exact_sizes(model: Model, data: tuple[Encoded, np.ndarray]) -> None:
    always = judged(iter([1.0] * 99))
    heads = importance_search(model, *data, always, settings(), "heads")
    assert int(heads.mask.heads.sum()) == 0
    assert heads.mask.mlps.all()
    mlps = importance_search(model, *data, always, settings(), "mlps")
    assert mlps.mask.heads.all()
    assert not mlps.mask.mlps.any()
    assert len(importance_search(model, *data, always, settings()).mask) == 0  # the whole model is pruned away
    half = importance_search(model, *data, always, settings(sparsity=0.5))
    assert (int(half.mask.heads.sum()), int(half.mask.mlps.sum())) == (4, 1)
    exact = importance_search(model, *data, always, settings(), size=(5, 2))
    assert (int(exact.mask.heads.sum()), int(exact.mask.mlps.sum())) == (5, 2)
    nothing = importance_search(model, *data, judged(iter([1.0, 0.1, 0.1, 0.1])), settings(threshold=1.0))
    assert nothing.mask == model.units.full()
    undefined = importance_search(model, *data, judged(iter([1.0, np.nan, np.nan, np.nan])), settings())
    assert undefined.mask == model.units.full()
