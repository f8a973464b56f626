from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_elsewhere

from corewood.analyse.verdicts import KEPT, LOST, MARGIN, OPEN, best_to_take, needed, verdicts
from corewood.report.verdicts import lost_table, models_points, size_points, take_point, tiles, unable_point


def case(name: str, n: int, fell: int, rose: int = 0, full: int | None = None) -> tuple[dict[str, str], np.ndarray, np.ndarray]:
    """A case whose full model is right on `full` of n (default: all but those that rose), and one subnetwork."""
    whole = np.arange(n) < (n - rose if full is None else full)
    answers = whole.copy()
    answers[:fell] = False
    answers[n - rose :] = True
    return {"case": name, "domain": "challenge"}, whole, answers[None]


def judge(*cases: tuple[dict[str, str], np.ndarray, np.ndarray]) -> pd.DataFrame:
    return verdicts(cases, ["one"]).set_index("case")


def test_a_case_that_stays_is_kept_one_that_falls_is_lost_and_few_examples_do_not_tell() -> None:
    found = judge(case("same", 100, 0), case("gone", 100, 60), case("few", 10, 1), case("never", 100, 0, full=30))
    assert found["verdict"].to_dict() == {"same": KEPT, "gone": LOST, "few": OPEN}  # below half there is nothing to lose
    assert found.loc["few", "needed"] > 10
    assert found["needed"].notna().tolist() == [False, False, True]


def test_a_sure_but_small_fall_is_kept() -> None:
    """With very many examples any fall is beyond chance; what counts is how large it can be."""
    found = judge(case("many", 20_000, 200))
    assert found.loc["many", "p"] < 1e-6
    assert found.loc["many", "verdict"] == KEPT


def test_tests_are_corrected_over_all_cases_and_subnetworks() -> None:
    cases = [case(f"case {k}", 60, 6 + k) for k in range(6)]
    alone = [float(judge(one)["p_holm"].iloc[0]) for one in cases]
    table = judge(*cases)
    by_hand = np.maximum.accumulate([min(1.0, p * (6 - rank)) for rank, p in enumerate(sorted(alone))])
    assert table["p_holm"].sort_values().to_numpy() == pytest.approx(by_hand)
    for _, whole, answers in cases:
        both = pd.crosstab(pd.Categorical(whole, [False, True]), pd.Categorical(answers[0], [False, True]), dropna=False)
        p = mcnemar_elsewhere(both.to_numpy(), exact=True).pvalue
        assert any(p == pytest.approx(other) for other in alone)


@pytest.mark.parametrize(("fell", "rose"), [(2, 0), (3, 2), (5, 1), (6, 3)])
def test_as_many_examples_as_needed_would_tell_and_half_of_them_would_not(fell: int, rose: int) -> None:
    """The same rates on more examples, once with the number that is named, once with half of it."""
    table = judge(case("open", 60, fell, rose))
    row = table.loc["open"]
    assert row["verdict"] == OPEN
    enough = needed(row, 1)

    def again(count: float) -> str:
        times = count / 60
        many = judge(case("more", round(count), round(fell * times), round(rose * times)))
        return str(many.loc["more", "verdict"])

    assert again(1.25 * enough) != OPEN  # whole numbers of examples, and McNemar's exact test, need a little more
    assert again(enough / 2) == OPEN or enough < 120  # fewer than there are


def test_a_loss_of_just_the_margin_is_a_loss_once_it_is_more_than_chance() -> None:
    few, many = judge(case("few", 100, 5, 0)), judge(case("many", 200, 10, 0))
    assert few.loc["few", "change"] == pytest.approx(-MARGIN)
    assert (few.loc["few", "verdict"], many.loc["many", "verdict"]) == (OPEN, LOST)
    assert 100 < few.loc["few", "needed"] <= 200  # and that many would have told


