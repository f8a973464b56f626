"""What a question is: tables, and where it needs work of its own, a part of the plan and kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from corewood.study.job import Kind
from corewood.study.models import Plan
from corewood.study.results import Results


@dataclass(frozen=True)
class Question:
    name: str  # in the study file, too, where it has a key there
    tables: Callable[[Results], dict[str, pd.DataFrame | None]]
    plan: Callable[[Plan, Any], Any] = lambda _plan, _wanted: None  # where its key is given: what its tables will need
    kinds: tuple[Kind, ...] = ()
