"""What is to be done and what is going on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from corewood.cli.screen import table
from corewood.store.store import Store
from corewood.study.cost import estimate
from corewood.study.engines import Event
from corewood.study.job import Job, Kind
from corewood.study.kinds import KINDS
from corewood.study.models import Plan
from corewood.study.run import Listener, state_of

COSTS = {"forward": 1.0, "search": 3.0, "train": 3.0, "second": 1.0}  # of an example, in forward passes: before any is seen


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


def show_plan(plan: Plan, store: Store, workers: int, every: bool, measure: bool) -> None:
    states = state_of(plan, store)
    console = Console(highlight=False)
    for line in say_mapping(plan):
        console.print(line, markup=False)
    possible = ("done", "missing", "failed", "damaged")
    shown = table(("jobs",), possible)
    for kind in kinds(list(plan.jobs.values())):
        here = [states[job.key].split(":")[0] for job in plan.jobs.values() if job.kind == kind.name]
        shown.add_row(kind.title, *(str(here.count(state) or "·") for state in possible))
    console.print(shown)
    for job in plan.jobs.values():
        state, _, reason = states[job.key].partition(": ")
        if reason:
            console.print(f"{job.title}: {state}, {reason}", markup=False, style="red")
        elif every:
            console.print(f"{state:8} {job.title}", markup=False, style="dim" if state == "done" else "")
    missing = [job for job in plan.jobs.values() if states[job.key] != "done"]
    to_do = f"{len(missing)} of {len(plan.jobs)} jobs to do"
    if not missing:
        console.print("Everything is done: running it again computes nothing.")
    elif not measure:
        console.print(f"{to_do}.")
    else:
        with console.status("Measuring a few steps"):
            cost = estimate(plan, missing, workers)
        console.print(f"{to_do}: about {span(cost.seconds)} with {workers} workers on this machine.")
        longest = sorted(cost.kinds.items(), key=lambda pair: -pair[1])
        parts = [f"{KINDS[kind].title} {span(seconds)}" for kind, seconds in longest if seconds >= 0.01 * cost.seconds]
        console.print(f"Of that: {', '.join(parts)}.")
        for line in plan.assumed:
            console.print(line, style="dim")
        steps = {"fine-tune": cost.train, "search": cost.search, **{f"forward on {n}": v for n, v in cost.forward.items()}}
        paces = ", ".join(f"{name} {1000 * pace:.1f}" for name, pace in steps.items() if pace is not None)
        console.print(f"Measured just now, in milliseconds per example: {paces}.", style="dim")


class Tally:
    """What has happened so far."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.ended: dict[str, str] = {}  # key -> done, failed, blocked
        self.running: dict[str, tuple[Job, float, float]] = {}  # key -> job, when it began, share done
        self.spent: dict[str, tuple[float, float]] = {}  # kind -> seconds and work of the jobs that are done
        self.began = time.monotonic()

    def start(self, missing: Sequence[Job]) -> None:
        self.jobs, self.began = list(missing), time.monotonic()

    def note(self, job: Job, event: Event) -> None:
        if event.state in ("started", "progress") and job.key not in self.ended:
            began = self.running[job.key][1] if job.key in self.running else time.monotonic()
            self.running[job.key] = (job, began, event.done / event.total if event.total else 0.0)
        elif event.state not in ("started", "progress"):
            _, began, _ = self.running.pop(job.key, (job, time.monotonic(), 0.0))
            self.ended[job.key] = event.state
            if event.state == "done":
                seconds, work = self.spent.get(job.kind, (0.0, 0.0))
                self.spent[job.kind] = seconds + time.monotonic() - began, work + job.work

    def left(self) -> str:
        """Every kind at the pace it has had so far; one that has not been seen, by how it compares with the others."""
        now = time.monotonic()
        spent = dict(self.spent)
        for job, began, part in list(self.running.values()):
            seconds, work = spent.get(job.kind, (0.0, 0.0))
            spent[job.kind] = seconds + now - began, work + part * job.work
        seconds = sum(s for s, _ in spent.values())
        known = sum(work * usual(kind) for kind, (_, work) in spent.items())
        if now - self.began < 5 or not seconds or not known:
            return ""
        paces = {kind: s / work for kind, (s, work) in spent.items() if work}
        parts = {job.key: part for job, _, part in list(self.running.values())}
        todo = sum(
            job.work * (1 - parts.get(job.key, 0.0)) * paces.get(job.kind, usual(job.kind) * seconds / known)
            for job in self.jobs
            if job.key not in self.ended
        )
        if seconds < 0.02 * (seconds + todo):
            return ""
        return f"about {span(todo * (now - self.began) / seconds)} left"  # as many at a time as so far


