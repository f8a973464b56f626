"""Slim: a subnetwork as the same modules run with smaller parameters.

Rows of query, key and value and columns of the output projection that belong to closed heads are left out; what a
closed unit would give (its mean, or nothing) goes into the bias behind it; a closed MLP has width zero. For evaluation the
smaller tensors stand in for the model's own during a call (`torch.func.functional_call`); `slim` puts them into a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from corewood.errors import InputError
from corewood.model.families import FAMILIES
from corewood.model.gates import Means, check_model, gated
from corewood.model.load import Model
from corewood.model.mask import Mask, one_mask
from corewood.model.precision import autocast
from corewood.spec import Ablation

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def can_slim(model: Model, ablate: Ablation) -> bool:
    """Resampled values differ from token to token: no bias can hold them."""
    return model.family.slim != "no" and ablate in ("mean", "zero")


def slim(model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None) -> PreTrainedModel:
    """A copy of the Hugging Face model without the closed units: a plain torch module with fewer parameters, and the logits of
    `cw.gated(model, mask, ablate, means)`. With `ablate="zero"` it is what transformers' prune_heads did.

    A layer keeps one head, with nothing behind it, where all are closed. The copy's config still describes the whole model, so
    it lives in memory: `from_pretrained` could not read it again.

    Example:
        >>> small = cw.slim(model, masks[0])
        >>> small.num_parameters() < model.net.num_parameters()
        True
        >>> with cw.gated(model, masks[0]):
        ...     torch.allclose(small(**batch).logits, model.net(**batch).logits, atol=1e-5)
        True
    """
    check_model(model, "slim")
    one_mask(mask, "slim")
    if model.family.slim == "no":
        known = ", ".join(name for name, row in FAMILIES.items() if row.slim != "no")
        raise InputError(
            f"slim: modules of model type {model.net.config.model_type!r} cannot be made smaller yet; those of {known} can. "
            "with cw.gated(model, mask) closes units of any model"
        )
    if ablate == "resample":
        raise InputError("slim: resampled values differ from token to token, which no model can hold; choose mean or zero")
    small = replace(model, net=deepcopy(model.net))
    shrink(small, slim_parameters(small, mask, ablate, means))
    return small.net


def shrink(model: Model, parameters: dict[str, Tensor]) -> None:
    """Put smaller parameters in the place of the model's own."""
    for module, name, width in widths(model, parameters):
        setattr(module, name, width)
    for name, value in parameters.items():
        owner, _, leaf = name.rpartition(".")
        module = model.net.get_submodule(owner)
        setattr(module, leaf, nn.Parameter(value.clone()))
        if isinstance(module, nn.Linear):
            module.out_features, module.in_features = module.weight.shape


@contextmanager
def slimmed(model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None) -> Iterator[Callable[..., Any]]:
    """Gives a function that calls the model with a subnetwork's parameters alone."""
    parameters = slim_parameters(model, mask, ablate, means)
    with ExitStack() as stack:
        for module, name, width in widths(model, parameters):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, width)

        def call(**inputs: Tensor) -> Any:
            with autocast(model.precision, model.device):
                return functional_call(model.net, parameters, (), inputs)

        yield call


@contextmanager
def subnetwork(
    model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None, seed: int = 0
) -> Iterator[Callable[..., Any]]:
    """Gives a function that calls a subnetwork: slim where the model's family allows it, gated where not."""
    if mask.vector.all():
        mask.check(model.units)
        yield model
    elif can_slim(model, ablate):
        with slimmed(model, mask, ablate, means) as call:
            yield call
    else:
        with gated(model, mask, ablate, means, seed):
            yield model


@contextmanager
def confined(model: Model, mask: Mask) -> Iterator[Model]:
    """For training a subnetwork alone: closed units give nothing, and nothing of them learns.

    Where its family allows, the model itself becomes the smaller one and stays so; where not, gates are held for the block.
    """
    if mask.vector.all() or model.family.slim == "no":
        with gated(model, mask, "zero"):
            yield model
        return
    shrink(model, slim_parameters(model, mask, "zero", None, narrowest=1))
    for i in range(model.units.layers):  # of a block that is closed as a whole, what is left must stay zero
        if not mask.heads[i].any():
            model.attention_outs[i].weight.requires_grad_(False)
        if not mask.mlps[i]:
            model.mlp_outs[i].requires_grad_(False)
    yield model


def slim_parameters(model: Model, mask: Mask, ablate: Ablation, means: Means | None, narrowest: int = 0) -> dict[str, Tensor]:
    """By their names in the model, the parameters that differ from its own. A closed MLP has `narrowest` columns of zeros."""
    mask.check(model.units)
    means = (means or model.means) if ablate == "mean" else None
    if ablate == "mean" and means is None:
        raise InputError("mean ablation needs mean activations: pass means=cw.mean_activations(model, split), or ablate='zero'")
    row, width = model.family, model.head_width
    transposed = row.transposed
    place = {id(module): name for name, module in model.net.named_modules()}
    found: dict[str, Tensor] = {}

    def put(module: nn.Module, weight: Tensor, bias: Tensor) -> None:
        """`weight` is (out, in)."""
        name = place[id(module)]
        found[f"{name}.weight"] = weight.T.contiguous() if transposed else weight.contiguous()
        found[f"{name}.bias"] = bias

    def own(module: Any) -> tuple[Tensor, Tensor]:
        return (module.weight.T if transposed else module.weight).detach(), module.bias.detach()

    for i, layer in enumerate(model.layers):
        kept = torch.tensor(mask.heads[i], device=model.device)
        if not kept.all():
            out_weight, out_bias = own(model.attention_outs[i])
            features = kept.repeat_interleave(width)  # (head * width,)
            if means is not None:
                gone = means.heads[i].flatten().to(out_bias)
                out_bias = out_bias + out_weight[:, ~features] @ gone[~features]
            stays, columns = features, out_weight[:, features]
            if not kept.any():  # attention needs one head to run; its columns are zero
                stays = torch.arange(len(features), device=model.device) < width
                columns = torch.zeros_like(out_weight[:, :width])
            put(model.attention_outs[i], columns, out_bias)
            for path in row.attention_in:
                weight, bias = own(layer.get_submodule(path))
                rows = stays.repeat(len(weight) // len(stays))  # three times where query, key and value are one
                put(layer.get_submodule(path), weight[rows], bias[rows])
        if not mask.mlps[i]:
            weight, bias = own(model.mlp_outs[i])
            stand_in = torch.zeros_like(bias) if means is None else means.mlps[i].to(bias)
            left = max(narrowest, int(transposed))  # Conv1D cannot have width zero
            put(model.mlp_outs[i], torch.zeros_like(weight[:, :left]), stand_in)
            for path in row.mlp_in:
                weight, bias = own(layer.get_submodule(path))
                put(layer.get_submodule(path), weight[:left], bias[:left])
    return found


def widths(model: Model, parameters: dict[str, Tensor]) -> Iterator[tuple[nn.Module, str, int]]:
    """GPT-2 holds widths in attributes too: (module, attribute, value while slim)."""
    for name, module in model.net.named_modules() if model.family.slim == "gpt2" else ():
        if (weight := parameters.get(f"{name}.weight")) is not None:
            yield module, "nf", weight.shape[1]
        if (inner := parameters.get(f"{name}.c_attn.weight")) is not None:
            yield module, "split_size", inner.shape[1] // 3
