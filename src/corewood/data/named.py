"""Tasks by name, or of data in memory, for use as a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, TypeVar

import pandas as pd

from corewood.data.files import Rows, dataset_rows, plain_rows
from corewood.data.labels import check_spellings, normal
from corewood.data.overlap import overlap
from corewood.data.read import check_labels, read_split
from corewood.data.task import Split, Task, a_kind
from corewood.errors import InputError, SettingError, nearest
from corewood.spec.base import Spec
from corewood.spec.tasks import GLUE_LABELS, GLUE_METRICS, FilesTask, GeneratedTask, GlueTask, SourceSpec

# name -> the layout of each split unless its entry says otherwise
KNOWN = {name: {"train": name, "validation": name} for name in GLUE_LABELS}
KNOWN["mnli"]["hans"] = "hans"
KNOWN["qqp"]["paws"] = "paws"
# what columns with texts are usually called, in the order in which they are looked for
USUAL = (
    ("first", "second"), ("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"),
    ("question", "sentence"), ("text",), ("sentence",), ("first",),
)  # fmt: skip

S = TypeVar("S", bound=Spec)
Examples = pd.DataFrame | Split | Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | PurePath | Any
"""A data frame, a `datasets.Dataset`, a dict of columns, a list of dicts, a Split; a path, or a dict with the keys of a study's
source, such as path or hub."""


def task(
    name: str = "task",
    files: Mapping[str, Examples] | None = None,
    seed: int = 0,
    *,
    train: Examples | None = None,
    validation: Examples | None = None,
    challenge: Mapping[str, Examples] | None = None,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    case: str | None = None,
    group: str | None = None,
    labels: Sequence[str] | Mapping[Any, str] | None = None,
    fold: Mapping[str, str] | None = None,
    metric: str | None = None,
    **settings: Any,
) -> Task:
    """A task: of your own data, or one that is known by name.

    `train`, `validation` and each of `challenge` is a pandas data frame, a `datasets.Dataset`, a dict of columns, a list of
    dicts, or a path (CSV, TSV, JSONL, Parquet, Arrow folder). `text` names the column of the text, or the two of a pair,
    `label` the column of the right answer; `case` and `group` are columns of the challenge sets. Of data in memory the usual
    names are looked for where you name none: premise and hypothesis, text, label, case and so on. `labels` are the names of the
    labels or, as a mapping, what values in the data are called, {0: "no", 1: "yes"}. `fold` says what labels of the task count
    as in the challenge sets, where these have others. `metric` may be accuracy, matthews, or pearson for labels that are
    numbers.

    Sets known by name need their files alone: `cw.task("mnli", files={"train": ..., "validation": ..., "hans": ...})`, also
    qqp with paws, and all other sets of GLUE; in `files`, any name but train and validation is a challenge set.
    `cw.task("overlap")` is generated and needs nothing; its settings are those of a study's generated task.

    Example:
        >>> frame = pd.DataFrame({"review": ["Great!", "Dull.", "Fine.", "Awful."], "stars": [1, 0, 1, 0]})
        >>> task = cw.task(
        ...     validation=frame,
        ...     challenge={"short": frame.assign(kind=["praise", "blame"] * 2)},
        ...     text="review",
        ...     label="stars",
        ...     case="kind",
        ...     labels={0: "negative", 1: "positive"},
        ... )
        >>> task
        <Task task: validation 4, short 4 (2 cases); labels negative, positive>
        >>> cw.task("overlap", train=100, validation=20, per_case=2).validation
        <Split validation: 20 examples, labels entailment, non-entailment>
    """
    if not isinstance(name, str):
        raise InputError(f"task: its first argument is a name, not {a_kind(name)}; data go into cw.task(validation=...)")
    sizes = {key: size for key, size in (("train", train), ("validation", validation)) if size is not None}
    if name == "overlap" and files is None and challenge is None and all(isinstance(size, int) for size in sizes.values()):
        return read_task(made(GeneratedTask, "task", generated=name, seed=seed, **sizes, **settings), Path(), seed)[0]
    if settings:
        known = "train validation challenge text label case group labels fold metric files seed".split()
        raise InputError(f"task: unknown argument {next(iter(settings))!r}.{nearest(next(iter(settings)), known)}")
    for key, several in (("files", files), ("challenge", challenge)):
        if several is not None and not isinstance(several, Mapping):
            raise InputError(f"task: {key} are sets by name, {key}={{'hard': ...}}, not {a_kind(several)}")
    if isinstance(labels, str):
        raise InputError(f"task: labels={labels!r}: give a list of names, or what values are called, {{0: 'no', 1: 'yes'}}")
    for taken in challenge or {}:
        if taken in ("train", "validation", *(files or {})):
            raise InputError(f"task: a challenge set cannot be called {taken!r}, as another set is; choose another name")
    given = {**(files or {}), **sizes, **(challenge or {})}
    if not given:
        raise InputError(
            f"task {name!r} needs data: cw.task({name!r}, train=..., validation=..., challenge={{...}}); "
            f"the one that needs none is 'overlap'.{nearest(name, ['overlap'])}"
        )
    if "validation" not in given:
        raise InputError("task: validation is missing: the in-domain examples that subnetworks are judged on")
    learnt = [given[split] for split in ("train", "validation") if split in given]
    splits = [data for data in learnt if isinstance(data, Split)]
    if metric is None and splits and all(data.regression for data in splits):
        metric = "pearson"
    if labels is None and name not in GLUE_LABELS and len(splits) == len(learnt) and not any(data.fold for data in splits):
        labels = [*dict.fromkeys(label for data in splits for label in data.labels)] or None
    layouts = KNOWN.get(name, {})
    names = {str(value): named for value, named in labels.items()} if isinstance(labels, Mapping) else {}
    texts = None if text is None else [column_name(part) for part in ([text] if isinstance(text, str | int) else text)]
    everywhere = {"text": texts, "label": column_name(label), "labels": names or None}
    beside = {**everywhere, "case": column_name(case), "group": column_name(group), "fold": fold}
    sources: dict[str, SourceSpec] = {}
    rows: dict[str, Rows] = {}
    for split, data in given.items():
        inside = split in ("train", "validation")
        place = f"task.{split}" if inside else f"task.challenge.{split}"
        columns = {key: value for key, value in (everywhere if inside else beside).items() if value is not None}
        if split in layouts and "text" not in columns:
            columns["layout"] = layouts[split]
        sources[split], found = source_of(data, place, columns)
        if found is not None:
            rows[place] = found
    spec = made(
        FilesTask,
        "task",
        name=name,
        labels=tuple(dict.fromkeys(names.values())) or (GLUE_LABELS.get(name, ()) if labels is None else tuple(labels)),
        metric=metric or GLUE_METRICS.get(name, "accuracy"),
        train=(sources.pop("train"),) if "train" in sources else (),
        validation={"": sources.pop("validation")},
        challenge=sources,
    )
    return read_task(spec, Path(), seed, rows=rows)[0]


def column_name(given: Any) -> Any:
    """As `plain_rows` calls it: a frame that was given none has numbers."""
    return str(given) if isinstance(given, int) else given


def made(kind: type[S], who: str, **settings: Any) -> S:
    """A part of a study, its mistakes told as those of `who`."""
    try:
        return kind(**settings)
    except SettingError as problem:
        raise InputError(f"{who}{str(problem).removeprefix(kind.__name__)}") from None


def source_of(data: Examples, place: str, columns: Mapping[str, Any]) -> tuple[SourceSpec, Rows | None]:
    """Where examples are and which columns hold what; their rows, where they are in memory."""
    if isinstance(data, (str, PurePath)):
        return made(SourceSpec, place, **{**columns, "path": str(data)}), None
    if isinstance(data, Mapping) and any(isinstance(data.get(key), (str, PurePath)) for key in ("path", "hub")):
        own = {key: str(value) if isinstance(value, PurePath) else value for key, value in data.items()}
        usual = {key: value for key, value in columns.items() if key != "layout" or "text" not in own}
        return made(SourceSpec, place, **{**usual, **own}), None
    if isinstance(data, Split):
        own = {name: name for name in ("label", "case", "group") if name in data.frame}
        rows = data.frame.reset_index(drop=True)
        return made(SourceSpec, place, path=place, text=[*data.texts], fold=data.fold, **own), (rows, {}, [])
    found = rows_of(data, place)
    there = [str(column) for column in found[0].columns]
    if "text" not in columns and "layout" not in columns:
        text = next((names for names in USUAL if set(names) <= set(there)), None)
        if text is None:
            raise InputError(f"{place}: which column holds the text? Say text=..., one name or two; it has: {', '.join(there)}")
        columns = {**columns, "text": text}
    usual = {name: name for name in ("case", "group") if ".challenge." in place and name in there}
    return made(SourceSpec, place, **{**usual, **columns, "path": place}), found  # not read: its rows are here


def rows_of(data: Any, place: str) -> Rows:
    """Of a data frame, a `datasets.Dataset`, a dict of columns, or a list of dicts."""
    if type(data).__module__.startswith("datasets.") and type(data).__name__ == "Dataset":
        return dataset_rows(data)
    if isinstance(data, pd.DataFrame):
        return plain_rows(data), {}, []
    try:
        if isinstance(data, Mapping):
            return plain_rows(pd.DataFrame(dict(data))), {}, []
        if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
            return plain_rows(pd.DataFrame([*data])), {}, []
    except ValueError as problem:
        raise InputError(f"{place}: its columns do not make a table ({problem})") from None
    raise InputError(
        f"{place}: examples are a pandas DataFrame, a datasets.Dataset, a dict of columns, a list of dicts or a path, "
        f"not {a_kind(data)}"
    )


def read_task(
    spec: FilesTask | GlueTask | GeneratedTask, base: Path, seed: int, key: str = "task", rows: Mapping[str, Rows] | None = None
) -> tuple[Task, list[str]]:
    """The task of a study, and notes on its files; `key` is where it stands in the study. `rows`: those in memory, by place."""
    if isinstance(spec, GeneratedTask):
        return overlap(spec.seed, spec.train, spec.validation, spec.per_case, spec.counter), []
    if isinstance(spec, GlueTask):
        spec = spec.files()
    regression = spec.metric == "pearson"
    notes: list[str] = []

    def read(name: str, source: SourceSpec, place: str, cases: bool = False) -> Split:
        split, said = read_split(name, source, base, seed, regression, place, cases, (rows or {}).get(place))
        notes.extend(said)
        return split

    many = len(spec.train) > 1
    places = [f"{key}.train.{i}" if many else f"{key}.train" for i in range(len(spec.train))]
    parts = [read("train", source, place) for source, place in zip(spec.train, places, strict=True)]
    inside: dict[str, Split] = {}  # what is in domain, by its place in the study; the first decides
    for name, source in spec.validation.items():
        place = f"{key}.validation.{name}".removesuffix(".")
        inside[place] = read(name if inside else "validation", source, place)
    validation = next(iter(inside.values()))
    labels = spec.labels or (parts[0] if parts else validation).labels
    check_spellings(labels, key)
    parts = [check_labels(part, labels, place) for part, place in zip(parts, places, strict=True)]
    together = pd.concat([p.frame for p in parts], ignore_index=True) if parts else pd.DataFrame()
    if together.isna().any(axis=None):
        raise InputError(f"{key}.train: some of its files hold pairs of texts and some single texts; mix files of one kind")
    fold = {one: other for part in parts for one, other in part.fold.items()}
    train = Split("train", together, labels, fold) if parts else None
    validation, *also = (check_labels(split, labels, place) for place, split in inside.items())
    if train is not None and ("second" in train.frame) != ("second" in validation.frame):
        raise InputError(f"{key}.train.text: training and validation must both be single texts or both pairs")
    if many:
        shares = [f"{len(part)} from {source.path or source.hub}" for part, source in zip(parts, spec.train, strict=True)]
        notes.append(f"train: a mixture of {', '.join(shares)}")
    challenge = {name: read(name, source, f"{key}.challenge.{name}", cases=True) for name, source in spec.challenge.items()}
    for place, split in {**inside, **{f"{key}.challenge.{name}": split for name, split in challenge.items()}}.items():
        if ("second" in split.frame) != ("second" in validation.frame):
            kind = "pairs of texts" if "second" in validation.frame else "single texts"
            raise InputError(f"{place}.text: the validation set has {kind}; give the same here")
    for name, split in challenge.items():
        fold = {normal(one): other for one, other in split.fold.items()}
        wanted = tuple(dict.fromkeys(fold.get(normal(label), label) for label in labels))
        challenge[name] = check_labels(split, wanted, f"{key}.challenge.{name}")
    return Task(spec.name, labels, train, validation, challenge, spec.metric, {split.name: split for split in also}), notes
