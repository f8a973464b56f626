"""Reading a study file: every mistake becomes one message that names the file and the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from corewood.errors import InputError, StudyError, nearest
from corewood.spec.loader import load_yaml
from corewood.spec.study import StudySpec
from corewood.spec.tasks import TASK_KINDS
from corewood.spec.words import by_key, wrong, wrong_yaml

# keys of the formats before this one, and what they are now
FORMER = {
    "kind": "there is one kind of study; leave it out",
    "search": "is prune.l0 now, with the same keys but method",
    "seeds": "is fine_tune.seeds now",
    "budgets": "is fine_tune.tasks now",
    "importance": "is prune.importance now, with the same keys",
    "magnitude": "is prune.magnitude now, with the same keys",
    "methods": "is prune.l0 now, with the same keys but random; beside it prune.importance: {like: l0}, prune.magnitude: "
    "{like: l0}, prune.random: {like: l0, draws: 1}",
}
SPARSITY = "sparsity is the fraction of units removed and must lie between 0 and 1, both excluded"


def read_study(path: str | Path, changes: list[str] | None = None, presets: list[str] | None = None) -> StudySpec:
    """Read a study file; `presets` are names of its own, `changes` are `key.path=value` strings, the value in YAML.

    Example:
        >>> spec = cw.read_study("study.yaml", changes=["prune.l0.seeds=5"])
        >>> spec.prune.l0.seeds
        (0, 1, 2, 3, 4)
    """
    path = Path(path)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{path}: is no regular file, so it is no study file")
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        beside = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        there = f" In that folder: {', '.join(beside)}." if beside else ""
        raise InputError(f"{path}: there is no such study file.{nearest(path.name, beside) or there}") from None
    except IsADirectoryError:
        inside = sorted(p.name for p in path.glob("*.yaml"))
        there = f"; in it: {', '.join(inside)}" if inside else ", and there is no .yaml in it; `corewood new` writes one"
        raise InputError(f"{path}: is a folder; give the study file itself{there}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text, so it is no study file; save it as UTF-8") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    return parse_study(text, str(path), changes, presets)


def parse_study(text: str, source: str, changes: list[str] | None = None, presets: list[str] | None = None) -> StudySpec:
    try:
        raw = load_yaml(text)
    except (yaml.YAMLError, TypeError) as problem:  # TypeError: a mapping or list as a key
        raise StudyError(source, [wrong_yaml(problem, text)]) from None
    if not isinstance(raw, dict):
        raise StudyError(source, ["the file must be a mapping: name, model, task, prune"])
    raw = unshared(raw)
    known = raw.pop("presets", None) or {}
    if not (isinstance(known, dict) and all(isinstance(keys, dict) for keys in known.values())):
        raise StudyError(source, ["presets: must be a mapping of names to mappings of keys, each as after --set"])
    known = {str(name): keys for name, keys in known.items()}
    for name in presets or []:
        if name not in known:
            there = f" It has: {', '.join(known)}." if known else " It has none."
            raise InputError(f"{source}: no preset {name!r}.{nearest(name, known) or there}")
        for key, value in known[name].items():
            _put(raw, str(key), value, f"presets.{name}.{key}")
    for change in changes or []:
        _apply(raw, change)
    former = [f"{key}: {now}" for key, now in FORMER.items() if key in raw]
    if isinstance(raw.get("fine_tune"), dict) and "seed" in raw["fine_tune"]:
        former.append(f"fine_tune.seed: is a list now; write seeds: [{raw['fine_tune']['seed']}]")
    if isinstance(raw.get("effective_size"), dict) and "two_sided" in raw["effective_size"]:
        former.append("effective_size.two_sided: is the default now; write one_sided: true for the rule of the paper's code")
    if former:
        raise StudyError(source, former)
    try:
        return StudySpec.model_validate(raw)
    except ValidationError as problem:
        raise StudyError(source, mistakes(problem, raw)) from None


def unshared(value: Any) -> Any:
    """What aliases stand for, once for each: a change to one key is no change to another."""
    if isinstance(value, dict):
        return {key: unshared(held) for key, held in value.items()}
    return [unshared(held) for held in value] if isinstance(value, list) else value


def _apply(raw: dict[Any, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals:
        raise InputError(f"--set {change}: write it as key=value, for instance --set prune.l0.seeds=12")
    try:
        _put(raw, key, load_yaml(value), f"--set {change}")
    except (yaml.YAMLError, TypeError):
        raise InputError(f"--set {change}: the value is not valid YAML; quote it") from None


def _put(raw: dict[Any, Any], key: str, value: object, who: str) -> None:
    """Set one key, by its dotted path; mappings on the way are made, and the items of a list have numbers, from 0."""
    *parents, last = key.split(".")
    place: Any = raw
    for depth, name in enumerate(parents, 1):
        if isinstance(place, dict) and name == "model" and isinstance(place.get(name), str):
            place[name] = {"checkpoint": place[name]}
        if isinstance(place, list):
            place = place[_item(place, name, parents[: depth - 1], who)]
        else:
            place = place.setdefault(name, {}) if isinstance(place, dict) else None
    if isinstance(place, list):
        place[_item(place, last, parents, who)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise InputError(f"{who}: {'.'.join(parents)} is not a mapping in this study")


def _item(items: list[Any], name: str, parents: list[str], who: str) -> int:
    if not name.isdecimal() or int(name) >= len(items):
        last = f"0 to {len(items) - 1}" if items else "none yet"
        raise InputError(f"{who}: {'.'.join(parents)} is a list in this study; name one of its items by number, {last}")
    return int(name)


def mistakes(problem: ValidationError, raw: Any, top: type[BaseModel] = StudySpec) -> list[str]:
    """Each as 'key: what is wrong'; `raw` is what was given for a `top`."""
    told = by_key(problem, raw, lambda error, key: _mistake(error, key, top), tag_place)
    return [f"{key}: {what}" if key else what for key, what in told]


def _mistake(error: Any, key: str, top: type[BaseModel]) -> tuple[str, str]:
    """(its key, what is wrong), with the nearest allowed key where a name is unknown."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        allowed = list(_fields_at(location[:-1], top))
        hint = nearest(str(location[-1]), allowed) or f" Allowed here: {', '.join(allowed)}."
        return key, f"unknown key.{hint}"
    if error["type"] == "missing":
        return key, "missing"
    what = wrong(error)
    if "sparsity" in location and error["type"] in ("greater_than", "less_than"):
        what = what.replace(what.partition(" (given")[0], SPARSITY)
    inner, _, rest = what.partition(": ")  # a check of several keys names the one it is about
    if error["type"] == "value_error" and rest and key and inner.partition(".")[0] in _fields_at(location, top):
        return f"{key}.{inner}", rest
    return key, what


def tag_place(location: tuple[int | str, ...]) -> int | None:
    """Where the kind of a task stands in the place of a mistake: after `task`, or after a name in `tasks`. It is no key."""
    return {"task": 1, "tasks": 2}.get(str(location[0])) if location else None


def _fields_at(location: tuple[int | str, ...], top: type[BaseModel]) -> Iterator[str]:
    classes: list[type[BaseModel]] = [top]
    for place, part in enumerate(location):
        deeper = [c for cls in classes if part in cls.model_fields for c in _classes(cls.model_fields[str(part)])]
        if place == tag_place(location):
            deeper = [TASK_KINDS[str(part)]]
        classes = deeper or classes
    for cls in classes:
        yield from (field.alias or name for name, field in cls.model_fields.items())


def _classes(field: Any) -> Iterator[type[BaseModel]]:
    stack = [field.annotation]
    while stack:
        kind = stack.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        stack.extend(get_args(kind))
