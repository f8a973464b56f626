"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewood.errors import InputError

STORE = Path("corewood-store")

Study = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
StoreFolder = Annotated[Path, typer.Option("--store", help="Where results are kept, and found again.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: key=value, for instance prune.l0.seeds=12. May be repeated."),
]
Presets = Annotated[
    list[str] | None, typer.Option("--preset", help="Apply a preset of the study file, before --set. May be repeated.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Of the jobs, those whose title holds these words, and what they need. May be repeated."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes to run jobs in; 1 runs them in this one.", show_default="one per core"),
]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Run jobs elsewhere: a Dask scheduler (tcp://host:port), a batch system (slurm), or its file.",
        show_default="on this machine",
    ),
]
Jobs = Annotated[
    str | None, typer.Option("--jobs", help="With a batch system: how many jobs at a time, 8 or 2:16.", show_default="0:8")
]
Walltime = Annotated[str | None, typer.Option("--walltime", help="With a batch system: of one job.", show_default="2h")]
Partition = Annotated[
    str | None, typer.Option("--partition", help="With a batch system: partition or queue.", show_default="the system's")
]
Gpus = Annotated[int | None, typer.Option("--gpus", min=0, max=1, help="With a batch system: of one job.", show_default="0")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report.", show_default="NAME-report in this folder")]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser when it is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but where the report is.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: every job as it begins, and where its result is.")]
Json = Annotated[bool, typer.Option("--json", help="Events and result for programs: one JSON object on each line.")]


# lists in one word


def words_of(given: str | None) -> tuple[str, ...]:
    """premise,hypothesis"""
    return tuple(part.strip() for part in (given or "").split(",") if part.strip())


def pairs_of(given: str | None) -> dict[str, str]:
    """0=negative,1=positive"""
    found = [part.partition("=") for part in words_of(given)]
    for value, equals, name in found:
        if not (value.strip() and equals and name.strip()):
            raise InputError(f"--labels {given}: write it as value=class,value=class, for instance 0=negative,1=positive")
    return {value.strip(): name.strip() for value, _, name in found}


def sizes_of(given: str) -> tuple[float, ...]:
    """0.3,0.5,0.7"""
    try:
        found = tuple(dict.fromkeys(float(part) for part in words_of(given)))
    except ValueError:
        found = ()
    if not found or not all(0 < size < 1 for size in found):
        raise InputError(f"--sparsity {given}: give fractions of the units to remove, between 0 and 1, as 0.3,0.5,0.7")
    return found
