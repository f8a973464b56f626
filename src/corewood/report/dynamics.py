"""The full model over training."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from corewood.evaluate.metrics import AUC
from corewood.report.items import chart
from corewood.report.lines import case_lines
from corewood.report.scores import in_accuracy, measure_of, score_axis
from corewood.report.style import PERCENT, Tables, tips, where


@chart("Training", "dynamics", "Accuracy over training", of="dynamics")  # figure 6
def dynamics_chart(tables: Tables) -> Any:
    """The full model at each checkpoint. Cases that rise after the thick line, in domain, were learnt on top of the shortcut.
    Those that move and stand apart have their names, the others are grey: point at a line to see which it is; a click
    keeps it."""
    table = in_accuracy(tables["dynamics"]).copy()
    measure, form = measure_of(tables["accuracy"])
    table["where"] = where(table)
    table = table[["checkpoint", "where", "dataset", "case", "domain", "value", "low", "high", "n"]]
    tooltip = tips(f"case = where:N | step = checkpoint:Q | {measure} = value:Q {form} | low:Q {form} | high:Q {form} | n:Q")
    y = score_axis(alt.Y, "value", f"{measure} of the full model", tables["accuracy"], table["value"])
    return case_lines(table, alt.X("checkpoint:Q", title="fine-tuning step"), y, tooltip)


@chart("Training", "skills-over-training", "What it can tell apart, over training", of="dynamics skill_scores")
def skills_over_training_chart(tables: Tables) -> Any:
    """AUC of the full model, a line for each skill: how often an example of the one answer looks more like it than one of the
    other does, whichever answer is given. 50 % is a coin. A skill may be there long before the harder of its cases are
    answered: compare with accuracy over training."""
    rows = tables["skill_scores"]
    table = rows[(rows["way"] == "full") & (rows["metric"] == AUC)].copy()
    if table["checkpoint"].nunique() < 2:
        return None
    table["where"] = where(table)
    table = table[["checkpoint", "where", "dataset", "case", "domain", "value", "low", "high", "n"]]
    tooltip = tips("skill = where:N | step = checkpoint:Q | AUC = value:Q .1% | low:Q .1% | high:Q .1% | n:Q")
    lowest = min(0.5, float(np.floor(10 * table["value"].min()) / 10))
    y = alt.Y("value:Q", title="AUC of the full model", axis={"format": PERCENT}, scale={"domain": [lowest, 1]})
    return case_lines(table, alt.X("checkpoint:Q", title="fine-tuning step"), y, tooltip)
