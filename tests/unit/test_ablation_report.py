"""What a report says of heads removed together, and of heads over training, from made-up tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from corewood.analyse.ablation import ablation_rows, paired_interval, widened
from corewood.report.ablations import over_training_chart, smaller_sets, together_point
from corewood.report.attention import over_training_chart as attention_chart
from corewood.report.attention import over_training_point

N = 200
HALF = np.arange(N) % 2 == 0
WHOLE = [("all", "", np.ones(N, bool))]


def table(right: dict[tuple[str, ...], np.ndarray], core: list[str], **sets: str) -> pd.DataFrame:
    """Of a model that is always right, in domain."""
    rows = ablation_rows(np.ones(N, bool), right, WHOLE, core, heads=24)
    facts = {"focus": "", "dataset": "validation", "domain": "in-domain", "checkpoint": 30}
    names = {name.replace("_", " + "): value for name, value in sets.items()}
    return rows.assign(set=[names.get(units, "") for units in rows["units"]], **facts)


def said(rows: pd.DataFrame) -> str:
    return " ".join(together_point.make({"ablation": rows}))


def test_stand_ins_steps_of_one_path_and_neither() -> None:
    ones, names = np.ones(N, bool), ["A.H0", "B.H0"]
    alone, both = {("A.H0",): ones, ("B.H0",): ones}, ("A.H0", "B.H0")
    pair = {"A.H0_B.H0": "top 2, pair"}
    stand_in = said(table({**alone, both: HALF}, names, **pair))
    assert "(A.H0 and B.H0, which do most alone), one matters clearly more together than apart" in stand_in
    assert (
        "their heads stand in for each other (most: A.H0 + B.H0, −50.0 in domain, where single changes add up to 0.0)"
        in stand_in
    )
    steps = said(table({("A.H0",): HALF, ("B.H0",): HALF, both: HALF}, names, **pair))
    assert "one matters clearly less together than apart, as steps of one path do" in steps
    assert "−50.0 in domain, where single changes add up to −100.0" in steps
    quarter = np.arange(N) % 4 != 0
    other = np.arange(N) % 4 != 1
    apart = said(table({("A.H0",): quarter, ("B.H0",): other, both: quarter & other}, names, **pair))
    assert "none matters clearly more or less than its heads do one by one" in apart


def test_gains_count_like_losses() -> None:
    """A shortcut that either of two heads can compute: without both of them more is right."""
    full = ~HALF
    rows = ablation_rows(
        full, {("A.H0",): full, ("B.H0",): full, ("A.H0", "B.H0"): np.ones(N, bool)}, WHOLE, ["A.H0", "B.H0"], 9
    )
    rows = rows.assign(set="pair", focus="", dataset="validation", domain="in-domain")
    assert "stand in for each other (most: A.H0 + B.H0, +50.0 in domain" in said(rows)


@pytest.mark.parametrize(
    ("joint", "apart", "says"),
    [
        (-3.0, 10.0, "clearly more"),
        (3.0, -10.0, "clearly more"),
        (-30.0, -10.0, "clearly more"),
        (-10.0, -30.0, "clearly less"),
        (10.0, 30.0, "clearly less"),
        (0.0, 10.0, "clearly less"),
    ],
)
def test_more_together_is_an_interaction_with_the_sign_of_the_joint_change(joint: float, apart: float, says: str) -> None:
    """As the caption of the chart says, whichever of the two is larger."""
    beyond = joint - apart
    ends = {"interaction": beyond, "interaction_low": beyond - 2, "interaction_high": beyond + 2, "pure": beyond}
    row = {"units": "A + B", "set": "pair", "size": 2, "where": "on hard", "change": joint, **ends}
    (text,) = smaller_sets(pd.DataFrame([row]))
    assert f"one matters {says} together than apart" in text


def test_a_whole_core_is_spoken_of_on_its_own() -> None:
    names = ["A.H0", "B.H0", "C.H0"]
    alone = {(name,): np.ones(N, bool) for name in names}
    text = said(table({**alone, tuple(names): HALF}, names, **{"A.H0_B.H0_C.H0": "core"}))
    assert text == (
        "All 3 heads of the core removed at once change accuracy, in points, by −50.0 in domain, where single changes add up "
        "to 0.0: together they matter more than apart, so core heads stand in for each other."
    )


def test_intervals_of_many_sets_are_wider() -> None:
    changes = np.repeat([-1.0, 0.0], [8, 192])
    low, high = paired_interval(changes)
    found = widened(pd.Series([low]), pd.Series([high]), 20)
    padded = np.concatenate([changes, [1, -1]])
    half = norm.ppf(1 - 0.05 / 40) * padded.std() / np.sqrt(len(padded))
    assert (found[0][0], found[1][0]) == pytest.approx((padded.mean() - half, padded.mean() + half))
    assert high < 0 < found[1][0]  # one of twenty such is no finding


def scores(step: int, share: float, core: bool = True) -> pd.DataFrame:
    kinds = {"same word, other sentence": share, "first": 0.2}
    rows = [
        {"layer": 2, "head": head, "kind": kind, "mean": mean - 0.3 * (head == 1), "low": 0.0, "high": 1.0, "uniform": 0.08}
        for head in (9, 1)
        for kind, mean in kinds.items()
    ]
    table = pd.DataFrame(rows).assign(examples=10, unit=lambda t: "L2.H" + t["head"].astype(str), core=core, checkpoint=step)
    return table.assign(does="same word, other sentence")


def test_what_a_head_attended_to_before_fine_tuning() -> None:
    last = scores(200, 0.841)
    tables = {"attention": last, "attention_over_training": pd.concat([last, scores(0, 0.787)], ignore_index=True)}
    assert over_training_point.make(tables) == [
        "L2.H9 sends 84 % of its attention (from words that both sentences have) to the same word in the other sentence after "
        "fine-tuning, 79 % before it."
    ]
    later = {**tables, "attention_over_training": pd.concat([last, scores(40, 0.5)], ignore_index=True)}
    assert over_training_point.make(later)[0].endswith("after fine-tuning, 50 % at step 40.")
    spec = attention_chart(tables).to_dict()
    assert "to the same word in the other sentence" in str(spec)
    faint = scores(200, 0.2)
    assert over_training_point.make({"attention": faint, "attention_over_training": faint}) == []


def test_lines_of_core_heads_and_hollow_points_before_training() -> None:
    rows = table({("L0.H0",): HALF, ("L0.H1",): np.ones(N, bool)}, ["L0.H0"])
    both = pd.concat([rows, rows.assign(checkpoint=0)], ignore_index=True)
    spec = over_training_chart({"ablation_over_training": both}).to_dict()
    drawn = {row["units"] for values in spec["datasets"].values() for row in values}
    assert drawn == {"L0.H0"}  # of the core alone
    assert sum(layer["mark"].get("filled") is False for layer in spec["hconcat"][0]["layer"]) == 1
