"""Ways of pruning beside each other at the same size: which keeps generalisation?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

DRAWS = 2000
CHUNK = 200


def weights(count: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draw, item): how much each item counts when as many are drawn with repetition."""
    return np.asarray(rng.multinomial(count, np.full(count, 1 / count), size=draws) / count)


def beside(right: Mapping[str, np.ndarray], base: str, draws: int = DRAWS, seed: int = 0) -> dict[str, dict[str, float]]:
    """Method -> mean accuracy, its 95 % interval, and the difference from `base` with its own.

    `right` is (model, example): the share of a model's subnetworks that answer right. Models and examples are both drawn
    anew, the same ones for all methods, so that differences are paired. With one model the interval is about examples
    alone; with few it is too narrow, as bootstraps of few are.
    """
    rng = np.random.default_rng(seed)
    models, examples = next(iter(right.values())).shape
    by_model = weights(models, draws, rng)
    drawn = {name: np.empty(draws) for name in right}
    for first in range(0, draws, CHUNK):  # (draw, example) arrays of a large set would fill the memory
        some = slice(first, first + CHUNK)
        by_example = weights(examples, len(by_model[some]), rng)
        for name, values in right.items():
            drawn[name][some] = ((by_model[some] @ values) * by_example).sum(1)
    made = {}
    for name, values in right.items():
        low, high = np.quantile(drawn[name], (0.025, 0.975))
        row = {"value": float(values.mean()), "low": float(low), "high": float(high), "models": models, "n": examples}
        gap_low, gap_high = np.quantile(drawn[name] - drawn[base], (0.025, 0.975))
        gap = float(values.mean() - right[base].mean())
        made[name] = {**row, "difference": gap, "difference_low": float(gap_low), "difference_high": float(gap_high)}
    return made
