"""Who runs the jobs. An engine takes jobs in an order where each stands after what it needs, and tells what happens to each.

A failed job takes along only those that need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from corewood.errors import CorewoodError
from corewood.store.store import Store
from corewood.study.job import Job


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


class Graph:
    """Jobs in an order where each stands after what it needs. Each is taken once or blocked, and then ended."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = {job.key: job for job in jobs}
        self.running: set[str] = set()

    def ready(self) -> list[Job]:
        """Those that need nothing undone, in order. What is not among the jobs is taken to be there."""
        undone = self.waiting.keys() | self.running
        return [job for job in self.waiting.values() if undone.isdisjoint(job.needs())]

    def take(self, job: Job) -> None:
        del self.waiting[job.key]
        self.running.add(job.key)

    def done(self, key: str) -> None:
        self.running.discard(key)

    def failed(self, key: str) -> Iterator[Job]:
        """The jobs that can never run now, each after the one it is lost with."""
        self.running.discard(key)
        lost = {key}
        for job in list(self.waiting.values()):  # in order: what a job needs stands before it
            if not lost.isdisjoint(job.needs()):
                lost.add(job.key)
                del self.waiting[job.key]
                yield job


def ended(graph: Graph, key: str, tell: Tell, problem: str = "") -> None:
    """A job is done, or lost with those that need it."""
    if not problem:
        graph.done(key)
        tell(Event(key, "done"))
        return
    tell(Event(key, "failed", problem))
    for lost in graph.failed(key):
        tell(Event(lost.key, "blocked"))


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
