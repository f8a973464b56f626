"""How fast a subnetwork of each size is, beside its full model: measured, as the smaller model that would be shipped."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from corewood.model.slim import can_slim, subnetwork
from corewood.study.entries import read_masks
from corewood.study.job import Job, Kind, Work
from corewood.study.models import VALIDATION, Plan
from corewood.study.results import Question, Results, searched
from corewood.study.subnetwork import PINNED, Subnetwork

TEXTS, ROUNDS = 32, 7  # texts in one batch, each time; all take turns, so that a busy moment counts for all
STAND_INS = ("mean", "zero")  # those that a smaller model can hold
ABOUT = ("task", "tuning", "way", "prune", "target")
Jobs = dict[tuple[str, int], Job]


def plan(plan: Plan, _wanted: None) -> Jobs:
    """One job a model: the first subnetwork of each way and size stands for all of them."""
    jobs = {}
    for model in plan.models.values():
        first: dict[tuple[Any, ...], Subnetwork] = {}
        for row in plan.rows:
            if row.model == model.key and searched(row) and row.way not in PINNED and row.stand_in in STAND_INS:
                first.setdefault(tuple(getattr(row, name) for name in ABOUT), row)
        if not first:
            continue
        params = {"measured": {row.name: [row.place, row.stand_in] for row in first.values()}}
        inputs = {f"search {row.name}": row.masks for row in first.values() if row.masks}
        inputs |= {"reference": model.reference(model.last), "encoded": model.task.encoded[VALIDATION]}
        work = TEXTS * ROUNDS * (1 + len(first))
        jobs[model.key] = model.job_at(model.last, SPEED, "measure speed", params, inputs, work)
    return jobs


def do_speed(work: Work) -> dict[str, Any]:
    model, texts, means = work.model(), work.encoded(), work.means()
    rows = np.argsort(texts.lengths, kind="stable")
    middle = np.sort(rows[max(0, (len(rows) - TEXTS) // 2) :][:TEXTS])  # texts of about the usual length
    batch = texts.batch(middle, model.device)
    runs = {"full": partial(subnetwork, model, model.units.full())}
    for name, (place, stand_in) in work.job.params["measured"].items():
        assert can_slim(stand_in)
        runs[name] = partial(subnetwork, model, read_masks(work.input(f"search {name}"))[place], stand_in, means)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with torch.inference_mode():
        for turn in range(ROUNDS + 1):
            for done, (name, opened) in enumerate(runs.items()):
                with opened() as call:
                    started = time.perf_counter()
                    call(**batch).logits.cpu()  # waits for a GPU
                    if turn:  # the first turn warms up
                        seconds[name].append(time.perf_counter() - started)
                work.progress(turn * len(runs) + done + 1, (ROUNDS + 1) * len(runs))
    return {"milliseconds": {name: 1000 * float(np.median(values)) / len(middle) for name, values in seconds.items()}}


def speed_table(results: Results) -> pd.DataFrame | None:
    """One row per way and size: milliseconds a text, of a batch on one thread, and how many times as fast as the full model."""
    planned: Jobs = results.plan.parts.get("speed") or {}
    rows = []
    for key, job in planned.items():
        taken = results.entry(job).meta["milliseconds"] if results.there(job) else {}
        for row in results.rows:
            if row.model == key and searched(row) and row.name in taken:
                facts = {name: getattr(row, name) for name in ABOUT}
                times = {"milliseconds": taken[row.name], "full_milliseconds": taken["full"]}
                rows.append({**facts, **times, "times": taken["full"] / taken[row.name]})
    return pd.DataFrame(rows) if rows else None


SPEED = Kind("speed", 1, "measure speed", "forward", 1.0, do_speed)
QUESTION = Question("speed", lambda r: {"speed": speed_table(r)}, plan, (SPEED,))
