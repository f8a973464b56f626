"""The charts of the report: tables in, one Vega-Lite chart each out.

The same chart is interactive on the page and a vector figure in a paper. A chart a study has no data for is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt

from corewood.report.accuracy_charts import dynamics_chart, same_in_domain_chart, sparsity_chart, spread_chart
from corewood.report.mask_charts import heads_chart, sizes_chart, trajectories_chart, two_sparsities_chart
from corewood.report.style import Tables, styled


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    text: str  # what to see in it, one or two sentences
    chart: Any


CHARTS: tuple[tuple[str, str, str, Callable[[Tables], Any]], ...] = (
    (
        "spread",
        "Subnetworks on every case",
        "Each dot is a subnetwork, the grey bar their range, the red tick the full model. Dots that lie together in domain and "
        "apart on a case are subnetworks that only look alike.",
        spread_chart,
    ),
    (
        "same-in-domain",
        "The same in domain, different outside",
        "One point per subnetwork. A column of points above each other has one in-domain accuracy and many kinds of behaviour.",
        same_in_domain_chart,
    ),
    (
        "sparsity",
        "Accuracy against sparsity",
        "Lines join the means over seeds, bars span from the worst to the best. Click a name to see "
        "it alone; shift-click adds.",
        sparsity_chart,
    ),
    (
        "heads",
        "Which heads survive",
        "Dark heads are kept by most subnetworks. A red ring marks the core: heads that every "
        "subnetwork keeps, at every sparsity.",
        heads_chart,
    ),
    (
        "two-sparsities",
        "Two sparsities against each other",
        "How many heads are kept by so many subnetworks of the one sparsity (across) and of the other (up).",
        two_sparsities_chart,
    ),
    (
        "dynamics",
        "Over training",
        "The full model at each checkpoint. Cases that rise after the in-domain line were learned on top of the shortcut.",
        dynamics_chart,
    ),
    ("sizes", "Sizes in three currencies", "Equal numbers of units are not equal numbers of parameters.", sizes_chart),
    (
        "trajectories",
        "How each search went",
        "The dashed line is the target. A search whose gates end far from its final mask, or whose KL is high, "
        "deserves less trust.",
        trajectories_chart,
    ),
)  # fmt: skip


def figures(tables: Tables) -> list[Figure]:
    alt.data_transformers.disable_max_rows()
    made = ((name, title, text, draw(tables)) for name, title, text, draw in CHARTS)
    return [Figure(name, title, text, styled(chart)) for name, title, text, chart in made if chart is not None]
