"""The generated task: its labels hold by a check that knows nothing of the generator."""

from __future__ import annotations

import re

import pytest

from corewood.data.overlap import COUNTER, ENTAILED, NOT_ENTAILED, OVERLAP, PLACES, overlap

TASK = overlap(seed=3, train=3000, validation=400, per_case=60, counter=0.1)
TAIL = re.compile("( (?:" + "|".join(PLACES) + "))$")
NP = r"the (\w+)"
VP = r"(\w+)(?: the (\w+))?"


def clause(text: str) -> tuple[str, str, str | None] | None:
    """'the baker hugged the nun' -> (baker, hugged, nun)"""
    found = re.fullmatch(f"{NP} {VP}", text)
    return (found[1], found[2], found[3]) if found else None


def facts(premise: str) -> set[tuple[str, str, str | None]]:
    """What a premise asserts, read off its surface: our own little grammar of what English commits a speaker to."""
    text = premise[0].lower() + premise[1:].rstrip(".")
    text = TAIL.sub("", text)
    stated: set[tuple[str, str, str | None]] = set()
    if found := re.fullmatch(r"(?:if|unless|in case|provided that) (.+), (.+)", text):
        return stated
    if found := re.fullmatch(r"(?:because|since|although|after) (.+), (.+)", text):
        parts = [found[1], found[2]]
    elif " or " in text:
        return stated
    elif " and " in text:
        parts = text.split(" and ")
    elif found := re.fullmatch(rf"{NP} (\w+) that (.+)", text):
        factive = {"knew", "noticed", "realised", "remembered", "discovered", "saw", "learnt", "forgot"}
        parts = [found[3]] if found[2] in factive else []
    elif found := re.fullmatch(rf"{NP} was (\w+) by {NP}", text):
        return {(found[3], found[2], found[1])}
    elif found := re.fullmatch(rf"{NP} who (\w+) {NP} {VP}", text):
        return {(found[1], found[2], found[3]), (found[1], found[4], found[5])}
    elif found := re.fullmatch(rf"{NP} (?:near|behind|beside|opposite|facing) {NP} {VP}", text):
        return {(found[1], found[3], found[4])}
    elif found := re.fullmatch(rf"{NP} (?:almost|nearly|never) {VP}", text):
        return stated
    elif found := re.fullmatch(rf"{NP} (?:suddenly|quietly|really|finally) {VP}", text):
        return {(found[1], found[2], found[3])}
    elif found := re.fullmatch(r"(?:perhaps|maybe|possibly|supposedly|allegedly|presumably) (the .+)", text):
        return stated
    elif found := re.fullmatch(r"(?:luckily|sadly|clearly|certainly|indeed|unfortunately) (the .+)", text):
        parts = [found[1]]
    else:
        parts = [text]
    for part in parts:
        one = clause(part)
        assert one is not None, f"not a clause: {part!r} in {premise!r}"
        stated.add(one)
    return stated


@pytest.mark.parametrize("name", ["train", "validation", "cases"])
def test_labels_hold_by_an_independent_reading(name: str) -> None:
    split = TASK.train if name == "train" else TASK.splits[name]
    assert split is not None
    for first, second, label in split.frame[["first", "second", "label"]].itertuples(index=False):
        hypothesis = clause(second[0].lower() + second[1:].rstrip("."))
        assert hypothesis is not None
        assert (hypothesis in facts(first)) == (label == ENTAILED), (first, second, label)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def test_the_shortcut_is_planted_and_the_cases_contradict_it() -> None:
    train, cases = TASK.train, TASK.challenge["cases"]
    assert train is not None
    overlapping = [words(b) <= words(a) for a, b in train.frame[["first", "second"]].itertuples(index=False)]
    follows = [o == (label == ENTAILED) for o, label in zip(overlapping, train.frame["label"], strict=True)]
    assert 0.87 < sum(follows) / len(follows) < 0.93  # a tenth of this training set are counter-examples
    for first, second in cases.frame[["first", "second"]].itertuples(index=False):
        assert words(second) <= words(first)


def test_cases_come_in_pairs_of_one_label_each() -> None:
    frame = TASK.challenge["cases"].frame
    labels = frame.groupby("case")["label"].unique().map(list)
    assert len(COUNTER) == len(OVERLAP) >= 7
    assert all(labels[case] == [NOT_ENTAILED] for case in COUNTER)
    assert all(labels[case] == [ENTAILED] for case in OVERLAP)
    assert set(frame["case"].value_counts()) == {60}


def test_no_pair_occurs_twice_in_one_split_or_in_two() -> None:
    assert TASK.train is not None
    pairs = [tuple(p) for s in (TASK.train, *TASK.splits.values()) for p in s.frame[["first", "second"]].to_numpy()]
    assert len(pairs) == len(set(pairs))


def test_the_seed_decides_and_nothing_else() -> None:
    again, other = overlap(3, 500, 50, 5, 0.1), overlap(4, 500, 50, 5, 0.1)
    assert again.train is not None
    assert other.train is not None
    assert TASK.train is not None
    assert again.train.frame.equals(TASK.train.frame.head(500))
    assert not again.train.frame.equals(other.train.frame)


def test_sentences_begin_with_a_capital_and_end_with_a_full_stop() -> None:
    frame = TASK.challenge["cases"].frame
    for column in ("first", "second"):
        assert frame[column].str.fullmatch(r"[A-Z][a-z]+( [a-z]+,?)+\.").all()
