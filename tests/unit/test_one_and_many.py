"""What a report says of one head, of one model, and of the least p that draws can give, from made-up tables."""

from __future__ import annotations

import pandas as pd
import pytest

from corewood.analyse.core import DRAWS
from corewood.report.attention import attention_point
from corewood.report.core import core_point, tunings_point
from corewood.report.models import unlearnt
from corewood.report.survivors import stability_point


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        (0, "No head is in all 4 subnetworks: they have no core."),
        (1, "One head of the model is in all 4 subnetworks: its core (chance would give 0.1)."),
        (5, "5 heads of the model are in all 4 subnetworks: its core (chance would give 0.1)."),
    ],
)
def test_heads_of_the_core(heads: int, says: str) -> None:
    table = pd.DataFrame([{"heads": heads, "masks": 4, "expected": 0.1, "members": "L0.H0"}])
    assert core_point.make({"core": table}) == [says]


@pytest.mark.parametrize(
    ("own", "shared", "says"),
    [
        ((1, 1), 1, "the core of one fine-tuning has 1 head; 1 is in all 4 subnetworks"),
        ((1, 3), 0, "the core of one fine-tuning has 1 to 3 heads; 0 are in all 4 subnetworks"),
        ((3, 3), 2, "the core of one fine-tuning has 3 heads; 2 are in all 4 subnetworks"),
    ],
)
def test_cores_of_fine_tunings(own: tuple[int, int], shared: int, says: str) -> None:
    rows = [{"tuning": tuning, "definition": "all", "heads": heads, "masks": 2} for tuning, heads in enumerate(own)]
    rows.append({"tuning": -1, "definition": "all of all fine-tunings", "heads": shared, "masks": 4})
    table = pd.DataFrame(rows).assign(task="t", way="l0", expected=0.1, p=0.01)
    (said,) = tunings_point.make({"core_tunings": table})
    assert says in said


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (["previous"], "What the one core head attends to most: the previous token."),
        (["spread out"], "The one core head does not send a fifth of its attention beyond chance to one kind of place."),
        (
            ["spread out"] * 2,
            "None of the 2 core heads sends a fifth of its attention beyond chance to one kind of place.",
        ),
        (
            ["previous", "previous", "first", "spread out"],
            "What the 4 core heads attend to most: 2 of them the previous token, 1 of them the first token; "
            "1 spreads its attention out.",
        ),
        (
            ["previous", "spread out", "spread out"],
            "What the 3 core heads attend to most: 1 of them the previous token; 2 spread their attention out.",
        ),
    ],
)
def test_what_core_heads_attend_to(does: list[str], says: str) -> None:
    rows = [{"unit": f"L0.H{head}", "core": True, "does": kind} for head, kind in enumerate(does)]
    rows.append({"unit": "L1.H0", "core": False, "does": "next"})
    assert attention_point.make({"attention": pd.DataFrame(rows)}) == [says]


@pytest.mark.parametrize(
    ("learnt", "says"),
    [
        ([False, True, True], "1 of 3 models has not learnt its task, as far as 60 examples tell (“a”; 50.0 % right"),
        (
            [False, False, True],
            "2 of 3 models have not learnt their task, as far as 60 examples tell (“a” and “b”; the first: ",
        ),
        ([False, False, False], "None of the 3 models has learnt its task, as far as 60 examples tell (“a”, “b” and “c”; the"),
    ],
)
def test_models_that_have_not_learnt_their_task(learnt: list[bool], says: str) -> None:
    facts = {"metric": "accuracy", "value": 0.5, "floor": 0.5, "answer": "x", "answer_share": 0.5, "n": 60}
    table = pd.DataFrame([{"task": task, "learnt": fine, **facts} for task, fine in zip("abc", learnt, strict=True)])
    assert unlearnt({"models": table}, "m").startswith(says)


def test_the_least_p_of_all_draws_is_a_bound() -> None:
    row = {"task": "t", "way": "l0", "target": 0.5, "prune": "both", "over": "searches", "kind": "head", "masks": 3}
    found = {"fleiss": 0.7, "fleiss_expected": 0.0, "fleiss_p": 1 / (DRAWS + 1), "fleiss_p_layers": 0.012}
    (said,) = stability_point.make({"stability": pd.DataFrame([{**row, **found}])})
    assert said.endswith("(p ≤ 0.0005; with as many heads in each layer p = 0.012).")
