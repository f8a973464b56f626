"""The core alone: does it follow the shortcut?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from corewood.report.html import html_table, share
from corewood.report.items import says, table
from corewood.report.style import Tables, percent
from corewood.report.ways import AROUND, CORE, spoken
from corewood.report.words import heads_in, joined, pct, quoted

FULL = "full"
MARGIN = 0.03  # answers that fall by more than three points are not kept
NAMES = {FULL: "full model", CORE: "core alone"}


@table("Competing", "core-alone", "The core alone", of="core_alone")
def core_alone_table(tables: Tables) -> str | None:
    """The heads that all L0 masks keep, with all MLPs; then with random others, as many heads and MLPs as an L0 mask of that
    size has. Answered: how often a label is the answer, of all examples. Right: of those whose answer it is. Means over
    subnetworks."""
    rows = tables["core_alone"].copy()
    rows["way"] = [NAMES.get(w, spoken(w)) for w in rows["way"]]
    rows["size"] = rows["target"].map(percent).where(rows["target"] > 0, "\u2013")
    keys = [name for name in ("task", "tuning") if rows[name].nunique() > 1] + ["way", "size", "heads", "mlps", "dataset"]
    lines = []
    for key, part in rows.groupby(keys, sort=False):
        line = dict(zip(keys, key, strict=True)) | {"accuracy": part["value"].iloc[0]}
        for _, row in part.iterrows():
            line |= {f"answered {quoted(row['label'])}": row["answered"], f"right, {quoted(row['label'])}": row["right"]}
        lines.append(line)
    made = pd.DataFrame(lines)
    forms = {str(name): share for name in made if str(name).startswith(("accuracy", "answered", "right"))}
    return html_table(made, {"tuning": "fine-tuning"}, {**forms, "heads": "{:.3g}".format, "mlps": "{:.3g}".format})


@says(of="core_alone")
def core_alone_points(tables: Tables) -> list[str]:
    rows = tables["core_alone"]
    return [point for task in dict.fromkeys(rows["task"]) for point in of_task(tables, rows[rows["task"] == task])]


def of_task(tables: Tables, rows: pd.DataFrame) -> Iterator[str]:
    """What it gets in domain; then, set by set, which answer it leans to. Of several fine-tunings, the means."""
    task, tunings = str(rows["task"].iloc[0]), rows["tuning"].nunique()
    who = f"its {heads_in(rows.loc[rows['way'] == CORE, 'heads'])} and all MLPs"
    who += f" (“{task}”)" if tables["core_alone"]["task"].nunique() > 1 else ""
    who += f", over {tunings} fine-tunings on average," if tunings > 1 else ""
    known = inside(rows)
    counts = known[known["way"] == FULL].groupby("label")["n"].mean()
    floor = float(counts.max() / counts.sum())  # of one and the same answer
    own, full = (float(known.loc[known["way"] == way, "value"].mean()) for way in (CORE, FULL))
    for dataset in dict.fromkeys(rows.loc[rows["domain"] == "challenge", "dataset"]) or [None]:
        begin = (
            f"Does the core alone follow the shortcut? With {who} it gets {pct(own)} right in domain (full model: {pct(full)})"
        )
        if dataset is None:
            yield f"{begin}; without challenge sets, more is not known."
            continue
        here = rows[rows["dataset"] == dataset]
        said, verdict = leaning(here)
        if own <= floor + MARGIN:
            verdict = f"Alone it does not do the task, where one and the same answer gets {pct(floor)}."
        yield f"{begin}. {said} {verdict}{filled(rows, here)}"


def leaning(rows: pd.DataFrame) -> tuple[str, str]:
    """(what it answers, beside the full model; whether it keeps one answer's examples and loses the others)

    Where a set has no examples of one kind, nothing is said of that.
    """
    core, full = (
        rows[rows["way"] == way].groupby("label", sort=False)[["answered", "right", "n"]].mean() for way in (CORE, FULL)
    )
    label = str((core["answered"] - full["answered"]).idxmax())
    dataset, others = rows["dataset"].iloc[0], core.index != label

    def on_others(table: pd.DataFrame) -> float:
        rest = table[others & (table["n"] > 0).to_numpy()]
        return float(np.average(rest["right"], weights=rest["n"])) if len(rest) else np.nan

    own = {who: table["right"][label] if table["n"][label] else np.nan for who, table in ((CORE, core), (FULL, full))}
    rest = {CORE: on_others(core), FULL: on_others(full)}
    parts = [
        f"on {pct(kind[CORE])} of {what} ({pct(kind[FULL])})"
        for kind, what in ((own, "those whose answer that is"), (rest, "the others"))
        if pd.notna(kind[CORE])
    ]
    said = (
        f"It answers {quoted(label)} to {pct(core['answered'][label])} of all examples of {quoted(dataset)} (full model: "
        f"{pct(full['answered'][label])}), and is right {joined(parts)}."
    )
    if len(parts) < 2:
        return said, "The set has one kind of answer, so that a shortcut cannot be told from the skill."
    falls, loses = (kind[CORE] < kind[FULL] - MARGIN for kind in (own, rest))
    points = 100 * (rest[FULL] - rest[CORE])
    verdicts = {
        (False, True): f"Yes: it keeps what {quoted(label)} answers, and loses {points:.0f} points on the rest.",
        (True, True): "It loses both kinds.",
        (True, False): "No: it keeps the others, and loses those, although it gives that answer more often.",
        (False, False): "No: it keeps both kinds.",
    }
    return said, verdicts[bool(falls), bool(loses)]


def filled(rows: pd.DataFrame, here: pd.DataFrame) -> str:
    """The core among random others, beside L0 masks of the same size and random ones."""
    said = ""
    for target in dict.fromkeys(here.loc[here["way"] == AROUND, "target"]):
        parts = []
        for way in dict.fromkeys(here.loc[here["target"] == target, "way"]):
            both = (part[(part["way"] == way) & (part["target"] == target)]["value"].mean() for part in (inside(rows), here))
            parts.append(f"{spoken(way)} " + " and ".join(map(pct, both)))
        said += f" With {100 * target:g} % removed, in domain and on {quoted(here['dataset'].iloc[0])}: {joined(parts)}."
    return said


def inside(rows: pd.DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = rows[rows["domain"] == "in-domain"]
    return found
