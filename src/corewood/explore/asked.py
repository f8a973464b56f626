"""What the page asks, checked field by field."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST = 200_000  # letters of a text; models read far fewer of it
Text = Annotated[str, Field(max_length=LONGEST)]
Name = Annotated[str, Field(max_length=2000)]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Place(Asked):
    """Which model: of a task, fine-tuned with a seed, at a step."""

    task: Name
    tuning: int
    step: int


class OfModel(Asked):
    tab: Annotated[str, Field(pattern=r"^[a-z0-9]{1,32}$")]  # so that a newer request of a page replaces its older ones alone
    place: Place


class OfMask(OfModel):
    mask: Annotated[str, Field(pattern=r"^[01]{1,20000}$")]  # 1 where a unit is open, in flat order
    ablate: Literal["mean", "zero"]


class OfText(OfMask):
    first: Text
    second: Text | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.first,) if self.second is None else (self.first, self.second)


class OfHead(OfText):
    layer: Annotated[int, Field(ge=0)]
    head: Annotated[int, Field(ge=0)]
    normed: bool
    masked: bool  # whether the mask is on


class OfCases(OfMask):
    each: Annotated[int, Field(ge=1, le=1000)]  # examples of a case


class OfExample(OfModel):
    dataset: Name
    case: Name
    number: Annotated[int, Field(ge=0)]


class ToKeep(OfModel):
    mask: Annotated[str, Field(pattern=r"^[01]{1,20000}$")]
    name: Name
