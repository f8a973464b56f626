"""How long must a search be, and where does its mask stand? KL of masks on texts that no search has seen.

    .venv/bin/python bench/budget.py --store FOLDER [--data FOLDER] [--seeds 3] [--auto 1] [--starts 2]
        [--fixed 32,64,200,400,1600] [--paper 0.1] [--random 20] [--no-importance] [--cases [--picture FILE]]
        [--many 16000] [--sizes 0.5,0.7] [--precision bfloat16]

| row | is |
|---|---|
| auto | a search that ends by itself; along a path, both sizes of one; from several starts, the best of them |
| 200 steps | a search of so many gradient steps of 32 examples; its last mask |
| paper x 0.1 | `preset: paper` with a tenth of its steps and warm-up: its own final rule, whose sizes differ |
| paper x 0.1, exact size | the same search; as many units of the largest log_alpha as the others keep |
| importance | by gold labels, on the texts of the searches: as many heads and as many MLPs as `auto` of that seed keeps |
| random | as many heads and as many MLPs as `auto` of seed 0 keeps, drawn |

Three columns of KL: texts held out of the search (`held_kl`), other training texts, and new texts, which the model was
not trained on. With --cases, masks of the generated task are also judged on its cases: how far do seeds of one kind of search
lie apart on a case that the full model handles, and how many of these differences are more than chance? With --many, their KL
is taken on so many other new texts, with its standard error: few texts hold most of a small KL. Of these texts 2,500 are run,
drawn by the full model's doubts, with weights that make up for it. --precision is of the searches; masks are judged in float32.
The model is the demo's; with
--data (mnli/train_part.jsonl, mnli/dev_matched.jsonl) also MiniLM on MNLI. What is done is kept in FOLDER and not done again;
several of these may run at once on other rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from pictures import save

from corewood.analyse.differences import corrected, pair_tests, variance_split
from corewood.analyse.generalisation import as_good
from corewood.data.encode import Encoded, encode
from corewood.data.labels import gold_classes
from corewood.data.overlap import overlap
from corewood.data.read import read_split
from corewood.data.task import ALL, Task
from corewood.evaluate.metrics import Judge, predicted
from corewood.evaluate.predict import logits_of
from corewood.model.load import Model, load
from corewood.model.mask import Mask
from corewood.model.precision import KINDS, check_precision
from corewood.model.progress import bar
from corewood.model.reference import no_progress
from corewood.prune.exchange import Texts, doubt, draw
from corewood.prune.final import final_mask
from corewood.prune.importance import importance_search
from corewood.prune.l0 import best_of_starts, held_out, l0_search
from corewood.prune.tickets import RANDOM, unit_ticket
from corewood.report.style import INK, LINES, coloured
from corewood.spec import L0, Importance, SourceSpec, parse_study
from corewood.spec.tasks import GeneratedTask
from corewood.store.store import Store
from corewood.study.entries import read_encoded, read_reference
from corewood.study.job import execute
from corewood.study.plan import make_plan
from corewood.study.run import store_data

NEW = 3000  # texts of each of the two larger sets
RUN = 2500  # of the texts of --many
KLS = ("held out", "training texts", "new texts")
Row = dict[str, Any]
MNLI = """
name: mnli
model: {{checkpoint: minilm, max_length: 64}}
task:
  labels: [entailment, neutral, contradiction]
  train: {{path: {data}/mnli/train_part.jsonl, layout: mnli}}
  validation: {{path: {data}/mnli/dev_matched.jsonl, layout: mnli, limit: 600}}
