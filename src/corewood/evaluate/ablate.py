"""Ablations: many masks that each close a few units of the full model, on the same examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewood.data.encode import Encoded
from corewood.errors import InputError, nearest
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask, Units
from corewood.model.reference import Progress, no_progress
from corewood.model.resume import variants
from corewood.spec import Ablation


def unit_set(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """'L2.H5 + L3.H7' -> the units, in the model's order."""
    wanted = [part.strip() for part in text.split("+")]
    for name in wanted:
        if name not in names:
            layers = sum(n.endswith(".MLP") for n in names)
            heads = len(names) // layers - 1
            raise InputError(
                f"ablations: the model has no unit {name!r}.{nearest(name, names)} It has {layers} layers of {heads} heads: "
                f"L0.H0 to L{layers - 1}.H{heads - 1}, and L0.MLP to L{layers - 1}.MLP"
            )
    return tuple(name for name in names if name in wanted)


def without(units: Units, closed: Sequence[str]) -> Mask:
    """The full model without these units."""
    gone = set(closed)
    return units.from_vector(np.array([name not in gone for name in units.names]))


def ablate(
    model: Model,
    masks: Sequence[Mask],
    examples: Encoded,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Progress = no_progress,
) -> np.ndarray:
    """(mask, example, class). Layers below the first that a mask changes are computed once for all masks."""
    if ablate == "resample":  # values come from other rows of the batch: every mask needs its own run
        return np.stack([logits_of(model, mask, examples, ablate, means) for mask in masks])
    return variants(model, masks, examples, model.units.full(), ablate, means, progress)
