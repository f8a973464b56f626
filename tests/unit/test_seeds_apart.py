"""What must stay apart in tables and sentences: nested masks, searches and fine-tunings, modes, cases lost and open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corewood.analyse.generalisation import dynamics
from corewood.model.mask import Mask
from corewood.report.survivors import of_seeds
from corewood.report.verdicts import first_mode, models_points, what_is_lost
from corewood.study.compare import subnetwork_means
from corewood.study.questions.core import across_tunings, agreement_table, core_table
from corewood.study.questions.survivors import comparisons
from corewood.study.results import Found, of_core


def paths(tuning: int, seeds: int) -> Any:
    """A model's subnetworks along paths: random, each holding the sparser ones of its seed."""
    rng, rows, masks = np.random.default_rng(tuning), [], {}
    for seed in range(seeds):
        order = rng.permutation(20)
        for target, kept in ((0.2, 16), (0.4, 12), (0.6, 8)):
            name = f"{target}-{seed}"
            masks[name] = Mask((order < kept).reshape(4, 5), np.ones(4, bool))
            rows.append(SimpleNamespace(name=name, target=target, seed=seed, nested=True))
    by = {t: [r for r in rows if r.target == t] for t in (0.2, 0.4, 0.6)}
    model = SimpleNamespace(tuning=tuning, task=SimpleNamespace(name="t"))
    return SimpleNamespace(model=model, way="l0", found=rows, masks=masks, by_target=lambda: by)


def test_the_core_of_a_path_has_the_same_chance_beside_other_fine_tunings_as_alone() -> None:
    groups = [paths(0, 2), paths(1, 2)]
    table = across_tunings(SimpleNamespace(groups=groups))  # type: ignore[arg-type]
    assert table is not None
    for group in groups:
        alone = core_table(group).set_index("definition").loc["all"]
        row = table[(table["tuning"] == group.model.tuning)].iloc[0]
        assert (row["masks"], row["heads"], row["members"]) == (6, alone["heads"], alone["members"])
        assert row["expected"] == alone["expected"] == pytest.approx(20 * (8 / 20) ** 2)  # of the two sparsest
        assert row["p"] == alone["p"]
    assert table.set_index("definition").loc["all of all fine-tunings", "masks"] == 12


def agreeing(tuning: int, way: str = "l0") -> Any:
    """Six searches of a model that ended at one random mask of 24 of 72 heads."""
    mask = Mask((np.random.default_rng(tuning).permutation(72) < 24).reshape(6, 12), np.ones(6, bool))
    rows = [SimpleNamespace(name=str(seed), target=0.7, seed=seed, nested=False) for seed in range(6)]
    model = SimpleNamespace(tuning=tuning, task=SimpleNamespace(name="t"))
    masks = {row.name: mask for row in rows}
    return SimpleNamespace(model=model, way=way, found=rows, masks=masks, by_target=lambda: {0.7: rows})


def test_what_independent_models_share_is_no_more_than_chance_though_their_own_searches_agree() -> None:
    real = 0
    for first in range(0, 60, 3):
        table = across_tunings(SimpleNamespace(groups=[agreeing(first + k) for k in range(3)]))  # type: ignore[arg-type]
        assert table is not None
        row = table.set_index("definition").loc["all of all fine-tunings"]
        assert row["expected"] == pytest.approx(72 * (24 / 72) ** 3)  # of three models, not of eighteen masks
        real += row["p"] < 0.05
    assert real <= 4  # of twenty; shuffling eighteen masks one by one calls nearly all of them real


def test_units_that_searches_were_told_to_hold_are_no_agreement_and_given_masks_none_between_models() -> None:
    held = agreeing(0, "l0 with")
    assert core_table(held)[["p", "p_layers", "expected"]].isna().all(axis=None)
    assert agreement_table(held) is None
    assert across_tunings(SimpleNamespace(groups=[agreeing(0, "given"), agreeing(0, "given")])) is None  # type: ignore[arg-type]
    masks = {(tuning, seed): held.masks["0"] for tuning in (0, 1) for seed in (0, 1)}
    raters = {Found("t", way, "both", 0.7): masks for way in ("l0", "l0 with", "given")}
    seen = {(facts["way"], facts["over"]) for facts, *_ in comparisons(SimpleNamespace(raters=raters))}  # type: ignore[arg-type]
    assert seen == {("l0", "searches"), ("l0", "fine-tunings"), ("given", "searches")}


