"""Several searches of one model, each on its own or sharing batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from corewood.data.task import Task, a_kind, one_task
from corewood.errors import InputError
from corewood.evaluate.predict import unit_set
from corewood.model.gates import check_model, frozen
from corewood.model.load import Model
from corewood.model.mask import Masks
from corewood.model.progress import Show, bar, part
from corewood.model.reference import encode_sample, reference
from corewood.prune.exchange import Texts
from corewood.prune.l0 import Found, State, best_of_starts, descend, l0_search, pins, step
from corewood.spec import L0, Ablation

MEMORY_SHARE, MOST_TOGETHER = 0.7, 16  # of what is free on a GPU, and searches, that share a batch


def search(
    model: Model,
    task: Task,
    method: L0,
    seeds: int | Iterable[int] = range(6),
    ablate: Ablation = "mean",
    sample: int = 6144,
    without: str | Iterable[str] = (),
    with_: str | Iterable[str] = (),
    progress: Show = True,
    pack: int | None = None,
) -> Masks:
    """Look for subnetworks: one mask per seed; with a path, one per seed and sparsity, in rising sparsity.

    `seeds` are how many, or which. The full model runs once over a `sample` of the training texts, for all of them. The model
    keeps the mean activations, so that `cw.gated` and `cw.predict` find them. No mask holds a unit of `without`, every mask
    holds those of `with_`: names, 'L2.H5 + L3.H7', or a mask. So many searches as `pack` says share a batch, which pays on a
    GPU; by default as many as its memory allows, and on a CPU one. Results are the same up to rounding.

    Example:
        >>> masks = cw.search(model, task, cw.L0(sparsity=0.5, steps=5, batch=8), seeds=3)
        >>> masks
        <3 masks: 5 units, 5 units, 5 units>
        >>> masks.trajectories[0]["step"].tolist()  # how the first was found
        [1, 2, 3, 4, 5]
    """
    check_model(model, "search")
    one_task(task, "search")
    if not isinstance(method, L0):
        raise InputError(f"search: takes settings, cw.L0(sparsity=0.5), not {a_kind(method)}")
    if len(model.labels) == 1:
        raise InputError("search: keeps probabilities of classes, and a number has none; prune a regression by cw.prune_units")
    each = which_seeds(seeds)
    closed, held = (unit_set(units, model.units.names, key) for units, key in ((without, "without"), (with_, "with_")))
    pinned = pins(model.units.names, closed, held, method)
    chosen = encode_sample(model, task.train or task.validation, sample, seed=0)
    shared = reference(model, chosen)
    model.means = shared.means
    texts = Texts.of(model, chosen, shared, ablate)
    together = pack_size(texts, method) if pack is None else checked_pack(pack, method, ablate)
    with bar("search", progress) as tell:
        packed: dict[int, State] = {}
        for first in range(0, len(each) if together > 1 else 0, together):
            seeds_here = each[first : first + together]
            begun = [State.start(len(model.units), method, seed, pinned) for seed in seeds_here]
            packed |= zip(seeds_here, descend(texts, method, seeds_here, begun), strict=True)

        def found_by(place: int, seed: int) -> Found:
            def from_start(start: int, own: int) -> Found:
                done = part(tell, place * method.starts + start, len(each) * method.starts)
                begun = packed.get(own) if start == 0 else None
                return l0_search(texts, method, own, done, begun, pinned=pinned)

            return best_of_starts(from_start, method, seed)

        found = [found_by(place, seed) for place, seed in enumerate(each)]
    return Masks([mask for f in found for mask in f.masks], [f.trajectory for f in found for _ in f.masks])


def checked_pack(pack: int, method: L0, ablate: Ablation) -> int:
    if not isinstance(pack, int) or pack < 1:
        raise InputError(f"pack={pack!r}: say how many searches share a batch, 1 or more")
    if pack > 1 and (method.dropout or ablate == "resample"):
        what = "dropout" if method.dropout else "resample ablation"
        raise InputError(f"pack={pack}: with {what}, what an example gets depends on its batch; leave pack out")
    return pack


def pack_size(texts: Texts, method: L0) -> int:
    """As many searches as fit into the memory of the GPU, by what one step of one takes; on a CPU one is fastest."""
    device = texts.model.device
    if device.type != "cuda" or method.dropout or texts.ablate == "resample":
        return 1
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    longest = np.argsort(-texts.examples.lengths, kind="stable")[: method.batch]
    with frozen(texts.model, dropout=False):
        step(texts, longest, method, 0, State.start(len(texts.model.units), method, 0))
    one = max(1, torch.cuda.max_memory_allocated(device) - before)
    return int(np.clip(MEMORY_SHARE * torch.cuda.mem_get_info(device)[0] / one, 1, MOST_TOGETHER))


def which_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """How many, or which."""
    each = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds) if isinstance(seeds, Iterable) else ()
    if not each or len({*each}) < len(each) or not all(isinstance(seed, (int, np.integer)) and seed >= 0 for seed in each):
        raise InputError(f"seeds={seeds!r}: say how many, seeds=3, or which, seeds=[0, 4, 7], each once")
    return tuple(map(int, each))
