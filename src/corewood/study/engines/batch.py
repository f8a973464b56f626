"""A batch system: a scheduler here, and a keeper that sees to it that there are as many jobs in the queue as there is work.

dask-jobqueue writes the job scripts, for every system it knows. Its clusters are not used: they never notice a job that dies
before its worker connects, and do not say why a worker is gone.
"""

from __future__ import annotations

import logging
import math
import re
import shlex
import shutil
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corewood.errors import ClusterError
from corewood.spec.cluster import Cluster
from corewood.store.store import Store
from corewood.study.engines.dask import Dask
from corewood.study.engines.look import Facts
from corewood.study.engines.place import Fault, Verdict
from corewood.study.engines.queues import FAULTS, QUEUES, SLURM_NEVER, WORDS, Seen, call, submit
from corewood.study.job import Job

STILLBORN = 3  # jobs in a row that end before their workers connect
OUTSIDE = 10  # the same, where someone else ended them
REFUSALS = 5  # in a row, with no job left, that end a run
SETTLE = 30.0  # seconds for the queue to say that a job has ended whose worker is gone
REMOVALS = 20  # tries, a quarter of a second apart
IDLE = 20.0  # seconds that a worker may have nothing to do before it is given back
LOG = 15  # last lines of a job's log
NAME = "corewood"


@dataclass
class Held:
    """One of our jobs in the queue."""

    number: str
    name: str  # of its worker
    seen: Seen = field(default_factory=lambda: Seen("pending"))
    connected: bool = False
    running_since: float | None = None
    idle_since: float | None = None
    missed: int = 0  # looks at the queue in which it was not there


