"""Effective size: by hand, with every flag, and on the released grids where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from corewood.analyse.effective import by_rules, by_set, effective_size
from corewood.errors import InputError

PUBLISHED = Path(os.environ.get("COREWOOD_PUBLISHED", Path(__file__).parents[3] / "shared" / "published"))


def rows(values: dict[str, float], checkpoint: int = 0, target: float = 0.0, seed: int = 0) -> list[dict[str, Any]]:
    """`values` maps "in" to the in-domain accuracy and cases to theirs."""
    who = "full" if target == 0 else f"s{seed}-{target}@{checkpoint}"
    facts = {"checkpoint": checkpoint, "subnetwork": who, "target": target, "seed": seed}
    return [
        {**facts, "dataset": "validation" if case == "in" else "hard", "case": "all" if case == "in" else case,
         "domain": "in-domain" if case == "in" else "challenge", "value": value}
        for case, value in values.items()
    ]  # fmt: skip


def table(grid: dict[tuple[float, int], dict[str, float]], full: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows(full) + [r for (target, seed), v in grid.items() for r in rows(v, 0, target, seed)])


GRID = {
    (0.3, 0): {"in": 0.95, "a": 0.99, "b": 0.60},
    (0.3, 1): {"in": 0.95, "a": 0.91, "b": 0.60},
    (0.6, 0): {"in": 0.94, "a": 0.98, "b": 0.10},
    (0.6, 1): {"in": 0.93, "a": 0.10, "b": 0.10},
}
FULL = {"in": 0.95, "a": 0.97, "b": 0.60}


def sizes(found: pd.DataFrame) -> dict[str, float]:
    return dict(zip(found["set"], found["effective_size"].round(9), strict=True))


def test_both_orders_by_hand() -> None:
    first = sizes(effective_size(table(GRID, FULL)))
    assert first["a"] == 0.7  # means: 0.95 at 30 %, 0.54 at 60 %
    assert first["in domain"] == 0.4
    assert first["challenge"] == 0.7  # full 0.785; (0.95 + 0.60) / 2 = 0.775 at 30 %
    seeds = sizes(effective_size(table(GRID, FULL), order="seeds"))
    assert seeds["a"] == pytest.approx((0.4 + 1.0) / 2)  # the second seed has none
    with pytest.raises(InputError, match="choose 'accuracies'"):
        effective_size(table(GRID, FULL), order="both")  # type: ignore[arg-type]


def test_focus_and_mixed_weights() -> None:
    only_b = effective_size(table(GRID, FULL), focus=["b"]).set_index("set")
    assert only_b.loc["challenge", "full"] == 0.60
    even = effective_size(table(GRID, FULL)).set_index("set").loc["mixed", "full"]
    third = effective_size(table(GRID, FULL), mixed=(1, 2)).set_index("set").loc["mixed", "full"]
    assert even == pytest.approx((0.95 + 0.785) / 2)
    assert third == pytest.approx((0.95 + 2 * 0.785) / 3)


def test_named_lists_of_cases_are_sets_of_their_own() -> None:
    found = effective_size(table(GRID, FULL), focus={"hard": ["b"], "easy": ["a", "in nothing"]}).set_index("set")
    alone = {name: effective_size(table(GRID, FULL), focus=[case]) for name, case in (("hard", "b"), ("easy", "a"))}
    for name, own in alone.items():
        assert found.loc[name, "effective_size"] == own.set_index("set").loc["challenge", "effective_size"]
    assert found.index[found["whole"]].tolist() == ["in domain", "hard", "easy", "mixed"]
    assert found.loc["mixed", "full"] == pytest.approx((0.95 + 0.60) / 2)  # in domain and the first list


def test_two_sides() -> None:
    better = {(0.3, 0): {"in": 0.9, "a": 0.9}, (0.6, 0): {"in": 0.9, "a": 0.99}}
    full = {"in": 0.9, "a": 0.9}
    one = effective_size(table(better, full), one_sided=True).set_index("set")["effective_size"]
    two = effective_size(table(better, full)).set_index("set")["effective_size"]
    assert one["challenge"] == pytest.approx(0.4)
    assert two["challenge"] == pytest.approx(0.7)  # nine points above the full model is not faithful to it


def test_every_flag() -> None:
    grid = {
        (0.2, 0): {"in": 0.5, "dent": 0.5, "dead": 0.0, "top": 0.2},
        (0.4, 0): {"in": 0.9, "dent": 0.9, "dead": 0.0, "top": 0.2},
        (0.6, 0): {"in": 0.9, "dent": 0.3, "dead": 0.0, "top": 0.2},
    }
    data = table(grid, {"in": 0.9, "dent": 0.9, "dead": 0.01, "top": 0.9})
    found = effective_size(data).set_index("set")
    assert found.loc["dent", ["floor", "ceiling", "trivial", "non_monotone"]].tolist() == [0, 0, False, 1]
    assert found.loc["dead", ["floor", "trivial"]].tolist() == [1, True]
    assert found.loc["top", ["ceiling", "effective_size"]].tolist() == [1, 1]
    assert found.loc["in domain", ["floor", "non_monotone"]].tolist() == [1, 1]
    lost = data[~((data["target"] == 0.6) & (data["case"] == "dent"))]
    again = effective_size(pd.concat([lost, pd.DataFrame(rows({"in": 0.9, "dent": 0.2}, 0, 0.6, 1))])).set_index("set")
    assert again.loc["dent", "holes"] == 3  # one run of the first seed, two of the second
    some = by_rules(by_set(data[data["target"] < 0.6], (1, 1), ()), 0.03, [("seeds", False)], ({0, 1}, {0.2, 0.4, 0.6}))
    row = some.set_index("set").loc["in domain"]  # all runs of a size are missing, and all of a seed
    assert row[["holes", "seeds", "floor", "effective_size"]].tolist() == [4, 1, 0, pytest.approx(0.6)]
    assert found["holes"].sum() == 0


def test_two_sets_with_cases_of_one_name_stay_apart() -> None:
    data = []
    for name, full, found in (("x", 0.9, 0.2), ("y", 0.1, 0.12)):
        for target, value in ((0.0, full), (0.5, found)):
            who = "full" if target == 0 else "s0"
            data.append({"checkpoint": 0, "subnetwork": who, "target": target, "seed": 0, "dataset": name, "case": "c",
                         "domain": "challenge", "value": value})  # fmt: skip
    found = effective_size(pd.DataFrame(data)).set_index("set")["effective_size"]
    assert found["x: c"] == 1
    assert found["y: c"] == 0.5


OOD = (
    "lexical_overlap_ln_preposition", "lexical_overlap_ln_subject-object_swap",
    "constituent_cn_embedded_under_if", "constituent_cn_embedded_under_verb",
)  # fmt: skip


@pytest.mark.skipif(
    not (PUBLISHED / "mnli-sparsity-grid-acc.json").exists(),
    reason="the released grids are not here; un-skip by setting COREWOOD_PUBLISHED to their folder",
)
def test_the_released_grids_by_the_released_rule() -> None:
    grid = json.loads((PUBLISHED / "mnli-sparsity-grid-acc.json").read_text())
    full = json.loads((PUBLISHED / "mnli-acc_over_ft.json").read_text())
    data = []

    def add(values: dict[str, float], checkpoint: str, target: float, seed: int) -> None:
        for r in rows({c: v for c, v in values.items() if v >= 0}, int(checkpoint), target, seed):  # -1 is a missing run
            inside = r["case"].startswith("validation")
            place = {"dataset": r["case"], "case": "all", "domain": "in-domain"} if inside else {}
            data.append({**r, **place})

    for step, values in full.items():
        add(values, step, 0.0, 0)
    for seed, steps in grid.items():
        for step, targets in steps.items():
            for percent, values in targets.items():
                if percent != "5":  # a 50 % run under a wrong name
                    add(values, step, int(percent) / 100, int(seed))
    found = effective_size(pd.DataFrame(data), order="seeds", one_sided=True, focus=OOD)
    by = {name: part.sort_values("checkpoint") for name, part in found.groupby("set")}
    assert [round(100 * v) for v in by["challenge"]["effective_size"]] == [30, 30, 97, 93, 93, 83, 93, 73, 78, 77]
    inside = 100 * by["in domain"]["effective_size"]
    assert (round(inside.min()), round(inside.max())) == (45, 52)
    assert by["challenge"]["trivial"].tolist()[:2] == [True, True]  # 30 % there is the grid's floor, and says nothing
    assert by["challenge"]["floor"].tolist()[:2] == [1, 1]
    assert int(by["in domain"]["holes"].sum()) == 6
