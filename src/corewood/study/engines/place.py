"""Where workers come from: this machine, a scheduler by its address, a batch system."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from corewood.store.store import Store
from corewood.study.engines.look import Facts
from corewood.study.job import Job

Fault = Literal["died", "memory", "walltime", "left"]


@dataclass(frozen=True)
class Verdict:
    """Why a worker is gone: it died with the job on it, or (walltime, left) was taken away, which is no fault of the job's."""

    fault: Fault
    why: str


class Place(Protocol):
    patience: float  # seconds within which a host sees what another has written
    alone: float  # seconds that may pass without any worker

    def open(self, jobs: Sequence[Job], store: Store) -> AbstractContextManager[Any]:
        """A dask client, for as long as the jobs run."""
        ...

    def need(self, jobs: int, there: Sequence[Facts], busy: Collection[str]) -> None:
        """So many jobs could run now; these workers are there, and those at the addresses of `busy` have one."""
        ...

    def standing(self, workers: int) -> str:
        """Who is there and who is awaited, in words; nothing where that is no news. Raises what went wrong meanwhile."""
        ...

    def verdict(self, worker: Facts, there: Sequence[Facts], seconds: float) -> Verdict | None:
        """Why a worker has been gone for so many seconds; None as long as that is not known."""
        ...

    def advice(self, fault: Fault) -> str:
        """What to do about a job that is lost in this way."""
        ...

    def bfloat16(self) -> bool: ...
