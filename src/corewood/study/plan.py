"""What a study stands for: models x ways x questions as jobs, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corewood.data.labels import classes_of, describe, fold_classes
from corewood.data.named import read_task
from corewood.data.task import Split, Task, halves
from corewood.errors import InputError, nearest
from corewood.model.load import class_names
from corewood.spec import FineTune, GlueTask, StudySpec, kept_units
from corewood.study import ways
from corewood.study.entries import stored_name
from corewood.study.job import Job
from corewood.study.models import (
    DATA,
    ENCODE,
    SEARCH,
    TRAIN,
    VALIDATION,
    Checkpoint,
    ModelPlan,
    TaskPlan,
    check_learnable,
    model_params,
    pinning,
    read_checkpoint,
    split_digest,
    tuning_job,
)
from corewood.study.questions import QUESTIONS
from corewood.study.subnetwork import Subnetwork

UNRELIABLE = {"wnli": "WNLI's training and validation sets hold like sentences with opposite labels; results are unreliable"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study will do."""

    spec: StudySpec
    base: Path  # paths in the study are relative to it
    checkpoint: Checkpoint
    tasks: Mapping[str, TaskPlan]
    models: Mapping[tuple[str, int], ModelPlan]  # (task, seed of fine-tuning)
    jobs: dict[str, Job]  # by key, each after what it needs
    rows: list[Subnetwork]
    parts: dict[str, Any]  # question -> what it will need for its tables
    notes: list[str]

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

    def of(self, row: Subnetwork) -> ModelPlan:
        return self.models[row.model]


def make_plan(spec: StudySpec, base: Path) -> Plan:
    """In the order of doing: what many wait for first. Paths in the study are relative to `base`."""
    found = read_checkpoint(spec.model, base)
    for key, wanted in (("prune.l0", spec.prune.l0), ("effective_size", spec.effective_size)):
        for sparsity in wanted.sparsity if wanted else ():
            kept_units(len(found.units), sparsity, f"{key}.sparsity")
    masks = ways.read_given(spec, found, base)
    jobs: dict[str, Job] = {}
    tasks: dict[str, TaskPlan] = {}
    notes: list[str] = []
    for name in spec.every_task:
        tasks[name], said = plan_task(spec, name, base, found, jobs)
        notes += said
    notes += pinning(spec.model, found)
    check_focus(spec, tasks)
    models = dict(plan_models(spec, tasks, found, jobs))
    full = {key: [model.full_row(step) for step in reversed(model.steps)][::-1] for key, model in models.items()}
    plan = Plan(
        spec=spec,
        base=base,
        checkpoint=found,
        tasks=tasks,
        models=models,
        jobs=jobs,
        rows=[row for rows in full.values() for row in rows],
        parts={},
        notes=notes,
    )
    for model in models.values():
        plan.rows.extend(ways.plan(model, spec, masks))
    for question in QUESTIONS:
        question.plan(plan)
    return plan


