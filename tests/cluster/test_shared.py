"""File systems that several hosts share, as they misbehave: each simulated by a wrapper around what Python calls."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import Timeout

from corewood.errors import JobError, StoreError
from corewood.store import shared
from corewood.store.shared import appears, claimed, flock_works, leases_used, rename
from corewood.store.store import META, Store

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> Any:
    flock_works.cache_clear()
    yield
    flock_works.cache_clear()


def no_flock(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """absent: some Lustre; idle: mounted without locks, where everyone gets it; none left: a lock daemon that is down."""

    def flock(_file: object, _what: int) -> None:
        if how != "idle":
            raise OSError({"absent": errno.ENOSYS, "none left": errno.ENOLCK}[how], "simulated")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_flock_is_used_where_it_works(tmp_path: Path) -> None:
    with claimed(tmp_path, "k") as claim:
        assert claim.lease is None
        with pytest.raises(Timeout), claimed(tmp_path, "k", blocking=False):
            pass
    assert not leases_used(tmp_path)


@pytest.mark.parametrize("how", ["absent", "idle", "none left"])
def test_leases_keep_others_out_where_flock_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    no_flock(monkeypatch, how)
    with claimed(tmp_path, "k") as claim:
        assert claim.lease is not None
        assert not claim.lost
        with pytest.raises(Timeout), claimed(tmp_path, "k", blocking=False):
            pass
        with claimed(tmp_path, "other", blocking=False):
            pass
    assert leases_used(tmp_path)
    monkeypatch.undo()  # a host where flock does work keeps to what the store says
    flock_works.cache_clear()
    with claimed(tmp_path, "k") as claim:
        assert claim.lease is not None


def elsewhere(folder: str, ready: Any, clock: float) -> None:
    """Another host, whose clock is off: it takes the claim and dies without a word."""
    real_time, real_name = time.time, socket.gethostname
    time.time = lambda: real_time() + clock
    socket.gethostname = lambda: f"other-{real_name()}"
    shared.LEASE = 2.0
    shared.use_leases(Path(folder), "simulated")
    with claimed(Path(folder), "k"):
        ready.set()
        time.sleep(60)


@pytest.mark.parametrize("clock", [-3600.0, 3600.0])
def test_a_dead_owner_on_another_host_is_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: float) -> None:
    monkeypatch.setattr(shared, "LEASE", 2.0)
    ready = SPAWN.Event()
    process = SPAWN.Process(target=elsewhere, args=(str(tmp_path), ready, clock))
    process.start()
    assert ready.wait(60)
    time.sleep(2.5)  # longer than a lease, which its owner renews: it lives
    with pytest.raises(Timeout), claimed(tmp_path, "k", blocking=False):
        pass
    process.kill()
    process.join()
    (tmp_path / "k").unlink()  # flock of this one host, which another would not have
    began = time.monotonic()
    with claimed(tmp_path, "k"):
        pass
    assert time.monotonic() - began < 30
    process.close()


def test_who_has_lost_a_lease_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from corewood.study import kinds  # here: other processes of these tests need no torch
    from corewood.study.job import Job, Kind, execute

    monkeypatch.setattr(shared, "LEASE", 0.5)
    no_flock(monkeypatch, "absent")
    store = Store(tmp_path)

    def do(work: Any) -> dict[str, Any]:
        (store.root / "locks" / "k.lease").unlink()  # as another host would, that has not heard of this one
        for step in range(100):
            time.sleep(0.05)
            work.progress(step, 100)
        return {}

    monkeypatch.setitem(kinds.KINDS, "encode", Kind("encode", 1, "encode", "second", 1.0, do))
    with pytest.raises(JobError, match="another host has taken this job over"):
        execute(Job("encode", "k", "encode", {}, {}), store, lambda done, total: None)
    assert not store.has("encode", "k")


def test_where_nothing_keeps_two_apart_the_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flock(monkeypatch, "absent")

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "simulated")

    monkeypatch.setattr(shared.SoftFileLease, "acquire", refused)
    with pytest.raises(StoreError, match="neither flock nor lease files work"), Store(tmp_path).claim("k"):
        pass


def test_a_rename_whose_reply_was_lost_has_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.rename

    def lossy(self: Path, target: Path) -> Path:
        real(self, target)
        return real(self, target)  # asked again, since no answer came

    monkeypatch.setattr(Path, "rename", lossy)
    store = Store(tmp_path)
    with store.writing("encode", "k", {"title": "t"}) as folder:
        (folder / "a.txt").write_text("whole")
    assert store.damage("encode", "k") is None
    store.fail("k", "why")
    assert store.failure("k") == "why"
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        rename(tmp_path / "nothing", tmp_path / "there")
    (tmp_path / "other").write_text("of someone else")
    (tmp_path / "mine").write_text("")

    def gone(self: Path, target: Path) -> Path:
        self.unlink()
        raise FileNotFoundError

    monkeypatch.setattr(Path, "rename", gone)
    with pytest.raises(FileNotFoundError):
        rename(tmp_path / "mine", tmp_path / "other")


def test_an_entry_that_is_seen_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, patience=20)
    with store.writing("encode", "k", {"title": "t"}):
        pass
    real, listed, since = Path.exists, [], time.monotonic()

    def late(self: Path, **more: Any) -> bool:
        seen = time.monotonic() - since > 1.2 and bool(listed)
        return real(self, **more) and (self.name != META or seen)

    real_list = os.listdir
    monkeypatch.setattr(Path, "exists", late)
    monkeypatch.setattr(os, "listdir", lambda path: (listed.append(path), real_list(path))[1])
    assert store.get("encode", "k").meta["title"] == "t"
    assert listed
    assert not appears(tmp_path / "never", 0.1)


def test_the_store_says_which_locks_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flock(monkeypatch, "absent")
    with Store(tmp_path).claim("k"):
        pass
    assert (tmp_path / "locks" / "leases").read_text() == "flock does not work in this file system\n"
    assert not list((tmp_path / "locks").glob(".*"))
