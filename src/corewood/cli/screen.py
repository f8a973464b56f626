"""What commands print with."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table


def screen() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # nobody's window: a file, or a pipe
    return console


def table(texts: Iterable[str], numbers: Iterable[str], fold: bool = False) -> Table:
    """Headings of texts, then of numbers, which stand to the right; `fold` breaks texts that are too long."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in texts:
        made.add_column(heading, overflow="fold" if fold else "ellipsis", no_wrap=not fold)
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made
