"""Worker processes on dask, wherever they are: each gets one job at a time, and its death is judged here.

Dask is asked for one job on one worker. So workers may come and go, a job that waits is never blamed for what another one did,
and whether a worker died of its job or was taken away is for the place it came from to say.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from corewood.errors import ClusterError, StoreError
from corewood.store.shared import appears
from corewood.store.store import META, Store, versions
from corewood.study import nodes
from corewood.study.engines.engine import LOOKED, Event, Graph, Tell, ended, free_first, reason
from corewood.study.engines.look import Facts, part_locks, sign, wanted_by
from corewood.study.engines.place import Place, Verdict
from corewood.study.job import Job
from corewood.study.kinds import KINDS
from corewood.study.ways.l0 import alike

TICK = 1.0  # seconds between two looks at who is there
LIMITS = {"died": 3, "memory": 2, "walltime": 3, "left": 20}  # how often a job may be lost in each way, without getting on
BESIDE = 15  # searches at the most that one worker begins beside its own


class Dask:
    """Jobs on the workers of a place."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def bfloat16(self) -> bool:
        return self.place.bfloat16()

    def run(self, jobs: Sequence[Job], store: Store, tell: Tell) -> None:
        quiet_dask()
        with sign(store) as name, self.place.open(jobs, store) as client:
            client.subscribe_topic("corewood", lambda message: tell(Event(**message[1]["event"])))
            Run(Graph(jobs), store, tell, self.place, client, name).to_the_end()


@dataclass
class Lost:
    """A job whose worker is gone, until it is known why."""

    job: Job
    worker: Facts
    since: float


