"""Every format, and every way a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pandas as pd
import pytest

from corewood.data.labels import nearest_label
from corewood.data.named import read_task, task
from corewood.data.read import check_labels, read_split
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.spec import FilesTask, SourceSpec

ROWS = pd.DataFrame(
    {
        "premise": ["A “quoted” word", "tab-free, comma", 'he said "no"', "d"],
        "hypothesis": ["w", "x", "y", "ž"],
        "gold": ["entailment", "neutral", "entailment", "neutral"],
        "kind": ["one", "one", "two", "two"],
    }
)


def source(path: Path, **more: object) -> SourceSpec:
    return SourceSpec.model_validate({"path": str(path), "text": ["premise", "hypothesis"], "label": "gold", **more})


def write(folder: Path, kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "csv":
        ROWS.to_csv(path, index=False)
    elif kind == "tsv":
        path.write_text("\n".join("\t".join(row) for row in [list(ROWS.columns), *ROWS.to_numpy().tolist()]) + "\n", "utf-8")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_dict("records")), "utf-8")
    elif kind == "parquet":
        ROWS.to_parquet(path)
    else:
        datasets.Dataset.from_pandas(ROWS).save_to_disk(str(path))
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_every_format_gives_the_same_examples(tmp_path: Path, kind: str) -> None:
    split, notes = read_split("dev", source(write(tmp_path, kind), case="kind"))
    assert split.frame["first"].tolist() == ROWS["premise"].tolist()
    assert split.frame["second"].tolist() == ROWS["hypothesis"].tolist()
    assert split.frame["label"].tolist() == ROWS["gold"].tolist()
    assert split.frame["case"].tolist() == ROWS["kind"].tolist()
    assert split.labels == ("entailment", "neutral")
    assert notes == []


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    for kind in ("csv", "tsv", "jsonl"):
        path = write(tmp_path, kind)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert read_split("dev", source(path))[0].frame["first"].tolist() == ROWS["premise"].tolist()


def test_unbalanced_quotes_in_tsv_are_plain_text_and_said(tmp_path: Path) -> None:
    path = tmp_path / "loose.tsv"
    path.write_text('premise\thypothesis\tgold\n" The pie\tb\tneutral\nc\td "\tneutral\ne\tf\tentailment\n')
    split, notes = read_split("dev", source(path))
    assert split.frame["first"].tolist() == ['" The pie', "c", "e"]
    assert len(notes) == 1
    assert "2 lines hold unbalanced quotes (first: line 2)" in notes[0]


def test_a_tsv_that_looks_quoted_and_a_very_long_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('premise\thypothesis\tgold\n"He said ""no"""\tb\tyes\n', encoding="utf-8")
    split, notes = read_split("dev", source(path))
    assert split.frame["first"].tolist() == ['"He said ""no"""']
    assert "1 lines look quoted as in CSV (first: line 2)" in notes[0]
    long = tmp_path / "a.csv"
    long.write_text(f"premise,hypothesis,gold\n{'a' * 200_000},b,yes\n", encoding="utf-8")
    assert read_split("dev", source(long))[0].frame["first"].str.len().tolist() == [200_000]


def test_a_tsv_in_which_a_column_is_quoted_throughout_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('premise\thypothesis\tgold\na\tb\t"1"\nc\t"d"\t"0"\n')
    _, notes = read_split("dev", source(path))
    assert "2 lines look quoted as in CSV (first: line 2)" in notes[0]
    path.write_text('premise\thypothesis\tgold\na\tb\t1\n"c"\td\t0\n')
    assert read_split("dev", source(path))[1] == []


def test_lines_may_end_as_on_an_old_mac(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "rows.tsv").write_bytes(end.join(["premise\thypothesis\tgold", "a\tb\tc", "d\te\tf", ""]).encode())
        split, _ = read_split("dev", source(tmp_path / "rows.tsv"))
        assert split.frame[["first", "second", "label"]].to_numpy().tolist() == [["a", "b", "c"], ["d", "e", "f"]]


