"""The core alone: which answers it gives, beside the full model, L0 masks and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.data.labels import fold_classes
from corewood.evaluate.metrics import predicted
from corewood.study.results import Question, Results
from corewood.study.subnetwork import AROUND, CORE, FULL, L0, PRUNE, RANDOM, Subnetwork

SHOWN = (CORE, AROUND, L0, RANDOM)


def core_alone_table(results: Results) -> pd.DataFrame | None:
    """Per way and size, dataset and label: how often it is answered, and how often that is right; means over subnetworks."""
    rows = []
    for key, model in results.plan.models.items():
        mine = [r for r in results.rows if r.model == key and r.question == PRUNE and r.way in SHOWN and r.prune == "both"]
        full = results.full(key)
        if full is None or not any(r.way == CORE for r in mine):
            continue
        kinds: dict[tuple[str, float], list[Subnetwork]] = {(FULL, 0.0): [full]}
        for row in sorted(mine, key=lambda r: SHOWN.index(r.way)):
            kinds.setdefault((row.way, row.target), []).append(row)
        for (way, target), found in kinds.items():
            facts = {"task": key[0], "tuning": key[1], "way": way, "target": target, "subnetworks": len(found)}
            facts |= size(results, found)
            rows += [{**facts, **row} for dataset in model.task.datasets for row in by_label(results, found, dataset)]
    return pd.DataFrame(rows) if rows else None


def size(results: Results, found: list[Subnetwork]) -> dict[str, float]:
    masks = [results.units.full() if row.masks is None else results.mask(row) for row in found]
    return {name: float(np.mean([getattr(mask, name).sum() for mask in masks])) for name in ("heads", "mlps")}


def by_label(results: Results, found: list[Subnetwork], dataset: str) -> list[dict[str, Any]]:
    """`value`: accuracy on the whole set; `right`: on its examples whose answer is the label."""
    task = results.plan.tasks[found[0].task]
    split = task.splits[dataset]
    fold = fold_classes(task.classes, split)
    said = np.stack([predicted(results.logits(row, dataset), fold) for row in found])  # (subnetwork, example)
    right = said == split.gold
    rows = []
    for place, label in enumerate(split.labels):
        gold = split.gold == place
        facts = {"dataset": dataset, "domain": task.domain(dataset), "label": label, "n": int(gold.sum())}
        facts |= {"answered": float((said == place).mean()), "value": float(right.mean())}
        rows.append({**facts, "right": float(right[:, gold].mean()) if gold.any() else np.nan})
    return rows


QUESTION = Question("core_alone", lambda r: {"core_alone": core_alone_table(r)})
