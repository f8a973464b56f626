"""An audit: a checkpoint and files become a study. What is guessed is shown, tried on the model where it could be wrong, and
written down in a study file, which is then run as any other."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.optimize import linear_sum_assignment

from corewood.data.encode import encode
from corewood.data.files import check_twice, file_rows
from corewood.data.guess import Columns, Wanted, columns_of, label_values, option, refold, text_and_label
from corewood.data.labels import fold_classes
from corewood.data.layouts import Known
from corewood.data.read import check_labels, read_split
from corewood.errors import InputError, nearest
from corewood.evaluate.predict import logits_of
from corewood.model.load import check_finite, check_head, class_names, load, read_config, resolve
from corewood.spec import SourceSpec
from corewood.spec.loader import load_yaml
from corewood.spec.schema import SCHEMA, modeline
from corewood.spec.study import slug
from corewood.untrusted import user_path

TRIED = 256  # validation examples on which the labels are tried
CLEAR = 0.15  # on so many more of these another reading must be right to doubt the one that was taken, and on more than chance
TAKEN = ("train", "validation", "search", "report", "all", "focus", "mixed")  # no challenge set can be called so
VAGUE = ("dev", "test", "data", "eval", "challenge")  # files that are called so are known by their folder
SEAL = "# Written by `corewood audit` ({}). Change it as you like: a file that was changed is not written over."


@dataclass(frozen=True)
class Asked:
    """What the user wants audited."""

    checkpoint: str
    validation: Path
    challenge: tuple[Path, ...]
    train: Path | None = None
    wanted: Wanted = field(default_factory=Wanted)
    classes: tuple[str, ...] = ()  # names of the classes in the order of the logits, where the checkpoint has none
    pad_token: str | None = None
    limit: int | None = None
    steps: int = 0  # of fine-tuning before all else; 0: the checkpoint as it is

    @property
    def files(self) -> dict[str, Path]:
        """Key in the study -> file."""
        named: dict[str, Path] = {} if self.train is None else {"train": self.train}
        named["validation"] = self.validation
        for path in self.challenge:
            stem = slug(path.stem)
            name = slug(path.absolute().parent.name) if stem in (*TAKEN, *VAGUE) else stem
            name = f"{name}-set" if name in TAKEN else name
            others = (f"{name}-{i}" for i in range(2, 99))
            while f"challenge.{name}" in named:
                name = next(others)
            named[f"challenge.{name}"] = path
        return named


@dataclass(frozen=True)
class Guess:
    """What was made of it."""

    asked: Asked
    classes: tuple[str, ...]
    named: bool  # whether the study must name the classes, because the checkpoint does not
    files: Mapping[str, Columns] = field(default_factory=dict)  # by key in the study

    @property
    def notes(self) -> list[str]:
        return [note for columns in self.files.values() for note in columns.notes]

    @property
    def unsure(self) -> bool:
        """Whether labels were matched by their number alone."""
        return any(columns.by == "number" for columns in self.files.values())


def rows_of(path: Path, option: str) -> pd.DataFrame:
    path = user_path(path, key=option)
    if not path.exists():
        near = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
        raise InputError(f"{option} {path}: there is no such file.{nearest(path.name, near)}")
    frame, classes, _ = file_rows(path, SourceSpec.model_validate({"path": str(path), "text": "?"}), Known((), ("label",)))
    if frame.empty:
        raise InputError(f"{option} {path}: no rows; give a file with examples")
    check_twice(frame, f"{option} {path}")
    for column, names in classes.items():  # an Arrow folder may carry the names of its numbers
        numbers = {str(number): name for number, name in enumerate(names)}
        frame[column] = frame[column].map(lambda v, known=numbers: known.get(str(v).removesuffix(".0"), str(v)), "ignore")
    return frame


def guess(asked: Asked) -> Guess:
    """Reads the files and the checkpoint's config; refuses what could be one or the other."""
    config = read_config(resolve(asked.checkpoint))
    if not asked.steps:
        check_classifier(asked, config)
    frames = {key: rows_of(path, f"--{key.partition('.')[0]}") for key, path in asked.files.items()}
    if asked.steps:
        classes, named = learnt_classes(asked, frames), False
    else:
        classes, named = known_classes(asked, class_names(config), frames["validation"])
    task = columns_of(frames["validation"], classes, asked.wanted, str(asked.validation))
    made = {}
    for key, frame in frames.items():
        hard = key.startswith("challenge")
        made[key] = columns_of(frame, classes, asked.wanted, str(asked.files[key]), hard, layouts=not task.fold)
        if task.fold and key != "validation":
            made[key] = refold(made[key], label_values(frame[made[key].label]), task)
        if named and not asked.classes and made[key].by == "name":  # nobody named them: a number is only a place
            made[key] = replace(made[key], by="number")
    check_said(asked, made, frames)
    check_alike(asked, made, frames)
    return Guess(asked, classes, named, made)


