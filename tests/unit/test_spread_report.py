"""What charts, tables and sentences call scores and subnetworks, on tables that are made up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corewood.analyse.generalisation import spread
from corewood.evaluate.metrics import wilson
from corewood.report.core import sizes_chart
from corewood.report.dynamics import dynamics_chart
from corewood.report.page import done, holes
from corewood.report.spread import (
    agreed,
    difference_point,
    profiles_chart,
    same_in_domain_chart,
    sparsity_chart,
    spread_chart,
    spread_table,
    subnetwork_table,
)

SETS = (("validation", "all", "in-domain"), ("hard", "if", "challenge"))
FACTS = {"task": "t", "tuning": 0, "way": "l0"}
CHARTS = (spread_chart, same_in_domain_chart, profiles_chart, sparsity_chart, dynamics_chart)


def tables_of(
    metrics: dict[str, str], targets: dict[str, float], **values: list[tuple[float, float]]
) -> dict[str, pd.DataFrame]:
    """Of a model; `values` are subnetwork -> (right answers of 100, score) in domain and on a case."""
    rows = []
    for name, scores in values.items():
        who = {**FACTS, "way": "full" if name == "full" else "l0", "question": "full" if name == "full" else "prune"}
        who |= {"subnetwork": name, "target": targets.get(name, 0.0), "prune": "both", "seed": 0, "nested": False}
        for (dataset, case, domain), (correct, value) in zip(SETS, scores, strict=True):
            about = {"dataset": dataset, "case": case, "domain": domain, "metric": metrics[domain], "gold": "mixed"}
            score = {"n": 100, "correct": correct, "value": value, "low": value - 0.1, "high": value + 0.1}
            rows.append({**who, **about, **score, "checkpoint": 9, "group": "", "skill": "", "agreement": 1.0, "kl": 0.0})
    accuracy = pd.DataFrame(rows)
    sizes = accuracy.drop_duplicates("subnetwork")[[*FACTS, "question", "subnetwork", "target", "seed", "nested"]]
    sizes = sizes.assign(unseen_kl=0.1, heads=8, mlps=2, units=10, units_share=0.5, encoder_share=0.6, all_share=0.7)
    dynamics = accuracy[accuracy["way"] == "full"].drop(columns=["metric", "subnetwork"])
    return {"accuracy": accuracy, "spread": spread(accuracy).assign(**FACTS), "sizes": sizes, "dynamics": dynamics}


def data_of(chart: Any) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(rows) for rows in chart.to_dict(validate=False)["datasets"].values()], ignore_index=True)


def inside(chart: Any) -> pd.DataFrame:
    rows = data_of(chart)
    return rows[rows["where"] == "in domain"]


@pytest.fixture
def matthews() -> dict[str, pd.DataFrame]:
    metrics = {"in-domain": "matthews", "challenge": "accuracy"}
    values = {"full": [(95, 0.81), (70, 0.7)], "one": [(90, 0.61), (60, 0.6)], "two": [(92, 0.63), (50, 0.5)]}
    return tables_of(metrics, {"one": 0.5, "two": 0.5}, **values)


@pytest.fixture
def numbers() -> dict[str, pd.DataFrame]:
    none = float("nan")
    values = {"full": [(none, 0.81), (none, 0.72)], "one": [(none, 0.613), (none, -0.12)], "two": [(none, 0.6), (none, 0.5)]}
    return tables_of(dict.fromkeys(("in-domain", "challenge"), "pearson"), {"one": 0.5, "two": 0.5}, **values)


@pytest.fixture
def threshold() -> dict[str, pd.DataFrame]:
    values = {"full": [(95, 0.95), (70, 0.7)], "one": [(90, 0.9), (60, 0.6)]}
    return tables_of(dict.fromkeys(("in-domain", "challenge"), "accuracy"), {}, **values)


def test_what_is_called_accuracy_is_accuracy_whatever_the_metric_of_the_task(matthews: dict[str, pd.DataFrame]) -> None:
    dots = inside(spread_chart(matthews))
    one = dots[dots["subnetwork"] == "one"].iloc[0]
    assert (one["value"], one["low"], one["high"]) == pytest.approx((0.9, *map(float, wilson(90, 100))))
    bar = dots.dropna(subset="full").iloc[0]
    assert tuple(bar[["full", "min", "max", "mean", "range"]]) == pytest.approx((0.95, 0.9, 0.92, 0.91, 0.02))
    points = data_of(same_in_domain_chart(matthews)).set_index("subnetwork")["inside"]
    assert points.to_dict() == pytest.approx({"full": 0.95, "one": 0.9, "two": 0.92})
    cells = inside(profiles_chart(matthews)).set_index("subnetwork")["value"]
    assert cells.to_dict() == pytest.approx(points.to_dict())
    assert set(inside(sparsity_chart(matthews))["mean"].dropna().round(4)) == {0.95, 0.91}
    assert set(inside(dynamics_chart(matthews))["value"].dropna()) == {0.95}
    every = str(spread_table(matthews))
    assert all(f">{text}<" in every for text in ("95.0 %", "90.0 %", "92.0 %", "91.0 %", "1.4 %", "55.0 %"))
    assert ">61.0 %<" not in every
    assert ">90.0 %<" in str(subnetwork_table(matthews))
    assert ">61.0 %<" not in str(subnetwork_table(matthews))
    assert matthews["accuracy"]["value"].max() == 0.81  # the tables stay as they are


def test_where_answers_are_numbers_charts_and_tables_name_the_correlation(numbers: dict[str, pd.DataFrame]) -> None:
    for item in CHARTS:
        spec = json.dumps(item(numbers).to_dict(validate=False), ensure_ascii=False)
        assert "Pearson's correlation" in spec, item.name
        assert '"accuracy' not in spec, item.name
    (axis,) = [
        encoding["x"]["scale"]["domain"]
        for layer in spread_chart(numbers).to_dict(validate=False)["hconcat"][0]["layer"]
        if "scale" in (encoding := layer["encoding"])["x"]
    ][:1]
    assert axis == [pytest.approx(-0.2), 1]
    for made in (spread_table(numbers), subnetwork_table(numbers)):
        assert ">0.613<" in made
        assert ">-0.120<" in made
        assert "(Pearson&#x27;s correlation)" in made
        assert "61.3 %" not in made


def test_what_was_pruned_to_a_threshold_is_not_the_full_model(threshold: dict[str, pd.DataFrame]) -> None:
    points = data_of(same_in_domain_chart(threshold)).set_index("subnetwork")["size"]
    assert points.to_dict() == {"full": "full model", "one": "pruned to a threshold"}
    assert sparsity_chart(threshold) is None
    both = pd.concat([threshold["spread"], threshold["spread"].assign(target=0.5, mean=0.4)], ignore_index=True)
    shown = data_of(sparsity_chart({**threshold, "spread": both}))
    assert shown[shown["target"] == 0]["mean"].dropna().drop_duplicates().tolist() == [0.95, 0.7]  # the full model's
    table = pd.DataFrame(data_of(sizes_chart(threshold)))
    assert set(table["subnetwork"]) == {"one"}
    assert set(table["part"]) == {"pruned to a threshold"}
    assert sizes_chart({"sizes": threshold["sizes"].iloc[:1]}) is None
    full, one = str(subnetwork_table(threshold)).split("<tr data-subnetwork=")[1:]
    assert ">0.0 %<" in full
    assert ">0.0 %<" not in one


def test_one_subnetwork_is_spoken_of_as_one() -> None:
    case = {"target": 0.75, "subnetworks": 1, "inside_min": 0.9, "inside_max": 0.9, "inside_full": 0.95, "dataset": "hard"}
    case |= {"case": "if", "full": 0.7, "min": 0.2, "max": 0.2, "different": 1}
    assert agreed("m", "", pd.Series(case)) == (
        "With 75 % of the units removed, the one subnetwork of m has 90.0 % in domain (full model: 95.0 %), and loses “if”: "
        "70.0 % right becomes 20.0 %."
    )
    found = agreed("m", "", pd.Series({**case, "subnetworks": 3}))
    assert "3 searches found one subnetwork of m: it has 90.0 % in domain" in found
    assert "and loses “if”" in found
    said = agreed("m", "", pd.Series({**case, "subnetworks": 3, "different": 2, "target": 0.0}))
    assert said.startswith("Pruned to a threshold, all 3 subnetworks of m have 90.0 % in domain")
    assert "and all lose “if”" in said


def test_how_many_comparisons_differ() -> None:
    sets = pd.DataFrame({"dataset": ["validation", "hard"], "domain": ["in-domain", "challenge"]})

    def said(*real: bool) -> str:
        rows = [("validation", "all", False), *(("hard", f"case {i}", one) for i, one in enumerate(real))]
        tests = pd.DataFrame(rows, columns=["dataset", "case", "real"]).assign(one="a", other="b")
        return str(difference_point.make({"differences": tests, "spread": sets})[0])

    start = "Two subnetworks of one sparsity, compared on one case,"
    assert said(False).startswith(f"{start} do not differ by more than chance; in domain, 0 of 1 do")
    assert said(True).startswith(f"{start} differ by more than chance")
    assert "Of 2 comparisons of two subnetworks of one sparsity on one case, 1 differs by more" in said(True, False)
    assert "on one case, 2 differ by more" in said(True, True)


def test_a_mask_is_not_compared_with_itself_and_whole_sets_are_counted() -> None:
    sets = pd.DataFrame({"dataset": ["validation", "hard"], "domain": ["in-domain", "challenge"]})
    cases = [("validation", "all"), ("hard", "all"), ("hard", "if"), ("hard", "or")]
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    rows = [(*pair, *case, case == ("hard", "all") and pair != ("a", "b")) for pair in pairs for case in cases]
    tests = pd.DataFrame(rows, columns=["one", "other", "dataset", "case", "real"])
    kept = {"a": [True, False], "b": [True, False], "c": [False, True]}  # a and b are one mask
    masks = pd.DataFrame([(name, one) for name, each in kept.items() for one in each], columns=["subnetwork", "kept"])
    (said,) = difference_point.make({"differences": tests, "spread": sets, "masks": masks})
    assert said.startswith("Of 4 comparisons of two subnetworks of one sparsity on one case, 0 differ by more than chance; ")
    assert "on all cases of a set together, 2 of 2 do; in domain, 0 of 2 do" in said


def test_the_lead_and_the_holes_count_in_the_right_number(threshold: dict[str, pd.DataFrame]) -> None:
    tables = {"scores": threshold["accuracy"], "sizes": threshold["sizes"]}
    assert "here, 1 is pruned to a threshold." in done(tables, "m")
    twice = pd.concat([threshold["sizes"], threshold["sizes"].iloc[1:]])
    assert "here, 2 are pruned to a threshold." in done({**tables, "sizes": twice}, "m")
    sized = threshold["sizes"].assign(target=np.array([0.0, 0.5]))
    assert "here, 1 has 50 % removed." in done({**tables, "sizes": sized}, "m")
    missing = pd.DataFrame({"job": ["a", "b"], "reason": ["killed", "killed"]})
    assert "<b>1 job has no result</b>, and nothing stands in for it:" in holes({"holes": missing[:1]})
    assert "<b>2 jobs have no result</b>, and nothing stands in for them:" in holes({"holes": missing})
