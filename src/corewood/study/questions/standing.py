"""Where subnetworks stand: the held-out KL of searches beside that of random masks of their exact sizes, and of other ways."""

from __future__ import annotations

from typing import Any

import pandas as pd

from corewood.model.weights import weights_masked
from corewood.prune.l0 import held_out
from corewood.prune.tickets import RANDOM as BY_CHANCE
from corewood.prune.tickets import unit_ticket
from corewood.spec.ways import Prune
from corewood.study.entries import read_masks, read_weights, write_masks
from corewood.study.job import Job, Kind, Work
from corewood.study.models import ModelPlan, Plan
from corewood.study.results import Question, Results
from corewood.study.subnetwork import GIVEN, IMPORTANCE, L0, MAGNITUDE, PRUNE, RANDOM, Subnetwork
from corewood.study.ways.random import random_name, random_seed

DRAWS = 2  # beside each mask of a search: the first that prune.random draws, whether the study asks for those or not
BESIDE = (IMPORTANCE, MAGNITUDE, GIVEN)
Yardsticks = list[tuple[Subnetwork, Job]]


def plan(plan: Plan, _wanted: Prune) -> Yardsticks:
    """One job beside each search, and one for each subnetwork of another way with the target of a search."""
    made = []
    for model in plan.models.values():
        rows = [r for r in plan.rows if r.model == model.key and r.question == PRUNE]
        targets = {r.target for r in rows if r.way == L0}
        made += [(r, job(model, r)) for r in rows if r.way == L0 or (r.way in BESIDE and r.target in targets)]
    return made


def job(model: ModelPlan, row: Subnetwork) -> Job:
    assert row.masks is not None
    params: dict[str, Any] = {"place": row.place, "ablate": row.stand_in}
    title = f"{row.name} on held-out texts"
    if row.way == L0:
        params |= {"draws": DRAWS, "seed": random_seed(model, row)}
        title = f"random masks like {row.name}"
    sampled = model.task.sampled
    texts = len(held_out(min(model.spec.sample, len(model.task.splits[sampled])))[1])
    inputs = {"found": row.masks, "reference": model.reference(row.checkpoint), "encoded": model.task.encoded[sampled]}
    return model.job_at(row.checkpoint, YARDSTICK, title, params, inputs, params.get("draws", 1) * texts)


def do_yardstick(work: Work) -> dict[str, Any]:
    """The KL of random masks of a mask's size, or of the mask itself, on the texts that searches hold out."""
    params, found = work.job.params, work.input("found")
    texts = work.texts(params["ablate"] or "mean")
    held = texts.take(held_out(len(texts))[1])
    if params["ablate"] is None:
        with weights_masked(texts.model, read_weights(found)):
            return {"held": [float(held.kl_of(texts.model.units.full()).mean())]}
    masks = [read_masks(found)[params["place"]]]
    if "draws" in params:
        masks = [unit_ticket(masks[0], BY_CHANCE, draw, params["seed"]) for draw in range(params["draws"])]
    write_masks(masks, work.folder)
    values = []
    for mask in masks:
        values.append(float(held.kl_of(mask).mean()))
        work.progress(len(values), len(masks))
    return {"held": values}


def standing_table(results: Results) -> pd.DataFrame | None:
    """One row per mask."""
    rows: list[dict[str, Any]] = []
    planned: Yardsticks = results.plan.parts.get("standing", [])
    for row, job in planned:
        if row.masks is None or not (results.there(job) and results.there(row.masks)):
            continue
        facts = {"task": row.task, "tuning": row.tuning, "way": row.way, "prune": row.prune, "target": row.target}
        facts |= {"seed": row.seed, "draw": row.draw, "subnetwork": row.name}
        entry, units = results.entry(job), {} if row.of_weights else counts(results, row.masks, row.place)
        searched = row.way == L0
        own = results.entry(row.masks).meta["held"][row.place] if searched else entry.meta["held"][0]
        rows.append({**facts, "heads": None, "mlps": None, **units, "held_kl": own})
        for draw, value in enumerate(entry.meta["held"] if searched else ()):
            facts |= {"way": RANDOM, "draw": draw, "subnetwork": random_name(row, draw)}
            rows.append({**facts, **counts(results, job, draw), "held_kl": value})
    return pd.DataFrame(rows).astype({"heads": float, "mlps": float}) if rows else None


def counts(results: Results, job: Job, place: int) -> dict[str, int]:
    mask = read_masks(results.entry(job))[place]
    return {"heads": int(mask.heads.sum()), "mlps": int(mask.mlps.sum())}


YARDSTICK = Kind("yardstick", 1, "judge random masks", "forward", 0.7, do_yardstick)  # smaller models are faster
QUESTION = Question("standing", lambda r: {"standing": standing_table(r)}, plan, (YARDSTICK,), key="prune")
