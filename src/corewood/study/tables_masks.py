"""Tables of the masks: which units are kept, how large a subnetwork is, what they share, how each was found."""

from __future__ import annotations

import numpy as np
import pandas as pd

from corewood.analyse.convergence import convergence
from corewood.analyse.core import Core, core
from corewood.analyse.generalisation import SEARCH
from corewood.analyse.heads import agreement, frequencies, overlap, rank_correlations
from corewood.model.mask import Mask
from corewood.study.results import Results, stack

SHARE = 0.75  # of the masks, for the looser definition of the core


def masks_table(results: Results, block: str | None = None) -> pd.DataFrame:
    columns = ["subnetwork", "block", "checkpoint", "nested", "target", "seed", "layer", "kind", "index", "kept"]
    tables = [
        results.masks[r.name].table().assign(
            subnetwork=r.name, block=r.block, checkpoint=r.checkpoint, nested=r.nested, target=r.target, seed=r.seed
        )
        for r in [*results.found, *results.grid]
        if block in (None, r.block)
    ]  # fmt: skip
    found = stack(tables)
    return pd.DataFrame(columns=columns) if found is None else found[columns]


def sizes_table(results: Results) -> pd.DataFrame | None:
    if not results.found:
        return None
    units = results.units
    whole = {"subnetwork": "full", "nested": False, "target": 0.0, "seed": 0, **units.full().sizes(units)}
    rows = [
        {"subnetwork": r.name, "nested": r.nested, "target": r.target, "seed": r.seed, **results.masks[r.name].sizes(units)}
        for r in results.found
    ]
    table = pd.DataFrame([whole, *rows])
    table["held_kl"] = table["subnetwork"].map(results.held)
    table["ended"] = table["subnetwork"].map(results.ended)
    table["held_best"] = table["held_kl"].groupby(table["target"]).transform("min")
    return table.assign(comparable=table["subnetwork"].isin(results.comparable.index[results.comparable]))


def convergence_table(results: Results) -> pd.DataFrame | None:
    """Whether the searches of one size ended equally well, and how much of their spread goes with that."""
    if not results.judged:
        return None
    return convergence(results.accuracy, results.held, results.targets, results.ended)


def core_table(results: Results) -> pd.DataFrame | None:
    """One row per definition, each with its nulls; the last is the paper's: heads in all masks of all sparsities."""
    if not results.found:
        return None
    by = {target: [results.masks[r.name] for r in rows] for target, rows in results.by_target().items()}
    rows = [core_row(f"all at {100 * target:g} %", core(masks)) for target, masks in by.items()]
    if len(by) > 1:
        rows[-1]["definition"] = f"all of the sparsest, {100 * max(by):g} %"
        every = [mask for masks in by.values() for mask in masks]
        if results.found[0].nested:  # those of one seed hold each other, so that all of them share what the sparsest share
            rows.append({**core_row("all", core(by[max(by)])), "masks": len(every)})
        else:
            rows.append(core_row(f"in at least {SHARE:.0%} of all", core(every, SHARE)))
            rows.append(core_row("all", core(every)))
    return pd.DataFrame(rows)


def rank_table(results: Results) -> pd.DataFrame | None:
    """Spearman's rho of head frequencies; nested masks go together by construction, so that its p means nothing."""
    if not results.found:
        return None
    table = rank_correlations(frequencies(masks_table(results, SEARCH)))
    return table.assign(p=np.nan) if results.found[0].nested else table


def core_row(definition: str, found: Core) -> dict[str, object]:
    return {
        "definition": definition,
        "masks": found.masks,
        "heads": len(found.heads),
        "expected": found.expected,
        "p": found.p,
        "expected_layers": found.expected_layers,
        "p_layers": found.p_layers,
        "mlps": len(found.mlps),
        "members": " ".join(found.heads),
    }


def core_over_training(results: Results) -> pd.DataFrame | None:
    """The heads that all seeds keep at a checkpoint, against those they keep at the last, sparsity by sparsity."""
    groups: dict[tuple[int, float], list[Mask]] = {}
    for row in results.grid:
        groups.setdefault((row.checkpoint, row.target), []).append(results.masks[row.name])
    checkpoints = sorted({c for c, _ in groups})
    if len(checkpoints) < 2:
        return None
    rows = []
    for (checkpoint, target), masks in sorted(groups.items()):
        last = groups.get((checkpoints[-1], target))
        if last is not None and len(masks) > 1 and len(last) > 1:
            here, there = core(masks, draws=1), core(last, draws=1)
            rows.append(
                {"checkpoint": checkpoint, "target": target, "nested": results.grid[0].nested, "seeds": len(masks),
                 **overlap(here.mask, there.mask), "members": " ".join(here.heads)}
            )  # fmt: skip
    return pd.DataFrame(rows) if rows else None


def agreement_table(results: Results) -> pd.DataFrame | None:
    tables = []
    for target, rows in results.by_target().items():
        if len(rows) > 1:
            table = agreement([results.masks[r.name] for r in rows]).assign(target=target, nested=rows[0].nested)
            names = pd.Series([r.name for r in rows])
            tables.append(table.assign(one=names[table["one"]].to_numpy(), other=names[table["other"]].to_numpy()))
    return stack(tables)


def trajectories_table(results: Results) -> pd.DataFrame | None:
    """One per search: a path's stands under the name of its last mask."""
    tables = []
    for row in results.found:
        assert row.search is not None
        if row.place < len(row.search.params["settings"]["path"]):
            continue
        table = pd.read_parquet(results.store.get("search", row.search.key).path("trajectory.parquet"))
        table.insert(0, "subnetwork", row.name)
        tables.append(table.assign(sparsity=row.target, seed=row.seed, nested=row.nested))
    return stack(tables)
