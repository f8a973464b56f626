"""The heads that every subnetwork keeps, how often each survives, and how far two masks agree."""

from __future__ import annotations

from functools import reduce
from operator import and_

import numpy as np
import pandas as pd

from corewood.analyse.core import Core, core, frequencies, rank_correlations
from corewood.analyse.stability import agreement, overlap
from corewood.model.mask import Mask
from corewood.study.results import Group, Question, Results, stack
from corewood.study.subnetwork import GIVEN, PINNED

SHARE = 0.75  # of the masks, for the looser definition of the core
# what `overlap` says, beside the core of the study
OF_STUDY = {
    "heads_last": "heads_core", "shared": "shared_core", "share_of_last": "share_of_core", "jaccard": "jaccard_core",
    "expected": "expected_core", "p": "p_core", "expected_layers": "expected_core_layers", "p_layers": "p_core_layers",
}  # fmt: skip
CHANCE = ("expected", "p", "expected_layers", "p_layers")
ACROSS = -1  # as the seed of a fine-tuning: all of them


def frequencies_table(group: Group) -> pd.DataFrame:
    tables = [
        group.masks[r.name].table().assign(subnetwork=r.name, target=r.target, nested=r.nested, seed=r.seed)
        for r in group.found
    ]
    return frequencies(pd.concat(tables, ignore_index=True))


def core_table(group: Group) -> pd.DataFrame:
    """One row per definition, each with its nulls; the last is the paper's: heads in all masks of all sparsities."""
    by = {target: [group.masks[r.name] for r in rows] for target, rows in group.by_target().items()}
    names = {target: f"all at {100 * target:g} %" if target else "all that were pruned to a threshold" for target in by}
    if len(by) > 1:
        sparsest = min(by, key=lambda target: np.mean([len(mask) for mask in by[target]]))
        names[sparsest] = names[sparsest].replace("all at", "all of the sparsest,")
    rows = [core_row(names[target], core(masks)) for target, masks in by.items()]
    if len(by) > 1:
        every = independent(group)
        if len(every) < len(group.found):
            rows.append({**core_row("all", core(every)), "masks": len(group.found)})
        else:
            rows.append(core_row(f"in at least {SHARE:.0%} of all", core(every, SHARE)))
            rows.append(core_row("all", core(every)))
    table = pd.DataFrame(rows)
    return table.assign(**dict.fromkeys(CHANCE, np.nan)) if group.way in PINNED else table


def independent(group: Group) -> list[Mask]:
    """Nested masks of one seed hold each other, so that all of them share what the sparsest share."""
    sparsest = max(r.target for r in group.found)
    return [group.masks[r.name] for r in group.found if not r.nested or r.target == sparsest]


def rank_table(group: Group) -> pd.DataFrame:
    """Spearman's rho of head frequencies; nested masks go together by construction, so that its p means nothing."""
    table = rank_correlations(frequencies_table(group))
    return table.assign(p=np.nan) if group.found[0].nested else table


def core_row(definition: str, found: Core) -> dict[str, object]:
    chance = {name: getattr(found, name) for name in CHANCE}
    row = {"definition": definition, "masks": found.masks, "heads": len(found.heads), **chance}
    return {**row, "mlps": len(found.mlps), "members": " ".join(found.heads)}


def across_tunings(results: Results) -> pd.DataFrame | None:
    """The core within each fine-tuning, what all of these cores share, and the heads in every mask of every fine-tuning.

    The last two are the same heads, and chance is that of the first: masks of one model resemble each other, so that shuffling
    each of them alone would make any core common to several models look like more than chance.
    """
    rows = []
    for task, way in dict.fromkeys((g.model.task.name, g.way) for g in results.groups if g.found and g.way != GIVEN):
        groups = [g for g in results.groups if g.found and (g.model.task.name, g.way) == (task, way)]
        own = {g.model.tuning: independent(g) for g in groups}
        if len(own) < 2:
            continue
        every = {g.model.tuning: len(g.found) for g in groups}
        found = [(tuning, "all", masks, every[tuning]) for tuning, masks in own.items()]
        all_masks = [mask for masks in own.values() for mask in masks]
        found.append((ACROSS, "all of all fine-tunings", all_masks, sum(every.values())))
        found.append((ACROSS, "in the core of every fine-tuning", [reduce(and_, masks) for masks in own.values()], len(own)))
        made = [
            {"task": task, "way": way, "tuning": t, **core_row(what, core(masks)), "masks": count}
            for t, what, masks, count in found
        ]
        made[-2] |= {name: made[-1][name] for name in CHANCE}
        rows += [row | dict.fromkeys(CHANCE, np.nan) for row in made] if way in PINNED else made
    return pd.DataFrame(rows) if rows else None


def agreement_table(group: Group) -> pd.DataFrame | None:
    tables = []
    for target, rows in group.by_target().items():
        if len(rows) > 1 and group.way not in PINNED:
            table = agreement([group.masks[r.name] for r in rows]).assign(target=target, nested=rows[0].nested)
            names = pd.Series([r.name for r in rows])
            tables.append(table.assign(one=names[table["one"]].to_numpy(), other=names[table["other"]].to_numpy()))
    return stack(tables)


def core_over_training(group: Group) -> pd.DataFrame:
    """The heads that all seeds keep at a checkpoint, one or several, sparsity by sparsity: against those they keep at the last,
    and against the core of what the study searched there."""
    groups: dict[tuple[int, float], list[Mask]] = {}
    for row in group.grid:
        groups.setdefault((row.checkpoint, row.target), []).append(group.masks[row.name])
    checkpoints = sorted({c for c, _ in groups})
    own = group.results.core(group.model.key)
    units = group.results.units
    study = units.from_vector(np.isin(units.names, own))
    rows = []
    for (checkpoint, target), masks in sorted(groups.items()) if len(checkpoints) > 1 else ():
        last = groups.get((checkpoints[-1], target))
        if last is not None:
            here, there = reduce(and_, masks), reduce(and_, last)
            facts = {"checkpoint": checkpoint, "target": target, "nested": group.grid[0].nested, "seeds": len(masks)}
            beside = overlap(here, study) if own else dict.fromkeys(OF_STUDY, np.nan)
            facts |= overlap(here, there) | {new: beside[old] for old, new in OF_STUDY.items()}
            rows.append({**facts, "members": " ".join(name for name in here if ".H" in name)})
    return pd.DataFrame(rows)


QUESTION = Question(
    "core",
    lambda r: {
        "core": r.each(core_table),
        "core_tunings": across_tunings(r),
        "core_over_training": r.each(core_over_training, grid=True),
        "frequencies": r.each(frequencies_table),
        "rank_correlations": r.each(rank_table),
        "agreement": r.each(agreement_table),
    },
)
