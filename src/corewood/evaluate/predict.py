"""Predictions of many subnetworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import Split
from corewood.evaluate.metrics import accuracy
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import Progress, no_progress
from corewood.model.slim import subnetwork
from corewood.spec import Ablation


@torch.inference_mode()
def logits_of(
    model: Model,
    mask: Mask,
    examples: Encoded,
    ablate: Ablation = "mean",
    means: Means | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> np.ndarray:
    """(example, class) of one subnetwork: slim where the model's family allows it, gated where not."""
    logits = np.zeros((len(examples), len(model.labels)), np.float32)
    done = 0
    with subnetwork(model, mask, ablate, means, seed) as call:
        for indices in by_length(examples.lengths):
            logits[indices] = call(**examples.batch(indices, model.device)).logits.float().cpu().numpy()
            done += len(indices)
            progress(done, len(examples))
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
    many: Iterable[Mask] = [masks] if isinstance(masks, Mask) else masks
    logits = [logits_of(model, mask, examples, ablate, means) for mask in many]
    full = logits_of(model, model.units.full(), examples)
    return Predictions(split, model.labels, np.stack(logits) if logits else np.zeros((0, *full.shape)), full)
