"""Masks from files, judged and compared like any others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corewood.errors import InputError
from corewood.model.mask import Mask
from corewood.model.mask_files import read_masks
from corewood.spec import StudySpec
from corewood.study.entries import write_masks
from corewood.study.job import Kind, Work
from corewood.study.models import Checkpoint, ModelPlan
from corewood.study.subnetwork import GIVEN, Subnetwork
from corewood.untrusted import user_path


def read(spec: StudySpec, checkpoint: Checkpoint, base: Path) -> dict[str, Mask]:
    """Name -> mask, checked against the model before anything runs."""
    if spec.prune.given is None:
        return {}
    found = read_masks(user_path(spec.prune.given.path, base, "prune.given.path"), heads=checkpoint.heads)
    for name, mask in found.items():
        if mask.heads.shape != (checkpoint.layers, checkpoint.heads):
            shape = " x ".join(map(str, mask.heads.shape))
            raise InputError(
                f"prune.given.path: {name} is a mask of {shape} heads, the model has {checkpoint.layers} x {checkpoint.heads}"
            )
    return dict(sorted(found.items()))  # the order in which keys hold them


def plan(model: ModelPlan, masks: dict[str, Mask]) -> list[Subnetwork]:
    """Masks of one size are compared with each other, as the searches of one sparsity are."""
    if not masks:
        return []
    content = {name: [mask.heads.astype(int).tolist(), mask.mlps.astype(int).tolist()] for name, mask in masks.items()}
    job, stand_in = model.job(MASKS, "given masks", {"masks": content}, {}), model.spec.ablate
    predictions = model.predict(model.last, "given masks", job, stand_in, len(masks))
    rows = []
    for place, (name, mask) in enumerate(masks.items()):
        facts: dict[str, Any] = {"target": round(1 - float(mask.vector.mean()), 4), "seed": place, "place": place}
        facts |= {"masks": job, "stand_in": stand_in, "predictions": predictions}
        rows.append(model.row(name=f"given-{name}", way=GIVEN, **facts))
    return rows


def do_given(work: Work) -> dict[str, Any]:
    masks = [Mask(heads, mlps) for heads, mlps in work.job.params["masks"].values()]
    write_masks(masks, work.folder)
    return {"units": [len(mask) for mask in masks]}


MASKS = Kind("given", 2, "take given masks", "second", 0.01, do_given, cpu=True)
KINDS = (MASKS,)
