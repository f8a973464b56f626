"""Judged again, from the file: does it answer every example as the subnetwork did, and what does int8 move?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.verdicts import LOST, MARGIN, verdicts
from corewood.data.encode import Encoded
from corewood.data.labels import fold_classes, gold_classes
from corewood.data.task import ALL, Split
from corewood.errors import CorewoodError
from corewood.evaluate.metrics import parts, predicted, score

CLOSE = 1e-4  # how far a logit of the file may be from the study's, as a share of the largest, or of 1
STILL = 0.01  # a validation set that moves by less stands still
FULL, OWN, FILE, INT8 = "full", "subnetwork", "file", "int8"  # columns of the table of cases


@dataclass(frozen=True)
class Judged:
    """A set of examples, and the logits, (example, class), that the full model and the subnetwork gave on it."""

    name: str
    domain: str
    split: Split
    encoded: Encoded
    full: np.ndarray
    own: np.ndarray
    metric: str = "accuracy"


def check_same(one: Judged, found: np.ndarray, classes: Sequence[str], who: str) -> float:
    """The largest difference between the file's logits and the subnetwork's; an error where a label, or more, differs."""
    apart = float(np.abs(found - one.own).max())
    close = CLOSE * max(1.0, float(np.abs(one.own).max()))
    other = 0
    if not one.split.regression:
        fold = fold_classes(classes, one.split)
        other = int((predicted(found, fold) != predicted(one.own, fold)).sum())
    if other or not apart <= close:
        raise CorewoodError(
            f"export: {who} answers {other} of {len(one.split)} examples of {one.name} otherwise than the subnetwork did "
            f"(logits up to {apart:.1g} apart, where {close:.1g} is allowed): it is another model. Nothing was written. "
            "Where the study ran on another device, run it again on this one; else, this is a mistake of Corewood's"
        )
    return apart


def cases_table(sets: Sequence[Judged], classes: Sequence[str], more: Mapping[str, Sequence[np.ndarray]]) -> pd.DataFrame:
    """One row per set and case: dataset, domain, case, n, metric, and what each got; `more` are logits beside those of sets."""
    rows = []
    for place, one in enumerate(sets):
        whose = {FULL: one.full, OWN: one.own, **{who: logits[place] for who, logits in more.items()}}
        gold = gold_classes(classes, one.split)
        fold = fold_classes(classes, one.split)
        for case, _, inside in parts(one.split):
            facts = {"dataset": one.name, "domain": one.domain, "case": case, "n": int(inside.sum()), "metric": one.metric}
            for who, logits in whose.items():
                if one.metric == "accuracy":
                    value = float((predicted(logits[inside], fold) == one.split.gold[inside]).mean())
                else:
                    value = score(one.metric, logits[inside], gold[inside], draws=0).value
                facts[who] = value
            rows.append(facts)
    return pd.DataFrame(rows)


def moved(
    sets: Sequence[Judged], classes: Sequence[str], before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> pd.DataFrame:
    """What int8 does to every case that the file handles: the change, its 95 % interval, and whether it is lost."""
    found = []
    for one, old, new in zip(sets, before, after, strict=True):
        if one.split.regression:
            continue
        fold = fold_classes(classes, one.split)
        right = [predicted(logits, fold) == one.split.gold for logits in (old, new)]
        for case, group, inside in parts(one.split):
            if case != ALL or one.split.cases is None:
                facts = {"dataset": one.name, "case": case, "group": group, "domain": one.domain}
                found.append((facts, right[0][inside], right[1][inside][None]))
    return verdicts(found, [INT8])


def finding(cases: pd.DataFrame, verdict: pd.DataFrame) -> str:
    """What int8 moved of all cases, those that the file seldom gets right among them, in one sentence. Lost is what `moved`
    calls so; others that fall are lowered."""
    if INT8 not in cases:
        return ""
    rows = cases[cases["metric"] == "accuracy"].assign(change=lambda t: (t[INT8] - t[FILE]).round(9))
    split = set(rows.loc[rows["case"] != ALL, "dataset"])
    hard = rows[(rows["domain"] == "challenge") & ((rows["case"] != ALL) | ~rows["dataset"].isin(split))]
    hard = hard.sort_values("change", kind="stable")
    inside = rows[(rows["domain"] != "challenge") & (rows["case"] == ALL)]
    told = [f"validation {'stands still' if abs(r['change']) < STILL else 'moves'} ({points(r)})" for r in records(inside)[:1]]
    gone = {(row["dataset"], row["case"]) for row in records(verdict) if row["verdict"] == LOST}
    lost = pd.Series([(row["dataset"], row["case"]) in gone for row in records(hard)], hard.index, dtype=bool)
    falls, rises = hard["change"] <= -MARGIN, hard["change"] >= MARGIN
    verbs = {"loses": hard[falls & lost], "lowers": hard[falls & ~lost], "raises": hard[rises]}
    parts = [f"{verb} {', '.join(map(named, records(some)))}" for verb, some in verbs.items() if len(some)]
    if parts:
        return f"int8 {', '.join(parts[:-1])}{' and ' if parts[:-1] else ''}{parts[-1]}{f', while {told[0]}' if told else ''}."
    if len(hard):
        parts = [f"moves no case by five points; at worst {named(records(hard)[0])}"]
    return f"int8 {'; '.join([*parts, *told])}." if parts or told else ""


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def named(row: Mapping[str, Any]) -> str:
    return f"“{row['case'] if row['case'] != ALL else row['dataset']}” {points(row)}"


def points(row: Mapping[str, Any]) -> str:
    return f"{100 * row[FILE]:.1f} to {100 * row[INT8]:.1f} %"