class Batch:
    """Workers from a batch system."""

    patience, alone = 60.0, math.inf  # a queue may be long

    def __init__(self, spec: Cluster) -> None:
        if shutil.which("sbatch" if spec.system == "slurm" else "bsub" if spec.system == "lsf" else "qsub") is None:
            raise ClusterError(f"--cluster {spec.system}: its commands are not found here; run this where jobs are submitted")
        self.spec = spec
        self.held: dict[str, Held] = {}  # name of the worker -> its job
        self.ended: dict[str, str] = {}  # name of the worker -> how its job ended
        self.wanted = 0
        self.early: Counter[bool] = Counter()  # jobs in a row that ended before they connected: by their own fault, or not
        self.problem: ClusterError | None = None
        self.refused = 0  # looks in a row at which no job could be submitted
        self.lock = threading.RLock()
        self.stop = threading.Event()

    def bfloat16(self) -> bool:
        return self.spec.gpus > 0  # workers whose GPUs lack it are refused before work begins

    @contextmanager
    def open(self, jobs: Sequence[Job], store: Store) -> Iterator[Any]:
        import dask
        from distributed import Client, SpecCluster
        from distributed.utils import get_ip

        from corewood.study.nodes import SETTINGS, certified, scheduler_at

        security = certified()
        with ExitStack() as stack:
            self.folder = stack.enter_context(own_folder(store))
            for name, content in (("ca", security.tls_ca_file), ("key", security.tls_worker_key)):
                (self.folder / name).touch(0o600)
                (self.folder / name).write_text(content, encoding="utf-8")
            stack.enter_context(dask.config.set(SETTINGS))
            scheduler = scheduler_at(self.spec.host or get_ip(), security)
            try:
                cluster = stack.enter_context(SpecCluster({}, scheduler, security=security, silence_logs=logging.CRITICAL))
            except RuntimeError as problem:
                address = f"host: {self.spec.host}: no address of this machine" if self.spec.host else "no address of its own"
                raise ClusterError(
                    f"{address} that nodes could reach can be opened ({problem}); set host in its file"
                ) from None
            self.address = cluster.scheduler_address
            client = stack.enter_context(Client(cluster, set_as_default=False))
            stack.callback(self.give_all_back)
            there = {job.key for job in jobs}
            ready = sum(there.isdisjoint(job.needs()) for job in jobs)
            self.wanted = max(1, min(self.spec.jobs[1], max(ready, self.spec.jobs[0])))
            self.begin()
            keeper = threading.Thread(target=self.keep, name="keeper of the queue", daemon=True)
            keeper.start()
            stack.callback(keeper.join)
            stack.callback(self.stop.set)
            yield client

    def script(self, name: str) -> tuple[Any, str]:
        """(the job as dask-jobqueue has it, its script)"""
        import dask
        from dask_jobqueue import lsf, pbs, sge, slurm
        from distributed.security import Security

        from corewood.study.nodes import SETTINGS
        from corewood.study.processes import ONE_THREAD

        spec, kinds = self.spec, {"slurm": slurm.SLURMJob, "pbs": pbs.PBSJob, "lsf": lsf.LSFJob, "sge": sge.SGEJob}
        gpu = {"slurm": ["--gres=gpu:1"], "pbs": ["-l ngpus=1"], "lsf": ['-gpu "num=1"'], "sge": ["-l gpu=1"]}
        inherited = dask.config.serialize(SETTINGS)
        lines = [f"export {key}={value}" for key, value in ONE_THREAD.items()]
        lines += [f"export DASK_INTERNAL_INHERIT_CONFIG={shlex.quote(inherited)}", *spec.environment]
        extra = ["--memory-limit", "0", "--no-dashboard", "--worker-class", "corewood.study.nodes.Worker"]
        extra += ["--resources", "GPU=1"] if spec.gpus else []
        role = {"ca_file": "ca", "worker_cert": "ca", "worker_key": "key"}
        security = Security(**{f"tls_{key}": str(self.folder / file) for key, file in role.items()}, require_encryption=True)
        job = kinds[spec.system](
            scheduler=self.address,
            name=name,
            job_name=NAME,
            queue=spec.queue,
            walltime=spec.clock if spec.system != "lsf" else spec.clock.rpartition(":")[0],
            cores=spec.cores,
            memory=spec.memory or "8GB",
            processes=1,
            protocol="tls://",
            security=security,
            death_timeout=60,
            local_directory="${TMPDIR:-/tmp}",
            worker_extra_args=extra,
            job_script_prologue=lines,
            job_extra_directives=[*(gpu[spec.system] if spec.gpus else []), *spec.directives],
            job_directives_skip=["--mem"] if spec.system == "slurm" and spec.memory is None else [],
            log_directory=str(self.folder),
            python=shlex.quote(str(Path(spec.python).expanduser()) if spec.python else sys.executable),
            **({"account" if spec.system in ("slurm", "pbs") else "project": spec.account} if spec.account else {}),
        )
        return job, job.job_script()

    def begin(self) -> None:
        """As many jobs as may be had. A refusal of the first is told at once, not a site's limit on how many there may be."""
        try:
            self.adjust()
        except ClusterError:
            if not self.held:
                raise

    # the keeper

    def keep(self) -> None:
        """Until told to stop: see what became of the jobs, and adjust their number."""
        while not self.stop.wait(self.spec.poll):
            try:
                self.see()
            except ClusterError as problem:
                self.problem = problem
                return
            try:
                self.adjust()
                self.refused = 0
            except ClusterError as problem:  # a limit of the site's, or a moment without an answer: those there go on
                self.refused += 1
                if not self.held and self.refused >= REFUSALS:
                    self.problem = problem
                    return

    def see(self) -> None:
        with self.lock:
            numbers = [held.number for held in self.held.values()]
        try:
            seen = QUEUES[self.spec.system](numbers)
        except ClusterError:
            return  # the queue does not answer now; what runs, runs on
        with self.lock:
            for held in list(self.held.values()):
                held.missed = 0 if held.number in seen else held.missed + 1
                held.seen = seen.get(held.number, held.seen)
                if held.seen.state == "running" and held.running_since is None:
                    held.running_since = time.monotonic()
                if held.seen.state == "ended" or held.missed > 1:
                    del self.held[held.name]
                    self.ended[held.name] = held.seen.why if held.seen.state == "ended" else self.unsaid(held)
                    if not held.connected:
                        self.never_came(held)
            stuck = [h.seen.why for h in self.held.values() if h.seen.state == "pending" and h.seen.why in SLURM_NEVER]
            if stuck and len(stuck) == len(self.held):
                raise ClusterError(f"{self.spec.system}: jobs wait for ever ({stuck[0]}); ask for what the queue can give")

    def unsaid(self, held: Held) -> str:
        """Why a job is gone of which the queue says nothing (SGE forgets at once): when its time was up, that was why."""
        ran = 0.0 if held.running_since is None else time.monotonic() - held.running_since
        return "TIMEOUT" if ran >= self.spec.seconds - 2 * self.spec.poll else ""

    def never_came(self, held: Held) -> None:
        """A job that ended before its worker connected."""
        outside = FAULTS[self.spec.system].get(self.ended[held.name]) == "left"
        self.early[outside] += 1
        if self.early[outside] >= (OUTSIDE if outside else STILLBORN):
            how = f"job {held.number} ended{f' ({self.ended[held.name]})' if self.ended[held.name] else ''}"
            raise ClusterError(
                f"{self.early[outside]} jobs in a row ended before their workers connected; {how}, and its log ends with:\n"
                f"{self.log_of(held.number)}\nPut right what it says (python, environment, host in the cluster's file), try it "
                "with corewood cluster check, and run the same command again"
            )

    def log_of(self, number: str) -> str:
        logs = [path for path in sorted(self.folder.iterdir()) if re.search(rf"(?<!\d){number}(?!\d)", path.name)]
        lines = [line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
        return "\n".join(f"  {line}" for line in lines[-LOG:]) or f"  (there is no log of it in {self.folder})"

    def adjust(self) -> None:
        """As many jobs as are wanted: more, or fewer of those that wait or have nothing to do."""
        with self.lock:
            surplus = len(self.held) - self.wanted
            now = time.monotonic()
            waiting = [held for held in self.held.values() if held.seen.state == "pending" and not held.connected]
            idle = [held for held in self.held.values() if held.idle_since is not None and now - held.idle_since > IDLE]
            for held in [*waiting[::-1], *idle][: max(0, surplus)]:
                self.cancel(held)
            for _ in range(-surplus):
                name = f"{NAME}-{uuid.uuid4().hex[:8]}"
                job, script = self.script(name)
                number = submit(job.submit_command, script, job.job_id_regexp)
                self.held[name] = Held(number, name)

    def cancel(self, held: Held) -> None:
        with suppress(ClusterError):  # it may be gone by now
            call([{"slurm": "scancel", "lsf": "bkill"}.get(self.spec.system, "qdel"), held.number])
        self.held.pop(held.name, None)
        self.ended[held.name] = "CANCELLED"

    def give_all_back(self) -> None:
        with self.lock:
            for held in list(self.held.values()):
                self.cancel(held)

    # as a place

    def need(self, jobs: int, there: Sequence[Facts], busy: Collection[str]) -> None:
        with self.lock:
            self.wanted = max(min(jobs, self.spec.jobs[1]), self.spec.jobs[0])
            idle = {facts.name: facts.address not in busy for facts in there}
            for held in self.held.values():
                held.idle_since = (held.idle_since or time.monotonic()) if idle.get(held.name) else None
                if held.name in idle and not held.connected:
                    held.connected = True
                    self.early.clear()

    def standing(self, workers: int) -> str:
        if self.problem is not None:
            raise self.problem
        with self.lock:
            pending = [held for held in self.held.values() if held.seen.state == "pending" and not held.connected]
            reasons = {held.seen.why for held in pending} - {"", "None"}
            starting = sum(held.seen.state == "running" and not held.connected for held in self.held.values())
        why = f" ({', '.join(sorted(reasons))})" if reasons else ""
        return f"{workers} running, {f'{starting} starting, ' if starting else ''}{len(pending)} pending in the queue{why}"

    def verdict(self, worker: Facts, there: Sequence[Facts], seconds: float) -> Verdict | None:
        with self.lock:
            if worker.name in self.ended:
                how = self.ended[worker.name]
                fault = FAULTS[self.spec.system].get(how, "died")
                return Verdict(fault, f"its job in the queue {WORDS.get(how, f'ended ({how})' if how else 'ended')}")
        if any(other.keeper == worker.keeper for other in there):  # the job is there, its worker was started again
            return Verdict("died", "its worker process was killed")
        return Verdict("left", "its worker went away") if seconds > SETTLE + 2 * self.spec.poll else None

    def advice(self, fault: Fault) -> str:
        if fault == "walltime":
            return f"it needs longer than {self.spec.walltime} at a stretch: ask for a longer walltime"
        if fault == "left":
            return "ask for jobs that are left in peace (another queue), or fewer of them"
        return "most likely for want of memory: ask for more (memory in the cluster's file), or use a smaller batch"


@contextmanager
def own_folder(store: Store) -> Iterator[Path]:
    """For certificates and logs, where nodes see it; what a killed run leaves is swept up after a day."""
    token = uuid.uuid4().hex
    folder = store.root / "tmp" / f"{token}-cluster"
    with store.claim(token):
        folder.mkdir(parents=True, mode=0o700)
        try:
            yield folder
        finally:
            for _ in range(REMOVALS):  # a job that was cancelled just now may still write its log
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
                time.sleep(0.25)
            (store.root / "locks" / token).unlink(missing_ok=True)


class InBatch(Dask):
    """Jobs on the workers of a batch system."""

    def __init__(self, spec: Cluster) -> None:
        super().__init__(Batch(spec))
