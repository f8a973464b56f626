"""Skill or prior: whether answers are told apart, or one of them is only given more often."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from corewood.analyse.generalisation import judged
from corewood.analyse.verdicts import LOST
from corewood.evaluate.metrics import AUC, BALANCED, CRITERION, D_PRIME
from corewood.report.html import html_table
from corewood.report.items import says, table
from corewood.report.style import Tables, percent, shown
from corewood.report.verdicts import first_mode
from corewood.report.words import joined, largest, name, pct, plus_minus, quoted, span, two_digits

FELL = 0.03  # a skill that falls by more than three points is not kept
TOLD = 0.9  # AUC: answers are told apart,
SILENT = 0.1  # and share right: of which one is hardly ever given
MEASURES = {BALANCED: "balanced accuracy", AUC: "AUC", D_PRIME: "d\u2032", CRITERION: "criterion"}


@table("Subnetworks", "skills", "Skills in numbers", of="skills")
def skills_table(tables: Tables) -> str | None:
    """A skill is to tell answers apart, whatever is said more often. Balanced accuracy: the mean over answers of the share that
    is right, in per cent. AUC: how often an example of the one answer looks more like it than one of the other does, in per
    cent; no shift towards an answer changes it. d\u2032: how far apart the two lie for the model, in standard deviations; the
    criterion: how far its threshold is from the middle, above zero towards the second answer. Of subnetworks the mean
    (lowest to highest); a star where the interval of the mean's change leaves out zero."""
    lines, skills = [], tables["skills"]
    several = skills["dataset"].nunique() > 1
    for (target, dataset, skill), part in skills.groupby(["target", "dataset", "case"], sort=False):
        line = {
            "sparsity": percent(float(str(target))).replace(" ", "\u00a0"),
            "skill": skill_name(dataset, skill, several),
            "n": part["n"].iloc[0],
        }
        for _, row in part.iterrows():
            scale, digits = (100, 1) if row["metric"] in (BALANCED, AUC) else (1, 2)
            full, mean, low, high = (plus_minus(row[c], float("nan"), scale, digits) for c in ("full", "mean", "min", "max"))
            star = "*" if row["low"] > 0 or row["high"] < 0 else ""
            line[f"{MEASURES[row['metric']]}, full"] = full
            line[f"{MEASURES[row['metric']]}, subnetworks"] = f"{mean}{star} ({low} to {high})"
        lines.append(line)
    return html_table(pd.DataFrame(lines))


@says(of="verdicts skills spread", single=True)
def skill_points(tables: Tables) -> list[str]:
    """Of the cases that most subnetworks of a size lose."""
    said = []
    for target in shown(tables["spread"]["target"]):
        found = first_mode(tables["verdicts"])
        found = found[found["target"] == target]
        share = (found["verdict"] == LOST).groupby([found["dataset"], found["case"]]).mean()
        gone = set(share[share > 0.5].index)
        spread = tables["spread"]
        cases = judged(spread[(spread["target"] == target) & (spread["domain"] == "challenge")])
        lost = cases[[key in gone for key in zip(cases["dataset"], cases["case"], strict=True)]]
        skills = tables["skills"][tables["skills"]["target"] == target]
        said += [f"{percent(target).capitalize()}: {point}" for point in skill_or_prior(lost, skills)]
    return said


@says(of="accuracy skill_scores skills", single=True)
def silent_skills(tables: Tables) -> list[str]:
    """What the full model tells apart and hardly ever answers: accuracy shows neither that it is there nor that it goes."""
    accuracy, scores = (at_last(tables[table]) for table in ("accuracy", "skill_scores"))
    sides = accuracy[(accuracy["domain"] == "challenge") & (accuracy["skill"] != "") & (accuracy["gold"] != "mixed")]
    auc = scores[(scores["metric"] == AUC) & (scores["case"] != "all")].drop(columns="skill").rename(columns={"case": "skill"})
    harder = sides.sort_values("value", kind="stable").drop_duplicates(["dataset", "skill"])
    both = harder.merge(auc[["dataset", "skill", "value", "low"]], on=["dataset", "skill"], suffixes=("", "_auc"))
    silent = both[(both["high"] < SILENT) & (both["low_auc"] > TOLD)]
    if silent.empty:
        return []
    several, names = len(silent) > 1, joined(quoted(name(row)) for _, row in silent.iterrows())
    right, apart = (span(silent[column].min(), silent[column].max()) for column in ("value", "value_auc"))
    said = f"Of {names} {right} {'are' if several else 'is'} right, and yet the full model tells "
    said += f"{'them from their counterparts' if several else 'it from its counterpart'} (AUC {apart})"
    rows = tables["skills"].merge(silent[["dataset", "skill"]], left_on=["dataset", "case"], right_on=["dataset", "skill"])
    rows = rows[(rows["metric"] == AUC) & (rows["target"] == rows["target"].max())]
    if (rows["change"] < -FELL).any():
        pruned = f"{'with ' if rows['target'].max() else ''}{percent(rows['target'].max())}"
        said += f". Accuracy shows neither what it has learnt there nor what pruning takes of it: {pruned}, AUC is "
        said += f"{span(rows['mean'].min(), rows['mean'].max())}, on average over subnetworks"
    return [f"{said}."]


def at_last(rows: pd.DataFrame) -> pd.DataFrame:
    """The full model's, at its last checkpoint."""
    full = rows[rows["way"] == "full"]
    last: pd.DataFrame = full[full["checkpoint"] == full["checkpoint"].max()]
    return last


