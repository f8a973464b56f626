"""The study file: what may stand in it, and what it means.

A study names a model, a task, how to fine-tune (or not), how to search for subnetworks. Every class here is frozen
and forbids unknown keys; `read_study` turns every mistake in a file into one message that names the key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from corewood.errors import InputError, nearest
from corewood.spec_tasks import FilesTask as FilesTask
from corewood.spec_tasks import GeneratedTask as GeneratedTask
from corewood.spec_tasks import GlueTask as GlueTask
from corewood.spec_tasks import LabelName as LabelName
from corewood.spec_tasks import SourceSpec as SourceSpec
from corewood.spec_tasks import Spec as Spec
from corewood.spec_tasks import TaskSpec as TaskSpec
from corewood.spec_tasks import as_list as as_list

Ablation = Literal["mean", "zero", "resample"]
AUTO_STEPS = 64  # gradient steps of an L0 search that ends by itself
USUAL_ROUNDS = 7  # rounds of exchanges that such searches take, and about how many gradient examples one is worth
ROUND_WORK = 400
Sparsity = Annotated[float, Field(gt=0, lt=1)]


class ModelSpec(Spec):
    """A checkpoint: a folder, a hub id, or `minilm` (the embedded one)."""

    checkpoint: str
    revision: str | None = Field(None, description="hub revision; pin it for a study others will repeat")
    labels: tuple[LabelName, ...] | None = Field(
        None, description="class names in the order of the logits, when the checkpoint's config does not tell"
    )
    pad_token: str | None = Field(None, description="for decoders without one, e.g. <|endoftext|>")
    max_length: int | None = Field(None, ge=4, description="tokens per example; default: the model's positions")
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")


class FineTune(Spec):
    """Fine-tuning with transformers' Trainer; checkpoints are kept at the given steps, and at the end."""

    steps: int | None = Field(None, ge=1)
    epochs: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="passes over the training examples, instead of steps"
    )
    batch: int = Field(32, ge=1)
    learning_rate: float = Field(5e-5, gt=0)
    warmup: int = Field(0, ge=0, description="steps")
    weight_decay: float = Field(0.0, ge=0)
    seed: int = Field(0, ge=0)
    checkpoints: tuple[Annotated[int, Field(ge=0)], ...] = Field((), description="steps at which to keep the model")
    threads: int = Field(1, ge=1, description="CPU threads of this one job; part of its result to the last bit")

    @model_validator(mode="after")
    def _within(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of 'steps' and 'epochs'")
        beyond = [] if self.steps is None else [c for c in self.checkpoints if c > self.steps]
        if beyond:
            raise ValueError(f"checkpoints {beyond} lie beyond the last step, {self.steps}")
        return self

    def resolved(self, examples: int) -> FineTune:
        """With steps instead of epochs; `examples` are those of the training set."""
        if self.epochs is None:
            return self
        batches = round(examples * self.epochs / self.batch, 6)  # 1.1 * 100 is a little above 110
        steps = max(1, math.ceil(batches))
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
            raise InputError(
                "fine_tune.epochs: how many steps they are depends on the examples; resolved(examples) counts them"
            )
        return self.steps

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(sorted({*self.checkpoints, self.last}))


def number_or_auto(steps: int | str) -> int | str:
    if steps != "auto" and (isinstance(steps, str) or steps < 1):
        raise ValueError(f"give a number of steps, 1 or more, or auto, not {steps}")
    return steps


class L0(Spec):
    """L0 search: gates of a hard concrete distribution, trained to keep the full model's predictions.

    The defaults are ours. `L0.paper(sparsity)` is the setting of the released code of the Heuristic Core.
    """

    sparsity: Sparsity
    path: tuple[Sparsity, ...] = Field((), description="smaller sparsities to give a mask of on the way; all are nested")
    steps: Annotated[int | str, AfterValidator(number_or_auto)] = Field(
        "auto",
        description="gradient steps; auto: a few, then exchanges of open and closed units until none helps",
    )
    budget: float = Field(1.0, gt=0, le=100, description="with auto: factor on its gradient steps, rounds and texts a round")
    rounds: int = Field(24, ge=1, description="with auto: rounds of exchanges at the most, for each size")
    ramp: float = Field(0.7, gt=0, le=1, description="share of the steps over which the target grows to `sparsity`")
    batch: int = Field(32, ge=1)
    start: float = Field(2.5, description="mean of the initial log_alpha")
    start_std: float = Field(0.3, ge=0)
    rate: float = Field(0.5, gt=0, description="of the gates")
    lambda_rate: float = Field(1.0, gt=0, description="Adam's rate for the two multipliers")
    decay: float = Field(0.0, ge=0)
    warmup: int = Field(0, ge=0)
    linear_decay: bool = True
    clip: float = Field(1.0, gt=0)
    constraint: Literal["exact", "lagrangian"] = Field(
        "exact", description="hold the expected sparsity at its target, or learn two multipliers that pull it there"
    )
    measure: Literal["expected", "sampled"] = Field("expected", description="which sparsity the multipliers see")
    noise: Literal["example", "batch"] = Field("example", description="one draw of the gates per example or per batch")
    dropout: bool = False
    final: Literal["top", "threshold"] = Field("top", description="exact size, or the released code's rule")
    threshold: float = Field(0.5, gt=0, lt=1)

    @model_validator(mode="after")
    def _way(self) -> Self:
        if any(s >= self.sparsity for s in self.path):
            raise ValueError("path: its sparsities lie below the one the search ends at")
        if self.path and self.final == "threshold":
            raise ValueError("path: needs masks of an exact size, final: top")
        if self.auto and self.final == "threshold":
            raise ValueError("steps: auto exchanges units of a mask of exact size; it needs final: top, or a number of steps")
        return self

    @property
    def auto(self) -> bool:
        return self.steps == "auto"

    @property
    def gradient_steps(self) -> int:
        """Steps of the soft gates; where they are all of the search, as many as were asked for."""
        return max(1, round(AUTO_STEPS * self.budget)) if self.auto else int(self.steps)

    @property
    def most_rounds(self) -> int:
        return max(1, round(self.rounds * self.budget)) if self.auto else 0

    @property
    def work(self) -> int:
        """About how many examples' worth of gradient steps it takes; the rounds are those that such searches have had."""
        rounds = min(USUAL_ROUNDS, self.most_rounds) * len(self.targets)
        return round(self.gradient_steps * self.batch + rounds * ROUND_WORK * self.budget)

    @property
    def targets(self) -> tuple[float, ...]:
        """Every sparsity this search gives a mask of, in rising order."""
        return (*sorted(self.path), self.sparsity)

    @classmethod
    def paper(cls, sparsity: float) -> L0:
        return cls(sparsity=sparsity, **paper_l0(sparsity))


def paper_l0(sparsity: float) -> dict[str, Any]:
    """The released code's budget grows with the target (methods, section 1)."""
    percent = 100 * sparsity
    ramp = 6500 + 50 * percent
    steps = round(ramp + 6 * percent)
    return dict(
        steps=steps, ramp=ramp / steps, batch=128, rate=0.1, start=10.0, start_std=0.1, decay=0.01, warmup=200, noise="batch",
        constraint="lagrangian",
        measure="sampled", dropout=True, final="threshold", threshold=0.5 if sparsity <= 0.6 else 0.35,
    )  # fmt: skip


class SearchSpec(Spec):
    """Which subnetworks to look for: every sparsity with every seed."""

    method: Literal["l0"] = "l0"
    sparsity: Annotated[tuple[Sparsity, ...], BeforeValidator(as_list), Field(min_length=1)]
    seeds: int | tuple[int, ...] = Field(6, description="how many, or which")
    path: bool = Field(False, description="one run per seed, with a mask at each sparsity on the way: nested, and cheaper")
    preset: Literal["default", "paper"] = "default"
    settings: Mapping[str, Any] = Field({}, description="any field of L0 but sparsity and path")

    @model_validator(mode="after")
    def _settings(self) -> Self:
        if not self.seed_list:
            raise ValueError("seeds: give at least one")
        for key, given in (("seeds", self.seed_list), ("sparsity", self.sparsity)):
            if len(set(given)) < len(given):
                raise ValueError(f"{key}: a value stands twice in {list(given)}")
        if min(self.seed_list) < 0:
            raise ValueError("seeds: must not be negative")
        for key in ("sparsity", "path"):
            if key in self.settings:
                raise ValueError(f"settings: {key} stands beside settings, not in it")
        unknown = [k for k in self.settings if k not in L0.model_fields]
        if unknown:
            raise ValueError("; ".join(f"settings.{k}: unknown key.{nearest(k, L0.model_fields)}" for k in unknown))
        try:
            self.runs()
        except ValidationError as problem:
            wrong = [f"settings.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in problem.errors()]
            raise ValueError("; ".join(wrong)) from None
        return self

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def runs(self) -> list[L0]:
        """The searches of one seed: one per sparsity, or one along them all."""
        if self.path:
            *way, end = sorted(self.sparsity)
            return [self._l0(end, tuple(way))]
        return [self._l0(sparsity) for sparsity in self.sparsity]

    def _l0(self, sparsity: float, path: tuple[float, ...] = ()) -> L0:
        preset = paper_l0(sparsity) if self.preset == "paper" else {}
        return L0(sparsity=sparsity, path=path, **{**preset, **self.settings})


class EffectiveSize(SearchSpec):
    """Checkpoints pruned over a grid of sparsities: the smallest subnetwork that is faithful to each."""

    seeds: int | tuple[int, ...] = 3
    checkpoints: Literal["all"] | tuple[Annotated[int, Field(ge=0)], ...] = "all"
    margin: float = Field(0.03, gt=0, lt=1, description="how far from the full model is still faithful")
    order: Literal["accuracies", "seeds"] = Field(
        "accuracies", description="average accuracies over seeds first (the paper), or sizes (its code)"
    )
    two_sided: bool = Field(False, description="whether an accuracy above the full model's may be unfaithful")
    mixed: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        (1, 1), description="weights of in domain and challenge in the mixed set"
    )


class Ablations(Spec):
    """Units removed from the full model, one at a time and together."""

    singles: bool = Field(True, description="every head and every MLP alone")
    sets: tuple[str, ...] = Field((), description="named sets, for instance 'L2.H5 + L3.H7'")
    pairs: bool = Field(False, description="all pairs of the core")
    examples: int | None = Field(None, ge=2, description="of each dataset, evenly over cases; default: all")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.singles or self.sets or self.pairs):
            raise ValueError("nothing to remove: leave singles on, or give sets or pairs")
        return self


