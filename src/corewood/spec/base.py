"""What every part of the format is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from corewood.errors import InputError, SettingError

Ablation = Literal["mean", "zero", "resample"]
# the most of anything: beyond what a study can mean, and still no trouble for memory or time
MOST_SEEDS = 1_000
MOST_DRAWS = 1_000
MOST_STEPS = 10_000_000
MOST_EPOCHS = 100_000
MOST_EXAMPLES = 10_000_000
MOST_BATCH = 65_536
MOST_THREADS = 1_024
MOST_LISTED = 1_000
LONGEST_TEXT = 20_000  # characters
Sparsity = Annotated[float, Field(gt=0, lt=1)]


class Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, str_max_length=LONGEST_TEXT)
    LATER: ClassVar[tuple[str, ...]] = ()  # fields that came after results were first kept

    def __init__(self, /, *given: object, **settings: Any) -> None:
        """Made in Python, where a mistake is told as in a study file."""
        who = type(self).__name__
        if given:
            first = next(iter(type(self).model_fields))
            raise SettingError(f"{who}: settings are given by name, for instance {who}({first}={given[0]!r})")
        try:
            super().__init__(**settings)
        except ValidationError as problem:
            from corewood.spec.read import mistakes  # it knows all of the format, which is made of this

            raise SettingError(f"{who}: {'; '.join(mistakes(problem, settings, type(self)))}") from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # parts of a file do not come this way

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What differs from the defaults."""
        for name, field in type(self).model_fields.items():
            if (value := getattr(self, name)) != field.default:
                yield name, value

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th>{name}</th><td>{escape(repr(getattr(self, name)))}</td><td>{escape(field.description or '')}</td></tr>"
            for name, field in type(self).model_fields.items()
        )
        return f"<b>{type(self).__name__}</b><table>{''.join(rows)}</table>"

    def params(self, *without: str) -> dict[str, Any]:
        """What a result depends on. Later fields are left out at their default, so that older results are found."""
        usual = [name for name in self.LATER if getattr(self, name) == type(self).model_fields[name].default]
        return self.model_dump(mode="json", exclude={*without, *usual})


class Untitled(GenerateJsonSchema):
    """A key is its own title."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def part_of(kind: type[Spec], *without: str) -> dict[str, Any]:
    """Some keys of another class, for editors."""
    known = kind.model_json_schema(schema_generator=Untitled)["properties"]
    return {"properties": {key: known[key] for key in known if key not in without}, "additionalProperties": False}


def as_list(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def none_or_list(value: object) -> object:
    return () if value is None else as_list(value)


def filled_list(value: object) -> object:
    if value in ([], ()):
        raise ValueError("give at least one")
    return as_list(value)


def listed(kind: Any, most: int | None = None, filled: bool = False) -> BeforeValidator:
    """A list, or one without brackets. What they are, and how many at the most, is for editors."""
    several = Annotated[list[kind], Field(min_length=int(filled), max_length=most)]
    return BeforeValidator(filled_list if filled else as_list, json_schema_input_type=kind | several)


def any_number(kind: Any) -> BeforeValidator:
    """A list, one without brackets, or nothing."""
    return BeforeValidator(none_or_list, json_schema_input_type=kind | list[kind] | None)


def seed_list(value: object) -> object:
    """How many, or which."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = range(min(value, MOST_SEEDS + 1))
    if isinstance(value, (list, tuple, range)):
        if not value:
            raise ValueError("give at least one")
        if len(value) > MOST_SEEDS:
            raise ValueError(f"takes at most {MOST_SEEDS:,}; make several studies of more")
        numbers = [one for one in value if isinstance(one, (int, float))]  # 0, 0.0 and no are one and the same
        if len({*map(str, value)}) < len(value) or len({*numbers}) < len(numbers):
            raise ValueError(f"a value stands twice in {list(value)}")
        return tuple(value)
    raise ValueError("must be how many, as 6, or which, as [0, 1, 2]")


Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every generator of random numbers takes
HowMany = Annotated[int, Field(ge=1, le=MOST_SEEDS)]
Listed = Annotated[list[Seed], Field(max_length=MOST_SEEDS)]
Seeds = Annotated[tuple[Seed, ...], BeforeValidator(seed_list, json_schema_input_type=HowMany | Listed)]
Step = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Epochs = Annotated[float, Field(gt=0, le=MOST_EPOCHS)]
Batch = Annotated[int, Field(ge=1, le=MOST_BATCH)]


def kept_units(units: int, sparsity: float, key: str = "sparsity") -> int:
    """How many of `units` stay at this sparsity; at least one, or the request is refused by its key."""
    kept = math.floor(units * (1 - sparsity) + 0.5)
    if kept < 1:
        raise InputError(f"{key}: {sparsity} of {units} units leaves none; the largest possible is {1 - 1 / units:.4f}")
    if kept == units:
        raise InputError(f"{key}: {sparsity} of {units} units removes none; the smallest possible is {1 / units:.4f}")
    return kept
