"""A plan, and what is there of it: the one reader behind every table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from corewood.analyse.generalisation import comparable, full_model
from corewood.data.labels import gold_classes
from corewood.errors import InputError, nearest
from corewood.evaluate.examples import examples
from corewood.evaluate.metrics import Judge, baseline, kl, predicted, score
from corewood.model.load import Model, load
from corewood.model.mask import Mask, Units
from corewood.prune.l0 import held_out
from corewood.store.store import Entry, Store
from corewood.study.entries import KEPT, read_logits, read_masks, read_retrained
from corewood.study.job import Job, Kind, Work
from corewood.study.models import CHALLENGE, IN_DOMAIN, TRAIN, VALIDATION, ModelPlan, Plan, TaskPlan
from corewood.study.subnetwork import BY_L0, BY_LOT, FACTS, FULL, GRID, IMPORTANCE, PRUNE, RETRAINED, Subnetwork

T = TypeVar("T")
Tables = dict[str, pd.DataFrame]
Rater = tuple[int, int]  # seeds of fine-tuning and of the search: what masks of one kind differ in


@dataclass(frozen=True)
class Found:
    """What masks of different seeds have in common."""

    task: str
    way: str
    prune: str
    target: float

    @property
    def facts(self) -> dict[str, Any]:
        return vars(self)

    @property
    def anywhere(self) -> Found:
        """The same, of any task."""
        return replace(self, task="")


def by_seeds(rows: Iterable[Subnetwork], read: Callable[[Subnetwork], T]) -> dict[Found, dict[Rater, T]]:
    made: dict[Found, dict[Rater, T]] = {}
    for row in rows:
        made.setdefault(Found(row.task, row.way, row.prune, row.target), {})[row.tuning, row.seed] = read(row)
    return made


@dataclass(frozen=True)
class Results:
    """Read when first asked for, and once."""

    plan: Plan
    store: Store
    holes: Mapping[str, str]  # key of a job -> why it has no result
    _logits: dict[str, np.ndarray] = field(default_factory=dict)
    _judges: dict[tuple[str, str], Judge] = field(default_factory=dict)  # by task and dataset

    def there(self, job: Job) -> bool:
        return job.key not in self.holes

    @cached_property
    def rows(self) -> list[Subnetwork]:
        """The full models and subnetworks that have all their results."""
        return [row for row in self.plan.rows if all(map(self.there, row.jobs))]

    def entry(self, job: Job | None) -> Entry:
        assert job is not None
        return self.store.get(job.kind, job.key)

    def mask(self, row: Subnetwork) -> Mask:
        return read_masks(self.entry(row.masks))[row.place]

    @cached_property
    def units(self) -> Units:
        job = next(job for row in self.rows if row.state != RETRAINED for job in row.predictions.values())
        return Units(**self.entry(job).meta["units"])

    def logits(self, row: Subnetwork, dataset: str) -> np.ndarray:
        """(example, class)"""
        job = row.predictions[dataset]
        if row.state == RETRAINED:
            return read_retrained(self.entry(job), dataset)
        if job.key not in self._logits:
            self._logits[job.key] = read_logits(self.entry(job))
        return np.asarray(self._logits[job.key][row.place])

    def right(self, task: str, logits: np.ndarray, dataset: str, rows: np.ndarray | None = None) -> np.ndarray:
        """(..., example, class) -> (..., example) bool; `rows` says which examples these are, where not all."""
        judge = self.judge(task, dataset)
        return np.asarray(predicted(logits, judge.fold) == (judge.gold if rows is None else judge.gold[rows]))

    def judge(self, task: str, dataset: str) -> Judge:
        if (task, dataset) not in self._judges:
            mine = self.plan.tasks[task]
            self._judges[task, dataset] = Judge(mine.splits[dataset], mine.classes)
        return self._judges[task, dataset]

    def answers(self, row: Subnetwork, dataset: str) -> np.ndarray:
        """(example,) bool: what is right of them."""
        return self.right(row.task, self.logits(row, dataset), dataset)

    def full(self, model: tuple[str, int], checkpoint: int | None = None) -> Subnetwork | None:
        """The full model at a checkpoint; without one, at the last."""
        step = self.plan.models[model].last if checkpoint is None else checkpoint
        return next((r for r in self.rows if r.way == FULL and (r.model, r.checkpoint) == (model, step)), None)

    def find(self, name: str, task: str | None = None, tuning: int | None = None) -> Subnetwork:
        """A subnetwork that has all its results, or the full model, by a name that is unique among those of a model."""
        rows = [r for r in self.plan.rows if task in (None, r.task) and tuning in (None, r.tuning)]
        if not rows:
            asked = " ".join(f"--{name} {value}" for name, value in (("task", task), ("tuning", tuning)) if value is not None)
            raise InputError(f"{self.plan.spec.name}: has no model of {asked}; it has {models_said(self.plan.models)}")
        named = [r for r in rows if r.name == name]
        if not named:
            names = [*dict.fromkeys(r.name for r in rows)]
            there = nearest(name, names) or f" There are: {', '.join(names[:40]) or 'none'}."
            raise InputError(f"{self.plan.spec.name}: no subnetwork {name!r}.{there}")
        models = [*dict.fromkeys(r.model for r in named)]
        if len(models) > 1:
            raise InputError(f"{name!r} is a subnetwork of {len(models)} models; say which: {models_said(models)}")
        row = named[-1]  # of the full model, at its last checkpoint
        reasons = [self.holes[job.key] for job in row.jobs if not self.there(job)]
        if reasons:
            raise InputError(f"{name!r} has no results: {reasons[0]}")
        return row

    def model(self, row: Subnetwork) -> Model:
        """What the subnetwork is one of, with the mean activations that its closed units give."""
        if row.state == RETRAINED:
            return self.retrained(row)
        mine = [row, *(r for r in self.rows if (r.model, r.checkpoint) == (row.model, row.checkpoint) and r.state != RETRAINED)]
        works = [Work(job, self.store, Path(), lambda _done, _total: None) for r in mine for job in r.predictions.values()]
        model = load(**works[0].checkpoint, check=False)
        model.name = self.plan.spec.model.checkpoint + (f", step {row.checkpoint}" if row.checkpoint else "")
        model.means = next((work.means() for work in works if "reference" in work.job.inputs), None)
        return model

    def retrained(self, row: Subnetwork) -> Model:
        """In its whole shape, with zeros where it was closed."""
        job = next(iter(row.predictions.values()))
        kept = self.entry(job).path(KEPT)
        if not kept.exists():
            why = "was retrained, and such models are judged and not kept; with tickets: {keep: true} the study trains it again"
            raise InputError(f"{row.name!r} {why}, and keeps it")
        work = Work(job, self.store, Path(), lambda _done, _total: None)
        model = load(str(kept), tokenizer=job.local["source"], **work.options, check=False)
        model.name = f"{self.plan.spec.model.checkpoint}, {row.name}"
        return model

    def examples(self, row: Subnetwork, dataset: str, other: Subnetwork | None = None) -> pd.DataFrame:
        """One row per example of a dataset: what the subnetwork, the full model and another subnetwork say of it (see
        `evaluate.examples`)."""
        task, full = self.plan.tasks[row.task], self.full(row.model, row.checkpoint)
        if full is None:
            raise InputError(f"{row.name!r}: the full model beside it has no results")
        beside = None if other is None else self.logits(other, dataset)
        logits = self.logits(row, dataset)
        return examples(task.splits[dataset], task.classes, logits, self.logits(full, dataset), beside)

    def unseen_kl(self, row: Subnetwork) -> float:
        """Of a searched mask, on the texts that its search held out and the validation set together: of a few hundred, one text
        may hold more than all others. The former alone where searches learn from the validation set, for want of a training
        set, or where the full model's answers are not there yet."""
        task, full = self.plan.tasks[row.task], self.full(row.model, row.checkpoint)
        held = float(self.entry(row.masks).meta["held"][row.place])
        if full is None or task.sampled != TRAIN:
            return held
        count = len(held_out(min(self.plan.spec.sample, len(task.splits[TRAIN])))[1])
        each = kl(self.logits(full, VALIDATION), self.logits(row, VALIDATION))
        return float(count * held + each.sum()) / (count + len(each))

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row per subnetwork, dataset and case: the task's metric on the validation set, accuracy on challenge sets."""
        tasks = self.plan.tasks.values()
        tables = [self.scored(r, n) for task in tasks for n in task.datasets for r in self.rows if r.task == task.name]
        return self.complete([*tables, *(self.majority(task) for task in tasks if TRAIN in task.splits)])

    @cached_property
    def every_score(self) -> pd.DataFrame:
        """And below, one row per subnetwork, challenge set, skill and metric of it."""
        sets = [(task, n) for task in self.plan.tasks.values() for n in task.challenge]
        skills = self.complete([self.skilled(r, n) for task, n in sets for r in self.rows if r.task == task.name])
        return pd.concat([self.scores, skills], ignore_index=True) if len(skills) else self.scores

    def complete(self, tables: list[pd.DataFrame]) -> pd.DataFrame:
        """One table, with what every row says of itself in front."""
        tables = [table for table in tables if not table.empty]
        first = ["study", "model", *FACTS, "subnetwork", "dataset", "case", "domain", "metric"]
        if not tables:
            return pd.DataFrame(columns=[*first, "value"])
        table = pd.concat(tables, ignore_index=True)
        return in_front(first, table.assign(study=self.plan.spec.name, model=self.plan.spec.model.checkpoint))

    def scored(self, row: Subnetwork, dataset: str, logits: np.ndarray | None = None) -> pd.DataFrame:
        task = self.plan.tasks[row.task]
        judge, logits = self.judge(row.task, dataset), self.logits(row, dataset) if logits is None else logits
        split = judge.split
        facts = {**self.about(row, dataset), "note": ""}
        plain = task.metric if task.domain(dataset) != CHALLENGE or split.regression else "accuracy"
        beside = None if row.way == FULL else self.full(row.model, row.checkpoint)
        if split.regression:
            table = pd.DataFrame({"case": case, "group": group} for case, group, _ in judge.parts)
            table = table.assign(skill="", gold="mixed", correct=np.nan, agreement=np.nan, kl=np.nan)
        else:
            table = judge.accuracy(logits, None if beside is None else self.logits(beside, dataset))
        table = table.assign(metric=plain, **facts)
        if plain != "accuracy":
            gold = gold_classes(task.classes, split)
            found = [score(plain, logits[inside], gold[inside]) for _, _, inside in judge.parts]
            for name in ("value", "low", "high", "n", "note"):
                table[name] = [getattr(one, name) for one in found]
        return table

    def skilled(self, row: Subnetwork, dataset: str) -> pd.DataFrame:
        made = self.judge(row.task, dataset).skills(self.logits(row, dataset))
        return made.assign(**self.about(row, dataset), group="", skill=made["case"], gold="mixed") if len(made) else made

    def about(self, row: Subnetwork, dataset: str) -> dict[str, Any]:
        domain = self.plan.tasks[row.task].domain(dataset)
        return {**row.facts(), "subnetwork": row.name, "dataset": dataset, "domain": domain}

    def majority(self, task: TaskPlan) -> pd.DataFrame:
        """What a model gets that always says the most frequent class of training."""
        gold = {n: gold_classes(task.classes, task.splits[n]) for n in (TRAIN, VALIDATION)}
        found = baseline(task.metric, gold[TRAIN], gold[VALIDATION])
        facts: dict[str, Any] = {**dict.fromkeys(FACTS, 0), "task": task.name, "state": "", "prune": "", "nested": False}
        facts |= dict.fromkeys(("question", "way", "ticket", "subnetwork"), "majority")
        facts |= {"dataset": VALIDATION, "domain": IN_DOMAIN, "case": "all", "metric": task.metric}
        return pd.DataFrame([{**facts, **vars(found)}])

    @cached_property
    def groups(self) -> list[Group]:
        """The subnetworks that one way found in one model, wherever there is something to compare.

        Where pruning by importance gives one mask of each model it is compared over models, unless there is but one model;
        random masks are what others stand beside.
        """
        made = []
        for key, model in self.plan.models.items():
            mine = [r for r in self.rows if r.model == key]
            found = [r for r in mine if r.question in (PRUNE, GRID) and r.way not in BY_LOT and not r.of_weights]
            for way in dict.fromkeys(r.way for r in found):
                group = Group(self, model, way, mine)
                several = len(group.found) > len(group.by_target())
                if way != IMPORTANCE or several or group.grid or len(self.plan.models) == 1:
                    made.append(group)
        return made

    @cached_property
    def raters(self) -> dict[Found, dict[Rater, Mask]]:
        """The masks of units that ways found, by what they differ in. Those drawn by chance are left out."""
        return by_seeds(filter(searched, self.rows), self.mask)

    def core(self, model: tuple[str, int]) -> list[str]:
        """The heads that all subnetworks of a model keep; where it has but one, those of all its task's models."""
        own = of_core(self.rows, model)
        return heads_in_all(map(self.mask, own)) if own else []

    def each(self, make: Callable[[Group], pd.DataFrame | None], grid: bool = False) -> pd.DataFrame | None:
        """One table of all groups that found something, or have a grid, with what each is about in front."""
        tables = []
        for group in self.groups:
            table = make(group) if (group.grid if grid else group.found) else None
            if table is not None and not table.empty:
                facts = {key: value for key, value in group.facts.items() if key not in table}
                for place, (key, value) in enumerate(facts.items()):
                    table.insert(place, key, value)
                tables.append(table)
        return stack(tables)


