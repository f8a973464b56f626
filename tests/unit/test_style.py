"""Colours that all readers can tell apart, dots that do not hide each other, and the names of lines."""

from __future__ import annotations

from itertools import combinations, pairwise

import pandas as pd
import pytest
from colours import contrast, difference

from corewood.report.dynamics import dynamics_chart, skills_over_training_chart
from corewood.report.glossary import GLOSSARY, READING
from corewood.report.items import items_of
from corewood.report.lines import movers, names_at_ends, stacked
from corewood.report.page import QUESTIONS, sources, with_terms
from corewood.report.style import DARK, DASHES, GREENS, INK, LINES, MARK, PAPER, RED_TO_BLUE, dodged

SCHEMES = {"light": {}, "dark": DARK}


def on(scheme: str, colour: str) -> str:
    return SCHEMES[scheme].get(colour, colour)


def test_machado_s_matrix_leaves_greys_and_mixes_red_with_green() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21, abs=0.05)
    assert difference("#808080", "#818181") < 1
    assert difference("#b5472f", "#5f8f2f") < 6  # red and moss, which others tell apart


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rings_are_seen_on_every_shade(scheme: str) -> None:
    ring, halo = on(scheme, INK), on(scheme, PAPER)
    assert contrast(ring, halo) > 7
    for shade in (*GREENS, *RED_TO_BLUE):
        assert max(contrast(ring, on(scheme, shade)), contrast(halo, on(scheme, shade))) > 3, shade


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_differ_in_colour_or_in_dash(scheme: str) -> None:
    assert len({tuple(dash) for dash in DASHES}) == len(DASHES)
    for one, other in combinations(range(len(LINES)), 2):
        alike = difference(on(scheme, LINES[one]), on(scheme, LINES[other])) < 20
        assert not alike or one % len(DASHES) != other % len(DASHES), (LINES[one], LINES[other])
    assert min(difference(on(scheme, a), on(scheme, b)) for a, b in combinations(LINES[:4], 2)) > 20


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_are_seen_on_the_card(scheme: str) -> None:
    card = on(scheme, PAPER)
    for colour in (INK, MARK, GREENS[4], GREENS[3], *LINES):
        assert contrast(on(scheme, colour), card) > (2.5 if colour == LINES[2] else 3), colour


def test_every_colour_of_the_charts_has_a_dark_one() -> None:
    assert {INK, PAPER, MARK, *GREENS, *RED_TO_BLUE, *LINES} <= set(DARK)
    shades = [contrast(DARK[shade], DARK[PAPER]) for shade in GREENS]
    assert shades == sorted(shades)  # the stronger, the further from the card, as on a light page


def test_dots_of_one_row_lie_apart() -> None:
    assert dodged([1.0, 1.0, 1.0, 0.5], 0.02) == [0, 1, 2, 0]
    values = [0.31, 0.30, 0.315, 0.9, 0.302, 0.34, 0.899]
    rows = dodged(values, 0.02)
    for (a, row), (b, other) in combinations(zip(values, rows, strict=True), 2):
        assert row != other or abs(a - b) >= 0.02
    assert dodged([0.1, 0.2, 0.3], 0.02) == [0, 0, 0]  # nothing moves without need


def test_names_of_lines_do_not_lie_on_each_other() -> None:
    found = stacked([1.0, 1.0, 0.99, 0.5, 0.0, 0.0], 0.04, 0.0)
    assert all(a - b >= 0.04 - 1e-9 for a, b in pairwise(found))
    assert found[3] == 0.5
    assert min(found) >= 0
    assert stacked([0.5, -0.3], 0.04, -0.4) == [0.5, -0.3]  # correlations have room below 0


def lines(**cases: list[float]) -> pd.DataFrame:
    rows = [
        {"where": name, "domain": "in-domain" if name == "inside" else "challenge", "step": step, "value": value}
        for name, values in cases.items()
        for step, value in enumerate(values)
    ]
    return pd.DataFrame(rows).assign(inside=lambda t: t["domain"] == "in-domain")


