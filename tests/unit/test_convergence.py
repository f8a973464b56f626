"""Which searches are compared, and what a report says when they did not all end equally well."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from corewood.analyse.generalisation import comparable, convergence, spread
from corewood.report.page import finding
from corewood.report.searches import failed
from corewood.report.words import Finding

NAMES = [f"l0-70-s{i}" for i in range(4)]
TARGETS = pd.Series(0.7, NAMES)
ENDED = pd.Series(False, NAMES)


def accuracy(cases: list[list[float]]) -> pd.DataFrame:
    """Four subnetworks that are equal in domain, and the full model; `cases` are (subnetwork, case)."""
    rows = []
    for name, values in [("full", [0.9, 0.9]), *zip(NAMES, cases, strict=True)]:
        facts: dict[str, object] = {
            "task": "t",
            "tuning": 0,
            "way": "full" if name == "full" else "l0",
            "state": "pruned",
            "subnetwork": name,
            "question": "full" if name == "full" else "prune",
            "checkpoint": 5,
            "gold": "x",
            "group": "",
        }
        facts |= {"target": 0.0 if name == "full" else 0.7, "n": 50}
        rows.append({**facts, "dataset": "validation", "case": "all", "domain": "in-domain", "value": 0.95})
        rows.append({**facts, "dataset": "hard", "case": "all", "domain": "challenge", "value": float(np.mean(values))})
        for case, value in zip(("if", "swap"), values, strict=True):
            rows.append({**facts, "dataset": "hard", "case": case, "domain": "challenge", "value": value})
    return pd.DataFrame(rows)


def found_in(table: pd.DataFrame, held: pd.Series, ended: pd.Series) -> Finding:
    """What the page of one model says."""
    whose = {"task": "t", "tuning": 0, "way": "l0"}
    fine = comparable(held, TARGETS)
    tables = {"spread": spread(table, fine), "convergence": convergence(table, held, TARGETS, ended)}
    sizes = {"question": "prune", "target": 0.7, "checkpoint": 5, "subnetwork": NAMES, "comparable": fine.to_numpy()}
    tables |= {"differences": differences(table), "sizes": pd.DataFrame(sizes)}
    tables = {name: made.assign(**whose) for name, made in tables.items()}
    return finding({**tables, "scores": table, "holes": pd.DataFrame()}, "m")


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """As if every difference were more than chance."""
    wide = table.pivot(index=["dataset", "case"], columns="subnetwork", values="value")
    rows = []
    for (dataset, case), values in wide.iterrows():
        for one, other in combinations(NAMES, 2):
            gap = values[one] - values[other]
            rows.append({"target": 0.7, "dataset": dataset, "case": case, "one": one, "other": other, "difference": gap})
    made = pd.DataFrame(rows)
    return made.assign(real=made["difference"] != 0, p=np.where(made["difference"] != 0, 1e-9, 1.0))


def test_a_search_is_comparable_within_a_factor_or_within_the_noise_of_the_best_of_its_size() -> None:
    held = pd.Series({"a": 0.10, "b": 0.15, "c": 0.151, "d": 0.001, "e": 0.006, "f": 0.0061})
    targets = pd.Series({"a": 0.7, "b": 0.7, "c": 0.7, "d": 0.5, "e": 0.5, "f": 0.5})
    assert comparable(held, targets).to_dict() == {"a": True, "b": True, "c": False, "d": True, "e": True, "f": False}


CASES = [[0.80, 0.50], [0.78, 0.40], [0.60, 0.45], [0.10, 0.44]]
HELD = pd.Series([0.02, 0.025, 0.06, 0.2], NAMES)
ALIKE = pd.Series([0.20, 0.25, 0.21, 0.22], NAMES)
CUT = "Not all searches have converged (at 70 % removed): more search may change what follows."
UNEVEN = (
    "Searches did not end equally well (at 70 % removed): seeds are compared with each other only among those within 1.5 "
    "times the lowest KL."
)


def test_equal_in_domain_is_about_accuracy_whatever_the_metric() -> None:
    """Matthews' correlation of two subnetworks may be far apart where their accuracy is not."""
    table = accuracy([[0.9, 0.9], [0.5, 0.9], [0.7, 0.8], [0.8, 0.8]]).assign(correct=lambda made: made["n"] * made["value"])
    inside = table["domain"] == "in-domain"
    apart = table.copy()
    apart.loc[inside, "value"] = [0.9, 0.1, 0.3, 0.5, 0.7]
    cases = [spread(one).query("case == 'if'")["range_same"].iloc[0] for one in (table, apart)]
    assert cases == pytest.approx([0.4, 0.4])
    assert spread(apart.drop(columns="correct")).query("case == 'if'")["range_same"].isna().all()


def test_the_spread_that_goes_with_kl() -> None:
    row = convergence(accuracy(CASES), HELD, TARGETS, ENDED).iloc[0]
    assert (row["searches"], row["comparable"]) == (4, 2)
    assert row["ratio"] == pytest.approx(10)
    assert row["rho"] == pytest.approx(spearmanr(HELD, np.mean(CASES, 1))[0]) == pytest.approx(-1)
    assert row["gap"] == pytest.approx(0.70)
    assert row["gap_comparable"] == row["gap_best_half"] == pytest.approx(0.10)