@dataclass(frozen=True)
class Group:
    """The full model at its checkpoints, and what one way found in it."""

    results: Results
    model: ModelPlan
    way: str
    rows: list[Subnetwork] = field(repr=False)  # of this model, of all ways

    @property
    def facts(self) -> dict[str, Any]:
        return {"task": self.model.task.name, "tuning": self.model.tuning, "way": self.way}

    @cached_property
    def found(self) -> list[Subnetwork]:
        """The subnetworks that are compared with each other."""
        return [r for r in self.rows if r.way == self.way and r.question == PRUNE and r.prune == self.prunes]

    @cached_property
    def prunes(self) -> str:
        """Of a way that was asked to remove several kinds of units in turn, the first."""
        return next((r.prune for r in self.rows if r.way == self.way and r.question == PRUNE), "both")

    @cached_property
    def grid(self) -> list[Subnetwork]:
        return [r for r in self.rows if r.way == self.way and r.question == GRID]

    @cached_property
    def masks(self) -> dict[str, Mask]:
        return {row.name: self.results.mask(row) for row in [*self.found, *self.grid]}

    def of_searches(self, fact: str) -> pd.Series:
        """What each search says of itself; empty where a way does not search."""
        said = {r.name: self.results.entry(r.masks).meta[fact][r.place] for r in self.found if self.way in BY_L0}
        return pd.Series(said, dtype=object)

    @cached_property
    def held(self) -> pd.Series:
        """The KL of each searched mask on the texts that its search held out."""
        return self.of_searches("held").astype(float)

    @cached_property
    def unseen(self) -> pd.Series:
        """The KL of each searched mask on all texts that its search did not learn from."""
        rows = [row for row in self.found if self.way in BY_L0]
        return pd.Series({row.name: self.results.unseen_kl(row) for row in rows}, dtype=float)

    @cached_property
    def ended(self) -> pd.Series:
        """Whether each mask's search ended by itself."""
        return self.of_searches("ended").astype(bool)

    @cached_property
    def targets(self) -> pd.Series:
        """The sparsity asked for, by the name of the subnetwork."""
        return pd.Series({row.name: row.target for row in self.found}, dtype=float)

    @cached_property
    def comparable(self) -> pd.Series:
        """Whether the search of each subnetwork ended as well as the best of its size."""
        return comparable(self.unseen, self.targets) if self.way in BY_L0 else pd.Series(True, self.targets.index)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """The scores of the full models and of this way."""
        return self.own(self.results.scores)

    @cached_property
    def every_score(self) -> pd.DataFrame:
        """And below, those of skills."""
        return self.own(self.results.every_score)

    def own(self, table: pd.DataFrame) -> pd.DataFrame:
        mine = (table["task"] == self.model.task.name) & (table["tuning"] == self.model.tuning)
        first = (table["question"] == PRUNE) & (table["prune"] == self.prunes)  # a grid removes heads and MLPs, whatever it is
        own = (table["way"] == self.way) & (first | (table["question"] == GRID))
        return table[mine & (own | (table["way"] == FULL))].reset_index(drop=True)

    @cached_property
    def judged(self) -> bool:
        """Whether there are subnetworks, and the full model beside them."""
        return bool(self.found) and not full_model(self.accuracy).empty

    def by_target(self) -> dict[float, list[Subnetwork]]:
        return {t: [r for r in self.found if r.target == t] for t in sorted({r.target for r in self.found})}


