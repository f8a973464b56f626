"""Run a study, or go on with it: plan, do what is missing, make the tables and the report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from corewood.errors import InputError, StoreError
from corewood.model.progress import Show, bar
from corewood.model.reference import Progress
from corewood.report.cells import write_csv
from corewood.report.page import write_report
from corewood.spec import StudySpec, read_study
from corewood.store.store import Entry, Store
from corewood.study.engines import Engine, Event, engine
from corewood.study.entries import write_data
from corewood.study.job import Job
from corewood.study.kinds import REPORT, TABLES
from corewood.study.models import Plan
from corewood.study.outcome import Outcome as Outcome
from corewood.study.plan import make_plan
from corewood.study.processes import cores
from corewood.study.questions import QUESTIONS
from corewood.study.results import Results, Tables


class Listener:
    """Whoever shows what is going on; this one is silent."""

    def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None: ...
    def say(self, line: str) -> None: ...
    def event(self, job: Job, event: Event) -> None: ...
    def workers(self, standing: str) -> None: ...


SILENT = Listener()
NOT_YET = "not run yet"


class Counting(Listener):
    """Tells how many of the jobs are done."""

    def __init__(self, tell: Progress) -> None:
        self.tell, self.total, self.done = tell, 0, 0

    def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None:
        self.total = len(missing)
        self.tell(0, self.total)

    def event(self, job: Job, event: Event) -> None:
        self.done += event.state in ("done", "failed", "blocked")
        self.tell(self.done, self.total)


def state_of(plan: Plan, store: Store) -> dict[str, str]:
    """Key -> done, missing, 'damaged: ...' or 'failed: ...'."""
    return {job.key: state_of_job(job, store) for job in plan.jobs.values()}


def state_of_job(job: Job, store: Store) -> str:
    if store.has(job.kind, job.key):
        damage = store.damage(job.kind, job.key, job.made_of)
        return f"damaged: {damage}" if damage else "done"
    if store.folder(job.kind, job.key).exists():
        return "damaged: meta.json is missing"
    failure = store.failure(job.key)
    return f"failed: {failure}" if failure else "missing"


def chosen(plan: Plan, only: Sequence[str]) -> dict[str, Job]:
    """The jobs whose title holds one of some words, and what they need; all of them without words."""
    found: dict[str, Job] = {}
    for words in only:
        named = [job for job in plan.jobs.values() if words.lower() in job.title.lower()]
        if not named:
            raise InputError(
                f"--only {words!r}: no job of {plan.spec.name} is called so; corewood plan STUDY.yaml --list names them all"
            )
        while named:
            job = named.pop()
            if job.key not in found:
                found[job.key] = job
                named += [plan.jobs[key] for key in job.needs() if key in plan.jobs]
    return {key: job for key, job in plan.jobs.items() if not only or key in found}


def holes_of(plan: Plan, store: Store) -> dict[str, str]:
    """Key -> why there is no result, for what is not done."""
    states = state_of(plan, store)
    return {key: NOT_YET if state == "missing" else state for key, state in states.items() if state != "done"}


def run(
    study: StudySpec | str | Path, store: str | Path = "corewood-store", workers: int = 1, progress: Show = True
) -> Outcome:
    """Run a study, or go on with it. `outcome.tables` are the tidy tables, `outcome.report` the folder of the report.

    `study` is a file or, with paths relative to the current folder, a `cw.StudySpec`; results are kept in the folder `store`,
    and what is there is not computed again.

    Example:
        >>> outcome = cw.run("study.yaml", store="store")
        >>> outcome.complete
        True
        >>> outcome.tables["spread"].columns.tolist()[3:6]
        ['target', 'dataset', 'case']
    """
    if not isinstance(study, (str, Path, StudySpec)):
        raise InputError(f"run: takes the path of a study file, or a cw.StudySpec(...), not {type(study).__name__}")
    spec, base = (study, Path()) if isinstance(study, StudySpec) else (read_study(study), Path(study).parent)
    with bar("run", progress) as tell:
        return run_study(spec, base, Store(store), engine(workers), Counting(tell))


def run_study(
    spec: StudySpec, base: Path, store: Store, engine: Engine, listener: Listener | None = None, only: Sequence[str] = ()
) -> Outcome:
    """Run what is missing, or those of it that `only` names. A failed job is a hole with a reason; the others go on."""
    show = listener or SILENT
    started = time.monotonic()
    plan = make_plan(spec, base, engine.bfloat16())
    mine = chosen(plan, only)
    store.check_writable()
    states = state_of(plan, store)
    for job in mine.values():
        if states[job.key].startswith("damaged"):
            show.say(f"{job.title}: its stored result is {states[job.key]}; it is computed again")
            store.discard_damaged(job.kind, job.key, job.made_of)
    missing = [job for job in mine.values() if states[job.key] != "done"]
    show.planned(plan, len(mine), missing)
    store_data(plan, store, show)
    reasons: dict[str, str] = {}
    found: set[str] = set()  # what another run on this store did

    def tell(event: Event) -> None:
        if not event.key:
            show.workers(event.detail) if event.state == "workers" else show.say(event.detail)
            return
        job = plan.jobs[event.key]
        if event.state == "found":
            found.add(job.key)
            return
        if event.state == "failed":
            reasons[job.key] = event.detail
            store.fail(job.key, event.detail)
        elif event.state == "blocked":
            lost = [plan.jobs[key].title for key in job.needs() if key in reasons]
            reasons[job.key] = f"needs {lost[0]}"
        elif event.state == "done":
            store.forget_failure(job.key)
            for note in store.get(job.kind, job.key).meta.get("notes", []):
                show.say(note)
        show.event(job, event)

    if missing:
        engine.run(missing, store, tell)
    left = {} if len(mine) == len(plan.jobs) else {key: why for key, why in holes_of(plan, store).items() if key not in mine}
    return finish(plan, store, {**reasons, **left}, show, started, len(missing) - len({*reasons, *found}))


def report_study(spec: StudySpec, base: Path, store: Store, listener: Listener | None = None) -> Outcome:
    """The report of what is done, without running anything."""
    started = time.monotonic()
    plan = make_plan(spec, base)
    holes = holes_of(plan, store)
    if len(holes) == len(plan.jobs):
        raise InputError(f"{store.root}: holds nothing of this study yet; run it first: corewood run STUDY.yaml")
    return finish(plan, store, holes, listener or SILENT, started)


def finish(plan: Plan, store: Store, holes: dict[str, str], listener: Listener, started: float, computed: int = 0) -> Outcome:
    """Tables and report; both are entries of the store like any other."""
    job = tables_job(plan, holes)
    tables = stored_tables(job, plan, store, holes, listener)
    report = stored_report(job, plan, store, tables, listener)
    return Outcome(plan, tables, report, store, holes, time.monotonic() - started, computed)


def tables_job(plan: Plan, holes: Mapping[str, str]) -> Job:
    every = {job.key: job for job in [*plan.data.values(), *plan.jobs.values()]}
    return Job.make(TABLES, "tables", asked(plan, holes), every)


def asked(plan: Plan, reasons: Mapping[str, str]) -> dict[str, object]:
    """What shapes the tables beside the jobs themselves."""
    rule = plan.spec.effective_size
    return {
        "study": plan.spec.name,
        "model": plan.spec.model.checkpoint,
        "rows": [[row.name, *row.facts().values(), row.place] for row in plan.rows],
        "metrics": {task.name: task.metric for task in plan.tasks.values()},
        # lists, for tables have the order of the study file
        "data": [
            [name, job.key] for name, job in plan.data.items()
        ],  # which task has which: jobs do not know their tasks' names
        "domains": [[plan.label(task.name, n), task.domain(n)] for task in plan.tasks.values() for n in task.datasets],
        "focus": [[name, *cases] for name, cases in plan.spec.focus.items()],  # the first counts where one is asked for
        "rule": rule.model_dump(mode="json") if rule else None,
        "holes": dict(reasons),
    }


def collect(plan: Plan, store: Store, holes: Mapping[str, str]) -> Tables:
    """All tables: one row a fact, nothing that depends on when or where it was computed. `holes` are by key."""
    results = Results(plan, store, holes)
    made = {name: table for question in QUESTIONS for name, table in question.tables(results).items()}
    tables = {name: table for name, table in made.items() if table is not None}
    rows = sorted((plan.jobs[key].title, reason) for key, reason in holes.items())
    return {**tables, "holes": pd.DataFrame(rows, columns=["job", "reason"]).astype(str)}


def store_data(plan: Plan, store: Store, listener: Listener = SILENT) -> None:
    for name, job in plan.data.items():
        if needs_making(job, store, listener):
            meta: dict[str, object] = {"title": job.title}
            with store.writing(job.kind, job.key, meta) as folder:
                meta |= write_data(plan.splits[name], folder)


def needs_making(job: Job, store: Store, listener: Listener) -> bool:
    """Whether an entry is missing or, after saying so, was damaged and taken out of the way."""
    if not store.folder(job.kind, job.key).exists():
        return True
    damage = store.damage(job.kind, job.key)
    if damage:
        listener.say(f"{job.kind}: the stored copy is damaged: {damage}; it is made again")
        store.discard_damaged(job.kind, job.key)
    return damage is not None


def stored_tables(job: Job, plan: Plan, store: Store, holes: dict[str, str], listener: Listener) -> Tables:
    if needs_making(job, store, listener):
        listener.say("tables: collecting")
        meta = {"title": "tables", "study": plan.spec.name, "labels": plan.mapping}
        with store.writing(job.kind, job.key, meta) as folder:
            for name, table in collect(plan, store, holes).items():
                table.to_parquet(folder / f"{name}.parquet", index=False)
                write_csv(table, folder / f"{name}.csv")
    return read_tables(store.get(job.kind, job.key))


def read_tables(entry: Entry) -> Tables:
    return {path.stem: pd.read_parquet(path) for path in entry.paths() if path.suffix == ".parquet"}


def stored_report(tables_job: Job, plan: Plan, store: Store, tables: Tables, listener: Listener) -> Path:
    about = provenance(plan, store)
    job = Job.make(REPORT, "report", {"about": about}, {"tables": tables_job})
    if needs_making(job, store, listener):
        listener.say("report: drawing")
        with store.writing(job.kind, job.key, {"title": "report", "study": plan.spec.name}) as folder:
            write_report(tables, about, folder, cores())
            (folder / "tables").mkdir()
            for path in store.get(tables_job.kind, tables_job.key).paths():
                shutil.copyfile(path, folder / "tables" / path.name)
    return store.folder(job.kind, job.key)


def provenance(plan: Plan, store: Store) -> dict[str, object]:
    """What the report says about where it comes from."""
    spec, notes, seconds = plan.spec, [*plan.notes], 0.0
    versions: dict[str, str] = {}
    for job in plan.jobs.values():
        try:
            meta = store.get(job.kind, job.key).meta
        except StoreError:  # a hole, and told as one
            continue
        notes += meta.get("notes", [])
        seconds += meta.get("seconds", 0.0)
        versions |= meta.get("versions", {})
    return {
        "name": spec.name,
        "title": spec.title or spec.name,
        "model": plan.checkpoint.name,
        "study": spec.model_dump(mode="json", exclude_defaults=True),
        "labels": plan.mapping,
        "classes": {task.name: list(task.classes) for task in plan.tasks.values()},
        "ablate": spec.ablate,
        "figures": list(spec.figures),
        "examples": {name: len(split) for name, split in plan.splits.items()},
        "notes": notes,
        "versions": versions,
        "job_seconds": round(seconds),
    }
