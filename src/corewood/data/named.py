"""Tasks by name, for use as a library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from corewood.data.labels import normal
from corewood.data.overlap import overlap
from corewood.data.read import check_labels, read_split
from corewood.data.task import Split, Task
from corewood.errors import InputError, nearest
from corewood.spec.tasks import GLUE_LABELS, GLUE_METRICS, FilesTask, GeneratedTask, GlueTask, SourceSpec

# name -> the layout of each split unless its entry says otherwise
KNOWN = {name: {"train": name, "validation": name} for name in GLUE_LABELS}
KNOWN["mnli"]["hans"] = "hans"
KNOWN["qqp"]["paws"] = "paws"


def task(
    name: str, files: Mapping[str, str | PurePath | Mapping[str, Any]] | None = None, seed: int = 0, **settings: Any
) -> Task:
    """A task by name.

    cw.task("overlap")                       the generated one; settings are those of a study's generated task
    cw.task("mnli", files={"train": ..., "validation": ..., "hans": ...})      also: qqp with paws, and all other sets of GLUE
    cw.task("anything", files={"validation": {"path": ..., "text": [...], "label": ...}, ...})

    In `files`, "train" and "validation" are what they say, any other name is a challenge set. A plain path is read with the
    columns known for that name; a mapping has the keys of a study's source.
    """
    if files is None:
        if name != "overlap":
            raise InputError(
                f"task {name!r} needs files={{...}}; the one that needs none is 'overlap'.{nearest(name, ['overlap'])}"
            )
        return read_task(GeneratedTask(generated="overlap", seed=seed, **settings), Path(), seed)[0]
    unknown = [key for key in settings if key not in ("labels", "metric")]
    if unknown:
        raise InputError(f"task: unknown argument {unknown[0]!r}.{nearest(unknown[0], ['labels', 'metric', 'files', 'seed'])}")
    if "validation" not in files:
        raise InputError("files needs 'validation': the in-domain examples subnetworks are judged on")
    layouts = KNOWN.get(name, {})
    sources: dict[str, SourceSpec] = {}
    for split, given in files.items():
        content = {"path": str(given)} if isinstance(given, (str, PurePath)) else dict(given)
        if split in layouts and "text" not in content:
            content = {"layout": layouts[split], **content}
        sources[split] = SourceSpec.model_validate(content)
    spec = FilesTask(
        name=name,
        labels=settings.get("labels", GLUE_LABELS.get(name, ())),
        metric=settings.get("metric", GLUE_METRICS.get(name, "accuracy")),
        train=(sources.pop("train"),) if "train" in sources else (),
        validation={"": sources.pop("validation")},
        challenge=sources,
    )
    return read_task(spec, Path(), seed)[0]


def read_task(spec: FilesTask | GlueTask | GeneratedTask, base: Path, seed: int, key: str = "task") -> tuple[Task, list[str]]:
    """The task of a study, and notes on its files; `key` is where it stands in the study."""
    if isinstance(spec, GeneratedTask):
        return overlap(spec.seed, spec.train, spec.validation, spec.per_case, spec.counter), []
    if isinstance(spec, GlueTask):
        spec = spec.files()
    regression = spec.metric == "pearson"
    notes: list[str] = []

    def read(name: str, source: SourceSpec, place: str, cases: bool = False) -> Split:
        split, said = read_split(name, source, base, seed, regression, place, cases)
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
    parts = [check_labels(part, labels, place) for part, place in zip(parts, places, strict=True)]
    train = Split("train", pd.concat([p.frame for p in parts], ignore_index=True), labels) if parts else None
    validation, *also = (check_labels(split, labels, place) for place, split in inside.items())
    if train is not None and ("second" in train.frame) != ("second" in validation.frame):
        raise InputError(f"{key}.train.text: training and validation must both be single texts or both pairs")
    if train is not None and train.frame.isna().any(axis=None):
        raise InputError(f"{key}.train: some of its files hold pairs of texts and some single texts; mix files of one kind")
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
