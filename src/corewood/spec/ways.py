"""The ways of looking for subnetworks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from corewood.errors import nearest
from corewood.spec.base import MOST_DRAWS, MOST_STEPS, Batch, Seeds, Sparsity, Spec, Step, any_number, listed, part_of
from corewood.spec.words import by_key

AUTO_STEPS = 64  # gradient steps of an L0 search that ends by itself
USUAL_ROUNDS = 12  # rounds of exchanges that such searches take, and about how many gradient examples one is worth
ROUND_WORK = 400
Prunes = Literal["both", "heads", "mlps"]
Way = Literal["l0", "importance", "magnitude"]  # those that others can be like
CORE = "core"  # as a unit: all heads that the L0 masks of `prune` have in common


NUMBER_OR_AUTO = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_STEPS}, {"const": "auto"}]}


def number_or_auto(steps: int | str) -> int | str:
    if steps != "auto" and (isinstance(steps, str) or steps < 1):
        raise ValueError(f"give a number of steps, 1 or more, or auto, not {steps}")
    if steps != "auto" and int(steps) > MOST_STEPS:
        raise ValueError(f"give {MOST_STEPS:,} steps at the most, or auto")
    return steps


def unit_list(value: object) -> object:
    """'L2.H5 + L3.H7', or a list."""
    given = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in given):
        return value
    return list(dict.fromkeys(part.strip() for part in " + ".join(map(str, given)).split("+") if given))


UnitList = Annotated[tuple[str, ...], BeforeValidator(unit_list, json_schema_input_type=str | list[str])]


def at_most_whole(budget: float) -> float:
    if budget > 1:
        raise ValueError(f"is at most 1, a whole search: a longer one is not always better; write starts: {math.ceil(budget)}")
    return budget


class L0(Spec):
    """L0 search: gates of a hard concrete distribution, trained to keep the full model's predictions.

    The defaults are ours. `L0.paper(sparsity)` is the setting of the released code of the Heuristic Core.

    Example:
        >>> cw.L0(sparsity=0.5)
        L0(sparsity=0.5)
        >>> cw.L0(sparsity=0.7, path=(0.3, 0.5)).targets  # one search, a mask at each
        (0.3, 0.5, 0.7)
        >>> cw.L0.paper(0.5).steps
        9300
    """

    sparsity: Sparsity = Field(..., description="fraction of the units to remove")
    path: tuple[Sparsity, ...] = Field((), description="smaller sparsities to give a mask of on the way; all are nested")
    steps: Annotated[int | str, AfterValidator(number_or_auto), WithJsonSchema(NUMBER_OR_AUTO)] = Field(
        "auto", description="gradient steps; auto: a few, then exchanges of open and closed units until none helps"
    )
    budget: Annotated[float, Field(gt=0, json_schema_extra={"maximum": 1}), AfterValidator(at_most_whole)] = Field(
        1.0, description="with auto: below 1, a shorter search: factor on its gradient steps, rounds and texts a round"
    )
    rounds: int = Field(24, ge=1, le=10_000, description="with auto: rounds of exchanges at the most, for each size")
    starts: int = Field(
        1, ge=1, le=100, description="with auto, to search more: so many searches, of which the best by held-out KL is given"
    )
    ramp: float = Field(0.7, gt=0, le=1, description="share of the steps over which the target grows to `sparsity`")
    batch: Batch = Field(32, description="examples per step")
    start: float = Field(2.5, description="mean of the initial log_alpha")
    start_std: float = Field(0.3, ge=0, description="its standard deviation")
    rate: float = Field(0.5, gt=0, description="of the gates")
    lambda_rate: float = Field(1.0, gt=0, description="Adam's rate for the two multipliers")
    decay: float = Field(0.0, ge=0, description="AdamW's, of the gates")
    lambda_decay: float = Field(0.0, ge=0, description="of the multipliers, which it makes leak")
    warmup: Step = Field(0, description="steps over which the rates rise")
    counts_from: Literal[0, 1] = Field(1, description="what ramp and warm-up call the first step; the released code, 0")
    linear_decay: bool = Field(True, description="whether the rates fall linearly")
    clip: float = Field(1.0, gt=0, description="largest norm of a gradient")
    constraint: Literal["exact", "lagrangian"] = Field(
        "exact", description="hold the expected sparsity at its target, or learn two multipliers that pull it there"
    )
    measure: Literal["expected", "sampled"] = Field("expected", description="which sparsity the multipliers see")
    noise: Literal["example", "batch"] = Field("example", description="one draw of the gates per example or per batch")
    parts: Batch = Field(1, description="parts that a batch is run in, each with its own draw; their losses are averaged")
    dropout: bool = Field(False, description="in the pruned model")
    final: Literal["top", "released"] = Field("top", description="exact size, or the released code's rule")
    threshold: Annotated[float, Field(gt=0, lt=1)] | Literal["search"] = Field(
        0.5, description="of that rule; search: whichever of 0, 0.05, ... 1 comes closest to the sparsity (the paper's text)"
    )

    LATER: ClassVar[tuple[str, ...]] = ("lambda_decay", "counts_from", "parts", "starts")

    @model_validator(mode="after")
    def _way(self) -> Self:
        if any(s >= self.sparsity for s in self.path):
            raise ValueError("path: its sparsities lie below the one the search ends at")
        if self.starts > 1 and not self.auto:
            raise ValueError("starts: which of several searches is best is asked of those that end by themselves, steps: auto")
        if self.batch % self.parts:
            raise ValueError(f"parts: a batch of {self.batch} cannot be run in {self.parts} equal parts")
        if self.path and self.final == "released":
            raise ValueError("path: needs masks of an exact size, final: top")
        if self.auto and self.final == "released":
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
        return self.starts * self.work_of(self.gradient_steps, len(self.targets))

    def work_of(self, steps: int, sizes: int = 0, rounds: int = 0) -> int:
        """After so many steps, sizes that are done, and rounds of the next one: however many it takes, it never seems done."""
        usual = min(USUAL_ROUNDS, self.most_rounds)
        begun = 1 - math.exp(-rounds / usual) if usual else 0.0
        return round(steps * self.batch + (sizes + begun) * usual * ROUND_WORK * self.budget)

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
        steps=steps, ramp=ramp / steps, batch=128, parts=4, rate=0.1, start=10.0, start_std=0.01, decay=0.01, lambda_decay=0.01,
        warmup=200, counts_from=0, noise="batch", constraint="lagrangian", measure="sampled", dropout=True,
        final="released", threshold=0.5 if sparsity <= 0.6 else 0.35,
    )  # fmt: skip


# settings that another one must allow: what does nothing would change every key, and compute all again
IDLE = {
    "steps: auto": ("budget", "rounds"),
    "constraint: lagrangian": ("measure", "lambda_rate", "lambda_decay"),
    "final: released": ("threshold",),
}


class Searches(Spec):
    """L0 searches: every sparsity with every seed."""

    sparsity: Annotated[tuple[Sparsity, ...], listed(Sparsity, filled=True)] = Field(
        ..., description="one or several: which fraction of the units to remove"
    )
    seeds: Seeds = Field(tuple(range(6)), description="how many, or which")
    path: bool = Field(False, description="one run per seed, with a mask at each sparsity on the way: nested, and cheaper")
    preset: Literal["default", "paper"] = Field("default", description="our settings, or those of the released code")
    settings: Mapping[str, Any] = Field(
        {},
        description="any of the settings of one search",
        json_schema_extra=lambda schema: schema.update(part_of(L0, "sparsity", "path")),
    )

    @model_validator(mode="after")
    def _settings(self) -> Self:
        if len(set(self.sparsity)) < len(self.sparsity):
            raise ValueError(f"sparsity: a value stands twice in {list(self.sparsity)}")
        for key in ("sparsity", "path"):
            if key in self.settings:
                raise ValueError(f"settings: {key} stands beside settings, not in it")
        unknown = [k for k in self.settings if k not in L0.model_fields]
        if unknown:
            raise ValueError("; ".join(f"settings.{k}: unknown key.{nearest(k, L0.model_fields)}" for k in unknown))
        if self.path and self.preset == "paper":
            raise ValueError(
                "path: needs masks of an exact size, and preset: paper has a rule of its own; choose one of the two"
            )
        try:
            runs = self.runs()
        except ValidationError as problem:
            told = ((f"settings.{key}" if key else "settings", what) for key, what in by_key(problem, self.settings))
            raise ValueError("; ".join(f"{key}: {what}" for key, what in told)) from None
        for needed, keys in IDLE.items():
            name, value = needed.split(": ")
            idle = [key for key in keys if key in self.settings]
            if idle and str(getattr(runs[0], name)) != value:
                raise ValueError(f"settings.{idle[0]}: does nothing without {needed}; leave it out")
        return self

    def runs(self) -> list[L0]:
        """The searches of one seed: one per sparsity, or one along them all."""
        if self.path:
            *way, end = sorted(self.sparsity)
            return [self._l0(end, tuple(way))]
        return [self._l0(sparsity) for sparsity in self.sparsity]

    def _l0(self, sparsity: float, path: tuple[float, ...] = ()) -> L0:
        preset = paper_l0(sparsity) if self.preset == "paper" else {}
        return L0.model_validate({"sparsity": sparsity, "path": path, **preset, **self.settings})


class Competing(Searches):
    """L0 searches and, beside them, searches with the same sizes and seeds that leave units out or hold them."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    without: UnitList = Field(
        (), description="search again without these units: core (the heads that all plain masks keep), or names such as L2.H5"
    )
    with_units: UnitList = Field((), alias="with", description="search again with these units held open")

    @model_validator(mode="after")
    def _core(self) -> Self:
        if CORE in (*self.without, *self.with_units) and not self.several:
            raise ValueError("core: is what several masks have in common; ask for two seeds or more, or name units")
        return self

    @property
    def several(self) -> bool:
        """Whether there are masks that do not hold each other."""
        return len(self.seeds) * (1 if self.path else len(self.sparsity)) > 1


