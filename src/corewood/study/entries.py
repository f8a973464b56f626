"""What stands in an entry of each kind: how it is written, and read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file, save_file

from corewood.data.encode import Encoded
from corewood.data.task import Split
from corewood.errors import JobError
from corewood.evaluate.attention import AttentionMap
from corewood.model.gates import Means
from corewood.model.mask import Mask, Masks
from corewood.model.reference import Reference
from corewood.model.weights import WeightMask
from corewood.store.store import Entry

WEIGHTS = "weights.safetensors"
KEPT = "model"  # the folder of a retrained model, where a study keeps those


def write_data(split: Split, folder: Path) -> dict[str, Any]:
    split.frame.to_parquet(folder / "examples.parquet", index=False)
    return {"name": split.name, "labels": list(split.labels), "fold": dict(split.fold), "examples": len(split)}


def read_data(entry: Entry) -> Split:
    frame = pd.read_parquet(entry.path("examples.parquet"))
    return Split(entry.meta["name"], frame, tuple(entry.meta["labels"]), entry.meta["fold"])


def write_encoded(encoded: Encoded, folder: Path) -> None:
    arrays = {"ids": encoded.ids, "offsets": encoded.offsets}
    if encoded.types is not None:
        arrays["types"] = encoded.types
    save_file(arrays, folder / "tokens.safetensors")


def read_encoded(entry: Entry) -> Encoded:
    arrays = load_file(entry.path("tokens.safetensors"))
    meta = entry.meta
    return Encoded(arrays["ids"], arrays.get("types"), arrays["offsets"], meta["pad_id"], meta["truncated"])


def write_reference(indices: np.ndarray, found: Reference, folder: Path) -> None:
    means = {"head_means": found.means.heads.numpy(), "mlp_means": found.means.mlps.numpy()}
    save_file({"indices": indices, "logits": found.logits, **means}, folder / "reference.safetensors")


def read_reference(entry: Entry) -> tuple[np.ndarray, Reference]:
    """(which examples, what the full model makes of them)"""
    arrays = load_file(entry.path("reference.safetensors"))
    means = Means(torch.from_numpy(arrays["head_means"]), torch.from_numpy(arrays["mlp_means"]), entry.meta["tokens"])
    return arrays["indices"], Reference(arrays["logits"], means)


def write_masks(masks: Sequence[Mask], folder: Path) -> None:
    pack = Masks(masks)
    save_file({"heads": pack.heads.astype(np.uint8), "mlps": pack.mlps.astype(np.uint8)}, folder / "masks.safetensors")


def read_masks(entry: Entry) -> list[Mask]:
    """The masks of a search, in rising sparsity."""
    arrays = load_file(entry.path("masks.safetensors"))
    return [Mask(heads, mlps) for heads, mlps in zip(arrays["heads"], arrays["mlps"], strict=True)]


def write_logits(logits: np.ndarray, folder: Path) -> None:
    if not np.isfinite(logits).all():
        raise JobError("evaluation: some logits are not numbers; check the model's weights")
    save_file({"logits": logits}, folder / "logits.safetensors")


def read_logits(entry: Entry) -> np.ndarray:
    """(mask, example, class)"""
    return load_file(entry.path("logits.safetensors"))["logits"]


def read_maps(entry: Entry) -> list[tuple[str, AttentionMap]]:
    """(case, map) of every example shown"""
    arrays = load_file(entry.path("maps.safetensors"))
    return [
        (m["case"], AttentionMap(tuple(m["words"]), np.array(m["sentence"]), arrays[f"map-{i}"]))
        for i, m in enumerate(entry.meta["maps"])
    ]


def write_weights(mask: WeightMask, folder: Path) -> None:
    mask.save(folder / WEIGHTS)


def has_weights(entry: Entry) -> bool:
    """Whether its mask is of weights, and not of units."""
    return (entry.folder / WEIGHTS).exists()


def read_weights(entry: Entry) -> WeightMask:
    return WeightMask.load(entry.path(WEIGHTS))


def write_retrained(logits: Mapping[str, np.ndarray], folder: Path) -> None:
    """By dataset, under its stored name: (example, class)."""
    save_file(dict(logits), folder / "retrained.safetensors")


def read_retrained(entry: Entry, dataset: str) -> np.ndarray:
    return load_file(entry.path("retrained.safetensors"))[stored_name(dataset)]


def stored_name(dataset: str) -> str:
    """What entries of retraining have always called the validation set."""
    return "report" if dataset == "validation" else dataset


def read_shares(entry: Entry) -> dict[str, np.ndarray]:
    """heads (layer, head) and mlps (layer,): the share of its weights that stay."""
    return load_file(entry.path("shares.safetensors"))
