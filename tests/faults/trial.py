"""One attack in a process of its own: what kills, hangs or swells there is seen from here."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from corewood.errors import CorewoodError

SECONDS, MEMORY = 60, 6 * 2**30  # that one may take; the memory is of addresses, of which torch alone asks for gigabytes


def survived(attack: Callable[[], object], log: Path, seconds: float = SECONDS) -> str:
    """Nothing where the attack ended well or with a message of ours; else what happened."""
    log.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os._exit(ended(attack, log))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            said = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
            return "" if code == 0 else said or (f"died of {signal.Signals(-code).name}" if code < 0 else f"exit {code}")
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"took more than {seconds:.0f} s"


def ended(attack: Callable[[], object], log: Path) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (in_use() + MEMORY, resource.RLIM_INFINITY))
    try:
        found = attack()
    except CorewoodError:
        return 0
    except BaseException:
        log.write_text(traceback.format_exc()[-1500:], encoding="utf-8", errors="replace")
        return 1
    if found:
        log.write_text(str(found), encoding="utf-8", errors="replace")
    sys.stdout.flush()
    return int(bool(found))


def in_use() -> int:
    """Bytes of addresses that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
