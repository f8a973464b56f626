"""The study file for editors: a JSON schema of what may stand in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corewood.spec.base import Untitled
from corewood.spec.study import StudySpec

SCHEMA = Path(__file__).with_name("study.schema.json")  # what `corewood schema` prints, beside the code for editors to find


def study_schema() -> dict[str, Any]:
    """Of the YAML as it is written: one for several, names for mappings, presets."""
    made = StudySpec.model_json_schema(schema_generator=Untitled)
    presets = {
        "type": ["object", "null"],
        "description": "names for changes: --preset NAME sets these keys, written as after --set",
        "additionalProperties": {"type": "object"},
    }
    own = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A study of Corewood's"}
    return {**made, **own, "properties": {**made["properties"], "presets": presets}}


def schema_text() -> str:
    return json.dumps(study_schema(), indent=1, ensure_ascii=False) + "\n"


def modeline(schema: str) -> str:
    """The comment by which editors find the schema."""
    return f"# yaml-language-server: $schema={schema}"
