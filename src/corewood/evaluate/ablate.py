"""Ablations: many masks that each close a few units of the full model, on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from corewood.data.encode import Encoded, by_length
from corewood.errors import InputError, nearest
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Gates, Means
from corewood.model.load import Model
from corewood.model.mask import Mask, Units
from corewood.model.reference import Progress, no_progress
from corewood.model.resume import recorded, resumed
from corewood.spec import Ablation

ROWS, TOGETHER = 8, 12  # examples, and variants of them, per call; measured on MiniLM: larger batches leave the cache


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


def first_closed(mask: Mask) -> int:
    """The lowest layer that a mask changes."""
    changed = ~(mask.heads.all(1) & mask.mlps)
    return int(changed.argmax()) if changed.any() else len(changed)


@torch.inference_mode()
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
    for mask in masks:
        mask.check(model.units)
    order = sorted(range(len(masks)), key=lambda i: first_closed(masks[i]))
    calls = []  # (first layer, which masks): one call of the model each
    for layer, group in groupby(order, key=lambda i: first_closed(masks[i])):
        chosen = list(group)
        calls += [(layer, chosen[i : i + TOGETHER]) for i in range(0, len(chosen), TOGETHER)]
    logits = np.zeros((len(masks), len(examples), len(model.labels)), np.float32)
    done = 0
    for indices in by_length(examples.lengths, ROWS):
        batch = examples.batch(indices, model.device)
        with recorded(model) as below:
            whole = model.net(**batch).logits.float().cpu().numpy()
        for layer, chosen in calls:
            if layer == model.units.layers:
                logits[np.ix_(np.array(chosen), indices)] = whole
                continue
            gates = Gates(
                torch.tensor(np.stack([masks[i].heads for i in chosen]), dtype=torch.float32, device=model.device),
                torch.tensor(np.stack([masks[i].mlps for i in chosen]), dtype=torch.float32, device=model.device),
            )
            many = {name: values.repeat(len(chosen), 1) for name, values in batch.items()}
            with resumed(model, below, layer, gates, len(indices), ablate, means):
                found = model.net(**many).logits.float().cpu().numpy()
            logits[np.ix_(np.array(chosen), indices)] = found.reshape(len(chosen), len(indices), -1)
        done += len(indices)
        progress(done, len(examples))
    return logits
