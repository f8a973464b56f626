"""Write the parts of docs/ that are made from the code, so that they cannot drift from it.

    python scripts/reference.py

docs/study-file.md gets a table of keys below each `<!-- keys: Class -->`, from the fields of that part of the format, and so
does docs/cluster.md; docs/api.md is made from docstrings, docs/charts.md from the charts of the report and
report/reading.yaml, docs/glossary.md from report/glossary.yaml, and the pages of docs/notebooks from the notebooks beside
them. A test says when one of them is old.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import corewood
from corewood.report.glossary import GLOSSARY, READING
from corewood.report.items import SECTIONS, items_of
from corewood.report.page import QUESTIONS
from corewood.spec.base import Spec
from corewood.spec.cluster import Cluster
from corewood.spec.study import StudySpec
from corewood.spec.tasks import TASK_KINDS
from corewood.spec.ways import L0

DOCS = Path(__file__).parents[1] / "docs"
MARK = re.compile(r"<!-- keys: (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
API = (
    "Every public name, in the order of use. `import corewood as cw` imports no torch; names are looked up when they are first "
    "used. Examples take a `model`, a `task` and `masks` for granted; [the demo by hand](notebooks/demo.md) makes them."
)
CHARTS = (
    "Below each title: what the report says of the chart or table, then an example. A report shows those that its study asks "
    "for; the [tutorial](tutorial.md) walks through the demo's."
)
MADE = "<!-- Written by scripts/docs; change {} instead. -->\n"
OUTSIDE = {"L0": ("sparsity", "path")}  # of its settings, in a study
PAPER = 0.5  # the sparsity at which the paper's settings are shown
PLAIN = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "object": "mapping"}
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
# folder of the source -> heading of its names, in the order of use
PARTS = {
    "data": "Data", "model": "Models and masks", "prune": "Looking for subnetworks", "evaluate": "Judging them",
    "analyse": "What they share, and how sure that is", "report": "Pictures", "study": "Whole studies", "ship": "Shipping one",
    "spec": "Settings", "errors": "Errors",
}  # fmt: skip


# the study file


def spec_classes() -> dict[str, type[Spec]]:
    """Every part of the format, by the name of its class; L0 stands for the settings of one search."""
    found: dict[str, type[Spec]] = {}
    waiting: list[Any] = [StudySpec, *TASK_KINDS.values(), L0]
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, type) and issubclass(kind, Spec):
            if kind.__name__ not in found:
                found[kind.__name__] = kind
                waiting.extend(field.annotation for field in kind.model_fields.values())
        else:
            waiting.extend(get_args(kind))
    return found


def keys_of(kind: type[Spec], without: Sequence[str] = ()) -> dict[str, FieldInfo]:
    """What may be written, as it is written."""
    return {field.alias or name: field for name, field in kind.model_fields.items() if name not in without}


def study_file(page: str) -> str:
    """The page with its tables made anew. A key leads to the heading of its name, or to the table of the keys it holds."""
    places: dict[str, str] = {}
    heading = ""
    for line in page.splitlines():
        heading = line.lstrip("# ") if line.startswith("#") else heading
        places |= {heading: slug(heading)} if line.startswith("#") else {}
        if mark := re.match(r"<!-- keys: (\w+) -->", line):
            places[mark[1]] = slug(heading)
    known = spec_classes()
    if strange := {mark[1] for mark in MARK.finditer(page)} - set(known):
        raise SystemExit(f"docs/study-file.md: a study has no {', '.join(strange)}; its parts are {', '.join(known)}")
    table = {name: keys_table(kind, places, OUTSIDE.get(name, ())) for name, kind in known.items()}
    return MARK.sub(lambda m: f"<!-- keys: {m[1]} -->\n{table[m[1]]}<!-- end -->\n", page)


def cluster(page: str) -> str:
    """The page with the table of a batch system's file made anew."""
    return MARK.sub(f"<!-- keys: Cluster -->\n{keys_table(Cluster, {})}<!-- end -->\n", page)


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def keys_table(kind: type[Spec], places: Mapping[str, str], without: Sequence[str] = ()) -> str:
    schema = kind.model_json_schema()
    paper = L0.paper(PAPER) if kind is L0 else None
    head = ["key", "value", "default", *([f"`paper`, at {PAPER:.0%}"] if paper else []), "meaning"]
    lines = [row(head), row(["---"] * len(head))]
    for name, field in keys_of(kind, without).items():
        named = {name if kind is StudySpec else "", *(c.__name__ for c in classes_in(field.annotation))}
        place = next((place for heading, place in places.items() if heading in named), None)
        key = f"[`{name}`](#{place})" if place else f"`{name}`"
        said, default = meaning(field)
        other = [value_words(getattr(paper, name))] if paper else []
        lines.append(row([key, type_words(schema["properties"][name]), default, *other, said]))
    return "\n".join(lines) + "\n"


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def classes_in(kind: Any) -> Iterator[type[Spec]]:
    if isinstance(kind, type) and issubclass(kind, Spec):
        yield kind
    for part in get_args(kind):
        yield from classes_in(part)


