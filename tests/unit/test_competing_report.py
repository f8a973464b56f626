"""What the report says of competing subnetworks and of the core alone, from tables that plant the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from corewood.report.competing import competing_chart, competing_points
from corewood.report.core_alone import core_alone_points
from corewood.report.models import plain
from corewood.report.ways import parted, spoken


def competing(kl: dict[str, list[float]], cases: dict[str, float], faithful: dict[str, list[bool]]) -> dict[str, pd.DataFrame]:
    rows, scores = [], []
    for way, values in kl.items():
        for seed, value in enumerate(values):
            facts = {"task": "t", "tuning": 0, "target": 0.5, "nested": False, "seed": seed, "way": way}
            name, units = f"{way}-{seed}", "" if way == "l0" else "L0.H1 L2.H3"
            facts |= {"subnetwork": name, "asked": "core" if units else "", "pinned": len(units.split()), "units": units}
            facts |= {"unseen_kl": value, "lowest_kl": min(kl["l0"]), "metric": "accuracy", "in_domain": 0.9}
            rows.append({**facts, "cases": cases[way], "shared": 0.5, "faithful": faithful[way][seed]})
            for case, shift in (("easy", 0.1), ("hard", -0.1 if way == "l0" else -0.3)):
                where = {"dataset": "cases", "case": case, "domain": "challenge", "metric": "accuracy"}
                scores.append({**facts, **where, "value": cases[way] + shift})
    return {"competing": pd.DataFrame(rows), "scores": pd.DataFrame(scores)}


def test_a_faithful_subnetwork_without_the_core_is_told_with_its_cost() -> None:
    tables = competing(
        {"l0": [0.01, 0.02], "l0 without": [0.013, 0.1]},
        {"l0": 0.8, "l0 without": 0.6},
        {"l0": [True, False], "l0 without": [True, False]},
    )
    (said,) = competing_points.make(tables)
    assert said.startswith(
        "Is there a faithful subnetwork that holds none of the core (2 heads)? Yes, with 50 % removed: 1 of 2"
    )
    assert (
        "KL on unseen texts is 0.0565 (0.015 in plain searches), in domain 90.0 % (90.0 %) and the cases 60.0 % (80.0 %)"
        in said
    )
    assert said.endswith("; most is lost on “hard”, 30.0 % (70.0 %).")
    tables["competing"]["faithful"] = tables["competing"]["way"] == "l0"
    assert "None was found, with 50 % removed: 0 of 2 searches ended" in competing_points.make(tables)[0]
    assert competing_chart(tables).to_dict()


def alone(core: dict[str, float], inside: float) -> dict[str, pd.DataFrame]:
    """`core`: label -> share right on the cases; of the full model 0.9 of each."""
    rows = []
    for way, right, value in (("full", {"yes": 0.9, "no": 0.9}, 0.95), ("core", core, inside)):
        facts = {"task": "t", "tuning": 0, "way": way, "target": 0.0, "subnetworks": 1, "heads": 7.0, "mlps": 6.0}
        for label, other in (("yes", "no"), ("no", "yes")):
            answered = 0.5 * right[label] + 0.5 * (1 - right[other])
            challenge = {"dataset": "cases", "domain": "challenge", "n": 100, "answered": answered, "right": right[label]}
            rows.append({**facts, **challenge, "label": label, "value": (right["yes"] + right["no"]) / 2})
            known = {"dataset": "validation", "domain": "in-domain", "n": 60 if label == "no" else 40, "answered": 0.5}
            rows.append({**facts, **known, "label": label, "right": value, "value": value})
    return {"core_alone": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("core", "inside", "verdict"),
    [
        ({"yes": 0.98, "no": 0.1}, 0.85, "Yes: it keeps what “yes” answers, and loses 80 points on the rest."),
        ({"yes": 0.89, "no": 0.91}, 0.93, "No: it keeps both kinds."),
        ({"yes": 0.5, "no": 0.3}, 0.85, "It loses both kinds."),
        ({"yes": 1.0, "no": 0.0}, 0.6, "Alone it does not do the task, where one and the same answer gets 60.0 %."),
    ],
)
def test_whether_the_core_alone_follows_the_shortcut(core: dict[str, float], inside: float, verdict: str) -> None:
    (said,) = core_alone_points.make(alone(core, inside))
    assert said.startswith(
        f"Does the core alone follow the shortcut? With its 7 heads and all MLPs it gets {100 * inside:.1f} % right"
    )
    assert said.endswith(verdict)
    label = "yes" if core["yes"] > core["no"] else "no"
    other = {"yes": "no", "no": "yes"}[label]
    share = 50 * core[label] + 50 * (1 - core[other])
    assert f"It answers “{label}” to {share:.1f} % of all examples of “cases” (full model: 50.0 %)" in said
    assert f"right on {100 * core[label]:.1f} % of those whose answer that is (90.0 %) and on {100 * core[other]:.1f} %" in said


def test_a_kind_that_falls_although_its_answer_is_given_more_often_is_not_kept() -> None:
    tables = alone({"yes": 0.8, "no": 0.88}, 0.9)
    rows = tables["core_alone"]
    core = (rows["way"] == "core") & (rows["domain"] == "challenge")
    rows.loc[core & (rows["label"] == "yes"), "answered"] = 0.9
    rows.loc[core & (rows["label"] == "no"), "answered"] = 0.1
    (said,) = core_alone_points.make(tables)
    assert said.endswith("No: it keeps the others, and loses those, although it gives that answer more often.")


def test_a_set_with_one_kind_of_answer_says_nothing_of_the_other() -> None:
    tables = alone({"yes": 0.98, "no": 0.1}, 0.9)
    rows = tables["core_alone"]
    none = (rows["domain"] == "challenge") & (rows["label"] == "no")
    rows.loc[none, ["n", "right"]] = 0, np.nan
    (said,) = core_alone_points.make(tables)
    assert "nan" not in said
    assert said.endswith("The set has one kind of answer, so that a shortcut cannot be told from the skill.")


def test_what_is_said_of_plain_searches_leaves_out_those_beside_them() -> None:
    spread = pd.DataFrame({"way": ["l0", "l0 without", "core + random"], "x": [1, 2, 3]})
    kept = plain(
        {"spread": spread, "ways": spread, "tunings": spread[1:], "holes": spread[:0], "models": pd.DataFrame({"a": [1]})}
    )
    assert kept["spread"]["way"].tolist() == ["l0"]
    assert len(kept["ways"]) == 3
    assert set(kept) == {"spread", "ways", "holes", "models"}


def test_ways_are_told_from_the_sizes_they_were_asked_for() -> None:
    assert parted("l0 without 50 %") == ("l0 without", "50 %")
    assert spoken("l0 without 50 %") == "L0 without to 50 %"
    assert spoken("l0 60 %") == "L0 to 60 %"
    assert spoken("importance") == "s-pruning"
    assert spoken("core + random") == "core + random"
