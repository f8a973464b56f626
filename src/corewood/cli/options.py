"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewood.errors import InputError

Study = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
StoreFolder = Annotated[Path, typer.Option("--store", help="Where results are kept, and found again.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: key=value, for instance prune.l0.seeds=12. May be repeated."),
]
Presets = Annotated[
    list[str] | None,
    typer.Option("--preset", help="Apply a preset of the study file, before --set. May be repeated."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes to run jobs in; 1 runs them in this one.", show_default="one per core"),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report.", show_default="NAME-report in this folder")]
STORE = Path("corewood-store")


def check_new(out: Path) -> None:
    """Before any work: a file that is to be written must not be there, and its folder must."""
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name for --out")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}; make it first")
