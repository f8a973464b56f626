"""Studies that are unusual and allowed, on tables that are made up: what their reports say is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corewood.analyse.core import rank_correlations
from corewood.analyse.differences import beside, corrected, pair_tests
from corewood.analyse.generalisation import dynamics, spread
from corewood.analyse.skills import delong
from corewood.analyse.tickets import summary
from corewood.data.read import read_split
from corewood.errors import InputError
from corewood.evaluate.metrics import placements
from corewood.report import patterns, survivors, tickets, ways_compared
from corewood.report.core import two_sparsities_chart
from corewood.report.page import done
from corewood.report.spread import headline, spread_chart
from corewood.spec import SourceSpec

WHOSE = {"task": "t", "tuning": 0, "way": "l0"}
PLAIN = {"prune": "both", "nested": False, "seed": 0, "checkpoint": 9, "group": "", "skill": "", "gold": "mixed"}


def rows_of(subnetwork: str, target: float = 0.5, **sets: np.ndarray) -> list[dict[str, Any]]:
    """Scores of one subnetwork; `sets` are right or wrong answers, in domain as `inside`, else on a case of that name."""
    full = subnetwork == "full"
    whose = {**WHOSE, **PLAIN, "subnetwork": subnetwork, "target": 0.0 if full else target, "way": "full" if full else "l0"}
    rows = []
    for name, right in sets.items():
        inside = name == "inside"
        about = {"dataset": "validation" if inside else "hard", "case": "all" if inside else name}
        about |= {
            "domain": "in-domain" if inside else "challenge",
            "question": "full" if full else "prune",
            "metric": "accuracy",
        }
        score = {"n": len(right), "correct": right.sum(), "value": right.mean(), "low": 0.0, "high": 1.0, "agreement": 1.0}
        rows.append({**whose, **about, **score})
    return rows


def test_a_pair_that_is_apart_in_domain_is_not_called_equal_however_many_cases_there_are() -> None:
    rng = np.random.default_rng(1)
    names, whole = [f"s{i}" for i in range(4)], rng.random(2000) < 0.9
    inside = np.stack([whole] * 4)
    inside[1, np.flatnonzero(whole)[:45]] = False
    inside[1, np.flatnonzero(~whole)[:17]] = True
    cases = {f"c{k}": np.stack([rng.random(100) < 0.8] * 4) for k in range(20)}
    cases["c0"][0], cases["c0"][1] = rng.random(100) < 0.95, rng.random(100) < 0.3
    first = pair_tests(inside, names).assign(dataset="validation", case="all")
    tests = [first, *(pair_tests(right, names).assign(dataset="hard", case=case) for case, right in cases.items())]
    differences = corrected(pd.concat(tests, ignore_index=True)).assign(**WHOSE, target=0.5, nested=False, group="")
    apart = corrected(first)
    assert not differences["real"].iloc[0]  # among all comparisons
    assert apart["real"].iloc[0]  # among those in domain
    scores = rows_of("full", inside=whole, **{case: np.ones(100, bool) for case in cases})
    for place, name in enumerate(names):
        scores += rows_of(name, inside=inside[place], **{case: right[place] for case, right in cases.items()})
    table = pd.DataFrame(scores)
    found = spread(table, pd.Series(True, names), {frozenset(("s0", "s1"))}).assign(**WHOSE)
    sizes = pd.DataFrame({"question": "prune", "subnetwork": names, "checkpoint": 9, "comparable": True, "target": 0.5})
    tables = {"scores": table, "spread": found, "differences": differences, "sizes": sizes.assign(**WHOSE)}
    assert "s0 (" not in str(headline(tables, "m")) or "s1 (" not in str(headline(tables, "m"))


def test_of_numbers_no_test_is_claimed() -> None:
    rows = []
    for name, values in {"full": (0.9, 0.8), "a": (0.88, 0.75), "b": (0.88, 0.1)}.items():
        for row, value in zip(rows_of(name, inside=np.ones(1), sts=np.ones(1)), values, strict=True):
            rows.append({**row, "metric": "pearson", "correct": np.nan, "value": value})
    table = pd.DataFrame(rows)
    said = str(headline({"spread": spread(table).assign(**WHOSE), "scores": table}, "m"))
    assert "differ by up to 0.65 on “sts” (Pearson's correlation)" in said
    assert "not tested" in said


def ways_at(*sets: str) -> pd.DataFrame:
    """Two sizes, with ways of their own: at 50 % L0 is the base, at 80 % importance."""
    rng, rows = np.random.default_rng(0), []
    for target, shares in ((0.5, {"l0": 0.8, "random": 0.5}), (0.8, {"importance": 0.7, "magnitude": 0.3})):
        right = {way: (rng.random((1, 400)) < share).astype(float) for way, share in {**shares, "full": 0.9}.items()}
        base = next(iter(shares))
        for dataset in sets:
            facts = {"task": "t", "target": target, "dataset": dataset, "case": "all", "group": "", "domain": "challenge"}
            rows += [{**facts, "base": base, "way": way, **found} for way, found in beside(right, base).items()]
    return pd.DataFrame(rows)


def test_sizes_of_different_ways_have_bases_of_their_own() -> None:
    said = str(ways_compared.headline({"ways": ways_at("hard")}, "m"))
    assert "subnetworks of m by magnitude lose more of the challenge cases than those by importance" in said
    (many,) = ways_compared.ways_point.make({"ways": ways_at("a", "b", "c")})
    assert "beside L0 (intervals that leave out zero): random is worse on 3 and better on 0" in many
    assert "; beside importance: magnitude is worse on 3 and better on 0." in many


@pytest.mark.parametrize("examples", [6, 200])
def test_a_skill_is_not_surely_kept_because_few_examples_keep_their_order(examples: int) -> None:
    odds = np.concatenate([np.linspace(1, 2, examples), -np.linspace(1, 2, examples)])
    gold = np.repeat([0, 1], examples)
    change, low, high = delong(np.stack([placements(one, gold) for one in (odds, odds + 3)]), gold)
    assert change == 0
    assert (low < -0.03) == (examples == 6)
    assert low == pytest.approx(-high)


def test_dots_of_tickets_are_those_of_their_bars() -> None:
    facts = {"task": "t", "tuning": 0, "metric": "accuracy", "dataset": "validation", "domain": "in-domain", "case": "all"}
    facts |= {"prune": "both", "nested": False, "draw": 0, "seed": 0, "epochs": 0.0, "state": "pruned", "ticket": "good"}
    kinds = (("full", "full", "good", 0.9), ("l0", "prune", "good", 0.88), ("l0", "tickets", "bad", 0.5))
    kinds += (("l0", "effective_size", "good", 0.34),)
    rows = [
        {
            **facts,
            "note": "",
            "checkpoint": 9,
            "way": way,
            "target": 0.5 * (way == "l0"),
            "question": asked,
            "ticket": t,
            "value": v,
        }
        for way, asked, t, v in kinds
    ]
    scores = pd.DataFrame(rows)
    chart = tickets.tickets_chart.make({"tickets": summary(scores), "scores": scores}).to_dict(validate=False)
    data = [row for rows in chart["datasets"].values() for row in rows if row.get("which") == "L0 50 % good"]
    assert {row.get("mean", row.get("value")) for row in data} == {0.88}


def test_rows_of_several_models_or_ways_are_refused() -> None:
    one = pd.DataFrame(
        [*rows_of("full", inside=np.ones(4)), *rows_of("a", inside=np.ones(4)), *rows_of("b", inside=np.ones(4))]
    )
    assert len(spread(one)) == 1
    with pytest.raises(InputError, match=r"spread: takes the rows of one tuning .* several: 0, 1"):
        spread(pd.concat([one, one.assign(tuning=1)]))
    with pytest.raises(InputError, match=r"one way .* several: random, l0"):
        spread(one.assign(way=one["way"].where(one["subnetwork"] != "a", "random")))


def test_a_group_cannot_be_called_as_the_whole_set_is(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"text": list("abcd"), "label": ["yes", "no"] * 2, "case": ["x"] * 4, "kind": ["all"] * 2 + ["some"] * 2}
    )
    frame.to_csv(tmp_path / "hard.csv", index=False)
    source = SourceSpec(path=str(tmp_path / "hard.csv"), text=["text"], label="label", case="case", group="kind")
    with pytest.raises(InputError, match="a group cannot be called 'all'"):
        read_split("hard", source)


def test_super_survivors_of_a_size_are_told_and_ringed() -> None:
    good = {"task": "t", "way": "super-survivors", "prune": "both", "target": 0.0, "ticket": "good", "state": "retrained"}
    good |= {"epochs": 0.0, "metric": "accuracy", "mean": 0.85, "std": 0.01, "seeds": 3, "undefined": 0, "beside": 0.9}
    made = pd.DataFrame([good | {"as_full": False, "encoder_share": 0.4}])
    own = {"task": "t", "way": "importance", "prune": "both", "target": 0.5}
    stable = {**own, "over": "fine-tunings", "tuning": -1, "masks": 3, "survivors": 20, "survivors_expected": 9.0}
    stability = pd.DataFrame([{**stable, "kind": "head"}])
    tables = {"tickets": made, "stability": stability, "scores": pd.DataFrame({"task": ["t"]})}
    (said,) = tickets.super_point.make(tables)
    assert "are 20 heads (by chance 9.0), 40 % of the encoder's weights" in said
    (bare,) = tickets.super_point.make({**tables, "stability": stability.assign(way="magnitude")})
    assert "every seed, are 40 % of the encoder's weights" in bare
    units = pd.DataFrame([{**own, "kind": "head", "layer": 0, "index": h, "mean": 1.0, "std": 0.0, "seeds": 3} for h in (0, 2)])
    assert patterns.super_survivors({"survivors": units}, "t") == {(0, 0), (0, 2)}
    both = pd.concat([units, units.assign(task=survivors.ALL_TASKS)])
    assert survivors.over_tasks_chart.make({"survivors": both}) is not None


def test_a_mean_of_correlations_may_be_negative() -> None:
    facts = {"subnetwork": "full", "checkpoint": 9, "dataset": "hard", "group": "", "gold": "mixed", "domain": "challenge"}
    rows = [{**facts, "case": c, "n": 50, "correct": np.nan, "value": v, "low": v - 0.2, "high": v + 0.2} for c, v in
            (("a", -0.4), ("b", -0.3))]  # fmt: skip
    found = dynamics(pd.DataFrame(rows), {"mine": ["a", "b"]}).set_index("case").loc["mine"]
    assert found["low"] < found["value"] < found["high"]
    assert np.isnan(found["correct"])


def test_many_sizes_are_told_as_a_range_and_a_few_pairs_are_drawn() -> None:
    targets = [round(0.3 + 0.05 * place, 2) for place in range(8)]
    rng = np.random.default_rng(0)
    heads = pd.DataFrame([
        {"kind": "head", "layer": 0, "index": h, "target": t, "count": int(rng.integers(3)), "of": 3, "share": 0.5}
        for t in targets for h in range(8)
    ])  # fmt: skip
    pairs = rank_correlations(heads)
    assert len(pairs) == 28
    drawn = two_sparsities_chart.make({"frequencies": heads, "rank_correlations": pairs}).to_dict(validate=False)
    assert sum(len(row["hconcat"]) for row in drawn["vconcat"]) == 6
    sizes = pd.DataFrame({"question": "prune", "way": "given", "target": targets})
    scores = pd.DataFrame(rows_of("full", inside=np.ones(4)))
    assert "here, 8 of 8 sizes, with 30 to 65 % removed." in done({"sizes": sizes, "scores": scores}, "m")


def test_dots_and_their_range_are_of_one_mode() -> None:
    hard = {"full": np.ones(4), "both": np.ones(4), "heads": np.zeros(4)}
    table = pd.DataFrame([row for name, right in hard.items() for row in rows_of(name, inside=np.ones(4), hard=right)])
    table.loc[table["subnetwork"] == "heads", "prune"] = "heads"
    own = table[table["prune"] == "both"]
    chart = spread_chart.make({"accuracy": table, "spread": spread(own).assign(**WHOSE)}).to_dict(validate=False)
    dots = {row["subnetwork"] for rows in chart["datasets"].values() for row in rows if "subnetwork" in row}
    assert dots == {"both"}
