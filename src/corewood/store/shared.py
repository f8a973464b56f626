"""What a store needs where several hosts share its file system.

Claims: flock ends with its process, so it is used where it works. Some file systems have none, or one that does nothing or
knows of one host alone; there a claim is a lease, which its holder renews and which others take over when it was not renewed
for a while by their own clock, whatever the holder's clock says. Which of the two is written into the store, so that all that
use it do the same; a lease never replaces flock, it comes on top.

Renames may be done and their reply lost; what one host has written, another may see late.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import FileLock, SoftFileLease, Timeout

from corewood.errors import StoreError

LEASE = 180.0  # seconds without a sign of life after which a lease is taken over; a job may hold the interpreter for a while
LEASED = "leases"  # in the folder of locks: flock does not keep all out who use this store
NO_FLOCK = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Claim:
    lease: SoftFileLease | None = None

    @property
    def lost(self) -> bool:
        """Whether another host may have taken over: this one was not heard of for too long."""
        return self.lease is not None and self.lease.compromise is not None


@contextlib.contextmanager
def claimed(folder: Path, key: str, blocking: bool = True) -> Iterator[Claim]:
    """Only one process works on a key; a dead one's claim ends with it, or with its lease. Without `blocking`, Timeout."""
    with contextlib.ExitStack() as stack:
        if flock_works(str(folder)):
            stack.enter_context(FileLock(folder / key, blocking=blocking))
        else:
            use_leases(folder, "flock does not work in this file system")
        lease = None
        if leases_used(folder):
            lease = SoftFileLease(
                folder / f"{key}.lease", lease_duration=LEASE, heartbeat_interval=LEASE / 9, blocking=blocking
            )
            try:
                stack.enter_context(lease)
            except Timeout:
                raise
            except OSError as problem:
                why = f"nothing keeps two processes apart there: neither flock nor lease files work ({problem})"
                raise StoreError(f"{folder}: {why}; choose another folder with --store") from None
        yield Claim(lease)


def leases_used(folder: Path) -> bool:
    return (folder / LEASED).exists()


def use_leases(folder: Path, why: str) -> None:
    if not leases_used(folder):
        part = folder / f".{LEASED}-{uuid.uuid4().hex}"
        part.write_text(why + "\n", encoding="utf-8")
        rename(part, folder / LEASED)


@cache
def flock_works(folder: str) -> bool:
    """Whether a second owner is kept out, tried with two descriptors of one file."""
    if sys.platform == "win32":
        return True
    import fcntl

    probe = Path(folder) / f".probe-{uuid.uuid4().hex}"
    with probe.open("w") as one, probe.open("w") as other:
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in (errno.EAGAIN, errno.EACCES, *NO_FLOCK):
                raise
            return problem.errno in (errno.EAGAIN, errno.EACCES)
        finally:
            probe.unlink(missing_ok=True)
    return False


def rename(source: Path, target: Path) -> None:
    """Where the reply is lost, the file system asks again and is told that there is nothing to rename: it has happened."""
    moved = source.stat().st_ino
    try:
        source.rename(target)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            if target.stat().st_ino == moved:
                return
        raise


def appears(path: Path, patience: float) -> bool:
    """Whether a file is there, or is seen within so many seconds: hosts remember for a while what was not there."""
    until = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() >= until:
            return False
        with contextlib.suppress(OSError):  # to list a folder makes its host ask again
            os.listdir(path.parent.parent)
            os.listdir(path.parent)
        time.sleep(min(0.5, patience))
    return True
