"""Reading a study file: every mistake becomes one message that names the file and the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from corewood.errors import InputError, StudyError, nearest
from corewood.spec.study import StudySpec
from corewood.spec.tasks import TASK_KINDS

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


def read_study(path: str | Path, changes: list[str] | None = None, presets: list[str] | None = None) -> StudySpec:
    """Read a study file; `presets` are names of its own, `changes` are `key.path=value` strings, the value in YAML.

    Example:
        >>> spec = cw.read_study("study.yaml", changes=["prune.l0.seeds=5"])
        >>> spec.prune.l0.seeds
        (0, 1, 2, 3, 4)
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        beside = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        there = f" In that folder: {', '.join(beside)}." if beside else ""
        raise InputError(f"{path}: there is no such study file.{nearest(path.name, beside) or there}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({problem})") from None
    return parse_study(text, str(path), changes, presets)


def parse_study(text: str, source: str, changes: list[str] | None = None, presets: list[str] | None = None) -> StudySpec:
    try:
        raw = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, TypeError) as problem:  # TypeError: a mapping or list as a key
        raise StudyError(source, [" ".join(str(problem).split())]) from None
    if not isinstance(raw, dict):
        raise StudyError(source, ["the file must be a mapping: name, model, task, prune"])
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


def _apply(raw: dict[Any, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals:
        raise InputError(f"--set {change}: write it as key=value, for instance --set prune.l0.seeds=12")
    try:
        _put(raw, key, yaml.load(value, Loader=_Loader), f"--set {change}")
    except yaml.YAMLError:
        raise InputError(f"--set {change}: the value is not valid YAML; quote it") from None


def _put(raw: dict[Any, Any], key: str, value: object, who: str) -> None:
    """Set one key, by its dotted path; mappings on the way are made."""
    *parents, last = key.split(".")
    place: Any = raw
    for name in parents:
        if isinstance(place, dict) and name == "model" and isinstance(place.get(name), str):
            place[name] = {"checkpoint": place[name]}
        place = place.setdefault(name, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise InputError(f"{who}: {'.'.join(parents)} is not a mapping in this study")
    place[last] = value


def mistakes(problem: ValidationError, raw: Any, top: type[BaseModel] = StudySpec) -> list[str]:
    """Each as 'key: what is wrong'; `raw` is what was given for a `top`. A key that is only misspelt is not missing, too."""
    found = problem.errors(include_url=False)
    strange = [e["loc"] for e in found if e["type"] == "extra_forbidden"]

    def misspelt(error: Any) -> bool:
        place = error["loc"]
        meant = (at for at in strange if at[:-1] == place[:-1] and nearest(str(at[-1]), [str(place[-1])]))
        return error["type"] == "missing" and any(meant)

    return [_mistake(error, raw, top) for error in found if not misspelt(error)]


def _mistake(error: Any, raw: Any, top: type[BaseModel]) -> str:
    """One pydantic error as 'key: what is wrong', with the nearest allowed key where a name is unknown."""
    key = ".".join(map(str, as_written(error["loc"], raw)))
    if error["type"] == "extra_forbidden":
        allowed = list(_fields_at(error["loc"][:-1], top))
        hint = nearest(str(error["loc"][-1]), allowed) or f" Allowed here: {', '.join(allowed)}."
        return f"{key}: unknown key.{hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    if "sparsity" in error["loc"] and error["type"] in ("greater_than", "less_than"):
        message = "sparsity is the fraction of units removed and must lie between 0 and 1, both excluded"
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float)) and not isinstance(given, bool) else ""
    return f"{key}: {message}{shown}" if key else message


def tag_place(location: tuple[int | str, ...]) -> int | None:
    """Where the kind of a task stands in the place of a mistake: after `task`, or after a name in `tasks`. It is no key."""
    return {"task": 1, "tasks": 2}.get(str(location[0])) if location else None


def as_written(location: tuple[int | str, ...], raw: Any) -> Iterator[int | str]:
    """The place of a mistake as the file has it: without the kind of a task, and without a 0 or a name
    where one stands for several."""
    tag, node = tag_place(location), raw
    for place, part in enumerate(location):
        if place == tag or part == "" or (isinstance(part, int) and not isinstance(node, (list, tuple))):
            continue
        yield part
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            node = None


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