def test_the_headline_quotes_no_gap_of_a_search_that_is_unfinished() -> None:
    table = accuracy(CASES)
    said = found_in(table, HELD, ENDED)
    assert said.headline.startswith("Not all searches have converged (at 70 % removed)")
    assert "that are equal in domain, l0-70-s0 (95.0 %) and l0-70-s1 (95.0 %), differ by 10 points" in said.headline
    assert "2 of 4 searches ended within 1.5 times the lowest KL" in said.points[0]
    assert "The others ended further from the full model, and are not compared with other seeds." in said.points[0]
    assert "None ended by itself" in said.points[0]


def test_where_all_have_converged_nothing_is_warned_of() -> None:
    table, held = accuracy(CASES), pd.Series([0.02, 0.025, 0.021, 0.022], NAMES)
    said = found_in(table, held, ~ENDED)
    assert said.headline.startswith("Two subnetworks of m that are equal in domain, l0-70-s0 (95.0 %) and l0-70-s3 (95.0 %)")
    assert "“if”: 80 and 10 % right" in said.headline
    assert "4 of 4 searches" in said.sure[-1]
    assert "not compared" not in said.sure[-1]
    assert "ended by itself" not in said.sure[-1]


def test_a_search_that_gives_one_answer_to_everything_has_failed() -> None:
    about = {"task": "t", "way": "l0", "question": "prune", "checkpoint": 9}
    shares = {
        (0, "full"): 0.6,
        (0, "a"): 1.0,
        (0, "b"): 0.7,
        (1, "full"): 1.0,
        (1, "a"): 1.0,
    }  # the second model learnt nothing,
    rows = [{**about, "tuning": tuning, "subnetwork": name, "answer_share": share} for (tuning, name), share in shares.items()]
    rows.append({**about, "tuning": 1, "subnetwork": "full", "answer_share": 0.5, "checkpoint": 0})  # nor did it know before
    sizes = pd.DataFrame(rows)
    sizes.loc[sizes["subnetwork"] == "full", "way"] = "full"
    assert failed({"sizes": sizes}).startswith(
        "The search a (seed 0) has failed: its subnetwork gives one answer to everything"
    )
    one = sizes[sizes["tuning"] == 0]
    assert failed({"sizes": one}).startswith("The search a has failed")
    both = one.assign(answer_share=one["answer_share"].where(one["way"] == "full", 1.0))
    assert failed({"sizes": both}).startswith("2 searches have failed, a first: their subnetworks give one answer")
    assert failed({"sizes": one[one["subnetwork"] != "a"]}) == ""
    rare = one.assign(
        answer_share=one["answer_share"].replace({0.6: 0.989, 1.0: 0.991})
    )  # of a task with few of the other answer
    assert failed({"sizes": rare}) == ""


def test_searches_that_are_equally_unfinished_are_not_taken_for_done() -> None:
    said = found_in(accuracy(CASES), ALIKE, ENDED)
    assert said.headline.startswith(f"{CUT} Two subnetworks of m")
    assert "None ended by itself: more search may lower it" in said.points[0]
    assert "not compared" not in said.points[0]


def test_searches_that_all_ended_at_different_kl_have_converged_and_are_not_all_compared() -> None:
    said = found_in(accuracy(CASES), HELD, ~ENDED)
    assert said.headline.startswith(f"{UNEVEN} Two subnetworks of m")
    assert "converged" not in said.headline
    assert "The others ended further from the full model, and are not compared with other seeds." in said.points[0]
    assert "ended by" not in said.points[0]


def test_searches_that_were_cut_short_and_differ_are_told_of_twice() -> None:
    assert found_in(accuracy(CASES), HELD, ENDED).headline.startswith(f"{CUT} {UNEVEN} Two subnetworks of m")


@pytest.mark.parametrize(
    ("ended", "says"), [(0, "None ended by itself:"), (1, "Only 1 ended by itself:"), (2, "Only 2 ended by themselves:")]
)
def test_how_many_ended_by_themselves(ended: int, says: str) -> None:
    assert says in found_in(accuracy(CASES), ALIKE, pd.Series(np.arange(4) < ended, NAMES)).points[0]


def test_one_search_that_is_not_compared() -> None:
    held = pd.Series([0.02, 0.025, 0.021, 0.2], NAMES)
    said = found_in(accuracy(CASES), held, ~ENDED).points[0]
    assert "The other ended further from the full model, and is not compared with other seeds." in said


def test_three_searches_in_order_are_no_proof() -> None:
    """Two of their six orders give a rho of 1 or -1."""
    held, names = HELD[:3], NAMES[:3]
    row = convergence(accuracy(CASES), held, TARGETS[names], ENDED[names]).iloc[0]
    assert (row["rho"], row["p"]) == (pytest.approx(-1), pytest.approx(1 / 3))
