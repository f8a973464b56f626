"""The command line."""

from __future__ import annotations

import sys

import typer

from corewood.cli.commands import app
from corewood.errors import CorewoodError


def main() -> None:
    try:
        app(prog_name="corewood")
    except CorewoodError as problem:
        typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(str(problem), err=True)
        sys.exit(2)
