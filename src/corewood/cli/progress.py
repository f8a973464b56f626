"""What is to be done and what is going on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from corewood.cli.screen import aside, screen, table
from corewood.cli.voice import Voice, emit
from corewood.spec.cluster import Cluster
from corewood.store.store import Store
from corewood.study.cost import Cost, Needs, drawing, estimate, needs
from corewood.study.engines import Event
from corewood.study.job import Job, Kind
from corewood.study.kinds import KINDS
from corewood.study.models import Plan
from corewood.study.run import Listener, chosen, state_of

# of an example, in forward passes: before any is seen; as the demo had them, with weights' gradients, dropout and Adam in train
COSTS = {"forward": 1.0, "search": 3.0, "train": 5.0, "second": 1.0}


def kinds(jobs: Sequence[Job]) -> list[Kind]:
    """The kinds there are, in the order they flow."""
    there = {job.kind for job in jobs}
    return [kind for kind in KINDS.values() if kind.name in there]


def usual(kind: str) -> float:
    return COSTS[KINDS[kind].pace] * KINDS[kind].factor


def span(seconds: float) -> str:
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def say_mapping(plan: Plan) -> list[str]:
    """How the model's classes were matched to each set's labels, and what was noticed in the files."""
    sets = [f"{name} ({len(plan.splits[name])} examples): {text}" for name, text in plan.mapping.items()]
    return ["Labels, by name:", *(f"  {s}" for s in sets), *plan.notes]


def standing(jobs: int, missing: int) -> str:
    """Before a run: how much of it is there."""
    if not missing:
        return f"all {jobs} jobs are done"
    return f"{jobs} jobs to do" if missing == jobs else f"{jobs - missing} of {jobs} jobs done already, {missing} to do"


def show_plan(
    plan: Plan,
    store: Store,
    workers: int,
    every: bool,
    measure: bool,
    voice: Voice,
    batch: Cluster | None = None,
    only: Sequence[str] = (),
) -> None:
    jobs, states = [*chosen(plan, only).values()], state_of(plan, store)
    missing = [job for job in jobs if states[job.key] != "done"]
    console = screen()
    if voice.json:
        cost = estimate(plan, missing, workers) if measure and missing else None
        emit_plan(plan, jobs, states, cost, workers, None if batch is None or cost is None else needs(plan, missing, cost))
        return
    if voice.quiet:
        console.print(standing(len(jobs), len(missing)))
        return
    for line in say_mapping(plan):
        console.print(line, markup=False)
    possible = ("done", "missing", "failed", "damaged")
    shown = table(("jobs",), possible)
    for kind in kinds(jobs):
        here = [states[job.key].split(":")[0] for job in jobs if job.kind == kind.name]
        shown.add_row(kind.title, *(str(here.count(state) or "·") for state in possible))
    console.print(shown)
    for job in jobs:
        state, _, reason = states[job.key].partition(": ")
        if reason:
            console.print(f"{job.title}: {state}, {reason}", markup=False, style="red")
        elif every or voice.verbose:
            where = f"  {store.folder(job.kind, job.key)}" if voice.verbose else ""
            console.print(f"{state:8} {job.title}{where}", markup=False, style="dim" if state == "done" else "", soft_wrap=True)
    to_do = f"{len(missing)} of {len(jobs)} jobs to do"
    if not missing:
        console.print(f"{'All of that' if only else 'Everything'} is done: running it again computes nothing.")
    elif not measure:
        console.print(f"{to_do}.")
    else:
        with console.status("Measuring a few steps"):
            cost = estimate(plan, missing, workers)
        report = f"{span(cost.report)} of it for tables and report"
        console.print(f"{to_do}: about {span(cost.seconds)} with {workers} workers on this machine, {report}.")
        longest = sorted(cost.kinds.items(), key=lambda pair: -pair[1])
        parts = [f"{KINDS[kind].title} {span(seconds)}" for kind, seconds in longest if seconds >= 0.01 * cost.seconds]
        if parts:
            console.print(f"Of that: {', '.join(parts)}.")
        for line in plan.assumed:
            console.print(line, style="dim", markup=False)
        steps = {"fine-tune": cost.train, "search": cost.search, **{f"forward on {n}": v for n, v in cost.forward.items()}}
        paces = ", ".join(f"{name} {1000 * pace:.1f}" for name, pace in steps.items() if pace is not None)
        console.print(f"Measured just now, in milliseconds per example: {paces}.", style="dim")
        if batch is not None:
            say_needs(needs(plan, missing, cost), batch, console)


def say_needs(need: Needs, batch: Cluster, console: Console) -> None:
    """What the missing jobs ask of a cluster."""
    most = batch.jobs[1]
    hours, takes = need.seconds / 3600, span(max(need.seconds / most, need.longest))
    gpu = f"{need.gpu / 3600:.1f} of these hours are of use to a GPU"
    console.print(f"On {batch.system}, {most} at a time: {hours:.1f} hours of work in {need.jobs} jobs, about {takes}; {gpu}.")
    over = f", longer than the walltime ({batch.walltime}): it goes on in the next job" * (need.longest > batch.seconds)
    console.print(f"The longest job takes {span(need.longest)} ({need.what}){over}. Store: about {need.gigabytes:.1f} GB.")
    fraction = "on a GPU it is a fraction, which the first jobs will tell"
    console.print(f"Hours are those of one core of this machine; {fraction}.", style="dim")


def emit_plan(
    plan: Plan, jobs: Sequence[Job], states: Mapping[str, str], cost: Cost | None, workers: int, need: Needs | None = None
) -> None:
    told = []
    for job in jobs:
        state, _, reason = states[job.key].partition(": ")
        told.append({"kind": job.kind, "title": job.title, "key": job.key, "state": state, "reason": reason})
    counts = Counter(job["state"] for job in told)
    facts = {"name": plan.spec.name, "labels": plan.mapping, "notes": plan.notes, "counts": counts, "workers": workers}
    seconds = {"seconds": cost and round(cost.seconds, 1), "report_seconds": cost and round(cost.report, 1)}
    emit("plan", **facts, **seconds, jobs=told, **({} if need is None else {"cluster": asdict(need)}))


def cores(job: Job) -> int:
    return int(job.local.get("threads", 1))


class Tally:
    """What has happened so far."""

    def __init__(self) -> None:
        self.after = 0.0  # seconds for what follows the jobs
        self.jobs: list[Job] = []
        self.ended: dict[str, str] = {}  # key -> done, failed, blocked
        self.running: dict[str, tuple[Job, float, float]] = {}  # key -> job, when it began, share done
        self.spent: dict[str, tuple[float, float]] = {}  # kind -> seconds of a core and work of the jobs that are done
        self.todo: dict[str, float] = {}  # kind -> work of the jobs that have not ended
        self.count: Counter[str] = Counter()  # kind -> jobs
        self.over: dict[str, Counter[str]] = {}  # kind -> how many are done, failed, blocked
        self.began = time.monotonic()

    def start(self, missing: Sequence[Job], after: float = 0.0) -> None:
        self.jobs, self.began, self.after = list(missing), time.monotonic(), after
        self.count = Counter(job.kind for job in missing)
        self.over = {kind: Counter() for kind in self.count}
        for job in missing:
            self.todo[job.kind] = self.todo.get(job.kind, 0.0) + job.work

    def note(self, job: Job, event: Event) -> None:
        if event.state in ("started", "progress") and job.key not in self.ended:
            began = self.running[job.key][1] if job.key in self.running else time.monotonic()
            self.running[job.key] = (job, began, event.done / event.total if event.total else 0.0)
        elif event.state not in ("started", "progress"):
            _, began, _ = self.running.pop(job.key, (job, time.monotonic(), 0.0))
            self.ended[job.key] = event.state
            self.over[job.kind][event.state] += 1
            self.todo[job.kind] -= job.work
            if event.state == "done":
                seconds, work = self.spent.get(job.kind, (0.0, 0.0))
                self.spent[job.kind] = seconds + cores(job) * (time.monotonic() - began), work + job.work

    def left(self) -> str:
        seconds = self.seconds_left()
        return "" if seconds is None else f"about {span(seconds)} left"

    def seconds_left(self) -> float | None:
        """Every kind at the pace it has had so far; one that has not been seen, by how it compares with the others."""
        now = time.monotonic()
        spent, left = dict(self.spent), dict(self.todo)
        for job, began, part in list(self.running.values()):
            seconds, work = spent.get(job.kind, (0.0, 0.0))
            spent[job.kind] = seconds + cores(job) * (now - began), work + part * job.work
            left[job.kind] -= part * job.work
        seconds = sum(s for s, _ in spent.values())
        known = sum(work * usual(kind) for kind, (_, work) in spent.items())
        if now - self.began < 5 or not seconds or not known:
            return None
        paces = {kind: s / work for kind, (s, work) in spent.items() if work}
        todo = sum(work * paces.get(kind, usual(kind) * seconds / known) for kind, work in left.items())
        if seconds < 0.02 * (seconds + todo):
            return None
        return todo * (now - self.began) / seconds + self.after  # as many cores at a time as so far


def said_of(event: Event, seconds: float) -> str:
    return {"done": f"done in {span(seconds)}", "failed": f"failed {event.detail}", "blocked": "not possible"}[event.state]


class Lines(Listener):
    """For logs: one line per job, and for long jobs every quarter minute."""

    def __init__(self, console: Console, verbose: bool = False) -> None:
        self.console, self.verbose, self.tally = console, verbose, Tally()
        self.told: dict[str, float] = {}
        self.lost = 0  # jobs that are not possible now, and not told of yet

    def say(self, line: str) -> None:
        if self.lost:
            count, self.lost = self.lost, 0
            self.say(f"{count} jobs that need it are not possible")
        self.console.print(line, markup=False, soft_wrap=True)

    def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None:
        for line in say_mapping(plan):
            self.say(line)
        self.tally.start(missing, drawing(plan))
        if missing:
            self.say(standing(asked, len(missing)))

    def workers(self, standing: str) -> None:
        self.say(standing)

    def event(self, job: Job, event: Event) -> None:
        began = self.tally.running[job.key][1] if job.key in self.tally.running else time.monotonic()
        self.tally.note(job, event)
        every = str(len(self.tally.jobs))
        count = f"[{len(self.tally.ended):{len(every)}}/{every}] "
        blank = " " * len(count)
        if event.state == "progress":
            last = self.told.get(job.key, began)
            if time.monotonic() - last > 15:
                self.told[job.key] = time.monotonic()
                self.say(f"{blank}{job.title}: {event.done} of {event.total}")
        elif event.state == "started":
            if self.verbose:
                self.say(f"{blank}{job.title}: begins ({job.kind} {job.key})")
        elif event.state == "blocked" and not self.verbose:
            self.lost += 1
        else:
            self.say(f"{count}{job.title}: {said_of(event, time.monotonic() - began)}; {self.tally.left()}".rstrip("; "))


class LiveTable(Listener):
    """For a terminal: kinds of jobs with bars, and the jobs that run now."""

    def __init__(self, console: Console, verbose: bool = False) -> None:
        self.tally, self.verbose, self.standing = Tally(), verbose, ""
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=False)

    def say(self, line: str) -> None:
        self.live.console.print(line, markup=False)

    def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None:
        for line in say_mapping(plan):
            self.say(line)
        self.tally.start(missing, drawing(plan))
        if missing:
            self.say(standing(asked, len(missing)))

    def workers(self, standing: str) -> None:
        self.standing = standing

    def event(self, job: Job, event: Event) -> None:
        began = self.tally.running[job.key][1] if job.key in self.tally.running else time.monotonic()
        self.tally.note(job, event)
        ended = event.state not in ("started", "progress")
        if event.state == "failed" or (self.verbose and ended):
            self.say(f"{job.title}: {said_of(event, time.monotonic() - began)}" + f" ({job.kind} {job.key})" * self.verbose)

    def render(self) -> RenderableType:
        if not self.tally.jobs:
            return ""
        rows = Table("", "", "", "", box=None, pad_edge=False, show_header=False)
        for kind in (kind for kind in KINDS.values() if kind.name in self.tally.count):
            total, over = self.tally.count[kind.name], self.tally.over[kind.name]
            lost = over["failed"] + over["blocked"]
            now = sum(part for job, _, part in list(self.tally.running.values()) if job.kind == kind.name)
            bar = ProgressBar(total=total, completed=over["done"] + lost + now, width=28)
            rows.add_row(kind.title, bar, f"{over['done']}/{total}", f"[red]{lost} failed[/red]" if lost else "")
        for job, began, part in list(self.tally.running.values()):
            bar = ProgressBar(total=1, completed=part, width=28, style="dim")
            spent = span(time.monotonic() - began)
            rows.add_row(f"[dim]  {escape(job.title)}[/dim]", bar, f"[dim]{part:.0%}[/dim]", f"[dim]{spent}[/dim]")
        foot = f"{span(time.monotonic() - self.tally.began)} so far; {self.tally.left()}".removesuffix("; ")
        return Group(rows, f"[dim]{foot}{'; ' * bool(self.standing)}{escape(self.standing)}[/dim]")


class Machine(Listener):
    """For programs: one JSON object for each thing that happens."""

    def __init__(self, voice: Voice) -> None:
        self.voice, self.tally = voice, Tally()

    def say(self, line: str) -> None:
        self.voice.event("note", text=line)

    def planned(self, plan: Plan, asked: int, missing: Sequence[Job]) -> None:
        self.tally.start(missing, drawing(plan))
        counts = {"jobs": asked, "done": asked - len(missing), "missing": len(missing)}
        self.voice.event("planned", name=plan.spec.name, **counts, labels=plan.mapping, notes=plan.notes)

    def workers(self, standing: str) -> None:
        self.voice.event("workers", text=standing)

    def event(self, job: Job, event: Event) -> None:
        self.tally.note(job, event)
        if event.state == "progress" and not self.voice.verbose:
            return
        part = {"done": event.done, "total": event.total} if event.state == "progress" else {}
        left = self.tally.seconds_left()
        facts = {"kind": job.kind, "title": job.title, "key": job.key, "state": event.state, "detail": event.detail, **part}
        self.voice.event("job", **facts, ended=len(self.tally.ended), seconds_left=left and round(left))


@contextmanager
def listener(voice: Voice) -> Iterator[Listener]:
    console = aside()
    if voice.json:
        yield Machine(voice)
    elif voice.quiet:
        yield Listener()
    elif not console.is_terminal:
        yield Lines(console, voice.verbose)
    else:
        table = LiveTable(console, voice.verbose)
        with table.live:
            yield table
