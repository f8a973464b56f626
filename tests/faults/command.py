"""The command in this process: quick, and with its real error handling."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corewood.cli import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def told(self) -> bool:
        """Whether it ended as a command may end: done, or with a message."""
        return self.code in (0, 1, 2) and "Traceback" not in self.err


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def corewood(folder: Path, *words: str | Path) -> Said:
    """As in a shell in this folder."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before, code = sys.argv, 0
    sys.argv = ["corewood", *map(str, words)]
    try:
        with inside(folder), contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    finally:
        sys.argv = before
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in streams)  # type: ignore[attr-defined]
    return Said(code, out, err)
