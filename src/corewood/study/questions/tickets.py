"""Good subnetworks, and others of exactly their size, as pruned and retrained (LT, section 4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file as load_tensors

from corewood.analyse.tickets import summary
from corewood.errors import JobError
from corewood.evaluate.predict import logits_of
from corewood.model.finetune import fine_tune
from corewood.model.load import untrained
from corewood.model.slim import confined
from corewood.model.weights import trained_under
from corewood.prune.tickets import BAD, GOOD, RANDOM
from corewood.spec import FineTune, StudySpec, Tickets
from corewood.study.entries import KEPT, has_weights, read_encoded, read_masks, read_weights, stored_name, write_retrained
from corewood.study.job import Kind, Work
from corewood.study.models import TRAIN, ModelPlan, Plan, tuning_params
from corewood.study.questions.subnetworks import sizes_table
from corewood.study.results import Question, Results
from corewood.study.subnetwork import IMPORTANCE, L0, MAGNITUDE, PRUNE, RETRAINED, SUPER, TICKETS, UNTRAINED, Subnetwork
from corewood.study.ways import random


def plan(plan: Plan, wanted: Tickets) -> None:
    found = [row for row in plan.rows if row.way in plan.spec.good and first_mode(plan.spec, row)]
    for model in plan.models.values():
        for row in [r for r in found if r.model == model.key]:
            who = row.way if row.way in (IMPORTANCE, MAGNITUDE) else row.name
            plan.rows.extend(retrained(model, wanted, row, f"{who} {GOOD}"))
            for ticket, draw in [*((RANDOM, i) for i in range(wanted.random)), (BAD, 0)]:
                name = random.ticket_name(ticket, draw)
                facts = {"name": f"{row.name}-{name}", "question": TICKETS}
                one = random.drawn(model, row, ticket, draw, f"of {who}", f"{who} {name}", **facts)
                plan.rows.extend([one, *retrained(model, wanted, one, f"{who} {name}")])
    if wanted.super_survivors:
        draw_super_survivors(plan, wanted, [row for row in found if row.way == IMPORTANCE])


def first_mode(spec: StudySpec, row: Subnetwork) -> bool:
    """Whether tickets are drawn from it: of a way that prunes to a threshold or size of its own, in its first mode."""
    if row.question != PRUNE or row.way not in (IMPORTANCE, MAGNITUDE):
        return row.question == PRUNE
    own = next(settings for settings in getattr(spec.prune, row.way) if settings.like is None)
    return row.target == (own.sparsity or 0.0) and (row.way == MAGNITUDE or row.prune == own.prune[0])


def retrained(model: ModelPlan, wanted: Tickets, row: Subnetwork, who: str) -> list[Subnetwork]:
    if not wanted.retrain:
        return []
    training = partial(train, model, row, who, keep=wanted.keep)
    rows = [training()]
    if row.ticket == BAD and row.way == IMPORTANCE:
        rows += [training(epochs=epochs) for epochs in wanted.longer]
    if row.ticket == RANDOM and row.draw == 0 and row.way == IMPORTANCE and wanted.untrained:
        rows.append(replace(training(from_nothing=True), way=UNTRAINED))
    return rows


def train(
    model: ModelPlan, row: Subnetwork, who: str, epochs: float | None = None, from_nothing: bool = False, keep: bool = False
) -> Subnetwork:
    task, settings = model.task, model.settings
    assert settings is not None
    assert row.masks is not None
    if epochs is not None:
        settings = settings.model_copy(update={"epochs": epochs, "steps": None}).resolved(len(task.splits[TRAIN]))
    settings = settings.model_copy(update={"checkpoints": ()})
    title = (f"train {who} from nothing" if from_nothing else f"retrain {who}") + (f" for {epochs:g} epochs" if epochs else "")
    params = {**model.params, "settings": tuning_params(settings), "place": row.place, "untrained": from_nothing}
    params |= {"keep": True} if keep else {}
    inputs = {"data": task.data[TRAIN], "encoded": task.encoded[TRAIN], "tickets": row.masks}
    inputs |= {f"encoded {stored_name(n)}": task.encoded[n] for n in task.datasets}
    job = model.job(RETRAIN, title, params, inputs, settings.last * settings.batch, threads=settings.threads)
    name = f"{row.name}-{'untrained' if from_nothing else 'retrained'}" + (f"-{epochs:g}" if epochs else "")
    facts: dict[str, Any] = {"name": name, "question": TICKETS, "state": RETRAINED, "epochs": epochs or 0.0}
    return replace(row, **facts, predictions=dict.fromkeys(task.datasets, job), beside={})


def draw_super_survivors(plan: Plan, wanted: Tickets, found: list[Subnetwork]) -> None:
    for task in plan.tasks.values():
        mine = {f"found {r.tuning}": r.masks for r in found if r.task == task.name and r.masks}
        models = [model for model in plan.models.values() if model.task is task]
        params = {"what": SUPER, "seed": [plan.spec.seed]}
        job = replace(models[0], who=task.who).job(random.TICKETS, "super-survivors", params, mine)
        for model in models:
            predictions = model.predict(model.last, SUPER, job, found[0].stand_in)
            for place, ticket in enumerate((GOOD, RANDOM, BAD)):
                facts: dict[str, Any] = {"question": TICKETS, "prune": found[0].prune, "ticket": ticket}
                facts |= {"masks": job, "place": place, "good": job, "predictions": predictions}
                facts |= {"stand_in": found[0].stand_in}
                row = model.row(name=f"super-{ticket}", way=SUPER, **facts)
                plan.rows.extend([row, *retrained(model, wanted, row, f"{SUPER} {ticket}")])


def do_retrain(work: Work) -> dict[str, Any]:
    """A ticket alone: pretrained weights (or none), the same new classifier and order of examples as its seed, and its mask."""
    params = work.job.params
    settings = FineTune(**params["settings"])
    model = work.new_model(settings.seed)
    if params["untrained"]:
        model = untrained(model, settings.seed)
    entry = work.input("tickets")
    scratch = work.store.scratch(work.job.key)
    of_weights = has_weights(entry)
    held = trained_under(model, read_weights(entry)) if of_weights else confined(model, read_masks(entry)[params["place"]])
    with held:
        facts: dict[str, Any] = {"progress": work.progress, "doubt": work.doubt}
        kept = fine_tune(model, work.encoded(), work.gold(model), settings, scratch, **facts)
        # what training left on disk: a job that was killed after training finds it there
        model.net.load_state_dict(load_tensors(kept[settings.kept[-1]] / "model.safetensors"))
        model.net.eval()
        logits = {}
        for name in work.job.inputs:
            if name.startswith("encoded "):
                examples = read_encoded(work.input(name))
                logits[name.removeprefix("encoded ")] = logits_of(model, model.units.full(), examples)
    if not all(np.isfinite(values).all() for values in logits.values()):
        raise JobError(f"{work.job.title}: some logits are not numbers; lower fine_tune.learning_rate")
    write_retrained(logits, work.folder)
    if params.get("keep"):
        model.net.save_pretrained(work.folder / KEPT)
    return {}


def tickets_table(results: Results) -> pd.DataFrame | None:
    """Per task and kind of subnetwork: mean and standard deviation over seeds."""
    asked = len(results.plan.models) > 1 or results.plan.spec.tickets is not None
    found = any(row.question == PRUNE and row.way in (IMPORTANCE, MAGNITUDE, L0) for row in results.rows)
    return summary(results.scores, sizes_table(results)) if asked and found else None


RETRAIN = Kind("retrain", 2, "retrain tickets", "train", 1.0, do_retrain)
QUESTION = Question("tickets", lambda r: {"tickets": tickets_table(r)}, plan, (RETRAIN,))
