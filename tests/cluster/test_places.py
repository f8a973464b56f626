"""Who gets which device and which job, what is made of a death, and what batch systems say: no process is started."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small

from corewood.errors import ClusterError, InputError, StudyError
from corewood.spec.cluster import Cluster, read_cluster, seconds_of, write_template
from corewood.store.store import Store
from corewood.study.engines import Event, Inline, queues
from corewood.study.engines import local as local_place
from corewood.study.engines.batch import Batch, Held
from corewood.study.engines.dask import Run
from corewood.study.engines.engine import Graph
from corewood.study.engines.local import Local
from corewood.study.engines.look import Facts, wanted_by
from corewood.study.engines.place import Verdict
from corewood.study.engines.queues import Seen
from corewood.study.entries import read_masks
from corewood.study.job import Job, Work
from corewood.study.plan import make_plan
from corewood.study.run import store_data
from corewood.study.ways.l0 import alike, search_ahead

FACTS = Facts("tls://a", "a", "tls://nanny-a", "host", False, "CPU", "", False, {}, "", False)
MASK, SEARCH = Job("tickets", "t", "draw", {}, {}, {"device": "auto"}), Job("search", "s", "search", {}, {}, {"device": "auto"})
ON_CPU = Job("search", "c", "search", {}, {}, {"device": "cpu"})


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_place, "cores", lambda: 4)


def visible(count: int | None, devices: Sequence[str], jobs: Sequence[Job]) -> list[str | None]:
    return [worker.get("CUDA_VISIBLE_DEVICES") for worker in Local(count, tuple(devices)).workers(jobs)]


def test_one_worker_for_each_gpu_and_others_beside() -> None:
    many = [SEARCH] * 20 + [MASK] * 20
    assert visible(None, ["0", "1"], many) == ["0", "1", "", ""]  # four cores
    assert visible(None, ["0", "1", "2", "3"], many) == ["0", "1", "2", "3", ""]
    assert visible(None, ["GPU-77", "5"], [SEARCH] * 9) == ["GPU-77", "5"]  # nothing for a CPU to do
    assert visible(None, ["0", "1"], [MASK] * 9) == [""] * 4
    assert visible(None, ["0", "1"], [ON_CPU] * 9) == [""] * 4
    assert visible(4, ["0", "1"], many) == ["0", "1", "0", "1"]  # asked for
    assert visible(None, [], many) == [None] * 4
    assert visible(3, [], many) == [None] * 3
    named = replace(SEARCH, local={"device": "cuda:1"})
    assert visible(None, ["0", "1"], [named] * 4) == ["1"]


class Client:
    """Takes jobs and does nothing."""

    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []  # job, worker
        self.beside: list[list[str]] = []

    def nthreads(self) -> dict[str, int]:
        return {}

    def submit(self, _do: Any, content: dict[str, Any], *more: Any, workers: list[str], **__: Any) -> Any:
        self.given.append((content["key"], workers[0]))
        self.beside.append([other["key"] for other in more[-1]])
        return SimpleNamespace(add_done_callback=lambda _: None, cancel=lambda: None, status="pending")


def a_run(tmp_path: Path, jobs: Sequence[Job], workers: Sequence[Facts], place: Any = None) -> tuple[Run, list[Event]]:
    events: list[Event] = []
    run = Run(Graph(jobs), Store(tmp_path), events.append, place or Local(2), Client(), "sign")
    run.workers = {facts.address: facts for facts in workers}
    return run, events


def test_jobs_go_to_the_device_they_want(tmp_path: Path) -> None:
    gpu, cpu = replace(FACTS, gpu=True, address="gpu"), replace(FACTS, address="cpu")
    jobs = [replace(kind, key=f"{kind.key}{n}") for n in range(2) for kind in (SEARCH, MASK)]
    run, _ = a_run(tmp_path, jobs, [cpu, gpu])
    run.hand_out()
    assert run.client.given == [("s0", "gpu"), ("t0", "cpu")]
    run, _ = a_run(tmp_path, jobs, [gpu])
    run.hand_out()
    assert run.client.given == [("s0", "gpu")]  # a GPU alone does everything, in order
    run, _ = a_run(tmp_path, jobs, [cpu, replace(cpu, address="cpu2")])
    run.hand_out()
    assert run.client.given == [("s0", "cpu"), ("t0", "cpu2")]


@pytest.mark.parametrize(("fault", "most"), [("died", 3), ("memory", 2), ("walltime", 3), ("left", 20)])
def test_a_job_that_is_lost_again_and_again_is_a_hole(tmp_path: Path, fault: Any, most: int) -> None:
    run, events = a_run(tmp_path, [SEARCH], [])
    for time_lost in range(1, most + 1):
        run.graph.take(run.graph.ready(1)[0])
        run.decide(SEARCH, Verdict(fault, "its worker went"))
        assert ("failed" in [event.state for event in events]) == (time_lost == most)
    assert events[-1].detail.startswith(f"its worker went {most} times; ")


def test_a_search_longer_than_its_walltime_goes_on_as_long_as_it_gets_on(tmp_path: Path) -> None:
    run, events = a_run(tmp_path, [SEARCH], [])
    scratch = Store(tmp_path).scratch("s")
    for step in range(12):
        (scratch / "state.safetensors").write_text("x" * step)
        run.graph.take(run.graph.ready(1)[0])
        run.decide(SEARCH, Verdict("walltime", "its job in the queue reached its walltime"))
    assert {event.state for event in events} == {"note"}
    for _ in range(2):
        run.graph.take(run.graph.ready(1)[0])
        run.decide(SEARCH, Verdict("walltime", "its job in the queue reached its walltime"))
    assert events[-1].state == "failed"


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Batch:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    return Batch(Cluster(system="slurm", jobs="1:3"))


@pytest.mark.parametrize(
    ("how", "fault", "why"),
    [
        ("TIMEOUT", "walltime", "reached its walltime"),
        ("OUT_OF_MEMORY", "memory", "took more memory than it asked for"),
        ("CANCELLED", "left", "was cancelled"),
        ("PREEMPTED", "left", "was preempted"),
        ("NODE_FAIL", "left", "lost its node"),
        ("FAILED", "died", "ended (FAILED)"),
    ],
)
def test_the_queue_says_whose_fault_it_was(batch: Batch, how: str, fault: str, why: str) -> None:
    assert batch.verdict(FACTS, [], 5.0) is None  # the queue has not said yet
    batch.ended["a"] = how
    assert batch.verdict(FACTS, [], 5.0) == Verdict(fault, f"its job in the queue {why}")  # type: ignore[arg-type]


def test_a_worker_that_came_back_in_the_same_job_had_died(batch: Batch) -> None:
    again = replace(FACTS, address="tls://b")
    assert batch.verdict(FACTS, [again], 1.0) == Verdict("died", "its worker process was killed")


def test_jobs_of_the_queue_follow_the_work(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("corewood.study.engines.batch.call", lambda words: calls.append(list(words)) or "")
    monkeypatch.setattr("corewood.study.engines.batch.submit", lambda *_: str(len(batch.held)))
    monkeypatch.setattr(batch, "script", lambda name: (SimpleNamespace(submit_command="", job_id_regexp=""), ""))
    batch.need(10, [], ())
    batch.adjust()
    assert len(batch.held) == 3
    names = list(batch.held)
    batch.held[names[0]].seen = batch.held[names[1]].seen = Seen("running")
    there = [replace(FACTS, name=name, address=name) for name in names[:2]]
    batch.need(2, there, names[:2])
    batch.adjust()
    assert list(batch.held) == names[:2]  # what still waited
    batch.need(1, there, names[:1])
    batch.adjust()
    assert list(batch.held) == names[:2]  # idle for no time yet
    batch.held[names[1]].idle_since = time.monotonic() - 60
    batch.adjust()
    assert list(batch.held) == names[:1]
    assert calls == [["scancel", "2"], ["scancel", "1"]]
    assert batch.standing(1) == "1 running, 0 pending in the queue"
    batch.held["x"] = Held("9", "x", Seen("pending", "Resources"))
    assert batch.standing(1) == "1 running, 1 pending in the queue (Resources)"


def test_a_refusal_in_the_middle_of_a_run_leaves_those_there_at_work(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def refused() -> None:
        looks.append(len(looks))
        if len(looks) == 7:
            batch.held.clear()  # the last of them is gone
        raise ClusterError("sbatch: error: Job violates accounting/QOS policy")

    monkeypatch.setattr(batch, "see", lambda: None)
    monkeypatch.setattr(batch, "adjust", refused)
    monkeypatch.setattr(batch.stop, "wait", lambda _: False)
    batch.held["x"] = Held("1", "x")
    batch.keep()
    assert len(looks) == 7
    with pytest.raises(ClusterError, match="QOS policy"):
        batch.standing(0)


def test_a_limit_of_the_site_leaves_those_that_were_let_in(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in: list[str] = []

    def submit(*_: object) -> str:
        if len(let_in) == 2:
            raise ClusterError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        let_in.append(str(len(let_in) + 1))
        return let_in[-1]

    batch.wanted = 3
    monkeypatch.setattr(batch, "script", lambda _name: (SimpleNamespace(submit_command="", job_id_regexp=""), ""))
    monkeypatch.setattr("corewood.study.engines.batch.submit", submit)
    batch.begin()
    assert [held.number for held in batch.held.values()] == ["1", "2"]
    batch.held.clear()
    with pytest.raises(ClusterError, match="QOSMaxSubmitJobPerUserLimit"):
        batch.begin()


def test_a_job_that_pbs_has_forgotten_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As qstat does it: what it knows, an error for what it does not, and an exit code."""
    command = tmp_path / "qstat"
    command.write_text('#!/bin/sh\necho "Job Id: 12.server\n    job_state = R"\necho "qstat: $SAID 11.server" >&2\nexit 153\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", "Unknown Job Id")
    assert queues.pbs(["11", "12"]) == {"12": Seen("running")}
    monkeypatch.setenv("SAID", "cannot connect to server")
    with pytest.raises(ClusterError, match="cannot connect"):
        queues.pbs(["11", "12"])


def test_a_queue_may_be_long_but_a_scheduler_without_workers_is_told(tmp_path: Path, batch: Batch) -> None:
    for place in (Local(2), batch):
        run, _ = a_run(tmp_path, [SEARCH], [], place)
        run.wanted = wanted_by([SEARCH])
        run.look_around()
        run.last_seen -= 3 * 3600
        if place is batch:
            run.look_around()
        else:
            with pytest.raises(ClusterError, match="no worker came within 10 minutes"):
                run.look_around()


PBS = """Job Id: 12.server
    Job_Name = corewood
    job_state = R
Job Id: 13.server
    job_state = F
    Exit_status = -29
Job Id: 14.server
    job_state = Q
"""
SGE = """job-ID  prior   name       user         state submit/start at     queue            slots ja-task-ID
------------------------------------------------------------------------------------------------
     21 0.555 corewood   me           r     11/17/2026 10:00:00 all.q@n1             1
     22 0.000 corewood   me           qw    11/17/2026 10:00:00                      1
"""


def test_what_batch_systems_say() -> None:
    slurm = queues.read_slurm("1|PENDING|Resources\n2|RUNNING|None\n3|TIMEOUT|TimeLimit\n4|COMPLETING|None\n")
    assert slurm == {
        "1": Seen("pending", "Resources"),
        "2": Seen("running"),
        "3": Seen("ended", "TIMEOUT"),
        "4": Seen("running"),
    }
    assert queues.read_pbs(PBS) == {"12": Seen("running"), "13": Seen("ended", "-29"), "14": Seen("pending")}
    assert queues.FAULTS["pbs"]["-29"] == "walltime"
    lsf = queues.read_lsf("31|RUN|-\n32|EXIT|TERM_RUNLIMIT: job killed\n33|PEND|-\n34|DONE|-\n")
    assert lsf["32"] == Seen("ended", "TERM_RUNLIMIT")
    assert (lsf["31"].state, lsf["33"].state, lsf["34"].state) == ("running", "pending", "ended")
    assert queues.read_sge(SGE) == {"21": Seen("running"), "22": Seen("pending", "qw")}


def test_what_a_queue_has_forgotten_was_out_of_time_where_its_time_was_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setitem(queues.QUEUES, "sge", lambda _ids: {})
    place = Batch(Cluster(system="sge", walltime="1h", poll=10.0))
    for name, minutes in (("long", 60), ("short", 5)):
        began = time.monotonic() - 60 * minutes
        place.held[name] = Held(name, name, Seen("running"), connected=True, running_since=began)
    place.see()
    place.see()  # twice not there
    assert place.ended == {"long": "TIMEOUT", "short": ""}
    verdicts = [place.verdict(replace(FACTS, name=name), [], 0.0) for name in place.ended]
    assert [verdict and verdict.fault for verdict in verdicts] == ["walltime", "died"]


@pytest.mark.parametrize("system", ["slurm", "pbs", "lsf", "sge"])
def test_the_template_is_a_file_and_its_script_names_our_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    write_template(tmp_path / "c.yaml", system)
    spec = read_cluster(tmp_path / "c.yaml", {"gpus": 1, "account": "us", "queue": "fast", "environment": "module load python"})
    assert (spec.system, spec.jobs, spec.seconds) == (system, (0, 8), 7200)
    place = Batch(spec)
    place.folder, place.address = tmp_path, "tls://10.0.0.1:4444"
    job, script = place.script("corewood-1")
    for part in (
        "--worker-class corewood.study.nodes.Worker",
        "--resources GPU=1",
        "module load python",
        "fast",
        "us",
        "tls://10",
    ):
        assert part in script
    assert "gpu" in script.split("export")[0]
    assert job.submit_command


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("system: slurn\n", "system"),
        ("system: slurm\nwaltime: 2h\n", r"waltime: unknown key. Did you mean 'walltime'\?"),
        ("system: slurm\nwalltime: 2 hours\n", "walltime: write a time as 2h, 90min, 1d or 02:00:00"),
        ("system: slurm\njobs: 0\n", "jobs: say how many jobs at the most, as 8"),
        ("system: slurm\njobs: 9:2\n", "jobs: say how many jobs at the most, as 8"),
        ("system: slurm\nwalltime: 5s\n", "whole minutes"),
        ("system: slurm\nmemory: lots\n", "memory: write an amount as 8GB or 500MB, not 'lots'"),
    ],
)
def test_mistakes_in_the_file_are_told_by_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(StudyError, match=said):
        read_cluster(tmp_path / "c.yaml")


