"""The command line, as a user meets it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import small

from corewood.cli import main
from corewood.errors import InputError
from corewood.study.deliver import deliver


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that has been run once, by the command."""
    path = small.write_study(tmp_path_factory.mktemp("cli"), figures=None)
    done = small.command("run", path.name, "--workers", "1", cwd=path.parent)
    assert done.returncode == 0, done.stderr
    (path.parent / "first-run.txt").write_text(done.stdout + done.stderr)
    return path


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str]:
    """The command in this process: quick, and with its real error handling."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["corewood", *words])
    code = 0
    try:
        main()
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_run_says_what_it_does_and_where_the_report_is(study: Path) -> None:
    said = (study.parent / "first-run.txt").read_text()
    assert "validation (60 examples): 0 entailment, 1 non-entailment" in said
    assert re.search(r"\[\s*\d+/27\] +search 40 % seed 0: done in", said)
    assert "27 jobs in" in said
    assert "Report: small-report/report.html" in said
    report = study.parent / "small-report"
    assert {p.suffix for p in (report / "figures").iterdir()} == {".svg", ".pdf", ".png"}
    assert {p.suffix for p in (report / "tables").iterdir()} == {".parquet", ".csv"}


def test_a_second_run_takes_note_of_the_first(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = call(monkeypatch, capsys, study.parent, "run", "study.yaml", "--workers", "1")
    assert code == 0
    assert "Nothing to compute: every job was done" in said


def test_plan_counts_and_estimates_without_writing(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--store", "elsewhere")
    assert code == 0
    assert "27 of 27 jobs to do: about" in said
    assert "milliseconds per example: fine-tune" in " ".join(said.split())
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--store", "elsewhere", "--no-measure")
    assert said.rstrip().endswith("27 of 27 jobs to do.")
    assert not (study.parent / "elsewhere").exists()
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml")
    assert "Everything is done" in said
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--set", "prune.l0.seeds=3", "--jobs")
    assert "8 of 35 jobs to do: about" in said
    assert "missing  search 70 % seed 2" in said


def test_report_writes_where_asked_and_touches_nothing_else(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call(monkeypatch, capsys, study.parent, "report", "study.yaml", "--out", str(out))[0] == 0
    assert (out / "report.html").exists()
    assert call(monkeypatch, capsys, study.parent, "report", "study.yaml", "--out", str(out))[0] == 0  # its own, again
    (out / "tables" / "scores.csv").write_text("mine now")
    code, said = call(monkeypatch, capsys, study.parent, "report", "study.yaml", "--out", str(out))
    assert code == 2
    assert "scores.csv: was changed since Corewood wrote it" in said
    assert (out / "tables" / "scores.csv").read_text() == "mine now"
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("x")
    for command in ("report", "run"):
        code, said = call(monkeypatch, capsys, study.parent, command, "study.yaml", "--out", str(other))
        assert code == 2
        assert "is not a report of Corewood's" in said
    assert "Reading the data" not in said  # a run says so before it does anything


def test_a_delivery_that_was_stopped_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, out = (tmp_path / name for name in ("old", "new", "out"))
    for folder in (old, new):
        folder.mkdir()
        for name in ("a.html", "b.html", "c.html"):
            (folder / name).write_text(f"{folder.name} {name}")
    deliver(old, out)
    copies = iter(range(9))

    def killed(source: Path, target: Path) -> None:
        if next(copies) == 1:
            raise KeyboardInterrupt
        target.write_bytes(source.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", killed)
        with pytest.raises(KeyboardInterrupt):
            deliver(new, out)
    assert {p.read_text() for p in out.glob("*.html")} == {"new a.html", "old b.html", "old c.html"}
    deliver(new, out)
    assert {p.read_text() for p in out.glob("*.html")} == {f"new {name}.html" for name in "abc"}
    (out / "b.html").write_text("old b.html")  # not ours any more: somebody put it back
    with pytest.raises(InputError, match="was changed since"):
        deliver(new, out)


def test_failed_jobs_give_exit_code_1_and_show_in_plan(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["study.yaml", "--store", str(tmp_path / "store"), "--set", "fine_tune.learning_rate=1e38"]
    code, said = call(monkeypatch, capsys, study.parent, "run", *words, "--workers", "1", "--out", str(tmp_path / "out"))
    assert code == 1
    assert "24 jobs have no result" in said
    assert "fine-tune 30 steps: fine-tuning: the loss is not a number" in said
    _, said = call(monkeypatch, capsys, study.parent, "plan", *words)
    assert "fine-tune 30 steps: failed, fine-tuning: the loss is not a number" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("prune.l0.sparsity=0.99", "prune.l0.sparsity: 0.99 of 10 units leaves none"),
        ("prune.l0.sparsity=1.5", "must lie between 0 and 1"),
        ("prune.l0.seedz=3", "prune.l0.seedz: unknown key. Did you mean 'seeds'?"),
        ("task.train.path=trian.csv", "trian.csv: there is no such file. Did you mean 'train.csv'?"),
        ("task.train.label=lable", "no column 'lable' (task.train.label)"),
        (
            "task.validation.labels={entailment: nonsense}",
            "has the label 'non-entailment', which task.validation.labels does not name",
        ),
        ("task.labels=[entailment, contradiction]", "task.train: 160 examples have the label"),
        ("model=./no-such-folder", "there is no such folder"),
        ("task.challenge.cases.case=first", "has one example, which says nothing"),
        ("model.pad_token=<none>", "pad_token '<none>' is not in its vocabulary"),
    ],
)
def test_bad_input_is_one_clear_error(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: str, message: str
) -> None:
    for command in ("plan", "run"):
        code, said = call(monkeypatch, capsys, study.parent, command, "study.yaml", "--set", change)
        assert code == 2
        assert message in said
        assert "Traceback" not in said


def test_a_missing_study_and_an_empty_store(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = call(monkeypatch, capsys, study.parent, "run", "studi.yaml")
    assert code == 2
    assert "Did you mean 'study.yaml'?" in said
    code, said = call(monkeypatch, capsys, study.parent, "report", "study.yaml", "--store", "nothing-here")
    assert code == 2
    assert "holds nothing of this study yet" in said


def test_long_texts_are_counted_and_said(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--store",
        str(tmp_path / "store"),
        "--out",
        str(tmp_path / "out"),
        "--workers",
        "1",
        "--set",
        "model.max_length=12",
    ]
    code, said = call(monkeypatch, capsys, study.parent, "run", "study.yaml", *words)
    assert code == 0
    assert re.search(r"cases: \d+ of 72 texts were cut to 12 tokens", said)
    assert "texts were cut to 12 tokens" in (tmp_path / "out" / "report.html").read_text()


def test_generic_class_names_are_refused_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tiny

    tiny.checkpoint(tmp_path / "model", labels=("LABEL_0", "LABEL_1"))
    path = small.write_study(tmp_path, fine_tune=None)
    code, said = call(monkeypatch, capsys, path.parent, "plan", "study.yaml")
    assert code == 2
    assert "set model.labels to the names in the order of the logits" in said
    code, said = call(
        monkeypatch, capsys, path.parent, "plan", "study.yaml", "--set", "model.labels=[non-entailment, entailment]"
    )
    assert code == 0
    assert "0 non-entailment, 1 entailment" in said


def test_doctor_looks_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = call(monkeypatch, capsys, tmp_path, "doctor")
    assert code == 0
    for word in ("torch", "cores", "bfloat16", "minilm", "store"):
        assert word in said


@pytest.mark.parametrize("command", ["demo", "run", "plan", "report", "compare", "doctor"])
def test_every_command_explains_itself(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = call(monkeypatch, capsys, tmp_path, command, "--help")
    assert code == 0
    assert "Usage: corewood " + command in said
