"""A lottery's plan, and what is there of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from corewood.data.labels import fold_classes, gold_classes
from corewood.evaluate.metrics import accuracy, baseline, parts, predicted, score
from corewood.model.mask import Mask, Units
from corewood.store.store import Entry, Store
from corewood.study.jobs_lottery import read_retrained
from corewood.study.lottery import FACTS, FULL, IMPORTANCE, MAGNITUDE, RETRAINED, Found, LotteryPlan, Ticket
from corewood.study.work import read_logits, read_masks

PRUNED_KINDS = {"both": ("head", "mlp"), "heads": ("head",), "mlps": ("mlp",)}


@dataclass(frozen=True)
class LotteryResults:
    """Read when first asked for, and once."""

    plan: LotteryPlan
    store: Store
    holes: Mapping[str, str]
    _logits: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[Ticket]:
        """The tickets that have all their results; those of the mode that tickets are drawn from come first."""
        there = [row for row in self.plan.tickets if not any(job.title in self.holes for job in row.jobs)]
        return sorted(there, key=self.beside)

    @cached_property
    def found(self) -> list[Found]:
        return sorted((f for f in self.plan.found if f.job.title not in self.holes), key=self.beside)

    def beside(self, row: Ticket | Found) -> bool:
        """Whether it belongs to another mode of importance pruning than the first."""
        first = self.plan.spec.importance
        return row.method == IMPORTANCE and first is not None and row.prune != first.prune[0] and row.part == "tickets"

    def entry(self, found: Found) -> Entry:
        return self.store.get(found.job.kind, found.job.key)

    @cached_property
    def masks(self) -> dict[tuple[str, str], dict[int, Mask]]:
        """(task, what was pruned) -> seed -> mask that importance pruning found."""
        made: dict[tuple[str, str], dict[int, Mask]] = {}
        for f in self.found:
            if f.method == IMPORTANCE:
                made.setdefault((f.task, f.prune), {})[f.seed] = read_masks(self.entry(f))[0]
        return made

    def good_masks(self) -> dict[str, dict[int, Mask]]:
        """Task -> seed -> the mask that tickets are drawn from."""
        if self.plan.spec.importance is None:
            return {}
        first = self.plan.spec.importance.prune[0]
        return {task: by for (task, prune), by in self.masks.items() if prune == first}

    def pruned_kinds(self) -> tuple[str, ...]:
        """Of the units that tickets are drawn from."""
        return PRUNED_KINDS[self.plan.spec.importance.prune[0]] if self.plan.spec.importance else ()

    def common_seeds(self, by_task: Mapping[str, Mapping[int, Any]]) -> list[int]:
        """Those that no task lacks, so that tasks can be compared seed by seed."""
        return [seed for seed in self.plan.spec.seeds if all(seed in by for by in by_task.values())]

    @cached_property
    def units(self) -> Units:
        rows = [r for r in self.rows if r.state != RETRAINED]
        job = next(iter(rows[0].predictions.values()))
        return Units(**self.store.get(job.kind, job.key).meta["units"])

    def logits(self, row: Ticket, dataset: str) -> np.ndarray:
        """(example, class)"""
        job = row.predictions[dataset]
        if row.state == RETRAINED:
            return read_retrained(self.store.get(job.kind, job.key), dataset)
        if job.key not in self._logits:
            self._logits[job.key] = read_logits(self.store.get(job.kind, job.key))
        return np.asarray(self._logits[job.key][row.place])

    def right(self, row: Ticket, dataset: str) -> np.ndarray:
        """(example,) bool"""
        split = self.plan.split(row.task, dataset)
        return np.asarray(predicted(self.logits(row, dataset), fold_classes(self.plan.classes[row.task], split)) == split.gold)

    def cases(self, task: str, dataset: str) -> list[tuple[str, str, np.ndarray]]:
        return list(parts(self.plan.split(task, dataset)))

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row per ticket, dataset and case: the task's metric on its report set, accuracy on challenge cases."""
        tables = [self.scored(row, dataset) for row in self.rows for dataset in self.plan.datasets(row.task)]
        tables += [self.majority(task) for task in self.plan.spec.tasks]
        made = pd.concat([t for t in tables if not t.empty], ignore_index=True)
        return made.assign(study=self.plan.spec.name, model=self.plan.spec.model.checkpoint)

    def scored(self, row: Ticket, dataset: str) -> pd.DataFrame:
        facts: dict[str, Any] = {name: getattr(row, name) for name in FACTS}
        split, classes = self.plan.split(row.task, dataset), self.plan.classes[row.task]
        logits = self.logits(row, dataset)
        facts |= {"dataset": dataset, "domain": "in-domain" if dataset == "report" else "challenge"}
        if dataset == "report" or split.regression:
            metric, gold = self.plan.metrics[row.task], gold_classes(classes, split)
            cases = [(case, score(metric, logits[inside], gold[inside])) for case, _, inside in parts(split)]
            return pd.DataFrame([{**facts, "case": case, "metric": metric, **vars(found)} for case, found in cases])
        table = accuracy(logits, split, classes)[["case", "n", "value", "low", "high"]]
        return table.assign(metric="accuracy", note="", **facts)

    def majority(self, task: str) -> pd.DataFrame:
        plan, metric = self.plan, self.plan.metrics[task]
        gold = {name: gold_classes(plan.classes[task], plan.split(task, name)) for name in ("train", "report")}
        found = baseline(metric, gold["train"], gold["report"])
        facts = {**dict.fromkeys(FACTS, 0), "task": task, "part": "tickets", "method": "majority", "ticket": "majority"}
        facts |= {"state": "", "prune": "", "dataset": "report", "domain": "in-domain", "case": "all", "metric": metric}
        return pd.DataFrame([{**facts, **vars(found)}])

    @cached_property
    def sizes(self) -> pd.DataFrame:
        """One row per pruned ticket: what stays, and how much of it is in the good one."""
        rows = [self.size(row) for row in self.rows if row.state != RETRAINED and row.method != FULL]
        return pd.DataFrame(rows)

    def size(self, row: Ticket) -> dict[str, Any]:
        assert row.masks is not None
        facts = {name: getattr(row, name) for name in FACTS if name not in ("state", "epochs")}
        entry = self.store.get(row.masks.kind, row.masks.key)
        if row.method == MAGNITUDE:
            kept, shared, total = (entry.meta[name] for name in ("weights", "shared", "total"))
            left = self.units.encoder_parameters - (total - kept)
            return {**facts, "weights": kept, "encoder_share": left / self.units.encoder_parameters,
                    "in_good": shared / kept if kept else np.nan}  # fmt: skip
        beside = row.good or row.masks
        mask, good = read_masks(entry)[row.place], read_masks(self.store.get(beside.kind, beside.key))[0]
        sizes = mask.sizes(self.units)
        inside = mask & good
        heads, mlps = int(mask.heads.sum()), int(mask.mlps.sum())
        return {
            **facts,
            **{name: sizes[name] for name in ("heads", "mlps", "units_share", "encoder_share")},
            "heads_in_good": int(inside.heads.sum()) / heads if heads else np.nan,
            "mlps_in_good": int(inside.mlps.sum()) / mlps if mlps else np.nan,
            "in_good": len(inside) / len(mask) if len(mask) else np.nan,
        }
