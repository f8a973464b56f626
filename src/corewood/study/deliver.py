"""A report where the user wants it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from corewood.errors import InputError
from corewood.store.store import Store, file_digest, obstacle
from corewood.untrusted import why

MANIFEST = ".corewood-report"
PART = ".part"  # of a file while it is written
LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f]+)")
OTHER = "choose another folder with --out"


def listed(out: Path) -> dict[str, set[str]]:
    """What Corewood wrote into a folder: name -> digests, several where a delivery was stopped half way."""
    listing = out / MANIFEST
    found: dict[str, set[str]] = {}
    try:
        lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{listing}: is not as Corewood writes it ({why(problem)}); {OTHER}") from None
    for line in lines:
        parts = LINE.fullmatch(line)
        name = PurePosixPath(parts[2]) if parts else None
        if parts is None or name is None or name.is_absolute() or ".." in name.parts or MANIFEST in name.parts:
            raise InputError(f"{listing}: names {line!r}, which is no file of a report; {OTHER}")
        found.setdefault(parts[2], set()).add(parts[1])
    return found


def check_ours(out: Path, digests: Mapping[str, set[str]]) -> None:
    """Whether what stands under these names was written by Corewood, in this folder and not by way of a link out of it."""
    for name in digests:
        target = out / name
        for place in (target, *target.parents):
            if place == out:
                break
            if place.is_symlink():
                raise InputError(f"{place}: is a symbolic link, which is not followed; remove it or choose another --out")
            if place.exists() and place.is_dir() == (place == target):
                what = "a folder" if place.is_dir() else "no folder"
                raise InputError(f"{place}: is {what}, where Corewood has other things; move it away or choose another --out")
        try:
            changed = target.exists() and file_digest(target) not in digests[name]
        except OSError as problem:
            raise InputError(f"{target}: cannot be read ({why(problem)}); move it away or choose another --out") from None
        if changed:
            raise InputError(f"{target}: was changed since Corewood wrote it; move it away or choose another --out")


def check_out(out: Path) -> None:
    """Whether a report may go there; asked before a run, too, because runs are long."""
    problem = obstacle(out)
    if problem and not os.path.isfile(out):  # which does not mind a name that is too long
        raise InputError(f"{out}: the report cannot be written there ({problem}); choose another --out")
    foreign = not out.is_dir() or any(not path.name.endswith(PART) for path in out.iterdir())
    if out.exists() and not (out / MANIFEST).exists() and foreign:
        raise InputError(f"{out}: exists and is not a report of Corewood's; {OTHER}")
    check_ours(out, listed(out))
    there = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    folders = {there, *(path.parent for name in listed(out) if (path := out / name).parent.is_dir())}
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as raised:
            raise InputError(f"{folder}: the report cannot be written there ({why(raised)}); choose another --out") from None


def deliver(report: Path, out: Path) -> Path:
    """Copy a report, an entry of the store, to where the user wants it, without touching anything that is not ours."""
    check_out(out)
    ours = listed(out)
    entry = Store(report.parents[2]).get(report.parent.name, report.name)
    new = {path.relative_to(report).as_posix(): path for path in entry.paths()}
    mine = {name: {file_digest(path)} for name, path in new.items()}
    either = {name: ours.get(name, set()) | mine.get(name, set()) for name in {**mine, **ours}}
    check_ours(out, either)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_listing(out, either)  # first: what a kill leaves is still known as ours, old or new
        for name in ours.keys() - mine.keys():
            (out / name).unlink(missing_ok=True)
        for name, path in new.items():
            target = out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}{PART}")
            part.unlink(missing_ok=True)  # a link of this name would be written through
            shutil.copyfile(path, part)
            part.replace(target)
        write_listing(out, mine)
    except OSError as problem:
        raise InputError(f"{out}: the report cannot be written there ({problem.strerror}); choose another --out") from None
    return out / "report.html"


def write_listing(out: Path, digests: Mapping[str, set[str]]) -> None:
    part = out / f"{MANIFEST}{PART}"
    part.unlink(missing_ok=True)
    lines = [f"{digest}  {name}\n" for name in sorted(digests) for digest in sorted(digests[name])]
    part.write_text("".join(lines), encoding="utf-8")
    part.replace(out / MANIFEST)
