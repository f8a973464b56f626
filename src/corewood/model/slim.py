"""Slim: a subnetwork as the same modules with smaller parameters.

Rows of query, key and value and columns of the output projection that belong to closed heads are left out; what a closed
unit would give (its mean, or nothing) goes into the bias behind it; an attention without heads and a closed MLP become a
constant. All of that is a list of changes to attributes of modules. Evaluation makes them for the time of a call, `slim` makes
them on a copy, and a ticket is trained under them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from corewood.errors import InputError
from corewood.model.gates import Means, check_model, checked_means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask, one_mask
from corewood.spec import Ablation

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Constant(nn.Module):
    """What is left of a block without open units: the same values for every token."""

    def __init__(self, bias: Tensor, pair: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias.clone(), requires_grad=False)
        self.pair = pair  # attention gives its weights as well: here, none

    def forward(self, hidden_states: Tensor, *_args: Any, **_kwargs: Any) -> Any:
        values = self.bias.expand(*hidden_states.shape[:-1], -1)  # (batch, token, feature)
        return (values, None) if self.pair else values


class Shared(nn.Module):
    """A projection into key or value heads that uneven numbers of query heads share: gives each of these a copy."""

    features: Tensor  # (query head * width,) which feature each takes

    def __init__(self, projection: nn.Module, features: Tensor) -> None:
        super().__init__()
        self.projection = projection
        self.register_buffer("features", features, persistent=False)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return torch.index_select(self.projection(hidden_states), -1, self.features)


class SomeHeads(nn.Module):
    """An attention that is given a bias of positions for all heads, (batch, head, query, key), and takes that of its own."""

    heads: Tensor  # (kept head,)

    def __init__(self, attention: nn.Module, heads: Tensor) -> None:
        super().__init__()
        self.attention = attention
        self.register_buffer("heads", heads, persistent=False)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor, position_bias: Tensor, **kwargs: Any) -> Any:
        return self.attention(hidden_states, attention_mask, torch.index_select(position_bias, 1, self.heads), **kwargs)


@dataclass(frozen=True)
class Change:
    """An attribute of a module, and what it is in a subnetwork: a tensor, which becomes a parameter, a module or a number."""

    module: nn.Module
    name: str
    value: Any
    index: tuple[Tensor, ...] | None = None  # of a tensor: where its values stand in the module's own

    def make(self, learn: bool = False) -> Any:
        """Gives what was there before."""
        before = getattr(self.module, self.name)
        new = nn.Parameter(self.value, requires_grad=learn) if isinstance(self.value, Tensor) else self.value
        setattr(self.module, self.name, new)
        return before


def can_slim(ablate: Ablation) -> bool:
    """Resampled values differ from token to token: no bias can hold them."""
    return ablate in ("mean", "zero")


def check_open(model: Model) -> None:
    """Hooks of `cw.gated` know the whole model's widths."""
    if model.closing:
        raise InputError("inside cw.gated a second mask has no meaning of its own; gate their common units, one & other")


def slim(model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None) -> PreTrainedModel:
    """A copy of the Hugging Face model without the closed units: a plain torch module with fewer parameters, and the logits of
    `cw.gated(model, mask, ablate, means)`. With `ablate="zero"` it is what transformers' prune_heads did.

    The copy's config still describes the whole model, so it lives in memory: `from_pretrained` could not read it again.
    `cw.export` writes it to files that load anywhere.

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
    if not can_slim(ablate):
        why = "resampled values differ from token to token, which no model can hold; " if ablate == "resample" else ""
        raise InputError(f"slim: ablate={ablate!r}: {why}choose mean or zero")
    check_open(model)
    small = replace(model, net=deepcopy(model.net))
    for change in changes(small, mask, ablate, means):
        change.make(learn=True)
    for module in small.net.modules():
        if isinstance(module, Constant):
            module.requires_grad_(True)
    return small.net


@contextmanager
def slimmed(model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None) -> Iterator[Callable[..., Any]]:
    """Gives a function that calls the model with a subnetwork's parameters alone."""
    check_open(model)
    with ExitStack() as stack:
        for change in changes(model, mask, ablate, means):
            stack.callback(setattr, change.module, change.name, change.make())
        yield model


