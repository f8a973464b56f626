"""The file of a batch system: what one of its jobs asks for, and how many there may be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from corewood.errors import InputError, StudyError, nearest
from corewood.spec.base import Spec, listed
from corewood.spec.loader import load_yaml
from corewood.spec.read import mistakes

System = Literal["slurm", "pbs", "lsf", "sge"]
SYSTEMS: tuple[str, ...] = get_args(System)
UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}  # seconds


def seconds_of(walltime: str) -> int:
    """2h, 90min, 1d, or 02:00:00."""
    if re.fullmatch(r"\d+:[0-5]\d:[0-5]\d", walltime):
        hours, minutes, seconds = map(int, walltime.split(":"))
        return 3600 * hours + 60 * minutes + seconds
    found = re.fullmatch(r"(\d+) ?(s|min|m|h|d)", walltime)
    if found is None:
        raise ValueError(f"write a time as 2h, 90min, 1d or 02:00:00, not {walltime!r}")
    return int(found[1]) * UNITS[found[2]]


def a_time(walltime: str) -> str:
    if seconds_of(walltime) < 60:
        raise ValueError("batch systems count whole minutes; give at least 1min")
    return walltime


def of_bytes(memory: str) -> str:
    if re.fullmatch(r"\d+(\.\d+)? ?[kMGT]i?B", memory) is None:
        raise ValueError(f"write an amount as 8GB or 500MB, not {memory!r}")
    return memory


def a_range(given: object) -> object:
    """8 (up to eight), '2:16' or [2, 16]."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = (0, given)
    parts = given.split(":") if isinstance(given, str) else given
    if isinstance(parts, (list, tuple)) and len(parts) in (1, 2) and all(re.fullmatch(r"\d+", str(part)) for part in parts):
        least, most = (int(part) for part in (parts if len(parts) == 2 else (0, parts[0])))
        if 0 <= least <= most and most >= 1:
            return (least, most)
    raise ValueError("say how many jobs at the most, as 8, or at least and at most, as 2:16")


def a_name(given: object) -> object:
    """Some are numbers."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Name = Annotated[str, BeforeValidator(a_name, json_schema_input_type=str | int)]


class Cluster(Spec):
    """One job of the batch system is one worker, which does one job of the study at a time."""

    system: System = Field(..., description="slurm, pbs, lsf or sge")
    queue: Name | None = Field(None, description="partition or queue; default: the system's")
    account: Name | None = Field(None, description="who pays; default: yours")
    walltime: Annotated[str, AfterValidator(a_time)] = Field("2h", description="of one job, as 2h, 90min or 02:00:00")
    memory: Annotated[str, AfterValidator(of_bytes)] | None = Field(
        None, description="of one job, as 8GB; default: the system's own for slurm, 8GB elsewhere"
    )
    cores: int = Field(1, ge=1, description="of one job; only fine_tune.threads makes use of more than one")
    gpus: Literal[0, 1] = Field(0, description="of one job: 0, or 1")
    jobs: Annotated[tuple[int, int], BeforeValidator(a_range, json_schema_input_type=int | str | list[int])] = Field(
        (0, 8), description="how many at a time: at the most, 8, or at least and at most, 2:16"
    )
    environment: Annotated[tuple[str, ...], listed(str)] = Field(
        (), description="lines of shell before Python starts: module load, source .../activate, export"
    )
    directives: Annotated[tuple[str, ...], listed(str)] = Field(
        (), description="further lines for the batch system, without its prefix: --qos=long"
    )
    python: str | None = Field(None, description="the Python of the nodes; default: the one that runs this command")
    host: str | None = Field(None, description="the address by which nodes reach this machine; default: its own")
    poll: float = Field(10.0, gt=0, description="seconds between two looks at the queue")

    @property
    def seconds(self) -> int:
        return seconds_of(self.walltime)

    @property
    def clock(self) -> str:
        """The walltime, as 02:00:00."""
        return f"{self.seconds // 3600:02}:{self.seconds % 3600 // 60:02}:{self.seconds % 60:02}"


def read_cluster(given: str | Path, changes: dict[str, Any] | None = None) -> Cluster:
    """A file, or the name of a system; `changes` are options of the command line, where they were given."""
    raw: Any = {"system": str(given)}
    if str(given) not in SYSTEMS:
        path = Path(given)
        try:
            raw = load_yaml(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            known = f"an address (tcp://host:port), a file, or one of {', '.join(SYSTEMS)}"
            raise InputError(f"--cluster {given}: no such file.{nearest(str(given), SYSTEMS)} Give {known}") from None
        except (OSError, UnicodeDecodeError, TypeError, yaml.YAMLError) as problem:
            raise InputError(f"--cluster {given}: cannot be read ({' '.join(str(problem).split())})") from None
        if not isinstance(raw, dict):
            raise InputError(f"--cluster {given}: is no file of a batch system; corewood cluster new writes one to begin with")
    raw = {**raw, **{key: value for key, value in (changes or {}).items() if value is not None}}
    try:
        return Cluster.model_validate(raw)
    except ValidationError as problem:
        raise StudyError(str(given), mistakes(problem, raw, Cluster)) from None


TEMPLATE = """\
# A batch system for corewood run STUDY.yaml --cluster {name}
# Try it first: corewood cluster check {name}
system: {system}          # slurm, pbs, lsf or sge
# queue: gpu            # partition or queue; left out: the system's own
# account: my-project   # who pays
walltime: 2h            # of one job; a search or training that takes longer goes on in the next one
# memory: 8GB           # of one job; BERT-base takes 4 to 8 GB
cores: 1                # of one job; only fine_tune.threads makes use of more
gpus: 0                 # of one job: 0, or 1
jobs: 0:8               # how many at a time: at least and at most; idle ones are given back
# environment:          # lines of shell before Python starts
#   - module load python/3.11
#   - source ~/corewood/bin/activate
# directives:           # further lines for the batch system
#   - --qos=long
# python: ~/corewood/bin/python   # of the nodes; left out: the one that runs corewood
# host: 10.0.0.1        # by which nodes reach this machine; left out: its own address
# poll: 10              # seconds between two looks at the queue
"""


def write_template(path: Path, system: str) -> None:
    if system not in SYSTEMS:
        raise InputError(f"--system {system}: unknown.{nearest(system, SYSTEMS)} Known are {', '.join(SYSTEMS)}")
    if path.exists():
        raise InputError(f"{path}: exists already; choose another name")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    try:
        path.write_text(TEMPLATE.format(name=path, system=system), encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror}); choose another place") from None
