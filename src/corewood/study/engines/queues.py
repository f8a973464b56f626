"""What batch systems say of their jobs: one command each, and how to read it."""

from __future__ import annotations

import getpass
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from corewood.errors import ClusterError
from corewood.study.engines.place import Fault

ANSWER = 30.0  # seconds for a command of the batch system; where its daemon is dead, some wait for ever


@dataclass(frozen=True)
class Seen:
    """How a job of the queue stands, and in the system's own word why."""

    state: Literal["pending", "running", "ended"]
    why: str = ""


def call(words: Sequence[str], script: str | None = None, forgiven: str = "") -> str:
    """What a command of the batch system says; or an error with its own words, unless these are `forgiven`."""
    try:
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=ANSWER, check=False)
    except FileNotFoundError:
        raise ClusterError(
            f"{words[0]}: there is no such command here; run this where the batch system can be reached"
        ) from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{words[0]}: no answer within {ANSWER:.0f} s; is the batch system at work?") from None
    if done.returncode and not (forgiven and forgiven in done.stderr):
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        raise ClusterError(f"{words[0]}: {said.replace(f'{words[0]}: ', '') or f'exit code {done.returncode}'}")
    return done.stdout


# Slurm

SLURM_ENDED: dict[str, Fault] = {
    "CANCELLED": "left", "PREEMPTED": "left", "NODE_FAIL": "left", "BOOT_FAIL": "left", "REVOKED": "left", "REQUEUED": "left",
    "TIMEOUT": "walltime", "DEADLINE": "walltime", "OUT_OF_MEMORY": "memory", "FAILED": "died", "COMPLETED": "died",
}  # fmt: skip
SLURM_AWAY = ("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
# a job that waits for one of these waits for ever
SLURM_NEVER = (
    "BadConstraints", "PartitionTimeLimit", "PartitionNodeLimit", "InvalidAccount", "InvalidQOS", "JobHeldAdmin",
    "AccountNotAllowed", "QOSNotAllowed", "PartitionInactive", "launch failed requeued held", "AssocMaxWallDurationPerJobLimit",
)  # fmt: skip


def slurm(_ids: Sequence[str]) -> dict[str, Seen]:
    words = ["squeue", "-h", "-u", getpass.getuser(), "-t", "all", "-o", "%i|%T|%r"]
    return read_slurm(call(words))


def read_slurm(text: str) -> dict[str, Seen]:
    found = {}
    for line in text.splitlines():
        number, state, why = (*line.split("|", 2), "", "")[:3]
        if state in SLURM_ENDED:
            found[number] = Seen("ended", state)
        else:
            found[number] = Seen("pending", why) if state in SLURM_AWAY else Seen("running")
    return found


# the others: read by their manuals, and not tried on a real one


def pbs(ids: Sequence[str]) -> dict[str, Seen]:
    """Of jobs that it has forgotten it says so with an error, after what it knows of the others."""
    return read_pbs(call(["qstat", "-x", "-f", *ids], forgiven="Unknown Job")) if ids else {}


def read_pbs(text: str) -> dict[str, Seen]:
    found = {}
    for part in re.split(r"(?m)^Job Id: ", text)[1:]:
        number, state = re.match(r"\d+", part), re.search(r"job_state = (\w)", part)
        if number and state:
            code = re.search(r"Exit_status = (-?\d+)", part)
            over = state[1] in "FCXE"
            found[number[0]] = (
                Seen("ended", code[1] if code else "") if over else Seen("pending" if state[1] in "QHWT" else "running")
            )
    return found


def lsf(ids: Sequence[str]) -> dict[str, Seen]:
    return read_lsf(call(["bjobs", "-a", "-noheader", "-o", "jobid stat exit_reason delimiter='|'"])) if ids else {}


def read_lsf(text: str) -> dict[str, Seen]:
    found = {}
    for line in text.splitlines():
        number, state, why = (*line.split("|", 2), "", "")[:3]
        if state in ("DONE", "EXIT"):
            found[number.strip()] = Seen("ended", why.partition(":")[0].strip() or state)
        else:
            found[number.strip()] = Seen("pending" if state in ("PEND", "PSUSP", "WAIT") else "running")
    return found


def sge(_ids: Sequence[str]) -> dict[str, Seen]:
    return read_sge(call(["qstat", "-u", getpass.getuser()]))


def read_sge(text: str) -> dict[str, Seen]:
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+ ", line)]
    return {row[0]: Seen("pending", row[4]) if "q" in row[4] or "E" in row[4] else Seen("running") for row in rows}


QUEUES: dict[str, Callable[[Sequence[str]], dict[str, Seen]]] = {"slurm": slurm, "pbs": pbs, "lsf": lsf, "sge": sge}
FAULTS: dict[str, Mapping[str, Fault]] = {
    "slurm": SLURM_ENDED,
    "pbs": {"-29": "walltime", "271": "left", "143": "left", "-27": "memory"},
    "lsf": {
        "TERM_RUNLIMIT": "walltime",
        "TERM_OWNER": "left",
        "TERM_ADMIN": "left",
        "TERM_PREEMPT": "left",
        "TERM_MEMLIMIT": "memory",
    },
    "sge": {"TIMEOUT": "walltime"},
}  # fmt: skip
WORDS: dict[str, str] = {
    "CANCELLED": "was cancelled", "PREEMPTED": "was preempted", "NODE_FAIL": "lost its node", "BOOT_FAIL": "lost its node",
    "TIMEOUT": "reached its walltime", "DEADLINE": "reached its deadline",
    "OUT_OF_MEMORY": "took more memory than it asked for",
    "TERM_RUNLIMIT": "reached its walltime", "TERM_MEMLIMIT": "took more memory than it asked for",
}  # fmt: skip


def submit(command: str, script: str, pattern: str) -> str:
    """The number of the new job. A refusal is told in the system's own words."""
    out = call(shlex.split(command), script)
    found = re.search(pattern, out)
    if found is None:
        raise ClusterError(f"{command}: its answer has no number of a job: {' '.join(out.split())[:300]}")
    return found["job_id"]
