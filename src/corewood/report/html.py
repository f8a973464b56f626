"""Tables in HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import pandas as pd

from corewood.report.words import two_digits

Format = Callable[[Any], str]


def share(value: Any) -> str:
    return f"{100 * value:.1f} %"


def in_points(value: Any) -> str:
    """A change of accuracy; a minus sign that is one."""
    return "0.0" if abs(value) < 0.0005 else f"{100 * value:+.1f}".replace("-", "\u2212")


def nats(value: Any) -> str:
    return f"{value:.4f}"


# columns that mean the same in every table: how their numbers are written, and what they are called
FORMATS: dict[str, Format] = {
    column: form
    for form, columns in (
        (share, "target mean low high std min max full uniform effective_size smallest largest explained encoder_share "
                "all_share gap gap_comparable gap_best_half core rest between within share full_std"),
        ("{:.0f}".format, "masks heads mlps units seed seeds n checkpoint core_heads rest_heads searches ended comparable "
                          "tunings subnetworks scores examples models survivors"),
        ("{:.3g}".format, "p p_holm p_layers expected expected_layers q_p"),
        ("{:+.2f}".format, "rho delta"),
        (two_digits, "r"),
        (nats, "held_kl unseen_kl KL"),
    )
    for column in columns.split()
}  # fmt: skip
HEADINGS = {
    "mlps": "MLPs", "target": "sparsity", "full": "full model", "checkpoint": "step", "uniform": "by chance",
    "expected": "by chance", "expected_layers": "by chance, same layers", "p_layers": "p, same layers",
    "effective_size": "effective size", "held_kl": "held-out KL", "unseen_kl": "KL, unseen texts",
    "encoder_share": "encoder", "all_share": "parameters",
}  # fmt: skip


def html_table(
    table: pd.DataFrame,
    headings: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    fixed: int = 0,
) -> str:
    """Numbers in the format of their column, all else as text. What is missing is a dash. So many first rows are no part of
    what is sorted."""
    names = {**HEADINGS, **(headings or {})}
    known = {c: f for c, f in {**FORMATS, **(formats or {})}.items() if c in table and pd.api.types.is_numeric_dtype(table[c])}
    head = "".join(f"<th>{escape(str(names.get(c, c)))}</th>" for c in table.columns)
    body = []
    whose = list(table["subnetwork"]) if "subnetwork" in table else [""] * len(table)
    for place, (row, subnetwork) in enumerate(zip(table.itertuples(index=False), whose, strict=True)):
        cells = []
        for column, value in zip(table.columns, row, strict=True):
            missing, form = pd.isna(value), known.get(str(column))
            text = "\u2013" if missing else form(value) if form else str(value)
            raw = -1e9 if missing and form else value
            kind = "" if form else ' class="text"'
            cells.append(f'<td{kind} data-value="{escape(str(raw))}">{escape(text)}</td>')
        of = f' data-subnetwork="{escape(str(subnetwork))}"' if subnetwork else ""  # for a page that lets it be picked
        of += " data-fixed" if place < fixed else ""
        body.append(f"<tr{of}>{''.join(cells)}</tr>")
    rows = "".join(body)
    return f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
