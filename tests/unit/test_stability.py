"""Stability of masks and overlaps of tasks against second sources, by hand, and at the edges."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa
from statsmodels.stats.multitest import multipletests

import corewood as cw
from corewood.analyse.overlaps import overlaps
from corewood.analyse.stability import Stability, equal_sizes, fleiss, fleiss_of, pairs, q_of, shuffled
from corewood.analyse.stability import unit_stability as stability
from corewood.errors import InputError
from corewood.model.mask import Mask

LAYERS = np.repeat(np.arange(12), 12)


def drawn(sizes: list[int], seed: int, units: int = 144, weights: np.ndarray | None = None) -> np.ndarray:
    """(mask, unit) bool"""
    rng = np.random.default_rng(seed)
    kept = np.zeros((len(sizes), units), bool)
    share = None if weights is None else weights / weights.sum()
    for row, size in zip(kept, sizes, strict=True):
        row[rng.choice(units, size, replace=False, p=share)] = True
    return kept


def as_masks(kept: np.ndarray, mlps: np.ndarray | None = None) -> list[Mask]:
    mlps = np.ones((len(kept), 12), bool) if mlps is None else mlps
    return [Mask(row.reshape(12, -1), m) for row, m in zip(kept, mlps, strict=True)]


# by hand and against second sources


def test_fleiss_by_hand() -> None:
    kept = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]], bool)  # votes 3, 1, 1, 0 of 3
    # agreeing pairs of masks per unit: 3/3, 1/3, 1/3, 3/3; 5 of 12 votes are to keep
    agree, chance = (1 + 1 / 3 + 1 / 3 + 1) / 4, (5 / 12) ** 2 + (7 / 12) ** 2
    found = stability(kept, np.array([0, 0, 1, 1]), draws=20)
    assert found.fleiss == pytest.approx((agree - chance) / (1 - chance))
    assert (found.masks, found.units, found.smallest, found.largest) == (3, 4, 1, 2)
    assert found.mean == pytest.approx(5 / 3)
    assert found.survivors == 1
    assert found.survivors_expected == pytest.approx(4 * (2 / 4) * (2 / 4) * (1 / 4))
    assert found.survivors_expected_layers == pytest.approx(2 * (1 * 0.5 * 0.5) + 0)


def test_numbers_over_all_masks_equal_statsmodels() -> None:
    kept = drawn([70, 80, 60, 75], 1)
    found = stability(kept, LAYERS, draws=50)
    q = cochrans_q(kept.T.astype(int))
    assert found.fleiss == pytest.approx(fleiss_kappa(aggregate_raters(kept.T.astype(int))[0]))
    assert (found.q, found.q_p) == pytest.approx((q.statistic, q.pvalue))
    assert found.row()["fleiss"] == found.fleiss


def test_the_random_fleiss_is_its_exact_expectation() -> None:
    sizes = [30, 110, 72]
    found = stability(drawn(sizes, 3), LAYERS, draws=1000)
    p = np.array(sizes) / 144
    agree = np.mean([a * b + (1 - a) * (1 - b) for a, b in combinations(p, 2)])
    chance = p.mean() ** 2 + (1 - p.mean()) ** 2
    assert found.fleiss_expected == pytest.approx((agree - chance) / (1 - chance), abs=0.005)
    assert found.fleiss_expected < -0.05  # masks of different sizes cannot agree


def test_random_masks_of_one_size_have_kappa_zero_and_even_p() -> None:
    found = [stability(drawn([72] * 5, seed), LAYERS, draws=200) for seed in range(40)]
    assert np.mean([f.fleiss for f in found]) == pytest.approx(0, abs=0.01)
    assert np.mean([f.fleiss_expected for f in found]) == pytest.approx(0, abs=0.002)
    for values in ([f.fleiss_p for f in found], [f.fleiss_p_layers for f in found]):
        assert 0.3 < np.mean(values) < 0.7


def test_layers_explain_agreement_that_is_only_about_layers() -> None:
    weights = np.repeat(np.linspace(0.05, 1, 12) ** 2, 12)
    found = stability(drawn([60] * 6, 4, weights=weights), LAYERS, draws=500)
    assert found.fleiss_p < 0.01
    assert found.fleiss_expected_layers == pytest.approx(found.fleiss, abs=0.06)
    assert found.fleiss_p_layers > 0.02


def test_shuffles_keep_sizes_within_layers() -> None:
    kept, strata = drawn([5, 9], 0, units=12), np.tile([2, 0, 1], 4)
    order = np.argsort(strata, kind="stable")
    for one in shuffled(kept, strata, 5, np.random.default_rng(0)):
        assert (one.sum(1) == [5, 9]).all()
        for layer in range(3):
            assert (one[:, strata[order] == layer].sum(1) == kept[:, strata == layer].sum(1)).all()


def test_cochrans_q_is_about_sizes_not_units() -> None:
    apart, alike = np.zeros((2, 3, 144), bool)
    for i, size in enumerate((20, 30, 40)):
        apart[i, 45 * i : 45 * i + size] = True
        alike[i, :size] = True
    one, other = stability(apart, LAYERS, draws=100), stability(alike, LAYERS, draws=100)
    assert one.fleiss < 0 < other.fleiss
    assert other.q > one.q_expected > one.q  # the same sizes: the better they agree, the larger
    same_size = stability(drawn([40] * 3, 0), LAYERS, draws=20)
    assert (same_size.q, same_size.q_p) == pytest.approx((0, 1))


def test_super_survivors_have_the_cores_chance() -> None:
    kept = drawn([60] * 5, 6)
    kept[:, :6] = True
    found, core = stability(kept, LAYERS), cw.core(as_masks(kept))
    assert found.survivors == len(core.heads)
    assert found.survivors_expected == pytest.approx(core.expected)
    assert found.survivors_expected_layers == pytest.approx(core.expected_layers)
    assert found.survivors_p == pytest.approx(core.p, abs=0.01)


# two masks at a time


def test_pairs_equal_second_sources() -> None:
    kept = drawn([70, 40, 100, 72], 2)
    table = pairs(kept, list("abcd"))
    assert table[["one", "other"]].to_numpy().tolist() == [list(p) for p in combinations("abcd", 2)]
    for (i, j), row in zip(combinations(range(4), 2), table.to_dict("records"), strict=True):
        a, b = kept[i], kept[j]
        assert row["kappa"] == pytest.approx(cohen_kappa_score(a, b))
        assert row["jaccard"] == pytest.approx((a & b).sum() / (a | b).sum())
        assert row["shared_expected"] == pytest.approx(hypergeom.mean(144, a.sum(), b.sum()))
        assert row["kappa_expected"] == 0
    real, holm, _, _ = multipletests(table["p"], 0.05, "holm")
    assert table["p_holm"].to_numpy() == pytest.approx(holm)
    assert (table["real"] == real).all()


def test_the_hypergeometric_p_is_the_permutation_p() -> None:
    kept = drawn([20, 25], 5, units=48)
    kept[1, np.flatnonzero(kept[0])[:12]] = True
    row = pairs(kept).iloc[0]
    shares, jaccards, kappas = [], [], []
    for one in shuffled(kept, np.zeros(48, int), 4000, np.random.default_rng(0)):
        shared = (one[0] & one[1]).sum()
        shares.append(shared)
        jaccards.append(shared / (one[0] | one[1]).sum())
        same, chance = (one[0] == one[1]).mean(), one.mean(1).prod() + (1 - one.mean(1)).prod()
        kappas.append((same - chance) / (1 - chance))
    assert row["p"] == pytest.approx(np.mean(np.array(shares) >= row["shared"]), abs=0.015)
    assert row["shared_expected"] == pytest.approx(np.mean(shares), abs=0.15)
    assert row["jaccard_expected"] == pytest.approx(np.mean(jaccards), abs=0.01)
    assert np.mean(kappas) == pytest.approx(0, abs=0.01)


def test_agreement_is_pairs_of_heads() -> None:
    kept = drawn([70, 60, 80], 2)
    table = cw.agreement(as_masks(kept))
    columns = "one other shared shared_expected jaccard jaccard_expected kappa fleiss p p_holm real"
    assert list(table.columns) == columns.split()
    assert table["p"].tolist() == pairs(kept)["p"].tolist()
    assert table["fleiss"].unique() == pytest.approx([cw.stability(as_masks(kept), draws=5).fleiss])
    for function in (cw.agreement, cw.stability):
        with pytest.raises(InputError, match="at least two masks"):
            function(as_masks(kept)[:1])
        with pytest.raises(InputError, match="different shapes"):
            function([*as_masks(kept), Mask(np.ones((2, 2)), np.ones(2))])


# edges


def nan_fields(found: Stability) -> set[str]:
    return {name for name, value in found.row().items() if np.isnan(value)}


FLEISS = {"fleiss", "fleiss_expected", "fleiss_p", "fleiss_expected_layers", "fleiss_p_layers"}
Q = {"q", "q_p", "q_expected"}


@pytest.mark.parametrize("full", [True, False])
def test_masks_that_are_all_full_or_all_empty_say_nothing(full: bool) -> None:
    found = stability(np.full((3, 144), full), LAYERS, draws=20)
    assert nan_fields(found) == FLEISS | Q
    assert found.survivors == found.survivors_expected == (144 if full else 0)
    assert found.survivors_p == found.survivors_p_layers == 1
    row = pairs(np.full((2, 144), full)).iloc[0]
    assert np.isnan(row["kappa"])
    assert np.isnan(row["kappa_expected"])
    assert row["p"] == row["p_holm"] == 1
    assert row["jaccard"] == 1 if full else np.isnan(row["jaccard"])
    assert row["jaccard_expected"] == pytest.approx(1) if full else np.isnan(row["jaccard_expected"])


def test_identical_masks_agree_entirely_and_have_no_q() -> None:
    found = stability(np.repeat(drawn([50], 0), 4, 0), LAYERS, draws=200)
    assert nan_fields(found) == {"q", "q_p"}
    assert found.fleiss == pytest.approx(1)
    assert found.survivors == 50
    assert found.fleiss_p == found.survivors_p == pytest.approx(1 / 201)


def test_two_masks_one_of_them_empty() -> None:
    kept = np.stack([drawn([50], 0)[0], np.zeros(144, bool)])
    found = stability(kept, LAYERS, draws=20)
    assert not nan_fields(found)
    assert found.fleiss_p == 1
    row = pairs(kept).iloc[0]
    assert (row["jaccard"], row["kappa"], row["p"]) == (0, 0, 1)
    assert not row["real"]


def test_mlps_cannot_be_shuffled_within_layers() -> None:
    found = stability(drawn([6, 7, 8], 0, units=12), np.arange(12), draws=20)
    assert nan_fields(found) == {f"{name}_{what}_layers" for name in ("fleiss", "survivors") for what in ("expected", "p")}


def test_too_few_masks_or_layers_are_refused() -> None:
    with pytest.raises(InputError, match="at least two masks"):
        stability(drawn([5], 0), LAYERS)
    with pytest.raises(InputError, match="at least two masks"):
        pairs(drawn([5], 0))
    with pytest.raises(InputError, match="layer of each unit"):
        stability(drawn([5, 6], 0), LAYERS[:-1])


# tasks


def test_overlaps_of_tasks() -> None:
    a, b, c = drawn([70, 72, 74], 1), drawn([60, 61, 62], 2), drawn([50, 51], 3)
    table = overlaps({"a": as_masks(a), "b": as_masks(b), "c": as_masks(c)}, draws=100)
    assert len(table) == 6 * 2 * 2
    rows = table.set_index(["kind", "which", "one", "other"])
    size = rows.loc[("head", "all units", "a", "a")]
    assert (size["shared"], size["std"], size["seeds"], size["units"]) == (72, 2, 3, 144)
    assert size[["expected", "p", "p_whole"]].isna().all()
    pair = rows.loc[("head", "all units", "a", "b")]
    shared = (a & b).sum(1)
    assert (pair["shared"], pair["std"]) == pytest.approx((shared.mean(), shared.std(ddof=1)))
    assert pair["expected"] == pytest.approx(np.mean([70 * 60, 72 * 61, 74 * 62]) / 144)
    shorter = rows.loc[("head", "all units", "b", "c")]
    assert shorter["seeds"] == 2
    assert shorter["shared"] == pytest.approx((b[:2] & c).sum(1).mean())
    whole = rows.loc[("head", "super-survivors", "a", "b")]
    first, second = a.all(0), b.all(0)
    assert whole["shared"] == (first & second).sum()
    assert np.isnan(whole["std"])
    assert whole["expected"] == pytest.approx(first.sum() * second.sum() / 144)
    assert whole["p"] == pytest.approx(hypergeom.sf(whole["shared"] - 1, 144, first.sum(), second.sum()))
    mlps = rows.loc[("mlp", "all units", "a", "b")]
    assert (mlps["shared"], mlps["expected"], mlps["p"]) == pytest.approx((12, 12, 1))


def test_overlap_p_over_seeds_is_the_permutation_p() -> None:
    a, b = drawn([30, 40, 35], 1, units=60), drawn([20, 25, 30], 9, units=60)
    row = overlaps({"a": as_masks(a), "b": as_masks(b)}, draws=4000).set_index(["one", "other"]).loc[("a", "b")].iloc[0]
    strata = np.zeros(60, int)
    draws = zip(*(shuffled(x, strata, 4000, np.random.default_rng(i)) for i, x in enumerate((a, b))), strict=True)
    means = np.array([(one & other).sum(1).mean() for one, other in draws])
    assert row["p"] == pytest.approx((means >= row["shared"] - 1e-9).mean(), abs=0.02)
    assert row["p_whole"] == pytest.approx(row["p"], abs=0.05)  # these seeds do not resemble each other


def test_seeds_that_resemble_each_other_are_not_counted_twice() -> None:
    one, other = np.zeros((2, 5, 144), bool)
    one[:, :72] = other[:, 32:104] = True  # 40 shared, 36 by chance
    table = overlaps({"a": as_masks(one), "b": as_masks(other)}).set_index(["which", "one", "other"])
    seeds, single = table.loc[("all units", "a", "b")].iloc[0], table.loc[("super-survivors", "a", "b")].iloc[0]
    assert seeds["shared"] == single["shared"]
    assert seeds["p_whole"] == pytest.approx(single["p"], abs=0.03)
    assert seeds["p"] < 0.01 < 0.1 < single["p"]  # five times the same luck


def test_overlaps_need_masks() -> None:
    mask = as_masks(drawn([5], 0))
    for nothing in ({}, {"a": mask, "b": []}):
        with pytest.raises(InputError, match="at least one"):
            overlaps(nothing)
    with pytest.raises(InputError, match="different shapes"):
        overlaps({"a": mask, "b": [Mask(np.ones((2, 2)), np.ones(2))]})
    one = overlaps({"a": mask, "b": mask}).set_index(["one", "other"]).loc[("a", "b")]
    assert one["std"].isna().all()
    assert (one["p"] == one["p_whole"]).all()


def test_random_masks_are_scored_as_the_real_ones_are() -> None:
    """The null's own formulas, from votes, against statsmodels on every drawn mask."""
    rng = np.random.default_rng(3)
    kept = rng.random((4, 30)) < np.array([0.3, 0.5, 0.6, 0.6])[:, None]
    drawn = list(shuffled(kept, np.zeros(30, int), 20, rng))
    votes = np.stack([d.sum(0) for d in drawn])
    np.testing.assert_allclose(fleiss_of(votes, kept), [fleiss(d) for d in drawn])
    np.testing.assert_allclose(q_of(votes, kept), [equal_sizes(d)[0] for d in drawn])
