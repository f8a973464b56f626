"""Files and hub sets into splits; every complaint names the file and what to change."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from corewood.data.files import Rows, check_twice, file_rows, hub_rows
from corewood.data.labels import nearest_label, normal
from corewood.data.layouts import Known, lay_out, layout_of
from corewood.data.task import ALL, FOCUS, Split
from corewood.errors import InputError, nearest
from corewood.spec import SourceSpec
from corewood.untrusted import lone_surrogate, user_path

# names that tables have for rows of their own
TAKEN = (("case", ALL, "all cases"), ("case", FOCUS, "the cases in focus"), ("group", ALL, "all groups"))


def read_split(
    name: str,
    source: SourceSpec,
    base: Path | None = None,
    seed: int = 0,
    regression: bool = False,
    key: str = "",
    cases: bool | None = None,
    rows: Rows | None = None,
) -> tuple[Split, list[str]]:
    """The examples, and notes on what the user should know about the file. Cases belong to challenge sets alone:
    by default, to what is called neither train nor validation. `rows` are in memory already: nothing is read.

    The labels of a regression are numbers; the split then has no names of labels. `key` is where the study has the source.
    """
    key = key or f"task.{name}"
    known = layout_of(source)
    if rows is not None:
        where, (frame, classes, notes) = key, rows
    elif source.hub:
        where = f"hub set {source.hub}"
        frame, classes, notes = hub_rows(source)
    else:
        path = locate(source, base)
        where = str(path)
        frame, classes, notes = file_rows(path, source, known)
    if frame.empty:
        raise InputError(f"{where}: no rows, so {name} would be empty; give a file with examples")
    check_twice(frame, where)
    source = lay_out(source, known, [str(c) for c in frame.columns], where)
    names = classes.get(str(source.label))
    if not (cases or (cases is None and name not in ("train", "validation"))):
        source = source.model_copy(update={"case": None, "group": None})
    check_columns(frame, source, where, key)
    frame = chosen_rows(frame, source, known, names, where, key, notes)
    if frame.empty:
        raise InputError(f"{where}: no row has a label, so {name} would be empty; GLUE's test sets hide theirs, use a dev set")
    made: dict[str, pd.Series] = {}
    for part, column in zip(("first", "second"), source.text, strict=False):
        made[part] = as_texts(frame[column], where)
        refuse_blanks(frame[column], where, f"{column!r}; every example needs its text")
        if known.bytes_literals:
            made[part] = made[part].map(plain_text)
    assert source.label is not None
    if regression:
        made["label"] = label_numbers(frame[source.label], where)
    else:
        made["label"] = label_names(frame[source.label], source, names, known, where, key)
    for part, wanted, spelling in (("case", source.case, known.case_names), ("group", source.group, known.group_names)):
        if wanted:
            said = as_texts(frame[wanted], where)
            refuse_blanks(frame[wanted], where, f"{part} in the column {wanted!r}; every example needs one")
            made[part] = said.map(lambda v, s=spelling: s.get(v, v))
    tidy = pd.DataFrame(made).reset_index(drop=True)
    for part, taken, meaning in TAKEN:
        if part in tidy and (tidy[part] == taken).any():
            raise InputError(
                f"{where}: a {part} cannot be called {taken!r}: that is the row over {meaning}; rename it in the file"
            )
    check_cases(
        tidy, f"{where}: case {{!r}} (column {source.case!r}) has one example, which says nothing; merge it or remove it"
    )
    if known.group_names and "group" in tidy:  # first by heuristic, then by the right answer
        tidy["group"] = tidy["group"] + ", " + tidy["label"].astype(str)
    tidy = tidy.iloc[drawn(tidy, source.limit, seed)].reset_index(drop=True)
    check_cases(tidy, f"{key}.limit: {source.limit} leaves case {{!r}} one example, which says nothing; raise the limit")
    if regression:
        return Split(name, tidy, ()), notes
    return Split(name, tidy, tuple(sorted(set(tidy["label"]))), dict(source.fold)), notes


def check_columns(frame: pd.DataFrame, source: SourceSpec, where: str, place: str) -> None:
    need = [*(("text", c) for c in source.text), ("label", source.label), *(("only", c) for c in source.only)]
    for key, column in [*need, ("case", source.case), ("group", source.group)]:
        if column is not None and column not in frame:
            there = [str(c) for c in frame.columns]
            raise InputError(
                f"{where}: no column {column!r} ({place}.{key}).{nearest(column, there)} The columns are: {', '.join(there)}"
            )


def as_texts(column: pd.Series, where: str) -> pd.Series:
    """Words and numbers as text. What is neither, or no text that UTF-8 can write, is refused by its row."""
    if column.dtype == object:
        for row, value in column.items():
            if not pd.api.types.is_scalar(value) or isinstance(value, bytes):
                what = f"{type(value).__name__} in the column {column.name!r}, which is no text"
                raise InputError(f"{where}: row {int(str(row)) + 1} has {what}; write it as text")
            if isinstance(value, str) and lone_surrogate(value):
                what = f"half a character in the column {column.name!r} (a lone surrogate, as \\ud83d)"
                raise InputError(f"{where}: row {int(str(row)) + 1} has {what}; correct it or remove the row")
    return column.astype(str)


def refuse_blanks(column: pd.Series, where: str, what: str) -> None:
    blank = column.index[column.isna() | (column.astype(str).str.strip() == "")]
    if len(blank):
        raise InputError(f"{where}: row {blank[0] + 1} has no {what}")


def chosen_rows(
    frame: pd.DataFrame, source: SourceSpec, known: Known, names: list[str] | None, where: str, key: str, notes: list[str]
) -> pd.DataFrame:
    """Rows that `only` asks for, without those that nobody could label."""
    for column, wanted in source.only.items():
        values = as_texts(whole_again(frame[column]), where)
        if column == source.label and names is not None:  # a hub set's numbers stand for its class names
            numbers = {str(number): name for number, name in enumerate(names)}
            values = values.map(lambda v, known=numbers: known.get(v, v))
        missing = [v for v in wanted if v not in set(values)]
        if missing:
            there = sorted(set(values.dropna()))
            shown = f" It has: {', '.join(there[:40])}." if len(there) <= 40 else ""
            raise InputError(
                f"{where}: no row has {missing[0]!r} in {column!r} ({key}.only).{nearest(missing[0], there) or shown}"
            )
        frame = frame[values.isin(wanted)]
    unlabelled = as_texts(frame[source.label], where).isin(known.unlabelled)
    if unlabelled.any():
        notes.append(f"{where}: {int(unlabelled.sum())} rows have no agreed label and are left out")
        frame = frame[~unlabelled]
    return frame  # with the numbers of its rows in the file


def plain_text(text: str) -> str:
    """PAWS' own script writes texts as b'...': ASCII with escapes, which stand for UTF-8."""
    if text[:2] not in ("b'", 'b"') or text[-1] != text[1] or not text.isascii():
        return text
    return text[2:-1].encode("ascii").decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def check_cases(frame: pd.DataFrame, complaint: str) -> None:
    counts = frame["case"].value_counts() if "case" in frame else pd.Series(dtype=int)
    if (counts < 2).any():
        raise InputError(complaint.replace("{!r}", repr(str(counts.index[counts < 2][0]))))  # a path may hold braces


