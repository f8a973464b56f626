"""What scores are called, and how they are written: accuracy in per cent, correlations as they are."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from corewood.analyse.generalisation import share_right
from corewood.evaluate.metrics import wilson
from corewood.report.html import Format, share
from corewood.report.style import share_axis

METRICS = {"accuracy": "accuracy", "matthews": "Matthews' correlation", "pearson": "Pearson's correlation"}


def form_of(metric: str) -> str:
    """Accuracy in per cent; correlations are none."""
    return ".1%" if metric == "accuracy" else ".3f"


def lowest_shown(values: pd.Series) -> float:
    """0, or a round number below: correlations may be negative."""
    known = values.dropna()
    return min(0.0, float(np.floor(known.min() * 10) / 10)) if len(known) else 0.0


def in_accuracy(scores: pd.DataFrame) -> pd.DataFrame:
    """With accuracy in domain, whatever metric the task has; where answers are numbers, their correlation stays."""
    if "correct" not in scores:
        return scores
    inside = scores[(scores["domain"] != "challenge") & scores["correct"].notna()]
    low, high = wilson(inside["correct"].astype(float), inside["n"])
    made = scores.copy()
    made.loc[inside.index, ["value", "low", "high"]] = pd.DataFrame({"value": share_right(inside), "low": low, "high": high})
    return made


def measure_of(scores: pd.DataFrame) -> tuple[str, str]:
    """(what scores are called, how they are written): accuracy, or of numbers as answers a correlation."""
    right = "correct" not in scores or scores["correct"].notna().any()
    metric = "accuracy" if right else str(scores["metric"].iloc[0])
    return METRICS.get(metric, metric), form_of(metric)


def written(form: str) -> Format:
    """A score in a table, in the form that a chart gives it."""
    return share if form == form_of("accuracy") else f"{{:{form}}}".format


def score_axis(
    channel: type[alt.X] | type[alt.Y], field: str, title: str, scores: pd.DataFrame, shown: pd.Series | None = None
) -> Any:
    """Shares from 0 to 100 %; correlations from 0, or from the round number below the lowest that is shown, to 1."""
    if measure_of(scores)[0] == METRICS["accuracy"]:
        return share_axis(channel, field, title)
    return channel(f"{field}:Q", title=title, scale={"domain": [lowest_shown(scores["value"] if shown is None else shown), 1]})
