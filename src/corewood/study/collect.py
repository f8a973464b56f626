"""From finished jobs to the tidy tables: one row a fact, nothing that depends on when or where it was computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from corewood.analyse.generalisation import SEARCH, dynamics, spread
from corewood.analyse.heads import frequencies
from corewood.store.store import Store
from corewood.study.base import Plan
from corewood.study.lottery import LotteryPlan
from corewood.study.plan_core import CorePlan
from corewood.study.results import Results
from corewood.study.results_lottery import LotteryResults
from corewood.study.tables_answers import (
    ablated_values_table,
    ablation_table,
    differences_table,
    effective_size_table,
    size_effect_table,
    variance_table,
)
from corewood.study.tables_attention import attention_core_table, attention_table, maps_table
from corewood.study.tables_lottery import collect_lottery
from corewood.study.tables_masks import (
    agreement_table,
    convergence_table,
    core_over_training,
    core_table,
    masks_table,
    rank_table,
    sizes_table,
    trajectories_table,
)

Tables = dict[str, pd.DataFrame]


def collect(plan: Plan, store: Store, holes: Mapping[str, str]) -> Tables:
    """All tables of a study. `holes` says why jobs are missing, by title."""
    if isinstance(plan, LotteryPlan):
        tables = collect_lottery(LotteryResults(plan, store, holes))
    else:
        assert isinstance(plan, CorePlan)
        tables = collect_core(Results(plan, store, holes))
    tables["holes"] = pd.DataFrame(sorted(holes.items()), columns=["job", "reason"]).astype(str)
    return tables


def collect_core(results: Results) -> Tables:
    makers: dict[str, Callable[[Results], pd.DataFrame | None]] = {
        "accuracy": lambda r: r.accuracy,
        "masks": masks_table,
        "sizes": sizes_table,
        "convergence": convergence_table,
        "spread": lambda r: spread(r.accuracy, r.comparable) if r.judged else None,
        "differences": differences_table,
        "variance": variance_table,
        "size_effect": size_effect_table,
        "frequencies": lambda r: frequencies(masks_table(r, SEARCH)) if r.found else None,
        "rank_correlations": rank_table,
        "core": core_table,
        "core_over_training": core_over_training,
        "agreement": agreement_table,
        "dynamics": lambda r: dynamics(r.accuracy) if r.accuracy["checkpoint"].nunique() > 1 else None,
        "effective_size": effective_size_table,
        "ablation": ablation_table,
        "ablated_values": ablated_values_table,
        "attention": attention_table,
        "attention_core": attention_core_table,
        "attention_maps": maps_table,
        "trajectories": trajectories_table,
    }
    return {name: table for name, make in makers.items() if (table := make(results)) is not None}
