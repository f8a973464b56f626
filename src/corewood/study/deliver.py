"""A report where the user wants it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from corewood.errors import InputError
from corewood.store.store import META, file_digest, obstacle

MANIFEST = ".corewood-report"
PART = ".part"  # of a file while it is written


def listed(out: Path) -> dict[str, set[str]]:
    """What Corewood wrote into a folder: name -> digests, several where a delivery was stopped half way."""
    listing = out / MANIFEST
    found: dict[str, set[str]] = {}
    for line in listing.read_text(encoding="utf-8").splitlines() if listing.exists() else ():
        digest, _, name = line.partition("  ")
        found.setdefault(name, set()).add(digest)
    return found


def check_out(out: Path) -> None:
    """Whether a report may go there; asked before a run, too, because runs are long."""
    problem = obstacle(out)
    if problem and not out.is_file():
        raise InputError(f"{out}: the report cannot be written there ({problem}); choose another --out")
    if (out / MANIFEST).exists() or not out.exists():
        return
    if not out.is_dir() or any(not path.name.endswith(PART) for path in out.iterdir()):
        raise InputError(f"{out}: exists and is not a report of Corewood's; choose another folder with --out")


def deliver(report: Path, out: Path) -> Path:
    """Copy a report to where the user wants it, without touching anything that is not ours."""
    check_out(out)
    ours = listed(out)
    new = {str(p.relative_to(report)): p for p in sorted(report.rglob("*")) if p.is_file() and p.name != META}
    mine = {name: {file_digest(path)} for name, path in new.items()}
    either = {name: ours.get(name, set()) | mine.get(name, set()) for name in {**mine, **ours}}
    for name, digests in either.items():
        if (out / name).exists() and file_digest(out / name) not in digests:
            raise InputError(f"{out / name}: was changed since Corewood wrote it; move it away or choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_listing(out, either)  # first: what a kill leaves is still known as ours, old or new
        for name in ours.keys() - mine.keys():
            (out / name).unlink(missing_ok=True)
        for name, path in new.items():
            target = out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}{PART}")
            shutil.copyfile(path, part)
            part.replace(target)
        write_listing(out, mine)
    except OSError as problem:
        raise InputError(f"{out}: the report cannot be written there ({problem.strerror}); choose another --out") from None
    return out / "report.html"


def write_listing(out: Path, digests: Mapping[str, set[str]]) -> None:
    part = out / f"{MANIFEST}{PART}"
    lines = [f"{digest}  {name}\n" for name in sorted(digests) for digest in sorted(digests[name])]
    part.write_text("".join(lines), encoding="utf-8")
    part.replace(out / MANIFEST)
