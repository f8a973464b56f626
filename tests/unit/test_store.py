from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from corewood.errors import StoreError
from corewood.store.store import META, Store, digest
from corewood.study.job import Job
from corewood.study.kinds import KINDS


def put(store: Store, key: str = "k", text: str = "hello") -> None:
    with store.writing("search", key, {"title": "t"}) as folder:
        (folder / "a.txt").write_text(text)
        (folder / "sub").mkdir()
        (folder / "sub" / "b.txt").write_text("b")


def test_an_entry_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def half() -> None:
        with store.writing("search", "k", {}) as folder:
            (folder / "a.txt").write_text("x")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        half()
    assert not store.has("search", "k")
    assert list((tmp_path / "tmp").iterdir()) == []
    put(store)
    entry = store.get("search", "k")
    assert entry.path("a.txt").read_text() == "hello"
    assert set(entry.meta["files"]) == {"a.txt", "sub/b.txt"}
    assert entry.meta["versions"]["corewood"]
    assert store.damage("search", "k") is None


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, text="first")
    put(store, text="second")
    assert store.get("search", "k").path("a.txt").read_text() == "first"
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("harm", ["change", "cut", "remove", "meta", "other meta", "no meta"])
def test_damage_is_found(tmp_path: Path, harm: str) -> None:
    store = Store(tmp_path)
    put(store)
    folder = store.folder("search", "k")
    if harm == "change":
        (folder / "a.txt").write_text("hellx")
    elif harm == "cut":
        (folder / "sub" / "b.txt").write_text("")
    elif harm == "remove":
        (folder / "a.txt").unlink()
    elif harm == "other meta":
        (folder / META).write_text((folder / META).read_text().replace('"title": "t"', '"title": "u"'))
    elif harm == "meta":
        (folder / META).write_text('{"files": ')
    else:
        (folder / META).unlink()
    assert store.damage("search", "k")
    store.discard("search", "k")
    assert not folder.exists()
    put(store)
    assert store.damage("search", "k") is None


def test_a_result_that_another_run_made_again_is_not_thrown_away(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store)
    folder = store.folder("search", "k")
    store.discard_damaged("search", "k")
    assert folder.exists()
    (folder / "a.txt").write_text("hellx")
    with store.claim("k"):  # another run is at it
        store.discard_damaged("search", "k")
        assert folder.exists()
    store.discard_damaged("search", "k")
    assert not folder.exists()


def test_what_killed_jobs_left_is_swept_and_what_runs_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    done, fresh, old, running, gone, held, new = (uuid.uuid4().hex for _ in range(7))
    put(store, done)
    for key in (done, fresh, old, running):
        (store.scratch(key) / "resume.bin").write_text("x")
    for key in (gone, held, new):
        (tmp_path / "tmp" / f"{key}-{key}").mkdir()
    for mine in ("tmp/my results", "tmp/draft-1", "scratch/old runs"):  # whoever has such folders there keeps them
        (tmp_path / mine).mkdir()
    left = [f"scratch/{old}", f"scratch/{running}", f"tmp/{gone}-{gone}", f"tmp/{held}-{held}"]
    for path in (*left, "tmp/my results", "tmp/draft-1", "scratch/old runs"):
        os.utime(tmp_path / path, (time.time() - 31 * 86_400,) * 2)
    with store.claim(running), store.claim(held):
        store.check_writable()
    assert {p.name for p in (tmp_path / "scratch").iterdir()} == {fresh, running, "old runs"}
    assert {p.name for p in (tmp_path / "tmp").iterdir()} == {f"{held}-{held}", f"{new}-{new}", "my results", "draft-1"}


def test_failures_are_remembered_until_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.failure("k") is None
    store.fail("k", "out of memory")
    assert Store(tmp_path).failure("k") == "out of memory"
    store.forget_failure("k")
    store.forget_failure("k")
    assert store.failure("k") is None


def hold(root: str, key: str, ready: multiprocessing.synchronize.Event) -> None:
    with Store(root).claim(key):
        ready.set()
        time.sleep(60)


def test_a_claim_keeps_others_out_and_ends_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(str(tmp_path), "k", ready))
    process.start()
    assert ready.wait(60)
    from filelock import FileLock, Timeout

    with pytest.raises(Timeout):
        FileLock(tmp_path / "locks" / "k").acquire(timeout=0.2)
    process.kill()
    process.join()
    with Store(tmp_path).claim("k"):
        pass
    process.close()


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be a store .* choose another folder with --store"):
        Store(tmp_path / "file" / "store").check_writable()
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.geteuid() == 0:  # for root, only a read-only file system is read-only
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(locked)], capture_output=True, check=False)
        if made.returncode:
            pytest.skip("root without the right to mount cannot make a read-only folder; un-skip by running as a user")
    try:
        with pytest.raises(StoreError, match=r"cannot be written .* choose another folder with --store"):
            Store(locked / "store").check_writable()
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(locked)], check=True)


FILL = """
import sys
import numpy as np, pandas as pd
from safetensors.numpy import save_file
from corewood.store.store import Store
from corewood.errors import StoreError
try:
    with Store(sys.argv[1]).writing("search", "k", {}) as folder:
        big = np.zeros(1_000_000)
        if sys.argv[2] == "safetensors":
            save_file({"big": big}, folder / "big.safetensors")
        else:
            pd.DataFrame({"big": np.random.default_rng(0).random(1_000_000)}).to_parquet(folder / "big.parquet")
except StoreError as problem:
    print(problem)
"""


@pytest.mark.parametrize("kind", ["safetensors", "parquet"])
def test_a_full_disk_says_so_and_leaves_nothing_half_written(tmp_path: Path, kind: str) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs the right to mount a small file system (root); un-skip by running as root")
    try:
        done = subprocess.run([sys.executable, "-c", FILL, str(mount), kind], capture_output=True, text=True, check=True)
        assert "the disk is full; free some space and run again" in done.stdout
        assert not Store(mount).has("search", "k")
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_keys_depend_on_content_alone() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    data = Job.make(KINDS["data"], "one title", {"split": "x"})
    assert data.key == Job.make(KINDS["data"], "another title", {"split": "x"}, local={"folder": "/elsewhere"}).key
    one = Job.make(KINDS["encode"], "t", {"m": 1}, {"data": data})
    assert one.key != Job.make(KINDS["encode"], "t", {"m": 2}, {"data": data}).key
    assert Job.from_plain(json.loads(json.dumps(one.plain()))) == one


def test_a_store_that_cannot_be_is_seen_without_making_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in ("file", "file/store"):
        with pytest.raises(
            StoreError, match=r"cannot be a store \(.*file: Not a directory\); choose another folder with --store"
        ):
            Store(tmp_path / place).check_possible()
    Store(tmp_path / "new" / "store").check_possible()
    assert not (tmp_path / "new").exists()
