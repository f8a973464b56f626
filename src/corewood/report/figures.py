"""Charts as files. Vega draws one after another in a process: many are shared out over processes of their own.

Such a process runs this file as it stands, which imports nothing of the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import vl_convert

WORTH = 250_000  # characters of charts that are worth a process: a second of its time to begin, three to draw them
MOST = 4  # processes

FIGURES: dict[str, Callable[[str], bytes]] = {
    "svg": lambda svg: svg.encode(),
    "pdf": lambda svg: bytes(vl_convert.svg_to_pdf(svg)),
    "png": lambda svg: bytes(vl_convert.svg_to_png(svg, scale=2)),
}


def draw(charts: Mapping[str, str], kinds: Sequence[str], folder: Path, release: str) -> None:
    """NAME.KIND in the folder, of charts in JSON, by a release of Vega-Lite."""
    for name, chart in charts.items():
        svg = vl_convert.vegalite_to_svg(chart, vl_version=release)
        for kind in kinds:
            (folder / f"{name}.{kind}").write_bytes(FIGURES[kind](svg))


def shared_out(charts: Mapping[str, str], parts: int) -> list[dict[str, str]]:
    """The largest first, each to whoever has the least."""
    made: list[dict[str, str]] = [{} for _ in range(parts)]
    for name in sorted(charts, key=lambda name: (-len(charts[name]), name)):
        least = min(made, key=lambda part: sum(map(len, part.values())))
        least[name] = charts[name]
    return [part for part in made if part]


@contextmanager
def drawing(specs: Mapping[str, Any], kinds: Sequence[str], folder: Path, release: str, processes: int) -> Iterator[None]:
    """Figures of all charts, there at the end; what is done inside goes on beside it."""
    charts = {name: json.dumps(spec) for name, spec in specs.items()} if kinds else {}
    parts = max(1, min(processes, MOST, sum(map(len, charts.values())) // WORTH))
    if parts == 1:
        yield
        draw(charts, kinds, folder, release)
        return
    with ExitStack() as stack:
        begun = [(part, stack.enter_context(begin(part, kinds, folder, release))) for part in shared_out(charts, parts)]
        yield
        for part, process in begun:
            if process.wait():  # whatever it met: it is met here, too, and told, or was the process's own
                draw(part, kinds, folder, release)


@contextmanager
def begin(charts: Mapping[str, str], kinds: Sequence[str], folder: Path, release: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that draws them; it does not outlive the block."""
    command, silent = [sys.executable, "-P", __file__], subprocess.DEVNULL
    with tempfile.TemporaryFile("w+") as asked:
        json.dump([charts, list(kinds), str(folder.absolute()), release], asked)
        asked.seek(0)
        with subprocess.Popen(command, stdin=asked, stdout=silent, stderr=silent) as process:
            try:
                yield process
            finally:
                process.kill()


if __name__ == "__main__":
    charts, kinds, folder, release = json.load(sys.stdin)
    draw(charts, kinds, Path(folder), release)
