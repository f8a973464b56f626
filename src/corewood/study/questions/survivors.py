"""Which units survive, how stable that is over seeds, and how far two seeds agree (LT, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.stability import pairs, unit_stability
from corewood.analyse.tickets import survivors
from corewood.model.mask import Mask, Masks
from corewood.study.entries import read_shares
from corewood.study.questions.core import ACROSS
from corewood.study.results import Found, Question, Rater, Results, by_seeds, stack
from corewood.study.subnetwork import GIVEN, MAGNITUDE, PINNED, PRUNE

ALL_TASKS = "all tasks"
PRUNED_KINDS = {"both": ("head", "mlp"), "heads": ("head",), "mlps": ("mlp",)}
# heads (layer, head) and mlps (layer,): whether each is kept, or the share of its weights that are
Parts = dict[str, np.ndarray]


def survivors_table(results: Results) -> pd.DataFrame | None:
    """Per task and way, and over tasks: how often each unit survives, or the share of its weights that do."""
    magnitude = [r for r in results.rows if r.way == MAGNITUDE and r.question == PRUNE]
    every: dict[Found, dict[Rater, Parts]] = by_seeds(magnitude, lambda row: read_shares(results.entry(row.masks)))
    every = {found: {seed: vars(mask) for seed, mask in by.items()} for found, by in results.raters.items()} | every
    if not every:
        return None
    tables = [survivors(by_kind(by.values())).assign(**found.facts) for found, by in every.items()]
    columns = ["task", "way", "prune", "target", "kind", "layer", "index", "mean", "std", "seeds"]
    return pd.concat([*tables, *over_tasks(every)], ignore_index=True)[columns]


def by_kind(every: Iterable[Parts]) -> dict[str, np.ndarray]:
    """Kind -> (seed, layer[, head])"""
    found = list(every)
    return {kind: np.stack([parts[name] for parts in found]) for kind, name in (("head", "heads"), ("mlp", "mlps"))}


def over_tasks(every: Mapping[Found, Mapping[Rater, Parts]]) -> Iterator[pd.DataFrame]:
    """Figure 15: in how many tasks each unit survives, over the seeds that all tasks have; weights as their mean share."""
    for about in dict.fromkeys(found.anywhere for found in every if found.way != GIVEN):
        by_task = {found.task: by for found, by in every.items() if found.anywhere == about}
        seeds = common(by_task)
        if len(by_task) > 1 and seeds:
            of_task = [by_kind(by[seed] for seed in seeds) for by in by_task.values()]
            over = np.mean if about.prune == "weights" else np.sum
            counts = {kind: over([found[kind] for found in of_task], axis=0) for kind in ("head", "mlp")}
            yield survivors(counts).assign(**{**about.facts, "task": ALL_TASKS})


def common(by_task: Mapping[str, Mapping[Rater, Any]]) -> list[Rater]:
    """Seeds that no task lacks, so that tasks can be compared seed by seed."""
    first = next(iter(by_task.values()), {})
    return [seed for seed in first if all(seed in by for by in by_task.values())]


def comparisons(results: Results) -> Iterator[tuple[dict[str, Any], list[int], np.ndarray, np.ndarray]]:
    """(what it is about, seeds, (mask, unit) kept, (unit,) layer) of what is compared over seeds.

    That is the searches of each model and, of several models, the first search of each. Not searches that were told to hold or
    to leave out units: in these all agree, whatever they are.
    """
    for found, by in results.raters.items():
        if found.way in PINNED:
            continue
        of_model: dict[int, dict[int, Mask]] = {}
        for (tuning, seed), mask in by.items():
            of_model.setdefault(tuning, {})[seed] = mask
        sets = [("searches", tuning, masks) for tuning, masks in of_model.items()]
        firsts = {tuning: next(iter(masks.values())) for tuning, masks in of_model.items()}
        for over, tuning, masks in [*sets, ("fine-tunings", ACROSS, firsts if found.way != GIVEN else {})]:
            if len(masks) < 2:
                continue
            pack = Masks(list(masks.values()))
            layers, heads = pack.heads.shape[1:]
            head = pack.heads.reshape(len(pack), -1), np.repeat(np.arange(layers), heads)
            units = {"head": head, "mlp": (pack.mlps, np.arange(layers))}
            for kind in PRUNED_KINDS[found.prune]:
                yield {**found.facts, "over": over, "tuning": tuning, "kind": kind}, list(masks), *units[kind]


def stability_table(results: Results) -> pd.DataFrame | None:
    rows = [{**facts, **unit_stability(kept, layers).row()} for facts, _, kept, layers in comparisons(results)]
    return pd.DataFrame(rows) if rows else None


def pairs_table(results: Results) -> pd.DataFrame | None:
    return stack([pairs(kept, seeds).assign(**facts) for facts, seeds, kept, _ in comparisons(results)])


QUESTION = Question(
    "survivors",
    lambda r: {"survivors": survivors_table(r), "stability": stability_table(r), "stability_pairs": pairs_table(r)},
)
