"""The site is built from docs/ with every link checked, and what is made from the code is as the code is."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import docs_site
import pytest
import yaml

import corewood
from corewood.report.glossary import GLOSSARY, READING
from corewood.report.items import items_of
from corewood.report.page import QUESTIONS
from corewood.spec import parse_study
from corewood.spec.ways import Prune

ROOT = docs_site.ROOT
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    found = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


def test_what_is_made_from_the_code_is_not_old(reference: ModuleType) -> None:
    for path, text in reference.pages().items():
        assert path.exists(), f"docs/{path.name} is missing: run scripts/docs"
        assert path.read_text(encoding="utf-8") == text, f"docs/{path.name} is old: run scripts/docs"


def test_every_key_of_a_study_is_explained(reference: ModuleType) -> None:
    page = (DOCS / "study-file.md").read_text(encoding="utf-8")
    for name, kind in reference.spec_classes().items():
        if kind is Prune:  # its page has a table of ways instead
            missing = [way for way in kind.model_fields if f"### prune.{way}\n" not in page]
            assert not missing, f"docs/study-file.md has no heading '### prune.{missing[0]}'"
            continue
        assert f"<!-- keys: {name} -->\n" in page, (
            f"docs/study-file.md: say where its keys go, <!-- keys: {name} --> <!-- end -->"
        )
        for key, field in reference.keys_of(kind).items():
            assert reference.meaning(field)[0], f"{name}.{key}: has no description"


def test_a_table_of_keys_says_what_the_class_says(reference: ModuleType) -> None:
    tables = {name: reference.keys_table(kind, {}) for name, kind in reference.spec_classes().items()}
    rows = {name: dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, flags=re.MULTILINE)) for name, table in tables.items()}
    assert rows["Magnitude"]["threshold"] == "number > 0, ≤ 1 | 0.9 | share of the full model's score that must be kept"
    assert rows["ModelSpec"]["checkpoint"].startswith("text | required | ")
    assert rows["ModelSpec"]["pad_token"].split(" | ")[1:] == [
        "the tokenizer's",
        r"for decoders without one, for instance `<\|endoftext\|>`",
    ]
    assert rows["Tuning"]["learning_rate"].split(" | ")[1] == "5e-5"
    assert rows["StudySpec"]["figures"].split(" | ")[1] == "`[svg, pdf, png]`"
    assert rows["EffectiveSize"]["seeds"].split(" | ")[1] == "3"
    assert rows["L0"]["final"].split(" | ")[:3] == ["`top` or `released`", "`top`", "`released`"]
    assert rows["L0"]["sparsity"].startswith("number > 0, < 1 | required")
    settings = reference.keys_table(reference.L0, {}, reference.OUTSIDE["L0"])  # of a study, where the sparsity stands outside
    assert "| `steps` |" in settings
    assert "| `sparsity` |" not in settings


def test_the_examples_of_the_study_file_are_valid() -> None:
    page = (DOCS / "study-file.md").read_text(encoding="utf-8")
    first, *parts = re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    whole = yaml.safe_load(first)
    parse_study(first, "study-file.md")
    for part in parts:
        for one in re.split(r"^(?=task:|fine_tune:)", part, flags=re.MULTILINE):  # variants of one key stand below each other
            if one.strip():
                added = yaml.safe_load(one)
                base = {"name": "x", "model": "minilm", "task": whole["task"], "prune": whole["prune"]}
                task = {"tasks": {"rte": whole["task"]}} if "tasks:" in one else {}
                keep = {key: value for key, value in base.items() if not (task and key == "task")}
                parse_study(yaml.safe_dump({**keep, **task, **added}), "study-file.md")


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^### (?:class )?cw\.(\w+)$", page, flags=re.MULTILINE)} == {*corewood.__all__}


def test_every_chart_has_an_example_of_reading_it() -> None:
    charts = [item for question in QUESTIONS for item in items_of(question) if not item.table]
    for item in charts:
        assert item.name in READING, f"{item.name}: say in report/reading.yaml how to read “{item.title}”"
    assert all(text.strip().endswith(".") for text in (*GLOSSARY.values(), *READING.values()))


@pytest.mark.parametrize(
    "name", ["index", "start", "tutorial", "explore", "export", "faq", "footguns", "study-file", "glossary", "charts"]
)
def test_lines_can_be_reviewed(name: str) -> None:
    code = False
    for number, line in enumerate((DOCS / f"{name}.md").read_text(encoding="utf-8").splitlines(), 1):
        code ^= line.startswith("```")
        assert code or line.startswith("|") or len(line) <= 120, f"{name}.md:{number} has {len(line)} characters"


def test_every_page_is_in_the_contents() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


class Links(HTMLParser):
    """What a page leads to and loads, and where it can be led to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.places |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.leads.append(known["href"])
        elif tag == "link" and known.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(known["href"])
        elif "src" in known:
            self.loads.append(known["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return docs_site.build(tmp_path_factory.mktemp("site"))


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) == len([*DOCS.rglob("*.md")])
    for page, links in pages.items():
        for link in links.leads + links.loads:
            to = urlsplit(link)
            if to.scheme or link.startswith("//"):
                assert link in links.leads, f"{page.name} loads {link} from the network"
                continue
            target = (page.parent / unquote(to.path)).resolve() if to.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{page.name}: {link}"
            if to.fragment and target in pages:
                assert unquote(to.fragment) in {*pages[target].places, "__tabbed"}, f"{page.name}: {link}"


def test_the_site_can_be_searched(site: Path) -> None:
    index = (site / "search.json").read_text(encoding="utf-8")
    for word in ("super-survivor", "ablate_beside", "cw.weights_masked", "How to read each chart"):
        assert word in index, word
