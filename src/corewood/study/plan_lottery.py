"""The plan of a lottery: tasks x seeds, pruned by importance and by magnitude, tickets, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corewood.data.halves import halves
from corewood.data.labels import classes_of, describe, fold_classes
from corewood.data.named import read_task
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.prune.tickets import BAD, GOOD, RANDOM
from corewood.spec import Ablation, FineTune, GlueTask, kept_units
from corewood.spec_lottery import Importance, LotterySpec, Magnitude
from corewood.store.store import file_digest
from corewood.study.base import Checkpoint, TaskPlanner, check_learnable, model_params, pinning, read_checkpoint, tuning_params
from corewood.study.job import Job
from corewood.study.lottery import (
    FULL,
    IMPORTANCE,
    L0,
    MAGNITUDE,
    RETRAINED,
    SUPER,
    UNTRAINED,
    Found,
    LotteryPlan,
    PatternPart,
    Ticket,
)

UNRELIABLE = {"wnli": "WNLI's training and validation sets hold like sentences with opposite labels; results are unreliable"}


def make_lottery_plan(spec: LotterySpec, base: Path) -> LotteryPlan:
    found = read_checkpoint(spec.model, base)
    for sparsity in spec.methods.sparsity if spec.methods else ():
        kept_units(len(found.units), sparsity)
    if spec.patterns is not None and not found.tokenizer.is_fast:
        raise InputError("patterns: words are read off a fast tokenizer, and this model has none; leave patterns out")
    maker = LotteryPlanner(spec, base, found, notes=pinning(spec.model, found))
    for name in spec.tasks:
        maker.read(name)
    maker.make()
    return LotteryPlan(
        spec,
        maker.splits,
        maker.data,
        tuple(maker.jobs.values()),
        maker.mapping,
        tuple(maker.notes),
        maker.metrics,
        maker.classes,
        tuple(maker.tickets),
        tuple(maker.found),
        tuple(maker.patterns),
        maker.classifiers,
    )


@dataclass
class LotteryPlanner:
    """Stage by stage over all tasks and seeds, so that what many wait for comes first."""

    spec: LotterySpec
    base: Path
    checkpoint: Checkpoint
    jobs: dict[str, Job] = field(default_factory=dict)
    splits: dict[str, Split] = field(default_factory=dict)
    data: dict[str, Job] = field(default_factory=dict)
    mapping: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tasks: dict[str, TaskPlanner] = field(default_factory=dict)
    runs: dict[tuple[str, int], TaskPlanner] = field(default_factory=dict)
    tickets: list[Ticket] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    patterns: list[PatternPart] = field(default_factory=list)
    classifiers: dict[str, Job] = field(default_factory=dict)

    def read(self, name: str) -> None:
        spec = self.spec
        task, notes = read_task(spec.tasks[name], self.base, spec.seed, f"tasks.{name}")
        self.notes += [note if note.startswith(name) else f"{name}: {note}" for note in notes]
        asked = spec.tasks[name]
        if isinstance(asked, GlueTask) and asked.glue in UNRELIABLE:
            self.notes.append(f"{name}: {UNRELIABLE[asked.glue]}")
        if task.train is None:
            raise InputError(f"tasks.{name}.train: a lottery fine-tunes every task; give the examples to learn from")
        for taken in ("search", "report"):
            if taken in task.challenge:
                raise InputError(f"tasks.{name}.challenge: a set cannot be called {taken!r} here; choose another name")
        judged = {"report": task.validation, "search": task.validation}
        if spec.judge == "halves":
            if len(task.validation) < 4:
                raise InputError(f"tasks.{name}.validation: too few examples for two halves; set judge: paper")
            judged["search"], judged["report"] = halves(task.validation, spec.seed)
        splits = {"train": task.train, **judged, **task.challenge}
        classes = classes_of(task)
        check_learnable(classes, task.train, f"tasks.{name}")
        for dataset, split in splits.items():
            fold_classes(classes, split)
            if dataset not in ("train", "search"):
                self.mapping[f"{name}/{dataset}"] = describe(classes, split)
        local = {"source": self.checkpoint.source, "device": spec.model.device}
        model = model_params(spec.model, self.checkpoint, classes)
        planner = TaskPlanner(splits, model, local, spec.sample, spec.seed, f"{name}: ", ("train", "search"), self.jobs)
        planner.encode()
        self.tasks[name], self.metrics[name], self.classes[name] = planner, task.metric, classes
        self.splits |= {f"{name}/{n}": s for n, s in splits.items()}
        self.data |= {f"{name}/{n}": j for n, j in planner.data.items()}

    def steps(self, task: str, epochs: float | None = None) -> FineTune:
        """Settings of one training of a task; `epochs` where they are other than the study's."""
        settings = self.spec.tuning(task)
        if epochs is not None:
            settings = settings.model_copy(update={"epochs": epochs, "steps": None})
        return settings.resolved(len(self.tasks[task].splits["train"]))

    def last(self, task: str) -> int:
        return self.steps(task).kept[-1]

    def make(self) -> None:
        for seed in self.spec.seeds:
            for task, planner in self.tasks.items():
                run = replace(planner, who=f"{task} {seed}: ", tuned={})
                run.fine_tune(self.spec.tuning(task).model_copy(update={"seed": seed}))
                self.runs[task, seed] = run
        for (task, seed), run in self.runs.items():
            predictions = run.predict(self.last(task), "full model")
            self.tickets.append(Ticket(task, seed, FULL, FULL, predictions=predictions))
        self.prune()
        if self.spec.tickets is not None:
            self.draw_tickets()
        if self.spec.methods is not None:
            self.compare_methods()
        if self.spec.patterns is not None:
            self.look_at_patterns()

    # pruning

    def prune(self) -> None:
        for (task, seed), run in self.runs.items():
            if self.spec.importance is not None:
                for prune in self.spec.importance.prune:
                    job = self.importance(task, run, self.spec.importance, prune)
                    self.found.append(Found(task, seed, IMPORTANCE, prune, job))
                    predictions = run.predict(self.last(task), f"importance ({prune})", job, self.spec.importance.ablate)
                    self.tickets.append(Ticket(task, seed, IMPORTANCE, prune=prune, masks=job, predictions=predictions))
            if self.spec.magnitude is not None:
                job = self.magnitude(task, run, self.spec.magnitude)
                self.found.append(Found(task, seed, MAGNITUDE, "weights", job))
                predictions = self.predict_weights(task, run, "magnitude", job)
                self.tickets.append(Ticket(task, seed, MAGNITUDE, prune="weights", masks=job, predictions=predictions))

    def importance(
        self, task: str, run: TaskPlanner, settings: Importance, prune: str, like: Job | None = None, who: str = ""
    ) -> Job:
        params = {
            **run.at(self.last(task)),
            "settings": settings.model_dump(mode="json", exclude={"prune"}),
            "prune": prune,
            "metric": self.metrics[task],
        }
        inputs = {**run.tuned, "data": run.data["search"], "encoded": run.encoded["search"]}
        if settings.ablate == "mean":
            inputs["reference"] = run.reference(self.last(task))
        if like is not None:
            inputs["like"] = like
        title = f"{run.who}{who or f'importance pruning ({prune})'}"
        work = 30 * len(run.splits["search"])
        return run.add(Job.make("importance", title, params, inputs, run.local, work))

    def magnitude(self, task: str, run: TaskPlanner, settings: Magnitude, like: Job | None = None, who: str = "") -> Job:
        params = {
            **run.at(self.last(task)),
            "settings": settings.model_dump(mode="json"),
            "metric": self.metrics[task],
        }
        inputs = {**run.tuned, "data": run.data["search"], "encoded": run.encoded["search"]}
        if like is not None:
            inputs["like"] = like
        title = f"{run.who}{who or 'magnitude pruning'}"
        return run.add(Job.make("magnitude", title, params, inputs, run.local, 8 * len(run.splits["search"])))

    def predict_weights(self, task: str, run: TaskPlanner, who: str, weights: Job, masks: int = 1) -> dict[str, Job]:
        made = {}
        for n in run.datasets:
            inputs = {**run.tuned, "weights": weights, "encoded": run.encoded[n]}
            title = f"{run.who}{who} on {n}"
            made[n] = run.add(
                Job.make("predict", title, run.at(self.last(task)), inputs, run.local, masks * len(run.splits[n]))
            )
        return made

    # tickets

    def draw_tickets(self) -> None:
        wanted = self.spec.tickets
        assert wanted is not None
        names = [GOOD, *(f"{RANDOM}-{i}" for i in range(wanted.random)), BAD]
        for (task, seed), run in self.runs.items():
            for found in [f for f in self.found if (f.task, f.seed) == (task, seed)]:
                if found.method == IMPORTANCE and self.spec.importance and found.prune != self.spec.importance.prune[0]:
                    continue
                row = Ticket(task, seed, found.method, prune=found.prune, masks=found.job, good=found.job)
                for name in names:
                    self.judge(self.drawn(row, run, name, [self.spec.seed, seed], f"{name} of {found.method}"), name)
        if wanted.super_survivors:
            self.draw_super_survivors()

    def drawn(self, row: Ticket, run: TaskPlanner, name: str, seed: list[int], title: str) -> Ticket:
        """A ticket beside the good one: a job of its own, so that more of them leave the others as they are."""
        if name == GOOD:
            return row
        assert row.good is not None
        ticket, _, number = name.partition("-")
        what = "weights" if row.method == MAGNITUDE else "units"
        params = {"what": what, "ticket": ticket, "draw": int(number or 0), "seed": seed}
        job = run.add(Job.make("tickets", f"{run.who}{title}", params, {"found": row.good}, run.local))
        return replace(row, ticket=ticket, draw=int(number or 0), masks=job)

    def judge(self, row: Ticket, name: str) -> None:
        """As pruned, unless that is how it was found, and retrained."""
        wanted, run = self.spec.tickets, self.runs[row.task, row.seed]
        assert wanted is not None
        assert row.masks is not None
        if row.masks != row.good:
            who = row.method if row.method == SUPER else f"{row.method} {name}"  # these three are one job
            if row.method == MAGNITUDE:
                predictions = self.predict_weights(row.task, run, who, row.masks)
            else:
                ablate: Ablation = self.spec.importance.ablate if self.spec.importance else "zero"
                predictions = run.predict(self.last(row.task), who, row.masks, ablate)
            self.tickets.append(replace(row, predictions=predictions))
        if not wanted.retrain:
            return
        self.tickets.append(self.retrained(row, name))
        if row.ticket == BAD and row.method == IMPORTANCE:
            self.tickets += [self.retrained(row, name, epochs) for epochs in wanted.longer]
        if row.ticket == RANDOM and row.draw == 0 and row.method == IMPORTANCE and wanted.untrained:
            self.tickets.append(replace(self.retrained(row, name, untrained=True), method=UNTRAINED))

    def retrained(self, row: Ticket, name: str, epochs: float | None = None, untrained: bool = False) -> Ticket:
        run = self.runs[row.task, row.seed]
        settings = self.steps(row.task, epochs).model_copy(update={"seed": row.seed})
        assert settings.steps is not None
        assert row.masks is not None
        what = f"train {row.method} {name} from nothing" if untrained else f"retrain {row.method} {name}"
        title = f"{run.who}{what}" + (f" for {epochs:g} epochs" if epochs else "")
        params = {**run.model, "settings": tuning_params(settings), "place": row.place, "untrained": untrained}
        inputs = {"data": run.data["train"], "encoded": run.encoded["train"], "tickets": row.masks}
        inputs |= {f"encoded {n}": run.encoded[n] for n in run.datasets}
        local = {**run.local, "threads": settings.threads}
        job = run.add(Job.make("retrain", title, params, inputs, local, settings.steps * settings.batch))
        return replace(row, state=RETRAINED, epochs=epochs or 0.0, predictions=dict.fromkeys(run.datasets, job))

    def draw_super_survivors(self) -> None:
        assert self.spec.importance is not None
        first = self.spec.importance.prune[0]
        for task, planner in self.tasks.items():
            mine = {
                f"found {f.seed}": f.job for f in self.found if f.task == task and f.method == IMPORTANCE and f.prune == first
            }
            params = {"what": SUPER, "seed": [self.spec.seed]}
            job = planner.add(Job.make("tickets", f"{task}: super-survivors", params, mine, planner.local))
            for seed in self.spec.seeds:
                for place, name in enumerate((GOOD, RANDOM, BAD)):
                    self.judge(Ticket(task, seed, SUPER, name, prune=first, masks=job, place=place), name)

    # the two papers together

    def compare_methods(self) -> None:
        wanted = self.spec.methods
        assert wanted is not None
        for task, planner in self.tasks.items():
            if planner.splits["train"].regression:
                self.notes.append(f"{task}: left out of methods: L0 keeps the probabilities of classes, and a number has none")
        for (task, seed), run in self.runs.items():
            if run.splits["train"].regression:
                continue
            reference = run.reference(self.last(task))
            for settings in wanted.runs():
                for search_seed in wanted.seed_list:
                    size = f"{100 * settings.sparsity:g} % seed {search_seed}"
                    params = {
                        **run.at(self.last(task)),
                        "settings": settings.model_dump(mode="json"),
                        "seed": search_seed,
                        "ablate": "mean",
                    }
                    inputs = {**run.tuned, "reference": reference, "encoded": run.encoded["train"]}
                    found = run.add(Job.make("search", f"{run.who}search {size}", params, inputs, run.local, settings.work))
                    self.beside(task, seed, run, found, size, settings.sparsity, search_seed)

    def beside(self, task: str, seed: int, run: TaskPlanner, l0: Job, size: str, target: float, search_seed: int) -> None:
        """One L0 mask, and the other methods' of exactly its size."""
        wanted = self.spec.methods
        assert wanted is not None
        row = Ticket(task, seed, L0, target=target, search_seed=search_seed, part="methods")
        own = (self.spec.importance or Importance.model_validate({})).model_dump(
            include={"heads_per_round", "per", "batch", "normalise"}  # a size is asked for: thresholds play no part
        )
        like = Importance.model_validate({**own, "ablate": "mean"})
        ranked = self.importance(task, run, like, "both", l0, f"importance like L0 {size}")
        weights = self.magnitude(task, run, Magnitude.model_validate({}), l0, f"magnitude like L0 {size}")
        last = self.last(task)
        self.tickets.append(replace(row, masks=l0, predictions=run.predict(last, f"L0 {size}", l0, "mean")))
        self.tickets.append(
            replace(row, method=IMPORTANCE, masks=ranked, predictions=run.predict(last, f"importance {size}", ranked, "mean"))
        )
        self.tickets.append(
            replace(
                row,
                method=MAGNITUDE,
                prune="weights",
                masks=weights,
                predictions=self.predict_weights(task, run, f"magnitude {size}", weights),
            )
        )
        for i in range(wanted.random):
            name, seeds = f"{RANDOM}-{i}", [self.spec.seed, seed, search_seed]
            one = self.drawn(replace(row, method=RANDOM, good=l0), run, name, seeds, f"{name} like L0 {size}")
            assert one.masks is not None
            self.tickets.append(replace(one, predictions=run.predict(last, f"{name} {size}", one.masks, "mean")))

    # pattern types

    def look_at_patterns(self) -> None:
        wanted = self.spec.patterns
        assert wanted is not None
        annotated = None if wanted.annotated is None else self.base / Path(wanted.annotated).expanduser()
        content: list[str] = []
        if annotated is not None:
            if not annotated.is_dir():
                raise InputError(f"patterns.annotated: {annotated} is no folder; it needs .npy maps and labels.csv")
            files = sorted(p for p in annotated.rglob("*") if p.is_file())
            content = [f"{p.relative_to(annotated)}:{file_digest(p)}" for p in files]
        for flavour in ("raw", "normed"):
            params = {"normed": flavour == "normed", "annotated": content, "seed": self.spec.seed}
            params |= {"maps": wanted.maps, "steps": wanted.steps}
            local = {"annotated": None if annotated is None else str(annotated)}
            job = Job.make("pattern_classifier", f"pattern classifier, {flavour}", params, {}, local, wanted.maps)
            self.classifiers[flavour] = self.jobs.setdefault(job.key, job)
        for task, planner in self.tasks.items():
            if wanted.pretrained:
                self.patterns.append(PatternPart(task, None, self.pattern_job(planner, planner.model, "before fine-tuning")))
        for (task, seed), run in self.runs.items():
            self.patterns.append(PatternPart(task, seed, self.pattern_job(run, run.at(self.last(task)), "after")))

    def pattern_job(self, run: TaskPlanner, model: Mapping[str, Any], who: str) -> Job:
        assert self.spec.patterns is not None
        params = {**model, "examples": self.spec.patterns.examples, "seed": self.spec.seed}
        inputs = {**run.tuned, **self.classifiers, "data": run.data["report"]}
        work = 12 * min(self.spec.patterns.examples, len(run.splits["report"]))
        return run.add(Job.make("patterns", f"{run.who}patterns {who}", params, inputs, run.local, work))
