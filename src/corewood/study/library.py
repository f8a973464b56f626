"""Studies from a notebook."""

from __future__ import annotations

from pathlib import Path

from corewood.spec import StudySpec, read_study
from corewood.store.store import Store
from corewood.study.engines import engine
from corewood.study.run import Outcome, run_study


def run(study: StudySpec | str | Path, store: str | Path = "corewood-store", workers: int = 1) -> Outcome:
    """Run a study, or go on with it. `outcome.tables` are the tidy tables, `outcome.report` the folder of the report."""
    if isinstance(study, (str, Path)):
        return run_study(read_study(study), Path(study).parent, Store(store), engine(workers))
    return run_study(study, Path(), Store(store), engine(workers))
