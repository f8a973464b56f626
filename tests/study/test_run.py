"""A study from its file to its tables: what is computed, what is not, and what is never lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import psutil
import pytest
import small
import torch

from corewood.analyse.generalisation import of_cases
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.metrics import wilson
from corewood.model.gates import gated
from corewood.model.load import load
from corewood.report.page import finding
from corewood.store.store import Store
from corewood.study import entries, kinds
from corewood.study.engines import Event, Inline
from corewood.study.engines.local import Workers, check_script
from corewood.study.job import Job, Work
from corewood.study.plan import Plan, make_plan
from corewood.study.results import Results
from corewood.study.run import Listener, Outcome, report_study, state_of, store_data


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The uninterrupted run that others are compared with; treat its store as read-only."""
    return small.run(study, tmp_path_factory.mktemp("whole") / "store")


def store_of(outcome: Outcome) -> Store:
    return Store(outcome.report.parents[2])


def test_a_model_that_has_learnt_nothing_gets_no_verdict(whole: Outcome) -> None:
    (row,) = whole.tables["models"].to_dict("records")
    results = Results(whole.plan, store_of(whole), {})
    full = results.full(("task", 0))
    assert full is not None
    answers, gold = results.logits(full, "validation").argmax(1), whole.plan.splits["validation"].frame["label"]
    assert row["answer_share"] == max((answers == 0).mean(), (answers == 1).mean())
    assert row["floor"] == gold.value_counts(normalize=True).max()
    assert row["low"] == pytest.approx(wilson(int(results.answers(full, "validation").sum()), 60)[0])
    assert not row["learnt"]
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    assert "has not learnt its task, as far as 60 examples tell" in page
    assert "cases that the full model handles" not in page
    two = pd.DataFrame([row, {**row, "learnt": True, "tuning": 1}])
    found = finding({**whole.tables, "models": two}, "m")
    assert found.points[0].startswith("1 of 2 models has not learnt its task")
    assert "cases that the full model handles" in " ".join(found.points)


def test_a_model_is_judged_on_the_way_without_being_kept(study: Path, whole: Outcome, tmp_path: Path) -> None:
    changes = ["fine_tune.checkpoints=[]", "fine_tune.watch=5", "prune.l0.seeds=1", "prune.l0.sparsity=0.4"]
    found = small.run(study, tmp_path / "store", *changes)
    (tuned,) = (job for job in found.plan.jobs.values() if job.kind == "fine_tune")
    assert [p.name for p in store_of(found).get(tuned.kind, tuned.key).folder.glob("step-*")] == ["step-30"]
    lines, kept = (outcome.tables["dynamics"] for outcome in (found, whole))
    assert list(dict.fromkeys(lines["checkpoint"])) == [5, 10, 15, 20, 25, 30]
    for step in (10, 30):
        mine, theirs = (t[t["checkpoint"] == step].set_index(["dataset", "case"])["correct"] for t in (lines, kept))
        assert mine.to_dict() == theirs.to_dict()


def test_tables_say_what_the_parts_say(study: Path, whole: Outcome) -> None:
    accuracy = of_cases(whole.tables["scores"])
    assert whole.complete
    assert set(accuracy["subnetwork"]) == {"full", "majority", "l0-40-s0", "l0-40-s1", "l0-70-s0", "l0-70-s1"}
    assert set(accuracy.loc[accuracy["subnetwork"] == "full", "checkpoint"]) == {0, 10, 30}
    # one row by hand: the masked model in a loop over single examples
    store, plan = store_of(whole), whole.plan
    row = next(s for s in plan.rows if s.name == "l0-70-s1")
    assert row.masks is not None
    tuned = store.get(*row.masks.inputs["fine_tune"])
    model = load(str(tuned.path("step-30")), tokenizer=str(tuned.path("tokenizer")))
    (mask,) = entries.read_masks(store.get("search", row.masks.key))
    means = entries.read_reference(store.get(*row.masks.inputs["reference"]))[1].means
    split: Split = plan.splits["cases"]
    right = []
    with gated(model, mask, "mean", means):
        for first, second, label in split.frame[["first", "second", "label"]].itertuples(index=False):
            logits = model.net(**model.tokenizer(first, second, return_tensors="pt")).logits[0]
            right.append(model.labels[int(logits.argmax())] == label)
    mine = accuracy[(accuracy["subnetwork"] == "l0-70-s1") & (accuracy["dataset"] == "cases")].set_index("case")
    assert mine.loc["all", "correct"] == sum(right)
    one_case = np.array(right)[(split.frame["case"] == "if").to_numpy()]
    assert mine.loc["if", "correct"] == one_case.sum()
    assert (mine.loc["if", "low"], mine.loc["if", "high"]) == pytest.approx(wilson(one_case.sum(), len(one_case)))
    sizes = whole.tables["sizes"].set_index("subnetwork")
    assert sizes.loc["l0-70-s1", "units"] == len(mask) == 3  # ten units, 70 % removed
    assert set(sizes.loc[sizes["target"] == 0.4, "units"]) == {6}
    assert whole.tables["holes"].empty
    kept = whole.tables["masks"].groupby("subnetwork")["kept"].sum()
    assert kept.to_dict() == {"l0-40-s0": 6, "l0-40-s1": 6, "l0-70-s0": 3, "l0-70-s1": 3}


