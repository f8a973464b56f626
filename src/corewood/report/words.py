"""The words that findings are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.core import DRAWS


@dataclass(frozen=True)
class Finding:
    headline: str
    points: list[str]
    sure: list[str] = field(default_factory=list)  # statistics, for those who ask how sure this is
    lead: str = ""  # what was done, in a sentence


def pct(share: float) -> str:
    return f"{100 * share:.1f} %"


def span(low: float, high: float) -> str:
    return pct(low) if pct(low) == pct(high) else f"{pct(low)} to {pct(high)}"


def count(number: int, one: str) -> str:
    return f"{'one' if number == 1 else number} {one}{'' if number == 1 else 's'}"


def joined(parts: Iterable[str]) -> str:
    every = list(parts)
    return " and ".join(filter(None, [", ".join(every[:-1]), every[-1]])) if every else ""


def probability(p: float) -> str:
    """A permutation p-value cannot be smaller than one over the number of draws."""
    return f"p ≤ {p:.1g}" if p <= 1.01 / (DRAWS + 1) else f"p = {p:.2g}"


def name(row: pd.Series) -> str:
    return str(row["case"] if row["case"] != "all" else row["dataset"])


def signed(points: float) -> str:
    return "0.0" if abs(points) < 0.05 else f"{points:+.1f}".replace("-", "\u2212")


def largest(rows: pd.DataFrame, by: pd.Series) -> pd.Series:
    return rows.iloc[int(by.fillna(-1).to_numpy().argmax())]


def between(values: pd.Series, digits: int = 2, scale: float = 1, unit: str = "") -> str:
    """0.18 to 0.33, or one number where they are the same."""
    known = values.dropna()
    low, high = (plus_minus(v, np.nan, scale, digits) for v in (known.min(), known.max()))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def heads_in(counts: pd.Series) -> str:
    """3 heads, or 3 to 5 where models differ."""
    number = between(counts, 0)
    return f"{number} head{'' if number == '1' else 's'}"


def names_of(tasks: list[str]) -> str:
    return f"{len(tasks)} tasks" if len(tasks) > 4 else joined(map(quoted, tasks))


def plus_minus(mean: float, std: float, scale: float = 1, digits: int = 2) -> str:
    """A mean and, where there is one, its spread."""
    if pd.isna(mean):
        return "–"
    spread = "" if pd.isna(std) else f" ± {scale * std:.{digits}f}"
    value = round(scale * mean, digits) + 0.0  # no minus before a zero
    return f"{value:.{digits}f}{spread}".replace("-", "\u2212")


def quoted(name: object) -> str:
    return f"“{name}”"


def agreement(kappa: float) -> str:
    return "mostly the same" if kappa > 0.6 else "partly the same" if kappa > 0.2 else "largely different"


def two_digits(value: Any) -> str:
    text = f"{value:.2f}".replace("-", "\u2212")
    return "0.00" if text == "\u22120.00" else text