class Importance(Spec):
    """Importance pruning of heads and MLPs: those go first whose gates the loss depends on least (LT, section 3.3).

    Example:
        >>> cw.Importance(threshold=0.95)
        Importance(threshold=0.95)
        >>> cw.prune_units(model, task.validation, cw.Importance(sparsity=0.25), prune="heads").mask
        <Mask 6/8 heads, 2/2 MLPs, sparsity 0.20>
    """

    prune: Annotated[tuple[Prunes, ...], listed(Prunes, filled=True)] = Field(
        ("both",), description="heads and MLPs together, or one kind alone; tickets are drawn from the first"
    )
    threshold: float = Field(0.9, gt=0, le=1, description="share of the full model's score that must be kept")
    sparsity: Sparsity | None = Field(None, description="instead of a threshold: remove exactly this share of each kind")
    like: Literal["l0"] | None = Field(None, description="instead of both: as many heads and MLPs as each mask of that way has")
    heads_per_round: float = Field(0.1, gt=0, le=1, description="share of all heads; one MLP goes with them")
    heads_alone_per_round: float | None = Field(
        None, gt=0, le=1, description="the same once MLPs stay; the released code, 0.05; default: as `heads_per_round`"
    )
    per: Literal["example", "batch"] = Field(
        "example", description="whose gradient is taken without its sign; the released code, batch"
    )
    batch: Batch = Field(32, description="examples per step")
    by_length: bool = Field(True, description="batches of texts of similar length; false: in the order of the data")
    normalise: bool = Field(True, description="divide heads by their layer's l2 norm")
    over: Literal["left", "all"] = Field("left", description="the norm: of the heads that are left, or of pruned ones too")
    ablate: Literal["zero", "mean"] | None = Field(
        None, description="what a closed unit gives instead of its own output; default: zero, or mean where it is like another"
    )

    LATER: ClassVar[tuple[str, ...]] = ("by_length", "over")

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if len(set(self.prune)) < len(self.prune):
            raise ValueError(f"prune: a value stands twice in {list(self.prune)}")
        if self.like is not None and self.prune != ("both",):
            raise ValueError("prune: a mask like another has its heads and its MLPs; leave prune out")
        return self

    @property
    def stand_in(self) -> Literal["zero", "mean"]:
        return self.ablate or ("zero" if self.like is None else "mean")


