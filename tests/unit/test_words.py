"""A wrong value in a study file is told in the words of the file: its key, what is asked for, what was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from corewood.errors import InputError, StudyError
from corewood.spec import parse_study, read_study

GOOD = """
name: mine
model: some/folder
task:
  train: {path: t.csv, text: [a, b]}
  validation: {path: dev.csv, text: [a, b], label: gold}
prune: {l0: {sparsity: 0.5}}
"""
LEAKS = (
    "Input should",
    "valid tuple",
    "instance of",
    "constrained",
    "literal[",
    "tuple[",
    "pydantic",
    "Value error",
    "pattern",
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("prune.l0.seeds=many", "prune.l0.seeds: must be how many, as 6, or which, as [0, 1, 2] (given: 'many')"),
        ("prune.l0.seeds=[1, two]", "prune.l0.seeds.1: must be a whole number (given: 'two')"),
        ("prune.l0.seeds=1.5", "prune.l0.seeds: must be how many"),
        ("prune.l0.sparsity=half", "prune.l0.sparsity: must be a number (given: 'half')"),
        ("prune.l0.path=maybe", "prune.l0.path: must be true or false (given: 'maybe')"),
        ("prune.l0.preset=papper", "prune.l0.preset: must be 'default' or 'paper' (given: 'papper'). Did you mean 'paper'?"),
        ("prune.l0.settings.batch=0", "prune.l0.settings.batch: must be 1 or more (given: 0)"),
        ("prune.l0.settings.steps=many", "prune.l0.settings.steps: give a number of steps, 1 or more, or auto, not many"),
        ("prune.l0.settings.threshold=x", "prune.l0.settings.threshold: must be a number or 'search' (given: 'x')"),
        ("prune.l0=3", "prune.l0: must be keys with values, as {sparsity: [0.5, 0.7], seeds: 6} (given: 3)"),
        ("prune.importance=[{threshold: 2}]", "prune.importance.0.threshold: must be 1 or less (given: 2)"),
        ("prune.importance={prune: [both, both]}", "prune.importance.prune: a value stands twice in ['both', 'both']"),
        ("name=a b", "name: may hold letters, digits, dots, hyphens and underscores"),
        ("model=3", "model: must be keys with values, as {checkpoint: path/to/model}, or a name alone (given: 3)"),
        ("model.device=gpu", "model.device: must be auto, cpu, mps, cuda or cuda:NUMBER (given: 'gpu')"),
        ("task.validation=dev.csv", "task.validation: must be keys with values, as {path: file.csv"),
        ("task.validation.text=[a, b, c]", "task.validation.text: takes at most 2, not 3"),
        ("task.validation.labels={a: [b]}", "task.validation.labels.a: a label is one word or number"),
        ("fine_tune={steps: 3, checkpoints: 5}", "fine_tune.checkpoints: must be a list, as [one, other] (given: 5)"),
        ("fine_tune={steps: 3, tasks: {task: {batch: x}}}", "fine_tune.tasks.task.batch: must be a whole number (given: 'x')"),
        (
            "effective_size={sparsity: 0.3, checkpoints: al}",
            "effective_size.checkpoints: write all, or steps, for instance [0, 500] (given: 'al')",
        ),
        (
            "effective_size={sparsity: 0.3, checkpoints: [a]}",
            "effective_size.checkpoints: write all, or steps, for instance [0, 500]",
        ),
        ("ablations=true", "ablations: must be keys with values, as {pairs: true} (given: true)"),
        ("tasks={a b: {glue: cola}}", "tasks.a b: may hold letters"),
        ("task={glue: colla}", "task.glue: must be 'cola'"),
        ("sample=.inf", "sample: must be a finite number"),
        ("title=3", "title: must be a text; put it in quotes (given: 3)"),
    ],
)
def test_wrong_values(change: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(GOOD, "mine.yaml", [change])
    message = str(caught.value)
    assert f"- {said}" in message
    assert len(caught.value.mistakes) == 1
    assert not [leak for leak in LEAKS if leak in message]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: mine\nmodel: [unclosed\n", "line 2, “model: [unclosed”: the list [...] that begins here is not closed"),
        ("name: {a: b\n", "line 1, “name: {a: b”: the mapping {...} that begins here is not closed"),
        ("name: 'x\n", "line 1, “name: 'x”: the quoted text that begins here is not closed"),
        ("name: x\n model: y\n", "line 2, “model: y”: a colon where none can stand; look at the indentation"),
        ("a:\n\t- b\n", "line 2, “- b”: a tab; indent with spaces"),
        ("name: x\nname: y\n", "line 2, “name: y”: key 'name' stands twice"),
        ("a: *b\n", "line 1, “a: *b”: undefined alias 'b'"),
        ("{{x}: 1}\n", "a list or a mapping stands where a key should"),
    ],
)
def test_files_that_are_no_yaml(text: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "mine.yaml")
    assert said in str(caught.value)
    assert "unicode string" not in str(caught.value)


def test_a_folder_and_a_file_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder; give the study file itself, and there is no \.yaml in it"):
        read_study(tmp_path)
    (tmp_path / "mine.yaml").write_text(GOOD)
    with pytest.raises(InputError, match=r"is a folder; give the study file itself; in it: mine\.yaml"):
        read_study(tmp_path)
    (tmp_path / "report.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text, so it is no study file"):
        read_study(tmp_path / "report.yaml")
