"""Study files that are hostile, damaged or absurd: a message that names the place, in no time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import small
from faults.command import corewood

from corewood.errors import InputError, StudyError
from corewood.spec import parse_study, read_study
from corewood.spec.schema import study_schema
from corewood.study import models
from corewood.study.plan import make_plan

BASE = "name: x\nmodel: m\ntask: {generated: overlap}\nprune: {magnitude: {}}\n"
NINE = ", ".join(["{}"] * 9)


def laughs(first: str, form: str) -> str:
    """Nine lines that stand for a billion values."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{i}: &a{i} {form.format(NINE.format(*[f'*a{i - 1}'] * 9))}" for i in range(1, 10)]
    return "\n".join(lines) + "\n"


def complaint(text: str) -> str:
    with pytest.raises(StudyError) as raised:
        parse_study(BASE + text, "study.yaml")
    assert len(str(raised.value)) < 10_000
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"seed: {'9' * 5000}", "line 5, .*a number that is too large"),
        (f"seed: 0x{'f' * 9000}", "line 5, .*a number that is too large"),
        ("title: " + "[" * 300 + "]" * 300, "more than 40 deep"),
        ("title: " + "{a: " * 45 + "b" + "}" * 45, "more than 40 deep"),
        ('title: "\\uD800"', "half a character"),
        ("title: &a [*a]", "holds itself"),
        (laughs("[x]", "[{}]"), "more than 100,000 values"),
        (laughs("{k: 1}", "{{<<: [{}]}}"), "more than 100,000 values"),
        ("7: x", "keys are texts"),
        ("sample: .inf", "sample: must be a finite number"),
        ("ablations: {examples: .nan}", "ablations.examples: must be a finite number"),
        ("fine_tune: {steps: 1, learning_rate: .inf}", "learning_rate: must be a finite number"),
        ("effective_size: {sparsity: [0.5], margin: .nan}", "margin: must be a finite number"),
        ("fine_tune: {steps: 1, seeds: 1000000}", "fine_tune.seeds: takes at most 1,000"),
        ("fine_tune: {steps: 1, seeds: [4294967296]}", "fine_tune.seeds.0: must be less than"),
        ("fine_tune: {steps: 1, batch: 1000000000}", "fine_tune.batch: must be 65536 or less"),
        ("fine_tune: {steps: 1, threads: 1000000000}", "fine_tune.threads: must be 1024 or less"),
        ("fine_tune: {steps: 1000000, watch: 1}", "watch: judges the model 1,000,000 times"),
        ("tickets: {random: 100000}", "tickets.random: must be 1000 or less"),
        (f"title: {'x' * 30_000}", "title: takes at most 20000 characters"),
    ],
    ids=lambda text: text[:24],
)
def test_a_study_that_means_nothing_says_where(text: str, said: str) -> None:
    assert re.search(said, complaint(text), re.DOTALL)


def test_names_and_generated_examples_have_an_end() -> None:
    for key, said in (("train: 1000000000", "task.train: must be"), ("per_case: 9999999", "task.per_case: must be")):
        with pytest.raises(StudyError, match=said):
            parse_study(f"name: x\nmodel: m\ntask: {{generated: overlap, {key}}}\nprune: {{magnitude: {{}}}}\n", "s")
    with pytest.raises(StudyError, match="name: takes at most 200 characters"):
        parse_study(BASE.replace("name: x", f"name: {'x' * 300}"), "s")


def test_a_date_is_the_text_it_is() -> None:
    assert parse_study(BASE + "title: 2024-13-45\n", "s").title == "2024-13-45"
    assert parse_study(BASE + "title: 2024-01-02\n", "s").title == "2024-01-02"


def test_many_mistakes_are_told_in_a_few_lines() -> None:
    said = complaint("\n".join(f"key{i}: 1" for i in range(500)))
    assert "500 mistakes" in said
    assert said.splitlines()[-1] == "  - and 460 more"


def numbers(part: Any, where: str = "") -> list[str]:
    """Where a schema takes whole numbers without an end."""
    if isinstance(part, list):
        return [found for one in part for found in numbers(one, where)]
    if not isinstance(part, dict):
        return []
    ends = {"maximum", "exclusiveMaximum", "const", "enum"}
    found = [where] if part.get("type") == "integer" and not ends & part.keys() else []
    return found + [deeper for key, one in part.items() for deeper in numbers(one, f"{where}.{key}")]


def test_every_whole_number_in_a_study_has_a_largest() -> None:
    open_ended = {place.rpartition(".properties.")[2] for place in numbers(study_schema())}
    assert {place.partition(".")[0] for place in open_ended} <= {"steps", "LabelName", "labels", "fold", "only"}


def test_set_takes_what_a_file_takes(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(BASE)
    for change in (f"seed={'9' * 5000}", "title={[a]: b}", f"title={'[' * 300}"):
        with pytest.raises(InputError, match="the value is not valid YAML"):
            read_study(path, [change])


def test_planning_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small.write_study(tmp_path)
    monkeypatch.setattr(models, "MOST_JOBS", 100)
    with pytest.raises(InputError, match=r"stands for more than 100 jobs, .*ask for fewer seeds"):
        make_plan(small.spec_of(path, "prune.l0.seeds=100"), tmp_path)


PATHS = {"user": ("~nosuchuser/x", "no such user's folder"), "long": ("x/" + "y" * 300, "no file can have this name")}


@pytest.mark.parametrize("which", PATHS)
@pytest.mark.parametrize("key", ["model", "task.validation.path", "prune.given.path", "patterns.annotated"])
def test_a_path_that_cannot_be(tmp_path_factory: pytest.TempPathFactory, key: str, which: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "paths"
    study = folder / "study.yaml" if folder.exists() else small.write_study(folder)
    path, said = PATHS[which]
    found = corewood(folder, "plan", study.name, "--no-measure", "--set", f"{key}={path}")
    assert (found.code, said in found.err) == (2, True), found.err


def test_a_folder_of_everything_is_not_read(tmp_path: Path) -> None:
    study = small.write_study(tmp_path)
    found = corewood(tmp_path, "plan", study.name, "--no-measure", "--set", "patterns.annotated=/")
    assert found.code == 2
    assert "/labels.csv: not there" in found.err
