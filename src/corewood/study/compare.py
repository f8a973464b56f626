"""Two studies beside each other: their masks always, their answers where classes count as the same labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from corewood.analyse.ablation import paired_interval
from corewood.analyse.core import core
from corewood.analyse.generalisation import share_right
from corewood.analyse.stability import overlap, pair
from corewood.data.labels import fold_classes, normal
from corewood.errors import InputError
from corewood.evaluate.metrics import parts
from corewood.model.mask import Mask
from corewood.spec import StudySpec
from corewood.store.store import Store
from corewood.study.models import TaskPlan
from corewood.study.plan import make_plan
from corewood.study.questions.attention import QUESTION as ATTENTION
from corewood.study.results import Found, Results, compared
from corewood.study.run import holes_of
from corewood.study.subnetwork import PRUNE, Subnetwork


@dataclass
class Comparison:
    scores: pd.DataFrame  # per dataset and case: the full models, their difference, and the means over subnetworks
    masks: pd.DataFrame  # per way and size, and over all sizes: what their subnetworks share
    heads: pd.DataFrame  # per head: how often each keeps it, whether it is in the core, what it attends to
    notes: list[str] = field(default_factory=list)  # what could not be compared, and why


@dataclass(frozen=True)
class Side:
    """One of two studies, and its task that is compared."""

    results: Results
    task: TaskPlan

    def mapping(self, dataset: str) -> str:
        plan = self.results.plan
        return f"{plan.spec.name}: {plan.mapping[plan.label(self.task.name, dataset)]}"

    @property
    def full(self) -> list[Subnetwork]:
        """The full models that are evaluated, one for each fine-tuning."""
        rows = [self.results.full(key) for key in self.results.plan.models if key[0] == self.task.name]
        return [row for row in rows if row is not None]

    def full_answers(self, dataset: str) -> np.ndarray:
        """(example,): the share of the task's full models that are right."""
        return np.asarray(np.mean([self.results.answers(row, dataset) for row in self.full], axis=0))

    def means(self, dataset: str, case: str) -> pd.Series:
        """Over the subnetworks of each way, mode and size."""
        table = self.results.scores
        own = (table["task"] == self.task.name) & (table["dataset"] == dataset) & (table["case"] == case)
        mine = table[own & (table["question"] == PRUNE)]
        return mine.assign(right=share_right(mine)).groupby(["way", "prune", "target"])["right"].mean()

    @property
    def first(self) -> list[Mask]:
        """The masks of its first way, of all sizes."""
        rows = compared([row for row in self.results.rows if row.task == self.task.name])
        return [self.results.mask(row) for row in rows]

    def attends(self) -> dict[str, str]:
        """Head -> what it mostly attends to, in most of the task's models; empty where the study did not ask."""
        table = ATTENTION.tables(self.results).get("attention")
        if table is None:
            return {}
        last = {model.last for key, model in self.results.plan.models.items() if key[0] == self.task.name}
        mine = (table["task"] == self.task.name) & table["checkpoint"].isin(last)
        own = table[mine].drop_duplicates(["unit", "tuning"])
        return {str(unit): str(part["does"].mode().iloc[0]) for unit, part in own.groupby("unit", sort=False)}

    def masks(self) -> dict[Found, list[Mask]]:
        raters = self.results.raters.items()
        return {found.anywhere: list(by.values()) for found, by in raters if found.task == self.task.name}


def compare(one: StudySpec, other: StudySpec, bases: tuple[Path, Path], store: Store) -> Comparison:
    """Tasks are matched by name, or are the only ones; datasets by name. `one` and `other` must have been run."""
    plans = []
    for spec, base in zip((one, other), bases, strict=True):
        try:
            plans.append(make_plan(spec, base))
        except InputError as problem:
            raise InputError(f"{spec.name}: {problem}") from None
    results = [Results(plan, store, holes_of(plan, store)) for plan in plans]
    for found in results:
        if not any(found.full(key) for key in found.plan.models):
            why = "its full model is not evaluated yet; run it first: corewood run STUDY.yaml"
            raise InputError(f"{found.plan.spec.name}: {why}")
    mine, theirs = (plan.tasks for plan in plans)
    only = len(mine) == len(theirs) == 1
    names = zip(mine, theirs, strict=True) if only else ((name, name) for name in mine if name in theirs)
    sides = [(Side(results[0], mine[a]), Side(results[1], theirs[b])) for a, b in names]
    notes = [
        f"{side} ({found.plan.spec.name}): {len(found.holes)} of its {len(found.plan.jobs)} jobs, which have no result yet"
        for side, found in zip("AB", results, strict=True)
        if found.holes
    ]
    scores = pd.DataFrame([row for pair in sides for row in score_rows(*pair, notes)])
    masks = pd.DataFrame([row for pair in sides for row in mask_rows(*pair, notes)])
    heads = pd.DataFrame([row for pair in sides for row in head_rows(*pair)])
    if scores.empty and masks.empty:
        why = f" ({'; '.join(notes)})" if notes else ": tasks and datasets are matched by name"
        raise InputError(f"{one.name} and {other.name} have nothing in common{why}")
    return Comparison(scores, masks, heads, notes)


def label_map(task: TaskPlan, dataset: str) -> dict[str, str]:
    """Class of the model -> label of the set it counts as, whatever their order."""
    split = task.splits[dataset]
    fold = fold_classes(task.classes, split)
    return {normal(name): normal(split.labels[place]) for name, place in zip(task.classes, fold, strict=True)}