@contextmanager
def subnetwork(
    model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None, seed: int = 0
) -> Iterator[Callable[..., Any]]:
    """Gives a function that calls a subnetwork: slim where what closed units give is the same for every token."""
    if mask.vector.all():
        mask.check(model.units)
        yield model
    elif can_slim(ablate):
        with slimmed(model, mask, ablate, means) as call:
            yield call
    else:
        with gated(model, mask, ablate, means, seed):
            yield model


@contextmanager
def confined(model: Model, mask: Mask) -> Iterator[Model]:
    """For training a subnetwork alone: closed units give nothing, and nothing of them learns.

    Inside, the model is the smaller one. Afterwards it has its whole shape again, with zeros where it was closed.
    """
    made = changes(model, mask, "zero", None, constants=False)
    before = [change.make(learn=True) for change in made]
    for i in range(model.units.layers):  # of a block that is closed as a whole, what is left must stay zero
        if not mask.heads[i].any():
            model.attention_outs[i].weight.requires_grad_(False)
        if not mask.mlps[i]:
            model.mlp_outs[i].requires_grad_(False)
    yield model
    widen(made, before)


def widen(made: list[Change], before: list[Any]) -> None:
    """Give modules their whole shape again, with the values that smaller parameters have by now, and zeros beside them."""
    for change, own in reversed([*zip(made, before, strict=True)]):
        if change.index is None:
            setattr(change.module, change.name, own)
        else:
            whole = torch.zeros_like(own, requires_grad=False)
            whole[change.index] = getattr(change.module, change.name).detach().to(whole)
            setattr(change.module, change.name, nn.Parameter(whole))


# what changes


def changes(model: Model, mask: Mask, ablate: Ablation, means: Means | None, constants: bool = True) -> list[Change]:
    """What a subnetwork's modules have in the place of the model's own. Without `constants`, a block that is closed as a whole
    keeps one head, or one feature of an MLP, with zeros behind it: its shape can be trained."""
    mask.check(model.units)
    means = checked_means(means, model) if ablate == "mean" else None
    made: list[Change] = []
    for i in range(model.units.layers):
        kept = torch.tensor(mask.heads[i], device=model.device)  # (head,)
        if not kept.all():
            made += fewer_heads(model, i, kept, None if means is None else means.heads[i], constants)
        if not mask.mlps[i]:
            made += no_mlp(model, i, None if means is None else means.mlps[i], constants)
    return made


def fewer_heads(model: Model, i: int, kept: Tensor, mean: Tensor | None, constants: bool) -> Iterator[Change]:
    """`kept` is (head,), `mean` (head, width)."""
    row, layer, out, width = model.family, model.layers[i], model.attention_outs[i], model.head_width
    features = kept.repeat_interleave(width)  # (head * width,)
    bias = None if out.bias is None else out.bias.detach()
    if mean is not None:
        weight = matrix(out, row.transposed)
        folded = weight[:, ~features] @ mean.flatten().to(weight)[~features]
        bias = folded if bias is None else bias + folded
    if not kept.any() and constants:
        nothing = torch.zeros_like(matrix(out, row.transposed)[:, 0])
        yield from constant(layer, row.attention, row.attention_out, nothing if bias is None else bias, pair=True)
        return
    closed = not kept.any()
    if closed:  # attention needs one head to run; its columns are zero
        kept = torch.arange(len(kept), device=kept.device) == 0
        features = kept.repeat_interleave(width)
    yield from cut(out, row.transposed, columns=features, zero=closed)
    if mean is not None and bias is not None:
        yield Change(out, "bias", bias, (torch.arange(len(bias), device=kept.device),))
    yield from projections(model, layer, kept)
    attention = layer.get_submodule(row.attention)
    if row.features_in:
        yield Change(attention, row.features_in, int(features.sum()))
    if row.heads_in:
        yield Change(attention, row.heads_in, int(kept.sum()))
    if row.position_bias:
        yield Change(*place(layer, row.attention), SomeHeads(attention, kept.nonzero().flatten()))


