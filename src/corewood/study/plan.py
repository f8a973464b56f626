"""What a study stands for: models x ways x questions as jobs, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from corewood.data.encode import unknown_share
from corewood.data.labels import classes_of, fold_classes
from corewood.data.named import read_task
from corewood.data.task import Split, Task, halves
from corewood.errors import InputError, nearest
from corewood.model.checkpoint import check_head, class_names
from corewood.model.precision import has_bfloat16
from corewood.spec import GlueTask, StudySpec, kept_units
from corewood.spec.study import CHALLENGE, RESERVED
from corewood.study import ways
from corewood.study.entries import stored_name
from corewood.study.job import Job
from corewood.study.models import (
    DATA,
    ENCODE,
    FINE_TUNE,
    SEARCH,
    TRAIN,
    VALIDATION,
    WATCH,
    Checkpoint,
    ModelPlan,
    Plan,
    TaskPlan,
    read_checkpoint,
    split_digest,
    tuning_params,
)
from corewood.study.questions import QUESTIONS

MOSTLY = 0.5  # share of unknown tokens that is told
UNRELIABLE = {"wnli": "WNLI's training and validation sets hold like sentences with opposite labels; results are unreliable"}


def make_plan(spec: StudySpec, base: Path, bfloat16: bool | None = None) -> Plan:
    """In the order of doing: what many wait for first. Paths in the study are relative to `base`.

    `bfloat16`: whether jobs run on GPUs that have it; None: whether those of this machine do.
    """
    found = read_checkpoint(spec.model, base, has_bfloat16() if bfloat16 is None else bfloat16)
    said = check_head(found.source, spec.model.revision, spec.model.checkpoint, spec.fine_tune is not None)
    for key, wanted in (("prune.l0", spec.prune.l0), ("effective_size", spec.effective_size)):
        for sparsity in wanted.sparsity if wanted else ():
            kept_units(len(found.units), sparsity, f"{key}.sparsity")
    if spec.prune.l0 is not None:
        ways.l0.check_pinned(spec.prune.l0, found.units)
    masks = ways.given.read(spec, found, base)
    plan = Plan(spec=spec, base=base, checkpoint=found, notes=said)
    if spec.model.precision == "auto" and found.precision != "float32":
        hint = f"write model.precision: {found.precision} into the study to find these results from a machine without such GPUs"
        plan.notes.append(f"model.precision: {found.precision}, as the GPUs have it; {hint}")
    plan.tasks.update((name, plan_task(plan, name)) for name in spec.every_task)
    if spec.model.revision is None and not Path(found.source).is_dir():
        who = f"model.revision: {found.source} is not pinned"
        plan.notes.append(f"{who}; give a revision, or a later run may mix two versions of it")
    check_focus(plan)
    plan.models.update((model.key, model) for model in plan_models(plan))
    found_by_ways = [row for model in plan.models.values() for row in ways.plan(model, masks)]  # first: most of the work waits
    plan.rows.extend(row for model in plan.models.values() for row in model.full_rows())
    plan.rows.extend(found_by_ways)
    for question in QUESTIONS:
        key = question.key or question.name
        wanted = getattr(spec, key, None)
        if wanted is not None or key not in StudySpec.model_fields:  # those without a key ask by themselves
            plan.parts[question.name] = question.plan(plan, wanted)
    return plan


def plan_task(plan: Plan, name: str) -> TaskPlan:
    spec, found = plan.spec, plan.checkpoint
    key, asked = spec.key_of(name), spec.every_task[name]
    who = f"{name}: " if len(spec.every_task) > 1 else ""
    task, said = read_task(asked, plan.base, spec.seed, key)
    notes = [note if note.startswith(name) else f"{who}{note}" for note in said]
    if isinstance(asked, GlueTask) and asked.glue in UNRELIABLE:
        notes.append(f"{name}: {UNRELIABLE[asked.glue]}")
    splits = splits_of(spec, task, key)
    classes = task_classes(spec, task, found)
    for split in splits.values():
        fold_classes(classes, split)
    if spec.fine_tune is not None:
        check_learnable(classes, task.train, key)
    elif task.train is None:
        notes.append(f"{who}no {key}.train: searches use the validation texts, on which they are then judged")
    grid = spec.effective_size is not None and spec.effective_size.way == "l0"
    if splits[VALIDATION].regression and (spec.prune.l0 is not None or grid):
        why = "L0 keeps the probabilities of classes, and a number has none"
        if len(spec.every_task) == 1:
            raise InputError(f"prune.l0, effective_size: {why}; prune by importance instead")
        notes.append(f"{name}: left out of l0: {why}")
    notes += [f"{who}{note}" for n, split in splits.items() if n not in (TRAIN, SEARCH) for note in one_label_notes(split)]
    notes[:0] = [f"{who}{note}" for split in splits.values() for note in unknown_notes(split, found)]
    plan.notes.extend(notes)
    data = {n: Job.make(DATA, f"data {who}{n}", {"split": split_digest(split)}) for n, split in splits.items()}
    encoded = {}
    for n, split in splits.items():
        job = Job.make(ENCODE, f"{who}encode {n}", found.encoding, {"data": data[n]}, found.local, len(split) // 50)
        encoded[n] = plan.jobs.setdefault(job.key, job)
    facts: dict[str, Any] = {"classes": classes, "metric": task.metric, "also": tuple(task.also)}
    return TaskPlan(name=name, who=who, splits=splits, data=data, encoded=encoded, **facts)


def check_learnable(classes: tuple[str, ...], train: Split | None, key: str) -> None:
    if train is None:
        raise InputError(f"{key}.train: there is nothing to fine-tune on; give the examples to learn from")
    if len(classes) < 2 and not train.regression:
        raise InputError(
            f"{key}.train: every example is {classes[0]!r}, which leaves nothing to learn; where labels are numbers, the task "
            "takes metric: pearson"
        )


def splits_of(spec: StudySpec, task: Task, key: str) -> dict[str, Split]:
    """Where ways look at labels, they get one half of the validation set and all is judged on the other."""
    for taken in (SEARCH, stored_name(VALIDATION)):  # the latter is what entries of retraining call the validation set
        if taken in {**task.challenge, **task.also}:
            raise InputError(f"{key}.challenge: a set cannot be called {taken!r}; choose another name")
    judged = {VALIDATION: task.validation}
    if spec.halved:
        if len(task.validation) < 4:
            raise InputError(f"{key}.validation: too few examples for two halves; set judge: paper")
        one, other = halves(task.validation, spec.seed)
        judged = {VALIDATION: other, SEARCH: one}
    elif spec.looks_at_labels:
        judged[SEARCH] = task.validation
    return {**({TRAIN: task.train} if task.train else {}), **judged, **task.also, **task.challenge}


def task_classes(spec: StudySpec, task: Task, found: Checkpoint) -> tuple[str, ...]:
    named = spec.model.labels
    if named and not spec.fine_tune and len(named) != found.config.num_labels:
        raise InputError(f"model.labels: {len(named)} names for a checkpoint of {found.config.num_labels} classes")
    return tuple(named or (classes_of(task) if spec.fine_tune else class_names(found.config)))


def plan_models(plan: Plan) -> Iterator[ModelPlan]:
    spec, found = plan.spec, plan.checkpoint
    seeds = spec.fine_tune.seeds if spec.fine_tune else (0,)
    for seed in seeds:
        for name, task in plan.tasks.items():
            several = [name] * (len(plan.tasks) > 1) + [str(seed)] * (len(seeds) > 1)
            who = f"{' '.join(several)}: " if several else ""
            labels = list(task.classes) if spec.model.labels or spec.fine_tune else None
            params = {**found.encoding, "labels": labels}
            facts: dict[str, Any] = {"tuning": seed, "who": who, "params": params, "local": found.local}
            model = ModelPlan(spec=spec, task=task, precision=found.precision, jobs=plan.jobs, **facts)
            yield fine_tuned(model) if spec.fine_tune else model


def fine_tuned(model: ModelPlan) -> ModelPlan:
    device, _, number = str(model.local["device"]).partition(":")
    if int(number or 0) > 0:
        raise InputError(
            f"model.device: training runs on the first GPU it sees; say device: {device} and CUDA_VISIBLE_DEVICES={number}"
        )
    task = model.task
    assert model.spec.fine_tune is not None
    settings = model.spec.fine_tune.of(task.name, model.tuning).resolved(len(task.splits[TRAIN]))
    params = {**model.params, "settings": tuning_params(settings)}
    inputs = {"data": task.data[TRAIN], "encoded": task.encoded[TRAIN]}
    title, work = f"fine-tune {settings.last} steps", settings.last * settings.batch
    if settings.watch:
        inputs |= {f"{WATCH}{n}": task.encoded[n] for n in task.datasets}
        work += len(settings.watched) * sum(len(task.splits[n]) for n in task.datasets) // 3  # forward alone
        settings = settings.model_copy(update={"watch": None})  # tickets are retrained without looking
    job = model.job(FINE_TUNE, title, params, inputs, work, threads=settings.threads)
    return replace(model, steps=settings.kept, settings=settings, tuned={"fine_tune": job})


def check_focus(plan: Plan) -> None:
    """The cases and sets that a study names must be there."""
    challenge = [t.splits[n] for t in plan.tasks.values() for n in t.datasets if n != VALIDATION]
    known = [str(case) for split in challenge if split.cases is not None for case in split.cases.unique()]
    for name in plan.spec.focus:
        if name in known:
            raise InputError(f"focus.{name}: is what a case is called; choose another name for the list")
    sets = [n for t in plan.tasks.values() for n in t.datasets if n != VALIDATION]
    taken = next((name for name in (*known, *sets) if name in (*RESERVED, *(plan.spec.focus or (CHALLENGE,)))), None)
    if plan.spec.effective_size is not None and taken is not None:
        raise InputError(f"effective_size: {taken!r} is what one of its own sets is called; rename that case or challenge set")
    for case in plan.spec.focused:
        if case not in known:
            there = f" The cases are: {', '.join(known)}." if known else " No challenge set has cases: give it a case column."
            raise InputError(f"focus: there is no case {case!r}.{nearest(case, known) or there}")


def unknown_notes(split: Split, found: Checkpoint) -> Iterator[str]:
    """Texts that the tokenizer does not know are all the same to the model."""
    share = unknown_share(split, found.tokenizer)
    if share > MOSTLY:
        yield (
            f"WARNING: {share:.0%} of the tokens in the texts of {split.name} are unknown to the model's tokenizer "
            f"({found.tokenizer.unk_token}), so that the model cannot tell them apart; is it the tokenizer it was trained with?"
        )


def one_label_notes(split: Split) -> Iterator[str]:
    """A case whose answers are all the same measures how often that answer is given."""
    if split.cases is None:
        if split.frame["label"].nunique() == 1:
            yield f"{split.name}: every example is {split.frame['label'].iloc[0]!r}; accuracy there is the recall of that label"
        return
    labels = split.frame.groupby("case")["label"].nunique()
    if (labels == 1).any():
        yield f"{split.name}: {int((labels == 1).sum())} of {len(labels)} cases hold one label each; accuracy is its recall"