fine_tune: {{steps: 600, learning_rate: 1.0e-4, warmup: 30, threads: 2}}
prune: {{l0: {{sparsity: 0.5, seeds: 1}}}}
sample: 3072
"""


class Bench:
    """A fine-tuned model, the sample its searches see, and two sets that they do not."""

    def __init__(self, name: str, study: str, folder: Path, data: Path | None, precision: str) -> None:
        self.precision = precision
        store = Store(folder / "store")
        plan = make_plan(parse_study(study, name, None), Path())
        store_data(plan, store)
        (model,) = plan.models.values()
        texts_job, reference_job = model.task.encoded["train"], model.reference(model.last)
        for job in (texts_job, model.tuned["fine_tune"], reference_job):
            execute(job, store, no_progress)
        torch.set_num_threads(1)
        entry = store.get("fine_tune", model.tuned["fine_tune"].key)
        self.model: Model = load(
            str(entry.path(f"step-{model.last}")),
            tokenizer=str(entry.path("tokenizer")),
            max_length=plan.spec.model.max_length,
        )
        rows, self.reference = read_reference(store.get("reference", reference_job.key))
        texts = read_encoded(store.get("encode", texts_job.key))
        self.gold = gold_classes(self.model.labels, model.task.splits["train"])[rows]
        other = np.setdiff1d(np.arange(len(texts)), rows)[:NEW]
        task = plan.spec.task
        self.counter = task.counter if isinstance(task, GeneratedTask) else 0.0
        new = self.generated(123, validation=NEW).validation
        if data is not None:
            new, _ = read_split("dev", SourceSpec(path=str(data / "mnli/dev_matched.jsonl"), layout="mnli", limit=NEW))
        self.sample = Texts.of(self.model, texts.take(rows), self.reference)
        self.sets = {"held out": self.sample.take(held_out(len(rows))[1])}
        for what, examples in (
            ("training texts", texts.take(other)),
            ("new texts", encode(new, self.model.tokenizer, self.model.max_length)),
        ):
            self.sets[what] = self.texts(examples)

    def texts(self, examples: Encoded) -> Texts:
        full = logits_of(self.model, self.model.units.full(), examples)
        return Texts(self.model, examples, full, self.reference.means, "mean")

    def generated(self, seed: int, validation: int = 10, per_case: int = 1) -> Task:
        """Other examples of the task that the model was fine-tuned on."""
        return overlap(seed, train=10, validation=validation, per_case=per_case, counter=self.counter)

    @contextmanager
    def searching(self) -> Iterator[None]:
        check_precision(self.precision, self.model.device, "--precision")
        self.model.precision = self.precision
        try:
            yield
        finally:
            self.model.precision = "float32"

    def row(self, mask: Mask, **cost: Any) -> Row:
        kls = {what: float(texts.kl_of(mask).mean()) for what, texts in self.sets.items()}
        return {**cost, **kls, "mask": mask.vector.astype(int).tolist()}

    def search(self, settings: L0, seed: int) -> Iterator[Row]:
        """A row per size; what a path cost stands in each of its rows. Of the released rule, also the mask of exact size."""
        start = time.process_time()
        with self.searching(), bar(f"{100 * settings.sparsity:g} %, {settings.steps} steps, seed {seed}") as tell:
            found = best_of_starts(lambda _start, own: l0_search(self.sample, settings, own, tell), settings, seed)
        seconds = round(time.process_time() - start, 1)
        gradient = int(found.trajectory.loc[found.trajectory["round"] == 0, "examples"].max())
        forward = int(found.trajectory["examples"].max()) - gradient
        cost = {
            "examples": gradient,
            "rounds": int((found.trajectory["round"] > 0).sum()),
            "forward": forward,
            "seconds": seconds,
        }
        for sparsity, mask in zip(settings.targets, found.masks, strict=True):
            yield {"sparsity": sparsity, **self.row(mask, **cost)}
        if settings.final == "released":
            exact = final_mask(found.log_alpha, self.model.units, settings.model_copy(update={"final": "top"}))
            yield {"sparsity": settings.sparsity, "rule": "exact size", **self.row(exact, **cost)}

    def importance(self, like: Mask) -> Iterator[Row]:
        start = time.process_time()
        texts, size = held_out(len(self.sample))[0], (int(like.heads.sum()), int(like.mlps.sum()))
        examples, settings, means = self.sample.examples.take(texts), Importance(ablate="mean"), self.reference.means
        found = importance_search(self.model, examples, self.gold[texts], lambda _: np.nan, settings, size=size, means=means)
        rounds, seconds = len(found.rounds) - 1, round(time.process_time() - start, 1)
        yield self.row(found.mask, examples=rounds * len(texts), rounds=rounds, forward=0, seconds=seconds)

    def random(self, like: Mask, draw: int) -> Iterator[Row]:
        yield self.row(unit_ticket(like, RANDOM, draw, [0]), examples=0, rounds=0, forward=0, seconds=0.0)


def of_paper(sparsity: float, share: float) -> L0:
    """The released code's search with a share of its steps and warm-up; its ramp is a share of the steps already."""
    whole = L0.paper(sparsity)
    steps, warmup = (max(1, round(share * int(count))) for count in (whole.steps, whole.warmup))
    return whole.model_copy(update={"steps": steps, "warmup": warmup})


