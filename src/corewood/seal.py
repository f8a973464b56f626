"""What outlives a killed process, and can be told from what is damaged.

A file has its digest in its name: one rename makes it whole. A folder holds a list of its files' digests, written last.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

SEAL = ".sealed"  # in a folder: the digest and the name of each of its files
PART = ".part"  # of what is not complete


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def on_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


# files


def part_of(path: Path) -> Path:
    """Where to write what `keep` makes of it."""
    return path.with_name(f"{path.name}{PART}")


def keep(path: Path) -> None:
    """What was written to `part_of(path)` takes the place of what was kept before."""
    part = part_of(path)
    on_disk(part)
    target = path.with_name(f"{path.name}.{file_digest(part)}")
    part.replace(target)
    for older in others(path):
        if older != target:
            older.unlink(missing_ok=True)


def kept(path: Path) -> tuple[Path | None, bool]:
    """(the file that was kept last, whether a damaged one was there and had to go)"""
    found, damaged = None, False
    for file in others(path):
        if f"{path.name}.{file_digest(file)}" == file.name:
            found = file
        else:
            file.unlink(missing_ok=True)
            damaged = True
    return found, damaged


def others(path: Path) -> list[Path]:
    """Kept under this name, the oldest first."""
    found = [file for file in path.parent.glob(f"{path.name}.*") if file.suffix != PART and file.is_file()]
    return sorted(found, key=lambda file: file.stat().st_mtime_ns)


# folders


def listing(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (SEAL, f"{SEAL}{PART}"))
    return "".join(f"{file_digest(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)


def seal(folder: Path) -> None:
    """Say that a folder is complete."""
    for path in folder.rglob("*"):
        if path.is_file():
            on_disk(path)
    part = folder / f"{SEAL}{PART}"
    part.write_text(listing(folder), encoding="utf-8")
    on_disk(part)
    part.replace(folder / SEAL)


def whole(folder: Path) -> bool:
    """Whether a folder was sealed, and is as it was then."""
    try:
        return (folder / SEAL).read_text(encoding="utf-8") == listing(folder)
    except (OSError, UnicodeDecodeError):
        return False
