"""The full model over training."""

from __future__ import annotations

from typing import Any

import altair as alt

from corewood.report.items import chart
from corewood.report.lines import case_lines
from corewood.report.scores import in_accuracy, measure_of, score_axis
from corewood.report.style import Tables, tips, where


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
