"""What stands in a store may be damaged, swapped or unreadable: it is found, said, and made again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import small
import tiny
from faults.command import corewood

from corewood.data.encode import encode
from corewood.data.named import task
from corewood.errors import InputError, StoreError
from corewood.model import finetune
from corewood.prune import l0
from corewood.spec import FineTune
from corewood.store.store import META, Store, digest
from corewood.study import models
from corewood.study.deliver import MANIFEST, check_out, deliver
from corewood.study.job import Job, execute
from corewood.study.kinds import TABLES
from corewood.study.plan import Plan, make_plan
from corewood.study.run import SILENT, state_of, store_data, stored_tables
from corewood.study.ways import l0 as searches

FEW = ("prune.l0.sparsity=0.4", "fine_tune.checkpoints=[0, 10]", "fine_tune.steps=20", "fine_tune.watch=10")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def plan(study: Path) -> Plan:
    return make_plan(small.spec_of(study, *FEW), study.parent)


@pytest.fixture(scope="module")
def whole(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With all jobs done; treat it as read-only."""
    store = Store(tmp_path_factory.mktemp("whole"))
    store_data(plan, store)
    for job in plan.jobs.values():
        execute(job, store, lambda _done, _total: None)
    return store


@pytest.fixture
def store(whole: Store, tmp_path: Path) -> Store:
    return Store(shutil.copytree(whole.root, tmp_path / "store"))


# entries


def test_swapped_entries_are_found(plan: Plan, store: Store) -> None:
    assert set(state_of(plan, store).values()) == {"done"}
    for kind in ("search", "predict", "encode"):
        one, other = sorted((store.root / "entries" / kind).iterdir())[:2]
        one.rename(store.root / "aside")
        other.rename(one)
        (store.root / "aside").rename(other)
    states = [*state_of(plan, store).values()]
    assert states.count("damaged: it is another result, put in this one's place") == 6
    with pytest.raises(StoreError, match="is of another result"):
        store.get(kind, one.name)


