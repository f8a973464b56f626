"""The nine sets of GLUE, in the forms they are handed out in; labels that are numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import datasets
import numpy as np
import pandas as pd
import pytest

from corewood.data.labels import classes_of, describe, fold_classes
from corewood.data.layouts import LAYOUTS
from corewood.data.named import KNOWN, read_task, task
from corewood.data.read import read_split
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.metrics import accuracy
from corewood.spec import FilesTask, GlueTask, SourceSpec
from corewood.spec.tasks import GLUE_LABELS, GLUE_METRICS, GlueName, Layout

REAL = Path(os.environ.get("COREWOOD_GLUE", Path(__file__).parents[2] / "data" / "glue"))
MNLI_HEAD = "index promptID pairID genre s1_bin s2_bin s1_parse s2_parse sentence1 sentence2 label1 gold_label".split()
STSB_HEAD = "index genre filename year old_index source1 source2 sentence1 sentence2 score".split()

# name -> GLUE's own TSV, the texts and labels in it, and a row of the hub: (columns, class names)
TSV: dict[str, tuple[list[list[str]], list[tuple[str, ...]], list[Any]]] = {
    "cola": (
        [["gj04", "1", "", 'He said "hello to me.'], ["cj99", "0", "*", "As you eat the most, you want the least."]],
        [('He said "hello to me.',), ("As you eat the most, you want the least.",)],
        ["acceptable", "unacceptable"],
    ),
    "sst2": (
        [["sentence", "label"], ["hide new secretions ", "0"], ["that loves its characters ", "1"]],
        [("hide new secretions ",), ("that loves its characters ",)],
        ["negative", "positive"],
    ),
    "mrpc": (
        [["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
         ["1", "7", "8", '" The pie business', "doesn 't fit"], ["0", "9", "10", "He said so .", "She did not ."]],
        [('" The pie business', "doesn 't fit"), ("He said so .", "She did not .")],
        ["equivalent", "not_equivalent"],
    ),
    "stsb": (
        [STSB_HEAD, [*["x"] * 7, "A 0.", "B.", "5.000"], [*["x"] * 7, "A 1.", "B.", "3.8"]],
        [("A 0.", "B."), ("A 1.", "B.")],
        [5.0, 3.8],
    ),
    "qqp": (
        [["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
         ["1", "2", "3", "Why?", "How?", "0"], ["4", "5", "6", "Who?", "Who is it?", "1"]],
        [("Why?", "How?"), ("Who?", "Who is it?")],
        ["not equivalent", "equivalent"],
    ),
    "mnli": (
        [MNLI_HEAD, [*["x"] * 8, "P one .", "H one .", "neutral", "neutral"], [*["x"] * 8, "P", "H", *["entailment"] * 2]],
        [("P one .", "H one ."), ("P", "H")],
        ["neutral", "entailment"],
    ),
    "qnli": (
        [["index", "question", "sentence", "label"], ["0", "Who?", "I.", "entailment"], ["1", "Why?", "No.", "not_entailment"]],
        [("Who?", "I."), ("Why?", "No.")],
        ["entailment", "not_entailment"],
    ),
    "rte": (
        [["index", "sentence1", "sentence2", "label"], ["0", "A.", "B.", "not_entailment"], ["1", "C.", "D.", "entailment"]],
        [("A.", "B."), ("C.", "D.")],
        ["not_entailment", "entailment"],
    ),
    "wnli": (
        [["index", "sentence1", "sentence2", "label"], ["0", "I pushed it.", "It moved.", "1"], ["1", "C.", "D.", "0"]],
        [("I pushed it.", "It moved."), ("C.", "D.")],
        ["entailment", "not_entailment"],
    ),
}  # fmt: skip
# as huggingface.co/datasets/nyu-mll/glue has them
HUB_COLUMNS = {
    "cola": ["sentence"], "sst2": ["sentence"], "mrpc": ["sentence1", "sentence2"], "stsb": ["sentence1", "sentence2"],
    "qqp": ["question1", "question2"], "mnli": ["premise", "hypothesis"], "qnli": ["question", "sentence"],
    "rte": ["sentence1", "sentence2"], "wnli": ["sentence1", "sentence2"],
}  # fmt: skip
HUB_NAMES = {**GLUE_LABELS, "qqp": ("not_duplicate", "duplicate")}


def glue_folder(root: Path, name: str) -> Path:
    """train.tsv and dev.tsv as GLUE hands them out."""
    root.mkdir(exist_ok=True)
    text = "\n".join("\t".join(row) for row in TSV[name][0]) + "\n"
    for file in ("train", "dev_matched" if name == "mnli" else "dev"):
        (root / f"{file}.tsv").write_text(text, "utf-8")
    return root


def rows_of(split: Split) -> list[tuple[str, ...]]:
    return list(split.frame[[c for c in ("first", "second") if c in split.frame]].itertuples(index=False, name=None))


def hub_rows(name: str) -> list[dict[str, Any]]:
    """The same examples as the hub has them: numbers for labels, an idx."""
    _, texts, labels = TSV[name]
    numbers = labels if name == "stsb" else [GLUE_LABELS[name].index(label) for label in labels]
    pairs = zip(texts, numbers, strict=True)
    return [{**dict(zip(HUB_COLUMNS[name], t, strict=True)), "label": v, "idx": i} for i, (t, v) in enumerate(pairs)]


def test_every_set_has_its_layout_name_and_metric() -> None:
    nine = set(get_args(GlueName))
    assert len(nine) == 9
    assert nine == set(GLUE_LABELS) == set(GLUE_METRICS) == set(KNOWN) == set(TSV)
    assert set(get_args(Layout)) == set(LAYOUTS) == nine | {"hans", "paws"}
    assert {name for name, metric in GLUE_METRICS.items() if metric != "accuracy"} == {"cola", "stsb"}


@pytest.mark.parametrize("name", TSV)
def test_glues_own_files(tmp_path: Path, name: str) -> None:
    _, texts, labels = TSV[name]
    folder = glue_folder(tmp_path / "set", name)
    found, notes = read_task(GlueTask.model_validate({"glue": name, "folder": "set"}), tmp_path, 0)
    assert (found.name, found.labels, found.metric) == (name, GLUE_LABELS[name], GLUE_METRICS[name])
    for split in (found.train, found.validation):
        assert split is not None
        assert rows_of(split) == texts
        assert split.frame["label"].tolist() == labels
    assert any("unbalanced quotes" in note for note in notes) == (name in ("cola", "mrpc"))
    dev = "dev_matched.tsv" if name == "mnli" else "dev.tsv"
    by_name = task(name, files={"train": str(folder / "train.tsv"), "validation": str(folder / dev)})
    assert by_name.validation.frame.equals(found.validation.frame)
    assert (by_name.labels, by_name.metric) == (found.labels, found.metric)


@pytest.mark.parametrize("name", TSV)
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "arrow"])
def test_the_hubs_columns(tmp_path: Path, name: str, kind: str) -> None:
    """As the hub has them, with class names (arrow) and without (a file somebody exported)."""
    rows, path = hub_rows(name), tmp_path / f"set.{kind}"
    if kind == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    elif kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        feature = datasets.Value("float32") if name == "stsb" else datasets.ClassLabel(names=list(HUB_NAMES[name]))
        datasets.Dataset.from_list(rows).cast_column("label", feature).save_to_disk(str(path))
    found = task(name, files={"validation": str(path)})
    assert rows_of(found.validation) == TSV[name][1]
    assert found.validation.frame["label"].tolist() == TSV[name][2]


def test_the_short_form_in_full() -> None:
    local = GlueTask.model_validate({"glue": "mnli", "folder": "data/MNLI", "train_limit": 100, "validation_limit": 50}).files()
    (train,) = local.train
    assert (train.path, train.layout, train.limit) == (str(Path("data/MNLI/train.tsv")), "mnli", 100)
    assert (local.validation[""].path, local.validation[""].limit) == (str(Path("data/MNLI/dev_matched.tsv")), 50)
    hub = GlueTask.model_validate({"glue": "mnli", "revision": "abc"}).files()
    inside = hub.validation[""]
    assert (inside.hub, inside.config, inside.split) == ("nyu-mll/glue", "mnli", "validation_matched")
    assert hub.train[0].split == "train"
    assert hub.train[0].revision == inside.revision == "abc"
    assert GlueTask.model_validate({"glue": "cola"}).files().validation[""].split == "validation"
    with pytest.raises(ValueError, match="revision: belongs to the hub set"):
        GlueTask.model_validate({"glue": "cola", "folder": "x", "revision": "y"})
    with pytest.raises(ValueError, match="a challenge set cannot be called 'train'"):
        GlueTask.model_validate({"glue": "cola", "challenge": {"train": {"path": "x", "layout": "cola"}}})


def test_challenge_sets_stand_beside_a_set_of_glue(tmp_path: Path) -> None:
    glue_folder(tmp_path, "rte")
    other = {"path": "train.tsv", "layout": "rte", "limit": 1}
    found, _ = read_task(
        GlueTask.model_validate({"glue": "rte", "folder": ".", "train_limit": 1, "challenge": {"other": other}}), tmp_path, 0
    )
    assert found.train is not None
    assert (len(found.train), len(found.validation), len(found.challenge["other"])) == (1, 2, 1)
    assert found.challenge["other"].labels == ("entailment", "not_entailment")


def test_cola_with_and_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("gj04\t1\t\tFirst line counts.\ncj99\t0\t*\tSecond.\n")
    split, _ = read_split("validation", SourceSpec(path=str(path), layout="cola"))
    assert split.frame["first"].tolist() == ["First line counts.", "Second."]
    path.write_text("sentence\tlabel\tidx\nOne.\t0\t0\nTwo.\t1\t1\n")
    split, _ = read_split("validation", SourceSpec(path=str(path), layout="cola"))
    assert split.frame["label"].tolist() == ["unacceptable", "acceptable"]
    path.write_text("words\tlabel\nOne.\t0\n")
    split, _ = read_split("validation", SourceSpec(path=str(path), layout="cola", text=("words",)))
    assert split.frame["first"].tolist() == ["One."]
    with pytest.raises(
        InputError, match=r"line 1 has 2 fields, a file of layout cola without a header 4 \(source, label, star"
    ):
        read_split("validation", SourceSpec(path=str(path), layout="cola"))
    path.write_text("index\tsentence\n0\tGLUE's test set hides its labels.\n")
    with pytest.raises(InputError, match="no column 'label'"):
        read_split("validation", SourceSpec(path=str(path), layout="cola"))
    path.write_text("gj04\t1\t\tGood.\ngj04\t1\n")
    with pytest.raises(InputError, match="line 2 has 2 fields"):
        read_split("validation", SourceSpec(path=str(path), layout="cola"))


def test_numbers_the_layout_does_not_name_and_labels_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\t0\n1\tc\td\t1\n")
    swapped = {"0": "not_entailment", "1": "entailment"}
    split, _ = read_split("validation", SourceSpec(path=str(path), layout="rte", labels=swapped))
    assert split.frame["label"].tolist() == ["not_entailment", "entailment"]  # what the study says goes before the layout
    path.write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\t0\n1\tc\td\t2\n")
    with pytest.raises(InputError, match=r"label 2 has no name in the set \(names: entailment, not_entailment\)"):
        read_split("validation", SourceSpec(path=str(path), layout="rte"))
    path.write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tc\td\tmaybe\n")
    with pytest.raises(InputError, match=r"task.validation: 1 example has the label 'maybe'; the labels are entailment"):
        task("rte", files={"validation": str(path)})
    hidden = tmp_path / "test.csv"
    hidden.write_text("sentence1,sentence2,label\na,b,-1\nc,d,1\n")
    split, notes = read_split("validation", SourceSpec(path=str(hidden), layout="rte"))
    assert split.frame["label"].tolist() == ["not_entailment"]
    assert "1 rows have no agreed label" in notes[0]


SCORES = "sentence1\tsentence2\tscore\nA.\tB.\t5.000\nC.\tD.\t0.25\nE.\tF.\t2\nG.\tH.\t3.8\n"


def scored(path: Path, text: str = SCORES, **more: Any) -> Split:
    path.write_text(text)
    return task("stsb", files={"validation": {"path": str(path), **more}}).validation


def test_scores_are_numbers(tmp_path: Path) -> None:
    split = scored(tmp_path / "dev.tsv")
    assert split.regression
    assert split.labels == ()
    assert split.gold.dtype == np.float64
    assert split.gold.tolist() == [5.0, 0.25, 2.0, 3.8]
    assert "scores from 0.25 to 5, 2.76 on average" in split._repr_html_()
    assert len(scored(tmp_path / "dev.tsv", limit=2)) == 2
    stored = tmp_path / "kept.parquet"
    split.frame.to_parquet(stored)
    assert Split("again", pd.read_parquet(stored), ()).gold.tolist() == split.gold.tolist()
    assert not Split("s", pd.DataFrame({"first": ["x"], "label": ["a"]}), ("a", "b")).regression


@pytest.mark.parametrize("value", ["", "high", "nan", "inf", "3,8", "-"])
def test_a_score_that_is_no_number_is_named(tmp_path: Path, value: str) -> None:
    with pytest.raises(InputError, match=rf"dev\.tsv: row 3 has '{value}' in column 'score', which is no finite number"):
        scored(tmp_path / "dev.tsv", SCORES.replace("\t2\n", f"\t{value}\n"))


def test_numbers_of_ones_own_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,how\na,1\nb,2.5\nc,3\n")
    (tmp_path / "hard.csv").write_text("text,how,kind\na,1,x\nb,2,x\n")
    one = {"path": "train.csv", "text": "text", "label": "how"}
    given = {"metric": "pearson", "train": [one, {**one, "limit": 2}], "validation": one}
    hard = {"hard": {**one, "path": "hard.csv", "case": "kind"}}
    found, _ = read_task(FilesTask.model_validate({**given, "challenge": hard}), tmp_path, 0)
    assert found.train is not None
    assert found.train.gold.dtype == np.float64
    assert (len(found.train), found.metric, found.labels) == (5, "pearson", ())
    assert found.challenge["hard"].gold.tolist() == [1.0, 2.0]
    assert found.challenge["hard"].frame["case"].tolist() == ["x", "x"]
    with pytest.raises(ValueError, match="labels: with metric pearson labels are numbers"):
        FilesTask.model_validate({**given, "labels": ["a", "b"]})
    with pytest.raises(ValueError, match=r"challenge\.hard: with metric pearson labels are numbers, which have no names"):
        FilesTask.model_validate({**given, "challenge": {"hard": {**hard["hard"], "fold": {"a": "b"}}}})
    with pytest.raises(ValueError, match="validation: with metric pearson labels are numbers"):
        FilesTask.model_validate({**given, "validation": {**one, "labels": {"1": "one"}}})


def test_the_one_output_of_a_score(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    split = scored(path)
    assert classes_of(task("stsb", files={"validation": str(path)})) == ("score",)
    assert classes_of(task("overlap", train=32, validation=16, per_case=2)) == ("entailment", "non-entailment")
    assert fold_classes(("score",), split).tolist() == [0]
    assert fold_classes(("LABEL_0",), split).tolist() == [0]  # one output has no order to get wrong
    assert describe(("score",), split) == "0 score, a number"
    with pytest.raises(InputError, match=r"numbers, for which a model needs one output; this one has 2 \(yes, no\)"):
        fold_classes(("yes", "no"), split)
    with pytest.raises(InputError, match="judge them with metric pearson"):
        accuracy(np.zeros((4, 1)), split, ("score",))


@pytest.mark.skipif(not REAL.is_dir(), reason="GLUE's files are neither in data/glue nor where COREWOOD_GLUE says")
@pytest.mark.parametrize(
    ("name", "folder", "rows", "first_share"),
    [("cola", "CoLA", 1043, 721 / 1043), ("rte", "RTE", 277, 146 / 277), ("mrpc", "MRPC", 408, 279 / 408)],
)
def test_the_real_files(name: str, folder: str, rows: int, first_share: float) -> None:
    """Sizes and shares of the larger class as published."""
    found, _ = read_task(GlueTask.model_validate({"glue": name, "folder": str(REAL / folder)}), Path(), 0)
    assert len(found.validation) == rows
    assert found.validation.frame["label"].value_counts(normalize=True).iloc[0] == pytest.approx(first_share)
    assert ("second" in found.validation.frame) == (name != "cola")
