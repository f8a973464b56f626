"""Who runs the jobs: this process, or worker processes."""

from corewood.study.engines.engine import Engine as Engine
from corewood.study.engines.engine import Event as Event
from corewood.study.engines.engine import cores as cores
from corewood.study.engines.inline import Inline as Inline


def engine(workers: int) -> Engine:
    if workers <= 1:
        return Inline()
    from corewood.study.engines.dask import Workers  # dask is slow to import, and one process does not need it

    return Workers(workers)
