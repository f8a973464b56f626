"""The store: one folder per result, named by what went into it, written whole or not at all.

    store/
      entries/<kind>/<key>/meta.json + files      meta.json holds the SHA-256 of every file
      failures/<key>.json                         why a job failed last time
      scratch/<key>/                              where a long job keeps what it needs to go on (seal.py)
      locks/<key>                                 held while a job runs

Nothing is ever changed in place: an entry is filled under a temporary name and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import Timeout

from corewood.errors import CorewoodError, StoreError
from corewood.seal import file_digest as file_digest
from corewood.seal import on_disk
from corewood.store.shared import Claim, appears, claimed, rename
from corewood.untrusted import LONGEST_NAME, shortened, why

META = "meta.json"
DAY = 86_400.0  # seconds
OURS = {  # names that a store gives: folders of a key and a try, of workers of a cluster, and signs by which they know it
    "tmp": re.compile(r"[0-9a-f]{32}-([0-9a-f]{32}|cluster)|sign[0-9a-f]{32}"),
    "scratch": re.compile(r"[0-9a-f]{32}"),
}
RECORDED = ("corewood", "torch", "transformers", "numpy", "pandas", "pyarrow")


def canonical(value: Any) -> str:
    """JSON in one spelling: the same content gives the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


def obstacle(folder: Path) -> str:
    """Why nothing can be written into a folder that may still have to be made, or nothing."""
    long = [part for part in folder.absolute().parts if len(os.fsencode(part)) > LONGEST_NAME]
    if long:
        return f"{shortened(long[0])}: {os.strerror(errno.ENAMETOOLONG)}"
    try:
        there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    except OSError as problem:
        return why(problem)
    if not there.is_dir():
        return f"{there}: {os.strerror(errno.ENOTDIR)}"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there}: {os.strerror(errno.EACCES)}"


def disk_full(problem: BaseException, folder: Path) -> bool:
    """Whether that is why something could not be written there; torch says only that writing failed."""
    code = getattr(problem, "errno", None)
    told = code in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(problem)
    return told or (code is None and shutil.disk_usage(folder).free < 2**20)


@cache
def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in RECORDED:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Entry:
    """A finished result."""

    key: str
    folder: Path
    meta: Mapping[str, Any]

    def path(self, name: str) -> Path:
        return self.folder / name

    def paths(self) -> list[Path]:
        """Of its own files; what somebody else put there is not among them."""
        return [self.folder / name for name in sorted(self.meta["files"])]


