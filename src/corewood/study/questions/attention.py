"""What heads attend to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from corewood.analyse.behaviour import core_against_rest, mostly, named
from corewood.data.read import drawn
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.attention import attention_map, head_scores, split_words
from corewood.spec import Attention
from corewood.store.store import Entry
from corewood.study.entries import read_maps
from corewood.study.job import Job, Kind, Work
from corewood.study.models import VALIDATION, Plan
from corewood.study.results import Question, Results, stack

FAINT = 0.02  # attention below this is left out of the maps


Place = tuple[tuple[str, int], int]  # model, checkpoint


def plan(plan: Plan, wanted: Attention) -> dict[Place, Job]:
    if not plan.checkpoint.tokenizer.is_fast:
        raise InputError("attention: words are read off a fast tokenizer, and this model has none; leave attention out")
    params = {
        **wanted.model_dump(mode="json", include={"examples", "maps", "texts"}),
        "focus": list(plan.spec.focused),
        "seed": plan.spec.seed,
    }
    jobs: dict[Place, Job] = {}
    for model in plan.models.values():
        task = model.task
        dataset = wanted.dataset or (task.challenge or [VALIDATION])[0]
        if dataset not in task.splits:
            raise InputError(f"attention.dataset: there is no {dataset!r}; the sets are {', '.join(task.splits)}")
        work = min(wanted.examples, len(task.splits[dataset]))
        for step in model.and_last(wanted.checkpoints):
            title, inputs = f"attention on {dataset}{model.at(step)}", {"data": task.data[dataset]}
            jobs[model.key, step] = model.job_at(step, ATTENTION, title, params, inputs, work)
    return jobs


def do_attention(work: Work) -> dict[str, Any]:
    params, model, split = work.job.params, work.model(), work.data()
    examples = split_words(model, split, drawn(split.frame, params["examples"], params["seed"]))
    head_scores(model, examples, work.progress).to_parquet(work.folder / "scores.parquet", index=False)
    columns = [c for c in ("first", "second") if c in split.frame]
    shown = [(name, tuple(split.frame.loc[i, columns])) for name, i in to_show(split, params["maps"], params["focus"])]
    shown += [("", tuple(texts)) for texts in params["texts"]]
    maps, arrays = [], {}
    for i, (name, texts) in enumerate(shown):
        one = attention_map(model, *texts)
        arrays[f"map-{i}"] = one.values.astype(np.float32)
        maps.append({"case": name, "texts": list(texts), "words": list(one.words), "sentence": one.sentence.tolist()})
    save_file(arrays, work.folder / "maps.safetensors")
    return {"maps": maps, "examples": len(examples)}


def to_show(split: Split, count: int, focus: Sequence[str]) -> list[tuple[str, int]]:
    """(case, example): the shortest example of each of the first cases; those in focus first."""
    letters = split.frame["first"].str.len() + (split.frame["second"].str.len() if "second" in split.frame else 0)
    if split.cases is None:
        return [("", int(i)) for i in letters.sort_values(kind="stable").index[:count]]
    names = list(dict.fromkeys([*focus, *split.cases]))
    return [(name, int(letters[split.cases == name].idxmin())) for name in names if (split.cases == name).any()][:count]


def read(results: Results) -> Iterator[tuple[dict[str, Any], list[str], Entry]]:
    """(which model and checkpoint, the heads of its core, what is known of its heads)"""
    jobs: dict[Place, Job] = results.plan.parts.get("attention", {})
    for (key, step), job in jobs.items():
        if results.there(job):
            yield {"task": key[0], "tuning": key[1], "checkpoint": step}, results.core(key), results.entry(job)


def scores_table(results: Results) -> pd.DataFrame | None:
    """Every head on every kind of place; `core` marks those that all subnetworks keep."""
    tables = []
    for facts, core, entry in read(results):
        scores = pd.read_parquet(entry.path("scores.parquet"))
        does = mostly(scores).set_index("unit")["does"]
        unit = named(scores)
        tables.append(scores.assign(**facts, unit=unit, core=unit.isin(core), does=unit.map(does)))
    return stack(tables)


def core_table(results: Results) -> pd.DataFrame | None:
    tables = []
    for facts, core, entry in read(results):
        if core:
            scores = pd.read_parquet(entry.path("scores.parquet"))
            tables.append(core_against_rest(scores, core).assign(**facts))
    return stack(tables)


def maps_table(results: Results) -> pd.DataFrame | None:
    """Maps of the core heads on the examples shown: one row per head and pair of words, without the faint ones."""
    tables = []
    for facts, core, entry in read(results):
        for (number, (case, shown)), unit in product(enumerate(read_maps(entry)), core):
            layer, head = (int(part[1:]) for part in unit.split("."))
            values, words = shown.values[layer, head], np.array(shown.words, dtype=object)
            query, column = np.nonzero(values >= FAINT)
            places = {"query": query, "key": column, "query_word": words[query], "key_word": words[column]}
            places |= {"query_sentence": shown.sentence[query], "key_sentence": shown.sentence[column]}
            mine = pd.DataFrame({**places, "value": values[query, column]})
            tables.append(mine.assign(**facts, example=number, case=case, unit=unit))
    return stack(tables)


ATTENTION = Kind("attention", 1, "read attention", "forward", 3.0, do_attention)
QUESTION = Question(
    "attention",
    lambda r: {"attention": scores_table(r), "attention_core": core_table(r), "attention_maps": maps_table(r)},
    plan,
    (ATTENTION,),
)