def summary(rows: list[Row]) -> pd.DataFrame:
    """One row per size and kind of search: the lowest and highest KL over seeds, and how far masks agree."""
    table = pd.DataFrame(rows)
    found = []
    for (sparsity, how), part in table.groupby(["sparsity", "search"], sort=False):
        masks = [np.array(m, bool) for m in part["mask"]]
        jaccard = [float((a & b).sum() / (a | b).sum()) for a, b in combinations(masks, 2)]
        sizes, kept = [int(mask.sum()) for mask in masks], np.mean(masks)
        spans = {c: f"{part[c].min():.4f} to {part[c].max():.4f}" for c in KLS}
        found.append(
            {"removed": sparsity, "search": how, "masks": len(part),
             "units": " to ".join(map(str, dict.fromkeys((min(sizes), max(sizes))))),
             "gradient examples": int(part["examples"].mean()), "forward": int(part["forward"].mean()),
             "seconds": round(part["seconds"].mean()), **spans, "median": round(part["new texts"].median(), 4),
             "Jaccard": round(float(np.mean(jaccard)), 2) if jaccard else np.nan, "chance": round(kept / (2 - kept), 2)}
        )  # fmt: skip
    return pd.DataFrame(found)


def gaps(bench: Bench, rows: list[Row]) -> pd.DataFrame:
    """One row per size and kind of search: the widest gap between two seeds on a case, how many are real, and how far seeds
    spread beyond what the sampling of examples makes of seeds that are all alike: a standard deviation over seeds, the root
    mean square over cases. That one does not grow with the number of seeds. Of all seeds, and of the comparable ones."""
    split = bench.generated(0, per_case=100).challenge["cases"]
    examples = encode(split, bench.model.tokenizer, bench.model.max_length)
    judge, means = Judge(split, bench.model.labels), bench.reference.means
    full = judge.accuracy(logits_of(bench.model, bench.model.units.full(), examples)).set_index("case")
    parts = [(case, inside) for case, _, inside in judge.parts if case != ALL and full.loc[case, "low"] > 0.5]
    found = []
    for (sparsity, how), own in pd.DataFrame(rows).groupby(["sparsity", "search"], sort=False):
        masks = [bench.model.units.from_vector(np.array(mask)) for mask in own["mask"]]
        logits = np.stack([logits_of(bench.model, mask, examples, "mean", means) for mask in masks])
        right = predicted(logits, judge.fold) == judge.gold  # (mask, example)
        names = list(map(str, own["seed"]))
        tests = corrected(pd.concat([pair_tests(right[:, i], names).assign(case=c) for c, i in parts], ignore_index=True))
        widest = tests.loc[tests["difference"].abs().idxmax()]
        fine = as_good(own["held out"], own["held out"].min()).to_numpy()
        spread, of_fine = (
            np.mean([variance_split(answers[:, i])["true_std"] ** 2 for _, i in parts]) ** 0.5 if len(answers) > 1 else np.nan
            for answers in (right, right[fine])
        )
        found.append(
            {"removed": sparsity, "search": how, "masks": len(own), "seconds": own["seconds"].mean(), "spread": spread,
             "comparable": fine.sum(), "their spread": of_fine, "lowest": right.mean(1).min(), "highest": right.mean(1).max(),
             "widest gap": abs(widest["difference"]), "on": widest["case"], "real": int(tests["real"].sum()), "of": len(tests)}
        )  # fmt: skip
    return pd.DataFrame(found)


