"""An audit: one command from a checkpoint and files to a report."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny

from corewood.cli import main
from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.data.task import Split
from corewood.evaluate.predict import logits_of
from corewood.model.load import load
from corewood.spec import read_study

Call = Callable[..., tuple[int, str, str]]
CLASSES = ("entailment", "non-entailment")
AUDIT = ("audit", "model", "--validation", "dev.csv", "--challenge", "hard.csv", "--sparsity", "0.4")
QUICK = (*AUDIT, "--seeds", "1", "--limit", "40", "--workers", "1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model, and files whose labels are its own answers: it is right on all of them."""
    home = tmp_path_factory.mktemp("audit")
    tiny.checkpoint(home / "model")
    tiny.checkpoint(home / "unnamed", labels=("LABEL_0", "LABEL_1"))
    tiny.checkpoint(home / "three", labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    broken = load(str(home / "model"))
    broken.net.classifier.weight.data[0, 0] = float("nan")
    broken.save(home / "broken")
    model, task = load(str(home / "model")), overlap(seed=1, train=32, validation=120, per_case=6)
    for name, split in (("dev", task.validation), ("hard", task.challenge["cases"])):
        some = Split(name, split.frame, split.labels)
        answers = logits_of(model, model.units.full(), encode(some, model.tokenizer, model.max_length)).argmax(1)
        labels = np.array(CLASSES)[answers]
        table = split.frame.assign(label=labels).rename(columns={"first": "premise", "second": "hypothesis", "case": "kind"})
        table.to_csv(home / f"{name}.csv", index=False)
        table.assign(label=answers).to_csv(home / f"{name}-numbers.csv", index=False)
        table.assign(label=np.arange(len(answers)) % 3).to_csv(home / f"{name}-three.csv", index=False)
        table.assign(label=(answers + np.arange(len(answers))) % 2).to_csv(home / f"{name}-half.csv", index=False)
        table.assign(label=1 - answers).to_csv(home / f"{name}-turned-numbers.csv", index=False)
        table.assign(label=np.array(CLASSES)[1 - answers]).to_json(home / f"{name}-turned.jsonl", orient="records", lines=True)
    assert len(set(pd.read_csv(home / "dev.csv")["label"])) == 2
    return home


@pytest.fixture
def corewood(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.chdir(files)
        monkeypatch.setattr(sys, "argv", ["corewood", *words])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_one_command_from_files_to_a_report_and_again(files: Path, corewood: Call) -> None:
    code, out, said = corewood(*QUICK)
    assert code == 0, said
    assert "validation  dev.csv   premise + hypothesis  label  -       120" in said
    assert "challenge   hard.csv  premise + hypothesis  label  kind    108" in said
    assert "Tried: the model is right on 100% of 120 validation examples" in said
    assert said.index("Guessed") < said.index("Reading the data")
    assert f"Report: {(files / 'model-audit-report/report.html').as_uri()}" in out
    written = (files / "model-audit.yaml").read_text()
    assert "# yaml-language-server: $schema=file://" in written
    spec = read_study(files / "model-audit.yaml")
    assert spec.prune.l0 is not None
    assert (spec.name, spec.model.checkpoint, spec.prune.l0.sparsity) == ("model-audit", "model", (0.4,))
    assert (files / "model-audit-report" / "report.html").exists()
    sizes = pd.read_parquet(files / "model-audit-report/tables/sizes.parquet").query("way == 'l0'")
    assert sizes["unseen_kl"].tolist() == sizes["held_kl"].tolist()  # the validation set is what searches learnt from

    code, out, said = corewood(*QUICK)
    assert code == 0
    assert "Nothing to compute: every job was done" in out
    assert "Tried: the model is right on 100%" in said  # again: the files may have changed
    before = (files / "dev.csv").read_text()
    turned = pd.read_json(files / "dev-turned.jsonl", orient="records", lines=True)
    turned.to_csv(files / "dev.csv", index=False)
    code, _, said = corewood(*QUICK)
    (files / "dev.csv").write_text(before)
    assert (code, "dev.csv: the model is right on 0% of 120 examples" in said) == (2, True)

    code, out, _ = corewood("run", "model-audit.yaml", "--quiet")
    assert (code, out) == (0, (files / "model-audit-report/report.html").as_uri() + "\n")

    more = [word if word != "1" or QUICK[i - 1] != "--seeds" else "2" for i, word in enumerate(QUICK)]
    code, out, _ = corewood(*more, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[:5] == ["begin", "guess", "trial", "study", "note"]
    planned = next(event for event in events if event["event"] == "planned")
    assert (planned["jobs"], planned["done"]) == (14, 10)
    assert {event["state"] for event in events if event["event"] == "job"} == {"started", "done"}
    result = events[-1]
    assert (result["event"], result["complete"], result["computed"], result["holes"]) == ("result", True, 4, [])
    assert result["headline"]
    assert read_study(files / "model-audit.yaml").prune.l0.seeds == (0, 1)  # type: ignore[union-attr]

    (files / "model-audit.yaml").write_text(written.replace("seeds: 1", "seeds: 3"))
    code, _, said = corewood(*QUICK)
    assert code == 2
    assert "model-audit.yaml: is there already, and not as an audit wrote it. Run it with corewood run" in said
    assert "seeds: 3" in (files / "model-audit.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["model", "--validation", "dev-turned.jsonl", "--challenge", "hard-turned.jsonl"],
            "dev-turned.jsonl: the model is right on 0% of 120 examples with its labels as they stand, and on 100% with "
            "--labels entailment=non-entailment,non-entailment=entailment",
        ),
        (
            ["model", "--validation", "dev-turned-numbers.csv", "--challenge", "hard-turned-numbers.csv"],
            "and on 100% with --labels 0=non-entailment,1=entailment. Say which is right",
        ),
        (
            ["model", "--validation", "dev.csv", "--challenge", "hard-numbers.csv"],
            "hard-numbers.csv: its labels are the numbers 0, 1, and dev.csv, which has entailment, non-entailment, does not "
            "tell what they mean. Say it with --labels 0=...,1=...",
        ),
        (
            ["unnamed", "--validation", "dev-turned.jsonl", "--challenge", "hard-turned.jsonl"],
            "--classes entailment,non-entailment (it is then right on 0% of 120 validation examples, and on 100% with "
            "--classes non-entailment,entailment)",
        ),
        (
            ["unnamed", "--validation", "dev.csv", "--challenge", "hard.csv", "--classes", "non-entailment,entailment"],
            "right on 0% of 120 examples with --classes non-entailment,entailment, and on 100% with --classes "
            "entailment,non-entailment. Say that",
        ),
        (
            ["three", "--validation", "dev-three.csv", "--challenge", "hard-numbers.csv"],
            "hard-numbers.csv: its labels are the numbers 0, 1, and dev-three.csv, which has 0, 1, 2, does not tell",
        ),
        (
            ["unnamed", "--validation", "dev-half.csv", "--challenge", "hard-half.csv"],
            "dev-half.csv: its labels are numbers, and the model is right on 50% of 120 examples if they are in the order",
        ),
        (
            ["unnamed", "--validation", "dev-turned-numbers.csv", "--challenge", "hard-turned-numbers.csv"],
            "and on 100% with --labels 0=1,1=0. Say which is right",
        ),
        (
            ["model", "--validation", "dev.csv", "--challenge", "hard.csv", "--labels", "yes=entailment"],
            "--labels: no file has the label 'yes'; they have entailment, non-entailment",
        ),
        (
            ["model", "--validation", "dve.csv", "--challenge", "hard.csv"],
            "--validation dve.csv: there is no such file. Did you mean",
        ),
        (
            ["broken", "--validation", "dev.csv", "--challenge", "hard.csv"],
            "model broken: its logits are not finite (NaN or infinite), so its weights are damaged",
        ),
        (
            ["minilm", "--validation", "dev.csv", "--challenge", "hard.csv"],
            "model minilm: it has no trained classification head",
        ),
        (["model", "--validation", "dev.csv", "--challenge", "hard.csv", "--sparsity", "50"], "--sparsity 50: give fractions"),
        (
            ["model", "--validation", "dev.csv", "--challenge", "hard.csv", "--labels", "0"],
            "write it as value=class,value=class",
        ),
        (
            ["model", "--validation", "dev.csv", "--challenge", "hard.csv", "--out", "dev.csv/x"],
            "report cannot be written there",
        ),
    ],
)
def test_what_could_be_otherwise_is_refused_with_what_to_say(
    files: Path, corewood: Call, words: list[str], message: str
) -> None:
    out = [] if "--out" in words else ["--out", "refused"]
    code, _, said = corewood("audit", *words, *out)
    assert code == 2
    assert message in " ".join(said.split())
    assert not (files / "refused.yaml").exists()


@pytest.mark.parametrize(
    ("words", "labels", "classes"),
    [
        (["model", "--validation", "dev-numbers.csv", "--challenge", "hard-numbers.csv"], CLASSES, None),
        (["unnamed", "--validation", "dev-numbers.csv", "--challenge", "hard-numbers.csv"], ("0", "1"), ("0", "1")),
        (
            [
                "model",
                "--validation",
                "dev-turned-numbers.csv",
                "--challenge",
                "hard.csv",
                "--labels",
                "1=entailment,0=non-entailment",
            ],
            CLASSES,
            None,
        ),
        (
            ["unnamed", "--validation", "dev-half.csv", "--challenge", "hard-half.csv", "--labels", "0=0,1=1"],
            ("0", "1"),
            ("0", "1"),
        ),
        (
            ["unnamed", "--validation", "dev.csv", "--challenge", "hard.csv", "--classes", ",".join(CLASSES)],
            CLASSES,
            CLASSES,
        ),
    ],
)
def test_labels_that_the_model_bears_out_are_taken(
    files: Path, corewood: Call, words: list[str], labels: tuple[str, ...], classes: tuple[str, ...] | None
) -> None:
    (files / "taken.yaml").unlink(missing_ok=True)
    code, out, said = corewood("audit", *words, "--out", "taken", "--dry-run", "--quiet")
    assert code == 0, said
    assert out.strip() == "54 jobs to do"
    spec = read_study(files / "taken.yaml")
    assert spec.task.labels == labels  # type: ignore[union-attr]
    assert spec.model.labels == classes
    assert not (files / "taken").exists()


def test_one_audit_is_not_written_over_by_another(files: Path, corewood: Call) -> None:
    shutil.copytree(files / "model", files / "other" / "model", dirs_exist_ok=True)
    words = ["--validation", "dev.csv", "--challenge", "hard.csv", "--out", "one-report", "--dry-run", "--quiet"]
    assert corewood("audit", "model", *words)[0] == 0
    before = (files / "one.yaml").read_text()
    code, _, said = corewood("audit", "other/model", *words)
    assert code == 2
    assert "one.yaml: is the audit of another model, or of other files (model)" in said
    code, _, said = corewood("audit", "model", *words, "--sparsity", "0.999")  # cannot be planned: nothing is left
    assert code == 2, said
    assert (files / "one.yaml").read_text() == before
    assert corewood("audit", "model", *words, "--sparsity", "0.4")[0] == 0  # the same, asked otherwise
    assert (files / "one.yaml").read_text() != before


def test_the_report_may_go_into_a_folder_that_is_not_there_yet(files: Path, corewood: Call, tmp_path: Path) -> None:
    (files / "link").symlink_to(tmp_path)
    words = [*AUDIT, "--out", "link/new/deep/report", "--dry-run", "--quiet"]
    assert corewood(*words, "--sparsity", "0.999")[0] == 2
    assert not (tmp_path / "new").exists()
    code, _, said = corewood(*words)
    assert code == 0, said
    assert [path.name for path in (tmp_path / "new" / "deep").iterdir()] == ["report.yaml"]


def test_new_takes_names_of_classes(files: Path, corewood: Call) -> None:
    words = ["--model", "unnamed", "--validation", "dev.csv", "--pad-token", "[PAD]", "--classes", ",".join(CLASSES)]
    code, _, said = corewood("new", "named", *words)
    assert code == 0, said
    spec = read_study(files / "named" / "study.yaml")
    assert (spec.model.labels, spec.model.pad_token) == (CLASSES, "[PAD]")
    code, _, said = corewood("new", "tuned", *words, "--train", "dev.csv", "--steps", "9")
    assert (code, "--classes: a model that is fine-tuned has the training set's" in said) == (2, True)


def test_new_takes_no_files_without_a_validation_set(files: Path, corewood: Call) -> None:
    code, _, said = corewood("new", "halfway", "--model", "model", "--challenge", "hard.csv", "--text", "premise")
    assert code == 2
    assert "--challenge, --text: are about files of your own; give --validation" in said
    code, _, said = corewood("new", "nowhere", "--model", "no-such-model")
    assert code == 2
    assert not (files / "halfway").exists()
    assert not (files / "nowhere").exists()


def test_options_that_do_not_belong_are_refused(files: Path, corewood: Call) -> None:
    code, _, said = corewood("explore", "model", "--set", "prune.l0.seeds=2", "--no-browser")
    assert (code, "--set: of a study, and model is none" in said) == (2, True)
    assert corewood("new", "planned", "--model", "model")[0] == 0
    code, _, said = corewood("plan", "planned/study.yaml", "--cluster", "slurm", "--no-measure")
    assert (code, "--cluster, --no-measure" in said) == (2, True)


def test_a_tilde_after_an_option_is_the_home_folder(
    files: Path, corewood: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    code, out, said = corewood("doctor", "--store=~/results")
    assert code == 0, said
    assert f"{tmp_path}/results" in "".join(out.split())
    assert not (files / "~").exists()
    assert not (tmp_path / "results").exists()  # looking makes nothing


def test_new_studies_plan_and_are_not_overwritten(files: Path, corewood: Call) -> None:
    own = ["--model", "model", "--validation", "dev.csv", "--challenge", "hard.csv"]
    for name, words in {"embedded": [], "as-it-is": own, "trained": [*own, "--train", "dev.csv", "--steps", "9"]}.items():
        code, out, said = corewood("new", name, *words)
        assert code == 0, said
        assert f"Next: corewood plan {name}/study.yaml" in out
        code, out, said = corewood("plan", f"{name}/study.yaml", "--no-measure", "--json")
        assert code == 0, said
        plan = json.loads(out.splitlines()[-1])
        assert (plan["name"], set(plan["counts"])) == (name, {"missing"})
        assert any(job["kind"] == "fine_tune" for job in plan["jobs"]) == (name != "as-it-is")
    before = (files / "trained" / "study.yaml").read_text()
    assert before.count("#") > 5
    code, _, said = corewood("new", "trained")
    assert code == 2
    assert "study.yaml: exists already, and is not written over" in said
    assert (files / "trained" / "study.yaml").read_text() == before
    code, _, said = corewood("new", "turned", "--model", "model", "--validation", "dev-turned.jsonl")
    assert code == 2
    assert "Say which is right, with --labels" in said