def meaning(field: FieldInfo) -> tuple[str, str]:
    """(what a key means, its default); a description may end in `default: ...`."""
    inside = list(classes_in(field.annotation))
    said = field.description or (first_sentence(inspect.getdoc(inside[0])) if inside else "")
    said, _, told = said.replace("->", "→").partition("default: ")
    default = told or ("required" if field.is_required() else value_words(field.get_default(call_default_factory=True)))
    return said.rstrip(" ;").rstrip("."), default


def first_sentence(text: str | None) -> str:
    """Of a class, in the manner of a description: small, and without the section of a paper."""
    said = re.sub(r" \(LT, .*?\)", "", " ".join((text or "").split())).partition(". ")[0]
    return said[:1].lower() + said[1:] if said[1:2].islower() or said[1:2] == " " else said


def value_words(value: Any) -> str:
    """As it is written in YAML; a range of seeds is their number."""
    if value is None or value in ("", (), {}) or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, tuple):
        seeds = value == tuple(range(len(value)))
        return str(len(value)) if seeds else f"`{value[0]}`" if len(value) == 1 else f"`[{', '.join(map(str, value))}]`"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) else f"{value:g}".replace("e-0", "e-") if value < 1000 else f"{value}"


def type_words(schema: Mapping[str, Any]) -> str:
    """What may be given, from its JSON schema."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        words = dict.fromkeys(type_words(choice) for choice in choices if choice.get("type") != "null")
        return ", or ".join(shortened(list(words)))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        *others, last = [f"`{value}`" for value in schema["enum"]]
        return f"{', '.join(others)} or {last}" if others else last
    if "$ref" in schema or "properties" in schema:
        return "keys"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        pair = schema.get("prefixItems")
        return f"{len(pair)} {many(type_words(pair[0]))}" if pair else f"list of {many(type_words(items))}"
    named = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    if inside := [value for value in named if isinstance(value, Mapping)]:
        return f"name → {type_words(inside[0])}"
    plain = PLAIN.get(schema.get("type", ""), "any value")
    limits = ", ".join(f"{sign} {schema[key]:g}" for key, sign in LIMITS.items() if key in schema)
    return f"{plain} {limits}".rstrip()


def shortened(words: list[str]) -> list[str]:
    """A number, or a list of them; labels may be words or numbers."""
    if {"text", "whole number", "number"} <= {*words}:
        words = ["text or number", *(word for word in words if word not in ("text", "whole number", "number"))]
    return [words[0], "a list of them"] if len(words) == 2 and words[1] == f"list of {many(words[0])}" else words


def many(words: str) -> str:
    return re.sub(r"\b(text|number|mapping)\b", r"\1s", words)


# the library


def api() -> str:
    lines = ["# The library", "", MADE.format("the docstrings")]
    lines += [wrapped(API), ""]
    for part, title in PARTS.items():
        names = [name for name in corewood.__all__ if corewood._WHERE[name].split(".")[0] == part]
        if names:
            lines += [f"## {title}", ""]
            for name in sorted(names, key=str.lower):
                lines += entry(name, getattr(corewood, name))
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, what: Any) -> Iterator[str]:
    kind = isinstance(what, type)
    yield from (f"### {'class ' if kind else ''}cw.{name}", "")
    if not (kind and issubclass(what, (BaseModel, Exception))):
        yield from ("```python", signature(f"cw.{name}", what), "```", "")
    yield from docstring(inspect.getdoc(what) or "")
    if kind and issubclass(what, Spec):
        said = "It holds what a [study file](study-file.md) holds." if what is StudySpec else keys_table(what, {})
        yield from (said.rstrip(), "")
    members = list(described(what)) if kind else []
    yield from (*members, "") if members else ()


def signature(name: str, what: Any) -> str:
    """On one line, or with one parameter a line."""
    try:
        known = inspect.signature(what)
    except ValueError:
        return name
    parts = [parameter(p) for p in known.parameters.values()]
    named = [p.name for p in known.parameters.values() if p.kind is p.KEYWORD_ONLY]
    if named and not any(p.kind is p.VAR_POSITIONAL for p in known.parameters.values()):
        parts.insert([p.name for p in known.parameters.values()].index(named[0]), "*")
    gives = known.return_annotation
    arrow = "" if gives is inspect.Signature.empty or isinstance(what, type) else f" -> {str(gives).strip(chr(39))}"
    line = f"{name}({', '.join(parts)}){arrow}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def parameter(given: inspect.Parameter) -> str:
    """As it is written; a function by its name."""
    if given.default is not given.empty and callable(given.default) and not isinstance(given.default, type):
        name = str(getattr(given.default, "__name__", "..."))
        given = given.replace(default=Written("..." if name == "<lambda>" else name))
    return re.sub(r"^(\**\w+): '(.*?)'(?= =|$)", r"\1: \2", str(given)).replace("<factory>", "...")


class Written(str):
    """A text that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def docstring(text: str) -> Iterator[str]:
    """Paragraphs as they are; the example as code."""
    said, _, example = text.partition("Example:\n")
    yield from (said.strip(), "") if said.strip() else ()
    if example:
        yield from ("```pycon", inspect.cleandoc(example), "```", "")


def described(kind: type) -> Iterator[str]:
    """What it can do, where that says something of itself."""
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        own = plain.fget if isinstance(plain, property) else plain
        if name.startswith("_") or not inspect.isfunction(own) or not own.__doc__:
            continue
        called = "" if isinstance(plain, property) else arguments(own)
        said = " ".join(inspect.cleandoc(own.__doc__).partition("\n\n")[0].split())
        yield f"- `.{name}{called}`: {said}"


def arguments(function: Any) -> str:
    names = [p.name for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    return f"({', '.join(names)})"


# the report


def charts() -> str:
    lines = ["# How to read each chart", "", MADE.format("the chart's docstring, or report/reading.yaml"), wrapped(CHARTS), ""]
    every = [item for question in QUESTIONS for item in items_of(question)]
    for section in SECTIONS:
        items = [item for item in every if item.section == section]
        lines += [f"## {section}", ""] if items else []
        for item in items:
            lines += [f"### {item.title}" + (" (table)" if item.table else ""), "", wrapped(item.text), ""]
            lines += [wrapped(f"*For example*, {READING[item.name]}"), ""] if item.name in READING else []
    return "\n".join(lines).rstrip() + "\n"


def glossary() -> str:
    lines = [
        "# Glossary",
        "",
        MADE.format("report/glossary.yaml"),
        "Read from top to bottom, it is the whole idea.",
        "",
    ]
    for term, said in GLOSSARY.items():
        lines += [f"## {term}", "", wrapped(said), ""]
    return "\n".join(lines).rstrip() + "\n"


def wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)


# notebooks


def notebook(path: Path) -> str:
    """Its cells and what they printed, as Markdown; the note stands below the heading."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source:
            parts.append(f"```python\n{source}\n```")
            parts += printed(cell)
    note = f"{MADE.format(path.name)}\nThis page is a notebook: [{path.name}]({path.name})."
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def printed(cell: Mapping[str, Any]) -> Iterator[str]:
    """What a cell gave: a data frame as a table, all else as text."""
    for output in cell["outputs"]:
        shown = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
        if frame := re.search(r'<table border="1" class="dataframe">.*?</table>', shown.get("text/html", ""), re.DOTALL):
            yield frame[0]
        elif text := "".join(
            output.get("text", "") if output.get("name") == "stdout" else shown.get("text/plain", "")
        ).rstrip():
            yield f"```text\n{text}\n```"


def pages() -> dict[Path, str]:
    """Every page that is made from the code, as it should be."""
    study, batch = DOCS / "study-file.md", DOCS / "cluster.md"
    made = {
        study: study_file(study.read_text(encoding="utf-8")),
        batch: cluster(batch.read_text(encoding="utf-8")),
        DOCS / "api.md": api(),
        DOCS / "charts.md": charts(),
        DOCS / "glossary.md": glossary(),
    }
    return made | {path.with_suffix(".md"): notebook(path) for path in sorted((DOCS / "notebooks").glob("*.ipynb"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
