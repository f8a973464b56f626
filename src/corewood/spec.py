"""The study file: what may stand in it, and what it means.

A study names a model, a task, how to fine-tune (or not), how to search for subnetworks. Every class here is frozen
and forbids unknown keys; `read_study` turns every mistake in a file into one message that names the key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from corewood.errors import InputError, StudyError, nearest

Ablation = Literal["mean", "zero", "resample"]


class Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _label_name(value: object) -> str:
    if isinstance(value, bool):
        said = "yes/true/on" if value else "no/false/off"
        raise ValueError(f"YAML reads an unquoted {said} as a truth value; put the label in quotes")
    return str(value)


LabelName = Annotated[str, BeforeValidator(_label_name)]
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


class SourceSpec(Spec):
    """Where examples come from, and which columns hold what."""

    path: str | None = Field(None, description="CSV, TSV, JSONL, Parquet file or Arrow folder, relative to the study")
    hub: str | None = Field(None, description="a dataset on the hub, instead of a path")
    config: str | None = None
    split: str | None = Field(None, description="split of a hub set or of an Arrow folder with several")
    revision: str | None = None
    format: Literal["csv", "tsv", "jsonl", "parquet", "arrow"] | None = Field(None, description="default: by suffix")
    text: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=2)]
    label: str = "label"
    labels: Mapping[LabelName, LabelName] = Field({}, description="value in the file -> name of the label")
    fold: Mapping[LabelName, LabelName] = Field(
        {}, description="label of the task -> label of this set it counts as, where the two differ"
    )
    case: str | None = Field(None, description="the column that splits a challenge set into cases")
    group: str | None = Field(None, description="a coarser column above the cases")
    limit: int | None = Field(None, ge=1, description="use this many rows, drawn by the study's seed")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give exactly one of 'path' (a file or folder) and 'hub' (a dataset id)")
        return self


class FilesTask(Spec):
    """A task of the user's own files or hub sets."""

    name: str = "task"
    labels: tuple[LabelName, ...] = Field((), description="names of the labels; default: as found in the data")
    train: SourceSpec | None = None
    validation: SourceSpec
    challenge: Mapping[str, SourceSpec] = {}

    @model_validator(mode="after")
    def _names(self) -> Self:
        for taken in ("train", "validation"):
            if taken in self.challenge:
                raise ValueError(f"a challenge set cannot be called {taken!r}; choose another name")
        for key, source in (("train", self.train), ("validation", self.validation)):
            if source is not None and source.case is not None:
                raise ValueError(f"{key}.case: cases belong to challenge sets; give the same file as one of those")
        return self


class GeneratedTask(Spec):
    """The embedded task with a planted shortcut; see docs/methods.md."""

    generated: Literal["overlap"]
    seed: int = Field(0, ge=0)
    train: int = Field(12_000, ge=32)
    validation: int = Field(1_000, ge=16)
    per_case: int = Field(100, ge=2)
    counter: float = Field(0.04, ge=0, le=0.5, description="share of counter-examples in training")

    @property
    def name(self) -> str:
        return self.generated


def _task_kind(value: object) -> str:
    if isinstance(value, GeneratedTask) or (isinstance(value, Mapping) and "generated" in value):
        return "generated"
    return "files"


TaskSpec = Annotated[Annotated[GeneratedTask, Tag("generated")] | Annotated[FilesTask, Tag("files")], Discriminator(_task_kind)]


class FineTune(Spec):
    """Fine-tuning with transformers' Trainer; checkpoints are kept at the given steps, and at the end."""

    steps: int = Field(..., ge=1)
    batch: int = Field(32, ge=1)
    learning_rate: float = Field(5e-5, gt=0)
    warmup: int = Field(0, ge=0, description="steps")
    weight_decay: float = Field(0.0, ge=0)
    seed: int = Field(0, ge=0)
    checkpoints: tuple[Annotated[int, Field(ge=0)], ...] = Field((), description="steps at which to keep the model")
    threads: int = Field(1, ge=1, description="CPU threads of this one job; part of its result to the last bit")

    @model_validator(mode="after")
    def _within(self) -> Self:
        beyond = [c for c in self.checkpoints if c > self.steps]
        if beyond:
            raise ValueError(f"checkpoints {beyond} lie beyond the last step, {self.steps}")
        return self

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(sorted({*self.checkpoints, self.steps}))


