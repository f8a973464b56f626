"""Labels are matched by name, never by position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from corewood.data.task import Split, Task
from corewood.errors import InputError


def normal(label: str) -> str:
    """Names that differ only in case, spaces, hyphens and underscores are the same label."""
    return re.sub(r"[\s_-]+", " ", label.strip()).casefold()


def nearest_label(given: str, labels: Sequence[str]) -> str | None:
    """The one that is surely meant, but for its spelling. A negation is never taken for what it negates: that would turn
    the data around."""
    alike = {normal(label): label for label in labels if negated(label) == negated(given)}
    near = get_close_matches(normal(given), list(alike), n=1, cutoff=0.7)
    return alike[near[0]] if near else None


def negated(label: str) -> bool:
    return re.match(r"(non|not|no|un|in|im|dis)\B|(not|no|non)\b", normal(label)) is not None


def classes_of(task: Task) -> tuple[str, ...]:
    """What the outputs of a model of this task are called: its labels, or the one score."""
    return task.labels or ("score",)


def fold_classes(classes: Sequence[str], split: Split) -> np.ndarray:
    """(class,) which label of the split each class of the model counts as."""
    if split.regression:
        if len(classes) != 1:
            raise InputError(
                f"{split.name}: its labels are numbers, for which a model needs one output; this one has {len(classes)} "
                f"({', '.join(classes)}). Fine-tune it on the task, or give a checkpoint that was trained to give a score"
            )
        return np.array([0])
    if any(re.fullmatch(r"LABEL_\d+", name) for name in classes):  # what a config has that names none
        raise InputError(
            f"the checkpoint calls its classes {', '.join(classes)}, so their order is unknown; set model.labels to the "
            f"names in the order of the logits, for instance model.labels: [{', '.join(split.labels)}]; in Python, "
            f"cw.load(checkpoint, labels=[...]) or, of a net in memory, net.config.id2label = {dict(enumerate(split.labels))}"
        )
    places = {normal(label): index for index, label in enumerate(split.labels)}
    fold = {normal(one): normal(other) for one, other in split.fold.items()}
    folded = [places.get(fold.get(normal(name), normal(name)), -1) for name in classes]
    strangers = [name for name, place in zip(classes, folded, strict=True) if place < 0]
    if strangers:
        shown = " and ".join(map(repr, strangers))
        blanks = ", ".join(f"{name}: ..." for name in strangers)
        raise InputError(
            f"{split.name}: the model's {shown} is no label here (labels: {', '.join(split.labels)}). If no example has it, "
            f"name all labels in the task, labels: [{', '.join(classes)}]; if it counts as another, say as which with "
            f"fold: {{{blanks}}}; or rename labels of the file with labels: {{...}}"
        )
    never = [repr(label) for index, label in enumerate(split.labels) if index not in folded]
    if never:
        raise InputError(
            f"{split.name}: no class of the model ({', '.join(classes)}) counts as {' and '.join(never)}; "
            "rename labels of the file with labels: {...} or fold classes with fold: {...}"
        )
    return np.array(folded)


def check_spellings(labels: Sequence[str], key: str) -> None:
    for label in labels:
        same = [other for other in labels if normal(other) == normal(label)]
        if len(same) > 1:
            shown = " and ".join(map(repr, same))
            raise InputError(f"{key}: {shown} are one label, and it stands twice; spell it in one way, with labels: {{...}}")


def describe(classes: Sequence[str], split: Split) -> str:
    """The mapping in words, for the terminal and the store."""
    fold = fold_classes(classes, split)
    if split.regression:
        return f"0 {classes[0]}, a number"
    return ", ".join(
        f"{i} {name}" + ("" if normal(name) == normal(split.labels[k]) else f" -> {split.labels[k]}")
        for i, (name, k) in enumerate(zip(classes, fold, strict=True))
    )


def gold_classes(classes: Sequence[str], split: Split) -> np.ndarray:
    """(example,) the right class of the model, or the right number."""
    if split.regression:
        return split.gold
    place = {label: c for c, label in enumerate(fold_classes(classes, split))}  # label of the split -> class
    return np.array([place[label] for label in split.gold])
