"""What a study will cost: a few steps of each kind, measured now, times the work that is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.task import Split
from corewood.model.finetune import used_rows
from corewood.model.first_token import first_token
from corewood.model.gates import frozen
from corewood.model.load import Model, load
from corewood.model.precision import autocast, check_precision
from corewood.model.reference import reference
from corewood.prune.exchange import Texts
from corewood.prune.l0 import State, step
from corewood.report import figures, page
from corewood.report.items import SECTIONS, items_of
from corewood.spec import L0, Ablation, FineTune
from corewood.study.job import Job
from corewood.study.kinds import KINDS
from corewood.study.models import ENCODE, Plan, TaskPlan
from corewood.study.processes import cores

TABLES = 8.0  # seconds, about: statistics and the page itself
CHART = 0.3  # and of each chart, and of its files where one process draws them
FILES = {"svg": 0.15, "pdf": 0.05, "png": 0.25}
DRAWN, EXAMPLES = 256, 32  # texts to know the mean length from, and those to run: a batch
ROUNDS = 3  # of each kind of step, after one to warm up; fewer where
ENOUGH = 8.0  # seconds have passed: a large model need not be measured so finely


@dataclass(frozen=True)
class Cost:
    """`seconds` for all jobs and the report, and the measured steps in seconds per example."""

    seconds: float
    report: float  # seconds of these for the tables and the drawing
    forward: dict[str, float]  # by dataset, one thread
    search: float | None  # one step of a search, forward and back to the gates, one thread
    train: float | None  # one step of fine-tuning, with its threads; of several tasks the slowest
    kinds: dict[str, float]  # seconds, by kind of job
    each: dict[str, float] = field(default_factory=dict)  # seconds, by key of a job, on one worker


def estimate(plan: Plan, jobs: Sequence[Job], workers: int) -> Cost:
    """Training with several threads runs alone; everything else is shared by the workers."""
    paces: dict[str, dict[str, float]] = {"forward": {}, "search": {}, "train": {}}  # by the key of a split's data
    before = torch.get_num_threads()
    try:
        for task in plan.tasks.values():
            measure(plan, task, paces)
    finally:
        torch.set_num_threads(before)
    split = {job.key: job.key for job in plan.data.values()}
    split |= {job.key: job.inputs["data"][1] for job in plan.jobs.values() if job.kind == ENCODE.name}
    usual = {name: max(values.values(), default=0.0) for name, values in paces.items()}
    kinds = {kind: 0.0 for kind in KINDS if any(job.kind == kind for job in jobs)}
    each: dict[str, float] = {}
    for job in jobs:
        kind = KINDS[job.kind]
        read = split.get(job.inputs.get("encoded", job.inputs.get("data", ("", "")))[1], "")
        pace = 1.0 if kind.pace == "second" else paces[kind.pace].get(read, usual[kind.pace])
        each[job.key] = job.work * kind.factor * pace
        kinds[job.kind] += each[job.key] / (1 if job.local.get("threads", 1) > 1 else workers)
    names = {job.key: name for name, job in plan.data.items()}
    forward = {names[key]: pace for key, pace in paces["forward"].items()}
    report = drawing(plan)
    return Cost(sum(kinds.values()) + report, report, forward, usual["search"] or None, usual["train"] or None, kinds, each)


@dataclass(frozen=True)
class Needs:
    """What jobs ask of a cluster."""

    jobs: int
    seconds: float  # of one core of this machine
    gpu: float  # of these, seconds that are of use to a GPU
    longest: float  # seconds of the longest job,
    what: str  # and its title
    gigabytes: float  # in the store


def needs(plan: Plan, jobs: Sequence[Job], cost: Cost) -> Needs:
    longest = max(jobs, key=lambda job: cost.each[job.key])
    gpu = sum(cost.each[job.key] for job in jobs if not KINDS[job.kind].cpu)
    room = sum(kept_bytes(plan, job) for job in jobs) / 1e9
    return Needs(len(jobs), sum(cost.each.values()), gpu, cost.each[longest.key], longest.title, room)


def kept_bytes(plan: Plan, job: Job) -> float:
    """About what the result of a job takes: weights of trainings, logits, a bit for each weight of a mask."""
    config = plan.checkpoint.config
    width, layers = int(config.hidden_size), plan.checkpoint.layers
    weights = int(config.vocab_size) * width + layers * 12 * width**2
    if job.kind == "fine_tune":
        settings = job.params["settings"]
        return 4.0 * weights * len({*settings["checkpoints"], settings["steps"]})
    if job.kind == "retrain" and job.params.get("keep"):
        return 4.0 * weights
    if job.kind in ("magnitude", "tickets") and job.params.get("what", "weights") == "weights":
        return layers * 12 * width**2 / 8
    return 20_000 + 4.0 * job.work * max(2, int(config.num_labels))


def drawing(plan: Plan) -> float:
    """Seconds for tables and report, about: by the charts that the study's questions have, for each model where they differ."""
    names = {module: module.__name__.rpartition(".")[2] for module in page.QUESTIONS}
    asked = [module for module, name in names.items() if getattr(plan.spec, name, True) is not None]
    charts = [item for module in asked for item in items_of(module) if not item.table]
    count = sum(len(plan.models) if SECTIONS[item.section] else 1 for item in charts)
    files = sum(FILES[kind] for kind in plan.spec.figures) / min(cores(), figures.MOST)
    return TABLES + count * (CHART + files)


