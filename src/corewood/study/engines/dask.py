"""Worker processes on dask: this machine's cores; any other dask cluster would do as well."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from corewood.errors import CorewoodError, JobError, StoreError
from corewood.store.store import Store
from corewood.study.engines.engine import Event, Graph, Tell, ended, reason
from corewood.study.job import Job, execute

ALLOWED_DEATHS = 2  # of workers, before a job is taken to be what kills them


class Workers:
    """Single-threaded processes."""

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
        graph = Graph(jobs)
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
            running: dict[str, Any] = {}  # futures: one that is let go is cancelled
            finished = as_completed(loop=client.loop, raise_errors=False)

            def submit_ready() -> None:
                """As many as there are workers: a job that waits on a worker is blamed when another one kills it."""
                for job in graph.ready()[: count - len(graph.running)]:
                    graph.take(job)
                    running[job.key] = client.submit(remote, job.plain(), str(store.root), key=job.key, pure=False)
                    finished.add(running[job.key])

            submit_ready()
            for future in finished:
                key = str(future.key)
                running.pop(key, None)
                problem = future.exception()
                if isinstance(problem, StoreError):
                    raise problem
                why = "" if problem is None else reason(problem)
                if isinstance(problem, KilledWorker):
                    why = f"its worker process was killed {ALLOWED_DEATHS + 1} times, most likely for want of memory; "
                    why += "use fewer workers (--workers 1) or a smaller batch"
                ended(graph, key, tell, why)
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
    from distributed import get_worker

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
        raise JobError(reason(problem)) from None  # some libraries' exceptions do not survive the way back
