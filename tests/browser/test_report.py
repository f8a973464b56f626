"""The report in a real browser: nothing asked of the network, nothing on the console, every chart drawn."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small
from playwright.sync_api import Browser, Page, sync_playwright

from corewood.report.page import draw
from corewood.report.page import page as report_page
from corewood.study.run import Outcome

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; un-skip by installing it (apt-get install chromium)"
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("browser")
    return small.run(small.write_study(folder, **small.EVERYTHING, figures=["svg"]), folder / "store")


@pytest.fixture(scope="module")
def report(outcome: Outcome) -> Path:
    return outcome.report


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    quiet = ("background-networking", "component-update", "sync")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", *(f"--disable-{what}" for what in quiet)]
        )
        yield launched
        launched.close()


def drawn(browser: Browser, path: Path) -> tuple[Page, list[str], list[str]]:
    """A page with all its charts, what it asked for, and what it complained of."""
    page = browser.new_page(viewport={"width": 1160, "height": 900})
    requests: list[str] = []
    console: list[str] = []
    page.on("request", lambda r: requests.append(r.url))
    page.on("console", lambda m: console.append(m.text))
    page.on("pageerror", lambda e: console.append(str(e)))
    page.goto(f"file://{path}")
    page.wait_for_function("document.querySelectorAll('.chart').length == document.querySelectorAll('[data-drawn]').length")
    return page, requests, console


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    found = drawn(browser, report / "report.html")
    yield found
    found[0].close()


def test_every_chart_is_drawn_without_network_or_complaint(opened: tuple[Page, list[str], list[str]], report: Path) -> None:
    page, requests, console = opened
    assert requests == [f"file://{report / 'report.html'}"]
    assert console == []
    names = [p.stem for p in sorted((report / "figures").glob("*.svg"))]
    assert page.locator(".chart").count() == len(names) == 22
    for name in names:
        chart = f"#chart-{name} svg.marks"
        marks = page.locator(", ".join(f"{chart} .mark-{kind} path" for kind in ("symbol", "rect", "line")))
        assert marks.count() > 3, name
        box: Any = page.locator(chart).bounding_box()
        assert box["width"] > 200, name


def test_the_page_opens_with_the_finding(
    browser: Browser, opened: tuple[Page, list[str], list[str]], outcome: Outcome, tmp_path: Path
) -> None:
    page, _, _ = opened
    assert "model has not learnt its task, as far as 60 examples tell" in page.locator(".headline").inner_text()
    assert page.locator(".finding").inner_text() == ""
    assert page.locator(".tile, .sure").count() == 0
    tables = {**outcome.tables, "models": outcome.tables["models"].assign(learnt=True)}
    (tmp_path / "report.html").write_text(report_page(tables, small.ABOUT, draw(tables)), encoding="utf-8")
    page, _, _ = drawn(browser, tmp_path / "report.html")
    assert "Subnetworks of bert" in page.locator(".headline").inner_text()
    finding = page.locator(".finding").inner_text()
    assert re.search(r"With 40 % of the units removed \(leaves \d+ % of the parameters\), 2 subnetworks have", finding)
    assert re.search(r"\d+ heads of the model are in all 4 subnetworks: its core \(chance would give", finding)
    assert page.locator(".tile").count() == 3
    picture: Any = page.locator("#chart-spread").bounding_box()
    assert picture["y"] < 900  # the first picture begins on the first screen
    assert not page.locator(".sure li").first.is_visible()
    page.locator(".sure summary").click()
    assert "McNemar" in page.locator(".sure").inner_text()
    page.close()


def test_points_have_tooltips(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    page.locator("#chart-heads svg.marks .mark-rect.role-mark path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "kept by" in page.locator("#vg-tooltip-element").inner_text()


def test_the_table_sorts_by_a_click(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    heading = page.locator("#subnetworks table.sortable th", has_text="in domain")
    column = heading.evaluate("th => th.cellIndex + 1")

    def values() -> list[float]:
        cells = page.locator(f"#subnetworks table.sortable tbody tr td:nth-child({column})")
        return [float(c.get_attribute("data-value") or "nan") for c in cells.all()]

    heading.click()
    assert values() == sorted(values(), reverse=True)
    heading.click()
    assert values() == sorted(values())
    page.locator("#subnetworks table.sortable th", has_text="subnetwork").click()
    names = page.locator("#subnetworks table.sortable tbody tr td:first-child").all_inner_texts()
    assert names[0].startswith("l0-70")


def test_a_click_on_the_legend_picks_a_case(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    faded = "#chart-dynamics svg.marks path[opacity='0.06'], #chart-dynamics svg.marks path[stroke-opacity='0.06']"
    before = page.locator("#chart-dynamics svg.marks").inner_html()
    page.locator("#chart-dynamics svg.marks .role-legend-label text", has_text="in domain").first.click()
    page.wait_for_timeout(300)
    assert page.locator("#chart-dynamics svg.marks").inner_html() != before
    assert page.locator(faded).count() > 0


def test_a_reader_chooses_whose_charts_to_see(browser: Browser, outcome: Outcome, tmp_path: Path) -> None:
    tables = {
        name: pd.concat([table, table.assign(tuning=1)], ignore_index=True) if "tuning" in table else table
        for name, table in outcome.tables.items()
    }
    (tmp_path / "report.html").write_text(report_page(tables, small.ABOUT, draw(tables)), encoding="utf-8")
    page, _, console = drawn(browser, tmp_path / "report.html")
    assert page.locator("#model option").all_inner_texts() == ["seed 0", "seed 1"]
    for wanted, other in (("seed-0", "seed-1"), ("seed-1", "seed-0"), ("seed-0", "seed-1")):
        page.select_option("#model", wanted.replace("-", " "))
        assert page.locator(f"#chart-spread-{wanted} svg.marks").is_visible()
        assert not page.locator(f"#chart-spread-{other}").is_visible()
        assert page.locator(f"a[href='#spread-{wanted}']").is_visible()
        assert not page.locator(f"a[href='#spread-{other}']").is_visible()
    assert console == []
    page.close()
