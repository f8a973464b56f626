"""One job after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from corewood.errors import StoreError
from corewood.model.precision import has_bfloat16
from corewood.store.store import Store
from corewood.study.engines.engine import LOOKED, Event, Graph, Tell, ended, free_first, reason
from corewood.study.job import Job, execute


class Inline:
    def bfloat16(self) -> bool:
        return has_bfloat16()

    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        graph = Graph(jobs)
        threads = torch.get_num_threads()  # jobs have their own number; a notebook wants its own back
        try:
            while (job := next(free_first(graph.ready(LOOKED), store), None)) is not None:
                self.do(job, graph, store, tell)
        finally:
            torch.set_num_threads(threads)

    def do(self, job: Job, graph: Graph, store: Store, tell: Tell) -> None:
        graph.take(job)
        tell(Event(job.key, "started"))
        problem = ""
        try:
            if not execute(job, store, lambda done, total: tell(Event(job.key, "progress", "", done, total))):
                tell(Event(job.key, "found"))
        except StoreError:
            raise
        except Exception as raised:
            problem = reason(raised)
        ended(graph, job.key, tell, problem)
