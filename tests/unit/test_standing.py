"""What a report says of where subnetworks stand."""

from __future__ import annotations

import pandas as pd
import pytest

from corewood.report import standing
from corewood.report.items import said_of
from corewood.report.models import models_of
from corewood.report.page import VEGA_LITE, vl_convert
from corewood.report.style import styled


def standing_of(tuning: int = 0, **kls: list[float]) -> pd.DataFrame:
    """By way; targets in turn."""
    facts = {"task": "t", "tuning": tuning, "prune": "both", "seed": 0, "draw": 0, "heads": 3.0, "mlps": 1.0}
    rows = [
        {**facts, "way": way, "target": target, "subnetwork": f"{way}-{target}", "held_kl": kl}
        for way, values in kls.items()
        for target, kl in zip((0.5, 0.5, 0.75), values, strict=False)
    ]
    return pd.DataFrame(rows)


GOOD = standing_of(l0=[0.00028, 0.0004, 0.021], random=[1.1, 0.93, 2.31], importance=[0.2])


def test_the_sentence_has_both_ends_of_each() -> None:
    (said,) = said_of(standing, {"standing": GOOD}, single=False, sure=True)
    assert "with 50 % removed 0.00028 to 0.0004 (importance 0.2; random masks of that size 0.93 to 1.1)" in said
    assert "with 75 % removed 0.021 (random masks of that size 2.3)" in said
    assert "no closer" not in said


def test_a_search_that_ends_among_random_masks_is_told() -> None:
    (said,) = said_of(standing, {"standing": standing_of(l0=[0.1, 0.95, 0.2], random=[1.1, 0.93, 2.3])}, single=True, sure=True)
    assert said.endswith("Some searches end no closer to it than a random mask does (50 % removed).")


def test_of_several_models_nothing_is_said_at_the_top_and_each_has_its_own_chart() -> None:
    both = pd.concat([GOOD, standing_of(1, l0=[0.3], random=[1.0])], ignore_index=True)
    assert said_of(standing, {"standing": both}, single=False, sure=True) == []
    groups = pd.DataFrame([{"task": "t", "tuning": t, "way": way} for t in (0, 1) for way in ("l0", "importance")])
    found = models_of({"standing": both, "spread": groups, "scores": groups.assign(question="prune", way="l0")})
    own = {m.label: m.tables.get("standing") for m in found}
    assert own["seed 0, importance"] is None  # with the first way of a model, all of its ways
    assert len(own["seed 0, l0"]) == len(GOOD)  # type: ignore[arg-type]
    assert set(own["seed 1, l0"]["way"]) == {"l0", "random"}  # type: ignore[index]


def test_what_is_drawn_and_tabled() -> None:
    zero = standing_of(l0=[0.0, 0.1], random=[1.1, 0.9])  # the full model's own answers: a logarithm has no zero
    chart = styled(standing.standing_chart({"standing": zero}))
    assert vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE).startswith("<svg")
    html = standing.standing_table({"standing": GOOD.assign(mlps=[1.0, 2.0, 1.0, 1.0, 1.0, 1.0, None])})
    assert "1 to 2" in html
    assert html.count("<tr>") == 1 + 5  # L0 and random of two sizes, importance of one


@pytest.mark.parametrize("missing", ["l0", "random"])
def test_without_something_to_stand_beside_nothing_is_said(missing: str) -> None:
    assert said_of(standing, {"standing": GOOD[GOOD["way"] != missing]}, single=True, sure=True) == []
