"""The command line. Heavy imports stand inside the commands: `--help` answers at once."""

from __future__ import annotations

import sys

import typer

from corewood.cli import agree, compare, demo, doctor, plan, report, run
from corewood.errors import CorewoodError

app = typer.Typer(
    name="corewood",
    help="Find the subnetworks inside a fine-tuned language model, and see which of them still generalise.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with [bold]corewood demo[/bold]. Exit codes: 0 all done, 1 some jobs failed, 2 something to correct.",
)
for module in (demo, run, plan, report, compare, agree, doctor):
    app.command(name=module.NAME)(module.command)


def version(wanted: bool) -> None:
    if wanted:
        from corewood import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Show the version and leave."),
) -> None:
    pass


def main() -> None:
    try:
        app(prog_name="corewood")
    except CorewoodError as problem:
        typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(str(problem), err=True)
        sys.exit(2)
