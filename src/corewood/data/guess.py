"""Which column of a file holds what, and which label is which class. Nothing is taken that could be otherwise: then the user
is asked to say it, with what there is to choose from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from corewood.data.labels import nearest_label, normal
from corewood.data.read import whole_again
from corewood.errors import InputError, nearest
from corewood.spec import SourceSpec

# names by which people call their columns, in the order in which they are believed
PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2"), ("text_a", "text_b"),
    ("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"), ("first", "second"), ("question", "sentence"),
    ("question", "passage"), ("query", "passage"), ("question", "context"),
)  # fmt: skip
TEXTS = ("text", "sentence", "review", "content", "comment", "tweet", "document", "message", "utterance", "body", "input")
LABELS = ("label", "labels", "gold_label", "gold", "target", "class", "sentiment", "category", "y", "answer", "is_duplicate")
CASES = ("case", "cases", "kind", "type", "subcase", "slice", "subset", "phenomenon", "category", "group", "tag")
MNLI = ("entailment", "neutral", "contradiction")
WORDS = 3  # on average, of a column that holds texts
MOST_CASES = 60


@dataclass(frozen=True)
class Wanted:
    """What the user says of the files; nothing: guess it. Of several columns, each file takes the first that it has."""

    text: tuple[tuple[str, ...], ...] = ()
    label: tuple[str, ...] = ()
    case: tuple[str, ...] = ()  # "none": no cases
    labels: Mapping[str, str] = field(default_factory=dict)  # value in the files -> class


@dataclass(frozen=True)
class Columns:
    """What a file is taken to hold."""

    rows: int
    text: tuple[str, ...]
    label: str
    case: str | None = None
    group: str | None = None
    layout: str | None = None  # a set that is known, with its columns
    labels: Mapping[str, str] = field(default_factory=dict)
    fold: Mapping[str, str] = field(default_factory=dict)
    by: str = "name"  # how labels were matched: name, number, or as the user says
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def source(self, path: str, limit: int | None = None) -> SourceSpec:
        known: dict[str, Any] = {"text": self.text, "label": self.label, "case": self.case, "group": self.group}
        known = {"layout": self.layout} if self.layout else known
        return SourceSpec.model_validate({"path": path, **known, "labels": self.labels, "fold": self.fold, "limit": limit})


def columns_of(
    frame: pd.DataFrame, classes: Sequence[str], wanted: Wanted, where: str, cases: bool = False, layouts: bool = True
) -> Columns:
    """`classes` are the model's; `cases`: whether the file may be split into some; `layouts`: whether it may be a known one."""
    names = {str(c).lower(): str(c) for c in frame.columns}
    text, label = text_and_label(frame, classes, wanted, where)
    said = wanted.text or wanted.label or wanted.case or wanted.labels
    layout = known_layout(names, classes) if layouts and not said else None
    case, group = None, None
    notes: list[str] = []
    if layout == "hans":
        case, group = names["subcase"], names["heuristic"]
    elif cases:
        case, group, notes = case_column(frame, names, (*text, label), wanted.case, where)
    labels, fold, by = ({}, {}, "name") if layout else match_labels(classes, label_values(frame[label]), wanted.labels, where)
    used = {*text, label, case, group}
    return Columns(
        rows=len(frame), text=text, label=label, case=case, group=group, layout=layout, labels=labels, fold=fold, by=by,
        unused=tuple(str(c) for c in frame.columns if c not in used), notes=tuple(notes),
    )  # fmt: skip


def text_and_label(frame: pd.DataFrame, classes: Sequence[str], wanted: Wanted, where: str) -> tuple[tuple[str, ...], str]:
    names = {str(c).lower(): str(c) for c in frame.columns}
    text = first_there(frame, wanted.text, "text", where) or text_columns(frame, names, where)
    label = first_there(frame, [(c,) for c in wanted.label], "label", where)
    return text, label[0] if label else label_column(frame, names, classes, text, where)


def first_there(frame: pd.DataFrame, given: Sequence[tuple[str, ...]], option: str, where: str) -> tuple[str, ...]:
    """Of what the user says, the first that this file has; nothing where nothing is said."""
    found = [columns for columns in given if all(c in frame.columns for c in columns)]
    if given and not found:
        there = [str(c) for c in frame.columns]
        missing = next(c for c in given[0] if c not in there)
        if any(re.sub(r"\s*,\s*", ",", c.strip()) == ",".join(given[0]) for c in there):
            raise InputError(f"{where}: the column {','.join(given[0])!r} holds a comma, which separates two here; rename it")
        raise InputError(
            f"{where}: no column {missing!r} (--{option}).{nearest(missing, there)} The columns are: {', '.join(there)}"
        )
    return found[0] if found else ()


