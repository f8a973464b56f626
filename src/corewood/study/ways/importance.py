"""Importance pruning of heads and MLPs: to a threshold, to a size, or to the size of another way's masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from corewood.prune.importance import importance_search, unit_judge
from corewood.spec import Importance
from corewood.study.entries import read_masks, write_masks
from corewood.study.job import Kind, Work
from corewood.study.models import SEARCH, ModelPlan
from corewood.study.subnetwork import GRID, IMPORTANCE, PRUNE, Subnetwork


def plan(model: ModelPlan, l0: Sequence[Subnetwork]) -> list[Subnetwork]:
    rows = []
    for settings in model.spec.prune.importance:
        if settings.like is None:
            rows += [pruned(model, settings, prune, model.last) for prune in settings.prune]
        else:
            rows += [pruned(model, settings, "both", model.last, like=row) for row in l0]
    return rows


def pruned(
    model: ModelPlan, settings: Importance, prune: str, step: int, question: str = PRUNE, like: Subnetwork | None = None
) -> Subnetwork:
    task, stand_in = model.task, settings.stand_in
    early = f"@{step}" if step != model.last else ""
    size = f"{100 * settings.sparsity:g}" if settings.sparsity else ""
    who = f"importance pruning ({prune}){f' {size} %' if size else ''}{early}"
    name = f"importance-{prune}{f'-{size}' if size else ''}{early}"
    facts: dict[str, Any] = {"prune": prune, "target": settings.sparsity or 0.0, "question": question, "checkpoint": step}
    own = {**settings.params("prune", "like"), "ablate": stand_in}
    params = {"settings": own, "prune": prune, "metric": task.metric}
    inputs = {"data": task.data[SEARCH], "encoded": task.encoded[SEARCH]}
    if stand_in == "mean":
        inputs["reference"] = model.reference(step)
    if like is not None:
        assert like.masks is not None
        inputs["like"] = like.masks
        size = f"{100 * like.target:g}"
        who, name = f"importance like L0 {size} % seed {like.seed}", f"importance-{size}-s{like.seed}"
        facts |= {"target": like.target, "seed": like.seed}
    if question == GRID:
        who, name = f"grid {who}", f"grid-{name}"
    job = model.job_at(step, PRUNING, who, params, inputs, 30 * len(task.splits[SEARCH]))
    predictions = model.predict(step, name, job, stand_in)
    return model.row(name=name, way=IMPORTANCE, **facts, masks=job, stand_in=stand_in, predictions=predictions)


def do_importance(work: Work) -> dict[str, Any]:
    params, model, examples = work.job.params, work.model(), work.encoded()
    settings, gold, means = Importance(**params["settings"]), work.gold(model), work.means()
    judge = unit_judge(model, examples, gold, params["metric"], settings.stand_in, means)
    like = read_masks(work.input("like"))[0] if "like" in work.job.inputs else None
    size = None if like is None else (int(like.heads.sum()), int(like.mlps.sum()))
    found = importance_search(model, examples, gold, judge, settings, params["prune"], size, means, work.progress)
    write_masks([found.mask], work.folder)
    found.rounds.to_parquet(work.folder / "rounds.parquet", index=False)
    found.scores.to_parquet(work.folder / "scores.parquet", index=False)
    sized = size is not None or settings.sparsity is not None
    notes = remarks(work.job.title, len(found.mask), len(model.units), found.rounds, sized)
    return {"notes": notes, "units": vars(model.units)}


def remarks(title: str, kept: int, total: int, rounds: pd.DataFrame, sized: bool) -> list[str]:
    """What a reader must know before trusting the result; `sized` where a size was asked for, and no threshold."""
    if sized:
        return [f"{title}: nothing is left at this size"] if kept == 0 else []
    full, said = float(rounds["score"].iloc[0]), []
    if np.isnan(full):
        said.append("the full model's score is not defined, so nothing can pass a threshold")
    elif full < 0:
        said.append(f"the full model scores {full:.3f}; a share of a score below zero is above it, and little can pass")
    elif full == 0:
        said.append("the full model scores 0, so the threshold holds nothing back")
    if kept == 0:
        said.append("the whole model was pruned away and still passed; what is left is its embeddings and classifier")
    elif kept == total:
        said.append("nothing could be removed within the threshold; every ticket is the full model")
    return [f"{title}: {what}" for what in said]


PRUNING = Kind("importance", 2, "prune by importance", "forward", 1.0, do_importance)
KINDS = (PRUNING,)
