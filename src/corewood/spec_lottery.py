"""The study file of a lottery: tasks, seeds, how to prune, which tickets to draw.

`kind: lottery` at the top of a study says that it is one. Every task is fine-tuned with every seed; each of these models is
pruned, and its subnetworks are judged as pruned and after retraining (When BERT Plays the Lottery, LT below).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from corewood.spec import FineTune, ModelSpec, SearchSpec, Sparsity, Spec, TaskSpec, as_list

Prunes = Literal["both", "heads", "mlps"]
PAPER_SEEDS = (1337, 42, 86, 71, 166)


class Importance(Spec):
    """Importance pruning of heads and MLPs: those go first whose gates the loss depends on least (LT, section 3.3)."""

    prune: Annotated[tuple[Prunes, ...], BeforeValidator(as_list), Field(min_length=1)] = Field(
        ("both",), description="heads and MLPs together, or one kind alone; tickets are drawn from the first"
    )
    threshold: float = Field(0.9, gt=0, le=1, description="share of the full model's score that must be kept")
    sparsity: Sparsity | None = Field(None, description="instead of a threshold: remove exactly this share of each kind")
    heads_per_round: float = Field(0.1, gt=0, le=1, description="share of all heads")
    heads_alone_per_round: float | None = Field(None, gt=0, le=1, description="once MLPs stay; default: as before")
    per: Literal["example", "batch"] = Field("example", description="whose gradient is taken without its sign")
    batch: int = Field(32, ge=1)
    normalise: bool = Field(True, description="heads by their layer's l2 norm")
    ablate: Literal["zero", "mean"] = Field("zero", description="what a closed unit gives instead of its own output")


class Magnitude(Spec):
    """Magnitude pruning of single weights: the smallest of the whole encoder go first (LT, section 3.2)."""

    threshold: float = Field(0.9, gt=0, le=1, description="share of the full model's score that must be kept")
    sparsity: Sparsity | None = Field(None, description="instead of a threshold: remove exactly this share")
    per_round: float = Field(0.1, gt=0, lt=1, description="share of the weights that are left")
    most_rounds: int = Field(60, ge=1, le=250)


class Tickets(Spec):
    """Good subnetworks, and others of exactly their size (LT, section 4.2)."""

    random: int = Field(1, ge=0, description="how many random ones of each good one")
    retrain: bool = Field(True, description="judge each after retraining from the pretrained weights, too")
    longer: Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(as_list)] = Field(
        (), description="retrain bad ones for these numbers of epochs as well (appendix D)"
    )
    untrained: bool = Field(False, description="train a randomly initialised model under a random mask (table 2)")
    super_survivors: bool = Field(False, description="units that survive with every seed, and their counterparts (appendix E)")


class Methods(SearchSpec):
    """L0, importance and magnitude beside each other at the same sizes, on every case: which keeps generalisation?"""

    seeds: int | tuple[int, ...] = Field(1, description="L0 searches of each fine-tuned model")
    random: int = Field(1, ge=0, description="random masks of the same size beside each")

    @model_validator(mode="after")
    def _exact(self) -> Self:
        if self.path or any(run.final != "top" for run in self.runs()):
            raise ValueError("methods are compared at exact sizes: path must be off and settings.final must be top")
        return self


class Patterns(Spec):
    """What kind of picture each head's attention makes (LT, section 5.2)."""

    examples: int = Field(100, ge=2, description="of each task")
    annotated: str | None = Field(None, description="a folder of your own maps (.npy) with labels.csv: file, type")
    pretrained: bool = Field(True, description="look at the model before fine-tuning, too")
    maps: int = Field(6000, ge=50, description="generated maps that the classifier learns from")
    steps: int = Field(900, ge=1, description="of its training")


class LotterySpec(Spec):
    """One study of tickets."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    model: Annotated[ModelSpec, BeforeValidator(lambda v: {"checkpoint": v} if isinstance(v, str) else v)]
    tasks: Mapping[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], TaskSpec] = Field(..., min_length=1)
    fine_tune: FineTune
    budgets: Mapping[str, Mapping[str, Any]] = Field({}, description="task -> keys of fine_tune that are other for it")
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        PAPER_SEEDS, min_length=1, description="of fine-tuning: the classifier's start and the order of examples"
    )
    judge: Literal["halves", "paper"] = Field(
        "halves", description="search on one half of the validation set and report on the other, or (paper) both on all of it"
    )
    importance: Importance | None = None
    magnitude: Magnitude | None = None
    tickets: Tickets | None = None
    methods: Methods | None = None
    patterns: Patterns | None = None
    sample: int = Field(2048, ge=2, description="training examples that L0 searches and means may use")
    seed: int = Field(0, ge=0, description="draws halves, limits, and random and bad tickets")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.model.labels is not None:
            raise ValueError("model.labels: a lottery gives the model a new classifier; labels belong to its tasks")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: a value stands twice in {list(self.seeds)}")
        for task in self.budgets:
            if task not in self.tasks:
                raise ValueError(f"budgets.{task}: there is no such task; the tasks are {', '.join(self.tasks)}")
        for settings in (self.fine_tune, *map(self.tuning, self.budgets)):
            if "seed" in settings.model_fields_set:
                raise ValueError("fine_tune.seed: a lottery fine-tunes with each of its seeds; give them as seeds")
            if settings.checkpoints:
                raise ValueError("fine_tune.checkpoints: a lottery prunes the model at the end of fine-tuning alone")
        if self.importance is None and self.magnitude is None and self.methods is None and self.patterns is None:
            raise ValueError("nothing to do: give importance, magnitude, methods or patterns")
        if self.tickets is not None and self.importance is None and self.magnitude is None:
            raise ValueError("tickets: are drawn from what importance or magnitude pruning keeps; give one of these")
        if self.importance is not None and len(set(self.importance.prune)) < len(self.importance.prune):
            raise ValueError(f"importance.prune: a value stands twice in {list(self.importance.prune)}")
        wanted = self.tickets
        if wanted is not None and len(set(wanted.longer)) < len(wanted.longer):
            raise ValueError(f"tickets.longer: a value stands twice in {list(wanted.longer)}")
        if wanted is not None and not wanted.retrain and (wanted.longer or wanted.untrained):
            raise ValueError("tickets: longer and untrained are trainings; they need retrain: true")
        if wanted is not None and wanted.untrained and not wanted.random:
            raise ValueError("tickets.untrained: trains under a random mask; it needs random: 1 or more")
        if wanted is not None and wanted.longer and self.importance is None:
            raise ValueError("tickets.longer: retrains bad tickets of importance pruning; it needs importance")
        if self.tickets is not None and self.importance is None and (self.tickets.super_survivors or self.tickets.untrained):
            raise ValueError("tickets: super_survivors and untrained are about heads and MLPs; they need importance")
        return self

    def tuning(self, task: str) -> FineTune:
        """How a task is fine-tuned, and its tickets retrained."""
        own = dict(self.budgets.get(task, {}))
        given = self.fine_tune.model_dump(exclude_unset=True)
        if "steps" in own or "epochs" in own:
            given = {key: value for key, value in given.items() if key not in ("steps", "epochs")}
        try:
            return FineTune.model_validate({**given, **own})
        except ValidationError as problem:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in problem.errors())
            raise ValueError(f"budgets.{task}: {wrong}") from None
