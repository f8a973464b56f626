"""Good subnetworks, and others of exactly their size, as pruned and retrained (LT, section 4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file as load_tensors

from corewood.analyse.tickets import summary
from corewood.data.labels import gold_classes
from corewood.errors import JobError
from corewood.evaluate.predict import logits_of
from corewood.model.finetune import fine_tune
from corewood.model.load import Model, untrained
from corewood.model.slim import confined
from corewood.model.weights import trained_under
from corewood.prune.tickets import BAD, GOOD, RANDOM
from corewood.spec import FineTune
from corewood.study.entries import has_weights, read_data, read_encoded, read_masks, read_weights, stored_name, write_retrained
from corewood.study.job import Job, Kind
from corewood.study.models import TRAIN, ModelPlan, tuning_params
from corewood.study.questions.question import Question
from corewood.study.questions.subnetworks import sizes_table
from corewood.study.results import Results, good_rows
from corewood.study.subnetwork import IMPORTANCE, RETRAINED, SUPER, TICKETS, UNTRAINED, Subnetwork
from corewood.study.ways import random
from corewood.study.work import Work

if TYPE_CHECKING:
    from corewood.study.plan import Plan


def plan(plan: Plan) -> None:
    wanted = plan.spec.tickets
    if wanted is None:
        return
    found = [row for row in plan.rows if row.way in plan.spec.good and first_mode(plan, row)]
    for model in plan.models.values():
        for row in [r for r in found if r.model == model.key]:
            who = row.way if row.way in (IMPORTANCE, "magnitude") else row.name
            retrain(plan, model, row, f"{who} {GOOD}")
            for ticket, draw in [*((RANDOM, i) for i in range(wanted.random)), (BAD, 0)]:
                name = f"{ticket}-{draw}" if ticket == RANDOM else ticket
                one = random.drawn(model, row, ticket, draw, plan.spec.seed, f"of {who}")
                one = replace(one, name=f"{row.name}-{name}", question=TICKETS)
                predictions = model.predict(model.last, f"{who} {name}", one.masks, one.stand_in)
                plan.rows.append(replace(one, predictions=predictions))
                retrain(plan, model, one, f"{who} {name}")
    if wanted.super_survivors:
        draw_super_survivors(plan, [row for row in found if row.way == IMPORTANCE])


def first_mode(plan: Plan, row: Subnetwork) -> bool:
    """Whether tickets are drawn from it: of a way that prunes to a threshold or size of its own, in its first mode."""
    if row.question != "prune":
        return False
    if row.way == IMPORTANCE:
        own = next(way for way in plan.spec.prune.importance if way.like is None)
        return row.prune == own.prune[0] and row.target == (own.sparsity or 0.0)
    if row.way == "magnitude":
        own_magnitude = next(way for way in plan.spec.prune.magnitude if way.like is None)
        return row.target == (own_magnitude.sparsity or 0.0)
    return True


def retrain(plan: Plan, model: ModelPlan, row: Subnetwork, who: str) -> None:
    wanted = plan.spec.tickets
    assert wanted is not None
    if not wanted.retrain:
        return
    plan.rows.append(retrained(plan, model, row, who))
    if row.ticket == BAD and row.way == IMPORTANCE:
        plan.rows.extend(retrained(plan, model, row, who, epochs) for epochs in wanted.longer)
    if row.ticket == RANDOM and row.draw == 0 and row.way == IMPORTANCE and wanted.untrained:
        plan.rows.append(replace(retrained(plan, model, row, who, from_nothing=True), way=UNTRAINED))


def retrained(
    plan: Plan, model: ModelPlan, row: Subnetwork, who: str, epochs: float | None = None, from_nothing: bool = False
) -> Subnetwork:
    task, settings = model.task, model.settings
    assert settings is not None
    assert row.masks is not None
    if epochs is not None:
        settings = settings.model_copy(update={"epochs": epochs, "steps": None}).resolved(len(task.splits[TRAIN]))
    settings = settings.model_copy(update={"checkpoints": ()})
    what = f"train {who} from nothing" if from_nothing else f"retrain {who}"
    title = f"{model.who}{what}" + (f" for {epochs:g} epochs" if epochs else "")
    params = {**model.params, "settings": tuning_params(settings), "place": row.place, "untrained": from_nothing}
    inputs = {"data": task.data[TRAIN], "encoded": task.encoded[TRAIN], "tickets": row.masks}
    inputs |= {f"encoded {stored_name(n)}": task.encoded[n] for n in task.datasets}
    local = {**model.local, "threads": settings.threads}
    job = model.add(Job.make(RETRAIN, title, params, inputs, local, settings.last * settings.batch))
    name = f"{row.name}-{'untrained' if from_nothing else 'retrained'}" + (f"-{epochs:g}" if epochs else "")
    return replace(
        row,
        name=name,
        question=TICKETS,
        state=RETRAINED,
        epochs=epochs or 0.0,
        predictions=dict.fromkeys(task.datasets, job),
        beside={},
    )


def draw_super_survivors(plan: Plan, found: list[Subnetwork]) -> None:
    for name in plan.tasks:
        mine = {f"found {r.tuning}": r.masks for r in found if r.task == name and r.masks}
        who = f"{name}: " if len(plan.tasks) > 1 else ""
        params = {"what": SUPER, "seed": [plan.spec.seed]}
        models = [model for model in plan.models.values() if model.task.name == name]
        job = models[0].add(Job.make(random.TICKETS, f"{who}super-survivors", params, mine, models[0].local))
        prune, stand_in = next((r.prune, r.stand_in) for r in found)
        for model in models:
            for place, ticket in enumerate((GOOD, RANDOM, BAD)):
                row = model.row(
                    name=f"super-{ticket}",
                    way=SUPER,
                    question=TICKETS,
                    prune=prune,
                    ticket=ticket,
                    masks=job,
                    place=place,
                    good=job,
                )
                plan.rows.append(replace(row, predictions=model.predict(model.last, SUPER, job, stand_in)))
                retrain(plan, model, row, f"{SUPER} {ticket}")


def do_retrain(work: Work) -> dict[str, Any]:
    """A ticket alone: pretrained weights (or none), the same new classifier and order of examples as its seed, and its mask."""
    params = work.job.params
    settings = FineTune(**params["settings"])
    split = read_data(work.input("data"))
    model = work.new_model(settings.seed)
    if params["untrained"]:
        model = untrained(model, settings.seed)
    entry = work.input("tickets")
    scratch = work.store.scratch(work.job.key)
    of_weights = has_weights(entry)
    held = trained_under(model, read_weights(entry)) if of_weights else confined(model, read_masks(entry)[params["place"]])
    with held:
        gold = gold_classes(model.labels, split)
        kept = fine_tune(model, work.encoded(), gold, settings, scratch, progress=work.progress)
        restore(model, kept[settings.kept[-1]])
        logits = {}
        for name in work.job.inputs:
            if name.startswith("encoded "):
                examples = read_encoded(work.input(name))
                logits[name.removeprefix("encoded ")] = logits_of(model, model.units.full(), examples)
    if not all(np.isfinite(values).all() for values in logits.values()):
        raise JobError(f"{work.job.title}: some logits are not numbers; lower fine_tune.learning_rate")
    write_retrained(logits, work.folder)
    return {}


def restore(model: Model, folder: Path) -> None:
    """What training left on disk: a job that was killed after training finds it there."""
    model.net.load_state_dict(load_tensors(folder / "model.safetensors"))
    model.net.eval()


def tickets_table(results: Results) -> pd.DataFrame | None:
    """Per task and kind of subnetwork: mean and standard deviation over seeds."""
    ways = ("importance", "magnitude", "l0")
    if len(results.plan.models) == 1 and results.plan.spec.tickets is None:
        return None
    if not any(good_rows(results.rows, way) for way in ways):
        return None
    return summary(results.scores, sizes_table(results))


RETRAIN = Kind("retrain", 2, "retrain tickets", "train", 1.0, do_retrain)
QUESTION = Question("tickets", lambda r: {"tickets": tickets_table(r)}, plan, (RETRAIN,))
