"""What every job has at hand: its inputs, the model it works on, and how entries of the store are read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
from corewood.model.load import Model, load
from corewood.model.mask import Mask, Masks
from corewood.model.reference import Reference
from corewood.store.store import Entry, Store
from corewood.study.job import Job

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Work:
    job: Job
    store: Store
    folder: Path  # the new entry, under its temporary name
    progress: Progress

    def input(self, name: str) -> Entry:
        return self.store.get(*self.job.inputs[name])

    def encoded(self) -> Encoded:
        return read_encoded(self.input("encoded"))

    def new_model(self, seed: int, check: bool = False) -> Model:
        """The checkpoint the study names, with a new classifier drawn by the seed; checked once, by the fine-tuning."""
        params, local = self.job.params, self.job.local
        return load(
            local["source"],
            params["labels"],
            pad_token=params["pad_token"],
            revision=params["revision"],
            max_length=params["max_length"],
            device=local["device"],
            seed=seed,
            check=check,
            new_head=True,
        )

    def model(self) -> Model:
        """The checkpoint this job works on: one of fine-tuning, or the one the study names."""
        params, local = self.job.params, self.job.local
        source = tokenizer = local["source"]
        if "fine_tune" in self.job.inputs:
            tuned = self.input("fine_tune")
            source, tokenizer = str(tuned.path(f"step-{params['step']}")), str(tuned.path("tokenizer"))
        labels = params["labels"]
        return cached_model(
            params["model"],
            source,
            tokenizer,
            None if labels is None else tuple(labels),
            params["pad_token"],
            params["revision"],
            params["max_length"],
            local["device"],
        )


@lru_cache(maxsize=1)
def cached_model(
    _digest: str,  # so that a folder whose content changed is loaded again
    source: str,
    tokenizer: str,
    labels: tuple[str, ...] | None,
    pad_token: str | None,
    revision: str | None,
    max_length: int,
    device: str,
) -> Model:
    return load(
        source, labels, tokenizer=tokenizer, pad_token=pad_token, revision=revision, max_length=max_length, device=device
    )


# entries into objects, and back


def write_data(split: Split, folder: Path) -> dict[str, Any]:
    split.frame.to_parquet(folder / "examples.parquet", index=False)
    return {"name": split.name, "labels": list(split.labels), "fold": dict(split.fold), "examples": len(split)}


def read_data(entry: Entry) -> Split:
    frame = pd.read_parquet(entry.path("examples.parquet"))
    return Split(entry.meta["name"], frame, tuple(entry.meta["labels"]), entry.meta["fold"])


def read_encoded(entry: Entry) -> Encoded:
    arrays = load_file(entry.path("tokens.safetensors"))
    meta = entry.meta
    return Encoded(arrays["ids"], arrays.get("types"), arrays["offsets"], meta["pad_id"], meta["truncated"])


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
