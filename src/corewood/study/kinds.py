"""All kinds of jobs, by name."""

from __future__ import annotations

from corewood.study import models
from corewood.study.job import Kind
from corewood.study.questions import QUESTIONS
from corewood.study.ways import WAYS

TABLES = Kind("tables", 7, "collect tables", "second", 0.0, None)
REPORT = Kind("report", 7, "draw the report", "second", 0.0, None)
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *models.KINDS,
        *(k for way in WAYS for k in way.KINDS),
        *(k for q in QUESTIONS for k in q.kinds),
        TABLES,
        REPORT,
    )
}
