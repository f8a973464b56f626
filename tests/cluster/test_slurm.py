"""On a real Slurm: equal tables whatever happens to its jobs, and no waiting for what never comes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import small
from slurm import CHANGES, in_queue

from corewood.errors import ClusterError
from corewood.spec.cluster import read_cluster
from corewood.store.store import Store
from corewood.study.engines import Event
from corewood.study.engines.batch import Batch, InBatch
from corewood.study.job import Job
from corewood.study.plan import make_plan
from corewood.study.run import Listener, Outcome

JOB = Job("encode", "k", "encode", {}, {})


@pytest.fixture(scope="module")
def killed(queue: Path, study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a run whose main process was killed in the middle of a training."""
    store = Store(tmp_path_factory.mktemp("killed") / "store")
    plan = make_plan(small.spec_of(study, *CHANGES), study.parent)
    tuning = next(job for job in plan.jobs.values() if job.kind == "fine_tune")
    words = ["run", study, "--store", store.root, "--cluster", queue, "--out", store.root.parent / "out"]
    words += [word for change in CHANGES for word in ("--set", change)]
    process = subprocess.Popen([sys.executable, "-m", "corewood", *map(str, words)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    try:
        while not (store.root / "scratch" / tuning.key).exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert not store.has(tuning.kind, tuning.key)
    return store.root


def test_a_killed_run_leaves_no_job_behind(killed: Path) -> None:
    until = time.monotonic() + 60
    while in_queue():
        assert time.monotonic() < until
        time.sleep(0.5)


class Cancelling(Listener):
    """Cancels all jobs of the queue once, when a training begins."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seen: list[str] = []
        self.cancelled = False

    def say(self, line: str) -> None:
        self.lines.append(line)

    def workers(self, standing: str) -> None:
        self.seen.append(standing)

    def event(self, job: Job, event: Event) -> None:
        if event.state == "started" and job.kind == "fine_tune" and not self.cancelled:
            self.cancelled = True
            subprocess.run(["scancel", *in_queue()], check=True)


def test_the_same_command_goes_on_and_cancelled_jobs_come_back(killed: Path, queue: Path, study: Path, whole: Outcome) -> None:
    store, plan = Store(killed), make_plan(small.spec_of(study, *CHANGES), study.parent)
    for job in plan.jobs.values():
        if job.kind == "fine_tune" and store.has(job.kind, job.key):  # the killed run's worker may have lived to end it
            store.discard(job.kind, job.key)
    listener = Cancelling()
    found = small.run(study, killed, *CHANGES, engine=InBatch(read_cluster(queue)), listener=listener)
    assert found.complete
    assert small.table_bytes(found) == small.table_bytes(whole)
    assert 0 < found.computed <= len(found.plan.jobs)
    assert [line for line in listener.lines if "run again" in line] == [
        "fine-tune 300 steps: its job in the queue was cancelled; it is run again"
    ]
    assert "1 running, 0 pending in the queue" in listener.seen
    assert any(re.match(r"0 running, (\d starting, )?\d pending in the queue", seen) for seen in listener.seen)
    assert in_queue() == []
    left = [*(killed / "tmp").glob("*-cluster")]  # certificates and logs: of the run that was killed
    assert len(left) == 1, left


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"queue": "nowhere"}, r"^sbatch: error: invalid partition specified: nowhere"),
        ({"queue": "short"}, r"jobs wait for ever \(PartitionTimeLimit\)"),
        ({"python": "/nowhere/python"}, r"3 jobs in a row ended .* \(FAILED\)(?s:.*)/nowhere/python: No such file"),
        ({"environment": "export PYTHONPATH=/nowhere; unset VIRTUAL_ENV; exit 3"}, r"3 jobs in a row ended"),
    ],
)
def test_nothing_hangs(queue: Path, tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        InBatch(read_cluster(queue, {**changes, "jobs": "1"})).run([JOB], Store(tmp_path), lambda event: None)
    assert in_queue() == []


def test_each_worker_has_a_gpu_of_its_own(queue: Path, tmp_path: Path) -> None:
    place = Batch(read_cluster(queue, {"gpus": 1}))
    with place.open([JOB, JOB], Store(tmp_path)) as client:
        client.wait_for_workers(2, timeout=300)
        gpus, nodes = (client.run(os.getenv, name) for name in ("CUDA_VISIBLE_DEVICES", "SLURMD_NODENAME"))
        resources = client.run_on_scheduler(gpus_of)
    assert set(gpus.values()) <= {"0", "1"}
    assert len({(nodes[worker], gpu) for worker, gpu in gpus.items()}) == 2
    assert resources == [1, 1]


def gpus_of(dask_scheduler: Any = None) -> list[float]:
    return [worker.resources["GPU"] for worker in dask_scheduler.workers.values()]


def test_check_says_in_plain_words_what_works(queue: Path, tmp_path: Path) -> None:
    done = small.command("cluster", "check", queue, "--store", tmp_path / "store", "--gpus", "1", cwd=tmp_path)
    assert done.returncode == 1  # these GPUs are pretended
    assert [line[:16].split() for line in done.stdout.splitlines()] == [
        ["ok", "store"], ["ok", "scheduler"], ["ok", "worker"], ["ok", "versions"], ["ok", "files"], ["ok", "locks"],
        ["no", "device"],
    ]  # fmt: skip
    assert "it was given a GPU, and torch sees none" in done.stdout
