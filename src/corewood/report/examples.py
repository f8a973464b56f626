"""The examples behind dots and rows: what the page's panel shows, and one of each case beside its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from corewood.evaluate.examples import A_CASE
from corewood.report.html import html_table
from corewood.report.items import table
from corewood.report.models import ModelTables
from corewood.report.style import Tables, order_of_cases, where

LONGEST = 600  # characters of a text that the page holds
TABLES = ("examples", "answers", "changes")
CHANGES = ["differ", "lost", "gained", "wrong"]


@table("Subnetworks", "cases", "What the cases are", of="examples")
def cases_table(tables: Tables) -> str | None:
    """One example of each, the shortest, with its right answer. Hold the pointer over the name of a case anywhere on this page
    to see it there; a click on a dot, a cell or the name of a subnetwork shows the examples behind it."""
    rows = tables["examples"]
    rows = rows[rows["specimen"]].copy()
    rows["case"] = where(rows)
    rows = rows.set_index("case").loc[order_of_cases(rows.assign(where=rows["case"]))].reset_index()
    if "second" in rows and rows["second"].notna().any():
        rows["first"] = rows["first"].map(cut) + (" \u2014 " + rows["second"].map(cut, na_action="ignore")).fillna("")
    kept = [name for name in ("group",) if rows[name].astype(bool).any()]
    return html_table(rows[["case", *kept, "first", "gold"]], {"first": "an example", "gold": "its right answer"})


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def packed(tables: Tables, models: Iterable[ModelTables]) -> dict[str, Any]:
    """What the panel needs, small: labels and cases by their places, probabilities in whole per cents.

    models: what the page calls a model -> its place in `told`; tasks: `pack_task` of each; told: of each model its task, and of
    each subnetwork three lists (answers, their probabilities, those of the right answers) as long as the task's examples;
    below `changes`, four counts for each case. Nothing where there are no examples.
    """
    if any(name not in tables for name in TABLES):
        return {}
    answers = tables["answers"]
    keys = [*dict.fromkeys(zip(answers["task"], answers["tuning"], strict=True))]
    labels = {model.label: keys.index(model.key) for model in models if model.key in keys}
    tasks = {task: pack_task(rows, answers[answers["task"] == task]) for task, rows in tables["examples"].groupby("task")}
    told = [pack_model(tables, tasks[task], *key) for key in keys for task in key[:1]]
    return {"longest": A_CASE, "models": labels, "tasks": tasks, "told": told}


def pack_task(rows: pd.DataFrame, answers: pd.DataFrame) -> dict[str, Any]:
    """labels; cases: [dataset, case, place of its specimen]; choices: [name, places of cases]; names: every name that charts
    give to a choice -> its place; examples: [place of the case, number in the dataset, place of the right label, texts]."""
    labels = sorted({*rows["gold"], *answers["answer"]})
    places = rows.drop_duplicates(["dataset", "case"])
    cases = {key: place for place, key in enumerate(zip(places["dataset"], places["case"], strict=True))}
    texts = [name for name in ("first", "second") if name in rows]
    examples, specimens = [], {}
    for place, row in enumerate(rows.to_dict("records")):
        case = cases[row["dataset"], row["case"]]
        shown = [cut(row[name]) for name in texts if isinstance(row[name], str)]
        examples.append([case, int(row["example"]), labels.index(row["gold"]), *shown])
        if row["specimen"]:
            specimens[case] = place
    called = dict(zip(cases, where(places), strict=True))
    choices: list[tuple[str, list[int]]] = [(str(called[key]), [place]) for key, place in cases.items()]
    for dataset in dict.fromkeys(places["dataset"]):
        mine = [place for (other, _), place in cases.items() if other == dataset]
        if len(mine) > 1:
            choices.append((f"{dataset}: all", mine))
    names = {name: place for place, (name, _) in enumerate(choices)}
    for (dataset, case), place in cases.items():  # charts leave out the set where they show but one
        names.setdefault(f"{dataset}: {case}", place)
        if case != "all" and [other for _, other in cases].count(case) == 1:
            names.setdefault(case, place)
    return {
        "labels": labels,
        "cases": [[*key, specimens[place]] for key, place in cases.items()],
        "choices": choices,
        "names": names,
        "examples": examples,
    }


def pack_model(tables: Tables, task: dict[str, Any], name: str, tuning: int) -> dict[str, Any]:
    answers, changes = (
        rows[(rows["task"] == name) & (rows["tuning"] == tuning)] for rows in (tables["answers"], tables["changes"])
    )
    label = {name: place for place, name in enumerate(task["labels"])}
    cases = {(dataset, case): place for place, (dataset, case, _) in enumerate(task["cases"])}
    order = {(task["cases"][case][0], number): place for place, (case, number, *_) in enumerate(task["examples"])}
    said, counts = {}, {}
    for who, mine in answers.groupby("subnetwork", sort=False):
        places = [order[key] for key in zip(mine["dataset"], mine["example"], strict=True)]
        mine = mine.set_axis(places).sort_index()
        chances = [(100 * mine[column]).round().astype(int).tolist() for column in ("probability", "gold_probability")]
        said[str(who)] = [mine["answer"].map(label).tolist(), *chances]
    for who, mine in changes.groupby("subnetwork", sort=False):
        places = [cases[key] for key in zip(mine["dataset"], mine["case"], strict=True)]
        counts[str(who)] = mine[CHANGES].set_axis(places).sort_index().to_numpy().tolist()
    return {"task": name, "said": said, "changes": counts}
