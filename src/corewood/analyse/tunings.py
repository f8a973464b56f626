"""How much of a spread lies between fine-tunings, and how much between the searches within them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def variance_components(groups: Sequence[np.ndarray]) -> dict[str, float]:
    """One-way random effects by the method of moments; each group holds the values of one fine-tuning's subnetworks.

    With mean squares between (B) and within (W) groups, the variance within is W and that between is (B - W) / n0, where n0 is
    the size of the groups, or for groups of different sizes what stands for it. `share` is that of fine-tuning in their sum.
    Without two values in some group nothing is known of the variance within.
    """
    sizes = np.array([len(g) for g in groups], float)
    total, count = sizes.sum(), len(groups)
    means = np.array([g.mean() for g in groups])
    everything = np.concatenate(list(groups))
    found = {"tunings": count, "subnetworks": int(total), "mean": float(everything.mean())}
    found |= {"between_means": float(means.std(ddof=1)), "lowest": float(means.min()), "highest": float(means.max())}
    if total <= count:
        return {**found, "between": np.nan, "within": np.nan, "share": np.nan}
    inside = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - count)
    outside = (sizes * (means - everything.mean()) ** 2).sum() / (count - 1)
    n0 = (total - (sizes**2).sum() / total) / (count - 1)
    between = max(0.0, float((outside - inside) / n0))
    whole = between + float(inside)
    return {**found, "between": between**0.5, "within": float(inside) ** 0.5, "share": between / whole if whole > 0 else np.nan}
