"""Many subnetworks of one model, in one call."""

from __future__ import annotations

from collections.abc import Iterable

from corewood.data.task import Task
from corewood.model.load import Model
from corewood.model.mask import Masks
from corewood.model.reference import encode_sample, reference
from corewood.prune.l0 import Found, l0_search
from corewood.spec import L0, Ablation


def search(
    model: Model, task: Task, method: L0, seeds: Iterable[int] = range(6), ablate: Ablation = "mean", sample: int = 2048
) -> Masks:
    """One mask per seed; with a path, one per seed and sparsity, in rising sparsity. The full model runs once over a sample
    of the training texts, for all of them. The model keeps the mean activations, so that `cw.gated` and `cw.predict` find them.
    """
    chosen = encode_sample(model, task.train or task.validation, sample, seed=0)
    shared = reference(model, chosen)
    model.means = shared.means
    found: list[Found] = [l0_search(model, chosen, shared, method, seed, ablate) for seed in seeds]
    return Masks([mask for f in found for mask in f.masks], [f.trajectory for f in found for _ in f.masks])
