"""What `corewood audit` takes columns and labels for, and what it asks about."""

from __future__ import annotations

import pandas as pd
import pytest

from corewood.data.guess import Columns, Wanted, columns_of, match_labels, refold
from corewood.errors import InputError

NLI = ("entailment", "neutral", "contradiction")
MOOD = ("NEGATIVE", "POSITIVE")
TEXTS = [f"the {word} was a very long film" for word in ("first", "second", "third", "fourth", "fifth", "sixth")]


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns)


def guessed(table: pd.DataFrame, classes: tuple[str, ...] = MOOD, cases: bool = True, **said: object) -> Columns:
    return columns_of(table, classes, Wanted(**said), "hard.csv", cases)  # type: ignore[arg-type]


def asks(table: pd.DataFrame, classes: tuple[str, ...] = MOOD, **said: object) -> str:
    with pytest.raises(InputError) as caught:
        guessed(table, classes, **said)
    assert str(caught.value).startswith("hard.csv: ")
    return str(caught.value)


def test_columns_by_their_names_whatever_their_case() -> None:
    found = guessed(frame(ID=range(6), Text=TEXTS, Label=["positive", "Negative"] * 3, Kind=["a", "b"] * 3))
    assert (found.text, found.label, found.case, found.by) == (("Text",), "Label", "Kind", "name")
    assert found.unused == ("ID",)
    pair = guessed(frame(hypothesis=TEXTS, premise=TEXTS, gold=["neutral"] * 6), NLI)
    assert pair.text == ("premise", "hypothesis")  # in the order of the pair, not of the file
    assert (pair.label, pair.case) == ("gold", None)
    assert "no column of cases was found" in pair.notes[0]


def test_the_label_is_the_column_that_has_the_classes() -> None:
    table = frame(text=TEXTS, target=range(6), verdict=["positive", "negative"] * 3)
    assert guessed(table).label == "verdict"
    assert guessed(table, label=("verdict",)).label == "verdict"
    twice = table.assign(label=table["verdict"], target=1)
    assert guessed(twice).label == "label"
    other = table.assign(label=["positive"] * 6)
    assert guessed(other.drop(columns="target")).label == "label"  # called so, and its values are classes
    both = frame(text=TEXTS, one=["positive", "negative"] * 3, two=["positive"] * 6)
    assert "which column holds the label? It could be one or two. Say it, for instance --label one" in asks(both)
    empty = frame(text=TEXTS, nothing=[None] * 6, label=["positive", "negative"] * 3)
    assert guessed(empty).label == "label"
    assert "Say --label; the columns are: text, a" in asks(frame(text=TEXTS, a=range(6)))


def test_texts_that_could_be_others_are_asked_about() -> None:
    label = ["positive", "negative"] * 3
    assert guessed(frame(story=TEXTS, short=list("abcdef"), label=label)).text == ("story",)
    said = asks(frame(story=TEXTS, told=TEXTS, label=label))
    assert (
        "which column holds the text? It could be story,told or story or told. Say it, for instance --text story,told" in said
    )
    assert "It could be text or review" in asks(frame(text=TEXTS, review=TEXTS, label=label))
    assert "Say --text; the columns are: a, label" in asks(frame(a=range(6), label=label))
    assert "--text 'a story,told'" in asks(frame(**{"a story": TEXTS, "told": TEXTS, "label": label}))
    assert "no column 'txt' (--text). Did you mean 'text'?" in asks(frame(text=TEXTS, label=label), text=(("txt",),))
    comma = frame(**{"text, long": TEXTS, "label": label})
    assert "the column 'text,long' holds a comma, which separates two here; rename it" in asks(comma, text=(("text", "long"),))
    some = frame(text=TEXTS, label=label)
    assert guessed(some, text=(("premise", "hypothesis"), ("text",))).text == ("text",)  # of several, the one that is there


def test_cases_split_a_set_into_parts_of_two_rows_or_more() -> None:
    table = frame(text=TEXTS, label=["positive", "negative"] * 3, kind=["a", "b"] * 3)
    assert guessed(table).case == "kind"
    assert guessed(table, cases=False).case is None
    assert guessed(table, case=("none",)).case is None
    assert guessed(table.rename(columns={"kind": "odd"}), case=("odd",)).case == "odd"
    assert "no column 'kin' (--case). Did you mean 'kind'?" in asks(table, case=("kin",))
    lonely = guessed(table.assign(kind=list("aabbbc")))
    assert lonely.case is None
    assert "kind has 3 values, some in one row or empty, and is not used as cases" in lonely.notes[0]
    nested = guessed(table.assign(kind=list("aabbcc"), group=list("xxxxyy")))
    assert (nested.case, nested.group) == ("kind", "group")  # each kind is in one group
    crossed = table.assign(kind=list("ababab"), type=list("xxxyyy"))
    assert "which column holds the cases? It could be kind or type. Say it, for instance --case kind, or --case none" in asks(
        crossed
    )
    odd = guessed(table.rename(columns={"kind": "annotator"}))
    assert odd.case is None
    assert "--case could be annotator" in odd.notes[0]


