"""The plan of a study of subnetworks that are searched, judged and compared (the Heuristic Core)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corewood.data.labels import describe, fold_classes
from corewood.data.named import read_task
from corewood.data.task import Split
from corewood.errors import InputError, nearest
from corewood.evaluate.ablate import unit_set
from corewood.model.load import class_names
from corewood.spec import Ablation, SearchSpec, StudySpec, kept_units
from corewood.study.base import Plan, TaskPlanner, check_learnable, model_params, pinning, read_checkpoint
from corewood.study.job import Job


@dataclass(frozen=True)
class Subnetwork:
    """One row of the study: a checkpoint of the full model, or a mask found in one."""

    name: str
    block: str  # full, or the part of the study it belongs to: search, effective_size
    checkpoint: int
    method: str
    target: float  # sparsity asked for; 0 for the full model
    seed: int
    search: Job | None
    predictions: Mapping[str, Job]  # dataset -> job
    place: int = 0  # which of the masks of its search, and of the logits of its predictions
    nested: bool = False  # whether its search gave other sparsities on the way
    beside: Mapping[Ablation, Mapping[str, Job]] = field(default_factory=dict)  # other ablated values -> dataset -> job

    @property
    def jobs(self) -> list[Job]:
        """What its row needs."""
        return [*([self.search] if self.search else []), *self.predictions.values()]


@dataclass(frozen=True)
class AblationPart:
    """One job's worth of ablations: `closed` names the units of each, or is None where the core decides."""

    dataset: str
    job: Job
    closed: tuple[tuple[str, ...], ...] | None


@dataclass(frozen=True)
class CorePlan(Plan):
    spec: StudySpec
    subnetworks: tuple[Subnetwork, ...]
    ablations: tuple[AblationPart, ...]
    attention: Job | None
    classes: tuple[str, ...]

    @property
    def datasets(self) -> list[str]:
        """What is evaluated: validation, then the challenge sets."""
        return [name for name in self.splits if name != "train"]

    @property
    def full(self) -> Subnetwork:
        """The full model at the checkpoint that is pruned: the last."""
        return [row for row in self.subnetworks if row.search is None][-1]

    @property
    def asked(self) -> dict[str, Any]:
        return {
            **super().asked,
            "rows": [[row.name, row.block, row.place] for row in self.subnetworks],
            "focus": list(self.spec.focus),
            "rule": self.spec.effective_size.model_dump(mode="json") if self.spec.effective_size else None,
        }

    @property
    def reported(self) -> dict[str, Any]:
        return {"classes": list(self.classes), "ablate": self.spec.ablate}


def make_core_plan(spec: StudySpec, base: Path) -> CorePlan:
    """Everything a study will do. Paths in the study are relative to `base`."""
    task, notes = read_task(spec.task, base, spec.seed)
    found = read_checkpoint(spec.model, base)
    config = found.config
    for block in (spec.search, spec.effective_size):
        for sparsity in block.sparsity if block else ():
            kept_units(len(found.units), sparsity)

    if spec.model.labels and not spec.fine_tune and len(spec.model.labels) != config.num_labels:
        raise InputError(f"model.labels: {len(spec.model.labels)} names for a checkpoint of {config.num_labels} classes")
    classes = spec.model.labels or (task.labels if spec.fine_tune else class_names(config))
    splits = {**({"train": task.train} if task.train else {}), **task.splits}
    for split in splits.values():
        fold_classes(classes, split)
    if spec.fine_tune is None and task.train is None:
        notes.append("no task.train: the search uses the validation texts, on which it is then judged")
    if spec.fine_tune is not None and task.train is not None:
        check_learnable(classes, task.train, "task")
    notes += pinning(spec.model, found)
    check_focus(spec, splits)
    if spec.attention is not None and not found.tokenizer.is_fast:
        raise InputError("attention: words are read off a fast tokenizer, and this model has none; leave attention out")
    notes += [note for name, split in splits.items() if name != "train" for note in one_label_notes(split)]

    named = tuple(classes) if spec.model.labels or spec.fine_tune else None
    planner = CorePlanner(
        splits,
        model_params(spec.model, found, named),
        {"source": found.source, "device": spec.model.device},
        spec.sample,
        spec.seed,
        spec=spec,
        units=found.units,
    )
    planner.make()
    mapping = {n: describe(classes, split) for n, split in splits.items() if n != "train"}
    return CorePlan(
        spec,
        splits,
        planner.data,
        tuple(planner.jobs.values()),
        mapping,
        tuple(notes),
        tuple(planner.rows),
        tuple(planner.ablations),
        planner.attention,
        tuple(classes),
    )


def check_focus(spec: StudySpec, splits: Mapping[str, Split]) -> None:
    """The cases and sets that a study names must be there."""
    challenge = {n: s for n, s in splits.items() if n not in ("train", "validation")}
    known = [str(c) for s in challenge.values() if s.cases is not None for c in s.cases.unique()]
    for case in spec.focus:
        if case not in known:
            there = f" The cases are: {', '.join(known)}." if known else " No challenge set has cases: give it a case column."
            raise InputError(f"focus: there is no case {case!r}.{nearest(case, known) or there}")
    wanted = spec.attention.dataset if spec.attention else None
    if wanted is not None and wanted not in splits:
        raise InputError(f"attention.dataset: there is no {wanted!r}; the sets are {', '.join(splits)}")


def one_label_notes(split: Split) -> Iterator[str]:
    """A case whose answers are all the same measures how often that answer is given."""
    if split.cases is None:
        if split.frame["label"].nunique() == 1:
            yield f"{split.name}: every example is {split.frame['label'].iloc[0]!r}; accuracy there is the recall of that label"
        return
    labels = split.frame.groupby("case")["label"].nunique()
    if (labels == 1).any():
        yield f"{split.name}: {int((labels == 1).sum())} of {len(labels)} cases hold one label each; accuracy is its recall"


