"""Normed attention (Kobayashi et al. 2020): how much each token really adds, not only how much it is looked at.

A head h adds to token i the sum over j of alpha[i, j] f_h(x_j), where f_h(x_j) is the head's value vector at j after
that head's columns of the output projection, without its bias. Normed attention is alpha[i, j] ||f_h(x_j)||.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from corewood.data.encode import Words
from corewood.errors import InputError
from corewood.evaluate.attention import attention_of
from corewood.model.families import FAMILIES
from corewood.model.load import Model


def head_columns(model: Model, layer: int) -> Tensor:
    """(model's width, head, width of a head): the output projection, cut into what each head goes through."""
    out = model.attention_outs[layer]
    weight = out.weight
    assert isinstance(weight, Tensor)
    weight = weight.T if model.family.transposed else weight
    return weight.detach().reshape(len(weight), model.units.heads, -1)


def split_values(model: Model, projected: Tensor) -> Tensor:
    """What the value projection gives -> (example, token, head, width); grouped values stand once per query head."""
    if projected.dim() != 3:
        raise InputError(f"model type {model.net.config.model_type!r}: its values are not in (example, token) order")
    heads, row = model.units.heads, model.family
    if row.fused == "thirds":
        return projected.chunk(3, -1)[2].reshape(*projected.shape[:2], heads, -1)
    if row.fused == "per_head":
        return projected.reshape(*projected.shape[:2], heads, 3, -1)[..., 2, :]
    values = projected.reshape(*projected.shape[:2], model.units.groups, -1)
    return values.repeat_interleave(heads // model.units.groups, 2)


def check_normed(model: Model) -> None:
    """Refuse a model whose value vectors cannot be told from its projections."""
    row = model.family
    if (len(row.attention_in) == 1) == (row.fused == "no"):
        known = ", ".join(name for name, other in FAMILIES.items() if other.fused != "no")
        raise InputError(
            f"model type {model.net.config.model_type!r}: where its value vectors stand in the projection is not known, so "
            f"there is no normed attention for it (known of this sort: {known}); raw attention needs nothing of the kind"
        )


@torch.inference_mode()
def value_norms(model: Model, layer: int, values: Tensor) -> Tensor:
    """(example, token, head, width) -> (example, head, token): ||f_h(x_j)||, one head at a time to save memory."""
    columns = head_columns(model, layer)
    norms = [(values[:, :, h] @ columns[:, h].T).float().norm(dim=-1) for h in range(model.units.heads)]
    return torch.stack(norms, 1)


@torch.inference_mode()
def normed_attention_of(model: Model, examples: Sequence[Words]) -> tuple[Tensor, Tensor]:
    """Raw and normed attention, each (example, layer, head, query, key), padded to the longest."""
    check_normed(model)
    path = model.family.attention_in[-1]
    norms: dict[int, Tensor] = {}

    def hook(layer: int) -> Callable[..., None]:
        def keep(_module: Any, _args: Any, projected: Tensor) -> None:
            norms[layer] = value_norms(model, layer, split_values(model, projected)).cpu()

        return keep

    with ExitStack() as stack:
        for i, layer in enumerate(model.layers):
            stack.callback(layer.get_submodule(path).register_forward_hook(hook(i)).remove)
        raw = attention_of(model, examples)
    each = torch.stack([norms[i] for i in range(model.units.layers)], 1)  # (example, layer, head, key)
    return raw, raw * each[:, :, :, None, :]
