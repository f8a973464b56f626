"""Texts of others in the places that a report has: a script of the page, a cell of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

# what makes a cell a formula in a spreadsheet, which may then send what is beside it to anybody
FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def in_script(value: Any) -> str:
    """JSON for a script element: no text in it can end the element, or begin a comment."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str).replace("<", "\\u003c")


def cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula has an apostrophe before it, which the spreadsheet does not show. Line
    ends are of one kind: a lone carriage return would begin a row that nobody wrote."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(FORMULA) else text


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Numbers as they are; texts and headings so that none of them is a formula."""
    texts = [column for column in table.columns if not pd.api.types.is_numeric_dtype(table[column])]
    safe = table.assign(**{column: table[column].astype(object).map(cell) for column in texts})
    safe.columns = [cell(str(column)) for column in table.columns]
    safe.to_csv(path, index=False, lineterminator="\n")
