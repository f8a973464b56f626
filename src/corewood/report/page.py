"""The report: one HTML file that asks nothing of the network, and the same charts as figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import vl_convert
import yaml
from altair.utils.schemapi import debug_mode

from corewood.analyse.generalisation import judged
from corewood.report import (
    ablations,
    attention,
    competing,
    core,
    core_alone,
    dynamics,
    effective_size,
    examples,
    overlaps,
    patterns,
    searches,
    skills,
    spread,
    standing,
    survivors,
    tickets,
    tunings,
    verdicts,
    ways_compared,
)
from corewood.report.cells import in_script
from corewood.report.figures import drawing
from corewood.report.glossary import GLOSSARY, READING
from corewood.report.items import SECTIONS, Drawn, Item, items_of, said_of
from corewood.report.models import AT_CHECKPOINTS, ModelTables, apart, models_of, plain, unlearnt
from corewood.report.style import DARK, Tables, percent, styled
from corewood.report.ways import BESIDE, MAGNITUDE, RANDOM
from corewood.report.words import Finding, joined

# one module a question, in the order of reading
QUESTIONS = (
    verdicts,
    spread,
    skills,
    examples,
    tunings,
    tickets,
    ways_compared,
    core,
    competing,
    core_alone,
    survivors,
    overlaps,
    dynamics,
    effective_size,
    ablations,
    attention,
    patterns,
    searches,
    standing,
)
HEADLINES = (spread, tickets, ways_compared)
FEW = 6  # sizes that are listed one by one
FIRST = "spread"  # the chart on the first screen

# the release of Vega-Lite that charts are written for, where vl-convert has it
VEGA_LITE = min(vl_convert.get_vegalite_versions(), key=lambda v: (not alt.SCHEMA_VERSION.startswith(f"v{v}."), -float(v)))


# words that are explained where they stand; others of the glossary are everyday words, too
EVERYDAY = {"full", "model", "way", "focus", "spread", "points", "study", "job", "store", "hole", "chance", "gate"}
MENTIONS = {term.lower().removesuffix("s"): term for term in GLOSSARY if term not in EVERYDAY} | {"full model": "full"}

STAND_INS = {
    "mean": "its mean over non-padding tokens of the sample",
    "zero": "zero",
    "resample": "its value in another example",
}


def write_report(tables: Tables, about: Mapping[str, Any], folder: Path, processes: int = 1) -> None:
    """report.html, and figures/* in the formats that are wanted."""
    sections = draw(tables)
    figures = folder / "figures"
    if about["figures"]:
        figures.mkdir()
    with drawing(charts(sections), about["figures"], figures, VEGA_LITE, processes):
        (folder / "report.html").write_text(page(tables, about, sections), encoding="utf-8")


def page(tables: Tables, about: Mapping[str, Any], sections: Mapping[str, list[Drawn]]) -> str:
    here = files("corewood.report")
    found = finding(tables, str(about["model"]))
    scripts, styles = (
        "\n".join(here.joinpath(f"{name}.{kind}").read_text(encoding="utf-8") for name in ("examples", "page"))
        for kind in ("js", "css")
    )
    script = bundled(scripts)
    first = [d for items in sections.values() for d in items if d.item.name == FIRST and found.points]
    parts = [
        f'<h2 class="part" id="{slug(name)}">{escape(name)}</h2>'
        + "\n".join(section(d, about["figures"], tables) for d in items if d not in first)
        for name, items in sections.items()
    ]
    origin = provenance(about, tables)
    parts.append(f'<h2 class="part" id="provenance">Where this comes from</h2><section>{origin}</section>')
    return Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(str(about["title"])),
        style=styles,
        headline=escape(found.headline),
        lead=f'<p class="lead">{escape(found.lead)}</p>' if found.lead else "",
        tiles=tiles(tables) if found.points else "",
        first="".join(section(d, about["figures"], tables) for d in first),
        points="".join(f"<li>{escape(p)}</li>" for p in found.points),
        sure=how_sure(found.sure),
        holes=holes(tables),
        contents=contents(sections),
        sections="\n".join(parts),
        dark=in_script(DARK),
        specs=in_script(charts(sections)),
        examples=in_script(examples.packed(tables, models_of(apart(tables)))),
        script=script.replace("</script", "<\\/script"),
    )


@cache
def bundled(script: str) -> str:
    """A script with all that draws charts; making it takes two seconds."""
    return str(vl_convert.javascript_bundle(script, vl_version=VEGA_LITE))


def tiles(tables: Tables) -> str:
    """Three numbers of the subnetwork to take, where there is one model."""
    models = models_of(apart(plain(tables)))
    title, found = verdicts.tiles(models[0].tables) if len(models) == 1 else ("", [])
    parts = [
        f'<div class="tile"><span>{escape(t.label)}</span><b>{escape(t.value)}</b><small>{escape(t.note)}</small></div>'
        for t in found
    ]
    return f'<p class="whose">{escape(title)}</p><div class="tiles">{"".join(parts)}</div>' if found else ""


def how_sure(said: list[str]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in said)
    return f'<details class="sure"><summary>How sure is this?</summary><ul>{lines}</ul></details>' if said else ""


def charts(sections: Mapping[str, list[Drawn]]) -> dict[str, Any]:
    """Name -> what Vega-Lite draws."""
    return {d.item.name: d.content for items in sections.values() for d in items if not d.item.table}


def finding(tables: Tables, model: str) -> Finding:
    """What a reader should take away, from the tables alone. Of models that have not learnt their task, nothing but that."""
    made = judged_finding(tables, model)
    not_learnt = unlearnt(tables, model)
    if not_learnt and tables["models"]["learnt"].any():
        return replace(made, points=[not_learnt, *made.points])
    return Finding(not_learnt, []) if not_learnt else made


def judged_finding(tables: Tables, model: str) -> Finding:
    """What is in doubt first. Searches beside the plain ones are told of where they are compared with these."""
    tables = apart(plain(tables))
    models = models_of(tables)
    single = len(models) == 1
    shared = {name: table for name, table in tables.items() if name not in AT_CHECKPOINTS}
    own = {**shared, **models[0].tables} if single else tables
    said = [line for question in HEADLINES if (line := question.headline(own, model))]
    if not said:
        said = ["No subnetwork could be judged." if not tables["holes"].empty else f"What the study asked of {model}."]
    points, sure = ([p for question in QUESTIONS for p in said_of(question, own, single, wanted)] for wanted in (False, True))
    doubts = searches.convergence_points(own)[0] if single else []
    return Finding(searches.unfinished(tables) + said[0], [*doubts, *said[1:], *points], sure, done(tables, model))


def done(tables: Tables, model: str) -> str:
    """What was looked at, and what units and cases are, in two plain sentences."""
    if "sizes" not in tables:
        return ""
    rows, sizes = tables["scores"], tables["sizes"]
    one = sizes[(sizes["question"] == "prune") & ~sizes["way"].isin(["full", *RANDOM, *BESIDE])]
    if one.empty:
        return ""
    by_size = one.groupby("target").size().items()
    counts = [sized(number, float(str(target))) for target, number in by_size]
    if len(counts) > FEW:
        targets = one["target"][one["target"] > 0]
        counts = [f"{len(one)} of {len(counts)} sizes, with {100 * targets.min():g} to {100 * targets.max():g} % removed"]
    parts = "single weights" if (one["way"] == MAGNITUDE).all() else "attention heads and MLPs (its units)"
    text = f"A subnetwork is {model} with some of its {parts} removed; here, {joined(counts)}."
    cases = judged(rows[(rows["way"] == "full") & (rows["domain"] == "challenge")]).drop_duplicates(["task", "dataset", "case"])
    if len(cases):
        low, high = int(cases["n"].min()), int(cases["n"].max())
        each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        kinds = "one case" if len(cases) == 1 else f"{len(cases)} cases"
        text += " In domain is the validation set; a case is a kind of example that is judged beside it: "
        text += f"{kinds}, {each} examples each."
    return text


def sized(number: int, target: float) -> str:
    """3 have 75 % removed, or 1 is pruned to a threshold"""
    one, several = ("has", "have") if target else ("is", "are")
    return f"{number} {one if number == 1 else several} {percent(target)}"


def draw(tables: Tables) -> dict[str, list[Drawn]]:
    """Section -> what it shows; sections without data are absent."""
    alt.data_transformers.disable_max_rows()
    with debug_mode(False):  # Altair would look at every part of every chart; the tests draw them all in a browser
        return drawn(apart(tables))


def drawn(tables: Tables) -> dict[str, list[Drawn]]:
    made: dict[str, list[Drawn]] = {section: [] for section in SECTIONS}
    models = models_of(tables)
    for item in [item for question in QUESTIONS for item in items_of(question)]:
        for model in models if SECTIONS[item.section] else [ModelTables("", tables)]:
            content = item(model.tables)
            if content is not None:
                shown = content if item.table else styled(content)
                made[item.section].append(Drawn(named(item, model), shown, model.label, READING.get(item.name, "")))
    return {section: items for section, items in made.items() if items}


def named(item: Item, model: ModelTables) -> Item:
    """Where there are several models, what is drawn for each has its name."""
    return replace(item, name=f"{item.name}-{model.slug}") if model.label else item


def slug(name: str) -> str:
    return name.lower().replace(" ", "-") + "-part"


def contents(sections: Mapping[str, list[Drawn]]) -> str:
    """A slim bar: everything in a fold, the sections, whose charts are shown, a filter, and what is picked."""
    parts = {slug(name): name for name in sections} | {"provenance": "Where this comes from"}
    lines = []
    for name, items in sections.items():
        links = " ".join(f'<a href="#{d.item.name}"{of_model(d)}>{escape(d.item.title)}</a>' for d in items)
        lines.append(f'<p><a class="part-link" href="#{slug(name)}">{escape(name)}</a> {links}</p>')
    lines.append('<p><a class="part-link" href="#provenance">Where this comes from</a></p>')
    links = "".join(f'<a href="#{at}">{escape(name)}</a>' for at, name in parts.items())
    return (
        f'<div class="bar"><details class="contents"><summary>Contents</summary><div>{"".join(lines)}</div></details>'
        f'<div class="parts">{links}</div>'
        f'{choice(sections)}<input id="filter" type="search" placeholder="Filter by title" aria-label="Filter by title">'
        '<button id="picked" title="Picked in all charts; Escape unpicks" hidden></button></div>'
    )


def of_model(drawn: Drawn) -> str:
    return f' data-model="{escape(drawn.model)}"' if drawn.model else ""


def choice(sections: Mapping[str, list[Drawn]]) -> str:
    """Where there are several models: which one the charts show."""
    labels = dict.fromkeys(d.model for items in sections.values() for d in items if d.model)
    options = "".join(f"<option>{escape(label)}</option>" for label in labels)
    return f'<p class="choice"><label>Charts of <select id="model">{options}</select></label></p>' if labels else ""


def section(drawn: Drawn, figures: Sequence[str], tables: Tables) -> str:
    item = drawn.item
    head = f'<section id="{item.name}"{of_model(drawn)}><h3>{escape(item.title)}</h3><p>{with_terms(item.text)}</p>'
    content = drawn.content if item.table else f'{how_to_read(drawn)}<div class="chart" id="chart-{item.name}"></div>'
    links = [f'<a href="figures/{item.name}.{kind}">{kind.upper()}</a>' for kind in figures if not item.table]
    links += [f'<a href="tables/{name}.csv" download>{name}.csv</a>' for name in sources(item, tables)]
    return f'{head}{content}<p class="links">{" ".join(links)}</p></section>'


def sources(item: Item, tables: Tables) -> list[str]:
    """The tables on disk that an item is made from: what it calls by other names are rows of these."""
    found = []
    for name in item.of:
        plain_name = name.removesuffix("_over_training").removeprefix("skill_")
        found.append(name if name in tables else "scores" if plain_name == "accuracy" else plain_name)
    return [name for name in dict.fromkeys(found) if name in tables]


def how_to_read(drawn: Drawn) -> str:
    """An example of what is to be seen in a chart, in a fold; *names* stand out."""
    if not drawn.reading:
        return ""
    text = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escape(drawn.reading[0].upper() + drawn.reading[1:]))
    return f'<details class="reading"><summary>How to read this</summary><p>For example: {text}</p></details>'


def with_terms(text: str) -> str:
    """The first mention of each word of the glossary has its meaning beside it."""
    seen = set()

    def marked(found: re.Match[str]) -> str:
        term = MENTIONS[found[0].lower().removesuffix("s")]
        if term in seen:
            return found[0]
        seen.add(term)
        meaning = GLOSSARY[term].partition(". ")[0].rstrip(".").replace("`", "") + "."
        return f'<span class="term" tabindex="0" data-meaning="{escape(meaning)}">{found[0]}</span>'

    every = "|".join(sorted(map(re.escape, MENTIONS), key=len, reverse=True))
    return re.sub(rf"\b({every})s?\b", marked, escape(text, quote=False), flags=re.IGNORECASE)


def holes(tables: Tables) -> str:
    missing = tables["holes"]
    if missing.empty:
        return ""
    rows = "".join(f"<li><b>{escape(str(r['job']))}</b>: {escape(str(r['reason']))}</li>" for _, r in missing.iterrows())
    what, them = ("1 job has", "it") if len(missing) == 1 else (f"{len(missing)} jobs have", "them")
    return f'<div class="holes"><b>{what} no result</b>, and nothing stands in for {them}:<ul>{rows}</ul></div>'


def basis(ablate: str, tables: Tables) -> str:
    """What stands in for a removed unit, and what intervals are."""
    said = f"A removed unit is replaced by {STAND_INS[ablate]}"
    ways = set(tables["scores"]["way"])
    said += "; of importance pruning, by zero unless the study says otherwise" if "importance" in ways else ""
    said += "; in retraining, by zero" if (tables["scores"]["state"] == "retrained").any() else ""
    said += ". Intervals are 95 %: of accuracy Wilson's; of changes Bonett and Price's, paired"
    if "skills" in tables:
        said += (
            "; of balanced accuracy Zou and Donner's, made of Wilson's; of AUC Newcombe's; of d\u2032 Gourevitch and Galanter's"
        )
    if "ways" in tables:
        said += "; where ways are compared, t intervals over models and examples, both taken as samples (of one model, over "
        said += "examples alone)"
    if "tickets" in tables:
        said += ". \u00b1 is one standard deviation over seeds, and no interval"
    return said + "."


def provenance(about: Mapping[str, Any], tables: Tables) -> str:
    def rows(pairs: Mapping[str, Any]) -> str:
        return (
            "<table>"
            + "".join(f"<tr><th>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in pairs.items())
            + "</table>"
        )

    parts = [
        f"<p>{basis(about['ablate'], tables)} Cases whose gold label is one and the same measure recall of that label.</p>",
        "<h4>Labels: classes of the model, and what they count as</h4>" + rows(about["labels"]),
        "<h4>Examples</h4>" + rows(about["examples"]),
    ]
    if about["notes"]:
        parts.append("<h4>Notes</h4><ul>" + "".join(f"<li>{escape(n)}</li>" for n in about["notes"]) + "</ul>")
    parts.append("<h4>Study</h4><pre>" + escape(yaml.safe_dump(about["study"], sort_keys=False, allow_unicode=True)) + "</pre>")
    parts.append("<h4>Versions</h4>" + rows({**about["versions"], "seconds of work": about["job_seconds"]}))
    return "".join(parts)
