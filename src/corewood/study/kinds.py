"""All kinds of jobs, by name."""

from __future__ import annotations

from corewood.study import models
from corewood.study.job import Kind
from corewood.study.questions import QUESTIONS
from corewood.study.ways import WAYS

TABLES = Kind("tables", 19, "collect tables", "second", 0.0, None)
REPORT = Kind("report", 25, "draw the report", "second", 0.0, None)
OF_WAYS = [kind for way in WAYS for kind in way.KINDS]
OF_QUESTIONS = [kind for question in QUESTIONS for kind in question.kinds]
KINDS: dict[str, Kind] = {kind.name: kind for kind in (*models.KINDS, *OF_WAYS, *OF_QUESTIONS, TABLES, REPORT)}
