"""What every job has at hand: its inputs and the model it works on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from corewood.data.encode import Encoded
from corewood.model.gates import Means
from corewood.model.load import Model, load
from corewood.store.store import Entry, Store
from corewood.study.entries import read_encoded, read_reference
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

    def means(self) -> Means | None:
        """Where the job works with a model's mean activations."""
        return read_reference(self.input("reference"))[1].means if "reference" in self.job.inputs else None

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


def execute(job: Job, store: Store, progress: Progress) -> None:
    """Do one job, unless another process has done it; its entry is there in the end."""
    from corewood.study.kinds import KINDS

    with store.claim(job.key):
        if store.has(job.kind, job.key):
            return
        do = KINDS[job.kind].do
        assert do is not None
        torch.set_num_threads(int(job.local.get("threads", 1)))
        started = time.monotonic()
        meta: dict[str, Any] = {"title": job.title, "params": job.params, "inputs": job.inputs, "work": job.work}
        with store.writing(job.kind, job.key, meta) as folder:
            meta |= do(Work(job, store, folder, progress))
            meta["seconds"] = round(time.monotonic() - started, 3)
        store.clear_scratch(job.key)
