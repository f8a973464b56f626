"""Sets whose files are known, in the forms they are handed out in; mixtures of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from corewood.data.layouts import HANS_CASES
from corewood.data.named import read_task, task
from corewood.data.read import read_split
from corewood.errors import InputError
from corewood.spec import FilesTask, SourceSpec

HANS = [  # (premise, hypothesis, label, heuristic, subcase)
    ("The doctor saw the nun .", "The nun saw the doctor .", "non-entailment", "lexical_overlap", "ln_subject/object_swap"),
    ("The nun by the mayor ran .", "The mayor ran .", "non-entailment", "lexical_overlap", "ln_preposition"),
    ("Clearly the nun ran .", "The nun ran .", "entailment", "constituent", "ce_adverb"),
]


def hans_rows() -> list[dict[str, str]]:
    names = ("premise", "hypothesis", "label", "heuristic", "subcase")
    return [dict(zip(names, row, strict=True)) for row in HANS for _ in range(2)]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def hans_file(folder: Path, kind: str) -> dict[str, Any]:
    rows = hans_rows()
    if kind == "jsonl":
        return {"path": str(write_jsonl(folder / "hans.jsonl", rows))}
    if kind == "text":  # as its authors hand it out
        head = "gold_label\tsentence1_parse\tsentence1\tsentence2\tpairID\theuristic\tsubcase\ttemplate"
        lines = [
            f"{r['label']}\t(ROOT)\t{r['premise']}\t{r['hypothesis']}\tex0\t{r['heuristic']}\t{r['subcase']}\tt1" for r in rows
        ]
        path = folder / "heuristics_evaluation_set.txt"
        path.write_text("\n".join([head, *lines]) + "\n", "utf-8")
        return {"path": str(path)}
    names = ["entailment", "non-entailment"]  # as the hub has it: numbers with names
    made = datasets.Dataset.from_list([{**r, "label": names.index(r["label"])} for r in rows])
    made = made.cast_column("label", datasets.ClassLabel(names=names))
    datasets.DatasetDict({"validation": made}).save_to_disk(str(folder / "hans"))
    return {"path": str(folder / "hans"), "split": "validation"}


@pytest.mark.parametrize("kind", ["jsonl", "text", "arrow"])
def test_hans_in_every_form(tmp_path: Path, kind: str) -> None:
    split, _ = read_split("hans", SourceSpec.model_validate({**hans_file(tmp_path, kind), "layout": "hans"}))
    assert split.frame["case"].tolist()[::2] == ["SO-Swap", "Prep", "Adverb [C-E]"]
    assert split.frame["group"].tolist()[::2] == [
        "lexical overlap, non-entailment", "lexical overlap, non-entailment", "constituent, entailment",
    ]  # fmt: skip
    assert split.frame["first"].iloc[0] == HANS[0][0]
    assert split.fold == {"neutral": "non-entailment", "contradiction": "non-entailment"}


def test_the_thirty_cases_have_thirty_names() -> None:
    assert len(HANS_CASES) == len(set(HANS_CASES.values())) == 30
    entailed = [name for case, name in HANS_CASES.items() if case[1] == "e"]
    assert len(entailed) == 15
    assert all(name.endswith("-E]") for name in entailed)


def test_mnli_from_glue_tsv_and_its_unlabelled_rows(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("index\tsentence1\tsentence2\tgold_label\n0\ta b\tc\tneutral\n1\td\te\t-\n2\tf\tg\tentailment\n")
    split, notes = read_split("validation", SourceSpec(path=str(path), layout="mnli"))
    assert split.frame["label"].tolist() == ["neutral", "entailment"]
    assert "1 rows have no agreed label" in notes[0]


@pytest.mark.parametrize(("layout", "texts"), [("mnli", ["premise", "hypothesis"]), ("qqp", ["question1", "question2"])])
def test_hidden_labels_that_became_floats_are_left_out(tmp_path: Path, layout: str, texts: list[str]) -> None:
    frame = pd.DataFrame({texts[0]: ["a", "b", "c"], texts[1]: ["d", "e", "f"], "label": [0.0, -1.0, 1.0]})
    frame.to_parquet(tmp_path / "rows.parquet")
    split, notes = read_split("validation", SourceSpec(path=str(tmp_path / "rows.parquet"), layout=layout))
    assert split.frame["first"].tolist() == ["a", "c"]
    assert "1 rows have no agreed label" in notes[0]


def test_qqp_drops_lines_that_lack_fields_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("id\tquestion1\tquestion2\tis_duplicate\n0\ta?\tb?\t1\n1\tbroken\n2\tc?\td?\t0\n")
    split, notes = read_split("train", SourceSpec(path=str(path), layout="qqp"))
    assert split.frame["label"].tolist() == ["equivalent", "not equivalent"]
    assert "1 lines lack fields (first: line 3)" in notes[0]
    with pytest.raises(InputError, match="line 3 has 2 fields"):
        read_split("train", SourceSpec(path=str(path), text=("question1", "question2"), label="is_duplicate"))


def test_the_adversarial_part_of_paws_is_label_0(tmp_path: Path) -> None:
    path = tmp_path / "paws.tsv"
    lines = ["1\tb'Is a yawn ?'\tb\"Isn't it \\xc3\\xa9 ?\"\t0", "2\tplain\ttext\t1", "3\tx\ty\t0"]
    path.write_text("\n".join(["id\tsentence1\tsentence2\tlabel", *lines]) + "\n")
    split, _ = read_split("paws", SourceSpec(path=str(path), layout="paws", only={"label": "0"}))  # type: ignore[arg-type]
    assert split.frame["first"].tolist() == ["Is a yawn ?", "x"]
    assert split.frame["second"].iloc[0] == "Isn't it é ?"
    assert set(split.frame["label"]) == {"not equivalent"}


def test_only_names_what_is_not_there(tmp_path: Path) -> None:
    given = {**hans_file(tmp_path, "jsonl"), "layout": "hans", "only": {"subcase": ["ln_prepositon"]}}
    with pytest.raises(InputError, match=r"no row has 'ln_prepositon' in 'subcase'.*ln_preposition"):
        read_split("hans", SourceSpec.model_validate(given))
    with pytest.raises(InputError, match="no column 'subcas'"):
        read_split("hans", SourceSpec.model_validate({**given, "only": {"subcas": ["x"]}}))
    path = write_jsonl(tmp_path / "other.jsonl", [{"text": "a", "label": "b"}])
    with pytest.raises(InputError, match="layout hans expects the columns premise and hypothesis or sentence1 and sentence2"):
        read_split("hans", SourceSpec(path=str(path), layout="hans"))


def test_a_mixture_draws_so_many_rows_of_each_file_by_seed(tmp_path: Path) -> None:
    mnli = [
        {"premise": f"p{i}", "hypothesis": "h", "label": ("entailment", "neutral", "contradiction")[i % 3]} for i in range(60)
    ]
    write_jsonl(tmp_path / "mnli.jsonl", mnli)
    hans = {**hans_file(tmp_path, "jsonl"), "layout": "hans", "only": {"subcase": ["ln_preposition", "ce_adverb"]}, "limit": 3}
    two = {"entailment": "entailment", "neutral": "non-entailment", "contradiction": "non-entailment"}
    one = {"path": str(tmp_path / "mnli.jsonl"), "layout": "mnli", "labels": two, "limit": 20}
    spec = FilesTask.model_validate({"train": [one, hans], "validation": {**one, "limit": 5}})
    read, notes = read_task(spec, Path(), 0)
    assert read.train is not None
    assert len(read.train) == 23
    assert read.labels == ("entailment", "non-entailment")
    assert set(read.train.frame["first"].tail(3)) <= {HANS[1][0], HANS[2][0]}
    assert "a mixture of 20 from" in notes[-1]
    again, _ = read_task(spec, Path(), 0)
    other, _ = read_task(spec, Path(), 1)
    assert again.train is not None
    assert other.train is not None
    assert again.train.frame.equals(read.train.frame)
    assert not other.train.frame.equals(read.train.frame)
    single = write_jsonl(tmp_path / "single.jsonl", [{"text": "a", "label": "entailment"}])
    spec = FilesTask.model_validate({"train": [one, {"path": str(single), "text": "text"}], "validation": one})
    with pytest.raises(InputError, match="some of its files hold pairs of texts and some single texts"):
        read_task(spec, Path(), 0)


def test_qqp_by_name(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("id\tquestion1\tquestion2\tis_duplicate\n0\ta?\tb?\t1\n2\tc?\td?\t0\n")
    found = task("qqp", files={"validation": str(path), "paws": {"path": str(path), "text": ["question1", "question2"],
                 "label": "is_duplicate", "labels": {"0": "not equivalent", "1": "equivalent"}}})  # fmt: skip
    assert found.labels == ("not equivalent", "equivalent")
    assert list(found.challenge) == ["paws"]


def test_class_names_of_a_set_are_used_with_and_without_a_layout(tmp_path: Path) -> None:
    names = ["entailment", "neutral", "contradiction"]
    rows = [{"premise": f"p{i}", "hypothesis": "h", "label": i % 3} for i in range(6)]
    made = datasets.Dataset.from_list(rows).cast_column("label", datasets.ClassLabel(names=names))
    made.save_to_disk(str(tmp_path / "set"))
    for more in ({"layout": "mnli"}, {"text": ["premise", "hypothesis"]}, {"layout": "mnli", "only": {"label": "neutral"}}):
        split, _ = read_split("validation", SourceSpec.model_validate({"path": str(tmp_path / "set"), **more}))
        assert set(split.labels) <= set(names)


def test_a_set_without_labels_is_refused_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "test.jsonl", [{"premise": "a", "hypothesis": "b", "label": -1}] * 3)
    with pytest.raises(InputError, match="no row has a label, so validation would be empty"):
        read_split("validation", SourceSpec(path=str(path), layout="mnli"))
    rows = [{"premise": "a", "hypothesis": "b", "label": "-"}, {"premise": "a", "hypothesis": "", "label": "neutral"}]
    path = write_jsonl(tmp_path / "dev.jsonl", rows)
    with pytest.raises(InputError, match="row 2 has no 'hypothesis'"):
        read_split("validation", SourceSpec(path=str(path), layout="mnli"))
