"""The models of a study: a checkpoint, and how it is fine-tuned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from corewood.errors import InputError
from corewood.spec.base import MOST_LISTED, MOST_STEPS, MOST_THREADS, Batch, Epochs, Seed, Seeds, Spec, Step, part_of
from corewood.spec.tasks import LabelName
from corewood.spec.words import by_key


class ModelSpec(Spec):
    """A checkpoint: a folder, a hub id, or `minilm` (the embedded one)."""

    checkpoint: str = Field(..., description="a folder, a hub id, or `minilm`")
    revision: str | None = Field(None, description="of a hub model; pin it for a study others will repeat; default: the newest")
    labels: tuple[LabelName, ...] | None = Field(
        None, description="class names in the order of the logits, where the checkpoint has LABEL_0, LABEL_1; default: its own"
    )
    pad_token: str | None = Field(
        None, description="for decoders without one, for instance `<|endoftext|>`; default: the tokenizer's"
    )
    max_length: int | None = Field(
        None,
        ge=4,
        le=MOST_STEPS,
        description="tokens per example; longer texts are cut, and counted; default: the model's positions",
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="`auto` (CUDA where there is one), `cpu`, `cuda`, `cuda:1`, `mps`",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="of search and evaluation; `auto` is bfloat16 on GPUs that have it, else float32"
    )


def in_order(steps: tuple[int, ...]) -> tuple[int, ...]:
    """Their order means nothing, and must not make another training of it."""
    return tuple(sorted(steps))


class Training(Spec):
    """Fine-tuning with transformers' Trainer; checkpoints are kept at the given steps, and at the end."""

    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="how long; either this or epochs")
    epochs: Epochs | None = Field(None, description="passes over the training examples, instead of steps; rounded up to steps")
    batch: Batch = Field(32, description="examples per step")
    accumulate: Batch = Field(
        1, description="parts that a batch is run in, where it does not fit at once; one step all the same"
    )
    learning_rate: float = Field(5e-5, gt=0, description="at the start; it falls linearly to 0")
    warmup: Step = Field(0, description="steps over which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's")
    checkpoints: Annotated[tuple[Step, ...], AfterValidator(in_order)] = Field(
        (), max_length=MOST_LISTED, description="steps to keep the model at, beside the last; 0: before training"
    )
    watch: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="judge the model every so many steps, without keeping it; a change trains anew"
    )
    threads: int = Field(
        1, ge=1, le=MOST_THREADS, description="CPU threads of this one job; part of its result to the last bit"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of training; bfloat16: autocast, weights and optimiser stay in float32"
    )

    LATER: ClassVar[tuple[str, ...]] = ("accumulate", "watch", "precision")

    @model_validator(mode="after")
    def _within(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of 'steps' and 'epochs'")
        if self.batch % self.accumulate:
            raise ValueError(f"accumulate: a batch of {self.batch} cannot be run in {self.accumulate} equal parts")
        beyond = [] if self.steps is None else [c for c in self.checkpoints if c > self.steps]
        if beyond:
            raise ValueError(f"checkpoints {beyond} lie beyond the last step, {self.steps}")
        if self.steps and self.watch and self.steps // self.watch > MOST_LISTED:
            raise ValueError(f"watch: judges the model {self.steps // self.watch:,} times; {MOST_LISTED:,} are the most")
        return self

    def resolved(self, examples: int) -> Self:
        """With steps instead of epochs; `examples` are those of the training set."""
        if self.epochs is None:
            return self
        steps = max(1, math.ceil(round(examples * self.epochs / self.batch, 6)))  # 1.1 * 100 is a little above 110
        if steps > MOST_STEPS or (self.watch and steps // self.watch > MOST_LISTED):
            raise InputError(
                f"fine_tune.epochs: {self.epochs:g} epochs of {examples} examples are {steps:,} steps; {MOST_STEPS:,} are the "
                f"most, and {MOST_LISTED:,} looks on the way"
            )
        beyond = [c for c in self.checkpoints if c > steps]
        if beyond:
            raise InputError(
                f"fine_tune.checkpoints: {beyond} lie beyond the last step, {steps} "
                f"({self.epochs:g} epochs of {examples} examples, {self.batch} in a batch)"
            )
        return self.model_copy(update={"steps": steps, "epochs": None})

    @property
    def last(self) -> int:
        """The last step."""
        if self.steps is None:
            why = "how many steps they are depends on the examples"
            raise InputError(f"fine_tune.epochs: {why}; resolved(examples) counts them")
        return self.steps

    @property
    def watched(self) -> tuple[int, ...]:
        """Steps at which the model is judged on the way."""
        return tuple(range(self.watch, self.last + 1, self.watch)) if self.watch else ()

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(sorted({*self.checkpoints, self.last}))


class FineTune(Training):
    """One fine-tuning: the settings of `cw.fine_tune`, which takes all but `checkpoints`, `watch` and `threads`: these are of
    studies.

    Example:
        >>> cw.FineTune(epochs=3, batch=16)
        FineTune(epochs=3.0, batch=16)
        >>> cw.FineTune(epochs=3, batch=16).resolved(examples=1000).steps
        188
    """

    seed: Seed = Field(0, description="of the classifier's start and the order of examples")


class Tuning(Training):
    """Every task with every seed."""

    seeds: Seeds = Field((0,), description="how many, or which: the classifier's start and the order of examples")
    tasks: Mapping[str, Mapping[str, Any]] = Field(
        {},
        description="task -> keys of fine_tune that are other for it",
        json_schema_extra=lambda schema: schema.update({"additionalProperties": part_of(Training)}),
    )

    @model_validator(mode="after")
    def _each(self) -> Self:
        for task, own in self.tasks.items():
            for key in own:
                if key not in Training.model_fields:
                    raise ValueError(f"tasks.{task}.{key}: is no setting of one task's training")
            self.of(task)
        return self

    def of(self, task: str, seed: int = 0) -> FineTune:
        """How a task is fine-tuned with one of the seeds, and its tickets retrained."""
        own = dict(self.tasks.get(task, {}))
        given = self.model_dump(exclude_unset=True, exclude={"seeds", "tasks"})
        if "steps" in own or "epochs" in own:
            given = {key: value for key, value in given.items() if key not in ("steps", "epochs")}
        try:
            return FineTune.model_validate({**given, **own, "seed": seed})
        except ValidationError as problem:
            told = ((f"tasks.{task}.{key}" if key else f"tasks.{task}", what) for key, what in by_key(problem, own))
            raise ValueError("; ".join(f"{key}: {what}" for key, what in told)) from None
