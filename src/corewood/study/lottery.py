"""What a lottery holds: tickets and how each is judged, what pruning found, and the plan of them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corewood.data.task import Split
from corewood.prune.tickets import GOOD
from corewood.spec_lottery import LotterySpec
from corewood.study.base import Plan
from corewood.study.job import Job

FULL, IMPORTANCE, MAGNITUDE, SUPER, UNTRAINED, L0 = "full", "importance", "magnitude", "super-survivors", "untrained", "l0"
PRUNED, RETRAINED = "pruned", "retrained"
FACTS = ("task", "seed", "part", "method", "prune", "ticket", "draw", "state", "epochs", "target", "search_seed")


@dataclass(frozen=True)
class Ticket:
    """One subnetwork, judged in one way: a row of the scores."""

    task: str
    seed: int
    method: str
    ticket: str = GOOD
    draw: int = 0
    state: str = PRUNED
    prune: str = "both"  # what importance pruning may remove
    epochs: float = 0.0  # of retraining, where longer than fine-tuning
    target: float = 0.0  # share removed, where methods are compared
    search_seed: int = 0  # of an L0 search
    part: str = "tickets"  # tickets, or methods
    masks: Job | None = None  # where its mask is
    place: int = 0  # which of the masks, and of the logits
    good: Job | None = None  # where the mask is that it was drawn beside
    predictions: Mapping[str, Job] = field(default_factory=dict)  # dataset -> job

    @property
    def jobs(self) -> list[Job]:
        return [*filter(None, (self.masks, self.good)), *self.predictions.values()]


@dataclass(frozen=True)
class Found:
    """What pruning found in one fine-tuned model."""

    task: str
    seed: int
    method: str
    prune: str
    job: Job
    part: str = "tickets"


@dataclass(frozen=True)
class PatternPart:
    task: str
    seed: int | None  # of fine-tuning; None before it
    job: Job


@dataclass(frozen=True)
class LotteryPlan(Plan):
    spec: LotterySpec
    metrics: Mapping[str, str]  # by task
    classes: Mapping[str, tuple[str, ...]]  # by task
    tickets: tuple[Ticket, ...]
    found: tuple[Found, ...]
    patterns: tuple[PatternPart, ...]
    classifiers: Mapping[str, Job]  # raw, normed

    def split(self, task: str, name: str) -> Split:
        return self.splits[f"{task}/{name}"]

    def datasets(self, task: str) -> list[str]:
        """What tickets of a task are judged on."""
        names = [key.partition("/")[2] for key in self.splits if key.startswith(f"{task}/")]
        return [n for n in names if n not in ("train", "search")]

    @property
    def asked(self) -> dict[str, Any]:
        rows = [[*(getattr(t, fact) for fact in FACTS), t.place] for t in self.tickets]
        data = {name: job.key for name, job in self.data.items()}  # which task has which: jobs do not know their tasks' names
        return {**super().asked, "rows": rows, "metrics": dict(self.metrics), "data": data}

    @property
    def reported(self) -> dict[str, Any]:
        zero = self.spec.importance is None or self.spec.importance.ablate == "zero"
        return {"classes": [], "ablate": "zero" if zero else "mean"}
