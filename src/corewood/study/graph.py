"""Which jobs are ready and which can never be: what every engine asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corewood.study.job import Job


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
