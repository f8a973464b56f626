"""Skills: parts of a challenge set that hold more than one right answer.

Where a model gets everything of one answer right and nothing of the other, it has a habit; a skill is to tell the two
apart. What belongs to one skill is read off the examples' groups and cases, so that a set knows it wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from corewood.data.labels import normal
from corewood.data.overlap import COUNTERPARTS
from corewood.data.task import ALL, Split


def skills_of(split: Split) -> pd.Series:
    """(example,) its skill, or "". The first of these that holds several answers: its group (of HANS, the heuristic: groups
    are called after the answer, too); the case and its counterpart, in the generated task; its case."""
    frame, none = split.frame, pd.Series("", split.frame.index, dtype=object)
    if split.regression:
        return none
    named = [groups(frame), counterparts(frame), frame.get("case", none)]
    for names in named:
        several = frame["label"].groupby(names).transform("nunique") > 1
        if (several & (names != "")).any():
            return names.astype(str).where(several, "")
    return none


def groups(frame: pd.DataFrame) -> pd.Series:
    """Without the answer, where every group ends in it."""
    if "group" not in frame:
        return pd.Series("", frame.index, dtype=object)
    pairs = frame[["group", "label"]].drop_duplicates()
    ends = {group: group.rpartition(", ") for group in pairs["group"]}
    if all(normal(ends[group][2]) == normal(label) for group, label in zip(pairs["group"], pairs["label"], strict=True)):
        return frame["group"].map({group: end[0] for group, end in ends.items()})
    return frame["group"]


def counterparts(frame: pd.DataFrame) -> pd.Series:
    if "case" not in frame or not set(frame["case"]) <= set(COUNTERPARTS):
        return pd.Series("", frame.index, dtype=object)
    return frame["case"].map(COUNTERPARTS)


def skill_parts(split: Split) -> Iterator[tuple[str, np.ndarray]]:
    """(skill, which examples): the whole set first. Nothing where all of it has one answer, or answers are numbers."""
    if split.regression or split.frame["label"].nunique() < 2:
        return
    yield ALL, np.ones(len(split), bool)
    names = skills_of(split)
    for name in names[names != ""].unique():
        yield str(name), (names == name).to_numpy()