def plan_task(spec: StudySpec, name: str, base: Path, found: Checkpoint, jobs: dict[str, Job]) -> tuple[TaskPlan, list[str]]:
    key, asked = spec.key_of(name), spec.every_task[name]
    who = f"{name}: " if len(spec.every_task) > 1 else ""
    task, said = read_task(asked, base, spec.seed, key)
    notes = [note if note.startswith(name) else f"{who}{note}" for note in said]
    if isinstance(asked, GlueTask) and asked.glue in UNRELIABLE:
        notes.append(f"{name}: {UNRELIABLE[asked.glue]}")
    splits = splits_of(spec, task, key)
    classes = task_classes(spec, task, found)
    for split in splits.values():
        fold_classes(classes, split)
    if spec.fine_tune is None and task.train is None:
        notes.append(f"{who}no {key}.train: searches use the validation texts, on which they are then judged")
    if spec.fine_tune is not None:
        if task.train is None:
            raise InputError(f"{key}.train: there is nothing to fine-tune on; give the examples to learn from")
        check_learnable(classes, task.train, key)
    grid = spec.effective_size is not None and spec.effective_size.way == "l0"
    if splits[VALIDATION].regression and (spec.prune.l0 is not None or grid):
        why = "L0 keeps the probabilities of classes, and a number has none"
        if len(spec.every_task) == 1:
            raise InputError(f"prune.l0, effective_size: {why}; prune by importance instead")
        notes.append(f"{name}: left out of l0: {why}")
    notes += [f"{who}{note}" for n, split in splits.items() if n not in (TRAIN, SEARCH) for note in one_label_notes(split)]
    data = {n: Job.make(DATA, f"data {who}{n}", {"split": split_digest(split)}) for n, split in splits.items()}
    local = {"source": found.source, "device": spec.model.device}
    text_of = {k: v for k, v in model_params(spec.model, found, None).items() if k != "labels"}
    encoded = {}
    for n, split in splits.items():
        job = Job.make(ENCODE, f"{who}encode {n}", text_of, {"data": data[n]}, local, len(split) // 50)
        encoded[n] = jobs.setdefault(job.key, job)
    plan = TaskPlan(name=name, splits=splits, data=data, encoded=encoded, classes=classes, metric=task.metric)
    return plan, notes


def splits_of(spec: StudySpec, task: Task, key: str) -> dict[str, Split]:
    """Where ways look at labels, they get one half of the validation set and all is judged on the other."""
    for taken in (SEARCH, stored_name(VALIDATION)):  # the latter is what entries of retraining call the validation set
        if taken in task.challenge:
            raise InputError(f"{key}.challenge: a set cannot be called {taken!r}; choose another name")
    judged = {VALIDATION: task.validation}
    if spec.halved:
        if len(task.validation) < 4:
            raise InputError(f"{key}.validation: too few examples for two halves; set judge: paper")
        one, other = halves(task.validation, spec.seed)
        judged = {VALIDATION: other, SEARCH: one}
    elif spec.looks_at_labels:
        judged[SEARCH] = task.validation
    return {**({TRAIN: task.train} if task.train else {}), **judged, **task.challenge}


def task_classes(spec: StudySpec, task: Task, found: Checkpoint) -> tuple[str, ...]:
    named = spec.model.labels
    if named and not spec.fine_tune and len(named) != found.config.num_labels:
        raise InputError(f"model.labels: {len(named)} names for a checkpoint of {found.config.num_labels} classes")
    return tuple(named or (classes_of(task) if spec.fine_tune else class_names(found.config)))


def plan_models(
    spec: StudySpec, tasks: Mapping[str, TaskPlan], found: Checkpoint, jobs: dict[str, Job]
) -> Iterator[tuple[tuple[str, int], ModelPlan]]:
    local = {"source": found.source, "device": spec.model.device}
    seeds = spec.fine_tune.seeds if spec.fine_tune else (0,)
    for seed in seeds:
        for name, task in tasks.items():
            several = [name] * (len(tasks) > 1) + [str(seed)] * (len(seeds) > 1)
            who = f"{' '.join(several)}: " if several else ""
            labels = task.classes if spec.model.labels or spec.fine_tune else None
            params = model_params(spec.model, found, labels)
            settings: FineTune | None = None
            tuned: dict[str, Job] = {}
            steps: tuple[int, ...] = (0,)
            if spec.fine_tune is not None:
                settings = spec.fine_tune.of(name, seed).resolved(len(task.splits[TRAIN]))
                job = tuning_job(task, settings, params, local, who)
                tuned, steps = {"fine_tune": jobs.setdefault(job.key, job)}, settings.kept
            yield (
                (name, seed),
                ModelPlan(
                    task=task,
                    tuning=seed,
                    who=who,
                    params=params,
                    local=local,
                    steps=steps,
                    settings=settings,
                    tuned=tuned,
                    jobs=jobs,
                    sample=spec.sample,
                    seed=spec.seed,
                ),
            )


def check_focus(spec: StudySpec, tasks: Mapping[str, TaskPlan]) -> None:
    """The cases and sets that a study names must be there."""
    challenge = {n: t.splits[n] for t in tasks.values() for n in t.datasets if n != VALIDATION}
    known = [str(c) for s in challenge.values() if s.cases is not None for c in s.cases.unique()]
    for case in spec.focus:
        if case not in known:
            there = f" The cases are: {', '.join(known)}." if known else " No challenge set has cases: give it a case column."
            raise InputError(f"focus: there is no case {case!r}.{nearest(case, known) or there}")


def one_label_notes(split: Split) -> Iterator[str]:
    """A case whose answers are all the same measures how often that answer is given."""
    if split.cases is None:
        if split.frame["label"].nunique() == 1:
            yield f"{split.name}: every example is {split.frame['label'].iloc[0]!r}; accuracy there is the recall of that label"
        return
    labels = split.frame.groupby("case")["label"].nunique()
    if (labels == 1).any():
        yield f"{split.name}: {int((labels == 1).sum())} of {len(labels)} cases hold one label each; accuracy is its recall"
