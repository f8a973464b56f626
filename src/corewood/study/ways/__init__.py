"""The ways of looking for subnetworks: each has its part of the plan and its job."""

from __future__ import annotations

from pathlib import Path

from corewood.model.mask import Mask
from corewood.spec import StudySpec
from corewood.study.models import Checkpoint, ModelPlan
from corewood.study.subnetwork import Subnetwork
from corewood.study.ways import given, importance, l0, magnitude, random

WAYS = (l0, importance, magnitude, random, given)


def read_given(spec: StudySpec, checkpoint: Checkpoint, base: Path) -> dict[str, Mask]:
    return given.read(spec, checkpoint, base)


def plan(model: ModelPlan, spec: StudySpec, masks: dict[str, Mask]) -> list[Subnetwork]:
    """All subnetworks of one model; ways that take their sizes from another come after it."""
    searched = [] if model.task.regression else l0.plan(model, spec)
    found = [*searched, *importance.plan(model, spec, searched), *magnitude.plan(model, spec, searched)]
    return [*found, *random.plan(model, spec, found), *given.plan(model, spec, masks)]
