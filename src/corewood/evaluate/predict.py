"""Predictions of many subnetworks, and of the full model without a few units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import Split
from corewood.errors import InputError, nearest
from corewood.evaluate.metrics import accuracy
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask, Units
from corewood.model.reference import Progress, no_progress
from corewood.model.resume import variants
from corewood.model.slim import subnetwork
from corewood.spec import Ablation


@torch.inference_mode()
def logits_of(
    model: Model,
    mask: Mask,
    examples: Encoded,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Progress = no_progress,
) -> np.ndarray:
    """(example, class) of one subnetwork: slim where the model's family allows it, gated where not."""
    logits = np.zeros((len(examples), len(model.labels)), np.float32)
    with subnetwork(model, mask, ablate, means) as call:
        for indices in by_length(examples.lengths, progress=progress):
            logits[indices] = call(**examples.batch(indices, model.device)).logits.float().cpu().numpy()
    return logits


@dataclass(frozen=True)
class Predictions:
    """Logits of subnetworks on one split; `full` are those of the whole model."""

    split: Split
    classes: tuple[str, ...]
    logits: np.ndarray = field(repr=False)  # (mask, example, class)
    full: np.ndarray = field(repr=False)  # (example, class)

    def __getitem__(self, mask: int) -> np.ndarray:
        return np.asarray(self.logits[mask])

    def accuracy(self) -> pd.DataFrame:
        """One row per subnetwork and case; the full model is subnetwork -1."""
        tables = [accuracy(self.full, self.split, self.classes).assign(subnetwork=-1)]
        for i, logits in enumerate(self.logits):
            tables.append(accuracy(logits, self.split, self.classes, self.full).assign(subnetwork=i))
        return pd.concat(tables, ignore_index=True)

    def _repr_html_(self) -> str:
        table = self.accuracy().pivot(index="case", columns="subnetwork", values="value")
        return f"<b>{self.split.name}</b>: accuracy (-1 is the full model)" + table.round(3).to_html()


def predict(
    model: Model, masks: Mask | Sequence[Mask], split: Split, ablate: Ablation = "mean", means: Means | None = None
) -> Predictions:
    """Logits of every mask on every example of a split."""
    examples = encode(split, model.tokenizer, model.max_length)
    many = [masks] if isinstance(masks, Mask) else masks
    logits = [logits_of(model, mask, examples, ablate, means) for mask in many]
    full = logits_of(model, model.units.full(), examples)
    return Predictions(split, model.labels, np.stack(logits) if logits else np.zeros((0, *full.shape)), full)


def unit_set(given: str | Iterable[str], names: Sequence[str], key: str = "ablations") -> tuple[str, ...]:
    """'L2.H5 + L3.H7', names or a mask -> the units, in the model's order. `key` is where they were given."""
    wanted = [part.strip() for part in given.split("+")] if isinstance(given, str) else list(given)
    for name in wanted:
        if name not in names:
            layers = sum(n.endswith(".MLP") for n in names)
            heads = len(names) // layers - 1
            raise InputError(
                f"{key}: the model has no unit {name!r}.{nearest(name, names)} It has {layers} layers of {heads} heads: "
                f"L0.H0 to L{layers - 1}.H{heads - 1}, and L0.MLP to L{layers - 1}.MLP"
            )
    return tuple(name for name in names if name in wanted)


def without(units: Units, closed: Sequence[str]) -> Mask:
    """The full model without these units."""
    return units.from_vector(~np.isin(units.names, closed))


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
