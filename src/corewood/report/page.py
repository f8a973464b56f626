"""The report: one HTML file that asks nothing of the network, and the same charts as figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
import yaml

from corewood.analyse.generalisation import judged
from corewood.report.charts import Figure, figures
from corewood.report.style import Tables
from corewood.report.words import finding

# the release of Vega-Lite that charts are written for, where vl-convert has it
VEGA_LITE = min(vl_convert.get_vegalite_versions(), key=lambda v: (not alt.SCHEMA_VERSION.startswith(f"v{v}."), -float(v)))


def write_report(tables: Tables, about: Mapping[str, Any], folder: Path) -> None:
    """report.html and figures/*.svg, pdf, png."""
    drawn = figures(tables)
    (folder / "report.html").write_text(page(tables, about, drawn), encoding="utf-8")
    (folder / "figures").mkdir()
    for figure in drawn:
        svg = vl_convert.vegalite_to_svg(figure.chart.to_json(), vl_version=VEGA_LITE)
        path = folder / "figures" / figure.name
        path.with_suffix(".svg").write_text(svg, encoding="utf-8")
        path.with_suffix(".pdf").write_bytes(vl_convert.svg_to_pdf(svg))
        path.with_suffix(".png").write_bytes(vl_convert.svg_to_png(svg, scale=2))


def page(tables: Tables, about: Mapping[str, Any], drawn: list[Figure]) -> str:
    here = files("corewood.report")
    found = finding(tables, str(about["model"]))
    sections = [section(f) for f in drawn]
    contents = [f'<a href="#{f.name}">{escape(f.title)}</a>' for f in drawn]
    table = subnetwork_table(tables)
    if table:
        sections.append(f'<section id="subnetworks"><h2>All subnetworks</h2>{table}</section>')
        contents.append('<a href="#subnetworks">All subnetworks</a>')
    sections.append(f'<section id="provenance"><h2>Where this comes from</h2>{provenance(tables, about)}</section>')
    contents.append('<a href="#provenance">Provenance</a>')
    specs = {f.name: f.chart.to_dict() for f in drawn}
    script = vl_convert.javascript_bundle(here.joinpath("page.js").read_text(encoding="utf-8"), vl_version=VEGA_LITE)
    return Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(str(about["title"])),
        style=here.joinpath("page.css").read_text(encoding="utf-8"),
        headline=escape(found.headline),
        points="".join(f"<li>{escape(p)}</li>" for p in found.points),
        holes=holes(tables),
        contents=" ".join(contents),
        sections="\n".join(sections),
        specs=json.dumps(specs, ensure_ascii=False, allow_nan=False, default=str).replace("</", "<\\/"),
        script=script.replace("</script", "<\\/script"),
    )


def section(figure: Figure) -> str:
    links = " ".join(f'<a href="figures/{figure.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "pdf", "png"))
    return (
        f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2><p>{escape(figure.text)}</p>'
        f'<div class="chart" id="chart-{figure.name}"></div><p class="links">{links}</p></section>'
    )


def holes(tables: Tables) -> str:
    missing = tables["holes"]
    if missing.empty:
        return ""
    rows = "".join(f"<li><b>{escape(str(r['job']))}</b>: {escape(str(r['reason']))}</li>" for _, r in missing.iterrows())
    return f'<div class="holes"><b>{len(missing)} jobs have no result</b>, and nothing stands in for them:<ul>{rows}</ul></div>'


def subnetwork_table(tables: Tables) -> str:
    """One row per subnetwork; a click on a heading sorts."""
    if "sizes" not in tables:
        return ""
    accuracy = tables["accuracy"]
    last = accuracy[accuracy["checkpoint"] == accuracy["checkpoint"].max()]
    cases = judged(last)
    challenge = cases[cases["domain"] == "challenge"].groupby("subnetwork")["value"]
    table = (
        tables["sizes"]
        .set_index("subnetwork")[["target", "seed", "heads", "mlps", "units", "encoder_share", "all_share"]]
        .copy()
    )
    inside = last[last["domain"] == "in-domain"].set_index("subnetwork")
    table["in domain"] = inside["value"]
    table["agrees with full"] = inside["agreement"]
    table["KL"] = inside["kl"]
    if len(challenge):
        table["cases, mean"], table["worst case"] = challenge.mean(), challenge.min()
    names = {"target": "sparsity", "mlps": "MLPs", "encoder_share": "encoder", "all_share": "parameters"}
    shares = {"target", "encoder_share", "all_share", "in domain", "agrees with full", "cases, mean", "worst case"}
    head = "".join(f"<th>{escape(names.get(c, c))}</th>" for c in ["subnetwork", *table.columns])
    body = []
    for name, row in table.iterrows():
        cells = []
        for column, value in row.items():
            known = not pd.isna(value)
            shown = (
                "–"
                if not known
                else f"{100 * value:.1f} %"
                if column in shares
                else f"{value:.3f}"
                if column == "KL"
                else f"{value:.0f}"
            )
            cells.append(f'<td data-value="{value if known else -1}">{shown}</td>')
        body.append(f'<tr><td data-value="{escape(str(name))}">{escape(str(name))}</td>{"".join(cells)}</tr>')
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def provenance(tables: Tables, about: Mapping[str, Any]) -> str:
    def rows(pairs: Mapping[str, Any]) -> str:
        return (
            "<table>"
            + "".join(f"<tr><th>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in pairs.items())
            + "</table>"
        )

    stand_in = {
        "mean": "its mean over non-padding tokens of the sample",
        "zero": "zero",
        "resample": "its value in another example",
    }
    parts = [
        f"<p>A removed unit is replaced by {stand_in[about['ablate']]}. Intervals are Wilson's, 95 %. "
        f"Cases whose gold label is one and the same measure recall of that label.</p>",
        "<h3>Labels: classes of the model, and what they count as</h3>" + rows(about["labels"]),
        "<h3>Examples</h3>" + rows(about["examples"]),
    ]
    if "core" in tables:
        core = tables["core"].copy()
        for column in ("expected", "p", "expected_layers", "p_layers"):
            core[column] = core[column].map(lambda v: f"{v:.3g}")
        core.columns = pd.Index(
            ["core of", "masks", "heads", "by chance", "p", "by chance, same layers", "p", "MLPs", "members"]
        )
        parts.append("<h3>The core by definition</h3>" + core.to_html(index=False, border=0))
    if about["notes"]:
        parts.append("<h3>Notes</h3><ul>" + "".join(f"<li>{escape(n)}</li>" for n in about["notes"]) + "</ul>")
    parts.append("<h3>Study</h3><pre>" + escape(yaml.safe_dump(about["study"], sort_keys=False, allow_unicode=True)) + "</pre>")
    parts.append("<h3>Versions</h3>" + rows({**about["versions"], "seconds of work": about["job_seconds"]}))
    return "".join(parts)