def known_layout(names: Mapping[str, str], classes: Sequence[str]) -> str | None:
    """Files whose columns, labels and cases are known by heart."""
    nli = {"premise", "hypothesis"} <= names.keys() or {"sentence1", "sentence2"} <= names.keys()
    own = {*map(normal, classes)}
    three = own == {*MNLI}
    if nli and {"subcase", "heuristic"} <= names.keys() and (three or own == {"entailment", "non entailment"}):
        return "hans"
    return "mnli" if nli and three and "gold_label" in names and "label" not in names else None


def ask(where: str, what: str, option: str, choices: Sequence[str]) -> InputError:
    told = f"It could be {' or '.join(choices)}. Say it, for instance {option} {quote(choices[0])}"
    return InputError(f"{where}: which column holds the {what}? {told}")


def option(name: str, words: Sequence[str]) -> str:
    """Several words after an option, as a shell takes them."""
    held = "; a comma separates, so rename what holds one" if any("," in word for word in words) else ""
    return f"{name} {quote(','.join(words))}{held}"


def text_columns(frame: pd.DataFrame, names: Mapping[str, str], where: str) -> tuple[str, ...]:
    pairs = [(names[one], names[other]) for one, other in PAIRS if one in names and other in names]
    singles = [names[name] for name in TEXTS if name in names and not any(names[name] in pair for pair in pairs)]
    if len(pairs) == 1 and not singles:
        return pairs[0]
    if len(singles) == 1 and not pairs:
        return (singles[0],)
    if pairs or singles:
        raise ask(where, "text", "--text", [*(",".join(pair) for pair in pairs), *singles])
    wordy = [str(c) for c in frame.columns if is_wordy(frame[c])]
    if len(wordy) == 1:
        return (wordy[0],)
    if not wordy:
        raise InputError(
            f"{where}: which column holds the text? Say --text; the columns are: {', '.join(map(str, frame.columns))}"
        )
    raise ask(where, "text", "--text", [",".join(wordy[:2]), *wordy])


def is_wordy(column: pd.Series) -> bool:
    some = column.dropna().head(200)
    if not len(some) or not all(isinstance(value, str) for value in some):
        return False
    return float(np.mean([len(text.split()) for text in some])) >= WORDS and some.nunique() > len(some) / 2


def label_values(column: pd.Series) -> list[str]:
    """Distinct, in the spelling of `labels`."""
    return sorted({str(value) for value in whole_again(column).dropna()})


def label_column(frame: pd.DataFrame, names: Mapping[str, str], classes: Sequence[str], text: Sequence[str], where: str) -> str:
    """The one whose values are the model's classes; else the one that is called so."""
    others = [str(c) for c in frame.columns if c not in text]
    known = {normal(c) for c in classes}
    values = {c: {positive(v, known) for v in label_values(frame[c])} for c in others}
    fitting = [c for c in others if values[c] and values[c] <= known]
    called = [names[name] for name in LABELS if name in names and names[name] in others]
    both = [c for c in called if c in fitting]
    found = both or fitting or called
    if len({tuple(frame[c].astype(str)) for c in found}) == 1:  # one column, or copies of it
        return found[0]
    if found:
        raise ask(where, "label", "--label", found)
    raise InputError(
        f"{where}: which column holds the label? Say --label; the columns are: {', '.join(map(str, frame.columns))}"
    )


def positive(value: str, known: set[str]) -> str:
    """The class that a label names or negates."""
    plain = re.sub(r"^(non|not|no) ?", "", normal(value))
    return plain if plain in known and normal(value) not in known else normal(value)


