"""Two studies beside each other: their masks always, their answers where classes count as the same labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from corewood.analyse.ablation import paired_interval
from corewood.analyse.core import core
from corewood.analyse.stability import overlap, pair
from corewood.data.labels import fold_classes, normal
from corewood.errors import InputError
from corewood.evaluate.metrics import parts
from corewood.spec import StudySpec
from corewood.store.store import Store
from corewood.study.models import TaskPlan
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import holes_of
from corewood.study.subnetwork import PRUNE


@dataclass
class Comparison:
    scores: pd.DataFrame  # per dataset and case: the full models, their difference, and the means over subnetworks
    masks: pd.DataFrame  # per way and size: what their subnetworks share
    notes: list[str] = field(default_factory=list)  # what could not be compared, and why


def compare(one: StudySpec, other: StudySpec, bases: tuple[Path, Path], store: Store) -> Comparison:
    """Tasks are matched by name, or are the only ones; datasets by name. `one` and `other` must have been run."""
    plans = [make_plan(spec, base) for spec, base in zip((one, other), bases, strict=True)]
    results = [Results(plan, store, holes_of(plan, store)) for plan in plans]
    for found in results:
        if not any(found.full(key) for key in found.plan.models):
            raise InputError(
                f"{found.plan.spec.name}: its full model is not evaluated yet; run it first: corewood run STUDY.yaml"
            )
    notes: list[str] = []
    scores = pd.DataFrame([row for tasks in matched(results) for row in score_rows(results, tasks, notes)])
    masks = pd.DataFrame([row for tasks in matched(results) for row in mask_rows(results, tasks, notes)])
    if scores.empty and masks.empty:
        why = f" ({'; '.join(notes)})" if notes else ": tasks and datasets are matched by name"
        raise InputError(f"{one.name} and {other.name} have nothing in common{why}")
    return Comparison(scores, masks, notes)


Pair = tuple[TaskPlan, TaskPlan]


def matched(results: Sequence[Results]) -> list[Pair]:
    mine, theirs = (r.plan.tasks for r in results)
    if len(mine) == len(theirs) == 1:
        return [(next(iter(mine.values())), next(iter(theirs.values())))]
    return [(mine[name], theirs[name]) for name in mine if name in theirs]


def label_map(task: TaskPlan, dataset: str) -> dict[str, str]:
    """Class of the model -> label of the set it counts as, whatever their order."""
    split = task.splits[dataset]
    fold = fold_classes(task.classes, split)
    return {normal(name): normal(split.labels[place]) for name, place in zip(task.classes, fold, strict=True)}


def score_rows(results: Sequence[Results], tasks: Pair, notes: list[str]) -> Iterator[dict[str, object]]:
    """Where both studies judge the same examples the interval is paired; of several fine-tunings the mean is taken."""
    for name in [n for n in tasks[0].datasets if n in tasks[1].datasets]:
        if any(task.splits[name].regression for task in tasks):
            notes.append(f"{tasks[0].name}, {name}: labels are numbers, which are not right or wrong")
            continue
        if label_map(tasks[0], name) != label_map(tasks[1], name):
            shown = [
                f"{r.plan.spec.name}: {r.plan.mapping[r.plan.label(t.name, name)]}" for r, t in zip(results, tasks, strict=True)
            ]
            notes.append(
                f"{name}: the two studies count classes as labels differently ({'; '.join(shown)}), so their accuracies "
                "measure different things"
            )
            continue
        texts = [task.splits[name].frame.drop(columns=["label", "group"], errors="ignore") for task in tasks]
        same = texts[0].equals(texts[1])
        right = [full_answers(r, task, name) for r, task in zip(results, tasks, strict=True)]
        inside = [{case: members for case, _, members in parts(task.splits[name])} for task in tasks]
        for case in [c for c in inside[0] if c in inside[1]]:
            mine = [r[members[case]] for r, members in zip(right, inside, strict=True)]
            low, high = interval(mine[0], mine[1], same)
            row: dict[str, object] = {"task": tasks[0].name, "dataset": name, "case": case, "n": len(mine[0])}
            row |= {"one": float(mine[0].mean()), "other": float(mine[1].mean()), "low": low, "high": high, "paired": same}
            row["difference"] = float(mine[1].mean() - mine[0].mean())
            yield row | subnetwork_means(results, tasks, name, case)


def full_answers(results: Results, task: TaskPlan, dataset: str) -> np.ndarray:
    """(example,): the share of the task's full models that are right."""
    full = [results.full(key) for key in results.plan.models if key[0] == task.name]
    return np.asarray(np.mean([results.answers(row, dataset) for row in full if row is not None], axis=0))


def subnetwork_means(results: Sequence[Results], tasks: Pair, dataset: str, case: str) -> dict[str, float]:
    tables = []
    for r, task in zip(results, tasks, strict=True):
        table = r.scores
        own = (table["task"] == task.name) & (table["dataset"] == dataset) & (table["case"] == case)
        some = table[own & (table["question"] == PRUNE)]
        tables.append(some.groupby(["way", "prune", "target"])["value"].mean())
    both = [key for key in tables[0].index if key in tables[1].index]
    several = len({way for way, _, _ in both}) > 1
    found = {}
    for way, prune, target in both:
        what = f"{f'{way} ' if several else ''}{f'at {100 * target:g} %' if target else f'to a threshold ({prune})'}"
        for who, means in zip(("one", "other"), tables, strict=True):
            found[f"{who} {what}"] = float(means[way, prune, target])
    return found


def mask_rows(results: Sequence[Results], tasks: Pair, notes: list[str]) -> Iterator[dict[str, object]]:
    """How far masks of the one agree with masks of the other, and what their cores share, each beside chance."""
    mine, theirs = (
        {found.anywhere: list(by.values()) for found, by in r.raters.items() if found.task == task.name}
        for r, task in zip(results, tasks, strict=True)
    )
    for about in [found for found in mine if found in theirs]:
        shapes = [" x ".join(map(str, masks[about][0].heads.shape)) for masks in (mine, theirs)]
        if shapes[0] != shapes[1]:
            notes.append(f"{about.way}: masks of {shapes[0]} and {shapes[1]} heads")
            continue
        pairs = [pair(one.heads.ravel(), other.heads.ravel()) for one in mine[about] for other in theirs[about]]
        cores = overlap(core(mine[about], draws=1).mask, core(theirs[about], draws=1).mask)
        yield {
            "task": tasks[0].name,
            **{name: value for name, value in about.facts.items() if name != "task"},
            "one": len(mine[about]),
            "other": len(theirs[about]),
            **{name: float(np.mean([found[name] for found in pairs])) for name in ("jaccard", "jaccard_expected")},
            "core_one": cores["heads"],
            "core_other": cores["heads_last"],
            **{f"core_{name}": cores[name] for name in ("shared", "expected", "p")},
        }


def interval(one: np.ndarray, other: np.ndarray, paired: bool) -> tuple[float, float]:
    if paired:
        return paired_interval(other.astype(float) - one)
    from statsmodels.stats.proportion import confint_proportions_2indep
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    if np.isin(one, (0, 1)).all() and np.isin(other, (0, 1)).all():
        low, high = confint_proportions_2indep(other.sum(), len(other), one.sum(), len(one), method="newcomb")
    else:
        low, high = CompareMeans(DescrStatsW(other), DescrStatsW(one)).tconfint_diff(usevar="unequal")
    return float(low), float(high)
