"""A subnetwork of a study that has run, as something to ship."""

from __future__ import annotations

from typing import Any

from corewood.analyse.verdicts import best_to_take
from corewood.errors import InputError
from corewood.ship.export import check_ablation
from corewood.ship.judge import Judged
from corewood.ship.origin import Origin, base_of
from corewood.ship.subject import Subject
from corewood.store.store import Store
from corewood.study.entries import read_encoded, read_weights
from corewood.study.models import CHALLENGE, Plan
from corewood.study.questions.subnetworks import sizes_table
from corewood.study.questions.verdicts import verdicts_table
from corewood.study.results import Results, models_said, searched
from corewood.study.run import NOT_YET, holes_of
from corewood.study.subnetwork import FULL, RETRAINED, WITH, WITHOUT, Subnetwork

MISSING = 3  # jobs that a sentence names


def results_of(plan: Plan, store: Store) -> Results:
    """Or an error, where nothing of the study is there."""
    holes = holes_of(plan, store)
    if len(holes) == len(plan.jobs):
        raise InputError(f"{store.root}: holds nothing of {plan.spec.name} yet; run it first: corewood run STUDY.yaml")
    return Results(plan, store, holes)


def recommended(results: Results, task: str | None = None, tuning: int | None = None) -> str:
    """The name of the one to take: the smallest that keeps every case."""
    plan, name = results.plan, results.plan.spec.name
    models = [key for key in plan.models if task in (None, key[0]) and tuning in (None, key[1])]
    if len(models) > 1:
        raise InputError(
            f"{name}: has {len(models)} models, each with a subnetwork to recommend; say which: {models_said(models)}"
        )
    if not models:
        raise InputError(f"{name}: has no such model; it has {models_said(plan.models)}")
    rows = [row for row in plan.rows if row.model in models and searched(row)]
    if not rows:
        raise InputError(
            f"{name}: no way looked for subnetworks of heads and MLPs; name what to export: {names_of(results, models)}"
        )
    lost = [plan.jobs[job.key].title for row in rows for job in row.jobs if not results.there(job)]
    if lost:
        raise InputError(f"{name}: not all its subnetworks are judged yet, so none is recommended; {missing(lost)}")
    verdicts, sizes = verdicts_table(results), sizes_table(results)
    if verdicts is None or sizes is None or (verdicts["domain"] == CHALLENGE).sum() == 0:
        raise InputError(f"{name}: has no cases to recommend a subnetwork by; name one: {names_of(results, models)}")
    beside = (WITHOUT, WITH)  # searched to stand beside the plain ones
    mine = [
        table[(table["task"] == models[0][0]) & (table["tuning"] == models[0][1]) & ~table["way"].isin(beside)]
        for table in (verdicts, sizes)
    ]
    chosen = best_to_take(*mine)
    if chosen is None:
        raise InputError(
            f"{name}: no subnetwork is shown to keep every case, so none is recommended; name one: {names_of(results, models)}"
        )
    return str(chosen["subnetwork"])


def names_of(results: Results, models: list[tuple[str, int]]) -> str:
    return ", ".join(dict.fromkeys(row.name for row in results.rows if row.model in models))


def missing(titles: list[str]) -> str:
    """What has not run, and what to do."""
    every = list(dict.fromkeys(titles))
    more = f" and {len(every) - MISSING} more" if len(every) > MISSING else ""
    return f"missing: {'; '.join(every[:MISSING])}{more}. Run it first: corewood run STUDY.yaml"


def subject_of(results: Results, name: str, task: str | None = None, tuning: int | None = None) -> Subject:
    """A subnetwork by its name, with what the study found of it."""
    row = found(results, name, task, tuning)
    check_ablation(row.closed)
    plan, full = results.plan, results.full(row.model, row.checkpoint)
    if full is None:
        raise InputError(f"{name!r}: the full model beside it has no results; run the study first: corewood run STUDY.yaml")
    mine = plan.tasks[row.task]
    sets = []
    for dataset in mine.datasets:
        logits = results.logits(full, dataset), results.logits(row, dataset)
        metric = mine.metric if mine.domain(dataset) != CHALLENGE or mine.splits[dataset].regression else "accuracy"
        encoded = read_encoded(results.entry(mine.encoded[dataset]))
        sets.append(Judged(dataset, mine.domain(dataset), mine.splits[dataset], encoded, *logits, metric))
    model = results.model(row)
    if row.masks is None:
        mask: Any = model.units.full()
    else:
        mask = read_weights(results.entry(row.masks)) if row.of_weights else results.mask(row)
    return Subject(model, mask, row.closed, name, origin(results, row), tuple(sets))


def found(results: Results, name: str, task: str | None, tuning: int | None) -> Subnetwork:
    """As `results.find`, which says what is wrong with a name; where its results are missing, what that is."""
    rows = [r for r in results.plan.rows if r.name == name and task in (None, r.task) and tuning in (None, r.tuning)]
    if len({row.model for row in rows}) == 1:
        waiting = [results.plan.jobs[job.key] for job in rows[-1].jobs if results.holes.get(job.key) == NOT_YET]
        if waiting:
            titles = [job.title for job in waiting]
            raise InputError(f"{results.plan.spec.name}: {name} has not run that far; {missing(titles)}")
    return results.find(name, task, tuning)


def origin(results: Results, row: Subnetwork) -> Origin:
    plan = results.plan
    model = plan.models[row.model]
    tuned = [f"fine-tuned by the study for {row.checkpoint} steps with seed {row.tuning}"] if model.tuned else ["as it is"]
    if row.state == RETRAINED:
        tuned = ["its subnetwork trained alone by the study" + (f" for {row.epochs:g} epochs" if row.epochs else "")]
    facts = {"Task": row.task, "Way": row.way, "Sparsity asked for": row.target or None, "Seed of the search": row.seed}
    keys = {
        "the model": plan.checkpoint.digest,
        **{f"the {name.replace('_', '-')}": job.key for name, job in model.tuned.items()},
    }
    if row.masks is not None:
        keys["the mask"] = row.masks.key
    keys |= {f"its answers on {dataset}": job.key for dataset, job in row.predictions.items()}
    base = base_of(plan.spec.model.checkpoint, plan.checkpoint.source)
    shown = {} if row.way == FULL else facts
    return Origin(**base, made=tuned[0], study=plan.spec.name, facts=shown, keys=keys)
