"""The examples behind the dots, in a real browser: the right ones, with filters, beside another subnetwork, as CSV."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from corewood.evaluate.examples import A_CASE
from corewood.report.page import draw
from corewood.report.page import page as report_page
from corewood.study.run import Outcome

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; un-skip by installing it (apt-get install chromium)"
)
PANEL = "#examples-panel"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("examples")
    return small.run(small.write_study(folder), folder / "store")


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        found, complaints = opened(browser, outcome.report / "report.html")
        yield found
        assert complaints == []
        browser.close()


def opened(browser: Browser, path: Path) -> tuple[Page, list[str]]:
    page, complaints = browser.new_page(viewport={"width": 1700, "height": 900}), list[str]()
    page.on("console", lambda m: complaints.append(m.text))
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(f"file://{path}")
    page.wait_for_function("document.querySelectorAll('.chart').length == document.querySelectorAll('[data-drawn]').length")
    return page, complaints


@pytest.fixture(autouse=True)
def _closed(page: Page) -> Iterator[None]:
    yield
    page.keyboard.press("Escape")


def mark(page: Page, chart: str, kind: str, *words: str) -> Locator:
    """A mark by what it says of itself."""
    marks = page.locator(f"#chart-{chart} svg.marks .mark-{kind}.role-mark path")
    labels = marks.evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    place = next(i for i, label in enumerate(labels) if all(f": {word};" in f"{label};" for word in words))
    return marks.nth(place)


def choose(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.select_option(f"{PANEL} [name={name}]", value)


def copied(page: Page) -> pd.DataFrame:
    """What is copied, taken before it reaches the clipboard."""
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.taken = text; }; }")
    page.locator(f"{PANEL} .copy").click()
    page.wait_for_function("window.taken !== undefined")
    return pd.read_csv(io.StringIO(page.evaluate("() => { const text = window.taken; delete window.taken; return text; }")))


def same_rows(found: pd.DataFrame, wanted: pd.DataFrame, columns: list[str]) -> None:
    """As outcome.examples has them, probabilities in whole per cents."""
    keys = ["dataset", "example"]
    found, wanted = (rows.set_index(keys).sort_index() for rows in (found, wanted))
    assert found.index.tolist() == wanted.index.tolist()
    for column in columns:
        if column.endswith("_p"):
            assert found[column].to_numpy() == pytest.approx(wanted[column].to_numpy(float), abs=0.0051)
        else:
            assert found[column].tolist() == wanted[column].tolist()


SAID = ["first", "second", "gold", "full", "full_p", "answer", "answer_p", "which"]


def a_change(outcome: Outcome) -> tuple[str, str, pd.DataFrame]:
    """A subnetwork and a case in which it has lost something, and no other of its size has that accuracy."""
    scores = outcome.tables["scores"]
    cases = scores[(scores["question"] == "prune") & (scores["dataset"] == "cases") & (scores["metric"] == "accuracy")]
    alone = cases[~cases.duplicated(["target", "case", "value"], keep=False) & (cases["case"] != "all")]
    for name, case in zip(alone["subnetwork"], alone["case"], strict=True):
        lost = outcome.examples(name, case, which="lost", dataset="cases")
        if len(lost):
            return name, case, lost
    raise AssertionError("nothing was lost")


def test_a_click_on_a_dot_or_a_cell_shows_what_it_lost_there(page: Page, outcome: Outcome) -> None:
    assert outcome.tables["changes"]["n"].max() <= A_CASE  # so that the page has all that differ
    name, case, lost = a_change(outcome)
    for chart, kind in (("spread", "symbol"), ("profiles", "rect")):
        mark(page, chart, kind, case, name).click(force=True)
        assert page.locator(f"{PANEL} h2").inner_text() == f"{name} beside the full model"
        assert page.locator(f"{PANEL} [name=choice] option:checked").inner_text() == case
        assert page.locator(f"{PANEL} [name=which]").input_value() == "lost"
        assert page.locator(f"{PANEL} li").count() == len(lost)
        same_rows(copied(page), lost, SAID)
        shown = page.locator(f"{PANEL} li").first.inner_text()
        number = int(re.search(r"cases (\d+)", shown)[1])  # type: ignore[index]
        row = lost[lost["example"] == number].iloc[0]
        for text in (row["first"], row["second"], f"✓ {row['full']} {100 * row['full_p']:.0f} %", f"✗ {row['answer']}"):
            assert text in shown
        assert "all there are" in page.locator(f"{PANEL} .count").inner_text()
        page.keyboard.press("Escape")


def test_what_is_shown_is_a_choice(page: Page, outcome: Outcome) -> None:
    name, case, _ = a_change(outcome)
    page.locator("#subnetworks button.who", has_text=name).click()
    assert page.locator(f"{PANEL} [name=choice]").input_value() == ""
    for which in ("lost", "gained", "differ", "wrong"):
        choose(page, which=which)
        wanted = outcome.examples(name, which=which)  # type: ignore[arg-type]
        shown = page.locator(f"{PANEL} [name=which] option[value={which}]").inner_text()
        assert shown.endswith(f"({len(wanted)})")  # all there are, on the page or not
        if which == "wrong":  # of these the page has those that some subnetwork answers differently
            assert len(copied(page)) <= len(wanted)
        else:
            same_rows(copied(page), wanted, SAID)
    choose(page, which="differ")
    wanted = outcome.examples(name)
    word = wanted["second"].iloc[0].split()[1]
    page.fill(f"{PANEL} [name=text]", word.upper())
    inside = wanted["first"].str.contains(word) | wanted["second"].str.contains(word)
    assert 0 < inside.sum() < len(wanted)
    same_rows(copied(page), wanted[inside], SAID)
    page.fill(f"{PANEL} [name=text]", "")
    page.locator(f"{PANEL} [name=choice]").select_option(label=case)
    same_rows(copied(page), wanted[wanted["case"] == case], SAID)
    gaps = copied(page).assign(gap=lambda t: np.abs(t["full_p"] - (1 - t["answer_p"])))["gap"]  # two labels: one is right
    assert gaps.is_monotonic_decreasing


def test_two_that_are_picked_show_where_they_disagree(page: Page, outcome: Outcome) -> None:
    one, other = "l0-40-s0", "l0-70-s1"
    wanted = outcome.examples(one, other=other)
    assert len(wanted) > 0
    page.locator("#subnetworks button.who", has_text=one).click()
    page.locator("#subnetworks button.who", has_text=other).click(modifiers=["Shift"])
    assert page.locator(f"{PANEL} h2").inner_text() == f"{one} beside {other}"
    assert page.locator(f"{PANEL} [name=which]").input_value() == "differ"
    same_rows(copied(page), wanted, [*SAID, "other", "other_p"])
    assert page.locator(f"{PANEL} li").first.locator("dt").all_inner_texts() == ["right answer", "the full model", other, one]
    choose(page, other="l0-70-s0")
    same_rows(copied(page), outcome.examples(one, other="l0-70-s0"), [*SAID, "other", "other_p"])


@pytest.mark.parametrize("button", ["#subnetworks tbody tr:nth-child(2) button", "#spread .links button"])
def test_the_keyboard_opens_it_escape_closes_it_and_the_focus_goes_back(page: Page, button: str) -> None:
    page.locator(button).focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("dialog", name="beside the full model").is_visible()
    assert page.evaluate(f"document.querySelector('{PANEL}').contains(document.activeElement)")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Close the examples"
    page.keyboard.press("Escape")
    assert not page.locator(PANEL).is_visible()
    assert page.locator(button).evaluate("button => button === document.activeElement")
    names = [page.locator(f"{PANEL} {tag}").evaluate_all("all => all.map((one) => one.labels[0].textContent.trim())")
             for tag in ("select", "input")]  # fmt: skip
    assert all(name for each in names for name in each)


def test_rows_are_there_to_be_copied_by_hand_where_the_clipboard_is_closed(page: Page, outcome: Outcome) -> None:
    name, _, _ = a_change(outcome)
    page.locator("#subnetworks button.who", has_text=name).click()
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('no'); }; }")
    page.locator(f"{PANEL} .copy").click()
    text = page.locator(f"{PANEL} .csv")
    text.wait_for()
    same_rows(pd.read_csv(io.StringIO(text.input_value())), outcome.examples(name, which="lost"), SAID)


def test_an_example_stands_beside_the_name_of_every_case(page: Page, outcome: Outcome) -> None:
    rows = outcome.tables["examples"]
    specimens = rows[rows["specimen"]].set_index("case")
    row = specimens.loc["swap"]
    table = page.locator("#cases tbody tr", has_text=row["first"])
    assert table.locator("td").all_inner_texts() == ["swap", row["group"], f"{row['first']} — {row['second']}", row["gold"]]
    assert page.locator("#cases tbody tr").count() == len(specimens)
    wanted = f"“{row['first']}” — “{row['second']}” Right answer: {row['gold']}"
    for chart in ("spread", "profiles"):
        titles = page.locator(f"#chart-{chart} svg.marks text.of-case > title").all_text_contents()
        assert wanted in titles, chart
    assert page.locator("#spread-table td", has_text=re.compile("^swap$")).first.get_attribute("title") == wanted
    mark(page, "spread", "symbol", "swap").hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert wanted in page.locator("#vg-tooltip-element").inner_text()


def test_of_several_models_the_one_chosen_is_shown(page: Page, outcome: Outcome, tmp_path: Path) -> None:
    """The second model of this page is the first one with the answers of its subnetworks turned round."""
    tables = {
        name: pd.concat([table, table.assign(tuning=1)], ignore_index=True) if "tuning" in table else table
        for name, table in outcome.tables.items()
    }
    answers, names = tables["answers"], {"l0-40-s0": "l0-70-s1", "l0-70-s1": "l0-40-s0"}
    second = answers["tuning"] == 1
    answers.loc[second, "subnetwork"] = answers.loc[second, "subnetwork"].replace(names)
    (tmp_path / "report.html").write_text(report_page(tables, small.ABOUT, draw(tables)), encoding="utf-8")
    browser = page.context.browser
    assert browser is not None
    other, complaints = opened(browser, tmp_path / "report.html")
    for label, name in (("seed 0", "l0-40-s0"), ("seed 1", "l0-70-s1")):
        other.select_option("#model", label)
        other.locator(f"#subnetworks-{label.replace(' ', '-')} button.who", has_text="l0-40-s0").click()
        choose(other, which="differ")
        same_rows(copied(other), outcome.examples(name), SAID)
    assert complaints == []
    other.close()