class Attention(Spec):
    """What heads attend to."""

    dataset: str | None = Field(None, description="default: the first challenge set")
    examples: int = Field(500, ge=2, description="drawn evenly over cases")
    maps: int = Field(2, ge=0, description="examples whose maps the report shows")
    texts: tuple[Annotated[tuple[str, ...], BeforeValidator(as_list), Field(min_length=1, max_length=2)], ...] = Field(
        (), description="further examples to map: a text, or a pair of texts, each"
    )


class StudySpec(Spec):
    """One study."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    model: Annotated[ModelSpec, BeforeValidator(lambda v: {"checkpoint": v} if isinstance(v, str) else v)]
    task: TaskSpec
    fine_tune: FineTune | None = None
    search: SearchSpec
    effective_size: EffectiveSize | None = None
    ablations: Ablations | None = None
    attention: Attention | None = None
    focus: tuple[str, ...] = Field((), description="the challenge cases the study is about; default: all of them")
    ablate: Ablation = Field("mean", description="what a closed unit gives instead of its own output")
    ablate_beside: tuple[Ablation, ...] = Field((), description="judge the same masks under these values too")
    sample: int = Field(2048, ge=2, description="training examples the search and the means may use")
    seed: int = Field(0, ge=0, description="draws the sample and the limits")

    @model_validator(mode="after")
    def _training_data(self) -> Self:
        if isinstance(self.task, FilesTask) and not self.task.train and self.fine_tune is not None:
            raise ValueError("fine_tune needs task.train: the examples to learn from")
        return self

    @model_validator(mode="after")
    def _right_answers(self) -> Self:
        if self.task.metric != "accuracy":
            cola = isinstance(self.task, GlueTask) and self.task.glue == "cola"
            instead = "; to count right answers, give train and validation with layout: cola" if cola else ""
            raise ValueError(
                f"task: this study counts right answers; metric {self.task.metric} is for a lottery study{instead}"
            )
        return self

    @model_validator(mode="after")
    def _grid(self) -> Self:
        if self.effective_size is None or self.effective_size.checkpoints == "all":
            return self
        tuned = self.fine_tune
        kept = (0,) if tuned is None else tuned.checkpoints if tuned.steps is None else tuned.kept
        missing = [c for c in self.effective_size.checkpoints if c not in kept]
        if missing:
            known = [*map(str, kept), *(["the last one"] if tuned and tuned.steps is None else [])]
            raise ValueError(
                f"effective_size.checkpoints: step {missing[0]} is not kept; kept are {', '.join(known)}. "
                "Add it to fine_tune.checkpoints"
            )
        return self


def kept_units(units: int, sparsity: float) -> int:
    """How many of `units` stay at this sparsity; at least one, or the request is refused."""
    kept = math.floor(units * (1 - sparsity) + 0.5)
    if kept < 1:
        raise InputError(
            f"search.sparsity: {sparsity} of {units} units leaves none; the largest possible is {1 - 1 / units:.4f}"
        )
    if kept == units:
        raise InputError(
            f"search.sparsity: {sparsity} of {units} units removes none; the smallest possible is {0.5 / units:.4f}"
        )
    return kept
