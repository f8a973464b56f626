"""What every subnetwork is: its scores, its mask, its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.generalisation import ONE_ANSWER
from corewood.data.labels import fold_classes
from corewood.evaluate.metrics import predicted
from corewood.study.entries import read_masks
from corewood.study.models import VALIDATION
from corewood.study.results import Question, Results, in_front, stack
from corewood.study.subnetwork import FACTS, FULL, RETRAINED, Subnetwork

ABOUT = tuple(name for name in FACTS if name not in ("state", "epochs"))  # what a mask is about


def about(row: Subnetwork) -> dict[str, Any]:
    return {"subnetwork": row.name, **{name: getattr(row, name) for name in ABOUT}}


def masks_table(results: Results) -> pd.DataFrame | None:
    """One row per unit."""
    rows = [r for r in results.rows if r.masks is not None and not r.of_weights and r.state != RETRAINED]
    found = stack([results.mask(r).table().assign(**about(r)) for r in rows])
    return None if found is None else in_front(["subnetwork", *ABOUT], found)


def sizes_table(results: Results) -> pd.DataFrame | None:
    """One row per mask: what stays, how much of it is in the good one, and how well its search ended."""
    rows = [
        size(results, row) | {"answer_share": most_given(results, row)[1]} for row in results.rows if row.state != RETRAINED
    ]
    if not any(row["way"] != FULL for row in rows):
        return None
    table = pd.DataFrame(rows)
    for name in ("held", "unseen", "ended", "comparable"):
        said = {(*group.model.key, n): v for group in results.groups for n, v in getattr(group, name).items()}
        keys = zip(table["task"], table["tuning"], table["subnetwork"], strict=True)
        table[{"held": "held_kl", "unseen": "unseen_kl"}.get(name, name)] = [said.get(key) for key in keys]
    return table.astype({"held_kl": float, "unseen_kl": float})


def most_given(results: Results, row: Subnetwork) -> tuple[str, float]:
    """The answer that it gives most often on the validation set, and the share of texts that get it; numbers are no answers."""
    task = results.plan.tasks[row.task]
    split = task.splits[VALIDATION]
    if split.regression:
        return "", np.nan
    said = predicted(results.logits(row, VALIDATION), fold_classes(task.classes, split))
    counts = np.bincount(said, minlength=len(split.labels))
    return split.labels[counts.argmax()], counts.max() / len(said)


def size(results: Results, row: Subnetwork) -> dict[str, Any]:
    units = results.units
    if row.masks is None:
        return {**about(row), **units.full().sizes(units)}
    entry = results.entry(row.masks)
    if row.of_weights:
        kept, shared, total = (entry.meta[name] for name in ("weights", "shared", "total"))
        left = units.encoder_parameters - (total - kept)
        facts = {"weights": kept, "encoder_share": left / units.encoder_parameters}
        return {**about(row), **facts, "in_good": share(shared, kept)}
    mask = read_masks(entry)[row.place]
    inside = mask & (read_masks(results.entry(row.good))[row.good_place] if row.good is not None else mask)
    shares = {
        "heads_in_good": share(inside.heads.sum(), mask.heads.sum()),
        "mlps_in_good": share(inside.mlps.sum(), mask.mlps.sum()),
        "in_good": share(len(inside), len(mask)),
    }
    return {**about(row), **mask.sizes(units), **shares}


def share(part: int, whole: int) -> float:
    return int(part) / int(whole) if whole else np.nan


def models_table(results: Results) -> pd.DataFrame | None:
    """One row per full model: whether it has learnt its task, by its score on the validation set.

    It has where the interval of its score lies above what one and the same answer gets (accuracy), or above zero
    (correlations), and where it does not give one answer nearly always.
    """
    rows = []
    for key, model in results.plan.models.items():
        full = results.full(key)
        if full is None:
            continue
        task, split = model.task, model.task.splits[VALIDATION]
        scores = results.scored(full, VALIDATION).iloc[0]
        facts = {"task": key[0], "tuning": key[1], "metric": task.metric, **scores[["value", "low", "high", "n"]]}
        answer, answer_share = most_given(results, full)
        facts |= {"floor": 0.0, "answer": answer, "answer_share": answer_share}
        if task.metric == "accuracy":
            facts["floor"] = np.bincount(split.gold).max() / len(split)
        facts["learnt"] = bool(facts["low"] > facts["floor"] and not facts["answer_share"] > ONE_ANSWER)
        rows.append(facts)
    return pd.DataFrame(rows) if rows else None


def tables(results: Results) -> dict[str, pd.DataFrame | None]:
    made = {"scores": results.every_score, "models": models_table(results)}
    return {**made, "masks": masks_table(results), "sizes": sizes_table(results)}


QUESTION = Question("subnetworks", tables)
