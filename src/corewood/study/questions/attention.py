"""What heads attend to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from corewood.analyse.behaviour import core_against_rest, mostly, named
from corewood.data.read import drawn
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.attention import attention_map, head_scores, split_words
from corewood.study.entries import read_data, read_maps
from corewood.study.job import Job, Kind
from corewood.study.models import VALIDATION
from corewood.study.questions.question import Question
from corewood.study.results import Results, stack
from corewood.study.work import Work

if TYPE_CHECKING:
    from corewood.study.plan import Plan

FAINT = 0.02  # attention below this is left out of the maps


def plan(plan: Plan) -> None:
    wanted = plan.spec.attention
    if wanted is None:
        return
    if not plan.checkpoint.tokenizer.is_fast:
        raise InputError("attention: words are read off a fast tokenizer, and this model has none; leave attention out")
    parts = {}
    for model in plan.models.values():
        task = model.task
        challenge = [n for n in task.datasets if n != VALIDATION]
        dataset = wanted.dataset or (challenge or [VALIDATION])[0]
        if dataset not in task.splits:
            raise InputError(f"attention.dataset: there is no {dataset!r}; the sets are {', '.join(task.splits)}")
        params = {
            **model.at(model.last),
            "examples": wanted.examples,
            "maps": wanted.maps,
            "texts": [list(texts) for texts in wanted.texts],
            "focus": list(plan.spec.focus),
            "seed": plan.spec.seed,
        }
        work = min(wanted.examples, len(task.splits[dataset]))
        inputs = {**model.tuned, "data": task.data[dataset]}
        title = f"{model.who}attention on {dataset}"
        parts[model.key] = model.add(Job.make(ATTENTION, title, params, inputs, model.local, work))
    plan.parts["attention"] = parts


def do_attention(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    split = read_data(work.input("data"))
    chosen = drawn(split.frame, params["examples"], params["seed"])
    examples = split_words(model, split, chosen)
    head_scores(model, examples, work.progress).to_parquet(work.folder / "scores.parquet", index=False)
    columns = [c for c in ("first", "second") if c in split.frame]
    shown = [(name, tuple(split.frame.loc[i, columns])) for name, i in to_show(split, params["maps"], params["focus"])]
    shown += [("", tuple(texts)) for texts in params["texts"]]
    maps = []
    arrays = {}
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


def scores_table(results: Results) -> pd.DataFrame | None:
    """Every head on every kind of place; `core` marks those that all subnetworks keep."""
    tables = []
    for key, scores in read_scores(results):
        does = mostly(scores).set_index("unit")["does"]
        unit = named(scores)
        core = unit.isin(results.core(key))
        tables.append(scores.assign(task=key[0], tuning=key[1], unit=unit, core=core, does=unit.map(does)))
    return stack(tables)


def read_scores(results: Results) -> list[tuple[tuple[str, int], pd.DataFrame]]:
    jobs = results.plan.parts.get("attention", {})
    return [
        (key, pd.read_parquet(results.entry(job).path("scores.parquet"))) for key, job in jobs.items() if results.there(job)
    ]


def core_table(results: Results) -> pd.DataFrame | None:
    tables = []
    for key, scores in read_scores(results):
        if results.core(key):
            tables.append(core_against_rest(scores, results.core(key)).assign(task=key[0], tuning=key[1]))
    return stack(tables)


def maps_table(results: Results) -> pd.DataFrame | None:
    """Maps of the core heads on the examples shown: one row per head and pair of words, without the faint ones."""
    tables = []
    for key, job in results.plan.parts.get("attention", {}).items():
        for number, (case, shown) in enumerate(read_maps(results.entry(job)) if results.there(job) else ()):
            for unit in results.core(key):
                layer, head = (int(part[1:]) for part in unit.split("."))
                values = shown.values[layer, head]
                query, column = np.nonzero(values >= FAINT)
                words = np.array(shown.words, dtype=object)
                facts = {"task": key[0], "tuning": key[1], "example": number, "case": case, "unit": unit}
                places = {"query": query, "key": column, "query_word": words[query], "key_word": words[column]}
                places |= {"query_sentence": shown.sentence[query], "key_sentence": shown.sentence[column]}
                tables.append(pd.DataFrame({**places, "value": values[query, column]}).assign(**facts))
    return stack(tables)


ATTENTION = Kind("attention", 1, "read attention", "forward", 3.0, do_attention)
QUESTION = Question(
    "attention",
    lambda r: {"attention": scores_table(r), "attention_core": core_table(r), "attention_maps": maps_table(r)},
    plan,
    (ATTENTION,),
)