def skill_or_prior(lost: pd.DataFrame, skills: pd.DataFrame) -> list[str]:
    """Whether the skills of lost cases were lost, too, or the right answer of these cases is only given less often."""
    several = skills["dataset"].nunique() > 1
    found: dict[str, list[tuple[float, str]]] = {"lost": [], "moved": [], "none": [], "unsure": []}  # how much, and what
    for (dataset, skill), cases in lost.assign(skill=lost["skill"].replace("", "all")).groupby(
        ["dataset", "skill"], sort=False
    ):
        rows = skills[(skills["dataset"] == dataset) & (skills["case"] == skill)]
        if len(rows):
            kind, much, how = verdict_on(rows, largest(cases, cases["full"] - cases["mean"]))
            found[kind].append((much, f"{quoted(skill_name(dataset, skill, several))} ({how})"))
    words = {
        "lost": ("{} was lost: {}", "{} were lost, most of all {}"),
        "moved": ("in {} the prior moved and the skill is kept: {}", "in {} the prior moved and the skill is kept, for one {}"),
        "none": ("in {} the full model has no skill to lose: {}", "in {} the full model has no skill to lose, for one {}"),
        "unsure": ("of {} it cannot be told: {}", "of {} it cannot be told, for one {}"),
    }
    counts = {kind: "one" if len(these) == 1 else str(len(these)) for kind, these in found.items()}
    parts = [words[kind][len(these) > 1].format(counts[kind], max(these)[1]) for kind, these in found.items() if these]
    return [f"Skill or prior? Of the skills that lost cases belong to, {'; '.join(parts)}."] if parts else []


def verdict_on(rows: pd.DataFrame, worst: pd.Series) -> tuple[str, float, str]:
    """(verdict, how clear it is, why) of a skill and its case that falls most.

    AUC decides, which no shift towards an answer moves, and balanced accuracy where there are more than two answers. A skill
    is lost where it falls by more than three points and more than its interval; where its interval leaves out such a fall, the
    prior moved. Of what the full model cannot tell apart itself, its right answers were a habit.
    """
    by: dict[str, dict[str, Any]] = rows.set_index("metric").to_dict("index")  # type: ignore[assignment]
    metric = AUC if AUC in by else BALANCED
    row, fall = by[metric], float(worst["full"] - worst["mean"])
    how = f"{MEASURES[metric]} {pct(row['full'])} to {pct(row['mean'])}"
    if D_PRIME in by:
        how += f", {MEASURES[D_PRIME]} {two_digits(by[D_PRIME]['full'])} to {two_digits(by[D_PRIME]['mean'])}"
    if metric == AUC and row["full_low"] <= 0.5:
        return "none", fall, how
    if row["low"] < -FELL:
        return "lost" if row["change"] < -FELL and row["high"] < 0 else "unsure", -row["change"], how
    less = f"{quoted(worst['gold'])} is said less often there, " if worst["gold"] != "mixed" else ""
    return "moved", fall, f"{less}{quoted(name(worst))} falls from {pct(worst['full'])} to {pct(worst['mean'])}; {how}"


def skill_name(dataset: object, skill: object, several: bool) -> str:
    """A whole set has its name."""
    return str(dataset) if skill == "all" else f"{dataset}: {skill}" if several else str(skill)


def skill_or_readiness(tables: Tables, pair: pd.Series) -> str:
    """Whether the better one on a case tells answers apart better, or only gives the right one of that case more readily: of
    the skill that the case belongs to, by the rule for what was lost (`verdict_on`)."""
    if "skill_differences" not in tables:
        return ""
    spread, tests, scores = tables["spread"], tables["skill_differences"], tables["skill_scores"]
    case = spread[(spread["dataset"] == pair["dataset"]) & (spread["case"] == pair["case"])].iloc[0]
    skill = case["skill"] or "all"
    both = tests["one"].isin([pair["one"], pair["other"]]) & tests["other"].isin([pair["one"], pair["other"]])
    here = tests[both & (tests["dataset"] == pair["dataset"]) & (tests["case"] == skill)]
    if here.empty:
        return ""
    row = here.iloc[0]  # whichever of the two stands first in the table
    change, low, high = row[["difference", "low", "high"]] if row["one"] == pair["one"] else -row[["difference", "high", "low"]]
    mine = scores[(scores["dataset"] == pair["dataset"]) & (scores["case"] == skill) & (scores["metric"] == row["metric"])]
    values = mine.set_index("subnetwork")["value"]
    one, other = (pct(values[pair[who]]) for who in ("one", "other"))
    how = f"{MEASURES[row['metric']]} of {quoted(skill_name(pair['dataset'], skill, False))} {one} and {other}"
    what = f"says {quoted(case['gold'])} more readily" if case["gold"] != "mixed" else "leans to another answer"
    said = {
        "alike": f"They tell the answers apart alike ({how}): the first only {what}.",
        "no better": f"The first does not tell the answers apart better ({how}): it only {what}.",
        "better": f"It is a difference in skill, not in readiness to give one answer ({how}).",
        "unsure": f"Whether in skill, or only in readiness to give one answer, these examples do not tell ({how}).",
    }
    return f" {said[skill_of_better(change, low, high)]}"


def skill_of_better(change: float, low: float, high: float) -> Literal["alike", "no better", "better", "unsure"]:
    """Of the one of two subnetworks that is better on a case, how much better it is at the skill, with an interval."""
    if high < FELL:
        return "alike" if low > -FELL else "no better"
    return "better" if change > FELL and low > 0 else "unsure"
