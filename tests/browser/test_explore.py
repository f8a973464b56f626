"""The live page in a real browser: clicks do what the library says, masks are kept, links restore, strangers are refused."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exploring
import numpy as np
import pytest
import tiny
import torch
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import corewood as cw
from corewood.explore import room
from corewood.explore.subject import OfStudy, OneCheckpoint
from corewood.model.load import Model
from corewood.model.mask import Mask

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; un-skip by installing it (apt-get install chromium)"
)
# a name that an attacker owns, made to lead to this machine
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP rebound.example 127.0.0.1"]
FIRST, SECOND = "The nun saw the cook near the baker.", "The cook saw the nun."


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OfStudy]:
    return exploring.study(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="module")
def server(explored: tuple[Path, OfStudy]) -> Iterator[exploring.Page]:
    with exploring.served(explored[1]) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1300, "height": 900}, reduced_motion="reduce")
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, server: exploring.Page) -> Iterator[Page]:
    found, complaints = opened(context, server.address)
    yield found
    assert complaints == []


@pytest.fixture(scope="module")
def model(explored: tuple[Path, OfStudy]) -> Model:
    results = explored[1].results
    return results.model(results.find("full"))


def opened(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda m: None if "a status of 422" in m.text else complaints.append(m.text))  # told on the page
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return page, complaints


def mask_on(page: Page, model: Model) -> Mask:
    """What the grid shows."""
    open_units = page.locator(".unit").evaluate_all("all => all.map((u) => [u.dataset.unit, u.getAttribute('aria-pressed')])")
    kept = np.zeros(len(model.units), bool)
    for unit, pressed in open_units:
        kept[int(unit)] = pressed == "true"
    return model.units.from_vector(kept)


def unit(page: Page, model: Model, name: str) -> Any:
    return page.locator(f'[data-unit="{model.units.names.index(name)}"]')


def write(page: Page, first: str = FIRST, second: str = SECOND) -> None:
    page.fill("#first", first)
    page.fill("#second", second)


def chances(model: Model, mask: Mask, first: str = FIRST, second: str | None = SECOND, ablate: Any = "mean") -> list[float]:
    inputs = model.tokenizer(first, second, truncation=True, max_length=model.max_length, return_tensors="pt")
    with cw.gated(model, mask, ablate), torch.inference_mode():
        return [float(v) for v in model.net(**inputs).logits.softmax(-1)[0]]


def expect_bars(page: Page, model: Model, mask: Mask, **texts: Any) -> None:
    """As the library says, in whole per cents."""
    for place, own in (("#bars-full", model.units.full()), ("#bars-now", mask)):
        wanted = [f"{100 * p:.0f} %" for p in chances(model, own, **texts)]
        expect(page.locator(f"{place} .value")).to_have_text(wanted)


def judged(page: Page) -> None:
    """Cases have been judged for what is open now."""
    expect(page.locator("#cases-state")).to_have_text(re.compile(r"texts judged$"))
    expect(page.locator("#cases")).not_to_have_class(re.compile("old"))


def test_a_click_changes_the_bars_as_the_library_says_and_leaves_a_trace(page: Page, model: Model) -> None:
    write(page)
    expect_bars(page, model, model.units.full())
    closed: list[str] = []
    for name in ("L1.H2", "L0.MLP", "L1.H0"):
        unit(page, model, name).click()
        closed.append(name)
        expect_bars(page, model, model.units.without(*closed))
    before, after = (chances(model, model.units.without(*names))[0] for names in (closed[:-1], closed))
    ghost = page.locator("#bars-now .ghost").first
    assert ghost.is_visible() == (abs(after - before) >= 0.005)
    logits = json.loads(page.locator("#answers").get_attribute("data-logits") or "")
    assert torch.tensor(logits).softmax(-1).tolist() == pytest.approx(chances(model, model.units.without(*closed)), abs=1e-5)
    assert mask_on(page, model) == model.units.without(*closed)
    assert float(page.locator("#latency").get_attribute("data-median") or 0) > 0
    expect(page.locator("#size-units")).to_have_text("7 of 10")
    expect(page.locator("#size-time")).to_have_text(re.compile(r"\d ms$"))
    page.select_option("#ablate", "zero")
    expect_bars(page, model, model.units.without(*closed), ablate="zero")


def test_drag_layers_keys_undo_and_redo(page: Page, model: Model) -> None:
    full = model.units.full()
    start, end = (unit(page, model, name).bounding_box() for name in ("L1.H0", "L1.H2"))
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=12)
    page.mouse.up()
    dragged = model.units.without("L1.H0", "L1.H1", "L1.H2")
    assert mask_on(page, model) == dragged
    unit(page, model, "L0.H1").click(modifiers=["Shift"])
    layer = dragged & model.units.without(*(f"L0.H{head}" for head in range(4)))
    assert mask_on(page, model) == layer
    page.keyboard.press("Control+z")
    assert mask_on(page, model) == dragged
    page.locator("#undo").click()
    assert mask_on(page, model) == full
    assert page.locator("#undo").is_disabled()
    page.locator("#redo").click()
    page.keyboard.press("Control+Shift+z")
    assert mask_on(page, model) == layer
    page.get_by_role("button", name="Layer 0: close or open its heads").click()  # all are closed: they open
    assert mask_on(page, model) == dragged
    unit(page, model, "L1.H3").focus()
    for key in ("ArrowDown", "ArrowLeft", " ", "End", "Enter"):
        page.keyboard.press(key)
    assert mask_on(page, model) == dragged & model.units.without("L0.H2", "L0.MLP")
    here = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert here == "Layer 0, MLP, closed"
    assert page.locator(".unit[tabindex='0']").count() == 1  # one stop of the tab key
    page.locator("#clicking span", has_text="looks inside").click()
    unit(page, model, "L0.H0").click()
    assert mask_on(page, model) == dragged & model.units.without("L0.H2", "L0.MLP")
    assert (page.locator("#layer").input_value(), page.locator("#head").input_value()) == ("0", "0")


def test_presets_pairs_of_them_and_chance(page: Page, model: Model, explored: tuple[Path, OfStudy]) -> None:
    results = explored[1].results
    one, other = (results.mask(results.find(f"l0-40-s{seed}")) for seed in (0, 1))
    assert one != other

    def choose(name: str) -> None:
        value = page.locator("#preset option").evaluate_all(
            "(all, name) => all.find((o) => o.text === name || o.text.startsWith(name + ' (')).value", name
        )
        page.select_option("#preset", value)

    core = one & other
    page.locator("#step").evaluate("(step) => { step.value = 0; step.dispatchEvent(new Event('change', { bubbles: true })); }")
    expect(page.locator("#step-now")).to_have_text("step 5")
    choose("l0-40-s1")  # was found at the last step, and is shown there
    expect(page.locator("#step-now")).to_have_text("step 20, the last")
    wanted = {"l0-40-s1": other, "core": core, "core alone": Mask(core.heads, np.ones(2)), "l0-40-s0": one}
    for name, mask in wanted.items():
        choose(name)
        assert mask_on(page, model) == mask, name
    page.get_by_text("Two subnetworks together").click()
    page.select_option("#one", label="l0-40-s0")
    page.select_option("#other", label="l0-40-s1")
    differ = (one - other) | (other - one)
    pairs = {"both": core, "either": one | other, "only": one - other, "other": other - one, "differ": differ}
    for how, mask in pairs.items():
        page.select_option("#how", how)
        page.locator("#combine").click()
        assert mask_on(page, model) == mask, how
    choose("l0-40-s0")
    drawn = set()
    for _ in range(8):
        page.locator("#random").click()
        mask = mask_on(page, model)
        assert (mask.heads.sum(), mask.mlps.sum()) == (one.heads.sum(), one.mlps.sum())
        drawn.add(mask)
    assert len(drawn) > 1
    choose("full model")
    assert mask_on(page, model) == model.units.full()
    colours = {"how often kept": "share of 2 subnetworks that keep it", "on swap": "change of accuracy without it"}
    colours |= {"what it mostly attends to": "attends mostly to", "importance": "mean |gradient| of its gate"}
    for colour, says in colours.items():
        page.select_option("#colour", colour)
        expect(page.locator("#legend p")).to_have_text(says)
        assert says in (unit(page, model, "L0.H0").get_attribute("aria-label") or "")


def test_the_flip_search_finds_a_planted_head(context: BrowserContext, tmp_path: Path) -> None:
    """One head of this model is made to outweigh its layer; on some texts it alone decides, as closing each in turn tells."""
    net = tiny.net(seed=3)
    with torch.no_grad():
        net.bert.encoder.layer[1].attention.output.dense.weight[:, 16:24] *= 12  # L1.H2
    net.save_pretrained(tmp_path / "planted")
    tiny.tokenizer().save_pretrained(tmp_path / "planted")
    subject = OneCheckpoint(str(tmp_path / "planted"), None, None)
    subject.base, subject.masks = tmp_path, tmp_path / "masks"
    units = subject.model.units

    def flips(text: str) -> list[str]:
        said = int(np.argmax(chances(subject.model, units.full(), text, None, "zero")))
        each = {name: chances(subject.model, units.without(name), text, None, "zero") for name in units.names}
        return [name for name, found in each.items() if int(np.argmax(found)) != said]

    texts = cw.task("overlap", train=100, validation=60, per_case=2).validation.frame["first"]
    text = next(text for text in texts if flips(text) == ["L1.H2"])
    with exploring.served(subject) as served:
        page, complaints = opened(context, served.address)
        expect(page.locator("#no-text")).to_have_text(re.compile("^Type a sentence"))
        page.fill("#first", text)
        page.locator("#flip").click()
        expect(page.locator("#flips p")).to_have_text(re.compile("^One click flips"))
        assert page.locator("#flips .chip").all_inner_texts() == ["close L1.H2"]
        assert page.locator(".unit.flips").evaluate_all("all => all.map((u) => u.title.split(' ')[0])") == ["L1.H2"]
        page.locator("#flips .chip").click()
        expect(page.locator("#flipped")).to_be_visible()
        expect(page.locator("#verdict")).to_have_text(re.compile("^Flipped: .* Before this click it was"))
        assert page.locator("#flips .chip").count() == 0  # what was found held for the mask before
        assert not page.locator("#cases-card").is_visible()
        page.fill("#first", "  ")
        expect(page.locator("#no-text")).to_be_visible()
        assert complaints == []
        page.close()


def test_a_click_on_a_model_of_numbers_is_told_in_its_numbers(context: BrowserContext, tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "scores", labels=("score",))
    subject = OneCheckpoint(str(tmp_path / "scores"), None, None)
    subject.base, subject.masks = tmp_path, tmp_path / "masks"
    units, text = subject.model.units, FIRST

    def score(mask: Mask) -> float:
        batch = subject.model.tokenizer(text, return_tensors="pt")
        with cw.gated(subject.model, mask, "zero"), torch.inference_mode():
            return float(subject.model.net(**batch).logits[0, 0])

    moved = {name: score(units.without(name)) - score(units.full()) for name in units.names}
    most = max(moved, key=lambda name: abs(moved[name]))
    with exploring.served(subject) as served:
        page, complaints = opened(context, served.address)
        page.fill("#first", text)
        page.locator("#flip").click()
        said = page.locator("#flips p").inner_text()
        found = re.fullmatch(r"The strongest is (\S+), ([+−])([\d.e-]+): ?", said)
        assert found, said
        assert found[1] == most
        assert float(found[3]) * (1 if found[2] == "+" else -1) == pytest.approx(moved[most], rel=1e-2)
        assert "points" not in page.locator("#legend").inner_text()
        assert complaints == []
        page.close()


def test_attention_of_the_picked_head(page: Page, model: Model) -> None:
    write(page)
    closed = ("L0.MLP", "L1.H2")  # what stands before a head changes where it looks; its own gate does not
    for name in closed:
        unit(page, model, name).click()
    page.locator("#attention").wait_for()
    words = cw.attention_map(model, FIRST, SECOND).words
    expect(page.locator("#from .word")).to_have_text(list(words))
    titles = []
    for mask in (model.units.without(*closed), model.units.full()):
        if titles:
            page.locator("label", has_text="full model").last.click()
        with cw.gated(model, mask):
            values = cw.attention_map(model, FIRST, SECOND).head(1, 2).to_numpy()
        titles.append([f"{words[i]} → {words[j]}: {100 * value:.0f} %" for (i, j), value in np.ndenumerate(values)])
        expect(page.locator("#matrix title")).to_have_text(titles[-1])
    assert titles[0] != titles[1]
    title = page.locator("#matrix title").nth(2 * len(words) + 3)
    page.locator("#from .word").nth(2).hover()
    expect(page.locator("#from .word.looked")).to_have_text(words[2])
    best = int(values[2].argmax())
    assert page.locator("#to .word").nth(best).get_attribute("data-value") == f"{100 * values[2, best]:.0f} %"
    page.locator("#from .word").nth(2).focus()
    light = page.locator("#matrix rect").first.get_attribute("fill")
    page.emulate_media(color_scheme="dark")  # drawn anew: the word keeps the focus
    expect(page.locator("#matrix rect").first).not_to_have_attribute("fill", str(light))
    page.keyboard.press("ArrowDown")
    expect(page.locator("#from .word.looked")).to_have_text(words[3])
    page.locator("label", has_text="normed").click()
    expect(title).not_to_have_text(re.compile("%"))
    page.select_option("#head", "0")
    expect(page.locator("#attention-about")).to_have_text(re.compile(r"^L1\.H0"))


def test_cases_recompute_and_their_flips_lead_to_the_sentence(page: Page, model: Model, server: exploring.Page) -> None:
    page.select_option("#each", "5")
    for name in ("L0.MLP", "L1.MLP", "L1.H0"):  # fast: those under way are given up
        unit(page, model, name).click()
    judged(page)
    mask = mask_on(page, model)
    place = {"task": "task", "tuning": 0, "step": 20}
    wanted = server.ask("cases", place=place, mask=room.bits(mask), ablate="mean", each=5)
    rows = page.locator("#cases tbody tr").evaluate_all("all => all.map((row) => [...row.cells].map((c) => c.textContent))")
    assert [row[2:] for row in rows] == [[f"{100 * c['full']:.0f} %", f"{100 * c['now']:.0f} %"] for c in wanted["cases"]]
    flip = next(f for f in wanted["flips"] if f["case"] != "all")
    page.locator(".case", has_text=re.compile(f"^{re.escape(flip['case'])}$")).click()
    item = page.locator("#flipped-examples li").first
    assert flip["first"] in item.inner_text()
    item.locator("button").click()
    assert (page.locator("#first").input_value(), page.locator("#second").input_value()) == (flip["first"], flip["second"])
    expect_bars(page, model, mask, first=flip["first"], second=flip["second"])
    expect(page.locator("#gold")).to_have_text(re.compile(f"The right answer: {flip['gold']}"))


def test_a_click_ends_the_judging_of_cases(
    page: Page, model: Model, server: exploring.Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(page)
    begun, ended = list[str](), list[str]()
    original = room.judged

    def slow(*given: Any) -> Any:
        begun.append("")
        steps = original(*given)
        for _ in range(300):  # some time before anything is judged
            yield 0, 1
            time.sleep(0.01)
        found = yield from steps
        ended.append("")
        return found

    monkeypatch.setattr(room, "judged", slow)
    unit(page, model, "L0.H0").click()
    expect(page.locator("#cases-state")).to_have_text(re.compile("^0 of"))
    assert (len(begun), len(ended)) == (1, 0)
    monkeypatch.setattr(room, "judged", original)
    unit(page, model, "L0.H1").click()
    judged(page)
    assert (len(begun), len(ended)) == (1, 0)  # the older one never came to its end
    assert not [key for key in server.room.worker.waiting if key[1] == "cases"]


def test_masks_that_were_saved_come_back(
    page: Page, context: BrowserContext, server: exploring.Page, model: Model, explored: tuple[Path, OfStudy]
) -> None:
    for name in ("L0.H3", "L1.H1"):
        unit(page, model, name).click()
    page.locator("#save").click()
    expect(page.locator("#kept")).to_have_text("Give it a name first.")
    page.fill("#name", "../evil")
    page.locator("#save").click()
    expect(page.locator("#kept")).to_have_text(re.compile("cannot be a mask's name"))
    page.fill("#name", "two closed")
    page.keyboard.press("Enter")
    expect(page.locator("#kept")).to_have_text(re.compile("^Saved as small-masks/two closed.json"))
    assert Mask.load(explored[0].parent / "small-masks" / "two closed.json") == model.units.without("L0.H3", "L1.H1")
    other, complaints = opened(context, server.address)
    other.select_option("#preset", label="two closed")
    assert mask_on(other, model) == model.units.without("L0.H3", "L1.H1")
    assert len(complaints) == 0


def test_a_link_restores_everything_in_another_tab(page: Page, context: BrowserContext, model: Model) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    write(page, "The <b>nun</b> saw & heard.", SECOND)
    for name in ("L1.H2", "L0.MLP"):
        unit(page, model, name).click()
    page.select_option("#colour", "on swap")
    page.locator("label", has_text="normed").click()
    page.select_option("#ablate", "zero")
    page.locator("#training input").focus()
    page.keyboard.press("Home")
    expect(page.locator("#step-now")).to_have_text("step 5")
    expect(page.locator("body")).not_to_have_class(re.compile("loading"))
    unit(page, model, "L1.H3").focus()
    page.locator("#link").click()
    expect(page.locator("#kept")).to_have_text(re.compile("^Link copied"))
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert exploring.TOKEN not in link
    other, complaints = opened(context, link)
    assert mask_on(other, model) == model.units.without("L1.H2", "L0.MLP")
    for place in ("#first", "#second", "#ablate", "#step", "#layer", "#head"):
        assert other.locator(place).input_value() == page.locator(place).input_value(), place
    assert other.locator("[name=normed]:checked").input_value() == "1"
    expect(other.locator("#bars-now .value")).to_have_text(page.locator("#bars-now .value").all_inner_texts())
    other.goto(link.replace("open=10", "open=999"))  # a mask of another model: the full one instead
    other.reload()
    other.wait_for_selector("body[data-ready]")
    assert mask_on(other, model) == model.units.full()
    assert complaints == []


def test_two_tabs_have_masks_and_answers_of_their_own(
    page: Page, context: BrowserContext, server: exploring.Page, model: Model
) -> None:
    other, complaints = opened(context, server.address)
    for one in (page, other):
        write(one)
    for mine, theirs in zip(("L0.H0", "L1.H1", "L1.MLP"), ("L1.H0", "L0.MLP", "L0.H2"), strict=True):
        unit(page, model, mine).click()
        unit(other, model, theirs).click()
    expect_bars(page, model, model.units.without("L0.H0", "L1.H1", "L1.MLP"))
    expect_bars(other, model, model.units.without("L1.H0", "L0.MLP", "L0.H2"))
    assert complaints == []


def test_markup_in_a_text_stays_text(page: Page, model: Model) -> None:
    evil = "<script>window.hit = 1</script> <img src=x onerror='window.hit = 1'> nun"
    write(page, evil, "</textarea><b>cook</b>")
    unit(page, model, "L1.H2").click()
    page.locator("#attention").wait_for()
    expect(page.locator("#from .word", has_text="onerror").first).to_be_visible()
    expect_bars(page, model, model.units.without("L1.H2"), first=evil, second="</textarea><b>cook</b>")
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img, main script, main b:not(.tile b)").count() == 0


def test_another_page_is_refused(server: exploring.Page, page: Page) -> None:
    """Though the user has the cookie: a foreign page, another port of this machine, and a name that leads here."""
    context = page.context
    stranger = context.new_page()
    stranger.route("http://evil.example/**", lambda route: route.fulfill(body="<p>hello</p>", content_type="text/html"))
    stranger.goto("http://evil.example/")
    told = stranger.evaluate(
        """async (port) => {
            const usual = {method: "POST", body: "{}", credentials: "include"};
            const send = (more) => fetch(`http://127.0.0.1:${port}/api/subject`, {...usual, ...more})
                .then((r) => r.status, (problem) => problem.name);
            return [await send({headers: {"Content-Type": "application/json"}}), await send({}), await send({mode: "no-cors"})];
        }""",
        server.port,
    )
    assert set(told) <= {"TypeError", 0}  # nothing of it can be read
    stranger.close()
    for address, why in (
        (f"http://localhost:{server.port}/", "address that the terminal shows"),  # another name has no cookie
        (server.address.replace("127.0.0.1", "rebound.example"), "wrong host"),  # the token does not help it
    ):
        lost = context.new_page()
        answer = lost.goto(address)
        assert answer is not None
        assert answer.status == 403
        assert why in lost.inner_text("body")
        lost.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_on_a_phone(browser: Browser, server: exploring.Page, scheme: Any) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True, reduced_motion="reduce"
    )
    page, complaints = opened(context, server.address)
    page.locator('[data-unit="2"]').tap()
    judged(page)
    page.locator("#attention").wait_for()
    wide = page.evaluate(
        """() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll("button, select, textarea, svg")]
            .filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect().right)]"""
    )
    assert max(wide) <= 390
    assert page.locator('[data-unit="2"]').get_attribute("aria-pressed") == "false"
    back = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(251, 252, 250)", "dark": "rgb(19, 24, 21)"}[scheme]
    assert complaints == []
    context.close()


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Page) -> None:
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea, [role=grid], progress")].filter((e) =>
            !(e.getAttribute("aria-label") || e.textContent.trim() && e.tagName === "BUTTON" || e.labels?.length))
            .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    assert page.get_by_role("grid").get_by_role("row").count() == 3  # numbers of heads, two layers
    assert page.get_by_role("grid").get_by_role("gridcell").count() == 10


def test_a_slow_model_says_what_it_will_take(
    context: BrowserContext, explored: tuple[Path, OfStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    from corewood.explore import answers

    monkeypatch.setattr(answers, "pace", lambda _model, _together: 2.5)
    with exploring.served(explored[1]) as served:
        page, complaints = opened(context, served.address)
        expect(page.locator("#notice")).to_have_text(re.compile("about 2.5 s for one answer.*smaller sample"))
        assert page.locator("#each").input_value() == "5"
        expect(page.locator("#judge")).to_be_visible()
        expect(page.locator("#cases-state")).to_have_text(re.compile(r"^about 4 min with this model: press Judge"))
        page.locator("#judge").click()
        judged(page)
        assert complaints == []
        page.close()


def test_pictures_and_python(page: Page, context: BrowserContext, model: Model) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    unit(page, model, "L1.H2").click()
    for button, start in (("#svg", b"<svg"), ("#png", b"\x89PNG")):
        with page.expect_download() as found:
            page.locator(button).click()
        content = Path(found.value.path()).read_bytes()
        assert content.startswith(start)
    page.locator("#python").click()
    expect(page.locator("#kept")).to_have_text(re.compile("^Python copied"))
    assert "model.units.without('L1.H2')" in page.evaluate("() => navigator.clipboard.readText()")