def test_an_entry_made_of_other_inputs_is_no_result_of_this_study(plan: Plan, store: Store) -> None:
    job = next(job for job in plan.jobs.values() if job.kind == "search")
    path = store.folder(job.kind, job.key) / META
    meta = json.loads(path.read_text())
    del meta["digest"]
    meta["params"]["seed"] = 77
    path.write_text(json.dumps({**meta, "digest": digest(meta)}))
    assert store.damage(job.kind, job.key) is None
    assert state_of(plan, store)[job.key] == "damaged: it was made of other params than the study has"


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"files": 5}', "5", "\x00", "[" * 20_000])
def test_a_meta_that_is_none_is_damage(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    with store.writing("search", "k", {}):
        pass
    (store.folder("search", "k") / META).write_text(text)
    assert "meta.json" in str(store.damage("search", "k"))
    with pytest.raises(StoreError, match="missing or unreadable"):
        store.get("search", "k")


@pytest.mark.parametrize("text", ["[]", "5", "null", "{}", "[" * 20_000])
def test_a_failure_that_is_none_is_forgotten(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    store.fail("k", "why")
    (tmp_path / "failures" / "k.json").write_text(text)
    assert store.failure("k") is None


def test_a_file_that_cannot_be_read_is_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder, *_) = (store.root / "entries" / "search").iterdir()

    def refuse(_path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("corewood.store.store.file_digest", refuse)
    assert store.damage("search", folder.name) == "it cannot be read (Permission denied)"


def test_strange_files_in_entries_are_neither_read_nor_delivered(plan: Plan, tmp_path: Path) -> None:
    store, job = Store(tmp_path / "store"), Job.make(TABLES, "tables", {})
    for kind in ("tables", "report"):
        with store.writing(kind, job.key, {}) as folder:
            pd.DataFrame({"x": [1]}).to_parquet(folder / "real.parquet")
        for name in ("junk.parquet", "secret.txt"):
            (store.folder(kind, job.key) / name).write_text("junk")
    assert [*stored_tables(job, plan, store, {}, SILENT)] == ["real"]
    deliver(store.folder("report", job.key), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MANIFEST, "real.parquet"]


# scratch


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


HARM: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "empty": empty}


class Stopped(Exception):
    pass


def quiet(_done: int, _total: int) -> None: ...


def files_of(store: Store, job: Job) -> dict[str, object]:
    """What an entry holds, but for its times."""
    return dict(store.get(job.kind, job.key).meta["files"])


@pytest.mark.parametrize("harm", HARM)
def test_a_search_does_not_go_on_from_what_is_damaged(
    plan: Plan, whole: Store, store: Store, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at its fifth step, with what it had saved."""
    monkeypatch.setattr(searches, "SAVE_EVERY", 0.0)
    job = next(job for job in plan.jobs.values() if job.kind == "search")
    store.discard(job.kind, job.key)
    saved = l0.State.save

    def stop(state: l0.State, path: Path) -> None:
        saved(state, path)
        if state.step == 5:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(l0.State, "save", stop)
        with pytest.raises(Stopped):
            execute(job, store, quiet)
    (left,) = [path for path in (store.root / "scratch" / job.key).iterdir() if path.is_file()]
    HARM[harm](left)
    execute(job, store, quiet)
    assert files_of(store, job) == files_of(whole, job)
    notes = store.get(job.kind, job.key).meta["notes"]
    assert notes == [f"{job.title}: what was saved of the search is damaged, so it was done anew from there"]


@pytest.mark.parametrize("what", ["optimizer", "seen", "kept"])
def test_fine_tuning_does_not_go_on_from_what_is_damaged(
    plan: Plan, whole: Store, store: Store, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at step 15, with a resume point, a checkpoint of step 10 and what was seen there."""
    monkeypatch.setattr(finetune, "RESUME_EVERY", 0.0)
    job = next(job for job in plan.jobs.values() if job.kind == "fine_tune")
    store.discard(job.kind, job.key)
    save = finetune.Keeper.on_save

    def stop(self: finetune.Keeper, args: object, state: object, control: object, **more: object) -> None:
        save(self, args, state, control, **more)
        if state.global_step == 15:  # type: ignore[attr-defined]
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(finetune.Keeper, "on_save", stop)
        with pytest.raises(Stopped):
            execute(job, store, quiet)
    scratch = store.root / "scratch" / job.key
    place = {"optimizer": "checkpoint-15/optimizer.pt", "seen": "watched-10.safetensors*", "kept": "step-10/model.safetensors"}
    (victim,) = scratch.glob(place[what])
    flip(victim)
    execute(job, store, quiet)
    assert files_of(store, job) == files_of(whole, job)
    (note,) = store.get(job.kind, job.key).meta["notes"]
    assert note.endswith("is damaged, so it was done anew from there")


def test_what_is_whole_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resuming is not beginning anew: the steps before the resume point are not taken again."""
    monkeypatch.setattr(finetune, "RESUME_EVERY", 0.0)
    model, data = tiny.model(), task("overlap", train=64, validation=16, per_case=2)
    assert data.train is not None
    train = encode(data.train, model.tokenizer, 64)
    settings = FineTune(steps=8, batch=8)
    steps: list[int] = []

    def progress(done: int, _total: int) -> None:
        steps.append(done)
        if steps == [1, 2, 3, 4, 5]:
            raise Stopped

    for _ in range(2):
        try:
            finetune.fine_tune(model, train, data.train.gold, settings, tmp_path, progress=progress)
        except Stopped:
            continue
    assert steps == [1, 2, 3, 4, 5, 5, 6, 7, 8]


# where reports go


@pytest.fixture
def report(tmp_path: Path) -> Path:
    store = Store(tmp_path / "store")
    with store.writing("report", "r", {}) as folder:
        (folder / "report.html").write_text("page")
        (folder / "tables").mkdir()
        (folder / "tables" / "a.csv").write_text("x\n")
    return store.folder("report", "r")


@pytest.mark.parametrize(
    "name", ["../victim.txt", "{}/victim.txt", "tables/../../victim.txt", ".corewood-report", "report\0.html"]
)
def test_a_listing_that_names_what_is_elsewhere_deletes_nothing(report: Path, tmp_path: Path, name: str) -> None:
    victim, out = tmp_path / "victim.txt", tmp_path / "out"
    victim.write_text("mine")
    deliver(report, out)
    from corewood.store.store import file_digest

    with (out / MANIFEST).open("a") as stream:
        stream.write(f"{file_digest(victim)}  {name.format(tmp_path)}\n")
    for attempt in (lambda: check_out(out), lambda: deliver(report, out)):
        with pytest.raises(InputError, match="which is no file of a report; choose another folder with --out"):
            attempt()
    assert victim.read_text() == "mine"


def test_links_are_not_followed(report: Path, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    deliver(report, out)
    (out / "tables").rename(elsewhere)
    (out / "tables").symlink_to(elsewhere)
    (elsewhere / "a.csv").write_text("x\n")
    with pytest.raises(InputError, match="is a symbolic link, which is not followed"):
        check_out(out)
    (out / "tables").unlink()
    (tmp_path / "victim").write_text("mine")
    (out / ".report.html.part").symlink_to(tmp_path / "victim")
    deliver(report, out)
    assert (tmp_path / "victim").read_text() == "mine"
    assert (out / "tables" / "a.csv").read_text() == "x\n"


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"hello\n", b"\n", b"0  report.html\n"])
def test_a_listing_that_is_none(report: Path, tmp_path: Path, text: bytes) -> None:
    deliver(report, tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_bytes(text)
    with pytest.raises(InputError, match=r"is not as Corewood writes it|is no file of a report"):
        check_out(tmp_path / "out")


def test_what_cannot_be_written_is_said_before_the_work(report: Path, study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    deliver(report, out)
    (out / "report.html").unlink()
    (out / "report.html").mkdir()
    found = corewood(study.parent, "run", study.name, "--out", out)
    assert (found.code, "report.html: is a folder, where Corewood has other things" in found.err) == (2, True)
    (out / "report.html").rmdir()
    (out / "tables" / "a.csv").write_text("changed")
    found = corewood(study.parent, "run", study.name, "--out", out)
    assert (found.code, "was changed since Corewood wrote it" in found.err) == (2, True)
    for option in ("--out", "--store"):
        found = corewood(study.parent, "run", study.name, option, tmp_path / ("x" * 300))
        assert (found.code, "File name too long" in found.err) == (2, True), found.err
    assert "Reading the data" not in found.err


def test_sigterm_ends_a_run_as_ctrl_c_does(study: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    words = [sys.executable, "-m", "corewood", "run", study.name, "--store", str(store), "--out", str(tmp_path / "out")]
    words += ["--workers", "1", "--set", "fine_tune.steps=5000"]
    process = subprocess.Popen(words, cwd=study.parent, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not list(store.glob("scratch/*")):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Finished jobs are kept; the same command goes on from here." in errors
    assert "Traceback" not in errors
    assert models.ENCODE.name in {path.name for path in (store / "entries").iterdir()}