@dataclass
class Run:
    graph: Graph
    store: Store
    tell: Tell
    place: Place
    client: Any
    sign: str
    ended: SimpleQueue[Any] = field(default_factory=SimpleQueue)  # futures
    looking: dict[str, Any] = field(default_factory=dict)  # address -> future of what the worker says of itself
    workers: dict[str, Facts] = field(default_factory=dict)  # address -> those that may have jobs
    useless: dict[str, str] = field(default_factory=dict)  # address -> why it may not
    busy: dict[str, tuple[Job, Any]] = field(default_factory=dict)  # address -> what it does, and its future
    lost: list[Lost] = field(default_factory=list)
    losses: dict[str, Counter[str]] = field(default_factory=dict)  # key -> how often, in which way
    reached: dict[str, tuple[object, ...]] = field(default_factory=dict)  # key -> its saved state when it was last lost
    ahead: set[str] = field(default_factory=set)  # searches that a worker was told to begin beside another
    begun: bool = False
    looked_at: float = 0.0
    last_seen: float = field(default_factory=time.monotonic)  # when there was a worker
    said: str = ""

    def to_the_end(self) -> None:
        self.wanted = wanted_by(self.graph.waiting.values())
        while self.graph.waiting or self.busy or self.lost:
            if time.monotonic() - self.looked_at >= TICK or not self.workers:
                self.look_around()
            self.hand_out()
            self.collect()

    # who is there

    def look_around(self) -> None:
        try:
            there = set(self.client.nthreads())
        except OSError as problem:
            raise ClusterError(
                f"the connection to the scheduler was lost ({problem}); finished jobs are kept, the same command goes on"
            ) from None
        self.looked_at = time.monotonic()
        new = there - {*self.looking, *self.workers, *self.useless}
        answers = self.client.run(nodes.present, workers=sorted(new), on_error="return") if new else {}
        for address, answer in answers.items():
            if isinstance(answer, ImportError) or "No module named" in str(answer):
                self.refuse(address, f"it cannot run corewood ({reason(answer)}); install the same corewood there")
            if answer is not True:
                continue  # it has gone again
            asked = (str(self.store.root), self.sign, self.wanted, self.place.patience)
            key = f"look-{address}-{time.time_ns()}"
            future = self.client.submit(nodes.look, *asked, workers=[address], key=key, pure=False)
            self.looking[address] = future
            future.add_done_callback(self.ended.put)
        for address in {*self.workers, *self.looking, *self.useless} - there:
            self.gone(address)
        self.judge()
        if self.workers or self.looking:
            self.last_seen = time.monotonic()
        elif time.monotonic() - self.last_seen > self.place.alone:
            waited = f"{self.place.alone / 60:.0f} minutes"
            raise ClusterError(f"no worker came within {waited}; start some, and run the same command again")
        self.place.need(len(self.graph.free) + len(self.busy) + len(self.lost), list(self.workers.values()), self.busy)
        standing = self.place.standing(len(self.workers))
        if standing != self.said:
            self.said = standing
            self.tell(Event("", "workers", standing))

    def gone(self, address: str) -> None:
        self.looking.pop(address, None)
        self.useless.pop(address, None)
        facts = self.workers.pop(address, None)
        if facts is not None and address in self.busy:
            job, future = self.busy.pop(address)
            future.cancel()
            self.lost.append(Lost(job, facts, time.monotonic()))

    def welcome(self, address: str, future: Any) -> None:
        """A newcomer has answered; or it cannot."""
        if future.status != "finished":
            problem = future.exception() if future.status == "error" else None
            if problem is not None and type(problem).__name__ != "KilledWorker":
                self.refuse(address, f"it cannot run corewood ({reason(problem)}); install the same corewood there")
            return
        facts = Facts(**future.result())
        amiss = facts.problem or different(facts.versions)
        if amiss:
            self.refuse(address, amiss)
            return
        if facts.locks_apart:
            part_locks(self.store)
            self.tell(Event("", "note", f"{facts.host}: locks do not keep hosts apart in this file system; leases are used"))
        self.workers[address] = facts

    def refuse(self, address: str, why: str) -> None:
        """Before work begins nothing may be amiss; later, the others go on."""
        if not self.begun:
            raise ClusterError(f"the worker at {address}: {why}")
        self.useless[address] = why
        self.tell(Event("", "note", f"the worker at {address} is left aside: {why}"))

    # what they do

    def hand_out(self) -> None:
        if not self.begun:
            if self.looking or not self.workers:
                return
            self.begun = True
        free = [facts for address, facts in self.workers.items() if address not in self.busy]
        if not free or not self.graph.free:
            return
        with_gpu = any(facts.gpu for facts in self.workers.values())
        without = not all(facts.gpu for facts in self.workers.values())
        wanting: dict[bool, list[Facts]] = {gpu: [facts for facts in free if facts.gpu == gpu] for gpu in (True, False)}
        ready = self.graph.ready(None if with_gpu and without else len(free) + LOOKED)
        for job in free_first(ready, self.store):
            gpu = with_gpu and (wants_gpu(job) or not without)
            if wanting[gpu]:
                self.start(job, wanting[gpu].pop(0))
            if not any(wanting.values()):
                return

    def start(self, job: Job, facts: Facts) -> None:
        self.graph.take(job)
        tries = sum(self.losses.get(job.key, Counter()).values())
        asked = (job.plain(), str(self.store.root), self.place.patience, self.beside(job) if facts.gpu else [])
        key = f"{job.key}-{tries}-{time.time_ns()}"
        future = self.client.submit(nodes.do, *asked, workers=[facts.address], key=key, pure=False)
        self.busy[facts.address] = job, future
        future.add_done_callback(self.ended.put)

    def beside(self, job: Job) -> list[dict[str, Any]]:
        """Searches that wait and may share batches with this one; each is named to one worker."""
        gpus = sum(facts.gpu for facts in self.workers.values())
        ready = self.graph.ready()[::-1]  # the last first: others are about to get the first
        waiting = [other for other in ready if other.key not in self.ahead and alike(job, other)]
        chosen = waiting[: len(waiting) // gpus][:BESIDE]
        self.ahead |= {other.key for other in chosen}
        return [other.plain() for other in chosen]

    def collect(self) -> None:
        """What has ended, or nothing within a tick."""
        try:
            self.settle(self.ended.get(timeout=TICK))
        except Empty:
            return
        while not self.ended.empty():
            self.settle(self.ended.get())

    def settle(self, future: Any) -> None:
        address = next((address for address, one in self.looking.items() if one is future), None)
        if address is not None:
            del self.looking[address]
            self.welcome(address, future)
            return
        address = next((address for address, (_, one) in self.busy.items() if one is future), None)
        if address is None or future.status not in ("finished", "error"):
            return  # its worker is gone, and known to be
        problem = future.exception() if future.status == "error" else None
        if type(problem).__name__ == "KilledWorker":
            self.gone(address)
            return
        job, _ = self.busy.pop(address)
        if isinstance(problem, StoreError):
            raise problem
        why = "" if problem is None else reason(problem)
        if not why and not appears(self.store.folder(job.kind, job.key) / META, self.place.patience):
            why = "its result is not seen in the store from here"
        ended(self.graph, job.key, self.tell, why)

    # whose fault it was

    def judge(self) -> None:
        there = list(self.workers.values())
        for lost in list(self.lost):
            verdict = self.place.verdict(lost.worker, there, time.monotonic() - lost.since)
            if verdict is not None:
                self.lost.remove(lost)
                self.decide(lost.job, verdict)

    def decide(self, job: Job, verdict: Verdict) -> None:
        """Again, on another worker; or, if it is lost in the same way again and again, a hole."""
        reached, counts = saved_state(self.store, job.key), self.losses.setdefault(job.key, Counter())
        if verdict.fault in ("walltime", "left") and reached and reached != self.reached.get(job.key):
            counts[verdict.fault] = 0  # it got on
        self.reached[job.key] = reached
        counts[verdict.fault] += 1
        if counts[verdict.fault] >= LIMITS[verdict.fault]:
            times = f"{counts[verdict.fault]} times"
            ended(self.graph, job.key, self.tell, f"{verdict.why} {times}; {self.place.advice(verdict.fault)}")
            return
        self.tell(Event("", "note", f"{job.title}: {verdict.why}; it is run again"))
        self.graph.give_back(job)


def wants_gpu(job: Job) -> bool:
    return not KINDS[job.kind].cpu and job.local.get("device") != "cpu"


def saved_state(store: Store, key: str) -> tuple[object, ...]:
    """What a job has saved to go on from, as it can be told apart."""
    files = sorted((store.root / "scratch" / key).rglob("*"))
    return tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file())


def different(theirs: dict[str, str]) -> str:
    """Which versions differ from those here; of torch, what it was built for may."""
    ours = {**versions(), "python": ".".join(versions()["python"].split(".")[:2])}
    for name, here in ours.items():
        there = theirs.get(name, "not there")
        if there.partition("+")[0] != here.partition("+")[0]:
            return f"it has {name} {there}, and here it is {here}; results would not be the same: install the same versions"
    return ""


def quiet_dask() -> None:
    """What dask has to say while a cluster closes is no news to a user; what goes wrong with a job is told by its event."""
    for name in [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "distributed"]:
        logging.getLogger(name).handlers.clear()
    logging.getLogger("distributed").addHandler(logging.NullHandler())
    logging.getLogger("distributed").propagate = False
