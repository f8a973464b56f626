"""What removing units does to the full model, example by example (the Heuristic Core, tables 3, 4, 6, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm

from corewood.evaluate.metrics import LEVEL

OUTSIDE = "average of the heads outside the core"


def paired_interval(differences: np.ndarray, level: float = LEVEL, limit: float = 1.0) -> tuple[float, float]:
    """Interval of the mean of paired differences (within ± `limit`), after adding one example of +1 and one of -1.

    For two classifiers on the same examples this is Bonett and Price's (2012) interval; the two added examples keep it
    from having no width where nothing changed.
    """
    d = np.concatenate([np.asarray(differences, float), [1.0, -1.0]])
    half = norm.ppf(1 - (1 - level) / 2) * d.std() / np.sqrt(len(d))
    return float(max(-limit, d.mean() - half)), float(min(limit, d.mean() + half))


def set_name(units: Sequence[str]) -> str:
    return " + ".join(units)


def ablation_rows(
    full: np.ndarray,
    right: Mapping[tuple[str, ...], np.ndarray],
    parts: Iterable[tuple[str, str, np.ndarray]],
    core: Sequence[str],
    heads: int,
) -> pd.DataFrame:
    """One row per set of removed units and case. `full` and the values of `right` are (example,) bool.

    `change` is the accuracy without the units minus the full model's. For sets, `interaction` is their joint change minus
    the sum of the single ones: below zero, they matter more together than apart. The average outside the core is there only
    when all of the model's `heads` were removed alone.
    """
    shifts = {units: values.astype(float) - full for units, values in right.items()}
    outside = [shift for units, shift in shifts.items() if len(units) == 1 and ".H" in units[0] and units[0] not in core]
    singles = {units[0]: shift for units, shift in shifts.items() if len(units) == 1}
    rows = []
    for case, group, inside in parts:
        before = float(full[inside].mean())

        def row(
            name: str, size: int, kind: str, shift: np.ndarray, case: str = case, group: str = group,
            inside: np.ndarray = inside, before: float = before,
        ) -> dict[str, object]:  # fmt: skip
            low, high = paired_interval(shift[inside])
            change = float(shift[inside].mean())
            return {
                "units": name, "size": size, "kind": kind, "case": case, "group": group, "n": int(inside.sum()),
                "full": before, "value": before + change, "change": change, "low": low, "high": high,
            }  # fmt: skip

        for units, shift in shifts.items():
            kind = ("head" if ".H" in units[0] else "mlp") if len(units) == 1 else "set"
            found = row(set_name(units), len(units), kind, shift)
            found["core"] = all(unit in core for unit in units)
            if len(units) > 1 and all(unit in singles for unit in units):
                beyond = shift - sum(singles[unit] for unit in units)
                found["interaction"] = float(beyond[inside].mean())
                found["interaction_low"], found["interaction_high"] = paired_interval(beyond[inside], limit=len(units) + 1)
            rows.append(found)
        if core and outside and len(outside) == heads - len(core):
            rows.append({**row(OUTSIDE, 1, "average", np.mean(outside, 0)), "core": False})
    columns = ["interaction", "interaction_low", "interaction_high"]
    table = pd.DataFrame(rows)
    return table.assign(**{c: np.nan for c in columns if c not in table})
