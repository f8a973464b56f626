"""Cores, frequencies and agreement against second sources."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom, spearmanr
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from corewood.analyse.core import core, expected_all, frequencies, rank_correlations
from corewood.analyse.generalisation import dynamics, full_model, spread, widest_pair
from corewood.analyse.stability import agreement
from corewood.errors import InputError
from corewood.model.mask import Mask
from corewood.report import spread as said
from corewood.study.questions.core import core_table


def random_masks(count: int, keep: float, seed: int, layers: int = 12, heads: int = 12) -> list[Mask]:
    rng = np.random.default_rng(seed)
    masks = []
    for _ in range(count):
        flat = np.zeros(layers * heads, bool)
        flat[rng.choice(flat.size, round(keep * flat.size), replace=False)] = True
        masks.append(Mask(flat.reshape(layers, heads), np.ones(layers, bool)))
    return masks


def test_expected_core_is_the_papers_formula() -> None:
    masks = random_masks(12, 0.25, 0)  # 36 of 144 heads, exactly
    assert core(masks, draws=50).expected == pytest.approx(144 * 0.25**12)


def test_expected_core_of_two_masks_is_the_hypergeometric_mean() -> None:
    a, b = random_masks(1, 0.3, 1)[0], random_masks(1, 0.6, 2)[0]
    n, k, m = 144, int(a.heads.sum()), int(b.heads.sum())
    found = core([a, b], draws=4000)
    assert found.expected == pytest.approx(hypergeom(n, k, m).mean())
    observed = int((a.heads & b.heads).sum())
    assert found.p == pytest.approx(hypergeom(n, k, m).sf(observed - 1), abs=0.03)


def test_layer_stratified_expectation_by_enumeration() -> None:
    heads = np.array([[[1, 1, 0], [1, 0, 0]], [[1, 0, 0], [1, 1, 1]]], bool)  # (mask, layer, head)
    total = 0.0
    for layer in range(2):
        choices = [list(combinations(range(3), int(heads[m, layer].sum()))) for m in range(2)]
        sizes = [len(set(one) & set(two)) for one in choices[0] for two in choices[1]]
        total += sum(sizes) / len(sizes)
    assert expected_all(heads) == pytest.approx(total)


def test_a_planted_core_is_found_and_is_no_accident() -> None:
    masks = random_masks(6, 0.3, 5)
    planted = np.zeros((12, 12), bool)
    planted[2, 5] = planted[7, 1] = planted[4, 0] = True
    found = core([Mask(m.heads | planted, m.mlps) for m in masks])
    assert set(found.heads) >= {"L2.H5", "L7.H1", "L4.H0"}
    assert found.p < 0.01
    assert found.p_layers < 0.01
    assert len(found.mlps) == 12


def test_chance_of_nested_masks_is_that_of_the_sparsest() -> None:
    """Masks of one seed hold each other: to shuffle them one by one would call any core a surprise."""
    rng = np.random.default_rng(0)
    rows, masks = [], {}
    for seed in range(4):
        order = rng.permutation(72)
        for target, keep in ((0.5, 36), (0.7, 22)):
            name = f"{target} {seed}"
            rows.append(SimpleNamespace(name=name, target=target, nested=True))
            masks[name] = Mask((order < keep).reshape(6, 12), np.ones(6, bool))
    by: dict[float, list[SimpleNamespace]] = {}
    for row in rows:
        by.setdefault(row.target, []).append(row)
    results: Any = SimpleNamespace(way="l0", found=rows, masks=masks, by_target=lambda: by)
    table = core_table(results)
    assert table is not None
    last = table.iloc[-1]
    assert (last["definition"], last["masks"]) == ("all", 8)
    assert last["expected"] == pytest.approx(72 * (22 / 72) ** 4)
    assert last["heads"] == len(core([masks[r.name] for r in by[0.7]]).heads)


def test_share_loosens_the_definition() -> None:
    masks = random_masks(10, 0.5, 7)
    counts = sum(m.heads.astype(int) for m in masks)
    for share in (0.5, 0.8, 1.0):
        assert (core(masks, share, draws=20).mask.heads == (counts >= share * 10)).all()
    with pytest.raises(InputError, match="at least one mask"):
        core([])


def masks_table(masks: dict[float, list[Mask]]) -> pd.DataFrame:
    return pd.concat([m.table().assign(target=target, seed=i) for target, group in masks.items() for i, m in enumerate(group)])


def test_frequencies_and_rho_equal_a_count_and_scipy() -> None:
    groups = {0.5: random_masks(6, 0.5, 1), 0.7: random_masks(6, 0.3, 2)}
    table = frequencies(masks_table(groups))
    one, other = (sum(m.heads.astype(int) for m in groups[t]) for t in (0.5, 0.7))
    heads = table[(table["kind"] == "head") & (table["target"] == 0.5)]
    assert (heads["count"].to_numpy().reshape(12, 12) == one).all()
    rho = rank_correlations(table).iloc[0]
    expected = spearmanr(one.ravel(), other.ravel())
    assert rho["rho"] == pytest.approx(expected.statistic)
    assert rho["p"] == pytest.approx(expected.pvalue)


def test_agreement_equals_statsmodels() -> None:
    masks = random_masks(4, 0.4, 3)
    table = agreement(masks)
    flat = [m.heads.ravel().astype(int) for m in masks]
    for _, row in table.iterrows():
        a, b = flat[int(row["one"])], flat[int(row["other"])]
        square = np.array([[((a == i) & (b == j)).sum() for j in (0, 1)] for i in (0, 1)])
        assert row["kappa"] == pytest.approx(cohens_kappa(square).kappa)
        assert row["jaccard"] == pytest.approx((a & b).sum() / (a | b).sum())
    counts = np.stack([len(masks) - sum(flat), sum(flat)], 1)
    assert table["fleiss"].iloc[0] == pytest.approx(fleiss_kappa(counts))


def accuracy_rows(values: dict[tuple[float, int], dict[str, float]], full: dict[str, float]) -> pd.DataFrame:
    rows = []
    for (target, seed), cases in {(0.0, 0): full, **values}.items():
        for case, value in cases.items():
            rows.append(
                {
                    "checkpoint": 10,
                    "subnetwork": "full" if target == 0 else f"l0-{100 * target:g}-s{seed}",
                    "target": target,
                    "seed": seed,
                    "dataset": "validation" if case == "in" else "cases",
                    "case": "all" if case == "in" else case,
                    "domain": "in-domain" if case == "in" else "challenge",
                    "group": "",
                    "gold": "x",
                    "n": 100,
                    "correct": round(100 * value),
                    "value": value,
                    "low": value,
                    "high": value,
                }
            )
    return pd.DataFrame(rows)


def test_spread_compares_only_subnetworks_that_are_equal_in_domain() -> None:
    table = accuracy_rows(
        {
            (0.7, 0): {"in": 0.98, "hard": 0.9},
            (0.7, 1): {"in": 0.97, "hard": 0.4},
            (0.7, 2): {"in": 0.60, "hard": 0.0},  # the widest range of all, but bad in domain too
        },
        {"in": 0.99, "hard": 1.0},
    )
    row = spread(table).set_index("case").loc["hard"]
    assert row["range"] == pytest.approx(0.9)
    assert row["range_same"] == pytest.approx(0.5)
    assert (row["lowest"], row["highest"]) == ("l0-70-s1", "l0-70-s0")
    assert row["std"] == pytest.approx(np.std([0.9, 0.4, 0.0], ddof=1))
    assert row["full"] == 1.0


def test_one_subnetwork_alone_has_no_range_and_the_report_does_not_claim_one() -> None:
    values = pd.Series({"a": 0.5})
    assert np.isnan(widest_pair(values, values)[0])
    table = spread(accuracy_rows({(0.7, 0): {"in": 0.98, "hard": 0.9}}, {"in": 0.99, "hard": 1.0}))
    table = table.assign(task="t", tuning=0, way="l0")
    scores = pd.DataFrame(columns=["task", "tuning", "way", "checkpoint", "question", "subnetwork"])
    assert "One subnetwork of m at each sparsity" in str(said.headline({"spread": table, "scores": scores}, "m"))
    several = pd.concat([table.assign(tuning=seed) for seed in range(5)])
    found = str(said.headline({"spread": several, "scores": scores}, "m"))
    assert found.startswith("One subnetwork of each of 5 fine-tunings of m")


def test_the_full_model_is_the_one_that_was_pruned() -> None:
    early = accuracy_rows({}, {"in": 0.5, "hard": 0.1}).assign(checkpoint=5)
    late = accuracy_rows({(0.7, 0): {"in": 0.98, "hard": 0.9}}, {"in": 0.99, "hard": 1.0})
    assert set(full_model(pd.concat([early, late]))["value"]) == {0.99, 1.0}
    holes = pd.concat([early, late[late["subnetwork"] != "full"]])  # its own evaluation failed
    assert full_model(holes).empty


def test_dynamics_are_the_full_model_alone() -> None:
    table = pd.concat(
        [accuracy_rows({}, {"in": v, "hard": v / 2}).assign(checkpoint=s) for s, v in ((0, 0.5), (10, 1.0))]
        + [accuracy_rows({(0.5, 0): {"in": 0.1, "hard": 0.1}}, {})]
    )
    found = dynamics(table)
    assert found[found["case"] == "hard"]["value"].tolist() == [0.25, 0.5]
