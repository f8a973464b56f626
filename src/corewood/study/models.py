"""The models of a study: tasks x fine-tuning seeds x checkpoints, as keys and jobs.

Planning reads the data and the model's config and tokenizer, so that every mistake a user can make shows here, in
seconds, and not after an hour of training.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from corewood.data.encode import encode
from corewood.data.labels import gold_classes
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.predict import logits_of
from corewood.model.families import family
from corewood.model.finetune import fine_tune
from corewood.model.load import positions, read_config, read_tokenizer, resolve, unit_shape
from corewood.model.mask import unit_names
from corewood.model.reference import reference, sample_indices
from corewood.model.weights import weights_masked
from corewood.spec import Ablation, FineTune, ModelSpec
from corewood.store.store import canonical, file_digest
from corewood.study.entries import (
    read_data,
    read_masks,
    read_weights,
    write_encoded,
    write_logits,
    write_reference,
)
from corewood.study.job import Job, Kind
from corewood.study.subnetwork import FULL, Subnetwork
from corewood.study.work import Work

WEIGHTS_AND_TOKENIZER = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")
VALIDATION, TRAIN, SEARCH = "validation", "train", "search"  # splits; ways look at the labels of `search`


def split_digest(split: Split) -> str:
    """What the examples are, whatever file they came from."""
    content = hashlib.sha256(canonical([split.name, split.labels, dict(split.fold), list(split.frame.columns)]).encode())
    content.update(pd.util.hash_pandas_object(split.frame, index=False).to_numpy().tobytes())
    return content.hexdigest()[:32]


def model_digest(source: str, revision: str | None) -> str:
    """A folder by what is in it; a hub model by its name and revision."""
    folder = Path(source)
    if not folder.is_dir():
        return f"hub:{source}@{revision or 'main'}"
    files = sorted({p for pattern in WEIGHTS_AND_TOKENIZER for p in folder.glob(pattern)})
    return hashlib.sha256("".join(f"{p.name}:{file_digest(p)}\n" for p in files).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Checkpoint:
    """What planning knows of a model without loading its weights."""

    source: str
    digest: str
    config: Any
    tokenizer: Any
    max_length: int
    layers: int
    heads: int

    @property
    def units(self) -> list[str]:
        return unit_names(self.layers, self.heads)


def read_checkpoint(spec: ModelSpec, base: Path) -> Checkpoint:
    source = resolve(spec.checkpoint, base)
    config = read_config(source, spec.revision)
    family(config.model_type)
    tokenizer = read_tokenizer(source, spec.pad_token, spec.revision)
    digest = model_digest(source, spec.revision)
    return Checkpoint(source, digest, config, tokenizer, positions(config, tokenizer, spec.max_length), *unit_shape(config))


def check_learnable(classes: tuple[str, ...], train: Split, key: str) -> None:
    if len(classes) < 2 and not train.regression:
        raise InputError(
            f"{key}.train: every example is {classes[0]!r}, which leaves nothing to learn; where labels are numbers, the task "
            "takes metric: pearson"
        )


def pinning(spec: ModelSpec, found: Checkpoint) -> list[str]:
    """A note where the same study may mean another model tomorrow."""
    if spec.revision is not None or Path(found.source).is_dir():
        return []
    return [f"model.revision: {found.source} is not pinned; give a revision, or a later run may mix two versions of it"]


def model_params(spec: ModelSpec, found: Checkpoint, labels: tuple[str, ...] | None) -> dict[str, Any]:
    """The part of a job's key that says which model it works on."""
    return {
        "model": found.digest,
        "revision": spec.revision,
        "labels": None if labels is None else list(labels),
        "pad_token": spec.pad_token,
        "max_length": found.max_length,
    }


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """A task: its data, as keys, and what its classes are called."""

    name: str
    splits: Mapping[str, Split]  # train, validation, search where ways look at labels, then the challenge sets
    data: Mapping[str, Job]
    encoded: Mapping[str, Job]
    classes: tuple[str, ...]
    metric: str

    @property
    def datasets(self) -> list[str]:
        """What subnetworks are judged on."""
        return [n for n in self.splits if n not in (TRAIN, SEARCH)]

    @property
    def regression(self) -> bool:
        return self.splits[VALIDATION].regression

    @property
    def sampled(self) -> str:
        """The split that searches and means draw on."""
        return TRAIN if TRAIN in self.splits else VALIDATION