def score_rows(one: Side, other: Side, notes: list[str]) -> Iterator[dict[str, object]]:
    """Where both studies judge the same examples the interval is paired; of several fine-tunings the mean is taken."""
    for side in (one, other):
        if not side.full:
            notes.append(f"{side.task.name}: no full model of {side.results.plan.spec.name} is evaluated yet")
            return
    for name in [n for n in one.task.datasets if n in other.task.datasets]:
        splits = [side.task.splits[name] for side in (one, other)]
        if any(split.regression for split in splits):
            notes.append(f"{one.task.name}, {name}: labels are numbers, which are not right or wrong")
            continue
        if label_map(one.task, name) != label_map(other.task, name):
            notes.append(
                f"{name}: the two studies count classes as labels differently ({one.mapping(name)}; {other.mapping(name)}), "
                "so their accuracies measure different things"
            )
            continue
        texts = [split.frame.drop(columns=["label", "group"], errors="ignore") for split in splits]
        same = texts[0].equals(texts[1])
        right = [side.full_answers(name) for side in (one, other)]
        inside = [{case: members for case, _, members in parts(split)} for split in splits]
        for case in [c for c in inside[0] if c in inside[1]]:
            mine, theirs = (r[members[case]] for r, members in zip(right, inside, strict=True))
            low, high = interval(mine, theirs, same)
            row: dict[str, object] = {"task": one.task.name, "dataset": name, "case": case, "n": len(mine)}
            row |= {"one": float(mine.mean()), "other": float(theirs.mean()), "low": low, "high": high, "paired": same}
            row["difference"] = float(theirs.mean() - mine.mean())
            yield row | subnetwork_means(one.means(name, case), other.means(name, case))


def subnetwork_means(one: pd.Series, other: pd.Series) -> dict[str, float]:
    both = [key for key in one.index if key in other.index]
    several, modes = len({way for way, _, _ in both}) > 1, len({(way, prune) for way, prune, _ in both})
    found: dict[str, float] = {}
    for way, prune, target in both:
        size = f"at {100 * target:g} %" if target else "to a threshold"
        mode = f" ({prune})" if not target or modes > len({w for w, _, _ in both}) else ""
        what = f"{f'{way} ' if several else ''}{size}{mode}"
        found |= {f"one {what}": float(one[way, prune, target]), f"other {what}": float(other[way, prune, target])}
    return found


def mask_rows(one: Side, other: Side, notes: list[str]) -> Iterator[dict[str, object]]:
    """How far masks of the one agree with masks of the other, and what their cores share, each beside chance."""
    every, others = one.masks(), other.masks()
    whole = {"way": "all sizes", "prune": "", "target": np.nan}
    groups = [(about.facts, every[about], others[about]) for about in every if about in others]
    groups += [(whole, one.first, other.first)] if len(every) > 1 or not groups else []
    for facts, mine, theirs in [group for group in groups if group[1] and group[2]]:
        shapes = [" x ".join(map(str, masks[0].heads.shape)) for masks in (mine, theirs)]
        if shapes[0] != shapes[1]:
            notes.append(f"{facts['way']}: masks of {shapes[0]} and {shapes[1]} heads")
            continue
        often = [np.mean([mask.heads.ravel() for mask in masks], axis=0) for masks in (mine, theirs)]
        varied = all(np.ptp(shares) > 0 for shares in often)
        rho, p = spearmanr(*often) if varied else (np.nan, np.nan)
        pairs = [pair(a.heads.ravel(), b.heads.ravel()) for a, b in product(mine, theirs)]
        cores = overlap(core(mine, draws=1).mask, core(theirs, draws=1).mask)
        yield {
            **facts,
            "task": one.task.name,
            "one": len(mine),
            "other": len(theirs),
            **{name: float(np.mean([found[name] for found in pairs])) for name in ("jaccard", "jaccard_expected")},
            "core_one": cores["heads"],
            "core_other": cores["heads_last"],
            **{f"core_{name}": cores[name] for name in ("shared", "expected", "p")},
            "rho": float(rho),
            "rho_p": float(p),
        }


def head_rows(one: Side, other: Side) -> Iterator[dict[str, object]]:
    """Over all masks of the first way of each."""
    if not (one.first and other.first) or one.first[0].heads.shape != other.first[0].heads.shape:
        return
    often = [np.mean([mask.heads for mask in side.first], axis=0) for side in (one, other)]
    does = [side.attends() for side in (one, other)]
    for layer, head in np.ndindex(often[0].shape):
        unit = f"L{layer}.H{head}"
        row: dict[str, object] = {"task": one.task.name, "unit": unit}
        for name, shares, kinds in zip(("one", "other"), often, does, strict=True):
            row |= {f"share_{name}": float(shares[layer, head]), f"core_{name}": bool(shares[layer, head] == 1)}
            row[f"does_{name}"] = kinds.get(unit, "")
        yield row


def interval(one: np.ndarray, other: np.ndarray, paired: bool) -> tuple[float, float]:
    if paired:
        return paired_interval(other.astype(float) - one)
    from statsmodels.stats.proportion import confint_proportions_2indep
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    if np.isin(one, (0, 1)).all() and np.isin(other, (0, 1)).all():
        low, high = confint_proportions_2indep(other.sum(), len(other), one.sum(), len(one), method="newcomb")
    else:
        low, high = CompareMeans(DescrStatsW(other), DescrStatsW(one)).tconfint_diff(usevar="unequal")
    return float(low), float(high)
