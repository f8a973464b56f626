"""Reading a study file: every mistake becomes one message that names the file and the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from corewood.errors import InputError, StudyError, nearest
from corewood.spec import StudySpec
from corewood.spec_lottery import LotterySpec
from corewood.spec_tasks import TASK_KINDS

AnyStudy = StudySpec | LotterySpec
KINDS: dict[str, type[StudySpec] | type[LotterySpec]] = {"core": StudySpec, "lottery": LotterySpec}


def kind_of(spec: AnyStudy) -> str:
    """What its file says under `kind`."""
    return next(name for name, kind in KINDS.items() if isinstance(spec, kind))


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


def read_study(path: str | Path, changes: list[str] | None = None, presets: list[str] | None = None) -> AnyStudy:
    """Read a study file; `presets` are names of its own, `changes` are `key.path=value` strings, the value in YAML."""
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


def read_core_study(path: str | Path, changes: list[str] | None = None, presets: list[str] | None = None) -> StudySpec:
    """As `read_study`, where only studies of subnetworks on cases will do."""
    spec = read_study(path, changes, presets)
    if isinstance(spec, LotterySpec):
        raise InputError(f"{path}: is a lottery; this needs a study with a search and challenge cases")
    return spec


def parse_study(text: str, source: str, changes: list[str] | None = None, presets: list[str] | None = None) -> AnyStudy:
    try:
        raw = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, TypeError) as problem:  # TypeError: a mapping or list as a key
        raise StudyError(source, [" ".join(str(problem).split())]) from None
    if not isinstance(raw, dict):
        raise StudyError(source, ["the file must be a mapping: name, model, task, search"])
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
    asked = str(raw.pop("kind", "core"))
    if asked not in KINDS:
        raise StudyError(source, [f"kind: {asked!r} is no kind of study; it is core (the default) or lottery"])
    try:
        return KINDS[asked].model_validate(raw)
    except ValidationError as problem:
        raise StudyError(source, [_mistake(e, KINDS[asked]) for e in problem.errors(include_url=False)]) from None


def _apply(raw: dict[Any, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals:
        raise InputError(f"--set {change}: write it as key=value, for instance --set search.seeds=12")
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


def _mistake(error: Any, study: type[BaseModel]) -> str:
    """One pydantic error as 'key: what is wrong', with the nearest allowed key where a name is unknown."""
    tag = tag_place(error["loc"])
    location = [p for place, p in enumerate(error["loc"]) if place != tag]
    key = ".".join(str(p) for p in location)
    if error["type"] == "extra_forbidden":
        allowed = list(_fields_at(error["loc"][:-1], study))
        hint = nearest(str(error["loc"][-1]), allowed) or f" Allowed here: {', '.join(allowed)}."
        return f"{key}: unknown key.{hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    if "sparsity" in location and error["type"] in ("greater_than", "less_than"):
        message = "sparsity is the fraction of units removed and must lie between 0 and 1, both excluded"
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float)) and not isinstance(given, bool) else ""
    return f"{key}: {message}{shown}" if key else message


def tag_place(location: tuple[int | str, ...]) -> int | None:
    """Where the kind of a task stands in the place of a mistake: after `task`, or after a name in `tasks`. It is no key."""
    return {"task": 1, "tasks": 2}.get(str(location[0])) if location else None


def _fields_at(location: tuple[int | str, ...], study: type[BaseModel]) -> Iterator[str]:
    classes: list[type[BaseModel]] = [study]
    for place, part in enumerate(location):
        deeper = [c for cls in classes if part in cls.model_fields for c in _classes(cls.model_fields[str(part)])]
        if place == tag_place(location):
            deeper = [TASK_KINDS[str(part)]]
        classes = deeper or classes
    for cls in classes:
        yield from cls.model_fields


def _classes(field: Any) -> Iterator[type[BaseModel]]:
    stack = [field.annotation]
    while stack:
        kind = stack.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        stack.extend(get_args(kind))
