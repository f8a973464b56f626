"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes to run jobs in; 1 runs them in this one.", show_default="one per core"),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report.", show_default="NAME-report in this folder")]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser when it is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but where the report is.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: every job as it begins, and where its result is.")]
Json = Annotated[bool, typer.Option("--json", help="Events and result for programs: one JSON object on each line.")]