class L0(Spec):
    """L0 search: gates of a hard concrete distribution, trained to keep the full model's predictions.

    The defaults are ours. `L0.paper(sparsity)` is the setting of the released code of the Heuristic Core.
    """

    sparsity: Sparsity
    steps: int = Field(200, ge=1)
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
    sparsity: Annotated[tuple[Sparsity, ...], BeforeValidator(_as_list), Field(min_length=1)]
    seeds: int | tuple[int, ...] = Field(6, description="how many, or which")
    preset: Literal["default", "paper"] = "default"
    settings: Mapping[str, Any] = Field({}, description="any field of L0 but sparsity")

    @model_validator(mode="after")
    def _settings(self) -> Self:
        if isinstance(self.seeds, int) and self.seeds < 1:
            raise ValueError("seeds: give at least one")
        for key, given in (("seeds", self.seed_list), ("sparsity", self.sparsity)):
            if len(set(given)) < len(given):
                raise ValueError(f"{key}: a value stands twice in {list(given)}")
        if min(self.seed_list) < 0:
            raise ValueError("seeds: must not be negative")
        if "sparsity" in self.settings:
            raise ValueError("settings: sparsity stands beside settings, not in it")
        unknown = [k for k in self.settings if k not in L0.model_fields]
        if unknown:
            raise ValueError("; ".join(f"settings.{k}: unknown key.{nearest(k, L0.model_fields)}" for k in unknown))
        try:
            for target in self.sparsity:
                self.l0(target)
        except ValidationError as problem:
            wrong = [f"settings.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in problem.errors()]
            raise ValueError("; ".join(wrong)) from None
        return self

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def l0(self, sparsity: float) -> L0:
        preset = paper_l0(sparsity) if self.preset == "paper" else {}
        return L0(sparsity=sparsity, **{**preset, **self.settings})


class StudySpec(Spec):
    """One study."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    model: Annotated[ModelSpec, BeforeValidator(lambda v: {"checkpoint": v} if isinstance(v, str) else v)]
    task: TaskSpec
    fine_tune: FineTune | None = None
    search: SearchSpec
    ablate: Ablation = Field("mean", description="what a closed unit gives instead of its own output")
    sample: int = Field(2048, ge=2, description="training examples the search and the means may use")
    seed: int = Field(0, ge=0, description="draws the sample and the limits")

    @model_validator(mode="after")
    def _training_data(self) -> Self:
        if isinstance(self.task, FilesTask) and self.task.train is None and self.fine_tune is not None:
            raise ValueError("fine_tune needs task.train: the examples to learn from")
        return self


class _Loader(yaml.SafeLoader):
    """YAML without code, and without silently dropping the first of two equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if isinstance(key, (str, int, float)) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_study(path: str | Path, changes: list[str] | None = None) -> StudySpec:
    """Read a study file; `changes` are `key.path=value` strings, the value in YAML."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        beside = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        there = f" In that folder: {', '.join(beside)}." if beside else ""
        raise InputError(f"{path}: there is no such study file.{nearest(path.name, beside) or there}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({problem})") from None
    return parse_study(text, str(path), changes)


def parse_study(text: str, source: str, changes: list[str] | None = None) -> StudySpec:
    try:
        raw = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, TypeError) as problem:  # TypeError: a mapping or list as a key
        raise StudyError(source, [" ".join(str(problem).split())]) from None
    if not isinstance(raw, dict):
        raise StudyError(source, ["the file must be a mapping: name, model, task, search"])
    for change in changes or []:
        _apply(raw, change)
    try:
        return StudySpec.model_validate(raw)
    except ValidationError as problem:
        raise StudyError(source, [_mistake(e) for e in problem.errors(include_url=False)]) from None


def _apply(raw: dict[Any, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals:
        raise InputError(f"--set {change}: write it as key=value, for instance --set search.seeds=12")
    *parents, last = key.split(".")
    place: Any = raw
    for name in parents:
        if isinstance(place, dict) and name == "model" and isinstance(place.get(name), str):
            place[name] = {"checkpoint": place[name]}
        place = place.setdefault(name, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise InputError(f"--set {change}: {'.'.join(parents)} is not a mapping in this study")
    try:
        place[last] = yaml.load(value, Loader=_Loader)
    except yaml.YAMLError:
        raise InputError(f"--set {change}: the value is not valid YAML; quote it") from None


def _mistake(error: Any) -> str:
    """One pydantic error as 'key: what is wrong', with the nearest allowed key where a name is unknown."""
    location = [p for p in error["loc"] if p not in ("generated", "files")]
    key = ".".join(str(p) for p in location)
    if error["type"] == "extra_forbidden":
        allowed = list(_fields_at(error["loc"][:-1]))
        hint = nearest(str(error["loc"][-1]), allowed) or f" Allowed here: {', '.join(allowed)}."
        return f"{key}: unknown key.{hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    if "sparsity" in location and error["type"] in ("greater_than", "less_than"):
        message = "sparsity is the fraction of units removed and must lie between 0 and 1, both excluded"
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float)) and not isinstance(given, bool) else ""
    return f"{key}: {message}{shown}" if key else message


def _fields_at(location: tuple[int | str, ...]) -> Iterator[str]:
    classes: list[type[BaseModel]] = [StudySpec]
    for part in location:
        deeper = [c for cls in classes if part in cls.model_fields for c in _classes(cls.model_fields[str(part)])]
        if part in ("generated", "files"):  # the tag of the union, not a key
            deeper = [GeneratedTask if part == "generated" else FilesTask]
        classes = deeper or classes
    for cls in classes:
        yield from cls.model_fields


def _classes(field: Any) -> Iterator[type[BaseModel]]:
    stack = [field.annotation]
    while stack:
        kind = stack.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        stack.extend(get_args(kind))


def kept_units(units: int, sparsity: float) -> int:
    """How many of `units` stay at this sparsity; at least one, or the request is refused."""
    kept = math.floor(units * (1 - sparsity) + 0.5)
    if kept < 1:
        raise InputError(
            f"search.sparsity: {sparsity} of {units} units leaves none; the largest possible is {1 - 1 / units:.4f}"
        )
    return kept
