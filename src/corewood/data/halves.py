"""Two halves of a set: one to search on, one to report on."""

from __future__ import annotations

import numpy as np

from corewood.data.task import Split


def halves(split: Split, seed: int) -> tuple[Split, Split]:
    """Drawn by the seed, each label as evenly as it goes; named `search` and `report`."""
    rng = np.random.default_rng([seed, 0x4A])
    order = rng.permutation(len(split))
    if split.regression:
        first = order[: len(order) // 2]
    else:
        by_label = order[np.argsort(split.gold[order], kind="stable")]
        first = by_label[rng.integers(2) :: 2]  # every second one, label by label
    inside = np.isin(np.arange(len(split)), first)
    return tuple(  # type: ignore[return-value]
        Split(name, split.frame[rows].reset_index(drop=True), split.labels, split.fold)
        for name, rows in (("search", inside), ("report", ~inside))
    )
