"""Two studies beside each other, on the datasets both have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from corewood.analyse.ablation import paired_interval
from corewood.data.labels import fold_classes, normal
from corewood.errors import InputError
from corewood.evaluate.metrics import parts
from corewood.spec import StudySpec
from corewood.store.store import Store
from corewood.study.plan_core import CorePlan, make_core_plan
from corewood.study.results import Results
from corewood.study.run import holes_of


def label_map(plan: CorePlan, dataset: str) -> dict[str, str]:
    """Class of the model -> label of the set it counts as, whatever their order."""
    split = plan.splits[dataset]
    fold = fold_classes(plan.classes, split)
    return {normal(name): normal(split.labels[place]) for name, place in zip(plan.classes, fold, strict=True)}


def compare(one: StudySpec, other: StudySpec, bases: tuple[Path, Path], store: Store) -> pd.DataFrame:
    """Per dataset and case: the full models, their difference with its interval, and the means over subnetworks.

    Where both studies judge the same examples the interval is paired. Studies whose classes count as different labels
    on a set measure different things and are refused.
    """
    plans = [make_core_plan(spec, base) for spec, base in zip((one, other), bases, strict=True)]
    shared = [name for name in plans[0].datasets if name in plans[1].datasets]
    for name in shared:
        maps = [label_map(plan, name) for plan in plans]
        if maps[0] != maps[1]:
            shown = [f"{plan.spec.name}: {plan.mapping[name]}" for plan in plans]
            raise InputError(
                f"{name}: the two studies count classes as labels differently ({'; '.join(shown)}), so their accuracies "
                "measure different things; compare studies with the same labels"
            )
    results = [Results(plan, store, holes_of(plan, store)) for plan in plans]
    for found in results:
        if any(job.title in found.holes for job in found.plan.full.jobs):
            raise InputError(
                f"{found.plan.spec.name}: its full model is not evaluated yet; run it first: corewood run STUDY.yaml"
            )
    rows = []
    for name in shared:
        texts = [p.splits[name].frame.drop(columns=["label", "group"], errors="ignore") for p in plans]
        same = texts[0].equals(texts[1])
        right = [r.right(r.logits(r.plan.full, name), name) for r in results]
        inside = [{case: members for case, _, members in parts(plan.splits[name])} for plan in plans]
        for case in [c for c in inside[0] if c in inside[1]]:
            mine = [r[members[case]] for r, members in zip(right, inside, strict=True)]
            values = [float(m.mean()) for m in mine]
            low, high = interval(mine[0], mine[1], same)
            row = {"dataset": name, "case": case, "n": len(mine[0]), "one": values[0], "other": values[1]}
            row |= {"difference": values[1] - values[0], "low": low, "high": high, "paired": same}
            for target in sorted({r.target for r in results[0].found} & {r.target for r in results[1].found}):
                for who, r in zip(("one", "other"), results, strict=True):
                    part = r.accuracy.query("block == 'search' and dataset == @name and case == @case and target == @target")
                    row[f"{who} at {100 * target:g} %"] = float(part["value"].mean())
            rows.append(row)
    if not rows:
        raise InputError(f"{one.name} and {other.name} have no dataset in common: they are matched by name")
    return pd.DataFrame(rows)


def interval(one: np.ndarray, other: np.ndarray, paired: bool) -> tuple[float, float]:
    if paired:
        return paired_interval(other.astype(float) - one)
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(other.sum(), len(other), one.sum(), len(one), method="newcomb")
    return float(low), float(high)