class Magnitude(Spec):
    """Magnitude pruning of single weights: the smallest of the whole encoder go first (LT, section 3.2).

    Example:
        >>> cw.prune_weights(model, task.validation, cw.Magnitude(sparsity=0.9)).mask.share
        0.1000...
    """

    threshold: float = Field(0.9, gt=0, le=1, description="share of the full model's score that must be kept")
    sparsity: Sparsity | None = Field(None, description="instead of a threshold: remove exactly this share")
    like: Literal["l0"] | None = Field(None, description="instead of both: as many weights as each mask of that way has")
    per_round: float = Field(0.1, gt=0, lt=1, description="share of the weights that are left")
    most_rounds: int = Field(60, ge=1, le=250, description="rounds at the most; the released code has 10")
    biases: bool = Field(
        False,
        description="remove biases of query, key, value, attention output and the MLP's first layer too (the released code)",
    )

    LATER: ClassVar[tuple[str, ...]] = ("biases",)


class Random(Spec):
    """Masks of exactly the sizes of another way's, drawn by chance."""

    like: Way = Field("l0", description="masks of exactly the sizes of this way's")
    draws: int = Field(1, ge=1, le=MOST_DRAWS, description="masks beside each")


class CoreAlone(Spec):
    """The heads that all L0 masks keep, alone with all MLPs; and with random others, as many as each L0 mask has."""

    draws: int = Field(3, ge=0, le=MOST_DRAWS, description="of random others, for each L0 mask")


