"""Predictions of many subnetworks, and of the full model without a few units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
import pandas as pd
import torch

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import Split, one_split
from corewood.errors import InputError, nearest
from corewood.evaluate.examples import Which, chosen, examples
from corewood.evaluate.metrics import Judge
from corewood.model.first_token import first_token
from corewood.model.gates import Means, at_rest, check_model
from corewood.model.load import Model
from corewood.model.mask import Mask, all_masks
from corewood.model.progress import Show, bar, part
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
    """(example, class) of one subnetwork: slim where closed units give the same to every token, gated where not."""
    logits = np.zeros((len(examples), len(model.labels)), np.float32)
    with subnetwork(model, mask, ablate, means) as call, at_rest(model), first_token(model, ablate):
        for indices in by_length(examples.lengths, progress=progress):
            logits[indices] = call(**examples.batch(indices, model.device)).logits.float().cpu().numpy()
    return logits


@dataclass(frozen=True)
class Predictions:
    """Logits of subnetworks on one split; `full` are those of the whole model. Made by `cw.predict`.

    Example:
        >>> predictions = cw.predict(model, masks, task.challenge["cases"])
        >>> predictions
        <Predictions of 3 subnetworks and the full model on cases, 72 examples>
        >>> predictions[0].shape  # the logits of the first subnetwork
        (72, 2)
        >>> table = predictions.accuracy()
        >>> table[table["case"] == "all"]["subnetwork"].tolist()
        [-1, 0, 1, 2]
        >>> predictions.wrong(masks[0], which="lost").columns.tolist()
        ['first', 'second', 'case', 'gold', 'full', 'full_p', 'answer', 'answer_p', 'which', 'gap']
    """

    split: Split
    classes: tuple[str, ...]
    logits: np.ndarray = field(repr=False)  # (mask, example, class)
    full: np.ndarray = field(repr=False)  # (example, class)
    masks: tuple[Mask, ...] = field(default=(), repr=False)

    def __getitem__(self, mask: int | Mask) -> np.ndarray:
        return np.asarray(self.logits[self.place(mask)])

    def place(self, mask: int | Mask) -> int:
        """Which of the subnetworks this is."""
        if isinstance(mask, Mask) and mask in self.masks:
            return self.masks.index(mask)
        if isinstance(mask, (int, np.integer)) and -len(self.logits) <= mask < len(self.logits):
            return int(mask)
        raise InputError(f"these are predictions of {len(self.logits)} masks: give one of them, or a number from 0 on")

    def wrong(
        self, mask: int | Mask = 0, which: Which = "differ", case: str | None = None, other: int | Mask | None = None
    ) -> pd.DataFrame:
        """The examples that a subnetwork and the full model, or a subnetwork and another, answer differently.

        `which` may also be lost (the full model is right, the subnetwork wrong), gained (the reverse), wrong (all that the
        subnetwork gets wrong) or all. Columns are the texts, case, gold, then answer and probability: full, full_p of the full
        model, answer, answer_p of the subnetwork, other, other_p of the other; which; and gap, how far apart the two lie in
        the probability of the right answer. The widest gaps come first; the index counts examples as the split does.
        """
        beside = None if other is None else self[other]
        return chosen(examples(self.split, self.classes, self[mask], self.full, beside), which, case)

    def accuracy(self) -> pd.DataFrame:
        """One row per subnetwork and case; the full model is subnetwork -1."""
        judge = Judge(self.split, self.classes)
        tables = [judge.accuracy(self.full).assign(subnetwork=-1)]
        for i, logits in enumerate(self.logits):
            tables.append(judge.accuracy(logits, self.full).assign(subnetwork=i))
        return pd.concat(tables, ignore_index=True)

    def __repr__(self) -> str:
        many = "1 subnetwork" if len(self.logits) == 1 else f"{len(self.logits)} subnetworks"
        return f"<Predictions of {many} and the full model on {self.split.name}, {len(self.split)} examples>"

    def _repr_html_(self) -> str:
        if self.split.regression:
            return escape(repr(self)[1:-1])
        table = self.accuracy().pivot(index="case", columns="subnetwork", values="value").rename(columns={-1: "full model"})
        return f"<b>{escape(self.split.name)}</b>: accuracy" + table.round(3).to_html()


def predict(
    model: Model,
    masks: Mask | Sequence[Mask],
    split: Split,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Show = True,
) -> Predictions:
    """Logits of every mask, and of the full model, on every example of a split.

    `ablate` and `means` say what closed units give, as in `cw.gated`. Without masks, `[]`, the full model alone is judged.

    Example:
        >>> predictions = cw.predict(model, masks, task.validation)
        >>> predictions.logits.shape, predictions.full.shape
        ((3, 60, 2), (60, 2))
    """
    check_model(model, "predict")
    one_split(split, "predict")
    many = [model.units.full(), *all_masks(masks, "predict")]
    for mask in many:
        mask.check(model.units)
    encoded = encode(split, model.tokenizer, model.max_length)
    with bar(f"predict {split.name}", progress) as tell:
        full, *logits = (
            logits_of(model, mask, encoded, ablate, means, progress=part(tell, i, len(many))) for i, mask in enumerate(many)
        )
    return Predictions(split, model.labels, np.stack(logits) if logits else np.zeros((0, *full.shape)), full, tuple(many[1:]))


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


def ablate(
    model: Model,
    masks: Mask | Sequence[Mask],
    examples: Encoded | Split,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Progress = no_progress,
) -> np.ndarray:
    """Logits of many masks that close few units, (mask, example, class): layers below the first that a mask changes are
    computed once for all of them.

    Example:
        >>> each = [model.units.without(name) for name in model.units.names]
        >>> cw.ablate(model, each, task.validation).shape
        (10, 60, 2)
    """
    check_model(model, "ablate")
    masks = all_masks(masks, "ablate")
    if not isinstance(examples, Encoded):
        examples = encode(one_split(examples, "ablate"), model.tokenizer, model.max_length)
    if ablate == "resample":  # values come from other rows of the batch: every mask needs its own run
        each = [part(progress, place, len(masks)) for place in range(len(masks))]
        found = [logits_of(model, m, examples, ablate, means, told) for m, told in zip(masks, each, strict=True)]
        return np.stack(found) if found else np.zeros((0, len(examples), len(model.labels)), np.float32)
    return variants(model, masks, examples, model.units.full(), ablate, means, progress)
