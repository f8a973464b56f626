"""bench/evidence.py and bench/lottery.py decide claims by the rules of docs/evidence.md, and bench/skills.py says how skills
come: tables made by hand, for which the answers are known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODEL = {"task": "t", "tuning": 0, "way": "l0"}


def loaded(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses, and the other scripts, look their module up
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def claims() -> ModuleType:
    loaded("pictures")
    return loaded("claims")


@pytest.fixture(scope="module")
def evidence(claims: ModuleType) -> ModuleType:
    return loaded("evidence")


@pytest.fixture(scope="module")
def lottery(claims: ModuleType) -> ModuleType:
    return loaded("lottery")


@pytest.fixture(scope="module")
def skills(claims: ModuleType) -> ModuleType:
    return loaded("skills")


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
         "share_of_core": shared / 9, "p_core": 0.001, "expected_core_layers": 3.0, "p_core_layers": 0.004}
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


def test_a_difference_on_a_case_may_be_none_of_skill(evidence: ModuleType) -> None:
    """The one is better in the first row, the other in the second: how much better at the skill is turned with it."""
    facts = {**MODEL, "target": 0.7, "domain": "challenge", "metric": "accuracy", "gold": "non-entailment", "mean": 0.5}
    spread = [{**facts, "target": t, "case": case, "skill": "of it"} for t in (0.5, 0.7) for case in ("swap", "if")]
    pairs = [pair("a", "b", "cases", 0.3, True), pair("a", "c", "cases", -0.3, True), pair("b", "c", "cases", 0.1, False)]
    skills = {("a", "b"): (0.10, 0.05, 0.15), ("a", "c"): (0.10, 0.05, 0.15), ("b", "c"): (0.0, -0.01, 0.01)}
    tests = [
        {**MODEL, "target": 0.7, "case": "of it", "one": one, "other": other, "difference": d, "low": low, "high": high}
        for (one, other), (d, low, high) in skills.items()
    ]
    found = evidence.readiness([subject(evidence, spread=spread, differences=pairs, skill_differences=tests)])
    row = found.set_index("removed").loc["70 %"]
    assert row[["comparisons", "alike", "no better", "unsure", "better"]].tolist() == [3, 0, 1, 0, 1]
    assert found.set_index("removed").loc["50 %", "comparisons"] == 0


TICKET = {"task": "t", "epochs": 0, "std": 0.01, "beside": 0.5, "encoder_share": 0.8, "in_good": 0.6}
SCORED = {"task": "t", "epochs": 0, "domain": "in-domain", "way": "importance", "state": "retrained"}


def of_tickets(lottery: ModuleType, rows: list[dict[str, Any]], **tables: list[dict[str, Any]]) -> Any:
    """The full model has 0.5, the majority class 0.1."""
    ends = [{"way": "full", "ticket": "full", "state": "", "mean": 0.5}, {"way": "majority", "ticket": "", "mean": 0.1}]
    tickets = [{**TICKET, **row} for row in [*ends, *rows]]
    return lottery.Subject("t", {"tickets": pd.DataFrame(tickets), **{n: pd.DataFrame(r) for n, r in tables.items()}}, "t")


@pytest.mark.parametrize(
    ("importance", "magnitude", "verdict"), [(0.45, 0.46, "yes"), (0.39, 0.46, "undecided"), (0.39, 0.30, "no")]
)
def test_good_tickets_hold_their_score_by_both_ways(
    lottery: ModuleType, importance: float, magnitude: float, verdict: str
) -> None:
    of = {"importance": importance, "magnitude": magnitude}
    rows = [{"way": way, "ticket": "good", "state": "pruned", "mean": mean} for way, mean in of.items()]
    rows += [{**row, "state": "retrained", "mean": 0.5} for row in rows]  # not the question
    assert lottery.held(of_tickets(lottery, rows)).verdict == verdict


@pytest.mark.parametrize(
    ("random", "verdict"),
    [
        ((0.48, 0.49, 0.50), "yes"),  # 0.02, 0.01, 0.00 below, of 0.4: 0.025 +- 0.062
        ((0.20, 0.21, 0.22), "no"),  # 0.30, 0.29, 0.28: 0.725 +- 0.062
        ((0.10, 0.50, 0.45), "undecided"),
    ],
)
def test_random_and_good_are_compared_within_a_fine_tuning(
    lottery: ModuleType, random: tuple[float, ...], verdict: str
) -> None:
    scores = [{**SCORED, "ticket": "good", "tuning": seed, "value": 0.5} for seed in range(3)]
    for seed, value in enumerate(random):  # two draws, whose mean counts
        scores += [{**SCORED, "ticket": "random", "tuning": seed, "value": value + shift} for shift in (-0.3, 0.3)]
    scores += [{**SCORED, "ticket": "random", "tuning": 0, "value": 0.0, "state": "pruned"}]  # not the question
    assert lottery.random_as_good(of_tickets(lottery, [], scores=scores)).verdict == verdict


def test_bad_tickets_of_importance_decide(lottery: ModuleType) -> None:
    """0.38 is 0.7 of the way from 0.1 to 0.5."""
    of = {"importance": 0.38, "magnitude": 0.10}
    rows = [{"way": way, "ticket": "bad", "state": "retrained", "mean": mean} for way, mean in of.items()]
    found = lottery.retrainable(of_tickets(lottery, rows))
    assert (found.number.split(" (")[0], found.verdict) == ("importance 0.38, 0.70", "yes")
    assert "magnitude 0.10, 0.00" in found.number
    alone = lottery.retrainable(of_tickets(lottery, rows[:1]))  # magnitude, which stands beside it, need not be there
    assert (alone.number.split(" (")[0], alone.verdict) == ("importance 0.38, 0.70", "yes")


def test_what_no_ticket_was_asked_for_is_not_decided(lottery: ModuleType) -> None:
    with pytest.raises(KeyError, match="super-survivors, good, retrained"):
        lottery.survivors(of_tickets(lottery, []))


def test_overlaps_are_those_of_two_tasks(lottery: ModuleType) -> None:
    row = {"way": "importance", "kind": "head", "which": "all units", "shared": 60.0, "expected": 50.0}
    rows = [{**row, "one": "t", "other": "t", "p_whole": float("nan")}, {**row, "one": "t", "other": "u", "p_whole": 0.01}]
    assert lottery.shared(of_tickets(lottery, [], overlaps=rows)).verdict == "yes"
    rows[1]["p_whole"] = 0.5
    assert lottery.shared(of_tickets(lottery, [], overlaps=rows)).verdict == "no"


@pytest.mark.parametrize(
    ("script", "reports", "rows"),  # claims x models or tasks, and what these say together
    [
        ("evidence", ["organism", "organism-gte"], 11 * 7),
        ("evidence", ["taught-gte"], 11 * 3),
        ("lottery", ["tickets-gte"], 8 * 3),
    ],
)
def test_the_page_says_what_the_tables_say(
    script: str,
    reports: list[str],
    rows: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """docs/evidence-tables.md holds what the scripts print of the tables in bench/results."""
    module = request.getfixturevalue(script)
    monkeypatch.setattr(sys, "argv", [script, *(str(BENCH / "results" / name) for name in reports)])
    module.decide()
    printed = capsys.readouterr().out
    assert printed.count("\n| HC" if script == "evidence" else "\n| LT") >= rows
    assert printed in (BENCH.parent / "docs" / "evidence-tables.md").read_text(encoding="utf-8")


def test_skills_come_before_answers(skills: ModuleType) -> None:
    """`hard` is told apart at step 40 and answered from step 80 on; of `never` no half is ever right."""
    facts = {"task": "t", "tuning": 0, "way": "full", "domain": "challenge"}
    right = {("hard", "no"): (0.9, 0.1, 0.8, 0.9), ("easy", "yes"): (0.1, 1, 1, 1), ("never", "no"): (0.6, 0, 0.1, 0.4)}
    of = {"hard": "hard / easy", "easy": "hard / easy", "never": "never / easy"}
    auc = {"hard / easy": (0.5, 0.9, 0.97, 1.0), "never / easy": (0.5, 0.6, 0.7, 0.99)}
    scores = pd.DataFrame(
        [
            {
                **facts,
                "checkpoint": 40 * at,
                "metric": "accuracy",
                "case": case,
                "skill": of[case],
                "gold": gold,
                "value": value,
            }
            for (case, gold), values in right.items()
            for at, value in enumerate(values)
        ]
        + [
            {**facts, "checkpoint": 40 * at, "metric": "auc", "case": skill, "skill": skill, "gold": "mixed", "value": value}
            for skill, values in auc.items()
            for at, value in enumerate(values)
        ]
    )
    (row,) = skills.come(scores).to_dict("records")
    assert (row["skill"], row["step before"], row["step then"]) == ("hard / easy", 40, 80)
    assert (row["right before"], row["AUC before"], row["right then"], row["AUC then"]) == (0.1, 0.9, 0.8, 0.97)


@pytest.mark.parametrize(
    ("script", "report", "rows"),  # three models of nine skills; two of five checkpoints and eight subnetworks
    [
        ("skills", "organism", 27),
        ("skills", "organism-gte", 27),
        ("skills", "organism-shares", 27),
        ("taught", "taught-gte", 26),
    ],
)
def test_the_page_says_what_is_told_apart(
    script: str,
    report: str,
    rows: int,
    claims: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [script, str(BENCH / "results" / report)])
    loaded(script).main()
    printed = capsys.readouterr().out
    assert printed.count("\n|") > rows
    assert printed in (BENCH.parent / "docs" / "evidence-tables.md").read_text(encoding="utf-8")
