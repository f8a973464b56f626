"""From finished jobs to the tidy tables: one row a fact, nothing that depends on when or where it was computed."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from corewood.analyse.core import Core, core
from corewood.analyse.generalisation import dynamics, effective_size, full_model, spread
from corewood.analyse.heads import agreement, frequencies, rank_correlations
from corewood.evaluate.metrics import accuracy
from corewood.model.mask import Mask, Units
from corewood.store.store import Store
from corewood.study.jobs import read_logits
from corewood.study.plan import Plan, Subnetwork

Tables = dict[str, pd.DataFrame]


def collect(plan: Plan, store: Store, holes: Mapping[str, str]) -> Tables:
    """All tables of a study. `holes` says why jobs are missing, by title."""
    rows = [row for row in plan.subnetworks if not any(job.title in holes for job in row.jobs)]
    found = [row for row in rows if row.search is not None]
    masks = {row.name: read_mask(row, store) for row in found}
    tables: Tables = {"accuracy": accuracy_table(plan, store, rows)}
    columns = ["subnetwork", "target", "seed", "layer", "kind", "index", "kept"]
    tables["masks"] = stack(
        [masks[r.name].table().assign(subnetwork=r.name, target=r.target, seed=r.seed) for r in found], columns
    )
    if found:
        job = found[0].predictions[plan.datasets[0]]
        units = Units(**store.get(job.kind, job.key).meta["units"])
        tables["sizes"] = sizes_table(found, masks, units)
        tables["frequencies"] = frequencies(tables["masks"])
        tables["rank_correlations"] = rank_correlations(tables["frequencies"])
        tables["core"] = core_table(found, masks)
        tables["agreement"] = agreement_table(found, masks)
        tables["trajectories"] = stack([trajectory(row, store) for row in found])
        if not full_model(tables["accuracy"]).empty:
            tables["spread"] = spread(tables["accuracy"])
            tables["effective_size"] = effective_size(tables["accuracy"])
    if tables["accuracy"]["checkpoint"].nunique() > 1:
        tables["dynamics"] = dynamics(tables["accuracy"])
    tables["holes"] = pd.DataFrame(sorted(holes.items()), columns=["job", "reason"]).astype(str)
    return tables


def stack(parts: list[pd.DataFrame], columns: list[str] | None = None) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    return table if columns is None else table[columns]


def read_mask(row: Subnetwork, store: Store) -> Mask:
    assert row.search is not None
    return Mask.load(store.get("search", row.search.key).path("mask.safetensors"))


def trajectory(row: Subnetwork, store: Store) -> pd.DataFrame:
    assert row.search is not None
    table = pd.read_parquet(store.get("search", row.search.key).path("trajectory.parquet"))
    table.insert(0, "subnetwork", row.name)
    return table.assign(sparsity=row.target, seed=row.seed)


def accuracy_table(plan: Plan, store: Store, rows: list[Subnetwork]) -> pd.DataFrame:
    first = ["study", "model", "checkpoint", "method", "target", "seed", "subnetwork", "dataset", "case", "domain"]
    parts = []
    for dataset in plan.datasets:
        split = plan.splits[dataset]
        logits = [(row, read_logits(store.get("predict", row.predictions[dataset].key))) for row in rows]
        full = {row.checkpoint: values for row, values in logits if row.search is None}
        for row, values in logits:
            beside = None if row.search is None else full.get(row.checkpoint)
            parts.append(
                accuracy(values, split, plan.classes, beside).assign(
                    study=plan.spec.name,
                    model=plan.spec.model.checkpoint,
                    checkpoint=row.checkpoint,
                    method=row.method,
                    target=row.target,
                    seed=row.seed,
                    subnetwork=row.name,
                    dataset=dataset,
                    domain="in-domain" if dataset == "validation" else "challenge",
                )
            )
    table = stack(parts, None)
    return table[first + [c for c in table.columns if c not in first]] if parts else pd.DataFrame(columns=[*first, "value"])


def sizes_table(rows: list[Subnetwork], masks: Mapping[str, Mask], units: Units) -> pd.DataFrame:
    whole = {"subnetwork": "full", "target": 0.0, "seed": 0, **units.full().sizes(units)}
    return pd.DataFrame(
        [whole, *({"subnetwork": r.name, "target": r.target, "seed": r.seed, **masks[r.name].sizes(units)} for r in rows)]
    )


def core_table(rows: list[Subnetwork], masks: Mapping[str, Mask]) -> pd.DataFrame:
    """One row per definition: all masks of each sparsity, and all of all sparsities."""
    targets = sorted({row.target for row in rows})
    of: dict[str, list[Mask]] = {f"all at {100 * t:g} %": [masks[r.name] for r in rows if r.target == t] for t in targets}
    if len(targets) > 1:
        of["all"] = [masks[r.name] for r in rows]
    return pd.DataFrame([core_row(name, core(group)) for name, group in of.items()])


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


def agreement_table(rows: list[Subnetwork], masks: Mapping[str, Mask]) -> pd.DataFrame:
    parts = []
    for target in sorted({row.target for row in rows}):
        names = [row.name for row in rows if row.target == target]
        if len(names) > 1:
            table = agreement([masks[n] for n in names]).assign(target=target)
            parts.append(table.assign(one=table["one"].map(lambda i: names[i]), other=table["other"].map(lambda i: names[i])))  # noqa: B023
    return stack(parts)
