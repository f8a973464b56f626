"""A job: keys in, one key out. A kind of job: all that is known of it in one record. What a job has at hand, and doing it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from corewood.data.encode import Encoded
from corewood.data.labels import gold_classes
from corewood.data.task import Split
from corewood.errors import JobError
from corewood.model.gates import Means
from corewood.model.load import Model, load
from corewood.prune.exchange import Texts
from corewood.spec import Ablation
from corewood.store.store import Entry, Store, digest
from corewood.study.entries import read_data, read_encoded, read_reference

Progress = Callable[[int, int], None]
TRIES = 3  # at a job that others take over


@dataclass(frozen=True)
class Kind:
    name: str
    version: int  # raise it when the code changes what it computes: old results are then computed anew
    title: str  # what progress calls it
    pace: Literal["forward", "search", "train", "second"]  # what one example of its work takes,
    factor: float  # times this
    do: Callable[[Work], dict[str, Any]] | None  # what it returns goes into meta.json; None: made where it is planned
    cpu: bool = False  # whether a GPU would be of no use to it


@dataclass(frozen=True)
class Job:
    """`params` and `inputs` make the key; `local` is what only this machine needs to know (folders, device)."""

    kind: str
    key: str
    title: str
    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, str]]  # name -> (kind, key)
    local: Mapping[str, Any] = field(default_factory=dict)
    work: int = 1  # about how many examples pass through the model, to share out progress and estimate time

    @classmethod
    def make(
        cls,
        kind: Kind,
        title: str,
        params: Mapping[str, Any],
        inputs: Mapping[str, Job] | None = None,
        local: Mapping[str, Any] | None = None,
        work: int = 1,
    ) -> Job:
        keys = {name: (job.kind, job.key) for name, job in (inputs or {}).items()}
        content = {"kind": kind.name, "version": kind.version, "params": params}
        key = digest({**content, "inputs": {n: k for n, (_, k) in keys.items()}})
        return cls(kind.name, key, title, params, keys, local or {}, work)

    @property
    def made_of(self) -> dict[str, Any]:
        """What the entry of a job that was run says of itself."""
        return {"params": self.params, "inputs": self.inputs}

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Job:
        return cls(**{**content, "inputs": {n: (k[0], k[1]) for n, k in content["inputs"].items()}})

    def needs(self) -> list[str]:
        return [key for _, key in self.inputs.values()]


@dataclass(frozen=True)
class Work:
    job: Job
    store: Store
    folder: Path  # the new entry, under its temporary name
    progress: Progress
    notes: list[str] = field(default_factory=list)  # what the user should know of how it went

    def doubt(self, what: str) -> None:
        """Of what an earlier try left: it is not gone on from."""
        self.notes.append(f"{self.job.title}: {what}, so it was done anew from there")

    def input(self, name: str) -> Entry:
        return self.store.get(*self.job.inputs[name])

    def data(self) -> Split:
        return read_data(self.input("data"))

    def gold(self, model: Model) -> np.ndarray:
        return gold_classes(model.labels, self.data())

    def encoded(self) -> Encoded:
        return read_encoded(self.input("encoded"))

    def texts(self, ablate: Ablation) -> Texts:
        """The study's sample, as searches look at it."""
        chosen, shared = read_reference(self.input("reference"))
        return Texts.of(self.model(), self.encoded().take(chosen), shared, ablate)

    def means(self) -> Means | None:
        """Where the job works with a model's mean activations."""
        return read_reference(self.input("reference"))[1].means if "reference" in self.job.inputs else None

    @property
    def options(self) -> dict[str, Any]:
        """How the study's models are loaded."""
        params, labels = self.job.params, self.job.params["labels"]
        kept = {name: params[name] for name in ("pad_token", "revision", "max_length")}
        own = {"device": self.job.local["device"], "precision": params.get("precision", "float32")}
        return {**kept, "labels": None if labels is None else tuple(labels), **own}

    def new_model(self, seed: int, check: bool = False) -> Model:
        """The checkpoint the study names, with a new classifier drawn by the seed; checked once, by the fine-tuning."""
        return load(self.job.local["source"], **self.options, seed=seed, check=check, new_head=True)

    @property
    def checkpoint(self) -> dict[str, Any]:
        """What this job works on, as `load` takes it: a checkpoint of fine-tuning, or the one the study names."""
        source = tokenizer = self.job.local["source"]
        if "fine_tune" in self.job.inputs:
            tuned = self.input("fine_tune")
            source, tokenizer = str(tuned.path(f"step-{self.job.params['step']}")), str(tuned.path("tokenizer"))
        return {"source": source, "tokenizer": tokenizer, **self.options}

    def model(self) -> Model:
        return cached_model(self.job.params["model"], **self.checkpoint)


@lru_cache(maxsize=1)
def cached_model(_digest: str, **checkpoint: Any) -> Model:
    """`_digest`: so that a folder whose content changed is loaded again."""
    return load(**checkpoint)


class Taken(Exception):
    """This host was not heard of for so long that another may have taken the job over."""


def execute(job: Job, store: Store, progress: Progress) -> bool:
    """Do one job, unless another process has done it; its entry is there in the end. Whether it was done here."""
    for _ in range(TRIES):
        try:
            return attempt(job, store, progress)
        except Taken:
            continue  # who has it now is waited for
    raise JobError(f"another host has taken this job over, {TRIES} times; is the clock or the network of this one at fault?")


@cache
def settle() -> None:
    """What is loaded by now stays: each look at torch and transformers for garbage would take a quarter of a second."""
    gc.freeze()


def attempt(job: Job, store: Store, tell: Progress) -> bool:
    from corewood.study.kinds import KINDS

    settle()
    with store.claim(job.key) as claim:
        if store.has(job.kind, job.key):
            return False

        def progress(done: int, total: int) -> None:
            if claim.lost:
                raise Taken
            tell(done, total)

        do = KINDS[job.kind].do
        assert do is not None
        torch.set_num_threads(int(job.local.get("threads", 1)))
        started = time.monotonic()
        meta: dict[str, Any] = {"title": job.title, **job.made_of, "work": job.work}
        with store.writing(job.kind, job.key, meta) as folder:
            work = Work(job, store, folder, progress)
            meta |= do(work)
            if work.notes:
                meta["notes"] = [*meta.get("notes", []), *work.notes]
            meta["seconds"] = round(time.monotonic() - started, 3)
            if claim.lost:
                raise Taken
        store.clear_scratch(job.key)
        return True
