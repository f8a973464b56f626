"""One study: models x ways x questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from corewood.spec.base import MOST_EXAMPLES, Ablation, Seed, Spec
from corewood.spec.questions import Ablations, Attention, EffectiveSize, Patterns, Tickets
from corewood.spec.tasks import FilesTask, TaskSpec
from corewood.spec.tuning import ModelSpec, Tuning
from corewood.spec.ways import Prune

CHALLENGE = "challenge"
RESERVED = ("in domain", "mixed", "all")  # sets that have these names already
LONGEST_NAME = 200  # characters: folders and files are called so, with a little more
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=LONGEST_NAME)]


def slug(name: str) -> str:
    """A name that a study or a set can have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:LONGEST_NAME].strip("-._") or "study"


def named_lists(focus: object) -> object:
    """Cases without a name for them all are simply those of the challenge."""
    if isinstance(focus, str):
        return {CHALLENGE: [focus]}
    if isinstance(focus, (list, tuple)):
        return {CHALLENGE: focus} if focus else {}
    return {} if focus is None else focus


class StudySpec(Spec):
    """One study, as a study file holds it: models, ways of finding subnetworks, questions. `cw.run` runs it.

    Example:
        >>> cw.StudySpec(
        ...     name="mine",
        ...     model="path/to/checkpoint",
        ...     task={"generated": "overlap"},
        ...     prune={"l0": {"sparsity": 0.5, "seeds": 3}},
        ... ).prune.l0.seeds
        (0, 1, 2)
    """

    name: Name = Field(..., description="of the report's folder, NAME-report")
    title: str = Field("", description="what the report is called; default: the name")
    model: Annotated[
        ModelSpec,
        BeforeValidator(lambda v: {"checkpoint": v} if isinstance(v, str) else v, json_schema_input_type=str | ModelSpec),
    ] = Field(..., description="a checkpoint: a folder, a hub id, or minilm (the embedded one); or keys")
    task: TaskSpec | None = Field(None, description="the data: your files, a set of GLUE, or the generated task")
    tasks: Mapping[Name, TaskSpec] = Field({}, description="instead of `task`: several, each with a name")
    fine_tune: Tuning | None = Field(
        None, description="train first, every task with every seed; default: the checkpoint as it is"
    )
    prune: Prune = Prune()
    effective_size: EffectiveSize | None = None
    ablations: Ablations | None = None
    attention: Attention | None = None
    tickets: Tickets | None = None
    patterns: Patterns | None = None
    judge: Literal["halves", "paper"] = Field(
        "halves",
        description="where a way looks at validation labels, give it one half and report on the other, or (paper) both on all",
    )
    focus: Annotated[
        Mapping[str, tuple[str, ...]],
        BeforeValidator(named_lists, json_schema_input_type=list[str] | Mapping[str, list[str]] | None),
    ] = Field({}, description="the challenge cases the study is about, or named lists of them; default: all cases")
    ablate: Ablation = Field("mean", description="stand-in: what a closed unit gives instead of its own output")
    ablate_beside: tuple[Ablation, ...] = Field((), description="judge the masks of `l0` with these stand-ins, too")
    sample: int = Field(6144, ge=2, le=MOST_EXAMPLES, description="training examples that searches and means may use")
    seed: Seed = Field(0, description="draws the sample, limits, halves, examples, random and bad masks")
    figures: tuple[Literal["svg", "pdf", "png"], ...] = Field(
        ("svg", "pdf", "png"), description="files of each chart beside the report; [] is fastest"
    )

    @property
    def every_task(self) -> dict[str, TaskSpec]:
        return dict(self.tasks) if self.task is None else {self.task.name: self.task}

    def key_of(self, task: str) -> str:
        """Where a task stands in the file."""
        return f"tasks.{task}" if self.task is None else "task"

    @property
    def focused(self) -> tuple[str, ...]:
        """All cases in focus."""
        return tuple(dict.fromkeys(case for cases in self.focus.values() for case in cases))

    @property
    def looks_at_labels(self) -> bool:
        """Whether a way does, of the validation set."""
        by_importance = self.effective_size is not None and self.effective_size.way == "importance"
        return bool(self.prune.importance or self.prune.magnitude) or by_importance

    @property
    def halved(self) -> bool:
        return self.judge == "halves" and self.looks_at_labels

    @property
    def good(self) -> tuple[str, ...]:
        """The ways that tickets are drawn from."""
        if self.tickets is None:
            return ()
        if self.tickets.of is not None:
            return self.tickets.of
        return tuple(name for name in ("importance", "magnitude") if any(w.like is None for w in getattr(self.prune, name)))

    @model_validator(mode="after")
    def _focus(self) -> Self:
        for name, cases in self.focus.items():
            if name in RESERVED or name in self.focused:
                raise ValueError(f"focus.{name}: this is what a set or a case is called; choose another name for the list")
            if not cases:
                raise ValueError(f"focus.{name}: names no case")
        return self

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if (self.task is None) == (not self.tasks):
            raise ValueError("give exactly one of 'task' and 'tasks'")
        if self.fine_tune is not None:
            for name, task in self.every_task.items():
                if isinstance(task, FilesTask) and not task.train:
                    raise ValueError(f"fine_tune needs {self.key_of(name)}.train: the examples to learn from")
            for name in self.fine_tune.tasks:
                if name not in self.every_task:
                    tasks = ", ".join(self.every_task)
                    raise ValueError(f"fine_tune.tasks.{name}: there is no such task; the tasks are {tasks}")
            if self.tasks and self.model.labels is not None:
                raise ValueError("model.labels: fine-tuning gives each task its own classifier; labels belong to the tasks")
        elif self.tickets is not None and self.tickets.retrain:
            raise ValueError(
                "tickets: are retrained as their model was fine-tuned, and this checkpoint is taken as it is; add fine_tune, "
                "or set tickets.retrain: false to judge them as pruned"
            )
        if self.prune.nothing and not (self.ablations or self.attention or self.patterns or self.effective_size):
            raise ValueError("nothing to do: give prune a way (l0, importance, magnitude, random, given), or ask a question")
        if self.ablate_beside and not self.prune.l0:
            raise ValueError(
                "ablate_beside: judges the subnetworks of prune.l0 with other stand-ins; add that, or leave it out"
            )
        units = self.prune.l0 or self.prune.importance or self.prune.given
        if self.ablations is not None and self.ablations.of_core and not units:
            raise ValueError(f"ablations.{self.ablations.of_core}: is about the core, and no way looks for one; add prune.l0")
        return self

    @model_validator(mode="after")
    def _tickets(self) -> Self:
        if self.tickets is None:
            return self
        for way in self.good:
            if not getattr(self.prune, way):
                raise ValueError(f"tickets.of: {way} is not among the ways; add prune.{way}")
            if way != "l0" and all(settings.like for settings in getattr(self.prune, way)):
                own = f"give prune.{way} a threshold or a sparsity of its own"
                raise ValueError(f"tickets.of: {way} only follows l0 here; {own}")
        if not self.good:
            raise ValueError("tickets: are drawn from what a way keeps; add prune.importance, prune.magnitude, or of: l0")
        if self.tickets.longer and "importance" not in self.good:
            raise ValueError("tickets.longer: retrains bad tickets of importance pruning; it needs prune.importance")
        if "importance" not in self.good and (self.tickets.super_survivors or self.tickets.untrained):
            raise ValueError("tickets: super_survivors and untrained are about heads and MLPs; they need prune.importance")
        return self

    @model_validator(mode="after")
    def _checkpoints(self) -> Self:
        """Questions may look at what fine-tuning keeps."""
        for key in ("effective_size", "ablations", "attention"):
            wanted = getattr(self, key)
            if wanted is None or wanted.checkpoints == "all":
                continue
            for task in self.every_task:
                tuned = self.fine_tune.of(task) if self.fine_tune else None
                kept = (0,) if tuned is None else tuned.checkpoints if tuned.steps is None else tuned.kept
                missing = [c for c in wanted.checkpoints if c not in kept]
                if missing:
                    known = [*map(str, kept), *(["the last one"] if tuned and tuned.steps is None else [])]
                    raise ValueError(
                        f"{key}.checkpoints: step {missing[0]} is not kept; kept are {', '.join(known)}. "
                        "Add it to fine_tune.checkpoints"
                    )
        return self
