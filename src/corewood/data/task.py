"""A task: the texts, their labels, and the challenge sets beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

ALL = "all"  # stands for all cases of a set, where a table has a row over them
FOCUS = "focus"  # stands for the cases a study is about


@dataclass(frozen=True)
class Split:
    """Examples of one dataset.

    `frame` has the columns first, second (absent for single sentences), label, case and group (both may be absent).
    `labels` are the names used in `label`. `fold` says which of them each label of the *task* counts as, when the
    two differ: on HANS, neutral and contradiction both count as non-entailment. A split without labels is a regression:
    its `label` holds numbers.
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    labels: tuple[str, ...]
    fold: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def regression(self) -> bool:
        return self.labels == ()

    @property
    def gold(self) -> np.ndarray:
        """(example,) index of the right label in `labels`; for a regression the numbers themselves, float64."""
        if self.regression:
            return self.frame["label"].to_numpy(np.float64)
        return pd.Categorical(self.frame["label"], categories=list(self.labels)).codes.astype(np.int64)

    @property
    def texts(self) -> pd.DataFrame:
        """The columns first and, in pairs, second."""
        return self.frame[[column for column in ("first", "second") if column in self.frame]]

    @property
    def cases(self) -> pd.Series | None:
        return self.frame.get("case")

    def _repr_html_(self) -> str:
        if self.regression:
            low, mean, high = self.gold.min(), self.gold.mean(), self.gold.max()
            return f"<b>{self.name}</b>: {len(self)} examples, scores from {low:g} to {high:g}, {mean:.3g} on average"
        by = ["case", "label"] if "case" in self.frame else ["label"]
        counts = self.frame.groupby(by, sort=False).size().rename("examples").reset_index()
        return f"<b>{self.name}</b>: {len(self)} examples{counts.to_html(index=False)}"


def halves(split: Split, seed: int) -> tuple[Split, Split]:
    """One half to search on and one to report on, drawn by the seed, each label as evenly as it goes."""
    rng = np.random.default_rng([seed, 0x4A])
    order = rng.permutation(len(split))
    if split.regression:
        first = order[: len(order) // 2]
    else:
        by_label = order[np.argsort(split.gold[order], kind="stable")]
        first = by_label[rng.integers(2) :: 2]  # every second one, label by label
    inside = np.isin(np.arange(len(split)), first)
    search, report = (split.frame[rows].reset_index(drop=True) for rows in (inside, ~inside))
    return replace(split, name="search", frame=search), replace(split, name="report", frame=report)


@dataclass(frozen=True)
class Task:
    """What a model is trained on (`train`), judged on (`validation`) and tested against (`challenge`)."""

    name: str
    labels: tuple[str, ...]
    train: Split | None
    validation: Split
    challenge: Mapping[str, Split]
    metric: str = "accuracy"  # or matthews; or pearson, when the labels are numbers
    also: Mapping[str, Split] = field(default_factory=dict)  # further sets in domain

    @property
    def splits(self) -> dict[str, Split]:
        """Everything a subnetwork is evaluated on: validation, further sets in domain, then the challenge sets, by name."""
        return {self.validation.name: self.validation, **self.also, **self.challenge}

    def _repr_html_(self) -> str:
        parts = ([self.train] if self.train else []) + list(self.splits.values())
        return f"<h4>{self.name}</h4>" + "".join(p._repr_html_() for p in parts)
