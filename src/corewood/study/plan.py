"""What a study stands for: its jobs, checked before anything runs.

Planning reads the data and the model's config and tokenizer, so that every mistake a user can make shows here, in
seconds, and not after an hour of training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from corewood.data.labels import describe, fold_classes
from corewood.data.named import read_task
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.model.families import family
from corewood.model.load import class_names, positions, read_config, read_tokenizer, resolve, unit_shape
from corewood.spec import StudySpec, kept_units
from corewood.store.store import canonical, file_digest
from corewood.study.job import Job

WEIGHTS_AND_TOKENIZER = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model")


@dataclass(frozen=True)
class Subnetwork:
    """One row of the study: a checkpoint of the full model, or a mask found in its last one."""

    name: str
    checkpoint: int
    method: str
    target: float  # sparsity asked for; 0 for the full model
    seed: int
    search: Job | None
    predictions: Mapping[str, Job]  # dataset -> job

    @property
    def jobs(self) -> list[Job]:
        return [*([self.search] if self.search else []), *self.predictions.values()]


@dataclass(frozen=True)
class Plan:
    spec: StudySpec
    splits: Mapping[str, Split]  # train, validation, challenge sets
    data: Mapping[str, Job]
    jobs: tuple[Job, ...]  # each after what it needs
    subnetworks: tuple[Subnetwork, ...]
    classes: tuple[str, ...]
    mapping: Mapping[str, str]  # dataset -> how classes count as its labels, in words
    notes: tuple[str, ...]

    @property
    def datasets(self) -> list[str]:
        """What is evaluated: validation, then the challenge sets."""
        return [name for name in self.splits if name != "train"]


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


def make_plan(spec: StudySpec, base: Path) -> Plan:
    """Everything a study will do. Paths in the study are relative to `base`."""
    task, notes = read_task(spec.task, base, spec.seed)
    source = resolve(spec.model.checkpoint, base)
    config = read_config(source, spec.model.revision)
    family(config.model_type)
    tokenizer = read_tokenizer(source, spec.model.pad_token, spec.model.revision)
    longest = positions(config, tokenizer, spec.model.max_length)
    layers, heads = unit_shape(config)
    for sparsity in spec.search.sparsity:
        kept_units(layers * (heads + 1), sparsity)

    if spec.model.labels and not spec.fine_tune and len(spec.model.labels) != config.num_labels:
        raise InputError(f"model.labels: {len(spec.model.labels)} names for a checkpoint of {config.num_labels} classes")
    classes = spec.model.labels or (task.labels if spec.fine_tune else class_names(config))
    splits = {**({"train": task.train} if task.train else {}), **task.splits}
    for split in splits.values():
        fold_classes(classes, split)
    if spec.fine_tune is None and task.train is None:
        notes.append("no task.train: the search uses the validation texts, on which it is then judged")

    local = {"source": source, "device": spec.model.device}
    base_model = {
        "model": model_digest(source, spec.model.revision),
        "revision": spec.model.revision,
        "labels": list(classes) if spec.model.labels or spec.fine_tune else None,
        "pad_token": spec.model.pad_token,
        "max_length": longest,
    }
    data = {n: Job.make("data", f"data {n}", {"split": split_digest(s)}) for n, s in splits.items()}
    text_of = {k: base_model[k] for k in ("model", "revision", "pad_token", "max_length")}
    encoded = {n: Job.make("encode", f"encode {n}", text_of, {"data": data[n]}, local, len(splits[n]) // 50) for n in splits}
    jobs: list[Job] = [*encoded.values()]

    inputs: dict[str, Job] = {}
    steps: tuple[int, ...] = (0,)
    if spec.fine_tune is not None:
        tuning = Job.make(
            "fine_tune",
            f"fine-tune {spec.fine_tune.steps} steps",
            {**base_model, "settings": spec.fine_tune.model_dump(mode="json")},
            {"data": data["train"], "encoded": encoded["train"]},
            {**local, "threads": spec.fine_tune.threads},
            work=3 * spec.fine_tune.steps * spec.fine_tune.batch,
        )
        jobs.append(tuning)
        inputs, steps = {"fine_tune": tuning}, spec.fine_tune.kept

    def at(step: int) -> dict[str, Any]:
        return {**base_model, "step": step} if spec.fine_tune else base_model

    searched = encoded.get("train", encoded["validation"])
    size = min(spec.sample, len(splits.get("train", splits["validation"])))
    reference = Job.make(
        "reference",
        f"full model on {size} texts",
        {**at(steps[-1]), "sample": spec.sample, "seed": spec.seed},
        {**inputs, "encoded": searched},
        local,
        work=size,
    )

    datasets = [n for n in splits if n != "train"]

    def predictions(step: int, who: str, search: Job | None = None) -> dict[str, Job]:
        extra = {} if search is None else {"search": search, "reference": reference}
        params = at(step) if search is None else {**at(step), "ablate": spec.ablate}
        return {
            n: Job.make("predict", f"{who} on {n}", params, {**inputs, **extra, "encoded": encoded[n]}, local, len(splits[n]))
            for n in datasets
        }

    rows = []
    for step in steps:
        who = f"step {step}" if spec.fine_tune else "full model"
        rows.append(Subnetwork("full", step, "none", 0.0, 0, None, predictions(step, who)))
    searches = []
    for sparsity in spec.search.sparsity:
        settings = spec.search.l0(sparsity)
        for seed in spec.search.seed_list:
            name = f"{spec.search.method}-{100 * sparsity:g}-s{seed}"
            found = Job.make(
                "search",
                f"search {100 * sparsity:g} % seed {seed}",
                {**at(steps[-1]), "settings": settings.model_dump(mode="json"), "seed": seed, "ablate": spec.ablate},
                {**inputs, "reference": reference, "encoded": searched},
                local,
                work=2 * settings.steps * settings.batch,
            )
            searches.append(found)
            rows.append(
                Subnetwork(name, steps[-1], spec.search.method, sparsity, seed, found, predictions(steps[-1], name, found))
            )
    full_last = list(rows[len(steps) - 1].predictions.values())
    jobs += [reference, *full_last, *searches]  # searches are long: start them first, look at checkpoints meanwhile
    jobs += [job for row in rows for job in row.predictions.values() if job not in full_last]
    mapping = {n: describe(classes, splits[n]) for n in datasets}
    return Plan(spec, splits, data, tuple(jobs), tuple(rows), tuple(classes), mapping, tuple(notes))
