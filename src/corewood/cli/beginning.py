"""`corewood new`: a few questions, and a study file to begin with."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from corewood.cli.options import sizes_of, words_of
from corewood.cli.voice import Voice
from corewood.errors import InputError
from corewood.untrusted import user_path

if TYPE_CHECKING:
    from corewood.data.guess import Wanted

SIZES, SEEDS = "0.5,0.7", 6
EMBEDDED = {"generated": "overlap", "train": 12000, "validation": 600, "per_case": 100, "counter": 0.06}
STEPS = 320  # of fine-tuning on it; others need more
MORE_STEPS = 3000


@dataclass(frozen=True)
class Answers:
    """None: not said."""

    model: str | None = None
    validation: Path | None = None
    challenge: tuple[Path, ...] = ()
    train: Path | None = None
    steps: int | None = None
    sparsity: str | None = None
    seeds: int | None = None
    classes: tuple[str, ...] = ()
    pad_token: str | None = None


def ask(path: Path, given: Answers) -> Answers:
    """What the options leave open: asked at a terminal, else as it usually is."""
    if path.exists():
        raise InputError(f"{path}: exists already, and is not written over; choose another folder")
    if sys.stdin.isatty():
        given = asked(given)
    return usual(given)


def asked(given: Answers) -> Answers:
    if given.model is None:
        given = replace(given, model=typer.prompt("Model (a folder, a hub id, or minilm, the embedded one)", "minilm"))
    if given.validation is None:
        file = prompt_path("Validation file (Enter: the embedded task with a shortcut)")
        given = replace(given, validation=file)
        if file is not None and not given.challenge:
            files = typer.prompt("Challenge files, with commas between them (Enter: none)", "", show_default=False)
            given = replace(given, challenge=tuple(map(Path, words_of(files))))
        if file is not None and given.train is None:
            given = replace(given, train=prompt_path("Training file (Enter: none)"))
    if given.steps is None and (given.validation is None or given.train is not None):
        given = replace(
            given, steps=typer.prompt("Steps of fine-tuning (0: the checkpoint as it is)", usual(given).steps, type=int)
        )
    if given.sparsity is None:
        given = replace(given, sparsity=typer.prompt("Fractions of heads and MLPs to remove", SIZES))
    if given.seeds is None:
        given = replace(given, seeds=typer.prompt("Searches at each", SEEDS, type=int))
    return given


def prompt_path(question: str) -> Path | None:
    said = typer.prompt(question, "", show_default=False)
    return user_path(said) if said else None


def usual(given: Answers) -> Answers:
    """With a file to learn from, the embedded model learns it; other checkpoints are taken as they are."""
    model = given.model or "minilm"
    steps = STEPS if given.validation is None else MORE_STEPS if model == "minilm" else 0
    return replace(
        given,
        model=model,
        steps=steps if given.steps is None else given.steps,
        sparsity=given.sparsity or SIZES,
        seeds=given.seeds or SEEDS,
    )


def write_study(path: Path, answers: Answers, wanted: Wanted) -> None:
    from corewood.cli.auditing import show_guess, show_trial
    from corewood.model.load import read_config, resolve
    from corewood.spec import parse_study
    from corewood.spec.study import slug
    from corewood.study.audit import Asked, confirm, guess, keep, model_of, study_of, written

    model, steps, seeds = str(answers.model), int(answers.steps or 0), int(answers.seeds or SEEDS)
    sizes, name = sizes_of(answers.sparsity or SIZES), slug(path.absolute().parent.name)
    classes, pad_token = answers.classes, answers.pad_token
    if classes and steps:
        raise InputError("--classes: a model that is fine-tuned has the training set's; leave it out, or say --steps 0")
    if answers.validation is not None:
        asked = Asked(model, answers.validation, answers.challenge, answers.train, wanted, classes, pad_token, steps=steps)
        found = guess(asked)
        show_guess(found, Voice())
        if not steps:
            show_trial(confirm(found), Voice())
        study = study_of(found, path.parent, name, sizes, seeds)
    else:
        given: dict[str, object] = {
            "--challenge": answers.challenge,
            "--train": answers.train,
            "--text": wanted.text,
            "--label": wanted.label,
        }
        given |= {"--case": wanted.case, "--labels": wanted.labels}
        if any(given.values()):
            names = ", ".join(option for option, value in given.items() if value)
            raise InputError(f"{names}: are about files of your own; give --validation, too, or leave them out")
        read_config(resolve(model))
        study = {"name": name, "model": model_of(model, path.parent, classes, pad_token), "task": EMBEDDED}
        study |= {"fine_tune": {"steps": steps, "learning_rate": 0.00015, "warmup": 20}} if steps else {}
        study |= {"prune": {"l0": {"sparsity": list(sizes), "seeds": seeds}}}
    text = written(study, path.name, seal=False)
    parse_study(text, str(path))
    keep(text, path, "folder")