class Given(Spec):
    """Masks from files: npy, json, safetensors, as `corewood agree` reads them."""

    path: str = Field(..., description="a file, or a folder of them; relative to the study")


class Prune(Spec):
    """Which subnetworks to look for. A way that is wanted with two settings is given as a list."""

    l0: Competing | None = None
    importance: Annotated[tuple[Importance, ...], any_number(Importance)] = ()
    magnitude: Annotated[tuple[Magnitude, ...], any_number(Magnitude)] = ()
    random: Annotated[tuple[Random, ...], any_number(Random)] = ()
    core: CoreAlone | None = None
    given: Given | None = None

    @model_validator(mode="after")
    def _core(self) -> Self:
        if self.core is not None and self.l0 is None:
            raise ValueError("core: is what the masks of l0 have in common; add prune.l0")
        if self.core is not None and self.l0 is not None and not self.l0.several:
            raise ValueError("core: is what several masks have in common; ask for two seeds of l0 or more")
        return self

    @model_validator(mode="after")
    def _like(self) -> Self:
        for name in ("importance", "magnitude", "random"):
            for way in getattr(self, name):
                if way.like is not None and not getattr(self, way.like):
                    raise ValueError(f"{name}.like: {way.like} is not among the ways; add prune.{way.like}")
                if way.like == "l0" and self.l0 and self.l0.path and name != "random":
                    raise ValueError(f"{name}.like: the masks of one path come in one job; set l0.path: false")
        for name, sized in (("importance", self.importance), ("magnitude", self.magnitude)):
            like = self.l0.sparsity if self.l0 is not None and any(way.like for way in sized) else ()
            for way in sized:
                if way.sparsity in like:
                    raise ValueError(
                        f"{name}: like: l0 has masks of sparsity {way.sparsity:g} already; leave one of the two out"
                    )
                given = [key for key in ("threshold", "sparsity", "like") if key in way.model_fields_set]
                if len(given) > 1:
                    raise ValueError(f"{name}: give only one of {' and '.join(given)}")
            if sum(way.like is None for way in sized) > 1 or sum(way.like is not None for way in sized) > 1:
                raise ValueError(f"{name}: only one of its settings can be without like, and one with it")
        if len({way.like for way in self.random}) < len(self.random):
            raise ValueError("random: two settings are like the same way; give draws instead")
        return self

    @property
    def nothing(self) -> bool:
        return not (self.l0 or self.importance or self.magnitude or self.random or self.given)