def check_classifier(asked: Asked, config: Any) -> None:
    if config.num_labels == 1:
        raise InputError(
            f"{asked.checkpoint}: gives one number, and this is about classes; write a study with metric: pearson and "
            "prune.importance (docs/study-file.md)"
        )
    check_head(resolve(asked.checkpoint), name=asked.checkpoint)


def learnt_classes(asked: Asked, frames: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Of a model that will be fine-tuned: what its training labels are called."""
    if "train" not in frames:
        raise InputError("fine-tuning needs --train: the examples to learn from")
    _, label = text_and_label(frames["train"], (), asked.wanted, str(asked.train))
    values = label_values(frames["train"][label])
    return tuple(dict.fromkeys(asked.wanted.labels.get(value, value) for value in values))


def known_classes(asked: Asked, own: tuple[str, ...], validation: pd.DataFrame) -> tuple[tuple[str, ...], bool]:
    """The names of the classes, and whether they are not the checkpoint's own."""
    if asked.classes:
        if len(asked.classes) != len(own):
            raise InputError(f"--classes: {len(asked.classes)} names, and the model has {len(own)} classes ({', '.join(own)})")
        return asked.classes, True
    if not any(re.fullmatch(r"LABEL_\d+", name) for name in own):
        return own, False
    numbers = tuple(map(str, range(len(own))))
    _, label = text_and_label(validation, (), asked.wanted, str(asked.validation))
    values = label_values(validation[label])
    if {*asked.wanted.labels.values(), *(v for v in values if v not in asked.wanted.labels)} <= {*numbers}:
        return numbers, True
    said = list(dict.fromkeys(asked.wanted.labels.values())) or values
    raise InputError(
        f"{asked.checkpoint}: calls its classes {', '.join(own)}, so which is which is not known; name them in the order of "
        f"its outputs, for instance {option('--classes', said)}{best_order(asked, own, said)}"
    )


def check_said(asked: Asked, made: Mapping[str, Columns], frames: Mapping[str, pd.DataFrame]) -> None:
    """What --labels speaks of is in some file."""
    there = sorted({value for key, columns in made.items() for value in label_values(frames[key][columns.label])})
    strangers = [value for value in asked.wanted.labels if value not in there]
    if strangers:
        raise InputError(f"--labels: no file has the label {' or '.join(map(repr, strangers))}; they have {', '.join(there)}")


def check_alike(asked: Asked, made: Mapping[str, Columns], frames: Mapping[str, pd.DataFrame]) -> None:
    """All files single texts or all pairs; numbers mean the same in all, and are the validation set's."""
    first = made["validation"]
    for key, columns in made.items():
        path = asked.files[key]
        if len(columns.text) != len(first.text):
            mine, other = (" and ".join(some.text) for some in (columns, first))
            raise InputError(
                f"{path}: its text is {mine}, that of {asked.validation} {other}; both must be single texts or both pairs: say "
                "--text"
            )
        numbers = label_values(frames[key][columns.label])
        if columns.by == "number" and (first.by != "number" or numbers != label_values(frames["validation"][first.label])):
            blanks = [f"{number}=..." for number in numbers]
            raise InputError(
                f"{path}: its labels are the numbers {', '.join(numbers)}, and {asked.validation}, which has "
                f"{', '.join(label_values(frames['validation'][first.label]))}, does not tell what they mean. Say it with "
                f"{option('--labels', blanks)}"
            )


# whether the labels are the right way round


@dataclass(frozen=True)
class Trial:
    """How often the model is right on some validation examples."""

    examples: int
    right: float
    best: float  # with its answers named otherwise, in the best way
    labels: tuple[str, ...]
    meant: tuple[int, ...]  # that way: which of the labels it answers where each is given

    @property
    def doubtful(self) -> bool:
        return self.best > self.right + max(CLEAR, 2 / math.sqrt(self.examples))


def tried(asked: Asked, classes: Sequence[str], named: bool, columns: Columns) -> Trial:
    """The full model on a few validation examples, under this reading of their labels."""
    source = columns.source(str(asked.validation.absolute()), TRIED)
    split, _ = read_split("validation", source)
    split = check_labels(split, split.labels if split.fold else tuple(classes), "validation")
    model = load(resolve(asked.checkpoint), tuple(classes) if named else None, pad_token=asked.pad_token, check=False)
    logits = logits_of(model, model.units.full(), encode(split, model.tokenizer, model.max_length))
    check_finite(logits, asked.checkpoint)
    answers = fold_classes(classes, split)[logits.argmax(1)]  # (example,) as labels of the set
    counts = np.zeros((len(split.labels), len(split.labels)), int)
    np.add.at(counts, (split.gold, answers), 1)  # (label, answer)
    meant = linear_sum_assignment(-counts)[1]
    best = counts[np.arange(len(counts)), meant].sum()
    return Trial(len(split), float(counts.trace()) / len(split), float(best) / len(split), split.labels, tuple(map(int, meant)))


def confirm(found: Guess) -> Trial:
    """Refuses labels that are most likely the wrong way round, and numbers of which that cannot be told."""
    asked, columns = found.asked, found.files["validation"]
    trial = tried(asked, found.classes, found.named, columns)
    said = f"the model is right on {trial.right:.0%} of {trial.examples} examples"
    names = columns.labels or {label: label for label in trial.labels}
    meant = {label: trial.labels[i] for label, i in zip(trial.labels, trial.meant, strict=True)}
    swapped = option("--labels", [f"{value}={meant[name]}" for value, name in names.items()])
    if columns.by != "as said" and trial.doubtful:
        if asked.classes and columns.by == "name" and not columns.fold:  # their order was said, and is what is wrong
            given, better = (option("--classes", names) for names in (asked.classes, reordered(trial)))
            raise InputError(
                f"{asked.validation}: {said} with {given}, and on {trial.best:.0%} with {better}. "
                "Say that, or with --labels what labels of the file mean"
            )
        raise InputError(
            f"{asked.validation}: {said} with its labels as they stand, and on {trial.best:.0%} with {swapped}. "
            "Say which is right, with --labels"
        )
    chance = 1 / len(found.classes)
    if columns.by == "number" and trial.right < chance + (chance * (1 - chance) / trial.examples) ** 0.5 * 2:
        blanks = option("--labels", [f"{value}=..." for value in names])
        raise InputError(
            f"{asked.validation}: its labels are numbers, and {said} if they are in the order of its classes, which does not "
            f"tell whether they are. Say it with {blanks} (classes: {', '.join(found.classes)})"
        )
    return trial


def best_order(asked: Asked, own: Sequence[str], labels: Sequence[str]) -> str:
    """A hint: which order of names would make the model right most often."""
    if len(labels) != len(own):
        return ""
    columns = columns_of(rows_of(asked.validation, "--validation"), labels, asked.wanted, str(asked.validation))
    trial = tried(asked, labels, True, columns)
    right = f"right on {trial.right:.0%} of {trial.examples} validation examples"
    if not trial.doubtful:
        return f" (it is then {right})"
    return f" (it is then {right}, and on {trial.best:.0%} with {option('--classes', reordered(trial))})"


def reordered(trial: Trial) -> list[str]:
    """The names of the classes in the order that makes the model right most often."""
    return [trial.labels[trial.meant.index(i)] for i in range(len(trial.labels))]


# the study file


def near(path: Path, home: Path) -> str:
    """As a study file in `home` has it. Folders without their links, for `..` leads out of where a link leads; the file
    keeps its name, which tells its format."""
    try:
        folder, name = os.path.split(path.absolute())
        return Path(os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(home))).as_posix()
    except ValueError:  # another drive
        return str(path.absolute())


