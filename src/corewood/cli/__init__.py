"""The command line."""

from corewood.cli.commands import main as main
