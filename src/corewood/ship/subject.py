"""What is shipped, what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from corewood.errors import InputError, nearest
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.slim import slim
from corewood.model.weights import WeightMask
from corewood.model.zeroed import without_weights, zeroed
from corewood.ship.judge import Judged, finding
from corewood.ship.measure import Timing
from corewood.ship.origin import Origin
from corewood.spec import Ablation

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORMATS = ("onnx", "pt2")


@dataclass(frozen=True)
class Wanted:
    """What is to be written beside the ONNX file, and whether it is measured."""

    int8: bool = False
    dropin: bool = False
    formats: tuple[str, ...] = ("onnx",)
    measure: bool = True

    def __post_init__(self) -> None:
        for name in self.formats:
            if name not in FORMATS:
                raise InputError(f"formats: no format {name!r}.{nearest(name, FORMATS)} There are {' and '.join(FORMATS)}")
        if "onnx" not in self.formats:
            raise InputError("formats: the ONNX file is what is judged, so it is always written; give onnx,pt2")


@dataclass(frozen=True)
class Subject:
    """What is shipped, and what is known of it."""

    model: Model  # whole
    mask: Mask | WeightMask
    ablate: Ablation
    name: str
    origin: Origin
    sets: tuple[Judged, ...] = ()
    means: Means | None = None

    @property
    def of_weights(self) -> bool:
        return isinstance(self.mask, WeightMask)

    def small(self) -> PreTrainedModel:
        """The model that is written."""
        if isinstance(self.mask, WeightMask):
            return without_weights(self.model, self.mask)
        return slim(self.model, self.mask, self.ablate, self.means)

    def whole(self) -> PreTrainedModel:
        """The same in the original architecture."""
        if isinstance(self.mask, WeightMask):
            return without_weights(self.model, self.mask)
        return zeroed(self.model, self.mask, self.ablate, self.means)

    @property
    def inputs(self) -> tuple[str, ...]:
        types = ("token_type_ids",) if "token_type_ids" in self.model.tokenizer.model_input_names else ()
        return ("input_ids", "attention_mask", *types)


@dataclass(frozen=True, repr=False)
class Shipped:
    """What was written, and what it does."""

    folder: Path
    name: str
    exporter: str
    inputs: tuple[str, ...]  # that the file takes
    parameters: tuple[int, int]  # of the full model, and of the file
    cases: pd.DataFrame  # what the full model, the subnetwork and the file get right of every case
    apart: float  # the largest difference of a logit between file and subnetwork
    moved: pd.DataFrame  # what int8 does to each case
    timings: Sequence[Timing]
    full_bytes: int  # of the full model as an ONNX file; 0 where that was not written
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def finding(self) -> str:
        return finding(self.cases, self.moved)

    def __repr__(self) -> str:
        size = sum(int(facts["bytes"]) for name, facts in self.files.items() if name.startswith("onnx/model.onnx"))
        return f"<Shipped {self.name}: {self.parameters[1]:,} parameters, {size / 1e6:.1f} MB, in {self.folder}>"
