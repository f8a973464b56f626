"""Masks that are kept: files in the study's folder, and the Python that gives the same answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from corewood.errors import InputError
from corewood.explore.asked import Place
from corewood.explore.subject import Subject
from corewood.model.mask import Mask, Units
from corewood.model.mask_files import SUFFIXES
from corewood.spec import Ablation

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,63}")
MOST = 500  # files that are read


def folder_of(subject: Subject) -> Path:
    """Where masks are; a link that leads out of the study's folder is not followed."""
    base, folder = subject.base.resolve(), subject.masks.resolve()
    if not folder.is_relative_to(base):
        raise InputError(f"{subject.masks}: leads out of {base}; masks are kept inside of it alone")
    return folder


def save(subject: Subject, name: str, mask: Mask) -> Path:
    """A new file that `prune.given` and `cw.Mask.load` read; none is ever written over."""
    name = name.strip()
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a mask's name: use letters, digits, spaces, - and _, up to 64 of them, a letter or digit first"
        )
    folder = folder_of(subject)
    try:
        folder.mkdir(exist_ok=True)
        taken = {path.stem.casefold() for path in folder.iterdir() if path.suffix in SUFFIXES}
        if name.casefold() in taken:
            raise InputError(f"there is a mask {name!r} in {subject.masks.name} already; choose another name")
        path = folder / f"{name}.json"
        content = {"heads": mask.heads.astype(int).tolist(), "mlps": mask.mlps.astype(int).tolist()}
        with path.open("x", encoding="utf-8") as stream:
            stream.write(json.dumps(content) + "\n")
    except FileExistsError:
        raise InputError(f"there is a file of the name {name!r} in {subject.masks.name} already; choose another name") from None
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror})") from None
    return path


def saved(subject: Subject, units: Units) -> dict[str, Mask]:
    """Name -> mask, of those in the folder that are masks of such a model."""
    found: dict[str, Mask] = {}
    try:
        files = sorted(path for path in folder_of(subject).iterdir() if path.suffix in SUFFIXES and path.is_file())
    except (InputError, OSError):  # it leads elsewhere, may not be read, or is not there
        files = []
    for path in files[:MOST]:
        try:
            mask = Mask.load(path, units.heads)
            mask.check(units)
        except InputError:  # of another model, or no mask
            continue
        found[path.stem] = mask
    return found


def python(subject: Subject, place: Place, mask: Mask, ablate: Ablation, texts: Sequence[str], regression: bool = False) -> str:
    """What gives the same answer in a notebook."""
    closed = (~mask).names
    names = ", ".join(map(repr, closed))
    lines = ["import corewood as cw", "", *subject.loading(place)]
    lines.append(f"mask = model.units.without({names})" if closed else "mask = model.units.full()")
    lines += [f"texts = {list(texts)!r}"]
    lines.append("inputs = model.tokenizer(*texts, truncation=True, max_length=model.max_length, return_tensors='pt')")
    lines += [f"with cw.gated(model, mask, ablate={ablate!r}):", "    logits = model(**inputs.to(model.device)).logits"]
    answers = "logits[0].tolist()" if regression else "dict(zip(model.labels, logits.softmax(-1)[0].tolist()))"
    lines += [f"print({answers})"]
    return "\n".join(lines) + "\n"