def checkpoint_near(checkpoint: str, home: Path) -> str:
    folder = user_path(checkpoint)
    return near(folder, home) if folder.is_dir() else checkpoint


def model_of(checkpoint: str, home: Path, classes: Sequence[str], pad_token: str | None) -> Any:
    """The model as a study has it: its name alone where that is all."""
    more = {**({"labels": list(classes)} if classes else {}), **({"pad_token": pad_token} if pad_token else {})}
    near_by = checkpoint_near(checkpoint, home)
    return {"checkpoint": near_by, **more} if more else near_by


def study_of(found: Guess, home: Path, name: str, sparsity: Sequence[float], seeds: int) -> dict[str, Any]:
    """The study as it is written; paths are relative to `home`."""
    asked = found.asked

    def source(key: str) -> dict[str, Any]:
        limit = None if key == "train" else asked.limit
        made = found.files[key].source(near(asked.files[key], home), limit).model_dump(mode="json", exclude_defaults=True)
        return {k: v[0] if k == "text" and len(v) == 1 else v for k, v in made.items()}

    labels = {} if found.files["validation"].fold or asked.steps else {"labels": list(found.classes)}
    challenge = {key.removeprefix("challenge."): source(key) for key in found.files if key.startswith("challenge.")}
    train = {"train": source("train")} if "train" in found.files else {}
    return {
        "name": name,
        "model": model_of(asked.checkpoint, home, found.classes if found.named else (), asked.pad_token),
        "task": {**labels, **train, "validation": source("validation"), "challenge": challenge},
        **({"fine_tune": {"steps": asked.steps}} if asked.steps else {}),
        "prune": {"l0": {"sparsity": list(sparsity), "seeds": seeds}},
    }


