"""Tables that compare answers example by example: between subnetworks, and with units of the full model removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.ablation import ablation_rows
from corewood.analyse.differences import corrected, pair_tests, size_effect, variance_split
from corewood.analyse.effective import effective_size
from corewood.analyse.generalisation import SEARCH
from corewood.data.read import drawn
from corewood.data.task import FOCUS
from corewood.evaluate.metrics import accuracy, parts
from corewood.study.results import Results, stack
from corewood.study.tables_masks import sizes_table
from corewood.study.work import read_logits


def answers(results: Results) -> Iterator[tuple[dict[str, Any], list[str], np.ndarray]]:
    """(what it is about, names, (subnetwork, example) right) for every sparsity with several subnetworks, case by case."""
    for target, rows in results.by_target().items():
        for dataset in results.plan.datasets if len(rows) > 1 else ():
            right = np.stack([results.right(results.logits(r, dataset), dataset) for r in rows])
            for case, group, inside in parts(results.plan.splits[dataset]):
                facts = {"target": target, "nested": rows[0].nested, "dataset": dataset, "case": case, "group": group}
                yield facts, [r.name for r in rows], right[:, inside]


def differences_table(results: Results) -> pd.DataFrame | None:
    """Paired tests between all subnetworks of one sparsity, per case, corrected over all of that sparsity."""
    table = stack([pair_tests(right, names).assign(**facts) for facts, names, right in answers(results)])
    if table is None:
        return None
    table = pd.concat([corrected(part) for _, part in table.groupby("target", sort=False)], ignore_index=True)
    first = ["target", "nested", "dataset", "case", "group"]
    return table[first + [c for c in table.columns if c not in first]]


def variance_table(results: Results) -> pd.DataFrame | None:
    rows = [
        {**facts, "n": right.shape[1], **variance_split(right)} for facts, _, right in answers(results) if right.shape[1] > 1
    ]
    return pd.DataFrame(rows) if rows else None


def size_effect_table(results: Results) -> pd.DataFrame | None:
    """Accuracy against size, where subnetworks of one target differ in it."""
    sizes = sizes_table(results)
    if sizes is None:
        return None
    rows = []
    for currency in ("units_share", "encoder_share"):
        size = sizes.set_index("subnetwork")[currency]
        table = results.accuracy[results.accuracy["block"] == SEARCH]
        for (target, dataset, case), part in table.groupby(["target", "dataset", "case"], sort=False):
            here = size[part["subnetwork"]].to_numpy()
            if len(set(here)) > 1:
                facts = {"target": target, "dataset": dataset, "case": case, "currency": currency}
                spans = {"smallest": here.min(), "largest": here.max()}
                rows.append({**facts, **spans, **size_effect(part["value"].to_numpy(), here)})
    return pd.DataFrame(rows) if rows else None


def effective_size_table(results: Results) -> pd.DataFrame | None:
    """Both orders, one-sided and two-sided; `chosen` marks the rule that the study asks for."""
    rule = results.plan.spec.effective_size
    if rule is None or not results.grid:
        return None
    table = results.accuracy
    table = table[table["block"].isin(["full", "effective_size"])]
    orders = ("accuracies", "seeds")
    made = [
        effective_size(table, rule.margin, order, two_sided, rule.mixed, results.plan.spec.focus)  # type: ignore[arg-type]
        for order in orders
        for two_sided in (False, True)
    ]
    found = stack(made)
    if found is None:
        return None
    chosen = (found["order"] == rule.order) & (found["two_sided"] == rule.two_sided)
    return found.assign(nested=results.grid[0].nested, margin=rule.margin, chosen=chosen)


def ablation_table(results: Results) -> pd.DataFrame | None:
    plan = results.plan
    full = plan.full
    there = [part for part in plan.ablations if part.job.title not in results.holes]
    tables = []
    for dataset in plan.datasets:
        mine = [part for part in there if part.dataset == dataset]
        if not mine or any(job.title in results.holes for job in full.jobs):
            continue
        assert plan.spec.ablations is not None
        split = plan.splits[dataset]
        rows = drawn(split.frame, plan.spec.ablations.examples, plan.spec.seed)
        right: dict[tuple[str, ...], np.ndarray] = {}
        for part in mine:
            entry = results.store.get("ablate", part.job.key)
            answers = results.right(read_logits(entry), dataset, rows)
            right |= {tuple(units): values for units, values in zip(entry.meta["closed"], answers, strict=True)}
        whole = results.right(results.logits(full, dataset)[rows], dataset, rows)
        cases = [(case, group, inside[rows]) for case, group, inside in parts(split) if inside[rows].any()]
        inside = split.cases.isin(plan.spec.focus).to_numpy()[rows] if split.cases is not None else np.zeros(0, bool)
        if inside.any():
            cases.insert(1, (FOCUS, "", inside))
        if not right:  # a core of fewer than two heads has no pairs
            continue
        domain = "in-domain" if dataset == "validation" else "challenge"
        table = ablation_rows(whole, right, cases, results.core, results.units.layers * results.units.heads)
        focus = table["case"].isin(plan.spec.focus)
        tables.append(table.assign(focus=focus, dataset=dataset, domain=domain, ablate=plan.spec.ablate))
    return stack(tables)


def ablated_values_table(results: Results) -> pd.DataFrame | None:
    """The same masks under every ablated value that the study asks for."""
    rows = [r for r in results.found if r.beside]
    columns = ["subnetwork", "target", "seed", "nested", "ablate", "dataset", "case", "domain"]
    tables = []
    for row in rows:
        every = {results.plan.spec.ablate: row.predictions, **row.beside}
        for value, jobs in every.items():
            if any(job.title in results.holes for job in jobs.values()):
                continue
            for dataset, job in jobs.items():
                logits = read_logits(results.store.get("predict", job.key))[row.place]
                facts: dict[str, Any] = {"subnetwork": row.name, "target": row.target, "seed": row.seed, "nested": row.nested}
                domain = "in-domain" if dataset == "validation" else "challenge"
                made = accuracy(logits, results.plan.splits[dataset], results.plan.classes)
                tables.append(made.assign(**facts, ablate=value, dataset=dataset, domain=domain))
    found = stack(tables)
    if found is None:
        return None
    return found[columns + [c for c in found.columns if c not in [*columns, "agreement", "kl"]]]
