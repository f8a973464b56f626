"""What a question is: tables, and where it needs work of its own, a part of the plan and kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from corewood.study.job import Kind

if TYPE_CHECKING:
    from corewood.study.plan import Plan
    from corewood.study.results import Results


@dataclass(frozen=True)
class Question:
    name: str
    tables: Callable[[Results], dict[str, pd.DataFrame | None]]
    plan: Callable[[Plan], None] = lambda _plan: None
    kinds: tuple[Kind, ...] = ()
