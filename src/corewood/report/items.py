"""What a report is made of: charts and tables, each in its section.

    @chart("Heads and core", "heads", "Which heads survive", of="frequencies")
    def heads_chart(tables):
        '''Dark heads are kept by most subnetworks.'''

makes an `Item`; the page shows those of each question in the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from corewood.report.style import Tables

# in the order of reading; those that are drawn for each model and way, of their own rows alone
SECTIONS = {
    "Subnetworks": True, "Fine-tunings": False, "Tickets": False, "Ways": False, "Heads and core": True, "Competing": False,
    "Survivors": False,
    "Stability": False, "Between tasks": False, "Training": True, "Ablations": True, "Attention": True, "Patterns": False,
    "Searches": True, "Pruning": False,
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    section: str
    name: str
    title: str
    text: str  # what to see in it, one or two sentences
    of: tuple[str, ...]  # the tables it is made from: without them there is nothing to show
    make: Callable[[Tables], Any]  # an Altair chart, or HTML; None where there is nothing to show
    table: bool

    def __call__(self, tables: Tables) -> Any:
        return self.make(tables) if all(name in tables for name in self.of) else None


@dataclass(frozen=True)
class Drawn:
    item: Item
    content: Any  # what Vega-Lite draws, or HTML
    model: str = ""  # whose it is, where there are several
    reading: str = ""  # an example of what is to be seen in it


Make = Callable[[Callable[[Tables], Any]], Item]


def chart(section: str, name: str, title: str, of: str, table: bool = False) -> Make:
    """What the function says of itself is what the report says below the title: what to see."""
    return lambda make: Item(section, name, title, " ".join((getdoc(make) or "").split()), tuple(of.split()), make, table)


def table(section: str, name: str, title: str, of: str) -> Make:
    return chart(section, name, title, of, table=True)


def items_of(module: object) -> list[Item]:
    return [value for value in vars(module).values() if isinstance(value, Item)]


@dataclass(frozen=True)
class Sentences:
    """What a question has to say on the page's first screen, or, where they are `sure`, to those who ask how sure it is."""

    of: tuple[str, ...]
    single: bool | None  # where there is one model; where there are several; None: always
    sure: bool
    make: Callable[[Tables], list[str]]


def says(of: str, single: bool | None = None, sure: bool = False) -> Callable[[Callable[[Tables], list[str]]], Sentences]:
    return lambda make: Sentences(tuple(of.split()), single, sure, make)


def said_of(module: object, tables: Tables, single: bool, sure: bool) -> list[str]:
    every = [value for value in vars(module).values() if isinstance(value, Sentences) and value.sure == sure]
    wanted = [s for s in every if s.single in (None, single) and all(name in tables for name in s.of)]
    return [point for sentences in wanted for point in sentences.make(tables)]
