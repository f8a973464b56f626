"""Units removed from the full model, one at a time and together."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.ablation import ablation_rows
from corewood.analyse.core import core
from corewood.data.read import drawn
from corewood.data.skills import skill_parts
from corewood.data.task import FOCUS, Split
from corewood.evaluate.metrics import parts
from corewood.evaluate.predict import ablate, unit_set, without
from corewood.spec import Ablations
from corewood.spec.study import CHALLENGE
from corewood.study.entries import read_logits, read_masks, write_logits
from corewood.study.job import Job, Kind, Work
from corewood.study.models import ModelPlan, Plan
from corewood.study.results import Question, Results, compared, stack

Closed = tuple[tuple[str, ...], ...]  # sets of units
Jobs = dict[tuple[tuple[str, int], str], list[Job]]  # (model, dataset) -> jobs


def plan(plan: Plan, wanted: Ablations) -> Jobs:
    units = plan.checkpoint.units
    sets = tuple(dict.fromkeys(unit_set(text, units) for text in wanted.sets))
    groups: dict[str, Closed | None] = {}
    if wanted.singles:
        for layer in range(plan.checkpoint.layers):
            groups[f"layer {layer}"] = tuple((n,) for n in units if n.startswith(f"L{layer}."))
    elif sets:
        groups["members of the sets"] = tuple((n,) for n in units if any(n in s for s in sets))
    if sets:
        groups["the named sets"] = tuple(s for s in sets if len(s) > 1)
    if wanted.pairs:
        groups["pairs of the core"] = None
    return {
        (model.key, n): [job(plan, model, n, who, closed) for who, closed in groups.items() if closed != ()]
        for model in plan.models.values()
        if not model.task.regression
        for n in model.task.datasets
    }


def job(plan: Plan, model: ModelPlan, dataset: str, who: str, closed: Closed | None) -> Job:
    spec, task = plan.spec, model.task
    examples = spec.ablations.examples if spec.ablations else None
    params: dict[str, Any] = {"ablate": spec.ablate, "examples": examples, "seed": spec.seed}
    inputs = {"reference": model.reference(model.last), "encoded": task.encoded[dataset], "data": task.data[dataset]}
    if closed is None:  # the core is not known yet: the job finds it in the masks
        found = compared([row for row in plan.rows if row.model == model.key])
        inputs |= {f"search {row.name}": row.masks for row in found if row.masks}
        params |= {"core": {row.name: row.place for row in found}}
    else:
        params |= {"closed": [list(units) for units in closed]}
    count = len(closed) if closed is not None else len(plan.checkpoint.units)
    work = count * min(len(task.splits[dataset]), examples or len(task.splits[dataset]))
    return model.job_at(model.last, ABLATE, f"ablate {who} on {dataset}", params, inputs, work)


def do_ablate(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    if "closed" in params:
        closed = [tuple(units) for units in params["closed"]]
    else:  # all pairs of the heads that every mask keeps, and all of these heads at once
        masks = [read_masks(work.input(f"search {name}"))[place] for name, place in params["core"].items()]
        heads = [name for name in core(masks, draws=1).mask.names if ".H" in name]
        closed = list(combinations(heads, 2)) + ([tuple(heads)] if len(heads) > 2 else [])
    rows = drawn(work.data().frame, params["examples"], params["seed"])
    variants = [without(model.units, units) for units in closed]
    logits = np.zeros((0, len(rows), len(model.labels)), np.float32)
    if variants:
        logits = ablate(model, variants, work.encoded().take(rows), params["ablate"], work.means(), work.progress)
    write_logits(logits, work.folder)
    return {"closed": [list(units) for units in closed]}


def answers_of(split: Split, rows: np.ndarray) -> list[tuple[str, list[np.ndarray]]]:
    """(skill, which of the rows have each of its answers), where there are several among them."""
    gold = split.gold[rows]
    parts = {skill: [inside[rows] & (gold == label) for label in np.unique(gold)] for skill, inside in skill_parts(split)}
    held = {skill: [answer for answer in answers if answer.any()] for skill, answers in parts.items()}
    return [(skill, answers) for skill, answers in held.items() if len(answers) > 1]


def ablation_table(results: Results) -> pd.DataFrame | None:
    spec, tables = results.plan.spec, []
    planned: Jobs = results.plan.parts.get("ablations", {})
    for (key, dataset), jobs in planned.items():
        full, task = results.full(key), results.plan.tasks[key[0]]
        split, there = task.splits[dataset], [job for job in jobs if results.there(job)]
        if full is None or not there:
            continue
        rows = drawn(split.frame, there[0].params["examples"], spec.seed)
        right: dict[tuple[str, ...], np.ndarray] = {}
        for entry in map(results.entry, there):
            answers = results.right(task.name, read_logits(entry), dataset, rows)
            right |= {tuple(units): values for units, values in zip(entry.meta["closed"], answers, strict=True)}
        if not right:  # a core of fewer than two heads has no pairs
            continue
        whole = results.right(task.name, results.logits(full, dataset)[rows], dataset, rows)
        cases = [(case, group, inside[rows]) for case, group, inside in parts(split) if inside[rows].any()]
        lists = {FOCUS if name == CHALLENGE else name: chosen for name, chosen in spec.focus.items()}
        inside = (
            {n: split.cases.isin(chosen).to_numpy()[rows] for n, chosen in lists.items()} if split.cases is not None else {}
        )
        cases += [(name, "", here) for name, here in inside.items() if here.any()]
        heads = results.units.layers * results.units.heads
        skills = answers_of(split, rows) if dataset in task.challenge else []
        table = ablation_rows(whole, right, cases, results.core(key), heads, skills)
        listed = {case: name for name, chosen in reversed(lists.items()) for case in (*chosen, name)}  # the first that has it
        table = table.assign(focus=[listed.get(case, "") for case in table["case"]], task=key[0], tuning=key[1])
        tables.append(table.assign(dataset=dataset, domain=task.domain(dataset), ablate=spec.ablate))
    return stack(tables)


ABLATE = Kind("ablate", 1, "ablate units", "forward", 0.6, do_ablate)  # layers below are shared: bench/ablate.py
QUESTION = Question("ablations", lambda r: {"ablation": ablation_table(r)}, plan, (ABLATE,))