@dataclass(kw_only=True)
class CorePlanner(TaskPlanner):
    spec: StudySpec
    units: list[str]
    rows: list[Subnetwork] = field(default_factory=list)
    ablations: list[AblationPart] = field(default_factory=list)
    attention: Job | None = None

    def make(self) -> None:
        """In the order of doing: what many wait for first, and long before short."""
        self.encode()
        steps: tuple[int, ...] = (0,)
        if self.spec.fine_tune is not None:
            steps = self.spec.fine_tune.resolved(len(self.splits["train"])).kept
            self.fine_tune(self.spec.fine_tune)
        last = steps[-1]
        full = [self.full_row(step) for step in reversed(steps)]
        self.rows += full[::-1]
        found = self.search_rows("search", self.spec.search, last)
        self.rows += found
        grid = self.spec.effective_size
        if grid is not None:
            wanted = steps if grid.checkpoints == "all" else sorted(set(grid.checkpoints))
            for step in reversed(wanted):
                self.rows += self.search_rows("effective_size", grid, step, step != last)
        self.ablate(last, found)
        self.attend(last)

    def full_row(self, step: int) -> Subnetwork:
        who = f"step {step}" if self.tuned else "full model"
        return Subnetwork("full", "full", step, "none", 0.0, 0, None, self.predict(step, who))

    def search_rows(self, block: str, spec: SearchSpec, step: int, early: bool = False) -> list[Subnetwork]:
        searched = []
        at = f"@{step}" if early else ""
        grid = "" if block == "search" else "grid "
        reference = self.reference(step)
        for settings in spec.runs():
            for seed in spec.seed_list:
                size = " to ".join(f"{100 * t:g}" for t in dict.fromkeys((settings.targets[0], settings.targets[-1])))
                job = Job.make(
                    "search",
                    f"{grid}search {size} % seed {seed}{at}",
                    {**self.at(step), "settings": settings.model_dump(mode="json"), "seed": seed, "ablate": self.spec.ablate},
                    {**self.tuned, "reference": reference, "encoded": self.encoded[self.sampled]},
                    self.local,
                    work=settings.work,
                )
                searched.append((settings, seed, self.add(job)))
        rows = []
        for settings, seed, job in searched:
            nested = len(settings.targets) > 1
            kind = "path" if nested else spec.method
            size = f"{100 * settings.sparsity:g}"
            who = f"{grid}{kind}-{size}-s{seed}{at}"
            predictions = self.predict(step, who, job, self.spec.ablate, len(settings.targets))
            beside: dict[Ablation, Mapping[str, Job]] = {}
            for other in self.spec.ablate_beside if block == "search" else ():
                if other != self.spec.ablate:
                    who = f"{kind}-{size}-s{seed} with {other}"
                    beside[other] = self.predict(step, who, job, other, len(settings.targets))
            prefix = kind if block == "search" else f"grid-{kind}"
            for place, target in enumerate(settings.targets):
                name = f"{prefix}-{100 * target:g}-s{seed}{at}"
                rows.append(Subnetwork(name, block, step, spec.method, target, seed, job, predictions, place, nested, beside))
        return rows

    def ablate(self, step: int, found: list[Subnetwork]) -> None:
        wanted = self.spec.ablations
        if wanted is None:
            return
        reference = self.reference(step)
        layers = sum(name.endswith(".MLP") for name in self.units)
        groups: dict[str, tuple[tuple[str, ...], ...] | None] = {}
        sets = tuple(dict.fromkeys(unit_set(text, self.units) for text in wanted.sets))
        if wanted.singles:
            for layer in range(layers):
                groups[f"layer {layer}"] = tuple((n,) for n in self.units if n.startswith(f"L{layer}."))
        elif sets:
            groups["members of the sets"] = tuple((n,) for n in self.units if any(n in s for s in sets))
        if sets:
            groups["the named sets"] = tuple(s for s in sets if len(s) > 1)
        if wanted.pairs:
            groups["pairs of the core"] = None
        for n in self.datasets:
            rows = min(len(self.splits[n]), wanted.examples or len(self.splits[n]))
            for who, closed in groups.items():
                if closed == ():
                    continue
                params = {**self.at(step), "ablate": self.spec.ablate, "examples": wanted.examples, "seed": self.spec.seed}
                inputs = {**self.tuned, "reference": reference, "encoded": self.encoded[n], "data": self.data[n]}
                if closed is None:  # the core is not known yet: the job finds it in the masks
                    inputs |= {f"search {row.name}": row.search for row in found if row.search}
                    params |= {"core": {row.name: row.place for row in found}}
                else:
                    params |= {"closed": [list(units) for units in closed]}
                count = len(closed) if closed is not None else len(self.units)
                job = Job.make("ablate", f"ablate {who} on {n}", params, inputs, self.local, work=count * rows)
                self.ablations.append(AblationPart(n, self.add(job), closed))

    def attend(self, step: int) -> None:
        wanted = self.spec.attention
        if wanted is None:
            return
        challenge = [n for n in self.datasets if n != "validation"]
        dataset = wanted.dataset or (challenge or ["validation"])[0]
        params = {
            **self.at(step),
            "examples": wanted.examples,
            "maps": wanted.maps,
            "texts": [list(texts) for texts in wanted.texts],
            "focus": list(self.spec.focus),
            "seed": self.spec.seed,
        }
        work = min(wanted.examples, len(self.splits[dataset]))
        inputs = {**self.tuned, "data": self.data[dataset]}
        self.attention = self.add(Job.make("attention", f"attention on {dataset}", params, inputs, self.local, work))
