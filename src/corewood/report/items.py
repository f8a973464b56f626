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


@dataclass(frozen=True)
class Drawn:
    item: Item
    content: Any  # an Altair chart, or HTML


def chart(name: str, title: str, text: str, make: Callable[[Tables], Any]) -> Item:
    return Item(name, title, text, make)


def table(name: str, title: str, text: str, make: Callable[[Tables], str | None]) -> Item:
    return Item(name, title, text, make, table=True)
