"""Paired tests, variance, ablation tables: against statsmodels and formulas by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import permutation_test, spearmanr
from scipy.stats import t as student
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from corewood.analyse.ablation import BEYOND, INSIDE, OUTSIDE, ablation_rows, paired_interval
from corewood.analyse.behaviour import core_against_rest, mostly
from corewood.analyse.differences import (
    beside,
    corrected,
    crossed_interval,
    mcnemar,
    pair_tests,
    rank_correlation,
    size_effect,
    variance_split,
)


def test_mcnemar_equals_statsmodels() -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.1, 0.3):
        one, other = rng.random(200) < 0.6, rng.random(200) < 0.6 + shift
        both = [[(one & other).sum(), (one & ~other).sum()], [(~one & other).sum(), (~one & ~other).sum()]]
        b, c, p = mcnemar(one, other)
        assert (b, c) == (both[0][1], both[1][0])
        assert p == pytest.approx(statsmodels_mcnemar(both, exact=True).pvalue)
    assert mcnemar(one, one) == (0, 0, 1.0)


def test_holm_by_hand() -> None:
    table = corrected(pd.DataFrame({"p": [0.01, 0.04, 0.02]}))
    assert table["p_holm"].tolist() == pytest.approx([0.03, 0.04, 0.04])
    assert table["real"].tolist() == [True, True, True]
    assert corrected(pd.DataFrame({"p": [0.03, 0.04]}))["real"].tolist() == [False, False]


def test_pairs_name_who_is_better() -> None:
    right = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]], bool)
    found = pair_tests(right, ["x", "y", "z"]).set_index(["one", "other"])
    assert found.loc[("x", "y"), "difference"] == 0.75
    assert found.loc[("y", "z"), ["only_one", "only_other"]].tolist() == [0, 2]


def test_variance_split_equals_a_two_way_anova() -> None:
    rng = np.random.default_rng(1)
    ability = np.array([0.4, 0.5, 0.6, 0.7])[:, None]
    right = rng.random((4, 300)) < ability + 0.2 * rng.standard_normal(300)
    long = pd.DataFrame(
        [(s, e, float(right[s, e])) for s in range(4) for e in range(300)], columns=["network", "example", "right"]
    )
    fit = anova_lm(ols("right ~ C(network) + C(example)", long).fit())
    found = variance_split(right)
    assert found["noise_std"] ** 2 == pytest.approx(fit.loc["Residual", "mean_sq"] / 300)
    assert found["std"] ** 2 == pytest.approx(fit.loc["C(network)", "mean_sq"] / 300)
    assert found["true_std"] ** 2 == pytest.approx(found["std"] ** 2 - found["noise_std"] ** 2)
    assert found["q_p"] < 1e-6


def test_equal_subnetworks_differ_by_noise_alone() -> None:
    rng = np.random.default_rng(2)
    shares = [variance_split(rng.random((6, 400)) < 0.5)["noise_share"] for _ in range(40)]
    assert np.mean(shares) > 0.75
    same = variance_split(np.ones((3, 10), bool))
    assert same["std"] == 0
    assert np.isnan(same["noise_share"])
    assert same["q_p"] == 1


def with_two_more(values: np.ndarray, least: float) -> np.ndarray:
    ends = np.tile([least, 1.0], (len(values), 1))
    return np.concatenate([values, ends], axis=1)


def test_intervals_over_models_and_examples_are_those_of_a_crossed_anova() -> None:
    """Mean squares by statsmodels, variance and Satterthwaite's degrees of freedom by hand."""
    rng = np.random.default_rng(4)
    ability = np.array([0.2, 0.5, 0.8])[:, None]
    right = {"l0": (rng.random((3, 40)) < ability).astype(float), "other": (rng.random((3, 40)) < ability[::-1]).astype(float)}
    found = beside(right, "l0")
    one, gap = found["l0"], found["other"]
    for values, least, given in (
        (right["l0"], 0.0, (one["low"], one["high"])),
        (right["other"] - right["l0"], -1.0, (gap["difference_low"], gap["difference_high"])),
    ):
        x = with_two_more(values, least)
        long = pd.DataFrame([(m, e, x[m, e]) for m in range(3) for e in range(42)], columns=["model", "example", "y"])
        fit = anova_lm(ols("y ~ C(model) + C(example)", long).fit())
        models, examples, rest = (fit.loc[name, "mean_sq"] for name in ("C(model)", "C(example)", "Residual"))
        assert models > rest  # else a part of the variance is below zero
        across = max(examples, rest)
        total = models + across - rest
        df = total**2 / (models**2 / 2 + across**2 / 41 + rest**2 / 82)
        half = student.ppf(0.975, df) * np.sqrt(total / (3 * 42))
        expected = (max(least, x.mean() - half), min(1.0, x.mean() + half))
        assert given == crossed_interval(values, least, 1.0) == pytest.approx(expected)
    assert gap["difference"] == pytest.approx(right["other"].mean() - right["l0"].mean())
    assert one["difference_low"] == one["difference_high"] == 0


