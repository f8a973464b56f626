"""Masks of exactly the size of another, drawn by chance; and the bad ones, of what the other leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from corewood.prune.tickets import RANDOM as BY_CHANCE
from corewood.prune.tickets import super_tickets, unit_ticket, weight_ticket
from corewood.spec import StudySpec
from corewood.study.entries import read_masks, read_weights, write_masks, write_weights
from corewood.study.job import Job, Kind
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import L0, PRUNED, RANDOM, SUPER, Subnetwork
from corewood.study.work import Work


def plan(model: ModelPlan, spec: StudySpec, others: Sequence[Subnetwork]) -> list[Subnetwork]:
    """`others` are the rows of all other ways."""
    rows = []
    for settings in spec.prune.random:
        for row in [other for other in others if other.way == settings.like]:
            for draw in range(settings.draws):
                one = drawn(model, row, BY_CHANCE, draw, spec.seed, f"like {row.name}")
                size = f"-{100 * row.target:g}-s{row.seed}" if row.way == L0 else f"-like-{row.name}"
                one = replace(one, name=f"random{size}-{draw}", way=RANDOM)
                rows.append(replace(one, predictions=model.predict(model.last, one.name, one.masks, one.stand_in)))
    return rows


def drawn(model: ModelPlan, good: Subnetwork, ticket: str, draw: int, seed: int, who: str) -> Subnetwork:
    """A mask beside a good one: a job of its own, so that more of them leave the others as they are."""
    assert good.masks is not None
    seeds = [seed, model.tuning, *([good.seed] if good.way == L0 else [])]
    params: dict[str, Any] = {"what": "weights" if good.of_weights else "units", "ticket": ticket, "draw": draw, "seed": seeds}
    if good.place:
        params["place"] = good.place
    title = f"{model.who}{ticket}{f'-{draw}' if ticket == BY_CHANCE else ''} {who}"
    job = model.add(Job.make(TICKETS, title, params, {"found": good.masks}, model.local))
    own = replace(good, ticket=ticket, draw=draw, masks=job, place=0, predictions={}, beside={}, state=PRUNED)
    return replace(own, good=good.masks, good_place=good.place)


def do_tickets(work: Work) -> dict[str, Any]:
    """One ticket beside a good one; or the super-survivors and their counterparts, in the order good, random, bad."""
    params = work.job.params
    if params["what"] == SUPER:
        masks = super_tickets([read_masks(work.input(name))[0] for name in work.job.inputs], params["seed"])
        write_masks(list(masks.values()), work.folder)
        return {}
    which = params["ticket"], params["draw"], params["seed"]
    if params["what"] == "units":
        write_masks([unit_ticket(read_masks(work.input("found"))[params.get("place", 0)], *which)], work.folder)
        return {}
    good = read_weights(work.input("found"))
    ticket = weight_ticket(good, *which)
    write_weights(ticket, work.folder)
    return {"weights": len(ticket), "shared": ticket.shared(good), "total": good.total}


TICKETS = Kind("tickets", 2, "draw tickets", "second", 0.01, do_tickets)
KINDS = (TICKETS,)
