"""The report in a real browser: nothing asked of the network, nothing on the console, every chart drawn."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
import small
from colours import contrast, difference
from playwright.sync_api import Browser, Page, sync_playwright

from corewood.report.page import draw
from corewood.report.page import page as report_page
from corewood.report.style import INK
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


def drawn(
    browser: Browser, path: Path, width: int = 1160, color_scheme: Literal["light", "dark"] = "light"
) -> tuple[Page, list[str], list[str]]:
    """A page with all its charts, what it asked for, and what it complained of."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=color_scheme)
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
    assert page.locator(".chart").count() == len(names) == 23
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
    core = r"\d+ heads of the model are in all 4 subnetworks: its core(, which is every head [^(]+)? \(chance would give"
    assert re.search(core, finding)
    assert page.locator(".tile").count() == 3
    picture: Any = page.locator("#chart-spread").bounding_box()
    assert picture["y"] < 900  # the first picture begins on the first screen
    assert not page.locator(".sure li").first.is_visible()
    page.locator(".sure summary").click()
    assert "McNemar" in page.locator(".sure").inner_text()
    page.fill("#filter", "on every case")  # the first picture can be filtered for, too
    assert page.locator("#spread").is_visible()
    assert not page.locator(".nothing").is_visible()
    assert page.locator("main section:visible, main h2:visible").count() == 0
    page.fill("#filter", "attention")
    assert not page.locator("#spread").is_visible()
    page.fill("#filter", "")
    assert page.locator("section:visible").count() == page.locator("section").count()
    page.close()


def test_a_case_with_any_name_leaves_the_page_whole(browser: Browser, outcome: Outcome, tmp_path: Path) -> None:
    names = {"swap": "<!--<script>", "if": "</script><img src=x onerror=alert(1)>"}
    tables = {
        name: table.assign(**{column: table[column].replace(names) for column in {"case"} & {*table.columns}})
        for name, table in outcome.tables.items()
    }
    sections = draw(tables)
    (tmp_path / "report.html").write_text(report_page(tables, small.ABOUT, sections), encoding="utf-8")
    page, _, console = drawn(browser, tmp_path / "report.html")
    assert console == []
    assert page.locator(".chart svg.marks").count() == 23
    assert page.locator("img").count() == 0
    assert "<!--<script>" in page.locator("#cases").inner_text()
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


def test_text_that_begins_with_a_number_sorts_by_it_and_what_heads_a_table_stays(
    opened: tuple[Page, list[str], list[str]],
) -> None:
    page, _, _ = opened
    table = page.locator("#ablation-table table.sortable")
    fixed = ["examples", "none: the full model"]
    heading = table.locator("th", has_text="in domain")
    column = heading.evaluate("th => th.cellIndex + 1")
    for down in (True, False):
        heading.click()
        assert table.locator("tbody tr td:first-child").all_inner_texts()[:2] == fixed
        cells = table.locator(f"tbody tr:not([data-fixed]) td:nth-child({column})").all_inner_texts()
        values = [float(re.match(r"[\d.]+", cell)[0]) for cell in cells]  # type: ignore[index]
        assert values == sorted(values, reverse=down)
        assert len(set(values)) > 1


def test_pointing_at_a_line_names_its_case_and_a_click_keeps_it(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, console = opened
    chart = "#chart-dynamics svg.marks"
    names = f"{chart} .mark-text.role-mark text[font-weight='bold']"
    assert page.locator(names).count() == 0
    dots = page.locator(f"{chart} .mark-symbol path")
    dots.last.hover()
    page.wait_for_selector(names)
    name = page.locator(names).first.text_content()
    assert name
    assert name in page.locator("#vg-tooltip-element").inner_text()
    dots.last.click()
    page.mouse.move(2, 2)
    page.wait_for_timeout(200)
    assert page.locator(names).all_text_contents() == [name]
    assert console == []


def test_a_dark_page_has_dark_charts(browser: Browser, report: Path) -> None:
    page, _, console = drawn(browser, report / "report.html", color_scheme="dark")

    def style(where: str, what: str) -> str:
        return str(page.locator(where).first.evaluate(f"element => getComputedStyle(element).{what}"))

    assert contrast(style("body", "backgroundColor"), "#ffffff") > 12
    for name in ("spread", "heads", "trajectories"):
        assert contrast(style(f"#chart-{name} svg.marks", "backgroundColor"), "#ffffff") > 10, name
        assert contrast(style(f"#chart-{name} .role-axis-label text", "fill"), "#000000") > 10, name
    ring, halo, cells = rings(page)
    assert contrast(ring, "#000000") > contrast(halo, "#000000")  # light rings, dark halos
    tellable(ring, halo, cells)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        "document.querySelectorAll('.chart').length == document.querySelectorAll('[data-drawn=light]').length"
    )
    assert contrast(style("#chart-spread svg.marks", "backgroundColor"), "#000000") > 18
    assert console == []
    page.close()


