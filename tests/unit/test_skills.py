"""Scores that a shifted prior cannot move: against second sources, and on models where the answer is planted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from statsmodels.stats.proportion import confint_proportions_2indep

from corewood.analyse.ablation import ablation_rows, paired_interval
from corewood.analyse.effective import effective_size
from corewood.analyse.generalisation import of_cases, of_skills, spread
from corewood.analyse.skills import skill_changes, skill_differences
from corewood.analyse.verdicts import verdicts
from corewood.data.overlap import CASES, overlap
from corewood.data.read import read_split
from corewood.data.skills import skill_parts, skills_of
from corewood.data.task import Split
from corewood.evaluate.metrics import Judge, Z, accuracy, auc, balanced, detection, log_odds, parts
from corewood.report.models import apart, rows_of
from corewood.report.page import finding
from corewood.report.skills import skill_or_readiness, skills_table
from corewood.report.spread import WHOLE, same_in_domain_chart
from corewood.spec import SourceSpec
from corewood.store.store import Store
from corewood.study.entries import read_data, write_data

LABELS = ("entailment", "non-entailment")
GENERATED = overlap(train=40, validation=20, per_case=100).challenge["cases"]


def split_of(label: list[str], **columns: list[str]) -> Split:
    frame = pd.DataFrame({"first": [f"text {i}" for i in range(len(label))], "label": label, **columns})
    return Split("own", frame, tuple(sorted(set(label))))


# what belongs to one skill


def test_a_case_and_its_counterpart_are_one_skill() -> None:
    skills = dict(zip(GENERATED.frame["case"], skills_of(GENERATED), strict=True))
    assert {skills[one] == skills[other] == f"{one} / {other}" for one, other in CASES} == {True}
    parts = dict(skill_parts(GENERATED))
    assert list(parts) == ["all", *(" / ".join(pair) for pair in CASES)]
    for inside in parts.values():
        assert GENERATED.frame["label"][inside].value_counts().nunique() == 1  # as many of each answer


def test_of_hans_a_skill_is_the_heuristic(tmp_path: Path) -> None:
    rows = ["gold_label\tsentence1\tsentence2\theuristic\tsubcase"]
    for heuristic, case in (("lexical_overlap", "ln_passive"), ("lexical_overlap", "le_passive"), ("constituent", "cn_adverb")):
        label = "entailment" if case[1] == "e" else "non-entailment"
        rows += [f"{label}\ta {i}\tb {i}\t{heuristic}\t{case}" for i in range(3)]
    (tmp_path / "hans.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    split, _ = read_split("hans", SourceSpec(path="hans.txt", layout="hans"), tmp_path)
    assert list(skills_of(split)) == ["lexical overlap"] * 6 + [""] * 3  # constituents have one answer alone here
    store = Store(tmp_path / "store")
    with store.writing("data", "k", meta := {}) as folder:
        meta |= write_data(split, folder)
    assert list(skills_of(read_data(store.get("data", "k")))) == list(skills_of(split))


def test_of_own_files_a_skill_is_a_group_or_a_case_with_several_answers() -> None:
    label = ["yes", "no", "yes", "no", "yes", "yes"]
    cases = ["a", "a", "b", "b", "c", "c"]
    group = split_of(label, case=cases, group=["x", "x", "x", "x", "y", "y"])
    assert list(skills_of(group)) == ["x"] * 4 + [""] * 2
    assert list(skills_of(split_of(label, case=cases))) == ["a", "a", "b", "b", "", ""]
    assert list(skills_of(split_of(label, case=cases, group=label))) == ["a", "a", "b", "b", "", ""]
    assert [name for name, _ in skill_parts(split_of(label))] == ["all"]
    assert not list(skill_parts(split_of(["yes"] * 3)))
    numbers = Split("own", pd.DataFrame({"first": ["a", "b"], "label": [0.5, 1.0]}), ())
    assert not list(skill_parts(numbers))


# scores of skills


def test_balanced_accuracy_equals_sklearn_and_newcombe() -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        gold, guess = rng.integers(classes, size=90), rng.integers(classes, size=90)
        guess[:50] = gold[:50]
        assert balanced(guess, gold).value == pytest.approx(balanced_accuracy_score(gold, guess))
    gold, guess = np.repeat([0, 1], [40, 60]), np.repeat([0, 1, 1, 0], [35, 5, 33, 27])
    found = balanced(guess, gold)  # (r0 + r1) / 2 is (1 + r0 - (1 - r1)) / 2: half a difference of two shares
    low, high = confint_proportions_2indep(35, 40, 27, 60, method="newcomb")
    assert (found.low, found.high) == pytest.approx(((1 + low) / 2, (1 + high) / 2))
    everything = balanced(gold, gold)
    assert everything.low < everything.high == 1


def test_d_prime_and_criterion_by_hand() -> None:
    gold, guess = np.repeat([0, 1], [30, 50]), np.repeat([0, 1, 1, 0], [24, 6, 40, 10])
    hit, false = (24 + 0.5) / 31, (10 + 0.5) / 51
    found = detection(guess, gold)
    assert found["d-prime"].value == pytest.approx(norm.ppf(hit) - norm.ppf(false))
    assert found["criterion"].value == pytest.approx(-(norm.ppf(hit) + norm.ppf(false)) / 2)
    variance = hit * (1 - hit) / (30 * norm.pdf(norm.ppf(hit)) ** 2) + false * (1 - false) / (
        50 * norm.pdf(norm.ppf(false)) ** 2
    )
    half = Z * np.sqrt(variance)
    value = found["d-prime"].value
    assert (found["d-prime"].low, found["d-prime"].high) == pytest.approx((value - half, value + half))
    assert found["criterion"].high - found["criterion"].value == pytest.approx(half / 2)
    turned = detection(1 - guess, 1 - gold)  # the other answer is the signal
    assert turned["d-prime"].value == pytest.approx(found["d-prime"].value)
    assert turned["criterion"].value == pytest.approx(-found["criterion"].value)
    assert detection(gold, gold)["d-prime"].value == pytest.approx(norm.ppf(30.5 / 31) + norm.ppf(50.5 / 51))


def test_auc_equals_sklearn_and_its_interval_solves_newcombes_equation() -> None:
    rng = np.random.default_rng(1)
    gold = np.repeat([0, 1], [25, 35])
    odds = np.round(rng.normal(np.where(gold == 0, 0.8, 0.0)), 1)  # with ties
    found = auc(odds, gold)
    assert found.value == pytest.approx(roc_auc_score(gold == 0, odds))
    for end in (found.low, found.high):
        q1, q2, more = end / (2 - end), 2 * end**2 / (1 + end), (25 + 35) / 2 - 1  # Hanley and McNeil's, with equal numbers
        variance = (end * (1 - end) + more * (q1 - end**2) + more * (q2 - end**2)) / (25 * 35)
        assert abs(found.value - end) == pytest.approx(Z * np.sqrt(variance))
    perfect = auc(np.where(gold == 0, 1.0, -1.0), gold)
    assert 0.8 < perfect.low < perfect.high == perfect.value == 1
    assert auc(np.where(gold == 0, -1.0, 1.0), gold).low == 0


def test_intervals_of_skills_hold_the_truth_as_often_as_they_say() -> None:
    """Two normal distributions 1.5 apart and a threshold that leans to one side, 60 and 40 examples."""
    rng = np.random.default_rng(2)
    gold = np.repeat([0, 1], [60, 40])
    truth = {
        "balanced": (norm.cdf(1.25) + norm.cdf(0.25)) / 2,
        "d-prime": 1.5,
        "criterion": -0.5,
        "auc": norm.cdf(1.5 / 2**0.5),
    }
    inside = dict.fromkeys(truth, 0)
    for _ in range(400):
        odds = rng.standard_normal(100) + np.where(gold == 0, 1.25, -0.25)
        guess = (odds < 0).astype(int)
        scores = {"balanced": balanced(guess, gold), **detection(guess, gold), "auc": auc(odds, gold)}
        for metric, score in scores.items():
            inside[metric] += score.low <= truth[metric] <= score.high
    assert all(0.92 < hits / 400 < 0.985 for hits in inside.values()), inside


def test_classes_that_count_as_one_label_are_added_up() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]))  # entailment, neutral, contradiction
    assert np.exp(log_odds(logits, np.array([0, 1, 1]))) == pytest.approx([0.5 / 0.5, 0.4 / 0.6])


# planted: normal log odds, and what becomes of them


def logits_of(odds: np.ndarray) -> np.ndarray:
    return np.stack([odds, np.zeros(len(odds))], 1)


def full_model(split: Split = GENERATED) -> np.ndarray:
    """Knows every skill: its two answers lie 2.4 apart."""
    return logits_of(np.random.default_rng(3).standard_normal(len(split)) + np.where(split.gold == 0, 1.2, -1.2))


def shifted(full: np.ndarray) -> np.ndarray:
    return full + np.array([1.0, 0.0])


def random_in(full: np.ndarray, skill: str, seed: int) -> np.ndarray:
    inside = (skills_of(GENERATED) == skill).to_numpy()
    odds = full[:, 0].copy()
    odds[inside] = np.random.default_rng(seed).standard_normal(inside.sum())
    return logits_of(odds)


def tables_of(full: np.ndarray, found: list[np.ndarray]) -> dict[str, pd.DataFrame]:
    """What a study of one model at one sparsity would write, had it found these."""
    scores = []
    for place, logits in enumerate((full, *found)):
        about: dict[str, Any] = {
            "task": "t",
            "tuning": 0,
            "checkpoint": 9,
            "seed": place,
            "draw": 0,
            "state": "pruned",
            "prune": "both",
        }
        about |= {"way": "l0", "question": "prune", "target": 0.5, "subnetwork": f"l0-50-s{place}", "note": ""}
        if place == 0:
            about |= {"way": "full", "question": "full", "target": 0.0, "subnetwork": "full"}
        inside = {"dataset": "validation", "case": "all", "domain": "in-domain", "group": "", "skill": "", "gold": "mixed"}
        inside |= {"metric": "accuracy", "n": 100, "correct": 98, "value": 0.98, "low": 0.93, "high": 0.99}
        cases = accuracy(logits, GENERATED, LABELS).assign(dataset="cases", domain="challenge", metric="accuracy")
        skills = Judge(GENERATED, LABELS).skills(logits).assign(dataset="cases", domain="challenge", gold="mixed", group="")
        scores.append(pd.concat([pd.DataFrame([inside]), cases, skills.assign(skill=skills["case"])]).assign(**about))
    table = pd.concat(scores, ignore_index=True)
    facts = {"task": "t", "tuning": 0, "way": "l0"}
    skills = skill_changes(full, np.stack(found), GENERATED, LABELS).assign(target=0.5, dataset="cases", **facts)
    made = {"scores": table, "spread": spread(table), "verdicts": judge(full, found)}
    return {**{n: t.assign(**facts) for n, t in made.items() if n != "scores"}, "scores": table, "skills": skills} | {
        "holes": pd.DataFrame()
    }


def judge(full: np.ndarray, found: list[np.ndarray]) -> pd.DataFrame:
    whole, *right = (logits.argmax(-1) == GENERATED.gold for logits in (full, *found))
    cases = [
        ({"dataset": "cases", "case": case, "group": group, "domain": "challenge"}, whole[inside], np.stack(right)[:, inside])
        for case, group, inside in parts(GENERATED)
        if case != "all"
    ]
    known = np.arange(100) < 98
    facts = {"dataset": "validation", "case": "all", "group": "", "domain": "in-domain"}
    cases.insert(0, (facts, known, np.stack([known] * len(right))))
    return verdicts(cases, [f"l0-50-s{place}" for place in range(1, len(found) + 1)]).assign(target=0.5, prune="both")


def points(tables: dict[str, pd.DataFrame]) -> str:
    return " ".join(finding(tables, "m").points)


def test_a_shifted_prior_moves_cases_and_not_skills() -> None:
    full = full_model()
    tables = tables_of(full, [shifted(full)] * 2)
    cases = of_cases(tables["spread"]).set_index("case")
    assert cases.loc["if", "mean"] < cases.loc["if", "full"] - 0.15
    assert cases.loc["because", "mean"] > cases.loc["because", "full"] + 0.02
    skills = tables["skills"].set_index(["case", "metric"])
    assert (skills.xs("auc", level="metric")["change"].abs() < 1e-12).all()
    kept = skills.xs("d-prime", level="metric")
    assert ((kept["low"] < 0) & (kept["high"] > 0)).all()
    assert abs(kept.loc["all", "change"]) < 0.15
    moved = skills.loc[("all", "criterion")]
    assert moved["high"] < 0
    assert moved["change"] == pytest.approx(-1, abs=0.1)  # towards the first label, by what was added
    said = points(tables)
    assert "in 9 the prior moved and the skill is kept" in said
    assert "“non-entailment” is said less often" in said
    assert "lost, most of all" not in said
    assert "was lost:" not in said


def test_a_skill_that_is_answered_at_random_is_lost() -> None:
    full = full_model()
    tables = tables_of(full, [random_in(full, "if / because", seed) for seed in (7, 8)])
    skills = tables["skills"].set_index(["case", "metric"])
    assert skills.loc[("if / because", "d-prime"), "high"] < 0
    assert skills.loc[("if / because", "d-prime"), "mean"] == pytest.approx(0, abs=0.4)
    assert skills.loc[("if / because", "auc"), "mean"] == pytest.approx(0.5, abs=0.1)
    assert skills.loc[("hoped / knew", "auc"), "change"] == 0
    said = points(tables)
    assert "Of the skills that lost cases belong to, one was lost: “if / because” (AUC" in said
    assert "the prior moved" not in said


def test_skills_that_are_never_answered_are_said_and_what_pruning_takes_of_them() -> None:
    knows = full_model()
    silent = knows + 4 * (shifted(knows) - knows)  # one answer to everything
    tables = tables_of(silent, [random_in(silent, "if / because", seed) + np.array([4.0, 0.0]) for seed in (7, 8)])
    scores = tables["scores"].query("subnetwork == 'full'").set_index(["case", "metric"])
    skills = tables["skills"].set_index(["case", "metric"])["mean"]
    assert (scores.loc[("if", "accuracy"), "high"] < 0.1) & (scores.loc[("because", "accuracy"), "value"] == 1)
    told = [skill for skill, row in scores.xs("auc", level="metric").iterrows() if row["low"] > 0.9 and " / " in str(skill)]
    assert "if / because" in told
    said = points(tables)
    assert all(f"“{str(skill).partition(' / ')[0]}”" in said for skill in told)
    assert "right, and yet the full model tells them from their counterparts (AUC 9" in said
    of_told = [skills[skill, "auc"] for skill in told]
    assert f"with 50 % removed, AUC is {100 * min(of_told):.1f} % to {100 * max(of_told):.1f} %" in said
    assert min(of_told) == skills["if / because", "auc"] == pytest.approx(0.5, abs=0.1)
    kept = points(tables_of(silent, [silent, silent]))
    assert "tells them from their counterparts" in kept
    assert "what pruning takes of it" not in kept
    assert "tells them from their counterparts" not in points(tables_of(knows, [knows, knows]))


def test_what_the_full_model_cannot_tell_apart_cannot_be_lost() -> None:
    full = random_in(full_model(), "if / because", 6)
    inside = (skills_of(GENERATED) == "if / because").to_numpy()[:, None]
    yes, no = (full + inside * np.array([shift, 0.0]) for shift in (1.5, -1.5))
    said = points(tables_of(yes, [no, no]))  # says yes to all of them, then no
    assert "in one the full model has no skill to lose: “if / because”" in said


def test_intervals_of_changes_against_a_bootstrap_over_examples() -> None:
    full = full_model()
    rng = np.random.default_rng(9)
    found = np.stack([logits_of(0.6 * full[:, 0] + 0.5 * rng.standard_normal(len(full)) + 0.3) for _ in range(3)])
    rows = skill_changes(full, found, GENERATED, LABELS)
    rows = rows[rows["case"] == "or / and"].set_index("metric")
    inside = np.flatnonzero(skills_of(GENERATED) == "or / and")
    gold, models = GENERATED.gold[inside], np.stack([full, *found])[:, inside]
    drawn: dict[str, list[float]] = {"balanced": [], "auc": [], "d-prime": [], "criterion": []}
    odds = models[..., 0] - models[..., 1]
    for _ in range(800):
        ones, others = (odds[:, rng.choice(np.flatnonzero(gold == label), 100)] for label in (0, 1))
        shares = np.stack([(ones > 0).mean(1), (others < 0).mean(1)])
        z = norm.ppf((100 * shares + 0.5) / 101)
        values = {"balanced": shares.mean(0), "d-prime": z.sum(0), "criterion": (z[1] - z[0]) / 2}
        values["auc"] = np.array([(one[:, None] > other).mean() for one, other in zip(ones, others, strict=True)])
        for metric, (whole, *others) in values.items():
            drawn[metric].append(float(np.mean(others) - whole))
    for metric in ("balanced", "auc"):
        row = rows.loc[metric]
        assert row["change"] == pytest.approx(row["mean"] - row["full"])
        np.testing.assert_allclose([row["low"], row["high"]], np.quantile(drawn[metric], [0.025, 0.975]), atol=0.015)
    for metric in ("d-prime", "criterion"):  # wider than it must be, and not by far
        width = np.ptp(np.quantile(drawn[metric], [0.025, 0.975]))
        assert width < rows.loc[metric, "high"] - rows.loc[metric, "low"] < 2.5 * width


def test_differences_of_skills_are_those_of_two_models_beside_each_other() -> None:
    full = full_model()
    found = np.stack([full, shifted(full), random_in(full, "or / and", 4)])
    rows = skill_differences(found, ["a", "b", "c"], GENERATED, LABELS)
    assert len(rows) == 3 * 10  # nine skills and the whole set
    places = dict(zip("abc", range(3), strict=True))
    for _, row in rows.iterrows():
        inside = np.ones(len(full), bool) if row["case"] == "all" else (skills_of(GENERATED) == row["case"]).to_numpy()
        one, other = (
            roc_auc_score(GENERATED.gold[inside] == 0, found[places[row[who]], inside, 0]) for who in ("one", "other")
        )
        assert row["difference"] == pytest.approx(one - other)
        changes = skill_changes(found[places[row["other"]]], found[[places[row["one"]]]], GENERATED, LABELS)
        same = changes[(changes["case"] == row["case"]) & (changes["metric"] == "auc")].iloc[0]
        assert row[["low", "high"]].tolist() == pytest.approx(same[["low", "high"]].tolist())


def test_the_headline_says_whether_two_differ_in_skill_or_in_readiness() -> None:
    full = full_model()
    found = [full, shifted(full), random_in(full, "or / and", 4), random_in(full, "if / because", 4)]
    found.append(found[3] + np.array([2.0, 0.0]))  # knows nothing of it, and says yes
    names = [f"l0-50-s{place}" for place in range(1, len(found) + 1)]
    made = skill_differences(np.stack(found), names, GENERATED, LABELS).assign(target=0.5, dataset="cases")
    tables = apart({**tables_of(full, found), "skill_differences": made})

    def said(one: int, other: int, case: str) -> str:
        pair = {"one": names[one], "other": names[other], "dataset": "cases", "case": case, "target": 0.5}
        return skill_or_readiness(tables, pd.Series(pair))

    assert "apart alike (AUC of “if / because”" in said(1, 0, "because")
    assert "the first only says “entailment” more readily." in said(1, 0, "because")
    assert "the first only says “non-entailment” more readily." in said(0, 1, "if")
    assert said(0, 2, "or").startswith(" It is a difference in skill, not in readiness to give one answer (AUC of “or / and”")
    assert said(3, 2, "or").startswith(" It is a difference in skill")  # whichever stands first in the table
    assert "more readily" in said(3, 0, "or")
    assert said(4, 0, "because").startswith(" The first does not tell the answers apart better (AUC of “if / because”")


def test_rows_about_skills_stand_apart_in_the_report() -> None:
    full = full_model()
    tables = tables_of(full, [shifted(full), random_in(full, "or / and", 4)])
    plain = {**tables, **{name: of_cases(tables[name]) for name in ("scores", "spread")}}
    del plain["skills"]
    said, without = finding(tables, "m"), finding(plain, "m")
    assert said.headline == without.headline
    assert [p for p in said.points if "Skill or prior?" not in p] == without.points
    mine = rows_of(apart(tables), "t", 0, "l0", first=True)
    assert not len(of_skills(mine["accuracy"]))
    chart = same_in_domain_chart(mine).to_dict(validate=False)
    data = pd.concat(pd.DataFrame(rows) for rows in chart["datasets"].values())
    panel = data[data["kind"] == WHOLE].set_index("subnetwork")["value"]
    expected = {"full": full, "l0-50-s1": shifted(full)}
    for name, logits in expected.items():
        assert panel[name] == pytest.approx(balanced_accuracy_score(GENERATED.gold, logits.argmax(1)))
    without_skills = same_in_domain_chart(rows_of(plain, "t", 0, "l0", True)).to_dict(validate=False)
    assert WHOLE not in {row["kind"] for rows in without_skills["datasets"].values() for row in rows}
    html = str(skills_table(mine))
    assert "if / because" in html
    assert f"{100 * panel['full']:.1f}" in html


def test_effective_size_of_skills_looks_at_balanced_accuracy() -> None:
    full = full_model()
    table = tables_of(full, [shifted(full)])["scores"]
    found = effective_size(table).set_index("set")
    values = of_skills(table, "balanced").set_index(["subnetwork", "case"])["value"]
    for skill in ("all", "if / because"):
        name = "balanced" if skill == "all" else f"balanced: {skill}"
        off = abs(values["full", skill] - values["l0-50-s1", skill])
        assert found.loc[name, "effective_size"] == (0.5 if off <= 0.03 else 1.0)
        assert found.loc[name, "full"] == values["full", skill]
    assert found.loc["balanced", "whole"]
    assert not found.loc["balanced: if / because", "whole"]
    without = effective_size(of_cases(table)).set_index("set")
    pd.testing.assert_frame_equal(found.loc[without.index], without)
    lazy = tables_of(logits_of(np.ones(len(GENERATED))), [full])["scores"]  # says one thing always
    assert effective_size(lazy).set_index("set").loc["balanced", "trivial"]
    assert not found["trivial"].any()


def test_ablations_of_skills_are_paired_answer_by_answer() -> None:
    rng = np.random.default_rng(11)
    gold = np.repeat([0, 1], [30, 10])
    full, without = rng.random(40) < 0.9, rng.random(40) < 0.7
    answers = [gold == 0, gold == 1]
    cases = [("all", "", np.ones(40, bool))]
    table = ablation_rows(full, {("L0.H0",): without}, cases, [], 2, [("s", answers)]).set_index("metric")
    pd.testing.assert_frame_equal(
        table.loc[["accuracy"]].reset_index(),
        ablation_rows(full, {("L0.H0",): without}, cases, [], 2)[table.reset_index().columns],
    )
    shift = without.astype(float) - full
    parts = [(shift[a].mean(), *paired_interval(shift[a])) for a in answers]
    row = table.loc["balanced"]
    assert row["full"] == pytest.approx(np.mean([full[a].mean() for a in answers]))
    assert row["change"] == pytest.approx(np.mean([part[0] for part in parts]))
    assert row["low"] == pytest.approx(row["change"] - np.hypot(*(m - low for m, low, _ in parts)) / 2)
    assert row["high"] == pytest.approx(row["change"] + np.hypot(*(high - m for m, _, high in parts)) / 2)
    assert (row["case"], row["n"]) == ("s", 40)
