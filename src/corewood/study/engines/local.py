"""Worker processes on this machine: one per core, or one per GPU and some beside them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from corewood.errors import ClusterError, InputError
from corewood.model.precision import has_bfloat16
from corewood.store.store import Store
from corewood.study.engines.dask import Dask, wants_gpu
from corewood.study.engines.look import Facts
from corewood.study.engines.place import Fault, Verdict
from corewood.study.job import Job
from corewood.study.processes import ONE_THREAD, STARTED_WITH, can_fork, cores, deaf_to_ctrl_c, environment_of

HERE = "127.0.0.1"


def gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return tuple(named.split(",")[:count]) if named else tuple(map(str, range(count)))


def check_script() -> None:
    """Each worker imports the script that began this process, as Python's own processes do."""
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    if script and getattr(main, "__spec__", None) is None and not Path(script).exists():
        raise InputError(f"workers import the script that starts them; {script} is no file: put it in one, or use workers=1")


class Local:
    """`count` processes; without one, as many as there are GPUs and beside them one for each other core."""

    patience, alone = 0.0, 600.0

    def __init__(self, count: int | None, devices: tuple[str, ...] = ()) -> None:
        self.count, self.devices = count, devices

    def bfloat16(self) -> bool:
        return bool(self.devices) and has_bfloat16()

    def workers(self, jobs: Sequence[Job]) -> list[dict[str, str]]:
        """The environment of each: which GPU it has, if any. Never two on one GPU unless that many were asked for."""
        named = {str(job.local["device"]) for job in jobs if wants_gpu(job) and "device" in job.local}
        chosen = {int(name.partition(":")[2]) for name in named if ":" in name}
        devices = [device for place, device in enumerate(self.devices) if not chosen or place in chosen]
        if not any(map(wants_gpu, jobs)):
            devices = []
        if not devices:
            count = self.count or cores()
            return [{} if not self.devices else {"CUDA_VISIBLE_DEVICES": ""}] * min(count, len(jobs))
        if self.count is not None:
            return [{"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} for place in range(min(self.count, len(jobs)))]
        beside = max(1, cores() - len(devices)) if not all(map(wants_gpu, jobs)) else 0
        own = [{"CUDA_VISIBLE_DEVICES": device} for device in devices][: len(jobs)]
        return own + [{"CUDA_VISIBLE_DEVICES": ""}] * min(beside, len(jobs))

    @contextmanager
    def open(self, jobs: Sequence[Job], store: Store) -> Iterator[Any]:
        import dask
        from distributed import Client, Nanny, SpecCluster

        from corewood.study.nodes import SETTINGS, Worker, certified, scheduler_at

        security = certified()
        options = {"host": HERE, "nthreads": 1, "protocol": "tls://", "security": security, "worker_class": Worker}
        options |= {"memory_limit": None, "dashboard": False, "silence_logs": logging.CRITICAL}
        workers = {}
        for place, environment in enumerate(self.workers(jobs)):
            has = {"GPU": 1} if environment.get("CUDA_VISIBLE_DEVICES") else {}
            own = {**os.environ, **ONE_THREAD, **environment}
            workers[place] = {"cls": Nanny, "options": {**options, "env": own, "resources": has}}
        check_script()
        with ExitStack() as stack:
            stack.enter_context(environment_of(STARTED_WITH))
            with deaf_to_ctrl_c():
                forked = not self.devices and can_fork()
                begin: dict[str, Any] = {"distributed.nanny.pre-spawn-environ": ONE_THREAD}
                begin["distributed.worker.multiprocessing-method"] = "forkserver" if forked else "spawn"
                stack.enter_context(dask.config.set({**SETTINGS, **begin}))
                scheduler = scheduler_at(HERE, security)
                try:
                    cluster = SpecCluster(workers, scheduler, security=security, silence_logs=logging.CRITICAL)
                except RuntimeError as problem:
                    raise ClusterError(f"workers could not be started on this machine ({problem}); try workers=1") from None
            with cluster, Client(cluster, set_as_default=False) as client:
                yield client

    def need(self, jobs: int, there: Sequence[Facts], busy: Collection[str]) -> None:
        pass

    def standing(self, workers: int) -> str:
        return ""

    def verdict(self, worker: Facts, there: Sequence[Facts], seconds: float) -> Verdict | None:
        return Verdict("died", "its worker process was killed")

    def advice(self, fault: Fault) -> str:
        return "most likely for want of memory: use fewer workers (--workers 1) or a smaller batch"


class Workers(Dask):
    """Single-threaded processes on this machine."""

    def __init__(self, count: int | None = None, devices: tuple[str, ...] | None = None) -> None:
        super().__init__(Local(count, gpus() if devices is None else devices))
