"""Variants of one batch that go on from the first layer they change.

The full model runs once and what each layer gives is kept. A group of variants that first differ in layer l then share
all below it, and layer l's attention too: its context is computed for the batch, spread out over the variants where the
output projection begins, and from there on every variant has rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from corewood.model.gates import Gates, Means, ablated_values, hooked, mix
from corewood.model.load import Model
from corewood.spec import Ablation


@contextmanager
def recorded(model: Model) -> Iterator[list[Any]]:
    """What each layer gives, as it gives it, in the calls made inside."""
    outputs: list[Any] = [None] * model.units.layers

    def keep(layer: int) -> Callable[..., None]:
        def hook(_module: Any, _args: Any, output: Any) -> None:
            outputs[layer] = output

        return hook

    with ExitStack() as stack:
        for i, layer in enumerate(model.layers):
            stack.callback(layer.register_forward_hook(keep(i)).remove)
        yield outputs


@contextmanager
def resumed(
    model: Model,
    below: list[Any],
    first: int,
    gates: Gates,
    rows: int,
    ablate: Ablation = "mean",
    means: Means | None = None,
) -> Iterator[None]:
    """Inside, a call with (variant * rows) inputs, variant by variant, runs from layer `first` on.

    `below` is what layers gave on the `rows` inputs of one variant; `gates` has a leading axis of variants, all open
    below `first`.
    """
    variants = len(gates.heads)
    heads_ablated, mlps_ablated = ablated_values(model, ablate, means)
    layer = model.layers[first]

    def shrink(value: Any) -> Any:
        """Inputs of all variants -> those of one; they are the same."""
        return value[:rows] if isinstance(value, Tensor) and value.shape[:1] == (variants * rows,) else value

    def one_variant(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kwargs = {k: tuple(map(shrink, v)) if isinstance(v, tuple) else shrink(v) for k, v in kwargs.items()}
        return tuple(map(shrink, args)), kwargs

    def spread(z: Tensor, ablated: Callable[[Tensor], Tensor | float]) -> Callable[[Tensor], Tensor]:
        """(row, token, feature) -> (variant, row, token, feature)"""
        return lambda x: mix(x, z[:, None, None, :].to(x.dtype), ablated(x))

    def all_variants(_module: Any, _args: Any, output: Any) -> Any:
        def flat(x: Tensor) -> Tensor:
            return x.flatten(0, 1) if x.dim() == 4 else x.repeat(variants, 1, 1)

        return (flat(output[0]), *output[1:]) if isinstance(output, tuple) else flat(output)

    head_gate = gates.heads[:, first].repeat_interleave(model.head_width, -1)  # (variant, head * width)
    spread_heads = spread(head_gate, heads_ablated[first])
    spread_mlp = spread(gates.mlps[:, first, None], mlps_ablated[first])
    later = Gates(
        gates.heads.index_fill(1, torch.tensor(first, device=model.device), 1).repeat_interleave(rows, 0),
        gates.mlps.index_fill(1, torch.tensor(first, device=model.device), 1).repeat_interleave(rows, 0),
    )
    with ExitStack() as stack:
        for i in range(first):
            lower = model.layers[i]
            lower.forward = lambda *_args, output=below[i], **_kwargs: output
            stack.callback(delattr, lower, "forward")
        stack.callback(layer.register_forward_pre_hook(one_variant, with_kwargs=True).remove)
        stack.callback(layer.register_forward_hook(all_variants).remove)
        if bool((gates.heads[:, first] < 1).any()):
            out = model.attention_outs[first]
            stack.callback(out.register_forward_pre_hook(lambda _m, args: (spread_heads(args[0]), *args[1:])).remove)
        if bool((gates.mlps[:, first] < 1).any()):
            stack.callback(model.mlp_outs[first].register_forward_hook(lambda _m, _a, x: spread_mlp(x)).remove)
        stack.enter_context(hooked(model, later, heads_ablated, mlps_ablated))
        yield
