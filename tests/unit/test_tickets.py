"""Good, random and bad tickets: equal in size, different in what they hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewood.analyse.tickets import summary, survivors
from corewood.model.mask import Mask
from corewood.model.weights import WeightMask
from corewood.prune.tickets import spread_over, super_tickets, unit_tickets, weight_tickets


def mask_of(heads: int, mlps: int, seed: int = 0) -> Mask:
    rng = np.random.default_rng(seed)
    return Mask((rng.permutation(24) < heads).reshape(4, 6), rng.permutation(4) < mlps)


@given(st.integers(0, 24), st.integers(0, 4), st.integers(0, 5))
def test_all_tickets_have_as_many_heads_and_mlps(heads: int, mlps: int, seed: int) -> None:
    good = mask_of(heads, mlps, seed)
    tickets = unit_tickets(good, 3, [seed])
    assert list(tickets) == ["good", "random-0", "random-1", "random-2", "bad"]
    assert {(int(t.heads.sum()), int(t.mlps.sum())) for t in tickets.values()} == {(heads, mlps)}
    bad = tickets["bad"] & good  # filled up from the good one only where the rest is not enough
    assert int(bad.heads.sum()) == max(0, 2 * heads - 24)
    assert int(bad.mlps.sum()) == max(0, 2 * mlps - 4)


def test_random_tickets_are_drawn_evenly() -> None:
    good = mask_of(6, 2)
    times = sum(unit_tickets(good, 1, [seed])["random-0"].heads.astype(int) for seed in range(2000))
    assert abs(times / 2000 - 0.25).max() < 0.05  # 6 of 24; five standard deviations
    assert unit_tickets(good, 1, [1])["random-0"] == unit_tickets(good, 1, [1])["random-0"]
    assert unit_tickets(good, 1, [1])["random-0"] != unit_tickets(good, 1, [2])["random-0"]


def test_more_tickets_leave_the_others_as_they_are() -> None:
    good = mask_of(9, 2)
    one, three = unit_tickets(good, 1, [4]), unit_tickets(good, 3, [4])
    assert all(three[name] == mask for name, mask in one.items())
    assert len(set(three.values())) == 5
    rng = np.random.default_rng(1)
    weights = WeightMask.of({"a": rng.random((20, 30)) < 0.4})
    few, many = weight_tickets(weights, 1, [4]), weight_tickets(weights, 3, [4])
    assert all(many[name].shared(mask) == len(mask) for name, mask in few.items())


def test_models_too_large_for_numpys_draw() -> None:
    sizes = [3_000_000_000, 1_000_000_000, 7, 0]
    found = spread_over(sizes, 1_000_000_003, np.random.default_rng(0))
    assert found.sum() == 1_000_000_003
    np.testing.assert_allclose(found, np.array(sizes) * (1_000_000_003 / sum(sizes)), atol=1.01)
    assert (spread_over(sizes, sum(sizes), np.random.default_rng(0)) == sizes).all()


def test_super_survivors_and_their_counterparts() -> None:
    heads = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0]], bool).reshape(3, 1, 6)
    mlps = np.array([[1], [1], [0]], bool)
    tickets = super_tickets([Mask(h, m) for h, m in zip(heads, mlps, strict=True)], [0])
    assert tickets["good"].names == ["L0.H0", "L0.H1"]
    assert "L0.H5" in tickets["bad"].names  # no seed keeps it
    assert not set(tickets["bad"].names) & {"L0.H0", "L0.H1"}
    assert len(tickets["random-0"]) == 2
    assert not set(tickets["random-0"].names) & {*tickets["good"].names, *tickets["bad"].names}


def test_super_survivors_when_there_are_few_others() -> None:
    masks = [mask_of(24, 4), mask_of(24, 4)]
    tickets = super_tickets(masks, [0])
    assert all(t == masks[0] for t in tickets.values())
    empty = super_tickets([mask_of(3, 0, 1), mask_of(0, 4)], [0])
    assert all(len(t) == 0 for t in empty.values())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_weight_tickets(share: float) -> None:
    rng = np.random.default_rng(1)
    good = WeightMask.of({"a": rng.random((40, 50)) < share, "b": rng.random((30, 10)) < share / 2})
    tickets = weight_tickets(good, 2, [7])
    assert {len(t) for t in tickets.values()} == {len(good)}
    assert tickets["bad"].shared(good) == max(0, 2 * len(good) - good.total)
    by_chance = len(good) ** 2 / good.total
    spread = (by_chance * (1 - good.share)) ** 0.5
    for name in ("random-0", "random-1"):
        assert abs(tickets[name].shared(good) - by_chance) <= 5 * spread + 1e-9
    if share < 1:
        assert tickets["random-0"].shared(tickets["random-1"]) < len(good)


def test_a_summary_averages_draws_before_seeds() -> None:
    rows = [("full", "full", "pruned", s, 0, v) for s, v in ((1, 0.8), (2, 0.9))]
    rows += [("importance", "random", "pruned", 1, d, v) for d, v in ((0, 0.2), (1, 0.4))]
    rows += [("importance", "random", "pruned", 2, 0, 0.9), ("importance", "good", "pruned", 1, 0, np.nan)]
    scores = pd.DataFrame(rows, columns=["way", "ticket", "state", "tuning", "draw", "value"]).assign(
        task="t",
        question="tickets",
        domain="in-domain",
        prune="both",
        epochs=0.0,
        metric="accuracy",
        target=0.0,
        seed=0,
        checkpoint=9,
    )
    table = summary(scores).set_index(["way", "ticket"])
    assert table.loc[("importance", "random"), "mean"] == pytest.approx((0.3 + 0.9) / 2)
    assert table.loc[("importance", "random"), "std"] == pytest.approx(np.std([0.3, 0.9], ddof=1))
    assert table.loc[("importance", "random"), "beside"] == pytest.approx(0.85)
    assert not table.loc[("importance", "random"), "as_full"]
    assert table.loc[("importance", "good"), "undefined"] == 1
    assert np.isnan(table.loc[("importance", "good"), "mean"])


def test_survivors_over_seeds() -> None:
    heads = np.array([[[1, 0]], [[1, 1]], [[1, 0]]])
    table = survivors({"head": heads, "mlp": np.array([[1], [0], [0]])}).set_index(["kind", "index"])
    assert table.loc[("head", 1), "mean"] == pytest.approx(1 / 3)
    assert table.loc[("head", 1), "std"] == pytest.approx(np.std([0, 1, 0], ddof=1))
    assert table.loc[("mlp", 0), "mean"] == pytest.approx(1 / 3)
