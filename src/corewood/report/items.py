"""What a section of a report is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from corewood.report.style import Tables


@dataclass(frozen=True)
class Item:
    """One thing to look at: a chart, or a table in HTML."""

    name: str
    title: str
    text: str  # what to see in it, one or two sentences
    make: Callable[[Tables], Any]
    table: bool = False
    per_model: bool = False  # drawn for each model and way, of their own rows alone


@dataclass(frozen=True)
class Drawn:
    item: Item
    content: Any  # an Altair chart, or HTML
    model: str = ""  # whose it is, where there are several


def chart(name: str, title: str, text: str, make: Callable[[Tables], Any], per_model: bool = False) -> Item:
    return Item(name, title, text, make, per_model=per_model)


def table(name: str, title: str, text: str, make: Callable[[Tables], str | None], per_model: bool = False) -> Item:
    return Item(name, title, text, make, table=True, per_model=per_model)
