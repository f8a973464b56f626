"""What it costs to hand out jobs: with 1, 2 and 4 workers, jobs that only wait; and a plan of 10,000 jobs.

    .venv/bin/python bench/engine.py [--jobs N] [--seconds 0.1 1] [--plan 10000] [--study studies/demo.yaml]

A job here sleeps, so that cores do not matter: with W workers, J jobs of S seconds would take J S / W if handing them out cost
nothing. What they take longer is the overhead; per job and worker. With --study, its searches are run with one worker and with
two, on a store that has everything before them, and the ratio of the two times is given.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from corewood.cli.progress import Tally
from corewood.spec import read_study
from corewood.store.store import Store
from corewood.study.engines import Event
from corewood.study.engines.engine import Graph, ended
from corewood.study.engines.local import Workers
from corewood.study.job import Job
from corewood.study.plan import make_plan
from corewood.study.run import state_of, store_data

SLEEP = """
import time
from dataclasses import replace
from corewood.study.kinds import KINDS
def do(work):
    time.sleep(work.job.params["seconds"])
    return {}
KINDS["encode"] = replace(KINDS["encode"], do=do)
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40, help="for each number of workers")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--plan", type=int, default=10_000, help="jobs of the large plan")
    parser.add_argument("--study", type=Path, help="also measure the searches of this one")
    return parser.parse_args()


def sleepers(count: int, seconds: float) -> list[Job]:
    return [Job("encode", f"{place:032x}", f"sleep {place}", {"seconds": seconds}, {}) for place in range(count)]


def hand_out(workers: int, jobs: list[Job]) -> float:
    """Seconds from the first start to the last end: starting processes is not counted."""
    times: list[float] = []

    def tell(event: Event) -> None:
        if event.state in ("started", "done"):
            times.append(time.perf_counter())

    import dask

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sleep.py").write_text(SLEEP)
        with dask.config.set({"distributed.worker.preload": [str(Path(folder) / "sleep.py")]}):
            Workers(workers, ()).run(jobs, Store(Path(folder) / "store"), tell)
    return max(times) - min(times)


def small_jobs(given: argparse.Namespace) -> None:
    print(f"{'workers':>7} {'seconds':>7} {'jobs/s':>7} {'overhead':>9}   (milliseconds per job)")
    for seconds in given.seconds:
        for workers in given.workers:
            jobs = max(workers, round(given.jobs * min(1.0, 0.2 / seconds)))
            took = hand_out(workers, sleepers(jobs, seconds))
            overhead = 1000 * (took * workers / jobs - seconds)
            print(f"{workers:7} {seconds:7.1f} {jobs / took:7.1f} {overhead:9.1f}", flush=True)


def large_plan(count: int) -> None:
    """Layers of jobs, each needing three of the layer before; the main process alone."""
    width = max(1, count // 10)
    jobs: list[Job] = []
    for place in range(count):
        before = range(max(0, place - width - 2), place - width + 1) if place >= width else ()
        needs = {str(other): ("encode", jobs[other].key) for other in before}
        jobs.append(Job("encode", f"{place:032x}", f"job {place}", {}, needs))
    start = time.process_time()
    graph, tally = Graph(jobs), Tally()
    tally.start(jobs)

    def tell(event: Event) -> None:
        tally.note(jobs[graph.place[event.key]], event)
        tally.left()

    while ready := graph.ready(4):
        for job in ready:
            graph.take(job)
            tell(Event(job.key, "started"))
        for job in ready:
            ended(graph, job.key, tell)
    handed = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        plan: Any = type("Made", (), {"jobs": {job.key: job for job in jobs}})()
        state_of(plan, Store(folder))
        looked = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} jobs: {handed:.2f} s of CPU to hand all of them out and tell how long it takes, {looked:.2f} s to look at the"
    )
    print(f"store; {peak:.0f} MB at the most, of which torch and the like are most")


def searches(study: Path) -> None:
    """Time of a study's searches with two workers against one; everything before them is done first."""
    spec = read_study(study)
    plan = make_plan(spec, study.parent)
    with tempfile.TemporaryDirectory() as folder:
        first = Store(Path(folder) / "first")
        store_data(plan, first)
        kinds = [job for job in plan.jobs.values() if job.kind == "search"]
        needed = [job for job in plan.jobs.values() if job.kind in ("encode", "fine_tune", "reference")]
        Workers(2, ()).run(needed, first, lambda event: None)
        times = {}
        for workers in (1, 2):
            store = Store(Path(folder) / str(workers))
            shutil.copytree(first.root, store.root)
            began: list[float] = []

            def tell(event: Event, began: list[float] = began) -> None:
                began.append(time.perf_counter())

            Workers(workers, ()).run([replace(job) for job in kinds], store, tell)
            times[workers] = began[-1] - began[0]
    print(f"{len(kinds)} searches: {times[1]:.0f} s with one worker, {times[2]:.0f} s with two: {times[1] / times[2]:.2f}x")


def main() -> None:
    given = arguments()
    large_plan(given.plan)
    small_jobs(given)
    if given.study is not None:
        searches(given.study)


if __name__ == "__main__":
    main()
