"""One job after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from corewood.errors import StoreError
from corewood.store.store import Store
from corewood.study.engines.engine import Event, Tell, reason
from corewood.study.graph import Graph
from corewood.study.job import Job
from corewood.study.work import execute


class Inline:
    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        threads = torch.get_num_threads()  # jobs have their own number; a notebook wants its own back
        try:
            self.each(Graph(jobs), store, tell)
        finally:
            torch.set_num_threads(threads)

    def each(self, graph: Graph, store: Store, tell: Tell) -> None:
        while ready := graph.ready():
            job = ready[0]
            graph.take(job)
            tell(Event(job.key, "started"))
            try:
                execute(job, store, lambda done, total, key=job.key: tell(Event(key, "progress", "", done, total)))  # type: ignore[misc]
            except StoreError:
                raise
            except Exception as problem:
                tell(Event(job.key, "failed", reason(problem)))
                for lost in graph.failed(job.key):
                    tell(Event(lost.key, "blocked"))
            else:
                graph.done(job.key)
                tell(Event(job.key, "done"))
