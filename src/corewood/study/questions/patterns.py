"""What kind of picture each head's attention makes (LT, section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import and_
from pathlib import Path
from typing import Any

import pandas as pd

from corewood.analyse.behaviour import heterogeneity, pattern_summary
from corewood.data.encode import encode
from corewood.data.read import drawn
from corewood.errors import InputError
from corewood.evaluate.attention import split_words
from corewood.evaluate.patterns import Classifier, pattern_shares, read_annotated, train_classifier
from corewood.model.gates import gated
from corewood.model.reference import reference
from corewood.spec import Patterns
from corewood.store.store import file_digest
from corewood.study.entries import read_masks
from corewood.study.job import Job, Kind, Work
from corewood.study.models import VALIDATION, ModelPlan, Plan
from corewood.study.questions.survivors import PRUNED_KINDS
from corewood.study.results import Question, Results, searched, stack
from corewood.study.subnetwork import IMPORTANCE, Subnetwork
from corewood.untrusted import user_path

MOST_FILES = 100_000  # annotated maps, and what stands beside them


@dataclass(frozen=True)
class Part:
    classifiers: Mapping[str, Job]  # raw, normed
    looks: tuple[tuple[str, int, str, bool, Job], ...]  # (task, seed of fine-tuning or -1, state, whether pruned, job)


def plan(plan: Plan, wanted: Patterns) -> Part:
    spec = plan.spec
    if not plan.checkpoint.tokenizer.is_fast:
        raise InputError("patterns: words are read off a fast tokenizer, and this model has none; leave patterns out")
    annotated = None if wanted.annotated is None else user_path(wanted.annotated, plan.base, "patterns.annotated")
    content: list[str] = []
    if annotated is not None:
        if not annotated.is_dir():
            raise InputError(f"patterns.annotated: {annotated} is no folder; it needs .npy maps and labels.csv")
        read_annotated(annotated)
        files = sorted(p for p in islice(annotated.rglob("*"), MOST_FILES + 1) if p.is_file())
        if len(files) > MOST_FILES:
            raise InputError(f"patterns.annotated: {annotated} has more than {MOST_FILES:,} files; give a folder of maps alone")
        content = [f"{p.relative_to(annotated)}:{file_digest(p)}" for p in files]
    local = {"annotated": None if annotated is None else str(annotated)}
    classifiers = {}
    for flavour in ("raw", "normed"):
        params = {"normed": flavour == "normed", "annotated": content, "seed": spec.seed}
        params |= {"maps": wanted.maps, "steps": wanted.steps}
        job = Job.make(CLASSIFIER, f"pattern classifier, {flavour}", params, {}, local, wanted.maps)
        classifiers[flavour] = plan.jobs.setdefault(job.key, job)

    def look(model: ModelPlan, kept: Sequence[Subnetwork]) -> Job:
        """At the whole model, or at one that is pruned to what all these masks keep."""
        title = f"patterns {'after' if model.tuned else 'before'}"
        params: dict[str, Any] = {"examples": wanted.examples, "seed": spec.seed}
        inputs = {**classifiers, "data": model.task.data[VALIDATION]}
        if kept:
            title += ", super-survivors alone"
            params |= {"places": [row.place for row in kept], "ablate": kept[0].stand_in}
            inputs |= {f"mask {i}": row.masks for i, row in enumerate(kept) if row.masks}
        work = 12 * min(wanted.examples, len(model.task.splits[VALIDATION]))
        return model.job_at(model.last, PATTERNS, title, params, inputs, work)

    state = "fine-tuned" if spec.fine_tune else "as given"
    models = [(*model.key, state, model) for model in plan.models.values()]
    for task in plan.tasks.values() if wanted.pretrained and spec.fine_tune else ():
        model = next(m for m in plan.models.values() if m.task is task)
        models.insert(0, (task.name, -1, "pretrained", replace(model, tuned={}, who=task.who)))
    looks = []
    for task_name, tuning, state, model in models:
        alive = survivors(plan.rows, task_name) if wanted.pruned else []
        for kept in ([], alive) if alive else ([],):
            looks.append((task_name, tuning, state, bool(kept), look(model, kept)))
    return Part(classifiers, tuple(looks))


def survivors(rows: Iterable[Subnetwork], task: str) -> list[Subnetwork]:
    """Of one task, the subnetworks whose common units are its super-survivors: of importance, where there is such."""
    found = [r for r in rows if searched(r) and r.task == task and "head" in PRUNED_KINDS[r.prune]]
    order = sorted(found, key=lambda r: (r.way != IMPORTANCE, r.target))  # stable
    return [r for r in order if (r.way, r.prune, r.target) == (order[0].way, order[0].prune, order[0].target)]


def do_pattern_classifier(work: Work) -> dict[str, Any]:
    params, local = work.job.params, work.job.local
    annotated = None if local["annotated"] is None else Path(local["annotated"])
    classifier, quality = train_classifier(
        params["normed"], params["seed"], annotated, work.progress, maps=params["maps"], steps=params["steps"]
    )
    classifier.save(work.folder)
    quality.to_parquet(work.folder / "quality.parquet", index=False)
    return {}


def do_patterns(work: Work) -> dict[str, Any]:
    params = work.job.params
    model = work.model() if "fine_tune" in work.job.inputs else work.new_model(params["seed"])
    split = work.data()
    chosen = drawn(split.frame, params["examples"], params["seed"])
    raw, normed = (Classifier.load(work.input(flavour).folder) for flavour in ("raw", "normed"))
    with ExitStack() as stack:
        if "places" in params:
            masks = [read_masks(work.input(f"mask {i}"))[place] for i, place in enumerate(params["places"])]
            examples = encode(split, model.tokenizer, model.max_length).take(chosen)
            means = reference(model, examples).means if params["ablate"] == "mean" else None
            stack.enter_context(gated(model, reduce(and_, masks), params["ablate"], means))
        shares = pattern_shares(model, raw, normed, split_words(model, split, chosen), work.progress)
    shares.to_parquet(work.folder / "shares.parquet", index=False)
    return {"examples": len(chosen)}


def tables(results: Results) -> dict[str, pd.DataFrame | None]:
    part: Part | None = results.plan.parts.get("patterns")
    if part is None or not all(map(results.there, part.classifiers.values())):
        return {}
    looks = [
        pd.read_parquet(results.entry(job).path("shares.parquet")).assign(task=task, state=state, tuning=tuning, pruned=pruned)
        for task, tuning, state, pruned, job in part.looks
        if results.there(job)
    ]
    found = stack(looks)
    if found is None:
        return {}
    alive = {
        task: reduce(and_, map(results.mask, rows)) for task in results.plan.tasks if (rows := survivors(results.rows, task))
    }
    quality = [
        pd.read_parquet(results.entry(job).path("quality.parquet")).assign(attention=flavour)
        for flavour, job in part.classifiers.items()
    ]
    made: dict[str, pd.DataFrame | None] = {"patterns": found, "pattern_shares": pattern_summary(found, alive)}
    return {**made, "pattern_quality": pd.concat(quality), "heterogeneity": heterogeneity(found, alive) if alive else None}


CLASSIFIER = Kind("pattern_classifier", 1, "learn pattern types", "second", 0.01, do_pattern_classifier)
PATTERNS = Kind("patterns", 1, "look at patterns", "forward", 1.0, do_patterns)
QUESTION = Question("patterns", tables, plan, (CLASSIFIER, PATTERNS))
