"""A real dask scheduler with two workers of its own: equal tables, and what is refused before work begins."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import small
from slurm import CHANGES

from corewood.errors import ClusterError
from corewood.store.store import Store
from corewood.study.engines.address import AtAddress
from corewood.study.job import Job
from corewood.study.run import Outcome

JOB = Job("encode", "k", "encode", {}, {})


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def dask(*words: str, **environment: str) -> Iterator[None]:
    """A process of `dask scheduler` or `dask worker`."""
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **environment}, **quiet)  # type: ignore[call-overload]
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    port = free_port()
    with dask("scheduler", "--host", "127.0.0.1", "--port", str(port)):
        yield f"tcp://127.0.0.1:{port}"


def worker(scheduler: str, *words: str, **environment: str) -> object:
    return dask("worker", scheduler, "--nthreads", "2", "--host", "127.0.0.1", *words, **environment)


def test_equal_tables_from_a_scheduler_by_address(scheduler: str, study: Path, whole: Outcome, tmp_path: Path) -> None:
    with worker(scheduler), worker(scheduler):  # two threads each: they get one job at a time all the same
        found = small.run(study, tmp_path / "store", *CHANGES, engine=AtAddress(scheduler))
    assert found.complete
    assert small.table_bytes(found) == small.table_bytes(whole)


BLOCKED = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name == "corewood" or name.startswith("corewood."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, No())
"""
OTHER = """
import corewood.store.store as store
real = store.versions()
store.versions = lambda: {**real, "torch": "1.0"}
"""
BLIND = """
import corewood.study.engines.look as look
look.appears = lambda path, patience: False
"""


@pytest.mark.parametrize(
    ("preload", "said"),
    [
        (
            BLOCKED,
            r"the worker at tcp://.*: it cannot run corewood \(.*No module named 'corewood.*install the same corewood there",
        ),
        (OTHER, r"the worker at tcp://.*: it has torch 1.0, and here it is .*: install the same versions"),
        (BLIND, r"the worker at tcp://.*: it does not see the store .*; choose a folder that all hosts share, with --store"),
    ],
)
def test_a_worker_that_cannot_do_it_is_refused_before_work_begins(
    scheduler: str, tmp_path: Path, preload: str, said: str
) -> None:
    (tmp_path / "preload.py").write_text(preload)
    with (
        worker(scheduler, "--no-nanny", "--preload", str(tmp_path / "preload.py")),
        pytest.raises(ClusterError, match=said),
    ):
        AtAddress(scheduler).run([JOB], Store(tmp_path / "store"), lambda event: None)
    assert not (tmp_path / "store" / "entries").exists()


def test_a_scheduler_that_cannot_import_corewood_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preload.py").write_text(BLOCKED)
    port = free_port()
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--preload", str(tmp_path / "preload.py")),
        pytest.raises(ClusterError, match=r"the scheduler cannot import corewood .*install corewood beside it"),
    ):
        AtAddress(f"tcp://127.0.0.1:{port}").run([JOB], Store(tmp_path / "store"), lambda event: None)


def test_a_wrong_address_and_a_missing_certificate_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewood.study.engines.address.WAIT", 1)
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers there .*check the address"):
        AtAddress(f"tcp://127.0.0.1:{free_port()}").run([JOB], Store(tmp_path), lambda event: None)
    with pytest.raises(ClusterError, match=r"wants TLS, and there is no certificate; .*DASK_DISTRIBUTED__COMM__TLS__CA_FILE"):
        AtAddress(f"tls://127.0.0.1:{free_port()}").run([JOB], Store(tmp_path), lambda event: None)
    with pytest.raises(ClusterError, match="no such scheduler file"):
        AtAddress("scheduler.json")
    assert time.monotonic() - began < 30
