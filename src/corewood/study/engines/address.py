"""A Dask scheduler that is there already, by its address or scheduler file; TLS by dask's own settings."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corewood.errors import ClusterError
from corewood.store.store import Store
from corewood.study.engines.dask import Dask
from corewood.study.engines.look import Facts
from corewood.study.engines.place import Fault, Verdict
from corewood.study.job import Job

WAIT = 10  # seconds for the scheduler to answer
BACK = 20.0  # seconds within which a worker that died is there again


class Address:
    """`where` is tcp://host:port, tls://host:port, or a scheduler file."""

    patience, alone = 60.0, 600.0

    def __init__(self, where: str) -> None:
        self.where = where

    @contextmanager
    def open(self, jobs: Sequence[Job], store: Store) -> Iterator[Any]:
        with self.connected() as client:
            check_scheduler(client, self.where)
            yield client

    @contextmanager
    def connected(self) -> Iterator[Any]:
        import dask
        from distributed import Client

        by = {"address": self.where} if "://" in self.where else {"scheduler_file": self.where}
        try:
            client = Client(**by, timeout=WAIT, set_as_default=False)
        except (OSError, ValueError, TypeError, KeyError) as problem:
            raise ClusterError(f"--cluster {self.where}: {unreached(self.where, problem)}") from None
        with client, dask.config.set({"distributed.comm.timeouts.connect": f"{WAIT} s"}):
            yield client

    def bfloat16(self) -> bool:
        """Asked of the workers that are there; those that come later are looked at when they come."""
        from corewood.study.nodes import has_bfloat16

        with self.connected() as client:
            check_scheduler(client, self.where)
            found = client.run(has_bfloat16, on_error="ignore")
        return bool(found) and all(found.values())

    def need(self, jobs: int, there: Sequence[Facts], busy: Collection[str]) -> None:
        pass

    def standing(self, workers: int) -> str:
        return f"{workers} workers at {self.where}" if workers else f"no workers yet at {self.where}"

    def verdict(self, worker: Facts, there: Sequence[Facts], seconds: float) -> Verdict | None:
        """A worker that died is started again by the process beside it; one that was taken away is not."""
        if any(worker.keeper and other.keeper == worker.keeper for other in there):
            return Verdict("died", "its worker process was killed")
        return Verdict("left", f"its worker at {worker.address} went away") if seconds > BACK else None

    def advice(self, fault: Fault) -> str:
        if fault == "died":
            return "most likely for want of memory: use workers with more of it, or a smaller batch"
        return "ask whoever keeps the scheduler why workers go away"


def unreached(where: str, problem: Exception) -> str:
    if isinstance(problem, TypeError) or "TLS" in str(problem):
        settings = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..__CLIENT__CERT and ..__CLIENT__KEY"
        return f"this scheduler wants TLS, and there is no certificate; name yours in dask's settings ({settings})"
    if "://" not in where:
        return f"no scheduler could be found by this file ({problem}); it is what dask scheduler --scheduler-file writes"
    why = " ".join(str(problem).split())[:300]
    return f"no Dask scheduler answers there ({why}); check the address, or start one: dask scheduler"


def check_scheduler(client: Any, where: str) -> None:
    """What jobs pass through must speak this Python and know corewood."""
    from corewood import __version__
    from corewood.study.nodes import prepared

    found = client.get_versions(packages=["corewood"])
    theirs, ours = found["scheduler"], found["client"]
    python = theirs["host"]["python"]
    if python.split(".")[:2] != list(map(str, sys.version_info[:2])):
        raise ClusterError(
            f"--cluster {where}: the scheduler runs Python {python.rpartition('.')[0].rpartition('.')[0]}, and here it is "
            f"{sys.version_info[0]}.{sys.version_info[1]}; start it with the same Python"
        )
    for name in ("distributed", "dask", "cloudpickle", "msgpack"):
        if theirs["packages"][name] != ours["packages"][name]:
            versions = f"{theirs['packages'][name]}, and here it is {ours['packages'][name]}"
            raise ClusterError(f"--cluster {where}: the scheduler has {name} {versions}; install the same versions there")
    try:
        version = client.run_on_scheduler(prepared)
    except Exception as problem:  # whatever the other side could not import
        why = " ".join(str(problem).split())[:200]
        raise ClusterError(
            f"--cluster {where}: the scheduler cannot import corewood ({why}); jobs pass through it: install corewood beside "
            "it, with the same versions, and start it again"
        ) from None
    if version != __version__:
        raise ClusterError(f"--cluster {where}: the scheduler has corewood {version}, and here it is {__version__}")


class AtAddress(Dask):
    """Jobs on the workers of a scheduler that is there already."""

    def __init__(self, where: str) -> None:
        if "://" not in where and not Path(where).is_file():
            raise ClusterError(f"--cluster {where}: no such scheduler file; give tcp://host:port, or a batch system's file")
        super().__init__(Address(where))
