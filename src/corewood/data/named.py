"""Tasks by name, for use as a library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corewood.data.labels import normal
from corewood.data.overlap import overlap
from corewood.data.read import check_labels, read_split
from corewood.data.task import Split, Task
from corewood.errors import InputError, nearest
from corewood.spec import FilesTask, GeneratedTask, SourceSpec

NLI = {"text": ["premise", "hypothesis"], "label": "label"}
HANS = {
    **NLI,
    "case": "subcase",
    "group": "heuristic",
    "fold": {"neutral": "non-entailment", "contradiction": "non-entailment"},
}
# name -> labels, and how each split is read unless its file entry says otherwise
KNOWN: dict[str, dict[str, Any]] = {
    "mnli": {
        "labels": ("entailment", "neutral", "contradiction"),
        "columns": {"train": NLI, "validation": NLI, "hans": HANS},
    },
}


def task(name: str, files: Mapping[str, str | Mapping[str, Any]] | None = None, seed: int = 0, **settings: Any) -> Task:
    """A task by name.

    cw.task("overlap")                       the generated one; settings are those of a study's generated task
    cw.task("mnli", files={"train": ..., "validation": ..., "hans": ...})
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
    if "validation" not in files:
        raise InputError("files needs 'validation': the in-domain examples subnetworks are judged on")
    known = KNOWN.get(name, {"labels": (), "columns": {}})
    sources: dict[str, SourceSpec] = {}
    for split, given in files.items():
        content = {"path": given} if isinstance(given, str) else dict(given)
        sources[split] = SourceSpec.model_validate({**known["columns"].get(split, {}), **content})
    challenge = {n: s for n, s in sources.items() if n not in ("train", "validation")}
    spec = FilesTask(
        name=name,
        labels=settings.get("labels", known["labels"]),
        train=sources.get("train"),
        validation=sources["validation"],
        challenge=challenge,
    )
    return read_task(spec, Path(), seed)[0]


def read_task(spec: FilesTask | GeneratedTask, base: Path, seed: int) -> tuple[Task, list[str]]:
    """The task of a study, and notes on its files."""
    if isinstance(spec, GeneratedTask):
        return overlap(spec.seed, spec.train, spec.validation, spec.per_case, spec.counter), []
    notes: list[str] = []

    def read(name: str, source: SourceSpec) -> Split:
        split, said = read_split(name, source, base, seed)
        notes.extend(said)
        return split

    train = read("train", spec.train) if spec.train else None
    validation = read("validation", spec.validation)
    labels = spec.labels or (train or validation).labels
    train = check_labels(train, labels, "task.train") if train else None
    validation = check_labels(validation, labels, "task.validation")
    challenge = {}
    for name, source in spec.challenge.items():
        split = read(name, source)
        fold = {normal(one): other for one, other in split.fold.items()}
        wanted = tuple(dict.fromkeys(fold.get(normal(label), label) for label in labels))
        challenge[name] = check_labels(split, wanted, f"task.challenge.{name}")
    return Task(spec.name, labels, train, validation, challenge), notes
