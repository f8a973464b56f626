"""Gates: hooks that close heads and MLPs of a model, and come off again.

    with gated(model, mask, ablate="mean", means=means):
        model.net(**batch)          # any Hugging Face code inside

A gate z scales a unit's own value h towards its ablated value a:  h z + a (1 - z). With z = 1 that is h to the last
bit; with z = 0 it is a. For a head, h is its slice of the input of the attention's output projection; for an MLP, h is
the output of its last projection, before the residual add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from corewood.errors import InputError
from corewood.model.mask import Mask, Masks, Units, one_mask
from corewood.spec import Ablation

if TYPE_CHECKING:
    from corewood.model.load import Model


@dataclass(frozen=True)
class Means:
    """Mean activations over non-padding tokens: what closed units give instead of their own.

    Example:
        >>> cw.mean_activations(model, task.validation)
        <Means of 2 layers x 4 heads, over 1,077 tokens>
        >>> model.means.heads.shape, model.means.mlps.shape
        (torch.Size([2, 4, 8]), torch.Size([2, 32]))
    """

    heads: Tensor  # (layer, head, width of a head)
    mlps: Tensor  # (layer, width of the model)
    tokens: int

    def __repr__(self) -> str:
        layers, heads = self.heads.shape[:2]
        return f"<Means of {layers} layers x {heads} heads, over {self.tokens:,} tokens>"

    def _repr_html_(self) -> str:
        return escape(repr(self)[1:-1])


@dataclass(frozen=True)
class Gates:
    """Gate values in [0, 1]. With a leading batch axis, every example of the batch has gates of its own.

    Example:
        >>> gates = cw.Gates.of(masks[0])
        >>> half = cw.Gates(heads=gates.heads / 2, mlps=gates.mlps)  # heads at half their strength
        >>> with cw.gated(model, half, ablate="zero"):
        ...     logits = model(**batch).logits
        >>> half
        <Gates of 2 layers x 4 heads, 0.30 open on average>
    """

    heads: Tensor  # ([batch,] layer, head)
    mlps: Tensor  # ([batch,] layer)

    def __repr__(self) -> str:
        layers, heads = self.heads.shape[-2:]
        mean = float(torch.cat([self.heads.flatten(), self.mlps.flatten()]).mean())
        return f"<Gates of {layers} layers x {heads} heads, {mean:.2f} open on average>"

    def _repr_html_(self) -> str:
        return escape(repr(self)[1:-1])

    @classmethod
    def of(cls, mask: Mask | Masks, device: torch.device | str = "cpu") -> Gates:
        return cls(*(torch.tensor(part, dtype=torch.float32, device=device) for part in (mask.heads, mask.mlps)))

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
        self.source: tuple[Tensor, Tensor] | None = None  # rows and columns, (batch, token) each

    def prepare(self, _module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise InputError("resample ablation needs input_ids in the call of the model")
        batch, length = ids.shape
        if batch < 2:
            raise InputError("resample ablation takes values from other examples: give at least two in a batch")
        real = kwargs.get("attention_mask")
        real = torch.ones_like(ids) if real is None else real
        donor = (torch.arange(batch, device=ids.device) + int(self.rng.integers(1, batch))) % batch
        counts = real.sum(1)[donor]  # (batch,) real tokens of the donor
        first = real.argmax(1)[donor]  # (batch,) where they begin: padding may stand on the left
        own = (torch.arange(length, device=ids.device) - real.argmax(1)[:, None]).clamp(min=0)  # (batch, token)
        self.source = donor[:, None].expand(batch, length), first[:, None] + own % counts[:, None]

    def take(self, x: Tensor) -> Tensor:
        if self.source is None or x.shape[:2] != self.source[0].shape:
            raise InputError("resample ablation works on padded batches of (batch, token) only")
        return x[self.source]


Change = Callable[[Tensor], Tensor | None]  # what units give, (batch, token, feature) -> what goes on in its place, if anything
Ablated = Callable[[Tensor], Tensor | None]  # what units give -> what stands in for it; None for zero
StandIns = tuple[list[Ablated], list[Ablated]]  # for the heads of each layer, and for its MLP


@contextmanager
def hooked(model: Model, heads: Mapping[int, Change], mlps: Mapping[int, Change]) -> Iterator[None]:
    """Inside, what the heads of a layer give, side by side, and what its MLP gives pass through these, by layer."""
    with ExitStack() as stack:
        for layer, change in heads.items():
            out = model.attention_outs[layer]
            stack.callback(out.register_forward_pre_hook(lambda _m, args, change=change: change(*args)).remove)
        for layer, change in mlps.items():
            stack.callback(model.mlp_outs[layer].register_forward_hook(lambda _m, _a, x, change=change: change(x)).remove)
        yield


def mix(z: Tensor, ablated: Ablated, x: Tensor) -> Tensor:
    """`z` multiplies `x`, (batch, token, feature), and may put an axis before them."""
    gate, stand_in = z.to(x.dtype), ablated(x)
    return x * gate if stand_in is None else torch.lerp(stand_in, x, gate)


def closing(model: Model, gates: Gates, ablated: StandIns, first: int = 0) -> AbstractContextManager[None]:
    """Hooks on those of the layers from `first` on that have a gate below one, or one that learns."""

    def changes(gates: Tensor, width: int, ablated: list[Ablated]) -> dict[int, Change]:
        """Of gates ([batch,] layer, unit) that have `width` features each."""
        found: dict[int, Change] = {}
        for i in range(first, model.units.layers):
            gate = gates[..., i, :]
            if gate.requires_grad or bool((gate < 1).any()):
                z = gate.repeat_interleave(width, -1)  # ([batch,] feature)
                found[i] = partial(mix, z if z.dim() == 1 else z[:, None], ablated[i])
        return found

    heads, mlps = ablated
    return hooked(model, changes(gates.heads, model.head_width, heads), changes(gates.mlps[..., None], 1, mlps))


def check_model(given: object, who: str) -> None:
    """Or an error that says what to pass."""
    if isinstance(getattr(given, "units", None), Units):
        return
    if isinstance(given, (str, PurePath)):
        raise InputError(f"{who}: takes a model that is loaded, not its name; pass cw.load({str(given)!r})")
    if isinstance(given, torch.nn.Module):
        raise InputError(f"{who}: takes a cw.Model; wrap yours once, model = cw.wrap(net, tokenizer), and pass that")
    raise InputError(f"{who}: takes a cw.Model, not a {type(given).__name__}; cw.load(...) and cw.wrap(...) make one")


@contextmanager
def gated(
    model: Model, mask: Mask | Gates, ablate: Ablation = "mean", means: Means | None = None, seed: int = 0
) -> Iterator[Model]:
    """Close the gates that the mask leaves out, for as long as the block lasts. Any Hugging Face code may stand inside.

    A closed unit gives its mean (`ablate="mean"`), nothing ("zero", what transformers' head_mask did) or the value of another
    example ("resample"). `means` default to those the model carries (`model.means`, set by `cw.search` or
    `cw.mean_activations`).

    Example:
        >>> with cw.gated(model, masks[0]):
        ...     pruned = model.net(**batch).logits
        >>> bool((pruned == model.net(**batch).logits).all())
        False
    """
    check_model(model, "gated")
    if not isinstance(mask, Gates):
        one_mask(mask, "gated").check(model.units)
    gates = Gates.of(mask, model.device) if isinstance(mask, Mask) else checked_gates(mask, model)
    with ExitStack() as stack:
        if ablate == "resample":
            donors = Donors(seed)
            stack.callback(model.net.register_forward_pre_hook(donors.prepare, with_kwargs=True).remove)
            ablated: StandIns = [donors.take] * model.units.layers, [donors.take] * model.units.layers
        else:
            ablated = ablated_values(model, ablate, means)
        stack.enter_context(closing(model, gates, ablated))
        model.closing += 1
        try:
            yield model
        finally:
            model.closing -= 1


def checked_gates(gates: Gates, model: Model) -> Gates:
    """As they are, if the model has such units and they are numbers between 0 and 1."""
    shape = (model.units.layers, model.units.heads)
    if gates.heads.shape[-2:] != shape or gates.mlps.shape[-1:] != shape[:1]:
        found = (*gates.heads.shape[-2:], *gates.mlps.shape[-1:])
        raise InputError(f"gates: {found} layers, heads and MLPs, where the model has {(*shape, shape[0])}")
    if not all(bool(((z >= 0) & (z <= 1)).all()) for z in (gates.heads.detach(), gates.mlps.detach())):
        raise InputError("gates: give numbers from 0, closed, to 1, open")
    return gates


def checked_means(means: Means | None, model: Model) -> Means:
    """Those given, or those that the model carries, if they are of such a model."""
    means = means or model.means
    if means is None:
        raise InputError("mean ablation needs mean activations: pass means=cw.mean_activations(model, split), or ablate='zero'")
    if means.heads.shape[:2] != (model.units.layers, model.units.heads) or means.heads.shape[2] != model.head_width:
        raise InputError(f"{repr(means)[1:-1]}: are not of this model; make them anew, cw.mean_activations(model, split)")
    return means


def ablated_values(model: Model, ablate: Ablation, means: Means | None) -> StandIns:
    """Where they do not depend on the batch."""
    if ablate == "zero":
        return [lambda _x: None] * model.units.layers, [lambda _x: None] * model.units.layers
    if ablate != "mean":
        raise InputError(f"ablate={ablate!r}: choose mean, zero or resample")
    means = checked_means(means, model)
    heads, mlps = means.heads.to(model.device).flatten(1), means.mlps.to(model.device)  # (layer, feature)
    return [lambda x, a=a: a.to(x.dtype) for a in heads], [lambda x, a=a: a.to(x.dtype) for a in mlps]  # type: ignore[misc]


@contextmanager
def at_rest(model: Model) -> Iterator[None]:
    """Inside, nothing drops out, whoever trained the model last; afterwards every module is as it was."""
    learning = [module for module in model.net.modules() if module.training]
    model.net.eval()
    try:
        yield
    finally:
        for module in learning:
            module.training = True


@contextmanager
def frozen(model: Model, dropout: bool) -> Iterator[None]:
    """Inside, weights get no gradients: backward then runs through activations alone, at half the cost."""
    wanted = [(p, p.requires_grad) for p in model.net.parameters()]
    model.net.requires_grad_(False)
    model.net.train(dropout)
    try:
        yield
    finally:
        model.net.eval()
        for parameter, want in wanted:
            parameter.requires_grad_(want)
