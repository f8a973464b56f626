"""The models of a study: tasks x fine-tuning seeds x checkpoints, as keys and jobs.

Planning reads the data and the model's config and tokenizer, so that every mistake a user can make shows here, in
seconds, and not after an hour of training.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from corewood import seal
from corewood.data.encode import encode
from corewood.data.labels import describe
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.predict import logits_of
from corewood.model.checkpoint import check_vocabulary, positions, read_config, read_tokenizer
from corewood.model.finetune import fine_tune
from corewood.model.load import resolve, unit_shape
from corewood.model.mask import unit_names
from corewood.model.reference import reference, sample_indices
from corewood.model.weights import weights_masked
from corewood.spec import Ablation, FineTune, ModelSpec, Steps, StudySpec
from corewood.store.store import canonical, file_digest
from corewood.study.entries import read_encoded, read_masks, read_weights, write_encoded, write_logits, write_reference
from corewood.study.job import Job, Kind, Work
from corewood.study.subnetwork import FULL, Subnetwork
from corewood.untrusted import why

WEIGHTS_AND_TOKENIZER = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")
IN_DOMAIN, IN_DOMAIN_TOO, CHALLENGE = "in-domain", "in-domain too", "challenge"
WATCH = "watch "  # before the datasets that a fine-tuning judges its model on
MOST_JOBS = 50_000
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
    files = sorted({p for pattern in WEIGHTS_AND_TOKENIZER for p in folder.glob(pattern) if p.is_file()})
    try:
        return hashlib.sha256("".join(f"{p.name}:{file_digest(p)}\n" for p in files).encode()).hexdigest()[:32]
    except (OSError, UnicodeEncodeError) as problem:
        raise InputError(f"model {source}: its files cannot be read ({why(problem)}); check their permissions") from None


@dataclass(frozen=True)
class Checkpoint:
    """What planning knows of a model without loading its weights."""

    spec: ModelSpec
    source: str
    digest: str
    config: Any
    tokenizer: Any
    max_length: int
    layers: int
    heads: int
    precision: str

    @property
    def name(self) -> str:
        """In a sentence: a folder's own name, a hub id as it is."""
        given = self.spec.checkpoint
        return Path(self.source).absolute().name if "/" in given and Path(self.source).is_dir() else given

    @property
    def units(self) -> list[str]:
        return unit_names(self.layers, self.heads)

    @property
    def local(self) -> dict[str, Any]:
        folder = Path(self.source)  # absolute: workers on other hosts stand in other folders
        return {"source": str(folder.absolute()) if folder.is_dir() else self.source, "device": self.spec.device}

    @property
    def encoding(self) -> dict[str, Any]:
        """The part of a job's key that says how texts become tokens."""
        spec = self.spec
        return {"model": self.digest, "revision": spec.revision, "pad_token": spec.pad_token, "max_length": self.max_length}


def precision_of(spec: ModelSpec, bfloat16: bool) -> str:
    """What `auto` stands for; `bfloat16`: whether jobs run on GPUs that have it."""
    if spec.precision != "auto":
        return spec.precision
    return "bfloat16" if bfloat16 and spec.device != "cpu" else "float32"


