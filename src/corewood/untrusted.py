"""Reading what others wrote: files that may be anything, and text that may hold anything. Each has an end, and each problem is
an InputError that says what it is."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from corewood.errors import InputError

LONGEST_NAME = 255  # bytes of one part of a path, on every file system in use
SHOWN = 200  # characters of another library's complaint, or of a value, that a message holds


def why(problem: BaseException) -> str:
    """The first line of what another library says, as a part of a sentence; what it is, where it says nothing."""
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    if isinstance(problem, MemoryError):
        return "more than the memory holds"
    said = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem).strip()
    first = (said.splitlines() or [""])[0]
    return shortened(first) if first and not isinstance(problem, KeyError) else f"{type(problem).__name__} {first}".strip()


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}\u2026"


# what a terminal obeys instead of showing: control characters but tab and newline, and what turns the direction of writing;
# half characters no stream can write
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """With a picture in the place of each character that a terminal would obey: no name can clear the screen, or hide."""
    return HIDDEN.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


def readable(name: str) -> str:
    """The name of a file, also where its bytes are no text."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def lone_surrogate(text: str) -> bool:
    """Half a character, which UTF-8 cannot write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def user_path(given: str | Path, base: Path | None = None, key: str = "") -> Path:
    """A path as a user writes it, relative to `base`, that the system can at least look for."""
    who = f"{key}: " if key else ""
    try:
        path = (base or Path()) / Path(given).expanduser()
    except RuntimeError:  # ~nosuchuser
        raise InputError(f"{who}{given}: there is no such user's folder; write the path in full") from None
    if "\0" in str(path) or any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise InputError(
            f"{who}{shortened(repr(str(given)))}: no file can have this name; parts have {LONGEST_NAME} bytes at most"
        )
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise InputError(f"{who}{shortened(str(path))}: cannot be looked at ({why(problem)})") from None
    return path


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Of a regular file: a pipe or a device may have no end. `most`: bytes at the most."""
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is no regular file" if path.exists() else "there is no such file"
            raise InputError(f"{path}: cannot be read ({what}); check the path, its permissions and format")
        size = path.stat().st_size
        if most is not None and size > most:
            raise InputError(f"{path}: has {size:,} bytes, and {most:,} are the most that such a file may have")
        return path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({why(problem)}); check the path, its permissions and format") from None


def parse_json(text: str | bytes, who: str, hint: str = "") -> Any:
    """`who` is the file, and the line where there are several; `hint` says what is expected."""
    escaped = "\\u" in text if isinstance(text, str) else b"\\u" in text
    try:
        made = json.loads(text)
        if escaped and lone_surrogate(json.dumps(made, ensure_ascii=False)):
            raise ValueError("half a character, as \\ud83d without the other half")
        return made
    except (ValueError, RecursionError, MemoryError) as problem:  # a number of 5,000 digits is a plain ValueError
        said = problem.msg if isinstance(problem, json.JSONDecodeError) else why(problem)
        raise InputError(f"{who}is not JSON ({said}){hint}") from None