def locate(source: SourceSpec, base: Path | None) -> Path:
    assert source.path is not None
    path = user_path(source.path, base)
    if not path.exists():
        near = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
        raise InputError(
            f"{path}: there is no such file.{nearest(path.name, near)} Paths are relative to the study file "
            "or, in Python, to the current folder."
        )
    return path


def label_numbers(column: pd.Series, where: str) -> pd.Series:
    """The scores of a regression."""
    said = column.astype(str)  # by way of text: a 32-bit 3.8 is 3.8, not 3.799999952
    numbers = said.map(as_number)
    bad = said[~np.isfinite(numbers)]
    if len(bad):
        raise InputError(
            f"{where}: row {bad.index[0] + 1} has {bad.iloc[0]!r} in column {column.name!r}, which is "
            "no finite number; metric pearson needs one in every row: correct it or remove the row"
        )
    return numbers


def as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def label_names(
    column: pd.Series, source: SourceSpec, names: list[str] | None, known: Known, where: str, key: str
) -> pd.Series:
    """Values of the file -> names: by the set's own class names or those of its layout, then by the study's `labels`."""
    refuse_blanks(column, where, f"label in column {source.label!r}")
    column = whole_again(column)
    if names is not None:
        column = column.map(lambda v: name_of(v, names, where))
    column = column.astype(str)
    if known.numbers and names is None:  # files that say the names, or what the study renames, are taken at their word
        column = column.map(lambda v: name_of(v, known.numbers, where) if v.isdecimal() and v not in source.labels else v)
    if source.labels:
        given = source.labels
        strangers = [v for v in column.unique() if v not in given and v not in given.values()]
        if strangers:
            row = int(column.index[column == strangers[0]][0]) + 1
            raise InputError(
                f"{where}: row {row} has the label {strangers[0]!r}, which {key}.labels does not name "
                f"(it names {', '.join(map(repr, given))}); add it there or remove the row"
            )
        column = column.map(lambda v: given.get(v, v))
    return column


