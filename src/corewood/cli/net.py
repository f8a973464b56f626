"""Below every command: what nobody foresaw ends in a sentence, never in a bare traceback."""

from __future__ import annotations

import errno
import io
import os
import platform
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from corewood.cli.voice import emit
from corewood.errors import CorewoodError
from corewood.untrusted import visible, why

STREAM = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT)  # of a write to no file that has a name
LOST = "standard output cannot be written ({}); the rest of what was said is lost"
WRONG, UNFORESEEN, TERMINATED = 2, 70, 143  # exit codes: something to correct, a mistake of ours, SIGTERM


def guarded(command: Callable[[], None]) -> None:
    """Run a command and leave."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no such letters shows their numbers
    with terminable() as ended:
        code = outcome(command)
    lost = unwritten()
    if lost:
        tell(LOST.format(lost))
        code = WRONG
    sys.exit(TERMINATED if ended else code)


def outcome(command: Callable[[], None]) -> Any:
    """The exit code."""
    try:
        command()
    except SystemExit as leaving:
        return leaving.code
    except KeyboardInterrupt:
        return 130
    except CorewoodError as problem:
        tell(str(problem))
        return WRONG
    except BaseException as problem:  # also what libraries that are not Python raise
        if isinstance(problem, OSError) and problem.filename is None and problem.errno in STREAM:
            redirect()
            tell(LOST.format(why(problem)))
            return WRONG
        tell(unforeseen(problem))
        return UNFORESEEN
    return 0


def tell(problem: str) -> None:
    if "--json" in sys.argv:
        emit("error", message=problem)
    from corewood.cli.screen import aside

    aside().print("[bold red]error:[/bold red] ", end="")
    typer.echo(visible(problem), err=True)


def unforeseen(problem: BaseException) -> str:
    """In a sentence, with the place of the log that has the rest."""
    from corewood import __version__

    about = f"corewood {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv}\n\n"
    text = about + "".join(traceback.format_exception(problem))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="corewood-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(text)
        where = f"The log with the details is {log.name}; please send it with what you did."
    except OSError as full:
        where = f"The log could not be written ({why(full)})."
    said = f"{type(problem).__name__}: {why(problem)}"
    return f"something happened that Corewood did not foresee ({said}). Finished jobs are kept. {where}"


def unwritten() -> str:
    """Why standard output cannot be written, or nothing; then nobody tries again."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # who reads it has seen enough
        redirect()
    except (OSError, ValueError) as problem:
        redirect()
        return why(problem)
    return ""


def redirect() -> None:
    """So that Python does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Inside, a SIGTERM ends a command as Ctrl-C does: what is finished is kept. The list then is not empty."""
    ended: list[int] = []

    def stop(number: int, _frame: object) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)
