"""A plan, and what is there of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.convergence import comparable
from corewood.analyse.core import core
from corewood.analyse.generalisation import SEARCH, full_model
from corewood.data.labels import fold_classes
from corewood.evaluate.metrics import accuracy, predicted
from corewood.model.mask import Mask, Units
from corewood.store.store import Store
from corewood.study.plan_core import CorePlan, Subnetwork
from corewood.study.work import read_logits, read_masks


@dataclass(frozen=True)
class Results:
    """Read when first asked for, and once."""

    plan: CorePlan
    store: Store
    holes: Mapping[str, str]
    _logits: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[Subnetwork]:
        """The full models and subnetworks that have all their results."""
        return [row for row in self.plan.subnetworks if not any(job.title in self.holes for job in row.jobs)]

    @cached_property
    def found(self) -> list[Subnetwork]:
        """The subnetworks that are compared with each other."""
        return [row for row in self.rows if row.block == SEARCH]

    @cached_property
    def grid(self) -> list[Subnetwork]:
        return [row for row in self.rows if row.block == "effective_size"]

    @cached_property
    def masks(self) -> dict[str, Mask]:
        made = {}
        for row in [*self.found, *self.grid]:
            assert row.search is not None
            made[row.name] = read_masks(self.store.get("search", row.search.key))[row.place]
        return made

    @cached_property
    def held(self) -> pd.Series:
        """The KL of each searched mask on texts held out of its search."""
        return self.of_searches("held").astype(float)

    @cached_property
    def ended(self) -> pd.Series:
        """Whether each mask's search ended by itself."""
        return self.of_searches("ended").astype(bool)

    def of_searches(self, fact: str) -> pd.Series:
        found = {}
        for row in self.found:
            assert row.search is not None
            found[row.name] = self.store.get("search", row.search.key).meta[fact][row.place]
        return pd.Series(found, dtype=object)

    @cached_property
    def targets(self) -> pd.Series:
        """The sparsity asked for, by the name of the subnetwork."""
        return pd.Series({row.name: row.target for row in self.found}, dtype=float)

    @cached_property
    def comparable(self) -> pd.Series:
        """Whether the search of each subnetwork ended as well as the best of its size."""
        return comparable(self.held, self.targets)

    @cached_property
    def core(self) -> list[str]:
        """Heads in all subnetworks of all sparsities."""
        return core([self.masks[r.name] for r in self.found], draws=1).heads if self.found else []

    @cached_property
    def units(self) -> Units:
        job = self.rows[0].predictions[self.plan.datasets[0]]
        return Units(**self.store.get(job.kind, job.key).meta["units"])

    @cached_property
    def judged(self) -> bool:
        """Whether there are subnetworks, and the full model beside them."""
        return bool(self.found) and not full_model(self.accuracy).empty

    def logits(self, row: Subnetwork, dataset: str) -> np.ndarray:
        """(example, class)"""
        key = row.predictions[dataset].key
        if key not in self._logits:
            self._logits[key] = read_logits(self.store.get("predict", key))
        return np.asarray(self._logits[key][row.place])

    def right(self, logits: np.ndarray, dataset: str, rows: np.ndarray | None = None) -> np.ndarray:
        """(..., example, class) -> (..., example) bool; `rows` says which examples these are, where not all."""
        split = self.plan.splits[dataset]
        gold = split.gold if rows is None else split.gold[rows]
        return np.asarray(predicted(logits, fold_classes(self.plan.classes, split)) == gold)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        first = ["study", "model", "checkpoint", "block", "method", "nested", "target", "seed", "subnetwork"]
        first += ["dataset", "case", "domain"]
        tables = []
        for dataset in self.plan.datasets:
            split = self.plan.splits[dataset]
            full = {row.checkpoint: self.logits(row, dataset) for row in self.rows if row.search is None}
            for row in self.rows:
                beside = None if row.search is None else full.get(row.checkpoint)
                facts: dict[str, Any] = {
                    "study": self.plan.spec.name,
                    "model": self.plan.spec.model.checkpoint,
                    "checkpoint": row.checkpoint,
                    "block": row.block,
                    "method": row.method,
                    "nested": row.nested,
                    "target": row.target,
                    "seed": row.seed,
                    "subnetwork": row.name,
                    "dataset": dataset,
                    "domain": "in-domain" if dataset == "validation" else "challenge",
                }
                tables.append(accuracy(self.logits(row, dataset), split, self.plan.classes, beside).assign(**facts))
        if not tables:
            return pd.DataFrame(columns=[*first, "value"])
        table = pd.concat(tables, ignore_index=True)
        return table[first + [c for c in table.columns if c not in first]]

    def by_target(self) -> dict[float, list[Subnetwork]]:
        return {t: [r for r in self.found if r.target == t] for t in sorted({r.target for r in self.found})}


def stack(tables: list[pd.DataFrame]) -> pd.DataFrame | None:
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True) if filled else None