def test_a_range_is_no_number_to_the_base_of_60(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("system: slurm\njobs: 2:16\nwalltime: 12:30:00\npoll: 1.5\ncores: 2\n")
    spec = read_cluster(tmp_path / "c.yaml")
    assert (spec.jobs, spec.seconds, spec.clock, spec.poll, spec.cores) == ((2, 16), 45_000, "12:30:00", 1.5, 2)


def test_an_account_may_be_a_number(tmp_path: Path) -> None:
    for given in ("12345", "089", "0123"):
        (tmp_path / "c.yaml").write_text(f"system: slurm\naccount: {given}\nqueue: {given}\n")
        spec = read_cluster(tmp_path / "c.yaml")
        assert (spec.account, spec.queue) == (given, given)


def test_options_that_do_not_go_together_are_told(tmp_path: Path) -> None:
    from corewood.cli.where import Where

    assert seconds_of("1d") == 86_400
    with pytest.raises(InputError, match="--jobs: are for a batch system"):
        Where(None, "tcp://host:1", {"jobs": "8"})
    with pytest.raises(InputError, match="--workers, --cluster"):
        Where(2, "slurm")
    with pytest.raises(InputError, match=r"no such file. Did you mean 'slurm'\?"):
        Where(None, "slurmm").batch()
    with pytest.raises(InputError, match="tcp://host:1: is there already; a plan says what to ask of a batch system"):
        Where(None, "tcp://host:1").batch()
    assert Where(None, "slurm", {"jobs": "2:16", "queue": "gpu", "gpus": 1, "walltime": None}).batch().jobs == (2, 16)


def test_searches_begun_in_shared_batches_give_the_same_masks(tmp_path: Path) -> None:
    path = small.write_study(tmp_path / "study")
    plan = make_plan(small.spec_of(path, "prune.l0.seeds=3", "prune.l0.sparsity=0.4", "fine_tune=null"), path.parent)
    alone, packed = Store(tmp_path / "alone"), Store(tmp_path / "packed")
    before = [job for job in plan.jobs.values() if job.kind in ("encode", "reference")]
    searches = [job for job in plan.jobs.values() if job.kind == "search"]
    assert [alike(searches[0], other) for other in searches] == [True] * 3
    store_data(plan, alone)
    Inline().run([*before, *searches], alone, lambda event: None)
    store_data(plan, packed)
    Inline().run(before, packed, lambda event: None)
    works = [Work(job, packed, Path(), lambda done, total: None) for job in searches]
    assert search_ahead(works) == 0  # on a CPU
    with packed.claim(searches[2].key):
        assert search_ahead(works, pack=3) == 2  # another process has the third
    assert search_ahead(works, pack=3) == 1
    Inline().run(searches, packed, lambda event: None)
    for job in searches:
        one, other = (read_masks(store.get(job.kind, job.key))[0] for store in (alone, packed))
        assert one == other


def test_a_gpu_begins_searches_that_wait_beside_its_own(tmp_path: Path) -> None:
    gpus = [replace(FACTS, gpu=True, address=name) for name in ("a", "b")]
    jobs = [replace(SEARCH, key=f"s{n}", params={"seed": n, "settings": {}}) for n in range(8)]
    jobs.append(replace(SEARCH, key="other", params={"seed": 0, "settings": {"steps": 3}}))
    run, _ = a_run(tmp_path, jobs, gpus)
    run.hand_out()
    assert [key for key, _ in run.client.given] == ["s0", "s1"]
    assert run.client.beside == [["s7", "s6", "s5"], ["s4"]]


def test_precision_is_part_of_keys_only_where_it_is_not_float32(tmp_path: Path) -> None:
    path = small.write_study(tmp_path / "study")
    plain = make_plan(small.spec_of(path), path.parent, False)
    gpu = make_plan(small.spec_of(path), path.parent, True)
    assert plain.jobs.keys() == make_plan(small.spec_of(path, "model.precision=float32"), path.parent, True).jobs.keys()
    shared = {plain.jobs[key].kind for key in plain.jobs.keys() & gpu.jobs.keys()}
    assert shared == {"encode", "fine_tune"}
    assert {job.params["precision"] for key, job in gpu.jobs.items() if key not in plain.jobs} == {"bfloat16"}
    assert any("model.precision: bfloat16" in note for note in gpu.notes)
