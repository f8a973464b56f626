"""What a model has learnt, and what pruning takes: accuracy on each side of a skill, and the AUC of telling them apart.

    .venv/bin/python bench/skills.py REPORT [--picture FILE]

REPORT is a folder that `corewood run` has written, of a study whose cases are one-sided and belong to skills. A row per model
and skill: the full model's accuracy on the side of which less is right and on the other, its AUC, and the lowest and highest of
them over the L0 subnetworks of each size. All in per cent. Then, how skills come over training, which the picture shows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
from claims import in_markdown, report_tables
from pictures import save

from corewood.report.style import PERCENT, coloured

KEYS = ["task", "tuning"]


def rows_of(tables: dict[str, pd.DataFrame]) -> Iterator[dict[str, object]]:
    spread, skills = (rows[rows["way"] == "l0"] for rows in (tables["spread"], tables["skills"]))
    spread = spread[(spread["domain"] == "challenge") & (spread["metric"] == "accuracy") & (spread["skill"] != "")]
    auc = skills[skills["metric"] == "auc"]
    several = len(auc[KEYS].drop_duplicates()) > 1
    for (task, tuning, skill), found in auc.groupby([*KEYS, "case"], sort=False):
        sides = spread[(spread["task"] == task) & (spread["tuning"] == tuning) & (spread["skill"] == skill)]
        sides = sides[sides["gold"] != "mixed"]
        hard = sides.groupby("gold")[["full", "min"]].mean().sum(axis=1).idxmin() if len(sides) else ""
        row: dict[str, object] = {"model": f"{task} {tuning}" if several else task, "skill": skill}
        for name, part in (("hard side", sides[sides["gold"] == hard]), ("other side", sides[sides["gold"] != hard])):
            row[name] = across(part)
        yield row | {"AUC": across(found)}


def across(rows: pd.DataFrame) -> str:
    """96; 80 to 89 (50 %), 77 to 82 (70 %): the full model's, and over the subnetworks of each size."""
    if rows.empty:
        return ""
    sizes = [f"{ends(part)} ({100 * target:g} %)" for target, part in rows.groupby("target")]
    return f"{100 * rows['full'].mean():.0f}; {', '.join(sizes)}"


def ends(rows: pd.DataFrame) -> str:
    low, high = (f"{100 * rows[name].mean():.0f}" for name in ("min", "max"))
    return low if low == high else f"{low} to {high}"


def over_time(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of full models: what is right of the harder side of each skill, and the AUC of telling both sides apart."""
    full = scores[(scores["way"] == "full") & (scores["domain"] == "challenge")]
    right = full[(full["metric"] == "accuracy") & (full["skill"] != "") & (full["gold"] != "mixed")]
    order = right.groupby([*KEYS, "skill", "gold"])["value"].mean().sort_values().reset_index()
    harder = order.drop_duplicates([*KEYS, "skill"])[[*KEYS, "skill", "gold"]]
    auc = full[(full["metric"] == "auc") & (full["case"] != "all")]
    right = right.merge(harder, on=[*KEYS, "skill", "gold"])
    return right.groupby([*KEYS, "skill", "checkpoint"], sort=False)[
        "value"
    ].mean().reset_index(), auc  # a side may be several cases


def come(scores: pd.DataFrame) -> pd.DataFrame:
    """Of every skill of which half of the hard side comes to be right: what is right, and the AUC, at the first checkpoint
    where it is so, and at the one before. Step 0 does not count: its answers are those of a new layer."""
    right, auc = over_time(scores[scores["checkpoint"] > 0])
    both = right.merge(auc[[*KEYS, "skill", "checkpoint", "value"]], on=[*KEYS, "skill", "checkpoint"], suffixes=("", "_auc"))
    rows = []
    for (task, tuning, skill), part in both.sort_values("checkpoint").groupby([*KEYS, "skill"], sort=False):
        later = part[part["value"] >= 0.5]
        earlier = part[part["checkpoint"] < later["checkpoint"].min()]
        if len(later) and len(earlier):
            first, before = later.iloc[0], earlier.iloc[-1]
            row: dict[str, object] = {"model": f"{task} {tuning}", "skill": skill}
            for when, at in (("before", before), ("then", first)):
                row |= {f"step {when}": at["checkpoint"], f"right {when}": at["value"], f"AUC {when}": at["value_auc"]}
            rows.append(row)
    return pd.DataFrame(rows)


def said(found: pd.DataFrame) -> str:
    """In the middle, and from the lowest to the highest."""
    ends = {
        name: f"{100 * found[name].median():.0f} % ({100 * found[name].min():.0f} to {100 * found[name].max():.0f})"
        for name in ("right before", "AUC before", "right then", "AUC then")
    }
    return (
        f"{len(found)} times half of a hard side came to be right. Medians, lowest and highest:\n"
        f"at the checkpoint before, {ends['right before']} were right, at an AUC of {ends['AUC before']};\n"
        f"then {ends['right then']}, at an AUC of {ends['AUC then']}."
    )


def over_training(scores: pd.DataFrame) -> Any:
    """A column per model: what is right of the harder side of each skill, and below it the AUC of telling both sides apart."""
    right, auc = over_time(scores)
    colour = coloured("skill", dict.fromkeys(auc["skill"])).legend(orient="top", columns=4)
    models = list(auc[KEYS].drop_duplicates().itertuples(index=False, name=None))
    rows = []
    for title, table, y in (("right on the hard side", right, [0, 1]), ("AUC", auc, [0.3, 1])):
        panels = []
        for task, tuning in models:
            mine = table[(table["task"] == task) & (table["tuning"] == tuning)]
            base = alt.Chart(mine[["checkpoint", "value", "skill"]]).encode(
                x=alt.X("checkpoint:Q", title="fine-tuning step", axis={"tickCount": 4}),
                y=alt.Y("value:Q", title=title, axis={"format": PERCENT, "tickCount": 4}, scale={"domain": y}),
                color=colour,
            )
            dots = base.mark_line(strokeWidth=1.6) + base.mark_point(filled=True, size=26, opacity=1)
            panels.append(
                dots.properties(title=f"{task} {tuning}" if len({t for _, t in models}) > 1 else task, width=210, height=150)
            )
        rows.append(alt.hconcat(*panels))
    return alt.vconcat(*rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="folder that `corewood run` or `corewood report` has written")
    parser.add_argument("--picture", type=Path, help="an SVG, PDF or PNG")
    given = parser.parse_args()
    tables = report_tables(given.report)
    print(in_markdown(pd.DataFrame(rows_of(tables))))
    print(f"\n{said(come(tables['scores']))}")
    if given.picture is not None:
        save(over_training(tables["scores"]), given.picture)


if __name__ == "__main__":
    main()
