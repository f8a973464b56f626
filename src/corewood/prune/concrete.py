"""The hard concrete distribution (Louizos et al. 2018): gates that are exactly open or closed with some probability.

Its one parameter is log_alpha: minus infinity is a gate that is always closed, infinity one that is always open.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TEMPERATURE = 2 / 3
LOW, HIGH = -0.1, 1.1  # the stretched interval; mass outside [0, 1] is clipped onto 0 and 1
EDGE = 1e-6  # u is drawn from (EDGE, 1 - EDGE)
LIMIT = 6.0  # |log_alpha|: beyond it a gate gets no gradient any more
QUANTILES = 64  # points of the grid of noise that expectations are taken over


def sample_gates(log_alpha: Tensor, u: Tensor) -> Tensor:
    """(..., unit) uniform noise -> gate values in [0, 1]."""
    s = torch.sigmoid((torch.log(u) - torch.log1p(-u) + log_alpha) / TEMPERATURE)
    return (s * (HIGH - LOW) + LOW).clamp(0, 1)


def closed_probability(log_alpha: Tensor) -> Tensor:
    """P(z = 0) = sigmoid(T log(-LOW / HIGH) - log_alpha)."""
    return torch.sigmoid(TEMPERATURE * math.log(-LOW / HIGH) - log_alpha)


def mean_gate(log_alpha: Tensor) -> Tensor:
    """E[z] of every unit, over a grid of the noise."""
    u = (torch.arange(QUANTILES) + 0.5) / QUANTILES
    return sample_gates(log_alpha, u[:, None]).mean(0)


def shift_to(log_alpha: Tensor, sparsity: float) -> Tensor:
    """Add to all gates the one number that makes the expected sparsity what it should be."""

    def shifted(by: float) -> Tensor:
        return torch.where(log_alpha.isinf(), log_alpha, (log_alpha + by).clamp(-LIMIT, LIMIT))

    low, high = -4 * LIMIT, 4 * LIMIT
    for _ in range(32):
        middle = (low + high) / 2
        if 1 - float(mean_gate(shifted(middle)).mean()) > sparsity:
            low = middle
        else:
            high = middle
    return shifted(high)