def case_column(
    frame: pd.DataFrame, names: Mapping[str, str], taken: Sequence[str], wanted: Sequence[str], where: str
) -> tuple[str | None, str | None, list[str]]:
    """(the column that splits a challenge set, one that splits it more coarsely, what should be said of it)"""
    said = [c for c in wanted if c in frame.columns] or (["none"] if "none" in wanted else [])
    if said:
        return (said[0] if said[0] in frame.columns else None), None, []
    first_there(frame, [(c,) for c in wanted], "case", where)
    others = [str(c) for c in frame.columns if c not in taken]
    called = [names[name] for name in CASES if names.get(name) in others]
    fit = [c for c in called if splits(frame[c])]
    finest = next((c for c in fit if all(refines(frame[c], frame[other]) for other in fit)), None)
    if fit and finest is None:
        raise InputError(
            f"{where}: which column holds the cases? It could be {' or '.join(fit)}. "
            f"Say it, for instance --case {quote(fit[0])}, or --case none"
        )
    could = [c for c in others if c not in fit and splits(frame[c]) and (finest is None or refines(frame[c], frame[finest]))]
    if finest is not None:
        hint = [f"{where}: {could[0]} splits it more finely than {finest}: --case {quote(could[0])}"] if could else []
        return finest, next((c for c in fit if c != finest), None), hint
    if called:
        count = frame[called[0]].nunique(dropna=False)
        return None, None, [f"{where}: {called[0]} has {count} values, some in one row or empty, and is not used as cases"]
    hint = [f"; --case could be {' or '.join(map(quote, could))}"] if could else []
    return None, None, [f"{where}: no column of cases was found, so it is judged as a whole{''.join(hint)}"]


def refines(fine: pd.Series, coarse: pd.Series) -> bool:
    """Whether rows of one value in the one have one value in the other."""
    return bool((coarse.astype(str).groupby(fine.astype(str)).nunique() == 1).all())


def splits(column: pd.Series) -> bool:
    """Whether each of a few values has at least two rows."""
    counts = column.astype(str).value_counts()
    blank = column.isna().any() or (column.astype(str).str.strip() == "").any()
    return 2 <= len(counts) <= MOST_CASES and int(counts.min()) >= 2 and not blank


Matched = tuple[dict[str, str], dict[str, str], str]  # labels, fold, how


def match_labels(classes: Sequence[str], values: Sequence[str], given: Mapping[str, str], where: str) -> Matched:
    """Values of a file -> classes: by name; as a negation of one class, which all others then count as; by number, which is
    only a guess; or as the user says."""
    names = {normal(c): c for c in classes}
    if any(v in given for v in values):
        unknown = [v for v in values if v not in given and normal(v) not in names]
        if unknown:
            raise InputError(f"{where}: the label {unknown[0]!r} is not in --labels; the classes are {', '.join(classes)}")
        said = {v: names.get(normal(given.get(v, v)), given.get(v, v)) for v in values}
        fold = negation(classes, sorted(set(said.values())))
        wrong = [name for name in said.values() if normal(name) not in names and name not in fold.values()]
        if wrong:
            raise InputError(f"{where}: --labels: {wrong[0]!r} is no class of the model; the classes are {', '.join(classes)}")
        return said, fold, "as said"
    if {normal(v) for v in values} <= names.keys():
        return {}, {}, "name"
    fold = negation(classes, values)
    if fold:
        return {}, fold, "name"
    if values and {*values} <= {*map(str, range(len(classes)))}:
        return {str(i): c for i, c in enumerate(classes)}, {}, "number"
    strangers = [v for v in values if normal(v) not in names]
    blanks = [f"{v}={nearest_label(v, classes) or prefixed(v, classes) or '...'}" for v in strangers[:8]]
    shown = ", ".join(map(repr, strangers[:8])) + (", ..." if len(strangers) > 8 else "")
    raise InputError(
        f"{where}: {shown} {'is' if len(strangers) == 1 else 'are'} no class of the model, which has {', '.join(classes)}. "
        f"Say which is which with {option('--labels', blanks)}, or remove those rows"
    )


def negation(classes: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """{class: value}: where a file has a class and its negation, all other classes count as the latter."""
    names = {normal(c): c for c in classes}
    for value in values:
        denied = positive(value, set(names))
        rest = {normal(v) for v in values if v != value}
        if denied != normal(value) and rest <= {denied}:
            return {c: value for c in classes if normal(c) != denied}
    return {}


def refold(columns: Columns, values: Sequence[str], task: Columns) -> Columns:
    """The labels of a file as those of the task, where classes count as a negation there: both say it in one way."""
    known = {normal(name): said for name, said in task.fold.items()}
    denial = next(iter(task.fold.values()))
    own = {normal(said) for said in columns.fold.values()}
    labels = {v: denial if normal(v) in own else known.get(normal(v), v) for v in values}
    labels = {v: known.get(normal(columns.labels.get(v, "")), columns.labels.get(v, said)) for v, said in labels.items()}
    same = all(v == said for v, said in labels.items())
    return replace(columns, labels={} if same else labels, fold=task.fold)


def prefixed(value: str, classes: Sequence[str]) -> str | None:
    """The only class that begins so: pos, positive."""
    found = [c for c in classes if normal(c).startswith(normal(value))]
    return found[0] if len(found) == 1 else None
