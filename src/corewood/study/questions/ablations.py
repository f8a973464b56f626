"""Units removed from the full model, one at a time and together, at its last checkpoint and at earlier ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.ablation import BEYOND, INSIDE, OUTSIDE, ablation_rows
from corewood.data.read import drawn
from corewood.data.skills import skill_parts
from corewood.data.task import FOCUS, Split
from corewood.evaluate.metrics import BALANCED, kl, parts
from corewood.evaluate.predict import ablate, unit_set
from corewood.spec import Ablations
from corewood.spec.questions import CORE
from corewood.spec.study import CHALLENGE
from corewood.study.entries import read_data, read_logits, read_masks, write_logits
from corewood.study.job import Job, Kind, Work
from corewood.study.models import VALIDATION, ModelPlan, Plan
from corewood.study.results import Question, Results, heads_in_all, of_core, stack
from corewood.study.subnetwork import FULL, Subnetwork

Units = tuple[str, ...]
Place = tuple[tuple[str, int], int, str]  # model, checkpoint, dataset
HEAD = re.compile(r"L\d+\.H\d+")
ALONE = "alone"  # the heads of a core that is not known yet, one by one


@dataclass(frozen=True)
class Group:
    """Sets of units that a job removes: on every dataset, at every checkpoint that is asked for."""

    who: str
    params: dict[str, Any]
    load: float  # of the job, in single units
    inputs: dict[str, Job] = field(default_factory=dict)
    alone: bool = False  # whether these are single units, all that a ranking of the core needs


@dataclass
class Part:
    """What is planned, and who ranked the heads of each model's core."""

    jobs: dict[Place, list[Job]] = field(default_factory=dict)
    ranked: dict[tuple[str, int], Job] = field(default_factory=dict)


def plan(plan: Plan, wanted: Ablations) -> Part:
    part = Part()
    for model in plan.models.values():
        if model.task.regression:
            continue
        places = list(product([model.key], model.and_last(wanted.checkpoints), model.task.datasets))
        groups = by_name(plan, wanted) + (by_core(plan, model, wanted) if wanted.of_core else [])
        jobs = {place: [(group, job(plan, model, place, group)) for group in groups] for place in places}
        if wanted.top:
            alone = {n: [job for group, job in jobs[model.key, model.last, n] if group.alone] for n in model.task.datasets}
            part.ranked[model.key] = ranked = rank(plan, model, alone)
            sets = subsets(["head"] * wanted.top)
            group = Group(f"sets of the top {wanted.top}", {"top": wanted.top}, load(sets), {"ranked": ranked})
            for place in places:
                jobs[place].append((group, job(plan, model, place, group)))
        part.jobs |= {place: [job for _, job in mine] for place, mine in jobs.items()}
    return part


def by_name(plan: Plan, wanted: Ablations) -> list[Group]:
    """What is known before anything runs."""
    units = plan.checkpoint.units
    sets = list(dict.fromkeys(unit_set(text, units) for text in wanted.named))
    known: list[tuple[str, list[Units], bool]] = []
    if wanted.singles:
        for layer in range(plan.checkpoint.layers):
            known.append((f"layer {layer}", [(n,) for n in units if n.startswith(f"L{layer}.")], True))
    elif sets:
        known.append(("members of the sets", [(n,) for n in units if any(n in s for s in sets)], False))
    known.append(("the named sets", [s for s in sets if len(s) > 1], False))
    return [Group(who, {"closed": [*map(list, sets)]}, load(sets), alone=alone) for who, sets, alone in known if sets]


def by_core(plan: Plan, model: ModelPlan, wanted: Ablations) -> list[Group]:
    """What is known once the masks are: the jobs find the core in them."""
    guess = [f"head {i}" for i in range(expected_core(plan, model))]
    inputs, places = masks_of(model, of_core(plan.rows, model.key))
    groups = []
    if wanted.pairs:
        groups.append(Group("pairs of the core", {"core": places}, load([*combinations(guess, 2), guess]), inputs))
    if not wanted.singles:
        params = {"core": places, "sets": ALONE}
        groups.append(Group("heads of the core", params, load([head] for head in guess), inputs, alone=True))
    if CORE in wanted.sets:
        groups.append(Group("the core", {"core": places, "sets": CORE}, load([guess]), inputs))
    return groups


def masks_of(model: ModelPlan, found: Sequence[Subnetwork]) -> tuple[dict[str, Job], dict[str, int]]:
    """Inputs that hold masks, and which of each is meant."""
    named = {row.name if row.model == model.key else f"{row.name} of {row.tuning}": row for row in found}
    return {f"search {n}": row.masks for n, row in named.items() if row.masks}, {n: row.place for n, row in named.items()}