def test_parquet_and_csv_hold_the_same(whole: Outcome) -> None:
    for path in sorted((whole.report / "tables").glob("*.parquet")):
        one, other = pd.read_parquet(path), pd.read_csv(path.with_suffix(".csv"), keep_default_na=False, na_values=[""])
        assert list(one.columns) == list(other.columns)
        assert len(one) == len(other)
        for column in one.select_dtypes("number"):
            assert other[column].to_numpy(float) == pytest.approx(one[column].to_numpy(float), nan_ok=True)


class Count:
    """Listens, and counts what was computed."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lines: list[str] = []

    def planned(self, plan: Plan, asked: int, missing: list[Job]) -> None:
        self.missing = [j.title for j in missing]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def event(self, job: Job, event: Event) -> None:
        if event.state == "done":
            self.done.append(job.title)


@pytest.fixture
def copied(whole: Outcome, tmp_path: Path) -> Path:
    shutil.copytree(store_of(whole).root, tmp_path / "store")
    return tmp_path / "store"


def test_a_second_run_computes_nothing(study: Path, whole: Outcome, copied: Path) -> None:
    count = Count()
    again = small.run(study, copied, listener=count)
    assert count.done == []
    assert count.lines == []
    assert small.table_bytes(again) == small.table_bytes(whole)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("prune.l0.seeds=3", {"search": 2, "yardstick": 2, "predict": 4}),
        ("prune.l0.settings.steps=11", {"search": 4, "yardstick": 4, "predict": 8, "speed": 1}),
        ("prune.l0.sparsity=[0.4, 0.5]", {"search": 2, "yardstick": 2, "predict": 4, "speed": 1}),
        ("ablate=zero", {"search": 4, "yardstick": 4, "predict": 8, "speed": 1}),
        ("sample=90", {"reference": 1, "search": 4, "yardstick": 4, "predict": 8, "speed": 1}),
        (
            "fine_tune.checkpoints=[0, 20]",
            {"fine_tune": 1, "reference": 1, "search": 4, "yardstick": 4, "predict": 14, "speed": 1},
        ),
        ("title=Another title", {}),
        ("task.challenge.cases.limit=40", {"encode": 1, "predict": 7}),
    ],
)
def test_a_change_recomputes_only_what_depends_on_it(study: Path, whole: Outcome, change: str, kinds: dict[str, int]) -> None:
    plan = make_plan(small.spec_of(study, change), study.parent)
    states = state_of(plan, store_of(whole))
    missing = [job.kind for job in plan.jobs.values() if states[job.key] != "done"]
    assert {kind: missing.count(kind) for kind in set(missing)} == kinds


def test_an_edited_file_recomputes_and_a_touched_one_does_not(study: Path, whole: Outcome, tmp_path: Path) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(study.parent, folder)
    lines = (folder / "dev.jsonl").read_text().splitlines()
    (folder / "dev.jsonl").write_text("\n".join(lines) + "\n\n")  # the same examples in another file
    plan = make_plan(small.spec_of(folder / "study.yaml"), folder)
    assert set(state_of(plan, store_of(whole)).values()) == {"done"}
    (folder / "dev.jsonl").write_text("\n".join(lines[1:]) + "\n")
    plan = make_plan(small.spec_of(folder / "study.yaml"), folder)
    states = state_of(plan, store_of(whole))
    assert [j.title for j in plan.jobs.values() if states[j.key] != "done" and "validation" not in j.title] == [
        "measure speed"  # on validation texts
    ]


def test_workers_give_the_same_bytes_as_one_process(study: Path, whole: Outcome, tmp_path: Path) -> None:
    count = Count()
    found = small.run(study, tmp_path / "store", engine=Workers(2), listener=count)
    assert small.table_bytes(found) == small.table_bytes(whole)
    assert len(count.done) == len(whole.plan.jobs)


# kill -9


def started(study: Path, store: Path, *more: str) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "corewood",
        "run",
        study.name,
        "--store",
        str(store),
        "--out",
        str(store.parent / "out"),
        *more,
    ]
    return subprocess.Popen(words, cwd=study.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.005)


def first(plan: Plan, kind: str) -> Job:
    return next(job for job in plan.jobs.values() if job.kind == kind)


SLOW = ("fine_tune.steps=120", "fine_tune.checkpoints=[]", "prune.l0.sparsity=0.4", "prune.l0.settings.steps=auto")


@pytest.fixture(scope="module")
def slow(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("slow") / "store", *SLOW)


@pytest.mark.parametrize("kind", ["fine_tune", "search"])
def test_kill_9_then_resume_gives_the_same_bytes(study: Path, slow: Outcome, tmp_path: Path, kind: str) -> None:
    store, job = Store(tmp_path / "store"), first(slow.plan, kind)
    process = started(study, store.root, "--workers", "1", *(w for s in SLOW for w in ("--set", s)))
    wait_for(store.root / "locks" / job.key, process)
    time.sleep(0.3 if kind == "fine_tune" else 0.02)
    process.kill()
    process.wait()
    assert not store.has(kind, job.key)
    before = {p.name for p in (store.root / "entries").glob("*/*")}
    found = small.run(study, store.root, *SLOW)
    assert small.table_bytes(found) == small.table_bytes(slow)
    assert before <= {p.name for p in (store.root / "entries").glob("*/*")}
    assert list((store.root / "scratch").iterdir()) == []


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """What was forked from the one process that imports for all."""
    (imports,) = [c for c in psutil.Process(process.pid).children() if "forkserver" in " ".join(c.cmdline())]
    return imports.children()


def test_a_killed_worker_is_replaced_and_its_job_runs_again(study: Path, slow: Outcome, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    process = started(study, store.root, "--workers", "2", *(w for s in SLOW for w in ("--set", s)))
    wait_for(store.root / "locks" / first(slow.plan, "search").key, process)
    victims = workers_of(process)
    assert len(victims) == 2
    victims[0].kill()
    assert process.wait(timeout=300) == 0
    assert small.table_bytes(small.run(study, store.root, *SLOW)) == small.table_bytes(slow)


def test_killing_the_main_process_takes_its_workers_along(study: Path, slow: Outcome, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    process = started(study, store.root, "--workers", "2", *(w for s in SLOW for w in ("--set", s)))
    wait_for(store.root / "locks" / first(slow.plan, "fine_tune").key, process)
    orphans = psutil.Process(process.pid).children(recursive=True)
    assert {*workers_of(process)} < {*orphans}
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(orphans, timeout=60)
    assert alive == []
    assert small.table_bytes(small.run(study, store.root, *SLOW)) == small.table_bytes(slow)


def test_ctrl_c_says_how_to_go_on(study: Path, slow: Outcome, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    words = [sys.executable, "-m", "corewood", "run", study.name, "--store", str(store.root), "--workers", "2"]
    words += [w for s in SLOW for w in ("--set", s)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    process = subprocess.Popen(words, cwd=study.parent, stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 120
    while not (store.root / "locks" / first(slow.plan, "fine_tune").key).exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Finished jobs are kept; the same command goes on from here." in errors
    assert "Traceback" not in errors


FORK = """
import os, sys
from multiprocessing import get_context
from corewood.study.processes import can_fork, environment_of

