"""What `corewood cluster check` looks at."""

from __future__ import annotations

import time
from pathlib import Path

from corewood.cli.screen import screen
from corewood.cli.where import Where
from corewood.errors import ClusterError, CorewoodError
from corewood.store.store import Store, versions
from corewood.study.engines.dask import Dask, different, quiet_dask
from corewood.study.engines.look import Facts, sign, wanted_by

WAIT = 600.0  # seconds for a worker to come


def check(where: Where, root: Path) -> bool:
    """Says line by line what works; whether all of it does."""
    console = screen()

    def line(good: bool, name: str, what: str) -> bool:
        console.print(f"{'[green]ok[/green]' if good else '[red]no[/red]'}  {name:12} ", end="")
        console.print(what, markup=False, soft_wrap=True)
        return good

    store = Store(root)
    try:
        store.check_writable()
        line(True, "store", f"{store.root} can be written here")
        engine = where.engine()
        assert isinstance(engine, Dask)
        facts, waited = ask(engine, store)
    except CorewoodError as problem:
        return line(False, "cluster", str(problem))
    line(True, "scheduler", "python, dask and corewood are the same as here")
    line(True, "worker", f"{facts.name} on {facts.host}, {waited:.0f} s after it was asked for")
    amiss = different(facts.versions)
    here = ", ".join(f"{name} {version}" for name, version in versions().items())
    good = line(not amiss, "versions", amiss or here)
    seen = facts.problem if "GPU" not in facts.problem else ""
    good &= line(not seen, "files", seen or "the worker sees the store, and can write into it")
    if facts.locks_apart:
        line(True, "locks", "do not keep hosts apart in this file system; leases are used")
    else:
        line(True, "locks", "keep hosts apart")
    visible = f" (CUDA_VISIBLE_DEVICES={facts.visible})" if facts.visible else ""
    bfloat16 = ", with bfloat16" if facts.bfloat16 else ""
    no_gpu = facts.problem if "GPU" in facts.problem else ""
    return good & line(not no_gpu, "device", (no_gpu or facts.device) + visible + bfloat16)


def ask(engine: Dask, store: Store) -> tuple[Facts, float]:
    """What one worker says of itself, and seconds until it was there."""
    from corewood.study.nodes import look

    quiet_dask()
    began, place = time.monotonic(), engine.place
    with sign(store) as name, place.open([], store) as client:
        while not (there := list(client.nthreads())):
            place.need(1, [], ())
            place.standing(0)  # or what went wrong
            if time.monotonic() - began > WAIT:
                raise ClusterError(f"no worker came within {WAIT / 60:.0f} minutes: {place.standing(0)}")
            time.sleep(0.5)
        waited = time.monotonic() - began
        asked = (str(store.root), name, wanted_by([]), place.patience)
        try:
            return Facts(**client.submit(look, *asked, workers=there[:1]).result()), waited
        except ImportError as problem:
            raise ClusterError(f"the worker cannot import corewood ({problem}); install it there, or set environment") from None