def models_said(models: Iterable[tuple[str, int]]) -> str:
    """As a command takes them; the library has arguments of the same names."""
    return "; ".join(f"--task {task} --tuning {seed}" for task, seed in models)


def searched(row: Subnetwork) -> bool:
    """Whether a way found its units itself."""
    return row.question == PRUNE and row.way not in (FULL, *BY_LOT) and not row.of_weights


def compared(rows: Iterable[Subnetwork]) -> list[Subnetwork]:
    """Of some rows, the subnetworks of the first way that looked for units, in the first mode it was asked for."""
    found = [*filter(searched, rows)]
    return [r for r in found if (r.way, r.prune) == (found[0].way, found[0].prune)]


def of_core(rows: Sequence[Subnetwork], model: tuple[str, int]) -> list[Subnetwork]:
    """The subnetworks whose heads in common are a model's core; where it has but one, those of all its task's models."""
    own = compared(r for r in rows if r.model == model)
    apart = [r for r in own if not r.nested or r.target == own[0].target]  # masks of one path hold each other
    return own if len(apart) > 1 else compared(r for r in rows if r.task == model[0])


def heads_in_all(masks: Iterable[Mask]) -> list[str]:
    return [name for name in reduce(and_, masks).names if ".H" in name]


def in_front(columns: list[str], table: pd.DataFrame) -> pd.DataFrame:
    return table[columns + [c for c in table.columns if c not in columns]]


def stack(tables: list[pd.DataFrame]) -> pd.DataFrame | None:
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True) if filled else None


@dataclass(frozen=True)
class Question:
    """Tables and, where a question needs work of its own, a part of the plan and kinds of jobs."""

    name: str
    tables: Callable[[Results], dict[str, pd.DataFrame | None]]
    plan: Callable[[Plan, Any], Any] = lambda _plan, _wanted: None  # where its key is given: what its tables will need
    kinds: tuple[Kind, ...] = ()
    key: str = ""  # of the study file that asks for it, where that is not its name