def test_one_model_has_an_interval_over_examples_alone() -> None:
    values = (np.random.default_rng(5).random((1, 80)) < 0.7).astype(float)
    x = with_two_more(values, 0.0)[0]
    half = student.ppf(0.975, 81) * x.std(ddof=1) / np.sqrt(82)
    assert crossed_interval(values, 0.0, 1.0) == pytest.approx((x.mean() - half, x.mean() + half))
    low, high = crossed_interval(np.ones((1, 50)), 0.0, 1.0)
    assert 0.9 < low < high == 1.0


def test_intervals_over_few_models_hold_the_truth_as_often_as_they_say() -> None:
    """Three models whose abilities differ, and 200 examples: a bootstrap over both is too narrow, a t interval is not."""
    rng = np.random.default_rng(6)
    draws, inside, drawn = 300, 0, 0
    for _ in range(draws):
        chance = 0.6 + 0.08 * rng.standard_normal((3, 1)) + 0.15 * rng.standard_normal(200)
        right = (rng.random((3, 200)) < chance).astype(float)
        low, high = crossed_interval(right, 0.0, 1.0)
        inside += low <= 0.6 <= high
        models, examples = (rng.multinomial(k, np.full(k, 1 / k), size=300) / k for k in right.shape)
        low, high = np.quantile(((models @ right) * examples).sum(1), [0.025, 0.975])
        drawn += low <= 0.6 <= high
    assert 0.91 < inside / draws < 0.99
    assert drawn / draws < 0.88


def test_size_effect_only_where_sizes_differ() -> None:
    found = size_effect(np.array([0.1, 0.2, 0.4]), np.array([0.5, 0.6, 0.7]))
    assert (found["rho"], found["p"]) == (1, pytest.approx(1 / 3))  # two of six orders
    assert found["explained"] == pytest.approx(np.corrcoef([0.1, 0.2, 0.4], [0.5, 0.6, 0.7])[0, 1] ** 2)
    assert np.isnan(size_effect(np.array([0.1, 0.2, 0.4]), np.array([0.5, 0.5, 0.5]))["rho"])


@pytest.mark.parametrize("count", range(3, 7))
def test_the_p_of_few_ranks_is_that_of_all_orders(count: int) -> None:
    """Counted one by one, and by scipy; with ties, too."""
    rng = np.random.default_rng(count)
    for levels in (1000, 3):
        one, other = (np.r_[0, 1, rng.integers(0, levels, count - 2)] for _ in range(2))
        rho, p = rank_correlation(one, other)
        assert rho == pytest.approx(spearmanr(one, other)[0])
        every = [abs(spearmanr(order, other)[0]) >= abs(rho) - 1e-9 for order in permutations(one)]
        assert p == pytest.approx(np.mean(every))
        drawn = permutation_test(
            (one,), lambda x, y=other: abs(spearmanr(x, y)[0]), permutation_type="pairings", alternative="greater"
        )
        assert p == pytest.approx(drawn.pvalue)


def test_the_p_of_few_ranks_by_hand() -> None:
    up, swapped = np.arange(4), np.array([0, 1, 3, 2])
    assert rank_correlation(up, up) == pytest.approx((1, 2 / 24))
    assert rank_correlation(up, up[::-1]) == pytest.approx((-1, 2 / 24))
    assert rank_correlation(up, swapped) == pytest.approx((0.8, 8 / 24))  # a swap of neighbours or none, up or down
    assert rank_correlation(np.array([1, 1, 2]), np.arange(3))[1] == pytest.approx(4 / 6)
    assert rank_correlation(np.arange(8), np.arange(8))[1] == pytest.approx(2 / 40320)


def test_the_p_of_many_ranks_is_scipys() -> None:
    one, other = np.random.default_rng(7).random((2, 9))
    assert rank_correlation(one, other) == pytest.approx(tuple(spearmanr(one, other)))
    assert np.isnan(rank_correlation(np.array([1, 2, np.nan]), np.arange(3))).all()


def test_the_paired_interval_is_bonett_and_prices() -> None:
    b, c, n = 12, 30, 200  # right without the unit only, right with it only
    differences = np.r_[np.ones(b), -np.ones(c), np.zeros(n - b - c)]
    p12, p21 = (b + 1) / (n + 2), (c + 1) / (n + 2)
    half = 1.959964 * np.sqrt((p12 + p21 - (p12 - p21) ** 2) / (n + 2))
    assert paired_interval(differences) == pytest.approx((p12 - p21 - half, p12 - p21 + half), abs=1e-6)
    low, high = paired_interval(np.zeros(50))
    assert low < 0 < high


