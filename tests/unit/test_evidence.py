"""bench/evidence.py decides claims by the rules of docs/evidence.md: tables made by hand, whose verdicts are known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

BENCH = Path(__file__).parents[2] / "bench" / "evidence.py"
MODEL = {"task": "t", "tuning": 0, "way": "l0"}


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    found = importlib.util.spec_from_file_location("evidence", BENCH)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["evidence"] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


def subject(evidence: ModuleType, **tables: list[dict[str, Any]]) -> Any:
    """Two hard cases, a counterpart, and the tables of a claim."""
    cases = [("swap", "non-entailment"), ("if", "non-entailment"), ("because", "entailment")]
    facts = {**MODEL, "domain": "challenge", "metric": "accuracy"}
    spread = [{**facts, "target": t, "case": c, "gold": g, "mean": 1 - t} for t in (0.5, 0.7) for c, g in cases]
    tables = {"spread": spread, **tables}
    return evidence.Subject("m", {name: pd.DataFrame(rows) for name, rows in tables.items()}, "t", 0)


def grown(*values: float) -> list[dict[str, Any]]:
    """A full model's hard cases over checkpoints 0, 40, 80, ..."""
    return [
        {"task": "t", "tuning": 0, "checkpoint": 40 * i, "case": case, "value": value, "low": value - 0.1}
        for i, value in enumerate(values)
        for case in ("swap", "if")
    ]


def pair(one: str, other: str, dataset: str, difference: float, real: bool) -> dict[str, Any]:
    case = "all" if dataset == "validation" else "swap"
    facts = {"dataset": dataset, "case": case, "difference": difference, "real": real, "p": 1e-9 if real else 1.0}
    return {**MODEL, "target": 0.7, "one": one, "other": other, **facts}


def test_spread_counts_comparable_pairs_that_are_equal_in_domain(evidence: ModuleType) -> None:
    fates = {"a": True, "b": True, "c": True, "d": False}  # d has not converged
    sizes = [{**MODEL, "question": "prune", "target": 0.7, "subnetwork": n, "comparable": c} for n, c in fates.items()]
    differences = [
        pair("a", "b", "validation", 0.01, False), pair("a", "b", "cases", 0.30, True),
        pair("a", "c", "validation", 0.01, True), pair("a", "c", "cases", 0.50, True),  # not equal: more than chance
        pair("b", "c", "validation", 0.04, False), pair("b", "c", "cases", 0.50, True),  # not equal: four points
        pair("a", "d", "validation", 0.00, False), pair("a", "d", "cases", 0.60, True),
    ]  # fmt: skip
    found = evidence.spread(subject(evidence, sizes=sizes, differences=differences))
    assert (found.number, found.verdict) == ("1 of 1 pairs; widest gap 30.0 points (swap)", "yes")
    found = evidence.spread(subject(evidence, sizes=sizes, differences=differences[2:]))
    assert found.verdict == "no"


def test_early_is_the_last_checkpoint_before_the_model_generalises(evidence: ModuleType) -> None:
    """Step 0 answers by chance and does not count: 0.9 there is no generalisation."""
    over = [
        {**MODEL, "checkpoint": step, "target": 0.7, "shared_core": shared, "heads_core": 9, "expected_core": 2.0,
         "share_of_core": shared / 9, "p_core": 0.001}
        for step, shared in ((0, 0), (40, 1), (80, 7), (120, 2), (160, 9))
    ]  # fmt: skip
    found = evidence.early(subject(evidence, dynamics=grown(0.9, 0.1, 0.3, 0.7, 0.9), core_over_training=over))
    assert found.number.startswith("step 80 (generalises at 120): 7 of 9")
    assert found.verdict == "yes"
    assert evidence.early(subject(evidence, dynamics=grown(0.9, 0.1, 0.6, 0.7, 0.9), core_over_training=over)).verdict == "no"


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [((0.2, 0.3, 0.5, 0.6), "yes"), ((0.6, 0.5, 0.3, 0.2), "no"), ((0.4, 0.5, 0.5, 0.5), "undecided")],
)
def test_effective_size_needs_an_order_and_a_growth(evidence: ModuleType, sizes: tuple[float, ...], verdict: str) -> None:
    facts = {**MODEL, "set": "hard", "order": "accuracies", "one_sided": False, "floor": 0.0, "ceiling": 0.0}
    rows = [
        {**facts, "checkpoint": 40 * i, "full": 0.2 * i, "effective_size": s, "trivial": False} for i, s in enumerate(sizes, 1)
    ]
    rows.append({**facts, "checkpoint": 999, "full": 0.01, "effective_size": 1.0, "trivial": True})  # decides nothing
    rows.append({**facts, "one_sided": True, "checkpoint": 40, "full": 0.9, "effective_size": 0.1, "trivial": False})
    assert evidence.size(subject(evidence, effective_size=rows)).verdict == verdict


def test_a_claim_without_its_rows_is_not_decided(evidence: ModuleType) -> None:
    row = {**MODEL, "checkpoint": 3, "case": "hard", "metric": "accuracy", "domain": "challenge", "set": "", "size": 1}
    rows = [{**row, "units": "L0.H0", "interaction_low": float("nan"), "interaction_high": float("nan")}]
    with pytest.raises(KeyError, match="sets"):
        evidence.together(subject(evidence, ablation=rows))


def test_sparser_is_about_hard_cases_that_the_model_handles(evidence: ModuleType) -> None:
    dynamics = grown(0.1, 0.9)
    dynamics[-1]["low"] = 0.4  # "if" at the last checkpoint
    skills = [{**MODEL, "target": t, "case": "all", "metric": "auc", "mean": 0.9} for t in (0.5, 0.7)]
    model = subject(evidence, dynamics=dynamics, skills=skills)
    assert model.handled() == ["swap"]
    found = evidence.sparser(model)  # both fall by 20 points, so counterparts fall as much
    assert found.number.startswith("1 hard cases fall by 20.0 points, counterparts by 20.0")
    assert found.verdict == "undecided"
