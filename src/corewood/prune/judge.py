"""How good a subnetwork is, as one number: what pruning goes by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corewood.data.encode import Encoded, encode
from corewood.data.labels import gold_classes
from corewood.data.task import Split
from corewood.evaluate.metrics import score
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import Progress, no_progress
from corewood.prune.importance import FoundUnits, importance_search
from corewood.prune.magnitude import FoundWeights, magnitude_search
from corewood.spec import Ablation
from corewood.spec.ways import Importance, Magnitude, Prunes


def unit_judge(
    model: Model, examples: Encoded, gold: np.ndarray, metric: str, ablate: Ablation = "zero", means: Means | None = None
) -> Callable[[Mask], float]:
    return lambda mask: score(metric, logits_of(model, mask, examples, ablate, means), gold, draws=0).value


def weight_judge(model: Model, examples: Encoded, gold: np.ndarray, metric: str) -> Callable[[], float]:
    return lambda: score(metric, logits_of(model, model.units.full(), examples), gold, draws=0).value


def prune_units(
    model: Model,
    split: Split,
    settings: Importance | None = None,
    prune: Prunes = "both",
    metric: str = "accuracy",
    progress: Progress = no_progress,
) -> FoundUnits:
    """Heads and MLPs of a fine-tuned model by importance, on a labelled split: `.mask`, and how it was found."""
    settings = settings or Importance.model_validate({})
    examples, gold = encode(split, model.tokenizer, model.max_length), gold_classes(model.labels, split)
    judge = unit_judge(model, examples, gold, metric, settings.stand_in, model.means)
    return importance_search(model, examples, gold, judge, settings, prune, None, model.means, progress)


def prune_weights(
    model: Model,
    split: Split,
    settings: Magnitude | None = None,
    metric: str = "accuracy",
    progress: Progress = no_progress,
) -> FoundWeights:
    """Single weights of a fine-tuned model by magnitude: `.mask`, for `with cw.weights_masked(model, mask)`."""
    examples, gold = encode(split, model.tokenizer, model.max_length), gold_classes(model.labels, split)
    judge = weight_judge(model, examples, gold, metric)
    return magnitude_search(model, judge, settings or Magnitude.model_validate({}), None, progress)