def picture(found: pd.DataFrame) -> Any:
    """Of `gaps`: a panel per size, what a kind of search costs, and how far its seeds spread; in rings, the comparable ones."""
    kinds = found["search"].str.extract(r"^(auto|paper|\d+ steps)", expand=False).str.replace(r"\d+ steps", "steps", regex=True)
    names = {"auto": "until nothing helps, or cut short", "steps": "gradient steps alone", "paper": "the paper's search"}
    exact = ~found["search"].isin(found.loc[found["search"].str.endswith(", exact size"), "search"].str.split(",").str[0])
    points = {"points": 100 * found["spread"], "fine": 100 * found["their spread"]}
    shown = found.assign(kind=kinds.map(names), **points)[kinds.notna() & exact]
    shown["name"] = shown["search"].str.removesuffix(", exact size").str.replace(" x 1", "").str.replace("x ", "× ")
    panels = []
    for removed, part in shown.groupby("removed"):
        base = alt.Chart(part.sort_values("seconds")).encode(
            x=alt.X("seconds:Q", title="seconds of a core, one search", scale={"type": "log", "nice": False, "padding": 70}),
            y=alt.Y("points:Q", title="spread over seeds beyond chance, points", scale={"domain": [0, 30]}),
            color=coloured("kind", list(names.values()), LINES),
        )
        dots = base.mark_point(filled=True, size=70, opacity=1)
        rings = base.mark_point(size=120, strokeWidth=1.5).encode(y="fine:Q")
        words = [
            base.transform_filter(f"datum.kind {sign} {names['auto']!r}")
            .mark_text(align=align, dx=dx, fontSize=10)
            .encode(text="name:N", color=alt.value(INK))
            for sign, align, dx in (("===", "right", -9), ("!==", "left", 9))
        ]
        title = {"text": f"{100 * float(str(removed)):g} % of the units removed", "anchor": "start"}
        panels.append(alt.layer(base.mark_line(), dots, rings, *words).properties(width=420, height=240, title=title))
    return alt.hconcat(*panels)


def many(bench: Bench, rows: list[Row], count: int) -> pd.DataFrame:
    """One row per mask: its KL on new texts of the generated task, and the standard error of that."""
    examples = encode(bench.generated(321, validation=count).validation, bench.model.tokenizer, bench.model.max_length)
    every = bench.texts(examples)
    rows_run, weight = draw(doubt(every.full), np.full(count, 1 / count), RUN, np.random.default_rng(0))
    texts = every.take(rows_run)
    found = []
    for row in rows:
        each = weight * texts.kl_of(bench.model.units.from_vector(np.array(row["mask"])))
        facts = {"removed": row["sparsity"], "search": row["search"], "seed": row["seed"], "held out": row["held out"]}
        found.append({**facts, "KL": each.sum(), "standard error": (each**2).sum() ** 0.5})
    return pd.DataFrame(found).sort_values(["removed", "search", "seed"])


