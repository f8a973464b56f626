"""Who runs the jobs. An engine takes jobs in an order where each stands after what it needs, and tells what happens to each.

A failed job takes along only those that need it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from corewood.errors import CorewoodError
from corewood.store.store import Store
from corewood.study.job import Job

LOOKED = 32  # jobs that are looked at for one that no other run is at


@dataclass(frozen=True)
class Event:
    """What happened to a job; or, without a key, what there is to say of the workers."""

    key: str
    state: Literal["started", "progress", "done", "failed", "blocked", "found", "workers", "note"]  # found: done by another run
    detail: str = ""
    done: int = 0
    total: int = 0


Tell = Callable[[Event], None]


class Engine(Protocol):
    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None: ...

    def bfloat16(self) -> bool:
        """Whether its jobs run on GPUs that have bfloat16."""
        ...


class Graph:
    """Jobs in an order where each stands after what it needs. Each is taken once or blocked, and then ended.

    Every need is looked at once: a plan may have ten thousand jobs.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = {job.key: job for job in jobs}
        self.running: set[str] = set()
        self.order = list(self.waiting)
        self.place = {key: place for place, key in enumerate(self.order)}
        self.lacking = {job.key: {key for key in job.needs() if key in self.waiting} for job in jobs}  # undone needs of each
        self.needed_by: dict[str, list[str]] = {}
        for job in jobs:
            for key in self.lacking[job.key]:
                self.needed_by.setdefault(key, []).append(job.key)
        self.free = [place for place, key in enumerate(self.order) if not self.lacking[key]]  # sorted: those that are ready

    def ready(self, most: int | None = None) -> list[Job]:
        """Those that need nothing undone, in order. What is not among the jobs is taken to be there."""
        return [self.waiting[self.order[place]] for place in self.free[:most]]

    def take(self, job: Job) -> None:
        del self.waiting[job.key]
        del self.free[bisect_left(self.free, self.place[job.key])]
        self.running.add(job.key)

    def give_back(self, job: Job) -> None:
        """Its worker is gone; it is to be taken again."""
        self.running.discard(job.key)
        self.waiting[job.key] = job
        insort(self.free, self.place[job.key])

    def done(self, key: str) -> None:
        self.running.discard(key)
        for other in self.needed_by.get(key, ()):
            self.lacking[other].discard(key)
            if not self.lacking[other] and other in self.waiting:
                insort(self.free, self.place[other])

    def failed(self, key: str) -> Iterator[Job]:
        """The jobs that can never run now, each after the one it is lost with."""
        self.running.discard(key)
        lost = set(self.lost_with([key]))
        for place in sorted(self.place[key] for key in lost):  # in order: what a job needs stands before it
            yield self.waiting.pop(self.order[place])

    def lost_with(self, keys: Iterable[str]) -> Iterator[str]:
        seen: set[str] = set()
        left = list(keys)
        while left:
            for other in self.needed_by.get(left.pop(), ()):
                if other in self.waiting and other not in seen:
                    seen.add(other)
                    left.append(other)
                    yield other


def free_first(jobs: Iterable[Job], store: Store) -> Iterator[Job]:
    """Last those that another run on the same store is at: whoever takes one waits for it."""
    taken = []
    for job in jobs:
        if store.taken(job.key):
            taken.append(job)
        else:
            yield job
    yield from taken


def ended(graph: Graph, key: str, tell: Tell, problem: str = "") -> None:
    """A job is done, or lost with those that need it."""
    if not problem:
        graph.done(key)
        tell(Event(key, "done"))
        return
    tell(Event(key, "failed", problem))
    for lost in graph.failed(key):
        tell(Event(lost.key, "blocked"))


def reason(problem: BaseException) -> str:
    """One line on why a job failed."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    if isinstance(problem, MemoryError) or "can't allocate memory" in text or "out of memory" in text.lower():
        return f"out of memory ({text[:200]}); use a smaller batch or fewer workers (--workers 1)"
    if isinstance(problem, CorewoodError):
        return text
    return f"{type(problem).__name__}: {text[:500]}"
