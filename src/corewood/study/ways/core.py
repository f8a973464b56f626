"""The core of the L0 masks: the heads that all of them keep, alone with all MLPs, and with random others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import and_
from typing import Any

import numpy as np

from corewood.errors import JobError
from corewood.model.mask import Mask
from corewood.prune.tickets import RANDOM, around
from corewood.study.entries import read_masks, write_masks
from corewood.study.job import Job, Kind, Work
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import AROUND, CORE, Subnetwork


def shared(model: ModelPlan, searched: Sequence[Subnetwork]) -> Job:
    """The core as a mask: known once all searches are done."""
    inputs = {f"search {row.name}": row.masks for row in searched if row.masks}
    return model.job(SHARED, "core of the L0 masks", {"core": {row.name: row.place for row in searched}}, inputs)


def plan(model: ModelPlan, searched: Sequence[Subnetwork]) -> list[Subnetwork]:
    """`searched` are the rows of the plain L0 searches."""
    wanted = model.spec.prune.core
    if wanted is None or not searched:
        return []
    job, stand_in = shared(model, searched), model.spec.ablate
    predictions = model.predict(model.last, "core alone", job, stand_in)
    alone = model.row(name=CORE, way=CORE, masks=job, stand_in=stand_in, predictions=predictions)
    return [alone, *(filled(model, row, job, draw) for row, draw in product(searched, range(wanted.draws)))]


def filled(model: ModelPlan, like: Subnetwork, core: Job, draw: int) -> Subnetwork:
    """The core, and random others up to the size of a searched mask: a job of its own, as every drawn mask is."""
    assert like.masks is not None
    name = f"{CORE}-{100 * like.target:g}-s{like.seed}-{draw}"
    params = {"draw": draw, "seed": [model.spec.seed, model.tuning, like.seed], "place": like.place}
    job = model.job(FILL, f"core + random-{draw} like {like.name}", params, {"core": core, "like": like.masks})
    facts: dict[str, Any] = {"name": name, "way": AROUND, "ticket": RANDOM, "draw": draw, "masks": job, "place": 0}
    facts |= {"good": like.masks, "good_place": like.place, "beside": {}}
    return replace(like, **facts, predictions=model.predict(model.last, name, job, like.stand_in))


def do_shared(work: Work) -> dict[str, Any]:
    places = work.job.params["core"]
    common = reduce(and_, [read_masks(work.input(f"search {name}"))[place] for name, place in places.items()])
    if not common.heads.any():
        raise JobError(
            f"no head is in all {len(places)} masks of prune.l0: there is no core; ask for fewer or smaller sparsities, or "
            "name units in prune.l0.without"
        )
    write_masks([Mask(common.heads, np.ones_like(common.mlps))], work.folder)
    return {"heads": int(common.heads.sum())}


def do_fill(work: Work) -> dict[str, Any]:
    params, core = work.job.params, read_masks(work.input("core"))[0]
    like = read_masks(work.input("like"))[params["place"]]
    write_masks([around(core, like, params["draw"], params["seed"])], work.folder)
    return {}


SHARED = Kind("core", 1, "find the core", "second", 0.01, do_shared, cpu=True)
FILL = Kind("core_filled", 1, "draw others around the core", "second", 0.01, do_fill, cpu=True)
KINDS = (SHARED, FILL)
