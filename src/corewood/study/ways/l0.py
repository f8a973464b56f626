"""L0: searches with every sparsity and every seed, or along a path of sparsities."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

from safetensors.numpy import save_file

from corewood.prune.l0 import Found, State, best_of_starts, l0_search
from corewood.spec import L0 as Settings
from corewood.spec import Searches
from corewood.study.entries import read_reference, write_masks
from corewood.study.job import Kind, Work
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import GRID, L0, PRUNE, Subnetwork

SAVE_EVERY = 20.0  # seconds between the points a search can go on from


def plan(model: ModelPlan) -> list[Subnetwork]:
    wanted = model.spec.prune.l0
    return [] if wanted is None or model.task.regression else searched(model, wanted, model.last)


def searched(model: ModelPlan, wanted: Searches, step: int, question: str = PRUNE) -> list[Subnetwork]:
    """One row per mask; those of the grid that looks for effective sizes have names of their own."""
    early = f"@{step}" if step != model.last else ""
    grid = "grid " if question == GRID else ""
    stand_in = model.spec.ablate
    jobs = []
    for settings, seed in product(wanted.runs(), wanted.seeds):
        size = " to ".join(f"{100 * t:g}" for t in dict.fromkeys((settings.targets[0], settings.targets[-1])))
        title = f"{grid}search {size} % seed {seed}{early}"
        params = {"settings": settings.params(), "seed": seed, "ablate": stand_in}
        inputs = {"reference": model.reference(step), "encoded": model.task.encoded[model.task.sampled]}
        jobs.append((settings, seed, model.job_at(step, SEARCH, title, params, inputs, settings.work)))
    rows = []
    for settings, seed, job in jobs:
        nested, count = len(settings.targets) > 1, len(settings.targets)
        kind = "path" if nested else L0
        who = f"{kind}-{100 * settings.sparsity:g}-s{seed}{early}"
        predictions = model.predict(step, grid + who, job, stand_in, count)
        others = [other for other in model.spec.ablate_beside if question == PRUNE and other != stand_in]
        beside = {other: model.predict(step, f"{who} with {other}", job, other, count) for other in others}
        for place, target in enumerate(settings.targets):
            name = f"{grid.replace(' ', '-')}{kind}-{100 * target:g}-s{seed}{early}"
            facts: dict[str, Any] = {"name": name, "way": L0, "question": question, "checkpoint": step}
            facts |= {"target": target, "nested": nested, "seed": seed, "masks": job, "place": place, "stand_in": stand_in}
            rows.append(model.row(**facts, predictions=predictions, beside=beside))
    return rows


def do_search(work: Work) -> dict[str, Any]:
    params, settings = work.job.params, Settings(**work.job.params["settings"])
    chosen, shared = read_reference(work.input("reference"))
    texts, model = work.encoded().take(chosen), work.model()
    saved_at = time.monotonic()

    def from_start(start: int, seed: int) -> Found:
        scratch = work.store.scratch(work.job.key) / f"state{f'-{start}' if start else ''}.safetensors"
        last = State.load(scratch) if scratch.exists() else None

        def save(state: State) -> None:
            nonlocal saved_at, last
            last = state
            if time.monotonic() - saved_at > SAVE_EVERY:
                state.save(scratch)
                saved_at = time.monotonic()

        def progress(done: int, total: int) -> None:
            work.progress(start * total + done, settings.starts * total)

        found = l0_search(model, texts, shared, settings, seed, params["ablate"], progress, last, save)
        if last is not None and settings.starts > 1:  # the next start may be stopped; this one is not run again
            last.save(scratch)
        return found

    found = best_of_starts(from_start, settings, params["seed"])
    write_masks(found.masks, work.folder)
    save_file({"log_alpha": found.log_alpha}, work.folder / "log_alpha.safetensors")
    found.trajectory.to_parquet(work.folder / "trajectory.parquet", index=False)
    return {"units": [len(mask) for mask in found.masks], "held": list(found.held), "ended": list(found.ended)}


SEARCH = Kind("search", 4, "search subnetworks", "search", 1.0, do_search)
KINDS = (SEARCH,)