def rings(page: Page) -> tuple[str, str, set[str]]:
    """Colours of the ring that marks the core, of its halo, and of the cells."""
    chart = "#chart-heads svg.marks"
    cells = page.locator(f"{chart} .mark-rect.role-mark path").evaluate_all("all => all.map(one => one.getAttribute('fill'))")
    marks = page.locator(f"{chart} .mark-symbol.role-mark").evaluate_all(
        "all => all.map(one => one.querySelector('path')?.getAttribute('stroke'))"
    )
    halo, ring = [stroke for stroke in marks if stroke][:2]
    return ring, halo, set(cells)


def tellable(ring: str, halo: str, cells: set[str]) -> None:
    assert contrast(ring, halo) > 3
    for cell in cells:
        assert max(contrast(ring, cell), contrast(halo, cell)) > 3, cell


def test_readers_with_deuteranopia_see_what_others_see(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    tellable(*rings(page))
    lines = page.locator("#chart-trajectories svg.marks .mark-line path").evaluate_all(
        "all => all.map(one => [one.getAttribute('stroke'), one.getAttribute('stroke-dasharray')])"
    )
    kinds = {tuple(kind) for kind in lines if kind[0] != INK}
    assert len(kinds) == 2  # sizes
    (one, one_dash), (other, other_dash) = kinds
    assert difference(one, other) > 20
    assert one_dash != other_dash


def test_a_narrow_screen_cuts_nothing(browser: Browser, report: Path) -> None:
    page, _, console = drawn(browser, report / "report.html", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    wide = page.evaluate(
        """[...document.querySelectorAll("body *")].filter(one => {
          const box = one.getBoundingClientRect();
          return box.width > 0 && box.right > innerWidth + 1 && !one.closest(".chart, .wide, pre, .parts");
        }).map(one => one.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    for chart in page.locator(".chart").all():  # what does not fit can be scrolled to
        assert chart.evaluate("one => getComputedStyle(one).overflowX") == "auto"
    fits = "#chart-spread, #chart-dynamics, #chart-differences"
    assert page.locator(fits).evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    page.set_viewport_size({"width": 900, "height": 800})  # charts shrink to the page
    assert page.locator(".chart").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    assert console == []
    page.close()


def test_contents_stay_and_a_filter_hides_the_rest(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    page.evaluate("scrollTo(0, 4000)")
    assert page.locator("nav").bounding_box()["y"] == 0  # type: ignore[index]
    page.fill("#filter", "SURVIVE")
    shown = [t for t in page.locator("main h3").all() if t.is_visible()]
    titles = [t.inner_text() for t in shown]
    assert "Which heads survive" in titles
    assert all("survive" in title.lower() for title in titles)
    assert [h.inner_text() for h in page.locator("main h2").all() if h.is_visible()] == ["Heads and core"]
    page.fill("#filter", "attention")  # a part's name: all that it holds
    assert page.locator("#maps").is_visible()
    page.fill("#filter", "no such thing")
    assert page.locator(".nothing").is_visible()
    page.fill("#filter", "")
    assert page.locator("main section:visible").count() == page.locator("main section").count()
    page.locator(".contents summary").click()
    page.locator(".contents a[href='#heads']").click()
    assert not page.locator(".contents > div").is_visible()
    assert 0 <= page.locator("#heads").bounding_box()["y"] < 100  # type: ignore[index]
    page.fill("#filter", "attention")
    page.locator(".contents summary").click()
    page.locator(".contents a[href='#heads']").click()  # what a filter hides is shown when it is chosen
    assert page.locator("#heads").is_visible()
    assert page.input_value("#filter") == ""


def test_every_item_links_to_its_numbers(opened: tuple[Page, list[str], list[str]], report: Path) -> None:
    page, _, _ = opened
    for section in page.locator("section:has(h3)").all():
        links = section.locator(".links a[href$='.csv']").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert links, section.get_attribute("id")
        assert all((report / link).exists() for link in links)


def test_words_are_explained_and_charts_say_how_to_read_them(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, _ = opened
    word = page.locator("#heads .term", has_text="subnetworks").first
    assert "a mask" in str(word.get_attribute("data-meaning"))
    word.focus()
    assert "a mask" in word.evaluate("one => getComputedStyle(one, '::after').content")
    assert page.locator(".reading").count() == page.locator(".chart").count()
    fold = page.locator("#heads .reading")
    assert not fold.locator("p").is_visible()
    fold.locator("summary").click()
    assert "demo" in fold.locator("p").inner_text()


def test_a_subnetwork_that_is_picked_is_marked_everywhere(opened: tuple[Page, list[str], list[str]]) -> None:
    page, _, console = opened
    page.evaluate("heard = []; document.addEventListener('corewood:pick', event => heard.push(event.detail))")
    page.locator("#chart-profiles svg.marks .mark-rect.role-mark path").nth(40).click()
    detail = page.evaluate("heard[0]")
    assert set(detail) == {"subnetwork", "dataset", "case", "together"}
    assert None not in detail.values()
    mine, rest = (page.locator(f"svg.marks path.{kind}") for kind in ("picked", "beside"))
    assert set(mine.evaluate_all("all => all.map(one => one.__data__.datum.subnetwork)")) == {detail["subnetwork"]}
    assert detail["subnetwork"] not in rest.evaluate_all("all => all.map(one => one.__data__.datum.subnetwork)")
    for name in ("spread", "profiles", "same-in-domain", "trajectories", "sizes"):
        assert page.locator(f"#chart-{name} path.picked").count() > 0, name
        assert page.locator(f"#chart-{name} path.beside").count() > 0, name
    assert page.locator("#subnetworks tr.picked td").first.inner_text() == detail["subnetwork"]
    assert detail["subnetwork"] in page.locator("#picked").inner_text()
    page.keyboard.press("Escape")  # the panel of examples
    page.locator("#subnetworks tbody tr").last.click()  # a row picks, too
    other = page.locator("#subnetworks tbody tr").last.get_attribute("data-subnetwork")
    assert set(mine.evaluate_all("all => all.map(one => one.__data__.datum.subnetwork)")) == {other}
    second = page.locator("#subnetworks tbody tr[data-subnetwork^=l0]").nth(1)
    second.evaluate(
        "row => row.dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: true}))"
    )  # the panel is above it
    pair = {other, second.get_attribute("data-subnetwork")}
    assert set(mine.evaluate_all("all => all.map(one => one.__data__.datum.subnetwork)")) == pair
    page.keyboard.press("Escape")
    assert mine.count() == rest.count() == 0
    assert page.evaluate("heard.at(-1).subnetwork") is None
    assert console == []


def test_a_reader_chooses_whose_charts_to_see(browser: Browser, outcome: Outcome, tmp_path: Path) -> None:
    tables = {
        name: pd.concat([table, table.assign(tuning=1)], ignore_index=True) if "tuning" in table else table
        for name, table in outcome.tables.items()
    }
    (tmp_path / "report.html").write_text(report_page(tables, small.ABOUT, draw(tables)), encoding="utf-8")
    page, _, console = drawn(browser, tmp_path / "report.html")
    page.locator(".contents summary").click()
    assert page.locator("#model option").all_inner_texts() == ["seed 0", "seed 1"]
    for wanted, other in (("seed-0", "seed-1"), ("seed-1", "seed-0"), ("seed-0", "seed-1")):
        page.select_option("#model", wanted.replace("-", " "))
        assert page.locator(f"#chart-spread-{wanted} svg.marks").is_visible()
        assert not page.locator(f"#chart-spread-{other}").is_visible()
        assert page.locator(f"a[href='#spread-{wanted}']").is_visible()
        assert not page.locator(f"a[href='#spread-{other}']").is_visible()
    assert console == []
    page.close()
