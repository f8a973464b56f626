"""Scheduler and workers on dask that answer TLS alone: dask's own would open an HTTP port each, to whoever asks. And what is
sent to them.

Nothing heavy is imported here: a scheduler, and the process beside each worker that starts it again, import this alone.
"""

from __future__ import annotations

from typing import Any

import distributed
from distributed.security import Security

# what every process of a run has in common
SETTINGS = {
    "distributed.worker.daemon": False,  # a job may start processes
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.worker-ttl": "1 hour",  # a job may hold the interpreter for minutes
    "distributed.scheduler.allowed-failures": 0,  # a death is told at once; whose fault it was is for us to judge
    "distributed.scheduler.work-stealing": False,
    "distributed.deploy.lost-worker-timeout": "1 hour",  # by default a worker slow to come back is given up, for good
    "distributed.admin.tick.limit": "1 hour",
    "distributed.admin.tick.interval": "1 s",  # this and the profiler wake every process 50 to 100 times a second
}
LONGEST = 3600.0  # seconds that a job may hold the interpreter


class Scheduler(distributed.Scheduler):  # type: ignore[misc]
    def start_http_server(self, *_: Any, **__: Any) -> None:
        pass


class Worker(distributed.Worker):  # type: ignore[misc]
    def start_http_server(self, *_: Any, **__: Any) -> None:
        pass


def certified() -> Security:
    """Certificates for one run, in memory alone: who does not have them is not spoken to."""
    return Security.temporary()


def scheduler_at(host: str, security: Security) -> dict[str, Any]:
    """As dask's clusters take it."""
    options = {"host": host, "port": 0, "protocol": "tls://", "security": security, "dashboard": False}
    return {"cls": Scheduler, "options": options}


# sent to others: each imports what it needs where it runs


def present() -> bool:
    """Asked first, and out of turn: a worker that cannot read a job dies of it."""
    return True


def look(*asked: Any) -> dict[str, Any]:
    from corewood.study.engines.look import look

    return look(*asked)


def do(*asked: Any) -> None:
    from corewood.study.engines.look import do

    do(*asked)


def has_bfloat16() -> bool:
    from corewood.model.precision import has_bfloat16

    return has_bfloat16()


def prepared(dask_scheduler: Any = None) -> str:
    """On a scheduler that others keep: a job may hold the interpreter for minutes, and its worker is not dead for that."""
    from corewood import __version__

    if dask_scheduler.worker_ttl:
        dask_scheduler.worker_ttl = max(dask_scheduler.worker_ttl, LONGEST)
    return __version__