if __name__ == "__main__":
    before = {**os.environ}
    with environment_of({"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}):
        if can_fork():
            worker = get_context("forkserver").Process(target=print, args=("forked",))
            worker.start()
            worker.join()
        del os.environ["MINE"]
        print("again" if can_fork() else "not again")
        os.environ["MINE"] = "1"
    assert {**os.environ} == before
"""


@pytest.mark.parametrize("room", ["short", "x" * 100])
def test_workers_fork_where_they_can_and_import_nothing_from_the_folder(tmp_path: Path, room: str) -> None:
    """A socket's path may have a hundred letters; a folder may hold a file that is called as a library is."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fork.py").write_text(FORK)
    (tmp_path / "study" / room).mkdir(parents=True)
    (tmp_path / "study" / "tornado.py").write_text("open('run', 'w'); raise SystemExit")
    given = {**os.environ, "TMPDIR": str(tmp_path / "study" / room) if room != "short" else "/tmp", "MINE": "1"}
    words = [sys.executable, str(tmp_path / "bin" / "fork.py")]
    done = subprocess.run(words, cwd=tmp_path / "study", env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("forked\nnot again\n" if room == "short" else "not again\n")
    assert not (tmp_path / "study" / "run").exists()


def test_a_script_that_is_no_file_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with pytest.raises(InputError, match="<stdin> is no file: put it in one, or use workers=1"):
        check_script()


def test_two_runs_on_one_store_share_the_work(study: Path, slow: Outcome, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    changes = [w for s in SLOW for w in ("--set", s)]
    words = [sys.executable, "-m", "corewood", "run", study.name, "--store", str(store.root), "--workers", "1", *changes]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    pair = [subprocess.Popen([*words, "--out", str(tmp_path / f"out{i}")], cwd=study.parent, **quiet) for i in range(2)]
    assert [p.wait(timeout=300) for p in pair] == [0, 0]
    found = small.run(study, store.root, *SLOW)
    assert found.computed == 0
    assert small.table_bytes(found) == small.table_bytes(slow)


def test_what_another_run_did_is_not_counted(study: Path, tmp_path: Path) -> None:
    changes = ["fine_tune=null", "prune.l0.sparsity=[0.4]", "prune.l0.seeds=1", "prune.l0.settings.steps=2"]
    other: list[Outcome] = []

    class Meanwhile(Listener):
        def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None:
            other.append(small.run(study, tmp_path / "store", *changes))

    found = small.run(study, tmp_path / "store", *changes, listener=Meanwhile())
    assert (found.computed, other[0].computed) == (0, len(found.plan.jobs))


def test_a_job_that_another_run_is_at_is_left_for_later(study: Path, tmp_path: Path) -> None:
    store, plan = Store(tmp_path / "store"), make_plan(small.spec_of(study), study.parent)
    store_data(plan, store)
    first, *others = [job for job in plan.jobs.values() if job.kind == "encode"]
    done: list[str] = []

    def told(event: Event) -> None:
        done.extend([event.key] * (event.state == "done"))

    with store.claim(first.key):
        assert store.taken(first.key)
        waits = threading.Thread(target=Inline().run, args=([first, *others], store, told))
        waits.start()
        until = time.monotonic() + 60
        while len(done) < len(others) and time.monotonic() < until:
            time.sleep(0.01)
        assert done == [job.key for job in others]
        assert not store.has(first.kind, first.key)
    waits.join(60)
    assert done == [*(job.key for job in others), first.key]
    assert not store.taken(first.key)


# damage and failure


@pytest.mark.parametrize("kind", ["data", "encode", "fine_tune", "reference", "search", "predict", "tables", "report"])
def test_a_damaged_entry_is_found_said_and_made_again(study: Path, whole: Outcome, copied: Path, kind: str) -> None:
    folder = sorted((copied / "entries" / kind).iterdir())[0]
    meta = json.loads((folder / "meta.json").read_text())
    name = max(meta["files"], key=lambda n: meta["files"][n]["bytes"])
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    count = Count()
    again = small.run(study, copied, listener=count)
    assert small.table_bytes(again) == small.table_bytes(whole)
    assert Store(copied).damage(kind, folder.name) is None
    if kind not in ("tables", "report"):
        assert any("does not match its checksum" in line for line in count.lines)


def test_a_report_leaves_damaged_entries_out(study: Path, whole: Outcome, copied: Path) -> None:
    job = next(j for j in whole.plan.jobs.values() if j.title == "search 70 % seed 1")
    (copied / "entries" / "search" / job.key / "masks.safetensors").write_bytes(b"half")
    found = report_study(small.spec_of(study), study.parent, Store(copied))
    assert "does not match its checksum" in small.holes(found)["search 70 % seed 1"]
    assert "l0-70-s1" not in set(found.tables["scores"]["subnetwork"])


def fail_one(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    real = kinds.KINDS["search"]

    def do(work: Work) -> dict[str, object]:
        if work.job.title == "search 70 % seed 1":
            raise problem
        assert real.do is not None
        return real.do(work)

    monkeypatch.setitem(kinds.KINDS, "search", replace(real, do=do))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"), "out of memory"),
        (ZeroDivisionError("by nothing"), "ZeroDivisionError: by nothing"),
    ],
)
def test_a_failed_job_is_a_hole_with_a_reason(
    study: Path, whole: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, reason: str
) -> None:
    fail_one(monkeypatch, problem)
    found = small.run(study, tmp_path / "store")
    assert not found.complete
    assert reason in small.holes(found)["search 70 % seed 1"]
    assert small.holes(found)["l0-70-s1 on cases"] == "needs search 70 % seed 1"
    assert set(found.tables["scores"]["subnetwork"]) == {"full", "majority", "l0-40-s0", "l0-40-s1", "l0-70-s0"}
    page = (found.report / "report.html").read_text()
    assert "4 jobs have no result" in page
    assert reason in page
    states = state_of(found.plan, Store(tmp_path / "store"))
    job = next(j for j in found.plan.jobs.values() if j.title == "search 70 % seed 1")
    assert reason in states[job.key]
    monkeypatch.undo()
    mended = small.run(study, tmp_path / "store")  # the next run tries again
    assert mended.complete
    assert small.table_bytes(mended) == small.table_bytes(whole)


def test_diverging_fine_tuning_leaves_an_explained_report(study: Path, tmp_path: Path) -> None:
    found = small.run(study, tmp_path / "store", "fine_tune.learning_rate=1e38")
    assert "not a number" in small.holes(found)["fine-tune 30 steps"]
    assert "No subnetwork could be judged" in (found.report / "report.html").read_text()


KILLER = """
import os, signal
from dataclasses import replace
from corewood.study.kinds import KINDS
from corewood.study.ways.l0 import SEARCH, do_search
def do(work):
    if work.job.title == "search 70 % seed 1":
        os.kill(os.getpid(), signal.SIGKILL)
    return do_search(work)
KINDS["search"] = replace(SEARCH, do=do)
"""


def test_a_job_that_kills_its_workers_becomes_a_hole(study: Path, tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    with dask.config.set({"distributed.worker.preload": [str(tmp_path / "killer.py")]}):
        found = small.run(study, tmp_path / "store", engine=Workers(2))
    assert "was killed 3 times" in small.holes(found)["search 70 % seed 1"]
    assert len(found.holes) == 4  # its predictions, and the random masks like it


# other shapes of studies


def test_an_audit_without_fine_tuning_and_without_training_data(study: Path, tmp_path: Path) -> None:
    task = {"validation": {"path": "dev.jsonl", **small.COLUMNS}}
    path = small.write_study(tmp_path / "audit", fine_tune=None, task=task)
    found = small.run(path, tmp_path / "store")
    assert found.complete
    assert "dynamics" not in found.tables
    assert any("no task.train" in note for note in found.plan.notes)
    assert "no challenge set was given" in small.said(found)


def test_a_report_of_what_is_done_so_far(study: Path, whole: Outcome) -> None:
    partial = report_study(small.spec_of(study, "prune.l0.seeds=3"), study.parent, store_of(whole))
    assert small.holes(partial)["search 40 % seed 2"] == "not run yet"
    assert len(partial.tables["scores"]["subnetwork"].unique()) == 6


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    torch.set_num_threads(1)
