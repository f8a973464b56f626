"""What the README prints is what a user types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import small
import tiny
from typer.testing import CliRunner

from corewood.cli.commands import app
from corewood.data.overlap import overlap
from corewood.spec import parse_study

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [text for kind, text in found if kind == language]


def test_the_study_and_its_commands_work_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = overlap(train=300, validation=60, per_case=4)
    names = {"first": "premise", "second": "hypothesis", "case": "kind"}
    for file, split in (("train", task.train), ("dev", task.validation), ("hard", task.challenge["cases"])):
        assert split is not None
        split.frame.rename(columns=names).to_csv(tmp_path / f"{file}.csv", index=False)
    tiny.checkpoint(tmp_path / "path" / "to" / "checkpoint", seed=6)  # right more often than not: an audit tries the labels
    study = blocks("yaml")[0]
    assert "seeds: 6" in study
    (tmp_path / "mine.yaml").write_text(study.replace("seeds: 6", "seeds: 2"), encoding="utf-8")  # the same, sooner
    lines = [line.split("#")[0].split() for block in blocks("") for line in block.splitlines() if line.startswith("corewood ")]
    assert [words[1] for words in lines] == ["audit", "plan", "run", "report"]
    monkeypatch.chdir(tmp_path)
    for words in lines:
        if words[1] == "run":
            done = small.command(*words[1:], cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            continue
        dry = ["--dry-run"] if words[1] == "audit" else []  # whole audits are run in test_audit.py
        here = CliRunner().invoke(app, [*words[1:], *dry])  # in this process, which has imported all of it
        assert here.exit_code == 0, here.output
    assert (tmp_path / "checkpoint-audit.yaml").exists()
    assert (tmp_path / "mine-report" / "report.html").exists()


def test_the_further_lines_of_a_study_are_valid() -> None:
    spec = parse_study(blocks("yaml")[0] + blocks("yaml")[1], "mine.yaml")
    assert spec.effective_size is not None
    assert spec.ablations is not None
    assert spec.attention is not None


def test_the_lottery_is_valid() -> None:
    spec = parse_study(blocks("yaml")[2], "tickets.yaml")
    assert spec.tickets is not None
    assert [task.metric for task in spec.tasks.values()] == ["matthews", "accuracy", "accuracy"]


BEFORE = """
import transformers, corewood as cw
net = transformers.AutoModelForSequenceClassification.from_pretrained("path/to/checkpoint")
tokenizer = transformers.AutoTokenizer.from_pretrained("path/to/checkpoint")
batch = tokenizer("The nun saw the cook.", "The cook saw the nun.", return_tensors="pt")
plain = net(**batch).logits
"""
AFTER = """
assert abs(logits - plain).max() > 1e-3
assert abs(net(**batch).logits - plain).max() == 0
assert abs(smaller(**batch).logits - logits).max() < 1e-5
assert smaller.num_parameters() < net.num_parameters()
"""


def test_the_library_examples_run(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "path" / "to" / "checkpoint")
    first, instead = blocks("python")
    for code in (first, BEFORE + instead + AFTER):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_two_commands_are_there() -> None:
    scripts = re.findall(r"^(scripts/\w+)", "\n".join(blocks("")), flags=re.MULTILINE)
    assert scripts == ["scripts/demo", "scripts/test"]
    for name in (*scripts, "scripts/check", "scripts/install", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK), name
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
