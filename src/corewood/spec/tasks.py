"""The task of a study: its own files, a set of GLUE, or the generated one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, FieldSerializationInfo, Tag, field_serializer, model_validator

from corewood.spec.base import MOST_EXAMPLES, Seed, Spec, any_number, listed

Metric = Literal["accuracy", "matthews", "pearson"]
GlueName = Literal["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"]
Layout = Literal["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "hans", "paws"]

# names in the order of the hub's numbers; scores have none
GLUE_LABELS: dict[str, tuple[str, ...]] = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "stsb": (),
    "qqp": ("not equivalent", "equivalent"),  # the hub says not_duplicate, duplicate; these are the words of PAWS, too
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "wnli": ("not_entailment", "entailment"),
}
MOST_GENERATED = 200_000  # examples, made in seconds
GLUE_METRICS: dict[str, Metric] = {**dict.fromkeys(GLUE_LABELS, "accuracy"), "cola": "matthews", "stsb": "pearson"}


def _label_name(value: object) -> str:
    if isinstance(value, bool):
        said = "yes/true/on" if value else "no/false/off"
        raise ValueError(f"YAML reads an unquoted {said} as a truth value; put the label in quotes")
    if value is None or isinstance(value, (list, tuple, Mapping)):
        raise ValueError("a label is one word or number")
    return str(value)


LabelName = Annotated[str, BeforeValidator(_label_name, json_schema_input_type=str | int | float)]


class SourceSpec(Spec):
    """Where examples come from, and which columns hold what.

    `layout` names a set whose columns, labels and cases are known (data/layouts.py); keys given beside it go before it.
    """

    path: str | None = Field(None, description="CSV, TSV, JSONL, Parquet file or Arrow folder, relative to the study")
    hub: str | None = Field(None, description="a dataset on the hub, instead of a path")
    config: str | None = Field(None, description="of a hub set")
    split: str | None = Field(None, description="of a hub set, or of an Arrow folder that has splits; default: train")
    revision: str | None = Field(None, description="of a hub set; default: the newest")
    format: Literal["csv", "tsv", "jsonl", "parquet", "arrow"] | None = Field(
        None, description="of the file; default: by suffix"
    )
    layout: Layout | None = Field(None, description="a set whose columns, labels and cases are known")
    text: Annotated[tuple[str, ...], Field(max_length=2), listed(str, 2)] = Field(
        (), description="the column that holds the text, or two for pairs"
    )
    label: str | None = Field(None, description="the column of the label; default: label")
    labels: Mapping[LabelName, LabelName] = Field({}, description="value in the file -> name of the label")
    fold: Mapping[LabelName, LabelName] = Field(
        {}, description="label of the task -> label of this set it counts as, where the two differ"
    )
    case: str | None = Field(None, description="the column that splits a challenge set into cases")
    group: str | None = Field(None, description="a coarser column above the cases")
    only: Mapping[str, Annotated[tuple[LabelName, ...], listed(LabelName)]] = Field(
        {}, description="column -> values: use the rows that have one of them"
    )
    broken: Literal["refuse", "drop"] = Field("refuse", description="what to do with lines of a TSV that lack fields")
    limit: int | None = Field(
        None,
        ge=1,
        le=MOST_EXAMPLES,
        description="so many rows, drawn by the study's seed; with cases, evenly over them; default: all",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give exactly one of 'path' (a file or folder) and 'hub' (a dataset id)")
        for key in ("config", "revision"):
            if self.path is not None and getattr(self, key) is not None:
                raise ValueError(f"{key}: is of a hub set, and this is a path; leave it out")
        if self.hub is not None and self.format is not None:
            raise ValueError("format: is of a file, and this is a hub set; leave it out")
        if not self.text and self.layout is None:
            raise ValueError("text: which column holds the text? One name, two for pairs, or a layout that knows them")
        return self


def one_or_several(validation: object) -> object:
    """One set has no name, and its keys are those of a source."""
    named = validation.items() if isinstance(validation, Mapping) else ()
    several = [n not in SourceSpec.model_fields and isinstance(source, (Mapping, SourceSpec)) for n, source in named]
    return validation if several and all(several) else {"": validation}


def _check_sources(
    metric: str,
    train: tuple[SourceSpec, ...],
    validation: Mapping[str, SourceSpec],
    challenge: Mapping[str, SourceSpec],
) -> None:
    for taken in ("train", "validation", *[*validation][1:]):
        if taken in challenge:
            raise ValueError(f"a challenge set cannot be called {taken!r}; choose another name")
    for taken in ("train", "validation", "search", "report"):
        if taken in validation:
            raise ValueError(f"validation.{taken}: no set can be called that; choose another name")
    inside = {f"validation.{name}".removesuffix("."): source for name, source in validation.items()}
    for key, source in (*(("train", s) for s in train), *inside.items()):
        if source.case is not None:
            raise ValueError(f"{key}.case: cases belong to challenge sets; give the same file as one of those")
    if metric == "pearson":
        named = {"train": train, **{key: (s,) for key, s in inside.items()}}
        named |= {f"challenge.{n}": (s,) for n, s in challenge.items()}
        for key, sources in named.items():
            if any(s.labels or s.fold for s in sources):
                why = "with metric pearson labels are numbers, which have no names"
                raise ValueError(f"{key}: {why}; leave out labels and fold")


class FilesTask(Spec):
    """A task of the user's own files or hub sets."""

    name: str = Field("task", description="what tables call it; in `tasks`, the name given there")
    labels: tuple[LabelName, ...] = Field((), description="their names; default: as found in the data, sorted")
    metric: Metric = Field(
        "accuracy", description="of the validation set; with pearson the labels are numbers, and the model has one output"
    )
    train: Annotated[tuple[SourceSpec, ...], any_number(SourceSpec)] = Field(
        (), description="one source, or a list: a mixture, each with its own limit"
    )
    validation: Annotated[
        Mapping[str, SourceSpec],
        BeforeValidator(one_or_several, json_schema_input_type=SourceSpec | Mapping[str, SourceSpec]),
    ] = Field(..., description="one source, or several by name: all are reported, and the first decides where one is needed")
    challenge: Mapping[str, SourceSpec] = Field({}, description="name -> a source, each with its cases")

    @field_serializer("validation")
    def _as_written(self, validation: Mapping[str, SourceSpec], info: FieldSerializationInfo) -> Any:
        made = {name: s.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults) for name, s in validation.items()}
        return made.get("", made)

    @model_validator(mode="after")
    def _names(self) -> Self:
        _check_sources(self.metric, self.train, self.validation, self.challenge)
        if self.metric == "pearson" and self.labels:
            raise ValueError("labels: with metric pearson labels are numbers, which have no names; leave labels out")
        return self


