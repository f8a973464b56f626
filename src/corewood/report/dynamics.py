"""The full model over training."""

from __future__ import annotations

from typing import Any

import altair as alt

from corewood.report.items import chart
from corewood.report.style import Tables, case_colour, order_of_cases, share_axis, tips, where


@chart("Training", "dynamics", "Accuracy over training", of="dynamics")  # figure 6
def dynamics_chart(tables: Tables) -> Any:
    """The full model at each checkpoint. Cases that rise after the in-domain line were learnt on top of the shortcut."""
    table = tables["dynamics"].copy()
    table["where"] = where(table)
    order = order_of_cases(table)
    chosen = alt.selection_point(fields=["where"], bind="legend")
    columns = ["checkpoint", "where", "value", "low", "high", "n", "domain"]
    base = alt.Chart(table[columns]).encode(
        x=alt.X("checkpoint:Q", title="fine-tuning step"),
        y=share_axis(alt.Y, "value", "accuracy of the full model"),
        color=case_colour(order),
        strokeWidth=alt.condition(alt.datum.domain == "in-domain", alt.value(4), alt.value(1.6)),
        opacity=alt.condition(chosen, alt.value(0.95), alt.value(0.06)),
        tooltip=tips("case = where:N | step = checkpoint:Q | accuracy = value:Q .3f | low:Q .3f | high:Q .3f | n:Q"),
    )
    return base.mark_line(point=True).add_params(chosen).properties(width=560, height=330)
