"""A chart of a benchmark as a file, in the style of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corewood.report.figures import draw
from corewood.report.page import VEGA_LITE
from corewood.report.style import styled


def save(chart: Any, path: Path) -> None:
    """SVG, PDF or PNG, by its name."""
    draw({path.stem: json.dumps(styled(chart))}, [path.suffix.removeprefix(".")], path.parent, VEGA_LITE)
