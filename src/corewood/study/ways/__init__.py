"""The ways of looking for subnetworks: each has its part of the plan and its job."""

from __future__ import annotations

from corewood.model.mask import Mask
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import Subnetwork
from corewood.study.ways import core, given, importance, l0, magnitude, random

WAYS = (l0, importance, magnitude, random, core, given)


def plan(model: ModelPlan, masks: dict[str, Mask]) -> list[Subnetwork]:
    """All subnetworks of one model; ways that take their sizes from another come after it. `masks` are the given ones."""
    searched = l0.plan(model)
    found = [*searched, *l0.competing(model, searched), *importance.plan(model, searched), *magnitude.plan(model, searched)]
    return [*found, *random.plan(model, found), *core.plan(model, searched), *given.plan(model, masks)]