def expected_core(plan: Plan, model: ModelPlan) -> int:
    """How many heads a core may have, for the cost alone: half of what the sparsest mask keeps."""
    heads = plan.checkpoint.layers * plan.checkpoint.heads
    removed = max((row.target for row in of_core(plan.rows, model.key)), default=0.0) or 0.5
    guess = max(2, round(heads * (1 - removed) / 2))
    said = f"Until the core is known, ablations count with {guess} heads in it: half of what the sparsest mask keeps."
    if said not in plan.assumed:
        plan.assumed.append(said)
    return guess


def load(sets: Iterable[Sequence[str]]) -> float:
    """What removing these sets costs, in single units: layers below the lowest unit are shared.

    On average, m of m + 1 parts of the model lie above the lowest of m units, where one has half of it above.
    """
    return sum(2 * len(units) / (len(units) + 1) for units in sets)


def job(plan: Plan, model: ModelPlan, place: Place, group: Group) -> Job:
    (_, step, dataset), spec, task = place, plan.spec, model.task
    examples = spec.ablations.examples if spec.ablations else None
    params = {"ablate": spec.ablate, "examples": examples, "seed": spec.seed, **group.params}
    inputs = {"reference": model.reference(step), "encoded": task.encoded[dataset], "data": task.data[dataset]}
    work = round(group.load * min(len(task.splits[dataset]), examples or len(task.splits[dataset])))
    title = f"ablate {group.who} on {dataset}{model.at(step)}"
    return model.job_at(step, ABLATE, title, params, {**inputs, **group.inputs}, work)


def rank(plan: Plan, model: ModelPlan, alone: Mapping[str, list[Job]]) -> Job:
    """Heads of the core by what each does alone to the last checkpoint: one order for all datasets and checkpoints."""
    assert plan.spec.ablations is not None
    task, sets = model.task, model.task.challenge or [VALIDATION]
    params: dict[str, Any] = {"examples": plan.spec.ablations.examples, "seed": plan.spec.seed, "focus": plan.spec.focused}
    focused = [n for n in sets if ranked_on(task.splits[n], params)[1].any()]
    params = {**params, "focus": list(plan.spec.focused) if focused else [], "datasets": focused or sets}
    inputs, places = masks_of(model, of_core(plan.rows, model.key))
    full = next(row for row in plan.rows if row.way == FULL and (row.model, row.checkpoint) == (model.key, model.last))
    for n in params["datasets"]:
        inputs |= {f"data {n}": task.data[n], f"full {n}": full.predictions[n]}
        inputs |= {f"alone {n} {i}": job for i, job in enumerate(alone[n])}
    return model.job_at(model.last, RANK, "rank the heads of the core", {**params, "core": places}, inputs)