def measure(plan: Plan, task: TaskPlan, paces: dict[str, dict[str, float]]) -> None:
    """Seconds per example, by the data that is read."""
    spec, grid = plan.spec, plan.spec.effective_size
    tuning = spec.fine_tune.of(task.name) if spec.fine_tune else None
    searches = spec.prune.l0 or (grid if grid and grid.way == "l0" else None)
    model = load(
        plan.checkpoint.source,
        task.classes if tuning else spec.model.labels,
        pad_token=spec.model.pad_token,
        revision=spec.model.revision,
        max_length=spec.model.max_length,
        device=spec.model.device,
        precision=plan.checkpoint.precision,
        new_head=tuning is not None,
        check=False,
    )
    texts = {name: some_texts(model, split) for name, split in task.splits.items()}
    torch.set_num_threads(1)
    paces["forward"] |= {task.data[name].key: forward_pace(model, examples) for name, examples in texts.items()}
    learnt = task.data[task.sampled].key
    if searches is not None and not task.regression:
        paces["search"][learnt] = search_pace(model, texts[task.sampled], searches.runs()[0], spec.ablate)
    if tuning is not None:
        torch.set_num_threads(tuning.threads)
        paces["train"][learnt] = train_pace(model, texts[task.sampled], tuning)


def some_texts(model: Model, split: Split) -> Encoded:
    """A batch of about the mean length: batches hold texts of similar length, so this is what one takes on average."""
    frame = split.frame.sample(min(len(split), DRAWN), random_state=0)
    drawn = encode(Split(split.name, frame, split.labels, split.fold), model.tokenizer, model.max_length)
    order = np.argsort(drawn.lengths, kind="stable")
    mean = int(np.searchsorted(drawn.lengths[order], drawn.lengths.mean()))
    first = max(0, min(mean - EXAMPLES // 2, len(order) - EXAMPLES))
    return drawn.take(order[first : first + EXAMPLES])


def pace(work: Callable[[], object], examples: int) -> float:
    """Seconds per example: once to warm up, then the least; first steps are slow until memory is at hand."""
    times: list[float] = []
    while len(times) < 2 or (len(times) <= ROUNDS and sum(times) < ENOUGH):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:]) / examples


def forward_pace(model: Model, examples: Encoded) -> float:
    batch = examples.batch(np.arange(len(examples)), model.device)

    @torch.inference_mode()
    def work() -> None:
        model(**batch)

    with first_token(model):
        return pace(work, len(examples))


def search_pace(model: Model, examples: Encoded, settings: L0, ablate: Ablation) -> float:
    texts = Texts.of(model, examples, reference(model, examples), ablate)
    state = State.start(len(model.units), settings, 0)
    rows, whole = np.arange(len(examples)), settings.model_copy(update={"parts": 1})
    with frozen(model, settings.dropout):
        return pace(lambda: step(texts, rows, whole, 0, state), len(rows))


def train_pace(model: Model, examples: Encoded, settings: FineTune) -> float:
    """The model is another one after it."""
    check_precision(settings.precision, model.device, "fine_tune.precision")
    kind = torch.float32 if len(model.labels) == 1 else torch.long
    batch = examples.batch(np.arange(len(examples)), model.device)
    batch["labels"] = torch.zeros(len(examples), dtype=kind, device=model.device)
    model.net.train()
    with used_rows(model, examples, settings.weight_decay):
        optimiser = torch.optim.AdamW(model.net.parameters(), lr=settings.learning_rate, fused=True)

        def work() -> None:
            with autocast(settings.precision, model.device):
                loss = model.net(**batch).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

        try:
            return pace(work, len(examples))
        finally:
            model.net.eval()
