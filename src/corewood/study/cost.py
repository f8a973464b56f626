"""What a study will cost: a few steps of each kind, measured now, times the work that is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.task import Split
from corewood.model.load import Model, load
from corewood.model.reference import reference
from corewood.prune.l0 import State, frozen, step
from corewood.study.job import Job
from corewood.study.plan import Plan

EXAMPLES = 32
ROUNDS = 3
REUSED = 0.6  # share of a forward pass that an ablation costs; bench/ablate.py
EAGER = 3.0  # forward passes that reading one example's attention costs


@dataclass(frozen=True)
class Cost:
    """`seconds` for all jobs, and the measured steps in seconds per example."""

    seconds: float
    forward: dict[str, float]  # by dataset, one thread
    search: float  # one step of a search, forward and back to the gates, one thread
    train: float | None  # one step of fine-tuning, with its threads


def estimate(plan: Plan, jobs: Sequence[Job], workers: int) -> Cost:
    """Fine-tuning runs alone; everything else is shared by the workers."""
    spec = plan.spec
    local = plan.jobs[0].local
    model = load(
        local["source"],
        plan.classes if spec.fine_tune else spec.model.labels,
        pad_token=spec.model.pad_token,
        revision=spec.model.revision,
        max_length=spec.model.max_length,
        device=local["device"],
        new_head=spec.fine_tune is not None,
        check=False,
    )
    texts = {name: some_texts(model, split) for name, split in plan.splits.items()}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        forward = {name: forward_pace(model, examples) for name, examples in texts.items()}
        sampled = texts.get("train", texts["validation"])
        search = search_pace(model, sampled, plan)
        train = None
        if spec.fine_tune is not None:
            torch.set_num_threads(spec.fine_tune.threads)
            train = train_pace(model, texts["train"])
    finally:
        torch.set_num_threads(before)
    names = {job.key: name for name, job in plan.data.items()}
    names |= {job.key: names[job.inputs["data"][1]] for job in plan.jobs if job.kind == "encode"}
    total = 0.0
    for job in jobs:
        where = names.get(job.inputs.get("encoded", job.inputs.get("data", ("", "")))[1], "validation")
        pace = {
            "encode": 0.01 * forward[where],
            "fine_tune": train or 0.0,
            "search": search,
            "ablate": REUSED * forward[where],
            "attention": EAGER * forward[where],
        }.get(job.kind, forward[where])
        total += job.work * pace / (1 if job.kind == "fine_tune" else workers)
    return Cost(total, forward, search, train)


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
    halves = np.array_split(np.argsort(examples.lengths, kind="stable"), 2)

    @torch.inference_mode()
    def work() -> None:
        for half in halves:
            model.net(**examples.batch(half, model.device))

    return pace(work, len(examples))


def search_pace(model: Model, examples: Encoded, plan: Plan) -> float:
    settings = plan.spec.search.runs()[0]
    shared = reference(model, examples)
    state = State.start(len(model.units), settings, 0)
    rows = np.argsort(examples.lengths, kind="stable")[len(examples) // 4 :][: max(2, len(examples) // 2)]  # of middling length
    with frozen(model, settings.dropout):
        return pace(lambda: step(model, examples, rows, shared, settings, 0, plan.spec.ablate, state), len(rows))


def train_pace(model: Model, examples: Encoded) -> float:
    batch = examples.batch(np.arange(len(examples)), model.device)
    labels = torch.zeros(len(examples), dtype=torch.long, device=model.device)
    try:
        model.net.train()
        return pace(lambda: model.net(**batch, labels=labels).loss.backward(), len(examples))
    finally:
        model.net.eval()
        model.net.zero_grad(set_to_none=True)
