"""Gates: hooks that close heads and MLPs of a model, and come off again.

    with gated(model, mask, ablate="mean", means=means):
        model.net(**batch)          # any Hugging Face code inside

A gate z scales a unit's own value h towards its ablated value a:  h z + a (1 - z). With z = 1 that is h to the last
bit; with z = 0 it is a. For a head, h is its slice of the input of the attention's output projection; for an MLP, h is
the output of its last projection, before the residual add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from corewood.errors import InputError
from corewood.model.mask import Mask
from corewood.spec import Ablation

if TYPE_CHECKING:
    from corewood.model.load import Model


@dataclass(frozen=True)
class Means:
    """Mean activations over non-padding tokens."""

    heads: Tensor  # (layer, head, width of a head)
    mlps: Tensor  # (layer, width of the model)
    tokens: int


@dataclass(frozen=True)
class Gates:
    """Gate values in [0, 1]. With a leading batch axis, every example of the batch has gates of its own."""

    heads: Tensor  # ([batch,] layer, head)
    mlps: Tensor  # ([batch,] layer)

    @classmethod
    def of(cls, mask: Mask, device: torch.device | str = "cpu") -> Gates:
        return cls(
            torch.tensor(mask.heads, dtype=torch.float32, device=device),
            torch.tensor(mask.mlps, dtype=torch.float32, device=device),
        )

    @classmethod
    def from_vector(cls, z: Tensor, layers: int, heads: int) -> Gates:
        """([batch,] unit) in flat order: heads row by row, then MLPs."""
        split = layers * heads
        return cls(z[..., :split].reshape(*z.shape[:-1], layers, heads), z[..., split:])


class Donors:
    """For resample ablation: which token of which other example stands in for each token of a batch.

    Set anew by a hook on the whole model at each call, from the attention mask: example i takes from example i + k,
    its real tokens in order, starting over when they run out. k is drawn by the seed for every batch.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows: Tensor | None = None  # (batch, token)
        self.columns: Tensor | None = None  # (batch, token)

    def prepare(self, _module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise InputError("resample ablation needs input_ids in the call of the model")
        batch, length = ids.shape
        if batch < 2:
            raise InputError("resample ablation takes values from other examples: give at least two in a batch")
        real = kwargs.get("attention_mask")
        real = torch.ones_like(ids) if real is None else real
        shift = int(self.rng.integers(1, batch))
        donor = (torch.arange(batch, device=ids.device) + shift) % batch
        counts = real.sum(1)[donor]  # (batch,) real tokens of the donor
        first = real.argmax(1)[donor]  # (batch,) where they begin: padding may stand on the left
        own = (torch.arange(length, device=ids.device) - real.argmax(1)[:, None]).clamp(min=0)  # (batch, token)
        self.rows = donor[:, None].expand(batch, length)
        self.columns = first[:, None] + own % counts[:, None]

    def take(self, x: Tensor) -> Tensor:
        if self.rows is None or self.columns is None or x.shape[:2] != self.rows.shape:
            raise InputError("resample ablation works on padded batches of (batch, token) only")
        return x[self.rows, self.columns]


Ablated = Callable[[Tensor], Tensor | float]  # a unit's own values -> what stands in for them


def gate_values(gate: Tensor, like: Tensor) -> Tensor:
    """(feature,) or (batch, feature) -> something that multiplies (batch, token, feature)."""
    return (gate if gate.dim() == 1 else gate[:, None, :]).to(like.dtype)


def mix(x: Tensor, z: Tensor, ablated: Tensor | float) -> Tensor:
    return x * z if isinstance(ablated, float) else torch.lerp(ablated, x, z)


@contextmanager
def hooked(model: Model, gates: Gates, heads_ablated: list[Ablated], mlps_ablated: list[Ablated]) -> Iterator[None]:
    """Put a hook on every layer that has a gate below one (or one that learns); take them off at the end."""

    def head_hook(layer: int) -> Callable[..., Any]:
        z = gates.heads[..., layer, :].repeat_interleave(model.head_width, -1)  # ([batch,] head * width)

        def hook(_module: torch.nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            x = args[0]  # (batch, token, head * width)
            return (mix(x, gate_values(z, x), heads_ablated[layer](x)), *args[1:])

        return hook

    def mlp_hook(layer: int) -> Callable[..., Any]:
        z = gates.mlps[..., layer, None]  # ([batch,] 1)

        def hook(_module: torch.nn.Module, _args: tuple[Any, ...], x: Tensor) -> Tensor:
            return mix(x, gate_values(z, x), mlps_ablated[layer](x))

        return hook

    def needed(gate: Tensor) -> bool:
        return gate.requires_grad or bool((gate < 1).any())

    with ExitStack() as stack:
        for layer, (attention_out, mlp_out) in enumerate(zip(model.attention_outs, model.mlp_outs, strict=True)):
            if needed(gates.heads[..., layer, :]):
                stack.callback(attention_out.register_forward_pre_hook(head_hook(layer)).remove)
            if needed(gates.mlps[..., layer]):
                stack.callback(mlp_out.register_forward_hook(mlp_hook(layer)).remove)
        yield


@contextmanager
def gated(
    model: Model, mask: Mask | Gates, ablate: Ablation = "mean", means: Means | None = None, seed: int = 0
) -> Iterator[Model]:
    """Close the gates that the mask leaves out, for as long as the block lasts.

    `means` default to those the model carries (`model.means`, set by `cw.search` or `cw.mean_activations`).
    """
    if isinstance(mask, Mask):
        mask.check(model.units)
        gates = Gates.of(mask, model.device)
    else:
        gates = mask
    with ExitStack() as stack:
        if ablate == "resample":
            donors = Donors(seed)
            stack.callback(model.net.register_forward_pre_hook(donors.prepare, with_kwargs=True).remove)
            heads_ablated: list[Ablated] = [donors.take] * model.units.layers
            mlps_ablated = heads_ablated
        else:
            heads_ablated, mlps_ablated = ablated_values(model, ablate, means)
        stack.enter_context(hooked(model, gates, heads_ablated, mlps_ablated))
        yield model


def ablated_values(model: Model, ablate: Ablation, means: Means | None) -> tuple[list[Ablated], list[Ablated]]:
    """Per layer, what stands in for heads and for the MLP, where it does not depend on the batch."""
    layers = range(model.units.layers)
    if ablate == "zero":
        nothing: list[Ablated] = [lambda _x: 0.0] * len(layers)
        return nothing, nothing
    if ablate != "mean":
        raise InputError(f"ablate={ablate!r}: choose mean, zero or resample")
    means = means or model.means
    if means is None:
        raise InputError(
            "mean ablation needs mean activations: pass means=cw.mean_activations(model, split), or ablate='zero' or 'resample'"
        )
    head_means = means.heads.to(model.device).flatten(1)  # (layer, head * width)
    mlp_means = means.mlps.to(model.device)
    return (
        [lambda x, a=head_means[i]: a.to(x.dtype) for i in layers],  # type: ignore[misc]
        [lambda x, a=mlp_means[i]: a.to(x.dtype) for i in layers],  # type: ignore[misc]
    )
