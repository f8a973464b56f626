"""Who runs the jobs: this process, or a cluster of worker processes.

An engine takes jobs in an order where each stands after what it needs, and tells what happens to each. A failed job
takes along only those that need it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from corewood.errors import CorewoodError, StoreError
from corewood.store.store import Store
from corewood.study.job import Job

ALLOWED_DEATHS = 2  # of workers, before a job is taken to be what kills them


@dataclass(frozen=True)
class Event:
    key: str
    state: Literal["started", "progress", "done", "failed", "blocked"]
    detail: str = ""
    done: int = 0
    total: int = 0


Tell = Callable[[Event], None]


class Engine(Protocol):
    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None: ...


def engine(workers: int) -> Engine:
    return Inline() if workers <= 1 else Workers(workers)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def reason(problem: BaseException) -> str:
    """One line on why a job failed."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    if isinstance(problem, MemoryError) or "can't allocate memory" in text or "out of memory" in text.lower():
        return f"out of memory ({text[:200]}); use a smaller batch or fewer workers (--workers 1)"
    if isinstance(problem, CorewoodError):
        return text
    return f"{type(problem).__name__}: {text[:500]}"


class Inline:
    """One job after the other, in this process."""

    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        import torch

        threads = torch.get_num_threads()  # jobs have their own number; a notebook wants its own back
        try:
            self.each(jobs, store, tell)
        finally:
            torch.set_num_threads(threads)

    def each(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        from corewood.study.jobs import execute

        wanted, lost = {job.key for job in jobs}, set[str]()
        for job in jobs:
            if lost & set(job.needs()) & wanted:
                lost.add(job.key)
                tell(Event(job.key, "blocked"))
                continue
            tell(Event(job.key, "started"))
            try:
                execute(job, store, lambda done, total, key=job.key: tell(Event(key, "progress", "", done, total)))  # type: ignore[misc]
            except StoreError:
                raise
            except Exception as problem:
                lost.add(job.key)
                tell(Event(job.key, "failed", reason(problem)))
            else:
                tell(Event(job.key, "done"))


class Workers:
    """One single-threaded process per core, on dask's LocalCluster; any other dask cluster would do as well."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        import dask
        from distributed import Client, KilledWorker, LocalCluster, as_completed

        quiet_dask()
        settings = {
            "distributed.worker.daemon": False,  # a job may start processes
            "distributed.scheduler.worker-ttl": "1 hour",  # a job may hold the interpreter for minutes
            "distributed.scheduler.allowed-failures": ALLOWED_DEATHS,
            "distributed.deploy.lost-worker-timeout": "1 hour",  # by default a worker slow to come back is given up, for good
            "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            "distributed.admin.tick.limit": "1 hour",
            "distributed.admin.tick.interval": "1 s",  # this and the profiler wake every process 50 to 100 times a second
            "distributed.worker.profile.enabled": False,
        }
        waiting = {job.key: job for job in jobs}
        count = min(self.count, len(jobs))
        with dask.config.set(settings), ExitStack() as stack:
            with deaf_to_ctrl_c():  # workers inherit it: a Ctrl-C is for this process, which then closes them
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        processes=True,
                        memory_limit=None,
                        dashboard_address="127.0.0.1:0",  # a free port, so that two runs on one machine do not meet
                        host="127.0.0.1",
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = stack.enter_context(Client(cluster, set_as_default=False))
            client.subscribe_topic("corewood", lambda message: tell(Event(**message[1]["event"])))
            running: dict[str, Any] = {}
            finished = as_completed(loop=client.loop, raise_errors=False)

            def submit_ready() -> None:
                """As many as there are workers: a job that waits on a worker is blamed when another one kills it."""
                undone = waiting.keys() | running.keys()
                ready = [j for j in waiting.values() if undone.isdisjoint(j.needs())]
                for job in ready[: count - len(running)]:
                    del waiting[job.key]
                    running[job.key] = client.submit(remote, job.plain(), str(store.root), key=job.key, pure=False)
                    finished.add(running[job.key])

            def block(lost: str) -> None:
                for job in [j for j in waiting.values() if lost in j.needs()]:
                    if waiting.pop(job.key, None):
                        tell(Event(job.key, "blocked"))
                        block(job.key)

            submit_ready()
            for future in finished:
                key = str(future.key)
                running.pop(key, None)
                problem = future.exception()
                if problem is None:
                    tell(Event(key, "done"))
                elif isinstance(problem, StoreError):
                    raise problem
                else:
                    if isinstance(problem, KilledWorker):
                        why = f"its worker process was killed {ALLOWED_DEATHS + 1} times, most likely for want of memory"
                        tell(Event(key, "failed", f"{why}; use fewer workers (--workers 1) or a smaller batch"))
                    else:
                        tell(Event(key, "failed", reason(problem)))
                    block(key)
                submit_ready()


def quiet_dask() -> None:
    """What dask has to say while a cluster closes is no news to a user; what goes wrong with a job is told by its event."""
    for name in [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "distributed"]:
        logging.getLogger(name).handlers.clear()
    logging.getLogger("distributed").addHandler(logging.NullHandler())
    logging.getLogger("distributed").propagate = False


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def remote(content: dict[str, Any], root: str) -> None:
    """On a worker: do the job, and send word of its progress through the scheduler."""
    import time

    from distributed import get_worker

    from corewood.study.jobs import execute

    job = Job.from_plain(content)
    worker = get_worker()
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5 or done == total:
            told = time.monotonic()
            worker.log_event("corewood", {"event": {"key": job.key, "state": "progress", "done": done, "total": total}})

    worker.log_event("corewood", {"event": {"key": job.key, "state": "started"}})
    try:
        execute(job, Store(Path(root)), progress)
    except CorewoodError:
        raise
    except Exception as problem:
        from corewood.errors import JobError

        raise JobError(reason(problem)) from None  # some libraries' exceptions do not survive the way back
