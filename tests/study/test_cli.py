"""The command line, as a user meets it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small

from corewood.cli import main
from corewood.cli.commands import app
from corewood.cli.voice import quiet_hub
from corewood.errors import InputError
from corewood.report.page import finding
from corewood.store.store import Store
from corewood.study.deliver import deliver


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that has been run once, by the command."""
    path = small.write_study(tmp_path_factory.mktemp("cli"), figures=None)
    done = small.command("run", path.name, "--workers", "1", cwd=path.parent)
    assert done.returncode == 0, done.stderr
    (path.parent / "first-run.txt").write_text(done.stderr + done.stdout)
    (path.parent / "first-out.txt").write_text(done.stdout)
    return path


def collected(report: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: pd.read_parquet(path) for path in (report / "tables").glob("*.parquet")}


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
    assert re.search(r"\[\s*\d+/28\] +search 40 % seed 0: done in", said)
    assert "28 jobs in" in said
    report = study.parent / "small-report"
    assert said.splitlines()[0] == "Reading study.yaml"
    assert "28 jobs to do" in said
    out = (study.parent / "first-out.txt").read_text()
    headline = finding(collected(report), "model").headline
    assert headline in " ".join(out.split())  # the finding is the last that is said, and where the report is
    assert out.splitlines()[-1] == f"Report: {(report / 'report.html').resolve().as_uri()}"
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
    assert "28 of 28 jobs to do: about" in said
    assert "of it for tables and report" in " ".join(said.split())
    assert "milliseconds per example: fine-tune" in " ".join(said.split())
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--store", "elsewhere", "--no-measure")
    assert "28 of 28 jobs to do.\n" in said
    assert not (study.parent / "elsewhere").exists()
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml")
    assert "Everything is done" in said
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--set", "prune.l0.seeds=3", "--list")
    assert "8 of 36 jobs to do: about" in said
    assert "missing  search 70 % seed 2" in said


