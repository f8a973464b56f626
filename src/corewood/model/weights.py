"""Weight masks: which single weights of the encoder stay.

Magnitude pruning removes weights wherever they are, so its masks have one bit per weight: for BERT-base 85 million, 11 MB.
The weights are the matrices of the layers; LayerNorm, embeddings and the classifier are never removed (LT, 3.2), and biases
only where the released code's rule is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from corewood.errors import InputError
from corewood.model.load import Model, count_units
from corewood.model.mask import Mask


def encoder_weights(model: Model, biases: bool = False) -> dict[str, nn.Parameter]:
    """By their names in the model: the matrices of its layers, in the order of the model; with `biases`, those of query, key,
    value, attention output and the MLPs' first layers, too."""
    inside = {id(p) for p in model.layers.parameters() if p.dim() > 1}
    if biases:
        first = [
            layer.get_submodule(path) for layer in model.layers for path in (*model.family.attention_in, *model.family.mlp_in)
        ]
        inside |= {id(module.bias) for module in (*first, *model.attention_outs) if getattr(module, "bias", None) is not None}
    return {name: p for name, p in model.net.named_parameters() if id(p) in inside}


@dataclass(frozen=True, eq=False)
class WeightMask:
    """True where a weight stays; `bits` holds eight weights a byte, in the order of the flat tensor.

    Example:
        >>> mask = cw.prune_weights(model, task.validation, cw.Magnitude(sparsity=0.5)).mask
        >>> mask.share
        0.5
        >>> cw.WeightMask.load(mask.save("weights.safetensors")).shared(mask) == len(mask)
        True
    """

    bits: Mapping[str, np.ndarray] = field(repr=False)  # parameter -> (bytes,) uint8
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)

    @classmethod
    def of(cls, kept: Mapping[str, np.ndarray]) -> WeightMask:
        return cls({n: np.packbits(k.ravel()) for n, k in kept.items()}, {n: k.shape for n, k in kept.items()})

    def kept(self, name: str) -> np.ndarray:
        """The mask of one parameter, in its shape."""
        shape = self.shapes[name]
        return np.unpackbits(self.bits[name], count=int(np.prod(shape))).astype(bool).reshape(shape)

    def __len__(self) -> int:
        return int(sum(np.bitwise_count(b).sum(dtype=np.int64) for b in self.bits.values()))

    @property
    def total(self) -> int:
        return int(sum(np.prod(shape) for shape in self.shapes.values()))

    @property
    def share(self) -> float:
        return len(self) / self.total

    def shared(self, other: WeightMask) -> int:
        """How many weights both keep."""
        pairs = ((bits, other.bits[name]) for name, bits in self.bits.items())
        return int(sum(np.bitwise_count(a & b).sum(dtype=np.int64) for a, b in pairs))

    def __repr__(self) -> str:
        return f"<WeightMask {len(self):,} of {self.total:,} weights, {100 * self.share:.1f} %>"

    def _repr_html_(self) -> str:
        rows = [(name, int(np.bitwise_count(bits).sum()), int(np.prod(self.shapes[name]))) for name, bits in self.bits.items()]
        table = pd.DataFrame(rows, columns=["parameter", "kept", "of"])
        return f"<div>{repr(self)[1:-1]}</div>{table.assign(share=table['kept'] / table['of']).round(3).to_html(index=False)}"

    def weights(self, model: Model) -> dict[str, nn.Parameter]:
        """What the mask is about, in the model that it belongs to."""
        own = encoder_weights(model, biases=any(len(shape) == 1 for shape in self.shapes.values()))
        if {name: tuple(p.shape) for name, p in own.items()} != {name: tuple(shape) for name, shape in self.shapes.items()}:
            raise InputError("this weight mask belongs to another model: its parameters have other names or shapes")
        return own

    def save(self, path: str | Path) -> Path:
        """Packed bits, with the shapes beside them."""
        arrays = {f"{n}|bits": bits for n, bits in self.bits.items()}
        arrays |= {f"{n}|shape": np.array(shape, np.int64) for n, shape in self.shapes.items()}
        save_file(arrays, path)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> WeightMask:
        try:
            arrays = load_file(path)
        except (OSError, SafetensorError) as problem:
            raise InputError(f"{path}: cannot be read as a mask of weights ({str(problem).splitlines()[0]})") from None
        names = [key.removesuffix("|bits") for key in arrays if key.endswith("|bits")]
        whole = all(
            f"{n}|shape" in arrays and len(arrays[f"{n}|bits"]) == -(-int(arrays[f"{n}|shape"].prod()) // 8) for n in names
        )
        if not names or not whole:
            raise InputError(f"{path}: holds no mask of weights; cw.Mask.load and cw.read_masks read masks of heads and MLPs")
        return cls({n: arrays[f"{n}|bits"] for n in names}, {n: tuple(arrays[f"{n}|shape"].tolist()) for n in names})


@contextmanager
def weights_masked(model: Model, mask: WeightMask) -> Iterator[Model]:
    """Removed weights are zero for as long as the block lasts; their own values come back at the end.

    Example:
        >>> mask = cw.prune_weights(model, task.validation, cw.Magnitude(sparsity=0.5)).mask
        >>> with cw.weights_masked(model, mask):
        ...     pruned = cw.predict(model, [], task.validation).full
        >>> bool((pruned == cw.predict(model, [], task.validation).full).all())
        False
    """
    if not isinstance(mask, WeightMask):
        raise InputError(f"weights_masked: takes a mask of weights, not {type(mask).__name__}; cw.gated closes heads and MLPs")
    before: dict[str, Tensor] = {}
    weights = mask.weights(model)
    try:
        with torch.no_grad():
            for name, weight in weights.items():
                gone = removed(mask, name, weight)
                before[name] = weight.masked_select(gone)
                weight.masked_fill_(gone, 0)
        yield model
    finally:
        with torch.no_grad():
            for name, values in before.items():
                weights[name].masked_scatter_(removed(mask, name, weights[name]), values)


@contextmanager
def trained_under(model: Model, mask: WeightMask) -> Iterator[Model]:
    """Training with removed weights at zero: they start there, and their gradients are zero, so no optimiser moves them."""
    with ExitStack() as stack:
        for name, weight in mask.weights(model).items():
            gone = removed(mask, name, weight)
            with torch.no_grad():
                weight.masked_fill_(gone, 0)
            hook = weight.register_hook(lambda gradient, gone=gone: gradient.masked_fill(gone.to(gradient.device), 0))  # type: ignore[no-untyped-call]
            stack.callback(hook.remove)
        yield model


def removed(mask: WeightMask, name: str, like: Tensor) -> Tensor:
    return torch.from_numpy(~mask.kept(name)).to(like.device)


def unit_shares(model: Model, mask: WeightMask) -> tuple[np.ndarray, np.ndarray]:
    """((layer, head), (layer,)): the share of its weights that each head and each MLP keeps.

    A head has its rows of query, key and value and its columns of the output projection; where a group of heads shares key
    and value, each of them counts these.
    """
    units, row = model.units, model.family
    place = {id(p): name for name, p in model.net.named_parameters()}
    heads, mlps = [], []

    def kept(module: nn.Module) -> np.ndarray:
        """(out, in) bool"""
        values = mask.kept(place[id(module.weight)])
        return values.T if row.transposed else values

    for i, layer in enumerate(model.layers):
        parts = [by_head(kept(layer.get_submodule(path)), model) for path in row.attention_in]
        parts.append(kept(model.attention_outs[i]).T.reshape(units.heads, -1))  # its columns, as rows
        heads.append(np.concatenate(parts, axis=1).mean(1))
        inner = [kept(layer.get_submodule(path)).ravel() for path in row.mlp_in]
        mlps.append(np.concatenate([*inner, kept(model.mlp_outs[i]).ravel()]).mean())
    return np.array(heads), np.array(mlps)


def unit_weights(model: Model, mask: Mask) -> int:
    """How many weights a model has left when these units stay."""
    return int(mask.sizes(count_units(model.net, model.family, matrices=True))["encoder_parameters"])


def by_head(kept: np.ndarray, model: Model) -> np.ndarray:
    """Rows of a projection into the heads, (out, in) -> (head, its weights)."""
    heads = model.units.heads
    if model.family.fused == "no":
        own = kept.reshape(len(kept) // model.head_width, -1)  # one row a head, or a group of heads
        return np.repeat(own, heads // len(own), axis=0)
    if model.family.fused == "per_head":
        return kept.reshape(heads, -1)
    return np.concatenate(kept.reshape(3, heads, -1), axis=1)  # all queries, all keys, all values