def ranked_on(split: Split, params: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(which examples were drawn, which of these are in focus); without focus, all are."""
    rows = drawn(split.frame, params["examples"], params["seed"])
    if not params["focus"]:
        return rows, np.ones(len(rows), bool)
    cases = pd.Series([None] * len(split)) if split.cases is None else split.cases
    return rows, cases.isin(params["focus"]).to_numpy()[rows]


def do_rank(work: Work) -> dict[str, Any]:
    """By the mean KL from the full model over the examples: what flips no answer counts, too."""
    effects = dict.fromkeys(core_of(work), 0.0)
    examples = 0
    for n in work.job.params["datasets"]:
        rows, inside = ranked_on(read_data(work.input(f"data {n}")), work.job.params)
        full = read_logits(work.input(f"full {n}"))[0][rows]
        examples += int(inside.sum())
        for entry in (work.input(name) for name in work.job.inputs if name.startswith(f"alone {n} ")):
            for (unit,), logits in zip(entry.meta["closed"], read_logits(entry), strict=True):
                if unit in effects:
                    effects[unit] += float(kl(full[inside], logits[inside]).sum())
    heads = sorted(effects, key=lambda unit: -effects[unit])
    return {"heads": heads, "kl": [effects[unit] / examples for unit in heads], "examples": examples}


def core_of(work: Work) -> list[str]:
    return heads_in_all(read_masks(work.input(f"search {name}"))[place] for name, place in work.job.params["core"].items())


def subsets(units: Sequence[str]) -> list[Units]:
    """All sets of two units or more, the small ones first."""
    return [found for size in range(2, len(units) + 1) for found in combinations(units, size)]


def sets_of(work: Work, names: Sequence[str]) -> list[Units]:
    """The sets that a job removes; `names` are the model's units in their order."""
    params = work.job.params
    if "closed" in params:
        return [tuple(units) for units in params["closed"]]
    if "top" in params:
        chosen = work.input("ranked").meta["heads"][: params["top"]]
        return subsets([name for name in names if name in chosen])
    heads = core_of(work)
    if params.get("sets") == ALONE:
        return [(head,) for head in heads]
    if params.get("sets") == CORE:
        return [tuple(heads)] if len(heads) > 1 else []
    return list(combinations(heads, 2)) + ([tuple(heads)] if len(heads) > 2 else [])


def do_ablate(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    closed = sets_of(work, model.units.names)
    rows = drawn(work.data().frame, params["examples"], params["seed"])
    variants = [model.units.without(*units) for units in closed]
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
    part: Part = results.plan.parts.get("ablations", Part())
    return stack([table for place, jobs in part.jobs.items() if (table := table_of(results, place, jobs)) is not None])


def table_of(results: Results, place: Place, jobs: Sequence[Job]) -> pd.DataFrame | None:
    spec, (key, checkpoint, dataset) = results.plan.spec, place
    full, task = results.full(key, checkpoint), results.plan.tasks[key[0]]
    split, there = task.splits[dataset], [job for job in jobs if results.there(job)]
    if full is None or not there:
        return None
    rows = drawn(split.frame, there[0].params["examples"], spec.seed)
    whole = results.logits(full, dataset)[rows]
    found: dict[Units, np.ndarray] = {}  # units -> (example, class)
    for entry in map(results.entry, there):
        found |= {tuple(units): logits for units, logits in zip(entry.meta["closed"], read_logits(entry), strict=True)}
    if not found:  # a core of fewer than two heads has no pairs
        return None
    right = {units: results.right(task.name, logits, dataset, rows) for units, logits in found.items()}
    cases = [(case, group, inside[rows]) for case, group, inside in parts(split) if inside[rows].any()]
    lists = {FOCUS if name == CHALLENGE else name: chosen for name, chosen in spec.focus.items()}
    inside = {n: split.cases.isin(chosen).to_numpy()[rows] for n, chosen in lists.items()} if split.cases is not None else {}
    cases += [(name, "", here) for name, here in inside.items() if here.any()]
    core, heads = results.core(key), results.units.layers * results.units.heads
    skills = answers_of(split, rows) if dataset in task.challenge else []
    table = ablation_rows(results.right(task.name, whole, dataset, rows), right, cases, core, heads, skills)
    apart = {" + ".join(units): kl(whole, logits) for units, logits in found.items()}  # (example,)
    if (table["units"] == OUTSIDE).any():
        apart[OUTSIDE] = np.mean([apart[unit] for unit in apart if HEAD.fullmatch(unit) and unit not in core], 0)
        apart[INSIDE] = np.mean([apart[unit] for unit in core], 0)
        apart[BEYOND] = apart[INSIDE] - apart[OUTSIDE]
    here = {("accuracy", case): inside for case, _, inside in cases}
    here |= {(BALANCED, skill): np.any(answers, 0) for skill, answers in skills}
    judged = zip(table["units"], table["metric"], table["case"], strict=True)
    asked = set_names(results, key, core)
    listed = {case: name for name, chosen in reversed(lists.items()) for case in (*chosen, name)}  # the first that has it
    return table.assign(
        kl=[float(apart[units][here[metric, case]].mean()) for units, metric, case in judged],
        set=table["units"].map({" + ".join(units): asked(units) for units in found}).fillna(""),
        focus=[listed.get(case, "") for case in table["case"]],
        task=key[0],
        tuning=key[1],
        checkpoint=checkpoint,
        dataset=dataset,
        domain=task.domain(dataset),
        ablate=spec.ablate,
    )


def set_names(results: Results, key: tuple[str, int], core: Sequence[str]) -> Callable[[Units], str]:
    """Units -> which of the sets that the study asks for they are, one or several; nothing for single ones."""
    wanted, part = results.plan.spec.ablations, results.plan.parts["ablations"]
    assert wanted is not None
    ranked = part.ranked.get(key)
    top = results.entry(ranked).meta["heads"][: wanted.top] if ranked and results.there(ranked) else []
    named = [unit_set(text, results.units.names) for text in wanted.named]

    def names(units: Units) -> str:
        inside = set(units) <= set(core)
        which = {CORE: inside and len(units) == len(core), f"top {wanted.top}": set(units) <= set(top)}
        which |= {"pair": inside and len(units) == 2, "named": units in named}
        return ", ".join(name for name, true in which.items() if true) if len(units) > 1 else ""

    return names


ABLATE = Kind("ablate", 1, "ablate units", "forward", 0.6, do_ablate)  # layers below are shared: bench/ablate.py
RANK = Kind("rank", 1, "rank the heads of the core", "second", 1.0, do_rank)
QUESTION = Question("ablations", lambda r: {"ablation": ablation_table(r)}, plan, (ABLATE, RANK))
