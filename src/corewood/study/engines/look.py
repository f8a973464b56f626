"""What is done on a worker: a look around before its first job, and jobs."""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import torch
from filelock import Timeout

from corewood.errors import CorewoodError, JobError
from corewood.model.precision import has_bfloat16
from corewood.store.shared import appears, claimed, leases_used, use_leases
from corewood.store.store import Store, versions
from corewood.study.engines.engine import reason
from corewood.study.job import Job, Work, execute
from corewood.study.ways.l0 import search_ahead

SIGN = "sign"  # before the name of the folder by which workers know that they see the same store


@dataclass(frozen=True)
class Facts:
    """What a worker says of itself."""

    address: str
    name: str
    keeper: str  # of the process beside it that starts it again
    host: str
    gpu: bool  # whether jobs that want one may come
    device: str  # in words
    visible: str  # which GPUs it may use, as CUDA_VISIBLE_DEVICES says
    bfloat16: bool  # whether its GPU has it
    versions: dict[str, str]
    problem: str  # why it cannot do this study, or nothing
    locks_apart: bool  # whether flock lets it in where another host has locked


class Wanted(TypedDict):
    """What jobs need of a worker."""

    sources: list[str]  # folders of models
    precisions: list[str]


def wanted_by(jobs: Iterable[Job]) -> Wanted:
    every = list(jobs)
    sources = {str(job.local["source"]) for job in every if Path(str(job.local.get("source", ""))).is_absolute()}
    kinds = {part["precision"] for job in every for part in (job.params, job.params.get("settings", {})) if "precision" in part}
    return {"sources": sorted(sources), "precisions": sorted(kinds)}


@contextmanager
def sign(store: Store) -> Iterator[str]:
    """While a run lasts: a folder that workers must see, and a lock that must keep them out."""
    name = f"{SIGN}{uuid.uuid4().hex}"
    path = store.root / "tmp" / name
    path.mkdir(parents=True)
    with store.claim(name):
        try:
            yield name
        finally:
            path.rmdir()
            (store.root / "locks" / name).unlink(missing_ok=True)


def look(root: str, name: str, wanted: Wanted, patience: float) -> dict[str, Any]:
    """On a worker: does it see the store and the model, can it write, which device has it."""
    from distributed import get_worker

    worker = get_worker()
    promised = bool(worker.state.total_resources.get("GPU"))
    there = torch.cuda.is_available()
    store = Store(Path(root))
    problem = sight(store, name, wanted["sources"], patience)
    if promised and not there:
        problem = problem or "it was given a GPU, and torch sees none; install a torch with CUDA there, or ask for no GPUs"
    if there and "bfloat16" in wanted["precisions"] and not has_bfloat16():
        problem = problem or "its GPU has no bfloat16; set model.precision and fine_tune.precision to float32"
    facts = Facts(
        address=worker.address,
        name=str(worker.name),
        keeper=str(worker.nanny or ""),
        host=socket.gethostname(),
        gpu=promised or there,
        device=torch.cuda.get_device_name(0) if there else "CPU",
        visible=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        bfloat16=has_bfloat16(),
        versions={**versions(), "python": ".".join(map(str, sys.version_info[:2]))},
        problem=problem,
        locks_apart=not problem and enters(store, name),
    )
    return asdict(facts)


def sight(store: Store, name: str, sources: Sequence[str], patience: float) -> str:
    """What is not as it should be with files, or nothing."""
    if not appears(store.root / "tmp" / name, patience):
        return f"it does not see the store {store.root}; choose a folder that all hosts share, with --store"
    try:
        probe = store.root / "tmp" / f"{SIGN}{uuid.uuid4().hex}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as problem:
        return f"it cannot write into the store {store.root} ({problem.strerror}); choose another folder with --store"
    for source in sources:
        if not Path(source).exists():
            return f"it does not see the model {source}; put it where all hosts see it"
    return ""


def enters(store: Store, name: str) -> bool:
    """Whether a lock that the main process holds lets this one in."""
    if leases_used(store.root / "locks"):
        return False
    try:
        with claimed(store.root / "locks", name, blocking=False):
            return True
    except Timeout:
        return False


def part_locks(store: Store) -> None:
    """From now on leases: flock knows of one host alone."""
    use_leases(store.root / "locks", "flock does not keep other hosts out")


def do(content: dict[str, Any], root: str, patience: float, beside: Sequence[dict[str, Any]] = ()) -> None:
    """On a worker: do the job, and send word of its progress through the scheduler.

    `beside` are searches that wait and are like this one: on a GPU their first steps may share its batches.
    """
    from distributed import get_worker

    job = Job.from_plain(content)
    if str(job.local.get("device", "")).startswith("cuda:") and "," not in os.environ.get("CUDA_VISIBLE_DEVICES", ","):
        job = replace(job, local={**job.local, "device": "cuda"})  # the one GPU that this process sees is its first
    worker = get_worker()
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5 or done == total:
            told = time.monotonic()
            worker.log_event("corewood", {"event": {"key": job.key, "state": "progress", "done": done, "total": total}})

    worker.log_event("corewood", {"event": {"key": job.key, "state": "started"}})
    store = Store(Path(root), patience)
    try:
        if beside and torch.cuda.is_available():
            every = [job, *map(Job.from_plain, beside)]
            search_ahead([Work(one, store, Path(), lambda done, total: None) for one in every])
        if not execute(job, store, progress):
            worker.log_event("corewood", {"event": {"key": job.key, "state": "found"}})
    except CorewoodError:
        raise
    except Exception as problem:
        raise JobError(reason(problem)) from None  # some libraries' exceptions do not survive the way back
