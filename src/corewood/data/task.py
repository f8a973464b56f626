"""A task: the texts, their labels, and the challenge sets beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape

import numpy as np
import pandas as pd

from corewood.errors import InputError

ALL = "all"  # stands for all cases of a set, where a table has a row over them
FOCUS = "focus"  # stands for the cases a study is about


@dataclass(frozen=True)
class Split:
    """Examples of one dataset.

    `frame` has the columns first, second (absent for single sentences), label, case and group (both may be absent).
    `labels` are the names used in `label`. `fold` says which of them each label of the *task* counts as, when the
    two differ: on HANS, neutral and contradiction both count as non-entailment. A split without labels is a regression:
    its `label` holds numbers. `cw.task` makes splits from data with columns of any name.

    Example:
        >>> frame = pd.DataFrame({"first": ["It rains.", "Fine."], "label": ["bad", "good"]})
        >>> split = cw.Split("weather", frame, labels=("bad", "good"))
        >>> split
        <Split weather: 2 examples, labels bad, good>
        >>> split.gold
        array([0, 1])
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    labels: tuple[str, ...]
    fold: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        who = f"split {self.name!r}"
        if not isinstance(self.frame, pd.DataFrame):
            raise InputError(f"{who}: its frame is {a_kind(self.frame)}, not a pandas DataFrame; cw.task(...) takes other data")
        there = ", ".join(map(str, self.frame.columns))
        for column in ("first", "label"):
            if column not in self.frame:
                raise InputError(
                    f"{who}: no column {column!r}. The frame of a split has first, second (of pairs), label, case and group; "
                    f"this one has: {there}. cw.task(validation=frame, text=[...], label=...) takes columns of any name"
                )
        for name, texts in self.texts.items():
            if not pd.api.types.is_string_dtype(texts) or texts.isna().any():
                raise InputError(f"{who}: {name!r} must hold a text in every row")
        if isinstance(self.labels, str):
            raise InputError(f"{who}: labels are several names, for instance labels=({self.labels!r}, ...)")
        object.__setattr__(self, "labels", tuple(self.labels))
        if not self.labels and not pd.api.types.is_numeric_dtype(self.frame["label"]):
            raise InputError(f"{who}: without labels it is a regression, and 'label' must hold numbers; or name its labels")
        strangers = self.frame["label"][~self.frame["label"].isin(self.labels)]
        if self.labels and len(strangers):
            raise InputError(f"{who}: label {strangers.iloc[0]!r} is not among its labels, {', '.join(self.labels)}")

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

    def __repr__(self) -> str:
        cases = "" if self.cases is None else f", {self.cases.nunique()} cases"
        labels = "scores" if self.regression else f"labels {', '.join(self.labels)}"
        return f"<Split {self.name}: {len(self)} examples, {labels}{cases}>"

    def _repr_html_(self) -> str:
        if self.regression:
            low, mean, high = self.gold.min(), self.gold.mean(), self.gold.max()
            return f"<b>{escape(self.name)}</b>: {len(self)} examples, scores from {low:g} to {high:g}, {mean:.3g} on average"
        by = ["case", "label"] if "case" in self.frame else ["label"]
        counts = self.frame.groupby(by, sort=False).size().rename("examples").reset_index()
        return f"<b>{escape(self.name)}</b>: {len(self)} examples{counts.to_html(index=False)}"


def a_kind(given: object) -> str:
    """What something is, for a message: 'a Task', 'an int'."""
    name = type(given).__name__
    return f"{'an' if name[0] in 'AEIOaeiou' else 'a'} {name}"


def one_split(given: object, who: str) -> Split:
    """Or an error that says what to pass."""
    if isinstance(given, Task):
        sets = ["task.validation", *(f"task.challenge[{name!r}]" for name in given.challenge)]
        raise InputError(f"{who}: takes one set of examples, not a whole task; pass {' or '.join(sets)}")
    if not isinstance(given, Split):
        raise InputError(f"{who}: takes a Split, not {a_kind(given)}; cw.task(validation=...) makes splits of your data")
    return given


def one_task(given: object, who: str) -> Task:
    """Or an error that says what to pass."""
    if isinstance(given, Split):
        raise InputError(f"{who}: takes a task, not one of its splits; pass the task, or cw.task(validation=split)")
    if not isinstance(given, Task):
        raise InputError(f"{who}: takes a task, not {a_kind(given)}; cw.task(...) makes one of your data")
    return given


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
    """What a model is trained on (`train`), judged on (`validation`) and tested against (`challenge`). See `cw.task`.

    Example:
        >>> task = cw.task("overlap", train=300, validation=60, per_case=4)
        >>> task
        <Task overlap: train 300, validation 60, cases 72 (18 cases); labels entailment, non-entailment>
        >>> task.challenge["cases"].cases.iloc[0]
        'swap'
    """

    name: str
    labels: tuple[str, ...]
    train: Split | None
    validation: Split
    challenge: Mapping[str, Split]
    metric: str = "accuracy"  # or matthews; or pearson, when the labels are numbers
    also: Mapping[str, Split] = field(default_factory=dict)  # further sets in domain

    def __post_init__(self) -> None:
        for name, split in {"validation": self.validation, **({} if self.train is None else {"train": self.train})}.items():
            one_split(split, f"Task: {name}")
        for name, split in self.challenge.items():
            one_split(split, f"Task: challenge[{name!r}]")

    @property
    def splits(self) -> dict[str, Split]:
        """Everything a subnetwork is evaluated on: validation, further sets in domain, then the challenge sets, by name."""
        return {self.validation.name: self.validation, **self.also, **self.challenge}

    def __repr__(self) -> str:
        parts = {**({"train": self.train} if self.train else {}), **self.splits}
        sizes = [
            f"{name} {len(split)}" + ("" if split.cases is None else f" ({split.cases.nunique()} cases)")
            for name, split in parts.items()
        ]
        labels = f"labels {', '.join(self.labels)}" if self.labels else "scores"
        return f"<Task {self.name}: {', '.join(sizes)}; {labels}>"

    def _repr_html_(self) -> str:
        parts = ([self.train] if self.train else []) + list(self.splits.values())
        return f"<h4>{escape(self.name)}</h4>" + "".join(p._repr_html_() for p in parts)
