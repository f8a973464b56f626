"""From what soft gates have learnt to a mask: of an exact size, or by the rule of the released code."""

from __future__ import annotations

import numpy as np
import torch

from corewood.model.mask import Mask, Units
from corewood.prune.concrete import TEMPERATURE, closed_probability
from corewood.spec import L0, kept_units


def largest(log_alpha: np.ndarray, count: int) -> np.ndarray:
    """(unit,) True for so many of the largest; of equal ones the first."""
    kept = np.zeros(len(log_alpha), bool)
    kept[np.argsort(-log_alpha, kind="stable")[:count]] = True
    return kept


def final_mask(log_alpha: np.ndarray, units: Units, settings: L0) -> Mask:
    if settings.final == "released" and settings.threshold == "search":
        rounded = [released_rule(log_alpha, units, threshold) for threshold in np.arange(21) / 20]
        return min(rounded, key=lambda mask: abs(len(mask) - (1 - settings.sparsity) * len(units)))
    if settings.final == "released":
        return released_rule(log_alpha, units, float(settings.threshold))
    return units.from_vector(largest(log_alpha, kept_units(len(units), settings.sparsity)))


def containing(inside: Mask, log_alpha: np.ndarray, units: Units, sparsity: float) -> Mask:
    """A larger mask: all of the smaller one, and the units that stood highest when its size was reached."""
    count = max(kept_units(len(units), sparsity), len(inside))
    return units.from_vector(largest(np.where(inside.vector, np.inf, log_alpha), count))


def released_rule(log_alpha: np.ndarray, units: Units, threshold: float) -> Mask:
    """The released code: in each of its tensors (the heads of a layer, an MLP) as many zeros as expected, rounded; then the
    soft values of the rest against one threshold."""
    soft = np.where(log_alpha == np.inf, np.inf, 1 / (1 + np.exp(-log_alpha / TEMPERATURE * 0.8)))
    zero = closed_probability(torch.from_numpy(log_alpha)).numpy()
    ends = [*(units.heads * np.arange(1, units.layers + 1)), *range(units.layers * units.heads + 1, len(units))]
    for values, closed in zip(np.split(soft, ends), np.split(zero, ends), strict=True):
        values[np.argsort(values, kind="stable")[: round(float(closed.sum()))]] = 0  # a view: writes through
    return units.from_vector(soft > threshold)
