"""What commands print with."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from corewood.untrusted import visible


class Screen(Console):
    """Shows names and texts of others, and obeys none of them: the one way by which they come to a terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def screen() -> Console:
    """For results."""
    console = Screen(highlight=False)
    if not console.is_terminal:
        console.width = 160  # nobody's window: a file, or a pipe
    return console


def aside(soft_wrap: bool = False) -> Console:
    """For what is said on the way."""
    return Screen(stderr=True, highlight=False, soft_wrap=soft_wrap)


def table(texts: Iterable[str], numbers: Iterable[str], fold: bool = False) -> Table:
    """Headings of texts, then of numbers, which stand to the right; `fold` breaks texts that are too long."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in texts:
        made.add_column(heading, overflow="fold" if fold else "ellipsis", no_wrap=not fold)
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made
