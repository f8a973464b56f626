"""Processes on this machine, and the one that workers fork from: it imports once what each of them would import for seconds.

Nothing heavy is imported here: a command begins that process before it imports anything itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
STARTED_WITH = {**ONE_THREAD, "PYTHONSAFEPATH": "1"}  # files of the current folder are not imported
IMPORTED = ["distributed", "transformers.modeling_utils", "corewood.study.engines.look"]
FORKED_FROM: dict[str, str] = {}  # the environment in which the process that workers fork from was begun
GPUS = ("/dev/nvidiactl", "/dev/kfd")  # where there is one, workers are not forked


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Begin a process that imports what workers need, for them to fork from; there is one until this process ends. False where
    it cannot be had, or has what has been taken from the environment since."""
    if sys.platform != "linux" or FORKED_FROM.keys() - os.environ.keys():  # elsewhere imports may not survive it
        return False
    if not FORKED_FROM:
        FORKED_FROM.update(os.environ)
    multiprocessing.set_forkserver_preload(IMPORTED)
    try:
        forkserver.ensure_running()
    except OSError:  # its socket's path is too long, or sockets cannot be made where temporary files go
        return False
    return True


def begin_imports(workers: int | None) -> None:
    """What workers import, begun while this process imports the same; nothing where there will be none, or with GPUs."""
    if workers != 1 and cores() > 1 and not any(Path(device).exists() for device in GPUS):
        with environment_of(STARTED_WITH), deaf_to_ctrl_c():
            can_fork()


@contextmanager
def environment_of(workers: Mapping[str, str]) -> Iterator[None]:
    """As processes are to find it at their start: libraries look at it once. Dask leaves more in it than it takes away."""
    before = {**os.environ}
    os.environ.update(workers)
    try:
        yield
    finally:
        for key in os.environ.keys() - before.keys():
            del os.environ[key]
        os.environ.update(before)


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are begun inside inherit it: a Ctrl-C is for this process, which then closes them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
