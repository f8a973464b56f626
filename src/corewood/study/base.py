"""What every plan is made of: the model and the data as keys, and the jobs of one task.

Planning reads the data and the model's config and tokenizer, so that every mistake a user can make shows here, in
seconds, and not after an hour of training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from corewood.data.task import Split
from corewood.errors import InputError
from corewood.model.families import family
from corewood.model.load import positions, read_config, read_tokenizer, resolve, unit_shape
from corewood.model.mask import unit_names
from corewood.spec import Ablation, FineTune, ModelSpec, StudySpec
from corewood.spec_lottery import LotterySpec
from corewood.store.store import canonical, file_digest
from corewood.study.job import Job

WEIGHTS_AND_TOKENIZER = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")


@dataclass(frozen=True)
class Plan:
    """What a study will do: its data and its jobs. Each kind of study adds what its tables need."""

    spec: StudySpec | LotterySpec
    splits: Mapping[str, Split]  # all data that jobs read
    data: Mapping[str, Job]  # the same, as keys
    jobs: tuple[Job, ...]  # each after what it needs
    mapping: Mapping[str, str]  # dataset -> how classes count as its labels, in words
    notes: tuple[str, ...]

    @property
    def asked(self) -> dict[str, Any]:
        """What shapes the tables beside the jobs themselves."""
        return {"study": self.spec.name, "model": self.spec.model.checkpoint}

    @property
    def reported(self) -> dict[str, Any]:
        """What the report says of this kind of study."""
        return {}


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
            f"{key}.train: every example is {classes[0]!r}, which leaves nothing to learn; where labels are numbers, a lottery "
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


@dataclass
class TaskPlanner:
    """The jobs of one task. A job that two parts ask for is one job; `who` stands before their titles."""

    splits: Mapping[str, Split]
    model: Mapping[str, Any]
    local: Mapping[str, Any]
    sample: int
    seed: int
    who: str = ""
    unjudged: tuple[str, ...] = ("train",)
    jobs: dict[str, Job] = field(default_factory=dict)  # by key, each after what it needs
    data: dict[str, Job] = field(default_factory=dict)
    encoded: dict[str, Job] = field(default_factory=dict)
    tuned: dict[str, Job] = field(default_factory=dict)  # the fine-tuning, as an input, where there is one

    def add(self, job: Job) -> Job:
        return self.jobs.setdefault(job.key, job)

    def encode(self) -> None:
        self.data |= {n: Job.make("data", f"data {self.who}{n}", {"split": split_digest(s)}) for n, s in self.splits.items()}
        text_of = {k: self.model[k] for k in ("model", "revision", "pad_token", "max_length")}
        for n, split in self.splits.items():
            job = Job.make("encode", f"{self.who}encode {n}", text_of, {"data": self.data[n]}, self.local, len(split) // 50)
            self.encoded[n] = self.add(job)

    def fine_tune(self, settings: FineTune) -> None:
        settings = settings.resolved(len(self.splits["train"]))
        assert settings.steps is not None
        device, _, number = str(self.local["device"]).partition(":")
        if int(number or 0) > 0:
            raise InputError(
                f"model.device: training runs on the first GPU it sees; say device: {device} and CUDA_VISIBLE_DEVICES={number}"
            )
        job = Job.make(
            "fine_tune",
            f"{self.who}fine-tune {settings.steps} steps",
            {**self.model, "settings": tuning_params(settings)},
            {"data": self.data["train"], "encoded": self.encoded["train"]},
            {**self.local, "threads": settings.threads},
            work=settings.steps * settings.batch,
        )
        self.tuned = {"fine_tune": self.add(job)}

    def at(self, step: int) -> dict[str, Any]:
        return {**self.model, "step": step} if self.tuned else dict(self.model)

    @property
    def datasets(self) -> list[str]:
        """What subnetworks are judged on."""
        return [n for n in self.splits if n not in self.unjudged]

    @property
    def sampled(self) -> str:
        """The split that searches and means draw on."""
        return "train" if "train" in self.splits else "validation"

    def reference(self, step: int) -> Job:
        size = min(self.sample, len(self.splits[self.sampled]))
        return self.add(
            Job.make(
                "reference",
                f"{self.who}full model on {size} texts" + (f", step {step}" if self.tuned else ""),
                {**self.at(step), "sample": self.sample, "seed": self.seed},
                {**self.tuned, "encoded": self.encoded[self.sampled]},
                self.local,
                work=size,
            )
        )

    def predict(
        self, step: int, who: str, search: Job | None = None, ablate: Ablation = "mean", masks: int = 1
    ) -> dict[str, Job]:
        """Logits on every dataset: of the full model, or of all masks of a search."""
        params = self.at(step) if search is None else {**self.at(step), "ablate": ablate}
        extra = {} if search is None else {"search": search}
        if search is not None and ablate == "mean":
            extra["reference"] = self.reference(step)
        made = {}
        for n in self.datasets:
            inputs = {**self.tuned, **extra, "encoded": self.encoded[n]}
            work = masks * len(self.splits[n])
            made[n] = self.add(Job.make("predict", f"{self.who}{who} on {n}", params, inputs, self.local, work))
        return made


def tuning_params(settings: FineTune) -> dict[str, Any]:
    """Settings as part of a key: epochs are steps by now."""
    return settings.model_dump(mode="json", exclude={"epochs"})