class Kept:
    """Rows in a file, one a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[Row]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def has(self, **facts: Any) -> Row | None:
        return next((row for row in self.rows() if facts.items() <= row.items()), None)

    def make(self, how: str, sparsity: float, seed: int, work: Callable[[], Iterator[Row]]) -> None:
        """Unless it is there already."""
        if self.has(search=how, sparsity=sparsity, seed=seed):
            return
        made = []
        for row in work():
            rule = row.pop("rule", "")
            made.append({"search": f"{how}, {rule}" if rule else how, "seed": seed, "sparsity": sparsity, **row})
        with self.path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in made))


def numbers(text: str) -> list[str]:
    return [number for number in text.split(",") if number]


def searches(given: argparse.Namespace) -> Iterator[tuple[str, L0]]:
    sizes = [float(size) for size in numbers(given.sizes)]
    for factor in numbers(given.auto):
        how, budget = ("auto" if factor == "1" else f"auto x {factor}"), float(factor)
        yield from ((how, L0(sparsity=size, budget=budget)) for size in sizes)
        if len(sizes) > 1:
            yield f"{how}, path", L0(sparsity=sizes[-1], path=tuple(sizes[:-1]), budget=budget)
    for starts in numbers(given.starts):
        yield from ((f"auto, {starts} starts", L0(sparsity=size, starts=int(starts))) for size in sizes)
    for steps in numbers(given.fixed):
        yield from ((f"{steps} steps", L0(sparsity=size, steps=int(steps))) for size in sizes)
    for share in numbers(given.paper):
        yield from ((f"paper x {share}", of_paper(size, float(share))) for size in sizes)


def beside(bench: Bench, kept: Kept, given: argparse.Namespace) -> None:
    """What is as large as the masks of auto searches: those must be there."""
    for size in map(float, numbers(given.sizes)):
        for seed in range(given.seeds):
            like = kept.has(search=given.like, sparsity=size, seed=seed)
            if like is None:
                print(f"no {given.like} of seed {seed} with {100 * size:g} % removed: nothing is put beside it")
                continue
            mask = bench.model.units.from_vector(np.array(like["mask"]))
            if given.importance:
                kept.make("importance", size, seed, partial(bench.importance, mask))
            for number in range(given.random if seed == 0 else 0):
                kept.make("random", size, number, partial(bench.random, mask, number))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", default="generated,MNLI", help="those of which the data are there")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--auto", default="1", help="auto searches: factors on their budget, at most 1")
    parser.add_argument("--starts", default="2", help="auto searches from so many starts")
    parser.add_argument("--fixed", default="32,64,200,400,1600", help="searches of so many steps")
    parser.add_argument("--paper", default="0.1", help="the paper's preset with such a share of its steps")
    parser.add_argument("--random", type=int, default=20, help="so many random masks of each size")
    parser.add_argument("--importance", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--cases", action="store_true", help="judge masks of the generated task on its cases")
    parser.add_argument("--picture", type=Path, help="draw what --cases finds: an SVG, PDF or PNG")
    parser.add_argument("--many", type=int, default=0, help="so many other new texts of the generated task")
    parser.add_argument("--sizes", default="0.5,0.7", help="shares of the units to remove, in rising order")
    parser.add_argument("--precision", default="float32", choices=KINDS, help="of searches")
    parser.add_argument("--like", default="auto", help="the search whose sizes importance pruning and random masks have")
    given = parser.parse_args()
    given.store.mkdir(parents=True, exist_ok=True)
    studies = {"generated": files("corewood.study").joinpath("demo.yaml").read_text(encoding="utf-8")}
    if given.data is not None:
        studies["MNLI"] = MNLI.format(data=given.data.resolve())
    for name in [name for name in studies if name in given.tasks.split(",")]:
        kept = Kept(given.store / f"{name}.jsonl")
        bench = Bench(name, studies[name], given.store, given.data if name == "MNLI" else None, given.precision)
        for how, settings in searches(given):
            for seed in range(given.seeds):
                kept.make(how, settings.sparsity, seed, partial(bench.search, settings, seed))
        if given.importance or given.random:
            beside(bench, kept, given)
        print(f"\n{name}, KL in nats, lowest to highest over seeds")
        print(summary(kept.rows()).sort_values(["removed", "seconds"]).to_string(index=False), flush=True)
        if given.cases and name == "generated":
            several = pd.DataFrame(kept.rows()).groupby(["sparsity", "search"]).filter(lambda part: len(part) > 1)
            found = gaps(bench, several.to_dict("records"))
            print(found.round(3).to_string(index=False), flush=True)
            if given.picture is not None:
                save(picture(found), given.picture)
        if given.many and name == "generated":
            print(many(bench, kept.rows(), given.many).round(5).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
