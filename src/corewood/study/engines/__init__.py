"""Who runs the jobs: this process, or worker processes here or elsewhere."""

from corewood.study.engines.engine import Engine as Engine
from corewood.study.engines.engine import Event as Event
from corewood.study.engines.inline import Inline as Inline
from corewood.study.processes import cores


def engine(workers: int | None) -> Engine:
    """So many processes on this machine; None: one per core or, where there are GPUs, one per GPU and others beside them."""
    if workers == 1 or (workers is None and cores() == 1):
        return Inline()
    from corewood.study.engines.local import Workers  # dask is slow to import, and one process does not need it

    return Workers(workers)