class Store:
    def __init__(self, root: str | Path, patience: float = 0.0) -> None:
        self.root = Path(root).absolute()
        self.patience = patience  # seconds to look again for what another host has just written

    def folder(self, kind: str, key: str) -> Path:
        return self.root / "entries" / kind / key

    def _made(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # reading

    def get(self, kind: str, key: str) -> Entry:
        folder = self.folder(kind, key)
        appears(folder / META, self.patience)
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            if not isinstance(meta, dict) or (meta.get("kind"), meta.get("key")) != (kind, key):
                raise ValueError("its meta.json is of another result")
        except (OSError, ValueError, RecursionError) as problem:
            raise StoreError(f"{folder}: this result is missing or unreadable ({why(problem)}); run the study again") from None
        return Entry(key, folder, meta)

    def has(self, kind: str, key: str) -> bool:
        return (self.folder(kind, key) / META).exists()

    def damage(self, kind: str, key: str, made_of: Mapping[str, Any] | None = None) -> str | None:
        """What is wrong with an entry that is there; None when it is whole. `made_of` are the params and inputs it should have:
        a key is what these make, and an entry under a key that is not its own is another result."""
        folder = self.folder(kind, key)
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            sealed = meta.pop("digest", None) == digest(meta)
            files = meta["files"].items()
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return "meta.json is unreadable"
        if not sealed:
            return "meta.json does not match its checksum"
        if (meta.get("kind"), meta.get("key")) != (kind, key):
            return "it is another result, put in this one's place"
        for name, wanted in (made_of or {}).items():
            if canonical(meta.get(name)) != canonical(wanted):
                return f"it was made of other {name} than the study has"
        try:
            for name, expected in files:
                path = folder / name
                if not path.is_file():
                    return f"{name} is missing"
                if path.stat().st_size != expected["bytes"] or file_digest(path) != expected["sha256"]:
                    return f"{name} does not match its checksum"
        except OSError as problem:
            return f"it cannot be read ({why(problem)})"
        return None

    def discard(self, kind: str, key: str) -> None:
        """Take a damaged entry out of the way."""
        with self._writing():
            away = self._made("tmp") / f"{key}-{uuid.uuid4().hex}"
            with contextlib.suppress(FileNotFoundError):
                self.folder(kind, key).rename(away)
            shutil.rmtree(away, ignore_errors=True)

    def discard_damaged(self, kind: str, key: str, made_of: Mapping[str, Any] | None = None) -> None:
        """Unless another run is making it again, or has done so since it was looked at."""
        with self._writing():
            locks = self._made("locks")
        with contextlib.suppress(Timeout), claimed(locks, key, blocking=False):
            if self.damage(kind, key, made_of):
                self.discard(kind, key)

    # writing

    @contextlib.contextmanager
    def writing(self, kind: str, key: str, meta: Mapping[str, Any]) -> Iterator[Path]:
        """A temporary folder that becomes the entry when the block ends well."""
        with self._writing():
            part = self.root / "tmp" / f"{key}-{uuid.uuid4().hex}"
            part.mkdir(parents=True)
            try:
                yield part
                files = [p for p in sorted(part.rglob("*")) if p.is_file()]
                sums = {str(p.relative_to(part)): {"bytes": p.stat().st_size, "sha256": file_digest(p)} for p in files}
                content = {
                    **meta,
                    "key": key,
                    "kind": kind,
                    "files": sums,
                    "versions": versions(),
                    "host": socket.gethostname(),
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                }
                content["digest"] = digest(content)
                (part / META).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                for path in (*files, part / META):
                    on_disk(path)
                target = self.folder(kind, key)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    rename(part, target)
                except OSError as problem:
                    if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    # another run was faster; its result is as good
            finally:
                shutil.rmtree(part, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except CorewoodError:
            raise
        except Exception as problem:  # safetensors and Arrow have exceptions of their own for a full disk
            code = getattr(problem, "errno", None)
            if disk_full(problem, self.root):
                why = "the disk is full; free some space and run again: finished jobs are kept"
            elif code in (errno.EROFS, errno.EACCES, errno.EPERM):
                why = f"cannot be written ({os.strerror(code)}); choose another folder with --store"
            else:
                raise
            raise StoreError(f"{self.root}: {why}") from None

    def check_possible(self) -> None:
        """Whether it is there or could be made, without making it."""
        problem = obstacle(self.root)
        if problem:
            raise StoreError(f"{self.root}: cannot be a store ({problem}); choose another folder with --store")

    def check_writable(self) -> None:
        try:
            with self._writing():
                probe = self._made("tmp") / uuid.uuid4().hex
                probe.write_bytes(b"")
                probe.unlink()
                self._sweep()
        except OSError as problem:
            why = f"cannot be a store ({problem.strerror}); choose another folder with --store"
            raise StoreError(f"{self.root}: {why}") from None

    def _sweep(self) -> None:
        """What killed processes left: half-written entries after a day; scratch once its result is there, or after a month.

        A job that runs holds its lock, and is left alone.
        """
        locks = self._made("locks")
        for place, age in (("tmp", DAY), ("scratch", 30 * DAY)):
            for left in (self.root / place).glob("*"):
                if not OURS[place].fullmatch(left.name):  # whoever chose a folder with a tmp of its own keeps that
                    continue
                key = left.name.partition("-")[0]
                done = place == "scratch" and any(self.root.glob(f"entries/*/{key}/{META}"))
                with contextlib.suppress(OSError, Timeout):
                    if done or time.time() - left.stat().st_mtime > age:
                        with claimed(locks, key, blocking=False):
                            shutil.rmtree(left)

    def scratch(self, key: str) -> Path:
        """A folder that outlives a killed job, for that job alone."""
        with self._writing():
            return self._made(f"scratch/{key}")

    def clear_scratch(self, key: str) -> None:
        shutil.rmtree(self.root / "scratch" / key, ignore_errors=True)

    @contextlib.contextmanager
    def claim(self, key: str) -> Iterator[Claim]:
        """Only one process works on a key; a dead one's claim ends with it."""
        with self._writing():
            locks = self._made("locks")
        with claimed(locks, key) as claim:
            yield claim

    def taken(self, key: str) -> bool:
        """Whether a process works on it now."""
        locks = self.root / "locks"
        if not any((locks / name).exists() for name in (key, f"{key}.lease")):
            return False
        try:
            with claimed(locks, key, blocking=False):
                return False
        except Timeout:
            return True

    # holes

    def fail(self, key: str, reason: str) -> None:
        with self._writing():
            folder = self._made("failures")
            part = folder / f".{key}-{uuid.uuid4().hex}"
            part.write_text(json.dumps({"reason": reason}, ensure_ascii=False) + "\n", encoding="utf-8")
            rename(part, folder / f"{key}.json")

    def failure(self, key: str) -> str | None:
        try:
            return str(json.loads((self.root / "failures" / f"{key}.json").read_text(encoding="utf-8"))["reason"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def forget_failure(self, key: str) -> None:
        with contextlib.suppress(OSError):
            (self.root / "failures" / f"{key}.json").unlink()
