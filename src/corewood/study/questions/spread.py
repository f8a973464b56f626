"""The same in domain, different outside: how far subnetworks of one size lie apart, and which differences are real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.differences import corrected, pair_tests, size_effect, variance_split
from corewood.analyse.generalisation import spread
from corewood.analyse.skills import skill_changes, skill_differences
from corewood.study.entries import read_logits
from corewood.study.models import VALIDATION
from corewood.study.results import Group, Question, in_front, stack
from corewood.study.subnetwork import PRUNE


def spread_table(group: Group) -> pd.DataFrame | None:
    return spread(group.every_score, group.comparable, apart(group)) if group.judged else None


def apart(group: Group) -> set[frozenset[str]]:
    """Pairs that differ in domain by more than chance."""
    tests = stack([pair_tests(right, names) for facts, names, right in answers(group) if facts["dataset"] == VALIDATION])
    if tests is None:
        return set()
    real = corrected(tests)
    return {frozenset((row["one"], row["other"])) for _, row in real[real["real"]].iterrows()}


def skills_table(group: Group) -> pd.DataFrame | None:
    """Of every size: the full model's skills, its subnetworks', and how far they are from each other."""
    results, task = group.results, group.model.task
    tables = []
    for target, rows in group.by_target().items():
        full = results.full(group.model.key, rows[0].checkpoint)
        for dataset in task.challenge if full is not None else ():
            every = np.stack([results.logits(r, dataset) for r in [full, *rows] if r])  # (model, example, class)
            made = skill_changes(every[0], every[1:], task.splits[dataset], task.classes)
            tables.append(made.assign(target=target, dataset=dataset))
    found = stack(tables)
    return None if found is None else in_front(["target", "dataset"], found)


def skill_differences_table(group: Group) -> pd.DataFrame | None:
    """Of every two subnetworks of a size: which tells the answers of a skill apart better."""
    task, tables = group.model.task, []
    for target, rows in group.by_target().items():
        for dataset in task.challenge if len(rows) > 1 and not task.regression else ():
            every = np.stack([group.results.logits(r, dataset) for r in rows])  # (subnetwork, example, class)
            made = skill_differences(every, [r.name for r in rows], task.splits[dataset], task.classes)
            tables.append(made.assign(target=target, dataset=dataset))
    found = stack(tables)
    return None if found is None else in_front(["target", "dataset"], found)


def answers(group: Group) -> Iterator[tuple[dict[str, Any], list[str], np.ndarray]]:
    """(what it is about, names, (subnetwork, example) right) for every sparsity with several subnetworks, case by case."""
    for target, rows in group.by_target().items():
        for dataset in group.model.task.datasets if len(rows) > 1 and not group.model.task.regression else ():
            right = np.stack([group.results.answers(r, dataset) for r in rows])
            for case, kind, inside in group.results.judge(rows[0].task, dataset).parts:
                facts = {"target": target, "nested": rows[0].nested, "dataset": dataset, "case": case, "group": kind}
                yield facts, [r.name for r in rows], right[:, inside]


def differences_table(group: Group) -> pd.DataFrame | None:
    """Paired tests between all subnetworks of one sparsity, per case, corrected over all of that sparsity."""
    table = stack([pair_tests(right, names).assign(**facts) for facts, names, right in answers(group)])
    if table is None:
        return None
    table = pd.concat([corrected(part) for _, part in table.groupby("target", sort=False)], ignore_index=True)
    return in_front(["target", "nested", "dataset", "case", "group"], table)


def variance_table(group: Group) -> pd.DataFrame:
    several = [(facts, right) for facts, _, right in answers(group) if right.shape[1] > 1]
    return pd.DataFrame({**facts, "n": right.shape[1], **variance_split(right)} for facts, right in several)


def size_effect_table(group: Group) -> pd.DataFrame:
    """Accuracy against size, where subnetworks of one target differ in it."""
    rows = []
    units = group.results.units
    for currency in ("units_share", "encoder_share"):
        size = pd.Series({r.name: group.masks[r.name].sizes(units)[currency] for r in group.found})
        table = group.accuracy[group.accuracy["question"] == PRUNE]
        for (target, dataset, case), part in table.groupby(["target", "dataset", "case"], sort=False):
            here = size[part["subnetwork"]].to_numpy()
            if len(set(here)) > 1:
                facts = {"target": target, "dataset": dataset, "case": case, "currency": currency}
                spans = {"smallest": here.min(), "largest": here.max()}
                rows.append({**facts, **spans, **size_effect(part["value"].to_numpy(), here)})
    return pd.DataFrame(rows)


def ablated_values_table(group: Group) -> pd.DataFrame | None:
    """The same masks under every ablated value that the study asks for."""
    columns = ["subnetwork", "target", "seed", "nested", "ablate", "dataset", "case", "domain"]
    results, task = group.results, group.model.task
    tables = []
    for row in [r for r in group.found if r.beside]:
        facts: dict[str, Any] = {"subnetwork": row.name, "target": row.target, "seed": row.seed, "nested": row.nested}
        every = {results.plan.spec.ablate: row.predictions, **row.beside}
        for value, jobs in every.items():
            for dataset, job in jobs.items() if all(map(results.there, jobs.values())) else ():
                logits = read_logits(results.entry(job))[row.place]
                made = results.judge(row.task, dataset).accuracy(logits)
                tables.append(made.assign(**facts, ablate=value, dataset=dataset, domain=task.domain(dataset)))
    found = stack(tables)
    return None if found is None else in_front(columns, found.drop(columns=["agreement", "kl"], errors="ignore"))


QUESTION = Question(
    "spread",
    lambda r: {
        "spread": r.each(spread_table),
        "skills": r.each(skills_table),
        "skill_differences": r.each(skill_differences_table),
        "differences": r.each(differences_table),
        "variance": r.each(variance_table),
        "size_effect": r.each(size_effect_table),
        "ablated_values": r.each(ablated_values_table),
    },
)
