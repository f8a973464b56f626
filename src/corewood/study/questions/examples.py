"""The examples behind the numbers: of each case those that tell subnetworks from their full model, and what each says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from corewood.data.task import ALL, Split
from corewood.evaluate.examples import GAINED, LOST, Told, change, telling, told
from corewood.evaluate.metrics import parts
from corewood.study.models import TaskPlan
from corewood.study.results import Question, Results, in_front, stack
from corewood.study.subnetwork import PRUNE, Subnetwork

Said = list[dict[tuple[int, str], Told]]  # of each model: (seed of its fine-tuning, name) -> what it says, the full model first
DIGITS = 4  # of probabilities


def models_of(results: Results, task: TaskPlan) -> list[list[Subnetwork]]:
    """The full models at their last checkpoint, each with the subnetworks that are compared with each other behind it."""
    made = []
    for key, model in results.plan.models.items():
        full = results.full(key) if key[0] == task.name else None
        mine = [r for r in results.rows if (r.model, r.checkpoint, r.question) == (key, model.last, PRUNE)]
        if full is not None and mine:
            made.append([full, *mine])
    return made


def tables(results: Results) -> dict[str, pd.DataFrame | None]:
    made: dict[str, list[pd.DataFrame]] = {"examples": [], "answers": [], "changes": []}
    for task in results.plan.tasks.values():
        models = [] if task.regression else models_of(results, task)
        for dataset in task.datasets if models else ():
            split = task.splits[dataset]
            said = [
                {(r.tuning, r.name): told(split, task.classes, results.logits(r, dataset)) for r in rows} for rows in models
            ]
            for name, table in of_dataset(split, said, task.domain(dataset)).items():
                made[name].append(in_front(["task", "dataset"], table.assign(task=task.name, dataset=dataset)))
    return {name: stack(found) for name, found in made.items()}


def of_dataset(split: Split, said: Said, domain: str) -> dict[str, pd.DataFrame]:
    """The examples to show, case by case; what everybody says of them; and how many there are, shown or not."""
    shown, changes = [], []
    for case, group, inside in parts(split):
        if case == ALL and split.cases is not None:
            continue
        every = np.flatnonzero(inside)
        here = [{who: own.at(every) for who, own in model.items()} for model in said]
        pairs = [(full, own) for full, *subnetworks in map(dict.values, here) for own in subnetworks]
        specimen = shortest(split, every)
        rows = np.union1d(every[telling(pairs)], [specimen])
        texts = split.texts.iloc[rows].reset_index(drop=True)
        facts = pd.DataFrame({"domain": domain, "case": case, "group": group, "example": rows})
        shown.append(facts.join(texts).assign(gold=split.frame["label"].to_numpy()[rows], specimen=rows == specimen))
        for model in here:
            full = next(iter(model.values()))
            for (tuning, name), own in model.items():
                changes.append({"tuning": tuning, "subnetwork": name, "case": case, **counted(full, own)})
    examples = pd.concat(shown, ignore_index=True)
    answers = [answers_table(split, who, own, examples["example"]) for model in said for who, own in model.items()]
    return {"examples": examples, "answers": pd.concat(answers, ignore_index=True), "changes": pd.DataFrame(changes)}


def shortest(split: Split, rows: np.ndarray) -> int:
    """The example that stands for its case."""
    length = split.texts.iloc[rows].apply(lambda texts: texts.str.len()).sum(axis=1)
    return int(rows[length.to_numpy().argmin()])


def counted(full: Told, own: Told) -> dict[str, int]:
    which, differ = change(full, own), full.answer != own.answer
    counts = {"differ": differ, "lost": which == LOST, "gained": which == GAINED, "wrong": ~own.right}
    return {"n": len(which), **{name: int(found.sum()) for name, found in counts.items()}}


def answers_table(split: Split, who: tuple[int, str], own: Told, examples: pd.Series) -> pd.DataFrame:
    own = own.at(examples.to_numpy())
    made: dict[str, Any] = {"tuning": who[0], "subnetwork": who[1], "example": examples}
    made |= {"answer": np.array(split.labels, dtype=object)[own.answer]}
    made |= {"probability": own.chance.round(DIGITS), "gold_probability": own.gold_chance.round(DIGITS)}
    return pd.DataFrame(made)


QUESTION = Question("examples", tables)
