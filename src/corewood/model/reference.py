"""One pass of the full model over a sample: its logits, and the mean activation of every unit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import Split
from corewood.model.gates import Means
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
    layers = range(model.units.layers)
    real: Tensor | None = None  # (batch, token) of the batch under way
    head_sums = torch.zeros(len(layers), model.units.heads * model.head_width, dtype=torch.float64)
    mlp_sums: list[Tensor] = [torch.zeros(1)] * len(layers)
    tokens = done = 0

    def total(x: Tensor) -> Tensor:
        assert real is not None
        return torch.einsum("btf,bt->f", x, real.to(x.dtype)).cpu().double()

    def head_hook(layer: int) -> Callable[..., Any]:
        def hook(_module: Any, args: tuple[Tensor, ...]) -> None:
            head_sums[layer] += total(args[0])

        return hook

    def mlp_hook(layer: int) -> Callable[..., Any]:
        def hook(_module: Any, _args: Any, x: Tensor) -> None:
            mlp_sums[layer] = mlp_sums[layer] + total(x)

        return hook

    logits = np.zeros((len(sample), len(model.labels)), np.float32)
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(model.attention_outs[layer].register_forward_pre_hook(head_hook(layer)).remove)
            stack.callback(model.mlp_outs[layer].register_forward_hook(mlp_hook(layer)).remove)
        for indices in by_length(sample.lengths):
            batch = sample.batch(indices, model.device)
            real = batch["attention_mask"]
            tokens += int(real.sum())
            logits[indices] = model.net(**batch).logits.float().cpu().numpy()
            done += len(indices)
            progress(done, len(sample))
    heads = (head_sums / tokens).float().reshape(len(layers), model.units.heads, model.head_width)
    return Reference(logits, Means(heads, (torch.stack(mlp_sums) / tokens).float(), tokens))


def mean_activations(model: Model, split: Split, examples: int = 2048, seed: int = 0) -> Means:
    """Means over a sample of a split; the model keeps them, so that `gated` finds them."""
    model.means = reference(model, encode_sample(model, split, examples, seed)).means
    return model.means


def sample_indices(count: int, examples: int, seed: int) -> np.ndarray:
    """Which examples a sample takes: all of them, or so many drawn without repetition, in their own order."""
    if examples >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, 0x5A]).choice(count, examples, replace=False))


def encode_sample(model: Model, split: Split, examples: int, seed: int) -> Encoded:
    chosen = Split(split.name, split.frame.iloc[sample_indices(len(split), examples, seed)], split.labels, split.fold)
    return encode(chosen, model.tokenizer, model.max_length)