def test_masks_of_one_path_are_not_several_when_a_core_is_asked_for() -> None:
    def row(tuning: int, target: float, nested: bool) -> Any:
        facts = {"model": ("t", tuning), "task": "t", "question": "prune", "way": "l0", "prune": "both", "of_weights": False}
        return SimpleNamespace(**facts, target=target, nested=nested)

    one_path = [row(tuning, target, True) for tuning in (0, 1) for target in (0.4, 0.6)]
    assert of_core(one_path, ("t", 0)) == one_path  # of both fine-tunings
    two_sizes = [row(tuning, target, False) for tuning in (0, 1) for target in (0.4, 0.6)]
    assert of_core(two_sizes, ("t", 0)) == two_sizes[:2]


def test_modes_of_a_way_are_compared_each_with_its_own() -> None:
    index = pd.MultiIndex.from_tuples([("importance", "both", 0.4), ("importance", "heads", 0.4)])
    found = subnetwork_means(pd.Series([0.61, 0.93], index), pd.Series([0.62, 0.94], index))
    assert found == {
        "one at 40 % (both)": 0.61, "other at 40 % (both)": 0.62, "one at 40 % (heads)": 0.93, "other at 40 % (heads)": 0.94,
    }  # fmt: skip
    alone = subnetwork_means(pd.Series([0.61], index[:1]), pd.Series([0.62], index[:1]))
    assert list(alone) == ["one at 40 %", "other at 40 %"]


def test_a_list_of_cases_is_of_one_set() -> None:
    facts = {"subnetwork": "full", "checkpoint": 6, "group": "", "gold": "mixed", "domain": "challenge", "metric": "accuracy"}
    sets = {"first": (4, 0.75), "second": (2, 0.5)}
    rows = [{**facts, "dataset": d, "case": c, "n": n, "correct": n * v, "value": v, "low": v - 0.2, "high": v + 0.2}
            for d, (n, v) in sets.items() for c in ("if", "or")]  # fmt: skip
    for order in (rows, rows[::-1]):
        found = dynamics(pd.DataFrame(order), {"hard": ["if", "or"]})
        lists = found[found["case"] == "hard"].set_index("dataset")
        assert lists["value"].to_dict() == {"first": 0.75, "second": 0.5}
        assert lists["n"].to_dict() == {"first": 8, "second": 4}


def test_fine_tunings_are_not_counted_with_the_searches_in_each() -> None:
    rows = pd.DataFrame({"over": ["searches", "searches", "fine-tunings"], "tuning": [0, 1, -1], "fleiss": [0.1, 0.2, 0.3]})
    assert of_seeds(rows)["fleiss"].tolist() == [0.3]
    assert len(of_seeds(rows[:2])) == 2


def test_the_first_of_several_modes_of_a_way() -> None:
    facts = {"task": "t", "tuning": 0}
    modes = [("importance", "both"), ("importance", "heads"), ("l0", "both"), ("importance", "both")]
    rows = pd.DataFrame([{**facts, "way": way, "prune": prune} for way, prune in modes])
    assert first_mode(rows).index.tolist() == [0, 2, 3]


def test_what_several_models_lose() -> None:
    verdicts = {"a": "lost lost lost lost", "b": "lost kept open lost", "c": "kept kept open kept"}
    who = [(0, "s0"), (0, "s1"), (1, "s0"), (1, "s1")]
    rows = [
        {"task": "t", "tuning": tuning, "way": "l0", "prune": "both", "target": 0.7, "subnetwork": one, "dataset": "hard",
         "domain": "challenge", "case": case, "verdict": verdict}
        for case, said in verdicts.items()
        for (tuning, one), verdict in zip(who, said.split(), strict=True)
    ]  # fmt: skip
    (said,) = models_points.make({"verdicts": pd.DataFrame(rows), "sizes": pd.DataFrame()})
    assert said == (
        "“t”, 70 % removed by L0: of the cases that the full models handle, all 4 subnetworks lose “a”; some lose “b” (2 of 4)."
    )
    (said,) = models_points.make({"verdicts": pd.DataFrame(rows[-4:]), "sizes": pd.DataFrame()})
    assert said.endswith("none of 4 subnetworks is shown to lose one.")


def test_numbers_of_open_cases_are_those_of_the_cases_named() -> None:
    """A case that some lose is not among those that cannot be told, and neither are its examples."""
    rows = [("a", "open", 100, 200.0), ("a", "kept", 100, np.nan), ("b", "open", 1000, 9000.0), ("b", "lost", 1000, np.nan)]
    cases = pd.DataFrame(rows, columns=["case", "verdict", "n", "needed"]).assign(dataset="hard")
    said = what_is_lost(cases, 2)
    assert "lost by some: “b” (1 of 2)" in said
    assert said.endswith("cannot be told with 100 examples: “a” (some 200 examples a case would tell)")
