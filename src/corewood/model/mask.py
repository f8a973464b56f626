"""Units and masks: which heads and MLPs of a model stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from corewood.errors import InputError, nearest
from corewood.model.arrays import read_npy
from corewood.untrusted import why


def unit_names(layers: int, heads: int) -> list[str]:
    """In flat order: heads row by row, then MLPs."""
    return [f"L{i}.H{h}" for i in range(layers) for h in range(heads)] + [f"L{i}.MLP" for i in range(layers)]


@dataclass(frozen=True)
class Units:
    """The prunable parts of a model: `heads` in each of `layers` layers, and one MLP per layer.

    Flat order, wherever units form a vector: heads row by row, then MLPs. Parameter counts make sizes comparable;
    key and value projections shared by a group of heads (grouped queries) go only when the whole group goes.

    Example:
        >>> model.units
        <Units: 2 layers x 4 heads + 2 MLPs>
        >>> model.units.names[:2], model.units.names[-1]
        (['L0.H0', 'L0.H1'], 'L1.MLP')
        >>> model.units.without("L0.H1", "L1.MLP")
        <Mask 7/8 heads, 1/2 MLPs, sparsity 0.20>
    """

    layers: int
    heads: int
    groups: int  # key/value heads; equal to `heads` without grouped queries
    head_parameters: int  # query rows and output columns of one head
    group_parameters: int  # key and value rows of one group
    mlp_parameters: int  # one MLP, without the bias that a mean folds into
    encoder_parameters: int
    all_parameters: int

    def __len__(self) -> int:
        return self.layers * (self.heads + 1)

    @property
    def names(self) -> list[str]:
        return unit_names(self.layers, self.heads)

    def __repr__(self) -> str:
        return f"<Units: {self.layers} layers x {self.heads} heads + {self.layers} MLPs>"

    def _repr_html_(self) -> str:
        counts = {name.replace("_", " "): f"{count:,}" for name, count in vars(self).items()}
        return f"<b>Units</b>{pd.Series(counts).to_frame().to_html(header=False)}"

    def full(self) -> Mask:
        """The mask that keeps everything."""
        return self.from_vector(np.ones(len(self)))

    def without(self, *closed: str) -> Mask:
        """The mask that closes these units, and no others."""
        for name in closed:
            if name not in self.names:
                last = f"L{self.layers - 1}.H{self.heads - 1}"
                raise InputError(f"no unit {name!r}.{nearest(name, self.names)} There are L0.H0 to {last}, L0.MLP and so on")
        return self.from_vector(~np.isin(self.names, closed))

    def from_vector(self, kept: np.ndarray) -> Mask:
        """(unit,) in flat order -> mask."""
        split = self.layers * self.heads
        kept = np.asarray(kept, bool)
        if kept.shape != (len(self),):
            raise InputError(
                f"a vector of {kept.shape} does not go with {len(self)} units: {split} heads, then {self.layers} MLPs"
            )
        return Mask(kept[:split].reshape(self.layers, self.heads), kept[split:])


@dataclass(frozen=True, eq=False)
class Mask:
    """True where a unit stays. Masks of one model combine with & | - ~ and compare with ==.

    Example:
        >>> mask = cw.Mask(heads=[[1, 0, 0, 1], [0, 1, 1, 0]], mlps=[1, 1])
        >>> mask
        <Mask 4/8 heads, 2/2 MLPs, sparsity 0.40>
        >>> (mask & masks[0]) <= mask
        True
        >>> cw.Mask.load(mask.save("mask.json")) == mask
        True
        >>> mask.sizes(model.units)["units_share"]
        0.6
        >>> picture = mask.plot()  # shown by a notebook; picture.save("mask.svg") keeps it
    """

    heads: np.ndarray  # (layer, head) bool
    mlps: np.ndarray  # (layer,) bool

    def __post_init__(self) -> None:
        try:
            heads, mlps = np.asarray(self.heads), np.asarray(self.mlps)
        except ValueError:  # rows of several lengths
            raise InputError("a mask needs heads (layer, head) and mlps (layer,); give every layer as many heads") from None
        if heads.ndim != 2 or mlps.shape != heads.shape[:1]:
            pack = "; several masks in one file are read by cw.Masks.load" if heads.ndim == 3 else ""
            raise InputError(f"a mask needs heads (layer, head) and mlps (layer,), not {heads.shape} and {mlps.shape}{pack}")
        for name, values in (("heads", heads), ("mlps", mlps)):
            if not np.isin(values, (0, 1)).all():
                raise InputError(f"a mask holds 0 and 1 only; {name} has other values")
            frozen = values.astype(bool)
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    # what is in it

    @property
    def vector(self) -> np.ndarray:
        """(unit,) bool: heads row by row, then MLPs."""
        return np.concatenate([self.heads.ravel(), self.mlps])

    @property
    def names(self) -> list[str]:
        return [name for name, kept in zip(unit_names(*self.heads.shape), self.vector, strict=True) if kept]

    def __len__(self) -> int:
        return int(self.vector.sum())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def sparsity(self) -> float:
        """The fraction of units removed."""
        return 1 - len(self) / self.vector.size

    def sizes(self, units: Units) -> dict[str, float]:
        """What stays, in three currencies, as counts and as shares of the whole."""
        self.check(units)
        grouped = self.heads.reshape(units.layers, units.groups, -1)  # (layer, group, head of the group)
        removed = (
            int((~self.heads).sum()) * units.head_parameters
            + int((~grouped.any(-1)).sum()) * units.group_parameters
            + int((~self.mlps).sum()) * units.mlp_parameters
        )
        encoder, everything = units.encoder_parameters - removed, units.all_parameters - removed
        return {
            "heads": int(self.heads.sum()),
            "mlps": int(self.mlps.sum()),
            "units": len(self),
            "units_share": len(self) / len(units),
            "encoder_parameters": encoder,
            "encoder_share": encoder / units.encoder_parameters,
            "all_parameters": everything,
            "all_share": everything / units.all_parameters,
        }

    def check(self, units: Units) -> None:
        if self.heads.shape != (units.layers, units.heads):
            raise InputError(
                f"this mask is for {self.heads.shape[0]} layers x {self.heads.shape[1]} heads; "
                f"the model has {units.layers} x {units.heads}"
            )

    # set algebra

    def _like(self, other: Mask) -> None:
        one_mask(other, "&, | and -")
        if self.heads.shape != other.heads.shape:
            raise InputError(f"masks of different shapes: {self.heads.shape} and {other.heads.shape} (layer, head)")

    def __and__(self, other: Mask) -> Mask:
        self._like(other)
        return Mask(self.heads & other.heads, self.mlps & other.mlps)

    def __or__(self, other: Mask) -> Mask:
        self._like(other)
        return Mask(self.heads | other.heads, self.mlps | other.mlps)

    def __sub__(self, other: Mask) -> Mask:
        return self & ~one_mask(other, "&, | and -")

    def __invert__(self) -> Mask:
        return Mask(~self.heads, ~self.mlps)

    def __le__(self, other: Mask) -> bool:
        """Whether every unit of this mask is in the other."""
        return len(self - other) == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and np.array_equal(self.heads, other.heads) and np.array_equal(self.mlps, other.mlps)

    def __hash__(self) -> int:
        return hash((self.heads.shape, self.vector.tobytes()))

    # on disk

    def save(self, path: str | Path) -> Path:
        """Write as .safetensors, .json or .npy (heads, with a last column of MLPs)."""
        return write_parts(self.heads, self.mlps, Path(path))

    @classmethod
    def load(cls, path: str | Path, heads: int | None = None) -> Mask:
        """Read what `save` writes. An .npy of layers x heads alone is a mask that keeps all MLPs: say so with `heads`."""
        path = Path(path)
        try:
            if path.suffix == ".npy":
                if not path.exists():
                    raise FileNotFoundError
                grid = read_npy(path)
                if heads is None or grid.shape[1] == heads + 1:
                    return cls(grid[:, :-1], grid[:, -1])
                return cls(grid, np.ones(len(grid)))
            if path.suffix not in (".safetensors", ".json"):
                raise InputError(f"{path}: a mask is a .safetensors, .json or .npy file")
            content = load_file(path) if path.suffix == ".safetensors" else json.loads(path.read_text(encoding="utf-8"))
            return cls(np.asarray(content["heads"]), np.asarray(content["mlps"]))
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such mask file") from None
        except OSError as problem:
            raise InputError(f"{path}: cannot be read ({why(problem)})") from None
        except (KeyError, IndexError, ValueError, TypeError, RecursionError, SafetensorError) as problem:
            raise InputError(f"{path}: not a mask ({problem}); it needs heads (layer, head) and mlps (layer,)") from None

    # to look at

    def table(self) -> pd.DataFrame:
        """One row per unit: layer, kind, index, kept."""
        layers, heads = map(range, self.heads.shape)
        units = [(i, "head", h) for i in layers for h in heads] + [(i, "mlp", 0) for i in layers]
        return pd.DataFrame(units, columns=["layer", "kind", "index"]).assign(kept=self.vector)

    def plot(self) -> Any:
        """An altair chart: dark units stay."""
        from corewood.model.mask_chart import units_chart  # altair takes its time

        return units_chart(self.table(), repr(self)[1:-1])

    def __repr__(self) -> str:
        heads, mlps = self.heads, self.mlps
        return f"<Mask {heads.sum()}/{heads.size} heads, {mlps.sum()}/{mlps.size} MLPs, sparsity {self.sparsity:.2f}>"

    def __str__(self) -> str:
        rows = [
            f"L{i:<2} " + "".join("#" if kept else "." for kept in row) + ("  MLP" if mlp else "   . ")
            for i, (row, mlp) in enumerate(zip(self.heads, self.mlps, strict=True))
        ]
        return "\n".join([repr(self), *rows])

    def _repr_html_(self) -> str:
        def cell(kept: bool, text: object) -> str:
            return html_cell("#2f6f4f;color:#fff" if kept else "#eee;color:#999", text)

        rows = [
            [*(cell(kept, head) for head, kept in enumerate(heads)), cell(mlp, "MLP")]
            for heads, mlp in zip(self.heads, self.mlps, strict=True)
        ]
        return html_table(repr(self)[1:-1], rows)


def write_parts(heads: np.ndarray, mlps: np.ndarray, path: Path) -> Path:
    """([mask,] layer, head) and ([mask,] layer)"""
    parts = {"heads": heads.astype(np.uint8), "mlps": mlps.astype(np.uint8)}
    if path.suffix not in (".safetensors", ".json", ".npy"):
        raise InputError(f"{path}: a mask is written as .safetensors, .json or .npy")
    try:
        if path.suffix == ".safetensors":
            save_file(parts, path)
        elif path.suffix == ".json":
            path.write_text(json.dumps({name: part.tolist() for name, part in parts.items()}) + "\n", encoding="utf-8")
        else:
            np.save(path, np.concatenate([parts["heads"], parts["mlps"][..., None]], axis=-1), allow_pickle=False)
    except (OSError, SafetensorError) as problem:
        raise InputError(f"{path}: cannot be written ({problem})") from None
    return path


def one_mask(given: object, who: str) -> Mask:
    """Or an error that says what to pass."""
    if isinstance(given, Mask):
        return given
    kind = type(given).__name__
    if isinstance(given, Masks):
        raise InputError(f"{who}: takes one mask, not {len(given)} of them; pick one, masks[0]")
    if kind == "WeightMask":
        raise InputError(f"{who}: takes a mask of heads and MLPs; one of weights is held by cw.weights_masked(model, mask)")
    if isinstance(getattr(given, "mask", None), Mask):
        raise InputError(f"{who}: takes a mask, not a {kind}; pass its .mask")
    raise InputError(
        f"{who}: takes a cw.Mask(heads=(layer, head), mlps=(layer,)), not {kind}; cw.Mask.load reads one from a file"
    )


def all_masks(given: object, who: str) -> list[Mask]:
    """One mask, or several."""
    many = given if isinstance(given, Iterable) and not isinstance(given, (Mask, str, np.ndarray)) else [given]
    return [one_mask(mask, who) for mask in many]


def html_cell(colour: str, text: object) -> str:
    return f'<td style="background:{colour};text-align:center;padding:2px 6px">{text}</td>'


def html_table(title: str, layers: Iterable[Iterable[str]]) -> str:
    rows = "".join(f"<tr><th>L{i}</th>{''.join(cells)}</tr>" for i, cells in enumerate(layers))
    return f"<div>{title}</div><table>{rows}</table>"


class Masks(Sequence[Mask]):
    """Masks of one model, in order; `trajectories` tell how each was found, where that is known.

    Example:
        >>> masks = cw.search(model, task, cw.L0(sparsity=0.5, steps=4, batch=8), seeds=2)
        >>> masks
        <2 masks: 5 units, 5 units>
        >>> cw.Masks.load(masks.save("masks.safetensors"))[1] == masks[1]
        True
        >>> masks.table().columns.tolist()
        ['mask', 'layer', 'kind', 'index', 'kept']
        >>> picture = masks.plot()  # the share of masks that keeps each unit
    """

    def __init__(self, masks: Iterable[Mask], trajectories: Iterable[pd.DataFrame] = ()) -> None:
        self._masks = tuple(one_mask(mask, "Masks") for mask in masks)
        self.trajectories = tuple(trajectories)
        for mask in self._masks[1:]:
            self._masks[0]._like(mask)

    @overload
    def __getitem__(self, index: int) -> Mask: ...

    @overload
    def __getitem__(self, index: slice) -> Masks: ...

    def __getitem__(self, index: int | slice) -> Mask | Masks:
        if isinstance(index, slice):
            return Masks(self._masks[index], self.trajectories[index])
        return self._masks[index]

    def __len__(self) -> int:
        return len(self._masks)

    @property
    def heads(self) -> np.ndarray:
        """(mask, layer, head) bool"""
        return np.stack([m.heads for m in self])

    @property
    def mlps(self) -> np.ndarray:
        """(mask, layer) bool"""
        return np.stack([m.mlps for m in self])

    # on disk

    def save(self, path: str | Path) -> Path:
        """Write all as one .safetensors, .json or .npy, as `Mask.save` does, with an axis of masks in front. How they were
        found is not kept."""
        if not len(self):
            raise InputError(f"{path}: there is no mask to save in an empty cw.Masks")
        return write_parts(self.heads, self.mlps, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Masks:
        """Read what `save` writes, here or of one mask; a folder holds several. `cw.read_masks` reads files of other origin."""
        from corewood.model.mask_files import read_masks

        return cls(read_masks(path, mlps=True).values())

    # to look at

    def table(self) -> pd.DataFrame:
        """One row per mask and unit: mask, layer, kind, index, kept."""
        tables = [mask.table().assign(mask=number) for number, mask in enumerate(self)]
        columns = ["mask", "layer", "kind", "index", "kept"]
        return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)

    def plot(self) -> Any:
        """An altair chart: the share of masks that keeps each unit."""
        from corewood.model.mask_chart import units_chart

        if not self:
            raise InputError("there are no masks to plot")
        share = self.table().groupby(["layer", "kind", "index"], sort=False)["kept"].mean().reset_index()
        return units_chart(share, f"{len(self)} masks")

    def __repr__(self) -> str:
        return f"<{len(self)} mask{'s' * (len(self) != 1)}: " + ", ".join(f"{len(m)} units" for m in self) + ">"

    def _repr_html_(self) -> str:
        shares = np.column_stack([self.heads.mean(0), self.mlps.mean(0)]) if len(self) else np.zeros((0, 0))
        rows = [[html_cell(f"rgba(47,111,79,{v:.2f})", f"{v:.2f}") for v in row] for row in shares]
        return html_table(f"{len(self)} masks: share that keeps each head; the last column is the MLP", rows)