def read_checkpoint(spec: ModelSpec, base: Path, bfloat16: bool = False) -> Checkpoint:
    source = resolve(spec.checkpoint, base)
    if spec.revision is not None and Path(source).is_dir():
        raise InputError(f"model.revision: is of a model on the hub, and {spec.checkpoint} is a folder; leave it out")
    config = read_config(source, spec.revision)
    tokenizer = read_tokenizer(source, spec.pad_token, spec.revision)
    check_vocabulary(tokenizer, config, spec.checkpoint)
    digest, length = model_digest(source, spec.revision), positions(config, tokenizer, spec.max_length)
    return Checkpoint(spec, source, digest, config, tokenizer, length, *unit_shape(config), precision_of(spec, bfloat16))


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """A task: its data, as keys, and what its classes are called."""

    name: str
    who: str  # before the titles of its jobs
    splits: Mapping[str, Split]  # train, validation, search where ways look at labels, then the challenge sets
    data: Mapping[str, Job]
    encoded: Mapping[str, Job]
    classes: tuple[str, ...]
    metric: str
    also: tuple[str, ...]  # further sets in domain

    def domain(self, dataset: str) -> str:
        return IN_DOMAIN if dataset == VALIDATION else IN_DOMAIN_TOO if dataset in self.also else CHALLENGE

    @property
    def challenge(self) -> list[str]:
        return [n for n in self.datasets if self.domain(n) == CHALLENGE]

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


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A task's model, fine-tuned with one seed or as it is: what jobs work on."""

    spec: StudySpec
    task: TaskPlan
    tuning: int
    who: str  # before the titles of its jobs
    params: Mapping[str, Any]  # the part of a job's key that says which model it works on
    local: Mapping[str, Any]
    precision: str = "float32"  # of search and evaluation
    steps: tuple[int, ...] = (0,)  # checkpoints, the last of which is pruned
    settings: FineTune | None = None  # how it is fine-tuned
    tuned: Mapping[str, Job] = field(default_factory=dict)  # the fine-tuning, as an input, where there is one
    jobs: dict[str, Job]  # of the whole study, by key

    @property
    def last(self) -> int:
        return self.steps[-1]

    @property
    def key(self) -> tuple[str, int]:
        return self.task.name, self.tuning

    def and_last(self, wanted: Steps) -> list[int]:
        """The checkpoints that are wanted beside the last, which comes first."""
        return sorted({*(self.steps if wanted == "all" else wanted), self.last}, reverse=True)

    def at(self, step: int) -> str:
        """What titles of jobs on an earlier checkpoint end with."""
        return "" if step == self.last else f", step {step}"

    def job(
        self, kind: Kind, title: str, params: Mapping[str, Any], inputs: Mapping[str, Job], work: int = 1, **local: Any
    ) -> Job:
        """A job that two parts ask for is one job."""
        if len(self.jobs) >= MOST_JOBS:
            raise InputError(
                f"this study stands for more than {MOST_JOBS:,} jobs, which is more than it can be planned for; ask for fewer "
                "seeds, sparsities, draws or checkpoints, or make several studies of it: they share what they have in common"
            )
        job = Job.make(kind, f"{self.who}{title}", params, inputs, {**self.local, **local}, work)
        return self.jobs.setdefault(job.key, job)

    def job_at(
        self, step: int, kind: Kind, title: str, params: Mapping[str, Any], inputs: Mapping[str, Job], work: int = 1
    ) -> Job:
        """A job on one of the checkpoints."""
        at: dict[str, Any] = {"step": step} if self.tuned else {}
        if self.precision != "float32" and kind.pace in (
            "forward",
            "search",
        ):  # results of before had float32, and no word of it
            at["precision"] = self.precision
        return self.job(kind, title, {**self.params, **at, **params}, {**self.tuned, **inputs}, work)

    def row(self, **facts: Any) -> Subnetwork:
        return Subnetwork(**{"task": self.task.name, "tuning": self.tuning, "checkpoint": self.last, **facts})

    def reference(self, step: int) -> Job:
        sampled, wanted = self.task.sampled, self.spec.sample
        size = min(wanted, len(self.task.splits[sampled]))
        title = f"full model on {size} texts" + (f", step {step}" if self.tuned else "")
        inputs = {"encoded": self.task.encoded[sampled]}
        return self.job_at(step, REFERENCE, title, {"sample": wanted, "seed": self.spec.seed}, inputs, size)

    def predict(
        self, step: int, who: str, masks: Job | None = None, ablate: Ablation | None = None, count: int = 1
    ) -> dict[str, Job]:
        """Logits on every dataset: of the full model, of all masks of a job, or (without a stand-in) of its mask of weights."""
        params: dict[str, Any] = {}
        extra: dict[str, Job] = {}
        if masks is not None and ablate is None:
            extra = {"weights": masks}
        elif masks is not None:
            params, extra = {"ablate": ablate}, {"search": masks}
            if ablate == "mean":
                extra["reference"] = self.reference(step)
        made = {}
        for n in self.task.datasets:
            inputs = {**extra, "encoded": self.task.encoded[n]}
            made[n] = self.job_at(step, PREDICT, f"{who} on {n}", params, inputs, count * len(self.task.splits[n]))
        return made

    def full_rows(self) -> list[Subnetwork]:
        """The full model at its checkpoints. The last is judged first: it is what others stand beside."""
        rows = []
        for step in reversed(self.steps):
            predictions = self.predict(step, f"step {step}" if len(self.steps) > 1 else "full model")
            rows.append(self.row(name=FULL, way=FULL, question=FULL, ticket=FULL, checkpoint=step, predictions=predictions))
        return rows[::-1]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study will do; planning adds to it part by part."""

    spec: StudySpec
    base: Path  # paths in the study are relative to it
    checkpoint: Checkpoint
    tasks: dict[str, TaskPlan] = field(default_factory=dict)
    models: dict[tuple[str, int], ModelPlan] = field(default_factory=dict)  # (task, seed of fine-tuning)
    jobs: dict[str, Job] = field(default_factory=dict)  # by key, each after what it needs
    rows: list[Subnetwork] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)  # question -> what it will need for its tables
    notes: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)  # what the cost rests on until it is known

    def label(self, task: str, dataset: str) -> str:
        """A dataset as users know it."""
        return dataset if len(self.tasks) == 1 else f"{task}/{dataset}"

    @property
    def splits(self) -> dict[str, Split]:
        """All data that jobs read."""
        return {self.label(t.name, n): split for t in self.tasks.values() for n, split in t.splits.items()}

    @property
    def data(self) -> dict[str, Job]:
        """The same, as keys."""
        return {self.label(t.name, n): job for t in self.tasks.values() for n, job in t.data.items()}

    @property
    def mapping(self) -> dict[str, str]:
        """Dataset -> how classes count as its labels, in words."""
        return {self.label(t.name, n): describe(t.classes, t.splits[n]) for t in self.tasks.values() for n in t.datasets}


def tuning_params(settings: FineTune) -> dict[str, Any]:
    """Settings as part of a key: epochs are steps by now."""
    return settings.params("epochs")


# what the jobs do


def do_encode(work: Work) -> dict[str, Any]:
    split, params = work.data(), work.job.params
    tokenizer = read_tokenizer(work.job.local["source"], params["pad_token"], params["revision"])
    encoded = encode(split, tokenizer, params["max_length"])
    write_encoded(encoded, work.folder)
    notes = []
    if encoded.truncated:
        who = work.job.title.replace("encode ", "")
        notes.append(f"{who}: {encoded.truncated} of {len(split)} texts were cut to {params['max_length']} tokens")
    return {"pad_id": encoded.pad_id, "truncated": encoded.truncated, "notes": notes}


def do_fine_tune(work: Work) -> dict[str, Any]:
    settings = FineTune(**work.job.params["settings"])
    model = work.new_model(settings.seed, check=True)
    scratch = work.store.scratch(work.job.key)
    watched = {name.removeprefix(WATCH): read_encoded(work.input(name)) for name in work.job.inputs if name.startswith(WATCH)}

    def seen_at(step: int) -> Path:
        return scratch / f"watched-{step}.safetensors"

    def look(step: int) -> None:
        logits = {name: logits_of(model, model.units.full(), examples) for name, examples in watched.items()}
        save_file(logits, seal.part_of(seen_at(step)))
        seal.keep(seen_at(step))

    def looked(step: int) -> bool:
        found, damaged = seal.kept(seen_at(step))
        if damaged:
            work.doubt(f"what was seen at step {step} is damaged")
        return found is not None

    facts: dict[str, Any] = {"progress": work.progress, "look": look, "looked": looked, "doubt": work.doubt}
    kept = fine_tune(model, work.encoded(), work.gold(model), settings, scratch, **facts)
    for step in settings.watched:
        link_or_copy(str(seal.kept(seen_at(step))[0]), str(work.folder / seen_at(step).name))
    for step, folder in kept.items():  # linked, not moved: a kill before the entry is complete must lose nothing
        leave = shutil.ignore_patterns(seal.SEAL)
        shutil.copytree(folder, work.folder / f"step-{step}", ignore=leave, copy_function=link_or_copy)
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
ENCODE = Kind("encode", 1, "encode texts", "forward", 0.01, do_encode, cpu=True)
FINE_TUNE = Kind("fine_tune", 2, "fine-tune", "train", 1.0, do_fine_tune)
REFERENCE = Kind("reference", 1, "full model on the sample", "forward", 1.0, do_reference)
PREDICT = Kind("predict", 2, "evaluate", "forward", 1.0, do_predict)
KINDS = (DATA, ENCODE, FINE_TUNE, REFERENCE, PREDICT)
