"""Who runs the jobs. An engine takes jobs in an order where each stands after what it needs, and tells what happens to each.

A failed job takes along only those that need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from corewood.errors import CorewoodError
from corewood.store.store import Store
from corewood.study.graph import Graph
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
