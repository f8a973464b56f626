"""Masks in files of any origin: npy, json, safetensors; never pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from corewood.errors import InputError
from corewood.model.arrays import read_npy
from corewood.model.mask import Mask
from corewood.untrusted import parse_json, read_bytes, readable, user_path, why

SUFFIXES = (".npy", ".json", ".safetensors")
KINDS = ("heads", "mlps")
LARGEST = 100_000_000  # bytes of one file
LAST = "if the last column of an .npy is the MLP, say --mlps"


@dataclass(frozen=True)
class Named:
    """A mask as read: heads (layer, head) and mlps (layer,) bool, or one of the two."""

    name: str
    parts: dict[str, np.ndarray]

    def __str__(self) -> str:
        words = {"heads": "{} layers x {} heads", "mlps": "{} MLPs"}
        return f"{self.name} has " + " and ".join(words[kind].format(*a.shape) for kind, a in self.parts.items())


def read_masks(path: str | Path, mlps: bool = False, heads: int | None = None) -> dict[str, Mask]:
    """Name -> mask, of a file or a folder of them. `mlps` says that the last column of an .npy is the MLP.

    A file without MLPs keeps all of them; one without heads keeps all heads, and `heads` says how many a layer has.

    Example:
        >>> np.save("seed0.npy", masks[0].heads.astype(int))
        >>> cw.read_masks("seed0.npy")
        {'seed0': <Mask ... heads, 2/2 MLPs, sparsity ...>}
    """
    top = Path(path)
    found = [mask for file in mask_files(top) for mask in read_file(file, file.stem, mlps)]
    check_shapes(found, mlps)
    made: dict[str, Mask] = {}
    for one in found:
        if one.name in made:
            raise InputError(f"{top}: two files in it are called {one.name}; rename one")
        parts = one.parts
        if "heads" not in parts and heads is None:
            raise InputError(f"{top}: {one}; how many heads has a layer? Say heads=")
        whole = parts["heads"] if "heads" in parts else np.ones((len(parts["mlps"]), heads or 0), bool)
        made[one.name] = Mask(whole, parts.get("mlps", np.ones(len(whole), bool)))
    return made


def mask_files(path: Path) -> list[Path]:
    if user_path(path).is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and f.is_file())
        if not files:
            raise InputError(f"{path}: empty; there is no .npy, .json or .safetensors file in it")
        return files
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    if path.suffix not in SUFFIXES or not path.is_file():
        raise InputError(f"{path}: a mask is an .npy, .json or .safetensors file")
    return [path]


def read_file(file: Path, name: str, last_is_mlp: bool) -> list[Named]:
    """One mask, or the masks of a pack: heads (mask, layer, head) and mlps (mask, layer)."""
    name = readable(name)
    parts = {kind: hard(file, values) for kind, values in arrays(file, last_is_mlp).items()}
    extra = {a.ndim - (2 if kind == "heads" else 1) for kind, a in parts.items()}  # 0: a mask, 1: a pack
    together = {a.shape[:-1] if kind == "heads" else a.shape for kind, a in parts.items()}
    if extra not in ({0}, {1}) or len(together) > 1 or not all(a.size for a in parts.values()):
        what = ", ".join(f"{kind} {a.shape}" for kind, a in parts.items()) or "neither heads nor mlps in it"
        raise InputError(f"{file}: not a mask ({what}); it needs heads (layer, head), mlps (layer,) or both")
    if extra == {0}:
        return [Named(name, parts)]
    count = len(next(iter(parts.values())))
    return [Named(f"{name}[{i}]", {kind: a[i] for kind, a in parts.items()}) for i in range(count)]


def arrays(file: Path, last_is_mlp: bool) -> dict[str, np.ndarray]:
    try:
        if file.suffix == ".npy":
            return parts_of(read_npy(file), last_is_mlp)
        raw = read_bytes(file, LARGEST)
        content = load(raw) if file.suffix == ".safetensors" else parse_json(raw, f"{file}: ")
        if not isinstance(content, dict):
            raise InputError(f"{file}: not a mask; it needs heads (layer, head), mlps (layer,) or both, by name")
        return {kind: np.asarray(content[kind]) for kind in KINDS if kind in content}
    except InputError:
        raise
    except Exception as problem:  # safetensors raises kinds of its own, also for numbers that numpy has not
        raise InputError(f"{file}: cannot be read as a mask ({why(problem)})") from None


def parts_of(grid: np.ndarray, last_is_mlp: bool) -> dict[str, np.ndarray]:
    """Of an .npy: layers x heads, with --mlps a last column of MLPs; or one row of layers, the MLPs alone."""
    if grid.ndim in (2, 3) and last_is_mlp:
        return {"heads": grid[..., :-1], "mlps": grid[..., -1]}
    if grid.ndim == 1 or (grid.ndim == 2 and len(grid) == 1):
        return {"mlps": grid.ravel()}
    return {"heads": grid}


def hard(file: Path, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{file}: a mask holds 0 and 1 only, not {values.dtype}")
    if not np.isin(values, (0, 1)).all():
        raise InputError(
            f"{file}: a mask holds 0 and 1 only; this one has values from {values.min():g} to {values.max():g}. "
            "Decide first what stays, for instance mask > 0.5, and write that"
        )
    return values.astype(bool)


def check_shapes(found: Sequence[Named], last_is_mlp: bool) -> None:
    for kind in KINDS:
        group = having(found, kind)
        for mask in group:
            one, other = group[0].parts[kind].shape, mask.parts[kind].shape
            if one != other:
                near = kind == "heads" and one[0] == other[0] and abs(one[1] - other[1]) == 1
                hint = f"; {LAST if not last_is_mlp else '--mlps takes the last column of every .npy'}" if near else ""
                raise InputError(f"masks of different shapes: {group[0]}, {mask}{hint}")
    heads, mlps = having(found, "heads"), having(found, "mlps")
    if heads and mlps and len(heads[0].parts["heads"]) != len(mlps[0].parts["mlps"]):
        raise InputError(f"masks of different shapes: {heads[0]}, {mlps[0]} (an .npy of one row holds the MLPs of all layers)")


def having(found: Sequence[Named], kind: str) -> list[Named]:
    return [mask for mask in found if kind in mask.parts]