def domain(dataset: str) -> str:
    return "in-domain" if dataset == VALIDATION else "challenge"


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A task's model, fine-tuned with one seed or as it is: what jobs work on. A job that two parts ask for is one job."""

    task: TaskPlan
    tuning: int
    who: str  # before the titles of its jobs
    params: Mapping[str, Any]
    local: Mapping[str, Any]
    steps: tuple[int, ...]  # checkpoints, the last of which is pruned
    settings: FineTune | None  # how it is fine-tuned
    tuned: Mapping[str, Job]  # the fine-tuning, as an input, where there is one
    jobs: dict[str, Job]  # of the whole study, by key
    sample: int
    seed: int

    @property
    def last(self) -> int:
        return self.steps[-1]

    @property
    def key(self) -> tuple[str, int]:
        return self.task.name, self.tuning

    def add(self, job: Job) -> Job:
        return self.jobs.setdefault(job.key, job)

    def at(self, step: int) -> dict[str, Any]:
        return {**self.params, "step": step} if self.tuned else dict(self.params)

    def row(self, **facts: Any) -> Subnetwork:
        return Subnetwork(**{"task": self.task.name, "tuning": self.tuning, "checkpoint": self.last, **facts})

    def reference(self, step: int) -> Job:
        task = self.task
        size = min(self.sample, len(task.splits[task.sampled]))
        params = {**self.at(step), "sample": self.sample, "seed": self.seed}
        inputs = {**self.tuned, "encoded": task.encoded[task.sampled]}
        title = f"{self.who}full model on {size} texts" + (f", step {step}" if self.tuned else "")
        return self.add(Job.make(REFERENCE, title, params, inputs, self.local, work=size))

    def predict(
        self, step: int, who: str, masks: Job | None = None, ablate: Ablation | None = None, count: int = 1
    ) -> dict[str, Job]:
        """Logits on every dataset: of the full model, of all masks of a job, or (without a stand-in) of its mask of weights."""
        params, extra = self.at(step), {}
        if masks is not None and ablate is None:
            extra = {"weights": masks}
        elif masks is not None:
            params, extra = {**params, "ablate": ablate}, {"search": masks}
            if ablate == "mean":
                extra["reference"] = self.reference(step)
        made = {}
        for n in self.task.datasets:
            inputs = {**self.tuned, **extra, "encoded": self.task.encoded[n]}
            work = count * len(self.task.splits[n])
            made[n] = self.add(Job.make(PREDICT, f"{self.who}{who} on {n}", params, inputs, self.local, work))
        return made

    def full_row(self, step: int) -> Subnetwork:
        who = f"step {step}" if len(self.steps) > 1 else "full model"
        return self.row(name=FULL, way=FULL, question=FULL, ticket=FULL, checkpoint=step, predictions=self.predict(step, who))


def tuning_params(settings: FineTune) -> dict[str, Any]:
    """Settings as part of a key: epochs are steps by now."""
    return settings.model_dump(mode="json", exclude={"epochs"})


def tuning_job(task: TaskPlan, settings: FineTune, params: Mapping[str, Any], local: Mapping[str, Any], who: str) -> Job:
    device, _, number = str(local["device"]).partition(":")
    if int(number or 0) > 0:
        raise InputError(
            f"model.device: training runs on the first GPU it sees; say device: {device} and CUDA_VISIBLE_DEVICES={number}"
        )
    return Job.make(
        FINE_TUNE,
        f"{who}fine-tune {settings.last} steps",
        {**params, "settings": tuning_params(settings)},
        {"data": task.data[TRAIN], "encoded": task.encoded[TRAIN]},
        {**local, "threads": settings.threads},
        work=settings.last * settings.batch,
    )


# what the jobs do


def do_encode(work: Work) -> dict[str, Any]:
    split = read_data(work.input("data"))
    params = work.job.params
    tokenizer = read_tokenizer(work.job.local["source"], params["pad_token"], params["revision"])
    encoded = encode(split, tokenizer, params["max_length"])
    write_encoded(encoded, work.folder)
    notes = []
    if encoded.truncated:
        who = work.job.title.replace("encode ", "")
        notes.append(f"{who}: {encoded.truncated} of {len(split)} texts were cut to {params['max_length']} tokens")
    return {"pad_id": encoded.pad_id, "truncated": encoded.truncated, "notes": notes}


def do_fine_tune(work: Work) -> dict[str, Any]:
    params = work.job.params
    settings = FineTune(**params["settings"])
    split = read_data(work.input("data"))
    model = work.new_model(settings.seed, check=True)
    gold = gold_classes(model.labels, split)
    scratch = work.store.scratch(work.job.key)
    kept = fine_tune(model, work.encoded(), gold, settings, scratch, progress=work.progress)
    for step, folder in kept.items():  # linked, not moved: a kill before the entry is complete must lose nothing
        shutil.copytree(folder, work.folder / f"step-{step}", copy_function=link_or_copy)
    model.tokenizer.save_pretrained(work.folder / "tokenizer")
    return {}


def do_reference(work: Work) -> dict[str, Any]:
    encoded = work.encoded()
    chosen = sample_indices(len(encoded), work.job.params["sample"], work.job.params["seed"])
    found = reference(work.model(), encoded.take(chosen), work.progress)
    write_reference(chosen, found, work.folder)
    return {"tokens": found.means.tokens}


def do_predict(work: Work) -> dict[str, Any]:
    model, examples = work.model(), work.encoded()
    if "weights" in work.job.inputs:
        with weights_masked(model, read_weights(work.input("weights"))):
            write_logits(logits_of(model, model.units.full(), examples)[None], work.folder)
        return {"units": vars(model.units)}
    masks = read_masks(work.input("search")) if "search" in work.job.inputs else [model.units.full()]
    stand_in, means = work.job.params.get("ablate", "mean"), work.means()
    logits: list[np.ndarray] = []
    for mask in masks:
        before = len(logits) * len(examples)

        def progress(done: int, total: int, before: int = before) -> None:
            work.progress(before + done, len(masks) * total)

        logits.append(logits_of(model, mask, examples, stand_in, means, progress=progress))
    write_logits(np.stack(logits), work.folder)
    return {"units": vars(model.units)}


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


DATA = Kind("data", 1, "read data", "second", 0.0, None)
ENCODE = Kind("encode", 1, "encode texts", "forward", 0.01, do_encode)
FINE_TUNE = Kind("fine_tune", 2, "fine-tune", "train", 1.0, do_fine_tune)
REFERENCE = Kind("reference", 1, "full model on the sample", "forward", 1.0, do_reference)
PREDICT = Kind("predict", 2, "evaluate", "forward", 1.0, do_predict)
KINDS = (DATA, ENCODE, FINE_TUNE, REFERENCE, PREDICT)