def test_labels_by_name_and_as_a_negation() -> None:
    assert match_labels(NLI, ["Entailment", "contradiction"], {}, "f") == ({}, {}, "name")
    folded = {"neutral": "non-entailment", "contradiction": "non-entailment"}
    assert match_labels(NLI, ["entailment", "non-entailment"], {}, "f") == ({}, folded, "name")
    assert match_labels(NLI, ["not_entailment"], {}, "f")[1] == dict.fromkeys(("neutral", "contradiction"), "not_entailment")
    two = ("entailment", "not_entailment")
    assert match_labels(two, ["entailment", "non-entailment"], {}, "f") == ({}, {"not_entailment": "non-entailment"}, "name")


def test_numbers_are_a_guess_and_said_to_be_one() -> None:
    assert match_labels(MOOD, ["0", "1"], {}, "f") == ({"0": "NEGATIVE", "1": "POSITIVE"}, {}, "number")
    table = frame(text=TEXTS, label=[0.0, 1.0] * 3)
    assert guessed(table).labels == {"0": "NEGATIVE", "1": "POSITIVE"}
    assert guessed(table).by == "number"
    for values in (["1", "2"], ["-1", "0", "1"], ["True", "False"]):
        with pytest.raises(InputError, match=r"Say which is which with --labels .*=\.\.\."):
            match_labels(MOOD, values, {}, "f")


def test_labels_as_the_user_says() -> None:
    said = {"1": "negative", "2": "positive"}
    assert match_labels(MOOD, ["1", "2"], said, "f") == ({"1": "NEGATIVE", "2": "POSITIVE"}, {}, "as said")
    assert match_labels(MOOD, ["negative"], said, "f") == ({}, {}, "name")  # a file that has the names
    turned = {"negative": "positive", "positive": "negative"}
    assert match_labels(MOOD, ["negative", "positive"], turned, "f")[0] == {"negative": "POSITIVE", "positive": "NEGATIVE"}
    hans = {"0": "entailment", "1": "non-entailment"}
    labels, fold, _ = match_labels(NLI, ["0", "1"], hans, "f")
    assert (labels, fold) == (hans, {"neutral": "non-entailment", "contradiction": "non-entailment"})
    with pytest.raises(InputError, match="the label '3' is not in --labels; the classes are NEGATIVE, POSITIVE"):
        match_labels(MOOD, ["1", "3"], said, "f")
    with pytest.raises(InputError, match="--labels: 'happy' is no class of the model"):
        match_labels(MOOD, ["1"], {"1": "happy"}, "f")


def test_strangers_are_never_given_a_meaning() -> None:
    with pytest.raises(InputError, match=r"'neg', 'pos' are no class of the model.* --labels neg=NEGATIVE,pos=POSITIVE"):
        match_labels(MOOD, ["neg", "pos"], {}, "f")
    with pytest.raises(InputError, match=r"'nonentail' is no class of the model.* --labels nonentail=\.\.\."):
        match_labels(NLI, ["entailment", "neutral", "nonentail"], {}, "f")
    with pytest.raises(InputError, match=r"with --labels '1 stars=1 star', or"):  # as a shell takes it
        match_labels(("1 star", "2 stars"), ["1 stars", "2 stars"], {}, "f")
    with pytest.raises(InputError, match=r"--labels 'no, sir=...'; a comma separates, so rename what holds one"):
        match_labels(MOOD, ["no, sir"], {}, "f")


def test_files_that_are_known() -> None:
    hans = frame(premise=TEXTS, hypothesis=TEXTS, label=[0, 1] * 3, subcase=list("aabbcc"), heuristic=list("xxxxyy"))
    found = guessed(hans, NLI)
    assert (found.layout, found.case, found.group, found.labels) == ("hans", "subcase", "heuristic", {})
    assert found.source("hans.csv").model_dump(exclude_defaults=True) == {"path": "hans.csv", "layout": "hans"}
    mnli = frame(sentence1=TEXTS, sentence2=TEXTS, gold_label=["-", "neutral"] * 3)
    assert guessed(mnli, NLI).layout == "mnli"
    assert "'-' is no class" in asks(mnli, NLI, label=("gold_label",))


def test_where_the_task_has_a_negation_other_files_say_it_the_same_way() -> None:
    task = guessed(frame(text=TEXTS, label=["entailment", "not_entailment"] * 3), NLI)
    fold = {"neutral": "not_entailment", "contradiction": "not_entailment"}
    assert task.fold == fold
    other = ["entailment", "non-entailment"]
    found = refold(guessed(frame(text=TEXTS, label=other * 3), NLI), other, task)
    assert (found.labels, found.fold) == ({"entailment": "entailment", "non-entailment": "not_entailment"}, fold)
    three = refold(guessed(frame(text=TEXTS, label=[*NLI] * 2), NLI), NLI, task)
    assert three.labels == {"entailment": "entailment", "neutral": "not_entailment", "contradiction": "not_entailment"}
    same = refold(task, ["entailment", "not_entailment"], task)
    assert (same.labels, same.fold) == ({}, fold)
