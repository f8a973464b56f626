"""Tasks of data in memory: what goes in comes out, and a mistake is told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import pandas as pd
import pytest

import corewood as cw

FRAME = pd.DataFrame(
    {
        "premise": ["a b", "c d", "e f", "g h"],
        "hypothesis": ["a", "d", "f", "g"],
        "gold": ["yes", "no", "yes", "no"],
        "kind": ["x", "x", "y", "y"],
    },
    index=[5, 6, 7, 8],
)
PAIR = {"text": ["premise", "hypothesis"], "label": "gold"}
TEXT = {"text": ["a", "b"], "label": [0, 1]}
SERIES = {"text": pd.Series(["a", None], index=["x", "y"]), "label": pd.Series([0, 1], index=["x", "y"])}
SPLIT = cw.Split("dev", FRAME.rename(columns={"premise": "first", "gold": "label"})[["first", "label"]], ("yes", "no"))


@pytest.mark.parametrize(
    "kind",
    [
        lambda frame: frame,
        lambda frame: frame.to_dict("list"),
        lambda frame: dict(frame.items()),
        lambda frame: frame.to_dict("records"),
        lambda frame: datasets.Dataset.from_pandas(frame, preserve_index=False),
    ],
    ids=["pandas", "columns", "series", "rows", "datasets"],
)
def test_any_kind_of_data_makes_the_same_task(kind: Callable[[pd.DataFrame], Any]) -> None:
    data = kind(FRAME)
    task = cw.task(train=data, validation=data, challenge={"hard": data}, case="kind", **PAIR)
    assert task.labels == ("no", "yes")
    assert task.train is not None
    for split in (task.train, task.validation, task.challenge["hard"]):
        assert split.frame["first"].tolist() == FRAME["premise"].tolist()
        assert split.frame["second"].tolist() == FRAME["hypothesis"].tolist()
        assert split.gold.tolist() == [1, 0, 1, 0]
    assert task.validation.cases is None
    assert task.challenge["hard"].frame["case"].tolist() == ["x", "x", "y", "y"]
    assert cw.task(validation=data, label="gold").validation.frame.equals(task.validation.frame)  # the usual columns


def test_a_split_says_itself_what_its_labels_are() -> None:
    frame = pd.DataFrame({"first": ["a", "b", "c"], "label": ["neg", "pos", "pos"]})
    split = cw.Split("dev", frame, ("pos", "neutral", "neg"))
    task = cw.task(validation=split)
    assert task.labels == ("pos", "neutral", "neg")
    assert task.validation.gold.tolist() == [2, 0, 0]
    numbers = cw.Split("dev", frame.assign(label=[1.5, 2.5, 3.5]), ())
    task = cw.task(train=numbers, validation=numbers)
    assert task.metric == "pearson"
    assert task.validation.gold.tolist() == [1.5, 2.5, 3.5]


def test_files_and_data_may_stand_side_by_side(tmp_path: Any) -> None:
    FRAME.to_csv(tmp_path / "dev.csv", index=False)
    task = cw.task(train=FRAME, validation=tmp_path / "dev.csv", challenge={"own": {"path": str(tmp_path / "dev.csv")}}, **PAIR)
    assert task.train is not None
    assert task.train.frame.equals(task.validation.frame)
    assert len(task.challenge["own"]) == 4
    again = cw.task(validation=task.validation, challenge={"dev": task.validation})
    assert again.validation.frame.equals(task.validation.frame)


def test_columns_may_be_numbers() -> None:
    frame = pd.DataFrame([["a b", "x"], ["c", "y"]])
    for text, label in (("0", "1"), (0, 1), ([0], 1)):
        assert cw.task(validation=frame, text=text, label=label).labels == ("x", "y")  # type: ignore[arg-type]


def test_labels_have_names() -> None:
    assert cw.task(validation=TEXT, labels={0: "bad", 1: "good"}).validation.frame["label"].tolist() == ["bad", "good"]
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})
    assert cw.task(validation=datasets.Dataset.from_dict(TEXT, features=features)).labels == ("bad", "good")
    assert cw.task("sst2", validation={"sentence": ["a", "b"], "label": [0, 1]}).labels == ("negative", "positive")
    for kind in ("category", object):
        floats = pd.DataFrame(TEXT).assign(label=pd.Series([0.0, 1.0]).astype(kind))
        assert cw.task(validation=floats, labels={0: "bad", 1: "good"}).labels == ("bad", "good")
    scores = cw.task(validation={"text": ["a", "b"], "label": [0.5, 1.25]}, metric="pearson")
    assert scores.validation.gold.tolist() == [0.5, 1.25]
    three = {"premise": ["a"] * 3, "hypothesis": ["b"] * 3, "label": ["entailment", "neutral", "contradiction"]}
    two = {"premise": ["a", "b"], "hypothesis": ["b", "a"], "label": ["entailment", "non-entailment"]}
    fold = {"neutral": "non-entailment", "contradiction": "non-entailment"}
    assert cw.task(validation=three, challenge={"hard": two}, fold=fold).challenge["hard"].fold == fold


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: cw.task(validation=FRAME),
            r"task\.validation: no column 'label' .* The columns are: premise",
        ),
        (lambda: cw.task(validation=FRAME, text="premis", label="gold"), r"no column 'premis' .* Did you mean 'premise'"),
        (lambda: cw.task(validation=FRAME, challenge={"hard": FRAME}, case="kin", **PAIR), r"challenge\.hard: no column 'kin'"),
        (lambda: cw.task(validation={"words": ["a"], "label": ["x"]}), "which column holds the text.* it has: words, label"),
        (lambda: cw.task(validation="nothing.csv"), r"task\.validation: text: which column holds the text"),
        (lambda: cw.task(train=FRAME, **PAIR), "validation is missing"),
        (lambda: cw.task(FRAME), "its first argument is a name, not a DataFrame"),
        (lambda: cw.task(), "needs data"),
        (lambda: cw.task(validation=FRAME, lable="gold"), "unknown argument 'lable'. Did you mean 'label'"),
        (lambda: cw.task(validation=3), "a list of dicts or a path, not an int"),
        (lambda: cw.task(validation=FRAME, challenge={"validation": FRAME}, **PAIR), "cannot be called 'validation'"),
        (lambda: cw.task(validation=FRAME, challenge=FRAME), "challenge are sets by name, .* not a DataFrame"),
        (lambda: cw.task(validation={"text": ["a"], "label": ["x", "y"]}), "do not make a table"),
        (lambda: cw.task(validation={"text": ["a", None], "label": [0, 1]}), "row 2 has no 'text'"),
        (lambda: cw.task(validation=SERIES), "row 2 has no 'text'"),
        (lambda: cw.task(validation=TEXT, metric="acuracy"), "task: metric: .*'accuracy'"),
        (
            lambda: cw.task(validation=TEXT, labels=["bad", "good"]),
            "the label '0'; the labels are bad, good.* in Python, .*labels={'0'",
        ),
        (lambda: cw.task(validation=TEXT, labels="xy"), "task: labels='xy': give a list of names"),
        (lambda: cw.task("overlap", per_cas=3), "task: per_cas: unknown key. Did you mean 'per_case'"),
        (lambda: cw.task(validation=FRAME, challenge={"one": TEXT}, label="gold"), "no column 'gold'"),
        (lambda: cw.Split("dev", FRAME, ("yes", "no")), "split 'dev': no column 'first'.* this one has: premise, hypothesis"),
        (lambda: cw.Split("dev", SPLIT.frame, ("yes", "nope")), "label 'no' is not among its labels, yes, nope"),
        (lambda: cw.Split("dev", SPLIT.frame.assign(first=1), ("yes", "no")), "'first' must hold a text in every row"),
        (lambda: cw.Split("dev", SPLIT.frame, ()), "it is a regression, and 'label' must hold numbers"),
        (lambda: cw.Split("dev", SPLIT.frame, "yes"), "labels are several names"),
        (lambda: cw.Split("dev", TEXT, ("yes",)), "its frame is a dict, not a pandas DataFrame"),
        (lambda: cw.Task("x", ("yes",), None, FRAME, {}), "Task: validation: takes a Split, not a DataFrame"),
    ],
)
def test_mistakes_are_told_at_once(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        mistake()