def written(study: Mapping[str, Any], file: str, seal: bool = True) -> str:
    """The study file, with what to do with it."""
    task = dict(study["task"])
    challenge = task.pop("challenge", {})
    model = Path(study["model"] if isinstance(study["model"], str) else study["model"]["checkpoint"]).name
    sets = " and ".join(challenge) or ("cases that a shortcut gets wrong" if "generated" in task else "its validation set")
    head = [
        f"# Does a smaller {model} still do what the full one does, on {sets}?",
        "#",
        f"#   corewood plan {file}        what is done, what is missing, how long it takes",
        f"#   corewood run {file}         run it, or go on with it",
        "#",
        *(["{seal}"] if seal else []),
        modeline(SCHEMA.as_uri()),
        f"name: {study['name']}",
        f"title: {flow(f'{model}: what its subnetworks do on {sets}')}",
        f"model: {flow(study['model'])}",
    ]
    if "generated" in task:
        body = [f"task: {flow(task)}  # made up as it runs, with a shortcut planted in it"]
    else:
        body = ["task:  # files are relative to this one; text, label and case are columns of theirs"]
        body += [f"  {key}: {flow(value)}" for key, value in task.items()]
    if challenge:
        body += ["  challenge:", *(f"    {name}: {flow(source)}" for name, source in challenge.items())]
    if "fine_tune" in study:
        body.append(
            f"fine_tune: {flow(study['fine_tune'])}  # seeds: 3 trains three models; checkpoints: [...] keeps some on the way"
        )
    body += [
        "prune:  # so many heads and MLPs are removed; every seed is a search of its own",
        f"  l0: {flow(study['prune']['l0'])}",
        "",
        "# More, each a line; `corewood plan` says what it costs. docs/study-file.md has every key.",
        "# ablations: {singles: true}      # every head and MLP removed in turn",
        "# attention: {examples: 500}      # what the heads attend to",
        "# ablate_beside: [zero]           # the same subnetworks with removed units at zero instead of their mean",
    ]
    return sealed("\n".join([*head, *body]) + "\n")


def flow(value: Any) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
        .removesuffix("\n...\n")
        .strip()
    )


def sealed(text: str) -> str:
    """With a checksum of all else, by which a file that nobody changed is known."""
    return text.replace("{seal}", SEAL.format(hashlib.sha256(text.encode()).hexdigest()[:12]), 1)


def unchanged(text: str) -> bool:
    """Whether a file is as an audit wrote it."""
    before, after = SEAL.split("{}")
    plain, count = re.subn(rf"^{re.escape(before)}\w+{re.escape(after)}$", "{seal}", text, count=1, flags=re.MULTILINE)
    return count == 1 and sealed(plain) == text


def kept(text: str, path: Path) -> bool:
    """Whether this study stands there already; another that somebody wrote or changed is not written over."""
    try:
        there = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError):
        there = "?"
    if there not in ("", text) and not unchanged(there):
        raise InputError(
            f"{path}: is there already, and not as an audit wrote it. Run it with corewood run {path}, move it away, or "
            "choose another --out"
        )
    if there and subject(there) != subject(text):
        raise InputError(
            f"{path}: is the audit of another model, or of other files ({subject(there)[0]}); choose another --out, or move it "
            "away"
        )
    return there == text


def subject(text: str) -> tuple[str, ...]:
    """The checkpoint and the files that a study file which an audit wrote is about."""
    study = load_yaml(text)
    model, task = study["model"], study["task"]
    files = [task["validation"], *task["challenge"].values(), *([task["train"]] if "train" in task else [])]
    return (model if isinstance(model, str) else model["checkpoint"], *(str(source["path"]) for source in files))


def keep(text: str, path: Path, option: str = "--out") -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as problem:
        raise InputError(f"{path}: the study file cannot be written ({problem.strerror}); choose another {option}") from None