def test_cases_that_move_and_stand_apart_have_their_names() -> None:
    many = {f"level {i}": [0.9, 0.9, 0.9] for i in range(8)}
    table = lines(inside=[0.5, 0.9, 1.0], falls=[0.9, 0.5, 0.1], dips=[0.9, 0.8, 0.9], never=[0.0, 0.0, 0.0], **many)
    assert movers(table, "step", "value") == ["falls", "dips"]  # what is level has none, however low
    ends = names_at_ends(table, "step", "value", ["falls", "dips"], [0, 1]).set_index("where")
    assert list(ends.index) == ["inside", "dips", "falls"]
    assert ends.loc["falls", "step"] == 2
    assert ends.loc["falls", "at"] == pytest.approx(0.1)


@pytest.mark.parametrize(("correct", "wanted"), [(3, ([0, 1], ".0%", "accuracy")), (None, ([-0.3, 1], None, "Pearson"))])
def test_lines_have_the_scale_of_their_scores(correct: float | None, wanted: tuple[list[float], str | None, str]) -> None:
    facts = {"dataset": "d", "case": "all", "metric": "pearson", "n": 4, "correct": correct, "low": 0.0, "high": 1.0}
    every = lines(inside=[0.5, 0.9], other=[0.2, -0.25]).drop(columns="inside").rename(columns={"step": "checkpoint"})
    every = every.assign(**facts)
    drawn = dynamics_chart({"dynamics": every, "accuracy": every}).to_dict()
    y = next(layer["encoding"]["y"] for layer in drawn["layer"] if "title" in layer["encoding"]["y"])
    scale, form, measure = wanted
    assert y["scale"]["domain"] == scale
    assert y.get("axis", {}).get("format") == form
    assert y["title"].startswith(measure)


def test_skills_over_training_are_the_full_models_auc() -> None:
    facts = {"dataset": "d", "domain": "challenge", "n": 4, "low": 0.0, "high": 1.0}
    rows = [
        {**facts, "way": way, "metric": metric, "case": skill, "checkpoint": step, "value": value}
        for way, metric, skill, values in (
            ("full", "auc", "if / because", (0.5, 0.97)),
            ("full", "auc", "all", (0.5, 0.64)),
            ("full", "d-prime", "if / because", (0.0, 2.0)),
            ("l0", "auc", "if / because", (0.1, 0.2)),
        )
        for step, value in zip((0, 40), values, strict=True)
    ]
    made = skills_over_training_chart.make
    drawn = made({"skill_scores": pd.DataFrame(rows)}).to_dict()
    data = pd.concat([pd.DataFrame(table) for table in drawn["datasets"].values()])
    assert set(data["value"].dropna()) == {0.5, 0.97, 0.64}
    y = next(layer["encoding"]["y"] for layer in drawn["layer"] if "title" in layer["encoding"]["y"])
    assert (y["scale"]["domain"], y["title"]) == ([0.5, 1], "AUC of the full model")
    assert made({"skill_scores": pd.DataFrame(rows).query("checkpoint == 40")}) is None


def test_words_of_the_glossary_have_their_meaning_once() -> None:
    made = with_terms("Subnetworks of one sparsity: a subnetwork <b> of the full model")
    assert made.count('class="term"') == 3
    assert ">Subnetworks</span> of one" in made
    assert "a subnetwork &lt;b&gt; of" in made
    assert 'data-meaning="The model without a mask: nothing is removed."' in made
    assert GLOSSARY["full"].startswith("The model without a mask")


def test_every_chart_says_how_to_read_it() -> None:
    charts = {item.name for question in QUESTIONS for item in items_of(question) if not item.table}
    assert charts <= set(READING)


def test_charts_name_the_tables_on_disk() -> None:
    by_name = {item.name: item for question in QUESTIONS for item in items_of(question)}
    empty = pd.DataFrame()
    tables = dict.fromkeys(("scores", "spread", "ablation", "attention"), empty)
    assert sources(by_name["same-in-domain"], tables) == ["spread", "scores"]
    assert sources(by_name["ablation-skills"], tables) == ["ablation"]
    assert sources(by_name["attention-over-training"], tables) == ["attention"]
