"""Magnitude pruning of single weights: to a threshold, to a size, or to as many as another way's masks keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from safetensors.numpy import save_file

from corewood.model.weights import unit_shares, unit_weights
from corewood.prune.magnitude import magnitude_search, weight_judge
from corewood.spec import Magnitude
from corewood.study.entries import read_masks, write_weights
from corewood.study.job import Kind, Work
from corewood.study.models import SEARCH, ModelPlan
from corewood.study.subnetwork import MAGNITUDE, Subnetwork
from corewood.study.ways.importance import remarks


def plan(model: ModelPlan, l0: Sequence[Subnetwork]) -> list[Subnetwork]:
    rows = []
    for settings in model.spec.prune.magnitude:
        rows += [pruned(model, settings, row) for row in l0] if settings.like else [pruned(model, settings)]
    return rows


def pruned(model: ModelPlan, settings: Magnitude, like: Subnetwork | None = None) -> Subnetwork:
    task, who, name = model.task, "magnitude pruning", MAGNITUDE
    facts: dict[str, Any] = {"target": settings.sparsity or 0.0}
    params = {"settings": settings.params("like"), "metric": task.metric}
    inputs = {"data": task.data[SEARCH], "encoded": task.encoded[SEARCH]}
    if like is not None:
        assert like.masks is not None
        inputs["like"] = like.masks
        size = f"{100 * like.target:g}"
        who, name = f"magnitude like L0 {size} % seed {like.seed}", f"magnitude-{size}-s{like.seed}"
        facts = {"target": like.target, "seed": like.seed}
    job = model.job_at(model.last, PRUNING, who, params, inputs, 8 * len(task.splits[SEARCH]))
    predictions = model.predict(model.last, name, job)
    return model.row(name=name, way=MAGNITUDE, prune="weights", **facts, masks=job, predictions=predictions)


def do_magnitude(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    judge = weight_judge(model, work.encoded(), work.gold(model), params["metric"])
    settings = Magnitude(**params["settings"])
    keep = unit_weights(model, read_masks(work.input("like"))[0]) if "like" in work.job.inputs else None
    found = magnitude_search(model, judge, settings, keep, work.progress)
    heads, mlps = unit_shares(model, found.mask)
    write_weights(found.mask, work.folder)
    save_file({"heads": heads, "mlps": mlps}, work.folder / "shares.safetensors")
    found.rounds.to_parquet(work.folder / "rounds.parquet", index=False)
    sized = keep is not None or settings.sparsity is not None
    notes = remarks(work.job.title, len(found.mask), found.mask.total, found.rounds, sized)
    if not sized and len(found.rounds) > settings.most_rounds and found.rounds["passed"].iloc[-1]:
        passed = f"all {settings.most_rounds} rounds passed"
        notes.append(f"{work.job.title}: {passed}; most_rounds ended the search, and not the threshold")
    return {"notes": notes, "weights": len(found.mask), "shared": len(found.mask), "total": found.mask.total}


PRUNING = Kind("magnitude", 2, "prune by magnitude", "forward", 1.0, do_magnitude)
KINDS = (PRUNING,)
