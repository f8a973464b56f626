"""Masks of exactly the size of another, drawn by chance; and the bad ones, of what the other leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from corewood.prune.tickets import RANDOM as BY_CHANCE
from corewood.prune.tickets import super_tickets, unit_ticket, weight_ticket
from corewood.study.entries import read_masks, read_weights, write_masks, write_weights
from corewood.study.job import Kind, Work
from corewood.study.models import ModelPlan
from corewood.study.subnetwork import L0, LIKE, RANDOM, SUPER, Subnetwork


def plan(model: ModelPlan, others: Sequence[Subnetwork]) -> list[Subnetwork]:
    """`others` are the rows of all other ways."""
    rows, several = [], len({settings.like for settings in model.spec.prune.random}) > 1
    for settings in model.spec.prune.random:
        way = LIKE.get(settings.like, RANDOM) if several else RANDOM  # sizes of one way say nothing of those of another
        for row, draw in product([other for other in others if other.way == settings.like], range(settings.draws)):
            name = random_name(row, draw)
            rows.append(drawn(model, row, BY_CHANCE, draw, f"like {row.name}", name, name=name, way=way))
    return rows


def random_name(good: Subnetwork, draw: int) -> str:
    size = f"{100 * good.target:g}-s{good.seed}" if good.way == L0 else f"like-{good.name}"
    return f"random-{size}-{draw}"


def random_seed(model: ModelPlan, good: Subnetwork) -> list[int]:
    """What masks beside a good one are drawn by."""
    return [model.spec.seed, model.tuning, *([good.seed] if good.way == L0 or good.seed else [])]


def drawn(model: ModelPlan, good: Subnetwork, ticket: str, draw: int, who: str, judged: str, **facts: Any) -> Subnetwork:
    """A mask beside a good one: a job of its own, so that more of them leave the others as they are.

    `who` and `judged` are what the titles of drawing and of judging it say.
    """
    assert good.masks is not None
    params: dict[str, Any] = {"what": "weights" if good.of_weights else "units", "ticket": ticket, "draw": draw}
    params["seed"] = random_seed(model, good)
    if good.place:
        params["place"] = good.place
    job = model.job(TICKETS, f"{ticket_name(ticket, draw)} {who}", params, {"found": good.masks})
    facts |= {"ticket": ticket, "draw": draw, "masks": job, "place": 0, "good": good.masks, "good_place": good.place}
    facts |= {"predictions": model.predict(model.last, judged, job, good.stand_in), "beside": {}}
    return replace(good, **facts)


def ticket_name(ticket: str, draw: int) -> str:
    return f"{ticket}-{draw}" if ticket == BY_CHANCE else ticket


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


TICKETS = Kind("tickets", 2, "draw tickets", "second", 0.01, do_tickets, cpu=True)
KINDS = (TICKETS,)
