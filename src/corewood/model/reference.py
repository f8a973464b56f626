"""One pass of the full model over a sample: its logits, and the mean activation of every unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import Split, one_split
from corewood.errors import InputError
from corewood.model.gates import Means, at_rest, check_model, hooked
from corewood.model.load import Model

Progress = Callable[[int, int], None]  # (done, total)


def no_progress(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Reference:
    logits: np.ndarray  # (example, class) of the full model
    means: Means


@torch.no_grad()
def reference(model: Model, sample: Encoded, progress: Progress = no_progress) -> Reference:
    """Logits are kept per example; sums run over non-padding tokens, in double precision."""
    units, tokens, done = model.units, 0, 0
    heads = torch.zeros(units.layers, units.heads * model.head_width, dtype=torch.float64)
    mlps = torch.zeros(units.layers, model.net.config.hidden_size, dtype=torch.float64)
    logits = np.zeros((len(sample), len(model.labels)), np.float32)
    real = torch.zeros(0)  # (batch, token) of the batch under way

    def add(sums: Tensor, x: Tensor) -> None:
        with torch.autocast(x.device.type, enabled=False):  # a mean over many tokens needs more than 16 bits
            exact = x if x.dtype == torch.float64 else x.float()
            sums.add_(torch.einsum("btf,bt->f", exact, real.to(exact.dtype)).cpu().double())

    to_heads, to_mlps = ({i: partial(add, sums[i]) for i in range(units.layers)} for sums in (heads, mlps))
    with at_rest(model), hooked(model, to_heads, to_mlps):
        for indices in by_length(sample.lengths):
            batch = sample.batch(indices, model.device)
            real = batch["attention_mask"]
            tokens += int(real.sum())
            logits[indices] = model(**batch).logits.float().cpu().numpy()
            done += len(indices)
            progress(done, len(sample))
    head_means = (heads / tokens).float().reshape(units.layers, units.heads, model.head_width)
    return Reference(logits, Means(head_means, (mlps / tokens).float(), tokens))


def mean_activations(model: Model, split: Split, examples: int = 2048, seed: int = 0) -> Means:
    """Means over a sample of a split; the model keeps them (`model.means`), so that `cw.gated` and `cw.predict` find them.

    Example:
        >>> means = cw.mean_activations(model, task.train, examples=100)
        >>> model.means is means
        True
    """
    check_model(model, "mean_activations")
    one_split(split, "mean_activations")
    model.means = reference(model, encode_sample(model, split, examples, seed)).means
    return model.means


def sample_indices(count: int, examples: int, seed: int) -> np.ndarray:
    """Which examples a sample takes: all of them, or so many drawn without repetition, in their own order."""
    if not isinstance(examples, int | np.integer) or examples < 1:
        raise InputError(f"a sample of {examples!r} examples: take 1 or more, a whole number")
    if examples >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, 0x5A]).choice(count, examples, replace=False))


def encode_sample(model: Model, split: Split, examples: int, seed: int) -> Encoded:
    chosen = Split(split.name, split.frame.iloc[sample_indices(len(split), examples, seed)], split.labels, split.fold)
    return encode(chosen, model.tokenizer, model.max_length)