class Lines(Listener):
    """For logs: one line per job, and for long jobs every quarter minute."""

    def __init__(self, console: Console) -> None:
        self.console, self.tally = console, Tally()
        self.told: dict[str, float] = {}

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def planned(self, plan: Plan, missing: Sequence[Job]) -> None:
        for line in say_mapping(plan):
            self.say(line)
        self.tally.start(missing)
        if missing:
            self.say(f"{len(missing)} of {len(plan.jobs)} jobs to do")

    def event(self, job: Job, event: Event) -> None:
        began = self.tally.running[job.key][1] if job.key in self.tally.running else time.monotonic()
        self.tally.note(job, event)
        every = str(len(self.tally.jobs))
        count = f"[{len(self.tally.ended):{len(every)}}/{every}] "
        if event.state == "progress":
            last = self.told.get(job.key, began)
            if time.monotonic() - last > 15:
                self.told[job.key] = time.monotonic()
                self.say(f"{' ' * len(count)}{job.title}: {event.done} of {event.total}")
        elif event.state != "started":
            details = {"done": f"in {span(time.monotonic() - began)}", "failed": event.detail, "blocked": "not possible"}
            self.say(f"{count}{job.title}: {event.state} {details[event.state]}; {self.tally.left()}".rstrip("; "))


class LiveTable(Listener):
    """For a terminal: kinds of jobs with bars, and the jobs that run now."""

    def __init__(self, console: Console) -> None:
        self.tally = Tally()
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=False)

    def say(self, line: str) -> None:
        self.live.console.print(line, markup=False)

    def planned(self, plan: Plan, missing: Sequence[Job]) -> None:
        for line in say_mapping(plan):
            self.say(line)
        self.tally.start(missing)

    def event(self, job: Job, event: Event) -> None:
        self.tally.note(job, event)
        if event.state == "failed":
            self.say(f"{job.title}: failed, {event.detail}")

    def render(self) -> RenderableType:
        if not self.tally.jobs:
            return ""
        rows = Table("", "", "", "", box=None, pad_edge=False, show_header=False)
        for kind in kinds(self.tally.jobs):
            here = [job.key for job in self.tally.jobs if job.kind == kind.name]
            done = sum(self.tally.ended.get(key) == "done" for key in here)
            lost = sum(self.tally.ended.get(key) in ("failed", "blocked") for key in here)
            now = sum(self.tally.running[key][2] for key in here if key in self.tally.running)
            bar = ProgressBar(total=len(here), completed=done + lost + now, width=28)
            rows.add_row(kind.title, bar, f"{done}/{len(here)}", f"[red]{lost} failed[/red]" if lost else "")
        for job, began, part in list(self.tally.running.values()):
            bar = ProgressBar(total=1, completed=part, width=28, style="dim")
            spent = span(time.monotonic() - began)
            rows.add_row(f"[dim]  {job.title}[/dim]", bar, f"[dim]{part:.0%}[/dim]", f"[dim]{spent}[/dim]")
        foot = f"{span(time.monotonic() - self.tally.began)} so far; {self.tally.left()}".removesuffix("; ")
        return Group(rows, f"[dim]{foot}[/dim]")


@contextmanager
def listener() -> Iterator[Lines | LiveTable]:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Lines(console)
        return
    table = LiveTable(console)
    with table.live:
        yield table