def test_the_one_to_take_is_the_smallest_that_keeps_all() -> None:
    facts = {"task": "t", "tuning": 0}
    kept = {"small": [KEPT, LOST], "middle": [KEPT, KEPT], "better": [KEPT, KEPT], "large": [KEPT, KEPT]}
    changes = {"small": 0.0, "middle": -0.02, "better": -0.01, "large": 0.0}
    found = pd.DataFrame(
        {**facts, "subnetwork": name, "verdict": v, "change": changes[name]} for name, both in kept.items() for v in both
    )
    sizes = pd.DataFrame(
        {**facts, "subnetwork": name, "all_share": s}
        for name, s in {"full": 1.0, "small": 0.5, "middle": 0.7, "better": 0.7, "large": 0.9}.items()
    )
    chosen = best_to_take(found, sizes)
    assert chosen is not None
    assert chosen["subnetwork"] == "better"
    assert best_to_take(found[found["subnetwork"] == "small"], sizes) is None
    up_and_down = found.assign(change=np.where(found["subnetwork"] == "middle", [0.3, -0.04] * 4, found["change"]))
    chosen = best_to_take(up_and_down, sizes)  # closest to the full model is not the one that gained most
    assert chosen is not None
    assert chosen["subnetwork"] == "better"


def test_the_recommendation_names_the_command_that_ships_it() -> None:
    facts = {"task": "t", "tuning": 0, "subnetwork": "l0-50-s3", "dataset": "hard", "verdict": KEPT, "change": 0.0}
    rows = [{**facts, "case": name, "domain": "challenge", "low": low} for name, low in (("if", -0.02), ("or", -0.04))]
    sizes = pd.DataFrame([{"task": "t", "tuning": 0, "subnetwork": "l0-50-s3", "all_share": 0.915}])
    (said,) = take_point.make({"verdicts": pd.DataFrame(rows), "sizes": sizes})
    assert "keeps all 2 cases (92 % of the parameters). At worst it loses 4.0 points, on “or”" in said
    assert said.endswith("“corewood export STUDY.yaml l0-50-s3 --out FOLDER” writes it as a smaller model to ship.")


def report_of(*verdicts: tuple[str, str, str, str], value: float = 0.9) -> dict[str, pd.DataFrame]:
    """(subnetwork, set, case, verdict) on cases, and all that goes with it; what keeps mlps comes second."""
    facts = {"task": "t", "tuning": 0, "way": "l0", "target": 0.5}
    names = list(dict.fromkeys(row[0] for row in verdicts))
    rows: list[dict[str, object]] = [{"subnetwork": name, "dataset": "validation", "case": "all"} for name in names]
    rows = [{**row, "domain": "in-domain", "verdict": KEPT, "n": 500} for row in rows]
    rows += [
        {"subnetwork": name, "dataset": dataset, "case": case, "domain": "challenge", "verdict": verdict, "n": 100}
        for name, dataset, case, verdict in verdicts
    ]
    about = {**facts, "group": "", "full": 0.95, "value": value, "change": -0.05, "low": -0.06, "high": -0.04, "needed": 900.0}
    found = pd.DataFrame([{**about, **row, "prune": str(row["subnetwork"]).split("-")[0]} for row in rows])
    shares = {name: 0.9 - 0.1 * place for place, name in enumerate(names)}
    sizes = pd.DataFrame([{**facts, "subnetwork": n, "all_share": s, "units_share": 0.5} for n, s in shares.items()])
    return {"verdicts": found.assign(p_holm=3.410605131648481e-13), "sizes": sizes, "spread": found}


def test_without_cases_to_judge_by_there_is_none_to_take() -> None:
    tables = report_of(("both-1", "hard", "if", KEPT))
    assert tiles(tables)[0] == "The one to take: both-1"
    inside = {**tables, "verdicts": tables["verdicts"].iloc[:1]}
    assert take_point.make(inside) == []
    assert tiles(inside) == ("", [])


def test_of_equally_many_open_cases_the_mildest_is_the_closest_and_what_fell_is_named() -> None:
    tables = report_of(*[(f"both-{who}", "hard", case, OPEN) for who in (1, 2) for case in ("if", "or")])
    found = tables["verdicts"]
    bad = (found["subnetwork"] == "both-1") & (found["case"] == "or")
    tables["verdicts"] = found.assign(low=np.where(bad, -0.18, -0.07), high=np.where(bad, -0.02, 0.01))
    assert tiles(tables)[0] == "None is shown to keep every case; the closest: both-2"
    (said,) = take_point.make(tables)
    assert "both-1 and both-2 lose nothing for certain, though both-1 fell on “or”: more examples" in said
    bad |= (found["subnetwork"] == "both-2") & (found["case"] == "or")
    tables["verdicts"] = found.assign(low=np.where(bad, -0.18, -0.07), high=np.where(bad, -0.02, 0.01))
    assert "though both-1 and both-2 fell on “or”: more examples" in take_point.make(tables)[0]