def test_the_interval_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(600):
        kinds = rng.choice([1, -1, 0], 120, p=[0.05, 0.15, 0.8])
        low, high = paired_interval(kinds)
        inside += low <= -0.1 <= high
    assert 0.92 < inside / 600 < 0.98


def test_ablation_rows_by_hand() -> None:
    full = np.array([1, 1, 1, 1, 0, 1], bool)
    right = {
        ("L0.H0",): np.array([1, 1, 1, 0, 0, 1], bool),
        ("L0.H1",): np.array([1, 1, 0, 1, 0, 1], bool),
        ("L1.H0",): np.array([1, 1, 1, 1, 1, 1], bool),
        ("L0.MLP",): np.array([0, 0, 0, 0, 0, 0], bool),
        ("L0.H0", "L0.H1"): np.array([0, 0, 0, 0, 0, 1], bool),
    }
    cases = [("all", "", np.ones(6, bool)), ("c", "g", np.array([1, 1, 1, 0, 0, 0], bool))]
    table = ablation_rows(full, right, cases, core=["L0.H0"], heads=3).set_index(["units", "case"])
    assert table.loc[("L0.H0", "all"), "change"] == pytest.approx(-1 / 6)
    assert table.loc[("L0.H0", "c"), "change"] == 0
    pair = table.loc[("L0.H0 + L0.H1", "all")]
    assert pair["change"] == pytest.approx(-4 / 6)
    assert pair["interaction"] == pytest.approx(-4 / 6 - (-1 / 6 - 1 / 6))
    beyond = np.array([-1, -1, 0, 0, 0, 0], float)  # joint minus singles, example by example
    assert (pair["interaction_low"], pair["interaction_high"]) == pytest.approx(paired_interval(beyond))
    outside = table.loc[(OUTSIDE, "all")]  # L0.H1 and L1.H0; no MLP, no core head
    assert outside["change"] == pytest.approx((-1 / 6 + 1 / 6) / 2)
    assert table.loc[(INSIDE, "all"), ["change", "value"]].tolist() == pytest.approx([-1 / 6, 4 / 6])
    beyond = table.loc[(BEYOND, "all")]
    apart = np.array([0, 0, 0.5, -1, -0.5, 0])  # L0.H0 less the mean of L0.H1 and L1.H0, example by example
    assert beyond["change"] == pytest.approx(apart.mean())
    assert (beyond["low"], beyond["high"]) == pytest.approx(paired_interval(apart, 2))
    assert np.isnan(beyond["value"])
    assert table.loc[("L0.MLP", "all"), "kind"] == "mlp"
    assert bool(table.loc[("L0.H0", "all"), "core"])
    assert not bool(pair["core"])
    assert np.isnan(table.loc[("L0.H0", "all"), "interaction"])


def test_the_average_outside_the_core_needs_all_heads() -> None:
    full = np.ones(4, bool)
    right = {("L0.H0",): full, ("L0.H1",): ~full}
    cases = [("all", "", np.ones(4, bool))]
    assert OUTSIDE in set(ablation_rows(full, right, cases, ["L0.H0"], heads=2)["units"])
    assert OUTSIDE not in set(ablation_rows(full, right, cases, ["L0.H0"], heads=8)["units"])


def test_an_interaction_may_exceed_one() -> None:
    full = np.ones(50, bool)
    units = ("L0.H0", "L0.H1", "L0.H2")
    right = {(u,): ~full for u in units} | {units: ~full}  # each alone costs everything, and so do all together
    row = ablation_rows(full, right, [("all", "", np.ones(50, bool))], [], heads=3).set_index("units").loc[" + ".join(units)]
    assert row["interaction"] == 2
    assert row["interaction_low"] < row["interaction_high"]
    assert row["interaction_low"] > 1.5


def test_core_against_rest_and_what_heads_mostly_do() -> None:
    scores = pd.DataFrame(
        [
            {"layer": 0, "head": h, "kind": kind, "mean": mean, "low": 0, "high": 1, "uniform": 0.1, "examples": 5}
            for h in range(4)
            for kind, mean in (("previous", 0.9 if h == 0 else 0.1), ("next", 0.2 + 0.1 * h))
        ]
    )
    found = core_against_rest(scores, ["L0.H0"]).set_index("kind")
    assert found.loc["previous", "delta"] == 1  # above every other head
    assert found.loc["next", "delta"] == -1
    assert found.loc["next", "rest"] == pytest.approx(0.4)
    does = mostly(scores).set_index("unit")["does"]
    assert does["L0.H0"] == "previous"
    assert does["L0.H1"] == "next"  # 0.3 against 0.1
    assert mostly(scores.assign(mean=0.15)).iloc[0]["does"] == "spread out"
