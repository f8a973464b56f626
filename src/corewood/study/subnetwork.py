"""A subnetwork: a model, a mask, and how it is run. One row, with the same facts in every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corewood.spec import Ablation
from corewood.study.job import Job

FULL, L0, IMPORTANCE, MAGNITUDE, RANDOM, GIVEN = "full", "l0", "importance", "magnitude", "random", "given"
WITHOUT, WITH = "l0 without", "l0 with"  # L0 again, with units closed or open from the start
PINNED = (WITHOUT, WITH)  # in these units all such masks agree, whatever the model is
CORE, AROUND = "core", "core + random"
LIKE = {way: f"{RANDOM} like {way}" for way in (IMPORTANCE, MAGNITUDE)}  # where masks are drawn beside several ways
BY_L0, BY_LOT = (L0, WITHOUT, WITH), (RANDOM, *LIKE.values(), CORE, AROUND)  # ways that search; that search for nothing
SUPER, UNTRAINED = "super-survivors", "untrained"
PRUNED, RETRAINED = "pruned", "retrained"
GOOD = "good"
# the question that asked for a row; those of `prune` are compared with each other
PRUNE, GRID, TICKETS = "prune", "effective_size", "tickets"
FACTS = (
    "task", "tuning", "checkpoint", "question", "way", "prune", "target", "nested", "seed", "ticket", "draw", "state", "epochs",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Subnetwork:
    name: str  # unique among those of a model
    task: str
    tuning: int  # seed of the fine-tuning; 0 for a checkpoint as it is
    checkpoint: int
    way: str
    question: str = PRUNE
    prune: str = "both"  # which units a way may remove; weights, where it removes those
    target: float = 0.0  # sparsity asked for; 0 where a threshold decides, and for the full model
    nested: bool = False  # whether its search gave other sparsities on the way
    seed: int = 0  # of the search
    ticket: str = GOOD
    draw: int = 0
    state: str = PRUNED
    epochs: float = 0.0  # of retraining, where longer than fine-tuning
    masks: Job | None = None  # where its mask is
    place: int = 0  # which of the masks, and of the logits of its predictions
    good: Job | None = None  # where the mask is that it was drawn beside,
    good_place: int = 0  # and which of them
    stand_in: Ablation | None = None  # what closed units give; None where none are closed
    predictions: Mapping[str, Job] = field(default_factory=dict)  # dataset -> job
    beside: Mapping[Ablation, Mapping[str, Job]] = field(default_factory=dict)  # other stand-ins -> dataset -> job

    @property
    def jobs(self) -> list[Job]:
        """What its row needs."""
        return [*filter(None, (self.masks, self.good)), *self.predictions.values()]

    @property
    def of_weights(self) -> bool:
        return self.prune == "weights"

    @property
    def closed(self) -> Ablation:
        """What closed units give when it is run."""
        return "zero" if self.state == RETRAINED or self.stand_in is None else self.stand_in

    @property
    def model(self) -> tuple[str, int]:
        return self.task, self.tuning

    def facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FACTS}
