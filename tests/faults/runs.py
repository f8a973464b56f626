"""Attacks on a run and on what it leaves: kills, damage, outsiders. All must give the tables of a run that nobody attacked."""

from __future__ import annotations

import random
import shutil
import signal
import time

import psutil
from faults.given import Attack
from faults.mutate import harm
from faults.workshop import Workshop

from corewood.store.store import Store
from corewood.study.run import state_of


def kills(rng: random.Random, shop: Workshop) -> str:
    """Up to three times killed at a random moment, with one worker or two; then finished."""
    store = shop.folder / "killed"
    shutil.rmtree(store, ignore_errors=True)
    for _ in range(rng.randrange(1, 4)):
        process = shop.started(store, "--workers", str(rng.choice((1, 2))))
        try:
            process.wait(rng.uniform(2, shop.seconds))
        except Exception:
            killed(process.pid, rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            process.wait()
    return shop.differs(store)


def killed(pid: int, how: int) -> None:
    """A process and, a little later, all that it began."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    family[0].send_signal(how)
    psutil.wait_procs(family, timeout=60)


def damage(rng: random.Random, shop: Workshop) -> str:
    """Some files of entries spoilt, swapped or removed; some whole entries swapped."""
    store = shop.store()
    files = [path for path in (store / "entries").rglob("*") if path.is_file()]
    for _ in range(rng.randrange(1, 4)):
        harm(rng, [path for path in files if path.exists()])
    if rng.random() < 0.4:
        one, other = rng.sample(sorted((store / "entries" / rng.choice(("search", "predict", "encode"))).iterdir()), 2)
        one.rename(store / "aside")
        other.rename(one)
        (store / "aside").rename(other)
    return shop.differs(store)


def noticed(rng: random.Random, shop: Workshop) -> str:
    """One file of an entry spoilt: looking at the store is enough to see it."""
    store = shop.store()
    files = [
        path
        for path in (store / "entries").rglob("*")
        if path.is_file() and path.parts[-3] != "data" and "data" not in path.parts
    ]
    victim = rng.choice(files)
    before = victim.read_bytes()
    harm(rng, [victim])
    if victim.exists() and victim.read_bytes() == before:
        return ""
    states = state_of(shop.whole.plan, Store(store))
    return "" if any(state.startswith("damaged") for state in states.values()) else f"{victim} was spoilt, and nobody saw it"


def scratch(rng: random.Random, shop: Workshop) -> str:
    """Killed in a long fine-tuning or search; what it had saved is spoilt; then finished."""
    from corewood.model import finetune
    from corewood.study.job import execute
    from corewood.study.ways import l0

    store, kind = Store(shop.store()), rng.choice(("fine_tune", "search"))
    job = rng.choice([job for job in shop.whole.plan.jobs.values() if job.kind == kind])
    store.discard(job.kind, job.key)
    stop, every = rng.randrange(2, 28 if kind == "fine_tune" else 9), (finetune.RESUME_EVERY, l0.SAVE_EVERY)

    class Stopped(Exception):
        pass

    def progress(done: int, total: int) -> None:
        if done >= stop * total / 30:
            raise Stopped

    finetune.RESUME_EVERY = l0.SAVE_EVERY = 0.0
    try:
        execute(job, store, progress)
    except Stopped:
        pass
    finally:
        finetune.RESUME_EVERY, l0.SAVE_EVERY = every
    files = [path for path in (store.root / "scratch").rglob("*") if path.is_file()]
    if files:
        harm(rng, files)
    if not store.has(job.kind, job.key):
        execute(job, store, lambda _done, _total: None)
    mine, theirs = (s.get(job.kind, job.key).meta["files"] for s in (store, shop.whole.store))
    return "" if mine == theirs else f"{job.title}: other files after {files and 'damage'}"


def outsiders(rng: random.Random, shop: Workshop) -> str:
    """While two workers run: nothing that listens lets a stranger in, and nothing listens to the world."""
    from distributed import Client

    store = shop.folder / "watched"
    shutil.rmtree(store, ignore_errors=True)
    process = shop.started(store, "--workers", "2")
    try:
        found: set[tuple[str, int]] = set()
        until = time.monotonic() + shop.seconds + 60
        while len(found) < 3 and process.poll() is None and time.monotonic() < until:
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            found = {(c.laddr.ip, c.laddr.port) for p in family for c in p.net_connections("tcp") if c.status == "LISTEN"}
            time.sleep(0.1)
        world = [ip for ip, _ in found if not ip.startswith("127.") and ip != "::1"]
        if world:
            return f"listens on {world}"
        for _, port in sorted(found):
            try:
                with Client(f"tcp://127.0.0.1:{port}", timeout=2, set_as_default=False) as client:
                    client.scheduler_info()
            except Exception:
                continue
            return f"a stranger is let in at port {port}"
        return ""
    finally:
        if process.poll() is None:
            killed(process.pid, signal.SIGKILL)
        process.wait()


def delivery(rng: random.Random, shop: Workshop) -> str:
    """A report's folder spoilt: refused, or written whole; nothing beside it is touched."""
    from corewood.errors import InputError
    from corewood.study.deliver import MANIFEST, deliver

    out, beside = shop.folder / "delivered", shop.folder / "beside.txt"
    shutil.rmtree(out, ignore_errors=True)
    beside.write_text("mine")
    deliver(shop.whole.report, out)
    files = [path for path in out.rglob("*") if path.is_file()]
    harm(rng, [out / MANIFEST] if rng.random() < 0.5 else files)
    if rng.random() < 0.3:
        with (out / MANIFEST).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{'0' * 64}  {rng.choice(('../beside.txt', '/etc/hostname', 'x/../../beside.txt', 'report.html'))}\n")
    try:
        deliver(shop.whole.report, out)
    except InputError:
        pass
    else:
        new, theirs = ((root / "report.html").read_bytes() for root in (out, shop.whole.report))
        if new != theirs:
            return "another report was delivered"
    return "" if beside.read_text() == "mine" else "a file beside the folder was touched"


ATTACKS: dict[str, Attack] = {
    "kills": kills,
    "damaged entries": damage,
    "damage is noticed": noticed,
    "damaged resume points": scratch,
    "report folders": delivery,
    "outsiders at ports": outsiders,
}
