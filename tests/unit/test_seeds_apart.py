"""What must stay apart in tables and sentences: nested masks, searches and fine-tunings, modes, cases lost and open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corewood.model.mask import Mask
from corewood.report.survivors import of_seeds
from corewood.report.verdicts import first_mode, models_points, what_is_lost
from corewood.study.questions.core import across_tunings, core_table


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
        "“t”, 70 % removed by l0: of the cases that the full models handle, all 4 subnetworks lose “a”; some lose “b” (2 of 4)."
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
