"""Tables in HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import pandas as pd

Format = Callable[[Any], str]
Formats = Mapping[str, Format]
COLUMNS = 8  # cases that fit beside each other


def share(value: Any) -> str:
    return f"{100 * value:.1f} %"


def in_points(value: Any) -> str:
    """A change of accuracy; a minus sign that is one."""
    return "0.0" if abs(value) < 0.0005 else f"{100 * value:+.1f}".replace("-", "\u2212")


def significant(value: Any) -> str:
    return f"{value:.3g}"


def nats(value: Any) -> str:
    return f"{value:.4f}"


def whole(value: Any) -> str:
    return f"{value:.0f}"


def html_table(table: pd.DataFrame, formats: Formats, headings: Mapping[str, str] | None = None) -> str:
    """Columns without a format are text. What is missing is a dash."""
    names = headings or {}
    head = "".join(f"<th>{escape(str(names.get(c, c)))}</th>" for c in table.columns)
    body = []
    for row in table.itertuples(index=False):
        cells = []
        for column, value in zip(table.columns, row, strict=True):
            known = not pd.isna(value)
            form = formats.get(str(column))
            text = "\u2013" if not known else form(value) if form else str(value)
            raw = (value if known else -1e9) if form else value
            kind = "" if form else ' class="text"'
            cells.append(f'<td{kind} data-value="{escape(str(raw))}">{escape(text)}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )
