"""Variants of one batch that go on from the first layer they change.

The full model runs once and what each layer gives is kept. A group of variants that first differ in layer l then share
all below it, and layer l's attention too: its context is computed for the batch, spread out over the variants where the
output projection begins, and from there on every variant has rows of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corewood.data.encode import Encoded, by_length
from corewood.model.first_token import first_token
from corewood.model.gates import Ablated, Change, Gates, Means, ablated_values, at_rest, closing, gated, hooked, mix
from corewood.model.load import Model
from corewood.model.mask import Mask, Masks
from corewood.model.reference import Progress, no_progress
from corewood.model.slim import subnetwork
from corewood.spec import Ablation

ROWS, TOGETHER = 8, 12  # examples, and variants of them, per call; measured on MiniLM: larger batches leave the cache


def first_change(mask: Mask, base: Mask) -> int:
    """The lowest layer in which a mask differs from another; the number of layers where it does not."""
    changed = (mask.heads != base.heads).any(1) | (mask.mlps != base.mlps)
    return int(changed.argmax()) if changed.any() else len(changed)


@torch.inference_mode()
def variants(
    model: Model,
    masks: Sequence[Mask],
    examples: Encoded,
    base: Mask,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Progress = no_progress,
) -> np.ndarray:
    """(mask, example, class). Layers below the first in which a mask differs from `base` are computed once for all masks."""
    for mask in masks:
        mask.check(model.units)
    starts = np.array([first_change(mask, base) for mask in masks])
    calls = []  # (first layer, which masks, their gates): one call of the model each
    for layer in np.unique(starts):
        chosen = np.flatnonzero(starts == layer)
        for few in np.split(chosen, range(TOGETHER, len(chosen), TOGETHER)):
            calls.append((int(layer), few, Gates.of(Masks(masks[i] for i in few), model.device)))
    logits = np.zeros((len(masks), len(examples), len(model.labels)), np.float32)
    done = 0
    for indices in by_length(examples.lengths, ROWS):
        batch = examples.batch(indices, model.device)
        with at_rest(model), first_token(model), recorded(model) as below, gated(model, base, ablate, means):
            whole = model(**batch).logits.float().cpu().numpy()
        for layer, few, gates in calls:
            if layer == model.units.layers:
                logits[np.ix_(few, indices)] = whole
                continue
            many = {name: values.repeat(len(few), 1) for name, values in batch.items()}
            with at_rest(model), first_token(model), resumed(model, below, layer, gates, len(indices), ablate, means):
                found = model(**many).logits.float().cpu().numpy()
            logits[np.ix_(few, indices)] = found.reshape(len(few), len(indices), -1)
        done += len(indices)
        progress(done, len(examples))
    return logits


@dataclass(frozen=True)
class Ran:
    """What one subnetwork gave on some texts."""

    mask: Mask
    logits: np.ndarray  # (example, class)
    below: list[tuple[np.ndarray, list[Any]]] = field(repr=False)  # per batch: which examples, and what each layer gave


@torch.inference_mode()
def slim_variants(
    model: Model, masks: Sequence[Mask], examples: Encoded, ran: Ran, ablate: Ablation = "mean", means: Means | None = None
) -> np.ndarray:
    """As `variants`, one mask after another, each without its closed units: faster where most units are closed."""
    logits = np.repeat(ran.logits[None], len(masks), 0)
    for place, mask in enumerate(masks):
        layer = first_change(mask, ran.mask)
        if layer == model.units.layers:
            continue
        with subnetwork(model, mask, ablate, means) as call, at_rest(model), first_token(model, ablate):
            for rows, outputs in ran.below:
                with given_below(model, outputs, layer):
                    logits[place, rows] = call(**examples.batch(rows, model.device)).logits.float().cpu().numpy()
    return logits


@contextmanager
def given_below(model: Model, below: list[Any], first: int) -> Iterator[None]:
    """Inside, layers below `first` give what is in `below` and compute nothing."""
    with ExitStack() as stack:
        for i in range(first):
            lower = model.layers[i]
            lower.forward = lambda *_args, output=below[i], **_kwargs: output
            stack.callback(delattr, lower, "forward")
        yield


@contextmanager
def recorded(model: Model) -> Iterator[list[Any]]:
    """What each layer gives, as it gives it, in the one call made inside."""
    outputs: list[Any] = []
    with ExitStack() as stack:
        for layer in model.layers:
            stack.callback(layer.register_forward_hook(lambda _module, _args, output: outputs.append(apart(output))).remove)
        yield outputs


def apart(output: Any) -> Any:
    """The same values without what they were computed from."""
    return tuple(map(apart, output)) if isinstance(output, tuple) else output.detach() if torch.is_tensor(output) else output


def repeated(output: Any, variants: int) -> Any:
    """What a layer gave on the inputs of one variant, for all of them."""
    if isinstance(output, tuple):
        return tuple(repeated(part, variants) for part in output)
    return output.repeat(variants, 1, 1) if torch.is_tensor(output) else output


@contextmanager
def resumed(
    model: Model, below: list[Any], first: int, gates: Gates, rows: int, ablate: Ablation, means: Means | None
) -> Iterator[None]:
    """Inside, a call with (variant * rows) inputs, variant by variant, runs from layer `first` on.

    `below` is what layers gave on the `rows` inputs of one variant; `gates` has a leading axis of variants, whose layers
    below `first` are not looked at.
    """
    variants = len(gates.heads)
    ablated = ablated_values(model, ablate, means)
    layer = model.layers[first]

    def shrink(value: Any) -> Any:
        """Inputs of all variants -> those of one; they are the same."""
        return value[:rows] if isinstance(value, Tensor) and value.shape[:1] == (variants * rows,) else value

    def one_variant(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        apart = {k: kwargs.pop(k) for k in ("rel_embeddings",) if k in kwargs}  # DeBERTa-v2's: rows of it are no examples
        kwargs = apart | {k: tuple(map(shrink, v)) if isinstance(v, tuple) else shrink(v) for k, v in kwargs.items()}
        return tuple(map(shrink, args)), kwargs

    def all_variants(_module: Any, _args: Any, output: Any) -> Any:
        def flat(x: Tensor) -> Tensor:
            return x.flatten(0, 1) if x.dim() == 4 else x.repeat(variants, 1, 1)

        return (flat(output[0]), *output[1:]) if isinstance(output, tuple) else flat(output)

    def spread(gate: Tensor, ablated: Ablated) -> dict[int, Change]:
        """Where (variant, feature) gates close something: (row, token, feature) -> (variant, row, token, feature)"""
        return {first: partial(mix, gate[:, None, None], ablated)} if bool((gate < 1).any()) else {}

    if getattr(model.net.config, "conv_kernel_size", 0):  # DeBERTa-v2's convolution adds layer 0 to the embeddings of all
        below = [repeated(output, variants) for output in below]
    heads = spread(gates.heads[:, first].repeat_interleave(model.head_width, -1), ablated[0][first])
    mlps = spread(gates.mlps[:, first, None], ablated[1][first])
    own = Gates(gates.heads.repeat_interleave(rows, 0), gates.mlps.repeat_interleave(rows, 0))  # (variant * rows, ...)
    with ExitStack() as stack:
        stack.enter_context(given_below(model, below, first))
        stack.callback(layer.register_forward_pre_hook(one_variant, with_kwargs=True).remove)
        stack.callback(layer.register_forward_hook(all_variants).remove)
        stack.enter_context(hooked(model, heads, mlps))
        stack.enter_context(closing(model, own, ablated, first + 1))
        yield
