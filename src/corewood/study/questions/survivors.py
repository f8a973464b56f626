"""Which units survive, how stable that is over seeds, and how far two seeds agree (LT, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.stability import pairs, unit_stability
from corewood.analyse.tickets import survivors
from corewood.model.mask import Mask, Masks
from corewood.study.entries import read_shares
from corewood.study.questions.core import ACROSS
from corewood.study.questions.question import Question
from corewood.study.results import Found, Rater, Results, stack

ALL_TASKS = "all tasks"
PRUNED_KINDS = {"both": ("head", "mlp"), "heads": ("head",), "mlps": ("mlp",)}


def survivors_table(results: Results) -> pd.DataFrame | None:
    """Per task and way, and over tasks: how often each unit survives, or the share of its weights that do."""
    tables = [
        survivors({"head": Masks(list(by.values())).heads, "mlp": Masks(list(by.values())).mlps}).assign(**found.facts)
        for found, by in results.raters.items()
    ]
    weights = weight_shares(results)
    tables += [survivors(by_kind(by.values())).assign(**found.facts) for found, by in weights.items()]
    found = stack(tables)
    if found is None:
        return None
    every = [found, *over_tasks(results, weights)]
    columns = ["task", "way", "prune", "target", "kind", "layer", "index", "mean", "std", "seeds"]
    return pd.concat(every, ignore_index=True)[columns]


Shares = dict[str, np.ndarray]


def weight_shares(results: Results) -> dict[Found, dict[Rater, Shares]]:
    found: dict[Found, dict[Rater, Shares]] = {}
    for row in results.rows:
        if row.of_weights and row.question == "prune" and row.way == "magnitude":
            key = Found(row.task, row.way, row.prune, row.target)
            found.setdefault(key, {})[row.tuning, row.seed] = read_shares(results.entry(row.masks))
    return found


def by_kind(shares: Iterable[Shares]) -> dict[str, np.ndarray]:
    """Kind -> (seed, layer[, head])"""
    every = list(shares)
    return {kind: np.stack([s[name] for s in every]) for kind, name in (("head", "heads"), ("mlp", "mlps"))}


def over_tasks(results: Results, weights: Mapping[Found, Mapping[Rater, Shares]]) -> list[pd.DataFrame]:
    """Figure 15: in how many tasks each unit survives, over the seeds that all tasks have; weights as their mean share."""
    made = []
    for about in dict.fromkeys(found.anywhere for found in (*results.raters, *weights)):
        of_units = {f.task: by for f, by in results.raters.items() if f.anywhere == about}
        of_weights = {f.task: by for f, by in weights.items() if f.anywhere == about}
        by_task: dict[str, Any] = of_units or of_weights
        seeds = common(by_task)
        if len(by_task) < 2 or not seeds:
            continue
        if of_units:
            counts = {
                kind: np.stack([sum(getattr(by[s], part).astype(int) for by in of_units.values()) for s in seeds])
                for kind, part in (("head", "heads"), ("mlp", "mlps"))
            }
        else:
            of_task = [by_kind(by[s] for s in seeds) for by in of_weights.values()]
            counts = {kind: np.mean([v[kind] for v in of_task], axis=0) for kind in ("head", "mlp")}
        made.append(survivors(counts).assign(**{**about.facts, "task": ALL_TASKS}))
    return made


def common(by_task: Mapping[str, Mapping[Rater, Any]]) -> list[Rater]:
    """Seeds that no task lacks, so that tasks can be compared seed by seed."""
    first = next(iter(by_task.values()), {})
    return [seed for seed in first if all(seed in by for by in by_task.values())]


def kinds_of(masks: list[Mask]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """kind -> ((mask, unit) kept, (unit,) layer)"""
    pack = Masks(masks)
    layers, heads = pack.heads.shape[1:]
    return {
        "head": (pack.heads.reshape(len(pack), -1), np.repeat(np.arange(layers), heads)),
        "mlp": (pack.mlps, np.arange(layers)),
    }


def comparisons(results: Results) -> list[tuple[dict[str, Any], dict[int, Mask]]]:
    """What is compared over seeds: the searches of each model and, of several models, the first search of each."""
    made = []
    for found, by in results.raters.items():
        tunings = list(dict.fromkeys(tuning for tuning, _ in by))
        for tuning in tunings:
            mine = {seed: mask for (t, seed), mask in by.items() if t == tuning}
            if len(mine) > 1:
                made.append(({**found.facts, "over": "searches", "tuning": tuning}, mine))
        if len(tunings) > 1:
            firsts = {tuning: next(mask for (t, _), mask in by.items() if t == tuning) for tuning in tunings}
            made.append(({**found.facts, "over": "fine-tunings", "tuning": ACROSS}, firsts))
    return made


def stability_table(results: Results) -> pd.DataFrame | None:
    rows: list[dict[str, Any]] = []
    for facts, by in comparisons(results):
        kinds = kinds_of(list(by.values()))
        for kind, (kept, strata) in ((k, kinds[k]) for k in PRUNED_KINDS[facts["prune"]]):
            rows.append({**facts, "kind": kind, **unit_stability(kept, strata).row()})
    return pd.DataFrame(rows) if rows else None


def pairs_table(results: Results) -> pd.DataFrame | None:
    tables = []
    for facts, by in comparisons(results):
        kinds = kinds_of(list(by.values()))
        for kind, (kept, _) in ((k, kinds[k]) for k in PRUNED_KINDS[facts["prune"]]):
            tables.append(pairs(kept, list(by)).assign(**facts, kind=kind))
    return stack(tables)


QUESTION = Question(
    "survivors",
    lambda r: {"survivors": survivors_table(r), "stability": stability_table(r), "stability_pairs": pairs_table(r)},
)
