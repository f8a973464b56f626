"""Does a subnetwork still handle what its full model handles? Kept, lost, or not to be told with so many examples.

Both answer the same examples, so each case is a paired comparison. It is *kept* where the 95 % interval of the change stays
above -MARGIN; *lost* where it fell by that much or more, and by more than chance (McNemar's exact test, Holm's correction over
all cases and subnetworks of one size); else it is *open*, and `needed` says how many examples would tell if they came out
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm

from corewood.analyse.ablation import paired_interval
from corewood.analyse.differences import REAL, corrected, mcnemar
from corewood.analyse.effective import SLACK
from corewood.evaluate.metrics import Z

KEPT, LOST, OPEN = "kept", "lost", "open"
MARGIN = 0.05  # the largest loss that an interval may hold where a case is kept, the smallest that counts as lost: a choice
HANDLES = 0.5  # of a case that the full model gets less of right, nothing can be lost
MOST = 1_000_000  # examples that are worth naming

Case = tuple[Mapping[str, object], np.ndarray, np.ndarray]  # what it is, (example,) full model right, (subnetwork, example)


def verdicts(cases: Sequence[Case], names: Sequence[str]) -> pd.DataFrame:
    """One row per subnetwork and case that the full model handles, or set in domain, of subnetworks judged together."""
    rows = []
    for facts, full, right in cases:
        if facts["domain"] == "challenge" and full.mean() < HANDLES:
            continue
        for name, answers in zip(names, right, strict=True):
            shift = answers.astype(float) - full
            low, high = paired_interval(shift)
            row = {**facts, "subnetwork": name, "n": len(full), "full": float(full.mean()), "value": float(answers.mean())}
            rows.append(row | {"change": float(shift.mean()), "low": low, "high": high, "p": mcnemar(full, answers)[2]})
    table = corrected(pd.DataFrame(rows))
    if table.empty:
        return table
    kept, lost = table["low"] >= -MARGIN, table["real"] & (table["change"] <= SLACK - MARGIN)
    table["verdict"] = np.select([kept, lost], [KEPT, LOST], OPEN)
    table["needed"] = [needed(row, len(table)) if row["verdict"] == OPEN else np.nan for _, row in table.iterrows()]
    return table.drop(columns="real")


def needed(row: pd.Series, tests: int) -> float:
    """About how many examples would tell, at the same change and the same share of changed answers; nan: too many to name."""
    half = (row["high"] - row["low"]) / 2
    deviation = half * np.sqrt(row["n"] + 2) / Z  # of a single example
    inside = row["change"] > SLACK - MARGIN
    room = row["change"] + MARGIN if inside else -row["change"]
    count = ((Z if inside else norm.ppf(1 - REAL / tests / 2)) * deviation / max(room, 1e-9)) ** 2
    return rounded_up(max(count, row["n"] + 1)) if count < MOST else np.nan


def rounded_up(count: float) -> float:
    """To two digits."""
    unit = 10.0 ** max(0, int(np.floor(np.log10(count))) - 1)
    return float(np.ceil(count / unit - 1e-9) * unit)


def best_to_take(found: pd.DataFrame, sizes: pd.DataFrame) -> pd.Series | None:
    """The smallest subnetwork that keeps all it is asked for, in domain too; of equal ones the closest to the full model.

    `found` are verdicts, `sizes` has the same subnetworks (task, tuning, subnetwork) with their `all_share`.
    """
    keys = ["task", "tuning", "subnetwork"]
    whole = found.groupby(keys)["verdict"].agg(lambda v: bool((v == KEPT).all()))
    moved = found["change"].abs().groupby([found[key] for key in keys]).mean()
    table = sizes.set_index(keys).join(whole.rename("keeps"), how="inner").join(moved.rename("moved"))
    table = table[table["keeps"]].sort_values(["all_share", "moved"], kind="stable")
    return None if table.empty else table.reset_index().iloc[0]
