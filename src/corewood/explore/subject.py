"""What is explored: the models of a study and what it found in them, or one checkpoint by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import and_
from pathlib import Path

import numpy as np

from corewood.errors import InputError
from corewood.explore.asked import Place
from corewood.explore.colourings import Colouring, colourings_of
from corewood.explore.sample import Part, drawn_cases
from corewood.model.load import Model, load
from corewood.model.mask import Mask, Units
from corewood.model.reference import mean_activations
from corewood.spec import Ablation, StudySpec
from corewood.spec.study import slug
from corewood.store.store import Store
from corewood.study.models import VALIDATION, TaskPlan
from corewood.study.plan import make_plan
from corewood.study.questions import ablations, attention, searches
from corewood.study.results import Results, Tables, of_core
from corewood.study.run import holes_of, read_tables, tables_job
from corewood.study.subnetwork import FULL, PRUNE, RETRAINED, Subnetwork

MEANS = 256  # texts for the mean activations of a checkpoint whose own the study did not need
COLOURING = (ablations.QUESTION, attention.QUESTION, searches.QUESTION)  # whose tables the grid can be coloured by
BESIDE = 60  # subnetworks that stand beside the mask, case by case


@dataclass(frozen=True)
class Choice:
    """A model to look at, and its steps of training; the last is shown first."""

    task: str
    tuning: int
    name: str
    steps: tuple[int, ...]
    labels: tuple[str, ...]
    pair: bool | None  # whether its task has two sentences; None where that is not known


@dataclass(frozen=True)
class Preset:
    name: str
    group: str
    mask: Mask
    about: str = ""
    step: int | None = None  # where it was found, if not at the last checkpoint
    ablate: Ablation | None = None  # what its closed units gave in the study


class Subject(ABC):
    """Models are loaded by the worker's thread alone."""

    title: str
    base: Path  # nothing is written outside of it
    masks: Path  # where masks are kept
    stand_ins: tuple[Ablation, ...]  # what closed units may give; the first is what they give unless told otherwise

    @property
    @abstractmethod
    def choices(self) -> list[Choice]: ...

    @abstractmethod
    def read(self, place: Place) -> Model: ...

    @abstractmethod
    def loading(self, place: Place) -> list[str]:
        """Python that gives the same `model`."""

    def presets(self, place: Place) -> list[Preset]:
        return []

    def colourings(self, place: Place, units: Units) -> list[Colouring]:
        return []

    def parts(self, place: Place, each: int) -> list[Part]:
        """So many examples of every case, and what is known of them."""
        return []

    def check(self, place: Place) -> Choice:
        for choice in self.choices:
            if (choice.task, choice.tuning) == (place.task, place.tuning) and place.step in choice.steps:
                return choice
        raise InputError(f"there is no model of task {place.task!r}, seed {place.tuning}, at step {place.step}")


class OneCheckpoint(Subject):
    """Any classifier, without data: closed units give nothing, since nothing is known of their means."""

    stand_ins = ("zero",)

    def __init__(self, source: str, labels: Sequence[str] | None, pad_token: str | None) -> None:
        self.source, self.options = source, {"labels": labels, "pad_token": pad_token}
        self.model = load(source, labels, pad_token=pad_token)
        self.title, self.base = self.model.name, Path()
        self.masks = Path(f"{slug(self.model.name)}-masks")

    @property
    def choices(self) -> list[Choice]:
        return [Choice("", 0, self.model.name, (0,), self.model.labels, None)]

    def read(self, place: Place) -> Model:
        return self.model

    def loading(self, place: Place) -> list[str]:
        given = "".join(f", {name}={value!r}" for name, value in self.options.items() if value is not None)
        return [f"model = cw.load({self.source!r}{given})"]