def test_a_part_of_a_study_is_run_and_the_rest_later(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("study.yaml", "--store", str(tmp_path / "store"))
    run = ("run", *own, "--workers", "1", "--out", str(tmp_path / "out"))
    code, said = call(monkeypatch, capsys, study.parent, *run, "--only", "Encode Train", "--only", "fine-tune")
    assert code == 0
    assert "jobs done already" not in said
    assert "26 jobs have no result yet, and are holes in the report" in said
    assert {path.name for path in (tmp_path / "store/entries").iterdir()} == {"data", "encode", "fine_tune", "tables", "report"}
    code, said = call(monkeypatch, capsys, study.parent, "plan", *own, "--only", "l0-70-s1", "--list", "--no-measure")
    titles = re.findall(r"^(done|missing) +(.*)$", said, re.MULTILINE)
    want = ["search 70 % seed 1", "l0-70-s1 on validation", "l0-70-s1 on cases", "random masks like l0-70-s1"]
    want = ["full model on 100 texts, step 30", "encode validation", "encode cases", *want]  # and what they need
    assert (code, {title for state, title in titles if state == "missing"}) == (0, set(want))
    assert {title for state, title in titles if state == "done"} == {"encode train", "fine-tune 30 steps"}
    code, said = call(monkeypatch, capsys, study.parent, *run, "--only", "l0-70-s1", "--json")
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    planned = next(event for event in events if event["event"] == "planned")
    assert (planned["jobs"], planned["done"], planned["missing"]) == (9, 2, 7)
    assert (code, events[-1]["computed"], events[-1]["complete"], len(events[-1]["holes"])) == (0, 7, False, 19)
    assert list(pd.read_parquet(tmp_path / "out/tables/sizes.parquet")["subnetwork"]) == ["l0-70-s1"]
    code, said = call(monkeypatch, capsys, study.parent, *run, "--only", "l0-90")
    assert (code, "no job of small is called so; corewood plan STUDY.yaml --list names them all" in said) == (2, True)


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
    (tmp_path / "file").write_text("x")
    for command in ("report", "run"):
        code, said = call(monkeypatch, capsys, study.parent, command, "study.yaml", "--out", str(tmp_path / "file" / "in"))
        assert code == 2
        assert "the report cannot be written there" in said
        code, said = call(monkeypatch, capsys, study.parent, command, "study.yaml", "--out", str(other))
        assert code == 2
        assert "is not a report of Corewood's" in said
        assert "Reading the data" not in said  # they look before they do anything


def test_a_delivery_that_was_stopped_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    old, new = (store.folder("report", key) for key in ("old", "new"))
    for report in (old, new):
        with store.writing("report", report.name, {}) as folder:
            for name in ("a.html", "b.html", "c.html"):
                (folder / name).write_text(f"{report.name} {name}")
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
    assert "25 jobs have no result" in said
    assert "and 24 that need one of these" in said
    assert "24 jobs that need it are not possible" in said
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


COMMANDS = ["demo", "audit", "run", "new", "plan", "report", "export", "explore", "compare", "agree", "schema", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = call(monkeypatch, capsys, tmp_path, command, "--help")
    assert code == 0
    assert "Usage: corewood " + command in said
    assert "corewood " + command in said.partition("For instance:")[2]


def test_help_names_every_command_and_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, said = call(monkeypatch, capsys, tmp_path, "--help")
    assert {*COMMANDS} == {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    assert all(re.search(rf"\b{command}\b", said) for command in COMMANDS)
    assert (
        "0 all done, 1 some jobs failed, 2 something to correct, 70 something unforeseen, 130 stopped with Ctrl-C"
        in " ".join(said.split())
    )
    assert "--install-completion" in said


def test_shells_complete_commands(tmp_path: Path) -> None:
    words = {"_COREWOOD_COMPLETE": "complete_bash", "COMP_WORDS": "corewood au", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "corewood"], env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["audit"]


def test_the_first_line_comes_before_anything_heavy(study: Path) -> None:
    """What is loaded when it is said."""
    code = "import sys\nsys.argv = ['corewood', 'run', 'studi.yaml']\nimport typer\n"
    code += "say = typer.echo\n"
    code += "def echo(text, **how):\n    print(text, *({'torch', 'pandas', 'pydantic', 'rich'} & set(sys.modules)), sep='|')\n"
    code += "typer.echo = echo\nfrom corewood.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=study.parent, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0].partition("|")[0] == "Reading studi.yaml"
    assert "torch" not in done.stdout.splitlines()[0]
    assert "pandas" not in done.stdout.splitlines()[0]


def test_programs_get_one_object_a_line(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages: list[str] = []
    monkeypatch.setattr(webbrowser, "open", pages.append)
    monkeypatch.chdir(study.parent)

    def events(*words: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["corewood", *words])
        with contextlib.suppress(SystemExit):
            main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    found = events("run", "study.yaml", "--workers", "1", "--json", "--open")
    assert [event["event"] for event in found] == ["begin", "note", "planned", "result"]
    assert (found[2]["jobs"], found[2]["done"], found[3]["computed"], found[3]["complete"]) == (28, 28, 0, True)
    assert found[3]["link"] == (study.parent / "small-report/report.html").resolve().as_uri()
    assert pages == [found[3]["link"]]
    (result,) = events("run", "study.yaml", "--workers", "1", "--json", "--quiet")
    assert result["event"] == "result"
    plan = events("plan", "study.yaml", "--json", "--set", "prune.l0.seeds=3")[-1]
    assert (plan["counts"], len(plan["jobs"])) == ({"done": 28, "missing": 8}, 36)
    assert plan["seconds"] >= plan["report_seconds"] > 0  # in tenths: the jobs of so small a model may take less
    wrong = events("plan", "study.yaml", "--json", "--set", "prune.l0.seeds=x")[-1]
    assert wrong["event"] == "error"
    assert "prune.l0.seeds: must be how many" in wrong["message"]


def test_few_words_and_many(study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = call(monkeypatch, capsys, study.parent, "run", "study.yaml", "--workers", "1", "-q")
    assert (code, said) == (0, (study.parent / "small-report/report.html").resolve().as_uri() + "\n")
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--quiet")
    assert said == "all 28 jobs are done\n"
    _, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--verbose")
    assert said.count(str(study.parent.resolve() / "corewood-store" / "entries")) == 28
    code, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "-q", "-v")
    assert code == 2
    assert "--quiet, --verbose: choose one of the two" in said


def test_a_resumed_run_says_what_is_done_and_planning_looks_at_the_store(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("study.yaml", "--set", "prune.l0.sparsity=[0.4, 0.7, 0.8]")
    code, said = call(monkeypatch, capsys, study.parent, "run", *words, "--workers", "1", "-v", "--out", str(tmp_path / "out"))
    assert code == 0
    assert "27 of 36 jobs done already, 9 to do" in said
    assert re.search(r"search 80 % seed 0: begins \(search \w{32}\)", said)
    (tmp_path / "file").write_text("x")
    code, said = call(monkeypatch, capsys, study.parent, "plan", "study.yaml", "--store", str(tmp_path / "file" / "store"))
    assert code == 2
    assert "cannot be a store" in said


def test_a_missing_head_is_seen_by_planning(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "study.yaml",
        "--set",
        "fine_tune=null",
        "--set",
        "model={checkpoint: minilm, labels: [entailment, non-entailment]}",
    ]
    for command in ("plan", "run"):
        code, said = call(monkeypatch, capsys, study.parent, command, *words)
        assert code == 2
        assert "model minilm: it has no trained classification head" in said
        assert "add fine_tune to the study" in said


def test_tries_of_the_hub_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    quiet_hub()
    logger = logging.getLogger("huggingface_hub.utils._http")
    for i in range(5):
        logger.warning(f"'[Errno 111] Connection refused' thrown while requesting HEAD https://hub/{i}")
        logger.warning(f"Retrying in {i}s [Retry {i}/5].")
    logger.warning("something else")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("The hub does not answer; trying again a few times")
    assert said[1] == "something else"


def test_no_colour_is_kept_away(study: Path) -> None:
    for variable, coloured in ({"NO_COLOR": "1"}, False), ({}, True):
        env = {**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "FORCE_COLOR": "1", **variable}
        done = subprocess.run(
            [sys.executable, "-m", "corewood", "plan", "none.yaml"],
            cwd=study.parent, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert ("\x1b[1;31m" in done.stderr) == coloured
