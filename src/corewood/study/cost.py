"""What a study will cost: a few steps of each kind, measured now, times the work that is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.task import Split
from corewood.model.load import Model, load
from corewood.model.reference import reference
from corewood.prune.l0 import State, frozen, step
from corewood.spec import L0, Ablation, FineTune
from corewood.study.base import Plan
from corewood.study.job import Job
from corewood.study.lottery import LotteryPlan
from corewood.study.plan_core import CorePlan

EXAMPLES = 32
ROUNDS = 3
REUSED = 0.6  # share of a forward pass that an ablation costs; bench/ablate.py
EAGER = 3.0  # forward passes that reading one example's attention costs
MAP = 0.01  # seconds that one generated map costs a pattern classifier


@dataclass(frozen=True)
class Cost:
    """`seconds` for all jobs, and the measured steps in seconds per example."""

    seconds: float
    forward: dict[str, float]  # by dataset, one thread
    search: float | None  # one step of a search, forward and back to the gates, one thread
    train: float | None  # one step of fine-tuning, with its threads; of several tasks the slowest


@dataclass(frozen=True)
class Part:
    """What is measured together: one classifier and its texts."""

    classes: Sequence[str] | None  # of a new classifier, or as the checkpoint has them
    splits: Mapping[str, Split]  # by their names in the plan
    train: str  # the split that training and searches read
    fine_tune: FineTune | None
    search: L0 | None
    ablate: Ablation


def parts_of(plan: Plan) -> list[Part]:
    if isinstance(plan, LotteryPlan):
        spec = plan.spec
        search = spec.methods.runs()[0] if spec.methods else None
        mine = {task: {n: s for n, s in plan.splits.items() if n.startswith(f"{task}/")} for task in spec.tasks}
        return [Part(plan.classes[t], splits, f"{t}/train", spec.tuning(t), search, "mean") for t, splits in mine.items()]
    assert isinstance(plan, CorePlan)
    core = plan.spec
    classes = plan.classes if core.fine_tune else core.model.labels
    train = "train" if "train" in plan.splits else "validation"
    return [Part(classes, plan.splits, train, core.fine_tune, core.search.runs()[0], core.ablate)]


def estimate(plan: Plan, jobs: Sequence[Job], workers: int) -> Cost:
    """Training with several threads runs alone; everything else is shared by the workers."""
    forward: dict[str, float] = {}
    search: dict[str, float] = {}
    train: dict[str, float] = {}
    before = torch.get_num_threads()
    try:
        for part in parts_of(plan):
            measure(plan, part, forward, search, train)
    finally:
        torch.set_num_threads(before)
    names = {job.key: name for name, job in plan.data.items()}
    names |= {job.key: names[job.inputs["data"][1]] for job in plan.jobs if job.kind == "encode"}
    total = 0.0
    for job in jobs:
        where = names.get(job.inputs.get("encoded", job.inputs.get("data", ("", "")))[1], next(iter(forward)))
        pace = {
            "encode": 0.01 * forward[where],
            "fine_tune": train.get(where, 0.0),
            "retrain": train.get(where, 0.0),
            "search": search.get(where, 0.0),
            "ablate": REUSED * forward[where],
            "attention": EAGER * forward[where],
            "tickets": 0.0,
            "pattern_classifier": MAP,
        }.get(job.kind, forward[where])
        total += job.work * pace / (1 if job.local.get("threads", 1) > 1 else workers)
    return Cost(total, forward, max(search.values(), default=None), max(train.values(), default=None))


def measure(plan: Plan, part: Part, forward: dict[str, float], search: dict[str, float], train: dict[str, float]) -> None:
    """Seconds per example, by the name of the split."""
    spec = plan.spec
    local = plan.jobs[0].local
    model = load(
        local["source"],
        part.classes,
        pad_token=spec.model.pad_token,
        revision=spec.model.revision,
        max_length=spec.model.max_length,
        device=local["device"],
        new_head=part.fine_tune is not None,
        check=False,
    )
    texts = {name: some_texts(model, split) for name, split in part.splits.items()}
    torch.set_num_threads(1)
    forward |= {name: forward_pace(model, examples) for name, examples in texts.items()}
    if part.search is not None:
        search[part.train] = search_pace(model, texts[part.train], part.search, part.ablate)
    if part.fine_tune is not None:
        torch.set_num_threads(part.fine_tune.threads)
        train[part.train] = train_pace(model, texts[part.train])


def some_texts(model: Model, split: Split) -> Encoded:
    frame = split.frame.sample(min(len(split), EXAMPLES), random_state=0)
    return encode(Split(split.name, frame, split.labels, split.fold), model.tokenizer, model.max_length)


def pace(work: Callable[[], object], examples: int) -> float:
    """Seconds per example: once to warm up, then the median."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) / examples


def forward_pace(model: Model, examples: Encoded) -> float:
    """In two halves of similar length, about as evaluation has them."""
    halves = np.array_split(np.argsort(examples.lengths, kind="stable"), min(2, len(examples)))

    @torch.inference_mode()
    def work() -> None:
        for half in halves:
            model.net(**examples.batch(half, model.device))

    return pace(work, len(examples))


def search_pace(model: Model, examples: Encoded, settings: L0, ablate: Ablation) -> float:
    shared = reference(model, examples)
    state = State.start(len(model.units), settings, 0, len(examples))
    rows = np.argsort(examples.lengths, kind="stable")[len(examples) // 4 :][: max(2, len(examples) // 2)]  # of middling length
    with frozen(model, settings.dropout):
        return pace(lambda: step(model, examples, rows, shared, settings, 0, ablate, state), len(rows))


def train_pace(model: Model, examples: Encoded) -> float:
    batch = examples.batch(np.arange(len(examples)), model.device)
    kind = torch.float32 if len(model.labels) == 1 else torch.long
    labels = torch.zeros(len(examples), dtype=kind, device=model.device)
    try:
        model.net.train()
        return pace(lambda: model.net(**batch, labels=labels).loss.backward(), len(examples))
    finally:
        model.net.eval()
        model.net.zero_grad(set_to_none=True)
