"""How long must a search be? KL of the final mask on texts it has not seen, against the examples it has.

    .venv/bin/python bench/budget.py --store FOLDER [--data FOLDER] [--seeds 3] [--fixed 32,64,200,400,1600] [--auto 1,2]
        [--starts 2]

Fixed searches have so many gradient steps of 32 examples and give their last mask; auto searches end by themselves, those of a
path give both sizes, those from several starts the best of them. Three columns of KL: texts held out of the search (as in the
report), other training texts, and new texts, which the model was not trained on. The model is the demo's; with --data
(mnli/train_part.jsonl, mnli/dev_matched.jsonl) also MiniLM on MNLI. What is done is kept in FOLDER and not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.resources import files
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.overlap import overlap
from corewood.data.read import read_split
from corewood.evaluate.metrics import kl
from corewood.evaluate.predict import logits_of
from corewood.model.load import Model, load
from corewood.model.mask import Mask
from corewood.model.reference import no_progress
from corewood.prune.l0 import best_of_starts, l0_search
from corewood.spec import L0, SourceSpec, parse_study
from corewood.store.store import Store
from corewood.study.entries import read_encoded, read_reference
from corewood.study.job import execute
from corewood.study.plan import make_plan
from corewood.study.run import store_data

SIZES = (0.5, 0.7)
NEW = 3000  # texts of each of the two larger sets
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

    def __init__(self, name: str, study: str, folder: Path, data: Path | None) -> None:
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
        self.sample = texts.take(rows)
        other = np.setdiff1d(np.arange(len(texts)), rows)[:NEW]
        new = overlap(seed=123, train=10, validation=NEW, per_case=1, counter=0.06).validation
        if data is not None:
            new, _ = read_split("dev", SourceSpec(path=str(data / "mnli/dev_matched.jsonl"), layout="mnli", limit=NEW))
        self.sets: dict[str, tuple[Encoded, np.ndarray]] = {}
        for what, examples in (
            ("training texts", texts.take(other)),
            ("new texts", encode(new, self.model.tokenizer, self.model.max_length)),
        ):
            self.sets[what] = examples, logits_of(self.model, self.model.units.full(), examples)

    def judge(self, mask: Mask) -> dict[str, float]:
        means = self.reference.means
        return {
            name: float(kl(full, logits_of(self.model, mask, examples, "mean", means)).mean())
            for name, (examples, full) in self.sets.items()
        }


def one(bench: Bench, settings: L0, seed: int) -> list[dict[str, Any]]:
    """A row per size; what a path cost stands in each of its rows."""
    start = time.process_time()
    found = best_of_starts(
        lambda _start, own: l0_search(bench.model, bench.sample, bench.reference, settings, own), settings, seed
    )
    seconds = time.process_time() - start
    gradient = int(found.trajectory.loc[found.trajectory["round"] == 0, "examples"].max())
    cost = {
        "examples": gradient,
        "rounds": int((found.trajectory["round"] > 0).sum()),
        "forward": int(found.trajectory["examples"].max()) - gradient,
        "seconds": round(seconds, 1),
    }
    return [
        {"sparsity": sparsity, **cost, "held out": held, **bench.judge(mask), "mask": mask.vector.astype(int).tolist()}
        for sparsity, mask, held in zip(settings.targets, found.masks, found.held, strict=True)
    ]


def summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """One row per size and kind of search: the lowest and highest KL over seeds, and how far masks agree."""
    table = pd.DataFrame(rows)
    found = []
    for (sparsity, how), part in table.groupby(["sparsity", "search"], sort=False):
        masks = [np.array(m, bool) for m in part["mask"]]
        jaccard = [float((a & b).sum() / (a | b).sum()) for a, b in combinations(masks, 2)]
        kept = masks[0].mean()
        spans = {c: f"{part[c].min():.4f} to {part[c].max():.4f}" for c in ("held out", "training texts", "new texts")}
        found.append(
            {"removed": sparsity, "search": how, "gradient examples": int(part["examples"].mean()),
             "forward": int(part["forward"].mean()), "seconds": round(part["seconds"].mean()), **spans,
             "Jaccard": round(float(np.mean(jaccard)), 2) if jaccard else np.nan, "chance": round(kept / (2 - kept), 2)}
        )  # fmt: skip
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fixed", default="32,64,200,400,1600")
    parser.add_argument("--auto", default="1,2", help="factors on the budget of an auto search")
    parser.add_argument("--starts", default="2", help="auto searches from so many starts")
    given = parser.parse_args()
    given.store.mkdir(parents=True, exist_ok=True)
    studies = {"generated": files("corewood.study").joinpath("demo.yaml").read_text(encoding="utf-8")}
    if given.data is not None:
        studies["MNLI"] = MNLI.format(data=given.data.resolve())
    for name, study in studies.items():
        kept = given.store / f"{name}.jsonl"
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        bench = Bench(name, study, given.store, given.data if name == "MNLI" else None)
        searches: list[tuple[str, dict[str, Any]]] = []
        for factor in filter(None, given.auto.split(",")):
            how = "auto" if factor == "1" else f"auto x {factor}"
            searches += [(how, dict(sparsity=size, budget=float(factor))) for size in SIZES]
            searches.append((f"{how}, path", dict(sparsity=SIZES[-1], path=SIZES[:-1], budget=float(factor))))
        searches += [
            (f"auto, {starts} starts", dict(sparsity=size, starts=int(starts)))
            for starts in given.starts.split(",")
            if starts
            for size in SIZES
        ]
        searches += [
            (f"{steps} steps", dict(sparsity=size, steps=int(steps)))
            for steps in given.fixed.split(",")
            if steps
            for size in SIZES
        ]
        for (how, settings), seed in product(searches, range(given.seeds)):
            what = {"search": how, "seed": seed}
            if any((what | {"sparsity": settings["sparsity"]}).items() <= row.items() for row in rows):
                continue
            made = [what | row for row in one(bench, L0(**settings), seed)]
            rows += made
            with kept.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in made))
        print(f"\n{name}, KL in nats, lowest to highest over {given.seeds} seeds")
        print(summary(rows).sort_values(["removed", "seconds"]).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