def projections(model: Model, layer: Any, kept: Tensor) -> Iterator[Change]:
    """Into the heads that are kept, (head,)."""
    row, width, units = model.family, model.head_width, model.units
    features = kept.repeat_interleave(width)
    inside = dict(layer.named_modules())
    if units.groups < units.heads:
        query, *shared = row.attention_in
        yield from cut(inside[query], row.transposed, rows=features)
        yield from grouped(model, layer, shared, kept)
        return
    for path in (*row.attention_in, *(path for path in row.relative if path in inside)):
        rows = features if row.fused == "no" else features.repeat(3)  # all queries, all keys, all values
        if row.fused == "per_head":
            rows = kept.repeat_interleave(3 * width)
        yield from cut(inside[path], row.transposed, rows=rows)


def grouped(model: Model, layer: Any, paths: Iterable[str], kept: Tensor) -> Iterator[Change]:
    """Keys and values that groups of heads share: a group without heads goes. Groups of unequal size become groups of one,
    whose keys and values are copied for each head."""
    row, width, units = model.family, model.head_width, model.units
    by_group = kept.view(units.groups, -1)  # (group, head of the group)
    alive, counts = by_group.any(1), by_group.sum(1)
    even = bool((counts[alive] == counts.max()).all())
    for path in paths:
        projection = layer.get_submodule(path)
        yield from cut(projection, row.transposed, rows=alive.repeat_interleave(width))
        if not even:
            group = (alive.cumsum(0) - 1).repeat_interleave(by_group.shape[1])[kept]  # (kept head,) place among those alive
            taken = group[:, None] * width + torch.arange(width, device=kept.device)
            yield Change(*place(layer, path), Shared(projection, taken.flatten()))
    yield Change(layer.get_submodule(row.attention), row.queries_in, int(counts[alive][0]) if even else 1)


def no_mlp(model: Model, i: int, mean: Tensor | None, constants: bool) -> Iterator[Change]:
    """`mean` is (feature of the model,)."""
    row, layer, out = model.family, model.layers[i], model.mlp_outs[i]
    weight = matrix(out, row.transposed)  # (feature of the model, feature of the MLP)
    stand_in = torch.zeros_like(weight[:, 0]) if mean is None else mean.to(weight)
    if constants:
        yield from constant(layer, row.mlp, row.mlp_out, stand_in, pair=False)
        return
    first = torch.arange(weight.shape[1], device=weight.device) == 0
    yield from cut(out, row.transposed, columns=first, zero=True)
    if out.bias is not None:
        yield Change(out, "bias", stand_in, (torch.arange(len(stand_in), device=weight.device),))
    for path in row.mlp_in:
        projection = layer.get_submodule(path)
        parts = len(matrix(projection, row.transposed)) // len(first)  # two where gates and values are one projection
        yield from cut(projection, row.transposed, rows=first.repeat(parts))


def cut(
    module: Any, transposed: bool, rows: Tensor | None = None, columns: Tensor | None = None, zero: bool = False
) -> Iterator[Change]:
    """A projection with these of its outputs, (out,), and of its inputs, (in,)."""
    weight = matrix(module, transposed)
    chosen = [
        torch.arange(n, device=weight.device) if c is None else c.nonzero().flatten()
        for n, c in zip(weight.shape, (rows, columns), strict=True)
    ]
    out, into = chosen
    weight = weight if rows is None else weight[out]
    weight = weight if columns is None else weight[:, into]
    weight = torch.zeros_like(weight) if zero else weight
    index = (into[:, None], out[None]) if transposed else (out[:, None], into[None])
    yield Change(module, "weight", (weight.T if transposed else weight).contiguous(), index)
    if rows is not None and module.bias is not None:
        yield Change(module, "bias", module.bias.detach()[out], (out,))
    names = ("nf", "nx") if transposed else ("out_features", "in_features")
    for name, size in zip(names, map(len, chosen), strict=True):
        yield Change(module, name, size)


def constant(layer: Any, inside: str, out: str, bias: Tensor, pair: bool) -> Iterator[Change]:
    """In the place of a block: of the module that computes it and, where that stands outside, of its last projection."""
    yield Change(*place(layer, inside), Constant(bias, pair))
    if not out.startswith(f"{inside}."):
        yield Change(*place(layer, out), nn.Identity())


def place(layer: Any, path: str) -> tuple[nn.Module, str]:
    """Where a module is an attribute, and of what name."""
    owner, _, name = path.rpartition(".")
    return layer.get_submodule(owner), name


def matrix(module: Any, transposed: bool) -> Tensor:
    """(out, in)"""
    weight: Tensor = module.weight.detach()
    return weight.T if transposed else weight
