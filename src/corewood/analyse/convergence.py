"""Have the searches converged? Subnetworks are compared where their searches ended equally well.

The measure is the KL of the final mask on texts held out of the search. A search is comparable when its KL is at most `RATIO`
times the lowest of its size, or within `NOISE` nats of it, since few texts hold most of a small KL. Both numbers are choices.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from corewood.analyse.generalisation import judged, subnetworks

RATIO = 1.5
NOISE = 0.005  # nats


def comparable(held: pd.Series, targets: pd.Series) -> pd.Series:
    """Of each subnetwork, whether its search ended as well as the best of its size; both are indexed by its name."""
    lowest = held.groupby(targets.reindex(held.index)).transform("min")
    return (held <= RATIO * lowest) | (held <= lowest + NOISE)


def convergence(accuracy: pd.DataFrame, held: pd.Series, targets: pd.Series, ended: pd.Series) -> pd.DataFrame:
    """One row per size: how many searches ended by themselves, how their KL is spread, its rank correlation with accuracy on
    the cases, and the widest gap on a case among all, among the comparable ones and among the best half."""
    rows = judged(subnetworks(accuracy))
    cases = rows[rows["domain"] == "challenge"]
    wide = cases.pivot_table(index="subnetwork", columns=["dataset", "case"], values="value", sort=False)
    fine = comparable(held, targets)
    found = []
    for target, names in targets.groupby(targets).groups.items():
        kls = held[list(names)].sort_values(kind="stable")
        some = wide.reindex(kls.index)
        mean = some.mean(axis=1)
        rho, p = (np.nan, np.nan)
        if len(kls) > 2 and kls.nunique() > 1 and mean.nunique() > 1:
            rho, p = spearmanr(kls, mean)
        half = kls.index[: -(-len(kls) // 2)]
        lowest, highest = float(kls.min()), float(kls.max())
        counts = {"searches": len(kls), "ended": int(ended[kls.index].sum()), "comparable": int(fine[kls.index].sum())}
        spread = {"lowest": lowest, "highest": highest, "ratio": highest / lowest if lowest > 0 else np.nan}
        gaps = {"gap": widest(some), "gap_comparable": widest(some[fine[some.index]]), "gap_best_half": widest(some.loc[half])}
        found.append({"target": float(str(target)), **counts, **spread, "rho": float(rho), "p": float(p), **gaps})
    return pd.DataFrame(found)


def widest(values: pd.DataFrame) -> float:
    """The largest difference of two subnetworks on one case; of (subnetwork, case)."""
    return float((values.max() - values.min()).max()) if len(values) > 1 else np.nan
