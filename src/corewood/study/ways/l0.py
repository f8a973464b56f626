"""L0: searches with every sparsity and every seed, or along a path of sparsities."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from filelock import Timeout
from safetensors.numpy import save_file

from corewood import seal
from corewood.evaluate.predict import unit_set
from corewood.prune.l0 import Found, State, best_of_starts, descend, l0_search, pins
from corewood.prune.several import pack_size
from corewood.spec import CORE, Competing, Searches
from corewood.spec import L0 as Settings
from corewood.store.shared import claimed
from corewood.store.store import Store
from corewood.study.entries import read_masks, write_masks
from corewood.study.job import Job, Kind, Work
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import GRID, L0, PRUNE, WITH, WITHOUT, Subnetwork
from corewood.study.ways import core

KEY = {WITHOUT: "without", WITH: "with"}  # of prune.l0, and of the job's parameters
EXCHANGES = 5  # raise it when searches that end by themselves find other masks: they are then run anew
SAVE_EVERY = 20.0  # seconds between the points a search can go on from


def plan(model: ModelPlan) -> list[Subnetwork]:
    wanted = model.spec.prune.l0
    return [] if wanted is None or model.task.regression else searched(model, wanted, model.last)


def competing(model: ModelPlan, plain: Sequence[Subnetwork]) -> list[Subnetwork]:
    """The same searches again, without units that the study names, and with some."""
    wanted = model.spec.prune.l0
    asked = {WITHOUT: wanted.without, WITH: wanted.with_units} if wanted is not None and plain else {}
    return [
        row
        for way, units in asked.items()
        if wanted is not None and units
        for row in searched(model, wanted, model.last, way=way, units=units, plain=plain)
    ]


def check_pinned(wanted: Competing, names: Sequence[str]) -> None:
    """The units that a study names must be there, and every size must leave room for them."""
    for way, units in ((WITHOUT, wanted.without), (WITH, wanted.with_units)):
        named = unit_set([unit for unit in units if unit != CORE], names, f"prune.l0.{KEY[way]}")
        for settings in wanted.runs():
            pinned(way, named, names, settings)


def pinned(way: str, units: Collection[str], names: Sequence[str], settings: Settings) -> np.ndarray:
    closed, held = (units, ()) if way == WITHOUT else ((), units)
    return pins(names, closed, held, settings, "prune.l0.")


def searched(
    model: ModelPlan,
    wanted: Searches,
    step: int,
    question: str = PRUNE,
    way: str = L0,
    units: Sequence[str] = (),
    plain: Sequence[Subnetwork] = (),
) -> list[Subnetwork]:
    """One row per mask; those of the grid that looks for effective sizes have names of their own.

    `units` are those that a `way` without or with them leaves out or holds; `plain` are the searches whose core they may be.
    """
    early = f"@{step}" if step != model.last else ""
    grid = "grid " if question == GRID else ""
    stand_in = model.spec.ablate
    own = {KEY[way]: [unit for unit in units if unit != CORE]} if units else {}
    shared = {"core": core.shared(model, plain)} if CORE in units else {}
    apart = f" {KEY[way]} {' + '.join(units) if len(units) < 4 else f'{len(units)} units'}" if units else ""
    jobs = []
    for settings, seed in product(wanted.runs(), wanted.seeds):
        size = " to ".join(f"{100 * t:g}" for t in dict.fromkeys((settings.targets[0], settings.targets[-1])))
        title = f"{grid}search {size} % seed {seed}{apart}{early}"
        params = {"settings": settings.params(), "seed": seed, "ablate": stand_in, **own}
        params |= {"exchanges": EXCHANGES} if settings.auto else {}
        inputs = {"reference": model.reference(step), "encoded": model.task.encoded[model.task.sampled], **shared}
        jobs.append((settings, seed, model.job_at(step, SEARCH, title, params, inputs, settings.work)))
    rows = []
    for settings, seed, job in jobs:
        nested, count = len(settings.targets) > 1, len(settings.targets)
        kind = ("path" if nested else L0) + (f"-{KEY[way]}" if units else "")
        who = f"{kind}-{100 * settings.sparsity:g}-s{seed}{early}"
        predictions = model.predict(step, grid + who, job, stand_in, count)
        others = [other for other in model.spec.ablate_beside if question == PRUNE and other != stand_in]
        beside = {other: model.predict(step, f"{who} with {other}", job, other, count) for other in others}
        for place, target in enumerate(settings.targets):
            name = f"{grid.replace(' ', '-')}{kind}-{100 * target:g}-s{seed}{early}"
            facts: dict[str, Any] = {"name": name, "way": way, "question": question, "checkpoint": step}
            facts |= {"target": target, "nested": nested, "seed": seed, "masks": job, "place": place, "stand_in": stand_in}
            rows.append(model.row(**facts, predictions=predictions, beside=beside))
    return rows


def state_file(work: Work, start: int = 0) -> Path:
    return work.store.scratch(work.job.key) / f"state{f'-{start}' if start else ''}.safetensors"


def alike(one: Job, other: Job) -> bool:
    """Whether two searches differ by their seeds alone, so that they may share batches."""
    same = one.kind == other.kind == SEARCH.name and one.inputs == other.inputs and one.local == other.local
    return same and {**one.params, "seed": 0} == {**other.params, "seed": 0}


def search_ahead(works: Sequence[Work], pack: int | None = None) -> int:
    """The gradient steps of searches that are alike, in shared batches: each goes on from the state that this leaves.

    As many share a batch as the GPU has memory for; on a CPU that is one, and nothing is done. How many were searched.
    """
    first, settings = works[0], Settings(**works[0].job.params["settings"])
    texts = first.texts(first.job.params["ablate"])
    units = texts.model.units
    together = pack or pack_size(texts, settings)
    kept, count = pinned_units(first, units.names, settings), 0
    with ExitStack() as stack:
        mine = []
        for work in works if together > 1 else ():
            with suppress(Timeout):  # another process is at it
                stack.enter_context(claimed(work.store.root / "locks", work.job.key, blocking=False))
                if seal.kept(state_file(work))[0] is None and not work.store.has(work.job.kind, work.job.key):
                    mine.append(work)
        for group in [mine[place : place + together] for place in range(0, len(mine), together)]:
            seeds = [work.job.params["seed"] for work in group]
            begun = [State.start(len(units), settings, seed, kept) for seed in seeds]
            for work, state in zip(group, descend(texts, settings, seeds, begun), strict=True):
                state.save(state_file(work))
            count += len(group)
    return count


def do_search(work: Work) -> dict[str, Any]:
    params, settings = work.job.params, Settings(**work.job.params["settings"])
    texts = work.texts(params["ablate"])
    kept = pinned_units(work, texts.model.units.names, settings)
    saved_at = time.monotonic()

    def from_start(start: int, seed: int) -> Found:
        scratch = state_file(work, start)
        last = State.load(scratch, work.doubt)

        def save(state: State) -> None:
            nonlocal saved_at, last
            last = state
            if time.monotonic() - saved_at > SAVE_EVERY:
                state.save(scratch)
                saved_at = time.monotonic()

        def progress(done: int, total: int) -> None:
            work.progress(start * total + done, settings.starts * total)

        found = l0_search(texts, settings, seed, progress, last, save, kept)
        if last is not None and settings.starts > 1:  # the next start may be stopped; this one is not run again
            last.save(scratch)
        return found

    found = best_of_starts(from_start, settings, params["seed"])
    write_masks(found.masks, work.folder)
    save_file({"log_alpha": found.log_alpha}, work.folder / "log_alpha.safetensors")
    found.trajectory.to_parquet(work.folder / "trajectory.parquet", index=False)
    return {"units": [len(mask) for mask in found.masks], "held": list(found.held), "ended": list(found.ended)}


def pinned_units(work: Work, names: Sequence[str], settings: Settings) -> np.ndarray | None:
    way = next((way for way, key in KEY.items() if key in work.job.params), None)
    return None if way is None else pinned(way, named_units(work.job, work.store), names, settings)


def named_units(job: Job, store: Store) -> set[str]:
    """What a search leaves out or holds; the heads of the core are known by now."""
    core = read_masks(store.get(*job.inputs["core"]))[0] if "core" in job.inputs else ()
    return {*(name for key in KEY.values() for name in job.params.get(key, ())), *(name for name in core if ".H" in name)}


SEARCH = Kind("search", 4, "search subnetworks", "search", 1.0, do_search)
KINDS = (SEARCH,)