def whole_again(column: pd.Series) -> pd.Series:
    """Integers that a missing value has made floats, in columns of numbers, objects or categories."""
    if column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype):
        values = [value for value in column.dropna().unique() if not isinstance(value, bool)]
        if not values or not all(isinstance(value, numbers.Real) for value in values):
            return column
        column = column.astype(float)
    floats = pd.api.types.is_float_dtype(column) and whole_numbers(column.dropna())
    return column.astype("Int64") if floats else column


def whole_numbers(column: pd.Series) -> bool:
    """Small enough to be labels; infinite ones are none."""
    return bool(((column == column.round()) & (column.abs() < 2**53)).all())


def name_of(value: Any, names: Sequence[str], where: str) -> str:
    """0, 1, ... -> the name of that class."""
    said = str(value)
    if not (said.isdecimal() and len(said) < 10 and int(said) < len(names)):
        raise InputError(f"{where}: label {value} has no name in the set (names: {', '.join(names)}); filter such rows")
    return names[int(said)]


def check_labels(split: Split, labels: tuple[str, ...], key: str) -> Split:
    """Refuse labels the task does not have; spell the others as the task does."""
    if split.regression:
        return split
    spelling = {normal(label): label for label in labels}
    strangers = [label for label in split.labels if normal(label) not in spelling]
    if strangers:
        many = int((split.frame["label"] == strangers[0]).sum())
        have = "1 example has" if many == 1 else f"{many} examples have"
        named = ", ".join(f"{label}: {nearest_label(label, labels) or '...'}" for label in strangers)
        in_python = ", ".join(f"{label!r}: {nearest_label(label, labels) or '...'!r}" for label in strangers)
        many_as_one = f", count several of them as it with {key}.fold: {{...: {strangers[0]}}}" if ".challenge." in key else ""
        raise InputError(
            f"{key}: {have} the label {strangers[0]!r}; the labels are {', '.join(labels)}. "
            f"Say which of them it is with {key}.labels: {{{named}}}{many_as_one}, or add it to the task's labels; "
            f"in Python, cw.task(..., labels={{{in_python}}})"
        )
    frame = split.frame.assign(label=split.frame["label"].map(lambda v: spelling[normal(v)]))
    return Split(split.name, frame, labels, split.fold)


def drawn(frame: pd.DataFrame, limit: int | None, seed: int) -> np.ndarray:
    """Which rows: so many by seed, in their own order; with cases, as evenly over them as they allow."""
    if limit is None or limit >= len(frame):
        return np.arange(len(frame))
    rng = np.random.default_rng([seed, 0x11])
    order = rng.permutation(len(frame))
    if "case" in frame:
        rank = frame.iloc[order].groupby("case").cumcount().to_numpy()  # 0 for the first row drawn of each case
        order = order[np.argsort(rank, kind="stable")]
    return np.sort(order[:limit])