class GlueTask(Spec):
    """A set of GLUE, from the hub or from a folder with GLUE's own train.tsv and dev.tsv."""

    glue: GlueName = Field(..., description="which of the nine")
    folder: str | None = Field(None, description="of GLUE's own files; default: from the hub")
    revision: str | None = Field(None, description="of the hub set; default: the newest")
    train_limit: int | None = Field(
        None, ge=1, le=MOST_EXAMPLES, description="so many rows, drawn by the study's seed; default: all"
    )
    validation_limit: int | None = Field(None, ge=1, le=MOST_EXAMPLES, description="the same for validation; default: all")
    challenge: Mapping[str, SourceSpec] = Field({}, description="name -> a source, each with its cases")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.folder is not None and self.revision is not None:
            raise ValueError("revision: belongs to the hub set; leave it out where a folder is given")
        train, validation = self._sources()
        _check_sources(self.metric, train, {"": validation}, self.challenge)
        return self

    @property
    def name(self) -> str:
        return self.glue

    @property
    def metric(self) -> Metric:
        return GLUE_METRICS[self.glue]

    def files(self) -> FilesTask:
        """The same task in full."""
        train, validation = self._sources()
        facts = {"name": self.glue, "labels": GLUE_LABELS[self.glue], "metric": self.metric}
        return FilesTask.model_validate({**facts, "train": train, "validation": validation, "challenge": self.challenge})

    def _sources(self) -> tuple[tuple[SourceSpec, ...], SourceSpec]:
        matched = "_matched" if self.glue == "mnli" else ""
        train = self._source("train", "train", self.train_limit)
        return (train,), self._source(f"dev{matched}", f"validation{matched}", self.validation_limit)

    def _source(self, file: str, split: str, limit: int | None) -> SourceSpec:
        place = {"hub": "nyu-mll/glue", "config": self.glue, "split": split}
        if self.folder is not None:
            place = {"path": str(PurePath(self.folder) / f"{file}.tsv")}
        return SourceSpec.model_validate({**place, "revision": self.revision, "layout": self.glue, "limit": limit})


class GeneratedTask(Spec):
    """The embedded task with a planted shortcut; see docs/methods.md."""

    generated: Literal["overlap"] = Field(..., description="the only one")
    seed: Seed = Field(0, description="of the examples")
    train: int = Field(12_000, ge=32, le=MOST_GENERATED, description="examples to learn from")
    validation: int = Field(1_000, ge=16, le=MOST_GENERATED, description="examples in domain")
    per_case: int = Field(100, ge=2, le=MOST_GENERATED // 20, description="examples of each case")
    counter: float = Field(0.04, ge=0, le=0.5, description="share of counter-examples in training")

    @property
    def name(self) -> str:
        return self.generated

    @property
    def metric(self) -> Metric:
        return "accuracy"


TASK_KINDS: dict[str, type[Spec]] = {"generated": GeneratedTask, "glue": GlueTask, "files": FilesTask}


def _task_kind(value: object) -> str:
    """The key that only one kind has; without such a key, files."""
    for tag, kind in TASK_KINDS.items():
        if isinstance(value, kind) or (isinstance(value, Mapping) and tag in value):
            return tag
    return "files"


TaskSpec = Annotated[
    Annotated[GeneratedTask, Tag("generated")] | Annotated[GlueTask, Tag("glue")] | Annotated[FilesTask, Tag("files")],
    Discriminator(_task_kind),
]