def test_what_looks_odd_in_one_text_stays_in_it(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_bytes(b"premise\thypothesis\tgold\na\rb\tc\td\n")
    assert read_split("dev", source(tmp_path / "rows.tsv"))[0].frame["first"].tolist() == ["a\rb"]
    (tmp_path / "rows.csv").write_text('premise,hypothesis,gold\n" ""a"" b",c,d\n "e",f,g\nh,i,j\n')
    assert read_split("dev", source(tmp_path / "rows.csv"))[0].frame["first"].tolist() == [' "a" b', ' "e"', "h"]


def test_whole_numbers_beside_a_missing_one_stay_whole(tmp_path: Path) -> None:
    rows = [{"premise": f"a{k}", "hypothesis": "b", "gold": "c", "round": k or None} for k in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    split, _ = read_split("dev", source(tmp_path / "rows.jsonl", only={"round": [1, 3]}))
    assert split.frame["first"].tolist() == ["a1", "a3"]


def test_class_names_of_a_dataset_are_used(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "gold": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    made = datasets.Dataset.from_dict({"premise": ["a", "b"], "hypothesis": ["c", "d"], "gold": [1, 0]}, features=features)
    datasets.DatasetDict({"dev": made}).save_to_disk(str(tmp_path / "set"))
    with pytest.raises(InputError, match="has the splits dev; choose one with split"):
        read_split("dev", source(tmp_path / "set"))
    split, _ = read_split("dev", source(tmp_path / "set", split="dev"))
    assert split.frame["label"].tolist() == ["yes", "no"]


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("a.csv", b"premise,hypothesis\na,b\n", {}, r"no column 'gold' \(task.dev.label\).*The columns are: premise"),
        ("a.csv", b"premise,hypothesi,gold\na,b,c\n", {}, r"no column 'hypothesis'.*Did you mean 'hypothesi'"),
        ("a.csv", b"premise,hypothesis,gold\n", {}, "no rows, so dev would be empty"),
        ("a.csv", b'premise,hypothesis,gold\n"a,b,c\n', {}, "unbalanced quotes near line 2"),
        ("a.csv", b"premise,hypothesis,gold\na,b,c,d\n", {}, "line 2 has 4 fields, the header 3"),
        ("a.tsv", b"premise\thypothesis\tgold\na\tb\n", {}, "line 2 has 2 fields, the header 3"),
        ("a.csv", b"premise,hypothesis,gold\ncaf\xe9,b,c\n", {}, r"line 2 is not UTF-8 \(byte 0xe9\).*iconv"),
        ("a.tsv", "premise\thypothesis\tgold\na\tb\tc\n".encode("utf-16"), {}, "is UTF-16.*iconv -f UTF-16"),
        ("a.csv", b'premise,hypothesis,gold\n"a, b", "c",d\n', {}, "every 'hypothesis' has a space before its quote"),
        ("a.jsonl", b'{"premise": "a"}\n{"premise"\n', {}, "line 2 is not JSON"),
        ("a.jsonl", b"[1]\n", {}, "line 1 is not an object"),
        ("a.parquet", b"nonsense", {}, "not a readable Parquet file"),
        ("a.csv", b"premise;hypothesis;gold\na;b, c;d\n", {}, "semicolons separate its columns .*; save it with commas"),
        ("a.csv", b"premise\thypothesis\tgold\na\tb\tc\n", {}, "tabs separate its columns .*; name it .tsv"),
        ("a.csv.gz", b"", {}, "is packed, .*; unpack it, and give a.csv"),
        ("a.xyz", b"", {}, "unknown kind of file; set format"),
        ("a.csv", b"premise,hypothesis,gold\na,b,c\nd,e,f\n", {"labels": {"c": "yes"}}, "row 2 has the label 'f', which task"),
        ("a.csv", b"premise,hypothesis,gold,k\na,b,c,x\nd,e,c,x\nf,g,c,y\n", {"case": "k"}, "case 'y' .*has one example"),
        ("a.csv", b"premise,hypothesis,gold,k\na,b,c,all\nd,e,c,all\n", {"case": "k"}, "a case cannot be called 'all'"),
        ("a.csv", b"", {}, "no rows, so dev would be empty"),
        ("a.csv", b"premise,hypothesis,gold\na,,c\n", {}, "row 1 has no 'hypothesis'"),
        ("a.csv", b"premise,hypothesis,gold\na,b,\n", {}, "row 1 has no label in column 'gold'"),
        ("a.csv", b"premise,hypothesis,gold,gold\na,b,c,d\n", {}, "the column 'gold' stands twice"),
        ("a.jsonl", b'{"premise": "a", "hypothesis": null, "gold": "c"}\n', {}, "row 1 has no 'hypothesis'"),
        ("a.csv", b"premise,hypothesis,gold,k\na,b,c,x\nd,e,c,\n", {"case": "k"}, "row 2 has no case in the column 'k'"),
        ("a.jsonl", b'{"premise": "a", "hypothesis": "b", "gold": "c", "k": null}\n', {"case": "k"}, "row 1 has no case"),
        ("a.jsonl", b'{"premise": "a", "hypothesis": "b", "gold": "c", "k": null}\n', {"only": {"k": "x"}}, "no row has 'x'"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, name: str, content: bytes, more: dict[str, object], message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_split("dev", source(tmp_path / name, **more))
    assert name in str(caught.value)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    with pytest.raises(InputError, match=r"rowz.csv: there is no such file. Did you mean 'rows.csv'"):
        read_split("dev", source(tmp_path / "rowz.csv"))


def test_a_hub_set_that_cannot_be_had_says_what_to_do() -> None:
    spec = SourceSpec(hub="nobody/nothing-of-the-kind", text=("premise",))
    with pytest.raises(InputError, match=r"hub set nobody/nothing-of-the-kind: cannot be loaded .* give a path"):
        read_split("dev", spec)


def test_a_limit_is_drawn_evenly_over_cases_and_by_seed(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"premise": [str(i) for i in range(100)], "hypothesis": "h", "gold": "x", "kind": ["a"] * 80 + ["b"] * 20}
    )
    frame.to_csv(tmp_path / "many.csv", index=False)
    spec = source(tmp_path / "many.csv", case="kind", limit=30)
    one, again, other = (read_split("dev", spec, seed=s)[0].frame for s in (0, 0, 1))
    assert one["case"].value_counts().to_dict() == {"a": 15, "b": 15}
    assert one.equals(again)
    assert not one.equals(other)


def test_a_folder_given_as_a_file_and_too_small_a_limit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read .* check the path"):
        read_split("dev", source(tmp_path, format="csv"))
    with pytest.raises(InputError, match=r"task\.dev\.limit: 3 leaves case '\w+' one example"):
        read_split("dev", source(write(tmp_path, "csv"), case="kind", limit=3))


def test_labels_of_challenge_sets_are_checked_after_folding(tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    hans = tmp_path / "hans.csv"
    hans.write_text("premise,hypothesis,gold\na,b,entailment\nc,d,non-entailment\n")
    spec = FilesTask(validation=source(path), challenge={"hans": source(hans, fold={"neutral": "non-entailment"})})
    read, _ = read_task(spec, Path(), 0)
    assert read.challenge["hans"].labels == ("entailment", "non-entailment")
    with pytest.raises(InputError, match=r"task.challenge.hans: 1 example has the label 'non-entailment'; the labels are"):
        read_task(FilesTask(validation=source(path), challenge={"hans": source(hans)}), Path(), 0)


def test_challenge_sets_have_as_many_texts_as_the_validation_set(tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    single = SourceSpec(path=str(path), text=("premise",), label="gold")
    with pytest.raises(InputError, match=r"task.challenge.hard.text: the validation set has pairs of texts"):
        read_task(FilesTask(validation=source(path), challenge={"hard": single}), Path(), 0)


def test_tasks_by_name(tmp_path: Path) -> None:
    assert len(task("overlap", train=64, validation=16, per_case=2).validation) == 16
    with pytest.raises(InputError, match=r"needs data: .* Did you mean 'overlap'"):
        task("overlop")
    with pytest.raises(InputError, match="validation is missing"):
        task("mnli", files={"train": "x"})
    path = tmp_path / "dev.jsonl"
    path.write_text('{"premise": "a", "hypothesis": "b", "label": "neutral"}\n')
    with pytest.raises(InputError, match=r"unknown argument 'lables'\. Did you mean 'labels'"):
        task("mnli", files={"validation": path}, lables=("a", "b"))
    assert task("mnli", files={"validation": path}).labels == ("entailment", "neutral", "contradiction")
    assert "neutral" in task("mnli", files={"validation": str(path)})._repr_html_()


@pytest.mark.parametrize(
    ("given", "labels", "meant"),
    [
        ("nonentail", ("entailment", "neutral", "contradiction"), None),  # the first or the nearest would turn the data around
        ("nonentail", ("entailment", "non-entailment"), "non-entailment"),
        ("Entailmnt", ("entailment", "non-entailment"), "entailment"),
        ("not_duplicate", ("duplicate", "other"), None),
        ("unacceptable", ("acceptable", "nonsense"), None),
        ("positive", ("negative", "neutral"), None),
    ],
)
def test_an_unknown_label_is_only_taken_for_what_it_surely_is(given: str, labels: tuple[str, ...], meant: str | None) -> None:
    assert nearest_label(given, labels) == meant
    split = Split("hard", pd.DataFrame({"first": ["a"], "label": [given]}), (given,))
    with pytest.raises(InputError) as caught:
        check_labels(split, labels, "task.challenge.hard")
    assert f"task.challenge.hard.labels: {{{given}: {meant or '...'}}}" in str(caught.value)
    assert f"task.challenge.hard.fold: {{...: {given}}}" in str(caught.value)
