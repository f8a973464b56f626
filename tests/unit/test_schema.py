"""The schema for editors takes what a study file takes, and marks what it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import small
import yaml

from corewood.errors import StudyError
from corewood.spec import parse_study
from corewood.spec.schema import SCHEMA, schema_text, study_schema

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.yaml"))
CHECK = jsonschema.Draft202012Validator(study_schema())
GOOD = """
name: mine
model: some/folder
task:
  validation: {path: dev.csv, text: sentence, label: gold}
prune: {l0: {sparsity: 0.5}}
"""


def problems(text: str) -> list[str]:
    raw = json.loads(json.dumps(yaml.safe_load(text)))  # keys are text, as editors have them
    return [f"{error.json_path}: {error.message}" for error in CHECK.iter_errors(raw)]


def test_the_schema_beside_the_code_is_what_the_command_prints() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), f"corewood schema > {SCHEMA.relative_to(ROOT)}"
    jsonschema.Draft202012Validator.check_schema(study_schema())


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.name)
def test_shipped_studies_are_valid_and_lead_editors_to_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert problems(text) == []
    found = re.search(r"^# yaml-language-server: \$schema=(\S+)$", text, flags=re.MULTILINE)
    assert found is not None
    assert (path.parent / found[1]).resolve() == SCHEMA


def test_the_small_studies_are_valid(tmp_path: Path) -> None:
    for path in (small.write_study(tmp_path / "a", **small.EVERYTHING), small.write_lottery(tmp_path / "b")):
        assert problems(path.read_text(encoding="utf-8")) == []


SHORT: dict[str, Any] = {
    "one text, one sparsity": GOOD,
    "a number of seeds": GOOD.replace("0.5}", "[0.5, 0.7], seeds: 3}"),
    "which seeds": GOOD.replace("0.5}", "0.5, seeds: [3, 4]}"),
    "settings of L0": GOOD.replace("0.5}", "0.5, settings: {steps: auto, budget: 0.5}}"),
    "several validation sets": GOOD.replace("{path: dev.csv", "{one: {path: dev.csv").replace("gold}", "gold}}"),
    "labels that are numbers": GOOD.replace("gold}", "gold, labels: {0: a, 1: 2}, only: {kind: [1, b], other: c}}"),
    "a way with two settings": GOOD + "  \n".join(["", "tickets: {of: l0, retrain: false, longer: []}\n"]),
    "nothing of a question": GOOD + "ablations: null\nfocus: [a, b]\n",
    "named cases": GOOD + "focus: {hard: [a, b]}\n",
    "presets": GOOD + "presets: {quick: {prune.l0.seeds: 2}}\n",
    "a mapping as model": GOOD.replace("model: some/folder", "model: {checkpoint: a, labels: [0, 1]}"),
    "a mixture": GOOD.replace("task:", "task:\n  train: [{path: a.csv, text: a}, {path: b.csv, text: [a, b], limit: 9}]"),
    "one of many ways": GOOD.replace(
        "{l0: {sparsity: 0.5}}", "{importance: [{}, {like: l0}], l0: {sparsity: 0.5}, random: {}}"
    ),
}


@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_what_a_study_takes_is_valid(text: str) -> None:
    parse_study(text, "mine.yaml")
    assert problems(text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sparsity: 0.5", "sparsity: 1.5"),
        ("sparsity: 0.5", "sparsity: half"),
        ("sparsity: 0.5", "sparsity: 0.5, seedz: 3"),
        ("sparsity: 0.5", "sparsity: 0.5, seeds: many"),
        ("sparsity: 0.5", "sparsity: 0.5, settings: {bach: 3}"),
        ("text: sentence", "text: [a, b, c]"),
        ("label: gold", "lable: gold"),
        ("name: mine", "name: my study"),
        ("name: mine\n", ""),
        ("model: some/folder", "model: 3"),
        ("prune:", "ablate: none\nprune:"),
    ],
)
def test_what_a_study_refuses_is_marked(old: str, new: str) -> None:
    text = GOOD.replace(old, new)
    with pytest.raises(StudyError):
        parse_study(text, "mine.yaml")
    assert problems(text)