class OfStudy(Subject):
    def __init__(self, results: Results, tables: Tables, python: Sequence[str]) -> None:
        plan = results.plan
        self.results, self.plan, self.tables, self.python = results, plan, tables, python
        self.title, self.base = plan.spec.title or plan.spec.name, plan.base
        self.masks = plan.base / f"{slug(plan.spec.name)}-masks"
        self.stand_ins = ("zero", "mean") if plan.spec.ablate == "zero" else ("mean", "zero")
        self._choices = [*self._found()]
        if not self._choices:
            raise InputError(f"{plan.spec.name}: no full model has its results yet; run it first: corewood run STUDY.yaml")
        self.known = lru_cache(maxsize=4)(self._known)

    def _found(self) -> Sequence[Choice]:
        made = []
        for (task, tuning), model in self.plan.models.items():
            steps = tuple(step for step in model.steps if self.results.full((task, tuning), step) is not None)
            several = [task] * (len(self.plan.tasks) > 1)
            several += [f"seed {tuning}"] * (len({seed for _, seed in self.plan.models}) > 1)
            if steps:
                pair = "second" in self.task(task).splits[VALIDATION].frame
                made.append(Choice(task, tuning, ", ".join(several), steps, self.task(task).classes, pair))
        return made

    @property
    def choices(self) -> list[Choice]:
        return self._choices

    def task(self, name: str) -> TaskPlan:
        return self.plan.tasks[name]

    def full(self, place: Place) -> Subnetwork:
        found = self.results.full((place.task, place.tuning), place.step)
        assert found is not None  # a place that was checked
        return found

    def read(self, place: Place) -> Model:
        model = self.results.model(self.full(place))
        if model.means is None:
            task = self.task(place.task)
            mean_activations(model, task.splits[task.sampled], MEANS)
        return model

    def loading(self, place: Place) -> list[str]:
        which = f'"{FULL}", {place.task!r}, {place.tuning}' if len(self.plan.models) > 1 else ""
        lines = [*self.python[:-1], f"{self.python[-1]}  # nothing is computed again"]
        if place.step == self.plan.models[place.task, place.tuning].last:
            lines.append(f"model = outcome.model({which})")
        else:
            lines.append("results = outcome.results")
            lines.append(f"model = results.model(results.full({(place.task, place.tuning)!r}, {place.step}))")
        if not self.knows_means(place):
            texts = f"outcome.plan.tasks[{place.task!r}].splits[{self.task(place.task).sampled!r}]"
            lines.append(f"cw.mean_activations(model, {texts}, {MEANS})")
        return lines

    def knows_means(self, place: Place) -> bool:
        """Whether the study needed the mean activations of this checkpoint (see `Results.model`)."""
        here = (place.task, place.tuning), place.step
        rows = [r for r in self.results.rows if (r.model, r.checkpoint) == here and r.state != RETRAINED]
        return any("reference" in job.inputs for row in rows for job in row.predictions.values())

    def rows(self, place: Place) -> list[Subnetwork]:
        """The subnetworks of a model that are masks of units, whatever their step."""
        mine = [r for r in self.results.rows if r.model == (place.task, place.tuning) and r.way != FULL]
        return [r for r in mine if not r.of_weights and r.state != RETRAINED and r.masks is not None]

    def presets(self, place: Place) -> list[Preset]:
        last = self.plan.models[place.task, place.tuning].last
        found = []
        for row in self.rows(place):
            mask, step = self.results.mask(row), None if row.checkpoint == last else row.checkpoint
            group = row.way if row.question == PRUNE else row.question.replace("_", " ")
            stand_in = row.stand_in if row.stand_in in self.stand_ins else None
            found.append(Preset(row.name, group, mask, f"{100 * mask.sparsity:.0f} % removed", step, stand_in))
        return [*self.core(place), *found]

    def core(self, place: Place) -> list[Preset]:
        """What all subnetworks of a model share."""
        masks = [self.results.mask(row) for row in of_core(self.results.rows, (place.task, place.tuning))]
        if len(masks) < 2:
            return []
        core = reduce(and_, masks)
        alone, rest = Mask(core.heads, np.ones_like(core.mlps)), Mask(~core.heads, np.ones_like(core.mlps))
        return [
            Preset("core", "core", core, f"the heads and MLPs that all {len(masks)} subnetworks keep"),
            Preset("core alone", "core", alone, "the heads that all keep, with every MLP"),
            Preset("all but the core", "core", rest, "every head that not all of them keep, with every MLP"),
        ]

    def colourings(self, place: Place, units: Units) -> list[Colouring]:
        masks = [self.results.mask(row) for row in of_core(self.results.rows, (place.task, place.tuning))]
        return colourings_of(self.tables, place, units, masks, not self.task(place.task).regression)

    def parts(self, place: Place, each: int) -> list[Part]:
        return self.known(place, each)

    def _known(self, place: Place, each: int) -> list[Part]:
        task, full = self.task(place.task), self.full(place)
        beside = [r for r in self.rows(place) if (r.checkpoint, r.question) == (place.step, PRUNE)][:BESIDE]
        made = []
        for dataset in [] if task.regression else task.datasets:
            rows = drawn_cases(task.splits[dataset].frame, each, self.plan.spec.seed)
            said = {row.name: self.results.logits(row, dataset)[rows] for row in [full, *beside]}
            made.append(Part.of(dataset, task.splits[dataset], rows, task.classes, said, self.plan.checkpoint))
        return made


def subject_of_study(spec: StudySpec, base: Path, store: Store, python: Sequence[str]) -> OfStudy:
    """A study that has run, or as much of it as there is; nothing is written into the store. `python` are the
    lines that give its outcome again."""
    plan = make_plan(spec, base)
    holes = holes_of(plan, store)
    if len(holes) == len(plan.jobs):
        raise InputError(f"{store.root}: holds nothing of this study yet; run it first: corewood run STUDY.yaml")
    results, tables = Results(plan, store, holes), tables_job(plan, holes)
    if store.has(tables.kind, tables.key) and not store.damage(tables.kind, tables.key):
        return OfStudy(results, read_tables(store.get(tables.kind, tables.key)), python)
    found = [question.tables(results) for question in COLOURING]
    return OfStudy(results, {n: t for made in found for n, t in made.items() if t is not None}, python)
