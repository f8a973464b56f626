"""What nobody foresaw, and streams that cannot be written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults.command import corewood

from corewood.spec import schema


class Panic(BaseException):
    """As libraries raise that are not Python."""


@pytest.mark.parametrize(
    "problem", [KeyError("x"), RuntimeError("two\nlines"), RecursionError("deep"), MemoryError(), Panic("p")]
)
def test_what_nobody_foresaw_is_a_sentence_and_a_log(
    problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise problem

    monkeypatch.setattr(schema, "schema_text", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = corewood(tmp_path, "schema")
    assert found.code == 70
    assert "Traceback" not in found.err
    assert len(found.err.splitlines()) == 1
    log = re.search(r"The log with the details is (\S+\.log);", found.err)
    assert log
    text = Path(log[1]).read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" in text
    assert type(problem).__name__ in text
    assert Path(log[1]).stat().st_mode & 0o077 == 0


def test_a_program_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text("name: x\n")
    found = corewood(tmp_path, "plan", "study.yaml", "--json")
    assert found.code == 2
    assert found.out.splitlines()[-1].startswith('{"event": "error", "message": "study.yaml: ')


def run(words: list[str], stdout: int, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "corewood", *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, **env},
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_an_output_that_is_full_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = run(["schema"], full.fileno())
    assert code == 2
    assert said == "error: standard output cannot be written (No space left on device); the rest of what was said is lost\n"


def test_letters_that_a_terminal_does_not_have(tmp_path: Path) -> None:
    study = tmp_path / "études.yaml"
    study.write_text("name: é\nmodel: m\ntask: {generated: overlap}\nprune: {magnitude: {}}\n", encoding="utf-8")
    code, said = run(["plan", str(study)], subprocess.DEVNULL, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert code == 2
    assert "name: may hold letters, digits" in said
    assert "Traceback" not in said