def test_searches_that_found_one_mask_are_spoken_of_as_one_subnetwork() -> None:
    tables = report_of(("both-1", "hard", "if", LOST), ("both-2", "hard", "if", LOST))
    (said,) = size_points.make(tables)
    assert "2 subnetworks have 90.0 % in domain" in said
    masks = pd.DataFrame({"subnetwork": ["both-1", "both-1", "both-2", "both-2"], "kept": [True, False] * 2})
    (said,) = size_points.make({**tables, "masks": masks})
    assert "2 searches found one subnetwork, which has 90.0 % in domain" in said
    assert "is not shown to keep the one case" in said


def test_cases_of_the_same_name_in_two_sets_are_two_cases() -> None:
    both = [(name, dataset, "if", LOST) for name in ("both-1", "both-2") for dataset in ("easy", "hard")]
    tables = report_of(*both, ("both-1", "hard", "or", OPEN), ("both-2", "hard", "or", KEPT), ("both-1", "easy", "or", KEPT))
    (said,) = size_points.make(tables)
    assert "lost: “easy: if” and “hard: if”; cannot be told with 100 examples: “hard: or”" in said
    (said,) = models_points.make(tables)
    assert said.endswith("all 2 subnetworks lose “easy: if” and “hard: if”.")
    assert tiles(tables)[1][1].note == "lost: “easy: if” and “hard: if”"
    unable = tables["spread"].iloc[-1:].assign(dataset="hard", case="swap")
    tables = {**tables, "spread": pd.concat([tables["spread"], unable])}
    assert unable_point.make(tables)[0].startswith("The full model itself does not handle “hard: swap”:")
    kept = report_of(("both-1", "easy", "if", KEPT), ("both-1", "hard", "if", KEPT))
    worst = kept["verdicts"].assign(low=[-0.01, -0.02, -0.03])
    assert "loses 3.0 points, on “hard: if”" in take_point.make({**kept, "verdicts": worst})[0]


def test_the_size_is_that_of_the_subnetworks_spoken_of() -> None:
    tables = report_of(("both-1", "hard", "if", KEPT), ("mlps-1", "hard", "if", KEPT))
    (said,) = size_points.make(tables)
    assert said.startswith(
        "With 50 % of the units removed (leaves 90 % of the parameters), the subnetwork has 90.0 % in domain"
    )


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([KEPT], "and keeps the one case that the full model handles."),
        ([LOST], "and is not shown to keep the one case that the full model handles; lost: “if”."),
        ([KEPT, KEPT], "and keep the one case that the full model handles."),
        ([OPEN, OPEN], "and are not shown to keep the one case that the full model handles; cannot be told with 100 examples"),
        ([KEPT, LOST], "and 1 of them keeps the one case that the full model handles; lost by some: “if” (1 of 2)."),
    ],
)
def test_one_case_is_spoken_of_as_one(verdicts: list[str], said: str) -> None:
    tables = report_of(*((f"both-{place}", "hard", "if", verdict) for place, verdict in enumerate(verdicts)))
    assert said in size_points.make(tables)[0]


def test_one_subnetwork_is_spoken_of_as_one() -> None:
    kept = report_of(("both-1", "hard", "if", KEPT))
    assert "the smallest that keeps the one case (90 % of the parameters)" in take_point.make(kept)[0]
    assert models_points.make(kept)[0].endswith("the one subnetwork is not shown to lose one.")
    assert models_points.make(report_of(("both-1", "hard", "if", LOST)))[0].endswith("the one subnetwork loses “if”.")


def test_p_values_have_three_digits() -> None:
    html = str(lost_table(report_of(("both-1", "hard", "if", LOST))))
    assert ">3.41e-13<" in html
    assert ">3.410605131648481e-13<" not in html
