"""The models of a study: the rows of each, which charts of one model and way are drawn from, and whether it has learnt."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from corewood.analyse.generalisation import of_cases, of_skills
from corewood.report.style import Tables
from corewood.report.ways import BESIDE
from corewood.report.words import joined, quoted

OF_GROUP = ("spread", "frequencies", "effective_size")  # tables that every group with subnetworks has one of
OF_MODEL = ("ablation", "attention", "dynamics")
AT_CHECKPOINTS = ("ablation", "attention", "attention_core", "attention_maps")  # charts show the last, unless they say so
ALL_WAYS = ("standing",)  # tables of a model in which ways stand beside each other: with its first way
ACROSS = ("core_tunings", "tunings", "survivors", "stability", "stability_pairs", "overlaps", "ways", "tickets", "rounds",
          "competing", "core_alone")  # fmt: skip


WITH_SKILLS = ("scores", "spread", "ablation")  # tables that have rows about skills below those about cases


@dataclass(frozen=True)
class ModelTables:
    label: str  # empty where there is but one
    tables: Tables
    key: tuple[str, int] | None = None  # task and seed of the fine-tuning
    slug: str = ""  # of the label, unlike those of the others


def apart(tables: Tables) -> Tables:
    """Rows about skills in tables of their own, `skill_spread` and so on, so that the others are about cases alone."""
    made = dict(tables)
    for name in WITH_SKILLS:
        if name in tables and len(skills := of_skills(tables[name])):
            made |= {name: of_cases(tables[name]), f"skill_{name}": skills}
    return made


def models_of(tables: Tables) -> list[ModelTables]:
    """One for each model and way; what is not about a way stands with the first of its model."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name in (*OF_GROUP, *OF_MODEL):
        if name in tables:
            rows = tables[name]
            ways = rows["way"] if "way" in rows else pd.Series("", rows.index)
            for task, tuning, way in dict.fromkeys(zip(rows["task"], rows["tuning"], ways, strict=True)):
                mine = groups.setdefault((task, tuning), [])
                if way and way not in mine:
                    mine.append(way)
    keys = [(task, tuning, way, place) for (task, tuning), ways in groups.items() for place, way in enumerate(ways or [""])]
    several = [len({key[i] for key in keys}) > 1 for i in range(3)]
    made: list[ModelTables] = []
    for task, tuning, way, place in keys:
        parts = (task, f"seed {tuning}", way)
        label = ", ".join(str(part) for part, wanted in zip(parts, several, strict=True) if wanted)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower()
        slug += f"-{len(made)}" * (slug in [one.slug for one in made])  # tasks may be called a.b and a-b
        made.append(ModelTables(label, rows_of(tables, task, tuning, way, first=place == 0), (task, tuning), slug))
    return made or [ModelTables("", {})]  # nothing is compared within a model


def plain(tables: Tables) -> Tables:
    """Without the subnetworks that were searched or drawn to stand beside the plain ones, but where they do."""
    whole = ("ways", "competing", "core_alone", "scores")
    rest = {
        name: table if name in whole or "way" not in table else table[~table["way"].isin(BESIDE)]
        for name, table in tables.items()
    }
    return {name: table for name, table in rest.items() if len(table) or not len(tables[name])}


def rows_of(tables: Tables, task: str, tuning: int, way: str, first: bool) -> Tables:
    found = {}
    for name, table in tables.items():
        if name in ACROSS or name == "holes":
            continue
        of_way = "way" in table and name not in ALL_WAYS
        if not of_way and "tuning" in table and not first:
            continue
        inside = pd.Series(True, table.index)
        for column, value in (("task", task), ("tuning", tuning)):
            inside &= (table[column] == value) if column in table else True
        if of_way:
            inside &= table["way"].isin([way, "full"])
        if name in ("scores", "skill_scores", "sizes"):
            inside &= table["question"].isin(["full", "prune", "effective_size"])
        if inside.any():
            found[name] = table[inside].reset_index(drop=True)
    found["accuracy"] = found.pop("scores", tables["scores"].iloc[:0])  # of this model alone
    if "sizes" in found:
        sizes = found["sizes"]
        last = sizes["checkpoint"] == sizes["checkpoint"].max()
        found["sizes"] = sizes[last & (sizes["question"] != "effective_size")].reset_index(drop=True)
    for name in AT_CHECKPOINTS:
        if name in found:
            every = found.pop(name)
            at_last = every["checkpoint"] == found["accuracy"]["checkpoint"].max()
            if every["checkpoint"].nunique() > 1:
                found[f"{name}_over_training"] = every
            if at_last.any():
                found[name] = every[at_last].reset_index(drop=True)
    return found


def unlearnt(tables: Tables, name: str) -> str:
    """Which models have not learnt their task, and how that shows."""
    models = tables.get("models", pd.DataFrame({"learnt": []}))
    bad = models[~models["learnt"].astype(bool)]
    if bad.empty:
        return ""
    row, by_accuracy = bad.iloc[0], bad.iloc[0]["metric"] == "accuracy"
    how = f"{100 * row['value']:.1f} % right" if by_accuracy else f"{row['metric']} {row['value']:.2f}"
    how += f", where one and the same answer gets {100 * row['floor']:.1f} %" if by_accuracy else ", where chance gives 0"
    if row["answer_share"] > 0.9:
        how += f"; it answers “{row['answer']}” to {100 * row['answer_share']:.0f} % of them"
    if len(models) == 1:
        begin = f"{name} has not learnt its task, as far as {row['n']:.0f} examples tell"
        return f"{begin} ({how}). How its subnetworks generalise cannot be asked yet."
    tasks = joined(dict.fromkeys(quoted(task) for task in bad["task"]))
    begin = f"None of the {len(models)} models has learnt its task"
    if len(bad) < len(models):
        their = "has not learnt its" if len(bad) == 1 else "have not learnt their"
        begin = f"{len(bad)} of {len(models)} models {their} task"
    begin += f", as far as {row['n']:.0f} examples tell ({tasks}; {'the first: ' if len(bad) > 1 else ''}{how})"
    return f"{begin}. What is said of such models means nothing."
