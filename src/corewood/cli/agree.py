from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewood.cli.options import check_new

NAME = "agree"


def command(
    masks: Annotated[
        list[Path], typer.Argument(help="Mask files (.npy, .json, .safetensors), or folders of them.", show_default=False)
    ],
    mlps: Annotated[bool, typer.Option("--mlps", help="The last column of an .npy is the MLP.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the table of pairs to this CSV file, which must not exist.")
    ] = None,
) -> None:
    """Say how far masks keep the same heads and MLPs: over all of them and pair by pair, beside random masks."""
    from corewood.cli.agreement import say_agreement

    if out is not None:
        check_new(out)
    pairs = say_agreement(masks, mlps, out)
    if out is not None:
        pairs.to_csv(out, index=False, lineterminator="\n")
        typer.echo(f"Pairs: {out}")
